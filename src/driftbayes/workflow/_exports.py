"""Parameters of a result as code and files for simulators."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from driftbayes._storage import PathLike, atomic_path
from driftbayes.comparison._scan import Scan
from driftbayes.data._schema import KIND_ATTRIBUTE
from driftbayes.errors import DataWarning, DriftbayesError, warn

if TYPE_CHECKING:
    import xarray as xr

_KINDS = ("scan", "map", "field")


def export(
    result: Any,
    simulator: str,
    path: PathLike | None = None,
    *,
    model: str | None = None,
    tau: float | str | None = None,
    with_flow: bool = True,
    length_unit: str | None = None,
    time_unit: str | None = None,
) -> str:
    """Return code that uses a result in a simulator.

    Args:
        result: A scan, a map by evidence or a field; or a file that holds one.
        simulator: "parcels" (version 4), "parcels3" or "opendrift"; for a scan also "json".
        path: For a map or a field, the NetCDF file for the grid of diffusivity and flow that the
            code reads. For a scan, a file for the text, if any.
        model: Model to export; by default the most probable one.
        tau: For a scan, the time scale of the simulation; by default the sampling time at which the
            parameters of a consistent model are best determined.
        with_flow: For a map or a field, whether to include the mean flow.
        length_unit: Unit of length of the result, if it has none.
        time_unit: Unit of time of the result, if it has none.

    Raises:
        DriftbayesError: The result has nothing to export, or no units.

    Example:
        >>> import driftbayes as db
        >>> steps = db.simulate("brownian", {"kappa": 1.0}, tau=0.5, n_particles=10, n_steps=20)
        >>> tracks = db.read(steps, units="km,h")
        >>> scan = tracks.scan([0.5, 1.0], scales=db.Scales(u_rms=1.4, time=1.0))
        >>> "Kh_zonal" in db.export(scan, "parcels", model="brownian", tau=0.5)
        True
    """
    dataset = _dataset_of(result)
    units = {"length_unit": length_unit, "time_unit": time_unit}
    if dataset.attrs[KIND_ATTRIBUTE] == "scan":
        if not with_flow:
            msg = "--no-flow (with_flow) is for a map or a field; a scan exports no mean flow"
            raise DriftbayesError(msg)
        if path is not None and Path(path).suffix == ".nc":
            raise DriftbayesError("a scan is exported as text; give -o FILE.py or FILE.json (path)")
        text = _from_scan(dataset, simulator, model=model, tau=tau, **units)
        if path is not None:
            with atomic_path(path) as temporary:
                temporary.write_text(text, encoding="utf-8")
        return text
    if tau is not None:
        raise DriftbayesError("--tau is for a scan; a map or a field has one sampling time")
    if path is None or Path(path).suffix != ".nc":
        raise DriftbayesError("a map or field is exported as a grid; give -o FILE.nc (path)")
    from driftbayes.io import write_dataset
    from driftbayes.simulators import export_grid, gridded

    given = (length_unit, time_unit)
    grid = export_grid(gridded(dataset, model=model, with_flow=with_flow, given=given), simulator)
    write_dataset(grid.dataset, path, kind="grid")
    return grid.text(str(path))


def _from_scan(dataset: "xr.Dataset", simulator: str, **choice: Any) -> str:
    """Return the text of a recommendation, and warn of its notes."""
    from driftbayes.simulators import export as text_for
    from driftbayes.simulators import recommend

    recommendation = recommend(dataset, **choice)
    for note in recommendation.notes:
        warn(note, DataWarning)
    return text_for(recommendation, simulator)


def _dataset_of(result: Any) -> "xr.Dataset":
    """Return a scan, map or field as a dataset that is marked with its kind."""
    if isinstance(result, str | Path):
        from driftbayes.io import read_dataset, read_scan

        dataset = read_dataset(result, kind=_KINDS)
        return read_scan(result) if dataset.attrs[KIND_ATTRIBUTE] == "scan" else dataset
    kind = "scan" if isinstance(result, Scan) else getattr(result, "kind", None)
    if kind not in _KINDS:
        name = type(result).__name__
        raise DriftbayesError(f"a scan, map or field can be exported, or a file of one, not {name}")
    marked: xr.Dataset = result.to_dataset().assign_attrs({KIND_ATTRIBUTE: kind})
    return marked
