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

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.scipy.special as jsp
import numpy as np
from jaxtyping import Array, Float

from driftbayes.errors import DriftbayesError, did_you_mean
from driftbayes.jax_typing import Key, Number, Scalar, ScalarLike
from driftbayes.magnitudes import checked
from driftbayes.precision import as_number
from driftbayes.representation import number


def _require(name: str, value: Any, *, condition: bool, expected: str) -> None:
    if not condition:
        raise DriftbayesError(f"{name} must be {expected}, got {np.asarray(value).tolist()}")


class AbstractPrior(eqx.Module):
    """A proper density on the positive numbers, on an interval of them, or on all numbers.

    Every prior defines an unconstrained coordinate z, whose support is the whole real line: ln θ,
    the log-odds of the position within an interval, or θ itself.
    """

    name: ClassVar[str]
    # Whether θ may be negative; its posterior is then summarised in θ instead of ln θ.
    is_signed: ClassVar[bool] = False

    def __repr__(self) -> str:
        try:
            family, *values = self.describe(6).split(":")
        except Exception:
            # Inside a compiled function the numbers are unknown.
            return str(eqx.Module.__repr__(self))
        fields = _FAMILIES[family][1]
        numbers = ", ".join(f"{name}={value}" for name, value in zip(fields, values, strict=True))
        return f"{type(self).__name__}({numbers})"

    @abstractmethod
    def log_density(self, theta: Float[Array, "..."]) -> Float[Array, "..."]:
        """Return ln p(θ), normalised; minus infinity outside the support."""

    @abstractmethod
    def quantile(self, probability: Float[Array, "..."]) -> Float[Array, "..."]:
        """Return the quantile of θ at a probability."""

    @abstractmethod
    def mean(self) -> Number:
        """Return the mean of θ."""

    @abstractmethod
    def log_sd(self) -> Number:
        """Return the standard deviation of ln θ, or of θ if it is signed."""

    @abstractmethod
    def rescaled(self, factor: ScalarLike) -> "AbstractPrior":
        """Return the prior of `factor` times θ, for example of θ in other units."""

    @abstractmethod
    def describe(self, digits: int | None = None) -> str:
        """Return the text from which `parse_prior` makes this prior, with up to `digits` digits."""

    def sample(self, key: Key, shape: tuple[int, ...] = ()) -> Float[Array, "..."]:
        """Draw independent samples."""
        return self.quantile(jax.random.uniform(key, shape, dtype=self.mean().dtype))

    def from_unconstrained(self, z: Scalar) -> Scalar:
        """Return θ at the unconstrained coordinate z."""
        return jnp.exp(z)

    def to_unconstrained(self, theta: Scalar) -> Scalar:
        """Return the unconstrained coordinate of θ."""
        return jnp.log(theta)

    def log_jacobian(self, z: Scalar) -> Scalar:
        """Return ln |dθ/dz|."""
        return z


class Exponential(AbstractPrior):
    r"""$p(\theta) = e^{-\theta/\mu}/\mu$: the maximum-entropy density with mean μ.

    Paper: §4.2, [eq:prior-means].

    Args:
        mean: μ > 0, in the unit of θ.
    """

    scale: Number

    name: ClassVar[str] = "exponential"

    def __init__(self, mean: ScalarLike) -> None:
        self.scale = as_number(mean)

    def __check_init__(self) -> None:
        _check_positive("the mean of an exponential prior", self.scale)

    def log_density(self, theta: Float[Array, "..."]) -> Float[Array, "..."]:
        return jnp.where(theta > 0, -theta / self.scale - jnp.log(self.scale), -jnp.inf)

    def quantile(self, probability: Float[Array, "..."]) -> Float[Array, "..."]:
        return -self.scale * jnp.log1p(-probability)

    def mean(self) -> Number:
        return self.scale

    def log_sd(self) -> Number:
        return jnp.asarray(np.pi / np.sqrt(6.0))

    def rescaled(self, factor: ScalarLike) -> "Exponential":
        return Exponential(mean=self.scale * factor)

    def describe(self, digits: int | None = None) -> str:
        return f"exponential:{_text(self.scale, digits)}"


