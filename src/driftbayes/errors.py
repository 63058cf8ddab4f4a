"""Errors, warnings, statuses with advice, and suggestions for misspelt names."""

__all__ = [
    "OUT_OF_MEMORY",
    "ColumnsError",
    "DataWarning",
    "DependenceWarning",
    "DriftbayesError",
    "DriftbayesWarning",
    "NothingLeftError",
    "PriorWarning",
    "Status",
    "did_you_mean",
    "expect",
    "is_out_of_memory",
    "nearest",
    "shown",
    "warn",
]

import sys
import warnings
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from enum import Enum
from itertools import islice
from typing import Any


class DriftbayesError(ValueError):
    """A user error: the message says what is wrong, what was expected and what to do.

    Example:
        >>> import driftbayes as db
        >>> db.Exponential(mean="a")
        Traceback (most recent call last):
        driftbayes.errors.DriftbayesError: a number of a prior or model must be a number, got 'a'
    """


class ColumnsError(DriftbayesError):
    """Columns of a table are not recognised by their names.

    Args:
        question: The missing columns, and those in the file.
        columns: Suggested column names for each role.
        advice: Alternative, with a trailing separator.
    """

    def __init__(self, question: str, columns: Mapping[str, str], advice: str = "") -> None:
        # Names in a damaged header may be very long.
        shown = {role: name if len(name) <= 40 else "COLUMN" for role, name in columns.items()}
        self.option = ",".join(f"{role}={name}" for role, name in shown.items())
        pairs = ", ".join(f"{role!r}: {name!r}" for role, name in shown.items())
        super().__init__(
            f"{question}: {advice}pass columns={{{pairs}}} (--columns {self.option!r})"
        )


class NothingLeftError(DriftbayesError):
    """No trajectory remains; for a block of a file this need not be an error.

    Args:
        message: The reason, and what to do.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        # Record of quality control, as stored in provenance.
        self.quality: list[dict[str, Any]] = []


class DriftbayesWarning(UserWarning):
    """A message to the user that does not stop the computation.

    Example:
        >>> import warnings
        >>> import driftbayes as db
        >>> warnings.filterwarnings("ignore", category=db.DriftbayesWarning)
        >>> issubclass(db.PriorWarning, db.DriftbayesWarning)
        True
    """


class DataWarning(DriftbayesWarning):
    """A problem in the data; the message says what, and whether the data were changed.

    Example:
        >>> import warnings
        >>> import driftbayes as db
        >>> warnings.filterwarnings("ignore", category=db.DataWarning)
    """


class PriorWarning(DriftbayesWarning):
    """Prior scales were estimated from the same data.

    Example:
        >>> import warnings
        >>> import driftbayes as db
        >>> warnings.filterwarnings("ignore", category=db.PriorWarning)
    """


class DependenceWarning(DriftbayesWarning):
    """Particles move together, so that the evidence is overstated.

    Example:
        >>> import warnings
        >>> import driftbayes as db
        >>> warnings.filterwarnings("ignore", category=db.DependenceWarning)
    """


def warn(text: str, category: type[DriftbayesWarning] = DriftbayesWarning) -> None:
    """Warn at the line outside this package that led here, which is the user's own."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] == "driftbayes":
        level, frame = level + 1, frame.f_back
    warnings.warn(text, category, stacklevel=level)


