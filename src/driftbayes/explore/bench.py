"""Whose turn it is: one computation at a time, the newest wish first."""

__all__ = ["Bench", "Lanes"]

import threading
from collections.abc import Iterator
from contextlib import contextmanager

# Pages that were closed leave their lanes behind.
_MOST_LANES = 1000


class Bench:
    """One computation at a time; what somebody waits for goes before a scan."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._busy = False
        self._waiting = 0

    @property
    def is_busy(self) -> bool:
        """Whether something is being computed."""
        return self._busy

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """The bench, as soon as what is on it is done."""
        with self._changed:
            self._waiting += 1
            self._changed.wait_for(lambda: not self._busy)
            self._waiting -= 1
            self._busy = True
        yield from self._used()

    @contextmanager
    def when_idle(self) -> Iterator[None]:
        """The bench, when nobody else wants it."""
        with self._changed:
            self._changed.wait_for(lambda: not self._busy and not self._waiting)
            self._busy = True
        yield from self._used()

    def _used(self) -> Iterator[None]:
        try:
            yield
        finally:
            with self._changed:
                self._busy = False
                self._changed.notify_all()


class Lanes:
    """Numbers of requests, so that one that was overtaken by a newer of its kind is dropped."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._newest: dict[str, int] = {}

    def enter(self, lane: str) -> int:
        """The number of a new request, which is now the newest."""
        with self._lock:
            number = self._newest.pop(lane, 0) + 1
            # Put last, so that the lanes that were not used for longest go first.
            self._newest[lane] = number
            while len(self._newest) > _MOST_LANES:
                del self._newest[next(iter(self._newest))]
            return number

    def is_newest(self, lane: str, number: int) -> bool:
        """Whether no newer request has come."""
        with self._lock:
            return self._newest.get(lane, number) == number
