"""What the models expect of the future: closed forms, calibration, and exact ensembles."""

import json
import math

import jax
import numpy as np
import pytest
from dense_motion import state_at_the_end
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from driftbayes.data._trajectories import Trajectories
from driftbayes.errors import DriftbayesError
from driftbayes.inference import QUANTILES, PosteriorDraws
from driftbayes.models import Brownian, Langevin
from driftbayes.prediction._forecast import (
    ensemble,
    predict_particles,
)
from driftbayes.prediction._predict import AVERAGE, ScaleMixture, predict
from driftbayes.testing import reference
from made import made_evidence
from verdicts import unit_hypotheses

BROWNIAN, LANGEVIN = unit_hypotheses()
# Monte Carlo comparisons are at five standard errors of what is compared.
SIGMAS = 5.0


def draws_of(hypothesis, theta, log_evidence=-10.0, **changes) -> PosteriorDraws:
    theta = np.asarray(theta, dtype=float).reshape(-1, len(hypothesis.names))
    record = made_evidence(hypothesis.name, log_evidence, **changes)
    return PosteriorDraws(hypothesis, theta, np.zeros(len(theta)), record, 0)


def mixture(variances, n_dim=1, weights=None) -> ScaleMixture:
    variances = np.asarray(variances, dtype=float)
    weights = np.full(len(variances), 1 / len(variances)) if weights is None else weights
    return ScaleMixture(variances, np.asarray(weights), n_dim)


def msd(t, gamma, k):
    """By the paper's formula, in NumPy."""
    x = gamma * np.asarray(t)
    return 2 * k * np.asarray(t) * (1 + np.expm1(-x) / x)


# A known diffusivity


@pytest.mark.parametrize("n_dim", [1, 2, 3])
def test_brownian_particles_of_known_diffusivity_are_gaussian(n_dim):
    kappa, horizons = 0.7, np.array([0.5, 4.0])
    found = predict([draws_of(BROWNIAN, [kappa] * 5)], horizons, n_dim=n_dim)
    for name in ("brownian", AVERAGE):
        spread = found.spreads[name]
        sd = np.sqrt(2 * kappa * horizons)
        assert_allclose(spread.variance, sd**2, rtol=1e-14)
        assert_allclose(spread.sd, sd, rtol=1e-14)
        assert_allclose(spread.diffusivity, kappa, rtol=1e-14)
        assert_allclose(spread.diffusivity_quantiles, kappa, rtol=1e-14)
        assert_allclose(spread.sd_quantiles, np.outer(sd, np.ones(5)), rtol=1e-14)
        normal = np.outer(sd, stats.norm.ppf(QUANTILES))
        assert_allclose(spread.component_quantiles, normal, rtol=1e-12, atol=1e-15)
        chi = np.outer(sd, stats.chi(n_dim).ppf(QUANTILES))
        assert_allclose(spread.distance_quantiles, chi, rtol=1e-9)


def test_langevin_spread_is_the_mean_of_the_mean_square_displacement():
    rng = np.random.default_rng(0)
    theta, horizons = rng.gamma(4, 0.25, size=(400, 2)), np.array([0.01, 1.0, 30.0])
    spread = predict([draws_of(LANGEVIN, theta)], horizons, n_dim=2).spreads["langevin"]
    each = msd(horizons[:, None], theta[:, 0], theta[:, 1])
    assert_allclose(spread.variance, each.mean(axis=1), rtol=1e-9)
    expected = np.sqrt(np.quantile(each, QUANTILES, axis=1, method="hazen").T)
    assert_allclose(spread.sd_quantiles, expected, rtol=1e-9)
    assert_allclose(spread.diffusivity_quantiles, expected**2 / (2 * horizons[:, None]), rtol=1e-9)
    # Diffusive in the end, ballistic at first.
    assert_allclose(spread.diffusivity[-1], theta[:, 1].mean(), rtol=0.06)
    assert_allclose(spread.variance[0], np.prod(theta, axis=1).mean() * 1e-4, rtol=0.01)


# Mixtures


@given(
    variances=st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=6),
    p=st.floats(0.001, 0.999),
    n_dim=st.sampled_from([1, 2, 3]),
)
def test_quantiles_invert_the_distribution_functions(variances, p, n_dim):
    m = mixture(variances, n_dim)
    assert_allclose(m.distance_cdf(m.distance_quantiles(p)), p, rtol=1e-9)
    assert_allclose(m.cdf(m.component_quantiles(p)), p, rtol=1e-9)
    assert_allclose(m.component_quantiles(1 - p), -m.component_quantiles(p), rtol=1e-9, atol=1e-12)


