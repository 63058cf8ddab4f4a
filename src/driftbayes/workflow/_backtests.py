"""Backtests of forecasts, and recommendations for simulators."""

import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from driftbayes._magnitudes import whole
from driftbayes._typing import FloatArray
from driftbayes.data._fixes import rows_at
from driftbayes.data._trajectories import (
    GRID_TOLERANCE,
    Trajectories,
    check_tracks,
    concatenated,
)
from driftbayes.data._units import DIFFUSIVITY, positive_in_units, readable, times_in
from driftbayes.data.tangent import last_fixes
from driftbayes.errors import DriftbayesError, DriftbayesWarning
from driftbayes.prediction._arrival import parse_target
from driftbayes.prediction._forecast import ParticleForecast, predict_particles
from driftbayes.prediction.choices import Recommendations, recommend_for
from driftbayes.verification import Cases, EnsembleScores, match_cases, score_cases
from driftbayes.verification._scores import Errors
from driftbayes.workflow._fits import predict
from driftbayes.workflow._verification import with_dependence

# Minimum number of earlier errors from which those of persistence are drawn.
_MIN_ERRORS = 20
# Fraction of the data before the first origin.
_BEFORE = 1 / 3
AVERAGE, PERSISTENCE, FIXED = "model average", "persistence", "fixed kappa"


def backtest(
    tracks: Trajectories,
    tau: float | str,
    horizons: Iterable[float | str] | str,
    *,
    origins: int = 10,
    members: int = 50,
    kappa: float | str | None = None,
    errors: Errors = "drifters",
    seed: int = 0,
    **options: Any,
) -> EnsembleScores:
    """Score forecasts from several times of origin, each from earlier positions only.

    Every model, their average, persistence (the last velocity, with the errors of persistence
    before the origin) and, if given, a fixed diffusivity forecast the same particles.

    Args:
        tracks: Observed trajectories.
        tau: Sampling time of the fits, or "all".
        horizons: Times ahead, also as text ("1d,3d").
        origins: Number of times of origin, evenly spaced over the last two thirds of the data.
        members: Number of members of each forecast.
        kappa: Diffusivity of a simulator, in the units of the data or with its own ("10m2/s").
        errors: Units of the bootstrap: "drifters", or "starts", the origins, for drifters that move
            together.
        seed: Random seed of draws, members and bootstrap.
        **options: `models`, `priors`, `scales`, `cut`, `method`, `n_draws` as for `predict`, and
            `progress`.

    Raises:
        DriftbayesError: No particle is observed both before an origin and at a horizon after it.

    Example:
        >>> import driftbayes as db
        >>> tracks = db.simulate("brownian", {"kappa": 1.0}, tau=0.5, n_particles=10, n_steps=20)
        >>> found = db.backtest(tracks, 0.5, [1.0], origins=2, members=5)
        >>> list(found.ensembles)
        ['model average', 'brownian', 'langevin', 'persistence']
    """
    check_tracks(tracks)
    times = sorted(set(times_in(horizons, tracks.units, "horizons")))
    number = whole(origins, "origins", 1)
    fixed = _diffusivity(kappa, tracks)
    progress: Callable[..., None] = options.pop("progress", None) or (lambda *_: None)
    found: dict[str, list[Trajectories]] = {}
    begins = _origins(tracks, times[-1], number)
    for i, origin in enumerate(begins):
        progress("origins", i, number)
        early, seen = _until(tracks, origin), _seen_at(tracks, origin)
        if early is None or not len(seen):
            continue
        made = _forecasts(early, tau, times, members=members, seed=seed + i, **options)
        made |= _baselines(early, times, members, fixed, seed + i)
        for name, forecast in made.items():
            found.setdefault(name, []).append(_named(forecast, seen, i))
    if not found:
        msg = "no particle is observed both before and after an origin; give shorter --horizons"
        raise DriftbayesError(msg)
    complete = {name: parts for name, parts in found.items() if len(parts) == len(found[AVERAGE])}
    cases = [_matched(parts, tracks, name, begins) for name, parts in complete.items()]
    result = score_cases(cases, units=tracks.units, errors=errors, seed=seed)
    notes = [note for note in result.notes if "no observed position" not in note]
    if PERSISTENCE not in complete:
        notes.append("persistence is omitted: too few earlier steps for its errors")
    return with_dependence(replace(result, notes=tuple(notes)), tracks)


def recommend(
    tracks: Trajectories,
    tau: float | str,
    horizons: ArrayLike | str,
    *,
    kappa: float | str | None = None,
    arrival: str | None = None,
    **options: Any,
) -> Recommendations:
    """Recommend a diffusivity or random flight for each horizon, and evaluate other choices.

    Args:
        tracks: Observed trajectories.
        tau: Sampling time of the fits, or "all".
        horizons: Times ahead, also as text ("1d,10d").
        kappa: A diffusivity to evaluate, in the units of the data or with its own ("10m2/s").
        arrival: Also compare the probability of first arrival at a straight line ("line:30km") or
            at a distance from the start ("circle:30km").
        **options: Options of `predict`.

    Example:
        >>> import driftbayes as db
        >>> tracks = db.simulate("brownian", {"kappa": 1.0}, tau=0.5, n_particles=10, n_steps=20)
        >>> found = db.recommend(tracks, 0.5, [1.0], scales=db.Scales(u_rms=1.4, time=1.0))
        >>> found.to_json()["model"]
        'brownian'
    """
    fixed = _diffusivity(kappa, tracks)
    target = None if arrival is None else parse_target(arrival, tracks.units)
    return recommend_for(predict(tracks, tau, horizons, **options), fixed, target)


