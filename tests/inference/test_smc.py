"""Sequential Monte Carlo: known evidences, honest errors, places where the likelihood is zero."""

from dataclasses import replace

import numpy as np
import pytest
from court import BROWNIAN, LANGEVIN, ONE_PEAK, TWO_PEAKS, langevin_data, one_peak
from numpy.testing import assert_allclose
from scipy.special import log_ndtr, logsumexp
from targets import ConstantTarget, GaussianTarget, TwoSpeeds

from driftbayes.errors import DriftbayesError, Status
from driftbayes.inference import Batch, Hypothesis, exact
from driftbayes.inference import _tempering as tempering
from driftbayes.inference._density import Density
from driftbayes.inference._metropolis import Chains, Cloud, fit_cloud, move
from driftbayes.inference._scale import gamma_form, log_scale_evidence
from driftbayes.inference._smc import _estimate, smc, smc_twice
from driftbayes.inference._target import AbstractTarget, PosteriorTarget, finite
from driftbayes.inference._tempering import Run, Size, temper
from driftbayes.priors import Exponential

# Tolerance of Monte Carlo tests, in standard errors.
SIGMA = 5.0
SIZE = {"n_particles": 256, "n_islands": 16, "n_moves": 16}
TARGETS = {
    "gaussian-1": GaussianTarget.make(1),
    "gaussian-4": GaussianTarget.make(4),
    "gaussian-10": GaussianTarget.make(10),
    "one-peak": ONE_PEAK,
    "narrow-peak": one_peak([0.5, 0.5], [0.1, 0.1]),
    "two-peaks": TWO_PEAKS,
}
HYPOTHESES = {"brownian": BROWNIAN, "langevin": LANGEVIN}


def rng(seed=0):
    return np.random.default_rng(seed)


class CutTarget(AbstractTarget):
    """Prior N(0, 1), likelihood 1 beyond a cut in the first coordinate, a given value before it."""

    def __init__(self, cut, before=-np.inf):
        self.cut, self.before = cut, before

    @property
    def n_dim(self):
        return 2

    def log_densities(self, z):
        log_prior = -0.5 * np.sum(z**2, axis=1) - np.log(2 * np.pi)
        return log_prior, finite(np.where(z[:, 0] > self.cut, 0.0, self.before))

    def sample_prior(self, rng, n):
        return rng.normal(size=(n, 2))

    @property
    def log_evidence(self):
        return float(log_ndtr(-self.cut))


def posterior(hypothesis, data):
    return PosteriorTarget(Density(hypothesis, Batch.of(data).engine(0, hypothesis.model)))


def small(name, tau=1.0):
    """A model and 100 displacements of the Langevin model, with their exact evidence."""
    data = langevin_data(tau)
    return posterior(HYPOTHESES[name], data), exact(HYPOTHESES[name], Batch.of(data))


def check(estimate, log_evidence):
    """Within the error, which is of use, and without doubts."""
    assert estimate.status is Status.OK
    assert estimate.warnings == ()
    assert 0 < estimate.log_evidence_err < 0.15
    assert abs(estimate.log_evidence - log_evidence) < SIGMA * estimate.log_evidence_err


# --- Known evidences --------------------------------------------------------------------------


@pytest.mark.parametrize("name", TARGETS)
def test_known_evidences_are_found_within_the_error(name):
    target = TARGETS[name]
    check(smc(target, rng(), **SIZE), target.log_evidence)


def test_a_run_by_the_schedule_of_another_is_unbiased_with_few_chains():
    target, size = TARGETS["gaussian-4"], {"n_particles": 32, "n_islands": 4, "n_moves": 4}
    found = [smc_twice(target, rng(seed), **size) for seed in range(20)]
    ratio = np.exp([one.log_evidence - target.log_evidence for one in found])
    assert abs(ratio.mean() - 1) < 4 * ratio.std(ddof=1) / np.sqrt(len(ratio))
    assert ratio.std(ddof=1) < 0.5
    # Both runs count, and no chain was adapted to.
    n_steps = found[0].diagnostics["n_temperatures"]
    assert n_steps > 2
    assert found[0].n_evaluations == 2 * 4 * 32 * (1 + n_steps)
    assert found[0].diagnostics["bias"] < 0.2


