r"""Common frame of trajectories that were converted from degrees.

Each trajectory has a plane with the origin at its first fix (`sphere.py`), which is sufficient for
steps. A flow that varies in space also needs the relative positions of the trajectories, and a mean
flow or a diffusivity tensor needs common axes.

**Positions** at which steps begin are on the tangent plane at the centre of the data: distance and
bearing from the centre (azimuthal equidistant), x to the east and y to the north.

**Axes.** East and north ("local") are common to all trajectories. Relative to straight lines they
turn by $\tan\varphi / R$ per metre to the east, for which gradients of the components are corrected
(`Ground.turning`). "Transported" axes are east and north at the first fix of each trajectory: they
are rotated to the axes of the centre, transported to the first fix along the shortest path. The
remaining angle, the area between the paths over $R^2$, is `Ground.misaligned`. If the centre lies
beyond 80 degrees, the pole is used instead, with the axes east and north of the Greenwich meridian
transported over the pole.
"""

__all__ = ["Ground", "LastFixes", "ground_of", "last_fixes", "rotated"]

from dataclasses import dataclass, replace
from typing import Any, TypeAlias, get_args
from weakref import WeakKeyDictionary

import numpy as np

from driftbayes._typing import FloatArray, IntArray
from driftbayes.data._trajectories import Trajectories
from driftbayes.data._units import is_length, length_factor
from driftbayes.data.sphere import (
    Frame,
    along_path,
    between,
    earth_radius,
    from_plane,
    points_in_space,
    rotated,
)

# Beyond this latitude, in degrees, the pole is the centre.
_POLAR = 80.0
# Relative accuracy to which positions converted from degrees reproduce the steps.
_RTOL = 1e-6


@dataclass(frozen=True)
class Ground:
    """Location and axes of displacements on the earth.

    Args:
        lon: Longitude of the centre in degrees.
        lat: Latitude of the centre in degrees.
        frame: "local" for east and north everywhere, "transported" for the axes of the centre.
        radius: Radius of the sphere in metres; None for WGS 84.
        per_metre: Length of a metre in the unit of displacements.
        misaligned: Largest angle, in radians, between the axes of a trajectory and those of the
            centre.
    """

    lon: float
    lat: float
    frame: Frame
    radius: float | None = None
    per_metre: float = 1.0
    misaligned: float = 0.0

    @property
    def earth_radius(self) -> float:
        """Radius of the earth in the unit of displacements."""
        return earth_radius(self.radius) * self.per_metre

    def at_centre_of(self, lonlat: FloatArray, weights: np.ndarray | None = None) -> "Ground":
        """Move the centre to the middle of points; transported axes keep their centre.

        Args:
            lonlat: Longitude and latitude in degrees, (point, 2).
            weights: Weight of each point.
        """
        if self.frame != "local":
            return self
        lon, lat = _middle(lonlat, weights)
        return replace(self, lon=lon, lat=lat)

    def positions(self, lonlat: FloatArray) -> FloatArray:
        """Project points on the tangent plane at the centre, in the unit of displacements.

        Args:
            lonlat: Longitude and latitude in degrees, (point, 2).
        """
        arc, bearing, _ = between(np.radians([self.lon, self.lat]), np.radians(lonlat), self.radius)
        arc = arc * self.per_metre
        return np.stack([arc * np.sin(bearing), arc * np.cos(bearing)], axis=-1)

    def in_space(self, lonlat: FloatArray) -> FloatArray:
        """Return points in three dimensions, (point, 3), in the unit of displacements.

        Args:
            lonlat: Longitude and latitude in degrees, (point, 2).
        """
        lon, lat = np.radians(lonlat).T
        return np.asarray(self.per_metre * points_in_space(lon, lat, self.radius)[1].T)

    def lonlat(self, position: FloatArray) -> FloatArray:
        """Return longitude and latitude in degrees of a point on the tangent plane.

        Args:
            position: Position in the unit of displacements.
        """
        path = np.stack([np.zeros(2), np.asarray(position) / self.per_metre])[None]
        start = np.array([[self.lon, self.lat]])
        return from_plane(start, path, frame="transported", radius=self.radius)[0, 1]

    def turning(self, lat: float) -> float:
        """Return the angle by which the axes turn clockwise per length to the east.

        Args:
            lat: Latitude in degrees.
        """
        if self.frame != "local":
            return 0.0
        return float(np.tan(np.radians(lat)) / self.earth_radius)


