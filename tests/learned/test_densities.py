"""Learned densities: closed forms, folds and blocks, and what must not change them."""

from dataclasses import replace
from types import SimpleNamespace

import equinox as eqx
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.special import logsumexp

import driftbayes.learned._tree as tree_module
from driftbayes.data._sampling import Displacements
from driftbayes.errors import DriftbayesError
from driftbayes.learned import Training
from driftbayes.learned._densities import VARIANTS, learn
from driftbayes.learned._mixture import (
    LinearFit,
    MixtureNetwork,
    linear_fit,
    student_log_density,
)
from driftbayes.learned._places import cell_places, place_inputs
from driftbayes.learned._splits import Split, blocks_of, folds_of, score_splits, successive_steps
from driftbayes.learned._tree import Regressions, grow
from driftbayes.testing import reference

TINY = Training(n_components=2, width=4, n_members=2, max_steps=100, patience=50, batch=32)
N_TRACKS, N_STEPS = 12, 12


def walk(seed=0, scale=1.0, n_dim=2):
    rng = np.random.default_rng(seed)
    dx = scale * reference.simulate_langevin(rng, N_TRACKS, N_STEPS, n_dim, 1.0, 1.0, 1.0)
    return Displacements.from_array(dx, 1.0, start=np.zeros((N_TRACKS, n_dim)))


@pytest.fixture(scope="module")
def learnt():
    data = walk()
    steps = successive_steps(data)
    splits = [*folds_of(steps, 3), *blocks_of(steps, 0)[1:]]
    found = learn(steps, place_inputs(data), splits, training=TINY, seed=5)
    return SimpleNamespace(data=data, steps=steps, splits=splits, found=found)


# Densities


@pytest.mark.parametrize("n_dim", [1, 2, 3])
def test_a_network_gives_the_mixture_that_its_outputs_say(n_dim):
    rng = np.random.default_rng(n_dim)
    network = MixtureNetwork.first(3, n_dim, 4, 5, rng)
    double = [
        tuple(np.float64(7 * w) for w in leaves) for leaves in (network.weights, network.biases)
    ]
    network = MixtureNetwork(double[0], double[1], n_dim)
    y, z = rng.normal(size=n_dim), rng.normal(size=3)
    (w1, w2, w3), (b1, b2, b3) = double
    outputs = (np.tanh(np.tanh(z @ w1 + b1) @ w2 + b2) @ w3 + b3).reshape(4, -1)
    weights = np.exp(outputs[:, 0] - logsumexp(outputs[:, 0]))
    total = 0.0
    for weight, out in zip(weights, outputs, strict=True):
        factor = np.zeros((n_dim, n_dim))
        factor[np.tril_indices(n_dim, -1)] = out[1 + 2 * n_dim :]
        np.fill_diagonal(factor, np.exp(6 * np.tanh(out[1 + n_dim : 1 + 2 * n_dim] / 6)))
        cov = np.linalg.inv(factor.T @ factor)
        mean = out[1 : 1 + n_dim]
        total += weight * stats.multivariate_normal(mean, 0.5 * (cov + cov.T)).pdf(y)
    found = eqx.filter_jit(MixtureNetwork.log_density)(network, y, z)
    assert_allclose(found, np.log(total), rtol=1e-9)


@pytest.mark.parametrize("n_dim", [1, 2, 3])
def test_the_broad_component_is_the_student_distribution(n_dim):
    y = np.random.default_rng(0).normal(size=(5, n_dim)) * 10
    expected = stats.multivariate_t(np.zeros(n_dim), np.eye(n_dim), df=3).logpdf(y)
    assert_allclose(student_log_density(y, 3.0), expected, rtol=1e-12)


