"""Compute the sensitivity of the verdict to the priors."""

__all__ = ["add_arguments", "run"]

import argparse

from driftbayes.cli import _console, _jax, _options, _outputs, _reading
from driftbayes.errors import DriftbayesError

EXAMPLES = ("driftbayes sensitivity tracks.csv --tau 0.5 -o sensitivity.png",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    _reading.add_reading(parser)
    _options.add_data(parser)
    parser.add_argument("--tau", type=float, required=True, help="sampling time")
    _options.add_inference(parser)
    parser.add_argument(
        "--factors",
        default="1/16:16:17",
        metavar="LOW:HIGH:N",
        help="factors of the prior scales, logarithmically spaced (default: %(default)s)",
    )
    _outputs.add_output(
        parser,
        "-o",
        "--output",
        output=_outputs.figure,
        metavar="FIGURE",
        help="write a figure: PNG, PDF or SVG",
    )
    _options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Read, compare under scaled priors, print and plot."""
    factors = _parse_factors(args.factors)
    trajectories = _reading.read(args)
    _jax.prepare_jax()
    from driftbayes.comparison import prior_sensitivity
    from driftbayes.data.sampling import displacements

    data = displacements(
        trajectories, args.tau, n_tau=args.n_tau, windows=args.windows, gaps=args.gaps
    )
    setup = _options.setup(args, trajectories)
    _options.print_priors(setup)
    result = prior_sensitivity(
        setup.hypotheses,
        data,
        factors=factors,
        method=args.method,
        coords=args.coords,
        seed=args.seed,
    )
    if args.output is not None:
        from matplotlib.figure import Figure

        from driftbayes.plots.scan import plot_prior_sensitivity
        from driftbayes.plots.style import COLUMN, journal_style
        from driftbayes.storage import atomic_path

        with journal_style(), atomic_path(args.output) as temporary:
            figure = Figure(figsize=COLUMN, layout="constrained")
            plot_prior_sensitivity(result, ax=figure.subplots())
            figure.savefig(temporary)
        _console.note(f"wrote {args.output}")
    if args.json:
        _console.print_json(result.to_json())
        return 0
    pairs = list(result.log_bayes_factors)
    for i, group in enumerate(result.groups):
        rows = [
            [f"{factor:.4g}", *(f"{result.log_bayes_factors[pair][i, j]:.4f}" for pair in pairs)]
            for j, factor in enumerate(result.factors)
        ]
        title = f"Sensitivity to the prior scales of {', '.join(group)}, tau = {result.tau:g}"
        _console.print_table(title, ["factor", *(f"ln K({pair})" for pair in pairs)], rows)
    if result.unmoved:
        print(f"Uniform priors with fixed bounds were not scaled: {', '.join(result.unmoved)}")
    for pair in pairs:
        values = result.log_bayes_factors[pair]
        sign = "its sign changes" if result.verdict_changes(pair) else "its sign does not change"
        print(f"ln K({pair}) ranges from {values.min():.4g} to {values.max():.4g}; {sign}.")
    return 0


def _parse_factors(text: str) -> list[float]:
    import numpy as np

    try:
        low, high, n = text.split(":")
        ends = [_fraction(low), _fraction(high)]
        count = int(n)
    except ValueError as error:
        msg = f"--factors must be LOW:HIGH:N, got {text!r}; for example 1/16:16:17"
        raise DriftbayesError(msg) from error
    if not 0 < ends[0] <= ends[1] or not 1 <= count <= 1000:
        msg = f"--factors needs 0 < LOW <= HIGH and N from 1 to 1000, got {text!r}"
        raise DriftbayesError(msg)
    return [float(f) for f in np.geomspace(ends[0], ends[1], count)]


def _fraction(text: str) -> float:
    above, _, below = text.partition("/")
    divisor = float(below) if below else 1.0
    if divisor == 0:
        raise ValueError
    return float(above) / divisor
