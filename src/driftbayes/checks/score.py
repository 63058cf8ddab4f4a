"""The score of a data set: where a fit to it would end, to first order."""

__all__ = ["Score"]

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from driftbayes.checks.innovations import Engine, Layout, whitened
from driftbayes.inference import Hypothesis
from driftbayes.models import prepare
from driftbayes.typing import FloatArray


class Score:
    """Derivatives of ln p(D | θ) at the posterior mode, in unconstrained parameters.

    A mean flow is integrated out of the density; its least-squares estimate stands for it.

    Args:
        hypothesis: Model family and prior.
        mode: Parameters at which to differentiate.
        layout: Shape of the data sets.
    """

    def __init__(self, hypothesis: Hypothesis, mode: FloatArray, layout: Layout) -> None:
        self._hypothesis, self._layout = hypothesis, layout
        self._z = hypothesis.to_unconstrained(jnp.asarray(mode))
        self._engine = Engine.of(hypothesis.model, layout)
        self._has_flow = "flow" in hypothesis.model.parameters

    @property
    def names(self) -> tuple[str, ...]:
        """What each number belongs to."""
        names, n_dim = self._hypothesis.names, self._layout.n_dim
        if not self._has_flow:
            return names
        flow = [f"flow_{i + 1}" for i in range(n_dim)]
        if self._hypothesis.model.needs_positions:
            flow += [f"gradient_{i + 1}_{j + 1}" for j in range(n_dim) for i in range(n_dim)]
        return (*names, *flow)

    def __call__(self, dx: FloatArray) -> FloatArray:
        """Scores (set, parameter) of many data sets, given their steps (set, run, step, dim)."""
        if self._hypothesis.model.kind == "summed":
            axes = np.moveaxis(dx, 0, -2).reshape(*dx.shape[1:3], -1)
            valid = jnp.asarray(self._layout.valid)
            args = (self._hypothesis, self._engine, self._z, jnp.asarray(axes), valid)
            by_axis = np.asarray(_gaussian_scores(*args))
            return by_axis.reshape(len(by_axis), len(dx), -1).sum(axis=2).T
        return np.stack([self._of_one(steps[self._layout.valid]) for steps in dx])

    def _of_one(self, steps: FloatArray) -> FloatArray:
        data = prepare(replace(self._layout.data, dx=steps), self._hypothesis.model.needs())
        slope = np.asarray(_slope(self._hypothesis, data, self._z))
        if not self._has_flow:
            return slope
        interval = self._layout.data.interval
        mean = steps.sum(axis=0) / interval.sum()
        if not self._hypothesis.model.needs_positions:
            return np.concatenate([slope, mean])
        moved = replace(self._layout.data, dx=steps)
        regressors = np.column_stack([np.ones(len(steps)), moved.origin - moved.centre])
        found, *_ = np.linalg.lstsq(regressors * interval[:, None], steps)
        return np.concatenate([slope, found.ravel()])


@eqx.filter_jit
def _slope(hypothesis: Hypothesis, data: Any, z: Array) -> Array:
    def fit(at: Array) -> Array:
        return hypothesis.log_likelihood(hypothesis.from_unconstrained(at), data)

    return jax.jacfwd(fit)(z)


@eqx.filter_jit
def _gaussian_scores(
    hypothesis: Hypothesis,
    engine: Engine,
    z: Float[Array, " parameter"],
    dx: Float[Array, "run step axis"],
    valid: Bool[Array, "run step"],
) -> Float[Array, "parameter axis"]:
    """Scores of a plain Gaussian model, axis by axis: one filter serves all data sets."""

    def log_densities(at: Array) -> Array:
        white, variance = whitened(hypothesis.at(hypothesis.from_unconstrained(at)), engine, dx)
        terms = white**2 + jnp.log(variance)[:, :, None]
        return -0.5 * jnp.sum(jnp.where(valid[:, :, None], terms, 0.0), axis=(0, 1))

    def along(direction: Array) -> Array:
        return jax.jvp(log_densities, (z,), (direction,))[1]

    return jax.lax.map(along, jnp.eye(len(z)))
