r"""Second moments as sums of whole numbers: the same to the last bit in whatever order they come.

The steps of a run are rounded to multiples of $2^{e-42}$, where $2^e$ exceeds the largest of them,
and cut into two digits of 21 bits. A product of two digits has 40 bits; a matrix product of them
over 8192 rows is exact in double precision, whichever library forms it, in whatever order, with
however many threads. From there on the sums are integers. So moments of parts of the data, found
anywhere and added in any order, are those of the whole; rounding, relative to the largest step of
a run some 1e-12, happens to each step alone.
"""

__all__ = ["ExactMoments"]

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from driftbayes.errors import DriftbayesError
from driftbayes.likelihood.channels import ChannelMoments
from driftbayes.likelihood.moments import SecondMoments, diagonal_sums
from driftbayes.typing import FloatArray, IntArray

# Bits of a digit with its sign; a step is two of them.
_BITS = 21
_FRACTION = 2 * _BITS - 1
_MASK = (1 << _BITS) - 1
# Products of digits, at most 2^40 each, that a double adds up exactly.
_ROWS = 1 << 13
# Of whole matrix products, those that 64 bits hold.
_PRODUCTS = 8
# Steps that are taken at a time, so that they stay in the cache.
_CHUNK = 1 << 16
# Exponents are rounded up to multiples of this: fewer sums to keep, for two bits on average.
_EXPONENT_STEP = 4

# Length of the windows, whether they are whole runs, exponent of the unit.
Key = tuple[int, bool, int]


