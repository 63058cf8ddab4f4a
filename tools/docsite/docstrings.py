"""Convert docstrings from Google style with Markdown to reStructuredText for autodoc.

Backticks are code, dollars formulas, `[eq:id]` cites an equation; sections are Args and Returns.
Everything else is text; markup of reStructuredText in it is escaped.
"""

__all__ = ["to_rst"]

import re
from collections.abc import Iterator

_SECTIONS = ("Args", "Returns")
_INLINE = re.compile(
    r"(?P<code>`[^`]+`)"
    r"|(?P<math>\$(?!\s)[^$]+?(?<!\s)\$)"
    r"|(?P<equation>\[eq:[\w-]+\])"
    r"|(?P<bold>\*\*(?=\S)[^*]+(?<=\S)\*\*)"
    r"|(?P<escape>[\\*_`|])"
)
_ITEM = re.compile(r"^(\*{0,2}\w+): +(.*)$")


def to_rst(lines: list[str]) -> list[str]:
    """Convert the lines of a docstring."""
    out: list[str] = []
    for section, body in _sections(lines):
        if section == "Args":
            out += ["", *_arguments(body), ""]
        elif section == "Returns":
            first, *rest = _blocks(_dedent(body))
            out += ["", f":returns: {first}", *(f"    {line}" for line in rest), ""]
        else:
            out += _blocks(body)
    return out


def _sections(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield each section with its lines; lines outside of sections have an empty name."""
    name = ""
    body: list[str] = []
    for line in lines:
        heading = line.rstrip().removesuffix(":")
        if line.rstrip().endswith(":") and heading in _SECTIONS:
            yield name, body
            name, body = heading, []
        elif name and line and not line.startswith(" "):
            yield name, body
            name, body = "", [line]
        else:
            body.append(line)
    yield name, body


def _arguments(body: list[str]) -> list[str]:
    """Convert lines `name: text`, continued by indented ones, to fields."""
    out: list[str] = []
    item: list[str] = []
    name = ""
    for line in [*_dedent(body), "end: "]:
        if (match := _ITEM.match(line)) or line == "end: ":
            if name:
                first, *rest = _blocks(_dedent_rest(item))
                out += [f":param {name}: {first}", *(f"    {text}" for text in rest)]
            name, item = (match[1].replace("*", r"\*"), [match[2]]) if match else ("", [])
        else:
            item.append(line)
    return out


def _blocks(lines: list[str]) -> list[str]:
    """Convert displayed formulas to directives; leave paragraphs and lists unchanged."""
    text = "\n".join(lines)
    out: list[str] = []
    for n, part in enumerate(text.split("$$")):
        if n % 2:
            out += ["", ".. math::", "", *(f"    {line.strip()}" for line in part.splitlines()), ""]
        else:
            out += _inline(part).splitlines()
    return out or [""]


def _inline(text: str) -> str:
    return _INLINE.sub(_replace, text)


def _replace(match: re.Match[str]) -> str:
    found = match[0]
    if match["escape"]:
        return f"\\{found}"
    if match["code"]:
        found = f"``{_one_line(found[1:-1])}``"
    elif match["math"]:
        found = f":math:`{_one_line(found[1:-1])}`"
    elif match["equation"]:
        found = f"``{found}``"
    # Markup must begin and end next to a space or punctuation; an escaped space, which is not
    # shown, allows it next to a letter.
    before = match.string[match.start() - 1 : match.start()]
    return ("\\ " if before.isalnum() else "") + found + "\\ "


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _dedent(lines: list[str]) -> list[str]:
    depth = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    return [line[depth:] for line in lines]


def _dedent_rest(lines: list[str]) -> list[str]:
    return [lines[0], *_dedent(lines[1:])]
