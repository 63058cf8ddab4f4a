"""Match members of an ensemble with observed positions."""

__all__ = ["Cases", "match_cases"]

from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np
from scipy.spatial import cKDTree

from driftbayes.data.fixes import rows_at
from driftbayes.data.sphere import between, points_in_space
from driftbayes.data.tangent import ground_of
from driftbayes.data.trajectories import GRID_TOLERANCE, Trajectories
from driftbayes.data.units import length_factor, readable, time_factor
from driftbayes.errors import DriftbayesError, shown
from driftbayes.typing import FloatArray, IntArray

# An ensemble that begins farther away than so many times the way of the drifters is another one.
_MAX_OFFSET = 3.0
# Members of a drifter are nearer to it than this fraction of the distance to any other.
_NEARER = 0.5
_ROUNDING = 1e-6


@dataclass(frozen=True, eq=False)
class Cases:
    """Forecasts at single lead times, each with its members and what was observed.

    Args:
        name: Name of the ensemble.
        drifter: Number of the observed trajectory of each case.
        row: Row of the observed position.
        forecast: Number of the forecast: one drifter from one start.
        lead: Time since the start of the forecast.
        start: Time of that start.
        members: Members less the observed position, (case, member, axis).
        paths: Members less the observed position at the start, likewise.
        observed: Observed position less that at the start, (case, axis).
        travelled: Length of the observed path since the start.
        notes: What was left out.
    """

    name: str
    drifter: IntArray
    row: IntArray
    forecast: IntArray
    lead: FloatArray
    start: FloatArray
    members: FloatArray
    paths: FloatArray
    observed: FloatArray
    travelled: FloatArray
    notes: tuple[str, ...] = ()

    def take(self, which: np.ndarray) -> "Cases":
        """Some of the cases."""
        names = (
            *("drifter", "row", "forecast", "lead", "start"),
            *("members", "paths", "observed", "travelled"),
        )
        return replace(self, **{name: getattr(self, name)[which] for name in names})


def match_cases(ensemble: Trajectories, observed: Trajectories, name: str) -> Cases:
    """Match the members of an ensemble with observed positions at the same times.

    Trajectories named "drifter/member" belong to the observed trajectory of that name
    ("drifter@start/member" if there are several forecasts of a drifter). Others belong to the
    drifter that is where they begin.

    Args:
        ensemble: Trajectories of all members.
        observed: Observed trajectories.
        name: Name of the ensemble, for messages.
    """
    ensemble, observed = _with_own_places(ensemble), _with_own_places(observed)
    ensemble = _like(ensemble, observed, name)
    if not ensemble.observed.all():
        n_missing = int((~ensemble.observed).sum())
        msg = (
            f"{name}: {n_missing:,} positions of members are missing; a forecast is scored only "
            "with all its members, so leave out those times"
        )
        raise DriftbayesError(msg)
    forecast, drifter, notes = _assigned(ensemble, observed, name)
    slack = _slack(observed, ensemble)
    of_row = forecast[ensemble.trajectory_index]
    order = np.lexsort((ensemble.times, of_row))
    order = order[of_row[order] >= 0]
    key, time = of_row[order], ensemble.times[order]
    begin = np.flatnonzero(np.r_[True, (np.diff(key) != 0) | (np.diff(time) > slack)])
    key, time = key[begin], time[begin]
    rows = order.reshape(-1, _number_of_members(np.diff(np.r_[begin, len(order)]), name))
    first = np.r_[True, np.diff(key) != 0]
    lead = time - time[np.maximum.accumulate(np.where(first, np.arange(len(key)), 0))]
    found = rows_at(observed, drifter[key], time, slack)
    known = np.flatnonzero(found >= 0)
    if not len(known):
        msg = (
            f"{name}: no position was observed at the times of the ensemble; write members at "
            "the times of the fixes, or check the time units of both files"
        )
        raise DriftbayesError(msg)
    if len(known) < len(found):
        n = len(found) - len(known)
        notes = (*notes, f"{n:,} of {len(found):,} times of forecasts have no observed position")
    made = _laid_out(ensemble, observed, rows[known], found[known], key[known])
    cases = Cases(
        name=name,
        drifter=drifter[key[known]],
        row=found[known],
        forecast=key[known],
        lead=lead[known],
        start=(time - lead)[known],
        notes=notes,
        **made,
    )
    _check_start(cases, observed.length_unit)
    # Members that all begin at one place have no spread to be judged there, but for rounding.
    spread = np.ptp(cases.members, axis=1).max(axis=1)
    return cases.take(spread > _ROUNDING * spread.max())


