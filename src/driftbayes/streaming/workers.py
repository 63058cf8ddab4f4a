"""Who does the work: threads of this process, processes of this machine, or a cluster."""

__all__ = ["Workers"]

import os
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from driftbayes.errors import DriftbayesError

if TYPE_CHECKING:
    from distributed import Client

Item = TypeVar("Item")
Result = TypeVar("Result")
Progress = Callable[[str, int, int], None]

# Results that are merged by one task of a cluster.
_BRANCHES = 8
# A task whose worker was lost is done again so many times; then the task is to blame.
_RETRIES = 3


@dataclass(frozen=True)
class Workers:
    """Where blocks are read and summed.

    Args:
        processes: Number of worker processes to start on this machine; by default none, and as many
            threads as there are cores.
        cluster: Address of the scheduler of a Dask cluster, such as tcp://10.0.0.1:8786, to use
            instead.
        threads: Number of threads if there are no processes and no cluster.
    """

    processes: int | None = None
    cluster: str | None = None
    threads: int | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        if self.processes is not None and self.cluster is not None:
            msg = "give a number of workers or the address of a cluster, not both"
            raise DriftbayesError(msg)
        for count in (self.processes, self.threads):
            if count is not None and count < 1:
                msg = f"expected 1 worker or more, got {count}"
                raise DriftbayesError(msg)

    def reduce(
        self,
        function: Callable[[Item], Result],
        items: Sequence[Item],
        merge: Callable[[Result, Result], Result],
        progress: Progress | None = None,
    ) -> Result:
        """Apply a function to all items and merge the results, in no particular order.

        Args:
            function: To be applied to each; for other processes, importable there.
            items: One or more.
            merge: Merges two results; must not care about the order.
            progress: Called with a stage, how many are done, and of how many.
        """
        if not items:
            msg = "expected one or more blocks, got none"
            raise DriftbayesError(msg)
        if self.processes is None and self.cluster is None:
            return _by_threads(
                self.threads or os.cpu_count() or 1, function, items, merge, progress
            )
        distributed = _distributed()
        try:
            if self.cluster is not None:
                client = distributed.Client(self.cluster, timeout=20, set_as_default=False)
                with client:
                    return _by_tasks(client, function, items, merge, progress)
            with (
                distributed.LocalCluster(
                    n_workers=min(self.processes or 1, len(items)),
                    threads_per_worker=1,
                    processes=True,
                    # Any port that is free: the usual one may be taken by another run.
                    dashboard_address=":0",
                    # Blocks bound what a worker needs; it is not to be paused or killed for more.
                    memory_limit=0,
                    silence_logs=50,
                ) as cluster,
                distributed.Client(cluster, set_as_default=False) as client,
            ):
                return _by_tasks(client, function, items, merge, progress)
        except distributed.KilledWorker as error:
            msg = (
                f"a block was lost with its worker {_RETRIES + 1} times; the workers may be out of "
                "memory: use smaller blocks (--block-points)"
            )
            raise DriftbayesError(msg) from error
        except OSError as error:
            if self.cluster is None:
                raise
            msg = f"there is no Dask scheduler at {self.cluster!r} ({error}); check the address"
            raise DriftbayesError(msg) from error


def _distributed() -> Any:
    try:
        import distributed
    except ImportError as error:
        msg = (
            "workers in other processes need Dask, which is not installed; run: "
            "pip install driftbayes[dask]"
        )
        raise DriftbayesError(msg) from error
    return distributed


def _by_threads(
    n_threads: int,
    function: Callable[[Item], Result],
    items: Sequence[Item],
    merge: Callable[[Result, Result], Result],
    progress: Progress | None,
) -> Result:
    total: Result | None = None
    done, left = 0, iter(items)
    with ThreadPoolExecutor(n_threads) as pool:
        running: set[Future[Result]] = set()
        try:
            while True:
                # No more than are being worked on: results that wait take memory.
                for item in left:
                    running.add(pool.submit(function, item))
                    if len(running) >= n_threads:
                        break
                if not running:
                    break
                finished, running = wait(running, return_when=FIRST_COMPLETED)
                for future in finished:
                    result = future.result()
                    total = result if total is None else merge(total, result)
                    done += 1
                    if progress is not None:
                        progress("blocks", done, len(items))
        finally:
            for future in running:
                future.cancel()
    assert total is not None
    return total


def _by_tasks(
    client: "Client",
    function: Callable[[Item], Result],
    items: Sequence[Item],
    merge: Callable[[Result, Result], Result],
    progress: Progress | None,
) -> Result:
    """As a tree of tasks; the scheduler does again what was lost with a worker."""
    from distributed import as_completed

    level = client.map(function, items, pure=False)
    leaves = as_completed(level, loop=client.loop)
    top = list(level)
    while len(top) > 1:
        groups = [top[i : i + _BRANCHES] for i in range(0, len(top), _BRANCHES)]
        top = [client.submit(_merge_all, merge, group, pure=False) for group in groups]
    for done, future in enumerate(leaves, 1):
        if future.status == "error":
            # One that failed fails all: the message is that of the block.
            future.result()
        if progress is not None:
            progress("blocks", done, len(items))
    return top[0].result()


def _merge_all(merge: Callable[[Result, Result], Result], results: Sequence[Result]) -> Result:
    from copy import deepcopy

    # A copy: a task may be done again, and must not find its input changed.
    total = deepcopy(results[0])
    for result in results[1:]:
        total = merge(total, result)
    return total
