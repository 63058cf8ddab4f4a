"""`driftbayes field`: evidence for fields, as text, JSON, NetCDF and a figure."""

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose

import driftbayes as db
from driftbayes.io import read_dataset, write_trajectories

SCALES = ("--u-rms", "1", "--timescale", "0.02")


@pytest.fixture(scope="module")
def walk_csv(tmp_path_factory):
    """One long walk between walls, where κ = 0.01 (1 + 0.7 sin 2πx)."""
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("field") / "walk.csv"
    x, dt = rng.uniform(size=20), 0.002
    with path.open("w") as stream:
        stream.write("id,time,x\n")
        for n in range(51):
            for i, place in enumerate(x):
                stream.write(f"{i},{5 * dt * n!r},{float(place)!r}\n")
            for _ in range(5):
                kappa = 0.01 * (1 + 0.7 * np.sin(2 * np.pi * x))
                slope = 0.014 * np.pi * np.cos(2 * np.pi * x)
                x = x + slope * dt + np.sqrt(2 * kappa * dt) * rng.normal(size=20)
                x = 1 - np.abs(1 - np.abs(x))
    return path


def test_a_field_is_told_written_and_drawn(ask, walk_csv, tmp_path):
    files = tmp_path / "field.nc", tmp_path / "field.png"
    question = ("field", walk_csv, "--tau", "0.01", "--intervals", "8", *SCALES)
    answer = ask(*question, "-o", files[0], "--figure", files[1])
    assert answer.code == 0
    assert "evidence that dispersion varies in space" in answer.out
    found = read_dataset(files[0], kind="field")
    truth = 0.01 * (1 + 0.7 * np.sin(2 * np.pi * found["x"]))
    off = (found["log_kappa"] - np.log(truth)) / found["log_kappa_sd"]
    assert np.abs(off).mean() < 1.5
    assert files[1].stat().st_size > 10_000
    parsed = ask(*question, "--json").json
    assert parsed["log_bayes_factor_inhomogeneous"] > 10
    assert parsed["probability_homogeneous"] < 1e-4
    assert_allclose(sum(m["probability"] for m in parsed["smoothness"]), 1)
    assert json.loads(found.attrs["result"]) == parsed


def test_memory_that_a_field_without_memory_fits_as_a_flow_is_reported(ask, walk_csv, tmp_path):
    path = tmp_path / "memory.csv"
    sizes = {"tau": 0.5, "n_particles": 20, "n_steps": 40, "n_dim": 1}
    tracks = db.simulate("langevin", {"gamma": 1, "k": 1}, **sizes)
    write_trajectories(tracks, path)
    question = ("--tau", "0.5", "--intervals", "4", "--u-rms", "1", "--timescale", "1")
    told = ask("field", path, *question, "--hypotheses", "flow").err
    assert "successive steps correlate at 0.7" in told
    assert "compare with --model langevin (model=)" in told
    for quiet in (
        ask("field", path, *question, "--hypotheses", "sigma", "--model", "langevin"),
        ask("field", walk_csv, "--tau", "0.01", "--hypotheses", "kappa", *SCALES),
    ):
        assert quiet.code == 0
        assert "successive steps correlate" not in quiet.err


def test_random_flight_and_hypotheses_are_options(ask, walk_csv, tmp_path):
    picture = tmp_path / "flight.png"
    question = ("field", walk_csv, "--tau", "0.01", "--intervals", "4", *SCALES)
    parsed = ask(
        *question, "--model", "langevin", "--hypotheses", "sigma", "--figure", picture, "--json"
    ).json
    assert set(parsed["log_evidence"]) == {"homogeneous", "sigma"}
    assert picture.stat().st_size > 10_000
    walled = ask(*question, "--hypotheses", "kappa", "--walls", "0,1", "--json").json
    assert walled["n_near_walls"] > 0
    assert walled["density"] == "local"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--u-rms", "1"), "--u-rms and --timescale must be given together"),
        ((*SCALES, "--prior", "kappa=lognormal:0.01:2"), "needs an exponential prior of kappa"),
        ((*SCALES, "--intervals", "1"), "2 or more intervals"),
        ((*SCALES, "--walls", "0"), "needs a lower and an upper number"),
        ((*SCALES, "--hypotheses", "sigma"), "unknown hypothesis 'sigma'"),
        ((*SCALES, "--model", "langevin", "--walls", "0,1"), "walls is an option of model"),
    ],
)
def test_bad_options_get_one_sentence(ask, walk_csv, options, message):
    answer = ask("field", walk_csv, "--tau", "0.01", *options)
    assert answer.code == 2
    assert message in answer.err


def test_the_help_is_shown(ask):
    answer = ask("field", "--help")
    assert answer.code == 0
    assert "--density {auto,local,fokker-planck}" in answer.out


def test_irregular_times_are_refused_with_advice_that_works(ask, tmp_path):
    (tmp_path / "odd.csv").write_text("id,time,x\na,0,1\na,1,2\na,2.7,2\n")
    for tau in ("1", "all"):
        answer = ask("field", tmp_path / "odd.csv", "--tau", tau)
        assert answer.code == 2
        assert "a field needs regular times, but a map (`map --taus all`)" in answer.err
