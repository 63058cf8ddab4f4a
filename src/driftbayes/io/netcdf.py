"""NetCDF and Zarr in the CF contiguous ragged layout: trajectories one after the other."""

__all__ = ["from_dataset", "read_netcdf", "to_dataset", "write_netcdf", "write_zarr"]

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from driftbayes._version import __version__
from driftbayes.data.labelled import ragged_variables
from driftbayes.data.trajectories import Trajectories
from driftbayes.errors import DriftbayesError
from driftbayes.io import cells, nc_file, provenance, schema, zarr_file
from driftbayes.io.datasets import identifiers, numbers
from driftbayes.io.paths import begin_with_name
from driftbayes.io.reading import ReadOptions
from driftbayes.io.tables import lonlat_of
from driftbayes.storage.atomic import PathLike
from driftbayes.typing import FloatArray

if TYPE_CHECKING:
    import xarray as xr


def read_netcdf(path: PathLike, options: ReadOptions) -> Trajectories:
    """Trajectories from a NetCDF file in the contiguous ragged layout."""
    source = Path(path).name

    def select(
        attributes: Mapping[str, Any], variables: Mapping[str, Mapping[str, Any]]
    ) -> dict[str, bool]:
        count, found = _roles(attributes, variables, options.columns, source)
        # As they are: a fill value would turn 64-bit ids into floats and lose their last digits.
        return {name: name != found[schema.ID] for name in (count, *found.values())}

    dataset = nc_file.load(path, select)
    dataset.encoding["missing"] = options.missing
    return from_dataset(dataset, Path(path), options)


def write_netcdf(trajectories: Trajectories, path: PathLike) -> None:
    """Write trajectories as NetCDF, with units and provenance."""
    nc_file.save(to_dataset(trajectories), path)


def write_zarr(trajectories: Trajectories, path: PathLike) -> None:
    """Write trajectories as a Zarr store, with units and provenance."""
    zarr_file.save(to_dataset(trajectories), path)


def to_dataset(trajectories: Trajectories) -> "xr.Dataset":
    """Trajectories as a labelled dataset in the contiguous ragged layout."""
    import xarray as xr

    for name in trajectories.flags:
        # Refused here if a file could not hold it.
        schema.flag_column(name)
    variables, coords = ragged_variables(trajectories)
    traj, _, about = coords[schema.ID]
    coords[schema.ID] = (traj, cells.id_values(trajectories.ids), about)
    return xr.Dataset(
        variables,
        coords=coords,
        attrs={
            "Conventions": schema.CONVENTIONS,
            "featureType": schema.FEATURE_TYPE,
            schema.SCHEMA_ATTRIBUTE: schema.SCHEMA_VERSION,
            schema.VERSION_ATTRIBUTE: __version__,
            schema.PROVENANCE_ATTRIBUTE: provenance.to_json(trajectories.provenance),
        },
    )


