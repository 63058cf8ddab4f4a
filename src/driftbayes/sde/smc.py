r"""SMC²: a tempered population of parameters, each with the random numbers of its own filter.

The seed of the filter is one more coordinate, with a standard normal prior. In the space of both
the likelihood is a function like any other, and its mean over the seed is the true likelihood: the
sampler of other models, with its moves, its islands and its error, is used as it is. A move that
proposes new parameters proposes a new seed with them: pseudo-marginal Metropolis.
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
from driftbayes.sde.likelihood import ParticleDensity, given_by
from driftbayes.sde.tracks import Tracks

# Fewer than of an exact likelihood, which takes a thousandth of the time.
_USUAL = {"n_particles": 64, "n_islands": 8, "n_moves": 4}


class SeededTarget(AbstractTarget):
    """Prior and estimated likelihood of the parameters and a seed.

    Args:
        hypothesis: Model family and prior.
        tracks: Runs in blocks.
        how: The filter.
        substeps: Substeps between two fixes.
        words: Data of the random key that seeds are mixed with.
    """

    hypothesis: Hypothesis
    tracks: tuple[Tracks, ...]
    how: Filter = eqx.field(static=True)
    substeps: Any
    words: Any

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
        sde, given = given_by(model, jnp.asarray(self.substeps))
        # Any change of the coordinate, however small, is another seed.
        bits = jax.lax.bitcast_convert_type(z[-1], jnp.uint32)
        key = jax.random.wrap_key_data(jnp.asarray(self.words))
        key = jax.random.fold_in(jax.random.fold_in(key, bits[0]), bits[1])
        parts = [log_likelihood(sde.law, self.how, given, block, key) for block in self.tracks]
        value = jnp.sum(jnp.concatenate(parts))
        return jnp.where(jnp.isnan(value), -jnp.inf, value)

    def sample_prior(self, key: Key) -> Float[Array, " parameter"]:
        keys = jax.random.split(key, self.n_dim)
        priors = [self.hypothesis.priors[name] for name in self.hypothesis.names]
        draws = [prior.sample(k) for prior, k in zip(priors, keys, strict=False)]
        z = self.hypothesis.to_unconstrained(jnp.stack(draws))
        return jnp.append(z, jax.random.normal(keys[-1], dtype=z.dtype))


def sde_smc(hypothesis: Hypothesis, density: ParticleDensity, key: Key, method: SMC) -> Estimate:
    """Evidence by SMC².

    Args:
        hypothesis: Model family and prior.
        density: Data and filter.
        key: Random key.
        method: Options of the sampler.
    """
    key_target, key_sampler = jax.random.split(key)
    words = np.asarray(jax.random.key_data(key_target))
    substeps = np.asarray(density.substeps)
    # A program of its own in any case: particles instead of repeated filters.
    how = replace(density.how, particles=density.how.particles * density.repeats)
    target = SeededTarget(hypothesis, density.tracks, how, substeps, words)
    options = {**_USUAL, **sampler_options(method)}
    found = smc_twice(target, key_sampler, **options)
    return replace(found, z=found.z[:, :-1])
