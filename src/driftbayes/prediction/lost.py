"""Where lost particles are, from those that are still seen."""

__all__ = ["LostForecast", "LostParticles", "Region", "find_lost", "predict_lost"]

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import jax
import numpy as np
from numpy.typing import ArrayLike

from driftbayes.data.sampling import Displacements, displacements
from driftbayes.data.tangent import ground_of, last_fixes, rotated
from driftbayes.data.trajectories import GRID_TOLERANCE, Trajectories
from driftbayes.data.units import readable
from driftbayes.errors import DriftbayesError
from driftbayes.inference import PosteriorDraws
from driftbayes.kernels.compiled import run_in_threads
from driftbayes.magnitudes import whole
from driftbayes.models import AbstractModel
from driftbayes.precision import in_double_precision
from driftbayes.prediction.conditional import paths_of_lost, shared_motion
from driftbayes.prediction.forecast import Forecast, ParticleForecast, draw_members, philox
from driftbayes.prediction.predict import checked_horizons
from driftbayes.prediction.simultaneous import SimultaneousSteps, simultaneous_steps
from driftbayes.typing import FloatArray, IntArray

# Parameter values at which paths are drawn: for each, all velocities are filtered and sampled.
_MAX_VALUES = 100
# Entries of the matrices that are kept between the filter and the sampling.
_MAX_ENTRIES = 2e8
# Shares of the paths in the inner and the outer region.
SHARES = (0.5, 0.95)


@dataclass(frozen=True, eq=False)
class Region:
    """Ellipses that hold 50 % and 95 % of the paths, with their covariance as shape.

    Args:
        mean: Mean position.
        covariance: Of the positions.
        scales: Semi-axes of the ellipse of 50 % and of 95 %, in standard deviations.
    """

    mean: FloatArray
    covariance: FloatArray
    scales: FloatArray

    @classmethod
    def of(cls, points: FloatArray) -> "Region":
        """Region of points, (point, axis)."""
        mean = points.mean(axis=0)
        covariance = np.atleast_2d(np.cov(points.T))
        away = _mahalanobis(points, mean, covariance)
        return cls(mean, covariance, np.quantile(away, SHARES))

    @property
    def radii(self) -> FloatArray:
        """Radius of a circle (sphere, half an interval) as large as each ellipse."""
        size = float(np.linalg.det(self.covariance)) ** (0.5 / len(self.mean))
        return self.scales * size

    def contains(self, point: ArrayLike) -> np.ndarray:
        """Whether a point is in each of the ellipses."""
        away = _mahalanobis(np.asarray(point, float)[None], self.mean, self.covariance)
        return np.asarray(away <= self.scales)

    def to_json(self) -> dict[str, Any]:
        """The region as plain numbers."""
        inner, outer = self.radii.tolist()
        return {
            "mean": self.mean.tolist(),
            "covariance": self.covariance.tolist(),
            "scales": dict(zip(("0.5", "0.95"), self.scales.tolist(), strict=True)),
            "radius_50": inner,
            "radius_95": outer,
        }


def _mahalanobis(points: FloatArray, mean: FloatArray, covariance: FloatArray) -> FloatArray:
    left = points - mean
    return np.sqrt(np.sum(left * np.linalg.solve(covariance, left.T).T, axis=1))


