"""How kernels are compiled, and share out their work among threads."""

__all__ = [
    "FAST_OPTIONS",
    "KERNEL_OPTIONS",
    "compiled",
    "count_threads",
    "run_in_threads",
]

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

# Products and sums may be fused, and nothing else.
KERNEL_OPTIONS: dict[str, Any] = {
    "fastmath": {"contract"},
    "error_model": "numpy",
    "boundscheck": False,
}
# Sums may be taken in another order too.
FAST_OPTIONS: dict[str, Any] = {**KERNEL_OPTIONS, "fastmath": {"contract", "reassoc", "nsz"}}


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Compile a function on first use, without the interpreter's lock, and keep it on disk.

    Where neither the package's directory nor the user's cache can be written, it is compiled in
    every process.

    Args:
        **options: Further options of Numba.
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
    return ThreadPoolExecutor(
        count_threads(), thread_name_prefix="driftbayes-engine", initializer=_mark_thread
    )


_here = threading.local()


def _mark_thread() -> None:
    """Remember that a thread is one of the pool's."""
    _here.is_of_pool = True


def count_threads() -> int:
    """Threads that kernels may take: NUMBA_NUM_THREADS, or as many as there are processors."""
    import numba

    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    limit: int = numba.config.NUMBA_NUM_THREADS  # type: ignore[attr-defined]
    return max(min(limit, allowed or 1), 1)


def run_in_threads(task: Callable[..., Any], arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Run one task for each set of arguments; the order of the results is that of the arguments."""
    # A task that shares out work in turn would wait for threads that wait for it.
    is_nested = getattr(_here, "is_of_pool", False)
    if len(arguments) == 1 or is_nested or count_threads() == 1:
        return [task(*one) for one in arguments]
    return list(_pool().map(lambda one: task(*one), arguments))
