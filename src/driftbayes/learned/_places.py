"""Start positions of displacements, as inputs of a network and as cells of a tree."""

import numpy as np

from driftbayes._typing import FloatArray
from driftbayes.data._sampling import Displacements
from driftbayes.fields._prepare import wrapped_origin


def place_inputs(data: Displacements) -> FloatArray:
    """Return continuous coordinates of order one; angles as sine and cosine.

    Longitude becomes two numbers, as does an axis along which the domain is periodic.

    Args:
        data: Displacements with positions.

    Raises:
        DriftbayesError: Start positions are missing.

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
    """Return start positions in a plane, and whether they are degrees; None in three dimensions.

    Args:
        data: Displacements with positions.
    """
    if _is_lonlat(data):
        return np.asarray(data.lonlat), True
    if data.n_dim > 2:
        return None
    places = wrapped_origin(data)
    if data.n_dim == 1:
        places = np.concatenate([places, np.zeros_like(places)], axis=1)
    return places, False


def _is_lonlat(data: Displacements) -> bool:
    """Return whether positions are used in degrees."""
    # Around a pole longitude is discontinuous; the tangent plane is not.
    return data.lonlat is not None and data.ground is not None and data.ground.frame == "local"


def _on_circle(angle: FloatArray) -> FloatArray:
    """Return sine and cosine relative to the mean direction."""
    centre = np.angle(np.exp(1j * angle).mean())
    return np.stack([np.sin(angle - centre), np.cos(angle - centre)], axis=1)


def _scaled(columns: FloatArray) -> FloatArray:
    """Centre columns and divide them by their common standard deviation."""
    columns = columns - columns.mean(axis=0)
    # Identical positions need no scaling.
    return columns / (float(np.sqrt(np.mean(columns**2))) or 1.0)
