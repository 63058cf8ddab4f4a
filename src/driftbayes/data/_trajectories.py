"""Trajectories: positions of particles at known times."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from driftbayes._aliases import public
from driftbayes._representation import Described
from driftbayes._typing import FloatArray, IntArray, StrArray
from driftbayes._version import __version__
from driftbayes.data import _schema as schema
from driftbayes.data._units import TIME, in_units, readable
from driftbayes.errors import DriftbayesError, NothingLeftError, did_you_mean, expect, shown, warn

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

# Time stamps may differ from a regular grid by this fraction of the recording interval: enough for
# stamps printed with few digits, and a variance changes by 0.1 % at most.
GRID_TOLERANCE = 1e-3
# Times are irregular if a larger fraction of intervals is not a multiple of the recording interval.
MAX_STRAYS = 0.01
_MAX_COUNTED = 1024
AXES = schema.COORDINATES


@dataclass(frozen=True, eq=False, repr=False)
class Trajectories(Described):
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
        lonlat: Longitude and latitude of each observation in degrees, if the positions were
            converted from them.
        flags: Flags of each observation in the file, by name: "drogued" is 1, 0 or NaN.

    Example:
        >>> import numpy as np
        >>> import driftbayes as db
        >>> x = np.zeros((3, 11, 2))
        >>> db.Trajectories.from_arrays(x, dt=0.5, length_unit="km", time_unit="d")
        <Trajectories: 3 in 2D, 33 points, every 0.5 d>
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
        """Make arrays read-only, and check shapes and values."""
        flags = {name: _read_only(values, np.float64) for name, values in self.flags.items()}
        object.__setattr__(self, "flags", flags)
        for name in ("positions", "times", "position_sd", "lonlat"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, _read_only(getattr(self, name), np.float64))
        object.__setattr__(self, "row_sizes", _read_only(self.row_sizes, np.int64))
        object.__setattr__(self, "ids", np.atleast_1d(np.asarray(self.ids)))
        for name in ("length_unit", "time_unit"):
            expect(getattr(self, name), str, name, "text, for example 'm'; empty if unknown")
        self._check_shapes()
        self._check_values()

    @classmethod
    def from_arrays(
        cls,
        x: ArrayLike | Sequence[ArrayLike],
        *,
        dt: float | str | None = None,
        times: ArrayLike | Sequence[ArrayLike] | None = None,
        ids: Sequence[Any] | None = None,
        **attributes: Any,
    ) -> "Trajectories":
        """Make trajectories from a (particle, time, dim) array, or a list of (time, dim) arrays.

        Args:
            x: Positions; NaN or a mask marks a missing position.
            dt: Recording interval, in `time_unit` or with its own unit; or give `times`.
            times: One array of times shared by all particles, or one per particle.
            ids: Names of the particles, by default 0, 1, 2, ...
            **attributes: `position_sd` (shaped like `x` without its last axis), `length_unit`,
                `time_unit`, `provenance`.
        """
        tracks = _as_tracks(x)
        row_sizes = np.array([len(track) for track in tracks], dtype=np.int64)
        if (dt is None) == (times is None):
            given = "neither" if dt is None else "both"
            raise DriftbayesError(f"give either dt (the recording interval) or times, got {given}")
        if dt is not None:
            step = in_units(dt, TIME, ("", attributes.get("time_unit", "")), "dt")
            if not (np.isfinite(step) and step > 0):
                raise DriftbayesError(f"dt must be a positive number, got {dt}")
            stamps = [np.arange(n) * step for n in row_sizes]
        else:
            stamps = _per_track("times", times, row_sizes, "time")
        noise = attributes.pop("position_sd", None)
        if noise is not None:
            errors = _per_track("position_sd", noise, row_sizes, "error")
            attributes["position_sd"] = np.concatenate(errors)
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
        columns: Mapping[str, str | None] | None = None,
        length_unit: str | None = None,
        time_unit: str | None = None,
    ) -> "Trajectories":
        """Make trajectories from a pandas table with one row per observation.

        Args:
            frame: Table with the columns `id`, `time`, `x` and optionally `y`, `z`, `sd`, `lon` and
                `lat`, and `flag_...`. Rows of different trajectories may be mixed. Dates become
                seconds since 1970.
            columns: Column names that differ from these: `{"id": "particle"}`.
            length_unit: Unit of positions, by default that in `frame.attrs`.
            time_unit: Unit of times, by default that in `frame.attrs`.
        """
        fields = schema.from_frame(frame, columns)
        if length_unit is not None:
            fields["length_unit"] = length_unit
        if time_unit is not None and "time_origin" not in fields["provenance"]:
            fields["time_unit"] = time_unit
        return cls(**fields)

    def to_dataframe(self) -> "pd.DataFrame":
        """Return a pandas table, one row per observation; units and provenance are in `attrs`."""
        import pandas as pd

        variables, _ = self.ragged_variables()
        columns = {schema.ID: self.ids[self.trajectory_index], schema.TIME: self.times}
        columns |= {name: values for name, (dim, values, _) in variables.items() if dim == "obs"}
        units = {n: a["units"] for n, (_, _, a) in variables.items() if "units" in a}
        units |= {name: "degree" for name in schema.LONLAT if name in columns}
        frame = pd.DataFrame(columns)
        frame.attrs = {
            "units": {schema.TIME: self.time_unit, **units},
            **self._described(),
            "provenance": dict(self.provenance),
        }
        return frame

    def to_dataset(self) -> "xr.Dataset":
        """Return an xarray Dataset in the CF contiguous ragged layout, with units."""
        import json

        import xarray as xr

        variables, coords = self.ragged_variables()
        provenance = json.dumps(dict(self.provenance), default=str)
        attrs = {**self._described(), "provenance": provenance}
        return xr.Dataset(variables, coords=coords, attrs=attrs)

    def ragged_variables(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return variables and coordinates of a dataset, each with dimension and attributes."""
        dim, time, length = schema.OBS_DIM, {}, {}
        if self.time_unit:
            time = {schema.TIME_UNIT_ATTRIBUTE: self.time_unit}
        if self.length_unit:
            length = {"units": self.length_unit}
        counts = {"long_name": "number of observations", "sample_dimension": dim}
        found: dict[str, Any] = {schema.COUNT: (schema.TRAJECTORY_DIM, self.row_sizes, counts)}
        for axis, values in zip(AXES, self.positions.T, strict=False):
            found[axis] = (dim, np.ascontiguousarray(values), {"axis": axis.upper(), **length})
        if self.position_sd is not None:
            about = {"long_name": "standard deviation of the error of a position", **length}
            found[schema.POSITION_SD] = (dim, self.position_sd, about)
        if self.lonlat is not None:
            names = (("degrees_east", "longitude"), ("degrees_north", "latitude"))
            for axis, values, (unit, name) in zip(schema.LONLAT, self.lonlat.T, names, strict=True):
                about = {"units": unit, "standard_name": name}
                found[axis] = (dim, np.ascontiguousarray(values), about)
        for name, values in self.flags.items():
            about = {"long_name": f"{name}, as the source has it"}
            found[f"{schema.FLAG}{name}"] = (dim, values, about)
        ids = (schema.TRAJECTORY_DIM, np.asarray(self.ids), {"cf_role": "trajectory_id"})
        return found, {schema.ID: ids, schema.TIME: (dim, self.times, {"axis": "T", **time})}

    def _described(self) -> dict[Any, Any]:
        return {
            "length_unit": self.length_unit,
            "time_unit": self.time_unit,
            "data_fingerprint": self.fingerprint,
            "driftbayes_version": __version__,
        }

    def compare(self, tau: float | str, **options: Any) -> Any:
        """Compare models at one sampling time; see `driftbayes.compare`."""
        return public("compare")(self, tau, **options)

    def scan(self, taus: Iterable[float] | str | None = None, **options: Any) -> Any:
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

    def map(self, tau: float | str | Iterable[float | str], **options: Any) -> Any:
        """Map dispersion by evidence, or on a fixed grid; see `driftbayes.map`."""
        return public("map")(self, tau, **options)

    def pairs(self, tau: float | str | Iterable[float | str], **options: Any) -> Any:
        """Compare laws of relative dispersion; see `driftbayes.pairs`."""
        return public("pairs")(self, tau, **options)

    def segments(self, tau: float | str, **options: Any) -> Any:
        """Find where each track changes; see `driftbayes.segments`."""
        return public("segments")(self, tau, **options)

    def field(self, tau: float | str, **options: Any) -> Any:
        """Fit smooth fields of diffusivity and flow; see `driftbayes.field`."""
        return public("field")(self, tau, **options)

    def presence(self, horizons: ArrayLike | str, space: Any, **options: Any) -> Any:
        """Predict positions in a map or field; see `driftbayes.presence`."""
        return public("presence")(self, horizons, space, **options)

    def recommend(self, tau: float | str, horizons: ArrayLike | str, **options: Any) -> Any:
        """Recommend parameters for a simulator at a time horizon; see `driftbayes.recommend`."""
        return public("recommend")(self, tau, horizons, **options)

    def backtest(self, tau: float | str, horizons: ArrayLike | str, **options: Any) -> Any:
        """Score forecasts from earlier times; see `driftbayes.backtest`."""
        return public("backtest")(self, tau, horizons, **options)

    def diagnose(self, **options: Any) -> Any:
        """Compute diagnostics without a model; see `driftbayes.diagnose`."""
        return public("diagnose")(self, **options)

    def qc(self, checks: Any = ()) -> Any:
        """Inspect the quality of the data, without changing them; see `driftbayes.qc`."""
        return public("qc")(self, checks)

    def save(self, path: Any) -> None:
        """Write the trajectories; see `driftbayes.write_trajectories`."""
        public("write_trajectories")(self, path)

    def report(self, path: Any, **options: Any) -> Any:
        """Write a self-contained HTML report; see `driftbayes.write_report`."""
        return public("write_report")(self, path, **options)

    def info(self) -> Any:
        """Describe the sampling and suggest sampling times; see `driftbayes.info`."""
        return public("info")(self)

    def dependence(self, tau: float, **options: Any) -> Any:
        """Estimate the effective number of independent particles; see `driftbayes.dependence`."""
        return public("dependence")(self, tau, **options)

    def __len__(self) -> int:
        """Number of trajectories."""
        return self.n_trajectories

    def __iter__(self) -> Iterator["Trajectories"]:
        """Iterate over single trajectories."""
        return (self[i] for i in range(len(self)))

    def __getitem__(self, which: Any) -> "Trajectories":
        """Select trajectories by number, id, slice, mask, or a list of numbers or ids.

        Example:
            >>> import numpy as np
            >>> import driftbayes as db
            >>> tracks = db.read(np.zeros((3, 4, 2)), dt=1.0, ids=["a", "b", "c"])
            >>> len(tracks), str(tracks["b"].ids[0]), tracks[-2:].n_trajectories
            (3, 'b', 2)
        """
        chosen = self._numbers(which)
        rows = np.concatenate([np.arange(*self.starts[i : i + 2]) for i in chosen])
        return replace(
            self,
            **self._of_rows(rows),
            row_sizes=self.row_sizes[chosen],
            ids=self.ids[chosen],
            provenance={**self.provenance, "selected": f"{len(chosen)} of {len(self)}"},
        )

    def _numbers(self, which: Any) -> IntArray:
        """Return the numbers of the selected trajectories."""
        every = np.arange(len(self))
        if isinstance(which, slice):
            found = every[which]
        elif isinstance(which, str):
            names = [str(name) for name in self.ids]
            if which not in names:
                msg = f"there is no trajectory {which!r}{did_you_mean(which, names)}"
                raise DriftbayesError(msg)
            found = every[[names.index(which)]]
        elif isinstance(which, list) and which and all(isinstance(name, str) for name in which):
            found = np.concatenate([self._numbers(name) for name in which])
        else:
            numbers = np.asarray(which)
            if numbers.dtype.kind not in "biu" or numbers.ndim > 1:
                wanted = "a number, an id, a slice, or a list of numbers or ids"
                expect(which, (), "an index of trajectories", wanted)
            # Raises if a number is too large or a mask has another length.
            found = np.atleast_1d(every[numbers])
        if not len(found):
            raise DriftbayesError(f"{shown(which)} selects none of {len(self)} trajectories")
        return found

    @property
    def units(self) -> tuple[str, str]:
        """Units of length and time; empty where unknown."""
        return self.length_unit, self.time_unit

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
        """Mask of rows with a position."""
        return ~np.isnan(self.positions[:, 0])

    @property
    def fixes(self) -> tuple[IntArray, np.ndarray]:
        """Rows with a position, and whether each but the last shares a track with its next."""
        rows = np.flatnonzero(self.observed)
        return rows, np.diff(self.trajectory_index[rows]) == 0

    @cached_property
    def n_positions(self) -> IntArray:
        """Number of positions of each trajectory, missing fixes not counted."""
        return np.add.reduceat(self.observed, self.starts[:-1], dtype=np.int64)

    @cached_property
    def elapsed(self) -> FloatArray:
        """Time of each row since the first row of its trajectory."""
        return self.times - np.repeat(self.times[self.starts[:-1]], self.row_sizes)

    @property
    def span(self) -> float:
        """Time from the first row to the last position of the longest trajectory."""
        return float(np.max(self.elapsed, where=self.observed, initial=0.0))

    @cached_property
    def intervals(self) -> FloatArray:
        """Times between successive rows of the same trajectory, all in one array."""
        steps = np.diff(self.times)
        return steps[np.diff(self.trajectory_index) == 0]

    @cached_property
    def recording_interval(self) -> float | None:
        """Interval dt of which times since the first of each trajectory are multiples.

        Up to 1 % of the intervals may be odd, for example before the last fix of a deleted
        particle: they count as gaps (`grid_start`). None if the times are irregular. The interval
        is fitted to the whole record, so that it is accurate even from rounded stamps.
        """
        return self.interval_but_for(MAX_STRAYS)

    @property
    def regular_interval(self) -> float:
        """Recording interval; an error if the times are irregular."""
        if self.recording_interval is None:
            raise DriftbayesError(self.irregular_message())
        return self.recording_interval

    def interval_but_for(self, max_strays: float) -> float | None:
        """Return the recording interval, allowing for a fraction `max_strays` of odd intervals."""
        if len(self.intervals) == 0:
            return None
        finest = self._fitted_interval(float(self.intervals.min()), self.elapsed)
        usual = float(np.quantile(self.intervals, 0.5, method="lower"))
        if finest is not None and usual < 1.5 * finest:
            return finest
        if self._is_off(self.intervals, usual).mean() <= max_strays:
            start, strays = self._segments(usual)
            dt = self._fitted_interval(usual, (self.times - self.times[start])[~strays])
            if dt is not None:
                return dt
        return finest

    def _fitted_interval(self, dt: float, elapsed: FloatArray) -> float | None:
        """Find the interval near dt of which times are multiples; None if there is none."""
        if elapsed.max() > 2**53 * dt:
            return None
        dt = fitted_step(elapsed, dt)
        off = np.abs(elapsed - np.round(elapsed / dt) * dt).max()
        return dt if off <= self._slack(dt) else None

    def _slack(self, dt: float) -> float:
        return float(GRID_TOLERANCE * dt + 4 * np.spacing(np.abs(self.times).max()))

    def _is_off(self, intervals: FloatArray, dt: float) -> np.ndarray:
        """Find intervals that are not multiples of dt; both ends may be off the grid."""
        off: np.ndarray = np.abs(intervals - np.round(intervals / dt) * dt) > 2 * self._slack(dt)
        return off

    def _segments(self, dt: float) -> tuple[IntArray, np.ndarray]:
        """Find the first row of the grid of each row, and rows that are on no grid."""
        n_rows = len(self.times)
        joined = np.diff(self.trajectory_index) == 0
        joined &= ~self._is_off(np.diff(self.times), dt)
        strays = ~(np.append(joined, False) | np.append(False, joined))
        strays[self.starts[:-1]] = False
        rows = np.flatnonzero(~strays)
        breaks = np.diff(self.trajectory_index[rows]) != 0
        breaks |= self._is_off(np.diff(self.times[rows]), dt)
        begins = rows[np.append(0, np.flatnonzero(breaks) + 1)]
        return begins[np.searchsorted(begins, np.arange(n_rows), side="right") - 1], strays

    @cached_property
    def _grid(self) -> tuple[IntArray, np.ndarray]:
        dt = self.regular_interval
        if self.n_strays == 0:
            return np.repeat(self.starts[:-1], self.row_sizes), np.zeros(len(self.times), bool)
        return self._segments(dt)

    @cached_property
    def n_strays(self) -> int:
        """Number of intervals that are not multiples of the recording interval."""
        if self.recording_interval is None:
            return 0
        return int(np.sum(self._is_off(self.intervals, self.recording_interval)))

    @property
    def grid_start(self) -> IntArray:
        """First row of the grid of each row.

        That is the first row of its trajectory or, after an odd interval, the first after that.
        """
        return self._grid[0]

    @property
    def strays(self) -> np.ndarray:
        """Mask of rows on no grid: not a multiple of the interval from either neighbour."""
        return self._grid[1]

    @cached_property
    def on_grid(self) -> np.ndarray:
        """Mask of rows with a position on a grid of recording intervals."""
        on: np.ndarray = self.observed & ~self.strays
        return on

    @cached_property
    def grid_steps(self) -> IntArray:
        """Number of recording intervals between each row and its `grid_start`."""
        since = self.times - self.times[self.grid_start]
        return np.round(since / self.regular_interval).astype(np.int64)

    @cached_property
    def grid_index(self) -> IntArray:
        """Number of recording intervals between each row and the first row of its trajectory.

        An odd interval counts as more than the longest trajectory, so that no pair of rows spans
        it.
        """
        if self.n_strays == 0:
            return self.grid_steps
        begins = np.unique(self.grid_start)
        number = np.searchsorted(begins, self.grid_start)
        number -= np.repeat(number[self.starts[:-1]], self.row_sizes)
        return self.grid_steps + number * 2 * (int(self.grid_steps.max()) + 1)

    def interval_counts(self) -> IntArray:
        """Count intervals of 1, 2, ... recording intervals, and odd ones at index 0.

        The last count includes all longer intervals.
        """
        dt = self.regular_interval
        steps = np.minimum(np.round(self.intervals / dt), _MAX_COUNTED).astype(np.int64)
        steps[self._is_off(self.intervals, dt)] = 0
        return np.bincount(steps, minlength=_MAX_COUNTED + 1)

    @property
    def stray_note(self) -> str:
        """Note on odd intervals; empty if there are none."""
        if self.recording_interval is None or self.n_strays == 0:
            return ""
        unused = int(np.sum(self.observed & self.strays))
        return stray_note(self.interval_counts(), self.recording_interval, self.time_unit, unused)

    @cached_property
    def whole(self) -> np.ndarray:
        """Mask of trajectories with a position at every recording interval."""
        ends = self.starts[1:] - 1
        observed = np.logical_and.reduceat(self.on_grid, self.starts[:-1])
        return observed & (self.grid_index[ends] == self.row_sizes - 1)

    @cached_property
    def fingerprint(self) -> str:
        """Short hash of positions, times, errors and units: equal for equal data."""
        digest = hashlib.sha256()
        for array in (self.positions, self.times, self.row_sizes, self.position_sd):
            if array is not None and array.dtype.kind == "f":
                # Use one NaN: their bits differ between files and processors.
                array = np.where(np.isnan(array), np.nan, array)
            digest.update(b"none" if array is None else array.tobytes())
        digest.update(f"{self.n_dim}|{self.length_unit}|{self.time_unit}".encode())
        return digest.hexdigest()[:16]

    def unwrap(self, period: float | Sequence[float | None]) -> "Trajectories":
        """Unwrap positions across the edges of a periodic domain.

        Each step between successive fixes is replaced by its shortest image. This is correct if no
        particle moves more than half a period between two fixes.

        Args:
            period: Length of the domain, one for all axes or one per axis (None: not periodic).
        """
        several = isinstance(period, Sequence | np.ndarray)
        given = list(period) if several else [period] * self.n_dim  # type: ignore[arg-type]
        periods = checked_period(given, self.n_dim)
        rows, same = self.fixes
        positions = self.positions.copy()
        for axis, length in enumerate(periods):
            if length is None:
                continue
            steps = np.diff(positions[rows, axis])
            turns = np.where(same, np.round(steps / length), 0.0)
            shortest = np.abs(steps - turns * length)[same]
            if shortest.size and shortest.max() > 0.4 * length:
                warn(
                    f"steps of up to {shortest.max() / length:.0%} of the period along "
                    f"{AXES[axis]}: unwrapping is ambiguous near half a period; record more often"
                )
            positions[rows, axis] -= running_sum(turns, same) * length
        return replace(
            self, positions=positions, provenance={**self.provenance, "unwrapped": list(periods)}
        )

    @property
    def period(self) -> tuple[float | None, ...] | None:
        """Length of the domain along each axis (None: not periodic), as given to `unwrap`."""
        known = self.provenance.get("unwrapped")
        return checked_period(known, self.n_dim) if isinstance(known, list | tuple) else None

    def drop_short(self, min_points: int = 2) -> "Trajectories":
        """Keep only trajectories with at least `min_points` positions."""
        keep = self.n_positions >= min_points
        if not keep.any():
            msg = f"no trajectory has {min_points} or more positions; nothing is left"
            raise NothingLeftError(msg)
        kept = self.select(keep[self.trajectory_index])
        return replace(kept, provenance={**self.provenance, "dropped_short": int((~keep).sum())})

    def select(self, rows: np.ndarray) -> "Trajectories":
        """Keep only some observations, and trajectories that have any left.

        Args:
            rows: True for the observations to keep.
        """
        rows = self._checked_rows(rows)
        counts = np.add.reduceat(rows, self.starts[:-1], dtype=np.int64)
        if not counts.any():
            raise NothingLeftError("no observation is left; keep at least one")
        return replace(
            self, **self._of_rows(rows), row_sizes=counts[counts > 0], ids=self.ids[counts > 0]
        )

    def _checked_rows(self, rows: Any) -> NDArray[np.bool_]:
        """Refuse numbers of rows, which would select other observations."""
        found = np.asarray(rows)
        if found.dtype != bool or found.shape != self.times.shape:
            raise DriftbayesError(
                f"rows must be an array of {len(self.times):,} truth values, one per observation, "
                f"got {shown(rows)}"
            )
        return found

    def _of_rows(self, rows: np.ndarray) -> dict[str, Any]:
        """Return the fields with one value per observation, for some observations."""
        names = ("positions", "times", "position_sd", "lonlat")
        fields = {name: getattr(self, name) for name in names}
        return {
            **{name: None if values is None else values[rows] for name, values in fields.items()},
            "flags": {name: values[rows] for name, values in self.flags.items()},
        }

    def blanked(self, rows: np.ndarray) -> "Trajectories":
        """Make some observations missing fixes: their times stay, their positions become NaN.

        Args:
            rows: True for the observations to blank.
        """
        rows = self._checked_rows(rows)
        positions = np.where(rows[:, None], np.nan, self.positions)
        lonlat = None if self.lonlat is None else np.where(rows[:, None], np.nan, self.lonlat)
        return replace(self, positions=positions, lonlat=lonlat)

    def in_units(
        self, *, length: tuple[float, str] | None = None, time: tuple[float, str] | None = None
    ) -> "Trajectories":
        """Convert positions and times to other units.

        Args:
            length: Factor for positions, and the name of their new unit.
            time: Factor for times, and the name of their new unit.
        """
        changed: dict[str, Any] = {}
        for what, factor in (("length", length), ("time", time)):
            if factor is not None and not (np.isfinite(factor[0]) and factor[0] > 0):
                raise DriftbayesError(f"the {what} factor must be positive, got {factor[0]}")
        if length is not None:
            sd = self.position_sd
            changed |= {"positions": self.positions * length[0], "length_unit": length[1]}
            changed |= {"position_sd": None if sd is None else sd * length[0]}
            if self.period is not None:
                scaled = [part and part * length[0] for part in self.period]
                changed |= {"provenance": {**self.provenance, "unwrapped": scaled}}
        if time is not None:
            changed |= {"times": self.times * time[0], "time_unit": time[1]}
        return replace(self, **changed)

    def on_interval(self, dt: float) -> "Trajectories":
        """Set the recording interval to that of the whole file.

        A part of a file may have no two fixes one interval apart, or give a differently rounded
        interval.

        Args:
            dt: Recording interval; times must be multiples of it.
        """
        # A copy, without checking its values again.
        same = copy(self)
        for name in ("_grid", "n_strays", "on_grid", "grid_steps", "grid_index", "whole"):
            same.__dict__.pop(name, None)
        same.__dict__["recording_interval"] = float(dt)
        since = (self.times - self.times[same.grid_start])[~same.strays]
        off = np.abs(since - np.round(since / dt) * dt).max()
        if off > self._slack(dt):
            raise DriftbayesError(
                f"times are irregular: one is {readable(off, self.time_unit)} away from all "
                f"multiples of the recording interval {readable(dt, self.time_unit)} that the "
                "first trajectories have; resample them, or use a part of the data"
            )
        return same

    def check_usable(self) -> None:
        """Refuse data with trajectories of fewer than two positions."""
        for n_positions, what in ((0, "no position at all (all NaN)"), (1, "only one position")):
            bad = np.flatnonzero(self.n_positions == n_positions)
            if len(bad):
                others = f" and {len(bad) - 1} others" if len(bad) > 1 else ""
                raise DriftbayesError(
                    f"trajectory {str(self.ids[bad[0]])!r}{others} has {what}; a displacement "
                    "needs two: remove it, or pass --drop-short (in Python: .drop_short())"
                )

    def irregular_message(
        self,
        advice: str = "pass --tau all (in Python: tau='all') to use every position at its own "
        "interval",
    ) -> str:
        """Explain why no sampling time can be applied to these times, and what to do."""
        if len(self.intervals) == 0:
            return "every trajectory has only one position; a sampling time needs at least two"
        low, high = (readable(f(self.intervals), self.time_unit) for f in (np.min, np.max))
        return f"times are irregular (intervals from {low} to {high}); {advice}"

    def _check_shapes(self) -> None:
        if self.positions.ndim != 2 or not 1 <= self.positions.shape[1] <= 3:
            raise DriftbayesError(
                f"positions have shape {self.positions.shape}, expected (observation, dim) with "
                "1 to 3 dimensions"
            )
        n_rows = len(self.positions)
        if len(self.row_sizes) == 0 or n_rows == 0:
            raise DriftbayesError("there are no trajectories; expected at least one position")
        per_row = {"times": self.times, "position_sd": self.position_sd, "lonlat": self.lonlat}
        per_row |= {f"flag {name!r}": values for name, values in self.flags.items()}
        for name, values in per_row.items():
            shape = (n_rows, 2) if name == "lonlat" else (n_rows,)
            if values is not None and values.shape != shape:
                msg = f"{name} has shape {values.shape}, expected {shape}, one row per position"
                raise DriftbayesError(msg)
        if (self.row_sizes <= 0).any() or self.row_sizes.sum() != n_rows:
            raise DriftbayesError(
                f"row_sizes must be positive and sum to the number of rows {n_rows}, got a sum of "
                f"{self.row_sizes.sum()}"
            )
        if self.ids.shape != self.row_sizes.shape:
            n_ids, n_tracks = self.ids.size, len(self.row_sizes)
            raise DriftbayesError(f"got {n_ids} ids for {n_tracks} trajectories; give one for each")
        names, counts = np.unique(self.ids.astype(str), return_counts=True)
        if counts.max() > 1:
            raise DriftbayesError(
                f"id {str(names[counts.argmax()])!r} names {counts.max()} trajectories; "
                "every trajectory needs a unique id"
            )

    def _check_values(self) -> None:
        if not np.isfinite(self.positions).all():
            missing, axes = np.isnan(self.positions), np.array(AXES[: self.n_dim])
            self._refuse(
                missing.any(axis=1) & ~missing.all(axis=1),
                lambda row: (
                    f"has {', '.join(axes[~missing[row]])} but no {', '.join(axes[missing[row]])}: "
                    f"all observations need the same {self.n_dim} coordinates; fill or remove the "
                    "column, or blank the whole row for a missing position"
                ),
            )
            self._refuse(
                np.isinf(self.positions).any(axis=1),
                lambda _: "has an infinite coordinate; write NaN for a missing position",
            )
        self._refuse(
            ~np.isfinite(self.times),
            lambda row: f"has a time that is not a number (row {row}); correct it",
        )
        steps = np.diff(self.times, prepend=-np.inf)
        # Times may decrease from one trajectory to the next.
        steps[self.starts[:-1]] = np.inf
        if (steps <= 0).any():
            row = int(np.argmax(steps <= 0))
            what = "twice" if steps[row] == 0 else f"after {self._time(row - 1)}"
            raise DriftbayesError(
                f"{'duplicate' if steps[row] == 0 else 'decreasing'} times: trajectory "
                f"{self._id_of(row)!r} has time {self._time(row)} {what}; times must increase "
                "strictly within a trajectory"
            )
        sd = self.position_sd
        if sd is not None:
            self._refuse(
                self.observed & ~(np.isfinite(sd) & (sd >= 0)),
                lambda row: (
                    f"has a position with the measurement error {sd[row]:g}; it must be 0 or more"
                ),
            )

    def _refuse(self, bad: Any, what: Callable[[int], str]) -> None:
        """Raise an error for the first bad row that names its trajectory, time and fault."""
        if bad.any():
            row = int(np.argmax(bad))
            msg = f"trajectory {self._id_of(row)!r} at time {self._time(row)} {what(row)}"
            raise DriftbayesError(msg)

    def _id_of(self, row: int) -> str:
        return str(self.ids[self.trajectory_index[row]])

    def _time(self, row: int) -> str:
        """Format a time with enough digits to distinguish it from its neighbours."""
        return f"{self.times[row]:.15g}"


