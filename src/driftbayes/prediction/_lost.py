"""Predict the positions of lost particles from those still observed."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from driftbayes._kernels.compiled import run_in_threads
from driftbayes._magnitudes import whole
from driftbayes._typing import FloatArray, IntArray
from driftbayes.data._fixes import last_rows
from driftbayes.data._sampling import Displacements, displacements, evenly_spaced
from driftbayes.data._trajectories import GRID_TOLERANCE, Trajectories
from driftbayes.data._units import readable
from driftbayes.data.tangent import ground_of, last_fixes, rotated
from driftbayes.errors import DriftbayesError
from driftbayes.inference import PosteriorDraws
from driftbayes.models import AbstractModel
from driftbayes.prediction._conditional import paths_of_lost, shared_motion
from driftbayes.prediction._forecast import Forecast, ParticleForecast, draw_members, philox
from driftbayes.prediction._predict import LEVELS, checked_horizons
from driftbayes.prediction._simultaneous import SimultaneousSteps, simultaneous_steps

# Largest number of parameter values: for each, all velocities are filtered and sampled.
_MAX_VALUES = 100
# Largest number of matrix elements kept between filtering and sampling.
_MAX_ENTRIES = 2e8


@dataclass(frozen=True, eq=False)
class Region:
    """Ellipses with 50 % and 95 % of the paths, shaped by their covariance.

    Args:
        mean: Mean position.
        covariance: Covariance of the positions.
        scales: Semi-axes of the 50 % and 95 % ellipses, in standard deviations.
    """

    mean: FloatArray
    covariance: FloatArray
    scales: FloatArray

    @classmethod
    def of(cls, points: FloatArray) -> "Region":
        """Make the region of points, (point, axis)."""
        mean = points.mean(axis=0)
        covariance = np.atleast_2d(np.cov(points.T))
        away = _mahalanobis(points, mean, covariance)
        return cls(mean, covariance, np.quantile(away, LEVELS))

    @property
    def radii(self) -> FloatArray:
        """Radius of the circle (sphere, half-interval) of the same size as each ellipse."""
        size = float(np.linalg.det(self.covariance)) ** (0.5 / len(self.mean))
        return self.scales * size

    def contains(self, point: ArrayLike) -> np.ndarray:
        """Return whether a point is in each ellipse."""
        away = _mahalanobis(np.asarray(point, float)[None], self.mean, self.covariance)
        return np.asarray(away <= self.scales)

    def to_json(self) -> dict[str, Any]:
        """Return the region as plain numbers."""
        inner, outer = self.radii.tolist()
        return {
            "mean": self.mean.tolist(),
            "covariance": self.covariance.tolist(),
            "scales": dict(zip(map(str, LEVELS), self.scales.tolist(), strict=True)),
            "radius_50": inner,
            "radius_95": outer,
        }


def _mahalanobis(points: FloatArray, mean: FloatArray, covariance: FloatArray) -> FloatArray:
    deviations = points - mean
    return np.sqrt(np.sum(deviations * np.linalg.solve(covariance, deviations.T).T, axis=1))


@dataclass(frozen=True, eq=False)
class LostParticles:
    """Predicted paths of lost particles, with and without conditioning on the observed ones.

    Both use the same posterior draws.

    Args:
        given: Paths conditional on the steps of all other particles.
        alone: Paths conditional on the particle's own past only.
        n_seen: Number of other particles still observed, (particle, time).
        left_out: Names of lost particles whose last position is isolated.
    """

    given: ParticleForecast
    alone: ParticleForecast
    n_seen: IntArray
    left_out: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Return the number of particles and paths."""
        n_paths, n = self.given.positions.shape[:2]
        return f"<LostParticles: {n_paths:,} paths each of {n} lost particles>"

    @cached_property
    def regions(self) -> dict[str, list[list[Region]]]:
        """Regions by particle and horizon, conditional on the others ("given") and "alone"."""
        return {
            name: [
                [Region.of(positions[:, i]) for i in range(1, positions.shape[1])]
                for positions in np.moveaxis(forecast.positions, 1, 0)
            ]
            for name, forecast in (("given", self.given), ("alone", self.alone))
        }

    @cached_property
    def mean_lonlat(self) -> FloatArray | None:
        """Longitude and latitude of the conditional mean positions, (particle, horizon, 2)."""
        if self.given.fixes is None:
            return None
        return self.given.fixes.to_lonlat(self.given.positions[:, :, 1:].mean(axis=0)[None])[0]

    def to_json(self) -> list[dict[str, Any]]:
        """Return the regions of each particle as plain numbers."""
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


