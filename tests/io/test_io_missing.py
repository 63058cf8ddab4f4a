"""Which numbers are missing: NaN, what a file declares, what the user says, and nothing else."""

import json

import numpy as np
import pytest
import xarray as xr

from driftbayes.errors import DriftbayesError
from driftbayes.io import read_trajectories


def write_array(store, name, values, dims, *, fill, attributes=None):
    """An array of Zarr 2 as plain bytes, written without any library for it."""
    values = np.ascontiguousarray(values)
    folder = store / name
    folder.mkdir(parents=True)
    described = {
        "zarr_format": 2,
        "shape": list(values.shape),
        "chunks": list(values.shape),
        "dtype": values.dtype.str,
        "compressor": None,
        "filters": None,
        "order": "C",
        "fill_value": fill,
    }
    (folder / ".zarray").write_text(json.dumps(described))
    (folder / ".zattrs").write_text(json.dumps({"_ARRAY_DIMENSIONS": dims, **(attributes or {})}))
    (folder / ".".join("0" * values.ndim)).write_bytes(values.tobytes())


def write_store(path, x, y, times, *, fill=0, attributes=None, kind="f8"):
    path.mkdir()
    (path / ".zgroup").write_text('{"zarr_format": 2}')
    dims = ["trajectory", "obs"]
    for name, values in (("x", x), ("y", y)):
        array = np.asarray(values, dtype=kind)
        write_array(path, name, array, dims, fill=fill, attributes=attributes)
    write_array(path, "time", np.asarray(times), dims, fill=0, attributes={"units": "s"})
    write_array(path, "trajectory", np.arange(len(x)), ["trajectory"], fill=0)
    return path


TIMES = np.tile(np.arange(5.0), (2, 1))
X = np.array([[0.0, 1, 2, 0, 4], [3, 0, 0, 1, 2]])
Y = np.array([[0.0, 0, 1, 0, 2], [1, 0, 5, 0, 0]])


@pytest.mark.parametrize("kind", ["f8", "f4", "i4", "i2", "u1"])
def test_zeros_of_a_store_are_data_whatever_its_fill_value(tmp_path, kind):
    tracks = read_trajectories(write_store(tmp_path / "a.zarr", X, Y, TIMES, kind=kind))
    assert tracks.row_sizes.tolist() == [5, 5]
    np.testing.assert_array_equal(tracks.times, TIMES.ravel())
    np.testing.assert_array_equal(tracks.positions, np.stack([X.ravel(), Y.ravel()], axis=-1))


def test_the_same_store_in_blocks_has_its_zeros(tmp_path):
    from driftbayes.io._blocks import plan_blocks, read_block

    store = write_store(tmp_path / "a.zarr", X, Y, TIMES)
    with plan_blocks(store, block_points=5) as plan:
        parts = [read_block(block) for block in plan.blocks]
    assert len(parts) == 2
    np.testing.assert_array_equal(
        np.concatenate([part.positions[:, 0] for part in parts]), X.ravel()
    )


def test_a_declared_fill_value_is_missing(tmp_path):
    store = write_store(tmp_path / "a.zarr", X, Y, TIMES, fill=0, attributes={"_FillValue": 2.0})
    tracks = read_trajectories(store)
    # The last position of both is missing: padding; the third of the first is a missing fix.
    assert tracks.row_sizes.tolist() == [4, 4]
    assert np.isnan(tracks.positions[:, 0]).tolist() == [False, False, True] + [False] * 5


def test_a_declared_missing_value_of_packed_numbers_is_missing(tmp_path):
    about = {"missing_value": [3], "scale_factor": 0.5, "add_offset": 10.0}
    store = write_store(tmp_path / "a.zarr", X, X, TIMES, attributes=about, kind="i2")
    tracks = read_trajectories(store)
    expected = np.delete(0.5 * X.ravel() + 10, 5)
    np.testing.assert_array_equal(tracks.positions[:, 0], expected)


def test_a_fill_value_that_somebody_chose_is_not_guessed_about(tmp_path):
    store = write_store(tmp_path / "a.zarr", X, Y, TIMES, fill=1.0)
    with pytest.raises(DriftbayesError, match=r"'x' holds 1 2 times, the fill value .*--missing 1"):
        read_trajectories(store)
    np.testing.assert_array_equal(read_trajectories(store, missing=[]).positions[:, 0], X.ravel())
    tracks = read_trajectories(store, missing=[1.0])
    assert np.isnan(tracks.positions[:, 0]).sum() > 0


def test_a_fill_value_that_is_nowhere_in_the_data_needs_no_word(tmp_path):
    store = write_store(tmp_path / "a.zarr", X, Y, TIMES, fill=-999.0)
    assert read_trajectories(store).row_sizes.tolist() == [5, 5]


@pytest.mark.parametrize(("kind", "end"), [("u1", 255), ("i1", 127), ("i2", 32767), ("u2", 65535)])
def test_small_whole_numbers_are_data_up_to_their_ends(tmp_path, kind, end):
    x = np.array([[0, 1, end]], dtype=kind)
    dataset = xr.Dataset(
        {
            "x": (("trajectory", "obs"), x, {"units": "m"}),
            "y": (("trajectory", "obs"), x, {"units": "m"}),
            "time": ("obs", np.arange(3.0), {"units": "s"}),
        }
    )
    encoding = {name: {"_FillValue": None} for name in dataset.variables}
    dataset.to_netcdf(tmp_path / "a.nc", engine="h5netcdf", encoding=encoding)
    assert read_trajectories(tmp_path / "a.nc").positions[:, 0].tolist() == [0, 1, end]


def test_zeros_of_hdf5_are_data_whatever_its_own_fill_value(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.nc", "w") as raw:
        for name, size in (("trajectory", 2), ("obs", 5)):
            raw.create_dataset(name, data=np.arange(size)).make_scale(name)
        for name, values in (("x", X), ("y", Y), ("time", TIMES)):
            data = raw.create_dataset(name, data=values, fillvalue=0.0)
            data.dims[0].attach_scale(raw["trajectory"])
            data.dims[1].attach_scale(raw["obs"])
    tracks = read_trajectories(tmp_path / "a.nc")
    np.testing.assert_array_equal(tracks.positions, np.stack([X.ravel(), Y.ravel()], axis=-1))


@pytest.mark.parametrize("name", ["a.csv", "a.parquet", "a.npz"])
def test_the_user_says_which_number_is_missing(tmp_path, name):
    if name == "a.npz":
        np.savez(tmp_path / name, x=[[1.0, -999.0, 3.0]], y=[[1.0, 2.0, 3.0]], t=np.arange(3.0))
    else:
        import pandas as pd

        table = pd.DataFrame({"id": 1, "time": [0.0, 1, 2], "x": [1.0, -999, 3], "y": [1.0, 2, 3]})
        table.to_csv(tmp_path / name, index=False) if name == "a.csv" else table.to_parquet(
            tmp_path / name
        )
    columns = {"time": "t"} if name == "a.npz" else None
    tracks = read_trajectories(tmp_path / name, columns=columns, missing=[-999])
    assert np.isnan(tracks.positions[:, 0]).tolist() == [False, True, False]
