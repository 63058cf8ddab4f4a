"""Likelihoods of a stochastic differential equation at many parameter values."""

import os
from abc import abstractmethod
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from driftbayes._jax_typing import Key
from driftbayes._typing import FloatArray
from driftbayes.inference._log_sums import logsumexp
from driftbayes.likelihood._direct import DirectDisplacements
from driftbayes.models import AbstractModel
from driftbayes.sde._ensemble import ensemble_log_likelihood
from driftbayes.sde._filter import Filter, log_likelihood
from driftbayes.sde._kalman import kalman_log_likelihood
from driftbayes.sde._lookahead import FilterInputs
from driftbayes.sde._model import SDE
from driftbayes.sde._tracks import Tracks, make_tracks

# Largest number of elements of one array in a compiled program: more do not fit in the cache.
_MAX_ELEMENTS = 1 << 15
_MAX_POINTS = 16
_DEFAULT_FILTER = Filter()
# Full optimisation takes longer to compile and does not speed up these loops.
_COMPILER_OPTIONS: Any = {"xla_backend_optimization_level": 1}


def _compiled(log_likelihood: Callable[..., Array], **options: Any) -> Callable[..., Array]:
    """Compile a filter for many parameter values, each with its own random key."""

    @partial(jax.jit, static_argnums=(0, 1), **options)
    def block(
        model: AbstractModel, config: Any, values: Any, steps: Any, tracks: Tracks, keys: Key
    ) -> Array:
        def evaluate(values: Any, key: Key) -> Array:
            valued = model(**values)
            sde = valued.motion()
            assert isinstance(sde, SDE)
            variance = jnp.asarray(valued.fix_variance(), dtype=float)
            inputs = FilterInputs(sde.theta(), variance, *steps)
            return log_likelihood(sde.law, config, inputs, tracks, key)

        return jax.vmap(evaluate)(values, keys)

    return block


_particle_block = _compiled(log_likelihood, compiler_options=_COMPILER_OPTIONS)
_kalman_block = _compiled(
    lambda law, _, inputs, tracks, __: kalman_log_likelihood(law, inputs, tracks),
    compiler_options=_COMPILER_OPTIONS,
)
_ensemble_block = _compiled(ensemble_log_likelihood)