def test_a_variance_of_inverse_gamma_density_gives_students_t():
    # Midpoints of 20000 equal slices of probability: the rule's own error is below 1e-4.
    nu, p = 7.0, (np.arange(20000) + 0.5) / 20000
    m = mixture(stats.invgamma(nu / 2, scale=nu / 2).ppf(p))
    x = np.linspace(-4, 4, 9)
    assert_allclose(m.cdf(x), stats.t(nu).cdf(x), atol=1e-4)
    assert_allclose(m.component_quantiles(QUANTILES), stats.t(nu).ppf(QUANTILES), rtol=2e-3)
    assert_allclose(m.variance, nu / (nu - 2), rtol=2e-3)


def test_parts_of_no_weight_do_not_count():
    alone, beside = mixture([1.0, 2.0, 3.0]), mixture([1e9, 1, 2, 3], weights=[0, *[1 / 3] * 3])
    for name in ("distance_quantiles", "component_quantiles", "variance_quantiles"):
        assert_allclose(getattr(beside, name)(QUANTILES), getattr(alone, name)(QUANTILES))


# The average


def two_models(gap=0.0, **changes):
    return [
        draws_of(BROWNIAN, [1.0, 1.2], -10.0),
        draws_of(LANGEVIN, [[1.0, 2.0], [0.5, 3.0], [1.0, 2.5]], -10.0 + gap, **changes),
    ]


@pytest.mark.parametrize("given_by", ["evidence", "hand"])
def test_models_are_averaged_by_their_probabilities(given_by):
    by_evidence = given_by == "evidence"
    gap = math.log(3) if by_evidence else 77.0
    probabilities = None if by_evidence else [2, 6]
    found = predict(two_models(gap), [2.0], probabilities=probabilities, n_dim=1)
    assert_allclose(list(found.probabilities.values()), [0.25, 0.75])
    parts = {name: found.spreads[name] for name in ("brownian", "langevin", AVERAGE)}
    mean = 0.25 * parts["brownian"].variance + 0.75 * parts["langevin"].variance
    assert_allclose(parts[AVERAGE].variance, mean)
    x = np.linspace(-3, 3, 7)
    cdfs = {name: spread.mixtures[0].cdf(x) for name, spread in parts.items()}
    assert_allclose(cdfs[AVERAGE], 0.25 * cdfs["brownian"] + 0.75 * cdfs["langevin"])
    # Between the two, at every probability.
    quantiles = [parts[name].distance_quantiles for name in ("brownian", AVERAGE, "langevin")]
    assert (np.diff(quantiles, axis=0) > 0).all()


def test_a_model_that_is_ruled_out_leaves_the_other_alone():
    found = predict(two_models(1e4), [2.0], n_dim=2)
    assert found.probabilities == {"brownian": 0.0, "langevin": 1.0}
    for name in ("variance", "sd_quantiles", "distance_quantiles", "component_quantiles"):
        assert_allclose(
            getattr(found.spreads[AVERAGE], name), getattr(found.spreads["langevin"], name)
        )


@pytest.mark.parametrize("wrong", [[1.0], [1, 1, 1], [1, -1], [0, 0], [1, math.inf]])
def test_weights_must_be_one_per_model(wrong):
    with pytest.raises(DriftbayesError, match="probabilities must be 2 nonnegative numbers"):
        predict(two_models(), [1.0], probabilities=wrong, n_dim=1)


def test_what_has_no_evidence_or_other_data_is_not_averaged():
    with pytest.raises(DriftbayesError, match="the probability of langevin is unknown"):
        predict(two_models(math.nan), [1.0], n_dim=1)
    with pytest.raises(DriftbayesError, match="must have the same data, tau and units"):
        predict(two_models(data_fingerprint="other"), [1.0], n_dim=1)
    with pytest.raises(DriftbayesError, match="hypotheses of different models"):
        predict([], [1.0], n_dim=1)


@pytest.mark.parametrize("wrong", [[], [-1.0], [0.0, 1.0], [2.0, 1.0], [1.0, 1.0], [math.nan]])
def test_horizons_must_be_increasing_times(wrong):
    with pytest.raises(DriftbayesError, match="horizons must be"):
        predict(two_models(), wrong, n_dim=1)


