"""What every registered model must keep: a new model is tested by being registered."""

import dataclasses
import inspect

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given as given_many
from hypothesis import settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.linalg import toeplitz

from driftbayes.data._sampling import Displacements
from driftbayes.errors import DriftbayesError
from driftbayes.likelihood import ReducedDisplacements, SummedDisplacements, second_moments
from driftbayes.models import MODELS, AbstractModel, Parameter, preparation
from driftbayes.priors import Exponential
from driftbayes.testing import strategies as some

families = pytest.mark.parametrize("family", MODELS.values(), ids=list(MODELS))
with_state_space = pytest.mark.parametrize(
    "family", [f for f in MODELS.values() if f.has_state_space], ids=lambda f: f.name
)
WITHOUT_STATE_SPACE = {n: family for n, family in MODELS.items() if not family.has_state_space}
# Those whose spread does not become a diffusion: it stays bounded, or is another power of time.
BOUNDED = {"confined", "confined_brownian"}
ANOMALOUS = {"fractional"}
diffusive = pytest.mark.parametrize(
    "family",
    [f for f in MODELS.values() if f.name not in BOUNDED | ANOMALOUS],
    ids=lambda f: f.name,
)


def quickly(*names, families=MODELS):
    """These families by default, all others slowly."""
    return pytest.mark.parametrize(
        "family",
        [
            pytest.param(family, id=name, marks=() if name in names else pytest.mark.slow)
            for name, family in families.items()
        ],
    )


