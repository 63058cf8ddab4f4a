r"""Gaussian regressions in the cells of a quadtree, averaged over all partitions of the region."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, logsumexp, multigammaln

from driftbayes._typing import FloatArray, IntArray
from driftbayes.comparison._prunings import average_prunings
from driftbayes.learned._mixture import linear_fit
from driftbayes.learned._splits import Split, Steps
from driftbayes.space._cells import box_around, levels_of

# Whether the regressions of a tree include the previous displacement.
TREES = {"tree:place": False, "tree:place+memory": True}
_MAX_DEPTH, _STEPS_PER_CELL = 6, 10


@dataclass(frozen=True, eq=False)
class Regressions:
    r"""A batch of conjugate regressions $y = B^{\mathsf T} f + \varepsilon$.

    With $\varepsilon \sim N(0, \Sigma)$, $B \mid \Sigma \sim MN(0, I, \Sigma)$ and
    $\Sigma \sim IW(2 I, d + 3)$: Σ has unit prior mean, and the prior of B has the weight of one
    step.

    Args:
        count: Number of steps n of each regression.
        ff: Sums of $f f^{\mathsf T}$.
        fy: Sums of $f y^{\mathsf T}$.
        yy: Sums of $y y^{\mathsf T}$.
    """

    count: FloatArray
    ff: FloatArray
    fy: FloatArray
    yy: FloatArray

    @classmethod
    def of(cls, f: FloatArray, y: FloatArray, cell: IntArray, n_cells: int) -> "Regressions":
        """Sum over the steps of each cell."""

        def summed(a: FloatArray, b: FloatArray) -> FloatArray:
            total = np.zeros((n_cells, a.shape[1], b.shape[1]))
            np.add.at(total, cell, a[:, :, None] * b[:, None, :])
            return total

        count = np.bincount(cell, minlength=n_cells).astype(np.float64)
        return cls(count, summed(f, f), summed(f, y), summed(y, y))

    @property
    def _posterior(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return precision and mean of B, and scale and degrees of freedom of Σ."""
        n_dim = self.yy.shape[-1]
        precision = self.ff + np.eye(self.ff.shape[-1])
        mean = np.asarray(np.linalg.solve(precision, self.fy), dtype=np.float64)
        scale = 2 * np.eye(n_dim) + self.yy - np.swapaxes(self.fy, 1, 2) @ mean
        return precision, mean, scale, np.asarray(self.count + n_dim + 3.0)

    @property
    def log_evidence(self) -> FloatArray:
        """Return the log marginal likelihood of each regression."""
        n_dim = self.yy.shape[-1]
        precision, _, scale, freedom = self._posterior
        first = n_dim + 3.0
        gammas = np.array([multigammaln(0.5 * value, n_dim) for value in freedom])
        return np.asarray(
            gammas
            - multigammaln(0.5 * first, n_dim)
            + 0.5 * first * n_dim * np.log(2)
            - 0.5 * freedom * np.linalg.slogdet(scale)[1]
            - 0.5 * n_dim * np.linalg.slogdet(precision)[1]
            - 0.5 * self.count * n_dim * np.log(np.pi)
        )

    def predict(self, f: FloatArray, y: FloatArray, cell: IntArray) -> FloatArray:
        """Return the log predictive density of new steps, each by the regression of its cell."""
        n_dim = y.shape[1]
        precision, mean, scale, freedom = (part[cell] for part in self._posterior)
        dof = freedom - n_dim + 1
        away = y - np.einsum("nq,nqd->nd", f, mean)
        wider = 1 + np.einsum("nq,nq->n", f, np.linalg.solve(precision, f[:, :, None])[:, :, 0])
        scale = scale * (wider / dof)[:, None, None]
        square = np.einsum("nd,nd->n", away, np.linalg.solve(scale, away[:, :, None])[:, :, 0])
        return np.asarray(
            gammaln(0.5 * (dof + n_dim))
            - gammaln(0.5 * dof)
            - 0.5 * n_dim * np.log(dof * np.pi)
            - 0.5 * np.linalg.slogdet(scale)[1]
            - 0.5 * (dof + n_dim) * np.log1p(square / dof)
        )


