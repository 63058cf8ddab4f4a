"""Predictive distributions of each model and of the model average."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammainc, gammaincinv, ndtr

from driftbayes._representation import number
from driftbayes._typing import FloatArray
from driftbayes.comparison._bayes import model_probabilities
from driftbayes.comparison._hypotheses import check_names
from driftbayes.errors import DriftbayesError
from driftbayes.inference import QUANTILES, PosteriorDraws
from driftbayes.inference._formulas import evaluate
from driftbayes.inference._hypothesis import check_plain
from driftbayes.models import AbstractModel

# Name of the model average.
AVERAGE = "average"
# Probabilities of the inner and the outer region of a forecast.
LEVELS = (0.5, 0.95)


@dataclass(frozen=True, eq=False)
class ScaleMixture:
    r"""A scale mixture of Gaussians: a displacement whose variance has posterior draws.

    $$p(\Delta X \mid D) = \sum_i w_i\, N(\Delta X;\, 0, v_i I_d), \qquad
      v_i = \langle \Delta x^2 \rangle(T; \theta_i)$$

    Args:
        variances: Variances $v_i$ per axis.
        weights: Weights $w_i$, which sum to one.
        n_dim: Number of axes d.
    """

    variances: FloatArray
    weights: FloatArray
    n_dim: int

    def __repr__(self) -> str:
        """Return the number of components and standard deviation."""
        size = number(self.variance**0.5)
        return f"<ScaleMixture: {len(self.weights):,} Gaussians, sd {size} per axis>"

    @property
    def variance(self) -> float:
        """Variance per axis: the mean of the variances."""
        return float(self.weights @ self.variances)

    def cdf(self, component: ArrayLike) -> FloatArray:
        r"""$P(\Delta x_i \le x)$, a mean of normal distribution functions."""
        x = np.asarray(component, dtype=np.float64)[..., None]
        return ndtr(x / np.sqrt(self.variances)) @ self.weights

    def distance_cdf(self, distance: ArrayLike) -> FloatArray:
        r"""$P(|\Delta X| \le r)$, a mean of chi distribution functions of d degrees of freedom."""
        r = np.asarray(distance, dtype=np.float64)[..., None]
        return gammainc(0.5 * self.n_dim, r**2 / (2 * self.variances)) @ self.weights

    def distance_quantiles(self, probabilities: ArrayLike) -> FloatArray:
        """Compute quantiles of the distance, by bisection."""
        p = np.asarray(probabilities, dtype=np.float64)
        # A quantile of a mixture lies between the extreme quantiles of its components.
        unit = np.sqrt(2 * gammaincinv(0.5 * self.n_dim, p))
        sds = np.sqrt(self.variances[self.weights > 0])
        low, high = unit * sds.min(), unit * sds.max()
        while np.any(high - low > 1e-14 * high):
            middle = 0.5 * (low + high)
            below = self.distance_cdf(middle) < p
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return 0.5 * (low + high)

    def component_quantiles(self, probabilities: ArrayLike) -> FloatArray:
        """Compute quantiles of one axis from those of |Δx_i|, by symmetry."""
        p = np.asarray(probabilities, dtype=np.float64)
        one_axis = ScaleMixture(self.variances, self.weights, 1)
        return np.sign(p - 0.5) * one_axis.distance_quantiles(np.abs(2 * p - 1))

    def variance_quantiles(self, probabilities: ArrayLike) -> FloatArray:
        """Compute posterior quantiles of the variance."""
        p = np.asarray(probabilities, dtype=np.float64)
        order = np.argsort(self.variances)
        # A draw of negligible weight would distort the interpolation between its neighbours.
        order = order[self.weights[order] > 1e-9 * self.weights.max()]
        weights = self.weights[order]
        return np.interp(p, np.cumsum(weights) - 0.5 * weights, self.variances[order])


@dataclass(frozen=True, eq=False)
class Spread:
    r"""Spread of a fresh particle at each horizon T, under one model or the average.

    Args:
        horizons: Horizons T.
        mixtures: Predictive distribution at each horizon.
        variance: Predictive variance $\mathrm{E}[\langle\Delta x^2\rangle(T) \mid D]$ per axis.
        sd_quantiles: (horizon, quantile) of the standard deviation per axis, over the posterior.
        component_quantiles: (horizon, quantile) of one component of ΔX.
        distance_quantiles: (horizon, quantile) of |ΔX|.
    """

    horizons: FloatArray
    mixtures: tuple[ScaleMixture, ...]
    variance: FloatArray
    sd_quantiles: FloatArray
    component_quantiles: FloatArray
    distance_quantiles: FloatArray

    def __repr__(self) -> str:
        """Return standard deviations and horizons."""
        pairs = zip(self.horizons, self.sd, strict=True)
        sizes = ", ".join(f"{number(sd)} after {number(time)}" for time, sd in pairs)
        return f"<Spread: sd per axis {sizes}>"

    @classmethod
    def of(cls, horizons: FloatArray, mixtures: Sequence[ScaleMixture]) -> "Spread":
        """Compute the spread from one mixture per horizon."""
        return cls(
            horizons=horizons,
            mixtures=tuple(mixtures),
            variance=np.array([m.variance for m in mixtures]),
            sd_quantiles=np.sqrt([m.variance_quantiles(QUANTILES) for m in mixtures]),
            component_quantiles=np.array([m.component_quantiles(QUANTILES) for m in mixtures]),
            distance_quantiles=np.array([m.distance_quantiles(QUANTILES) for m in mixtures]),
        )

    @property
    def sd(self) -> FloatArray:
        """Predictive standard deviation per axis."""
        return np.sqrt(self.variance)

    @property
    def diffusivity(self) -> FloatArray:
        r"""Effective diffusivity $\operatorname{Var}(\Delta x_i) / 2T$."""
        return self.variance / (2 * self.horizons)

    @property
    def diffusivity_quantiles(self) -> FloatArray:
        """(horizon, quantile) of the effective diffusivity, over the posterior."""
        return self.sd_quantiles**2 / (2 * self.horizons[:, None])

    def to_json(self) -> dict[str, Any]:
        """Return one list per quantity, along the horizons."""
        result = {n: getattr(self, n).tolist() for n in ("variance", "sd", "diffusivity")}
        for name in ("sd", "diffusivity", "component", "distance"):
            columns = getattr(self, f"{name}_quantiles").T.tolist()
            labels = (f"{q:g}" for q in QUANTILES)
            result[f"{name}_quantiles"] = dict(zip(labels, columns, strict=True))
        return result


@dataclass(frozen=True, eq=False)
class Prediction:
    """Spread at several horizons under each model and the model average.

    Args:
        horizons: Times ahead.
        probabilities: Weight of each model in the average.
        spreads: Spread by name of the model, including `AVERAGE`.
        n_dim: Number of axes.
    """

    horizons: FloatArray
    probabilities: Mapping[str, float]
    spreads: Mapping[str, Spread]
    n_dim: int

    def __repr__(self) -> str:
        """Return models and horizons."""
        times = ", ".join(number(time) for time in self.horizons)
        models = ", ".join(f"{name} ({number(p)})" for name, p in self.probabilities.items())
        return f"<Prediction: {models} after {times}>"

    def to_json(self) -> dict[str, Any]:
        """Return the prediction as plain numbers and text."""
        return {
            "convention": "Var(dx_i) = 2 kappa T per axis",
            "n_dim": self.n_dim,
            "horizons": self.horizons.tolist(),
            "probabilities": dict(self.probabilities),
            "models": {name: spread.to_json() for name, spread in self.spreads.items()},
        }


def predict(
    draws_by_model: Sequence[PosteriorDraws],
    horizons: ArrayLike,
    *,
    probabilities: Sequence[float] | None = None,
    n_dim: int,
) -> Prediction:
    r"""Predict the displacement of a fresh particle, without known history, over any time T.

    $$p(\Delta X \mid D) = \sum_M p(M \mid D) \int p(\Delta X \mid \theta, M)\,
      p(\theta \mid D, M)\, \mathrm{d}\theta$$

    This is the displacement of the particle itself, without the measurement errors and blur that
    the fit takes into account.

    Args:
        draws_by_model: Posterior draws of each model.
        horizons: Times ahead, positive.
        probabilities: Weights of the models; by default their posterior probabilities with equal
            priors.
        n_dim: Number of axes of the displacement.
    """
    times = checked_horizons(horizons)
    if np.any(times == 0):
        raise DriftbayesError(f"horizons must be positive, got {times.tolist()}")
    weights = average_weights(draws_by_model, probabilities)
    mixtures = predictive_mixtures(draws_by_model, times, weights, n_dim=n_dim)
    return Prediction(
        horizons=times,
        probabilities={
            draws.hypothesis.name: float(w)
            for draws, w in zip(draws_by_model, weights, strict=True)
        },
        spreads={name: Spread.of(times, by_horizon) for name, by_horizon in mixtures.items()},
        n_dim=n_dim,
    )


def predictive_mixtures(
    draws_by_model: Sequence[PosteriorDraws],
    times: FloatArray,
    weights: FloatArray,
    *,
    n_dim: int,
    observed: bool = False,
    error_variance: float = 0.0,
) -> dict[str, list[ScaleMixture]]:
    r"""Compute the distribution of a displacement over each time, by model and on average.

    The displacement is that of the particle, or that between two observed fixes: with blur if the
    model has it, and with the measurement errors of both fixes,

    $$v_i = \langle \Delta x^2 \rangle(T; \theta_i) + 2 (\sigma_i^2 + e^2).$$
    """
    hypotheses = [draws.hypothesis for draws in draws_by_model]
    # Shared motion does not change the distribution of a single particle.
    check_plain([h for h in hypotheses if observed or not _is_exact_shared(h.model)], "prediction")
    mixtures: dict[str, list[ScaleMixture]] = {}
    for draws in draws_by_model:
        theta, lags = np.repeat(draws.theta, len(times), axis=0), np.tile(times, len(draws))
        spread = _observed_spread if observed else _spread
        (flat,) = evaluate(draws.hypothesis, theta, spread, lags)
        variances = flat.reshape(len(draws), -1) + (2 * error_variance if observed else 0.0)
        equal = np.full(len(draws), 1 / len(draws))
        mixtures[draws.hypothesis.name] = [ScaleMixture(v, equal, n_dim) for v in variances.T]
    mixtures[AVERAGE] = [
        ScaleMixture(
            np.concatenate([m.variances for m in parts]),
            np.concatenate([w * m.weights for w, m in zip(weights, parts, strict=True)]),
            n_dim,
        )
        for parts in zip(*mixtures.values(), strict=True)
    ]
    return mixtures


def _is_exact_shared(model: AbstractModel) -> bool:
    return model.shares_motion and model.observes_position and "sigma" not in model.parameters


def average_weights(
    draws_by_model: Sequence[PosteriorDraws], probabilities: Sequence[float] | None = None
) -> FloatArray:
    """Return the normalised weights of the models: given ones, or their probabilities."""
    check_names([draws.hypothesis for draws in draws_by_model])
    names = [draws.hypothesis.name for draws in draws_by_model]
    evidences = [draws.evidence for draws in draws_by_model]
    given = model_probabilities(evidences) if probabilities is None else probabilities
    weights = np.asarray(given, dtype=np.float64)
    fits = weights.shape == (len(names),)
    if fits and np.isnan(weights).any():
        failed = [name for name, value in zip(names, weights, strict=True) if np.isnan(value)]
        raise DriftbayesError(
            f"the probability of {', '.join(failed)} is unknown, because its evidence could not be "
            "computed; omit it to average the others"
        )
    if not (fits and np.isfinite(weights).all() and (weights >= 0).all() and weights.sum() > 0):
        raise DriftbayesError(
            f"probabilities must be {len(names)} nonnegative numbers, one per model and not all "
            f"zero, got {weights.tolist()}"
        )
    return weights / weights.sum()


def _spread(model: AbstractModel, time: Any) -> tuple[Any, ...]:
    return (model.motion().mean_square_displacement(time),)


def _observed_spread(model: AbstractModel, time: Any) -> tuple[Any, ...]:
    return (model.mean_square_displacement(time) + 2 * model.fix_variance(),)


def checked_horizons(horizons: ArrayLike) -> FloatArray:
    """Return horizons as an array; raise an error unless they increase and are not negative."""
    times = np.atleast_1d(np.asarray(horizons, dtype=np.float64))
    fine = times.ndim == 1 and times.size > 0 and np.isfinite(times).all() and times[0] >= 0
    if not (fine and (np.diff(times) > 0).all()):
        raise DriftbayesError(f"horizons must be increasing and not negative, got {times.tolist()}")
    return times
