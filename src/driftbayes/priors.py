"""Prior distributions of parameters, all proper."""

__all__ = [
    "AbstractPrior",
    "Exponential",
    "Fixed",
    "Gamma",
    "LogNormal",
    "Normal",
    "Uniform",
    "is_signed_prior",
    "parse_prior",
    "scaling_priors",
]

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np
from scipy.special import expit, gammaincinv, gammaln, log_expit, ndtri, zeta

from driftbayes._jax_typing import Key, ScalarLike
from driftbayes._magnitudes import as_plain, checked
from driftbayes._precision import as_float, in_double_precision
from driftbayes._representation import number
from driftbayes._typing import FloatArray
from driftbayes.errors import DriftbayesError, did_you_mean, shown

# An array, or a number, which NumPy returns in place of an array without axes.
if TYPE_CHECKING:
    Numbers: TypeAlias = FloatArray
else:
    Numbers: TypeAlias = FloatArray | float


def _require(name: str, value: Any, *, condition: bool, expected: str) -> None:
    if not condition:
        raise DriftbayesError(f"{name} must be {expected}, got {value}")


class AbstractPrior(ABC):
    """A proper density on the positive numbers, on an interval of them, or on all numbers.

    Every prior defines an unconstrained coordinate z, whose support is the whole real line: ln θ,
    the log-odds of the position within an interval, or θ itself. Functions take numbers or NumPy
    arrays of any shape.
    """

    name: ClassVar[str]
    # Arguments of the constructor.
    arguments: ClassVar[tuple[str, ...]]
    # Whether θ may be negative; its posterior is then summarised in θ instead of ln θ.
    is_signed: ClassVar[bool] = False

    def __repr__(self) -> str:
        numbers = (f"{name}={_text(value, 6)}" for name, value in self._values().items())
        return f"{type(self).__name__}({', '.join(numbers)})"

    def _values(self) -> dict[str, float]:
        """Return the arguments with which the constructor makes this prior."""
        return {n: self.mean() if n == "mean" else getattr(self, n) for n in self.arguments}

    @abstractmethod
    def log_density(self, theta: Numbers) -> Numbers:
        """Return ln p(θ), normalised; minus infinity outside the support."""

    @abstractmethod
    def quantile(self, probability: Numbers) -> Numbers:
        """Return the quantile of θ at a probability."""

    @abstractmethod
    def mean(self) -> float:
        """Return the mean of θ."""

    @abstractmethod
    def log_sd(self) -> float:
        """Return the standard deviation of ln θ, or of θ if it is signed."""

    def rescaled(self, factor: float) -> "AbstractPrior":
        """Return the prior of `factor` times θ, for example of θ in other units."""
        values = self._values().items()
        return type(self)(**{n: v if n in _UNITLESS else v * factor for n, v in values})

    def describe(self, digits: int | None = None) -> str:
        """Return the text from which `parse_prior` makes this prior, with up to `digits` digits."""
        return ":".join((self.name, *(_text(v, digits) for v in self._values().values())))

    @in_double_precision
    def sample(self, key: Key, shape: tuple[int, ...] = ()) -> Numbers:
        """Draw independent samples."""
        import jax

        return self.quantile(np.asarray(jax.random.uniform(key, shape)))

    def from_unconstrained(self, z: Numbers) -> Numbers:
        """Return θ at the unconstrained coordinate z."""
        return np.exp(z)

    def to_unconstrained(self, theta: Numbers) -> Numbers:
        """Return the unconstrained coordinate of θ."""
        return np.log(theta)

    def log_jacobian(self, z: Numbers) -> Numbers:
        """Return ln |dθ/dz|."""
        return z


