"""Summarise the program: its commands in groups, and first steps."""

__all__ = ["FIRST_STEPS", "text"]

import textwrap
from collections.abc import Mapping, Sequence
from types import ModuleType

_SUMMARY = (
    "Bayesian comparison of stochastic models of particle dispersion: which model explains "
    "trajectories, with which parameters, at which sampling time, and with what certainty."
)
FIRST_STEPS = (
    "driftbayes info tracks.csv                     # describe a file",
    "driftbayes compare tracks.csv --tau 0.5        # compare models at one sampling time",
    "driftbayes report tracks.csv -o report.html    # write a full report",
    "driftbayes compare --help                      # show options and examples",
)
_WIDTH, _INDENT = 80, 15


def text(groups: Mapping[str, Sequence[ModuleType]]) -> str:
    """Return the purpose of the program and its commands.

    Args:
        groups: Modules of commands under their headings. A module has the name of its command; its
            docstring is the summary.
    """
    lines = textwrap.wrap(_SUMMARY, _WIDTH)
    for heading, group in groups.items():
        lines += ["", f"{heading}:"]
        for command in group:
            name = command.__name__.rpartition(".")[2]
            about = textwrap.wrap((command.__doc__ or "").strip(), _WIDTH - _INDENT)
            lines.append(f"  {name:{_INDENT - 2}}{about[0]}")
            lines += [" " * _INDENT + more for more in about[1:]]
    return "\n".join(lines)
