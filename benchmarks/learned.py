"""Compare learned transition densities with the truth, on simulated displacements.

    python benchmarks/learned.py langevin     # truth: density given the previous displacement
    python benchmarks/learned.py diffusivity  # Brownian motion, diffusivity depends on position
    python benchmarks/learned.py homogeneous  # homogeneous Brownian motion

Each prints the mean log density of displacements of 200 held-out trajectories minus that of the
true density, in nats per displacement, and the standard error over data sets.
"""

__all__ = ["CASES", "deficits"]

import sys
from collections.abc import Callable
from math import exp

import numpy as np

from driftbayes._typing import FloatArray
from driftbayes.data._sampling import Displacements
from driftbayes.learned._densities import learn
from driftbayes.learned._places import cell_places, place_inputs
from driftbayes.learned._splits import Split, Steps, successive_steps
from driftbayes.learned._tree import grow
from driftbayes.testing import reference

N_STEPS, N_TEST, TAU = 50, 200, 1.0
Case = Callable[[np.random.Generator, int], tuple[Displacements, FloatArray]]


def _gaussian(dx: FloatArray, mean: FloatArray | float, variance: FloatArray | float) -> FloatArray:
    """Compute the log density of isotropic Gaussians in two dimensions."""
    return -np.sum((dx - mean) ** 2, axis=1) / (2 * variance) - np.log(2 * np.pi * variance)


def langevin(rng: np.random.Generator, n: int) -> tuple[Displacements, FloatArray]:
    """Simulate Langevin motion; the truth is the density given the previous displacement."""
    dx = reference.simulate_langevin(rng, n, N_STEPS, 2, TAU, 1.0, 1.0)
    data = Displacements.from_array(dx, TAU, start=np.zeros((n, 2)))
    # Variance of a displacement and covariance of successive ones, with gamma = k = tau = 1.
    r0, r1 = 2 * exp(-1), (1 - exp(-1)) ** 2
    steps = successive_steps(data)
    given = _gaussian(steps.dx, r1 / r0 * steps.previous, r0 - r1**2 / r0)
    return data, np.where(steps.has_previous, given, _gaussian(steps.dx, 0.0, r0))


def diffusivity(rng: np.random.Generator, n: int) -> tuple[Displacements, FloatArray]:
    """Simulate independent Gaussian steps whose variance varies in space by a factor of nine."""
    x, dx, truth = rng.uniform(-1, 1, (n, 2)), [], []
    start = x.copy()
    for _ in range(N_STEPS):
        variance = 0.01 * np.exp(1.1 * np.sin(np.pi * x[:, 0]))
        step = np.sqrt(variance)[:, None] * rng.standard_normal((n, 2))
        dx.append(step)
        truth.append(_gaussian(step, 0.0, variance))
        x = x + step
    data = Displacements.from_array(np.stack(dx, 1), TAU, start=start, period=[2.0, None])
    return data, np.stack(truth, 1).ravel()


def homogeneous(rng: np.random.Generator, n: int) -> tuple[Displacements, FloatArray]:
    """Simulate homogeneous Brownian motion."""
    dx = rng.standard_normal((n, N_STEPS, 2))
    data = Displacements.from_array(dx, TAU, start=rng.normal(size=(n, 2)))
    return data, _gaussian(data.dx, 0.0, 1.0)


CASES: dict[str, Case] = {
    "langevin": langevin,
    "diffusivity": diffusivity,
    "homogeneous": homogeneous,
}


def deficits(case: str, n_train: int, n_sets: int, seed: int = 0) -> dict[str, FloatArray]:
    """Compute the mean log density of held-out steps minus the truth, by density and data set.

    Args:
        case: One of `CASES`.
        n_train: Training trajectories, 50 steps each.
        n_sets: Training data sets, scored on the same held-out trajectories.
        seed: Random seed of the data and of the training.
    """
    rng = np.random.default_rng([seed, n_train])
    data, truth = CASES[case](rng, n_train * n_sets + N_TEST)
    steps: Steps = successive_steps(data)
    test = steps.trajectory >= n_train * n_sets
    splits = [Split((steps.trajectory // n_train == i) & ~test, test) for i in range(n_sets)]
    found = learn(steps, place_inputs(data), splits, seed=seed)
    places, is_lonlat = cell_places(data) or (data.origin, False)
    found |= grow(steps, places, splits, is_lonlat=is_lonlat)
    return {
        name: np.array([float(np.mean(logs - truth[test])) for logs in many])
        for name, many in found.items()
    }


def main(case: str) -> None:
    """Print the table of one case."""
    for n_train, n_sets in ((8, 8), (32, 6), (128, 4), (512, 3)):
        found = deficits(case, n_train, n_sets)
        if n_train == 8:
            print("| steps |", " | ".join(found), "|")
            print("|---" * (len(found) + 1) + "|")
        cells = [
            f"{values.mean():+.4f} ± {values.std(ddof=1) / np.sqrt(n_sets):.4f}"
            for values in found.values()
        ]
        print(f"| {n_train * N_STEPS:,} |", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
