"""`driftbayes info`: what a file holds."""

import numpy as np
from desk import langevin_positions, langevin_tracks

from driftbayes.io import write_trajectories
from driftbayes.trajectories import Trajectories


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


def test_people_get_the_same_as_a_table(ask, tracks_csv):
    answer = ask("info", tracks_csv, "--time-unit", "h", "--length-unit", "km")
    assert answer.code == 0
    rows = dict(line.split(None, 1) for line in answer.out.splitlines() if len(line.split()) > 1)
    assert rows["n_trajectories"].strip() == "60"
    assert rows["recording_interval"].strip() == "0.1"
    assert rows["time_unit"].strip() == "h"
    assert rows["length_unit"].strip() == "km"


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


def test_irregular_times_are_explained(ask, tmp_path):
    (tmp_path / "odd.csv").write_text("id,time,x\na,0,1\na,1,2\na,2.7,2\n")
    answer = ask("info", tmp_path / "odd.csv")
    assert answer.code == 0
    last = answer.out.splitlines()[-1]
    assert last.startswith("the times are not regular (intervals from 1 to 1.7); ")
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
