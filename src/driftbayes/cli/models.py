"""List models with their parameters, units and limits."""

__all__ = ["add_arguments", "run"]

import argparse

from driftbayes.cli import _console, _options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    _options.add_json(parser)


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
    _console.print_table(
        "Models", ["model", "parameter", "symbol", "unit", "meaning"], rows, left=5
    )
    for name, model in MODELS.items():
        print(f"{name}: {model.summary}; limit: {model.limit}")
    print("\nOptions, appended with +, for example langevin+noise+mean:")
    for option, meaning in OPTIONS.items():
        print(f"  +{option}: {meaning}")
    print("  *N: mixture of N classes of particles, for example brownian*2")
    print(
        "\nSums of models, joined with &, for example 'langevin&oscillating+rotating' (with quotes)"
    )
    return 0
