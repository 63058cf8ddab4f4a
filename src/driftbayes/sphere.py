r"""From longitude and latitude to a plane: local steps, added up along each trajectory.

The step from $p_1$ to $p_2$ on the ellipsoid is their chord, resolved along east and north at the
point between them and stretched to the length of its arc. No map projection is involved, so that
no scale factor enters a diffusivity; the dateline and the poles are places like any other.
"""

__all__ = ["FRAMES", "Frame", "on_plane"]

import warnings
from dataclasses import replace
from typing import Literal, get_args

import numpy as np

from driftbayes.errors import DriftbayesError, DriftbayesWarning
from driftbayes.trajectories import Trajectories
from driftbayes.typing import FloatArray

Frame = Literal["auto", "local", "transported"]
FRAMES: tuple[Frame, ...] = get_args(Frame)

# WGS 84: half the equatorial diameter in metres, and the flattening.
_SEMI_MAJOR, _FLATTENING = 6378137.0, 1 / 298.257223563
# Beyond this latitude, in degrees, east and north turn too much along a path.
_POLAR = 80.0
# Smallest part of a position, in metres, a power of two.
_GRAIN = 2.0**-20
# And of an angle, in radians.
_TURN_GRAIN = 2.0**-40
# A longer step, in metres, is no longer local.
_LONG_STEP = 5e5


def on_plane(
    trajectories: Trajectories, *, frame: Frame = "auto", radius: float | None = None
) -> Trajectories:
    """Trajectories in metres from trajectories in degrees.

    Positions are sums of local steps from the first fix of each trajectory, so that the
    displacement over any time is the sum of those over its parts, as the models have it.

    Args:
        trajectories: Positions are longitude and latitude in degrees; longitudes may run from -180
            or from 0, and jump at the dateline.
        frame: Along which axes steps are resolved. "local": east and north at each step, so that x
            is zonal and y meridional everywhere. "transported": axes carried along the path without
            turning, east and north where it starts; for the neighbourhood of the poles, where east
            and north turn under a particle that goes straight on. "auto" transports if any fix lies
            beyond 80 degrees.
        radius: Of a sphere, in metres, for models whose earth is one; None for WGS 84.
    """
    if trajectories.n_dim != 2:
        msg = (
            f"longitude and latitude are two coordinates, got {trajectories.n_dim}; "
            "leave out the rest"
        )
        raise DriftbayesError(msg)
    if frame not in FRAMES:
        msg = f"frame must be {', '.join(map(repr, FRAMES))}, got {frame!r}"
        raise DriftbayesError(msg)
    rows = np.flatnonzero(trajectories.observed)
    lon, lat = trajectories.positions[rows].T
    _check(lon, lat)
    polar = bool((np.abs(lat) > _POLAR).any())
    if frame == "auto":
        frame = "transported" if polar else "local"
    elif frame == "local" and polar:
        warnings.warn(
            f"latitudes up to {np.abs(lat).max():.1f} degrees, where east and north turn along a "
            "path; use the transported frame (--frame transported)",
            DriftbayesWarning,
            stacklevel=2,
        )
    same = np.diff(trajectories.trajectory_index[rows]) == 0
    steps, turns = _steps(np.radians(lon), np.radians(lat), radius, frame)
    steps[~same] = 0.0
    longest = float(np.hypot(*steps.T).max(initial=0.0))
    if longest > _LONG_STEP:
        warnings.warn(
            f"a step of {longest / 1000:.0f} km between two fixes: it is no longer local, and its "
            "direction is that at its middle; look for a wrong fix, or for a long gap",
            DriftbayesWarning,
            stacklevel=2,
        )
    if frame == "transported":
        steps = _transported(steps, turns, same)
    positions = np.full(trajectories.positions.shape, np.nan)
    # In whole numbers of micrometres: their sums are exact, so that a trajectory is the same to the
    # last bit whatever others stand before it in the file.
    whole = np.round(steps / _GRAIN).astype(np.int64)
    total = np.concatenate([[[0, 0]], np.cumsum(whole, axis=0)])
    firsts = np.flatnonzero(np.concatenate([[True], ~same]))
    total -= np.repeat(total[firsts], np.diff(np.append(firsts, len(rows))), axis=0)
    positions[rows] = total * _GRAIN
    return replace(
        trajectories,
        positions=positions,
        lonlat=trajectories.positions,
        length_unit="m",
        provenance={
            **trajectories.provenance,
            "plane": {"frame": frame, "radius": radius if radius is not None else "WGS 84"},
        },
    )


