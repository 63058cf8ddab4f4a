"""Several files, a pattern or a folder as one data set."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import driftbayes as db
from driftbayes.cli.main import main
from driftbayes.errors import DataWarning, DriftbayesError

WALKS = np.random.default_rng(0).normal(size=(3, 20, 2)).cumsum(axis=1)


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "tracks"
    made.mkdir()
    for i, walk in enumerate(WALKS):
        rows = "".join(f"{j},{x!r},{y!r}\n" for j, (x, y) in enumerate(walk.tolist()))
        (made / f"track{i}.csv").write_text(f"t_s,x_um,y_um\n{rows}")
    (made / "README.txt").write_text("About these files.\n")
    return made


def notes(tracks):
    return " | ".join(tracks.provenance.get("notes", []))


def test_a_list_a_pattern_and_a_folder_are_the_same(folder):
    files = sorted(folder.glob("*.csv"))
    found = db.read(files)
    assert found.ids.tolist() == ["track0", "track1", "track2"]
    assert_array_equal(found.positions, WALKS.reshape(-1, 2))
    assert (found.length_unit, found.time_unit) == ("µm", "s")
    assert "3 files are read as one data set" in notes(found)
    for source in (str(folder / "*.csv"), folder, str(folder), [str(file) for file in files]):
        assert db.read(source).fingerprint == found.fingerprint


def test_ids_that_come_twice_get_the_name_of_their_file(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.csv").write_text("id,time,x,y\n1,0,1,1\n1,1,2,2\n2,0,1,1\n")
    found = db.read([tmp_path / "a.csv", tmp_path / "b.csv"])
    assert found.ids.tolist() == ["a/1", "a/2", "b/1", "b/2"]
    assert "ids are now FILE/ID" in notes(found)
    (tmp_path / "b.csv").write_text("id,time,x,y\n3,0,1,1\n3,1,2,2\n")
    assert db.read([tmp_path / "a.csv", tmp_path / "b.csv"]).ids.tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("other", "what"),
    [
        ("id,time,x_m,y_m\n1,0,1,1\n1,1,2,2\n", "unit of length: km and m"),
        ("id,time_h,x_km,y_km\n1,0,1,1\n1,1,2,2\n", "unit of time: unknown and h"),
        ("id,time,x_km\n1,0,1\n1,1,2\n", "number of dimensions: 2 and 1"),
        ("id,time,lon,lat\n1,0,1,1\n1,1,1.1,1\n", "unit of length: km and m"),
        ("id,time,x_km,y_km,sd\n1,0,1,1,1\n1,1,2,2,1\n", "measurement errors: none and given"),
        ("particle,frame,x,y\n1,0,1,1\n1,1,2,2\n", "format table, 'b.csv' has format trackpy"),
    ],
)
def test_files_that_differ_are_refused(tmp_path, other, what):
    (tmp_path / "a.csv").write_text("id,time,x_km,y_km\n1,0,1,1\n1,1,2,2\n")
    (tmp_path / "b.csv").write_text(other)
    with pytest.raises(DriftbayesError, match=what):
        db.read(str(tmp_path / "*.csv"))


def test_degrees_have_one_frame(tmp_path):
    for name, lat in (("a", 50), ("b", 85)):
        rows = "".join(f"{name},{i},{i * 0.01},{lat + i * 0.01}\n" for i in range(5))
        (tmp_path / f"{name}.csv").write_text(f"id,time,lon,lat\n{rows}")
    found = db.read(str(tmp_path / "*.csv"))
    assert found.provenance["plane"]["frame"] == "transported"
    assert found.n_trajectories == 2


def test_a_folder_of_several_sorts_is_refused(folder):
    (folder / "more.parquet").write_bytes(b"PAR1")
    with pytest.raises(DriftbayesError, match=r"several types \(1 \.parquet, 3 \.csv\)|3 \.csv"):
        db.read(folder)
    assert db.read(folder / "*.csv").n_trajectories == 3


def test_nothing_to_read_is_said(tmp_path):
    with pytest.raises(DriftbayesError, match="no file matches"):
        db.read(str(tmp_path / "*.csv"))
    with pytest.raises(DriftbayesError, match="is a directory, expected a file"):
        db.read(tmp_path)
    with pytest.raises(DriftbayesError, match="several files cannot be read in blocks"):
        db.read([tmp_path / "a.csv", tmp_path / "b.csv"], blocks=db.Blocks())


def test_a_name_with_a_bracket_is_a_file(tmp_path):
    file = tmp_path / "track[1].csv"
    file.write_text("id,time,x,y\n1,0,1,1\n1,1,2,2\n")
    assert db.read(file).n_trajectories == 1


def test_the_command_line_takes_several_files(folder, tmp_path, capsys):
    files = [str(file) for file in sorted(folder.glob("*.csv"))]
    assert main(["info", *files]) == 0
    out = capsys.readouterr().out
    assert "track0.csv and 2 more" in out
    assert "3 files are read as one data set" in out
    out_file = tmp_path / "all.parquet"
    assert main(["convert", *files, str(out_file)]) == 0
    assert db.read(out_file).fingerprint == db.read(folder).fingerprint
    scales = ["--u-rms", "1", "--timescale", "1"]
    assert main(["compare", str(folder), "--tau", "1", *scales]) == 0
    assert main(["compare", *files, "--tau", "1", *scales]) == 0


def test_windows_say_how_many_steps_they_drop(folder):
    tracks = db.read(folder)
    scales = db.Scales(1.0, 1.0)
    # Each of three tracks has 19 steps: two windows of 8 leave 3.
    with pytest.warns(DataWarning, match=r"^9 of 57 steps fill no window of 8 steps"):
        tracks.compare(1.0, cut=db.Cut(8, "all"), scales=scales)
    with pytest.warns(DataWarning, match=r"^9 of 57 steps fill no window of 8 steps"):
        tracks.scan([1.0], cut=db.Cut(8, "all"), scales=scales)
    tracks.compare(1.0, cut=db.Cut(19, "all"), scales=scales)