@dataclass(frozen=True, eq=False)
class LastFixes:
    """Last fixes of trajectories, from which predicted positions are converted to degrees.

    Args:
        positions: Position of each last fix on the plane of its trajectory.
        lonlat: Longitude and latitude of each last fix in degrees.
        turned: Bearing of the y axis of each plane there, in radians.
        ground: Frame, radius and unit.
    """

    positions: FloatArray
    lonlat: FloatArray
    turned: FloatArray
    ground: Ground

    def to_lonlat(self, positions: FloatArray) -> FloatArray:
        """Return longitude and latitude in degrees of paths that continue from the last fixes.

        Longitudes run from 0 to 360 if any of the last fixes exceeds 180.

        Args:
            positions: Positions on the plane of each trajectory, (member, trajectory, time, 2).
        """
        n_members = len(positions)
        fixes = np.broadcast_to(self.positions[:, None], (*positions.shape[:2], 1, 2))
        paths = np.concatenate([fixes, positions], axis=2) / self.ground.per_metre
        found = from_plane(
            np.tile(self.lonlat, (n_members, 1)),
            paths.reshape(-1, *paths.shape[2:]),
            frame=self.ground.frame,
            turned=np.tile(self.turned, n_members),
            radius=self.ground.radius,
        )
        if (self.lonlat[:, 0] > 180).any():
            found[..., 0] %= 360.0
        return found[:, 1:].reshape(positions.shape)


@dataclass(frozen=True, eq=False)
class _Planes:
    """Orientation of the planes of trajectories on the earth."""

    rows: IntArray  # observed fixes
    first: IntArray  # index into `rows` of the first fix of each trajectory
    last: IntArray  # index into `rows` of the last fix of each trajectory
    carried: FloatArray  # bearing of the y axis at each fix; zero for east and north
    ground: Ground  # centre, frame, radius and unit


_Found: TypeAlias = tuple[Ground, FloatArray | None] | None
_GROUNDS: WeakKeyDictionary[Trajectories, _Found] = WeakKeyDictionary()


def ground_of(trajectories: Trajectories) -> tuple[Ground, FloatArray | None] | None:
    """Find the common frame of trajectories, and the angle that rotates each into it.

    Args:
        trajectories: Positions of the particles.

    Returns:
        None if the positions share a plane already. The angles are added to bearings; None if
        there is no rotation.
    """
    # Cached, since a scan asks at every sampling time.
    if trajectories not in _GROUNDS:
        _GROUNDS[trajectories] = _common_frame(trajectories)
    return _GROUNDS[trajectories]


def _common_frame(trajectories: Trajectories) -> _Found:
    planes = _planes(trajectories)
    if planes is None:
        return None
    ground = planes.ground
    if ground.frame == "local":
        return ground, None
    assert trajectories.lonlat is not None
    lonlat = np.radians(trajectories.lonlat[planes.rows])
    _, _, turned = between(np.radians([ground.lon, ground.lat]), lonlat, ground.radius)
    # At each fix, the bearing of the plane's y axis less that of the centre's, carried there.
    excess = planes.carried - turned
    angles = excess[planes.first]
    sizes = planes.last - planes.first + 1
    off = (excess - np.repeat(angles, sizes) + np.pi) % (2 * np.pi) - np.pi
    return replace(ground, misaligned=float(np.abs(off).max(initial=0.0))), angles


