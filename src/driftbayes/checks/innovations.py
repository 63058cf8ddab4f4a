"""Between displacements and innovations: what of each step the earlier ones do not predict.

Both directions are exact, and each undoes the other. Regular runs take the Durbin--Levinson
filters; long or irregular ones, and positions with errors, take the Kalman filter.
"""

__all__ = [
    "Engine",
    "Layout",
    "Whitener",
    "carried",
    "coloured",
    "drift",
    "is_turning",
    "plain_part",
    "whitened",
]

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from driftbayes.errors import DriftbayesError
from driftbayes.inference import Hypothesis
from driftbayes.likelihood import (
    PaddedSteps,
    durbin_levinson,
    kalman_displacements,
    kalman_innovations,
    toeplitz_displacements,
)
from driftbayes.likelihood.hermitian import hermitian_displacements, hermitian_innovations
from driftbayes.models import AbstractModel
from driftbayes.sampling import Displacements
from driftbayes.typing import FloatArray, IntArray

# Up to this length the filters of all orders, one N by N matrix, are faster than a recursion.
_SHORT = 128
# Beyond it they would fill the memory.
_LONGEST = 4096


class Layout:
    """The shape of a data set: which steps there are, how long each took, and whose they are.

    Args:
        data: Displacements.
        start_times: Time at which each run begins; None if it is not known which steps are
            simultaneous.
    """

    def __init__(self, data: Displacements, start_times: FloatArray | None = None) -> None:
        self.data = data
        self.n_runs, self.n_steps, self.n_dim = len(data.row_sizes), data.n_steps, data.n_dim
        self.valid: np.ndarray = np.arange(self.n_steps) < data.row_sizes[:, None]
        self.is_full = bool(self.valid.all())
        self.interval: FloatArray = np.full(self.valid.shape, data.tau)
        self.interval[self.valid] = data.interval
        # Numbers of trajectories without those that gave no run.
        self.owner: IntArray = np.unique(data.trajectory, return_inverse=True)[1]
        self.n_particles = int(self.owner.max()) + 1
        # The group of simultaneous steps that each belongs to, in the order of the data.
        self.moments: IntArray | None = None
        if start_times is not None:
            self.moments = self._simultaneous(np.asarray(start_times, dtype=np.float64))

    def _simultaneous(self, start_times: FloatArray) -> IntArray | None:
        """Number the groups of steps that begin and end together; None if there are no pairs."""
        if start_times.shape != (self.n_runs,) or not np.isfinite(start_times).all():
            msg = (
                f"start_times must hold {self.n_runs} finite times, one for each run, got shape "
                f"{start_times.shape}; leave it out if the times are not known"
            )
            raise DriftbayesError(msg)
        length = np.where(self.valid, self.interval, 0.0)
        ends = start_times[:, None] + np.cumsum(length, axis=1)
        # Clocks that differ by less than a thousandth of a step agree.
        grid = 1e-3 * float(np.median(self.data.interval))
        limits = np.stack([ends - length, ends], axis=-1)[self.valid]
        ticks = np.rint((limits - limits.min()) / grid).astype(np.int64)
        groups = np.unique(ticks, axis=0, return_inverse=True)[1].reshape(-1)
        return groups if np.bincount(groups).max() > 1 else None

    def pad(self, dx: FloatArray) -> FloatArray:
        """Steps as (run, step, dim), zero where a run has ended."""
        whole = np.zeros((self.n_runs, self.n_steps, self.n_dim))
        whole[self.valid] = dx
        return whole

    def per_particle(self, values: FloatArray) -> FloatArray:
        """Sums (..., particle) of what is given for each run (..., run)."""
        if self.n_particles == self.n_runs:
            return values[..., np.argsort(self.owner)]
        total = np.zeros((self.n_particles, *values.shape[:-1]))
        np.add.at(total, self.owner, np.moveaxis(values, -1, 0))
        return np.moveaxis(total, 0, -1)


def plain_part(model: Any) -> Any:
    """The model, alike for all particles, that a model is made from; with a rotation, if any."""
    while model.kind != "summed" and not is_turning(model):
        model = model.base
    return model


def is_turning(model: Any) -> bool:
    """Whether a model, or a class of models, couples two axes by a common sense of rotation."""
    return hasattr(model, "complex_transition")


def _uses_filters(model: type[AbstractModel], data: Displacements) -> bool:
    if is_turning(model):
        return False
    if data.is_regular and (data.n_steps <= _SHORT or not model.has_state_space):
        if data.n_steps > _LONGEST:
            msg = (
                f"{model.name} has no state-space form, and runs of {data.n_steps} steps are too "
                f"long to be replicated without; cut them with n_tau of {_LONGEST} or less"
            )
            raise DriftbayesError(msg)
        return True
    if not model.has_state_space:
        msg = (
            f"{model.name} has no state-space form, without which irregular times, kept gaps and "
            "measurement errors cannot be replicated; choose a regular tau, or split at gaps"
        )
        raise DriftbayesError(msg)
    return False


