"""The outlier model against a plain filter, the sum over all cases, and its own draws."""

from dataclasses import replace
from itertools import product

import equinox as eqx
import jax
import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

import driftbayes as db
from driftbayes.inference._formulas import Rows
from driftbayes.likelihood._engines import FilterEngine
from driftbayes.likelihood._runs import make_runs
from driftbayes.models import MODELS, model_named
from sums_of import density_of

THETA = {"gamma": 0.7, "k": 1.3, "sigma": 0.2, "fraction": 0.15, "spread": 2.0}


def displacements(n_runs=3, n_steps=40, n_dim=2, *, irregular=True, sd=None, seed=0):
    rng = np.random.default_rng(seed)
    x = np.cumsum(rng.normal(size=(n_runs, n_steps + 1, n_dim)), axis=1)
    x += 3 * rng.normal(size=x.shape) * (rng.random((n_runs, n_steps + 1, 1)) < 0.1)
    times = np.arange(n_steps + 1.0)
    if irregular:
        times = times + rng.uniform(-0.3, 0.3, n_steps + 1)
    errors = None if sd is None else np.full(x.shape[:2], sd)
    tracks = db.Trajectories.from_arrays(x, times=times, position_sd=errors)
    return db.displacements(tracks, None if irregular else 1.0)


# Compiled as one program: call by call, JAX would compile every operation.
transition_of = eqx.filter_jit(lambda model, interval: model.transition(interval))


def plain_filter(model, data):
    """Ln p by one loop over steps, full matrices and no trick."""
    p, extra = float(model.fraction), float(model.spread) ** 2
    total, low, fixes = 0.0, 0, 0
    with jax.enable_x64(True):
        for n in data.row_sizes:
            errors = np.full(n + 1, float(model.fix_variance()))
            if data.position_sd is not None:
                errors = errors + data.position_sd[fixes : fixes + n + 1] ** 2
            cov = np.array(model.initial_covariance())
            cov[0, 0] += errors[0] + p * extra
            mean = np.zeros((data.n_dim, len(cov)))
            for i in range(n):
                interval = np.asarray(data.interval[low + i])
                a, q = (np.asarray(m) for m in transition_of(model, interval))
                mean, cov = mean @ a.T, a @ cov @ a.T + q
                e = data.dx[low + i] - mean[:, 0]
                each = cov[0, 0] + errors[i + 1] + np.array([0.0, extra])
                logs = np.log([1 - p, p]) + [
                    stats.norm.logpdf(e, scale=np.sqrt(v)).sum() for v in each
                ]
                total += logsumexp(logs)
                w = np.exp(logs - logsumexp(logs))
                gains = [cov[:, 0] / v for v in each]
                means = [mean + np.outer(e, g) for g in gains]
                covs = [cov - np.outer(g, g) * v for g, v in zip(gains, each, strict=True)]
                middle = w[0] * means[0] + w[1] * means[1]
                apart = means[0] - means[1]
                spread = apart.T @ apart / data.n_dim
                cov = w[0] * covs[0] + w[1] * covs[1] + w[0] * w[1] * spread
                mean = middle
                mean[:, 0] -= data.dx[low + i]
            low, fixes = low + n, fixes + n + 1
    return total


def by_engine(name, theta, data):
    family = model_named(name, MODELS, data.n_dim)
    hypothesis = db.Hypothesis(family(**free_priors(family, theta)))
    point = np.array([[theta[n] for n in hypothesis.names]])
    return density_of(hypothesis, data).terms(point)[0][0]


def free_priors(family, theta):
    bounds = {name: family.parameters[name].upper for name in theta}
    return {
        name: db.Exponential(mean=1.0) if np.isinf(upper) else db.Uniform(0.0, upper)
        for name, upper in bounds.items()
    }


