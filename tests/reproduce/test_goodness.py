"""Calibration and power of the goodness-of-fit check: the experiment and its page."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from driftbayes.cli.main import main
from driftbayes.errors import DriftbayesError
from driftbayes.reproduce import goodness
from driftbayes.reproduce.goodness import (
    CASES,
    CaseResult,
    Goodness,
    cases_named,
    goodness_table,
    run_goodness,
)
from driftbayes.reproduce.study import Runner

ROOT = Path(__file__).parents[2]
FEW = ("--data-sets", "2", "--wrong-data-sets", "2", "--cases", "brownian,sub-brownian")


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", CASES)
def test_every_case_has_data_of_its_shape_and_a_model(name):
    case = CASES[name]
    data, start_times = case.data(3, 1)
    assert data.n_dim == 2
    assert data.n_particles == case.n_particles == len(start_times)
    assert data.is_regular == (case.sampling == "regular")
    assert (data.position_sd is not None) == (case.sampling == "errors")
    assert case.hypothesis().name == (case.judged_by or case.made_by)


def test_data_are_repeated_by_their_numbers_alone():
    case = CASES["brownian"]
    data, again, other = (case.data(3, number)[0] for number in (1, 1, 2))
    assert again.fingerprint == data.fingerprint != other.fingerprint


def test_drift_and_shared_motion_are_what_they_are_called():
    plain = CASES["brownian"]
    moved = replace(plain, drift=0.3).data(0, 0)[0].dx - plain.data(0, 0)[0].dx
    assert_allclose(moved, np.tile([0.15, 0.0], (1200, 1)), atol=1e-12)
    shared = replace(plain, shared=0.2).data(0, 0)[0].dx - plain.data(0, 0)[0].dx
    steps = shared.reshape(40, 30, 2)
    assert_allclose(steps, np.broadcast_to(steps[0], steps.shape), atol=1e-12)
    assert 0.1 < steps[0].std() < 0.3


def test_the_command_writes_numbers_tables_and_a_figure_and_resumes(tmp_path, capsys, monkeypatch):
    assert main(["reproduce", "goodness", *FEW, "-o", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    stored = json.loads((tmp_path / "goodness.json").read_text())
    assert printed == goodness_table(stored) + "\n" == (tmp_path / "goodness.md").read_text()
    assert (tmp_path / "goodness.png").read_bytes().startswith(b"\x89PNG")
    true, wrong = stored["cases"]["brownian"], stored["cases"]["sub-brownian"]
    assert (true["n_data_sets"], wrong["n_data_sets"]) == (2, 2)
    assert wrong["share_below_level"] == 1
    assert wrong["most_blamed"] in ("autocovariance", "innovation_whiteness", "msd")
    # What was done is not done again, unless the question changes.
    done = []
    monkeypatch.setattr(goodness, "_check_data_sets", lambda *job: done.append(job) or [_row()] * 2)

    def again(seed=0):
        cases = "brownian,sub-brownian"
        return run_goodness(2, 2, seed, cases=cases, runner=Runner(tmp_path)).to_json()

    assert again() == stored
    assert not done
    (tmp_path / "checks" / "brownian-0-2.json").write_text("{")
    assert again() != stored
    assert [name for name, *_ in done] == ["brownian"]
    again(seed=1)
    assert len(done) == 3


def _row():
    return {"p_value": 0.5, "blamed": "", "equal": True, "reason": ""}


def test_shares_are_counted_and_failures_do_not_count_as_passed():
    case = CASES["brownian"]
    p = np.array([0.001, 0.007, 0.3, np.nan])
    result = CaseResult(case, p, ("msd", "mean", "", ""), 1, ("no replicas",))
    assert_allclose(result.share_below(0.01), (0.5, np.sqrt(0.25 / 4)))
    assert result.share_below(0.005)[0] == 0.25
    assert_allclose(result.uniformity, stats.kstest(p[:3], "uniform").pvalue)
    content = json.loads(json.dumps(Goodness((result,), 200, 0).to_json(), allow_nan=False))
    assert content["cases"]["brownian"]["n_not_checked"] == 1
    assert content["cases"]["brownian"]["p_values"][-1] is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_true": 0}, "n_true must be 1 or more, got 0"),
        ({"n_replicas": 100}, "n_replicas must be 200 or more, got 100"),
        ({"runner": Runner(n_workers=0)}, "n_workers must be 1 or more, got 0"),
    ],
)
def test_slips_are_refused(change, message):
    with pytest.raises(DriftbayesError, match=message):
        run_goodness(**change)


def test_an_unknown_case_is_refused():
    with pytest.raises(DriftbayesError, match="unknown case 'brownain'; choose from brownian, "):
        cases_named("brownain")


@pytest.mark.parametrize("exists", [False, True])
def test_a_refused_option_leaves_the_folder_as_it_was(exists, tmp_path):
    folder = tmp_path / "out"
    if exists:
        folder.mkdir()
    assert main(["reproduce", "goodness", "--cases", "brownain", "-o", str(folder)]) == 2
    assert folder.exists() == exists
    assert not list(tmp_path.glob("out/*"))


@pytest.mark.slow
def test_processes_give_the_numbers_of_one(tmp_path):
    paths = [tmp_path / "one", tmp_path / "two"]
    for path, workers in zip(paths, ("1", "2"), strict=True):
        assert main(["reproduce", "goodness", *FEW, "--workers", workers, "-o", str(path)]) == 0
    one, two = (json.loads((path / "goodness.json").read_text()) for path in paths)
    assert one == two


def test_the_tables_of_the_page_are_those_of_the_file():
    stored = json.loads((ROOT / "docs/figures/goodness-power.json").read_text())
    page = (ROOT / "docs/goodness-of-fit.md").read_text(encoding="utf-8")
    assert goodness_table(stored) in page
    # Uniform under truth, at a level that so many cases would miss once in a thousand times.
    true = [case for case in stored["cases"].values() if case["is_true"]]
    assert min(case["uniformity_p_value"] for case in true) > 1e-3 / len(true)
    assert all(case["n_not_checked"] == 0 for case in stored["cases"].values())
