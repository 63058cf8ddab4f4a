"""Turbulence runs: Zarr stores of ours, all particles at the same times."""

__all__ = ["RUN"]

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from driftbayes.data.trajectories import Trajectories
from driftbayes.errors import DriftbayesError
from driftbayes.io import provenance, schema, zarr_check
from driftbayes.io.contents import Contents
from driftbayes.io.limits import check_memory, is_plausible, stored_size
from driftbayes.io.paths import begin_with_name
from driftbayes.io.reading import Format, ReadOptions
from driftbayes.storage.zarr import ZarrArray, is_group, open_array, read_attributes

# Where a run of the turbulence simulator keeps its particles.
_OF_A_RUN = "trajectories.zarr"


def _read(contents: Contents, options: ReadOptions) -> Trajectories:
    """Trajectories from a store with `id` (traj), `time` (obs) and `x`, `y` (traj, obs).

    A run that is still going on, or was stopped, is read as far as it got.
    """
    path = contents.path
    store = next((s for s in (path, path / _OF_A_RUN) if is_group(s)), None)
    if store is None:
        msg = (
            f"{path.name!r} is a directory, expected a file, or the directory of a "
            "turbulence run with particles"
        )
        raise DriftbayesError(msg)
    if options.columns:
        msg = f"{store.name!r} has our own names; leave out the mapping of columns"
        raise DriftbayesError(msg)
    zarr_check.check_store(store, is_complete=False)
    attributes = read_attributes(store)
    schema.check_schema_version(attributes.get(schema.SCHEMA_ATTRIBUTE, 0), store.name)
    opened = {
        name: open_array(store, name) for name in (schema.TIME, schema.ID, *schema.COORDINATES[:2])
    }
    n_stored = _check_shapes(opened, store)
    times, ids = opened[schema.TIME].read(), opened[schema.ID].read()
    arrays = [opened[axis] for axis in schema.COORDINATES[:2]]
    # What a run has not reached yet is in chunks that are not there.
    step = arrays[0].chunks[1]
    written = len(times)
    for first in range(0, len(times), step):
        if not all(array.is_written((0, first)) for array in arrays):
            written = first
            break
    if written < 2:
        msg = f"{str(path)!r} holds fewer than two records so far; let the run go on first"
        raise DriftbayesError(msg)
    n_bytes = 16 * len(ids) * written
    if not is_plausible(n_bytes, n_stored, compressed=True):
        raise DriftbayesError(_oversized(store, n_bytes, n_stored))
    # The two arrays, and the positions and times that are made of them.
    check_memory(3 * n_bytes, f"{store.name!r}")
    x, y = (array.read((len(ids), written)) for array in arrays)
    earlier = provenance.from_json(attributes.get(schema.PROVENANCE_ATTRIBUTE, "{}"), store.name)
    if written < len(times):
        earlier = {**earlier, "records": f"{written} of {len(times)}"}
    if not all(array.has_checksums for array in arrays):
        note = "the run was made by an earlier version, with no checksums: damage goes unnoticed"
        earlier = {**earlier, "notes": [*earlier.get("notes", []), note]}
    with begin_with_name(store):
        return Trajectories(
            positions=np.stack([x.ravel(), y.ravel()], axis=-1),
            times=np.tile(times[:written], len(ids)),
            row_sizes=np.full(len(ids), written, dtype=np.int64),
            ids=ids.astype(np.int64),
            length_unit=options.length_unit or "",
            time_unit=options.time_unit or "",
            provenance=provenance.extended(earlier, store, "zarr", None),
        )


def _check_shapes(arrays: Mapping[str, ZarrArray], store: Path) -> int:
    """Refuse arrays that do not belong together; the number of bytes stored is returned."""
    stored = sum(stored_size(file) for file in store.rglob("*") if file.is_file())
    time, ids = arrays[schema.TIME], arrays[schema.ID]
    grid = (*ids.shape, *time.shape)
    fits = len(time.shape) == len(ids.shape) == 1 and all(
        arrays[axis].shape == grid for axis in schema.COORDINATES[:2]
    )
    for array in arrays.values():
        fits &= len(array.chunks) == len(array.shape) and min(array.chunks, default=1) > 0
        fits &= min(array.shape, default=0) >= 0
    if not fits:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        msg = (
            f"{store.name!r} has arrays of the shapes {shapes}; expected id (particle), time "
            "(record) and x, y (particle, record): the store is damaged"
        )
        raise DriftbayesError(msg)
    for array in (time, ids):
        n_bytes = 8 * array.shape[0]
        if not is_plausible(n_bytes, stored, compressed=True):
            raise DriftbayesError(_oversized(store, n_bytes, stored))
    return stored


def _oversized(store: Path, declared: int, stored: int) -> str:
    return (
        f"{store.name!r} is declared to have {declared:,} bytes, but only {stored:,} are stored; "
        "the store is damaged"
    )


RUN = Format(
    "run",
    "directory of a turbulence run",
    lambda contents: contents.container == "run",
    read=_read,
)
