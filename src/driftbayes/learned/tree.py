r"""Gaussian regressions in the cells of a quadtree, averaged over all ways to divide the region."""

__all__ = ["TREES", "grow"]

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, logsumexp, multigammaln

from driftbayes.comparison.prunings import average_prunings
from driftbayes.learned.mixture import linear_fit
from driftbayes.learned.splits import Split, Steps
from driftbayes.space.cells import box_around, levels_of
from driftbayes.typing import FloatArray, IntArray

# Whether a tree's regressions are on the displacement before.
TREES = {"tree:place": False, "tree:place+memory": True}
_MAX_DEPTH, _STEPS_PER_CELL, _MIN_STEPS = 6, 10, 8


@dataclass(frozen=True, eq=False)
class Regressions:
    r"""Conjugate regressions $y = B^{\mathsf T} f + \varepsilon$, many side by side.

    With $\varepsilon \sim N(0, \Sigma)$, $B \mid \Sigma \sim MN(0, I, \Sigma)$ and
    $\Sigma \sim IW(2 I, d + 3)$: unit prior mean of Σ and one step's worth of shrinkage for B.

    Args:
        count: Steps n of each regression.
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
        """Precision of B, its mean, scale and degrees of freedom of Σ."""
        n_dim = self.yy.shape[-1]
        precision = self.ff + np.eye(self.ff.shape[-1])
        mean = np.asarray(np.linalg.solve(precision, self.fy), dtype=np.float64)
        scale = 2 * np.eye(n_dim) + self.yy - np.swapaxes(self.fy, 1, 2) @ mean
        return precision, mean, scale, np.asarray(self.count + n_dim + 3.0)

    @property
    def log_evidence(self) -> FloatArray:
        """Log density of all steps of each regression, parameters integrated out."""
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
        """Log predictive density of further steps, each by the regression of one cell."""
        n_dim = y.shape[1]
        precision, mean, scale, freedom = (part[cell] for part in self._posterior)
        own = freedom - n_dim + 1
        away = y - np.einsum("nq,nqd->nd", f, mean)
        wider = 1 + np.einsum("nq,nq->n", f, np.linalg.solve(precision, f[:, :, None])[:, :, 0])
        scale = scale * (wider / own)[:, None, None]
        square = np.einsum("nd,nd->n", away, np.linalg.solve(scale, away[:, :, None])[:, :, 0])
        return np.asarray(
            gammaln(0.5 * (own + n_dim))
            - gammaln(0.5 * own)
            - 0.5 * n_dim * np.log(own * np.pi)
            - 0.5 * np.linalg.slogdet(scale)[1]
            - 0.5 * (own + n_dim) * np.log1p(square / own)
        )


def grow(
    steps: Steps, places: FloatArray, splits: Sequence[Split], *, is_lonlat: bool
) -> dict[str, list[FloatArray]]:
    r"""Learn the density of a displacement in cells, from the training steps of each split.

    A step in a cell is Gaussian with that cell's mean, covariance and, with memory, regression on
    the displacement before, all integrated out. The average over all ways to divide the region is
    a mixture of the cells that hold the step, one for each depth, by their probability given the
    training steps. Prior scales are those of a linear fit to all training steps.

    Args:
        steps: Steps of all trajectories.
        places: Where each begins, in a plane.
        splits: What to learn from and what to judge.
        is_lonlat: Whether places are longitudes and latitudes in degrees.

    Returns:
        For each of `TREES` and each split the log densities of its test steps, in the units of the
        data. A step without one before it has the density without memory.
    """
    found: dict[str, list[FloatArray]] = {name: [] for name in TREES}
    for split in splits:
        # A step outside the region of the training steps belongs to the cell at its edge.
        box = box_around(places[split.train], is_lonlat=is_lonlat)
        codes = box.codes(places, _MAX_DEPTH)
        plain = _tree(steps, codes, split, memory=False)
        found["tree:place"].append(plain)
        own = split.test & steps.has_previous
        values = plain.copy()
        with_previous = Split(split.train & steps.has_previous, own)
        values[own[split.test]] = _tree(steps, codes, with_previous, memory=True)
        found["tree:place+memory"].append(values)
    return found


def _tree(steps: Steps, codes: IntArray, split: Split, *, memory: bool) -> FloatArray:
    """Log densities of the test steps of one split."""
    previous = steps.previous if memory else np.zeros_like(steps.previous)
    fit = linear_fit(steps.dx[split.train], previous[split.train], previous.shape[1])
    y = fit.residuals(steps.dx, previous)
    f = np.concatenate([np.ones((len(steps), 1)), fit.inputs(previous)], axis=1)
    f = f if memory else f[:, :1]
    n_train = int(np.count_nonzero(split.train))
    deepest = int(np.clip(np.ceil(np.log2(max(n_train / _STEPS_PER_CELL, 2)) / 2), 1, _MAX_DEPTH))
    cells = codes >> (2 * (_MAX_DEPTH - deepest))
    fine, counts = np.unique(cells[split.train], return_counts=True)
    levels = levels_of(fine, counts, deepest, _MIN_STEPS)
    nodes = []
    for depth in range(levels.depth + 1):
        at = levels.find(depth, cells >> (2 * (deepest - depth)))
        inside = split.train & (at >= 0)
        n_cells = len(levels.codes[depth])
        nodes.append((at, Regressions.of(f[inside], y[inside], at[inside], n_cells)))
    tree = average_prunings([own.log_evidence for _, own in nodes], levels.parents)
    logs = np.full((len(nodes) + 1, np.count_nonzero(split.test)), -np.inf)
    left = np.ones(logs.shape[1])
    for depth, (at, own) in enumerate(nodes):
        place = at[split.test]
        there = place >= 0
        weight = tree.leaf[depth][place[there]]
        left[there] -= weight
        density = own.predict(f[split.test][there], y[split.test][there], place[there])
        with np.errstate(divide="ignore"):
            logs[depth, there] = np.log(weight) + density
    # A cell without training steps, below one that is divided: what holds before the data.
    empty = left > 1e-12
    if empty.any():
        none = Regressions.of(f[:0], y[:0], np.zeros(0, dtype=np.int64), 1)
        zero = np.zeros(np.count_nonzero(empty), dtype=np.int64)
        prior = none.predict(f[split.test][empty], y[split.test][empty], zero)
        logs[-1, empty] = np.log(left[empty]) + prior
    return np.asarray(logsumexp(logs, axis=0) - fit.log_det)
