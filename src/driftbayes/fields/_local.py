r"""Likelihood of steps whose diffusivity and drift vary in space, locally Gaussian.

$$\Delta X \mid X \sim N\big((u + \nabla\kappa)\,\tau,\; 2\kappa\tau I\big), \qquad
  \ln\kappa = s,\quad \nabla\kappa = \kappa g,\quad g = \nabla s,$$

with all fields at the beginning X of the step. With $r = \Delta X - u\tau$,

$$\ln p = -\tfrac{d}{2}(\ln 4\pi\tau + s) - \frac{|r|^2 e^{-s}}{4\tau} + \tfrac12 r\cdot g
  - \tfrac14 \tau e^{s} |g|^2 .$$

It depends on steps from one position through their number, sum and sum of squares. Steps that begin
in one small box are treated as beginning at their mean position. The approximation loses
$3\varepsilon^2/8$ nats per step against the exact density, $\varepsilon =
|\nabla\kappa|\sqrt{\tau/\kappa}$ (tested with $\kappa \propto x^\xi$).
"""

from dataclasses import dataclass

import numpy as np

from driftbayes._typing import FloatArray
from driftbayes.fields._problem import Block, Problem
from driftbayes.fields._splines import Splines

# More steps than this are summed in boxes, with this many per interval and axis: ln K changes by
# less than 0.01.
_MAX_SINGLE, _N_BOXES = 4000, {1: 64, 2: 10}
# For each hypothesis, whether κ and the flow vary.
HYPOTHESES = {
    "homogeneous": (False, False),
    "kappa": (True, False),
    "flow": (False, True),
    "both": (True, True),
}


@dataclass(frozen=True)
class FieldPriors:
    """Priors of the homogeneous part.

    Args:
        kappa: Mean of the exponential prior of κ_0.
        flow: Standard deviation of each component of U.
    """

    kappa: float
    flow: float

    def blocks(self, n_dim: int) -> tuple[Block, ...]:
        """Return the blocks of ln κ and of each component of the flow.

        Args:
            n_dim: Number of components.
        """
        flows = (Block(self.flow, is_log=False, amplitude=1),) * n_dim
        return (Block(self.kappa, is_log=True, amplitude=0), *flows)


@dataclass(frozen=True, eq=False)
class StepSums:
    """Sums of the steps that begin in each small box.

    Args:
        x: Mean start position of the steps, (box, dim).
        n: Number of steps.
        first: Sum of the steps, (box, dim).
        second: Sum of their squares.
        tau: Sampling time.
    """

    x: FloatArray
    n: FloatArray
    first: FloatArray
    second: FloatArray
    tau: float

    @classmethod
    def of(
        cls, x: FloatArray, dx: FloatArray, tau: float, splines: Splines, n_boxes: int | None
    ) -> "StepSums":
        """Sum steps in boxes.

        Args:
            x: Start positions of the steps, (step, dim).
            dx: The steps.
            tau: Sampling time.
            splines: The splines, whose knot intervals are divided into boxes.
            n_boxes: Boxes per knot interval and axis; None keeps each step separate.
        """
        if n_boxes is None:
            return cls(x, np.ones(len(x)), dx, np.sum(dx**2, axis=1), tau)
        counts = np.array(splines.n_intervals) * n_boxes
        scaled = (x - splines.low) / (splines.high - splines.low) * counts
        index = np.clip(scaled.astype(np.int64), 0, counts - 1)
        flat = np.ravel_multi_index(tuple(index.T), tuple(counts))
        _, box = np.unique(flat, return_inverse=True)
        n = np.bincount(box).astype(np.float64)

        def total(values: FloatArray) -> FloatArray:
            return np.stack([np.bincount(box, column) for column in values.T], axis=-1)

        second = total(np.sum(dx**2, axis=1, keepdims=True))[:, 0]
        return cls(total(x) / n[:, None], n, total(dx), second, tau)


def default_boxes(n_steps: int, n_dim: int, *, summed: bool | None = None) -> int | None:
    """Return the number of boxes per knot interval and axis; None if steps are not summed.

    Args:
        n_steps: Number of steps.
        n_dim: Number of axes.
        summed: Whether to sum; by default if there are more than 4,000.
    """
    return _N_BOXES[n_dim] if (n_steps > _MAX_SINGLE if summed is None else summed) else None


