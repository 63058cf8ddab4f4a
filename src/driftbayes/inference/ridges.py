"""Gaussians along the ridges of a posterior, which those at its modes do not cover.

A parameter that the data hardly constrain makes a long ridge, often curved and with a long tail on
one side: the error of a fast class of particles, the share of a class that is hardly there. From
the mode a walk goes out along each wide direction, both ways. At every step it returns to the top
of the ridge, by Newton's method across it, and leaves a Gaussian of the curvature found there.
"""

__all__ = ["find_ridges"]

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from driftbayes.inference.newton import derivatives, stencil
from driftbayes.inference.proposals import Components
from driftbayes.inference.search import Modes
from driftbayes.typing import FloatArray

# Directions wider than this are walked along; narrower peaks of ln θ are Gaussian.
_WIDE = 0.1
# A walk steps out by so many widths, and by more at every step, up to a factor of e in a parameter.
_FIRST_STEP, _GROWTH, _MAX_STEP = 1.0, 1.4, 1.0
_MAX_STEPS = 12
# It ends where the mass of a Gaussian is less than the mode's by so many nats.
_DEPTH = 7.0
# A flat direction is taken as this wide.
_MAX_WIDTH = 2.0
# Differences across a ridge span this part of its width.
_SPAN = 0.15
_N_CORRECTIONS = 2
# A walk that comes within so many widths of where another has been ends there.
_JOINED = 0.5
# Gaussians that are kept, those of the largest mass.
_MAX_RIDGES = 36
# Ridges curve: Gaussians are made wider by this factor.
_INFLATION = 1.5


@dataclass
class _Walk:
    """One walk: where it is, where it goes, and the curvature there."""

    z: FloatArray
    direction: FloatArray
    length: float
    basis: FloatArray
    done: bool = False

    def correct(self, gradient: FloatArray, hessian: FloatArray) -> FloatArray:
        """The step back to the top of the ridge, across the direction of the walk."""
        across = np.linalg.svd(self.direction[None])[2][1:]
        curvature, axes = np.linalg.eigh(-across @ hessian @ across.T)
        strength = np.maximum(np.abs(curvature), 1 / _MAX_STEP**2)
        step = across.T @ (axes @ ((axes.T @ across @ gradient) / strength))
        return step * min(1.0, _MAX_STEP / max(float(np.linalg.norm(step)), 1e-300))

    def shape(self, hessian: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Axes and widths of a Gaussian that reaches as far along the ridge as the walk steps."""
        curvature, axes = np.linalg.eigh(-hessian)
        strength = np.maximum(np.abs(curvature), 1 / _MAX_WIDTH**2)
        precision = (axes * strength) @ axes.T
        along = float(self.direction @ precision @ self.direction)
        more = max(1 / self.length**2 - along, 0.0)
        strength, axes = np.linalg.eigh(precision + more * np.outer(self.direction, self.direction))
        return axes, 1 / np.sqrt(strength)


def find_ridges(log_density: Callable[[FloatArray], FloatArray], modes: Modes) -> Components | None:
    """Walk along the ridges from every mode, and from where a search for one did not converge.

    Args:
        log_density: ln of the density at points, (point, parameter).
        modes: Its modes; the first must have converged, or there is no walk.

    Returns:
        Gaussians along the ridges and where the walks begin; None if no direction is wide.
    """
    if not modes.free.converged:
        return None
    n = len(modes.free.z)
    floor = modes.log_mass[0] - _DEPTH
    walks: list[_Walk] = []
    found: list[tuple[FloatArray, FloatArray, float]] = []
    for mode in modes.every:
        if not np.isfinite(mode.hessian).all() or _is_near(mode.z, found):
            continue
        curvature, axes = np.linalg.eigh(-mode.hessian)
        # Where a search has not converged, the top of a ridge may be flat or a saddle.
        widths = 1 / np.sqrt(np.maximum(np.abs(curvature), 1 / _MAX_WIDTH**2))
        log_mass = mode.value + 0.5 * n * np.log(2 * np.pi) + float(np.sum(np.log(widths)))
        if not log_mass > floor:
            continue
        found.append((mode.z, axes * widths, log_mass))
        basis = axes * np.minimum(widths, _MAX_STEP)
        walks += [
            _Walk(mode.z, sign * axes[:, i], _FIRST_STEP * min(widths[i], _MAX_STEP), basis)
            for i in np.flatnonzero(widths > _WIDE)
            for sign in (1.0, -1.0)
        ]
    offsets = _SPAN * stencil(n)
    for _ in range(_MAX_STEPS):
        active = [walk for walk in walks if not walk.done]
        if not active:
            break
        trials = [walk.z + walk.length * walk.direction for walk in active]
        for last in np.arange(_N_CORRECTIONS) == _N_CORRECTIONS - 1:
            pairs = zip(trials, active, strict=True)
            points = np.concatenate([trial + offsets @ walk.basis.T for trial, walk in pairs])
            with np.errstate(all="ignore"):
                values = log_density(points).reshape(len(active), -1)
            for k, walk in enumerate(active):
                if walk.done or not np.isfinite(values[k]).all():
                    walk.done = True
                    continue
                inverse = np.linalg.inv(walk.basis) / _SPAN
                slope, bend = derivatives(values[k], n)
                gradient, hessian = inverse.T @ slope, inverse.T @ bend @ inverse
                hessian = 0.5 * (hessian + hessian.T)
                own, sizes = walk.shape(hessian)
                walk.basis = own * np.minimum(sizes, _MAX_STEP)
                if not last:
                    trials[k] = trials[k] + walk.correct(gradient, hessian)
                    continue
                log_mass = values[k, 0] + 0.5 * n * np.log(2 * np.pi) + np.sum(np.log(sizes))
                if not log_mass > floor or _is_near(trials[k], found):
                    walk.done = True
                    continue
                found.append((trials[k], own * sizes, float(log_mass)))
                along = trials[k] - walk.z
                walk.direction = along / np.linalg.norm(along)
                walk.z, walk.length = trials[k], min(_GROWTH * walk.length, _MAX_STEP)
    if not walks:
        return None
    found = sorted(found, key=lambda one: -one[2])[:_MAX_RIDGES]
    centers, bases, log_masses = (np.array(part) for part in zip(*found, strict=True))
    factors = np.linalg.cholesky(bases @ np.swapaxes(bases, 1, 2))
    return Components(centers, _INFLATION * factors, log_masses)


def _is_near(z: FloatArray, found: list[tuple[FloatArray, FloatArray, float]]) -> bool:
    """Whether a Gaussian that was left before covers a place."""
    return any(
        float(np.sum(np.linalg.solve(basis, z - center) ** 2)) < _JOINED**2
        for center, basis, _ in found
    )
