"""A damaged scan is refused with one sentence, whatever is wrong with it."""

import numpy as np
import pytest

import fuzz_samples
from driftbayes.cli.main import main
from driftbayes.errors import DriftbayesError
from driftbayes.io import _scans as scans
from driftbayes.io import read_scan, write_scan

NEEDED = (
    *("tau", "model", "parameter", "quantile", "log_evidence", "log_evidence_err", "status"),
    *("probability", "map", "posterior_mean", "posterior_sd", "log_sd", "posterior_quantile"),
    *("consistent", "n_particles", "n_steps", "n_displacements", "information_gain"),
)


@pytest.fixture(scope="module")
def good():
    return fuzz_samples.scan()


def test_a_whole_scan_is_read(tmp_path, good):
    write_scan(good, tmp_path / "scan.nc")
    assert read_scan(tmp_path / "scan.nc")["tau"].values.tolist() == [1, 2, 4]


@pytest.fixture
def read(tmp_path, monkeypatch):
    """Read a scan as from a file; writing and reading one takes half a second."""

    def read_as_stored(scan, *, by_file=False):
        path = tmp_path / "scan.nc"
        if by_file:
            write_scan(scan, path)
        else:
            monkeypatch.setattr(scans, "read_dataset", lambda path, kind: scan)
        return read_scan(path)

    return read_as_stored


@pytest.mark.parametrize("name", NEEDED)
def test_a_scan_without_a_variable_is_refused(read, good, name):
    with pytest.raises(DriftbayesError, match=r"is not a usable scan.*run the scan again"):
        read(good.drop_vars(name), by_file=name == "log_evidence")


WRONG = {
    "times below zero": (lambda s: s.assign_coords(tau=[-1.0, 1, 2]), "positive and increasing"),
    "no times": (lambda s: s.isel(tau=slice(0, 0)), "positive and increasing"),
    "a model twice": (lambda s: s.assign_coords(model=["a", "a"]), "empty, duplicate"),
    "parameters of nobody": (lambda s: s.assign_coords(parameter=["a.b", "a.c", "a.d"]), "none of"),
    "probabilities": (lambda s: s.assign(probability=s["probability"] * 7), "between 0 and 1"),
    "text": (lambda s: s.assign(log_evidence=s["status"]), "does not hold numbers"),
    "status": (lambda s: s.assign(status=s["status"].str.upper()), "is not a known status"),
    "dimensions": (lambda s: s.assign(map=s["map"].T), "has dimensions"),
    "counts": (lambda s: s.assign(n_steps=-s["n_steps"]), "negative"),
    "quantiles": (lambda s: s.assign_coords(quantile=np.arange(5.0)), "quantiles"),
    "priors": (lambda s: s.assign_attrs(priors="[1]"), "'priors' is not a JSON object"),
    "one prior": (lambda s: s.assign_attrs(priors='{"a": {"b": 1}}'), "a prior is not text"),
    "nested": (lambda s: s.assign_attrs(options="[" * 9999), "'options' is not a JSON object"),
    "consistency": (lambda s: s.assign_attrs(consistency='{"a": {"k": 1}}'), "consistency of 'k'"),
    "reading": (lambda s: s.assign_attrs(provenance='{"reading": 7}'), "reading options"),
    "unit": (lambda s: s.assign_attrs(length_unit=7), "'length_unit' is not short text"),
    "seed": (lambda s: s.assign_attrs(options='{"seed": "x"}'), "'seed' is not a whole number"),
}


# What a file might not keep as it is.
BY_FILE = {"text", "no times", "unit", "nested"}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_with_a_scan_is_said(read, good, case):
    change, expected = WRONG[case]
    with pytest.raises(DriftbayesError, match=expected):
        read(change(good), by_file=case in BY_FILE)


@pytest.mark.slow
@pytest.mark.parametrize("case", [case for case in WRONG if case not in BY_FILE])
def test_what_is_wrong_with_a_file_is_said(read, good, case):
    change, expected = WRONG[case]
    with pytest.raises(DriftbayesError, match=expected):
        read(change(good), by_file=True)


@pytest.mark.parametrize(
    "command",
    [("report", "scan.nc", "-o", "r.html"), ("export", "scan.nc", "--for", "json")],
    ids=["report", "export"],
)
@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", ["text", "consistency", "no times"])
def test_commands_refuse_a_damaged_scan_in_one_line(
    tmp_path, good, monkeypatch, capsys, command, case
):
    monkeypatch.chdir(tmp_path)
    write_scan(WRONG[case][0](good), "scan.nc")
    assert main(list(command)) == 2
    error = capsys.readouterr().err.replace("\n    ", " ")
    assert error.startswith("driftbayes: 'scan.nc' is not a usable scan")
    assert error.count("\n") == 1


def test_a_report_of_a_scan_with_failures_is_written(tmp_path, good):
    from driftbayes.report import write_report

    failed = good.map(lambda v: v * np.nan if v.dtype.kind == "f" else v)
    write_scan(failed, tmp_path / "scan.nc")
    write_report(read_scan(tmp_path / "scan.nc"), tmp_path / "r.html")
    assert "NaN" not in (tmp_path / "r.report.json").read_text()


def test_nothing_is_exported_that_is_not_finite(good):
    from driftbayes.simulators import recommend

    failed = good.assign(posterior_mean=good["posterior_mean"] * np.nan)
    with pytest.raises(DriftbayesError, match="has no finite estimate"):
        recommend(failed, model="brownian")
