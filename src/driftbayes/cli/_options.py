"""Define the options that several commands share, except those for reading a file."""

__all__ = [
    "add_data",
    "add_inference",
    "add_json",
    "add_tau",
    "check_seed",
    "cut",
    "evidence",
    "hypotheses",
    "model_names",
    "model_prior",
    "numbers",
    "parse_tau",
    "parse_taus",
    "print_priors",
    "setup",
]

import argparse
from math import isfinite
from typing import TYPE_CHECKING, Any

from driftbayes.cli import _console
from driftbayes.errors import DriftbayesError
from driftbayes.magnitudes import checked

if TYPE_CHECKING:
    from driftbayes.comparison import HypothesisSet
    from driftbayes.data.trajectories import Trajectories
    from driftbayes.workflow import Cut

_MAX_TAUS = 10_000
# Known here so that --help need not import the methods; a test compares them.
METHODS = ("auto", "quadrature", "laplace", "laplace_is", "bridge", "smc", "nested")


def add_tau(parser: argparse.ArgumentParser) -> None:
    """Add the sampling time."""
    parser.add_argument(
        "--tau",
        required=True,
        help="sampling time, a multiple of the recording interval; 'all' for irregular times",
    )


def add_data(parser: argparse.ArgumentParser) -> None:
    """Add the options that cut trajectories into displacements."""
    group = parser.add_argument_group("displacements")
    group.add_argument(
        "--n-tau", type=int, metavar="N", help="steps per window (default: whole trajectories)"
    )
    group.add_argument(
        "--windows",
        choices=("first", "all"),
        default="first",
        help="with --n-tau: use the first window of each trajectory, or all (default: first)",
    )
    group.add_argument(
        "--gaps",
        choices=("split", "keep"),
        default="split",
        help="split trajectories at missing positions, or keep one longer step (default: split)",
    )


