r"""Limit of short substeps: ln L as the number m of substeps between two fixes grows.

The error of finite m has an expansion in powers of 1/m. With the change
$D_k = \ln L_{2^{k+1} m} - \ln L_{2^k m}$ under doubling, Richardson's extrapolation of the last two
of several levels leaves an error of second order, of which the last three give an estimate:

$$\ln L_\infty - \ln L_m \approx \sum_{j \le k} D_j + D_k, \qquad
  r = \tfrac13\,(2 D_k - D_{k-1})$$

The changes are estimated at draws from the posterior, with random numbers that both levels share,
and fitted by a polynomial of the parameters, by which every point of the posterior is corrected.
"""

__all__ = ["Correction", "change_of", "find_correction"]

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import logsumexp

from driftbayes.inference.formulas import points_at
from driftbayes.inference.hypothesis import Hypothesis
from driftbayes.inference.samples import Estimate, resample
from driftbayes.models import AbstractModel
from driftbayes.priors import Fixed
from driftbayes.sde.likelihood import ParticleDensity
from driftbayes.typing import FloatArray

# Substeps at most.
MAX_SUBSTEPS = 256
# Error of the correction at which to stop, in nats and as a share of the sampler's error of ln Z;
# and the remainder below which no more levels are added.
_TOLERANCE, _SHARE = 0.05, 0.5
# Draws from the posterior that are added at a time, and estimates at each.
_N_DRAWS, _N_SEEDS = 16, 2
# Substeps of all particles that are allowed even if the sampler took fewer: about ten seconds.
_MIN_WORK = 1e7
# Draws for each coefficient of a fit.
_PER_TERM = 3


