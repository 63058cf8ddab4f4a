"""Check data and walls, and choose hypotheses and splines, for fits of fields."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from driftbayes._typing import FloatArray
from driftbayes.data._sampling import Displacements
from driftbayes.errors import DriftbayesError
from driftbayes.fields._splines import Splines

# Knot intervals along the longer side, by dimension.
_N_INTERVALS = {1: 16, 2: 8}
_MAX_COEFFICIENTS = 1200
MIN_STEPS = 20


def check_data(data: Displacements) -> None:
    """Check that fields can be fitted to the data.

    Args:
        data: Displacements.

    Raises:
        DriftbayesError: The data have more than two dimensions, irregular times, measurement
            errors, or too few steps.
    """
    if data.n_dim not in (1, 2):
        msg = f"a field needs one or two dimensions, got {data.n_dim}; read fewer with --columns"
        raise DriftbayesError(msg)
    if not data.is_regular:
        raise DriftbayesError(
            "a field is fitted to exact positions at one sampling time, but these have errors or "
            "irregular times; give a tau, and omit the errors if they are small"
        )
    if len(data.dx) < MIN_STEPS:
        msg = f"a field needs {MIN_STEPS} or more steps, got {len(data.dx)}; use a smaller tau"
        raise DriftbayesError(msg)


def chosen_hypotheses(known: Iterable[str], chosen: Sequence[str]) -> list[str]:
    """Return the names of the hypotheses to fit, the homogeneous one first.

    Args:
        known: All names, the homogeneous one first.
        chosen: Requested names.

    Raises:
        DriftbayesError: A name is unknown.
    """
    names = list(known)
    unknown = sorted(set(chosen) - set(names))
    if unknown:
        msg = f"unknown hypothesis {unknown[0]!r}; expected some of {', '.join(names)}"
        raise DriftbayesError(msg)
    return names[:1] + [name for name in names[1:] if name in chosen]


def wrapped_origin(data: Displacements) -> FloatArray:
    """Return the start positions of steps, wrapped into one period in a periodic domain.

    Args:
        data: Displacements.
    """
    out = data.origin.copy()
    for axis, period in enumerate(data.period or ()):
        if period is not None:
            out[:, axis] %= period
    return out


def make_splines(x: FloatArray, n_intervals: int | None) -> Splines:
    """Make splines on the bounding rectangle of all positions.

    Args:
        x: Positions.
        n_intervals: Knot intervals along the longer side; None for the default.

    Raises:
        DriftbayesError: The positions have no extent, or the splines are too many.
    """
    low, high = x.min(axis=0), x.max(axis=0)
    side = high - low
    if not (side > 0).all():
        msg = "all steps begin at the same coordinate of an axis, so no field can be fitted"
        raise DriftbayesError(msg)
    n = _N_INTERVALS[x.shape[1]] if n_intervals is None else n_intervals
    if n < 2:
        raise DriftbayesError(f"a field needs 2 or more intervals along its longer side, got {n}")
    counts = np.maximum(2, np.round(n * side / side.max())).astype(np.int64)
    splines = Splines(low, high, tuple(int(count) for count in counts))
    if splines.size > _MAX_COEFFICIENTS:
        raise DriftbayesError(
            f"{n} intervals make {splines.size:,} splines, more than {_MAX_COEFFICIENTS:,}; use "
            "fewer (--intervals)"
        )
    return splines


def check_walls(walls: ArrayLike, x: FloatArray, ends: FloatArray) -> FloatArray:
    """Check walls, and return them as an array (2, dim).

    Args:
        walls: Lower and upper walls.
        x: Start positions of steps.
        ends: End positions of steps.

    Raises:
        DriftbayesError: The shape is wrong, or a step begins or ends beyond the walls.
    """
    edge = np.asarray(walls, dtype=np.float64)
    if edge.shape != (2, x.shape[1]) or not (edge[1] > edge[0]).all():
        raise DriftbayesError(
            f"walls must be a lower and a higher number for each of {x.shape[1]} axes, got "
            f"{edge.tolist()}"
        )
    outside = ~np.all((x >= edge[0]) & (x <= edge[1]) & (ends >= edge[0]) & (ends <= edge[1]), 1)
    if outside.any():
        low, high = np.minimum(x, ends).min(axis=0), np.maximum(x, ends).max(axis=0)
        raise DriftbayesError(
            f"{int(outside.sum()):,} steps begin or end beyond the walls; positions span "
            f"{low.tolist()} to {high.tolist()}"
        )
    return edge
