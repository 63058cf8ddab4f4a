"""Read a file in blocks of whole trajectories, independently and in any process.

If trajectories are contiguous, a block is a range of the file. A table with mixed rows, as written
by Parcels 4, is first partitioned by a hash of the ids into temporary tables. Blocks are read by
the reader of the format.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from driftbayes._storage.leftovers import scratch_folder
from driftbayes._storage.outputs import PathLike
from driftbayes._typing import IntArray, Progress
from driftbayes.data._trajectories import Trajectories
from driftbayes.errors import DriftbayesError
from driftbayes.io._formats import choose, contents_of, estimated_points, format_named, read_as
from driftbayes.io._reading import Contents, ReadOptions

# Each column of a block has up to 32 MB: freed memory of this size is reused, while larger arrays
# are allocated anew each time.
BLOCK_POINTS = 1 << 20
# Size of the pilot block, from which the properties of the data are estimated.
_PILOT_POINTS = 1 << 17
# A row group is read as a whole and must not take too much memory.
_MAX_BLOCKS_IN_GROUP = 4
# Number of temporary tables.
_MAX_PARTS = 512


@dataclass(frozen=True)
class Block:
    """A part of the trajectories in a file."""

    path: Path  # the file
    options: ReadOptions  # reading options, with the name of the format
    n_points: int  # number of observations, including padding
    part: Mapping[str, tuple[int, int]] | None = None  # part of the file; see `Contents`


@dataclass(frozen=True)
class Plan:
    """All blocks of a file."""

    blocks: tuple[Block, ...]  # blocks that cover all trajectories once
    pilot: Block  # a few trajectories, to estimate properties of the data
    n_points: int  # total number of observations, including padding


@contextmanager
def plan_blocks(
    path: PathLike,
    options: ReadOptions | None = None,
    *,
    block_points: int = BLOCK_POINTS,
    scratch: PathLike | None = None,
    progress: Progress | None = None,
) -> Iterator[Plan]:
    """Plan the blocks of a file; temporary files exist as long as the context.

    Args:
        path: The file or store.
        options: Reading options.
        block_points: Observations in a block; longer trajectories have their own block.
        scratch: Directory for temporary files, shared by all workers; by default the system's.
        progress: Called with the stage, the number done and the total number.
    """
    if block_points < 1:
        raise DriftbayesError(f"a block needs 1 observation or more, got {block_points}")
    options = options or ReadOptions()
    contents = contents_of(path)
    options = replace(options, format=choose(contents, options.format).name)
    # Workers may have another working directory.
    whole = Block(contents.path.resolve(), options, estimated_points(contents))
    pilot_points = min(block_points, _PILOT_POINTS)
    with ExitStack() as stack:
        blocks, pilot, sizes = [whole], whole, None
        # In nested Parquet a row is a whole trajectory.
        is_table = contents.container == "parquet" and not any(
            kind.startswith(("struct", "list", "large_list")) for kind in contents.types.values()
        )
        if is_table:
            from driftbayes.io._table_blocks import rows_of_trajectories

            max_rows = _MAX_BLOCKS_IN_GROUP * max(block_points, BLOCK_POINTS)
            sizes = rows_of_trajectories(contents, options, max_rows)
        if contents.container in ("netcdf", "zarr"):
            blocks = _split_dataset(whole, contents, block_points)
            pilot = _split_dataset(whole, contents, pilot_points)[0]
        elif sizes is not None:
            blocks = _split_rows(whole, sizes, block_points)
            pilot = _split_rows(whole, sizes, pilot_points)[0]
        elif is_table or (contents.container == "csv" and options.format == "table"):
            from driftbayes.io._table_blocks import partition

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
    with ExitStack() as stack:
        contents = replace(contents_of(block.path, stack), part=block.part)
        if contents.container == "csv":
            # Line numbers of a temporary table differ from those of the file.
            contents = replace(contents, part={})
        return read_as(format_named(str(block.options.format)), contents, block.options)


def _split_dataset(whole: Block, contents: Contents, block_points: int) -> list[Block]:
    """Split a ragged or padded dataset along its dimensions."""
    from driftbayes.io._datasets import open_dataset, verify
    from driftbayes.io._layouts import find_counter, find_layout

    with open_dataset(contents) as dataset:
        counter = find_counter(contents)
        if counter is not None and counter[0] == "contiguous":
            _, name, dim = counter
            verify(dataset, name)
            sizes = dataset[name].to_numpy().astype(np.int64)
            total = int(sizes.sum())
            declared = contents.attribute(name, "sample_dimension")
            fitting = [d for d, n in dataset.sizes.items() if d != dim and n == total]
            sample = declared or str(next(iter(fitting), ""))
            if (sizes < 0).any() or dataset.sizes.get(sample) != total:
                # The reader of the format reports the error.
                return [whole]
            return [
                replace(whole, n_points=rows[1] - rows[0], part={dim: tracks, sample: rows})
                for tracks, rows in _ranges(sizes, block_points)
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
        # Chunks are read as a whole: align blocks with chunks to read each chunk once.
        chunk = max([1, *chunks])
        if step > chunk:
            step -= step % chunk
        ranges = [(low, min(low + step, n)) for low in range(0, n, step)]
        return [
            replace(whole, n_points=(high - low) * length, part={layout.instance: (low, high)})
            for low, high in ranges
        ]


def _split_rows(whole: Block, sizes: IntArray, block_points: int) -> list[Block]:
    """Split the rows of a table, given the number of rows of each trajectory."""
    return [
        replace(whole, n_points=rows[1] - rows[0], part={"rows": rows})
        for _, rows in _ranges(sizes, block_points)
    ]


def _ranges(
    sizes: IntArray, block_points: int
) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Yield ranges (start, stop) of trajectories and of their rows.

    Each has at most `block_points` rows, or one trajectory.
    """
    ends = np.cumsum(sizes)
    low = 0
    while low < len(sizes):
        done = int(ends[low] - sizes[low])
        high = max(int(np.searchsorted(ends, done + block_points, side="right")), low + 1)
        yield (low, high), (done, int(ends[high - 1]))
        low = high
