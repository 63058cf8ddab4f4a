"""Define options shared by several commands, and convert them to arguments of the library."""

import argparse
import shlex
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from driftbayes._magnitudes import checked
from driftbayes.cli import _console, _jax
from driftbayes.cli._parser import Parser, figure, netcdf
from driftbayes.errors import DriftbayesError

if TYPE_CHECKING:
    from collections.abc import Callable

    from driftbayes.data._trajectories import Trajectories
    from driftbayes.workflow import FileInBlocks, Scales

# Minimum number of positions for reading in blocks; at once, each takes about 200 bytes.
_MIN_STREAMED = 20_000_000
# Repeated here so that --help need not import the methods; a test compares them.
METHODS = ("auto", "quadrature", "laplace", "laplace_is", "bridge", "smc", "nested")
# Options of `add_reading`, in the order of a written command line.
READING = (
    *("format", "columns", "missing", "date_order", "coordinates", "frame", "pixel_size"),
    *("frame_interval",),
    *("length_unit", "time_unit", "units", "period", "drop_short", "noise", "qc"),
)
# Flags of `add_data` and `add_inference`, for `refuse`.
DATA = ("--n-tau", "--windows", "--gaps")
INFERENCE = (
    *("--models", "--prior", "--u-rms", "--timescale", "--model-prior", "--method", "--seed"),
    "--coords",
)


_READING = """
--format NAME  file format, see `driftbayes formats` (default: detected automatically)
--columns NAME=COLUMN,...  column names of id, time, x, y, z, sd, or lon and lat; an empty name
    is ignored
--missing NUMBER,...  values that mark missing data, for example -999; 'none' if every number is
    valid (default: as declared in the file)
--date-order {dmy,mdy}  order of day and month in dates such as 01/02/2024 (default: inferred from
    the whole column)
--coordinates {degrees,plane}  longitude and latitude, to be projected on a plane in metres, or
    plane coordinates
--frame {auto,local,transported}<=auto>  axes for longitude and latitude: local east and north,
    or parallel transport along the path, for example near a pole
--pixel-size SIZE  pixel size, for example 0.16um
--frame-interval TIME  frame interval, for example 7.48ms
--length-unit LENGTH_UNIT  unit of positions, printed with results
--time-unit TIME_UNIT  unit of times, printed with results
--units LENGTH,TIME  convert positions and times to these units, for example km,d; numbers without
    a unit are in the new units; an empty unit is not converted
--period L[,L...]  period of the domain, for example 100km, one for all axes or one per axis ('-':
    not periodic)
--drop-short  omit trajectories with fewer than two positions
--noise SD  standard deviation of the measurement error of positions, for example 10m
--qc CHECK[=LIMIT],...  repair the data: default, or for example
    spikes=3m/s,stuck=6h,drogued,min-points=20; without it findings are reported, not changed,
    see `driftbayes qc`
"""
_DATA = """
--n-tau N<int>  steps per window (default: whole trajectories)
--windows {first,all}<=first>  with --n-tau: use the first window of each trajectory, or all
--gaps {split,keep}<=split>  split trajectories at missing positions, or keep one longer step
"""
SCALES = """
--u-rms U  root-mean-square velocity, for example 0.2m/s, sets prior scales
--timescale T  velocity time scale, for example 2d, sets prior scales
"""
_INFERENCE = f"""
--models NAME,...<=brownian,langevin>  models to compare, see `driftbayes models`; or all
--prior PARAM=FAMILY:NUMBERS<list>  prior of a parameter, for example gamma=exponential:2,
    k=lognormal:1:2, kappa=gamma:2:1, k=uniform:0:5; may be repeated
{SCALES.strip()}
--model-prior P,...  prior probabilities of the models, or numbers proportional to them
    (default: equal)
--method METHOD<=auto>  method for the evidence, {", ".join(METHODS[:-1])} or {METHODS[-1]}; auto
    integrates exactly where possible, else samples; laplace is the paper's approximation; options
    after a colon, as in bridge:draws=2000
--seed SEED<int=0>  random seed for sampling methods
--coords {{natural,log}}<=natural>  parameter coordinates of Laplace's method; natural as in the
    paper
"""
_STREAMING = """
--stream  read in blocks even if the file is small
--workers N<int>  number of worker processes (default: threads of this process)
--cluster ADDRESS  scheduler of a Dask cluster, tls://HOST:8786, with the certificates of the
    Dask configuration
--block-points N<int>  positions per block and worker (default: 1 million)
--scratch DIR<path>  directory for temporary files of unsorted tables; with --cluster, on a file
    system that all workers share (default: the system's)
"""
_LARGE_FILES = (
    "Files of more than 20 million positions are read in blocks. Memory use does not depend on the "
    "file size, and results do not depend on the number of workers."
)


