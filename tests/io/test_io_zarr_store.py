"""Zarr stores as we write them: whole or not at all, for us and for others."""

import numpy as np
import pytest
import xarray as xr

from driftbayes.data._trajectories import Trajectories
from driftbayes.data.sphere import on_plane
from driftbayes.errors import DriftbayesError
from driftbayes.io import read_trajectories, write_trajectories
from driftbayes.io._formats import contents_of


@pytest.fixture
def tracks():
    lonlat = np.cumsum(np.full((2, 4, 2), 0.01), axis=1) + 10
    degrees = Trajectories.from_arrays(lonlat, dt=60.0, ids=["a", "b"], time_unit="s")
    return on_plane(degrees)


@pytest.mark.parametrize("suffix", [".nc", ".zarr"])
def test_others_find_longitudes_latitudes_and_counts(tmp_path, tracks, suffix):
    write_trajectories(tracks, tmp_path / f"a{suffix}")
    engine = "zarr" if suffix == ".zarr" else "h5netcdf"
    with xr.open_dataset(tmp_path / f"a{suffix}", engine=engine) as dataset:
        assert dataset["lon"].attrs == {"units": "degrees_east", "standard_name": "longitude"}
        assert dataset["lat"].attrs == {"units": "degrees_north", "standard_name": "latitude"}
        assert dataset["rowsize"].attrs["sample_dimension"] == "obs"
        assert dataset["id"].attrs["cf_role"] == "trajectory_id"
        assert np.array_equal(np.column_stack([dataset["lon"], dataset["lat"]]), tracks.lonlat)


def test_a_store_says_where_it_comes_from(tmp_path, tracks):
    write_trajectories(tracks, tmp_path / "a.zarr")
    again = read_trajectories(tmp_path / "a.zarr")
    assert again.provenance["reader"] == "zarr"
    assert again.provenance["plane"] == tracks.provenance["plane"]
    assert (again.length_unit, again.time_unit) == ("m", "s")


def test_variables_have_one_order_in_every_run(tmp_path):
    # The first of several suitable variables is read; zarr lists them in any order.
    names = [f"v{i}" for i in np.random.default_rng(1).permutation(20)]
    data = {name: ("obs", np.arange(3.0)) for name in names}
    xr.Dataset(data).to_zarr(tmp_path / "a.zarr", zarr_format=2)
    contents = contents_of(tmp_path / "a.zarr")
    assert contents.names == tuple(contents.dims) == tuple(sorted(names))


def test_a_store_of_ours_is_replaced_and_nothing_is_left_beside_it(tmp_path, tracks):
    write_trajectories(tracks, tmp_path / "a.zarr")
    other = tracks.select(tracks.trajectory_index == 1)
    write_trajectories(other, tmp_path / "a.zarr")
    assert read_trajectories(tmp_path / "a.zarr").fingerprint == other.fingerprint
    assert [path.name for path in tmp_path.iterdir()] == ["a.zarr"]


def test_a_directory_of_another_is_not_replaced(tmp_path, tracks):
    (tmp_path / "a.zarr").mkdir()
    (tmp_path / "a.zarr" / "thesis.tex").write_text("years of work")
    with pytest.raises(DriftbayesError, match="is a directory that driftbayes did not write"):
        write_trajectories(tracks, tmp_path / "a.zarr")
    assert (tmp_path / "a.zarr" / "thesis.tex").exists()
    (tmp_path / "b.zarr").write_text("a file")
    with pytest.raises(DriftbayesError, match="is a file"):
        write_trajectories(tracks, tmp_path / "b.zarr")
    with pytest.raises(DriftbayesError, match="its directory does not exist"):
        write_trajectories(tracks, tmp_path / "no" / "c.zarr")


def test_an_error_while_writing_leaves_the_old_store(tmp_path, tracks, monkeypatch):
    write_trajectories(tracks, tmp_path / "a.zarr")

    def break_off(dataset, path, **_):
        path.mkdir()
        (path / ".zgroup").write_text("{}")
        raise RuntimeError("halfway")

    monkeypatch.setattr(xr.Dataset, "to_zarr", break_off)
    with pytest.raises(RuntimeError, match="halfway"):
        write_trajectories(tracks, tmp_path / "a.zarr")
    monkeypatch.undo()
    assert [path.name for path in tmp_path.iterdir()] == ["a.zarr"]
    assert read_trajectories(tmp_path / "a.zarr").fingerprint == tracks.fingerprint


def test_a_full_disk_is_said_and_leaves_nothing(tmp_path, tracks, monkeypatch):
    def full(dataset, path, **_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(xr.Dataset, "to_zarr", full)
    with pytest.raises(DriftbayesError, match=r"cannot write .* no space left on device"):
        write_trajectories(tracks, tmp_path / "a.zarr")
    assert list(tmp_path.iterdir()) == []


def test_positions_are_x_and_y_where_a_table_has_degrees_too(tmp_path):
    (tmp_path / "a.csv").write_text("id,time,x,y,lon,lat\n1,0,5,6,10,\n1,1,7,8,10.1,50.1\n")
    tracks = read_trajectories(tmp_path / "a.csv")
    assert tracks.positions.tolist() == [[5, 6], [7, 8]]
    np.testing.assert_array_equal(tracks.lonlat, [[10, np.nan], [10.1, 50.1]])
    without = read_trajectories(tmp_path / "a.csv", columns={"lon": None, "lat": None})
    assert without.lonlat is None


def test_a_column_of_longitudes_that_are_no_numbers_can_be_left_out(tmp_path):
    (tmp_path / "a.csv").write_text("id,time,x,y,lon,lat\n1,0,5,6,10E,50N\n1,1,7,8,11E,51N\n")
    with pytest.raises(DriftbayesError, match="column 'lon' holds '10E'"):
        read_trajectories(tmp_path / "a.csv")
    assert read_trajectories(tmp_path / "a.csv", columns={"lon": None}).lonlat is None


@pytest.mark.parametrize("kept", [8, -1])
def test_a_chunk_that_is_cut_short_is_refused(tmp_path, tracks, kept):
    # Blosc's decoder reads on beyond the end, and positions would be whatever is in memory there.
    write_trajectories(tracks, tmp_path / "a.zarr")
    chunk = tmp_path / "a.zarr" / "x" / "0"
    chunk.write_bytes(chunk.read_bytes()[:kept])
    with pytest.raises(DriftbayesError, match=r"'a\.zarr': the chunk 'x/0' is truncated; restore"):
        read_trajectories(tmp_path / "a.zarr")
