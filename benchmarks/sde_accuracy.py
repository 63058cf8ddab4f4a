"""Accuracy of the evidence of stochastic differential equations, over many seeds.

    python benchmarks/sde_accuracy.py linear --workers 16    # against quadrature
    python benchmarks/sde_accuracy.py well --workers 16      # against a grid solution
    python benchmarks/sde_accuracy.py library --workers 16   # 20 particles x 25 steps of each model
    python benchmarks/sde_accuracy.py limits --workers 16    # where each is Langevin's: exact

`--seeds 20` and `--method smc` (or `laplace_is`) choose. Each worker compiles its own programs.
References are those of the tests, in `tests/sde`.
"""

import argparse
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from driftbayes import (
    SDE,
    Brownian,
    Displacements,
    Evidence,
    Exponential,
    Fixed,
    Hypothesis,
    Langevin,
    Noise,
    evidence,
    scaling_priors,
)
from driftbayes.models import MODELS, model_named
from driftbayes.sde._simulate import simulate_paths

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "sde"))
UNIT = Exponential(1.0)
THETA = {"gamma": 1.3, "k": 0.7}
# Parameters of each library model besides Langevin's: simulated values, and values for which it
# equals Langevin.
LIBRARY: dict[str, tuple[dict[str, float], dict[str, float]]] = {
    "random_flight": ({"slope1": 0.4, "slope2": 0.0}, {"slope1": 0.0, "slope2": 0.0}),
    "nonlinear_friction": ({"nonlinearity": 0.5}, {"nonlinearity": 0.0}),
    "double_well": ({"barrier": 1.0, "separation": 1.0}, {"barrier": 0.0, "separation": 1.0}),
    "fluctuating_dissipation": (
        {"intermittency": 1.0, "renewal": 0.5},
        {"intermittency": 0.0, "renewal": 0.5},
    ),
    "student_langevin": ({"renewal": 0.5}, {}),
}
SIZE, TAU = (20, 25), 0.5
# Name, ln Z minus the reference, its error, and further text.
Found = tuple[str, float, float, str]


def _found(name: str, reference: float, record: Evidence, wall: float) -> Found:
    """Return the part of an evidence that is sent between processes."""
    error = record.log_evidence_err
    shown = {key: float(f"{value:.3g}") for key, value in record.diagnostics.items()}
    words = (
        f"{record.status.value}, {wall:.0f} s, {record.n_evaluations} likelihoods {shown} "
        f"{' '.join(record.warnings)}"
    )
    return name, record.log_evidence - reference, error, words


def _linear(task: tuple[str, str, int]) -> Found:
    from equations import brownian, data_of, langevin

    name, method, seed = task
    data = data_of(langevin(), THETA, n_particles=4, n_steps=12)
    own: Any
    if name == "brownian":
        exact, own = Hypothesis(Brownian, kappa=UNIT), Hypothesis(brownian())
    elif name == "langevin":
        exact, own = (
            Hypothesis(Langevin, gamma=UNIT, k=UNIT),
            Hypothesis(langevin(), gamma=UNIT, k=UNIT),
        )
    else:
        errors = np.random.default_rng(1).normal(scale=0.2, size=(4, 13, 2))
        data = replace(data, dx=data.dx + np.diff(errors, axis=1).reshape(-1, 2))
        wide = Exponential(0.2)
        exact = Hypothesis(Noise(Langevin(gamma=UNIT, k=UNIT), sigma=wide))
        own = Hypothesis(Noise(langevin(), sigma="sigma"), gamma=UNIT, k=UNIT, sigma=wide)
    began = time.perf_counter()
    found = evidence(own, data, method=method, seed=seed)
    wall = time.perf_counter() - began
    return _found(f"{name} {method}", evidence(exact, data).log_evidence, found, wall)


def _well(task: tuple[str, str, int]) -> Found:
    from double_well import double_well, grid_log_evidence, well_data

    _, method, seed = task
    began = time.perf_counter()
    found = evidence(Hypothesis(double_well()), well_data(), method=method, seed=seed)
    wall = time.perf_counter() - began
    return _found(f"double well {method}", grid_log_evidence()[0], found, wall)


