r"""Conversion of longitude and latitude to a plane, by adding local steps along each trajectory.

The step from $p_1$ to $p_2$ on the ellipsoid is their chord, resolved along east and north at the
midpoint and stretched to the length of its arc. No map projection is involved: diffusivities need
no scale factor, and the dateline and the poles need no special treatment.
"""

__all__ = [
    "FRAMES",
    "Frame",
    "along_path",
    "between",
    "earth_radius",
    "from_plane",
    "metres_per_degree",
    "on_plane",
    "rotated",
]

from dataclasses import replace
from typing import Literal, get_args

import numpy as np

from driftbayes._typing import FloatArray
from driftbayes.data._trajectories import Trajectories, running_sum
from driftbayes.errors import DriftbayesError, warn

Frame = Literal["auto", "local", "transported"]
FRAMES: tuple[Frame, ...] = get_args(Frame)

# WGS 84: semi-major axis in metres, and flattening.
_SEMI_MAJOR, _FLATTENING = 6378137.0, 1 / 298.257223563
# Beyond this latitude, in degrees, east and north turn too much along a path.
_POLAR = 80.0
# Resolution of positions, in metres, and of angles, in radians: powers of two.
_GRAIN, _TURN_GRAIN = 2.0**-20, 2.0**-40
# A longer step, in metres, is not local.
_LONG_STEP = 5e5
# Tolerance of the inverse projection of a step, in metres, and maximum number of corrections.
_TOLERANCE, _MAX_ITERATIONS = 1e-6, 60


def on_plane(
    trajectories: Trajectories, *, frame: Frame = "auto", radius: float | None = None
) -> Trajectories:
    """Convert trajectories in degrees to metres on a plane.

    Positions are sums of local steps from the first fix of each trajectory. Displacements are
    therefore additive, as in the models.

    Args:
        trajectories: Positions are longitude and latitude in degrees; longitudes may run from -180
            or from 0, and jump at the dateline.
        frame: Axes along which steps are resolved. "local": east and north at each step, so that x
            is zonal and y meridional everywhere. "transported": east and north at the first fix,
            parallel-transported along the path; for polar regions, where east and north turn along
            a straight path. "auto": "transported" if any fix lies beyond 80 degrees.
        radius: Radius of a spherical earth in metres, as in some models; None for WGS 84.
    """
    if trajectories.n_dim != 2:
        raise DriftbayesError(
            f"longitude and latitude are two coordinates, got {trajectories.n_dim}; "
            "leave out the rest"
        )
    if frame not in FRAMES:
        raise DriftbayesError(f"frame must be {', '.join(map(repr, FRAMES))}, got {frame!r}")
    rows, same = trajectories.fixes
    lon, lat = trajectories.positions[rows].T
    _check(lon, lat)
    polar = bool((np.abs(lat) > _POLAR).any())
    if frame == "auto":
        frame = "transported" if polar else "local"
    elif frame == "local" and polar:
        warn(
            f"latitudes up to {np.abs(lat).max():.1f} degrees, where east and north turn along a "
            "path; use the transported frame (--frame transported)"
        )
    steps, _ = along_path(trajectories.positions[rows], same, radius, frame)
    longest = float(np.hypot(*steps.T).max(initial=0.0))
    if longest > _LONG_STEP:
        warn(
            f"a step of {longest / 1000:.0f} km between two positions is not local; its direction "
            "is that at its midpoint. Look for a wrong position or a long gap"
        )
    positions = np.full(trajectories.positions.shape, np.nan)
    # Sums of whole numbers of micrometres are exact, so that a trajectory does not depend on those
    # before it in the file.
    whole = np.round(steps / _GRAIN).astype(np.int64)
    positions[rows] = running_sum(whole, same) * _GRAIN
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
        raise DriftbayesError(
            f"a latitude of {lat[np.argmax(np.abs(lat))]:g} degrees is beyond the pole; "
            "check that the columns are longitude and latitude, in this order, in degrees"
        )
    if (np.abs(lon) > 720).any():
        raise DriftbayesError(
            f"a longitude of {lon[np.argmax(np.abs(lon))]:g} is not in degrees; "
            "check the columns, and whether these are metres"
        )


def earth_radius(radius: float | None) -> float:
    """Return the radius of the sphere in metres; for WGS 84, the equatorial radius."""
    return _SEMI_MAJOR if radius is None else radius


