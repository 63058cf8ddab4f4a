"""Estimate velocity autocovariance, diffusivity and kurtosis without a model."""

__all__ = ["add_arguments", "run"]

import argparse

from driftbayes.cli import _console, _options, _outputs, _reading

EXAMPLES = ("driftbayes diagnose tracks.csv --max-lag 20 -o diagnostics.nc",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    _reading.add_reading(parser)
    parser.add_argument("--lags", type=int, default=60, help="number of lags (default: 60)")
    parser.add_argument(
        "--max-lag", type=float, help="maximum lag (default: a quarter of the record)"
    )
    parser.add_argument(
        "--seed", type=int, default=0, help="random seed for the bootstrap (default: 0)"
    )
    _outputs.add_output(
        parser,
        "-o",
        "--output",
        output=_outputs.netcdf,
        metavar="FILE.nc",
        help="write the result as NetCDF",
    )
    _options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Read, diagnose, write and print."""
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
    title = f"u_rms = {result.attrs['u_rms']:.4g}, T = {result.attrs['timescale']:.4g}"
    _console.print_table(f"{title}; Var(Δx_i) = 2κτ per axis", heads, rows, left=0)
    return 0