@dataclass(frozen=True, init=False, repr=False)
class Exponential(AbstractPrior):
    r"""$p(\theta) = e^{-\theta/\mu}/\mu$: the maximum-entropy density with mean μ.

    Paper: §4.2, [eq:prior-means].

    Args:
        mean: μ > 0, in the unit of θ.

    Example:
        >>> import driftbayes as db
        >>> prior = db.Exponential(mean=2.0)
        >>> prior.mean(), prior.describe()
        (2.0, 'exponential:2')
    """

    scale: float

    name: ClassVar[str] = "exponential"
    arguments: ClassVar[tuple[str, ...]] = ("mean",)

    def __init__(self, mean: ScalarLike) -> None:
        _set(self, scale=as_float(mean))
        _check_positive("the mean of an exponential prior", self.scale)

    def log_density(self, theta: Numbers) -> Numbers:
        return np.where(theta > 0, -theta / self.scale - np.log(self.scale), -np.inf)

    def quantile(self, probability: Numbers) -> Numbers:
        return -self.scale * np.log1p(-probability)

    def mean(self) -> float:
        return self.scale

    def log_sd(self) -> float:
        return float(np.pi / np.sqrt(6.0))


@dataclass(frozen=True, init=False, repr=False)
class Gamma(AbstractPrior):
    r"""$p(\theta) \propto \theta^{a-1} e^{-a\theta/\mu}$: shape a and mean μ.

    Args:
        shape: a > 0; 1 is the exponential, larger is narrower.
        mean: μ > 0, in the unit of θ.

    Example:
        >>> import driftbayes as db
        >>> prior = db.Gamma(shape=2.0, mean=5.0)
        >>> prior.mean(), prior.describe()
        (5.0, 'gamma:2:5')
    """

    shape: float
    scale: float

    name: ClassVar[str] = "gamma"
    arguments: ClassVar[tuple[str, ...]] = ("shape", "mean")

    def __init__(self, shape: ScalarLike, mean: ScalarLike) -> None:
        _set(self, shape=as_float(shape))
        _check_positive("the shape of a gamma prior", self.shape)
        _set(self, scale=as_float(mean) / self.shape)
        _check_positive("the mean of a gamma prior", self.mean())

    def log_density(self, theta: Numbers) -> Numbers:
        x = np.where(theta > 0, theta, 1.0) / self.scale
        value = (self.shape - 1) * np.log(x) - x - gammaln(self.shape) - np.log(self.scale)
        return np.where(theta > 0, value, -np.inf)

    def quantile(self, probability: Numbers) -> Numbers:
        return np.asarray(gammaincinv(self.shape, probability) * self.scale)

    def mean(self) -> float:
        return self.shape * self.scale

    def log_sd(self) -> float:
        # The trigamma function is ζ(2, a).
        return float(np.sqrt(zeta(2.0, self.shape)))


@dataclass(frozen=True, init=False, repr=False)
class LogNormal(AbstractPrior):
    r"""$\ln\theta \sim N(\ln m, s^2)$.

    Args:
        median: m > 0, in the unit of θ.
        sigma: s > 0, the standard deviation of ln θ.

    Example:
        >>> import driftbayes as db
        >>> prior = db.LogNormal(median=1.0, sigma=0.5)
        >>> prior.describe(), float(prior.quantile(0.5))
        ('lognormal:1:0.5', 1.0)
    """

    median: float
    sigma: float

    name: ClassVar[str] = "lognormal"
    arguments: ClassVar[tuple[str, ...]] = ("median", "sigma")

    def __init__(self, median: ScalarLike, sigma: ScalarLike) -> None:
        _set(self, median=as_float(median), sigma=as_float(sigma))
        _check_positive("the median of a lognormal prior", self.median)
        _check_positive("the sigma of a lognormal prior", self.sigma)

    def log_density(self, theta: Numbers) -> Numbers:
        log_theta = np.log(np.where(theta > 0, theta, 1.0))
        score = (log_theta - np.log(self.median)) / self.sigma
        value = -0.5 * score**2 - log_theta - np.log(self.sigma) - 0.5 * np.log(2 * np.pi)
        return np.where(theta > 0, value, -np.inf)

    def quantile(self, probability: Numbers) -> Numbers:
        return self.median * np.exp(self.sigma * ndtri(probability))

    def mean(self) -> float:
        return float(self.median * np.exp(0.5 * self.sigma**2))

    def log_sd(self) -> float:
        return self.sigma


