"""`driftbayes report`: from a scan, or straight from trajectories."""

import json

import numpy as np
import pytest
from desk import PRIORS


def test_a_scan_becomes_a_page(ask, tracks_csv, tmp_path):
    ask("scan", tracks_csv, "--taus", "0.1,0.2,0.4", *PRIORS, "-o", tmp_path / "scan.nc")
    answer = ask("report", tmp_path / "scan.nc", "-o", tmp_path / "r.html", "--title", "Mine")
    assert answer.code == 0
    note, *written = answer.err.splitlines()
    assert note.startswith("the report has only the scan; pass --data")
    assert written == [
        f"wrote {tmp_path / name}" for name in ("r.html", "r.report.csv", "r.report.json")
    ]
    assert "<h1>Mine</h1>" in (tmp_path / "r.html").read_text()


def test_the_data_of_a_scan_are_read_as_they_were_and_examined(ask, tracks_csv, tmp_path):
    units = ("--length-unit", "m", "--time-unit", "s", "--units", "km,")
    scan = tmp_path / "scan.nc"
    ask("scan", tracks_csv, "--taus", "0.4,0.8", *PRIORS, *units, "-o", scan)
    page = tmp_path / "r.html"
    examined = ("report", scan, "-o", page, "--replicas", "0", "--overwrite", "--data")
    assert ask(*examined, tracks_csv).code == 0
    text = page.read_text()
    assert "--length-unit m --time-unit s --units km, " in text
    assert "Posteriors" in text
    assert "Sensitivity to the priors" in text
    answer = ask(*examined, tracks_csv, "--length-unit", "m", "--units", "cm,")
    assert answer.code == 2
    assert "these trajectories are not those of the scan" in answer.err
    answer = ask(*examined, tracks_csv, "--brief")
    assert answer.code == 2
    assert "--brief and --data exclude each other" in answer.err
    answer = ask("report", tracks_csv, "-o", page, "--overwrite", "--data", tracks_csv)
    assert answer.code == 2
    assert "--data needs a scan" in answer.err


def test_trajectories_are_scanned_first_at_times_that_suit_them(ask, tracks_csv, tmp_path):
    answer = ask("report", tracks_csv, *PRIORS, "-o", tmp_path / "r.html", "--brief")
    assert answer.code == 0
    page = (tmp_path / "r.html").read_text()
    assert "<h1>Dispersion in tracks.csv</h1>" in page
    records = json.loads((tmp_path / "r.report.json").read_text())
    taus = sorted({record["tau"] for record in records})
    assert taus[0] == 0.1
    assert len(taus) >= 2


def test_the_name_is_checked_before_the_work(ask, tracks_csv, tmp_path):
    answer = ask("report", tracks_csv, "-o", tmp_path / "r.pdf")
    assert answer.code == 2
    assert "expected a name ending in .html or .htm, got 'r.pdf'" in answer.err
    assert not list(tmp_path.iterdir())


def test_too_few_replicas_are_refused_before_the_work(ask, tracks_csv, tmp_path):
    answer = ask("report", tracks_csv, "-o", tmp_path / "r.html", "--replicas", "10")
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert "--replicas must be a whole number, 100 or more" in answer.err
    assert not list(tmp_path.iterdir())


def test_the_default_name_is_that_of_the_data_in_the_working_directory(
    ask, tracks_csv, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    brief = ("report", tracks_csv, *PRIORS, "--taus", "0.1,0.2,0.4", "--brief")
    answer = ask(*brief)
    assert answer.code == 0
    names = ["tracks.html", "tracks.report.csv", "tracks.report.json"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    # The verdict is printed, as the page has it.
    assert "is the most probable model at sampling times from 0.1 to 0.4" in answer.out
    assert "run `driftbayes check` to test" in answer.out
    assert "Langevin is the most probable model" in (tmp_path / "tracks.html").read_text()
    again = ask(*brief)
    assert again.code == 2
    assert "tracks.html" in again.err
    assert "--overwrite" in again.err
    assert ask(*brief, "--overwrite").code == 0


def test_fixes_at_irregular_times_are_compared_as_they_are(ask, tmp_path):
    rng = np.random.default_rng(3)
    rows = []
    for particle in range(4):
        times = np.cumsum(rng.integers(200, 900, 60))
        steps = rng.normal(0, np.sqrt(2 * 5.0 * np.diff(times, prepend=0)), (2, 60))
        for t, x, y in zip(times, *np.cumsum(steps, axis=1), strict=True):
            rows.append(f"{particle},{t},{x:.3f},{y:.3f}")
    file, page = tmp_path / "raw.csv", tmp_path / "raw.html"
    file.write_text("\n".join(["id,time,x,y", *rows, ""]))
    units = ("--length-unit", "m", "--time-unit", "s")
    answer = ask("report", file, *units, "--replicas", "0", "-o", page)
    assert answer.code == 0
    assert "every fix at its own interval" in " ".join(answer.err.split())
    said = " ".join(answer.out.split())
    assert "Brownian is the most probable model for all positions" in said
    text = page.read_text()
    assert "driftbayes compare raw.csv --tau all" in text
    assert "Results against the sampling time" not in text
    assert "the interval of each fix" in text
    (kappa,) = (
        record["value"]
        for record in json.loads((tmp_path / "raw.report.json").read_text())
        if record["parameter"] == "kappa" and record["field"] == "map"
    )
    compared = ask("compare", file, *units, "--tau", "all", "--json").json
    assert kappa == pytest.approx(compared["models"]["brownian"]["map"]["kappa"], rel=1e-9)
    given = ask("report", file, *units, "--taus", "600", "-o", tmp_path / "other.html")
    assert given.code == 2
    assert "needs regular times" in given.err
