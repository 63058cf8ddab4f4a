r"""Likelihood of long steps in varying fields: the Fokker–Planck transition density on a grid.

The transition probabilities between cells are $e^{A\tau}$, with the rates A of `fokker_planck`
(conservative and positive; walls reflect). Particles start in every second cell along each axis.
Between these, and between the cells in which steps end, the logarithm of the density is
interpolated by cubic polynomials: a Gaussian has a quadratic logarithm, for which that is exact,
and densities stay positive. The derivatives by all rates, and by the fields at all faces, come from
one backward pass over the terms of the series.
"""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from scipy.special import gammaln

from driftbayes._kernels.compiled import run_in_threads
from driftbayes._kernels.transition import evolve_columns, rate_gradient, stencil_sums
from driftbayes._typing import FloatArray, IntArray
from driftbayes.errors import DriftbayesError
from driftbayes.fields._fokker_planck import Grid, flux_slopes, fluxes
from driftbayes.fields._local import LocalSteps
from driftbayes.fields._problem import DifferencedProblem, n_evaluations

# Cells per standard deviation of a step where κ is small. The lattice's own kurtosis k = h²/2κτ
# costs d k²/48 nats per step: 3e-5 and 3e-3 there, and less where κ is larger.
_CELLS_PER_STEP = {1: 5.0, 2: 2.0}
# Margin beyond the outermost positions, in standard deviations of a step; its walls have no effect.
_MARGIN = 2.5
_MAX_CELLS = {1: 801, 2: 65 * 65}
_MAX_TERMS = 4000
# Largest number of multiplications of a fit: about 6 min on one core.
_MAX_WORK = 1e12
# Number of start cells per block.
_WIDTH = 8
# Smallest probability: longer steps are not resolved.
_TINY = 1e-280


def choose_cells(
    low: FloatArray, high: FloatArray, tau: float, kappa: FloatArray, *, walls: bool
) -> Grid:
    """Choose cells that resolve the steps.

    Args:
        low: Lower bound of all positions, or lower wall.
        high: Upper bound of all positions, or upper wall.
        tau: Sampling time.
        kappa: Diffusivities at the starts of steps, from a first fit.
        walls: Whether the bounds are walls; otherwise the grid extends beyond them.

    Raises:
        DriftbayesError: Too many cells are needed.
    """
    small, large = np.sqrt(2 * tau * np.quantile(kappa, [0.05, 0.95]))
    margin = 0.0 if walls else _MARGIN * large
    ends = low - margin, high + margin
    # An odd number: every second cell, including the first and the last, is a start.
    half = np.ceil(0.5 * (ends[1] - ends[0]) * _CELLS_PER_STEP[len(low)] / small).astype(np.int64)
    counts = 2 * np.maximum(half, 4) + 1
    limit = _MAX_CELLS[len(low)]
    if np.prod(counts) > limit:
        shown = " × ".join(str(count) for count in counts)
        raise DriftbayesError(
            f"the Fokker–Planck density of steps this short needs {shown} cells, more than "
            f"{limit:,}; use the local Gaussian density (--density local), which is for short "
            "steps, or a longer tau"
        )
    return Grid.regular(*ends, [int(count) for count in counts])


