"""Gaussians at the modes of a posterior, and the proposals that they become."""

__all__ = ["Components", "mixture_at_modes"]

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from driftbayes.errors import DriftbayesError
from driftbayes.inference.student_mixture import StudentMixture, joined
from driftbayes.typing import FloatArray


@dataclass(frozen=True, eq=False)
class Components:
    """Gaussians at the modes of a density.

    Args:
        centers: The modes, (mode, parameter).
        factors: Lower-triangular factor of the covariance at each, (mode, parameter, parameter).
        log_masses: ln of the integral of each; minus infinity where there is no mode.
    """

    centers: FloatArray
    factors: FloatArray
    log_masses: FloatArray


def mixture_at_modes(components: Components, ridges: Components | None = None) -> StudentMixture:
    """Put a joint Student law and a product at every mode; a fit finds out which is the better.

    Args:
        components: The modes.
        ridges: Gaussians between and around them, which get a joint law each.

    Raises:
        DriftbayesError: If the shapes do not fit or no mode is usable.
    """
    centers, factors, log_masses = (
        np.asarray(part, dtype=np.float64)
        for part in (components.centers, components.factors, components.log_masses)
    )
    if centers.ndim != 2 or factors.shape != (*centers.shape, centers.shape[1]):
        msg = f"expected centers (k, p) and factors (k, p, p), got {centers.shape}, {factors.shape}"
        raise DriftbayesError(msg)
    if log_masses.shape != centers.shape[:1]:
        msg = f"expected {len(centers)} log_masses, got shape {log_masses.shape}"
        raise DriftbayesError(msg)
    is_finite = np.isfinite(centers).all(axis=1) & np.isfinite(factors).all(axis=(1, 2))
    has_width = (np.diagonal(factors, axis1=1, axis2=2) > 0).all(axis=1)
    usable = np.array(is_finite & has_width)
    # The highest mode may have no mass, if the search for it did not converge.
    usable[1:] &= np.isfinite(log_masses[1:])
    if not usable.any():
        msg = "no mode has a finite centre and a factor of positive diagonal; use method='smc'"
        raise DriftbayesError(msg)
    masses = np.where(np.isfinite(log_masses), log_masses, -np.inf)[usable]
    shares = np.full(len(masses), 1 / len(masses))
    if np.isfinite(masses).any():
        shares = np.exp(masses - logsumexp(masses))
    mixture = StudentMixture(
        np.tile(centers[usable], (2, 1)),
        np.tile(factors[usable], (2, 1, 1)),
        np.tile(0.5 * shares, 2),
        np.repeat([True, False], len(shares)),
    )
    if ridges is None or not np.isfinite(masses).any():
        return mixture
    more = np.exp(ridges.log_masses - logsumexp(masses))
    total = float(more.sum())
    along = StudentMixture(
        ridges.centers, ridges.factors, more / total, np.zeros(len(more), dtype=bool)
    )
    return joined(mixture, along, total / (1 + total))
