"""Equations that come with the package: limits, steady states, priors, names."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from equations import UNIT, langevin, langevin_data
from numpy.testing import assert_allclose
from scipy import stats
from scipy.integrate import quad

from driftbayes import ConfinedLangevin, DriftbayesError, scaling_priors
from driftbayes.models import MODELS, model_named
from driftbayes.models._named import SDES
from driftbayes.sde import (
    KalmanDensity,
    double_well,
    fluctuating_dissipation,
    in_potential,
    nonlinear_friction,
    random_flight,
    student_langevin,
)
from driftbayes.sde._models.student import log_intensity

THETA = {"gamma": 1.3, "k": 0.7}
# What the other parameters are where a model is Langevin's.
LIMITS = {
    "random_flight": {"slope1": 0.0, "slope2": 0.0},
    "nonlinear_friction": {"nonlinearity": 0.0},
    "double_well": {"barrier": 0.0, "separation": 0.6},
    "fluctuating_dissipation": {"intermittency": 0.0, "renewal": 2.0},
}
STATES = np.random.default_rng(2).normal(size=(5, 2, 2))


def law_of(model, values):
    return model.law, model(**values).theta()


def at_states(law, theta, v):
    """Drift, diffusion, and mean and variance at first, at each of the states."""
    t = jnp.zeros(())

    def at(x, u):
        moved = law.drift_at(x, u, t, theta, v), law.diffusion_at(x, u, t, theta, v)
        return *moved, *law.initial(x, t, theta, v)

    return jax.jit(jax.vmap(at))(*jnp.moveaxis(jnp.asarray(STATES), 1, 0))


@pytest.mark.parametrize("name", LIMITS)
def test_in_its_limit_each_equation_is_langevins(name):
    law, theta = law_of(model_named(name, MODELS), {**THETA, **LIMITS[name]})
    all_wanted = at_states(*law_of(langevin(), THETA), jnp.zeros(0))
    all_found = at_states(law, theta, jnp.full(law.n_hidden, 0.8))
    for wanted, found in zip(all_wanted, all_found, strict=True):
        assert_allclose(found, wanted, rtol=1e-12, atol=1e-14)


def test_the_names_are_those_of_the_command_line():
    assert set(LIMITS) | {"sde_langevin"} <= set(SDES)
    for name in LIMITS:
        model = model_named(f"{name}+noise", MODELS)
        assert model.name == f"{name}+noise"
        rules = scaling_priors(2.0, 3.0)
        for parameter in model.parameters:
            assert parameter in rules
    units = {n: p.unit("m", "s") for name in LIMITS for n, p in SDES[name].parameters.items()}
    assert units["slope1"] == "1/m"
    assert units["barrier"] == "m²/s²"
    assert units["separation"] == "m"
    assert units["renewal"] == "1/s"
    assert units["intermittency"] == units["nonlinearity"] == "1"
    # Scales of the rules have these units.
    assert rules["slope1"].sd == 1 / 6
    assert rules["barrier"].mean() == 4
    assert rules["separation"].mean() == 6


def unsteadiness(law, theta, log_p, states):
    """Largest rate of change of ln of a density of (x, u), by the Fokker--Planck equation."""
    rates = jax.jit(jax.vmap(lambda state: _rate(law, theta, log_p, *state)))(jnp.asarray(states))
    return float(jnp.max(jnp.abs(rates)))


def _rate(law, theta, log_p, x, u):
    t, none = jnp.zeros(()), jnp.zeros(0)

    def of_velocity(x, u):
        return jnp.exp(log_p(x, u)) * law.drift_at(x, u, t, theta, none)

    def spread(x, u):
        return 0.5 * law.diffusion_at(x, u, t, theta, none) ** 2 * jnp.exp(log_p(x, u))

    carried = jnp.trace(jax.jacfwd(lambda x: u * jnp.exp(log_p(x, u)))(x))
    driven = jnp.trace(jax.jacfwd(of_velocity, 1)(x, u))
    curved = jax.jacfwd(jax.jacfwd(spread, 1), 1)(x, u)
    diffused = sum(curved[i, i, i] for i in range(len(x)))
    return (diffused - carried - driven) / jnp.exp(log_p(x, u))


def test_a_random_flight_leaves_evenly_spread_particles_so():
    model = random_flight(
        lambda x, theta: theta.a * jnp.sin(x[0]) + 0.3 * jnp.cos(2 * x[1] - x[0]), {"a": UNIT}
    )
    law, theta = law_of(model, {**THETA, "a": 0.6})

    def log_p(x, u):
        sigma = law.initial_velocity(x, 0.0, theta)
        return -2 * jnp.log(sigma) - 0.5 * (u @ u) / sigma**2

    assert unsteadiness(law, theta, log_p, STATES) < 1e-12
    # Which is no property of the check: a density that is not even changes.
    assert unsteadiness(law, theta, lambda x, u: log_p(x, u) + x[0], STATES) > 1e-2


def test_the_drift_of_a_random_flight_is_thomsons():
    law, theta = law_of(random_flight(), {**THETA, "slope1": 0.4, "slope2": -0.7})
    slope = np.array([0.4, -0.7])
    drift, *_ = at_states(law, theta, jnp.zeros(0))
    for (x, u), found in zip(STATES, drift, strict=True):
        rise = np.tanh(slope @ x)
        variance = 1.3 * 0.7 * np.exp(2 * rise)
        gradient = 2 * slope * (1 - rise**2) * variance
        wanted = -1.3 * u + 0.5 * gradient + 0.5 * u * (u @ gradient) / variance
        assert_allclose(found, wanted, rtol=1e-12)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("n_dim", [1, 2, 3])
def test_friction_that_grows_has_its_steady_velocities(n_dim):
    beta = 0.9
    law, theta = law_of(nonlinear_friction(), {**THETA, "nonlinearity": beta})
    power = 1.3 * 0.7

    def log_p(x, u):
        r2 = u @ u / power
        return -r2 / 2 - beta * r2**2 / 4

    states = np.random.default_rng(1).normal(size=(3, 2, n_dim))
    assert unsteadiness(law, theta, log_p, states) < 1e-12
    x = jnp.asarray(states[0, 0])
    initial = jax.jit(lambda theta: law.initial(x, jnp.zeros(()), theta, jnp.zeros(0)))
    for other in (0.0, 0.9, 40.0, 3e3):
        moments = [
            quad(lambda r, m=m, b=other: r**m * np.exp(-(r**2) / 2 - b * r**4 / 4), 0, 12)[0]
            for m in (n_dim - 1, n_dim + 1)
        ]
        theta = theta._replace(nonlinearity=jnp.asarray(other))
        wanted = power * moments[1] / moments[0] / n_dim
        assert_allclose(initial(theta)[1], wanted, rtol=1e-8)


def test_a_potential_has_boltzmanns_density():
    law, theta = law_of(double_well(), {**THETA, "barrier": 0.8, "separation": 1.4})

    def log_p(x, u):
        energy = 0.5 * u @ u + 0.8 * ((x[0] / 1.4) ** 2 - 1) ** 2
        return -energy / (1.3 * 0.7)

    assert unsteadiness(law, theta, log_p, STATES) < 1e-12


def test_a_quadratic_potential_moves_as_confined_does():
    trap = in_potential(
        lambda x, th: 0.5 * th.gamma * th.well * jnp.sum((x - 0.3) ** 2), {"well": UNIT}
    )
    law, theta = law_of(trap, {**THETA, "well": 0.4})
    confined = ConfinedLangevin(gamma=1.3, well=0.4, k=0.7)
    dynamics = eqx.filter_jit(lambda model: model.dynamics())(confined)
    rates = np.asarray(dynamics.rates)
    x, u = STATES[0]
    # Its second variable is the distance from the centre, times a rate.
    wanted = rates[0, 0] * u + rates[0, 1] * rates[1, 0] * (x - 0.3)
    drift, diffusion, *_ = (part[0] for part in at_states(law, theta, jnp.zeros(0)))
    assert_allclose(drift, wanted, rtol=1e-12)
    assert_allclose(diffusion**2, np.asarray(dynamics.intensity)[0, 0])


def test_a_fluctuating_dissipation_has_langevins_second_moments():
    law, theta = law_of(fluctuating_dissipation(), {**THETA, "intermittency": 1.1, "renewal": 0.5})
    z, weights = np.polynomial.hermite_e.hermegauss(40)
    x = u = jnp.zeros(2)
    diffusion = jax.jit(jax.vmap(lambda v: law.diffusion_at(x, u, 0.0, theta, v)[0]))
    squares = np.asarray(diffusion(jnp.asarray(z)[:, None])) ** 2
    mean = weights @ squares / weights.sum()
    assert_allclose(mean, 2 * 1.3**2 * 0.7, rtol=1e-10)
    first, second = (weights @ np.log(squares) ** m / weights.sum() for m in (1, 2))
    assert_allclose(second - first**2, 1.1**2, rtol=1e-10)


@pytest.mark.parametrize("degrees", [2.5, 4.0, 7.0, 60.0])
def test_students_intensity_is_inverse_gamma(degrees):
    z = np.linspace(-7.9, 7.9, 81)
    found = np.exp(log_intensity(degrees)(z))
    # The chance of a larger intensity is that of a larger normal number.
    chance = stats.invgamma(degrees / 2, scale=(degrees - 2) / 2).sf(found)
    assert_allclose(chance, stats.norm.sf(z), rtol=1e-5)
    law, theta = law_of(student_langevin(degrees), {**THETA, "renewal": 0.3})
    zero = np.zeros(2)
    b = jax.jit(law.diffusion_at)(zero, zero, 0.0, theta, np.array([1.2]))
    wanted = stats.invgamma(degrees / 2, scale=(degrees - 2) / 2).isf(stats.norm.sf(1.2))
    assert_allclose(b**2, 2 * 1.3**2 * 0.7 * wanted, rtol=1e-7)


def test_the_extended_kalman_filter_has_the_likelihood_of_the_limit():
    from driftbayes import Langevin

    data = langevin_data(**THETA, n_dim=1, start=0.0)
    values = {**THETA, **LIMITS["double_well"]}
    found = KalmanDensity(data, 2).log_densities(
        double_well().template(), {name: np.array([value]) for name, value in values.items()}
    )
    assert_allclose(found, Langevin(**THETA).log_likelihood(data), rtol=1e-10)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: random_flight(lambda x, th: 0 * x[0]),
            "log_sigma and its parameters must be given",
        ),
        (lambda: random_flight(None, {"a": UNIT}), "log_sigma and its parameters must be given"),
        (
            lambda: in_potential(lambda x, th: x @ x, {"k": UNIT}),
            r"parameter 'k' is one of the equation itself \(gamma, k\); give yours another name",
        ),
        (
            lambda: in_potential(lambda x, th: th.a * x, {"a": UNIT}),
            "drift of in_potential failed with TypeError: Gradient only defined for scalar",
        ),
        (lambda: student_langevin(2.0), r"degrees must be a number above 2, got 2"),
        (lambda: in_potential(lambda x, th: x @ x, [UNIT]), "parameters must be priors by name"),
    ],
)
def test_slips_are_refused(make, message):
    with pytest.raises(DriftbayesError, match=message):
        make()


def test_the_profile_by_name_is_for_two_dimensions():
    from driftbayes import evidence

    data = langevin_data(**THETA, n_dim=1)
    flight = random_flight()(**{n: UNIT for n in random_flight().parameters})
    with pytest.raises(DriftbayesError, match="alone is for two dimensions, not 1; make it with"):
        evidence(flight, data)
