"""Reading of trajectories from files, tables, arrays and datasets, ready for analysis."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from driftbayes._magnitudes import checked, whole
from driftbayes._storage import PathLike
from driftbayes._typing import Progress
from driftbayes.data._sampling import Cut
from driftbayes.data._trajectories import Trajectories
from driftbayes.data._units import (
    LENGTH,
    UNIT_ADVICE,
    in_units,
    length_factor,
    parse_quantity,
    positive_in_units,
    time_factor,
)
from driftbayes.errors import DataWarning, DriftbayesError, did_you_mean, expect, warn
from driftbayes.io import read_trajectories
from driftbayes.io._files import files_of

if TYPE_CHECKING:
    from driftbayes.comparison import Scan
    from driftbayes.io._reading import ReadOptions
    from driftbayes.models import AbstractModel
    from driftbayes.streaming import Tally

_PREPARING = ("units", "noise", "period", "drop_short")
# Options with data, which the provenance does not repeat.
_ARRAYS = ("times", "ids", "position_sd", "lonlat", "flags", "provenance")
_ARRAY_OPTIONS = ("dt", "length_unit", "time_unit", *_ARRAYS)
# Number of positions in the sample of a check.
_SAMPLE_POINTS = 100_000


@dataclass(frozen=True)
class Blocks:
    """Options for reading a file that does not fit in memory.

    Args:
        workers: Number of worker processes; by default threads of this process.
        cluster: Address of the scheduler of a Dask cluster.
        points: Positions per block and worker; by default a million.
        scratch: Directory for temporary files of unsorted tables.

    Example:
        >>> import driftbayes as db
        >>> tracks = db.simulate("brownian", {"kappa": 1.0}, tau=0.5, n_particles=10, n_steps=20)
        >>> db.write_trajectories(tracks, "large.parquet")
        >>> large = db.read("large.parquet", blocks=db.Blocks())
        >>> db.compare(large, 0.5, models="brownian", scales=db.Scales(1.4, 1.0)).n_particles
        10
    """

    workers: int | None = None
    cluster: str | None = None
    points: int | None = None
    scratch: PathLike | None = None

    def __post_init__(self) -> None:
        """Refuse numbers of workers or positions that are not whole numbers."""
        for name in ("workers", "points"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, whole(value, name))


def read(
    source: Any,
    *,
    units: str | None = None,
    noise: float | str | None = None,
    period: float | str | Sequence[float | None] | None = None,
    drop_short: bool = False,
    qc: str | None = None,
    blocks: Blocks | None = None,
    **options: Any,
) -> "Trajectories | FileInBlocks":
    """Read trajectories.

    Args:
        source: A file or store of a known format (see `driftbayes formats`), several of them as a
            list, a pattern ("tracks/*.csv") or a folder, a pandas DataFrame, an xarray Dataset, or
            an array (particle, time, dim) or list of arrays (time, dim).
        units: Units of length and time to convert to, as in "km,d"; an empty one is unchanged.
            Data without units are assumed to be in these, with a warning.
        noise: Standard deviation of the measurement error of every position, in the unit of the
            data or with its own ("10m").
        period: Length of a periodic domain, in the unit of the data or with its own, one for all
            axes or one each; None for an axis that is not periodic.
        drop_short: Whether to drop trajectories of fewer than two positions.
        qc: Quality checks to apply, with repairs, as in "spikes=3m/s,stuck=6h" or "default".
        blocks: Leave a file on disk; `compare`, `scan` and `check` read it in blocks.
        **options: Options of `read_trajectories` for files and tables, with `columns` also as text
            ("time=t,x=X"), and those of `Trajectories.from_arrays` for arrays (`dt`).

    Raises:
        DriftbayesError: The source cannot be read, or an option does not fit it.

    Example:
        >>> import numpy as np
        >>> import driftbayes as db
        >>> x = np.random.default_rng(0).normal(size=(5, 100, 2)).cumsum(axis=1)
        >>> tracks = db.read(x, dt=0.5, length_unit="km", time_unit="d")
        >>> tracks.n_trajectories
        5
    """
    expect(units, str | None, "units", "text, for example 'km,d'")
    expect(qc, str | None, "qc", "text, for example 'default' or 'spikes=3m/s'")
    expect(blocks, Blocks | None, "blocks", "Blocks, for example Blocks(workers=4)")
    options |= {"units": units, "noise": noise, "period": period, "drop_short": drop_short}
    if blocks is not None:
        return FileInBlocks(source, blocks, qc, options)
    return check_quality(load(source, **options), qc)


def load(source: Any, **options: Any) -> Trajectories:
    """Read trajectories without quality checks; arguments as for `read`."""
    own = {name: options.pop(name) for name in _PREPARING if name in options}
    tracks = prepare_tracks(_from_source(source, options), **own)
    return with_reading(tracks, {**own, **options})


def check_quality(tracks: Trajectories, qc: str | None) -> Trajectories:
    """Repair the findings of quality checks, or warn of them."""
    from driftbayes import quality

    if qc is not None:
        return quality.apply(tracks, qc)
    for note in quality.inspect(tracks).notes:
        warn(note, DataWarning)
    return tracks


def prepare_tracks(
    tracks: Trajectories,
    *,
    units: str | None = None,
    noise: float | str | None = None,
    period: float | str | Sequence[float | None] | None = None,
    drop_short: bool = False,
) -> Trajectories:
    """Convert units, drop short trajectories, unwrap a periodic domain, add a measurement error."""
    if units is not None:
        tracks = _converted(tracks, units)
    if drop_short:
        tracks = tracks.drop_short()
    if period is not None:
        tracks = tracks.unwrap(_periods(period, tracks))
    if noise is None:
        return tracks
    sd = positive_in_units(noise, LENGTH, tracks.units, "noise")
    return replace(
        tracks,
        position_sd=np.full(len(tracks.times), sd),
        provenance={**tracks.provenance, "noise": sd},
    )


def _from_source(source: Any, options: Mapping[str, Any]) -> Trajectories:
    if isinstance(source, str | Path) or _are_files(source):
        return read_trajectories(source, **_for_files(options))
    if isinstance(source, Trajectories):
        if options:
            raise DriftbayesError(f"trajectories are already read; omit {', '.join(options)}")
        return source
    kind = type(source)
    # By name, so that neither package is imported for other data.
    name = f"{kind.__module__.partition('.')[0]}.{kind.__name__}"
    if name in ("pandas.DataFrame", "xarray.Dataset"):
        return read_trajectories(source, **_for_files(options))
    wanted = (
        "a file name, a pandas DataFrame, an xarray Dataset, an array (particle, time, dim) or a "
        "list of arrays (time, dim)"
    )
    expect(source, Sequence | np.ndarray | _ArrayLike, "source", wanted)
    _check_options(options, _ARRAY_OPTIONS)
    return Trajectories.from_arrays(source, **options)


def _are_files(source: Any) -> bool:
    """Return whether the source is a list of files."""
    listed = isinstance(source, list | tuple) and len(source) > 0
    return listed and all(isinstance(file, str | Path) for file in source)


def _for_files(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options for a file, with text parsed."""
    from driftbayes.io._reading import ReadOptions

    found = dict(options)
    _check_options(found, [field.name for field in fields(ReadOptions)])
    expect(found.get("format"), str | None, "format", "the name of a format, for example 'gdp'")
    wanted = "names by role, for example {'id': 'track'} or 'id=track,x=lon'"
    expect(found.get("columns"), Mapping | str | None, "columns", wanted)
    if isinstance(found.get("columns"), str):
        pairs = [item.partition("=") for item in found["columns"].split(",") if item.strip()]
        if not all(equals for _, equals, _ in pairs):
            text = f"got {found['columns']!r}; for example x=lon,y=lat"
            raise DriftbayesError(f"columns (--columns) must be NAME=COLUMN,..., {text}")
        found["columns"] = {role.strip(): name.strip() or None for role, _, name in pairs}
    for name in ("pixel_size", "frame_interval"):
        if isinstance(found.get(name), str):
            found[name] = parse_quantity(found[name], name)
    return found


