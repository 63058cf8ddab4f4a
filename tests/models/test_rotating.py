"""One sense of rotation for all particles: against a dense covariance of both axes."""

import dataclasses
from itertools import product

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import dblquad
from scipy.linalg import block_diag
from scipy.stats import multivariate_normal

from driftbayes.data._sampling import Displacements
from driftbayes.errors import DriftbayesError
from driftbayes.inference import Hypothesis
from driftbayes.inference._formulas import evaluate_with_sums
from driftbayes.likelihood import channel_moments
from driftbayes.likelihood._engines import MomentsEngine
from driftbayes.models import MODELS, Langevin, model_named
from driftbayes.priors import Exponential
from sums_of import derived, logs_by_sense

TAU, RTOL = 0.7, 1e-9
THETA = {"gamma": 0.8, "omega": 1.7, "k": 1.3}


def named(text, n_dim=2, **theta):
    return model_named(text, MODELS, n_dim)(**theta)


def data_of(sizes, interval=None, sd=None, seed=0):
    rng = np.random.default_rng(seed)
    n = sum(sizes)
    return Displacements(
        dx=rng.normal(size=(n, 2)),
        interval=np.full(n, TAU) if interval is None else interval,
        row_sizes=np.array(sizes),
        trajectory=np.arange(len(sizes)),
        tau=TAU,
        position_sd=sd,
    )


DATA = {
    "regular": lambda: data_of([6, 6, 6]),
    "ragged": lambda: data_of([3, 40, 1]),
    "irregular": lambda: data_of([5, 4], np.random.default_rng(1).uniform(0.2, 2.0, size=9)),
    "noisy": lambda: data_of([5, 4], sd=np.random.default_rng(1).uniform(0.1, 0.6, size=11)),
}


def double_integral(times, rate):
    r"""$\int_0^s \int_0^t e^{-a|p-q|} dp dq$, a complex for p > q and its conjugate else."""

    def part(low, high, a):
        # Both from 0 to low, then the rest of the longer one.
        square = low / a - (1 - np.exp(-a * low)) / a**2
        rest = (np.exp(a * low) - 1) * (np.exp(-a * low) - np.exp(-a * high)) / a**2
        return square, rest

    s, t = np.meshgrid(times, times, indexing="ij")
    low, high = np.minimum(s, t), np.maximum(s, t)
    square, rest = part(low, high, rate)
    other, other_rest = part(low, high, np.conj(rate))
    return square + other + np.where(s > t, rest, other_rest)


def dense(data, sigma=0.0, sense=1.0, **theta):
    """Covariance of all steps, (x, y) after (x, y), from E[W(p) W(q)*] integrated twice."""
    gamma, omega, k = theta["gamma"], theta["omega"], theta["k"]
    speed = k * (gamma**2 + omega**2) / gamma
    rate = gamma - 1j * sense * omega
    blocks, row, first = [], 0, 0
    for n in data.row_sizes:
        times = np.concatenate([[0.0], np.cumsum(data.interval[row : row + n])])
        c = speed * double_integral(times, rate)
        errors = np.full(n + 1, sigma**2)
        if data.position_sd is not None:
            errors = errors + data.position_sd[first : first + n + 1] ** 2
        c = np.diff(np.diff(c + np.diag(errors), axis=0), axis=1)
        # Half of E[z_m z_n*]: real for an axis with itself, imaginary for y_m with x_n.
        whole = np.kron(c.real, np.eye(2)) + np.kron(c.imag, np.array([[0, -1], [1, 0]]))
        blocks.append(whole)
        row, first = row + n, first + n + 1
    return block_diag(*blocks)


def expected(data, sigma=0.0, **theta):
    flat = data.dx.reshape(-1)
    return [multivariate_normal(cov=dense(data, sigma, s, **theta)).logpdf(flat) for s in (1, -1)]


def test_the_dense_reference_is_a_double_integral():
    rate, times = 0.8 - 1.7j, np.array([0.5, 1.3])
    found = double_integral(times, rate)

    def kernel(q, p):
        return np.exp(-(rate if p > q else np.conj(rate)) * abs(p - q))

    for i, s in enumerate(times):
        for j, t in enumerate(times):
            for part, value in ((np.real, found[i, j].real), (np.imag, found[i, j].imag)):
                options = {"epsabs": 1e-4, "epsrel": 1e-4}
                number, _ = dblquad(lambda q, p, f=part: f(kernel(q, p)), 0, s, 0, t, **options)
                assert_allclose(number, value, atol=1e-3)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("case", "sigma"),
    [
        # Both engines, with and without errors; the others slowly.
        pytest.param(
            *pair,
            id="{}-{}".format(*pair),
            marks=() if pair in (("ragged", 0.0), ("noisy", 0.4)) else pytest.mark.slow,
        )
        for pair in product(DATA, (0.0, 0.4))
    ],
)
def test_density_is_the_mean_of_both_senses_of_the_dense_one(case, sigma):
    data = DATA[case]()
    name, own = (
        ("oscillating+noise+rotating", {"sigma": sigma})
        if sigma
        else (
            "oscillating+rotating",
            {},
        )
    )
    model = named(name, **THETA, **own)
    logs = expected(data, sigma, **THETA)
    assert_allclose(model.log_likelihood(data), np.logaddexp(*logs) - np.log(2), rtol=RTOL)
    assert_allclose(logs_by_sense(model, data), logs, rtol=RTOL)
    share = 1 / (1 + np.exp(logs[1] - logs[0]))
    assert_allclose(derived(model, data)["anticlockwise"], share, rtol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["moments", "kalman"])
