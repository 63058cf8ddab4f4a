"""Compilation of kernels, and the threads that run them."""

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

# The compiler may fuse products and sums, and nothing else.
KERNEL_OPTIONS: dict[str, Any] = {
    "fastmath": {"contract"},
    "error_model": "numpy",
    "boundscheck": False,
}
# The compiler may also reorder sums.
FAST_OPTIONS: dict[str, Any] = {**KERNEL_OPTIONS, "fastmath": {"contract", "reassoc", "nsz"}}

_PARTS_PER_THREAD = 8


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Compile a function on first use, releasing the GIL, and cache it on disk.

    Where neither the package's directory nor the user's cache is writable, every process compiles
    it again.

    Args:
        **options: Further options for Numba.
    """
    from numba import njit

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        try:
            return njit(function, nogil=True, cache=True, **options)
        except RuntimeError:
            return njit(function, nogil=True, **options)

    return decorate


@cache
def _pool() -> ThreadPoolExecutor:
    """Make the threads that kernels share."""
    return ThreadPoolExecutor(
        count_threads(), thread_name_prefix="driftbayes-engine", initializer=_mark_thread
    )


_thread = threading.local()


def _mark_thread() -> None:
    """Mark a thread as belonging to the pool."""
    _thread.in_pool = True


def count_threads() -> int:
    """Count the threads that kernels may use: NUMBA_NUM_THREADS, or one per available core."""
    import numba

    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    limit: int = numba.config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
    return max(min(limit, allowed or 1), 1)


def run_in_threads(task: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Run a task for each set of arguments in threads; return the results in order."""
    # A task of the pool that waited for further tasks of the pool could deadlock.
    is_nested = getattr(_thread, "in_pool", False)
    if len(arguments) == 1 or is_nested or count_threads() == 1:
        return [task(*args) for args in arguments]
    # Submitting a task takes about 30 µs: group short ones, in enough parts for balance.
    size = max(len(arguments) // (_PARTS_PER_THREAD * count_threads()), 1)
    parts = [arguments[low : low + size] for low in range(0, len(arguments), size)]
    results = _pool().map(lambda part: [task(*args) for args in part], parts)
    return [result for part in results for result in part]


def run_in_ranges(task: Callable[[int, int], Any], n: int, n_ranges: int) -> list[Any]:
    """Run a task for the begin and end of successive ranges of n rows, in threads."""
    edges = np.linspace(0, n, n_ranges + 1).astype(np.int64)
    return run_in_threads(task, list(pairwise(edges.tolist())))
