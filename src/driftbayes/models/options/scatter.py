"""Particles that are not alike: every trajectory has a diffusivity of its own."""

__all__ = ["Scatter"]

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from driftbayes.jax_typing import Key, Leaf, Scalar, ScalarLike
from driftbayes.likelihood.sums import SlotForms
from driftbayes.likelihood.terms import LOG_2PI
from driftbayes.models._base import AbstractModel, Parameter, fact
from driftbayes.models._gamma_ratio import log_gamma_ratio
from driftbayes.models._prepare import Data, Kind
from driftbayes.models.options._base import AbstractOption, check_base
from driftbayes.precision import as_leaf
from driftbayes.typing import FloatArray

# Below this square no digit of the density knows of the scatter; far below, Q/a underflows and the
# term in Q would be lost.
_NO_SCATTER = 1e-30


class Scatter(AbstractOption):
    r"""The model with a scale that differs from trajectory to trajectory (superstatistics).

    $$k_p = k / g_p, \qquad g_p \sim \mathrm{Gamma}(a, a), \qquad a = 1/s^2$$

    The scale of each trajectory is integrated out: with n displacements and the quadratic form Q,

    $$p(x) = \frac{\Gamma(a + n/2)}{\Gamma(a)\,(2\pi a)^{n/2} \det{}^{1/2} S}
      \left( 1 + \frac{Q}{2a} \right)^{-a - n/2},$$

    a multivariate Student distribution. Displacements of one trajectory are uncorrelated in their
    sizes no more, and their pooled distribution has heavy tails.

    Args:
        base: The other model.
        scatter: Relative spread s of 1/k between trajectories.
    """

    scatter: Leaf = eqx.field(converter=as_leaf)

    name: ClassVar[str] = fact(lambda self: f"{self.base.name}+scatter")
    summary: ClassVar[str] = fact(
        lambda self: f"{self.base.summary}, each trajectory with its own diffusivity"
    )
    own: ClassVar[dict[str, Parameter]] = {
        "scatter": Parameter("s", "spread of 1/k between trajectories, relative", 0, 0)
    }
    limit: ClassVar[str] = fact(lambda self: f"{self.base.name}, as scatter → 0")
    is_gaussian: ClassVar[bool] = False
    kind: ClassVar[Kind] = "trajectories"
    exact_positions: ClassVar[bool] = True

    def __check_init__(self) -> None:
        check_base(self)

    def log_density(self, data: Data) -> Scalar:
        terms = self.base.terms(data)
        (a,), m = self.trajectory_numbers(), 0.5 * terms.n
        value = (
            log_gamma_ratio(jnp.broadcast_to(a, m.shape), m)
            - (a + m) * jnp.log1p(0.5 * terms.quadratic / a)
            - 0.5 * (terms.n * LOG_2PI + terms.log_det)
        )
        return jnp.sum(jnp.where(jnp.isnan(value), -jnp.inf, value))

    def trajectory_numbers(self) -> tuple[Array, ...]:
        return (1 / jnp.maximum(jnp.asarray(self.scatter) ** 2, _NO_SCATTER),)

    def sum_over_trajectories(self, numbers: tuple[Any, ...], forms: SlotForms) -> FloatArray:
        a, m = numbers[0][:, None], 0.5 * forms.n
        log_det, quadratic = forms.log_det[:, 0], forms.quadratic[:, 0]
        # Trajectories of one pattern differ in Q only.
        count = np.bincount(forms.pattern, minlength=len(m))
        shape = np.broadcast_shapes(a.shape, m.shape)
        ratios = log_gamma_ratio(np.broadcast_to(a, shape), np.broadcast_to(m, shape), np)
        same = ratios - 0.5 * (forms.n * LOG_2PI + log_det)
        spread = np.log1p(quadratic * (0.5 / a))
        value = same @ count - (a[:, 0] * spread.sum(axis=1) + spread @ m[forms.pattern])
        return np.where(np.isnan(value), -np.inf, value)

    def components(self) -> tuple[AbstractModel, ...]:
        return (self.base,)

    def apply(
        self, key: Key, positions: Float[Array, "particle position dim"], tau: ScalarLike
    ) -> Float[Array, "particle position dim"]:
        a = 1 / self.scatter**2
        precision = jax.random.gamma(key, a, (len(positions), 1, 1)) / a
        return positions / jnp.sqrt(precision)
