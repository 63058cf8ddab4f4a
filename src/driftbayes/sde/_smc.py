r"""SMC²: a tempered population of parameter values, each with an estimate of its own likelihood.

The random numbers of the filter are an additional coordinate. In the joint space the estimated
likelihood is a deterministic function, and its mean over the random numbers is the true likelihood.
The SMC sampler of the other models therefore applies unchanged. A move that proposes new parameters
also proposes new random numbers, drawn from their own distribution: pseudo-marginal Metropolis. A
point keeps its estimate until it is replaced, so that the random numbers need not be stored.
"""

from dataclasses import dataclass, replace

import jax
import numpy as np

from driftbayes._jax_typing import Key
from driftbayes._typing import FloatArray
from driftbayes.inference._density import Density
from driftbayes.inference._hypothesis import Hypothesis, prior_quantiles
from driftbayes.inference._methods import SMC, sampler_options
from driftbayes.inference._samples import Estimate
from driftbayes.inference._smc import smc_twice
from driftbayes.inference._target import AbstractTarget, PosteriorTarget
from driftbayes.sde._likelihood import ParticleDensity

# Fewer particles than for an exact likelihood, which takes a thousandth of the time.
_DEFAULTS = {"n_particles": 64, "n_islands": 8, "n_moves": 4}


@dataclass(frozen=True, eq=False)
class PseudoMarginalTarget(AbstractTarget):
    """Prior and unbiased estimates of the likelihood, with new random numbers at every call.

    Args:
        hypothesis: Model family and prior.
        density: Data and filter.
        rng: Random numbers, from which each call takes the seed of its filters.
    """

    hypothesis: Hypothesis
    density: ParticleDensity
    rng: np.random.Generator

    @property
    def n_dim(self) -> int:
        return len(self.hypothesis.names)

    def log_densities(self, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        seeded = replace(self.density, seed=int(self.rng.integers(1 << 32)))
        return PosteriorTarget(Density(self.hypothesis, seeded)).log_densities(z)

    def sample_prior(self, rng: np.random.Generator, n: int) -> FloatArray:
        return prior_quantiles(self.hypothesis, rng.random((n, self.n_dim)))


def sde_smc(hypothesis: Hypothesis, density: ParticleDensity, key: Key, method: SMC) -> Estimate:
    """Estimate the evidence by SMC².

    Args:
        hypothesis: Model family and prior.
        density: Data and filter.
        key: Random key.
        method: Options of the sampler.
    """
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)).ravel())
    target = PseudoMarginalTarget(hypothesis, density, rng)
    return smc_twice(target, rng, **{**_DEFAULTS, **sampler_options(method)})
