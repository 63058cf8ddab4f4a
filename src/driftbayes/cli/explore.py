"""Explore files, models and priors interactively in a local web page."""

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

from driftbayes.cli import _console, _jax, _options
from driftbayes.cli._parser import Command, Parser
from driftbayes.errors import DriftbayesError

if TYPE_CHECKING:
    from driftbayes.explore.dataset import Reading

_PAGE = """
--port PORT<int=0>  port of the server; 0 for any free port
--no-browser  print the address without opening a browser
--max-upload SIZE<=200MB>  maximum size of an uploaded file
--host HOST<=127.0.0.1>  address to listen on; any other than the default gives access to the
    network
"""
_LOCAL = ("127.0.0.1", "localhost", "::1")
# SIGHUP is sent when the terminal is closed.
_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")


def _add_arguments(parser: Parser) -> None:
    _options.add_reading(parser, nargs="?")
    parser.add_options(_PAGE, "page")


def _run(args: argparse.Namespace) -> int:
    from driftbayes.explore.uploads import parse_size

    max_upload = parse_size(args.max_upload)
    if not 0 <= args.port < 2**16:
        msg = f"--port must be a whole number from 0 to {2**16 - 1}, got {args.port}"
        raise DriftbayesError(msg)
    if args.host not in _LOCAL:
        _console.complain(
            f"warning: on {args.host} anyone on the network who knows the address can read the "
            "data and run computations on this machine"
        )
    _jax.prepare_jax()
    from driftbayes.explore.api import Explorer
    from driftbayes.explore.server import serve

    with _interrupted_by_signals():
        explorer = None
        try:
            explorer = Explorer(max_upload=max_upload, read=_read, prepare=_jax.prepare_jax)
            if args.file is not None:
                explorer.open_file(args.file, _given(args))
            explorer.warm_up()
            serve(explorer, host=args.host, port=args.port, on_ready=lambda url: _ready(url, args))
        except KeyboardInterrupt:
            _console.note("stopped")
        finally:
            if explorer is not None:
                explorer.close()
    if explorer is not None and explorer.is_busy:
        # A normal exit would wait for the file being read.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
    return 0


def _ready(url: str, args: argparse.Namespace) -> None:
    print(url, flush=True)
    _console.note("open this address in a browser; Ctrl-C stops the server")
    if not args.no_browser:
        import webbrowser

        # In a thread, because some browsers return only when they are closed.
        threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()


@contextmanager
def _interrupted_by_signals() -> Iterator[None]:
    """Raise `KeyboardInterrupt` if the process is terminated or the terminal is closed."""
    before = {}
    for name in _SIGNALS:
        number = getattr(signal, name, None)
        # An ignored signal stays ignored, so that nohup keeps the session alive.
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            before[number] = signal.signal(number, _interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(*_: Any) -> NoReturn:
    # Only once: a second signal must not interrupt the clean-up.
    for name in _SIGNALS:
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    raise KeyboardInterrupt


class _Options(Parser):
    """Parser of the reading options in a field of the page, which raises errors."""

    def error(self, message: str) -> NoReturn:
        raise DriftbayesError(f"reading options: {message}; see `driftbayes info --help`")


def _read(path: Path, text: str) -> "Reading":
    """Read a file with reading options of the command line."""
    from driftbayes import quality
    from driftbayes.explore.dataset import Reading
    from driftbayes.io._formats import choose, contents_of

    parser = _Options(prog="", add_help=False)
    # Only one file, so that the options of a page cannot name others.
    _options.add_reading(parser, nargs=None)
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise DriftbayesError(f"reading options: {str(error).lower()} in {text!r}") from error
    args, rest = parser.parse_known_args([*words, "--", str(path)])
    if rest:
        # Not the name of the file itself, which is that of a temporary copy.
        unknown = [word for word in rest if word not in ("--", str(path))]
        parser.error_unknown(unknown or [str(args.file)])
    trajectories = _options.read_unchecked(args)
    notes: list[str] = []
    if args.qc is not None:
        trajectories = quality.apply(trajectories, args.qc)
        notes = quality.applied(trajectories)
    chosen = choose(contents_of(path), args.format)
    return Reading(trajectories, f"{chosen.name}: {chosen.summary}", tuple(words), notes)


def _given(args: argparse.Namespace) -> str:
    """Return the reading options of the command as text."""
    words = []
    for name, value in _options.given_reading(args).items():
        words += [f"--{name.replace('_', '-')}", *([value] if value else [])]
    return shlex.join(words)


COMMANDS = {
    "explore": Command(
        _add_arguments,
        _run,
        ("driftbayes explore", "driftbayes explore tracks.csv --no-browser"),
        "The page is served to this machine only and needs no network; Ctrl-C stops the server.",
    )
}
