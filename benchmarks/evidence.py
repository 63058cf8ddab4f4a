"""Samplers of evidence on targets with known results: time, error, calibration of the error.

`python benchmarks/evidence.py [SEEDS [WORKERS]]`, 20 seeds and one process by default, writes
docs/figures/evidence-methods.json and prints the tables of docs/evidence.md; `make bench` runs it
with 3 seeds. A row that takes more than a minute stops after half of the seeds; it says how many it
had. Single parts, added to the file: `python benchmarks/evidence.py scan [EVERY]`, a model with
five parameters at every tenth (or EVERY-th) tau; `... thirds`, the disagreement between thirds of
the draws of bridge sampling. `... tables` only prints the file.
"""

import json
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import jax
import numpy as np

from driftbayes.errors import Status
from driftbayes.inference import Batch, Hypothesis, evidence, evidence_batch
from driftbayes.inference._bridge import bridge
from driftbayes.inference._metropolis import Cloud
from driftbayes.inference._nested import nested
from driftbayes.inference._newton import Components
from driftbayes.inference._quasi_importance import quasi_importance
from driftbayes.inference._samples import Estimate
from driftbayes.inference._smc import smc
from driftbayes.inference._target import AbstractTarget
from driftbayes.priors import Exponential
from driftbayes.reproduce.langevin import TAUS, hypotheses, simulate_data

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "inference"))
from targets import ConstantTarget, GaussianTarget, PeaksTarget, TwoSpeeds

SAMPLERS = ("laplace_is", "bridge", "smc", "nested")
_TAUS = (0.1, 1.0, 10.0, 50.0)
# Seconds after which a row takes no more seeds, if it has had half of them.
_ENOUGH = 60.0
_FILE = Path("docs/figures/evidence-methods.json")


def _guide(target: AbstractTarget) -> Cloud:
    """A Gaussian of the posterior's place and width, known here in closed form."""
    n = target.n_dim
    if isinstance(target, GaussianTarget):
        spread = np.sqrt(target.sd**2 / (1 + target.sd**2))
        return Cloud(target.mean / (1 + target.sd**2), np.diag(spread))
    width = 3.0 if isinstance(target, PeaksTarget) else 1.0
    return Cloud(np.zeros(n), width * np.eye(n))


def _on_target(method: str, target: AbstractTarget, seed: int) -> Estimate:
    if method == "laplace_is":
        return _importance(target, seed)
    rng = np.random.default_rng(seed)
    if method == "bridge":
        # With two modes the start is unknown: from the prior.
        guide = None if isinstance(target, PeaksTarget) else _guide(target)
        return bridge(target, guide, rng)
    return smc(target, rng) if method == "smc" else nested(target, rng)


def _importance(target: AbstractTarget, seed: int) -> Estimate:
    guide = _guide(target)

    def log_f(z: Any) -> tuple[Any, Any]:
        log_prior, log_likelihood = target.log_densities(z)
        return log_prior + log_likelihood, log_likelihood

    components = Components(guide.center[None], guide.factor[None], np.zeros(1))
    return quasi_importance(log_f, components, seed=seed)


def _row(
    name: str, method: str, n_dim: int, exact: float, run: Callable[[int], Any], n_seeds: int
) -> dict[str, Any]:
    start = time.perf_counter()
    run(10_000)
    first = time.perf_counter() - start
    off, errors, calls, doubts = [], [], [], 0
    seconds: list[float] = []
    for seed in range(n_seeds):
        if sum(seconds) > _ENOUGH and 2 * seed >= n_seeds:
            break
        start = time.perf_counter()
        found = run(seed)
        seconds.append(time.perf_counter() - start)
        off.append(found.log_evidence - exact)
        errors.append(found.log_evidence_err)
        calls.append(found.n_evaluations)
        doubts += found.status is not Status.OK
    # An error of 0 has no z: a constant likelihood leaves nothing to estimate.
    z = np.array(off)[np.array(errors) > 0] / np.array(errors)[np.array(errors) > 0]
    row = {
        "target": name,
        "method": method,
        "n_dim": n_dim,
        "seconds_first": first,
        "seconds": float(np.median(seconds)),
        "evaluations": float(np.mean(calls)),
        "mean_off": float(np.mean(off)),
        "scatter": float(np.std(off, ddof=1)),
        "quoted": float(np.mean(errors)),
        "z_mean": float(z.mean()) if len(z) else None,
        "z_sd": float(z.std(ddof=1)) if len(z) > 1 else None,
        "n_seeds": len(off),
        # Answers that say themselves that they are not to be used; they count in the rest.
        "n_not_ok": doubts,
    }
    print(_line(row), flush=True)
    return row


