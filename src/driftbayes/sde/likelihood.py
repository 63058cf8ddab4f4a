"""Likelihoods of a stochastic differential equation at many parameter values."""

__all__ = ["EnsembleDensity", "KalmanDensity", "ParticleDensity", "given_by"]

import os
from abc import abstractmethod
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from scipy.special import logsumexp

from driftbayes.jax_typing import Key
from driftbayes.likelihood.direct import AbstractDirect
from driftbayes.models import AbstractModel
from driftbayes.sde.ensemble import ensemble_log_likelihood
from driftbayes.sde.filter import Filter, log_likelihood
from driftbayes.sde.foresight import Given
from driftbayes.sde.kalman import kalman_log_likelihood
from driftbayes.sde.model import SDE
from driftbayes.sde.tracks import Tracks, make_tracks
from driftbayes.typing import FloatArray

# Numbers of one kind that a program holds: more do not stay in the processor's cache.
_HELD = 1 << 15
_MAX_POINTS = 16
_USUAL = Filter()
# Full optimisation takes longer to compile and gains nothing in these loops.
_QUICK: Any = {"xla_backend_optimization_level": 1}


def given_by(model: AbstractModel, substeps: Array) -> tuple[SDE, Given]:
    """The equation of a model with values, and what a filter is given of it."""
    sde = model.motion()
    assert isinstance(sde, SDE)
    variance = jnp.asarray(model.fix_variance(), dtype=float)
    return sde, Given(sde.theta(), variance, substeps)


@partial(jax.jit, static_argnums=(0, 1), compiler_options=_QUICK)
def _particle_block(
    model: AbstractModel, how: Filter, values: Any, steps: Any, tracks: Tracks, keys: Key
) -> Array:
    def at(values: Any, key: Key) -> Array:
        sde, given = given_by(model(**values), steps[0])
        return log_likelihood(sde.law, how, given._replace(paired=steps[1]), tracks, key)

    return jax.vmap(at)(values, keys)


@partial(jax.jit, static_argnums=0, compiler_options=_QUICK)
def _kalman_block(model: AbstractModel, values: Any, substeps: Array, tracks: Tracks) -> Array:
    def at(values: Any) -> Array:
        sde, given = given_by(model(**values), substeps)
        return kalman_log_likelihood(sde.law, given, tracks)

    return jax.vmap(at)(values)


@partial(jax.jit, static_argnums=(0, 1))
def _ensemble_block(
    model: AbstractModel, n_members: int, values: Any, substeps: Array, tracks: Tracks, keys: Key
) -> Array:
    def at(values: Any, key: Key) -> Array:
        sde, given = given_by(model(**values), substeps)
        return ensemble_log_likelihood(sde.law, n_members, given, tracks, key)

    return jax.vmap(at)(values, keys)


