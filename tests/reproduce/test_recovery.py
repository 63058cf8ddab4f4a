"""The model that made the data is found, and its parameters lie where their posteriors say."""

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose

from driftbayes.errors import DriftbayesError
from driftbayes.models import MODELS, model_named
from driftbayes.reproduce import recovery
from driftbayes.reproduce.recovery import (
    GROUPS,
    Group,
    GroupResult,
    Recovery,
    run_recovery,
)
from driftbayes.reproduce.study import Runner

SMALL = Group(
    "small",
    {
        "brownian": {"kappa": 1.0},
        "langevin": {"gamma": 1.0, "k": 1.0},
        "confined_brownian": {"well": 0.5, "kappa": 1.0},
    },
    n_particles=200,
    n_steps=10,
)


@pytest.fixture(scope="module")
def found():
    return run_recovery(4, 0, groups=[SMALL])


@pytest.mark.slow
def test_the_model_that_made_the_data_is_found(found):
    (result,) = found.results
    assert result.names == ("brownian", "langevin", "confined_brownian")
    assert_allclose(result.matrix.sum(axis=1), 1.0)
    assert (np.diag(result.matrix) > 0.8).all()
    # Doubts are listed, not hidden: here of a well that Brownian data say nothing of.
    assert all(truth != candidate for truth, _, candidate in result.doubtful)


@pytest.mark.slow
def test_true_parameters_lie_within_their_intervals_as_often_as_they_should(found):
    for nominal, (inside, n, error) in zip((0.68, 0.95), found.coverage().values(), strict=True):
        assert n == 4 * 5
        assert abs(inside / n - nominal) < 4 * error


@pytest.mark.slow
def test_files_hold_the_numbers(found, tmp_path):
    numbers, picture, document = found.write(tmp_path)
    content = json.loads(numbers.read_text())
    assert_allclose(content["groups"]["small"]["mean_probability"], found.results[0].matrix)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert document.read_bytes().startswith(b"%PDF")


@pytest.mark.slow
def test_same_seed_gives_the_same_numbers_and_another_does_not(found):
    one = Group("small", {"brownian": {"kappa": 1.0}}, n_particles=200, n_steps=10)
    first, again, other = (run_recovery(1, s, groups=[one]) for s in (0, 0, 1))
    assert first.to_json() == again.to_json()
    assert first.results[0].log_evidence != other.results[0].log_evidence


@pytest.mark.slow
def test_a_run_that_was_stopped_goes_on_with_what_it_kept(found, tmp_path, monkeypatch):
    first = run_recovery(4, 0, groups=[SMALL], runner=Runner(tmp_path))
    assert first.to_json() == found.to_json()
    (tmp_path / "evidence" / "small-langevin.json").write_text("{ cut short")
    computed = []
    judged = recovery._compute_evidences
    monkeypatch.setattr(
        recovery, "_compute_evidences", lambda h, data: computed.append(h.name) or judged(h, data)
    )
    again = run_recovery(4, 0, groups=[SMALL], runner=Runner(tmp_path))
    assert again.to_json() == first.to_json()
    assert computed == ["langevin"]
    # Other data: nothing that was kept is used.
    run_recovery(4, 1, groups=[SMALL], runner=Runner(tmp_path))
    assert computed == ["langevin", *SMALL.truths]


def test_confusions_and_coverage_are_counted_right():
    group = Group("made up", {"a": {}, "b": {}, "c": {}}, 1, 1)
    # a is never told from b; b and c are certain.
    logs = np.array(
        [[[0.0, 0.0, -50.0]] * 2, [[-50.0, 0.0, -50.0]] * 2, [[-9.0, -np.inf, 0.0]] * 2]
    )
    counts = {"a": {"p": {"68%": 1, "95%": 2}}, "b": {"p": {"68%": 2, "95%": 2}}}
    result = GroupResult(group, logs, np.zeros_like(logs), counts)
    assert result.confusions() == [("a", "b", 0.5)]
    assert_allclose(result.matrix[0], [0.5, 0.5, 0.0], atol=1e-12)
    table = Recovery((result,), 0).coverage()
    assert table["68%"] == pytest.approx((3, 4, np.sqrt(0.68 * 0.32 / 4)))
    assert table["95%"] == pytest.approx((4, 4, np.sqrt(0.95 * 0.05 / 4)))


def test_groups_name_every_plain_model_and_all_their_parameters():
    named = {name for group in GROUPS for name in group.truths}
    assert named >= set(MODELS)
    for group in GROUPS:
        for name, theta in group.truths.items():
            assert set(theta) == set(model_named(name, MODELS).parameters)


def test_no_data_sets_are_refused():
    with pytest.raises(DriftbayesError, match="n_seeds must be 1 or more, got 0"):
        run_recovery(0)
