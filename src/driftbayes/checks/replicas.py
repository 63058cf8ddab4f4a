"""Data sets of the same shape as the one observed, drawn from a fitted model."""

__all__ = ["Replicator", "check_replicable", "mean_flows"]

import zlib
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from driftbayes.checks.innovations import Engine, Layout, carried, coloured, is_turning, plain_part
from driftbayes.errors import DriftbayesError
from driftbayes.inference import Batch, Hypothesis, PosteriorDraws
from driftbayes.models import AbstractModel
from driftbayes.typing import FloatArray, IntArray

# What distinguishes a model that is not plain, by the field that says so.
_KNOWN = {
    "channels": ("flow", "h"),
    "trajectories": ("classes", "scatter"),
    "steps": ("tail",),
    "summed": ("parameters",),
}


def check_replicable(model: type[AbstractModel], layout: Layout) -> None:
    """Refuse, before the work is done, a model that could not be replicated."""
    fields = {*model.__dataclass_fields__, "parameters"}
    if not is_turning(model) and not any(name in fields for name in _KNOWN[model.kind]):
        msg = f"no way is known to replicate data under {model.name}; leave it out of the check"
        raise DriftbayesError(msg)
    Engine.of(model, layout)


class Replicator:
    """Replicas of a data set, each from one posterior draw: same runs, intervals and errors.

    Replica r depends on the seed, the name of the model and r, and on nothing else: more replicas
    leave the first ones as they were.

    Args:
        draws: Draws from the posterior.
        layout: Shape of the data.
        seed: Key of the random numbers.
    """

    def __init__(self, draws: PosteriorDraws, layout: Layout, seed: int) -> None:
        if seed != int(seed) or not 0 <= seed < 2**64:
            msg = f"seed must be a whole number, 0 or more, got {seed}"
            raise DriftbayesError(msg)
        self._draws, self._layout = draws, layout
        self.seed, self.n_replicas = int(seed), len(draws)
        self._word = zlib.crc32(draws.hypothesis.name.encode()) << 32
        self._engine = Engine.of(draws.hypothesis.model, layout)
        self._flows = mean_flows(draws.hypothesis, draws.theta, layout)
        self._senses = _anticlockwise(draws.hypothesis, draws.theta, layout)

    def __call__(self, numbers: Sequence[int] | IntArray) -> FloatArray:
        """Steps (replica, run, step, dim) of some replicas, zero where a run has ended."""
        layout, n_dim = self._layout, self._layout.n_dim
        models: Any = jax.vmap(self._draws.hypothesis.at)(jnp.asarray(self._draws.theta[numbers]))
        rngs = [self._rng(int(number)) for number in numbers]
        shape = (layout.n_runs, layout.n_steps)
        kicks = np.stack([rng.standard_normal((*shape, n_dim)) for rng in rngs])
        if hasattr(models, "tail"):
            for kick, rng, tail in zip(kicks, rngs, np.asarray(models.tail), strict=True):
                kick *= np.sqrt((1 / tail - 2) / rng.chisquare(1 / tail, (*shape, 1)))
        if hasattr(models, "scatter"):
            for kick, rng, scatter in zip(kicks, rngs, np.asarray(models.scatter), strict=True):
                precision = rng.gamma(scatter**-2, scatter**2, layout.n_particles)
                kick /= np.sqrt(precision)[layout.owner, None, None]
        classes = getattr(models, "classes", None)
        if classes is None:
            dx = np.array(_coloured(plain_part(models), self._engine, jnp.asarray(kicks)))
        else:
            many = [_coloured(model, self._engine, jnp.asarray(kicks)) for model in classes]
            dx = self._one_class_each(np.stack(many), np.exp(models.log_weights), rngs)
        if models.kind == "channels":
            shaped = models.base if hasattr(models, "flow") else models
            inverse = jax.vmap(lambda model: model.inverse_shape(n_dim))(shaped)
            values, vectors = np.linalg.eigh(np.asarray(inverse))
            root = (vectors / np.sqrt(values)[:, None]) @ np.swapaxes(vectors, 1, 2)
            dx = dx @ root[:, None]
        if self._senses is not None:
            for i, (number, rng) in enumerate(zip(numbers, rngs, strict=True)):
                if rng.random() > self._senses[number]:
                    dx[i, ..., 1] *= -1
        if self._flows is not None:
            for i, (number, rng) in enumerate(zip(numbers, rngs, strict=True)):
                mean, covariance = (part[number] for part in self._flows)
                dx[i] = carried(layout, dx[i], rng.multivariate_normal(mean, covariance))
        return dx * layout.valid[..., None]

    def _rng(self, number: int) -> np.random.Generator:
        key = np.array([self.seed, self._word + number], dtype=np.uint64)
        return np.random.Generator(np.random.Philox(key=key))

    def _one_class_each(
        self, many: FloatArray, weights: FloatArray, rngs: Sequence[np.random.Generator]
    ) -> FloatArray:
        """Draw a class for each particle, from steps (class, replica, run, step, dim)."""
        layout = self._layout
        edges = np.cumsum(weights, axis=1)[:, :-1]
        found = np.empty(many.shape[1:])
        for i, rng in enumerate(rngs):
            which = np.searchsorted(edges[i], rng.random(layout.n_particles))[layout.owner]
            found[i] = many[which, i, np.arange(layout.n_runs)]
        return found


@eqx.filter_jit
def _coloured(
    models: AbstractModel, engine: Engine, kicks: Float[Array, "replica run step dim"]
) -> Float[Array, "replica run step dim"]:
    """Displacements from innovations, each replica under its own model."""
    return eqx.filter_vmap(coloured, in_axes=(eqx.if_array(0), None, 0))(models, engine, kicks)


def mean_flows(
    hypothesis: Hypothesis, theta: FloatArray, layout: Layout
) -> tuple[FloatArray, FloatArray] | None:
    """Posterior means and covariances of the mean flow at each θ; None if there is none.

    Of a flow that is linear in space, those of all its coefficients.

    From the prior the flow of a replica would be nothing like the one observed.
    """
    if "flow" not in hypothesis.model.parameters:
        return None
    data = Batch.of(layout.data, model=hypothesis.model).data
    mean, covariance = _flows(hypothesis, data, jnp.asarray(theta))
    return np.asarray(mean), np.asarray(covariance)


def _anticlockwise(hypothesis: Hypothesis, theta: FloatArray, layout: Layout) -> FloatArray | None:
    """Probability at each θ that particles turn anticlockwise; None if they have no sense."""
    if not is_turning(hypothesis.model):
        return None
    data = Batch.of(layout.data, model=hypothesis.model).data
    return np.asarray(_sense_probabilities(hypothesis, data, jnp.asarray(theta)))


@eqx.filter_jit
def _sense_probabilities(
    hypothesis: Hypothesis, data: Any, theta: Float[Array, "draw parameter"]
) -> Float[Array, " draw"]:
    return jax.lax.map(lambda at: hypothesis.at(at).derived(data)["anticlockwise"], theta)


@eqx.filter_jit
def _flows(
    hypothesis: Hypothesis, data: Any, theta: Float[Array, "draw parameter"]
) -> tuple[Float[Array, "draw coefficient"], Float[Array, "draw coefficient coefficient"]]:
    def one(at: Array) -> tuple[Array, Array]:
        model: Any = hypothesis.at(at)
        return model.mean_flow(data)

    return jax.lax.map(one, theta)
