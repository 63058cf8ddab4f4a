"""`driftbayes scan`: how the verdict changes with the sampling time."""

import json

import numpy as np
import pytest
from desk import PRIORS, TAUS, check_comparison, langevin_tracks
from numpy.testing import assert_allclose

from driftbayes.data._units import times_in
from driftbayes.errors import DriftbayesError
from driftbayes.io import read_scan, write_trajectories


@pytest.fixture
def answer(ask, tracks_csv):
    return ask("scan", tracks_csv, "--taus", TAUS, *PRIORS, "--json")


def test_json_is_a_list_of_comparisons_with_consistency(answer):
    assert answer.code == 0
    found = answer.json
    assert_allclose([one["tau"] for one in found], [0.1, 0.2, 0.3, 0.4, 0.5])
    for one in found:
        check_comparison(one)
        assert set(one["consistency"]) == {"brownian", "langevin"}
        assert one["consistency"] == found[0]["consistency"]
    langevin = found[0]["consistency"]["langevin"]
    assert set(langevin["k"]) == {"tau_min", "tau_max", "n_taus", "value", "sd"}
    assert langevin["sentence"].startswith("langevin is sampling-time consistent for tau from 0.1")
    assert answer.err == ""


def test_each_entry_is_the_comparison_at_that_tau(answer, ask, tracks_csv):
    alone = ask("compare", tracks_csv, "--tau", "0.1", *PRIORS, "--json").json
    found = answer.json[0]
    assert found["data_fingerprint"] == alone["data_fingerprint"]
    for name, model in alone["models"].items():
        assert_allclose(found["models"][name]["log_evidence"], model["log_evidence"], rtol=1e-10)


def test_people_get_a_table_and_one_sentence_per_model(ask, tracks_csv):
    answer = ask("scan", tracks_csv, "--taus", TAUS, *PRIORS, "--time-unit", "h")
    lines = answer.out.rstrip().splitlines()
    assert lines[0] == "Scan: 5 values of tau from 0.1 h to 0.5 h, brownian, langevin"
    title = lines.index("  Posterior mean ± sd (· in the consistent range)")
    for column in ("tau (h)", "brownian.kappa", "langevin.gamma", "ln K(langevin:brownian)"):
        assert column in lines[title + 1]
    rows = [line.split()[0] for line in lines if "1.000 langevin" in line]
    assert rows == ["0.1", "0.2", "0.3", "0.4", "0.5"]
    text = " ".join(answer.out.split())
    assert "brownian is not sampling-time consistent in the scanned range" in text
    assert "langevin is sampling-time consistent for tau from 0.1 h to 0.5 h (" in text
    assert "·" in answer.out


def test_the_file_holds_the_same_numbers(answer, ask, tracks_csv, tmp_path):
    written = ask("scan", tracks_csv, "--taus", TAUS, *PRIORS, "-o", tmp_path / "scan.nc", "--json")
    assert written.err.splitlines()[-1] == f"wrote {tmp_path / 'scan.nc'}"
    assert written.json == answer.json
    dataset = read_scan(tmp_path / "scan.nc")
    assert dataset["tau"].values.tolist() == [one["tau"] for one in answer.json]
    assert dataset["log_bayes_factor"].sel(pair="langevin:brownian").values.tolist() == [
        one["log_bayes_factors"]["langevin:brownian"] for one in answer.json
    ]
    assert json.loads(dataset.attrs["provenance"])["source"] == "tracks.csv"


def test_taus_are_snapped_and_merged_and_said_so(ask, tracks_csv):
    answer = ask("scan", tracks_csv, "--taus", "0.1:0.5:30log", *PRIORS, "--json")
    assert [one["n_steps"] for one in answer.json] == [10, 5, 3, 2, 2]
    assert answer.err.splitlines()[0] == (
        "30 sampling times rounded to 5 multiples of the recording interval 0.1"
    )
    told = ask("scan", tracks_csv, "--taus", "0.1,0.11", *PRIORS).err.splitlines()[0]
    assert told == "2 sampling times rounded to 1 multiple of the recording interval 0.1"


