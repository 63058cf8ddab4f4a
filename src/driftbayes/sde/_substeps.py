r"""Richardson extrapolation of ln L to the limit of many substeps.

The error of a finite number m of substeps between two fixes has an expansion in powers of 1/m. With
the change $D_k = \ln L_{2^{k+1} m} - \ln L_{2^k m}$ under doubling, extrapolation from the last two
levels leaves an error of second order, which the last three levels estimate:

$$\ln L_\infty - \ln L_m \approx \sum_{j \le k} D_j + D_k, \qquad
  r = \tfrac13\,(2 D_k - D_{k-1})$$

The changes are estimated at posterior draws, with random numbers common to both levels. A
polynomial of the parameters is fitted to them and corrects every point of the posterior.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from driftbayes._typing import FloatArray
from driftbayes.inference._hypothesis import Hypothesis
from driftbayes.inference._log_sums import logsumexp
from driftbayes.inference._samples import Estimate, resample
from driftbayes.models import AbstractModel
from driftbayes.sde._likelihood import ParticleDensity

# Largest number of substeps.
MAX_SUBSTEPS = 256
# Tolerated error of the correction, in nats and as a fraction of the sampler's error of ln Z. No
# level is added once the remainder is below it.
_TOLERANCE, _ERROR_FRACTION = 0.05, 0.5
# Posterior draws added at a time, and estimates at each draw.
_N_DRAWS, _N_SEEDS = 16, 2
# Number of substeps, summed over particles, that is allowed even if the sampler took fewer: about
# 10 s.
_MIN_WORK = 1e7
# Draws per coefficient of the fit.
_DRAWS_PER_TERM = 3


def change_of(
    density: ParticleDensity, model: AbstractModel, values: Mapping[str, FloatArray], n: int
) -> tuple[FloatArray, FloatArray]:
    """Estimate the change of ln L when the substeps are doubled.

    The mean log of an unbiased estimate is low by half its variance; each run is corrected for it.

    Args:
        density: Data, filter and substeps.
        model: The model.
        values: Parameters at each point.
        n: Estimates at each point, two or more.

    Returns:
        The change, (estimate, point), and the log estimates of each run at the coarser level,
        (estimate, point, run).
    """
    tiled = {name: np.tile(column, n) for name, column in values.items()}
    coarse, fine = (
        variant.by_run(model, tiled).reshape(n, len(next(iter(values.values()))), -1)
        for variant in (
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
    """Correction of ln L for finite substeps, as a polynomial of the parameters.

    Args:
        center: Mean of the draws, in unconstrained coordinates.
        width: Standard deviation of the draws.
        coefficients: Coefficients of the polynomial.
        limits: Smallest and largest value at the draws; the correction is clipped to them.
        error: Standard error of the mean correction.
        remainder: Root sum square of the estimated extrapolation error and its standard error.
        substeps: Largest number of substeps.
        n_evaluations: Number of likelihood estimates.
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
        """Evaluate the correction at points, (point, parameter)."""
        terms = _design((z - self.center) / self.width, len(self.coefficients))
        return np.clip(terms @ self.coefficients, *self.limits)

    @property
    def log_evidence_err(self) -> float:
        """Contribution to the error of ln Z."""
        return float(np.hypot(self.error, self.remainder))

    def applied(self, estimate: Estimate) -> Estimate:
        """Return the estimate with every point corrected."""
        change = self.at(estimate.z)
        return replace(
            estimate.reweighted(change)[0],
            log_likelihoods=estimate.log_likelihoods + change,
            n_evaluations=estimate.n_evaluations + self.n_evaluations,
        )


def find_correction(
    hypothesis: Hypothesis, density: ParticleDensity, estimate: Estimate, seed: int
) -> Correction:
    """Extrapolate ln L to the limit of many substeps at posterior draws.

    Draws, and levels of doubled substeps, are added until the error is small, or until the work
    equals that of the sampler or takes several seconds.

    Args:
        hypothesis: Model family and prior.
        density: Data, filter, and number of substeps of the sampler.
        estimate: Result of the sampler.
        seed: Random seed.
    """
    rng = np.random.default_rng([seed, 1])
    usable = np.flatnonzero(np.isfinite(estimate.log_weights))
    # In random order, so that every leading part is a sample too; no more draws than the effective
    # sample size.
    ess = int(np.clip(1 / np.sum(estimate.weights[usable] ** 2), _N_DRAWS, len(usable)))
    order = usable[resample(estimate.log_weights[usable], ess, rng)]
    work_per_substep = density.particle_filter.particles * density.repeats * len(density.data.dx)
    max_work = max(estimate.n_evaluations * density.substeps, _MIN_WORK / work_per_substep)
    tolerance = max(_TOLERANCE, _ERROR_FRACTION * estimate.log_evidence_err)
    draws = _Draws(hypothesis, density, seed, np.empty((0, estimate.z.shape[1])), ((), ()))
    while True:
        new = estimate.z[order[len(draws.z) : max(2 * len(draws.z), _N_DRAWS)]]
        draws = draws.extended(new)
        remainder, noise = draws.remainder
        may_refine = 4 * draws.density.substeps << len(draws.changes) <= MAX_SUBSTEPS
        if may_refine and draws.work < max_work and abs(remainder) > max(tolerance, 2 * noise):
            draws = draws.refined()
        correction = _fit(draws, estimate)
        is_last = 2 * len(draws.z) > len(order) or 2 * draws.work > max_work
        if is_last or correction.log_evidence_err <= tolerance:
            return correction


