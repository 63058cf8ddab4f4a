"""Methods of the evidence, each with its options."""

__all__ = [
    "METHODS",
    "SMC",
    "Auto",
    "Bridge",
    "Exact",
    "Importance",
    "Laplace",
    "Method",
    "Nested",
    "as_method",
]

from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, TypeAlias

from driftbayes.errors import DriftbayesError, did_you_mean

Coords = Literal["natural", "log"]


@dataclass(frozen=True)
class Auto:
    """Integrate exactly if at most three parameters are left beside the scale, else sample.

    Importance sampling comes first; bridge sampling where its weights cannot be trusted.

    Args:
        tolerance: Accepted error of ln Z in nats; None for the default of the method chosen.
    """

    name: ClassVar[str] = "auto"
    tolerance: float | None = None


@dataclass(frozen=True)
class Exact:
    """Integrate by quadrature, to a stated error.

    Args:
        tolerance: Accepted error of ln Z in nats; None for 1e-3 or better.
    """

    name: ClassVar[str] = "quadrature"
    tolerance: float | None = None


@dataclass(frozen=True)
class Laplace:
    """The paper's approximation: a Gaussian at the posterior mode.

    Args:
        coords: Parameters in which it is Gaussian, "natural" as in the paper, or "log".
    """

    name: ClassVar[str] = "laplace"
    coords: str = "natural"

    def __post_init__(self) -> None:
        """Refuse unknown coordinates."""
        if self.coords not in ("natural", "log"):
            raise DriftbayesError(f"coords must be 'natural' or 'log', got {self.coords!r}")


@dataclass(frozen=True)
class Importance:
    """Importance sampling with quasi-random points from Student laws at the modes.

    Args:
        tolerance: Accepted error of ln Z in nats.
        max_evaluations: Evaluations of the likelihood, at most.
    """

    name: ClassVar[str] = "laplace_is"
    tolerance: float | None = None
    max_evaluations: int | None = None


@dataclass(frozen=True)
class Bridge:
    """Bridge sampling between draws of NUTS and a proposal fitted to them.

    Args:
        draws: Draws of each chain.
        warmup: Draws of each chain that are thrown away first.
        chains: Number of chains.
    """

    name: ClassVar[str] = "bridge"
    draws: int | None = None
    warmup: int | None = None
    chains: int | None = None


@dataclass(frozen=True)
class SMC:
    """Sequential Monte Carlo from the prior to the posterior by tempering.

    Args:
        particles: Particles of each island.
        islands: Independent runs, from whose spread the error is estimated.
        moves: Metropolis moves at each temperature.
    """

    name: ClassVar[str] = "smc"
    particles: int | None = None
    islands: int | None = None
    moves: int | None = None


@dataclass(frozen=True)
class Nested:
    """Nested sampling with slice moves (needs the extra `nested`).

    Args:
        live: Number of live points.
        delete: Points replaced at once.
        inner: Slice moves of each replacement.
        max_evaluations: Evaluations of the likelihood, at most.
    """

    name: ClassVar[str] = "nested"
    live: int | None = None
    delete: int | None = None
    inner: int | None = None
    max_evaluations: int | None = None


Method: TypeAlias = Auto | Exact | Laplace | Importance | Bridge | SMC | Nested
_TYPES: dict[str, type[Method]] = {
    one.name: one for one in (Auto, Exact, Laplace, Importance, Bridge, SMC, Nested)
}
METHODS = tuple(_TYPES)


def as_method(method: Any, **options: Any) -> Method:
    """The method of a name, as it is written on the command line.

    Args:
        method: A method, or text: its name, with options after a colon
            ("bridge:draws=2000,chains=8").
        **options: More options of a method given by name. Those of Laplace's coordinates are for
            Laplace's method only, and may accompany any other.

    Raises:
        DriftbayesError: The method or an option is unknown.

    Example:
        >>> as_method("bridge:draws=2000")
        Bridge(draws=2000, warmup=None, chains=None)
    """
    if not isinstance(method, str):
        if type(method) in _TYPES.values():
            return method
        msg = f"method must be a name or a method such as Bridge(draws=2000), got {method!r}"
        raise DriftbayesError(msg)
    name, _, text = method.partition(":")
    if name not in _TYPES:
        near = did_you_mean(name, METHODS)
        raise DriftbayesError(f"method must be one of {', '.join(METHODS)}, got {name!r}{near}")
    known = [field.name for field in fields(_TYPES[name])]
    if name != "laplace":
        options.pop("coords", None)
    given = {**options, **_read(text)}
    unknown = [option for option in given if option not in known]
    if unknown:
        has = f"it has {', '.join(known)}" if known else "it has none"
        near = did_you_mean(unknown[0], known)
        raise DriftbayesError(f"method {name!r} has no option {unknown[0]!r}; {has}{near}")
    return _TYPES[name](**given)


def method_text(method: Method) -> str:
    """The text that `as_method` turns back into the method: its name, and options not default."""
    given = {
        field.name: getattr(method, field.name)
        for field in fields(method)
        if getattr(method, field.name) != field.default
    }
    written = ",".join(f"{name}={value}" for name, value in given.items())
    return f"{method.name}:{written}" if written else method.name


def sampler_options(method: Method) -> dict[str, Any]:
    """Options of a sampler that were given, by the names of its function."""
    given = {field.name: getattr(method, field.name) for field in fields(method)}
    plain = ("tolerance", "max_evaluations")
    return {
        name if name in plain else f"n_{name}": value
        for name, value in given.items()
        if value is not None
    }


def _read(text: str) -> dict[str, Any]:
    """Options written as name=value, separated by commas."""
    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
    found: dict[str, Any] = {}
    for name, equals, value in pairs:
        if not equals:
            raise DriftbayesError(f"expected an option of the method as name=value, got {name!r}")
        found[name.strip()] = _number(value.strip())
    return found


def _number(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
