"""Grids for simulators: what they hold, that a uniform density stays uniform, what is refused."""

from functools import cache

import numpy as np
import pytest
import xarray as xr
from grid_cases import SIDE, a_map, moved, uniform, uniformity, waves
from numpy.testing import assert_allclose
from scipy.ndimage import map_coordinates

from driftbayes import DriftbayesError, displacements
from driftbayes.data import _schema as schema
from driftbayes.data._trajectories import Trajectories
from driftbayes.data.sphere import earth_radius, metres_per_degree
from driftbayes.data.tangent import Ground
from driftbayes.fields import FieldPriors, fit_field
from driftbayes.simulators import GriddedDispersion, export_grid, gridded


@cache
def fitted():
    """A field of a few steps."""
    rng = np.random.default_rng(0)
    x = 1e4 * np.cumsum(rng.normal(size=(5, 30, 2)), axis=1)
    tracks = Trajectories.from_arrays(x, dt=3600.0, length_unit="m", time_unit="s")
    data = displacements(tracks, 3600.0)
    fit = fit_field(data, FieldPriors(1e4, 1.0), n_intervals=2, hypotheses=("kappa",))
    return fit, fit.to_dataset()


def a_field(**changes):
    """A field that was fitted, and its dataset."""
    fit, dataset = fitted()
    return fit, dataset.assign_attrs({schema.KIND_ATTRIBUTE: "field"} | changes)


def points(found, n=200, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.uniform(e[0], e[-1], n) for e in found.edges]


# --- What a grid holds ----------------------------------------------------------------------------


def test_units_become_metres_and_seconds_and_cells_a_smooth_function():
    found = gridded(a_map())
    assert_allclose(found.edges[0], np.linspace(0, SIDE, 17))
    assert_allclose(np.unique(found.diffusivity.round(6)), [200, 1800])
    x, y = points(found)
    k, h = found.diffusivity_at(x, y), 1e-2
    assert k.min() > 200 - 1e-9
    # In the middle of a cell, 3/4 of it and 1/8 of each neighbour.
    c, own = 0.5 * SIDE / 16, found.diffusivity[0]
    along = 0.125 * (own[2, 1:-2:1] + own[2, 3:]) + 0.75 * own[2, 2:-1]
    assert_allclose(
        found.diffusivity_at(*np.meshgrid((2 * np.arange(2, 15) + 1) * c, 5 * c))[0][0], along
    )
    # The gradient is that of the function, and the function is even at the walls.
    slope = (found.diffusivity_at(x + h, y) - found.diffusivity_at(x - h, y))[0] / (2 * h)
    assert_allclose(found.drift_at(x, y)[0], slope, atol=1e-8)
    assert_allclose(found.diffusivity_at(-x, y), k)
    assert_allclose(found.diffusivity_at(2 * SIDE - x, y), k)
    assert_allclose(found.drift_at(np.array([0.0]), np.array([3e4]))[0], 0, atol=1e-12)


