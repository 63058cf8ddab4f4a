"""What particle files of Parcels leave out or say wrongly, each as a small file made here."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xarray as xr

from driftbayes.errors import DriftbayesError
from driftbayes.io import read_trajectories
from driftbayes.io._blocks import plan_blocks, read_block

X = np.array([[0.0, 10.0, 30.0, np.nan], [5.0, 6.0, np.nan, np.nan]])
TIMES = np.where(np.isnan(X), np.nan, np.arange(4) * 60.0)


def version_3(tmp_path, units="seconds", **attributes):
    dims = ("trajectory", "obs")
    east = {"standard_name": "longitude", "units": "degrees_east"}
    dataset = xr.Dataset(
        {
            "lon": (dims, X.astype(np.float32), east),
            "lat": (dims, (X + 1).astype(np.float32), {"units": "degrees_north"}),
            "z": (dims, np.zeros(X.shape, np.float32)),
            "time": (dims, TIMES, {"units": units}),
            "trajectory": ("trajectory", [3, 9]),
            "obs": ("obs", np.arange(4, dtype=np.int32)),
        },
        attrs={"feature_type": "trajectory", "parcels_version": "3.1.4", **attributes},
    )
    dataset.to_zarr(tmp_path / "a.zarr", zarr_format=2, consolidated=False)
    return tmp_path / "a.zarr"


def version_4(tmp_path, names=("t", "x", "y"), units="seconds", **metadata):
    there = ~np.isnan(X.T)
    # One time after the other, all particles at each.
    particle = np.broadcast_to([3, 9], (4, 2))[there]
    time, x, y = names
    columns = {
        time: pa.array(TIMES.T[there]),
        "z": pa.array(np.zeros(there.sum(), np.float32)),
        y: pa.array((X.T[there] + 1).astype(np.float32)),
        x: pa.array(X.T[there].astype(np.float32)),
        "particle_id": pa.array(particle),
    }
    fields = [
        pa.field(name, column.type, metadata={"units": units if name == time else "degrees_east"})
        for name, column in columns.items()
    ]
    schema = pa.schema(fields, metadata={"parcels_version": "4.0.2", **metadata})
    pq.write_table(pa.table(list(columns.values()), schema=schema), tmp_path / "a.parquet")
    return tmp_path / "a.parquet"


def assert_flat(tracks):
    assert tracks.ids.tolist() == [3, 9]
    assert tracks.positions.tolist() == [[0, 1], [10, 11], [30, 31], [5, 6], [6, 7]]
    assert (tracks.times - tracks.times[0]).tolist() == [0, 60, 120, 0, 60]
    assert (tracks.length_unit, tracks.time_unit, tracks.lonlat) == ("m", "s", None)
    assert "although the file says degrees" in tracks.provenance["notes"][0]


@pytest.mark.parametrize("units", ["seconds", "seconds since 2020-01-01T00:00:00.000000000"])
def test_a_flat_mesh_is_in_metres_whatever_the_units_say(tmp_path, units):
    assert_flat(read_trajectories(version_3(tmp_path, units, parcels_mesh="flat")))
    tracks = read_trajectories(version_4(tmp_path, units=units, parcels_grid_mesh="FlatMesh()"))
    assert_flat(tracks)
    dated = "2020-01-01T00:00:00" if "since" in units else None
    assert tracks.provenance.get("time_origin") == dated


def test_the_alphas_of_version_4_had_other_names(tmp_path):
    path = version_4(tmp_path, ("time", "lon", "lat"), parcels_grid_mesh="flat")
    assert_flat(read_trajectories(path))


def test_a_spherical_mesh_is_in_degrees_on_its_own_sphere(tmp_path):
    path = version_4(tmp_path, parcels_grid_mesh="SphericalMesh(radius=1000000.0)")
    tracks = read_trajectories(path)
    # From 6 to 7 degrees of latitude and from 5 to 6 of longitude.
    north = np.radians(1) * 1e6
    step = np.diff(tracks.positions[3:], axis=0)[0]
    np.testing.assert_allclose(step, [north * np.cos(np.radians(6.5)), north], rtol=1e-4)


def test_without_a_mesh_nobody_can_tell_metres_from_degrees(tmp_path):
    path = version_3(tmp_path)
    with pytest.raises(DriftbayesError, match="does not declare a flat or spherical mesh"):
        read_trajectories(path)
    told = read_trajectories(path, coordinates="plane")
    assert told.positions[1].tolist() == [10, 11]


def test_a_block_of_a_sorted_table_holds_its_own_rows_only(tmp_path):
    path = tmp_path / "sorted.parquet"
    columns = {"t": np.tile(np.arange(3.0), 4), "x": np.arange(12.0), "y": np.arange(12.0)}
    table = pa.table({"particle_id": np.repeat([1, 2, 3, 4], 3), **columns})
    pq.write_table(table.replace_schema_metadata({"parcels_grid_mesh": "flat"}), path)
    with plan_blocks(path, block_points=3) as plan:
        parts = [read_block(block) for block in plan.blocks]
    assert [part.ids.tolist() for part in parts] == [[1], [2], [3], [4]]
    whole = read_trajectories(path)
    assert np.array_equal(np.concatenate([part.positions for part in parts]), whole.positions)
