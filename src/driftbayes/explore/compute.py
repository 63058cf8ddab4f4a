"""One computation at a time, in a child process that is ended when nobody waits for it.

Neither a compiler nor a long integral can be interrupted from another thread, but a process can be
ended. What was compiled is kept on disk, so that its successor starts warm.
"""

__all__ = ["Abandoned", "ComputeProcess"]

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from driftbayes.errors import DriftbayesError
from driftbayes.explore import tasks
from driftbayes.explore.dataset import DataSet
from driftbayes.processes import Child, ChildDied

# Seconds between two looks whether somebody still waits.
_LOOK = 0.1
# Most computations end within a second: as long as that, one that is not wanted may go on, since a
# new process takes longer to start.
_GRACE = 1.0
# Data sets that the child holds.
_MAX_DATA = 4


class Abandoned(Exception):
    """Nobody waits for the result any more."""


class ComputeProcess:
    """A child process that computes for all requests, one at a time.

    Args:
        prepare: Called in the child before anything else.
    """

    def __init__(self, prepare: Callable[[], None] = tasks.prepare) -> None:
        self._prepare = prepare
        self._changed = threading.Condition()
        self._busy = self._closed = False
        self._waiting = 0
        self._child: Child | None = None
        self._sent: OrderedDict[str, None] = OrderedDict()

    @property
    def is_busy(self) -> bool:
        """Whether something is being computed."""
        return self._busy

    def call(
        self,
        function: Callable[..., Any],
        *arguments: Any,
        data: DataSet | None = None,
        is_wanted: Callable[[], bool] = lambda: True,
        when_idle: bool = False,
    ) -> Any:
        """Call a function in the child and wait for its result.

        Args:
            function: Importable in the child.
            *arguments: Of the function.
            data: A data set that comes before these; it is sent once.
            is_wanted: Whether somebody still waits; asked again and again.
            when_idle: Let everybody else go first.

        Raises:
            Abandoned: Nobody waits any more, or this process ends.
            DriftbayesError: The child raised it, or was killed.
        """
        with self._turn(is_wanted, when_idle=when_idle):
            try:
                child = self._started()
                if data is not None:
                    self._send_data(child, data)
                    arguments = (data.key, *arguments)
                child.send(function, *arguments)
                self._wait(child, is_wanted)
                return child.receive()
            except ChildDied as error:
                self._forget()
                if self._closed:
                    raise Abandoned from error
                msg = (
                    f"the computation was ended by the system ({error.reason}), most likely for "
                    "want of memory; try a part of the data or fewer models"
                )
                raise DriftbayesError(msg) from error

    def close(self) -> None:
        """End the child, whatever it is doing."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            if self._child is not None and self._busy:
                # Whoever waits for it cleans up.
                self._child.interrupt()
            else:
                self._forget()

    @contextmanager
    def _turn(self, is_wanted: Callable[[], bool], *, when_idle: bool) -> Iterator[None]:
        with self._changed:
            self._waiting += not when_idle
            try:
                while not self._closed and (self._busy or (when_idle and self._waiting)):
                    self._changed.wait(_LOOK)
                    if not is_wanted():
                        raise Abandoned
                if self._closed or not is_wanted():
                    raise Abandoned
                self._busy = True
            finally:
                self._waiting -= not when_idle
        try:
            yield
        finally:
            with self._changed:
                self._busy = False
                self._changed.notify_all()

    def _started(self) -> Child:
        if self._child is None:
            self._child = Child(self._prepare)
            if self._closed:
                # Closed meanwhile, by somebody who did not see it.
                self._child.kill()
                raise Abandoned
        return self._child

    def _forget(self) -> None:
        if self._child is not None:
            self._child.kill()
        self._child = None
        self._sent.clear()

    def _send_data(self, child: Child, data: DataSet) -> None:
        if data.key in self._sent:
            self._sent.move_to_end(data.key)
            return
        self._sent[data.key] = None
        dropped = [self._sent.popitem(last=False)[0] for _ in range(len(self._sent) - _MAX_DATA)]
        child.send(tasks.keep, data.key, data.portable, dropped)
        child.receive()

    def _wait(self, child: Child, is_wanted: Callable[[], bool]) -> None:
        unwanted_since: float | None = None
        while not child.has_answered(_LOOK):
            now = time.monotonic()
            unwanted_since = None if is_wanted() else unwanted_since or now
            if unwanted_since is not None and now - unwanted_since >= _GRACE:
                self._forget()
                # Its successor starts at once, and is there when the next request comes.
                self._started()
                raise Abandoned
        if unwanted_since is not None:
            child.receive()
            raise Abandoned
