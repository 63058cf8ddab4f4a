"""Sums of independent motions: against dense covariances assembled component by component."""

import dataclasses
from itertools import combinations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import block_diag
from scipy.stats import multivariate_normal
from test_rotating import dense as dense_rotating

from driftbayes.comparison import make_hypotheses
from driftbayes.data._sampling import Displacements
from driftbayes.errors import DriftbayesError
from driftbayes.likelihood._hermitian import hermitian_column_terms
from driftbayes.models import MODELS, TwoScaleLangevin, model_named
from sums_of import of_sums

TAU = 0.7
# One value for every parameter of every model.
VALUES = {
    "gamma": 0.8,
    "omega": 1.7,
    "well": 0.4,
    "accel": 3.0,
    "smoothness": 0.8,
    "hurst": 0.35,
    "reference": 1.0,
    "ratio": 0.2,
    "share": 0.3,
}


def theta_of(model, k=1.3):
    own = {n: VALUES[n.partition("_")[0]] for n in model.parameters if n != model.scale_parameter}
    return {**own, model.scale_parameter: k}


def named(text, **others):
    model = model_named(text, MODELS)
    known = {name: value for name, value in others.items() if name in model.parameters}
    missing = {n: VALUES[n.partition("_")[0]] for n in model.parameters if n not in {*known, "k"}}
    return model(**{"k": 1.3, **missing, **known})


def irregular(sizes=(5, 1, 4), sd=None, seed=3):
    rng, n = np.random.default_rng(seed), sum(sizes)
    return Displacements(
        dx=rng.normal(size=(n, 2)),
        interval=rng.uniform(0.2, 2.0, size=n),
        row_sizes=np.array(sizes),
        trajectory=np.arange(len(sizes)),
        tau=TAU,
        position_sd=sd,
    )


def regular(n_runs=3, n_steps=7, seed=4):
    dx = np.random.default_rng(seed).normal(size=(n_runs, n_steps, 2))
    return Displacements.from_array(dx, TAU)


# Compiled as one program each: call by call, JAX would compile every operation.
spread_of = eqx.filter_jit(lambda model, t: model.mean_square_displacement(t))


def of_both_senses(model, sums):
    """Ln density and mean flow of each sense, and the probability of the first."""
    logs = [terms.log_likelihood() for terms in model.terms_by_sense(sums)]
    senses = hermitian_column_terms(sums.parts[0])
    means = [terms.flow_posterior(model.value_of("flow"))[0] for terms in senses]
    return jnp.stack(logs), jnp.stack(means), model.derived(sums)["anticlockwise"]


def step_covariance(model, interval):
    """Covariance of successive steps of one axis, from the mean square displacement alone."""
    times = np.concatenate([[0.0], np.cumsum(interval)])
    apart = np.abs(times[:, None] - times[None, :])
    # Few sizes: the same program for most runs.
    padded = np.pad(apart.ravel(), (0, (64 if apart.size <= 64 else 4096) - apart.size))
    m = np.asarray(spread_of(model, padded))[: apart.size].reshape(apart.shape)
    return -0.5 * np.diff(np.diff(m, axis=0), axis=1)


def dense_log_likelihood(model, k, data):
    """Density of the sum: covariances of its components, each a plain model, added."""
    parts, left = model.name.split("&"), k
    components = []
    for c, name in enumerate(parts):
        share = VALUES["share"] if c + 1 < len(parts) else 0.0
        family = MODELS[name]
        components.append(family(**theta_of(family, left * (1 - share))))
        left *= share
    blocks, row = [], 0
    for n in data.row_sizes:
        interval = data.interval[row : row + n]
        one = sum(step_covariance(part, interval) for part in components)
        blocks += [one] * 2
        row += n
    axes = [data.dx[row : row + n, i] for row, n in _rows(data) for i in range(2)]
    whole = block_diag(*blocks)
    return multivariate_normal(cov=whole, allow_singular=False).logpdf(np.concatenate(axes))


