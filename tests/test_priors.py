"""Priors: proper densities, their moments by numerical integration, and what is refused."""

from dataclasses import astuple

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import stats
from scipy.integrate import quad

from driftbayes.errors import DriftbayesError
from driftbayes.priors import (
    Exponential,
    Gamma,
    LogNormal,
    Normal,
    Uniform,
    parse_prior,
    scaling_priors,
)
from driftbayes.testing import strategies as some

# Each prior beside SciPy's version of it.
PRIORS = {
    "exponential": (Exponential(mean=0.3), stats.expon(scale=0.3)),
    "narrow gamma": (Gamma(shape=2.5, mean=5.0), stats.gamma(2.5, scale=2.0)),
    "wide gamma": (Gamma(shape=0.7, mean=1.4), stats.gamma(0.7, scale=2.0)),
    "lognormal": (LogNormal(median=0.5, sigma=0.8), stats.lognorm(0.8, scale=0.5)),
    "uniform": (Uniform(low=0.2, high=3.0), stats.uniform(0.2, 2.8)),
    "uniform from zero": (Uniform(low=0.0, high=3.0), stats.uniform(0.0, 3.0)),
}
all_priors = pytest.mark.parametrize(("prior", "scipy"), PRIORS.values(), ids=list(PRIORS))
PROBABILITIES = np.array([1e-3, 0.025, 0.16, 0.5, 0.84, 0.975, 0.999])
# Tolerance of Monte Carlo tests, in standard errors.
FIVE_SIGMA = 5.0


def integral(f, scipy):
    """Of f(θ) over the support, in two halves that share the median."""
    low, middle, high = scipy.ppf([0.0, 0.5, 1.0])
    return sum(
        quad(f, a, b, epsabs=1e-12, epsrel=1e-11)[0] for a, b in ((low, middle), (middle, high))
    )


def density(prior):
    return lambda theta: np.exp(float(prior.log_density(np.asarray(theta))))


@st.composite
def any_prior(draw):
    family = draw(st.sampled_from([Exponential, Gamma, LogNormal, Uniform]))
    scale, width = draw(some.scales()), draw(some.scales(0.1, 10.0))
    if family is Exponential:
        return Exponential(mean=scale)
    if family is Gamma:
        return Gamma(shape=width, mean=scale)
    if family is LogNormal:
        return LogNormal(median=scale, sigma=width)
    return Uniform(low=scale, high=scale * (1 + width))


# --- Densities ---------------------------------------------------------------------------------


@all_priors
def test_density_integrates_to_one(prior, scipy):
    assert_allclose(integral(density(prior), scipy), 1.0, rtol=1e-9)


@all_priors
def test_density_and_quantiles_are_those_of_scipy(prior, scipy):
    theta = scipy.ppf(PROBABILITIES)
    assert_allclose(prior.quantile(PROBABILITIES), theta, rtol=1e-12)
    assert_allclose(prior.log_density(theta), scipy.logpdf(theta), rtol=1e-11, atol=1e-13)


@all_priors
def test_mean_and_width_are_those_found_by_integration(prior, scipy):
    p = density(prior)
    assert_allclose(prior.mean(), integral(lambda t: t * p(t), scipy), rtol=1e-8)
    mean = integral(lambda t: np.log(t) * p(t), scipy)
    square = integral(lambda t: (np.log(t) - mean) ** 2 * p(t), scipy)
    assert_allclose(prior.log_sd(), np.sqrt(square), rtol=1e-7)


@all_priors
def test_draws_follow_the_density(prior, scipy):
    draws = prior.sample(jax.random.key(0), (20_000,))
    error = scipy.std() / np.sqrt(len(draws))
    assert abs(draws.mean() - scipy.mean()) < FIVE_SIGMA * error
    assert stats.kstest(draws, scipy.cdf).pvalue > 1e-6


@all_priors
def test_no_probability_outside_the_support(prior, scipy):
    low, high = scipy.support()
    outside = np.array([-1.0, low - 1e-3, high + 1e-3 if np.isfinite(high) else -2.0])
    assert_allclose(prior.log_density(outside), -np.inf)


