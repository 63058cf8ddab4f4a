"""Quasi-random importance sampling: known evidences, honest errors, doubts where they are due."""

import doctest

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import integrate, stats
from scipy.special import digamma, gammaln, ndtri, polygamma

from driftbayes.errors import DriftbayesError, Status
from driftbayes.inference import _quasi_importance as module
from driftbayes.inference._proposals import StudentMixture, mixture_at_modes
from driftbayes.inference._quasi_importance import Components, equal_draws, quasi_importance

SIGMA = 4.5
PRIOR_SD = 5.0
LOG_ROOT = 0.5 * np.log(2 * np.pi)
BEND, LENGTH = 0.5, 1.5


def _log_prior(z):
    return np.sum(-0.5 * (z / PRIOR_SD) ** 2 - np.log(PRIOR_SD) - LOG_ROOT, axis=1)


PRIOR = {"sample_prior": lambda u: PRIOR_SD * ndtri(u), "log_prior": _log_prior}


def _modes(centers, covs, log_masses):
    factors = [np.linalg.cholesky(cov) for cov in covs]
    return Components(np.array(centers), np.array(factors), np.array(log_masses))


def _density(function):
    def log_f(z):
        value = function(z)
        return value, value - _log_prior(z)

    return log_f


def _gaussian(p):
    return (
        lambda z: -0.5 * np.sum(z**2, axis=1),
        _modes([np.zeros(p)], [np.eye(p)], [0.0]),
        p * LOG_ROOT,
    )


def _correlated(p):
    cov = 0.95 * np.ones((p, p)) + 0.05 * np.eye(p)
    inverse = np.linalg.inv(cov)
    log_z = p * LOG_ROOT + 0.5 * np.linalg.slogdet(cov)[1]
    modes = _modes([np.zeros(p)], [cov], [0.0])
    return lambda z: -0.5 * np.einsum("ni,ij,nj->n", z, inverse, z), modes, log_z


def _log_gamma(p):
    """Logarithms of gamma variables of shapes from 0.7 to 4."""
    shape = np.linspace(0.7, 4, p)
    modes = _modes([np.log(shape)], [np.diag(1 / shape)], [0.0])
    return lambda z: np.sum(shape * z - np.exp(z), axis=1), modes, float(np.sum(gammaln(shape)))


def _student(p, nu=3.0):
    log_z = gammaln(nu / 2) - gammaln((nu + p) / 2) + 0.5 * p * np.log(nu * np.pi)
    modes = _modes([np.zeros(p)], [np.eye(p) * nu / (nu + p)], [0.0])
    return lambda z: -0.5 * (nu + p) * np.log1p(np.sum(z**2, axis=1) / nu), modes, float(log_z)


def _two_modes(p):
    center, variance = 3 * np.ones(p), 0.5
    modes = _modes([center, -center], [np.eye(p), variance * np.eye(p)], np.log([0.7, 0.3]))

    def function(z):
        narrow = np.log(0.3) - 0.5 * np.sum((z + center) ** 2, axis=1) / variance
        wide = np.log(0.7) - 0.5 * np.sum((z - center) ** 2, axis=1)
        return np.logaddexp(wide, narrow - 0.5 * p * np.log(variance))

    return function, modes, p * LOG_ROOT


def _banana(p):
    center, cov = np.zeros(p), np.eye(p)
    center[1], cov[0, 0] = BEND * LENGTH**2, LENGTH**2

    def function(z):
        bent = z[:, 1] + BEND * (z[:, 0] ** 2 - LENGTH**2)
        return -0.5 * ((z[:, 0] / LENGTH) ** 2 + bent**2 + np.sum(z[:, 2:] ** 2, axis=1))

    return function, _modes([center], [cov], [0.0]), p * LOG_ROOT + np.log(LENGTH)


def _vanishing(p):
    """One parameter whose logarithm has an exponential tail towards zero, the others Gaussian."""

    def function(z):
        return z[:, 0] - np.exp(z[:, 0]) - 0.5 * np.sum(z[:, 1:] ** 2, axis=1)

    return function, _modes([np.zeros(p)], [np.eye(p)], [0.0]), (p - 1) * LOG_ROOT


def _funnel(p):
    """The width of all others is the exponential of the first; the mode is far from the mass."""
    center, cov = np.zeros(p), np.exp(-(p - 1) / 2) * np.eye(p)
    center[0], cov[0, 0] = -(p - 1) / 2, 1.0

    def function(z):
        v = z[:, 0]
        return -0.5 * (v**2 + np.sum(z[:, 1:] ** 2, axis=1) * np.exp(-v) + (p - 1) * v)

    return function, _modes([center], [cov], [0.0]), p * LOG_ROOT


