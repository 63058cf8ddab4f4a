"""Print tables on stdout, notes and progress on stderr."""

__all__ = [
    "detail",
    "doubt",
    "is_verbose",
    "note",
    "print_card",
    "print_json",
    "print_table",
    "progress_bar",
    "set_verbosity",
    "shows_progress",
    "timed",
]

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from driftbayes.representation import Card

# Width of tables where stdout is no terminal and $COLUMNS is not set.
_PIPE_WIDTH = 160
# Shortest time between lines on a long computation, in seconds.
_BETWEEN_LINES = 0.5


class _Verbosity:
    """Verbosity of the process (-1 quiet, 0, 1 verbose), and when it was set."""

    level = 0
    since = 0.0


def set_verbosity(level: int) -> None:
    """Set the verbosity of the process: -1 quiet, 0, 1 verbose."""
    _Verbosity.level, _Verbosity.since = level, time.perf_counter()


def is_verbose() -> bool:
    """Return whether --verbose was given."""
    return _Verbosity.level > 0


def shows_progress() -> bool:
    """Return whether to draw progress bars: on a terminal, unless --quiet or --verbose."""
    return _Verbosity.level == 0 and sys.stderr.isatty()


def note(text: str) -> None:
    """Print a line of explanation on stderr, unless --quiet."""
    if _Verbosity.level >= 0:
        print(text, file=sys.stderr)


def doubt(text: str) -> None:
    """Print a line on stderr without which a result would be misread, even if --quiet."""
    print(text, file=sys.stderr)


def detail(text: str) -> None:
    """Print a line with the elapsed time on stderr, if --verbose."""
    if is_verbose():
        print(f"[{time.perf_counter() - _Verbosity.since:7.2f} s] {text}", file=sys.stderr)


@contextmanager
def timed(what: str) -> Iterator[None]:
    """Report what the block does and how long it takes, if --verbose."""
    detail(what)
    start = time.perf_counter()
    yield
    detail(f"{what}: done in {time.perf_counter() - start:.2f} s")


def print_json(value: Any) -> None:
    """Print a result as JSON on stdout."""
    json.dump(value, sys.stdout, indent=2, allow_nan=False)
    print()


def print_card(card: "Card") -> None:
    """Print the description of a result on stdout, at the width of the terminal."""
    from driftbayes.representation import card_text

    print(card_text(card, _width()))


def print_table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    left: int = 1,
    keys: int = 1,
) -> None:
    """Print a table on stdout, split into several if it is wider than the terminal.

    Args:
        title: Printed above the table.
        columns: Headings; no heading is printed if all are empty.
        rows: Cells.
        left: Number of first columns that hold text, which may be folded.
        keys: Number of first columns that are repeated if the table is split.
    """
    from driftbayes.representation import Table, table_text

    sides = ("l" * left).ljust(len(columns), "r")
    table = Table((*columns,), tuple(tuple(row) for row in rows), sides, keys=keys)
    print(title, *(f" {line}" for line in table_text(table, _width() - 1)), "", sep="\n")


def _width() -> int:
    """Return the width of tables: of the terminal, or fixed where stdout is none."""
    if sys.stdout.isatty() or "COLUMNS" in os.environ:
        return shutil.get_terminal_size().columns
    return _PIPE_WIDTH


@contextmanager
def progress_bar() -> Iterator[Callable[[str, int, int], None]]:
    """Show a progress bar on stderr if it is a terminal; lines if --verbose."""
    if not shows_progress():
        yield _lines() if is_verbose() else _nothing
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    console = Console(stderr=True)
    with Progress(
        *columns,
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as progress:
        tasks: dict[str, Any] = {}

        def update(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = progress.add_task(stage, total=total)
            progress.update(tasks[stage], completed=done)

        yield update


def _nothing(stage: str, done: int, total: int) -> None:
    del stage, done, total


def _lines() -> Callable[[str, int, int], None]:
    """Print a line whenever a stage ends, and at most twice a second before."""
    last = time.perf_counter()

    def update(stage: str, done: int, total: int) -> None:
        nonlocal last
        now = time.perf_counter()
        if done >= total or now - last > _BETWEEN_LINES:
            last = now
            detail(f"{stage}: {done} of {total}")

    return update