@all_priors
def test_rescaled_prior_is_that_of_a_multiple_of_the_parameter(prior, scipy):
    factor = 60.0
    rescaled = prior.rescaled(factor)
    theta = scipy.ppf(PROBABILITIES)
    expected = np.asarray(prior.log_density(theta)) - np.log(factor)
    assert_allclose(rescaled.log_density(factor * theta), expected, rtol=1e-11)
    assert_allclose(rescaled.mean(), factor * prior.mean(), rtol=1e-14)
    assert_allclose(rescaled.log_sd(), prior.log_sd(), rtol=1e-9)


def test_gamma_of_shape_one_is_exponential():
    theta = np.array([0.01, 0.1, 0.3, 1.0, 2.0, 5.0, 10.0])
    one, other = Gamma(shape=1.0, mean=0.3), Exponential(mean=0.3)
    assert_allclose(one.log_density(theta), other.log_density(theta), rtol=1e-14)
    assert_allclose(one.log_sd(), other.log_sd(), rtol=1e-13)


# --- Unconstrained coordinates -----------------------------------------------------------------


@given(prior=any_prior(), z=st.floats(-6, 6))
def test_unconstrained_coordinate_and_back(prior, z):
    there = prior.from_unconstrained(np.asarray(z))
    assert_allclose(prior.to_unconstrained(there), z, rtol=1e-8, atol=1e-8)


@given(prior=any_prior(), z=st.floats(-6, 6))
def test_log_jacobian_is_the_logarithm_of_the_slope(prior, z):
    step = 1e-5
    low, high = (prior.from_unconstrained(np.asarray(z + d)) for d in (-step, step))
    slope = np.log(high - low) - np.log(2 * step)
    # Rounding of the bounds limits the difference where θ hardly changes.
    rounding = 1e-15 * high / (high - low)
    assert_allclose(prior.log_jacobian(np.asarray(z)), slope, atol=1e-8 + rounding)


@all_priors
def test_density_of_the_unconstrained_coordinate_integrates_to_one(prior, scipy):
    del scipy

    def p(z):
        z = np.asarray(z)
        return np.exp(prior.log_density(prior.from_unconstrained(z)) + prior.log_jacobian(z))

    total = sum(quad(p, a, b, epsrel=1e-10)[0] for a, b in ((-60, -5), (-5, 0), (0, 5), (5, 60)))
    assert_allclose(total, 1.0, rtol=1e-8)


def test_bounds_of_an_interval_have_a_finite_coordinate():
    prior = Uniform(low=1.0, high=2.0)
    ends = [float(prior.to_unconstrained(np.asarray(theta))) for theta in (1.0, 2.0)]
    assert_allclose(ends, [-13.8155, 13.8155], rtol=1e-5)


# --- Text --------------------------------------------------------------------------------------


@given(prior=any_prior())
def test_description_is_read_back_to_six_digits(prior):
    again = parse_prior(prior.describe())
    assert type(again) is type(prior)
    for one, other in zip(astuple(again), astuple(prior), strict=True):
        assert_allclose(one, other, rtol=1.1e-5)


def test_description_is_short():
    described = [prior.describe() for prior, _ in PRIORS.values()]
    assert described == [
        "exponential:0.3",
        "gamma:2.5:5",
        "gamma:0.7:1.4",
        "lognormal:0.5:0.8",
        "uniform:0.2:3",
        "uniform:0:3",
    ]


KNOWN = (
    "exponential:MEAN; gamma:SHAPE:MEAN; lognormal:MEDIAN:SIGMA; uniform:LOW:HIGH; normal:MEAN:SD; "
    "fixed:VALUE"
)
POSITIVE = "must be a positive, finite number, got"
BOUNDS = r"must be finite with 0 <= low < high \(an improper prior has no evidence\), got"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("beta:1:1", f"unknown prior 'beta' in 'beta:1:1'; known are {KNOWN}"),
        ("normal:0:0", "the sd of a normal prior must be a positive, finite number, got 0.0"),
        ("fixed:nan", "a fixed value must be a finite number, got nan"),
        ("", f"unknown prior '' in ''; known are {KNOWN}"),
        ("exponential", "prior 'exponential' must be written exponential:MEAN"),
        ("exponential:1:2", "prior 'exponential:1:2' must be written exponential:MEAN"),
        ("gamma:2", "prior 'gamma:2' must be written gamma:SHAPE:MEAN"),
        ("uniform:0:x", "prior 'uniform:0:x' must be written uniform:LOW:HIGH"),
        ("exponential:-1", rf"the mean of an exponential prior {POSITIVE} -1\.0"),
        ("exponential:nan", f"the mean of an exponential prior {POSITIVE} nan"),
        ("uniform:0:inf", rf"the bounds of a uniform prior {BOUNDS} \[0\.0, inf\]"),
    ],
)
def test_text_that_is_no_prior_is_refused(text, message):
    with pytest.raises(DriftbayesError, match=message):
        parse_prior(text)


