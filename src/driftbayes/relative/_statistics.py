r"""Model-free statistics of relative dispersion, against time and by separation class.

Against the time since the start of pairs: the relative dispersion $\langle r^2 \rangle$ over the
pairs observed at that time.

In each separation class, from the separation vector r: the second-order structure functions
$\langle |\delta u|^2 \rangle$ and $\langle \delta u_\parallel^2 \rangle$ with $\delta u = \Delta r
/ \Delta t$ over one step, the relative diffusivity $\tfrac12\,d\langle r^2 \rangle/dt$, and the
finite-size Lyapunov exponent $\ln\alpha / \langle T_\alpha \rangle$, with $T_\alpha$ the time in
which a separation that has reached the lower edge of the class first reaches α times it. Errors are
by bootstrap over pairs.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from driftbayes._representation import plain
from driftbayes._typing import FloatArray, IntArray
from driftbayes.errors import DriftbayesError
from driftbayes.relative._separations import Separations

NAMES = ("structure", "longitudinal", "diffusivity", "fsle")
# Smallest number of pairs for which a class has an error.
_MIN_PAIRS = 3
# Number of times at which the relative dispersion is computed.
_N_TIMES = 30


@dataclass(frozen=True, eq=False)
class PairStatistics:
    """Model-free statistics by separation class.

    Args:
        edges: Edges of the classes.
        n_steps: Number of steps that begin in each class.
        values: Values of each statistic by class; NaN where undefined.
        errors: Standard errors by bootstrap over pairs.
        times: Times since the start of pairs.
        dispersion: Mean of r² over the pairs observed at these times.
        dispersion_err: Standard error of the dispersion.
    """

    edges: FloatArray
    n_steps: FloatArray
    values: dict[str, FloatArray]
    errors: dict[str, FloatArray]
    times: FloatArray
    dispersion: FloatArray
    dispersion_err: FloatArray

    @property
    def centres(self) -> FloatArray:
        """Geometric centre of each class."""
        return np.sqrt(self.edges[1:] * self.edges[:-1])

    def to_json(self) -> dict[str, Any]:
        """Return plain numbers, None where undefined."""
        arrays = {
            "edges": self.edges,
            "n_steps": self.n_steps.astype(int),
            **self.values,
            **{f"{name}_err": errors for name, errors in self.errors.items()},
            **{name: getattr(self, name) for name in ("times", "dispersion", "dispersion_err")},
        }
        return {name: plain(values) for name, values in arrays.items()}


def pair_statistics(
    data: Separations,
    *,
    ratio: float = 1.5,
    n_replicates: int = 200,
    seed: int = 0,
    edges: FloatArray | None = None,
) -> PairStatistics:
    """Compute statistics of pairs by separation class.

    Args:
        data: Separations of disjoint pairs.
        ratio: Ratio α of the edges of a class, above 1.
        n_replicates: Replicates of the bootstrap.
        seed: Random seed of the bootstrap.
        edges: Edges of the classes; by default from the smallest separation. Steps that begin
            outside are excluded.
    """
    if not (np.isfinite(ratio) and ratio > 1):
        raise DriftbayesError(f"the ratio of the edges of a class must exceed 1, got {ratio}")
    if edges is None:
        low, high = np.log(data.first.min()), np.log(max(data.first.max(), data.last.max()))
        n_classes = max(int(np.ceil((high - low) / np.log(ratio) - 1e-9)), 1)
        edges = np.exp(low + np.log(ratio) * np.arange(n_classes + 1))
        # Include the largest separation despite rounding.
        edges[0], edges[-1] = data.first.min(), max(edges[-1], np.exp(high))
    n_classes = len(edges) - 1
    inside = (data.first >= edges[0]) & (data.first <= edges[-1])
    which = np.clip(np.searchsorted(edges, data.first, side="right") - 1, 0, n_classes - 1)
    speed = data.moved / data.interval**2
    along = ((data.last - data.first) / data.interval) ** 2
    growth = 0.5 * (data.last**2 - data.first**2) / data.interval
    shape = (data.n_pairs, n_classes)

    def by_pair(values: FloatArray) -> FloatArray:
        cell = data.pair[inside] * n_classes + which[inside]
        flat = np.bincount(cell, weights=values[inside], minlength=np.prod(shape))
        return np.asarray(flat, dtype=np.float64).reshape(shape)

    count = by_pair(np.ones(len(which)))
    sums = [by_pair(values) for values in (speed, along, growth)]
    times, reached = _crossing_times(data, edges, ratio)
    rng = np.random.Generator(np.random.Philox(seed))
    weights = rng.multinomial(data.n_pairs, np.full(data.n_pairs, 1 / data.n_pairs), n_replicates)
    weights = np.vstack([np.ones(data.n_pairs), weights])
    numbers, squares, is_observed = _squares(data)
    with np.errstate(all="ignore"):
        dispersion = (weights @ squares) / (weights @ is_observed)
        dispersion_err = _bootstrap_sd(dispersion[1:])
        means = [(weights @ total) / (weights @ count) for total in sums]
        means.append(np.log(ratio) * (weights @ reached) / (weights @ times))
        errors = [_bootstrap_sd(mean[1:]) for mean in means]
    counts = [count, count, count, reached]
    enough = [np.sum(c > 0, axis=0) >= _MIN_PAIRS for c in counts]
    return PairStatistics(
        edges,
        count.sum(axis=0),
        {name: mean[0] for name, mean in zip(NAMES, means, strict=True)},
        {n: np.where(ok, e, np.nan) for n, e, ok in zip(NAMES, errors, enough, strict=True)},
        data.tau * numbers,
        dispersion[0],
        np.where(is_observed.sum(axis=0) >= _MIN_PAIRS, dispersion_err, np.nan),
    )


def _squares(data: Separations) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return log-spaced numbers of steps since the start, r² of each pair, and whether observed."""
    starts, passed = data.starts, np.cumsum(data.interval)
    start = np.repeat(passed[starts] - data.interval[starts], data.counts)
    number = np.round((passed - start) / data.tau).astype(np.int64)
    targets = np.geomspace(1, number.max(), _N_TIMES).round().astype(np.int64)
    numbers = np.unique(np.append(0, targets))
    squares = np.zeros((data.n_pairs, len(numbers)))
    is_observed = np.zeros_like(squares)
    squares[:, 0], is_observed[:, 0] = data.first[starts] ** 2, 1.0
    index = np.searchsorted(numbers, number)
    known = np.flatnonzero(numbers[np.minimum(index, len(numbers) - 1)] == number)
    squares[data.pair[known], index[known]] = data.last[known] ** 2
    is_observed[data.pair[known], index[known]] = 1.0
    return numbers.astype(np.float64), squares, is_observed


