"""The terms of a Gaussian log-density."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from driftbayes._jax_typing import ScalarLike

LOG_2PI = float(np.log(2 * np.pi))


class GaussianTerms(eqx.Module):
    r"""Count, log-determinant and quadratic form of a zero-mean Gaussian density.

    $$\ln L(c) = -\tfrac12 \left( n \ln 2\pi + n \ln c + \ln\det S + Q / c \right)$$

    where the covariance is $c\,S$ and $Q = x^\mathrm{T} S^{-1} x$. With separate terms, the overall
    scale c can be changed at no cost and integrated out analytically.

    Args:
        n: Number of scalar data.
        log_det: $\ln\det S$, summed over independent blocks.
        quadratic: Q, summed over independent blocks.
    """

    # JAX scalars while a program is traced, NumPy arrays of many afterwards.
    n: Float[Any, "*batch"]
    log_det: Float[Any, "*batch"]
    quadratic: Float[Any, "*batch"]

    def log_likelihood(self, scale: ScalarLike = 1.0) -> Float[Array, "*batch"]:
        """Compute the log-density with the covariance scaled by `scale`, constants included."""
        value = gaussian_log_density(self.n, self.log_det, self.quadratic, scale, jnp)
        # Rounding may make a covariance indefinite and log_det NaN; the density is then zero.
        return jnp.where(jnp.isnan(value), -jnp.inf, value)


def gaussian_log_density(n: Any, log_det: Any, quadratic: Any, scale: Any, xp: Any) -> Any:
    """Compute the log-density from arrays that broadcast; `xp` is NumPy or JAX."""
    constant = n * (LOG_2PI + xp.log(scale))
    return -0.5 * (constant + log_det + quadratic / scale)