def metres_per_degree(
    lat: FloatArray, radius: float | None = None
) -> tuple[FloatArray, FloatArray]:
    """Compute the length of a degree of longitude and of latitude, in metres.

    Args:
        lat: Latitudes in degrees.
        radius: Radius of a sphere in metres; None for WGS 84.
    """
    semi_major, eccentricity_2 = _ellipsoid(radius)
    phi = np.radians(lat)
    part = 1 - eccentricity_2 * np.sin(phi) ** 2
    east = semi_major * np.cos(phi) / np.sqrt(part)
    north = semi_major * (1 - eccentricity_2) / part**1.5
    return np.radians(east), np.radians(north)


def _ellipsoid(radius: float | None) -> tuple[float, float]:
    """Return the semi-major axis in metres and the squared eccentricity."""
    return (_SEMI_MAJOR, _FLATTENING * (2 - _FLATTENING)) if radius is None else (radius, 0.0)


def between(
    start: FloatArray, end: FloatArray, radius: float | None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Compute lengths and bearings of the steps between points.

    Args:
        start: Longitude and latitude in radians, (point, 2); one point or many.
        end: As many points.
        radius: As for `on_plane`.

    Returns:
        Length of the arc in metres, its bearing at the start, and the increase of the bearing from
        start to end.
    """
    start, end = np.broadcast_arrays(np.atleast_2d(start), np.atleast_2d(end))
    up, x = points_in_space(start[:, 0], start[:, 1], radius)
    other_up, other_x = points_in_space(end[:, 0], end[:, 1], radius)
    chord = other_x - x
    bearing = _bearing(chord, up)
    return _arc(chord, radius), bearing, _wrapped(_bearing(chord, other_up) - bearing)


def along_path(
    lonlat: FloatArray, same: np.ndarray, radius: float | None, frame: Frame
) -> tuple[FloatArray, FloatArray]:
    """Compute steps between successive fixes, and the angle of their axes.

    Args:
        lonlat: Longitude and latitude in degrees of successive fixes, path after path.
        same: Whether each fix and the next belong to one path.
        radius: As for `on_plane`.
        frame: "local" or "transported".

    Returns:
        Steps in metres along the axes of the frame, and the bearing of the y axis at each fix.
    """
    lon, lat = np.radians(lonlat).T
    steps, turns = _steps(lon, lat, radius, frame)
    steps[~same] = 0.0
    return _transported(steps, turns, same) if frame == "transported" else (steps, 0 * lonlat[:, 0])


def from_plane(
    start: FloatArray,
    paths: FloatArray,
    *,
    frame: Frame,
    turned: FloatArray | float = 0.0,
    radius: float | None = None,
) -> FloatArray:
    """Compute longitude and latitude of paths on the plane, the inverse of `on_plane`.

    Args:
        start: Longitude and latitude of the first point of each path in degrees, (path, 2).
        paths: Positions on the plane in metres, (path, time, 2).
        frame: Axes along which steps were resolved, "local" or "transported".
        turned: Bearing of the transported y axis at each start, in radians.
        radius: As for `on_plane`.

    Returns:
        Longitude from -180 to 180 and latitude in degrees, (path, time, 2).
    """
    here = np.radians(np.asarray(start, dtype=np.float64))
    angle = np.broadcast_to(np.asarray(turned, dtype=np.float64), len(here)).copy()
    found = np.empty((*paths.shape[:2], 2))
    found[:, 0] = here
    for time in range(1, paths.shape[1]):
        step = paths[:, time] - paths[:, time - 1]
        if frame == "transported":
            step = rotated(step, angle)
        there = _moved(here, step, radius, frame)
        if frame == "transported":
            angle += between(here, there, radius)[2]
        found[:, time] = here = there
    return np.degrees(found)


def _moved(here: FloatArray, step: FloatArray, radius: float | None, frame: Frame) -> FloatArray:
    """Compute the end points of steps, the inverse of `_steps`."""
    up, _ = points_in_space(here[:, 0], here[:, 1], radius)
    east, north = _east_north(up)
    guess = step.copy()
    for _ in range(_MAX_ITERATIONS):
        length = np.hypot(*guess.T)
        heading = (east * guess[:, 0] + north * guess[:, 1]) / np.where(length > 0, length, 1.0)
        angle = length / earth_radius(radius)
        point = up * np.cos(angle) + heading * np.sin(angle)
        # The arcsine would lose digits at a pole.
        lat = np.arctan2(point[2], np.hypot(point[0], point[1]))
        there = np.stack([np.arctan2(point[1], point[0]), lat], axis=-1)
        # Every other step belongs to a particle; the rest lead to the next particle.
        lon, lat = np.stack([here, there], axis=1).reshape(-1, 2).T
        error = step - _steps(lon, lat, radius, frame)[0][::2]
        if np.hypot(*error.T).max(initial=0.0) < _TOLERANCE:
            return there
        guess += error
    raise DriftbayesError(
        "positions predicted along east and north are too close to a pole, or too far away, to "
        "have a longitude and latitude; use the transported frame (--frame transported), or "
        "shorter horizons"
    )


def points_in_space(
    lon: FloatArray, lat: FloatArray, radius: float | None
) -> tuple[FloatArray, FloatArray]:
    """Compute the vertical at points, and the points in metres, (axis, point)."""
    semi_major, eccentricity_2 = _ellipsoid(radius)
    cos_lat, sin_lat = np.cos(lat), np.sin(lat)
    up = np.stack([cos_lat * np.cos(lon), cos_lat * np.sin(lon), sin_lat])
    normal = semi_major / np.sqrt(1 - eccentricity_2 * sin_lat**2)
    return up, np.stack([*(up[:2] * normal), sin_lat * normal * (1 - eccentricity_2)])


def _arc(chord: FloatArray, radius: float | None) -> FloatArray:
    """Compute lengths of arcs from chords, on a sphere: 130 m are added to 500 km."""
    semi_major = earth_radius(radius)
    half = np.minimum(0.5 * np.sqrt(_dot(chord, chord)) / semi_major, 1.0)
    return np.asarray(2 * semi_major * np.arcsin(half))


def _steps(
    lon: FloatArray, lat: FloatArray, radius: float | None, frame: Frame
) -> tuple[FloatArray, FloatArray]:
    """Compute steps between successive points, and the change of bearing along each.

    Steps are resolved along east and north: in the local frame at their midpoint, in the
    transported frame at their start.
    """
    up, x = points_in_space(lon, lat, radius)
    chord = np.diff(x, axis=1)
    arc = _arc(chord, radius)
    if frame == "local":
        bearing = _bearing(chord, up[:, 1:] + up[:, :-1])
        turn = np.zeros_like(bearing)
    else:
        bearing = _bearing(chord, up[:, :-1])
        turn = _wrapped(_bearing(chord, up[:, 1:]) - bearing)
    return np.stack([arc * np.sin(bearing), arc * np.cos(bearing)], axis=-1), turn


def _bearing(direction: FloatArray, up: FloatArray) -> FloatArray:
    """Return the angle of a direction from north towards east, where `up` is the vertical."""
    east, north = _east_north(up)
    return np.arctan2(_dot(direction, east), _dot(direction, north))


def _east_north(up: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return unit vectors to the east and to the north."""
    flat = np.hypot(up[0], up[1])
    # East is undefined at a pole: use the y axis.
    at_pole = flat < 1e-12
    safe = np.where(at_pole, 1.0, flat)
    east = np.stack([-up[1] / safe, up[0] / safe, np.zeros_like(flat)])
    east[:, at_pole] = np.array([[0.0], [1.0], [0.0]])
    north = np.cross(up, east, axis=0)
    north /= np.sqrt(_dot(north, north))
    return east, north


def _transported(
    steps: FloatArray, turns: FloatArray, same: np.ndarray
) -> tuple[FloatArray, FloatArray]:
    """Resolve steps along transported axes; also return the angle of the axes at each point."""
    whole = np.round(np.where(same, turns, 0.0) / _TURN_GRAIN).astype(np.int64)
    angle = running_sum(whole, same) * _TURN_GRAIN
    return rotated(steps, -angle[:-1]), angle


def rotated(steps: FloatArray, angle: FloatArray) -> FloatArray:
    """Rotate steps clockwise by an angle.

    Args:
        steps: East and north, (step, 2).
        angle: Angle for each step, in radians.
    """
    cos, sin = np.cos(angle), np.sin(angle)
    x, y = steps.T
    return np.stack([x * cos + y * sin, y * cos - x * sin], axis=-1)


def _wrapped(angle: FloatArray) -> FloatArray:
    """Wrap angles to [-π, π)."""
    return np.asarray((angle + np.pi) % (2 * np.pi) - np.pi)


def _dot(a: FloatArray, b: FloatArray) -> FloatArray:
    return np.asarray(np.sum(a * b, axis=0))