def test_residuals_of_the_linear_fit_are_white_and_keep_the_volume():
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(4000, 3)) * [1.0, 5.0, 0.0] + [0.0, 100.0, 2.0]
    dx = inputs[:, 1:2] * [0.3, -0.1] + rng.normal(size=(4000, 2)) @ [[1.0, 0.4], [0.0, 2.0]]
    fit = linear_fit(dx, inputs, 3)
    y = fit.residuals(dx, inputs)
    assert_allclose(np.cov(y.T, bias=True), np.eye(2), atol=2e-3)
    assert_allclose(fit.log_det, np.log(np.linalg.det(fit.root)))
    assert_allclose(fit.slope[2], 0.0, atol=1e-12)
    # Of the first column no linear effect is asked for.
    assert_array_equal(linear_fit(dx, inputs[:, ::-1], 1).slope[:2], 0.0)


def test_a_learned_density_integrates_to_one(learnt):
    # In one dimension, by the trapezoid rule over a grid of possible displacements.
    data = walk(n_dim=1)
    steps = successive_steps(data)
    grid = np.linspace(-60, 60, 6001)
    train = steps.trajectory < 8
    n = len(steps)
    whole = replace(
        steps,
        dx=np.concatenate([steps.dx, grid[:, None]]),
        previous=np.concatenate([steps.previous, np.full((6001, 1), 0.7)]),
        has_previous=np.concatenate([steps.has_previous, np.ones(6001, dtype=bool)]),
        trajectory=np.concatenate([steps.trajectory, np.full(6001, 99)]),
    )
    split = Split(np.concatenate([train, np.zeros(6001, bool)]), np.arange(n + 6001) >= n)
    place = np.concatenate([place_inputs(data), np.zeros((6001, 1))])
    for name, logs in learn(whole, place, [split], training=TINY).items():
        # The tails of the broad component beyond the grid hold less than 1e-5.
        assert_allclose(np.trapezoid(np.exp(logs[0]), grid), 1.0, atol=1e-4, err_msg=name)


def test_steps_without_one_before_have_the_density_without_memory(learnt):
    for name, other in (("learned:memory", "learned"), ("learned:place+memory", "learned:place")):
        for split, own, plain in zip(
            learnt.splits, learnt.found[name], learnt.found[other], strict=True
        ):
            first = ~learnt.steps.has_previous[split.test]
            assert first.any()
            assert_array_equal(own[first], plain[first])
            assert not np.any(own[~first] == plain[~first])


def test_a_change_of_the_unit_of_length_changes_densities_by_its_volume(learnt):
    data = walk(scale=1024.0)
    again = learn(successive_steps(data), place_inputs(data), learnt.splits, training=TINY, seed=5)
    for name in VARIANTS:
        for own, other in zip(learnt.found[name], again[name], strict=True):
            assert_allclose(other, own - 2 * np.log(1024.0), rtol=1e-9)


def test_what_is_judged_teaches_nothing(learnt):
    split = learnt.splits[0]
    sign = np.where(split.test & (learnt.steps.trajectory == 3), -1.0, 1.0)[:, None]
    other = replace(learnt.steps, dx=sign * learnt.steps.dx, previous=sign * learnt.steps.previous)
    place = place_inputs(learnt.data)
    again = learn(other, place, learnt.splits, training=TINY, seed=5)
    kept = (sign[:, 0] > 0)[split.test]
    assert not kept.all()
    for name in VARIANTS:
        assert_array_equal(again[name][0][kept], learnt.found[name][0][kept])
        # Where the trajectory is among those to learn from, it does.
        assert not np.array_equal(again[name][1], learnt.found[name][1])


def test_the_seed_sets_all_random_numbers(learnt):
    place = place_inputs(learnt.data)
    same = learn(learnt.steps, place, learnt.splits, training=TINY, seed=5)
    other = learn(learnt.steps, place, learnt.splits, training=TINY, seed=6)
    for name in VARIANTS:
        assert_array_equal(same[name][0], learnt.found[name][0])
        assert not np.array_equal(other[name][0], learnt.found[name][0])


def test_few_data_give_finite_scores_to_the_unheard_of(learnt):
    dx = learnt.steps.dx.copy()
    split = learnt.splits[0]
    far = np.flatnonzero(split.test)[[1, 5]]
    dx[far] = [[1e9, 0.0], [0.0, -1e12]]
    # A particle that hardly ever moves, among those to learn from.
    dx[split.train & (learnt.steps.trajectory == 1)] = 0.0
    found = learn(
        replace(learnt.steps, dx=dx),
        place_inputs(learnt.data),
        learnt.splits,
        training=TINY,
        seed=5,
    )
    assert all(np.isfinite(logs).all() for many in found.values() for logs in many)


