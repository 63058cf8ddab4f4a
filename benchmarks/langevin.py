"""Time of the paper's experiments, relative to the paper's procedure in NumPy and SciPy."""

import time
from dataclasses import replace
from typing import Any

import numpy as np

from driftbayes.comparison._scan import scan_displacements
from driftbayes.data._sampling import Displacements
from driftbayes.models import Langevin
from driftbayes.reproduce.langevin import TAUS, hypotheses, simulate_data
from driftbayes.testing import reference


def plain_seconds(data: Displacements) -> float:
    """Time the paper's procedure: a density per particle and axis, Nelder-Mead, differences."""
    dx = data.as_array()
    start = time.perf_counter()
    reference.laplace_evidence(dx, data.tau, "brownian", {"kappa": 1.0}, tolerance="scipy")
    reference.laplace_evidence(
        dx, data.tau, "langevin", {"gamma": 1.0, "k": 1.0}, tolerance="scipy"
    )
    return time.perf_counter() - start


def ours_seconds(many: list[Displacements], repeats: int = 7) -> tuple[float, float]:
    """Time both models by Laplace and exactly, including the pass over the data: first, best."""

    def once() -> float:
        # New objects, so that nothing is reused from the previous run.
        fresh = [replace(data) for data in many]
        start = time.perf_counter()
        scan_displacements(fresh, hypotheses(), method="laplace")
        scan_displacements(fresh, hypotheses())
        return time.perf_counter() - start

    first = once()
    return first, min(once() for _ in range(repeats))


def langevin_experiment() -> dict[str, Any]:
    """Time the experiment with 100 tau, 100 particles, 10 steps and 3 dimensions."""
    data = simulate_data(seed=0)
    chosen = [10, 50, 60, 85]
    plain = [plain_seconds(data[i]) for i in chosen]
    first, best = ours_seconds(data)
    total = float(np.mean(plain)) * len(data)
    return {
        "size": "100 x 10 x 3, 100 tau",
        "plain_taus": [float(TAUS[i]) for i in chosen],
        "plain_seconds_per_tau": plain,
        "plain_seconds_extrapolated": total,
        "first_call_seconds_with_compilation": first,
        "seconds": best,
        "ratio": total / best,
        "ratio_with_compilation": total / first,
    }


def turbulence_size() -> dict[str, Any]:
    """Time data of the size of the paper's turbulence experiment: 1000 × 25 × 2."""
    import jax

    model = Langevin(gamma=1.0, k=1.0)
    taus = np.geomspace(0.1, 20.0, 100)
    many = []
    for i, tau in enumerate(taus):
        key = jax.random.fold_in(jax.random.key(1), i)
        x = np.asarray(model.simulate(key, n_particles=1000, n_steps=25, n_dim=2, tau=float(tau)))
        many.append(Displacements.from_array(np.diff(x, axis=1), float(tau)))
    chosen = [10, 50, 90]
    plain = [plain_seconds(many[i]) for i in chosen]
    first, best = ours_seconds(many, repeats=3)
    _, alone = ours_seconds([many[50]], repeats=20)
    per_tau = float(np.mean(plain))
    return {
        "size": "1000 x 25 x 2, 100 tau",
        "plain_taus": [float(taus[i]) for i in chosen],
        "plain_seconds_per_tau": plain,
        "first_call_seconds_with_compilation": first,
        "seconds_per_tau_in_scan": best / len(many),
        "seconds_one_tau_alone": alone,
        "ratio": per_tau * len(many) / best,
        "ratio_one_tau_alone": per_tau / alone,
    }