def _bootstrap_sd(replicates: FloatArray) -> FloatArray:
    """Return the standard deviation over the replicates with a value."""
    is_finite = np.isfinite(replicates)
    values, n = np.where(is_finite, replicates, 0.0), is_finite.sum(axis=0)
    mean = values.sum(axis=0) / n
    return np.sqrt(np.sum(np.where(is_finite, values - mean, 0.0) ** 2, axis=0) / (n - 1))


def _crossing_times(
    data: Separations, edges: FloatArray, ratio: float
) -> tuple[FloatArray, FloatArray]:
    """Return the time in which each pair first grew from each edge to `ratio` times it, if it did.

    Between two sampling times ln r is interpolated linearly.
    """
    times = np.zeros((data.n_pairs, len(edges) - 1))
    reached = np.zeros_like(times)
    starts = data.starts
    owner = np.repeat(np.arange(len(starts)), data.counts)
    # A step begins where the one before it ended.
    before = np.append(0.0, data.last[:-1])
    before[starts] = data.first[starts]
    ends = [np.cumsum(steps) for steps in np.split(data.interval, starts[1:])]
    start = np.concatenate([np.append(0.0, end[:-1]) for end in ends])
    steps = _Steps(owner, start, np.concatenate(ends), np.log(before), np.log(data.last))
    for c, edge in enumerate(np.log(edges[:-1])):
        grown = _first_crossings(steps, edge, np.zeros(len(starts), dtype=np.int64))
        # Only pairs that crossed the edge, from that step on.
        since = np.full(len(starts), len(owner))
        since[owner[grown]] = grown
        passed = _first_crossings(steps, edge + np.log(ratio), since)
        pair = owner[passed]
        stop = _crossed_at(steps, edge + np.log(ratio), passed)
        times[pair, c] = stop - _crossed_at(steps, edge, since[pair])
        reached[pair, c] = 1.0
    return times, reached


class _Steps(NamedTuple):
    """Steps of all pairs: number of the pair, time and ln r at the start and at the end."""

    owner: IntArray
    start: FloatArray
    end: FloatArray
    before: FloatArray
    after: FloatArray


def _first_crossings(steps: _Steps, level: float, since: IntArray) -> IntArray:
    """Return the first step of each pair that crosses a level upwards, if there is one.

    Args:
        steps: Steps of all pairs.
        level: Level of ln r.
        since: First step of each pair that counts.
    """
    crossing = np.flatnonzero((steps.before <= level) & (steps.after > level))
    crossing = crossing[crossing >= since[steps.owner[crossing]]]
    _, first = np.unique(steps.owner[crossing], return_index=True)
    return np.asarray(crossing[first])


def _crossed_at(steps: _Steps, level: float, which: IntArray) -> FloatArray:
    """Return the times at which steps cross a level."""
    before, start = steps.before[which], steps.start[which]
    share = (level - before) / (steps.after[which] - before)
    return np.asarray(start + share * (steps.end[which] - start))
