"""Quantities with units on the command line, and numbers in units that people read."""

import numpy as np
import pytest
from desk import PRIORS, langevin_positions

from driftbayes.data._trajectories import Trajectories
from driftbayes.io import write_trajectories

HOUR = 3600.0
# Langevin positions in km and hours, written in metres and seconds.
SCALES = ("--u-rms", "0.4m/s", "--timescale", "1h")


@pytest.fixture(scope="module")
def seconds(tmp_path_factory):
    path = tmp_path_factory.mktemp("units") / "tracks.parquet"
    x = langevin_positions() * 1000.0
    units = {"length_unit": "m", "time_unit": "s"}
    write_trajectories(Trajectories.from_arrays(x, dt=0.1 * HOUR, **units), path)
    return path


@pytest.fixture
def same(ask, seconds):
    """Whether two commands give the same JSON."""

    def check(name, with_units, plain):
        answers = [ask(name, seconds, *words, "--json") for words in (with_units, plain)]
        assert [answer.code for answer in answers] == [0, 0], answers[0].err + answers[1].err
        first, second = (answer.json for answer in answers)
        if isinstance(first, dict):
            # Which remember the options as they were typed.
            for found in (first, second):
                found.pop("suggested_command", None)
                found.get("provenance", {}).pop("reading", None)
        assert first == second
        return first

    return check


@pytest.mark.parametrize("models", ["brownian"])
def test_every_quantity_may_have_a_unit(same, models):
    usual = ("--models", models)
    scales = ("--u-rms", "0.4", "--timescale", "3600")
    found = same("compare", ("--tau", "6min", *SCALES, *usual), ("--tau", "360", *scales, *usual))
    # JSON keeps the units of the data, and names them.
    assert found["tau"] == 360.0
    assert (found["time_unit"], found["length_unit"]) == ("s", "m")
    noise = ("--noise", "1e-3km"), ("--noise", "1")
    same("compare", ("--tau", "0.1 h", *noise[0], *usual), ("--tau", "360", *noise[1], *usual))
    same("scan", ("--taus", "6min:0.5h:3", *usual), ("--taus", "360:1800:3", *usual))
    same("scan", ("--taus", "6min,0.3h", *usual), ("--taus", "360,1080", *usual))
    prior = ("--prior", "kappa=exponential:3.6km2/h"), ("--prior", "kappa=exponential:1000")
    same("compare", ("--tau", "6min", *prior[0], *usual), ("--tau", "360", *prior[1], *usual))
    same("diagnose", ("--lags", "3", "--max-lag", "30min"), ("--lags", "3", "--max-lag", "1800"))
    same("dependence", ("--tau", "6min"), ("--tau", "360"))
    same("info", ("--period", "100km"), ("--period", "100000"))
    horizon = ("--horizon", "1h,1d"), ("--horizon", "3600,86400")
    few = ("--draws", "20", *usual, *SCALES)
    same("predict", ("--tau", "6min", *horizon[0], *few), ("--tau", "360", *horizon[1], *few))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("compare", "--tau", "6km"), "--tau must be a time, for example 6h, got the unit 'km'"),
        (("compare", "--tau", "6x"), "--tau: 'x' is not a known unit of time; use one of ns"),
        (("scan", "--taus", "1h:2km:3"), "--taus must be a time, for example 6h, got the unit"),
        (("info", "--noise", "5h"), "--noise must be a length, for example 50km, got the unit 'h'"),
        (
            ("compare", "--tau", "1", "--u-rms", "2km", "--timescale", "1"),
            "--u-rms must be a speed",
        ),
        (("predict", "--tau", "1", "--horizon", "soon"), "--horizon must be a number or a time"),
    ],
)
def test_what_is_no_such_quantity_is_refused_before_reading(ask, tmp_path, words, message):
    # There is no such file, which would be found first by a command that reads it.
    answer = ask(words[0], tmp_path / "none.csv", *words[1:])
    assert answer.code == 2
    assert message in " ".join(answer.err.split())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("compare", "--tau", "6h"), "tau has a unit, but the data have no unit of time: pass"),
        (("info", "--noise", "10m"), "noise has a unit, but the data have no unit of length"),
        (("scan", "--taus", "1,6h"), "taus has a unit, but the data have no unit of time"),
        (
            ("compare", "--tau", "0.1", "--prior", "k=exponential:1m2/s"),
            "the prior of k has a unit, but the data have no unit of length",
        ),
    ],
)
def test_a_unit_that_the_data_do_not_have_is_refused(ask, tracks_csv, words, message):
    answer = ask(words[0], tracks_csv, *words[1:])
    assert answer.code == 2
    assert message in " ".join(answer.err.split())


def test_a_cell_in_km_of_data_without_a_unit_is_refused(ask, tracks_csv, tmp_path):
    words = ("--cell", "50km", "--taus", "0.1", "-o", tmp_path / "map.nc", *PRIORS)
    answer = ask("map", tracks_csv, *words, "--models", "brownian")
    assert answer.code == 2
    assert "cell has a unit, but the data have no unit of length" in " ".join(answer.err.split())


def test_frames_say_what_makes_them_times(ask, tmp_path):
    rows = ["particle,frame,x,y", *(f"0,{i},{i}.5,{i * i}" for i in range(9))]
    (tmp_path / "spots.csv").write_text("\n".join(rows))
    answer = ask("compare", tmp_path / "spots.csv", "--format", "trackpy", "--tau", "1s")
    assert answer.code == 2
    assert "pass frame_interval (--frame-interval)" in " ".join(answer.err.split())
    # The suggested command can be typed as it stands.
    told = ask("info", tmp_path / "spots.csv", "--format", "trackpy", "--json").json
    assert "frame" not in (told["suggested_taus"] or "")


def test_people_read_hours_and_days(ask, tmp_path):
    rng = np.random.default_rng(0)
    x = 1e4 * rng.normal(size=(20, 30, 2)).cumsum(axis=1)
    tracks = Trajectories.from_arrays(x, dt=86400.0, length_unit="m", time_unit="s")
    write_trajectories(tracks, tmp_path / "daily.parquet")
    usual = ("--models", "brownian", "--prior", "kappa=exponential:1000")
    answer = ask("compare", tmp_path / "daily.parquet", "--tau", "86400", *usual)
    assert "at tau = 1 d" in " ".join(answer.out.split())
    assert "86400" not in answer.out
    answer = ask("scan", tmp_path / "daily.parquet", "--taus", "1d,2d,5d", *usual)
    assert "3 values of tau from 1 d to 5 d" in answer.out
    assert "tau (d)" in answer.out
    assert "kappa (m²/s)" in answer.out
    answer = ask("info", tmp_path / "daily.parquet")
    assert "recording interval  1 d; regular" in answer.out
    assert "--taus 1d" in answer.out
    answer = ask("diagnose", tmp_path / "daily.parquet", "--lags", "4")
    assert "lag (d)" in answer.out
    assert "e+" not in answer.out
    answer = ask("predict", tmp_path / "daily.parquet", "--tau", "1d", "--horizon", "10d", *usual)
    assert "T (d)" in answer.out
    assert "sd (km)" in answer.out
