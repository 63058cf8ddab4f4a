r"""Likelihood of random flight whose velocity scale and memory time vary in space.

Thomson's well-mixed model of a velocity with the standard deviation σ(x) and the memory time T(x),

$$dX = \sigma w\,dt, \qquad dw = (-w/T + \nabla\sigma)\,dt + \sqrt{2/T}\,dW .$$

The quadratic terms of Thomson's drift cancel in w = U/σ. Over one step T and ∇σ are those where it
begins, and $\int w\,dt$ is taken as $y = \Delta X \int_0^1 d\lambda / \sigma(x + \lambda\Delta X)$,
which is exact in one dimension. The density of a step is that of y times
$|\partial y/\partial\Delta X| = g^{d-1}/\sigma(x + \Delta X)$, $g = |y|/|\Delta X|$: it integrates
to one. y is Gaussian given the steps before: a filter (`kernels.random_flight`) sums them, and one
backward pass gives the derivatives by all fields. With constants it is the `langevin` model.
"""

__all__ = ["FLIGHT_HYPOTHESES", "FlightPriors", "FlightSteps"]

from collections.abc import Sequence
from dataclasses import dataclass
from math import factorial

import numpy as np
from scipy.optimize import brentq

from driftbayes.data.sampling import Displacements
from driftbayes.fields.problem import Block, DifferencedProblem, Member
from driftbayes.fields.splines import Splines
from driftbayes.kernels.random_flight import flight_gradient
from driftbayes.typing import FloatArray

# Whether σ and whether T vary.
FLIGHT_HYPOTHESES = {
    "homogeneous": (False, False),
    "sigma": (True, False),
    "time": (False, True),
    "both": (True, True),
}
# Gauss–Legendre nodes along a step.
_NODES, _WEIGHTS = (0.5 * values for values in np.polynomial.legendre.leggauss(3))
_NODES = _NODES + 0.5
# Below this x = τ/T formulas that cancel are summed as series, of so many terms.
_SMALL, _N_TERMS = 0.7, 24


@dataclass(frozen=True)
class FlightPriors:
    """Priors of the homogeneous part, those of the `langevin` model.

    Args:
        gamma: Mean of the exponential prior of γ = 1/T.
        k: Mean of the exponential prior of k = σ²T.
    """

    gamma: float
    k: float


