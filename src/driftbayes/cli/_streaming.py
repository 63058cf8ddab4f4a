"""Define the options for large files, and read files in blocks."""

__all__ = ["add_streaming", "is_asked_for", "sample", "scan", "summed"]

import argparse
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from driftbayes.cli import _console, _jax, _options, _reading
from driftbayes.errors import DriftbayesError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from driftbayes.comparison import Scan
    from driftbayes.data.trajectories import Trajectories
    from driftbayes.io.reading import ReadOptions
    from driftbayes.likelihood import SummedDisplacements
    from driftbayes.models import AbstractModel
    from driftbayes.streaming import Tally

# A file with fewer positions is read at once, which takes some 200 bytes for each.
_LARGE = 20_000_000
# Positions in the sample of a check.
_CHECKED_POINTS = 100_000


def add_streaming(parser: argparse.ArgumentParser) -> None:
    """Add the options for large files."""
    group = parser.add_argument_group(
        "large files",
        "Files of more than 20 million positions are read in blocks. Memory use does not depend "
        "on the size of the file, results do not depend on the number of workers.",
    )
    group.add_argument("--stream", action="store_true", help="read in blocks whatever the size")
    group.add_argument(
        "--workers",
        type=int,
        metavar="N",
        help="number of worker processes (default: threads of this process)",
    )
    group.add_argument(
        "--cluster",
        metavar="ADDRESS",
        help="scheduler of a Dask cluster, tls://HOST:8786, with the certificates of the Dask "
        "configuration",
    )
    group.add_argument(
        "--block-points",
        type=int,
        metavar="N",
        help="positions per block and worker (default: 1 million)",
    )
    group.add_argument(
        "--scratch",
        type=Path,
        metavar="DIR",
        help="directory for temporary files of unsorted tables; with --cluster, on a file system "
        "that all workers share (default: the system's)",
    )


def is_asked_for(args: argparse.Namespace, *, sums: bool = True) -> bool:
    """Return whether to read in blocks: if asked, or if the file is large and the models allow it.

    Args:
        args: Options for reading, data, inference and large files.
        sums: Whether only sums are kept, which not every model can take.
    """
    given = (args.workers, args.cluster, args.block_points)
    if args.stream or any(value is not None for value in given):
        return True
    from driftbayes.io.blocks import estimated_points
    from driftbayes.io.contents import contents_of

    if estimated_points(contents_of(args.file)) < _LARGE:
        return False
    from driftbayes.streaming import check_streamable

    try:
        if sums:
            # Which models they are does not depend on the number of dimensions.
            check_streamable(_models(args, 2), args.gaps)
    except DriftbayesError as error:
        _console.note(f"reading the whole file into memory: {error}")
        return False
    return args.noise is None


def scan(
    args: argparse.Namespace, taus: list[float], prior_probabilities: list[float] | None
) -> "tuple[Scan, float | None]":
    """Scan sampling times; return the scan and the recording interval."""
    from driftbayes.streaming import scan_tally

    tally, provenance = _tally(args, taus, snap=True)
    setup = _options.setup(args, tally.sample())
    _options.print_priors(setup)
    with _console.progress_bar() as progress:
        result = scan_tally(
            tally,
            setup.hypotheses,
            provenance=_recorded(provenance, args),
            method=args.method,
            coords=args.coords,
            prior_probabilities=prior_probabilities,
            seed=args.seed,
            progress=progress,
        )
    return result, tally.recording_interval


def summed(
    args: argparse.Namespace, tau: float | None
) -> "tuple[SummedDisplacements, Trajectories]":
    """Return sums of displacements at one sampling time, and a sample of the trajectories.

    Args:
        args: Options for reading, data, inference and large files.
        tau: Sampling time; None, for irregular times, is an error.
    """
    if tau is None:
        msg = (
            "--tau all needs every displacement, but a large file is reduced to sums; give a "
            "sampling time, or a file that fits in memory"
        )
        raise DriftbayesError(msg)
    tally, provenance = _tally(args, [tau], snap=False)
    many, skipped = tally.displacements()
    if not many:
        raise DriftbayesError(next(iter(skipped.values())))
    return many[0], replace(tally.sample(), provenance=_recorded(provenance, args))


def sample(args: argparse.Namespace) -> "Trajectories":
    """Read a sample of the trajectories for replicas."""
    from driftbayes.streaming import sample_file

    options, reading = _how(args)
    with _console.progress_bar() as progress:
        tally, provenance = sample_file(
            args.file, options, sample_points=_CHECKED_POINTS, progress=progress, **reading
        )
    _print_quality(provenance)
    found = tally.sample()
    _console.note(
        f"using {found.n_trajectories:,} of {tally.n_trajectories:,} trajectories "
        f"({len(found.times):,} of {tally.n_points:,} positions), chosen by a hash"
    )
    return replace(found, provenance=_recorded(provenance, args))


def _tally(
    args: argparse.Namespace, taus: list[float], *, snap: bool
) -> "tuple[Tally, Mapping[str, Any]]":

    _jax.prepare_jax()
    from driftbayes.streaming import tally_file

    options, reading = _how(args)
    with _console.progress_bar() as progress:
        tally, provenance = tally_file(
            args.file,
            partial(_models, args),
            taus,
            options,
            n_tau=args.n_tau,
            windows=args.windows,
            gaps=args.gaps,
            snap=snap,
            progress=progress,
            **reading,
        )
    _print_quality(provenance)
    return tally, provenance


def _how(args: argparse.Namespace) -> "tuple[ReadOptions, dict[str, Any]]":
    """Return how to read the file, and in which blocks."""
    from driftbayes.io.blocks import BLOCK_POINTS
    from driftbayes.io.reading import ReadOptions
    from driftbayes.streaming import Workers
    from driftbayes.workflow.reading import prepare_tracks

    prepare = partial(prepare_tracks, **_reading.preparing(args))
    reading = {
        "format": args.format,
        "prepare": prepare,
        "checks": args.qc,
        "block_points": BLOCK_POINTS if args.block_points is None else args.block_points,
        "workers": Workers(processes=args.workers, cluster=args.cluster),
        "scratch": args.scratch,
    }
    return ReadOptions(**_reading.reading(args)), reading


def _recorded(provenance: "Mapping[str, Any]", args: argparse.Namespace) -> dict[str, Any]:
    """Add the reading options to the provenance, so that the data can be read again."""
    others = {name: value for name, value in provenance.items() if name != "reading"}
    given = _reading.given_reading(args)
    return {**others, "reading": given} if given else others


def _print_quality(provenance: "Mapping[str, Any]") -> None:
    from driftbayes import quality

    for done in quality.applied(provenance):
        _console.note(f"qc: {done}")


def _models(args: argparse.Namespace, n_dim: int) -> "list[AbstractModel]":
    from driftbayes.models import MODELS, model_named

    return [model_named(name, MODELS, n_dim) for name in _options.model_names(args)]
