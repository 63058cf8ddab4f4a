"""Which request of its kind is the newest: nobody waits for the older ones."""

__all__ = ["LatestOnly"]

import threading

# Pages that were closed leave their numbers behind.
_MAX_KINDS = 1000


class LatestOnly:
    """Numbers of requests, so that one that was overtaken by a newer of its kind is dropped."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._newest: dict[str, int] = {}

    def enter(self, kind: str) -> int:
        """The number of a new request, which is now the newest."""
        with self._lock:
            number = self._newest.pop(kind, 0) + 1
            # Put last, so that the kinds that were not used for longest go first.
            self._newest[kind] = number
            while len(self._newest) > _MAX_KINDS:
                del self._newest[next(iter(self._newest))]
            return number

    def is_newest(self, kind: str, number: int) -> bool:
        """Whether no newer request has come."""
        with self._lock:
            return self._newest.get(kind, number) == number