@dataclass(frozen=True, init=False, repr=False)
class Uniform(AbstractPrior):
    """Constant density between two finite bounds, 0 or more.

    Args:
        low: Lower bound, 0 or more.
        high: Upper bound.

    Example:
        >>> import driftbayes as db
        >>> prior = db.Uniform(low=0.0, high=3.0)
        >>> prior.mean(), prior.describe()
        (1.5, 'uniform:0:3')
    """

    low: float
    high: float

    name: ClassVar[str] = "uniform"
    arguments: ClassVar[tuple[str, ...]] = ("low", "high")

    def __init__(self, low: ScalarLike, high: ScalarLike) -> None:
        _set(self, low=as_float(low), high=as_float(high))
        _require(
            "the bounds of a uniform prior",
            [self.low, self.high],
            condition=bool(0 <= self.low < self.high < np.inf),
            expected="finite with 0 <= low < high (an improper prior has no evidence)",
        )

    def log_density(self, theta: Numbers) -> Numbers:
        inside = (theta >= self.low) & (theta <= self.high)
        return np.where(inside, -np.log(self.high - self.low), -np.inf)

    def quantile(self, probability: Numbers) -> Numbers:
        return self.low + (self.high - self.low) * probability

    def mean(self) -> float:
        return 0.5 * (self.low + self.high)

    def log_sd(self) -> float:
        # From the integrals of ln θ and of its square between the bounds.
        ends = np.array([self.low, self.high])
        logs = np.log(np.where(ends > 0, ends, 1.0))
        width = self.high - self.low
        mean = np.diff(ends * (logs - 1))[0] / width
        square = np.diff(ends * (logs**2 - 2 * logs + 2))[0] / width
        return float(np.sqrt(max(square - mean**2, 0.0)))

    def from_unconstrained(self, z: Numbers) -> Numbers:
        return self.low + (self.high - self.low) * expit(z)

    def to_unconstrained(self, theta: Numbers) -> Numbers:
        # Clipped, as z is infinite at the bounds.
        fraction = np.clip((theta - self.low) / (self.high - self.low), 1e-6, 1 - 1e-6)
        return np.log(fraction) - np.log1p(-fraction)

    def log_jacobian(self, z: Numbers) -> Numbers:
        return np.log(self.high - self.low) + log_expit(z) + log_expit(-z)


@dataclass(frozen=True, init=False, repr=False)
class Normal(AbstractPrior):
    r"""$\theta \sim N(\mu, s^2)$, for a parameter that may be negative.

    Args:
        mean: μ, in the unit of θ.
        sd: s > 0.

    Example:
        >>> import driftbayes as db
        >>> prior = db.Normal(mean=0.0, sd=2.0)
        >>> prior.is_signed, prior.describe()
        (True, 'normal:0:2')
    """

    center: float
    sd: float

    name: ClassVar[str] = "normal"
    arguments: ClassVar[tuple[str, ...]] = ("mean", "sd")
    is_signed: ClassVar[bool] = True

    def __init__(self, mean: ScalarLike, sd: ScalarLike) -> None:
        _set(self, center=as_float(mean), sd=as_float(sd))
        finite = bool(np.isfinite(self.center))
        _require("the mean of a normal prior", self.center, condition=finite, expected="finite")
        _check_positive("the sd of a normal prior", self.sd)

    def log_density(self, theta: Numbers) -> Numbers:
        score = (theta - self.center) / self.sd
        return -0.5 * score**2 - np.log(self.sd) - 0.5 * np.log(2 * np.pi)

    def quantile(self, probability: Numbers) -> Numbers:
        return self.center + self.sd * ndtri(probability)

    def mean(self) -> float:
        return self.center

    def log_sd(self) -> float:
        return self.sd

    def from_unconstrained(self, z: Numbers) -> Numbers:
        return z

    def to_unconstrained(self, theta: Numbers) -> Numbers:
        return theta

    def log_jacobian(self, z: Numbers) -> Numbers:
        return np.zeros_like(z)


