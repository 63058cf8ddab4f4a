"""Rotating velocities with one sense of rotation for all particles."""

from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Complex, Float

from driftbayes._jax_typing import Key, Positions, Scalar, ScalarLike
from driftbayes.errors import DriftbayesError
from driftbayes.likelihood import Collected, GaussianTerms
from driftbayes.likelihood._hermitian import hermitian_column_terms, hermitian_walk
from driftbayes.models._base import AbstractModel, Kind, Parameter, fact
from driftbayes.models._matrix_exponential import exponential_integrals
from driftbayes.models._options._base import AbstractOption
from driftbayes.models._options.flows import flow_components
from driftbayes.models._oscillating import OscillatingLangevin
from driftbayes.models._sums import combine_covariances, combine_propagators


class Rotating(AbstractOption):
    r"""Couple the axes of the oscillating model, or of an oscillating component, in a plane.

    $$\mathrm{d}Z = W\,\mathrm{d}t, \qquad
      \mathrm{d}W = -(\gamma \mp i\Omega)\,W\,\mathrm{d}t + \sqrt{2\gamma}\,u\,\mathrm{d}B,
      \qquad Z = x + iy$$

    with B a complex Brownian motion. Each axis alone follows the wrapped model, and the velocity
    along y is the partner of that along x. All particles rotate in the same sense, anticlockwise or
    clockwise with prior probability 1/2 each; the density is the mean of both. As $\Omega \to 0$
    the axes become independent and the model becomes `Langevin(gamma, k)`.

    Other components of a sum, measurement errors and a mean flow have no sense of rotation.

    Args:
        base: The wrapped model.

    Example:
        >>> import driftbayes as db
        >>> unit = db.Exponential(1.0)
        >>> db.Rotating(db.OscillatingLangevin(gamma=unit, omega=unit, k=unit)).name
        'oscillating+rotating'
    """

    option: ClassVar[str] = "rotating"
    own: ClassVar[dict[str, Parameter]] = {}
    summary: ClassVar[str] = fact(
        lambda self: f"{self.base.summary}, of all particles in one sense"
    )
    limit: ClassVar[str] = "axes that are independent, as omega → 0"
    # The density is the mean of two Gaussian densities.
    is_gaussian: ClassVar[bool] = False
    is_turning: ClassVar[bool] = True
    moves_by_generator: ClassVar[bool] = False
    kind: ClassVar[Kind] = "channels"
    has_derived: ClassVar[bool] = True
    # The density is invariant under rotation of the axes, unless there is a mean flow.
    shares_axes: ClassVar[bool] = fact(lambda self: "flow" in self.base.parameters)

    def log_density(self, sums: Collected) -> Scalar:
        both = jnp.stack([terms.log_likelihood() for terms in self.terms_by_sense(sums)])
        return jax.nn.logsumexp(both) - jnp.log(2.0)

    def terms(self, sums: Collected) -> GaussianTerms:
        """Terms of the more probable sense, enough for a starting value of the scale."""
        left, right = self.terms_by_sense(sums)
        return GaussianTerms(left.n, left.log_det, jnp.minimum(left.quadratic, right.quadratic))

    def terms_by_sense(self, sums: Collected) -> tuple[GaussianTerms, GaussianTerms]:
        """Compute Gaussian terms for anticlockwise and for clockwise rotation."""
        left, right = hermitian_column_terms(sums.parts[0])
        return left.gaussian(self._flow), right.gaussian(self._flow)

    def engine_autocovariances(self, n_lags: int, tau: Scalar) -> Complex[Array, " lag"]:
        """Compute covariances of x with itself and, as imaginary part, of y with earlier x."""
        rates, _, stationary = self._oscillation.dynamics()
        change, step, _ = exponential_integrals(rates * tau)

        def later(reach: Array, _: None) -> tuple[Array, Scalar]:
            return reach + change @ reach, tau**2 * (step[1] @ reach)

        _, across = jax.lax.scan(later, step @ stationary[:, 0], None, length=n_lags - 1)
        own = self.base.first_autocovariances(n_lags, tau)
        return jax.lax.complex(own, jnp.concatenate([jnp.zeros(1), across]))

    def engine_transition(self, interval: Scalar) -> tuple[Array, Array]:
        """Propagator and noise of (x + iy, u + iv, ...), with the velocity of each component."""
        both = [_complex_transition(part, interval) for part in self._components]
        propagators, noises = zip(*both, strict=True)
        return combine_propagators(propagators), combine_covariances(noises)

    def engine_start(self) -> Array:
        """Covariance of this state given the position."""
        parts = []
        for part in self._components:
            covariance = part.initial_covariance()
            # The velocity along y is the partner of the velocity along x.
            is_turning = isinstance(part, OscillatingLangevin)
            own = covariance[:2, :2] if is_turning else covariance
            parts.append(jax.lax.complex(own, jnp.zeros_like(own)))
        return combine_covariances(parts)

    def derived(self, sums: Collected) -> dict[str, Scalar]:
        """Return the probability of anticlockwise rotation, from x to y, and the mean flow."""
        out = {**self.base.core.derived(sums), "anticlockwise": self._anticlockwise(sums)}
        if "flow" not in self.base.parameters:
            return out
        return out | flow_components(*self.mean_flow(sums))

    def mean_flow(self, sums: Collected) -> tuple[Float[Array, "2"], Float[Array, "2 2"]]:
        """Compute the posterior mean and covariance of the flow over both senses of rotation."""
        senses = hermitian_column_terms(sums.parts[0])
        share = self._anticlockwise(sums)
        (mean, variance), (mean_2, variance_2) = (
            terms.flow_posterior(self._flow) for terms in senses
        )
        within = share * variance + (1 - share) * variance_2
        apart = mean - mean_2
        covariance = within * jnp.eye(2) + share * (1 - share) * jnp.outer(apart, apart)
        return share * mean + (1 - share) * mean_2, covariance

    def _anticlockwise(self, sums: Collected) -> Scalar:
        """Probability that the particles rotate anticlockwise."""
        left, right = (terms.log_likelihood() for terms in self.terms_by_sense(sums))
        return jax.nn.sigmoid(left - right)

    def simulate(
        self, key: Key, *, n_particles: int, n_steps: int, n_dim: int, tau: ScalarLike
    ) -> Positions:
        """Simulate exact positions from a stationary start at 0, with a random sense."""
        if n_dim != 2:
            msg = f"{self.name} needs two dimensions, got {n_dim}; leave out +rotating"
            raise DriftbayesError(msg)
        keys = jax.random.split(key, 4)
        key_flow, *key_others = jax.random.split(jax.random.fold_in(key, 4), 1 + len(self._others))
        turning = self._oscillation
        propagate, noise = _complex_transition(turning, jnp.asarray(tau))
        sd = jnp.sqrt(turning.initial_covariance()[1, 1])
        velocity = _complex_normal(keys[0], (n_particles,))
        velocity = velocity * sd.astype(velocity.dtype)
        kicks = _complex_normal(keys[1], (n_steps, n_particles, 2))
        root = jnp.linalg.cholesky(noise)
        positions = hermitian_walk(propagate, root, velocity, kicks)
        sense = jnp.where(jax.random.bernoulli(keys[2]), 1.0, -1.0)
        positions = positions.at[..., 1].multiply(sense)
        for own, part in zip(key_others, self._others, strict=True):
            positions = positions + part.simulate(
                own, n_particles=n_particles, n_steps=n_steps, n_dim=2, tau=tau
            )
        error = jnp.sqrt(jnp.asarray(self.fix_variance()))
        positions = positions + error * jax.random.normal(keys[3], positions.shape)
        flow = self._flow * jax.random.normal(key_flow, (2,))
        times = jnp.arange(n_steps + 1.0) * jnp.asarray(tau)
        return positions + (times[:, None] * flow[None, :])[None]

    @property
    def _flow(self) -> Scalar:
        """Prior standard deviation of a mean flow; zero without one."""
        return jnp.asarray(getattr(self.base, "flow", 0.0))

    @property
    def _components(self) -> tuple[AbstractModel, ...]:
        """Independent motions, one of which rotates."""
        core = self.base.core
        return getattr(core, "parts", (core,))

    @property
    def _oscillation(self) -> OscillatingLangevin:
        """The motion that rotates."""
        return next(part for part in self._components if isinstance(part, OscillatingLangevin))

    @property
    def _others(self) -> tuple[AbstractModel, ...]:
        """The motions that do not rotate."""
        parts = self._components
        return tuple(part for part in parts if not isinstance(part, OscillatingLangevin))


def _complex_transition(
    part: AbstractModel, interval: Scalar
) -> tuple[Complex[Array, "state state"], Complex[Array, "state state"]]:
    """Convert propagator and noise to complex states, (x, u, v) to (z, w)."""
    a, q = part.transition(interval)
    if not isinstance(part, OscillatingLangevin):
        return jax.lax.complex(a, jnp.zeros_like(a)), jax.lax.complex(q, jnp.zeros_like(q))
    reach = jax.lax.complex(a[0, 1], -a[0, 2])
    turn = jax.lax.complex(a[1, 1], -a[1, 2])
    cross = jax.lax.complex(q[0, 1], -q[0, 2])
    position, velocity = q[0, 0].astype(cross.dtype), q[1, 1].astype(cross.dtype)
    noise = jnp.array([[position, cross], [cross.conj(), velocity]])
    return jnp.array([[1.0, reach], [0.0, turn]]), noise


def _complex_normal(key: Key, shape: tuple[int, ...]) -> Complex[Array, "..."]:
    """Draw complex numbers whose parts have unit variance."""
    pair = jax.random.normal(key, (2, *shape))
    return jax.lax.complex(pair[0], pair[1])
