"""What a person sees: tables on stdout, notes and progress on stderr."""

__all__ = [
    "detail",
    "doubt",
    "is_verbose",
    "note",
    "print_json",
    "print_table",
    "progress_bar",
    "set_verbosity",
    "shows_progress",
    "timed",
]

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

# Lines about a long computation come no more often than this, in seconds.
_BETWEEN_LINES = 0.5


class _Voice:
    """How much is said: -1 quiet, 0, 1 verbose; and since when."""

    level = 0
    since = 0.0


def set_verbosity(level: int) -> None:
    """How much is said from now on, by the process: -1 quiet, 0, 1 verbose."""
    _Voice.level, _Voice.since = level, time.perf_counter()


def is_verbose() -> bool:
    """Whether details are wanted."""
    return _Voice.level > 0


def shows_progress() -> bool:
    """Whether there is somebody to watch a bar, and no lines in its place."""
    return _Voice.level == 0 and sys.stderr.isatty()


def note(text: str) -> None:
    """One line of explanation, on stderr, unless --quiet."""
    if _Voice.level >= 0:
        print(text, file=sys.stderr)


def doubt(text: str) -> None:
    """One line without which a result would be read wrongly: on stderr, quiet or not."""
    print(text, file=sys.stderr)


def detail(text: str) -> None:
    """One line on what is being done, with the time since the start: on stderr, if --verbose."""
    if is_verbose():
        print(f"[{time.perf_counter() - _Voice.since:7.2f} s] {text}", file=sys.stderr)


@contextmanager
def timed(what: str) -> Iterator[None]:
    """Say what the block does, and how long it took, if --verbose."""
    detail(what)
    start = time.perf_counter()
    yield
    detail(f"{what}: done in {time.perf_counter() - start:.2f} s")


def print_json(value: Any) -> None:
    """A result for programs, on stdout."""
    json.dump(value, sys.stdout, indent=2, allow_nan=False)
    print()


def print_table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1
) -> None:
    """A table for people, on stdout; the first `left` columns hold text and may be folded."""
    from rich import box
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table

    class PlainConsole(Console):
        def on_broken_pipe(self) -> None:
            # Rich would leave with exit code 1; `main` knows better.
            raise BrokenPipeError

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    needed = 0
    for i, column in enumerate(columns):
        is_text = i < left
        texts = [column, *(row[i] for row in rows)]
        parts = [word for text in texts for word in text.split()] if is_text else texts
        needed += 3 + max(map(cell_len, parts), default=0)
        justify: Literal["left", "right"] = "left" if is_text else "right"
        table.add_column(column, justify=justify, no_wrap=not is_text, overflow="fold")
    for row in rows:
        table.add_row(*row)
    # A unit may be called [s], and a file [/a].csv: nothing in a cell is an instruction.
    console = PlainConsole(file=sys.stdout, highlight=False, markup=False, emoji=False)
    # A pipe has no width of its own. In a terminal that is too narrow lines go round its edge;
    # Rich would leave out digits, and whole columns.
    console.width = max(console.width if sys.stdout.isatty() else 160, needed)
    # Not the title of the table, which would be folded where the table ends.
    console.print(title, style="bold", soft_wrap=True)
    console.print(table)


@contextmanager
def progress_bar() -> Iterator[Callable[[str, int, int], None]]:
    """A progress bar on stderr, silent where it is not a terminal; lines if --verbose."""
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
    """A line whenever a stage ends, and now and then on the way."""
    last = time.perf_counter()

    def update(stage: str, done: int, total: int) -> None:
        nonlocal last
        now = time.perf_counter()
        if done >= total or now - last > _BETWEEN_LINES:
            last = now
            detail(f"{stage}: {done} of {total}")

    return update
