import errno
import os
import stat

import pytest

from driftbayes.errors import DriftbayesError
from driftbayes.storage.atomic import atomic_path


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
        pytest.raises(DriftbayesError, match=r"is not an ordinary file and cannot be replaced"),
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