def _check_options(options: Iterable[str], known: Iterable[str]) -> None:
    every = [*known, *_PREPARING, "qc", "blocks"]
    for name in options:
        if name not in every:
            msg = f"read has no option {name!r} for this source{did_you_mean(name, every)}"
            raise DriftbayesError(msg)


def with_reading(tracks: Trajectories, options: Mapping[str, Any]) -> Trajectories:
    """Record the reading options in the provenance."""
    texts = _texts({n: value for n, value in options.items() if n not in _ARRAYS})
    return replace(tracks, provenance=_with_texts(tracks.provenance, texts))


def _with_texts(provenance: Mapping[str, Any], texts: Mapping[str, str]) -> dict[str, Any]:
    """Return a provenance with reading options, in place of those of the source of a file."""
    others = {name: value for name, value in provenance.items() if name != "reading"}
    return {**others, "reading": texts} if texts else others


def _texts(options: Mapping[str, Any]) -> dict[str, str]:
    """Format options that differ from the defaults for the command line."""
    defaults = {"frame": "auto", "drop_short": False}
    return {
        name: _as_text(value)
        for name, value in options.items()
        if value is not None and not (name in defaults and value == defaults[name])
    }


def _as_text(value: Any) -> str:
    """Format an option for the command line."""
    if value is True:
        return ""
    if isinstance(value, Mapping):
        return ",".join(f"{name}={column or ''}" for name, column in value.items())
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], str):
        return f"{value[0]!r}{value[1]}"
    if isinstance(value, Sequence | np.ndarray) and not isinstance(value, str):
        return ",".join("-" if part is None else str(part) for part in value) or "none"
    return str(value)


