"""Test the goodness of fit of each model with simulated replicas."""

__all__ = ["add_arguments", "run"]

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from driftbayes.cli import _console, _jax, _options, _outputs, _reading, _streaming

if TYPE_CHECKING:
    from driftbayes.checks import FitCheck
    from driftbayes.data.sampling import Displacements
    from driftbayes.data.trajectories import Trajectories
    from driftbayes.typing import FloatArray


EXAMPLES = (
    "driftbayes check tracks.csv --tau 0.5",
    "driftbayes check tracks.csv --tau 0.5 --models langevin --replicas 2000 -o check.pdf",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    _reading.add_reading(parser)
    _options.add_tau(parser)
    parser.add_argument(
        "--replicas",
        type=int,
        default=500,
        metavar="N",
        help="number of replicas of each model (default: 500)",
    )
    _outputs.add_output(
        parser,
        "-o",
        "--output",
        output=_outputs.figure,
        metavar="FIGURE",
        help="write a figure of data and replicas: PNG, PDF or SVG",
    )
    _options.add_data(parser)
    _options.add_inference(parser)
    _options.add_json(parser)
    _streaming.add_streaming(parser)


def run(args: argparse.Namespace) -> int:
    """Read, fit, check, print and plot."""
    tau = _options.parse_tau(args.tau)
    _options.check_seed(args.seed)
    prior_probabilities = _options.model_prior(args)
    streamed = _streaming.is_asked_for(args, sums=False)
    trajectories = _streaming.sample(args) if streamed else _reading.read(args)
    _jax.prepare_jax()
    from driftbayes.checks import check_fit
    from driftbayes.data.sampling import displacements
    from driftbayes.representation import describe

    data = displacements(trajectories, tau, n_tau=args.n_tau, windows=args.windows, gaps=args.gaps)
    setup = _options.setup(args, trajectories)
    _options.print_priors(setup)
    with _console.progress_bar() as progress:
        result = check_fit(
            setup.hypotheses,
            data,
            start_times=_start_times(trajectories, data),
            n_replicas=args.replicas,
            seed=args.seed,
            method=args.method,
            coords=args.coords,
            prior_probabilities=prior_probabilities,
            progress=progress,
        )
    if args.output is not None:
        _draw(result, args.output)
        _console.note(f"wrote {args.output}")
    if args.json:
        about = {"priors_from_data": setup.from_data, "warnings": describe(result).warnings}
        _console.print_json({**result.to_json(), **about})
        return 0
    _console.print_card(describe(result))
    return 0


def _start_times(trajectories: "Trajectories", data: "Displacements") -> "FloatArray | None":
    """Return the time at which each run begins."""
    return None if data.start_row is None else trajectories.times[data.start_row]


def _draw(result: "FitCheck", path: Path) -> None:
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    from driftbayes.io import atomic_path
    from driftbayes.plots.checks import plot_check

    figure = plot_check(result)
    with atomic_path(path) as temporary:
        figure.savefig(temporary, dpi=200)
    plt.close(figure)
