"""Ranks of true parameters in the posteriors of stochastic differential equations.

Parameters are drawn from their priors, eight particles of ten steps are simulated with them in one
dimension, and the posterior is computed with `laplace_is`. The rank of the truth among the draws is
then uniform if filter, substeps and sampler are correct.

`nonlinear_friction` is simulated here by Euler's scheme in NumPy, the others by the package, both
with substeps far shorter than those of the filter.
"""

__all__ = ["MODELS", "ranks"]

import argparse
import json
import multiprocessing
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.stats import chisquare

from driftbayes import Displacements, Exponential, Hypothesis, LogNormal, Normal, Status, evidence
from driftbayes.priors import AbstractPrior
from driftbayes.sde import SDE, double_well, nonlinear_friction, random_flight
from driftbayes.sde._simulate import simulate_paths

N_PARTICLES, N_STEPS, TAU = 8, 10, 0.25
# Substeps of a simulation per sampling time.
N_EULER, N_SIMULATED = 4000, 512
N_BINS = 10
# Tolerated error of ln Z: about 100 effective points, and a quarter as many draws.
TOLERANCE = 0.1

Values = dict[str, float]
Array = NDArray[np.float64]


def _euler_friction(rng: np.random.Generator, values: Values) -> Array:
    """Simulate nonlinear friction from a Gaussian velocity of the stationary variance."""
    gamma, k, beta = values["gamma"], values["k"], values["nonlinearity"]
    mass = [
        quad(lambda r, m=m: r**m * np.exp(-(r**2) / 2 - beta * r**4 / 4), 0, np.inf)[0]
        for m in (0, 2)
    ]
    u = rng.normal(0.0, np.sqrt(gamma * k * mass[1] / mass[0]), N_PARTICLES)
    x, h = np.zeros(N_PARTICLES), TAU / N_EULER
    found = [x]
    for _ in range(N_STEPS):
        for kick in rng.normal(0.0, gamma * np.sqrt(2 * k * h), (N_EULER, N_PARTICLES)):
            new = u - h * gamma * u * (1 + beta * u**2 / (gamma * k)) + kick
            x = x + h * 0.5 * (u + new)
            u = new
        found.append(x)
    return np.stack(found, axis=1)


def _simulated(model: SDE, spread: float) -> Callable[[np.random.Generator, Values], Array]:
    """Return a simulator by the package, with starts up to `spread` from the origin."""

    def simulate(rng: np.random.Generator, values: Values) -> Array:
        start = rng.uniform(-spread, spread, (N_PARTICLES, 1))
        key = jax.random.key(int(rng.integers(2**31)))
        how: dict[str, Any] = {"n_steps": N_STEPS, "tau": TAU, "substeps": N_SIMULATED}
        x, _ = simulate_paths(model.law, model(**values).theta(), key, jnp.asarray(start), **how)
        return np.asarray(x)[:, :, 0]

    return simulate


@dataclass(frozen=True)
class Case:
    """A model, its priors, and its simulator."""

    model: SDE
    priors: Mapping[str, AbstractPrior]
    simulate: Callable[[np.random.Generator, Values], Array]


_UNIT = LogNormal(1.0, 0.5)


def _friction() -> Case:
    priors = {"gamma": _UNIT, "k": _UNIT, "nonlinearity": Exponential(1.0)}
    return Case(nonlinear_friction(), priors, _euler_friction)


def _flight() -> Case:
    priors = {"gamma": _UNIT, "k": _UNIT, "slope": Normal(0.0, 1.0)}
    model = random_flight(
        lambda x, theta: jnp.tanh(theta.slope * x[0]), {"slope": priors["slope"]}, name="flight"
    )
    return Case(model, priors, _simulated(model, 3.0))


def _well() -> Case:
    priors = {"gamma": _UNIT, "k": _UNIT, "barrier": _UNIT, "separation": LogNormal(1.0, 0.3)}
    model = double_well()
    return Case(model, priors, _simulated(model, 1.5))


MODELS = {"nonlinear_friction": _friction, "random_flight": _flight, "double_well": _well}


@cache
def _case(name: str) -> Case:
    """Return a cached model, so that a process compiles its programs once."""
    return MODELS[name]()


