"""Sums over steps that determine the evidence of any set of steps."""

from dataclasses import dataclass

import numpy as np

from driftbayes._typing import FloatArray, IntArray
from driftbayes.inference import Hypothesis
from driftbayes.inference._formulas import autocovariances_at
from driftbayes.likelihood import ChannelMoments, SecondMoments


@dataclass(frozen=True)
class Whitened:
    """Statistics of a density with a free scale and a mean flow, (set, point).

    Args:
        log_det: Log-determinant of the covariance of one axis.
        quadratic: Quadratic form of all axes.
        cross_products: Whitened products of displacements and durations, (set, point, axis).
        weight: Whitened product of durations with themselves.
    """

    log_det: FloatArray
    quadratic: FloatArray
    cross_products: FloatArray
    weight: FloatArray


@dataclass(frozen=True, eq=False)
class StepMoments:
    r"""Sums over the steps of each set, and over products with earlier steps of their runs.

    The likelihood of a step is conditional on up to L - 1 earlier steps, in any set. The
    log-likelihood $\sum_n \ln p(x_n \mid x_{n-1}, x_{n-2}, \dots)$ is then a sum over steps, each
    of which belongs to one set. Steps are grouped by the number of earlier steps, 0 to L - 1, and
    each group keeps the sums of $x_{n-p} x_{n-q}$ and of $x_{n-p}$.

    Args:
        squares: Sums of products, (set, pair of axes, product). The pairs are the lower triangle,
            or a single sum over all axes. Products are ordered by group 0, 1, ..., then p and q.
        sums: Sums of steps, (set, axis, term), ordered by group 0, 1, ..., then p.
        counts: Number of steps, (set, group).
        durations: Sums of durations over tau, (set, group); equal to the counts if all steps take
            tau.
        log_durations: Sums of the logarithms of durations over tau, (set,).
        tau: Sampling time; the mean duration at irregular times.
    """

    squares: FloatArray
    sums: FloatArray
    counts: FloatArray
    durations: FloatArray
    log_durations: FloatArray
    tau: float

    def __len__(self) -> int:
        """Number of sets."""
        return len(self.counts)

    @property
    def window(self) -> int:
        """L: a step and its earlier steps."""
        return self.counts.shape[1]

    @property
    def n_dim(self) -> int:
        """Number of axes."""
        return self.sums.shape[1]

    @property
    def n_steps(self) -> FloatArray:
        """Steps of each set."""
        return np.asarray(self.counts.sum(axis=1))

    @property
    def total(self) -> FloatArray:
        """Products summed over axes, (set, product)."""
        if self.squares.shape[1] == 1:
            return self.squares[:, 0]
        places = np.cumsum(np.arange(1, self.n_dim + 1)) - 1
        return np.asarray(self.squares[:, places].sum(axis=1))

    def merged(self, begin: IntArray, end: IntArray) -> "StepMoments":
        """Merge neighbouring sets.

        Args:
            begin: First set of each merged set.
            end: One after the last set of each merged set.
        """

        def reduce(values: FloatArray) -> FloatArray:
            # Differences of cumulative sums would lose digits.
            flat = np.concatenate([values, np.zeros((1, *values.shape[1:]))])
            places = np.stack([begin, end], axis=1).ravel()
            return np.asarray(np.add.reduceat(flat, places, axis=0)[::2])

        arrays = (self.squares, self.sums, self.counts, self.durations, self.log_durations)
        squares, sums, counts, durations, log_durations = map(reduce, arrays)
        return StepMoments(squares, sums, counts, durations, log_durations, self.tau)

    def shortened(self, window: int) -> "StepMoments":
        """Return the sums for a model that needs fewer earlier steps.

        Args:
            window: A step and its earlier steps.
        """
        if window == self.window:
            return self
        last_square, last_sum = _blocks(window)[-1]
        squares = self.squares[..., : last_square.stop].copy()
        sums = self.sums[..., : last_sum.stop].copy()
        counts, durations = self.counts[:, :window].copy(), self.durations[:, :window].copy()
        # Steps with more earlier steps join the last group.
        counts[:, -1] += self.counts[:, window:].sum(axis=1)
        durations[:, -1] += self.durations[:, window:].sum(axis=1)
        for n, (square, part) in enumerate(_blocks(self.window)[window:], start=window + 1):
            block = self.squares[..., square]
            block = block.reshape(*block.shape[:-1], n, n)[..., :window, :window]
            squares[..., last_square] += block.reshape(*block.shape[:-2], -1)
            sums[..., last_sum] += self.sums[..., part][..., :window]
        return StepMoments(squares, sums, counts, durations, self.log_durations, self.tau)

    def second_moments(self, index: int) -> SecondMoments:
        """Convert one set to second moments summed over axes."""
        forms = self._forms(self.total[index])
        predicted = self.counts[index] * self.n_dim
        return SecondMoments(forms, *self._groups(), predicted, np.array(self.tau))

    def channel_moments(self, index: int) -> ChannelMoments:
        """Convert one set to moments of separate axes, with the duration of steps as a channel."""
        d, size = self.n_dim, self.window
        forms = np.zeros((size, d + 1, d + 1, size, size))
        pair = 0
        for a in range(d):
            for b in range(a + 1):
                block = self._forms(self.squares[index, pair])
                forms[:, a, b] = block
                forms[:, b, a] = np.swapaxes(block, 1, 2)
                pair += 1
        for group, (_, terms) in enumerate(_blocks(size)):
            n = group + 1
            part = self.sums[index, :, terms] * self.tau
            forms[group, :d, d, :n, :n] = part[:, :, None]
            forms[group, d, :d, :n, :n] = part[:, None, :]
            forms[group, d, d, :n, :n] = self.tau**2 * self.durations[index, group]
        return ChannelMoments(
            forms, *self._groups(), self.counts[index], np.array(self.tau), np.zeros(d)
        )

    def whitened(
        self, hypothesis: Hypothesis, theta: FloatArray, sets: IntArray, n_rows: int
    ) -> Whitened:
        """Compute the whitened products of sets at given parameters; see `Whitened`.

        Args:
            hypothesis: Model family and prior.
            theta: Parameters of each set in turn, or of one row common to all sets.
            sets: Indices of the sets.
            n_rows: 1, or the number of sets.
        """
        taus = np.full(len(theta), self.tau)
        covariance = autocovariances_at(hypothesis, theta, taus, self.window)
        filters, variances = prediction_filters(covariance)
        products, terms = [], []
        totals = np.empty_like(variances)
        for group in range(self.window):
            f = filters[:, group, : group + 1] / np.sqrt(variances[:, group, None])
            products.append((f[:, :, None] * f[:, None, :]).reshape(len(f), -1))
            totals[:, group] = self.tau * f.sum(axis=1)
            terms.append(f * totals[:, group, None])
        squares, sums = self.total[sets], self.sums[sets]
        counts, durations = self.counts[sets], self.durations[sets]
        product, term = np.concatenate(products, axis=1), np.concatenate(terms, axis=1)
        logs = np.log(variances)
        log_duration = self.log_durations[sets, None]
        if n_rows == 1:
            quadratic, log_det = squares @ product.T, counts @ logs.T + log_duration
            cross_products = np.moveaxis(sums @ term.T, 1, 2)
            return Whitened(log_det, quadratic, cross_products, durations @ (totals**2).T)
        shape = (n_rows, -1)
        quadratic = np.einsum("sk,spk->sp", squares, product.reshape(*shape, product.shape[1]))
        cross_products = np.einsum("sak,spk->spa", sums, term.reshape(*shape, term.shape[1]))
        log_det = (
            np.einsum("sg,spg->sp", counts, logs.reshape(*shape, logs.shape[1])) + log_duration
        )
        weight = np.einsum("sg,spg->sp", durations, (totals**2).reshape(*shape, logs.shape[1]))
        return Whitened(log_det, quadratic, cross_products, weight)

    def _groups(self) -> tuple[IntArray, FloatArray]:
        """Return orders and paired flags of the groups, as in `SecondMoments`."""
        return np.arange(self.window), np.zeros(self.window)

    def _forms(self, products: FloatArray) -> FloatArray:
        """Arrange products in one matrix per group."""
        size = self.window
        forms = np.zeros((size, size, size))
        for n, (square, _) in enumerate(_blocks(size), start=1):
            forms[n - 1, :n, :n] = products[square].reshape(n, n)
        return forms


