"""Models whose velocity follows a linear stochastic differential equation."""

from abc import abstractmethod
from collections.abc import Callable
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from driftbayes._jax_typing import LagArray, Scalar, StateMatrices, StateMatrix, TimeArray
from driftbayes.models._base import AbstractModel
from driftbayes.models._matrix_exponential import exponential_integrals, noise_covariance


class Dynamics(NamedTuple):
    r"""A linear equation $\mathrm{d}V = B V\,\mathrm{d}t + L\,\mathrm{d}W$ and its steady state.

    The first component of V is the velocity. The others have the same unit, so that all elements of
    B are rates and can be compared.

    Args:
        rates: B, in 1/time.
        intensity: $D = L L^\mathrm{T}$, in velocity²/time.
        stationary: P, the covariance of V, with $B P + P B^\mathrm{T} + D = 0$.
    """

    rates: Float[Array, "velocity velocity"]
    intensity: Float[Array, "velocity velocity"]
    stationary: Float[Array, "velocity velocity"]


class AbstractLinearModel(AbstractModel):
    r"""Positions driven by the first component of a stationary vector V, the same for each axis.

    $$\mathrm{d}X = V_1\,\mathrm{d}t, \qquad \mathrm{d}V = B V\,\mathrm{d}t + L\,\mathrm{d}W$$

    A model defines `dynamics`, from which everything else follows. Computations use the interval as
    the unit of time and keep full precision for rates times interval from below 1e-8 to above 1e8.
    """

    moves_by_generator: ClassVar[bool] = True

    @abstractmethod
    def dynamics(self) -> Dynamics:
        """Rates B, noise intensity D and stationary covariance P of V."""

    def increment_autocovariance(self, lags: LagArray, tau: Scalar) -> LagArray:
        r"""$\tau^2 e_1^\mathrm{T} J\,e^{(l-1)B\tau} J P e_1$ at lag $l > 0$.

        Here $J = \int_0^1 e^{B\tau s}\mathrm{d}s$. At lag 0 it is the mean square displacement.
        """
        rates, _, stationary = self.dynamics()
        step = exponential_integrals(rates * tau).once
        reach = step @ stationary[:, 0]

        def apart(lag: Scalar) -> Scalar:
            between = jnp.maximum(lag - 1, 0.0) * tau
            change = exponential_integrals(rates * between).change
            return tau**2 * (step[0] @ (reach + change @ reach))

        variance = self.mean_square_displacement(tau)
        return jnp.where(lags == 0, variance, jax.vmap(apart)(lags))

    def first_autocovariances(self, n_lags: int, tau: Scalar) -> LagArray:
        """Step from each lag to the next, with one exponential for all."""
        rates, _, stationary = self.dynamics()
        change, step, _ = exponential_integrals(rates * tau)

        def later(reach: Array, _: None) -> tuple[Array, Scalar]:
            return reach + change @ reach, tau**2 * (step[0] @ reach)

        _, apart = jax.lax.scan(later, step @ stationary[:, 0], None, length=n_lags - 1)
        return jnp.concatenate([self.mean_square_displacement(tau)[None], apart])

    def transition(self, interval: Scalar) -> StateMatrices:
        r"""State (X, V): $A = e^{Ft}$, $Q = \int_0^t e^{Fs} D\,e^{F^\mathrm{T}s}\,\mathrm{d}s$."""
        drift, intensity = self.generator()
        return noise_covariance(drift * interval, intensity * interval)

    def generator(self) -> StateMatrices:
        """B and D with the position as first component."""
        rates, intensity, _ = self.dynamics()
        size = len(rates) + 1
        drift = jnp.zeros((size, size)).at[0, 1].set(1.0).at[1:, 1:].set(rates)
        return drift, jnp.zeros((size, size)).at[1:, 1:].set(intensity)

    def initial_covariance(self) -> StateMatrix:
        """P, with zeros for the position."""
        stationary = self.dynamics().stationary
        size = len(stationary) + 1
        return jnp.zeros((size, size)).at[1:, 1:].set(stationary)

    def lvaf(self, lag: TimeArray) -> TimeArray:
        r"""$e_1^\mathrm{T} e^{B|t|} P e_1$."""
        rates, _, stationary = self.dynamics()

        def at(t: Scalar) -> Scalar:
            change = exponential_integrals(rates * t).change
            return stationary[0, 0] + change[0] @ stationary[:, 0]

        return over(at, jnp.abs(lag))

    def mean_square_displacement(self, lag: TimeArray) -> TimeArray:
        r"""$2\int_0^t (t - s)\,r(s)\,\mathrm{d}s$, with r the velocity autocovariance."""
        rates, _, stationary = self.dynamics()

        def at(t: Scalar) -> Scalar:
            return 2 * t**2 * (exponential_integrals(rates * t).twice[0] @ stationary[:, 0])

        return over(at, lag)


def over(function: Callable[[Array], Array], lag: TimeArray) -> TimeArray:
    """Evaluate a function of one time at each element of an array."""
    return jax.vmap(function)(lag.reshape(-1)).reshape(lag.shape)
