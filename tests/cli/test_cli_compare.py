"""`driftbayes compare`: a table of positions in, a verdict out."""

import re

import numpy as np
import pytest
from desk import PRIORS, check_comparison, langevin_positions, langevin_tracks
from numpy.testing import assert_allclose

from driftbayes.comparison import compare_hypotheses, make_hypotheses
from driftbayes.data._sampling import displacements
from driftbayes.data._trajectories import Trajectories
from driftbayes.io import read_trajectories, write_trajectories
from driftbayes.priors import Exponential


@pytest.fixture
def answer(ask, tracks_csv):
    return ask("compare", tracks_csv, "--tau", "0.1", *PRIORS, "--json")


# The answer


def test_json_alone_is_on_stdout_and_has_the_promised_keys(answer):
    assert answer.code == 0
    found = answer.json
    check_comparison(found)
    assert list(found["models"]) == ["brownian", "langevin"]
    assert list(found["log_bayes_factors"]) == ["langevin:brownian"]
    assert (found["tau"], found["n_particles"], found["n_steps"], found["n_dim"]) == (
        0.1,
        60,
        10,
        2,
    )
    assert found["method"] == "exact"
    assert found["priors_from_data"] is False
    assert answer.err == ""


def test_the_answer_is_that_of_the_library(answer, tracks_csv):
    data = displacements(read_trajectories(tracks_csv), 0.1)
    unit = Exponential(mean=1.0)
    setup = make_hypotheses(
        ["brownian", "langevin"], priors={"kappa": unit, "gamma": unit, "k": unit}
    )
    expected = {**compare_hypotheses(setup.hypotheses, data).to_json(), "priors_from_data": False}
    assert answer.json == expected


def test_the_truth_is_recovered(answer):
    found = answer.json
    langevin = found["models"]["langevin"]
    for name in ("gamma", "k"):
        assert abs(langevin["posterior_mean"][name] - 1) < 4 * langevin["posterior_sd"][name]
    assert found["verdict"].startswith("langevin is very strongly favoured over brownian")
    assert_allclose(
        found["log_bayes_factors"]["langevin:brownian"],
        langevin["log_evidence"] - found["models"]["brownian"]["log_evidence"],
    )


def test_people_get_tables_and_a_sentence(ask, tracks_csv):
    answer = ask(
        *("compare", tracks_csv, "--tau", "0.1", *PRIORS),
        *("--length-unit", "km", "--time-unit", "h"),
    )
    assert answer.code == 0
    title, *rest = answer.out.splitlines()
    assert title.startswith("Comparison: langevin is very strongly favoured over brownian at tau")
    text = "\n".join(rest)
    assert "60 particles, up to 10 steps, 2D, 1,200 displacements" in text
    for word in ("ln Z", "ln L(MAP)", "ln Occam", "P(model)", "km²/h", "1/h", "2κτ per axis"):
        assert word in text
    assert "  ln K(langevin:brownian)  " in text
    assert "Sensitivity" not in text


@pytest.mark.parametrize("width", [40, 80])
def test_a_narrow_terminal_costs_no_column_and_no_digit(ask, tracks_csv, monkeypatch, width):
    wide = ask("compare", tracks_csv, "--tau", "0.1", *PRIORS)
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    narrow = re.sub(r"\x1b\[[0-9;]*m", "", ask("compare", tracks_csv, "--tau", "0.1", *PRIORS).out)
    assert "…" not in narrow.replace(" … ", "")
    assert set(narrow.split()) - set(wide.out.split()) <= {"─" * n for n in range(width)}
    assert set(wide.out.replace("─", "").split()) <= set(narrow.split())
    rows = [line for line in narrow.splitlines() if line.startswith(" ")]
    assert max(map(len, rows)) <= max(width, 56)


# Priors


