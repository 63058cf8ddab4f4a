"""Fields: errors of fields and maps, cellular flow, seasons against place, growth with data.

python benchmarks/field.py errors 900 5
python benchmarks/field.py cells
python benchmarks/field.py seasons
python benchmarks/field.py growth 100000
python benchmarks/field.py growth 100000 langevin sigma
python benchmarks/field.py calibration 1d 60 --workers 16
"""

import resource
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from scipy.sparse import coo_array, csr_array
from scipy.sparse.linalg import spsolve

import driftbayes as db
from driftbayes._typing import FloatArray
from driftbayes.fields import FieldFit, FieldPriors, FlightFit, FlightPriors, fit_field, fit_flight
from driftbayes.space import map_tree
from field_calibration import calibration
from map import hypotheses, kappa_at, tracks

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "fields"))
from known_fields import SIGMA, TIME, flights

_DAY = 86400.0


def errors(n_steps: int, n_sets: int) -> None:
    """Print error and coverage of map and field on the same data sets, where κ varies by 70 %."""
    axis = (np.arange(16) + 0.5) / 16
    points = np.stack([a.ravel() for a in np.meshgrid(axis, axis)], axis=-1)
    truth = kappa_at(points, 0.7)
    rows: dict[str, list[tuple[float, float, float]]] = {"map": [], "field": []}
    for seed in range(n_sets):
        data = tracks(n_steps, 0.7, seed)
        tree = map_tree(data, hypotheses("brownian"), 1.0, scatter=False)
        dataset = tree.to_dataset()
        where = {name: xr.DataArray(points[:, i], dims="p") for i, name in enumerate("xy")}
        at = dataset[["brownian_kappa", "brownian_kappa_sd", "brownian_kappa_within"]]
        mean, *both = (
            v.values.squeeze() for v in at.sel(where, method="nearest").data_vars.values()
        )
        sd = np.hypot(*both)
        rows["map"].append(_scored(mean, sd, truth))
        fit = fit_field(
            db.displacements(data, 1.0), FieldPriors(kappa=4e-4, flow=0.02), hypotheses=["kappa"]
        )
        found = fit.at(points)
        logs = found["log_kappa"], found["log_kappa_sd"]
        off = float(np.sqrt(np.nanmean((found["kappa"] / truth - 1) ** 2)))
        rows["field"].append((off, *_scored(*logs, np.log(truth))[1:]))
    for name, found_rows in rows.items():
        off, one, two = np.mean(found_rows, axis=0)
        print(f"{name}: error {off:.1%}, within 1 and 2 errors {one:.0%}, {two:.0%}")


def _scored(mean: FloatArray, sd: FloatArray, truth: FloatArray) -> tuple[float, float, float]:
    there = np.isfinite(mean)
    z = np.abs(mean - truth)[there] / sd[there]
    off = np.sqrt(np.mean((mean[there] / truth[there] - 1) ** 2))
    return float(off), float(np.mean(z < 1)), float(np.mean(z < 2))


def homogenised(peclet: float, n: int = 24) -> float:
    """Compute κ_eff/κ of cellular flow, ψ = sin x sin y, at Péclet number U/(κk).

    The cell problem u·∇χ - κ∇²χ = -u_x is solved in Fourier modes; κ_eff/κ = 1 + ⟨|∇χ|²⟩.
    """
    kappa = 1 / peclet
    modes = [(k, m) for k in range(-n, n + 1) for m in range(-n, n + 1) if (k, m) != (0, 0)]
    number = {mode: i for i, mode in enumerate(modes)}
    rows, columns, values = [], [], []
    # u = -∂ψ/∂y = -sin x cos y, v = cos x sin y, as four modes (±1, ±1) each.
    parts = []
    for a in (1, -1):
        for b in (1, -1):
            sine_a, sine_b = -0.5j * a, -0.5j * b
            parts.append((a, b, -sine_a * 0.5, 0.5 * sine_b))
    for (k, m), i in number.items():
        rows.append(i)
        columns.append(i)
        values.append(kappa * (k * k + m * m) + 0j)
        for a, b, u, v in parts:
            source = (k - a, m - b)
            if source in number:
                rows.append(i)
                columns.append(number[source])
                values.append(1j * (u * source[0] + v * source[1]))
    force = np.zeros(len(modes), dtype=complex)
    for a, b, u, _ in parts:
        force[number[a, b]] -= u
    matrix = csr_array(coo_array((values, (rows, columns)), shape=(len(modes),) * 2))
    chi = spsolve(matrix, force)
    square = np.array([k * k + m * m for k, m in modes])
    return float(1 + np.sum(square * np.abs(chi) ** 2))


