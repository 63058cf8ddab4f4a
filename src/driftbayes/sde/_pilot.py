"""Choice of substeps and particles by trial runs at one parameter value."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from driftbayes._typing import FloatArray
from driftbayes.models import AbstractModel
from driftbayes.sde._likelihood import ParticleDensity
from driftbayes.sde._substeps import change_of

# Number of estimates at the same parameters, from which the variance is estimated.
_N_ESTIMATES = 16
# Accepted change of ln L in nats when the substeps are doubled (the rest is extrapolated), largest
# number of substeps, and largest change by rounding.
_SUBSTEP_TOLERANCE = 0.3
_MAX_SUBSTEPS = 64
_ROUNDING = 1e-6
# Variance of ln L to aim for: where it is affordable, and at any cost; and the largest accepted.
_AFFORDABLE_VARIANCE, _TARGET_VARIANCE, MAX_VARIANCE = 0.1, 1.0, 3.0
# Affordable number of substeps, summed over particles: about 0.1 s.
_AFFORDABLE_SUBSTEPS = 1e5
# Smallest and largest number of particles of a compiled program, and the factor between them.
# Beyond the largest, filters are repeated.
MIN_PARTICLES, _MAX_PARTICLES, _PARTICLE_FACTOR = 8, 1024, 8
# The number of particles grows while the variance of ln L of a single run exceeds this.
_MAX_RUN_VARIANCE = 0.5


@dataclass(frozen=True)
class Pilot:
    """Result of trial runs.

    Args:
        density: Data, with the filter, repeats and substeps chosen.
        variance: Variance of ln L, summed over runs.
        is_linear: Whether ln L is independent of the substeps: the equation is solved exactly.
    """

    density: ParticleDensity
    variance: float
    is_linear: bool


def _run_variances(
    density: ParticleDensity, model: AbstractModel, values: Mapping[str, float]
) -> FloatArray:
    """Estimate the variance of ln L of each run at the same parameters."""
    columns = {name: np.full(_N_ESTIMATES, value) for name, value in values.items()}
    return density.by_run(model, columns).var(axis=0, ddof=1)


def run_pilot(density: ParticleDensity, model: AbstractModel, values: Mapping[str, float]) -> Pilot:
    """Choose the number of substeps and particles, and whether to use look-ahead.

    Args:
        density: Data, seed and filter. The search starts from its particles and substeps.
        model: The model.
        values: Parameters near the posterior mode.
    """
    point = {name: np.array([value]) for name, value in values.items()}
    density = _choose_lookahead(density, model, values)
    while True:
        change, log_l = change_of(density, model, point, _N_ESTIMATES)
        size = abs(change.mean())
        noise = change.std(ddof=1) / np.sqrt(_N_ESTIMATES)
        is_linear = bool(max(size, noise) < _ROUNDING)
        # Also accept a change within its noise, if the noise is small.
        is_small = size <= max(_SUBSTEP_TOLERANCE, min(2 * noise, 2 * _SUBSTEP_TOLERANCE))
        is_enough = is_linear or (is_small and density.substeps > 1)
        if is_enough or 2 * density.substeps > _MAX_SUBSTEPS:
            break
        density = replace(density, substeps=2 * density.substeps)
    run_variances = log_l[:, 0].var(axis=0, ddof=1)
    while _needs_more_particles(density, run_variances):
        particle_filter = replace(
            density.particle_filter, particles=_PARTICLE_FACTOR * density.particle_filter.particles
        )
        density = replace(density, particle_filter=particle_filter)
        run_variances = _run_variances(density, model, values)
    variance = float(run_variances.sum())
    repeats = _repeats(density, variance)
    if repeats > 1:
        density = replace(density, repeats=repeats)
        variance = float(_run_variances(density, model, values).sum())
    return Pilot(density, variance, is_linear)


def _choose_lookahead(
    density: ParticleDensity, model: AbstractModel, values: Mapping[str, float]
) -> ParticleDensity:
    """Switch look-ahead off where it increases the variance of ln L."""
    particle_filter = density.particle_filter
    if not (particle_filter.guided and particle_filter.lookahead):
        return density
    variances = _run_variances(density, model, values)
    if float(variances.sum()) < MAX_VARIANCE:
        return density
    other = replace(density, particle_filter=replace(particle_filter, lookahead=False))
    other_variances = _run_variances(other, model, values)
    return other if np.nansum(other_variances) < np.nansum(variances) else density


def _needs_more_particles(density: ParticleDensity, run_variances: FloatArray) -> bool:
    """Return whether the variance of a run's ln L is too large to average repeated filters."""
    return bool(
        np.nanmax(run_variances, initial=0.0) > _MAX_RUN_VARIANCE
        and _PARTICLE_FACTOR * density.particle_filter.particles <= _MAX_PARTICLES
    )


def _repeats(density: ParticleDensity, variance: float) -> int:
    """Return the number of filters to average; the variance falls as one over their number."""
    if not np.isfinite(variance) or variance <= _AFFORDABLE_VARIANCE:
        return 1
    needed, affordable_target = (
        int(np.ceil(max(variance / target, 1.0)))
        for target in (_TARGET_VARIANCE, _AFFORDABLE_VARIANCE)
    )
    n = density.particle_filter.particles
    affordable = int(_AFFORDABLE_SUBSTEPS / (density.substeps * len(density.data.dx) * n))
    return int(min(max(needed, min(affordable_target, affordable)), max(_MAX_PARTICLES // n, 1)))
