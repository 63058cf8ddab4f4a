"""Exact evidence: golden values, other quadratures, identities and changes of units."""

import dataclasses

import numpy as np
import pytest
from court import (
    BROWNIAN,
    HYPOTHESES,
    LANGEVIN,
    SHAPE,
    exponential,
    langevin_data,
    langevin_fit,
    log_density,
    log_integral_1d,
    log_integral_2d,
    steps,
    with_errors,
)
from numpy.testing import assert_allclose
from scipy.stats import geninvgauss
from targets import TwoSpeeds

from driftbayes.data._sampling import Displacements
from driftbayes.errors import DriftbayesError, Status
from driftbayes.inference import (
    QUANTILES,
    Batch,
    Hypothesis,
    evidence,
    evidence_batch,
    exact,
    exact_batch,
)
from driftbayes.inference._exact import _marginal_quantiles, _solve
from driftbayes.models import MODELS, Brownian, Langevin, Noise
from driftbayes.priors import Exponential, Gamma, LogNormal, Uniform
from driftbayes.testing import reference

# Tolerance of Monte Carlo tests, in standard errors.
FIVE_SIGMA = 5.0
both = pytest.mark.parametrize("name", HYPOTHESES)


# --- Against 25 digits and other quadratures ---------------------------------------------------


@pytest.mark.parametrize("model", MODELS)
def test_golden_evidence_and_moments(model, golden):
    # Reached: 1e-12 in ln Z, in the moments relative to themselves, and in the information gain.
    for case in golden("evidence")["cases"]:
        if case["model"] != model:
            continue
        data = Displacements.from_array(case["dx"], case["tau"])
        found = evidence(exponential(model, **case["prior_means"]), data)
        assert found.status is Status.OK
        assert_allclose(found.log_evidence, float(case["log_evidence"]), rtol=1e-14, atol=1e-10)
        for name in found.map:
            mean, sd = (float(case[f"posterior_{m}"][name]) for m in ("mean", "sd"))
            assert_allclose(found.posterior_mean[name], mean, rtol=1e-9)
            assert_allclose(found.posterior_sd[name], sd, rtol=1e-9)
        assert_allclose(found.information_gain, float(case["information_gain"]), atol=1e-9)
        if "posterior_covariance" in case:
            expected = float(case["posterior_covariance"])
            assert_allclose(found.posterior_cov[0, 1], expected, rtol=1e-9)
            assert_allclose(found.posterior_cov, found.posterior_cov.T, rtol=1e-12)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("tau", [0.1, 10.0])
def test_slow_quadrature_gives_the_same_evidence(tau):
    means = {"gamma": 2.0, "k": 0.5}
    expected = reference.exact_evidence_quadrature(steps(tau), tau, "langevin", means)
    found = evidence(exponential("langevin", **means), langevin_data(tau))
    assert_allclose(found.log_evidence, expected, atol=1e-8)


@pytest.mark.parametrize("tau", [0.1, 10.0])
def test_slow_quadrature_gives_the_same_brownian_evidence(tau):
    expected = reference.exact_evidence_quadrature(steps(tau), tau, "brownian", {"kappa": 0.2})
    found = evidence(exponential("brownian", kappa=0.2), langevin_data(tau))
    assert_allclose(found.log_evidence, expected, atol=1e-9)


@both
@pytest.mark.slow
def test_integral_over_all_parameters_is_that_with_the_scale_in_closed_form(name):
    # An error of position too small to matter keeps the scale from being integrated out.
    data = langevin_data(1.0)
    closed = evidence(HYPOTHESES[name], data)
    whole = evidence(HYPOTHESES[name], with_errors(data, 1e-9))
    assert_allclose(whole.log_evidence, closed.log_evidence, atol=1e-8)
    for summary in ("map", "posterior_mean", "posterior_sd", "log_sd"):
        one, other = getattr(whole, summary), getattr(closed, summary)
        assert_allclose(list(one.values()), list(other.values()), rtol=1e-5)
    assert_allclose(whole.expected_log_likelihood, closed.expected_log_likelihood, atol=1e-6)
    for parameter in closed.map:
        one, other = (e.posterior_quantiles[parameter] for e in (whole, closed))
        assert_allclose(one, other, rtol=1e-2)  # from a cloud of points


