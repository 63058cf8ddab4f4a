"""Flows that all particles share, integrated out: a mean, and a gradient."""

__all__ = [
    "LinearFlow",
    "MeanFlow",
    "flow_components",
    "flow_posterior",
    "flow_terms",
]

from abc import abstractmethod
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import cho_solve, solve_triangular
from jaxtyping import Array, Float

from driftbayes.jax_typing import Key, Leaf, Scalar, ScalarLike
from driftbayes.likelihood import ChannelTerms, GaussianTerms
from driftbayes.models._base import Channels, Parameter, fact
from driftbayes.models._prepare import Data, Kind
from driftbayes.models.options._base import AbstractOption
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


def flow_components(
    mean: Float[Array, " dim"], covariance: Float[Array, "dim dim"]
) -> dict[str, Scalar]:
    """Components of a mean flow and their standard deviations, by name."""
    sd = jnp.sqrt(jnp.diag(covariance))
    values = {f"flow_{i + 1}": mean[i] for i in range(len(mean))}
    return values | {f"flow_{i + 1}_sd": sd[i] for i in range(len(mean))}


def _scaled(
    terms: ChannelTerms, inverse: Array, spreads: Array
) -> tuple[Float[Array, "row row"], Float[Array, " row"], Float[Array, " row"]]:
    """Cholesky factor of 1 + DKD, D, and b."""
    scale = jnp.tile(spreads, terms.n_dim)
    seen = scale * (inverse @ terms.seen[:, : len(spreads)]).reshape(-1)
    weights = terms.weights[: len(spreads), : len(spreads)]
    inner = scale[:, None] * jnp.kron(inverse, weights) * scale[None, :]
    return jnp.linalg.cholesky(jnp.eye(len(scale)) + inner), scale, seen


class _AbstractCarried(AbstractOption):
    """The model carried by a flow that is linear in unknown coefficients, integrated out."""

    kind: ClassVar[Kind] = "channels"
    has_derived: ClassVar[bool] = True

    @abstractmethod
    def _spreads(self, n_dim: int) -> Float[Array, " regressor"]:
        """Prior standard deviation of the coefficient of each regressor."""

    def terms(self, data: Data, noise_variance: ScalarLike = 0.0) -> GaussianTerms:
        terms = self.channel_terms(data)
        inverse = self.base.inverse_shape(terms.n_dim)
        return flow_terms(terms, inverse, self._spreads(terms.n_dim))

    def mean_flow(
        self, data: Channels
    ) -> tuple[Float[Array, " coefficient"], Float[Array, "coefficient coefficient"]]:
        """Posterior mean and covariance of the flow, given the other parameters.

        In the order U_1, A_11, A_12, ..., U_2, A_21, ...; there is no A in a mean flow.
        """
        terms = self.channel_terms(data)
        inverse = self.base.inverse_shape(terms.n_dim)
        return flow_posterior(terms, inverse, self._spreads(terms.n_dim))


class MeanFlow(_AbstractCarried):
    r"""The model carried by a constant velocity, the same for all particles.

    $$\Delta x_n = U\,\Delta t_n + \Delta X_n, \qquad U_i \sim N(0, V^2)$$

    U is integrated out analytically; `mean_flow` gives its posterior.

    Args:
        base: The other model.
        flow: Prior standard deviation V of each component of the flow, in length/time.
    """

    flow: Leaf = eqx.field(converter=as_leaf)

    option: ClassVar[str] = "mean"
    summary: ClassVar[str] = fact(lambda self: f"{self.base.summary}, carried by a mean flow")
    own: ClassVar[dict[str, Parameter]] = {"flow": FLOW}
    limit: ClassVar[str] = fact(lambda self: f"{self.base.name}, as flow → 0")

    def _spreads(self, n_dim: int) -> Float[Array, " regressor"]:
        return jnp.asarray(self.flow)[None]

    def derived(self, data: Data) -> dict[str, Scalar]:
        """The components of the flow, and their standard deviations."""
        if not isinstance(data, Channels):
            return self.base.derived(data)
        return {**self.base.derived(data), **flow_components(*self.mean_flow(data))}

    def apply(
        self, key: Key, positions: Float[Array, "particle position dim"], tau: ScalarLike
    ) -> Float[Array, "particle position dim"]:
        _, n_positions, n_dim = positions.shape
        velocity = self.flow * jax.random.normal(key, (n_dim,))
        times = jnp.arange(float(n_positions)) * jnp.asarray(tau)
        return positions + (times[:, None] * velocity[None, :])[None]