def _library_data(name: str, values: dict[str, float]) -> Displacements:
    """Simulate tracks in a plane from positions on both sides of the origin."""
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    start = jnp.asarray(np.random.default_rng(3).uniform(-2, 2, (SIZE[0], 2)))
    model = model_named(name, MODELS)(**THETA, **values)
    assert isinstance(model, SDE)
    law, theta = model.law, model.theta()
    paths, _ = simulate_paths(law, theta, jax.random.key(5), start, n_steps=SIZE[1], tau=TAU)
    x = np.asarray(paths)
    return Displacements.from_array(np.diff(x, axis=1), TAU, start=x[:, 0])


def _library(task: tuple[str, str, int]) -> Found:
    name, method, seed = task
    data = _library_data(name, LIBRARY[name][0])
    rules = scaling_priors(1.0, 1.0)
    plain = evidence(Hypothesis.from_table(model_named("langevin", MODELS), rules), data)
    began = time.perf_counter()
    own = Hypothesis.from_table(model_named(name, MODELS), rules)
    found = evidence(own, data, method=method, seed=seed)
    wall = time.perf_counter() - began
    return _found(f"{name} {method}", plain.log_evidence, found, wall)


def _limits(task: tuple[str, str, int]) -> Found:
    """Fix further parameters where the model equals Langevin (for Student: rapid renewal)."""
    name, method, seed = task
    data = _library_data("sde_langevin", {})
    rules = scaling_priors(1.0, 1.0)
    plain = evidence(Hypothesis.from_table(model_named("langevin", MODELS), rules), data)
    fixed = {key: Fixed(value) for key, value in LIBRARY[name][1].items()}
    if name == "student_langevin":
        fixed = {"renewal": Fixed(200.0)}
    began = time.perf_counter()
    own = Hypothesis.from_table(model_named(name, MODELS), {**rules, **fixed})
    found = evidence(own, data, method=method, seed=seed)
    wall = time.perf_counter() - began
    return _found(f"{name} {method}", plain.log_evidence, found, wall)


STUDIES: dict[str, tuple[Callable[[tuple[str, str, int]], Found], list[str], str, int]] = {
    "linear": (_linear, ["brownian", "langevin", "langevin+noise"], "smc", 20),
    "well": (_well, ["double well"], "laplace_is", 12),
    "library": (_library, list(LIBRARY), "laplace_is", 1),
    "limits": (_limits, list(LIBRARY), "laplace_is", 1),
}


def _report(found: Iterable[Found]) -> None:
    """Print a line for each evidence, then one for each case."""
    cases: dict[str, list[tuple[float, float]]] = {}
    for name, off, error, words in found:
        cases.setdefault(name, []).append((off, error))
        print(f"{name}: {off:+.4f} ± {error:.4f}, {words}", flush=True)
    for name, pairs in cases.items():
        off, error = np.array(pairs).T
        if len(off) > 1:
            z, root = off / error, np.sqrt(len(off))
            print(
                f"{name}: bias {off.mean():+.4f} ± {off.std(ddof=1) / root:.4f}, "
                f"scatter {off.std(ddof=1):.4f}, stated {error.mean():.4f}, "
                f"z {z.mean():+.2f} ± {z.std(ddof=1) / root:.2f}, sd of z {z.std(ddof=1):.2f}"
            )


def main() -> None:
    """Run one of the studies."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("study", choices=STUDIES)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--method")
    parser.add_argument("--only", help="one of the cases")
    options = parser.parse_args()
    function, names, method, n_seeds = STUDIES[options.study]
    names = [options.only] if options.only else names
    seeds = range(options.seeds or n_seeds)
    tasks = [(name, options.method or method, seed) for name in names for seed in seeds]
    if options.workers == 1:
        _report(map(function, tasks))
        return
    # Successive seeds of a case go to the same worker, which compiles its programs once.
    chunk = max(1, -(-len(tasks) // options.workers))
    with multiprocessing.get_context("spawn").Pool(options.workers) as pool:
        _report(pool.imap(function, tasks, chunksize=chunk))


if __name__ == "__main__":
    main()
