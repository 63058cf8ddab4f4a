"""`driftbayes simulate`: trajectories from a model, repeatable from their seed."""

import json

import numpy as np
import pytest
from desk import PRIORS
from numpy.testing import assert_allclose, assert_array_equal

from driftbayes.cli.simulate import PARAMETERS
from driftbayes.io import read_trajectories
from driftbayes.models import MODELS

LANGEVIN = ("simulate", "langevin", "--gamma", "1", "--k", "1")
SIZE = ("--particles", "200", "--steps", "10", "--tau", "0.1", "--dim", "3")


def test_the_table_of_parameters_is_that_of_the_models():
    assert {name: tuple(model.parameters) for name, model in MODELS.items()} == PARAMETERS


def test_simulated_data_are_judged_rightly(ask, tmp_path):
    path = tmp_path / "langevin.parquet"
    made = ask(*LANGEVIN, *SIZE, "--seed", "0", "-o", path)
    assert (made.code, made.out) == (0, "")
    assert made.err == f"wrote {path}: 200 trajectories in 3D, 2200 points, every 0.1\n"
    found = ask("compare", path, "--tau", "0.1", *PRIORS, "--json").json
    assert (found["n_particles"], found["n_steps"], found["n_dim"]) == (200, 10, 3)
    assert found["verdict"].startswith("langevin is very strongly favoured")
    model = found["models"]["langevin"]
    for name in ("gamma", "k"):
        assert abs(model["posterior_mean"][name] - 1) < 4 * model["posterior_sd"][name]


def test_brownian_data_are_called_brownian(ask, tmp_path):
    path = tmp_path / "brownian.csv"
    made = ask("simulate", "brownian", "--kappa", "0.5", *SIZE, "-o", path)
    assert made.code == 0
    found = ask("compare", path, "--tau", "0.1", *PRIORS, "--json").json
    kappa = found["models"]["brownian"]
    assert abs(kappa["posterior_mean"]["kappa"] - 0.5) < 4 * kappa["posterior_sd"]["kappa"]
    assert found["verdict"].startswith("brownian is ")


def test_the_seed_makes_the_data(ask, tmp_path):
    files = {}
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        ask(*LANGEVIN, *SIZE, "--seed", seed, "-o", tmp_path / f"{name}.csv")
        files[name] = (tmp_path / f"{name}.csv").read_bytes()
    assert files["a"] == files["b"] != files["c"]
    default = ask(*LANGEVIN, *SIZE, "-o", tmp_path / "d.csv")
    assert default.code == 0
    ask(*LANGEVIN, *SIZE, "--seed", "0", "-o", tmp_path / "e.csv")
    assert (tmp_path / "d.csv").read_bytes() == (tmp_path / "e.csv").read_bytes()


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".nc"])
def test_formats_hold_the_same_positions(ask, tmp_path, suffix):
    ask(*LANGEVIN, *SIZE, "-o", tmp_path / f"a{suffix}")
    ask(*LANGEVIN, *SIZE, "-o", tmp_path / "b.csv.gz")
    one, other = (read_trajectories(tmp_path / name) for name in (f"a{suffix}", "b.csv.gz"))
    assert_array_equal(one.positions, other.positions)
    assert_array_equal(one.times, other.times)


def test_the_file_says_how_it_was_made(ask, tmp_path):
    ask(*LANGEVIN, *SIZE, "--seed", "4", "-o", tmp_path / "a.nc")
    found = json.loads(ask("info", tmp_path / "a.nc", "--json").out)["provenance"]
    assert {key: found[key] for key in ("simulated", "gamma", "k", "tau", "seed", "dim")} == {
        "simulated": "langevin",
        "gamma": 1.0,
        "k": 1.0,
        "tau": 0.1,
        "seed": 4,
        "dim": 3,
    }


def test_particles_start_at_the_origin_and_move_as_the_model_says(ask, tmp_path):
    ask(*LANGEVIN, *SIZE, "-o", tmp_path / "a.nc")
    x = read_trajectories(tmp_path / "a.nc").positions.reshape(200, 11, 3)
    assert_array_equal(x[:, 0], 0)
    # Var(Δx) = 2 k tau (1 - (1 - e^-γτ)/γτ); its standard error is sqrt(2/n) of itself.
    expected = 2 * 0.1 * (1 + np.expm1(-0.1) / 0.1)
    assert_allclose(np.mean(x[:, 1] ** 2), expected, rtol=4 * np.sqrt(2 / 600))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("--gamma", "0"), "--gamma must be a positive number, got 0.0"),
        (("--k", "-1"), "--k must be a positive number, got -1.0"),
        (("--tau", "nan"), "--tau must be a positive number, got nan"),
        (("--particles", "0"), "--particles must be a positive number, got 0"),
        (("--steps", "-3"), "--steps must be a positive number, got -3"),
        (("--dim", "4"), "--dim must be 1, 2 or 3, got 4"),
        (("--seed", "-1"), "--seed must be a whole number from 0 to 2^63 - 1, got -1"),
        (
            ("--seed", str(2**63)),
            f"--seed must be a whole number from 0 to 2^63 - 1, got {2**63}",
        ),
    ],
)
def test_impossible_numbers_are_refused(ask, tmp_path, change, message):
    answer = ask(*LANGEVIN, *SIZE, *change, "-o", tmp_path / "a.csv")
    assert (answer.code, answer.out, answer.err) == (2, "", f"driftbayes: {message}\n")
    assert list(tmp_path.iterdir()) == []


def test_the_largest_seed_is_a_seed(ask, tmp_path):
    assert ask(*LANGEVIN, *SIZE, "--seed", 2**63 - 1, "-o", tmp_path / "a.csv").code == 0


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("langevin+common", "gamma=1 k=1 gamma_common=0.2 common=0.5"),
        ("langevin+flow", "gamma=1 k=1 length=2 own_share=0.2 nu=1.5"),
        ("brownian+eddies", "kappa=1 length=2 own_share=0.2 nu=1.5 divergence=0"),
    ],
)
def test_models_with_shared_motion_are_simulated(ask, tmp_path, name, values):
    path = tmp_path / "tracks.csv"
    given = [part for value in values.split() for part in ("--set", value)]
    size = ("--particles", "30", "--steps", "40", "--tau", "0.5", "-o", path)
    assert ask("simulate", "model", name, *given, *size).code == 0
    x = read_trajectories(path).positions.reshape(30, 41, 2)
    steps = np.diff(x, axis=1)
    # Neighbours move together.
    apart = np.linalg.norm(x[:, None, :-1] - x[None, :, :-1], axis=-1)
    apart[np.diag_indices(30)] = np.inf
    nearest = np.take_along_axis(steps, apart.argmin(axis=0)[..., None], axis=0)
    assert np.mean(steps * nearest) > 0.15 * np.mean(steps**2)


def test_a_flow_without_a_closed_form_is_not_simulated(ask, tmp_path):
    values = ("--set", "kappa=1", "--set", "length=2", "--set", "own_share=0.2", "--set", "nu=1")
    size = ("--particles", "3", "--steps", "4", "--tau", "0.5", "-o", tmp_path / "tracks.csv")
    answer = ask("simulate", "model", "brownian+flow", *values, *size)
    assert answer.code == 2
    assert "nu of a flow must be fixed at 0.5, 1.5 or 2.5, got 1" in answer.err
