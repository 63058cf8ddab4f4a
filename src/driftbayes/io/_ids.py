"""Trajectory ids in memory and in files."""

import re
from typing import Any

import numpy as np

from driftbayes._typing import StrArray
from driftbayes.errors import DriftbayesError
from driftbayes.io._limits import MAX_ID_LENGTH


class BadCellError(Exception):
    """An unusable column; the caller adds the location in the file.

    Args:
        what: What is wrong and what was expected, to follow the name of the column.
        row: Row of the first bad cell, counted from 0, or None for the whole column.
    """

    def __init__(self, what: str, row: int | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.row = row


def refuse_first(bad: np.ndarray, what: str) -> None:
    """Refuse a column with bad cells, giving the row of the first."""
    if bad.any():
        raise BadCellError(what, int(np.argmax(bad)))


def id_array(values: list[Any]) -> StrArray:
    """Convert ids for use in trajectories: an array of text or of 64-bit integers."""
    if not values or isinstance(values[0], str):
        if max(map(len, values), default=0) > MAX_ID_LENGTH:
            raise BadCellError(f"holds an id longer than {MAX_ID_LENGTH} characters; shorten it")
        return np.array(values, dtype=str)
    try:
        return np.array(values, dtype=np.int64)
    except OverflowError as error:
        raise BadCellError("holds a whole number beyond 64 bits; use text") from error


def id_values(ids: StrArray) -> StrArray:
    """Convert ids for storage in a file: an array of 64-bit integers or of text."""
    if ids.ndim == 1 and ids.dtype.kind in "iu" and (ids <= np.iinfo(np.int64).max).all():
        return ids.astype(np.int64)
    values = ids.tolist()
    if ids.ndim == 1 and all(isinstance(value, str) for value in values):
        # NetCDF ends text at its first null, and no encoding has half of a surrogate pair.
        bad = [value for value in values if re.search("[\0\ud800-\udfff]", value)]
        if bad:
            raise DriftbayesError(f"the id {bad[0]!r} has a character not allowed in files")
        if max(map(len, values), default=0) > MAX_ID_LENGTH:
            raise DriftbayesError(f"an id is longer than {MAX_ID_LENGTH} characters; shorten it")
        return np.array(values, dtype=object)
    msg = f"ids must be text or 64-bit whole numbers to be written, got {ids.dtype}; convert them"
    raise DriftbayesError(msg)
