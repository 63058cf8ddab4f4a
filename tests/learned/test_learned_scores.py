"""Learned densities beside models: one table, and refusals in one sentence."""

from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import driftbayes as db
from driftbayes.comparison import make_hypotheses
from driftbayes.data._sampling import displacements, subset
from driftbayes.inference import evidence
from driftbayes.learned import Training, score_learned
from driftbayes.learned._places import place_inputs
from driftbayes.learned._splits import successive_steps
from driftbayes.learned._training import require_optax
from driftbayes.prediction._scores import by_fold
from verdicts import langevin_tracks, unit_hypotheses

TINY = Training(n_components=2, width=4, n_members=2, max_steps=100, patience=50, batch=32)
ROWS = ["brownian", "langevin", "learned", "learned:place", "learned:memory"]
ROWS += ["learned:place+memory", "tree:place", "tree:place+memory"]


@pytest.fixture(scope="module")
def tracks():
    return langevin_tracks(n_particles=16, n_positions=51)


@pytest.fixture(scope="module")
def scores(tracks):
    scales = db.Scales(1.0, 1.0)
    return tracks.score(tau=0.5, scales=scales, learned=True, training=TINY, n_folds=4, seed=3)


@pytest.mark.parametrize("noise", [None, 0.05])
def test_a_model_judges_a_trajectory_given_the_other_folds(tracks, noise):
    if noise is not None:
        x = tracks.positions.reshape(16, 51, 2)
        tracks = db.Trajectories.from_arrays(x, dt=0.1, position_sd=np.full((16, 51), noise))
    data, hypotheses = displacements(tracks, 0.5), unit_hypotheses()[: 2 if noise is None else 1]
    found = by_fold(hypotheses, data, n_folds=3)
    assert_array_equal(found.counts, 10)
    for p in (0, 4, 15):
        outside = data.trajectory % 3 != p % 3
        for h in hypotheses:
            rest = evidence(h, subset(data, outside)).log_evidence
            whole = evidence(h, subset(data, outside | (data.trajectory == p))).log_evidence
            assert_allclose(found.values[h.name][p], whole - rest, atol=1e-6)


def test_models_and_learned_densities_stand_in_one_table(scores, tracks):
    result = scores.learned
    assert list(result.held_out.values) == list(result.sequential) == ROWS
    assert result.blocks == (4, 4, 8)
    same = make_hypotheses(ROWS[:2], u_rms=1.0, timescale=1.0).hypotheses
    expected = by_fold(same, displacements(tracks, 0.5), n_folds=4)
    for name in ("brownian", "langevin"):
        assert_allclose(result.sequential[name], scores.prequential.total(name))
        assert_allclose(result.held_out.values[name], expected.values[name], atol=1e-9)
    text = str(result)
    for words in (
        "minus a code length",
        "is not a Bayes factor",
        "no previous one",
        "nats more than",
    ):
        assert words in text
    found = scores.to_json()["learned"]
    assert found["seed"] == 3
    assert found["training"]["n_without_previous"] == 16
    assert found["start"] == "brownian"
    assert found["held_out"]["n_predictions"] == 160
    assert "learned" not in replace(scores, learned=None).to_json()


def test_the_first_block_of_learned_rows_is_coded_by_the_first_model(tracks):
    data = displacements(tracks, 0.5)
    made = [
        score_learned(data, [h], {h.name: 0.0}, n_folds=4, seed=3, training=TINY)
        for h in unit_hypotheses()
    ]
    from driftbayes.learned._splits import blocks_of

    steps = successive_steps(data)
    first = np.unique(steps.trajectory[blocks_of(steps, 3)[0].test])
    part = subset(data, np.isin(data.trajectory, first))
    logs = [evidence(h, part).log_evidence for h in unit_hypotheses()]
    for name in ROWS[2:]:
        gap = made[1].sequential[name] - made[0].sequential[name]
        assert_allclose(gap, logs[1] - logs[0], atol=1e-6)


def test_a_missing_fix_ends_what_is_remembered():
    x = np.random.default_rng(0).normal(size=(9, 12, 1)).cumsum(axis=1)
    x[2, 5] = np.nan
    data = displacements(db.Trajectories.from_arrays(x, dt=1.0), 1.0)
    steps = successive_steps(data)
    assert np.isfinite(steps.dx).all()
    own = steps.trajectory == 2
    assert_array_equal(np.flatnonzero(~steps.has_previous[own]), [0, 4])
    assert_allclose(steps.previous[own][5], x[2, 7] - x[2, 6])
    assert np.count_nonzero(~steps.has_previous) == 10


def test_longitudes_are_continuous_across_the_date_line():
    lon = np.array([[179.9, -179.9, -179.7], [0.0, 0.2, 0.4]])
    frame = {"id": np.repeat(["a", "b"], 3), "time": [0, 86400, 172800] * 2}
    import pandas as pd

    table = pd.DataFrame(frame | {"lon": lon.ravel(), "lat": 10.0 + 0 * lon.ravel()})
    data = displacements(db.read(table), 86400.0)
    inputs = place_inputs(data)
    assert inputs.shape == (4, 3)
    apart = np.linalg.norm(np.diff(inputs, axis=0), axis=1)
    assert apart[0] < 0.01 < 1 < apart[1]


@pytest.mark.parametrize("n", [1, 3, 7])
def test_few_trajectories_are_refused(tracks, n):
    few = db.Trajectories.from_arrays(tracks.positions.reshape(16, 51, 2)[:n], dt=0.1)
    with pytest.raises(
        db.DriftbayesError, match=rf"learned density needs 8 trajectories or more, got {n}; score"
    ):
        score_learned(displacements(few, 0.5), unit_hypotheses(), {}, n_folds=2)


def test_too_long_a_tau_is_refused(tracks):
    with pytest.raises(db.DriftbayesError, match="no two successive displacements at tau = 3"):
        score_learned(displacements(tracks, 3.0), unit_hypotheses(), {})


def test_the_extra_is_named_where_optax_is_missing(monkeypatch):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr("driftbayes.learned._training.import_module", missing)
    with pytest.raises(
        db.DriftbayesError, match=r"needs Optax: pip install 'driftbayes\[learned\]'"
    ):
        require_optax()
    monkeypatch.undo()
    assert require_optax() is import_module("optax")


@pytest.mark.parametrize("name", ["learned", "learned:place", "learned:place+memory"])
def test_a_learned_density_has_no_evidence_to_compare(tracks, name):
    with pytest.raises(
        db.DriftbayesError, match="without an evidence; score it beside models with"
    ):
        tracks.compare(tau=0.5, models=f"brownian,{name}")


def test_a_model_without_an_evidence_has_no_score_and_comes_last(scores):
    result = scores.learned
    values = result.held_out.values | {"langevin": np.full(16, np.nan)}
    broken = replace(
        result,
        held_out=replace(result.held_out, values=values),
        sequential=result.sequential | {"langevin": np.nan},
    )
    assert "unknown" in str(broken)
    assert "best: langevin" not in str(broken)
    assert broken.to_json()["sequential"]["langevin"] is None
