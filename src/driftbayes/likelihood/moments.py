"""The statistics engine: one pass over the data, then a likelihood of the same cost for any."""

__all__ = [
    "MEMORY",
    "SecondMoments",
    "diagonal_sums",
    "moments_terms",
    "second_moments",
    "sliding_moment",
    "sliding_moments",
    "stack_moments",
    "window_products",
]

from collections.abc import Sequence
from typing import Any, TypeAlias, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from driftbayes.errors import DriftbayesError
from driftbayes.likelihood.terms import GaussianTerms
from driftbayes.likelihood.toeplitz import durbin_levinson
from driftbayes.sampling import Displacements
from driftbayes.typing import FloatArray

Moments = TypeVar("Moments", bound=eqx.Module)
# Made in NumPy, handed to JAX whole: converting each small array would cost more than the pass.
AnyArray: TypeAlias = Array | np.ndarray

# Runs longer than this are predicted from their last MEMORY - 1 steps only. The innovations of
# integrated velocities forget at least as fast as (2 - sqrt 3)^lag, so that 32 steps leave 1e-18.
MEMORY = 32
# Rows per block of the pass over the data: the block and its copy stay in the cache.
_BLOCK_BYTES = 1 << 20


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
        msg = (
            "the statistics engine needs steps of equal duration and exact positions; "
            "use engine='auto' for gaps, irregular times or noise"
        )
        raise DriftbayesError(msg)
    size = min(int(data.row_sizes.max()), memory)
    starts = np.concatenate([[0], np.cumsum(data.row_sizes)[:-1]])
    capped = np.minimum(data.row_sizes, size)
    forms, orders, paired, predicted = [], [], [], np.zeros(size)
    for length in np.flatnonzero(np.bincount(capped)):
        members = starts[capped == length]
        form = np.zeros((size, size))
        form[:length, :length] = diagonal_sums(_window_moment(data.dx, members, int(length)))
        forms.append(form)
        orders.append(int(length) - 1)
        paired.append(1.0)
        predicted[:length] += len(members) * data.n_dim
    long = data.row_sizes > size
    if long.any():
        form = sliding_moments(data.dx, starts[long] + 1, data.row_sizes[long] - 1, size)
        forms.append(form[::-1, ::-1])
        orders.append(size - 1)
        paired.append(0.0)
        predicted[-1] += (data.row_sizes[long] - size).sum() * data.n_dim
    return SecondMoments(
        forms=np.stack(forms),
        orders=np.array(orders),
        paired=np.array(paired),
        predicted=predicted,
        tau=np.array(data.tau),
    )


def stack_moments(many: Sequence[Moments]) -> Moments:
    """Moments of several data sets as one batch, padded with empty groups and steps."""

    def stack(*arrays: AnyArray) -> NDArray[Any]:
        sizes = zip(*(array.shape for array in arrays), strict=True)
        out = np.zeros((len(many), *map(max, sizes)), dtype=arrays[0].dtype)
        for i, array in enumerate(arrays):
            out[i, ...][tuple(slice(n) for n in array.shape)] = array
        return out

    return jax.tree.map(stack, *many)


def diagonal_sums(moment: FloatArray) -> FloatArray:
    """T with T[p, q] the sum of the elements from (p, q) on along the diagonal."""
    sums = moment.copy()
    for p in range(len(moment) - 2, -1, -1):
        sums[p, :-1] += sums[p + 1, 1:]
    return sums


def _window_moment(dx: FloatArray, starts: np.ndarray, length: int) -> FloatArray:
    """Sum of x xᵀ over windows of `length` steps at `starts`, and over axes."""
    return np.einsum("iaja->ij", window_products(dx, starts, length))


def window_products(dx: FloatArray, starts: np.ndarray, length: int) -> FloatArray:
    """Sum over windows of the product of each two elements: (step, axis, step, axis)."""
    n_dim = dx.shape[1]
    total = np.zeros((length, n_dim, length, n_dim))
    block = max(_BLOCK_BYTES // (8 * n_dim * length), 1)
    contiguous = len(starts) > 1 and bool(np.all(np.diff(starts) == length))
    for low in range(0, len(starts), block):
        chosen = starts[low : low + block]
        if contiguous:
            windows = dx[chosen[0] : chosen[-1] + length].reshape(len(chosen), length, n_dim)
        else:
            windows = dx[chosen[:, None] + np.arange(length)]
        # The products of different axes are not needed, but leaving the data as they lie in memory
        # and forming them all is several times faster than sorting the axes apart first.
        flat = windows.reshape(len(chosen), length * n_dim)
        total += (flat.T @ flat).reshape(total.shape)
    return total


def sliding_moment(dx: FloatArray, size: int) -> FloatArray:
    """Sum of x xᵀ over all windows of `size` successive steps of one run, and over axes."""
    return sliding_moments(dx, np.array([0]), np.array([len(dx)]), size)


def sliding_moments(
    dx: FloatArray, starts: np.ndarray, lengths: np.ndarray, size: int
) -> FloatArray:
    """Sum of x xᵀ over all windows of `size` successive steps of many runs, and over axes.

    The first row by `size` scalar products; the others follow along the diagonals, since
    shifting the window by one drops one product at the head and gains one at the tail.

    Args:
        dx: Steps of all runs, (step, dim).
        starts: Where runs begin.
        lengths: Their steps, `size` or more.
        size: Steps of a window.
    """
    n_windows = lengths - size + 1
    first = _lagged_sums(dx, starts, n_windows, size)
    if size == 1:
        return first[:, None]
    gained = _window_moment(dx, starts + n_windows, size - 1)
    change = gained - _window_moment(dx, starts, size - 1)
    moment = np.empty((size, size))
    for lag in range(size):
        diagonal = first[lag] + np.concatenate([[0.0], np.cumsum(np.diagonal(change, lag))])
        index = np.arange(size - lag)
        moment[index, index + lag] = moment[index + lag, index] = diagonal
    return moment


def _lagged_sums(dx: FloatArray, starts: np.ndarray, counts: np.ndarray, size: int) -> FloatArray:
    """Sum over runs of the product of their first `counts` steps with those a lag later."""
    n_dim = dx.shape[1]
    strides = np.unique(np.diff(starts))
    if len(starts) > 1 and len(strides) == 1 and len(np.unique(counts)) == 1:
        # Runs of one length that lie evenly are one table: no loop over thousands of them.
        flat = np.ascontiguousarray(dx)[starts[0] :].reshape(-1)
        n = int(counts[0]) * n_dim
        shape, step = (len(starts), n + (size - 1) * n_dim), int(strides[0]) * n_dim
        table = as_strided(flat, shape, (step * flat.itemsize, flat.itemsize), writeable=False)
        shifted = [table[:, lag * n_dim : lag * n_dim + n] for lag in range(size)]
        return np.array([np.einsum("ri,ri->", shifted[0], one) for one in shifted])
    total = np.zeros(size)
    for start, n in zip(starts, counts, strict=True):
        run = dx[start : start + n + size - 1]
        total += [np.vdot(run[:n], run[lag : lag + n]) for lag in range(size)]
    return total
