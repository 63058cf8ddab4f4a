"""Trajectories from degrees in one frame, and back from planes to degrees."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from test_sphere import vincenty

from driftbayes import DriftbayesError, Trajectories
from driftbayes.data._sampling import displacements, subset
from driftbayes.data.sphere import from_plane, on_plane
from driftbayes.data.tangent import ground_of, last_fixes
from driftbayes.io import read_trajectories, write_trajectories
from driftbayes.prediction._forecast import ParticleForecast
from earth import R, axes_at, components, drifters, lonlat_of, moved, on_tangent_plane, points

DT = 21600.0
PLACES = [(179.5, 45.0), (20.0, -5.0), (-30.0, -70.0)]


def laid(lonlat, frame="auto", radius=R, **options):
    return on_plane(Trajectories.from_arrays(lonlat, dt=DT, **options), frame=frame, radius=radius)


# Back from the plane


@pytest.mark.parametrize("radius", [None, R])
@pytest.mark.parametrize(
    ("lat", "frame"), [(0, "local"), (45, "local"), (-77, "local"), (45, "transported")]
)
def test_planes_lead_back_to_the_degrees_they_came_from(lat, frame, radius):
    rng = np.random.default_rng(1)
    lonlat = np.array([179.0, lat]) + np.cumsum(rng.normal(0, 0.2, (20, 15, 2)), axis=1)
    lonlat[..., 0] = (lonlat[..., 0] + 180) % 360 - 180
    x = laid(lonlat, frame, radius).positions.reshape(20, 15, 2)
    found = from_plane(lonlat[:, 0], x, frame=frame, radius=radius)
    # A micrometre is 1e-11 degrees, and sums are of whole ones.
    assert_allclose(found, lonlat, atol=1e-8)


def test_planes_lead_back_over_the_pole():
    rng = np.random.default_rng(2)
    p = np.stack([moved(axes_at(0, 90)[0], np.array([x, y, 0.0])) for x, y in [(3e5, 1e5)] * 10])
    steps = rng.normal(0, 1e5, (10, 8, 3))
    path = [p]
    for step in np.moveaxis(steps, 1, 0):
        path.append(moved(path[-1], step - path[-1] * np.sum(step * path[-1], -1, keepdims=True)))
    lonlat = lonlat_of(np.stack(path, 1))
    for radius in (None, R):
        x = laid(lonlat, radius=radius).positions.reshape(10, 9, 2)
        found = from_plane(lonlat[:, 0], x, frame="transported", radius=radius)
        assert_allclose(points(found), points(lonlat), atol=1e-11)


@pytest.mark.parametrize("short", [0.0, 1e-3, 1.0])
def test_planes_lead_to_the_pole_itself(short):
    # Straight north, to the pole or a little short of it, and a kilometre on.
    distance = np.radians(0.5) * R - short
    path = np.array([[[0.0, 0.0], [0.0, distance], [0.0, distance + 1e3]]])
    found = from_plane(np.array([[40.0, 89.5]]), path, frame="transported", radius=R)[0]
    assert_allclose(np.radians(90 - found[1, 1]) * R, short, atol=1e-5)
    assert_allclose(np.radians(90 - found[2, 1]) * R, 1e3 - short, atol=1e-5)
    assert_allclose(found[2, 0], -140.0, atol=1e-6)


def test_a_pole_that_east_and_north_lead_to_has_no_longitude():
    start, north = np.array([[10.0, 89.5]]), np.array([[[0.0, 0.0], [0.0, 2e5]]])
    with pytest.raises(DriftbayesError, match="too close to a pole"):
        from_plane(start, north, frame="local")
    # Straight on, it leads down the other side.
    found = from_plane(start, north, frame="transported", radius=R)[0, 1]
    assert_allclose(found, [-170.0, 180 - 89.5 - np.degrees(2e5 / R)], atol=1e-9)


def futures(past, positions):
    """As `predict_particles` gives them, of positions on the planes of the particles."""
    n_times = positions.shape[2]
    return ParticleForecast(
        positions=positions,
        horizons=np.arange(n_times) * DT,
        last_times=past.times[past.starts[1:] - 1],
        ids=past.ids,
        models=("brownian",) * len(positions),
        length_unit=past.length_unit,
        time_unit="s",
        fixes=last_fixes(past),
    )


def ahead(past, sd=4e4, n_members=5, seed=3):
    """Members that lead on from the last fixes."""
    rng = np.random.default_rng(seed)
    n = past.n_trajectories
    steps = rng.normal(0, sd, (n_members, n, 3, 2))
    steps[:, :, 0] = 0.0
    return past.positions[past.starts[1:] - 1][:, None] + np.cumsum(steps, axis=2)


@pytest.mark.parametrize(("lon", "lat"), PLACES)
def test_futures_are_geodesics_away_from_the_last_fix(lon, lat):
    lonlat = drifters(lon, lat, n=6, n_steps=10, kappa=1e4)
    past = laid(lonlat, radius=None)
    x = ahead(past, sd=2e4)
    found = futures(past, x).lonlat
    assert found.shape == x.shape
    assert (np.abs(found[..., 0]) <= 180).all()
    for member in range(5):
        for particle in range(6):
            (lon1, lat1), (lon2, lat2) = found[member, particle, :2]
            assert_allclose([lon1, lat1], lonlat[particle, -1], atol=1e-9)
            distance, start, end = vincenty(lon1, lat1, lon2, lat2)
            step = x[member, particle, 1] - x[member, particle, 0]
            assert_allclose(distance, np.hypot(*step), rtol=1e-5)
            turn = (end - start + np.pi) % (2 * np.pi) - np.pi
            heading = np.arctan2(*step)
            off = (start + 0.5 * turn - heading + np.pi) % (2 * np.pi) - np.pi
            assert abs(off) < 2e-5 + turn**2


def test_futures_go_straight_on_near_the_pole():
    lonlat = drifters(100.0, 89.0, n=6, n_steps=10, kappa=1e4)
    past = laid(lonlat)
    # The last step again, on each plane: the same great circle.
    plane = past.positions.reshape(6, 11, 2)
    x = np.stack([plane[:, -1], 2 * plane[:, -1] - plane[:, -2]], axis=1)[None]
    found = points(futures(past, x).lonlat[0])
    before, last = points(lonlat[:, -2]), points(lonlat[:, -1])
    expected = 2 * np.sum(before * last, -1, keepdims=True) * last - before
    assert_allclose(found[:, 1], expected, atol=1e-11)


@pytest.mark.parametrize(("lat", "unit"), [(45.0, "m"), (45.0, "km"), (88.0, "m"), (88.0, "km")])
def test_written_futures_are_read_again_as_the_same_displacements(tmp_path, lat, unit):
    past = laid(drifters(179.9, lat, n=4, n_steps=6, kappa=1e4), radius=None)
    if unit == "km":
        past = past.in_units(length=(1e-3, "km"))
    x = ahead(past, sd=4e4 if unit == "m" else 40.0)
    written = futures(past, x).trajectories(seed=1)
    assert written.length_unit == unit
    write_trajectories(written, tmp_path / "futures.csv")
    header, first, *_ = (tmp_path / "futures.csv").read_text().splitlines()
    assert header == "id,time,x,y,lon,lat"
    assert_allclose([float(v) for v in first.split(",")[2:4]], 0.0)
    # From the degrees alone, as another program would have them.
    again = read_trajectories(
        tmp_path / "futures.csv",
        columns={"lon": "lon", "lat": "lat", "x": None, "y": None},
        frame="local" if lat < 80 else "transported",
    )
    steps = np.diff(again.positions.reshape(-1, 3, 2), axis=1) * (1e-3 if unit == "km" else 1.0)
    expected = np.diff(x, axis=2).reshape(-1, 2, 2)
    if lat < 80:
        assert_allclose(steps, expected, atol=1e-4)
    # Carried axes start anew as east and north: lengths and angles between steps stay.
    gram = [np.einsum("pia,pja->pij", s, s) for s in (steps, expected)]
    assert_allclose(gram[0], gram[1], rtol=1e-6, atol=1e-6 * np.abs(gram[1]).max())


def test_longitudes_of_futures_run_as_those_of_the_data():
    lonlat = drifters(179.9, 30.0, n=4, n_steps=6, kappa=1e4)
    lonlat[..., 0] %= 360.0
    past = laid(lonlat)
    found = futures(past, ahead(past)).lonlat
    assert (found[..., 0] > 170).all()
    assert (found[..., 0] < 190).all()


def test_a_trajectory_whose_beginning_was_cut_off_keeps_its_direction():
    lonlat = drifters(30.0, 87.0, n=5, n_steps=12, kappa=1e4)
    whole = laid(lonlat)
    later = np.arange(13 * 5) % 13 >= 6
    cut = whole.select(later)
    x = ahead(whole)
    assert_allclose(futures(cut, x).lonlat, futures(whole, x).lonlat, atol=1e-7)
    steps = displacements(whole, DT).dx.reshape(5, 12, 2)[:, 6:]
    assert_allclose(
        displacements(cut, DT).dx.reshape(5, 6, 2), steps, atol=1e-3 * np.abs(steps).max()
    )


# One frame for all


@pytest.mark.parametrize(("lon", "lat"), PLACES)
def test_runs_start_at_their_distance_and_direction_from_the_centre(lon, lat):
    lonlat = drifters(lon, lat, n=50, n_steps=4, spread=3e5)
    data = displacements(laid(lonlat), DT)
    # The middle of the fixes at which runs are half over.
    middle = points(lonlat[:, 2]).mean(axis=0)
    expected = on_tangent_plane(points(lonlat[:, 0]), *lonlat_of(middle))
    assert_allclose(data.start, expected, atol=1e-3)
    assert_allclose(
        data.centre_lonlat, lonlat_of(points(lonlat[:, :4]).mean(axis=(0, 1))), atol=0.05
    )


@pytest.mark.parametrize("lat", [89.0, -85.0])
def test_axes_that_were_carried_along_paths_are_those_of_greenwich(lat):
    lonlat = drifters(70.0, lat, n=40, n_steps=20, kappa=1e4)
    data = displacements(laid(lonlat), DT)
    p = points(lonlat)
    here, there = p[:, :-1], p[:, 1:]
    # The tangent of the great circle, as long as its arc.
    flat = there - here * np.sum(here * there, -1, keepdims=True)
    angle = np.arctan2(np.linalg.norm(flat, axis=-1), np.sum(here * there, -1))
    flat *= (R * angle / np.linalg.norm(flat, axis=-1))[..., None]
    expected = components(flat, here, 0.0, np.copysign(90.0, lat))
    size = np.abs(expected).max()
    # Axes carried along a path and those carried from the pole differ by the area in between.
    assert data.ground.misaligned < 0.01
    assert_allclose(data.dx.reshape(expected.shape), expected, atol=0.01 * size)


def test_what_no_axes_matter_to_is_not_changed():
    past = laid(drifters(70.0, 88.0, n=40, n_steps=20, kappa=1e4))
    own = np.diff(past.positions.reshape(40, 21, 2), axis=1)
    turned = displacements(past, DT).dx.reshape(own.shape)
    for left, right in ((own, own), (own[:, 1:], own[:, :-1])):
        other = [turned[:, 1:], turned[:, :-1]] if left is not right else [turned, turned]
        expected = np.sum(left * right, -1)
        found = np.sum(other[0] * other[1], -1)
        assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


def test_positions_that_share_a_plane_stay_on_it(tmp_path):
    lonlat = drifters(10.0, 50.0, n=5, n_steps=6)
    # A map projection of the user's own, with the degrees beside it.
    plane = 111e3 * (lonlat - [10.0, 50.0])
    mapped = Trajectories.from_arrays(plane, dt=DT, length_unit="m")
    mapped = replace(mapped, lonlat=lonlat.reshape(-1, 2))
    assert ground_of(mapped) is None
    assert_allclose(displacements(mapped, DT).start, plane[:, 0])
    assert futures(mapped, ahead(mapped)).lonlat is None


@pytest.mark.parametrize(("lat", "frame"), [(50.0, "local"), (87.0, "transported")])
def test_a_table_without_provenance_is_known_by_its_degrees(tmp_path, lat, frame):
    past = laid(drifters(10.0, lat, n=5, n_steps=6), radius=None).in_units(length=(1e-3, "km"))
    write_trajectories(past, tmp_path / "tracks.csv")
    again = read_trajectories(tmp_path / "tracks.csv")
    assert "plane" not in again.provenance
    one, other = displacements(past, DT), displacements(again, DT)
    assert other.ground.frame == frame
    assert_allclose(other.start, one.start, rtol=1e-6)
    assert_allclose(other.dx, one.dx, rtol=1e-9, atol=1e-9)


def test_parts_of_the_data_keep_their_places():
    data = displacements(laid(drifters(10.0, 50.0, n=6, n_steps=4)), DT)
    keep = np.array([True, False, True, False, False, True])
    some = subset(data, keep)
    assert_allclose(some.start, data.start[keep])
    own = some.on_own_ground()
    assert_allclose(own.ground.positions(some.start_lonlat), own.start)
    assert_allclose(own.start.mean(axis=0), 0.0, atol=100.0)