class _AbstractDensity(DirectDisplacements):
    """Data of an SDE, with log-likelihoods at many parameter values."""

    @cached_property
    def tracks(self) -> tuple[Tracks, ...]:
        """Runs, arranged in blocks."""
        return make_tracks(self.data)

    def log_densities(self, model: AbstractModel, values: Mapping[str, FloatArray]) -> FloatArray:
        """Return the log-likelihood of the data at each parameter value."""
        return self.by_run(model, values).sum(axis=1)

    def by_run(self, model: AbstractModel, values: Mapping[str, FloatArray]) -> FloatArray:
        """Return the log-likelihood of each run, (point, run); runs that pad a block give 0."""
        repeats = self._repeats
        n = repeats * len(next(iter(values.values())))
        size = self._size
        starts = range(0, n, size)
        columns = {
            key: np.repeat(np.asarray(column, dtype=np.float64), repeats)
            for key, column in values.items()
        }

        def compute(task: tuple[int, Tracks]) -> FloatArray:
            first, tracks = task
            # The last part is padded with the last point.
            numbers = np.minimum(np.arange(first, first + size), n - 1)
            part = {key: column[numbers] for key, column in columns.items()}
            with jax.enable_x64(True):  # noqa: FBT003
                return np.asarray(self._block(model, part, numbers, tracks))

        tasks = [(first, tracks) for tracks in self.tracks for first in starts]
        results = [compute(tasks[0])]
        if len(tasks) > 1:
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                results += pool.map(compute, tasks[1:])
        per_block = [
            np.concatenate(results[i : i + len(starts)])[:n]
            for i in range(0, len(tasks), len(starts))
        ]
        log_l = np.concatenate(per_block, axis=1)
        if repeats == 1:
            return log_l
        return logsumexp(log_l.reshape(-1, repeats, log_l.shape[1]), axis=1) - np.log(repeats)

    @cached_property
    def _size(self) -> int:
        """Number of points per compiled program, a power of two; fewer are padded."""
        n_elements = max(tracks.origin.size * self._particles for tracks in self.tracks)
        limit = int(np.clip(_MAX_ELEMENTS // n_elements, 1, _MAX_POINTS))
        return 2 ** int(np.log2(limit))

    @property
    def _particles(self) -> int:
        """Number of particles or members per run."""
        return 1

    @property
    def _repeats(self) -> int:
        """Number of filters whose estimates are averaged."""
        return 1

    @abstractmethod
    def _block(
        self, model: AbstractModel, values: dict[str, FloatArray], numbers: Any, tracks: Tracks
    ) -> Array:
        """Return the log-likelihood of each run at each point of a block."""


@dataclass(frozen=True, eq=False)
class KalmanDensity(_AbstractDensity):
    """Approximation by the extended Kalman filter.

    Args:
        data: Displacements.
        substeps: Substeps between two fixes.
    """

    substeps: int = 4

    def _block(
        self, model: AbstractModel, values: dict[str, FloatArray], numbers: Any, tracks: Tracks
    ) -> Array:
        steps = (jnp.asarray(self.substeps),)
        # The filter draws no random numbers, so numbers take the place of keys.
        return _kalman_block(model, None, values, steps, tracks, numbers)


@dataclass(frozen=True, eq=False)
class ParticleDensity(_AbstractDensity):
    """Unbiased estimates by a particle filter.

    Args:
        data: Displacements.
        particle_filter: Configuration of the filter.
        substeps: Substeps between two fixes.
        seed: Random seed. Every point has its own random numbers, unless `common`.
        common: Whether all points share their random numbers (common random numbers), which
            reduces the noise of differences of ln L between neighbouring parameter values.
        repeats: Number of independent filters whose estimates are averaged, run by run. Where the
            variance of a run's ln L is small, this is as accurate as multiplying the number of
            particles, and compiles no new program.
        paired: Whether the random numbers are those of twice as many substeps, which reduces the
            noise of the change of ln L when the substeps are doubled.
    """

    particle_filter: Filter = _DEFAULT_FILTER
    substeps: int = 4
    seed: int = 0
    common: bool = False
    repeats: int = 1
    paired: bool = False

    @property
    def _particles(self) -> int:
        return self.particle_filter.particles

    @property
    def _repeats(self) -> int:
        return self.repeats

    def _block(
        self, model: AbstractModel, values: dict[str, FloatArray], numbers: Any, tracks: Tracks
    ) -> Array:
        keys = _keys(self.seed, numbers % self.repeats if self.common else numbers)
        steps = (jnp.asarray(self.substeps), jnp.asarray(self.paired))
        return _particle_block(model, self.particle_filter, values, steps, tracks, keys)


@dataclass(frozen=True, eq=False)
class EnsembleDensity(_AbstractDensity):
    """Approximation by the ensemble Kalman filter; biased, unlike a particle filter.

    With 2048 members and 96 coordinates of exact fixes, ln L of a linear equation is too low by
    about 0.1 and has a standard deviation of 0.4. The bias vanishes as members are added.

    Args:
        data: Displacements.
        members: Number of members per ensemble.
        substeps: Substeps between two fixes.
        seed: Random seed.
    """

    members: int = 2048
    substeps: int = 4
    seed: int = 0

    @property
    def _particles(self) -> int:
        return self.members

    def _block(
        self, model: AbstractModel, values: dict[str, FloatArray], numbers: Any, tracks: Tracks
    ) -> Array:
        steps, keys = (jnp.asarray(self.substeps),), _keys(self.seed, numbers)
        return _ensemble_block(model, self.members, values, steps, tracks, keys)


def _keys(seed: int, numbers: Any) -> Key:
    """Return a random key for each number."""
    return jax.vmap(partial(jax.random.fold_in, jax.random.key(seed)))(jnp.asarray(numbers))
