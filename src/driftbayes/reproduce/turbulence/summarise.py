"""From the gigabytes of a run to the numbers that the figures and tables are made of."""

__all__ = ["summarise_branches", "summarise_run", "windows_of"]

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from driftbayes._version import __version__
from driftbayes.data.sampling import Displacements
from driftbayes.data.trajectories import Trajectories
from driftbayes.diagnostics import diagnose
from driftbayes.io import read_trajectories
from driftbayes.likelihood.reduced import window_moments
from driftbayes.reproduce.turbulence.condense import pack
from driftbayes.reproduce.turbulence.experiment import Experiment, strides
from driftbayes.storage.zarr import open_array
from driftbayes.turbulence.config import RunConfig
from driftbayes.turbulence.output import DIAGNOSTICS, SNAPSHOTS, SPECTRA, read_config
from driftbayes.typing import FloatArray, IntArray

if TYPE_CHECKING:
    import xarray as xr

_N_LAGS = 80
_N_ROWS = 1000


def summarise_run(directory: Path, experiment: Experiment) -> "xr.Dataset":
    """All that is kept of one realisation.

    Args:
        directory: Of a finished run.
        experiment: What to keep.
    """
    import xarray as xr

    config, stored = read_config(directory)
    trajectories = read_trajectories(directory)
    variables = _flow_variables(directory, config)
    variables |= _picture(trajectories, config, experiment)
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
    """Energy and its like against time, spectra, and the vorticity when particles are released."""
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
    for name in ("energy", "enstrophy", "transfer", "flux"):
        values = rings[name].values
        variables[f"{name}_spectrum"] = ("k", values[release:].mean(axis=0))
        variables[f"{name}_spectrum_sd"] = ("k", values[release:].std(axis=0))
    variables["energy_spectrum_at_release"] = ("k", rings["energy"].values[release])
    number = config.spin_up_steps // config.snapshot_steps
    store = open_array(directory / SNAPSHOTS, "vorticity")
    field = store.read_chunk((number, 0, 0))[0]
    variables["vorticity"] = (("y", "x"), np.asarray(field, np.float32))
    return variables


def _picture(
    trajectories: Trajectories, config: RunConfig, experiment: Experiment
) -> dict[str, Any]:
    n_records = min(int(experiment.shown_time / config.record_every) + 1, config.n_records)
    x = _positions(trajectories)[: experiment.n_shown, :n_records]
    return {"shown": (("shown_particle", "record", "axis"), x.astype(np.float32))}


def _positions(trajectories: Trajectories) -> FloatArray:
    """(particle, record, axis); all particles of a run have the same records."""
    return trajectories.positions.reshape(trajectories.n_trajectories, -1, trajectories.n_dim)


def _moments(trajectories: Trajectories, experiment: Experiment) -> dict[str, Any]:
    """Second moments at every tau: of the first window, of all, of each, of groups of particles."""
    interval = float(trajectories.recording_interval or 0.0)
    x, n_tau = _positions(trajectories), experiment.n_tau
    columns: dict[str, list[Any]] = {name: [] for name in ("first", "all", "groups", "n_windows")}
    each, owners, numbers = [], [], []
    prints: dict[str, list[str]] = {"first": [], "all": []}
    chosen = strides(interval, experiment.tau_range, experiment.n_taus)
    chosen = chosen[chosen * n_tau < x.shape[1]]
    for i, stride in enumerate(chosen):
        dx = windows_of(x, int(stride), n_tau)
        moments = window_moments(dx)
        columns["first"].append(pack(moments[0]))
        columns["all"].append(pack(moments.sum(axis=0)))
        columns["n_windows"].append(len(moments))
        # Groups take the place of windows: the same sums over fewer particles.
        grouped = dx[:, 0].reshape(experiment.n_groups, -1, n_tau, x.shape[2]).swapaxes(0, 1)
        columns["groups"].append(pack(window_moments(grouped)))
        kept = _spread(len(moments), experiment.max_windows)
        each.append(pack(moments[kept]))
        owners.append(np.full(len(kept), i))
        numbers.append(kept)
        for name, part in (("first", dx[:, :1]), ("all", dx)):
            data = Displacements.from_array(part.reshape(-1, *part.shape[2:]), stride * interval)
            prints[name].append(data.fingerprint)
    return {
        "tau": ("tau", chosen * interval),
        "n_windows": ("tau", np.array(columns["n_windows"])),
        "moment_first": (("tau", "entry"), np.stack(columns["first"])),
        "moment_all": (("tau", "entry"), np.stack(columns["all"])),
        "fingerprint_first": ("tau", np.array(prints["first"])),
        "fingerprint_all": ("tau", np.array(prints["all"])),
        "group_moment": (("tau", "group", "entry"), np.stack(columns["groups"])),
        "window_moment": (("window", "entry"), np.concatenate(each)),
        "window_tau_index": ("window", np.concatenate(owners)),
        "window_number": ("window", np.concatenate(numbers)),
    }


def windows_of(x: FloatArray, stride: int, n_tau: int) -> FloatArray:
    """Steps of all whole windows, (particle, window, step, axis), of every stride-th record."""
    sampled = x[:, ::stride]
    n_windows = (sampled.shape[1] - 1) // n_tau
    steps = np.diff(sampled[:, : n_windows * n_tau + 1], axis=1)
    return steps.reshape(len(x), n_windows, n_tau, x.shape[2])


def _spread(n: int, most: int) -> IntArray:
    """At most so many of n numbers, evenly."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).round().astype(np.int64))


def summarise_branches(directories: dict[str, Path], n_groups: int = 100) -> "xr.Dataset":
    """How runs from one state part, and whether their particles spread differently.

    Args:
        directories: Of finished runs, by name; all are compared with the first.
        n_groups: Groups of particles whose mean square displacement is kept apart.
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
    """Mean square displacement per axis of groups of particles, (lag, group)."""
    out = np.empty((len(lags), n_groups))
    for i, lag in enumerate(lags):
        mean = np.mean((x[:, lag:] - x[:, :-lag]) ** 2, axis=(1, 2))
        out[i] = mean.reshape(n_groups, -1).mean(axis=1)
    return out