@pytest.mark.parametrize("side", [1, 4])
def test_the_drift_is_not_counted_twice_in_the_flow_of_a_map(side):
    """Where κ grows by 1000 m²/s in 100 km, the mean step is 0.01 m/s: there is no other flow.

    The map has steps of `side` cells, each of them constant.
    """
    stairs = 500 + 1000 * ((np.arange(16) // side + 0.5) * side / 16)
    kappa = np.broadcast_to(stairs, (16, 16))
    found = gridded(a_map(kappa=kappa, flow=(0.01, 0.2), side=side))
    x = np.linspace(0.25, 0.75, 400, endpoint=False) * SIDE
    u, v = found.flow_at(x, 0 * x + 4e4)
    assert abs(u.mean()) < 2e-4
    assert np.abs(u).max() < (0.0005 if side == 1 else 0.004)
    assert_allclose(v, 0.2)
    # The local drift stays with the diffusivity, all of it.
    assert_allclose(found.drift_at(x, 0 * x + 4e4)[0].mean(), 0.01, rtol=1e-2)


def test_opendrift_gets_the_drift_with_its_currents():
    kappa = np.broadcast_to(1000.0 + 20 * np.arange(16), (16, 16))
    found = gridded(a_map(kappa=kappa, flow=(0.1, -0.2), degrees=[(10, 14), (50, 54)]))
    written = export_grid(found, "opendrift").dataset
    points = np.meshgrid(written["lon"], written["lat"])
    drift = found.drift_at(*points, on_sphere=False)
    assert_allclose(written["u"], found.flow_at(*points)[0] + drift[0])
    assert_allclose(written["v"], found.flow_at(*points)[1] + drift[1])
    assert np.ptp(drift[0]) > 1e-3
    # The mean step holds the curvature of the earth, which OpenDrift's straight lines have too.
    k = written["horizontal_diffusivity"]
    curved = k * np.tan(np.radians(k["lat"])) / earth_radius(None)
    assert_allclose(written["v"], -0.2 + curved, rtol=1e-9)


def test_a_field_keeps_its_flow():
    fit, dataset = a_field()
    found = gridded(dataset)
    x, y = points(found, 20)
    truth = fit.at(np.stack([x, y], axis=-1))
    # Splines over cells smooth by K'' h² / 8.
    assert_allclose(found.diffusivity_at(x, y), np.stack([truth["kappa"]] * 2), rtol=1e-3)
    assert_allclose(found.flow_at(x, y), truth["flow"].T, rtol=1e-6)
    bare = gridded(dataset, with_flow=False)
    assert_allclose(bare.flow_at(x, y), 0)


def test_a_plane_is_laid_on_the_earth():
    n, ground = 20, Ground(179.0, 60.0, "local")
    edges = np.linspace(-2e5, 2e5, n + 1)
    middle = 0.5 * (edges[1:] + edges[:-1])
    k = np.broadcast_to(2000 + 5e-3 * middle, (n, n))
    found = GriddedDispersion(
        (edges, edges), np.stack([k, k]), np.zeros((2, n, n)), None, np.ones((n, n), bool), False,
        ground, 1.0, "a plane", (),
        {"kind": "field", "driftbayes_version": "", "data_fingerprint": ""},
    )  # fmt: skip
    earth = found.on_lonlat()
    assert earth.is_lonlat
    lon, lat = points(earth)
    place = ground.positions(np.stack([lon, lat], axis=-1))
    # Three cells from the walls, where both splines are mirrored, the field is linear.
    inside = (np.abs(place) < 1.4e5).all(axis=1)
    expected = 2000 + 5e-3 * place[:, 0]
    assert inside.sum() > 60
    assert_allclose(earth.diffusivity_at(lon, lat)[0][inside], expected[inside], rtol=2e-3)
    assert earth.edges[0][-1] > 180
    made = export_grid(found, "opendrift")
    assert any("across the date line" in note for note in made.notes)
    # The drift of the sphere is in the flow that was found on the plane.
    curved = expected * np.tan(np.radians(lat)) / earth_radius(None)
    assert_allclose(earth.flow_at(lon, lat)[1][inside], curved[inside], rtol=2e-3)


def test_places_without_data_have_the_nearest_value():
    kappa = 1000 * (1 + 0.8 * waves(16))
    kappa[:, 12:] = np.nan
    found = gridded(a_map(kappa=kappa))
    assert_allclose(found.diffusivity[0][:, 12:], kappa[:, [11]] + np.zeros((16, 4)))
    assert not found.has_data[:, 12:].any()
    assert any("25% of the cells hold no data" in note for note in found.notes)
    assert export_grid(found, "parcels").dataset["has_data"].values.mean() < 0.8


# --- Well mixed -----------------------------------------------------------------------------------


@pytest.mark.parametrize("naive", [False, True])
def test_a_walk_in_the_exported_grid_keeps_a_uniform_density(naive):
    """Milstein steps as those of Parcels; without the drift particles gather where κ is small."""
    found = gridded(a_map(), with_flow=False)
    grid = export_grid(found, "parcels").dataset.isel(time=0, depth=0)
    k, low, side = grid["Kh_zonal"].values, grid["lon"].values[0], grid["lon"].diff("lon").values[0]
    rng, dt, dres = np.random.default_rng(1), grid.attrs["time_step_s"], 0.25 * side
    x, y = uniform(found.edges, 20_000)

    def at(x, y):
        return map_coordinates(k, [(y - low) / side, (x - low) / side], order=1)

    for _ in range(int(1e5 / dt)):
        dw = rng.normal(0, np.sqrt(dt), (2, len(x)))
        root, slopes = np.sqrt(2 * at(x, y)), np.zeros((2, 1))
        if not naive:
            differences = at(x + dres, y) - at(x - dres, y), at(x, y + dres) - at(x, y - dres)
            slopes = np.array(differences) / (2 * dres)
        step = 0.5 * slopes * (dw**2 + dt) + root * dw
        x, y = (SIDE - np.abs(SIDE - np.abs(v + s)) for v, s in zip((x, y), step, strict=True))
    p = uniformity(x, y, found.edges)
    assert p < 1e-30 if naive else p > 1e-3


# --- With the simulators themselves ---------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("naive", [False, True], ids=["exported", "naive"])
@pytest.mark.parametrize(
    ("simulator", "is_lonlat"),
    [("parcels", False), ("parcels", True), ("parcels3", False), ("parcels3", True),
     ("opendrift", True)],
)  # fmt: skip
def test_a_uniform_density_stays_uniform_in_a_simulator(simulator, is_lonlat, naive, tmp_path):
    degrees = [(10.0, 11.5), (50.0, 51.0)] if is_lonlat else None
    found = gridded(a_map(degrees=degrees), with_flow=False)
    start = uniform(found.edges, 20_000, on_earth=is_lonlat)
    x, y = moved(simulator, found, 1e5, tmp_path, start=start, naive=naive)
    p = uniformity(x, y, found.edges, on_earth=is_lonlat)
    assert p < 1e-30 if naive else p > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("naive", [False, True], ids=["exported", "naive"])
@pytest.mark.parametrize("simulator", ["parcels", "parcels3"])
def test_on_a_sphere_the_density_is_uniform_per_area(simulator, naive, tmp_path):
    """With a constant diffusivity, the kernels of Parcels alone fill all latitudes alike."""
    constant = a_map(4, kappa=np.full((4, 4), 1e6), degrees=[(0.0, 40.0), (45.0, 75.0)])
    found = gridded(constant, with_flow=False)
    start = uniform(found.edges, 20_000, on_earth=True)
    x, y = moved(simulator, found, 1e6, tmp_path, start=start, naive=naive)
    p = uniformity(x, y, found.edges, on_earth=True)
    assert p < 1e-10 if naive else p > 1e-3


# --- What is refused ------------------------------------------------------------------------------


def changed(dataset, **variables):
    return dataset.assign({name: dataset[name] * factor for name, factor in variables.items()})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: a_map(length_unit=""), "the map has no unit of length.* --length-unit"),
        (lambda: a_field(time_unit="")[1], "the field has no unit of time"),
        (lambda: a_map(degrees=[(0, 30), (80, 89.9)]), "reaches a latitude of 89.9°, too close"),
        (lambda: a_map(degrees=[(0, 370), (0, 10)]), "wider than once around the earth"),
        (lambda: a_map().drop_vars("brownian_mean_kappa"), "no variable 'brownian_mean_kappa'"),
        (lambda: changed(a_map(), brownian_mean_kappa=np.nan), "no positive diffusivity; the file"),
        (lambda: changed(a_field()[1], kappa=-1.0), "no positive diffusivity; .*damaged"),
        (lambda: a_field(result="{")[1], "'result' is not a JSON object; .*damaged"),
        (lambda: a_field()[1].isel(y=0, drop=True), "the field has no axis 'y'; two"),
        (lambda: a_field()[1].isel(x=[0, 1, 5]), "cells of the field along x are not equal"),
        (lambda: a_field()[1].transpose(..., "x", "y"), "'kappa' of the field has .* x, y"),
        (lambda: a_map(evidences="[]"), "'evidences' is not a JSON object"),
        (lambda: a_map(model="confined"), "has no long-time diffusivity"),
    ],
)  # fmt: skip
def test_bad_files_get_one_sentence(make, message):
    with pytest.raises(DriftbayesError, match=message):
        gridded(make())


