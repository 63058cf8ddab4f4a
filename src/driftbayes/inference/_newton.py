"""Local maxima of a smooth function by Newton's method with finite differences."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from driftbayes._typing import FloatArray

# Maps points, (point, parameter), and the start index of each to values.
Function: TypeAlias = Callable[[FloatArray, NDArray[np.int64]], FloatArray]

_MAX_STEPS = 60
# Coordinates are logarithms: a step of 2 changes a parameter by a factor of 7.
_MAX_STEP = 2.0
# Span of the differences in widths of the peak: during the search, and at the end.
_SPAN, _FINE_SPAN = 0.15, 0.03
_MAX_WIDTH, _MIN_WIDTH = 0.5, 1e-9
# Newton decrements: for the fine span, for convergence, and for a maximum limited by rounding.
_NEAR, _DONE, _ACCEPTED = 1e-6, 1e-14, 1e-6
_MAX_DAMPING = 1e12
# Damping beyond which the differences are made narrower, and how often.
_REFINE_DAMPING, _MAX_REFINEMENTS = 1e3, 4
# Distance in widths at which a search joins another.
_JOIN_DISTANCE = 0.1


@dataclass(frozen=True)
class Maximum:
    """Result of one search.

    Args:
        z: The maximum.
        value: Value of the function.
        hessian: Second derivatives.
        converged: Whether a maximum in all directions was reached.
    """

    z: FloatArray
    value: float
    hessian: FloatArray
    converged: bool


@dataclass(frozen=True, eq=False)
class Components:
    """Gaussians at the modes of a density.

    Args:
        centers: The modes, (mode, parameter).
        factors: Lower-triangular factors of the covariances, (mode, parameter, parameter).
        log_masses: ln of the integral of each; minus infinity if there is no mode.
    """

    centers: FloatArray
    factors: FloatArray
    log_masses: FloatArray


def covariance(hessian: FloatArray, max_width: float) -> FloatArray:
    """Compute the covariance of a Gaussian of the same curvature, with limited widths."""
    curvature, axes = np.linalg.eigh(-np.nan_to_num(hessian))
    variance = np.clip(1 / np.maximum(np.abs(curvature), 1e-30), 1e-20, max_width**2)
    return np.asarray((axes * variance) @ axes.T)


def stencil(n: int) -> FloatArray:
    """Return the points of the differences in units of the span, the centre first."""
    unit = np.eye(n)
    rows = [np.zeros(n)]
    for i in range(n):
        rows += [unit[i], -unit[i], 2 * unit[i], -2 * unit[i]]
    for i in range(n):
        for j in range(i):
            both = unit[i] + unit[j]
            rows += [both, -both, 2 * both, -2 * both]
    return np.stack(rows)


def derivatives(values: FloatArray, n: int) -> tuple[FloatArray, FloatArray]:
    """Compute gradient and Hessian to fourth order from values on the stencil."""
    centre, rest = values[0], values[1:].reshape(-1, 4)
    sums = rest[:, 0] + rest[:, 1], rest[:, 2] + rest[:, 3]
    # Second derivatives along each axis and along each sum of two.
    second = (16 * (sums[0] - 2 * centre) - (sums[1] - 2 * centre)) / 12
    gradient = (8 * (rest[:n, 0] - rest[:n, 1]) - (rest[:n, 2] - rest[:n, 3])) / 12
    hessian = np.diag(second[:n])
    pair = n
    for i in range(n):
        for j in range(i):
            hessian[i, j] = hessian[j, i] = 0.5 * (second[pair] - second[i] - second[j])
            pair += 1
    return gradient, hessian


@dataclass
class _Search:
    """State of one search, and its next trial point."""

    z: FloatArray
    trial: FloatArray
    basis: FloatArray
    span: float = _SPAN
    # Span of the differences behind the current derivatives.
    derivative_span: float = _SPAN
    value: float = -np.inf
    gradient: FloatArray | None = None
    hessian: FloatArray | None = None
    decrement: float = np.inf
    lowest: float = 0.0
    damping: float = 0.0
    n_refinements: int = 0
    count: int = 0
    done: bool = False

    def update(self, values: FloatArray) -> None:
        """Accept or reject the trial by the values on its stencil, and propose another."""
        n = len(self.z)
        gradient, hessian = derivatives(values, n)
        usable = bool(np.isfinite(values).all())
        rounding = 4e-15 * abs(float(values[0]))
        higher = self.gradient is None or float(values[0]) >= self.value - rounding
        accepted = usable and higher
        self.count += 1
        if accepted:
            inverse = np.linalg.inv(self.basis) / self.span
            self.z, self.value = self.trial, float(values[0])
            self.derivative_span = self.span
            self.gradient = inverse.T @ gradient
            hessian = inverse.T @ hessian @ inverse
            self.hessian = 0.5 * (hessian + hessian.T)
            self.damping = 0.1 * self.damping if self.damping > 5 else 0.0
        elif self.gradient is None:
            # No derivatives yet: use narrower differences.
            self.basis = 0.1 * self.basis
            self.done = self.count > 8
            return
        elif self.derivative_span > self.span:
            # The step came from wide differences, which are biased: use fine ones first.
            self.trial = self.z
            return
        elif self.damping > _REFINE_DAMPING and self.n_refinements < _MAX_REFINEMENTS:
            # No step goes uphill: the differences span more than the peak. Use narrower ones.
            self.trial, self.basis = self.z, 0.2 * self.basis
            self.damping, self.n_refinements = 0.0, self.n_refinements + 1
            return
        else:
            self.damping = 10 * self.damping + 1.0
        self._propose(accepted=accepted)

    def _propose(self, *, accepted: bool) -> None:
        """Propose a damped Newton step, or finish the search."""
        assert self.gradient is not None
        assert self.hessian is not None
        if not np.isfinite(self.hessian).all():
            self.done = True
            return
        curvature, axes = np.linalg.eigh(-self.hessian)
        along = axes.T @ self.gradient
        strength = np.maximum(np.abs(curvature), 1e-10)
        self.lowest, self.decrement = float(curvature[0]), float(np.sum(along**2 / strength))
        step = axes @ (along / (strength * (1 + self.damping)))
        length = float(np.linalg.norm(step))
        self.trial = self.z + step * min(1.0, _MAX_STEP / max(length, 1e-300))
        self.basis = axes * np.clip(1 / np.sqrt(strength), _MIN_WIDTH, _MAX_WIDTH)
        enough = _DONE if accepted else _ACCEPTED
        if self.lowest > 0 and self.decrement < _NEAR and self.span > _FINE_SPAN:
            self.span, self.damping = _FINE_SPAN, 0.0
        elif self.lowest > 0 and self.decrement < enough:
            self.done = True
        self.done = self.done or self.count >= _MAX_STEPS or self.damping > _MAX_DAMPING

    def joins(self, other: "_Search") -> bool:
        """Tell whether this search has reached the maximum of a finished one."""
        if self.done or not (other.done and other.lowest > 0 and other.decrement < _ACCEPTED):
            return False
        assert other.hessian is not None
        step = self.z - other.z
        return float(-step @ other.hessian @ step) < _JOIN_DISTANCE**2

    def result(self) -> Maximum:
        """Return the point reached."""
        n = len(self.z)
        hessian = np.full((n, n), np.nan) if self.hessian is None else self.hessian
        converged = self.lowest > 0 and self.decrement < _ACCEPTED and np.isfinite(self.value)
        return Maximum(self.z, self.value, hessian, bool(converged))


def maximise(
    function: Function, starts: FloatArray, kinds: Sequence[int] | None = None
) -> list[Maximum]:
    """Find the local maximum uphill of each start.

    Newton steps use the absolute values of the Hessian's eigenvalues, so that every step goes
    uphill, are damped until the value grows, and change a parameter by at most a factor of 7. All
    searches are evaluated together. A search that reaches the maximum of another of its kind stops.

    Args:
        function: The function; its second argument is the start index of each point.
        starts: Points, (start, parameter).
        kinds: Kind of the function of each start; by default all are the same.
    """
    n = starts.shape[1]
    offsets = stencil(n)
    searches = [_Search(z=z, trial=z, basis=0.3 * np.eye(n)) for z in np.array(starts, float)]
    while active := [i for i, search in enumerate(searches) if not search.done]:
        points = [
            searches[i].trial + searches[i].span * offsets @ searches[i].basis.T for i in active
        ]
        start = np.repeat(active, len(offsets))
        with np.errstate(all="ignore"):
            values = function(np.concatenate(points), start).reshape(len(active), -1)
            for i, found in zip(active, values, strict=True):
                searches[i].update(found)
        for i in active:
            for j, other in enumerate(searches):
                if i != j and (kinds is None or kinds[i] == kinds[j]) and searches[i].joins(other):
                    searches[i] = replace(other)
                    break
    return [search.result() for search in searches]
