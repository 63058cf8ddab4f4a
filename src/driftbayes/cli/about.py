"""Commands that list formats and models, and print citations and completion scripts."""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from driftbayes._version import __version__
from driftbayes.cli import _console, _options
from driftbayes.cli._parser import Command, Parser
from driftbayes.cli.simulate import PARAMETERS

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
    from driftbayes.models._named import SDES, WALKS

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
    print("\nStochastic differential equations, by particle filters; not included in 'all':")
    for name in SDES:
        _console.say(f"  {name}: {SDES[name].summary}")
    _console.say("  FILE.py:NAME: your own SDE; --models runs the file's code")
    print("\nWalks with jumps; not included in 'all', without options:")
    for name in WALKS:
        _console.say(f"  {name}: {WALKS[name].summary}; limit: {WALKS[name].limit}")
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


SHELLS = ("bash", "zsh", "fish")
# Repeated here so that a script need not import models and formats; a test compares them.
MODELS = tuple(PARAMETERS)
OPTIONS = (
    *("blur", "noise", "outliers", "anisotropic", "mean", "linear", "common", "flow", "eddies"),
    *("rotating", "scatter", "student"),
)
FORMATS = (
    *("run", "zarr", "parcels-zarr", "parcels-parquet", "opendrift", "netcdf", "gdp", "glad"),
    *("clouddrift", "clouddrift-parquet", "cf", "trackpy", "saspt", "andi", "sfi", "evalspt"),
    *("trackmate-csv", "trackmate-tracks", "trackmate-xml", "myptv", "myptv-smoothed"),
    *("gdp-text", "numpy", "matlab", "r", "table"),
)
# Completion of the last name in a list, for example brownian,langevin+noise.
_MODEL_LIST = {
    "bash": r"""
_driftbayes_models() {
  local tail=${1##*[,+]} list="@MODELS@"
  local head=${1%"$tail"}
  [[ $head == *+ ]] && list="@OPTIONS@"
  compgen -P "$head" -W "$list" -- "$tail"
}
""",
    "zsh": r"""
_driftbayes_models() {
  compset -P '*,'
  if compset -P '*+'; then
    compadd -S '' -- @OPTIONS@
  else
    compadd -S '' -- @MODELS@
  fi
}
""",
    "fish": r"""
function _driftbayes_models
  set -l head (string replace -r '[^,+]*$' '' -- (commandline -ct))
  if string match -q -- '*+' "$head"
    printf '%s\n' "$head"(string split ' ' '@OPTIONS@')
  else
    printf '%s\n' "$head"(string split ' ' '@MODELS@')
  end
end
""",
}


def _add_shell(parser: Parser) -> None:
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help="bash, zsh or fish")


def _completion(args: argparse.Namespace) -> int:
    """Print the script, generated from the parsers of all commands."""
    import shtab

    parser = args.program
    for action in _actions(parser):
        if isinstance(action, argparse._SubParsersAction):
            # Hidden in --help, where an overview replaces it.
            action.help = None
        elif action.choices is None:
            values = _values(action)
            if values is not None:
                action.complete = values  # type: ignore[attr-defined]
    print(shtab.complete(parser, args.shell))
    return 0


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yield every argument of the parser and its subcommands."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for child in action.choices.values():
                yield from _actions(child)


def _values(action: argparse.Action) -> dict[str, Any] | None:
    """Return shtab's completion of an argument's values; None for numbers and free text."""
    import shtab

    if action.type is Path:
        return shtab.FILE
    if action.dest == "models":
        name = "_driftbayes_models"
        how = {"bash": name, "zsh": name, "fish": f"({name})"}
        return {**how, "preamble": _MODEL_PREAMBLE}
    if action.dest not in ("format", "model"):
        return None
    words = " ".join(FORMATS if action.dest == "format" else MODELS)
    return {**shtab.cmd(f"echo {words}"), "zsh": f"({words})", "fish": words}


_MODEL_PREAMBLE = {
    shell: text.replace("@MODELS@", " ".join(MODELS)).replace("@OPTIONS@", " ".join(OPTIONS))
    for shell, text in _MODEL_LIST.items()
}


COMMANDS = {
    "formats": Command(_options.add_json, _formats),
    "models": Command(_options.add_json, _models),
    "cite": Command(lambda _: None, _cite),
    "completion": Command(
        _add_shell,
        _completion,
        ('eval "$(driftbayes completion bash)"', "driftbayes completion fish | source"),
        'To try it in bash or zsh: eval "$(driftbayes completion bash)". To install it, save the '
        "output: for bash as ~/.local/share/bash-completion/completions/driftbayes, for zsh as "
        "_driftbayes in a directory of $fpath, for fish as "
        "~/.config/fish/completions/driftbayes.fish.",
    ),
}