@dataclass(frozen=True, init=False, repr=False)
class Fixed(AbstractPrior):
    """A known value of a parameter, which is not inferred.

    Args:
        value: The value, in the unit of θ.

    Example:
        >>> import driftbayes as db
        >>> hypothesis = db.Hypothesis(db.Langevin, gamma=db.Fixed(1.0), k=db.Exponential(2.0))
        >>> hypothesis.names, hypothesis.fixed
        (('k',), {'gamma': 1.0})
    """

    value: float

    name: ClassVar[str] = "fixed"
    arguments: ClassVar[tuple[str, ...]] = ("value",)

    def __init__(self, value: ScalarLike) -> None:
        _set(self, value=as_float(value))
        finite = bool(np.isfinite(self.value))
        _require("a fixed value", self.value, condition=finite, expected="a finite number")

    def log_density(self, theta: Numbers) -> Numbers:
        # With respect to the counting measure at the value.
        return np.where(theta == self.value, 0.0, -np.inf)

    def quantile(self, probability: Numbers) -> Numbers:
        return np.full(np.shape(probability), self.value)

    def mean(self) -> float:
        return self.value

    def log_sd(self) -> float:
        return 0.0


_FAMILIES: dict[str, type[AbstractPrior]] = {
    family.name: family for family in (Exponential, Gamma, LogNormal, Uniform, Normal, Fixed)
}
# Numbers without a unit.
_UNITLESS = ("shape", "sigma")


def parse_prior(text: str, convert: Callable[[str], float] = float) -> AbstractPrior:
    """Parse a prior such as `exponential:0.5`, `lognormal:1:2`, `gamma:2:5` or `uniform:0:3`.

    Args:
        text: Family and numbers.
        convert: Converts a number with a unit, such as "10ms", to the unit of the parameter.

    Example:
        >>> parse_prior("gamma:2:5")
        Gamma(shape=2, mean=5)
    """
    family, *numbers = text.split(":")
    known = "; ".join(map(_form, _FAMILIES.values()))
    if family not in _FAMILIES:
        near = did_you_mean(family, _FAMILIES)
        raise DriftbayesError(f"unknown prior {family!r} in {text!r}; known are {known}{near}")
    make = _FAMILIES[family]
    values = _as_numbers(dict(zip(make.arguments, numbers, strict=False)), convert)
    if values is None or len(numbers) != len(make.arguments):
        raise DriftbayesError(f"prior {text!r} must be written {_form(make)}")
    for value in values:
        if np.isfinite(value):
            checked(value, f"a number of the prior {text[:80]!r}")
    return make(**dict(zip(make.arguments, values, strict=True)))


def _form(family: type[AbstractPrior]) -> str:
    """Return the form in which a prior of a family is written."""
    return ":".join((family.name, *(name.upper() for name in family.arguments)))


def is_signed_prior(text: str) -> bool:
    """Whether a prior, given as text, allows negative values."""
    family = _FAMILIES.get(text.partition(":")[0])
    return family is not None and family.is_signed


