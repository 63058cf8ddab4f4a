"""A local web page to try files, models and priors on, and to simulate with sliders."""

__all__ = ["add_parser", "run"]

import argparse
import os
import shlex
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from driftbayes.cli import _console, _reading
from driftbayes.errors import DriftbayesError

if TYPE_CHECKING:
    from driftbayes.explore.dataset import Reading

_LOCAL = ("127.0.0.1", "localhost", "::1")


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the parser."""
    parser = subparsers.add_parser(
        "explore",
        help=__doc__,
        description=f"{__doc__} It is served to this machine only, needs no network, and ends with "
        "Ctrl-C.",
        allow_abbrev=False,
        examples=("driftbayes explore", "driftbayes explore tracks.csv --no-browser"),
    )
    _reading.add_reading(parser, needs_file=False)
    group = parser.add_argument_group("page")
    group.add_argument("--port", type=int, default=0, help="of the page (default: a free one)")
    group.add_argument(
        "--no-browser", action="store_true", help="print the address, and open nothing"
    )
    group.add_argument(
        "--max-upload",
        default="200MB",
        metavar="SIZE",
        help="largest file that can be dropped on the page (default: %(default)s)",
    )
    group.add_argument(
        "--host",
        default="127.0.0.1",
        help="address to listen at; any but the default lets others on the network in "
        "(default: %(default)s)",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Serve until Ctrl-C."""
    from driftbayes.explore.uploads import parse_size

    most = parse_size(args.max_upload)
    if not 0 <= args.port < 2**16:
        msg = f"--port must be a whole number from 0 to {2**16 - 1}, got {args.port}"
        raise DriftbayesError(msg)
    if args.host not in _LOCAL:
        _console.note(
            f"warning: at {args.host} whoever is on the network and has the address can read the "
            "data and use this machine"
        )
    from driftbayes.cli._jax import prepare_jax

    prepare_jax()
    from driftbayes.explore.api import Explorer
    from driftbayes.explore.server import serve

    with _ended_politely():
        explorer = None
        try:
            explorer = Explorer(max_upload=most, read=_read, prepare=prepare_jax)
            if args.file is not None:
                explorer.open_file(args.file, _given(args))
            explorer.warm_up()
            serve(explorer, host=args.host, port=args.port, on_ready=lambda url: _ready(url, args))
        except KeyboardInterrupt:
            # Ctrl-C is how it ends, so it is no failure.
            _console.note("ended")
        finally:
            if explorer is not None:
                explorer.close()
    if explorer is not None and explorer.is_busy:
        # Python would wait for a file to be read that nobody waits for.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
    return 0


def _ready(url: str, args: argparse.Namespace) -> None:
    print(url, flush=True)
    _console.note("open this address in a browser; Ctrl-C ends it")
    if not args.no_browser:
        import webbrowser

        # In a thread: some browsers return only when they are closed.
        threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()


@contextmanager
def _ended_politely() -> Iterator[None]:
    """Let whoever ends the process, and not only Ctrl-C, leave no uploads behind."""
    before = {}
    # The last is sent when the terminal is closed.
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        # One that is ignored stays so: nohup means that the session is to go on.
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            before[number] = signal.signal(number, _interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(*_: Any) -> NoReturn:
    # Once: a second signal must not interrupt the tidying up.
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    raise KeyboardInterrupt


class _Options(argparse.ArgumentParser):
    """The options of reading in a field of the page, where a slip must not end the process."""

    def error(self, message: str) -> NoReturn:
        msg = f"options of reading: {message}; `driftbayes info --help` lists them"
        raise DriftbayesError(msg)


def _read(path: Path, text: str) -> "Reading":
    """A file, read as options of the command line say."""
    from driftbayes import quality
    from driftbayes.explore.dataset import Reading
    from driftbayes.io.contents import contents_of
    from driftbayes.io.formats import choose

    parser = _Options(prog="", add_help=False, allow_abbrev=False)
    _reading.add_reading(parser)
    try:
        words = shlex.split(text)
    except ValueError as error:
        msg = f"options of reading: {str(error).lower()} in {text!r}"
        raise DriftbayesError(msg) from error
    args = parser.parse_args([*words, "--", str(path)])
    trajectories = _reading.read_unchecked(args)
    notes: list[str] = []
    if args.qc is not None:
        trajectories = quality.apply(trajectories, args.qc)
        notes = quality.applied(trajectories)
    chosen = choose(contents_of(path), args.format)
    return Reading(trajectories, f"{chosen.name}: {chosen.summary}", tuple(words), notes)


def _given(args: argparse.Namespace) -> str:
    """The options of reading that the command was given, as they would be written again."""
    words = []
    for name, value in _reading.given_reading(args).items():
        words += [f"--{name.replace('_', '-')}", *([value] if value else [])]
    return shlex.join(words)
