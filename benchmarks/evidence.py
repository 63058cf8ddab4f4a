"""Every sampler of evidence on targets with known answers: time, error, honesty of the error.

`python benchmarks/evidence.py [SEEDS]`, 20 by default, writes docs/figures/evidence-methods.json,
row by row, and prints the tables of docs/evidence.md; `make bench` runs it with 3 seeds. A row that
takes more than a minute stops there, but not before half of the seeds; it says how many it had.
Parts alone, added to the file: `python benchmarks/evidence.py scan [EVERY]`, a model with five
parameters at every tenth tau or every so many; `... thirds`, the disagreement between thirds of
bridge's draws. `... tables` does nothing but print what the file has.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from driftbayes.errors import Status
from driftbayes.inference import Batch, Hypothesis, evidence, evidence_batch
from driftbayes.inference.bridge import bridge
from driftbayes.inference.nested import nested
from driftbayes.inference.quasi_importance import Components, quasi_importance
from driftbayes.inference.samples import Estimate
from driftbayes.inference.smc import smc
from driftbayes.inference.target import AbstractTarget, Guide
from driftbayes.priors import Exponential
from driftbayes.reproduce.langevin import TAUS, hypotheses, simulate_data
from driftbayes.testing.models import TwoSpeeds
from driftbayes.testing.targets import BimodalTarget, ConstantTarget, GaussianTarget

SAMPLERS = ("laplace_is", "bridge", "smc", "nested")
_TAUS = (0.1, 1.0, 10.0, 50.0)
# Seconds after which a row takes no more seeds, if it has had half of them.
_ENOUGH = 60.0
_FILE = Path("docs/figures/evidence-methods.json")


def _guide(target: AbstractTarget) -> Guide:
    """A Gaussian of the posterior's place and width, known here in closed form."""
    n = target.n_dim
    if isinstance(target, GaussianTarget):
        spread = jnp.sqrt(target.sd**2 / (1 + target.sd**2))
        return Guide(target.mean / (1 + target.sd**2), jnp.diag(spread), jnp.asarray(True))
    width = 3.0 if isinstance(target, BimodalTarget) else 1.0
    return Guide(jnp.zeros(n), width * jnp.eye(n), jnp.asarray(True))


def _on_target(method: str, target: AbstractTarget, seed: int) -> Estimate:
    key = jax.random.key(seed)
    if method == "laplace_is":
        return _importance(target, seed)
    if method == "bridge":
        # Where there are two modes nobody knows where to start: from the prior.
        guide = None if isinstance(target, BimodalTarget) else _guide(target)
        return bridge(target, guide, key)
    return smc(target, key) if method == "smc" else nested(target, key)


def _importance(target: AbstractTarget, seed: int) -> Estimate:
    guide = _guide(target)
    joint = jax.jit(jax.vmap(lambda z: (target.log_joint(z), target.log_likelihood(z))))

    def log_f(z: Any) -> tuple[Any, Any]:
        parts = [joint(jnp.asarray(z[i : i + 32])) for i in range(0, len(z), 32)]
        joints, fits = (np.concatenate([np.asarray(p[k]) for p in parts]) for k in (0, 1))
        return joints, fits

    center, factor = np.asarray(guide.center)[None], np.asarray(guide.factor)[None]
    return quasi_importance(log_f, Components(center, factor, np.zeros(1)), seed=seed)


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


def analytic(n_seeds: int) -> Iterator[dict[str, Any]]:
    """Targets whose evidence is known in closed form."""
    targets: dict[str, Any] = {
        "gaussian, 1": GaussianTarget.make(1),
        "gaussian, 4": GaussianTarget.make(4),
        "gaussian, 10": GaussianTarget.make(10),
        "bimodal, 2": BimodalTarget.make(2),
        "constant, 2": ConstantTarget(jnp.zeros(2)),
    }
    for name, target in targets.items():
        for method in SAMPLERS:

            def run(seed: int, method: str = method, target: Any = target) -> Estimate:
                return _on_target(method, target, seed)

            yield _row(name, method, target.n_dim, target.log_evidence, run, n_seeds)


def langevin(n_seeds: int) -> Iterator[dict[str, Any]]:
    """The paper's Langevin experiment at four sampling times, against quadrature."""
    data = simulate_data(0)
    for hypothesis in hypotheses():
        for tau in _TAUS:
            one = Batch.of(data[int(np.argmin(np.abs(np.log(TAUS / tau))))])
            exact = evidence(hypothesis, one).log_evidence
            for method in SAMPLERS:

                def run(
                    seed: int, method: Any = method, one: Batch = one, h: Hypothesis = hypothesis
                ) -> Any:
                    return evidence(h, one, method=method, seed=seed)

                name = f"{hypothesis.name}, τ {tau:g}"
                yield _row(name, method, len(hypothesis.names), exact, run, n_seeds)


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


def evidence_methods(
    n_seeds: int = 3, report: Callable[[dict[str, Any]], None] | None = None
) -> dict[str, Any]:
    """All of it; `report` is given what there is after every row."""
    result: dict[str, Any] = {"analytic": [], "langevin": []}
    for name, rows in (("analytic", analytic(n_seeds)), ("langevin", langevin(n_seeds))):
        for row in rows:
            result[name].append(row)
            if report is not None:
                report(result)
    return result | {"many_parameters": many_parameters(), "thirds": thirds()}


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
    jax.config.update("jax_enable_x64", True)
    parts = {"scan": ("many_parameters", many_parameters), "thirds": ("thirds", thirds)}
    word = sys.argv[1] if len(sys.argv) > 1 else "20"
    if word in parts or word == "tables":
        result = json.loads(_FILE.read_text())
        if word in parts:
            name, function = parts[word]
            result[name] = function(*map(int, sys.argv[2:]))
    else:
        result = evidence_methods(int(word), _write)
    _write(result)
    print(table(result["analytic"] + result["langevin"]))
    for name in ("many_parameters", "thirds"):
        for key, value in result.get(name, {}).items():
            print(f"{name}: {key} {value:.4g}")