class _AbstractDensity(AbstractDirect):
    """Data of an SDE, with values of its density at many points."""

    @cached_property
    def tracks(self) -> tuple[Tracks, ...]:
        """Runs in blocks."""
        return make_tracks(self.data)

    def log_densities(self, model: AbstractModel, values: Mapping[str, FloatArray]) -> FloatArray:
        """Ln p of the data, of each value of the parameters."""
        return self.by_run(model, values).sum(axis=1)

    def by_run(self, model: AbstractModel, values: Mapping[str, FloatArray]) -> FloatArray:
        """Ln p of each run, (point, run); runs that fill up a block give 0."""
        repeats = self._repeats
        n = repeats * len(next(iter(values.values())))
        size = self._size
        firsts = range(0, n, size)
        columns = {
            key: np.repeat(np.asarray(column, dtype=np.float64), repeats)
            for key, column in values.items()
        }

        def compute(task: tuple[int, Tracks]) -> FloatArray:
            first, tracks = task
            # The last part is filled up with the last point.
            places = np.minimum(np.arange(first, first + size), n - 1)
            part = {key: column[places] for key, column in columns.items()}
            with jax.enable_x64(True):  # noqa: FBT003
                return np.asarray(self._block(model, part, places, tracks))

        tasks = [(first, tracks) for tracks in self.tracks for first in firsts]
        found = [compute(tasks[0])]
        if len(tasks) > 1:
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                found += pool.map(compute, tasks[1:])
        per_block = [
            np.concatenate(found[i : i + len(firsts)])[:n]
            for i in range(0, len(tasks), len(firsts))
        ]
        each = np.concatenate(per_block, axis=1)
        if repeats == 1:
            return each
        return logsumexp(each.reshape(-1, repeats, each.shape[1]), axis=1) - np.log(repeats)

    @cached_property
    def _size(self) -> int:
        """Points that are computed at once, a power of two; fewer are filled up."""
        held = max(tracks.origin.size * self._particles for tracks in self.tracks)
        limit = int(np.clip(_HELD // held, 1, _MAX_POINTS))
        return 2 ** int(np.log2(limit))

    @property
    def _particles(self) -> int:
        return 1

    @property
    def _repeats(self) -> int:
        return 1

    @abstractmethod
    def _block(
        self, model: AbstractModel, values: dict[str, FloatArray], places: Any, tracks: Tracks
    ) -> Array:
        """Ln p of each run at each of a block of points."""


@dataclass(frozen=True, eq=False)
class KalmanDensity(_AbstractDensity):
    """Approximation by the extended Kalman filter.

    Args:
        data: Displacements.
        substeps: Substeps between two fixes.
    """

    substeps: int = 4

    def _block(
        self, model: AbstractModel, values: dict[str, FloatArray], places: Any, tracks: Tracks
    ) -> Array:
        return _kalman_block(model, values, jnp.asarray(self.substeps), tracks)


@dataclass(frozen=True, eq=False)
class ParticleDensity(_AbstractDensity):
    """Unbiased estimates by a particle filter.

    Args:
        data: Displacements.
        how: The filter.
        substeps: Substeps between two fixes.
        seed: Random seed. Every point has random numbers of its own, unless `common`.
        common: Whether all points share their random numbers: differences of ln L between
            neighbouring parameters are then less noisy than its values.
        repeats: Independent filters whose estimates are averaged, run by run: where a run's ln L
            scatters little, as good as so many times the particles, without another program.
        paired: Whether the random numbers are those of twice as many substeps: the change of ln L
            between both is then less noisy.
    """

    how: Filter = _USUAL
    substeps: int = 4
    seed: int = 0
    common: bool = False
    repeats: int = 1
    paired: bool = False

    @property
    def _particles(self) -> int:
        return self.how.particles

    @property
    def _repeats(self) -> int:
        return self.repeats

    def _block(
        self, model: AbstractModel, values: dict[str, FloatArray], places: Any, tracks: Tracks
    ) -> Array:
        keys = _keys(self.seed, places % self.repeats if self.common else places)
        steps = (jnp.asarray(self.substeps), jnp.asarray(self.paired))
        return _particle_block(model, self.how, values, steps, tracks, keys)


@dataclass(frozen=True, eq=False)
class EnsembleDensity(_AbstractDensity):
    """Approximation by the ensemble Kalman filter: biased, unlike that by particles.

    Of 96 coordinates of exact fixes, 2048 members make ln L too low by about 0.1 and scatter it by
    0.4; both were measured for a linear equation, where more members have no bias.

    Args:
        data: Displacements.
        members: Members of each ensemble.
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
        self, model: AbstractModel, values: dict[str, FloatArray], places: Any, tracks: Tracks
    ) -> Array:
        m = jnp.asarray(self.substeps)
        keys = _keys(self.seed, places)
        return _ensemble_block(model, self.members, values, m, tracks, keys)


def _keys(seed: int, numbers: Any) -> Key:
    """A random key for each number."""
    return jax.vmap(partial(jax.random.fold_in, jax.random.key(seed)))(jnp.asarray(numbers))
