"""Closed forms against LAPACK, at ordinary and at hostile sizes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from driftbayes.inference import symmetric

# Compiled as one program: call by call, JAX would compile every operation.
eigh = jax.jit(symmetric.eigh)

_SPECIAL = [
    [[1.0, 0.0], [0.0, 1.0]],
    [[2.0, 0.0], [0.0, -3.0]],
    [[0.0, 0.0], [0.0, 0.0]],
    [[1.0, 1e-12], [1e-12, 1.0]],
    [[1e12, 1.0], [1.0, 1e-3]],
    [[-1.0, 2.0], [2.0, -1.0]],
]


def _matrices(n: int) -> list[np.ndarray]:
    rng = np.random.default_rng(n)
    roots = rng.normal(size=(20, n, n)) * 10 ** rng.uniform(-6, 6, size=(20, 1, 1))
    return [0.5 * (root + root.T) for root in roots]


@pytest.mark.parametrize("n", [1, 2, 3])
def test_eigh_agrees_with_lapack(n: int) -> None:
    for matrix in _matrices(n) + ([np.array(m) for m in _SPECIAL] if n == 2 else []):
        values, vectors = map(np.asarray, eigh(jnp.asarray(matrix)))
        size = np.abs(matrix).max()
        assert_allclose(values, np.linalg.eigvalsh(matrix), atol=2e-15 * size)
        assert_allclose((vectors * values) @ vectors.T, matrix, atol=2e-15 * size)
        assert_allclose(vectors.T @ vectors, np.eye(n), atol=2e-15)
