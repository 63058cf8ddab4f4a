"""`driftbayes qc`, and --qc: found, told, and repaired only if asked to."""

import json

import pytest
from desk import PRIORS, TAUS, langevin_positions, langevin_tracks

from driftbayes.data._trajectories import Trajectories
from driftbayes.io import read_scan, write_trajectories


@pytest.fixture
def spiky_csv(tmp_path):
    x = langevin_positions()
    x[3, 5] += 1e3
    path = tmp_path / "spiky.csv"
    write_trajectories(Trajectories.from_arrays(x, dt=0.1), path)
    return path


def test_the_table_names_every_check_and_changes_nothing(ask, spiky_csv):
    answer = ask("qc", spiky_csv)
    assert (answer.code, answer.err) == (0, "")
    assert "spikes (jumps out and back at more than 8 times the median speed)" in answer.out
    for name in ("drogued", "stuck", "spikes", "repeated", "gaps", "min-points"):
        assert name in answer.out
    assert "Nothing was changed" in answer.out
    assert "limits of the checks" in " ".join(ask("qc", "--help").out.split())


def test_no_finding_is_cut(ask, tmp_path):
    x = langevin_positions(n_particles=30, n_positions=200)
    x[:25, 100] += 0.5
    path = tmp_path / "outliers.csv"
    write_trajectories(Trajectories.from_arrays(x, dt=0.1), path)
    answer = ask("qc", path)
    assert "positions in 25 trajectories: outliers" in " ".join(answer.out.split())
    assert "…" not in answer.out


def test_json_for_programs(ask, spiky_csv):
    found = {f["check"]: f for f in ask("qc", spiky_csv, "--json").json["findings"]}
    assert found["spikes"]["n_observations"] == 1
    assert sum(f["n_observations"] for f in found.values()) == 1
    limited = ask("qc", spiky_csv, "--qc", "spikes=1e5", "--json").json["findings"]
    assert [f["n_observations"] for f in limited if f["check"] == "spikes"] == [0]


def test_findings_are_told_and_the_data_left_alone(ask, spiky_csv):
    answer = ask("info", spiky_csv, "--json")
    assert answer.err == (
        "warning: 1 position in 1 trajectory: spikes (jumps out and back at more than 8 times the "
        "median speed); inspect with `driftbayes qc`, or repair with --qc spikes\n"
    )
    assert answer.json["n_missing"] == 0


def test_what_was_repaired_is_told_and_stored_with_the_result(ask, spiky_csv, tmp_path):
    path = tmp_path / "scan.nc"
    answer = ask("scan", spiky_csv, "--taus", TAUS, *PRIORS, "--qc", "spikes", "-o", path)
    assert answer.code == 0
    assert "qc: spikes: 1 position in 1 trajectory set to missing\n" in answer.err
    provenance = json.loads(read_scan(path).attrs["provenance"])
    assert provenance["quality"] == [
        {"check": "spikes", "n_observations": 1, "n_trajectories": 1, "multiple_of_median": 8.0}
    ]


def test_repaired_data_give_nearly_the_answer_of_good_ones(ask, spiky_csv, tracks_csv):
    arguments = ("--tau", "0.1", *PRIORS, "--json")
    good = ask("compare", tracks_csv, *arguments).json
    repaired = ask("compare", spiky_csv, *arguments, "--qc", "default").json
    spoilt = ask("compare", spiky_csv, *arguments).json
    key = "langevin:brownian"
    assert abs(repaired["log_bayes_factors"][key] - good["log_bayes_factors"][key]) < 20
    assert abs(spoilt["log_bayes_factors"][key] - good["log_bayes_factors"][key]) > 100
    counts = {done["check"]: done["n_observations"] for done in repaired["quality"]}
    assert counts == {"drogued": 0, "stuck": 0, "spikes": 1, "min-points": 0}
    assert "quality" not in good


def test_an_unknown_check_is_one_line(ask, tmp_path):
    write_trajectories(langevin_tracks(n_particles=2), tmp_path / "a.csv")
    answer = ask("info", tmp_path / "a.csv", "--qc", "magic")
    assert answer.code == 2
    assert answer.err.startswith("driftbayes: unknown check 'magic'; known are default")
    assert answer.err.count("\n") == 1
