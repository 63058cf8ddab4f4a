"""Error rates of verdicts on particles with shared motion, modelled as independent or shared.

    python benchmarks/together.py common 1000
    python benchmarks/together.py flow 300
    python benchmarks/together.py cost 1000
    python benchmarks/together.py gpu 1000
    python benchmarks/together.py neighbours 2000
    python benchmarks/together.py pairs 600

Data sets of 20 particles and 8 steps, half Brownian and half Langevin, all parameters drawn from
the priors; mean probability of Langevin, false certainties, and the log score. "cost"
prints the time of a likelihood and of an evidence of up to N particles and 25 steps, "gpu"
the time of a likelihood on the CPU and on a GPU (or, without one, by JAX on the
CPU) and their difference, and of an evidence on a GPU,
"neighbours" the error of ln L if groups of particles are conditioned on neighbours.

For "pairs", data sets of 20 pairs and 10 steps, half with a free exponent and the others from
the named laws in turn, parameters drawn from the priors: the probability of each law against its
frequency, and for a free exponent the coverage of the central intervals of ξ and K.
"""

import sys
import time
from dataclasses import replace
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import chisquare

from driftbayes.comparison import compare_hypotheses
from driftbayes.data._sampling import Displacements
from driftbayes.inference import Batch, Hypothesis, evidence
from driftbayes.inference._density import Density
from driftbayes.inference._evidence import QUANTILES
from driftbayes.inference._formulas import Rows
from driftbayes.likelihood._engines import Engine
from driftbayes.likelihood._flow import FlowEngine
from driftbayes.likelihood._flow_accelerator import Crowd, accelerator
from driftbayes.models import (
    MODELS,
    AbstractModel,
    Brownian,
    Common,
    Eddies,
    Flow,
    Langevin,
    model_named,
)
from driftbayes.models._options.correlated import simulate_flow
from driftbayes.priors import AbstractPrior, Exponential, Fixed, Uniform
from driftbayes.relative import LAWS, Separations, replicate
from driftbayes.relative._models import law_hypotheses

N_PARTICLES, N_STEPS, SIDE = 20, 8, 2.0
# Mean of the prior of K at a separation of one, over a step of one.
K_SCALE = 0.1
NAMED = ("rayleigh", "richardson", "lundgren")
PRIORS: dict[str, AbstractPrior] = {
    "common": Uniform(0.0, 1.0),
    "own_share": Uniform(0.0, 1.0),
    "nu": Fixed(1.5),
    "divergence": Fixed(0.0),
}


def hypothesis(name: str) -> Hypothesis:
    model = model_named(name, MODELS)
    return Hypothesis(model, **{n: PRIORS.get(n, Exponential(1.0)) for n in model.parameters})


def drawn(option: str, number: int, rng: np.random.Generator) -> Displacements:
    """Simulate the data set of a number: Brownian if even, else Langevin."""
    base: AbstractModel = Brownian(kappa=rng.exponential())
    if number % 2:
        base = Langevin(gamma=rng.exponential(), k=rng.exponential())
    if option == "flow":
        model = Flow(base, rng.exponential(), rng.uniform(), 1.5)
        start = rng.uniform(0.0, SIDE, (N_PARTICLES, 2))
        x = simulate_flow(model, rng, start, N_STEPS, 1.0)
    else:
        others = (rng.exponential(),) if number % 2 else ()
        shared = Common(base, others, rng.uniform())
        key = jax.random.key(number)
        found = shared.simulate(key, n_particles=N_PARTICLES, n_steps=N_STEPS, n_dim=2, tau=1.0)
        x = np.asarray(found)
    return Displacements.from_array(np.diff(x, axis=1), 1.0, start=x[:, 0])


def drawn_pairs(
    law: str, number: int, rng: np.random.Generator
) -> tuple[Separations, float, float]:
    """Simulate twenty pairs that begin one unit apart; return exponent and K of their law too."""
    n = N_PARTICLES
    ones = np.ones(n * 10)
    start = Separations(
        *(ones, ones, ones, ones),
        pair=np.repeat(np.arange(n, dtype=np.int64), 10),
        members=np.arange(2 * n, dtype=np.int64).reshape(-1, 2),
        tau=1.0,
        n_dim=2,
        reference=1.0,
    )
    exponent = LAWS[law].exponent
    xi = rng.uniform(0.0, 2.0) if exponent is None else exponent
    size = rng.exponential(K_SCALE)
    return replicate(start, xi, size, seed=number), xi, size


