"""Durbin--Levinson filters against a Cholesky factorisation."""

import jax
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.linalg import toeplitz

from driftbayes.likelihood import durbin_levinson

compiled = jax.jit(durbin_levinson)


def whiten(row):
    return jax.tree.map(np.asarray, compiled(row))


@st.composite
def autocovariances(draw, n=6):
    """Of a random moving average, hence positive definite."""
    weights = draw(st.lists(st.floats(-1, 1), min_size=n, max_size=n))
    weights[0] += 3.0  # well conditioned
    return np.correlate(weights, weights, "full")[n - 1 :]


@given(row=autocovariances())
def test_forward_filters_whiten_the_covariance(row):
    found = whiten(row)
    covariance = found.forward @ toeplitz(row) @ found.forward.T
    assert_allclose(covariance, np.diag(found.variances), atol=1e-12 * row[0])


@given(row=autocovariances())
def test_forward_filters_are_the_inverse_of_the_cholesky_factor(row):
    found = whiten(row)
    factor = np.linalg.cholesky(toeplitz(row))
    assert_allclose(found.variances, np.diag(factor) ** 2, rtol=1e-11)
    assert_allclose(found.forward, np.linalg.inv(factor / np.diag(factor)), atol=1e-11)


@given(row=autocovariances())
def test_backward_filters_are_the_forward_ones_reversed(row):
    found = whiten(row)
    for n in range(6):
        reversed_row = found.forward[n, n::-1]
        assert_allclose(found.backward[n, : n + 1], reversed_row, atol=1e-12)
        assert_allclose(found.backward[n, n + 1 :], 0.0)


@given(row=autocovariances())
def test_leading_rows_serve_all_shorter_sequences(row):
    longer, shorter = whiten(row), whiten(row[:3])
    assert_allclose(shorter.forward, longer.forward[:3, :3], rtol=1e-13)
    assert_allclose(shorter.variances, longer.variances[:3], rtol=1e-13)


def test_first_order_autoregression_is_predicted_from_its_last_value_alone():
    rho = 0.6
    found = whiten(rho ** np.arange(6))
    assert_allclose(found.forward, np.eye(6) - rho * np.eye(6, k=-1), atol=1e-15)
    assert_allclose(found.variances, [1] + 5 * [1 - rho**2], rtol=1e-14)


def test_sequence_of_one_has_nothing_to_be_predicted_from():
    found = whiten(np.array([2.0]))
    assert_allclose(found.forward, [[1.0]])
    assert_allclose(found.variances, [2.0])


def test_batch_gives_the_numbers_of_single_calls():
    rows = np.random.default_rng(0).uniform(size=(4, 1)) ** np.arange(6)
    together = jax.tree.map(np.asarray, jax.jit(jax.vmap(durbin_levinson))(rows))
    for i in range(4):
        alone = whiten(rows[i])
        assert_allclose(together.forward[i], alone.forward, atol=1e-14)
        assert_allclose(together.variances[i], alone.variances, rtol=1e-13)