@dataclass(eq=False)
class ExactMoments:
    """Second moments of runs at one tau, to be added to and merged.

    Args:
        memory: Longest window; of a longer run all windows are summed, see `SecondMoments`.
        n_dim: Number of spatial dimensions.
        by_channel: Whether to keep the axes apart, for models whose axes are not all alike.
        sums: For each key the sums, four digits each: (digit, channel, channel, step, step).
        runs: How many runs there are of each length, those beyond the memory as one.
        n_later: Windows that are not the first of their run.
        n_steps: Steps in all.
        longest: Steps of the longest run.
    """

    memory: int
    n_dim: int
    by_channel: bool = False
    sums: dict[Key, IntArray] = field(default_factory=dict)
    runs: Counter[int] = field(default_factory=Counter)
    n_later: int = 0
    n_steps: int = 0
    longest: int = 0
    _pending: "dict[int, _Products]" = field(default_factory=dict, repr=False)

    def add(self, dx: FloatArray, row_sizes: IntArray) -> None:
        """Add runs.

        Args:
            dx: Steps, one row each, run after run.
            row_sizes: Number of steps of each run, 1 or more.
        """
        if len(row_sizes) == 0:
            return
        ends = np.cumsum(row_sizes)
        low = 0
        while low < len(row_sizes):
            first = int(ends[low] - row_sizes[low])
            high = max(int(np.searchsorted(ends, first + _CHUNK, side="right")), low + 1)
            self._add_chunk(dx[first : ends[high - 1]], row_sizes[low:high])
            low = high
        self.runs.update(Counter(np.minimum(row_sizes, self.memory).tolist()))
        self.n_later += int(np.maximum(row_sizes - self.memory, 0).sum())
        self.n_steps += int(row_sizes.sum())
        self.longest = max(self.longest, int(row_sizes.max()))

    def _add_chunk(self, dx: FloatArray, row_sizes: IntArray) -> None:
        starts = np.cumsum(row_sizes) - row_sizes
        size = np.abs(dx[:, 0])
        for axis in range(1, self.n_dim):
            np.maximum(size, np.abs(dx[:, axis]), out=size)
        largest = np.maximum.reduceat(size, starts)
        exponents = -(-np.frexp(largest)[1] // _EXPONENT_STEP) * _EXPONENT_STEP
        for exponent in np.unique(exponents):
            chosen = exponents == exponent
            part, sizes = dx, row_sizes
            if not chosen.all():
                part, sizes = dx[np.repeat(chosen, row_sizes)], row_sizes[chosen]
            digits = self._digits(part, int(exponent))
            if not self.by_channel:
                # Axes that are not kept apart are so many runs more.
                sizes = np.tile(sizes, self.n_dim)
            self._add_runs(digits, np.cumsum(sizes) - sizes, sizes, int(exponent))

    def merge(self, other: "ExactMoments") -> None:
        """Add the moments of other runs."""
        mine = (self.memory, self.n_dim, self.by_channel)
        if mine != (other.memory, other.n_dim, other.by_channel):
            msg = "only moments of the same memory, dimensions and channels can be merged"
            raise DriftbayesError(msg)
        self.settle()
        other.settle()
        for key, planes in list(other.sums.items()):
            self._keep(key, planes)
        self.runs.update(other.runs)
        self.n_later += other.n_later
        self.n_steps += other.n_steps
        self.longest = max(self.longest, other.longest)

    def second_moments(self, tau: float) -> SecondMoments:
        """What models ask for that treat all axes alike."""
        forms, orders, paired, predicted = self._groups()
        axes = forms[:, 0, 0]
        if self.by_channel:
            axes = sum((forms[:, a, a] for a in range(self.n_dim)), np.zeros_like(forms[:, 0, 0]))
        return SecondMoments(
            forms=np.asarray(axes),
            orders=orders,
            paired=paired,
            predicted=predicted * self.n_dim,
            tau=np.array(tau),
        )

    def channel_moments(self, tau: float) -> ChannelMoments:
        """What models ask for that keep the axes apart, or have a mean."""
        if not self.by_channel:
            msg = "these moments were summed over axes; sum them again by channel"
            raise DriftbayesError(msg)
        forms, orders, paired, predicted = self._groups()
        # The last channel is the duration, which was counted in steps.
        forms[:, -1] *= tau
        forms[:, :, -1] *= tau
        return ChannelMoments(
            forms=forms,
            orders=orders,
            paired=paired,
            predicted=predicted,
            tau=np.array(tau),
            centre=np.zeros(self.n_dim),
        )

    @property
    def moves(self) -> bool:
        """Whether any step differs from zero."""
        self.settle()
        last = self.n_dim if self.by_channel else 1
        return any(bool(planes[:, :last, :last].any()) for planes in self.sums.values())

    def _groups(self) -> tuple[FloatArray, IntArray, FloatArray, FloatArray]:
        self.settle()
        size = min(self.longest, self.memory)
        n_channels = self.n_dim + 1 if self.by_channel else 1
        groups = sorted({key[:2] for key in self.sums}, key=lambda group: (not group[1], group[0]))
        forms = np.zeros((len(groups), n_channels, n_channels, size, size))
        for i, (length, whole) in enumerate(groups):
            moment = self._moment(length, whole=whole)
            for a in range(n_channels):
                for b in range(n_channels):
                    block = moment[a, b]
                    block = diagonal_sums(block) if whole else block[::-1, ::-1]
                    forms[i, a, b, :length, :length] = block
        predicted = np.zeros(size)
        for length, count in self.runs.items():
            predicted[:length] += count
        predicted[-1] += self.n_later
        orders = np.array([length - 1 for length, _ in groups])
        return forms, orders, np.array([float(whole) for _, whole in groups]), predicted

    def _moment(self, length: int, *, whole: bool) -> FloatArray:
        """The sums of one group as numbers, rounded once: (channel, channel, step, step)."""
        found = {key[2]: planes for key, planes in self.sums.items() if key[:2] == (length, whole)}
        least = min(found)
        shape = next(iter(found.values())).shape[1:]
        out = np.zeros(shape)
        for index in np.ndindex(*shape[:2]):
            # How many of the two factors are steps, which the unit applies to: the last channel,
            # where axes are apart, counts steps.
            power = sum(not self.by_channel or channel < self.n_dim for channel in index)
            total = np.zeros(shape[2:], dtype=object)
            for exponent, planes in found.items():
                digits = planes[(slice(None), *index)].astype(object)
                value = digits[3]
                for digit in digits[2::-1]:
                    value = value * (1 << _BITS) + digit
                total = total + value * (1 << (power * (exponent - least)))
            unit = power * (least - _FRACTION)
            out[index] = np.ldexp(total.astype(np.float64), unit)
        return out

    def _digits(self, dx: FloatArray, exponent: int) -> FloatArray:
        """Steps as two digits: columns of the leading ones, then of the others.

        All axes side by side with the duration if they are kept apart, else one below the other.
        """
        n, shift = len(dx), _FRACTION - exponent
        axes = np.ascontiguousarray(dx.T)
        scaled = axes * 2.0**shift if abs(shift) < 1000 else np.ldexp(axes, shift)
        high = np.rint(scaled * 2.0**-_BITS)
        low = np.rint(scaled - high * 2.0**_BITS)
        if self.by_channel:
            return np.column_stack([high.T, np.zeros(n), low.T, np.ones(n)])
        digits = np.empty((self.n_dim * n, 2))
        digits[:, 0], digits[:, 1] = high.ravel(), low.ravel()
        return digits

    def _add_runs(
        self, digits: FloatArray, starts: IntArray, sizes: IntArray, exponent: int
    ) -> None:
        width = digits.shape[1]
        capped = np.minimum(sizes, self.memory)
        for length in map(int, np.flatnonzero(np.bincount(capped))):
            members = starts[capped == length]
            whole = len(members) == len(starts) and bool((sizes == length).all())
            for low in range(0, len(members), _ROWS * _PRODUCTS):
                chosen = members[low : low + _ROWS * _PRODUCTS]
                total = np.zeros((length * width, length * width), dtype=np.int64)
                for first in range(0, len(chosen), _ROWS):
                    some = chosen[first : first + _ROWS]
                    if whole:
                        windows = digits[some[0] : some[-1] + length]
                    else:
                        windows = digits[some[:, None] + np.arange(length)]
                    total += _gram(windows.reshape(len(some), -1))
                self._keep(
                    (length, True, exponent),
                    _planes(total.reshape(length, width, length, width)),
                )
        long = sizes > self.memory
        if long.any():
            # Every window but the first of its run: those of the run without its first step.
            self._add_sliding(digits, starts[long] + 1, sizes[long] - 1, exponent)

    def _add_sliding(
        self, digits: FloatArray, starts: IntArray, sizes: IntArray, exponent: int
    ) -> None:
        """Add all windows of as many steps as the memory is long, as products to be settled."""
        size, width = self.memory, digits.shape[1]
        pending = self._pending.get(exponent)
        if pending is None:
            pending = self._pending[exponent] = _Products.empty(size, width)
        ends = np.arange(size - 1)
        for low in range(0, len(starts), _ROWS):
            some, n = starts[low : low + _ROWS, None], sizes[low : low + _ROWS, None]
            pending.head += _gram(digits[some + ends].reshape(len(some), -1))
            pending.tail += _gram(digits[some + n - (size - 1) + ends].reshape(len(some), -1))
        for g0, g1, n_rows in _lagged(digits, starts, sizes, size):
            if pending.n_rows + n_rows > _ROWS * _PRODUCTS:
                self._settle(exponent)
                pending = self._pending[exponent] = _Products.empty(size, width)
            pending.within += g0
            pending.across += g1
            pending.n_rows += n_rows

    def settle(self) -> None:
        """Turn products that were put off into moments; to be called before sums are looked at."""
        for exponent in list(self._pending):
            self._settle(exponent)

    def _settle(self, exponent: int) -> None:
        """From products of rows to moments of windows.

        A moment is the sum over all pairs a lag apart, less the pairs that begin before the first
        window's element or after the last one's.
        """
        size, pending = self.memory, self._pending.pop(exponent)
        width = len(pending.within) // size
        within = pending.within.reshape(size, width, size, width)
        across = pending.across.reshape(size, width, size, width)
        shape = (size - 1, width, size - 1, width)
        head, tail = pending.head.reshape(shape), pending.tail.reshape(shape)
        moment = np.zeros((size, width, size, width), dtype=np.int64)
        for lag in range(size):
            pairs = np.trace(within, offset=lag, axis1=0, axis2=2)
            if lag:
                pairs = pairs + np.trace(across, offset=lag - size, axis1=0, axis2=2)
            values = np.repeat(pairs[None], size - lag, axis=0)
            if lag < size - 1:
                before = np.diagonal(head, lag, axis1=0, axis2=2).transpose(2, 0, 1)
                after = np.diagonal(tail, lag, axis1=0, axis2=2).transpose(2, 0, 1)
                values[1:] -= np.cumsum(before, axis=0)
                values[:-1] -= np.cumsum(after[::-1], axis=0)[::-1]
            _set_diagonal(moment, lag, values)
        self._keep((size, False, exponent), _planes(moment))

    def _keep(self, key: Key, planes: IntArray) -> None:
        found = self.sums.get(key)
        self.sums[key] = _carried(planes if found is None else found + planes)


@dataclass
class _Products:
    """Products of digits of long runs: within rows, from row to row, at both ends of the runs."""

    within: IntArray
    across: IntArray
    head: IntArray
    tail: IntArray
    n_rows: int = 0

    @classmethod
    def empty(cls, size: int, width: int) -> "_Products":
        n, ends = size * width, (size - 1) * width
        within, across, head, tail = (np.zeros((k, k), dtype=np.int64) for k in (n, n, ends, ends))
        return cls(within, across, head, tail)


def _lagged(
    digits: FloatArray, starts: IntArray, sizes: IntArray, size: int
) -> Iterator[tuple[IntArray, IntArray, int]]:
    """Products within rows of `size` steps, and of each row with the next; runs padded with zeros.

    Every run is followed by a row of zeros at least, so that no run meets another.
    """
    width = digits.shape[1]
    n_rows = -(-sizes // size) + 1
    ends = np.cumsum(n_rows)
    low = 0
    while low < len(starts):
        # As many runs as fill the products of one turn, or one that is longer.
        done = ends[low - 1] if low else 0
        high = max(int(np.searchsorted(ends, done + _ROWS * _PRODUCTS, side="right")), low + 1)
        padded = np.zeros((int(ends[high - 1] - done) * size, width))
        n, begin = sizes[low:high], starts[low:high]
        first = (ends[low:high] - n_rows[low:high] - done) * size
        if len(n) > 1 and (n == n[0]).all() and (np.diff(begin) == n[0] + 1).all():
            shape = (len(n), int(n[0]) + 1, width)
            source = digits[begin[0] - 1 : begin[-1] + n[0]].reshape(shape)
            padded.reshape(len(n), -1, width)[:, : n[0]] = source[:, 1:]
        else:
            for to, start, count in zip(first, begin, n, strict=True):
                padded[to : to + count] = digits[start : start + count]
        rows = padded.reshape(-1, size * width)
        for turn in range(0, len(rows), _ROWS * _PRODUCTS):
            g0 = np.zeros((size * width, size * width), dtype=np.int64)
            g1 = np.zeros_like(g0)
            for i in range(turn, min(turn + _ROWS * _PRODUCTS, len(rows)), _ROWS):
                some, following = rows[i : i + _ROWS], rows[i + 1 : i + 1 + _ROWS]
                g0 += _gram(some)
                g1 += (some[: len(following)].T @ following).astype(np.int64)
            yield g0, g1, min(_ROWS * _PRODUCTS, len(rows) - turn)
        low = high


def _gram(rows: FloatArray) -> IntArray:
    return (rows.T @ rows).astype(np.int64)


def _set_diagonal(moment: IntArray, lag: int, values: IntArray) -> None:
    """Set the elements (p, α, p + lag, β), and those mirrored."""
    index = np.arange(len(values))
    moment[index, :, index + lag, :] = values
    if lag:
        moment[index + lag, :, index, :] = values.transpose(0, 2, 1)


def _planes(moment: IntArray) -> IntArray:
    """Products (step, column, step, column) as digits (digit, channel, channel, step, step)."""
    size, width = moment.shape[:2]
    parts = moment.reshape(size, 2, width // 2, size, 2, width // 2).transpose(1, 4, 2, 5, 0, 3)
    zero = np.zeros_like(parts[0, 0])
    return np.stack([parts[1, 1], parts[0, 1] + parts[1, 0], parts[0, 0], zero])


def _carried(planes: IntArray) -> IntArray:
    """Digits of 21 bits without a sign, least first; the last takes what is left."""
    carry = np.zeros_like(planes[0])
    out = np.empty_like(planes)
    for i in range(3):
        value = planes[i] + carry
        out[i] = value & _MASK
        carry = value >> _BITS
    out[3] = planes[3] + carry
    return out
