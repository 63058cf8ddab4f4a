"""The log-likelihood of each trajectory: it sums to the whole, and is that of the part alone."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from driftbayes.data._sampling import Displacements
from driftbayes.errors import DriftbayesError
from driftbayes.inference import Hypothesis
from driftbayes.inference import _by_trajectory as by_trajectory
from driftbayes.inference._by_trajectory import log_likelihood_per_trajectory
from driftbayes.likelihood._moments import MEMORY
from driftbayes.models import MODELS, Brownian, Langevin, model_named
from driftbayes.priors import Exponential, Fixed, Uniform
from driftbayes.testing import reference

# Short runs, a trajectory in three pieces, runs longer than the windows of the moments engine.
SIZES = [4, 1, 6, 4, 4, MEMORY + 9, 2, MEMORY, MEMORY + 1]
OWNERS = [7, 7, 2, 2, 7, 11, 3, 11, 5]
GAMMA = np.array([0.02, 0.3, 1.0, 4.0, 50.0])
K = np.linspace(0.5, 2.0, len(GAMMA))
UNIT = Exponential(mean=1.0)
BROWNIAN = Hypothesis(Brownian, kappa=UNIT)
LANGEVIN = Hypothesis(Langevin, gamma=UNIT, k=UNIT)
THETA = np.stack([GAMMA, K], axis=1)


def ragged(sizes, owners, *, n_dim=2, seed=0, irregular=False, noisy=False):
    rng = np.random.default_rng(seed)
    n = sum(sizes)
    return Displacements(
        dx=rng.normal(size=(n, n_dim)),
        interval=rng.uniform(0.3, 2.0, n) if irregular else np.full(n, 0.7),
        row_sizes=np.asarray(sizes),
        trajectory=np.asarray(owners),
        tau=0.7,
        position_sd=rng.uniform(0.1, 0.3, n + len(sizes)) if noisy else None,
    )


def alone(data, number):
    """Slow log-likelihood of the runs of one trajectory, for each of the models."""
    ends = np.cumsum(data.row_sizes)
    total = np.zeros(len(GAMMA))
    for run in np.flatnonzero(data.trajectory == number):
        steps = slice(ends[run] - data.row_sizes[run], ends[run])
        x = np.concatenate([np.zeros((1, data.n_dim)), np.cumsum(data.dx[steps], axis=0)])
        times = np.concatenate([[0.0], np.cumsum(data.interval[steps])])
        # One more position than steps in every run before.
        places = slice(steps.start + run, steps.stop + run + 1)
        sd = 0.0 if data.position_sd is None else data.position_sd[places]
        for i, (gamma, k) in enumerate(THETA):
            total[i] += reference.kalman_log_likelihood_irregular(x, times, gamma, k, sd)
    return total


def whole(hypothesis, theta, data, engine):
    models = [hypothesis.at(np.asarray(one)) for one in theta]
    return [float(model.log_likelihood(data, engine=engine)) for model in models]


@pytest.mark.parametrize("engine", ["moments", "kalman"])
def test_sum_over_trajectories_is_the_whole(engine):
    data = ragged(SIZES, OWNERS)
    found = log_likelihood_per_trajectory(LANGEVIN, THETA, data)
    assert found.shape == (len(GAMMA), 5)
    assert_allclose(found.sum(axis=1), whole(LANGEVIN, THETA, data, engine), rtol=1e-12)


@pytest.mark.parametrize("kind", ["irregular", "noisy"])
def test_sum_over_trajectories_of_irregular_or_noisy_data_is_the_whole(kind):
    data = ragged(SIZES, OWNERS, **{kind: True})
    found = log_likelihood_per_trajectory(LANGEVIN, THETA, data)
    assert_allclose(found.sum(axis=1), whole(LANGEVIN, THETA, data, "kalman"), rtol=1e-12)


@pytest.mark.parametrize("kind", ["regular", "irregular"])
def test_each_trajectory_by_rising_number_is_as_if_alone(kind):
    irregular = kind == "irregular"
    data = ragged(SIZES, OWNERS, irregular=irregular, noisy=irregular)
    found = log_likelihood_per_trajectory(LANGEVIN, THETA, data)
    for column, number in enumerate(np.unique(OWNERS)):
        assert_allclose(found[:, column], alone(data, number), rtol=1e-11)


def test_model_with_one_parameter():
    theta = GAMMA[:, None]
    data = ragged([3, 3, 3], [0, 1, 2])
    found = log_likelihood_per_trajectory(BROWNIAN, theta, data)
    assert_allclose(found.sum(axis=1), whole(BROWNIAN, theta, data, "moments"), rtol=1e-12)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("irregular", [False, True])
def test_model_without_a_state_space(irregular):
    family = MODELS["fractional"]
    hypothesis = Hypothesis(family, hurst=Uniform(0.0, 1.0), kappa=UNIT, reference=Fixed(1.0))
    theta = np.array([[0.3, 1.0], [0.7, 2.0]])
    data = ragged([3, 5, 4], [0, 1, 0], irregular=irregular)
    found = log_likelihood_per_trajectory(hypothesis, theta, data)
    assert_allclose(found.sum(axis=1), whole(hypothesis, theta, data, "dense"), rtol=1e-12)


def test_trajectory_that_stood_still_counts_like_any_other():
    # A data set of it alone would be refused; among others it is data.
    data = ragged([3, 3], [0, 1])
    data.dx[:3] = 0.0
    found = log_likelihood_per_trajectory(LANGEVIN, THETA, data)
    assert_allclose(found.sum(axis=1), whole(LANGEVIN, THETA, data, "moments"), rtol=1e-12)
    assert np.isfinite(found).all()


def test_parts_of_the_draws_change_nothing(monkeypatch):
    data = ragged(SIZES, OWNERS)
    expected = log_likelihood_per_trajectory(LANGEVIN, THETA, data)
    # Two draws at a time.
    monkeypatch.setattr(by_trajectory, "_BYTES", 2 * 8 * 5 * 6)
    # Matrices are computed for eight draws side by side, as often doubled as the fastest needs.
    found = log_likelihood_per_trajectory(LANGEVIN, THETA, data)
    assert_allclose(found, expected, rtol=1e-13)


def test_impossible_parameters_are_impossible_for_every_trajectory():
    theta = np.array([[1.0, 1.0], [1.0, -1.0]])
    found = log_likelihood_per_trajectory(LANGEVIN, theta, ragged([3, 4], [0, 1]))
    assert np.isfinite(found[0]).all()
    assert_array_equal(found[1], -np.inf)


def test_a_mixture_is_refused():
    family = model_named("brownian*2", MODELS)
    share = Uniform(0.0, 1.0)
    hypothesis = Hypothesis(family, kappa=UNIT, ratio_2=share, share_2=share)
    with pytest.raises(DriftbayesError, match="a log-likelihood per trajectory cannot take"):
        log_likelihood_per_trajectory(hypothesis, np.ones((1, 3)), ragged([3, 4], [0, 1]))


def test_thousand_trajectories_and_thousand_draws_in_bounded_memory():
    resource = pytest.importorskip("resource")
    n = 1000
    data = ragged([25] * n, np.arange(n), n_dim=1)
    theta = np.linspace(0.5, 2.0, n)[:, None] * np.ones(2)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = log_likelihood_per_trajectory(LANGEVIN, theta, data)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert found.shape == (n, n)
    # All second moments weighed for all draws at once would take 5 GB.
    assert (after - before) / 1024 < 600
    assert_allclose(found[0].sum(), whole(LANGEVIN, theta[:1], data, "moments")[0], rtol=1e-12)
