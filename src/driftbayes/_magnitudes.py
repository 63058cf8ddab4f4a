"""Check numbers given by the user, so that products of three of them are finite."""

from typing import Any

from driftbayes.errors import DriftbayesError, shown

# A diffusivity is the product of three numbers, a squared speed and a time.
LARGEST = 1e100
# Largest number of replicas, lags, particles or steps.
MAX_COUNT = 10**9


def as_plain(value: Any) -> Any:
    """Return a single number of NumPy, JAX or xarray as a Python number, other values unchanged.

    Args:
        value: The value given by the user.

    Example:
        >>> import numpy as np
        >>> as_plain(np.float32(0.5)), as_plain("6h")
        (0.5, '6h')
    """
    return value.item() if hasattr(value, "item") and getattr(value, "size", 0) == 1 else value


def checked(value: object, name: str) -> float:
    """Return the value as a float; refuse other types and numbers out of range.

    Args:
        value: The value given by the user.
        name: Name of the option or parameter, for messages.

    Example:
        >>> checked(2, "u_rms")
        2.0
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise DriftbayesError(f"{name} must be a number, got {str(value)[:40]!r}")
    # Compared before the conversion: an int of a thousand digits is not a float. NaN fails.
    if value == 0 or 1 / LARGEST <= abs(value) <= LARGEST:
        return float(value)
    got = f"{value:g}" if isinstance(value, float) else f"a number of {len(str(value))} digits"
    raise DriftbayesError(
        f"{name} must be a number of magnitude {1 / LARGEST:g} to {LARGEST:g}, got {got}; choose "
        "other units"
    )


def checked_count(value: int, name: str) -> int:
    """Return the value; refuse a count that is too large.

    Args:
        value: The count given by the user.
        name: Name of the option, for messages.

    Example:
        >>> checked_count(200, "--replicas")
        200
    """
    if abs(value) > MAX_COUNT:
        msg = f"{name} must be a whole number of at most {MAX_COUNT:,}, got {str(value)[:24]}"
        raise DriftbayesError(msg)
    return value


def whole(value: Any, name: str, least: int = 0) -> int:
    """Return the value as an int; refuse fractions, small numbers and more than 64 bits.

    Args:
        value: The value given by the user.
        name: Name of the option or parameter, for messages.
        least: Smallest allowed value.

    Example:
        >>> whole(3.0, "n_folds", 2)
        3
    """
    value = as_plain(value)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or value % 1 or not least <= value < 2**64:
        raise DriftbayesError(f"{name} must be a whole number, {least} or more, got {shown(value)}")
    return int(value)
