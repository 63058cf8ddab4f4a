"""Who does the work: threads of this process, processes of this machine, or a cluster."""

import os
import time
import warnings
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from multiprocessing import connection
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from urllib.parse import urlsplit

from driftbayes.errors import DriftbayesError, DriftbayesWarning
from driftbayes.processes import Child, ChildDied, single_threaded

if TYPE_CHECKING:
    from distributed import Client

Item = TypeVar("Item")
Result = TypeVar("Result")
Progress = Callable[[str, int, int], None]

# Results that are merged by one task of a cluster.
_BATCH = 8
# So many workers may die over one block, or in succession; then another would die too.
_MAX_DEATHS = 4
# A cluster without any worker is waited for so long, in seconds, and looked at so often.
_MAX_WAIT, _LOOK = 60.0, 5.0


@dataclass(frozen=True)
class Workers:
    """Where blocks are read and summed.

    Args:
        processes: Number of worker processes to start on this machine; by default none, and as many
            threads as there are cores. They are reached by pipes: nothing listens on a port.
        cluster: Address of the scheduler of a Dask cluster to use instead, such as
            tls://10.0.0.1:8786. Certificates come from the configuration of Dask.
        threads: Number of threads if there are no processes and no cluster.
    """

    processes: int | None = None
    cluster: str | None = None
    threads: int | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        if self.processes is not None and self.cluster is not None:
            raise DriftbayesError("give a number of workers or the address of a cluster, not both")
        for count in (self.processes, self.threads):
            if count is not None and count < 1:
                raise DriftbayesError(f"expected 1 worker or more, got {count}")

    def at_once(self, n_items: int) -> int:
        """Return how many items this machine has in memory at a time; 0 with a cluster.

        Args:
            n_items: How many there are in all.
        """
        if self.cluster is not None:
            return 0
        return min(self.processes or self.threads or os.cpu_count() or 1, n_items)

    def reduce(
        self,
        function: Callable[[Item], Result],
        items: Sequence[Item],
        merge: Callable[[Result, Result], Result],
        progress: Progress | None = None,
    ) -> Result:
        """Apply a function to all items and merge the results, in the order of the items.

        Each is merged into the total of all before it, whoever did it and whenever it was done: a
        sum that is rounded is the same to the last bit.

        Args:
            function: To be applied to each; for other processes, importable there.
            items: One or more.
            merge: Merges the second of two results into the first, and returns it.
            progress: Called with a stage, how many are done, and of how many.
        """
        if not items:
            raise DriftbayesError("expected one or more blocks, got none")
        job = _Job(function, items, merge, progress)
        if self.cluster is not None:
            return _on_cluster(self.cluster, job)
        reduce = _by_threads if self.processes is None else _by_processes
        return reduce(self.at_once(len(items)), job)


@dataclass(frozen=True)
class _Job(Generic[Item, Result]):
    """What is done; arguments as for `Workers.reduce`."""

    function: Callable[[Item], Result]
    items: Sequence[Item]
    merge: Callable[[Result, Result], Result]
    progress: Progress | None


class _Total(Generic[Result]):
    """Results merged in order; one that comes before its turn waits.

    Args:
        job: What is done.
    """

    def __init__(self, job: "_Job[Any, Result]") -> None:
        self._merge, self._n_items, self._progress = job.merge, len(job.items), job.progress
        self._waiting: dict[int, Result] = {}
        self._value: Result | None = None
        self._n_merged = 0

    def add(self, place: int, result: Result) -> None:
        """Take the result of one item."""
        self._waiting[place] = result
        while self._n_merged in self._waiting:
            following = self._waiting.pop(self._n_merged)
            first = self._value is None
            self._value = following if first else self._merge(self._value, following)  # type: ignore[arg-type]
            self._n_merged += 1
        if self._progress is not None:
            self._progress("blocks", self._n_merged + len(self._waiting), self._n_items)

    def may_begin(self, place: int, n_workers: int) -> bool:
        """Whether an item is near enough to its turn, so that few results wait in memory."""
        return place < min(self._n_merged + 2 * n_workers, self._n_items)

    @property
    def is_complete(self) -> bool:
        """Whether all results are merged."""
        return self._n_merged == self._n_items

    @property
    def value(self) -> Result:
        """The total."""
        assert self._value is not None
        return self._value


def _by_threads(n_threads: int, job: _Job[Item, Result]) -> Result:
    total = _Total(job)
    with ThreadPoolExecutor(n_threads) as pool:
        running: dict[Future[Result], int] = {}
        place = 0
        try:
            while not total.is_complete:
                # No more than are being worked on: results that wait take memory.
                while len(running) < n_threads and total.may_begin(place, n_threads):
                    running[pool.submit(job.function, job.items[place])] = place
                    place += 1
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    total.add(running.pop(future), future.result())
        finally:
            for future in running:
                future.cancel()
    return total.value


