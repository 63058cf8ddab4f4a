"""Choice of substeps and particles by trial runs at one parameter value."""

__all__ = ["Pilot", "estimates_at", "run_pilot"]

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import logsumexp

from driftbayes.models import AbstractModel
from driftbayes.sde.filter import Filter
from driftbayes.sde.likelihood import ParticleDensity
from driftbayes.typing import FloatArray

# Estimates at the same parameters, from whose spread the variance is known.
_N_ESTIMATES = 16
# Change of ln L in nats when the substeps are doubled that is accepted, and their largest number.
SUBSTEP_TOLERANCE = 0.1
_MAX_SUBSTEPS = 64
# Variance of ln L that the number of particles is tuned to where that is cheap, the one that it is
# tuned to at any price, and the largest that is used at all.
_CHEAP_VARIANCE, _TARGET_VARIANCE, MAX_VARIANCE = 0.1, 1.0, 3.0
# Substeps of all particles that are cheap: about a tenth of a second.
_CHEAP = 1e5
MIN_PARTICLES, _MAX_PARTICLES = 8, 1024


@dataclass(frozen=True)
class Pilot:
    """What trial runs found.

    Args:
        how: The filter that was chosen.
        substeps: Substeps between two fixes.
        variance: Variance of ln L, of all runs together.
        substep_change: Change of ln L when the substeps are doubled.
        substep_noise: Standard error of that.
    """

    how: Filter
    substeps: int
    variance: float
    substep_change: float
    substep_noise: float

    @property
    def substep_error(self) -> float:
        """Error of ln L by finite substeps: falls as 1/m, so that it is twice the change.

        A change that chance hides counts as large as chance.
        """
        return 2 * float(np.hypot(self.substep_change, self.substep_noise))


def estimates_at(
    density: ParticleDensity, model: AbstractModel, values: Mapping[str, float], n: int
) -> FloatArray:
    """Estimate ln p of each run n times at the same parameters, (estimate, run)."""
    columns = {name: np.full(n, value) for name, value in values.items()}
    return density.by_run(model, columns)


def _averaged(log_l: FloatArray) -> tuple[float, float]:
    """Ln p of all data from several estimates of each run, and its variance."""
    log_mean = logsumexp(log_l, axis=0) - np.log(len(log_l))
    with np.errstate(all="ignore"):
        spread = np.exp(log_l - log_mean).var(axis=0, ddof=1) / len(log_l)
    return float(log_mean.sum()), float(spread.sum())


def run_pilot(density: ParticleDensity, model: AbstractModel, values: Mapping[str, float]) -> Pilot:
    """Choose substeps, particles, and whether to look beyond the next fix.

    Args:
        density: Data, seed, and a filter; its number of particles and substeps are where the
            search starts.
        model: The model.
        values: Parameters near the mode of the posterior.
    """
    how, m = density.how, density.substeps
    here = estimates_at(density, model, values, _N_ESTIMATES)
    if how.guided and how.lookahead and not float(here.var(axis=0, ddof=1).sum()) < MAX_VARIANCE:
        # A poor guide to what lies beyond the next fix is worse than none.
        other = replace(density, how=replace(how, lookahead=False))
        there = estimates_at(other, model, values, _N_ESTIMATES)
        if np.nansum(there.var(axis=0, ddof=1)) < np.nansum(here.var(axis=0, ddof=1)):
            density, how, here = other, other.how, there
    while True:
        there = estimates_at(replace(density, substeps=2 * m), model, values, _N_ESTIMATES)
        (a, noise_a), (b, noise_b) = _averaged(here), _averaged(there)
        change, noise = abs(b - a), float(np.sqrt(noise_a + noise_b))
        # Accepted also where the change cannot be told from chance, if chance is small.
        if change <= max(SUBSTEP_TOLERANCE, min(2 * noise, 3 * SUBSTEP_TOLERANCE)):
            break
        if 2 * m > _MAX_SUBSTEPS:
            break
        m, here = 2 * m, there
    variance = float(here.var(axis=0, ddof=1).sum())
    more = _particles(density, variance, m)
    if more > how.particles:
        how = replace(how, particles=more)
        again = replace(density, how=how, substeps=m)
        variance = float(estimates_at(again, model, values, _N_ESTIMATES).var(axis=0, ddof=1).sum())
    return Pilot(how, m, variance, change, noise)


def _particles(density: ParticleDensity, variance: float, substeps: int) -> int:
    """How many particles to take; the variance falls as one over their number."""
    n = density.how.particles
    if not np.isfinite(variance) or variance <= _CHEAP_VARIANCE:
        return n
    needed, wanted = (
        n * 2 ** int(np.ceil(np.log2(max(variance / target, 1.0))))
        for target in (_TARGET_VARIANCE, _CHEAP_VARIANCE)
    )
    affordable = _CHEAP / (substeps * len(density.data.dx))
    cheap = 2 ** int(np.log2(max(affordable, 1.0)))
    return int(min(max(needed, min(wanted, cheap)), _MAX_PARTICLES))
