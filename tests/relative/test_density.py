"""Densities of separations against 50 digits and closed forms of the literature."""

from itertools import pairwise

import mpmath as mp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.special import gamma

from driftbayes.relative._density import log_bessel_i, log_separation_density

EXPONENTS = [0.0, 0.7, 4 / 3, 1.9, 1.999, 2.0]


def density(r, r0, t, xi, kappa, n_dim):
    arrays = (np.array([float(value)]) for value in (r0, r, t))
    return float(np.exp(log_separation_density(*arrays, xi, kappa, n_dim))[0])


@pytest.mark.parametrize("order", [-0.4, 0.0, 0.5, 2.0, 10.0, 39.9, 40.0, 100.0, 1e5])
def test_bessel_functions_have_all_digits(order):
    with mp.workdps(50):
        for z in (1e-8, 1e-4, 9e-3, 1.1e-2, 0.3, 7.0, 33.0, 101.0, 300.0, 1.6e3, 9e3, 1.1e4):
            known = float(mp.log(mp.besseli(order, z, maxterms=10**6)) - z)
            found = log_bessel_i(order, np.array([z]))[0]
            assert abs(found - known) < 1e-13 * max(1.0, abs(known))


@pytest.mark.parametrize("n_dim", [1, 2, 3])
@pytest.mark.parametrize("xi", EXPONENTS)
def test_the_density_integrates_to_one(xi, n_dim):
    edges = [0.0, 0.3, 1.0, 2.0, 5.0, np.inf]
    parts = [
        quad(density, a, b, args=(1.3, 0.7, xi, 0.4, n_dim), limit=400)[0]
        for a, b in pairwise(edges)
    ]
    assert_allclose(sum(parts), 1.0, atol=1e-8)


def test_rayleigh_is_two_particles_that_diffuse_apart():
    # Of a vector with independent normal components about (r0, 0): the law of Rice.
    r0, t, kappa = 1.3, 0.7, 0.4
    for r in (0.1, 1.0, 3.0):
        variance = 2 * kappa * t
        rice = r / variance * np.exp(-((r - r0) ** 2) / (2 * variance))
        rice *= float(mp.besseli(0, r * r0 / variance) * mp.exp(-r * r0 / variance))
        assert_allclose(density(r, r0, t, 0.0, kappa, 2), rice, rtol=1e-12)


def test_richardson_is_lacasces_density():
    # Journal of Fluid Mechanics 652 (2010), in two dimensions, of p with 2π r p dr.
    r0, t, beta = 1.3, 0.7, 0.4
    for r in (0.2, 1.0, 4.0):
        with mp.workdps(30):
            a = mp.mpf(9) / (4 * mp.mpf(beta) * t)
            p = mp.mpf(3) / (4 * mp.pi * beta * t * mp.mpf(r0) ** (mp.mpf(2) / 3))
            p *= mp.mpf(r) ** (-mp.mpf(2) / 3)
            p *= mp.exp(-a * (mp.mpf(r0) ** (mp.mpf(2) / 3) + mp.mpf(r) ** (mp.mpf(2) / 3)))
            p *= mp.besseli(2, 2 * a * (mp.mpf(r0) * r) ** (mp.mpf(1) / 3))
            known = float(2 * mp.pi * r * p)
        assert_allclose(density(r, r0, t, 4 / 3, beta, 2), known, rtol=1e-12)


def test_lundgren_is_the_limit_of_exponents_near_two():
    for r in (0.5, 1.5, 6.0):
        limit = density(r, 1.3, 0.7, 2.0, 0.4, 2)
        near = [density(r, 1.3, 0.7, 2 - 10.0**-k, 0.4, 2) for k in (4, 6)]
        assert abs(near[1] - limit) < 0.02 * abs(near[0] - limit) + 1e-9


@pytest.mark.parametrize("n_dim", [2, 3])
def test_constants_of_richardsons_law(n_dim):
    # From a start so close that it is forgotten: r^(2/3) has a gamma law of shape 3d/2.
    def moment(order):
        return quad(
            lambda u: np.exp(u) ** (order + 1) * density(np.exp(u), 1e-12, 1.0, 4 / 3, 1.0, n_dim),
            *(-25, 9),
            limit=500,
        )[0]

    second, fourth = moment(2), moment(4)
    shape = 1.5 * n_dim
    assert_allclose(second, {2: 5.267490, 3: 1144 / 81}[n_dim], rtol=1e-6)
    kurtosis = gamma(shape + 6) * gamma(shape) / gamma(shape + 3) ** 2
    assert_allclose(fourth / second**2, {2: 5.6, 3: kurtosis}[n_dim], rtol=1e-6)