def concatenated(parts: Sequence[Trajectories], **changes: Any) -> Trajectories:
    """Concatenate trajectories of the same kind; units and provenance are those of the first.

    Args:
        parts: Trajectories with the same optional arrays; flags may differ.
        **changes: Fields to replace, such as `ids` that are not unique.
    """
    names = ("positions", "times", "row_sizes", "ids", "position_sd", "lonlat")
    arrays = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in names
        if getattr(parts[0], name) is not None
    }
    flags = {
        name: np.concatenate([p.flags.get(name, np.full(len(p.times), np.nan)) for p in parts])
        for name in sorted({name for part in parts for name in part.flags})
    }
    return replace(parts[0], **{**arrays, "flags": flags, **changes})


def check_tracks(tracks: Any) -> None:
    """Refuse anything but trajectories."""
    expect(tracks, Trajectories, "tracks", "trajectories, as driftbayes.read(...) returns them")


def fitted_step(values: FloatArray, step: float) -> float:
    """Fit the step near a given one of which all values are multiples."""
    # From near to far: a slightly wrong step miscounts the steps of far values.
    for horizon in (1e2, 1e4, 1e6, np.inf):
        counts = np.round(values / step)
        near = counts <= horizon
        if counts[near].any():
            step = float(np.sum(values[near] * counts[near]) / np.sum(counts[near] ** 2))
    return step


