"""Formulas of a model at many parameter values at once, by compiled programs of fixed shape.

Every program takes a fixed number of points and runs as often as needed: another file, or another
number of steps, trajectories or nodes needs no new compilation.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from driftbayes._kernels.compiled import run_in_threads
from driftbayes._precision import in_double_precision
from driftbayes._typing import FloatArray, IntArray
from driftbayes.inference._hypothesis import Family, Hypothesis
from driftbayes.likelihood._channels import ChannelTerms, Collected
from driftbayes.likelihood._engines import Engine, rows_first
from driftbayes.likelihood._sums import Sums
from driftbayes.models import AbstractModel

# Sizes of one call in parameter values, pairs of parameter value and interval, and trajectories:
# the smallest that suffices, or the largest.
_N_POINTS = (64, 1024)
_N_PAIRS = (64, 4096)
_N_SLOTS = (1, 64, 1024)
# Covariances in one call with many lags.
_MAX_COVARIANCES = 1 << 16
# Numbers of lags of the programs.
_N_LAGS = (32, 256, 4096)


@dataclass(frozen=True, eq=False)
class Rows:
    """Formulas of one hypothesis at several θ, one row per point and component, for engines.

    Args:
        hypothesis: Model family and prior.
        theta: Parameters, (point, parameter).
        rows: Selected rows, point times number of components plus component; None for all.
        whole: Rows that this is a part of; parts share results that are computed per point.
    """

    hypothesis: Hypothesis
    theta: FloatArray
    rows: IntArray | None = None
    whole: "Rows | None" = None

    @property
    def n_components(self) -> int:
        """Number of components of the model."""
        return _n_components(self.hypothesis.family)

    def n_state(self) -> int:
        """Return the dimension of the state of a component."""
        return _n_state(self.hypothesis.family)

    @property
    def _indices(self) -> IntArray:
        """Numbers of these rows among those of all points."""
        if self.rows is not None:
            return self.rows
        return np.arange(len(self.theta) * self.n_components)

    @property
    def n_rows(self) -> int:
        return len(self._indices)

    def part(self, rows: slice) -> "Rows":
        return Rows(self.hypothesis, self.theta, self._indices[rows], self.whole or self)

    def numbers(self) -> tuple[FloatArray, ...]:
        """Compute the model's trajectory numbers, one value per row."""
        theta, point, _ = self._needed()
        found = evaluate(self.hypothesis, theta, trajectory_numbers)
        return tuple(part[point] for part in found)

    def _needed(self) -> tuple[FloatArray, IntArray, IntArray]:
        """Return the points of the rows, and point and component of each row."""
        point, component = np.divmod(self._indices, self.n_components)
        first, last = int(point[0]), int(point[-1])
        return self.theta[first : last + 1], point - first, component

    def starts(self) -> tuple[NDArray[Any], FloatArray, FloatArray]:
        start, extra, tails = self._select(self._state_spaces[:3])
        return start, extra, tails

    def _select(self, found: tuple[NDArray[Any], ...]) -> tuple[NDArray[Any], ...]:
        """Select these rows from results for every point and component."""
        if self.rows is None:
            return tuple(part.reshape(-1, *part.shape[2:]) for part in found)
        point, component = np.divmod(self.rows, self.n_components)
        return tuple(part[point, component] for part in found)

    @cached_property
    def _state_spaces(self) -> tuple[NDArray[Any], ...]:
        """Results that do not depend on durations, for every point and component."""
        if self.whole is not None:
            return self.whole._state_spaces
        size = _program_size(_N_POINTS, len(self.theta))
        return _by_points(_state_space_program, self.hypothesis, size, self.theta)

    def lanes(self, intervals: FloatArray) -> NDArray[Any]:
        """Compute A and Q of all rows, (block, interval, 2, state, state, lane)."""
        from driftbayes._kernels.filter import LANES

        n_rows, n_blocks = self.n_rows, -(-self.n_rows // LANES)
        rows = np.minimum(np.arange(n_blocks * LANES), n_rows - 1)
        if self.hypothesis.model.moves_by_generator:
            return self._lanes_by_generator(rows, intervals)
        both = np.stack(self.transitions(intervals), axis=2)[rows]
        blocks = both.reshape(n_blocks, LANES, *both.shape[1:])
        return np.ascontiguousarray(np.moveaxis(blocks, 1, -1))

    def _lanes_by_generator(self, rows: IntArray, intervals: FloatArray) -> NDArray[Any]:
        """Compute `lanes` from the equations of motion, by a compiled matrix exponential."""
        from driftbayes._kernels.exponential import exponential_kernel
        from driftbayes._kernels.filter import LANES

        found = self._select(self._state_spaces[3:])
        n, n_blocks = found[0].shape[-1], len(rows) // LANES
        blocks = [part[rows].reshape(n_blocks, LANES, n, n) for part in found]
        drift, intensity = (np.ascontiguousarray(np.moveaxis(part, 1, -1)) for part in blocks)
        out = np.empty((n_blocks, len(intervals), 2, n, n, LANES))
        tasks = [(drift[b], intensity[b], intervals, out[b]) for b in range(n_blocks)]
        run_in_threads(exponential_kernel(n), tasks)
        return out

    def transitions(self, intervals: FloatArray) -> tuple[NDArray[Any], NDArray[Any]]:
        """Compute A and Q over each interval, (row, interval, state, state)."""
        propagator, noise = self._at_times(_transition_program, intervals)
        return propagator, noise

    def _at_times(
        self, program: Callable[[Any], Callable[..., Any]], times: FloatArray
    ) -> tuple[NDArray[Any], ...]:
        """Run a program for every pair of a row and a time, (row, time, ...)."""
        theta, point, component = self._needed()
        n, m = len(theta), len(times)
        size = _program_size(_N_PAIRS, n * m)
        pairs = (np.repeat(theta, m, axis=0), np.tile(times, n))
        found = _by_points(program, self.hypothesis, size, *pairs)
        return tuple(part.reshape(n, m, *part.shape[1:])[point, :, component] for part in found)

    def autocovariances(self, tau: float, n_lags: int) -> NDArray[Any]:
        model = self.hypothesis.model
        if model.has_state_space and model.moves_by_generator:
            return self._autocovariances_by_step(tau, n_lags)
        theta, point, component = self._needed()
        taus = np.full(len(theta), tau)
        found = _autocovariances(self.hypothesis, theta, taus, n_lags)
        return np.ascontiguousarray(found[point, component, :n_lags])

    def _autocovariances_by_step(self, tau: float, n_lags: int) -> FloatArray:
        """Compute autocovariances from the matrices of one step, for any number of lags."""
        from driftbayes._kernels.autocovariance import fill_autocovariances

        start, extra, _ = self.starts()
        matrices = rows_first(self.lanes(np.array([tau]))[:, 0], self.n_rows)
        propagator, noise = (np.ascontiguousarray(matrices[:, i]) for i in range(2))
        out = np.empty((self.n_rows, n_lags))
        fill_autocovariances(propagator, noise, start, extra, out)
        return out

    def mean_square_displacements(self, lags: FloatArray) -> FloatArray:
        (found,) = self._at_times(_msd_program, lags)
        return found


def autocovariances_at(
    hypothesis: Hypothesis, theta: FloatArray, taus: FloatArray, n_lags: int
) -> FloatArray:
    """Compute covariances of steps 0, 1, ... apart, (point, lag), of a one-component model.

    Args:
        hypothesis: Model family and prior.
        theta: Parameters, (point, parameter).
        taus: Sampling time of each point.
        n_lags: Number of lags.
    """
    found = _autocovariances(hypothesis, theta, taus, n_lags)
    return np.ascontiguousarray(found[:, 0, :n_lags], dtype=np.float64)


def _autocovariances(
    hypothesis: Hypothesis, theta: FloatArray, taus: FloatArray, n_lags: int
) -> NDArray[Any]:
    """Compute covariances of all components, for as many lags as the program has."""
    # More lags than any program has get their own program.
    n_program = max(_program_size(_N_LAGS, n_lags), n_lags)
    program = _autocovariance_program(n_program)
    size = max(min(_program_size(_N_POINTS, len(theta)), _MAX_COVARIANCES // n_program), 8)
    return _by_points(program, hypothesis, size, theta, taus)[0]


def finish(
    hypothesis: Hypothesis, theta: FloatArray, sums: Sums, engine: Engine
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Compute ln p(D | θ), and n, log-determinant and quadratic form of its Gaussian terms.

    Args:
        hypothesis: Model family and prior.
        theta: Parameters, (point, parameter).
        sums: Sums of the engine for the rows of these points.
        engine: The data.
    """
    n_points, n_slots = len(theta), len(sums.n)
    size = _program_size(_N_SLOTS, n_slots)
    at_once = _program_size(_N_POINTS, n_points) if size == 1 else _N_POINTS[0]
    n_components = len(sums.log_det) // n_points
    program = _finish_program(engine.n_dim, engine.context.is_lonlat)
    total = np.zeros((4, n_points))
    for low in range(0, n_slots, size):
        part = slice(low, low + size)
        shape = (n_points, n_components)
        log_det, products, excess = (
            _pad(array[:, part].reshape(*shape, -1, *array.shape[2:]), size, axis=2)
            for array in (sums.log_det, sums.products, sums.excess)
        )
        n = np.broadcast_to(_pad(sums.n[part], size, axis=0), (n_points, size))
        arrays = (theta, n, log_det, products, excess)
        found = _by_points(program, hypothesis, at_once, *arrays, shared=_location(engine))
        total += np.stack(found)
    return total[0], total[1], total[2], total[3]


def _location(engine: Engine) -> tuple[Any, ...]:
    """Return the numbers about the data that are the same at all points."""
    context = engine.context
    return context.centre, np.asarray(context.turning), np.asarray(engine.tau)


def derived(hypothesis: Hypothesis, theta: FloatArray, engine: Engine) -> dict[str, float]:
    """Compute the derived quantities of a model from one θ and the sums of all data."""
    sums = engine.sums(Rows(hypothesis, theta[None]))
    program = _derived_program(hypothesis.family, engine.n_dim, engine.context.is_lonlat)
    point = (theta, sums.n[0], sums.log_det[:, 0], sums.products[:, 0], sums.excess[:, 0])
    found = program(_fixed_values(hypothesis), point, _location(engine))
    return {name: float(value) for name, value in found.items()}


def evaluate(
    hypothesis: Hypothesis,
    theta: FloatArray,
    of: Callable[..., tuple[Any, ...]],
    *arrays: FloatArray,
) -> tuple[NDArray[Any], ...]:
    """Evaluate a function of the model at each θ, the first axis of every result.

    Args:
        hypothesis: Model family and prior.
        theta: Parameters, (point, parameter).
        of: A long-lived function, since compiled programs are cached by it.
        *arrays: Further arguments of the function, one value per point, for example a duration.
    """
    return _by_points(_model_program(of), hypothesis, _N_POINTS[0], theta, *arrays)


def evaluate_with_sums(
    hypothesis: Hypothesis,
    theta: FloatArray,
    engine: Engine,
    of: Callable[[AbstractModel, Collected], tuple[Any, ...]],
) -> tuple[NDArray[Any], ...]:
    """Evaluate a function of the model and of the sums of all data at each θ.

    Args:
        hypothesis: Model family and prior, without classes.
        theta: Parameters, (point, parameter).
        engine: The data.
        of: A long-lived function.
    """
    with np.errstate(all="ignore"):
        sums = engine.sums(Rows(hypothesis, theta))
    n = np.broadcast_to(sums.n[0], len(theta))
    # With one slot and one component, the axis of slots stands for that of components.
    parts = (sums.log_det, sums.products, sums.excess)
    program = _sums_program(of, engine.n_dim, engine.context.is_lonlat)
    arrays = (theta, n, *parts)
    return _by_points(program, hypothesis, _N_POINTS[0], *arrays, shared=_location(engine))


def trajectory_numbers(model: AbstractModel) -> tuple[Any, ...]:
    """Return the trajectory numbers of a model; all callers share one compiled program."""
    return model.trajectory_numbers()


def _program_size(sizes: tuple[int, ...], n: int) -> int:
    """Return the smallest size that suffices, or the largest."""
    return next((size for size in sizes if size >= n), sizes[-1])


def _pad(array: NDArray[Any], size: int, axis: int) -> NDArray[Any]:
    """Pad an axis with zeros to a size."""
    missing = size - array.shape[axis]
    if not missing:
        return array
    return np.pad(array, [(0, missing if i == axis else 0) for i in range(array.ndim)])


def _fixed_values(hypothesis: Hypothesis) -> FloatArray:
    """Return the values of the known parameters."""
    return np.array(list(hypothesis.fixed.values()), dtype=np.float64)


# Threads of the engines do not inherit the precision of the thread that started them.
@in_double_precision
def _by_points(
    make: Callable[[Any], Callable[..., Any]],
    hypothesis: Hypothesis,
    size: int,
    *arrays: NDArray[Any],
    shared: tuple[Any, ...] = (),
) -> tuple[NDArray[Any], ...]:
    """Run a program on `size` points at a time, along the first axis of the arrays."""
    program, fixed = make(hypothesis.family), _fixed_values(hypothesis)
    pieces = []
    with jax.default_device(_cpu()):
        for low in range(0, len(arrays[0]), size):
            parts = [array[low : low + size] for array in arrays]
            n = len(parts[0])
            if n < size:
                parts = [
                    np.concatenate([part, np.repeat(part[-1:], size - n, axis=0)]) for part in parts
                ]
            found = program(fixed, parts, shared)
            pieces.append([np.asarray(part)[:n] for part in found])
    if len(pieces) == 1:
        return tuple(pieces[0])
    return tuple(np.concatenate(part) for part in zip(*pieces, strict=True))


@cache
def _cpu() -> Any:
    """Return the processor, which evaluates formulas even if there is a GPU."""
    return jax.local_devices(backend="cpu")[0]


def _program(at: Callable[..., Any]) -> Callable[[Any], Callable[..., Any]]:
    """Compile at(model, *point, *shared), mapped over θ and other arrays; cached by family."""

    @lru_cache(maxsize=256)
    def make(family: Family) -> Callable[..., Any]:
        def run(fixed: Any, arrays: list[Any], shared: tuple[Any, ...]) -> Any:
            def at_point(theta: Any, *point: Any) -> Any:
                return at(family.at(fixed, theta), *point, *shared)

            return jax.vmap(at_point)(*arrays)

        return jax.jit(run)

    return make


def _stack(values: list[Any]) -> Any:
    """Stack the results of several components."""
    return jax.tree.map(lambda *leaves: jnp.stack([jnp.asarray(leaf) for leaf in leaves]), *values)


@_program
def _state_space_program(model: AbstractModel) -> Any:
    """Compute initial covariance, error variance and tails; also F and D if the model has them."""

    def of(model: AbstractModel) -> Any:
        start = model.engine_start() if model.has_state_space else jnp.zeros((1, 1))
        tails = (model.tail_weight(), *model.outlier_law())
        known = (
            start,
            jnp.asarray(model.fix_variance(), dtype=jnp.float64),
            jnp.stack([jnp.asarray(x, dtype=jnp.float64) for x in tails]),
        )
        moves = model.has_state_space and model.moves_by_generator
        return (*known, *model.generator()) if moves else known

    return _stack([of(part) for part in model.components()])


@_program
def _transition_program(model: AbstractModel, interval: Any) -> Any:
    """Compute A and Q of every component over an interval."""
    return _stack([part.engine_transition(interval) for part in model.components()])


@_program
def _msd_program(model: AbstractModel, lag: Any) -> Any:
    """Compute the mean square displacement of every component after a lag."""
    parts = model.components()
    return (jnp.stack([part.mean_square_displacement(lag) for part in parts]),)


@cache
def _autocovariance_program(n_lags: int) -> Callable[[Any], Callable[..., Any]]:
    """Make the program for covariances of steps at this many lags."""

    @_program
    def program(model: AbstractModel, tau: Any) -> Any:
        parts = model.components()
        return (jnp.stack([part.engine_autocovariances(n_lags, tau) for part in parts]),)

    return program


def _collect(
    sums: tuple[Any, ...], where: tuple[Any, ...], n_dim: int, *, is_lonlat: bool
) -> Collected:
    """Collect the sums n, log_det, products and excess with the location of the data."""
    n, log_det, products, excess = sums
    centre, turning, tau = where
    parts = tuple(ChannelTerms(n, log_det[c], products[c], n_dim) for c in range(log_det.shape[0]))
    return Collected(parts, excess[0], centre, turning, tau, is_lonlat)


@cache
def _finish_program(n_dim: int, is_lonlat: bool) -> Callable[[Any], Callable[..., Any]]:  # noqa: FBT001
    """Make the program for ln p(D | θ) and its Gaussian terms from the sums of all slots."""

    @_program
    def program(model: AbstractModel, *given: Any) -> Any:
        sums, where = given[:4], given[4:]

        def slot(*sums: Any) -> Any:
            seen = _collect(sums, where, n_dim, is_lonlat=is_lonlat)
            terms = model.terms(seen)
            return model.log_density(seen), terms.n, terms.log_det, terms.quadratic

        found = jax.vmap(slot, in_axes=(0, 1, 1, 1))(*sums)
        return jax.tree.map(jnp.sum, found)

    return program


_model_program = lru_cache(maxsize=256)(_program)


@lru_cache(maxsize=256)
def _sums_program(
    of: Callable[..., Any],
    n_dim: int,
    is_lonlat: bool,  # noqa: FBT001
) -> Callable[[Any], Callable[..., Any]]:
    """Make the program for a function of the model and the sums of all data."""

    @_program
    def program(model: AbstractModel, *given: Any) -> Any:
        return of(model, _collect(given[:4], given[4:], n_dim, is_lonlat=is_lonlat))

    return program


@lru_cache(maxsize=256)
def _derived_program(family: Family, n_dim: int, is_lonlat: bool) -> Callable[..., Any]:  # noqa: FBT001
    """Compile the derived quantities of a family."""

    def run(fixed: Any, point: tuple[Any, ...], where: tuple[Any, ...]) -> Any:
        theta, *sums = point
        seen = _collect(tuple(sums), where, n_dim, is_lonlat=is_lonlat)
        return family.at(fixed, theta).derived(seen)

    return jax.jit(run)


@lru_cache(maxsize=256)
def _n_components(family: Family) -> int:
    """Count the components of a family."""
    return _size(family, lambda parts: jnp.zeros(len(parts)))


@lru_cache(maxsize=256)
def _n_state(family: Family) -> int:
    """Return the dimension of the state of a component."""
    return _size(family, lambda parts: parts[0].engine_start()[0])


def _size(family: Family, of: Callable[[Any], Any]) -> int:
    """Return the length of an array computed from the components, without computing it."""
    n_fixed = len(family.fixed)
    sizes = (n_fixed, len(family.model.parameters) - n_fixed)

    def run(fixed: Any, theta: Any) -> Any:
        return of(family.at(fixed, theta).components())

    found = jax.eval_shape(run, *(jax.ShapeDtypeStruct((n,), jnp.float64) for n in sizes))
    return int(found.shape[0])
