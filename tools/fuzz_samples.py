"""One small valid sample of each format, and a scan, for `fuzz.py` to damage."""

__all__ = ["Sample", "make"]

import gzip
import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import samples as texts  # type: ignore[import-not-found]
import xarray as xr

from driftbayes._storage.zarr import create_group
from driftbayes.data._trajectories import Trajectories
from driftbayes.io import write_scan, write_trajectories

DATA = Path(__file__).resolve().parents[1] / "tests" / "io" / "data"
_STORED = {
    "parcels-zarr": "v3_eddies_spherical.zarr",
    "parcels-zarr-3": "v4_eddies_as_v3.zarr",
    "parcels-parquet-degrees": "v4_eddies_spherical.parquet",
    "opendrift": "oceandrift_eddy.nc",
    "clouddrift": "ragged_langevin.nc",
    "clouddrift-zarr": "ragged_langevin.zarr",
    "clouddrift-parquet": "ragged_langevin.parquet",
}


@dataclass(frozen=True)
class Sample:
    """A valid file or store.

    Args:
        name: Name of its format, and of the container if there are several.
        path: Path of the file or store.
        format: Name of the format, if it cannot be detected.
        is_scan: Whether it is a scan.
    """

    name: str
    path: Path
    format: str | None = None
    is_scan: bool = False


def make(folder: Path) -> list[Sample]:
    """Write all samples.

    Args:
        folder: Directory to create.
    """
    folder.mkdir(parents=True, exist_ok=True)
    found = []
    for name, data in texts.samples(folder).items():
        xml = name in ("trackmate-tracks", "trackmate-xml")
        endings = {"numpy": ".npz", "parcels-parquet": ".parquet", "netcdf": ".nc"}
        path = folder / f"{name}{endings.get(name, '.xml' if xml else '.csv')}"
        path.write_bytes(data)
        found.append(Sample(name, path, name if name in texts.BY_NAME else None))
    for name, stored in _STORED.items():
        path = folder / stored
        (shutil.copytree if (DATA / stored).is_dir() else shutil.copy)(DATA / stored, path)
        found.append(Sample(name, path))
    tracks = Trajectories.from_arrays(
        np.arange(12.0).reshape(2, 3, 2), dt=1.0, ids=["a", "é"], provenance={"seed": 1}
    )
    for name, file in (("zarr", "ours.zarr"), ("table-parquet", "ours.parquet")):
        write_trajectories(tracks, folder / file)
        found.append(Sample(name, folder / file))
    (folder / "table.csv.gz").write_bytes(gzip.compress(texts.TEXTS["table"], mtime=0))
    found.append(Sample("table-gz", folder / "table.csv.gz"))
    np.save(folder / "array.npy", np.arange(12.0).reshape(2, 3, 2))
    found.append(Sample("numpy-npy", folder / "array.npy"))
    for name, dataset in (("cf", _cf()), ("gdp", _drifters("gdp")), ("glad", _drifters("glad"))):
        dataset.to_netcdf(folder / f"{name}.nc", engine="h5netcdf")
        found.append(Sample(name, folder / f"{name}.nc"))
    found.append(Sample("run", _run(folder / "run")))
    write_scan(scan(), folder / "scan.nc")
    found.append(Sample("scan", folder / "scan.nc", is_scan=True))
    return found


def _cf() -> xr.Dataset:
    """Return a grid of integers, packed and padded."""
    x = np.array([[1, 2, 3], [4, 5, -999]], dtype=np.int16)
    packed = {"_FillValue": np.int16(-999), "scale_factor": 0.1, "units": "km"}
    return xr.Dataset(
        {
            "x": (("trajectory", "obs"), x, {**packed, "axis": "X"}),
            "y": (("trajectory", "obs"), x, {**packed, "axis": "Y"}),
            "time": ("obs", np.arange(3.0), {"units": "hours since 2020-01-01", "axis": "T"}),
            "trajectory": ("trajectory", ["a", "b"], {"cf_role": "trajectory_id"}),
        },
        attrs={"featureType": "trajectory", "Conventions": "CF-1.11"},
    )


def _drifters(kind: str) -> xr.Dataset:
    values = np.linspace(0.0, 0.1, 6)
    variables = {
        "rowsize": ("traj", np.array([3, 3])),
        "id": ("traj", np.array([7, 8])),
        "time": ("obs", np.tile(np.arange(3.0), 2) * 3600, {"units": "seconds since 1970-01-01"}),
        "lon": ("obs", 10 + values, {"units": "degrees_east"}),
        "lat": ("obs", 50 + values, {"units": "degrees_north"}),
    }
    if kind == "gdp":
        for name in ("err_lon", "err_lat", "drogue_status", "gap", "ve", "vn"):
            variables[name] = ("obs", values)
    else:
        variables["position_error"] = ("obs", 10 * values, {"units": "m"})
    return xr.Dataset(variables)


