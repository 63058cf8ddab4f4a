"""Map diffusivity and model evidence on a grid of cells."""

__all__ = ["add_arguments", "run"]

import argparse

from driftbayes.cli import _console, _jax, _options, _outputs, _reading
from driftbayes.errors import DriftbayesError

EXAMPLES = (
    "driftbayes map drifters.nc --cell 5deg --tau 86400 -o map.nc --figure map.png",
    "driftbayes map tracks.csv --cell 50 --tau 1,2 --min-windows 50 -o map.nc",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    _reading.add_reading(parser)
    parser.add_argument(
        "--cell",
        required=True,
        metavar="SIDE",
        help="cell size: 5deg for longitude and latitude, 50km or a number for a plane",
    )
    parser.add_argument("--tau", required=True, metavar="T[,T...]", help="sampling times")
    parser.add_argument(
        "--n-tau", type=int, default=10, metavar="N", help="steps per window (default: 10)"
    )
    parser.add_argument(
        "--seasons", action="store_true", help="map DJF, MAM, JJA and SON separately"
    )
    parser.add_argument(
        "--min-windows",
        type=int,
        default=20,
        metavar="N",
        help="minimum number of windows in a cell (default: 20)",
    )
    _options.add_inference(parser)
    parser.set_defaults(models="brownian+mean,langevin+mean")
    _outputs.add_output(
        parser,
        "-o",
        "--output",
        output=_outputs.netcdf,
        required=True,
        metavar="FILE.nc",
        help="write the result as NetCDF",
    )
    _outputs.add_output(
        parser,
        "--figure",
        output=_outputs.figure,
        metavar="FILE.png",
        help="write a figure of the first sampling time: PNG, PDF or SVG",
    )


def run(args: argparse.Namespace) -> int:
    """Read, compare in every cell, write and print."""
    import numpy as np

    taus = _options.parse_taus(args.tau)
    trajectories = _reading.read(args)
    side = _side(args.cell, trajectories.lonlat is not None, trajectories.length_unit)
    _jax.prepare_jax()
    from driftbayes.comparison.regions import map_regions
    from driftbayes.io import atomic_path, write_dataset

    setup = _options.setup(args, trajectories)
    _options.print_priors(setup)
    with _console.progress_bar() as progress:
        result = map_regions(
            trajectories,
            setup.hypotheses,
            cell=side,
            taus=taus,
            n_tau=args.n_tau,
            seasons=args.seasons,
            min_windows=args.min_windows,
            method=args.method,
            seed=args.seed,
            progress=progress,
        )
    write_dataset(result, args.output, kind="map")
    _console.note(f"wrote {args.output}")
    names = [str(name) for name in result.data_vars]
    if args.figure is not None:
        from matplotlib.figure import Figure

        from driftbayes.plots.map import plot_map
        from driftbayes.plots.style import journal_style

        shown = [name for name in names if name.endswith(("_kappa", "_k"))]
        shown += [name for name in names if name.startswith("log_k")]
        with journal_style():
            figure = Figure(figsize=(3.6 * len(shown), 3.0), layout="constrained")
            for ax, name in zip(
                figure.subplots(1, len(shown), squeeze=False)[0], shown, strict=True
            ):
                plot_map(result, name, ax)
        with atomic_path(args.figure) as temporary:
            figure.savefig(temporary)
        _console.note(f"wrote {args.figure}")
    n_cells = int((result["n_windows"] >= args.min_windows).sum())
    print(f"{n_cells} of {result['n_windows'].size} cells have {args.min_windows} or more windows")
    for name in names:
        values = result[name].values
        finite = values[values == values]
        unit = result[name].attrs.get("units", "")
        if name.startswith("n_") or not len(finite):
            continue
        low, middle, high = np.quantile(finite, [0.0, 0.5, 1.0])
        ends = "" if unit in ("", "1") else f" {unit}"
        print(f"{name:36s} median {middle:.4g}, from {low:.4g} to {high:.4g}{ends}")
    return 0


def _side(text: str, is_lonlat: bool, unit: str) -> float:  # noqa: FBT001
    """Return the size of a cell in degrees, or in the unit of positions."""
    from driftbayes.data.units import length_factor, parse_quantity

    number = text.strip()
    for name in ("degrees", "degree", "deg", "°"):
        if number.endswith(name):
            if not is_lonlat:
                msg = f"--cell {text!r} is an angle, but positions are on a plane; give a length"
                raise DriftbayesError(msg)
            return parse_quantity(number, "--cell")[0]
    try:
        return float(number)
    except ValueError:
        size, own = parse_quantity(number, "--cell")
    if is_lonlat:
        msg = (
            f"--cell {text!r} is a length, but positions are in degrees; give an angle such as 5deg"
        )
        raise DriftbayesError(msg) from None
    return size * length_factor(own, unit or own)[0]
