"""Overview of trajectories: sampling, warnings and suggested sampling times."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from driftbayes._representation import (
    Card,
    Described,
    Table,
    describe,
    number,
    repeat_command,
    summarise,
)
from driftbayes._storage import PathLike
from driftbayes.data._describe import describe_trajectories, origin_facts
from driftbayes.data._sampling import displacements
from driftbayes.data._trajectories import Trajectories, check_tracks
from driftbayes.data._units import is_length, is_time, readable, readable_unit
from driftbayes.diagnostics._scales import lag_one_doubts
from driftbayes.diagnostics.survey import Survey, survey
from driftbayes.errors import DriftbayesError

if TYPE_CHECKING:
    from driftbayes.quality import QualityReport

# Rounding errors, relative to a typical step: below the first they are not reported; above the
# second they change the inference at the shortest sampling times.
_FINE, _COARSE = 1e-3, 0.05
# With more positions, a card shows only what is computed quickly.
_LARGE = 1_000_000


def info(tracks: Trajectories, file: PathLike | Sequence[PathLike] | None = None) -> "Overview":
    """Describe trajectories and suggest sampling times.

    Args:
        tracks: Any trajectories.
        file: Their file or files, for the suggested command.

    Example:
        >>> import driftbayes as db
        >>> tracks = db.simulate("brownian", {"kappa": 1.0}, tau=0.5, n_particles=10, n_steps=20)
        >>> db.info(tracks).to_json()["n_trajectories"]
        10
    """
    check_tracks(tracks)
    named: str | tuple[str, ...] | None = None if file is None else str(file)
    if isinstance(file, list | tuple):
        named = tuple(map(str, file))
    return Overview(tracks, survey(tracks), named)


def qc(tracks: Trajectories, checks: Any = ()) -> "QualityReport":
    """Inspect the quality of trajectories with every check, without changing them.

    Args:
        tracks: Any trajectories.
        checks: Checks with other limits than the default ones, as in `--qc` ("spikes=6").

    Example:
        >>> import driftbayes as db
        >>> db.qc(db.simulate("brownian", {"kappa": 1.0}, tau=1.0, n_particles=2, n_steps=9))
        <QualityReport: no findings>
    """
    from driftbayes.quality import inspect

    check_tracks(tracks)
    return inspect(tracks, checks)


def trajectories_card(tracks: Trajectories) -> Card:
    """Describe sizes and ranges of trajectories, suggested sampling times and warnings."""
    card = describe_trajectories(tracks)
    if len(tracks.times) > _LARGE:
        return card
    found = info(tracks)
    more = [("gaps", found.gaps), ("rounding", found.rounding)]
    if found.suggested_taus is not None:
        more.append(("suggested", f"tau = {found.suggested_taus}"))
    shown = tuple((name, text) for name, text in more if text not in ("-", "none", "negligible"))
    return replace(card, facts=(*card.facts, *shown), warnings=(*card.warnings, *found.warnings))


@dataclass(frozen=True, repr=False)
class Overview(Described):
    """Overview of trajectories, as returned by `info`.

    Args:
        tracks: The trajectories.
        survey: Their sampling and rounding.
        file: Their file or files, if known.

    Example:
        >>> import driftbayes as db
        >>> tracks = db.simulate("brownian", {"kappa": 1.0}, tau=0.5, n_particles=10, n_steps=20)
        >>> db.info(tracks).suggested_taus
        '0.5:2:4log'
    """

    tracks: Trajectories
    survey: Survey
    file: str | tuple[str, ...] | None = None

    @property
    def suggested_taus(self) -> str | None:
        """Sampling times in the form of --taus; None if every fix should be used (tau = all)."""
        found = self.survey
        if found.tau_low is None or found.tau_high is None:
            return None
        unit = self.tracks.time_unit
        if found.n_taus < 4:
            taus = [found.tau_low * (i + 1) for i in range(found.n_taus)]
            return ",".join(_typed(tau, unit) for tau in taus)
        return f"{_typed(found.tau_low, unit)}:{_typed(found.tau_high, unit)}:{found.n_taus}log"

    @property
    def suggested_command(self) -> str | None:
        """Command for the next step."""
        if self.survey.interval is None or self.file is None:
            return None
        if self.survey.step_rms == 0 or not self._has_long:
            return None
        taus = self.suggested_taus
        given = dict(self.tracks.provenance.get("reading", {}))
        if self._has_short:
            given["drop_short"] = ""
        if self.tracks.position_sd is None and self._is_coarse:
            given["noise"] = _typed(self.survey.noise, self.tracks.length_unit, 3)
        if taus is None:
            return repeat_command("compare", self.file, {**given, "tau": "all"})
        return repeat_command("scan", self.file, {**given, "taus": taus})

    @property
    def _has_short(self) -> bool:
        return bool((self.tracks.n_positions < 2).any())

    @property
    def _has_long(self) -> bool:
        return bool((self.tracks.n_positions >= 2).any())

    @property
    def _is_coarse(self) -> bool:
        rms = self.survey.step_rms
        return rms is not None and self.survey.noise > _COARSE * rms

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about the data."""
        tracks, found = self.tracks, self.survey
        warnings = []
        if any("smoothed" in str(note).lower() for note in tracks.provenance.get("notes", [])):
            warnings.append(
                "the positions are smoothed, which favours smooth models at short sampling times; "
                "use sampling times longer than the smoothing time"
            )
        if self._is_coarse and found.step_rms:
            remedy = (
                f"pass --noise {_typed(found.noise, tracks.length_unit, 3)}, or use longer "
                "sampling times"
                if tracks.position_sd is None
                else "use longer sampling times unless the measurement errors include it"
            )
            warnings.append(
                "positions are rounded: the rounding error of "
                f"{readable(found.noise, tracks.length_unit, 3)} is "
                f"{found.noise / found.step_rms:.0%} of a typical displacement; {remedy}"
            )
        for axis, n_jumps in found.jumps.items():
            steps = "1 step is" if n_jumps == 1 else f"{n_jumps:,} steps are"
            warnings.append(
                f"{steps} longer than half the range of {axis}; pass --period if the domain is "
                "periodic, otherwise check the positions"
            )
        if (doubt := self._lag_one) is not None:
            warnings.append(doubt)
        if tracks.recording_interval is not None and len(tracks.times) <= _LARGE:
            from driftbayes.diagnostics._modulation import modulation

            repeats = modulation(tracks, only_likely=True)
            if repeats is not None and repeats.is_significant:
                warnings.append(repeats.sentence)
        if not self._has_long:
            warnings.append("no trajectory has two positions: nothing can be inferred")
        elif self._has_short:
            warnings.append("some trajectories have fewer than two positions; pass --drop-short")
        return tuple(warnings)

    @property
    def _lag_one(self) -> str | None:
        """Signs of noise, blur and drift in steps over one recording interval."""
        tracks = self.tracks
        if tracks.recording_interval is None or len(tracks.times) > _LARGE:
            return None
        try:
            data = displacements(tracks, tracks.recording_interval)
        except DriftbayesError:
            return None
        return "; ".join(sentence for _, sentence in lag_one_doubts(data)) or None

    def to_json(self) -> dict[str, Any]:
        """Return the overview as plain numbers and text."""
        tracks, found = self.tracks, self.survey
        seen = tracks.positions[tracks.observed]
        lonlat = None if tracks.lonlat is None else tracks.lonlat[tracks.observed]
        dt, intervals, sd = tracks.recording_interval, tracks.intervals, tracks.position_sd
        errors = None if sd is None else sd[tracks.observed]
        return {
            "n_trajectories": tracks.n_trajectories,
            "n_points": len(seen),
            "n_missing": int((~tracks.observed).sum()),
            "n_gaps_in_time": None if dt is None else int(np.sum(intervals > 1.5 * dt)),
            "n_dim": tracks.n_dim,
            "shortest": int(tracks.n_positions.min()),
            "median_length": float(np.median(tracks.n_positions)),
            "longest": int(tracks.n_positions.max()),
            "recording_interval": dt,
            "interval_min": float(intervals.min()) if len(intervals) else None,
            "interval_max": float(intervals.max()) if len(intervals) else None,
            "time_min": float(tracks.times.min()),
            "time_max": float(tracks.times.max()),
            "position_min": _ends(seen, np.min),
            "position_max": _ends(seen, np.max),
            "length_unit": tracks.length_unit or None,
            "time_unit": tracks.time_unit or None,
            "has_measurement_error": sd is not None,
            "measurement_error_median": None
            if errors is None or not len(errors)
            else float(np.median(errors)),
            "data_fingerprint": tracks.fingerprint,
            "provenance": dict(tracks.provenance),
            "date_min": None if found.dates is None else found.dates[0],
            "date_max": None if found.dates is None else found.dates[1],
            "interval_typical": found.interval,
            "interval_typical_share": found.share,
            "n_gaps": found.n_gaps,
            "n_odd_intervals": tracks.n_strays,
            "longest_gap": found.longest_gap,
            "step_rms": found.step_rms,
            "coordinates": "plane" if lonlat is None else "degrees",
            "frame": self._frame,
            "lonlat_min": _ends(lonlat, np.min),
            "lonlat_max": _ends(lonlat, np.max),
            "jumps": found.jumps,
            "quantisation": [vars(axis) for axis in found.quantisation],
            "needs_tau_all": found.interval is not None and found.tau_low is None,
            "suggested_taus": self.suggested_taus,
            "notes": list(tracks.provenance.get("notes", [])),
            "warnings": list(self.warnings),
            "suggested_command": self.suggested_command,
        }

    def rows(self) -> list[list[str]]:
        """Return names and values for a table."""
        facts = self.to_json()
        units = f"length {facts['length_unit'] or '-'}, time {facts['time_unit'] or '-'}"
        error = facts["measurement_error_median"]
        errors = "none given"
        if error is not None:
            errors = f"given per position, median {readable(error, self.tracks.length_unit, 4)}"
        rows = [["columns", guessed]] if (guessed := facts["provenance"].get("guessed")) else []
        rows += [
            ["trajectories", f"{facts['n_trajectories']:,}"],
            ["positions", _points(facts)],
            ["time range", self._span],
            ["recording interval", self._interval],
            ["gaps", self.gaps],
            ["coordinates", self._coordinates(facts)],
            ["units", units],
            ["measurement errors", errors],
            ["rounding", self.rounding],
        ]
        rows += [["note", note] for note in facts["notes"]]
        rows += [["warning", warning] for warning in self.warnings]
        origin = origin_facts(facts["provenance"])
        rows.append(["provenance", ", ".join(f"{name}: {text}" for name, text in origin)])
        rows.append(["fingerprint", facts["data_fingerprint"]])
        if facts["suggested_command"] is not None:
            what = str(self.suggested_taus)
            if facts["needs_tau_all"]:
                what = "all, since times are irregular"
            rows.append(["sampling times", what])
        return rows

    @property
    def _span(self) -> str:
        if self.survey.dates is not None:
            return f"{self.survey.dates[0]} to {self.survey.dates[1]} UTC"
        times = self.tracks.times
        factor, unit = readable_unit([np.abs(times).max()], self.tracks.time_unit)
        ends = (number(float(end) * factor, 8) for end in (times.min(), times.max()))
        return f"{' to '.join(ends)} {unit}".rstrip()

    @property
    def _interval(self) -> str:
        found, unit = self.survey, self.tracks.time_unit
        if found.interval is None or found.share is None:
            return "-"
        low, high = self.tracks.intervals.min(), self.tracks.intervals.max()
        text = readable(found.interval, unit, 8)
        # Differences by rounding are not irregular.
        if high - low > 1e-6 * found.interval:
            ends = f"{readable(low, unit)} to {readable(high, unit)}"
            text += f" in {_share(found.share)} of intervals; range {ends}"
        dt = self.tracks.recording_interval
        if dt is None:
            return f"{text}; irregular"
        regular = "regular" if dt == found.interval else f"multiples of {readable(dt, unit, 8)}"
        return f"{text}; {regular}"

    @property
    def gaps(self) -> str:
        """Description of gaps: long intervals, and odd ones that count as gaps."""
        n_gaps, odd = self.survey.n_gaps, self.tracks.stray_note
        if not n_gaps:
            return odd or ("-" if n_gaps is None else "none")
        intervals = "interval" if n_gaps == 1 else "intervals"
        return (
            f"{n_gaps:,} {intervals} longer than 1.5 times the recording interval, up to "
            f"{readable(self.survey.longest_gap or 0.0, self.tracks.time_unit)}"
            + (f"; {odd}" if odd else "")
        )

    @property
    def _frame(self) -> str | None:
        """Axes of the projection, from the provenance or from the positions."""
        plane = self.tracks.provenance.get("plane")
        if isinstance(plane, dict):
            return plane.get("frame")
        from driftbayes.data.tangent import ground_of

        found = ground_of(self.tracks)
        return None if found is None else found[0].frame

    def _coordinates(self, facts: dict[str, Any]) -> str:
        if facts["lonlat_min"] is not None:
            (west, south), (east, north) = facts["lonlat_min"], facts["lonlat_max"]
            frames = {"local": "east and north", "transported": "parallel-transported axes"}
            ranges = f"longitude {west:.6g} to {east:.6g}, latitude {south:.6g} to {north:.6g}"
            frame = facts["frame"]
            if frame is None:
                return f"plane, and {ranges}"
            return f"{ranges}; projected to {frames.get(frame, frame)} (--frame {frame})"
        if facts["position_min"] is None:
            return f"plane, {facts['n_dim']}D"
        low, high = np.array(facts["position_min"]), np.array(facts["position_max"])
        factor, unit = readable_unit([np.abs([low, high]).max()], self.tracks.length_unit)
        ends = zip("xyz", low * factor, high * factor, strict=False)
        ranges = ", ".join(f"{axis} {number(a, 5)} to {number(b, 5)}" for axis, a, b in ends)
        return f"plane, {facts['n_dim']}D: {ranges} {unit}".rstrip()

    @property
    def rounding(self) -> str:
        """Description of the steps to which coordinates are rounded."""
        rms = self.survey.step_rms or 0.0
        shown = [axis for axis in self.survey.quantisation if axis.noise > _FINE * rms]
        return (
            "; ".join(
                f"{axis.axis} in steps of {readable(axis.step, axis.unit, 4)}"
                + (" (single precision)" if axis.single else "")
                + f", error {readable(axis.noise, self.tracks.length_unit, 3)}"
                + (f" ({axis.noise / rms:.1%} of a typical displacement)" if rms else "")
                for axis in shown
            )
            or "negligible"
        )