@dataclass(frozen=True, eq=False)
class LostParticles:
    """Possible paths of the particles that were lost, with and without those still seen.

    Both use the same posterior draws. Without the others, only the particle's own past counts.

    Args:
        given: Paths given the steps of all other particles, until these end.
        alone: Paths from the particle's own past.
        n_seen: How many others are still seen, (particle, time).
        left_out: Names of lost particles of which the last position stands alone.
    """

    given: ParticleForecast
    alone: ParticleForecast
    n_seen: IntArray
    left_out: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Number of particles and paths."""
        n_paths, n = self.given.positions.shape[:2]
        return f"<LostParticles: {n_paths:,} paths each of {n} lost particles>"

    @cached_property
    def regions(self) -> dict[str, list[list[Region]]]:
        """Regions by particle and horizon, "given" the others and "alone"."""
        return {
            name: [
                [Region.of(own[:, i]) for i in range(1, own.shape[1])]
                for own in np.moveaxis(forecast.positions, 1, 0)
            ]
            for name, forecast in (("given", self.given), ("alone", self.alone))
        }

    @cached_property
    def mean_lonlat(self) -> FloatArray | None:
        """Longitude and latitude of mean positions given the others, (particle, horizon, 2)."""
        if self.given.fixes is None:
            return None
        return self.given.fixes.lay(self.given.positions[:, :, 1:].mean(axis=0)[None])[0]

    def to_json(self) -> list[dict[str, Any]]:
        """Regions of each particle as plain numbers."""
        result = []
        for p, name in enumerate(self.given.ids):
            times = []
            for i, horizon in enumerate(self.given.horizons[1:]):
                given, alone = (self.regions[key][p][i] for key in ("given", "alone"))
                row: dict[str, Any] = {
                    "horizon": float(horizon),
                    "time": float(self.given.last_times[p] + horizon),
                    "n_seen": int(self.n_seen[p, i]),
                    "given_others": given.to_json(),
                    "alone": alone.to_json(),
                    "radius_ratio": float(given.radii[1] / alone.radii[1]),
                }
                if self.mean_lonlat is not None:
                    row["given_others"]["lonlat"] = self.mean_lonlat[p, i].tolist()
                times.append(row)
            last = float(self.given.last_times[p])
            result.append({"id": str(name), "last_time": last, "horizons": times})
        return result


@dataclass(frozen=True, eq=False)
class LostForecast(Forecast):
    """A forecast with the places of lost particles, given those still seen.

    Args:
        lost: Paths of the lost particles.
    """

    lost: LostParticles = field(kw_only=True)

    def __repr__(self) -> str:
        """Models, horizons, and the lost particles."""
        return f"{super().__repr__()[:-1]}; {self.lost!r}>"

    def particles(self, n_members: int = 100) -> ParticleForecast:
        """Ensemble of paths of the lost particles, given the others.

        Args:
            n_members: Members per particle, at most as many as were drawn.
        """
        whole_set = self.lost.given
        n = min(whole(n_members, "n_members", 1), len(whole_set.positions))
        # Spread over the posterior draws, of which each has paths in a row.
        chosen = np.linspace(0, len(whole_set.positions) - 1, n).round().astype(np.int64)
        models = tuple(whole_set.models[i] for i in chosen)
        return replace(whole_set, positions=whole_set.positions[chosen], models=models)

    def to_json(self) -> dict[str, Any]:
        """The prediction as plain numbers and text."""
        return {**super().to_json(), "given": "others", "lost": self.lost.to_json()}


@in_double_precision
def predict_lost(
    draws_by_model: Sequence[PosteriorDraws],
    trajectories: Trajectories,
    horizons: ArrayLike,
    *,
    tau: float | None,
    n_paths: int = 1000,
    probabilities: Sequence[float] | None = None,
    seed: int = 0,
) -> LostParticles:
    """Where particles are that were lost, given those that are still seen.

    A particle is lost if its last position at a multiple of tau is earlier than that of another.
    Paths are drawn exactly (`prediction/conditional.py`) at up to 100 posterior draws.

    Args:
        draws_by_model: Posterior draws of each model, with shared motion.
        trajectories: Where the particles were.
        horizons: Times since each particle's last position, multiples of tau.
        tau: Sampling time of the draws.
        n_paths: Number of paths of each particle.
        probabilities: Weights of the models, as for `predict`.
        seed: Key of the random numbers.

    Raises:
        DriftbayesError: No particle is lost, a horizon is not a multiple of tau, or the models
            have no shared motion.
    """
    n_paths = whole(n_paths, "n_paths", 3)
    found = find_lost((d.hypothesis.model for d in draws_by_model), trajectories, horizons, tau)
    data, steps, runs, counts = found.data, found.steps, found.runs, found.counts
    n_values = min(n_paths, _MAX_VALUES)
    members = draw_members(draws_by_model, probabilities, n_values, seed)
    with jax.enable_x64(True):  # noqa: FBT003
        motions = [shared_motion(member, data.tau, data.period) for member in members]
    each = [len(part) for part in np.array_split(np.arange(n_paths), n_values)]
    alone = [[step.only(run) for step in steps if run in step.runs] for run in runs]

    def paths(i: int) -> tuple[FloatArray, FloatArray]:
        rng = np.random.Generator(philox(seed, i))
        how = (int(counts[-1]), rng, each[i])
        given = paths_of_lost(motions[i], steps, runs, *how)
        own = [
            paths_of_lost(motions[i], some, [run], *how)
            for some, run in zip(alone, runs, strict=True)
        ]
        return given[:, :, counts], np.concatenate(own, axis=1)[:, :, counts]

    drawn = run_in_threads(paths, [(i,) for i in range(n_values)])
    both = [np.concatenate(part) for part in zip(*drawn, strict=True)]
    models = tuple(name for i, n in enumerate(each) for name in [members[i].name] * n)
    given, own = (_forecast(part, trajectories, found, models) for part in both)
    present = {step.time: len(step.runs) for step in steps}
    ends = [max(step.time for step in steps if run in step.runs) + 1 for run in runs]
    # Seen at the end of the step that leads to each time.
    n_seen = np.array([[present.get(end + n - 1, 0) for n in counts[1:]] for end in ends])
    return LostParticles(given, own, n_seen, found.left_out)


@dataclass(frozen=True, eq=False)
class Lost:
    """Which particles were lost, and what is known of the others.

    Args:
        data: Displacements of all particles.
        steps: The same by time.
        runs: Numbers of the last runs of the lost particles.
        left_out: Names of lost particles of which the last position stands alone.
        counts: Number of steps up to each horizon, the first 0.
    """

    data: Displacements
    steps: tuple[SimultaneousSteps, ...]
    runs: list[int]
    left_out: tuple[str, ...]
    counts: IntArray


def find_lost(
    models: Iterable[AbstractModel],
    trajectories: Trajectories,
    horizons: ArrayLike,
    tau: float | None,
) -> Lost:
    """Find the lost particles, or say in one sentence why they cannot be predicted.

    Args:
        models: Families of the models.
        trajectories: Where the particles were.
        horizons: Times since each particle's last position, multiples of tau.
        tau: Sampling time.
    """
    models = list(models)
    _check_shared(models)
    if tau is None:
        msg = "prediction given others needs particles that are seen at common times; give tau"
        raise DriftbayesError(msg)
    data = displacements(trajectories, tau)
    counts = _steps_of(checked_horizons(horizons), data)
    if data.position_sd is not None and np.any(data.position_sd > 0):
        msg = (
            "prediction given others takes exact positions, not measurement errors; leave --noise "
            "and columns of errors out"
        )
        raise DriftbayesError(msg)
    steps = simultaneous_steps(data)
    _check_size(steps, models, data)
    runs, left_out = _lost_runs(trajectories, data, steps)
    return Lost(data, steps, runs, left_out, counts)


def _check_shared(models: Iterable[AbstractModel]) -> None:
    """Refuse models under which other particles tell nothing, or not exactly."""
    for model in models:
        if not model.shares_motion:
            msg = (
                f"under {model.name} particles move independently, so that others tell nothing of "
                "a lost one; choose models with +flow, +eddies or +common"
            )
            raise DriftbayesError(msg)
        if not (model.has_state_space and model.observes_position) or "sigma" in model.parameters:
            msg = (
                f"prediction given others cannot take {model.name}: positions must be exact and "
                "instantaneous, and the model must have a state-space form; leave it out"
            )
            raise DriftbayesError(msg)


def _steps_of(times: FloatArray, data: Displacements) -> IntArray:
    """Number of steps up to each horizon, the first 0."""
    ratio = times[times > 0] / data.tau
    counts = np.round(ratio).astype(np.int64)
    if not len(counts) or np.any(np.abs(ratio - counts) > GRID_TOLERANCE) or counts[0] < 1:
        unit = data.time_unit
        got = ", ".join(readable(time, unit) for time in times)
        msg = (
            f"with others given, horizons must be multiples of tau = {readable(data.tau, unit)}, "
            f"got {got}"
        )
        raise DriftbayesError(msg)
    return np.concatenate([[0], counts])


def _lost_runs(
    trajectories: Trajectories, data: Displacements, steps: Sequence[SimultaneousSteps]
) -> tuple[list[int], tuple[str, ...]]:
    """Last runs of the particles that were lost, and names of those that cannot be followed."""
    end = np.zeros(len(data.row_sizes), dtype=np.int64)
    for step in steps:
        end[step.runs] = step.time + 1
    assert data.start_time is not None
    until = np.asarray(data.start_time) + data.tau * data.row_sizes
    runs, left_out = [], []
    rows = np.flatnonzero(trajectories.observed)
    latest = np.full(trajectories.n_trajectories, -np.inf)
    np.maximum.at(latest, trajectories.trajectory_index[rows], trajectories.times[rows])
    for number in np.unique(data.trajectory):
        own = np.flatnonzero(data.trajectory == number)
        last = int(own[np.argmax(end[own])])
        if end[last] >= end.max():
            continue
        # A later position without a neighbour: the particle was not lost where its run ends.
        if latest[number] - until[last] >= data.tau * (1 - GRID_TOLERANCE):
            left_out.append(str(trajectories.ids[number]))
            continue
        runs.append(last)
    if not runs:
        why = f" but {', '.join(left_out)}, whose last position stands alone" if left_out else ""
        msg = (
            f"no particle is lost{why}: all are seen until the end, so that the others tell "
            "nothing more; predict without --given"
        )
        raise DriftbayesError(msg)
    return runs, tuple(left_out)


def _check_size(
    steps: Sequence[SimultaneousSteps], models: Sequence[AbstractModel], data: Displacements
) -> None:
    """Refuse what would take more memory than is sensible."""
    if all(model.name.startswith("brownian") for model in models):
        return
    axes = data.n_dim if any("divergence" in model.parameters for model in models) else 1
    if sum(2 * (axes * len(step.runs)) ** 2 for step in steps) > _MAX_ENTRIES:
        msg = (
            f"prediction given others of {max(len(step.runs) for step in steps)} particles over "
            f"{len(steps)} steps takes too much memory; choose a longer tau or a part of the data"
        )
        raise DriftbayesError(msg)


def _forecast(
    positions: FloatArray,
    trajectories: Trajectories,
    lost: Lost,
    models: tuple[str, ...],
) -> ParticleForecast:
    """Paths on the plane of each trajectory."""
    data, runs = lost.data, lost.runs
    assert data.start_row is not None
    assert data.start_time is not None
    numbers = data.trajectory[runs]
    until = np.asarray(data.start_time)[runs] + data.tau * data.row_sizes[runs]
    index = trajectories.trajectory_index
    end = np.full(trajectories.n_trajectories, -np.inf)
    end[numbers] = until + 0.5 * data.tau * GRID_TOLERANCE
    # Until the last position at a multiple of tau; later ones between multiples are not used.
    seen = trajectories.select(trajectories.observed & (trajectories.times <= end[index]))
    last = seen.positions[seen.starts[1:] - 1]
    away = positions - positions[:, :, :1]
    found = None if trajectories.lonlat is None else ground_of(trajectories)
    if found is not None and found[1] is not None:
        angles = np.broadcast_to(found[1][numbers][None, :, None], away.shape[:3])
        away = rotated(away.reshape(-1, 2), -angles.ravel()).reshape(away.shape)
    return ParticleForecast(
        positions=last[None, :, None] + away,
        horizons=np.asarray(lost.counts * data.tau, dtype=np.float64),
        last_times=until,
        ids=trajectories.ids[numbers],
        models=models,
        length_unit=trajectories.length_unit,
        time_unit=trajectories.time_unit,
        fixes=last_fixes(seen),
    )
