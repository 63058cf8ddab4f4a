"""Trajectories: where the particles were, and when."""

__all__ = ["Trajectories"]

import hashlib
import warnings
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from driftbayes.aliases import public
from driftbayes.data.cards import trajectories_line
from driftbayes.data.labelled import from_dataframe, to_dataframe, to_dataset
from driftbayes.errors import DriftbayesError, DriftbayesWarning, NothingLeftError
from driftbayes.representation import html_of, line_of, text_of
from driftbayes.typing import FloatArray, IntArray, StrArray

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from driftbayes.data.tangent import Ground

# Time stamps may stray from a regular grid by this fraction of the recording interval: wide enough
# for stamps printed with few digits, narrow enough that a variance moves by 0.1 % at the most.
GRID_TOLERANCE = 1e-3
AXES = ("x", "y", "z")


@dataclass(frozen=True, eq=False)
class Trajectories:
    """Positions of many particles as one ragged array, trajectory after trajectory.

    A row of NaN is a missing fix. Times increase strictly within a trajectory; trajectories
    may start at different times and have different lengths.

    Args:
        positions: Coordinates, one row per observation, 1 to 3 columns.
        times: Time of each observation.
        row_sizes: Number of observations of each trajectory; they sum to the number of rows.
        ids: Name of each trajectory.
        position_sd: Standard deviation of the measurement error of each observation, if known.
        length_unit: Name of the unit of `positions`, empty if unknown.
        time_unit: Name of the unit of `times`, empty if unknown.
        provenance: Where the data come from: file, reader, seed, options.
        lonlat: Longitude and latitude of each observation in degrees, if the positions were laid on
            a plane from them.
        flags: What a file says of each observation, by name: "drogued" is 1, 0 or NaN.
    """

    positions: FloatArray
    times: FloatArray
    row_sizes: IntArray
    ids: StrArray
    position_sd: FloatArray | None = None
    length_unit: str = ""
    time_unit: str = ""
    provenance: Mapping[str, Any] = field(default_factory=dict)
    lonlat: FloatArray | None = None
    flags: Mapping[str, FloatArray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check shapes and values once, here, so that no later step has to."""
        flags = {name: _read_only(values, np.float64) for name, values in self.flags.items()}
        object.__setattr__(self, "flags", flags)
        for name in ("positions", "times", "position_sd", "lonlat"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, _read_only(getattr(self, name), np.float64))
        object.__setattr__(self, "row_sizes", _read_only(self.row_sizes, np.int64))
        object.__setattr__(self, "ids", np.atleast_1d(np.asarray(self.ids)))
        self._check_shapes()
        self._check_values()

    @classmethod
    def from_arrays(
        cls,
        x: ArrayLike | Sequence[ArrayLike],
        *,
        dt: float | None = None,
        times: ArrayLike | Sequence[ArrayLike] | None = None,
        ids: Sequence[Any] | None = None,
        **attributes: Any,
    ) -> "Trajectories":
        """Trajectories from a (particle, time, dim) array, or from a list of (time, dim) arrays.

        Args:
            x: Positions; NaN marks a missing fix.
            dt: Recording interval; or give `times`.
            times: One array of times shared by all particles, or one per particle.
            ids: Names of the particles, by default 0, 1, 2, ...
            **attributes: `position_sd` (shaped like `x` without its last axis), `length_unit`,
                `time_unit`, `provenance`.
        """
        tracks = _as_tracks(x)
        row_sizes = np.array([len(track) for track in tracks], dtype=np.int64)
        if (dt is None) == (times is None):
            msg = "give either dt (the recording interval) or times, not both and not neither"
            raise DriftbayesError(msg)
        if dt is not None:
            if not (np.isfinite(dt) and dt > 0):
                msg = f"dt must be a positive number, got {dt}"
                raise DriftbayesError(msg)
            stamps = [np.arange(n) * float(dt) for n in row_sizes]
        else:
            stamps = _as_stamps(times, row_sizes)
        noise = attributes.pop("position_sd", None)
        if noise is not None:
            attributes["position_sd"] = np.concatenate([np.asarray(s, float) for s in noise])
        return cls(
            positions=np.concatenate(tracks),
            times=np.concatenate(stamps),
            row_sizes=row_sizes,
            ids=np.arange(len(tracks)) if ids is None else np.asarray(ids),
            **attributes,
        )

    @classmethod
    def from_dataframe(
        cls,
        frame: "pd.DataFrame",
        *,
        columns: Mapping[str, str] | None = None,
        length_unit: str | None = None,
        time_unit: str | None = None,
    ) -> "Trajectories":
        """Trajectories from a pandas table; see `labelled.py` for the arguments."""
        return from_dataframe(frame, columns=columns, length_unit=length_unit, time_unit=time_unit)

    def to_dataframe(self) -> "pd.DataFrame":
        """A pandas table, one row per observation; units and fingerprint in its `attrs`."""
        return to_dataframe(self)

    def to_dataset(self) -> "xr.Dataset":
        """An xarray Dataset, trajectories one after the other; units in its attributes."""
        return to_dataset(self)

    def compare(self, tau: float | str, **options: Any) -> Any:
        """Compare models at one sampling time; see `driftbayes.compare`."""
        return public("compare")(self, tau, **options)

    def scan(self, taus: Iterable[float] | None = None, **options: Any) -> Any:
        """Compare models at many sampling times; see `driftbayes.scan`."""
        return public("scan")(self, taus, **options)

    def check(self, tau: float | str, **options: Any) -> Any:
        """Test the goodness of fit of models; see `driftbayes.check`."""
        return public("check")(self, tau, **options)

    def sensitivity(self, tau: float | str, **options: Any) -> Any:
        """Compute the sensitivity of the verdict to the priors; see `driftbayes.sensitivity`."""
        return public("sensitivity")(self, tau, **options)

    def score(self, tau: float | str, **options: Any) -> Any:
        """Score predictions of held-out trajectories; see `driftbayes.score`."""
        return public("score")(self, tau, **options)

    def predict(self, tau: float | str, horizons: ArrayLike, **options: Any) -> Any:
        """Predict the dispersion of particles; see `driftbayes.predict`."""
        return public("predict")(self, tau, horizons, **options)

    def map(self, cell: float | str, taus: Iterable[float], **options: Any) -> Any:
        """Compare models in every cell of a grid; see `driftbayes.map`."""
        return public("map")(self, cell, taus, **options)

    def info(self) -> Any:
        """Describe the sampling and suggest sampling times; see `driftbayes.info`."""
        return public("info")(self)

    def dependence(self, tau: float, **options: Any) -> Any:
        """Estimate the effective number of independent particles; see `driftbayes.dependence`."""
        return public("dependence")(self, tau, **options)

    @property
    def n_trajectories(self) -> int:
        """Number of trajectories."""
        return len(self.row_sizes)

    @property
    def n_dim(self) -> int:
        """Number of spatial dimensions d."""
        return self.positions.shape[1]

    @cached_property
    def starts(self) -> IntArray:
        """Row at which each trajectory starts, and one past the last row at the end."""
        return np.concatenate([[0], np.cumsum(self.row_sizes)])

    @cached_property
    def trajectory_index(self) -> IntArray:
        """Number of the trajectory that each row belongs to."""
        return np.repeat(np.arange(self.n_trajectories), self.row_sizes)

    @cached_property
    def observed(self) -> np.ndarray:
        """Which rows hold a position."""
        return ~np.isnan(self.positions[:, 0])

    @cached_property
    def n_positions(self) -> IntArray:
        """Number of positions of each trajectory, missing fixes not counted."""
        return np.add.reduceat(self.observed, self.starts[:-1], dtype=np.int64)

    @cached_property
    def elapsed(self) -> FloatArray:
        """Time of each row since the first row of its trajectory."""
        return self.times - np.repeat(self.times[self.starts[:-1]], self.row_sizes)

    @cached_property
    def intervals(self) -> FloatArray:
        """Times between successive rows of the same trajectory, all in one array."""
        steps = np.diff(self.times)
        return steps[np.diff(self.trajectory_index) == 0]

    @cached_property
    def recording_interval(self) -> float | None:
        """The interval dt of which all times, counted from each trajectory's first, are multiples.

        None if the times are irregular. Refined over the whole record, so that stamps
        rounded to a few digits still give the true interval.
        """
        if len(self.intervals) == 0:
            return None
        dt = float(self.intervals.min())
        elapsed = self.elapsed
        if elapsed.max() > 2**53 * dt:
            return None
        steps = np.round(elapsed / dt)
        # From near to far: a slightly wrong dt miscounts the steps at the end of a long record.
        for horizon in (1e2, 1e4, 1e6, np.inf):
            near = steps <= horizon
            if steps[near].any():
                dt = float(np.sum(elapsed[near] * steps[near]) / np.sum(steps[near] ** 2))
                steps = np.round(elapsed / dt)
        off = np.abs(elapsed - steps * dt)
        slack = GRID_TOLERANCE * dt + 4 * np.spacing(np.abs(self.times).max())
        return dt if off.max() <= slack else None

    @cached_property
    def grid_index(self) -> IntArray:
        """Number of recording intervals between each row and the first row of its trajectory."""
        if self.recording_interval is None:
            raise DriftbayesError(self.irregular_message())
        return np.round(self.elapsed / self.recording_interval).astype(np.int64)

    @cached_property
    def whole(self) -> np.ndarray:
        """Which trajectories have a position at every recording interval, from first to last."""
        ends = self.starts[1:] - 1
        observed = np.logical_and.reduceat(self.observed, self.starts[:-1])
        return observed & (self.grid_index[ends] == self.row_sizes - 1)

    @cached_property
    def ground(self) -> "tuple[Ground, FloatArray | None] | None":
        """The frame that trajectories from degrees have in common; see `tangent.py`."""
        from driftbayes.data.tangent import ground_of

        return ground_of(self)

    @cached_property
    def fingerprint(self) -> str:
        """A short hash of positions, times, errors and units: equal data, equal fingerprint."""
        digest = hashlib.sha256()
        for array in (self.positions, self.times, self.row_sizes, self.position_sd):
            digest.update(b"none" if array is None else _one_nan(array).tobytes())
        digest.update(f"{self.n_dim}|{self.length_unit}|{self.time_unit}".encode())
        return digest.hexdigest()[:16]

    def unwrap(self, period: float | Sequence[float | None]) -> "Trajectories":
        """Positions continued across the edges of a periodic domain.

        Each step between successive fixes is replaced by its shortest image, which is right as
        long as no particle moves more than half a period between two fixes.

        Args:
            period: Length of the domain, one for all axes or one per axis (None: not periodic).
        """
        periods: list[float | None]
        several = isinstance(period, Sequence | np.ndarray)
        periods = list(period) if several else [period] * self.n_dim  # type: ignore[arg-type,list-item]
        if len(periods) != self.n_dim:
            msg = f"period must have one entry per axis ({self.n_dim}), got {len(periods)}"
            raise DriftbayesError(msg)
        rows = np.flatnonzero(self.observed)
        same = np.diff(self.trajectory_index[rows]) == 0
        positions = self.positions.copy()
        for axis, length in enumerate(periods):
            if length is None:
                continue
            if not (np.isfinite(length) and length > 0):
                msg = f"period must be a positive number, got {length}"
                raise DriftbayesError(msg)
            steps = np.diff(positions[rows, axis])
            turns = np.where(same, np.round(steps / length), 0.0)
            shortest = np.abs(steps - turns * length)[same]
            if shortest.size and shortest.max() > 0.4 * length:
                warnings.warn(
                    f"steps of up to {shortest.max() / length:.0%} of the period along "
                    f"{AXES[axis]}: unwrapping is ambiguous near half a period; record more often",
                    DriftbayesWarning,
                    stacklevel=2,
                )
            total = np.concatenate([[0.0], np.cumsum(turns)])
            # Turns counted from the first fix of each trajectory, not from that of the file.
            first = np.concatenate([[True], ~same])
            total -= np.repeat(total[first], np.diff(np.append(np.flatnonzero(first), len(rows))))
            positions[rows, axis] -= total * length
        return replace(
            self,
            positions=positions,
            provenance={**self.provenance, "unwrapped": [p and float(p) for p in periods]},
        )

    def drop_short(self, min_points: int = 2) -> "Trajectories":
        """Only the trajectories that have at least `min_points` positions."""
        keep = self.n_positions >= min_points
        if not keep.any():
            msg = f"no trajectory has {min_points} or more positions; nothing is left"
            raise NothingLeftError(msg)
        kept = self.select(keep[self.trajectory_index])
        return replace(kept, provenance={**self.provenance, "dropped_short": int((~keep).sum())})

    def select(self, rows: np.ndarray) -> "Trajectories":
        """Only some observations; a trajectory of which none is left is gone.

        Args:
            rows: True for the observations to keep.
        """
        counts = np.add.reduceat(rows, self.starts[:-1]).astype(np.int64)
        if not counts.any():
            msg = "no observation is left; keep at least one"
            raise NothingLeftError(msg)
        return replace(
            self,
            positions=self.positions[rows],
            times=self.times[rows],
            row_sizes=counts[counts > 0],
            ids=self.ids[counts > 0],
            position_sd=None if self.position_sd is None else self.position_sd[rows],
            lonlat=None if self.lonlat is None else self.lonlat[rows],
            flags={name: values[rows] for name, values in self.flags.items()},
        )

    def blanked(self, rows: np.ndarray) -> "Trajectories":
        """Some observations made missing fixes: their times stay, their positions are NaN.

        Args:
            rows: True for the observations to blank.
        """
        positions = np.where(rows[:, None], np.nan, self.positions)
        lonlat = None if self.lonlat is None else np.where(rows[:, None], np.nan, self.lonlat)
        return replace(self, positions=positions, lonlat=lonlat)

    def in_units(
        self, *, length: tuple[float, str] | None = None, time: tuple[float, str] | None = None
    ) -> "Trajectories":
        """The same trajectories with positions and times in other units.

        Args:
            length: What to multiply positions by, and the name of the unit they are then in.
            time: What to multiply times by, and the name of the unit they are then in.
        """
        changed: dict[str, Any] = {}
        for what, factor in (("length", length), ("time", time)):
            if factor is not None and not (np.isfinite(factor[0]) and factor[0] > 0):
                msg = f"the factor to multiply a {what} by must be positive, got {factor[0]}"
                raise DriftbayesError(msg)
        if length is not None:
            sd = self.position_sd
            changed |= {"positions": self.positions * length[0], "length_unit": length[1]}
            changed |= {"position_sd": None if sd is None else sd * length[0]}
        if time is not None:
            changed |= {"times": self.times * time[0], "time_unit": time[1]}
        return replace(self, **changed)

    def on_interval(self, dt: float) -> "Trajectories":
        """The same trajectories, known to be recorded every `dt`: a part of a file that is.

        By themselves they might have no two fixes one interval apart, or round it otherwise.

        Args:
            dt: The recording interval, at which their times must be.
        """
        elapsed = self.elapsed
        off = np.abs(elapsed - np.round(elapsed / dt) * dt).max()
        if off > GRID_TOLERANCE * dt + 4 * np.spacing(np.abs(self.times).max()):
            unit = f" {self.time_unit}" if self.time_unit else ""
            msg = (
                f"times are irregular: one is {off:g}{unit} away from all multiples of the "
                f"recording interval {dt:g}{unit} that the first trajectories have; resample them, "
                "or use a part of the data"
            )
            raise DriftbayesError(msg)
        # A copy, whose values need not be checked again.
        same = copy(self)
        for name in ("grid_index", "whole"):
            same.__dict__.pop(name, None)
        same.__dict__["recording_interval"] = float(dt)
        return same

    def check_usable(self) -> None:
        """Refuse trajectories in which some particle cannot have moved."""
        for n_positions, what in ((0, "no position at all (all NaN)"), (1, "only one position")):
            bad = np.flatnonzero(self.n_positions == n_positions)
            if len(bad):
                others = f" and {len(bad) - 1} others" if len(bad) > 1 else ""
                msg = (
                    f"trajectory {str(self.ids[bad[0]])!r}{others} has {what}; a displacement "
                    "needs two: remove it, or pass --drop-short (in Python: .drop_short())"
                )
                raise DriftbayesError(msg)

    def irregular_message(self) -> str:
        """Why a sampling time cannot be applied to these times, and what to do instead."""
        if len(self.intervals) == 0:
            return "every trajectory has only one position; a sampling time needs at least two"
        low, high = self.intervals.min(), self.intervals.max()
        unit = f" {self.time_unit}" if self.time_unit else ""
        return (
            f"times are irregular (intervals from {low:g} to {high:g}{unit}); pass --tau all "
            "(in Python: tau=None) to use every position at its own interval"
        )

    def _check_shapes(self) -> None:
        if self.positions.ndim != 2 or not 1 <= self.positions.shape[1] <= 3:
            msg = (
                f"positions have shape {self.positions.shape}, expected (observation, dim) with "
                "1 to 3 dimensions"
            )
            raise DriftbayesError(msg)
        n_rows = len(self.positions)
        if self.times.shape != (n_rows,):
            msg = f"times have shape {self.times.shape}, expected ({n_rows},), one per position"
            raise DriftbayesError(msg)
        if len(self.row_sizes) == 0 or n_rows == 0:
            msg = "there are no trajectories; expected at least one position"
            raise DriftbayesError(msg)
        if (self.row_sizes <= 0).any() or self.row_sizes.sum() != n_rows:
            msg = (
                f"row_sizes must be positive and sum to the number of rows {n_rows}, got a sum of "
                f"{self.row_sizes.sum()}"
            )
            raise DriftbayesError(msg)
        if self.ids.shape != self.row_sizes.shape:
            n_ids, n_tracks = self.ids.size, len(self.row_sizes)
            msg = f"there are {n_ids} ids for {n_tracks} trajectories; give each its own"
            raise DriftbayesError(msg)
        names, counts = np.unique(self.ids.astype(str), return_counts=True)
        if counts.max() > 1:
            msg = (
                f"id {str(names[counts.argmax()])!r} names {counts.max()} trajectories; "
                "every trajectory needs an id of its own"
            )
            raise DriftbayesError(msg)
        if self.position_sd is not None and self.position_sd.shape != (n_rows,):
            msg = (
                f"position_sd has shape {self.position_sd.shape}, expected ({n_rows},), "
                "one standard deviation per observation"
            )
            raise DriftbayesError(msg)
        if self.lonlat is not None and self.lonlat.shape != (n_rows, 2):
            msg = f"lonlat has shape {self.lonlat.shape}, expected ({n_rows}, 2)"
            raise DriftbayesError(msg)
        for name, values in self.flags.items():
            if values.shape != (n_rows,):
                msg = f"flag {name!r} has shape {values.shape}, expected ({n_rows},)"
                raise DriftbayesError(msg)

    def _check_values(self) -> None:
        if not np.isfinite(self.positions).all():
            self._check_missing()
        if not np.isfinite(self.times).all():
            row = int(np.flatnonzero(~np.isfinite(self.times))[0])
            msg = (
                f"trajectory {self._id_of(row)!r} has a time that is not a number (row {row}); "
                "correct it"
            )
            raise DriftbayesError(msg)
        steps = np.diff(self.times)
        # From one trajectory to the next, times may go back.
        steps[self.starts[1:-1] - 1] = np.inf
        bad = steps <= 0
        if bad.any():
            row = int(np.argmax(bad)) + 1
            what = "twice" if steps[row - 1] == 0 else f"after {self._time(row - 1)}"
            kind = "duplicate" if steps[row - 1] == 0 else "decreasing"
            msg = (
                f"{kind} times: trajectory {self._id_of(row)!r} has time {self._time(row)} {what}; "
                "times must increase strictly within a trajectory"
            )
            raise DriftbayesError(msg)
        if self.position_sd is not None:
            wrong = self.observed & ~(np.isfinite(self.position_sd) & (self.position_sd >= 0))
            if wrong.any():
                row = int(np.flatnonzero(wrong)[0])
                msg = (
                    f"trajectory {self._id_of(row)!r} at time {self._time(row)} has a position "
                    f"with the measurement error {self.position_sd[row]:g}; it must be 0 or more"
                )
                raise DriftbayesError(msg)

    def _check_missing(self) -> None:
        """Refuse rows with some coordinates, and infinite ones."""
        missing = np.isnan(self.positions)
        partial = missing.any(axis=1) & ~missing.all(axis=1)
        if partial.any():
            row = int(np.flatnonzero(partial)[0])
            has = [AXES[i] for i in range(self.n_dim) if not missing[row, i]]
            lacks = [AXES[i] for i in range(self.n_dim) if missing[row, i]]
            msg = (
                f"trajectory {self._id_of(row)!r} at time {self._time(row)} has {', '.join(has)} "
                f"but no {', '.join(lacks)}: all observations need the same {self.n_dim} "
                "coordinates; fill or remove the column, or blank the whole row for a missing fix"
            )
            raise DriftbayesError(msg)
        if np.isinf(self.positions).any():
            row = int(np.flatnonzero(np.isinf(self.positions).any(axis=1))[0])
            msg = (
                f"trajectory {self._id_of(row)!r} has an infinite coordinate at time "
                f"{self._time(row)}; write NaN for a missing fix"
            )
            raise DriftbayesError(msg)

    def _id_of(self, row: int) -> str:
        return str(self.ids[self.trajectory_index[row]])

    def _time(self, row: int) -> str:
        """A time with as many digits as it takes to tell it from its neighbours."""
        return f"{self.times[row]:.15g}"

    def __repr__(self) -> str:
        """One line: how many, how often, in which units."""
        return line_of(trajectories_line, self)

    def __str__(self) -> str:
        """Some lines: sizes, times, ranges, suggested sampling times and warnings."""
        return text_of(public("trajectories_card"), self)

    def _repr_html_(self) -> str:
        return html_of(public("trajectories_card"), self)


def _read_only(array: ArrayLike, dtype: type) -> NDArray[Any]:
    """A contiguous read-only view; the caller's own array stays writable."""
    view: NDArray[Any] = np.ascontiguousarray(array, dtype=dtype).view()
    view.flags.writeable = False
    return view


def _one_nan(array: NDArray[Any]) -> NDArray[Any]:
    """Every NaN alike: files and processors differ in the bits of theirs."""
    return np.where(np.isnan(array), np.nan, array) if array.dtype.kind == "f" else array


def _as_tracks(x: ArrayLike | Sequence[ArrayLike]) -> list[FloatArray]:
    if isinstance(x, np.ndarray) or (hasattr(x, "ndim") and hasattr(x, "shape")):
        array = np.asarray(x, dtype=np.float64)
        if array.ndim != 3:
            msg = f"x has {array.ndim} axes, expected (particle, time, dim)"
            raise DriftbayesError(msg)
        return list(array)
    tracks = [np.asarray(track, dtype=np.float64) for track in x]  # type: ignore[union-attr]
    if not tracks:
        msg = "there are no trajectories; expected at least one position"
        raise DriftbayesError(msg)
    for i, track in enumerate(tracks):
        if track.ndim != 2:
            msg = f"track {i} has {track.ndim} axes, expected (time, dim)"
            raise DriftbayesError(msg)
        if track.shape[1] != tracks[0].shape[1]:
            msg = (
                f"mixed dimensions: track {i} has {track.shape[1]} coordinates where track 0 has "
                f"{tracks[0].shape[1]}; all trajectories need the same"
            )
            raise DriftbayesError(msg)
    return tracks


def _as_stamps(times: Any, row_sizes: IntArray) -> list[FloatArray]:
    if len(times) == 0:
        msg = "times is empty; expected one time per position"
        raise DriftbayesError(msg)
    if np.ndim(times[0]) == 0:
        shared = np.asarray(times, dtype=np.float64)
        if (row_sizes != len(shared)).any():
            msg = (
                f"one array of {len(shared)} times cannot serve trajectories of "
                f"{row_sizes.min()} to {row_sizes.max()} points; give one array per trajectory"
            )
            raise DriftbayesError(msg)
        return [shared] * len(row_sizes)
    return [np.asarray(stamp, dtype=np.float64) for stamp in times]
