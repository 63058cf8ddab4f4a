"""`driftbayes map` and `driftbayes export`: what a person gets."""

import numpy as np
import pytest

from driftbayes import Trajectories
from driftbayes.io import read_dataset, write_trajectories

DEGREE = 111_000.0


@pytest.fixture(scope="module")
def drifters_csv(tmp_path_factory):
    """Brownian drifters of 500 m²/s near the equator, hourly for two days, with dates."""
    rng = np.random.default_rng(0)
    steps = rng.normal(0, np.sqrt(2 * 500 * 3600), (40, 48, 2))
    start = rng.uniform(0, 10, (40, 1, 2))
    lonlat = np.concatenate([start, start + np.cumsum(steps, axis=1) / DEGREE], axis=1)
    path = tmp_path_factory.mktemp("map") / "drifters.csv"
    with path.open("w") as stream:
        stream.write("id,time,lon,lat\n")
        for i, track in enumerate(lonlat):
            for n, (lon, lat) in enumerate(track):
                stamp = np.datetime64("2020-06-29T00:00:00") + np.timedelta64(n, "h")
                stream.write(f"{i},{stamp}Z,{lon:.12f},{lat:.12f}\n")
    return path


def test_a_map_is_written_drawn_and_told(ask, drifters_csv, tmp_path):
    answer = ask(
        *("map", drifters_csv, "--cell", "5deg", "--tau", "3600", "--n-tau", "8", "--seasons"),
        *("--min-windows", "10", "--models", "brownian", "--u-rms", "0.5", "--timescale", "3600"),
        *("-o", tmp_path / "map.nc", "--figure", tmp_path / "map.png"),
    )
    assert answer.code == 0
    found = read_dataset(tmp_path / "map.nc", kind="map")
    assert list(found["season"].values) == ["DJF", "MAM", "JJA", "SON"]
    kappa = found["brownian_kappa"].sel(season="JJA").values
    error = found["brownian_kappa_sd"].sel(season="JJA").values
    there = np.isfinite(kappa)
    assert there.sum() >= 4
    assert (np.abs(kappa - 500)[there] < 5 * error[there]).all()
    assert found["n_windows"].sum() == 40 * 6
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")
    assert "brownian_kappa " in answer.out
    assert "m²/s" in answer.out


def test_a_map_by_evidence_is_told_drawn_and_written(ask, drifters_csv, tmp_path):
    options = ("--models", "brownian+mean", "--u-rms", "0.5", "--timescale", "3600")
    out, png = tmp_path / "map.nc", tmp_path / "map.png"
    answer = ask("map", drifters_csv, "--taus", "3600", *options, "-o", out, "--figure", png)
    assert answer.code == 0
    assert "evidence against parameters that vary in space" in answer.out
    assert "place, season and population are confounded" in " ".join(answer.out.split())
    assert "separate diffusivity for each particle" in answer.out
    found = read_dataset(out, kind="map")
    kappa, error = found["brownian_mean_kappa"].values, found["brownian_mean_kappa_sd"].values
    there = np.isfinite(kappa)
    assert (np.abs(kappa - 500)[there] < 5 * error[there]).all()
    assert found["x"].attrs["units"] == "degrees_east"
    assert found.attrs["probability_homogeneous"] > 0.9
    assert int(found["n_steps"].sum()) == 40 * 48
    assert png.read_bytes().startswith(b"\x89PNG")
    told = ask("map", drifters_csv, "--taus", "3600", *options, "--split", "0.1", "--json").json
    assert told["split_probability"] == 0.1
    odds = told["log_bayes_factor_inhomogeneous"] + np.log(0.1 / 0.9)
    assert abs(told["probability_homogeneous"] - 1 / (1 + np.exp(odds))) < 1e-12
    assert told["log_bayes_factor_inhomogeneous"] < 0
    own = told["models"]["brownian+mean"]
    assert own["log_bayes_factor_inhomogeneous"] == told["log_bayes_factor_inhomogeneous"]
    compared = ask("compare", drifters_csv, "--tau", "3600", *options, "--json").json
    ln_z = compared["models"]["brownian+mean"]["log_evidence"]
    assert abs(own["log_evidence_homogeneous"] - ln_z) < 1e-5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--taus", "3600", "--seasons"), "--seasons is for a fixed grid; give --cell too"),
        (("--taus", "3600", "--min-windows", "3"), "--min-windows is for a fixed grid"),
        (("--taus", "3600,7200"), "one sampling time, got 2"),
        (("--taus", "3600", "--depth", "0"), "depth must be a whole number from 1 to 10, got 0"),
        (("--taus", "3600", "--split", "2"), "must lie between 0 and 1, got 2"),
        (("--taus", "3600", "--cell", "5deg", "--json"), "a fixed grid has no evidence to print"),
    ],
)
def test_options_of_maps_that_do_not_fit_are_refused(ask, drifters_csv, options, message):
    scales = ("--models", "brownian", "--u-rms", "0.5", "--timescale", "3600")
    answer = ask("map", drifters_csv, *options, *scales)
    assert answer.code == 2
    assert message in answer.err


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("50km", "give an angle, for example 5deg"),
        ("five", "cell must be a number or a length with its unit"),
        ("-5deg", "cell must be a positive number and its unit"),
    ],
)
def test_a_cell_of_the_wrong_unit_is_refused(ask, drifters_csv, tmp_path, cell, message):
    answer = ask("map", drifters_csv, f"--cell={cell}", "--tau", "3600", "-o", tmp_path / "map.nc")
    assert answer.code == 2
    assert message in answer.err
    assert not (tmp_path / "map.nc").exists()