def test_default_priors_say_where_they_come_from_and_show_what_they_do(ask, tracks_csv):
    answer = ask("compare", tracks_csv, "--tau", "0.1", "--json")
    (line,) = answer.err.splitlines()
    assert line.startswith("warning: default priors set from the data (u_rms = ")
    assert line.endswith("pass --u-rms and --timescale (scales=) for an independent prior")
    found = answer.json
    assert found["priors_from_data"] is True
    rows = found["prior_sensitivity"]
    assert [(row["scaled"], row["factor"]) for row in rows] == [
        (["kappa", "k", "gamma"], 0.25),
        (["kappa", "k", "gamma"], 4.0),
        (["kappa", "k"], 0.25),
        (["kappa", "k"], 4.0),
        (["gamma"], 0.25),
        (["gamma"], 4.0),
    ]
    for row in rows:
        gap = row["log_bayes_factors"]["langevin:brownian"]
        assert abs(gap - found["log_bayes_factors"]["langevin:brownian"]) < 5


def test_people_see_the_sensitivity_too(ask, tracks_csv):
    answer = ask("compare", tracks_csv, "--tau", "0.1")
    assert "Sensitivity to the priors" in answer.out
    assert "kappa, k, gamma × 0.25" in answer.out
    asked = ask("compare", tracks_csv, "--tau", "0.1", *PRIORS, "--sensitivity")
    assert "kappa, k, gamma × 0.25" in asked.out


def test_scales_make_the_priors_of_the_paper(ask, tracks_csv):
    scales = ("--u-rms", "2", "--timescale", "0.5")
    answer = ask("compare", tracks_csv, "--tau", "0.1", *scales, "--json")
    assert answer.json["models"]["langevin"]["priors"] == {
        "gamma": "exponential:2",
        "k": "exponential:2",
    }
    assert "prior_sensitivity" not in answer.json


def test_one_prior_may_be_given_and_the_others_scaled(ask, tracks_csv):
    answer = ask(
        *("compare", tracks_csv, "--tau", "0.1", "--json"),
        *("--u-rms", "1", "--timescale", "1", "--prior", " gamma = exponential:3"),
    )
    assert answer.json["models"]["langevin"]["priors"]["gamma"] == "exponential:3"


def test_model_priors_move_probabilities_and_not_bayes_factors(ask, tracks_csv):
    # At tau = 0.1 the data leave no doubt: the prior has to be as sure as they are.
    plain = ask("compare", tracks_csv, "--tau", "0.1", *PRIORS, "--json").json
    log_k = plain["log_bayes_factors"]["langevin:brownian"]
    tiny = 10.0 ** (-300)
    found = ask(
        "compare", tracks_csv, "--tau", "0.1", *PRIORS, "--model-prior", f"1,{tiny}", "--json"
    ).json
    assert found["log_bayes_factors"] == plain["log_bayes_factors"]
    expected = 1 / (1 + np.exp(-(log_k + np.log(tiny))))
    assert_allclose(found["models"]["langevin"]["probability"], expected, rtol=1e-9)


def test_models_may_be_chosen(ask, tracks_csv):
    answer = ask(
        "compare", tracks_csv, "--tau", "0.1", "--models", "langevin", *PRIORS[2:], "--json"
    )
    assert list(answer.json["models"]) == ["langevin"]
    assert answer.json["log_bayes_factors"] == {}
    assert answer.json["verdict"] == "langevin is the only model considered at tau = 0.1"
    default = ask("compare", tracks_csv, "--tau", "0.1", "--models", "langevin", "--json")
    assert "prior_sensitivity" not in default.json
    assert "ln K" not in default.err
    spaced = ask("compare", tracks_csv, "--tau", "0.1", "--models", "brownian, langevin", *PRIORS)
    assert spaced.code == 0


# Methods


def test_laplace_is_the_papers_method_and_says_in_which_coordinates(ask, tracks_csv, answer):
    laplace = ("compare", tracks_csv, "--tau", "0.1", *PRIORS, "--method", "laplace", "--json")
    natural, log = ask(*laplace), ask(*laplace, "--coords", "log")
    assert natural.json["method"] == "laplace (natural)"
    assert log.json["method"] == "laplace (log)"
    exact = answer.json
    for found in (natural.json, log.json):
        check_comparison(found)
        for name, model in found["models"].items():
            assert model["log_evidence_err"] is None
            assert_allclose(model["log_evidence"], exact["models"][name]["log_evidence"], atol=0.02)
    evidences = [found.json["models"]["langevin"]["log_evidence"] for found in (natural, log)]
    assert evidences[0] != evidences[1]
    table = ask(*laplace[:-1])
    assert re.search(r"method +laplace \(natural\)", table.out)


