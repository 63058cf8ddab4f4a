"""Flows and tensors that all drifters share, from longitudes and latitudes."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal

from driftbayes import DriftbayesError, Trajectories
from driftbayes.data._sampling import displacements
from driftbayes.data.sphere import on_plane
from driftbayes.models import MODELS, model_named
from earth import R, axes_at, carried, components, drifters, lonlat_of, on_tangent_plane, points
from sums_of import derived

DT = 21600.0
FLOW = (0.3, 0.2)
GRADIENT = np.array([[1.0e-7, 1.3e-7], [-0.5e-7, -1.0e-7]])


def named(text, **theta):
    return model_named(text, MODELS, 2)(**theta)


def cut(lonlat, frame="auto"):
    return displacements(
        on_plane(Trajectories.from_arrays(lonlat, dt=DT), frame=frame, radius=R), DT
    )


@pytest.mark.parametrize(
    ("lon", "lat", "frame"),
    [
        (179.5, 45.0, "auto"),
        (179.5, 45.0, "transported"),
        (-30.0, -65.0, "auto"),
        (20.0, 5.0, "auto"),
        (0.0, 90.0, "auto"),
        (120.0, -86.0, "auto"),
    ],
)
def test_a_linear_flow_is_found_wherever_it_is(lon, lat, frame):
    lonlat = drifters(lon, lat, flow=FLOW, gradient=GRADIENT, kappa=1.0, spread=1e5)
    data = cut(lonlat, frame)
    found = derived(named("brownian+linear", kappa=1.0, flow=1.0, gradient=1e-5), data)
    # The centre of the data, and the flow there along the axes of the data.
    middle = lonlat_of(points(lonlat[:, :-1]).reshape(-1, 3).mean(axis=0))
    centre = np.array([found["centre_lon"], found["centre_lat"]])
    assert_allclose(points(centre), points(middle), atol=1e-3)
    x_axis, y_axis = data_axes(middle)
    turn = np.stack([components(axis, points(middle), lon, lat) for axis in (x_axis, y_axis)])
    flow = turn @ (FLOW + GRADIENT @ on_tangent_plane(points(middle), lon, lat))
    assert_allclose([found["flow_1"], found["flow_2"]], flow, atol=2e-3)
    a = turn @ GRADIENT @ turn.T
    # East and north turn over the region by up to 0.15, of which the square is not in the model.
    assert_allclose(found["divergence"], 0.0, atol=7e-9)
    assert_allclose(found["vorticity"], a[1, 0] - a[0, 1], atol=7e-9)
    assert_allclose(found["strain_normal"], a[0, 0] - a[1, 1], atol=7e-9)
    assert_allclose(found["strain_shear"], a[0, 1] + a[1, 0], atol=7e-9)


def data_axes(lonlat):
    """East and north, or near a pole those of Greenwich carried over it."""
    if abs(lonlat[1]) < 80:
        return axes_at(*lonlat)[1:]
    up, east, north = axes_at(0.0, np.copysign(90.0, lonlat[1]))
    return [carried(axis, up, points(lonlat)) for axis in (east, north)]


def test_a_constant_current_to_the_north_diverges():
    # North everywhere at one speed: meridians converge, so that the flow does, by v tan(lat) / R.
    rng = np.random.default_rng(1)
    lat = 60.0 + rng.normal(0, 1, (100, 1)) + np.degrees(0.2 * DT * np.arange(21) / R)
    lon = 10.0 + np.broadcast_to(rng.normal(0, 2, (100, 1)), lat.shape)
    lonlat = np.stack([lon, lat], axis=-1) + rng.normal(0, 1e-5, (100, 21, 2))
    found = derived(
        named("brownian+linear", kappa=1.0, flow=1.0, gradient=1e-5), cut(lonlat, "local")
    )
    middle = np.radians(lat[:, :-1].mean())
    assert_allclose(found["divergence"], -0.2 * np.tan(middle) / R, rtol=0.02)
    assert_allclose(found["vorticity"], 0.0, atol=1e-9)


def dense_log_density(dx, design, variance, prior):
    """Brownian steps of given variance with a flow of normal coefficients integrated out."""
    covariance = np.kron(np.eye(len(dx)), variance)
    maps = np.stack([np.kron(np.eye(2)[i], row) for row in design for i in range(2)])
    covariance += maps @ np.kron(np.eye(2), np.diag(prior)) @ maps.T
    return multivariate_normal(cov=covariance).logpdf(dx.reshape(-1))


def test_the_density_is_that_of_steps_at_their_places_on_the_tangent_plane():
    lonlat = drifters(179.5, 45.0, n=8, n_steps=6, flow=FLOW, gradient=100 * GRADIENT)
    data = cut(lonlat)
    middle = lonlat_of(points(lonlat[:, 3]).mean(axis=0))
    start = on_tangent_plane(points(lonlat[:, 0]), *middle)
    dx = data.dx.reshape(8, 6, 2)
    x = (start[:, None] + np.cumsum(dx, axis=1) - dx).reshape(-1, 2)
    design = DT * np.column_stack([np.ones(len(x)), x - x.mean(axis=0)])
    expected = dense_log_density(
        data.dx, design, 2 * 90.0 * DT * np.eye(2), np.array([0.5, 1e-5, 1e-5]) ** 2
    )
    model = named("brownian+linear", kappa=90.0, flow=0.5, gradient=1e-5)
    assert_allclose(model.log_likelihood(data), expected, rtol=1e-9)


def polar_steps(lonlat):
    """Arcs of great circles along the axes of Greenwich, carried over the pole."""
    p = points(lonlat)
    here, there = p[:, :-1], p[:, 1:]
    flat = there - here * np.sum(here * there, -1, keepdims=True)
    size = np.linalg.norm(flat, axis=-1)
    flat *= (R * np.arctan2(size, np.sum(here * there, -1)) / size)[..., None]
    return components(flat, here, 0.0, 90.0).reshape(-1, 2)


def test_a_mean_flow_and_a_tensor_are_common_to_all_drifters_at_the_pole():
    lonlat = drifters(0.0, 90.0, flow=(0.1, 0.05), kappa=(150.0, 60.0), n=12, n_steps=20)
    data, dx = cut(lonlat), polar_steps(lonlat)
    design = np.full((len(dx), 1), DT)
    plain = np.eye(2)
    mean = named("brownian+mean", kappa=99.0, flow=0.1)
    for kappa in (99.0, 156.0):
        expected = dense_log_density(dx, design, 2 * kappa * DT * plain, np.array([0.1**2]))
        model = named("brownian+mean", kappa=kappa, flow=0.1)
        # Of some thousands: axes carried along the paths have turned a little.
        assert_allclose(model.log_likelihood(data), expected, atol=0.1)
    found = derived(mean, data)
    assert_allclose([found["flow_1"], found["flow_2"]], (0.1, 0.05), atol=4 * found["flow_1_sd"])
    # ln K = ln(150/60)/sqrt(2) on the diagonal.
    h = np.log(150 / 60) / np.sqrt(2)
    scale = np.sqrt(150.0 * 60.0)
    shape = np.diag([150.0, 60.0])
    tensor = named("brownian+anisotropic+mean", kappa=scale, h1=h, h2=0.0, flow=0.1)
    expected = dense_log_density(dx, design, 2 * DT * shape, np.array([0.1**2]))
    assert_allclose(tensor.log_likelihood(data), expected, atol=0.1)


def test_densities_without_axes_do_not_change():
    lonlat = drifters(70.0, 88.0, n=12, n_steps=20, kappa=1e4)
    data = cut(lonlat)
    laid = on_plane(Trajectories.from_arrays(lonlat, dt=DT), radius=R)
    own = displacements(Trajectories.from_arrays(laid.positions.reshape(12, 21, 2), dt=DT), DT)
    assert np.abs(own.dx - data.dx).max() > 0.1 * np.abs(own.dx).max()
    # One sense of rotation is the same whichever way the axes point.
    rotating = named("oscillating+rotating", gamma=1e-5, omega=1.4e-4, k=1e3)
    for model in (named("langevin", gamma=1e-5, k=1e4), rotating):
        assert_allclose(model.log_likelihood(data), model.log_likelihood(own), rtol=1e-12)


def test_no_axes_are_common_to_both_poles():
    both = np.concatenate([drifters(0.0, lat, n=4, n_steps=6, kappa=1e4) for lat in (89.0, -89.0)])
    data = cut(both)
    mean = named("brownian+mean", kappa=1e4, flow=0.1)
    with pytest.raises(DriftbayesError, match="needs axes that all trajectories share"):
        mean.log_likelihood(data)
    assert np.isfinite(named("brownian", kappa=1e4).log_likelihood(data))
    rotating = named("oscillating+rotating", gamma=1e-5, omega=1.4e-4, k=1e3)
    assert np.isfinite(rotating.log_likelihood(data))


def test_axes_that_paths_have_turned_apart_are_refused():
    # Round an octant: its axes come back turned by 90 degrees, those of the other path do not.
    sides = [
        np.column_stack([np.linspace(0, 90, 90), np.full(90, 20.0)]),
        np.column_stack([np.full(60, 90.0), np.linspace(20, 79, 60)]),
    ]
    round_about = np.concatenate(sides)
    straight = np.column_stack([np.full(150, 45.0), np.linspace(30, 70, 150)])
    data = cut(np.stack([round_about, straight]), "transported")
    with pytest.raises(DriftbayesError, match="needs axes that all trajectories share"):
        named("brownian+mean", kappa=1e4, flow=0.1).log_likelihood(data)


def test_a_flow_that_is_linear_over_an_ocean_is_refused():
    data = cut(drifters(0.0, 0.0, n=20, n_steps=4, spread=3e6))
    with pytest.raises(DriftbayesError, match="needs a region that is nearly plane"):
        named("brownian+linear", kappa=1.0, flow=1.0, gradient=1e-5).log_likelihood(data)
    assert np.isfinite(named("brownian+mean", kappa=100.0, flow=0.1).log_likelihood(data))


def test_the_reference_carries_vectors_without_turning_or_stretching():
    rng = np.random.default_rng(0)
    p = rng.normal(size=(5, 3))
    p /= np.linalg.norm(p, axis=1, keepdims=True)
    c = np.broadcast_to(p[0], p.shape)
    v = np.cross(c, rng.normal(size=3))
    there = carried(v, c, p)
    assert_allclose(np.sum(there * p, -1), 0.0, atol=1e-12)
    assert_allclose(np.linalg.norm(there, axis=-1), np.linalg.norm(v, axis=-1))
    # The angle with the great circle stays.
    along = [q - r * np.sum(q * r, -1, keepdims=True) for q, r in ((p, c), (-c, p))]
    assert_allclose(np.sum(v * along[0], -1), np.sum(there * along[1], -1), atol=1e-12)
