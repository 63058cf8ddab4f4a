"""Markov chains: known posteriors, known mixing, and what a chain cannot see."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.signal import lfilter
from targets import GaussianTarget, PeaksTarget

from driftbayes.errors import DriftbayesError
from driftbayes.inference._chains import autocorrelation_time, sample_chains, split_rhat
from driftbayes.inference._metropolis import Cloud

# Tolerance of Monte Carlo tests, in standard errors.
FIVE_SIGMA = 5.0
GAUSSIAN = GaussianTarget.make(4)
MEAN = GAUSSIAN.mean / (1 + GAUSSIAN.sd**2)
SD = GAUSSIAN.sd / np.sqrt(1 + GAUSSIAN.sd**2)
GUIDE = Cloud(MEAN, np.diag(SD))


def sample(target, guide, seed=0, **sizes):
    return sample_chains(target, guide, np.random.default_rng(seed), **sizes)


def check_gaussian(z, ess, mean, sd):
    """Mean and sd of each coordinate, with errors from the effective number of draws."""
    pooled = z.reshape(-1, z.shape[-1])
    assert (np.abs(pooled.mean(axis=0) - mean) < FIVE_SIGMA * sd / np.sqrt(ess)).all()
    # Squares of the deviations mix more slowly than the deviations do.
    times = [autocorrelation_time((z[..., i] - mean[i]) ** 2) for i in range(len(mean))]
    spread = np.sqrt(np.array(times) / (2 * len(pooled)))
    assert (np.abs(pooled.std(axis=0) / sd - 1) < FIVE_SIGMA * spread).all()


@pytest.fixture(scope="module")
def chains():
    return sample(GAUSSIAN, GUIDE)


# --- Known posteriors --------------------------------------------------------------------------


def test_mean_and_sd_of_a_gaussian(chains):
    assert chains.z.shape == (32, 500, 4)
    assert chains.n_draws == 16_000
    assert chains.rhat.shape == chains.ess.shape == (5,)
    assert chains.rhat.max() < 1.01
    assert chains.ess.min() > 4000
    assert 0.5 < chains.acceptance < 1
    check_gaussian(chains.z, chains.ess[:-1], MEAN, SD)


def test_densities_are_those_of_the_draws(chains):
    log_prior, log_likelihood = GAUSSIAN.log_densities(chains.z.reshape(-1, 4))
    assert_allclose(chains.log_likelihood.reshape(-1), log_likelihood, rtol=1e-11, atol=1e-11)
    assert_allclose(chains.log_joint.reshape(-1), log_prior + log_likelihood, rtol=1e-11)


def test_every_move_is_one_evaluation():
    counted = Counting.make(4)
    chains = sample(counted, GUIDE, n_draws=20, n_warmup=20)
    assert chains.n_evaluations == counted.n


class Counting(GaussianTarget):
    n = 0

    def log_densities(self, z):
        self.n += len(z)
        return super().log_densities(z)


def test_a_guide_may_be_off():
    # Three widths away, and five times too narrow or too wide.
    off = Cloud(MEAN + 3 * SD, np.diag([0.2, 5.0, 0.2, 5.0] * SD))
    chains = sample(GAUSSIAN, off, seed=1)
    assert chains.rhat.max() < 1.01
    check_gaussian(chains.z, chains.ess[:-1], MEAN, SD)


@pytest.mark.parametrize("shift", [-5.0, 0.0, 5.0])
def test_chains_find_the_posterior_from_the_prior(shift):
    target = GaussianTarget(GAUSSIAN.mean + shift, GAUSSIAN.sd)
    chains = sample(target, None, seed=4)
    check_gaussian(chains.z, chains.ess[:-1], MEAN + shift / (1 + GAUSSIAN.sd**2), SD)


def test_slow_chains_make_several_moves_between_draws():
    # A thin arc, on which proposals of any covariance are rarely accepted.
    found = sample(Arc.make(2), None, seed=2, n_draws=200, n_warmup=100)
    assert found.n_evaluations > 2 * 32 * 300
    assert found.ess.min() > 500
    radius = np.hypot(found.z[..., 0], found.z[..., 1])
    assert abs(radius.mean() - 1) < FIVE_SIGMA * 0.1 / np.sqrt(found.ess.min())


class Arc(GaussianTarget):
    """A likelihood that is large near the unit circle only."""

    def log_densities(self, z):
        radius = np.hypot(z[:, 0], z[:, 1])
        return super().log_densities(z)[0], -0.5 * ((radius - 1) / 0.1) ** 2


# --- Seeds and sizes ---------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_draws(chains):
    again = sample(GAUSSIAN, GUIDE)
    assert (again.z == chains.z).all()
    assert again.n_evaluations == chains.n_evaluations
    assert not (sample(GAUSSIAN, GUIDE, seed=5).z == chains.z).any()


def test_chains_differ_from_each_other(chains):
    assert len({float(z) for z in chains.z[:, 0, 0]}) == 32


def test_too_few_chains_or_draws_are_refused():
    with pytest.raises(DriftbayesError, match="at least 2 chains of 12 draws after a warm-up, got"):
        sample(GAUSSIAN, GUIDE, n_chains=1)
    with pytest.raises(DriftbayesError, match="draws=11"):
        sample(GAUSSIAN, GUIDE, n_draws=11)


def test_a_warm_up_of_one_move_is_enough_to_run():
    assert np.isfinite(sample(GAUSSIAN, GUIDE, n_draws=12, n_warmup=1).z).all()


# --- What a chain cannot see -------------------------------------------------------------------


# Too far apart, and too narrow, for a proposal to reach from one to the other.
FAR_PEAKS = PeaksTarget(np.full(2, 30.0), np.full(2, 30.0), np.full(2, -30.0), np.full(2, 0.1))


def test_chains_around_one_mode_do_not_see_the_other():
    chains = sample(FAR_PEAKS, Cloud(np.full(2, 30.0), 0.1 * np.eye(2)), seed=1)
    assert (chains.z > 0).all()
    assert chains.rhat.max() < 1.01


def test_chains_around_both_modes_weigh_them():
    # Two modes within the reach of independent proposals.
    chains = sample(PeaksTarget.make(2), Cloud(np.zeros(2), 3.0 * np.eye(2)), seed=1)
    share = (chains.z[..., 0] > 0).mean()
    assert abs(share - 0.5) < FIVE_SIGMA * 0.5 / np.sqrt(chains.ess.min())


# --- Mixing ------------------------------------------------------------------------------------


def autoregressive(phi, n_series, n_chains=4, n_draws=2000):
    """Stationary AR(1) series of unit variance: ρ at lag t is φ to the power t."""
    noise = np.random.default_rng(0).normal(size=(n_series, n_chains, n_draws))
    noise[..., 1:] *= np.sqrt(1 - phi**2)
    return lfilter([1.0], [1.0, -phi], noise)


@pytest.mark.parametrize("phi", [-0.5, 0.0, 0.5, 0.9])
def test_autocorrelation_time_of_an_autoregression(phi):
    expected = (1 + phi) / (1 - phi)
    found = [autocorrelation_time(series) for series in autoregressive(phi, 40)]
    assert_allclose(np.mean(found), expected, rtol=0.05)
    # Any one of them is good enough for an error bar.
    assert np.std(found) < 0.25 * expected


@pytest.mark.parametrize("phi", [0.0, 0.9])
def test_effective_size_is_that_of_the_mean(phi):
    series = autoregressive(phi, 400)
    variance = series.mean(axis=(1, 2)).var()
    found = np.mean([autocorrelation_time(one) for one in series[:40]]) / series[0].size
    assert_allclose(found, variance, rtol=FIVE_SIGMA * np.sqrt(2 / 400))


@pytest.mark.parametrize("phi", [0.0, 0.9])
def test_rhat_of_chains_that_have_mixed(phi):
    # Means of halves of n draws have variance τ/n, and the halves' own is smaller by that.
    time, n = (1 + phi) / (1 - phi), 1000
    expected = (n - 1) / n + (time / n) / (1 - time / n)
    found = np.array([split_rhat(series) for series in autoregressive(phi, 200)]) ** 2
    assert_allclose(found.mean(), expected, atol=FIVE_SIGMA * found.std() / np.sqrt(200))


def test_rhat_of_chains_in_different_places():
    series = autoregressive(0.0, 1)[0]
    away = series + np.array([0.0, 1.0, 2.0, 3.0])[:, None]
    # Eight halves, at 0, 0, 1, 1, 2, 2, 3, 3: their means have variance 10/7.
    assert_allclose(split_rhat(away), np.sqrt(1 + 10 / 7), rtol=0.02)
    assert split_rhat(series) < 1.01


def test_rhat_of_chains_that_drift_together():
    drift = np.linspace(0.0, 2.0, 2000)
    # Halves lie one apart, and within each the drift adds a variance of 1/12.
    assert_allclose(
        split_rhat(autoregressive(0.0, 1)[0] + drift), np.sqrt(1 + (2 / 7) / (13 / 12)), rtol=0.02
    )


def test_series_that_do_not_vary():
    assert autocorrelation_time(np.ones((4, 100))) == 1.0
    assert np.isnan(split_rhat(np.ones((4, 100))))


def test_alternating_series_are_not_worth_infinitely_many_draws():
    series = np.tile([1.0, -1.0], (4, 500))
    assert_allclose(autocorrelation_time(series), 1 / np.log10(4000))
