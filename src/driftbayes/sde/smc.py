r"""SMC²: a tempered population of parameter values, each with the random numbers of its own filter.

The seed of the filter is an additional coordinate with a standard normal prior. In the joint space
the estimated likelihood is a deterministic function, and its mean over the seed is the true
likelihood. The SMC sampler of the other models therefore applies unchanged. A move that proposes
new parameters also proposes a new seed: pseudo-marginal Metropolis.
"""

__all__ = ["sde_smc"]

from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from driftbayes.inference.hypothesis import Hypothesis
from driftbayes.inference.methods import SMC, sampler_options
from driftbayes.inference.samples import Estimate
from driftbayes.inference.smc import smc_twice
from driftbayes.inference.target import AbstractTarget
from driftbayes.jax_typing import Key, Scalar
from driftbayes.sde.filter import Filter, log_likelihood
from driftbayes.sde.likelihood import ParticleDensity, filter_inputs
from driftbayes.sde.tracks import Tracks

# Fewer particles than for an exact likelihood, which takes a thousandth of the time.
_DEFAULTS = {"n_particles": 64, "n_islands": 8, "n_moves": 4}


class SeededTarget(AbstractTarget):
    """Prior and estimated likelihood of the parameters and a seed.

    Args:
        hypothesis: Model family and prior.
        tracks: Runs, arranged in blocks.
        particle_filter: Configuration of the filter.
        substeps: Substeps between two fixes.
        key_data: Data of the random key into which the seed is folded.
    """

    hypothesis: Hypothesis
    tracks: tuple[Tracks, ...]
    particle_filter: Filter = eqx.field(static=True)
    substeps: Any
    key_data: Any

    @property
    def n_dim(self) -> int:
        return len(self.hypothesis.names) + 1

    def log_prior(self, z: Float[Array, " parameter"]) -> Scalar:
        theta = self.hypothesis.from_unconstrained(z[:-1])
        value = self.hypothesis.log_prior(theta) + self.hypothesis.log_jacobian(z[:-1])
        value = value + jax.scipy.stats.norm.logpdf(z[-1])
        return jnp.where(jnp.isnan(value), -jnp.inf, value)

    def log_likelihood(self, z: Float[Array, " parameter"]) -> Scalar:
        model = self.hypothesis.at(self.hypothesis.from_unconstrained(z[:-1]))
        sde, inputs = filter_inputs(model, jnp.asarray(self.substeps))
        # Every change of the coordinate, however small, gives another seed.
        bits = jax.lax.bitcast_convert_type(z[-1], jnp.uint32)
        key = jax.random.wrap_key_data(jnp.asarray(self.key_data))
        key = jax.random.fold_in(jax.random.fold_in(key, bits[0]), bits[1])
        parts = [
            log_likelihood(sde.law, self.particle_filter, inputs, block, key)
            for block in self.tracks
        ]
        value = jnp.sum(jnp.concatenate(parts))
        return jnp.where(jnp.isnan(value), -jnp.inf, value)

    def sample_prior(self, key: Key) -> Float[Array, " parameter"]:
        keys = jax.random.split(key, self.n_dim)
        priors = [self.hypothesis.priors[name] for name in self.hypothesis.names]
        draws = [prior.sample(k) for prior, k in zip(priors, keys, strict=False)]
        z = self.hypothesis.to_unconstrained(jnp.stack(draws))
        return jnp.append(z, jax.random.normal(keys[-1], dtype=z.dtype))


def sde_smc(hypothesis: Hypothesis, density: ParticleDensity, key: Key, method: SMC) -> Estimate:
    """Estimate the evidence by SMC².

    Args:
        hypothesis: Model family and prior.
        density: Data and filter.
        key: Random key.
        method: Options of the sampler.
    """
    key_target, key_sampler = jax.random.split(key)
    key_data = np.asarray(jax.random.key_data(key_target))
    substeps = np.asarray(density.substeps)
    # SMC² compiles its own program, so use more particles instead of repeated filters.
    particle_filter = replace(
        density.particle_filter, particles=density.particle_filter.particles * density.repeats
    )
    target = SeededTarget(hypothesis, density.tracks, particle_filter, substeps, key_data)
    options = {**_DEFAULTS, **sampler_options(method)}
    estimate = smc_twice(target, key_sampler, **options)
    return replace(estimate, z=estimate.z[:, :-1])