# Reading


@pytest.mark.parametrize("suffix", [".csv.gz", ".parquet", ".pq", ".nc"])
def test_every_format_gives_the_same_answer(ask, answer, tmp_path, suffix):
    path = tmp_path / f"tracks{suffix}"
    write_trajectories(langevin_tracks(), path)
    assert ask("compare", path, "--tau", "0.1", *PRIORS, "--json").json == answer.json


def test_columns_may_have_other_names(ask, answer, tracks_csv, tmp_path):
    text = tracks_csv.read_text()
    path = tmp_path / "other.csv"
    path.write_text(text.replace("id,time,x,y", "track,t,lon,lat", 1))
    named = ("--columns", "id=track,time=t,x=lon,y=lat")
    assert ask("compare", path, "--tau", "0.1", *named, *PRIORS, "--json").json == answer.json
    flat = ask("compare", tracks_csv, "--tau", "0.1", "--columns", "y=", *PRIORS, "--json").json
    assert flat["n_dim"] == 1


def test_a_periodic_domain_is_unwrapped(ask, answer, tmp_path):
    x = langevin_positions()
    for period, argument in (((2.0, 2.0), "2"), ((2.0, None), "2,-")):
        wrapped = [
            x[..., i] if length is None else np.mod(x[..., i], length)
            for i, length in enumerate(period)
        ]
        write_trajectories(
            Trajectories.from_arrays(np.stack(wrapped, axis=-1), dt=0.1), tmp_path / "wrapped.csv"
        )
        found = ask(
            *("compare", tmp_path / "wrapped.csv", "--tau", "0.1", "--period", argument),
            *(*PRIORS, "--json"),
        ).json
        for name, model in found["models"].items():
            expected = answer.json["models"][name]["log_evidence"]
            assert_allclose(model["log_evidence"], expected, rtol=1e-9)
    broken = ask("compare", tmp_path / "wrapped.csv", "--tau", "0.1", *PRIORS, "--json").json
    assert (
        broken["models"]["brownian"]["map"]["kappa"]
        > 2 * (answer.json["models"]["brownian"]["map"]["kappa"])
    )


def test_short_trajectories_may_be_dropped(ask, answer, tracks_csv, tmp_path):
    path = tmp_path / "short.csv"
    path.write_text(tracks_csv.read_text() + "lonely,0,1,1\nlost,0,,\nlost,0.1,,\n")
    refused = ask("compare", path, "--tau", "0.1", *PRIORS)
    assert refused.code == 2
    assert "--drop-short" in refused.err
    kept = ask("compare", path, "--tau", "0.1", "--drop-short", *PRIORS, "--json")
    assert kept.json["models"] == answer.json["models"]


def test_what_is_too_short_for_tau_is_not_used_and_said_so(ask, answer, tracks_csv, tmp_path):
    path = tmp_path / "short.csv"
    path.write_text(tracks_csv.read_text() + "brief,0,1,1\nbrief,0.1,1,1.1\n")
    found = ask("compare", path, "--tau", "0.1", "--n-tau", "10", *PRIORS, "--json")
    assert_allclose(
        found.json["log_bayes_factors"]["langevin:brownian"],
        answer.json["log_bayes_factors"]["langevin:brownian"],
        rtol=1e-9,
    )
    assert found.err.startswith("warning: 1 trajectory is too short for this tau and not used\n")
    path.write_text(path.read_text() + "short,0,1,1\nshort,0.1,1,1.1\n")
    found = ask("compare", path, "--tau", "0.1", "--n-tau", "10", *PRIORS)
    assert found.err.startswith("warning: 2 trajectories are too short for this tau and not used\n")


