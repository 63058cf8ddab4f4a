"""Ensemble forecasts of observed particles from their last position."""

__all__ = [
    "Forecast",
    "ParticleForecast",
    "draw_members",
    "ensemble",
    "gaussians",
    "philox",
    "predict_particles",
]

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import ArrayLike

from driftbayes.data.sampling import Displacements, displacements
from driftbayes.data.sphere import on_plane
from driftbayes.data.tangent import LastFixes, last_fixes
from driftbayes.data.trajectories import Trajectories
from driftbayes.data.units import cell_side, readable
from driftbayes.errors import DriftbayesWarning
from driftbayes.inference import PosteriorDraws
from driftbayes.inference.hypothesis import check_plain, check_plain_models
from driftbayes.inference.symmetric import eigh
from driftbayes.magnitudes import whole
from driftbayes.models import AbstractModel
from driftbayes.precision import in_double_precision
from driftbayes.prediction.predict import Prediction, average_weights, checked_horizons
from driftbayes.prediction.presence import Gaussians, PresenceMap, presence_map
from driftbayes.typing import FloatArray, IntArray, StrArray

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
        return None if self.fixes is None else self.fixes.lay(self.positions)

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


@dataclass(frozen=True, eq=False)
class Forecast:
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

    def __repr__(self) -> str:
        """Return models, horizons and sampling time."""
        unit = self.data.time_unit
        times = ", ".join(readable(time, unit) for time in self.prediction.horizons)
        models = ", ".join(self.prediction.probabilities)
        tau = readable(self.data.tau, unit)
        return f"<Forecast: {models} after {times}, fit at tau = {tau}>"

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
        last = tracks.positions[_last_rows(tracks)]
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


@in_double_precision
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
        last_times=trajectories.times[_last_rows(trajectories)],
        ids=trajectories.ids,
        models=tuple(member.name for member in members),
        length_unit=trajectories.length_unit,
        time_unit=trajectories.time_unit,
        fixes=last_fixes(trajectories),
    )


@in_double_precision
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
    return [d.hypothesis.at(jnp.asarray(d.theta[int(u * len(d))])) for d, u in drawn]


@in_double_precision
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
    check_plain_models(members, _PURPOSE, state_space=True)
    times = checked_horizons(horizons)
    last = trajectories.positions[_last_rows(trajectories)]
    intervals = np.diff(times, prepend=0.0)
    out = np.empty((len(members), len(last), len(times), trajectories.n_dim))
    tracks = _past_steps(trajectories, tau)
    for i, model in enumerate(members):
        n_state = _n_state(model.template())
        shape = (len(times) + 1, len(last), trajectories.n_dim, n_state)
        kicks = np.random.Generator(philox(seed, i)).standard_normal(shape)
        out[i] = _paths(model, tracks, jnp.asarray(intervals), jnp.asarray(kicks))
    out += last[:, None, :]
    return out


@in_double_precision
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
    last = trajectories.positions[_last_rows(trajectories)]
    means, sds, shares = [], [], []
    tracks = _past_steps(trajectories, tau)
    for draws, weight in zip(draws_by_model, weights, strict=True):
        # Models of zero weight are not computed.
        if weight == 0:
            continue
        theta = draws.theta[:n_draws]
        for values in theta:
            model = draws.hypothesis.at(jnp.asarray(values))
            mean, variance = _propagate(model, tracks, jnp.asarray(times))
            means.append(np.asarray(mean) + last[:, None, :])
            sds.append(np.sqrt(np.asarray(variance)))
        shares += [weight / len(theta)] * len(theta)
    return Gaussians(np.stack(means), np.stack(sds), np.array(shares))


@eqx.filter_jit
def _propagate(
    model: AbstractModel, tracks: "_Tracks", times: Float[Array, " time"]
) -> tuple[Float[Array, "particle time dim"], Float[Array, "particle time"]]:
    """Return mean, relative to the last fix, and variance of the position after each time."""
    mean, cov = jax.vmap(lambda track: _last_state(model, track))(tracks)
    a, q = jax.vmap(lambda time: _transition(model, time))(times)
    first = a[:, 0]
    position = jnp.einsum("ti,pdi->ptd", first, mean)
    variance = jnp.einsum("ti,pij,tj->pt", first, cov, first) + q[None, :, 0, 0]
    return position, jnp.maximum(variance, 0.0)


@cache
def _n_state(family: AbstractModel) -> int:
    """Return the dimension of the state, position included."""
    model = family(**dict.fromkeys(family.parameters, 1.0))
    return len(model.initial_covariance())


class _Tracks(eqx.Module):
    """Steps of each particle up to its last fix, in order of time, aligned at the end."""

    dx: Float[Array, "particle step dim"]
    interval: Float[Array, "particle step"]
    valid: Float[Array, "particle step"]
    noise_variance: Float[Array, "particle position"]


