"""XML as a stream of elements: no tree is kept, and nothing in it is expanded or fetched."""

__all__ = ["Visit", "root", "visit"]

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from xml.parsers import expat

from driftbayes.errors import DriftbayesError
from driftbayes.io.limits import Clock
from driftbayes.io.paths import reading_as

# What to do at the start of an element: the names of those around it and its own, its attributes.
Visit = Callable[[tuple[str, ...], Mapping[str, str]], None]

_BLOCK = 2**18
# Trajectories take six levels; a file with more than this means harm.
_MAX_DEPTH = 64
_MAX_ELEMENT = 2**22


class _Enough(BaseException):
    """The outermost element is known."""


def root(path: Path) -> tuple[str, dict[str, str]]:
    """Name and attributes of the outermost element."""
    found: list[tuple[str, dict[str, str]]] = []

    def see(names: tuple[str, ...], attributes: Mapping[str, str]) -> None:
        found.append((names[0], dict(attributes)))
        raise _Enough

    visit(path, see)
    return found[0]


def visit(path: Path, see: Visit) -> None:
    """Go through all elements in the order in which they start.

    A document type declaration is refused: it is where entities are defined, by which a small file
    grows without bound or reads others, and no program that writes trajectories writes one.
    """
    names: list[str] = []

    def start(name: str, attributes: dict[str, str]) -> None:
        names.append(name)
        if len(names) > _MAX_DEPTH:
            msg = (
                f"{path.name!r} has elements nested more than {_MAX_DEPTH} levels deep; expected "
                "tracks"
            )
            raise DriftbayesError(msg)
        see(tuple(names), attributes)

    def end(_: str) -> None:
        names.pop()

    def refuse(*_: object) -> None:
        msg = (
            f"{path.name!r} has a document type declaration (DOCTYPE), which may define entities "
            "and is not read; remove it"
        )
        raise DriftbayesError(msg)

    parser = expat.ParserCreate()
    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    isfinal = True
    clock = Clock(path.name, path.stat().st_size)
    with (
        suppress(_Enough),
        reading_as(path, "XML", "it may be damaged or cut short"),
        path.open("rb") as stream,
    ):
        n_read = 0
        while block := stream.read(_BLOCK):
            n_read += len(block)
            parser.Parse(block)
            # The parser begins again at the start of what is not complete yet.
            if n_read - parser.CurrentByteIndex > _MAX_ELEMENT:
                msg = (
                    f"{path.name!r} has a tag of more than {_MAX_ELEMENT:,} bytes; expected tracks"
                )
                raise DriftbayesError(msg)
            clock.check()
        parser.Parse(b"", isfinal)