class Gamma(AbstractPrior):
    r"""$p(\theta) \propto \theta^{a-1} e^{-a\theta/\mu}$: shape a and mean μ.

    Args:
        shape: a > 0; 1 is the exponential, larger is narrower.
        mean: μ > 0, in the unit of θ.
    """

    shape: Number
    scale: Number

    name: ClassVar[str] = "gamma"

    def __init__(self, shape: ScalarLike, mean: ScalarLike) -> None:
        self.shape = as_number(shape)
        _check_positive("the shape of a gamma prior", self.shape)
        self.scale = as_number(mean) / self.shape

    def __check_init__(self) -> None:
        _check_positive("the mean of a gamma prior", self.mean())

    def log_density(self, theta: Float[Array, "..."]) -> Float[Array, "..."]:
        x = jnp.where(theta > 0, theta, 1.0) / self.scale
        value = (self.shape - 1) * jnp.log(x) - x - jsp.gammaln(self.shape) - jnp.log(self.scale)
        return jnp.where(theta > 0, value, -jnp.inf)

    def quantile(self, probability: Float[Array, "..."]) -> Float[Array, "..."]:
        # JAX has no inverse of the incomplete gamma function; SciPy's works outside of jit.
        from scipy.special import gammaincinv

        quantile = gammaincinv(np.asarray(self.shape), np.asarray(probability))
        return jnp.asarray(quantile) * self.scale

    def mean(self) -> Number:
        return self.shape * self.scale

    def sample(self, key: Key, shape: tuple[int, ...] = ()) -> Float[Array, "..."]:
        # Compiled code cannot call the quantile of SciPy.
        return self.scale * jax.random.gamma(key, self.shape, shape)

    def log_sd(self) -> Number:
        # The trigamma function is ζ(2, a); that of JAX is not available in all versions.
        return jnp.sqrt(jsp.zeta(jnp.full_like(self.shape, 2.0), self.shape))

    def rescaled(self, factor: ScalarLike) -> "Gamma":
        return Gamma(shape=self.shape, mean=self.mean() * factor)

    def describe(self, digits: int | None = None) -> str:
        # `mean` would compile JAX code.
        mean = np.float64(self.shape) * np.float64(self.scale)
        return f"gamma:{_text(self.shape, digits)}:{_text(mean, digits)}"


class LogNormal(AbstractPrior):
    r"""$\ln\theta \sim N(\ln m, s^2)$.

    Args:
        median: m > 0, in the unit of θ.
        sigma: s > 0, the standard deviation of ln θ.
    """

    median: Number
    sigma: Number

    name: ClassVar[str] = "lognormal"

    def __init__(self, median: ScalarLike, sigma: ScalarLike) -> None:
        self.median = as_number(median)
        self.sigma = as_number(sigma)

    def __check_init__(self) -> None:
        _check_positive("the median of a lognormal prior", self.median)
        _check_positive("the sigma of a lognormal prior", self.sigma)

    def log_density(self, theta: Float[Array, "..."]) -> Float[Array, "..."]:
        log_theta = jnp.log(jnp.where(theta > 0, theta, 1.0))
        score = (log_theta - jnp.log(self.median)) / self.sigma
        value = -0.5 * score**2 - log_theta - jnp.log(self.sigma) - 0.5 * np.log(2 * np.pi)
        return jnp.where(theta > 0, value, -jnp.inf)

    def quantile(self, probability: Float[Array, "..."]) -> Float[Array, "..."]:
        return self.median * jnp.exp(self.sigma * jsp.ndtri(probability))

    def mean(self) -> Number:
        return self.median * jnp.exp(0.5 * self.sigma**2)

    def log_sd(self) -> Number:
        return self.sigma

    def rescaled(self, factor: ScalarLike) -> "LogNormal":
        return LogNormal(median=self.median * factor, sigma=self.sigma)

    def describe(self, digits: int | None = None) -> str:
        return f"lognormal:{_text(self.median, digits)}:{_text(self.sigma, digits)}"


