"""Noise, blur, gaps and errors of fixes in forecasts, scores and trees: as a dense Gaussian has it.

Every plain model, with and without noise and blur, on every kind of data; what cannot be had for an
option is refused in words.
"""

from dataclasses import replace

import numpy as np
import pytest
from dense_motion import SPREADS, Motion, state_at_the_end
from numpy.testing import assert_allclose

from driftbayes import Hypothesis, displacements, evidence
from driftbayes.comparison import make_hypotheses
from driftbayes.data._fixes import last_rows
from driftbayes.data._trajectories import Trajectories
from driftbayes.errors import DriftbayesError
from driftbayes.inference import PosteriorDraws, posterior_draws
from driftbayes.inference._draws import to_datatree
from driftbayes.models import MODELS, model_named, preparation
from driftbayes.prediction import _forecast as forecast
from driftbayes.prediction import _subsets as subsets
from driftbayes.prediction._predict import AVERAGE, predict, predictive_mixtures
from driftbayes.prediction._scores import held_out, leave_one_out, prequential
from driftbayes.priors import Exponential, Fixed, Uniform
from made import made_evidence
from sums_of import log_likelihood

DT, N_POSITIONS = 0.5, 7
THETA = {
    **{"kappa": 0.7, "k": 1.2, "gamma": 0.9, "hurst": 0.35, "reference": 2.0, "well": 0.6},
    **{"accel": 3.0, "smoothness": 0.8, "omega": 1.1, "ratio": 0.2, "share": 0.4},
    **{"sigma": 0.4, "exposure": 0.08, "flow": 1.0, "gradient": 1.0, "scatter": 0.5, "tail": 0.2},
    **{"h1": 0.3, "h2": -0.2, "ratio_2": 0.3, "share_2": 0.4, "sigma_2": 0.2},
}
OBSERVED = ("", "+noise", "+blur", "+blur+noise")
OTHERS = (
    *("brownian+mean", "langevin+linear", "brownian+anisotropic", "langevin+scatter"),
    *("brownian+student", "oscillating+rotating", "brownian*2", "langevin+noise+mean"),
)
# Few enough to be compiled in seconds; the slow suite takes all.
QUICK = (
    *("brownian+noise", "langevin+noise", "oscillating+noise", "confined_brownian+noise"),
    *("langevin", "fractional+noise", "brownian+blur+noise"),
)
EVERY = [
    pytest.param(
        name + option,
        marks=() if name + option in QUICK else pytest.mark.slow,
    )
    for name in SPREADS
    for option in OBSERVED
]
KINDS = ("regular", "sd column", "one sd", "gaps kept", "gaps split", "irregular", "all at once")


def tracks(kind) -> tuple[Trajectories, float | None, str]:
    """Three tracks of seven fixes, the sampling time, and what a gap does."""
    rng = np.random.default_rng(3)
    x = np.cumsum(rng.normal(size=(3, N_POSITIONS, 2)), axis=1)
    times = np.tile(DT * np.arange(N_POSITIONS), (3, 1))
    sd, tau, gaps = None, DT, "split"
    if kind in ("gaps kept", "gaps split"):
        x[0, 3] = x[2, 1] = x[2, 4] = np.nan
        gaps = "keep" if kind == "gaps kept" else "split"
    if kind in ("irregular", "all at once"):
        times = times + rng.uniform(-0.2, 0.2, size=times.shape)
        tau = None
    if kind in ("sd column", "all at once"):
        sd = rng.uniform(0.1, 0.6, size=x.shape[:2])
        sd[1, 2] = 0.0
    if kind == "one sd":
        sd = np.full(x.shape[:2], 0.3)
    whole = Trajectories.from_arrays(
        list(x), times=list(times), position_sd=None if sd is None else list(sd)
    )
    return whole, tau, gaps


def runs(whole, gaps):
    """(trajectory, times, positions, sd) of each run, cut by hand."""
    found = []
    x = whole.positions.reshape(3, N_POSITIONS, 2)
    times = whole.times.reshape(3, N_POSITIONS)
    sd = np.zeros((3, N_POSITIONS))
    if whole.position_sd is not None:
        sd = whole.position_sd.reshape(3, N_POSITIONS)
    for n in range(3):
        seen = ~np.isnan(x[n, :, 0])
        pieces = [np.flatnonzero(seen)]
        if gaps == "split":
            pieces = np.split(pieces[0], np.flatnonzero(np.diff(pieces[0]) > 1) + 1)
        found += [(n, times[n, p], x[n, p], sd[n, p]) for p in pieces if len(p) > 1]
    return found


def theta_of(name, factor=1.0):
    family = model_named(name, MODELS)
    bounded = {n for n, about in family.parameters.items() if np.isfinite(about.upper)}
    return {n: THETA[n] * (1.0 if n in bounded else factor) for n in family.parameters}