# Two kernels are compiled by default: of two components and two axes, and of one and three.
@pytest.mark.parametrize(
    ("n_dim", "sd"),
    [
        (2, 0.3),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in ((1, 0.3), (2, None), (3, None))),
    ],
)
def test_density_is_that_of_the_plain_filter(n_dim, sd):
    data = displacements(n_dim=n_dim, sd=sd)
    model = model_named("langevin+noise+outliers", MODELS, n_dim)(**THETA)
    expected = plain_filter(model, data)
    assert by_engine("langevin+noise+outliers", THETA, data) == pytest.approx(expected, rel=1e-12)
    assert model.log_likelihood(data) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "n_dim", "others"),
    [
        ("brownian", 3, {"kappa": 0.8}),
        *(
            pytest.param(name, 2, others, marks=pytest.mark.slow)
            for name, others in (
                ("second_order", {"gamma": 0.7, "k": 1.3, "accel": 4.0}),
                ("langevin&oscillating", None),
                ("brownian+blur", {"kappa": 0.8, "exposure": 0.3}),
            )
        ),
    ],
)
def test_other_states_are_the_plain_filter_too(name, n_dim, others):
    data = displacements(n_runs=2, n_steps=12, n_dim=n_dim)
    family = model_named(f"{name}+noise+outliers", MODELS, n_dim)
    own = {"sigma": 0.2, "fraction": 0.15, "spread": 2.0}
    values = dict.fromkeys(family.parameters, 0.6) if others is None else others
    own = {**values, **own}
    model = family(**own)
    expected = plain_filter(model, data)
    assert by_engine(f"{name}+noise+outliers", own, data) == pytest.approx(expected, rel=1e-11)
    assert model.log_likelihood(data) == pytest.approx(expected, rel=1e-11)


def test_an_outlier_beyond_any_gaussian_keeps_the_density_finite():
    data = displacements(irregular=False)
    data.dx[17] += 1e6
    data.dx[18] -= 1e6
    model = model_named("langevin+noise+outliers", MODELS, 2)(**{**THETA, "spread": 1e3})
    found = model.log_likelihood(data)
    assert found == pytest.approx(plain_filter(model, data), rel=1e-10)
    assert np.isfinite(found)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("fraction", "mean", "median"), [(0.02, 0.05, 0.1), (0.2, 0.6, 0.4)])
def test_it_is_close_to_the_sum_over_all_cases(fraction, mean, median):
    """2^n Gaussian densities of tracks of eight fixes; farther off where outliers are many."""
    n_steps, off = 7, []
    theta = {**THETA, "fraction": fraction}
    model = model_named("langevin+noise+outliers", MODELS, 1)(**theta)
    plain = model_named("langevin+noise", MODELS, 1)
    with jax.enable_x64(True):
        draws = model.simulate(jax.random.key(3), n_particles=40, n_steps=n_steps, n_dim=1, tau=1.0)
        base = plain(gamma=0.7, k=1.3, sigma=1e-9)
        row = np.asarray(
            eqx.filter_jit(base.first_autocovariances)(n_steps, jax.numpy.asarray(1.0))
        )
    motion = row[np.abs(np.subtract.outer(np.arange(n_steps), np.arange(n_steps)))]
    cases = np.array(list(product([0, 1], repeat=n_steps + 1)))
    log_prior = cases.sum(axis=1) * np.log(fraction) + (1 - cases).sum(axis=1) * np.log1p(-fraction)
    diff = np.diff(np.eye(n_steps + 1), axis=0)
    dx = np.diff(np.asarray(draws)[..., 0], axis=1)
    logs = [
        stats.multivariate_normal.logpdf(dx, cov=motion + (diff * (0.2**2 + 4.0 * case)) @ diff.T)
        for case in cases
    ]
    exact = logsumexp(log_prior[:, None] + logs, axis=0)
    for x, known in zip(np.asarray(draws), exact, strict=True):
        data = db.displacements(db.Trajectories.from_arrays(x[None], dt=1.0), 1.0)
        off.append(model.log_likelihood(data) - known)
    # The true density is the larger one on the average: draws are its own.
    assert -mean < np.mean(off) <= 2 * np.std(off) / np.sqrt(len(off))
    assert np.median(np.abs(off)) < median


def test_it_integrates_to_one():
    """Two steps of one axis on a fine grid."""
    theta = {"kappa": 0.5, "sigma": 0.4, "fraction": 0.2, "spread": 1.5}
    model = model_named("brownian+noise+outliers", MODELS, 1)(**theta)
    axis = np.linspace(-14, 14, 141)
    steps = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2, 1)
    x = np.concatenate([np.zeros((len(steps), 1, 1)), np.cumsum(steps, axis=1)], axis=1)
    data = db.displacements(db.Trajectories.from_arrays(x, dt=1.0), 1.0)
    family = model.template()
    hypothesis = db.Hypothesis(family(**free_priors(family, theta)))
    point = np.array([[theta[n] for n in hypothesis.names]])
    # Each track by itself, without the constant of its two steps.
    sums = FilterEngine(make_runs(data, by_trajectory=True)).sums(Rows(hypothesis, point))
    logs = sums.excess[0] - np.log(2 * np.pi)
    assert logs.sum() == pytest.approx(model.log_likelihood(data), rel=1e-12)
    density = np.exp(logs).sum() * (axis[1] - axis[0]) ** 2
    assert density == pytest.approx(1.0, abs=2e-5)