def test_json_is_plain_and_states_the_convention():
    found = predict(two_models(), [1.0, 2.0], n_dim=2)
    plain = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert plain["convention"] == "Var(dx_i) = 2 kappa T per axis"
    assert list(plain["models"]) == ["brownian", "langevin", AVERAGE]
    model = plain["models"][AVERAGE]
    assert model["variance"] == found.spreads[AVERAGE].variance.tolist()
    assert set(model["distance_quantiles"]) == {"0.025", "0.16", "0.5", "0.84", "0.975"}
    assert len(model["diffusivity_quantiles"]["0.5"]) == 2


def test_double_precision_is_used_whatever_the_switch_says():
    expected = predict(two_models(), [2.0], n_dim=1).spreads[AVERAGE].variance
    many = two_models()
    jax.config.update("jax_enable_x64", False)
    try:
        found = predict(many, [2.0], n_dim=1).spreads[AVERAGE].variance
    finally:
        jax.config.update("jax_enable_x64", True)
    assert_array_equal(found, expected)


# Calibration: parameters from the prior, data and future from the model


def test_the_predictive_distribution_of_brownian_particles_is_calibrated():
    """Ranks of 2000 futures, each in its own prediction from six displacements, are uniform."""
    rng = np.random.default_rng(1)
    n, n_data, tau, horizon = 2000, 6, 1.0, 5.0
    kappa = rng.exponential(size=n)
    squares = 2 * kappa * tau * rng.chisquare(n_data, size=n)
    future = np.sqrt(2 * kappa * horizon)[:, None] * rng.standard_normal((n, 2))
    # The posterior of ln κ on a grid, as 400 equally likely values.
    grid = np.linspace(-25, 5, 3001)
    p = (np.arange(400) + 0.5) / 400
    ranks = np.empty((n, 2))
    for i in range(n):
        log_density = (1 - n_data / 2) * grid - squares[i] / (4 * tau * np.exp(grid)) - np.exp(grid)
        rise = np.cumsum(np.exp(log_density - log_density.max()))
        draws = np.exp(np.interp(p, rise / rise[-1], grid))
        m = mixture(2 * horizon * draws, 2)
        ranks[i] = m.cdf(future[i, 0]), m.distance_cdf(np.hypot(*future[i]))
    for column in ranks.T:
        assert stats.kstest(column, "uniform").pvalue > 0.01
    # Tails: 5 % of the futures, within five binomial errors; a plug-in estimate has twice as many.
    plugged = stats.norm.cdf(future[:, 0], scale=np.sqrt(horizon * squares / (n_data * tau)))
    tails = [np.mean(np.abs(r - 0.5) > 0.475) for r in (ranks[:, 0], plugged)]
    error = np.sqrt(0.05 * 0.95 / n)
    assert abs(tails[0] - 0.05) < SIGMAS * error
    assert tails[1] > 0.05 + SIGMAS * error


# Ensembles


def tracks(n_particles=3, n_positions=12, gamma=0.6, k=1.5, seed=2, **attributes) -> Trajectories:
    rng = np.random.default_rng(seed)
    dx = reference.simulate_langevin(rng, n_particles, n_positions - 1, 2, 0.5, gamma, k)
    x = np.cumsum(np.concatenate([rng.normal(size=(n_particles, 1, 2)), dx], axis=1), axis=1)
    return Trajectories.from_arrays(x, dt=0.5, **attributes)


def conditioned(times, x, horizons, gamma, k, sd):
    """Mean and covariance of the future, after the last fix, by conditioning one big Gaussian.

    Positions are counted from the first; their covariance is that of stationary increments.
    """
    every = np.concatenate([times - times[0], times[-1] - times[0] + horizons])

    def structure(t):
        return np.where(t == 0, 0.0, msd(np.where(t == 0, 1.0, np.abs(t)), gamma, k))

    cov = 0.5 * (
        structure(every)[:, None] + structure(every)[None] - structure(every[:, None] - every[None])
    )
    n = len(times)
    # Differences of fixes from the first, which has an error too.
    seen = cov[1:n, 1:n] + sd**2 * (np.eye(n - 1) + 1)
    ahead = cov[n:, n:] + sd**2
    cross = cov[n:, 1:n] + sd**2
    gain = np.linalg.solve(seen, cross.T).T
    return x[0] + gain @ (x[1:] - x[0]), ahead - gain @ cross.T


