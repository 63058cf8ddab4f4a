"""Drifters on a sphere, moved as vectors in space: no map, no bearings, no longitudes."""

import numpy as np

R = 6371000.0


def axes_at(lon, lat):
    """Unit vectors up, east and north."""
    lon, lat = np.radians(lon), np.radians(lat)
    up = np.array([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)])
    east = np.array([-np.sin(lon), np.cos(lon), 0.0])
    return up, east, np.cross(up, east)


def points(lonlat):
    """Unit vectors from longitude and latitude in degrees."""
    lon, lat = np.radians(lonlat[..., 0]), np.radians(lonlat[..., 1])
    return np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], -1)


def lonlat_of(p):
    """Longitude and latitude in degrees from unit vectors."""
    lat = np.arctan2(p[..., 2], np.hypot(p[..., 0], p[..., 1]))
    return np.degrees(np.stack([np.arctan2(p[..., 1], p[..., 0]), lat], -1))


def moved(p, v):
    """Along the great circle that starts as v, as far as v is long in metres."""
    angle = np.linalg.norm(v, axis=-1, keepdims=True) / R
    return p * np.cos(angle) + v / R * np.sinc(angle / np.pi)


def carried(vector, c, p):
    """A tangent vector at c, carried to p along the great circle without turning."""
    axis, cos = np.cross(c, p), np.sum(c * p, -1, keepdims=True)
    return (
        vector * cos
        + np.cross(axis, vector)
        + axis * np.sum(axis * vector, -1, keepdims=True) / (1 + cos)
    )


def on_tangent_plane(p, lon, lat):
    """Distance and direction of points from a centre, as metres to the east and to the north."""
    up, east, north = axes_at(lon, lat)
    cos = p @ up
    flat = p - cos[..., None] * up
    sin = np.linalg.norm(flat, axis=-1)
    size = R * np.arctan2(sin, cos) / np.where(sin > 0, sin, 1.0)
    return np.stack([flat @ east, flat @ north], -1) * size[..., None]


def components(v, p, lon, lat):
    """Of tangent vectors at p along the axes of a centre, carried to p."""
    up, east, north = axes_at(lon, lat)
    axes = (carried(np.broadcast_to(axis, p.shape), up, p) for axis in (east, north))
    return np.stack([np.sum(v * axis, -1) for axis in axes], -1)


def drifters(lon, lat, *, flow=(0.0, 0.0), gradient=((0, 0), (0, 0)), kappa=100.0, **shape):
    """Longitudes and latitudes (particle, time, 2) in a flow that is linear around a centre.

    Components of the flow are along the centre's east and north, carried to the drifter, and linear
    in its position on the tangent plane; each step is one of Euler's scheme, on a great circle.
    `kappa` may be a pair, one along each of these axes.
    """
    n, n_steps, dt = shape.get("n", 100), shape.get("n_steps", 60), shape.get("dt", 21600.0)
    rng = np.random.default_rng(shape.get("seed", 0))
    up, east, north = axes_at(lon, lat)
    kick = np.sqrt(2 * np.broadcast_to(kappa, 2) * dt)
    start = shape.get("spread", 1e5) * rng.standard_normal((n, 2))
    p = moved(np.tile(up, (n, 1)), start @ np.stack([east, north]))
    path = [p]
    for _ in range(n_steps):
        x = on_tangent_plane(p, lon, lat)
        step = (np.asarray(flow) + x @ np.asarray(gradient).T) * dt
        step += kick * rng.standard_normal((n, 2))
        axes = [carried(np.broadcast_to(axis, p.shape), up, p) for axis in (east, north)]
        p = moved(p, step[:, :1] * axes[0] + step[:, 1:] * axes[1])
        path.append(p)
    return lonlat_of(np.stack(path, 1))
