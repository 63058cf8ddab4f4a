import sys

import numpy as np
import pytest
import xarray as xr
from numpy.testing import assert_array_equal
from xarray.testing import assert_identical

from driftbayes._version import __version__
from driftbayes.data._trajectories import Trajectories
from driftbayes.errors import DriftbayesError
from driftbayes.io import (
    read_dataset,
    read_scan,
    read_trajectories,
    write_dataset,
    write_scan,
    write_trajectories,
)


@pytest.fixture
def scan():
    return xr.Dataset(
        {
            "log_evidence": (("tau", "model"), np.array([[-1.5, np.nan], [1e-300, -0.0]])),
            "status": (("tau", "model"), np.array([["ok", ""], ["not_finite", "µ"]], dtype=object)),
            "n_displacements": ("tau", np.array([3, 2**62]), {"long_name": "count"}),
        },
        coords={"tau": ("tau", [0.5, 1.0], {"units": "days"}), "model": ["brownian", "langevin"]},
        attrs={"seed": 3, "eddy_time": 0.1, "options": '{"a": [1]}', "note": "µ"},
    )


def some_tracks(**attributes):
    return Trajectories.from_arrays(np.arange(12.0).reshape(2, 3, 2), dt=0.5, **attributes)


def test_a_scan_comes_back_as_it_was(tmp_path, scan):
    write_scan(scan, tmp_path / "scan.nc")
    read = read_dataset(tmp_path / "scan.nc", kind="scan")
    marks = {"driftbayes_kind": "scan", "driftbayes_version": __version__, "driftbayes_schema": 1}
    assert_identical(read, scan.assign_attrs(marks))
    assert read["log_evidence"].values.tobytes() == scan["log_evidence"].values.tobytes()
    assert isinstance(read.attrs["note"], str)
    assert set(scan.attrs) == {"seed", "eddy_time", "options", "note"}


def test_a_scan_can_be_written_again_after_reading(tmp_path, scan):
    write_scan(scan, tmp_path / "scan.nc")
    first = read_dataset(tmp_path / "scan.nc", kind="scan")
    write_scan(first, tmp_path / "scan.nc")
    assert_identical(read_dataset(tmp_path / "scan.nc", kind="scan"), first)


def test_a_result_of_another_kind_is_refused(tmp_path, scan):
    write_dataset(scan, tmp_path / "d.nc", kind="diagnostics")
    assert read_dataset(tmp_path / "d.nc", kind="diagnostics").attrs["seed"] == 3
    with pytest.raises(
        DriftbayesError, match=r"'d\.nc' is a diagnostics file of driftbayes, expected a scan file"
    ):
        read_scan(tmp_path / "d.nc")


@pytest.mark.parametrize(
    ("kind", "end"),
    [
        ("scan", "; `driftbayes report`, `export` and `open_scan` of Python take it"),
        ("segments", ""),
    ],
)
def test_a_result_is_not_trajectories(tmp_path, scan, kind, end):
    write_dataset(scan, tmp_path / "r.nc", kind=kind)
    with pytest.raises(DriftbayesError) as caught:
        read_trajectories(tmp_path / "r.nc")
    message = f"'r.nc' is a {kind} file of driftbayes, expected trajectories{end}"
    assert str(caught.value) == message


def test_trajectories_and_foreign_files_are_not_scans(tmp_path, scan):
    write_trajectories(some_tracks(), tmp_path / "t.nc")
    with pytest.raises(
        DriftbayesError, match=r"'t\.nc' is trajectories, expected a scan file of driftbayes"
    ):
        read_scan(tmp_path / "t.nc")
    scan.to_netcdf(tmp_path / "f.nc", engine="h5netcdf")
    with pytest.raises(DriftbayesError, match=r"'f\.nc' is not a result of driftbayes, expected"):
        read_scan(tmp_path / "f.nc")


