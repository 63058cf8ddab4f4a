"""Simulate particles in forced two-dimensional turbulence: run, resume, render a movie."""

import argparse
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from driftbayes.cli import _console, _jax
from driftbayes.cli._parser import Command, Output, Parser
from driftbayes.errors import DriftbayesError

# Repeated here so that --help need not import the simulator; a test compares them.
_CONFIG = """
--grid GRID<int>  grid points per side
--dt DT<float>  time step
--spin-up SPIN_UP<float>  time before the particles are released
--duration DURATION<float>  time for which particles are tracked
--particles PARTICLES<int>  number of particles
--record-every RECORD_EVERY<float>  time between recorded positions
--diagnose-every DIAGNOSE_EVERY<float>  time between diagnostics
--snapshot-every SNAPSHOT_EVERY<float>  time between vorticity snapshots; 0 for none
--epsilon EPSILON<float>  mean energy injection rate per unit area
--k-f K_F<float>  forcing wavenumber
--k-f-width K_F_WIDTH<float>  half width of the forcing ring
--hypofriction HYPOFRICTION<float>  coefficient A of the large-scale friction A psi
--drag DRAG<float>  linear drag coefficient
--viscosity VISCOSITY<float>  viscosity
--hyperviscosity HYPERVISCOSITY<float>  hyperviscosity
--hyperviscosity-power HYPERVISCOSITY_POWER<int>  power p of the hyperviscosity, k^(2p)
--beta BETA<float>  gradient of the Coriolis parameter
--start-energy START_ENERGY<float>  initial mean energy per unit area
--seed SEED<int>  random seed of the forcing, particles and initial field
--precision {double,single}  floating-point precision of the flow
--interpolation {bilinear,cubic,quintic}  interpolation of velocities to the particles
--filter {per-step,rate,none}  filter of the smallest scales
--start {paper,random,rest}  initial field
--forcing-shape {paper,equal-energy,equal-enstrophy}  spectrum of the forcing
"""
_OTHERS = """
--truncate  truncate wavenumbers |kx|, |ky| >= n/3
--positions CSV<path>  initial positions of the particles: a table with columns x, y (default:
    uniform)
--start-from DIR<path>  initial field from the last state of another run on the same grid; time
    starts at 0
"""
_CHECKPOINT = "--checkpoint-every TIME<=60s>  wall-clock time between checkpoints, for example 5min"
# Names of the options of the configuration.
_CONFIG_OPTIONS = tuple(re.findall(r"^--([\w-]+)", _CONFIG, re.M))


