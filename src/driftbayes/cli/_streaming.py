"""Options and steps of commands that read a file in blocks."""

__all__ = ["add_streaming", "is_asked_for", "sample", "scan", "summed"]

import argparse
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from driftbayes.cli import _console, _options, _reading
from driftbayes.errors import DriftbayesError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from driftbayes.comparison import Scan
    from driftbayes.io.reading import ReadOptions
    from driftbayes.likelihood import SummedDisplacements
    from driftbayes.models import AbstractModel
    from driftbayes.streaming import Tally
    from driftbayes.trajectories import Trajectories

# Below this many points a file goes the ordinary way, which takes some 200 bytes for each.
_LARGE = 20_000_000
# Positions that a check draws replicas of.
_CHECKED_POINTS = 100_000


def add_streaming(parser: argparse.ArgumentParser) -> None:
    """How to read a large file."""
    group = parser.add_argument_group(
        "large files",
        "A file of more than 20 million points is read in blocks: memory does not grow with it, "
        "and results do not depend on the number of workers.",
    )
    group.add_argument("--stream", action="store_true", help="read a file of any size in blocks")
    group.add_argument(
        "--workers",
        type=int,
        metavar="N",
        help="number of worker processes on this machine (default: threads of this one)",
    )
    group.add_argument(
        "--cluster",
        metavar="ADDRESS",
        help="scheduler of a Dask cluster to use instead: tls://HOST:8786, with the certificates "
        "that Dask is configured with",
    )
    group.add_argument(
        "--block-points",
        type=int,
        metavar="N",
        help="observations that each worker has in memory at a time (default: 1 million)",
    )
    group.add_argument(
        "--scratch",
        type=Path,
        metavar="DIR",
        help="for temporary files, which tables of mixed trajectories need; with --cluster, one "
        "that all workers see (default: the system's)",
    )


def is_asked_for(args: argparse.Namespace, *, sums: bool = True) -> bool:
    """Whether to read in blocks: the user says so, or the file is large and the models allow it.

    Args:
        args: With the options of reading, data, inference and large files.
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
        _console.note(f"the whole file is read into memory: {error}")
        return False
    return args.noise is None


def scan(
    args: argparse.Namespace, taus: list[float], prior_probabilities: list[float] | None
) -> "tuple[Scan, float | None]":
    """The scan, and the recording interval."""
    from driftbayes.streaming import scan_tally

    tally, provenance = _tally(args, taus, snap=True)
    setup = _options.setup(args, tally.sample())
    _options.say_priors(setup)
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
    """Displacements at one sampling time as sums, and a sample of the trajectories.

    Args:
        args: With the options of reading, data, inference and large files.
        tau: Sampling time; None, for irregular times, is refused.
    """
    if tau is None:
        msg = (
            "--tau all uses every fix at its own interval and needs the steps themselves, of "
            "which only sums are kept; give a sampling time, or a part of the data that fits in "
            "memory"
        )
        raise DriftbayesError(msg)
    tally, provenance = _tally(args, [tau], snap=False)
    many, skipped = tally.displacements()
    if not many:
        raise DriftbayesError(next(iter(skipped.values())))
    return many[0], replace(tally.sample(), provenance=_recorded(provenance, args))


def sample(args: argparse.Namespace) -> "Trajectories":
    """Some trajectories of the file, as many as replicas can be drawn of."""
    from driftbayes.streaming import sample_file

    options, reading = _how(args)
    with _console.progress_bar() as progress:
        tally, provenance = sample_file(
            args.file, options, sample_points=_CHECKED_POINTS, progress=progress, **reading
        )
    _say_quality(provenance)
    found = tally.sample()
    _console.note(
        f"{found.n_trajectories:,} of {tally.n_trajectories:,} trajectories are used, chosen by a "
        f"hash of their content: {len(found.times):,} of {tally.n_points:,} positions"
    )
    return replace(found, provenance=_recorded(provenance, args))


def _tally(
    args: argparse.Namespace, taus: list[float], *, snap: bool
) -> "tuple[Tally, Mapping[str, Any]]":
    from driftbayes.cli._jax import prepare_jax

    prepare_jax()
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
    _say_quality(provenance)
    return tally, provenance


def _how(args: argparse.Namespace) -> "tuple[ReadOptions, dict[str, Any]]":
    """How to read the file, and in which blocks."""
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
    """The provenance with the options of reading in it, from which data can be read again."""
    others = {name: value for name, value in provenance.items() if name != "reading"}
    given = _reading.given_reading(args)
    return {**others, "reading": given} if given else others


def _say_quality(provenance: "Mapping[str, Any]") -> None:
    from driftbayes import quality

    for done in quality.applied(provenance):
        _console.note(f"qc: {done}")


def _models(args: argparse.Namespace, n_dim: int) -> "list[type[AbstractModel]]":
    from driftbayes.models import MODELS, model_named

    return [model_named(name, MODELS, n_dim) for name in _options.model_names(args)]
