"""What there is to see of trajectories and displacements, without going through all of them."""

__all__ = ["displacements_card", "displacements_line", "trajectories_card", "trajectories_line"]

from typing import TYPE_CHECKING

import numpy as np

from driftbayes.representation import Card, amount
from driftbayes.typing import FloatArray

if TYPE_CHECKING:
    from driftbayes.data.sampling import Displacements
    from driftbayes.data.trajectories import Trajectories

# Of more points than this the recording interval is that of the first ones: to look at all takes
# seconds, and a glance should not.
_LARGE, _FIRST = 1_000_000, 100_000
_AXES = ("x", "y", "z")
# What times that were dates count from.
_EPOCH = "1970-01-01T00:00:00"


def trajectories_line(one: "Trajectories") -> str:
    """How many, how often, in which units."""
    missing = int(np.count_nonzero(~one.observed))
    gaps = f", {missing} missing" if missing else ""
    return f"{one.n_trajectories} in {one.n_dim}D, {len(one.times)} points, {_recorded(one)}{gaps}"


def trajectories_card(one: "Trajectories") -> Card:
    """Sizes, times, ranges and where they come from."""
    n, missing = len(one.times), int(np.count_nonzero(~one.observed))
    facts = [("recorded", _recorded(one)), ("times", _times(one))]
    facts.append(("points each", _counts(one.row_sizes)))
    if missing:
        facts.append(("missing", f"{missing:,} ({100 * missing / n:.3g} %)"))
    for axis, values in zip(_AXES, one.positions.T, strict=False):
        facts.append((axis, _range(values, one.length_unit)))
    if one.lonlat is not None:
        for name, values in zip(("longitude", "latitude"), one.lonlat.T, strict=True):
            facts.append((name, _range(values, "degrees")))
    if one.position_sd is not None:
        facts.append(("error of a position", _range(one.position_sd, one.length_unit)))
    if one.flags:
        facts.append(("flags", ", ".join(one.flags)))
    source = one.provenance.get("source", one.provenance.get("simulated"))
    if source is not None:
        facts.append(("from", str(source)))
    # Only if it is known: it takes a pass over everything.
    if "fingerprint" in one.__dict__:
        facts.append(("fingerprint", one.fingerprint))
    return Card("Trajectories", f"{one.n_trajectories:,} in {one.n_dim}D, {n:,} points", (*facts,))


def displacements_line(one: "Displacements") -> str:
    """How many, how long, at which tau."""
    tau = amount(one.tau, one.time_unit, 6)
    return f"tau = {tau}, {one.n_particles} particles, up to {one.n_steps} steps, {one.n_dim}D"


def displacements_card(one: "Displacements") -> Card:
    """Sizes, intervals and the size of a step."""
    unused = f", {one.n_unused:,} not used" if one.n_unused else ""
    n_steps = len(one.dx)
    size = np.sqrt(np.einsum("ij,ij->j", one.dx, one.dx) / max(n_steps, 1))
    rms = ", ".join(f"{axis} {value:.4g}" for axis, value in zip(_AXES, size, strict=False))
    facts = [
        ("particles", f"{one.n_particles:,}{unused}"),
        ("runs", f"{len(one.row_sizes):,} of {_counts(one.row_sizes)} steps"),
        ("steps", f"{n_steps:,} in {one.n_dim}D, {one.n_displacements:,} displacements"),
        ("root mean square", f"{rms} {one.length_unit}".rstrip()),
    ]
    if not one.is_regular:
        facts.append(("intervals", _range(one.interval, one.time_unit)))
    if one.position_sd is not None:
        facts.append(("error of a position", _range(one.position_sd, one.length_unit)))
    if "fingerprint" in one.__dict__:
        facts.append(("fingerprint", one.fingerprint))
    return Card("Displacements", f"tau = {amount(one.tau, one.time_unit, 6)}", (*facts,))


def _recorded(one: "Trajectories") -> str:
    part, said = one, ""
    if len(one.times) > _LARGE and "recording_interval" not in one.__dict__:
        part, said = _beginning(one), f" (the first {_FIRST:,} points)"
    dt = part.recording_interval
    every = "irregular times" if dt is None else f"every {amount(dt, one.time_unit, 6)}"
    return f"{every}{said}"


def _beginning(one: "Trajectories") -> "Trajectories":
    """The first trajectories, as many as make up a small number of points."""
    ends = np.minimum(np.cumsum(one.row_sizes), _FIRST)
    sizes = np.diff(ends, prepend=0)
    sizes = sizes[sizes > 0]
    return type(one)(
        positions=one.positions[:_FIRST],
        times=one.times[:_FIRST],
        row_sizes=sizes,
        ids=np.arange(len(sizes)),
    )


def _times(one: "Trajectories") -> str:
    low, high = float(one.times.min()), float(one.times.max())
    if one.provenance.get("time_origin") == _EPOCH and one.time_unit == "s":
        dates = (np.datetime64(round(value), "s").item().isoformat() for value in (low, high))
        return " to ".join(dates)
    last = amount(high, one.time_unit, 6)
    return last if low == high else f"{low:.6g} to {last}"


def _counts(sizes: np.ndarray) -> str:
    low, high = int(sizes.min()), int(sizes.max())
    return f"{low:,}" if low == high else f"{low:,} to {high:,}, median {np.median(sizes):,.0f}"


def _range(values: FloatArray, unit: str) -> str:
    # Passing over NaN, which stands for a missing fix.
    low, high = float(np.fmin.reduce(values)), float(np.fmax.reduce(values))
    if np.isnan(low):
        return "unknown: all are missing"
    return amount(low, unit) if low == high else f"{low:.5g} to {amount(high, unit)}"
