"""Numbers that a user gives, small enough that products of three of them stay finite."""

__all__ = ["LARGEST", "MAX_COUNT", "checked", "checked_count", "whole"]

import math
from typing import Any

from driftbayes.errors import DriftbayesError, shown

# A diffusivity is the square of a speed times a time: three such numbers still have a product.
LARGEST = 1e100
# Of whatever a user may ask for: replicas, lags, particles, steps.
MAX_COUNT = 10**9


def checked(value: object, name: str) -> float:
    """The value as a float, refused if it is no number or out of range.

    Args:
        value: What the user gave.
        name: Of the option or parameter, for messages.

    Example:
        >>> checked(2, "u_rms")
        2.0
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise DriftbayesError(f"{name} must be a number, got {str(value)[:40]!r}")
    # As they are compared: a whole number of a thousand digits is no float.
    if not math.isnan(value if isinstance(value, float) else 0.0) and (
        value == 0 or 1 / LARGEST <= abs(value) <= LARGEST
    ):
        return float(value)
    shown = f"{value:g}" if isinstance(value, float) else f"a number of {len(str(value))} digits"
    raise DriftbayesError(
        f"{name} must be a number whose size lies between {1 / LARGEST:g} and {LARGEST:g}, got "
        f"{shown}; choose other units"
    )


def checked_count(value: int, name: str) -> int:
    """The value, refused if it is larger than anything that can be counted here.

    Args:
        value: What the user gave.
        name: Of the option, for messages.

    Example:
        >>> checked_count(200, "--replicas")
        200
    """
    if abs(value) > MAX_COUNT:
        msg = f"{name} must be a whole number of at most {MAX_COUNT:,}, got {str(value)[:24]}"
        raise DriftbayesError(msg)
    return value


def whole(value: Any, name: str, least: int = 0) -> int:
    """The value as an int, refused if it is no whole number, too small, or of more than 64 bits.

    Args:
        value: What the user gave.
        name: Of the option or parameter, for messages.
        least: The smallest that is allowed.

    Example:
        >>> whole(3.0, "n_folds", 2)
        3
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or value % 1 or not least <= value < 2**64:
        raise DriftbayesError(f"{name} must be a whole number, {least} or more, got {shown(value)}")
    return int(value)
