"""The folder that a reproduction writes to: each file whole or not at all."""

__all__ = [
    "check_folder",
    "make_folder",
    "plain",
    "read_kept",
    "working_folder",
    "write_csv",
    "write_figure",
    "write_json",
    "write_result",
]

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

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
    _refuse_file(directory)
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
    _refuse_file(directory)
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        msg = f"cannot make the directory '{directory}': {error.strerror}; choose another with -o"
        raise DriftbayesError(msg) from error


def write_json(content: Any, path: Path) -> Path:
    """Write plain numbers and text."""
    return _write_text(json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False), path)


def plain(record: Any) -> dict[str, Any]:
    """Return the fields of a record as numbers, text and lists, for JSON; NaN becomes None."""

    def value(thing: Any) -> Any:
        if isinstance(thing, np.ndarray):
            return value(thing.tolist())
        if isinstance(thing, (list, tuple)):
            return [value(part) for part in thing]
        if isinstance(thing, float) and not np.isfinite(thing):
            return None
        return thing

    return {field.name: value(getattr(record, field.name)) for field in fields(record)}


def read_kept(path: Path, header: Mapping[str, Any], name: str) -> list[dict[str, Any]] | None:
    """Read the rows that an interrupted run left.

    Args:
        path: Its file.
        header: What the file must hold, such as the version, the seed and the priors.
        name: Of the rows.

    Returns:
        The rows, or None if the file is missing, damaged or of another run.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return content[name] if all(content[key] == header[key] for key in header) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_csv(columns: Mapping[str, ArrayLike], path: Path) -> Path:
    """Write columns of numbers with all their digits."""
    rows = zip(*(np.asarray(column).tolist() for column in columns.values()), strict=True)
    lines = [",".join(columns), *(",".join(map(repr, row)) for row in rows)]
    return _write_text("\n".join(lines) + "\n", path)


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


def write_result(
    directory: Path, name: str, content: Any, figure: "Figure", table: str | None = None
) -> list[Path]:
    """Write the numbers of an experiment as JSON, its figure as PNG and PDF, and its table.

    Args:
        directory: Made if it is not there.
        name: Of the files, without the ending.
        content: Plain numbers and text.
        figure: The figure.
        table: Markdown, if there is a table.
    """
    make_folder(directory)
    written = [write_json(content, directory / f"{name}.json")]
    if table is not None:
        written.append(_write_text(table + "\n", directory / f"{name}.md"))
    return [*written, *write_figure(figure, directory / name)]


def _write_text(text: str, path: Path) -> Path:
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return path


def _refuse_file(directory: Path) -> None:
    if directory.exists() and not directory.is_dir():
        msg = f"'{directory}' is a file, expected a directory to write to; choose another with -o"
        raise DriftbayesError(msg)
