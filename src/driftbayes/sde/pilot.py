"""Choice of substeps and particles by trial runs at one parameter value."""

__all__ = ["Pilot", "estimates_at", "run_pilot"]

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from driftbayes.models import AbstractModel
from driftbayes.sde.likelihood import ParticleDensity
from driftbayes.sde.substeps import change_of
from driftbayes.typing import FloatArray

# Estimates at the same parameters, from whose spread the variance is known.
_N_ESTIMATES = 16
# Change of ln L in nats when the substeps are doubled that is accepted, as the rest is
# extrapolated; the largest number of substeps; and a change by rounding alone.
_SUBSTEP_TOLERANCE = 0.3
_MAX_SUBSTEPS = 64
_ROUNDING = 1e-6
# Variance of ln L that the number of particles is tuned to where that is cheap, the one that it is
# tuned to at any price, and the largest that is used at all.
_CHEAP_VARIANCE, _TARGET_VARIANCE, MAX_VARIANCE = 0.1, 1.0, 3.0
# Substeps of all particles that are cheap: about a tenth of a second.
_CHEAP = 1e5
# Numbers of particles that programs are compiled for; filters are repeated for more. More are
# needed where the estimate of a single run scatters by more than this variance.
MIN_PARTICLES, _MAX_PARTICLES, _MORE = 8, 1024, 8
_MAX_RUN_VARIANCE = 0.5


@dataclass(frozen=True)
class Pilot:
    """What trial runs found.

    Args:
        density: Data, with the filter, repeats and substeps that were chosen.
        variance: Variance of ln L, of all runs together.
        is_linear: Whether ln L does not depend on the substeps: the equation is solved exactly.
    """

    density: ParticleDensity
    variance: float
    is_linear: bool


def estimates_at(
    density: ParticleDensity, model: AbstractModel, values: Mapping[str, float], n: int
) -> FloatArray:
    """Estimate ln p of each run n times at the same parameters, (estimate, run)."""
    columns = {name: np.full(n, value) for name, value in values.items()}
    return density.by_run(model, columns)


def run_pilot(density: ParticleDensity, model: AbstractModel, values: Mapping[str, float]) -> Pilot:
    """Choose substeps, particles, and whether to look beyond the next fix.

    Args:
        density: Data, seed, and a filter; its number of particles and substeps are where the
            search starts.
        model: The model.
        values: Parameters near the mode of the posterior.
    """
    point = {name: np.array([value]) for name, value in values.items()}
    density = _looking_ahead(density, model, values)
    while True:
        change, log_l = change_of(density, model, point, _N_ESTIMATES)
        size = abs(change.mean())
        noise = change.std(ddof=1) / np.sqrt(_N_ESTIMATES)
        is_linear = bool(max(size, noise) < _ROUNDING)
        # Accepted also where the change cannot be told from chance, if chance is small.
        is_small = size <= max(_SUBSTEP_TOLERANCE, min(2 * noise, 2 * _SUBSTEP_TOLERANCE))
        if is_linear or (is_small and density.substeps > 1):
            break
        if 2 * density.substeps > _MAX_SUBSTEPS:
            break
        density = replace(density, substeps=2 * density.substeps)
    by_run = log_l[:, 0].var(axis=0, ddof=1)
    while _needs_more(density, by_run):
        how = replace(density.how, particles=_MORE * density.how.particles)
        density = replace(density, how=how)
        by_run = estimates_at(density, model, values, _N_ESTIMATES).var(axis=0, ddof=1)
    variance = float(by_run.sum())
    repeats = _repeats(density, variance)
    if repeats > 1:
        density = replace(density, repeats=repeats)
        again = estimates_at(density, model, values, _N_ESTIMATES)
        variance = float(again.var(axis=0, ddof=1).sum())
    return Pilot(density, variance, is_linear)


def _looking_ahead(
    density: ParticleDensity, model: AbstractModel, values: Mapping[str, float]
) -> ParticleDensity:
    """The filter, without foresight where a poor guide to later fixes is worse than none."""
    how = density.how
    if not (how.guided and how.lookahead):
        return density
    here = estimates_at(density, model, values, _N_ESTIMATES).var(axis=0, ddof=1)
    if float(here.sum()) < MAX_VARIANCE:
        return density
    other = replace(density, how=replace(how, lookahead=False))
    there = estimates_at(other, model, values, _N_ESTIMATES).var(axis=0, ddof=1)
    return other if np.nansum(there) < np.nansum(here) else density


def _needs_more(density: ParticleDensity, by_run: FloatArray) -> bool:
    """Whether a run's estimate scatters too much for filters that are repeated and averaged."""
    return bool(
        np.nanmax(by_run, initial=0.0) > _MAX_RUN_VARIANCE
        and _MORE * density.how.particles <= _MAX_PARTICLES
    )


def _repeats(density: ParticleDensity, variance: float) -> int:
    """How many filters to average; the variance falls as one over their number."""
    if not np.isfinite(variance) or variance <= _CHEAP_VARIANCE:
        return 1
    needed, wanted = (
        int(np.ceil(max(variance / target, 1.0))) for target in (_TARGET_VARIANCE, _CHEAP_VARIANCE)
    )
    n = density.how.particles
    affordable = int(_CHEAP / (density.substeps * len(density.data.dx) * n))
    return int(min(max(needed, min(wanted, affordable)), max(_MAX_PARTICLES // n, 1)))