@dataclass(frozen=True, eq=False, repr=False)
class LostForecast(Forecast):
    """A forecast with the positions of lost particles, conditional on the observed ones.

    Args:
        lost: Paths of the lost particles.
    """

    lost: LostParticles = field(kw_only=True)

    def particles(self, n_members: int = 100) -> ParticleForecast:
        """Return an ensemble of paths of the lost particles, conditional on the others.

        Args:
            n_members: Number of members per particle, at most the number drawn.
        """
        whole_set = self.lost.given
        # Spread over the posterior draws, whose paths are contiguous.
        chosen = evenly_spaced(len(whole_set.positions), whole(n_members, "n_members", 1))
        models = tuple(whole_set.models[i] for i in chosen)
        return replace(whole_set, positions=whole_set.positions[chosen], models=models)

    def to_json(self) -> dict[str, Any]:
        """Return the prediction as plain numbers and text."""
        return {**super().to_json(), "given": "others", "lost": self.lost.to_json()}


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
    """Predict the positions of lost particles, conditional on those still observed.

    A particle is lost if its last position at a multiple of tau is earlier than that of another.
    Paths are drawn exactly (`prediction/_conditional.py`) at up to 100 posterior draws.

    Args:
        draws_by_model: Posterior draws of each model, with shared motion.
        trajectories: Trajectories.
        horizons: Times since each particle's last position, multiples of tau.
        tau: Sampling time of the draws.
        n_paths: Number of paths per particle.
        probabilities: Weights of the models, as for `predict`.
        seed: Random seed.

    Raises:
        DriftbayesError: No particle is lost, a horizon is not a multiple of tau, or the models
            have no shared motion.
    """
    n_paths = whole(n_paths, "n_paths", 3)
    lost = find_lost((d.hypothesis.model for d in draws_by_model), trajectories, horizons, tau)
    data, steps, runs, counts = lost.data, lost.steps, lost.runs, lost.counts
    n_values = min(n_paths, _MAX_VALUES)
    members = draw_members(draws_by_model, probabilities, n_values, seed)
    motions = [shared_motion(member, data.tau, data.period) for member in members]
    n_per_value = [len(part) for part in np.array_split(np.arange(n_paths), n_values)]
    own_steps = [[step.only(run) for step in steps if run in step.runs] for run in runs]

    def paths(i: int) -> tuple[FloatArray, FloatArray]:
        rng = np.random.Generator(philox(seed, i))
        options = (int(counts[-1]), rng, n_per_value[i])
        conditional = paths_of_lost(motions[i], steps, runs, *options)
        unconditional = [
            paths_of_lost(motions[i], own_run_steps, [run], *options)
            for own_run_steps, run in zip(own_steps, runs, strict=True)
        ]
        return conditional[:, :, counts], np.concatenate(unconditional, axis=1)[:, :, counts]

    drawn = run_in_threads(paths, [(i,) for i in range(n_values)])
    drawn_paths = [np.concatenate(part) for part in zip(*drawn, strict=True)]
    models = tuple(name for i, n in enumerate(n_per_value) for name in [members[i].name] * n)
    given, own = (_forecast(part, trajectories, lost, models) for part in drawn_paths)
    present = {step.time: len(step.runs) for step in steps}
    ends = [max(step.time for step in steps if run in step.runs) + 1 for run in runs]
    # Observed at the end of the step that leads to each time.
    n_seen = np.array([[present.get(end + n - 1, 0) for n in counts[1:]] for end in ends])
    return LostParticles(given, own, n_seen, lost.left_out)


