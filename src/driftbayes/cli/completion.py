"""A script that lets a shell complete commands, options and their values."""

__all__ = ["SHELLS", "WORDS", "add_parser", "run"]

import argparse

from driftbayes.cli import _shells
from driftbayes.cli._completion_tree import Words, command_tree
from driftbayes.cli.simulate import PARAMETERS

SHELLS = {"bash": _shells.bash, "zsh": _shells.zsh, "fish": _shells.fish}
# Known here so that a script need not wait for the models and formats; a test compares them.
WORDS = Words(
    models=tuple(PARAMETERS),
    options=("blur", "noise", "anisotropic", "mean", "linear", "rotating", "scatter", "student"),
    parameters=(
        *("kappa", "k", "gamma", "omega", "well", "accel", "smoothness", "ratio", "share"),
        *("hurst", "reference", "sigma", "flow", "gradient", "scatter", "tail"),
        *("h1", "h2", "h3", "h4", "h5"),
    ),
    families=("exponential", "gamma", "lognormal", "uniform", "normal", "fixed"),
    formats=(
        *("run", "zarr", "parcels-zarr", "parcels-parquet", "opendrift", "netcdf", "gdp", "glad"),
        *("clouddrift", "clouddrift-parquet", "cf", "trackpy", "saspt", "andi", "sfi", "evalspt"),
        *("trackmate-csv", "trackmate-tracks", "trackmate-xml", "myptv", "myptv-smoothed"),
        *("gdp-text", "numpy", "table"),
    ),
)
_WHERE = """To try it: source <(driftbayes completion bash). To keep it: bash, write it to
~/.local/share/bash-completion/completions/driftbayes; zsh, to _driftbayes in a folder of $fpath;
fish, to ~/.config/fish/completions/driftbayes.fish."""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the parser."""
    parser = subparsers.add_parser(
        "completion",
        help=__doc__,
        description=f"{__doc__} {_WHERE}",
        allow_abbrev=False,
        examples=("source <(driftbayes completion bash)", "driftbayes completion fish | source"),
    )
    parser.add_argument("shell", choices=tuple(SHELLS), metavar="SHELL", help="bash, zsh or fish")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the script, made from the parsers of all commands."""
    from driftbayes.cli.main import build_parser

    print(SHELLS[args.shell](command_tree(build_parser(), WORDS), WORDS), end="")
    return 0
