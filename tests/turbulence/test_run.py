"""A run writes what it says, can be killed at any moment, and goes on as if nothing had been."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import jax
import numpy as np
import pytest
import xarray as xr
from numpy.testing import assert_allclose

from driftbayes._storage.zarr import open_array
from driftbayes.cli.main import main
from driftbayes.errors import DriftbayesError, DriftbayesWarning
from driftbayes.io import read_trajectories
from driftbayes.plots.movie import write_movie
from driftbayes.turbulence import output
from driftbayes.turbulence.config import RunConfig
from driftbayes.turbulence.run import CFL_LIMIT, CFL_START, resume, run

SMALL = RunConfig(
    grid=32,
    dt=0.01,
    spin_up=0.8,
    duration=2.0,
    particles=20,
    record_every=0.04,
    diagnose_every=0.4,
    snapshot_every=0.8,
    k_f=6.0,
    seed=3,
)
FLAGS = [
    *("--grid", "32", "--dt", "0.01", "--spin-up", "0.8", "--duration", "2.0"),
    *("--particles", "20", "--record-every", "0.04", "--diagnose-every", "0.4"),
    *("--snapshot-every", "0.8", "--k-f", "6", "--seed", "3", "--checkpoint-every", "0.001"),
]


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    return run(SMALL, tmp_path_factory.mktemp("runs") / "unbroken")


@pytest.fixture
def command(monkeypatch):
    """Runs a command in this process; programs are those of the tests."""
    monkeypatch.setenv("DRIFTBAYES_CACHE", "off")
    return lambda *arguments: main(["turbulence", *map(str, arguments)])


def contents(folder):
    """Everything that a run found out, by name."""
    found = {}
    for store in ("trajectories.zarr", "snapshots.zarr"):
        for path in sorted((folder / store).rglob("*")):
            if path.is_file():
                found[str(path.relative_to(folder))] = path.read_bytes()
    for name in ("diagnostics.nc", "spectra.nc"):
        with xr.open_dataset(folder / name) as dataset:
            for key, variable in dataset.variables.items():
                found[f"{name}:{key}"] = variable.to_numpy().tobytes()
    with np.load(folder / "checkpoint.npz") as file:
        found |= {f"checkpoint:{name}": file[name].tobytes() for name in file.files}
    return found


def test_the_directory_holds_what_is_promised(unbroken):
    stored = json.loads((unbroken / "config.json").read_text())
    assert RunConfig.from_json(stored["config"]) == SMALL
    assert {"driftbayes", "jax", "numpy", "backend"} <= stored["versions"].keys()
    with xr.open_dataset(unbroken / "diagnostics.nc") as rows:
        assert_allclose(rows["time"], np.arange(8) * 0.4)
        assert_allclose(rows["energy_total"], 4 * np.pi**2 * rows["energy_mean"])
        assert_allclose(rows["u_rms"], np.sqrt(2 * rows["energy_mean"]))
        assert_allclose(
            rows["eddy_turnover_time"], 2 * np.pi / np.sqrt(rows["enstrophy_total"]), rtol=1e-14
        )
        assert np.abs(rows["energy_residual_rate"]).max() < 1e-12
        assert np.abs(rows["enstrophy_residual_rate"]).max() < 1e-10
        energy = rows["energy_mean"].to_numpy()
    with xr.open_dataset(unbroken / "spectra.nc") as spectra:
        assert_allclose(spectra["energy"].sum("k"), energy[::2], rtol=1e-14)
    vorticity = open_array(unbroken / "snapshots.zarr", "vorticity").read()
    assert vorticity.shape == (4, 32, 32)
    assert np.isfinite(vorticity).all()


def test_trajectories_are_read_as_they_are(unbroken):
    trajectories = read_trajectories(unbroken)
    assert trajectories.n_trajectories == 20
    assert trajectories.recording_interval == pytest.approx(0.04)
    assert trajectories.provenance["seed"] == 3
    assert trajectories.period == (2 * np.pi, 2 * np.pi)
    assert_allclose(trajectories.times[:51], 0.8 + 0.04 * np.arange(51), rtol=1e-12)
    # Recorded velocities are those of the recorded paths.
    with xr.open_zarr(unbroken / "trajectories.zarr") as dataset:
        x, u = dataset["x"].to_numpy(), dataset["u"].to_numpy()
    central = (x[:, 2:] - x[:, :-2]) / 0.08
    assert np.abs(central - u[:, 1:-1]).max() < 0.05 * np.abs(u).max()


@pytest.mark.parametrize(
    ("sign", "moment"),
    [
        ("checkpoint-previous.npz", 0.0),
        pytest.param("config.json", 0.0, marks=pytest.mark.slow),
        pytest.param("checkpoint-previous.npz", 0.1, marks=pytest.mark.slow),
    ],
)
def test_killed_and_resumed_it_is_the_same_bit_for_bit(unbroken, command, tmp_path, sign, moment):
    folder = tmp_path / "killed"
    process = subprocess.Popen(
        [sys.executable, "-m", "driftbayes", "turbulence", "run", *FLAGS, "-o", folder],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "DRIFTBAYES_CACHE": "off"},
    )
    # From a sign of life on, so that the moment does not depend on the compiler. There is a
    # previous checkpoint as soon as the first block is done.
    while not (folder / sign).exists():
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.002)
    time.sleep(moment)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert command("resume", folder) == 0
    # Begun by the command in another process: the two must agree, too.
    assert contents(folder) == contents(unbroken)


@pytest.mark.slow
def test_so_it_is_with_splines_in_single_precision(tmp_path):
    config = SMALL.changed(interpolation="cubic", precision="single")

    def stop(done, total, row):
        if done >= 200:
            raise KeyboardInterrupt

    whole = run(config, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        run(config, tmp_path / "broken", progress=stop, checkpoint_seconds=0.0)
    resume(tmp_path / "broken")
    assert contents(tmp_path / "broken") == contents(whole)


def test_a_finished_run_resumed_changes_nothing(unbroken):
    before = contents(unbroken)
    resume(unbroken)
    assert contents(unbroken) == before


@pytest.mark.slow
def test_particles_are_released_where_they_are_told(tmp_path):
    positions = np.random.default_rng(0).uniform(-50.0, 50.0, size=(20, 2))
    folder = run(SMALL.changed(spin_up=0.0), tmp_path / "r", positions=positions)
    x = open_array(folder / "trajectories.zarr", "x").read()
    y = open_array(folder / "trajectories.zarr", "y").read()
    assert (np.stack([x[:, 0], y[:, 0]], axis=-1) == positions).all()
    with pytest.raises(DriftbayesError, match="20 pairs of finite numbers"):
        run(SMALL, tmp_path / "s", positions=np.zeros((3, 2)))
    assert not (tmp_path / "s").exists()


def test_a_run_without_particles_or_snapshots_is_a_run(tmp_path, monkeypatch):
    folder = run(SMALL.changed(particles=0, snapshot_every=0.0), tmp_path / "r")
    assert not (folder / "trajectories.zarr").exists()
    assert (folder / "diagnostics.nc").exists()
    with pytest.raises(DriftbayesError, match="folder 'r' has files of several types"):
        read_trajectories(folder)
    monkeypatch.chdir(folder)
    with pytest.raises(DriftbayesError, match=r"folder '\.' has files of several types"):
        read_trajectories(".")


def test_single_precision_is_refused_in_one_sentence(tmp_path):
    with jax.enable_x64(False), pytest.raises(DriftbayesError, match="needs JAX in double"):
        run(RunConfig.preset("tiny"), tmp_path / "flow")
    assert not (tmp_path / "flow").exists()


def test_an_occupied_directory_is_refused_and_left_alone(unbroken, tmp_path):
    before = contents(unbroken)
    with pytest.raises(DriftbayesError, match="already holds a run"):
        run(SMALL, unbroken)
    assert contents(unbroken) == before
    (tmp_path / "mine").write_text("precious")
    with pytest.raises(DriftbayesError, match="not an empty directory"):
        run(SMALL, tmp_path)
    with pytest.raises(DriftbayesError, match="holds no run"):
        resume(tmp_path)


def test_a_time_step_too_large_is_refused_at_once(tmp_path):
    with pytest.raises(DriftbayesError, match=r"the time step 0\.1 is too large"):
        run(
            SMALL.changed(dt=0.1, spin_up=0.0, record_every=0.4, duration=2.0),
            tmp_path / "r",
        )
    assert not (tmp_path / "r").exists()


def test_a_flow_that_becomes_too_fast_stops_with_a_good_checkpoint(tmp_path):
    config = SMALL.changed(start="rest", epsilon=2.0, duration=40.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DriftbayesWarning)
        with pytest.raises(DriftbayesError, match="Run again with a time step below"):
            run(config, tmp_path / "r")
        with pytest.raises(DriftbayesError, match="Run again with a time step below"):
            resume(tmp_path / "r")
    with np.load(tmp_path / "r" / "checkpoint.npz") as file:
        assert all(np.isfinite(file[name]).all() for name in ("zeta", "x", "waiting", "spectra"))
    with xr.open_dataset(tmp_path / "r" / "diagnostics.nc") as rows:
        assert len(rows["time"]) > 1
        assert rows["cfl"].max() <= CFL_LIMIT


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory):
    """A run that was stopped in the middle, all of its records in the checkpoint."""

    def stop(done, total, row):
        if done >= 200:
            raise KeyboardInterrupt

    folder = tmp_path_factory.mktemp("runs") / "interrupted"
    with pytest.raises(KeyboardInterrupt):
        run(SMALL, folder, progress=stop, checkpoint_seconds=0.0)
    return folder


@pytest.mark.sampled(3)
@pytest.mark.parametrize("how", ["cut", "flipped", "emptied"])
def test_a_damaged_checkpoint_is_passed_over(unbroken, interrupted, tmp_path, how):
    shutil.copytree(interrupted, tmp_path / "r")
    path = tmp_path / "r" / "checkpoint.npz"
    raw = bytearray(path.read_bytes())
    if how == "flipped":
        raw[len(raw) // 2] ^= 0xFF
    path.write_bytes(raw[: len(raw) // 2] if how == "cut" else raw if how == "flipped" else b"")
    with pytest.warns(DriftbayesWarning, match="is damaged"):
        resume(tmp_path / "r")
    assert contents(tmp_path / "r") == contents(unbroken)


def test_a_run_killed_while_it_was_born_is_begun_anew(unbroken, tmp_path):
    shutil.copytree(unbroken, tmp_path / "r")
    for name in ("config.json", "checkpoint*.npz", "diagnostics.nc", "spectra.nc"):
        for path in (tmp_path / "r").glob(name):
            path.unlink()
    run(SMALL, tmp_path / "r")
    assert contents(tmp_path / "r") == contents(unbroken)


def test_a_run_that_was_tampered_with_gets_a_sentence(tmp_path):
    folder = run(SMALL.changed(duration=0.4, spin_up=0.4, snapshot_every=0.0), tmp_path / "r")
    config = json.loads((folder / "config.json").read_text())
    other = {**config, "config": {**config["config"], "grid": 64}}
    (folder / "config.json").write_text(json.dumps(other))
    with pytest.raises(DriftbayesError, match="grid is 64, was 32"):
        resume(folder)
    (folder / "config.json").write_text("{}")
    with pytest.raises(DriftbayesError, match=r"config\.json in .* cannot be read"):
        resume(folder)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "positions.npy").write_bytes(b"nothing")
    with pytest.raises(DriftbayesError, match=r"positions\.npy in .* cannot be read"):
        resume(folder)


@pytest.fixture(scope="module")
def half_done(tmp_path_factory):
    """A run that was stopped in the middle, with chunks of records and snapshots on disk."""

    def stop(done, total, row):
        if done >= 200:
            raise KeyboardInterrupt

    folder = tmp_path_factory.mktemp("runs") / "half"
    with pytest.MonkeyPatch.context() as patch:
        # Chunks of ten records, so that there are some.
        patch.setattr(output, "_CHUNK_BYTES", 8 * 20 * 10)
        with pytest.raises(KeyboardInterrupt):
            run(SMALL, folder, progress=stop, checkpoint_seconds=0.0)
    return folder


@pytest.fixture
def stopped(half_done, tmp_path, monkeypatch):
    monkeypatch.setattr(output, "_CHUNK_BYTES", 8 * 20 * 10)
    return Path(shutil.copytree(half_done, tmp_path / "run"))


def test_a_stopped_run_is_read_as_far_as_it_got(half_done):
    trajectories = read_trajectories(half_done)
    assert 2 <= trajectories.row_sizes[0] < SMALL.n_records
    assert np.isfinite(trajectories.positions).all()
    assert "of" in trajectories.provenance["records"]


def all_bytes(folder):
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.mark.parametrize(
    "changes",
    [
        *({"seed": 4}, {"dt": 0.005}, {"epsilon": 0.01}, {"beta": 1.0}, {"truncate": True}),
        *({"interpolation": "cubic"}, {"particles": 30}, {"duration": 4.0}, {"grid": 64}),
        {"seed": 4, "drag": 0.1},
    ],
)
def test_an_edited_configuration_is_refused_by_name(stopped, changes):
    path = stopped / "config.json"
    stored = json.loads(path.read_text())
    path.write_text(json.dumps({**stored, "config": {**stored["config"], **changes}}))
    before = all_bytes(stopped)
    with pytest.raises(DriftbayesError, match="was changed after the run started") as caught:
        resume(stopped)
    for name, value in changes.items():
        old = stored["config"][name]
        assert f"{name} is {value!r}, was {old!r}" in str(caught.value)
    assert all_bytes(stopped) == before
    # Without a checkpoint the hash in the file itself tells.
    for checkpoint_path in stopped.glob("checkpoint*.npz"):
        checkpoint_path.unlink()
    with pytest.raises(DriftbayesError, match="hash mismatch"):
        resume(stopped)


def rewritten(path, change):
    """Store a checkpoint again with some arrays changed, its hash made to match."""
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    arrays.pop("digest")
    arrays |= change(arrays)
    np.savez(path, **arrays, digest=np.asarray(output._digest(arrays)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: {"zeta": a["zeta"][:-1]}, r"zeta is complex128 of shape \(31, 17\), expected"),
        (lambda a: {"before": a["before"].real}, "before is float64 of shape"),
        (lambda a: {"x": a["x"][:5]}, r"x is float64 of shape \(5, 2\), expected .* \(20, 2\)"),
        (lambda a: {"rows": a["rows"][:, 1:]}, "rows is float64 of shape"),
        (lambda a: {"rows": a["rows"][1:]}, r"rows is float64 of shape \(4, .* \(5,"),
        (lambda a: {"waiting": a["waiting"][1:]}, "waiting is float64 of shape"),
        (lambda a: {"spectra": a["spectra"][0]}, "spectra is float64 of shape"),
        (lambda a: {"step": np.asarray(10**6)}, "step is 1000000, expected 0 to 280"),
        (lambda a: {"step": np.asarray([1, 2])}, "step is int64 of shape"),
        (lambda a: {"zeta": a["zeta"] * np.nan}, "numbers that are not finite"),
        (lambda a: {"written": np.asarray(-10)}, "waiting is float64 of shape .* written is -10"),
    ],
)
def test_a_checkpoint_of_the_wrong_shape_gets_a_sentence(stopped, change, message):
    rewritten(stopped / "checkpoint.npz", change)
    before = all_bytes(stopped)
    with pytest.raises(DriftbayesError, match=message) as caught:
        resume(stopped)
    assert "does not match config.json" in str(caught.value)
    assert all_bytes(stopped) == before


def test_a_checkpoint_of_another_run_is_refused(stopped, unbroken, tmp_path):
    other = run(SMALL.changed(seed=8), tmp_path / "other")
    shutil.copy(other / "checkpoint.npz", stopped)
    with pytest.raises(DriftbayesError, match="seed is 3, was 8"):
        resume(stopped)


def test_a_checkpoint_put_together_from_two_is_damaged(stopped):
    path = stopped / "checkpoint.npz"
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    # The archive is whole and every shape is right; only the hash can tell.
    np.savez(path, **{**arrays, "zeta": arrays["zeta"] * 1.001})
    with pytest.warns(DriftbayesWarning, match="is damaged .hash mismatch"):
        resume(stopped)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("trajectories.zarr/x/c/0/0", "chunk c/0/0 of 'x' is damaged: its checksum"),
        ("trajectories.zarr/v/c/0/1", "chunk c/0/1 of 'v' is damaged"),
        ("trajectories.zarr/time/c/0", "chunk c/0 of 'time' is damaged"),
        ("snapshots.zarr/vorticity/c/1/0/0", "chunk c/1/0/0 of 'vorticity' is damaged"),
        ("positions.npy", "positions.npy in .* is not the file that the run began with"),
    ],
)
def test_one_flipped_bit_is_found_when_a_run_is_resumed(stopped, name, message):
    path = stopped / name
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 0x01
    path.write_bytes(raw)
    with pytest.raises(DriftbayesError, match=message):
        resume(stopped)
    if name.startswith("trajectories.zarr/x") or name.startswith("trajectories.zarr/time"):
        with pytest.raises(DriftbayesError, match=message):
            read_trajectories(stopped)
    if name.startswith("snapshots"):
        with pytest.raises(DriftbayesError, match=message):
            write_movie(stopped, stopped / "movie.gif")


def test_a_missing_chunk_is_found_and_the_advice_helps(stopped):
    (stopped / "snapshots.zarr" / "vorticity" / "c" / "1" / "0" / "0").unlink()
    with pytest.raises(DriftbayesError, match=r"cannot be read: No such file.*delete checkpoint"):
        resume(stopped)
    for path in stopped.glob("checkpoint*.npz"):
        path.unlink()
    resume(stopped)
    vorticity = open_array(stopped / "snapshots.zarr", "vorticity")
    vorticity.verify(vorticity.shape)


def test_a_run_of_an_earlier_version_is_read_and_resumed_and_it_is_said_once(stopped, unbroken):
    """Without checksums in its chunks, without hashes in its files."""
    for path in [*stopped.glob("*.zarr/zarr.json"), *stopped.glob("*.zarr/*/zarr.json")]:
        described = json.loads(path.read_text())
        inside = described.get("consolidated_metadata", {}).get("metadata", {})
        for one in (described, *inside.values()):
            if "codecs" in one:
                one["codecs"] = one["codecs"][:1]
        path.write_text(json.dumps(described))
    for path in stopped.glob("*.zarr/*/c/**/*"):
        if path.is_file():
            path.write_bytes(path.read_bytes()[:-4])
    stored = json.loads((stopped / "config.json").read_text())
    del stored["sha256"]
    (stopped / "config.json").write_text(json.dumps(stored))
    for path in stopped.glob("checkpoint*.npz"):
        with np.load(path) as file:
            arrays = {n: file[n] for n in file.files if n not in ("digest", "config")}
        np.savez(path, **arrays)
    assert "without checksums" in read_trajectories(stopped).provenance["notes"][0]
    with pytest.warns(DriftbayesWarning) as said:
        resume(stopped)
    assert len(said) == 1
    assert "without checksums" in str(said[0].message)
    ours, theirs = read_trajectories(stopped), read_trajectories(unbroken)
    assert ours.fingerprint == theirs.fingerprint
    assert "notes" not in theirs.provenance


def test_a_run_killed_while_its_configuration_was_written_can_be_run_again(
    unbroken, tmp_path, monkeypatch
):
    """A process that is killed in the middle of writing config.json leaves a temporary file."""
    folder, whole = tmp_path / "r", Path.write_text
    ended = subprocess.Popen(["true"])
    ended.wait()

    def write_half(path, text):
        if "versions" not in text:
            return whole(path, text)
        whole(path, text[: len(text) // 2])
        # What a process that is killed here leaves; one that is not clears up after itself.
        shutil.copytree(tmp_path / "running", folder)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", write_half)
        # Whose files they are: those of a process that runs are not removed.
        patch.setattr(os, "getpid", lambda: ended.pid)
        with pytest.raises(KeyboardInterrupt):
            run(SMALL.changed(seed=4), tmp_path / "running")
    left = {path.name for path in folder.iterdir()}
    assert "config.json" not in left
    # The half that was written, under a name of its own.
    assert len([name for name in left if name.endswith(".json")]) == 1
    with pytest.raises(DriftbayesError, match="holds no run"):
        resume(folder)
    run(SMALL, folder)
    assert contents(folder) == contents(unbroken)


def test_a_store_of_the_users_own_is_not_taken_for_a_run_that_was_being_born(tmp_path):
    (tmp_path / "trajectories.zarr").mkdir()
    (tmp_path / "trajectories.zarr" / "zarr.json").write_text("precious")
    with pytest.raises(DriftbayesError, match="not an empty directory"):
        run(SMALL, tmp_path)
    assert (tmp_path / "trajectories.zarr" / "zarr.json").read_text() == "precious"


def test_two_processes_do_not_share_a_directory(tmp_path):
    import fcntl

    def second(done, total, row):
        with pytest.raises(DriftbayesError, match="another process"):
            resume(tmp_path / "r")
        with (tmp_path / "r" / ".lock").open() as file, pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    run(SMALL.changed(duration=0.4, spin_up=0.4), tmp_path / "r", progress=second)


def test_a_full_disk_gets_a_sentence_and_the_run_goes_on_later(unbroken, command, tmp_path, capfd):
    """A limit on the size of files, in bytes, stands for the disk: writing fails the same way."""
    resource = pytest.importorskip("resource")
    folder = tmp_path / "r"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, before[1]))
    try:
        code = command("run", *FLAGS, "-o", folder)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    errors = capfd.readouterr().err
    assert code == 2, errors
    assert "free some space" in errors.splitlines()[-1]
    assert "Traceback" not in errors
    resume(folder)
    assert contents(folder) == contents(unbroken)


def test_a_run_too_large_for_the_disk_is_refused_at_once(tmp_path):
    config = SMALL.changed(particles=1000, record_every=0.04, duration=4e8)
    with pytest.raises(DriftbayesError, match="GB free"):
        run(config, tmp_path / "r", positions=np.zeros((1000, 2)))
    assert not (tmp_path / "r").exists()


def test_a_run_begins_where_another_ended(unbroken, tmp_path):
    short = {"duration": 0.4, "record_every": 0.4, "snapshot_every": 0.4}
    config = SMALL.changed(start="given", spin_up=0.0, seed=9, **short)
    folder = run(config, tmp_path / "r", start_from=unbroken)
    with np.load(unbroken / "checkpoint.npz") as last:
        ended = np.fft.irfft2(last["zeta"])
    begun = open_array(folder / "snapshots.zarr", "vorticity").read_chunk((0, 0, 0))[0]
    assert_allclose(begun, ended, rtol=1e-6, atol=1e-6 * np.abs(ended).max())
    with xr.open_dataset(folder / "diagnostics.nc") as rows:
        assert float(rows["time"][0]) == 0.0


def test_a_given_start_is_found_again_by_a_run_that_was_stopped_at_once(unbroken, tmp_path):
    config = SMALL.changed(start="given", seed=9)
    whole = run(config, tmp_path / "whole", start_from=unbroken)

    def stop(done, total, row):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(config, tmp_path / "cut", start_from=unbroken, progress=stop)
    # Were the first checkpoint lost too, the start itself is still there.
    (tmp_path / "cut" / "checkpoint.npz").unlink()
    resume(tmp_path / "cut")
    first, second = (read_trajectories(tmp_path / name) for name in ("whole", "cut"))
    assert first.fingerprint == second.fingerprint
    assert whole.exists()


def test_a_given_start_is_refused_without_its_run_and_on_another_grid(unbroken, tmp_path):
    given = SMALL.changed(start="given")
    with pytest.raises(DriftbayesError, match="must be given together"):
        run(given, tmp_path / "r")
    with pytest.raises(DriftbayesError, match="must be given together"):
        run(SMALL, tmp_path / "r", start_from=unbroken)
    with pytest.raises(DriftbayesError, match="is on another grid"):
        run(given.changed(grid=64), tmp_path / "r", start_from=unbroken)
    with pytest.raises(DriftbayesError, match="has no checkpoint"):
        run(given, tmp_path / "r", start_from=tmp_path)
    assert not (tmp_path / "r").exists()


def test_the_limit_at_the_start_is_that_of_a_uniform_flow():
    """ζ⁺ = f (ζ + dt/12 (23 N₀ − 16 N₁ + 5 N₂)) with N = iuk ζ grows from 0.324 on."""
    theta = np.linspace(0.5, np.pi, 800)
    excess = np.maximum(theta - 0.65 * np.pi, 0)
    damping = np.exp(-23.6 * excess**4)

    def growth(cfl):
        z = 1j * cfl * theta
        factors = np.stack(
            [
                np.ones_like(z),
                -damping * (1 + 23 / 12 * z),
                damping * 16 / 12 * z,
                -damping * 5 / 12 * z,
            ],
            axis=-1,
        )
        return max(np.abs(np.roots(row)).max() for row in factors)

    assert growth(0.3235) <= 1 + 1e-12 < growth(0.3255)
    assert CFL_START < 0.3245
