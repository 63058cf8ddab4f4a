"""Ensemble forecasts of observed particles from their last position."""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from driftbayes._magnitudes import whole
from driftbayes._representation import Described
from driftbayes._typing import FloatArray, IntArray, StrArray
from driftbayes.data._fixes import last_rows
from driftbayes.data._sampling import Displacements, displacements
from driftbayes.data._trajectories import Trajectories
from driftbayes.data._units import cell_side
from driftbayes.data.sphere import on_plane
from driftbayes.data.tangent import LastFixes, last_fixes
from driftbayes.errors import DriftbayesWarning
from driftbayes.inference import PosteriorDraws
from driftbayes.inference._density import hypothesis_of
from driftbayes.inference._formulas import Rows
from driftbayes.inference._hypothesis import check_plain
from driftbayes.likelihood._engines import FilterEngine, rows_first
from driftbayes.likelihood._runs import make_runs
from driftbayes.models import AbstractModel
from driftbayes.prediction._predict import Prediction, average_weights, checked_horizons
from driftbayes.prediction._presence import Gaussians, PresenceMap, presence_map

# Key of the generator that draws the models of members; larger than any member number.
_CHOICE = 2**64 - 1
_PURPOSE = "a forecast of particles"


@dataclass(frozen=True, eq=False)
class ParticleForecast:
    """Ensemble forecast of the observed particles.

    Args:
        positions: Positions (member, particle, time, dim) without measurement errors; the first
            time is that of the last fix.
        horizons: Times since each particle's last fix, the first is 0.
        last_times: Time of each particle's last fix.
        ids: Name of each particle.
        models: Model of each member.
        length_unit: Name of the unit of positions, empty if unknown.
        time_unit: Name of the unit of times, empty if unknown.
        fixes: Last positions on the earth, if positions were projected from longitudes and
            latitudes.
    """

    positions: FloatArray
    horizons: FloatArray
    last_times: FloatArray
    ids: StrArray
    models: tuple[str, ...]
    length_unit: str = ""
    time_unit: str = ""
    fixes: LastFixes | None = None

    def __repr__(self) -> str:
        """Return the sizes of the ensemble."""
        n_members, n_particles = self.positions.shape[:2]
        return f"<ParticleForecast: {n_members} futures each of {n_particles} particles>"

    @cached_property
    def lonlat(self) -> FloatArray | None:
        """Longitude and latitude of the positions in degrees, if the data were in degrees."""
        return None if self.fixes is None else self.fixes.to_lonlat(self.positions)

    def trajectories(self, **provenance: Any) -> Trajectories:
        """Return every member's path of every particle, named particle/member.

        Data in longitude and latitude give paths in longitude and latitude. Each path is on its
        own plane, on which it starts at the origin.
        """
        n_members, n_particles, n_times, n_dim = self.positions.shape
        times = (self.last_times[:, None] + self.horizons).ravel()
        lonlat = self.lonlat
        paths = Trajectories(
            positions=(self.positions if lonlat is None else lonlat).reshape(-1, n_dim),
            times=np.tile(times, n_members),
            row_sizes=np.full(n_members * n_particles, n_times),
            ids=np.array([f"{name}/{member}" for member in range(n_members) for name in self.ids]),
            length_unit=self.length_unit,
            time_unit=self.time_unit,
            provenance=provenance,
        )
        if self.fixes is None:
            return paths
        ground = self.fixes.ground
        with warnings.catch_warnings():
            # A long step is due to a long horizon, not to an outlier.
            warnings.simplefilter("ignore", DriftbayesWarning)
            laid = on_plane(paths, frame=ground.frame, radius=ground.radius)
        return laid.in_units(length=(ground.per_metre, self.length_unit))


