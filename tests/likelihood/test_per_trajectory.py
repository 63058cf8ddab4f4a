"""The log-likelihood of each trajectory: it sums to the whole, and is that of the part alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from driftbayes.errors import DriftbayesError
from driftbayes.likelihood import per_trajectory
from driftbayes.likelihood.moments import MEMORY
from driftbayes.likelihood.per_trajectory import log_likelihood_per_trajectory
from driftbayes.models import Brownian, Langevin
from driftbayes.sampling import Displacements
from driftbayes.testing import reference

# Short runs, a trajectory in three pieces, runs longer than the engine's memory.
SIZES = [4, 1, 6, 4, 4, MEMORY + 9, 2, MEMORY, MEMORY + 1]
OWNERS = [7, 7, 2, 2, 7, 11, 3, 11, 5]
GAMMA = np.array([0.02, 0.3, 1.0, 4.0, 50.0])
K = np.linspace(0.5, 2.0, len(GAMMA))
MODELS = jax.vmap(Langevin)(jnp.asarray(GAMMA), jnp.asarray(K))


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
        for i, (gamma, k) in enumerate(zip(GAMMA, K, strict=True)):
            total[i] += reference.kalman_log_likelihood_irregular(x, times, gamma, k, sd)
    return total


def one_of(models, i):
    return jax.tree.map(lambda leaf: leaf[i], models)


def whole(models, data, engine):
    return [float(one_of(models, i).log_likelihood(data, engine=engine)) for i in range(len(GAMMA))]


@pytest.mark.parametrize("engine", ["moments", "kalman"])
def test_sum_over_trajectories_is_the_whole(engine):
    data = ragged(SIZES, OWNERS)
    found = log_likelihood_per_trajectory(MODELS, data, engine=engine)
    assert found.shape == (len(GAMMA), 5)
    assert_allclose(found.sum(axis=1), whole(MODELS, data, engine), rtol=1e-13)


@pytest.mark.parametrize("kind", ["irregular", "noisy"])
def test_sum_over_trajectories_of_irregular_or_noisy_data_is_the_whole(kind):
    data = ragged(SIZES, OWNERS, **{kind: True})
    found = log_likelihood_per_trajectory(MODELS, data)
    assert_allclose(found.sum(axis=1), whole(MODELS, data, "kalman"), rtol=1e-13)


@pytest.mark.parametrize("engine", ["moments", "kalman"])
def test_each_trajectory_by_rising_number_is_as_if_alone(engine):
    data = ragged(SIZES, OWNERS)
    found = log_likelihood_per_trajectory(MODELS, data, engine=engine)
    for column, number in enumerate(np.unique(OWNERS)):
        assert_allclose(found[:, column], alone(data, number), rtol=1e-11)


def test_noisy_irregular_trajectory_is_as_if_alone():
    data = ragged(SIZES, OWNERS, irregular=True, noisy=True)
    found = log_likelihood_per_trajectory(MODELS, data)
    for column, number in enumerate(np.unique(OWNERS)):
        assert_allclose(found[:, column], alone(data, number), rtol=1e-11)


def test_model_with_one_parameter():
    models = jax.vmap(Brownian)(jnp.asarray(GAMMA))
    data = ragged([3, 3, 3], [0, 1, 2])
    found = log_likelihood_per_trajectory(models, data)
    assert_allclose(found.sum(axis=1), whole(models, data, "moments"), rtol=1e-13)


def test_trajectory_that_stood_still_counts_like_any_other():
    # A data set of it alone would be refused; among others it is data.
    data = ragged([3, 3], [0, 1])
    data.dx[:3] = 0.0
    found = log_likelihood_per_trajectory(MODELS, data)
    assert_allclose(found.sum(axis=1), whole(MODELS, data, "moments"), rtol=1e-13)
    assert np.isfinite(found).all()


@pytest.mark.parametrize("engine", ["moments", "kalman"])
def test_blocks_and_batches_change_nothing(engine, monkeypatch):
    data = ragged(SIZES, OWNERS)
    expected = log_likelihood_per_trajectory(MODELS, data, engine=engine)
    # Two runs to a block, so that one trajectory lies in several; two draws to a batch of three.
    monkeypatch.setattr(per_trajectory, "_BLOCK_BYTES", 2 * 2 * 8 * MEMORY**2)
    monkeypatch.setattr(per_trajectory, "_BATCH_BYTES", 2 * 4 * 8 * 16 * 64)
    found = log_likelihood_per_trajectory(MODELS, data, engine=engine)
    assert_allclose(found, expected, rtol=1e-13)


def test_impossible_parameters_are_impossible_for_every_trajectory():
    models = jax.vmap(Langevin)(jnp.array([1.0, 1.0]), jnp.array([1.0, -1.0]))
    found = log_likelihood_per_trajectory(models, ragged([3, 4], [0, 1]))
    assert np.isfinite(found[0]).all()
    assert_array_equal(found[1], -np.inf)


def test_what_the_statistics_engine_cannot_do_is_refused():
    data = ragged([3, 4], [0, 1], irregular=True)
    with pytest.raises(DriftbayesError, match="engine='auto'"):
        log_likelihood_per_trajectory(MODELS, data, engine="moments")


def test_unknown_engine_is_refused():
    # Without the run-time check of annotations, which would refuse it first.
    plain = getattr(log_likelihood_per_trajectory, "__wrapped__", log_likelihood_per_trajectory)
    with pytest.raises(DriftbayesError, match="got 'dense'"):
        plain(MODELS, ragged([3, 4], [0, 1]), engine="dense")


def test_thousand_trajectories_and_thousand_draws_in_bounded_memory():
    resource = pytest.importorskip("resource")
    n = 1000
    data = ragged([25] * n, np.arange(n), n_dim=1)
    models = jax.vmap(Langevin)(jnp.linspace(0.5, 2.0, n), jnp.linspace(0.5, 2.0, n))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = log_likelihood_per_trajectory(models, data)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert found.shape == (n, n)
    # All second moments weighed for all draws at once would take 5 GB.
    assert (after - before) / 1024 < 600
    first = one_of(models, 0).log_likelihood(data)
    assert_allclose(found[0].sum(), float(first), rtol=1e-12)