def _diffusivity(kappa: float | str | None, tracks: Trajectories) -> float | None:
    """Return a diffusivity in the units of the data."""
    if kappa is None:
        return None
    check_tracks(tracks)
    return positive_in_units(kappa, DIFFUSIVITY, tracks.units, "kappa")


def _origins(tracks: Trajectories, longest: float, n: int) -> FloatArray:
    """Choose times of origin such that the longest horizon is within the data."""
    first, last = float(tracks.times.min()), float(tracks.times.max())
    begin, end = first + _BEFORE * (last - first), last - longest
    if end <= begin:
        span = readable(last - first, tracks.time_unit)
        ahead = readable(longest, tracks.time_unit)
        raise DriftbayesError(
            f"the data span {span}, too short for a horizon of {ahead} after the first third; give "
            "shorter horizons"
        )
    return np.linspace(begin, end, n)


def _until(tracks: Trajectories, origin: float) -> Trajectories | None:
    """Select positions up to an origin of particles with two or more; None if there are none."""
    early = tracks.times <= origin
    counts = np.bincount(tracks.trajectory_index[early & tracks.observed], minlength=len(tracks))
    enough = np.flatnonzero(counts > 1)
    if not len(enough):
        return None
    return tracks.select(early & np.isin(tracks.trajectory_index, enough))


def _seen_at(tracks: Trajectories, origin: float) -> set[str]:
    """Return the particles observed within one median interval before an origin."""
    slack = (1 + GRID_TOLERANCE) * float(np.median(tracks.intervals))
    near = (tracks.times <= origin) & (tracks.times > origin - slack) & tracks.observed
    return {str(tracks.ids[i]) for i in np.unique(tracks.trajectory_index[near])}


def _forecasts(
    early: Trajectories, tau: float | str, times: list[float], **options: Any
) -> dict[str, ParticleForecast]:
    """Make members of every model and of their average."""
    members, seed = options.pop("members"), options["seed"]
    with warnings.catch_warnings():
        # Priors from the data before each origin are intended.
        warnings.simplefilter("ignore", DriftbayesWarning)
        fit = predict(early, tau, times, **options)
    made = {AVERAGE: fit.particles(members)}
    if len(fit.draws) > 1:
        for draws in fit.draws:
            made[draws.evidence.name] = predict_particles(
                [draws], early, times, tau=fit.tau, n_members=members, seed=seed
            )
    else:
        made[fit.draws[0].evidence.name] = made[AVERAGE]
    return made


def _baselines(
    early: Trajectories, times: list[float], members: int, kappa: float | None, seed: int
) -> dict[str, ParticleForecast]:
    """Make members of persistence and of a fixed diffusivity."""
    rng = np.random.Generator(np.random.Philox(key=np.array([seed, 2**63], dtype=np.uint64)))
    rows, has_next = early.fixes
    ends = np.flatnonzero(np.append(~has_next, True))
    last, before = rows[ends], rows[ends - 1]
    since = np.concatenate([[0.0], times])
    shape = (members, len(last), len(since), early.n_dim)
    found = {}

    def forecast(paths: FloatArray) -> ParticleForecast:
        return ParticleForecast(
            positions=early.positions[last][:, None, :] + paths,
            horizons=since,
            last_times=early.times[last],
            ids=early.ids,
            models=(),
            length_unit=early.length_unit,
            time_unit=early.time_unit,
            fixes=last_fixes(early),
        )

    errors = _persistence_errors(early, rows, times)
    if errors is not None:
        gap = (early.times[last] - early.times[before])[:, None]
        velocity = (early.positions[last] - early.positions[before]) / gap
        mean = velocity[:, None, :] * since[:, None]
        drawn = errors[rng.integers(len(errors), size=shape[:2])]
        found[PERSISTENCE] = forecast(mean + drawn)
    if kappa is not None:
        sd = np.sqrt(2 * kappa * np.diff(since, prepend=0.0))[:, None]
        found[FIXED] = forecast(np.cumsum(sd * rng.standard_normal(shape), axis=2))
    return found


def _persistence_errors(
    early: Trajectories, rows: np.ndarray, times: list[float]
) -> FloatArray | None:
    """Compute errors of persistence from earlier fixes, (error, horizon, axis)."""
    t, x, own = early.times[rows], early.positions[rows], early.trajectory_index[rows]
    slack = GRID_TOLERANCE * float(np.median(early.intervals))
    start = np.flatnonzero(np.r_[False, np.diff(own) == 0])
    velocity = (x[start] - x[start - 1]) / (t[start] - t[start - 1])[:, None]
    errors = [np.zeros((len(start), x.shape[1]))]
    known = np.ones(len(start), bool)
    for horizon in times:
        at = rows_at(early, own[start], t[start] + horizon, slack)
        known &= at >= 0
        errors.append(early.positions[at] - x[start] - velocity * horizon)
    made = np.stack(errors, axis=1)[known]
    return made if len(made) >= _MIN_ERRORS else None


def _named(forecast: ParticleForecast, seen: set[str], origin: int) -> Trajectories:
    """Name the paths of particles observed at the origin particle@origin/member."""
    paths = forecast.trajectories()
    names = [str(name).rpartition("/") for name in paths.ids]
    keep = np.array([name in seen for name, _, _ in names])
    ids = np.array([f"{name}@{origin}/{member}" for name, _, member in names])
    return replace(paths, ids=ids).select(keep[paths.trajectory_index])


def _matched(
    parts: list[Trajectories], observed: Trajectories, name: str, origins: FloatArray
) -> Cases:
    """Match the forecasts from all origins with observations."""
    cases = match_cases(concatenated(parts), observed, name)
    # Forecasts begin at the last fix before their origin.
    after = np.searchsorted(origins * (1 + 1e-12), cases.start)
    return replace(cases, start=origins[np.minimum(after, len(origins) - 1)])
