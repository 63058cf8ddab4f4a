"""Second moments: one pass over the data, then a quadratic form of any covariance."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.linalg import toeplitz

from driftbayes.data._sampling import Displacements
from driftbayes.errors import DriftbayesError
from driftbayes.likelihood import GaussianTerms
from driftbayes.likelihood._engines import MomentsEngine
from driftbayes.likelihood._moments import MEMORY, second_moments, sliding_moment, stack_moments
from driftbayes.likelihood._sums import Formulas
from driftbayes.models import Langevin
from driftbayes.testing import reference


class Row(Formulas):
    """Formulas of a model with one autocovariance."""

    n_rows = 1

    def __init__(self, row):
        self.row = np.asarray(row)

    def autocovariances(self, tau, n_lags):
        return self.row[None, :n_lags]


def terms_of(row, moments):
    sums = MomentsEngine(moments).sums(Row(row))
    return GaussianTerms(sums.n[0], sums.log_det[0, 0], sums.products[0, 0, 0, 0])


def ragged(row_sizes, n_dim=2, seed=0):
    rng = np.random.default_rng(seed)
    return Displacements(
        dx=rng.normal(size=(sum(row_sizes), n_dim)),
        interval=np.full(sum(row_sizes), 0.7),
        row_sizes=np.asarray(row_sizes),
        trajectory=np.arange(len(row_sizes)),
        tau=0.7,
    )


def smooth(n):
    """Autocovariance of a first-order autoregression plus white noise: no filter is short."""
    return 1.5 * 0.6 ** np.arange(n) + 0.7 * (np.arange(n) == 0)


def expected_terms(row, data):
    """Sum over runs, each with a matrix of its own."""
    log_det = quadratic = 0.0
    for run in np.split(data.dx, np.cumsum(data.row_sizes)[:-1]):
        cov = toeplitz(row[: len(run)])
        log_det += data.n_dim * np.linalg.slogdet(cov)[1]
        quadratic += np.sum(run * np.linalg.solve(cov, run))
    return data.n_displacements, log_det, quadratic


def assert_terms(found, expected, **tolerance):
    assert_allclose([found.n, found.log_det, found.quadratic], expected, **tolerance)


@pytest.mark.parametrize(
    "sizes", [[5, 5, 5], [3, 5, 3, 1], [1, 1], [2, 5, 4, 3, 1]], ids=lambda s: "-".join(map(str, s))
)
def test_quadratic_form_is_that_of_each_run_with_its_own_matrix(sizes):
    data = ragged(sizes)
    row = smooth(max(sizes))
    found = terms_of(row, second_moments(data))
    assert_terms(found, expected_terms(row, data), rtol=1e-12)


@given(sizes=st.permutations([5, 3, 1]), seed=st.integers(0, 99))
def test_order_of_runs_does_not_matter(sizes, seed):
    data = ragged(sizes, seed=seed)
    found = terms_of(smooth(5), second_moments(data))
    assert_terms(found, expected_terms(smooth(5), data), rtol=1e-12)


def test_long_run_is_predicted_from_a_window_that_slides_along():
    data, memory = ragged([9, 4, 6]), 4
    row = smooth(memory)
    n, log_det, quadratic = 0, 0.0, 0.0
    for run in np.split(data.dx, np.cumsum(data.row_sizes)[:-1]):
        for end in range(1, len(run) + 1):
            seen = run[max(end - memory, 0) : end]
            cov = toeplitz(row[: len(seen)])
            weights = np.linalg.solve(cov[:-1, :-1], cov[:-1, -1])
            variance = cov[-1, -1] - weights @ cov[:-1, -1]
            n += data.n_dim
            log_det += data.n_dim * np.log(variance)
            quadratic += np.sum((seen[-1] - weights @ seen[:-1]) ** 2) / variance
    found = terms_of(row, second_moments(data, memory=memory))
    assert_terms(found, (n, log_det, quadratic), rtol=1e-12)


@given(sizes=st.lists(st.integers(1, 90), min_size=1, max_size=5), seed=st.integers(0, 99))
def test_every_displacement_is_counted_once(sizes, seed):
    data = ragged([MEMORY, *sizes], seed=seed)
    found = terms_of(np.eye(MEMORY)[0], second_moments(data))
    assert_terms(found, (data.n_displacements, 0.0, np.sum(data.dx**2)), rtol=1e-11, atol=1e-15)


def test_many_short_runs_are_added_up_in_blocks():
    # More windows than fit in one block of the pass over the data.
    data = ragged(np.full((1 << 20) // (8 * 2 * 3) + 1000, 3))
    cube, inverse = data.as_array(), np.linalg.inv(toeplitz(smooth(3)))
    found = terms_of(smooth(3), second_moments(data))
    expected = np.einsum("pid,ij,pjd->", cube, inverse, cube, optimize=True)
    assert_allclose(found.quadratic, expected, rtol=1e-11)


def test_short_memory_is_an_approximation_and_the_default_is_not():
    # gamma * tau of 0.01: the innovations forget slowest.
    gamma, k, tau = 0.01 / 0.7, 1.3, 0.7
    dx = reference.simulate_langevin(np.random.default_rng(0), 2, 100, 2, tau, gamma, k)
    data, model = Displacements.from_array(dx, tau), Langevin(gamma=gamma, k=k)
    exact = reference.kalman_log_likelihood(dx, tau, gamma, k)

    def error(memory):
        row = model.first_autocovariances(memory, jnp.asarray(tau))
        found = terms_of(row, second_moments(data, memory=memory))
        return abs(float(found.log_likelihood()) - exact)

    # Errors fall as (2 - sqrt 3)^memory: to a thousandth over five more steps.
    assert error(4) > 1e-3
    assert error(9) < 1e-2 * error(4)
    assert error(MEMORY) < 1e-9


def test_stacked_data_sets_are_padded_without_effect():
    sizes = ([3, 5, 3], [2, 2], [7])
    stacked = stack_moments([second_moments(ragged(s)) for s in sizes])
    for i, s in enumerate(sizes):
        found = terms_of(smooth(7), jax.tree.map(lambda leaf, i=i: leaf[i], stacked))
        assert_terms(found, expected_terms(smooth(7), ragged(s)), rtol=1e-12)


def test_noisy_or_unequal_steps_are_refused():
    data = Displacements(
        dx=np.ones((2, 1)),
        interval=np.array([1.0, 2.0]),
        row_sizes=np.array([2]),
        trajectory=np.array([0]),
        tau=1.5,
    )
    with pytest.raises(DriftbayesError, match="needs steps of equal duration and exact positions"):
        second_moments(data)


@pytest.mark.parametrize("size", [1, 2, 7, 120])
def test_all_windows_of_a_run_add_up(size):
    dx = np.random.default_rng(5).normal(size=(120, 2))
    windows = [dx[i : i + size] for i in range(120 - size + 1)]
    expected = sum(window @ window.T for window in windows)
    assert_allclose(sliding_moment(dx, size), expected, rtol=1e-11, atol=1e-11)