def test_a_plane_has_no_degrees(ask, tmp_path):
    x = np.cumsum(np.ones((3, 20, 2)), axis=1)
    write_trajectories(Trajectories.from_arrays(x, dt=1.0), tmp_path / "a.csv")
    answer = ask("map", tmp_path / "a.csv", "--cell", "5deg", "--tau", "1", "-o", tmp_path / "m.nc")
    assert answer.code == 2
    assert "positions are on a plane; give a length" in answer.err


def test_a_scan_goes_to_a_simulator(ask, drifters_csv, tmp_path):
    scanned = ask(
        *("scan", drifters_csv, "--taus", "3600,7200,10800,14400", "--models", "brownian"),
        *("--u-rms", "0.5", "--timescale", "3600", "-o", tmp_path / "scan.nc"),
    )
    assert scanned.code == 0
    answer = ask("export", tmp_path / "scan.nc", "--for", "json")
    kappa = answer.json["parameters"]["kappa"]
    assert abs(kappa["value"] - 500) < 5 * kappa["sd"]
    assert answer.json["tau_max_s"] == 14400
    written = ask("export", tmp_path / "scan.nc", "--for", "parcels", "-o", tmp_path / "kernel.py")
    assert written.out == ""
    assert 'add_constant_field("Kh_zonal"' in (tmp_path / "kernel.py").read_text()
    refused = ask("export", drifters_csv, "--for", "json")
    assert refused.code == 2
    assert "results are NetCDF files" in refused.err


@pytest.mark.slow
def test_a_map_goes_to_a_simulator_and_tells_where_particles_will_be(ask, drifters_csv, tmp_path):
    options = ("--models", "brownian+mean", "--u-rms", "0.5", "--timescale", "3600")
    mapped, grid = tmp_path / "map.nc", tmp_path / "K.nc"
    assert ask("map", drifters_csv, "--taus", "3600", *options, "-o", mapped).code == 0
    answer = ask("export", mapped, "--for", "parcels", "-o", grid)
    assert answer.code == 0
    assert "KERNELS = [AdvectionDiffusionM1, DriftOnSphere, ReflectAtEdges]" in answer.out
    assert repr(str(grid)) in answer.out
    k = read_dataset(grid, kind="grid")["Kh_zonal"].values
    assert np.abs(k - 500).max() < 100
    question = ("predict", drifters_csv, "--horizon", "6h,1d", "--space", mapped)
    files = tmp_path / "where.nc", tmp_path / "where.png"
    predicted = ask(*question, "--map", files[0], "--figure", files[1], "--cell", "0.2deg")
    assert predicted.code == 0
    assert "averaged map of brownian+mean" in " ".join(predicted.out.split())
    found = read_dataset(files[0], kind="presence")
    total = found["probability"].sum(["x", "y"]) + found["outside"]
    np.testing.assert_allclose(total, 1, rtol=0, atol=1e-12)
    assert files[1].read_bytes().startswith(b"\x89PNG")
    for command, message in (
        (("export", mapped, "--for", "parcels"), "exported as a grid; give -o FILE.nc"),
        (("export", mapped, "--for", "parcels", "-o", tmp_path / "K.py"), "give -o FILE.nc"),
        (("export", mapped, "--for", "parcels", "--tau", "1h", "-o", grid), "--tau is for a scan"),
        ((*question, "--tau", "1h"), "--tau needs a fit"),
        (("predict", drifters_csv, "--horizon", "6h"), "predict needs --tau"),
    ):
        refused = ask(*command, "--overwrite") if grid in command else ask(*command)
        assert refused.code == 2
        assert message in " ".join(refused.err.split())
