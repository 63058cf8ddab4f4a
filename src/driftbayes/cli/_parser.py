"""A parser whose errors end with a suggestion and whose help ends with examples."""

__all__ = ["Parser"]

import argparse
import re
from collections.abc import Sequence
from typing import Any, NoReturn

from driftbayes.cli._outputs import Output
from driftbayes.suggest import did_you_mean, nearest

_CHOICE = re.compile(r"invalid choice: '([^']*)'")
_MISSING = ("unrecognized arguments:", "the following arguments are required:")


class Parser(argparse.ArgumentParser):
    """Like argparse's, with --verbose and --quiet before or after every command.

    Args:
        *args: As for argparse.
        examples: Commands that a person can copy, one per line.
        **options: As for argparse.
    """

    def __init__(self, *args: Any, examples: Sequence[str] = (), **options: Any) -> None:
        super().__init__(*args, **options)
        self.examples = tuple(examples)
        self._given: list[str] = []
        # What the command writes, by the name of its option; see `_outputs`.
        self.written: dict[str, Output] = {}
        # The innermost command wins, so that its own options are suggested.
        self.set_defaults(parser=self)
        # No defaults here: that of a subcommand would undo what stands before it.
        self.add_argument(
            "-v",
            "--verbose",
            dest="verbosity",
            action="store_const",
            const=1,
            default=argparse.SUPPRESS,
            help="say what is being done, with timings, and show the traceback of an error",
        )
        self.add_argument(
            "-q",
            "--quiet",
            dest="verbosity",
            action="store_const",
            const=-1,
            default=argparse.SUPPRESS,
            help="no notes and no progress; results, warnings and errors are always shown",
        )

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """As argparse's; what was written is kept for messages."""
        self._given = [] if args is None else list(args)
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        """Leave with how the command is used, what is wrong, and what may have been meant."""
        super().error(message + self._suggestion(message))

    def format_help(self) -> str:
        """As argparse's, and examples."""
        text = super().format_help()
        if not self.examples:
            return text
        return f"{text}\nexamples:\n" + "".join(f"  {line}\n" for line in self.examples)

    def _suggestion(self, message: str) -> str:
        choice = _CHOICE.search(message)
        if choice:
            choices = [
                str(one)
                for action in self._actions
                if f"argument {_name(action)}:" in message
                for one in action.choices or ()
            ]
            return did_you_mean(choice[1], choices)
        if not message.startswith(_MISSING):
            return ""
        options = list(self._option_string_actions)
        for word in self._given:
            option = word.partition("=")[0]
            found = nearest(option, options)
            if option.startswith("--") and option not in options and found is not None:
                return f"; {option!r} is no option: did you mean {found!r}?"
        return ""


def _name(action: argparse.Action) -> str:
    """What argparse calls an action in its messages."""
    if action.option_strings:
        return "/".join(action.option_strings)
    return str(action.metavar or action.dest)
