"""Conversion between displacements and innovations, the unpredicted parts of steps.

Both directions are exact inverses of each other. Models with a state-space form use the Kalman
filter; others, at regular times, the Durbin--Levinson filters.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from driftbayes._typing import FloatArray, IntArray
from driftbayes.data._sampling import Displacements
from driftbayes.errors import DriftbayesError
from driftbayes.inference import Hypothesis
from driftbayes.inference._formulas import Rows, evaluate, finish
from driftbayes.likelihood._engines import Engine, FilterEngine, ToeplitzEngine
from driftbayes.likelihood._runs import make_runs
from driftbayes.likelihood._sums import Formulas
from driftbayes.models import AbstractModel, Mixture
from driftbayes.models._prepare import make_engine

# Central differences of fourth order in unconstrained parameters, mostly logarithms. Their error is
# about 1e-13 of the third derivative and, from rounding, 1e-12 of ln p.
_STEP = 1e-3
_OFFSETS = np.array([-2.0, -1.0, 1.0, 2.0])
_WEIGHTS = np.array([1.0, -8.0, 8.0, -1.0]) / 12
# Longest run for models without a state-space form, which are replicated in O(steps²).
_MAX_STEPS = 4096


class Layout:
    """Shape of a data set: runs of steps, their intervals and particles.

    Args:
        data: Displacements.
        start_times: Time at which each run begins; None if unknown.
    """

    def __init__(self, data: Displacements, start_times: FloatArray | None = None) -> None:
        self.data = data
        self.n_runs, self.n_steps, self.n_dim = len(data.row_sizes), data.n_steps, data.n_dim
        self.valid: np.ndarray = np.arange(self.n_steps) < data.row_sizes[:, None]
        self.is_full = bool(self.valid.all())
        self.interval: FloatArray = np.full(self.valid.shape, data.tau)
        self.interval[self.valid] = data.interval
        # Numbers of particles, without trajectories that have no run.
        self.owner: IntArray = np.unique(data.trajectory, return_inverse=True)[1]
        self.n_particles = int(self.owner.max()) + 1
        # Group of simultaneous steps of each step, in the order of the data.
        self.moments: IntArray | None = None
        if start_times is not None:
            self.moments = self._simultaneous(np.asarray(start_times, dtype=np.float64))

    def _simultaneous(self, start_times: FloatArray) -> IntArray | None:
        """Number the groups of steps that begin and end together; None if there are no pairs."""
        if start_times.shape != (self.n_runs,) or not np.isfinite(start_times).all():
            raise DriftbayesError(
                f"start_times must hold {self.n_runs} finite times, one for each run, got shape "
                f"{start_times.shape}; omit it if the times are not known"
            )
        length = np.where(self.valid, self.interval, 0.0)
        ends = start_times[:, None] + np.cumsum(length, axis=1)
        # Times that differ by less than a thousandth of a step are equal.
        grid = 1e-3 * float(np.median(self.data.interval))
        limits = np.stack([ends - length, ends], axis=-1)[self.valid]
        ticks = np.rint((limits - limits.min()) / grid).astype(np.int64)
        groups = np.unique(ticks, axis=0, return_inverse=True)[1].reshape(-1)
        return groups if np.bincount(groups).max() > 1 else None

    def pad(self, dx: FloatArray) -> FloatArray:
        """Reshape steps (..., step, dim) to (..., run, step, dim), zero where a run has ended."""
        if self.is_full:
            return dx.reshape(*dx.shape[:-2], *self.valid.shape, dx.shape[-1])
        whole = np.zeros((*dx.shape[:-2], *self.valid.shape, dx.shape[-1]))
        whole[..., self.valid, :] = dx
        return whole

    def per_particle(self, values: FloatArray) -> FloatArray:
        """Sum values of runs (..., run) over the runs of each particle (..., particle)."""
        if self.n_particles == self.n_runs:
            return values[..., np.argsort(self.owner)]
        total = np.zeros((self.n_particles, *values.shape[:-1]))
        np.add.at(total, self.owner, np.moveaxis(values, -1, 0))
        return np.moveaxis(total, 0, -1)


def replica_engine(model: AbstractModel, data: Displacements) -> FilterEngine:
    """Make the engine that converts steps of these runs to innovations and back.

    Raises:
        DriftbayesError: There is none for this model and these data.
    """
    if model.has_state_space:
        return FilterEngine(make_runs(data))
    if not data.is_regular:
        raise DriftbayesError(
            f"{model.name} has no state-space form, so irregular times, kept gaps and measurement "
            "errors cannot be replicated; choose a regular tau, or split at gaps"
        )
    if data.n_steps > _MAX_STEPS:
        raise DriftbayesError(
            f"{model.name} has no state-space form, so runs of {data.n_steps} steps are too long "
            f"to be replicated; cut them with n_tau of {_MAX_STEPS} or less"
        )
    return ToeplitzEngine(make_runs(data))


def colour(engine: FilterEngine, rows: Rows, kicks: FloatArray) -> FloatArray:
    """Compute displacements (set, step, dim) of Gaussian models from standard innovations.

    A model with a common sense of rotation turns anticlockwise.
    """
    if not rows.hypothesis.model.is_turning:
        return engine.colour(rows, kicks)
    z = engine.colour(rows, kicks[..., :1] + 1j * kicks[..., 1:])
    return np.concatenate([z.real, z.imag], axis=-1)


def whiten(engine: FilterEngine, rows: Rows, dx: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Compute standardised innovations under one Gaussian model, and their variances.

    Under a model with a common sense of rotation, each data set is whitened with its more likely
    sense.

    Returns:
        Innovations (set, step, dim), and variances (set, step).
    """
    if not rows.hypothesis.model.is_turning:
        return engine.whiten(rows, dx)
    z = dx[..., 0] + 1j * dx[..., 1]
    white, variances = engine.whiten(rows, np.stack([z, z.conj()], axis=-1))
    square = np.sum(white.real**2 + white.imag**2, axis=1)
    mirrored = (square[:, 0] > square[:, 1])[:, None]
    chosen = np.where(mirrored, white[..., 1].conj(), white[..., 0])
    return np.stack([chosen.real, chosen.imag], axis=-1), variances


