"""The scale integrated out: Bessel functions against 50 digits, recurrences and closed forms."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.stats import geninvgauss

from driftbayes.inference._scale import (
    GammaForm,
    gamma_form,
    log_bessel_k,
    log_scale_evidence,
    scale_posterior,
)
from driftbayes.priors import Exponential, Gamma, LogNormal, Uniform
from driftbayes.testing import strategies as some

log_k = log_bessel_k
# Of max(1, |ln K|), for x >= 1e-6; reached 1e-14. At x = 1e-8 and orders below 2 it is 1e-11.
TOLERANCE = 1e-13


def error(found, expected):
    return np.abs(found - expected) / np.maximum(1.0, np.abs(expected))


def evidence_of(n, log_det, quadratic, prior):
    terms = (np.array(float(value)) for value in (n, log_det, quadratic))
    return float(log_scale_evidence(*terms, gamma_form(prior)))


# --- ln K --------------------------------------------------------------------------------------


def test_log_bessel_k_agrees_with_50_digits_at_orders_up_to_a_million(golden):
    cases = golden("bessel")["cases"]
    nu, z, expected = (
        np.array([float(case[name]) for case in cases]) for name in ("nu", "z", "log_k")
    )
    found = log_bessel_k(nu, z)
    assert error(found, expected).max() < TOLERANCE


@given(nu=st.floats(-50, 5000), x=some.scales(1e-6, 1e6))
def test_recurrence_in_the_order_holds(nu, x):
    below, here, above = (float(log_k(np.array(nu + i), np.array(x))) for i in (-1, 0, 1))
    # K_{v+1} = K_{v-1} + (2v/x) K_v, each term divided by the largest.
    top = max(below, here + np.log(max(2 * abs(nu) / x, 1e-300)), above)
    terms = np.exp([above - top, below - top, here - top])
    residual = terms[0] - terms[1] - 2 * nu / x * terms[2]
    # The exponents are rounded relative to their own size.
    assert abs(residual) < 1e-11 + 4e-13 * max(abs(below), abs(here), abs(above))


@given(x=some.scales(1e-6, 1e6))
def test_half_integer_orders_have_their_closed_form(x):
    half = 0.5 * np.log(np.pi / (2 * x)) - x
    closed = {0.5: half, -0.5: half, 1.5: half + np.log1p(1 / x)}
    closed[2.5] = half + np.log1p(3 / x + 3 / x**2)
    for nu, expected in closed.items():
        assert error(float(log_k(np.array(nu), np.array(x))), expected) < TOLERANCE


@given(nu=st.floats(0, 2000), x=some.scales(1e-6, 1e6))
def test_order_may_be_negative(nu, x):
    one, other = (float(log_k(np.array(sign * nu), np.array(x))) for sign in (1.0, -1.0))
    assert one == other


@given(nu=st.floats(0.1, 2000), x=some.scales(1e-3, 1e4))
def test_derivative_is_that_of_the_recurrence(nu, x):
    # Central differences of fourth order in ln x.
    h = 1e-3
    value = {i: float(log_k(np.array(nu), np.array(x * np.exp(i * h)))) for i in (-2, -1, 1, 2)}
    slope = (8 * (value[1] - value[-1]) - (value[2] - value[-2])) / (12 * h * x)
    here, below = (float(log_k(np.array(order), np.array(x))) for order in (nu, nu - 1))
    assert_allclose(slope, -np.exp(below - here) - nu / x, rtol=1e-7)


# --- Evidence and posterior of a scale ---------------------------------------------------------


@pytest.mark.sampled(2)
@pytest.mark.parametrize("prior", [Exponential(mean=0.3), Gamma(shape=2.5, mean=4.0)])
@pytest.mark.parametrize("n", [1, 2, 7, 40])
def test_evidence_is_the_integral_over_the_scale(n, prior):
    log_det, quadratic = 0.7, 1.9 * n

    def integrand(u):
        c = np.exp(u)
        fit = -0.5 * (n * np.log(2 * np.pi * c) + log_det + quadratic / c)
        return np.exp(fit + float(prior.log_density(np.asarray(c))) + u)

    expected = sum(
        quad(integrand, a, b, epsabs=0, epsrel=1e-11)[0]
        for a, b in ((-25, -2), (-2, 0), (0, 2), (2, 8))
    )
    assert_allclose(evidence_of(n, log_det, quadratic, prior), np.log(expected), atol=1e-9)


def test_gamma_prior_of_shape_one_is_exponential():
    found = [
        evidence_of(10, 0.3, 12.0, prior) for prior in (Exponential(2.0), Gamma(1.0, mean=2.0))
    ]
    assert_allclose(found[0], found[1], rtol=1e-14)


def test_only_priors_of_gamma_form_have_a_closed_integral():
    assert gamma_form(LogNormal(median=1.0, sigma=1.0)) is None
    assert gamma_form(Uniform(low=0.0, high=1.0)) is None
    form = gamma_form(Gamma(shape=2.0, mean=3.0))
    theta = np.array([0.1, 1.0, 5.0])
    written_out = form.log_norm + (form.shape - 1) * np.log(theta) - form.rate * theta
    assert_allclose(written_out, Gamma(shape=2.0, mean=3.0).log_density(theta), rtol=1e-13)


@pytest.mark.parametrize(
    ("n", "quadratic", "mean"), [(1, 2.0, 1.0), (36, 50.0, 0.7), (36, 5.0, 9.0)]
)
def test_nodes_stand_for_a_generalised_inverse_gaussian(n, quadratic, mean):
    nodes, log_weights = scale_posterior(
        np.asarray(float(n)), np.asarray(quadratic), GammaForm(1.0, 1 / mean, 0.0)
    )
    weights = np.exp(log_weights) / np.exp(log_weights).sum()
    b = 0.5 * quadratic
    posterior = geninvgauss(1 - n / 2, 2 * np.sqrt(b / mean), scale=np.sqrt(b * mean))
    assert_allclose(weights @ nodes, posterior.mean(), rtol=1e-8)
    assert_allclose(weights @ nodes**2, posterior.moment(2), rtol=1e-7)


def test_impossible_terms_give_no_evidence_rather_than_nan():
    assert evidence_of(10, np.nan, 12.0, Exponential(1.0)) == -np.inf
