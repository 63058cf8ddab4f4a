"""Maps of irregular times: every step counts with its own duration."""

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose

from driftbayes import Displacements, DriftbayesError, Trajectories, compare_hypotheses
from driftbayes._representation import describe
from driftbayes.comparison import make_hypotheses
from driftbayes.data._sampling import ragged_arange
from driftbayes.inference import Hypothesis
from driftbayes.models import MODELS, model_named
from driftbayes.priors import Exponential, LogNormal
from driftbayes.space import map_tree
from driftbayes.space._filtered import FilteredSteps
from driftbayes.space._grouped import GroupedSteps, leaf_window
from driftbayes.space._leaves import solve_leaves
from driftbayes.space._moments import step_moments


def hypothesis(name):
    return make_hypotheses([name], u_rms=1.0, timescale=1.0).hypotheses[0]


def irregular(sizes=(30, 14, 2, 1), seed=0):
    """Steps with a mean flow and some memory that take 0.05 to 3 time units."""
    rng = np.random.default_rng(seed)
    n = sum(sizes)
    interval = np.exp(rng.uniform(np.log(0.05), np.log(3.0), n))
    noise = rng.normal(size=(n + 1, 2))
    dx = np.sqrt(interval)[:, None] * (0.6 * noise[1:] + 0.4 * noise[:-1]) + 0.3 * interval[:, None]
    return displaced(dx, interval, sizes)


def displaced(dx, interval, sizes):
    sizes = np.array(sizes)
    tau = float(np.mean(interval))
    return Displacements(dx, np.array(interval), sizes, np.arange(len(sizes)), tau)


def leaves(name, data, labels):
    own = hypothesis(name)
    windows = {name: leaf_window(own, int(data.row_sizes.max()), is_regular=data.is_regular)}
    return solve_leaves(
        own, GroupedSteps(data, labels, windows, apart="anisotropic" in name).sums(own)
    )


