"""The slow versions agree with each other and with 50-digit values; they check all the rest."""

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal

from driftbayes.testing import reference

GOLDEN = Path(__file__).parents[1] / "golden"
MEANS = {"brownian": {"kappa": 1.0}, "langevin": {"gamma": 1.5, "k": 0.8}}
ONES = {"brownian": {"kappa": 1.0}, "langevin": {"gamma": 1.0, "k": 1.0}}


def golden(name):
    return json.loads((GOLDEN / f"{name}.json").read_text())["cases"]


def draw(shape, tau, gamma=1.0, k=1.0, seed=0):
    rng = np.random.default_rng(seed)
    return reference.simulate_langevin(rng, *shape, tau, gamma, k)


def log_posterior(dx, tau, theta, means):
    """Langevin with exponential priors, by the Kalman filter: a second derivation."""
    gamma, k = theta
    log_prior = -np.sum(np.divide(theta, means) + np.log(means))
    return reference.kalman_log_likelihood(dx, tau, gamma, k) + log_prior


def gradient(f, theta, relative_step=1e-3):
    """Fourth-order central differences."""
    out = []
    for step in np.diag(relative_step * theta):
        f1, f2 = (f(theta + m * step) - f(theta - m * step) for m in (1, 2))
        out.append((8 * f1 - f2) / (12 * step.sum()))
    return np.array(out)


# --- The VAR(1) process of the appendix --------------------------------------------------------


@pytest.mark.parametrize("case", golden("special"), ids=lambda case: f"x={case['x']:g}")
def test_matrices_hold_varphi_and_friends_to_full_accuracy(case):
    transition, noise, stationary = reference.var1_matrices(1.0, case["x"], 0.5)
    assert_allclose(transition[0, 1], float(case["varphi"][0]), rtol=4e-15)
    assert_allclose(stationary[0, 0], float(case["varphi_complement"][0]), rtol=4e-15)
    assert_allclose(noise[0, 0], float(case["q"][0]), rtol=4e-15)


@pytest.mark.parametrize("x", [1e-8, 1e-4, 0.01, 0.99, 1.01, 30.0, 1e4])
def test_stationary_variance_is_reproduced_by_one_step(x):  # [eq:stationary-variance]
    a, c, v = reference.var1_matrices(0.7, x / 0.7, 1.3)
    assert_allclose(a @ v @ a.T + c, v, rtol=1e-14)


def test_covariance_follows_from_the_yule_walker_recurrence():  # [eq:langevin-cov]
    a, _, v = reference.var1_matrices(0.7, 1.1, 1.3)
    row = [(np.linalg.matrix_power(a, m) @ v)[0, 0] for m in range(6)]
    assert_allclose(reference.langevin_covariance(6, 0.7, 1.1, 1.3)[0], row, rtol=1e-14)


def test_block_covariance_of_the_joint_process_needs_transposes_above_the_diagonal():
    # The paper's joint covariance of (Y_0, Y_1, …) repeats G(m) on both sides of the diagonal.
    # G(m) is not symmetric; only with G(m)ᵀ above does the joint density factorise as it must.
    a, c, v = reference.var1_matrices(0.7, 1.1, 1.3)
    joint = np.block([[v, (a @ v).T], [a @ v, v]])
    conditional = v - (a @ v) @ np.linalg.solve(v, (a @ v).T)
    assert_allclose(conditional, c, rtol=1e-12)
    assert_allclose(joint, joint.T, rtol=0)
    assert abs((a @ v)[0, 1] - (a @ v)[1, 0]) > 0.1


# --- Likelihoods -------------------------------------------------------------------------------


def by_x(case):
    return f"x={case['gamma'] * case['tau']:.2g},drawn={case['dx_drawn_with_gamma']:.2g}"


@pytest.mark.parametrize("case", golden("langevin_likelihood"), ids=by_x)
def test_kalman_filter_is_accurate_for_all_gamma_tau(case):
    theta = case["tau"], case["gamma"], case["k"]
    found = reference.kalman_log_likelihood(case["dx"], *theta)
    assert_allclose(found, float(case["log_likelihood"]), rtol=1e-14)


@pytest.mark.parametrize("case", golden("langevin_likelihood"), ids=by_x)
def test_multivariate_normal_loses_only_the_digits_that_the_condition_number_takes(case):
    theta = case["tau"], case["gamma"], case["k"]
    condition = np.linalg.cond(reference.langevin_covariance(6, *theta))
    found = reference.langevin_log_likelihood(case["dx"], *theta)
    assert_allclose(found, float(case["log_likelihood"]), rtol=10 * 2.2e-16 * condition)