def _check(lon: FloatArray, lat: FloatArray) -> None:
    if (np.abs(lat) > 90).any():
        msg = (
            f"a latitude of {lat[np.argmax(np.abs(lat))]:g} degrees is beyond the pole; "
            "check that the columns are longitude and latitude, in this order, in degrees"
        )
        raise DriftbayesError(msg)
    if (np.abs(lon) > 720).any():
        msg = (
            f"a longitude of {lon[np.argmax(np.abs(lon))]:g} is no number of degrees; "
            "check the columns, and whether these are metres"
        )
        raise DriftbayesError(msg)


def _steps(
    lon: FloatArray, lat: FloatArray, radius: float | None, frame: Frame
) -> tuple[FloatArray, FloatArray]:
    """Steps between successive points, and how far each turns its direction against north.

    They are resolved along east and north where the frame asks for it: at their middle, or at their
    start if the axes are then carried on along the path.
    """
    semi_major, flattening = (_SEMI_MAJOR, _FLATTENING) if radius is None else (radius, 0.0)
    squared = flattening * (2 - flattening)
    cos_lat, sin_lat = np.cos(lat), np.sin(lat)
    up = np.stack([cos_lat * np.cos(lon), cos_lat * np.sin(lon), sin_lat])
    normal = semi_major / np.sqrt(1 - squared * sin_lat**2)
    chord = np.diff(np.stack([*(up[:2] * normal), sin_lat * normal * (1 - squared)]), axis=1)
    # The arc is that of a sphere of the size of the earth: of 500 km it adds 130 m to the chord.
    length = np.sqrt(_dot(chord, chord))
    half = np.minimum(0.5 * length / semi_major, 1.0)
    arc = 2 * semi_major * np.arcsin(half)
    if frame == "local":
        bearing = _bearing(chord, up[:, 1:] + up[:, :-1])
        turn = np.zeros_like(bearing)
    else:
        bearing = _bearing(chord, up[:, :-1])
        turn = _bearing(chord, up[:, 1:]) - bearing
    return np.stack([arc * np.sin(bearing), arc * np.cos(bearing)], axis=-1), turn


def _bearing(direction: FloatArray, up: FloatArray) -> FloatArray:
    """Angle of a direction from north towards east, where `up` is the vertical."""
    flat = np.hypot(up[0], up[1])
    # At a pole every direction is south: any east will do, as long as it is always the same.
    at_pole = flat < 1e-12
    safe = np.where(at_pole, 1.0, flat)
    east = np.stack([-up[1] / safe, up[0] / safe, np.zeros_like(flat)])
    east[:, at_pole] = np.array([[0.0], [1.0], [0.0]])
    north = np.cross(up, east, axis=0)
    north /= np.sqrt(_dot(north, north))
    return np.arctan2(_dot(direction, east), _dot(direction, north))


def _transported(steps: FloatArray, turns: FloatArray, same: np.ndarray) -> FloatArray:
    """Steps along axes that are carried along the path: bearings less all turns before."""
    whole = np.round(np.where(same, turns, 0.0) / _TURN_GRAIN).astype(np.int64)
    before = np.concatenate([[0], np.cumsum(whole)])
    firsts = np.flatnonzero(np.concatenate([[True], ~same]))
    own = np.repeat(before[firsts], np.diff(np.append(firsts, len(same) + 1)))
    angle = (before - own)[:-1] * _TURN_GRAIN
    cos, sin = np.cos(angle), np.sin(angle)
    x, y = steps.T
    return np.stack([x * cos - y * sin, x * sin + y * cos], axis=-1)


def _dot(a: FloatArray, b: FloatArray) -> FloatArray:
    return np.asarray(np.sum(a * b, axis=0))