def add_inference(parser: argparse.ArgumentParser) -> None:
    """Add models, priors and the method."""
    group = parser.add_argument_group("models and priors")
    group.add_argument(
        "--models",
        default="brownian,langevin",
        metavar="NAME,...",
        help="models to compare, see `driftbayes models`; or all (default: %(default)s)",
    )
    group.add_argument(
        "--prior",
        action="append",
        default=[],
        metavar="PARAM=FAMILY:NUMBERS",
        help="prior of a parameter, for example gamma=exponential:2, k=lognormal:1:2, "
        "kappa=gamma:2:1, k=uniform:0:5; may be repeated",
    )
    group.add_argument(
        "--u-rms", type=float, metavar="U", help="root-mean-square velocity, sets prior scales"
    )
    group.add_argument(
        "--timescale", type=float, metavar="T", help="velocity time scale, sets prior scales"
    )
    group.add_argument(
        "--model-prior",
        metavar="P,...",
        help="prior probabilities of the models (default: equal)",
    )
    group.add_argument(
        "--method",
        choices=METHODS,
        default="auto",
        help="method for the evidence; auto integrates exactly where possible, else samples; "
        "laplace is the paper's approximation (default: auto)",
    )
    group.add_argument(
        "--seed", type=int, default=0, help="random seed for sampling methods (default: 0)"
    )
    group.add_argument(
        "--coords",
        choices=("natural", "log"),
        default="natural",
        help="parameter coordinates of Laplace's method (default: natural, as in the paper)",
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add the option for JSON output."""
    parser.add_argument("--json", action="store_true", help="print the result as JSON on stdout")


def cut(args: argparse.Namespace) -> "Cut":
    """Return how trajectories are cut into displacements."""
    from driftbayes.workflow import Cut

    return Cut(args.n_tau, args.windows, args.gaps)


def hypotheses(args: argparse.Namespace) -> dict[str, Any]:
    """Return models, priors and scales, by the names of `workflow.hypotheses_for`."""
    from driftbayes.workflow import Scales

    priors: dict[str, str] = {}
    for text in args.prior:
        name, equals, prior = (part.strip() for part in text.partition("="))
        if not equals:
            msg = f"--prior must be PARAM=FAMILY:NUMBERS, got {text!r}; for example k=exponential:1"
            raise DriftbayesError(msg)
        if name in priors:
            msg = f"--prior was given twice for {name!r}; give it once"
            raise DriftbayesError(msg)
        priors[name] = prior
    if (args.u_rms is None) != (args.timescale is None):
        msg = "--u-rms and --timescale must be given together"
        raise DriftbayesError(msg)
    scales = None if args.u_rms is None else Scales(args.u_rms, args.timescale)
    return {"models": args.models, "priors": priors, "scales": scales}


def evidence(args: argparse.Namespace) -> dict[str, Any]:
    """Return how evidences are computed and weighted."""
    return {
        "method": args.method,
        "seed": args.seed,
        "coords": args.coords,
        "prior_probabilities": model_prior(args),
    }


def setup(args: argparse.Namespace, trajectories: "Trajectories") -> "HypothesisSet":
    """Return the hypotheses of the inference options."""
    from driftbayes.workflow.setup import hypotheses_for

    return hypotheses_for(tracks=trajectories, **hypotheses(args))


def print_priors(setup: "HypothesisSet") -> None:
    """Print the priors; a warning has reported those from the data."""
    if not setup.from_data:
        _console.note(setup.note)


def model_prior(args: argparse.Namespace) -> list[float] | None:
    """Return the prior probabilities of the models."""
    if args.model_prior is None:
        return None
    # Only their ratios matter, and a model may be very improbable.
    values = numbers("--model-prior", args.model_prior.split(","), any_size=True)
    names = model_names(args)
    if len(values) != len(names) or not all(0 < value <= 1e100 for value in values):
        msg = (
            f"--model-prior must be {len(names)} positive numbers up to 1e100, one each for "
            f"{', '.join(names)}, got {args.model_prior!r}"
        )
        raise DriftbayesError(msg)
    return values


def model_names(args: argparse.Namespace) -> list[str]:
    """Return the names of the chosen models."""
    names = [name.strip() for name in args.models.split(",") if name.strip()]
    if names != ["all"]:
        return names
    from driftbayes.models import MODELS

    return list(MODELS)


def check_seed(seed: int) -> None:
    """Raise an error for a seed outside the range of the generators."""
    if not 0 <= seed < 2**63:
        msg = f"--seed must be a whole number from 0 to 2^63 - 1, got {seed}"
        raise DriftbayesError(msg)


def parse_tau(text: str) -> float | None:
    """Parse a sampling time; None is 'all'."""
    if text == "all":
        return None
    try:
        return float(text)
    except ValueError:
        msg = f"--tau must be a number or 'all', got {text!r}"
        raise DriftbayesError(msg) from None


def parse_taus(text: str) -> list[float]:
    """Parse `a,b,c`, `low:high:count` (linear) or `low:high:countlog` (logarithmic)."""
    import numpy as np

    if ":" not in text:
        return numbers("--taus", text.split(","))
    parts = text.split(":")
    is_log = parts[-1].endswith("log")
    wanted = f"--taus must be a,b,c or low:high:count or low:high:countlog, got {text!r}"
    if len(parts) != 3:
        raise DriftbayesError(wanted)
    try:
        low, high, count = float(parts[0]), float(parts[1]), int(parts[2].removesuffix("log"))
    except ValueError:
        raise DriftbayesError(wanted) from None
    if not (0 < low <= high < float("inf")) or not 1 <= count <= _MAX_TAUS:
        msg = f"--taus needs 0 < low <= high and a count from 1 to {_MAX_TAUS:,}, got {text[:80]!r}"
        raise DriftbayesError(msg)
    low, high = checked(low, "--taus"), checked(high, "--taus")
    space = np.geomspace if is_log else np.linspace
    return [float(tau) for tau in space(low, high, count)]


def numbers(option: str, texts: list[str], *, any_size: bool = False) -> list[float]:
    """Parse a list of numbers; of any size only if nothing is computed from them."""
    try:
        values = [float(text) for text in texts]
    except ValueError:
        msg = f"{option} must be numbers separated by commas, got {','.join(texts)[:80]!r}"
        raise DriftbayesError(msg) from None
    if any_size:
        return values
    # The caller checks inf and nan.
    return [checked(value, option) if isfinite(value) else value for value in values]
