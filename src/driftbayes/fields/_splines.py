r"""Smooth functions of position on cubic B-splines, and a Gaussian prior of their smoothness.

A field is $f(x) = \sum_j c_j B_j(x)$ on a rectangle, $B_j$ products of cubic B-splines on equally
spaced knots. The coefficients have a normal prior of precision

$$R = \sigma^{-2} (\rho^2 + L)^2, \qquad \rho = \sqrt{8\nu}/\ell,$$

L being the sum of squared first differences along each axis over the squared spacing, so that $L^2$
is the second-difference penalty of P-splines. It is the lattice form of a Matérn field of length ℓ
(correlation about 0.1 at that distance; ν = 2 - d/2) with reflecting walls. σ makes the variance
of f equal to one on average over the rectangle.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.interpolate import BSpline

from driftbayes._kernels.splines import spline_adjoint, spline_information, spline_values
from driftbayes._typing import FloatArray, IntArray

_DEGREE = 3
# Points per interval at which the prior variance is normalised.
_PER_INTERVAL = 3


@dataclass(frozen=True, eq=False)
class Splines:
    """Products of cubic B-splines on a rectangle.

    Args:
        low: Lower corner.
        high: Upper corner.
        n_intervals: Knot intervals along each axis.
    """

    low: FloatArray
    high: FloatArray
    n_intervals: tuple[int, ...]

    @property
    def n_dim(self) -> int:
        """Number of axes."""
        return len(self.n_intervals)

    @property
    def size(self) -> int:
        """Number of coefficients."""
        return int(np.prod([n + _DEGREE for n in self.n_intervals]))

    @property
    def spacing(self) -> FloatArray:
        """Distance between knots along each axis."""
        return (self.high - self.low) / np.array(self.n_intervals)

    @property
    def lengths(self) -> tuple[float, ...]:
        """Prior lengths that the knots resolve: the longer side, half of it, and so on."""
        out = [float((self.high - self.low).max())]
        while out[-1] >= 1.99 * self.spacing.max():
            out.append(0.5 * out[-1])
        return tuple(out)

    def design(self, x: FloatArray, derivative: int | None = None) -> FloatArray:
        """Evaluate all splines (point, coefficient), or their derivatives along one axis.

        Args:
            x: Points (point, dim). Outside the rectangle a field is that at the nearest point.
            derivative: The axis; None for the values.
        """
        out = np.ones((len(x), 1))
        for axis in range(self.n_dim):
            splines_along = self._along(axis, x[:, axis], order=int(derivative == axis))
            out = (out[:, :, None] * splines_along[:, None, :]).reshape(len(x), -1)
        return out

    def _along(self, axis: int, x: FloatArray, order: int) -> FloatArray:
        """Evaluate the splines along one axis, or their derivatives."""
        n, step = self.n_intervals[axis], self.spacing[axis]
        knots = self.low[axis] + step * np.arange(-_DEGREE, n + _DEGREE + 1)
        inside = np.clip(x, self.low[axis], self.high[axis])
        spline = BSpline(knots, np.eye(n + _DEGREE), _DEGREE)
        out = np.asarray(spline(inside, nu=order))
        return out if order == 0 else out * (inside == x)[:, None]

    @cached_property
    def _lattice(self) -> tuple[FloatArray, IntArray]:
        """Corners (2, dim) and intervals, as arguments of the kernels."""
        return np.stack([self.low, self.high]), np.array(self.n_intervals, dtype=np.int64)

    def values(self, x: FloatArray, coefficients: FloatArray) -> FloatArray:
        """Evaluate fields and their derivatives at points, (point, field, 1 + dim).

        Args:
            x: Points (point, dim). Outside the rectangle a field is that at the nearest point.
            coefficients: (field, coefficient).
        """
        return spline_values(x, *self._lattice, np.ascontiguousarray(coefficients))

    def adjoint(self, x: FloatArray, slopes: FloatArray) -> FloatArray:
        """Return derivatives (field, coefficient) of a function of fields at points.

        Args:
            x: Points (point, dim).
            slopes: Derivatives (point, field, 1 + dim) by values and slopes, or (point, field, 1)
                by values.
        """
        out: FloatArray = np.zeros((slopes.shape[1], self.size))
        spline_adjoint(x, *self._lattice, np.ascontiguousarray(slopes), out)
        return out

    def information(self, x: FloatArray, second: FloatArray) -> FloatArray:
        """Return second derivatives by the coefficients of a field and of a vector.

        Args:
            x: Points (point, dim).
            second: Second derivatives (point, 1 + 2 dim, 1 + 2 dim) by the field, its slopes, and
                the components of the vector.

        Returns:
            (1 + 2 dim, coefficient, coefficient): field and field, field and each component, each
            component with itself.
        """
        out: FloatArray = np.zeros((1 + 2 * self.n_dim, self.size, self.size))
        spline_information(x, *self._lattice, second, out)
        return out

    @cached_property
    def _laplacian(self) -> FloatArray:
        """L, the sum of squared first differences."""
        out: FloatArray = np.zeros((1, 1))
        for n, step in zip(self.n_intervals, self.spacing, strict=True):
            difference = np.diff(np.eye(n + _DEGREE), axis=0) / step
            penalty = difference.T @ difference
            kronecker_sum = np.kron(out, np.eye(len(penalty))) + np.kron(np.eye(len(out)), penalty)
            out = np.asarray(kronecker_sum, dtype=np.float64)
        return out

    def precision(self, length: float) -> FloatArray:
        """Return the precision R of the coefficients of a field of unit variance.

        Args:
            length: Correlation length ℓ.
        """
        rho2 = 8 * (2 - 0.5 * self.n_dim) / length**2
        root = rho2 * np.eye(self.size) + self._laplacian
        unscaled = root @ root
        axes = [
            np.linspace(a, b, _PER_INTERVAL * n + 1)
            for a, b, n in zip(self.low, self.high, self.n_intervals, strict=True)
        ]
        points = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=-1)
        # The variance is |root⁻¹ Bᵀ|², point by point.
        variance = np.sum(np.linalg.solve(root, self.design(points).T) ** 2, axis=0)
        return unscaled * float(variance.mean())
