"""Blocks of whole trajectories of a table: ranges of its rows, or temporary tables."""

import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from driftbayes._typing import IntArray, Progress
from driftbayes.data._columns import guess
from driftbayes.errors import DriftbayesError
from driftbayes.io._cells import plain
from driftbayes.io._csv_text import check_size, open_stream
from driftbayes.io._parquet import open_parquet, plain_texts
from driftbayes.io._reading import Contents, CsvLayout, ReadOptions, reading_as, reason

# Rows partitioned at a time.
_BATCH_ROWS = 1 << 19
_IDS = ("id", "particle_id", "particle", "trajectory", "track_id", "ID", "traj", "drifter_id")


def rows_of_trajectories(
    contents: Contents, options: ReadOptions, max_rows: int
) -> IntArray | None:
    """Count the rows of each trajectory of a Parquet table.

    Args:
        contents: The table.
        options: Reading options.
        max_rows: Largest row group that fits into memory.

    Returns:
        None if the rows of a trajectory are not contiguous, or a row group is too large.
    """
    path, name = contents.path, _id_column(contents, options)
    with reading_as(path, "Parquet"), open_parquet(path) as parquet:
        metadata = parquet.metadata
        if name is None:
            return np.array([metadata.num_rows])
        groups = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
        if max(groups, default=0) > max_rows:
            return None
        ids, counts = [], []
        for batch in parquet.iter_batches(_BATCH_ROWS, columns=[name]):
            column = plain(plain_texts(batch, path).column(0))
            ends = pc.run_end_encode(column)
            ids.append(ends.values)
            counts.append(np.diff(np.asarray(ends.run_ends), prepend=0).astype(np.int64))
            if len(ends.values) > 0.5 * len(column) > 8:
                # Trajectories are mixed: the id changes in most rows.
                return None
        if not ids:
            return None
        values = pa.concat_arrays(ids)
        # A trajectory may continue in the next batch.
        new = np.ones(len(values), dtype=bool)
        changed = pc.not_equal(values[1:], values[:-1])
        new[1:] = np.asarray(pc.fill_null(changed, True))  # noqa: FBT003
        sizes = np.add.reduceat(np.concatenate(counts), np.flatnonzero(new))
        if pc.count_distinct(values, mode="all").as_py() != len(sizes):
            return None
    return np.asarray(sizes)


def _id_column(contents: Contents, options: ReadOptions) -> str | None:
    """Find the column of ids; None for a single trajectory."""
    given = options.names.get("id")
    for name in (given,) if given else _IDS:
        if name in contents.names:
            return str(name)
    return guess(contents.names, options.columns, source=contents.source).columns.get("id")


def partition(
    contents: Contents,
    options: ReadOptions,
    counts: tuple[int, int],
    folder: Path,
    progress: Progress | None,
) -> dict[Path, int] | None:
    """Partition rows by a hash of their ids into temporary tables, in the order of the file.

    Args:
        contents: The table.
        options: Reading options.
        counts: Largest number of temporary tables, and estimated number of rows.
        folder: Directory for the temporary tables.
        progress: Called with the stage, the number done and the total number.

    Returns:
        Each temporary table with its number of rows; None for a single trajectory.
    """
    n_parts, n_expected = counts
    column, source = _id_column(contents, options), contents.source
    if column is None:
        return None
    # Messages must show the name of the user's file.
    name = source.removesuffix(".gz")
    files = [folder / str(i) / name for i in range(n_parts)]
    n_rows, done = [0] * n_parts, 0
    is_csv = contents.container == "csv"
    try:
        with ExitStack() as stack:
            writers: dict[int, Any] = {}
            for batch in _csv_batches(contents) if is_csv else _parquet_batches(contents.path):
                names = [name.strip() for name in batch.schema.names]
                if names.count(column) != 1:
                    msg = f"{source!r} has no column {column[:40]!r}, or several of them"
                    raise DriftbayesError(msg)
                part = _hashes(batch.column(names.index(column))) % np.uint64(n_parts)
                order = np.argsort(part, kind="stable")
                sorted_batch = batch.take(pa.array(order)) if n_parts > 1 else batch
                edges = np.searchsorted(part[order], np.arange(n_parts + 1))
                for i in np.flatnonzero(np.diff(edges)).tolist():
                    rows = sorted_batch.slice(int(edges[i]), int(edges[i + 1] - edges[i]))
                    if i not in writers:
                        files[i].parent.mkdir()
                        writers[i] = stack.enter_context(_writer(files[i], batch.schema, contents))
                    writers[i].write(rows)
                    n_rows[i] += rows.num_rows
                done += batch.num_rows
                if progress is not None:
                    progress("sorting rows into blocks", done, max(n_expected, done))
    except (pa.ArrowException, OSError) as error:
        msg = f"{source!r} cannot be split into blocks: {reason(error)}; check --scratch"
        raise DriftbayesError(msg) from error
    if not done:
        msg = f"{source!r} has columns but no rows; expected one row per observation"
        raise DriftbayesError(msg)
    return {file: n for file, n in zip(files, n_rows, strict=True) if n}


def _parquet_batches(path: Path) -> Iterator[Any]:
    with open_parquet(path) as parquet:
        for batch in parquet.iter_batches(_BATCH_ROWS, use_threads=False):
            yield plain_texts(batch, path)


def _csv_batches(contents: Contents) -> Iterator[Any]:
    """Yield batches of rows of a CSV file, with all cells as text."""
    check_size(contents.path)
    layout = contents.layout or CsvLayout()
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


def _writer(file: Path, schema: Any, contents: Contents) -> Any:
    """Open a table in the same container for writing batches of rows."""
    if contents.container == "csv":
        separator = contents.layout.separator if contents.layout else ","
        options = pacsv.WriteOptions(quoting_style="needed", delimiter=separator)
        return pacsv.CSVWriter(file, schema, write_options=options)
    return pq.ParquetWriter(
        file, schema, compression="lz4", use_dictionary=False, write_statistics=False
    )


def _hashes(column: Any) -> Any:
    """Hash ids, equally in every process and batch."""
    if pa.types.is_integer(column.type) and not column.null_count:
        # The last step of splitmix64, which separates successive numbers.
        x = np.asarray(column).astype(np.uint64)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))
    text = pc.fill_null(plain(column).cast(pa.string()), "")
    encoded = pc.utf8_trim_whitespace(text).dictionary_encode()
    texts = encoded.dictionary.to_pylist()
    hashes = np.array([zlib.crc32(text.encode()) for text in texts], dtype=np.uint64)
    return hashes[np.asarray(encoded.indices)]