def check_work(grid: Grid, local: LocalSteps, n_steps: int, names: Sequence[str]) -> None:
    """Raise an error if the fit would take too long.

    Args:
        grid: The cells.
        local: The same problem with the local Gaussian density.
        n_steps: Number of steps.
        names: The hypotheses to fit.

    Raises:
        DriftbayesError: The fit would take more than about 6 min.
    """
    widths = [float(np.diff(edges)[0]) for edges in grid.edges]
    mean = local.data.tau * float(np.exp(local.start()[0])) * sum(4 / h**2 for h in widths)
    n_terms = mean + 9 * np.sqrt(mean) + 20
    n_starts = np.prod([n // 2 + 1 for n in grid.shape])
    n_products = (
        np.prod(grid.shape) * n_starts * n_terms * 8 * grid.n_dim + n_steps * 16**grid.n_dim
    )
    work = float(n_products * sum(n_evaluations(local, name) for name in names))
    if work > _MAX_WORK:
        raise DriftbayesError(
            f"the Fokker–Planck density on {' × '.join(str(n) for n in grid.shape)} cells needs "
            f"{work:.1g} multiplications, more than {_MAX_WORK:.1g}; use the local Gaussian "
            "density at a smaller tau, fewer --intervals, or --hypotheses kappa"
        )


class TransitionSteps(DifferencedProblem):
    """Likelihood of diffusivity and flow with the Fokker–Planck density of steps.

    Args:
        steps: Start and end positions of steps, each (step, dim).
        grid: Equal cells that contain all positions, an odd number along each axis.
        local: The same problem with the local Gaussian density.
    """

    def __init__(self, steps: tuple[FloatArray, FloatArray], grid: Grid, local: LocalSteps) -> None:
        super().__init__(local.splines, local.blocks, local.hypotheses)
        self.local, self.tau, self.grid, self.steps = local, local.data.tau, grid, steps
        self.places, self.place_counts = steps[0], np.ones(len(steps[0]))
        numbers = np.arange(int(np.prod(grid.shape))).reshape(grid.shape)
        nodes = np.ix_(*(np.arange(0, n, 2) for n in grid.shape))
        self._cells = numbers[nodes].ravel()
        self._starts = _stencils(steps[0], grid, 2)
        self._ends = _stencils(steps[1], grid, 1)
        self._neighbours, self._faces = _neighbours(grid)

    def start(self) -> FloatArray:
        return self.local.start()

    def rough_hessian(self, name: str, theta: FloatArray) -> FloatArray:
        return self.local.likelihood(name, theta)[2]

    @cached_property
    def _designs(self) -> list[FloatArray]:
        """Splines at the faces normal to each axis, with the constant first."""
        out = []
        for axis in range(self.n_dim):
            points = np.stack([x.ravel() for x in self.grid.faces(axis)], axis=-1)
            out.append(np.hstack([np.ones((len(points), 1)), self.splines.design(points)]))
        return out

    def fields(self, name: str, theta: FloatArray) -> list[tuple[FloatArray, FloatArray]]:
        """Return ln κ and the flow at the faces normal to each axis.

        Args:
            name: The hypothesis.
            theta: Its parameters.
        """
        parts = self.parts(name)
        out = []
        for design, part in zip(self._designs, parts[1:], strict=True):
            coefficients, flow = theta[parts[0]], theta[part]
            out.append(
                (design[:, : len(coefficients)] @ coefficients, design[:, : len(flow)] @ flow)
            )
        return out

    def _chain(self, fields: list[tuple[FloatArray, FloatArray]]) -> tuple[FloatArray, FloatArray]:
        """Return the rates from each cell to its neighbours, and the largest total rate."""
        rates = np.zeros(self._neighbours.shape)
        for axis, (s, u) in enumerate(fields):
            width = float(np.diff(self.grid.edges[axis])[0])
            forward, backward = fluxes(u, np.exp(s), np.full(len(s), width))
            lower, upper = self._faces[axis]
            rates[lower, 2 * axis] = forward / width
            rates[upper, 2 * axis + 1] = backward / width
        return rates, rates.sum(axis=1)

    def transitions(
        self, name: str, theta: FloatArray
    ) -> tuple[FloatArray, tuple[FloatArray, ...], float]:
        """Compute transition probabilities (cell, start), the terms of the series, and the rates.

        Args:
            name: The hypothesis.
            theta: Its parameters.
        """
        rates, leaving = self._chain(self.fields(name, theta))
        q = float(leaving.max())
        mean = q * self.tau
        if not mean <= _MAX_TERMS:
            raise DriftbayesError(
                f"{mean:,.0f} terms would be needed: kappa varies by too much for a grid of equal "
                "cells; use fewer intervals (--intervals) or the local Gaussian density "
                "(--density local) at a smaller tau"
            )
        # At least as many terms as cells along a path, so that no probability is zero.
        last = max(int(mean + 9 * np.sqrt(mean) + 20), sum(self.grid.shape))
        k = np.arange(last + 1)
        weights = np.exp(k * np.log(mean) - mean - gammaln(k + 1.0))
        outgoing = rates / q
        incoming = np.zeros_like(outgoing)
        for axis, (lower, upper) in enumerate(self._faces):
            incoming[upper, 2 * axis + 1] = outgoing[lower, 2 * axis]
            incoming[lower, 2 * axis] = outgoing[upper, 2 * axis + 1]
        chain = 1 - leaving / q, incoming, outgoing, weights
        out = np.empty((len(rates), len(self._cells)))
        run_in_threads(self._evolve, [(block, chain, out) for block in self._blocks()])
        return out, chain, q

    def _blocks(self) -> list[slice]:
        """Divide the start cells into blocks."""
        n = len(self._cells)
        return [slice(i, min(i + _WIDTH, n)) for i in range(0, n, _WIDTH)]

    def _evolve(self, block: slice, chain: tuple[FloatArray, ...], out: FloatArray) -> None:
        """Compute the probabilities of all cells for one block of start cells."""
        stay, incoming, _, weights = chain
        cells = self._cells[block]
        part = np.empty((len(out), len(cells)))
        evolve_columns(stay, incoming, self._neighbours, weights, cells, part)
        out[:, block] = part

    def log_likelihood(self, name: str, theta: FloatArray) -> float:
        """Return ln L.

        Args:
            name: The hypothesis.
            theta: Its parameters.
        """
        p = np.maximum(self.transitions(name, theta)[0], _TINY)
        return self._sum(p, np.zeros_like(p))

    def _sum(self, p: FloatArray, slope: FloatArray) -> float:
        """Sum ln p of all steps, and add the derivatives by ln p to `slope`."""
        total = stencil_sums(np.log(p), *self._starts, *self._ends, slope)
        return float(total - len(self.steps[0]) * np.log(self.grid.volumes.flat[0]))

    def value(self, name: str, theta: FloatArray) -> tuple[float, FloatArray]:
        p, (stay, incoming, outgoing, weights), q = self.transitions(name, theta)
        np.maximum(p, _TINY, out=p)
        slope = np.zeros_like(p)
        total = self._sum(p, slope)
        slope = np.where(p > _TINY, slope / p, 0.0)

        def backwards(block: slice) -> FloatArray:
            return rate_gradient(
                *(stay, incoming, outgoing, self._neighbours, weights),
                *(self._cells[block], np.ascontiguousarray(slope[:, block])),
            )

        by_rate = sum(run_in_threads(backwards, [(block,) for block in self._blocks()])) / q
        return total, self._gradient(name, theta, np.asarray(by_rate))

    def _gradient(self, name: str, theta: FloatArray, by_rate: FloatArray) -> FloatArray:
        """Convert derivatives by the rates to derivatives by the parameters."""
        out, parts = np.zeros_like(theta), self.parts(name)
        for axis, (s, u) in enumerate(self.fields(name, theta)):
            width = float(np.diff(self.grid.edges[axis])[0])
            lower, upper = self._faces[axis]
            by_forward = by_rate[lower, 2 * axis] / width
            by_backward = by_rate[upper, 2 * axis + 1] / width
            by_kappa, by_u = flux_slopes(u, np.exp(s), np.full(len(s), width))
            design, by_either = self._designs[axis], by_forward + by_backward
            n, m = (len(theta[part]) for part in (parts[0], parts[1 + axis]))
            out[parts[0]] += design[:, :n].T @ (by_either * by_kappa * np.exp(s))
            flow = by_either * by_u + np.where(u >= 0, by_forward, -by_backward)
            out[parts[1 + axis]] += design[:, :m].T @ flow
        return out

    def differences(self, name: str, theta: FloatArray) -> FloatArray:
        base = self.value(name, theta)[1]
        rows = []
        for i, size in self.difference_steps(name):
            moved = theta.copy()
            moved[i] += size
            rows.append((base - self.value(name, moved)[1]) / size)
        hessian = np.array(rows)
        return 0.5 * (hessian + hessian.T)

    def refinement(self, name: str, theta: FloatArray) -> tuple[float, float]:
        """Return the correction of ln L for the finite size of cells, and its error.

        It is extrapolated from a grid with 1.5 times as many cells along each axis; the error is of
        second order in their size.

        Args:
            name: The hypothesis.
            theta: Its parameters.
        """
        low, high = ([edges[end] for edges in self.grid.edges] for end in (0, -1))
        grid = Grid.regular(low, high, [2 * round(0.75 * n) + 1 for n in self.grid.shape])
        finer = TransitionSteps(self.steps, grid, self.local)
        ratio = (grid.shape[0] / self.grid.shape[0]) ** 2
        change = finer.log_likelihood(name, theta) - self.log_likelihood(name, theta)
        return change * ratio / (ratio - 1), abs(change) / (ratio - 1)


def _stencils(x: FloatArray, grid: Grid, stride: int) -> tuple[IntArray, FloatArray]:
    """Return indices and weights of the four nodes around each point along each axis.

    The logarithm of the density is even about a wall, so nodes are mirrored there.
    """
    numbers: IntArray = np.zeros((len(x), 1), dtype=np.int64)
    weights: FloatArray = np.ones((len(x), 1))
    for axis, edges in enumerate(grid.edges):
        centres = grid.centres[axis][::stride]
        n = len(centres)
        mirrored = np.r_[2 * edges[0] - centres[1::-1], centres, 2 * edges[-1] - centres[:-3:-1]]
        index = np.r_[1, 0, np.arange(n), n - 1, n - 2]
        first = np.searchsorted(mirrored, x[:, axis], side="right") - 2
        nearest = np.clip(first, 0, n)[:, None] + np.arange(4)
        nodes = mirrored[nearest]
        parts = np.ones((len(x), 4))
        for i in range(4):
            for other in range(4):
                if other != i:
                    apart = nodes[:, i] - nodes[:, other]
                    parts[:, i] *= (x[:, axis] - nodes[:, other]) / apart
        numbers = (numbers[:, :, None] * n + index[nearest][:, None, :]).reshape(len(x), -1)
        weights = (weights[:, :, None] * parts[:, None, :]).reshape(len(x), -1)
    return numbers, weights


def _neighbours(grid: Grid) -> tuple[IntArray, list[tuple[IntArray, IntArray]]]:
    """Return the neighbours of each cell (itself at a wall), and the cells beside each face."""
    out = np.repeat(np.arange(grid.volumes.size)[:, None], 2 * grid.n_dim, axis=1)
    faces = [grid.beside(axis) for axis in range(grid.n_dim)]
    for axis, (lower, upper) in enumerate(faces):
        out[lower, 2 * axis], out[upper, 2 * axis + 1] = upper, lower
    return out, faces
