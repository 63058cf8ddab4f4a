"""Search regions: shares of the forecast, areas, and places on the earth."""

import json

import numpy as np
import pytest
import xarray as xr
from matplotlib.path import Path as Outline
from numpy.testing import assert_allclose

from driftbayes.cli.main import main
from driftbayes.data._trajectories import Trajectories
from driftbayes.data.tangent import last_fixes
from driftbayes.errors import DriftbayesError
from driftbayes.prediction._forecast import ParticleForecast
from driftbayes.prediction.regions import search_regions


def forecast(x, fixes=None, **changes):
    n = x.shape[1]
    how = {"horizons": np.array([0.0, 1.0]), "last_times": np.zeros(n), "fixes": fixes}
    how |= {"ids": np.arange(n), "models": (), **changes}
    return ParticleForecast(np.concatenate([np.zeros_like(x), x], axis=2), **how)


def test_a_new_draw_is_within_the_regions_as_often_as_they_say():
    rng = np.random.default_rng(1)
    root = np.array([[2.0, 0.0], [1.5, 0.5]])
    members = rng.normal(size=(100, 2_000, 1, 2)) @ root.T
    found = search_regions(forecast(members))
    fresh = rng.normal(size=(2_000, 2)) @ root.T
    for i, level in enumerate((0.5, 0.95)):
        inside = [
            Outline(ring).contains_point(point)
            for ring, point in zip(found.polygons[:, 0, i], fresh, strict=True)
        ]
        # The polygon has 0.13 % less area than the ellipse, the sample's shape costs 1 %.
        assert abs(np.mean(inside) - level) < 0.015 + 4 * np.sqrt(level * (1 - level) / 2_000)


def test_areas_are_those_of_gaussian_ellipses_and_of_the_polygons():
    rng = np.random.default_rng(2)
    members = rng.normal(size=(20_000, 1, 1, 2)) * np.array([3.0, 0.5])
    found = search_regions(forecast(members))
    known = 2 * np.pi * 1.5 * np.log(1 / (1 - np.array([0.5, 0.95])))
    assert_allclose(found.areas[0, 0], known, rtol=0.04)
    x, y = np.moveaxis(found.polygons[0, 0], -1, 0)
    shoelace = 0.5 * np.abs(np.sum(x * np.roll(y, -1, -1) - y * np.roll(x, -1, -1), axis=-1))
    assert_allclose(shoelace, found.areas[0, 0], rtol=2e-3)


def test_on_the_earth_regions_lie_about_the_last_fix_and_do_not_jump():
    import driftbayes as db

    frame = {"id": ["a"] * 3, "time": [0.0, 3600.0, 7200.0]}
    import pandas as pd

    lonlat = {"lon": [179.98, 179.99, 179.995], "lat": [45.0, 45.0, 45.0]}
    tracks = db.read(pd.DataFrame({**frame, **lonlat}))
    members = np.random.default_rng(3).normal(size=(200, 1, 1, 2)) * 1000.0
    shifted = members + tracks.positions[-1]
    found = search_regions(forecast(shifted, last_fixes(tracks)))
    ring = found.polygons[0, 0, 1]
    assert found.in_degrees
    assert np.ptp(ring[:, 0]) < 0.2
    east = (ring[:, 0].max() - ring[:, 0].min()) * np.cos(np.radians(45)) * 111_300
    assert 4_000 < east < 6_500
    content = found.to_geojson()
    assert [f["properties"]["probability"] for f in content["features"]] == [0.95, 0.5]
    first = content["features"][0]["geometry"]["coordinates"][0]
    assert first[0] == first[-1]


def test_other_dimensions_and_too_few_members_are_refused():
    with pytest.raises(DriftbayesError, match="two dimensions"):
        search_regions(forecast(np.zeros((30, 1, 1, 3))))
    with pytest.raises(DriftbayesError, match="needs 20 members"):
        search_regions(forecast(np.zeros((10, 1, 1, 2))))
    with pytest.raises(DriftbayesError, match="between 0 and 1"):
        search_regions(forecast(np.zeros((30, 1, 1, 2))), levels=(1.0,))


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The same areas in two formats, by the command."""
    folder = tmp_path_factory.mktemp("areas")
    x = np.random.default_rng(1).normal(size=(5, 30, 2)).cumsum(axis=1)
    Trajectories.from_arrays(x, dt=1.0).to_dataframe().to_csv(folder / "t.csv", index=False)
    words = ["predict", str(folder / "t.csv"), "--tau", "1", "--horizon", "1,2"]
    for name in ("areas.nc", "areas.geojson"):
        assert main([*words, "--models", "brownian", "--regions", str(folder / name)]) == 0
    return folder


def test_the_command_writes_geojson(written):
    content = json.loads((written / "areas.geojson").read_text())
    assert len(content["features"]) == 5 * 2 * 2
    assert content["driftbayes"]["coordinates"] == "plane"


def test_netcdf_holds_the_same(written):
    features = json.loads((written / "areas.geojson").read_text())["features"]
    with xr.open_dataset(written / "areas.nc", decode_times=False) as found:
        for feature in features:
            about = feature["properties"]
            where = {"horizon": about["horizon"], "probability": about["probability"]}
            own = found.sel(particle=about["particle"], **where)
            assert_allclose(own["area"], about["area"])
            assert_allclose(own["time"], about["time"])
            ring = np.array(feature["geometry"]["coordinates"][0])[:-1]
            assert_allclose(np.column_stack([own["x"], own["y"]]), ring)
