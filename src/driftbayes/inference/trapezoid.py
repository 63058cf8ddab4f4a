"""Integrals of smooth peaks by the trapezoid rule, in a box that finds the peak by itself."""

__all__ = ["EVEN", "Grid", "integrate"]

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
# And this is low enough for an edge that only a few nodes reach.
_LOW = 20.0
_MAX_PASSES = 14
# Within so many widths of the peak nodes are nearly even; beyond, their distance grows with that
# from the peak: the tail of a parameter that may vanish, slow in its logarithm, is soon crossed.
EVEN = 3.0


class Grid(eqx.Module):
    """The result of an integration, and the nodes that it stands on.

    Args:
        log_integral: ln of the integral.
        error: Estimate of its error, from the changes when nodes are left out.
        nodes: Places at which the integrand was evaluated.
        log_values: ln of the integrand there, times the stretch of the coordinate w.
        log_cell: ln of the volume that a node stands for, where there is no stretch.
        low: Lower corner of the box, in w.
        high: Upper corner.
        contained: Whether the box was found to hold the peak.
        extras: What else the integrand returned at the nodes.
    """

    log_integral: Scalar
    error: Scalar
    nodes: Float[Array, "node parameter"]
    log_values: Float[Array, " node"]
    log_cell: Scalar
    low: Float[Array, " parameter"]
    high: Float[Array, " parameter"]
    contained: Bool[Array, ""]
    extras: Any


class _Pass(eqx.Module):
    """A grid in a box, what was found on it, and the box that should come next."""

    low: Array
    high: Array
    next_low: Array
    next_high: Array
    nodes: Array
    values: Array
    extras: Any
    fits: Array
    count: Array


def integrate(
    log_f: Callable[[Float[Array, " parameter"]], tuple[Scalar, Any]],
    center: Float[Array, " parameter"],
    basis: Float[Array, "parameter parameter"],
    refinement: int = 1,
    at_once: int | None = None,
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
        at_once: At how many nodes to evaluate at a time at the most, where more would fill the
            memory.
    """
    n_dim = center.shape[0]
    n = refinement * (_NODES[n_dim] - 1) + 1
    n_coarse = refinement * (_COARSE[n_dim] - 1) + 1

    def evaluate(low: Array, high: Array, side: int) -> tuple[Array, Array, Any]:
        unit = jnp.linspace(0.0, 1.0, side)
        mesh = jnp.stack(jnp.meshgrid(*[unit] * n_dim, indexing="ij"), axis=-1).reshape(-1, n_dim)
        w = (low[None] + (high - low)[None] * mesh) / EVEN
        nodes = center[None] + (EVEN * jnp.sinh(w)) @ basis.T
        # Row by row in more than one dimension: all at once would fill the memory.
        values, extras = jax.lax.map(log_f, nodes, batch_size=min(n, at_once or n))
        values = values + jnp.sum(jnp.log(jnp.cosh(w)), axis=1)
        return nodes, jnp.where(jnp.isnan(values), -jnp.inf, values), extras

    def fit(low: Array, high: Array, side: int, count: Array) -> _Pass:
        nodes, values, extras = evaluate(low, high, side)
        matter = (values > jnp.max(values) - _DEPTH).reshape((side,) * n_dim)
        along = [
            jnp.any(matter, axis=tuple(i for i in range(n_dim) if i != axis))
            for axis in range(n_dim)
        ]
        first = jnp.stack([jnp.argmax(line) for line in along])
        last = side - 1 - jnp.stack([jnp.argmax(line[::-1]) for line in along])
        width = high - low
        spacing = width / (side - 1)
        below = low + (first - 1).astype(low.dtype) * spacing
        above = low + (last + 1).astype(low.dtype) * spacing
        inside = (first > 0) & (last < side - 1)
        return _Pass(
            low=low,
            high=high,
            next_low=jnp.where(first == 0, low - width, below),
            next_high=jnp.where(last == side - 1, high + width, above),
            nodes=nodes,
            values=values,
            extras=extras,
            fits=jnp.all(inside & (last - first >= 3 * side // 5)),
            count=count + 1,
        )

    # The box is sought with few nodes. The last pass of the loop is the result where few are all:
    # the integrand, by far the largest part of the program, is then compiled once.
    side = n if n_dim == 1 else n_coarse
    six = jnp.full((n_dim,), 6.0, dtype=center.dtype)
    shapes = jax.eval_shape(lambda: fit(-six, six, side, jnp.zeros((), int)))
    blank = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    start = eqx.tree_at(lambda s: (s.next_low, s.next_high), blank, (-six, six))
    end = jax.lax.while_loop(
        lambda s: ~s.fits & (s.count < _MAX_PASSES),
        lambda s: fit(s.next_low, s.next_high, side, s.count),
        start,
    )
    if side != n:
        found = end.fits
        end = fit(end.next_low, end.next_high, n, end.count)
        # Between the few nodes a ridge may have reached an edge; what matters is how high.
        end = eqx.tree_at(lambda s: s.fits, end, found & _is_low_at_edges(end.values, n, n_dim))
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
        log_cell=cell,
        low=end.low,
        high=end.high,
        contained=end.fits,
        extras=end.extras,
    )


def _is_low_at_edges(values: Array, side: int, n_dim: int) -> Array:
    """Whether the integrand at the faces of the box is negligible: below exp(-20) of its peak."""
    table = values.reshape((side,) * n_dim)
    faces = [jnp.max(jnp.take(table, end, axis=axis)) for axis in range(n_dim) for end in (0, -1)]
    return jnp.all(jnp.stack(faces) < jnp.max(values) - _LOW)
