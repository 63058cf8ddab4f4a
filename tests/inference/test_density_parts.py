"""Densities of many trajectories: in parts as at once, and of some of the trajectories."""

import numpy as np
import pytest

from driftbayes.data._sampling import Displacements, displacements
from driftbayes.data._trajectories import Trajectories
from driftbayes.inference import Batch, Hypothesis
from driftbayes.inference import _density as density
from driftbayes.inference._density import Density
from driftbayes.models import MODELS, model_named
from driftbayes.priors import Exponential, Uniform


@pytest.fixture(scope="module")
def classes():
    """Two classes of particles and 30 ragged tracks, with an engine of single tracks."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(4, 12, 30)
    tracks = [np.cumsum(rng.standard_normal((n, 2)), axis=0) for n in sizes]
    data: Displacements = displacements(Trajectories.from_arrays(tracks, dt=1.0), 1.0)
    model = model_named("brownian+noise*2", MODELS, 2)
    priors = {
        name: Uniform(0.0, 1.0) if about.upper <= 1 else Exponential(1.0)
        for name, about in model.parameters.items()
    }
    hypothesis = Hypothesis(model, **priors)
    return Density(hypothesis, Batch.of(data, model=model).engine(0, model))


def test_points_in_parts_give_what_all_at_once_give(classes, monkeypatch):
    rng = np.random.default_rng(1)
    theta = rng.uniform(0.2, 0.8, (9, len(classes.hypothesis.names)))
    whole = classes.terms(theta)
    monkeypatch.setattr(density, "_SUM_BYTES", 1)
    for part, expected in zip(classes.terms(theta), whole, strict=True):
        np.testing.assert_allclose(part, expected, rtol=1e-13)


def test_fewer_slots_are_whole_trajectories(classes):
    runs = classes.engine.runs
    few, factor = runs.thinned(len(runs.columns) // 3)
    assert factor == pytest.approx(len(runs.columns) / len(few.columns))
    every = int(np.ceil(len(runs.columns) / (len(runs.columns) // 3)))
    kept = np.arange(0, 30, every)
    assert few.n_slots == len(kept)
    sizes = np.diff(runs.offsets)
    assert np.array_equal(np.diff(few.offsets), sizes[kept])
    expected = np.concatenate([runs.columns[runs.offsets[k] : runs.offsets[k + 1]] for k in kept])
    assert np.array_equal(few.columns, expected)
    assert len(few.error) == len(few.columns) + len(kept)
    assert np.array_equal(few.intervals[few.which], np.ones(len(few.columns)))
