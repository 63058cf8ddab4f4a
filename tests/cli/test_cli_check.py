"""`driftbayes check`: whether a fitted model explains the data at all."""

import pytest
from desk import PRIORS

ASK = ("--replicas", "100", "--seed", "3")


@pytest.fixture(scope="module")
def question(tracks_csv):
    return ("check", tracks_csv, "--tau", "0.1", *PRIORS, *ASK)


def test_people_get_a_table_a_sentence_and_a_figure(ask, question, tmp_path):
    figure = tmp_path / "check.png"
    answer = ask(*question, "-o", figure)
    assert answer.code == 0
    title, *rest = answer.out.splitlines()
    assert title.startswith("Goodness of fit: langevin is the best of the set, and ")
    text = " ".join(" ".join([title, *rest]).split())
    assert "Adjusted p-values from 100 replicas (< 0.01: contradicted)" in text
    for word in ("autocovariance of displacements", "all quantities", "brownian", "langevin"):
        assert word in text
    assert "; 100 replicas, seed 3 " in text
    other = text[text.index("brownian: it does not explain ") :]
    assert "the autocovariance of displacements (lag 1: " in other
    assert "p < 0.01)" in other
    # The times of the file tell which steps are simultaneous.
    assert "independence of particles" in text
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert f"wrote {figure}" in answer.err


def test_json_holds_every_band_and_is_repeatable(ask, question):
    brownian = (*question, "--models", "brownian", "--json")
    without = [arg for arg in brownian if not str(arg).startswith(("gamma=", "k="))]
    # Each --prior goes with its value.
    arguments = [a for i, a in enumerate(without) if a != "--prior" or "=" in str(without[i + 1])]
    first, second = ask(*arguments), ask(*arguments)
    assert first.code == 0, first.err
    found = first.json
    assert found == second.json
    model = found["models"]["brownian"]
    assert (model["n_replicas"], model["seed"]) == (100, 3)
    assert "autocovariance" in model["unexplained"]
    for quantity in model["quantities"].values():
        n = len(quantity["at"])
        assert all(len(quantity[key]) == n for key in ("observed", "low", "high", "z", "p_values"))
        assert 0 < quantity["p_value"] <= 1


FIGURE = (
    "a figure is a PNG, PDF or SVG file: expected a name ending in .png, .pdf or .svg, got 'a.nc'"
)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("--tau", "x"), "--tau must be a number or a time with its unit, for example 6h, got 'x'"),
        (("-o", "a.nc"), FIGURE),
        (("--seed", "-1"), "--seed must be a whole number from 0 to 2^63 - 1, got -1"),
    ],
)
def test_slips_are_told_in_one_sentence(ask, question, change, message):
    answer = ask(*question, *change)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == f"driftbayes: {message}\n"


def test_too_few_replicas_are_refused(ask, question):
    answer = ask(*question, "--replicas", "5")
    assert answer.code == 2
    assert "--replicas must be a whole number, 100 or more" in answer.err
