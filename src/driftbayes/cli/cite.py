"""Print BibTeX entries for the method and this software."""

__all__ = ["add_arguments", "run"]

import argparse

from driftbayes._version import __version__

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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add no arguments."""
    del parser


def run(args: argparse.Namespace) -> int:
    """Print BibTeX."""
    del args
    print(_BIBTEX.format(version=__version__))
    return 0