@pytest.mark.parametrize("case", golden("langevin_likelihood"), ids=by_x)
def test_irregular_filter_at_regular_times_is_the_regular_one(case):
    dx = np.array(case["dx"])
    theta = case["gamma"], case["k"]
    times = case["tau"] * np.arange(dx.shape[1] + 1)
    paths = np.concatenate([np.zeros_like(dx[:, :1]), np.cumsum(dx, axis=1)], axis=1)
    found = sum(reference.kalman_log_likelihood_irregular(x, times, *theta) for x in paths)
    # Adding steps up to positions and taking them apart again costs eps / x in an innovation.
    x = case["gamma"] * case["tau"]
    assert_allclose(found, float(case["log_likelihood"]), rtol=1e-12 + 1e-15 / x)


@pytest.mark.parametrize("gamma", [1e-3, 0.4, 20.0])
@pytest.mark.parametrize("sd", [0.0, 0.3, np.array([0.1, 0.0, 0.5, 0.2, 0.0, 1.0])])
def test_irregular_filter_is_the_dense_density_of_increments(gamma, sd):
    k = 1.3
    times = np.array([0.0, 0.2, 1.5, 1.6, 4.0, 4.7])
    y = np.cumsum(np.random.default_rng(1).standard_normal((6, 2)), axis=0)
    start, end = times[:-1], times[1:]
    # ∫∫ k γ exp(-γ |t - t'|) over two intervals, apart or the same.
    spans = -np.expm1(-gamma * (end - start))
    apart = np.maximum(start[:, None] - end, start - end[:, None])
    covariance = k / gamma * np.outer(spans, spans) * np.exp(-gamma * np.maximum(apart, 0))
    same = 2 * k * ((end - start) - spans / gamma)
    covariance[np.diag_indices(5)] = same
    differences = np.diff(np.eye(6), axis=0)
    variances = np.broadcast_to(np.square(sd), 6)
    covariance += differences @ np.diag(variances) @ differences.T
    dense = multivariate_normal.logpdf(np.diff(y, axis=0).T, np.zeros(5), covariance).sum()
    found = reference.kalman_log_likelihood_irregular(y, times, gamma, k, sd)
    assert_allclose(found, dense, rtol=1e-9)


def test_observation_with_a_huge_error_is_no_observation():
    times = np.array([0.0, 0.5, 0.9, 2.0])
    y = np.random.default_rng(2).standard_normal((4, 1))
    sd = np.array([0.1, 0.2, 1e7, 0.1])
    seen = np.array([True, True, False, True])
    with_it = reference.kalman_log_likelihood_irregular(y, times, 0.8, 1.1, sd)
    without = reference.kalman_log_likelihood_irregular(y[seen], times[seen], 0.8, 1.1, sd[seen])
    assert_allclose(with_it, without - 0.5 * np.log(2 * np.pi * 1e14), rtol=1e-10)


def test_diffusive_limit_is_brownian():  # [eq:diffusive-limit]
    dx = draw((4, 5, 2), 0.7)
    brownian = reference.brownian_log_likelihood(dx, 0.7, 1.3)
    assert_allclose(reference.kalman_log_likelihood(dx, 0.7, 1e10, 1.3), brownian, rtol=1e-8)
    assert_allclose(reference.langevin_log_likelihood(dx, 0.7, 1e10, 1.3), brownian, rtol=1e-8)


def test_brownian_density_is_that_of_independent_normals():
    dx = draw((4, 5, 2), 0.7)
    expected = -0.5 * dx.size * np.log(4 * np.pi * 1.3 * 0.7) - np.sum(dx**2) / (4 * 1.3 * 0.7)
    assert_allclose(reference.brownian_log_likelihood(dx, 0.7, 1.3), expected, rtol=1e-13)


# --- Evidence ----------------------------------------------------------------------------------


def by_model(case):
    return f"{case['model']},{np.shape(case['dx'])},tau={case['tau']:g}"


def is_slow(case):
    """Of the longer integrals, those between the shortest and the longest of steps."""
    return case["model"] == "langevin" and case["tau"] in (1.0, 10.0)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=by_model(case), marks=pytest.mark.slow if is_slow(case) else ())
        for case in golden("evidence")
    ],
)
def test_quadrature_reproduces_the_golden_evidence(case):
    found = reference.exact_evidence_quadrature(
        case["dx"], case["tau"], case["model"], case["prior_means"]
    )
    assert abs(found - float(case["log_evidence"])) < 1e-10


