"""What was read, in words."""

__all__ = ["card"]

import shlex
from typing import Any

import numpy as np

from driftbayes import quality
from driftbayes.data.units import readable_time
from driftbayes.diagnostics import data_scales
from driftbayes.errors import DriftbayesError
from driftbayes.explore.dataset import DataSet
from driftbayes.report.tracks import draw_trajectories


def card(number: str, data: DataSet) -> dict[str, Any]:
    """Everything that the page shows of a data set before any model.

    Args:
        number: By which the page asks for it.
        data: The data set.
    """
    trajectories = data.trajectories
    unit = trajectories.time_unit
    return {
        "data": number,
        "name": data.name,
        "is_simulated": bool(data.made_by),
        "reading": shlex.join(data.reading.words),
        "rows": _rows(data),
        "quality": _quality(data),
        "notes": [*map(str, trajectories.provenance.get("notes", [])), *data.reading.notes],
        "taus": data.taus,
        "tau_texts": [readable_time(tau, unit) for tau in data.taus],
        "irregular": "" if data.taus else _why_no_taus(data),
        "scales": _scales(data),
        "units": {"length": trajectories.length_unit, "time": unit},
        "drawing": draw_trajectories(trajectories),
    }


def _scales(data: DataSet) -> dict[str, float] | None:
    """What priors take from the data if nothing is given."""
    try:
        found = data_scales(data.trajectories)
    except DriftbayesError:
        return None
    return {"u_rms": found.u_rms, "timescale": found.timescale}


def _rows(data: DataSet) -> list[tuple[str, str]]:
    trajectories, found = data.trajectories, data.survey
    observed = trajectories.observed
    counts = np.add.reduceat(observed, trajectories.starts[:-1])
    n_missing = int((~observed).sum())
    time = f" {trajectories.time_unit}".rstrip()
    missing = f", {n_missing:,} missing" if n_missing else ""
    low, high = int(counts.min()), int(counts.max())
    each = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    span = (
        f"{found.dates[0]} to {found.dates[1]} UTC"
        if found.dates is not None
        else f"{trajectories.times.min():.6g} to {trajectories.times.max():.6g}{time}"
    )
    rows = [("format", data.reading.format)] if data.reading.format else []
    rows += [
        ("trajectories", f"{trajectories.n_trajectories:,}, in {trajectories.n_dim}D"),
        ("points", f"{int(observed.sum()):,}{missing}; {each} in a trajectory"),
        ("times", span),
        ("interval", _interval(data)),
        (
            "units",
            f"length {trajectories.length_unit or 'not given'}, "
            f"time {trajectories.time_unit or 'not given'}",
        ),
    ]
    if trajectories.position_sd is not None:
        median = float(np.median(trajectories.position_sd[observed]))
        length = f" {trajectories.length_unit}".rstrip()
        rows.append(("measurement errors", f"given, median {median:.4g}{length}"))
    rows.append(("fingerprint", trajectories.fingerprint))
    return rows


def _interval(data: DataSet) -> str:
    found, unit = data.survey, data.trajectories.time_unit
    if found.interval is None or found.share is None:
        return "no two points in a trajectory"
    text = readable_time(found.interval, unit)
    if data.trajectories.recording_interval is None:
        return f"irregular; {text}, or nearly, in {found.share:.0%} of all cases"
    if found.n_gaps:
        gaps = "1 gap" if found.n_gaps == 1 else f"{found.n_gaps:,} gaps"
        return f"{text}, with {gaps} of up to {readable_time(found.longest_gap or 0.0, unit)}"
    return f"{text}, regular"


def _quality(data: DataSet) -> list[str]:
    """What looks wrong, a sentence each."""
    found = quality.inspect(data.trajectories).findings
    sentences = [one.sentence for one in found if one.n_observations]
    for axis, n_jumps in data.survey.jumps.items():
        jumps = "1 step jumps" if n_jumps == 1 else f"{n_jumps:,} steps jump"
        sentences.append(
            f"{jumps} by more than half of the range of {axis}: if the domain is periodic, read it "
            "with --period"
        )
    return sentences


def _why_no_taus(data: DataSet) -> str:
    if data.survey.interval is None:
        return "no trajectory has two points, so nothing can be inferred"
    return (
        "the times are irregular: every fix is used at its own interval, as with --tau all, and "
        "there is no scan over sampling times"
    )
