"""Eigenvalues of small symmetric matrices, in closed form up to two by two.

Most models have one or two parameters. A library call then costs more than the arithmetic, and
loading the library adds half a second to the first command.
"""

__all__ = ["eigh"]

import jax.numpy as jnp
from jaxtyping import Array, Float


def eigh(matrix: Float[Array, "n n"]) -> tuple[Float[Array, " n"], Float[Array, "n n"]]:
    r"""Compute eigenvalues in ascending order, and orthonormal eigenvectors as columns.

    For two by two matrices, with $t = \tan\varphi$ the smaller root of $t^2 + 2\theta t - 1 = 0$,
    $\theta = (c - a) / 2b$, the rotation by $\varphi$ makes $(a, b; b, c)$ diagonal, with
    eigenvalues $a - tb$ and $c + tb$, without cancellation (Jacobi).
    """
    n = matrix.shape[0]
    if n == 1:
        return matrix[0], jnp.ones_like(matrix)
    if n > 2:
        return jnp.linalg.eigh(matrix)
    a, b, c = matrix[0, 0], matrix[0, 1], matrix[1, 1]
    is_diagonal = b == 0
    theta = (c - a) / (2 * jnp.where(is_diagonal, 1.0, b))
    sign = jnp.where(theta >= 0, 1.0, -1.0)
    t = jnp.where(is_diagonal, 0.0, sign / (jnp.abs(theta) + jnp.hypot(theta, 1.0)))
    cos = 1 / jnp.sqrt(1 + t**2)
    sin = t * cos
    values = jnp.stack([a - t * b, c + t * b])
    vectors = jnp.stack([jnp.stack([cos, sin]), jnp.stack([-sin, cos])])
    in_order = values[0] <= values[1]
    return jnp.where(in_order, values, values[::-1]), jnp.where(in_order, vectors, vectors[:, ::-1])
