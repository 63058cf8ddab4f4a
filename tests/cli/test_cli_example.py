"""`driftbayes example`: small synthetic data sets to start with, whose truth is found again."""

import shlex

import pytest

import driftbayes as db
from driftbayes.cli.example import FILES
from driftbayes.cli.main import build_parser
from driftbayes.workflow._examples import EXAMPLES


def test_the_list_names_all_and_says_that_they_are_synthetic(ask):
    assert {name: found.file for name, found in EXAMPLES.items()} == FILES
    answer = ask("example")
    assert answer.code == 0
    assert "synthetic" in answer.out
    assert all(name in answer.out for name in FILES)
    assert max(map(len, answer.raw_out.splitlines())) <= 80


@pytest.mark.parametrize("name", FILES)
def test_each_is_small_the_same_again_and_read_without_options(ask, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    answer = ask("example", name)
    assert answer.code == 0
    assert "synthetic" in answer.out
    assert f"next: driftbayes info {FILES[name]}" in answer.raw_out
    file = tmp_path / FILES[name]
    assert file.stat().st_size < 300_000
    first = file.read_bytes()
    refused = ask("example", name)
    assert refused.code == 2
    assert "already exists" in refused.err
    assert ask("example", name, "--overwrite").code == 0
    assert file.read_bytes() == first
    assert db.example(name).fingerprint == db.read(file).fingerprint
    assert ask("info", file).code == 0


def test_an_unknown_name_is_refused_with_those_that_exist(ask):
    answer = ask("example", "drifter")
    assert answer.code == 2
    assert "did you mean 'drifters'" in answer.err
    with pytest.raises(db.DriftbayesError, match="expected one of parcels, drifters"):
        db.example("drifter")


def test_the_file_keeps_its_kind(ask, tmp_path):
    answer = ask("example", "parcels", "-o", tmp_path / "p.csv")
    assert answer.code == 2
    assert "is a .parquet file, got 'p.csv'" in answer.err


TRUTH = {
    "parcels": (3600.0, "langevin", {"k": 100.0, "gamma": 1 / 21600}),
    "drifters": ("all", "langevin+noise", {"k": 400.0, "gamma": 1 / 21600, "sigma": 10.0}),
    "buoys": (3600.0, "langevin", {"k": 400.0, "gamma": 1 / 21600}),
    "particles": (0.05, "brownian+noise", {"kappa": 0.4, "sigma": 0.1}),
    "animal": ("all", "confined", {"k": 26.0, "gamma": 1 / 3600, "well": 1 / 86400}),
}


def test_examples_of_help_that_name_these_files_run_on_them(ask, parsers_of, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = {line for parser in parsers_of(build_parser()) for line in parser.examples}
    named = [shlex.split(line)[1:] for line in lines if " animal.csv" in line]
    assert named
    ask("example", "animal")
    for words in named:
        assert ask(*words).code == 0


# Every data set is made and read above; whether its truth is found, is statistics.
@pytest.mark.sampled(2)
@pytest.mark.filterwarnings("ignore::driftbayes.errors.DriftbayesWarning")
@pytest.mark.parametrize("name", TRUTH)
def test_the_truth_is_within_its_errors(name):
    tau, model, truth = TRUTH[name]
    found = db.example(name).compare(tau=tau, models=model, scales=None)[model]
    for parameter, value in truth.items():
        estimate = found.parameters[parameter]
        assert abs(estimate.mean - value) < 3.5 * estimate.sd, parameter
