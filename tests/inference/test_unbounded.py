"""Exact repeats: which evidences are infinite, on both sides of the boundary."""

import jax
import numpy as np
import pytest

import driftbayes as db
from driftbayes.inference import Batch
from driftbayes.inference._density import Density
from driftbayes.inference._unbounded import unbounded_reason
from driftbayes.models import MODELS, model_named


def steps_with_zeros(n, n_zero, n_dim=2, seed=0):
    """One run of n steps; zeros in between."""
    rng = np.random.default_rng(seed)
    dx = rng.normal(size=(n, n_dim))
    dx[rng.choice(n, n_zero, replace=False)] = 0
    x = np.concatenate([np.zeros((1, n_dim)), np.cumsum(dx, axis=0)])
    data = db.displacements(db.Trajectories.from_arrays(x[None], dt=1.0), 1.0)
    # Sums of positions need not give back a zero.
    data.dx[:] = dx
    return data


def tracks_with_still(n_tracks, n_steps, n_still, n_dim=2, still_steps=None, **options):
    rng = np.random.default_rng(1)
    tracks = [np.cumsum(rng.normal(size=(n_steps + 1, n_dim)), axis=0) for _ in range(n_tracks)]
    size = n_steps if still_steps is None else still_steps
    tracks += [np.full((size + 1, n_dim), 3.0) for _ in range(n_still)]
    positions = np.concatenate(tracks)
    sizes = np.array([len(track) for track in tracks])
    times = np.concatenate([np.arange(float(size)) for size in sizes])
    return db.Trajectories(positions, times, sizes, np.arange(len(sizes)), **options)


def log_likelihoods(name, data, points):
    """Ln p at several values of the parameters, by the engine."""
    family = model_named(name, MODELS, data.n_dim)
    bounds = {n: p.upper for n, p in family.parameters.items()}
    priors = {
        n: db.Exponential(mean=1.0) if np.isinf(u) else db.Uniform(0.0, u)
        for n, u in bounds.items()
    }
    hypothesis = db.Hypothesis(family(**priors))
    theta = np.array([[point[n] for n in hypothesis.names] for point in points])
    with jax.enable_x64(True):
        engine = Batch.of(data, model=hypothesis.model).engine(0, hypothesis.model)
        return Density(hypothesis, engine).terms(theta)[0]


def growth(name, data, point, shrunk):
    """Power of 1/c by which the density grows as the named parameters shrink with c."""
    cs = np.array([1e-10, 1e-12])
    points = [
        {**point, **{n: scale * c**power for n, (scale, power) in shrunk.items()}} for c in cs
    ]
    low, high = log_likelihoods(name, data, points)
    return (high - low) / np.log(cs[0] / cs[1])


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("n_dim", "n", "n_zero"), [(2, 40, 20), (2, 40, 21), (1, 40, 27), (1, 40, 28)]
)
def test_student_is_infinite_from_the_derived_number_of_zeros_on(n_dim, n, n_zero):
    data = steps_with_zeros(n, n_zero, n_dim)
    expected = n_zero * n_dim / 2 - (n - n_zero)
    # At ν = 2 + 1e-4 the power is the limit's but for 1e-4 · (n - n0) / 2.
    found = growth("brownian+student", data, {"tail": 1 / 2.0001}, {"kappa": (1.0, 1.0)})
    assert found == pytest.approx(expected, abs=0.01)
    model = model_named("brownian+student", MODELS, n_dim)
    assert (unbounded_reason(model, data) is not None) == (expected >= 1)


@pytest.mark.parametrize(("n_dim", "still_steps"), [(2, 1), (2, 2), (1, 2), (1, 3)])
def test_scatter_is_infinite_beyond_two_displacements_without_motion(n_dim, still_steps):
    data = db.displacements(tracks_with_still(4, 9, 1, n_dim, still_steps), 1.0)
    n_scalar = n_dim * still_steps
    a = 1e-4
    found = growth("brownian+scatter", data, {"scatter": a**-0.5}, {"kappa": (1.0, 1.0)})
    # c^a of each trajectory that moves.
    assert found == pytest.approx(n_scalar / 2 - 4 * a, abs=0.01)
    model = model_named("brownian+scatter", MODELS, n_dim)
    assert (unbounded_reason(model, data) is not None) == (n_scalar > 2)


@pytest.mark.parametrize("name", ["brownian*2", "brownian+noise*2"])
@pytest.mark.parametrize("still_steps", [0, 1, 2, 3])
def test_classes_are_infinite_where_one_of_them_can_collapse(name, still_steps):
    n_still = 1 if still_steps else 0
    data = db.displacements(tracks_with_still(4, 9, n_still, 1, still_steps), 1.0)
    point = {"kappa": 0.5, "ratio_2": 1.0, "share_2": 0.2, "sigma": 0.1, "sigma_2": 0.1}
    shrunk = {"ratio_2": (1.0, 1.0)}
    if "noise" in name:
        shrunk["sigma_2"] = (1.0, 0.5)
    else:
        point = {n: v for n, v in point.items() if "sigma" not in n}
    found = growth(name, data, point, shrunk)
    assert found == pytest.approx(still_steps / 2, abs=0.01)
    # The volume of what shrinks with c: c itself, and the root of it for the noise.
    volume = 1.5 if "noise" in name else 1.0
    reason = unbounded_reason(model_named(name, MODELS, 1), data)
    assert (reason is not None) == (found >= volume - 0.01 and still_steps > 0)


@pytest.mark.slow
def test_outliers_are_infinite_where_runs_begin_with_many_repeats():
    model = model_named("brownian+noise+outliers", MODELS, 2)
    few, many = (db.displacements(tracks_with_still(4, 9, 2, 2, n), 1.0) for n in (1, 12))
    assert unbounded_reason(model, few) is None
    assert unbounded_reason(model, many) is not None
    # Along p → 0 with κ and σ² far below all variances of the state the density does grow.
    points = [
        {"kappa": 1e-280, "sigma": 1e-140, "fraction": p, "spread": 3.0} for p in (1e-3, 1e-5)
    ]
    low, high = log_likelihoods("brownian+noise+outliers", many, points)
    assert high > low + 100


def test_known_errors_keep_the_density_bounded():
    tracks = tracks_with_still(4, 9, 2)
    noisy = db.Trajectories(
        tracks.positions,
        tracks.times,
        tracks.row_sizes,
        tracks.ids,
        position_sd=np.full(len(tracks.times), 0.1),
    )
    for name in ("brownian*2", "brownian+noise+outliers"):
        model = model_named(name, MODELS, 2)
        assert unbounded_reason(model, db.displacements(noisy, 1.0)) is None


def test_compare_refuses_the_number_and_says_why():
    tracks = tracks_with_still(6, 30, 1)
    scales = db.Scales(u_rms=1.0, time=1.0)
    found = db.compare(tracks, 1.0, models="brownian, brownian+scatter", scales=scales)
    record = found["brownian+scatter"]
    assert record.status is db.Status.UNBOUNDED_DENSITY
    assert np.isnan(record.log_evidence)
    assert "1 trajectory never moves" in record.warnings[0]
    assert "favoured" not in found.verdict
    assert found["brownian"].status is db.Status.OK
    with pytest.raises(db.DriftbayesError, match="never moves"):
        db.check(tracks, 1.0, models="brownian+scatter", scales=scales)


def test_plain_models_are_not_concerned():
    data = steps_with_zeros(40, 30)
    assert unbounded_reason(model_named("langevin+noise", MODELS, 2), data) is None
