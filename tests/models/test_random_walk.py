"""Continuous-time random walk: density, limits, moments, evidence, refusals."""

from dataclasses import replace

import jax
import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.special import logsumexp
from scipy.stats import chisquare, norm, poisson

from driftbayes import Brownian, Displacements, DriftbayesError, Exponential, Hypothesis, evidence
from driftbayes.errors import Status
from driftbayes.likelihood._jumps import log_jump_density
from driftbayes.models import MODELS, RandomWalk, model_named
from sums_of import density_of

THETA = {"kappa": 0.7, "rate": 1.5}
NUMBERS = np.arange(1, 200)


def by_hand(dx, tau, kappa, rate):
    """Ln p of independent steps, (step, dim), by a plain sum over numbers of jumps."""
    variance = 2 * kappa / rate * NUMBERS
    square = np.sum(dx**2, axis=1)[:, None]
    terms = poisson.logpmf(NUMBERS, rate * tau) - square / (2 * variance)
    return np.sum(logsumexp(terms - 0.5 * dx.shape[1] * np.log(2 * np.pi * variance), axis=1))


def walked(n_dim=2, seed=0, n=40):
    """Steps of a walk, in NumPy, without those at rest."""
    rng = np.random.default_rng(seed)
    number = rng.poisson(THETA["rate"], n)
    size = np.sqrt(2 * THETA["kappa"] / THETA["rate"] * number[number > 0])
    dx = size[:, None] * rng.normal(size=(len(size), n_dim))
    return Displacements.from_array(dx[None], 1.0)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("n_dim", [1, 2, 3])
@pytest.mark.parametrize("count", [1e-6, 0.3, 14.0, 20.0, 63.0, 66.0, 90.0, 400.0])
@pytest.mark.parametrize("square", [1e-8, 2.0, 30.0, 1e3])
def test_the_density_is_a_sum_over_numbers_of_jumps(n_dim, count, square):
    with mpmath.workdps(30):
        m, r2 = mpmath.mpf(count), mpmath.mpf(square)
        wanted = mpmath.log(
            mpmath.fsum(
                mpmath.exp(n * mpmath.log(m) - m - mpmath.loggamma(n + 1) - r2 / (2 * n))
                * (2 * mpmath.pi * n) ** (-mpmath.mpf(n_dim) / 2)
                for n in range(1, 800)
            )
        )
    found = log_jump_density(np.array([square]), np.array([count]), n_dim)
    assert_allclose(found, float(wanted), rtol=1e-12, atol=1e-11)


@pytest.mark.parametrize("n_dim", [1, 2])
def test_likelihoods_of_one_and_of_many_points_are_the_sum(n_dim):
    data = walked(n_dim)
    wanted = by_hand(data.dx, 1.0, **THETA)
    assert_allclose(RandomWalk(**THETA).log_likelihood(data), wanted, rtol=1e-12)
    hypothesis = Hypothesis(RandomWalk, kappa=Exponential(1.0), rate=Exponential(1.0))
    theta = np.array([[0.7, 1.5], [0.2, 3.0]])
    both = [wanted, by_hand(data.dx, 1.0, 0.2, 3.0)]
    assert_allclose(density_of(hypothesis, data).terms(theta)[0], both, rtol=1e-12)


def test_steps_of_any_duration_are_judged_by_their_own_number_of_jumps():
    long, short = walked(seed=1), walked(seed=2)
    joined = replace(
        Displacements.from_array(np.concatenate([long.dx, short.dx])[None], 1.0),
        interval=np.repeat([1.0, 0.5], [len(long.dx), len(short.dx)]),
    )
    wanted = by_hand(long.dx, 1.0, **THETA) + by_hand(short.dx, 0.5, **THETA)
    assert_allclose(RandomWalk(**THETA).log_likelihood(joined), wanted, rtol=1e-12)


def test_many_jumps_are_brownian():
    data = walked(n_dim=3)
    found = RandomWalk(kappa=0.7, rate=1e12).log_likelihood(data)
    assert_allclose(found, Brownian(0.7).log_likelihood(data), atol=1e-9)
    # A millionth of the rate is told apart.
    assert abs(RandomWalk(kappa=0.7, rate=1e6).log_likelihood(data) - found) > 1e-6


