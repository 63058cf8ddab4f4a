"""Bayes factors, model probabilities and the verdict in words."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from driftbayes.comparison import (
    Comparison,
    Scan,
    compare_hypotheses,
    log_bayes_factor,
    model_probabilities,
    strength,
)
from driftbayes.comparison._bayes import comparison_of, log_bayes_factor_err
from driftbayes.comparison._describe import describe_comparison
from driftbayes.comparison._describe_scan import scan_verdict
from driftbayes.data._sampling import Displacements
from driftbayes.errors import DriftbayesError, Status
from driftbayes.inference import QUANTILES, evidence
from made import made_evidence
from verdicts import langevin_data, unit_hypotheses

log_evidences = st.floats(-1e4, 1e4)

# The keys that the issue promises to programs.
TOP_KEYS = {
    *("tau", "n_particles", "n_steps", "n_dim", "data_fingerprint", "method", "models"),
    *("log_bayes_factors", "verdict"),
}
MODEL_KEYS = {
    *("log_evidence", "log_evidence_err", "log_likelihood_at_map", "log_occam_factor", "map"),
    *("posterior_sd", "posterior_mean", "probability", "status", "warnings"),
}


def comparison(*evidences, prior_probabilities=None, sensitivity=(), **units) -> Comparison:
    data = Displacements.from_array(np.ones((2, 3, 1)), 0.5, **units)
    return comparison_of(evidences, data, prior_probabilities, sensitivity)


# Bayes factors


@given(a=log_evidences, b=log_evidences)
def test_the_bayes_factor_is_positive_if_the_data_favour_the_first(a, b):
    m1, m0 = made_evidence("langevin", a), made_evidence("brownian", b)
    assert log_bayes_factor(m1, m0) == a - b
    assert (log_bayes_factor(m1, m0) > 0) == (a > b)


@given(a=log_evidences, b=log_evidences)
def test_the_bayes_factor_changes_sign_with_the_order(a, b):
    m1, m0 = made_evidence("langevin", a), made_evidence("brownian", b)
    assert log_bayes_factor(m1, m0) == -log_bayes_factor(m0, m1)
    assert log_bayes_factor(m1, m1) == 0


@given(a=log_evidences, b=log_evidences, c=log_evidences)
def test_bayes_factors_of_a_chain_add_up(a, b, c):
    m1, m2, m3 = (
        made_evidence(name, value)
        for name, value in zip(("brownian", "langevin", "third"), (a, b, c), strict=True)
    )
    chain = log_bayes_factor(m3, m2) + log_bayes_factor(m2, m1)
    assert_allclose(chain, log_bayes_factor(m3, m1), atol=1e-10)


def test_the_error_of_a_bayes_factor_is_that_of_a_difference():
    m1 = made_evidence("langevin", log_evidence_err=3e-9)
    m0 = made_evidence("brownian", log_evidence_err=4e-9)
    assert_allclose(log_bayes_factor_err(m1, m0), 5e-9)
    assert math.isnan(log_bayes_factor_err(m1, replace(m0, log_evidence_err=math.nan)))


def test_every_pair_is_named_the_later_model_against_the_earlier():
    c = comparison(
        made_evidence("brownian", -5.0),
        made_evidence("langevin", -3.0),
        made_evidence("third", 1.0),
    )
    assert c.log_bayes_factors == {
        "langevin:brownian": 2.0,
        "third:brownian": 6.0,
        "third:langevin": 4.0,
    }
    assert list(c.log_bayes_factor_errs) == list(c.log_bayes_factors)


# Refusals


def test_evidences_of_different_data_are_not_compared():
    m1 = made_evidence("langevin", data_fingerprint="aaaa", tau=0.5)
    m0 = made_evidence("brownian", data_fingerprint="bbbb", tau=0.25)
    expected = (
        "evidences must have the same data, tau and units, got "
        "langevin: aaaa (tau = 0.5), brownian: bbbb (tau = 0.25); "
        "compute them again from one set of displacements"
    )
    for refuse in (
        lambda: log_bayes_factor(m1, m0),
        lambda: model_probabilities([m1, m0]),
        lambda: comparison(m1, m0),
    ):
        with pytest.raises(DriftbayesError) as error:
            refuse()
        assert str(error.value) == expected


@pytest.mark.parametrize(
    "change",
    [
        lambda d: Displacements.from_array(d.as_array() + 1e-9, d.tau),
        lambda d: Displacements.from_array(d.as_array(), d.tau * (1 + 1e-9)),
        lambda d: Displacements.from_array(d.as_array(), d.tau, length_unit="km"),
        lambda d: Displacements.from_array(d.as_array(), d.tau, time_unit="d"),
    ],
    ids=["data", "tau", "length unit", "time unit"],
)
def test_the_fingerprint_of_real_evidences_tells_data_apart(change):
    brownian, langevin = unit_hypotheses()
    data = langevin_data(0.1)
    m1, m0 = evidence(langevin, data), evidence(brownian, change(data))
    with pytest.raises(DriftbayesError, match="must have the same data, tau and units"):
        log_bayes_factor(m1, m0)
    assert math.isfinite(log_bayes_factor(m1, evidence(brownian, data)))


@pytest.mark.parametrize("names", [(), ("brownian", "brownian")])
def test_hypotheses_must_have_names_of_their_own(names):
    brownian = unit_hypotheses()[0]
    with pytest.raises(DriftbayesError, match="one or more hypotheses of different models, got"):
        compare_hypotheses([brownian for _ in names], langevin_data(0.1))


# Probabilities


@given(
    logs=st.lists(st.floats(-300, 300), min_size=1, max_size=3),
    weights=st.lists(st.floats(0.01, 100), min_size=3, max_size=3),
)
def test_probabilities_are_the_normalised_products_of_evidence_and_prior(logs, weights):
    names = ("brownian", "langevin", "third")[: len(logs)]
    many = [made_evidence(name, value) for name, value in zip(names, logs, strict=True)]
    for prior in (None, weights[: len(logs)]):
        direct = [
            math.exp(value - max(logs)) * w
            for value, w in zip(logs, prior or [1.0] * len(logs), strict=True)
        ]
        direct = np.array(direct) / math.fsum(direct)
        found = model_probabilities(many, prior)
        assert_allclose(found, direct, rtol=1e-12, atol=1e-300)
        assert_allclose(found.sum(), 1.0, rtol=1e-12)


def test_prior_odds_times_bayes_factor_are_posterior_odds():
    c = comparison(
        made_evidence("brownian", 0.0),
        made_evidence("langevin", math.log(6)),
        prior_probabilities=[0.75, 0.25],
    )
    assert_allclose(c.probabilities["langevin"] / c.probabilities["brownian"], 6 * 0.25 / 0.75)
    assert c.best == "langevin"


def test_prior_probabilities_need_not_sum_to_one():
    many = [made_evidence("brownian", 0.0), made_evidence("langevin", 1.0)]
    assert_allclose(model_probabilities(many, [3, 1]), model_probabilities(many, [0.75, 0.25]))


@pytest.mark.parametrize("wrong", [[1], [1, 0], [1, -1], [1, math.nan], [1, math.inf], [1, 1, 1]])
def test_prior_probabilities_must_be_one_positive_number_per_model(wrong):
    many = [made_evidence("brownian"), made_evidence("langevin")]
    with pytest.raises(DriftbayesError, match="must be 2 positive numbers, one per model, got"):
        model_probabilities(many, wrong)


def test_no_evidences_have_no_probabilities():
    with pytest.raises(DriftbayesError, match="one or more evidences, got none"):
        model_probabilities([])


def test_a_model_without_evidence_has_no_probability_and_takes_none():
    many = [made_evidence("brownian", math.nan), made_evidence("langevin", -3.0)]
    found = model_probabilities(many)
    assert math.isnan(found[0])
    assert found[1] == 1
    nothing = [made_evidence("brownian", math.nan), made_evidence("langevin", -math.inf)]
    assert np.isnan(model_probabilities(nothing)).all()


# The scale of Kass and Raftery


@pytest.mark.parametrize(
    ("log_k", "word"),
    [
        (0.0, "indistinguishable"),
        (np.nextafter(1.0, 0), "indistinguishable"),
        (1.0, "positively"),
        (np.nextafter(3.0, 0), "positively"),
        (3.0, "strongly"),
        (np.nextafter(5.0, 0), "strongly"),
        (5.0, "very strongly"),
        (1e300, "very strongly"),
        (math.inf, "very strongly"),
    ],
)
def test_strength_follows_twice_ln_k_of_2_6_and_10(log_k, word):
    assert strength(log_k) == strength(-log_k) == word


def test_the_strength_of_an_unknown_bayes_factor_is_unknown():
    assert strength(math.nan) == "unknown"


# The verdict


@pytest.mark.parametrize(
    ("gap", "expected"),
    [
        (13709.4, "langevin is very strongly favoured over brownian at tau = 0.5 (ln K = 13710)"),
        (2959.01, "langevin is very strongly favoured over brownian at tau = 0.5 (ln K = 2959)"),
        (3.25, "langevin is strongly favoured over brownian at tau = 0.5 (ln K = 3.25)"),
        (1.5, "langevin is positively favoured over brownian at tau = 0.5 (ln K = 1.5)"),
        (-7.0, "brownian is very strongly favoured over langevin at tau = 0.5 (ln K = 7)"),
        (
            0.25,
            "brownian and langevin are indistinguishable at tau = 0.5 (ln K = 0.25, below 1)",
        ),
        (
            -0.25,
            "langevin and brownian are indistinguishable at tau = 0.5 (ln K = 0.25, below 1)",
        ),
    ],
)
def test_the_verdict_says_who_is_favoured_and_how_strongly(gap, expected):
    c = comparison(made_evidence("brownian", -10.0), made_evidence("langevin", -10.0 + gap))
    assert c.verdict == expected
    assert repr(c) == f"<Comparison: {expected}>"


def test_the_verdict_names_the_unit_of_tau():
    c = comparison(made_evidence("brownian"), time_unit="days")
    assert c.verdict == "brownian is the only model considered at tau = 0.5 days"


def test_a_single_model_gets_no_bayes_factor():
    c = comparison(made_evidence("langevin"))
    assert c.verdict == "langevin is the only model considered at tau = 0.5"
    assert c.log_bayes_factors == {}
    assert c.probabilities == {"langevin": 1.0}


def test_the_verdict_of_three_models_is_between_the_best_two():
    c = comparison(
        made_evidence("brownian", 0.0), made_evidence("langevin", 9.0), made_evidence("third", 6.5)
    )
    assert c.verdict.startswith("langevin is positively favoured over third at tau = 0.5")


def test_all_models_that_cannot_be_told_apart_are_named():
    c = comparison(
        made_evidence("brownian", 0.1), made_evidence("langevin", 0.5), made_evidence("third", 0.0)
    )
    assert c.verdict == (
        "third, brownian and langevin are indistinguishable at tau = 0.5 (ln K = 0.50, below 1)"
    )


def test_the_verdict_names_what_is_not_identifiable():
    langevin = made_evidence("langevin", -10.5, contraction={"gamma": 0.49, "k": 0.5})
    c = comparison(made_evidence("brownian"), langevin)
    assert c.verdict.endswith("below 1); not identifiable: gamma of langevin")
    unknown = made_evidence("langevin", contraction={"gamma": math.nan, "k": 0.1})
    assert comparison(unknown).verdict.endswith(
        "; not identifiable: gamma of langevin, k of langevin"
    )


def test_the_verdict_does_not_call_an_upper_limit_unidentifiable():
    limit = made_evidence(
        "langevin",
        contraction={"gamma": 0.1, "k": 0.2},
        posterior_quantiles={"k": np.linspace(0.0, 0.1, len(QUANTILES))},
    )
    assert comparison(limit).verdict.endswith(
        "; not identifiable: gamma of langevin; consistent with zero: k of langevin"
    )


def test_models_with_an_evidence_are_ranked_and_the_others_named():
    lost = made_evidence("langevin+student", math.nan, status=Status.UNBOUNDED_DENSITY)
    brownian, langevin = made_evidence("brownian"), made_evidence("langevin", 0.0)
    c = comparison(brownian, lost, langevin)
    assert c.verdict == (
        "among the 2 models with an evidence, langevin is very strongly favoured over brownian at "
        "tau = 0.5 (ln K = 10); langevin+student: unbounded density"
    )
    assert c.best == "langevin"
    assert c.to_json()["verdict"] == c.verdict == describe_comparison(c).headline
    # Neither a misfit nor a doubt of the others is lost.
    p_values = {"brownian": 0.002, "langevin": 0.004}
    doubtful = replace(c, fit_p_values=p_values, doubts=("noise could explain it",))
    assert doubtful.verdict.endswith(
        "(ln K = 10), but none explains the data (goodness of fit p = 0.004); langevin+student: "
        "unbounded density; noise could explain it"
    )


def test_one_evidence_left_is_no_ranking_and_none_no_verdict():
    lost = made_evidence("langevin", math.nan, status=Status.NOT_FINITE)
    c = comparison(made_evidence("brownian"), lost)
    only = "brownian is the only model with an evidence at tau = 0.5; langevin: not finite"
    assert c.verdict == only
    assert c.best == "brownian"
    unknown = made_evidence("brownian", -math.inf)
    assert comparison(unknown, lost).verdict == (
        "no verdict at tau = 0.5, no model has an evidence; brownian: no finite evidence; "
        "langevin: not finite"
    )


def test_the_verdict_admits_doubts():
    langevin = made_evidence("langevin", 0.0, status=Status.LAPLACE_UNRELIABLE)
    assert comparison(made_evidence("brownian"), langevin).verdict.endswith(
        "(ln K = 10); with doubts about langevin, see the warnings"
    )


@pytest.mark.parametrize(
    ("gap", "error", "expected"),
    [
        (3.2, 0.1, "langevin is strongly favoured over brownian at tau = 0.5 (ln K = 3.2)"),
        (
            3.2,
            1.5,
            "langevin is at least positively favoured over brownian at tau = 0.5 "
            "(ln K = 3.20 ± 1.50)",
        ),
        (
            6.0,
            1.2,
            "langevin is at least strongly favoured over brownian at tau = 0.5 "
            "(ln K = 6.00 ± 1.20)",
        ),
        (
            1.5,
            2.5,
            "brownian and langevin cannot be distinguished within the error of ln K at tau = 0.5 "
            "(ln K = 1.50 ± 2.50)",
        ),
        (0.5, 2.0, "brownian and langevin are indistinguishable at tau = 0.5 (ln K = 0.50, below"),
        (3.2, math.nan, "langevin is strongly favoured over brownian at tau = 0.5 (ln K = 3.2)"),
    ],
)
def test_the_word_of_the_verdict_considers_the_error_of_the_bayes_factor(gap, error, expected):
    langevin = made_evidence("langevin", -10.0 + gap, log_evidence_err=error)
    assert comparison(made_evidence("brownian"), langevin).verdict.startswith(expected)


def dependent(log_k, scaled):
    c = comparison(made_evidence("brownian", -10.0), made_evidence("langevin", -10.0 + log_k))
    known = {"n_effective": 1.02, "n_particles": 40, "inflation": 39.0}
    return replace(
        c, dependence={**known, "scaled_log_bayes_factors": {"langevin:brownian": scaled}}
    )


@pytest.mark.parametrize(
    ("log_k", "scaled", "expected"),
    [
        (
            1604.0,
            41.0,
            "langevin is very strongly favoured over brownian at tau = 0.5 (ln K = 1604 ",
        ),
        (50.0, 1.3, "langevin is positively favoured over brownian at tau = 0.5 (ln K = 50 "),
        (30.0, 0.7, "brownian and langevin are indistinguishable at tau = 0.5 (ln K = 30 "),
        (30.0, -2.0, "brownian and langevin are indistinguishable at tau = 0.5 (ln K = 30 "),
        (-50.0, -1.3, "brownian is positively favoured over langevin at tau = 0.5 (ln K = 50 "),
    ],
)
def test_the_verdict_corrects_for_particles_that_move_together(log_k, scaled, expected):
    found = dependent(log_k, scaled)
    corrected = scaled if log_k > 0 else -scaled
    assert found.verdict == (
        f"{expected}as if particles were independent, about {corrected:.3g} corrected for 1.02 "
        "effective particles of 40)"
    )
    assert found.to_json()["verdict"] == found.verdict
    assert found.verdict in repr(found)
    assert describe_comparison(found).headline == found.verdict


def test_the_verdict_names_the_models_of_the_shared_motion():
    known = dependent(1604.0, 41.0)
    models = ["brownian+common", "langevin+common"]
    found = replace(known, dependence={**known.dependence, "models": models})
    assert found.missing_models == tuple(models)
    assert found.verdict.endswith(
        "effective particles of 40; brownian+common, langevin+common model the shared motion)"
    )


def test_the_verdict_states_ln_k_both_ways():
    evidences = {
        "brownian": -1700.0,
        "langevin": -96.0,
        "matern": -90.0,
        "brownian+common": -250.0,
        "langevin+common": -17.0,
        "brownian+flow": -30.0,
        "langevin+flow": -32.5,
    }
    found = comparison(*(made_evidence(name, log_z) for name, log_z in evidences.items()))
    assert found.shared_motion == {
        "langevin:brownian": {"independent": 1604.0, "common": 233.0, "flow": -2.5}
    }
    both = (
        "langevin over brownian: treated as independent ln K = 1604; with shared motion (+common) "
        "ln K = 233; with shared motion (+flow) ln K = -2.5"
    )
    assert both in found.verdict
    assert found.to_json()["shared_motion"] == found.shared_motion
    assert both in describe_comparison(found).headline
    assert both in scan_verdict(Scan((found,)))[0]
    one_way = comparison(made_evidence("brownian"), made_evidence("langevin+common", -5.0))
    assert "treated as independent" not in one_way.verdict
    assert "shared_motion" not in one_way.to_json()


def test_the_verdict_says_if_the_goodness_of_fit_contradicts_the_best_model():
    c = comparison(made_evidence("brownian", -10.0), made_evidence("langevin", -6.0))
    plain = c.verdict
    assert replace(c, fit_p_values={"brownian": 0.002, "langevin": 0.4}).verdict == plain
    none = replace(c, fit_p_values={"brownian": 0.002, "langevin": 0.004})
    assert none.verdict == (
        f"among the models compared, {plain}, but none explains the data "
        "(goodness of fit p = 0.004)"
    )
    best = replace(c, fit_p_values={"brownian": 0.3, "langevin": 0.004})
    assert "(ln K = 4), but langevin does not explain the data (" in best.verdict
    # Of a model that was not checked nothing is said.
    some = replace(c, fit_p_values={"langevin": 0.004})
    assert ", but langevin does not explain the data (" in some.verdict
    assert none.to_json()["fit_p_values"] == {"brownian": 0.002, "langevin": 0.004}


def test_the_verdict_says_that_a_prior_is_in_conflict_with_the_data():
    text = "prior and data are in conflict: kappa = 3 has a prior probability below 0.001"
    c = comparison(made_evidence("brownian", warnings=(text,)), made_evidence("langevin", 0.0))
    assert c.verdict.endswith("(ln K = 10); prior and data are in conflict for brownian")


def test_the_verdict_names_other_explanations():
    c = comparison(made_evidence("brownian"), made_evidence("langevin", -6.0))
    doubtful = replace(c, doubts=("measurement error could explain it",))
    assert doubtful.verdict == f"{c.verdict}; measurement error could explain it"
    assert doubtful.to_json()["doubts"] == ["measurement error could explain it"]


# For programs


def test_json_has_the_promised_keys():
    c = comparison(made_evidence("brownian"), made_evidence("langevin"), length_unit="m")
    found = json.loads(json.dumps(c.to_json(), allow_nan=False))
    assert set(found) >= TOP_KEYS
    assert list(found["models"]) == ["brownian", "langevin"]
    for name, parameters in (("brownian", {"kappa"}), ("langevin", {"gamma", "k"})):
        assert set(found["models"][name]) >= MODEL_KEYS
        for key in ("map", "posterior_sd", "posterior_mean"):
            assert set(found["models"][name][key]) == parameters
    assert list(found["log_bayes_factors"]) == ["langevin:brownian"]
    assert (found["n_particles"], found["n_steps"]) == (2, 3)
    assert found["length_unit"] == "m"
    assert "prior_sensitivity" not in found


def test_json_has_null_for_what_is_not_finite():
    nan = math.nan
    langevin = made_evidence(
        "langevin",
        nan,
        log_evidence_err=nan,
        map={"gamma": nan, "k": math.inf},
        contraction={"gamma": nan, "k": nan},
    )
    rows = ({"scaled": ["k"], "factor": 4.0, "log_bayes_factors": {"langevin:brownian": nan}},)
    c = comparison(made_evidence("brownian"), langevin, sensitivity=rows)
    found = json.loads(json.dumps(c.to_json(), allow_nan=False))
    model = found["models"]["langevin"]
    assert model["log_evidence"] is None
    assert model["log_occam_factor"] is None
    assert model["map"] == {"gamma": None, "k": None}
    assert model["probability"] is None
    assert found["log_bayes_factors"] == {"langevin:brownian": None}
    assert found["prior_sensitivity"][0]["log_bayes_factors"] == {"langevin:brownian": None}


# The paper's data


def test_langevin_data_at_short_tau_are_told_from_brownian_ones():
    c = compare_hypotheses(unit_hypotheses(), langevin_data(0.1))
    assert c.verdict.startswith("langevin is very strongly favoured over brownian at tau = 0.1")
    assert c.log_bayes_factors["langevin:brownian"] > 1000
    langevin = c.evidences["langevin"]
    assert langevin.status is Status.OK
    for name in ("gamma", "k"):
        assert abs(langevin.posterior_mean[name] - 1) < 4 * langevin.posterior_sd[name]
    assert c.probabilities["langevin"] == 1
    assert (c.n_particles, c.n_steps, c.n_dim, c.n_displacements) == (100, 10, 3, 3000)


def test_langevin_data_at_long_tau_are_as_brownian_as_can_be():
    c = compare_hypotheses(unit_hypotheses(), langevin_data(50.0))
    assert "are indistinguishable at tau = 50" in c.verdict
    assert c.verdict.endswith("not identifiable: gamma of langevin")
    assert c.evidences["langevin"].unidentified_parameters == ("gamma",)
    for name in ("brownian", "langevin"):
        assert 0.2 < c.probabilities[name] < 0.8
    # The diffusivity is known, and the same in both models.
    kappa, k = c.evidences["brownian"], c.evidences["langevin"]
    assert abs(kappa.posterior_mean["kappa"] - 1) < 4 * kappa.posterior_sd["kappa"]
    assert_allclose(k.posterior_mean["k"], kappa.posterior_mean["kappa"], rtol=0.05)


def test_the_order_of_hypotheses_changes_names_and_nothing_else():
    forward = compare_hypotheses(unit_hypotheses(), langevin_data(0.1))
    backward = compare_hypotheses(unit_hypotheses()[::-1], langevin_data(0.1))
    assert backward.log_bayes_factors == {
        "brownian:langevin": -forward.log_bayes_factors["langevin:brownian"]
    }
    assert backward.verdict == forward.verdict
