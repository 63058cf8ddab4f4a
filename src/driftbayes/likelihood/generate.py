"""Regular displacements from their innovations."""

__all__ = ["toeplitz_displacements"]

import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

from driftbayes.likelihood.toeplitz import durbin_levinson


def toeplitz_displacements(
    autocovariance: Float[Array, " step"], kicks: Float[Array, "run step dim"]
) -> Float[Array, "run step dim"]:
    """Regular displacements whose whitened innovations are the kicks.

    Args:
        autocovariance: Of the displacements, at lags 0, 1, ...
        kicks: Of unit variance; what follows the end of a shorter run does not matter to it.
    """
    filters = durbin_levinson(autocovariance)
    n_runs, n_steps, n_dim = kicks.shape
    columns = jnp.moveaxis(kicks, 1, 0).reshape(n_steps, -1)
    # The root of the covariance first: solving for thousands of columns takes ten times as long.
    scale = jnp.diag(jnp.sqrt(filters.variances))
    root = solve_triangular(filters.forward, scale, lower=True, unit_diagonal=True)
    return jnp.moveaxis((root @ columns).reshape(n_steps, n_runs, n_dim), 0, 1)
