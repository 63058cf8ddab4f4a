"""The check for outliers: what it finds of known ones, and that honest motion has none."""

import jax
import numpy as np
import pytest

import driftbayes as db
from driftbayes import quality
from driftbayes.models import MODELS, model_named


def drawn(name, n_dim=2, seed=1, **theta):
    model = model_named(name, MODELS, n_dim)(**theta)
    with jax.enable_x64(True):
        x = model.simulate(jax.random.key(seed), n_particles=20, n_steps=300, n_dim=n_dim, tau=1.0)
    return np.array(x)


def found(x, **options):
    tracks = db.Trajectories.from_arrays(x, dt=1.0, **options)
    return quality.Outliers().find(tracks).rows.reshape(x.shape[:2])


MOTION = {"gamma": 0.05, "k": 1.0, "sigma": 0.2}


@pytest.mark.parametrize("size", [1.5, 3.0, 30.0])
def test_known_outliers_are_found(size):
    """Smaller than a step (about 0.5), some of them: jumps out and back do not show these."""
    x = drawn("langevin+noise", **MOTION)
    rng = np.random.default_rng(0)
    is_off = rng.random(x.shape[:2]) < 0.03
    # Those at the ends have one neighbour, and those side by side do not fit without each other.
    is_off[:, [0, -1]] = False
    is_off[:, 1:] &= ~is_off[:, :-1]
    angle = rng.uniform(0, 2 * np.pi, x.shape[:2])
    wrong = x + np.where(is_off, size, 0.0)[..., None] * np.stack(
        [np.cos(angle), np.sin(angle)], axis=-1
    )
    rows = found(wrong)
    recall = np.mean(rows[is_off])
    assert recall > {1.5: 0.15, 3.0: 0.85, 30.0: 0.9}[size]
    assert np.mean(rows[~is_off]) < 1e-3


@pytest.mark.sampled(5)
@pytest.mark.parametrize("n_dim", [1, 2, 3])
@pytest.mark.parametrize(
    ("name", "theta"),
    [
        ("brownian", {"kappa": 1.0}),
        ("langevin+noise", MOTION),
        ("oscillating", {"gamma": 0.1, "k": 1.0, "omega": 0.7}),
        ("brownian+scatter", {"kappa": 1.0, "scatter": 1.0}),
    ],
)
def test_honest_motion_has_none(name, theta, n_dim):
    assert found(drawn(name, n_dim, **theta)).sum() == 0


def test_fast_stretches_turns_and_jumps_are_not_outliers():
    x = drawn("langevin+noise", **MOTION)
    x[0, 100:] += 50.0
    x[1, 100:200] += 5.0 * np.arange(100)[:, None]
    x[1, 200:] += 500.0
    rng = np.random.default_rng(1)
    x[2, 100:140] += np.cumsum(rng.normal(size=(40, 2)), axis=0) * 10
    assert found(x)[:3].sum() == 0


def test_uneven_times_are_no_outliers():
    rng = np.random.default_rng(2)
    gaps = np.where(rng.random(299) < 0.1, 20.0, 1.0)
    times = np.concatenate([[0.0], np.cumsum(gaps)])
    steps = rng.normal(size=(20, 299, 2)) * np.sqrt(gaps)[None, :, None]
    x = np.concatenate([np.zeros((20, 1, 2)), np.cumsum(steps, axis=1)], axis=1)
    tracks = db.Trajectories.from_arrays(x, times=times)
    assert quality.Outliers().find(tracks).n_observations == 0


def test_outliers_become_missing_on_request():
    x = drawn("langevin+noise", **MOTION)
    x[3, 50] += 30.0
    tracks = db.Trajectories.from_arrays(x, dt=1.0)
    mended = quality.apply(tracks, "outliers")
    assert np.isnan(mended.positions.reshape(*x.shape)[3, 50]).all()
    assert np.isnan(mended.positions).any(axis=1).sum() == 1
    assert quality.applied(mended) == ["outliers: 1 position in 1 trajectory set to missing"]
    finding = next(f for f in quality.inspect(tracks).findings if f.name == "outliers")
    assert (finding.n_observations, finding.is_notable) == (1, False)
    with pytest.raises(db.DriftbayesError, match="number of standard deviations"):
        quality.apply(tracks, "outliers=3m")
