"""Reduction of runs to the numbers of figures and tables: summaries, then packaged estimates."""

__all__ = ["both_models", "condense", "reduced", "summarise_branches", "summarise_run"]

import json
import math
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from driftbayes._storage.zarr import open_array
from driftbayes._typing import FloatArray, IntArray
from driftbayes._version import __version__
from driftbayes.comparison import log_bayes_factor
from driftbayes.comparison._scan import evidences_of_many
from driftbayes.data._sampling import Displacements, evenly_spaced
from driftbayes.data._trajectories import Trajectories
from driftbayes.diagnostics import diagnose
from driftbayes.inference import Hypothesis
from driftbayes.io import read_trajectories
from driftbayes.likelihood import ReducedDisplacements
from driftbayes.likelihood._reduced import window_moments
from driftbayes.models import Brownian, Langevin
from driftbayes.priors import scaling_priors
from driftbayes.reproduce.turbulence.experiment import PUBLISHED, Experiment, strides
from driftbayes.turbulence.budgets import Spectra
from driftbayes.turbulence.config import RunConfig
from driftbayes.turbulence.output import DIAGNOSTICS, SNAPSHOTS, SPECTRA, read_config

if TYPE_CHECKING:
    import xarray as xr

N_DIM = 2
# Kept numbers of each inference.
ESTIMATES = ("log_kappa", "log_gamma", "log_k", "log_bayes_factor")
_N_LAGS = 80
_N_ROWS = 1000
_VORTICITY_LEVELS = 1000


def summarise_run(directory: Path, experiment: Experiment) -> "xr.Dataset":
    """Summarise one realisation.

    Args:
        directory: Directory of a finished run.
        experiment: Numbers of sampling times, groups and windows.
    """
    import xarray as xr

    config, stored = read_config(directory)
    trajectories = read_trajectories(directory)
    variables = _flow_variables(directory, config)
    n_records = min(int(experiment.shown_time / config.record_every) + 1, config.n_records)
    shown = _positions(trajectories)[: experiment.n_shown, :n_records].astype(np.float32)
    variables["shown"] = (("shown_particle", "record", "axis"), shown)
    lagged = diagnose(trajectories, n_lags=_N_LAGS)
    variables |= {
        str(name): ("lag", array.values, dict(array.attrs)) for name, array in lagged.items()
    }
    variables |= _moments(trajectories, experiment)
    return xr.Dataset(
        variables,
        coords={"lag": lagged["lag"]},
        attrs={
            "title": "Particles in two-dimensional turbulence, reduced",
            "config": json.dumps(config.to_json()),
            "versions": json.dumps(stored.get("versions", {})),
            "data_fingerprint": trajectories.fingerprint,
            "driftbayes_version": __version__,
        },
    )


