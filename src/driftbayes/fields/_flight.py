r"""Likelihood of random flight whose velocity scale, memory time and mean flow vary in space.

Thomson's well-mixed model of a velocity with the standard deviation σ(x), the memory time T(x) and
the mean u(x),

$$dX = (u + \sigma w)\,dt, \qquad dw = (-w/T + \nabla\sigma)\,dt + \sqrt{2/T}\,dW .$$

The quadratic terms of Thomson's drift cancel in w = (U - u)/σ. A uniform density of particles with
w ~ N(0, I) is stationary if u has no divergence.

Over one step T and ∇σ are those at its start, u is that at its midpoint. The particle moves
half a step with the flow, then by random flight,
$\int w\,dt = y = r \int_0^1 d\lambda / \sigma(x + u\tau/2 + \lambda r)$,
$r = \Delta X - u\tau$, which is exact in one dimension, then half a step with the flow again. The
density of a step is that of y times
$|\partial y/\partial\Delta X| = \det(I - \tau\nabla u/2)\, g^{d-1}/\sigma(x + \Delta X - u\tau/2)$,
$g = |y|/|r|$, where σ or u is constant, as in every hypothesis: it integrates to one. y is Gaussian
given the earlier steps: a Kalman filter (`_kernels.random_flight`) computes the likelihood, and one
backward pass its derivatives with respect to all fields. With constant fields it is the
`langevin+mean` model.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from driftbayes._kernels.compiled import run_in_threads
from driftbayes._kernels.random_flight import flight_gradient
from driftbayes._typing import FloatArray, IntArray
from driftbayes.data._sampling import Displacements
from driftbayes.fields._flight_coefficients import step_coefficients
from driftbayes.fields._local import StepSums, default_boxes
from driftbayes.fields._problem import Block, DifferencedProblem
from driftbayes.fields._splines import Splines

# For each hypothesis, whether σ, T and the flow vary.
FLIGHT_HYPOTHESES = {
    "homogeneous": (False, False, False),
    "sigma": (True, False, False),
    "time": (False, True, False),
    "both": (True, True, False),
    "flow": (False, False, True),
}
# Gauss–Legendre nodes along a step.
_NODES, _WEIGHTS = (0.5 * values for values in np.polynomial.legendre.leggauss(3))
_NODES = _NODES + 0.5
# Number of steps per block, so that arrays fit in the processor's cache.
_BLOCK = 4096


@dataclass(frozen=True)
class FlightPriors:
    """Priors of the homogeneous part, those of the `langevin+mean` model.

    Args:
        gamma: Mean of the exponential prior of γ = 1/T.
        k: Mean of the exponential prior of k = σ²T.
        flow: Standard deviation of each component of the mean velocity.
    """

    gamma: float
    k: float
    flow: float


@dataclass(frozen=True, eq=False)
class _Fields:
    """Constants of ln σ, ln T and the flow, and coefficients (field, coefficient) of varying ones.

    `steps` are the coefficients of a step if T is constant.
    """

    constants: FloatArray
    coefficients: FloatArray
    varying: list[int]
    steps: tuple[FloatArray, FloatArray] | None


@dataclass(frozen=True)
class _Runs:
    """A block of neighbouring runs: start positions of steps, steps, and lengths of runs."""

    x: FloatArray
    dx: FloatArray
    sizes: IntArray


class FlightSteps(DifferencedProblem):
    """Likelihood of velocity scale, memory time and mean flow, by a Kalman filter of each run.

    Args:
        data: Displacements at one sampling time.
        x: Start positions of steps.
        splines: Splines of the fields.
        priors: Priors of the homogeneous part.
    """

    def __init__(
        self, data: Displacements, x: FloatArray, splines: Splines, priors: FlightPriors
    ) -> None:
        flow = Block(priors.flow, is_log=False, amplitude=2)
        blocks = (
            Block(priors.k, is_log=True, amplitude=0),
            Block(priors.gamma, is_log=True, amplitude=1),
            *(flow,) * splines.n_dim,
        )
        super().__init__(splines, blocks, FLIGHT_HYPOTHESES)
        self.tau = data.tau
        self.n_steps = len(x)
        sums = StepSums.of(x, data.dx, data.tau, splines, default_boxes(len(x), data.n_dim))
        self.places, self.place_counts = sums.x, sums.n
        self.runs = _divide_into_blocks(x, data.dx, data.row_sizes, splines)

    def start(self) -> FloatArray:
        """Estimate ln k, ln γ and the mean flow from moments of steps and successive steps."""
        n = self.n_steps
        mean = sum(runs.dx.sum(axis=0) for runs in self.runs) / n
        square, mixed, n_mixed = 0.0, 0.0, 0
        for runs in self.runs:
            dx = runs.dx - mean
            inside = np.ones(len(dx), dtype=bool)
            inside[np.cumsum(runs.sizes) - 1] = False
            follow = np.flatnonzero(inside)
            square += float(np.sum(dx**2))
            mixed += float(np.sum(dx[follow] * dx[follow + 1]))
            n_mixed += len(follow)
        variance = square / (n * self.n_dim)
        ratio = mixed / (n_mixed * self.n_dim) / variance if n_mixed else 0.5
        ratio = float(np.clip(ratio, 0.01, 0.99))

        def excess(x: float) -> float:
            return float(np.expm1(-x) ** 2 / (2 * (x + np.expm1(-x))) - ratio)

        x = brentq(excess, 1e-3, 1e3)
        k = variance / (2 * self.tau * (1 + np.expm1(-x) / x))
        return np.r_[np.log(k), np.log(x / self.tau), mean / self.tau]

    def _fields(self, name: str, theta: FloatArray) -> _Fields:
        """Convert ln k, ln γ and the flow to ln σ, ln T and the flow."""
        parts = self.parts(name)
        k, gamma, *flow = theta[[part.start for part in parts]]
        varying = [i for i, part in enumerate(parts) if part.stop - part.start > 1]
        coefficients = np.array([theta[parts[i]][1:] for i in varying])
        x = np.array([self.tau * np.exp(gamma)])
        steps = None if 1 in varying else step_coefficients(self.tau, x)
        constants = np.array([0.5 * (k + gamma), -gamma, *flow])
        return _Fields(constants, coefficients, varying, steps)

    def _evaluation_points(self, fields: _Fields, runs: _Runs) -> FloatArray:
        """Return the points at which varying fields are evaluated: midpoints for the flow."""
        return runs.x + 0.5 * runs.dx if 2 in fields.varying else runs.x

    def _at(self, fields: _Fields, x: FloatArray) -> FloatArray:
        """Evaluate all fields with their derivatives, (point, field, 1 + dim)."""
        out = np.zeros((len(x), len(self.blocks), 1 + self.n_dim))
        if fields.varying:
            out[:, fields.varying] = self.splines.values(x, fields.coefficients)
        out[:, :, 0] += fields.constants
        return out

    def _log_sigma(self, fields: _Fields, x: FloatArray) -> FloatArray:
        """Evaluate ln σ with its derivatives, (point, 1 + dim)."""
        if 0 in fields.varying:
            out = self.splines.values(x, fields.coefficients[:1])[:, 0]
        else:
            out = np.zeros((len(x), 1 + self.n_dim))
        out[:, 0] += fields.constants[0]
        return out

    def value(self, name: str, theta: FloatArray) -> tuple[float, FloatArray]:
        fields = self._fields(name, theta)
        sums = run_in_threads(self._sums, [(runs, fields) for runs in self.runs])
        total = float(sum(value for value, _ in sums))
        return total, self._gradient(name, sum(slopes for _, slopes in sums))

    def _gradient(self, name: str, slopes: FloatArray) -> FloatArray:
        """Convert derivatives by constants and coefficients to derivatives by the parameters."""
        parts = self.parts(name)
        out = np.zeros(parts[-1].stop)
        for part, row in zip(parts, slopes, strict=True):
            out[part] = row[: part.stop - part.start]
        # ln σ = (ln k + ln γ)/2 and ln T = -ln γ.
        by_sigma, by_time = slopes[0, 0], slopes[1, 0]
        out[parts[0].start], out[parts[1].start] = 0.5 * by_sigma, 0.5 * by_sigma - by_time
        return out

    def _sums(self, runs: _Runs, fields: _Fields) -> tuple[float, FloatArray]:
        """Return ln L of a block, and its derivatives (field, 1 + coefficient), constant first."""
        d, tau, x = self.n_dim, self.tau, runs.x
        where = self._evaluation_points(fields, runs)
        fields_at_steps = self._at(fields, where)
        s, slopes = fields_at_steps[:, 0, 0], fields_at_steps[:, 0, 1:]
        log_time, u = fields_at_steps[:, 1, 0], fields_at_steps[:, 2:, 0]
        r = runs.dx - tau * u
        points = [x + 0.5 * tau * u + node * r for node in _NODES] + [x + runs.dx - 0.5 * tau * u]
        along = [self._log_sigma(fields, point) for point in points]
        parts = [w * np.exp(-a[:, 0]) for w, a in zip(_WEIGHTS, along[:-1], strict=True)]
        g = sum(parts)
        force = np.exp(s)[:, None] * slopes
        values, derivatives = self._coefficients(fields, log_time)
        drift, shift = force * values[:, 1:2], force * values[:, 5:]
        total, by_y, by_drift, by_shift, by_coefficient = flight_gradient(
            runs.sizes, r * g[:, None], drift, shift, np.ascontiguousarray(values[:, :5])
        )
        total += float(np.sum((d - 1) * np.log(g) - along[-1][:, 0]))
        by_g = np.sum(by_y * r, axis=1) + (d - 1) / g
        by_force = by_drift * values[:, 1:2] + by_shift * values[:, 5:]
        by_coefficient[:, 1] += np.sum(by_drift * force, axis=1)
        by_last = np.sum(by_shift * force, axis=1)
        by_x = np.sum(by_coefficient * derivatives[:, :5], axis=1) + by_last * derivatives[:, 5]
        by_points = [-part * by_g for part in parts] + [np.full(len(x), -1.0)]
        by_here = np.zeros_like(fields_at_steps)
        by_here[:, 0, 0] = np.sum(by_force * force, axis=1)
        by_here[:, 0, 1:] = by_force * np.exp(s)[:, None]
        # x = τ/T.
        by_here[:, 1, 0] = -by_x * tau * np.exp(-log_time)
        by_here[:, 2:, 0] = -tau * by_y * g[:, None]
        if 2 in fields.varying:
            log_det, by_here[:, 2:, 1:] = _log_determinant(fields_at_steps[:, 2:, 1:], tau)
            total += float(np.sum(log_det))
        for node, by, field in zip((*_NODES, 1.0), by_points, along, strict=True):
            by_here[:, 2:, 0] += (tau * (0.5 - node) * by)[:, None] * field[:, 1:]
        out = np.zeros((2 + d, 1 + self.splines.size))
        out[:, 0] = by_here[:, :, 0].sum(axis=0)
        out[0, 0] += sum(by.sum() for by in by_points)
        if fields.varying:
            out[fields.varying, 1:] = self.splines.adjoint(where, by_here[:, fields.varying])
        if 0 in fields.varying:
            for point, by in zip(points, by_points, strict=True):
                out[:1, 1:] += self.splines.adjoint(point, by[:, None, None])
        return total, out

    def _coefficients(self, fields: _Fields, log_time: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the coefficients of all steps, and their derivatives by x = τ/T."""
        if fields.steps is None:
            return step_coefficients(self.tau, self.tau * np.exp(-log_time))
        first, second = fields.steps
        shape = (len(log_time), first.shape[1])
        return np.broadcast_to(first, shape), np.broadcast_to(second, shape)

    def differences(self, name: str, theta: FloatArray) -> FloatArray:
        # A coefficient affects only the runs near its spline; other runs are skipped.
        fields = self._fields(name, theta)
        base = run_in_threads(self._sums, [(runs, fields) for runs in self.runs])
        is_near = np.array(
            run_in_threads(self._affecting_coefficients, [(runs, fields) for runs in self.runs]),
            dtype=bool,
        )
        starts = {part.start for part in self.parts(name)}
        numbers = np.concatenate([np.arange(p.stop - p.start) for p in self.parts(name)]) - 1

        def row(i: int, size: float) -> FloatArray:
            moved = theta.copy()
            moved[i] += size
            perturbed = self._fields(name, moved)
            total = np.zeros((2 + self.n_dim, 1 + self.splines.size))
            for b, runs in enumerate(self.runs):
                if i in starts or is_near[b, numbers[i]]:
                    total += base[b][1] - self._sums(runs, perturbed)[1]
            return self._gradient(name, total) / size

        rows = np.array(run_in_threads(row, self.difference_steps(name)))
        return 0.5 * (rows + rows.T)

    def _affecting_coefficients(self, runs: _Runs, fields: _Fields) -> NDArray[np.bool_]:
        """Return which coefficients affect a block of runs."""
        where = self._evaluation_points(fields, runs)
        u = self._at(fields, where)[:, 2:, 0]
        r = runs.dx - self.tau * u
        starts = runs.x + 0.5 * self.tau * u
        points = [where, starts + r, *(starts + node * r for node in _NODES)]
        ones = np.ones((len(runs.x), 1, 1))
        return sum(self.splines.adjoint(point, ones)[0] for point in points) > 0

    def roughness(self, name: str, theta: FloatArray) -> FloatArray:
        """Return the largest relative change over each step of σ, T or flow/σ.

        Args:
            name: The hypothesis.
            theta: Its parameters.
        """
        fields = self._fields(name, theta)
        out = []
        for runs in self.runs:
            fields_at_steps = self._at(fields, self._evaluation_points(fields, runs))
            sigma = np.exp(fields_at_steps[:, 0, 0])
            path = self.tau * np.hypot(sigma, np.linalg.norm(fields_at_steps[:, 2:, 0], axis=1))
            slopes = np.linalg.norm(fields_at_steps[:, :2, 1:], axis=2).max(axis=1)
            shear = np.linalg.norm(fields_at_steps[:, 2:, 1:], axis=(1, 2))
            out.append(path * np.maximum(slopes, shear / sigma))
        return np.concatenate(out)


