"""Commands with a stochastic differential equation: what takes one, and what refuses it."""

import numpy as np
import pytest

from driftbayes.data._trajectories import Trajectories
from driftbayes.io import write_trajectories
from driftbayes.models._named import SDES
from driftbayes.testing import reference

MODELS = ("--models", "langevin,sde_langevin", "--u-rms", "1", "--timescale", "1")
WALK = ("--models", "random_walk", *MODELS[2:])
TAU = ("--tau", "0.4")

FILE = """import driftbayes as db

Mine = db.SDE(
    drift=lambda x, u, t, theta: -theta.gamma * u,
    diffusion=lambda x, u, t, theta: theta.gamma * (2 * theta.k) ** 0.5,
    parameters={"gamma": db.Exponential(1.0), "k": db.Exponential(1.0)},
)
"""


@pytest.fixture(scope="module")
def tracks_csv(tmp_path_factory):
    """Four particles with twelve steps, as in the tests of the equations themselves."""
    dx = reference.simulate_langevin(np.random.default_rng(0), 4, 12, 2, 0.4, 1.3, 0.7)
    x = np.concatenate([np.zeros((4, 1, 2)), np.cumsum(dx, axis=1)], axis=1)
    path = tmp_path_factory.mktemp("sde") / "tracks.csv"
    write_trajectories(Trajectories.from_arrays(x, dt=0.4), path)
    return path


@pytest.fixture
def _no_computing(monkeypatch):
    """No evidence of an SDE is computed."""

    def refuse(*_):
        raise AssertionError("an evidence was computed")

    monkeypatch.setattr("driftbayes.sde._evidence.find_modes", refuse)


@pytest.mark.usefixtures("_no_computing")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("score", *TAU, *MODELS), "a score cannot take sde_langevin"),
        (("score", *TAU, *WALK), "a score cannot take random_walk"),
        (("predict", *TAU, "--horizon", "1", *WALK), "prediction cannot take random_walk"),
        (("map", "--taus", "0.4", *WALK), "a map by evidence cannot take random_walk"),
        (("predict", *TAU, "--horizon", "1", *MODELS), "sde_langevin is an SDE: draws from its"),
        (("recommend", *TAU, "--horizon", "1", *MODELS), "sde_langevin is an SDE: draws from its"),
        (("backtest", *TAU, "--horizons", "0.8", *MODELS), "sde_langevin is an SDE: draws from"),
        (("map", "--taus", "0.4", *MODELS), "a map by evidence cannot take sde_langevin"),
        (
            ("segments", *TAU, "--model", "sde_langevin"),
            "unsupported model 'sde_langevin' for segments",
        ),
        (("pairs", *TAU, "--models", "sde_langevin"), "unknown law of pairs 'sde_langevin'"),
        (
            ("compare", *TAU, "--models", "sde_langevin", *MODELS[2:], "--method", "nested"),
            "method 'nested' needs an exact likelihood",
        ),
    ],
    ids=lambda value: "-".join(value[:1]) if isinstance(value, tuple) else "",
)
def test_a_command_that_takes_no_sde_says_so_before_it_computes(ask, tracks_csv, words, message):
    command, *options = words
    answer = ask(command, tracks_csv, *options)
    assert answer.code == 2
    assert message in answer.err
    assert "Traceback" not in answer.err


def test_a_model_file_is_read_by_the_command(ask, tracks_csv, tmp_path):
    file = tmp_path / "my_model.py"
    file.write_text(FILE)
    words = ("--models", f"{file}:Mine", "--method", "nested")
    answer = ask("compare", tracks_csv, *TAU, *words)
    assert answer.code == 2
    assert "that of Mine is estimated by a particle filter" in answer.err
    # Its name ends with the command.
    assert "Mine" not in SDES
    assert ask("compare", tracks_csv, *TAU, "--models", "Mine").code == 2


@pytest.mark.slow
def test_a_model_file_is_compared_with_the_models_of_the_package(ask, tracks_csv, tmp_path):
    file = tmp_path / "my_model.py"
    file.write_text(FILE)
    priors = ("--prior", "gamma=exponential:1", "--prior", "k=exponential:1")
    answer = ask(
        "compare", tracks_csv, *TAU, "--models", f"langevin,{file}:Mine", *priors, "--json"
    )
    assert answer.code == 0, answer.err
    models = answer.json["models"]
    assert list(models) == ["langevin", "Mine"]
    mine, exact = models["Mine"], models["langevin"]
    assert mine["status"] == "ok"
    assert abs(mine["log_evidence"] - exact["log_evidence"]) < 4 * mine["log_evidence_err"] < 0.3


def test_a_file_that_does_not_import_is_one_message(ask, tracks_csv, tmp_path):
    file = tmp_path / "my_model.py"
    file.write_text(FILE.replace("driftbayes as", "driftbays as"))
    answer = ask("compare", tracks_csv, *TAU, "--models", f"{file}:Mine")
    assert answer.code == 2
    assert "line 1: ModuleNotFound" in answer.err
    assert "Traceback" not in answer.err


@pytest.mark.slow
def test_a_scan_takes_an_sde(ask, tracks_csv):
    scan = ask("scan", tracks_csv, "--taus", "0.4,0.8", *MODELS, "--json")
    assert scan.code == 0, scan.err
    for found in scan.json:
        mine, exact = found["models"]["sde_langevin"], found["models"]["langevin"]
        assert mine["status"] == "ok"
        assert abs(mine["log_evidence"] - exact["log_evidence"]) < 4 * mine["log_evidence_err"]