@pytest.mark.parametrize("bad", [0.0, -2.0, np.inf, np.nan])
@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda bad: Exponential(mean=bad), "the mean of an exponential prior"),
        (lambda bad: Gamma(shape=bad, mean=1.0), "the shape of a gamma prior"),
        (lambda bad: Gamma(shape=2.0, mean=bad), "the mean of a gamma prior"),
        (lambda bad: LogNormal(median=bad, sigma=1.0), "the median of a lognormal prior"),
        (lambda bad: LogNormal(median=1.0, sigma=bad), "the sigma of a lognormal prior"),
    ],
)
def test_number_that_is_not_positive_and_finite_is_refused(make, name, bad):
    with pytest.raises(DriftbayesError, match=f"{name} {POSITIVE} {bad}"):
        make(bad)


@pytest.mark.parametrize(
    ("low", "high"), [(1.0, 1.0), (2.0, 1.0), (-1.0, 1.0), (0.0, np.inf), (np.nan, 1.0)]
)
def test_bounds_without_a_proper_density_between_them_are_refused(low, high):
    with pytest.raises(DriftbayesError, match=BOUNDS):
        Uniform(low=low, high=high)


# --- The paper's priors ------------------------------------------------------------------------


def test_scaling_priors_are_those_of_the_paper():  # [eq:prior-means]
    # The published flow: E = 0.2315 and a turnover time of 0.07347.
    priors = scaling_priors(u_rms=0.6805, timescale=0.07347)
    assert priors["kappa"] is priors["k"]
    assert all(isinstance(priors[name], Exponential) for name in ("kappa", "k", "gamma"))
    assert_allclose(priors["kappa"].mean(), 0.03402, rtol=1e-3)
    assert_allclose(priors["gamma"].mean(), 13.61, rtol=1e-3)


@given(u_rms=some.scales(), timescale=some.scales(), length=some.scales(), time=some.scales())
def test_scaling_priors_do_not_depend_on_the_units(u_rms, timescale, length, time):
    here = scaling_priors(u_rms, timescale)
    there = scaling_priors(u_rms * length / time, timescale * time)
    assert_allclose(there["k"].mean(), here["k"].mean() * length**2 / time, rtol=1e-12)
    assert_allclose(there["gamma"].mean(), here["gamma"].mean() / time, rtol=1e-12)


@pytest.mark.parametrize("bad", [0.0, -1.0, np.inf, np.nan])
def test_scale_that_is_not_positive_is_refused_by_name(bad):
    with pytest.raises(DriftbayesError, match=f"u_rms must be a positive number, got {bad}"):
        scaling_priors(bad, 1.0)
    with pytest.raises(DriftbayesError, match=f"timescale must be a positive number, got {bad}"):
        scaling_priors(1.0, bad)


# --- Signed and known parameters ---------------------------------------------------------------


def test_normal_prior_is_scipys_and_lives_on_the_whole_line():
    prior, scipy = Normal(mean=-0.4, sd=1.7), stats.norm(-0.4, 1.7)
    theta = scipy.ppf(PROBABILITIES)
    assert_allclose(prior.quantile(PROBABILITIES), theta, rtol=1e-12)
    assert_allclose(prior.log_density(theta), scipy.logpdf(theta), rtol=1e-12)
    assert_allclose(prior.log_sd(), 1.7)
    z = np.asarray(-3.0)
    assert prior.is_signed
    assert float(prior.from_unconstrained(prior.to_unconstrained(z))) == -3.0
    assert float(prior.log_jacobian(z)) == 0.0
    assert prior.rescaled(2.0).describe() == "normal:-0.8:3.4"


def test_fixed_value_is_its_own_quantile_at_every_probability():
    prior = parse_prior("fixed:0.25")
    assert_allclose(prior.quantile(np.asarray([0.0, 0.3, 1.0])), 0.25)
    assert float(prior.mean()) == 0.25
    assert prior.rescaled(4.0).describe() == "fixed:1"
