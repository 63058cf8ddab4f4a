"""Probability of presence in space: known answers, conservation, and what is refused."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from test_grids import a_field, a_map, gridded

from driftbayes import DriftbayesError, DriftbayesWarning
from driftbayes.data._trajectories import Trajectories
from driftbayes.data.sphere import earth_radius
from driftbayes.io import write_dataset
from driftbayes.prediction._presence import Gaussians, presence_map
from driftbayes.simulators._transport import presence_in_space
from driftbayes.workflow import presence

SIDE = 100e3
START = np.array([[40e3, 55e3], [52e3, 48e3]])


def test_a_constant_field_is_the_homogeneous_model():
    """Two particles with a mean flow, against Gaussians in closed form."""
    kappa, flow, times = 50.0, np.array([0.02, -0.01]), np.array([2e5, 4e5])
    found = gridded(a_map(kappa=np.full((16, 16), kappa), flow=flow[:, None, None]))
    made = presence_in_space(found, START, times)
    means = START[None, :, None] + flow * times[:, None]
    sds = np.broadcast_to(np.sqrt(2 * kappa * times), (1, 2, 2))
    closed = presence_map(Gaussians(means, sds, np.ones(1)), times, START, cell=1e3)
    assert_allclose(made.probability.sum(axis=(1, 2)) + made.outside, 1, rtol=0, atol=1e-12)
    assert made.probability.min() >= 0
    # The closed form is on part of the same grid.
    x, y = (np.round(edges[[0, -1]] / 1e3).astype(int) for edges in closed.edges)
    own = made.probability[:, y[0] : y[1], x[0] : x[1]]
    # A point is shared out between four cells of 1 km: variances grow by up to h²/4 of 4.5 km².
    assert np.abs(own - closed.probability).sum(axis=(1, 2)).max() < 0.02
    assert_allclose(made.region_areas(0.95), closed.region_areas(0.95), rtol=0.02)


def test_draws_of_a_field_are_averaged():
    """Constant fields of three diffusivities, against Gaussians in closed form."""
    kappas, times = np.array([10.0, 50.0, 250.0]), np.array([2e5])
    draws = [gridded(a_map(kappa=np.full((16, 16), kappa)), with_flow=False) for kappa in kappas]
    made = presence_in_space(draws[1], START[:1], times, draws=draws)
    means = np.broadcast_to(START[:1, None], (3, 1, 1, 2))
    sds = np.sqrt(2 * kappas * times)[:, None, None]
    closed = presence_map(Gaussians(means, sds, np.full(3, 1 / 3)), times, START[:1], cell=1e3)
    x, y = (np.round(edges[[0, -1]] / 1e3).astype(int) for edges in closed.edges)
    own = made.probability[:, y[0] : y[1], x[0] : x[1]]
    assert np.abs(own - closed.probability).sum() < 0.04
    assert made.n_draws == 3
    # The middle one alone is far from it.
    single = presence_in_space(draws[1], START[:1], times).probability
    assert np.abs(own - single[:, y[0] : y[1], x[0] : x[1]]).sum() > 0.3


def test_a_file_of_a_field_has_draws_from_its_posterior(tmp_path):
    fit, dataset = a_field()
    # Draws at all points belong together, though a few are computed at a time.
    x, y = np.meshgrid(dataset["x"], dataset["y"], indexing="ij")
    together = fit.draw(np.stack([x.ravel(), y.ravel()], axis=-1), 32)["kappa"]
    laid = together.reshape(32, *x.shape).transpose(0, 2, 1)
    assert_allclose(dataset["kappa_draw"], laid, rtol=1e-6)
    for name in ("kappa", "flow_x", "flow_y"):
        draws, sd = dataset[f"{name}_draw"].values, dataset[f"{name}_sd"].values
        off = (draws.mean(axis=0) - dataset[name].values) / sd
        assert np.sqrt(np.mean(off**2)) < 5 / np.sqrt(len(draws))
        assert_allclose(np.sqrt(np.mean(draws.var(axis=0) / sd**2)), 1, atol=0.4)
    write_dataset(dataset, tmp_path / "field.nc", kind="field")
    metres = tracks_at(np.array([5e4, 5e4]), length_unit="m", time_unit="s")
    made = presence(metres, "10min", tmp_path / "field.nc")
    assert made.n_draws == len(dataset["kappa_draw"]) == 32
    assert made.to_json()["source"].startswith("posterior of the field, by 32 draws")
    assert_allclose(made.probability.sum() + made.outside, 1, rtol=0, atol=1e-12)
    turned = dataset.assign(kappa_draw=dataset["kappa_draw"].transpose("y", "x", "draw"))
    write_dataset(turned, tmp_path / "turned.nc", kind="field")
    with pytest.raises(DriftbayesError, match=r"dimensions of kappa_draw must .*damaged"):
        presence(metres, "10min", tmp_path / "turned.nc")


def test_a_known_field_agrees_with_a_large_ensemble():
    """κ of 200 and 1,800 m²/s in quarters, with reflecting walls."""
    found = gridded(a_map(), with_flow=False)
    rng, n, dt, steps = np.random.default_rng(2), 20_000, 500.0, 80
    x, y = (np.full(n, value) for value in (55e3, 40e3))
    for _ in range(steps):
        noise = rng.normal(0, np.sqrt(2 * dt), (2, n)) * np.sqrt(found.diffusivity_at(x, y))
        step = found.drift_at(x, y) * dt + noise
        x, y = (SIDE - np.abs(SIDE - np.abs(v + s)) for v, s in zip((x, y), step, strict=True))
    made = presence_in_space(found, np.array([[55e3, 40e3]]), np.array([steps * dt]))
    coarse = made.probability[0].reshape(10, 10, 10, 10).sum(axis=(1, 3))
    counts = np.histogram2d(y, x, bins=10, range=((0, SIDE), (0, SIDE)))[0]
    # Boxes with ten particles or more.
    large = n * coarse > 10
    off = (counts - n * coarse)[large] / np.sqrt(n * coarse[large])
    assert large.sum() > 20
    assert np.mean(off**2) < 2


def test_on_the_earth_the_uniform_density_is_uniform_per_area():
    found = gridded(a_map(degrees=[(170, 200), (50, 75)]), with_flow=False)
    start = np.array([[-175.0, 60.0], [171.0, 70.0]])
    # After a time that mixes the whole region, each row has its share of the sphere.
    with pytest.warns(DriftbayesWarning, match="edges reflect"):
        made = presence_in_space(found, start, np.array([3e10]), cell=2.5)
    rows = made.probability[0].sum(axis=1)
    assert_allclose(rows, np.diff(np.sin(np.radians(made.edges[1]))) / np.ptp(
        np.sin(np.radians(made.edges[1]))), rtol=5e-3)  # fmt: skip
    assert_allclose(made.probability.sum(), 1, rtol=0, atol=1e-12)
    # Areas of the cells are those of the earth.
    area = made.areas.sum() * (len(made.edges[0]) - 1)
    sphere = np.radians(30) * earth_radius(None) ** 2 * np.ptp(np.sin(np.radians([50, 75])))
    assert_allclose(area, sphere, rtol=5e-3)


def test_particles_outside_are_counted_and_told():
    found = gridded(a_map(), with_flow=False)
    outside = np.array([[50e3, 50e3], [-1.0, 50e3]])
    with pytest.warns(DriftbayesWarning, match="1 of 2 particles are outside the map"):
        made = presence_in_space(found, outside, np.array([1e3]))
    assert_allclose(made.outside, 0.5)
    assert_allclose(made.probability.sum(), 0.5, rtol=0, atol=1e-12)
    with pytest.raises(DriftbayesError, match="no particle is inside the map"):
        presence_in_space(found, outside[1:], np.array([1e3]))
    with pytest.warns(DriftbayesWarning, match="outermost cells .* whose edges reflect"):
        presence_in_space(found, np.array([[1e3, 1e3]]), np.array([1e4]))
    with pytest.raises(DriftbayesError, match="a side of 1 gives 10,000,000,000 cells, more than"):
        presence_in_space(found, outside[:1], np.array([1e3]), cell=1.0)


def tracks_at(place, **units):
    x = np.stack([place - 100.0, place])[None]
    return Trajectories.from_arrays(x, dt=1.0, **units)


def test_a_file_and_trajectories_must_fit(tmp_path):
    write_dataset(a_map(), tmp_path / "map.nc", kind="map")
    write_dataset(a_field()[1], tmp_path / "field.nc", kind="field")
    metres = tracks_at(np.array([5e4, 5e4]), length_unit="m", time_unit="s")
    made = presence(metres, "1h", tmp_path / "map.nc", cell="2km")
    assert made.probability.shape == (1, 50, 50)
    assert made.to_json()["source"].startswith("averaged map of brownian+mean")
    assert made.to_dataset().attrs["source"].startswith("averaged map")
    km = tracks_at(np.array([130.0, 50.0]), length_unit="km", time_unit="h")
    with pytest.raises(DriftbayesError, match="no particle is inside"):
        presence(km, 1.0, tmp_path / "map.nc")
    assert presence(metres, "10min", tmp_path / "field.nc").time_unit == "s"
    with pytest.raises(DriftbayesError, match=r"no unit of length, .* has km; pass --length-unit"):
        presence(tracks_at(np.array([5e4, 5e4])), 1.0, tmp_path / "map.nc")
    write_dataset(a_map(degrees=[(0, 4), (50, 54)]), tmp_path / "earth.nc", kind="map")
    with pytest.raises(DriftbayesError, match=r"on the earth but the trajectories are on a plane"):
        presence(metres, "1h", tmp_path / "earth.nc")
    (tmp_path / "cut.nc").write_bytes((tmp_path / "field.nc").read_bytes()[:3000])
    with pytest.raises(DriftbayesError, match=r"cut\.nc"):
        presence(metres, "1h", tmp_path / "cut.nc")