@pytest.mark.sampled(2)
@both
def test_state_space_engine_gives_the_same_evidence(name):
    data = langevin_data(1.0)
    moments, kalman = (
        exact(HYPOTHESES[name], Batch.of(data, engine)) for engine in ("moments", "kalman")
    )
    assert_allclose(kalman.log_evidence, moments.log_evidence, atol=1e-9)
    for parameter in moments.map:
        assert_allclose(kalman.map[parameter], moments.map[parameter], rtol=1e-7)
        assert_allclose(kalman.posterior_sd[parameter], moments.posterior_sd[parameter], rtol=1e-7)


BROWNIAN_PRIORS = [
    Gamma(shape=2.5, mean=2.0),
    LogNormal(median=0.3, sigma=0.7),
    Uniform(low=0.1, high=5.0),
    Uniform(low=2.0, high=3.0),  # all of it far above the likelihood's peak
]


@pytest.mark.parametrize("prior", BROWNIAN_PRIORS, ids=lambda prior: prior.describe())
def test_brownian_evidence_under_any_prior(prior):
    dx = steps(1.0)

    def log_f(u):
        kappa = np.exp(u)
        fit = -0.5 * dx.size * np.log(4 * np.pi * kappa) - np.sum(dx**2) / (4 * kappa)
        return fit + log_density(prior, kappa) + u

    low, high = (-6.0, 4.0)
    if isinstance(prior, Uniform):
        low, high = np.log(float(prior.low)), np.log(float(prior.high))
    found = evidence(Hypothesis(Brownian, kappa=prior), langevin_data(1.0))
    assert found.status is Status.OK
    # The slow integral is cut off at the ends of an interval, by half a cell each.
    tolerance = 2e-2 if isinstance(prior, Uniform) and float(prior.low) > 1 else 1e-8
    assert_allclose(found.log_evidence, log_integral_1d(log_f, low, high), atol=tolerance)


def test_langevin_evidence_and_moments_under_priors_without_a_closed_integral():
    prior = LogNormal(median=1.0, sigma=0.5)

    def normal(u):
        return -0.5 * (u / 0.5) ** 2 - 0.5 * np.log(2 * np.pi * 0.5**2)

    def rows(u, v):
        return langevin_fit(steps(1.0), 1.0, np.exp(u))(v) + normal(u) + normal(v)

    found = evidence(Hypothesis(Langevin, gamma=prior, k=prior), langevin_data(1.0))
    expected = log_integral_2d(rows, ((-3.5, 3.5), (-3.0, 3.5)), n=121)
    assert found.status is Status.OK
    assert_allclose(found.log_evidence, expected, atol=1e-7)


def test_gamma_prior_of_shape_one_is_the_exponential():
    data = langevin_data(1.0)
    one = Hypothesis(Langevin, gamma=Gamma(shape=1.0, mean=2.0), k=Gamma(shape=1.0, mean=0.5))
    other = exponential("langevin", gamma=2.0, k=0.5)
    assert_allclose(evidence(one, data).log_evidence, evidence(other, data).log_evidence, atol=1e-9)


def test_error_of_positions_is_integrated_with_the_parameters():
    data = with_errors(langevin_data(1.0), 0.1)
    paths = np.concatenate([np.zeros((20, 1)), np.cumsum(data.dx.reshape(20, 5), axis=1)], axis=1)

    steps_of_all = data.dx.reshape(20, 5)
    lag = np.abs(np.subtract.outer(np.arange(5), np.arange(5)))

    def fits(gamma, k):
        """Dense Gaussians of five steps with the autocovariance of the model, for many k."""
        fall = -np.expm1(-gamma)
        later = fall**2 / gamma * np.exp(-gamma * (lag - 1.0))
        unit = np.where(lag == 0, 2 - 2 * fall / gamma, later)
        errors = 0.1**2 * (2.0 * (lag == 0) - (lag == 1))
        cov = k[:, None, None] * unit + errors
        quadratic = np.sum(np.linalg.inv(cov) * (steps_of_all.T @ steps_of_all), axis=(1, 2))
        return -0.5 * (20 * np.linalg.slogdet(2 * np.pi * cov)[1] + quadratic)

    # Particles and axes are alike: all of them as axes of one.
    slow = [
        reference.kalman_log_likelihood_irregular(paths.T, np.arange(6.0), 0.7, k, 0.1)
        for k in (0.4, 2.0)
    ]
    assert_allclose(fits(0.7, np.array([0.4, 2.0])), slow, rtol=1e-10)

    def rows(u, v):
        return fits(np.exp(u), np.exp(v)) - np.exp(u) - np.exp(v) + u + v

    found = evidence(LANGEVIN, data)
    assert found.status is Status.OK
    expected = log_integral_2d(rows, ((-3.0, 3.0), (-3.0, 3.5)), n=37)
    assert_allclose(found.log_evidence, expected, atol=1e-6)


