"""How often independent treatment of particles that share motion misleads, and shared motion not.

    python benchmarks/together.py common 1000
    python benchmarks/together.py flow 300
    python benchmarks/together.py cost 1000
    python benchmarks/together.py neighbours 2000

Data sets of 20 particles and 8 steps, half Brownian and half Langevin, all parameters drawn from
the priors; mean probability of Langevin, false certainties, and the logarithmic score. "cost"
prints the time of a likelihood and of an evidence of up to so many particles and 25 steps,
"neighbours" by how much ln L is off where groups of particles are conditioned on neighbours.
"""

import sys
import time
from dataclasses import replace

import jax
import numpy as np
from scipy.special import expit

from driftbayes.data.sampling import Displacements
from driftbayes.inference import Batch, Hypothesis, evidence
from driftbayes.inference.density import Density
from driftbayes.likelihood.engines import Engine
from driftbayes.likelihood.flow import FlowEngine
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
from driftbayes.models.options.correlated import simulate_flow
from driftbayes.priors import AbstractPrior, Exponential, Fixed, Uniform

N_PARTICLES, N_STEPS, SIDE = 20, 8, 2.0
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
    """Data set of a number: Brownian if it is even, else Langevin."""
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


def main(option: str, n_sets: int) -> None:
    rng = np.random.default_rng(1)
    pairs = {
        "independent": [hypothesis(name) for name in ("brownian", "langevin")],
        f"+{option}": [hypothesis(f"{name}+{option}") for name in ("brownian", "langevin")],
    }
    found: dict[str, list[float]] = {name: [] for name in pairs}
    doubtful, begin = 0, time.perf_counter()
    for number in range(n_sets):
        data = drawn(option, number, rng)
        for name, both in pairs.items():
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
    """Brownian particles in a square of six correlation lengths."""
    rng = np.random.default_rng(2)
    base = Brownian(kappa=1e-3)
    model = Flow(base, 1.0, 0.2, 1.5) if option == "flow" else Eddies(base, 1.0, 0.2, 1.5, 0.0)
    x = simulate_flow(model, rng, rng.uniform(0.0, 6.0, (n, 2)), n_steps, 1.0)
    return Displacements.from_array(np.diff(x, axis=1), 1.0, start=x[:, 0])


def density(name: str, data: Displacements) -> Density:
    one = hypothesis(name)
    return Density(one, Batch.of(data, model=one.model).engine(0, one.model))


def at_truth(density: Density, engine: Engine | None = None) -> float:
    """Ln L at the parameters of `crowd`."""
    truth = {"kappa": 1e-3, "gamma": 1.0, "k": 1e-3, "length": 1.0, "own_share": 0.2}
    theta = np.array([[truth[name] for name in density.hypothesis.names]])
    return float(replace(density, engine=engine or density.engine).terms(theta)[0][0])


def cost(n_most: int) -> None:
    """Processor time of a likelihood, and of an evidence as a multiple of it."""
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


def neighbours(n: int) -> None:
    """Error of ln L and processor time, with the default number of neighbours and others."""
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
    if sys.argv[1] in ("cost", "neighbours"):
        {"cost": cost, "neighbours": neighbours}[sys.argv[1]](int(sys.argv[2]))
    else:
        main(sys.argv[1], int(sys.argv[2]))
