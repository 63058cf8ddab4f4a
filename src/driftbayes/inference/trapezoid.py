"""Integrals of smooth peaks by the trapezoid rule, in a box that finds the peak by itself."""

__all__ = ["Grid", "integrate"]

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from driftbayes.jax_typing import Scalar

# What lies more than this below the peak is left out: exp(-32) = 1e-14 of the total.
_DEPTH = 32.0
_NODES = {1: 97, 2: 65, 3: 41}
# So many are enough to find where the peak is.
_COARSE = {1: 33, 2: 25, 3: 17}
_MAX_PASSES = 14
# Within so many widths of the peak nodes are nearly even; beyond, their distance grows with that
# from the peak: the tail of a parameter that may vanish, slow in its logarithm, is soon crossed.
_EVEN = 3.0


class Grid(eqx.Module):
    """The result of an integration, and the nodes that it stands on.

    Args:
        log_integral: ln of the integral.
        error: Estimate of its error, from the changes when nodes are left out.
        nodes: Places at which the integrand was evaluated.
        log_values: ln of the integrand there, times the volume that each node stands for.
        contained: Whether the box was found to hold the peak.
        extras: What else the integrand returned at the nodes.
    """

    log_integral: Scalar
    error: Scalar
    nodes: Float[Array, "node parameter"]
    log_values: Float[Array, " node"]
    contained: Bool[Array, ""]
    extras: Any


class _State(eqx.Module):
    low: Array
    high: Array
    next_low: Array
    next_high: Array
    n: Array
    next_n: Array
    nodes: Array
    values: Array
    extras: Any
    done: Array
    count: Array