def _flow_variables(directory: Path, config: RunConfig) -> dict[str, Any]:
    """Read flow statistics against time, spectra, and the vorticity at release."""
    import xarray as xr

    with xr.open_dataset(directory / DIAGNOSTICS) as rows:
        rows = rows.load()
    with xr.open_dataset(directory / SPECTRA) as rings:
        rings = rings.load()
    thin = max((len(rows["time"]) - 1) // _N_ROWS, 1)
    columns = [str(name) for name in rows.data_vars]
    after = rows.isel(time=rows["time"].values >= config.spin_up - config.dt)
    table = np.stack([after[name].values for name in columns])
    variables: dict[str, Any] = {
        "flow_time": ("row", rows["time"].values[::thin]),
        "column": ("column", np.array(columns)),
        "column_mean": ("column", table.mean(axis=1)),
        "column_sd": ("column", table.std(axis=1, ddof=1)),
    }
    for name in ("energy_mean", "enstrophy_mean", "cfl", "kurtosis_u", "kurtosis_zeta"):
        variables[name] = ("row", rows[name].values[::thin])
    times = rings["time"].values
    release = int(np.argmin(np.abs(times - config.spin_up)))
    variables["k"] = ("k", rings["k"].values)
    for name in Spectra._fields:
        values = rings[name].values
        variables[f"{name}_spectrum"] = ("k", values[release:].mean(axis=0))
        variables[f"{name}_spectrum_sd"] = ("k", values[release:].std(axis=0))
    variables["energy_spectrum_at_release"] = ("k", rings["energy"].values[release])
    number = config.spin_up_steps // config.snapshot_steps
    store = open_array(directory / SNAPSHOTS, "vorticity")
    field = store.read_chunk((number, 0, 0))[0]
    variables["vorticity"] = (("y", "x"), np.asarray(field, np.float32))
    return variables


def _positions(trajectories: Trajectories) -> FloatArray:
    """Return positions (particle, record, axis); all particles of a run have the same records."""
    return trajectories.positions.reshape(trajectories.n_trajectories, -1, trajectories.n_dim)


def _moments(trajectories: Trajectories, experiment: Experiment) -> dict[str, Any]:
    """Compute second moments at every tau: of the first, all and each window, and of groups."""
    interval = float(trajectories.recording_interval or 0.0)
    x, n_tau = _positions(trajectories), experiment.n_tau
    parts_by_name: dict[str, list[Any]] = defaultdict(list)
    chosen = strides(interval, experiment.tau_range, experiment.n_taus)
    chosen = chosen[chosen * n_tau < x.shape[1]]
    for i, stride in enumerate(chosen):
        dx = _windows(x, int(stride), n_tau)
        moments = window_moments(dx)
        parts_by_name["n_windows"].append(len(moments))
        parts_by_name["moment_first"].append(pack(moments[0]))
        parts_by_name["moment_all"].append(pack(moments.sum(axis=0)))
        # Groups in place of windows: the same sums over fewer particles.
        grouped = dx[:, 0].reshape(experiment.n_groups, -1, n_tau, x.shape[2]).swapaxes(0, 1)
        parts_by_name["group_moment"].append(pack(window_moments(grouped)))
        kept = evenly_spaced(len(moments), experiment.max_windows)
        parts_by_name["window_moment"].append(pack(moments[kept]))
        parts_by_name["window_tau_index"].append(np.full(len(kept), i))
        parts_by_name["window_number"].append(kept)
        for name, part in (("first", dx[:, :1]), ("all", dx)):
            data = Displacements.from_array(part.reshape(-1, *part.shape[2:]), stride * interval)
            parts_by_name[f"fingerprint_{name}"].append(data.fingerprint)
    variables: dict[str, Any] = {"tau": ("tau", chosen * interval)}
    axes: dict[str, tuple[str, ...]] = {
        "moment_first": ("tau", "entry"),
        "moment_all": ("tau", "entry"),
        "group_moment": ("tau", "group", "entry"),
        "window_moment": ("window", "entry"),
    }
    for name, parts in parts_by_name.items():
        first = "window" if name.startswith("window_") else "tau"
        values = np.concatenate(parts) if first == "window" else np.array(parts)
        variables[name] = (axes.get(name, (first,)), values)
    return variables


def _windows(x: FloatArray, stride: int, n_tau: int) -> FloatArray:
    """Return the steps of all complete windows, (particle, window, step, axis)."""
    sampled = x[:, ::stride]
    n_windows = (sampled.shape[1] - 1) // n_tau
    steps = np.diff(sampled[:, : n_windows * n_tau + 1], axis=1)
    return steps.reshape(len(x), n_windows, n_tau, x.shape[2])


def summarise_branches(directories: dict[str, Path], n_groups: int = 100) -> "xr.Dataset":
    """Compare runs from one state: their divergence and mean square displacements.

    Args:
        directories: Directories of finished runs by name; all are compared with the first.
        n_groups: Number of groups of particles for the error of mean square displacements.
    """
    import xarray as xr

    names = list(directories)
    msd, parted, fields, configs = [], [], [], {}
    reference: tuple[FloatArray, FloatArray] | None = None
    for name in names:
        folder = directories[name]
        config, stored = read_config(folder)
        configs[name] = {"config": config.to_json(), "versions": stored.get("versions", {})}
        x = _positions(read_trajectories(folder))
        last = (x.shape[1] - 1) * 2 // 5
        lags = np.unique(np.rint(np.geomspace(1, last, 40)).astype(np.int64))
        msd.append(_group_msd(x, lags, n_groups))
        store = open_array(folder / SNAPSHOTS, "vorticity")
        zeta = np.stack([store.read_chunk((i, 0, 0))[0] for i in range(config.n_snapshots)])
        reference = reference or (x, zeta)
        parted.append(np.sqrt(np.mean(np.sum((x - reference[0]) ** 2, axis=-1), axis=0)))
        scale = np.sqrt(np.mean(reference[1] ** 2, axis=(1, 2)))
        fields.append(np.sqrt(np.mean((zeta - reference[1]) ** 2, axis=(1, 2))) / scale)
    return xr.Dataset(
        {
            "branch": ("branch", np.array(names)),
            "lag": ("lag", lags * config.record_every),
            "group_msd": (("branch", "lag", "group"), np.stack(msd)),
            "time": ("time", np.arange(x.shape[1]) * config.record_every),
            "separation": (("branch", "time"), np.stack(parted)),
            "snapshot_time": ("snapshot", np.arange(config.n_snapshots) * config.snapshot_every),
            "vorticity_difference": (("branch", "snapshot"), np.stack(fields)),
        },
        attrs={
            "title": "Runs from one state that differ in one thing each",
            "configs": json.dumps(configs),
            "driftbayes_version": __version__,
        },
    )


def _group_msd(x: FloatArray, lags: IntArray, n_groups: int) -> FloatArray:
    """Return the mean square displacement per axis of groups of particles, (lag, group)."""
    out = np.empty((len(lags), n_groups))
    for i, lag in enumerate(lags):
        mean = np.mean((x[:, lag:] - x[:, :-lag]) ** 2, axis=(1, 2))
        out[i] = mean.reshape(n_groups, -1).mean(axis=1)
    return out


def both_models() -> list[Hypothesis]:
    """Return Brownian and Langevin with the paper's priors, at published scales."""
    priors = scaling_priors(PUBLISHED.u_rms, PUBLISHED.eddy_turnover_time)
    return [Hypothesis.from_table(model, priors) for model in (Brownian, Langevin)]


def reduced(
    entries: FloatArray, n_runs: FloatArray, taus: FloatArray, names: Sequence[str]
) -> list[ReducedDisplacements]:
    """Return data sets from packed second moments.

    Args:
        entries: Upper triangles, (data set, entry).
        n_runs: Number of runs in each.
        taus: Sampling time of each.
        names: Fingerprint of each.
    """
    moments = unpack(entries)
    return [
        ReducedDisplacements(
            moment=moment,
            n_runs=float(n),
            n_dim=N_DIM,
            n_particles=round(float(n)),
            tau=float(tau),
            fingerprint=str(name),
        )
        for moment, n, tau, name in zip(moments, n_runs, taus, names, strict=True)
    ]


def condense(summary: "xr.Dataset", n_particles: int) -> "xr.Dataset":
    """Replace the moments of windows and groups by estimates, a tenth of the size.

    Each window gets the posterior means of ln κ, ln γ, ln k and the exact ln K; each group of
    particles the same without that group (a jackknife). The vorticity becomes 16-bit.

    Args:
        summary: From `summarise_run`.
        n_particles: Number of particles.
    """
    taus, owner = summary["tau"].values, summary["window_tau_index"].values
    moments, names = summary["window_moment"].values, [f"window {i}" for i in range(len(owner))]
    windows = reduced(moments, np.full(len(owner), n_particles), taus[owner], names)
    groups = summary["group_moment"].values
    n_taus, n_groups, n_entries = groups.shape
    without = (groups.sum(axis=1, keepdims=True) - groups).reshape(-1, n_entries)
    n_runs = np.full(n_taus * n_groups, n_particles * (1 - 1 / n_groups))
    names = [f"group {i}" for i in range(len(without))]
    kept = reduced(without, n_runs, np.repeat(taus, n_groups), names)
    made: dict[str, Any] = {}
    for name, values in estimates_of(windows).items():
        made[f"window_{name}"] = ("window", values)
    for name, values in estimates_of(kept).items():
        made[f"jackknife_{name}"] = (("tau", "group"), values.reshape(n_taus, n_groups))
    field = summary["vorticity"].values
    scale = float(np.abs(field).max()) / _VORTICITY_LEVELS
    made["vorticity"] = (("y", "x"), np.round(field / scale).astype(np.int16), {"scale": scale})
    dropped = ["window_moment", "group_moment", "vorticity"]
    return summary.drop_vars(dropped).assign(made)


def estimates_of(data: Sequence[ReducedDisplacements]) -> dict[str, FloatArray]:
    """Return posterior means of the logarithms of all parameters, and ln K, of each data set."""
    brownian, langevin = (evidences_of_many(h, data) for h in both_models())
    pairs = zip(langevin, brownian, strict=True)
    return {
        "log_kappa": np.array([e.log_mean["kappa"] for e in brownian]),
        "log_gamma": np.array([e.log_mean["gamma"] for e in langevin]),
        "log_k": np.array([e.log_mean["k"] for e in langevin]),
        "log_bayes_factor": np.array([log_bayes_factor(m1, m0) for m1, m0 in pairs]),
    }


def pack(matrices: FloatArray) -> FloatArray:
    """Pack symmetric matrices into their upper triangles, (..., step, step) to (..., entry)."""
    return matrices[(..., *np.triu_indices(matrices.shape[-1]))]


def unpack(entries: FloatArray) -> FloatArray:
    """Unpack symmetric matrices from their upper triangles."""
    n_steps = n_steps_of(entries.shape[-1])
    rows, columns = np.triu_indices(n_steps)
    out = np.empty((*entries.shape[:-1], n_steps, n_steps))
    out[..., rows, columns] = entries
    out[..., columns, rows] = entries
    return out


def n_steps_of(n_entries: int) -> int:
    """Return the size of the matrix with this number of entries in its upper triangle."""
    return (math.isqrt(8 * n_entries + 1) - 1) // 2
