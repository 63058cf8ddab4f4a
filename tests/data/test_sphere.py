"""Local steps on the ellipsoid against geodesics, at the dateline, at the poles."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from driftbayes import DriftbayesError, DriftbayesWarning, Trajectories
from driftbayes.data.sphere import on_plane

R = 6371000.0


def tracks(*paths, **options):
    """Trajectories in degrees from lists of (lon, lat)."""
    return Trajectories.from_arrays([np.array(p, float) for p in paths], dt=1.0, **options)


def vincenty(lon1, lat1, lon2, lat2):
    """Distance and bearings at both ends of a geodesic on WGS 84, by Vincenty's iteration."""
    a, f = 6378137.0, 1 / 298.257223563
    b = a * (1 - f)
    u1, u2 = (np.arctan((1 - f) * np.tan(np.radians(lat))) for lat in (lat1, lat2))
    difference = np.radians(lon2 - lon1)
    lam = difference
    for _ in range(100):
        s, c = np.sin(lam), np.cos(lam)
        sin_sigma = np.hypot(np.cos(u2) * s, np.cos(u1) * np.sin(u2) - np.sin(u1) * np.cos(u2) * c)
        cos_sigma = np.sin(u1) * np.sin(u2) + np.cos(u1) * np.cos(u2) * c
        sigma = np.arctan2(sin_sigma, cos_sigma)
        sin_alpha = np.cos(u1) * np.cos(u2) * s / sin_sigma
        cos2_alpha = 1 - sin_alpha**2
        cos_2m = cos_sigma - 2 * np.sin(u1) * np.sin(u2) / cos2_alpha if cos2_alpha else 0.0
        k = f / 16 * cos2_alpha * (4 + f * (4 - 3 * cos2_alpha))
        new = difference + (1 - k) * f * sin_alpha * (
            sigma + k * sin_sigma * (cos_2m + k * cos_sigma * (2 * cos_2m**2 - 1))
        )
        if abs(new - lam) < 1e-15:
            break
        lam = new
    square = cos2_alpha * (a**2 - b**2) / b**2
    big_a = 1 + square / 16384 * (4096 + square * (-768 + square * (320 - 175 * square)))
    big_b = square / 1024 * (256 + square * (-128 + square * (74 - 47 * square)))
    delta = (
        big_b
        * sin_sigma
        * (
            cos_2m
            + big_b
            / 4
            * (
                cos_sigma * (2 * cos_2m**2 - 1)
                - big_b / 6 * cos_2m * (4 * sin_sigma**2 - 3) * (4 * cos_2m**2 - 3)
            )
        )
    )
    start = np.arctan2(
        np.cos(u2) * np.sin(lam), np.cos(u1) * np.sin(u2) - np.sin(u1) * np.cos(u2) * np.cos(lam)
    )
    end = np.arctan2(
        np.cos(u1) * np.sin(lam), -np.sin(u1) * np.cos(u2) + np.cos(u1) * np.sin(u2) * np.cos(lam)
    )
    return b * big_a * (sigma - delta), start, end


def test_the_reference_knows_a_published_geodesic():
    # Flinders Peak to Buninyong, the example of Geoscience Australia.
    distance, start, _ = vincenty(144.424867889, -37.951033417, 143.926495528, -37.652821139)
    assert_allclose(distance, 54972.271, atol=0.001)
    assert_allclose(np.degrees(start) % 360, 306.868159, atol=1e-4)


@pytest.mark.parametrize("lat", [-75.0, -30.0, 0.1, 45.0, 79.0])
@pytest.mark.parametrize("km", [0.1, 10.0, 100.0])
@pytest.mark.parametrize("bearing", [0.0, 30.0, 90.0, 200.0])
def test_steps_are_geodesics_in_length_and_direction(lat, km, bearing):
    # The end by a plane guess: what is compared is the step between these two points.
    b = np.radians(bearing)
    lon2 = 179.9 + km / 111.3 * np.sin(b) / np.cos(np.radians(lat))
    lat2 = lat + km / 111.3 * np.cos(b)
    distance, start, end = vincenty(179.9, lat, lon2, lat2)
    path = [(179.9, lat), ((lon2 + 180) % 360 - 180, lat2)]
    x, y = on_plane(tracks(path)).positions[1]
    assert_allclose(np.hypot(x, y), distance, rtol=1e-5)
    middle = start + 0.5 * ((end - start + np.pi) % (2 * np.pi) - np.pi)
    error = (np.arctan2(x, y) - middle + np.pi) % (2 * np.pi) - np.pi
    # The mean of the bearings at the ends is that at the middle but for the square of the turn.
    turn = 2 * (middle - start)
    assert abs(error) < 2e-5 + turn**2


def test_a_sphere_has_the_radius_it_is_given():
    found = on_plane(tracks([(0, 0), (1, 0), (1, 1)]), radius=R)
    degree = np.radians(1) * R
    assert_allclose(found.positions, [[0, 0], [degree, 0], [degree, degree]], rtol=1e-9, atol=1e-6)


def test_the_dateline_and_the_range_of_longitudes_do_not_matter():
    path = np.column_stack([np.linspace(170, 190, 41), np.linspace(-5, 5, 41)])
    wrapped = path.copy()
    wrapped[:, 0] = (wrapped[:, 0] + 180) % 360 - 180
    one, other = (on_plane(tracks(p)).positions for p in (path, wrapped))
    assert_allclose(one, other, atol=1e-6)