class FlightSteps(DifferencedProblem):
    """Velocity scale and memory time by a filter along each run.

    Args:
        data: Displacements at one sampling time.
        x: Where steps begin.
        splines: Of the fields.
        priors: Of the homogeneous part.
    """

    def __init__(
        self, data: Displacements, x: FloatArray, splines: Splines, priors: FlightPriors
    ) -> None:
        blocks = (
            Block(priors.k, is_log=True, amplitude=0),
            Block(priors.gamma, is_log=True, amplitude=1),
        )
        super().__init__(splines, blocks, FLIGHT_HYPOTHESES)
        self.dx, self.tau, self.sizes = data.dx, data.tau, data.row_sizes
        self.places, self.place_counts = x, np.ones(len(x))
        self._here = splines.sparse_design(x)
        self._slopes = [splines.sparse_design(x, axis) for axis in range(splines.n_dim)]
        self._along = [splines.sparse_design(x + node * data.dx) for node in _NODES]
        self._end = splines.sparse_design(x + data.dx)

    def start(self) -> FloatArray:
        """Ln k and ln γ of the homogeneous model, by moments of steps and of neighbours."""
        inside = np.ones(len(self.dx), dtype=bool)
        inside[np.cumsum(self.sizes) - 1] = False
        variance = np.mean(self.dx**2)
        follow = np.flatnonzero(inside)
        mixed = np.mean(self.dx[follow] * self.dx[follow + 1]) if len(follow) else 0.5 * variance
        ratio = float(np.clip(mixed / variance, 0.01, 0.99))

        def excess(x: float) -> float:
            return float(np.expm1(-x) ** 2 / (2 * (x + np.expm1(-x))) - ratio)

        x = brentq(excess, 1e-3, 1e3)
        k = variance / (2 * self.tau * (1 + np.expm1(-x) / x))
        return np.array([np.log(k), np.log(x / self.tau)])

    def rough_hessian(self, name: str, theta: FloatArray) -> FloatArray:
        """Minus the Hessian.

        Args:
            name: The hypothesis.
            theta: Its parameters.
        """
        return self.differences(name, theta)

    def log_sigma(self, name: str, theta: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Ln σ and its gradient (step, dim) where steps begin, and ln T there.

        Args:
            name: The hypothesis.
            theta: Its parameters.
        """
        level, own, time, late = self._split(name, theta)
        slopes = np.stack([slope @ own for slope in self._slopes], axis=-1)
        return level + self._here @ own, slopes, time + self._here @ late

    def _split(self, name: str, theta: FloatArray) -> tuple[float, FloatArray, float, FloatArray]:
        """Constants and coefficients of ln σ and of ln T, zeros for fields that do not vary."""
        k, gamma = (theta[part] for part in self.parts(name))
        zeros = np.zeros(self.splines.size)
        own, late = (part[1:] if len(part) > 1 else zeros for part in (k, gamma))
        return float(0.5 * (k[0] + gamma[0])), own, float(-gamma[0]), late

    def value(self, name: str, theta: FloatArray) -> tuple[float, FloatArray]:
        """Ln of the likelihood and its gradient.

        Args:
            name: The hypothesis.
            theta: Its parameters.
        """
        level, own, _, _ = self._split(name, theta)
        d = self.n_dim
        s, slopes, log_time = self.log_sigma(name, theta)
        along = np.exp(-np.stack([level + design @ own for design in self._along]))
        g = _WEIGHTS @ along
        s_end = level + self._end @ own
        force = np.exp(s)[:, None] * slopes
        values, derivatives = _coefficients(self.tau, self.tau * np.exp(-log_time))
        drift, shift = force * values[:, 1:2], force * values[:, 5:]
        total, by_y, by_drift, by_shift, by_coefficient = flight_gradient(
            self.sizes, self.dx * g[:, None], drift, shift, np.ascontiguousarray(values[:, :5])
        )
        total += float(np.sum((d - 1) * np.log(g) - s_end))
        by_g = np.sum(by_y * self.dx, axis=1) + (d - 1) / g
        by_force = by_drift * values[:, 1:2] + by_shift * values[:, 5:]
        by_coefficient[:, 1] += np.sum(by_drift * force, axis=1)
        by_last = np.sum(by_shift * force, axis=1)
        by_x = np.sum(by_coefficient * derivatives[:, :5], axis=1) + by_last * derivatives[:, 5]
        # x = τ/T.
        by_time = -by_x * self.tau * np.exp(-log_time)
        by_s = np.sum(by_force * force, axis=1)
        nodes = -_WEIGHTS[:, None] * along * by_g
        by_level = float(by_s.sum() + nodes.sum() - len(s_end))
        parts = self.parts(name)
        out = np.zeros_like(theta)
        out[parts[0].start] = 0.5 * by_level
        out[parts[1].start] = 0.5 * by_level - by_time.sum()
        if parts[0].stop - parts[0].start > 1:
            inner = self._here.T @ by_s - self._end.T @ np.ones(len(s_end))
            for i, slope in enumerate(self._slopes):
                inner = inner + slope.T @ (by_force[:, i] * np.exp(s))
            for node, design in zip(nodes, self._along, strict=True):
                inner = inner + design.T @ node
            out[parts[0].start + 1 : parts[0].stop] = inner
        if parts[1].stop - parts[1].start > 1:
            out[parts[1].start + 1 : parts[1].stop] = self._here.T @ by_time
        return float(total), out

    def roughness(self, name: str, theta: FloatArray) -> FloatArray:
        """Relative change of σ or T over each step, whichever is larger.

        Args:
            name: The hypothesis.
            theta: Its parameters.
        """
        _, own, _, late = self._split(name, theta)
        size = np.exp(self.log_sigma(name, theta)[0]) * self.tau
        slopes = [
            np.linalg.norm([slope @ part for slope in self._slopes], axis=0) for part in (own, late)
        ]
        out: FloatArray = size * np.maximum(*slopes)
        return out

    def mean_velocity(self, members: Sequence[Member]) -> tuple[FloatArray, float]:
        """Mean velocity along each axis, and its standard error without memory of the start.

        Args:
            members: Fits, the homogeneous one first.
        """
        time = self.tau * len(self.dx)
        k = float(np.exp(members[0].mode[0]))
        return self.dx.sum(axis=0) / time, float(np.sqrt(2 * k / time))


def _coefficients(tau: float, x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Coefficients of a step at x = τ/T, (step, 6), and their derivatives by x.

    a, c, variances of the noise of the velocity, covariance, of the integral, and the factor by
    which a force shifts the integral.
    """
    fall = np.exp(-x)
    mean, mean_slope = _ratio(x, [0.0] + [-((-1.0) ** k) / factorial(k) for k in _RANGE], 1)
    far, far_slope = _ratio(x, [0.0, 0.0] + [(-1.0) ** k / factorial(k) for k in _RANGE[1:]], 2)
    cube = [(4 * (-1.0) ** k - (-2.0) ** k) / factorial(k) for k in _RANGE[2:]]
    spread, spread_slope = _ratio(x, [0.0, 0.0, 0.0, *cube], 2)
    c, c_slope = tau * mean, tau * mean_slope
    # (1 - a)²/x = x mean².
    mixed, mixed_slope = tau * x * mean**2, tau * (mean**2 + 2 * x * mean * mean_slope)
    values = [fall, c, -np.expm1(-2 * x), mixed, tau**2 * spread, tau**2 * far]
    slopes = [-fall, c_slope, 2 * fall**2, mixed_slope, tau**2 * spread_slope, tau**2 * far_slope]
    return np.stack(values, axis=-1), np.stack(slopes, axis=-1)


_RANGE = range(1, _N_TERMS)


def _ratio(x: FloatArray, series: list[float], power: int) -> tuple[FloatArray, FloatArray]:
    """f(x)/x^power and its derivative; f = 1 - e^-x, x - 1 + e^-x, or 2x - 3 + 4e^-x - e^-2x."""
    small = np.minimum(x, _SMALL)
    terms = np.polynomial.Polynomial(series[power:])
    value, slope = terms(small), terms.deriv()(small)
    large = np.maximum(x, _SMALL)
    fall = np.exp(-large)
    if power == 1:
        f, f_slope = 1 - fall, fall
    elif len(series) > 3 and series[2] != 0:
        f, f_slope = large - 1 + fall, 1 - fall
    else:
        f, f_slope = 2 * large - 3 + 4 * fall - fall**2, 2 - 4 * fall + 2 * fall**2
    far = f / large**power
    far_slope = f_slope / large**power - power * f / large ** (power + 1)
    return np.where(x < _SMALL, value, far), np.where(x < _SMALL, slope, far_slope)
