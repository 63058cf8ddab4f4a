"""Mean flows and flow gradients common to all particles, integrated out."""

from abc import abstractmethod
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import cho_solve, solve_triangular
from jaxtyping import Array, Float

from driftbayes._jax_typing import Key, Leaf, Positions, Scalar, ScalarLike
from driftbayes._precision import as_leaf
from driftbayes.likelihood import ChannelTerms, Collected, GaussianTerms
from driftbayes.models._base import Kind, Parameter, fact
from driftbayes.models._options._base import AbstractOption

FLOW = Parameter(
    "V", "prior standard deviation of each component of the flow", 1, -1, is_prior_scale=True
)


def flow_terms(
    terms: ChannelTerms, inverse: Float[Array, "dim dim"], spreads: Float[Array, " regressor"]
) -> GaussianTerms:
    r"""Compute Gaussian terms with a flow integrated out that is linear in its coefficients.

    $$\Delta x_i = \sum_p B_{ip} r_p + \Delta X_i, \qquad B_{ip} \sim N(0, s_p^2)$$

    With $C^{-1}$ the inverse of the axes' covariance, G the whitened products of the regressors, q
    their whitened products with the displacements, $K = C^{-1} \otimes G$ and D the diagonal matrix
    of the spreads s,

    $$\ln\det \to \ln\det + \ln\det(1 + D K D), \qquad
      Q \to Q - b^T (1 + D K D)^{-1} b, \quad b = D \operatorname{vec}(C^{-1} q)$$

    Args:
        terms: Cross-products of whitened channels.
        inverse: $C^{-1}$, of unit determinant.
        spreads: s, zero for a regressor that is not used.
    """
    factor, _, seen = _factorise(terms, inverse, spreads)
    white = solve_triangular(factor, seen, lower=True)
    return GaussianTerms(
        n=terms.n_dim * terms.n,
        log_det=terms.n_dim * terms.log_det + 2 * jnp.sum(jnp.log(jnp.diag(factor))),
        quadratic=jnp.trace(inverse @ terms.axes) - white @ white,
    )


def flow_posterior(
    terms: ChannelTerms, inverse: Float[Array, "dim dim"], spreads: Float[Array, " regressor"]
) -> tuple[Float[Array, " coefficient"], Float[Array, "coefficient coefficient"]]:
    """Compute the posterior mean and covariance of B, axis by axis; see `flow_terms`."""
    factor, scale, seen = _factorise(terms, inverse, spreads)
    covariance = scale[:, None] * cho_solve((factor, True), jnp.diag(scale))
    return scale * cho_solve((factor, True), seen), 0.5 * (covariance + covariance.T)


def flow_components(
    mean: Float[Array, " dim"], covariance: Float[Array, "dim dim"]
) -> dict[str, Scalar]:
    """Name the components of a mean flow and their standard deviations."""
    sd = jnp.sqrt(jnp.diag(covariance))
    values = {f"flow_{i + 1}": mean[i] for i in range(len(mean))}
    return values | {f"flow_{i + 1}_sd": sd[i] for i in range(len(mean))}


def _factorise(
    terms: ChannelTerms, inverse: Array, spreads: Array
) -> tuple[Float[Array, "row row"], Float[Array, " row"], Float[Array, " row"]]:
    """Cholesky factor of 1 + DKD, D, and b."""
    scale = jnp.tile(spreads, terms.n_dim)
    seen = scale * (inverse @ terms.seen[:, : len(spreads)]).reshape(-1)
    weights = terms.weights[: len(spreads), : len(spreads)]
    inner = scale[:, None] * jnp.kron(inverse, weights) * scale[None, :]
    return jnp.linalg.cholesky(jnp.eye(len(scale)) + inner), scale, seen


class _AbstractMeanFlow(AbstractOption):
    """The model advected by a flow that is linear in its coefficients, integrated out."""

    kind: ClassVar[Kind] = "channels"
    has_derived: ClassVar[bool] = True

    @abstractmethod
    def _spreads(self, n_dim: int) -> Float[Array, " regressor"]:
        """Prior standard deviation of the coefficient of each regressor."""

    def terms(self, sums: Collected) -> GaussianTerms:
        terms = sums.parts[0]
        inverse = self.base.inverse_shape(terms.n_dim)
        return flow_terms(terms, inverse, self._spreads(terms.n_dim))

    def mean_flow(
        self, sums: Collected
    ) -> tuple[Float[Array, " coefficient"], Float[Array, "coefficient coefficient"]]:
        """Compute the posterior mean and covariance of the flow given the other parameters.

        The order is U_1, A_11, A_12, ..., U_2, A_21, ..., without A for a mean flow.
        """
        terms = sums.parts[0]
        inverse = self.base.inverse_shape(terms.n_dim)
        return flow_posterior(terms, inverse, self._spreads(terms.n_dim))


