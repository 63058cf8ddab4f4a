"""Random flights against the Fokker--Planck equation: likelihoods of noisy fixes, and simulations.

The method is that of Ramli & Esler (Geosci. Model Dev. 9, 2441, 2016): the density of place and
velocity in Hermite functions. The boundary layers have the profiles of Hanna (1982) as FLEXPART
takes them, with reflection at the ground and at the top; depth, friction velocity and fixes are not
taken from either.
"""

from dataclasses import replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from equations import UNIT
from fokker_planck import flight
from numpy.testing import assert_allclose
from scipy.special import logsumexp
from scipy.stats import chisquare

from driftbayes import SDE, Displacements, Langevin, Noise
from driftbayes.sde import Filter, ParticleDensity
from driftbayes.sde._simulate import simulate_paths

# Depth of the boundary layer in km, friction velocity in m/s; km and ks make m/s.
DEPTH, FRICTION = 0.8, 0.3
# Least distance from ground and top, as a share of the depth: there the profiles are rounded off.
_NEAR = 0.1


def height(x, np=np):
    """Distance from the ground of an unwrapped place: particles are reflected at 0 and DEPTH."""
    bend = 1 - 0.5 * (np.pi * _NEAR) ** 2
    return DEPTH / np.pi * np.arccos(bend * np.cos(np.pi * x / DEPTH))


def neutral(x, np=np):
    """Hanna's profiles of σ and T in neutral air; f = 1e-4/s, in 1/ks."""
    z, f = height(x, np), 0.1
    sigma = 1.3 * FRICTION * np.exp(-2 * f * z / FRICTION)
    return sigma, 0.5 * z / sigma / (1 + 15 * f * z / FRICTION)


def stable(x, np=np):
    """Hanna's profiles of σ and T in stable air."""
    part = height(x, np) / DEPTH
    sigma = 1.3 * FRICTION * (1 - part)
    return sigma, 0.1 * DEPTH / sigma * part**0.8


def wavy(x, np=np):
    """Smooth profiles of σ and T that have nothing to do with each other."""
    return 0.7 * np.exp(0.6 * np.sin(x)), 0.8 + 0.4 * np.cos(x - 1)


# Profiles, period, sampling time, error of fixes, and a track.
CASES = {
    "wavy": (wavy, 2 * np.pi, 0.5, 0.2, np.array([2.0, 2.5, 2.6, 3.3, 3.1])),
    "neutral": (neutral, 2 * DEPTH, 0.4, 0.04, np.array([0.12, 0.30, 0.45, 0.40, 0.62])),
    "stable": (stable, 2 * DEPTH, 0.4, 0.05, np.array([0.15, 0.28, 0.42, 0.50, 0.45])),
}


@cache
def reference(name, **sizes):
    profile, period, *_ = CASES[name]
    return flight(lambda x: profile(x)[0], lambda x: profile(x)[1], period, **sizes)


@cache
def equation(name):
    """Thomson's equation for the profiles, σ multiplied by a parameter that is 1."""
    profile = CASES[name][0]

    def sigma(x, theta):
        return theta.strength * profile(x, jnp)[0]

    def drift(x, u, t, theta):
        here, slope = jax.jvp(lambda x: sigma(x, theta), (x,), (jnp.ones_like(x),))
        return -u / profile(x, jnp)[1] + slope * (here + u**2 / here)

    return SDE(
        drift,
        lambda x, u, t, theta: sigma(x, theta) * jnp.sqrt(2 / profile(x, jnp)[1]),
        {"strength": UNIT},
        name=name,
        initial_velocity=lambda x, t, theta: sigma(x, theta),
    )


def track(name):
    _, _, tau, sd, fixes = CASES[name]
    data = Displacements.from_array(np.diff(fixes)[None, :, None], tau, start=[[fixes[0]]])
    return replace(data, position_sd=np.full(len(fixes), sd))


def estimates(name, how, substeps, n):
    """Ln of the mean of n estimates of the likelihood, and its error."""
    density = ParticleDensity(track(name), how, substeps, seed=3)
    log_l = density.log_densities(equation(name).template(), {"strength": np.ones(n)})
    mean = logsumexp(log_l) - np.log(n)
    return mean, np.exp(log_l - mean).std(ddof=1) / np.sqrt(n)