def test_a_run_by_the_schedule_of_another_is_not_adapted():
    size = Size(n_particles=32, n_islands=4, n_moves=4)
    first = temper(TARGETS["gaussian-4"], rng(), size)
    second = temper(TARGETS["gaussian-4"], rng(1), size, first.schedule)
    assert first.n_adapted == 4 * 8
    assert second.n_adapted == 0
    assert first.n_temperatures == second.n_temperatures == len(first.schedule)
    assert first.schedule[-1].beta == second.beta == 1
    for tuning, followed in zip(first.schedule, second.schedule, strict=True):
        assert followed.cloud is tuning.cloud
        assert (followed.beta, followed.log_scale, followed.fit) == (
            (tuning.beta, tuning.log_scale, tuning.fit)
        )
    assert (first.log_evidence != second.log_evidence).all()


def test_a_constant_likelihood_has_evidence_one_in_one_step():
    estimate = smc(ConstantTarget(2), rng(), **SIZE)
    assert estimate.log_evidence == 0
    assert estimate.log_evidence_err == 0
    assert estimate.diagnostics["n_temperatures"] == 1
    assert estimate.diagnostics["thermodynamic_log_evidence"] == 0


@pytest.mark.parametrize("name", HYPOTHESES)
@pytest.mark.parametrize("tau", [0.1, 10.0])
def test_models_have_their_exact_evidence(name, tau):
    target, expected = small(name, tau)
    check(smc(target, rng(), **SIZE), expected.log_evidence)


def test_posterior_of_a_model_is_that_of_quadrature():
    target, expected = small("langevin")
    estimate = smc(target, rng(1), **SIZE)
    log_theta = estimate.weights @ estimate.z
    # About one in five of the particles is independent of the others.
    n = len(estimate.z) / 5
    for i, name in enumerate(expected.map):
        error = expected.log_sd[name] / np.sqrt(n)
        assert abs(log_theta[i] - expected.log_mean[name]) < SIGMA * error
    fit = estimate.weights @ estimate.log_likelihoods
    error = np.std(estimate.log_likelihoods) / np.sqrt(n)
    assert abs(fit - expected.expected_log_likelihood) < SIGMA * error


@pytest.mark.parametrize("name", TARGETS)
def test_thermodynamic_integral_is_another_way_to_the_evidence(name):
    target = TARGETS[name]
    estimate = smc(target, rng(), **SIZE)
    thermodynamic = estimate.diagnostics["thermodynamic_log_evidence"]
    assert thermodynamic != estimate.log_evidence
    assert abs(thermodynamic - target.log_evidence) < SIGMA * estimate.log_evidence_err


def test_posterior_of_a_gaussian_is_known():
    target = GaussianTarget.make(2)
    estimate = smc(ONE_PEAK, rng(), **SIZE)
    mean, sd = target.mean / (1 + target.sd**2), target.sd / np.sqrt(1 + target.sd**2)
    n = len(estimate.z) / 5
    found = estimate.weights @ estimate.z
    assert (np.abs(found - mean) < SIGMA * sd / np.sqrt(n)).all()
    variance = estimate.weights @ (estimate.z - mean) ** 2
    assert (np.abs(variance / sd**2 - 1) < SIGMA * np.sqrt(2 / n)).all()
    fit = estimate.weights @ estimate.log_likelihoods
    error = np.std(estimate.log_likelihoods) / np.sqrt(n)
    assert abs(fit - target.expected_log_likelihood) < SIGMA * error


def test_both_modes_have_half_of_the_draws():
    estimate = smc(TWO_PEAKS, rng(), **SIZE)
    upper = estimate.weights @ (estimate.z[:, 0] > 0)
    # Chains rarely change sides: at worst, one independent draw per chain.
    n_chains = SIZE["n_islands"] * SIZE["n_particles"] / SIZE["n_moves"]
    assert abs(upper - 0.5) < SIGMA * 0.5 / np.sqrt(n_chains)


@pytest.mark.slow
@pytest.mark.parametrize("tau", [1.0, 10.0])
def test_five_parameters_against_draws_from_the_prior(tau):
    # With the scale in closed form, means over the prior of the other four are good to 0.01.
    hypothesis = Hypothesis(
        TwoSpeeds, **{name: Exponential(mean=1.0) for name in TwoSpeeds.parameters}
    )
    target = posterior(hypothesis, langevin_data(tau))
    theta = rng().exponential(size=(200_000, 5))
    theta[:, -1] = 1.0
    _, *terms = target.density.terms(theta)
    log_w = log_scale_evidence(*terms, gamma_form(hypothesis.priors["k"]))
    expected = float(logsumexp(log_w) - np.log(len(log_w)))
    relative = np.exp(log_w - expected)
    error = relative.std() / np.sqrt(len(relative))
    assert error < 0.02
    estimate = smc(target, rng(), **SIZE)
    assert estimate.status is Status.OK
    assert estimate.log_evidence_err < 0.15
    off = estimate.log_evidence - expected
    assert abs(off) < SIGMA * np.hypot(error, estimate.log_evidence_err)