EASY = [_gaussian, _correlated, _log_gamma, _student, _two_modes, _vanishing]
IDS = ["gaussian", "correlated", "log-gamma", "student", "two-modes", "vanishing"]


def _run(make, p, seed=0, **options):
    function, modes, log_z = make(p)
    estimate = quasi_importance(_density(function), modes, seed=seed, **PRIOR, **options)
    return estimate, estimate.log_evidence - log_z


@pytest.mark.sampled(3)
@pytest.mark.parametrize("p", [4, 5, 6, 8])
@pytest.mark.parametrize("make", EASY, ids=IDS)
def test_known_evidences_are_found_within_the_tolerance(make, p):
    estimate, off = _run(make, p)
    assert estimate.status is Status.OK
    assert estimate.warnings == ()
    assert estimate.log_evidence_err <= 0.01
    assert abs(off) < SIGMA * estimate.log_evidence_err
    assert estimate.n_evaluations == len(estimate.z) <= 40000
    assert estimate.diagnostics["pareto_k"] <= 0.7
    assert estimate.diagnostics["n_stages"] >= 2


@pytest.mark.parametrize("make", [_banana, _funnel], ids=["banana", "funnel"])
@pytest.mark.parametrize("p", [4, pytest.param(6, marks=pytest.mark.slow)])
def test_curved_posteriors_are_right_or_doubted(make, p):
    for seed in range(2):
        estimate, off = _run(make, p, seed, tolerance=0.02)
        assert abs(off) < SIGMA * estimate.log_evidence_err or estimate.status is not Status.OK


@pytest.mark.parametrize("make", [_vanishing, _banana, _funnel, _two_modes])
def test_closed_forms_agree_with_a_sum_over_a_grid(make):
    """The same functions in two dimensions, by the trapezoid rule, which is exact for them."""
    function, _, log_z = make(2)
    side = np.arange(-40, 25, 0.05)
    x, y = np.meshgrid(side, side, indexing="ij")
    with np.errstate(over="ignore"):
        values = function(np.column_stack([x.ravel(), y.ravel()]))
    assert_allclose(np.log(np.sum(np.exp(values)) * 0.05**2), log_z, atol=1e-6)


def test_closed_form_of_student_agrees_with_radial_quadrature():
    function, _, log_z = _student(4)
    value, _ = integrate.quad(
        lambda r: 2 * np.pi**2 * r**3 * np.exp(function(np.array([[r, 0, 0, 0]]))[0]), 0, np.inf
    )
    assert_allclose(np.log(value), log_z, atol=1e-6)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("make", "p"), [(_gaussian, 4), (_log_gamma, 5), (_vanishing, 6)], ids=["4", "5", "6"]
)
def test_errors_are_honest_over_a_few_seeds(make, p):
    """z-scores of 12 seeds: the sum of squares is a chi-square with 12 degrees of freedom."""
    scores = []
    for seed in range(12):
        estimate, off = _run(make, p, seed)
        scores.append(off / estimate.log_evidence_err)
    assert np.sum(np.square(scores)) < stats.chi2.isf(1e-5, 12)
    assert np.sum(np.square(scores)) > stats.chi2.ppf(1e-5, 12)


@pytest.mark.slow
@pytest.mark.parametrize("p", [4, 8])
@pytest.mark.parametrize("make", EASY, ids=IDS)
def test_errors_are_honest_over_seeds(make, p):
    """z-scores of 50 seeds: mean 0 ± 0.14, standard deviation 1 ± 0.1."""
    scores = []
    for seed in range(50):
        estimate, off = _run(make, p, seed)
        assert estimate.status is Status.OK
        scores.append(off / estimate.log_evidence_err)
    assert abs(np.mean(scores)) < 4 / np.sqrt(50)
    assert abs(np.std(scores, ddof=1) - 1) < 4 / np.sqrt(100)


@pytest.mark.slow
def test_a_strongly_curved_posterior_is_low_by_little():
    """Known limit: an arm of the banana may be missed, with a few hundredths of the mass.

    Of seeds 0 to 49 in five dimensions 42 are ok; the worst of them is low by 0.040 nats with a
    stated error of 0.008. The z-scores of all 50 have mean -0.75 and standard deviation 1.2.
    """
    for seed in range(30):
        estimate, off = _run(_banana, 5, seed)
        assert abs(off) < 0.06 or estimate.status is not Status.OK


