"""Fields on splines: likelihood, prior, evidence, and known fields recovered with their errors."""

import numpy as np
import pytest
from known_fields import KAPPA, constant, no_gradient, steps
from numpy.testing import assert_allclose
from scipy.stats import multivariate_t, norm

import driftbayes as db
from driftbayes.errors import DriftbayesError
from driftbayes.fields import FieldPriors, Splines, fit_field
from driftbayes.fields._local import LocalSteps, StepSums, log_likelihood
from driftbayes.fields._problem import laplace
from driftbayes.models import model_named
from driftbayes.relative._density import log_separation_density

PRIORS = FieldPriors(kappa=2 * KAPPA, flow=0.3)


@pytest.mark.parametrize("n_dim", [1, 2])
def test_splines_sum_to_one_and_slope_as_differences_say(n_dim):
    splines = Splines(np.zeros(n_dim), np.array([2.0, 1.0])[:n_dim], (6, 3)[:n_dim])
    x = np.random.default_rng(0).uniform(0.01, 0.99, (40, n_dim))
    assert_allclose(splines.design(x).sum(axis=1), 1)
    for axis in range(n_dim):
        shift = 1e-6 * np.eye(n_dim)[axis]
        numeric = (splines.design(x + shift) - splines.design(x - shift)) / 2e-6
        assert_allclose(splines.design(x, axis), numeric, atol=1e-7)


@pytest.mark.parametrize("n_dim", [1, 2])
def test_compiled_splines_and_their_adjoint_are_the_dense_ones(n_dim):
    splines = Splines(np.zeros(n_dim), np.array([2.0, 1.0])[:n_dim], (6, 3)[:n_dim])
    rng = np.random.default_rng(1)
    x, coefficients = rng.uniform(-0.2, 2.2, (60, n_dim)), rng.normal(size=(3, splines.size))
    found = splines.values(x, coefficients)
    designs = [splines.design(x, axis) for axis in (None, *range(n_dim))]
    for k, design in enumerate(designs):
        assert_allclose(found[:, :, k], design @ coefficients.T, atol=1e-12)
    slopes = rng.normal(size=found.shape)
    known = sum(slopes[:, :, k].T @ design for k, design in enumerate(designs))
    assert_allclose(splines.adjoint(x, slopes), known, atol=1e-12)