class Uniform(AbstractPrior):
    """Constant density between two finite bounds, 0 or more.

    Args:
        low: Lower bound, 0 or more.
        high: Upper bound.
    """

    low: Number
    high: Number

    name: ClassVar[str] = "uniform"

    def __init__(self, low: ScalarLike, high: ScalarLike) -> None:
        self.low = as_number(low)
        self.high = as_number(high)

    def __check_init__(self) -> None:
        if isinstance(self.low, jax.core.Tracer) or isinstance(self.high, jax.core.Tracer):
            return
        low, high = np.asarray(self.low), np.asarray(self.high)
        _require(
            "the bounds of a uniform prior",
            jnp.stack([self.low, self.high]),
            condition=bool(np.all((low >= 0) & (low < high) & np.isfinite(high))),
            expected="finite with 0 <= low < high (an improper prior has no evidence)",
        )

    def log_density(self, theta: Float[Array, "..."]) -> Float[Array, "..."]:
        inside = (theta >= self.low) & (theta <= self.high)
        return jnp.where(inside, -jnp.log(self.high - self.low), -jnp.inf)

    def quantile(self, probability: Float[Array, "..."]) -> Float[Array, "..."]:
        return self.low + (self.high - self.low) * probability

    def mean(self) -> Number:
        return 0.5 * (self.low + self.high)

    def log_sd(self) -> Number:
        # From the integrals of ln θ and of its square between the bounds.
        def first(x: Any) -> Any:
            return x * (_log(x) - 1)

        def second(x: Any) -> Any:
            return x * (_log(x) ** 2 - 2 * _log(x) + 2)

        def _log(x: Any) -> Any:
            return jnp.log(jnp.where(x > 0, x, 1.0))

        width = self.high - self.low
        mean = (first(self.high) - first(self.low)) / width
        square = (second(self.high) - second(self.low)) / width
        return jnp.sqrt(jnp.maximum(square - mean**2, 0.0))

    def rescaled(self, factor: ScalarLike) -> "Uniform":
        return Uniform(low=self.low * factor, high=self.high * factor)

    def describe(self, digits: int | None = None) -> str:
        return f"uniform:{_text(self.low, digits)}:{_text(self.high, digits)}"

    def from_unconstrained(self, z: Scalar) -> Scalar:
        return self.low + (self.high - self.low) * jax.nn.sigmoid(z)

    def to_unconstrained(self, theta: Scalar) -> Scalar:
        # Clipped, as z is infinite at the bounds.
        fraction = jnp.clip((theta - self.low) / (self.high - self.low), 1e-6, 1 - 1e-6)
        return jnp.log(fraction) - jnp.log1p(-fraction)

    def log_jacobian(self, z: Scalar) -> Scalar:
        return jnp.log(self.high - self.low) + jax.nn.log_sigmoid(z) + jax.nn.log_sigmoid(-z)


class Normal(AbstractPrior):
    r"""$\theta \sim N(\mu, s^2)$, for a parameter that may be negative.

    Args:
        mean: μ, in the unit of θ.
        sd: s > 0.
    """

    center: Number
    sd: Number

    name: ClassVar[str] = "normal"
    is_signed: ClassVar[bool] = True

    def __init__(self, mean: ScalarLike, sd: ScalarLike) -> None:
        self.center = as_number(mean)
        self.sd = as_number(sd)

    def __check_init__(self) -> None:
        _check_positive("the sd of a normal prior", self.sd)

    def log_density(self, theta: Float[Array, "..."]) -> Float[Array, "..."]:
        score = (theta - self.center) / self.sd
        return -0.5 * score**2 - jnp.log(self.sd) - 0.5 * np.log(2 * np.pi)

    def quantile(self, probability: Float[Array, "..."]) -> Float[Array, "..."]:
        return self.center + self.sd * jsp.ndtri(probability)

    def mean(self) -> Number:
        return self.center

    def log_sd(self) -> Number:
        return self.sd

    def rescaled(self, factor: ScalarLike) -> "Normal":
        return Normal(mean=self.center * factor, sd=self.sd * factor)

    def describe(self, digits: int | None = None) -> str:
        return f"normal:{_text(self.center, digits)}:{_text(self.sd, digits)}"

    def from_unconstrained(self, z: Scalar) -> Scalar:
        return z

    def to_unconstrained(self, theta: Scalar) -> Scalar:
        return theta

    def log_jacobian(self, z: Scalar) -> Scalar:
        return jnp.zeros_like(z)


