"""Read a file in blocks of whole trajectories, each by itself and by any process.

Where trajectories follow one another, a block is a stretch of the file. A table with mixed rows, as
Parcels 4 writes them, is first partitioned by a hash of the ids into temporary tables. The reader
of the format reads its blocks too.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from driftbayes.data.trajectories import Trajectories
from driftbayes.errors import DriftbayesError
from driftbayes.io.formats import choose, contents_of, estimated_points, format_named, read_as
from driftbayes.io.reading import Contents, ReadOptions
from driftbayes.storage.leftovers import scratch_folder
from driftbayes.storage.outputs import PathLike
from driftbayes.typing import IntArray

# The columns of a block have up to 32 MB each: freed memory of that size is used again, and larger
# arrays are asked for from the system each time.
BLOCK_POINTS = 1 << 20
# What is read first, to see what the data are like.
_PILOT_POINTS = 1 << 17
# A row group is read whole: beyond so many blocks it would not be a small part of memory.
_MAX_BLOCKS_IN_GROUP = 4
# Temporary tables at the most.
_MAX_PARTS = 512


@dataclass(frozen=True)
class Block:
    """Some trajectories of a file."""

    path: Path  # the file
    options: ReadOptions  # how to read it, with the name of its format
    n_points: int  # number of observations, or of places for them
    part: Mapping[str, tuple[int, int]] | None = None  # what of the file; see `Contents`


@dataclass(frozen=True)
class Plan:
    """All blocks of a file."""

    blocks: tuple[Block, ...]  # together all trajectories, each once
    pilot: Block  # a few trajectories, to see what the data are like
    n_points: int  # number of observations in all, or of places for them


@contextmanager
def plan_blocks(
    path: PathLike,
    options: ReadOptions | None = None,
    *,
    block_points: int = BLOCK_POINTS,
    scratch: PathLike | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> Iterator[Plan]:
    """Plan the blocks of a file; temporary files exist as long as the context.

    Args:
        path: The file or store.
        options: How to read it.
        block_points: Observations in a block, unless a trajectory alone has more.
        scratch: Directory for temporary files, by default the system's; all workers must see it.
        progress: Called with a stage, how many are done, and of how many.
    """
    if block_points < 1:
        raise DriftbayesError(f"a block needs 1 observation or more, got {block_points}")
    options = options or ReadOptions()
    contents = contents_of(path)
    options = replace(options, format=choose(contents, options.format).name)
    # Workers may have another working directory.
    whole = Block(contents.path.resolve(), options, estimated_points(contents))
    few = min(block_points, _PILOT_POINTS)
    with ExitStack() as stack:
        blocks, pilot, sizes = [whole], whole, None
        # Otherwise a row holds a whole trajectory and not an observation.
        is_table = contents.container == "parquet" and not any(
            kind.startswith(("struct", "list", "large_list")) for kind in contents.types.values()
        )
        if is_table:
            from driftbayes.io.table_blocks import rows_of_trajectories

            max_rows = _MAX_BLOCKS_IN_GROUP * max(block_points, BLOCK_POINTS)
            sizes = rows_of_trajectories(contents, options, max_rows)
        if contents.container in ("netcdf", "zarr"):
            blocks = _of_dataset(whole, contents, block_points)
            pilot = _of_dataset(whole, contents, few)[0]
        elif sizes is not None:
            blocks = _of_rows(whole, sizes, block_points)
            pilot = _of_rows(whole, sizes, few)[0]
        elif is_table or (contents.container == "csv" and options.format == "table"):
            from driftbayes.io.table_blocks import partition

            folder = stack.enter_context(scratch_folder(scratch))
            n_parts = min(max(-(-whole.n_points // block_points), 1), _MAX_PARTS)
            counts = partition(contents, options, (n_parts, whole.n_points), folder, progress)
            if counts is not None:
                blocks = [replace(whole, path=file, n_points=n) for file, n in counts.items()]
            pilot = blocks[0]
        n_points = sum(block.n_points for block in blocks)
        if contents.container != "csv":
            n_points = whole.n_points or n_points
        yield Plan(tuple(blocks), pilot, n_points)


def read_block(block: Block) -> Trajectories:
    """Read the trajectories of a block."""
    contents = replace(contents_of(block.path), part=block.part)
    if contents.container == "csv":
        # Lines of a temporary table are not those of the file.
        contents = replace(contents, part={})
    return read_as(format_named(str(block.options.format)), contents, block.options)


def _of_dataset(whole: Block, contents: Contents, block_points: int) -> list[Block]:
    """Stretches of trajectories along the dimensions of a ragged or padded dataset."""
    from driftbayes.io.datasets import open_dataset, verify
    from driftbayes.io.layouts import find_counter, find_layout

    with open_dataset(contents) as dataset:
        counter = find_counter(contents)
        if counter is not None and counter[0] == "contiguous":
            _, name, dim = counter
            verify(dataset, name)
            sizes = dataset[name].to_numpy().astype(np.int64)
            total = int(sizes.sum())
            told = contents.attribute(name, "sample_dimension")
            fitting = [d for d, n in dataset.sizes.items() if d != dim and n == total]
            sample = told or str(next(iter(fitting), ""))
            if (sizes < 0).any() or dataset.sizes.get(sample) != total:
                # The format's own reader says what is wrong.
                return [whole]
            return [
                replace(whole, n_points=rows[1] - rows[0], part={dim: tracks, sample: rows})
                for tracks, rows in _cuts(sizes, block_points)
            ]
        try:
            layout = find_layout(contents, whole.options)
        except DriftbayesError:
            return [whole]
        if layout.kind != "grid" or layout.instance is None:
            return [whole]
        n, length = dataset.sizes[layout.instance], dataset.sizes[layout.sample]
        step = max(block_points // max(length, 1), 1)
        chunks = [
            variable.encoding["chunks"][variable.dims.index(layout.instance)]
            for variable in dataset.variables.values()
            if variable.ndim == 2
            and layout.instance in variable.dims
            and variable.encoding.get("chunks")
        ]
        # A chunk is read whole: blocks that end where chunks do read each once.
        chunk = max([1, *chunks])
        if step > chunk:
            step -= step % chunk
        cuts = [(low, min(low + step, n)) for low in range(0, n, step)]
        return [
            replace(whole, n_points=(high - low) * length, part={layout.instance: (low, high)})
            for low, high in cuts
        ]


def _of_rows(whole: Block, sizes: IntArray, block_points: int) -> list[Block]:
    """Stretches of the rows of a table, from the number of rows of each trajectory."""
    return [
        replace(whole, n_points=rows[1] - rows[0], part={"rows": rows})
        for _, rows in _cuts(sizes, block_points)
    ]


def _cuts(sizes: IntArray, block_points: int) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Stretches of at most so many points, each of one trajectory at least.

    Each as the first trajectory and one past the last, and likewise the rows.
    """
    ends = np.cumsum(sizes)
    low = 0
    while low < len(sizes):
        done = int(ends[low] - sizes[low])
        high = max(int(np.searchsorted(ends, done + block_points, side="right")), low + 1)
        yield (low, high), (done, int(ends[high - 1]))
        low = high
