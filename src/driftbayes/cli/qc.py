"""What looks wrong in a file of trajectories; nothing is changed."""

__all__ = ["add_parser", "run"]

import argparse

from driftbayes.cli import _console, _options, _reading


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the parser."""
    parser = subparsers.add_parser(
        "qc",
        help=__doc__,
        description=__doc__,
        allow_abbrev=False,
        examples=(
            "driftbayes qc drifters.nc",
            "driftbayes qc drifters.nc --qc spikes=3m/s,stuck=6h",
        ),
    )
    _reading.add_reading(parser)
    _options.add_json(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Read, look, print; --qc sets limits here, and mends nothing."""
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
        f"{args.file.name}: {report.n_observations} positions of "
        f"{report.n_trajectories} trajectories"
    )
    _console.print_table(title, ["check", "finding", "fixes", "trajectories"], rows, left=2)
    if not report.is_clean:
        print("nothing was changed; to mend, pass --qc NAME,... or --qc default to any command")
    return 0
