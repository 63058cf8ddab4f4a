"""Displacements at one sampling time tau: the data of all likelihoods."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from math import isfinite
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from driftbayes._magnitudes import as_plain, whole
from driftbayes._representation import Described
from driftbayes._typing import FloatArray, IntArray
from driftbayes.data._trajectories import (
    GRID_TOLERANCE,
    Trajectories,
    as_numbers,
    check_tracks,
    checked_period,
)
from driftbayes.data._units import TIME, in_units, readable, times_in
from driftbayes.errors import DriftbayesError, shown

if TYPE_CHECKING:
    from driftbayes.data.tangent import Ground

Gaps = Literal["split", "keep"]
Windows = Literal["first", "all"]
# Recording intervals in a sampling time: exact as a float64.
_MAX_STRIDE = 2**53


@dataclass(frozen=True)
class Cut:
    """How trajectories are cut into runs of displacements.

    Args:
        n_tau: Steps per run; None uses whole trajectories.
        windows: With `n_tau`, the "first" window of each trajectory or "all".
        gaps: A missing fix may "split" a trajectory or be kept as one longer step ("keep").

    Example:
        >>> import driftbayes as db
        >>> tracks = db.simulate("brownian", {"kappa": 1.0}, tau=0.5, n_particles=10, n_steps=20)
        >>> data = db.Cut(n_tau=5, windows="all")(tracks, 0.5)
        >>> data.n_particles, data.n_steps
        (10, 5)
    """

    n_tau: int | None = None
    windows: Windows = "first"
    gaps: Gaps = "split"

    def __post_init__(self) -> None:
        """Refuse unknown options."""
        if self.n_tau is not None:
            whole(self.n_tau, "n_tau", 1)
        for name, known in (("windows", get_args(Windows)), ("gaps", get_args(Gaps))):
            value = getattr(self, name)
            if value not in known:
                msg = f"{name} must be {' or '.join(map(repr, known))}, got {value!r}"
                raise DriftbayesError(msg)

    def __call__(self, trajectories: Trajectories, tau: float | str | None) -> "Displacements":
        """Return displacements at one sampling time; see `displacements`."""
        return displacements(trajectories, tau, **asdict(self))


WHOLE = Cut()


@dataclass(frozen=True, eq=False, repr=False)
class Displacements(Described):
    r"""Steps $\Delta X_n = X_{n+1} - X_n$ of many runs as one ragged array, run after run.

    A run is a stretch of successive positions without a break. Runs are treated as
    independent of each other; steps within a run are not.

    Args:
        dx: Steps, one row each, one column per axis.
        interval: Time that each step took; equal to `tau` unless gaps were kept.
        row_sizes: Number of steps of each run.
        trajectory: Number of the trajectory that each run was cut from.
        tau: Sampling time, derived from the time stamps; the mean interval if irregular.
        position_sd: Standard deviation of the error of each position, one more per run than steps.
        length_unit: Name of the unit of `dx`, empty if unknown.
        time_unit: Name of the unit of `tau`, empty if unknown.
        n_unused: Number of trajectories without a run of the requested length.
        n_dropped: Number of steps left over after cutting windows of `n_tau` steps.
        start: First position of each run, if known; needed by flows that depend on position.
        start_row: Row of the trajectories at which each run begins, if cut from trajectories.
        start_time: Start time of each run, if known; needed by models of shared motion.
        lonlat: Longitude and latitude in degrees at which each step begins, if known.
        period: Length of a periodic domain along each axis (None: not periodic), if there is one.
        ground: Location and axes on the earth, if `start` is on the tangent plane there.

    Example:
        >>> import numpy as np
        >>> import driftbayes as db
        >>> data = db.Displacements.from_array(np.ones((3, 10, 2)), tau=0.5)
        >>> data.n_particles, data.n_steps, data.n_dim
        (3, 10, 2)
    """

    dx: FloatArray
    interval: FloatArray
    row_sizes: IntArray
    trajectory: IntArray
    tau: float
    position_sd: FloatArray | None = None
    length_unit: str = ""
    time_unit: str = ""
    n_unused: int = 0
    n_dropped: int = 0
    start: FloatArray | None = None
    start_row: IntArray | None = None
    start_time: FloatArray | None = None
    lonlat: FloatArray | None = None
    period: tuple[float | None, ...] | None = None
    ground: "Ground | None" = None

    def __post_init__(self) -> None:
        """Refuse data from which nothing can be inferred."""
        if self.start is not None and len(self.start) != len(self.row_sizes):
            raise DriftbayesError(
                f"start holds {len(self.start)} positions, expected {len(self.row_sizes)}, "
                "one per run"
            )
        if self.dx.size == 0:
            msg = "there are no displacements at this tau; use a smaller tau or longer trajectories"
            raise DriftbayesError(msg)
        if not np.any(self.dx):
            raise DriftbayesError(
                f"all {len(self.dx)} displacements are zero: no diffusivity can be inferred; "
                "check the columns and the number of digits in the file"
            )

    @classmethod
    def from_array(
        cls,
        dx: ArrayLike,
        tau: float,
        *,
        length_unit: str = "",
        time_unit: str = "",
        start: ArrayLike | None = None,
        period: Sequence[float | None] | None = None,
    ) -> "Displacements":
        """Make displacements from a (particle, step, dim) array of steps of duration `tau`.

        Flows that depend on position need `start`, the first positions (particle, dim), and
        `period`, the length of the domain along each axis (None: not periodic). All particles
        start at the same time.
        """
        array = as_numbers("dx", dx)
        if array.ndim != 3:
            raise DriftbayesError(
                f"dx has {array.ndim} axes, expected (particle, step, dim); "
                "to compare many data sets call once for each"
            )
        tau = as_plain(tau)
        if not (isinstance(tau, int | float) and isfinite(tau) and tau > 0):
            raise DriftbayesError(f"tau must be a positive number, got {shown(tau)}")
        if not np.isfinite(array).all():
            msg = "dx holds NaN or infinity; cut the trajectories at gaps with displacements()"
            raise DriftbayesError(msg)
        n_particles, n_steps, n_dim = array.shape
        begin = None if start is None else np.array(start, dtype=np.float64)
        if begin is not None and (
            begin.shape != (n_particles, n_dim) or not np.isfinite(begin).all()
        ):
            raise DriftbayesError(
                f"start must hold finite numbers of shape {(n_particles, n_dim)}, one position per "
                f"particle, got shape {begin.shape}"
            )
        return cls(
            # A copy: the caller may change the array later.
            dx=np.array(array.reshape(-1, n_dim), order="C"),
            interval=np.full(n_particles * n_steps, float(tau)),
            row_sizes=np.full(n_particles, n_steps, dtype=np.int64),
            trajectory=np.arange(n_particles),
            tau=float(tau),
            length_unit=length_unit,
            time_unit=time_unit,
            start=begin,
            start_time=np.zeros(n_particles),
            period=None if period is None else checked_period(period, n_dim),
        )

    @property
    def n_dim(self) -> int:
        """Number of spatial dimensions d."""
        return self.dx.shape[1]

    @cached_property
    def n_particles(self) -> int:
        """Number of trajectories with at least one step."""
        return _n_distinct(self.trajectory)

    @property
    def n_steps(self) -> int:
        """Number of steps N_tau of the longest run."""
        return int(self.row_sizes.max())

    @property
    def n_displacements(self) -> int:
        """Number of scalar displacements: steps times axes."""
        return self.dx.size

    @cached_property
    def is_regular(self) -> bool:
        """Whether every step took tau and positions are exact, so that S is one Toeplitz matrix."""
        return self.position_sd is None and bool(
            np.all(np.abs(self.interval - self.tau) <= GRID_TOLERANCE * self.tau)
        )

    @cached_property
    def fingerprint(self) -> str:
        """Short hash of the steps, their durations, tau and the units.

        Start positions are not included: likelihoods are conditional on them.
        """
        digest = hashlib.sha256()
        # tau determines regular intervals.
        interval = None if self.is_regular else self.interval
        for array in (self.dx, interval, self.row_sizes, self.position_sd):
            digest.update(b"none" if array is None else np.ascontiguousarray(array).data)
        digest.update(f"{self.tau!r}|{self.n_dim}|{self.length_unit}|{self.time_unit}".encode())
        return digest.hexdigest()[:16]

    @cached_property
    def origin(self) -> FloatArray:
        """Position at which each step begins."""
        if self.start is None:
            raise DriftbayesError(
                "the start positions of these steps are unknown; make them from trajectories with "
                "displacements(), or pass start= to Displacements.from_array"
            )
        begin = np.repeat(self.start, self.row_sizes, axis=0)
        # Run by run: one sum over all runs would lose digits.
        for first, n_steps in zip(self.first_steps, self.row_sizes, strict=True):
            run = slice(first + 1, first + n_steps)
            begin[run] += np.cumsum(self.dx[first : first + n_steps - 1], axis=0)
        return begin

    @property
    def start_lonlat(self) -> FloatArray | None:
        """Longitude and latitude in degrees at which each run begins, if known."""
        return None if self.lonlat is None else self.lonlat[self.first_steps]

    @cached_property
    def first_steps(self) -> IntArray:
        """Index of the first step of each run."""
        return np.cumsum(self.row_sizes) - self.row_sizes

    @cached_property
    def centre(self) -> FloatArray:
        """Mean of the positions at which steps begin."""
        return np.asarray(self.origin.mean(axis=0))

    @cached_property
    def centre_lonlat(self) -> FloatArray:
        """Longitude and latitude of the centre in degrees."""
        if self.ground is None:
            raise DriftbayesError("longitude and latitude are unknown; read positions in degrees")
        return self.ground.lonlat(self.centre)

    @cached_property
    def turning(self) -> float:
        """Angle by which the axes turn clockwise per length along x, at the centre."""
        return 0.0 if self.ground is None else self.ground.turning(float(self.centre_lonlat[1]))

    @cached_property
    def extent(self) -> tuple[float, float]:
        """Largest distance of a step from the centre, in earth radii, and largest angle.

        The angle, in radians, is that between the axes of a step and those of the centre. Both are
        zero for displacements on a plane.
        """
        if self.ground is None:
            return 0.0, 0.0
        away = self.origin - self.centre
        distance = float(np.hypot(*away.T).max()) / self.ground.earth_radius
        return distance, max(self.ground.misaligned, abs(self.turning) * np.abs(away[:, 0]).max())

    def on_own_ground(self) -> "Displacements":
        """Move the tangent plane to the centre of these runs."""
        start = self.start_lonlat
        if self.ground is None or start is None:
            return self
        ground = self.ground.at_centre_of(start, self.row_sizes)
        return replace(self, ground=ground, start=ground.positions(start))

    def as_array(self) -> FloatArray:
        """Return the steps as one (run, step, dim) array; the runs must have equal length."""
        if (self.row_sizes != self.row_sizes[0]).any():
            raise DriftbayesError(
                f"runs have {self.row_sizes.min()} to {self.row_sizes.max()} steps; "
                "ask for a fixed n_tau to get one array"
            )
        return self.dx.reshape(len(self.row_sizes), -1, self.n_dim)


def displacements(
    trajectories: Trajectories,
    tau: float | str | None = None,
    *,
    n_tau: int | None = None,
    windows: Windows = "first",
    gaps: Gaps = "split",
) -> Displacements:
    """Cut trajectories into displacements at the sampling time tau.

    Args:
        trajectories: Positions of the particles.
        tau: Sampling time, a whole multiple of the recording interval, in the unit of the data or
            with its own ("6h"); None or "all" uses every fix at its own interval, for irregular
            times.
        n_tau: Steps per run. None uses every run at its full length; a number cuts runs of that
            length and drops the remaining steps.
        windows: With `n_tau`, use the "first" window of each trajectory (a fixed volume of data, as
            in the paper) or "all". Windows are treated as independent, which neglects the
            correlation across their ends.
        gaps: Treatment of a missing fix. "split" ends the run before it and starts another after
            it; "keep" spans it by one longer step, which the state-space engine treats exactly.
            Gaps are never filled in.

    Example:
        >>> import driftbayes as db
        >>> tracks = db.simulate("brownian", {"kappa": 1.0}, tau=0.5, n_particles=10, n_steps=20)
        >>> db.displacements(tracks, tau=1.0, n_tau=5)
        <Displacements: tau = 1, 10 particles, up to 5 steps, 2D>
    """
    runs = sampled_runs(trajectories, tau, Cut(n_tau, windows, gaps))
    rows, index, firsts, n_steps = runs.rows, runs.index, runs.firsts, runs.n_steps
    if len(firsts) == 0:
        raise DriftbayesError(
            too_short(runs.longest, n_tau, runs.tau, trajectories.time_unit, trajectories.span)
        )
    step_rows = np.repeat(firsts, n_steps) + ragged_arange(n_steps)
    # Differences of all rows; `step_rows` drops those between runs.
    dx = np.diff(trajectories.positions.take(rows, axis=0), axis=0).take(step_rows, axis=0)
    if index is None:
        interval = np.diff(trajectories.times[rows])[step_rows]
        used_tau = float(interval.mean())
    else:
        used_tau = float(runs.tau or 0.0)
        interval = np.full(len(dx), used_tau)
        if gaps == "keep":
            interval *= np.diff(index)[step_rows]
            grid = trajectories.grid_start[rows]
            # Steps between two grids take the interval from the time stamps.
            odd = (np.diff(grid) != 0)[step_rows]
            interval[odd] = np.diff(trajectories.times[rows])[step_rows][odd]
    sd = None
    if trajectories.position_sd is not None:
        ends = np.repeat(firsts, n_steps + 1) + ragged_arange(n_steps + 1)
        sd = trajectories.position_sd[rows[ends]]
    trajectory = trajectories.trajectory_index[rows[firsts]]
    start, lonlat, ground = trajectories.positions[rows[firsts]], None, None
    if trajectories.lonlat is not None:
        from driftbayes.data.tangent import ground_of, rotated

        found = ground_of(trajectories)
        if found is not None:
            ground, angles = found
            if angles is not None:
                dx = rotated(dx, np.repeat(angles[trajectory], n_steps))
            lonlat = trajectories.lonlat[rows[step_rows]]
            middles = trajectories.lonlat[rows[firsts + n_steps // 2]]
            ground = ground.at_centre_of(middles, n_steps)
            start = ground.positions(trajectories.lonlat[rows[firsts]])
    return Displacements(
        dx=dx,
        interval=interval,
        row_sizes=n_steps,
        trajectory=trajectory,
        tau=used_tau,
        position_sd=sd,
        length_unit=trajectories.length_unit,
        time_unit=trajectories.time_unit,
        n_unused=trajectories.n_trajectories - _n_distinct(trajectory),
        n_dropped=runs.n_dropped,
        start=start,
        start_row=rows[firsts],
        start_time=trajectories.times[rows[firsts]],
        lonlat=lonlat,
        period=trajectories.period if lonlat is None else None,
        ground=ground,
    )


@dataclass(frozen=True, eq=False)
class Runs:
    """Rows of trajectories in the runs at one tau."""

    rows: IntArray  # rows on the grid of tau
    index: IntArray | None  # number of each on that grid; None if every fix is used
    firsts: IntArray  # index into `rows` at which each run starts
    n_steps: IntArray  # number of steps of each run
    longest: int  # number of steps of the longest run before cutting to `n_tau`
    tau: float | None  # sampling time, from the time stamps
    n_dropped: int = 0  # number of steps left over after cutting to `n_tau`


def sampled_runs(trajectories: Trajectories, tau: float | str | None, cut: Cut = WHOLE) -> Runs:
    """Find the runs at a sampling time; see `displacements`."""
    check_tracks(trajectories)
    trajectories.check_usable()
    rows, index, actual_tau = _sampled_rows(trajectories, tau)
    if index is None or cut.gaps == "keep":
        joined = np.diff(trajectories.trajectory_index[rows]) == 0
    else:
        joined = (np.diff(trajectories.grid_start[rows]) == 0) & (np.diff(index) == 1)
    firsts, n_steps = runs_of(joined)
    longest, total = int(n_steps.max(initial=0)), int(n_steps.sum())
    if cut.n_tau is not None:
        firsts, n_steps = _cut_windows(
            firsts, n_steps, int(cut.n_tau), cut.windows, trajectories.trajectory_index[rows]
        )
    n_dropped = total - int(n_steps.sum())
    return Runs(rows, index, firsts, n_steps, longest, actual_tau, n_dropped)


def too_short(
    longest: int, n_tau: int | None, tau: float | None, time_unit: str, span: float
) -> str:
    """Explain why trajectories that last up to `span` have no run."""
    if tau is not None and longest == 0 and tau <= span * (1 + GRID_TOLERANCE):
        return (
            f"no trajectory has positions at two successive multiples of "
            f"{readable(tau, time_unit)} from its first: too many are missing; use another tau, or "
            "--gaps keep"
        )
    if n_tau is None or longest == 0:
        apart = "" if tau is None else f" that are {readable(tau, time_unit)} apart"
        return f"no trajectory has two positions{apart}; use a smaller tau"
    at = "" if tau is None else f" at tau = {readable(tau, time_unit)}"
    return (
        f"no trajectory has {n_tau} successive steps{at}, the longest has {longest}; "
        "use a smaller tau or n_tau"
    )


def snap_taus(trajectories: Trajectories, taus: Iterable[float | str] | str) -> FloatArray:
    """Round sampling times, given as for `times_in`, to distinct multiples of the interval.

    Nearest on a logarithmic scale, at least one interval; the result is sorted.
    """
    dt = trajectories.regular_interval
    requested = np.asarray(times_in(taus, trajectories.units, "taus"), dtype=np.float64)
    if requested.size == 0 or not (np.isfinite(requested).all() and (requested > 0).all()):
        raise DriftbayesError(f"sampling times must be positive numbers, got {requested.tolist()}")
    ratio = np.maximum(requested / dt, 1.0)
    below = np.floor(ratio + GRID_TOLERANCE)
    # Geometric midpoint: on a logarithmic axis 1.45 is nearer to 2 than to 1.
    strides = np.where(ratio > np.sqrt(below * (below + 1)), below + 1, below)
    return np.asarray(np.unique(strides.astype(np.int64)) * dt, dtype=np.float64)


def _sampled_rows(
    trajectories: Trajectories, tau: float | str | None
) -> tuple[IntArray, IntArray | None, float | None]:
    """Find rows at multiples of tau, their number on that grid, and the exact tau."""
    if tau is None or (isinstance(tau, str) and tau == "all"):
        return np.flatnonzero(trajectories.observed), None, None
    stride, actual = stride_of(trajectories, tau)
    if trajectories.whole.all():
        counts = (trajectories.row_sizes - 1) // stride + 1
        number = ragged_arange(counts)
        return np.repeat(trajectories.starts[:-1], counts) + stride * number, number, actual
    steps, start = trajectories.grid_steps, trajectories.grid_start
    # Count from the first position, so that no steps are lost if the first rows are missing.
    first_row = np.full(len(steps), len(steps), dtype=np.int64)
    seen = np.flatnonzero(trajectories.on_grid)
    np.minimum.at(first_row, start[seen], seen)
    since_first = steps[seen] - steps[first_row[start[seen]]]
    chosen = since_first % stride == 0
    return seen[chosen], since_first[chosen] // stride, actual


def stride_of(trajectories: Trajectories, tau: float | str) -> tuple[int, float]:
    """Return a sampling time in recording intervals, and the exact multiple.

    Args:
        trajectories: Positions of the particles.
        tau: Sampling time, a whole multiple of the recording interval up to rounding.
    """
    unit = trajectories.time_unit
    tau = in_units(tau, TIME, trajectories.units, "tau")
    if not (np.isfinite(tau) and tau > 0):
        raise DriftbayesError(f"tau must be a positive number, got {readable(tau, unit)}")
    dt = trajectories.regular_interval
    if tau / dt > _MAX_STRIDE:
        interval = readable(dt, unit)
        raise DriftbayesError(
            f"tau = {readable(tau, unit)} is longer than any trajectory, recorded every {interval}"
        )
    stride = round(tau / dt)
    if stride < 1 or abs(tau - stride * dt) > GRID_TOLERANCE * dt:
        low = int(tau / dt)
        nearest = f"{readable(low * dt, unit)} and {readable((low + 1) * dt, unit)}"
        raise DriftbayesError(
            f"tau must be a whole multiple of the recording interval {readable(dt, unit)}, "
            f"got {readable(tau, unit)}; "
            + (f"the nearest are {nearest}" if low else f"the smallest is {readable(dt, unit)}")
        )
    return stride, stride * dt


def runs_of(mask: np.ndarray) -> tuple[IntArray, IntArray]:
    """Return start and length of each run of true values."""
    edges = np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8))
    firsts = np.flatnonzero(edges == 1)
    return firsts, np.flatnonzero(edges == -1) - firsts


def _cut_windows(
    firsts: IntArray, n_steps: IntArray, n_tau: int, windows: Windows, trajectory: IntArray
) -> tuple[IntArray, IntArray]:
    counts = n_steps // n_tau
    starts = np.repeat(firsts, counts) + n_tau * ragged_arange(counts)
    if windows == "first":
        _, keep = np.unique(trajectory[starts], return_index=True)
        starts = starts[keep]
    return starts, np.full(len(starts), n_tau, dtype=np.int64)


def subset(data: Displacements, runs: np.ndarray) -> Displacements:
    """Select runs.

    Args:
        data: Displacements.
        runs: Mask or numbers of the runs.
    """
    chosen = np.flatnonzero(runs) if runs.dtype == bool else runs
    sizes, first = data.row_sizes[chosen], data.first_steps[chosen]
    steps = np.repeat(first, sizes) + ragged_arange(sizes)
    # Each run has one more position than steps.
    fixes = np.repeat(first + chosen, sizes + 1) + ragged_arange(sizes + 1)
    optional = {"position_sd": fixes, "lonlat": steps}
    optional |= dict.fromkeys(("start", "start_row", "start_time"), chosen)
    return replace(
        data,
        dx=data.dx[steps],
        interval=data.interval[steps],
        row_sizes=sizes,
        trajectory=data.trajectory[chosen],
        **{
            name: values[rows]
            for name, rows in optional.items()
            if (values := getattr(data, name)) is not None
        },
    )


def _n_distinct(numbers: IntArray) -> int:
    """Count distinct numbers, without sorting if they are in order."""
    steps = np.diff(numbers)
    if (steps < 0).any():
        return len(np.unique(numbers))
    return int(np.count_nonzero(steps)) + (len(numbers) > 0)


def steps_by_time(index: IntArray, run: IntArray) -> Iterator[tuple[int, IntArray, IntArray]]:
    """Order steps by time; at each time runs that continue come first, in their previous order.

    Args:
        index: Number of the sampling time at which each step begins.
        run: Run of each step, increasing.

    Yields:
        The number of the time, its steps, and the positions of the continuing runs among the steps
        of the time before.
    """
    before, last = run[:0], -2
    for time in np.unique(index).tolist():
        steps = np.flatnonzero(index == time)
        if time != last + 1:
            before = run[:0]
        continues = np.isin(before, run[steps])
        old = steps[np.searchsorted(run[steps], before[continues])]
        steps = np.concatenate([old, steps[~np.isin(run[steps], before)]])
        yield time, steps, np.flatnonzero(continues)
        before, last = run[steps], time


def evenly_spaced(n: int, most: int) -> IntArray:
    """Return up to `most` of the indices 0, 1, ..., n - 1, evenly spaced, with both ends."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).round().astype(np.int64))


def ragged_arange(sizes: IntArray) -> IntArray:
    """Return 0, 1, ..., sizes[0] - 1, 0, 1, ..., sizes[1] - 1, and so on."""
    ends = np.cumsum(sizes)
    return np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - sizes, sizes)
