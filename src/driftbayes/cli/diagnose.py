"""What the data say before any model: velocity autocovariance, diffusivity, kurtosis."""

__all__ = ["add_parser", "run"]

import argparse

from driftbayes.cli import _console, _options, _outputs, _reading


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the parser."""
    parser = subparsers.add_parser(
        "diagnose",
        help=__doc__,
        description=__doc__,
        allow_abbrev=False,
        examples=("driftbayes diagnose tracks.csv --max-lag 20 -o diagnostics.nc",),
    )
    _reading.add_reading(parser)
    parser.add_argument("--lags", type=int, default=60, help="number of lags (default: 60)")
    parser.add_argument(
        "--max-lag", type=float, help="longest lag (default: a quarter of the record)"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the resampling (default: 0)")
    _outputs.add_output(
        parser,
        "-o",
        "--output",
        output=_outputs.netcdf,
        metavar="FILE.nc",
        help="write NetCDF here",
    )
    _options.add_json(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Read, diagnose, write, print."""
    import numpy as np

    from driftbayes.diagnostics import diagnose
    from driftbayes.io import write_dataset

    trajectories = _reading.read(args)
    trajectories.check_usable()
    result = diagnose(trajectories, n_lags=args.lags, max_lag=args.max_lag, seed=args.seed)
    if args.output is not None:
        write_dataset(result, args.output, kind="diagnostics")
        _console.note(f"wrote {args.output}")
    names = ("lvaf", "absolute_diffusivity", "taylor_diffusivity", "msd", "kurtosis")
    if args.json:
        values = {
            str(name): [None if not np.isfinite(v) else float(v) for v in result[name].values]
            for name in ("lag", *result.data_vars)
        }
        _console.print_json({"attributes": dict(result.attrs), **values})
        return 0
    rows = []
    for i in range(0, result.sizes["lag"], max(1, result.sizes["lag"] // 20)):
        at = result.isel(lag=i)
        cells = [
            "-"
            if not np.isfinite(at[name])
            else f"{float(at[name]):.4g} ± {float(at[f'{name}_sd']):.1g}"
            for name in names
        ]
        rows.append([f"{float(at['lag']):.4g}", *cells])
    heads = ["lag", "LVAF r", "κ_abs", "∫r (Taylor)", "MSD per axis", "kurtosis"]
    title = f"u_rms = {result.attrs['u_rms']:.4g}, time scale = {result.attrs['timescale']:.4g}"
    _console.print_table(f"{title}; Var(Δx_i) = 2κτ per axis", heads, rows, left=0)
    return 0
