"""Results as NetCDF: scans over tau, diagnostics and other xarray Datasets."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from driftbayes._storage.atomic import write_netcdf
from driftbayes._storage.outputs import PathLike
from driftbayes._version import __version__
from driftbayes.data import _schema as schema
from driftbayes.errors import DriftbayesError, Status, expect, shown
from driftbayes.io import _netcdf_file as netcdf_file
from driftbayes.io._limits import MAX_ID_LENGTH
from driftbayes.io._reading import check_schema_version, require

if TYPE_CHECKING:
    import xarray as xr

_BY_MODEL, _BY_PARAMETER = ("model", "tau"), ("parameter", "tau")
# Dimensions and type of each variable: f float, i integer, b boolean, t text.
_REQUIRED = {
    "tau": (("tau",), "f"),
    "model": (("model",), "t"),
    "parameter": (("parameter",), "t"),
    "log_evidence": (_BY_MODEL, "f"),
    "log_evidence_err": (_BY_MODEL, "f"),
    "log_likelihood_at_map": (_BY_MODEL, "f"),
    "log_occam_factor": (_BY_MODEL, "f"),
    "information_gain": (_BY_MODEL, "f"),
    "status": (_BY_MODEL, "t"),
    "probability": (_BY_MODEL, "f"),
    **dict.fromkeys(
        ("map", "posterior_mean", "posterior_sd", "log_mean", "log_sd", "contraction"),
        (_BY_PARAMETER, "f"),
    ),
    "quantile": (("quantile",), "f"),
    "posterior_quantile": ((*_BY_PARAMETER, "quantile"), "f"),
    "consistent": (_BY_PARAMETER, "b"),
    "n_particles": (("tau",), "i"),
    "n_steps": (("tau",), "i"),
    "n_displacements": (("tau",), "i"),
}
_OPTIONAL = {
    "pair": (("pair",), "t"),
    "data_fingerprint": (("tau",), "t"),
    "verdict": (("tau",), "t"),
    "log_bayes_factor": (("pair", "tau"), "f"),
    "log_bayes_factor_err": (("pair", "tau"), "f"),
}
_KINDS = {"f": ("iuf", "numbers"), "i": ("iu", "whole numbers"), "b": ("biu", "truth values")}
_TEXTS = (
    *("length_unit", "time_unit", "method", "convention", "data_fingerprint"),
    "driftbayes_version",
)
_OBJECTS = ("priors", "consistency", "provenance", "options")
_MAX_TEXT = 1000


def write_dataset(dataset: "xr.Dataset", path: PathLike, *, kind: str) -> None:
    """Write a dataset as NetCDF, marked with its kind and the version of driftbayes.

    Args:
        dataset: The result; its attributes are text or numbers.
        path: The file, with a name ending in .nc.
        kind: Kind of the dataset, such as "scan"; `read_dataset` requires the same.
    """
    _check_suffix(path)
    is_dataset = hasattr(dataset, "attrs") and hasattr(dataset, "variables")
    if not is_dataset:
        wanted = "an xarray Dataset, for example scan.to_dataset()"
        raise DriftbayesError(f"dataset must be {wanted}, got {shown(dataset)}")
    _check_plain("the dataset", dataset.attrs)
    for name, variable in dataset.variables.items():
        _check_plain(f"variable {str(name)!r}", variable.attrs)
    marks = {
        schema.KIND_ATTRIBUTE: kind,
        schema.VERSION_ATTRIBUTE: __version__,
        schema.SCHEMA_ATTRIBUTE: schema.SCHEMA_VERSION,
    }
    require("NetCDF files", *netcdf_file.NEEDED)
    write_netcdf(dataset.assign_attrs(marks), Path(path))


def read_dataset(path: PathLike, *, kind: str | tuple[str, ...]) -> "xr.Dataset":
    """Read a dataset that `write_dataset` wrote.

    Args:
        path: The file.
        kind: Expected kind of the dataset, or several.
    """
    _check_suffix(path)
    dataset = netcdf_file.load(path)
    source = Path(path).name
    stored = dataset.attrs.get(schema.KIND_ATTRIBUTE)
    kinds = (kind,) if isinstance(kind, str) else kind
    if stored not in kinds:
        got = f"a {stored} file of driftbayes"
        if stored is None:
            is_tracks = schema.COUNT in dataset.variables
            got = "trajectories" if is_tracks else "not a result of driftbayes"
        expected = ", ".join(kinds[:-1]) + " or " * (len(kinds) > 1) + kinds[-1]
        msg = f"{source!r} is {got}, expected a {expected} file of driftbayes; check its name"
        raise DriftbayesError(msg)
    check_schema_version(dataset.attrs.get(schema.SCHEMA_ATTRIBUTE), source)
    return dataset


def write_scan(dataset: "xr.Dataset", path: PathLike) -> None:
    """Write a scan over tau as NetCDF.

    Args:
        dataset: The scan; its attributes are text or numbers.
        path: The file, with a name ending in .nc.

    Example:
        >>> import driftbayes as db
        >>> tracks = db.simulate("brownian", {"kappa": 1.0}, tau=0.5, n_particles=10, n_steps=20)
        >>> scan = tracks.scan([0.5, 1.0], scales=db.Scales(u_rms=1.4, time=1.0))
        >>> db.write_scan(scan.to_dataset(), "scan.nc")
    """
    write_dataset(dataset, path, kind="scan")


def read_scan(path: PathLike) -> "xr.Dataset":
    """Read a scan over tau.

    Args:
        path: A file that `write_scan` wrote.

    Example:
        >>> import driftbayes as db
        >>> tracks = db.simulate("brownian", {"kappa": 1.0}, tau=0.5, n_particles=10, n_steps=20)
        >>> scales = db.Scales(u_rms=1.4, time=1.0)
        >>> tracks.scan([0.5, 1.0], scales=scales).save("scan.nc")
        >>> db.read_scan("scan.nc")["model"].values.tolist()
        ['brownian', 'langevin']
    """
    scan = read_dataset(path, kind="scan")
    _check_scan(scan, Path(path).name)
    return scan


def _check_suffix(path: PathLike) -> None:
    expect(path, str | Path, "path", "the name of a file")
    if Path(path).suffix.lower() != ".nc":
        msg = f"results are NetCDF files: expected a name ending in .nc, got {Path(path).name!r}"
        raise DriftbayesError(msg)


def _check_plain(owner: str, attributes: Mapping[Any, Any]) -> None:
    for name, value in attributes.items():
        allowed = isinstance(value, str | int | float | np.integer | np.floating)
        if not allowed or isinstance(value, bool):
            raise DriftbayesError(
                f"attribute {str(name)!r} of {owner} is a {type(value).__name__}, expected text or "
                "a number; encode it as JSON, and a truth value as 0 or 1"
            )


def _check_scan(scan: "xr.Dataset", source: str) -> None:
    """Refuse a damaged scan."""
    for name, (dims, kind) in {**_REQUIRED, **_OPTIONAL}.items():
        if name in scan.variables:
            _check_variable(scan, name, dims, kind, source)
        elif name in _REQUIRED:
            raise _damaged(source, f"it has no variable {name!r}")
    taus = np.asarray(scan["tau"].values, dtype=np.float64)
    if len(taus) == 0 or not (np.isfinite(taus) & (taus > 0)).all() or (np.diff(taus) <= 0).any():
        raise _damaged(source, "its sampling times are not positive and increasing")
    _check_names(scan, source)
    probability = np.asarray(scan["probability"].values, dtype=np.float64)
    if not ((probability >= 0) & (probability <= 1 + 1e-9) | np.isnan(probability)).all():
        raise _damaged(source, "a probability is not between 0 and 1")
    known = {status.value for status in Status}
    for status in np.unique(scan["status"].values.astype(str)):
        if status not in known:
            raise _damaged(source, f"{str(status)[:40]!r} is not a known status")
    for name in ("n_particles", "n_steps", "n_displacements"):
        if (scan[name].values < 0).any():
            raise _damaged(source, f"{name} is negative")
    levels = scan["quantile"].values
    if not ((levels > 0) & (levels < 1)).all() or (np.diff(levels) <= 0).any():
        raise _damaged(source, "its quantiles are not increasing between 0 and 1")
    _check_attributes(scan.attrs, source)


def _check_variable(
    scan: "xr.Dataset", name: str, dims: tuple[str, ...], kind: str, source: str
) -> None:
    variable = scan[name]
    if variable.dims != dims:
        got = ", ".join(str(dim)[:40] for dim in variable.dims)
        raise _damaged(source, f"{name!r} has dimensions ({got}), not ({', '.join(dims)})")
    if kind == "t":
        values = variable.values.ravel().tolist()
        if not all(isinstance(value, str) and len(value) <= _MAX_TEXT for value in values):
            raise _damaged(source, f"{name!r} does not hold text")
    elif variable.dtype.kind not in _KINDS[kind][0]:
        raise _damaged(source, f"{name!r} does not hold {_KINDS[kind][1]}")


def _check_names(scan: "xr.Dataset", source: str) -> None:
    """Check that models are unique, and that each parameter belongs to a model."""
    names = {dim: [str(name) for name in scan[dim].values] for dim in ("model", "parameter")}
    for dim, labels in names.items():
        valid = all(0 < len(name) <= MAX_ID_LENGTH and name.isprintable() for name in labels)
        if not (valid and labels and len(set(labels)) == len(labels)):
            raise _damaged(source, f"its {dim} names are empty, duplicate or not printable")
    owners = {name: name.rpartition(".")[0] for name in names["parameter"]}
    for name, owner in owners.items():
        if owner not in names["model"]:
            raise _damaged(source, f"parameter {name[:40]!r} belongs to none of its models")
    for model in names["model"]:
        if model not in owners.values():
            raise _damaged(source, f"model {model[:40]!r} has no parameter")


def _check_attributes(attributes: Any, source: str) -> None:
    for name in _TEXTS:
        value = attributes.get(name, "")
        if not (isinstance(value, str) and len(value) <= _MAX_TEXT and value.isprintable()):
            raise _damaged(source, f"its attribute {name!r} is not short text")
    objects = {}
    for name in _OBJECTS:
        try:
            objects[name] = json.loads(str(attributes.get(name, "{}")))
        except (ValueError, RecursionError):
            objects[name] = None
        if not isinstance(objects[name], dict):
            raise _damaged(source, f"its attribute {name!r} is not a JSON object")
    for name in ("priors", "consistency"):
        for model, table in objects[name].items():
            if not isinstance(table, dict):
                raise _damaged(source, f"its {name} of {model[:40]!r} is not a JSON object")
    for table in objects["priors"].values():
        if not all(isinstance(prior, str) and len(prior) <= _MAX_TEXT for prior in table.values()):
            raise _damaged(source, "a prior is not text")
    for table in objects["consistency"].values():
        for name, entry in table.items():
            # None: there is no range in which the parameter is consistent.
            if not isinstance(entry, str if name == "sentence" else dict | None):
                raise _damaged(source, f"its consistency of {name[:40]!r} has the wrong type")
    reading = objects["provenance"].get("reading", {})
    if not (isinstance(reading, dict) and all(isinstance(v, str) for v in reading.values())):
        raise _damaged(source, "its reading options are not text")
    _check_options(objects["options"], source)


def _check_options(options: dict[str, Any], source: str) -> None:
    for name in ("n_tau", "seed"):
        value = options.get(name)
        if value is not None and not (isinstance(value, int) and abs(value) < 2**63):
            raise _damaged(source, f"its option {name!r} is not a whole number")
    for name in ("windows", "gaps", "coords"):
        if not isinstance(options.get(name, ""), str | None):
            raise _damaged(source, f"its option {name!r} is not text")
    prior = options.get("prior_probabilities")
    kinds = int | float | None
    if prior is not None and not (
        isinstance(prior, list)
        and all(isinstance(p, kinds) and abs(p or 0) < 2**1000 for p in prior)
    ):
        raise _damaged(source, "its prior probabilities are not a list of numbers")


def _damaged(source: str, what: str) -> DriftbayesError:
    msg = f"{source!r} is not a usable scan: {what}; the file is damaged: run the scan again"
    return DriftbayesError(msg)
