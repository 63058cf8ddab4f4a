"""Child processes that share an anonymous pipe with their parent.

Nothing listens on a port or under a name in the file system, so no other process can connect.
"""

import multiprocessing
import os
import pickle
import signal
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from typing import Any

from driftbayes.errors import DriftbayesError

# Time in seconds for an idle child to end.
_MAX_WAIT = 5.0
_THREADS = tuple(f"{name}_NUM_THREADS" for name in ("OMP", "OPENBLAS", "MKL", "NUMBA"))


class ChildDied(Exception):
    """The end of a child process before its answer.

    Args:
        code: Exit code; minus the number of the signal if a signal ended it.
    """

    def __init__(self, code: int | None) -> None:
        self.code = code
        super().__init__(self.reason)

    @property
    def reason(self) -> str:
        """Reason of the end."""
        if self.code is None or self.code >= 0:
            return f"exit code {self.code}"
        try:
            return f"killed by {signal.Signals(-self.code).name}"
        except ValueError:
            return f"killed by signal {-self.code}"


class Child:
    """A process that calls functions for this one, one at a time, and ends with it.

    Args:
        prepare: Called in the child before anything else; must be importable there.
    """

    def __init__(self, prepare: Callable[[], None] | None = None) -> None:
        # Spawned, not forked: a fork copies locks that the threads of JAX may hold.
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, prepare), daemon=True)
        try:
            self._process.start()
        except (BrokenPipeError, ConnectionResetError) as error:
            # Killed during the start.
            raise self._died() from error
        finally:
            theirs.close()

    @property
    def pid(self) -> int | None:
        """Process id."""
        return self._process.pid

    def send(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Call a function in the child; `receive` returns the result.

        Args:
            function: Function that the child can import.
            *arguments: Arguments of the function.

        Raises:
            ChildDied: If the child has ended.
            DriftbayesError: If the function or an argument cannot be sent to another process.
        """
        try:
            message = pickle.dumps((function, arguments))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise DriftbayesError(
                f"cannot send the work to another process ({error}); use functions that are "
                "defined at the top level of a module, or compute without processes"
            ) from error
        try:
            self.connection.send_bytes(message)
        except OSError as error:
            raise self._died() from error

    def receive(self) -> Any:
        """Wait for the result of the function; its exceptions are raised here.

        Raises:
            ChildDied: If the child ended before it answered.
        """
        try:
            good, value = self.connection.recv()
        except (EOFError, OSError) as error:
            raise self._died() from error
        if not good:
            raise value
        return value

    def has_answered(self, seconds: float = 0.0) -> bool:
        """Whether `receive` will return at once.

        Args:
            seconds: Maximum time to wait.
        """
        return bool(wait([self.connection], seconds))

    def close(self) -> None:
        """Let an idle child end, and kill a busy one."""
        self.connection.close()
        self._process.join(_MAX_WAIT)
        self.kill()

    def interrupt(self) -> None:
        """Kill the child; a thread that waits for its answer gets `ChildDied`."""
        if self._process.pid is not None:
            self._process.kill()

    def kill(self) -> None:
        """Kill the child and free its resources; no other thread may wait for its answer."""
        if self._process.pid is not None:
            self._process.kill()
            self._process.join()
        self.connection.close()

    def _died(self) -> ChildDied:
        self.kill()
        return ChildDied(self._process.exitcode if self._process.pid is not None else None)


@contextmanager
def environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for processes started in the block."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def single_threaded() -> Iterator[None]:
    """Limit children started in the block to one thread each for linear algebra."""
    with environment({name: "1" for name in _THREADS if name not in os.environ}):
        yield


def _serve(connection: Connection, prepare: Callable[[], None] | None) -> None:
    """Answer calls until the parent closes the pipe."""
    # Ctrl-C reaches all processes of a terminal; only the parent handles it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if prepare is not None:
        prepare()
    while True:
        try:
            function, arguments = connection.recv()
        except EOFError:
            return
        except Exception as error:
            # The module of the function is missing or different.
            _answer(connection, good=False, value=error)
            continue
        try:
            good, value = True, function(*arguments)
        except Exception as error:
            error.add_note("".join(traceback.format_exception(error)))
            good, value = False, error
        _answer(connection, good=good, value=value)


def _answer(connection: Connection, *, good: bool, value: Any) -> None:
    try:
        message = pickle.dumps((good, value))
        if not good:
            # Some errors can be pickled but not unpickled.
            pickle.loads(message)
    except Exception as error:
        text = value if isinstance(value, Exception) else error
        message = pickle.dumps((False, RuntimeError(f"{type(text).__name__}: {text}")))
    try:
        connection.send_bytes(message)
    except OSError:
        # The parent has closed the pipe.
        os._exit(0)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(0)
