"""Second moments of regular steps, of one data set and of a stack of them."""

__all__ = [
    "MEMORY",
    "MomentStack",
    "SecondMoments",
    "moments_terms",
    "second_moments",
    "second_moments_of",
    "sliding_moment",
    "stack_moments",
]

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from numpy.typing import NDArray

from driftbayes.data.sampling import Displacements
from driftbayes.errors import DriftbayesError
from driftbayes.kernels.compiled import run_in_threads
from driftbayes.likelihood.kalman import GaussianTerms
from driftbayes.likelihood.toeplitz import durbin_levinson
from driftbayes.sums import WindowSums
from driftbayes.typing import FloatArray, IntArray

Moments = TypeVar("Moments", bound=eqx.Module)
# Made in NumPy, handed to JAX whole: converting each small array would cost more than the pass.
AnyArray: TypeAlias = Array | np.ndarray
# Runs longer than this are predicted from their last MEMORY - 1 steps only. The innovations of
# integrated velocities forget at least as fast as (2 - sqrt 3)^lag, so that 32 steps leave 1e-18.
MEMORY = 32


class SecondMoments(eqx.Module):
    r"""All that a stationary Gaussian model needs to know of regular displacements.

    Runs of equal length n form a group with $M = \sum x x^\mathrm{T}$ over runs and axes. By the
    formula of Gohberg and Semencul, with a the backward filter of order n - 1, b the forward one
    shifted by one place, v their variance and $T_{pq} = \sum_l M_{p+l,q+l}$,

    $$\sum x^\mathrm{T} S^{-1} x = \left( a^\mathrm{T} T a - b^\mathrm{T} T b \right) / v .$$

    Of a run longer than L steps, the first L form such a group and, for every later step, the
    window of L steps that ends there joins another, of which only the last step counts:

    $$\ln p(x_0 \dots x_{N-1}) = \ln p(x_0 \dots x_{L-1})
      + \sum_{n \ge L} \ln p(x_n \mid x_{n-L+1} \dots x_{n-1}).$$

    There T is M itself with time reversed, and b is left out.

    Args:
        forms: T, one L by L matrix per group, zero beyond the group's length.
        orders: Order n - 1 of the filters of each group.
        paired: 1 where b counts, 0 where it is left out.
        predicted: How many scalar displacements are predicted from 0, 1, 2, ... earlier ones.
        tau: Sampling time.
    """

    forms: Float[AnyArray, "*batch group step step"]
    orders: Int[AnyArray, "*batch group"]
    paired: Float[AnyArray, "*batch group"]
    predicted: Float[AnyArray, "*batch step"]
    tau: Float[AnyArray, "*batch"]


def moments_terms(autocovariance: Float[Array, " step"], data: SecondMoments) -> GaussianTerms:
    """Gaussian terms of all runs under one autocovariance, in O(L²) whatever their number."""
    filters = durbin_levinson(autocovariance)
    data = jax.tree.map(jnp.asarray, data)
    own = filters.backward[data.orders]
    other = jnp.roll(filters.forward, 1, axis=1).at[:, 0].set(0.0)[data.orders]
    gain = jnp.einsum("gp,gpq,gq->g", own, data.forms, own)
    loss = jnp.einsum("gp,gpq,gq->g", other, data.forms, other)
    return GaussianTerms(
        n=jnp.sum(data.predicted),
        log_det=jnp.sum(data.predicted * jnp.log(filters.variances)),
        quadratic=jnp.sum((gain - data.paired * loss) / filters.variances[data.orders]),
    )


def second_moments(data: Displacements, memory: int = MEMORY) -> SecondMoments:
    """One pass over regular displacements.

    Args:
        data: Displacements at one tau, all steps of that duration, without measurement error.
        memory: Longest window L; a longer run is predicted from its last L - 1 steps.
    """
    if not data.is_regular:
        raise DriftbayesError(
            "the statistics engine needs steps of equal duration and exact positions; "
            "use engine='auto' for gaps, irregular times or noise"
        )
    sums = WindowSums(memory, data.n_dim)
    sums.add(data.dx, np.cumsum(data.row_sizes) - data.row_sizes, data.row_sizes)
    return second_moments_of(sums, data.tau)