def _log_determinant(shear: FloatArray, tau: float) -> tuple[FloatArray, FloatArray]:
    """Return ln det(I - τ∇u/2) at each step, and its derivatives by ∇u (step, component, axis)."""
    d = shear.shape[1]
    matrix = np.eye(d) - 0.5 * tau * shear
    if d == 1:
        det, cofactors = matrix[:, 0, 0], np.ones_like(matrix)
    else:
        det = matrix[:, 0, 0] * matrix[:, 1, 1] - matrix[:, 0, 1] * matrix[:, 1, 0]
        cofactors = matrix[:, ::-1, ::-1] * np.array([[1, -1], [-1, 1]])
    with np.errstate(divide="ignore", invalid="ignore"):
        # A negative determinant would invert the flow map: such parameters are excluded.
        log_det = np.where(det > 0, np.log(np.maximum(det, 0.0)), -np.inf)
        return log_det, -0.5 * tau * cofactors / det[:, None, None]


def _divide_into_blocks(
    x: FloatArray, dx: FloatArray, sizes: IntArray, splines: Splines
) -> list[_Runs]:
    """Divide runs into blocks of some thousand steps, neighbouring runs together."""
    first = np.r_[0, np.cumsum(sizes)]
    middle = x[(first[:-1] + first[1:] - 1) // 2]
    cell = np.floor((middle - splines.low) / splines.spacing).astype(np.int64)
    order = np.lexsort(cell.T[::-1])
    block = (np.cumsum(sizes[order]) - 1) // _BLOCK
    out = []
    for runs_of_block in np.split(order, np.flatnonzero(np.diff(block)) + 1):
        steps = np.concatenate([np.arange(first[i], first[i + 1]) for i in runs_of_block])
        out.append(_Runs(x[steps], dx[steps], sizes[runs_of_block]))
    return out