# --- Honest errors ----------------------------------------------------------------------------


N_SEEDS = 40


@pytest.mark.slow
@pytest.mark.parametrize("name", [*TARGETS, "cut", *HYPOTHESES])
def test_errors_are_honest_over_seeds(name):
    """z-scores of 40 seeds: mean 0, standard deviation 1, within four standard errors.

    They follow Student's t with 15 degrees of freedom, scaled to variance one; its excess kurtosis
    of 6/11 makes the error of the standard deviation √((2 + 6/11) / 4n).
    """
    if name in HYPOTHESES:
        target, evidence = small(name, 10.0)
        expected = evidence.log_evidence
    else:
        target = CutTarget(1.0) if name == "cut" else TARGETS[name]
        expected = target.log_evidence
    z, off = [], []
    for seed in range(N_SEEDS):
        estimate = smc(target, rng(seed), **SIZE)
        z.append((estimate.log_evidence - expected) / estimate.log_evidence_err)
        thermodynamic = estimate.diagnostics["thermodynamic_log_evidence"]
        off.append((thermodynamic - expected) / estimate.log_evidence_err)
    assert abs(np.mean(z)) < 4 / np.sqrt(N_SEEDS)
    assert abs(np.std(z, ddof=1) - 1) < 4 * np.sqrt((2 + 6 / 11) / (4 * N_SEEDS))
    # Of the same accuracy, and with a bias that falls as one over the number of particles.
    assert abs(np.mean(off)) < 1
    assert np.std(off, ddof=1) < 2


class TailTarget(AbstractTarget):
    r"""A diffusivity far in the tail of its prior: κ ~ Exp(1), n displacements of variance c.

    With $a = 1 - n/2$ and $b = nc/2$ the evidence is
    $\int \kappa^{a-1} e^{-b/\kappa - \kappa}\,\mathrm{d}\kappa = 2 b^{a/2} K_a(2\sqrt b)$.
    """

    def __init__(self, n, variance):
        self.n, self.variance = n, variance

    @property
    def n_dim(self):
        return 1

    def log_densities(self, z):
        z = z[:, 0]
        return z - np.exp(z), -0.5 * self.n * (z + self.variance * np.exp(-z))

    def sample_prior(self, rng, n):
        return np.log(rng.exponential(size=(n, 1)))

    @property
    def log_evidence(self):
        z = np.linspace(-5, 10, 300_001)
        return logsumexp(np.sum(self.log_densities(z[:, None]), axis=0)) + np.log(z[1] - z[0])


@pytest.mark.slow
@pytest.mark.parametrize("variance", [50.0, 1000.0])
def test_errors_are_honest_where_prior_and_data_are_in_conflict(variance):
    """The likelihood peaks at 50 and at 1000 prior means."""
    target = TailTarget(200.0, variance)
    z = []
    for seed in range(24):
        estimate = smc(target, rng(seed))
        if estimate.status is Status.OK:
            z.append((estimate.log_evidence - target.log_evidence) / estimate.log_evidence_err)
    assert len(z) >= 20
    assert abs(np.mean(z)) < 4 / np.sqrt(len(z))
    assert np.sqrt(np.mean(np.square(z))) < 1.6
    assert np.max(np.abs(z)) < 5


def test_error_is_that_of_the_mean_over_islands():
    z = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    estimate = _estimate(run_with(log_evidence=np.log(z)))
    assert_allclose(estimate.log_evidence, np.log(3.0), rtol=1e-12)
    # Standard error √(2.5/5) of a mean of 3, known with four degrees of freedom.
    assert_allclose(estimate.log_evidence_err, np.sqrt(0.5) / 3 * np.sqrt(4 / 2), rtol=1e-12)
    # A draw counts by the evidence of its island.
    assert_allclose(estimate.weights.reshape(5, -1).sum(axis=1), z / 15, rtol=1e-12)


# --- Reproducibility --------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_numbers():
    one, two, other = (smc(ONE_PEAK, rng(seed), **SIZE) for seed in (3, 3, 4))
    assert one.log_evidence == two.log_evidence
    assert (one.z == two.z).all()
    assert one.diagnostics == two.diagnostics
    assert one.log_evidence != other.log_evidence


