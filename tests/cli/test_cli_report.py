"""`driftbayes report`: from a scan, or straight from trajectories."""

import json

from desk import PRIORS


def test_a_scan_becomes_a_page(ask, tracks_csv, tmp_path):
    ask("scan", tracks_csv, "--taus", "0.1,0.2,0.4", *PRIORS, "-o", tmp_path / "scan.nc")
    answer = ask("report", tmp_path / "scan.nc", "-o", tmp_path / "r.html", "--title", "Mine")
    assert answer.code == 0
    assert answer.err.splitlines() == [
        f"wrote {tmp_path / name}" for name in ("r.html", "r.csv", "r.json")
    ]
    assert "<h1>Mine</h1>" in (tmp_path / "r.html").read_text()


def test_trajectories_are_scanned_first_at_times_that_suit_them(ask, tracks_csv, tmp_path):
    answer = ask("report", tracks_csv, *PRIORS, "-o", tmp_path / "r.html")
    assert answer.code == 0
    page = (tmp_path / "r.html").read_text()
    assert "How the particles of tracks.csv disperse" in page
    records = json.loads((tmp_path / "r.json").read_text())
    taus = sorted({record["tau"] for record in records})
    assert taus[0] == 0.1
    assert len(taus) >= 2


def test_the_name_is_checked_before_the_work(ask, tracks_csv, tmp_path):
    answer = ask("report", tracks_csv, "-o", tmp_path / "r.pdf")
    assert answer.code == 2
    assert "expected a name ending in .html, got 'r.pdf'" in answer.err
    assert not list(tmp_path.iterdir())
