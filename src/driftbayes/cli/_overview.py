"""What `driftbayes` says without a command: its commands in groups, and first steps."""

__all__ = ["FIRST_STEPS", "text"]

import textwrap
from collections.abc import Mapping, Sequence
from types import ModuleType

_SUMMARY = (
    "Which stochastic model of dispersion explains particle trajectories, with which parameters, "
    "at which time scale, and how sure we are."
)
FIRST_STEPS = (
    "driftbayes info tracks.csv                     # what is in it, and what to run next",
    "driftbayes compare tracks.csv --tau 0.5        # which model explains it at one tau",
    "driftbayes report tracks.csv -o report.html    # the whole answer, as one page",
    "driftbayes compare --help                      # options and examples of one command",
)
_WIDTH, _INDENT = 92, 15


def text(groups: Mapping[str, Sequence[ModuleType]]) -> str:
    """What the program is for, and its commands.

    Args:
        groups: Modules of commands under their headings; each has the name of its command, and its
            docstring says what it does.
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
