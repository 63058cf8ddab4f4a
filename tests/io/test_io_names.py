import pytest

from driftbayes.data import _schema as schema
from driftbayes.errors import DriftbayesError


def names(present, columns=None):
    return schema.file_names(present, columns, source="f.csv")


def test_optional_columns_are_used_if_there():
    assert names(["x", "time", "id"]) == {"id": "id", "time": "time", "x": "x"}
    assert set(names(["id", "time", "x", "y", "z", "sd", "note"])) == {
        "id",
        "time",
        "x",
        "y",
        "z",
        "sd",
    }


def test_the_likeliest_column_is_suggested():
    with pytest.raises(DriftbayesError, match=r"--columns id=TRACK_ID\)"):
        names(["LABEL2", "TRACK_ID", "time", "x"])
    with pytest.raises(DriftbayesError, match=r"pass columns=\{'time': 'frame', \.\.\.\}"):
        names(["id", "mass", "frame", "x"])
    with pytest.raises(DriftbayesError, match=r"--columns x=X\)"):
        names(["id", "time", "mass", "X"])
    with pytest.raises(DriftbayesError, match=r"--columns time=time_s\)"):
        names(["id", "mass", "time_s", "x"])


def test_an_unlikely_column_is_not_suggested():
    expected = r"it has 'frame': say which with columns=\{'id': \.\.\.\} \(--columns id=\.\.\.\)"
    with pytest.raises(DriftbayesError, match=expected):
        names(["frame", "x", "y"])


def test_a_mapped_column_that_is_missing_is_named_with_its_role():
    with pytest.raises(
        DriftbayesError, match=r"has no column 'lon' \(wanted as 'x'\); it has 'Lon'"
    ):
        names(["id", "time", "Lon"], {"x": "lon"})
    with pytest.raises(DriftbayesError, match=r"has no column 'err' \(wanted as 'sd'\)"):
        names(["id", "time", "x"], {"sd": "err"})


def test_with_nothing_to_suggest_the_advice_is_to_add_the_column():
    with pytest.raises(DriftbayesError, match=r"it has only 'id', 'time': add the column"):
        names(["id", "time"])


def test_a_long_list_of_columns_is_cut():
    with pytest.raises(DriftbayesError, match=r"'c7' and 12 more: say which"):
        names([f"c{i}" for i in range(20)])


def test_a_mapping_the_wrong_way_round_is_recognised():
    expected = (
        r"columns has the key 'lon', expected one of id, time, .*; did you mean \{'x': 'lon'\}"
    )
    with pytest.raises(DriftbayesError, match=expected):
        names(["id", "time", "lon"], {"lon": "x"})


def test_one_column_cannot_play_two_roles():
    with pytest.raises(DriftbayesError, match=r"columns uses 'a' twice"):
        names(["id", "time", "a"], {"x": "a", "y": "a"})


def test_z_without_y_is_not_guessed_to_be_a_plane():
    with pytest.raises(DriftbayesError, match=r"but no column 'y'; .* pass columns=\{'y': 'z'\}"):
        names(["id", "time", "x", "z"])
    assert names(["id", "time", "x", "z"], {"y": "z"})["y"] == "z"
    assert set(names(["id", "time", "x", "z"], {"z": None})) == {"id", "time", "x"}


@pytest.mark.parametrize("nothing", [None, ""])
def test_a_column_mapped_to_nothing_is_left_out(nothing):
    present = ["id", "time", "x", "y", "z", "sd"]
    assert set(names(present, {"z": nothing})) == {"id", "time", "x", "y", "sd"}
    assert set(names(present, {"z": nothing, "sd": nothing, "x": "y", "y": "x"})) == {
        "id",
        "time",
        "x",
        "y",
    }
    # One script for many files: some of them have nothing to leave out.
    assert set(names(["id", "time", "x"], {"z": nothing})) == {"id", "time", "x"}


@pytest.mark.parametrize("needed", ["id", "time", "x"])
def test_a_column_that_every_file_needs_cannot_be_left_out(needed):
    expected = rf"columns leaves out '{needed}', which every file needs; name its column"
    with pytest.raises(DriftbayesError, match=expected):
        names(["id", "time", "x", "y"], {needed: None})


def test_an_unknown_column_cannot_be_left_out():
    with pytest.raises(DriftbayesError, match=r"columns has the key 'depth', expected one of id,"):
        names(["id", "time", "x", "depth"], {"depth": None})