def pairs(n_sets: int) -> None:
    rng = np.random.default_rng(1)
    begin, chances, truths, places = time.perf_counter(), [], [], []
    for number in range(n_sets):
        # Every other set has a free exponent, and its prior probability is a half.
        law = "power" if number % 2 else NAMED[number // 2 % len(NAMED)]
        data, xi, size = drawn_pairs(law, number, rng)
        hypotheses = law_hypotheses("all", data, {"K": Exponential(K_SCALE)})
        weights = [0.5 if h.name == "power" else 0.5 / len(NAMED) for h in hypotheses]
        found = compare_hypotheses(hypotheses, data, prior_probabilities=weights)
        chances.append([found.probabilities[name] for name in LAWS])
        truths.append([name == law for name in LAWS])
        if law == "power":
            known = {"xi": xi, "K": size}
            quantiles = found["power"].posterior_quantiles
            places.append([int(np.searchsorted(quantiles[n], v)) for n, v in known.items()])
        if (number + 1) % 150 == 0 or number + 1 == n_sets:
            _summarise(np.array(chances), np.array(truths), np.array(places))
            print(f"{number + 1} data sets in {time.perf_counter() - begin:.0f} s", flush=True)


def _summarise(
    chances: NDArray[np.float64], truths: NDArray[np.bool_], places: NDArray[np.int64]
) -> None:
    for name, column in zip(LAWS, (chances - truths).T, strict=True):
        error = column.std() / np.sqrt(len(column))
        print(f"{name}: mean probability less the truth {column.mean():+.4f} ± {error:.4f}")
    print(f"score {np.log(chances[truths] + 1e-300).mean():.4f}")
    expected = np.diff([0.0, *QUANTILES, 1.0])
    for name, column in zip(("xi", "K"), places.T, strict=True):
        counts = np.bincount(column, minlength=len(expected))
        shares = {
            f"{QUANTILES[-1 - i] - QUANTILES[i]:.0%}": counts[i + 1 : len(counts) - 1 - i].sum()
            / len(column)
            for i in range(len(QUANTILES) // 2)
        }
        text = ", ".join(f"{level}: {share:.3f}" for level, share in shares.items())
        p_value = chisquare(counts, expected * len(column)).pvalue
        print(f"{name}: intervals that hold the truth {text}; ranks p = {p_value:.2f}")


def main(option: str, n_sets: int) -> None:
    if option == "pairs":
        pairs(n_sets)
        return
    rng = np.random.default_rng(1)
    compared = {
        "independent": [hypothesis(name) for name in ("brownian", "langevin")],
        f"+{option}": [hypothesis(f"{name}+{option}") for name in ("brownian", "langevin")],
    }
    found: dict[str, list[float]] = {name: [] for name in compared}
    doubtful, begin = 0, time.perf_counter()
    for number in range(n_sets):
        data = drawn(option, number, rng)
        for name, both in compared.items():
            null, other = (evidence(one, data) for one in both)
            doubtful += sum(record.status.name != "OK" for record in (null, other))
            found[name].append(other.log_evidence - null.log_evidence)
    is_langevin = np.arange(n_sets) % 2 == 1
    for name, logs in found.items():
        p = expit(logs)
        right = np.where(is_langevin, p, 1 - p)
        excess = p - is_langevin
        print(
            f"{name}: mean P(langevin) {p.mean():.4f}, less the truth {excess.mean():.4f} "
            f"± {excess.std() / np.sqrt(n_sets):.4f}; Brownian sets with P > 0.99: "
            f"{np.mean(p[~is_langevin] > 0.99):.1%}; score {np.log(right + 1e-300).mean():.4f}"
        )
    took = time.perf_counter() - begin
    print(f"{n_sets} data sets in {took:.0f} s, {doubtful} evidences with a doubtful status")


def crowd(n: int, n_steps: int, option: str = "flow") -> Displacements:
    """Simulate Brownian particles in a square of six correlation lengths."""
    rng = np.random.default_rng(2)
    base = Brownian(kappa=1e-3)
    model = Flow(base, 1.0, 0.2, 1.5) if option == "flow" else Eddies(base, 1.0, 0.2, 1.5, 0.0)
    x = simulate_flow(model, rng, rng.uniform(0.0, 6.0, (n, 2)), n_steps, 1.0)
    return Displacements.from_array(np.diff(x, axis=1), 1.0, start=x[:, 0])


def density(name: str, data: Displacements) -> Density:
    one = hypothesis(name)
    return Density(one, Batch.of(data, model=one.model).engine(0, one.model))


def at_truth(density: Density, engine: Engine | None = None) -> float:
    """Compute ln L at the parameters of `crowd`."""
    truth = {"kappa": 1e-3, "gamma": 1.0, "k": 1e-3, "length": 1.0, "own_share": 0.2}
    theta = np.array([[truth[name] for name in density.hypothesis.names]])
    return float(replace(density, engine=engine or density.engine).terms(theta)[0][0])


def cost(n_most: int) -> None:
    """Print the CPU time of a likelihood, and of an evidence as a multiple of it."""
    first = 0.0
    for n in [n for n in (100, 400, 1000, 2000) if n <= n_most]:
        data = crowd(n, 25)
        for name in ("brownian+flow", "langevin+flow"):
            one = density(name, data)
            at_truth(one)
            begin = time.process_time()
            at_truth(one)
            took = time.process_time() - begin
            first = first or took
            said = f"{n} particles, {name}: {took:.3g} s for a likelihood, ratio {took / first:.3g}"
            if n == 100:
                begin = time.process_time()
                evidence(one.hypothesis, data)
                said += f"; an evidence takes {(time.process_time() - begin) / took:.0f} of them"
            print(said, flush=True)


def gpu(n_most: int) -> None:
    """Print the wall time of a likelihood without and with a GPU, for 16 parameter values."""
    device = accelerator() or jax.devices()[0]
    print(f"device: {device.device_kind} ({device.platform})")
    for n in [n for n in (100, 400, 1000, 2000) if n <= n_most]:
        data = crowd(n, 25)
        for name in ("brownian+flow", "langevin+flow", "brownian+eddies", "langevin+eddies"):
            if n > 1000 and name.startswith("brownian"):
                continue
            one = density(name, data)
            assert isinstance(one.engine, FlowEngine)
            row = [{"length": 1.0, "own_share": 0.2}.get(n, 1e-3) for n in one.hypothesis.names]
            theta = np.tile([row], (16, 1))
            theta[:, one.hypothesis.names.index("length")] = np.linspace(0.5, 2.0, 16)
            x = np.stack([step.x for step in one.engine.steps])
            dx = np.stack([step.dx for step in one.engine.steps])
            if "eddies" in name:
                dx = np.moveaxis(dx, 2, 1).reshape(len(dx), -1, 1)
            numbers = Crowd(x, dx, np.zeros(2), device), Rows(one.hypothesis, theta)
            _on_accelerator(*numbers)
            begin = time.perf_counter()
            there = _on_accelerator(*numbers)
            took = (time.perf_counter() - begin) / len(theta)
            few = theta[:2]
            begin = time.perf_counter()
            here = [one.engine._row(a, b, c, None) for a, b, c in _tasks(Rows(one.hypothesis, few))]
            alone = (time.perf_counter() - begin) / len(few)
            off = [abs(a[0] - b[0]) / abs(b[0]) for a, b in zip(there, here, strict=False)]
            off += [
                np.max(np.abs(a[1] - b[1])) / np.max(np.abs(b[1]))
                for a, b in zip(there, here, strict=False)
            ]
            print(
                f"{n} particles, {name}: {alone:.3g} s on the processor, {took:.3g} s there, "
                f"relative difference {max(off):.1g}",
                flush=True,
            )
            if accelerator() and n <= 1000 and "flow" in name:
                begin = time.perf_counter()
                found = evidence(one.hypothesis, data)
                took = time.perf_counter() - begin
                print(f"    an evidence: {took:.1f} s, ln Z = {found.log_evidence:.3f}", flush=True)


def _tasks(rows: Rows) -> list[tuple[Any, ...]]:
    """Return matrices, initial covariance and shape of each row."""
    lanes = np.moveaxis(rows.lanes(np.array([1.0]))[:, 0], -1, 1)
    matrices = lanes.reshape(-1, *lanes.shape[2:])[: rows.n_rows]
    shapes = np.stack(rows.numbers(), axis=1)
    return list(zip(matrices, rows.starts()[0], map(tuple, shapes.tolist()), strict=True))


def _on_accelerator(crowd: Crowd, rows: Rows) -> list[tuple[float, NDArray[np.float64]]]:
    matrices, start, shapes = (np.stack(part) for part in zip(*_tasks(rows), strict=True))
    return crowd.products(matrices, start, shapes)


def neighbours(n: int) -> None:
    """Print error of ln L and CPU time, for the default and other numbers of neighbours."""
    for option in ("flow", "eddies"):
        data = crowd(n, 1, option)
        one = density(f"brownian+{option}", data)
        assert isinstance(one.engine, FlowEngine)
        exact = replace(one.engine, n_neighbours=n)
        reference = at_truth(one, exact)
        for n_neighbours in (64, 128, one.engine.n_neighbours, 512):
            engine = replace(one.engine, n_neighbours=n_neighbours)
            at_truth(one, engine)
            begin = time.process_time()
            off = at_truth(one, engine) - reference
            took = time.process_time() - begin
            print(f"{n} particles, +{option}, {n_neighbours}: {off:+.3f} of ln L, {took:.2f} s")


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    if sys.argv[1] in ("cost", "gpu", "neighbours"):
        {"cost": cost, "gpu": gpu, "neighbours": neighbours}[sys.argv[1]](int(sys.argv[2]))
    else:
        main(sys.argv[1], int(sys.argv[2]))
