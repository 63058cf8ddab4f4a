"""Where to start looking for the posterior mode: a grid of decades, no hand-tuned values."""

__all__ = ["start_points"]

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from driftbayes.inference.hypothesis import Hypothesis
from driftbayes.inference.joint import whole_scale
from driftbayes.likelihood.memory import evaluations_at_once
from driftbayes.models import Data
from driftbayes.priors import Uniform

# Rates are tried from 1e-6 to 1e4 per sampling time, four to a decade; with three parameters or
# more the grid is coarser, so that it stays within a few thousand points.
_DECADES = (-6.0, 4.0)
_N_POINTS = {1: 41, 2: 41, 3: 15, 4: 8, 5: 5}
_FEWEST = 4


def start_points(hypothesis: Hypothesis, data: Data) -> Float[Array, "density parameter"]:
    """The best of a coarse grid: for the density of θ, and for that of z.

    Every parameter runs over decades of its natural unit, made of tau and of the length √(kτ); a
    pure number in an interval runs over that, and what may be negative stays at its prior's mean.
    The unit of length, and with it the scale parameter, is the most likely at each grid point.
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

    def candidate(point: Array) -> tuple[Array, Array]:
        values = {name: hypothesis.priors[name].mean() for name in names}
        values |= dict(zip(on_grid, point, strict=True))
        if place is not None:
            values[names[place]] = jnp.ones(())
        theta = jnp.stack([values[name] for name in names])
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

    dense = not model.has_state_space
    at_once = evaluations_at_once(data, len(points), dense=dense)
    if at_once < len(points):
        values, places = jax.lax.map(candidate, points, batch_size=at_once)
    else:
        values, places = jax.vmap(candidate)(points)
    return places[jnp.argmax(values, axis=0)]


def _axis(hypothesis: Hypothesis, name: str, unit: Array, n_points: int) -> Float[Array, " point"]:
    prior, parameter = hypothesis.priors[name], hypothesis.model.parameters[name]
    if isinstance(prior, Uniform) and not (parameter.length_power or parameter.time_power):
        return prior.quantile(jnp.asarray(np.linspace(0.0, 1.0, n_points + 2)[1:-1]))
    return unit * 10 ** jnp.asarray(np.linspace(*_DECADES, n_points))