def _blocks(window: int) -> list[tuple[slice, slice]]:
    """Return the products and the terms of each group of steps."""
    sizes = np.arange(1, window + 1)
    squares, sums = np.cumsum(sizes**2).tolist(), np.cumsum(sizes).tolist()
    return [
        (slice(square - n * n, square), slice(total - n, total))
        for n, square, total in zip(sizes.tolist(), squares, sums, strict=True)
    ]


def step_moments(
    dx: FloatArray,
    earlier: IntArray,
    labels: IntArray,
    window: int,
    tau: float,
    *,
    apart: bool,
    interval: FloatArray | None = None,
) -> StepMoments:
    r"""Sum over the steps of each set.

    Independent steps may have different durations h. Products are then those of
    $\Delta x \sqrt{\tau/h}$, which has the variance of a step of duration tau.

    Args:
        dx: Steps of all runs, concatenated, (step, axis).
        earlier: Number of earlier steps in the run of each step.
        labels: Set of each step, 0, 1, ... without gaps.
        window: L, a step and the earlier steps that predict it.
        tau: Sampling time.
        apart: Whether sums are kept for each pair of axes.
        interval: Duration of each step, for a window of 1; None if all are tau.
    """
    if interval is not None and window > 1:
        msg = "steps of different durations have sums only where they are independent (window 1)"
        raise ValueError(msg)
    ratio = None if interval is None else interval / tau
    scaled = dx if ratio is None else dx / np.sqrt(ratio)[:, None]
    n_sets, d = int(labels.max()) + 1, dx.shape[1]
    pairs = [(a, b) for a in range(d) for b in range(a + 1)] if apart else []
    blocks = _blocks(window)
    squares = np.zeros((n_sets, max(len(pairs), 1), blocks[-1][0].stop))
    sums, counts = np.zeros((n_sets, d, blocks[-1][1].stop)), np.zeros((n_sets, window))
    durations, log_durations = counts, np.zeros(n_sets)
    order = np.argsort(labels, kind="stable")
    capped = np.minimum(earlier, window - 1)[order]
    for group, (square, part) in enumerate(blocks):
        n = group + 1
        steps = order[capped == group]
        if len(steps):
            occupied, begins = np.unique(labels[steps], return_index=True)
            counts[occupied, group] = np.diff(begins, append=len(steps))
            x = [np.ascontiguousarray(scaled[steps - p].T) for p in range(n)]
            if ratio is not None:
                durations, ratios = np.zeros_like(counts), ratio[steps]
                durations[occupied, 0] = np.add.reduceat(ratios, begins)
                log_durations[occupied] = np.add.reduceat(np.log(ratios), begins)
            for p in range(n):
                unscaled = x[p] if ratio is None else dx[steps].T
                sums[occupied, :, part.start + p] = np.add.reduceat(unscaled, begins, axis=1).T
                for q in range(n):
                    index = square.start + p * n + q
                    for pair, (a, b) in enumerate(pairs):
                        product = x[p][a] * x[q][b]
                        squares[occupied, pair, index] = np.add.reduceat(product, begins)
                    if not pairs and q <= p:
                        product = np.einsum("as,as->s", x[p], x[q])
                        total = np.add.reduceat(product, begins)
                        squares[occupied, 0, index] = total
                        squares[occupied, 0, square.start + q * n + p] = total
    return StepMoments(squares, sums, counts, durations, log_durations, tau)


def prediction_filters(covariance: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Compute prediction-error filters and innovation variances (Levinson--Durbin).

    Args:
        covariance: Autocovariances at lags 0, 1, ..., (row, lag).

    Returns:
        Filters, (row, number of earlier steps, lag), and variances, (row, number of earlier steps).
    """
    n_rows, size = covariance.shape
    filters, variances = np.zeros((n_rows, size, size)), np.empty((n_rows, size))
    filters[:, 0, 0] = 1.0
    variances[:, 0] = covariance[:, 0]
    for n in range(1, size):
        last = filters[:, n - 1]
        # Covariance of the innovation with the next earlier step.
        covariance_ahead = np.einsum("rl,rl->r", last[:, :n], covariance[:, n:0:-1])
        reflection = covariance_ahead / variances[:, n - 1]
        filters[:, n] = last
        filters[:, n, 1 : n + 1] -= reflection[:, None] * last[:, n - 1 :: -1][:, :n]
        variances[:, n] = variances[:, n - 1] * (1 - reflection) * (1 + reflection)
    return filters, variances
