"""Equations that come with the package: likelihoods and simulations against other derivations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from equations import UNIT, data_of, langevin
from fokker_planck import flight
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.special import logsumexp
from scipy.stats import chisquare

from driftbayes import (
    ConfinedLangevin,
    Displacements,
    Fixed,
    Hypothesis,
    Langevin,
    Normal,
    evidence,
    scaling_priors,
)
from driftbayes.models import MODELS, model_named
from driftbayes.sde import (
    Filter,
    ParticleDensity,
    fluctuating_dissipation,
    in_potential,
    nonlinear_friction,
    random_flight,
)
from driftbayes.sde._simulate import simulate_paths

pytestmark = pytest.mark.slow

THETA = {"gamma": 1.5, "k": 0.3}
FIXES = 1 + np.array([0.0, 0.45, 0.3, 1.1, 1.6])
TAU = 0.8


def estimates(model, values, fixes, substeps, n, particles=64):
    """Ln of the mean of n estimates of the likelihood of one track, and its error."""
    data = Displacements.from_array(np.diff(fixes)[None, :, None], TAU, start=[[fixes[0]]])
    columns = {name: np.full(n, value) for name, value in values.items()}
    density = ParticleDensity(data, Filter(particles), substeps)
    log_l = density.log_densities(model.template(), columns)
    mean = logsumexp(log_l) - np.log(n)
    return mean, np.exp(log_l - mean).std(ddof=1) / np.sqrt(n)


def test_the_likelihood_of_a_random_flight_is_that_of_fokker_and_planck():
    model = random_flight(lambda x, theta: -jnp.log(1 + theta.a * jnp.cos(x[0])), {"a": UNIT})
    sigma = np.sqrt(THETA["gamma"] * THETA["k"])
    exact = Displacements.from_array(np.diff(FIXES)[None, :, None], TAU)
    homogeneous, wanted, finer = (
        flight(
            lambda x, a=a: sigma / (1 + a * np.cos(x)),
            lambda x: 1 / THETA["gamma"],
            2 * np.pi,
            **{"n_s": n_s, "n_w": 64, "n_t": 400},
        ).log_likelihood(FIXES, TAU)
        for a, n_s in ((0.0, 65), (0.5, 65), (0.5, 81))
    )
    assert_allclose(homogeneous, Langevin(**THETA).log_likelihood(exact), atol=1e-8)
    assert_allclose(finer, wanted, atol=1e-3)
    # The profile is felt by far more than the filter may err.
    assert abs(wanted - homogeneous) > 0.1
    found, error = estimates(model, {**THETA, "a": 0.5}, FIXES, 32, 64, particles=256)
    assert error < 0.01
    assert abs(found - wanted) < 4 * error + 0.01


def test_a_random_flight_keeps_particles_even_in_a_periodic_box():
    model = random_flight(lambda x, theta: theta.a * jnp.sin(x[0]), {"a": UNIT})
    model = model(gamma=1.0, k=1.0, a=0.8)
    n, bins = 20_000, 16
    start = np.random.default_rng(4).uniform(0, 2 * np.pi, (n, 1))
    x, u = simulate_paths(
        model.law, model.theta(), jax.random.key(1), start, n_steps=4, tau=1.0, substeps=64
    )
    place = np.asarray(x[:, -1, 0]) % (2 * np.pi)
    counts = np.histogram(place, bins, (0, 2 * np.pi))[0]
    assert chisquare(counts).pvalue > 1e-3
    # Velocities over σ at their place are standard normal.
    w = np.asarray(u[:, -1, 0]) / np.exp(0.8 * np.sin(place))
    assert abs(w.mean()) < 4 / np.sqrt(n)
    assert abs(w.var() - 1) < 4 * np.sqrt(2 / n)
    # A drift without the gradient's part gathers them where σ is small: the test would see it.
    density = np.exp(-0.8 * np.sin((np.arange(bins) + 0.5) * 2 * np.pi / bins))
    assert chisquare(n * density / density.sum(), np.full(bins, n / bins)).pvalue < 1e-6


def test_a_quadratic_potential_has_the_likelihood_of_confined():
    """Confined integrates over the centre, and scores the first fix from the steady state."""
    trap = in_potential(
        lambda x, th: 0.5 * th.gamma * th.well * jnp.sum((x - th.center) ** 2),
        {"well": UNIT, "center": UNIT},
    )
    values = {**THETA, "well": 0.6}
    spread = np.sqrt(THETA["k"] / values["well"])
    centres = FIXES[0] + spread * np.linspace(-5, 5, 41)
    data = Displacements.from_array(np.diff(FIXES)[None, :, None], TAU, start=[[FIXES[0]]])
    n, columns = len(centres), {"center": np.tile(centres, 4)}
    columns |= {name: np.full(4 * n, value) for name, value in values.items()}
    log_l = ParticleDensity(data, Filter(256), 64).log_densities(trap.template(), columns)
    log_first = -0.5 * (np.log(2 * np.pi * spread**2) + ((FIXES[0] - centres) / spread) ** 2)
    each = logsumexp(log_l.reshape(4, n) + log_first, axis=1) + np.log(centres[1] - centres[0])
    found, error = each.mean(), each.std(ddof=1) / 2
    wanted = ConfinedLangevin(**values).log_likelihood(data)
    assert abs(wanted - Langevin(**THETA).log_likelihood(data)) > 0.1
    assert error < 0.02
    assert abs(found - wanted) < 4 * error


def test_a_fluctuating_dissipation_has_the_kurtosis_of_its_integral():
    gamma, rate, scatter, n = 1.0, 0.5, 0.8, 40_000
    model = fluctuating_dissipation()(gamma=gamma, k=1.0, intermittency=scatter, renewal=rate)
    _, u = simulate_paths(
        model.law, model.theta(), jax.random.key(2), np.zeros((n, 1)), n_steps=6, tau=1.0
    )
    u = np.asarray(u[:, -1, 0])
    ratio = quad(
        lambda s: 2 * gamma * np.exp(-2 * gamma * s + scatter**2 * np.exp(-rate * s)), 0, np.inf
    )[0]
    assert abs((u**2).mean() - 1) < 4 * (u**2).std() / np.sqrt(n)
    assert abs((u**4).mean() - 3 * ratio) < 4 * (u**4).std() / np.sqrt(n)
    assert 3 * ratio > 4.5


def test_friction_that_grows_is_steady_in_simulation():
    n, beta = 10_000, 2.0
    model = nonlinear_friction()(gamma=1.0, k=1.0, nonlinearity=beta)
    # The error of a substep falls with its length: 2.6 % of the mean square at 1/64.
    how = {"n_steps": 6, "tau": 0.25, "substeps": 128}
    _, u = simulate_paths(model.law, model.theta(), jax.random.key(2), np.zeros((n, 2)), **how)
    r = np.sqrt((np.asarray(u[:, -1]) ** 2).sum(axis=1))
    mass = [
        quad(lambda r, m=m: r**m * np.exp(-(r**2) / 2 - beta * r**4 / 4), 0, 10)[0]
        for m in (1, 3, 5)
    ]
    for power, moment in ((2, mass[1] / mass[0]), (4, mass[2] / mass[0])):
        assert abs((r**power).mean() - moment) < 4 * (r**power).std() / np.sqrt(n)


@pytest.mark.parametrize(
    ("name", "limit"),
    [
        ("nonlinear_friction", {"nonlinearity": 0.0}),
        ("double_well", {"barrier": 0.0, "separation": 0.6}),
        ("fluctuating_dissipation", {"intermittency": 0.0, "renewal": 2.0}),
    ],
)
def test_particle_filters_have_the_likelihood_of_the_limit(name, limit):
    data = Displacements.from_array(np.diff(FIXES)[None, :, None], TAU)
    found, error = estimates(model_named(name, MODELS), {**THETA, **limit}, FIXES, 4, 16)
    wanted = Langevin(**THETA).log_likelihood(data)
    assert abs(found - wanted) < max(4 * error, 1e-9)


@pytest.mark.parametrize(
    ("name", "limit"),
    [
        ("random_flight", {"slope1": 0.0, "slope2": 0.0}),
        ("nonlinear_friction", {"nonlinearity": 0.0}),
        ("double_well", {"barrier": 0.0, "separation": 0.6}),
        ("fluctuating_dissipation", {"intermittency": 0.0, "renewal": 2.0}),
    ],
)
def test_the_evidence_in_the_limit_is_langevins(name, limit):
    data = data_of(langevin(), THETA, n_particles=4, n_steps=8, start=0.0)
    rules = scaling_priors(1.0, 1.0)
    wanted = evidence(Hypothesis.from_table(model_named("langevin", MODELS), rules), data)
    fixed = {**rules, **{key: Fixed(value) for key, value in limit.items()}}
    found = evidence(Hypothesis.from_table(model_named(name, MODELS), fixed), data)
    assert found.status.name == "OK"
    assert found.log_evidence_err < 0.05
    assert abs(found.log_evidence - wanted.log_evidence) < 4 * found.log_evidence_err


@pytest.mark.parametrize("slope", [1.0, 0.0])
def test_evidence_tells_a_random_flight_from_langevin(slope):
    """Eight tracks of eight steps, from places on either side of the ramp."""
    model = random_flight(lambda x, th: jnp.tanh(th.slope * x[0]), {"slope": Normal(0.0, 1.0)})
    start = np.random.default_rng(1).uniform(-3, 3, (8, 1))
    true = model(gamma=1.0, k=1.0, slope=slope)
    x, _ = simulate_paths(true.law, true.theta(), jax.random.key(3), start, n_steps=8, tau=0.5)
    x = np.asarray(x)
    data = Displacements.from_array(np.diff(x, axis=1), 0.5, start=x[:, 0])
    rules = {**scaling_priors(1.0, 1.0), "slope": Normal(0.0, 1.0)}
    plain = evidence(Hypothesis.from_table(model_named("langevin", MODELS), rules), data)
    how = {"seed": 1, "method": "laplace_is", "tolerance": 0.2}
    found = evidence(Hypothesis.from_table(model, rules), data, **how)
    assert found.status.name == "OK"
    log_k = found.log_evidence - plain.log_evidence
    assert log_k > 10 if slope else log_k < -1
    inferred = found.parameters["slope"]
    assert abs(inferred.mean - slope) < 3 * inferred.sd
