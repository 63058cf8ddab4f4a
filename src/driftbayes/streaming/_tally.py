"""Sums over trajectories for a scan, a few kilobytes per sampling time.

Worker processes import this module, but neither JAX nor a model.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from driftbayes import quality
from driftbayes._sums import WindowSums
from driftbayes._typing import FloatArray, IntArray
from driftbayes.data._sampling import Cut, Windows, ragged_arange, sampled_runs, too_short
from driftbayes.data._trajectories import MAX_STRAYS, Trajectories, stray_note
from driftbayes.errors import DriftbayesError, NothingLeftError
from driftbayes.io._blocks import Block, read_block

if TYPE_CHECKING:
    from driftbayes.likelihood import SummedDisplacements

# Maximum number of positions of one trajectory in a sample.
_MAX_SAMPLE_LENGTH = 1 << 18
Prepare: TypeAlias = Callable[[Trajectories], Trajectories]


@dataclass(frozen=True)
class TallySpec:
    """Specification of the sums.

    Args:
        strides: Sampling times in recording intervals.
        dt: Recording interval, with a relative error below 0.001.
        memories: Maximum window of each kind of moments, and whether axes are summed separately.
        n_tau: Steps per run; see `displacements`.
        windows: Which windows of `n_tau` steps to use.
        sampled: Fraction of the trajectories to keep, to estimate scales of the data.
    """

    strides: tuple[int, ...]
    dt: float
    memories: tuple[tuple[int, bool], ...]
    n_tau: int | None = None
    windows: Windows = "first"
    sampled: float = 0.0


@dataclass
class StrideSums:
    """Sums at one sampling time."""

    moments: list[WindowSums]
    n_particles: int = 0
    longest: int = 0


@dataclass
class ExactSum:
    """A sum of floats without rounding, as sums of mantissas for each exponent."""

    bins: Counter[int] = field(default_factory=Counter)

    def add(self, values: FloatArray) -> None:
        """Add finite numbers."""
        mantissa, exponent = np.frexp(values)
        whole = np.ldexp(mantissa, 53).astype(np.int64)
        for common in np.unique(exponent):
            part = whole[exponent == common]
            self.bins[int(common)] += int((part >> 26).sum()) << 26
            self.bins[int(common)] += int((part & ((1 << 26) - 1)).sum())

    def merge(self, other: "ExactSum") -> None:
        """Add another sum."""
        for exponent, total in other.bins.items():
            self.bins[exponent] += total

    @property
    def value(self) -> Fraction:
        """The sum."""
        terms = (total * Fraction(2) ** (power - 53) for power, total in self.bins.items())
        return sum(terms, Fraction(0))


@dataclass(frozen=True)
class Sample:
    """Trajectories selected by a hash of their content."""

    digests: Sequence[bytes]  # hash of each trajectory, which sets the final order
    row_sizes: IntArray  # number of positions of each trajectory
    positions: FloatArray  # positions, one trajectory after the other
    times: FloatArray  # times of the positions


@dataclass
class Tally:
    """Sums over trajectories; tallies with the same specification can be merged.

    The sums of displacements are rounded, so that their last bits depend on the order of merging;
    the other fields do not.

    Args:
        spec: Specification of the sums.
        n_dim: Number of spatial dimensions.
        length_unit: Unit of positions.
        time_unit: Unit of times.
        at: Sums at each sampling time.
        n_trajectories: Number of trajectories.
        n_points: Number of observations.
        digest: Sum of the hashes of the trajectories.
        products: Sum of elapsed times, each multiplied by its number of recording intervals.
        squares: Sum of the squares of these numbers.
        span: Duration of the longest trajectory.
        intervals: Number of intervals of each length; see `Trajectories.interval_counts`.
        n_unused: Number of positions between two grids of recording intervals.
        samples: Sampled trajectories.
        spare: The trajectory with the smallest hash, used if no other was sampled.
        quality: Records of quality control, as in provenance.
    """

    spec: TallySpec
    n_dim: int
    length_unit: str
    time_unit: str
    at: list[StrideSums]
    n_trajectories: int = 0
    n_points: int = 0
    digest: int = 0
    products: ExactSum = field(default_factory=ExactSum)
    squares: ExactSum = field(default_factory=ExactSum)
    span: float = 0.0
    intervals: IntArray = field(default_factory=lambda: np.zeros(1, dtype=np.int64))
    n_unused: int = 0
    samples: list[Sample] = field(default_factory=list)
    spare: Sample | None = None
    quality: list[dict[str, Any]] = field(default_factory=list)

    def merge(self, other: "Tally") -> "Tally":
        """Add the sums over other trajectories."""
        records = quality.merge_records(self.quality, other.quality)
        total = self if other.n_points == 0 else other
        if self.n_points and other.n_points:
            total = self._merge_sums(other)
        total.quality = records
        return total

    def _merge_sums(self, other: "Tally") -> "Tally":
        mine = (self.n_dim, self.length_unit, self.time_unit)
        theirs = (other.n_dim, other.length_unit, other.time_unit)
        if self.spec != other.spec or mine != theirs:
            raise DriftbayesError(
                f"parts of the data differ in dimensions or units: {mine} and {theirs}; "
                "convert them first"
            )
        for sums, other_sums in zip(self.at, other.at, strict=True):
            for a, b in zip(sums.moments, other_sums.moments, strict=True):
                a.merge(b)
            sums.n_particles += other_sums.n_particles
            sums.longest = max(sums.longest, other_sums.longest)
        self.n_trajectories += other.n_trajectories
        self.n_points += other.n_points
        self.digest += other.digest
        self.products.merge(other.products)
        self.squares.merge(other.squares)
        self.span = max(self.span, other.span)
        self.intervals = self.intervals + other.intervals
        self.n_unused += other.n_unused
        self.samples += other.samples
        spares = [spare for spare in (self.spare, other.spare) if spare is not None]
        self.spare = min(spares, key=lambda spare: spare.digests[0], default=None)
        return self

    @property
    def recording_interval(self) -> float:
        """The interval that fits all times best, as in `Trajectories.recording_interval`."""
        return float(self.products.value / self.squares.value)

    @property
    def usual_steps(self) -> int:
        """Number of recording intervals in the median interval.

        It is 1, unless irregular intervals in the first trajectories hide the median interval.
        """
        counts = self.intervals
        usual = int(np.searchsorted(np.cumsum(counts[1:]), (counts[1:].sum() + 1) // 2)) + 1
        odd = counts.sum() - counts[usual::usual].sum()
        return usual if odd <= MAX_STRAYS * counts.sum() else 1

    def check_regular(self) -> None:
        """Refuse a file with irregular times, unlike its first trajectories."""
        n_odd, n = int(self.intervals[0]), int(self.intervals.sum())
        if n_odd > MAX_STRAYS * n:
            unit = f" {self.time_unit}" if self.time_unit else ""
            raise DriftbayesError(
                f"times are irregular: {n_odd:,} of {n:,} intervals are not multiples of the "
                f"recording interval {self.spec.dt:g}{unit} of the first trajectories; resample "
                "them, or use a part of the data"
            )

    @property
    def stray_note(self) -> str:
        """Note on irregular intervals, as in `Trajectories.stray_note`."""
        return stray_note(self.intervals, self.recording_interval, self.time_unit, self.n_unused)

    @property
    def fingerprint(self) -> str:
        """Short hash of positions, times and units, independent of the order of trajectories."""
        return _hash(f"{self.digest}|{self.n_dim}|{self.length_unit}|{self.time_unit}")

    def displacements(self) -> "tuple[list[SummedDisplacements], dict[float, str]]":
        """Return the displacements at each sampling time, and the reason where there are none."""
        # Workers do not need JAX.
        from driftbayes import likelihood

        displacements, skipped = [], {}
        spec, dt = self.spec, self.recording_interval
        cut = f"{spec.n_tau}|{spec.windows}"
        for stride, at in zip(spec.strides, self.at, strict=True):
            tau, first = stride * dt, at.moments[0]
            if first.n_steps == 0:
                skipped[tau] = too_short(at.longest, spec.n_tau, tau, self.time_unit, self.span)
                continue
            if not first.moves:
                skipped[tau] = (
                    f"all {first.n_steps} displacements are zero: no diffusivity can be inferred; "
                    "check the columns and the number of digits in the file"
                )
                continue
            apart = [sums for sums in at.moments if sums.apart]
            summed = likelihood.SummedDisplacements(
                summed={s.memory: likelihood.second_moments_of(s, tau) for s in at.moments},
                channels={s.memory: likelihood.channel_moments_of(s, tau) for s in apart},
                n_dim=self.n_dim,
                n_particles=at.n_particles,
                n_steps=first.longest,
                n_displacements=first.n_steps * self.n_dim,
                tau=tau,
                fingerprint=_hash(f"{self.fingerprint}|{stride}|{tau!r}|{cut}"),
                n_unused=self.n_trajectories - at.n_particles,
                length_unit=self.length_unit,
                time_unit=self.time_unit,
            )
            displacements.append(summed)
        return displacements, skipped

    def sample(self) -> Trajectories:
        """Return the sampled trajectories, in an order independent of the file."""
        samples = self.samples or ([] if self.spare is None else [self.spare])
        if not samples:
            raise DriftbayesError("no trajectories were sampled; increase sample_points")
        digests = [digest for sample in samples for digest in sample.digests]
        sizes = np.concatenate([sample.row_sizes for sample in samples])
        positions = np.concatenate([sample.positions for sample in samples])
        times = np.concatenate([sample.times for sample in samples])
        order = sorted(range(len(digests)), key=digests.__getitem__)
        starts = np.cumsum(sizes) - sizes
        rows = np.concatenate([np.arange(starts[i], starts[i] + sizes[i]) for i in order])
        sample = Trajectories(
            positions=positions[rows],
            times=times[rows],
            row_sizes=sizes[order],
            ids=np.arange(len(order)),
            length_unit=self.length_unit,
            time_unit=self.time_unit,
        )
        return sample.on_interval(self.recording_interval)


def tally_of(trajectories: Trajectories, spec: TallySpec) -> Tally:
    """Compute the sums for a scan over trajectories.

    Args:
        trajectories: Whole trajectories, some or all of the data.
        spec: Specification of the sums.
    """
    if trajectories.position_sd is not None:
        raise DriftbayesError(
            "positions with measurement errors need the single steps, but only sums are "
            "available; exclude the errors (--columns sd=), or use a part of the data that fits in "
            "memory"
        )
    trajectories.check_usable()
    tracks = trajectories.on_interval(spec.dt)
    n_dim = tracks.n_dim
    at = [
        StrideSums(
            [
                WindowSums(memory, n_dim, apart=apart, duration=apart, compiled=True)
                for memory, apart in spec.memories
            ]
        )
        for _ in spec.strides
    ]
    tally = Tally(spec, n_dim, tracks.length_unit, tracks.time_unit, at)
    tally.n_trajectories, tally.n_points = tracks.n_trajectories, len(tracks.times)
    starts = tracks.starts[:-1]
    steps = np.where(tracks.strays, 0, tracks.grid_steps).astype(np.float64)
    since = tracks.times - tracks.times[tracks.grid_start]
    tally.products.add(np.add.reduceat(since * steps, starts))
    tally.squares.add(np.add.reduceat(steps**2, starts))
    tally.span, tally.intervals = tracks.span, tracks.interval_counts()
    tally.n_unused = int(np.sum(tracks.observed & tracks.strays))
    digests = _digests(tracks)
    tally.digest = sum(int.from_bytes(digest, "little") for digest in digests)
    if spec.sampled > 0:
        leading = np.frombuffer(b"".join(digests), dtype=">u8")[::4]
        chosen = np.flatnonzero(leading < spec.sampled * 2.0**64)
        if len(chosen):
            tally.samples.append(_sample(tracks, digests, chosen))
        tally.spare = _sample(tracks, digests, np.array([np.argmin(leading)]))
    # Without gaps, the rows at a stride follow from the stride alone.
    whole, with_gaps = tracks.whole, None
    if not whole.all():
        with_gaps = tracks.select(~whole[tracks.trajectory_index]).on_interval(spec.dt)
    for stride, sums in zip(spec.strides, at, strict=True):
        _add_whole(tracks, whole, stride, sums, spec)
        if with_gaps is not None:
            _add_with_gaps(with_gaps, stride, sums, spec)
    return tally


def tally_block(
    block: Block,
    *,
    prepare: Prepare | None,
    spec: TallySpec,
    checks: tuple[quality.AbstractCheck, ...] = (),
) -> Tally:
    """Read a block and compute its sums for a scan."""
    records: list[dict[str, Any]] = []
    try:
        trajectories = read_prepared(block, prepare)
        if checks:
            # The file may have earlier records.
            n_before = len(trajectories.provenance.get("quality", []))
            trajectories = quality.apply(trajectories, checks)
            records = trajectories.provenance["quality"][n_before:]
    except NothingLeftError as error:
        # No trajectory of this block is left.
        return Tally(spec, 0, "", "", [], quality=error.quality)
    return replace(tally_of(trajectories, spec), quality=records)


def read_prepared(block: Block, prepare: Prepare | None) -> Trajectories:
    """Read and prepare the trajectories of a block."""
    trajectories = read_block(block)
    plane = trajectories.provenance.get("plane")
    frame = plane.get("frame") if isinstance(plane, Mapping) else None
    if block.options.frame == "auto" and frame == "transported":
        raise DriftbayesError(
            "some positions are beyond 80 degrees of latitude, and a file read in blocks needs one "
            "frame for all: pass --frame transported, or --frame local"
        )
    return trajectories if prepare is None else prepare(trajectories)


def _add_whole(
    tracks: Trajectories, whole: np.ndarray, stride: int, sums: StrideSums, spec: TallySpec
) -> None:
    """Add trajectories without gaps."""
    n_steps = (tracks.row_sizes - 1) // stride
    sums.longest = max(sums.longest, int(n_steps[whole].max(initial=0)))
    used = np.flatnonzero(whole & (n_steps >= (spec.n_tau or 1)))
    sums.n_particles += len(used)
    n_steps, firsts = n_steps[used], tracks.starts[:-1][used]
    if spec.n_tau is not None:
        counts = n_steps // spec.n_tau if spec.windows == "all" else np.ones_like(n_steps)
        firsts = np.repeat(firsts, counts) + spec.n_tau * stride * ragged_arange(counts)
        n_steps = np.full(len(firsts), spec.n_tau)
    for moments in sums.moments:
        moments.add(tracks.positions, firsts, n_steps, stride)


def _add_with_gaps(tracks: Trajectories, stride: int, sums: StrideSums, spec: TallySpec) -> None:
    """Add trajectories with gaps."""
    runs = sampled_runs(tracks, stride * spec.dt, Cut(spec.n_tau, spec.windows))
    sums.longest = max(sums.longest, runs.longest)
    sums.n_particles += len(np.unique(tracks.trajectory_index[runs.rows[runs.firsts]]))
    x, firsts = tracks.positions[runs.rows], runs.firsts
    for moments in sums.moments:
        # Sampled rows are consecutive within a run.
        moments.add(x, firsts, runs.n_steps, 1)


def _digests(tracks: Trajectories) -> list[bytes]:
    """Hash the positions and times of each trajectory."""
    # NaN has many bit patterns, which differ between files and processors.
    positions = tracks.positions
    if not tracks.observed.all():
        positions = np.where(np.isnan(positions), np.nan, positions)
    digests = []
    for first, last in pairwise(tracks.starts.tolist()):
        digest = hashlib.sha256(positions[first:last].data)
        digest.update(tracks.times[first:last].data)
        digests.append(digest.digest())
    return digests


def _sample(tracks: Trajectories, digests: Sequence[bytes], chosen: IntArray) -> Sample:
    sizes = np.minimum(tracks.row_sizes[chosen], _MAX_SAMPLE_LENGTH)
    rows = np.concatenate(
        [np.arange(first, first + n) for first, n in zip(tracks.starts[chosen], sizes, strict=True)]
    )
    return Sample([digests[i] for i in chosen], sizes, tracks.positions[rows], tracks.times[rows])


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