# The tree


@pytest.mark.parametrize(("n_dim", "n_features"), [(1, 1), (2, 1), (2, 3)])
def test_evidence_of_a_regression_is_the_product_of_its_predictions(n_dim, n_features):
    rng = np.random.default_rng(0)
    f, y = rng.normal(size=(7, n_features)), rng.normal(size=(7, n_dim))
    zero = np.zeros(7, dtype=np.int64)
    chain = [
        Regressions.of(f[:i], y[:i], zero[:i], 1).predict(f[i : i + 1], y[i : i + 1], zero[:1])[0]
        for i in range(7)
    ]
    assert_allclose(Regressions.of(f, y, zero, 1).log_evidence, [np.sum(chain)], rtol=1e-12)
    # Before the data: a Student distribution of four degrees of freedom.
    wide = (1 + f[0] @ f[0]) * 2 / 4
    expected = stats.multivariate_t(np.zeros(n_dim), wide * np.eye(n_dim), df=4).logpdf(y[0])
    assert_allclose(chain[0], expected, rtol=1e-12)


def test_a_tree_predicts_by_the_ratio_of_evidences_of_all_divisions(monkeypatch):
    rng = np.random.default_rng(1)
    n = 33
    dx = rng.normal(size=(n, 1, 2))
    data = Displacements.from_array(dx, 1.0, start=rng.uniform(size=(n, 2)))
    dx[:, 0] *= 1 + 4 * (data.start[:, :1] > 0.5)
    data = Displacements.from_array(dx, 1.0, start=data.start)
    unit = LinearFit(np.zeros(2), np.ones(2), np.zeros((2, 2)), np.zeros(2), np.eye(2))
    monkeypatch.setattr(tree_module, "linear_fit", lambda *_: unit)
    split = Split(np.arange(n) < n - 1, np.arange(n) == n - 1)
    places, is_lonlat = cell_places(data)
    found = grow(_single(data), places, [split], is_lonlat=is_lonlat)["tree:place"][0]
    box = tree_module.box_around(places[split.train], is_lonlat=False)
    quarter = box.codes(places, 1)
    assert len(np.unique(quarter)) == 4

    def total(rows):
        def log_z(chosen):
            one, y = np.ones((len(chosen), 1)), data.dx[chosen]
            return Regressions.of(one, y, np.zeros(len(chosen), np.int64), 1).log_evidence[0]

        parts = sum(log_z(rows[quarter[rows] == q]) for q in range(4))
        return np.logaddexp(log_z(rows), parts) - np.log(2)

    assert_allclose(found, [total(np.arange(n)) - total(np.arange(n - 1))], rtol=1e-10)


def _single(data):
    """Steps of which none has one before, which `successive_steps` refuses."""
    from driftbayes.learned._splits import Steps

    n = len(data.dx)
    trajectory = np.repeat(data.trajectory, data.row_sizes)
    return Steps(data.dx, np.zeros_like(data.dx), np.zeros(n, dtype=bool), trajectory)


# Folds and blocks


def conjugate(steps, variance=0.5, prior_variance=4.0):
    """Gaussian displacements of unknown mean: the exact posterior predictive, step after step."""

    def learner(splits):
        found = []
        for split in splits:
            n, total = np.count_nonzero(split.train), steps.dx[split.train].sum(axis=0)
            logs = []
            for dx in steps.dx[split.test]:
                spread = 1 / (1 / prior_variance + n / variance)
                mean = spread * total / variance
                sd = np.sqrt(spread + variance)
                logs.append(stats.norm.logpdf(dx, mean, sd).sum())
                n, total = n + 1, total + dx
            found.append(np.array(logs))
        return {"exact": found}

    return learner