def test_density_and_rest_add_up_to_one_with_the_moments_of_the_law():
    tau, variance = 0.8, 2 * 0.7 * 0.8
    jump = 2 * 0.7 / 1.5

    def density(x):
        log_p = log_jump_density(np.array([x**2 / jump]), np.array([1.5 * tau]), 1)
        return np.exp(log_p[0]) / np.sqrt(jump)

    mass, second, fourth = (
        2 * quad(lambda x, m=m: x**m * density(x), 1e-9, 30, limit=400)[0] for m in (0, 2, 4)
    )
    assert_allclose(mass, -np.expm1(-1.5 * tau), rtol=1e-7)
    assert_allclose(second, variance, rtol=1e-7)
    assert_allclose(fourth / second**2, 3 + 3 / (1.5 * tau), rtol=1e-7)


def test_simulated_steps_have_the_density():
    n, tau = 20_000, 0.8
    size = {"n_particles": n, "n_steps": 1, "n_dim": 2, "tau": tau}
    x = jax.jit(lambda key: RandomWalk(**THETA).simulate(key, **size))(jax.random.key(1))
    dx = np.asarray(x)[:, 1]
    at_rest = ~np.any(dx, axis=1)
    edges = np.linspace(-2.5, 2.5, 11)
    scale = np.sqrt(2 * 0.7 / 1.5 * NUMBERS)
    below = norm.cdf(np.array([-np.inf, *edges, np.inf])[:, None] / scale)
    shares = np.diff(below @ poisson.pmf(NUMBERS, 1.5 * tau))
    for axis in range(2):
        counts = np.histogram(dx[~at_rest, axis], [-np.inf, *edges, np.inf])[0]
        wanted = n * np.array([*shares, np.exp(-1.5 * tau)])
        assert chisquare([*counts, at_rest.sum()], wanted, sum_check=False).pvalue > 1e-3
    # Jumps of both axes come together.
    squares = dx**2
    excess = np.mean(squares[:, 0] * squares[:, 1]) / (2 * 0.7 * tau) ** 2 - 1
    spread = np.std(squares[:, 0] * squares[:, 1]) / (2 * 0.7 * tau) ** 2 / np.sqrt(n)
    assert abs(excess - 1 / (1.5 * tau)) < 4 * spread


def test_the_evidence_is_that_of_a_sum_over_a_grid():
    data = walked()
    hypothesis = Hypothesis(RandomWalk, kappa=Exponential(1.0), rate=Exponential(1.0))
    found = evidence(hypothesis, data)
    z = np.linspace(-4, 4, 41)
    kappa, rate = (part.ravel() for part in np.meshgrid(np.exp(z), np.exp(z)))
    # The sum of `by_hand`, for all diffusivities and rates at once but step by step.
    variance = 2 * (kappa / rate)[:, None] * NUMBERS
    terms = poisson.logpmf(NUMBERS, rate[:, None]) - np.log(2 * np.pi * variance)
    log_p = sum(logsumexp(terms - np.sum(x**2) / (2 * variance), axis=1) for x in data.dx)
    assert_allclose(log_p[7], by_hand(data.dx, 1.0, kappa[7], rate[7]), rtol=1e-12)
    wanted = logsumexp(log_p - kappa - rate + np.log(kappa * rate)) + 2 * np.log(z[1] - z[0])
    assert found.status is Status.OK
    assert_allclose(found.log_evidence, wanted, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("random_walk+noise", "'random_walk' takes no options, got 'noise'"),
        ("random_walk&langevin", "random_walk cannot be a part of a sum such as"),
        ("random_walk*2", "must be a model, with noise or blur at most"),
        ("random_wak", "did you mean 'random_walk'"),
    ],
)
def test_what_it_is_no_part_of_is_refused(name, message):
    with pytest.raises(DriftbayesError, match=message):
        model_named(name, MODELS)


def test_zero_steps_and_errors_are_refused():
    dx = np.array(walked().dx)
    errors = replace(walked(), position_sd=np.full(len(dx) + 1, 0.1))
    dx[3] = 0.0
    rests = Displacements.from_array(dx[None], 1.0)
    model = RandomWalk(kappa=Exponential(1.0), rate=Exponential(1.0))
    for data, message in (
        (rests, "1 of 2[0-9]|3[0-9] steps are exactly zero, to which random_walk gives"),
        (errors, "random_walk needs positions without errors"),
    ):
        with pytest.raises(DriftbayesError, match=message):
            evidence(model, data)
        with pytest.raises(DriftbayesError, match=message):
            RandomWalk(**THETA).log_likelihood(data)
    # A step that is zero along one axis only is no rest.
    dx[3] = [0.0, 0.4]
    found = RandomWalk(**THETA).log_likelihood(Displacements.from_array(dx[None], 1.0))
    assert_allclose(found, by_hand(dx, 1.0, **THETA), rtol=1e-12)