class LinearFlow(_AbstractCarried):
    r"""The model carried by a flow with a constant gradient: strain, rotation, divergence.

    $$\Delta x_n = \left[ U + A\,(x_n - c) \right] \Delta t_n + \Delta X_n, \qquad
      U_i \sim N(0, V^2), \quad A_{ij} \sim N(0, G^2)$$

    $x_n$ is the observed position at which the step begins, c the mean of all of these, ΔX the
    step of the other model. U and A are integrated out analytically; equal priors of all $A_{ij}$
    single out no direction of space. The density is that of the steps, given where runs begin.

    What is approximate: the flow is taken where the step begins (Euler's scheme), which is right
    for $|A| \Delta t \ll 1$. For a step so taken the density is exact, with memory and measurement
    errors too: what $x_n$ adds to a step follows from the steps before it, so that the
    determinant of the map from $\Delta X$ to $\Delta x$ is one. Of a particle with memory the flow
    carries the position and leaves the velocity relative to it alone; of a fix with an error the
    flow is taken at the fix, not at the particle. The centre c is taken from the data: the prior
    says that velocities there are of size V.

    On the earth x and c are on the tangent plane at the centre of the data (`data.tangent`)
    and the components are those to the east and to the north of each step, or along the axes of the
    centre in the transported frame. Divergence, vorticity and strain are those of the flow itself:
    what east and north add because they turn from place to place is taken out.

    Args:
        base: The other model.
        flow: Prior standard deviation V of each component of the flow, in length/time.
        gradient: Prior standard deviation G of each component of its gradient, in 1/time.
    """

    flow: Leaf = eqx.field(converter=as_leaf)
    gradient: Leaf = eqx.field(converter=as_leaf)

    option: ClassVar[str] = "linear"
    summary: ClassVar[str] = fact(
        lambda self: f"{self.base.summary}, carried by a flow linear in space"
    )
    own: ClassVar[dict[str, Parameter]] = {
        "flow": FLOW,
        "gradient": Parameter(
            "G",
            "prior standard deviation of each component of the flow's gradient",
            *(0, -1),
            is_prior_scale=True,
        ),
    }
    limit: ClassVar[str] = fact(lambda self: f"{self.base.name}+mean, as gradient → 0")
    needs_positions: ClassVar[bool] = True

    def derived(self, data: Data) -> dict[str, Scalar]:
        """The flow at the centre, its gradients with standard deviations, and the centre."""
        if not isinstance(data, Channels):
            return self.base.derived(data)
        mean, covariance = self.mean_flow(data)
        centre = jnp.asarray(data.centre)
        found = _gradients(len(centre), jnp.asarray(data.turning))
        values = {name: jnp.vdot(row, mean) for name, row in found.items()}
        errors = {f"{name}_sd": jnp.sqrt(row @ covariance @ row) for name, row in found.items()}
        axes = ("lon", "lat") if data.is_lonlat else range(1, len(centre) + 1)
        own = {f"centre_{axis}": value for axis, value in zip(axes, centre, strict=True)}
        return {**self.base.derived(data), **values, **errors, **own}

    def apply(
        self, key: Key, positions: Float[Array, "particle position dim"], tau: ScalarLike
    ) -> Float[Array, "particle position dim"]:
        n_dim = positions.shape[-1]
        key_flow, key_gradient = jax.random.split(key)
        flow = self.flow * jax.random.normal(key_flow, (n_dim,))
        gradient = self.gradient * jax.random.normal(key_gradient, (n_dim, n_dim))
        return _carried(positions, flow, gradient, jnp.asarray(tau))

    def _spreads(self, n_dim: int) -> Float[Array, " regressor"]:
        gradient = jnp.full(n_dim, self.gradient)
        return jnp.concatenate([jnp.asarray(self.flow)[None], gradient])


def _gradients(n_dim: int, turning: Scalar) -> dict[str, Array]:
    r"""What is said of a flow, each a linear function of (U_1, A_11, A_12, ..., U_2, A_21, ...).

    East and north turn by an angle of $\tan\varphi/R$ per length to the east, so that components
    change where the flow does not: $\partial_x u - v\tan\varphi/R$ and
    $\partial_x v + u\tan\varphi/R$ are what strains and turns a cloud.
    """
    units = jnp.asarray(np.eye(n_dim * (1 + n_dim)).reshape(n_dim, 1 + n_dim, -1))
    u, a = units[:, 0], units[:, 1:]
    if n_dim == 2:
        a = a.at[:, 0].add(turning * jnp.stack([-u[1], u[0]]))
    found = {f"flow_{i + 1}": u[i] for i in range(n_dim)}
    found["divergence"] = jnp.einsum("iic->c", a)
    if n_dim == 2:
        found["vorticity"] = a[1, 0] - a[0, 1]
        found["strain_normal"] = a[0, 0] - a[1, 1]
        found["strain_shear"] = a[0, 1] + a[1, 0]
    if n_dim == 3:
        found |= {f"gradient_{i + 1}{j + 1}": a[i, j] for i in range(3) for j in range(3)}
    return found


# Compiled once per shape: left to itself, JAX compiles a loop anew at every call.
@eqx.filter_jit
def _carried(
    positions: Float[Array, "particle position dim"],
    flow: Float[Array, " dim"],
    gradient: Float[Array, "dim dim"],
    tau: Scalar,
) -> Float[Array, "particle position dim"]:
    """Positions whose steps are those given and, each from where it begins, those of the flow."""

    def step(x: Array, dx: Array) -> tuple[Array, Array]:
        x = x + dx + tau * (flow[None, :] + x @ gradient.T)
        return x, x

    first = positions[:, 0]
    _, found = jax.lax.scan(step, first, jnp.moveaxis(jnp.diff(positions, axis=1), 1, 0))
    return jnp.concatenate([first[:, None], jnp.moveaxis(found, 0, 1)], axis=1)
