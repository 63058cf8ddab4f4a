"""Match members of an ensemble with observed positions."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np
from scipy.spatial import cKDTree

from driftbayes._typing import FloatArray, IntArray
from driftbayes.data._fixes import rows_at
from driftbayes.data._trajectories import GRID_TOLERANCE, Trajectories
from driftbayes.data._units import length_factor, readable, time_factor
from driftbayes.data.sphere import between, points_in_space
from driftbayes.data.tangent import ground_of
from driftbayes.errors import DriftbayesError, shown

# Largest start offset of an ensemble, in mean distances travelled by the drifters.
_MAX_OFFSET = 3.0
# A member belongs to a drifter if its distance is below this fraction of that to any other drifter.
_NEARER = 0.5
_ROUNDING = 1e-6


@dataclass(frozen=True, eq=False)
class Cases:
    """Forecasts at single lead times, each with its members and the observation.

    Args:
        name: Name of the ensemble.
        drifter: Number of the observed trajectory of each case.
        row: Row of the observed position.
        forecast: Number of the forecast: one drifter from one start.
        lead: Time since the start of the forecast.
        start: Start time of the forecast.
        members: Members relative to the observed position, (case, member, axis).
        paths: Members relative to the observed start position, (case, member, axis).
        observed: Observed position relative to the start position, (case, axis).
        travelled: Length of the observed path since the start.
        notes: Notes on excluded data.
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
        """Return selected cases."""
        names = (
            *("drifter", "row", "forecast", "lead", "start"),
            *("members", "paths", "observed", "travelled"),
        )
        return replace(self, **{name: getattr(self, name)[which] for name in names})


def match_cases(ensemble: Trajectories, observed: Trajectories, name: str) -> Cases:
    """Match the members of an ensemble with observed positions at the same times.

    Trajectories named "drifter/member" belong to the observed trajectory of that name
    ("drifter@start/member" if there are several forecasts of a drifter). Others belong to the
    drifter at their start position.

    Args:
        ensemble: Trajectories of all members.
        observed: Observed trajectories.
        name: Name of the ensemble, for messages.
    """
    ensemble, observed = _drop_unrelated_lonlat(ensemble), _drop_unrelated_lonlat(observed)
    ensemble = _to_coordinates_of(ensemble, observed, name)
    if not ensemble.observed.all():
        n_missing = int((~ensemble.observed).sum())
        raise DriftbayesError(
            f"{name}: {n_missing:,} positions of members are missing; a forecast is scored only "
            "with all its members, so omit these times"
        )
    forecast, drifter, notes = _assign(ensemble, observed, name)
    slack = _time_tolerance(observed, ensemble)
    of_row = forecast[ensemble.trajectory_index]
    order = np.lexsort((ensemble.times, of_row))
    order = order[of_row[order] >= 0]
    key, time = of_row[order], ensemble.times[order]
    begin = np.flatnonzero(np.r_[True, (np.diff(key) != 0) | (np.diff(time) > slack)])
    key, time = key[begin], time[begin]
    rows = order.reshape(-1, _number_of_members(np.diff(np.r_[begin, len(order)]), name))
    lead = time - time[_first_of_each(key)]
    observed_rows = rows_at(observed, drifter[key], time, slack)
    matched = np.flatnonzero(observed_rows >= 0)
    if not np.any(lead[matched] > slack):
        raise DriftbayesError(
            f"{name}: no position was observed at the times of its forecasts; forecast to the "
            "times of the fixes, or check the time units"
        )
    if len(matched) < len(observed_rows):
        missing = f"{len(observed_rows) - len(matched):,} of {len(observed_rows):,}"
        notes = (*notes, f"{missing} times of forecasts have no observed position")
    forecasts, at = key[matched], observed_rows[matched]
    cases = Cases(
        name=name,
        drifter=drifter[forecasts],
        row=at,
        forecast=forecasts,
        lead=lead[matched],
        start=(time - lead)[matched],
        notes=notes,
        **_relative_positions(ensemble, observed, rows[matched], at, forecasts),
    )
    _check_start(cases, observed.length_unit)
    # Members that share their start position have no spread there, except rounding.
    spread = np.ptp(cases.members, axis=1).max(axis=1)
    return cases.take(spread > _ROUNDING * spread.max())


