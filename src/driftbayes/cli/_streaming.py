"""The options and the way of a scan that does not read its file whole."""

__all__ = ["add_streaming", "is_asked_for", "run"]

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from driftbayes.cli import _console, _options, _reading
from driftbayes.errors import DriftbayesError

if TYPE_CHECKING:
    from driftbayes.comparison import Scan
    from driftbayes.models import AbstractModel

# Below this many points a file goes the ordinary way, which takes some 200 bytes for each.
_LARGE = 20_000_000


def add_streaming(parser: argparse.ArgumentParser) -> None:
    """How to go through a file that is large."""
    group = parser.add_argument_group(
        "large files",
        "A file of more than 20 million points is read in blocks and summed; memory does not grow "
        "with it, and results do not depend on blocks or workers.",
    )
    group.add_argument("--stream", action="store_true", help="do so whatever the size of the file")
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
        help="observations that each worker has in memory at a time (default: 2 million)",
    )
    group.add_argument(
        "--scratch",
        type=Path,
        metavar="DIR",
        help="for temporary files, which tables of mixed trajectories need; with --cluster, one "
        "that all workers see (default: the system's)",
    )


def is_asked_for(args: argparse.Namespace) -> bool:
    """Whether to read in blocks: the user says so, or the file is large and the models allow it."""
    given = (args.workers, args.cluster, args.block_points)
    if args.stream or any(one is not None for one in given):
        return True
    from driftbayes.io.blocks import estimated_points
    from driftbayes.io.contents import contents_of

    if estimated_points(contents_of(args.file)) < _LARGE:
        return False
    from driftbayes.streaming import check_streamable

    try:
        # Which models they are does not depend on the number of dimensions.
        check_streamable(_models(args, 2), args.gaps)
    except DriftbayesError as error:
        _console.note(f"the whole file is read into memory: {error}")
        return False
    return args.noise is None and args.qc is None


def run(
    args: argparse.Namespace, taus: list[float], prior_probabilities: list[float] | None
) -> "tuple[Scan, float | None]":
    """The scan, and the recording interval."""
    from driftbayes.cli._jax import prepare_jax

    if args.qc is not None:
        msg = (
            "--qc looks at the whole file, and a file that is read in blocks is never seen whole; "
            "mend it first: driftbayes convert IN OUT --qc ..., then scan OUT"
        )
        raise DriftbayesError(msg)
    prepare_jax()
    from driftbayes.io.blocks import BLOCK_POINTS
    from driftbayes.io.reading import ReadOptions
    from driftbayes.streaming import Workers, scan_tally, tally_file

    workers = Workers(processes=args.workers, cluster=args.cluster)
    prepare = partial(
        _reading.after_reading,
        units=args.units,
        drop_short=args.drop_short,
        period=args.period,
        noise=args.noise,
    )
    with _console.progress_bar() as progress:
        tally, provenance = tally_file(
            args.file,
            partial(_models, args),
            taus,
            ReadOptions(**_reading.reading(args)),
            format=args.format,
            n_tau=args.n_tau,
            windows=args.windows,
            gaps=args.gaps,
            prepare=prepare,
            block_points=BLOCK_POINTS if args.block_points is None else args.block_points,
            workers=workers,
            scratch=args.scratch,
            progress=progress,
        )
    setup = _options.setup(args, tally.sample())
    _options.say_priors(setup)
    _options.say_where_priors_move(setup)
    with _console.progress_bar() as progress:
        result = scan_tally(
            tally,
            setup.hypotheses,
            provenance=_reading.recorded(provenance, args),
            method=args.method,
            coords=args.coords,
            prior_probabilities=prior_probabilities,
            seed=args.seed,
            progress=progress,
        )
    return result, tally.recording_interval


def _models(args: argparse.Namespace, n_dim: int) -> "list[type[AbstractModel]]":
    from driftbayes.models import MODELS, model_named

    return [model_named(name, MODELS, n_dim) for name in _options.model_names(args)]
