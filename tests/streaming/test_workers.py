"""Blocks summed by other processes: the same to the last bit, even if one of them is killed."""

import operator
import os
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import time
from contextlib import suppress
from pathlib import Path

import pytest
from belt import ragged_tracks, write_parcels_zarr, write_time_major
from pace import slowly
from sockets import open_sockets

from driftbayes.errors import DriftbayesWarning
from driftbayes.models import MODELS, model_named
from driftbayes.streaming import _workers as workers
from driftbayes.streaming import tally_file

psutil = pytest.importorskip("psutil")

# In a process of its own, as a person would run it: nothing may be left behind, or said. Workers
# import it too: what only the parent needs is imported where it is used.
SCRIPT = """
import os, signal, sys, threading, time
from pathlib import Path
import psutil

def models(n_dim):
    from driftbayes.models import MODELS, model_named
    return [model_named(name, MODELS, n_dim) for name in ("langevin", "brownian+mean")]

def slowly(tracks):
    time.sleep(0.1)
    return tracks

def sums(path, workers, **options):
    from driftbayes.streaming import Workers, tally_file
    taus, workers = (0.1, 0.5, 2.0), Workers(**workers)
    tally, _ = tally_file(path, models, taus, block_points=500, workers=workers, **options)
    many, _ = tally.displacements()
    return [(d.fingerprint, d.tau, d.channels[32].forms.tobytes(), d.n_particles) for d in many]

def workers():
    return [p for p in psutil.Process().children() if "spawn_main" in " ".join(p.cmdline())]

def kill_one(killed):
    while not (found := workers()):
        time.sleep(0.001)
    os.kill(found[0].pid, signal.SIGKILL)
    killed.append(found[0].pid)

def run(path, count, deed):
    from sockets import open_sockets
    expected = sums(path, {"threads": 1})
    killed, told, seen = [], [], []

    def look(stage, done, total):
        told.append((stage, done, total))
        if stage != "blocks":
            return
        if deed != "kill at the start" and not killed:
            seen.append([open_sockets(one) for one in (psutil.Process(), *workers())])
        if deed == "kill in the middle" and not killed:
            kill_one(killed)

    if deed == "kill at the start":
        threading.Thread(target=kill_one, args=(killed,)).start()
    found = sums(path, {"processes": count}, prepare=slowly, progress=look)
    assert found == expected
    assert bool(killed) == deed.startswith("kill")
    if deed != "kill at the start":
        assert len(seen[0]) == count + 1
        assert not any(one for look in seen for one in look), seen
    stage, done, total = told[-1]
    assert stage == "blocks"
    assert done == total > 2
    left = [p.cmdline() for p in psutil.Process().children() if p.status() != "zombie"]
    assert not [line for line in left if "spawn_main" in " ".join(line)], left
    print("the same")

if __name__ == "__main__":
    for path, count, deed in zip(*[iter(sys.argv[1:])] * 3):
        run(Path(path), int(count), deed)
"""


HERE = str(Path(__file__).parent)
PATHS = os.pathsep.join(filter(None, (HERE, os.environ.get("PYTHONPATH"))))
ENV = {**os.environ, "JAX_ENABLE_X64": "1", "PYTHONPATH": PATHS}


def run(tmp_path, *arguments):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT))
    return subprocess.run(
        [sys.executable, str(script), *map(str, arguments)],
        capture_output=True,
        encoding="utf-8",
        env=ENV,
        timeout=240,
        check=False,
    )


@pytest.mark.skipif(not Path("/proc/net/unix").exists(), reason="needs Linux")
@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_sums_are_those_of_a_thread_and_nobody_can_connect_to_a_worker(tmp_path, count):
    write_time_major(ragged_tracks(), tmp_path / "tracks.parquet")
    done = run(tmp_path, tmp_path / "tracks.parquet", count, "look")
    assert (done.returncode, done.stdout, done.stderr) == (0, "the same\n", "")


def sums(path, workers, **options):
    names = ("langevin", "brownian+mean")
    tally, _ = tally_file(
        path,
        lambda n_dim: [model_named(name, MODELS, n_dim) for name in names],
        (0.1, 0.5, 2.0),
        block_points=500,
        workers=workers,
        **options,
    )
    many, _ = tally.displacements()
    return [(one.fingerprint, one.tau, one.channels[32].forms.tobytes()) for one in many]