def _with_own_places(tracks: Trajectories) -> Trajectories:
    """Without longitudes and latitudes from which the positions were not made."""
    made = tracks.lonlat is None or ground_of(tracks) is not None
    return tracks if made else replace(tracks, lonlat=None)


def _like(ensemble: Trajectories, observed: Trajectories, name: str) -> Trajectories:
    """The ensemble in the units and coordinates of the observations, if they can be."""
    if ensemble.n_dim != observed.n_dim:
        msg = f"{name}: members have {ensemble.n_dim} axes, observations {observed.n_dim}"
        raise DriftbayesError(msg)
    if (ensemble.lonlat is None) != (observed.lonlat is None):
        which = "observations" if ensemble.lonlat is None else "members"
        msg = (
            f"{name}: {which} alone are in longitude and latitude; give both files in the same "
            "coordinates"
        )
        raise DriftbayesError(msg)
    factors = {}
    pairs = (
        ("length", length_factor, ensemble.length_unit, observed.length_unit),
        ("time", time_factor, ensemble.time_unit, observed.time_unit),
    )
    for what, factor, own, other in pairs:
        if own and other and own != other:
            factors[what] = factor(own, other)
    made = ensemble.in_units(**factors) if factors else ensemble
    later = _later(ensemble, observed)
    return replace(made, times=made.times + later) if later else made


def _later(ensemble: Trajectories, observed: Trajectories) -> float:
    """How much later than the observations the ensemble begins to count, if both have dates."""
    origins = [tracks.provenance.get("time_origin") for tracks in (ensemble, observed)]
    if None in origins or origins[0] == origins[1]:
        return 0.0
    dates = [datetime.fromisoformat(str(origin)) for origin in origins]
    # One without a zone is UTC.
    first, second = (date.replace(tzinfo=date.tzinfo or UTC) for date in dates)
    return (first - second).total_seconds() * time_factor("s", observed.time_unit)[0]


def _slack(*data: Trajectories) -> float:
    """How far times may differ and still be the same."""
    return GRID_TOLERANCE * min(float(np.median(tracks.intervals)) for tracks in data)


def _number_of_members(counts: IntArray, name: str) -> int:
    """The number of members of all forecasts at all times; an error if it is not one number."""
    n = int(np.median(counts))
    if (counts != n).any():
        n_other = int((counts != n).sum())
        other = int(counts[np.flatnonzero(counts != n)[0]])
        msg = (
            f"{name}: {n_other:,} of {len(counts):,} forecasts and times have another number of "
            f"members, for example {other} in place of {n}; members that end early or are missing "
            "change what the ensemble says, so leave out those times"
        )
        raise DriftbayesError(msg)
    if n < 3:
        msg = f"{name}: forecasts have {n} members; scores need 3 or more"
        raise DriftbayesError(msg)
    return n


def _assigned(
    ensemble: Trajectories, observed: Trajectories, name: str
) -> tuple[IntArray, IntArray, tuple[str, ...]]:
    """Forecast of each trajectory (-1: none), drifter of each forecast, what was left out."""
    ids = [str(one) for one in ensemble.ids]
    known = {str(one): i for i, one in enumerate(observed.ids)}
    keys = [one.rpartition("/")[0] for one in ids]
    if not all(keys):
        return _by_place(ensemble, observed, name)
    names = sorted(set(keys))
    drifters = [known.get(key, known.get(key.rpartition("@")[0], -1)) for key in names]
    numbers = {key: i for i, key in enumerate(names)}
    forecast = np.array([numbers[key] for key in keys])
    drifter = np.array(drifters)
    if (drifter < 0).all():
        few = ", ".join(shown(key) for key in names[:3])
        msg = f"{name}: none of its drifters was observed; it has {few}"
        raise DriftbayesError(msg)
    notes: tuple[str, ...] = ()
    if (drifter < 0).any():
        n = int((drifter < 0).sum())
        notes = (f"{n} of {len(names)} forecasts are of drifters that were not observed",)
        forecast = np.where(drifter[forecast] < 0, -1, forecast)
    return forecast, drifter, notes


