"""Ids of trajectories, in memory and as files hold them."""

import re
from typing import Any

import numpy as np

from driftbayes.errors import DriftbayesError
from driftbayes.io.limits import MAX_ID_LENGTH
from driftbayes.typing import StrArray


class BadCellError(Exception):
    """A column that cannot be used; the caller knows how to name the place in its file.

    Args:
        what: What is wrong and what was expected, to follow the name of the column.
        row: Row of the first bad cell, counted from 0, or None if it is the whole column.
    """

    def __init__(self, what: str, row: int | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.row = row


def refuse_first(bad: np.ndarray, what: str) -> None:
    """Refuse a column of which some cells are bad, with the row of the first."""
    if bad.any():
        raise BadCellError(what, int(np.argmax(bad)))


def id_array(values: list[Any]) -> StrArray:
    """Ids as trajectories hold them: an array of text, or of 64-bit integers."""
    if not values or isinstance(values[0], str):
        if max(map(len, values), default=0) > MAX_ID_LENGTH:
            msg = f"holds an id of more than {MAX_ID_LENGTH} characters; use shorter ones"
            raise BadCellError(msg)
        return np.array(values, dtype=str)
    try:
        return np.array(values, dtype=np.int64)
    except OverflowError as error:
        raise BadCellError("holds a whole number beyond 64 bits; use text") from error


def id_values(ids: StrArray) -> StrArray:
    """Ids as a file can hold them: an array of 64-bit integers, or of text."""
    if ids.ndim == 1 and ids.dtype.kind in "iu" and (ids <= np.iinfo(np.int64).max).all():
        return ids.astype(np.int64)
    values = ids.tolist()
    if ids.ndim == 1 and all(isinstance(value, str) for value in values):
        # NetCDF ends a text at its first null, and no encoding has half of a surrogate pair.
        bad = [value for value in values if re.search("[\0\ud800-\udfff]", value)]
        if bad:
            msg = f"the id {bad[0]!r} has a character that no file can hold; rename it"
            raise DriftbayesError(msg)
        if max(map(len, values), default=0) > MAX_ID_LENGTH:
            msg = f"an id has more than {MAX_ID_LENGTH} characters; use shorter ones"
            raise DriftbayesError(msg)
        return np.array(values, dtype=object)
    msg = f"ids must be text or 64-bit whole numbers to be written, got {ids.dtype}; convert them"
    raise DriftbayesError(msg)
