"""Trajectories as tables and datasets, and back again."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

import gallery
from driftbayes.data._trajectories import Trajectories
from driftbayes.errors import DriftbayesError
from driftbayes.io._dataset_formats import from_dataset


def full():
    """With everything that trajectories can have, and a missing fix."""
    made = gallery.tracks(
        position_sd=np.full((2, 3), 0.1),
        lonlat=np.arange(12.0).reshape(6, 2),
        flags={"drogued": [1, 1, 0, 1, np.nan, 0]},
        provenance={"source": "tracks.csv", "seed": 3},
    )
    return made.blanked(np.array([False, True, False, False, False, False]))


def same(one, other):
    assert one.fingerprint == other.fingerprint
    assert_array_equal(one.ids.astype(str), other.ids.astype(str))
    assert_array_equal(one.row_sizes, other.row_sizes)
    assert (one.lonlat is None) == (other.lonlat is None)
    if one.lonlat is not None:
        assert_array_equal(one.lonlat, other.lonlat)
    assert one.flags.keys() == other.flags.keys()
    for name in one.flags:
        assert_array_equal(one.flags[name], other.flags[name])
    return True


@pytest.mark.parametrize("make", [gallery.tracks, full])
def test_a_table_and_back(make):
    there = make()
    back = Trajectories.from_dataframe(there.to_dataframe())
    assert same(there, back)
    assert (back.length_unit, back.time_unit) == ("km", "d")
    assert back.provenance == (there.provenance or {"source": "a DataFrame"})


def test_a_table_has_a_row_per_observation_and_says_its_units():
    frame = full().to_dataframe()
    assert list(frame) == ["id", "time", "x", "y", "sd", "lon", "lat", "flag_drogued"]
    assert frame["id"].tolist() == ["a", "a", "a", "b", "b", "b"]
    assert frame.attrs["units"] == {
        **{"time": "d", "x": "km", "y": "km", "sd": "km"},
        **{"lon": "degree", "lat": "degree"},
    }
    assert frame.attrs["data_fingerprint"] == full().fingerprint


def test_rows_of_different_trajectories_may_be_mixed():
    frame = gallery.tracks().to_dataframe().sort_values("time", kind="stable")
    assert frame["id"].tolist() != ["a", "a", "a", "b", "b", "b"]
    assert same(Trajectories.from_dataframe(frame), gallery.tracks())


def test_whole_numbers_stay_whole_numbers():
    frame = gallery.tracks(ids=[7, 2**60 + 1]).to_dataframe()
    assert Trajectories.from_dataframe(frame).ids.tolist() == [7, 2**60 + 1]


@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_dates_become_seconds(zone):
    dates = pd.date_range("2024-05-17", periods=3, freq="6h", tz=zone)
    frame = pd.DataFrame({"id": "a", "time": dates, "x": [0.0, 1.0, 2.0]})
    made = Trajectories.from_dataframe(frame, length_unit="m")
    assert made.time_unit == "s"
    assert made.recording_interval == 6 * 3600
    assert made.times[0] == pd.Timestamp("2024-05-17", tz=zone or "UTC").timestamp()
    assert made.provenance["time_origin"] == "1970-01-01T00:00:00"


def test_columns_by_other_names():
    frame = pd.DataFrame({"particle": [0, 0], "frame": [0, 1], "x": [1, 2], "y": [3, 4]})
    made = Trajectories.from_dataframe(
        frame, columns={"id": "particle", "time": "frame"}, time_unit="frame"
    )
    assert made.positions.tolist() == [[1.0, 3.0], [2.0, 4.0]]
    assert made.time_unit == "frame"


@pytest.mark.parametrize(
    ("frame", "options", "message"),
    [
        ({"id": [0], "t": [0.0], "x": [0.0]}, {}, "has no column 'time'; it has 't': pass columns"),
        ({"id": [0]}, {"columns": {"tme": "i"}}, "did you mean 'time'"),
        (
            {"id": [0], "time": [0], "Easting": [0]},
            {"columns": {"x": "easting"}},
            r"pass columns=\{'x': 'Easting', \.\.\.\}",
        ),
        ({"id": [0]}, {"columns": {"lon": "L"}}, r"has no column 'L' \(wanted as 'lon'\)"),
        ({"id": [0], "time": [0.0], "x": ["a"]}, {}, "column 'x' holds .* expected numbers"),
        ({"id": [None], "time": [0.0], "x": [1.0]}, {}, "'id' is empty in some rows"),
        ({"id": [], "time": [], "x": []}, {}, "there are no trajectories"),
        ({"id": [0, 0], "time": [1, 0], "x": [1, 2]}, {}, "decreasing times"),
    ],
)
def test_a_table_that_cannot_be_understood(frame, options, message):
    with pytest.raises(DriftbayesError, match=message):
        Trajectories.from_dataframe(pd.DataFrame(frame), **options)


def test_longitude_and_latitude_by_other_names():
    frame = pd.DataFrame({"id": [0, 0], "time": [0, 1], "x": [1, 2], "y": [3, 4]})
    frame["L"], frame["B"] = [10.0, 11.0], [50.0, 51.0]
    made = Trajectories.from_dataframe(frame, columns={"lon": "L", "lat": "B"})
    assert made.lonlat.tolist() == [[10.0, 50.0], [11.0, 51.0]]


def test_two_columns_of_one_name_are_not_two_axes():
    frame = pd.DataFrame([[0, 0, 1, 2]], columns=["id", "time", "x", "x"])
    with pytest.raises(DriftbayesError, match="more than one column 'x'; rename one"):
        Trajectories.from_dataframe(frame)


def test_a_dataset_says_its_units_and_can_be_read_back(tmp_path):
    made = full().to_dataset()
    assert made["x"].attrs["units"] == "km"
    assert made["time"].attrs["time_unit"] == "d"
    assert made.attrs["data_fingerprint"] == full().fingerprint
    assert made.attrs["length_unit"] == "km"
    back = from_dataset(made, tmp_path / "memory.nc")
    assert back.fingerprint == full().fingerprint
