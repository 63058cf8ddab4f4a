"""Where to start looking for the posterior mode: a grid of decades, no hand-tuned values."""

__all__ = ["start_point"]

import itertools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from driftbayes.inference.hypothesis import Hypothesis
from driftbayes.models import Data

# Rates are tried from 1e-6 to 1e4 per sampling time, four to a decade; with three parameters or
# more the grid is coarser, so that it stays within a few thousand points.
_DECADES = {1: 41, 2: 41, 3: 15, 4: 8, 5: 5}
_FEWEST = 4


def start_point(hypothesis: Hypothesis, data: Data) -> Float[Array, " parameter"]:
    """The best of a coarse grid, in unconstrained coordinates.

    The scale parameter takes its most likely value at each grid point; every other parameter
    runs over decades of its natural unit, a power of tau.
    """
    model = hypothesis.model
    others = [name for name in hypothesis.names if name != model.scale_parameter]
    decades = np.linspace(-6.0, 4.0, _DECADES.get(max(len(others), 1), _FEWEST))
    exponents = jnp.asarray(list(itertools.product(decades, repeat=len(others))))

    def candidate(exponent: Array) -> tuple[Array, Array]:
        values = {model.scale_parameter: jnp.ones(())}
        for i, name in enumerate(others):
            unit = jnp.asarray(data.tau) ** model.parameters[name].time_power
            values[name] = unit * 10 ** exponent[i]
        terms = model(**values).terms(data)
        values[model.scale_parameter] = terms.quadratic / terms.n
        theta = jnp.stack([values[name] for name in hypothesis.names])
        z = hypothesis.to_unconstrained(theta)
        theta = hypothesis.from_unconstrained(z)
        # Judged without measurement noise, which is good enough for a start.
        scale = theta[hypothesis.names.index(model.scale_parameter)]
        value = terms.log_likelihood(scale) + hypothesis.log_prior(theta)
        return jnp.where(jnp.isfinite(value), value, -jnp.inf), z

    values, points = jax.vmap(candidate)(exponents)
    return points[jnp.argmax(values)]
