"""Example data: trajectories with known parameters, in the layouts of common programs.

They are simulated on demand from fixed seeds.
"""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from driftbayes._storage import PathLike, atomic_path
from driftbayes._typing import FloatArray
from driftbayes.data._trajectories import Trajectories
from driftbayes.errors import DriftbayesError, did_you_mean
from driftbayes.io import read_trajectories
from driftbayes.workflow._fits import simulate

_KM = 1e3
_MIN, _HOUR, _DAY = 60.0, 3600.0, 86400.0
# Metres in a degree of latitude.
_DEGREE = 111_195.0


@dataclass(frozen=True)
class Example:
    """An example data set.

    Args:
        file: Name of its file.
        summary: Short description.
        truth: Model and parameters of the simulation.
        seed: Random seed.
        write: Function that writes it to a path.
    """

    file: str
    summary: str
    truth: str
    seed: int
    write: Callable[[Path, int], None]


def example(name: str) -> Trajectories:
    """Return example trajectories: "parcels", "drifters", "buoys", "particles" or "animal".

    All are synthetic; the command `driftbayes example NAME` prints the parameters of each.

    Args:
        name: Name of the example.

    Raises:
        DriftbayesError: There is no example of this name.

    Example:
        >>> import driftbayes as db
        >>> db.example("particles").n_trajectories
        100
    """
    with tempfile.TemporaryDirectory() as folder:
        return read_trajectories(write_example(name, Path(folder) / _example_named(name).file))


def write_example(name: str, path: PathLike | None = None) -> Path:
    """Write the file of an example.

    Args:
        name: Name of the example.
        path: File to write; by default that of the example, in the working directory.

    Returns:
        The file.

    Raises:
        DriftbayesError: There is no example of this name, or the suffix is wrong.

    Example:
        >>> write_example("animal").name
        'animal.csv'
    """
    chosen = _example_named(name)
    target = Path(chosen.file if path is None else path)
    suffix = Path(chosen.file).suffix
    if target.suffix.lower() != suffix:
        raise DriftbayesError(f"the example {name!r} is a {suffix} file, got {target.name!r}")
    with atomic_path(target) as temporary:
        chosen.write(temporary, chosen.seed)
    return target


def _example_named(name: str) -> Example:
    if not (isinstance(name, str) and name in EXAMPLES):
        near = did_you_mean(name, EXAMPLES)
        msg = f"unknown example {name!r}; expected one of {', '.join(EXAMPLES)}{near}"
        raise DriftbayesError(msg)
    return EXAMPLES[name]


