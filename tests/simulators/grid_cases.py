"""Maps to export, particles in the simulators, and whether their density is uniform."""

import json
import os
import subprocess

import numpy as np
import pytest
import xarray as xr
from grid_drivers import OPENDRIFT, PARCELS_3, PARCELS_4
from scipy import stats

from driftbayes.data import _schema as schema
from driftbayes.io import write_dataset
from driftbayes.simulators import export_grid

SIDE = 100e3


def waves(n):
    """Two waves along each axis, of one sign in each cell."""
    s = np.sign(np.sin(2 * np.pi * (np.arange(n) + 0.5) / n))
    return s[:, None] * s


def a_map(
    n=16, *, kappa=None, flow=None, degrees=None, model="brownian+mean", side=1, **attributes
):
    """A dataset as `driftbayes map -o` writes it, of κ = 1000 m²/s (1 ± 0.8) in km and h."""
    kappa = 1000 * (1 + 0.8 * waves(n)) if kappa is None else kappa
    plain, unit = model.replace("+", "_"), 3600 / 1e6
    dims = ("tau", "y", "x")
    variables = {f"{plain}_kappa": (dims, unit * kappa[None])}
    for i, one in enumerate([0 * kappa, 0 * kappa] if flow is None else flow):
        variables[f"{plain}_flow_{i + 1}"] = dims, 3.6 * np.broadcast_to(one, kappa.shape)[None]
    width = SIDE if degrees is None else np.radians(degrees[1][1] - degrees[1][0]) * 6.371e6
    variables[f"{plain}_cell_side"] = dims, np.full((1, n, n), side * width / 1e3 / n)
    x = y = (np.arange(n) + 0.5) * SIDE / 1e3 / n
    about = {}, {}
    if degrees is not None:
        x, y = (low + (np.arange(n) + 0.5) * (high - low) / n for low, high in degrees)
        about = {"standard_name": "longitude"}, {"standard_name": "latitude"}
    axes = {"x": ("x", x, about[0]), "y": ("y", y, about[1]), "tau": ("tau", [6.0])}
    given = {
        schema.KIND_ATTRIBUTE: "map",
        "length_unit": "km",
        "time_unit": "h",
        "data_fingerprint": "0123",
        "evidences": json.dumps({"models": {model: {"log_evidence": 1.0}}}),
        **attributes,
    }
    return xr.Dataset(variables, axes).assign_attrs(given)


def uniformity(x, y, edges, *, on_earth=False):
    """P-value of χ² of the counts in 8 × 8 boxes, under a uniform density."""
    boxes = [np.linspace(e[0], e[-1], 9) for e in edges]
    counts = np.histogram2d(x, y, bins=boxes)[0]
    assert counts.sum() == len(x)
    rows = np.sin(np.radians(boxes[1])) if on_earth else boxes[1]
    share = np.diff(rows) / (rows[-1] - rows[0]) / 8
    return stats.chisquare(counts.ravel(), len(x) * np.tile(share, 8)).pvalue


def uniform(edges, n, *, on_earth=False, seed=3):
    rng = np.random.default_rng(seed)
    x, y = (rng.uniform(e[0], e[-1], n) for e in edges)
    if on_earth:
        ends = np.sin(np.radians(edges[1][[0, -1]]))
        y = np.degrees(np.arcsin(rng.uniform(*ends, n)))
    return x, y


REAL = {
    "parcels": ("PARCELS_PYTHON", "parcels", PARCELS_4),
    "parcels3": ("PARCELS3_PYTHON", "parcels", PARCELS_3),
    "opendrift": ("OPENDRIFT_PYTHON", "opendrift", OPENDRIFT),
}


def moved(simulator, found, seconds, tmp_path, *, start, naive=False):
    """Positions (2, particle) after particles have moved in the simulator."""
    variable, _, driver = REAL[simulator]
    if variable not in os.environ:
        pytest.skip(
            f"set {variable} to a Python that has the simulator (dependency group `simulators`)"
        )
    made = export_grid(found, simulator)
    write_dataset(made.dataset, tmp_path / "K.nc", kind="grid")
    (tmp_path / "exported.py").write_text(made.text("K.nc"))
    (tmp_path / "driver.py").write_text(driver)
    np.save(tmp_path / "start.npy", start)
    scheme = "naive" if naive else "exported"
    run = [os.environ[variable], "driver.py", "exported.py", "start.npy", "end.npy", str(seconds)]
    done = subprocess.run([*run, scheme], cwd=tmp_path, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-2000:]
    return np.load(tmp_path / "end.npy").astype(float)
