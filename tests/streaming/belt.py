"""The same trajectories in files of all layouts."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import xarray as xr

from driftbayes.data._trajectories import Trajectories
from driftbayes.testing import reference

DT = 0.1
# Shorter and longer than the memory of the statistics engine, and several alike.
LENGTHS = (3, 12, 33, 34, 60, 60, 60, 200)


def ragged_tracks(n_copies=4, *, gaps=True, seed=0):
    """Langevin trajectories of different lengths; some with missing fixes, some that start late."""
    rng = np.random.default_rng(seed)
    tracks, times = [], []
    for i, length in enumerate(LENGTHS * n_copies):
        dx = reference.simulate_langevin(rng, 1, length - 1, 2, DT, 1.0, 1.0)[0]
        x = np.concatenate([np.zeros((1, 2)), np.cumsum(dx, axis=0)]) * 10.0 ** (i % 3 - 1)
        if gaps and length > 12 and i % 2:
            x[[0, length // 3, length // 2]] = np.nan
        tracks.append(x)
        times.append((np.arange(length) + i) * DT)
    ids = 1000 + 7 * np.arange(len(tracks))
    return Trajectories.from_arrays(tracks, times=times, ids=ids, length_unit="m", time_unit="s")


def table_of(tracks, *, order=None, names=("id", "time", "x", "y")):
    rows = np.arange(len(tracks.times)) if order is None else order
    ids = tracks.ids[tracks.trajectory_index]
    columns = (ids, tracks.times, tracks.positions[:, 0], tracks.positions[:, 1])
    return pa.table(
        {
            name: pa.array(c[rows], mask=np.isnan(c[rows]))
            for name, c in zip(names, columns, strict=True)
        }
    )


def write_time_major(tracks, path):
    """As Parcels 4 does: rows sorted by time, particle_id mixed."""
    order = np.argsort(tracks.times, kind="stable")
    table = table_of(tracks, order=order, names=("particle_id", "t", "x", "y"))
    table = table.replace_schema_metadata({"parcels_grid_mesh": "flat"})
    pq.write_table(table, path, row_group_size=500)


def write_parcels_zarr(tracks, path, chunk=5):
    """As Parcels 3 does: trajectory by obs, padded with NaN."""
    shape = (tracks.n_trajectories, int(tracks.row_sizes.max()))
    arrays = {name: np.full(shape, np.nan) for name in ("lon", "lat", "time")}
    place = np.arange(len(tracks.times)) - np.repeat(tracks.starts[:-1], tracks.row_sizes)
    for name, values in zip(arrays, (*tracks.positions.T, tracks.times), strict=True):
        arrays[name][tracks.trajectory_index, place] = values
    dims = ("trajectory", "obs")
    dataset = xr.Dataset(
        {name: (dims, values) for name, values in arrays.items()},
        coords={"trajectory": tracks.ids},
        attrs={"parcels_mesh": "flat", "parcels_version": "3.1.0"},
    )
    dataset["time"].attrs["units"] = "seconds"
    encoding = {name: {"chunks": (chunk, shape[1])} for name in arrays}
    dataset.to_zarr(path, encoding=encoding, consolidated=False, zarr_format=2)
