"""The reference of the command line, from the parsers themselves."""

__all__ = ["CommandLine", "anchor_of", "parsers"]

import argparse
import re
from collections.abc import Iterator, Sequence
from functools import cache

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from driftbayes.cli.main import build_parser

_WIDTH = 84
_CODE = re.compile(r"(`[^`]+`|--[a-z][\w-]*)")


@cache
def parsers() -> tuple[argparse.ArgumentParser, ...]:
    """Every parser, each before those of its subcommands."""
    return tuple(_walk(build_parser()))


def _walk(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            # Two names of one command are one command.
            yield from (below for p in dict.fromkeys(action.choices.values()) for below in _walk(p))


def anchor_of(words: Sequence[str]) -> str:
    """The anchor of a command: `driftbayes-turbulence-run`."""
    return "-".join(words)


class CommandLine(SphinxDirective):
    """A section for each command: what it does, how it is called, its arguments."""

    def run(self) -> list[nodes.Node]:
        """The sections."""
        return [self._section(parser) for parser in parsers() if parser.prog != "driftbayes"]

    def _section(self, parser: argparse.ArgumentParser) -> nodes.section:
        name = parser.prog
        section = nodes.section(ids=[anchor_of(name.split())], names=[name])
        self.state.document.note_explicit_target(section)
        section += nodes.title(name, "", nodes.literal(name, name))
        section += nodes.paragraph("", "", *_text(parser.description or ""))
        usage = _formatter(parser)
        usage.add_usage(parser.usage, parser._actions, parser._mutually_exclusive_groups, "")
        block = nodes.literal_block(text=usage.format_help().strip(), language="text")
        section += block
        for group in parser._action_groups:
            shown = [a for a in group._group_actions if _is_shown(a)]
            if shown:
                title = _GROUPS.get(group.title or "", group.title or "")
                section += nodes.rubric("", title.capitalize())
                section += nodes.definition_list("", *(_item(parser, a) for a in shown))
        if examples := getattr(parser, "examples", ()):
            section += nodes.rubric("", "Examples")
            section += nodes.literal_block(text="\n".join(examples), language="sh")
        return section


_GROUPS = {"positional arguments": "arguments"}


def _is_shown(action: argparse.Action) -> bool:
    return action.help is not argparse.SUPPRESS and not isinstance(action, argparse._HelpAction)


def _item(parser: argparse.ArgumentParser, action: argparse.Action) -> nodes.definition_list_item:
    formatter = _formatter(parser)
    if isinstance(action, argparse._SubParsersAction):
        choices = ", ".join(action.choices)
        return _pair([action.metavar or action.dest], f"One of {choices}.")
    if action.option_strings:
        value = "" if action.nargs == 0 else formatter._format_args(action, action.dest.upper())
        terms = [f"{option} {value}".strip() for option in action.option_strings]
    else:
        terms = [formatter._format_args(action, action.dest)]
    return _pair(terms, formatter._expand_help(action) if action.help else "")


def _pair(terms: Sequence[object], text: str) -> nodes.definition_list_item:
    term = nodes.term()
    for n, words in enumerate(terms):
        term += [nodes.Text(", ")] * bool(n)
        term += nodes.literal("", str(words))
    return nodes.definition_list_item(
        "", term, nodes.definition("", nodes.paragraph("", "", *_text(text)))
    )


def _text(text: str) -> list[nodes.Node]:
    """A sentence, begun with a capital, with options and what stands in backticks as code."""
    text = " ".join(text.split())
    parts = _CODE.split(text[:1].upper() + text[1:])
    return [
        nodes.literal("", p.strip("`")) if n % 2 else nodes.Text(p) for n, p in enumerate(parts)
    ]


def _formatter(parser: argparse.ArgumentParser) -> argparse.HelpFormatter:
    return argparse.HelpFormatter(prog=parser.prog, width=_WIDTH)