class Files(tuple[Path, ...]):
    """Several files that form one data set, with a name like a path."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """Name of the first file, and the number of others."""
        return f"{self[0].name} and {len(self) - 1} more"

    def __str__(self) -> str:
        return " ".join(map(str, self))


class _Files(argparse.Action):
    """Keep one file as a path, several as `Files`."""

    def __call__(self, _parser: Any, namespace: Any, values: Any, _option: Any = None) -> None:
        if values:
            setattr(namespace, self.dest, values[0] if len(values) == 1 else Files(values))


def add_reading(parser: Parser, *, nargs: str | None = "+") -> None:
    """Add the file, or files, and the options for reading it."""
    about = "trajectories; the format is detected automatically, see `driftbayes formats`"
    if nargs in ("+", "*"):
        about = f"{about}; several files of one format, or a folder, are one data set"
        parser.add_argument("file", type=Path, nargs=nargs, action=_Files, help=about)
    else:
        parser.add_argument("file", type=Path, nargs=nargs, help=about)
    parser.add_options(_READING, "reading")


def add_tau(parser: Parser, *, required: bool = True) -> None:
    """Add the sampling time."""
    text = (
        "sampling time, for example 6h or a number in the unit of the data, a multiple of the "
        "recording interval; 'all' for irregular times"
    )
    parser.add_options(f"--tau TAU{'<!>' if required else ''}  {text}")


def add_data(parser: Parser) -> None:
    """Add the options that cut trajectories into displacements."""
    parser.add_options(_DATA, "displacements")


class _Methods(tuple[str, ...]):
    """Names of methods, each with optional options."""

    __slots__ = ()

    def __contains__(self, text: object) -> bool:
        return super().__contains__(str(text).partition(":")[0])


def add_inference(parser: Parser, *, weighs_models: bool = True) -> None:
    """Add models, priors and the method; `analysis` refuses weights that have no effect."""
    parser.add_options(_INFERENCE, "models and priors")
    if not weighs_models:
        parser._option_string_actions["--model-prior"].help = argparse.SUPPRESS
    parser.set_defaults(weighs_models=weighs_models)
    parser._option_string_actions["--method"].choices = _Methods(METHODS)


def add_json(parser: Parser) -> None:
    """Add the option for JSON output."""
    parser.add_options("--json  print the result as JSON on stdout")


def add_figure(parser: Parser, text: str = "write a figure") -> None:
    """Add the file of a figure.

    Args:
        parser: The parser of a command.
        text: Help text.
    """
    parser.add_output(f"--figure FILE.png  {text}: PNG, PDF or SVG", figure)


def add_netcdf(parser: Parser, text: str) -> None:
    """Add the file of a result as NetCDF; `text` is its help."""
    parser.add_output(f"-o --output FILE.nc  {text}", netcdf)


def add_streaming(parser: Parser) -> None:
    """Add the options for large files."""
    parser.add_options(_STREAMING, "large files", _LARGE_FILES)


def read(args: argparse.Namespace) -> "Trajectories":
    """Read the trajectories; repair them if --qc is given."""
    from driftbayes.workflow._reading import check_quality

    tracks = read_unchecked(args)
    with _console.stage("quality checks"):
        tracks = check_quality(tracks, args.qc)
    _note_repairs(args, tracks)
    return tracks


def read_unchecked(args: argparse.Namespace) -> "Trajectories":
    """Read the trajectories without quality checks."""
    from driftbayes.io._limits import watched
    from driftbayes.workflow._reading import load, with_reading

    _check_quantities(args)
    what = f"reading {args.file.name}"
    with (
        _console.stage(what),
        _console.progress_bar() as progress,
        watched(lambda done, total: progress(what, round(100 * done / total), 100)),
        _console.timed(f"reading {args.file}"),
    ):
        tracks = load(args.file, **reading_options(args))
    if _console.is_verbose():
        _console.detail(f"{tracks!r}, reader: {tracks.provenance.get('reader', 'none')}")
    if getattr(args, "command", "") != "info" and "guessed" in tracks.provenance:
        _console.note(f"columns: {tracks.provenance['guessed']}")
    return with_reading(tracks, given_reading(args))


def read_large(
    args: argparse.Namespace, progress: "Callable[[str, int, int], None]", *, sums: bool = True
) -> "Trajectories | FileInBlocks":
    """Read the trajectories, or prepare to read a large file in blocks."""
    _check_quantities(args)
    if not _is_streamed(args, sums=sums):
        return read(args)
    from driftbayes.workflow import Blocks, FileInBlocks

    blocks = Blocks(args.workers, args.cluster, args.block_points, args.scratch)
    file = FileInBlocks(args.file, blocks, args.qc, reading_options(args), given_reading(args))
    file.progress = progress
    return file


def _note_repairs(args: argparse.Namespace, tracks: "Trajectories | FileInBlocks") -> None:
    from driftbayes import quality

    for done in quality.applied(tracks.provenance) if args.qc is not None else ():
        _console.note(f"qc: {done}")


def _is_streamed(args: argparse.Namespace, *, sums: bool) -> bool:
    """Return whether to read in blocks: if requested, or if the file is large and models allow."""
    given = (args.workers, args.cluster, args.block_points)
    if args.stream or any(value is not None for value in given):
        return True
    if isinstance(args.file, Files):
        return False
    from driftbayes.io._formats import contents_of, estimated_points

    with ExitStack() as stack:
        n_points = estimated_points(contents_of(args.file, stack))
    if n_points < _MIN_STREAMED:
        return False
    from driftbayes.models import MODELS, model_named
    from driftbayes.streaming import check_streamable

    try:
        if sums:
            # The number of dimensions does not matter here.
            names = model_names(args)
            check_streamable([model_named(name, MODELS, 2) for name in names], args.gaps)
    except DriftbayesError as error:
        _console.note(f"reading the whole file into memory: {error}")
        return False
    return args.noise is None


def given_reading(args: argparse.Namespace) -> dict[str, str]:
    """Return the given reading options as text."""
    given = {name: getattr(args, name) for name in READING}
    usual = {"frame": "auto", "drop_short": False}
    return {
        name: "" if value is True else str(value)
        for name, value in given.items()
        if value != usual.get(name)
    }


def reading_options(args: argparse.Namespace) -> dict[str, Any]:
    """Return the reading options by the names of `workflow.read`."""
    plain = {name: getattr(args, name) for name in READING if name != "qc"}
    return {
        **plain,
        "missing": _parse_missing(args.missing),
        "pixel_size": _quantity(args.pixel_size, "--pixel-size"),
        "frame_interval": _quantity(args.frame_interval, "--frame-interval"),
    }


def _check_quantities(args: argparse.Namespace) -> None:
    """Raise an error for text that is not a quantity, before reading a file."""
    from driftbayes.data._units import LENGTH, SPEED, TIME, in_units

    known = {"noise": LENGTH, "u_rms": SPEED, "timescale": TIME, "max_lag": TIME}
    for name, what in known.items():
        value = getattr(args, name, None)
        if value is not None:
            in_units(value, what, None, f"--{name.replace('_', '-')}")


def _quantity(text: str | None, option: str) -> tuple[float, str] | None:
    from driftbayes.data._units import parse_quantity

    return None if text is None else parse_quantity(text, option)


def _parse_missing(text: str | None) -> tuple[float, ...] | None:
    if text is None:
        return None
    return () if text == "none" else tuple(numbers("--missing", text.split(",")))


def analyse(
    args: argparse.Namespace, name: str, *positional: Any, sums: bool = True, **options: Any
) -> tuple[Any, Any]:
    """Read the trajectories, and analyse them with the models, priors and method that were given.

    Args:
        args: Parsed arguments.
        name: Name of a function of `workflow`.
        *positional: Its arguments after the trajectories.
        sums: Whether it needs only sums over a large file.
        **options: Its options other than those of `analysis`.

    Returns:
        The trajectories and the result.
    """
    given = analysis(args)
    with _console.progress_bar() as progress:
        tracks = read_large(args, progress, sums=sums) if "stream" in args else read(args)
        _jax.prepare_jax()
        from driftbayes import workflow
        from driftbayes.data._trajectories import Trajectories

        with _console.timed(f"evidence of {args.models if 'models' in args else args.model}"):
            result = getattr(workflow, name)(
                tracks, *positional, progress=progress, **given, **options
            )
    if not isinstance(tracks, Trajectories):
        # The repairs of a file in blocks are known only now.
        _note_repairs(args, tracks)
    return tracks, result


def analysis(args: argparse.Namespace) -> dict[str, Any]:
    """Return models, priors, method and displacements, by the names of `workflow.compare`."""
    from driftbayes.data._sampling import Cut

    if "models" not in args:
        return {"priors": parse_priors(args.prior), "scales": scales(args)}
    check_seed(args.seed)
    if args.method.partition(":")[0] != "laplace":
        refuse(args, "--coords", because="--coords is an option of --method laplace")
    options: dict[str, Any] = {
        "models": args.models,
        "priors": parse_priors(args.prior),
        "scales": scales(args),
        "method": args.method,
        "seed": args.seed,
    }
    if args.method != "auto":
        from driftbayes.inference import as_method

        options["method"] = as_method(args.method, coords=args.coords)
    if args.weighs_models:
        options["prior_probabilities"] = _model_prior(args)
    else:
        because = "no number of this command depends on prior probabilities of models"
        refuse(args, "--model-prior", because=because)
    if "gaps" in args:
        if args.n_tau is None:
            refuse(args, "--windows", because="--windows chooses windows of --n-tau N steps")
        options["cut"] = Cut(args.n_tau, args.windows, args.gaps)
    return options


def scales(args: argparse.Namespace) -> "Scales | None":
    """Return the scales of the motion for the priors, if they are given."""
    if (args.u_rms is None) != (args.timescale is None):
        raise DriftbayesError("--u-rms and --timescale must be given together")
    if args.u_rms is None:
        return None
    from driftbayes.workflow import Scales

    return Scales(args.u_rms, args.timescale)


def parse_priors(texts: list[str]) -> dict[str, str]:
    priors: dict[str, str] = {}
    for text in texts:
        name, equals, prior = (part.strip() for part in text.partition("="))
        if not equals:
            msg = f"--prior must be PARAM=FAMILY:NUMBERS, got {text!r}; for example k=exponential:1"
            raise DriftbayesError(msg)
        if name in priors:
            raise DriftbayesError(f"--prior was given twice for {name!r}; give it once")
        priors[name] = prior
    return priors


def _model_prior(args: argparse.Namespace) -> list[float] | None:
    """Return the prior probabilities of the models."""
    if args.model_prior is None:
        return None
    # Only their ratios matter, and a model may be very improbable.
    values = numbers("--model-prior", args.model_prior.split(","), any_size=True)
    names = model_names(args)
    if len(values) != len(names) or not all(0 < value <= 1e100 for value in values):
        raise DriftbayesError(
            f"--model-prior must be {len(names)} positive numbers up to 1e100, one each for "
            f"{', '.join(names)}, got {args.model_prior!r}"
        )
    return values


def model_names(args: argparse.Namespace) -> list[str]:
    """Return the names of the chosen models."""
    names = [name.strip() for name in args.models.split(",") if name.strip()]
    if names != ["all"]:
        return names
    from driftbayes.models import MODELS

    return list(MODELS)


@contextmanager
def file_models(args: argparse.Namespace) -> Iterator[None]:
    """Run the files of models given as FILE.py:NAME, and replace these by the models' names.

    The models are forgotten after the command. Only the command line runs files; a name in a data
    file or in a request to `explore` never does.
    """
    where = "models" if isinstance(getattr(args, "models", None), str) else "name"
    text = getattr(args, where, None)
    if not isinstance(text, str) or ".py:" not in text:
        yield
        return
    _jax.prepare_jax()
    from driftbayes.models._named import SDES
    from driftbayes.sde._files import register_file_models

    known = set(SDES)
    try:
        names = [name.strip() for name in text.split(",") if name.strip()]
        setattr(args, where, ",".join(register_file_models(names)))
        yield
    finally:
        for name in set(SDES) - known:
            del SDES[name]


def without(words: Sequence[str], *options: str) -> list[str]:
    """Return a command line without given options and their values."""
    kept = [word for word in words if not word.startswith(tuple(f"{o}=" for o in options))]
    for option in options:
        while option in kept[:-1]:
            place = kept.index(option)
            del kept[place : place + 2]
    return kept


def offer_models(args: argparse.Namespace, models: Sequence[str], *, command: str = "") -> str:
    """Return the given command line with other models and without outputs.

    Args:
        args: Parsed arguments.
        models: Names of models.
        command: Command that replaces the given one.
    """
    dropped = ("--models", "-o", "--output", "--figure", "--bootstrap", "--draw", "--model-prior")
    words = [word for word in without(args.words, *dropped) if word != "--json"]
    words = [command or word if word == args.command else word for word in words]
    return shlex.join(["driftbayes", *words, "--models", ",".join(models)])


def refuse(args: argparse.Namespace, *options: str, because: str, hint: str = "") -> None:
    """Raise an error if one of these options was given, which would have no effect."""
    words = {word.partition("=")[0] for word in args.words}
    given = [option for option in dict.fromkeys(options) if option in words]
    if given:
        raise DriftbayesError(f"{because}; omit {', '.join(given)}{hint}")


def check_seed(seed: int) -> None:
    """Raise an error for a seed outside the range of the generators."""
    if not 0 <= seed < 2**63:
        raise DriftbayesError(f"--seed must be a whole number from 0 to 2^63 - 1, got {seed}")


def parse_tau(text: str) -> str:
    """Check a sampling time, or 'all'."""
    from driftbayes.data._units import TIME, in_units

    if text != "all":
        in_units(text, TIME, None, "--tau")
    return text


def parse_times(option: str, text: str) -> str:
    """Check positive times: `1h,6h,1d`, `low:high:count` or `low:high:countlog`."""
    from driftbayes.data._units import times_in

    if not all(0 < time < float("inf") for time in times_in(text, None, option)):
        raise DriftbayesError(f"{option} must be positive times separated by commas, got {text!r}")
    return text


def numbers(option: str, texts: list[str], *, any_size: bool = False) -> list[float]:
    """Parse a list of numbers; `any_size` is for numbers that only enter as ratios."""
    try:
        values = [float(text) for text in texts]
    except ValueError:
        msg = f"{option} must be numbers separated by commas, got {','.join(texts)[:80]!r}"
        raise DriftbayesError(msg) from None
    if any_size:
        return values
    # The caller checks inf and nan.
    return [checked(value, option) if isfinite(value) else value for value in values]