def test_single_displacement_has_an_evidence():
    dx = steps(1.0, (1, 1, 1))
    expected = reference.exact_evidence_quadrature(dx, 1.0, "langevin", {"gamma": 1.0, "k": 1.0})
    found = evidence(LANGEVIN, Displacements.from_array(dx, 1.0))
    assert found.status is Status.OK
    assert_allclose(found.log_evidence, expected, atol=1e-8)


# --- Identities --------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("scale", [1e-9, 1e-3, 1e9])
def test_change_of_units_shifts_the_evidence_by_its_jacobian_and_nothing_else(name, scale):
    hypothesis, data = HYPOTHESES[name], langevin_data(1.0)
    length, time = scale, 3.0 / scale
    powers = {
        parameter: length**p.length_power * time**p.time_power
        for parameter, p in hypothesis.model.parameters.items()
    }
    here = evidence(hypothesis, data)
    there = evidence(
        hypothesis.rescaled(powers), Displacements.from_array(length * data.as_array(), time)
    )
    shift = -data.n_displacements * np.log(length)
    assert there.status is Status.OK
    assert_allclose(there.log_evidence, here.log_evidence + shift, rtol=1e-12)
    assert_allclose(there.information_gain, here.information_gain, atol=1e-8)
    for parameter, power in powers.items():
        for summary in ("map", "posterior_mean", "posterior_sd", "posterior_quantiles"):
            one, other = (getattr(e, summary)[parameter] for e in (there, here))
            assert_allclose(one, np.asarray(other) * power, rtol=1e-6)
        assert_allclose(there.contraction[parameter], here.contraction[parameter], atol=1e-8)


@both
def test_order_of_trajectories_and_of_axes_is_irrelevant(name):
    dx = steps(1.0)
    shuffled = np.random.default_rng(1).permutation(dx)
    as_axes = dx.reshape(10, 2, 5).transpose(0, 2, 1)
    values = [
        evidence(HYPOTHESES[name], Displacements.from_array(array, 1.0)).log_evidence
        for array in (dx, shuffled, as_axes)
    ]
    assert_allclose(values, values[0], rtol=1e-13)


def test_evidence_of_two_data_sets_is_that_of_one_times_its_prediction_of_the_other():
    dx = steps(1.0)
    first, second, whole = (
        evidence(BROWNIAN, Displacements.from_array(part, 1.0)).log_evidence
        for part in (dx[:10], dx[10:], dx)
    )

    def fit(part, kappa):
        return -0.5 * part.size * np.log(4 * np.pi * kappa) - np.sum(part**2) / (4 * kappa)

    def log_f(u):  # likelihood of the second times posterior given the first
        kappa = np.exp(u)
        posterior = fit(dx[:10], kappa) - kappa - first
        return fit(dx[10:], kappa) + posterior + u

    prediction = log_integral_1d(log_f, -6, 4)
    assert_allclose(whole, first + prediction, atol=1e-9)
    assert prediction > second  # the first taught something about the second


@both
def test_evidence_is_mean_log_likelihood_less_information_gain(name):
    found = evidence(HYPOTHESES[name], langevin_data(1.0))
    split = found.expected_log_likelihood - found.information_gain
    assert_allclose(found.log_evidence, split, rtol=1e-14)
    assert_allclose(found.log_likelihood_at_map + found.log_occam_factor, found.log_evidence)
    assert found.information_gain > 0