def _parcels(path: Path, seed: int) -> None:
    """Write a particle file of Parcels 4 on a flat mesh: rows by time, positions in metres."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    theta = {"gamma": 1 / (6 * _HOUR), "k": 100.0}
    counts = {"n_particles": 60, "n_steps": 240}
    x = _positions(simulate("langevin", theta, tau=_HOUR, seed=seed, **counts), 60)
    particle, step = (grid.T.ravel() for grid in np.indices(x.shape[:2]))
    columns = {
        "t": pa.array(step * _HOUR),
        "z": pa.array(np.zeros(x.shape[0] * x.shape[1], dtype=np.float32)),
        "y": pa.array(x[particle, step, 1].astype(np.float32)),
        "x": pa.array(x[particle, step, 0].astype(np.float32)),
        "particle_id": pa.array(particle),
    }
    # Parcels writes units of degrees even on a flat mesh.
    units = {
        "t": {"units": "seconds since 2024-01-01 00:00:00", "calendar": "standard"},
        "z": {"units": "m"},
        "y": {"units": "degrees_north"},
        "x": {"units": "degrees_east"},
        "particle_id": {"cf_role": "trajectory_id"},
    }
    fields = [pa.field(n, c.type, metadata=units[n]) for n, c in columns.items()]
    about = {
        "feature_type": "trajectory",
        "parcels_grid_mesh": "FlatMesh()",
        "source": f"synthetic, written by driftbayes (seed {seed})",
    }
    table = pa.Table.from_arrays(list(columns.values()), schema=pa.schema(fields, metadata=about))
    pq.write_table(table, path, compression="zstd")


def _drifters(path: Path, seed: int) -> None:
    """Write raw fixes of drifters: irregular times, gaps, measurement errors."""
    rng = np.random.default_rng(seed)
    n, days, sigma = 6, 4, 10.0
    theta = {"gamma": 1 / (6 * _HOUR), "k": 400.0}
    n_steps = int(days * _DAY / _MIN)
    tracks = simulate("langevin", theta, tau=_MIN, seed=seed, n_particles=n, n_steps=n_steps)
    x = _positions(tracks, n)
    starts = rng.normal(0, 5 * _KM, (n, 2))
    rows = []
    for i in range(n):
        waits = 10 * _MIN + rng.exponential(5 * _MIN, 1000)
        # Occasional gaps of several hours.
        waits += (rng.random(len(waits)) < 0.01) * rng.uniform(2 * _HOUR, 6 * _HOUR, len(waits))
        times = np.floor(np.cumsum(waits))
        times = times[times < days * _DAY]
        rows += _fixes(f"D{i + 1}", times, x[i] + starts[i], _MIN, (4.0, 56.0), sigma, rng)
    _write_fixes(path, rows)


def _buoys(path: Path, seed: int) -> None:
    """Write hourly positions of buoys, in degrees."""
    rng = np.random.default_rng(seed)
    n, days = 24, 10
    theta = {"gamma": 1 / (6 * _HOUR), "k": 400.0}
    tracks = simulate("langevin", theta, tau=_HOUR, seed=seed, n_particles=n, n_steps=24 * days)
    times = _HOUR * np.arange(24 * days + 1, dtype=np.float64)
    x = _positions(tracks, n) + rng.normal(0, 20 * _KM, (n, 1, 2))
    rows = []
    for i, track in enumerate(x):
        rows += _fixes(f"B{i + 1:02d}", times, track, _HOUR, (4.0, 56.0), 0.0, rng)
    _write_fixes(path, rows)


def _animal(path: Path, seed: int) -> None:
    """Write GPS fixes of one animal in its home range, about every two hours, some missing."""
    rng = np.random.default_rng(seed)
    theta = {"gamma": 1 / _HOUR, "well": 1 / (24 * _HOUR), "k": 26.0}
    step, days = 10 * _MIN, 60
    n_steps = int(days * _DAY / step)
    tracks = simulate("confined", theta, tau=step, seed=seed, n_particles=1, n_steps=n_steps)
    due = 2 * _HOUR * np.arange(days * 12, dtype=np.float64)
    times = np.asarray(due + np.floor(rng.uniform(0, 5 * _MIN, len(due))), dtype=np.float64)
    times = times[rng.random(len(times)) < 0.85]
    _write_fixes(
        path, _fixes("F07", times, _positions(tracks, 1)[0], step, (12.4, 47.6), 10.0, rng)
    )


def _fixes(
    name: str,
    times: FloatArray,
    x: FloatArray,
    step: float,
    origin: tuple[float, float],
    sigma: float,
    rng: np.random.Generator,
) -> list[tuple[object, ...]]:
    """Compute positions in degrees at given times, with an error of sigma metres per axis."""
    grid = step * np.arange(len(x))
    seen = np.column_stack([np.interp(times, grid, column) for column in x.T])
    seen += rng.normal(0, sigma, seen.shape)
    lat = origin[1] + seen[:, 1] / _DEGREE
    lon = origin[0] + seen[:, 0] / (_DEGREE * np.cos(np.radians(lat)))
    start = np.datetime64("2024-05-01T00:00:00")
    stamps = start + times.astype("timedelta64[s]")
    return list(zip([name] * len(times), stamps, lon.round(5), lat.round(5), strict=True))


def _write_fixes(path: Path, rows: list[tuple[object, ...]]) -> None:
    lines = [f"{name},{time},{lon:.5f},{lat:.5f}\n" for name, time, lon, lat in rows]
    path.write_text("id,time,lon,lat\n" + "".join(lines), encoding="utf-8")


def _particles(path: Path, seed: int) -> None:
    """Write TrackMate's table of spots, in micrometres and seconds, with localisation errors."""
    rng = np.random.default_rng(seed)
    n, frame, sigma = 100, 0.05, 0.1
    tracks = simulate("brownian", {"kappa": 0.4}, tau=frame, seed=seed, n_particles=n, n_steps=39)
    x = _positions(tracks, n) + rng.uniform(2, 60, (n, 1, 2))
    x = x + rng.normal(0, sigma, x.shape)
    names = "LABEL,ID,TRACK_ID,QUALITY,POSITION_X,POSITION_Y,POSITION_Z,POSITION_T,FRAME"
    lines = [names, *["Label,Spot ID,Track ID,Quality,X,Y,Z,T,Frame"] * 2]
    lines.append(",,,(quality),(micron),(micron),(micron),(sec),")
    for i, track in enumerate(x):
        for j, (a, b) in enumerate(track):
            spot = 40 * i + j
            lines.append(f"ID{spot},{spot},{i},10.0,{a:.4f},{b:.4f},0.0,{frame * j:.2f},{j}")
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")


def _positions(tracks: Trajectories, n: int) -> FloatArray:
    """Return positions of regular trajectories, (particle, time, axis)."""
    return np.array(tracks.positions).reshape(n, -1, tracks.n_dim)


EXAMPLES = {
    "parcels": Example(
        "parcels.parquet",
        "60 particles every hour for 10 days, as Parcels 4 writes them",
        "langevin, k = 100 m²/s, 1/γ = 6 h",
        11,
        _parcels,
    ),
    "drifters": Example(
        "drifters.csv",
        "raw GPS fixes of 6 drifters: irregular times, gaps, degrees",
        "langevin+noise, k = 400 m²/s, 1/γ = 6 h, σ = 10 m",
        12,
        _drifters,
    ),
    "buoys": Example(
        "buoys.csv",
        "hourly positions of 24 buoys for 10 days, degrees",
        "langevin, k = 400 m²/s, 1/γ = 6 h",
        15,
        _buoys,
    ),
    "particles": Example(
        "particles.csv",
        "100 tracks of 40 frames, as TrackMate exports spots",
        "brownian+noise, κ = 0.4 µm²/s, σ = 0.1 µm",
        13,
        _particles,
    ),
    "animal": Example(
        "animal.csv",
        "GPS fixes of one animal for 60 days, about every 2 h, some missing",
        "confined+noise, k = 26 m²/s, 1/γ = 1 h, 1/λ = 24 h, σ = 10 m",
        14,
        _animal,
    ),
}
