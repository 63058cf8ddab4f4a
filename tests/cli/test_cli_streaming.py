"""Commands that read large files in blocks: by way of sums, in threads or other processes."""

import re
from dataclasses import replace

import numpy as np
import pytest
from desk import PRIORS, TAUS, langevin_tracks
from numpy.testing import assert_allclose

from driftbayes.cli import _options
from driftbayes.comparison._bayes import NOT_TESTED
from driftbayes.data._trajectories import Trajectories
from driftbayes.io import read_scan, write_trajectories
from driftbayes.workflow import _reading as reading


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


def test_a_verdict_from_blocks_says_what_was_not_tested(ask, tracks_csv, tmp_path):
    scan, page = tmp_path / "scan.nc", tmp_path / "scan.html"
    options = ("--taus", "0.1,0.2", *PRIORS, "--block-points", "100")
    answer = ask("scan", tracks_csv, *options, "-o", scan)
    assert f"; {NOT_TESTED}." in answer.out
    found = ask("scan", tracks_csv, *options, "--json").json
    assert all(one["verdict"].endswith(f"; {NOT_TESTED}") for one in found)
    report = ask("report", scan, "-o", page)
    assert f"; {NOT_TESTED}." in report.out
    shown = re.sub("</?span[^>]*>", "", re.sub("</?code>", "`", page.read_text()))
    assert f"; {NOT_TESTED}." in shown
    compared = ask("compare", tracks_csv, "--tau", "0.2", *PRIORS, "--block-points", "100")
    assert f"; {NOT_TESTED}" in compared.out


def test_a_large_file_is_streamed_unless_the_models_forbid_it(ask, tracks_csv, monkeypatch):
    monkeypatch.setattr(_options, "_MIN_STREAMED", 100)
    seen = []
    whole = reading.FileInBlocks.tally

    def tally(*args, **options):
        seen.append(1)
        return whole(*args, **options)

    monkeypatch.setattr(reading.FileInBlocks, "tally", tally)
    assert ask("scan", tracks_csv, "--taus", TAUS, *PRIORS).code == 0
    assert seen == [1]
    refused = ask("scan", tracks_csv, "--taus", "0.1", "--gaps", "keep", *PRIORS)
    assert refused.code == 0
    assert seen == [1]
    assert refused.err.startswith("reading the whole file into memory: gaps kept as longer")


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
        (("--stream", "--noise", "0.1"), "measurement errors need the single steps"),
        (("--stream", "--gaps", "keep"), "use --gaps split"),
        (
            ("--stream", "--models", "langevin+scatter"),
            "has a density for each trajectory separately",
        ),
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


@pytest.mark.slow
def test_workers_do_not_change_a_digit(process, tracks_csv):
    options = ("--taus", TAUS, *PRIORS, "--json", "--block-points", "100")
    # Both in processes of their own: that of the tests compiles with other options.
    threads = process("scan", tracks_csv, *options)
    assert threads.code == 0
    # Sums by other numbers of workers are compared in tests/streaming/test_workers.py.
    workers = process("scan", tracks_csv, *options, "--workers", "2")
    assert (workers.code, workers.out, workers.err) == (0, threads.out, threads.err)


def test_a_streamed_comparison_is_the_ordinary_one(ask, tracks_csv):
    options = ("--tau", "0.2", "--models", "brownian,langevin+mean", "--json")
    ordinary = ask("compare", tracks_csv, *options)
    streamed = ask("compare", tracks_csv, *options, "--block-points", "100")
    assert (ordinary.code, streamed.code) == (0, 0), streamed.err
    for name, model in ordinary.json["models"].items():
        found = streamed.json["models"][name]
        assert_allclose(found["log_evidence"], model["log_evidence"], rtol=1e-9)
    for key in ("n_particles", "n_steps", "n_displacements", "priors_from_data"):
        assert streamed.json[key] == ordinary.json[key]
    # Sensitivity to the priors comes from the sums too.
    assert len(streamed.json["prior_sensitivity"]) == len(ordinary.json["prior_sensitivity"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--tau", "all"), "--tau all needs every displacement"),
        (("--tau", "0.13"), "tau must be a whole multiple of the recording interval 0.1"),
        (("--tau", "30"), "no trajectory has two positions that are 30 apart"),
    ],
)
def test_a_sampling_time_that_cannot_be_streamed_is_refused(ask, tracks_csv, options, message):
    answer = ask("compare", tracks_csv, "--stream", *options)
    assert answer.code == 2
    assert message in answer.err