def test_information_gain_is_the_divergence_of_posterior_from_prior():
    dx, found = steps(1.0), evidence(BROWNIAN, langevin_data(1.0))
    u = np.linspace(-5, 3, 40_001)
    kappa = np.exp(u)
    fit = -0.5 * dx.size * np.log(4 * np.pi * kappa) - np.sum(dx**2) / (4 * kappa)
    posterior = np.exp(fit - kappa - found.log_evidence)
    divergence = np.sum(posterior * (fit - found.log_evidence) * kappa) * (u[1] - u[0])
    assert_allclose(found.information_gain, divergence, atol=1e-8)


@both
def test_map_is_a_stationary_point_of_the_joint_density(name):
    hypothesis, data = HYPOTHESES[name], langevin_data(1.0)
    found = exact(hypothesis, Batch.of(data))
    theta, sd = (np.array(list(values.values())) for values in (found.map, found.posterior_sd))

    def log_joint(point):
        model = hypothesis.at(point)
        return model.log_likelihood(data) + hypothesis.log_prior(point)

    # Slopes in units of the posterior's width, by central differences.
    for step in np.diag(1e-3 * sd):
        slope = (log_joint(theta + step) - log_joint(theta - step)) / 2e-3
        assert_allclose(slope, 0.0, atol=1e-5)
    fit = hypothesis.at(theta).log_likelihood(data)
    assert_allclose(found.log_likelihood_at_map, fit, rtol=1e-12)


# --- The posterior -----------------------------------------------------------------------------


def test_brownian_posterior_is_a_generalised_inverse_gaussian():
    dx = steps(1.0, (3, 5, 1))
    found = evidence(exponential("brownian", kappa=0.7), Displacements.from_array(dx, 1.0))
    a, b = np.sum(dx**2) / 4, 1 / 0.7
    posterior = geninvgauss(1 - dx.size / 2, 2 * np.sqrt(a * b), scale=np.sqrt(a / b))
    assert_allclose(found.posterior_mean["kappa"], posterior.mean(), rtol=1e-8)
    assert_allclose(found.posterior_sd["kappa"], posterior.std(), rtol=1e-7)
    assert_allclose(found.posterior_quantiles["kappa"], posterior.ppf(QUANTILES), rtol=2e-4)
    assert_allclose(found.map["kappa"], mode_of(a, b, dx.size), rtol=1e-7)


def mode_of(a, b, n):
    """Of κ^(-n/2) exp(-a/κ - b κ)."""
    return (-n / 2 + np.sqrt(n**2 / 4 + 4 * a * b)) / (2 * b)


@pytest.mark.parametrize("tau", [0.1, 1.0, 10.0, 100.0])
def test_quantiles_rise_and_lie_where_the_moments_say(tau):
    found = evidence(LANGEVIN, langevin_data(tau))
    for name, quantiles in found.posterior_quantiles.items():
        assert (np.diff(quantiles) > 0).all()
        # Chebyshev: the median lies within one standard deviation of the mean.
        assert abs(quantiles[2] - found.posterior_mean[name]) < found.posterior_sd[name]