def test_units_and_models_that_do_not_fit_are_refused():
    with pytest.raises(DriftbayesError, match=r"--length-unit m contradicts the map.* is km"):
        gridded(a_map(), given=("m", None))
    with pytest.raises(DriftbayesError, match="no model 'langevin'; it has brownian"):
        gridded(a_map(), model="langevin")
    with pytest.raises(DriftbayesError, match="a field has only one model; omit --model"):
        gridded(a_field()[1], model="brownian")
    fixed = a_map()
    del fixed.attrs["evidences"]
    with pytest.raises(DriftbayesError, match="has a fixed grid"):
        gridded(fixed)
    with pytest.raises(DriftbayesError, match=r"exported as a grid for parcels, .*not for 'json'"):
        export_grid(gridded(a_map()), "json")


def test_opendrift_needs_the_earth_and_one_diffusivity():
    with pytest.raises(DriftbayesError, match="plane of unknown position on the earth"):
        export_grid(gridded(a_map()), "opendrift")
    around_pole = a_map()
    around_pole["plane"] = xr.DataArray(
        0, attrs={"longitude_of_projection_origin": 0.0, "latitude_of_projection_origin": 90.0}
    )
    with pytest.raises(DriftbayesError, match="plane around a pole"):
        export_grid(gridded(around_pole), "opendrift")
    assert "azimuthal equidistant" in export_grid(gridded(around_pole), "parcels").script
    tensor = a_map(degrees=[(0, 4), (50, 54)], model="brownian+anisotropic")
    k = tensor["brownian_anisotropic_kappa"]
    named = {"K_11": k, "K_22": 2 * k, "K_12": 0.5 * k}
    tensor = tensor.assign({f"brownian_anisotropic_{n}": one for n, one in named.items()})
    found = gridded(tensor)
    assert any("K_12, up to 35%" in note for note in found.notes)
    parcels = export_grid(found, "parcels").dataset
    assert_allclose(parcels["Kh_meridional"], 2 * parcels["Kh_zonal"])
    with pytest.raises(DriftbayesError, match="one diffusivity for both axes"):
        export_grid(found, "opendrift")


def test_lengths_on_the_earth_are_those_of_the_ellipsoid():
    found = gridded(a_map(degrees=[(0, 4), (50, 54)]))
    x, y = points(found)
    h = 1e-4
    slope = (found.diffusivity_at(x, y + h) - found.diffusivity_at(x, y - h))[1] / (2 * h)
    east, north = metres_per_degree(y)
    curved = found.diffusivity_at(x, y)[1] * np.tan(np.radians(y)) / earth_radius(None)
    assert_allclose(found.drift_at(x, y)[1], slope / north - curved, atol=1e-8)
    across = (found.diffusivity_at(x + h, y) - found.diffusivity_at(x - h, y))[0] / (2 * h)
    assert_allclose(found.drift_at(x, y)[0], across / east, atol=1e-8)