def running_sum(steps: NDArray[Any], same: np.ndarray) -> NDArray[Any]:
    """Sum steps up to each fix, from zero at the first fix of each trajectory.

    Args:
        steps: Step from each fix to the next, zero between trajectories.
        same: Whether each fix and the next belong to one trajectory.
    """
    total = np.concatenate(
        [np.zeros_like(steps[:1], shape=(1, *steps.shape[1:])), np.cumsum(steps, axis=0)]
    )
    firsts = np.flatnonzero(np.concatenate([[True], ~same]))
    sizes = np.diff(np.append(firsts, len(total)))
    return np.asarray(total - np.repeat(total[firsts], sizes, axis=0))


def checked_period(period: Any, n_dim: int) -> tuple[float | None, ...]:
    """Check the periods of a domain, each positive or None.

    Args:
        period: Period along each axis.
        n_dim: Number of axes.
    """
    if len(period) != n_dim:
        raise DriftbayesError(f"period must have one entry per axis ({n_dim}), got {len(period)}")
    for length in period:
        is_number = isinstance(length, int | float | np.number)
        if length is not None and not (is_number and np.isfinite(length) and length > 0):
            raise DriftbayesError(f"period must be a positive number, got {length}")
    return tuple(None if length is None else float(length) for length in period)


