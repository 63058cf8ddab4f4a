"""Particle filters against the Kalman filter, and against each other."""

from dataclasses import replace

import numpy as np
import pytest
from double_well import grid_log_likelihood, well_data
from equations import cubic, data_of, langevin, langevin_data, ornstein_data, wells
from numpy.testing import assert_allclose
from scipy.special import logsumexp

from driftbayes import Brownian, Displacements, DriftbayesError, Langevin, Noise
from driftbayes.models import MODELS, model_named
from driftbayes.sde import Filter, KalmanDensity, ParticleDensity
from driftbayes.sde._tracks import make_tracks

THETA = {"gamma": 1.3, "k": 0.7}


def estimate(model, data, values, how, substeps, n=1, seed=0):
    """Ln of n independent estimates of the likelihood."""
    return estimate_of(model.template(), data, values, how, substeps, n, seed)


def estimate_of(template, data, values, how, substeps, n=1, seed=0):
    """The same for a model that may have noise."""
    density = ParticleDensity(data, how, substeps, seed)
    columns = {name: np.full(n, value) for name, value in values.items()}
    return density.log_densities(template, columns)


def estimate_langevin(data, substeps, sigma=0.0):
    """Of Langevin's equation with an error of each fix, which may be 0: one program for all."""
    template = model_named("sde_langevin+noise", MODELS)
    return estimate_of(template, data, {**THETA, "sigma": sigma}, Filter(8), substeps)


def estimate_wells(data, a=0.0, w=0.0, kappa=0.7, growth=0.0, substeps=3):
    """Of a position without a velocity: one program for all."""
    columns = np.broadcast_arrays(np.atleast_1d(a), w, kappa, growth)
    values = dict(zip(("a", "w", "kappa", "growth"), columns, strict=True))
    return ParticleDensity(data, Filter(8), substeps).log_densities(wells().template(), values)


# All data have four runs of ten steps in a plane, or are filled up to it: programs are few.
@pytest.fixture(scope="module")
def exact():
    return langevin_data(**THETA, n_steps=10)


@pytest.fixture(scope="module")
def noisy(exact):
    rng = np.random.default_rng(5)
    n_fixes = int((exact.row_sizes + 1).sum())
    return replace(exact, position_sd=rng.uniform(0.05, 0.3, n_fixes))


@pytest.mark.parametrize("substeps", [1, 3])
def test_a_linear_model_has_the_exact_likelihood_from_few_particles(exact, noisy, substeps):
    for data in (exact, noisy):
        wanted = Langevin(**THETA).log_likelihood(data)
        found = estimate_langevin(data, substeps)
        assert_allclose(found, wanted, rtol=1e-10)
        kalman = KalmanDensity(data, substeps)
        columns = {name: np.array([value]) for name, value in THETA.items()}
        assert_allclose(kalman.log_densities(langevin().template(), columns), wanted, rtol=1e-10)


def test_runs_of_any_length_and_interval_are_taken():
    rng = np.random.default_rng(3)
    sizes = np.array([1, 9, 3, 2])
    n = int(sizes.sum())
    data = Displacements(
        dx=rng.normal(size=(n, 2)),
        interval=rng.uniform(0.2, 1.5, n),
        row_sizes=sizes,
        trajectory=np.arange(4),
        tau=0.7,
        start=rng.normal(size=(4, 2)),
        start_time=rng.uniform(size=4),
    )
    wanted = Langevin(**THETA).log_likelihood(data)
    assert_allclose(estimate_langevin(data, 2), wanted, rtol=1e-10)


def test_an_error_of_the_model_is_added_to_every_fix(exact):
    wanted = Noise(Langevin(**THETA), 0.2).log_likelihood(exact)
    assert_allclose(estimate_langevin(exact, 2, sigma=0.2), wanted, rtol=1e-10)


@pytest.mark.slow
def test_positions_without_a_velocity(exact, noisy):
    # Not drawn back, a position diffuses.
    for data in (exact, noisy):
        assert_allclose(estimate_wells(data), Brownian(0.7).log_likelihood(data), rtol=1e-10)


