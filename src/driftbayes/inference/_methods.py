"""Methods for computing the evidence, with their options."""

from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, TypeAlias

from driftbayes._magnitudes import as_plain, checked, whole
from driftbayes.errors import DriftbayesError, did_you_mean

Coords = Literal["natural", "log"]


class _Checked:
    """A method whose options are checked when it is made."""

    def __post_init__(self) -> None:
        """Raise an error for an option that is not a number of its kind."""
        for name, value in vars(self).items():
            if value is not None:
                is_error = name == "tolerance"
                number = checked(as_plain(value), name) if is_error else whole(value, name)
                if is_error and number <= 0:
                    raise DriftbayesError(f"tolerance must be positive, got {number:g}")
                object.__setattr__(self, name, number)


@dataclass(frozen=True)
class Auto(_Checked):
    """Exact integration over at most three parameters beside the scale, else sampling.

    Importance sampling comes first; bridge sampling follows if its weights are unreliable.

    Args:
        tolerance: Accepted error of ln Z in nats; None for the default of the method chosen.

    Example:
        >>> import driftbayes as db
        >>> brownian = db.Hypothesis(db.Brownian, kappa=db.Exponential(1.0))
        >>> tracks = db.simulate("brownian", {"kappa": 1.0}, tau=0.5, n_particles=10, n_steps=20)
        >>> data = db.displacements(tracks, tau=0.5)
        >>> db.evidence(brownian, data, method=db.Auto()).method
        'exact'
    """

    name: ClassVar[str] = "auto"
    tolerance: float | None = None


@dataclass(frozen=True)
class Exact(_Checked):
    """Quadrature with an error estimate.

    Args:
        tolerance: Accepted error of ln Z in nats; None for 1e-3 or better.

    Example:
        >>> import driftbayes as db
        >>> db.Exact(tolerance=1e-4)
        Exact(tolerance=0.0001)
    """

    name: ClassVar[str] = "quadrature"
    tolerance: float | None = None


@dataclass(frozen=True)
class Laplace:
    """The paper's approximation, a Gaussian at the posterior mode.

    Args:
        coords: Parameters in which it is Gaussian, "natural" as in the paper, or "log".

    Example:
        >>> import driftbayes as db
        >>> db.Laplace(coords="log")
        Laplace(coords='log')
    """

    name: ClassVar[str] = "laplace"
    coords: str = "natural"

    def __post_init__(self) -> None:
        """Raise an error if the coordinates are unknown."""
        if self.coords not in ("natural", "log"):
            raise DriftbayesError(f"coords must be 'natural' or 'log', got {self.coords!r}")


@dataclass(frozen=True)
class Importance(_Checked):
    """Importance sampling with quasi-random points from Student t distributions at the modes.

    Args:
        tolerance: Accepted error of ln Z in nats.
        max_evaluations: Maximum number of likelihood evaluations.

    Example:
        >>> import driftbayes as db
        >>> db.Importance(tolerance=0.02)
        Importance(tolerance=0.02, max_evaluations=None)
    """

    name: ClassVar[str] = "laplace_is"
    tolerance: float | None = None
    max_evaluations: int | None = None


@dataclass(frozen=True)
class Bridge(_Checked):
    """Bridge sampling between draws of Markov chains and a Gaussian fitted to them.

    Args:
        draws: Draws per chain.
        warmup: Initial draws per chain that are discarded.
        chains: Number of chains.

    Example:
        >>> import driftbayes as db
        >>> db.Bridge(draws=2000)
        Bridge(draws=2000, warmup=None, chains=None)
    """

    name: ClassVar[str] = "bridge"
    draws: int | None = None
    warmup: int | None = None
    chains: int | None = None