def test_a_tau_that_is_too_long_is_left_out_and_said_so(ask, tmp_path):
    write_trajectories(langevin_tracks(n_positions=51), tmp_path / "long.csv")
    answer = ask(
        *("scan", tmp_path / "long.csv", "--taus", "0.1:1:10", "--n-tau", "10", *PRIORS, "--json")
    )
    assert len(answer.json) == 5
    reasons = {round(one["tau"], 9): one["reason"] for one in answer.json[0]["skipped"]}
    assert list(reasons) == [0.6, 0.7, 0.8, 0.9, 1.0]
    assert reasons[1.0] == (
        "no trajectory has 10 successive steps at tau = 1, the longest has 5; "
        "use a smaller tau or n_tau"
    )
    shown = ask("scan", tmp_path / "long.csv", "--taus", "0.5:0.8:4", "--n-tau", "10", *PRIORS)
    told = " ".join(shown.out.split())
    assert "left out tau = 0.6: no trajectory has 10 successive steps at tau, the l" in told
    assert "left out tau = 0.7" in told


def test_default_priors_are_announced(ask, tracks_csv):
    answer = ask("scan", tracks_csv, "--taus", TAUS, "--json")
    (line,) = answer.err.splitlines()
    assert line.startswith("warning: default priors set from the data (u_rms = ")


def test_other_options_reach_the_scan(ask, tracks_csv):
    laplace = ask(
        *("scan", tracks_csv, "--taus", TAUS, *PRIORS, "--method", "laplace", "--coords", "log"),
        *("--model-prior", "9,1", "--json"),
    ).json
    assert {one["method"] for one in laplace} == {"laplace (log)"}
    models = laplace[-1]["models"]
    odds = models["langevin"]["probability"] / models["brownian"]["probability"]
    log_k = laplace[-1]["log_bayes_factors"]["langevin:brownian"]
    assert_allclose(np.log(odds), log_k - np.log(9))
    table = ask("scan", tracks_csv, "--taus", TAUS, *PRIORS, "--method", "laplace")
    assert "laplace (natural)" in table.out


def test_one_model_may_be_scanned(ask, tracks_csv):
    answer = ask("scan", tracks_csv, "--taus", TAUS, "--models", "brownian", *PRIORS[:2])
    assert answer.code == 0
    assert "ln K" not in answer.out


def test_irregular_times_are_sent_to_compare(ask, tmp_path):
    rows = "".join(f"a,{t},{x}\n" for t, x in ((0, 0), (1, 0.5), (2.7, 0.1), (3, 0.2)))
    (tmp_path / "irregular.csv").write_text("id,time,x\n" + rows)
    answer = ask("scan", tmp_path / "irregular.csv", "--taus", "1,2")
    assert answer.code == 2
    assert answer.err == (
        "driftbayes: a scan over tau needs regular times, these have intervals from 0.3 to 1.7; "
        "compare with tau='all' (--tau all) to use every position at its own interval\n"
    )


# Sampling times as text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1,2.5,1e2", [1, 2.5, 100]),
        ("7", [7]),
        ("1:3:3", [1, 2, 3]),
        ("0.01:100:5log", [0.01, 0.1, 1, 10, 100]),
        ("2:2:1log", [2]),
    ],
)
def test_taus_are_listed_or_spaced(text, expected):
    assert_allclose(times_in(text, None, "--taus"), expected)


@pytest.mark.parametrize("text", ["1:2", "1:2:3:4", "a:2:3", "1:2:x", "1:2:2.5", "1:2:3lag"])
def test_badly_written_taus_are_shown_how(text):
    with pytest.raises(DriftbayesError) as error:
        times_in(text, None, "--taus")
    assert str(error.value) == (
        f"--taus must be a,b,c or low:high:count or low:high:countlog, got {text!r}"
    )


@pytest.mark.parametrize("text", ["0:1:3log", "-1:1:3", "2:1:3", "1:inf:3", "nan:1:3", "1:2:0"])
def test_ranges_without_a_tau_are_refused(text):
    with pytest.raises(DriftbayesError, match="needs 0 < low <= high and a count from 1 to 10,000"):
        times_in(text, None, "--taus")


@pytest.mark.parametrize("text", ["", "a", "1,,2", "1;2"])
def test_taus_that_are_no_numbers_are_refused(text):
    with pytest.raises(
        DriftbayesError, match="must be a number or a time with its unit, for example 6h, got"
    ):
        times_in(text, None, "--taus")


def test_sampling_times_that_suit_the_data_are_chosen_where_none_are_given(ask, tracks_csv):
    answer = ask("scan", tracks_csv, *PRIORS, "--json")
    suggested = ask("info", tracks_csv, "--json").json["suggested_taus"]
    asked = ask("scan", tracks_csv, "--taus", suggested, *PRIORS, "--json")
    assert [one["tau"] for one in answer.json] == [one["tau"] for one in asked.json]