TARGETS: dict[str, Any] = {
    "gaussian, 1": GaussianTarget.make(1),
    "gaussian, 4": GaussianTarget.make(4),
    "gaussian, 10": GaussianTarget.make(10),
    "two peaks, 2": PeaksTarget.make(2),
    "constant, 2": ConstantTarget(2),
}


def analytic_row(name: str, method: str, n_seeds: int) -> dict[str, Any]:
    """Measure a sampler on a target whose evidence is known in closed form."""
    target = TARGETS[name]

    def run(seed: int) -> Estimate:
        return _on_target(method, target, seed)

    return _row(name, method, target.n_dim, target.log_evidence, run, n_seeds)


def langevin_row(name: str, method: str, n_seeds: int) -> dict[str, Any]:
    """Measure a sampler on the paper's Langevin experiment, against quadrature.

    Args:
        name: Model and sampling time, as in "langevin, τ 10".
        method: Name of the sampler.
        n_seeds: Number of seeds.
    """
    model, tau = name.split(", τ ")
    hypothesis = next(h for h in hypotheses() if h.name == model)
    place = int(np.argmin(np.abs(np.log(TAUS / float(tau)))))
    data = Batch.of(simulate_data(0)[place])
    exact = evidence(hypothesis, data).log_evidence

    def run(seed: int) -> Any:
        return evidence(hypothesis, data, method=method, seed=seed)

    return _row(name, method, len(hypothesis.names), exact, run, n_seeds)