def stray_note(counts: IntArray, dt: float, time_unit: str, n_unused: int) -> str:
    """Write a note on intervals that are not multiples of the recording interval.

    Args:
        counts: Number of intervals of each length; see `Trajectories.interval_counts`.
        dt: Recording interval.
        time_unit: Its unit.
        n_unused: Number of positions that are therefore not used.
    """
    n = int(counts[0])
    if n == 0:
        return ""
    one = n == 1
    text = (
        f"{n:,} of {counts.sum():,} intervals {'is not a multiple' if one else 'are not multiples'}"
        f" of the recording interval {readable(dt, time_unit)} and "
        f"{'counts as a gap' if one else 'count as gaps'}"
    )
    positions = "1 position is" if n_unused == 1 else f"{n_unused:,} positions are"
    return f"{text}; {positions} not used" if n_unused else text


def _read_only(array: ArrayLike, dtype: type) -> NDArray[Any]:
    """Return a contiguous read-only view; the caller's array stays writable."""
    view: NDArray[Any] = np.ascontiguousarray(array, dtype=dtype).view()
    view.flags.writeable = False
    return view


def _as_tracks(x: ArrayLike | Sequence[ArrayLike]) -> list[FloatArray]:
    if isinstance(x, np.ndarray) or (hasattr(x, "ndim") and hasattr(x, "shape")):
        array = as_numbers("x", x)
        if array.ndim != 3:
            raise DriftbayesError(f"x has {array.ndim} axes, expected (particle, time, dim)")
        return list(array)
    expect(x, Iterable, "x", "an array (particle, time, dim) or a list of arrays (time, dim)")
    tracks = [as_numbers("x", track) for track in x]  # type: ignore[union-attr]
    if not tracks:
        raise DriftbayesError("there are no trajectories; expected at least one position")
    for i, track in enumerate(tracks):
        if track.ndim != 2:
            raise DriftbayesError(f"track {i} has {track.ndim} axes, expected (time, dim)")
        if track.shape[1] != tracks[0].shape[1]:
            raise DriftbayesError(
                f"mixed dimensions: track {i} has {track.shape[1]} coordinates where track 0 has "
                f"{tracks[0].shape[1]}; all trajectories need the same"
            )
    return tracks


