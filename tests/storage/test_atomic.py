import errno
import os
import stat

import pytest

from driftbayes._storage import Outputs, atomic
from driftbayes._storage.atomic import atomic_path, atomic_paths
from driftbayes.errors import DriftbayesError


def test_the_file_appears_under_its_name_and_nothing_else_remains(tmp_path):
    with atomic_path(tmp_path / "a.csv") as temporary:
        temporary.write_text("new")
        assert not (tmp_path / "a.csv").exists()
    assert [p.name for p in tmp_path.iterdir()] == ["a.csv"]
    assert (tmp_path / "a.csv").read_text() == "new"


def test_the_temporary_is_hidden_beside_the_target_with_its_suffix_and_unique(tmp_path):
    with atomic_path(tmp_path / "a.nc") as one, atomic_path(tmp_path / "a.nc") as other:
        assert one != other
        assert one.parent == tmp_path
        assert one.name.startswith(".")
        assert one.suffix == ".nc"
        one.touch()
        other.touch()


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_error_while_writing_leaves_the_old_file_and_no_temporary(tmp_path, error):
    target = tmp_path / "a.csv"
    target.write_text("old")

    def write_half():
        with atomic_path(target) as temporary:
            temporary.write_text("ne")
            raise error("halfway")

    with pytest.raises(error, match="halfway"):
        write_half()
    assert target.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.csv"]


def test_an_error_before_anything_is_written_leaves_nothing(tmp_path):
    with pytest.raises(RuntimeError, match="early"), atomic_path(tmp_path / "a.csv"):
        raise RuntimeError("early")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_one_sentence_and_keeps_the_old_file(tmp_path):
    target = tmp_path / "a.csv"
    target.write_text("old")
    with (
        pytest.raises(DriftbayesError, match=r"cannot write '.*a\.csv': no space left on device"),
        atomic_path(target),
    ):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert target.read_text() == "old"


def test_an_os_error_of_our_own_making_keeps_its_traceback(tmp_path):
    with pytest.raises(FileNotFoundError), atomic_path(tmp_path / "a.csv"):
        raise FileNotFoundError(errno.ENOENT, "our bug")


def test_a_missing_directory_is_refused(tmp_path):
    with (
        pytest.raises(DriftbayesError, match=r"its directory does not exist; create it first"),
        atomic_path(tmp_path / "no" / "a.csv"),
    ):
        pass


def test_a_directory_is_refused(tmp_path):
    with (
        pytest.raises(DriftbayesError, match=r"is a directory, expected a file"),
        atomic_path(tmp_path),
    ):
        pass


def test_an_unwritable_directory_is_refused(tmp_path, monkeypatch):
    # The tests may run as root, whom no mode bits stop.
    monkeypatch.setattr(os, "access", lambda *_: False)
    with (
        pytest.raises(DriftbayesError, match=r"its directory is not writable; choose another"),
        atomic_path(tmp_path / "a.csv"),
    ):
        pass


def test_a_device_is_not_replaced_by_a_file():
    with (
        pytest.raises(DriftbayesError, match=r"is not a regular file and cannot be replaced"),
        atomic_path("/dev/null"),
    ):
        pass
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_a_link_stays_a_link_and_its_file_is_replaced(tmp_path):
    (tmp_path / "real.csv").write_text("old")
    link = tmp_path / "link.csv"
    link.symlink_to("real.csv")
    with atomic_path(link) as temporary:
        temporary.write_text("new")
    assert link.is_symlink()
    assert (tmp_path / "real.csv").read_text() == "new"


def test_permissions_of_the_old_file_are_kept(tmp_path):
    target = tmp_path / "a.csv"
    target.write_text("old")
    target.chmod(0o640)
    with atomic_path(target) as temporary:
        temporary.write_text("new")
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


def write_all(paths, text):
    with atomic_paths(paths) as temporaries:
        for temporary in temporaries:
            temporary.write_text(text)


@pytest.mark.parametrize("failing", [0, 1, 2])
@pytest.mark.parametrize("old", [True, False])
def test_several_files_take_their_places_together_or_not_at_all(
    tmp_path, monkeypatch, failing, old
):
    paths = [tmp_path / name for name in ("a.csv", "a.json", "a.html")]
    if old:
        write_all(paths, "old")
    put, seen = atomic._rename, []

    def fail(temporary, target, *more):
        seen.append(target)
        if len(seen) == failing + 1:
            raise OSError(errno.EIO, "Input/output error")
        put(temporary, target, *more)

    with monkeypatch.context() as patch:
        patch.setattr(atomic, "_rename", fail)
        with pytest.raises(DriftbayesError, match="input/output error"):
            write_all(paths, "new")
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in paths if old}
    assert all(path.read_text() == "old" for path in paths if old)
    write_all(paths, "new")
    assert all(path.read_text() == "new" for path in paths)
    assert len(list(tmp_path.iterdir())) == 3


def test_several_files_are_all_written_before_one_takes_its_place(tmp_path):
    paths = [tmp_path / "a", tmp_path / "b"]
    write_all(paths, "old")

    def write_one():
        with atomic_paths(paths) as temporaries:
            temporaries[0].write_text("new")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_one()
    assert [path.read_text() for path in paths] == ["old", "old"]


@pytest.mark.parametrize("call", [True, False], ids=["renameat2", "links"])
def test_a_new_name_replaces_nothing(tmp_path, monkeypatch, call):
    if not call:
        monkeypatch.setattr(atomic, "_system_call", lambda: None)
    (tmp_path / "a").write_text("new")
    atomic._rename_new(tmp_path / "a", tmp_path / "b")
    assert [path.name for path in tmp_path.iterdir()] == ["b"]
    (tmp_path / "a").write_text("newer")
    for name in ("b", "folder", "dangling"):
        if name == "folder":
            (tmp_path / name).mkdir()
        elif name == "dangling":
            (tmp_path / name).symlink_to("nowhere")
        with pytest.raises(FileExistsError):
            atomic._rename_new(tmp_path / "a", tmp_path / name)
    assert (tmp_path / "a").read_text() == "newer"
    assert (tmp_path / "b").read_text() == "new"


def test_no_hard_links_and_no_system_call_is_still_careful(tmp_path, monkeypatch):
    monkeypatch.setattr(atomic, "_system_call", lambda: None)

    def unknown(*_):
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", unknown)
    (tmp_path / "a").write_text("new")
    atomic._rename_new(tmp_path / "a", tmp_path / "b")
    (tmp_path / "a").write_text("newer")
    with pytest.raises(FileExistsError):
        atomic._rename_new(tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "b").read_text() == "new"


def test_two_outputs_of_one_name_are_refused(tmp_path):
    outputs = Outputs()
    outputs.add_file(tmp_path / "a.nc")
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(DriftbayesError, match="two outputs have the name"):
        outputs.add_file(tmp_path / "link" / "a.nc")


def test_a_loop_of_links_is_not_replaced(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(DriftbayesError, match="is not a regular file"):
        Outputs(overwrite=True).add_file(tmp_path / "a")
    assert (tmp_path / "a").is_symlink()