def rows(n_seeds: int, workers: int = 1) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Measure all samplers on known targets and on the Langevin experiment.

    Args:
        n_seeds: Number of seeds.
        workers: Number of processes; times are those of processes side by side.
    """
    names = [f"{h.name}, τ {tau:g}" for h in hypotheses() for tau in _TAUS]
    parts = [(analytic_row, list(TARGETS)), (langevin_row, names)]
    with ProcessPoolExecutor(workers, get_context("spawn"), initializer=_double) as pool:
        tasks = [
            [pool.submit(row, name, method, n_seeds) for name in names for method in SAMPLERS]
            for row, names in parts
        ]
        known, simulated = ([task.result() for task in part] for part in tasks)
    return known, simulated


def _double() -> None:
    jax.config.update("jax_enable_x64", True)


def many_parameters(every: int = 10) -> dict[str, Any]:
    """A scan of a model with five parameters over 100 sampling times, or every so many of them."""
    unit = Exponential(mean=1.0)
    hypothesis = Hypothesis(TwoSpeeds, **dict.fromkeys(TwoSpeeds.parameters, unit))
    batch = Batch.stack([Batch.of(data) for data in simulate_data(0)[::every]])
    out: dict[str, Any] = {"n_taus": len(batch), "n_parameters": len(hypothesis.names)}
    values, errors = {}, {}
    for method in ("laplace_is", "smc", "bridge"):
        start = time.perf_counter()
        found = evidence_batch([hypothesis], batch, method=method)
        # The first and only run: compilation is in it, as it is for a user's scan.
        out[f"{method}_seconds"] = time.perf_counter() - start
        values[method] = np.array([e.log_evidence for e in found])
        errors[method] = np.array([e.log_evidence_err for e in found])
        out[f"{method}_quoted"] = float(np.median(errors[method]))
        out[f"{method}_not_ok"] = int(sum(e.status.value != "ok" for e in found))
        out[f"{method}_warned"] = int(sum(len(e.warnings) > 0 for e in found))
        print(method, out[f"{method}_seconds"], flush=True)
    for method in ("laplace_is", "smc"):
        off = values[method] - values["bridge"]
        z = off / np.hypot(errors[method], errors["bridge"])
        out[f"{method}_minus_bridge_median"] = float(np.median(off))
        out[f"{method}_minus_bridge_largest"] = float(np.max(np.abs(off)))
        out[f"{method}_minus_bridge_z_mean"] = float(np.mean(z))
        out[f"{method}_minus_bridge_z_sd"] = float(np.std(z, ddof=1))
    return out


def thirds(n_seeds: int = 50) -> dict[str, Any]:
    """Is bridge's disagreement the χ² of two degrees of freedom that it should be?"""
    one = Batch.of(simulate_data(0)[int(np.argmin(np.abs(np.log(TAUS / 1.0))))])
    out: dict[str, Any] = {"n_seeds": n_seeds}
    for hypothesis in hypotheses():
        found = [evidence(hypothesis, one, method="bridge", seed=100 + s) for s in range(n_seeds)]
        value = np.array([e.diagnostics["disagreement"] for e in found])
        out[f"{hypothesis.name}_mean"] = float(value.mean())
        # By chance a tenth and a hundredth of them.
        out[f"{hypothesis.name}_above_4.6"] = int(np.sum(value > 4.605))
        out[f"{hypothesis.name}_above_9.2"] = int(np.sum(value > 9.210))
        out[f"{hypothesis.name}_largest"] = float(value.max())
    return out


def evidence_methods(n_seeds: int = 3, workers: int = 1) -> dict[str, Any]:
    """Run all parts of this benchmark."""
    known, simulated = rows(n_seeds, workers)
    parts = {"many_parameters": many_parameters(), "thirds": thirds()}
    return {"analytic": known, "langevin": simulated} | parts


def _line(row: dict[str, Any]) -> str:
    """A row as Markdown."""
    z_mean, z_sd = ("–" if row[z] is None else f"{row[z]:.2f}" for z in ("z_mean", "z_sd"))
    return (
        f"| {row['target']} | {row['method']} | {row['seconds']:.2g} | {row['evaluations']:.3g} | "
        f"{row['mean_off']:+.4f} | {row['scatter']:.4f} | {row['quoted']:.4f} | {z_mean} | "
        f"{z_sd} | {row['n_seeds']} | {row['n_not_ok']} |"
    )


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as Markdown."""
    columns = "target|method|seconds|evaluations|mean off|scatter|quoted|z mean|z sd|seeds|not ok"
    head = f"| {' | '.join(columns.split('|'))} |"
    return "\n".join([head, "|---" * len(columns.split("|")) + "|", *map(_line, rows)])


def _write(result: dict[str, Any]) -> None:
    _FILE.parent.mkdir(parents=True, exist_ok=True)
    _FILE.write_text(json.dumps(result, indent=1, allow_nan=False) + "\n")


if __name__ == "__main__":
    _double()
    parts = {"scan": ("many_parameters", many_parameters), "thirds": ("thirds", thirds)}
    word = sys.argv[1] if len(sys.argv) > 1 else "20"
    if word in parts or word == "tables":
        result = json.loads(_FILE.read_text())
        if word in parts:
            name, function = parts[word]
            result[name] = function(*map(int, sys.argv[2:]))
    else:
        result = evidence_methods(int(word), int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    _write(result)
    print(table(result["analytic"] + result["langevin"]))
    for name in ("many_parameters", "thirds"):
        for key, value in result.get(name, {}).items():
            print(f"{name}: {key} {value:.4g}")
