"""A mean flow that all particles share, integrated out."""

__all__ = ["MeanFlow", "flow_posterior", "flow_terms"]

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve, solve_triangular
from jaxtyping import Array, Float

from driftbayes.errors import DriftbayesError
from driftbayes.jax_typing import Key, Leaf, Scalar, ScalarLike
from driftbayes.likelihood import ChannelTerms, GaussianTerms
from driftbayes.models._base import Channels, Parameter, fact
from driftbayes.models._prepare import Data, Kind
from driftbayes.models.options._base import AbstractOption, check_base
from driftbayes.precision import as_leaf

FLOW = Parameter(
    "V", "prior standard deviation of each component of the flow", 1, -1, is_prior_scale=True
)


def flow_terms(
    terms: ChannelTerms, inverse: Float[Array, "dim dim"], spreads: Float[Array, " regressor"]
) -> GaussianTerms:
    r"""Gaussian terms with a flow integrated out that is linear in unknown coefficients.

    $$\Delta x_i = \sum_p B_{ip} r_p + \Delta X_i, \qquad B_{ip} \sim N(0, s_p^2)$$

    With $C^{-1}$ the inverse of the axes' covariance, G the whitened products of the regressors, q
    their whitened products with the displacements, $K = C^{-1} \otimes G$ and D the diagonal matrix
    of the spreads s,

    $$\ln\det \to \ln\det + \ln\det(1 + D K D), \qquad
      Q \to Q - b^T (1 + D K D)^{-1} b, \quad b = D \operatorname{vec}(C^{-1} q)$$

    Args:
        terms: Cross-products of whitened channels.
        inverse: $C^{-1}$, of unit determinant.
        spreads: s, zero for a regressor that is left out.
    """
    factor, _, seen = _scaled(terms, inverse, spreads)
    white = solve_triangular(factor, seen, lower=True)
    return GaussianTerms(
        n=terms.n_dim * terms.n,
        log_det=terms.n_dim * terms.log_det + 2 * jnp.sum(jnp.log(jnp.diag(factor))),
        quadratic=jnp.trace(inverse @ terms.axes) - white @ white,
    )


def flow_posterior(
    terms: ChannelTerms, inverse: Float[Array, "dim dim"], spreads: Float[Array, " regressor"]
) -> tuple[Float[Array, " coefficient"], Float[Array, "coefficient coefficient"]]:
    """Posterior mean and covariance of B, axis after axis; the arguments are `flow_terms`'s."""
    factor, scale, seen = _scaled(terms, inverse, spreads)
    covariance = scale[:, None] * cho_solve((factor, True), jnp.diag(scale))
    return scale * cho_solve((factor, True), seen), 0.5 * (covariance + covariance.T)


def _scaled(
    terms: ChannelTerms, inverse: Array, spreads: Array
) -> tuple[Float[Array, "row row"], Float[Array, " row"], Float[Array, " row"]]:
    """Cholesky factor of 1 + DKD, D, and b."""
    scale = jnp.tile(spreads, terms.n_dim)
    seen = scale * (inverse @ terms.seen[:, : len(spreads)]).reshape(-1)
    weights = terms.weights[: len(spreads), : len(spreads)]
    inner = scale[:, None] * jnp.kron(inverse, weights) * scale[None, :]
    return jnp.linalg.cholesky(jnp.eye(len(scale)) + inner), scale, seen


class MeanFlow(AbstractOption):
    r"""The model carried by a constant velocity, the same for all particles.

    $$\Delta x_n = U\,\Delta t_n + \Delta X_n, \qquad U_i \sim N(0, V^2)$$

    U is integrated out analytically; `mean_flow` gives its posterior.

    Args:
        base: The other model.
        flow: Prior standard deviation V of each component of the flow, in length/time.
    """

    flow: Leaf = eqx.field(converter=as_leaf)

    name: ClassVar[str] = fact(lambda self: f"{self.base.name}+mean")
    summary: ClassVar[str] = fact(lambda self: f"{self.base.summary}, carried by a mean flow")
    own: ClassVar[dict[str, Parameter]] = {"flow": FLOW}
    limit: ClassVar[str] = fact(lambda self: f"{self.base.name}, as flow → 0")
    kind: ClassVar[Kind] = "channels"
    has_derived: ClassVar[bool] = True

    def __check_init__(self) -> None:
        check_base(self, ("summed", "channels"))

    def terms(self, data: Data, noise_variance: ScalarLike = 0.0) -> GaussianTerms:
        if not isinstance(data, Channels):
            msg = f"{self.name} needs displacements by axis; prepare them for it"
            raise DriftbayesError(msg)
        terms = self.channel_terms(data)
        return flow_terms(terms, self.base.inverse_shape(terms.n_dim), self._spreads())

    def mean_flow(self, data: Channels) -> tuple[Float[Array, " dim"], Float[Array, "dim dim"]]:
        """Posterior mean and covariance of the flow, given the other parameters."""
        terms = self.channel_terms(data)
        return flow_posterior(terms, self.base.inverse_shape(terms.n_dim), self._spreads())

    def _spreads(self) -> Float[Array, " regressor"]:
        return jnp.asarray(self.flow)[None]

    def derived(self, data: Data) -> dict[str, Scalar]:
        """The components of the flow, and their standard deviations."""
        if not isinstance(data, Channels):
            return self.base.derived(data)
        mean, covariance = self.mean_flow(data)
        sd = jnp.sqrt(jnp.diag(covariance))
        own = {f"flow_{i + 1}": mean[i] for i in range(len(mean))}
        own |= {f"flow_{i + 1}_sd": sd[i] for i in range(len(mean))}
        return {**self.base.derived(data), **own}

    def apply(
        self, key: Key, positions: Float[Array, "particle position dim"], tau: ScalarLike
    ) -> Float[Array, "particle position dim"]:
        _, n_positions, n_dim = positions.shape
        velocity = self.flow * jax.random.normal(key, (n_dim,))
        times = jnp.arange(float(n_positions)) * jnp.asarray(tau)
        return positions + (times[:, None] * velocity[None, :])[None]