def _by_place(
    ensemble: Trajectories, observed: Trajectories, name: str
) -> tuple[IntArray, IntArray, tuple[str, ...]]:
    """Members belong to the drifter that is where, and when, they begin."""
    times = ensemble.times[ensemble.starts[:-1]]
    slack = _slack(observed, ensemble)
    begins = _points(ensemble)[ensemble.starts[:-1]]
    points = _points(observed)
    owner = np.full(len(times), -1)
    for time in np.unique(times):
        here = np.flatnonzero(times == time)
        every = np.arange(observed.n_trajectories)
        rows = rows_at(observed, every, np.full(len(every), time), slack)
        seen = np.flatnonzero(rows >= 0)
        if not len(seen):
            continue
        tree = cKDTree(points[rows[seen]])
        distance, nearest = tree.query(begins[here], k=min(2, len(seen)))
        distance, nearest = distance.reshape(len(here), -1), nearest.reshape(len(here), -1)
        alone = distance.shape[1] < 2
        clear = np.ones(len(here), bool) if alone else distance[:, 0] < _NEARER * distance[:, 1]
        owner[here[clear]] = seen[nearest[clear, 0]]
    if (owner < 0).any():
        n = int((owner < 0).sum())
        msg = (
            f"{name}: {n:,} of {len(owner):,} members begin where no drifter was seen at that "
            "time, or between two; name trajectories drifter/member, or give a table with columns "
            "id, member, time and positions"
        )
        raise DriftbayesError(msg)
    both = np.column_stack([owner, np.unique(times, return_inverse=True)[1]])
    forecasts, forecast = np.unique(both, axis=0, return_inverse=True)
    return forecast.ravel(), forecasts[:, 0], ()


def _points(tracks: Trajectories) -> FloatArray:
    """Positions, those on the sphere as points in space."""
    if tracks.lonlat is None:
        return tracks.positions
    lon, lat = np.radians(tracks.lonlat.T)
    return points_in_space(lon, lat, None)[1].T


def _laid_out(
    ensemble: Trajectories, observed: Trajectories, rows: IntArray, found: IntArray, key: IntArray
) -> dict[str, FloatArray]:
    """Members and observations about the observed position, and about that at the start."""
    first = np.r_[True, np.diff(key) != 0]
    start = found[np.maximum.accumulate(np.where(first, np.arange(len(key)), 0))]
    way = np.zeros(len(observed.times))
    inside = np.diff(observed.trajectory_index) == 0
    way[1:] = np.where(inside, _distance(observed), 0.0)
    way = np.nancumsum(way)
    return {
        "members": _apart(observed, found[:, None], ensemble, rows),
        "paths": _apart(observed, start[:, None], ensemble, rows),
        "observed": _apart(observed, start, observed, found),
        "travelled": way[found] - way[start],
    }


def _distance(tracks: Trajectories) -> FloatArray:
    rows = np.arange(len(tracks.times))
    return np.asarray(np.linalg.norm(_apart(tracks, rows[:-1], tracks, rows[1:]), axis=-1))


def _apart(centre: Trajectories, at: IntArray, tracks: Trajectories, rows: IntArray) -> FloatArray:
    """Vectors from some rows to others; on the sphere by arc and bearing at the first."""
    at, rows = np.broadcast_arrays(at, rows)
    if centre.lonlat is None or tracks.lonlat is None:
        return np.asarray(tracks.positions[rows] - centre.positions[at])
    here, there = np.radians(centre.lonlat[at.ravel()]), np.radians(tracks.lonlat[rows.ravel()])
    arc, bearing, _ = between(here, there, None)
    arc = arc * length_factor("m", centre.length_unit)[0]
    out = np.stack([arc * np.sin(bearing), arc * np.cos(bearing)], axis=-1)
    return np.asarray(out.reshape(*at.shape, 2))


def _check_start(cases: Cases, unit: str) -> None:
    """Refuse an ensemble that begins elsewhere: its units or coordinates are others."""
    first = np.r_[True, np.diff(cases.forecast) != 0]
    offset = float(np.median(np.linalg.norm(cases.members[first].mean(axis=1), axis=1)))
    ways = np.linalg.norm(cases.observed, axis=1)
    spread = np.linalg.norm(cases.members.std(axis=1), axis=1)
    usual = float(max(ways.max(), np.median(spread[first])))
    if offset > _MAX_OFFSET * usual:
        msg = (
            f"{cases.name}: forecasts begin {readable(offset, unit, 3)} from the drifters, which "
            f"move {readable(usual, unit, 3)} in all; check the units and coordinates of both files"
        )
        raise DriftbayesError(msg)