def test_rotated_axes_have_the_same_density():
    data = displacements(irregular=False)
    model = model_named("langevin+noise+outliers", MODELS, 2)(**THETA)
    turn = np.array([[np.cos(0.5), -np.sin(0.5)], [np.sin(0.5), np.cos(0.5)]])
    # Not in place: an engine is kept by its data.
    turned = replace(data, dx=data.dx @ turn.T)
    expected = model.log_likelihood(data)
    assert model.log_likelihood(turned) == pytest.approx(expected, rel=1e-12)


def test_without_outliers_it_is_the_other_model():
    data = displacements()
    plain = model_named("langevin+noise", MODELS, 2)(gamma=0.7, k=1.3, sigma=0.2)
    expected = plain.log_likelihood(data)
    for own in ({"fraction": 1e-250, "spread": 1.0}, {"fraction": 0.3, "spread": 1e-12}):
        model = model_named("langevin+noise+outliers", MODELS, 2)(**{**THETA, **own})
        assert model.log_likelihood(data) == pytest.approx(expected, rel=1e-9)
        assert by_engine("langevin+noise+outliers", {**THETA, **own}, data) == pytest.approx(
            expected, rel=1e-9
        )


def test_draws_have_the_share_and_the_size_of_outliers():
    own = {"kappa": 1e-12, "sigma": 1e-6, "fraction": 0.1, "spread": 3.0}
    model = model_named("brownian+noise+outliers", MODELS, 2)(**own)
    with jax.enable_x64(True):
        x = np.asarray(
            model.simulate(jax.random.key(0), n_particles=200, n_steps=99, n_dim=2, tau=1.0)
        )
    far = np.abs(x).max(axis=-1) > 1e-3
    assert far.mean() == pytest.approx(0.1, abs=4 * np.sqrt(0.09 / far.size))
    assert x[far].std() == pytest.approx(3.0, rel=0.05)
    # All coordinates of a fix are off together.
    assert (np.abs(x[far]) > 1e-5).all()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("langevin+outliers", r"add '\+noise'"),
        ("matern+noise+outliers", "needs a model with a state-space form"),
        ("langevin+noise+outliers+mean", "'outliers' and 'mean' cannot be combined"),
        ("langevin+noise+outliers+student", "'outliers' and 'student' cannot be combined"),
        ("langevin+noise+outliers+anisotropic", "'outliers' and 'anisotropic' cannot be combined"),
        ("langevin+noise+outliers*2", "with noise or blur at most"),
    ],
)
def test_combinations_that_are_not_known_are_refused(name, message):
    with pytest.raises(db.DriftbayesError, match=message):
        model_named(name, MODELS, 2)


@pytest.mark.slow
def test_evidence_finds_the_outliers_that_were_drawn():
    truth = {"kappa": 0.05, "sigma": 0.3, "fraction": 0.05, "spread": 6.0}
    model = model_named("brownian+noise+outliers", MODELS, 2)(**truth)
    with jax.enable_x64(True):
        x = model.simulate(jax.random.key(5), n_particles=10, n_steps=150, n_dim=2, tau=1.0)
    tracks = db.Trajectories.from_arrays(np.asarray(x), dt=1.0)
    found = db.compare(
        tracks,
        1.0,
        models="brownian+noise, brownian+noise+outliers",
        scales=db.Scales(u_rms=1.0, time=1.0),
    )
    assert found.best == "brownian+noise+outliers"
    posterior = found["brownian+noise+outliers"].parameters
    for name, value in truth.items():
        low, high = posterior[name].interval
        assert low < value < high, (name, posterior[name])
    # Without them the error of all fixes takes up the outliers.
    assert found["brownian+noise"].parameters["sigma"].mean > 3 * truth["sigma"]
