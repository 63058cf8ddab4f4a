"""Gaussians along the ridges of a posterior, beyond those at its modes.

A weakly constrained parameter makes a long ridge, often curved and with a long tail on one side,
for example the position error of a fast class of particles, or the share of a rare class. From each
mode, walks follow each wide direction both ways. Every step returns to the top of the ridge by
Newton's method across it, and adds a Gaussian with the local curvature.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from driftbayes._typing import FloatArray
from driftbayes.inference._newton import Components, derivatives, stencil
from driftbayes.inference._search import Modes

# Least width of directions to follow; narrower peaks of ln θ are Gaussian.
_MIN_WIDTH = 0.1
# First step in widths, growth per step, and largest step: a factor of e in a parameter.
_FIRST_STEP, _GROWTH, _MAX_STEP = 1.0, 1.4, 1.0
_MAX_STEPS = 12
# A walk ends if the mass of its Gaussian is this many nats below that of the mode.
_DEPTH = 7.0
# Width of flat directions.
_MAX_WIDTH = 2.0
# Span of differences across a ridge, relative to its width.
_SPAN = 0.15
_N_CORRECTIONS = 2
# A walk ends if it comes this close to another Gaussian, in widths.
_JOIN_DISTANCE = 0.5
# Number of Gaussians to keep, those of the largest mass.
_MAX_RIDGES = 36
# Gaussians are widened by this factor, since ridges curve.
_INFLATION = 1.5


@dataclass
class _Walk:
    """Position, direction and local curvature of one walk."""

    z: FloatArray
    direction: FloatArray
    length: float
    basis: FloatArray
    done: bool = False

    def correct(self, gradient: FloatArray, hessian: FloatArray) -> FloatArray:
        """Compute the step back to the top of the ridge, across the direction of the walk."""
        across = np.linalg.svd(self.direction[None])[2][1:]
        curvature, axes = np.linalg.eigh(-across @ hessian @ across.T)
        strength = np.maximum(np.abs(curvature), 1 / _MAX_STEP**2)
        step = across.T @ (axes @ ((axes.T @ across @ gradient) / strength))
        return step * min(1.0, _MAX_STEP / max(float(np.linalg.norm(step)), 1e-300))

    def shape(self, hessian: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Compute axes and widths of a Gaussian that is no longer than the step along the ridge."""
        curvature, axes = np.linalg.eigh(-hessian)
        strength = np.maximum(np.abs(curvature), 1 / _MAX_WIDTH**2)
        precision = (axes * strength) @ axes.T
        along = float(self.direction @ precision @ self.direction)
        excess = max(1 / self.length**2 - along, 0.0)
        strength, axes = np.linalg.eigh(
            precision + excess * np.outer(self.direction, self.direction)
        )
        return axes, 1 / np.sqrt(strength)


def find_ridges(log_density: Callable[[FloatArray], FloatArray], modes: Modes) -> Components | None:
    """Follow the ridges from every mode, and from where a search did not converge.

    Args:
        log_density: ln of the density at points, (point, parameter).
        modes: Modes of the density; without convergence of the first there is no walk.

    Returns:
        Gaussians along the ridges and at their starts; None if no direction is wide.
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
        # If a search has not converged, the top of a ridge may be flat or a saddle.
        widths = 1 / np.sqrt(np.maximum(np.abs(curvature), 1 / _MAX_WIDTH**2))
        log_mass = mode.value + 0.5 * n * np.log(2 * np.pi) + float(np.sum(np.log(widths)))
        if not log_mass > floor:
            continue
        found.append((mode.z, axes * widths, log_mass))
        basis = axes * np.minimum(widths, _MAX_STEP)
        walks += [
            _Walk(mode.z, sign * axes[:, i], _FIRST_STEP * min(widths[i], _MAX_STEP), basis)
            for i in np.flatnonzero(widths > _MIN_WIDTH)
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
                axes, sizes = walk.shape(hessian)
                walk.basis = axes * np.minimum(sizes, _MAX_STEP)
                if not last:
                    trials[k] = trials[k] + walk.correct(gradient, hessian)
                    continue
                log_mass = values[k, 0] + 0.5 * n * np.log(2 * np.pi) + np.sum(np.log(sizes))
                if not log_mass > floor or _is_near(trials[k], found):
                    walk.done = True
                    continue
                found.append((trials[k], axes * sizes, float(log_mass)))
                along = trials[k] - walk.z
                walk.direction = along / np.linalg.norm(along)
                walk.z, walk.length = trials[k], min(_GROWTH * walk.length, _MAX_STEP)
    if not walks:
        return None
    found = sorted(found, key=lambda gaussian: -gaussian[2])[:_MAX_RIDGES]
    centers, bases, log_masses = (np.array(part) for part in zip(*found, strict=True))
    factors = np.linalg.cholesky(bases @ np.swapaxes(bases, 1, 2))
    return Components(centers, _INFLATION * factors, log_masses)


def _is_near(z: FloatArray, found: list[tuple[FloatArray, FloatArray, float]]) -> bool:
    """Tell whether a previous Gaussian covers a point."""
    return any(
        float(np.sum(np.linalg.solve(basis, z - center) ** 2)) < _JOIN_DISTANCE**2
        for center, basis, _ in found
    )