def test_a_check_of_a_large_file_takes_a_sample(ask, tmp_path, monkeypatch):
    path = tmp_path / "tracks.parquet"
    write_trajectories(langevin_tracks(), path)
    monkeypatch.setattr(reading, "_SAMPLE_POINTS", 300)
    options = ("--tau", "0.1", *PRIORS, "--replicas", "100", "--json")
    found = [ask("check", path, *options, "--block-points", n) for n in ("100", "200")]
    assert [answer.code for answer in found] == [0, 0], found[0].err
    assert found[0].json == found[1].json
    n_particles = found[0].json["n_particles"]
    assert 10 <= n_particles <= 50
    assert f"using {n_particles} of 60 trajectories (" in found[0].err
    assert found[0].json["models"]["langevin"]["status"] == "ok"


def spiky(n_particles=60, n_positions=11):
    tracks = langevin_tracks(n_particles, n_positions)
    positions = tracks.positions.copy()
    positions[5::97] += 50.0
    return replace(tracks, positions=positions)


@pytest.mark.parametrize("checks", ["spikes=100,min-points=11", "spikes,stuck,gaps", "default"])
def test_quality_control_block_by_block_is_that_of_the_file(ask, tmp_path, checks):
    path = tmp_path / "tracks.parquet"
    write_trajectories(spiky(), path)
    options = ("--taus", TAUS, *PRIORS, "--json", "--qc", checks)
    ordinary = ask("scan", path, *options)
    streamed = ask("scan", path, *options, "--block-points", "100")
    assert_allclose(log_evidences(streamed), log_evidences(ordinary), rtol=1e-9)
    lines = [line for line in ordinary.err.splitlines() if line.startswith("qc: ")]
    assert "set to missing" in lines[0] or "set to missing" in lines[1]
    assert [line for line in streamed.err.splitlines() if line.startswith("qc: ")] == lines


def test_a_block_of_which_nothing_is_left_does_no_harm(ask, tmp_path):
    short, long = langevin_tracks(10, 3), langevin_tracks(20, 11)
    tracks = [*short.positions.reshape(10, 3, 2), *long.positions.reshape(20, 11, 2)]
    times = [np.arange(len(track)) * 0.1 for track in tracks]
    path = tmp_path / "tracks.parquet"
    write_trajectories(Trajectories.from_arrays(tracks, times=times), path)
    options = ("--taus", "0.1,0.2", *PRIORS, "--json", "--qc", "min-points=5")
    ordinary = ask("scan", path, *options)
    streamed = ask("scan", path, *options, "--block-points", "15")
    assert_allclose(log_evidences(streamed), log_evidences(ordinary), rtol=1e-9)
    assert "qc: min-points: 10 trajectories with 30 positions removed" in streamed.err.splitlines()
    none = ask("scan", path, *options[:-1], "min-points=50", "--block-points", "15")
    assert none.code == 2
    assert "no trajectory is left; omit --drop-short or --qc" in none.err


@pytest.mark.parametrize("address", ["host", "tls://host", "8786"])
def test_an_address_without_a_port_is_refused_at_once(address, ask, tracks_csv):
    answer = ask("compare", tracks_csv, "--tau", "0.1", *PRIORS, "--cluster", address)
    message = "the address of a cluster must be like tls://HOST:8786, got"
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == f"driftbayes: {message} {address!r} (--cluster)\n"
