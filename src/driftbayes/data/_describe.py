"""Describe trajectories and displacements; large data are described from their beginning."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from driftbayes._aliases import public
from driftbayes._representation import Card, counted, describe, number, summarise
from driftbayes._typing import FloatArray, IntArray
from driftbayes.data import _schema as schema
from driftbayes.data._sampling import Displacements
from driftbayes.data._trajectories import AXES, Trajectories
from driftbayes.data._units import readable, readable_unit

# With more than `_LARGE` points, the recording interval is found from the first ones, in seconds
# less.
_LARGE, _FIRST = 1_000_000, 100_000
# Entries of a provenance that are shown elsewhere, or only needed by the program.
_NOT_ORIGIN = ("notes", "plane", "time_origin", "guessed", "files", "reading")


@summarise.register
def _(trajectories: Trajectories) -> str:
    missing = int(np.count_nonzero(~trajectories.observed))
    gaps = f", {missing} missing" if missing else ""
    size = f"{trajectories.n_trajectories} in {trajectories.n_dim}D"
    return f"{size}, {len(trajectories.times)} points, {_recorded(trajectories)}{gaps}"


@describe.register
def _(trajectories: Trajectories) -> Card:
    # Includes suggested sampling times and warnings, which a higher package computes.
    card: Card = public("trajectories_card")(trajectories)
    return card


def describe_trajectories(trajectories: Trajectories) -> Card:
    """Describe sizes, times, ranges and source."""
    n, missing = len(trajectories.times), int(np.count_nonzero(~trajectories.observed))
    length = trajectories.length_unit
    facts = [
        ("recorded", _recorded(trajectories)),
        ("times", _times(trajectories)),
        ("points each", _counts(trajectories.row_sizes)),
    ]
    if missing:
        facts.append(("missing", f"{missing:,} ({number(100 * missing / n, 3)} %)"))
    for axis, values in zip(AXES, trajectories.positions.T, strict=False):
        facts.append((axis, _range(values, length)))
    if trajectories.lonlat is not None:
        for name, values in zip(("longitude", "latitude"), trajectories.lonlat.T, strict=True):
            facts.append((name, _range(values, "degrees")))
    if trajectories.position_sd is not None:
        facts.append(("position error", _range(trajectories.position_sd, length)))
    if trajectories.flags:
        facts.append(("flags", ", ".join(trajectories.flags)))
    origin = trajectories.provenance
    source = origin.get("source", origin.get("simulated"))
    if source is not None:
        facts.append(("source", str(source)))
    headline = f"{trajectories.n_trajectories:,} in {trajectories.n_dim}D, {n:,} points"
    return Card("Trajectories", headline, (*facts,))


def origin_facts(provenance: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Describe where data come from and how they were read, in words.

    Args:
        provenance: Provenance of trajectories or of a scan.

    Example:
        >>> origin_facts({"source": "a.csv", "units": {"length": ["m", "km"], "time": ["", "d"]}})
        [('source', 'a.csv'), ('units', 'length from m to km, time assumed in d')]
    """
    return [
        (key.replace("_", " "), _origin_text(key, value))
        for key, value in provenance.items()
        if key not in _NOT_ORIGIN
    ]


def _origin_text(key: str, value: Any) -> str:
    """Describe an entry of a provenance, which in a file of others may be anything."""
    if isinstance(value, float):
        return number(value)
    if isinstance(value, Mapping):
        if key == "units":
            value = {name: _change(*units) for name, units in value.items()}
        between = " = " if key == "columns" else " "
        return ", ".join(f"{name}{between}{part or 'none'}" for name, part in value.items())
    if not isinstance(value, list | tuple):
        return str(value)
    if key == "quality" and all(isinstance(record, Mapping) for record in value):
        counts = [(record.get("check"), record.get("n_observations")) for record in value]
        found = [f"{check} ({n:,} positions)" for check, n in counts if n]
        return ", ".join(found) or "nothing to repair"
    return ", ".join("-" if part is None else _origin_text("", part) for part in value)