def test_blocks_of_a_posterior_predictive_sum_to_the_evidence():
    data = walk(seed=3)
    steps = successive_steps(data)
    n = len(steps)
    cov = 0.5 * np.eye(n) + 4.0
    expected = sum(stats.multivariate_normal(np.zeros(n), cov).logpdf(x) for x in steps.dx.T)
    for seed in (0, 1):
        blocks, folds = blocks_of(steps, seed), folds_of(steps, 4)
        (held, total) = score_splits(conjugate(steps), steps, folds, blocks)["exact"]
        assert_allclose(total, expected, rtol=1e-12)
        # With the first block coded by something else, only that differs.
        other = score_splits(conjugate(steps), steps, folds, blocks, first=-1.5)["exact"][1]
        first = conjugate(steps)(blocks[:1])["exact"][0].sum()
        assert_allclose(other - total, -1.5 - first)
        # The first of each fold; those after it are judged given it too.
        for p in (0, 3):
            rest, own = steps.dx[steps.trajectory % 4 != p], steps.trajectory == p
            spread = 1 / (1 / 4.0 + len(rest) / 0.5)
            mean = spread * rest.sum(axis=0) / 0.5
            joint = stats.multivariate_normal(cov=0.5 * np.eye(N_STEPS) + spread)
            assert_allclose(held[p], joint.logpdf((steps.dx[own] - mean).T).sum(), rtol=1e-10)


def test_blocks_are_whole_trajectories_in_random_order_that_double():
    steps = successive_steps(walk())
    blocks = blocks_of(steps, 0)
    tests = np.array([block.test for block in blocks])
    assert_array_equal(tests.sum(axis=0), 1)
    assert not blocks[0].train.any()
    for i, block in enumerate(blocks):
        assert_array_equal(block.train, tests[:i].any(axis=0))
        for p in range(N_TRACKS):
            assert len(np.unique(block.test[steps.trajectory == p])) == 1
    sizes = [len(np.unique(steps.trajectory[test])) for test in tests]
    assert sizes == [4, 3, 5]
    other = blocks_of(steps, 1)[0].test
    assert not np.array_equal(other, blocks[0].test)
    assert_array_equal(blocks_of(steps, 0)[0].test, blocks[0].test)


# Bad input


def test_one_step_runs_have_nothing_to_remember():
    data = Displacements.from_array(np.ones((9, 1, 2)), 2.0, time_unit="d")
    with pytest.raises(
        DriftbayesError, match=r"no two successive displacements at tau = 2 d, .*smaller tau"
    ):
        successive_steps(data)


def test_steps_of_unequal_duration_are_refused():
    data = walk()
    data = replace(data, interval=np.where(np.arange(len(data.dx)) == 5, 2.0, 1.0))
    with pytest.raises(DriftbayesError, match="steps of equal duration, got 1 to 2; give --tau"):
        successive_steps(data)


def test_a_part_with_too_few_steps_is_refused(learnt):
    split = Split(learnt.steps.trajectory == 1, learnt.steps.trajectory == 2)
    with pytest.raises(
        DriftbayesError, match="from 12 displacements of 1 trajectories, expected 20 of 2"
    ):
        learn(learnt.steps, place_inputs(learnt.data), [split], training=TINY)


# Places


def test_periodic_places_are_continuous_across_the_edge():
    start = np.array([[0.01, 3.0], [3.99, 3.0], [2.0, 3.0]])
    data = Displacements.from_array(np.ones((3, 1, 2)), 1.0, start=start, period=[4.0, None])
    inputs = place_inputs(data)
    assert inputs.shape == (3, 3)
    assert np.linalg.norm(inputs[0] - inputs[1]) < 0.05 * np.linalg.norm(inputs[0] - inputs[2])
    assert_allclose(cell_places(replace(data, start=start + np.array([8.0, 0.0])))[0], start)


def test_in_one_dimension_cells_lie_on_a_line_and_in_three_there_are_none():
    line = Displacements.from_array(np.ones((2, 1, 1)), 1.0, start=[[1.0], [2.0]])
    assert_array_equal(cell_places(line)[0], [[1.0, 0.0], [2.0, 0.0]])
    assert cell_places(Displacements.from_array(np.ones((1, 1, 3)), 1.0, start=[[0.0] * 3])) is None
