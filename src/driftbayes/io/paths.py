"""Which file, and whether there is anything in it to read."""

__all__ = ["begin_with_name", "existing_file", "reason"]

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from driftbayes.errors import DriftbayesError
from driftbayes.storage.atomic import PathLike


def existing_file(path: PathLike) -> Path:
    """The path, if a file that is not empty is there."""
    name = os.fspath(path)
    found = Path(path)
    try:
        with found.open("rb") as stream:
            empty = stream.read(1) == b""
    except IsADirectoryError as error:
        msg = f"{name!r} is a directory, expected a file"
        raise DriftbayesError(msg) from error
    except FileNotFoundError as error:
        msg = f"there is no file {name!r}; check its name and its directory"
        raise DriftbayesError(msg) from error
    except (OSError, ValueError) as error:
        msg = f"{name!r} cannot be opened: {reason(error)}"
        raise DriftbayesError(msg) from error
    if empty:
        msg = f"{found.name!r} is empty; expected data in it"
        raise DriftbayesError(msg)
    return found


@contextmanager
def begin_with_name(path: Path) -> Iterator[None]:
    """Errors in the block, which knows data but no file, begin with the name of the file."""
    try:
        yield
    except DriftbayesError as error:
        msg = f"{path.name!r}: {error}"
        raise DriftbayesError(msg) from error


def reason(error: BaseException) -> str:
    """What a library had to say about a file, as the end of one sentence."""
    text = getattr(error, "strerror", None) or str(error)
    first_line = next((line for line in str(text).splitlines() if line.strip()), "")
    printable = "".join(char if char.isprintable() else "?" for char in first_line.strip())
    return printable[:120].rstrip(" .:;") or type(error).__name__