NAMES = ["brownian", "brownian+mean", "brownian+anisotropic+mean", "langevin", "langevin+mean"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", NAMES)
def test_all_steps_together_have_the_evidence_of_a_comparison(name):
    data = irregular()
    found = leaves(name, data, np.zeros(len(data.dx), int))
    record = compare_hypotheses([hypothesis(name)], data)[name]
    assert_allclose(found.log_evidence[0], record.log_evidence, atol=1e-5)
    for i, quantity in enumerate(found.quantities):
        if quantity.name in record.parameters:
            known = record.parameters[quantity.name]
            assert_allclose(found.mean[i, 0], known.mean, rtol=1e-4)
            assert_allclose(found.sd[i, 0], known.sd, rtol=1e-3)


@pytest.mark.parametrize("name", ["langevin", "langevin+mean"])
def test_filtered_steps_of_equal_durations_are_those_of_moments(name):
    """Sets that begin anywhere in a run, in several pieces, at rates of their own."""
    data = irregular(sizes=(60, 25, 3))
    dx, sizes = data.dx, data.row_sizes
    labels = np.repeat([0, 1, 0, 2, 1, 3, 4], [20, 11, 7, 20, 18, 11, 1])
    earlier, own = ragged_arange(sizes), hypothesis(name)
    begin, end = np.array([0, 0, 1, 2, 3, 4]), np.array([5, 2, 2, 4, 4, 5])
    filtered = FilteredSteps(dx, np.full(len(dx), 0.5), earlier, labels, begin, end)
    moments = step_moments(dx, earlier, labels, 20, 0.5, apart=False).merged(begin, end)
    assert_allclose(filtered.n_steps, moments.n_steps)
    rng = np.random.default_rng(1)
    for n_rows, sets in ((1, np.arange(6)), (6, np.arange(6)), (2, np.array([1, 3]))):
        gamma = np.exp(rng.uniform(-3, 2, n_rows * 7))
        theta = np.ones((len(gamma), 2))
        theta[:, own.names.index("gamma")] = gamma
        one, other = (s.whitened(own, theta, sets, n_rows) for s in (filtered, moments))
        for part in ("log_det", "quadratic", "cross_products", "weight"):
            assert_allclose(getattr(one, part), getattr(other, part), rtol=1e-7, atol=1e-7)
    one, other = (solve_leaves(own, s) for s in (filtered, moments))
    assert_allclose(one.log_evidence, other.log_evidence, atol=1e-6)
    assert_allclose(one.mean, other.mean, rtol=1e-6, atol=1e-6)


def test_a_cell_by_brute_force():
    """Langevin steps of a cell, given all earlier ones of their run: dense covariances."""
    data = irregular(sizes=(40,))
    labels = np.zeros(40, int)
    inside = np.array([3, 4, 5, 17, 39])
    labels[inside] = 1
    own = hypothesis("langevin")
    earlier, ends = ragged_arange(data.row_sizes), np.array([0, 1, 2])
    filtered = FilteredSteps(data.dx, data.interval, earlier, labels, ends[:-1], ends[1:])
    rates = np.array([0.02, 0.3, 1.0, 5.0, 80.0])
    theta = np.ones((10, 2))
    theta[:, own.names.index("gamma")] = np.tile(rates, 2)
    found = filtered.whitened(own, theta, np.arange(2), 2)
    edges = np.concatenate([[0.0], np.cumsum(data.interval)])
    for i, gamma in enumerate(rates):
        # The covariance of positions relative to the first: twice the integral of the velocity's.
        s, t = np.meshgrid(edges, edges)
        low = np.minimum(s, t)
        g = gamma
        position = (
            2 * low + (np.expm1(-g * s) + np.expm1(-g * t) - np.expm1(-g * np.abs(t - s))) / g
        )
        cov = np.diff(np.diff(position, axis=0), axis=1)
        log_det = quadratic = weight = 0.0
        seen = np.zeros(2)
        for n in inside:
            weights = np.linalg.solve(cov[:n, :n], cov[:n, n])
            variance = cov[n, n] - weights @ cov[:n, n]
            left = data.dx[n] - weights @ data.dx[:n]
            rest = data.interval[n] - weights @ data.interval[:n]
            log_det += np.log(variance)
            quadratic += left @ left / variance
            weight += rest**2 / variance
            seen += left * rest / variance
        assert_allclose(found.log_det[1, i], log_det, rtol=1e-6, atol=1e-6)
        assert_allclose(found.quadratic[1, i], quadratic, rtol=1e-6)
        assert_allclose(found.weight[1, i], weight, rtol=1e-6)
        assert_allclose(found.cross_products[1, i], seen, rtol=1e-6, atol=1e-8)


def tracks(seed=0, n=30, n_steps=12):
    """Brownian tracks, faster on the right, at times that no interval divides."""
    rng = np.random.default_rng(seed)
    pieces, times = [], []
    for _ in range(n):
        h = np.exp(rng.uniform(np.log(0.2), np.log(4.0), n_steps))
        x = np.empty((n_steps + 1, 2))
        x[0] = rng.uniform(0, 1, 2)
        for i in range(n_steps):
            kappa = 1e-4 if x[i, 0] < 0.5 else 1e-3
            x[i + 1] = x[i] + np.sqrt(2 * kappa * h[i]) * rng.normal(size=2)
        pieces.append(x)
        times.append(np.concatenate([[0.0], np.cumsum(h)]))
    return Trajectories.from_arrays(pieces, times=times)


def test_all_prunings_enumerated_have_the_evidence_of_the_tree():
    own = make_hypotheses(["brownian+mean"], u_rms=0.03, timescale=1.0).hypotheses
    data, name = tracks(), "brownian+mean"
    found = map_tree(data, own, None, depth=2, scatter=False)
    assert found.log_bayes_factor_inhomogeneous > 10
    rows = np.concatenate(
        [np.arange(a, b - 1) for a, b in zip(data.starts[:-1], data.starts[1:], strict=True)]
    )
    dx, h = np.diff(data.positions, axis=0)[rows], np.diff(data.times)[rows]
    codes = found.box.codes(data.positions[rows], 2)

    def log_z(depth, code):
        inside = codes >> (2 * (2 - depth)) == code
        if not inside.any():
            return 0.0
        part = displaced(dx[inside], h[inside], (1,) * int(inside.sum()))
        return compare_hypotheses(own, part)[name].log_evidence

    whole, quarters = log_z(0, 0), [log_z(1, c) for c in range(4)]
    fine = [sum(log_z(2, 4 * c + i) for i in range(4)) for c in range(4)]
    terms = [whole + np.log(0.5)]
    for divided in product((False, True), repeat=4):
        parts = [fine[c] if divided[c] else quarters[c] for c in range(4)]
        terms.append(sum(parts) + 5 * np.log(0.5))
    assert len(terms) == 17
    assert_allclose(found[name].log_evidence, np.logaddexp.reduce(terms), atol=1e-5)
    assert_allclose(found[name].log_evidence_homogeneous, whole, atol=1e-6)


def test_the_map_says_that_times_are_irregular():
    names = ["brownian+mean", "langevin+mean"]
    own = make_hypotheses(names, u_rms=0.03, timescale=1.0).hypotheses
    found = map_tree(tracks(n=12), own, None, scatter=False)
    assert set(found.rivals) == {"particles"}
    text = " ".join(str(found).split())
    assert "every position at its own interval" in text
    assert "the longest displacement is" in text
    assert describe(found) is not None
    assert bool(found.to_dataset().attrs["irregular_times"])


def test_a_regular_file_may_be_taken_at_its_own_intervals():
    x = np.cumsum(np.random.default_rng(0).normal(0, 0.02, (20, 16, 2)), axis=1)
    x += np.random.default_rng(1).uniform(0, 1, (20, 1, 2))
    regular = Trajectories.from_arrays(x, dt=1.0)
    own = make_hypotheses(["langevin+mean"], u_rms=0.03, timescale=1.0).hypotheses
    one, other = (map_tree(regular, own, tau, depth=2, scatter=False) for tau in (1.0, None))
    assert_allclose(
        one.log_bayes_factor_inhomogeneous, other.log_bayes_factor_inhomogeneous, atol=1e-6
    )


def test_models_that_do_not_follow_irregular_times_are_refused():
    data = tracks(n=5)
    with pytest.raises(DriftbayesError, match=r"cannot take langevin\+anisotropic; use brownian"):
        data.map("all", models=[hypothesis("langevin+anisotropic")])
    own = Hypothesis(model_named("langevin", MODELS), gamma=Exponential(1.0), k=LogNormal(1.0, 1.0))
    with pytest.raises(DriftbayesError, match="exponential or gamma prior of k"):
        map_tree(data, [own], None)
    with pytest.raises(DriftbayesError, match="a fixed grid needs regular times"):
        data.map("all", models=[own], cell=0.1)
    with pytest.raises(DriftbayesError, match="times are irregular"):
        data.map(1.0, models=[own])