@dataclass(frozen=True)
class SMC(_Checked):
    """Sequential Monte Carlo from the prior to the posterior by tempering.

    Args:
        particles: Particles per island.
        islands: Number of independent runs, whose spread gives the error.
        moves: Metropolis moves per temperature.

    Example:
        >>> import driftbayes as db
        >>> db.SMC(particles=2048)
        SMC(particles=2048, islands=None, moves=None)
    """

    name: ClassVar[str] = "smc"
    particles: int | None = None
    islands: int | None = None
    moves: int | None = None


@dataclass(frozen=True)
class Nested(_Checked):
    """Nested sampling with slice moves.

    Args:
        live: Number of live points.
        delete: Points replaced at once.
        inner: Slice moves per replacement.
        max_evaluations: Maximum number of likelihood evaluations.

    Example:
        >>> import driftbayes as db
        >>> db.Nested(live=500)
        Nested(live=500, delete=None, inner=None, max_evaluations=None)
    """

    name: ClassVar[str] = "nested"
    live: int | None = None
    delete: int | None = None
    inner: int | None = None
    max_evaluations: int | None = None


Method: TypeAlias = Auto | Exact | Laplace | Importance | Bridge | SMC | Nested
_TYPES: dict[str, type[Method]] = {
    kind.name: kind for kind in (Auto, Exact, Laplace, Importance, Bridge, SMC, Nested)
}
METHODS = tuple(_TYPES)
# Options of all methods.
METHOD_OPTIONS = frozenset(field.name for kind in _TYPES.values() for field in fields(kind))


def as_method(method: Any, **options: Any) -> Method:
    """Return a method from its name and options, as written on the command line.

    Args:
        method: A method, or its name with options after a colon ("bridge:draws=2000,chains=8").
        **options: More options of a method given by name. `coords` is ignored unless the method is
            "laplace".

    Raises:
        DriftbayesError: The method or an option is unknown.

    Example:
        >>> as_method("bridge:draws=2000")
        Bridge(draws=2000, warmup=None, chains=None)
    """
    if not isinstance(method, str):
        if type(method) in _TYPES.values():
            return method
        raise DriftbayesError(
            f"method must be a name or a method such as Bridge(draws=2000), got {method!r}"
        )
    name, _, text = method.partition(":")
    if name not in _TYPES:
        near = did_you_mean(name, METHODS)
        raise DriftbayesError(f"method must be one of {', '.join(METHODS)}, got {name!r}{near}")
    known = [field.name for field in fields(_TYPES[name])]
    if name != "laplace":
        options.pop("coords", None)
    given = {**options, **_parse_options(text)}
    unknown = [option for option in given if option not in known]
    if unknown:
        has = f"it has {', '.join(known)}" if known else "it has none"
        near = did_you_mean(unknown[0], known)
        raise DriftbayesError(f"method {name!r} has no option {unknown[0]!r}; {has}{near}")
    return _TYPES[name](**given)


def method_text(method: Method) -> str:
    """Format a method for `as_method`: its name, and the options that are not default."""
    given = {
        field.name: getattr(method, field.name)
        for field in fields(method)
        if getattr(method, field.name) != field.default
    }
    written = ",".join(f"{name}={value}" for name, value in given.items())
    return f"{method.name}:{written}" if written else method.name


def sampler_options(method: Method) -> dict[str, Any]:
    """Return the options that were given, as keyword arguments of the sampler's function."""
    plain = ("tolerance", "max_evaluations")
    return {
        name if name in plain else f"n_{name}": value
        for name, value in vars(method).items()
        if value is not None
    }


def _parse_options(text: str) -> dict[str, Any]:
    """Parse options written as name=value, separated by commas."""
    pairs = [part.partition("=") for part in text.split(",") if part.strip()]
    found: dict[str, Any] = {}
    for name, equals, value in pairs:
        if not equals:
            raise DriftbayesError(f"expected an option of the method as name=value, got {name!r}")
        found[name.strip()] = _parse_value(value.strip())
    return found


def _parse_value(text: str) -> Any:
    """Convert text to an integer or a real number if possible."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
