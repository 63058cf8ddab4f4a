"""Read a file in blocks of whole trajectories, each by itself and by any process.

Where trajectories follow one another, a block is a stretch of the file. A table with mixed rows, as
Parcels 4 writes them, is first partitioned by a hash of the ids into temporary tables. The reader
of the format reads its blocks too.
"""

import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from driftbayes.data.trajectories import Trajectories
from driftbayes.errors import DriftbayesError
from driftbayes.io.formats import choose, contents_of, format_named, read_as
from driftbayes.io.reading import Contents, CsvLayout, ReadOptions, reading_as, reason, require
from driftbayes.storage.leftovers import scratch_folder
from driftbayes.storage.outputs import PathLike
from driftbayes.typing import IntArray

if TYPE_CHECKING:
    import xarray as xr

# The columns of a block have up to 32 MB each: freed memory of that size is used again, and larger
# arrays are asked for from the system each time.
BLOCK_POINTS = 1 << 20
# What is read first, to see what the data are like.
_PILOT_POINTS = 1 << 17
# Rows that are partitioned at a time, and into how many files at most.
_BATCH_ROWS = 1 << 19
_MAX_PARTS = 512
# A row group is read whole: beyond so many blocks it would not be a small part of memory.
_MAX_BLOCKS_IN_GROUP = 4
_IDS = ("id", "particle_id", "particle", "trajectory", "track_id", "ID", "traj", "drifter_id")


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


def estimated_points(contents: Contents) -> int:
    """Estimate the number of observations of a file without reading it."""
    if contents.container == "parquet":
        from driftbayes.io.parquet import open_parquet

        with reading_as(contents.path, "Parquet"), open_parquet(contents.path) as parquet:
            return int(parquet.metadata.num_rows)
    if contents.container in ("netcdf", "zarr"):
        from driftbayes.io.datasets import open_dataset

        with open_dataset(contents) as dataset:
            return max((int(variable.size) for variable in dataset.variables.values()), default=0)
    if contents.container == "csv":
        # Of id, time, x and y in text; a compressed file is a third as long.
        n_bytes = contents.path.stat().st_size
        return n_bytes // (12 if contents.path.suffix == ".gz" else 36)
    return 0


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
        blocks, pilot, stretches = [whole], whole, None
        is_table = contents.container == "parquet" and not _is_nested(contents)
        if is_table:
            stretches = _stretches(whole, contents, block_points)
        if contents.container in ("netcdf", "zarr"):
            blocks = _of_dataset(whole, contents, block_points)
            pilot = _of_dataset(whole, contents, few)[0]
        elif stretches is not None:
            blocks = _of_rows(whole, stretches, block_points)
            pilot = _of_rows(whole, stretches, few)[0]
        elif is_table or (contents.container == "csv" and options.format == "table"):
            folder = stack.enter_context(scratch_folder(scratch))
            blocks = _partition(whole, contents, block_points, folder, progress)
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