class MeanFlow(_AbstractMeanFlow):
    r"""The model advected by a constant velocity common to all particles.

    $$\Delta x_n = U\,\Delta t_n + \Delta X_n, \qquad U_i \sim N(0, V^2)$$

    U is integrated out analytically; `mean_flow` returns its posterior.

    Args:
        base: The wrapped model.
        flow: Prior standard deviation V of each component of the flow, in length/time.

    Example:
        >>> import driftbayes as db
        >>> langevin = db.Langevin(gamma=db.Exponential(1), k=db.Exponential(2))
        >>> db.MeanFlow(langevin, flow=0.5).name
        'langevin+mean'
    """

    flow: Leaf = eqx.field(converter=as_leaf)

    option: ClassVar[str] = "mean"
    summary: ClassVar[str] = fact(lambda self: f"{self.base.summary}, carried by a mean flow")
    own: ClassVar[dict[str, Parameter]] = {"flow": FLOW}
    limit: ClassVar[str] = fact(lambda self: f"{self.base.name}, as flow → 0")

    def _spreads(self, n_dim: int) -> Float[Array, " regressor"]:
        return jnp.asarray(self.flow)[None]

    def derived(self, sums: Collected) -> dict[str, Scalar]:
        """Return the components of the flow and their standard deviations."""
        return {**self.base.derived(sums), **flow_components(*self.mean_flow(sums))}

    def apply(self, key: Key, positions: Positions, tau: ScalarLike) -> Positions:
        _, n_positions, n_dim = positions.shape
        velocity = self.flow * jax.random.normal(key, (n_dim,))
        times = jnp.arange(float(n_positions)) * jnp.asarray(tau)
        return positions + (times[:, None] * velocity[None, :])[None]


class LinearFlow(_AbstractMeanFlow):
    r"""The model advected by a flow with a constant gradient: strain, rotation, divergence.

    $$\Delta x_n = \left[ U + A\,(x_n - c) \right] \Delta t_n + \Delta X_n, \qquad
      U_i \sim N(0, V^2), \quad A_{ij} \sim N(0, G^2)$$

    $x_n$ is the observed position at which the step begins, c the mean of these positions, ΔX the
    step of the wrapped model. U and A are integrated out analytically; equal priors of all $A_{ij}$
    are isotropic. The density is that of the steps given where runs begin.

    The flow is evaluated where the step begins (Euler's scheme), an approximation for
    $|A| \Delta t \ll 1$. For such steps the density is exact, also with memory and measurement
    errors: $x_n$ depends on earlier steps only, so that the map from $\Delta X$ to $\Delta x$ has
    unit determinant. With memory, the flow advects the position and leaves the velocity relative to
    the flow unchanged. With measurement errors, the flow is evaluated at the fix, not at the
    particle. The centre c is computed from the data: V is the prior size of velocities there.

    On the earth x and c lie on the tangent plane at the centre of the data (`data.tangent`). The
    components are east and north at each step, or along the axes of the centre in the transported
    frame. Divergence, vorticity and strain are corrected for the rotation of east and north from
    place to place.

    Args:
        base: The wrapped model.
        flow: Prior standard deviation V of each component of the flow, in length/time.
        gradient: Prior standard deviation G of each component of its gradient, in 1/time.

    Example:
        >>> import driftbayes as db
        >>> langevin = db.Langevin(gamma=db.Exponential(1), k=db.Exponential(2))
        >>> db.LinearFlow(langevin, flow=0.5, gradient=0.1).name
        'langevin+linear'
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

    def derived(self, sums: Collected) -> dict[str, Scalar]:
        """Return the flow at the centre, its gradients, their errors, and the centre."""
        mean, covariance = self.mean_flow(sums)
        centre = jnp.asarray(sums.centre)
        found = _gradients(len(centre), jnp.asarray(sums.turning))
        values = {name: jnp.vdot(row, mean) for name, row in found.items()}
        errors = {f"{name}_sd": jnp.sqrt(row @ covariance @ row) for name, row in found.items()}
        axes = ("lon", "lat") if sums.is_lonlat else range(1, len(centre) + 1)
        own = {f"centre_{axis}": value for axis, value in zip(axes, centre, strict=True)}
        return {**self.base.derived(sums), **values, **errors, **own}

    def apply(self, key: Key, positions: Positions, tau: ScalarLike) -> Positions:
        n_dim = positions.shape[-1]
        key_flow, key_gradient = jax.random.split(key)
        flow = self.flow * jax.random.normal(key_flow, (n_dim,))
        gradient = self.gradient * jax.random.normal(key_gradient, (n_dim, n_dim))
        return _advect(positions, flow, gradient, jnp.asarray(tau))

    def _spreads(self, n_dim: int) -> Float[Array, " regressor"]:
        gradient = jnp.full(n_dim, self.gradient)
        return jnp.concatenate([jnp.asarray(self.flow)[None], gradient])


def _gradients(n_dim: int, turning: Scalar) -> dict[str, Array]:
    r"""Return each reported quantity as a row vector over (U_1, A_11, A_12, ..., U_2, A_21, ...).

    East and north rotate by an angle of $\tan\varphi/R$ per length to the east, which changes the
    components of a uniform flow. The gradients that deform and rotate a cloud are
    $\partial_x u - v\tan\varphi/R$ and $\partial_x v + u\tan\varphi/R$.
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


# Compiled once per shape; otherwise JAX would compile the loop at every call.
@eqx.filter_jit
def _advect(
    positions: Positions,
    flow: Float[Array, " dim"],
    gradient: Float[Array, "dim dim"],
    tau: Scalar,
) -> Positions:
    """Add to each step the displacement by the flow where the step begins."""

    def step(x: Array, dx: Array) -> tuple[Array, Array]:
        x = x + dx + tau * (flow[None, :] + x @ gradient.T)
        return x, x

    first = positions[:, 0]
    _, found = jax.lax.scan(step, first, jnp.moveaxis(jnp.diff(positions, axis=1), 1, 0))
    return jnp.concatenate([first[:, None], jnp.moveaxis(found, 0, 1)], axis=1)