@pytest.mark.slow
def test_quasi_random_points_beat_random_draws():
    """Same number of evaluations; random draws from the mixture of the first stage."""
    p = 5
    function, modes, log_z = _gaussian(p)
    mixture = mixture_at_modes(modes)
    rng = np.random.default_rng(0)
    quasi, random = [], []
    for seed in range(16):
        estimate, off = _run(_gaussian, p, seed)
        quasi.append(off)
        n = estimate.n_evaluations // 2
        z = np.concatenate([mixture.points(k, rng.random((n, p))) for k in (0, 1)])
        random.append(np.log(np.mean(np.exp(function(z) - mixture.log_density(z) - log_z))))
    ratio = np.mean(np.square(random)) / np.mean(np.square(quasi))
    # 5.3 over 40 seeds; 16 give it to a factor of 2.5 either way.
    assert ratio > 2


def test_the_result_is_a_function_of_the_seed():
    first, _ = _run(_log_gamma, 4, 3)
    again, _ = _run(_log_gamma, 4, 3)
    other, _ = _run(_log_gamma, 4, 4)
    assert_array_equal(first.z, again.z)
    assert first.log_evidence == again.log_evidence != other.log_evidence


def test_calls_come_in_multiples_of_32_and_are_all_counted():
    function, modes, _ = _two_modes(4)
    sizes = []

    def log_f(z):
        sizes.append(len(z))
        return function(z), function(z)

    estimate = quasi_importance(log_f, modes, seed=0, **PRIOR)
    assert sum(sizes) == estimate.n_evaluations
    assert all(size % 32 == 0 for size in sizes)


@pytest.mark.parametrize("nothing", [np.nan, -np.inf])
def test_points_of_no_density_count_as_zero(nothing):
    """A quarter of a Gaussian, the rest NaN or minus infinity."""
    function, modes, log_z = _gaussian(4)

    def cut(z):
        return np.where((z[:, 0] > 0) & (z[:, 1] > 0), function(z), nothing)

    estimate = quasi_importance(_density(cut), modes, seed=0, **PRIOR)
    assert estimate.status is Status.OK
    assert abs(estimate.log_evidence - log_z + np.log(4)) < SIGMA * estimate.log_evidence_err


def test_no_density_at_all_is_not_finite():
    _, modes, _ = _gaussian(4)
    estimate = quasi_importance(
        _density(lambda z: np.full(len(z), -np.inf)), modes, seed=0, **PRIOR
    )
    assert estimate.status is Status.NOT_FINITE
    assert np.isnan(estimate.log_evidence)
    with pytest.raises(DriftbayesError, match="non-zero weight"):
        equal_draws(estimate, 10, seed=0)


def test_prior_draws_that_are_not_finite_are_left_out():
    function, modes, log_z = _gaussian(4)

    def sample_prior(u):
        return np.where(u < 0.001, -np.inf, PRIOR_SD * ndtri(u))

    estimate = quasi_importance(
        _density(function), modes, seed=0, sample_prior=sample_prior, log_prior=_log_prior
    )
    assert np.isfinite(estimate.z).all()
    assert abs(estimate.log_evidence - log_z) < SIGMA * estimate.log_evidence_err


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("shift", "scale"), [(0.0, 0.3), (0.0, 3.0), (2.0, 3.0), (2.0, 0.3)])
def test_wrong_modes_are_repaired_by_the_fit(scale, shift):
    function, _, log_z = _log_gamma(4)
    modes = _modes([np.full(4, shift)], [scale**2 * np.eye(4)], [0.0])
    estimate = quasi_importance(_density(function), modes, seed=0, **PRIOR)
    assert estimate.status is Status.OK
    assert abs(estimate.log_evidence - log_z) < SIGMA * estimate.log_evidence_err


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3, 4))]
)
def test_a_mode_that_was_not_found_is_met_by_the_prior(seed):
    """Half of the mass is at a mode that is not given, in about 1 % of the prior's mass."""
    p = 4
    center = np.full(p, 1.5)
    sd = 2.0

    def log_prior(z):
        return np.sum(-0.5 * (z / sd) ** 2 - np.log(sd) - LOG_ROOT, axis=1)

    def log_f(z):
        value = np.logaddexp(
            -2 * np.sum((z - center) ** 2, axis=1), -2 * np.sum((z + center) ** 2, axis=1)
        )
        return value, value - log_prior(z)

    modes = _modes([center], [0.25 * np.eye(p)], [0.0])
    log_z = np.log(2) + p * (LOG_ROOT + np.log(0.5))
    estimate = quasi_importance(
        log_f, modes, seed=seed, sample_prior=lambda u: sd * ndtri(u), log_prior=log_prior
    )
    off = estimate.log_evidence - log_z
    assert estimate.status is Status.OK
    assert abs(off) < SIGMA * estimate.log_evidence_err


