"""What a choice of diffusivity costs, against closed forms."""

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose

import driftbayes as db
from driftbayes.cli.main import main
from driftbayes.errors import DriftbayesError
from driftbayes.prediction._predict import ScaleMixture
from driftbayes.prediction.choices import _evaluate_choice, _loss
from driftbayes.testing import reference

SCALES = db.Scales(u_rms=0.7, time=2.0)


def gaussian(variance, n_dim=2):
    return ScaleMixture(np.array([variance]), np.ones(1), n_dim)


@pytest.mark.parametrize("n_dim", [1, 2, 3])
def test_the_loss_between_gaussians_is_their_divergence(n_dim):
    ratio = 1.0 / 2.5
    known = 0.5 * n_dim * (ratio - 1 - np.log(ratio))
    assert_allclose(_loss(gaussian(2.5, n_dim), gaussian(1.0, n_dim)), known, rtol=1e-10)


def test_the_loss_of_a_mixture_is_that_of_draws():
    truth = ScaleMixture(np.array([0.5, 2.0]), np.array([0.3, 0.7]), 2)
    rng = np.random.default_rng(1)
    v = rng.choice([0.5, 2.0], p=[0.3, 0.7], size=400_000)
    r2 = rng.exponential(2 * v)
    log_p = np.logaddexp(
        np.log(0.3 / (2 * np.pi * 0.5)) - r2, np.log(0.7 / (2 * np.pi * 2)) - r2 / 4
    )
    lost = log_p - (-np.log(2 * np.pi * 3.0) - r2 / 6)
    found = _loss(gaussian(3.0), truth)
    assert abs(found - lost.mean()) < 4 * lost.std() / np.sqrt(len(lost))


def test_regions_of_another_spread_hold_another_share():
    wide = _evaluate_choice("wide", 1.0, gaussian(2.0), gaussian(1.0))
    assert_allclose(wide.ratio, 2.0, rtol=1e-12)
    assert_allclose(wide.held, 1 - 0.05**2, rtol=1e-10)
    assert_allclose(wide.size, 2 * np.pi * 2.0 * np.log(20), rtol=1e-12)
    assert wide.kappa == 1.0


@pytest.fixture(scope="module")
def tracks():
    dx = reference.simulate_langevin(np.random.default_rng(1), 60, 60, 2, 0.5, 0.5, 1.0)
    x = np.concatenate([np.zeros((60, 1, 2)), np.cumsum(dx, axis=1)], axis=1)
    return db.Trajectories.from_arrays(x, dt=0.5, length_unit="km", time_unit="d")


def test_memory_saves_what_it_should_and_the_long_time_diffusivity_wastes_area(tracks):
    found = db.recommend(tracks, 0.5, "1d,40d", kappa="1km2/d", scales=SCALES)
    assert found.best[0] == "langevin"
    assert abs(found.memory[0] - 4.0) < 4 * found.memory[1]
    given = [c for c in found.choices if c.name == "random walk, K as given"]
    # 2k[t - (1 - exp(-γt))/γ] against 2kt.
    for choice, t in zip(given, (1.0, 40.0), strict=True):
        known = t / (t - (1 - np.exp(-0.5 * t)) / 0.5)
        assert_allclose(choice.ratio, known, rtol=0.15)
    same = [c for c in found.choices if c.name == "random walk, K right at this time"]
    assert all(c.loss < 0.01 for c in same)


def test_the_command_prints_choices(tracks, tmp_path, capsys):
    tracks.to_dataframe().to_csv(tmp_path / "t.csv", index=False)
    words = ["recommend", str(tmp_path / "t.csv"), "--units", "km,d", "--tau", "0.5"]
    words += ["--horizon", "1", "--kappa", "12m2/s"]
    assert main([*words, "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert {c["name"] for c in content["choices"]} == {
        *("model average", "brownian", "langevin"),
        *("random walk, K right at this time", "random walk, K as given"),
    }
    assert main(words) == 0
    assert "2k/γ" in capsys.readouterr().out


def test_a_diffusivity_that_is_none_is_refused(tracks):
    with pytest.raises(DriftbayesError, match="positive number"):
        db.recommend(tracks, 0.5, "1", kappa=-1.0)