def log_likelihood(
    data: StepSums, s: FloatArray, g: FloatArray, u: FloatArray
) -> tuple[float, FloatArray, FloatArray]:
    """Return ln p of all steps, with derivatives by (s, g, u) in each box.

    Args:
        data: Sums of steps.
        s: ln κ in each box.
        g: Gradient of ln κ, (box, dim).
        u: The flow, (box, dim).

    Returns:
        The sum; first derivatives (box, 1 + 2 dim); second derivatives (box, 1 + 2 dim, 1 + 2 dim).
    """
    n, tau, n_dim = data.n, data.tau, g.shape[1]
    away = data.first - n[:, None] * tau * u
    square = data.second - 2 * tau * np.sum(u * data.first, axis=1)
    square = square + n * tau**2 * np.sum(u**2, axis=1)
    kappa = np.exp(s)
    misfit = square / (4 * tau * kappa)
    slope = 0.25 * n * tau * kappa * np.sum(g**2, axis=1)
    value = -0.5 * n * n_dim * (np.log(4 * np.pi * tau) + s) - misfit - slope
    total = float(np.sum(value + 0.5 * np.sum(away * g, axis=1)))
    size = 1 + 2 * n_dim
    first = np.empty((len(n), size))
    second = np.zeros((len(n), size, size))
    first[:, 0] = -0.5 * n * n_dim + misfit - slope
    second[:, 0, 0] = -misfit - slope
    for i in range(n_dim):
        j, k = 1 + i, 1 + n_dim + i
        first[:, j] = 0.5 * away[:, i] - 0.5 * n * tau * kappa * g[:, i]
        second[:, j, j] = -0.5 * n * tau * kappa
        second[:, 0, j] = second[:, j, 0] = second[:, j, j] * g[:, i]
        first[:, k] = -0.5 * n * tau * g[:, i] + 0.5 * away[:, i] / kappa
        second[:, k, k] = -0.5 * n * tau / kappa
        second[:, j, k] = second[:, k, j] = -0.5 * n * tau
        second[:, 0, k] = second[:, k, 0] = -0.5 * away[:, i] / kappa
    return total, first, second


class LocalSteps(Problem):
    """Likelihood of diffusivity and flow with the local Gaussian density of steps.

    Args:
        data: Sums of steps.
        splines: Splines of the fields.
        priors: Priors of the homogeneous part.
    """

    def __init__(self, data: StepSums, splines: Splines, priors: FieldPriors) -> None:
        super().__init__(splines, priors.blocks(splines.n_dim), HYPOTHESES)
        self.data, self.places, self.place_counts = data, data.x, data.n

    def start(self) -> FloatArray:
        """Estimate the constants of the homogeneous model by moments."""
        data = self.data
        n = data.n.sum()
        kappa = data.second.sum() / (2 * self.n_dim * data.tau * n)
        return np.r_[np.log(kappa), data.first.sum(axis=0) / (n * data.tau)]

    def log_kappa(self, name: str, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return ln κ and its gradient at the starts of steps.

        Args:
            name: The hypothesis.
            theta: Its parameters.
        """
        fields = self._fields_at_steps(name, theta)[:, 0]
        return fields[:, 0], fields[:, 1:]

    def _fields_at_steps(self, name: str, theta: FloatArray) -> FloatArray:
        """Return ln κ and flow with derivatives at the starts of steps, (box, 1+dim, 1+dim)."""
        parts = self.parts(name)
        coefficients = np.zeros((len(parts), self.splines.size))
        for row, part in zip(coefficients, parts, strict=True):
            row[:] = theta[part][1:] if part.stop - part.start > 1 else 0.0
        out = self.splines.values(self.data.x, coefficients)
        out[:, :, 0] += theta[[part.start for part in parts]]
        return out

    def likelihood(self, name: str, theta: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        d, parts = self.n_dim, self.parts(name)
        fields = self._fields_at_steps(name, theta)
        total, first, second = log_likelihood(
            self.data, fields[:, 0, 0], fields[:, 0, 1:], fields[:, 1:, 0]
        )
        slopes = np.zeros((len(first), 1 + d, 1 + d))
        slopes[:, 0] = first[:, : 1 + d]
        slopes[:, 1:, 0] = first[:, 1 + d :]
        by_coefficient = self.splines.adjoint(self.data.x, slopes)
        curvature = -self.splines.information(self.data.x, second)
        gradient = np.empty_like(theta)
        hessian = np.zeros((len(theta), len(theta)))
        kappa = parts[0]
        for row, part in zip(by_coefficient, parts, strict=True):
            gradient[part] = _with_constant(row, part)
        hessian[kappa, kappa] = _with_constants(curvature[0], kappa, kappa)
        for i, part in enumerate(parts[1:], start=1):
            cross = _with_constants(curvature[i], kappa, part)
            hessian[kappa, part], hessian[part, kappa] = cross, cross.T
            hessian[part, part] = _with_constants(curvature[d + i], part, part)
        return total, gradient, hessian


def _with_constant(by_coefficient: FloatArray, part: slice) -> FloatArray:
    """Prepend the derivative by the constant to those by the coefficients, if the field varies.

    The splines sum to one, so the derivative by the constant is the sum over coefficients.
    """
    total = by_coefficient.sum(axis=0, keepdims=True)
    varies = part.stop - part.start > 1
    return np.concatenate([total, by_coefficient]) if varies else total


def _with_constants(curvature: FloatArray, rows: slice, columns: slice) -> FloatArray:
    """Add the rows and columns of the constants to second derivatives by the coefficients."""
    return _with_constant(_with_constant(curvature, rows).T, columns).T
