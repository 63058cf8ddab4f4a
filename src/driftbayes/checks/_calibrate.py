"""P-values of data relative to replicas at equal fit, adjusted for multiple comparisons."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from driftbayes._typing import FloatArray

# Minimum residual scale as a fraction of the spread: smaller residuals are curvature that the
# regression does not follow.
_MIN_SHARE = 0.1
# Replicas per coefficient of the regression.
_REPLICAS_PER_COEFFICIENT = 10
_LEVELS = (0.025, 0.5, 0.975)


@dataclass(frozen=True, eq=False)
class Deviation:
    """Deviation of the data from replicas in one quantity.

    Args:
        observed: Values of the data.
        band: Quantiles 2.5, 50 and 97.5 % of the replicas, (3, at).
        fitted_band: The same for the replicas of the p-values: shifted to the fit of the data, or
            all of them if that fit lies outside those of the replicas.
        z: Standardised deviations of the data from the latter.
        p_values: Two-sided p-value of each value.
        p_value: P-value of the largest deviation, not adjusted for other quantities.
        largest: Largest deviation of the data.
        replicas: Largest deviation of each replica.
    """

    observed: FloatArray
    band: FloatArray
    fitted_band: FloatArray
    z: FloatArray
    p_values: FloatArray
    p_value: float
    largest: float
    replicas: FloatArray

    @property
    def unit(self) -> float:
        """Deviation that one data set in a hundred exceeds.

        It is the quantile of replicas and data together: that of the replicas alone would fit them
        better than the data, which would then seem to deviate.
        """
        everything = np.append(self.replicas, self.largest)
        return max(float(np.quantile(everything, 0.99)), np.finfo(float).tiny)


def fit_deviation(fit: FloatArray, fits: FloatArray) -> Deviation:
    r"""Compare the score of the data with the scores of replicas.

    The score s is the derivative of ln p(D | θ) at the posterior mode of the data. It nearly
    vanishes for the data unless the prior keeps the mode from the maximum of the likelihood, and
    scatters around zero for replicas. The Mahalanobis distance is used; that of a replica is
    computed from the others. Values are in standard deviations of the replicas.
    """
    centre, spread = fits.mean(axis=0), fits.std(axis=0)
    unit = np.where(spread > 0, spread, 1.0)
    z, others = (fit - centre) / unit, (fits - centre) / unit
    left, values, right = np.linalg.svd(others, full_matrices=False)
    kept = values > 1e-6 * max(float(values.max(initial=0.0)), np.finfo(float).tiny)
    leverage = np.minimum(np.sum(left[:, kept] ** 2, axis=1), 1 - 1e-9)
    own = np.sqrt(np.sum((right[kept] @ z / values[kept]) ** 2))
    replicas = np.sqrt(leverage / (1 - leverage))
    band = np.quantile(others, _LEVELS, axis=0)
    # Converts to standard deviations along the farthest direction.
    size = np.sqrt(len(fits))
    return Deviation(
        observed=z,
        band=band,
        fitted_band=band,
        z=z,
        p_values=_two_sided(z, others),
        p_value=_rank(float(own), replicas),
        largest=float(own * size),
        replicas=replicas * size,
    )


def data_leverage(fit: FloatArray, fits: FloatArray) -> float:
    """Compute the variance of the regression at the fit of the data, relative to a replica's."""
    _, triangle = np.linalg.qr(_design(fits - fit))
    return float(np.sum(np.linalg.solve(triangle.T, np.eye(len(triangle))[0]) ** 2))


