"""`driftbayes score`: how well each model predicts trajectories that it has not seen."""

import pytest
from desk import PRIORS
from numpy.testing import assert_allclose

WHOLE = ("prequential", "leave_one_out")


@pytest.fixture(scope="module")
def question(tracks_csv):
    return ("score", tracks_csv, "--tau", "0.1", *PRIORS)


def test_json_adds_up_to_the_evidence(ask, question, tracks_csv):
    answer = ask(*question, "--json")
    assert answer.code == 0
    found = answer.json
    compared = ask("compare", tracks_csv, "--tau", "0.1", *PRIORS, "--json").json
    for name, model in compared["models"].items():
        total = found["prequential"]["models"][name]["total"]
        assert_allclose(total, model["log_evidence"], rtol=0, atol=1e-8)
    gap = found["prequential"]["differences"]["langevin:brownian"]["total"]
    assert_allclose(gap, compared["log_bayes_factors"]["langevin:brownian"], atol=1e-8)
    for kind in WHOLE:
        assert found[kind]["n_trajectories"] == 60
        assert found[kind]["larger_is_better"] is True
        assert found[kind]["warnings"] == []
    left = found["leave_one_out"]["differences"]["langevin:brownian"]
    assert left["mean"] > 5 * left["se"] > 0
    assert_allclose((left["total"], left["total_se"]), (60 * left["mean"], 60 * left["se"]))
    assert found["held_out"] == []
    assert found["data_fingerprint"] == compared["data_fingerprint"]
    assert "not probabilities" in found["remark"]


def test_people_get_a_table_and_are_told_what_it_is_not(ask, question):
    answer = ask(*question)
    title, *rest = answer.out.splitlines()
    assert title == "Scores: log density of 60 trajectories at tau = 0.1, in nats; larger is better"
    text = "\n".join(rest)
    for word in ("sequential (ln Z)", "leave-one-out ± se", "langevin − brownian"):
        assert word in text
    assert rest[-1].strip() == (
        "Scores measure the prediction of held-out trajectories; they are not probabilities."
    )
    assert "CRPS" not in text


def test_displacements_over_other_times_are_scored_on_request(ask, question):
    more = (*question, "--held-out-taus", "0.5,0.1", "--folds", "2")
    found = ask(*more, "--json").json["held_out"]
    assert [(s["tau"], s["rule"]) for s in found] == [
        (tau, rule) for tau in (0.1, 0.5) for rule in ("log density", "CRPS", "energy score")
    ]
    for table in found:
        assert list(table["models"]) == ["brownian", "langevin", "average"]
        n_steps = round(1 / table["tau"])
        assert table["n_predictions"] == 60 * n_steps * (2 if table["rule"] == "CRPS" else 1)
        sign = 1 if table["larger_is_better"] else -1
        gap = table["differences"]["langevin:brownian"]
        if table["tau"] == 0.5:
            # Fitted at 0.1, Brownian motion goes far too slowly.
            assert sign * gap["mean"] > 3 * gap["se"]
        assert table["models"]["langevin"]["se"] > 0
    text = ask(*more, "--time-unit", "h").out
    assert "Displacements of 60 held-out trajectories" in text
    for word in ("time (h)", "CRPS", "energy score", "minus average ± se", "smaller"):
        assert word in text


def test_noisy_tracks_are_scored_too(ask, few_csv):
    brownian = ("--models", "brownian", *PRIORS[:2])
    noisy = ("score", few_csv, "--tau", "0.1", "--noise", "0.01", *brownian, "--json")
    found = ask(*noisy).json
    compared = ask("compare", *noisy[1:]).json
    assert_allclose(
        found["prequential"]["models"]["brownian"]["total"],
        compared["models"]["brownian"]["log_evidence"],
        atol=1e-8,
    )
    assert found["leave_one_out"]["differences"] == {}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("--tau", "x"), "--tau must be a number or a time with its unit, for example 6h, got 'x'"),
        (
            ("--held-out-taus", "0"),
            "--held-out-taus must be positive times separated by commas, got '0'",
        ),
        (("--folds", "1"), "--folds must be 2 or more, got 1"),
        (("--seed", "-1"), "--seed must be a whole number from 0 to 2^63 - 1, got -1"),
    ],
)
def test_slips_are_told_in_one_sentence(ask, question, change, message):
    answer = ask(*question, *change)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == f"driftbayes: {message}\n"


def test_a_single_trajectory_cannot_be_left_out(ask, tmp_path):
    path = tmp_path / "one.csv"
    path.write_text("id,time,x\n" + "".join(f"a,{i},{i % 3}\n" for i in range(11)))
    answer = ask("score", path, "--tau", "1", "--models", "brownian", *PRIORS[:2])
    assert answer.code == 2
    assert answer.err.splitlines()[-1] == (
        "driftbayes: the leave-one-out score needs two or more trajectories, got 1"
    )


@pytest.mark.slow
def test_learned_densities_stand_beside_the_models(ask, question, monkeypatch):
    import driftbayes.learned._scores as scores

    tiny = scores.Training(n_components=2, width=4, n_members=1, max_steps=50, batch=32)
    monkeypatch.setattr(scores, "Training", lambda: tiny)
    answer = ask(*question, "--learned", "--seed", "4")
    assert answer.code == 0
    for words in ("learned:place+memory", "tree:place", "minus brownian ± se", "code length"):
        assert words in answer.out
    found = ask(*question, "--learned", "--seed", "4", "--json").json["learned"]
    assert found["held_out"]["models"].keys() == found["sequential"].keys()
    assert found["seed"] == 4
    assert "Bayes factor" in found["remark"]


def test_an_ensemble_has_no_learned_densities(ask, tracks_csv):
    answer = ask("score", "--ensemble", tracks_csv, "--observed", tracks_csv, "--learned")
    assert answer.code == 2
    assert answer.err == (
        "driftbayes: --ensemble scores ensemble members, not models; omit --learned "
        "(--leads chooses lead times)\n"
    )