def _periods(
    period: float | str | Sequence[float | None], tracks: Trajectories
) -> list[float | None]:
    parts: list[Any]
    if isinstance(period, str):
        parts = period.split(",")
    else:
        parts = list(period) if isinstance(period, Sequence | np.ndarray) else [period]
    if len(parts) == 1:
        parts = parts * tracks.n_dim
    return [
        None
        if part in (None, "-")
        else checked(in_units(part, LENGTH, tracks.units, "period"), "period")
        for part in parts
    ]


def _converted(tracks: Trajectories, units: str) -> Trajectories:
    """Convert trajectories to other units, and record it."""
    wanted = [part.strip() for part in units.split(",")]
    if len(wanted) != 2:
        msg = f"units must be one of length and one of time, for example 'km,d', got {units!r}"
        raise DriftbayesError(msg)
    factors: dict[str, tuple[float, str]] = {}
    old = {"length": tracks.length_unit, "time": tracks.time_unit}
    finders = {"length": length_factor, "time": time_factor}
    for (what, unit), new in zip(old.items(), wanted, strict=True):
        if new in ("", unit):
            continue
        # Raises if the new unit is unknown.
        finders[what](new)
        if unit in UNIT_ADVICE:
            raise DriftbayesError(
                f"units: cannot convert {what} to {new}, since its unit is {unit!r}; "
                f"pass {UNIT_ADVICE[unit]}"
            )
        if not unit:
            msg = f"the data have no unit of {what}; the given unit {new} is assumed"
            warn(msg, DataWarning)
        factors[what] = finders[what](unit, new) if unit else (1.0, new)
    if not factors:
        return tracks
    converted = tracks.in_units(length=factors.get("length"), time=factors.get("time"))
    changes = {what: [old[what], name] for what, (_, name) in factors.items()}
    return replace(converted, provenance={**converted.provenance, "units": changes})


@runtime_checkable
class _ArrayLike(Protocol):
    """Array of any package, such as JAX."""

    def __array__(self) -> np.ndarray:
        """Return a NumPy array."""