def test_windows_of_a_long_trajectory_are_used_as_asked(ask, tmp_path):
    write_trajectories(langevin_tracks(n_positions=31), tmp_path / "long.nc")
    window = ("compare", tmp_path / "long.nc", "--tau", "0.1", "--n-tau", "10", *PRIORS, "--json")
    assert ask(*window).json["n_displacements"] == 60 * 10 * 2
    assert ask(*window, "--windows", "all").json["n_displacements"] == 60 * 30 * 2


# Noise, gaps, irregular times


def test_noise_is_told_from_motion(ask, tmp_path):
    rng = np.random.default_rng(3)
    x = langevin_positions(n_particles=8)
    noisy = Trajectories.from_arrays(x + 0.05 * rng.normal(size=x.shape), dt=0.1)
    write_trajectories(noisy, tmp_path / "noisy.csv")
    told = ask(
        "compare", tmp_path / "noisy.csv", "--tau", "0.1", "--noise", "0.05", *PRIORS, "--json"
    ).json
    silent = ask("compare", tmp_path / "noisy.csv", "--tau", "0.1", *PRIORS, "--json").json
    langevin = told["models"]["langevin"]
    assert abs(langevin["posterior_mean"]["gamma"] - 1) < 4 * langevin["posterior_sd"]["gamma"]
    # Unexplained noise looks like a velocity that forgets at once.
    assert silent["models"]["langevin"]["map"]["gamma"] > 2 * langevin["map"]["gamma"]
    assert told["data_fingerprint"] != silent["data_fingerprint"]


def test_a_column_of_errors_is_the_same_as_the_option(ask, tmp_path):
    tracks = langevin_tracks(n_particles=8)
    write_trajectories(tracks, tmp_path / "plain.csv")
    with_sd = langevin_tracks(n_particles=8, position_sd=np.full((8, 11), 0.02))
    write_trajectories(with_sd, tmp_path / "sd.csv")
    option = ask(
        "compare", tmp_path / "plain.csv", "--tau", "0.1", "--noise", "0.02", *PRIORS, "--json"
    )
    column = ask("compare", tmp_path / "sd.csv", "--tau", "0.1", *PRIORS, "--json")
    assert option.json == column.json


def irregular(tmp_path):
    x = langevin_positions(n_particles=8, n_positions=16)
    times = np.delete(np.arange(16) * 0.1, [3, 4, 8, 11, 12])
    x = np.delete(x, [3, 4, 8, 11, 12], axis=1)
    shifts = np.random.default_rng(1).uniform(0, 0.02, size=len(times))
    tracks = Trajectories.from_arrays(x, times=times + shifts)
    write_trajectories(tracks, tmp_path / "irregular.csv")
    return tmp_path / "irregular.csv"


def test_irregular_times_are_used_as_they_are(ask, tmp_path):
    path = irregular(tmp_path)
    refused = ask("compare", path, "--tau", "0.1", *PRIORS)
    assert refused.code == 2
    assert "times are irregular" in refused.err
    assert "--tau all" in refused.err
    found = ask("compare", path, "--tau", "all", *PRIORS, "--json").json
    assert found["n_displacements"] == 8 * 10 * 2
    assert_allclose(found["tau"], 0.15, rtol=0.1)
    langevin = found["models"]["langevin"]
    assert abs(langevin["posterior_mean"]["gamma"] - 1) < 4 * langevin["posterior_sd"]["gamma"]


def test_regular_times_taken_as_irregular_give_the_same_answer(ask, answer, tracks_csv):
    found = ask("compare", tracks_csv, "--tau", "all", *PRIORS, "--json").json
    for name, model in found["models"].items():
        expected = answer.json["models"][name]["log_evidence"]
        assert_allclose(model["log_evidence"], expected, rtol=1e-9)


def test_a_gap_splits_or_is_kept(ask, tmp_path):
    x = langevin_positions(n_particles=8, n_positions=12)
    x[:, 4] = np.nan
    write_trajectories(Trajectories.from_arrays(x, dt=0.1), tmp_path / "gap.csv")
    gap = ("compare", tmp_path / "gap.csv", "--tau", "0.1", *PRIORS, "--json", "--gaps")
    assert ask(*gap, "keep").json["n_displacements"] == 8 * 10 * 2
    assert ask("info", tmp_path / "gap.csv", "--json").json["n_missing"] == 8