def _rows(data):
    return zip(np.cumsum(data.row_sizes) - data.row_sizes, data.row_sizes, strict=True)


# By default every model with Langevin's; all other pairs take minutes to compile.
PAIRS = [
    pytest.param(pair, marks=[] if "langevin" in pair else [pytest.mark.slow], id="&".join(pair))
    for pair in combinations(MODELS, 2)
]


@pytest.mark.sampled(15)
@pytest.mark.parametrize("data", [regular(), irregular()], ids=["regular", "irregular"])
@pytest.mark.parametrize("pair", PAIRS)
def test_density_of_a_sum_is_that_of_added_covariances(pair, data):
    model = named("&".join(pair))
    assert_allclose(model.log_likelihood(data), dense_log_likelihood(model, 1.3, data), rtol=1e-9)


def test_three_components_share_the_scale():
    model, data = named("brownian&langevin&oscillating"), irregular()
    scales = [spread_of(part, np.full(64, 1e9))[0] / 2e9 for part in model.parts]
    assert_allclose(scales, [1.3 * 0.7, 1.3 * 0.3 * 0.7, 1.3 * 0.09], rtol=1e-6)
    assert_allclose(model.log_likelihood(data), dense_log_likelihood(model, 1.3, data), rtol=1e-9)


def test_a_brownian_part_of_no_share_leaves_the_first_component():
    data = irregular()
    model = named("langevin&brownian", share_brownian=1e-14)
    alone = MODELS["langevin"](gamma=VALUES["gamma"], k=1.3)
    assert_allclose(model.log_likelihood(data), alone.log_likelihood(data), rtol=1e-9)


def test_two_langevin_velocities_are_the_two_scale_model():
    # Langevin is Matérn's model at smoothness 1/2: the sum is then known in another form.
    data = regular()
    model = named("langevin&matern", smoothness_matern=0.5, gamma_matern=0.2, share_matern=0.3)
    other = TwoScaleLangevin(gamma=0.8, ratio=0.25, share=0.3, k=1.3)
    assert_allclose(model.log_likelihood(data), other.log_likelihood(data), rtol=1e-9)


def dense_turning(data, sense, sigma, *, gamma, omega, share, flow):
    """Covariance of the steps of Langevin's and a rotating velocity with an unknown flow."""
    turning = dense_rotating(data, sigma, sense, gamma=gamma, omega=omega, k=1.3 * share)
    langevin = MODELS["langevin"](gamma=VALUES["gamma"], k=1.3 * (1 - share))
    slow = [step_covariance(langevin, data.interval[row : row + n]) for row, n in _rows(data)]
    whole = turning + np.kron(block_diag(*slow), np.eye(2))
    # The flow is one for all runs: its contribution is not block-diagonal.
    return whole + flow**2 * np.kron(np.outer(data.interval, data.interval), np.eye(2))


@pytest.mark.sampled(6)
@pytest.mark.parametrize("sense", [1.0, -1.0])
@pytest.mark.parametrize("kind", ["regular", "irregular", "noisy"])
def test_rotating_component_and_mean_flow_against_a_dense_covariance(kind, sense):
    sd = np.random.default_rng(1).uniform(0.1, 0.6, size=13)
    data = {
        "regular": regular(),
        "irregular": irregular(),
        "noisy": irregular(sd=sd),
    }[kind]
    gamma, omega, share, flow, sigma = 0.5, 1.7, 0.3, 0.9, 0.25
    model = named(
        "langevin&oscillating+rotating+mean+noise",
        gamma_oscillating=gamma,
        flow=flow,
        sigma=sigma,
    )
    whole = dense_turning(data, sense, sigma, gamma=gamma, omega=omega, share=share, flow=flow)
    expected = multivariate_normal(cov=whole).logpdf(data.dx.reshape(-1))
    logs, means, share_of = of_sums(model, data, of_both_senses)
    which = 0 if sense > 0 else 1
    assert_allclose(logs[which], expected, rtol=1e-9)
    weight = flow**2 * np.kron(data.interval[:, None], np.eye(2)).T @ np.linalg.inv(whole)
    mean = weight @ data.dx.reshape(-1)
    assert_allclose(share_of, 1 / (1 + np.exp(logs[1] - logs[0])), rtol=1e-9)
    assert_allclose(means[which], mean, rtol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["moments", "kalman"])
