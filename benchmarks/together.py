"""How often independent treatment of particles that share motion misleads, and shared motion not.

    python benchmarks/together.py common 1000
    python benchmarks/together.py flow 300

Data sets of 20 particles and 8 steps, half Brownian and half Langevin, all parameters drawn from
the priors; mean probability of Langevin, false certainties, and the logarithmic score.
"""

import sys
import time

import jax
import numpy as np
from scipy.special import expit

from driftbayes.data.sampling import Displacements
from driftbayes.inference import Hypothesis, evidence
from driftbayes.models import MODELS, AbstractModel, Brownian, Common, Flow, Langevin, model_named
from driftbayes.models.options.correlated import simulate_flow
from driftbayes.priors import AbstractPrior, Exponential, Fixed, Uniform

N_PARTICLES, N_STEPS, SIDE = 20, 8, 2.0
PRIORS: dict[str, AbstractPrior] = {
    "common": Uniform(0.0, 1.0),
    "own_share": Uniform(0.0, 1.0),
    "nu": Fixed(1.5),
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


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main(sys.argv[1], int(sys.argv[2]))