class FileInBlocks:
    """Trajectories in a file that is read in blocks and reduced to sums.

    Args:
        path: The file.
        blocks: Options of the blocks.
        qc: Quality checks to apply, with repairs.
        options: Other arguments of `read`.
        recorded: The same as text, for the provenance; by default made from `options`.

    Example:
        >>> import driftbayes as db
        >>> tracks = db.simulate("brownian", {"kappa": 1.0}, tau=0.5, n_particles=10, n_steps=20)
        >>> tracks.save("tracks.parquet")
        >>> db.read("tracks.parquet", blocks=db.Blocks())
        <FileInBlocks: tracks.parquet>
    """

    def __init__(
        self,
        path: PathLike,
        blocks: Blocks,
        qc: str | None = None,
        options: Mapping[str, Any] | None = None,
        recorded: Mapping[str, str] | None = None,
    ) -> None:
        if files_of(path) is not None:
            raise DriftbayesError(
                "several files cannot be read in blocks; first run: driftbayes convert FILES "
                "-o all.parquet"
            )
        self.path, self.blocks, self._qc = Path(path), blocks, qc
        self._options = dict(options or {})
        self._recorded = _texts(self._options) if recorded is None else dict(recorded)
        self.progress: Progress | None = None
        # Known once the file has been read.
        self.provenance: dict[str, Any] = {}
        self.recording_interval: float | None = None

    def __repr__(self) -> str:
        """Show the file."""
        return f"<FileInBlocks: {self.path}>"

    def tally(
        self,
        models: "Callable[[int], Iterable[AbstractModel]]",
        taus: Iterable[float | str] | str,
        cut: Cut,
        *,
        snap: bool,
    ) -> "Tally":
        """Compute the sums that models need, over all trajectories."""
        from driftbayes.streaming import tally_file

        options, how = self._how()
        tally, provenance = tally_file(
            self.path,
            models,
            taus,
            options,
            n_tau=cut.n_tau,
            windows=cut.windows,
            gaps=cut.gaps,
            snap=snap,
            **how,
        )
        self.provenance = _with_texts(provenance, self._recorded)
        self.recording_interval = tally.recording_interval
        if tally.stray_note:
            warn(tally.stray_note, DataWarning)
        return tally

    def sample(self) -> Trajectories:
        """Sample trajectories by a hash, for methods that need displacements."""
        from driftbayes.streaming import sample_file

        options, how = self._how()
        tally, provenance = sample_file(self.path, options, sample_points=_SAMPLE_POINTS, **how)
        self.provenance = _with_texts(provenance, self._recorded)
        found = tally.sample()
        text = (
            f"using {found.n_trajectories:,} of {tally.n_trajectories:,} trajectories "
            f"({len(found.times):,} of {tally.n_points:,} positions), chosen by a hash"
        )
        warn(text, DataWarning)
        return replace(found, provenance=self.provenance)

    def _how(self) -> "tuple[ReadOptions, dict[str, Any]]":
        from driftbayes.io._blocks import BLOCK_POINTS
        from driftbayes.io._reading import ReadOptions
        from driftbayes.streaming import Workers

        reading = _for_files(self._options)
        own = {name: reading.pop(name) for name in _PREPARING if name in reading}
        how = {
            "prepare": partial(prepare_tracks, **own),
            "checks": self._qc,
            "block_points": BLOCK_POINTS if self.blocks.points is None else self.blocks.points,
            "workers": Workers(processes=self.blocks.workers, cluster=self.blocks.cluster),
            "scratch": self.blocks.scratch,
            "progress": self.progress,
        }
        return ReadOptions(**reading), how


def open_scan(path: PathLike) -> "Scan":
    """Read a scan over tau, with its hypotheses, evidences and estimates.

    Args:
        path: A file written by `Scan.save` or `driftbayes scan -o`.

    Raises:
        DriftbayesError: The file is not a scan, is damaged, or was written by version 0.1.

    Example:
        >>> import driftbayes as db
        >>> tracks = db.simulate("brownian", {"kappa": 1.0}, tau=0.5, n_particles=10, n_steps=20)
        >>> scales = db.Scales(u_rms=1.4, time=1.0)
        >>> tracks.scan([0.5, 1.0], scales=scales).save("scan.nc")
        >>> db.open_scan("scan.nc")
        <Scan: 2 values of tau from 0.5 to 1, brownian, langevin>
    """
    from driftbayes.comparison import Scan
    from driftbayes.io import read_scan

    expect(path, str | Path, "path", "the name of a file that `Scan.save` wrote")
    return Scan.from_dataset(read_scan(path))