def _drop_unrelated_lonlat(tracks: Trajectories) -> Trajectories:
    """Drop longitudes and latitudes that the positions were not computed from."""
    is_related = tracks.lonlat is None or ground_of(tracks) is not None
    return tracks if is_related else replace(tracks, lonlat=None)


def _to_coordinates_of(ensemble: Trajectories, observed: Trajectories, name: str) -> Trajectories:
    """Convert the ensemble to the units and coordinates of the observations."""
    if ensemble.n_dim != observed.n_dim:
        msg = f"{name}: members have {ensemble.n_dim} axes, observations {observed.n_dim}"
        raise DriftbayesError(msg)
    if (ensemble.lonlat is None) != (observed.lonlat is None):
        with_degrees = "observations" if ensemble.lonlat is None else "members"
        raise DriftbayesError(
            f"{name}: only {with_degrees} are in longitude and latitude; give both files in the "
            "same coordinates"
        )
    factors = {}
    pairs = (
        ("length", length_factor, ensemble.length_unit, observed.length_unit),
        ("time", time_factor, ensemble.time_unit, observed.time_unit),
    )
    for quantity, factor, unit, other in pairs:
        if unit and other and unit != other:
            factors[quantity] = factor(unit, other)
    converted = ensemble.in_units(**factors) if factors else ensemble
    later = _origin_offset(ensemble, observed)
    return replace(converted, times=converted.times + later) if later else converted


def _origin_offset(ensemble: Trajectories, observed: Trajectories) -> float:
    """Return the difference of the time origins, if both have dates."""
    origins = [tracks.provenance.get("time_origin") for tracks in (ensemble, observed)]
    if None in origins or origins[0] == origins[1]:
        return 0.0
    dates = [datetime.fromisoformat(str(origin)) for origin in origins]
    # A date without a zone is UTC.
    first, second = (date.replace(tzinfo=date.tzinfo or UTC) for date in dates)
    return (first - second).total_seconds() * time_factor("s", observed.time_unit)[0]


def _time_tolerance(*data: Trajectories) -> float:
    """Return the largest difference of times that are treated as equal."""
    return GRID_TOLERANCE * min(float(np.median(tracks.intervals)) for tracks in data)


def _number_of_members(counts: IntArray, name: str) -> int:
    """Return the common number of members; raise an error if forecasts differ."""
    n = int(np.median(counts))
    if (counts != n).any():
        n_other = int((counts != n).sum())
        other = int(counts[np.flatnonzero(counts != n)[0]])
        raise DriftbayesError(
            f"{name}: {n_other:,} of {len(counts):,} forecasts and times have another number of "
            f"members, for example {other} instead of {n}; members that end early or are missing "
            "bias the scores, so omit these times"
        )
    if n < 3:
        raise DriftbayesError(f"{name}: forecasts have {n} members; scores need 3 or more")
    return n


def _assign(
    ensemble: Trajectories, observed: Trajectories, name: str
) -> tuple[IntArray, IntArray, tuple[str, ...]]:
    """Return the forecast of each trajectory (-1: none), the drifter of each, and notes."""
    ids = [str(text) for text in ensemble.ids]
    number_of = {str(text): i for i, text in enumerate(observed.ids)}
    keys = [text.rpartition("/")[0] for text in ids]
    if not all(keys):
        return _by_place(ensemble, observed, name)
    names = sorted(set(keys))
    drifters = [number_of.get(key, number_of.get(key.rpartition("@")[0], -1)) for key in names]
    numbers = {key: i for i, key in enumerate(names)}
    forecast = np.array([numbers[key] for key in keys])
    drifter = np.array(drifters)
    if (drifter < 0).all():
        examples = ", ".join(shown(key) for key in names[:3])
        raise DriftbayesError(f"{name}: none of its drifters was observed; it has {examples}")
    notes: tuple[str, ...] = ()
    if (drifter < 0).any():
        n = int((drifter < 0).sum())
        notes = (f"{n} of {len(names)} forecasts are of drifters that were not observed",)
        forecast = np.where(drifter[forecast] < 0, -1, forecast)
    return forecast, drifter, notes


