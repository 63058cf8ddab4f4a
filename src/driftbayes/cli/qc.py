"""Report data-quality problems without changing the data."""

__all__ = ["add_arguments", "run"]

import argparse

from driftbayes.cli import _console, _options, _reading

EXAMPLES = (
    "driftbayes qc drifters.nc",
    "driftbayes qc drifters.nc --qc spikes=3m/s,stuck=6h",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    _reading.add_reading(parser)
    _options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Read, inspect and print; here --qc only sets limits."""
    from driftbayes import quality

    trajectories = _reading.read_unchecked(args)
    report = quality.inspect(trajectories, args.qc or ())
    if args.json:
        _console.print_json({"file": args.file.name, **report.to_json()})
        return 0
    rows = [
        [f.name, f.sentence, str(f.n_observations), str(f.n_trajectories)] for f in report.findings
    ]
    title = (
        f"{args.file.name}: {report.n_observations} positions in "
        f"{report.n_trajectories} trajectories"
    )
    _console.print_table(title, ["check", "finding", "positions", "trajectories"], rows, left=2)
    if not report.is_clean:
        print(
            "Nothing was changed. Pass --qc default or --qc NAME,... to any command to repair data."
        )
    return 0