def test_steps_add_up_and_turn_round():
    rng = np.random.default_rng(1)
    path = np.array([10.0, 40.0]) + np.cumsum(rng.normal(0, 0.01, (50, 2)), axis=0)
    there = on_plane(tracks(path)).positions
    back = on_plane(tracks(path[::-1])).positions
    assert_allclose(np.diff(there, axis=0), -np.diff(back, axis=0)[::-1], atol=1e-6)


def test_missing_fixes_stay_missing_and_are_stepped_over():
    path = [(0, 0), (np.nan, np.nan), (2, 0), (3, 0)]
    found = on_plane(tracks(path, [(50, 50), (51, 50)]), radius=R)
    degree = np.radians(1) * R
    assert np.isnan(found.positions[1]).all()
    assert_allclose(found.positions[[0, 2, 3], 0], [0, 2 * degree, 3 * degree], rtol=1e-9)
    # The second trajectory starts at its own first fix.
    assert_allclose(found.positions[4], 0)
    assert_allclose(found.lonlat[5], [51, 50])


@pytest.mark.parametrize("frame", ["local", "transported"])
def test_a_trajectory_does_not_depend_on_those_before_it(frame):
    rng = np.random.default_rng(4)
    paths = [np.array([30.0, 50.0]) + np.cumsum(rng.normal(0, 0.1, (40, 2)), 0) for _ in range(5)]
    together = on_plane(tracks(*paths), frame=frame).positions
    alone = on_plane(tracks(paths[-1]), frame=frame).positions
    assert (together[-40:] == alone).all()


def over_the_pole(frame):
    # Along the meridian of Greenwich, over the pole and down the dateline.
    colatitude = np.linspace(3, -2, 51)
    lon = np.where(colatitude >= 0, 0.0, 180.0)
    path = np.column_stack([lon, 90 - np.abs(colatitude)])
    return on_plane(tracks(path), frame=frame, radius=R).positions


def test_a_straight_path_over_the_pole_is_straight_in_the_transported_frame():
    found = over_the_pole("auto")
    distance = np.radians(np.linspace(0, 5, 51)) * R
    assert_allclose(found[:, 1], distance, atol=1e-3)
    assert_allclose(found[:, 0], 0, atol=1e-3)


def test_the_local_frame_turns_back_at_the_pole_and_says_so():
    with pytest.warns(DriftbayesWarning, match="use the transported frame"):
        found = over_the_pole("local")
    # North before the pole, south after it.
    assert found[-1, 1] < found[30, 1]


def test_transported_axes_turn_by_the_area_that_a_loop_encloses():
    # Round an octant of the sphere, of area pi / 2: the last side is seen turned by 90 degrees.
    sides = [
        np.column_stack([np.linspace(0, 90, 901), np.zeros(901)]),
        np.column_stack([np.full(800, 90.0), np.linspace(0, 79.9, 801)[1:]]),
    ]
    found = on_plane(tracks(np.concatenate(sides)), frame="transported", radius=R).positions
    quarter = 0.5 * np.pi * R
    assert_allclose(found[900], [quarter, 0], atol=1.0)
    assert_allclose(found[-1], [quarter, np.radians(79.9) * R], rtol=1e-6)
    # Along a parallel, the bearing turns by sin(latitude) times the longitude.
    parallel = np.column_stack([np.linspace(0, 40, 4001), np.full(4001, 60.0)])
    found = on_plane(tracks(parallel), frame="transported", radius=R).positions
    heading = np.arctan2(*np.diff(found, axis=0)[[0, -1]].T[::-1])
    assert_allclose(heading[0] - heading[1], -np.radians(40) * np.sin(np.radians(60)), rtol=1e-3)


def test_diffusivity_does_not_see_the_frame_nor_the_place():
    # Brownian steps laid on the sphere at 70 degrees: their variance comes back.
    rng = np.random.default_rng(2)
    steps = rng.normal(0, 1000.0, (100, 50, 2))
    lat = np.radians(70) + np.cumsum(steps[..., 1], axis=1) / R
    lon = np.cumsum(steps[..., 0] / np.cos(lat), axis=1) / R
    path = np.degrees(np.stack([lon, lat], axis=-1))
    found = [
        np.diff(
            on_plane(Trajectories.from_arrays(path, dt=1.0), frame=f, radius=R).positions.reshape(
                100, 50, 2
            ),
            axis=1,
        )
        for f in ("local", "transported")
    ]
    assert_allclose(found[0].var(axis=(0, 1)), steps[:, 1:].var(axis=(0, 1)), rtol=2e-3)
    assert_allclose(np.sum(found[1] ** 2, axis=-1), np.sum(found[0] ** 2, axis=-1), atol=0.01)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ([(0, 91), (0, 92)], "latitude of 92 degrees is beyond the pole"),
        ([(1e5, 10), (1e5, 11)], "longitude of 100000 is not in degrees"),
    ],
)
def test_what_is_not_on_the_sphere_is_refused(path, message):
    with pytest.raises(DriftbayesError, match=message):
        on_plane(tracks(path))


def test_long_steps_are_warned_of():
    with pytest.warns(DriftbayesWarning, match="a step of 1113 km"):
        on_plane(tracks([(0, 0), (10, 0)]))