@pytest.mark.parametrize("case", golden("evidence"), ids=by_model)
def test_golden_posterior_is_that_of_brute_force_on_a_grid(case):
    dx, tau, means = np.array(case["dx"]), case["tau"], case["prior_means"]
    if case["model"] == "brownian":
        kappa = np.exp(np.linspace(-10, 5, 20001))
        log_likelihood = -0.5 * dx.size * np.log(4 * np.pi * tau * kappa) - np.sum(dx**2) / (
            4 * tau * kappa
        )
        grids = {"kappa": kappa}
        log_weight = log_likelihood - kappa / means["kappa"] + np.log(kappa)
    else:
        gamma, k = np.exp(np.linspace(-7, 4, 400)), np.exp(np.linspace(-3, 3, 400))[:, None]
        at_unit_k = [
            [reference.kalman_log_likelihood(scale * dx, tau, g, 1.0) for g in gamma]
            for scale in (0, 1)
        ]
        constant, quadratic = at_unit_k[0], np.subtract(at_unit_k[1], at_unit_k[0])
        log_likelihood = constant - 0.5 * dx.size * np.log(k) + quadratic / k
        grids = {"gamma": gamma + 0 * k, "k": k + 0 * gamma}
        log_weight = log_likelihood - gamma - k + np.log(gamma * k)
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    for name, grid in grids.items():
        mean = np.sum(weight * grid)
        sd = np.sqrt(np.sum(weight * (grid - mean) ** 2))
        assert_allclose(mean, float(case["posterior_mean"][name]), rtol=1e-6)
        assert_allclose(sd, float(case["posterior_sd"][name]), rtol=1e-6)
    expected = np.sum(weight * log_likelihood)
    assert_allclose(expected, float(case["expected_log_likelihood"]), rtol=1e-6)
    gain = expected - float(case["log_evidence"])
    assert_allclose(gain, float(case["information_gain"]), rtol=1e-5)


def test_brownian_laplace_is_the_one_worked_out_by_hand():
    tau, mean = 0.7, 2.5
    dx = draw((10, 5, 2), tau)
    n, a = dx.size, np.sum(dx**2) / (4 * tau)
    kappa = 2 * a / (n / 2 + np.sqrt(n**2 / 4 + 4 * a / mean))  # κ²/μ + n κ/2 - a = 0
    precision = 2 * a / kappa**3 - n / (2 * kappa**2)
    found = reference.laplace_evidence(dx, tau, "brownian", {"kappa": mean})
    assert_allclose(found.theta_map["kappa"], kappa, rtol=1e-7)
    assert_allclose(found.posterior_sd["kappa"], precision**-0.5, rtol=1e-6)
    log_occam = -kappa / mean - np.log(mean) - 0.5 * np.log(precision / (2 * np.pi))
    assert_allclose(found.log_occam, log_occam, rtol=1e-6)
    assert found.log_evidence == found.log_likelihood_map + found.log_occam  # [eq:occam]


@cache
def tight(model, tau):
    """Laplace's approximation for the same data and priors in several tests."""
    return reference.laplace_evidence(draw((20, 5, 2), tau), tau, model, MEANS[model])


taus = pytest.mark.parametrize(
    "tau", [1.0, *(pytest.param(tau, marks=pytest.mark.slow) for tau in (0.1, 10.0))]
)


@taus
def test_langevin_mode_is_good_to_a_millionth(tau):
    dx, means = draw((20, 5, 2), tau), np.array([1.5, 0.8])
    found = tight("langevin", tau)
    theta = np.array([found.theta_map["gamma"], found.theta_map["k"]])
    slope = gradient(lambda theta: log_posterior(dx, tau, theta, means), theta)
    newton_step = found.posterior_cov @ slope
    assert found.converged
    assert_allclose(newton_step / theta, 0, atol=1e-6)


@taus
def test_langevin_precision_is_the_jacobian_of_the_gradient(tau):
    dx, means = draw((20, 5, 2), tau), np.array([1.5, 0.8])
    found = tight("langevin", tau)
    theta = np.array([found.theta_map["gamma"], found.theta_map["k"]])

    def slope(theta):
        return gradient(lambda theta: log_posterior(dx, tau, theta, means), theta, 3e-3)

    precision = -np.array(
        [(slope(theta + s) - slope(theta - s)) / (2 * s.sum()) for s in np.diag(1e-4 * theta)]
    )
    assert_allclose(np.linalg.inv(found.posterior_cov), precision, rtol=1e-5)