def test_engines_agree_with_the_dense_covariance_on_rotation(engine):
    data = DATA["ragged"]()
    found = logs_by_sense(named("oscillating+rotating", **THETA), data, engine)
    assert_allclose(found, expected(data, **THETA), rtol=RTOL)


def log_likelihoods(model, sums):
    return tuple(terms.log_likelihood() for terms in model.terms_by_sense(sums))


def test_long_runs_are_predicted_from_their_last_steps():
    # Beyond the longest window the statistics engine runs through windows backwards.
    data, family = data_of([300, 5, 1]), model_named("oscillating+rotating", MODELS)
    logs = expected(data, **THETA)
    hypothesis = Hypothesis(family, **{name: Exponential(1.0) for name in family.parameters})
    theta = np.array([[THETA[name] for name in hypothesis.names]])
    engine = MomentsEngine(channel_moments(data, 40), is_turning=True)
    found = evaluate_with_sums(hypothesis, theta, engine, log_likelihoods)
    assert_allclose(np.ravel(found), logs, rtol=1e-9)
    assert_allclose(logs_by_sense(family(**THETA), data, "kalman"), logs, rtol=1e-9)


def test_without_rotation_the_axes_are_those_of_langevin():
    for data in (DATA["regular"](), DATA["irregular"]()):
        found = named("oscillating+rotating", **{**THETA, "omega": 1e-9}).log_likelihood(data)
        plain = Langevin(gamma=THETA["gamma"], k=THETA["k"]).log_likelihood(data)
        assert_allclose(found, plain, rtol=1e-7)


def test_turning_and_mirroring_the_plane_change_nothing():
    data, model = DATA["regular"](), named("oscillating+rotating", **THETA)
    turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    for matrix in (turn, turn @ np.diag([1.0, -1.0])):
        turned = dataclasses.replace(data, dx=data.dx @ matrix.T)
        assert_allclose(model.log_likelihood(turned), model.log_likelihood(data), rtol=RTOL)


@pytest.mark.slow
def test_sense_of_simulated_particles_is_found():
    model = named("oscillating+rotating", **THETA)
    independent = named("oscillating", **THETA)
    shares = []
    for seed in range(6):
        x = model.simulate(jax.random.key(seed), n_particles=20, n_steps=20, n_dim=2, tau=0.3)
        dx = np.diff(np.asarray(x), axis=1)
        data = Displacements.from_array(dx, 0.3)
        assert model.log_likelihood(data) > independent.log_likelihood(data) + 5
        shares.append(derived(model, data)["anticlockwise"])
        # Successive steps turn that way.
        turning = np.sum(dx[:, :-1, 0] * dx[:, 1:, 1] - dx[:, :-1, 1] * dx[:, 1:, 0])
        assert (turning > 0) == (shares[-1] > 0.5)
    assert min(shares) < 1e-3
    assert max(shares) > 1 - 1e-3


def test_rotation_is_for_oscillating_velocities_in_a_plane():
    for text in ("langevin+rotating", "oscillating+blur+rotating"):
        with pytest.raises(DriftbayesError, match="'rotating' is for the model 'oscillating'"):
            model_named(text, MODELS)
    with pytest.raises(DriftbayesError, match="'linear' and 'rotating' cannot be combined"):
        model_named("oscillating+linear+rotating", MODELS)
    model = named("oscillating+rotating", 3, **THETA)
    with pytest.raises(
        DriftbayesError, match=r"needs two dimensions, the data have 3; leave out \+rotating"
    ):
        model.log_likelihood(Displacements.from_array(np.ones((2, 3, 3)), TAU))


@pytest.mark.slow
@pytest.mark.parametrize("case", ["regular", "irregular"])
def test_slow_rotation_is_that_of_the_dense_covariance(case):
    # Where the axes become independent.
    data = DATA[case]()
    for omega in (1e-12, 1e-3):
        theta = {**THETA, "omega": omega}
        found = logs_by_sense(named("oscillating+rotating", **theta), data)
        assert_allclose(found, expected(data, **theta), rtol=RTOL)