@summarise.register
def _(overview: Overview) -> str:
    return f"{summarise(overview.tracks)}, suggested tau = {overview.suggested_taus or 'all'}"


@describe.register
def _(overview: Overview) -> Card:
    rows = tuple((name, text) for name, text in overview.rows())
    command = overview.suggested_command
    return Card(
        "Overview",
        summarise(overview.tracks),
        sentences=(f"next: {command}",) if command else (),
        tables=(Table(("", ""), rows, "ll"),),
    )


def _typed(value: float, unit: str, digits: int = 6) -> str:
    """Format a quantity for the command line: without a space, with its unit if known."""
    if not (is_length(unit) or is_time(unit)):
        return number(value, digits)
    return readable(value, unit, digits).replace(" ", "")


def _share(share: float) -> str:
    """Format a fraction in percent; 100 % only if it is exactly 1."""
    return "more than 99.9%" if 0.9995 <= share < 1 else f"{share:.1%}"


def _ends(values: np.ndarray | None, end: Any) -> list[float] | None:
    return None if values is None or not len(values) else end(values, axis=0).tolist()


def _points(facts: dict[str, Any]) -> str:
    missing = f" and {facts['n_missing']:,} missing" if facts["n_missing"] else ""
    shortest, longest = facts["shortest"], facts["longest"]
    if shortest == longest:
        return f"{facts['n_points']:,}{missing}; {longest:,} positions per trajectory"
    return (
        f"{facts['n_points']:,}{missing}; {shortest:,} to {longest:,} positions per trajectory, "
        f"median {facts['median_length']:,.0f}"
    )


def describe_format(file: Path, name: str | None = None) -> dict[str, str]:
    """Describe the format of a file, and how it was recognised."""
    from driftbayes.io._formats import choose, contents_of

    contents = contents_of(file)
    chosen = choose(contents, name)
    how = "--format"
    if name is None:
        shown = ", ".join(name[:40] for name in contents.names[:8])
        more = ", ..." if len(contents.names) > 8 else ""
        how = f"content ({contents.container}: {shown}{more})" if shown else "content"
    return {"format": chosen.name, "format_summary": chosen.summary, "recognised_by": how}
