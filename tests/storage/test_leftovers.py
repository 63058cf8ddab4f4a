"""What killed processes leave is removed by the next write; what others are writing is not."""

import os
import signal
import subprocess
import sys
import time

import pytest

from driftbayes._storage import leftovers
from driftbayes._storage.atomic import atomic_folder, atomic_path
from driftbayes._storage.leftovers import scratch_folder, sweep, temporary_path
from driftbayes.errors import DriftbayesError

_WRITER = """
import sys, time
from pathlib import Path
from driftbayes._storage.atomic import atomic_folder, atomic_path, atomic_paths
from driftbayes._storage.leftovers import scratch_folder

target = Path(sys.argv[2])
if sys.argv[1] == "file":
    with atomic_path(target) as temporary:
        temporary.write_text("half")
        print("writing", flush=True)
        time.sleep(600)
elif sys.argv[1] == "scratch":
    with scratch_folder(target.parent) as folder:
        (folder / "part").write_text("rows")
        print("writing", flush=True)
        time.sleep(600)
elif sys.argv[1] == "files":
    with atomic_paths([target, target.with_suffix(".b")]) as temporaries:
        for temporary in temporaries:
            temporary.write_text("half")
        print("writing", flush=True)
        time.sleep(600)
else:
    with atomic_folder(target, may_replace=lambda _: True) as temporary:
        temporary.mkdir()
        (temporary / "chunk").write_text("half")
        print("writing", flush=True)
        time.sleep(600)
"""


@pytest.fixture
def writer():
    """Start a process that is in the middle of writing."""
    started = []

    def start(kind, target):
        process = subprocess.Popen(
            [sys.executable, "-c", _WRITER, kind, str(target)], stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        assert process.stdout.readline() == "writing\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.parametrize("kind", ["file", "files", "folder", "scratch"])
def test_a_killed_process_leaves_nothing_under_the_name_and_is_swept(writer, tmp_path, kind):
    target = tmp_path / "out.a"
    process = writer(kind, target)
    names = {path.name for path in tmp_path.iterdir()}
    assert not target.exists()
    assert len(names) == 1 + (kind == "files")
    # Somebody else writes here in the meantime: what is being written stays.
    assert sweep(tmp_path) == []
    assert {path.name for path in tmp_path.iterdir()} == names
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert {path.name for path in tmp_path.iterdir()} == names
    # A new process, as commands are: each folder is swept once in one.
    code = "import sys; from driftbayes._storage.atomic import atomic_path\n"
    code += "with atomic_path(sys.argv[1]) as path: path.write_text('whole')"
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "other")], check=True)
    assert [path.name for path in tmp_path.iterdir()] == ["other"]


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_killed_process_leaves_the_old_one(writer, tmp_path, kind):
    target = tmp_path / "out.a"
    if kind == "file":
        target.write_text("old")
    else:
        target.mkdir()
        (target / "chunk").write_text("old")
    process = writer(kind, target)
    process.kill()
    process.wait()
    assert (target if kind == "file" else target / "chunk").read_text() == "old"
    assert len(sweep(tmp_path)) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["out.a"]


def test_a_scratch_folder_is_private_and_goes(tmp_path):
    with scratch_folder(tmp_path) as folder:
        (folder / "part").mkdir()
        assert folder.stat().st_mode & 0o777 == 0o700
        assert sweep(tmp_path) == []
    assert list(tmp_path.iterdir()) == []
    with (
        pytest.raises(DriftbayesError, match="cannot make a folder for temporary files in"),
        scratch_folder(tmp_path / "no"),
    ):
        pass


def test_a_process_of_the_same_number_is_another(tmp_path, monkeypatch):
    path = temporary_path(tmp_path / "a.csv")
    path.touch()
    assert sweep(tmp_path) == []
    state, began = leftovers._stat(os.getpid())
    if not began:
        pytest.skip("this system does not say when a process began")
    monkeypatch.setattr(leftovers, "_stat", lambda pid: (state, began + 1))
    assert sweep(tmp_path) == [path]


def test_another_machine_is_given_a_week(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(leftovers, "_machine", lambda: "0" * 8)
        file, folder = temporary_path(tmp_path / "a.csv"), temporary_path(tmp_path / "b.zarr")
    file.touch()
    (folder / "c").mkdir(parents=True)
    (folder / "c" / "0").touch()
    assert sweep(tmp_path) == []
    old = time.time() - 8 * 86_400
    for path in (file, folder, folder / "c"):
        os.utime(path, (old, old))
    # A chunk of the store is young: its writer may be alive.
    assert sweep(tmp_path) == [file]
    os.utime(folder / "c" / "0", (old, old))
    assert sweep(tmp_path) == [folder]


def test_only_names_of_ours_are_touched(tmp_path):
    others = [".driftbayes-notes", ".driftbayes-12345678-1-1-abc.csv", ".hidden", "a.csv"]
    others.append("x.driftbayes-12345678-99999999-1-0123456789ab.csv")
    for name in others:
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (0, 0))
    assert sweep(tmp_path) == []
    assert {path.name for path in tmp_path.iterdir()} == set(others)


def test_a_link_called_like_ours_is_removed_and_not_followed(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.csv").write_text("mine")
    name = f".driftbayes-{leftovers._machine()}-4194399-1-0123456789ab"
    (tmp_path / name).symlink_to(tmp_path / "data")
    assert sweep(tmp_path) == [tmp_path / name]
    assert (tmp_path / "data" / "a.csv").read_text() == "mine"


def test_long_suffixes_fit(tmp_path):
    target = tmp_path / ("a." + "b" * 250)
    with atomic_path(target) as temporary:
        temporary.write_text("new")
    assert target.read_text() == "new"


def make_store(folder, text):
    folder.mkdir()
    (folder / "chunk").write_text(text)


def test_a_directory_is_exchanged_in_one_step(tmp_path, monkeypatch):
    """No rename of ours takes the old one away before the new one is there."""
    from driftbayes._storage import atomic

    if atomic._system_call() is None:
        pytest.skip("this system has no renameat2")
    target = tmp_path / "a.zarr"
    make_store(target, "old")
    monkeypatch.setattr(
        atomic, "_replace_folder", lambda *_: pytest.fail("there was a moment without")
    )
    with atomic_folder(target, may_replace=lambda _: True) as temporary:
        make_store(temporary, "new")
    assert (target / "chunk").read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["a.zarr"]


@pytest.fixture
def without_exchange(monkeypatch):
    from driftbayes._storage import atomic

    monkeypatch.setattr(atomic, "_system_call", lambda: None)


@pytest.mark.usefixtures("without_exchange")
def test_without_such_a_call_a_directory_is_replaced_too(tmp_path):
    target = tmp_path / "a.zarr"
    make_store(target, "old")
    with atomic_folder(target, may_replace=lambda _: True) as temporary:
        make_store(temporary, "new")
    assert (target / "chunk").read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["a.zarr"]


@pytest.mark.usefixtures("without_exchange")
def test_an_old_directory_that_stepped_aside_is_moved_back(tmp_path):
    """As after a kill between the two atomic."""
    backup = tmp_path / f".driftbayes-{leftovers._machine()}-4194399-1-0123456789ab-backup"
    backup.mkdir()
    make_store(backup / "a.zarr", "old")
    assert sweep(tmp_path) == [backup]
    assert (tmp_path / "a.zarr" / "chunk").read_text() == "old"
    # Where the new one has arrived, the old one goes.
    backup.mkdir()
    make_store(backup / "a.zarr", "older")
    sweep(tmp_path)
    assert (tmp_path / "a.zarr" / "chunk").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["a.zarr"]
