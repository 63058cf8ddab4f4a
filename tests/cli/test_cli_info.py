"""`driftbayes info`: what a file holds."""

import shlex
from dataclasses import replace

import numpy as np
import pytest
from desk import langevin_positions, langevin_tracks

from driftbayes.data._trajectories import Trajectories
from driftbayes.data.sphere import on_plane
from driftbayes.io import write_trajectories


def test_json_holds_the_facts(ask, tracks_csv):
    answer = ask("info", tracks_csv, "--json")
    assert (answer.code, answer.err) == (0, "")
    found = answer.json
    expected = {
        "file": "tracks.csv",
        "n_trajectories": 60,
        "n_points": 660,
        "n_missing": 0,
        "n_gaps_in_time": 0,
        "n_dim": 2,
        "shortest": 11,
        "longest": 11,
        "time_min": 0.0,
        "time_max": 1.0,
        "length_unit": None,
        "time_unit": None,
        "has_measurement_error": False,
        "data_fingerprint": langevin_tracks().fingerprint,
        "provenance": {"source": "tracks.csv", "reader": "csv"},
    }
    assert {key: found[key] for key in expected} == expected
    assert abs(found["recording_interval"] - 0.1) < 1e-12
    assert found["position_max"] == langevin_tracks().positions.max(axis=0).tolist()


def told(answer):
    """The rows of the table, by their first words."""
    lines = (line.strip() for line in answer.out.splitlines())
    pairs = (line.split("  ", 1) for line in lines if "  " in line)
    return {label: text.strip() for label, text in pairs}


def test_people_get_the_same_in_words(ask, tracks_csv):
    answer = ask("info", tracks_csv, "--time-unit", "h", "--length-unit", "km")
    assert answer.code == 0
    rows = told(answer)
    assert rows["format"].startswith("table (CSV or Parquet")
    assert rows["detected by"] == "content (csv: id, time, x, y)"
    assert rows["trajectories"] == "60"
    assert rows["positions"] == "660; 11 positions per trajectory"
    assert rows["time range"] == "0 to 1 h"
    assert rows["recording interval"].startswith("0.1 h")
    assert rows["gaps"] == "none"
    assert rows["units"] == "length km, time h"
    assert rows["measurement errors"] == "none given"
    assert rows["rounding"] == "negligible"
    (command,) = (line for line in answer.out.splitlines() if line.startswith("next: "))
    assert command.startswith("next: driftbayes scan ")
    assert command.endswith("--length-unit km --time-unit h --taus 0.1h,0.2h")


def test_the_suggested_command_runs(ask, tracks_csv):
    words = shlex.split(ask("info", tracks_csv, "--json").json["suggested_command"])
    assert words[0] == "driftbayes"
    answer = ask(*words[1:], "--prior", "kappa=exponential:1", "--models", "brownian")
    assert answer.code == 0, answer.err


def test_the_format_and_how_it_was_known(ask, tmp_path):
    (tmp_path / "t.csv").write_text("particle,frame,x,y\n1,0,1,1\n1,1,2,2\n1,3,3,1\n")
    found = ask("info", tmp_path / "t.csv", "--json").json
    assert found["format"] == "trackpy"
    assert found["recognised_by"] == "content (csv: particle, frame, x, y)"
    assert (found["length_unit"], found["time_unit"]) == ("px", "frame")
    assert (found["n_gaps"], found["longest_gap"]) == (1, 2.0)
    assert any("pixels" in note for note in found["notes"])
    found = ask("info", tmp_path / "t.csv", "--format", "trackpy", "--json").json
    assert found["recognised_by"] == "--format"


def drifter(n, decimals):
    """A random walk in degrees, one fix per hour, as dates."""
    rng = np.random.default_rng(1)
    steps = rng.normal(scale=1e-4, size=(n, 2)).cumsum(axis=0)
    dates = np.datetime64("2020-02-28T00:00:00") + np.arange(n) * np.timedelta64(3600, "s")
    rows = [
        f"a,{d},{10 + x:.{decimals}f},{54 + y:.{decimals}f}"
        for d, (x, y) in zip(dates, steps, strict=True)
    ]
    return "id,time,lon,lat\n" + "\n".join(rows) + "\n"


def test_dates_degrees_and_digits(ask, tmp_path):
    (tmp_path / "d.csv").write_text(drifter(200, 4))
    found = ask("info", tmp_path / "d.csv", "--json").json
    assert found["date_min"] == "2020-02-28 00:00:00"
    assert found["date_max"] == "2020-03-07 07:00:00"
    assert (found["coordinates"], found["frame"]) == ("degrees", "local")
    longitude, latitude = found["quantisation"]
    assert abs(latitude["step"] - 1e-4) < 1e-12
    # One degree of latitude is 111.2 km on a sphere; the noise is the step over root 12.
    assert abs(latitude["noise"] - 11.12 / 12**0.5) < 0.01
    assert abs(longitude["length"] / latitude["length"] - np.cos(np.radians(54))) < 1e-3
    assert "--noise 3.21" in found["suggested_command"]
    assert any("rounding error of 3.21 m" in warning for warning in found["warnings"])
    words = told(ask("info", tmp_path / "d.csv"))
    assert words["time range"] == "2020-02-28 00:00:00 to 2020-03-07 07:00:00 UTC"
    assert "east and north (--frame local)" in words["coordinates"]
    in_km = ask("info", tmp_path / "d.csv", "--units", "km,d", "--json").json
    assert in_km["date_max"] == found["date_max"]
    assert abs(in_km["quantisation"][1]["noise"] - latitude["noise"] / 1000) < 1e-9
    (tmp_path / "d.csv").write_text(drifter(200, 12))
    assert ask("info", tmp_path / "d.csv", "--json").json["warnings"] == []


