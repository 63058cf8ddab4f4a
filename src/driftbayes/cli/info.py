"""Describe a file of trajectories and suggest sampling times."""

__all__ = ["add_arguments", "run"]

import argparse
import shlex
from typing import TYPE_CHECKING, Any

from driftbayes.cli import _console, _options, _reading

if TYPE_CHECKING:
    from driftbayes.data.trajectories import Trajectories
    from driftbayes.diagnostics.survey import Survey

# Rounding errors, relative to a typical step: below the first they are not reported; above the
# second they change the inference at the shortest sampling times.
_FINE, _COARSE = 1e-3, 0.05


EXAMPLES = (
    "driftbayes info tracks.csv",
    "driftbayes info tracks.csv --columns id=particle,time=t --length-unit km",
    "driftbayes info spots.csv --format trackpy --pixel-size 0.16um --frame-interval 50ms",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    _reading.add_reading(parser)
    _options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Read and describe."""
    from driftbayes.diagnostics.survey import survey

    trajectories = _reading.read(args)
    found = survey(trajectories)
    warnings = _warnings(trajectories, found)
    facts = {
        **_facts(args, trajectories),
        **_format(args),
        **_sampling(trajectories, found),
        "notes": list(trajectories.provenance.get("notes", [])),
        "warnings": warnings,
        "suggested_command": _command(args, trajectories, found),
    }
    if args.json:
        _console.print_json(facts)
        return 0
    rows = _rows(trajectories, found, facts)
    _console.print_table(f"{args.file.name}", ["", ""], rows, left=2)
    if trajectories.recording_interval is None and len(trajectories.intervals):
        print(trajectories.irregular_message())
    return 0


def _facts(args: argparse.Namespace, trajectories: "Trajectories") -> dict[str, Any]:
    import numpy as np

    observed = trajectories.positions[trajectories.observed]
    counts = np.add.reduceat(trajectories.observed, trajectories.starts[:-1])
    dt = trajectories.recording_interval
    intervals = trajectories.intervals
    sd = trajectories.position_sd
    known = None if sd is None else sd[trajectories.observed]
    return {
        "file": args.file.name,
        "n_trajectories": trajectories.n_trajectories,
        "n_points": int(trajectories.observed.sum()),
        "n_missing": int((~trajectories.observed).sum()),
        "n_gaps_in_time": None if dt is None else int(np.sum(intervals > 1.5 * dt)),
        "n_dim": trajectories.n_dim,
        "shortest": int(counts.min()),
        "median_length": float(np.median(counts)),
        "longest": int(counts.max()),
        "recording_interval": dt,
        "interval_min": float(intervals.min()) if len(intervals) else None,
        "interval_max": float(intervals.max()) if len(intervals) else None,
        "time_min": float(trajectories.times.min()),
        "time_max": float(trajectories.times.max()),
        "position_min": observed.min(axis=0).tolist() if len(observed) else None,
        "position_max": observed.max(axis=0).tolist() if len(observed) else None,
        "length_unit": trajectories.length_unit or None,
        "time_unit": trajectories.time_unit or None,
        "has_measurement_error": sd is not None,
        "measurement_error_median": (
            float(np.median(known)) if known is not None and len(known) else None
        ),
        "data_fingerprint": trajectories.fingerprint,
        "provenance": dict(trajectories.provenance),
    }


def _format(args: argparse.Namespace) -> dict[str, Any]:
    from driftbayes.io.formats import choose, contents_of

    contents = contents_of(args.file)
    chosen = choose(contents, args.format)
    if args.format is not None:
        how = "--format"
    else:
        shown = ", ".join(name[:40] for name in contents.names[:8])
        more = ", ..." if len(contents.names) > 8 else ""
        how = f"content ({contents.container}: {shown}{more})" if shown else "content"
    return {"format": chosen.name, "format_summary": chosen.summary, "recognised_by": how}


def _sampling(trajectories: "Trajectories", found: "Survey") -> dict[str, Any]:
    lonlat = trajectories.lonlat
    seen = None if lonlat is None else lonlat[trajectories.observed]
    has_degrees = seen is not None and len(seen) > 0
    return {
        "date_min": None if found.dates is None else found.dates[0],
        "date_max": None if found.dates is None else found.dates[1],
        "interval_typical": found.interval,
        "interval_typical_share": found.share,
        "n_gaps": found.n_gaps,
        "longest_gap": found.longest_gap,
        "step_rms": found.step_rms,
        "coordinates": "plane" if lonlat is None else "degrees",
        "frame": _frame(trajectories),
        "lonlat_min": seen.min(axis=0).tolist() if seen is not None and has_degrees else None,
        "lonlat_max": seen.max(axis=0).tolist() if seen is not None and has_degrees else None,
        "jumps": found.jumps,
        "quantisation": [vars(axis) for axis in found.quantisation],
        "needs_tau_all": found.interval is not None and found.tau_low is None,
        "suggested_taus": _taus(found),
    }


def _taus(found: "Survey") -> str | None:
    if found.tau_low is None or found.tau_high is None:
        return None
    if found.n_taus < 4:
        return ",".join(f"{found.tau_low * (i + 1):.6g}" for i in range(found.n_taus))
    return f"{found.tau_low:.6g}:{found.tau_high:.4g}:{found.n_taus}log"


def _command(args: argparse.Namespace, trajectories: "Trajectories", found: "Survey") -> str | None:
    if found.interval is None:
        return None
    words = ["driftbayes", "compare" if found.tau_low is None else "scan", str(args.file)]
    given = _reading.given_reading(args)
    if _has_short(trajectories):
        given["drop_short"] = ""
    for name, value in given.items():
        words += [f"--{name.replace('_', '-')}", *([value] if value else [])]
    if trajectories.position_sd is None and _is_coarse(found):
        words += ["--noise", f"{found.noise:.3g}"]
    words += ["--tau", "all"] if found.tau_low is None else ["--taus", str(_taus(found))]
    return shlex.join(words)


def _has_short(trajectories: "Trajectories") -> bool:
    import numpy as np

    counts = np.add.reduceat(trajectories.observed, trajectories.starts[:-1])
    return bool((counts < 2).any())


def _is_coarse(found: "Survey") -> bool:
    return found.step_rms is not None and found.noise > _COARSE * found.step_rms


def _warnings(trajectories: "Trajectories", found: "Survey") -> list[str]:
    notes = trajectories.provenance.get("notes", [])
    warnings = [
        "the positions are smoothed, which favours smooth models at short sampling times; use "
        "sampling times longer than the smoothing time"
        for note in notes
        if "smoothed" in str(note).lower()
    ][:1]
    unit = f" {trajectories.length_unit}" if trajectories.length_unit else ""
    if _is_coarse(found) and found.step_rms:
        part = found.noise / found.step_rms
        remedy = (
            f"pass --noise {found.noise:.3g}, or use longer sampling times"
            if trajectories.position_sd is None
            else "use longer sampling times unless the measurement errors include it"
        )
        warnings.append(
            f"positions are rounded: the rounding error of {found.noise:.3g}{unit} is {part:.0%} "
            f"of a typical displacement; {remedy}"
        )
    for axis, n_jumps in found.jumps.items():
        steps = "1 step is" if n_jumps == 1 else f"{n_jumps:,} steps are"
        warnings.append(
            f"{steps} longer than half the range of {axis}; pass --period if the domain is "
            "periodic, otherwise check the positions"
        )
    if _has_short(trajectories):
        warnings.append("some trajectories have fewer than two positions; pass --drop-short")
    return warnings


def _rows(trajectories: "Trajectories", found: "Survey", facts: dict[str, Any]) -> list[list[str]]:
    length, time = (
        f" {unit}" if unit else "" for unit in (trajectories.length_unit, trajectories.time_unit)
    )
    rows = [
        ["format", f"{facts['format']} ({facts['format_summary']})"],
        ["detected by", facts["recognised_by"]],
        ["trajectories", f"{facts['n_trajectories']:,}"],
        ["positions", _points(facts)],
        ["time range", _span(facts, time)],
        ["recording interval", _interval(trajectories, found, time)],
        ["gaps", _gaps(found, time)],
        ["coordinates", _coordinates(facts, length)],
        ["units", f"length {facts['length_unit'] or '-'}, time {facts['time_unit'] or '-'}"],
        ["measurement errors", _errors(facts, length)],
        ["rounding", _digits(found, length)],
    ]
    rows += [["note", note] for note in facts["notes"]]
    rows += [["warning", warning] for warning in facts["warnings"]]
    others = {
        k: v for k, v in facts["provenance"].items() if k not in ("notes", "plane", "time_origin")
    }
    rows.append(["provenance", ", ".join(f"{key}: {value}" for key, value in others.items())])
    rows.append(["fingerprint", facts["data_fingerprint"]])
    if facts["suggested_command"] is not None:
        if facts["needs_tau_all"]:
            what = "all, since times are irregular"
        else:
            what = f"{facts['suggested_taus']}{time}"
        rows += [["sampling times", what], ["next command", facts["suggested_command"]]]
    return rows


def _points(facts: dict[str, Any]) -> str:
    missing = f" and {facts['n_missing']:,} missing" if facts["n_missing"] else ""
    shortest, longest = facts["shortest"], facts["longest"]
    if shortest == longest:
        return f"{facts['n_points']:,}{missing}; {longest:,} positions per trajectory"
    return (
        f"{facts['n_points']:,}{missing}; {shortest:,} to {longest:,} positions per trajectory, "
        f"median {facts['median_length']:,.0f}"
    )


def _span(facts: dict[str, Any], time: str) -> str:
    if facts["date_min"] is not None:
        return f"{facts['date_min']} to {facts['date_max']} UTC"
    return f"{facts['time_min']:.10g} to {facts['time_max']:.10g}{time}"


def _interval(trajectories: "Trajectories", found: "Survey", time: str) -> str:
    if found.interval is None or found.share is None:
        return "-"
    low, high = trajectories.intervals.min(), trajectories.intervals.max()
    text = f"{found.interval:.10g}{time}"
    # Rounding does not count as irregular.
    if high - low > 1e-6 * found.interval:
        text += f" in {found.share:.1%} of intervals; range {low:.6g} to {high:.6g}{time}"
    dt = trajectories.recording_interval
    if dt is None:
        return f"{text}; irregular"
    regular = "regular" if dt == found.interval else f"multiples of {dt:.10g}{time}"
    return f"{text}; {regular}"


def _gaps(found: "Survey", time: str) -> str:
    if found.n_gaps is None:
        return "-"
    if not found.n_gaps:
        return "none"
    intervals = "interval" if found.n_gaps == 1 else "intervals"
    return (
        f"{found.n_gaps:,} {intervals} longer than 1.5 times the recording interval, up to "
        f"{found.longest_gap:.6g}{time}"
    )


def _frame(trajectories: "Trajectories") -> str | None:
    """Return the axes of the projection, from the provenance or from the positions."""
    plane = trajectories.provenance.get("plane")
    if isinstance(plane, dict):
        return plane.get("frame")
    from driftbayes.data.tangent import ground_of

    found = ground_of(trajectories)
    return None if found is None else found[0].frame


def _coordinates(facts: dict[str, Any], length: str) -> str:
    if facts["coordinates"] == "degrees" and facts["lonlat_min"] is not None:
        (west, south), (east, north) = facts["lonlat_min"], facts["lonlat_max"]
        frames = {"local": "east and north", "transported": "parallel-transported axes"}
        ranges = f"longitude {west:.6g} to {east:.6g}, latitude {south:.6g} to {north:.6g}"
        if facts["frame"] is None:
            return f"plane, and {ranges}"
        frame = frames.get(facts["frame"], facts["frame"])
        return f"{ranges}; projected to {frame} (--frame {facts['frame']})"
    if facts["position_min"] is None:
        return f"plane, {facts['n_dim']}D"
    ranges = ", ".join(
        f"{axis} {low:.6g} to {high:.6g}"
        for axis, low, high in zip(
            "xyz", facts["position_min"], facts["position_max"], strict=False
        )
    )
    return f"plane, {facts['n_dim']}D: {ranges}{length}"


def _errors(facts: dict[str, Any], length: str) -> str:
    if facts["measurement_error_median"] is None:
        return "none given"
    return f"given per position, median {facts['measurement_error_median']:.4g}{length}"


def _digits(found: "Survey", length: str) -> str:
    rms = found.step_rms or 0.0
    shown = [axis for axis in found.quantisation if axis.noise > _FINE * rms]
    if not shown:
        return "negligible"
    return "; ".join(
        f"{axis.axis} in steps of {axis.step:.4g} {axis.unit}".rstrip()
        + (" (single precision)" if axis.single else "")
        + f", error {axis.noise:.3g}{length}"
        + (f" ({axis.noise / rms:.1%} of a typical displacement)" if rms else "")
        for axis in shown
    )
