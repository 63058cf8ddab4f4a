"""Reference of the command line, generated from the parsers."""

__all__ = ["CommandLine", "CommandOptions", "CommandSummary", "anchor_of", "page_of", "parsers"]

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
    """Return every parser, each before those of its subcommands."""
    return tuple(_walk(build_parser()))


def _walk(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            # A command with two names is listed once.
            yield from (below for p in dict.fromkeys(action.choices.values()) for below in _walk(p))


def anchor_of(words: Sequence[str]) -> str:
    """Return the anchor of a command: `driftbayes-turbulence-run`."""
    return "-".join(words)


def page_of(words: Sequence[str]) -> str:
    """Return the page of a command: `commands/turbulence`."""
    return f"commands/{words[1]}"


class CommandLine(SphinxDirective):
    """Directive that lists every command with its summary, linked to its page."""

    def run(self) -> list[nodes.Node]:
        """Return the list."""
        items = []
        for parser in parsers():
            if len(parser.prog.split()) == 2:
                about = _text((parser.description or "").partition(". ")[0].rstrip(".") + ".")
                items.append(_pair([parser.prog], about))
        return [nodes.definition_list("", *items)]


class CommandSummary(SphinxDirective):
    """Directive for the summary of a command; the argument is its name."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return the description from its help."""
        return [nodes.paragraph("", "", *_text(_parser(self.arguments[0]).description or ""))]


class CommandOptions(SphinxDirective):
    """Directive for usage and arguments of a command, with sections for subcommands."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return usage, arguments, examples and subcommands."""
        parser = _parser(self.arguments[0])
        below = [p for p in parsers() if p.prog.startswith(f"{parser.prog} ")]
        return [*_described(parser), *(self._section(child) for child in below)]

    def _section(self, parser: argparse.ArgumentParser) -> nodes.section:
        name = parser.prog
        section = nodes.section(ids=[anchor_of(name.split())], names=[name])
        self.state.document.note_explicit_target(section)
        section += nodes.title(name, "", nodes.literal(name, name))
        if parser.description:
            section += nodes.paragraph("", "", *_text(parser.description))
        section += _described(parser)
        return section


def _parser(name: str) -> argparse.ArgumentParser:
    return next(parser for parser in parsers() if parser.prog == f"driftbayes {name}")


def _described(parser: argparse.ArgumentParser) -> list[nodes.Node]:
    """Return usage, arguments and examples of a command."""
    usage = _formatter(parser)
    usage.add_usage(parser.usage, parser._actions, parser._mutually_exclusive_groups, "")
    found: list[nodes.Node] = [
        nodes.literal_block(text=usage.format_help().strip(), language="text")
    ]
    for group in parser._action_groups:
        shown = [a for a in group._group_actions if _is_shown(a)]
        if shown:
            title = _GROUPS.get(group.title or "", group.title or "")
            found.append(nodes.rubric("", title.capitalize()))
            found.append(nodes.definition_list("", *(_item(parser, a) for a in shown)))
    if examples := getattr(parser, "examples", ()):
        found.append(nodes.rubric("", "More examples"))
        found.append(nodes.literal_block(text="\n".join(examples), language="sh"))
    return found


_GROUPS = {"positional arguments": "arguments"}


def _is_shown(action: argparse.Action) -> bool:
    return action.help is not argparse.SUPPRESS and not isinstance(action, argparse._HelpAction)


def _item(parser: argparse.ArgumentParser, action: argparse.Action) -> nodes.definition_list_item:
    formatter = _formatter(parser)
    if isinstance(action, argparse._SubParsersAction):
        choices = ", ".join(action.choices)
        return _pair([action.metavar or action.dest], _text(f"One of {choices}."))
    if action.option_strings:
        value = "" if action.nargs == 0 else formatter._format_args(action, action.dest.upper())
        terms = [f"{option} {value}".strip() for option in action.option_strings]
    else:
        terms = [formatter._format_args(action, action.dest)]
    return _pair(terms, _text(formatter._expand_help(action) if action.help else ""))


def _pair(terms: Sequence[object], text: list[nodes.Node]) -> nodes.definition_list_item:
    term = nodes.term()
    for n, words in enumerate(terms):
        term += [nodes.Text(", ")] * bool(n)
        term += nodes.literal("", str(words))
    return nodes.definition_list_item(
        "", term, nodes.definition("", nodes.paragraph("", "", *text))
    )


def _text(text: str) -> list[nodes.Node]:
    """Format a sentence: a capital first letter, options and backticked words as code."""
    text = " ".join(text.split())
    parts = _CODE.split(text[:1].upper() + text[1:])
    return [
        nodes.literal("", p.strip("`")) if n % 2 else nodes.Text(p) for n, p in enumerate(parts)
    ]


def _formatter(parser: argparse.ArgumentParser) -> argparse.HelpFormatter:
    return argparse.HelpFormatter(prog=parser.prog, width=_WIDTH)
