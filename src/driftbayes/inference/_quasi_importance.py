r"""Evidence by importance sampling with quasi-random points.

$$\hat Z = \frac1N \sum_i \frac{f(z_i)}{q(z_i)}, \qquad q = \sum_s \frac{N_s}{N}\, q_s$$

The proposals $q_s$ are Student t distributions at the modes and the prior. Each is sampled by
scrambled Sobol points in several independent randomisations, whose spread gives the error. Stages
double in size; between them the mixture is fitted to the weighted points. All stages contribute,
weighted by the mixture of all proposals (adaptive multiple importance sampling, Cornuet et al.
2012).
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from driftbayes._representation import with_error
from driftbayes._typing import FloatArray
from driftbayes.errors import DriftbayesError, Status
from driftbayes.inference._log_sums import logsumexp
from driftbayes.inference._newton import Components
from driftbayes.inference._proposals import mixture_at_modes
from driftbayes.inference._quasi_stages import (
    N_RANDOMISATIONS,
    Group,
    LogDensity,
    Points,
    Source,
    Stage,
    Target,
)
from driftbayes.inference._samples import MAX_SHAPE, Estimate, pareto_shape, resample

# Points of the t distributions in the first stage, per randomisation; fewer for tolerances of
# _COARSE and more, which are those of estimated likelihoods.
_N_FIRST, _N_FIRST_COARSE, _COARSE = 64, 16, 0.04
_MIN_EFFECTIVE = 100
_MAX_SHARE = 0.05
# Largest accepted difference between stages in standard errors, which come from few values.
_MAX_DEVIATION = 5.0


def quasi_importance(
    log_f: LogDensity,
    components: Components,
    *,
    seed: int,
    tolerance: float = 0.01,
    max_evaluations: int = 65536,
    sample_prior: Callable[[FloatArray], FloatArray] | None = None,
    log_prior: Callable[[FloatArray], FloatArray] | None = None,
    ridges: Components | None = None,
) -> Estimate:
    """Estimate an evidence to a tolerance with few evaluations.

    Args:
        log_f: ln of likelihood times density of the prior, and ln of the likelihood, at points
            z of shape (point, parameter). The number of points differs between calls and is a
            multiple of 32. Minus infinity and NaN count as zero density.
        components: The modes.
        seed: Random seed of the scrambled points.
        tolerance: Standard error of ln Z in nats at which to stop.
        max_evaluations: Maximum number of evaluations.
        sample_prior: Map from points of the unit cube to draws from the prior; without it, parts of
            the posterior away from the modes are missed.
        log_prior: ln of the normalised density of those draws.
        ridges: Gaussians along ridges, beyond those at the modes.

    Returns:
        The evidence, its error and weighted points. The status is `SAMPLER_NOT_CONVERGED`, with
        the reason as a warning, if the tolerance is not reached or the weights are unreliable.

    Raises:
        DriftbayesError: If an argument is out of range or ln f is plus infinity.

    Examples:
        >>> def log_f(z):
        ...     value = -0.5 * np.sum(z**2, axis=1)
        ...     return value, value
        >>> modes = Components(np.zeros((1, 4)), np.eye(4)[None], np.zeros(1))
        >>> estimate = quasi_importance(log_f, modes, seed=0)
        >>> bool(abs(estimate.log_evidence - 2 * np.log(2 * np.pi)) < 0.03)
        True
        >>> equal_draws(estimate, 100, seed=0).shape
        (100, 4)
    """
    if seed != int(seed) or seed < 0:
        raise DriftbayesError(f"seed must be a whole number, 0 or more, got {seed}")
    if not tolerance > 0:
        raise DriftbayesError(f"tolerance must be positive, got {tolerance}")
    if (sample_prior is None) != (log_prior is None):
        raise DriftbayesError("give both sample_prior and log_prior, or neither")
    start = mixture_at_modes(components, ridges)
    target = Target(log_f, sample_prior, log_prior)
    source = Source(seed, start.centers.shape[1])
    keeps = ridges is not None
    groups = [Group(target, start, np.arange(g, N_RANDOMISATIONS, 2), keeps=keeps) for g in (0, 1)]
    estimate: Estimate | None = None
    n_stages, n_left = 0, max_evaluations
    n_first = _N_FIRST if tolerance < _COARSE else _N_FIRST_COARSE
    while True:
        planned = _plan(groups, n_first * 2 ** max(n_stages - 1, 0), n_left, n_first)
        if planned is None:
            if estimate is not None:
                return estimate
            raise DriftbayesError(
                f"max_evaluations is too small for the first stage, got {max_evaluations} with "
                f"{len(start.shares) // 2} modes; the default is 65536"
            )
        stages, n = planned
        n_left, n_stages = n_left - n, n_stages + 1
        last_stage = [
            group.extend(stage, source) for group, stage in zip(groups, stages, strict=True)
        ]
        points = [group.points for group in groups if group.points is not None]
        estimate = _summarise(points, n_stages, estimate, np.concatenate(last_stage), tolerance)
        if estimate.status is not Status.SAMPLER_NOT_CONVERGED:
            return estimate
        # Each group is fitted to the points of the other: a mixture fitted to its own points would
        # be too high there, and the evidence too low.
        for group, other in zip(groups, reversed(points), strict=True):
            group.fit(other, np.random.default_rng([seed, n_stages]))


def _plan(
    groups: list[Group], n_student: int, n_left: int, n_first: int
) -> tuple[list[Stage], int] | None:
    """Plan a stage of every group within the evaluations left; None if they are too few."""
    while n_student >= n_first:
        stages = [group.plan(n_student) for group in groups]
        per_run = [int(stage.counts.sum() + stage.n_prior) for stage in stages]
        n = sum(len(group.runs) * each for group, each in zip(groups, per_run, strict=True))
        if n <= n_left:
            return stages, n
        n_student //= 2
    return None


def reweighted(estimate: Estimate, change: FloatArray, *, max_shape: float = MAX_SHAPE) -> Estimate:
    """Estimate the evidence of another density from the same points.

    Args:
        estimate: Result of `quasi_importance`.
        change: ln of the ratio of the densities at each point.
        max_shape: Largest Pareto shape of the new weights; beyond it the error is infinite.

    Returns:
        The estimate; its error includes that of the ratio for independent points.
    """
    again, weights = estimate.reweighted(np.nan_to_num(change, nan=-np.inf))
    effective, shape = float(1 / np.sum(weights**2)), pareto_shape(weights)
    is_good = shape <= max_shape and effective >= _MIN_EFFECTIVE
    return replace(
        again,
        log_evidence_err=again.log_evidence_err if is_good else np.inf,
        n_evaluations=0,
        diagnostics={**estimate.diagnostics, "pareto_k": shape, "ess": effective},
    )


def equal_draws(estimate: Estimate, n: int, seed: int) -> FloatArray:
    """Draw equally likely points from weighted ones, without replacement.

    Args:
        estimate: Result of `quasi_importance`.
        n: Number of draws; limited to a quarter of the effective sample size, since more draws
            without replacement would be too uniform.
        seed: Random seed.

    Raises:
        DriftbayesError: If n is not positive or no point has weight.
    """
    if n < 1 or not np.isfinite(estimate.log_weights).any():
        raise DriftbayesError(f"expected n of 1 or more and points of non-zero weight, got n = {n}")
    n_kept = int(np.clip(0.25 / np.sum(estimate.weights**2), 1, n))
    return estimate.z[resample(estimate.log_weights, n_kept, np.random.default_rng(seed))]


def _mean_and_error(
    log_evidences: FloatArray, random_variance: float | None = None
) -> tuple[float, float]:
    """Compute ln of the mean of the randomisations, and its standard error.

    Few randomisations may agree by chance; `random_variance` counts as one more.
    """
    n = len(log_evidences)
    mean = float(logsumexp(log_evidences) - np.log(n))
    variance = float(np.exp(log_evidences - mean).var(ddof=1) / n)
    if random_variance is not None:
        variance = ((n - 1) * variance + random_variance) / n
    return mean, float(np.sqrt(variance))


def _summarise(
    points: list[Points],
    n_stages: int,
    before: Estimate | None,
    last_stage: FloatArray,
    tolerance: float,
) -> Estimate:
    """Estimate evidence and error, and check the weights.

    Args:
        points: Points of each group.
        n_stages: Number of stages so far.
        before: Estimate before the last stage.
        last_stage: ln of the evidence of each randomisation from the last stage alone.
        tolerance: Largest accepted error.
    """
    log_weights = np.concatenate([part.log_weights for part in points])
    n = len(log_weights)
    log_evidence = error = shape = effective = float("nan")
    status = Status.NOT_FINITE
    warnings: tuple[str, ...] = (status.advice,)
    if np.isfinite(log_weights).any():
        weights = np.exp(log_weights - logsumexp(log_weights))
        effective, shape = float(1 / np.sum(weights**2)), pareto_shape(weights)
        log_evidences = np.concatenate([part.log_evidences() for part in points])
        log_evidence, error = _mean_and_error(log_evidences, 1 / effective - 1 / n)
        # Mass of the Pareto tail beyond the largest weight.
        heavy = np.clip(shape, 0, 0.99)
        error = float(np.hypot(error, weights.max() * heavy / (1 - heavy)))
        warnings = ()
        if shape > MAX_SHAPE:
            warnings += (
                f"the largest importance weights have a tail of shape {shape:.2f}, above "
                f"{MAX_SHAPE}: the error is not to be trusted; use method='smc'",
            )
        if effective < _MIN_EFFECTIVE:
            warnings += (
                f"the effective sample size is only {effective:.0f}: the error is not to be "
                "trusted; use method='smc'",
            )
        if weights.max() > _MAX_SHARE:
            warnings += (
                f"one point has {weights.max():.0%} of the weight: the proposals hardly reach a "
                "part of the posterior; use method='smc'",
            )
        if not error <= tolerance:
            warnings += (
                f"the randomisations differ: the error of ln Z is {error:.2g} nats after {n} "
                f"evaluations, above the tolerance of {tolerance:g}; raise max_evaluations",
            )
        if before is None:
            warnings += (
                "there is only one stage, and no other to compare it with; raise max_evaluations",
            )
        else:
            last, last_error = _mean_and_error(last_stage)
            allowed = _MAX_DEVIATION * np.hypot(last_error, before.log_evidence_err)
            if not abs(last - before.log_evidence) <= allowed:
                warnings += (
                    "successive stages disagree: ln Z = "
                    f"{with_error(before.log_evidence, before.log_evidence_err)}, then "
                    f"{with_error(last, last_error)}; "
                    "raise max_evaluations or use method='smc'",
                )
        status = Status.SAMPLER_NOT_CONVERGED if warnings else Status.OK
    return Estimate(
        log_evidence=log_evidence,
        log_evidence_err=error,
        z=np.concatenate([part.z for part in points]),
        log_weights=log_weights,
        log_likelihoods=np.concatenate([part.log_likelihoods for part in points]),
        n_evaluations=n,
        status=status,
        diagnostics={"pareto_k": shape, "ess": effective, "n_stages": float(n_stages)},
        warnings=warnings,
    )