def _is_nested(contents: Contents) -> bool:
    """Whether a row holds a whole trajectory and not an observation."""
    return any(
        kind.startswith(("struct", "list", "large_list")) for kind in contents.types.values()
    )


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
            ends = np.cumsum(sizes)
            told = contents.attribute(name, "sample_dimension")
            total = int(ends[-1]) if len(ends) else 0
            fitting = [d for d, n in dataset.sizes.items() if d != dim and n == total]
            sample = told or str(next(iter(fitting), ""))
            if (sizes < 0).any() or dataset.sizes.get(sample) != total:
                # The format's own reader says what is wrong.
                return [whole]
            return [
                replace(
                    whole,
                    n_points=int(sizes[low:high].sum()),
                    part={
                        dim: (low, high),
                        sample: (int(ends[low] - sizes[low]), int(ends[high - 1])),
                    },
                )
                for low, high in _cuts(sizes, block_points)
            ]
        try:
            layout = find_layout(contents, whole.options)
        except DriftbayesError:
            return [whole]
        if layout.kind != "grid" or layout.instance is None:
            return [whole]
        n, length = dataset.sizes[layout.instance], dataset.sizes[layout.sample]
        step = max(block_points // max(length, 1), 1)
        chunk = max(_chunk_along(dataset, layout.instance), 1)
        # A chunk is read whole: blocks that end where chunks do read each once.
        if step > chunk:
            step -= step % chunk
        cuts = [(low, min(low + step, n)) for low in range(0, n, step)]
        return [
            replace(whole, n_points=(high - low) * length, part={layout.instance: (low, high)})
            for low, high in cuts
        ]


def _chunk_along(dataset: "xr.Dataset", dim: str) -> int:
    chunks = [
        variable.encoding["chunks"][variable.dims.index(dim)]
        for variable in dataset.variables.values()
        if variable.ndim == 2 and dim in variable.dims and variable.encoding.get("chunks")
    ]
    return max(chunks, default=1)


def _cuts(sizes: IntArray, block_points: int) -> list[tuple[int, int]]:
    """Stretches of trajectories of at most so many points, each of one trajectory at least."""
    ends = np.cumsum(sizes)
    cuts, low = [], 0
    while low < len(sizes):
        done = ends[low] - sizes[low]
        high = max(int(np.searchsorted(ends, done + block_points, side="right")), low + 1)
        cuts.append((low, high))
        low = high
    return cuts


def _stretches(whole: Block, contents: Contents, block_points: int) -> IntArray | None:
    """Rows of each trajectory, if each has its rows in one stretch that can be read by itself."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from driftbayes.io.parquet import open_parquet, plain_texts

    name = _id_column(contents, whole.options)
    if name is None:
        return np.array([whole.n_points])
    with reading_as(whole.path, "Parquet"), open_parquet(whole.path) as parquet:
        metadata = parquet.metadata
        groups = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
        if max(groups, default=0) > _MAX_BLOCKS_IN_GROUP * max(block_points, BLOCK_POINTS):
            return None
        ids, counts = [], []
        for batch in parquet.iter_batches(_BATCH_ROWS, columns=[name]):
            column = plain_texts(batch, whole.path).column(0)
            if pa.types.is_dictionary(column.type):
                column = column.cast(column.type.value_type)
            ends = pc.run_end_encode(column)
            ids.append(ends.values)
            counts.append(np.diff(np.asarray(ends.run_ends), prepend=0).astype(np.int64))
            if len(ends.values) > 0.5 * len(column) > 8:
                # Nearly every row has another id than the one before.
                return None
    if not ids:
        return None
    with reading_as(whole.path, "Parquet"):
        values = pa.concat_arrays(ids)
        sizes = np.concatenate(counts)
        # A trajectory may go on in the next batch.
        new = np.ones(len(values), dtype=bool)
        changed = pc.not_equal(values[1:], values[:-1])
        new[1:] = np.asarray(pc.fill_null(changed, True))  # noqa: FBT003
        sizes = np.add.reduceat(sizes, np.flatnonzero(new))
        if pc.count_distinct(values, mode="all").as_py() != len(sizes):
            return None
    return np.asarray(sizes)


def _of_rows(whole: Block, sizes: IntArray, block_points: int) -> list[Block]:
    ends = np.cumsum(sizes)
    rows = [
        (int(ends[low] - sizes[low]), int(ends[high - 1]))
        for low, high in _cuts(sizes, block_points)
    ]
    return [
        replace(whole, n_points=last - first, part={"rows": (first, last)}) for first, last in rows
    ]


def _id_column(contents: Contents, options: ReadOptions) -> str | None:
    """Name of the column of ids; None if there is one trajectory alone."""
    told = options.names.get("id")
    for name in (told,) if told else _IDS:
        if name in contents.names:
            return str(name)
    from driftbayes.data.columns import guess

    return guess(contents.names, options.columns, source=contents.source).columns.get("id")


def _partition(
    whole: Block,
    contents: Contents,
    block_points: int,
    folder: Path,
    progress: Callable[[str, int, int], None] | None,
) -> list[Block]:
    """Partition rows by a hash of their ids into temporary tables, in the order of the file."""
    require("tables", "pyarrow")
    import pyarrow as pa

    n_parts = min(max(-(-whole.n_points // block_points), 1), _MAX_PARTS)
    column = _id_column(contents, whole.options)
    if column is None:
        return [whole]
    is_csv = contents.container == "csv"
    # The name that messages will have is that of the user's file.
    name = whole.path.name.removesuffix(".gz")
    counts = np.zeros(n_parts, dtype=np.int64)
    done = 0
    try:
        with ExitStack() as stack:
            writers: dict[int, Any] = {}
            for batch in _csv_batches(contents) if is_csv else _parquet_batches(whole.path):
                names = [name.strip() for name in batch.schema.names]
                if names.count(column) != 1:
                    msg = f"{whole.path.name!r} has no column {column[:40]!r}, or several of them"
                    raise DriftbayesError(msg)
                part = _hashes(batch.column(names.index(column))) % np.uint64(n_parts)
                order = np.argsort(part, kind="stable")
                sorted_batch = batch.take(pa.array(order)) if n_parts > 1 else batch
                edges = np.searchsorted(part[order], np.arange(n_parts + 1))
                for i in np.flatnonzero(np.diff(edges)).tolist():
                    rows = sorted_batch.slice(int(edges[i]), int(edges[i + 1] - edges[i]))
                    if i not in writers:
                        (folder / str(i)).mkdir()
                        separator = contents.layout.separator if contents.layout else ","
                        file = folder / str(i) / name
                        writer = _writer(file, batch.schema, separator if is_csv else None)
                        writers[i] = stack.enter_context(writer)
                    writers[i].write(rows)
                    counts[i] += rows.num_rows
                done += batch.num_rows
                if progress is not None:
                    progress("sorting rows into blocks", done, max(whole.n_points, done))
    except (pa.ArrowException, OSError) as error:
        msg = f"{whole.path.name!r} cannot be split into blocks: {reason(error)}; see --scratch"
        raise DriftbayesError(msg) from error
    if not counts.any():
        msg = f"{whole.path.name!r} has columns but no rows; expected one row per observation"
        raise DriftbayesError(msg)
    return [
        replace(whole, path=folder / str(i) / name, n_points=int(counts[i]))
        for i in np.flatnonzero(counts)
    ]


def _parquet_batches(path: Path) -> Iterator[Any]:
    from driftbayes.io.parquet import open_parquet, plain_texts

    with open_parquet(path) as parquet:
        for batch in parquet.iter_batches(_BATCH_ROWS, use_threads=False):
            yield plain_texts(batch, path)


def _csv_batches(contents: Contents) -> Iterator[Any]:
    """Rows of a CSV file, every cell as the text that it is."""
    import pyarrow as pa
    import pyarrow.csv as pacsv

    from driftbayes.io.csv_text import check_size, open_stream

    check_size(contents.path)
    layout = contents.layout or CsvLayout()
    # As they are: a header that is not the table's own stands in the comments.
    names = None if layout.own_header else list(layout.header)
    with open_stream(contents.path) as stream:
        yield from pacsv.open_csv(
            stream,
            read_options=pacsv.ReadOptions(
                block_size=1 << 24, skip_rows=layout.n_before, column_names=names
            ),
            parse_options=pacsv.ParseOptions(newlines_in_values=True, delimiter=layout.separator),
            convert_options=pacsv.ConvertOptions(
                column_types=dict.fromkeys(layout.header, pa.string()), strings_can_be_null=False
            ),
        )


def _writer(file: Path, schema: Any, separator: str | None) -> Any:
    """A table to which batches of rows are written: text, or Parquet without a separator."""
    import pyarrow.csv as pacsv
    import pyarrow.parquet as pq

    if separator is not None:
        options = pacsv.WriteOptions(quoting_style="needed", delimiter=separator)
        return pacsv.CSVWriter(file, schema, write_options=options)
    return pq.ParquetWriter(
        file, schema, compression="lz4", use_dictionary=False, write_statistics=False
    )


def _hashes(column: Any) -> Any:
    """A hash of each id, the same in every process and batch."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_integer(column.type) and not column.null_count:
        # The last step of splitmix64: neighbours go to different places.
        x = np.asarray(column).astype(np.uint64)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    encoded = pc.utf8_trim_whitespace(
        pc.fill_null(column.cast(pa.string()), "")
    ).dictionary_encode()
    texts = encoded.dictionary.to_pylist()
    hashes = np.array([zlib.crc32(text.encode()) for text in texts], dtype=np.uint64)
    return hashes[np.asarray(encoded.indices)]
