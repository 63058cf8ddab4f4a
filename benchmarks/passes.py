"""Speed of the pass over the data: relative to memory bandwidth, and growth with length."""

import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from driftbayes.data._sampling import Displacements
from driftbayes.likelihood import second_moments
from driftbayes.models import Langevin


def _best(function: Callable[[], Any], repeats: int = 5) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def statistics_pass() -> list[dict[str, Any]]:
    """Measure bytes per second of the second moments, of reading the array, and of BLAS."""
    rows = []
    rng = np.random.default_rng(0)
    for n_particles, n_steps, n_dim in ((2_000_000, 10, 3), (1_000_000, 25, 2), (200, 150_000, 2)):
        dx = rng.standard_normal((n_particles, n_steps, n_dim))
        data = Displacements.from_array(dx, 1.0)
        seconds = _best(lambda d=data: second_moments(d))  # type: ignore[misc]
        # Upper limit: reading every number once, on all cores that NumPy uses.
        flat = dx.reshape(-1)
        reading = _best(lambda f=flat: f @ f)  # type: ignore[misc]
        width = min(n_steps, 32)
        block = np.asfortranarray(dx.reshape(-1)[: width * 200_000].reshape(width, -1))
        product = _best(lambda b=block: b @ b.T)  # type: ignore[misc]
        flops = 2 * width * block.size / product
        rows.append(
            {
                "size": f"{n_particles} x {n_steps} x {n_dim}",
                "gigabytes": dx.nbytes / 1e9,
                "gigabytes_per_second": dx.nbytes / 1e9 / seconds,
                "reading_gigabytes_per_second": dx.nbytes / 1e9 / reading,
                "fraction_of_bandwidth": reading / seconds,
                "gigaflops": 2 * width * dx.size / seconds / 1e9,
                "matrix_product_gigaflops": flops / 1e9,
            }
        )
        del dx, data, flat, block
    return rows


def long_trajectories() -> list[dict[str, Any]]:
    """Time the pass and one state-space likelihood for trajectories of increasing length."""
    rows = []
    model = Langevin(gamma=1.0, k=1.0)
    for n_steps in (10_000, 100_000, 1_000_000):
        x = model.simulate(jax.random.key(0), n_particles=1, n_steps=n_steps, n_dim=2, tau=0.1)
        data = Displacements.from_array(np.diff(np.asarray(x), axis=1), 0.1)
        model.log_likelihood(data, engine="kalman")
        rows.append(
            {
                "steps": n_steps,
                "moments_seconds": _best(lambda d=data: second_moments(d), 3),  # type: ignore[misc]
                "filter_seconds": _best(
                    lambda d=data: model.log_likelihood(d, engine="kalman"),  # type: ignore[misc]
                    3,
                ),
            }
        )
    return rows