@pytest.mark.parametrize("model", ["brownian", "langevin"])
def test_default_tolerances_are_cheaper_and_near(model):
    dx, best = draw((20, 5, 2), 1.0), tight(model, 1.0)
    plain = reference.laplace_evidence(dx, 1.0, model, MEANS[model], tolerance="scipy")
    assert plain.n_evaluations < best.n_evaluations
    assert_allclose(plain.log_evidence, best.log_evidence, atol=1e-3)


@pytest.mark.slow
def test_laplace_approaches_the_exact_evidence_where_the_posterior_is_narrow():
    dx = draw((40, 8, 2), 1.0)
    exact = reference.exact_evidence_quadrature(dx, 1.0, "langevin", ONES["langevin"])
    laplace = reference.laplace_evidence(dx, 1.0, "langevin", ONES["langevin"])
    assert abs(laplace.log_evidence - exact) < 0.02


@pytest.mark.parametrize("model", ["brownian", pytest.param("langevin", marks=pytest.mark.slow)])
def test_unit_of_length_moves_the_evidence_by_the_jacobian(model):
    dx, c = draw((6, 4, 2), 1.0), 3.7
    scaled = {name: mean * (1 if name == "gamma" else c**2) for name, mean in ONES[model].items()}
    before = reference.exact_evidence_quadrature(dx, 1.0, model, ONES[model])
    after = reference.exact_evidence_quadrature(c * dx, 1.0, model, scaled)
    assert abs(after - (before - dx.size * np.log(c))) < 1e-8


# --- Simulation --------------------------------------------------------------------------------


def standardised_second_moments(dx, covariance):
    """Sample covariance over particles and axes minus the exact one, in its standard errors."""
    series = np.moveaxis(dx, 1, -1).reshape(-1, dx.shape[1])
    sample = series.T @ series / len(series)
    variances = np.diag(covariance)
    standard_error = np.sqrt((np.outer(variances, variances) + covariance**2) / len(series))
    return (sample - covariance) / standard_error


@pytest.mark.parametrize("x", [1e-3, 0.5, 20.0])
def test_langevin_draws_have_the_exact_covariance(x):
    tau, k = 0.7, 1.3
    dx = draw((20000, 4, 2), tau, x / tau, k, seed=3)
    covariance = reference.langevin_covariance(4, tau, x / tau, k)
    assert np.abs(standardised_second_moments(dx, covariance)).max() < 4.5


def test_brownian_draws_have_the_exact_covariance():
    rng = np.random.default_rng(4)
    dx = reference.simulate_brownian(rng, 20000, 3, 2, 0.7, 1.3)
    assert np.abs(standardised_second_moments(dx, 2 * 1.3 * 0.7 * np.eye(3))).max() < 4.5


# --- Messages ----------------------------------------------------------------------------------


def test_wrong_inputs_are_named():
    dx = draw((2, 3, 1), 1.0)
    with pytest.raises(ValueError, match=r"dx has 2 axes, expected \(particle, step, dim\)"):
        reference.brownian_log_likelihood(dx[0], 1.0, 1.0)
    with pytest.raises(ValueError, match=r"tau must be positive, got 0"):
        reference.kalman_log_likelihood(dx, 0, 1.0, 1.0)
    with pytest.raises(ValueError, match=r"must name \['gamma', 'k'\], got \['kappa'\]"):
        reference.laplace_evidence(dx, 1.0, "langevin", ONES["brownian"])
    with pytest.raises(ValueError, match=r"model must be one of \['brownian', 'langevin'\]"):
        reference.exact_evidence_quadrature(dx, 1.0, "levy", ONES["brownian"])
    with pytest.raises(ValueError, match=r"times must increase, but the smallest step is -1.0"):
        reference.kalman_log_likelihood_irregular(np.zeros((2, 1)), [1.0, 0.0], 1.0, 1.0)
    with pytest.raises(ValueError, match=r"x must have axes \(time, dim\) and times \(time,\)"):
        reference.kalman_log_likelihood_irregular(np.zeros((3, 1)), [0.0, 1.0], 1.0, 1.0)
