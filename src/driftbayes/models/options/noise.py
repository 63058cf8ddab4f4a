"""Measurement noise: every fix is off by an error of its own."""

__all__ = ["Noise"]

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from driftbayes.jax_typing import Key, Leaf, Scalar, ScalarLike
from driftbayes.models._base import AbstractModel, Parameter, fact
from driftbayes.models.options._base import AbstractOption, check_base
from driftbayes.precision import as_leaf


class Noise(AbstractOption):
    r"""The model seen through fixes with independent errors.

    $$y_n = X_n + \sigma\,\eta_n, \qquad
      \operatorname{Cov}(\Delta y_0, \Delta y_l) = \operatorname{Cov}(\Delta X_0, \Delta X_l)
      + \sigma^2 (2\delta_{l0} - \delta_{l1})$$

    Errors that the file gives for each fix are added to it. Noise and a finite γ bend the
    displacements' autocovariance in opposite directions; at small tau both are hard to tell from
    a smaller diffusivity, which the posterior widths show.

    Args:
        base: The other model.
        sigma: Standard deviation σ of the error of each coordinate, in length.
    """

    sigma: Leaf = eqx.field(converter=as_leaf)

    name: ClassVar[str] = fact(lambda self: f"{self.base.name}+noise")
    summary: ClassVar[str] = fact(
        lambda self: f"{self.base.summary}, positions with independent errors"
    )
    own: ClassVar[dict[str, Parameter]] = {
        "sigma": Parameter("σ", "standard deviation of the error of each coordinate", 1, 0)
    }
    limit: ClassVar[str] = fact(lambda self: f"{self.base.name}, as sigma → 0")
    memory: ClassVar[int | None] = None

    def __check_init__(self) -> None:
        check_base(self)

    def increment_autocovariance(
        self, lags: Float[Array, " lag"], tau: Scalar
    ) -> Float[Array, " lag"]:
        return self.base.increment_autocovariance(lags, tau) + self._of_errors(lags)

    def first_autocovariances(self, n_lags: int, tau: Scalar) -> Float[Array, " lag"]:
        errors = self._of_errors(jnp.arange(n_lags, dtype=tau.dtype))
        return self.base.first_autocovariances(n_lags, tau) + errors

    def _of_errors(self, lags: Float[Array, " lag"]) -> Float[Array, " lag"]:
        shape = jnp.where(lags == 0, 2.0, 0.0) - jnp.where(lags == 1, 1.0, 0.0)
        return self.sigma**2 * shape

    def fix_variance(self) -> ScalarLike:
        return self.base.fix_variance() + self.sigma**2

    def motion(self) -> AbstractModel:
        return self.base.motion()

    def apply(
        self, key: Key, positions: Float[Array, "particle position dim"], tau: ScalarLike
    ) -> Float[Array, "particle position dim"]:
        return positions + self.sigma * jax.random.normal(key, positions.shape)
