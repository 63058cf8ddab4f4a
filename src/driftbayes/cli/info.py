"""What a file of trajectories holds."""

__all__ = ["add_parser", "run"]

import argparse

from driftbayes.cli import _console, _options


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the parser."""
    parser = subparsers.add_parser("info", help=__doc__, description=__doc__, allow_abbrev=False)
    _options.add_reading(parser)
    _options.add_json(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Read and describe."""
    import numpy as np

    trajectories = _options.read(args)
    observed = trajectories.positions[trajectories.observed]
    counts = np.add.reduceat(trajectories.observed, trajectories.starts[:-1])
    dt = trajectories.recording_interval
    intervals = trajectories.intervals
    gaps = None if dt is None else int(np.sum(intervals > 1.5 * dt))
    facts = {
        "file": args.file.name,
        "n_trajectories": trajectories.n_trajectories,
        "n_points": int(trajectories.observed.sum()),
        "n_missing": int((~trajectories.observed).sum()),
        "n_gaps_in_time": gaps,
        "n_dim": trajectories.n_dim,
        "shortest": int(counts.min()),
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
        "has_measurement_error": trajectories.position_sd is not None,
        "data_fingerprint": trajectories.fingerprint,
        "provenance": dict(trajectories.provenance),
    }
    if args.json:
        _console.print_json(facts)
        return 0
    rows = [[name, _text(value)] for name, value in facts.items()]
    _console.print_table(f"{args.file.name}", ["", ""], rows, left=2)
    if dt is None and len(intervals):
        print(trajectories.irregular_message())
    return 0


def _text(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.10g}"
    if isinstance(value, list):
        return ", ".join(f"{v:.6g}" for v in value)
    return str(value)
