"""Draws and quantiles of exactly integrated posteriors: every mode, bound and tail."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from court import LANGEVIN, langevin_data, langevin_fit, log_density, steps
from numpy.testing import assert_allclose
from scipy import stats
from scipy.interpolate import CubicSpline
from scipy.linalg import toeplitz
from scipy.special import logsumexp

from driftbayes._jax_typing import ScalarLike
from driftbayes._precision import as_number
from driftbayes.data._sampling import Displacements
from driftbayes.errors import DriftbayesError, Status
from driftbayes.inference import QUANTILES, Hypothesis, evidence, posterior_draws
from driftbayes.inference._scale import GammaForm, draw_scales
from driftbayes.models import MODELS, Brownian, Langevin, model_named
from driftbayes.models._base import AbstractModel, Parameter
from driftbayes.priors import Exponential, Uniform, scaling_priors

N_DRAWS = 4000
# A Kolmogorov-Smirnov distance this large has a probability of 1e-5.
FAR = 2.5 / np.sqrt(N_DRAWS)


class Aliased(AbstractModel):
    """Steps with a correlation 0.45 cos(ωτ) of neighbours: ω and 2π/τ - ω are equally likely."""

    omega: ScalarLike = eqx.field(converter=as_number)
    k: ScalarLike = eqx.field(converter=as_number)

    name: ClassVar[str] = "aliased"
    summary: ClassVar[str] = "steps whose correlation turns"
    parameters: ClassVar[dict[str, Parameter]] = {
        "omega": Parameter("ω", "frequency", 0, -1),
        "k": Parameter("k", "diffusivity", 2, -1),
    }
    scale_parameter: ClassVar[str] = "k"
    limit: ClassVar[str] = "brownian, as omega·tau → π/2"

    def increment_autocovariance(self, lags, tau):
        correlation = 0.45 * jnp.cos(self.omega * tau)
        return 2 * self.k * tau * jnp.where(lags == 0, 1.0, jnp.where(lags == 1, correlation, 0.0))

    def transition(self, interval):
        raise NotImplementedError

    def initial_covariance(self):
        raise NotImplementedError

    def mean_square_displacement(self, lag):
        raise NotImplementedError

    def lvaf(self, lag):
        raise NotImplementedError


def aliased_rows(omega, n_steps=6):
    """First row of the correlation matrix of a run."""
    row = np.zeros(n_steps)
    row[:2] = 1.0, 0.45 * np.cos(omega)
    return row


def aliased_data(n, omega=2.0, seed=0):
    factor = np.linalg.cholesky(2 * toeplitz(aliased_rows(omega)))
    x = np.random.default_rng(seed).normal(size=(n, 6, 1))
    return Displacements.from_array(np.einsum("ij,njd->nid", factor, x), 1.0)


class DenseAliased:
    """Log-joint of (ω, ln k) on a grid, by dense Gaussians in NumPy."""

    def __init__(self, data, log_prior_omega, high, n_omega=8001):
        x = data.as_array()[..., 0]
        second = x.T @ x
        # The correlation matters, not the frequency: few of the one serve many of the other.
        cos = np.linspace(-1, 1, 801)
        matrices = np.array([toeplitz(aliased_rows(np.arccos(c))) for c in cos])
        log_det = len(x) * np.linalg.slogdet(matrices)[1]
        quadratic = np.sum(np.linalg.inv(matrices) * second, axis=(1, 2))
        self.omega = np.linspace(0, high, n_omega)[1:-1]
        # Twelve widths of ln k about the variance of the steps, which is 2k.
        reach = 12 * np.sqrt(2 / x.size)
        self.log_k = np.log(np.mean(x**2) / 2) + np.linspace(-reach, reach, 241)
        variance = 2 * np.exp(self.log_k)
        parts = [
            CubicSpline(cos, part)(np.cos(self.omega))[:, None] for part in (log_det, quadratic)
        ]
        fit = -0.5 * (x.size * np.log(2 * np.pi * variance) + parts[0] + parts[1] / variance)
        k = np.exp(self.log_k)
        joint = fit + log_prior_omega(self.omega)[:, None] + self.log_k - k
        cell = (self.omega[1] - self.omega[0]) * (self.log_k[1] - self.log_k[0])
        self.log_evidence = logsumexp(joint) + np.log(cell)
        self.weights = np.exp(joint - logsumexp(joint))

    def cdf(self, name):
        axis, values = (1, self.omega) if name == "omega" else (0, np.exp(self.log_k))
        mass = self.weights.sum(axis=axis)
        rise = np.cumsum(mass) - 0.5 * mass
        return lambda x: np.interp(x, values, rise, left=0.0, right=1.0)


def distance(draws, cdf):
    """Kolmogorov-Smirnov distance of draws from a distribution."""
    return stats.kstest(np.asarray(draws), cdf).statistic


def check_quantiles(record, draws):
    """Quantiles rise, hold the mean, and are those of the draws."""
    for i, name in enumerate(draws.names):
        quantiles = np.asarray(record.posterior_quantiles[name])
        assert (np.diff(quantiles) >= 0).all()
        theta = draws.theta[:, i]
        low, high = np.quantile(theta, (0.001, 0.999))
        assert low <= record.posterior_mean[name] <= high
        q = np.array(QUANTILES)
        below = (theta[:, None] < quantiles).mean(axis=0)
        assert (np.abs(below - q) < 5 * np.sqrt(q * (1 - q) / len(theta)) + 0.003).all(), name
        error = record.posterior_sd[name] / np.sqrt(len(theta))
        assert abs(theta.mean() - record.posterior_mean[name]) < 5 * error


UNIFORM = Hypothesis(Aliased, omega=Uniform(0.0, 6.1), k=Exponential(mean=1.0))
FALLING = Hypothesis(Aliased, omega=Exponential(mean=1.5), k=Exponential(mean=1.0))


def _reference(data, name):
    if name == "uniform":
        return DenseAliased(data, lambda w: np.full_like(w, -np.log(6.1)), 6.1)
    # Few data have wide modes.
    n_omega = 10_001 if len(data.row_sizes) < 100 else 40_001
    return DenseAliased(data, lambda w: -w / 1.5 - np.log(1.5), 25.0, n_omega)


# Modes that touch in one box, and modes hundreds of widths apart.
@pytest.mark.sampled(2)
@pytest.mark.parametrize("n", [60, 3000])
@pytest.mark.parametrize("name", ["uniform", "falling"])
def test_evidence_and_draws_have_every_mode(name, n):
    data = aliased_data(n)
    hypothesis = UNIFORM if name == "uniform" else FALLING
    slow = _reference(data, name)
    draws = posterior_draws(hypothesis, data, n_draws=N_DRAWS, seed=1)
    record = draws.evidence
    assert record.status is Status.OK
    # The frequency's tenth alias, from 25 on, is beyond the slow integral and counts for 1e-7.
    # Half a cell at each end of the uniform prior is left out of it.
    error = max(3 * record.log_evidence_err, 2e-5 if n == 60 else 1e-6)
    assert_allclose(record.log_evidence, slow.log_evidence, rtol=0, atol=error)
    for i, parameter in enumerate(hypothesis.names):
        assert distance(draws.theta[:, i], slow.cdf(parameter)) < FAR
    check_quantiles(record, draws)
    if name == "falling":
        # The highest of all modes of the density of θ is the first.
        assert record.map["omega"] < np.pi


def test_methods_about_one_mode_have_the_others_or_say_that_they_have_not():
    data = aliased_data(3000)
    exact = evidence(UNIFORM, data).log_evidence
    sampled = evidence(UNIFORM, data, method="laplace_is", seed=1)
    assert sampled.status is Status.OK
    assert abs(sampled.log_evidence - exact) < max(5 * sampled.log_evidence_err, 0.01)
    laplace = evidence(UNIFORM, data, method="laplace")
    assert laplace.status is Status.LAPLACE_UNRELIABLE
    assert "other modes" in laplace.warnings[0]


@pytest.mark.slow
def test_chains_that_saw_one_of_two_modes_say_so():
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        found = evidence(UNIFORM, aliased_data(3000), method="bridge")
    assert found.status is Status.SAMPLER_NOT_CONVERGED
    assert any("hardly visited" in text for text in found.warnings)


def test_draws_of_langevin_follow_the_slow_marginal():
    data, dx = langevin_data(50.0), steps(50.0)
    draws = posterior_draws(LANGEVIN, data, n_draws=N_DRAWS, seed=3)
    u, v = np.linspace(-9, 4, 261), np.linspace(-3, 3, 241)
    prior = LANGEVIN.priors
    joint = np.array([langevin_fit(dx, 50.0, np.exp(a))(v) for a in u])
    joint += (log_density(prior["gamma"], np.exp(u)) + u)[:, None]
    joint += log_density(prior["k"], np.exp(v)) + v
    weights = np.exp(joint - logsumexp(joint))
    for i, (axis, line) in enumerate(((1, u), (0, v))):
        mass = weights.sum(axis=axis)
        rise = np.cumsum(mass) - 0.5 * mass
        found = distance(np.log(draws.theta[:, i]), lambda x, a=line, b=rise: np.interp(x, a, b))
        assert found < FAR
    check_quantiles(draws.evidence, draws)
    fits = draws.evidence.expected_log_likelihood
    error = draws.log_likelihood.std() / np.sqrt(N_DRAWS)
    assert abs(draws.log_likelihood.mean() - fits) < 5 * error


@pytest.mark.parametrize(
    "prior",
    [Uniform(0.0, 0.05), Uniform(20.0, 30.0), Exponential(mean=0.001)],
    ids=["above", "below", "tail"],
)
def test_draws_at_a_bound_and_in_a_tail_of_the_prior(prior):
    data = langevin_data(1.0)
    hypothesis = Hypothesis(Brownian, kappa=prior)
    draws = posterior_draws(hypothesis, data, n_draws=N_DRAWS, seed=4)
    x = data.as_array().ravel()
    low, high = (
        (0.0, 1.0) if isinstance(prior, Exponential) else (float(prior.low), float(prior.high))
    )
    kappa = np.linspace(low, high, 200_002)[1:-1]
    joint = -0.5 * (len(x) * np.log(kappa) + (x @ x) / (2 * kappa)) + log_density(prior, kappa)
    weights = np.exp(joint - logsumexp(joint))
    rise = np.cumsum(weights) - 0.5 * weights
    assert distance(draws.theta[:, 0], lambda v: np.interp(v, kappa, rise)) < FAR
    check_quantiles(draws.evidence, draws)


def test_quantiles_of_a_diffusivity_that_vanishes_are_not_one():
    """A receiver that does not move: all is noise, and κ is at its bound."""
    positions = np.random.default_rng(0).normal(size=(6, 40, 1))
    data = Displacements.from_array(np.diff(positions, axis=1), 1.0)
    model = model_named("brownian+noise", MODELS)
    table = scaling_priors(u_rms=1.0, timescale=1.0)
    hypothesis = Hypothesis.from_table(model, {**table, "sigma": Exponential(mean=1.0)})
    draws = posterior_draws(hypothesis, data, n_draws=N_DRAWS, seed=5)
    kappa = draws.evidence.posterior_quantiles["kappa"]
    assert (np.diff(kappa) > 0).all()
    assert kappa[-1] < 0.1
    check_quantiles(draws.evidence, draws)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_draws_of_every_model_follow_its_quantiles(name):
    table = scaling_priors(u_rms=1.0, timescale=1.0)
    hypothesis = Hypothesis.from_table(MODELS[name], table)
    x = Langevin(gamma=1.0, k=1.0).simulate(
        jax.random.key(1), n_particles=20, n_steps=8, n_dim=1, tau=1.0
    )
    data = Displacements.from_array(np.diff(np.asarray(x), axis=1), 1.0)
    draws = posterior_draws(hypothesis, data, n_draws=N_DRAWS, seed=6)
    assert draws.evidence.method == "exact"
    check_quantiles(draws.evidence, draws)


def test_draws_repeat_with_the_seed_and_differ_without():
    data = langevin_data(1.0)
    one, two, other = (posterior_draws(LANGEVIN, data, n_draws=20, seed=s) for s in (7, 7, 8))
    assert (one.theta == two.theta).all()
    assert not (one.theta == other.theta).any()
    with pytest.raises(DriftbayesError, match="no option 'n_proposals'"):
        posterior_draws(LANGEVIN, data, n_proposals=3)


# The parts


@pytest.mark.parametrize(
    ("n", "quadratic", "shape", "rate"),
    [(10, 30.0, 1.0, 2.0), (3, 1e-6, 1.5, 1.0), (1, 4.0, 6.0, 0.5), (4000, 8000.0, 1.0, 1.0)],
)
def test_scales_follow_the_generalised_inverse_gaussian_law(n, quadratic, shape, rate):
    each = (np.full(N_DRAWS, float(value)) for value in (n, quadratic))
    found = draw_scales(*each, GammaForm(shape, rate, 0.0), np.random.default_rng(0))
    # By the trapezoid rule in ln c, which needs no Bessel function.
    v = np.linspace(-40, 10, 400_001)
    log_f = (shape - 0.5 * n) * v - 0.5 * quadratic * np.exp(-v) - rate * np.exp(v)
    weights = np.exp(log_f - logsumexp(log_f))
    assert distance(np.log(found), lambda x: np.interp(x, v, np.cumsum(weights))) < FAR
