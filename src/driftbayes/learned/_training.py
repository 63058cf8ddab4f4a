"""Train many small networks in parallel, each on its own part of the trajectories."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from typing import Any, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from driftbayes._typing import FloatArray, IntArray
from driftbayes.errors import DriftbayesError
from driftbayes.learned._mixture import LinearFit, MixtureNetwork

# NumPy or JAX arrays.
Numbers: TypeAlias = Array | np.ndarray

# Training steps between two validations, and largest number of validation rows.
_CHUNK, _MAX_VALIDATION = 50, 2048
# Number of rows scored per block.
_SCORE_BLOCK = 4096


@dataclass(frozen=True)
class Training:
    """Sizes of networks and limits of their training.

    Args:
        n_components: Number of Gaussians in a mixture.
        width: Units of each of two hidden layers.
        n_members: Number of networks that are averaged, each with its own validation part.
        max_steps: Largest number of steps of Adam.
        patience: Steps without improvement after which training ends.
        batch: Rows per step.
        rate: Initial learning rate, which decays to zero.
    """

    n_components: int = 6
    width: int = 24
    n_members: int = 2
    max_steps: int = 1500
    patience: int = 300
    batch: int = 256
    rate: float = 4e-3


@dataclass(frozen=True, eq=False)
class Task:
    """Training and validation data of one network.

    Args:
        fit: Linear fit that whitens the displacements.
        train: Training rows.
        validation: Validation rows, for early stopping.
    """

    fit: LinearFit
    train: IntArray
    validation: IntArray


class Rows(eqx.Module):
    """Displacements and inputs of all rows, of order one."""

    dx: Float[Numbers, "row dim"]
    inputs: Float[Numbers, "row input"]


class _Maps(eqx.Module):
    """Affine maps from displacements and inputs to whitened residuals y and inputs z."""

    centre: Float[Numbers, " input"]
    scale: Float[Numbers, " input"]
    slope: Float[Numbers, "input dim"]
    mean: Float[Numbers, " dim"]
    whiten: Float[Numbers, "dim dim"]

    @classmethod
    def of(cls, fit: LinearFit) -> "_Maps":
        # Inputs that a network does not use have an infinite scale.
        inverse = np.linalg.inv(fit.root).T
        return cls(fit.centre, 1 / fit.scale, fit.slope, fit.mean, inverse)

    def __call__(self, rows: Rows, index: Int[Numbers, " row"]) -> tuple[Numbers, Numbers]:
        z = (rows.inputs[index] - self.centre[None, :]) * self.scale[None, :]
        return (rows.dx[index] - self.mean[None, :] - z @ self.slope) @ self.whiten, z


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Trained networks of all tasks.

    Args:
        networks: One network, whose arrays have a leading axis of tasks.
        tasks: Training and validation data of each network.
        n_steps: Training steps after which each network was best.
    """

    networks: MixtureNetwork
    tasks: Sequence[Task]
    n_steps: IntArray

    def log_density(self, rows: Rows, task: int, index: IntArray) -> FloatArray:
        """Compute the log density of whitened residuals, in double precision.

        Args:
            rows: Displacements and inputs in double precision.
            task: Index of the task.
            index: Rows to score.
        """
        network = jax.tree.map(lambda leaf: leaf[task].astype(np.float64), self.networks)
        maps = _Maps.of(self.tasks[task].fit)
        parts = [np.empty(0)]
        for begin in range(0, len(index), _SCORE_BLOCK):
            rows_of_block = index[begin : begin + _SCORE_BLOCK]
            padded = np.resize(rows_of_block, _SCORE_BLOCK)
            parts.append(
                np.asarray(_log_densities(network, maps, rows, padded))[: len(rows_of_block)]
            )
        return np.concatenate(parts)


def train(
    rows: Rows,
    tasks: Sequence[Task],
    training: Training,
    seed: int,
    progress: Callable[[int, int], None] | None = None,
) -> Ensemble:
    """Train one network for each task, with early stopping on the validation rows of each.

    Args:
        rows: Displacements and inputs.
        tasks: Training and validation data of each network.
        training: Sizes and limits.
        seed: Random seed of initial weights and batches, combined with the index of the task.
        progress: Called with the number of steps done, and the total.

    Raises:
        DriftbayesError: Optax is not installed.
    """
    adam = _adam(training.rate, training.max_steps)
    # Each task has its own random stream, independent of the other tasks.
    streams = [
        np.random.Generator(np.random.Philox(key=np.array([seed, 2**32 + i], dtype=np.uint64)))
        for i in range(len(tasks))
    ]
    sizes = (rows.inputs.shape[1], rows.dx.shape[1], training.n_components, training.width)
    networks = _stack([MixtureNetwork.first(*sizes, stream) for stream in streams])
    data = _single((rows, _stack([_Maps.of(task.fit) for task in tasks]), _validation_rows(tasks)))
    state, losses = _start(networks, data, adam)
    best, best_losses = networks, np.asarray(losses)
    n_steps = np.zeros(len(tasks), dtype=np.int64)
    for done in range(_CHUNK, training.max_steps + _CHUNK, _CHUNK):
        shape = (_CHUNK, training.batch)
        draws = [
            task.train[stream.integers(0, len(task.train), shape)]
            for task, stream in zip(tasks, streams, strict=True)
        ]
        batches = np.stack(draws, axis=1).astype(np.int32)
        # Optax relies on implicit type promotion, which the caller may have disabled.
        with jax.numpy_dtype_promotion("standard"):
            networks, state, losses = _chunk(networks, state, batches, data, adam)
        new_losses = np.asarray(losses)
        # NaN does not count as improvement, and the earlier weights are kept.
        better = new_losses < best_losses
        best_losses, n_steps = (
            np.where(better, new_losses, best_losses),
            np.where(better, done, n_steps),
        )
        best = jax.tree.map(partial(_keep_better, better), networks, best)
        is_last = bool(np.all(done - n_steps >= training.patience)) or done >= training.max_steps
        if progress is not None:
            progress(training.max_steps if is_last else done, training.max_steps)
        if is_last:
            break
    return Ensemble(best, tasks, n_steps)