def test_a_domain_that_may_be_periodic_is_pointed_out(ask, tmp_path):
    rows = [f"a,{i},{(0.03 * i) % 1:.6f}" for i in range(120)]
    (tmp_path / "p.csv").write_text("id,time,x\n" + "\n".join(rows) + "\n")
    found = ask("info", tmp_path / "p.csv", "--json").json
    assert found["jumps"] == {"x": 3}
    assert any("pass --period" in warning for warning in found["warnings"])
    assert ask("info", tmp_path / "p.csv", "--period", "1", "--json").json["jumps"] == {}


def test_irregular_times_are_to_be_used_one_by_one(ask, tmp_path):
    (tmp_path / "odd.csv").write_text("id,time,x\na,0,1\na,1,2\na,2.7,2\nb,0,1\n")
    found = ask("info", tmp_path / "odd.csv", "--json").json
    assert found["needs_tau_all"] is True
    assert found["suggested_taus"] is None
    assert found["suggested_command"].endswith("--drop-short --tau all")
    assert "fewer than two positions" in found["warnings"][0]


def test_gaps_and_missing_fixes_are_counted(ask, tmp_path):
    x = langevin_positions(n_particles=3)
    x[0, 4] = x[2, 7] = x[2, 8] = np.nan
    tracks = [x[0], x[1][[0, 1, 2, 5, 6]], x[2]]
    times = [np.arange(11) * 0.1, np.array([0, 1, 2, 5, 6]) * 0.1, np.arange(11) * 0.1]
    write_trajectories(Trajectories.from_arrays(tracks, times=times), tmp_path / "gaps.csv")
    found = ask("info", tmp_path / "gaps.csv", "--json").json
    assert (found["n_missing"], found["n_gaps_in_time"]) == (3, 1)
    assert (found["shortest"], found["longest"]) == (5, 10)
    assert found["n_points"] == 24


def test_what_cannot_be_used_can_still_be_looked_at(ask, tmp_path):
    (tmp_path / "odd.csv").write_text("id,time,x\na,0,1\nb,0,\nb,1,\n")
    answer = ask("info", tmp_path / "odd.csv", "--json")
    assert answer.code == 0
    assert (answer.json["shortest"], answer.json["longest"]) == (0, 1)
    (tmp_path / "points.csv").write_text("id,time,x\na,0,1\nb,0,2\n")
    assert ask("info", tmp_path / "points.csv", "--json").json["recording_interval"] is None
    (tmp_path / "nothing.csv").write_text("id,time,x\na,0,\na,1,\n")
    assert ask("info", tmp_path / "nothing.csv", "--json").json["position_min"] is None
    assert ask("info", tmp_path / "nothing.csv").code == 0


@pytest.mark.parametrize("rows", ["a,0,\na,1,\n", "a,0,1\nb,0,2\n", "a,0,1\na,1,1\na,2,1\n"])
def test_no_command_is_suggested_that_would_be_refused(rows, ask, tmp_path):
    (tmp_path / "t.csv").write_text("id,time,x\n" + rows)
    found = ask("info", tmp_path / "t.csv", "--json").json
    assert found["suggested_command"] is None
    assert not any("--drop-short" in warning for warning in found["warnings"])


def test_a_suggested_command_can_be_pasted_if_the_name_begins_with_a_minus(
    ask, tracks_csv, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "-a.csv").write_bytes(tracks_csv.read_bytes())
    command = ask("info", "./-a.csv", "--json").json["suggested_command"]
    assert command.startswith("driftbayes scan ./-a.csv --taus ")


def test_irregular_times_are_explained(ask, tmp_path):
    (tmp_path / "odd.csv").write_text("id,time,x\na,0,1\na,1,2\na,2.7,2\n")
    answer = ask("info", tmp_path / "odd.csv")
    assert answer.code == 0
    last = answer.out.splitlines()[-1]
    assert last.startswith("times are irregular (intervals from 1 to 1.7); ")
    assert ask("info", tmp_path / "odd.csv", "--json").json["n_gaps_in_time"] is None


def test_reading_options_are_recorded(ask, tracks_csv):
    found = ask("info", tracks_csv, "--noise", "0.1", "--drop-short", "--period", "9,-", "--json")
    provenance = found.json["provenance"]
    assert provenance["noise"] == 0.1
    assert provenance["dropped_short"] == 0
    assert provenance["unwrapped"] == [9.0, None]
    assert found.json["has_measurement_error"] is True


def test_names_in_brackets_are_names(ask, tmp_path):
    write_trajectories(langevin_tracks(), tmp_path / "[red]a.csv")
    answer = ask(
        "info", tmp_path / "[red]a.csv", "--length-unit", "[/m]", "--time-unit", ":warning:"
    )
    assert answer.code == 0
    for text in ("[red]a.csv", "[/m]", ":warning:"):
        assert text in answer.out


def test_degrees_beside_positions_say_how_they_were_laid(ask, tmp_path):
    rng = np.random.default_rng(0)
    lonlat = np.array([10.0, 50.0]) + np.cumsum(rng.normal(0, 0.01, (3, 8, 2)), axis=1)
    tracks = on_plane(Trajectories.from_arrays(lonlat, dt=1.0))
    ours, theirs = tmp_path / "ours.csv", tmp_path / "theirs.csv"
    write_trajectories(tracks, ours)
    write_trajectories(replace(tracks, positions=tracks.positions + 500.0), theirs)
    # A CSV file holds no provenance: what x and y are is seen from the degrees.
    assert ask("info", ours, "--json").json["frame"] == "local"
    assert ask("info", theirs, "--json").json["frame"] is None
    assert "plane, and longitude" in ask("info", theirs).out