def test_a_confined_position_has_the_density_of_ornstein_and_uhlenbeck():
    values = {"w": 0.8, "kappa": 0.5}
    data = ornstein_data(**values, n_steps=10)
    x0, x1 = data.origin, data.origin + data.dx
    decay = np.exp(-0.8 * 0.4)
    variance = 0.5 / 0.8 * (1 - decay**2)
    wanted = np.sum(-0.5 * (np.log(2 * np.pi * variance) + (x1 - decay * x0) ** 2 / variance))
    assert_allclose(estimate_wells(data, **values), wanted, rtol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("how", [Filter(256, lookahead=False), Filter(256, guided=False)])
def test_filters_without_lookahead_are_unbiased(noisy, how):
    data = replace(
        noisy,
        dx=noisy.dx[:12],
        interval=noisy.interval[:12],
        row_sizes=np.array([6, 6]),
        trajectory=np.arange(2),
        start=noisy.start[:2],
        start_time=noisy.start_time[:2],
        position_sd=np.full(14, 0.3),
    )
    wanted = float(Langevin(**THETA).log_likelihood(data))
    found = estimate(langevin(), data, THETA, how, 2, n=96)
    ratio = np.exp(found - wanted)
    assert abs(ratio.mean() - 1) < 4 * ratio.std(ddof=1) / np.sqrt(len(ratio))
    assert ratio.std(ddof=1) < 1.5


@pytest.mark.slow
def test_filters_agree_on_a_nonlinear_model():
    values = {"gamma": 1.0, "beta": 0.5, "s": 1.0}
    data = data_of(cubic(), values, n_particles=2, n_steps=6)
    data = replace(data, position_sd=np.full(14, 0.15))
    logs = {
        how: estimate(cubic(), data, values, how, 4, n=64)
        for how in (Filter(64), Filter(512, guided=False))
    }
    means, errors = [], []
    for log_l in logs.values():
        means.append(logsumexp(log_l) - np.log(len(log_l)))
        errors.append(np.exp(log_l - means[-1]).std(ddof=1) / np.sqrt(len(log_l)))
    assert abs(means[0] - means[1]) < 4 * np.hypot(*errors)
    # Foresight is worth more than eight times as many particles.
    guided, blind = (log_l.std() for log_l in logs.values())
    assert guided < blind


@pytest.mark.slow
def test_points_that_share_random_numbers_differ_less():
    values = {"gamma": 1.0, "beta": 0.5, "s": 1.0}
    data = data_of(cubic(), values)
    columns = {name: np.full(32, value) for name, value in values.items()}
    columns["beta"] = np.linspace(0.5, 0.51, 32)
    apart = {
        common: ParticleDensity(data, Filter(8), 4, 0, common).log_densities(
            cubic().template(), columns
        )
        for common in (True, False)
    }
    assert np.abs(np.diff(apart[True])).mean() < 0.2 * np.abs(np.diff(apart[False])).mean()


@pytest.mark.slow
def test_the_same_seed_gives_the_same_estimate_whatever_the_other_runs(exact):
    values = {"gamma": 1.0, "beta": 0.5, "s": 1.0}
    columns = {name: np.array([value]) for name, value in values.items()}
    first, again, other = (
        ParticleDensity(exact, Filter(8), 2, seed).by_run(cubic().template(), columns)
        for seed in (1, 1, 2)
    )
    assert_allclose(first, again, rtol=0)
    assert not np.allclose(first, other)


def test_it_must_be_known_where_runs_begin(exact):
    with pytest.raises(DriftbayesError, match="needs start positions and times"):
        make_tracks(replace(exact, start=None))


def test_a_force_too_strong_for_the_substeps_is_never_the_best_explanation():
    # Far out in the prior particles are thrown about and brought back to the fixes by force. Of the
    # weights, which then cancel to rounding, some were above all others: ln Z was 1e43.
    strength = np.repeat([1.0, 100.0, 200.0, 300.0, 500.0, 700.0, 900.0], 16)
    log_l = estimate_wells(well_data(n_dim=2), strength, kappa=0.18, growth=0.5, substeps=4)
    log_l = log_l.reshape(-1, 16)
    assert_allclose(log_l[0], grid_log_likelihood(1.0), atol=3)
    best = log_l.max(axis=1)
    assert best[1] < best[0] - 1e3
    assert np.all(best[2:] == -np.inf)
