"""What can stand where on the command line, read off our own parsers."""

__all__ = ["Command", "Option", "Values", "Words", "command_tree"]

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

# "any" is a number or free text: nothing to offer.
Kind = Literal["words", "files", "models", "priors", "any"]


@dataclass(frozen=True)
class Words:
    """Names that the parsers take as free text.

    Args:
        models: Of the models.
        options: That may follow a model, after a plus sign.
        parameters: That have priors.
        families: Of priors.
        formats: Of files.
    """

    models: tuple[str, ...]
    options: tuple[str, ...]
    parameters: tuple[str, ...]
    families: tuple[str, ...]
    formats: tuple[str, ...]


@dataclass(frozen=True)
class Values:
    """What may stand in one place.

    Args:
        kind: Words of a list, names of files, models, priors, or anything.
        name: What it is called in the help.
        words: The list.
    """

    kind: Kind
    name: str
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class Option:
    """One option.

    Args:
        flags: Its spellings.
        help: What it does.
        values: What follows it; None if nothing does.
    """

    flags: tuple[str, ...]
    help: str
    values: Values | None


@dataclass(frozen=True)
class Command:
    """A command, or the program itself.

    Args:
        path: Its words after the program's name, with a slash before each; "" is the program.
        options: Its options.
        positionals: What stands in it without an option.
        children: Its subcommands, with what they do.
    """

    path: str
    options: tuple[Option, ...]
    positionals: tuple[Values, ...]
    children: dict[str, str]


def command_tree(
    parser: argparse.ArgumentParser, words: Words, path: str = ""
) -> tuple[Command, ...]:
    """The command of a parser and all below it.

    Args:
        parser: Of the program.
        words: Names that the parser takes as free text.
        path: Of the parser's own command.
    """
    options, positionals = [], []
    children: dict[str, str] = {}
    below: list[Command] = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            # Where argparse keeps the help of subcommands: their parsers do not know it.
            children = {one.dest: one.help or "" for one in action._choices_actions}
            for name, child in action.choices.items():
                below += command_tree(child, words, f"{path}/{name}")
        elif action.option_strings:
            values = None if action.nargs == 0 else _values(action, words)
            text = "" if action.help is None else action.help % vars(action)
            options.append(Option(tuple(action.option_strings), text, values))
        else:
            positionals.append(_values(action, words))
    return (Command(path, tuple(options), tuple(positionals), children), *below)


def _values(action: argparse.Action, words: Words) -> Values:
    name = str(action.metavar or action.dest)
    if action.choices is not None:
        return Values("words", name, tuple(map(str, action.choices)))
    if action.dest == "format":
        return Values("words", name, words.formats)
    if action.dest == "model":
        return Values("words", name, words.models)
    if action.dest == "models":
        return Values("models", name)
    if action.dest == "prior":
        return Values("priors", name)
    return Values("files" if action.type is Path else "any", name)