def test_evaluations_are_counted():
    estimate = smc(ONE_PEAK, rng(), **SIZE)
    clouds = 1 + estimate.diagnostics["n_temperatures"]
    assert estimate.n_evaluations == SIZE["n_particles"] * SIZE["n_islands"] * clouds
    assert estimate.z.shape == (SIZE["n_particles"] * SIZE["n_islands"], 2)
    assert_allclose(estimate.log_likelihoods, ONE_PEAK.log_densities(estimate.z)[1], rtol=1e-10)


# --- Where the likelihood is zero, or fails ---------------------------------------------------


@pytest.mark.parametrize("before", [-np.inf, np.nan, np.inf])
def test_places_where_the_likelihood_fails_count_as_zero(before):
    target = CutTarget(1.0, before)
    estimate = smc(target, rng(), **SIZE)
    check(estimate, target.log_evidence)
    assert (estimate.z[:, 0] > 1).all()
    thermodynamic = estimate.diagnostics["thermodynamic_log_evidence"]
    assert abs(thermodynamic - target.log_evidence) < SIGMA * estimate.log_evidence_err


def test_islands_that_find_nothing_count_as_zero():
    # One draw in 740 is alive, one in three for an island.
    target = CutTarget(3.0)
    estimate = smc(target, rng(), **SIZE)
    dead = np.isinf(estimate.log_weights.reshape(SIZE["n_islands"], -1)[:, 0])
    assert 0 < dead.sum() < SIZE["n_islands"]
    assert abs(estimate.log_evidence - target.log_evidence) < SIGMA * estimate.log_evidence_err
    assert estimate.status is Status.SAMPLER_NOT_CONVERGED
    assert "have a likelihood above zero; use a narrower prior" in estimate.warnings[0]
    assert np.isfinite(estimate.z).all()


def test_likelihood_that_is_nowhere_finite_has_a_status():
    estimate = smc(CutTarget(100.0), rng(), **SIZE)
    assert estimate.status is Status.NOT_FINITE
    assert np.isnan(estimate.log_evidence)
    assert estimate.warnings == (Status.NOT_FINITE.advice,)


# --- Doubts -----------------------------------------------------------------------------------


def run_with(**changes):
    """A run of islands about which there is nothing to say, but for the changes."""
    log_evidence = changes.pop("log_evidence", np.zeros(8))
    n = len(log_evidence)
    found = {
        "thermodynamic": log_evidence,
        "beta": 1.0,
        "n_temperatures": 5,
        "n_alive": 32 * n,
        "acceptance": 0.5,
        "memory": 0.1,
    }
    return Run(
        log_evidence=log_evidence,
        z=np.zeros((n, 32, 2)),
        log_likelihoods=np.zeros((n, 32)),
        **(found | changes),
    )


def test_nothing_is_said_of_a_good_run():
    estimate = _estimate(run_with())
    assert estimate.status is Status.OK
    assert estimate.warnings == ()


@pytest.mark.parametrize(
    ("changes", "words", "status"),
    [
        ({"beta": 0.25}, "counts only to the power 0.25", Status.SAMPLER_NOT_CONVERGED),
        ({"acceptance": 0.01}, "only 1.0% of the moves", Status.SAMPLER_NOT_CONVERGED),
        (
            {"log_evidence": 3.0 * np.arange(8)},
            "use more particles",
            Status.SAMPLER_NOT_CONVERGED,
        ),
        ({"memory": 0.9}, "use more moves", Status.OK),
        (
            {"thermodynamic": np.full(8, 0.5)},
            "differs from ln Z by 0.5 nats",
            Status.SAMPLER_NOT_CONVERGED,
        ),
        ({"n_alive": 40}, "only 5 in each island", Status.OK),
    ],
    ids=["unfinished", "stuck", "scattered", "slow", "thermodynamic", "rare"],
)
def test_doubts_are_said_in_words(changes, words, status):
    estimate = _estimate(run_with(**changes))
    assert estimate.status is status
    assert words in estimate.warnings[0]


def test_a_bias_that_islands_share_widens_the_error():
    scattered = np.log(1 + 0.01 * np.arange(-3.5, 4))
    before = _estimate(run_with(log_evidence=scattered))
    near = _estimate(run_with(log_evidence=scattered, thermodynamic=scattered + 0.01))
    far = _estimate(run_with(log_evidence=scattered, thermodynamic=scattered + 0.1))
    error = before.log_evidence_err
    assert 0.005 < error < 0.02
    assert near.log_evidence_err == error
    assert_allclose(far.log_evidence_err, np.hypot(error, 0.1 - 2 * error), rtol=1e-9)