def test_a_tail_that_no_proposal_reaches_is_reported():
    """A product of Cauchy laws, without a prior to reach its tails."""
    modes = _modes([np.zeros(6)], [0.5 * np.eye(6)], [0.0])

    def log_f(z):
        value = -np.sum(np.log1p(z**2), axis=1)
        return value, value

    estimate = quasi_importance(log_f, modes, seed=0, max_evaluations=16384)
    assert estimate.status is Status.SAMPLER_NOT_CONVERGED
    assert any(
        "tail of shape" in warning or "tolerance" in warning for warning in estimate.warnings
    )


def test_too_few_evaluations_are_reported():
    estimate, off = _run(_log_gamma, 8, tolerance=1e-4, max_evaluations=5000)
    assert estimate.status is Status.SAMPLER_NOT_CONVERGED
    assert any("above the tolerance of 0.0001" in warning for warning in estimate.warnings)
    assert estimate.n_evaluations <= 5000
    assert abs(off) < SIGMA * estimate.log_evidence_err
    single, _ = _run(_gaussian, 4, max_evaluations=1500)
    assert single.status is Status.SAMPLER_NOT_CONVERGED
    assert any("only one stage" in warning for warning in single.warnings)


def test_equal_draws_have_the_moments_of_the_posterior():
    estimate, _ = _run(_log_gamma, 4, tolerance=0.003)
    draws = equal_draws(estimate, 2000, seed=1)
    n = len(draws)
    assert n == min(2000, int(0.25 * estimate.diagnostics["ess"]))
    assert len(np.unique(draws, axis=0)) == n
    shape = np.linspace(0.7, 4, 4)
    sd = np.sqrt(polygamma(1, shape))
    assert np.all(np.abs(draws.mean(axis=0) - digamma(shape)) < SIGMA * sd / np.sqrt(n))
    assert_allclose(draws.std(axis=0), sd, rtol=SIGMA / np.sqrt(n) * 1.5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seed": -1}, "seed must be a whole number"),
        ({"tolerance": 0.0}, "tolerance must be positive"),
        ({"max_evaluations": 100}, "max_evaluations is too small"),
        ({"log_prior": None}, "give both"),
    ],
)
def test_bad_options_are_refused(options, message):
    function, modes, _ = _gaussian(4)
    with pytest.raises(DriftbayesError, match=message):
        quasi_importance(_density(function), modes, **{"seed": 0, **PRIOR, **options})


@pytest.mark.parametrize(
    ("modes", "message"),
    [
        (Components(np.zeros((1, 4)), np.eye(3)[None], np.zeros(1)), "factors"),
        (Components(np.zeros((1, 4)), np.eye(4)[None], np.zeros(2)), "1 log_masses"),
        (Components(np.full((1, 4), np.nan), np.eye(4)[None], np.zeros(1)), "no mode"),
    ],
)
def test_bad_modes_are_refused(modes, message):
    with pytest.raises(DriftbayesError, match=message):
        quasi_importance(_density(_gaussian(4)[0]), modes, seed=0)


def test_an_infinite_density_is_refused():
    with pytest.raises(DriftbayesError, match="plus infinity"):
        quasi_importance(
            _density(lambda z: np.where(z[:, 0] > 1, np.inf, 0.0)), _gaussian(4)[1], seed=0
        )


def test_densities_and_points_of_the_mixture_are_those_of_scipy():
    rng = np.random.default_rng(2)
    factor = np.tril(rng.normal(size=(4, 4)))
    np.fill_diagonal(factor, [1.0, 0.5, 2.0, 0.1])
    center = rng.normal(size=4)
    z = rng.normal(size=(50, 4))
    for is_product in (False, True):
        mixture = StudentMixture(center[None], factor[None], np.ones(1), np.array([is_product]))
        whitened = np.linalg.solve(factor, (z - center).T).T
        if is_product:
            expected = np.sum(stats.t(5).logpdf(whitened), axis=1) - np.log(0.1)
        else:
            expected = stats.multivariate_t(center, factor @ factor.T, df=5).logpdf(z)
        assert_allclose(mixture.log_density(z), expected, rtol=1e-10)
        points = mixture.points(0, rng.random((20000, 4)))
        unit = np.linalg.solve(factor, (points - center).T)
        assert stats.kstest(unit[2], stats.t(5).cdf).pvalue > 1e-4
        if not is_product:
            radius = np.sum(unit**2, axis=0) / 4
            assert stats.kstest(radius, stats.f(4, 5).cdf).pvalue > 1e-4


def test_the_example_in_the_docstring():
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0