@cache
def _adam(rate: float, max_steps: int) -> Any:
    """Return one cached optimiser per setting, so that programs are compiled once."""
    optax = require_optax()
    return optax.adam(optax.cosine_decay_schedule(rate, max_steps))


@eqx.filter_jit
def _start(networks: MixtureNetwork, data: Any, adam: Any) -> tuple[Any, Array]:
    """Return the initial state of Adam, and the validation losses before training."""
    return adam.init(networks), _validation_losses(networks, data)


@eqx.filter_jit
def _chunk(
    networks: MixtureNetwork,
    state: Any,
    batches: Int[Numbers, "step task row"],
    data: Any,
    adam: Any,
) -> tuple[MixtureNetwork, Any, Float[Array, " task"]]:
    """Run several steps of Adam for every task, and return the validation losses after them."""
    rows, maps, _ = data

    def loss(networks: MixtureNetwork, index: Array) -> Array:
        # A sum over tasks keeps the gradients of the networks separate; Adam is elementwise.
        def task_loss(network: MixtureNetwork, task_maps: _Maps, rows_used: Array) -> Array:
            return -jnp.mean(_log_density(network, task_maps, rows, rows_used))

        return jnp.sum(jax.vmap(task_loss)(networks, maps, index))

    def step(carry: Any, index: Any) -> Any:
        networks, state = carry
        update, state = adam.update(jax.grad(loss)(networks, index), state, networks)
        return (eqx.apply_updates(networks, update), state), None

    (networks, state), _ = jax.lax.scan(step, (networks, state), batches)
    return networks, state, _validation_losses(networks, data)


def _validation_losses(networks: MixtureNetwork, data: Any) -> Float[Array, " task"]:
    """Return the mean of -ln q over the validation rows of each task."""
    rows, maps, (index, weight) = data

    def task_loss(
        network: MixtureNetwork, task_maps: _Maps, rows_used: Array, weights: Array
    ) -> Array:
        return -jnp.sum(weights * _log_density(network, task_maps, rows, rows_used))

    return jax.vmap(task_loss)(networks, maps, index, weight)


def _log_density(
    network: MixtureNetwork, maps: _Maps, rows: Rows, index: Int[Numbers, " row"]
) -> Float[Array, " row"]:
    """Compute the log density of the whitened residuals of some rows."""
    y, z = maps(rows, index)
    return jax.vmap(network.log_density)(jnp.asarray(y), jnp.asarray(z))


_log_densities = eqx.filter_jit(_log_density)


def _validation_rows(tasks: Sequence[Task]) -> tuple[IntArray, FloatArray]:
    """Return the validation rows of each task, evenly thinned if many, and their weights."""
    n_rows = min(max(len(task.validation) for task in tasks), _MAX_VALIDATION)
    index, weight = [], []
    for rows in (task.validation for task in tasks):
        n = min(len(rows), n_rows)
        index.append(np.resize(rows[np.arange(n) * len(rows) // n], n_rows))
        weight.append(np.where(np.arange(n_rows) < n, 1 / n, 0.0))
    return np.array(index), np.array(weight)


def _stack(trees: Sequence[Any]) -> Any:
    """Stack the arrays of several trees along a new first axis."""
    return jax.tree.map(lambda *leaves: np.stack(leaves), *trees)


def _single(tree: Any) -> Any:
    """Convert arrays to single precision, in which networks are trained."""
    halves = {np.dtype(np.float64): np.float32, np.dtype(np.int64): np.int32}
    return jax.tree.map(lambda leaf: np.asarray(leaf).astype(halves[leaf.dtype]), tree)


def _keep_better(better: np.ndarray, new: Array, old: FloatArray) -> FloatArray:
    """Return the new weights of tasks that improved, and the old weights of the others."""
    return np.where(better.reshape((-1,) + (1,) * (new.ndim - 1)), np.asarray(new), old)


def require_optax() -> Any:
    """Import Optax.

    Raises:
        DriftbayesError: It is not installed.
    """
    try:
        return import_module("optax")
    except ImportError as error:
        msg = "a learned density needs Optax: pip install 'driftbayes[learned]'"
        raise DriftbayesError(msg) from error