# Every second fix is a regular track, too.
@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "case",
    [pytest.param("regular", marks=pytest.mark.slow), "sampled", "irregular", "noisy"],
)
def test_members_are_draws_from_the_future_given_the_past(case):
    gamma, k, horizons, n_members = 0.6, 1.5, np.array([0.3, 2.0]), 300
    whole = tracks()
    sd = 0.0
    x, times = whole.positions.reshape(3, 12, 2), whole.times.reshape(3, 12)
    tau: float | None = 0.5
    if case == "sampled":
        # Every second fix, counted back from the last: the twelfth, not the eleventh.
        tau, x, times = 1.0, x[:, 1::2], times[:, 1::2]
    if case == "irregular":
        rows = [0, 1, 4, 5, 6, 9, 11]
        tau, x, times = None, x[:, rows], times[:, rows]
        whole = Trajectories.from_arrays(list(x), times=list(times))
    if case == "noisy":
        sd = 0.4
        x = x + sd * np.random.default_rng(5).normal(size=x.shape)
        whole = Trajectories.from_arrays(x, dt=0.5, position_sd=np.full((3, 12), sd))
    members = [Langevin(gamma=gamma, k=k)] * n_members
    found = ensemble(members, whole, horizons, tau=tau, seed=3)
    assert found.shape == (n_members, 3, 2, 2)
    for particle in range(3):
        mean, cov = conditioned(times[particle], x[particle], horizons, gamma, k, sd)
        root = np.linalg.cholesky(cov)
        # Whitened in time: independent standard normal numbers, (member, time, axis).
        z = np.linalg.solve(root, found[:, particle] - mean)
        assert np.abs(z.mean(axis=0)).max() < SIGMAS / np.sqrt(n_members)
        second = np.einsum("msa,mta->st", z, z) / (2 * n_members)
        assert_allclose(second, np.eye(2), atol=SIGMAS * np.sqrt(2 / (2 * n_members)))


def test_knowing_the_past_narrows_the_near_future_and_not_the_far():
    n_members = 300
    members = [Langevin(gamma=0.6, k=1.5)] * n_members
    found = ensemble(members, tracks(), [0.25, 60.0], tau=0.5)
    spread = found.var(axis=0).mean(axis=(0, 2))
    free = msd(np.array([0.25, 60.0]), 0.6, 1.5)
    assert spread[0] < 0.5 * free[0]
    # What is known of the velocity is worth 1/(γT), a fortieth, of the spread at the most.
    slack = 1 / (0.6 * 60) + SIGMAS * np.sqrt(2 / (6 * n_members))
    assert_allclose(spread[1], free[1], rtol=slack)


def test_brownian_particles_forget_all_but_their_place():
    whole = tracks()
    found = ensemble([Brownian(kappa=0.7)] * 300, whole, [1.0, 4.0], tau=0.5)
    last = whole.positions.reshape(3, 12, 2)[:, -1]
    moved = found - last[:, None]
    n = moved[:, :, 0].size
    assert_allclose(moved.mean(axis=(0, 1, 3)), 0, atol=SIGMAS * np.sqrt(5.6 / n))
    expected = 1.4 * np.array([1.0, 4.0])
    assert_allclose(moved.var(axis=(0, 1, 3)), expected, rtol=SIGMAS * np.sqrt(2 / n))
    steps = np.diff(moved, axis=2, prepend=0.0)
    correlation = np.corrcoef(steps[:, :, 0].ravel(), steps[:, :, 1].ravel())[0, 1]
    assert abs(correlation) < SIGMAS / np.sqrt(n)


@pytest.mark.slow
def test_ensemble_of_fresh_particles_has_the_predictive_variance():
    """Two fixes far apart tell nothing of the velocity: the particle is as good as fresh."""
    x = np.zeros((40, 2, 2))
    x[:, 1] = 1e-3
    fresh = Trajectories.from_arrays(x, dt=1e6)
    rng = np.random.default_rng(7)
    theta = rng.gamma(25, 0.04, size=(200, 2))
    many = [draws_of(BROWNIAN, rng.gamma(25, 0.04, size=200)), draws_of(LANGEVIN, theta)]
    horizons, weights, n_members = np.array([0.5, 5.0]), [0.3, 0.7], 600
    expected = predict(many, horizons, probabilities=weights, n_dim=2).spreads[AVERAGE].variance
    found = predict_particles(
        many, fresh, horizons, tau=None, n_members=n_members, probabilities=weights, seed=1
    )
    moved = found.positions[:, :, 1:] - found.positions[:, :, :1]
    # All particles of a member share its parameters: the member is the independent unit.
    each = (moved**2).mean(axis=(1, 3))
    error = each.std(axis=0) / np.sqrt(n_members)
    assert (np.abs(each.mean(axis=0) - expected) < SIGMAS * error).all()
    share = found.models.count("langevin") / n_members
    assert abs(share - 0.7) < SIGMAS * np.sqrt(0.21 / n_members)