def _by_place(
    ensemble: Trajectories, observed: Trajectories, name: str
) -> tuple[IntArray, IntArray, tuple[str, ...]]:
    """Assign members to the drifter at their start position and time."""
    times = ensemble.times[ensemble.starts[:-1]]
    slack = _time_tolerance(observed, ensemble)
    begins = _points(ensemble)[ensemble.starts[:-1]]
    points = _points(observed)
    owner = np.full(len(times), -1)
    for time in np.unique(times):
        starting = np.flatnonzero(times == time)
        drifters = np.arange(observed.n_trajectories)
        rows = rows_at(observed, drifters, np.full(len(drifters), time), slack)
        observed_now = np.flatnonzero(rows >= 0)
        if not len(observed_now):
            continue
        tree = cKDTree(points[rows[observed_now]])
        distance, nearest = tree.query(begins[starting], k=min(2, len(observed_now)))
        distance, nearest = distance.reshape(len(starting), -1), nearest.reshape(len(starting), -1)
        is_single = distance.shape[1] < 2
        clear = (
            np.ones(len(starting), bool) if is_single else distance[:, 0] < _NEARER * distance[:, 1]
        )
        owner[starting[clear]] = observed_now[nearest[clear, 0]]
    if (owner < 0).any():
        n = int((owner < 0).sum())
        raise DriftbayesError(
            f"{name}: {n:,} of {len(owner):,} members begin where no drifter was observed at that "
            "time, or between two; name trajectories drifter/member, or give a table with columns "
            "id, member, time and positions"
        )
    pairs = np.column_stack([owner, np.unique(times, return_inverse=True)[1]])
    forecasts, forecast = np.unique(pairs, axis=0, return_inverse=True)
    return forecast.ravel(), forecasts[:, 0], ()


def _points(tracks: Trajectories) -> FloatArray:
    """Return positions; those on the sphere as points in space."""
    if tracks.lonlat is None:
        return tracks.positions
    lon, lat = np.radians(tracks.lonlat.T)
    return points_in_space(lon, lat, None)[1].T


def _relative_positions(
    ensemble: Trajectories,
    observed: Trajectories,
    rows: IntArray,
    observed_rows: IntArray,
    key: IntArray,
) -> dict[str, FloatArray]:
    """Return members and observations relative to the observed position and to its start."""
    start = observed_rows[_first_of_each(key)]
    all_rows = np.arange(len(observed.times))
    steps = _vectors_between(observed, all_rows[:-1], observed, all_rows[1:])
    inside = np.diff(observed.trajectory_index) == 0
    length = np.nancumsum(np.r_[0.0, np.where(inside, np.linalg.norm(steps, axis=-1), 0.0)])
    return {
        "members": _vectors_between(observed, observed_rows[:, None], ensemble, rows),
        "paths": _vectors_between(observed, start[:, None], ensemble, rows),
        "observed": _vectors_between(observed, start, observed, observed_rows),
        "travelled": length[observed_rows] - length[start],
    }


def _first_of_each(key: IntArray) -> IntArray:
    """Return the index of the first row with the key of each row; equal keys are neighbours."""
    first = np.r_[True, np.diff(key) != 0]
    return np.maximum.accumulate(np.where(first, np.arange(len(key)), 0))


def _vectors_between(
    centre: Trajectories, at: IntArray, tracks: Trajectories, rows: IntArray
) -> FloatArray:
    """Return vectors between rows; on the sphere from arc length and bearing at the first."""
    at, rows = np.broadcast_arrays(at, rows)
    if centre.lonlat is None or tracks.lonlat is None:
        return np.asarray(tracks.positions[rows] - centre.positions[at])
    origin, target = np.radians(centre.lonlat[at.ravel()]), np.radians(tracks.lonlat[rows.ravel()])
    arc, bearing, _ = between(origin, target, None)
    arc = arc * length_factor("m", centre.length_unit)[0]
    out = np.stack([arc * np.sin(bearing), arc * np.cos(bearing)], axis=-1)
    return np.asarray(out.reshape(*at.shape, 2))


def _check_start(cases: Cases, unit: str) -> None:
    """Raise an error if forecasts begin far from the drifters: units or coordinates differ."""
    first = np.r_[True, np.diff(cases.forecast) != 0]
    offset = float(np.median(np.linalg.norm(cases.members[first].mean(axis=1), axis=1)))
    moved = np.linalg.norm(cases.observed, axis=1)
    spread = np.linalg.norm(cases.members.std(axis=1), axis=1)
    scale = float(max(moved.max(), np.median(spread[first])))
    if offset > _MAX_OFFSET * scale:
        raise DriftbayesError(
            f"{cases.name}: forecasts begin {readable(offset, unit, 3)} from the drifters, which "
            f"move {readable(scale, unit, 3)} in all; check the units and coordinates of both files"
        )