@pytest.mark.skipif(not Path("/proc/net/unix").exists(), reason="needs Linux")
def test_nobody_can_connect_to_a_worker_and_one_that_is_killed_is_replaced(tmp_path):
    write_time_major(ragged_tracks(), tmp_path / "tracks.parquet")
    expected = sums(tmp_path / "tracks.parquet", workers.Workers(threads=1))
    others = {one.pid for one in workers_of(os.getpid())}
    killed = []

    def look(stage, done, total):
        if stage == "blocks" and not killed:
            found = [one for one in workers_of(os.getpid()) if one.pid not in others]
            assert [open_sockets(one) for one in found] == [[], []]
            found[0].send_signal(signal.SIGKILL)
            killed.append(found[0].pid)

    two = workers.Workers(processes=2)
    assert sums(tmp_path / "tracks.parquet", two, prepare=slowly, progress=look) == expected
    assert killed
    assert {one.pid for one in workers_of(os.getpid())} <= others


@pytest.mark.skipif(not Path("/proc/net/unix").exists(), reason="needs Linux")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "moment"),
    [
        ("tracks.parquet", "in the middle"),
        ("tracks.zarr", "in the middle"),
        ("tracks.zarr", "at the start"),
    ],
)
def test_a_killed_worker_is_replaced_and_the_sums_are_the_same(tmp_path, name, moment):
    path = tmp_path / name
    if name == "tracks.zarr":
        write_parcels_zarr(ragged_tracks(), path, chunk=2)
    else:
        write_time_major(ragged_tracks(), path)
    done = run(tmp_path, path, 2, f"kill {moment}")
    assert (done.returncode, done.stdout) == (0, "the same\n"), done.stderr
    # Python may notice that a process killed outright did not put its semaphores away.
    assert "Traceback" not in done.stderr


def late_if_even(number):
    time.sleep(0.05 * (number % 2 == 0))
    return [number]


@pytest.mark.parametrize(
    "chosen",
    [
        workers.Workers(threads=3),
        # Sums that are the same to the last bit, in the test above, are merged in this order.
        pytest.param(workers.Workers(processes=2), marks=pytest.mark.slow),
    ],
    ids=["threads", "two"],
)
def test_results_are_merged_in_the_order_of_the_items(chosen):
    told = []
    found = chosen.reduce(late_if_even, range(11), operator.add, lambda *now: told.append(now))
    assert found == list(range(11))
    assert [done for _, done, _ in told] == list(range(1, 12))


# In the command itself, seen from outside


SCAN = ("--taus", "0.1,0.5,2", "--u-rms", "1", "--timescale", "1", "--block-points", "100")