def test_the_reference_has_the_likelihood_of_langevin_where_nothing_varies():
    gamma, k, fixes = 1.5, 0.3, CASES["wavy"][4]
    even = flight(lambda x: np.sqrt(gamma * k), lambda x: 1 / gamma, 2 * np.pi, n_w=24, n_s=49)
    data = Displacements.from_array(np.diff(fixes)[None, :, None], 0.5)
    for sd in (0.2, 0.3):
        wanted = Noise(Langevin(gamma, k), sd).log_likelihood(data)
        assert_allclose(even.log_likelihood(fixes, 0.5, sd), wanted, atol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_the_reference_leaves_evenly_spread_particles_so(name):
    solver = reference(name, n_w=16)
    even = np.zeros((16, len(solver.x)))
    even[0] = solver.sigma
    assert np.abs(solver.change(even)).max() < 1e-9
    # Which is no property of the check: other densities change.
    even[0] = 1.0
    assert np.abs(solver.change(even)).max() > 1e-2


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_the_reference_has_converged(name):
    _, _, tau, sd, fixes = CASES[name]
    usual = reference(name).log_likelihood(fixes, tau, sd)
    for finer in ({"n_s": 151}, {"n_w": 48}, {"n_t": 400}):
        assert_allclose(reference(name, **finer).log_likelihood(fixes, tau, sd), usual, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_the_likelihood_of_noisy_fixes_is_that_of_the_reference(name):
    """Mean of 256 estimates in nats: guided, without the error of finite substeps; and unguided."""
    _, _, tau, sd, fixes = CASES[name]
    wanted = reference(name).log_likelihood(fixes, tau, sd)
    # Where nothing varied, it would be another: σ and T are felt by far more than filters may err.
    sigma, time_scale = (np.mean(part) for part in CASES[name][0](fixes))
    even = flight(lambda x: sigma, lambda x: time_scale, CASES[name][1])
    print(f"\n{name}: {wanted:.4f}, without variation {even.log_likelihood(fixes, tau, sd):.4f}")
    assert abs(wanted - even.log_likelihood(fixes, tau, sd)) > 0.05
    # That error is of first order: twice the change when the substeps are doubled.
    (coarse, coarse_error), (fine, fine_error) = (
        estimates(name, Filter(128), substeps, 256) for substeps in (16, 32)
    )
    limit, error = 2 * fine - coarse, np.hypot(2 * fine_error, coarse_error)
    z = (limit - wanted) / error
    print(f"16 substeps: {coarse:.4f} ± {coarse_error:.4f}, 32: {fine:.4f} ± {fine_error:.4f}")
    print(f"extrapolated {limit:.4f} ± {error:.4f}, z = {z:.2f}")
    assert error < 0.015
    assert abs(z) < 3.5
    assert abs(fine - wanted) < 0.05
    free, error = estimates(name, Filter(1024, guided=False), 64, 128)
    print(f"unguided {free:.4f} ± {error:.4f}, z = {(free - wanted) / error:.2f}")
    assert error < 0.015
    assert abs(free - wanted) < 3.5 * error


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n != "stable")) for n in CASES]
)
def test_simulated_particles_have_the_density_of_the_reference(name):
    profile, period, tau, sd, (start, *_) = CASES[name]
    n, model, solver = 20_000, equation(name)(strength=1.0), reference(name)
    places = np.random.default_rng(5).normal(start, sd, (n, 1))
    how = {"n_steps": 2, "tau": tau, "substeps": 64}
    x, _ = simulate_paths(model.law, model.theta(), jax.random.key(6), jnp.asarray(places), **how)
    x = np.asarray(x[:, -1, 0])
    edges = np.quantile(places, 0.5) + np.std(x) * np.linspace(-2, 2, 13)
    edges = np.append(edges, edges[0] + period)
    counts = np.histogram((x - edges[0]) % period + edges[0], edges)[0]
    density = solver.advance(solver.advance(solver.spread_at(start, sd), tau), tau)
    assert chisquare(counts, n * solver.shares(density, edges)).pvalue > 1e-3
    # The test would see particles in a layer without variation.
    sigma, time_scale = (float(part) for part in profile(start))
    even = flight(lambda x: sigma, lambda x: time_scale, period)
    density = even.advance(even.advance(even.spread_at(start, sd), tau), tau)
    assert chisquare(counts, n * even.shares(density, edges)).pvalue < 1e-6
