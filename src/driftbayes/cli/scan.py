"""Compare models over a range of sampling times."""

__all__ = ["add_arguments", "run", "scan_in_memory"]

import argparse
from typing import TYPE_CHECKING

from driftbayes.cli import _console, _jax, _options, _outputs, _reading, _streaming
from driftbayes.errors import DriftbayesError

if TYPE_CHECKING:
    from driftbayes.comparison import Scan
    from driftbayes.data.trajectories import Trajectories


EXAMPLES = (
    "driftbayes scan tracks.csv",
    "driftbayes scan tracks.csv --taus 0.1:20:20log -o scan.nc --figure scan.png",
    "driftbayes scan tracks.csv --taus 1,2,5 --models brownian,langevin,matern",
    "driftbayes scan large.parquet --taus 1:100:20log --workers 8 -o scan.nc",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    _reading.add_reading(parser)
    parser.add_argument(
        "--taus",
        metavar="LOW:HIGH:COUNT[log]",
        help="sampling times, for example 0.01:100:100log or 1,2,5, rounded to multiples of the "
        "recording interval (default: twelve over the range of the data)",
    )
    _options.add_data(parser)
    _options.add_inference(parser)
    _outputs.add_output(
        parser,
        "-o",
        "--output",
        output=_outputs.netcdf,
        metavar="FILE.nc",
        help="write the result as NetCDF",
    )
    _outputs.add_output(
        parser,
        "--figure",
        output=_outputs.figure,
        metavar="FILE.png",
        help="write a figure: PNG, PDF or SVG",
    )
    _options.add_json(parser)
    _streaming.add_streaming(parser)


def run(args: argparse.Namespace) -> int:
    """Read, scan, write, print."""
    from driftbayes.io import atomic_path, write_scan

    taus = None if args.taus is None else _options.parse_taus(args.taus)
    prior_probabilities = _options.model_prior(args)
    if _streaming.is_asked_for(args):
        if taus is None:
            msg = "a file that is read in blocks needs given sampling times; pass --taus"
            raise DriftbayesError(msg)
        result, interval = _streaming.scan(args, taus, prior_probabilities)
    else:
        result, trajectories = scan_in_memory(args, taus, prior_probabilities)
        interval = trajectories.recording_interval
    n_found = len(result.comparisons) + len(result.skipped)
    if taus is not None and n_found < len(taus):
        _console.note(
            f"{len(taus)} sampling times rounded to {n_found} multiples of the recording interval "
            f"{interval:g}"
        )
    if result.skipped:
        last = list(result.skipped.items())[-1]
        _console.note(f"skipped {len(result.skipped)} sampling times: {last[1]}")
    if args.output is not None:
        write_scan(result.to_dataset(), args.output)
        _console.note(f"wrote {args.output}")
    if args.figure is not None:
        from driftbayes.plots.scan import plot_scan

        with atomic_path(args.figure) as temporary:
            plot_scan(result).savefig(temporary)
        _console.note(f"wrote {args.figure}")
    if args.json:
        _console.print_json(result.to_json())
    else:
        from driftbayes.comparison.describe import describe_scan

        _console.print_card(describe_scan(result, max_taus=None))
    return 0


def scan_in_memory(
    args: argparse.Namespace, taus: list[float] | None, prior_probabilities: list[float] | None
) -> "tuple[Scan, Trajectories]":
    """Scan sampling times; return the scan and the trajectories.

    Args:
        args: Options for reading, data and inference.
        taus: Sampling times; None chooses them from the trajectories.
        prior_probabilities: Prior probabilities of the models.
    """
    trajectories = _reading.read(args)
    _jax.prepare_jax()
    from driftbayes.workflow import scan

    how = {**_options.evidence(args), "prior_probabilities": prior_probabilities}
    with (
        _console.timed(f"scan with {args.models}"),
        _console.progress_bar() as progress,
    ):
        result = scan(
            trajectories,
            taus,
            cut=_options.cut(args),
            progress=progress,
            **_options.hypotheses(args),
            **how,
        )
    return result, trajectories
