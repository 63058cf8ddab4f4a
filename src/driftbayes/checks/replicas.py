"""Data sets of the same shape as the one observed, drawn from a fitted model."""

__all__ = ["Replicator", "check_replicable", "mean_flows"]

import zlib
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from driftbayes.checks.innovations import Engine, Layout, carried, coloured, plain_part
from driftbayes.errors import DriftbayesError
from driftbayes.inference import Batch, Hypothesis, PosteriorDraws
from driftbayes.models import AbstractModel
from driftbayes.typing import FloatArray

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
    if not any(name in fields for name in _KNOWN[model.kind]):
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

    def __call__(self, number: int) -> FloatArray:
        """Steps (run, step, dim) of one replica, zero where a run has ended."""
        layout = self._layout
        key = np.array([self.seed, self._word + number], dtype=np.uint64)
        rng = np.random.Generator(np.random.Philox(key=key))
        model: Any = self._draws.hypothesis.at(jnp.asarray(self._draws.theta[number]))
        kicks = rng.standard_normal((layout.n_runs, layout.n_steps, layout.n_dim))
        if hasattr(model, "tail"):
            nu = 1 / float(model.tail)
            chi = rng.chisquare(nu, (layout.n_runs, layout.n_steps, 1))
            kicks *= np.sqrt((nu - 2) / chi)
        if hasattr(model, "scatter"):
            shape = float(model.scatter) ** -2
            precision = rng.gamma(shape, 1 / shape, layout.n_particles)
            kicks /= np.sqrt(precision)[layout.owner, None, None]
        classes = getattr(model, "classes", None)
        if classes is None:
            dx = np.asarray(coloured(plain_part(model), self._engine, jnp.asarray(kicks)))
        else:
            edges = np.cumsum(np.exp(np.asarray(model.log_weights)))[:-1]
            which = np.searchsorted(edges, rng.random(layout.n_particles))[layout.owner]
            many = [coloured(one, self._engine, jnp.asarray(kicks)) for one in classes]
            dx = np.stack(many)[which, np.arange(layout.n_runs)]
        if model.kind == "channels":
            shaped = model.base if hasattr(model, "flow") else model
            values, vectors = np.linalg.eigh(np.asarray(shaped.inverse_shape(layout.n_dim)))
            dx = dx @ ((vectors / np.sqrt(values)) @ vectors.T)
        if self._flows is not None:
            mean, covariance = (part[number] for part in self._flows)
            flow = rng.multivariate_normal(mean, covariance)
            dx = carried(layout, dx, flow)
        return dx * layout.valid[..., None]


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


@eqx.filter_jit
def _flows(
    hypothesis: Hypothesis, data: Any, theta: Float[Array, "draw parameter"]
) -> tuple[Float[Array, "draw coefficient"], Float[Array, "draw coefficient coefficient"]]:
    def one(at: Array) -> tuple[Array, Array]:
        model: Any = hypothesis.at(at)
        return model.mean_flow(data)

    return jax.lax.map(one, theta)
