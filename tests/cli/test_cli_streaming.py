"""`driftbayes scan` of large files: by way of sums, in threads or other processes."""

import numpy as np
import pytest
from desk import PRIORS, TAUS, langevin_tracks
from numpy.testing import assert_allclose

from driftbayes.cli import _streaming
from driftbayes.io import read_scan, write_trajectories


def log_evidences(answer):
    assert answer.code == 0, answer.err
    return [model["log_evidence"] for one in answer.json for model in one["models"].values()]


def test_a_streamed_scan_is_the_ordinary_one(ask, tracks_csv, tmp_path):
    ordinary = ask("scan", tracks_csv, "--taus", TAUS, "--json")
    out = tmp_path / "scan.nc"
    options = ("--block-points", "100", "-o", out, "--json")
    streamed = ask("scan", tracks_csv, "--taus", TAUS, *options)
    assert_allclose(log_evidences(streamed), log_evidences(ordinary), rtol=1e-9)
    # The priors come from the same positions.
    assert streamed.err.splitlines()[0] == ordinary.err.splitlines()[0]
    assert read_scan(out).sizes["tau"] == 5


def test_a_large_file_is_streamed_unless_the_models_forbid_it(ask, tracks_csv, monkeypatch):
    monkeypatch.setattr(_streaming, "_LARGE", 100)
    seen = []
    whole = _streaming.run
    monkeypatch.setattr(_streaming, "run", lambda *a: seen.append(1) or whole(*a))
    assert ask("scan", tracks_csv, "--taus", TAUS, *PRIORS).code == 0
    assert seen == [1]
    refused = ask("scan", tracks_csv, "--taus", "0.1", "--gaps", "keep", *PRIORS)
    assert refused.code == 0
    assert seen == [1]
    assert refused.err.startswith("the whole file is read into memory: gaps that are kept")


def test_periods_and_short_trajectories_as_in_the_ordinary_scan(ask, tmp_path):
    path = tmp_path / "tracks.parquet"
    write_trajectories(langevin_tracks(), path)
    options = ("--taus", TAUS, *PRIORS, "--period", "50", "--drop-short", "--json")
    ordinary = ask("scan", path, *options)
    assert_allclose(
        log_evidences(ask("scan", path, *options, "--stream")), log_evidences(ordinary), rtol=1e-9
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--stream", "--noise", "0.1"), "measurement errors need the steps themselves"),
        (("--stream", "--gaps", "keep"), "use --gaps split"),
        (("--stream", "--models", "langevin+scatter"), "judges each trajectory by itself"),
        (("--stream", "--models", "langevin+linear"), "must know where steps begin"),
        (("--workers", "0"), "expected 1 worker or more, got 0"),
        (("--block-points", "0"), "a block needs 1 observation or more, got 0"),
        (("--workers", "1", "--cluster", "tcp://127.0.0.1:1"), "not both"),
    ],
)
def test_what_cannot_be_streamed_is_refused_in_one_sentence(ask, tracks_csv, options, message):
    answer = ask("scan", tracks_csv, "--taus", "0.1", *options)
    assert answer.code == 2
    assert message in answer.err
    assert len(answer.err.splitlines()) == 1


def test_blocks_have_no_common_axes_near_a_pole(ask, tmp_path):
    lonlat = np.array([0.0, 85.0]) + langevin_tracks().positions * [10.0, 1.0]
    ids, times = np.repeat(np.arange(60.0), 11), np.tile(np.arange(11) * 0.1, 60)
    path = tmp_path / "drifters.csv"
    table = np.column_stack([ids, times, lonlat])
    np.savetxt(path, table, delimiter=",", header="id,time,lon,lat", comments="")
    options = ("--taus", "0.1", "--stream", "--frame", "transported", "--models", "langevin+mean")
    answer = ask("scan", path, *options)
    assert answer.code == 2
    assert "langevin+mean needs axes that all trajectories share" in answer.err


def test_workers_and_block_sizes_do_not_change_a_digit(process, tracks_csv):
    options = ("--taus", TAUS, *PRIORS, "--json", "--block-points")
    threads = process("scan", tracks_csv, *options, "300")
    workers = process("scan", tracks_csv, *options, "100", "--workers", "2")
    assert (threads.code, workers.code) == (0, 0)
    assert workers.out == threads.out
    assert workers.err == threads.err
