"""A common sense of rotation: the velocities of all particles turn the same way."""

__all__ = ["with_rotation"]

from functools import cache
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Complex, Float

from driftbayes.errors import DriftbayesError
from driftbayes.jax_typing import Key, Scalar, ScalarLike
from driftbayes.likelihood import ChannelMoments, ChannelSteps, GaussianTerms
from driftbayes.likelihood.hermitian import (
    hermitian_moments_terms,
    hermitian_steps_terms,
    hermitian_walk,
)
from driftbayes.models._base import AbstractModel, as_parameter
from driftbayes.models._matrix_exponential import exponential_integrals
from driftbayes.models._prepare import Data, Kind
from driftbayes.models.options._base import AbstractOption, check_base
from driftbayes.models.oscillating import OscillatingLangevin


@cache
def with_rotation(model: type[AbstractModel]) -> type[AbstractModel]:
    r"""The oscillating model with axes that are coupled, in two dimensions.

    $$\mathrm{d}Z = W\,\mathrm{d}t, \qquad
      \mathrm{d}W = -(\gamma \mp i\Omega)\,W\,\mathrm{d}t + \sqrt{2\gamma}\,u\,\mathrm{d}B,
      \qquad Z = x + iy$$

    with B a complex Brownian motion: each axis by itself is as in the other model, and the velocity
    of y is the partner of that of x. All particles turn the same way, anticlockwise or clockwise
    with probability one half each before the data; the density is the mean of both. As $\Omega \to
    0$ the axes become independent, and the model `Langevin(gamma, k)`.

    Args:
        model: The oscillating model, with noise at most.
    """
    check_base(model, "rotating")

    class Rotating(AbstractOption, of=model):
        name: ClassVar[str] = f"{model.name}+rotating"
        summary: ClassVar[str] = f"{model.summary}, of all particles in one sense"
        limit: ClassVar[str] = "langevin, as omega → 0"
        # A mean of two Gaussian densities.
        is_gaussian: ClassVar[bool] = False
        kind: ClassVar[Kind] = "channels"
        # No rotation of the axes of a particle changes its density.
        shares_axes: ClassVar[bool] = False

        def __init__(self, **others: Any) -> None:
            self.base = model(**others)

        def log_density(self, data: Data) -> Scalar:
            both = jnp.stack([one.log_likelihood() for one in self.terms_by_sense(data)])
            return jax.nn.logsumexp(both) - jnp.log(2.0)

        def terms(self, data: Data, noise_variance: ScalarLike = 0.0) -> GaussianTerms:
            """Of the likelier sense: enough to find a scale to start from."""
            one, other = self.terms_by_sense(data)
            return GaussianTerms(one.n, one.log_det, jnp.minimum(one.quadratic, other.quadratic))

        def terms_by_sense(self, data: Data) -> tuple[GaussianTerms, GaussianTerms]:
            """Gaussian terms if all turn anticlockwise, and if all turn clockwise."""
            if not isinstance(data, ChannelMoments | ChannelSteps):
                msg = f"{self.name} needs displacements by axis; prepare them for it"
                raise DriftbayesError(msg)
            if data.centre.shape[-1] != 2:
                msg = (
                    f"{self.name} needs two dimensions, the data have {data.centre.shape[-1]}; "
                    "leave out +rotating"
                )
                raise DriftbayesError(msg)
            if isinstance(data, ChannelMoments):
                n_lags, tau = data.forms.shape[-1], jnp.asarray(data.tau)
                return hermitian_moments_terms(self.complex_autocovariances(n_lags, tau), data)
            start = self._core().initial_covariance()[1, 1]
            return hermitian_steps_terms(self.complex_transition, start, data, self.fix_variance())

        def complex_autocovariances(self, n_lags: int, tau: Scalar) -> Complex[Array, " lag"]:
            """Of x with itself, and as imaginary part of y with the x before it."""
            rates, _, stationary = self._core().dynamics()
            change, step, _ = exponential_integrals(rates * tau)

            def later(reach: Array, _: None) -> tuple[Array, Scalar]:
                return reach + change @ reach, tau**2 * (step[1] @ reach)

            _, across = jax.lax.scan(later, step @ stationary[:, 0], None, length=n_lags - 1)
            own = self.base.first_autocovariances(n_lags, tau)
            return jax.lax.complex(own, jnp.concatenate([jnp.zeros(1), across]))

        def complex_transition(
            self, interval: Scalar
        ) -> tuple[Complex[Array, "2 2"], Complex[Array, "2 2"]]:
            """Propagator and noise of (x + iy, u + iv), from those of (x, u, v)."""
            a, q = self._core().transition(interval)
            reach = jax.lax.complex(a[0, 1], -a[0, 2])
            turn = jax.lax.complex(a[1, 1], -a[1, 2])
            propagate = jnp.stack(
                [jnp.stack([jnp.ones_like(reach), reach]), jnp.stack([jnp.zeros_like(turn), turn])]
            )
            cross = jax.lax.complex(q[0, 1], -q[0, 2])
            position, velocity = q[0, 0].astype(cross.dtype), q[1, 1].astype(cross.dtype)
            noise = [jnp.stack([position, cross]), jnp.stack([cross.conj(), velocity])]
            return propagate, jnp.stack(noise)

        def derived(self, data: Data) -> dict[str, Scalar]:
            """Probability that the particles turn anticlockwise, from x to y."""
            one, other = (terms.log_likelihood() for terms in self.terms_by_sense(data))
            return {"anticlockwise": jax.nn.sigmoid(one - other)}

        def simulate(
            self, key: Key, *, n_particles: int, n_steps: int, n_dim: int, tau: ScalarLike
        ) -> Float[Array, "particle position dim"]:
            """Exact positions from a stationary start at the origin; the sense is drawn too."""
            if n_dim != 2:
                msg = f"{self.name} needs two dimensions, got {n_dim}; leave out +rotating"
                raise DriftbayesError(msg)
            keys = jax.random.split(key, 4)
            propagate, noise = self.complex_transition(as_parameter(tau))
            sd = jnp.sqrt(self._core().initial_covariance()[1, 1])
            velocity = _complex_normal(keys[0], (n_particles,))
            velocity = velocity * sd.astype(velocity.dtype)
            kicks = _complex_normal(keys[1], (n_steps, n_particles, 2))
            root = jnp.linalg.cholesky(noise)
            positions = hermitian_walk(propagate, root, velocity, kicks)
            sense = jnp.where(jax.random.bernoulli(keys[2]), 1.0, -1.0)
            positions = positions.at[..., 1].multiply(sense)
            error = jnp.sqrt(jnp.asarray(self.fix_variance()))
            return positions + error * jax.random.normal(keys[3], positions.shape)

        def _core(self) -> OscillatingLangevin:
            core: Any = self.base
            while isinstance(core, AbstractOption):
                core = core.base
            return core

    return Rotating


def _complex_normal(key: Key, shape: tuple[int, ...]) -> Complex[Array, "..."]:
    pair = jax.random.normal(key, (2, *shape))
    return jax.lax.complex(pair[0], pair[1])
