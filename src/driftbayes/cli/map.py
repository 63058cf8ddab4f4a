"""Map diffusivity and model evidence on a grid of cells."""

__all__ = ["COMMANDS"]

import argparse

from driftbayes.cli import _console, _jax, _options
from driftbayes.cli._parser import Command, Parser, figure, netcdf


def _add_arguments(parser: Parser) -> None:
    _options.add_reading(parser)
    parser.add_options("""
--cell SIDE<!>  cell size: 5deg for longitude and latitude, 50km or a number for a plane
--tau T[,T...]<!>  sampling times
--n-tau N<int=10>  steps per window
--seasons  map DJF, MAM, JJA and SON separately
--min-windows N<int=20>  minimum number of windows in a cell
""")
    _options.add_inference(parser)
    parser.set_defaults(models="brownian+mean,langevin+mean")
    parser.add_output(
        "-o",
        "--output",
        output=netcdf,
        required=True,
        metavar="FILE.nc",
        help="write the result as NetCDF",
    )
    parser.add_output(
        "--figure",
        output=figure,
        metavar="FILE.png",
        help="write a figure of the first sampling time: PNG, PDF or SVG",
    )


def _run(args: argparse.Namespace) -> int:
    import numpy as np

    taus = _options.parse_taus(args.tau)
    tracks = _options.read(args)
    _jax.prepare_jax()
    from driftbayes import workflow
    from driftbayes.io import write_dataset

    given = _options.analysis(args)
    how = {name: given[name] for name in ("models", "priors", "scales", "method", "seed")}
    how |= {"n_tau": args.n_tau, "seasons": args.seasons, "min_windows": args.min_windows}
    with _console.progress_bar() as progress:
        result = workflow.map(tracks, args.cell, taus, progress=progress, **how)
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
            drawing = Figure(figsize=(3.6 * len(shown), 3.0), layout="constrained")
            axes = drawing.subplots(1, len(shown), squeeze=False)[0]
            for ax, name in zip(axes, shown, strict=True):
                plot_map(result, name, ax)
            _console.save_figure(drawing, args.figure)
    n_cells = int((result["n_windows"] >= args.min_windows).sum())
    _console.say(
        f"{n_cells} of {result['n_windows'].size} cells have {args.min_windows} or more windows"
    )
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


COMMANDS = {
    "map": Command(
        _add_arguments,
        _run,
        (
            "driftbayes map drifters.nc --cell 5deg --tau 86400 -o map.nc --figure map.png",
            "driftbayes map tracks.csv --cell 50 --tau 1,2 --min-windows 50 -o map.nc",
        ),
    )
}