def _run(folder: Path) -> Path:
    """Write the directory of a turbulence run, only with its particles."""
    common = {"dtype": "float64", "attributes": {}}
    arrays = create_group(
        folder / "trajectories.zarr",
        {
            "id": {**common, "shape": (2,), "chunks": (2,), "dtype": "int64", "dims": ("traj",)},
            "time": {**common, "shape": (4,), "chunks": (4,), "dims": ("obs",)},
            "x": {**common, "shape": (2, 4), "chunks": (2, 2), "dims": ("traj", "obs")},
            "y": {**common, "shape": (2, 4), "chunks": (2, 2), "dims": ("traj", "obs")},
        },
        {"driftbayes_schema": 1, "provenance": "{}"},
    )
    arrays["id"].write(np.arange(2), (0,))
    arrays["time"].write(np.arange(4.0), (0,))
    for axis in "xy":
        arrays[axis].write(np.arange(8.0).reshape(2, 4), (0, 0))
    return folder


def scan() -> xr.Dataset:
    """Return a scan of two models at three sampling times, as written by `driftbayes scan`."""
    by_model, by_parameter = ("model", "tau"), ("parameter", "tau")
    numbers = np.linspace(0.2, 1.0, 6).reshape(2, 3)
    values = np.linspace(0.5, 2.0, 9).reshape(3, 3)
    consistent = {"tau_min": 1.0, "tau_max": 4.0, "n_taus": 3, "value": 0.5, "sd": 0.04}
    return xr.Dataset(
        {
            "log_evidence": (by_model, -100 * numbers),
            "log_evidence_err": (by_model, 1e-9 * numbers),
            "log_likelihood_at_map": (by_model, -90 * numbers),
            "log_occam_factor": (by_model, -3 * numbers),
            "information_gain": (by_model, numbers),
            "status": (by_model, np.full((2, 3), "ok")),
            "probability": (by_model, np.stack([numbers[0], 1 - numbers[0]])),
            **{
                name: (by_parameter, values)
                for name in ("map", "posterior_mean", "posterior_sd", "log_mean", "log_sd")
            },
            "contraction": (by_parameter, values),
            "posterior_quantile": (
                ("parameter", "tau", "quantile"),
                values[..., None] * np.linspace(0.5, 1.5, 5),
            ),
            "consistent": (by_parameter, np.ones((3, 3), dtype=bool)),
            "n_particles": ("tau", np.array([6, 6, 6])),
            "n_steps": ("tau", np.array([19, 9, 4])),
            "n_displacements": ("tau", np.array([228, 108, 48])),
            "data_fingerprint": ("tau", np.full(3, "55003b1a0c69bb32")),
            "verdict": ("tau", np.full(3, "positive evidence for brownian")),
            "log_bayes_factor": (("pair", "tau"), numbers[:1]),
            "log_bayes_factor_err": (("pair", "tau"), 1e-9 * numbers[:1]),
        },
        coords={
            "model": ["brownian", "langevin"],
            "tau": ("tau", [1.0, 2.0, 4.0], {"long_name": "sampling time", "time_unit": "s"}),
            "parameter": ["brownian.kappa", "langevin.gamma", "langevin.k"],
            "quantile": [0.025, 0.16, 0.5, 0.84, 0.975],
            "pair": ["langevin:brownian"],
        },
        attrs={
            "method": "exact",
            "convention": "Var(dx_i) = 2 kappa tau per axis; ln is natural",
            "length_unit": "m",
            "time_unit": "s",
            "priors": json.dumps(
                {
                    "brownian": {"kappa": "exponential:1.3"},
                    "langevin": {"gamma": "exponential:1.5", "k": "exponential:1.3"},
                }
            ),
            "consistency": json.dumps(
                {
                    "brownian": {"kappa": consistent, "sentence": "brownian is consistent"},
                    "langevin": {"gamma": consistent, "k": consistent, "sentence": "langevin is"},
                }
            ),
            "data_fingerprint": "55003b1a0c69bb32",
            "provenance": json.dumps({"source": "t.csv", "reading": {"length_unit": "m"}}),
            "options": json.dumps({"n_tau": None, "seed": 0, "windows": "first", "gaps": "split"}),
        },
    )
