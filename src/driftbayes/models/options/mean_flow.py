"""A mean flow that all particles share, integrated out."""

__all__ = ["flow_terms", "with_mean_flow"]

from functools import cache
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from driftbayes.errors import DriftbayesError
from driftbayes.jax_typing import Key, Scalar, ScalarLike
from driftbayes.likelihood import ChannelMoments, ChannelSteps, ChannelTerms, GaussianTerms
from driftbayes.models._base import AbstractModel, Parameter, as_parameter
from driftbayes.models._prepare import Data, Kind
from driftbayes.models.options._base import AbstractOption


def flow_terms(
    terms: ChannelTerms, inverse: Float[Array, "dim dim"], flow_variance: ScalarLike
) -> GaussianTerms:
    r"""Gaussian terms with a mean flow $U \sim N(0, V)$ per axis integrated out.

    With $C^{-1}$ the inverse of the axes' covariance, G the whitened square of the durations and q
    their whitened product with the displacements,

    $$\ln\det \to \ln\det + \ln\det(1 + V G C^{-1}), \qquad
      Q \to Q - V q^T C^{-1} (1 + V G C^{-1})^{-1} C^{-1} q$$

    Args:
        terms: Cross-products of whitened channels.
        inverse: $C^{-1}$, of unit determinant.
        flow_variance: V.
    """
    n_dim = len(inverse)
    axes, q, g = terms.products[:-1, :-1], terms.products[:-1, -1], terms.products[-1, -1]
    seen = inverse @ q
    posterior = jnp.eye(n_dim) + flow_variance * g * inverse
    gain = flow_variance * seen @ jnp.linalg.solve(posterior, seen)
    return GaussianTerms(
        n=n_dim * terms.n,
        log_det=n_dim * terms.log_det + jnp.linalg.slogdet(posterior)[1],
        quadratic=jnp.trace(inverse @ axes) - gain,
    )


@cache
def with_mean_flow(model: type[AbstractModel]) -> type[AbstractModel]:
    r"""The model carried by a constant velocity, the same for all particles.

    $$\Delta x_n = U\,\Delta t_n + \Delta X_n, \qquad U_i \sim N(0, V^2)$$

    U is integrated out analytically; `mean_flow` gives its posterior.

    Args:
        model: The class of models.
    """

    class Carried(AbstractOption):
        flow: ScalarLike

        name: ClassVar[str] = f"{model.name}+mean"
        summary: ClassVar[str] = f"{model.summary}, carried by a mean flow"
        parameters: ClassVar[dict[str, Parameter]] = {
            **model.parameters,
            "flow": Parameter("V", "prior standard deviation of each component of the flow", 1, -1),
        }
        scale_parameter: ClassVar[str] = model.scale_parameter
        limit: ClassVar[str] = f"{model.name}, as flow → 0"
        has_state_space: ClassVar[bool] = model.has_state_space
        memory: ClassVar[int | None] = model.memory
        kind: ClassVar[Kind] = "channels"
        exact_positions: ClassVar[bool] = model.exact_positions

        def __init__(self, *, flow: ScalarLike, **others: Any) -> None:
            self.base = model(**others)
            self.flow = as_parameter(flow)

        def terms(self, data: Data, noise_variance: ScalarLike = 0.0) -> GaussianTerms:
            if not isinstance(data, ChannelMoments | ChannelSteps):
                msg = f"{self.name} needs displacements by axis; prepare them for it"
                raise DriftbayesError(msg)
            terms = self.channel_terms(data)
            inverse = self.base.inverse_shape(len(terms.products) - 1)
            return flow_terms(terms, inverse, self.flow**2)

        def mean_flow(
            self, data: ChannelMoments | ChannelSteps
        ) -> tuple[Float[Array, " dim"], Float[Array, "dim dim"]]:
            """Posterior mean and covariance of the flow, given the other parameters."""
            products = self.channel_terms(data).products
            inverse = self.base.inverse_shape(len(products) - 1)
            precision = jnp.eye(len(inverse)) / self.flow**2 + products[-1, -1] * inverse
            covariance = jnp.linalg.inv(precision)
            return covariance @ inverse @ products[:-1, -1], covariance

        def derived(self, data: Data) -> dict[str, Scalar]:
            """The components of the flow, and their standard deviations."""
            if not isinstance(data, ChannelMoments | ChannelSteps):
                return self.base.derived(data)
            mean, covariance = self.mean_flow(data)
            sd = jnp.sqrt(jnp.diag(covariance))
            own = {f"flow_{i + 1}": mean[i] for i in range(len(mean))}
            own |= {f"flow_{i + 1}_sd": sd[i] for i in range(len(mean))}
            return {**self.base.derived(data), **own}

        def changed(
            self, key: Key, positions: Float[Array, "particle position dim"], tau: ScalarLike
        ) -> Float[Array, "particle position dim"]:
            _, n_positions, n_dim = positions.shape
            velocity = self.flow * jax.random.normal(key, (n_dim,))
            times = jnp.arange(float(n_positions)) * as_parameter(tau)
            return positions + (times[:, None] * velocity[None, :])[None]

    return Carried