def _add_arguments(parser: Parser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    _add_run(actions)
    resume = actions.add_parser("resume", help="resume a run")
    resume.add_argument("directory", type=Path, help="directory of the run")
    resume.written["directory"] = Output("continued")
    resume.add_options(_CHECKPOINT)
    resume.set_defaults(run=_resume)
    movie = actions.add_parser("movie", help="render a movie of vorticity and particles")
    movie.add_argument("directory", type=Path, help="directory of the run")
    movie.add_output(
        "-o --output FILE  output file, .mp4 or .gif (default: movie.mp4 or movie.gif in the "
        "directory)",
        Output(
            suffixes=(".mp4", ".gif"), what="a movie is an MP4 or GIF file", default=_movie_path
        ),
    )
    movie.add_options("""
--particles PARTICLES<int=200>  number of particles
--fps FPS<float=12>  frames per second
""")
    movie.set_defaults(run=_movie, reads=_movie_reads)


def _add_run(actions: "argparse._SubParsersAction[Parser]") -> None:
    parser = actions.add_parser("run", help="start a new run")
    parser.add_options(
        "--preset {tiny,laptop,paper}<=tiny>  default values of the options below; tiny takes a "
        "minute on two cores"
    )
    text = "new directory; an existing run is never replaced"
    parser.add_output(f"-o --output DIR<!>  {text}", Output("folder"), overwrite=False)
    parser.add_options(_CONFIG + _OTHERS.lstrip() + _CHECKPOINT)
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    _prepare(args)
    from driftbayes.turbulence.config import GIVEN, RunConfig
    from driftbayes.turbulence.run import run

    chosen = {name: getattr(args, name) for name in (n.replace("-", "_") for n in _CONFIG_OPTIONS)}
    given = {name: value for name, value in chosen.items() if value is not None}
    if args.truncate:
        given["truncate"] = True
    positions = None
    if args.positions is not None:
        positions = _read_positions(args.positions)
        given.setdefault("particles", len(positions))
    if args.start_from is not None:
        if args.start is not None:
            raise DriftbayesError("--start and --start-from exclude each other; give one of them")
        given["start"] = GIVEN
    config = RunConfig.preset(args.preset, **given)
    with _progress() as progress:
        run(
            config,
            args.output,
            positions=positions,
            start_from=args.start_from,
            checkpoint_seconds=args.checkpoint_every,
            progress=progress,
        )
    _report(args.output)
    return 0


def _resume(args: argparse.Namespace) -> int:
    _prepare(args)
    from driftbayes.turbulence.run import resume

    with _progress() as progress:
        resume(args.directory, checkpoint_seconds=args.checkpoint_every, progress=progress)
    _report(args.directory)
    return 0


def _movie_path(args: argparse.Namespace) -> Path | None:
    """Return the default path of the movie."""
    from driftbayes.plots.movie import default_path

    return default_path(args.directory) if args.directory.is_dir() else None


def _movie_reads(args: argparse.Namespace) -> list[Path]:
    """Return the files of the run, except movies."""
    if not args.directory.is_dir():
        return [args.directory]
    return [path for path in args.directory.iterdir() if path.suffix not in (".mp4", ".gif")]


def _movie(args: argparse.Namespace) -> int:
    if args.particles < 0 or not 0 < args.fps <= 120:
        raise DriftbayesError(
            f"--particles must be 0 or more and --fps a number up to 120, got {args.particles} and "
            f"{args.fps}"
        )
    from driftbayes.plots.movie import write_movie

    with _console.progress_bar() as progress:
        path = write_movie(
            args.directory,
            args.output,
            n_particles=args.particles,
            fps=args.fps,
            progress=lambda done, total: progress("frames", done, total),
        )
    _console.note(f"wrote {path}")
    return 0


def _prepare(args: argparse.Namespace) -> None:
    from driftbayes.data._units import TIME, in_units

    text = args.checkpoint_every
    args.checkpoint_every = in_units(text, TIME, ("", "s"), "--checkpoint-every")
    if not args.checkpoint_every > 0:
        msg = f"--checkpoint-every must be a positive number of seconds, got {text}"
        raise DriftbayesError(msg)
    _jax.prepare_jax()


def _read_positions(path: Path) -> Any:
    import numpy as np

    try:
        table = np.genfromtxt(path, delimiter=",", names=True, ndmin=1)
        return np.stack([table["x"], table["y"]], axis=-1)
    except (OSError, ValueError, IndexError, TypeError) as error:
        msg = f"expected a table with columns x and y in {str(path)!r}: {error}"
        raise DriftbayesError(msg) from error


@contextmanager
def _progress() -> Iterator[Callable[[int, int, Mapping[str, float]], None]]:
    """Show a progress bar with time, energy, enstrophy and CFL number."""
    with _console.progress_bar() as bar:
        yield lambda done, total, row: bar("steps", done, total, _state(row))


def _state(row: Mapping[str, float]) -> str:
    return (
        f"t {row['time']:.4g}  E {row['energy_mean']:.4f}  Z {row['enstrophy_mean']:.4g}  "
        f"CFL {row['cfl']:.2f}"
    )


def _report(directory: Path) -> None:
    """Print a summary of the run and the next command."""
    import xarray as xr

    from driftbayes.turbulence.output import DIAGNOSTICS, TRAJECTORIES, read_config

    config, _ = read_config(directory)
    with xr.open_dataset(directory / DIAGNOSTICS) as rows:
        end = rows.isel(time=rows["time"] >= config.spin_up)
        table = [
            (name, f"{float(end[name].mean()):.6g}", f"{float(end[name][-1]):.6g}")
            for name in ("energy_mean", "enstrophy_mean", "u_rms", "eddy_turnover_time", "cfl")
        ]
    _console.print_table(
        f"{directory}: {config.n_steps} steps to t = {config.n_steps * config.dt:g}",
        ("quantity", "mean after spin-up", "at the end"),
        table,
    )
    if (directory / TRAJECTORIES).exists():
        _console.note(f"next: driftbayes scan {directory} --taus ...")


COMMANDS = {
    "turbulence": Command(
        _add_arguments,
        examples=(
            "driftbayes turbulence run --preset tiny -o flow",
            "driftbayes turbulence resume flow",
            "driftbayes turbulence movie flow -o flow.gif",
        ),
    )
}
