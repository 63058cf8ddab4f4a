"""A configuration is checked once, and says what is wrong with it in one sentence."""

import pytest

from driftbayes.errors import DriftbayesError
from driftbayes.turbulence.config import PRESETS, RunConfig
from driftbayes.turbulence.forcing import Forcing


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_good_and_survive_json(name):
    config = RunConfig.preset(name)
    assert RunConfig.from_json(config.to_json()) == config
    assert config.n_steps == config.spin_up_steps + config.duration_steps


def test_the_paper_preset_is_the_papers_experiment():
    config = RunConfig.preset("paper")
    assert (config.grid, config.dt, config.k_f, config.k_f_width) == (1024, 2.5e-4, 64, 2)
    assert (config.epsilon, config.hypofriction, config.particles) == (0.00636, 1.0, 1000)
    assert (config.spin_up, config.duration, config.n_steps) == (500, 500, 4_000_000)
    assert (config.interpolation, config.filter, config.start) == ("bilinear", "per-step", "paper")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"grid": 127}, "even number of points"),
        ({"grid": 4}, "even number of points"),
        ({"grid": 32}, "ring reaches to k = 22"),
        ({"k_f": 0.2, "k_f_width": 0.1}, "no wavenumber lies within"),
        ({"dt": 0.0}, "dt must be a positive number"),
        ({"dt": float("nan")}, "dt must be a positive number"),
        ({"record_every": 0.021}, "even number of steps"),
        ({"record_every": 0.004}, "at least four steps"),
        ({"diagnose_every": 0.028}, "multiple of record_every"),
        ({"duration": 30.01}, "even number of steps|multiple of record_every"),
        ({"spin_up": 0.1}, "multiple of diagnose_every"),
        ({"snapshot_every": 0.3}, "multiple of diagnose_every"),
        ({"spin_up": 0.0, "duration": 0.0}, "one of them must be positive"),
        ({"particles": -1}, "particles must be a whole number"),
        ({"epsilon": -1.0}, "energy injection must be 0 or more"),
        ({"hypofriction": -1.0}, "hypofriction must be 0 or more"),
        ({"precision": "half"}, "precision must be one of double, single"),
        ({"interpolation": "linear"}, "interpolation must be one of"),
        ({"start": "somewhere"}, "start must be one of"),
        ({"forcing_shape": "round"}, "forcing's shape must be one of"),
        ({"seed": -1}, "seed must be a whole number"),
    ],
)
def test_bad_input_gets_a_sentence(changes, message):
    with pytest.raises(DriftbayesError, match=message):
        RunConfig.preset("tiny", **changes)


def test_unknown_names_get_a_sentence():
    with pytest.raises(DriftbayesError, match="choose from tiny, laptop, paper"):
        RunConfig.preset("huge")
    with pytest.raises(DriftbayesError, match="unknown fields"):
        RunConfig.from_json({"viscocity": 1.0})


def test_a_configuration_is_checked_without_its_arrays(monkeypatch):
    # Presets are made on import, where JAX should not start.
    monkeypatch.setattr(Forcing, "on_ring", None)
    assert RunConfig.preset("paper").grid == 1024
    with pytest.raises(DriftbayesError, match="use a larger grid or a smaller k_f"):
        RunConfig.preset("paper", k_f=600.0)
