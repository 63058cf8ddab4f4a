"""`driftbayes report`: from a scan, or straight from trajectories."""

import json

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
