"""The density whose mode is sought, ln p(D, θ), in unconstrained coordinates, with derivatives."""

__all__ = ["LogJoint", "evaluations_at_once", "whole_scale"]

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from driftbayes.inference.hypothesis import Hypothesis
from driftbayes.inference.newton import Sweep, derivatives
from driftbayes.jax_typing import Scalar
from driftbayes.likelihood import GaussianTerms, PaddedSteps, memory
from driftbayes.models import Data


def whole_scale(hypothesis: Hypothesis, data: Data) -> int | None:
    """Place in θ of the parameter that multiplies the covariance of these data; None if none does.

    An error of known size in the positions does not grow with any parameter.
    """
    noisy = isinstance(data, PaddedSteps) and data.noisy
    return None if noisy else hypothesis.scale_index


def evaluations_at_once(hypothesis: Hypothesis, data: Data, most: int) -> int:
    """At how many points the likelihood can be evaluated at a time without filling the memory."""
    return memory.evaluations_at_once(data, most, dense=not hypothesis.model.has_state_space)


class LogJoint:
    """ln p(D | θ(z)) + ln p(θ(z)) + extra(z) as a function of z.

    Where the scale multiplies the whole covariance, the engine is run and differentiated along the
    other parameters only; the rest is algebra.

    Args:
        hypothesis: Model family and prior.
        data: What an engine made of the displacements.
        extra: A further term, for example the Jacobian of other coordinates.
    """

    def __init__(
        self, hypothesis: Hypothesis, data: Data, extra: Callable[[Array], Scalar] | None = None
    ) -> None:
        self.hypothesis, self.data, self.extra = hypothesis, data, extra
        self.place = whole_scale(hypothesis, data)
        places = [i for i in range(len(hypothesis.names)) if i != self.place]
        self.others = np.array(places, dtype=int)
        # With no other parameter the engine need run but once.
        alone = self.place is not None and len(self.others) == 0
        self.fixed_terms = self.unit_terms(jnp.zeros(0)) if alone else None

    def unit_terms(self, z_others: Float[Array, " other"]) -> GaussianTerms:
        """Gaussian terms at unit scale."""
        theta = jnp.ones(len(self.hypothesis.names))
        for i, index in enumerate(self.others):
            prior = self.hypothesis.priors[self.hypothesis.names[index]]
            theta = theta.at[index].set(prior.from_unconstrained(z_others[i]))
        return self.hypothesis.at(theta).terms(self.data)

    def log_likelihood(self, theta: Float[Array, " parameter"]) -> Scalar:
        """Ln p(D | θ)."""
        if self.fixed_terms is not None and self.place is not None:
            return self.fixed_terms.log_likelihood(theta[self.place])
        return self.hypothesis.log_likelihood(theta, self.data)

    def __call__(self, z: Float[Array, " parameter"]) -> Scalar:
        """The value at z."""
        theta = self.hypothesis.from_unconstrained(z)
        return self._rest(z, theta) + self.log_likelihood(theta)

    def sweep(self, z: Float[Array, " parameter"]) -> Sweep:
        """Value, gradient and Hessian at z."""
        place = self.place
        if place is None or self.fixed_terms is not None:
            return derivatives(self, z)

        def engine(z_others: Array) -> Array:
            terms = self.unit_terms(z_others)
            return jnp.stack([terms.n, terms.log_det, terms.quadratic])

        value, first, second = derivatives(engine, z[self.others])

        # A function with the same value and derivatives at z, in which the engine is replaced by
        # its own expansion to second order: differentiating it costs next to nothing.
        def expansion(w: Array) -> Scalar:
            step = w[self.others] - z[self.others]
            n, log_det, quadratic = value + first @ step + 0.5 * (second @ step) @ step
            theta = self.hypothesis.from_unconstrained(w)
            terms = GaussianTerms(n, log_det, quadratic)
            return self._rest(w, theta) + terms.log_likelihood(theta[place])

        return derivatives(expansion, z)

    def _rest(self, z: Array, theta: Array) -> Scalar:
        prior = self.hypothesis.log_prior(theta)
        return prior if self.extra is None else prior + self.extra(z)
