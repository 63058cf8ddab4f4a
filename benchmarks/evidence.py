"""Every method of evidence on targets with known answers: time, error, honesty of the error.

`python benchmarks/evidence.py [SEEDS]` writes docs/figures/evidence-methods.json and prints the
table of docs/evidence.md; `make bench` runs it with few seeds.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from driftbayes.inference import Batch, Hypothesis, evidence, evidence_batch
from driftbayes.inference.bridge import bridge
from driftbayes.inference.estimate import Estimate
from driftbayes.inference.importance import importance, propose
from driftbayes.inference.nested import nested
from driftbayes.inference.smc import smc
from driftbayes.inference.target import AbstractTarget, Guide
from driftbayes.priors import Exponential
from driftbayes.reproduce.langevin import TAUS, hypotheses, simulate_data
from driftbayes.testing.models import TwoSpeeds
from driftbayes.testing.targets import BimodalTarget, ConstantTarget, GaussianTarget

SAMPLERS = ("laplace_is", "bridge", "smc", "nested")
_TAUS = (0.1, 1.0, 10.0, 50.0)
_FOLDER = Path("docs/figures")


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
        return importance(propose(target, _guide(target), key, 4000))
    if method == "bridge":
        # Where there are two modes nobody knows where to start: from the prior.
        guide = None if isinstance(target, BimodalTarget) else _guide(target)
        return bridge(target, guide, key)
    return smc(target, key) if method == "smc" else nested(target, key)


def _row(
    name: str, method: str, n_dim: int, exact: float, run: Callable[[int], Any], n_seeds: int
) -> dict[str, Any]:
    start = time.perf_counter()
    run(10_000)
    first = time.perf_counter() - start
    off, errors, seconds, calls = [], [], [], []
    for seed in range(n_seeds):
        start = time.perf_counter()
        found = run(seed)
        seconds.append(time.perf_counter() - start)
        off.append(found.log_evidence - exact)
        errors.append(found.log_evidence_err)
        calls.append(found.n_evaluations)
    z = np.array(off) / np.array(errors)
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
        "z_mean": float(z.mean()),
        "z_sd": float(z.std(ddof=1)),
        "n_seeds": n_seeds,
    }
    print(
        f"{name:16s} {method:10s} {row['seconds']:8.3f} s  off {row['mean_off']:+.4f}  scatter "
        f"{row['scatter']:.4f}  quoted {row['quoted']:.4f}  z {row['z_mean']:+.2f} ± "
        f"{row['z_sd']:.2f}",
        flush=True,
    )
    return row


def analytic(n_seeds: int) -> list[dict[str, Any]]:
    """Targets whose evidence is known in closed form."""
    targets: dict[str, Any] = {
        "gaussian, 1": GaussianTarget.make(1),
        "gaussian, 4": GaussianTarget.make(4),
        "gaussian, 10": GaussianTarget.make(10),
        "bimodal, 2": BimodalTarget.make(2),
        "constant, 2": ConstantTarget(jnp.zeros(2)),
    }
    rows = []
    for name, target in targets.items():
        for method in SAMPLERS:
            if (name, method) in {("constant, 2", "nested")}:
                # A plateau: every live point is as likely as every other.
                continue

            def run(seed: int, method: str = method, target: Any = target) -> Estimate:
                return _on_target(method, target, seed)

            rows.append(_row(name, method, target.n_dim, target.log_evidence, run, n_seeds))
    return rows


def langevin(n_seeds: int) -> list[dict[str, Any]]:
    """The paper's Langevin experiment at four sampling times, against quadrature."""
    data = simulate_data(0)
    rows = []
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
                rows.append(_row(name, method, len(hypothesis.names), exact, run, n_seeds))
    return rows


def many_parameters() -> dict[str, Any]:
    """A scan of a model with five parameters over 100 sampling times, per method."""
    unit = Exponential(mean=1.0)
    hypothesis = Hypothesis(TwoSpeeds, **dict.fromkeys(TwoSpeeds.parameters, unit))
    batch = Batch.stack([Batch.of(data) for data in simulate_data(0)])
    out: dict[str, Any] = {"n_taus": len(batch), "n_parameters": 5}
    values = {}
    for method in ("laplace_is", "smc", "bridge"):
        start = time.perf_counter()
        found = evidence_batch([hypothesis], batch, method=method)
        out[f"{method}_seconds"] = time.perf_counter() - start
        values[method] = np.array([e.log_evidence for e in found])
        out[f"{method}_quoted"] = float(np.median([e.log_evidence_err for e in found]))
        out[f"{method}_not_ok"] = int(sum(e.status.value != "ok" for e in found))
        print(method, out[f"{method}_seconds"], flush=True)
    for method in ("laplace_is", "smc"):
        out[f"{method}_minus_bridge_median"] = float(np.median(values[method] - values["bridge"]))
    return out


def evidence_methods(n_seeds: int = 3) -> dict[str, Any]:
    """All of it."""
    return {
        "analytic": analytic(n_seeds),
        "langevin": langevin(n_seeds),
        "many_parameters": many_parameters(),
    }


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as Markdown."""
    head = (
        "| target | method | seconds | evaluations | mean off | scatter | quoted | z mean | z sd |"
    )
    lines = [head, "|---" * 9 + "|"]
    for r in rows:
        lines.append(
            f"| {r['target']} | {r['method']} | {r['seconds']:.2g} | {r['evaluations']:.3g} | "
            f"{r['mean_off']:+.4f} | {r['scatter']:.4f} | {r['quoted']:.4f} | {r['z_mean']:+.2f} | "
            f"{r['z_sd']:.2f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    result = evidence_methods(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
    _FOLDER.mkdir(parents=True, exist_ok=True)
    (_FOLDER / "evidence-methods.json").write_text(json.dumps(result, indent=1) + "\n")
    print(table(result["analytic"] + result["langevin"]))