@pytest.mark.parametrize("n_dim", [1, 2])
@pytest.mark.parametrize("name", ["homogeneous", "kappa", "flow", "both"])
def test_the_gradient_and_the_hessian_are_those_of_differences(n_dim, name):
    rng = np.random.default_rng(2)
    splines = Splines(np.zeros(n_dim), np.array([1.0, 0.6])[:n_dim], (5, 3)[:n_dim])
    x, dx = rng.uniform(size=(80, n_dim)), 0.1 * rng.normal(size=(80, n_dim))
    problem = LocalSteps(StepSums.of(x, dx, 0.5, splines, None), splines, PRIORS)
    theta = 0.3 * rng.normal(size=problem.parts(name)[-1].stop)
    theta[0] = -4.0
    _, gradient, curvature = problem.likelihood(name, theta)
    assert_allclose(curvature, curvature.T, atol=1e-9)
    for i in {0, len(theta) // 2, len(theta) - 1}:
        shift = 1e-5 * np.eye(len(theta))[i]
        up, down = problem.likelihood(name, theta + shift), problem.likelihood(name, theta - shift)
        assert_allclose(gradient[i], (up[0] - down[0]) / 2e-5, rtol=1e-6, atol=1e-6)
        assert_allclose(-curvature[i], (up[1] - down[1]) / 2e-5, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("n_dim", [1, 2])
def test_the_prior_has_unit_variance_and_its_length(n_dim):
    splines = Splines(np.zeros(n_dim), np.ones(n_dim), (24,) * n_dim)
    length = 0.3
    covariance = np.linalg.inv(splines.precision(length))
    middle = np.full((1, n_dim), 0.5)
    away = middle + length * np.eye(n_dim)[:1]
    one, other = splines.design(middle)[0], splines.design(away)[0]
    assert_allclose(one @ covariance @ one, 1, rtol=0.25)
    x = np.random.default_rng(1).uniform(size=(400, n_dim))
    design = splines.design(x)
    assert_allclose(np.mean(np.sum(design @ covariance * design, axis=1)), 1, rtol=0.1)
    correlation = one @ covariance @ other / (one @ covariance @ one)
    # Matérn with ν = 3/2 and 1: 0.14 and 0.14 at the length.
    assert 0.05 < correlation < 0.25


def test_the_likelihood_is_that_of_normal_steps_with_drift_u_plus_the_gradient():
    rng = np.random.default_rng(2)
    x, dx, tau = rng.uniform(size=(30, 2)), rng.normal(size=(30, 2)), 0.7
    s, g, u = rng.normal(size=30), rng.normal(size=(30, 2)), rng.normal(size=(30, 2))
    sums = StepSums.of(x, dx, tau, Splines(np.zeros(2), np.ones(2), (4, 4)), None)
    total, first, second = log_likelihood(sums, s, g, u)
    kappa = np.exp(s)
    drift = u + kappa[:, None] * g
    known = norm.logpdf(dx, drift * tau, np.sqrt(2 * kappa * tau)[:, None]).sum()
    assert_allclose(total, known, rtol=1e-12)
    values = np.column_stack([s, g, u])
    for k in range(5):
        up, down = values.copy(), values.copy()
        up[:, k] += 1e-5
        down[:, k] -= 1e-5
        ends = [log_likelihood(sums, v[:, 0], v[:, 1:3], v[:, 3:]) for v in (up, down)]
        assert_allclose(first[:, k].sum(), (ends[0][0] - ends[1][0]) / 2e-5, rtol=1e-6)
        assert_allclose(second[:, k], (ends[0][1] - ends[1][1]) / 2e-5, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("n_dim", [1, 2])
def test_as_the_amplitude_vanishes_the_field_is_the_homogeneous_model(n_dim):
    data = steps(np.random.default_rng(3), 300, n_dim)
    fit = fit_field(data, PRIORS, n_intervals=4, hypotheses=[])
    problem, homogeneous = fit._problem, fit.members[0]
    shape = fit.splines.precision(0.5)
    for name in ("kappa", "flow", "both"):
        parts = problem.parts(name)
        start = np.zeros(parts[-1].stop)
        start[[part.start for part in parts]] = homogeneous.mode
        limit = laplace(problem, name, start, problem.precision(name, (1e-6, 1e-6), shape))[0]
        assert_allclose(limit, homogeneous.log_evidence, atol=1e-8)


@pytest.mark.parametrize("n_dim", [1, 2])
def test_the_homogeneous_model_has_its_exact_evidence_up_tolaplace(n_dim):
    """The error of Laplace's approximation is d(d + 2)/4N or so: a quarter at four times N."""
    errors = []
    for n in (300, 1200):
        data = steps(np.random.default_rng(3), n, n_dim)
        fit = fit_field(data, PRIORS, n_intervals=4, hypotheses=[])
        family = model_named("brownian+mean", db.MODELS)
        priors = {"kappa": db.Exponential(PRIORS.kappa), "flow": db.Fixed(PRIORS.flow)}
        exact = db.evidence(db.Hypothesis(family, **priors), data)
        errors.append(fit.log_evidences["homogeneous"] - exact.log_evidence)
    assert abs(errors[0]) < 0.01
    assert_allclose(errors[0] / errors[1], 4, rtol=0.3)


def test_laplace_is_near_the_integral_by_importance_sampling():
    data = steps(np.random.default_rng(4), 150)
    fit = fit_field(data, PRIORS, n_intervals=2, hypotheses=["kappa"])
    problem, shape = fit._problem, fit.splines.precision(0.5)
    prior = problem.precision("kappa", (0.8, 0.0), shape)
    start = np.zeros(problem.parts("kappa")[-1].stop)
    start[0] = np.log(KAPPA)
    found, mode, root = laplace(problem, "kappa", start, prior)
    law = multivariate_t(mode, np.linalg.inv(root @ root.T), df=8)
    theta = law.rvs(2000, random_state=np.random.default_rng(0))
    values = np.array([problem.log_joint("kappa", t, prior[0])[0] for t in theta]) + prior[1]
    weights = np.exp(values - law.logpdf(theta) - found)
    error = weights.std() / np.sqrt(len(weights))
    assert error < 0.02
    assert abs(np.log(weights.mean())) < 0.1 + 3 * error


@pytest.mark.parametrize("n_dim", [1, 2])
def test_steps_summed_in_boxes_say_the_same(n_dim):
    data = steps(np.random.default_rng(5), 5000, n_dim)
    both = [
        fit_field(data, PRIORS, n_intervals=6, hypotheses=["kappa"], in_boxes=summed)
        for summed in (None, False)
    ]
    assert len(both[0]._problem.data.n) < 5000
    found = [fit.log_bayes_factors["kappa"] for fit in both]
    assert found[1] > 100
    assert_allclose(found[0], found[1], rtol=0.01)
    x = np.random.default_rng(0).uniform(0.1, 0.9, (50, n_dim))
    one, other = (fit.at(x) for fit in both)
    off = (one["log_kappa"] - other["log_kappa"]) / other["log_kappa_sd"]
    assert np.abs(off).max() < 0.3


def test_known_fields_are_found_and_homogeneous_data_give_none():
    rng = np.random.default_rng(6)
    waves = fit_field(steps(rng, 900), PRIORS)
    assert waves.log_bayes_factors["kappa"] > 20
    assert waves.log_bayes_factors["flow"] < 2
    plain = fit_field(steps(rng, 900, fields=(constant, no_gradient)), PRIORS)
    assert plain.log_bayes_factor_inhomogeneous < 1
    assert plain.probabilities["homogeneous"] > 0.3
    shear = steps(
        rng,
        900,
        fields=(constant, no_gradient),
        flow=lambda x: 1.5 * np.sin(2 * np.pi * x),
    )
    moved = fit_field(shear, PRIORS)
    assert moved.log_bayes_factors["flow"] > 5
    x = np.linspace(0.1, 0.9, 50)[:, None]
    found = moved.at(x)
    off = (found["flow"] - 1.5 * np.sin(2 * np.pi * x)) / found["flow_sd"]
    assert np.abs(off).mean() < 2


def test_the_error_estimate_warns_of_long_steps():
    rng = np.random.default_rng(7)
    short, long = (
        fit_field(steps(rng, 900, tau=tau), PRIORS, density="local") for tau in (0.01, 2.0)
    )
    assert not any("no longer accurate" in text for text in short.warnings)
    assert any("no longer accurate" in text for text in long.warnings)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_intervals": 1}, "2 or more intervals"),
        ({"n_intervals": 2000}, "more than 1,200"),
    ],
)
def test_bad_options_get_one_sentence(change, message):
    with pytest.raises(DriftbayesError, match=message):
        fit_field(steps(np.random.default_rng(0), 50), PRIORS, **change)


def test_bad_data_get_one_sentence():
    rng = np.random.default_rng(0)
    cases = [
        (rng.normal(size=(30, 1, 3)), np.zeros((30, 3)), "one or two dimensions"),
        (rng.normal(size=(5, 1, 1)), np.arange(5.0)[:, None], "20 or more steps"),
        (rng.normal(size=(30, 1, 1)), np.zeros((30, 1)), "all steps begin at the same coordinate"),
    ]
    for dx, start, message in cases:
        with pytest.raises(DriftbayesError, match=message):
            fit_field(db.Displacements.from_array(dx, 1.0, start=start), PRIORS)


def test_results_describe_themselves_and_have_a_dataset():
    for n_dim in (1, 2):
        fit = fit_field(steps(np.random.default_rng(8), 200, n_dim), PRIORS, n_intervals=3)
        text = str(fit)
        assert "evidence that dispersion varies" in text
        assert "homogeneous" in text
        assert_allclose(sum(fit.probabilities.values()), 1)
        assert_allclose(fit.weights.sum(), 1)
        dataset = fit.to_dataset()
        assert dataset.attrs["Conventions"].startswith("CF")
        assert_allclose(dataset["n_steps"].sum(), 200)
        middle = {name: 20 for name in dataset["kappa"].dims}
        x = np.array([[float(dataset[name][20]) for name in "xy"[:n_dim]]])
        assert_allclose(dataset["kappa"].isel(middle), fit.at(x)["kappa"][0])


@pytest.mark.parametrize("xi", [1.0, 4 / 3])
def test_the_local_gaussian_errs_by_the_square_of_the_roughness(xi):
    """Against the exact density of κ = x^ξ: 3ε²/8 nats per step, ε = |∇κ|√(τ/κ)."""
    for roughness, accuracy in ((0.03, 2e-3), (0.1, 1e-2), (0.3, 5e-2)):
        tau = (roughness / xi) ** 2
        x = np.linspace(1e-3, 1 + 14 * np.sqrt(2 * tau) + 4 * tau, 100_001)
        exact = log_separation_density(np.ones(len(x)), x, np.full(len(x), tau), xi, 1.0, 1)
        local = norm.logpdf(x, 1 + xi * tau, np.sqrt(2 * tau))
        loss = np.trapezoid(np.exp(exact) * (exact - local), x)
        assert_allclose(loss, 0.375 * roughness**2, rtol=accuracy)
