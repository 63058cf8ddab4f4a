"""How much memory the sums over a file will take, known before anything is summed."""

__all__ = ["check_fits"]

from collections.abc import Sequence
from dataclasses import replace

from driftbayes.errors import DriftbayesError
from driftbayes.io.blocks import Block
from driftbayes.io.limits import MEMORY_VARIABLE, memory_budget, readable_size
from driftbayes.streaming.tally import TallySpec
from driftbayes.streaming.workers import Workers

# Measured with Zarr, Parquet and CSV in two dimensions (`benchmarks/throughput.py` measures it):
# bytes for each observation of a block, and for a process.
_PER_POINT, _PER_PROCESS = 150, 270_000_000
# Sums of this many kinds at each sampling time: lengths of runs and sizes of steps differ.
_KINDS = 4


def check_fits(blocks: Sequence[Block], spec: TallySpec, n_dim: int, workers: Workers) -> Workers:
    """Refuse a file whose sums would not fit into the memory of this machine."""
    n = workers.at_once(len(blocks))
    largest = max(block.n_points for block in blocks)
    tally = _tally_bytes(spec, n_dim)
    # A result may wait for its turn while the next block is summed.
    one = _PER_POINT * largest + 2 * tally
    if workers.processes is not None:
        one += _PER_PROCESS
    budget = memory_budget()
    if workers.processes is None and workers.threads is None and n > 1:
        n = max(min((budget - tally) // one, n), 1)
        workers = replace(workers, threads=n)
    # One tally more: the total.
    needed = n * one + tally
    if needed > budget:
        msg = (
            f"{n} worker{'s' if n > 1 else ''} with blocks of up to {largest:,} points and sums of "
            f"{readable_size(tally)} would take about {readable_size(needed)} of memory, and "
            f"{readable_size(budget)} may be used here; use fewer workers (--workers), smaller "
            "blocks (--block-points) or fewer sampling times (a trajectory is never cut), or set "
            f"{MEMORY_VARIABLE}={readable_size(needed).replace(' ', '')}"
        )
        raise DriftbayesError(msg)
    return workers


def _tally_bytes(spec: TallySpec, n_dim: int) -> int:
    total = 0
    for memory, by_channel in spec.memories:
        channels = n_dim + 1 if by_channel else 1
        total += _KINDS * 8 * (channels * memory) ** 2
    return total * len(spec.strides)