@pytest.mark.parametrize("value", [{"a": 1}, [1, 2], None, True])
def test_an_attribute_that_netcdf_cannot_hold_is_named(tmp_path, scan, value):
    with pytest.raises(DriftbayesError, match=r"attribute 'bad' of the dataset is a .*as JSON"):
        write_scan(scan.assign_attrs(bad=value), tmp_path / "scan.nc")
    scan["status"].attrs["bad"] = value
    with pytest.raises(DriftbayesError, match=r"attribute 'bad' of variable 'status' is a"):
        write_scan(scan, tmp_path / "scan.nc")
    assert list(tmp_path.iterdir()) == []


def test_results_are_netcdf_only(tmp_path, scan):
    with pytest.raises(DriftbayesError, match=r"expected a name ending in \.nc, got 'scan\.csv'"):
        write_scan(scan, tmp_path / "scan.csv")
    with pytest.raises(DriftbayesError, match=r"expected a name ending in \.nc"):
        read_scan(tmp_path / "scan.csv")


def test_a_missing_scan_is_named(tmp_path):
    with pytest.raises(DriftbayesError, match=r"there is no file '.*scan\.nc'"):
        read_scan(tmp_path / "scan.nc")


def test_an_error_while_writing_leaves_the_old_scan(tmp_path, scan, monkeypatch):
    write_scan(scan, tmp_path / "scan.nc")

    def break_off(self, *_, **__):
        raise RuntimeError("halfway")

    monkeypatch.setattr(xr.Dataset, "to_netcdf", break_off)
    with pytest.raises(RuntimeError, match="halfway"):
        write_scan(scan, tmp_path / "scan.nc")
    assert [p.name for p in tmp_path.iterdir()] == ["scan.nc"]
    assert read_dataset(tmp_path / "scan.nc", kind="scan").attrs["seed"] == 3


def test_a_plain_xarray_opens_the_trajectories_without_decoding_times(tmp_path):
    tracks = some_tracks(time_unit="hours", length_unit="m")
    write_trajectories(tracks, tmp_path / "t.nc")
    with xr.open_dataset(tmp_path / "t.nc", engine="h5netcdf") as dataset:
        assert dataset["time"].dtype == np.float64
        assert_array_equal(dataset["time"], tracks.times)
        assert dataset["x"].attrs["units"] == "m"
        assert dataset.attrs["featureType"] == "trajectory"


@pytest.mark.parametrize("keep", [0.05, 0.5, 0.95])
def test_a_truncated_file_is_one_sentence(tmp_path, keep):
    write_trajectories(some_tracks(), tmp_path / "t.nc")
    data = (tmp_path / "t.nc").read_bytes()
    (tmp_path / "t.nc").write_bytes(data[: int(len(data) * keep)])
    expected = (
        r"^'t\.nc' cannot be read as NetCDF \(.*\); it may be damaged, truncated or in another"
    )
    with pytest.raises(DriftbayesError, match=expected):
        read_trajectories(tmp_path / "t.nc")


def test_text_is_not_netcdf(tmp_path):
    (tmp_path / "t.nc").write_text("id,time,x\n1,0,1\n")
    with pytest.raises(DriftbayesError, match=r"'t\.nc' cannot be read as NetCDF"):
        read_trajectories(tmp_path / "t.nc")


def test_the_old_netcdf_is_named_with_its_cure(tmp_path):
    (tmp_path / "t.nc").write_bytes(b"CDF\x01" + bytes(40))
    with pytest.raises(DriftbayesError, match=r"old NetCDF-3 format, .*nccopy -k nc4"):
        read_trajectories(tmp_path / "t.nc")


def test_without_h5py_the_message_says_what_to_install(tmp_path, monkeypatch):
    write_trajectories(some_tracks(), tmp_path / "t.nc")
    # None is how Python marks a module that must not be imported.
    monkeypatch.setitem(sys.modules, "h5py", None)
    expected = r"^NetCDF files need the package h5py, which is not installed; run: pip install h5py"
    with pytest.raises(DriftbayesError, match=expected):
        read_trajectories(tmp_path / "t.nc")
    with pytest.raises(DriftbayesError, match=expected):
        write_trajectories(some_tracks(), tmp_path / "new.nc")
    assert [p.name for p in tmp_path.iterdir()] == ["t.nc"]