def integrate(
    log_f: Callable[[Float[Array, " parameter"]], tuple[Scalar, Any]],
    center: Float[Array, " parameter"],
    basis: Float[Array, "parameter parameter"],
    refinement: int = 1,
) -> Grid:
    r"""The integral of exp(log_f) over all of space, in up to three dimensions.

    The trapezoid rule converges exponentially for smooth functions that vanish at both ends. It is
    applied in w, where the distance from the center is $a \sinh(w/a)$ widths. The box starts at six
    around `center`, grows where the integrand is not yet negligible at an edge and shrinks to where
    it is not negligible, until it fits.

    Args:
        log_f: Logarithm of the integrand, and anything else to be kept from its evaluation.
        center: A point near the peak.
        basis: Lower-triangular factor of the peak's approximate covariance, which whitens it.
        refinement: Multiplies the number of nodes along each direction.
    """
    n_dim = center.shape[0]
    n = refinement * (_NODES[n_dim] - 1) + 1
    n_coarse = refinement * (_COARSE[n_dim] - 1) + 1
    # Row by row in more than one dimension: all at once would fill the memory.
    n_rows = -(-(n**n_dim) // n)
    empty = _empty(log_f, center, n * n_rows)

    def evaluate(low: Array, high: Array, side: Array) -> tuple[Array, Array, Any]:
        """Nodes, values and extras of a grid of side³ nodes; what is beyond it counts nothing."""

        def row(i: Array, filled: tuple[Array, Array, Any]) -> tuple[Array, Array, Any]:
            index = _index(i * n + jnp.arange(n), side, n_dim)
            unit = index.astype(low.dtype) / (side - 1).astype(low.dtype)
            w = (low[None] + (high - low)[None] * unit) / _EVEN
            nodes = center[None] + (_EVEN * jnp.sinh(w)) @ basis.T
            values, extras = jax.vmap(log_f)(nodes)
            values = values + jnp.sum(jnp.log(jnp.cosh(w)), axis=1)
            beyond = i * n + jnp.arange(n) >= side**n_dim
            values = jnp.where(beyond | jnp.isnan(values), -jnp.inf, values)
            return jax.tree.map(
                lambda whole, part: jax.lax.dynamic_update_slice_in_dim(whole, part, i * n, 0),
                filled,
                (nodes, values, extras),
            )

        return jax.lax.fori_loop(0, -(-(side**n_dim) // n), row, empty)

    def fit(state: _State) -> _State:
        low, high, side = state.next_low, state.next_high, state.next_n
        nodes, values, extras = evaluate(low, high, side)
        matter = (values > jnp.max(values) - _DEPTH)[:, None]
        index = _index(jnp.arange(len(values)), side, n_dim)
        first = jnp.min(jnp.where(matter, index, side), axis=0)
        last = jnp.max(jnp.where(matter, index, -1), axis=0)
        width = high - low
        spacing = width / (side - 1).astype(low.dtype)
        below = low + (first - 1).astype(low.dtype) * spacing
        above = low + (last + 1).astype(low.dtype) * spacing
        inside = (first > 0) & (last < side - 1)
        fits = jnp.all(inside & (last - first >= 3 * side // 5))
        # The box is sought with few nodes, and once it fits filled with all.
        is_fine = side == n
        return _State(
            low=low,
            high=high,
            next_low=jnp.where(first <= 0, low - width, below),
            next_high=jnp.where(last >= side - 1, high + width, above),
            n=side,
            next_n=jnp.where(fits | is_fine, n, n_coarse),
            nodes=nodes,
            values=values,
            extras=extras,
            done=fits & is_fine,
            count=state.count + 1,
        )

    def unfinished(state: _State) -> Array:
        return ~state.done & ((state.count < _MAX_PASSES) | (state.n != n))

    def go_on(state: _State) -> _State:
        # When passes run out, the last is with all nodes.
        last_one = state.count >= _MAX_PASSES - 1
        return fit(eqx.tree_at(lambda s: s.next_n, state, jnp.where(last_one, n, state.next_n)))

    # The last pass of the loop is the result: the integrand, by far the largest part of the
    # program, is compiled once.
    six = jnp.full((n_dim,), 6.0, dtype=center.dtype)
    nodes, values, extras = empty
    start = _State(
        low=-six,
        high=six,
        next_low=-six,
        next_high=six,
        n=jnp.asarray(0),
        next_n=jnp.asarray(n_coarse),
        nodes=nodes,
        values=values,
        extras=extras,
        done=jnp.zeros((), bool),
        count=jnp.zeros((), int),
    )
    end = jax.lax.while_loop(unfinished, go_on, start)
    end = eqx.tree_at(
        lambda s: (s.nodes, s.values, s.extras),
        end,
        jax.tree.map(lambda leaf: leaf[: n**n_dim], (end.nodes, end.values, end.extras)),
    )
    cell = jnp.sum(jnp.log((end.high - end.low) / (n - 1) * jnp.abs(jnp.diag(basis))))
    log_integral = jax.scipy.special.logsumexp(end.values) + cell
    table = end.values.reshape((n,) * n_dim)

    def every(step: int, first: int) -> Scalar:
        part = table[(slice(first, None, step),) * n_dim]
        return jax.scipy.special.logsumexp(part) + cell + n_dim * np.log(float(step))

    # The error falls nearly exponentially in 1/spacing: with r its ratio from four spacings to two,
    # it would be r² smaller again at one; no more than r is counted on, and three times that leaves
    # room. A change may vanish by accident of where the nodes lie, so that at four spacings is the
    # largest of all shifts of the nodes, and that at two is taken for no less than its square.
    quarter = jnp.max(jnp.stack([jnp.abs(log_integral - every(4, i)) for i in range(4)]))
    half = jnp.maximum(jnp.abs(log_integral - every(2, 0)), quarter**2)
    error = half * jnp.minimum(1.0, 3 * half / jnp.maximum(quarter, 1e-300))
    return Grid(
        log_integral=log_integral,
        error=error + 1e-15 * jnp.abs(log_integral),
        nodes=end.nodes,
        log_values=end.values,
        contained=end.done,
        extras=end.extras,
    )


def _index(flat: Array, side: Array, n_dim: int) -> Array:
    """The place along each direction of a node, the last direction running fastest."""
    powers = [side ** (n_dim - 1 - axis) for axis in range(n_dim)]
    return jnp.stack([(flat // power) % side for power in powers], axis=-1)


def _empty(log_f: Callable[..., Any], center: Array, n: int) -> tuple[Array, Array, Any]:
    """Room for n nodes, their values and extras."""
    value, extras = jax.eval_shape(log_f, center)

    def room(shape: jax.ShapeDtypeStruct) -> Array:
        return jnp.zeros((n, *shape.shape), shape.dtype)

    values = jnp.full((n,), -jnp.inf, dtype=value.dtype)
    return jnp.zeros((n, len(center)), center.dtype), values, jax.tree.map(room, extras)
