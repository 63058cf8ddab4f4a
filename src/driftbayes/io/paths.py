"""Which file, whether it can be read, and how errors name it."""

__all__ = ["begin_with_name", "existing_file", "reading_as", "reason", "require"]

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

from driftbayes.errors import DriftbayesError
from driftbayes.storage.atomic import PathLike
from driftbayes.suggest import nearest


def existing_file(path: PathLike) -> Path:
    """The path, if a file that is not empty is there."""
    name = os.fspath(path)
    found = Path(path)
    try:
        # Opening a pipe waits for somebody to write to it; a device may have no end.
        mode = found.stat().st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise DriftbayesError(
                f"{name!r} is a pipe, a socket or a device, expected an ordinary file; save what "
                "comes from it to a file first"
            )
        with found.open("rb") as stream:
            empty = stream.read(1) == b""
    except DriftbayesError:
        raise
    except IsADirectoryError as error:
        msg = f"{name!r} is a directory, expected a file; name one in it"
        raise DriftbayesError(msg) from error
    except FileNotFoundError as error:
        raise DriftbayesError(f"there is no file {name!r}; {_where_else(found)}") from error
    except (OSError, ValueError) as error:
        msg = f"{name!r} cannot be opened: {reason(error)}; check that you may read it"
        raise DriftbayesError(msg) from error
    if empty:
        raise DriftbayesError(f"{found.name!r} is empty; expected data in it")
    return found


def _where_else(path: Path) -> str:
    """What to do about a file that is not there: the one of nearly that name, if there is one."""
    try:
        there = sorted(entry.name for entry in os.scandir(path.parent))
    except (OSError, ValueError):
        there = []
    near = nearest(path.name, there)
    if near is None:
        return "check its name and its directory"
    return f"did you mean {str(path.with_name(near))!r}?"


@contextmanager
def begin_with_name(path: Path) -> Iterator[None]:
    """Errors in the block, which knows data but no file, begin with the name of the file."""
    try:
        yield
    except DriftbayesError as error:
        raise DriftbayesError(f"{path.name!r}: {error}") from error


@contextmanager
def reading_as(
    path: Path, kind: str, advice: str = "it may be damaged, cut short or of another format"
) -> Iterator[None]:
    """Turn any error of a library into one sentence: a damaged file may raise anything."""
    try:
        yield
    except DriftbayesError:
        raise
    except Exception as error:
        msg = f"{path.name!r} cannot be read as {kind} ({reason(error)}); {advice}"
        raise DriftbayesError(msg) from error


def reason(error: BaseException) -> str:
    """What a library had to say about a file, as the end of one sentence."""
    text = getattr(error, "strerror", None) or str(error)
    first_line = next((line for line in str(text).splitlines() if line.strip()), "")
    printable = "".join(char if char.isprintable() else "?" for char in first_line.strip())
    return printable[:120].rstrip(" .:;") or type(error).__name__


def require(what: str, *packages: str) -> None:
    """Refuse, with the command that helps, if a package cannot be imported."""
    for package in packages:
        try:
            import_module(package)
        except ModuleNotFoundError as error:
            # A package may be there and lack one that it needs itself.
            missing = (error.name or package).partition(".")[0]
            raise DriftbayesError(
                f"{what} need the package {missing}, which is not installed; "
                f"run: pip install {missing}"
            ) from error
        except ImportError as error:
            raise DriftbayesError(
                f"{what} need the package {package}, which is installed but broken "
                f"({reason(error)}); run: pip install --force-reinstall {package}"
            ) from error