def _by_processes(n_processes: int, job: _Job[Item, Result]) -> Result:
    """Each process has one item at a time; an item that was lost with its process is done again."""
    total = _Total(job)
    left = deque(range(len(job.items)))
    lost: Counter[int] = Counter()
    n_deaths = 0
    idle: list[Child] = []
    running: dict[Any, tuple[Child, int]] = {}

    def died(place: int, error: ChildDied) -> None:
        nonlocal n_deaths
        n_deaths += 1
        lost[place] += 1
        if max(n_deaths, lost[place]) >= _MAX_DEATHS:
            raise DriftbayesError(_death(error)) from error
        left.appendleft(place)

    try:
        while not total.is_complete:
            while left and len(running) < n_processes and total.may_begin(left[0], n_processes):
                place = left.popleft()
                try:
                    with single_threaded():
                        child = idle.pop() if idle else Child()
                    # Known before it is told what to do, so that it is ended whatever happens.
                    running[child.connection] = child, place
                    child.send(job.function, job.items[place])
                except ChildDied as error:
                    running = {line: pair for line, pair in running.items() if pair[1] != place}
                    died(place, error)
            for line in connection.wait(list(running)):
                child, place = running[line]
                try:
                    result = child.receive()
                except ChildDied as error:
                    del running[line]
                    died(place, error)
                    continue
                del running[line]
                idle.append(child)
                n_deaths = 0
                total.add(place, result)
    finally:
        for child, _ in running.values():
            child.kill()
        for child in idle:
            child.close()
    return total.value


def _death(error: ChildDied) -> str:
    advice = (
        "they may be out of memory: use fewer workers (--workers) or smaller blocks "
        "(--block-points)"
    )
    if error.code == 1:
        # What Python itself ends with, when the main module cannot be imported.
        advice = (
            "see the error above; a script that uses workers must begin them under "
            "`if __name__ == '__main__':`"
        )
    return (
        f"{_MAX_DEATHS} workers ended before they had finished a block (the last: "
        f"{error.reason}); {advice}"
    )


def _on_cluster(address: str, job: _Job[Item, Result]) -> Result:
    try:
        import distributed
        from distributed.comm.core import CommClosedError
    except ImportError as error:
        msg = "a cluster needs Dask, which is not installed; run: pip install driftbayes[dask]"
        raise DriftbayesError(msg) from error
    _warn_if_open(address)
    if address.startswith("tls:"):
        arguments = distributed.Security().get_connection_args("client")
        if arguments.get("ssl_context") is None:
            raise DriftbayesError(
                f"Dask is not configured with the certificates that {address!r} asks for; set "
                "distributed.comm.tls (ca-file, client.cert, client.key) in its configuration"
            )
    try:
        client = distributed.Client(address, timeout=20, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise DriftbayesError(
            f"there is no Dask scheduler at {address!r} ({error}); check the address and, for "
            "tls://, the certificates that Dask is configured with"
        ) from error
    try:
        with client, client.as_current():
            return _by_tasks(client, job)
    except distributed.KilledWorker as error:
        raise DriftbayesError(
            f"a block was lost with its worker {_MAX_DEATHS} times; the workers may be out of "
            "memory: use smaller blocks (--block-points)"
        ) from error
    except (CancelledError, CommClosedError) as error:
        msg = f"the Dask scheduler at {address!r} is no longer reachable; restart it and the scan"
        raise DriftbayesError(msg) from error


def _warn_if_open(address: str) -> None:
    parts = urlsplit(address)
    if parts.scheme != "tls" and parts.hostname not in ("127.0.0.1", "localhost", "::1"):
        warnings.warn(
            f"the connection to {address!r} is not encrypted, and its scheduler runs code for "
            "whoever connects; use a cluster with certificates (tls://)",
            DriftbayesWarning,
            stacklevel=4,
        )


def _by_tasks(client: "Client", job: _Job[Item, Result]) -> Result:
    """As tasks, a chain of which merges; the scheduler does again what was lost with a worker."""
    parts = client.map(job.function, job.items, pure=False)
    total = parts[0]
    for low in range(1, len(parts), _BATCH):
        group = [total, *parts[low : low + _BATCH]]
        total = client.submit(_merge_all, job.merge, group, pure=False)
    # Parts are kept until the end: what a merge has lost with its worker is made of them again.
    left = set(parts)
    while left:
        finished = _finished(client, left)
        left -= finished
        for future in finished:
            if future.status != "finished":
                # One that failed fails all: the message is that of the block.
                future.result()
        if job.progress is not None and finished:
            job.progress("blocks", len(job.items) - len(left), len(job.items))
    _finished(client, {total})
    return total.result()


def _finished(client: "Client", futures: set[Any]) -> set[Any]:
    """Wait for one or more of them, as long as somebody works."""
    import distributed

    alone_since: float | None = None
    while True:
        try:
            return set(distributed.wait(futures, _LOOK, "FIRST_COMPLETED").done)
        except TimeoutError:
            pass
        now = time.monotonic()
        alone_since = None if client.nthreads() else alone_since or now
        if alone_since is not None and now - alone_since > _MAX_WAIT:
            raise DriftbayesError(
                f"the cluster has had no worker for {_MAX_WAIT:g} s; start some that know its "
                "address, and check whether they run out of memory"
            )


def _merge_all(merge: Callable[[Result, Result], Result], results: Sequence[Result]) -> Result:
    from copy import deepcopy

    # A copy: a task may be done again, and must not find its input changed.
    total = deepcopy(results[0])
    for result in results[1:]:
        total = merge(total, result)
    return total
