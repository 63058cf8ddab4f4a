"""The ragged layout itself, in memory: nothing here needs the NetCDF library."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from io_strategies import assert_same_bits, trajectories
from numpy.testing import assert_array_equal

from driftbayes._version import __version__
from driftbayes.data._trajectories import Trajectories
from driftbayes.errors import DriftbayesError
from driftbayes.io._dataset_formats import from_dataset
from driftbayes.io._reading import ReadOptions
from driftbayes.io._writing import to_dataset

FILE = Path("tracks.nc")


def some_tracks(**attributes):
    x = np.arange(12.0).reshape(2, 3, 2)
    return Trajectories.from_arrays(x, dt=0.5, **attributes)


def ragged(**changes):
    dataset = to_dataset(some_tracks(length_unit="m", time_unit="s"))
    return dataset.assign(changes) if changes else dataset


@given(tracks=trajectories())
def test_there_and_back_changes_no_bit(tracks):
    read = from_dataset(to_dataset(tracks), FILE)
    assert_same_bits(read, tracks)
    assert read.fingerprint == tracks.fingerprint


def test_the_layout_is_cf_contiguous_ragged():
    dataset = to_dataset(some_tracks(provenance={"seed": 1}, position_sd=np.ones((2, 3))))
    assert dict(dataset.sizes) == {"traj": 2, "obs": 6}
    assert dataset["rowsize"].attrs["sample_dimension"] == "obs"
    assert dataset["id"].attrs["cf_role"] == "trajectory_id"
    for name in ("time", "x", "y", "sd"):
        assert dataset[name].dims == ("obs",)
    assert dataset.attrs == {
        "Conventions": "CF-1.11",
        "featureType": "trajectory",
        "driftbayes_schema": 1,
        "driftbayes_version": __version__,
        "provenance": '{"seed": 1}',
    }


@pytest.mark.parametrize("unit", ["s", "hours", "days since 1970-01-01", "frame"])
def test_no_unit_of_time_makes_xarray_decode_the_times(unit):
    dataset = to_dataset(some_tracks(time_unit=unit))
    assert "units" not in dataset["time"].attrs
    decoded = xr.decode_cf(dataset)
    assert_array_equal(decoded["time"], dataset["time"])
    assert from_dataset(decoded, FILE).time_unit == unit


def test_units_come_back_and_arguments_override_them():
    read = from_dataset(ragged(), FILE)
    assert (read.length_unit, read.time_unit) == ("m", "s")
    read = from_dataset(ragged(), FILE, ReadOptions(length_unit="px", time_unit="frame"))
    assert (read.length_unit, read.time_unit) == ("px", "frame")


def test_a_cf_time_is_the_number_it_is_with_the_unit_it_counts():
    dataset = ragged()
    dataset["time"].attrs = {"units": "seconds since 1970-01-01"}
    assert from_dataset(dataset, FILE).time_unit == "seconds"


def test_a_count_variable_of_any_name_is_found_by_its_attribute():
    assert from_dataset(ragged().rename(rowsize="n_obs"), FILE).n_trajectories == 2


def test_rowsize_is_found_without_its_attribute():
    dataset = ragged()
    dataset["rowsize"].attrs = {}
    assert from_dataset(dataset, FILE).n_trajectories == 2


def test_provenance_is_restored_and_that_of_others_ignored():
    dataset = to_dataset(some_tracks(provenance={"seed": 1, "source": "flow"}))
    assert from_dataset(dataset, FILE).provenance == {
        "seed": 1,
        "source": "tracks.nc",
        "reader": "netcdf",
        "earlier": [{"source": "flow"}],
    }
    del dataset.attrs["driftbayes_schema"]
    dataset.attrs["provenance"] = "not ours"
    assert from_dataset(dataset, FILE).provenance == {"source": "tracks.nc", "reader": "netcdf"}


def test_ids_of_foreign_files_are_understood():
    floats = from_dataset(ragged(id=("traj", np.array([7.0, 9.0]))), FILE)
    assert floats.ids.tolist() == [7, 9]
    assert floats.ids.dtype == np.int64
    small = from_dataset(ragged(id=("traj", np.array([7, 9], np.int16))), FILE)
    assert small.ids.dtype == np.int64
    assert from_dataset(ragged(id=("traj", np.array([b"a", b"b"]))), FILE).ids.tolist() == [
        "a",
        "b",
    ]
    unsigned = from_dataset(ragged(id=("traj", np.array([7, 9], np.uint64))), FILE)
    assert unsigned.ids.dtype == np.int64
    mixed = np.array([b"a", "b"], dtype=object)
    assert from_dataset(ragged(id=("traj", mixed)), FILE).ids.tolist() == ["a", "b"]


def test_a_missing_variable_says_what_is_there():
    expected = r"'tracks\.nc' has no variable 'x'; it has 'lon', 'lat': pass columns=\{'x': 'lon', "
    with pytest.raises(DriftbayesError, match=expected):
        from_dataset(ragged().rename(x="lon", y="lat"), FILE)
    told = ReadOptions(columns={"x": "lon", "y": "lat"})
    read = from_dataset(ragged().rename(x="lon", y="lat"), FILE, told)
    assert read.n_dim == 2


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"rowsize": ("traj", [3, 4])}, r"'rowsize' must hold whole numbers from 1 up .* 6, got"),
        ({"rowsize": ("traj", [3.5, 2.5])}, r"'rowsize' must hold whole numbers"),
        ({"rowsize": ("traj", [np.inf, np.nan])}, r"'rowsize' must hold whole numbers"),
        ({"rowsize": ("traj", [9, -3])}, r"'rowsize' must hold whole numbers"),
        ({"rowsize": ("traj", [6, 0])}, r"'rowsize' must hold whole numbers from 1 up"),
        ({"x": (("traj", "t"), np.zeros((2, 3)))}, r"'x' has dimensions \(traj, t\), expected"),
        ({"x": ((), 1.0)}, r"'x' has dimensions \(\), expected one"),
        ({"x": ("obs", list("abcdef"))}, r"'x' holds <U1, expected numbers"),
        ({"y": ("other", np.zeros(5))}, r"have different lengths \('time' 6, 'x' 6, 'y' 5\)"),
        ({"id": ("traj", [1.5, 2.5])}, r"'id' holds float64 in 1 dimensions, expected one id"),
        ({"id": ("traj", [1.0, np.nan])}, r"'id' holds float64"),
        ({"id": ((), 3)}, r"got 1 ids for 2 trajectories"),
        ({"id": ("all", [1, 2, 3])}, r"^'tracks\.nc': got 3 ids for 2 trajectories"),
        ({"id": (("a", "b"), [["u", "v"]])}, r"'id' holds <U1 in 2 dimensions"),
        ({"id": ("traj", np.array(["a", None]))}, r"'id' holds object in 1 dimensions"),
        ({"id": ("traj", np.array([1, 2**64 - 1], np.uint64))}, r"'id' .* beyond 64 bits; use"),
        ({"id": ("traj", ["a", "b" * 201])}, r"'id' holds an id longer than 200 characters"),
        ({"id": ("traj", ["a", "a"])}, r"^'tracks\.nc': id 'a' names 2 trajectories"),
    ],
)
def test_a_layout_that_makes_no_sense_is_refused(change, expected):
    with pytest.raises(DriftbayesError, match=expected):
        from_dataset(ragged(**change), FILE)


def test_without_a_count_variable_the_layout_is_named():
    expected = r"has no variable 'rowsize' and none .*; it has .*'x', 'y'.*: expected the CF contig"
    with pytest.raises(DriftbayesError, match=expected):
        from_dataset(ragged().drop_vars("rowsize"), FILE)
    with pytest.raises(DriftbayesError, match=r"it has no variables"):
        from_dataset(xr.Dataset(), FILE)


@pytest.mark.parametrize(
    ("version", "expected"),
    [(2, r"schema version 2, this driftbayes supports 1"), ("one", r"expected a whole number")],
)
def test_a_newer_or_broken_schema_is_refused(version, expected):
    with pytest.raises(DriftbayesError, match=expected):
        from_dataset(ragged().assign_attrs(driftbayes_schema=version), FILE)


def test_broken_provenance_is_refused():
    with pytest.raises(DriftbayesError, match=r"provenance in 'tracks\.nc' is not a JSON object"):
        from_dataset(ragged().assign_attrs(provenance="{"), FILE)
