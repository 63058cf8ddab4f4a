"""Places where displacements begin, as inputs of a network and as cells of a tree."""

__all__ = ["cell_places", "place_inputs"]

import numpy as np

from driftbayes.data.sampling import Displacements
from driftbayes.typing import FloatArray


def place_inputs(data: Displacements) -> FloatArray:
    """Coordinates in which nothing jumps: angles by their sine and cosine, all of order one.

    Longitude becomes two numbers, and so does an axis along which the domain is periodic.

    Args:
        data: Displacements whose positions are known.

    Raises:
        DriftbayesError: It is not known where the steps begin.

    Example:
        >>> from driftbayes import Displacements
        >>> data = Displacements.from_array([[[1.0], [2.0]]], 1.0, start=[[0.0]], period=[4.0])
        >>> place_inputs(data).shape
        (2, 2)
    """
    if _is_lonlat(data):
        lonlat = np.radians(np.asarray(data.lonlat))
        columns = [_on_circle(lonlat[:, 0]), _scaled(lonlat[:, 1:])]
    else:
        periods = data.period or (None,) * data.n_dim
        columns = [
            _scaled(x[:, None]) if length is None else _on_circle(2 * np.pi * x / length)
            for x, length in zip(data.origin.T, periods, strict=True)
        ]
    return np.concatenate(columns, axis=1)


def cell_places(data: Displacements) -> tuple[FloatArray, bool] | None:
    """Places of steps in a plane, and whether these are degrees; None in three dimensions.

    Args:
        data: Displacements whose positions are known.
    """
    if _is_lonlat(data):
        return np.asarray(data.lonlat), True
    if data.n_dim > 2:
        return None
    places = data.origin.copy()
    for axis, length in enumerate(data.period or ()):
        if length is not None:
            places[:, axis] %= length
    if data.n_dim == 1:
        places = np.concatenate([places, np.zeros_like(places)], axis=1)
    return places, False


def _is_lonlat(data: Displacements) -> bool:
    # Around a pole, where axes are transported, longitude jumps; the tangent plane does not.
    return data.lonlat is not None and data.ground is not None and data.ground.frame == "local"


def _on_circle(angle: FloatArray) -> FloatArray:
    """Sine and cosine, counted from the mean direction."""
    centre = np.angle(np.exp(1j * angle).mean())
    return np.stack([np.sin(angle - centre), np.cos(angle - centre)], axis=1)


def _scaled(columns: FloatArray) -> FloatArray:
    columns = columns - columns.mean(axis=0)
    # All at one place there is nothing to scale.
    return columns / (float(np.sqrt(np.mean(columns**2))) or 1.0)