@dataclass(frozen=True, eq=False)
class Lost:
    """Lost particles, and the steps of all particles.

    Args:
        data: Displacements of all particles.
        steps: Displacements ordered by time.
        runs: Numbers of the last runs of the lost particles.
        left_out: Names of lost particles whose last position is isolated.
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
    """Find the lost particles, or raise an error if they cannot be predicted.

    Args:
        models: Families of the models.
        trajectories: Trajectories.
        horizons: Times since each particle's last position, multiples of tau.
        tau: Sampling time.
    """
    models = list(models)
    _check_shared(models)
    if tau is None:
        msg = "prediction given others needs particles observed at common times; give tau"
        raise DriftbayesError(msg)
    data = displacements(trajectories, tau)
    counts = _steps_of(checked_horizons(horizons), data)
    if data.position_sd is not None and np.any(data.position_sd > 0):
        raise DriftbayesError(
            "prediction given others needs exact positions, without measurement errors; omit "
            "--noise and columns of errors"
        )
    steps = simultaneous_steps(data)
    _check_size(steps, models, data)
    runs, left_out = _lost_runs(trajectories, data, steps)
    return Lost(data, steps, runs, left_out, counts)


def _check_shared(models: Iterable[AbstractModel]) -> None:
    """Check that particles depend on each other under the models, in an exact form."""
    for model in models:
        if not model.shares_motion:
            raise DriftbayesError(
                f"particles are independent under {model.name}, so others carry no information "
                "on a lost one; choose models with +flow, +eddies or +common"
            )
        if not (model.has_state_space and model.observes_position) or "sigma" in model.parameters:
            raise DriftbayesError(
                f"prediction given others cannot take {model.name}: positions must be exact and "
                "instantaneous, and the model must have a state-space form; omit it"
            )


def _steps_of(times: FloatArray, data: Displacements) -> IntArray:
    """Return the number of steps up to each horizon, the first 0."""
    ratio = times[times > 0] / data.tau
    counts = np.round(ratio).astype(np.int64)
    if not len(counts) or np.any(np.abs(ratio - counts) > GRID_TOLERANCE) or counts[0] < 1:
        unit = data.time_unit
        got = ", ".join(readable(time, unit) for time in times)
        raise DriftbayesError(
            f"with others given, horizons must be multiples of tau = {readable(data.tau, unit)}, "
            f"got {got}"
        )
    return np.concatenate([[0], counts])


def _lost_runs(
    trajectories: Trajectories, data: Displacements, steps: Sequence[SimultaneousSteps]
) -> tuple[list[int], tuple[str, ...]]:
    """Return the last runs of lost particles, and the names of those that cannot be predicted."""
    end = np.zeros(len(data.row_sizes), dtype=np.int64)
    for step in steps:
        end[step.runs] = step.time + 1
    assert data.start_time is not None
    until = np.asarray(data.start_time) + data.tau * data.row_sizes
    runs, left_out = [], []
    latest = trajectories.times[last_rows(trajectories)]
    for number in np.unique(data.trajectory):
        runs_of_particle = np.flatnonzero(data.trajectory == number)
        last = int(runs_of_particle[np.argmax(end[runs_of_particle])])
        if end[last] >= end.max():
            continue
        # An isolated later position: the particle was not lost at the end of its run.
        if latest[number] - until[last] >= data.tau * (1 - GRID_TOLERANCE):
            left_out.append(str(trajectories.ids[number]))
            continue
        runs.append(last)
    if not runs:
        why = f" but {', '.join(left_out)}, whose last position is isolated" if left_out else ""
        msg = f"no particle is lost{why}: all are observed until the end; predict without --given"
        raise DriftbayesError(msg)
    return runs, tuple(left_out)


def _check_size(
    steps: Sequence[SimultaneousSteps], models: Sequence[AbstractModel], data: Displacements
) -> None:
    """Raise an error if the prediction would take too much memory."""
    if all(model.core.name == "brownian" for model in models):
        return
    axes = data.n_dim if any("divergence" in model.parameters for model in models) else 1
    if sum(2 * (axes * len(step.runs)) ** 2 for step in steps) > _MAX_ENTRIES:
        raise DriftbayesError(
            f"prediction given others of {max(len(step.runs) for step in steps)} particles over "
            f"{len(steps)} steps takes too much memory; choose a longer tau or a part of the data"
        )


def _forecast(
    positions: FloatArray, trajectories: Trajectories, lost: Lost, models: tuple[str, ...]
) -> ParticleForecast:
    """Make a forecast from paths on the plane of each trajectory."""
    data, runs = lost.data, lost.runs
    assert data.start_row is not None
    assert data.start_time is not None
    numbers = data.trajectory[runs]
    until = np.asarray(data.start_time)[runs] + data.tau * data.row_sizes[runs]
    index = trajectories.trajectory_index
    end = np.full(trajectories.n_trajectories, -np.inf)
    end[numbers] = until + 0.5 * data.tau * GRID_TOLERANCE
    # Positions after the last multiple of tau are not used.
    used = trajectories.select(trajectories.observed & (trajectories.times <= end[index]))
    last = used.positions[used.starts[1:] - 1]
    away = positions - positions[:, :, :1]
    ground = None if trajectories.lonlat is None else ground_of(trajectories)
    if ground is not None and ground[1] is not None:
        angles = np.broadcast_to(ground[1][numbers][None, :, None], away.shape[:3])
        away = rotated(away.reshape(-1, 2), -angles.ravel()).reshape(away.shape)
    return ParticleForecast(
        positions=last[None, :, None] + away,
        horizons=np.asarray(lost.counts * data.tau, dtype=np.float64),
        last_times=until,
        ids=trajectories.ids[numbers],
        models=models,
        length_unit=trajectories.length_unit,
        time_unit=trajectories.time_unit,
        fixes=last_fixes(used),
    )