def test_ensembles_of_the_true_parameters_are_calibrated():
    """Where the true future falls among the members is uniform, particle by particle."""
    gamma, k, n_particles, n_members = 1.0, 1.0, 400, 99
    rng = np.random.default_rng(11)
    dx = reference.simulate_langevin(rng, n_particles, 12, 1, 0.5, gamma, k)
    x = np.concatenate([np.zeros((n_particles, 1, 1)), np.cumsum(dx, axis=1)], axis=1)
    past = Trajectories.from_arrays(x[:, :9], dt=0.5)
    found = ensemble([Langevin(gamma=gamma, k=k)] * n_members, past, [0.5, 2.0], tau=0.5, seed=4)
    for i, position in enumerate((9, 12)):
        ranks = (found[:, :, i, 0] < x[:, position, 0]).sum(axis=0)
        counts = np.bincount(ranks // 10, minlength=10)
        assert stats.chisquare(counts).pvalue > 0.01


# Keys and shapes


def test_the_seed_decides_and_more_members_leave_the_first_alone():
    many, past = two_models(), tracks()
    few, again, more, other = (
        predict_particles(many, past, [1.0], tau=0.5, n_members=n, seed=seed)
        for n, seed in ((5, 3), (5, 3), (9, 3), (5, 4))
    )
    assert_array_equal(few.positions, again.positions)
    assert_array_equal(few.positions, more.positions[:5])
    assert few.models == more.models[:5]
    assert not np.isclose(few.positions[:, :, 1], other.positions[:, :, 1]).any()


def test_a_forecast_becomes_trajectories_that_begin_at_the_last_fix():
    past = tracks(ids=["a", "b", "c"], length_unit="km", time_unit="h")
    found = predict_particles(two_models(), past, [1.0, 2.5], tau=0.5, n_members=2)
    assert_array_equal(found.horizons, [0.0, 1.0, 2.5])
    last = past.positions.reshape(3, 12, 2)[:, -1]
    assert_allclose(found.positions[:, :, 0], np.stack([last, last]), rtol=1e-14)
    future = found.trajectories(seed=0)
    assert list(future.ids) == ["a/0", "b/0", "c/0", "a/1", "b/1", "c/1"]
    assert_allclose(future.times.reshape(6, 3), np.tile([5.5, 6.5, 8.0], (6, 1)))
    assert_array_equal(future.positions.reshape(2, 3, 3, 2), found.positions)
    assert (future.length_unit, future.time_unit) == ("km", "h")
    assert future.provenance == {"seed": 0}


def test_particles_end_at_times_of_their_own_and_may_be_too_short_for_tau():
    x = tracks().positions.reshape(3, 12, 2)
    missing = x[1].copy()
    missing[-2:] = np.nan
    ragged = [x[0], missing, x[2, :2]]
    past = Trajectories.from_arrays(ragged, times=[np.arange(len(t)) * 0.5 for t in ragged])
    found = predict_particles(two_models(), past, [1.0], tau=1.0, n_members=3)
    assert_array_equal(found.last_times, [5.5, 4.5, 0.5])
    assert_allclose(found.positions[:, 1, 0], np.tile(x[1, 9], (3, 1)))
    # The third has no step of tau = 1 to its name: its velocity is anybody's.
    model = Langevin(gamma=0.6, k=1.5)
    mean, variance = state_at_the_end(model, past, 1.0, [1.0]).moments()
    assert_array_equal(mean[2], 0)
    assert_allclose(variance[2], msd(1.0, 0.6, 1.5), rtol=1e-9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_members": 0}, "n_members must be a whole number, 1 or more, got 0"),
        ({"seed": -1}, "seed must be a whole number, 0 or more, got -1"),
        ({"horizons": [2.0, 1.0]}, "horizons must be increasing and not negative"),
        ({"tau": 0.7}, "tau must be a whole multiple of the recording interval"),
    ],
)
def test_slips_have_their_sentence(change, message):
    arguments = {"horizons": [1.0], "tau": 0.5, **change}
    with pytest.raises(DriftbayesError, match=message):
        predict_particles(two_models(), tracks(), **arguments)
