"""Chains of the no-U-turn sampler: known posteriors, known mixing, and what a chain cannot see."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from court import LANGEVIN, langevin_data
from numpy.testing import assert_allclose
from scipy.signal import lfilter

from driftbayes.errors import DriftbayesError
from driftbayes.inference import Batch, exact
from driftbayes.inference import nuts as nuts_module
from driftbayes.inference.density import Density
from driftbayes.inference.nuts import autocorrelation_time, in_chunks, nuts, nuts_batch, split_rhat
from driftbayes.inference.search import find_modes
from driftbayes.inference.target import Guide, PosteriorTarget, guide_of
from driftbayes.testing.targets import BimodalTarget, GaussianTarget

# Tolerance of Monte Carlo tests, in standard errors.
FIVE_SIGMA = 5.0
GAUSSIAN = GaussianTarget.make(4)
MEAN = np.asarray(GAUSSIAN.mean / (1 + GAUSSIAN.sd**2))
SD = np.asarray(GAUSSIAN.sd / jnp.sqrt(1 + GAUSSIAN.sd**2))
GUIDE = Guide(jnp.asarray(MEAN), jnp.diag(jnp.asarray(SD)), jnp.asarray(True))


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
    return nuts(GAUSSIAN, GUIDE, jax.random.key(0))


# --- Known posteriors --------------------------------------------------------------------------


@pytest.mark.slow
def test_mean_and_sd_of_a_gaussian(chains):
    assert chains.z.shape == (4, 1000, 4)
    assert chains.n_draws == 4000
    assert chains.rhat.shape == chains.ess.shape == (5,)
    assert chains.rhat.max() < 1.01
    assert chains.ess.min() > 1000
    assert chains.n_divergences == 0
    check_gaussian(chains.z, chains.ess[:-1], MEAN, SD)


def test_densities_are_those_of_the_draws(chains):
    z = jnp.asarray(chains.z.reshape(-1, 4))
    for values, density in (
        (chains.log_joint, GAUSSIAN.log_joint),
        (chains.log_likelihood, GAUSSIAN.log_likelihood),
    ):
        assert values.shape == (4, 1000)
        found = jax.jit(jax.vmap(lambda one, f=density: f(one)))(z)
        assert_allclose(values.reshape(-1), found, rtol=1e-11, atol=1e-11)


def test_every_step_takes_a_gradient(chains):
    # At least one for each draw, kept or not, and for each start; here at most 31 for a draw.
    assert 6004 < chains.n_gradients < 31 * 6000


def test_a_guide_may_be_off():
    # Three widths away, and five times too narrow or too wide.
    scale = jnp.diag(jnp.asarray([0.2, 5.0, 0.2, 5.0])) @ GUIDE.factor
    off = Guide(GUIDE.center + 3 * jnp.asarray(SD), scale, jnp.asarray(True))
    chains = nuts(GAUSSIAN, off, jax.random.key(1))
    assert chains.rhat.max() < 1.01
    check_gaussian(chains.z, chains.ess[:-1], MEAN, SD)


@pytest.mark.slow  # Moments of Langevin data by the same chains are among the tests of bridges.
@pytest.mark.parametrize("tau", [0.1, 10.0])
def test_parameters_of_langevin_data_are_those_of_quadrature(tau):
    batch = Batch.of(langevin_data(tau))
    guide = guide_of(find_modes(Density(LANGEVIN, batch.engine(0, LANGEVIN.model))))
    chains = nuts(PosteriorTarget(LANGEVIN, batch.data), guide, jax.random.key(3))
    expected = exact(LANGEVIN, batch)
    mean, sd = (np.array(list(x.values())) for x in (expected.log_mean, expected.log_sd))
    error = sd / np.sqrt(chains.ess[:-1])
    assert (np.abs(chains.z.mean(axis=(0, 1)) - mean) < FIVE_SIGMA * error).all()
    # Not Gaussian: the error of an sd is larger than for one, but not three times.
    assert_allclose(
        chains.z.std(axis=(0, 1)), sd, rtol=3 * FIVE_SIGMA / np.sqrt(2 * chains.ess.min())
    )
    error = chains.log_likelihood.std() / np.sqrt(chains.ess.min())
    off = chains.log_likelihood.mean() - expected.expected_log_likelihood
    assert abs(off) < FIVE_SIGMA * error


# --- Keys, batches and programs ----------------------------------------------------------------


def test_the_same_key_gives_the_same_draws(chains):
    again = nuts(GAUSSIAN, GUIDE, jax.random.key(0))
    assert (again.z == chains.z).all()
    assert again.n_gradients == chains.n_gradients
    assert not (nuts(GAUSSIAN, GUIDE, jax.random.key(5)).z == chains.z).any()


def test_chains_differ_from_each_other(chains):
    assert len({float(z) for z in chains.z[:, 0, 0]}) == 4


@pytest.mark.slow
def test_each_target_of_a_batch_gets_its_own_posterior_from_the_prior():
    shifts = jnp.asarray([-5.0, 0.0, 5.0])
    targets = GaussianTarget(
        GAUSSIAN.mean[None, :] + shifts[:, None], jnp.tile(GAUSSIAN.sd, (3, 1))
    )
    many = nuts_batch(targets, None, jax.random.key(4))
    assert len(many) == 3
    for found, shift in zip(many, np.asarray(shifts), strict=True):
        mean = MEAN + shift / (1 + np.asarray(GAUSSIAN.sd) ** 2)
        check_gaussian(found.z, found.ess[:-1], mean, SD)


def test_a_second_data_set_of_the_same_shape_needs_no_new_program(chains, monkeypatch):
    # Without what is compiled, only what has been compiled can run.
    monkeypatch.setattr(nuts_module, "_chains", None)
    other = GaussianTarget(GAUSSIAN.mean + 1.0, GAUSSIAN.sd)
    found = nuts(other, GUIDE, jax.random.key(1))
    mean = MEAN + 1 / (1 + np.asarray(GAUSSIAN.sd) ** 2)
    check_gaussian(found.z, found.ess[:-1], mean, SD)


@pytest.mark.parametrize("n", [1, 9, 10, 11, 23])
def test_chunks_leave_nothing_out_and_nothing_twice(n):
    def function(x, pair):
        return {"sum": x + pair[0], "product": pair[1] * x[:, None]}

    x, y = np.arange(float(n)), np.ones((n, 2))
    found = in_chunks(function, x, (2 * x, y))
    assert_allclose(found["sum"], 3 * x)
    assert_allclose(found["product"], x[:, None] * y)


def test_too_few_chains_or_draws_are_refused():
    with pytest.raises(DriftbayesError, match="at least 2 chains of 12 draws after a warm-up, got"):
        nuts(GAUSSIAN, GUIDE, jax.random.key(0), n_chains=1)
    with pytest.raises(DriftbayesError, match="n_draws=11"):
        nuts(GAUSSIAN, GUIDE, jax.random.key(0), n_draws=11)


def test_double_precision_and_strict_promotion_are_as_they_were():
    before = jax.config.jax_numpy_dtype_promotion, jax.config.jax_numpy_rank_promotion
    assert before == ("strict", "raise")
    assert "numpyro" not in vars(inspect.getmodule(nuts))


# --- What a chain cannot see -------------------------------------------------------------------


def stacked(many):
    return jax.tree.map(lambda *leaves: np.stack(leaves), *many)


def bimodal():
    """Two modes, to be sought about one of them and about both."""
    places = [(3.0, 0.5), (0.0, 3.0)]
    guides = [Guide(jnp.full(2, c), w * jnp.eye(2), jnp.asarray(True)) for c, w in places]
    return stacked([BimodalTarget.make(2)] * 2), stacked(guides)


@pytest.mark.slow  # So do tests of bridges, with the same chains.
def test_chains_see_the_modes_about_which_they_start():
    # Four chains begin all in one of two modes once in eight times; with this key they do not.
    at_one, about_both = nuts_batch(*bimodal(), jax.random.key(1))
    # Half of the posterior was not seen, and nothing tells.
    assert (at_one.z > 0).all()
    assert at_one.rhat.max() < 1.01
    # Here R-hat tells; each chain stays where it began, so that how many are in a mode says
    # nothing of its weight.
    in_first, in_second = ((sign * about_both.z > 0).all(axis=(1, 2)) for sign in (1, -1))
    assert (in_first | in_second).all()
    assert in_first.any()
    assert in_second.any()
    assert about_both.rhat.max() > 2


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