def tensor_root(
    hypothesis: Hypothesis, theta: FloatArray, n_dim: int, *, inverse: bool
) -> FloatArray | None:
    """Compute the square root of the anisotropy tensor at each θ; None if isotropic."""
    model = hypothesis.model
    if model.kind != "channels" or model.is_turning:
        return None
    (tensor,) = evaluate(hypothesis, theta, _inverse_shape(n_dim))
    values, vectors = np.linalg.eigh(tensor)
    sizes = np.sqrt(values) if inverse else 1 / np.sqrt(values)
    return np.asarray((vectors * sizes[:, None]) @ np.swapaxes(vectors, 1, 2))


@cache
def _inverse_shape(n_dim: int) -> Callable[[AbstractModel], tuple[Any, ...]]:
    return lambda model: (model.inverse_shape(n_dim),)


def drift(layout: Layout, dx: FloatArray, flow: FloatArray) -> FloatArray:
    """Compute the contribution of a mean flow to steps (..., run, step, dim)."""
    n_dim = layout.n_dim
    table = flow.reshape(n_dim, -1)
    steady = layout.interval[..., None] * table[:, 0]
    if table.shape[1] == 1 or layout.data.start is None:
        return steady
    # Positions relative to the centre of the data.
    start = (layout.data.start - layout.data.centre)[:, None]
    begin = start + np.cumsum(dx, axis=-2) - dx
    return np.asarray(steady + layout.interval[..., None] * (begin @ table[:, 1:].T))


def carried(layout: Layout, dx: FloatArray, flow: FloatArray) -> FloatArray:
    """Add a mean flow to steps (run, step, dim); the inverse of subtracting `drift`.

    The contribution to a step depends on the steps before it.
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
    """Innovations of data sets of one layout, under one model at fixed parameters.

    A mixture whitens each particle by its most probable class. Particles with individual scales are
    whitened by the common model, so that their innovations differ in size. A mean flow is
    subtracted first.

    Args:
        hypothesis: Model family and prior.
        theta: Parameters.
        layout: Shape of the data.
        flow: Coefficients of the mean flow, if the model has one.
    """

    def __init__(
        self,
        hypothesis: Hypothesis,
        theta: FloatArray,
        layout: Layout,
        flow: FloatArray | None = None,
    ) -> None:
        self._layout, self._flow = layout, flow
        self._engine = replica_engine(hypothesis.model, layout.data)
        every = Rows(hypothesis, theta[None])
        self._classes = [every.part(slice(c, c + 1)) for c in range(every.n_components)]
        self._log_weights = class_log_weights(hypothesis, theta[None])[0]
        self._root = tensor_root(hypothesis, theta[None], layout.n_dim, inverse=True)

    def __call__(self, dx: FloatArray) -> FloatArray:
        """Compute innovations (set, run, step, dim) of many data sets, zero after a run's end."""
        layout = self._layout
        if self._flow is not None:
            dx = dx - drift(layout, dx, self._flow)
        steps = dx[:, layout.valid]
        found, fits = [], []
        for rows, log_weight in zip(self._classes, self._log_weights, strict=True):
            white, variances = whiten(self._engine, rows, steps)
            found.append(white)
            if len(self._classes) > 1:
                terms = np.sum(white**2, axis=-1) + layout.n_dim * np.log(variances)
                by_run = np.add.reduceat(terms, self._engine.runs.offsets[:-1], axis=1)
                fits.append(log_weight - 0.5 * layout.per_particle(by_run))
        chosen = found[0]
        if len(found) > 1:
            best = np.argmax(np.stack(fits), axis=0)[:, layout.owner]
            best = np.repeat(best, layout.data.row_sizes, axis=1)
            chosen = np.take_along_axis(np.stack(found), best[None, :, :, None], axis=0)[0]
        if self._root is not None:
            chosen = chosen @ self._root[0]
        return layout.pad(chosen)