def grow(
    steps: Steps, places: FloatArray, splits: Sequence[Split], *, is_lonlat: bool
) -> dict[str, list[FloatArray]]:
    r"""Learn the density of a displacement in cells, from the training steps of each split.

    A step in a cell is Gaussian with the cell's mean, covariance and, with memory, regression on
    the previous displacement, all marginalised. The average over all partitions is a mixture over
    the cells that contain the step, one per depth, weighted by their posterior probability. Prior
    scales are those of a linear fit to all training steps.

    Args:
        steps: Steps of all trajectories.
        places: Start positions of steps, in a plane.
        splits: Training and test steps.
        is_lonlat: Whether positions are longitudes and latitudes in degrees.

    Returns:
        Log densities of the test steps of each split, for each of `TREES`, in the units of the
        data. A step without a previous one has the density without memory.
    """
    log_densities: dict[str, list[FloatArray]] = {name: [] for name in TREES}
    for split in splits:
        # A step outside the region of the training steps belongs to the nearest cell.
        box = box_around(places[split.train], is_lonlat=is_lonlat)
        codes = box.codes(places, _MAX_DEPTH)
        without_memory = _tree(steps, codes, split, memory=False)
        log_densities["tree:place"].append(without_memory)
        is_scored = split.test & steps.has_previous
        values = without_memory.copy()
        with_previous = Split(split.train & steps.has_previous, is_scored)
        values[is_scored[split.test]] = _tree(steps, codes, with_previous, memory=True)
        log_densities["tree:place+memory"].append(values)
    return log_densities


def _tree(steps: Steps, codes: IntArray, split: Split, *, memory: bool) -> FloatArray:
    """Return the log densities of the test steps of one split."""
    previous = steps.previous if memory else np.zeros_like(steps.previous)
    fit = linear_fit(steps.dx[split.train], previous[split.train], previous.shape[1])
    y = fit.residuals(steps.dx, previous)
    f = np.concatenate([np.ones((len(steps), 1)), fit.inputs(previous)], axis=1)
    f = f if memory else f[:, :1]
    n_train = int(np.count_nonzero(split.train))
    deepest = int(np.clip(np.ceil(np.log2(max(n_train / _STEPS_PER_CELL, 2)) / 2), 1, _MAX_DEPTH))
    cells = codes >> (2 * (_MAX_DEPTH - deepest))
    fine, counts = np.unique(cells[split.train], return_counts=True)
    levels = levels_of(fine, counts, deepest)
    nodes = []
    for depth in range(levels.depth + 1):
        at = levels.find(depth, cells >> (2 * (deepest - depth)))
        inside = split.train & (at >= 0)
        n_cells = len(levels.codes[depth])
        nodes.append((at, Regressions.of(f[inside], y[inside], at[inside], n_cells)))
    tree = average_prunings([regression.log_evidence for _, regression in nodes], levels.parents)
    logs = np.full((len(nodes) + 1, np.count_nonzero(split.test)), -np.inf)
    remaining = np.ones(logs.shape[1])
    for depth, (at, regression) in enumerate(nodes):
        index = at[split.test]
        has_data = index >= 0
        weight = tree.leaf[depth][index[has_data]]
        remaining[has_data] -= weight
        test = np.flatnonzero(split.test)[has_data]
        density = regression.predict(f[test], y[test], index[has_data])
        with np.errstate(divide="ignore"):
            logs[depth, has_data] = np.log(weight) + density
    # A cell without training steps below a divided cell has the prior predictive density.
    empty = remaining > 1e-12
    if empty.any():
        none = Regressions.of(f[:0], y[:0], np.zeros(0, dtype=np.int64), 1)
        zero = np.zeros(np.count_nonzero(empty), dtype=np.int64)
        prior = none.predict(f[split.test][empty], y[split.test][empty], zero)
        logs[-1, empty] = np.log(remaining[empty]) + prior
    return np.asarray(logsumexp(logs, axis=0) - fit.log_det)