def change_of(
    density: ParticleDensity, model: AbstractModel, values: Mapping[str, FloatArray], n: int
) -> tuple[FloatArray, FloatArray]:
    """Estimate the change of ln L when the substeps are doubled.

    The mean of ln of an estimate is low by half its variance, run by run, which is corrected.

    Args:
        density: Data, filter and substeps.
        model: The model.
        values: Parameters at each point.
        n: Estimates at each point, two or more.

    Returns:
        The change (estimate, point); and ln of the estimates of each run with the fewer substeps,
        (estimate, point, run).
    """
    tiled = {name: np.tile(column, n) for name, column in values.items()}
    coarse, fine = (
        each.by_run(model, tiled).reshape(n, len(tiled[next(iter(tiled))]) // n, -1)
        for each in (
            replace(density, paired=True),
            replace(density, substeps=2 * density.substeps),
        )
    )
    with np.errstate(invalid="ignore"):
        change = (fine - coarse).sum(axis=2)
        bias = 0.5 * (fine.var(axis=0, ddof=1) - coarse.var(axis=0, ddof=1)).sum(axis=1)
    return change + bias, coarse


@dataclass(frozen=True)
class Correction:
    """What ln L lacks for finite substeps, as a polynomial of the parameters.

    Args:
        center: Mean of the draws, in unconstrained coordinates.
        width: Their standard deviation.
        coefficients: Of the polynomial.
        limits: Smallest and largest value at the draws; beyond them none is believed.
        error: Standard error of the mean correction.
        remainder: Estimate of what extrapolation leaves, with its standard error.
        substeps: Largest number of substeps.
        n_evaluations: Estimates of the likelihood.
    """

    center: FloatArray
    width: FloatArray
    coefficients: FloatArray
    limits: tuple[float, float]
    error: float
    remainder: float
    substeps: int
    n_evaluations: int

    def at(self, z: FloatArray) -> FloatArray:
        """The correction of ln L at points (point, parameter)."""
        terms = _design((z - self.center) / self.width, len(self.coefficients))
        return np.clip(terms @ self.coefficients, *self.limits)

    @property
    def log_evidence_err(self) -> float:
        """What it adds to the error of ln Z."""
        return float(np.hypot(self.error, self.remainder))

    def applied(self, estimate: Estimate) -> Estimate:
        """The estimate with all its points corrected."""
        change = self.at(estimate.z)
        log_weights = estimate.log_weights + change
        log_ratio = float(logsumexp(log_weights) - logsumexp(estimate.log_weights))
        weights = np.exp(log_weights - logsumexp(log_weights))
        spread = float(np.sqrt(np.sum((weights - estimate.weights) ** 2)))
        return replace(
            estimate,
            log_evidence=estimate.log_evidence + log_ratio,
            log_evidence_err=float(np.hypot(estimate.log_evidence_err, spread)),
            log_weights=log_weights,
            log_likelihoods=estimate.log_likelihoods + change,
            n_evaluations=estimate.n_evaluations + self.n_evaluations,
        )


def find_correction(
    hypothesis: Hypothesis, density: ParticleDensity, estimate: Estimate, seed: int
) -> Correction:
    """Extrapolate ln L to short substeps at draws from the posterior.

    Draws, and levels of doubled substeps, are added until the error is small, or until as much
    work is done as by the sampler, or as takes some seconds.

    Args:
        hypothesis: Model family and prior.
        density: Data, filter, and the substeps that the sampler took.
        estimate: What it found.
        seed: Random seed.
    """
    rng = np.random.default_rng([seed, 1])
    usable = np.flatnonzero(np.isfinite(estimate.log_weights))
    # In random order, so that any first part of them are draws too; no more than they are worth.
    n_worth = int(np.clip(1 / np.sum(estimate.weights[usable] ** 2), _N_DRAWS, len(usable)))
    order = usable[resample(estimate.log_weights[usable], n_worth, rng)]
    each = density.how.particles * density.repeats * len(density.data.dx)
    allowed = max(estimate.n_evaluations * density.substeps, _MIN_WORK / each)
    tolerance = max(_TOLERANCE, _SHARE * estimate.log_evidence_err)
    draws = _Draws(hypothesis, density, seed, np.empty((0, estimate.z.shape[1])), ((), ()))
    while True:
        new = estimate.z[order[len(draws.z) : max(2 * len(draws.z), _N_DRAWS)]]
        draws = draws.extended(new)
        remainder, noise = draws.remainder
        may_refine = 4 * draws.density.substeps << len(draws.changes) <= MAX_SUBSTEPS
        if may_refine and draws.work < allowed and abs(remainder) > max(tolerance, 2 * noise):
            draws = draws.refined()
        found = _fit(draws, estimate)
        is_last = 2 * len(draws.z) > len(order) or 2 * draws.work > allowed
        if is_last or found.log_evidence_err <= tolerance:
            return found


@dataclass(frozen=True)
class _Draws:
    """Draws from the posterior, with the changes of ln L under doubling of each level.

    Args:
        hypothesis: Model family and prior.
        density: Data, filter and fewest substeps.
        seed: Random seed.
        z: The draws, (draw, parameter).
        changes: Of each level, (draw,).
    """

    hypothesis: Hypothesis
    density: ParticleDensity
    seed: int
    z: FloatArray
    changes: tuple[Any, ...]

    def extended(self, new: FloatArray) -> "_Draws":
        """With more draws."""
        found = tuple(
            np.concatenate([known, self._evaluated(level, len(self.z), new)])
            for level, known in enumerate(self.changes)
        )
        return replace(self, z=np.concatenate([self.z, new]), changes=found)

    def refined(self) -> "_Draws":
        """With one more level."""
        new = self._evaluated(len(self.changes), 0, self.z)
        return replace(self, changes=(*self.changes, new))

    def _evaluated(self, level: int, first: int, z: FloatArray) -> FloatArray:
        # Levels and draws have random numbers of their own.
        seed = int(np.random.default_rng([self.seed, level, first]).integers(1 << 31))
        finer = replace(self.density, substeps=self.density.substeps << level, seed=seed)
        columns = columns_at(self.hypothesis, z)
        return change_of(finer, self.hypothesis.model, columns, _N_SEEDS)[0].mean(axis=0)

    @property
    def work(self) -> float:
        """Substeps of one estimate after the other; each level has a coarse and a fine one."""
        substeps = self.density.substeps * ((1 << len(self.changes)) - 1)
        return 3.0 * _N_SEEDS * substeps * len(self.z)

    @property
    def n_evaluations(self) -> int:
        """Estimates of the likelihood."""
        return 2 * _N_SEEDS * len(self.changes) * len(self.z)

    @property
    def remainder(self) -> tuple[float, float]:
        """What extrapolation leaves, from the last two changes; and its standard error."""
        each = (2 * self.changes[-1] - self.changes[-2]) / 3
        each = each[np.isfinite(each)]
        if len(each) < 2:
            return np.inf, np.inf
        return float(each.mean()), float(each.std(ddof=1) / np.sqrt(len(each)))


def columns_at(hypothesis: Hypothesis, z: FloatArray) -> dict[str, FloatArray]:
    """Values of all parameters at points, those that are fixed among them."""
    theta = points_at(hypothesis, z)[0]
    free = dict(zip(hypothesis.names, theta.T, strict=True))
    return {
        name: np.full(len(z), float(prior.value)) if isinstance(prior, Fixed) else free[name]
        for name, prior in hypothesis.priors.items()
    }


def _fit(draws: _Draws, estimate: Estimate) -> Correction:
    """Fit a polynomial to the extrapolated change, of no higher degree than the draws allow."""
    value = np.sum(draws.changes, axis=0) + draws.changes[-1]
    usable = np.isfinite(value)
    center, width = draws.z.mean(axis=0), draws.z.std(axis=0)
    width = np.where(width > 0, width, 1.0)
    found = Correction(
        center=center,
        width=width,
        coefficients=np.zeros(1),
        limits=(0.0, 0.0),
        error=np.inf,
        remainder=float(np.hypot(*draws.remainder)),
        substeps=draws.density.substeps << len(draws.changes),
        n_evaluations=draws.n_evaluations,
    )
    if usable.sum() < max(len(usable) // 2, 4):
        return found
    z, value = draws.z[usable], value[usable]
    d = z.shape[1]
    degrees = (1, 1 + d, (d + 1) * (d + 2) // 2)
    n_terms = max(n for n in degrees if n == 1 or n * _PER_TERM <= len(z))
    terms = _design((z - center) / width, n_terms)
    coefficients, *_ = np.linalg.lstsq(terms, value)
    fitted = terms @ coefficients
    found = replace(
        found, coefficients=coefficients, limits=(float(fitted.min()), float(fitted.max()))
    )
    after = estimate.log_weights + found.at(estimate.z)
    mean = np.exp(after - logsumexp(after)) @ _design((estimate.z - center) / width, n_terms)
    variance = np.sum((value - fitted) ** 2) / max(len(z) - n_terms, 1)
    leverage = mean @ np.linalg.pinv(terms.T @ terms) @ mean
    return replace(found, error=float(np.sqrt(variance * leverage)))


def _design(y: FloatArray, n_terms: int) -> FloatArray:
    """Terms of a polynomial: a constant; a constant and lines; or all up to second degree."""
    d = y.shape[1]
    columns = [np.ones(len(y))]
    if n_terms > 1:
        columns += list(y.T)
    if n_terms > 1 + d:
        columns += [y[:, i] * y[:, j] for i in range(d) for j in range(i, d)]
    return np.column_stack(columns)