def _per_track(name: str, values: Any, row_sizes: IntArray, what: str) -> list[FloatArray]:
    """Return one array per trajectory, of its length; a single one is shared by all."""
    if isinstance(values, str | bytes) or not hasattr(values, "__len__"):
        wanted = f"one {what} per position, in one array per trajectory"
        raise DriftbayesError(f"{name} must be {wanted}, got {shown(values)}")
    if len(values) == 0:
        raise DriftbayesError(f"{name} is empty; expected one {what} per position")
    is_shared = np.ndim(next(iter(values))) == 0
    found = [as_numbers(name, part) for part in ([values] if is_shared else values)]
    found *= len(row_sizes) if is_shared else 1
    if len(found) != len(row_sizes):
        msg = f"{name} has {len(found)} arrays, but there are {len(row_sizes)} trajectories"
        raise DriftbayesError(f"{msg}; give one array per trajectory")
    for array, n in zip(found, row_sizes.tolist(), strict=True):
        if array.shape == (n,):
            continue
        text = f"{name} has shape {array.shape}, expected {(n,)}, one row per position"
        if is_shared:
            least, most = row_sizes.min(), row_sizes.max()
            have = f"{most}" if least == most else f"{least} to {most}"
            text = (
                f"{name} has {len(array)} entries, but trajectories have {have} positions; give "
                "one array per trajectory"
            )
        raise DriftbayesError(text)
    return found


def as_numbers(name: str, values: Any) -> FloatArray:
    """Return real numbers; masked ones are missing."""
    array = np.asarray(values)
    advice = ""
    if array.dtype.kind == "c":
        advice = "; give x and y as two coordinates: np.stack([z.real, z.imag], axis=-1)"
    elif array.dtype.kind in "mM" or any(hasattr(v, "isoformat") for v in array.ravel()[:1]):
        advice = "; give numbers and their time_unit, or read a table with dates"
    else:
        try:
            if np.ma.isMaskedArray(values):
                return np.ma.filled(values.astype(np.float64), np.nan)
            return np.asarray(array, dtype=np.float64)
        except (TypeError, ValueError):
            pass
    raise DriftbayesError(f"{name} must hold real numbers, got {array.dtype} values{advice}")
