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
]

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from enum import Enum
from typing import Any


class DriftbayesError(ValueError):
    """A user's slip: the message says what was expected, what came and what to do."""


class ColumnsError(DriftbayesError):
    """Columns of a table that cannot be told from their names.

    Args:
        question: Which ones, and what the file has.
        columns: Likely names of these and of the others, for the user to correct.
        advice: What else may be done, with a separator behind it.
    """

    def __init__(self, question: str, columns: Mapping[str, str], advice: str = "") -> None:
        # A damaged header may be as long as a page.
        shown = {role: name if len(name) <= 40 else "COLUMN" for role, name in columns.items()}
        self.option = ",".join(f"{role}={name}" for role, name in shown.items())
        pairs = ", ".join(f"{role!r}: {name!r}" for role, name in shown.items())
        super().__init__(
            f"{question}: {advice}pass columns={{{pairs}}} (--columns {self.option!r})"
        )


class NothingLeftError(DriftbayesError):
    """No trajectory is left; of a part of a file that need not be wrong.

    Args:
        message: What left none, and what to do.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        # What quality control has done, as it is recorded in provenance.
        self.quality: list[dict[str, Any]] = []


class DriftbayesWarning(UserWarning):
    """Something the user should know that does not stop the computation."""


class DataWarning(DriftbayesWarning):
    """Something looks wrong in the data; the message says what, and whether it was changed."""


class PriorWarning(DriftbayesWarning):
    """Prior scales were estimated from the same data."""


class DependenceWarning(DriftbayesWarning):
    """Particles move together, so that the evidence is overstated."""


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

    What can only fail inside compiled code cannot raise there; it becomes a status in the
    result, and its `advice` tells the user what to do next.
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
        "the posterior mode lies at the edge of the prior's support, where Laplace's method does "
        "not hold; use method='auto'"
    ),
    Status.HESSIAN_NOT_POSITIVE: (
        "the log-posterior is not concave at its mode, so Laplace's method does not hold; "
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
        "the sampler's own checks say that its evidence or error cannot be trusted; "
        "use another method, or more draws"
    ),
    Status.NOT_FINITE: (
        "the log-likelihood is not finite near the prior; "
        "check the units of the data and the scale of the prior"
    ),
    Status.UNBOUNDED_DENSITY: (
        "positions that repeat exactly make the density grow without bound, so the evidence is "
        "infinite; leave out repeated positions (--qc repeated or stuck), or the model"
    ),
    Status.NOT_CHECKED: (
        "no replicas could be drawn from the fitted model, so its goodness of fit is unknown; "
        "read the reason beside it, or leave the model out"
    ),
}


def shown(value: object) -> str:
    """What was given, short enough for a message."""
    if hasattr(value, "shape"):
        return f"{type(value).__name__} of shape {value.shape}"
    text = " ".join(repr(value).split())
    if not isinstance(value, str | int | float | None):
        text = f"{type(value).__name__} {text}"
    return text if len(text) <= 60 else f"{text[:59]}…"


def expect(value: object, kinds: Any, name: str, wanted: str) -> None:
    """Refuse an argument of a wrong type.

    Args:
        value: What was given.
        kinds: Types that are allowed.
        name: Name of the argument.
        wanted: What to pass, in words.

    Raises:
        DriftbayesError: The value is of another type.
    """
    if not isinstance(value, kinds):
        msg = f"{name} must be {wanted}, got {shown(value)}"
        raise DriftbayesError(msg)


# Of equal letters. At difflib's own 0.6 a `sigma` would be taken for a mistyped `gamma`.
_ALIKE = 0.7
_SHORTEST_BEGINNING = 3


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that a mistyped one stands for; None if none is near.

    Args:
        word: What was written.
        known: What may be written.
    """
    # A file may have a million columns, and a mistyped word is not as long as a page.
    names = [name for name, _ in zip(known, range(1000), strict=False)]
    folded = {name.casefold().replace("-", "_"): name for name in reversed(names)}
    written = word[:100].casefold().replace("-", "_")
    close = get_close_matches(written, folded, n=1, cutoff=_ALIKE)
    if not close and len(written) >= _SHORTEST_BEGINNING:
        begun = [name for name in folded if name.startswith(written)]
        close = begun if len(begun) == 1 else []
    return folded[close[0]] if close else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown word: empty if no known one is near.

    Args:
        word: What was written.
        known: What may be written.
    """
    found = nearest(word, known)
    return "" if found is None else f"; did you mean {found!r}?"