def cellular(peclet: float, n: int, n_fixes: int, tau: float, seed: int) -> db.Trajectories:
    """Simulate particles in ψ = sin x sin y with κ = 1/Pe, recorded every tau."""
    rng = np.random.default_rng(seed)
    kappa, n_sub = 1 / peclet, int(np.ceil(tau / 0.05))
    dt = tau / n_sub
    x = rng.uniform(0, 2 * np.pi, (n, 2))

    def flow(p: FloatArray) -> FloatArray:
        s, c = np.sin(p), np.cos(p)
        return np.stack([-s[:, 0] * c[:, 1], c[:, 0] * s[:, 1]], axis=-1)

    fixes = [x]
    for _ in range(n_fixes):
        for _ in range(n_sub):
            kick = np.sqrt(2 * kappa * dt) * rng.standard_normal(x.shape)
            half = x + 0.5 * (flow(x) * dt + kick)
            x = x + flow(half) * dt + kick
        fixes.append(x)
    return db.Trajectories.from_arrays(np.stack(fixes, axis=1), dt=tau)


def cells() -> None:
    """Compare κ of cellular flow at long times, by `compare` and `map`, with the cell problem."""
    for peclet in (2.0, 10.0, 30.0):
        data = cellular(peclet, 300, 8, 8 * peclet, 0)
        known = homogenised(peclet) / peclet
        models = hypotheses("brownian", u_rms=0.5, timescale=3.0)
        tau = 8 * peclet
        found = db.compare(data, tau, models="brownian", scales=db.Scales(0.5, 3.0))["brownian"]
        kappa = found.parameters["kappa"]
        tree = map_tree(data, models, tau, scatter=False)
        print(
            f"Pe {peclet:g}: kappa {kappa.mean:.4f} +- {kappa.sd:.4f}, cell problem {known:.4f}, "
            f"molecular {1 / peclet:.4f}; P(constant) of the map {tree.probability_homogeneous:.3f}"
        )


def seasonal(kind: str, n_tracks: int, seed: int) -> db.Trajectories:
    """Simulate a year of daily steps; κ = 500 or 2,000 m²/s by season or place, or 1,000."""
    rng = np.random.default_rng(seed)
    start = np.datetime64("2020-01-01")
    months = (start + np.arange(365)).astype("M8[M]").astype(int) % 12
    x = np.empty((n_tracks, 366, 2))
    x[:, 0] = rng.uniform(-5e5, 5e5, (n_tracks, 2))
    for i in range(365):
        kappa = np.full(n_tracks, 1000.0)
        if kind == "season":
            kappa[:] = 2000.0 if (months[i] + 1) % 12 < 6 else 500.0
        elif kind == "place":
            kappa = np.where(x[:, i, 0] > 0, 2000.0, 500.0)
        x[:, i + 1] = x[:, i] + np.sqrt(2 * kappa * _DAY)[:, None] * rng.normal(size=(n_tracks, 2))
    origin = {"time_origin": "2020-01-01T00:00:00"}
    return db.Trajectories.from_arrays(
        x, dt=_DAY, provenance=origin, length_unit="m", time_unit="s"
    )


def seasons(n_sets: int = 3) -> None:
    """Print ln Z of places and of seasons, minus that of constant parameters."""
    models = hypotheses("brownian", u_rms=0.1, timescale=_DAY)
    for kind in ("season", "place", "neither"):
        for n_tracks in (10, 60):
            rows = []
            for seed in range(n_sets):
                found = map_tree(seasonal(kind, n_tracks, seed), models, _DAY, scatter=False)
                tree = found["brownian"]
                constant = tree.log_evidence_homogeneous
                rivals = found.rivals["seasons"]["brownian"] - constant
                rows.append((tree.log_evidence - constant, rivals))
            shown = "; ".join(f"{place:+.1f}, {season:+.1f}" for place, season in rows)
            print(f"{kind} varies, {n_tracks} tracks: place, season {shown}")


def growth(n_points: int, model: str = "brownian", names: str = "") -> None:
    """Print CPU time and memory of a fit."""
    if model == "brownian":
        data = db.displacements(tracks(n_points, 0.7, 0), 1.0)
    else:
        data = flights(np.random.default_rng(0), (n_points // 20, 20), 2, n_sub=10)
    started, wall = time.process_time(), time.time()
    options: dict[str, Any] = {"hypotheses": names.split(",")} if names else {}
    result: FieldFit | FlightFit
    if model == "brownian":
        result = fit_field(data, FieldPriors(kappa=4e-4, flow=0.02), **options)
    else:
        priors = FlightPriors(1 / TIME, 2 * SIGMA**2 * TIME, SIGMA)
        result = fit_flight(data, priors, **options)
    fitted = time.process_time() - started
    text = str(result)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{len(data.dx):,} steps, {model}: {fitted:.1f} s of processor time, and "
        f"{time.process_time() - started - fitted:.1f} s for {len(text.splitlines())} lines of "
        f"text; {time.time() - wall:.1f} s in all, peak {memory:.0f} MB; ln K = "
        f"{result.log_bayes_factor_inhomogeneous:.1f}"
    )


if __name__ == "__main__":
    name, *rest = sys.argv[1:]
    if name == "calibration":
        calibration(*rest)
        sys.exit()
    numbers = [int(text) if text.isdigit() else text for text in rest]
    commands: dict[str, Any] = {
        "errors": errors,
        "cells": cells,
        "seasons": seasons,
        "growth": growth,
    }
    commands[name](*numbers)
