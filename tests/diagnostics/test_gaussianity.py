"""Kurtosis of displacements."""

import numpy as np
from numpy.testing import assert_allclose
from observatory import DT, FIVE_SIGMA, brownian_paths
from scipy import stats

from driftbayes.data._trajectories import Trajectories
from driftbayes.diagnostics.averages import displacement_sums, kurtosis


def _kurtosis_of(x, steps):
    sums = displacement_sums(Trajectories.from_arrays(x, dt=DT), steps)
    return kurtosis(*(s.sum(axis=0) for s in (sums.second, sums.fourth, sums.counts)))


def test_independent_gaussian_steps_give_three():
    n_particles, n_dim = 20_000, 2
    x = brownian_paths(n_particles, 2, n_dim, kappa=0.3, dt=DT, seed=11)
    error = np.sqrt(24 / (n_particles * n_dim))
    assert abs(_kurtosis_of(x, np.array([1]))[0] - 3) < FIVE_SIGMA * error


def test_it_agrees_with_scipy_for_steps_of_zero_mean():
    steps = np.random.default_rng(12).laplace(size=(50, 1, 1))
    steps -= steps.mean()
    x = np.concatenate([np.zeros((50, 1, 1)), steps], axis=1)
    expected = stats.kurtosis(steps.ravel(), fisher=False)
    assert_allclose(_kurtosis_of(x, np.array([1])), [expected], rtol=1e-12)


def test_coin_tosses_give_one_and_then_approach_three():
    steps = np.sign(np.random.default_rng(13).normal(size=(4000, 100, 1)))
    n = np.array([1, 2, 4, 10])
    # A sum of n signs has kurtosis 3 - 2/n; the error is that of fewer, disjoint windows.
    error = np.sqrt(24 / (4000 * 100 / n))
    found = _kurtosis_of(np.cumsum(steps, axis=1), n)
    assert_allclose(found[0], 1.0, rtol=1e-12)
    assert np.abs((found - (3 - 2 / n)) / error).max() < FIVE_SIGMA


def test_mixing_two_diffusivities_raises_it():
    x = brownian_paths(20_000, 2, 1, kappa=1.0, dt=DT, seed=14)
    x[::2] *= 3.0
    # Half with variance 1, half with variance 9: 3 (1 + 81)/2 / ((1 + 9)/2)².
    assert_allclose(_kurtosis_of(x, np.array([1])), 3 * 41 / 25, rtol=0.1)


def test_it_is_unknown_without_pairs_or_motion():
    found = kurtosis(np.array([0.0, 0.0]), np.array([0.0, 0.0]), np.array([0.0, 5.0]))
    assert np.isnan(found).all()