def class_log_weights(hypothesis: Hypothesis, theta: FloatArray) -> FloatArray:
    """Return ln of the weight of each class of a mixture at each θ, (point, class)."""
    if not isinstance(hypothesis.model, Mixture):
        return np.zeros((len(theta), 1))
    return evaluate(hypothesis, theta, _log_weights)[0]


def _log_weights(model: Any) -> tuple[Any, ...]:
    return (model.log_weights,)


class Score:
    """Derivatives of ln p(D | θ) at the posterior mode, in unconstrained parameters.

    A mean flow is integrated out of the density; its least-squares estimate is appended.

    Args:
        hypothesis: Model family and prior.
        mode: Parameters at which to differentiate.
        layout: Shape of the data sets.
    """

    def __init__(self, hypothesis: Hypothesis, mode: FloatArray, layout: Layout) -> None:
        self._hypothesis, self._layout = hypothesis, layout
        centre = hypothesis.to_unconstrained(mode[None])
        moves = _STEP * np.kron(np.eye(len(mode)), _OFFSETS[:, None])
        self._theta = hypothesis.from_unconstrained(centre + moves)
        self._formulas = _CachedFormulas(Rows(hypothesis, self._theta))
        self._has_flow = "flow" in hypothesis.model.parameters

    @property
    def names(self) -> tuple[str, ...]:
        """Name of each component."""
        names, n_dim = self._hypothesis.names, self._layout.n_dim
        if not self._has_flow:
            return names
        flow = [f"flow_{i + 1}" for i in range(n_dim)]
        if self._hypothesis.model.needs_positions:
            flow += [f"gradient_{i + 1}_{j + 1}" for j in range(n_dim) for i in range(n_dim)]
        return (*names, *flow)

    def __call__(self, dx: FloatArray) -> FloatArray:
        """Compute scores (set, parameter) of data sets with steps (set, run, step, dim)."""
        return np.stack([self._score(steps[self._layout.valid]) for steps in dx])

    def _score(self, steps: FloatArray) -> FloatArray:
        model = self._hypothesis.model
        data = replace(self._layout.data, dx=steps)
        slope = self._slope(make_engine(data, model))
        if not self._has_flow:
            return slope
        interval = data.interval
        if not model.needs_positions:
            return np.concatenate([slope, steps.sum(axis=0) / interval.sum()])
        regressors = np.column_stack([np.ones(len(steps)), data.origin - data.centre])
        found, *_ = np.linalg.lstsq(regressors * interval[:, None], steps)
        return np.concatenate([slope, found.ravel()])

    def _slope(self, engine: Engine) -> FloatArray:
        with np.errstate(all="ignore"):
            sums = engine.sums(self._formulas)
            fits, *_ = finish(self._hypothesis, self._theta, sums, engine)
            return fits.reshape(-1, len(_WEIGHTS)) @ _WEIGHTS / _STEP


class _CachedFormulas:
    """Cached formulas, for many data sets with the same times."""

    def __init__(self, formulas: Formulas) -> None:
        self._formulas = formulas
        self._known: dict[Any, Any] = {}

    @property
    def n_rows(self) -> int:
        return self._formulas.n_rows

    def n_state(self) -> int:
        return self._formulas.n_state()

    def _once(self, key: Any, make: Callable[[], Any]) -> Any:
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]

    def lanes(self, intervals: FloatArray) -> NDArray[Any]:
        key = ("lanes", intervals.tobytes())
        return np.asarray(self._once(key, lambda: self._formulas.lanes(intervals)))

    def starts(self) -> tuple[NDArray[Any], FloatArray, FloatArray]:
        start, extra, tails = self._once("starts", self._formulas.starts)
        return start, extra, tails

    def autocovariances(self, tau: float, n_lags: int) -> NDArray[Any]:
        key = ("autocovariances", tau, n_lags)
        # A copy: engines add errors to it.
        return np.array(self._once(key, lambda: self._formulas.autocovariances(tau, n_lags)))

    def mean_square_displacements(self, lags: FloatArray) -> FloatArray:
        return self._formulas.mean_square_displacements(lags)

    def part(self, rows: slice) -> Formulas:
        """Return cached formulas for some of the rows."""
        key = ("part", rows.start, rows.stop)
        return self._once(key, lambda: _CachedFormulas(self._formulas.part(rows)))