class Engine(eqx.Module):
    """How steps and innovations of one layout are turned into each other.

    Args:
        steps: Intervals and errors for the Kalman filter; None for the filters.
        tau: Sampling time.
        n_steps: Steps of the longest run.
        n_runs: Number of runs.
    """

    steps: PaddedSteps | None
    tau: Float[Array, ""]
    n_steps: int = eqx.field(static=True)
    n_runs: int = eqx.field(static=True)

    @classmethod
    def of(cls, model: type[AbstractModel], layout: Layout) -> "Engine":
        """The engine that these data need."""
        data = layout.data
        steps = None if _uses_filters(model, data) else PaddedSteps.from_displacements(data)
        return cls(steps, jnp.asarray(data.tau), layout.n_steps, layout.n_runs)

    @property
    def padded(self) -> PaddedSteps:
        """Intervals and errors, of an engine that has them."""
        if self.steps is None:
            msg = "these data were laid out for the filters, not for the state-space engine"
            raise DriftbayesError(msg)
        return self.steps

    def autocovariance(self, model: AbstractModel) -> Float[Array, " step"]:
        """Of the displacements under the model, up to the longest lag."""
        lags = jnp.arange(self.n_steps, dtype=self.tau.dtype)
        return model.increment_autocovariance(lags, self.tau)

    def full(self, part: Float[Array, "run step dim"]) -> Float[Array, "run2 step2 dim"]:
        """Padded to the sizes of the Kalman filter, which are powers of two."""
        n_runs, n_steps = part.shape[:2] if self.steps is None else self.steps.interval.shape
        return jnp.pad(part, ((0, n_runs - self.n_runs), (0, n_steps - self.n_steps), (0, 0)))


@eqx.filter_jit
def coloured(
    model: AbstractModel, engine: Engine, kicks: Float[Array, "run step dim"]
) -> Float[Array, "run step dim"]:
    """Displacements under a plain model from innovations of unit variance.

    A model with a common sense of rotation turns anticlockwise.
    """
    if is_turning(model):
        return _coloured_plane(model, engine, kicks)
    if engine.steps is None:
        return toeplitz_displacements(engine.autocovariance(model), kicks)
    whole = kalman_displacements(
        model.transition,
        model.initial_covariance(),
        engine.steps,
        engine.full(kicks),
        model.fix_variance(),
    )
    return whole[: engine.n_runs, : engine.n_steps]


@eqx.filter_jit
def whitened(
    model: AbstractModel, engine: Engine, dx: Float[Array, "run step dim"]
) -> tuple[Float[Array, "run step dim"], Float[Array, "run step"]]:
    """Innovations of unit variance under a plain model, and the variances they had before.

    Under a model with a common sense of rotation every two columns are one data set, whitened with
    the sense that is likelier for it.
    """
    if is_turning(model):
        return _whitened_plane(model, engine, dx)
    if engine.steps is None:
        filters = durbin_levinson(engine.autocovariance(model))
        # One product of matrices: the runs' steps go first.
        columns = jnp.moveaxis(dx, 1, 0).reshape(engine.n_steps, -1)
        whole = (filters.forward / jnp.sqrt(filters.variances)[:, None]) @ columns
        shape = (engine.n_steps, engine.n_runs, dx.shape[-1])
        variance = jnp.broadcast_to(filters.variances[None, :], (engine.n_runs, engine.n_steps))
        return jnp.moveaxis(whole.reshape(shape), 0, 1), variance
    steps = eqx.tree_at(lambda one: one.dx, engine.steps, engine.full(dx))
    innovation, variance = kalman_innovations(
        model.transition, model.initial_covariance(), steps, model.fix_variance()
    )
    found = (innovation / jnp.sqrt(variance)[:, :, None])[: engine.n_runs, : engine.n_steps]
    return found, variance[: engine.n_runs, : engine.n_steps]


def _coloured_plane(model: Any, engine: Engine, kicks: Array) -> Array:
    whole = engine.full(kicks)
    dz = hermitian_displacements(
        model.complex_transition,
        model.complex_initial_covariance(),
        engine.padded,
        jax.lax.complex(whole[..., :1], whole[..., 1:]),
        model.fix_variance(),
    )[: engine.n_runs, : engine.n_steps, 0]
    return jnp.stack([dz.real, dz.imag], axis=-1)


def _whitened_plane(model: Any, engine: Engine, dx: Array) -> tuple[Array, Array]:
    steps, whole = engine.padded, engine.full(dx)
    z = jax.lax.complex(whole[..., 0::2], whole[..., 1::2])
    n_sets = z.shape[-1]
    innovation, variance = hermitian_innovations(
        model.complex_transition,
        model.complex_initial_covariance(),
        steps,
        jnp.concatenate([z, z.conj()], axis=-1),
        model.fix_variance(),
    )
    white = innovation / jnp.sqrt(variance)[:, :, None].astype(innovation.dtype)
    square = (white.real**2 + white.imag**2) * steps.valid[:, :, None]
    one, other = jnp.split(jnp.sum(square, axis=(0, 1)), [n_sets])
    chosen = jnp.where(
        (one <= other)[None, None, :], white[..., :n_sets], white[..., n_sets:].conj()
    )
    axes = jnp.stack([chosen.real, chosen.imag], axis=-1).reshape(*chosen.shape[:2], 2 * n_sets)
    kept = (slice(engine.n_runs), slice(engine.n_steps))
    return axes[kept], variance[kept]


