"""The pages of the documentation, the blocks of code in them, and names that they use."""

import importlib
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

CODE = ("sh", "python")
# Shown, and never run; a word in braces is a directive of the site's.
OTHER = ("text", "csv", "json")
MARKS = {"sh": ("", "slow", "parse"), "python": ("", "slow")}

_FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,})(?P<info>[^`\n]*)$")
_HIDDEN = re.compile(r"<!-- run: (?P<language>\w+)(?: (?P<mark>\w+))?\n(?P<text>.*?)-->", re.DOTALL)
_PICTURE = re.compile(r"!\[[^\]]*\]\(([^)]+)\)")
# What only a shell understands; without it a command can be run in this process.
_SHELL = re.compile(r"[$`~]")
_OPERATORS = set("|&;<>()")


@dataclass(frozen=True)
class Block:
    """A block of code, hidden or shown, or of text.

    Args:
        language: First word of the fence.
        mark: What follows it.
        text: Without the fence, and without its indentation.
        line: Number of the first line of the text on the page.
        after: Number of the line that ends the block.
        indent: Of the fence.
        hidden: Whether it stands in a comment.
    """

    language: str
    mark: str
    text: str
    line: int
    after: int
    indent: int = 0
    hidden: bool = False


@dataclass(frozen=True)
class Page:
    """A page and its blocks, in order."""

    path: Path
    text: str
    blocks: tuple[Block, ...]

    @property
    def name(self) -> str:
        return str(self.path.relative_to(ROOT)) if self.path.is_relative_to(ROOT) else "page"

    @property
    def code(self) -> list[Block]:
        return [block for block in self.blocks if block.language in CODE]

    @property
    def pictures(self) -> list[Path]:
        """Pictures shown, as files of the repository."""
        return [(self.path.parent / name).resolve() for name in _PICTURE.findall(self.text)]

    def output_of(self, block: Block) -> Block | None:
        """What the page says the block prints: text that follows with nothing between."""
        index = self.blocks.index(block) + 1
        if index == len(self.blocks) or self.blocks[index].language != "text":
            return None
        claimed = self.blocks[index]
        between = self.text.splitlines()[block.after : claimed.line - 2]
        return None if any(line.strip() for line in between) else claimed


def read_page(path: Path) -> Page:
    """Find the blocks of a page."""
    return page_of(path, path.read_text(encoding="utf-8"))


def page_of(path: Path, text: str) -> Page:
    """The same, from its text."""
    blocks = [*_fenced(text), *_hidden(text)]
    return Page(path, text, tuple(sorted(blocks, key=lambda block: block.line)))


def _fenced(text: str) -> list[Block]:
    blocks, opened = [], None
    for number, line in enumerate(text.splitlines(), 1):
        match = _FENCE.match(line)
        if opened is None:
            if match:
                opened, start, body = match, number + 1, []
        elif match and not match["info"].strip() and len(match["ticks"]) >= len(opened["ticks"]):
            language, _, mark = opened["info"].strip().partition(" ")
            indent = len(opened["indent"])
            inside = "".join(f"{line[indent:]}\n" for line in body)
            blocks.append(Block(language, mark.strip(), inside, start, number, indent))
            opened = None
        else:
            body.append(line)
    if opened is not None:
        raise ValueError(f"the block that begins on line {start - 1} has no end")
    return blocks


def _hidden(text: str) -> list[Block]:
    found = []
    for match in _HIDDEN.finditer(text):
        line = text.count("\n", 0, match.start()) + 2
        after = text.count("\n", 0, match.end()) + 1
        mark = match["mark"] or ""
        found.append(Block(match["language"], mark, match["text"], line, after, hidden=True))
    return found


@dataclass(frozen=True)
class Command:
    """A line of a shell block, with its continuations.

    Args:
        words: As a shell would see them; empty if only a shell understands the line.
        line: Number of its first line on the page.
        code: Exit code that a comment announces ("# exit code 2").
    """

    words: tuple[str, ...]
    line: int
    code: int

    @property
    def program(self) -> str:
        return self.words[0] if self.words else ""


def commands(block: Block) -> list[Command]:
    """The commands of a shell block, one by one."""
    found, number = [], block.line
    for joined in re.split(r"(?<!\\)\n", block.text.rstrip("\n")):
        first, number = number, number + joined.count("\n") + 1
        text = joined.replace("\\\n", " ").replace(".venv/bin/", "").strip()
        if not text or text.startswith("#"):
            continue
        announced = re.search(r"# exit code (\d+)", text)
        code = int(announced[1]) if announced else 0
        found.append(Command(tuple(_words(text)), first, code))
    return found


def _words(text: str) -> list[str]:
    lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        words = list(lexer)
    except ValueError:
        return []
    only_shell = any(set(word) <= _OPERATORS or _SHELL.search(word) for word in words)
    return [] if only_shell else words


def exists(name: str) -> bool:
    """Whether a dotted name is a module, or something in one."""
    words = name.split(".")
    for n in range(len(words), 0, -1):
        try:
            found = importlib.import_module(".".join(words[:n]))
        except ModuleNotFoundError:
            continue
        for word in words[n:]:
            # A field of a dataclass without a default is an annotation only.
            if word in getattr(found, "__annotations__", {}):
                return True
            if not hasattr(found, word):
                return False
            found = getattr(found, word)
        return True
    return False