def hypothesis_of(name):
    family = model_named(name, MODELS)
    fixed = ("reference", "exposure", "flow", "gradient")

    def prior(n, about):
        if n in fixed:
            return Fixed(THETA[n])
        return Exponential(1.0) if np.isinf(about.upper) else Uniform(0.0, about.upper)

    return Hypothesis(family, **{n: prior(n, about) for n, about in family.parameters.items()})


def draws_of(name, data=None):
    """Two draws, made by hand."""
    hypothesis = hypothesis_of(name)
    values = [theta_of(name, factor) for factor in (1.0, 1.5)]
    fixed = set(values[0]) - set(hypothesis.names)
    for value in values:
        value.update({n: THETA[n] for n in fixed})
    theta = np.array([[value[n] for n in hypothesis.names] for value in values])
    record = replace(made_evidence(), hypothesis=hypothesis)
    if data is not None:
        record = replace(record, data_fingerprint=data.fingerprint)
    return PosteriorDraws(hypothesis, theta, np.zeros(2), record, 0), values


def cut(kind):
    whole, tau, gaps = tracks(kind)
    return whole, displacements(whole, tau, gaps=gaps), runs(whole, gaps)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", EVERY)
def test_the_log_likelihood_of_each_trajectory_is_that_of_a_dense_gaussian(name):
    for kind in KINDS:
        _, data, pieces = cut(kind)
        draws, values = draws_of(name, data)
        found = to_datatree(draws, data)["log_likelihood"]["displacements"].values[0]
        for i, theta in enumerate(values):
            motion, expected = Motion(name, theta), np.zeros(3)
            for n, times, x, sd in pieces:
                expected[n] += motion.log_density(times, x, sd)
            assert_allclose(found[i], expected, rtol=1e-7, err_msg=kind)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", EVERY)
def test_sets_of_trajectories_that_are_scored_have_their_dense_density(name):
    numbers = np.arange(3)
    for kind in ("regular", "gaps split", "all at once"):
        _, data, pieces = cut(kind)
        model = model_named(name, MODELS)(**theta_of(name))
        each, motion = np.zeros(3), Motion(name, theta_of(name))
        for n, times, x, sd in pieces:
            each[n] += motion.log_density(times, x, sd)
        way = preparation(data, model)
        growing = [log_likelihood(model, part) for part in subsets.growing(data, numbers, way)]
        assert_allclose(growing, np.cumsum(each), rtol=1e-7, err_msg=kind)
        without = [log_likelihood(model, part) for part in subsets.without_each(data, numbers, way)]
        assert_allclose(without, each.sum() - np.array([0, *each]), rtol=1e-7, err_msg=kind)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", EVERY)
def test_predicted_displacements_are_of_the_particle_and_scored_ones_of_its_fixes(name):
    draws, values = draws_of(name)
    times, error = np.array([0.5, 2.0, 7.0]), 0.3
    motions = [Motion(name, theta) for theta in values]
    found = predict([draws], times, n_dim=2).spreads[name].mixtures
    for mixture, t in zip(found, times, strict=True):
        assert_allclose(mixture.variances, [m.spread(t) for m in motions], rtol=1e-8)
    observed = predictive_mixtures(
        [draws], times, np.ones(1), n_dim=2, observed=True, error_variance=error**2
    )
    for which in (name, AVERAGE):
        for mixture, t in zip(observed[which], times, strict=True):
            expected = [m.observed_spread(t) + 2 * (m.sigma**2 + error**2) for m in motions]
            assert_allclose(mixture.variances, expected, rtol=1e-7)


def moments_of_paths(model, whole, horizons, tau):
    """Mean (particle, time, dim) and covariance (particle, time, time): a path is linear."""
    state = state_at_the_end(model, whole, tau, np.diff(horizons, prepend=0.0))
    shape = (len(horizons) + 1, *state.mean.shape)
    last = whole.positions[last_rows(whole)]
    zero = state.paths(np.zeros(shape))
    cov = np.zeros((3, len(horizons), len(horizons)))
    for i in range(shape[0]):
        for j in range(shape[3]):
            kicks = np.zeros(shape)
            kicks[i, ..., j] = 1.0
            column = (state.paths(kicks) - zero)[..., 0]
            cov += column[:, :, None] * column[:, None, :]
    return zero + last[:, None], cov


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", EVERY)
def test_a_forecast_is_the_conditional_gaussian_given_the_track(name):
    family = model_named(name, MODELS)
    horizons = np.array([0.0, 0.3, 2.0])
    members = [family(**theta_of(name))]
    if not family.has_state_space or "blur" in name:
        reason = "means over an exposure" if family.has_state_space else "no state-space form"
        with pytest.raises(DriftbayesError, match=rf"forecast of particles cannot take.*{reason}"):
            forecast.ensemble(members, tracks("regular")[0], horizons, tau=DT)
        return
    motion = Motion(name, theta_of(name))
    for kind in KINDS:
        whole, tau, _ = tracks(kind)
        mean, cov = moments_of_paths(members[0], whole, horizons, tau)
        for n, times, x, sd in runs(whole, "keep"):
            expected, expected_cov = motion.future(times, x, sd, horizons)
            assert_allclose(mean[n], expected, rtol=1e-7, atol=1e-7, err_msg=kind)
            assert_allclose(cov[n], expected_cov, rtol=1e-6, atol=1e-8, err_msg=kind)


