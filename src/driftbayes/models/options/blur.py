"""Camera blur: every fix is the mean position over the time of exposure."""

__all__ = ["with_blur"]

from functools import cache
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from driftbayes.errors import DriftbayesError
from driftbayes.jax_typing import Key, Scalar, ScalarLike
from driftbayes.models._base import AbstractModel, Parameter, as_parameter
from driftbayes.models.options._base import AbstractOption


def _crowded(n_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights on (0, 1) that crowd at both ends, where m(t) may be a power of t.

    Gauss--Legendre in v, at the place v⁴(35 - 84v + 70v² - 20v³).
    """
    nodes, weights = np.polynomial.legendre.leggauss(n_nodes)
    v = 0.5 * (1 + nodes)
    place = v**4 * (35 - 84 * v + 70 * v**2 - 20 * v**3)
    return place, 0.5 * weights * 140 * v**3 * (1 - v) ** 3


# On each smooth part of the triangular weight.
_NODES, _WEIGHTS = _crowded(20)
# Positions within one exposure that a simulation averages.
_N_FRAMES = 64


@cache
def with_blur(model: type[AbstractModel]) -> type[AbstractModel]:
    r"""The model seen through an open shutter.

    $$y_n = \frac1E \int_0^E X(t_n + s)\,\mathrm{d}s, \qquad
      \tilde m(t) = \int_{-E}^{E} \frac{E - |s|}{E^2}\,
      \bigl[m(|t + s|) - m(|s|)\bigr]\,\mathrm{d}s$$

    with m and $\tilde m$ the mean square displacement without and with it. Of Brownian motion
    it leaves $2\kappa(t - E/3)$, and makes successive displacements correlate: at lag one a blurred
    Brownian motion looks like a Langevin one.

    Args:
        model: The class of models.
    """

    class Blurred(AbstractOption):
        exposure: ScalarLike

        name: ClassVar[str] = f"{model.name}+blur"
        summary: ClassVar[str] = f"{model.summary}, fixes averaged over the exposure"
        parameters: ClassVar[dict[str, Parameter]] = {
            **model.parameters,
            "exposure": Parameter("E", "time over which each fix is averaged, known", 0, 1),
        }
        scale_parameter: ClassVar[str] = model.scale_parameter
        limit: ClassVar[str] = f"{model.name}, as exposure → 0"
        has_state_space: ClassVar[bool] = False
        memory: ClassVar[int | None] = model.memory

        def __init__(self, *, exposure: ScalarLike, **others: Any) -> None:
            self.base = model(**others)
            self.exposure = as_parameter(exposure)

        def increment_autocovariance(
            self, lags: Float[Array, " lag"], tau: Scalar
        ) -> Float[Array, " lag"]:
            spread = self._averaged(jnp.arange(len(lags) + 1, dtype=tau.dtype) * tau)
            around = jnp.concatenate([spread[1:2], spread])
            second = around[2:] - 2 * around[1:-1] + around[:-2]
            return 0.5 * second[: len(lags)]

        def first_autocovariances(self, n_lags: int, tau: Scalar) -> Float[Array, " lag"]:
            return self.increment_autocovariance(jnp.arange(n_lags, dtype=tau.dtype), tau)

        def mean_square_displacement(self, lag: Float[Array, "..."]) -> Float[Array, "..."]:
            return self._averaged(lag) - self._averaged(jnp.zeros_like(lag))

        def motion(self) -> AbstractModel:
            return self.base.motion()

        def changed(
            self, key: Key, positions: Float[Array, "particle position dim"], tau: ScalarLike
        ) -> Float[Array, "particle position dim"]:
            msg = f"{self.name} simulates whole exposures, not given positions"
            raise DriftbayesError(msg)

        def simulate(
            self, key: Key, *, n_particles: int, n_steps: int, n_dim: int, tau: ScalarLike
        ) -> Float[Array, "particle position dim"]:
            """Mean positions over each exposure, from 64 positions per sampling time."""
            step = as_parameter(tau) / _N_FRAMES
            fine = self.base.simulate(
                key,
                n_particles=n_particles,
                n_steps=_N_FRAMES * (n_steps + 1),
                n_dim=n_dim,
                tau=step,
            )
            # At least one frame: that at time 0.
            open_for = jnp.arange(float(_N_FRAMES)) * step < self.exposure
            weight = jnp.where(open_for, 1 / jnp.sum(open_for, dtype=step.dtype), 0.0)
            frames = 0.5 * (fine[:, 1:] + fine[:, :-1])
            frames = frames.reshape(n_particles, n_steps + 1, _N_FRAMES, n_dim)
            return jnp.einsum("pnfd,f->pnd", frames, weight)

        def _averaged(self, lag: Float[Array, "..."]) -> Float[Array, "..."]:
            """The mean of m(|t + s|) with the triangular weight of s."""
            exposure, flat = self.exposure, lag.reshape(1, -1)
            # Smooth between these: the weight has a kink at 0, m(|t + s|) one at -t.
            turn = -jnp.minimum(flat, exposure)
            total = jnp.zeros_like(flat[0])
            for low, high in ((-exposure, turn), (turn, 0.0), (0.0, exposure)):
                width = (high - low) * jnp.ones_like(flat)
                s = low + width * _NODES[:, None]
                value = self.base.mean_square_displacement(jnp.abs(flat + s))
                weight = _WEIGHTS[:, None] * width * (exposure - jnp.abs(s))
                total = total + jnp.sum(weight * value, axis=0)
            return total.reshape(lag.shape) / exposure**2

    return Blurred