# For properties of the engines: a closed form, a matrix exponential, and no state-space form.
one_of_each_engine = quickly("langevin", "confined", "fractional")
# What takes long to compile or to run: a closed form and a matrix exponential.
differentiated = quickly("confined_brownian", "oscillating")
# Simulation: with a state-space form and without.
simulated = quickly("confined", "fractional")
TAU = 0.7
# There are many families: fewer examples of each.
EXAMPLES = max(settings().max_examples // 8, 3)
# Tolerance of Monte Carlo tests, in standard errors.
FIVE_SIGMA = 5.0


def given(**drawn):
    return lambda test: settings(max_examples=EXAMPLES)(given_many(**drawn)(test))


# Compiled once per family: call by call, JAX would spend its time on the overhead.
N_LAGS, N_TIMES = 6, 64


@eqx.filter_jit
def law(model, lags, t, tau):
    """All that a model says of its motion: one program."""
    found = {
        "autocovariance": model.increment_autocovariance(lags, tau),
        "spread": model.mean_square_displacement(t),
        "velocity": model.lvaf(t),
        "diffusivity": model.absolute_diffusivity(t),
    }
    if model.has_state_space:
        found["transition"] = model.transition(tau)
        found["start"] = model.initial_covariance()
    return found


def part_of_law(name, model, lags=(), t=(), tau=1.0):
    lags, t = np.asarray(lags, dtype=float), np.asarray(t, dtype=float)
    n_lags, n_times = len(lags), t.size
    lags = np.pad(lags, (0, N_LAGS - n_lags))
    times = np.pad(t.ravel(), (0, N_TIMES - n_times), constant_values=1.0)
    found = law(model, lags, times, np.asarray(tau, dtype=float))[name]
    if name == "autocovariance":
        return np.asarray(found)[:n_lags]
    if name in ("transition", "start"):
        return jax.tree.map(np.asarray, found)
    return np.asarray(found)[:n_times].reshape(t.shape)


def autocovariance(model, lags, tau):
    return part_of_law("autocovariance", model, lags=lags, tau=tau)


def spread_of(model, t):
    return part_of_law("spread", model, t=t)


def velocity_autocovariance(model, t):
    return part_of_law("velocity", model, t=t)


def diffusivity_at(model, t):
    return part_of_law("diffusivity", model, t=t)


def transition(model, t):
    return part_of_law("transition", model, tau=t)


def start_of(model):
    return part_of_law("start", model)


row_by_theta = eqx.filter_jit(jax.jacfwd(lambda model, *at: model.increment_autocovariance(*at)))


@eqx.filter_jit
def bend(model, t):
    """Second derivative at all times at once, forwards: backwards it takes longer to compile."""

    def along(function):
        return lambda t: jax.jvp(function, (t,), (jnp.ones_like(t),))[1]

    return along(along(model.mean_square_displacement))(t)


@eqx.filter_jit
def first_and_single_autocovariances(model, n, tau):
    single = model.increment_autocovariance(jnp.arange(n, dtype=float), tau)
    return model.first_autocovariances(n, tau), single


def slope(model, data, name):
    """Derivative of the log-likelihood by one parameter, by differences of the fourth order."""
    value, step = float(getattr(model, name)), 1e-3 * float(getattr(model, name))
    at = {
        n: dataclasses.replace(model, **{name: value + n * step}).log_likelihood(data)
        for n in (-2, -1, 1, 2)
    }
    return (8 * (at[1] - at[-1]) - (at[2] - at[-2])) / (12 * step)


def simulate(model, key, tau, n_steps=6, n_particles=10_000):
    return model.simulate(key, n_particles=n_particles, n_steps=n_steps, n_dim=2, tau=tau)


def example(family, value=1.3):
    """Parameters that differ from each other and from one, within their bounds."""
    return family(
        **{
            name: (value + 0.4 * i) * (0.3 if np.isfinite(parameter.upper) else 1.0)
            for i, (name, parameter) in enumerate(family.parameters.items())
        }
    )


def in_units(model, length, time):
    """The same model with length and time counted in units that much smaller."""
    return type(model)(
        **{
            name: getattr(model, name) * length**parameter.length_power * time**parameter.time_power
            for name, parameter in model.parameters.items()
        }
    )


def lags(n=6):
    return np.arange(float(n))


# --- What it says of itself --------------------------------------------------------------------


@families
def test_fields_are_the_parameters_and_are_described(family):
    assert [field.name for field in dataclasses.fields(family)] == list(family.parameters)
    assert family.scale_parameter in family.parameters
    assert MODELS[family.name] is family
    assert family.summary
    assert family.limit
    for parameter in family.parameters.values():
        assert parameter.symbol
        assert parameter.meaning


@families
def test_model_is_an_immutable_tree_of_arrays(family):
    model = example(family)
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(model, family.scale_parameter, 2.0)
    assert all(leaf.dtype == np.float64 for leaf in jax.tree.leaves(model))
    assert len(jax.tree.leaves(model)) == len(family.parameters)


@pytest.mark.parametrize(
    ("powers", "text"),
    [
        ((2, -1), "m²/s"),
        ((0, -1), "1/s"),
        ((1, 0), "m"),
        ((0, 0), "1"),
        ((3, -2), "m³/s²"),
        ((4, 0), "m^4"),
        ((0, 1), "s"),
        ((-1, 1), "s/m"),
        ((-2, -1), "1/(m²·s)"),
    ],
)
def test_unit_is_written_in_words(powers, text):
    assert Parameter("θ", "a parameter", *powers).unit("m", "s") == text


def test_unit_without_names_is_written_in_length_and_time():
    assert Parameter("κ", "diffusivity", 2, -1).unit() == "length²/time"


# --- The law of motion, reached by several ways ------------------------------------------------


@pytest.mark.sampled(3)
@families
@given(draw=st.data())
def test_autocovariance_is_the_second_difference_of_the_mean_square_displacement(family, draw):
    model, tau = draw.draw(some.models(family)), draw.draw(some.scales(0.1, 10.0))
    spread = spread_of(model, np.abs(np.arange(-1.0, 7.0)) * tau)
    expected = 0.5 * np.diff(spread, n=2)
    found = autocovariance(model, lags(), tau)
    # The differences are of numbers as large as the last.
    assert_allclose(found, expected, rtol=1e-9, atol=1e-14 * float(spread[-1]))


@with_state_space
@given(draw=st.data())
def test_autocovariance_is_that_of_the_state_space_form(family, draw):
    model, tau = draw.draw(some.models(family)), draw.draw(some.scales(0.1, 10.0))
    propagate, diffuse = transition(model, tau)
    cov = start_of(model)
    # After the first step, position counted from the start; then only the rest of the state moves.
    cov = propagate @ cov @ propagate.T + diffuse
    row = [cov[0, 0]]
    reach = cov[:, 0]
    for _ in range(5):
        after = propagate @ reach
        row.append(after[0] - reach[0])
        reach = after
    scale = float(row[0])
    assert_allclose(autocovariance(model, lags(), tau), row, rtol=1e-9, atol=1e-13 * scale)


@with_state_space
@given(draw=st.data())
def test_two_transitions_are_one_over_the_sum_of_their_times(family, draw):
    model = draw.draw(some.models(family))
    s, t = (draw.draw(some.scales(0.01, 100.0)) for _ in range(2))
    (a_s, q_s), (a_t, q_t), (a, q) = (transition(model, time) for time in (s, t, s + t))
    # Elements near zero are as good as what they are the sum of, or as the scale of the state.
    scale = np.sqrt(np.diag(start_of(model)))
    scale[0] = np.sqrt(spread_of(model, s + t))
    size_s, size_t = np.abs(a_s), np.abs(a_t)
    bound = 1e-12 * size_t @ size_s + 1e-14 * np.outer(scale, 1 / scale)
    assert (np.abs(a_t @ a_s - a) <= bound).all()
    bound = 1e-11 * (size_t @ np.abs(q_s) @ size_t.T + np.abs(q_t)) + 1e-14 * np.outer(scale, scale)
    assert (np.abs(a_t @ q_s @ a_t.T + q_t - q) <= bound).all()


@with_state_space
@given(draw=st.data())
def test_start_is_stationary_and_spreads_as_the_mean_square_displacement(family, draw):
    model, t = draw.draw(some.models(family)), draw.draw(some.scales(0.01, 100.0))
    a, q = transition(model, t)
    start = start_of(model)
    # The position acts on nothing: the engines leave its column out.
    assert_allclose(a[:, 0], np.eye(len(a))[0], atol=0)
    later = a @ start @ a.T + q
    assert_allclose(later[0, 0], spread_of(model, t), rtol=1e-12)
    scale = start.max()
    assert_allclose(later[1:, 1:], start[1:, 1:], rtol=1e-12, atol=1e-13 * scale)


@differentiated
def test_mean_square_displacement_bends_by_twice_the_velocity_autocovariance(family):
    model = example(family)
    t = np.array([0.01, 0.3, 1.0, 5.0])
    expected = 2 * velocity_autocovariance(model, t)
    assert_allclose(bend(model, t), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    "family", [f for f in MODELS.values() if f.name not in ANOMALOUS], ids=lambda f: f.name
)
def test_velocity_autocovariance_integrates_to_the_long_time_diffusivity(family):  # [eq:taylor]
    model = example(family)
    # In ln t, where a cusp at the origin does no harm, by Gauss's rule in short panels.
    nodes, weights = np.polynomial.legendre.leggauss(16)
    edges = np.linspace(-30, np.log(120), 201)
    half = 0.5 * (edges[1] - edges[0])
    t = np.exp(edges[:-1, None] + half * (1 + nodes))
    parts = [velocity_autocovariance(model, times) for times in t.reshape(-1, N_TIMES)]
    integral = np.sum(half * weights * t * np.reshape(parts, t.shape))
    if not np.isfinite(velocity_autocovariance(model, 0.0)):
        # A delta function, whose weight is the diffusivity at the shortest of times.
        integral += float(diffusivity_at(model, 1e-12))
    assert_allclose(diffusivity_at(model, 1e12), integral, rtol=1e-9, atol=1e-9)


@diffusive
def test_variance_tends_to_twice_a_diffusivity_times_tau(family):
    model = example(family)
    tau = np.array([1e9, 1e12])
    variance = [autocovariance(model, lags(), t)[0] for t in tau]
    kappa = float(diffusivity_at(model, 1e12))
    assert_allclose(variance, 2 * kappa * tau, rtol=1e-8)


@pytest.mark.parametrize("name", sorted(BOUNDED))
def test_spread_of_the_confined_stays_bounded(name):
    model = example(MODELS[name])
    spread = spread_of(model, np.geomspace(1e3, 1e12, 8))
    rate, scale = float(model.well), float(getattr(model, model.scale_parameter))
    assert_allclose(spread, np.full(8, 2.0 * scale / rate), rtol=1e-12)


# --- Scale and units ---------------------------------------------------------------------------


@families
@given(draw=st.data(), factor=some.scales())
def test_scale_parameter_multiplies_every_covariance(family, draw, factor):
    model, tau = draw.draw(some.models(family)), TAU
    name = family.scale_parameter
    scaled = eqx.tree_at(lambda m: getattr(m, name), model, getattr(model, name) * factor)
    parts = [
        lambda m: autocovariance(m, lags(), tau),
        lambda m: spread_of(m, lags(8) + 0.1),
        lambda m: velocity_autocovariance(m, lags(4) + 0.1),
    ]
    if family.has_state_space:
        parts += [lambda m: transition(m, tau)[1], start_of]
        assert_allclose(transition(scaled, tau)[0], transition(model, tau)[0])
    for part in parts:
        expected = factor * part(model)
        assert_allclose(part(scaled), expected, rtol=1e-12, atol=1e-14 * np.abs(expected).max())


@pytest.mark.sampled(9)
@families
@given(draw=st.data(), data=some.regular(), length=some.scales(), time=some.scales())
def test_change_of_units_costs_the_likelihood_only_its_jacobian(family, draw, data, length, time):
    model = draw.draw(some.models(family))
    other = Displacements.from_array(length * data.as_array(), time * data.tau)
    found = in_units(model, length, time).log_likelihood(other)
    expected = model.log_likelihood(data) - data.n_displacements * np.log(length)
    assert_allclose(found, expected, rtol=1e-9, atol=1e-8)


@one_of_each_engine
@given(draw=st.data(), data=some.noisy(), length=some.scales(), time=some.scales())
def test_change_of_units_with_errors_and_irregular_times_too(family, draw, data, length, time):
    model = draw.draw(some.models(family))
    other = dataclasses.replace(
        data,
        dx=length * data.dx,
        interval=time * data.interval,
        tau=time * data.tau,
        position_sd=length * data.position_sd,
    )
    found = in_units(model, length, time).log_likelihood(other)
    expected = model.log_likelihood(data) - data.n_displacements * np.log(length)
    assert_allclose(found, expected, rtol=1e-9, atol=1e-8)


# --- Engines -----------------------------------------------------------------------------------


@one_of_each_engine
@given(draw=st.data())
def test_engines_agree(family, draw):
    model, data = draw.draw(some.models(family)), draw.draw(some.ragged())
    dense = model.log_likelihood(data, engine="dense")
    for engine in ("auto", "moments", "kalman")[: 3 if family.has_state_space else 2]:
        found = model.log_likelihood(data, engine=engine)
        assert_allclose(found, dense, rtol=1e-9, atol=1e-8)


@one_of_each_engine
@given(draw=st.data())
def test_engines_agree_with_errors_and_irregular_times(family, draw):
    model, data = draw.draw(some.models(family)), draw.draw(some.noisy())
    dense = model.log_likelihood(data, engine="dense")
    assert_allclose(model.log_likelihood(data), dense, rtol=1e-9, atol=1e-8)


@pytest.mark.sampled(3)
@families
def test_first_autocovariances_are_those_of_single_lags(family):
    first, single = first_and_single_autocovariances(example(family), 40, jnp.asarray(TAU))
    assert_allclose(first, single, rtol=1e-11, atol=1e-13)


@one_of_each_engine
def test_sums_of_the_data_give_the_same_likelihood(family):
    dx = np.random.default_rng(0).normal(size=(3, 6, 2))
    data, model = Displacements.from_array(dx, TAU), example(family)
    n_runs, _, n_dim = dx.shape
    moment = np.einsum("pid,pjd->ij", dx, dx)
    reduced = ReducedDisplacements(moment, n_runs, n_dim, n_runs, TAU, "reduced")
    known = {"n_particles": n_runs, "n_steps": 6, "n_displacements": dx.size}
    summed = SummedDisplacements(
        {32: second_moments(data)}, {}, n_dim, tau=TAU, fingerprint="summed", **known
    )
    expected = model.log_likelihood(data, engine="dense")
    for sums in (reduced, summed):
        assert_allclose(model.log_likelihood(sums), expected, rtol=1e-12)


@one_of_each_engine
def test_a_second_evaluation_gives_the_same_likelihood(family):
    # Data are prepared once; neither engines nor parameters may be mixed up.
    data = Displacements.from_array(np.random.default_rng(0).normal(size=(3, 6, 2)), TAU)
    models = example(family), example(family, 0.9)
    engines = ("moments", "dense", "kalman")[: 3 if family.has_state_space else 2]
    first, again = (
        [model.log_likelihood(data, engine=engine) for engine in engines for model in models]
        for _ in range(2)
    )
    assert first == again
    assert first[0] != first[1]


@families
@pytest.mark.slow
def test_long_regular_runs_lose_nothing_by_the_models_memory(family):
    model = example(family)
    size = {"n_particles": 2, "n_steps": 100, "n_dim": 2, "tau": TAU}
    data = Displacements.from_array(np.diff(model.simulate(jax.random.key(4), **size), axis=1), TAU)
    found = model.log_likelihood(data)
    assert_allclose(found, model.log_likelihood(data, engine="dense"), rtol=1e-9)
    assert_allclose(found, model.log_likelihood(data, engine="moments"), rtol=1e-9)
    if family.has_state_space:
        assert_allclose(found, model.log_likelihood(data, engine="kalman"), rtol=1e-9)


@families
@pytest.mark.parametrize("x", [1e-6, 1e6])
def test_very_slow_and_very_fast_give_finite_numbers(family, x):
    about = family.parameters.items()
    rates = {n: x / TAU for n, p in about if (p.length_power, p.time_power) == (0, -1)}
    model = dataclasses.replace(example(family), **rates)
    row = autocovariance(model, lags(), TAU)
    assert np.isfinite(row).all()
    assert np.linalg.eigvalsh(toeplitz(row))[0] > -1e-14 * row[0]
    if family.has_state_space:
        assert all(np.isfinite(part).all() for part in transition(model, TAU))


@differentiated
def test_likelihood_has_finite_slopes_for_very_slow_and_very_fast(family):
    data = Displacements.from_array(np.random.default_rng(0).normal(size=(3, 6, 2)), TAU)
    about = family.parameters.items()
    for x in (1e-6, 1e6):
        rates = {n: x / TAU for n, p in about if (p.length_power, p.time_power) == (0, -1)}
        model = dataclasses.replace(example(family), **rates)
        row = autocovariance(model, lags(), TAU)
        if np.linalg.eigvalsh(toeplitz(row))[0] < 1e-13 * row[0]:
            # Singular but for rounding: paths so smooth, which these are not, have no density.
            assert model.log_likelihood(data) == -np.inf
            continue
        assert np.isfinite(model.log_likelihood(data))
        assert all(np.isfinite(slope(model, data, name)) for name in family.parameters)


# What each model becomes, and for which values of its parameters: `limit` in numbers.
LIMITS = {
    "langevin": ({"gamma": 1e9, "k": 1.3}, "brownian", {"kappa": 1.3}),
    "fractional": ({"hurst": 0.5, "kappa": 1.3, "reference": 2.0}, "brownian", {"kappa": 1.3}),
    "confined_brownian": ({"well": 1e-10, "kappa": 1.3}, "brownian", {"kappa": 1.3}),
    "second_order": ({"gamma": 0.8, "accel": 1e10, "k": 1.3}, "langevin", {"gamma": 0.8, "k": 1.3}),
    "matern": ({"gamma": 0.8, "smoothness": 0.5, "k": 1.3}, "langevin", {"gamma": 0.8, "k": 1.3}),
    "oscillating": ({"gamma": 0.8, "omega": 1e-6, "k": 1.3}, "langevin", {"gamma": 0.8, "k": 1.3}),
    "confined": ({"gamma": 0.8, "well": 1e-10, "k": 1.3}, "langevin", {"gamma": 0.8, "k": 1.3}),
    "two_scale": (
        {"gamma": 0.8, "ratio": 0.1, "share": 1e-10, "k": 1.3},
        "langevin",
        {"gamma": 0.8, "k": 1.3},
    ),
}


@pytest.mark.parametrize("name", [name for name in MODELS if name != "brownian"])
def test_limit_is_the_model_that_is_named(name):
    theta, simpler, simple_theta = LIMITS[name]
    nearly, simple = MODELS[name](**theta), MODELS[simpler](**simple_theta)
    assert MODELS[name].limit.startswith(simpler)
    # All of a Gaussian law: every likelihood follows from these.
    expected = autocovariance(simple, lags(), TAU)
    assert_allclose(autocovariance(nearly, lags(), TAU), expected, rtol=0, atol=1e-8 * expected[0])


# --- Simulation --------------------------------------------------------------------------------


@simulated
@pytest.mark.parametrize(
    "tau", [0.7, *(pytest.param(tau, marks=pytest.mark.slow) for tau in (0.01, 100.0))]
)
def test_simulated_steps_have_the_covariance_that_the_likelihood_assumes(family, tau):
    model, n_steps, n_series = example(family), 6, 2 * 10_000
    x = simulate(model, jax.random.key(0), jnp.asarray(tau))
    assert x.shape == (10_000, n_steps + 1, 2)
    assert_allclose(x[:, 0], 0.0)
    steps = np.diff(x, axis=1).transpose(0, 2, 1).reshape(-1, n_steps)
    cov = toeplitz(autocovariance(model, lags(n_steps), tau))
    found = steps.T @ steps / n_series
    error = np.sqrt((cov**2 + np.outer(np.diag(cov), np.diag(cov))) / n_series)
    assert (np.abs(found - cov) < FIVE_SIGMA * error).all()
    assert (np.abs(steps.mean(axis=0)) < FIVE_SIGMA * np.sqrt(np.diag(cov) / n_series)).all()


@pytest.mark.slow
@families
def test_every_second_position_is_a_simulation_at_twice_tau(family):
    # Exact in law: both have the covariance of the model at 2 tau; here by simulation.
    model, n = example(family), 2 * 20_000
    x = model.simulate(jax.random.key(1), n_particles=20_000, n_steps=4, n_dim=2, tau=TAU)
    steps = np.diff(x[:, ::2], axis=1).transpose(0, 2, 1).reshape(-1, 2)
    cov = toeplitz(autocovariance(model, lags(2), 2 * TAU))
    error = np.sqrt((cov**2 + np.outer(np.diag(cov), np.diag(cov))) / n)
    assert (np.abs(steps.T @ steps / n - cov) < FIVE_SIGMA * error).all()


@simulated
def test_simulated_quadratic_form_is_a_chi_square(family):
    # All correlations at once: the quadratic form has mean n and variance 2 n. It is the part of
    # -2 ln L that halves when the scale doubles.
    model, n = example(family), 10_000 * 6 * 2
    x = simulate(model, jax.random.key(2), jnp.asarray(TAU))
    data = Displacements.from_array(np.diff(x, axis=1), TAU)
    name = family.scale_parameter
    doubled = eqx.tree_at(lambda m: getattr(m, name), model, 2 * getattr(model, name))
    rise = doubled.log_likelihood(data) - model.log_likelihood(data)
    quadratic = 4 * rise + 2 * n * np.log(2)
    assert abs(quadratic - n) < FIVE_SIGMA * np.sqrt(2 * n)


@pytest.mark.slow
@families
def test_score_of_simulated_steps_has_mean_zero_and_the_variance_of_fisher(family):
    model, n_steps, n_particles = example(family), 4, 20_000
    size = {"n_particles": n_particles, "n_steps": n_steps, "n_dim": 2, "tau": TAU}
    x = model.simulate(jax.random.key(3), **size)
    data = Displacements.from_array(np.diff(x, axis=1), TAU)
    row = autocovariance(model, lags(n_steps), TAU)
    by_theta = row_by_theta(model, lags(n_steps), jnp.asarray(TAU))
    for name in family.parameters:
        whitened = np.linalg.solve(toeplitz(row), toeplitz(getattr(by_theta, name)))
        fisher = 0.5 * 2 * n_particles * np.trace(whitened @ whitened)
        assert abs(slope(model, data, name)) < FIVE_SIGMA * np.sqrt(fisher)


@simulated
def test_same_key_gives_the_same_path(family):
    model: AbstractModel = example(family)
    tau = jnp.asarray(TAU)
    one, again, other = (simulate(model, jax.random.key(key), tau) for key in (0, 0, 1))
    assert_allclose(one, again, rtol=0)
    assert np.all(one[:, 1:] != other[:, 1:])


# --- Without a state space ---------------------------------------------------------------------


@quickly("fractional", families=WITHOUT_STATE_SPACE)
def test_without_a_state_space_irregular_data_take_the_dense_engine(family):
    data = Displacements.from_array(np.random.default_rng(0).normal(size=(2, 4, 2)), TAU)
    uneven = dataclasses.replace(data, interval=data.interval * np.linspace(0.9, 1.1, 8))
    model = example(family)
    for one, options in ((uneven, {}), (data, {"noise_sd": 0.3})):
        found = model.log_likelihood(one, **options)
        dense = model.log_likelihood(one, engine="dense", **options)
        assert_allclose(found, dense, rtol=1e-12)


@quickly(*WITHOUT_STATE_SPACE, families=WITHOUT_STATE_SPACE)
def test_without_a_state_space_the_engine_that_needs_it_is_refused(family):
    data = Displacements.from_array(np.ones((1, 2, 1)), TAU)
    model = example(family)
    refused = pytest.raises(DriftbayesError, match=f"'{family.name}' has no state-space form; use")
    with refused:
        model.log_likelihood(data, engine="kalman")
    with refused:
        model.transition(jnp.asarray(TAU))


# --- Refusals ----------------------------------------------------------------------------------


def test_noise_in_the_statistics_engine_is_refused():
    data = Displacements.from_array(np.ones((1, 2, 1)), TAU)
    model = example(MODELS["brownian"])
    with pytest.raises(DriftbayesError, match=r"needs .* exact positions; use engine='auto' for"):
        model.log_likelihood(data, engine="moments", noise_sd=0.1)


def test_unknown_engine_is_refused():
    data = Displacements.from_array(np.ones((1, 2, 1)), TAU)
    with pytest.raises(DriftbayesError, match=r"engine must be 'auto', .*, got 'fast'"):
        inspect.unwrap(preparation)(data, MODELS["langevin"], engine="fast")


def test_likelihood_is_in_double_precision_whatever_jax_is_set_to():
    data = Displacements.from_array(np.ones((1, 2, 1)), TAU)
    expected = MODELS["brownian"](kappa=0.1).log_likelihood(data)
    with jax.enable_x64(new_val=False):
        assert MODELS["brownian"](kappa=0.1).log_likelihood(data) == expected
        # A parameter of JAX is rounded to single precision before; nothing else is.
        rounded = MODELS["brownian"](kappa=jnp.asarray(0.1)).log_likelihood(data)
    assert rounded == MODELS["brownian"](kappa=float(np.float32(0.1))).log_likelihood(data)
    assert_allclose(expected, -np.log(4 * np.pi * 0.1 * TAU) - 1 / (2 * 0.1 * TAU), rtol=1e-14)


def test_a_model_without_numbers_is_refused_with_the_remedy():
    data = Displacements.from_array(np.ones((1, 2, 1)), TAU)
    with pytest.raises(DriftbayesError, match=r"needs numbers as parameters .*; use evidence\(\)"):
        MODELS["brownian"](kappa=Exponential(1.0)).log_likelihood(data)
