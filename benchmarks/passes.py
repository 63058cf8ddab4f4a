"""The pass over the data: against memory bandwidth, and growth with the length of a trajectory."""

import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from driftbayes.data.sampling import Displacements
from driftbayes.likelihood import PaddedSteps, second_moments
from driftbayes.models import Langevin


def _best(function: Callable[[], Any], repeats: int = 5) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def statistics_pass() -> list[dict[str, Any]]:
    """Bytes per second of the second moments, against reading the same array and against BLAS."""
    rows = []
    rng = np.random.default_rng(0)
    for n_particles, n_steps, n_dim in ((2_000_000, 10, 3), (1_000_000, 25, 2), (200, 150_000, 2)):
        dx = rng.standard_normal((n_particles, n_steps, n_dim))
        data = Displacements.from_array(dx, 1.0)
        seconds = _best(lambda d=data: second_moments(d))  # type: ignore[misc]
        # The most a pass could do: read every number once, on all cores that NumPy uses.
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
    """Seconds of the pass, and of one state-space likelihood, for one ever longer trajectory."""
    rows = []
    model = Langevin(gamma=1.0, k=1.0)
    likelihood = jax.jit(lambda gamma, data: Langevin(gamma=gamma, k=1.0).log_likelihood(data))
    for n_steps in (10_000, 100_000, 1_000_000):
        x = model.simulate(jax.random.key(0), n_particles=1, n_steps=n_steps, n_dim=2, tau=0.1)
        data = Displacements.from_array(np.diff(np.asarray(x), axis=1), 0.1)
        padded = PaddedSteps.from_displacements(data)
        likelihood(1.0, padded).block_until_ready()
        rows.append(
            {
                "steps": n_steps,
                "moments_seconds": _best(lambda d=data: second_moments(d), 3),  # type: ignore[misc]
                "kalman_seconds": _best(
                    lambda p=padded: likelihood(1.0, p).block_until_ready(),  # type: ignore[misc]
                    3,
                ),
            }
        )
    return rows