def scaling_priors(
    u_rms: float, timescale: float, *, memory: float | None = None, noise: float = 0.0
) -> dict[str, AbstractPrior]:
    r"""Make priors from a velocity and a time scale of the flow. Paper: [eq:prior-means].

    $$E[\kappa] = E[k] = u_\mathrm{rms}^2\, T, \qquad E[\gamma] = 1/T$$

    These are the priors of the paper. Other rates have the same prior as γ, except for the
    acceleration rate, with mean $10/T$. The prior mean of the measurement error is a tenth of
    $u_\mathrm{rms} T$, that of outliers $u_\mathrm{rms} T$. Numbers between 0 and 1 have a uniform
    prior, the fraction of outliers one below 1/2. Slopes of ln σ are normal with standard deviation
    $1/(u_\mathrm{rms} T)$. The mean height of a barrier is $u_\mathrm{rms}^2$, the mean distance of
    wells from it $u_\mathrm{rms} T$, and that of dimensionless numbers 1. The exposure time of a
    camera has no prior and must be given.

    Args:
        u_rms: Root mean square speed, $\sqrt{2E}$ with E the mean energy per unit mass.
        timescale: Time scale T, for example the eddy turnover time.
        memory: Time scale of the velocity for rates, by default T.
        noise: Expected measurement error, if more than a tenth of u_rms T.

    Example:
        >>> import driftbayes as db
        >>> priors = db.scaling_priors(u_rms=2.0, timescale=0.5)
        >>> priors["kappa"], priors["gamma"]
        (Exponential(mean=2), Exponential(mean=2))
    """
    memory = timescale if memory is None else memory
    for name, value in (("u_rms", u_rms), ("timescale", timescale), ("memory", memory)):
        size = as_plain(value)
        if not (isinstance(size, int | float) and np.isfinite(size) and size > 0):
            raise DriftbayesError(f"{name} must be a positive number, got {shown(value)}")
        checked(float(size), name)
    diffusivity, rate = Exponential(mean=u_rms**2 * timescale), Exponential(mean=1 / memory)
    unit = Uniform(low=0.0, high=1.0)
    return {
        "kappa": diffusivity,
        "k": diffusivity,
        "gamma": rate,
        "rate": rate,
        "omega": rate,
        "well": rate,
        "accel": Exponential(mean=10 / memory),
        "smoothness": Exponential(mean=1.0),
        "ratio": unit,
        "share": unit,
        "common": unit,
        "length": Exponential(mean=u_rms * timescale),
        "own": unit,
        "nu": Fixed(1.5),
        "divergence": Fixed(0.0),
        "hurst": unit,
        "reference": Fixed(timescale),
        "sigma": Exponential(mean=max(0.1 * u_rms * timescale, noise)),
        "flow": Fixed(u_rms),
        "gradient": Fixed(1 / memory),
        "scatter": Exponential(mean=0.5),
        "tail": Uniform(low=0.0, high=0.5),
        "fraction": Uniform(low=0.0, high=0.5),
        "spread": Exponential(mean=u_rms * timescale),
        **{f"h{i}": Normal(mean=0.0, sd=1.0) for i in range(1, 6)},
        **{f"slope{i}": Normal(mean=0.0, sd=1 / (u_rms * timescale)) for i in (1, 2)},
        "nonlinearity": Exponential(mean=1.0),
        "barrier": Exponential(mean=u_rms**2),
        "separation": Exponential(mean=u_rms * timescale),
        "intermittency": Exponential(mean=1.0),
        "renewal": rate,
    }


def _text(value: float, digits: int | None) -> str:
    short = number(value, digits or 6)
    # A prior stored in a file must be restored to the last bit.
    return short if digits is not None or float(short) == value else repr(value)


def _as_numbers(texts: Mapping[str, str], convert: Callable[[str], float]) -> list[float] | None:
    values = []
    for field, text in texts.items():
        try:
            values.append(float(text))
        except ValueError:
            if field in _UNITLESS or not text.strip(" +-.")[:1].isdigit() or convert is float:
                return None
            values.append(convert(text))
    return values


def _set(prior: AbstractPrior, **values: float) -> None:
    """Set the numbers of a prior in its constructor; they do not change later."""
    for name, value in values.items():
        object.__setattr__(prior, name, value)


def _check_positive(name: str, value: float) -> None:
    valid = bool(0 < value < np.inf)
    _require(name, value, condition=valid, expected="a positive, finite number")
