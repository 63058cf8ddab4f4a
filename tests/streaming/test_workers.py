"""Blocks summed by other processes: the same to the last bit, even if one of them is killed."""

import os
import subprocess
import sys
import textwrap

import pytest
from belt import ragged_tracks, write_parcels_zarr, write_time_major

pytest.importorskip("distributed")

# In a process of its own, as a person would run it: nothing may be left behind, or said.
SCRIPT = """
import os, signal, sys, time
from pathlib import Path
import psutil
from driftbayes.models import MODELS, model_named
from driftbayes.streaming import Workers, tally_file

def models(n_dim):
    return [model_named(name, MODELS, n_dim) for name in ("langevin", "brownian+mean")]

def slowly(tracks):
    time.sleep(0.3)
    return tracks

def sums(path, **options):
    tally, _ = tally_file(path, models, (0.1, 0.5, 2.0), block_points=500, **options)
    many, _ = tally.displacements()
    return [(d.fingerprint, d.tau, d.channels[32].forms.tobytes(), d.n_particles) for d in many]

if __name__ == "__main__":
    path = Path(sys.argv[1])
    expected = sums(path, workers=Workers(threads=1))
    assert sums(path, workers=Workers(processes=int(sys.argv[2]))) == expected
    if len(sys.argv) > 3:
        killed, told = [], []

        def kill(stage, done, total):
            told.append((stage, done, total))
            if stage == "blocks" and not killed:
                workers = [
                    p for p in psutil.Process().children() if "spawn_main" in " ".join(p.cmdline())
                ]
                killed.append(workers[0].pid)
                os.kill(workers[0].pid, signal.SIGKILL)

        found = sums(path, workers=Workers(processes=2), prepare=slowly, progress=kill)
        assert killed
        assert found == expected
        stage, done, total = told[-1]
        assert stage == "blocks"
        assert done == total > 2
    left = [p.cmdline() for p in psutil.Process().children() if p.status() != "zombie"]
    assert not [line for line in left if "spawn_main" in " ".join(line)], left
    print("the same")
"""


def run(tmp_path, *arguments):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT))
    return subprocess.run(
        [sys.executable, str(script), *map(str, arguments)],
        capture_output=True,
        encoding="utf-8",
        env={**os.environ, "JAX_ENABLE_X64": "1"},
        timeout=240,
        check=False,
    )


def test_one_worker_gives_the_sums_of_a_thread(tmp_path):
    write_time_major(ragged_tracks(), tmp_path / "tracks.parquet")
    done = run(tmp_path, tmp_path / "tracks.parquet", 1)
    assert (done.returncode, done.stdout, done.stderr) == (0, "the same\n", "")


def test_a_killed_worker_is_replaced_and_the_sums_are_the_same(tmp_path):
    write_parcels_zarr(ragged_tracks(), tmp_path / "tracks.zarr", chunk=2)
    done = run(tmp_path, tmp_path / "tracks.zarr", 2, "kill")
    assert (done.returncode, done.stdout) == (0, "the same\n"), done.stderr
    # Python may notice that a process killed outright did not put its semaphores away.
    assert "Traceback" not in done.stderr