@pytest.fixture
def scan(tmp_path):
    """Starts a scan with workers, many blocks and no patience."""
    write_time_major(ragged_tracks(), tmp_path / "tracks.parquet")
    started = []

    def start(*options):
        command = ("scan", tmp_path / "tracks.parquet", *SCAN, *options)
        process = subprocess.Popen(
            [sys.executable, "-m", "driftbayes", *map(str, command)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def workers_of(pid):
    """The workers that a process has now."""
    found = []
    with suppress(psutil.NoSuchProcess):
        for child in psutil.Process(pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                if "spawn_main" in " ".join(child.cmdline()):
                    found.append(child)
    return found


def seen_workers(process, number):
    while len(found := workers_of(process.pid)) < number:
        assert process.poll() is None, process.communicate()
        time.sleep(0.005)
    return found


def test_open_sockets_are_found(tmp_path):
    with socket.socket() as tcp, socket.socket(socket.AF_UNIX) as local:
        tcp.bind(("127.0.0.1", 0))
        tcp.listen()
        local.bind(str(tmp_path / "socket"))
        assert len(open_sockets(psutil.Process())) >= 2


@pytest.mark.slow
def test_workers_that_keep_dying_end_in_a_sentence(scan):
    process = scan("--workers", "2")
    killed = set()
    while process.poll() is None:
        for one in workers_of(process.pid):
            with suppress(psutil.NoSuchProcess):
                one.send_signal(signal.SIGKILL)
                killed.add(one.pid)
        time.sleep(0.01)
    out, err = process.communicate()
    assert (process.returncode, out) == (2, "")
    assert " ".join(err.split()) == (
        "driftbayes: 4 workers ended before they finished a block (the last: killed by "
        "SIGKILL); they may be out of memory: use fewer workers (--workers) or smaller blocks "
        "(--block-points)"
    )
    # As many as were allowed, and those that were running beside the last.
    assert 4 <= len(killed) <= 6


def test_workers_end_with_a_command_that_is_killed(scan):
    process = scan("--workers", "2")
    found = seen_workers(process, 2)
    process.kill()
    process.communicate()
    _, alive = psutil.wait_procs(found, timeout=60)
    assert alive == []


@pytest.mark.slow
def test_one_of_a_script_without_a_guard_is_told_so(tmp_path):
    write_time_major(ragged_tracks(), tmp_path / "tracks.parquet")
    script = tmp_path / "script.py"
    script.write_text(
        "from driftbayes.models import MODELS, model_named\n"
        "from driftbayes.streaming import Workers, tally_file\n"
        "models = lambda n_dim: [model_named('brownian', MODELS, n_dim)]\n"
        f"tally_file({str(tmp_path / 'tracks.parquet')!r}, models, (0.1,),"
        " workers=Workers(processes=1))\n"
    )
    done = subprocess.run(
        [sys.executable, script], capture_output=True, encoding="utf-8", check=False
    )
    assert done.returncode == 1
    assert "under `if __name__ == '__main__':`" in done.stderr.splitlines()[-1]


# On a cluster


@pytest.mark.parametrize("address", ["tls://10.0.0.1:8786", "tcp://127.0.0.1:1", "tcp://[::1]:1"])
def test_a_connection_that_is_safe_is_not_remarked_on(address):
    workers._warn_if_open(address)


def test_an_open_connection_to_another_machine_is_remarked_on():
    with pytest.warns(DriftbayesWarning, match=r"any client; use .* \(tls://\)"):
        workers._warn_if_open("tcp://10.0.0.1:8786")


@pytest.fixture
def cluster(tmp_path):
    """A scheduler with a certificate, and a worker that has it too."""
    pytest.importorskip("distributed")
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")
    request = ("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=drift")
    files = ("-keyout", "key.pem", "-out", "cert.pem")
    subprocess.run(["openssl", *request, *files], cwd=tmp_path, check=True, capture_output=True)
    tls = "DASK_DISTRIBUTED__COMM__TLS"
    cert, key = str(tmp_path / "cert.pem"), str(tmp_path / "key.pem")
    env = {**os.environ, f"{tls}__CA_FILE": cert, "DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION": "1"}
    for role in ("SCHEDULER", "WORKER", "CLIENT"):
        env |= {f"{tls}__{role}__CERT": cert, f"{tls}__{role}__KEY": key}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"tls://127.0.0.1:{free.getsockname()[1]}"
    parts = address.rpartition(":")
    options = ("--protocol", "tls", "--host", "127.0.0.1", "--no-dashboard")
    commands = {
        "scheduler": ("dask_scheduler", *options, "--port", parts[2]),
        "worker": ("dask_worker", address, *options, "--nthreads", "1", "--no-nanny"),
    }
    running = {
        name: subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.{module}", *words],
            env=env,
            cwd=tmp_path,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for name, (module, *words) in commands.items()
    }
    yield address, env, running
    for process in running.values():
        process.kill()
        process.wait()


@pytest.mark.slow
def test_a_cluster_with_certificates_is_used_and_strangers_are_refused(cluster, tmp_path):
    address, env, running = cluster
    write_time_major(ragged_tracks(), tmp_path / "tracks.parquet")
    command = [sys.executable, "-m", "driftbayes", "scan", "tracks.parquet", *SCAN]

    def done(*options, env):
        found = subprocess.run(
            [*command, *options],
            capture_output=True,
            encoding="utf-8",
            env=env,
            cwd=tmp_path,
            check=False,
        )
        # A sentence is folded at 80 columns.
        return found.returncode, found.stdout, found.stderr.replace("\n    ", " ")

    code, expected, _ = done("--stream", env=env)
    assert code == 0
    found = done("--cluster", address, env=env)
    assert (found[0], found[1]) == (0, expected), found[2]
    # A stranger who has no certificate cannot have anything run, encrypted or not.
    stranger = {name: value for name, value in env.items() if not name.startswith("DASK")}
    code, out, err = done("--cluster", address, env=stranger)
    assert (code, out) == (2, "")
    assert err.startswith("driftbayes: Dask is not configured with the certificates that 'tls://")
    assert len(err.splitlines()) == 1
    code, out, err = done("--cluster", address.replace("tls", "tcp"), env=stranger)
    assert (code, out) == (2, "")
    assert err.splitlines()[-1].startswith("driftbayes: there is no Dask scheduler at 'tcp://")
    # Without a worker nothing is ever done, and that is said.
    running["worker"].kill()
    running["worker"].wait()
    code, out, err = done("--cluster", address, env=env)
    assert (code, out) == (2, "")
    assert err.splitlines()[-1].startswith("driftbayes: the cluster has had no worker for 60 s")