def _past_steps(trajectories: Trajectories, tau: float | None) -> _Tracks:
    """Return the steps that end at each last fix; a particle with one position has none."""
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
    # Rounded up to a power of two: few programs serve data of all lengths.
    n_steps = 1 << (int(data.row_sizes.max()) - 1).bit_length()
    row, sizes = n - 1 - data.trajectory, data.row_sizes

    def forward(values: FloatArray, filler: float, extra: int = 0) -> FloatArray:
        """Arrange values by particle, (particle, step, ...), latest last."""
        padded = np.full((n, n_steps + extra, *values.shape[1:]), filler)
        place = np.arange(n_steps + extra)[::-1] < (sizes + extra)[:, None]
        own = np.full((len(sizes), *padded.shape[1:]), filler)
        own[place] = _reversed_runs(values, sizes + extra)
        padded[row] = own
        return padded

    noise = np.zeros((n, n_steps + 1))
    if sd is not None:
        assert data.position_sd is not None
        noise = forward(data.position_sd**2, 0.0, extra=1)
        noise[:, -1] = sd[_last_rows(trajectories)] ** 2
    return _Tracks(
        dx=jax.device_put(-forward(data.dx, 0.0)),
        interval=jax.device_put(forward(data.interval, data.tau)),
        valid=jax.device_put(forward(np.ones(len(data.dx)), 0.0)),
        noise_variance=jax.device_put(noise),
    )


def _reversed_runs(values: FloatArray, sizes: IntArray) -> FloatArray:
    """Reverse the order of values within each run."""
    ends = np.repeat(np.cumsum(sizes), sizes)
    starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
    return values[starts + ends - 1 - np.arange(len(values))]


@eqx.filter_jit
def _paths(
    model: AbstractModel,
    tracks: _Tracks,
    intervals: Float[Array, " time"],
    kicks: Float[Array, "draw particle dim state"],
) -> Float[Array, "particle time dim"]:
    mean, cov = jax.vmap(lambda track: _last_state(model, track))(tracks)
    state = mean + jnp.einsum("pij,pdj->pdi", jax.vmap(covariance_root)(cov), kicks[0])

    def step(state: Array, inputs: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        a, root, kick = inputs
        state = jnp.einsum("ij,pdj->pdi", a, state) + jnp.einsum("ij,pdj->pdi", root, kick)
        return state, state[..., 0]

    a, q = jax.vmap(lambda interval: _transition(model, interval))(intervals)
    _, positions = jax.lax.scan(step, state, (a, jax.vmap(covariance_root)(q), kicks[1:]))
    return jnp.moveaxis(positions, 0, 1)


def _transition(model: AbstractModel, interval: Array) -> tuple[Array, Array]:
    """Return propagator and noise over an interval, safe for models that divide by it if zero."""
    moves = interval > 0
    a, q = model.transition(jnp.where(moves, interval, 1.0))
    return jnp.where(moves, a, jnp.eye(len(a))), jnp.where(moves, q, 0.0)


def _last_state(model: AbstractModel, track: _Tracks) -> tuple[Array, Array]:
    """Return mean (dim, state) and covariance of the state at, and relative to, the last fix."""
    stationary = model.initial_covariance()

    def step(
        carry: tuple[Array, Array], inputs: tuple[Array, Array, Array, Array]
    ) -> tuple[tuple[Array, Array], None]:
        mean, cov = carry
        dx, interval, is_step, error = inputs
        a, q = model.transition(interval)
        mean, cov = mean @ a.T, a @ cov @ a.T + q
        innovation, variance = dx - mean[:, 0], cov[0, 0] + error
        gain = cov[:, 0] / variance
        mean = (mean + innovation[:, None] * gain[None, :]).at[:, 0].add(-dx)
        cov = cov - jnp.outer(gain, gain) * variance
        # Before the first fix the state is stationary, with the error of the next fix.
        before = stationary.at[0, 0].add(error)
        return (jnp.where(is_step > 0, mean, 0.0), jnp.where(is_step > 0, cov, before)), None

    # Measurement errors of the model are added to those of the file.
    errors = track.noise_variance + model.fix_variance()
    mean = jnp.zeros((track.dx.shape[-1], len(stationary)))
    start = (mean, stationary.at[0, 0].add(errors[0]))
    state, _ = jax.lax.scan(step, start, (track.dx, track.interval, track.valid, errors[1:]))
    return state


def covariance_root(cov: Float[Array, "state state"]) -> Float[Array, "state state"]:
    """Return a square root of a covariance, which may be singular.

    That of the correlation matrix is symmetric, so that rounding changes it by rounding only.
    """
    sd = jnp.sqrt(jnp.maximum(jnp.diag(cov), 0.0))
    inverse = jnp.where(sd > 0, 1 / jnp.where(sd > 0, sd, 1.0), 0.0)
    values, vectors = eigh(cov * jnp.outer(inverse, inverse))
    sizes = jnp.sqrt(jnp.maximum(values, 0.0))[None, :]
    return sd[:, None] * ((vectors * sizes) @ vectors.T)


def _last_rows(trajectories: Trajectories) -> IntArray:
    rows = np.flatnonzero(trajectories.observed)
    last = np.full(trajectories.n_trajectories, -1)
    last[trajectories.trajectory_index[rows]] = rows
    return last


def philox(seed: int, member: int) -> np.random.Philox:
    """Return a bit generator that depends only on the seed and the member."""
    return np.random.Philox(key=np.array([whole(seed, "seed"), member], dtype=np.uint64))
