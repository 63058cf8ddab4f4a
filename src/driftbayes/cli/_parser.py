"""Parse command lines; suggest corrections in errors, show examples in help."""

__all__ = ["Parser"]

import argparse
import re
from collections.abc import Sequence
from typing import Any, NoReturn

from driftbayes.cli._outputs import Output
from driftbayes.suggest import did_you_mean, nearest

_CHOICE = re.compile(r"invalid choice: '([^']*)'")
_MISSING = "the following arguments are required:"


class Parser(argparse.ArgumentParser):
    """Argument parser with --verbose and --quiet before or after every command.

    Args:
        *args: As for argparse.
        examples: Example command lines.
        **options: As for argparse; abbreviated options are off.
    """

    def __init__(self, *args: Any, examples: Sequence[str] = (), **options: Any) -> None:
        super().__init__(*args, **{"allow_abbrev": False, **options})
        self.examples = tuple(examples)
        self._given: list[str] = []
        # Outputs of the command, by the name of the option; see `_outputs`.
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
            help="report each step with timings, and show tracebacks of errors",
        )
        self.add_argument(
            "-q",
            "--quiet",
            dest="verbosity",
            action="store_const",
            const=-1,
            default=argparse.SUPPRESS,
            help="hide notes and progress; results, warnings and errors are always shown",
        )

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse as argparse does, and keep the words for error messages."""
        self._given = [] if args is None else list(args)
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        """Exit with the usage, the message and a suggestion."""
        super().error(message + self._suggestion(message))

    def error_unknown(self, words: Sequence[str]) -> NoReturn:
        """Exit with a message on words that are neither options nor arguments of the command."""
        options = [word for word in words if word.startswith("-")]
        if not options:
            self.error(f"unexpected argument {words[0]!r}")
        self.error(self._unknown_option(options[0].partition("=")[0]))

    def format_help(self) -> str:
        """Format the help, followed by examples."""
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
        # A required option that was mistyped is missing.
        options = self._option_string_actions
        for word in self._given:
            option = word.partition("=")[0]
            if option.startswith("--") and option not in options and nearest(option, options):
                return f"; {self._unknown_option(option)}"
        return ""

    def _unknown_option(self, option: str) -> str:
        return f"unknown option {option!r}" + did_you_mean(option, self._option_string_actions)


def _name(action: argparse.Action) -> str:
    """Return the name of an argument in argparse's messages."""
    if action.option_strings:
        return "/".join(action.option_strings)
    return str(action.metavar or action.dest)
