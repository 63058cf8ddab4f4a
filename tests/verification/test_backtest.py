"""Forecasts from the past of particles, scored against their future."""

import json
from dataclasses import replace

import numpy as np
import pytest

import driftbayes as db
from driftbayes.cli.main import main
from driftbayes.data.sphere import on_plane
from driftbayes.errors import DriftbayesError
from driftbayes.testing import reference

SCALES = db.Scales(u_rms=0.7, time=2.0)


def simulated(n_particles, n_steps, seed):
    rng = np.random.default_rng(seed)
    dx = reference.simulate_langevin(rng, n_particles, n_steps, 2, 0.5, 0.5, 1.0)
    x = np.concatenate([np.zeros((n_particles, 1, 2)), np.cumsum(dx, axis=1)], axis=1)
    return db.Trajectories.from_arrays(x, dt=0.5, length_unit="km", time_unit="d")


@pytest.fixture(scope="module")
def result():
    tracks = simulated(20, 60, 1)
    return db.backtest(
        tracks, 0.5, "0.5,2", origins=3, members=25, kappa="3km2/d", scales=SCALES, n_draws=200
    )


@pytest.mark.slow
def test_the_model_of_the_data_predicts_best(result):
    assert set(result.ensembles) == {
        *("brownian", "langevin", "model average", "persistence", "fixed kappa")
    }
    assert result.best in ("langevin", "model average")
    behind = {name: own.behind for name, own in result.ensembles.items()}
    for name in ("brownian", "fixed kappa"):
        assert behind[name][0] > 3 * behind[name][1]
    assert behind["persistence"][0] > 0
    assert result.ensembles["fixed kappa"].dispersion == "spread too large"


def test_every_particle_is_forecast_from_every_origin(result):
    assert (result.n_drifters, result.n_forecasts) == (20, 60)
    assert result.counts.tolist() == [60, 60]
    assert result.leads.tolist() == pytest.approx([0.5, 2.0])


def test_the_future_is_not_used():
    """Another future leaves the forecasts from the only origin as they are."""
    # As large as the data of the other tests, which share what is compiled.
    tracks = simulated(20, 60, 2)
    x = tracks.positions.reshape(20, -1, 2).copy()
    seen = {"origins": 1, "members": 10, "scales": SCALES, "n_draws": 100}
    first = db.backtest(tracks, 0.5, "0.5,2", **seen)
    origin = int((1 / 3) * 60)
    x[:, origin + 1 :] += 5.0
    moved = db.Trajectories.from_arrays(x, dt=0.5, length_unit="km", time_unit="d")
    second = db.backtest(moved, 0.5, "0.5,2", **seen)
    for name in first.ensembles:
        spreads = [r.ensembles[name].means["spread"][0] for r in (first, second)]
        assert spreads[0] == pytest.approx(spreads[1], rel=1e-12)
        errors = [r.ensembles[name].means["error"][0] for r in (first, second)]
        assert errors[1] > errors[0] + 3


def test_the_command_prints_the_same(tmp_path, capsys):
    simulated(20, 60, 3).to_dataframe().to_csv(tmp_path / "tracks.csv", index=False)
    words = ["backtest", str(tmp_path / "tracks.csv"), "--units", "km,d", "--tau", "0.5"]
    words += ["--horizons", "0.5,2", "--origins", "2", "--members", "10"]
    assert main([*words, "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["n_forecasts"] == 40
    # One of its models, as a table.
    assert main([*words, "--models", "langevin"]) == 0
    assert "langevin" in capsys.readouterr().out


def test_degrees_on_a_sphere_of_another_radius_are_forecast_in_degrees():
    """As in files of Parcels, whose sphere has a radius of 6367 km."""
    x = simulated(20, 60, 3).positions.reshape(20, -1, 2) / 111.0
    degrees = db.Trajectories.from_arrays(x + np.array([10.0, 50.0]), dt=0.5, time_unit="d")
    tracks = on_plane(degrees, radius=6367e3)
    scales = db.Scales(u_rms=700.0 * 1e3, time=2.0)
    found = db.backtest(tracks, 0.5, "2", origins=1, members=5, scales=scales, n_draws=50)
    assert (found.n_drifters, found.length_unit) == (20, "m")


def test_irregular_times_that_no_forecast_meets_are_refused():
    tracks = simulated(20, 60, 4)
    rng = np.random.default_rng(0)
    times = tracks.times + rng.uniform(-0.2, 0.2, len(tracks.times))
    with pytest.raises(DriftbayesError, match="no position was observed at the times of its"):
        db.backtest(
            replace(tracks, times=times), "all", "2", origins=1, members=5, models="brownian"
        )


def test_errors_over_origins_have_one_unit_for_each():
    """Also where last fixes before an origin are at different times."""
    tracks = simulated(20, 60, 6)
    late = tracks.times + 0.01 * tracks.trajectory_index
    how = {"origins": 3, "members": 5, "scales": SCALES, "n_draws": 50, "errors": "starts"}
    found = db.backtest(replace(tracks, times=late), 0.5, "0.5,2", models="brownian", **how)
    assert (found.errors, found.n_units, found.n_drifters) == ("starts", 3, 20)


def test_models_with_shared_motion_are_refused():
    with pytest.raises(DriftbayesError, match=r"brownian\+common"):
        db.backtest(simulated(6, 40, 4), 0.5, "1", models="brownian+common", scales=SCALES)


def test_a_horizon_longer_than_the_data_is_refused():
    with pytest.raises(DriftbayesError, match="too short for a horizon"):
        db.backtest(simulated(6, 40, 4), 0.5, "19")


@pytest.mark.slow
def test_regions_of_forecasts_hold_their_level():
    """1,200 forecasts of the model that made the data: 50 and 95 % are that."""
    found = db.backtest(
        simulated(200, 120, 5), 0.5, "0.5,1,2", origins=6, members=40, scales=SCALES
    )
    for score, level in (("coverage_50", 0.5), ("coverage_95", 0.95)):
        mean, error = found.ensembles["langevin"].means[score]
        assert abs(mean - level) < 4 * error
