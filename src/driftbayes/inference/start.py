"""Where to start looking for posterior modes: a grid of decades, then lines through its best."""

__all__ = ["Starts", "start_points"]

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from driftbayes.inference.hypothesis import Hypothesis
from driftbayes.inference.joint import evaluations_at_once, whole_scale
from driftbayes.jax_typing import Scalar
from driftbayes.models import Data
from driftbayes.priors import Uniform

# Rates are tried from 1e-6 to 1e4 per sampling time, four to a decade; with three parameters or
# more the grid is coarser, so that it stays within a few thousand points.
_DECADES = (-6.0, 4.0)
_N_POINTS = {1: 41, 2: 41, 3: 15, 4: 8, 5: 5}
_FEWEST = 4
# Lines through the best point of the grid: decades about the natural unit, and quantiles of the
# prior. A frequency has aliases, as little as a fraction of 2π/τ apart.
_LINE_DECADES = (-2.0, 2.0)
_N_LINE = 64
_N_QUANTILES = 64
# So many means of its prior a parameter is followed, in even steps.
_N_MEANS = 16.0
_N_ON_LINE = _N_LINE + _N_QUANTILES + 1
# Local maxima that are taken from the grid and from the lines.
_N_FROM_GRID = 2
_N_FROM_LINES = 8


class Starts(NamedTuple):
    """Points from which to climb, in unconstrained coordinates.

    Args:
        natural: The best of the grid for the density of θ.
        free: The best of the grid for the density of z.
        others: Further local maxima of the latter.
        exists: Which of these are there.
        left: The highest local maximum along the lines that is not among them.
        left_value: The density of z there; minus infinity if there is none.
    """

    natural: Float[Array, " parameter"]
    free: Float[Array, " parameter"]
    others: Float[Array, "start parameter"]
    exists: Bool[Array, " start"]
    left: Float[Array, " parameter"]
    left_value: Scalar


