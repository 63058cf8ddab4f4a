"""The models that can be compared, with their parameters, units and limits."""

__all__ = ["add_parser", "run"]

import argparse

from driftbayes.cli import _console, _options


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the parser."""
    parser = subparsers.add_parser("models", help=__doc__, description=__doc__, allow_abbrev=False)
    _options.add_json(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """List the models."""
    from driftbayes.models import MODELS, OPTIONS

    if args.json:
        _console.print_json(
            {
                name: {
                    "state_space": model.has_state_space,
                    "summary": model.summary,
                    "limit": model.limit,
                    "scale_parameter": model.scale_parameter,
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
    _console.print_table("Models", ["model", "parameter", "", "unit", "meaning"], rows, left=5)
    for name, model in MODELS.items():
        print(f"{name}: {model.summary}; simpler neighbour: {model.limit}")
    print("\nOptions, after plus signs, for example langevin+noise+mean:")
    for option, meaning in OPTIONS.items():
        print(f"  +{option}: {meaning}")
    print("  *N: N classes of particles, for example brownian*2")
    print("\nSums, joined by &, for example 'langevin&oscillating+rotating' (quote it in a shell)")
    return 0
