"""Toeplitz covariances: prediction by the Durbin--Levinson recursion, and simulation."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular
from jaxtyping import Array, Float

# Unrolled steps of the compiled loop; more run faster but take longer to compile.
_UNROLL = 2


class PredictionFilters(eqx.Module):
    r"""Filters that whiten a stationary sequence.

    Args:
        forward: Row i gives the error of predicting $x_i$ from $x_0 \dots x_{i-1}$.
        backward: Row i gives the error of predicting $x_0$ from $x_1 \dots x_i$: row i of
            `forward`, reversed.
        variances: Variance $v_i$ of these errors, the same for both.
    """

    forward: Float[Array, "step step"]
    backward: Float[Array, "step step"]
    variances: Float[Array, " step"]


def durbin_levinson(autocovariance: Float[Array, " step"]) -> PredictionFilters:
    r"""Compute the filters that whiten a sequence with the Toeplitz covariance S.

    With P the forward filters, $S^{-1} = P^\mathrm{T} \operatorname{diag}(1/v)\, P$ and
    $\ln\det S = \sum_i \ln v_i$. Leading rows do not depend on later ones, so that one call serves
    all lengths. It takes $O(N^2)$ operations.

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
    """Compute regular displacements from their whitened innovations.

    Args:
        autocovariance: Autocovariance of the displacements at lags 0, 1, ...
        kicks: Innovations of unit variance; those after the end of a shorter run have no effect.
    """
    filters = durbin_levinson(autocovariance)
    n_runs, n_steps, n_dim = kicks.shape
    columns = jnp.moveaxis(kicks, 1, 0).reshape(n_steps, -1)
    # The root of the covariance first; solving for thousands of columns takes ten times longer.
    scale = jnp.diag(jnp.sqrt(filters.variances))
    root = solve_triangular(filters.forward, scale, lower=True, unit_diagonal=True)
    return jnp.moveaxis((root @ columns).reshape(n_steps, n_runs, n_dim), 0, 1)
