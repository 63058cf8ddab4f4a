"""Commands that list formats and models, and print citations."""

__all__ = ["COMMANDS"]

import argparse

from driftbayes._version import __version__
from driftbayes.cli import _console, _options
from driftbayes.cli._parser import Command, Parser

_BIBTEX = """@article{{brolly2022bayesian,
  author  = {{Brolly, M. T. and Maddison, J. R. and Teckentrup, A. L. and Vanneste, J.}},
  title   = {{Bayesian comparison of stochastic models of dispersion}},
  journal = {{Journal of Fluid Mechanics}},
  year    = {{2022}}
}}
@software{{driftbayes,
  author  = {{{{The driftbayes developers}}}},
  title   = {{driftbayes}},
  version = {{{version}}}
}}"""


def _formats(args: argparse.Namespace) -> int:
    from driftbayes.io import FORMATS

    if args.json:
        _console.print_json([{"name": f.name, "summary": f.summary} for f in FORMATS])
        return 0
    title = "The format is detected automatically; --format NAME overrides"
    rows = [[f.name, f.summary] for f in FORMATS]
    _console.print_table(title, ["format", "description"], rows, left=2)
    return 0


def _models(args: argparse.Namespace) -> int:
    from driftbayes.models import MODELS, OPTIONS

    if args.json:
        facts = ("summary", "limit", "scale_parameter")
        _console.print_json(
            {
                name: {
                    "state_space": model.has_state_space,
                    **{fact: getattr(model, fact) for fact in facts},
                    "parameters": {
                        parameter: {
                            "symbol": about.symbol,
                            "meaning": about.meaning,
                            "unit": about.unit(),
                        }
                        for parameter, about in model.parameters.items()
                    },
                }
                for name, model in MODELS.items()
            }
        )
        return 0
    rows = [
        [name if i == 0 else "", parameter, about.symbol, about.unit(), about.meaning]
        for name, model in MODELS.items()
        for i, (parameter, about) in enumerate(model.parameters.items())
    ]
    heads = ["model", "parameter", "symbol", "unit", "meaning"]
    _console.print_table("Models", heads, rows, left=5)
    for name, model in MODELS.items():
        _console.say(f"{name}: {model.summary}; limit: {model.limit}")
    print("\nOptions, appended with +, for example langevin+noise+mean:")
    for option, meaning in OPTIONS.items():
        _console.say(f"  +{option}: {meaning}")
    _console.say("  *N: mixture of N classes of particles, for example brownian*2")
    print("\nSums of models, joined with &: 'langevin&oscillating+rotating' (with quotes)")
    return 0


def _cite(args: argparse.Namespace) -> int:
    del args
    print(_BIBTEX.format(version=__version__))
    return 0


def _add_nothing(parser: Parser) -> None:
    del parser


COMMANDS = {
    "formats": Command(_options.add_json, _formats),
    "models": Command(_options.add_json, _models),
    "cite": Command(_add_nothing, _cite),
}
