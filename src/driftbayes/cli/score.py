"""Score predictions of models, or ensembles of a simulator."""

import argparse
from pathlib import Path

from driftbayes.cli import _console, _options
from driftbayes.cli._parser import Command, Parser
from driftbayes.errors import DriftbayesError

# Reading options that apply to both observations and ensembles.
_SHARED = ("units", "coordinates", "frame", "length_unit", "time_unit", "missing", "date_order")
# Options of models, which do not apply to ensembles; the seed does.
_MODEL_OPTIONS = (
    *("--tau", "--held-out-taus", "--folds", "--learned", *_options.DATA),
    *(option for option in _options.INFERENCE if option != "--seed"),
)


def _add_score(parser: Parser) -> None:
    _options.add_reading(parser, nargs="*")
    _options.add_tau(parser, required=False)
    parser.add_options("""
--ensemble [NAME=]FILE<list>  score these simulated trajectories against observed ones: members
    written by a simulator or by predict, or a table id,member,time,x,y; may be repeated
--observed FILE<path>  with --ensemble: the observed trajectories
--leads T[,T...]  with --ensemble: lead times to score, for example 1d,3d (default: all)
--errors {drifters,starts}  with --ensemble: errors by bootstrap over drifters (default), or over
    start times, for drifters that move together
--held-out-taus T[,T...]  also score displacements over these times of held-out trajectories: log
    density, CRPS, energy score
--folds N<int=5>  number of folds for --held-out-taus and --learned
--learned  also score transition densities learned from the data: neural networks and trees of
    cells, given the position and the previous displacement; needs driftbayes[learned]
""")
    _options.add_figure(parser, "with --ensemble: write a figure of the scores by lead time")
    _options.add_data(parser)
    _options.add_inference(parser)
    _options.add_json(parser)


def _score(args: argparse.Namespace) -> int:
    if args.ensemble:
        return _score_ensembles(args)
    for option in ("observed", "leads", "errors", "figure"):
        if getattr(args, option) is not None:
            msg = f"--{option} is for simulated trajectories; name them with --ensemble FILE"
            raise DriftbayesError(msg)
    if args.file is None or args.tau is None:
        missing = "a file of trajectories" if args.file is None else "--tau"
        msg = f"score needs {missing}; or --ensemble FILE --observed FILE to score a simulator"
        raise DriftbayesError(msg)
    tau = _options.parse_tau(args.tau)
    wanted = args.held_out_taus
    times = () if wanted is None else _options.parse_times("--held-out-taus", wanted)
    if args.folds < 2:
        raise DriftbayesError(f"--folds must be 2 or more, got {args.folds}")
    if wanted is None:
        because = "prior probabilities of models weigh the average of --held-out-taus"
        _options.refuse(args, "--model-prior", because=because)
        if not args.learned:
            _options.refuse(args, "--folds", because="--folds is for --held-out-taus and --learned")
    how = {"times": times, "n_folds": args.folds, "learned": args.learned}
    _, result = _options.analyse(args, "score", tau, **how)
    return _console.deliver(result, args)


def _score_ensembles(args: argparse.Namespace) -> int:
    """Score members of ensembles against observed trajectories."""
    if args.observed is None or args.file is not None:
        msg = "give the observed trajectories: driftbayes score --ensemble FILE --observed FILE"
        raise DriftbayesError(msg)
    because = "--ensemble scores ensemble members, not models"
    hint = " (--leads chooses lead times)"
    _options.refuse(args, *_MODEL_OPTIONS, because=because, hint=hint)
    _options.check_seed(args.seed)
    named = {}
    for text in args.ensemble:
        name, equals, file = text.partition("=")
        path = Path(file) if equals and not Path(text).exists() else Path(text)
        named[name if path == Path(file) and equals else path.stem] = path
    if len(named) < len(args.ensemble):
        raise DriftbayesError("two ensembles have the same name; name them: --ensemble NAME=FILE")
    args.file = Path(args.observed)
    tracks = _options.read(args)
    from driftbayes.workflow._verification import score_ensembles

    how = {name: value for name, value in _options.reading_options(args).items() if name in _SHARED}
    how["errors"] = args.errors or "drifters"
    result = score_ensembles(tracks, named, leads=args.leads, seed=args.seed, **how)
    return _console.deliver(result, args)


COMMANDS = {
    "score": Command(
        _add_score,
        _score,
        (
            "driftbayes score tracks.csv --tau 0.5",
            "driftbayes score tracks.csv --tau 0.5 --held-out-taus 1,2 --folds 10",
            "driftbayes score tracks.csv --tau 0.5 --learned",
            "driftbayes score --ensemble parcels.zarr --observed drifters.csv",
        ),
    ),
}
