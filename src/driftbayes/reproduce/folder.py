"""The folder that a reproduction writes to: each file whole or not at all."""

__all__ = ["make_folder", "write_figure", "write_json"]

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from driftbayes.errors import DriftbayesError
from driftbayes.storage import atomic_path

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
