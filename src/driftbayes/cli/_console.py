"""Print tables on stdout, notes and progress on stderr."""

import json
import os
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import argparse

    import xarray as xr
    from matplotlib.figure import Figure

    from driftbayes._aliases import Saved
    from driftbayes._representation import Card
    from driftbayes.data._trajectories import Trajectories

# Width of tables if stdout is not a terminal and $COLUMNS is not set.
_PIPE_WIDTH = 160
# Sentences are not broken at hyphens, so that options and paths stay whole.
_FOLDED = textwrap.TextWrapper(
    80, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False
)
# Minimum time between progress lines, in seconds.
_MIN_INTERVAL = 0.5


class _Verbosity:
    """Verbosity of the process (-1 quiet, 0, 1 verbose), and the time when it was set."""

    level = 0
    since = 0.0
    # Whether progress may be shown, and the function that shows it while a bar is drawn.
    bars = True
    bar: Callable[..., None] | None = None


def set_verbosity(level: int, *, bars: bool = True) -> None:
    """Set the verbosity of the process: -1 quiet, 0, 1 verbose; and whether to show progress."""
    _Verbosity.level, _Verbosity.since, _Verbosity.bars = level, time.perf_counter(), bars


def is_verbose() -> bool:
    """Return whether --verbose was given."""
    return _Verbosity.level > 0


def shows_progress() -> bool:
    """Return whether to draw progress bars: on a terminal, unless --quiet, --verbose or --json."""
    return _Verbosity.level == 0 and _Verbosity.bars and sys.stderr.isatty()


def note(text: str) -> None:
    """Print a note on stderr, unless --quiet."""
    if _Verbosity.level >= 0:
        complain(text)


def complain(text: str) -> None:
    """Print a warning or an error on stderr, even if --quiet."""
    print(fold(text), file=sys.stderr)


def say(text: str) -> None:
    """Print a sentence of the result on stdout."""
    print(fold(text))


def fold(text: str) -> str:
    """Fold text between words at 80 columns or less, except lines to be copied."""
    _FOLDED.width = min(80, _width())
    lines = text.split("\n")
    return "\n".join(
        x if x.startswith(("next: ", "wrote ", "|")) else _FOLDED.fill(x) for x in lines
    )


def save_figure(figure: "Figure", path: Path, **options: Any) -> None:
    """Write a figure."""
    from driftbayes._storage import atomic_path

    with atomic_path(path) as temporary:
        figure.savefig(temporary, **options)
    note(f"wrote {path}")


def save(result: "Saved", path: Path) -> None:
    """Write a result as NetCDF."""
    result.save(path)
    note(f"wrote {path}")


def save_dataset(dataset: "xr.Dataset", path: Path, *, kind: str) -> None:
    """Write a dataset as NetCDF."""
    from driftbayes.io import write_dataset

    write_dataset(dataset, path, kind=kind)
    note(f"wrote {path}")


def detail(text: str) -> None:
    """Print a line with the elapsed time on stderr, if --verbose."""
    if is_verbose():
        print(f"[{time.perf_counter() - _Verbosity.since:7.2f} s] {text}", file=sys.stderr)


@contextmanager
def timed(what: str) -> Iterator[None]:
    """Report a task and its duration, if --verbose."""
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
    from driftbayes._representation import card_text

    print(card_text(card, _width()))


def print_result(result: Any) -> None:
    """Print the description of a result on stdout."""
    from driftbayes._representation import describe

    print_card(describe(result))


def deliver(
    result: Any,
    args: "argparse.Namespace",
    *,
    more: Mapping[str, Any] | None = None,
    card: "Card | None" = None,
    lines: Sequence[str] = (),
    **options: Any,
) -> int:
    """Write the file and the figure that were asked for, and print the result.

    Args:
        result: The result of a command.
        args: Its parsed arguments.
        more: Further entries of the JSON output.
        card: Description of the result, if not the usual one.
        lines: Sentences below the description.
        **options: Options of the figure file.
    """
    output, figure = (getattr(args, name, None) for name in ("output", "figure"))
    if output is not None:
        save(result, output)
    if figure is not None:
        import matplotlib as mpl

        # Needs no display.
        mpl.use("agg")
        save_figure(result.plot(), figure, **options)
    if args.json:
        found = result.to_json()
        print_json({**found, **more} if more else found)
        return 0
    if card is None:
        print_result(result)
    else:
        print_card(card)
    for line in lines:
        say(line)
    return 0


def written(path: Path, tracks: "Trajectories") -> str:
    """Return the message about a written file of trajectories."""
    from driftbayes._representation import summarise

    return f"wrote {path}: {summarise(tracks).replace(' in ', ' trajectories in ', 1)}"


def print_table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    left: int = 1,
) -> None:
    """Print a table on stdout, split into several if it is wider than the terminal.

    Args:
        title: Printed above the table.
        columns: Headings; no heading is printed if all are empty.
        rows: Cells.
        left: Number of leading columns with text, which may be folded.
    """
    from driftbayes._representation import Table, table_text

    sides = ("l" * left).ljust(len(columns), "r")
    table = Table((*columns,), tuple(tuple(row) for row in rows), sides)
    head = [fold(title)] if title else []
    print(*head, *(f" {line}" for line in table_text(table, _width() - 1)), "", sep="\n")


def _width() -> int:
    """Return the width of tables: that of the terminal, or fixed if stdout is not a terminal."""
    if sys.stdout.isatty() or "COLUMNS" in os.environ:
        return shutil.get_terminal_size().columns
    return _PIPE_WIDTH


@contextmanager
def progress_bar() -> Iterator[Callable[..., None]]:
    """Show a progress bar on stderr if it is a terminal, or lines if --verbose.

    The function that it yields takes a stage, the number of parts done, their total (None if
    unknown), and optionally a text to show instead of the stage. A nested call yields the function
    of the outer bar.
    """
    if _Verbosity.bar is not None:
        yield _Verbosity.bar
        return
    if not shows_progress():
        yield _lines() if is_verbose() else lambda *_: None
        return
    from rich import progress as bars
    from rich.console import Console

    columns = (
        *(bars.TextColumn("{task.description}"), bars.BarColumn(), bars.MofNCompleteColumn()),
        *(bars.TimeElapsedColumn(), bars.TimeRemainingColumn()),
    )
    with bars.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        tasks: dict[str, Any] = {}

        def update(stage: str, done: int, total: int | None, text: str = "") -> None:
            if stage not in tasks:
                tasks[stage] = bar.add_task(stage, total=total)
            bar.update(tasks[stage], completed=done, total=total, description=text or stage)

        _Verbosity.bar = update
        try:
            yield update
        finally:
            _Verbosity.bar = None


@contextmanager
def stage(what: str) -> Iterator[None]:
    """Show the elapsed time of a stage of unknown length on a terminal."""
    with progress_bar() as progress:
        progress(what, 0, None)
        yield
        progress(what, 1, 1)


def _lines() -> Callable[..., None]:
    """Return a function that prints a line when a stage ends, and at most twice a second before."""
    last = time.perf_counter()

    def update(stage: str, done: int, total: int | None, text: str = "") -> None:
        nonlocal last
        now = time.perf_counter()
        if total is None:
            return
        if done >= total or now - last > _MIN_INTERVAL:
            last = now
            detail(f"{text or stage}: {done} of {total}")

    return update