@dataclass(frozen=True)
class _Draws:
    """Posterior draws, with the change of ln L under doubling at each level.

    Args:
        hypothesis: Model family and prior.
        density: Data, filter and smallest number of substeps.
        seed: Random seed.
        z: The draws, (draw, parameter).
        changes: Change at each level, (draw,).
    """

    hypothesis: Hypothesis
    density: ParticleDensity
    seed: int
    z: FloatArray
    changes: tuple[Any, ...]

    def extended(self, new: FloatArray) -> "_Draws":
        """Return a copy with more draws."""
        changes = tuple(
            np.concatenate([previous, self._evaluate(level, len(self.z), new)])
            for level, previous in enumerate(self.changes)
        )
        return replace(self, z=np.concatenate([self.z, new]), changes=changes)

    def refined(self) -> "_Draws":
        """Return a copy with one more level."""
        new = self._evaluate(len(self.changes), 0, self.z)
        return replace(self, changes=(*self.changes, new))

    def _evaluate(self, level: int, first: int, z: FloatArray) -> FloatArray:
        """Estimate the change of ln L under doubling at one level."""
        # Each level and each batch of draws has its own random numbers.
        seed = int(np.random.default_rng([self.seed, level, first]).integers(1 << 31))
        finer = replace(self.density, substeps=self.density.substeps << level, seed=seed)
        columns = self.hypothesis.columns(self.hypothesis.from_unconstrained(z))
        return change_of(finer, self.hypothesis.model, columns, _N_SEEDS)[0].mean(axis=0)

    @property
    def work(self) -> float:
        """Total number of substeps; each level has a coarse and a fine estimate."""
        substeps = self.density.substeps * ((1 << len(self.changes)) - 1)
        return 3.0 * _N_SEEDS * substeps * len(self.z)

    @property
    def n_evaluations(self) -> int:
        """Number of likelihood estimates."""
        return 2 * _N_SEEDS * len(self.changes) * len(self.z)

    @property
    def remainder(self) -> tuple[float, float]:
        """Estimated extrapolation error, from the last two changes, and its standard error."""
        errors = (2 * self.changes[-1] - self.changes[-2]) / 3
        errors = errors[np.isfinite(errors)]
        if len(errors) < 2:
            return np.inf, np.inf
        return float(errors.mean()), float(errors.std(ddof=1) / np.sqrt(len(errors)))


def _fit(draws: _Draws, estimate: Estimate) -> Correction:
    """Fit a polynomial to the extrapolated change, of a degree that the number of draws allows."""
    value = np.sum(draws.changes, axis=0) + draws.changes[-1]
    usable = np.isfinite(value)
    center, width = draws.z.mean(axis=0), draws.z.std(axis=0)
    width = np.where(width > 0, width, 1.0)
    correction = Correction(
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
        return correction
    z, value = draws.z[usable], value[usable]
    d = z.shape[1]
    degrees = (1, 1 + d, (d + 1) * (d + 2) // 2)
    n_terms = max(n for n in degrees if n == 1 or n * _DRAWS_PER_TERM <= len(z))
    terms = _design((z - center) / width, n_terms)
    coefficients, *_ = np.linalg.lstsq(terms, value)
    fitted = terms @ coefficients
    correction = replace(
        correction, coefficients=coefficients, limits=(float(fitted.min()), float(fitted.max()))
    )
    log_weights = estimate.log_weights + correction.at(estimate.z)
    mean = np.exp(log_weights - logsumexp(log_weights)) @ _design(
        (estimate.z - center) / width, n_terms
    )
    variance = np.sum((value - fitted) ** 2) / max(len(z) - n_terms, 1)
    leverage = mean @ np.linalg.pinv(terms.T @ terms) @ mean
    return replace(correction, error=float(np.sqrt(variance * leverage)))


def _design(y: FloatArray, n_terms: int) -> FloatArray:
    """Return the design matrix of a polynomial of degree 0, 1 or 2, by its number of terms."""
    d = y.shape[1]
    columns = [np.ones(len(y))]
    if n_terms > 1:
        columns.append(y)
    if n_terms > 1 + d:
        i, j = np.triu_indices(d)
        columns.append(y[:, i] * y[:, j])
    return np.column_stack(columns)