@dataclass(frozen=True, eq=False, repr=False)
class Forecast(Described):
    """Predicted dispersion of fresh particles and of the observed ones.

    Args:
        prediction: Spread of a fresh particle under each model and their average.
        draws: Posterior draws of each model.
        data: Displacements of the fit.
        tracks: The trajectories.
        tau: Sampling time of the fit; None for every fix.
        seed: Random seed of the draws.
        priors_from_data: Whether scales of the priors were estimated from the same data.
    """

    prediction: Prediction
    draws: tuple[PosteriorDraws, ...]
    data: Displacements
    tracks: Trajectories
    tau: float | None
    seed: int
    priors_from_data: bool | None = None

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about the fits."""
        return tuple(f"{d.evidence.name}: {t}" for d in self.draws for t in d.evidence.warnings)

    def particles(self, n_members: int = 100) -> "ParticleForecast":
        """Draw an ensemble forecast of the observed particles.

        Args:
            n_members: Number of members per particle.
        """
        return predict_particles(
            *(self.draws, self.tracks, self.prediction.horizons),
            tau=self.tau,
            n_members=n_members,
            probabilities=list(self.prediction.probabilities.values()),
            seed=self.seed,
        )

    def presence(self, cell: float | str | None = None, *, n_draws: int = 200) -> PresenceMap:
        """Compute the probability of presence of the observed particles on a grid, by horizon.

        Args:
            cell: Side of a cell: "10km" or a number for a plane, "0.1deg" for longitude and
                latitude; by default a hundredth of the longer side of the map.
            n_draws: Number of posterior draws per model; models are weighted by their probability.

        Raises:
            DriftbayesError: The motion is not in a plane, or a model has no forecast of particles.
        """
        fixes, tracks, units = last_fixes(self.tracks), self.tracks, self.tracks.units
        side = None if cell is None else cell_side(cell, units, in_degrees=fixes is not None)
        horizons = self.prediction.horizons
        distribution = gaussians(
            *(self.draws, tracks, horizons),
            tau=self.tau,
            n_draws=n_draws,
            probabilities=list(self.prediction.probabilities.values()),
        )
        last = tracks.positions[last_rows(tracks)]
        return presence_map(distribution, horizons, last, cell=side, fixes=fixes, units=units)

    def to_json(self) -> dict[str, Any]:
        """Return the prediction as plain numbers and text."""
        return {
            "tau": self.data.tau,
            "length_unit": self.data.length_unit,
            "time_unit": self.data.time_unit,
            "data_fingerprint": self.data.fingerprint,
            "priors_from_data": self.priors_from_data,
            "n_draws": len(self.draws[0]),
            "seed": self.seed,
            "warnings": list(self.warnings),
            **self.prediction.to_json(),
        }


def predict_particles(
    draws_by_model: Sequence[PosteriorDraws],
    trajectories: Trajectories,
    horizons: ArrayLike,
    *,
    tau: float | None,
    n_members: int = 100,
    probabilities: Sequence[float] | None = None,
    seed: int = 0,
) -> ParticleForecast:
    """Forecast the observed particles by an ensemble from the model-averaged posterior.

    Each member has a model, drawn with its probability, and one of that model's posterior draws;
    all particles of a member share them. Paths are those of `ensemble`.

    Args:
        draws_by_model: Posterior draws of each model.
        trajectories: Trajectories.
        horizons: Times since each particle's last fix, positive and increasing.
        tau: Sampling time of the past positions, preferably that of the draws; None for every fix.
        n_members: Number of members.
        probabilities: Weights of the models, as for `predict`.
        seed: Random seed. The first members do not depend on the number of members.
    """
    times = checked_horizons(horizons)
    n_members = whole(n_members, "n_members", 1)
    hypotheses = [draws.hypothesis for draws in draws_by_model]
    check_plain(hypotheses, _PURPOSE, state_space=True)
    members = draw_members(draws_by_model, probabilities, n_members, seed)
    since = times if times[0] == 0 else np.concatenate([[0.0], times])
    return ParticleForecast(
        positions=ensemble(members, trajectories, since, tau=tau, seed=seed),
        horizons=since,
        last_times=trajectories.times[last_rows(trajectories)],
        ids=trajectories.ids,
        models=tuple(member.name for member in members),
        length_unit=trajectories.length_unit,
        time_unit=trajectories.time_unit,
        fixes=last_fixes(trajectories),
    )


def draw_members(
    draws_by_model: Sequence[PosteriorDraws],
    probabilities: Sequence[float] | None,
    n_members: int,
    seed: int,
) -> list[AbstractModel]:
    """Draw models with their probabilities, each with parameters of one of its posterior draws.

    Args:
        draws_by_model: Posterior draws of each model.
        probabilities: Weights of the models, as for `predict`.
        n_members: Number of models to draw.
        seed: Random seed. The first members do not depend on the number of members.
    """
    weights = average_weights(draws_by_model, probabilities)
    uniforms = np.random.Generator(philox(seed, _CHOICE)).random((n_members, 2))
    # The last edge is omitted: rounding may leave the sum below one.
    choice = np.searchsorted(np.cumsum(weights)[:-1], uniforms[:, 0], side="right")
    drawn = [(draws_by_model[m], u) for m, u in zip(choice, uniforms[:, 1], strict=True)]
    return [d.hypothesis.at(d.theta[int(u * len(d))]) for d, u in drawn]


def ensemble(
    members: Sequence[AbstractModel],
    trajectories: Trajectories,
    horizons: ArrayLike,
    *,
    tau: float | None,
    seed: int = 0,
) -> FloatArray:
    r"""Draw positions (member, particle, time, dim) after each particle's last fix, exactly.

    A Kalman filter of the past positions, at every tau back from the last fix, gives the
    distribution of the state Y at the last fix. The state is drawn and propagated without
    time-stepping error:

    $$Y_0 \sim N(m, P), \qquad Y_{n+1} = A(T_{n+1} - T_n)\, Y_n + \varepsilon_n, \quad
      \varepsilon_n \sim N(0, Q).$$

    The paths are those of the particle itself. Where fixes have measurement errors, of the file or
    of the model's `+noise`, the last position is uncertain: members do not all start at the last
    fix, and a future fix would scatter about a member by its error.

    Args:
        members: One model, with its parameters, for each member.
        trajectories: Trajectories.
        horizons: Times since each particle's last fix, increasing; the first may be 0.
        tau: Sampling time of the past positions; None for every fix.
        seed: Random seed, combined with the member's number.
    """
    check_plain(members, _PURPOSE, state_space=True)
    times = checked_horizons(horizons)
    last = trajectories.positions[last_rows(trajectories)]
    out = np.empty((len(members), len(last), len(times), trajectories.n_dim))
    past = _Past.of(trajectories, tau)
    families: dict[AbstractModel, list[int]] = {}
    for i, model in enumerate(members):
        families.setdefault(model.template(), []).append(i)
    for numbers in families.values():
        rows = rows_of([members[i] for i in numbers])
        for i, state in zip(numbers, past.states(rows, np.diff(times, prepend=0.0)), strict=True):
            shape = (len(times) + 1, *state.mean.shape)
            kicks = np.random.Generator(philox(seed, i)).standard_normal(shape)
            out[i] = state.paths(kicks)
    out += last[:, None, :]
    return out


def gaussians(
    draws_by_model: Sequence[PosteriorDraws],
    trajectories: Trajectories,
    horizons: ArrayLike,
    *,
    tau: float | None,
    n_draws: int = 200,
    probabilities: Sequence[float] | None = None,
) -> Gaussians:
    """Compute the exact distribution of the observed particles at each horizon, for each draw.

    Given its parameters, a model's forecast is Gaussian: the filtered state at the last fix,
    propagated to the horizon. `ensemble` draws from the same distribution.

    Args:
        draws_by_model: Posterior draws of each model.
        trajectories: Trajectories.
        horizons: Times since each particle's last fix, positive and increasing.
        tau: Sampling time of the past positions; None for every fix.
        n_draws: Number of draws of each model that are used, from the first.
        probabilities: Weights of the models, as for `predict`.
    """
    times = checked_horizons(horizons)
    check_plain([draws.hypothesis for draws in draws_by_model], _PURPOSE, state_space=True)
    n_draws = whole(n_draws, "n_draws", 1)
    weights = average_weights(draws_by_model, probabilities)
    last = trajectories.positions[last_rows(trajectories)]
    means, sds, shares = [], [], []
    past = _Past.of(trajectories, tau)
    for draws, weight in zip(draws_by_model, weights, strict=True):
        # Models of zero weight are not computed.
        if weight == 0:
            continue
        theta = draws.theta[:n_draws]
        for state in past.states(Rows(draws.hypothesis, theta), times):
            mean, variance = state.moments()
            means.append(mean + last[:, None, :])
            sds.append(np.sqrt(variance))
        shares += [weight / len(theta)] * len(theta)
    return Gaussians(np.stack(means), np.stack(sds), np.array(shares))


def rows_of(models: Sequence[AbstractModel]) -> Rows:
    """Return the formulas of models of one family, with their parameters."""
    theta = [[float(value) for value in model.leaves().values()] for model in models]
    return Rows(hypothesis_of(models[0].template()), np.array(theta))


@dataclass(frozen=True, eq=False)
class _State:
    """State of each particle at its last fix, and its motion from then on, at one θ.

    Args:
        mean: Means (particle, dim, state); positions are relative to the last fix.
        covariance: Covariances (particle, state, state), the same along each axis.
        propagators: Propagators over several intervals, (interval, state, state).
        noises: Noise covariances over these intervals.
    """

    mean: FloatArray
    covariance: FloatArray
    propagators: FloatArray
    noises: FloatArray

    def moments(self) -> tuple[FloatArray, FloatArray]:
        """Return mean (particle, interval, dim) and variance of the position after intervals."""
        first = self.propagators[:, 0]
        mean = np.einsum("ti,pdi->ptd", first, self.mean)
        variance = np.einsum("ti,pij,tj->pt", first, self.covariance, first)
        return mean, np.maximum(variance + self.noises[:, 0, 0], 0.0)

    def paths(self, kicks: FloatArray) -> FloatArray:
        """Return positions (particle, interval, dim) after successive intervals.

        Args:
            kicks: Standard normal numbers, (1 + interval, particle, dim, state).
        """
        state = self.mean + np.einsum("pij,pdj->pdi", covariance_root(self.covariance), kicks[0])
        path = []
        for a, root, kick in zip(
            self.propagators, covariance_root(self.noises), kicks[1:], strict=True
        ):
            state = state @ a.T + kick @ root.T
            path.append(state[..., 0])
        return np.stack(path, axis=1)


@dataclass(frozen=True, eq=False)
class _Past:
    """Steps that end at the last fix of each particle.

    Args:
        engine: The steps; a particle with one position has none.
        owner: Particle of each run of the engine.
        last_error: Error variance of each particle's last fix.
    """

    engine: FilterEngine
    owner: IntArray
    last_error: FloatArray

    @classmethod
    def of(cls, trajectories: Trajectories, tau: float | None) -> "_Past":
        """Select the positions at every tau back from each last fix."""
        n, sd = trajectories.n_trajectories, trajectories.position_sd
        # Sampling times are counted from the first fix, which is the last in reversed time.
        mirrored = Trajectories(
            positions=trajectories.positions[::-1],
            times=-trajectories.times[::-1],
            row_sizes=trajectories.row_sizes[::-1],
            ids=trajectories.ids[::-1],
            position_sd=None if sd is None else sd[::-1],
        )
        data = displacements(mirrored, tau, gaps="keep")
        back = make_runs(data)
        runs = replace(
            back,
            columns=-back.columns[::-1],
            which=back.which[::-1].copy(),
            offsets=back.offsets[-1] - back.offsets[::-1],
            error=back.error[::-1].copy(),
        )
        error = np.zeros(n) if sd is None else sd[last_rows(trajectories)] ** 2
        return cls(FilterEngine(runs), n - 1 - data.trajectory[::-1], error)

    def states(self, rows: Rows, intervals: FloatArray) -> Iterator[_State]:
        """Yield the state at the last fixes, and the motion over intervals, for each row."""
        starts, extras, _ = rows.starts()
        motions = rows_first(rows.lanes(intervals), rows.n_rows)
        found = self.engine.last_states(rows)
        for start, extra, motion, state in zip(starts, extras, motions, found, strict=True):
            mean = np.zeros((len(self.last_error), state[0].shape[1], len(start)))
            covariance = np.repeat(start[None], len(mean), axis=0)
            # Measurement errors of the model are added to those of the file.
            covariance[:, 0, 0] += self.last_error + extra
            mean[self.owner], covariance[self.owner] = state
            yield _State(mean, covariance, motion[:, 0], motion[:, 1])


def covariance_root(covariance: FloatArray) -> FloatArray:
    """Return square roots of covariances (..., state, state), which may be singular.

    Those of the correlation matrices are symmetric, so that rounding changes them by rounding only.
    """
    sd = np.sqrt(np.maximum(np.diagonal(covariance, axis1=-2, axis2=-1), 0.0))
    inverse = np.divide(1.0, sd, out=np.zeros_like(sd), where=sd > 0)
    values, vectors = np.linalg.eigh(covariance * inverse[..., :, None] * inverse[..., None, :])
    sizes = np.sqrt(np.maximum(values, 0.0))[..., None, :]
    return np.asarray(sd[..., :, None] * ((vectors * sizes) @ np.swapaxes(vectors, -1, -2)))


def philox(seed: int, member: int) -> np.random.Philox:
    """Return a bit generator that depends only on the seed and the member."""
    return np.random.Philox(key=np.array([whole(seed, "seed"), member], dtype=np.uint64))