def second_moments_of(sums: WindowSums, tau: float) -> SecondMoments:
    """Moments of displacements that were summed over all axes, or with the axes apart.

    Args:
        sums: Over steps at one sampling time.
        tau: Sampling time.
    """
    forms, orders, paired, predicted = sums.groups()
    axes = forms[:, 0, 0]
    if sums.apart:
        axes = np.einsum("gaapq->gpq", forms[:, : sums.n_axes, : sums.n_axes])
    return SecondMoments(axes, orders, paired, predicted * sums.n_axes, np.array(tau))


def stack_moments(many: Sequence[Moments]) -> Moments:
    """Moments of several data sets as one batch, padded with empty groups and steps."""

    def stack(*arrays: AnyArray) -> NDArray[Any]:
        sizes = zip(*(array.shape for array in arrays), strict=True)
        out = np.zeros((len(many), *map(max, sizes)), dtype=arrays[0].dtype)
        for i, array in enumerate(arrays):
            out[i, ...][tuple(slice(n) for n in array.shape)] = array
        return out

    return jax.tree.map(stack, *many)


def sliding_moment(dx: FloatArray, size: int) -> FloatArray:
    """Sum of x xᵀ over all windows of `size` successive steps of one run, and over axes.

    The first row by `size` scalar products; the others follow along the diagonals, since
    shifting the window by one drops one product at the head and gains one at the tail.

    Args:
        dx: Steps, (step, dim).
        size: Steps of a window.
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


# Rows that are worth a thread of their own.
_ROWS_PER_TASK = 256
_MAX_TASKS = 4


@dataclass(frozen=True, eq=False)
class MomentStack:
    """Several data sets, each with groups of runs of its own.

    Args:
        moments: Second moments with a leading axis over data sets.
    """

    moments: SecondMoments

    def __len__(self) -> int:
        """Number of data sets."""
        return len(self.moments.forms)

    @property
    def n_lags(self) -> int:
        """Lags that filters reach over."""
        return int(self.moments.forms.shape[-1])

    @cached_property
    def taus(self) -> FloatArray:
        """Sampling time of each data set."""
        return np.asarray(self.moments.tau, dtype=np.float64)

    @cached_property
    def n(self) -> FloatArray:
        """Number of scalar displacements of each data set."""
        return np.asarray(self._predicted.sum(axis=1))

    @cached_property
    def _predicted(self) -> FloatArray:
        return np.ascontiguousarray(self.moments.predicted, dtype=np.float64)

    @cached_property
    def _groups(self) -> tuple[IntArray, FloatArray, FloatArray]:
        """Orders, which groups are paired, and packed forms."""
        forms = np.asarray(self.moments.forms, dtype=np.float64)
        orders = np.array(self.moments.orders, dtype=np.int64)
        # Groups that only fill up a stack are empty: no order is theirs.
        orders[~np.any(forms != 0, axis=(2, 3))] = -1
        i, j = np.tril_indices(forms.shape[-1])
        packed = forms[:, :, i, j] + np.where(i == j, 0.0, forms[:, :, j, i])
        paired = np.ascontiguousarray(self.moments.paired, dtype=np.float64)
        return orders, paired, np.ascontiguousarray(packed)

    def terms(
        self, covariance: FloatArray, offsets: IntArray, members: IntArray
    ) -> tuple[FloatArray, FloatArray]:
        """Log-determinants and quadratic forms.

        Args:
            covariance: Autocovariances at lags 0, 1, ..., (row, lag).
            offsets: Where the members of each row begin, and where those of the last one end.
            members: Data sets to evaluate with each row.

        Returns:
            Log-determinant and quadratic form of each member.
        """
        from driftbayes.kernels.toeplitz import stack_products

        log_det, quadratic = np.zeros(len(members)), np.zeros(len(members))
        # Read-only wherever it comes from: Numba compiles for each kind of array.
        covariance = covariance.view()
        covariance.flags.writeable = False
        n_rows = len(covariance)
        n_tasks = int(np.clip(n_rows // _ROWS_PER_TASK, 1, _MAX_TASKS))
        edges = np.linspace(0, n_rows, n_tasks + 1).astype(np.int64)

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

        run_in_threads(whiten, list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)))
        return log_det, quadratic