def _rank(name: str, number: int, seed: int) -> dict[str, Any]:
    """Simulate a data set, and find the rank of the truth in its posterior."""
    case = _case(name)
    rng = np.random.default_rng([seed, number])
    values = {
        key: float(prior.quantile(np.asarray(rng.uniform()))) for key, prior in case.priors.items()
    }
    x = case.simulate(rng, values)[:, :, None]
    data = Displacements.from_array(np.diff(x, axis=1), TAU, start=x[:, 0])
    began, cpu = time.perf_counter(), time.process_time()
    hypothesis = Hypothesis(case.model, **case.priors)
    found = evidence(hypothesis, data, method="laplace_is", seed=number, tolerance=TOLERANCE)
    assert found.draws is not None
    place, z, inside = {}, {}, {}
    for column, (key, estimate) in zip(found.draws.T, found.parameters.items(), strict=True):
        truth = values[key]
        place[key] = (np.sum(column < truth) + rng.uniform()) / (len(column) + 1)
        shown = truth if case.priors[key].is_signed else np.log(truth)
        z[key] = (shown - estimate.log_mean) / estimate.log_sd
        low, high = estimate.interval
        inside[key] = bool(low <= truth <= high)
    return {
        "rank": place,
        "z": z,
        "inside": inside,
        "ok": found.status is Status.OK,
        "seconds": time.perf_counter() - began,
        "cpu": time.process_time() - cpu,
        "draws": len(found.draws),
        "substeps": found.diagnostics["substeps"],
        "error": found.log_evidence_err,
        "inner": found.diagnostics["inner_particles"],
    }


def _task(task: tuple[str, int, int]) -> dict[str, Any]:
    found = {"task": list(task), **_rank(*task)}
    shown = (f"{found[what]:.3g}" for what in ("seconds", "cpu", "substeps", "inner", "draws"))
    print(", ".join(shown), flush=True)
    return found


def _begin(n_workers: int, counter: Any) -> None:
    """Pin each worker to one core where possible, and use double precision."""
    with counter.get_lock():
        number = counter.value
        counter.value += 1
    cores = sorted(os.sched_getaffinity(0))
    if 1 < n_workers <= len(cores):
        os.sched_setaffinity(0, {cores[number % len(cores)]})
    jax.config.update("jax_enable_x64", True)


def _report(rows: list[dict[str, Any]]) -> None:
    n = len(rows)
    print("parameter     chi2(9)      p  mean z  sd z   in 50 %   in 95 %  ranks in ten bins")
    for name in rows[0]["rank"]:
        rank, z = (np.array([row[what][name] for row in rows]) for what in ("rank", "z"))
        counts = np.histogram(rank, N_BINS, (0, 1))[0]
        test = chisquare(counts)
        half = np.mean(np.abs(rank - 0.5) < 0.25)
        most = np.mean([row["inside"][name] for row in rows])
        print(
            f"{name:13s} {test.statistic:7.1f} {test.pvalue:6.3f} {z.mean():7.2f} {z.std():5.2f} "
            f"{half:9.3f} {most:9.3f}  {' '.join(map(str, counts))}"
        )
    errors = [np.sqrt(p * (1 - p) / n) for p in (0.5, 0.95)]
    print(f"expected: 0 ± {n**-0.5:.2f}, 1; 0.5 ± {errors[0]:.3f}, 0.95 ± {errors[1]:.3f}")
    for what in ("draws", "substeps", "inner", "error", "seconds", "cpu"):
        middle = np.quantile([row[what] for row in rows], [0, 0.5, 1])
        print(f"{what}: least, median, most", *(f"{value:.3g}" for value in middle))
    print(f"status not ok: {sum(not row['ok'] for row in rows)} of {n}")


def ranks(arguments: list[str]) -> None:
    """Print the calibration of one model."""
    parser = argparse.ArgumentParser(prog="sde.py ranks", description=ranks.__doc__)
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("n_sets", type=int, help="number of data sets")
    parser.add_argument("--workers", type=int, default=1, help="number of processes")
    parser.add_argument("--seed", type=int, default=0, help="random seed")
    parser.add_argument("--rows", help="file of finished data sets, to stop and go on")
    args = parser.parse_args(arguments)
    context = multiprocessing.get_context("spawn")
    began = time.perf_counter()
    tasks = [(args.model, number, args.seed) for number in range(args.n_sets)]
    rows = _finished(args.rows, tasks)
    left = [task for task in tasks if list(task) not in [row["task"] for row in rows]]
    counter = context.Value("i", 0)
    with context.Pool(args.workers, _begin, (args.workers, counter)) as pool:
        for row in pool.imap_unordered(_task, left, chunksize=1):
            rows.append(row)
            if args.rows:
                with open(args.rows, "a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
    wall = time.perf_counter() - began
    print(f"\n{args.model}: {len(rows)} data sets, seed {args.seed}, {wall:.0f} s")
    _report(rows)


def _finished(path: str | None, tasks: list[tuple[str, int, int]]) -> list[dict[str, Any]]:
    """Return the rows of these data sets from an earlier run."""
    if path is None or not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    return [row for row in rows if tuple(row["task"]) in tasks]
