"""How much memory the sums over a file will take, known before anything is summed."""

__all__ = ["check_fits"]

from collections.abc import Sequence

from driftbayes.errors import DriftbayesError
from driftbayes.io.blocks import Block
from driftbayes.io.limits import MEMORY_VARIABLE, memory_budget, readable_size
from driftbayes.streaming.tally import Recipe
from driftbayes.streaming.workers import Workers

# Measured with Zarr, Parquet and CSV in two dimensions (`benchmarks/throughput.py` measures it):
# bytes for each observation of a block, and what else a worker takes.
_PER_POINT = 150
_PER_THREAD, _PER_PROCESS = 100_000_000, 300_000_000
# Sums of this many kinds at each sampling time: lengths of runs and sizes of steps differ.
_KINDS = 4


def check_fits(blocks: Sequence[Block], recipe: Recipe, n_dim: int, workers: Workers) -> None:
    """Refuse a file whose sums would not fit into the memory of this machine.

    Args:
        blocks: All blocks of the file.
        recipe: What to sum.
        n_dim: Number of spatial dimensions.
        workers: Who does it; those of a cluster have memories of their own.
    """
    n = workers.at_once(len(blocks))
    largest = max(block.n_points for block in blocks)
    one = _PER_PROCESS if workers.processes is not None else _PER_THREAD
    tally = _tally_bytes(recipe, n_dim)
    # One tally more: the total.
    needed = n * (one + _PER_POINT * largest + tally) + tally
    budget = memory_budget()
    if needed > budget:
        msg = (
            f"{n} worker{'s' if n > 1 else ''} with blocks of up to {largest:,} points and sums of "
            f"{readable_size(tally)} would take about {readable_size(needed)} of memory, and "
            f"{readable_size(budget)} may be used here; use fewer workers (--workers), smaller "
            "blocks (--block-points) or fewer sampling times (a trajectory is never cut), or set "
            f"{MEMORY_VARIABLE}={readable_size(needed).replace(' ', '')}"
        )
        raise DriftbayesError(msg)


def _tally_bytes(recipe: Recipe, n_dim: int) -> int:
    total = 0
    for memory, by_channel in recipe.memories:
        channels = n_dim + 1 if by_channel else 1
        # Four digits of 8 bytes each.
        total += _KINDS * 32 * (channels * memory) ** 2
    return total * len(recipe.strides)
