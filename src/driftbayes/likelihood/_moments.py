"""Second moments of regular steps, for one data set or a stack of several."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np

from driftbayes._kernels.compiled import run_in_ranges
from driftbayes._sums import WindowSums
from driftbayes._typing import FloatArray, IntArray
from driftbayes.data._sampling import Displacements
from driftbayes.errors import DriftbayesError

Moments = TypeVar("Moments", bound="tuple[Any, ...]")
# In runs longer than this, each step is predicted from the last MEMORY - 1 steps only. For
# integrated velocities the filters decay at least as fast as (2 - sqrt 3)^lag, to 1e-18 at lag 32.
MEMORY = 32


class SecondMoments(NamedTuple):
    r"""Sufficient statistics of regular displacements for a stationary Gaussian model.

    Runs of equal length n form a group with $M = \sum x x^\mathrm{T}$ over runs and axes. By the
    Gohberg--Semencul formula, with a the backward filter of order n - 1, b the forward filter
    shifted by one place, v their variance and $T_{pq} = \sum_l M_{p+l,q+l}$,

    $$\sum x^\mathrm{T} S^{-1} x = \left( a^\mathrm{T} T a - b^\mathrm{T} T b \right) / v .$$

    In a run longer than L steps, the first L belong to such a group. For every later step, the
    window of L steps that ends there belongs to another group, of which only the last step counts:

    $$\ln p(x_0 \dots x_{N-1}) = \ln p(x_0 \dots x_{L-1})
      + \sum_{n \ge L} \ln p(x_n \mid x_{n-L+1} \dots x_{n-1}).$$

    In that group T is M with time reversed, and b is not used. Stacked data sets have their own
    axis, before those given here.

    Args:
        forms: T of each group, zero beyond the group's length, (group, step, step).
        orders: Order n - 1 of the filters of each group.
        paired: 1 where b is used, otherwise 0, (group,).
        predicted: Number of scalar displacements predicted from 0, 1, 2, ... earlier ones.
        tau: Sampling time.
    """

    forms: FloatArray
    orders: IntArray
    paired: FloatArray
    predicted: FloatArray
    tau: FloatArray


def second_moments(data: Displacements, memory: int = MEMORY) -> SecondMoments:
    """Sum the second moments of regular displacements.

    Args:
        data: Displacements at one tau, all steps of that duration, without measurement error.
        memory: Longest window L; steps of longer runs are predicted from the last L - 1 steps.
    """
    if not data.is_regular:
        raise DriftbayesError(
            "engine='moments' needs steps of equal duration and exact positions; "
            "use engine='auto' for gaps, irregular times or noise"
        )
    sums = WindowSums(memory, data.n_dim)
    sums.add(data.dx, data.first_steps, data.row_sizes)
    return second_moments_of(sums, data.tau)


def second_moments_of(sums: WindowSums, tau: float) -> SecondMoments:
    """Convert window sums, over all axes or with separate axes, to moments.

    Args:
        sums: Sums over steps at one sampling time.
        tau: Sampling time.
    """
    forms, orders, paired, predicted = sums.groups()
    axes = forms[:, 0, 0]
    if sums.apart:
        axes = np.einsum("gaapq->gpq", forms[:, : sums.n_axes, : sums.n_axes])
    return SecondMoments(axes, orders, paired, predicted * sums.n_axes, np.array(tau))


def stack_moments(many: Sequence[Moments]) -> Moments:
    """Stack the moments of several data sets, padded with empty groups and steps."""

    def stack(*arrays: np.ndarray) -> np.ndarray:
        sizes = zip(*(array.shape for array in arrays), strict=True)
        out = np.zeros((len(many), *map(max, sizes)), dtype=arrays[0].dtype)
        for i, array in enumerate(arrays):
            out[i, ...][tuple(slice(n) for n in array.shape)] = array
        return out

    return type(many[0])(*map(stack, *many))


def sliding_moment(dx: FloatArray, size: int) -> FloatArray:
    """Sum x xᵀ over all windows of `size` successive steps of one run, and over axes.

    The first row takes `size` scalar products. The other rows follow along the diagonals, since
    shifting the window drops one product at its start and adds one at its end.

    Args:
        dx: Steps, (step, dim).
        size: Number of steps in a window.
    """
    n_windows = len(dx) - size + 1
    head, tail = dx[: size - 1], dx[n_windows:]
    change = tail @ tail.T - head @ head.T
    moment = np.empty((size, size))
    for lag in range(size):
        first = np.vdot(dx[:n_windows], dx[lag : lag + n_windows])
        diagonal = first + np.concatenate([[0.0], np.cumsum(np.diagonal(change, lag))])
        index = np.arange(size - lag)
        moment[index, index + lag] = moment[index + lag, index] = diagonal
    return moment


# Rows per thread at least, and number of threads at most.
_ROWS_PER_TASK = 256
_MAX_TASKS = 4


@dataclass(frozen=True, eq=False)
class MomentStack:
    """Second moments of several data sets.

    Args:
        moments: Second moments with a leading axis over data sets.
    """

    moments: SecondMoments

    def __len__(self) -> int:
        """Number of data sets."""
        return len(self.moments.forms)

    @property
    def n_lags(self) -> int:
        """Largest number of lags of a filter."""
        return int(self.moments.forms.shape[-1])

    @cached_property
    def taus(self) -> FloatArray:
        """Sampling time of each data set."""
        return self.moments.tau

    @cached_property
    def n(self) -> FloatArray:
        """Number of scalar displacements of each data set."""
        return np.asarray(self._predicted.sum(axis=1))

    @cached_property
    def _predicted(self) -> FloatArray:
        """Number of displacements predicted from 0, 1, 2, ... earlier ones, (set, order)."""
        return np.ascontiguousarray(self.moments.predicted)

    @cached_property
    def _groups(self) -> tuple[IntArray, FloatArray, FloatArray]:
        """Orders, paired flags and packed forms of all groups."""
        forms, orders = self.moments.forms, self.moments.orders.copy()
        # Empty groups are padding and have no order.
        orders[~np.any(forms != 0, axis=(2, 3))] = -1
        i, j = np.tril_indices(forms.shape[-1])
        packed = forms[:, :, i, j] + np.where(i == j, 0.0, forms[:, :, j, i])
        paired = np.ascontiguousarray(self.moments.paired)
        return orders, paired, np.ascontiguousarray(packed)

    def terms(
        self, covariance: FloatArray, offsets: IntArray, members: IntArray
    ) -> tuple[FloatArray, FloatArray]:
        """Compute log-determinants and quadratic forms.

        Args:
            covariance: Autocovariances at lags 0, 1, ..., (row, lag).
            offsets: First member of each row, and the end of the last row.
            members: Data sets to evaluate with each row.

        Returns:
            Log-determinant and quadratic form of each member.
        """
        from driftbayes._kernels.toeplitz import stack_products

        log_det, quadratic = np.zeros(len(members)), np.zeros(len(members))
        # Always read-only, since Numba compiles separately for writable arrays.
        covariance = covariance.view()
        covariance.flags.writeable = False

        def whiten(low: int, high: int) -> None:
            part = slice(offsets[low], offsets[high])
            stack_products(
                covariance[low:high],
                offsets[low : high + 1] - offsets[low],
                members[part],
                self._groups,
                self._predicted,
                *(log_det[part], quadratic[part]),
            )

        n_rows = len(covariance)
        run_in_ranges(whiten, n_rows, int(np.clip(n_rows // _ROWS_PER_TASK, 1, _MAX_TASKS)))
        return log_det, quadratic
