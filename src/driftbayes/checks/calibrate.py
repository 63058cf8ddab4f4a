"""How surprising the data are among replicas, of which those with the same fit count."""

__all__ = ["Deviation", "deviations", "overall"]

from dataclasses import dataclass

import numpy as np

from driftbayes.typing import FloatArray

# A number that the fit alone tells up to this share of its spread is not checked more closely:
# what is left of it is curvature that the regression does not follow.
_FLOOR = 0.1
# Replicas per coefficient that the regression needs at the least.
_PER_COEFFICIENT = 10


@dataclass(frozen=True, eq=False)
class Deviation:
    """Data against replicas, for one quantity.

    Args:
        observed: The data's numbers.
        band: 2.5, 50 and 97.5 % of the replicas, (3, at).
        fitted_band: The same of replicas shifted to the fit of the data.
        z: Standardised deviation of the data from the latter.
        p_values: Two-sided, one for each number.
        p_value: That the largest deviation among all numbers is exceeded.
        replicas: Largest deviation of each replica.
    """

    observed: FloatArray
    band: FloatArray
    fitted_band: FloatArray
    z: FloatArray
    p_values: FloatArray
    p_value: float
    replicas: FloatArray


def deviations(
    observed: FloatArray, replicated: FloatArray, fit: FloatArray, fits: FloatArray
) -> Deviation:
    r"""How far the data lie from replicas that would have been fitted alike.

    A model is fitted to what it is checked with: plain posterior predictive p-values crowd
    around one half and hide a failure. The replicas are therefore compared at equal fit. With s
    the derivative of ln p(D | θ) at the data's own mode, which tells where a fit to D would end,

    $$T_r = c + b(s_r - s) + e_r, \qquad z = \frac{T - c}{\sigma \sqrt{1 + h}}, \quad
      z_r = \frac{e_r}{\sigma \sqrt{1 - h_r}},$$

    b linear and quadratic, h the leverages. Given the fit the distribution of T does not depend
    on θ, in the limit of many data, and p-values are uniform if the model is true (the conditional
    predictive p-values of Bayarri and Berger, 2000, by regression).

    Args:
        observed: Numbers of the data.
        replicated: Numbers of the replicas, (replica, at).
        fit: s of the data.
        fits: s of the replicas, (replica, parameter).
    """
    n = len(replicated)
    design = _design(fits - fit)
    q, triangle = np.linalg.qr(design)
    leverage = np.minimum(np.einsum("ri,ri->r", q, q), 1 - 1e-6)
    # The data are where all terms but the constant vanish.
    own = np.linalg.solve(triangle.T, np.eye(len(triangle))[0])
    centre = own @ (q.T @ replicated)
    left = replicated - q @ (q.T @ replicated)
    raw = replicated.std(axis=0)
    sd = np.sqrt(np.sum(left**2, axis=0) / max(n - len(triangle), 1))
    scale = np.maximum(sd, _FLOOR * raw)
    # Without any spread a deviation is none or infinite; rounding is neither.
    scale = np.maximum(scale, 1e-12 * np.abs(centre) + np.finfo(float).tiny)
    z = (observed - centre) / scale / np.sqrt(1 + own @ own)
    others = left / scale / np.sqrt(1 - leverage)[:, None]
    above = 1 + np.sum(others >= z, axis=0)
    below = 1 + np.sum(others <= z, axis=0)
    largest = np.abs(others).max(axis=1)
    levels = [0.025, 0.5, 0.975]
    return Deviation(
        observed=observed,
        band=np.quantile(replicated, levels, axis=0),
        fitted_band=centre + scale * np.quantile(others, levels, axis=0),
        z=z,
        p_values=np.minimum(2 * np.minimum(above, below) / (n + 1), 1.0),
        p_value=_rank(np.abs(z).max(), largest),
        replicas=largest,
    )


def overall(many: list[Deviation]) -> float:
    """That the largest deviation among all quantities is exceeded.

    Each is measured by what one replica in a hundred exceeds, so that all count alike.
    """
    units = [max(float(np.quantile(one.replicas, 0.99)), np.finfo(float).tiny) for one in many]
    own = max(float(np.abs(one.z).max()) / unit for one, unit in zip(many, units, strict=True))
    others = np.stack([one.replicas / unit for one, unit in zip(many, units, strict=True)])
    return _rank(own, others.max(axis=0))


def _rank(value: float, others: FloatArray) -> float:
    return float((1 + np.sum(others >= value)) / (len(others) + 1))


def _design(away: FloatArray) -> FloatArray:
    """Columns of the regression: constant, linear and quadratic in the distance from the fit."""
    n = len(away)
    away = away[:, np.isfinite(away).all(axis=0)]
    sd = away.std(axis=0)
    away = away[:, sd > 0] / sd[sd > 0]
    columns = [np.ones(n)]
    room = n // _PER_COEFFICIENT - 1
    p = away.shape[1]
    if p <= room:
        columns += list(away.T)
    if p + p * (p + 1) // 2 <= room:
        columns += [away[:, i] * away[:, j] for i in range(p) for j in range(i, p)]
    design = np.stack(columns, axis=1)
    # A column that others make up adds nothing but rounding.
    kept: list[int] = []
    for i in range(design.shape[1]):
        trial = design[:, [*kept, i]]
        if np.linalg.cond(trial / np.linalg.norm(trial, axis=0)) < 1e6:
            kept.append(i)
    return design[:, kept]
