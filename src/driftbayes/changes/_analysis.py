"""Change points of many tracks: computation and result."""

import csv
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from driftbayes._aliases import public
from driftbayes._kernels.compiled import count_threads, run_in_threads
from driftbayes._precision import in_double_precision
from driftbayes._representation import Described, to_dataframe, to_dataset
from driftbayes._storage import PathLike, atomic_path
from driftbayes._typing import FloatArray, IntArray
from driftbayes._version import __version__
from driftbayes.changes._posterior import TrackSegments, log_bayes_factor, segment_track
from driftbayes.changes._tables import Run, segment_model
from driftbayes.data._sampling import Displacements
from driftbayes.data._trajectories import Trajectories
from driftbayes.errors import DriftbayesError
from driftbayes.inference import Hypothesis
from driftbayes.io import write_dataset

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

Progress = Callable[[str, int, int], None]
# A track with fewer steps cannot contain a change point.
_MIN_STEPS = 2


@dataclass(frozen=True, eq=False, repr=False)
class Segments(Described):
    """Posterior of the change points of all tracks.

    Args:
        tracks: Posterior of each track.
        hypothesis: Model and priors of each segment.
        names: Parameters of a segment.
        units: Units of the parameters.
        rate: Prior rate of changes.
        data: Displacements of all tracks.
        runs: Index of each track's run in the displacements.
        n_short: Number of tracks too short for a change.
        time_origin: Date from which times in seconds are counted, if known.

    Example:
        >>> import driftbayes as db
        >>> tracks = db.simulate("brownian", {"kappa": 1.0}, tau=0.5, n_particles=10, n_steps=20)
        >>> found = tracks.segments(0.5, scales=db.Scales(u_rms=1.4, time=1.0))
        >>> len(found.tracks), found.names
        (10, ('kappa',))
    """

    tracks: tuple[TrackSegments, ...]
    hypothesis: Hypothesis
    names: tuple[str, ...]
    units: tuple[str, ...]
    rate: float
    data: Displacements
    runs: IntArray
    n_short: int = 0
    time_origin: str | None = None

    def __len__(self) -> int:
        """Number of tracks."""
        return len(self.tracks)

    def __getitem__(self, which: int | str) -> TrackSegments:
        """Return one track by number or id."""
        if isinstance(which, str):
            for track in self.tracks:
                if track.id == which:
                    return track
            raise DriftbayesError(f"no track {which!r} among the segments")
        return self.tracks[which]

    @property
    def log_evidence(self) -> float:
        """Ln p(D) of all tracks, averaged over all segmentations."""
        return float(sum(track.log_evidence for track in self.tracks))

    @property
    def log_evidence_no_change(self) -> float:
        """Ln p(D) of all tracks without changes, with separate parameters for each track."""
        return float(sum(track.log_evidence_no_change for track in self.tracks))

    @property
    def probability_change(self) -> float:
        """Probability of a change in any track."""
        probabilities = np.array([track.any_change for track in self.tracks])
        with np.errstate(divide="ignore"):
            return float(-np.expm1(np.log1p(-probabilities).sum()))

    @property
    def log_bayes_factor_change(self) -> float:
        """Ln K of at least one change in any track over none in all."""
        log_none = sum(track.log_no_change for track in self.tracks)
        log_prior = sum(track.log_prior_no_change for track in self.tracks)
        return log_bayes_factor(self.probability_change, log_none, log_prior)

    def to_json(self) -> dict[str, Any]:
        """Return everything except the averages along tracks, as plain numbers and text."""
        return {
            "model": self.hypothesis.name,
            "tau": self.data.tau,
            "rate": self.rate,
            "n_tracks": len(self),
            "n_short": self.n_short,
            "log_evidence": self.log_evidence,
            "log_evidence_no_change": self.log_evidence_no_change,
            "log_bayes_factor_change": self.log_bayes_factor_change,
            "probability_change": self.probability_change,
            "priors": self.hypothesis.describe(),
            "units": dict(zip(self.names, self.units, strict=True)),
            "length_unit": self.data.length_unit,
            "time_unit": self.data.time_unit,
            "time_origin": self.time_origin,
            "data_fingerprint": self.data.fingerprint,
            "driftbayes_version": __version__,
            "tracks": [self._track_json(track) for track in self.tracks],
        }

    def _track_json(self, track: TrackSegments) -> dict[str, Any]:
        """Return one track as plain numbers and text."""
        rows = self._rows(track)
        return {
            "id": track.id,
            "n_steps": track.n_steps,
            "spacing": track.spacing,
            "probability_change": track.any_change,
            "log_bayes_factor_change": track.log_bayes_factor,
            "log_evidence": track.log_evidence,
            "log_evidence_no_change": track.log_evidence_no_change,
            "n_changes_probability": track.n_changes.tolist(),
            "change_times": track.change_times.tolist(),
            "change_intervals": track.intervals.tolist(),
            "segments": [{k: v for k, v in row.items() if k != "track"} for row in rows],
            "times": track.times.tolist(),
            "change_probability": track.probability.tolist(),
        }

    def _rows(self, track: TrackSegments) -> list[dict[str, Any]]:
        """Return one row for each segment of a track."""
        rows = []
        for k, (i, j) in enumerate(pairwise(track.edges)):
            low, high = track.intervals[k - 1] if k else (track.times[0], track.times[0])
            row = {
                "track": track.id,
                "start": float(track.times[i]),
                "start_low": float(low),
                "start_high": float(high),
                "end": float(track.times[j]),
                "n_steps": int(track.candidates[j] - track.candidates[i]),
            }
            for p, name in enumerate(self.names):
                row[name] = float(track.mean[k, p])
                row[f"{name}_sd"] = float(track.sd[k, p])
            rows.append(row)
        return rows

    def path(self, which: int) -> FloatArray:
        """Return the positions of a track at its candidates."""
        starts = np.concatenate([[0], np.cumsum(self.data.row_sizes)])
        run = self.runs[which]
        steps = self.data.dx[starts[run] : starts[run + 1]]
        first = np.zeros(self.data.n_dim) if self.data.start is None else self.data.start[run]
        whole = first + np.vstack([np.zeros(self.data.n_dim), np.cumsum(steps, axis=0)])
        return np.asarray(whole[self.tracks[which].candidates])

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per segment of all tracks."""
        return [row for track in self.tracks for row in self._rows(track)]

    def to_dataframe(self) -> "pd.DataFrame":
        """Return one row per segment as a pandas DataFrame."""
        return to_dataframe(self)

    def to_dataset(self) -> "xr.Dataset":
        """Return tracks, segments, and probabilities and parameters along tracks as a Dataset."""
        return to_dataset(self)

    def save(self, path: PathLike) -> None:
        """Write all numbers as NetCDF (.nc), or one row per segment as CSV (.csv)."""
        suffix = Path(path).suffix.lower()
        if suffix == ".nc":
            write_dataset(self.to_dataset(), path, kind="segments")
        elif suffix == ".csv":
            rows = self.rows()
            with atomic_path(path) as temporary, temporary.open("w", newline="") as file:
                writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
                writer.writeheader()
                writer.writerows(rows)
        else:
            raise DriftbayesError(f"unknown suffix {suffix!r} for segments; use .nc or .csv")

    def plot(self, tracks: list[int | str] | None = None, **options: Any) -> Any:
        """Draw tracks by segment, and the probability of a change; see `plot_segments`."""
        return public("plot_segments")(self, tracks, **options)


@in_double_precision
def find_segments(
    data: Displacements,
    hypothesis: Hypothesis,
    tracks: Trajectories,
    *,
    rate: float | None = None,
    progress: Progress | None = None,
) -> Segments:
    """Find change points of tracks, exactly over all segmentations.

    Args:
        data: Displacements of whole tracks.
        hypothesis: Model and priors of each segment.
        tracks: Trajectories of the displacements.
        rate: Prior rate of changes; by default a track of mean duration changes with probability
            1/2.
        progress: Called with the stage, the number done, and the total.

    Raises:
        DriftbayesError: No track has two steps, or the model has no exact evidence.
    """
    sd = data.position_sd if data.position_sd is not None and data.position_sd.any() else None
    model = segment_model(hypothesis, data.n_dim, has_error=sd is not None)
    long_enough = np.flatnonzero(data.row_sizes >= _MIN_STEPS)
    if not len(long_enough):
        raise DriftbayesError(
            f"no track has {_MIN_STEPS} steps at this tau, the longest has {data.n_steps}; use a "
            "smaller tau or longer tracks"
        )
    starts = np.concatenate([[0], np.cumsum(data.row_sizes)])
    span = np.add.reduceat(data.interval, starts[:-1])[long_enough]
    prior_rate = np.log(2) * len(long_enough) / float(span.sum()) if rate is None else float(rate)
    if not (np.isfinite(prior_rate) and prior_rate > 0):
        msg = f"the rate of changes must be positive, got {prior_rate:g}; omit it for the default"
        raise DriftbayesError(msg)
    names = [str(tracks.ids[data.trajectory[r]]) for r in long_enough]
    repeated = {name for name, count in Counter(names).items() if count > 1}
    # Parts of one trajectory that was cut.
    names = [f"{n}/{k}" if n in repeated else n for k, n in enumerate(names)]

    def segment(place: int) -> TrackSegments:
        number = long_enough[place]
        steps = slice(starts[number], starts[number + 1])
        fixes = slice(starts[number] + number, starts[number + 1] + number + 1)
        interval = np.ascontiguousarray(data.interval[steps])
        begin = 0.0 if data.start_time is None else float(data.start_time[number])
        n = len(interval)
        spacing = -(-n // model.max_candidates)
        candidates = np.append(np.arange(0, n, spacing), n)
        times = begin + np.concatenate([[0.0], np.cumsum(interval)])[candidates]
        run = Run(
            np.ascontiguousarray(data.dx[steps]),
            interval,
            None if sd is None else np.ascontiguousarray(sd[fixes]),
            candidates,
        )
        return segment_track(model, run, times, prior_rate, names[place])

    segmented: list[TrackSegments] = []
    group = 16 * count_threads()
    for first in range(0, len(long_enough), group):
        segmented += run_in_threads(
            segment, [(i,) for i in range(first, min(first + group, len(long_enough)))]
        )
        if progress is not None:
            progress("tracks", len(segmented), len(long_enough))
    origin = tracks.provenance.get("time_origin")
    units = tuple(p.unit(data.length_unit, data.time_unit) for p in model.parameters)
    return Segments(
        tracks=tuple(segmented),
        hypothesis=hypothesis,
        names=model.names,
        units=units,
        rate=prior_rate,
        data=data,
        runs=long_enough,
        n_short=len(data.row_sizes) - len(long_enough) + data.n_unused,
        time_origin=None if origin is None or data.time_unit != "s" else str(origin),
    )