def from_dataset(
    dataset: "xr.Dataset", path: Path, options: ReadOptions | None = None, *, reader: str = "netcdf"
) -> Trajectories:
    """Trajectories from a dataset in the contiguous ragged layout."""
    options = options or ReadOptions()
    columns, length_unit, time_unit = options.columns, options.length_unit, options.time_unit
    source = path.name
    attributes = dataset.attrs
    variables = {str(name): variable.attrs for name, variable in dataset.variables.items()}
    count, found = _roles(attributes, variables, columns, source)
    # Provenance of another program may be anything; ours is JSON.
    ours = schema.SCHEMA_ATTRIBUTE in attributes
    values = {
        canonical: _flat_numbers(dataset, name, source, is_ours=ours)
        for canonical, name in found.items()
        if canonical != schema.ID
    }
    sizes = {
        name: len(values[canonical]) for canonical, name in found.items() if canonical in values
    }
    if len(set(sizes.values())) > 1:
        listed = ", ".join(f"{name!r} {size}" for name, size in sizes.items())
        msg = f"the variables in {source!r} have different lengths ({listed}); expected one"
        raise DriftbayesError(msg)
    row_sizes = _flat_numbers(dataset, count, source, is_ours=ours, are_counts=True)
    whole = (row_sizes == np.round(row_sizes)) & (row_sizes > 0)
    if not whole.all() or row_sizes.sum() != len(values[schema.TIME]):
        msg = (
            f"{source!r}: variable {count!r} must hold whole numbers from 1 up that sum to the "
            f"number of observations {len(values[schema.TIME])}, got a sum of {row_sizes.sum():g}"
        )
        raise DriftbayesError(msg)
    x, time = dataset[found["x"]], dataset[found[schema.TIME]]
    stored = attributes.get(schema.PROVENANCE_ATTRIBUTE) if ours else None
    earlier = {} if stored is None else provenance.from_json(stored, source)
    ids = identifiers(dataset, found[schema.ID], source, is_ours=True)
    with begin_with_name(path):
        return Trajectories(
            positions=np.column_stack([values[axis] for axis in schema.coordinates_in(found)]),
            times=values[schema.TIME],
            row_sizes=row_sizes.astype(np.int64),
            ids=ids,
            position_sd=values.get(schema.POSITION_SD),
            lonlat=lonlat_of(values),
            flags={name: values[column] for name, column in schema.flags_in(values).items()},
            length_unit=str(x.attrs.get("units", "")) if length_unit is None else length_unit,
            time_unit=_time_unit(time) if time_unit is None else time_unit,
            provenance=provenance.extended(earlier, path, reader, columns),
        )


def _roles(
    attributes: Mapping[str, Any],
    variables: Mapping[str, Mapping[str, Any]],
    columns: Mapping[str, str | None] | None,
    source: str,
) -> tuple[str, dict[str, str]]:
    """The name of the variable of counts, and the name of each canonical variable."""
    if schema.SCHEMA_ATTRIBUTE in attributes:
        schema.check_schema_version(attributes[schema.SCHEMA_ATTRIBUTE], source)
    count = _count_variable(variables, source)
    names = [name for name in variables if name != count]
    found = schema.file_names(names, columns, source=source, noun="variable")
    if schema.SCHEMA_ATTRIBUTE in attributes:
        # In a file of another's, a longitude may be that of a port.
        found |= schema.extras_in(names, found, columns)
    return count, found


def _count_variable(variables: Mapping[str, Mapping[str, Any]], source: str) -> str:
    """The variable that holds the number of observations of each trajectory."""
    for name, attributes in variables.items():
        if "sample_dimension" in attributes:
            return name
    # Many clouddrift files lack the attribute that CF asks for.
    if schema.COUNT in variables:
        return schema.COUNT
    there = ", ".join(repr(name[:40]) for name in list(variables)[:8]) or "no variables"
    msg = (
        f"{source!r} has no variable {schema.COUNT!r} and none with the attribute "
        f"sample_dimension; it has {there}: expected the CF contiguous ragged layout"
    )
    raise DriftbayesError(msg)


def _flat_numbers(
    dataset: "xr.Dataset", name: str, source: str, *, is_ours: bool, are_counts: bool = False
) -> FloatArray:
    variable = dataset.variables.get(name)
    if variable is not None and variable.ndim != 1:
        dims = ", ".join(map(str, variable.dims))
        msg = (
            f"{source!r}: variable {name!r} has the dimensions ({dims}), expected one, with all "
            "trajectories one after the other"
        )
        raise DriftbayesError(msg)
    return numbers(dataset, name, source, are_counts=are_counts, is_ours=is_ours)


def _time_unit(time: "xr.DataArray") -> str:
    if schema.TIME_UNIT_ATTRIBUTE in time.attrs:
        return str(time.attrs[schema.TIME_UNIT_ATTRIBUTE])
    # CF writes "seconds since 1970-01-01": the number counts seconds.
    return str(time.attrs.get("units", "")).partition(" since ")[0]