def test_members_scatter_about_a_last_fix_that_has_an_error():
    """One fix says where a Brownian particle is to within σ, and a hundred say no less."""
    whole, tau, _ = tracks("regular")
    model = model_named("brownian+noise", MODELS)(kappa=1e-6, sigma=0.5)
    n = 400
    found = forecast.ensemble([model] * n, whole, [0.0], tau=tau)[:, :, 0]
    x = whole.positions.reshape(3, N_POSITIONS, 2)
    # A particle that hardly moves is where its seven fixes have their mean.
    error = 0.5 / np.sqrt(N_POSITIONS)
    assert_allclose(found.mean(axis=0), x.mean(axis=1), atol=5 * error / np.sqrt(n) + 1e-4)
    assert_allclose(found.std(axis=0), error, rtol=5 / np.sqrt(2 * n))


def test_members_move_by_rounding_if_parameters_do():
    whole, tau, _ = tracks("regular")
    model = model_named("langevin", MODELS)
    gammas = 0.5 * (1 + 1e-15 * np.arange(8))
    first, *others = (
        forecast.ensemble([model(gamma=gamma, k=1.0)], whole, [1.0, 3.0], tau=tau)
        for gamma in gammas
    )
    for other in others:
        assert_allclose(other, first, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("name", OTHERS)
def test_what_cannot_be_had_for_an_option_is_refused_in_words(name):
    whole, tau, _ = tracks("regular")
    data = displacements(whole, tau)
    draws, _ = draws_of(name, data)
    refused = pytest.raises(DriftbayesError, match=r"cannot take .*; omit it")
    with refused:
        predict([draws], [1.0], n_dim=2)
    with refused:
        forecast.predict_particles([draws], whole, [1.0], tau=tau)
    with refused:
        forecast.ensemble([model_named(name, MODELS)(**theta_of(name))], whole, [1.0], tau=tau)
    with refused:
        to_datatree(draws, data)
    for score in (prequential, leave_one_out):
        with refused:
            score([draws.hypothesis], data)
    with refused:
        held_out(whole, [draws.hypothesis], tau, [1.0])


def noisy_walks(n_particles, n_positions, kappa=0.05, sigma=0.5):
    rng = np.random.default_rng(8)
    steps = rng.normal(scale=np.sqrt(2 * kappa), size=(n_particles, n_positions, 2))
    x = np.cumsum(steps, axis=1) + rng.normal(scale=sigma, size=steps.shape)
    return Trajectories.from_arrays(x, dt=1.0)


def test_held_out_displacements_have_the_errors_that_the_model_knows_of():
    whole = noisy_walks(20, 9)
    hypothesis = make_hypotheses(["brownian+noise"], u_rms=1.0, timescale=1.0).hypotheses[0]
    options = {"n_draws": 200, "seed": 0, "method": "laplace"}
    found = held_out(whole, [hypothesis], 1.0, [2.0], n_folds=2, **options)[0]
    data = displacements(whole, 1.0)
    for fold in (0, 1):
        rest = subsets.subset(data, data.trajectory % 2 != fold)
        theta = posterior_draws(hypothesis, rest, **options).theta
        kappa, sigma = (theta[:, hypothesis.names.index(n)] for n in ("kappa", "sigma"))
        variances = 4 * kappa + 2 * sigma**2
        dx = displacements(whole, 2.0).as_array()[fold::2]
        square = (dx**2).sum(axis=2)[..., None]
        terms = np.exp(-square / (2 * variances)) / (2 * np.pi * variances)
        expected = np.log(terms.mean(axis=-1)).sum(axis=1)
        assert_allclose(found.values["brownian+noise"][fold::2], expected, rtol=1e-9)


def test_long_runs_with_noise_are_scored_whole():
    """Each step of a noisy run is predicted from all before it, and not from the last 31."""
    n = 41
    whole = noisy_walks(4, n)
    data = displacements(whole, 1.0)
    draws, values = draws_of("brownian+noise", data)
    found = to_datatree(draws, data)["log_likelihood"]["displacements"].values[0, 0]
    x, motion = whole.positions.reshape(4, n, 2), Motion("brownian+noise", values[0])
    dense = [motion.log_density(np.arange(float(n)), one, 0.0) for one in x]
    assert_allclose(found, dense, rtol=1e-9)
    hypothesis, how = draws.hypothesis, {"method": "laplace"}
    exact = evidence(hypothesis, data, **how).log_evidence
    assert_allclose(prequential([hypothesis], data, **how).total(hypothesis.name), exact, atol=1e-6)
