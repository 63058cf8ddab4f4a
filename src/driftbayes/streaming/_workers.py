"""Workers: threads of this process, processes of this machine, or a Dask cluster."""

import os
import re
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from multiprocessing import connection
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from urllib.parse import urlsplit

from driftbayes._processes import Child, ChildDied, single_threaded
from driftbayes._typing import Progress
from driftbayes.errors import DriftbayesError, warn

if TYPE_CHECKING:
    from distributed import Client

Item = TypeVar("Item")
Result = TypeVar("Result")

# Results merged by one task of a cluster.
_BATCH = 8
# Number of workers that may die on one block, or in succession.
_MAX_DEATHS = 4
# Time to wait for a cluster without workers, and interval of checks, in seconds.
_MAX_WAIT, _CHECK_INTERVAL = 60.0, 5.0


@dataclass(frozen=True)
class Workers:
    """Workers that read and sum blocks.

    Args:
        processes: Number of worker processes on this machine, connected by pipes, not ports; by
            default none, but one thread per core.
        cluster: Address of the scheduler of a Dask cluster to use instead, such as
            tls://10.0.0.1:8786. Certificates come from the configuration of Dask.
        threads: Number of threads without processes or a cluster.
    """

    processes: int | None = None
    cluster: str | None = None
    threads: int | None = None

    def __post_init__(self) -> None:
        """Check the arguments."""
        if self.processes is not None and self.cluster is not None:
            raise DriftbayesError("give a number of workers or the address of a cluster, not both")
        for count in (self.processes, self.threads):
            if count is not None and count < 1:
                raise DriftbayesError(f"expected 1 worker or more, got {count}")

    def at_once(self, n_items: int) -> int:
        """Return the number of items that this machine has in memory at once; 0 with a cluster.

        Args:
            n_items: Total number of items.
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

        The order of merging does not depend on the workers, so that rounded sums are the same to
        the last bit.

        Args:
            function: Function applied to each item; importable in other processes.
            items: One or more items.
            merge: Merges the second of two results into the first, and returns it.
            progress: Called with the stage, the number done and the total number.
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
    """Arguments of `Workers.reduce`."""

    function: Callable[[Item], Result]
    items: Sequence[Item]
    merge: Callable[[Result, Result], Result]
    progress: Progress | None


class _Total(Generic[Result]):
    """Results merged in the order of the items.

    Args:
        job: The job.
    """

    def __init__(self, job: "_Job[Any, Result]") -> None:
        self._merge, self._n_items, self._progress = job.merge, len(job.items), job.progress
        self._waiting: dict[int, Result] = {}
        self._value: Result | None = None
        self._n_merged = 0

    def add(self, index: int, result: Result) -> None:
        """Add the result of an item; it is merged after those of all earlier items."""
        self._waiting[index] = result
        while self._n_merged in self._waiting:
            next_result = self._waiting.pop(self._n_merged)
            if self._value is None:
                self._value = next_result
            else:
                self._value = self._merge(self._value, next_result)
            self._n_merged += 1
        if self._progress is not None:
            self._progress("blocks", self._n_merged + len(self._waiting), self._n_items)

    def may_begin(self, index: int, n_workers: int) -> bool:
        """Whether to start an item now: only few results may wait in memory."""
        return index < min(self._n_merged + 2 * n_workers, self._n_items)

    @property
    def is_complete(self) -> bool:
        """Whether all results are merged."""
        return self._n_merged == self._n_items

    @property
    def value(self) -> Result:
        """The merged result."""
        assert self._value is not None
        return self._value


def _by_threads(n_threads: int, job: _Job[Item, Result]) -> Result:
    total = _Total(job)
    with ThreadPoolExecutor(n_threads) as pool:
        running: dict[Future[Result], int] = {}
        index = 0
        try:
            while not total.is_complete:
                while len(running) < n_threads and total.may_begin(index, n_threads):
                    running[pool.submit(job.function, job.items[index])] = index
                    index += 1
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    total.add(running.pop(future), future.result())
        finally:
            for future in running:
                future.cancel()
    return total.value


def _by_processes(n_processes: int, job: _Job[Item, Result]) -> Result:
    """Give each process one item at a time; repeat an item whose process died."""
    total = _Total(job)
    left = deque(range(len(job.items)))
    lost: Counter[int] = Counter()
    n_deaths = 0
    idle: list[Child] = []
    running: dict[Any, tuple[Child, int]] = {}

    def handle_death(index: int, error: ChildDied) -> None:
        nonlocal n_deaths
        n_deaths += 1
        lost[index] += 1
        if max(n_deaths, lost[index]) >= _MAX_DEATHS:
            raise DriftbayesError(_death_message(error)) from error
        left.appendleft(index)

    try:
        while not total.is_complete:
            while left and len(running) < n_processes and total.may_begin(left[0], n_processes):
                index = left.popleft()
                try:
                    with single_threaded():
                        child = idle.pop() if idle else Child()
                    # Registered before sending, so that it is always ended.
                    running[child.connection] = child, index
                    child.send(job.function, job.items[index])
                except ChildDied as error:
                    running = {pipe: pair for pipe, pair in running.items() if pair[1] != index}
                    handle_death(index, error)
            for pipe in connection.wait(list(running)):
                child, index = running[pipe]
                try:
                    result = child.receive()
                except ChildDied as error:
                    del running[pipe]
                    handle_death(index, error)
                    continue
                del running[pipe]
                idle.append(child)
                n_deaths = 0
                total.add(index, result)
    finally:
        for child, _ in running.values():
            child.kill()
        for child in idle:
            child.close()
    return total.value


def _death_message(error: ChildDied) -> str:
    advice = (
        "they may be out of memory: use fewer workers (--workers) or smaller blocks "
        "(--block-points)"
    )
    if error.code == 1:
        # The exit code of Python if the main module cannot be imported.
        advice = (
            "see the error above; a script that uses workers must start them under "
            "`if __name__ == '__main__':`"
        )
    return (
        f"{_MAX_DEATHS} workers ended before they finished a block (the last: {error.reason}); "
        f"{advice}"
    )


def _on_cluster(address: str, job: _Job[Item, Result]) -> Result:
    try:
        import distributed
        from distributed.comm.core import CommClosedError
    except ImportError as error:
        msg = "a cluster needs Dask, which is not installed; run: pip install driftbayes[dask]"
        raise DriftbayesError(msg) from error
    if not re.fullmatch(r"(\w+://)?[^/]+:\d+", address):
        # Dask would wait for 40 s, and end in a traceback.
        msg = f"the address of a cluster must be like tls://HOST:8786, got {address!r} (--cluster)"
        raise DriftbayesError(msg)
    _warn_if_open(address)
    if address.startswith("tls:"):
        arguments = distributed.Security().get_connection_args("client")
        if arguments.get("ssl_context") is None:
            raise DriftbayesError(
                f"Dask is not configured with the certificates that {address!r} requires; set "
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
        warn(
            f"the connection to {address!r} is not encrypted, and its scheduler runs code from "
            "any client; use a cluster with certificates (tls://)"
        )


def _by_tasks(client: "Client", job: _Job[Item, Result]) -> Result:
    """Submit tasks and a chain of merges; the scheduler repeats those lost with a worker."""
    parts = client.map(job.function, job.items, pure=False)
    total = parts[0]
    for low in range(1, len(parts), _BATCH):
        group = [total, *parts[low : low + _BATCH]]
        total = client.submit(_merge_all, job.merge, group, pure=False)
    # Parts are kept until the end, so that a merge lost with its worker can be repeated.
    left = set(parts)
    while left:
        finished = _finished(client, left)
        left -= finished
        for future in finished:
            if future.status != "finished":
                # Raise the error of the block.
                future.result()
        if job.progress is not None and finished:
            job.progress("blocks", len(job.items) - len(left), len(job.items))
    _finished(client, {total})
    return total.result()


def _finished(client: "Client", futures: set[Any]) -> set[Any]:
    """Wait for one or more futures, while the cluster has workers."""
    import distributed

    idle_since: float | None = None
    while True:
        try:
            return set(distributed.wait(futures, _CHECK_INTERVAL, "FIRST_COMPLETED").done)
        except TimeoutError:
            pass
        now = time.monotonic()
        idle_since = None if client.nthreads() else idle_since or now
        if idle_since is not None and now - idle_since > _MAX_WAIT:
            raise DriftbayesError(
                f"the cluster has had no worker for {_MAX_WAIT:g} s; start workers with its "
                "address, and check whether they run out of memory"
            )


def _merge_all(merge: Callable[[Result, Result], Result], results: Sequence[Result]) -> Result:
    from copy import deepcopy

    # A task may be repeated and must not change its input.
    total = deepcopy(results[0])
    for result in results[1:]:
        total = merge(total, result)
    return total