def last_fixes(trajectories: Trajectories) -> LastFixes | None:
    """Find the last fixes on the earth; None if positions were not converted from degrees.

    Args:
        trajectories: Positions of the particles.
    """
    planes = _planes(trajectories)
    if planes is None:
        return None
    assert trajectories.lonlat is not None
    rows = planes.rows[planes.last]
    return LastFixes(
        trajectories.positions[rows],
        trajectories.lonlat[rows],
        planes.carried[planes.last],
        planes.ground,
    )


def _planes(trajectories: Trajectories) -> _Planes | None:
    lonlat, (rows, same) = trajectories.lonlat, trajectories.fixes
    if lonlat is None or trajectories.n_dim != 2 or not np.isfinite(lonlat[rows]).all():
        return None
    last = np.append(np.flatnonzero(~same), len(rows) - 1)
    first = np.concatenate([[0], last[:-1] + 1])
    if len(first) != trajectories.n_trajectories:
        # Trajectories without a position are refused later.
        return None
    frame, radius = _stored(trajectories.provenance.get("plane"))
    x = trajectories.positions[rows]
    if frame is None:
        # A table without provenance: converted trajectories start at the origin.
        if x[first].any() or len(rows) == len(first):
            return None
        frame, per_metre = _fitting_frame(lonlat[rows], np.diff(x, axis=0), same)
        if frame is None:
            return None
    else:
        unit = trajectories.length_unit
        per_metre = length_factor("m", unit)[0] if is_length(unit) else 1.0
    # In the local frame, each set of displacements later gets its own centre.
    ground = Ground(
        *_middle(lonlat[rows if frame == "transported" else rows[first]]), frame, radius, per_metre
    )
    carried = np.zeros(len(rows))
    if frame == "transported":
        if abs(ground.lat) > _POLAR:
            ground = replace(ground, lon=0.0, lat=float(np.copysign(90.0, ground.lat)))
        steps, carried = along_path(lonlat[rows], same, radius, frame)
        # If the beginning of a trajectory was cut off, its axes have turned already.
        products = _complex(np.diff(x, axis=0)) * _complex(steps).conj()
        sums = np.add.reduceat(np.append(np.where(same, products, 0.0), 0.0), first)
        carried = carried + np.repeat(np.angle(sums), last - first + 1)
    return _Planes(rows, first, last, carried, ground)


def _stored(plane: Any) -> tuple[Frame | None, float | None]:
    """Read frame and radius as `on_plane` recorded them."""
    if not isinstance(plane, dict) or plane.get("frame") not in ("local", "transported"):
        return None, None
    radius = plane.get("radius")
    return plane["frame"], float(radius) if isinstance(radius, int | float) else None


def _fitting_frame(
    lonlat: FloatArray, dx: FloatArray, same: np.ndarray
) -> tuple[Frame | None, float]:
    """Find the frame in which the degrees give these steps, if any, and the length of a metre."""
    own = _complex(dx[same])
    for frame in get_args(Frame)[1:]:
        steps = _complex(along_path(lonlat, same, None, frame)[0][same])
        power = float(np.sum(np.abs(steps) ** 2))
        scale = float(np.sum((steps.conj() * own).real)) / power if power > 0 else 0.0
        if scale > 0 and np.sum(np.abs(own / scale - steps) ** 2) < _RTOL**2 * power:
            return frame, scale
    return None, 1.0


def _middle(lonlat: FloatArray, weights: np.ndarray | None = None) -> tuple[float, float]:
    """Return longitude and latitude in degrees of the middle of points on a sphere."""
    lon, lat = np.radians(lonlat).T
    up = np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)])
    x, y, z = np.average(up, axis=1, weights=weights)
    return float(np.degrees(np.arctan2(y, x))), float(np.degrees(np.arctan2(z, np.hypot(x, y))))


def _complex(steps: FloatArray) -> np.ndarray:
    return np.asarray(steps[:, 0] + 1j * steps[:, 1])