class Fixed(AbstractPrior):
    """A known value of a parameter, which is not inferred.

    Args:
        value: The value, in the unit of θ.
    """

    value: Number

    name: ClassVar[str] = "fixed"

    def __init__(self, value: ScalarLike) -> None:
        self.value = as_number(value)

    def __check_init__(self) -> None:
        if isinstance(self.value, jax.core.Tracer):
            return
        finite = bool(np.all(np.isfinite(np.asarray(self.value))))
        _require("a fixed value", self.value, condition=finite, expected="a finite number")

    def log_density(self, theta: Float[Array, "..."]) -> Float[Array, "..."]:
        # With respect to the counting measure at the value.
        return jnp.where(theta == self.value, 0.0, -jnp.inf)

    def quantile(self, probability: Float[Array, "..."]) -> Float[Array, "..."]:
        return jnp.full_like(probability, 1.0) * self.value

    def mean(self) -> Number:
        return self.value

    def log_sd(self) -> Number:
        return jnp.zeros_like(self.value)

    def rescaled(self, factor: ScalarLike) -> "Fixed":
        return Fixed(self.value * factor)

    def describe(self, digits: int | None = None) -> str:
        return f"fixed:{_text(self.value, digits)}"


_FAMILIES: dict[str, tuple[type[AbstractPrior], tuple[str, ...]]] = {
    "exponential": (Exponential, ("mean",)),
    "gamma": (Gamma, ("shape", "mean")),
    "lognormal": (LogNormal, ("median", "sigma")),
    "uniform": (Uniform, ("low", "high")),
    "normal": (Normal, ("mean", "sd")),
    "fixed": (Fixed, ("value",)),
}


# Numbers without a unit.
_UNITLESS = ("shape", "sigma")


def parse_prior(text: str, convert: Callable[[str], float] = float) -> AbstractPrior:
    """Parse a prior such as `exponential:0.5`, `lognormal:1:2`, `gamma:2:5` or `uniform:0:3`.

    Args:
        text: Family and numbers.
        convert: Converts a number with a unit, such as "10ms", to the unit of the parameter.
    """
    family, *numbers = text.split(":")
    known = "; ".join(
        ":".join((name, *(f.upper() for f in fields))) for name, (_, fields) in _FAMILIES.items()
    )
    if family not in _FAMILIES:
        near = did_you_mean(family, _FAMILIES)
        raise DriftbayesError(f"unknown prior {family!r} in {text!r}; known are {known}{near}")
    make, fields = _FAMILIES[family]
    values = _as_numbers(dict(zip(fields, numbers, strict=False)), convert)
    if values is None or len(numbers) != len(fields):
        msg = f"prior {text!r} must be written {':'.join((family, *(f.upper() for f in fields)))}"
        raise DriftbayesError(msg)
    for value in values:
        if np.isfinite(value):
            checked(value, f"a number of the prior {text[:80]!r}")
    return make(**dict(zip(fields, values, strict=True)))


def is_signed_prior(text: str) -> bool:
    """Whether a prior, given as text, allows negative values."""
    family = _FAMILIES.get(text.partition(":")[0])
    return family is not None and family[0].is_signed


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
    """
    memory = timescale if memory is None else memory
    for name, value in (("u_rms", u_rms), ("timescale", timescale), ("memory", memory)):
        if not (np.isfinite(value) and value > 0):
            raise DriftbayesError(f"{name} must be a positive number, got {value}")
        checked(float(value), name)
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


def _text(value: ScalarLike | np.float64, digits: int | None) -> str:
    exact = float(value)
    short = number(exact, digits or 6)
    # A prior stored in a file must be restored to the last bit.
    return short if digits is not None or float(short) == exact else repr(exact)


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


def _check_positive(name: str, value: ScalarLike) -> None:
    # Tracers have no value; they come from a prior that was already checked.
    if isinstance(value, jax.core.Tracer):
        return
    array = np.asarray(value)
    valid = bool(np.all(np.isfinite(array) & (array > 0)))
    _require(name, value, condition=valid, expected="a positive, finite number")