def deviations(
    observed: FloatArray,
    replicated: FloatArray,
    fit: FloatArray,
    fits: FloatArray,
    *,
    at_equal_fit: bool = True,
    is_log: bool = False,
) -> Deviation:
    r"""Compute the deviation of the data from replicas at equal fit.

    A model is fitted to the data it is checked with, so that plain posterior predictive p-values
    concentrate around one half and hide failures. Replicas are therefore compared at equal fit.
    With s the score,

    $$T_r = c + b(s_r - s) + e_r, \qquad z = \frac{T - c}{\sigma \sqrt{1 + h}}, \quad
      z_r = \frac{e_r}{\sigma \sqrt{1 - h_r}},$$

    b linear and quadratic, h the leverages. Given the fit, the distribution of T does not depend on
    θ in the limit of many data, and p-values are uniform if the model is true (the conditional
    predictive p-values of Bayarri and Berger, 2000, by regression). If s lies outside the scores of
    the replicas the regression would extrapolate: pass `at_equal_fit=False`.
    """
    tiny = np.finfo(float).tiny
    own_t, t = observed, replicated
    if is_log:
        own_t, t = np.log(np.maximum(observed, tiny)), np.log(np.maximum(replicated, tiny))
    design = _design(fits - fit) if at_equal_fit else np.ones((len(t), 1))
    q, triangle = np.linalg.qr(design)
    leverage = np.minimum(np.einsum("ri,ri->r", q, q), 1 - 1e-6)
    # All terms but the constant vanish at the data.
    own = np.linalg.solve(triangle.T, np.eye(len(triangle))[0])
    centre = own @ (q.T @ t)
    left = t - q @ (q.T @ t)
    sd = np.sqrt(np.sum(left**2, axis=0) / max(len(t) - len(triangle), 1))
    scale = np.maximum(sd, _MIN_SHARE * t.std(axis=0))
    # Without any spread, a deviation by rounding must not become infinite.
    scale = np.maximum(scale, 1e-12 * np.abs(centre) + tiny)
    z = (own_t - centre) / scale / np.sqrt(1 + own @ own)
    others = left / scale / np.sqrt(1 - leverage)[:, None]
    replicas, largest = np.abs(others).max(axis=1), float(np.abs(z).max())
    fitted = centre + scale * np.quantile(others, _LEVELS, axis=0)
    return Deviation(
        observed=observed,
        band=np.quantile(replicated, _LEVELS, axis=0),
        fitted_band=np.exp(fitted) if is_log else fitted,
        z=z,
        p_values=_two_sided(z, others),
        p_value=_rank(largest, replicas),
        largest=largest,
        replicas=replicas,
    )


def adjusted_p_values(many: Mapping[str, Deviation]) -> dict[str, float]:
    """Adjust p-values for the number of quantities, by the largest deviation of all.

    Each deviation is measured in units that one data set in a hundred exceeds, so that all count
    alike, and ranked among the largest of every replica (Westfall and Young, 1993). The smallest is
    the p-value of all quantities together. If the model is true, the probability that any falls
    below a level is that level, for any correlation between quantities.
    """
    largest = np.max([d.replicas / d.unit for d in many.values()], axis=0)
    return {name: _rank(d.largest / d.unit, largest) for name, d in many.items()}


def _rank(value: float, others: FloatArray) -> float:
    return float((1 + np.sum(others >= value)) / (len(others) + 1))


def _two_sided(z: FloatArray, others: FloatArray) -> FloatArray:
    # Deviations that the fit determines are rounding errors, whose ranks mean nothing.
    z, others = z.round(6), others.round(6)
    above = 1 + np.sum(others >= z, axis=0)
    below = 1 + np.sum(others <= z, axis=0)
    return np.minimum(2 * np.minimum(above, below) / (len(others) + 1), 1.0)


def _design(away: FloatArray) -> FloatArray:
    """Return the regressors: constant, linear and quadratic in the distance from the fit."""
    n = len(away)
    sd = away.std(axis=0)
    away = away[:, sd > 0] / sd[sd > 0]
    columns = [np.ones(n)]
    room = n // _REPLICAS_PER_COEFFICIENT - 1
    p = away.shape[1]
    if p <= room:
        columns += list(away.T)
    if p + p * (p + 1) // 2 <= room:
        columns += [away[:, i] * away[:, j] for i in range(p) for j in range(i, p)]
    design = np.stack(columns, axis=1)
    # Omit columns that are linear combinations of others.
    kept: list[int] = []
    for i in range(design.shape[1]):
        trial = design[:, [*kept, i]]
        if np.linalg.cond(trial / np.linalg.norm(trial, axis=0)) < 1e6:
            kept.append(i)
    return design[:, kept]