def test_many_nodes_of_a_small_mode_do_not_coarsen_quantiles():
    """A mode of mass exp(-25) has 20,001 nodes, the mode with all the rest a few dozen."""
    batch = Batch.of(langevin_data(1.0), model=LANGEVIN.model)
    found = _solve(LANGEVIN, batch, 0, None).quadrature
    (main,) = found.lattices
    index = np.arange(-10_000, 10_001)[:, None]
    w = 5e-4 * index
    z = main.center - 20.0 + 3 * np.sinh(w / 3)
    log_mass = found.log_evidence - 25.0
    values = log_mass - 0.5 * np.log(2 * np.pi) - 4.5 * np.sinh(w[:, 0] / 3) ** 2
    side = dataclasses.replace(
        main,
        center=main.center - 20.0,
        basis=np.eye(1),
        spacing=np.array([1e-3]),
        index=index,
        z=z,
        w=w,
        log_values=values + np.log(np.cosh(w[:, 0] / 3)),
        log_cell=float(np.log(5e-4)),
        extras=np.zeros((len(z), main.extras.shape[1])),
        log_integral=float(log_mass),
    )
    total = np.exp(side.log_values + side.log_cell - side.log_integral).sum()
    assert_allclose(total, 1.0, rtol=1e-6)
    weights = side.log_values + side.log_cell
    nodes = dataclasses.replace(
        found.nodes,
        log_weights=np.concatenate([found.nodes.log_weights, weights]),
        theta=np.concatenate([found.nodes.theta, side.extras[:, :2]]),
        fits=np.concatenate([found.nodes.fits, side.extras[:, 2:]]),
    )
    both_modes = dataclasses.replace(found, lattices=(main, side), nodes=nodes)
    assert len(main.z) < 200
    expected = _marginal_quantiles(LANGEVIN, found)
    # Quantiles of the weighted nodes alone are wrong by one or two per cent.
    assert_allclose(_marginal_quantiles(LANGEVIN, both_modes), expected, rtol=1e-6)


def test_langevin_quantiles_are_those_of_the_marginal_density():
    dx, tau = steps(1.0), 1.0
    found = evidence(LANGEVIN, langevin_data(tau))
    u = np.linspace(-2.2, 1.8, 161)
    v = np.linspace(-2.5, 2.5, 161)
    joint = np.array(
        [langevin_fit(dx, tau, np.exp(a))(v) - np.exp(a) - np.exp(v) + a + v for a in u]
    )
    weights = np.exp(joint - joint.max())
    for name, grid, axis in (("gamma", u, 1), ("k", v, 0)):
        rise = np.cumsum(weights.sum(axis=axis))
        middle = (rise - 0.5 * np.diff(rise, prepend=0)) / rise[-1]
        expected = np.exp(np.interp(QUANTILES, middle, grid))
        assert_allclose(found.posterior_quantiles[name], expected, rtol=2e-3)


# --- Batches -----------------------------------------------------------------------------------


@both
@pytest.mark.slow
def test_several_data_sets_at_once_give_the_evidences_of_each(name):
    many = [Batch.of(langevin_data(tau, seed=i)) for i, tau in enumerate((0.1, 1.0, 10.0))]
    together = exact_batch([HYPOTHESES[name]], Batch.stack(many))
    for batch, found in zip(many, together, strict=True):
        alone = exact(HYPOTHESES[name], batch)
        assert_allclose(found.log_evidence, alone.log_evidence, rtol=1e-12)
        for parameter in alone.map:
            assert_allclose(found.posterior_sd[parameter], alone.posterior_sd[parameter], rtol=1e-6)
            assert_allclose(found.map[parameter], alone.map[parameter], rtol=1e-7)
        assert (found.tau, found.data_fingerprint) == (alone.tau, alone.data_fingerprint)


@both
def test_several_priors_at_once_give_the_evidences_of_each(name):
    data = langevin_data(1.0)
    hypotheses = [
        HYPOTHESES[name].rescaled(dict.fromkeys(HYPOTHESES[name].names, factor))
        for factor in (0.25, 1.0, 4.0)
    ]
    together = evidence_batch(hypotheses, data)
    for hypothesis, found in zip(hypotheses, together, strict=True):
        alone = evidence(hypothesis, data)
        assert_allclose(found.log_evidence, alone.log_evidence, rtol=1e-12)
        assert found.priors == hypothesis.describe()


def test_data_sets_of_different_lengths_can_be_stacked():
    one, other = (Batch.of(langevin_data(1.0, shape)) for shape in (SHAPE, (7, 3, 2)))
    together = exact_batch([BROWNIAN], Batch.stack([one, other]))
    for batch, found in zip((one, other), together, strict=True):
        assert_allclose(found.log_evidence, exact(BROWNIAN, batch).log_evidence, rtol=1e-12)


def test_batch_refuses_what_cannot_be_stacked():
    kalman = Batch.of(langevin_data(1.0), "kalman")
    with pytest.raises(DriftbayesError, match="only data sets prepared for the statistics engine"):
        Batch.stack([kalman, kalman])
    stacked = Batch.stack([Batch.of(langevin_data(1.0))] * 2)
    with pytest.raises(DriftbayesError, match="several data sets or several priors, not both"):
        exact_batch([LANGEVIN, LANGEVIN], stacked)
    assert len(stacked) == 2
    assert stacked[1].tau(0) == 1.0