def start_points(hypothesis: Hypothesis, data: Data) -> Starts:
    """The best of a coarse grid, for the density of θ and for that of z, and other maxima.

    Every parameter runs over decades of its natural unit, made of tau and of the length √(kτ); a
    pure number in an interval runs over that, and what may be negative stays at its prior's mean.
    The unit of length, and with it the scale parameter, is the most likely at each grid point.
    Through the best point each parameter but the scale then runs along a finer line of its own.
    """
    model, names = hypothesis.model, hypothesis.names
    place = names.index(model.scale_parameter) if model.scale_parameter in names else None
    tau = jnp.asarray(data.tau)
    powers = {name: model.parameters[name] for name in names}
    units = {n: tau ** (p.time_power + 0.5 * p.length_power) for n, p in powers.items()}
    on_grid = [n for i, n in enumerate(names) if i != place and not hypothesis.priors[n].is_signed]
    n_points = _N_POINTS.get(max(len(on_grid), 1), _FEWEST)
    axes = [_axis(hypothesis, name, units[name], n_points) for name in on_grid]
    grid = jnp.meshgrid(*axes, indexing="ij") if axes else []
    points = jnp.stack([g.reshape(-1) for g in grid], axis=1) if axes else jnp.zeros((1, 0))
    collapsed = whole_scale(hypothesis, data) is not None
    bears_length = jnp.asarray([powers[name].length_power for name in names], dtype=tau.dtype)

    def judge(theta: Array) -> tuple[Array, Array]:
        terms = hypothesis.at(theta).terms(data)
        # Lengths in units of √(kτ), with k to make the mean square whitened displacement 1. A
        # length that is known is left as it is, and the start is a little worse.
        size = jnp.sum(terms.quadratic) / jnp.sum(terms.n)
        scaled = theta * size ** (0.5 * bears_length)
        z = hypothesis.to_unconstrained(scaled if place is not None else theta)
        theta = hypothesis.from_unconstrained(z)
        if collapsed:
            fit = terms.log_likelihood(theta[place])
        else:
            fit = hypothesis.log_likelihood(theta, data)
        value = fit + hypothesis.log_prior(theta)
        both = jnp.stack([value, value + hypothesis.log_jacobian(z)])
        return jnp.where(jnp.isfinite(both), both, -jnp.inf), z

    def at_grid(point: Array) -> Array:
        values = {name: hypothesis.priors[name].mean() for name in names}
        values |= dict(zip(on_grid, point, strict=True))
        if place is not None:
            values[names[place]] = jnp.ones(())
        return jnp.stack([values[name] for name in names])

    thetas = jax.vmap(at_grid)(points)
    along = np.array([i for i in range(len(names)) if i != place], dtype=int)
    if len(along) == 0:
        values, places = jax.vmap(judge)(thetas)
        natural, free = places[jnp.argmax(values, axis=0)]
        return Starts(natural, free, places[:0], jnp.zeros(0, bool), free, jnp.asarray(-jnp.inf))

    def on_lines(z: Array) -> tuple[Array, Array]:
        """Points along each line through z in turn, and which of them are z itself."""
        best = hypothesis.from_unconstrained(z)
        best = best if place is None else best.at[place].set(1.0)
        lines = jnp.stack([_line(hypothesis, names[i], units[names[i]], best[i]) for i in along])
        rows = [jnp.tile(best, (_N_ON_LINE, 1)).at[:, i].set(lines[j]) for j, i in enumerate(along)]
        return jnp.concatenate(rows), lines == best[along][:, None]

    # The grid in blocks, then the lines through its best point as the last block: what judges a
    # point, which holds the model's whole likelihood, is compiled once.
    size = len(along) * _N_ON_LINE
    n_blocks = -(-len(thetas) // size)
    rows = np.minimum(np.arange(n_blocks * size), len(thetas) - 1).reshape(n_blocks, size)
    blocks = jnp.concatenate([thetas[rows], thetas[rows[:1]]])
    is_last = jnp.arange(n_blocks + 1) == n_blocks
    at_once = evaluations_at_once(hypothesis, data, size)

    def sweep(carry: tuple[Array, Array], block: tuple[Array, Array]) -> Any:
        highest, best = carry
        points, last = block
        chosen = jnp.where(last, on_lines(best[1])[0], points)
        values, places = jax.lax.map(judge, chosen, batch_size=at_once)
        top = jnp.argmax(values, axis=0)
        higher = jnp.max(values, axis=0) > highest
        best = jnp.where((higher & ~last)[:, None], places[top], best)
        highest = jnp.where(~last, jnp.maximum(jnp.max(values, axis=0), highest), highest)
        return (highest, best), (values, places)

    first = jnp.tile(hypothesis.to_unconstrained(thetas[0]), (2, 1))
    nothing = (jnp.full(2, -jnp.inf), first)
    (_, starts), (values, places) = jax.lax.scan(sweep, nothing, (blocks, is_last))
    is_known = on_lines(starts[1])[1]
    tops = _tops_of_lines(values[-1, :, 1], is_known)
    found = [_highest(tops, places[-1], _N_FROM_LINES)]
    left_value, left = (part[_N_FROM_LINES] for part in jax.lax.top_k(tops, _N_FROM_LINES + 1))
    if len(on_grid) > 1:
        table = values[:-1, :, 1].reshape(-1)[: len(thetas)]
        peaks = _local_maxima(table.reshape((n_points,) * len(on_grid))).reshape(-1)
        peaks = peaks.at[jnp.argmax(table)].set(-jnp.inf)
        found.append(_highest(peaks, places[:-1].reshape(-1, len(names)), _N_FROM_GRID))
    others, exists = (jnp.concatenate(part) for part in zip(*found, strict=True))
    return Starts(starts[0], starts[1], others, exists, places[-1][left], left_value)


def _tops_of_lines(values: Array, is_known: Array) -> Array:
    """Local maxima along the lines, but for that at the point they have in common."""
    table = values.reshape(is_known.shape)
    known = is_known | jnp.roll(is_known, 1, axis=1) | jnp.roll(is_known, -1, axis=1)
    left = jnp.pad(table, ((0, 0), (1, 0)), constant_values=-jnp.inf)[:, :-1]
    right = jnp.pad(table, ((0, 0), (0, 1)), constant_values=-jnp.inf)[:, 1:]
    return jnp.where((table > left) & (table >= right) & ~known, table, -jnp.inf).reshape(-1)


def _highest(values: Array, places: Array, n: int) -> tuple[Array, Array]:
    top, index = jax.lax.top_k(values, n)
    return places[index], jnp.isfinite(top)


def _local_maxima(table: Array) -> Array:
    """The values that none of their neighbours exceeds, minus infinity elsewhere."""
    window = (3,) * table.ndim
    highest = jax.lax.reduce_window(table, -jnp.inf, jax.lax.max, window, (1,) * table.ndim, "SAME")
    return jnp.where(table == highest, table, -jnp.inf)


def _axis(hypothesis: Hypothesis, name: str, unit: Array, n_points: int) -> Float[Array, " point"]:
    prior, parameter = hypothesis.priors[name], hypothesis.model.parameters[name]
    if isinstance(prior, Uniform) and not (parameter.length_power or parameter.time_power):
        return prior.quantile(jnp.asarray(np.linspace(0.0, 1.0, n_points + 2)[1:-1]))
    return unit * 10 ** jnp.asarray(np.linspace(*_DECADES, n_points))


def _line(hypothesis: Hypothesis, name: str, unit: Array, best: Scalar) -> Float[Array, " point"]:
    """Values of one parameter in rising order, that of the best point among them."""
    prior = hypothesis.priors[name]
    middle = np.linspace(0.0, 1.0, _N_QUANTILES + 2)[1:-1]
    decades = unit * 10 ** jnp.asarray(np.linspace(*_LINE_DECADES, _N_LINE))
    if prior.is_signed:
        spread = prior.mean() + prior.log_sd() * jnp.asarray(np.linspace(-4.0, 4.0, _N_QUANTILES))
        decades = jnp.full(_N_LINE, best)
    elif isinstance(prior, Uniform):
        spread = prior.quantile(jnp.asarray(middle))
        decades = jnp.clip(decades, spread[0], spread[-1])
    else:
        even = np.linspace(0.0, _N_MEANS, _N_QUANTILES + 1)[1:]
        spread = prior.mean() * jnp.asarray(even)
    return jnp.sort(jnp.concatenate([spread, decades, best[None]]))