def _change(old: object, new: object = "") -> str:
    """Describe how a unit was changed; data without one were taken to be in the new unit."""
    if old == new:
        return str(old)
    return f"from {old} to {new}" if old else f"assumed in {new}"


@summarise.register
def _(steps: Displacements) -> str:
    tau = readable(steps.tau, steps.time_unit)
    size = f"{counted(steps.n_particles, 'particle')}, up to {counted(steps.n_steps, 'step')}"
    return f"tau = {tau}, {size}, {steps.n_dim}D"


@describe.register
def describe_displacements(steps: Displacements) -> Card:
    """Describe sizes, intervals and the root mean square of a step."""
    unused = f", {steps.n_unused:,} not used" if steps.n_unused else ""
    n_steps = len(steps.dx)
    rms = np.sqrt(np.einsum("ij,ij->j", steps.dx, steps.dx) / max(n_steps, 1))
    sizes = ", ".join(f"{axis} {number(size)}" for axis, size in zip(AXES, rms, strict=False))
    facts = [
        ("particles", f"{steps.n_particles:,}{unused}"),
        ("runs", f"{len(steps.row_sizes):,} of {_counts(steps.row_sizes)} steps"),
        ("steps", f"{n_steps:,} in {steps.n_dim}D, {steps.n_displacements:,} displacements"),
        ("root mean square", f"{sizes} {steps.length_unit}".rstrip()),
    ]
    if not steps.is_regular:
        facts.append(("intervals", _range(steps.interval, steps.time_unit)))
    if steps.position_sd is not None:
        facts.append(("position error", _range(steps.position_sd, steps.length_unit)))
    if "fingerprint" in steps.__dict__:
        facts.append(("fingerprint", steps.fingerprint))
    return Card("Displacements", f"tau = {readable(steps.tau, steps.time_unit)}", (*facts,))


def _recorded(trajectories: Trajectories) -> str:
    part, note = trajectories, ""
    if len(trajectories.times) > _LARGE and "recording_interval" not in trajectories.__dict__:
        part, note = _beginning(trajectories), f" (the first {_FIRST:,} points)"
    dt = part.recording_interval
    every = "irregular times" if dt is None else f"every {readable(dt, trajectories.time_unit)}"
    return f"{every}{note}"


def _beginning(trajectories: Trajectories) -> Trajectories:
    """Return the trajectories of the first `_FIRST` points."""
    sizes = np.diff(np.minimum(np.cumsum(trajectories.row_sizes), _FIRST), prepend=0)
    sizes = sizes[sizes > 0]
    return Trajectories(
        trajectories.positions[:_FIRST], trajectories.times[:_FIRST], sizes, np.arange(len(sizes))
    )


def _times(trajectories: Trajectories) -> str:
    low, high = float(trajectories.times.min()), float(trajectories.times.max())
    unit = trajectories.time_unit
    if trajectories.provenance.get("time_origin") == schema.TIME_ORIGIN and unit == "s":
        dates = (np.datetime64(round(value), "s").item().isoformat() for value in (low, high))
        return " to ".join(dates)
    return _between(low, high, unit)


def _counts(sizes: IntArray) -> str:
    low, high = int(sizes.min()), int(sizes.max())
    return f"{low:,}" if low == high else f"{low:,} to {high:,}, median {np.median(sizes):,.0f}"


def _range(values: FloatArray, unit: str) -> str:
    # NaN stands for a missing fix.
    low, high = float(np.fmin.reduce(values)), float(np.fmax.reduce(values))
    if np.isnan(low):
        return "all missing"
    return _between(low, high, unit)


def _between(low: float, high: float, unit: str) -> str:
    """Format a range in the unit that suits its size."""
    factor, name = readable_unit([max(abs(low), abs(high))], unit)
    ends = dict.fromkeys(number(value * factor, 5) for value in (low, high))
    return f"{' to '.join(ends)} {name}".rstrip()
