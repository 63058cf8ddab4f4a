"""Toeplitz covariances: prediction by the Durbin--Levinson recursion, and simulation."""

__all__ = [
    "PredictionFilters",
    "durbin_levinson",
    "toeplitz_displacements",
]

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

# Steps in one pass of the compiled loop: more run faster and take longer to compile.
_UNROLL = 2


class PredictionFilters(eqx.Module):
    r"""What is left of each element of a stationary sequence when the others before it are known.

    Args:
        forward: Row i leaves of $x_i$ what $x_0 \dots x_{i-1}$ do not predict.
        backward: Row i leaves of $x_0$ what $x_1 \dots x_i$ do not predict: the former, reversed.
        variances: Variance $v_i$ of what is left, the same for both.
    """

    forward: Float[Array, "step step"]
    backward: Float[Array, "step step"]
    variances: Float[Array, " step"]


def durbin_levinson(autocovariance: Float[Array, " step"]) -> PredictionFilters:
    r"""Whitening of a sequence whose covariance is the Toeplitz matrix S.

    With P the forward filters, $S^{-1} = P^\mathrm{T} \operatorname{diag}(1/v)\, P$ and
    $\ln\det S = \sum_i \ln v_i$. The leading rows do not depend on the later ones: one call serves
    all lengths. It takes $O(N^2)$ operations, all of them elementwise over a batch, which is what
    makes thousands of parameter values cheap where a batched Cholesky factorisation is not.

    Args:
        autocovariance: First row of S.
    """
    first = jnp.zeros_like(autocovariance).at[0].set(1.0)

    def step(
        carry: tuple[Array, Array, Array], _: None
    ) -> tuple[tuple[Array, Array, Array], tuple[Array, Array, Array]]:
        forward, backward, variance = carry
        shifted = jnp.roll(forward, 1).at[0].set(0.0)
        reflection = jnp.sum(shifted * autocovariance) / variance
        forward = shifted - reflection * backward
        backward = backward - reflection * shifted
        variance = variance * (1 - reflection) * (1 + reflection)
        return (forward, backward, variance), (forward, backward, variance)

    start = (first, first, autocovariance[0])
    _, rows = jax.lax.scan(step, start, None, length=autocovariance.shape[0] - 1, unroll=_UNROLL)
    return PredictionFilters(
        *(jnp.concatenate([head[None], tail]) for head, tail in zip(start, rows, strict=True))
    )


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
