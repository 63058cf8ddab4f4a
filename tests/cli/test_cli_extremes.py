"""Numbers with which a computation would overflow: a message, whatever the option."""

import pytest

from driftbayes._magnitudes import checked, checked_count
from driftbayes.cli.main import main
from driftbayes.errors import DriftbayesError


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{i},{t},{t * 0.1 * i},{t * t % 5}\n" for i in (1, 2) for t in range(8))
    (tmp_path / "t.csv").write_text(f"id,time,x,y\n{rows}")


@pytest.mark.parametrize(
    "command",
    [
        "compare t.csv --tau 1 --u-rms 1e300 --timescale 1e300",
        "compare t.csv --tau 1 --u-rms 1e-300 --timescale 1",
        "compare t.csv --tau 1e300",
        "compare t.csv --tau 1 --noise 1e300",
        "compare t.csv --tau 1 --period 1e300",
        "compare t.csv --tau 1 --prior kappa=exponential:1e300",
        "compare t.csv --tau 1 --model-prior 1e300,1e300",
        "scan t.csv --taus 1e300",
        "scan t.csv --taus 1:1e300:3log",
        "scan t.csv --taus 1:2:999999999999",
        "diagnose t.csv --frame-interval 1e300s",
        "diagnose t.csv --pixel-size 1e-300um",
        "diagnose t.csv --lags 999999999999999999999999",
        "simulate brownian --kappa 1e300 --particles 1 --steps 2 --tau 1 -o a.csv",
        "simulate brownian --kappa 1 --particles 99999999999999 --steps 2 --tau 1 -o a.csv",
        "check t.csv --tau 1 --replicas 99999999999999999999",
    ],
)
def test_extreme_numbers_are_refused_in_one_line(capsys, command):
    assert main(command.split()) == 2
    error = capsys.readouterr().err.strip().replace("\n    ", " ").splitlines()[-1]
    assert error.startswith("driftbayes: ")
    assert "Traceback" not in error


@pytest.mark.parametrize("lags", ["1000000000", "100000"])
def test_more_lags_than_there_are_take_no_memory(capsys, lags):
    assert main(["diagnose", "t.csv", "--lags", lags]) == 0


@pytest.mark.parametrize("value", [0, 1, -3.5, 1e100, 1e-100, 10**20])
def test_numbers_in_range_are_kept(value):
    assert checked(value, "x") == value


@pytest.mark.parametrize("value", [1e101, -1e300, 1e-101, float("inf"), float("nan"), 10**400])
def test_numbers_out_of_range_are_refused(value):
    with pytest.raises(DriftbayesError, match=r"x must be a number of magnitude .* other units"):
        checked(value, "x")


@pytest.mark.parametrize("value", ["1", None, True, [1]])
def test_what_is_no_number_is_refused(value):
    with pytest.raises(DriftbayesError, match="x must be a number, got"):
        checked(value, "x")


def test_counts_have_an_end():
    assert checked_count(10**9, "n") == 10**9
    with pytest.raises(DriftbayesError, match="at most 1,000,000,000"):
        checked_count(10**9 + 1, "n")


@pytest.mark.parametrize("value", [1e300, 10**400, "x", True])
def test_the_api_of_explore_refuses_them_too(value):
    from driftbayes.explore.api import _compare_request
    from driftbayes.explore.dataset import START, simulate

    with pytest.raises(DriftbayesError, match="u_rms must be a number"):
        _compare_request({"models": ["brownian"], "u_rms": value, "timescale": 1.0})
    with pytest.raises(DriftbayesError, match="kappa must be a number"):
        simulate({**START, "model": "brownian", "theta": {"kappa": value}})
