"""Files for `engine.py`: simulated tracks of realistic sizes, with fixed seeds."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from driftbayes.data._trajectories import Trajectories
from driftbayes.io import write_trajectories
from driftbayes.models import MODELS, model_named

HOUR, DAY = 3600.0, 86400.0


def write_data(name: str, folder: Path) -> Path:
    """Write one of the files, unless it exists.

    Args:
        name: A key of `FILES`, or `gps-N` for one track of N fixes.
        folder: Output directory.
    """
    path = folder / f"{name}.{'parquet' if name == 'gps-1000000' else 'csv'}"
    if not path.exists():
        tracks = gps(int(name[4:])) if name.startswith("gps-") else FILES[name]()
        write_trajectories(tracks, path)
    return path


def gps(n_fixes: int = 17_280) -> Trajectories:
    """Simulate one track with a fix every 5 s and errors of 10 m; a day has 17,280 fixes."""
    x = _simulated("langevin+noise", n_fixes - 1, 5.0, gamma=1 / 600, k=100.0, sigma=10.0)
    return Trajectories.from_arrays(x, dt=5.0, length_unit="m", time_unit="s")


def animal(*, jitter: float = 0.0, seed: int = 1) -> Trajectories:
    """Simulate an animal's collar: 3,526 hourly fixes, some of them missing.

    Args:
        jitter: Standard deviation of the times in seconds; zero for whole hours.
        seed: Random seed.
    """
    rng = np.random.default_rng(seed)
    hours = np.cumsum(rng.choice([1, 2, 3, 7], size=3525, p=[0.93, 0.05, 0.015, 0.005]))
    times = np.concatenate([[0.0], hours * HOUR])
    times = times + jitter * rng.uniform(-1, 1, len(times))
    # A home range of about 800 m, crossed in days.
    theta = {"gamma": 1 / (2 * HOUR), "well": 1 / (3 * DAY), "k": 2.5}
    x = _walked("confined", times, theta, rng) + 15.0 * rng.standard_normal((len(times), 2))
    return Trajectories.from_arrays([x], times=[times], length_unit="m", time_unit="s")


def drifters(seed: int = 2) -> Trajectories:
    """Simulate satellite fixes of 8 drifters over 40 days: 10 to 20 a day, errors of 300 m."""
    rng = np.random.default_rng(seed)
    tracks, stamps = [], []
    for _ in range(8):
        times = np.round(np.sort(rng.uniform(0, 40 * DAY, rng.integers(400, 800))), 0)
        times = times[np.concatenate([[True], np.diff(times) > 60])]
        x = _walked("langevin", times, {"gamma": 1 / (1.5 * DAY), "k": 2000.0}, rng)
        tracks.append(x + 300.0 * rng.standard_normal(x.shape))
        stamps.append(times)
    return Trajectories.from_arrays(tracks, times=stamps, length_unit="m", time_unit="s")


def colloids(seed: int = 3) -> Trajectories:
    """Simulate 400 single-particle tracks of 10 to 100 frames at 30 ms, errors of 20 nm."""
    rng = np.random.default_rng(seed)
    x = _simulated("brownian+noise", 100, 0.03, n=400, kappa=0.2, sigma=0.02)
    tracks = [track[: rng.integers(10, 101)] for track in x]
    return Trajectories.from_arrays(tracks, dt=0.03, length_unit="um", time_unit="s")


def molecules(seed: int = 4) -> Trajectories:
    """Simulate 10,000 molecules of two classes, 4 to 20 frames each, errors of 20 nm."""
    rng = np.random.default_rng(seed)
    slow = _simulated("brownian+noise", 19, 0.02, n=6000, kappa=0.05, sigma=0.02)
    fast = _simulated("brownian+noise", 19, 0.02, n=4000, seed=9, kappa=1.0, sigma=0.02)
    tracks = [one[: rng.integers(4, 21)] for one in rng.permutation(np.concatenate([slow, fast]))]
    return Trajectories.from_arrays(tracks, dt=0.02, length_unit="um", time_unit="s")


def square() -> Trajectories:
    """Simulate 100 particles with 100 steps in two dimensions."""
    x = _simulated("langevin", 100, 0.1, n=100, gamma=1.0, k=1.0)
    return Trajectories.from_arrays(x, dt=0.1)


def floats() -> Trajectories:
    """Simulate 38 daily tracks of 1,000 days, of a velocity with two time scales."""
    x = _simulated("two_scale", 1000, 1.0, n=38, gamma=0.5, ratio=0.1, share=0.4, k=100.0)
    return Trajectories.from_arrays(x, dt=1.0, length_unit="km", time_unit="d")


def _simulated(
    name: str, n_steps: int, tau: float, *, n: int = 1, seed: int = 0, **theta: float
) -> np.ndarray:
    """Simulate positions at regular times with the package."""
    model: Any = model_named(name, MODELS, 2)(**theta)
    key = jax.random.key(seed)
    return np.asarray(model.simulate(key, n_particles=n, n_steps=n_steps, n_dim=2, tau=tau))


def _walked(
    name: str, times: np.ndarray, theta: dict[str, float], rng: np.random.Generator
) -> np.ndarray:
    """Simulate one particle at any times, by the model's exact transition."""
    model: Any = model_named(name, MODELS, 2)(**theta)
    intervals, which = np.unique(np.diff(times), return_inverse=True)
    propagators, noises = map(np.asarray, jax.vmap(model.transition)(jnp.asarray(intervals)))
    roots = np.stack([_root(noise) for noise in noises])
    state = rng.standard_normal((2, propagators.shape[-1])) @ _root(model.initial_covariance()).T
    x = np.zeros((len(times), 2))
    for i, w in enumerate(which):
        kicks = rng.standard_normal(state.shape) @ roots[w].T
        state = state @ propagators[w].T + kicks
        x[i + 1] = state[:, 0]
    return x


def _root(covariance: Any) -> np.ndarray:
    values, vectors = np.linalg.eigh(np.asarray(covariance))
    return vectors * np.sqrt(np.maximum(values, 0.0))


FILES: dict[str, Callable[[], Trajectories]] = {
    "animal": animal,
    "animal-jittered": lambda: animal(jitter=120.0),
    "drifters": drifters,
    "colloids": colloids,
    "molecules": molecules,
    "square": square,
    "floats": floats,
}
