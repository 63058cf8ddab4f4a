"""Cut files of other programs to small samples for `tests/io/data`.

Layout, names, attributes, types, padding and order of rows are unchanged; there are only fewer
trajectories and times. Run as

    python tools/make_format_samples.py ../shared/data tests/io/data
"""

import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import xarray as xr

LANGEVIN = "clouddrift/ragged_synthetic_langevin"
# Particles of both releases, some of them deleted during the run.
EDDIES = [0, 1, 22, 24, 34, 60, 61, 66, 74, 114]
# Elements seeded at the start and later, some of them retired.
ELEMENTS = [0, 1, 2, 3, 4, 5, 6, 60, 61, 62, 63, 64, 65, 66]


def main(source: Path, target: Path) -> None:
    """Write all samples.

    Args:
        source: Directory of the files.
        target: Directory of the samples.
    """
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    cut_ragged(source, target)
    particles = np.arange(48)
    cut_parcels_3(
        source / "parcels/v3_brownian_flat.zarr",
        target,
        particles,
        [*range(48), *range(240, 244)],
        2,
    )
    cut_parcels_3(source / "parcels/v3_eddies_spherical.zarr", target, EDDIES, slice(None), 2)
    cut_parcels_3(source / "parcels/v4_eddies_as_v3.zarr", target, EDDIES, slice(None), 3)
    cut_parcels_4(source / "parcels/v4_brownian_flat.parquet", target, particles, 48 * 3600.0)
    cut_parcels_4(source / "parcels/v4_eddies_spherical.parquet", target, EDDIES, np.inf)
    with _open(source / "opendrift/oceandrift_eddy.nc") as dataset:
        _save_netcdf(dataset.isel(trajectory=ELEMENTS), target / "oceandrift_eddy.nc")


def cut_ragged(source: Path, target: Path) -> None:
    """Keep the first rows of each trajectory, the same number in all three containers."""
    with _open(source / f"{LANGEVIN}.nc") as dataset:
        sizes = dataset["rowsize"].to_numpy()
        # Ragged: each slightly longer than the previous one.
        kept = np.minimum(sizes, 60 + 4 * np.arange(len(sizes)))
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        rows = np.concatenate([np.arange(a, a + n) for a, n in zip(starts, kept, strict=True)])
        _save_netcdf(_with_sizes(dataset.isel(obs=rows), kept), target / "ragged_langevin.nc")
    with _open(source / f"{LANGEVIN}.zarr") as dataset:
        _save_zarr(_with_sizes(dataset.isel(obs=rows), kept), target / "ragged_langevin.zarr", 2)
    table = pq.read_table(source / f"{LANGEVIN}.parquet")
    record = table["obs"].combine_chunks()
    fields = [record.type.field(i) for i in range(record.type.num_fields)]
    children = [_cut_lists(pc.struct_field(record, f.name), f.type, kept) for f in fields]
    obs = pa.StructArray.from_arrays(children, fields=fields)
    cut = pa.Table.from_arrays([pa.array(kept), obs], schema=table.schema)
    pq.write_table(cut, target / "ragged_langevin.parquet", compression="zstd")


def cut_parcels_3(path: Path, target: Path, particles: object, times: object, form: int) -> None:
    """Keep selected particles, with the padding at their ends."""
    with _open(path) as dataset:
        cut = dataset.isel(trajectory=particles, obs=times)
        _save_zarr(cut, target / path.name, form)


def cut_parcels_4(path: Path, target: Path, particles: object, before: float) -> None:
    """Keep selected particles and times, in the order of the file."""
    table = pq.read_table(path)
    start = pc.min(table["t"]).as_py()
    mask = pc.is_in(table["particle_id"], pa.array(particles, table["particle_id"].type))
    mask = pc.and_(mask, pc.less(table["t"], start + before))
    pq.write_table(table.filter(mask), target / path.name, compression="zstd")


def _cut_lists(column: pa.Array, kind: pa.DataType, sizes: np.ndarray) -> pa.Array:
    if not pa.types.is_large_list(kind):
        return column
    starts = column.offsets.to_numpy()[:-1]
    rows = np.concatenate([np.arange(a, a + n) for a, n in zip(starts, sizes, strict=True)])
    offsets = pa.array(np.concatenate([[0], np.cumsum(sizes)]))
    return pa.LargeListArray.from_arrays(offsets, column.values.take(pa.array(rows)), type=kind)


def _with_sizes(dataset: xr.Dataset, sizes: np.ndarray) -> xr.Dataset:
    old = dataset["rowsize"]
    return dataset.assign(rowsize=(old.dims, sizes.astype(old.dtype), old.attrs))


def _open(path: Path) -> xr.Dataset:
    options: dict[str, Any] = {"decode_times": False, "mask_and_scale": False}
    if path.suffix == ".zarr":
        return xr.open_zarr(path, consolidated=False, chunks=None, **options)
    return xr.open_dataset(path, engine="h5netcdf", **options)


def _save_netcdf(dataset: xr.Dataset, path: Path) -> None:
    encoding: dict[Any, dict[str, Any]] = {}
    for name, variable in dataset.variables.items():
        variable.encoding = {}
        encoding[name] = {"zlib": True, "shuffle": True}
        if "_FillValue" not in variable.attrs:
            encoding[name]["_FillValue"] = None
    dataset.to_netcdf(path, engine="h5netcdf", encoding=encoding)


def _save_zarr(dataset: xr.Dataset, path: Path, form: int) -> None:
    for variable in dataset.variables.values():
        variable.encoding = {}
    dataset.to_zarr(path, zarr_format=form, consolidated=form == 2)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
