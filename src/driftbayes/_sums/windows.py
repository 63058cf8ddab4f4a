r"""Sums of products of displacements over windows of successive steps.

A run of at most L steps is one window. In a longer run the first L steps are a window, and every
later step ends another one. The sum of products of steps p and p + lag over the later windows is

$$\sum_{s=1}^{N-L} u_{s+p} v_{s+p+\mathrm{lag}} = \sum_{i=1}^{N-L} u_i v_{i+\mathrm{lag}}
  + \sum_{q=1}^{p} \left( u_{N-L+q} v_{N-L+q+\mathrm{lag}} - u_q v_{q+\mathrm{lag}} \right),$$

so that a run needs L products per step and two triangles, instead of L² products per step.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from driftbayes._typing import FloatArray, IntArray
from driftbayes.errors import DriftbayesError

# Up to this many products, and different lengths of runs, NumPy is faster than loading the compiled
# loops, which takes half a second.
_MAX_PLAIN, _MAX_PLAIN_LENGTHS = 1 << 25, 64


class WindowGroups(NamedTuple):
    """Sums over windows, grouped by length; see `SecondMoments`.

    Args:
        forms: Sums (group, column, column, step, step), with one column if columns were summed.
        orders: Length of the windows of each group, minus one.
        paired: 1 for first windows, 0 for later ones.
        predicted: Number of steps predicted from 0, 1, 2, ... earlier ones.
    """

    forms: FloatArray
    orders: IntArray
    paired: FloatArray
    predicted: FloatArray


@dataclass(eq=False)
class WindowSums:
    """Sums of products over windows of runs.

    Args:
        memory: Maximum length of a window.
        n_axes: Number of columns of the steps.
        apart: Whether to keep a sum for each pair of columns; otherwise one over all columns.
        duration: Whether to add a column of ones, which counts steps. Needs `apart`.
        compiled: Whether to always use compiled loops, whose order of summation is fixed.
        first: Sums over first windows by length, (pair, step, step), upper triangles.
        lagged: Products of the first step of later windows with each step, (pair, lag).
        ends: Products at the end of long runs minus those at their start, upper triangles.
        runs: Number of runs of each length, up to `memory`.
        n_later: Number of later windows.
        n_steps: Number of steps.
        longest: Number of steps of the longest run.
    """

    memory: int
    n_axes: int
    apart: bool = False
    duration: bool = False
    compiled: bool = False
    first: dict[int, FloatArray] = field(default_factory=dict)
    lagged: FloatArray = field(init=False)
    ends: FloatArray = field(init=False)
    runs: Counter[int] = field(default_factory=Counter)
    n_later: int = 0
    n_steps: int = 0
    longest: int = 0

    def __post_init__(self) -> None:
        """Set the sums to zero."""
        n_pairs = self.n_columns**2
        self.lagged = np.zeros((n_pairs, self.memory))
        self.ends = np.zeros((n_pairs, self.memory - 1, self.memory - 1))

    @property
    def n_columns(self) -> int:
        """Number of columns that are summed separately."""
        return self.n_axes + self.duration if self.apart else 1

    def add(self, source: FloatArray, firsts: IntArray, n_steps: IntArray, stride: int = 0) -> None:
        """Add runs."""
        if len(firsts) == 0:
            return
        capped = np.minimum(n_steps, self.memory)
        pairs = self._pairs()
        compiled = self.compiled or _is_large(n_steps, int(np.sum(n_steps * capped)) * len(pairs))
        if compiled:
            from driftbayes._sums.kernels import add_runs
        else:
            add_runs = _add_plain
        counts = np.bincount(capped)
        lengths = np.flatnonzero(counts)
        group_of = np.zeros(len(counts), dtype=np.int64)
        group_of[lengths] = np.arange(len(lengths))
        size, n_pairs = int(lengths[-1]), self.n_columns**2
        first = np.zeros((len(lengths), n_pairs, size, size))
        add_runs(
            np.ascontiguousarray(source),
            (np.asarray(firsts, dtype=np.int64), np.asarray(n_steps, dtype=np.int64)),
            stride,
            pairs,
            group_of,
            (first, self.lagged, self.ends),
        )
        for length, sums in zip(lengths.tolist(), first, strict=True):
            self._add_first(length, sums[:, :length, :length])
            self.runs[length] += int(counts[length])
        self.n_later += int(np.sum(n_steps - capped))
        self.n_steps += int(np.sum(n_steps))
        self.longest = max(self.longest, int(np.max(n_steps)))

    def merge(self, other: "WindowSums") -> None:
        """Add the sums over other runs; the last bits depend on the order of merging."""
        mine = (self.memory, self.n_axes, self.apart, self.duration)
        if mine != (other.memory, other.n_axes, other.apart, other.duration):
            raise DriftbayesError("only sums with the same memory and columns can be merged")
        for length, sums in other.first.items():
            self._add_first(length, sums)
        self.lagged += other.lagged
        self.ends += other.ends
        self.runs.update(other.runs)
        self.n_later += other.n_later
        self.n_steps += other.n_steps
        self.longest = max(self.longest, other.longest)

    @property
    def moves(self) -> bool:
        """Whether any step differs from zero."""
        squares = [a * (self.n_columns + 1) for a in range(self.n_axes if self.apart else 1)]
        later = self.lagged[squares, 0].any()
        return bool(later or any(np.trace(s[i]) for s in self.first.values() for i in squares))

    def groups(self) -> WindowGroups:
        """Return the sums in the form that the statistics engine uses."""
        size, n = min(self.longest, self.memory), self.n_columns
        keys = [(length, True) for length in sorted(self.first)]
        keys += [(size, False)] if self.n_later else []
        forms = np.zeros((len(keys), n, n, size, size))
        for form, (length, is_first) in zip(forms, keys, strict=True):
            upper = self.first[length] if is_first else self._later()
            full = _filled(upper.reshape(n, n, length, length))
            full = diagonal_sums(full) if is_first else full[..., ::-1, ::-1]
            form[..., :length, :length] = full
        predicted = np.zeros(size)
        for length, count in self.runs.items():
            predicted[:length] += count
        predicted[-1] += self.n_later
        orders = np.array([length - 1 for length, _ in keys])
        paired = np.array([float(is_first) for _, is_first in keys])
        return WindowGroups(forms, orders, paired, predicted)

    def _later(self) -> FloatArray:
        """Return sums over later windows, (pair, step, step), upper triangles."""
        size = self.memory
        later = np.zeros((len(self.lagged), size, size))
        for lag in range(size):
            change = np.cumsum(np.diagonal(self.ends, lag, axis1=1, axis2=2), axis=1)
            index = np.arange(size - lag)
            later[:, index, index + lag] = self.lagged[:, lag : lag + 1]
            later[:, index[1:], index[1:] + lag] += change
        return later

    def _pairs(self) -> IntArray:
        """Return pairs of columns to multiply, and the index of their sum."""
        if not self.apart:
            return np.array([(a, a, 0) for a in range(self.n_axes)])
        n = self.n_columns
        return np.array([(a, b, n * a + b) for a in range(n) for b in range(n)])

    def _add_first(self, length: int, sums: FloatArray) -> None:
        """Add the sums of first windows of one length."""
        if length in self.first:
            self.first[length] += sums
        else:
            self.first[length] = sums.copy()


def _is_large(n_steps: IntArray, n_products: int) -> bool:
    """Return whether compiled loops are faster."""
    return n_products > _MAX_PLAIN or len(np.unique(n_steps)) > _MAX_PLAIN_LENGTHS


def diagonal_sums(moment: FloatArray) -> FloatArray:
    """Return T with T[..., p, q] the sum along the diagonal from (p, q) to its end."""
    sums = moment.copy()
    for p in range(moment.shape[-2] - 2, -1, -1):
        sums[..., p, :-1] += sums[..., p + 1, 1:]
    return sums


def _filled(upper: FloatArray) -> FloatArray:
    """Fill products (column, column, step, step) from their upper triangles: M_ba = M_ab^T."""
    lower = np.tril(upper.transpose(1, 0, 3, 2), -1)
    return np.triu(upper) + lower


def _add_plain(
    source: FloatArray,
    runs: tuple[IntArray, IntArray],
    stride: int,
    pairs: IntArray,
    group_of: IntArray,
    sums: tuple[FloatArray, FloatArray, FloatArray],
) -> None:
    """Add products like `kernels.add_runs`, in NumPy."""
    firsts, n_steps = runs
    first, lagged, ends = sums
    memory = lagged.shape[1]
    for n in np.unique(n_steps).tolist():
        rows = firsts[n_steps == n][:, None] + (stride or 1) * np.arange(n + (stride > 0))
        steps = np.diff(source[rows], axis=1) if stride else source[rows]
        # Contiguous (column, run, step).
        columns = np.ones((steps.shape[2] + 1, len(rows), n))
        columns[:-1] = steps.transpose(2, 0, 1)
        size, n_later = min(n, memory), n - memory
        for a, b, pair in pairs.tolist():
            u, v = columns[a], columns[b]
            first[group_of[size], pair, :size, :size] += _products(u[:, :size], v[:, :size])
            if n_later <= 0:
                continue
            # The last bits of a matrix product depend on the library and its threads.
            lagged[pair] += [
                np.einsum("ri,ri->", u[:, 1 : 1 + n_later], v[:, 1 + lag : 1 + lag + n_later])
                for lag in range(memory)
            ]
            ends[pair] += _products(u[:, n_later + 1 :], v[:, n_later + 1 :])
            ends[pair] -= _products(u[:, 1:memory], v[:, 1:memory])


def _products(u: FloatArray, v: FloatArray) -> FloatArray:
    """Sum the products of all pairs of steps over runs."""
    return np.asarray(np.einsum("ri,rj->ij", u, v))