def test_engines_agree_with_the_dense_covariance_on_a_rotating_sum(engine):
    model, data = named("langevin&oscillating+rotating+mean", flow=0.4), regular(n_steps=40)
    theta = {"gamma": VALUES["gamma"], "omega": VALUES["omega"], "share": VALUES["share"]}
    logs = [
        multivariate_normal(cov=dense_turning(data, sense, 0.0, flow=0.4, **theta)).logpdf(
            data.dx.reshape(-1)
        )
        for sense in (1.0, -1.0)
    ]
    assert_allclose(of_sums(model, data, of_both_senses, engine)[0], logs, rtol=1e-9)
    found = model.log_likelihood(data, engine=engine)
    assert_allclose(found, np.logaddexp(*logs) - np.log(2), rtol=1e-9)


@pytest.mark.slow
def test_simulated_steps_have_the_covariance_of_the_density():
    model = named("langevin&oscillating+rotating+noise", sigma=0.3)
    size = {"n_particles": 20_000, "n_steps": 3, "n_dim": 2, "tau": TAU}
    x = eqx.filter_jit(lambda model, key: model.simulate(key, **size))(model, jax.random.key(2))
    dx = np.diff(np.asarray(x), axis=1)
    # Turned back to one sense, which the draw of the sense decides for all particles at once.
    z = dx[..., 0] + 1j * dx[..., 1]
    found = (z.T @ z.conj()).T / (2 * len(z))
    wanted = np.asarray(eqx.filter_jit(model.engine_autocovariances)(3, jnp.asarray(TAU)))
    lags = np.arange(3)[:, None] - np.arange(3)[None, :]
    table = np.where(lags >= 0, wanted[np.abs(lags)], wanted[np.abs(lags)].conj())
    error = 5 * table[0, 0].real / np.sqrt(len(z))
    close = [np.abs(found - t).max() < error for t in (table, table.conj())]
    assert close[0] != close[1]


def test_sum_has_the_default_priors_of_its_components():
    (hypothesis,) = make_hypotheses(
        ["langevin&oscillating+rotating"], u_rms=1.5, timescale=2.0
    ).hypotheses
    texts = hypothesis.describe()
    assert texts == {
        "gamma_langevin": "exponential:0.5",
        "gamma_oscillating": "exponential:0.5",
        "omega_oscillating": "exponential:0.5",
        "share_oscillating": "uniform:0:1",
        "k": "exponential:4.5",
    }


def test_where_options_stand_in_a_sum_makes_no_difference():
    one = model_named("oscillating+rotating&langevin+mean", MODELS)
    assert one is model_named("oscillating&langevin+mean+rotating", MODELS)


def test_sums_that_cannot_be_are_refused():
    with pytest.raises(DriftbayesError, match="'langevin' is repeated"):
        model_named("langevin&langevin", MODELS)
    with pytest.raises(DriftbayesError, match="unknown model 'lagevin'"):
        model_named("brownian&lagevin", MODELS)
    with pytest.raises(DriftbayesError, match="'rotating' is for the model 'oscillating'"):
        model_named("oscillating&matern+rotating", MODELS)
    three = dataclasses.replace(regular(), dx=np.ones((21, 3)))
    with pytest.raises(DriftbayesError, match="needs two dimensions"):
        named("langevin&oscillating+rotating").log_likelihood(three)