OUT_OF_MEMORY = (
    "the computation does not fit in memory; use shorter runs (--n-tau), a longer tau, fewer "
    "trajectories or fewer parameters"
)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether Python, NumPy or the compiled code of JAX ran out of memory."""
    text = str(error).lower()
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError)
        and ("resource_exhausted" in text or "out of memory" in text)
    )


class Status(Enum):
    """How a numerical computation ended. The value is the name stored in files.

    Failures inside compiled code cannot raise an exception. They become a status of the result,
    and `advice` says what to do.

    Example:
        >>> import driftbayes as db
        >>> db.Status("ok").advice
        'converged'
    """

    OK = "ok"
    MAP_NOT_CONVERGED = "map_not_converged"
    MODE_AT_BOUND = "mode_at_bound"
    HESSIAN_NOT_POSITIVE = "hessian_not_positive"
    LAPLACE_UNRELIABLE = "laplace_unreliable"
    QUADRATURE_NOT_CONVERGED = "quadrature_not_converged"
    SAMPLER_NOT_CONVERGED = "sampler_not_converged"
    NOT_FINITE = "not_finite"
    UNBOUNDED_DENSITY = "unbounded_density"
    NOT_CHECKED = "not_checked"

    @property
    def advice(self) -> str:
        """One sentence: what happened and what to do."""
        return _ADVICE[self]


_ADVICE = {
    Status.OK: "converged",
    Status.MAP_NOT_CONVERGED: (
        "the search for the posterior mode did not converge; "
        "check the data for outliers and the prior for a wrong unit"
    ),
    Status.MODE_AT_BOUND: (
        "the posterior mode lies at the edge of the prior's support, where Laplace's method is not "
        "valid; use method='auto'"
    ),
    Status.HESSIAN_NOT_POSITIVE: (
        "the log-posterior is not concave at its mode, so Laplace's method is not valid; "
        "use method='auto'"
    ),
    Status.LAPLACE_UNRELIABLE: (
        "Laplace's method in natural and in log parameters disagrees by more than 0.05 nats, so "
        "neither can be trusted; use method='auto'"
    ),
    Status.QUADRATURE_NOT_CONVERGED: (
        "the integral over the parameters did not converge to the requested accuracy; "
        "use a narrower prior, or check that its unit is that of the data"
    ),
    Status.SAMPLER_NOT_CONVERGED: (
        "the diagnostics of the sampler show that its evidence or error is unreliable; "
        "use another method, or more draws"
    ),
    Status.NOT_FINITE: (
        "the log-likelihood is not finite near the prior; "
        "check the units of the data and the scale of the prior"
    ),
    Status.UNBOUNDED_DENSITY: (
        "the density is unbounded because positions repeat exactly, so the evidence is "
        "infinite; remove repeated positions (--qc repeated or stuck), or omit the model"
    ),
    Status.NOT_CHECKED: (
        "no replicas could be drawn from the fitted model, so its goodness of fit is unknown; "
        "see the reason given, or omit the model"
    ),
}


def shown(value: object) -> str:
    """Return the value as text, short enough for a message."""
    if hasattr(value, "shape"):
        return f"{type(value).__name__} of shape {value.shape}"
    text = " ".join(repr(value).split())
    if not isinstance(value, str | int | float | None):
        text = f"{type(value).__name__} {text}"
    return text if len(text) <= 60 else f"{text[:59]}…"


def expect(value: object, kinds: Any, name: str, wanted: str) -> None:
    """Raise an error for an argument of a wrong type.

    Args:
        value: The argument.
        kinds: Allowed types.
        name: Name of the argument.
        wanted: Description of the allowed values.

    Raises:
        DriftbayesError: If the value has another type.
    """
    if not isinstance(value, kinds):
        raise DriftbayesError(f"{name} must be {wanted}, got {shown(value)}")


# With the default of difflib, 0.6, `sigma` would be a misspelt `gamma`.
_MIN_SIMILARITY = 0.7
_MIN_PREFIX = 3


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word closest to a misspelt one; None if none is close.

    Args:
        word: The misspelt word.
        known: The known words.
    """
    # Limited in number and length for speed: a file may have a million columns.
    names, word = list(islice(known, 1000)), str(word)
    folded = {name.casefold().replace("-", "_"): name for name in reversed(names)}
    written = word[:100].casefold().replace("-", "_")
    close = get_close_matches(written, folded, n=1, cutoff=_MIN_SIMILARITY)
    if not close and len(written) >= _MIN_PREFIX:
        matches = [name for name in folded if name.startswith(written)]
        close = matches if len(matches) == 1 else []
    return folded[close[0]] if close else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown word; empty if no known word is close.

    Args:
        word: The unknown word.
        known: The known words.
    """
    near = nearest(word, known)
    return "" if near is None else f"; did you mean {near!r}?"
