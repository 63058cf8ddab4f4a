"""The folder that a reproduction writes to: each file whole or not at all."""

__all__ = ["check_folder", "make_folder", "working_folder", "write_figure", "write_json"]

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from driftbayes._version import __version__
from driftbayes.errors import DriftbayesError
from driftbayes.storage import atomic_path

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# Marks a folder as ours, and says which experiment fills it and whether that has ended.
_MARKER = ".driftbayes-reproduce.json"


def check_folder(directory: Path, experiment: str, *, overwrite: bool) -> None:
    """Refuse a folder that holds something else than an unfinished run of the same experiment.

    Args:
        directory: The folder, which need not exist.
        experiment: Name of the experiment.
        overwrite: Whether results of `driftbayes reproduce` that it holds may be replaced.
    """
    if directory.exists() and not directory.is_dir():
        msg = f"'{directory}' is a file, expected a directory to write to; choose another with -o"
        raise DriftbayesError(msg)
    if not directory.exists() or not any(directory.iterdir()):
        return
    try:
        made = json.loads((directory / _MARKER).read_text(encoding="utf-8"))
        held, complete = str(made["experiment"]), bool(made["complete"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        msg = (
            f"'{directory}' is not empty and was not made by `driftbayes reproduce`; choose "
            "another directory with -o"
        )
        raise DriftbayesError(msg) from error
    if not overwrite and (complete or held != experiment):
        msg = (
            f"'{directory}' already holds results of `driftbayes reproduce {held}`; pass "
            "--overwrite to replace them, or choose another directory with -o"
        )
        raise DriftbayesError(msg)


@contextmanager
def working_folder(directory: Path, experiment: str) -> Iterator[None]:
    """Make the folder and mark it as unfinished until the block ends without an error.

    Args:
        directory: Made if it is not there.
        experiment: Name of the experiment.
    """
    make_folder(directory)
    made = {"experiment": experiment, "version": __version__}
    write_json({**made, "complete": False}, directory / _MARKER)
    yield
    write_json({**made, "complete": True}, directory / _MARKER)


def make_folder(directory: Path) -> None:
    """Make the folder; call it before the work, so that a wrong name costs nothing.

    Args:
        directory: Made if it is not there.
    """
    if directory.exists() and not directory.is_dir():
        msg = f"'{directory}' is a file, expected a directory to write to; choose another with -o"
        raise DriftbayesError(msg)
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        msg = f"cannot make the directory '{directory}': {error.strerror}; choose another with -o"
        raise DriftbayesError(msg) from error


def write_json(content: Any, path: Path) -> Path:
    """Write plain numbers and text."""
    with atomic_path(path) as temporary:
        text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
        temporary.write_text(text, encoding="utf-8")
    return path


def write_figure(figure: "Figure", stem: Path) -> list[Path]:
    """Write a figure as PNG and PDF.

    Args:
        figure: The figure.
        stem: Path without the ending.
    """
    paths = [stem.with_suffix(suffix) for suffix in (".png", ".pdf")]
    for path in paths:
        with atomic_path(path) as temporary:
            figure.savefig(temporary)
    return paths