def test_running_out_of_temperatures_is_said(monkeypatch):
    monkeypatch.setattr(tempering, "_MAX_TEMPERATURES", 2)
    estimate = smc(TARGETS["gaussian-4"], rng(), n_particles=32, n_islands=4, n_moves=8)
    assert estimate.status is Status.SAMPLER_NOT_CONVERGED
    assert np.isnan(estimate.log_evidence)
    assert "after 2 temperatures" in estimate.warnings[0]


def test_sizes_that_do_not_fit_are_refused():
    with pytest.raises(DriftbayesError, match="multiple of moves, got 100 and 16"):
        smc(TARGETS["gaussian-1"], rng(), n_particles=100)
    with pytest.raises(
        DriftbayesError, match="4 or more, to have an error from their scatter, got 3"
    ):
        smc_twice(TARGETS["gaussian-1"], rng(), n_islands=3)


# --- Parts ------------------------------------------------------------------------------------


@pytest.mark.parametrize("fit", [0.0, 1.0], ids=["mostly-walk", "mostly-independent"])
def test_moves_leave_the_tempered_posterior_as_it_is(fit):
    target, beta, n = TARGETS["gaussian-4"], 0.3, 20_000
    precision = 1 + beta / target.sd**2
    mean, sd = beta * target.mean / target.sd**2 / precision, 1 / np.sqrt(precision)
    z = mean + sd * rng().normal(size=(n, 4))
    # Beside the posterior, too wide and turned: what is wrong in a ratio shows.
    below = 0.1 * np.tri(4, k=-1)
    cloud = Cloud(mean + 0.5 * sd, np.diag(1.5 * sd) + below)
    chains, numbers = replace(Chains.at(target, z), fit=fit), rng(1)
    for _ in range(8):
        moved, accepted = move(target, chains, cloud, beta, numbers)
        assert accepted.mean() > 0.1
        # The same kinds of proposal all along.
        chains = replace(moved, log_scale=0.0, fit=fit)
    assert np.mean(chains.z != z) > 0.5
    standard = (chains.z - mean) / sd
    assert_allclose(np.mean(standard, axis=0), 0.0, atol=SIGMA / np.sqrt(n))
    cov = standard.T @ standard / n
    assert_allclose(cov, np.eye(4), atol=SIGMA * np.sqrt(2 / n))
    for kept, expected in zip(
        (chains.log_prior, chains.log_likelihood), target.log_densities(chains.z), strict=True
    ):
        assert_allclose(kept, expected, rtol=1e-10)


@pytest.mark.parametrize("spread", [1e-3, 30.0, 1e6, 1e20])
def test_step_leaves_half_of_the_live_particles_effective(spread):
    log_l = -spread * np.abs(rng().normal(size=1000))
    log_l[:300] = -np.inf
    step = tempering._next_step(log_l, 0.25)
    if spread < 1:
        assert step == 0.75
        return
    w = np.exp(step * log_l)
    assert_allclose(w.sum() ** 2 / (w**2).sum(), 350, rtol=1e-4)


def test_resampling_takes_each_as_often_as_its_weight_says():
    weights = np.stack([np.arange(50.0), np.arange(50.0)[::-1]])
    with np.errstate(divide="ignore"):
        chosen = tempering._resample(np.array([0.3, 0.999999]), np.log(weights), 1000)
    expected = 1000 * weights.ravel() / weights[0].sum()
    assert (np.abs(np.bincount(chosen, minlength=100) - expected) < 1).all()
    assert 0 not in chosen
    assert 99 not in chosen


def test_resampling_stays_within_each_island():
    chosen = tempering._resample(np.zeros(2), np.array([[-np.inf] * 4, [0.0, -1e9, 0.0, 0.0]]), 3)
    # Without a live particle any will do.
    assert (chosen[:3] < 4).all()
    assert chosen[3:].tolist() == [4, 6, 7]


def test_cloud_of_one_live_particle_has_a_width():
    z = rng().normal(size=(100, 3))
    cloud = fit_cloud(z, (np.arange(100) == 7).astype(float))
    assert_allclose(cloud.center, z[7])
    assert_allclose(np.diag(cloud.factor), np.std(z, axis=0), rtol=1e-10)