# --- Where it is hard --------------------------------------------------------------------------


@pytest.mark.parametrize("tau", [50.0, 100.0])
def test_rate_that_the_data_cannot_tell_is_called_not_identifiable(tau):
    found = evidence(LANGEVIN, langevin_data(tau))
    assert found.status is Status.OK
    assert found.unidentified_parameters == ("gamma",)
    assert found.warnings == (
        "the posterior of gamma is hardly narrower than its prior: gamma is not identifiable "
        f"at tau = {tau:g}",
    )
    # The posterior has become the prior, of mean and standard deviation 1.
    assert abs(found.posterior_mean["gamma"] - 1) < 0.3
    assert abs(found.posterior_sd["gamma"] - 1) < 0.3


def test_a_parameter_that_is_consistent_with_zero_has_an_upper_limit():
    """Positions without errors: sigma lies far below its prior, which its logarithm cannot tell."""
    dx = np.random.default_rng(0).normal(0.0, np.sqrt(2.0), size=(50, 20, 2))
    mine = Hypothesis(Noise(Brownian(kappa=Exponential(mean=1.0)), sigma=Exponential(mean=100.0)))
    found = evidence(mine, Displacements.from_array(dx, 1.0))
    sigma = found.parameters["sigma"]
    assert sigma.contraction < 0.5
    assert sigma.interval[1] < 0.5
    assert found.warnings == (
        f"sigma is consistent with zero at tau = 1; 97.5 % limit {sigma.interval[1]:.2g} length",
    )
    assert found.parameters_near_zero == found.unidentified_parameters == ("sigma",)


@pytest.mark.parametrize("prior", [Exponential(mean=0.02), LogNormal(median=300.0, sigma=0.5)])
def test_a_prior_that_the_data_contradict_is_named(prior):
    dx = np.random.default_rng(0).normal(0.0, np.sqrt(2.0), size=(50, 20, 2))
    data = Displacements.from_array(dx, 1.0)
    found = evidence(Hypothesis(Brownian, kappa=prior), data)
    (warning,) = found.warnings
    value = found.parameters["kappa"].median
    assert warning.startswith(
        f"prior and data are in conflict: kappa = {value:.3g} length²/time has a prior probability"
    )
    assert prior.describe(6) in warning
    # A prior within a few orders of magnitude is not.
    for mean in (0.2, 100.0):
        fair = evidence(Hypothesis(Brownian, kappa=Exponential(mean=mean)), data)
        assert fair.warnings == ()


def test_well_sampled_data_identify_both_parameters():
    found = evidence(LANGEVIN, langevin_data(1.0, (100, 5, 1)))
    assert found.unidentified_parameters == ()
    assert found.warnings == ()
    for name in ("gamma", "k"):
        assert abs(found.posterior_mean[name] - 1) < FIVE_SIGMA * found.posterior_sd[name]


def test_mode_at_the_end_of_an_interval_is_no_obstacle():
    found = evidence(Hypothesis(Brownian, kappa=Uniform(low=2.0, high=3.0)), langevin_data(1.0))
    assert found.status is Status.OK
    assert_allclose(found.map["kappa"], 2.0, rtol=1e-6)
    assert 2 < found.posterior_mean["kappa"] < 3


@both
def test_evidence_of_millions_of_displacements_is_not_called_unconverged(name):
    # As if each particle had been seen 200,000 times: twenty million displacements.
    batch = Batch.of(langevin_data(1.0))
    own = batch.moments
    huge = own._replace(forms=2e5 * own.forms, predicted=2e5 * own.predicted)
    found = exact(HYPOTHESES[name], dataclasses.replace(batch, given=huge))
    assert found.status is Status.OK
    assert found.log_evidence_err < 1e-6
    assert all(value > 0.99 for value in found.contraction.values())