def drift(layout: Layout, dx: FloatArray, flow: FloatArray) -> FloatArray:
    """What a mean flow adds to steps (..., run, step, dim), zero where a run has ended.

    Args:
        layout: Shape of the data.
        dx: The steps, which tell where each of them begins.
        flow: U, or (U_1, A_11, A_12, ..., U_2, A_21, ...) of a flow that is linear in space.
    """
    n_dim = layout.n_dim
    table = flow.reshape(n_dim, -1)
    steady = layout.interval[..., None] * table[:, 0]
    if table.shape[1] == 1 or layout.data.start is None:
        return steady
    # From the first position of each run, counted from the centre of the data.
    start = (layout.data.start - layout.data.centre)[:, None]
    begin = start + np.cumsum(dx, axis=-2) - dx
    return np.asarray(steady + layout.interval[..., None] * (begin @ table[:, 1:].T))


def carried(layout: Layout, dx: FloatArray, flow: FloatArray) -> FloatArray:
    """Steps (run, step, dim) of particles that a mean flow carries; subtracting `drift` undoes it.

    What the flow adds to a step depends on the steps before it.
    """
    table = flow.reshape(layout.n_dim, -1)
    if table.shape[1] == 1 or layout.data.start is None:
        return dx + drift(layout, dx, flow)
    here, whole = layout.data.start - layout.data.centre, np.zeros_like(dx)
    for step in range(layout.n_steps):
        velocity = table[:, 0] + here @ table[:, 1:].T
        whole[:, step] = dx[:, step] + layout.interval[:, step, None] * velocity
        here = here + whole[:, step] * layout.valid[:, step, None]
    return whole


class Whitener:
    """Innovations of data sets of one layout, under one model with its parameters.

    Of a mixture each particle is whitened by the class that it most probably belongs to; of
    particles with scales of their own by the common model, so that their innovations differ in
    size. A mean flow is subtracted first.

    Args:
        hypothesis: Model family and prior.
        theta: Its parameters.
        layout: Shape of the data.
        flow: Mean flow, if the model has one, as `drift` takes it.
    """

    def __init__(
        self,
        hypothesis: Hypothesis,
        theta: FloatArray,
        layout: Layout,
        flow: FloatArray | None = None,
    ) -> None:
        model: Any = hypothesis.at(jnp.asarray(theta))
        self._layout = layout
        self._engine = Engine.of(hypothesis.model, layout)
        self._flow = flow
        self._inverse_root: FloatArray | None = None
        if model.kind == "channels":
            shaped = model.base if hasattr(model, "flow") else model
            values, vectors = np.linalg.eigh(np.asarray(shaped.inverse_shape(layout.n_dim)))
            self._inverse_root = (vectors * np.sqrt(values)) @ vectors.T
        self._classes: tuple[Any, ...] = getattr(model, "classes", (plain_part(model),))
        self._log_weights = np.asarray(getattr(model, "log_weights", np.zeros(1)))

    def __call__(self, dx: FloatArray) -> FloatArray:
        """Innovations (set, run, step, dim) of many data sets, zero where a run has ended."""
        valid = self._layout.valid[..., None]
        n_sets, n_dim = len(dx), self._layout.n_dim
        if self._flow is not None:
            dx = dx - drift(self._layout, dx, self._flow)
        # To the filters other data sets are further axes: their covariances are the same.
        axes = np.moveaxis(dx, 0, -2).reshape(self._layout.n_runs, self._layout.n_steps, -1)
        found, fits = [], []
        for model, log_weight in zip(self._classes, self._log_weights, strict=True):
            white, variance = whitened(model, self._engine, jnp.asarray(axes))
            own = np.asarray(white).reshape(*axes.shape[:2], n_sets, n_dim)
            own = np.moveaxis(own, -2, 0) * valid
            found.append(own if self._inverse_root is None else own @ self._inverse_root)
            if len(self._classes) > 1:
                logs = n_dim * np.sum(np.log(variance) * self._layout.valid, axis=1)
                terms = np.sum(own**2, axis=(-2, -1)) + logs
                fits.append(log_weight - 0.5 * self._layout.per_particle(terms))
        if len(found) == 1:
            return found[0]
        best = np.argmax(np.stack(fits), axis=0)[:, self._layout.owner]
        chosen = np.take_along_axis(np.stack(found), best[None, :, :, None, None], axis=0)
        return np.asarray(chosen[0])
