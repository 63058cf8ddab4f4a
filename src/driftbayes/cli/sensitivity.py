"""How much of a verdict is the prior's: ln K against the scale of the priors."""

__all__ = ["add_parser", "run"]

import argparse

from driftbayes.cli import _console, _options, _outputs, _reading
from driftbayes.errors import DriftbayesError


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the parser."""
    parser = subparsers.add_parser(
        "sensitivity",
        help=__doc__,
        description=__doc__,
        allow_abbrev=False,
        examples=("driftbayes sensitivity tracks.csv --tau 0.5 -o sensitivity.png",),
    )
    _reading.add_reading(parser)
    _options.add_data(parser)
    parser.add_argument("--tau", type=float, required=True, help="sampling time")
    _options.add_inference(parser)
    parser.add_argument(
        "--factors",
        default="1/16:16:17",
        metavar="LOW:HIGH:N",
        help="by what the scales are multiplied, on a logarithmic scale (default: %(default)s)",
    )
    _outputs.add_output(
        parser,
        "-o",
        "--output",
        output=_outputs.figure,
        metavar="FIGURE",
        help="draw it here: PNG, PDF or SVG",
    )
    _options.add_json(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Read, repeat the comparison under other priors, print a table, draw a figure."""
    from driftbayes.cli._jax import prepare_jax

    factors = _parse_factors(args.factors)
    trajectories = _reading.read(args)
    prepare_jax()
    from driftbayes.comparison import prior_sensitivity
    from driftbayes.sampling import displacements

    data = displacements(
        trajectories, args.tau, n_tau=args.n_tau, windows=args.windows, gaps=args.gaps
    )
    setup = _options.setup(args, trajectories)
    _options.say_priors(setup)
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

        from driftbayes.plots.sensitivity import plot_prior_sensitivity
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
        title = f"prior scales of {', '.join(group)} multiplied, tau = {result.tau:g}"
        _console.print_table(title, ["factor", *(f"ln K({pair})" for pair in pairs)], rows)
    if result.unmoved:
        print(f"not moved, since uniform between fixed bounds: {', '.join(result.unmoved)}")
    for pair in pairs:
        values = result.log_bayes_factors[pair]
        changes = "changes" if result.verdict_changes(pair) else "keeps"
        print(f"ln K({pair}) from {values.min():.4g} to {values.max():.4g}: it {changes} its sign")
    return 0


def _parse_factors(text: str) -> list[float]:
    import numpy as np

    try:
        low, high, n = text.split(":")
        ends = [_fraction(low), _fraction(high)]
        count = int(n)
    except ValueError as error:
        msg = f"--factors must be LOW:HIGH:N such as 1/16:16:17, got {text!r}"
        raise DriftbayesError(msg) from error
    if not 0 < ends[0] <= ends[1] or not 1 <= count <= 1000:
        msg = f"--factors must be positive, low before high, 1 to 1000 of them, got {text!r}"
        raise DriftbayesError(msg)
    return [float(f) for f in np.geomspace(ends[0], ends[1], count)]


def _fraction(text: str) -> float:
    above, _, below = text.partition("/")
    divisor = float(below) if below else 1.0
    if divisor == 0:
        raise ValueError
    return float(above) / divisor