@both
def test_data_too_small_for_floating_point_give_a_status_and_no_warning_of_numpy(name):
    data = Displacements.from_array(1e-170 * steps(1.0), 1.0)
    found = evidence(HYPOTHESES[name], data)
    assert found.status is Status.NOT_FINITE
    assert found.warnings[0] == Status.NOT_FINITE.advice
    assert found.to_json()["log_evidence"] is None


def test_prior_in_the_wrong_unit_still_gives_the_right_integral():
    # Displacements in micrometres, priors in metres: a factor of 1e12 in a diffusivity.
    dx = steps(1.0)
    found = evidence(exponential("brownian", kappa=1e12), Displacements.from_array(dx, 1.0))
    means = {"kappa": 1e12}
    expected = reference.exact_evidence_quadrature(dx, 1.0, "brownian", means)
    assert_allclose(found.log_evidence, expected, atol=1e-8)


# --- The record, and refusals ------------------------------------------------------------------


def test_record_says_what_it_was_made_from():
    data = langevin_data(1.0)
    found = evidence(exponential("langevin", gamma=2.0, k=0.5), data)
    assert (found.name, found.method, found.coords) == ("langevin", "exact", "")
    assert found.priors == {"gamma": "exponential:2", "k": "exponential:0.5"}
    assert (found.tau, found.data_fingerprint) == (1.0, data.fingerprint)
    assert found.log_evidence_err < 1e-8
    as_json = found.to_json()
    assert as_json["status"] == "ok"
    assert set(as_json["posterior_quantiles"]["k"]) == {"0.025", "0.16", "0.5", "0.84", "0.975"}
    assert repr(found).startswith("<Evidence: langevin (exact), ln Z = ")


def test_more_than_four_parameters_are_refused():
    hypothesis = Hypothesis(TwoSpeeds, **dict.fromkeys(TwoSpeeds.parameters, Exponential(mean=1.0)))
    message = (
        "up to three parameters beside the scale, two_speeds has 5 in all; use method='bridge'"
    )
    with pytest.raises(DriftbayesError, match=message):
        exact(hypothesis, Batch.of(langevin_data(1.0)))


# --- Calibration over many data sets -----------------------------------------------------------


@pytest.mark.slow
def test_probabilities_of_models_and_intervals_of_parameters_are_calibrated():
    """Data drawn from both hypotheses, parameters from their priors [notes on evidence, level 4].

    The posterior probability of the model is right as often as it says, and an interval of 95 %
    holds the parameter 95 % of the time.
    """
    n, rng = 2000, np.random.default_rng(20)
    batches, truth, parameters = [], [], []
    for i in range(2 * n):
        gamma, k = rng.exponential(size=2)
        if i % 2:
            dx = reference.simulate_langevin(rng, 2, 4, 1, 1.0, gamma, k)
        else:
            dx = reference.simulate_brownian(rng, 2, 4, 1, 1.0, k)
        batches.append(Batch.of(Displacements.from_array(dx, 1.0)))
        truth.append(i % 2)
        parameters.append((gamma, k))
    stacked = Batch.stack(batches)
    langevin, brownian = exact_batch([LANGEVIN], stacked), exact_batch([BROWNIAN], stacked)
    log_odds = np.array(
        [
            one.log_evidence - other.log_evidence
            for one, other in zip(langevin, brownian, strict=True)
        ]
    )
    probability, truth = 1 / (1 + np.exp(-log_odds)), np.asarray(truth)
    # Each deviation has mean 0 and variance p (1 - p), whatever p.
    for low, high in [(0, 1), (0, 0.35), (0.35, 0.5), (0.5, 0.65), (0.65, 1)]:
        chosen = (probability >= low) & (probability <= high)
        p = probability[chosen]
        error = np.sqrt(np.sum(p * (1 - p)))
        assert abs(np.sum(truth[chosen] - p)) < FIVE_SIGMA * error
    for column, name in enumerate(("gamma", "k")):
        inside = [
            e.posterior_quantiles[name][0] < value[column] < e.posterior_quantiles[name][-1]
            for e, value, is_langevin in zip(langevin, parameters, truth, strict=True)
            if is_langevin
        ]
        assert abs(np.mean(inside) - 0.95) < FIVE_SIGMA * np.sqrt(0.95 * 0.05 / n)
