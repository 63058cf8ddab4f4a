"""A scan is many comparisons made at once, and what they say together."""

import json
from dataclasses import replace

import numpy as np
import pytest
import xarray as xr
from numpy.testing import assert_allclose, assert_array_equal

from driftbayes.comparison import Scan, compare_hypotheses, scan_displacements, scan_hypotheses
from driftbayes.comparison._describe_scan import describe_scan, scan_verdict
from driftbayes.data._sampling import Cut, displacements
from driftbayes.data._trajectories import Trajectories
from driftbayes.errors import DriftbayesError, Status
from driftbayes.inference import QUANTILES
from driftbayes.io import read_scan, write_scan
from verdicts import N_STEPS, TAUS, langevin_data, langevin_tracks, unit_hypotheses

NUMBERS = (
    *("log_evidence", "log_likelihood_at_map", "log_occam_factor", "information_gain"),
    "log_evidence_err",
)
OF_PARAMETERS = ("map", "posterior_mean", "posterior_sd", "log_mean", "log_sd", "contraction")


@pytest.fixture(scope="module")
def tracks():
    return langevin_tracks(length_unit="km", time_unit="h")


@pytest.fixture(scope="module")
def result(tracks):
    return scan_hypotheses(tracks, unit_hypotheses(), TAUS, cut=Cut(N_STEPS))


@pytest.fixture(scope="module")
def laplace(tracks):
    return scan_hypotheses(tracks, unit_hypotheses(), TAUS, cut=Cut(N_STEPS), method="laplace")


# Many comparisons at once


@pytest.mark.parametrize("index", range(len(TAUS)))
def test_a_scan_is_a_comparison_at_each_tau(result, tracks, index):
    data = displacements(tracks, TAUS[index], n_tau=N_STEPS)
    alone, here = compare_hypotheses(unit_hypotheses(), data), result.comparisons[index]
    assert here.tau == alone.tau
    assert here.data_fingerprint == alone.data_fingerprint
    assert here.verdict == alone.verdict
    assert (here.n_particles, here.n_steps, here.n_dim) == (100, N_STEPS, 2)
    for model, expected in alone.evidences.items():
        found = here.evidences[model]
        assert found.status is expected.status is Status.OK
        for name in NUMBERS[:-1]:
            assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-10)
        for name in ("posterior_mean", "posterior_sd", "log_mean", "log_sd"):
            for parameter, value in getattr(expected, name).items():
                assert_allclose(getattr(found, name)[parameter], value, rtol=1e-10, atol=1e-12)
        for parameter, value in expected.map.items():
            # A mode is found to the square root of the accuracy of what it maximises.
            assert_allclose(found.map[parameter], value, rtol=1e-7)
        assert_allclose(here.probabilities[model], alone.probabilities[model], atol=1e-10)


def test_the_method_reaches_every_comparison(laplace, tracks):
    assert {c.method for c in laplace.comparisons} == {"laplace (natural)"}
    data = displacements(tracks, TAUS[1], n_tau=N_STEPS)
    alone = compare_hypotheses(unit_hypotheses(), data, method="laplace")
    assert_allclose(
        laplace.comparisons[1].log_bayes_factors["langevin:brownian"],
        alone.log_bayes_factors["langevin:brownian"],
        rtol=1e-10,
    )
    log = scan_hypotheses(
        tracks, unit_hypotheses(), TAUS, cut=Cut(N_STEPS), method="laplace", coords="log"
    )
    assert {c.method for c in log.comparisons} == {"laplace (log)"}


def test_prior_probabilities_reach_every_comparison(tracks):
    odds = [1.0, 1e-300]
    result = scan_hypotheses(
        tracks, unit_hypotheses(), TAUS, cut=Cut(N_STEPS), prior_probabilities=odds
    )
    for c in result.comparisons:
        log_odds = c.log_bayes_factors["langevin:brownian"] + np.log(1e-300)
        assert_allclose(c.probabilities["langevin"], 1 / (1 + np.exp(-log_odds)), rtol=1e-9)
    assert json.loads(result.attributes["options"])["prior_probabilities"] == odds


def test_gamma_and_k_are_recovered_at_every_tau(result):
    for record in result.evidences("langevin"):
        for name in ("gamma", "k"):
            assert abs(record.posterior_mean[name] - 1) < 4 * record.posterior_sd[name]


def test_langevin_data_are_consistent_under_langevin_and_not_under_brownian(result):
    for name in ("gamma", "k"):
        found = result.consistency["langevin"][name]
        assert (found.tau_min, found.tau_max, found.n_taus) == (TAUS[0], TAUS[-1], len(TAUS))
        assert abs(found.value - 1) < 0.2
    assert result.consistency["brownian"] == {"kappa": None}
    assert result.sentences["brownian"].startswith("brownian is not sampling-time consistent")
    assert "consistent for tau from 0.1 h to 0.5 h" in result.sentences["langevin"]


def test_doubts_survive_a_file_and_are_told_with_the_verdict(tracks):
    result = scan_hypotheses(tracks, unit_hypotheses(), TAUS, cut=Cut(10))
    known = {"n_effective": 2.0, "n_particles": 100, "inflation": 50.0, "sentence": "together"}
    known["scaled_log_bayes_factors"] = {"langevin:brownian": 4.2}
    first, *others = result.comparisons
    doubtful = replace(
        first,
        dependence=known,
        fit_p_values={"brownian": 0.001, "langevin": 0.002},
        doubts=("blur could explain it",),
    )
    scan = replace(result, comparisons=(doubtful, *others))
    again = Scan.from_dataset(scan.to_dataset())
    assert again.comparisons[0].verdict == doubtful.verdict
    assert again.comparisons[1].verdict == others[0].verdict
    sentence, *_ = scan_verdict(again)
    assert sentence.startswith("Among the models compared, langevin is the most probable model at ")
    assert "but none explains the data (goodness of fit p = 0.002) at τ = 0.1" in sentence
    assert "as if particles were independent, about 4.2 corrected for 2 effective" in sentence
    assert "blur could explain it" in sentence
    assert sentence in describe_scan(again).sentences
    assert "doubts" not in scan_verdict(result)[0]


def test_a_scan_names_models_without_an_evidence(tracks):
    result = scan_hypotheses(tracks, unit_hypotheses(), TAUS, cut=Cut(10))
    n = len(result.comparisons)

    def losing(comparison, model):
        lost = replace(
            comparison[model], log_evidence=np.nan, status=Status.UNBOUNDED_DENSITY, warnings=()
        )
        chances = {name: float(name != model) for name in comparison.probabilities}
        evidences = {**comparison.evidences, model: lost}
        return replace(comparison, evidences=evidences, probabilities=chances)

    first, *others = result.comparisons
    one = replace(result, comparisons=(losing(first, "brownian"), *others))
    told = " ".join(describe_scan(one).sentences)
    assert f"; brownian: unbounded density at 1 of {n} sampling times." in told
    sentence, *rest = scan_verdict(one)
    assert sentence.startswith("Among the models with an evidence, langevin is the most probable")
    assert not any("evidence is uncertain" in text for text in rest)
    all_lost = replace(
        result,
        comparisons=tuple(losing(losing(c, "brownian"), "langevin") for c in result.comparisons),
    )
    assert scan_verdict(all_lost)[0].startswith("No verdict at sampling times from 0.1 h to ")


# Which sampling times


def test_requested_taus_are_snapped_and_merged(tracks):
    requested = [0.5, 0.101, 0.1, 0.19, 0.2, 0.31, 0.4, 0.42, 1e-9]
    assert_allclose(
        scan_hypotheses(tracks, unit_hypotheses(), requested, cut=Cut(10)).taus, TAUS, rtol=1e-12
    )


def test_a_tau_that_the_trajectories_are_too_short_for_is_skipped_with_its_reason(tracks):
    result = scan_hypotheses(tracks, unit_hypotheses(), [*TAUS, 0.6, 5.0], cut=Cut(N_STEPS))
    assert_allclose(result.taus, TAUS)
    assert_allclose(list(result.skipped), [0.6, 5.0])
    assert next(iter(result.skipped.values())) == (
        "no trajectory has 10 successive steps at tau = 0.6 h, the longest has 8; "
        "use a smaller tau or n_tau"
    )


def test_if_nothing_is_left_the_first_reason_is_the_error(tracks):
    with pytest.raises(DriftbayesError, match=r"at tau = 1 h, the longest has 5; use a smaller"):
        scan_hypotheses(tracks, unit_hypotheses(), [1.0, 2.0], cut=Cut(N_STEPS))


def test_taus_must_be_positive_numbers(tracks):
    for wrong in ([], [0.1, -1.0], [np.nan]):
        with pytest.raises(DriftbayesError, match="sampling times must be positive numbers"):
            scan_hypotheses(tracks, unit_hypotheses(), wrong)


def test_irregular_times_have_no_taus():
    tracks = Trajectories.from_arrays(
        np.random.default_rng(0).normal(size=(2, 3, 1)), times=[0, 1, 3.5]
    )
    with pytest.raises(DriftbayesError, match="times are irregular"):
        scan_hypotheses(tracks, unit_hypotheses(), [1.0])


# Which displacements


def test_whole_trajectories_are_used_unless_n_tau_is_given():
    short = langevin_tracks(n_positions=N_STEPS + 1)
    result = scan_hypotheses(short, unit_hypotheses(), TAUS)
    assert [c.n_steps for c in result.comparisons] == [10, 5, 3, 2, 2]
    assert [c.n_displacements for c in result.comparisons] == [2000, 1000, 600, 400, 400]


def test_all_windows_hold_more_data_than_the_first(tracks, result):
    every = scan_hypotheses(tracks, unit_hypotheses(), TAUS, cut=Cut(N_STEPS, "all"))
    # 50, 25, 16, 12 and 10 steps hold so many windows of ten.
    n_windows = np.array([5, 2, 1, 1, 1])
    assert_array_equal(
        [c.n_displacements for c in every.comparisons], 100 * N_STEPS * 2 * n_windows
    )
    assert [c.n_displacements for c in result.comparisons] == [2000] * 5
    assert (
        every.evidences("langevin")[0].posterior_sd["gamma"]
        < (result.evidences("langevin")[0].posterior_sd["gamma"])
    )
    options = json.loads(every.attributes["options"])
    assert (options["n_tau"], options["windows"], options["gaps"]) == (N_STEPS, "all", "split")


@pytest.fixture(scope="module")
def few():
    """Few enough for the state-space engine to be compiled for one small shape."""
    return langevin_tracks(n_particles=8)


def bayes_factors(result):
    return [c.log_bayes_factors["langevin:brownian"] for c in result.comparisons]


def test_kept_gaps_are_no_gaps_if_there_are_none(few):
    keep = Cut(N_STEPS, gaps="keep")
    split = scan_hypotheses(few, unit_hypotheses(), TAUS, cut=Cut(N_STEPS))
    kept = scan_hypotheses(few, unit_hypotheses(), TAUS, cut=keep)
    assert bayes_factors(kept) == bayes_factors(split)
    # Errors of zero send the same data through the state-space engine.
    exact = replace(few, position_sd=np.zeros(len(few.times)))
    kalman = scan_hypotheses(exact, unit_hypotheses(), TAUS, cut=keep)
    assert_allclose(bayes_factors(kalman), bayes_factors(split), rtol=1e-9)
    for one, other in zip(kalman.evidences("langevin"), split.evidences("langevin"), strict=True):
        assert_allclose(one.posterior_mean["gamma"], other.posterior_mean["gamma"], rtol=1e-7)


def test_a_gap_is_split_or_kept(few):
    positions = few.positions.copy()
    positions[5::51] = np.nan
    holes = replace(few, positions=positions)
    # Split, five steps are followed by a run of 44, which holds a window of ten.
    split = displacements(holes, 0.1, n_tau=N_STEPS)
    data = displacements(holes, 0.1, n_tau=N_STEPS, gaps="keep")
    assert (split.is_regular, data.is_regular) == (True, False)
    kept = scan_hypotheses(holes, unit_hypotheses(), [0.1], cut=Cut(N_STEPS, gaps="keep"))
    assert kept.comparisons[0].data_fingerprint == data.fingerprint != split.fingerprint
    alone = compare_hypotheses(unit_hypotheses(), data)
    assert_allclose(bayes_factors(kept), alone.log_bayes_factors["langevin:brownian"], rtol=1e-10)


# From displacements


def test_data_sets_may_come_in_any_order(result, tracks):
    many = [displacements(tracks, tau, n_tau=N_STEPS) for tau in TAUS[::-1]]
    backward = scan_displacements(many, unit_hypotheses())
    assert_allclose(backward.taus, TAUS)
    assert_allclose(bayes_factors(backward), bayes_factors(result), rtol=1e-12)


@pytest.mark.parametrize("n", [0, 2])
def test_hypotheses_are_checked_as_in_a_comparison(tracks, n):
    brownian = unit_hypotheses()[0]
    for refuse in (
        lambda: scan_hypotheses(tracks, [brownian] * n, TAUS, cut=Cut(N_STEPS)),
        lambda: scan_displacements([langevin_data(0.1)], [brownian] * n),
    ):
        with pytest.raises(DriftbayesError, match="one or more hypotheses of different models"):
            refuse()


def test_no_data_sets_are_no_scan():
    with pytest.raises(DriftbayesError, match="one or more sets of displacements, got none"):
        scan_displacements([], unit_hypotheses())


def test_one_model_has_no_pairs(tracks):
    alone = scan_hypotheses(tracks, unit_hypotheses()[1:], TAUS, cut=Cut(N_STEPS))
    dataset = alone.to_dataset()
    assert alone.models == ("langevin",)
    assert "pair" not in dataset.dims
    assert "log_bayes_factor" not in dataset
    assert_array_equal(dataset["probability"], 1.0)


# Progress


def test_progress_is_told_of_every_step(tracks):
    told = []
    scan_hypotheses(
        tracks,
        unit_hypotheses(),
        [*TAUS, 5.0],
        cut=Cut(N_STEPS),
        progress=lambda *news: told.append(news),
    )
    assert [news for news in told if news[0] == "displacements"] == [
        ("displacements", i + 1, 6) for i in range(6)
    ]
    evidence = [news[1:] for news in told if news[0] == "evidence"]
    assert evidence == [(5, 10), (10, 10)]


# For programs and for files


def test_json_is_a_list_of_comparisons_with_the_consistency_of_all(result):
    found = json.loads(json.dumps(result.to_json(), allow_nan=False))
    assert [one["tau"] for one in found] == result.taus.tolist()
    consistency = found[0]["consistency"]
    assert all(one["consistency"] == consistency for one in found)
    assert consistency["brownian"]["kappa"] is None
    assert set(consistency["langevin"]) == {"gamma", "k", "sentence"}
    assert set(consistency["langevin"]["k"]) == {"tau_min", "tau_max", "n_taus", "value", "sd"}
    assert found[0]["skipped"] == []
    whole = ("consistency", "skipped")
    one = {key: value for key, value in found[2].items() if key not in whole}
    assert one == json.loads(json.dumps(result.comparisons[2].to_json()))


def test_the_dataset_holds_every_number_under_its_label(result):
    dataset = result.to_dataset()
    assert dict(dataset.sizes) == {"model": 2, "tau": 5, "parameter": 3, "quantile": 5, "pair": 1}
    assert dataset["model"].values.tolist() == ["brownian", "langevin"]
    assert dataset["parameter"].values.tolist() == [
        "brownian.kappa",
        "langevin.gamma",
        "langevin.k",
    ]
    assert dataset["pair"].values.tolist() == ["langevin:brownian"]
    assert dataset["quantile"].values.tolist() == list(QUANTILES)
    for i, c in enumerate(result.comparisons):
        at = dataset.isel(tau=i)
        assert float(at["tau"]) == c.tau
        assert str(at["verdict"].values) == c.verdict
        assert str(at["data_fingerprint"].values) == c.data_fingerprint
        assert int(at["n_displacements"]) == c.n_displacements
        assert float(at["log_bayes_factor"][0]) == c.log_bayes_factors["langevin:brownian"]
        for model, e in c.evidences.items():
            for name in NUMBERS:
                assert float(at[name].sel(model=model)) == getattr(e, name)
            assert str(at["status"].sel(model=model).values) == "ok"
            assert float(at["probability"].sel(model=model)) == c.probabilities[model]
            for parameter in e.map:
                label = f"{model}.{parameter}"
                for name in OF_PARAMETERS:
                    found = float(at[name].sel(parameter=label))
                    assert found == getattr(e, name)[parameter]
                quantiles = at["posterior_quantile"].sel(parameter=label)
                assert_array_equal(quantiles, e.posterior_quantiles[parameter])
    assert_array_equal(dataset["consistent"], [[False] * 5, [True] * 5, [True] * 5])


def test_the_dataset_says_how_it_was_made(result, tracks):
    attributes = result.to_dataset().attrs
    assert attributes["method"] == "exact"
    assert (attributes["length_unit"], attributes["time_unit"]) == ("km", "h")
    assert attributes["data_fingerprint"] == tracks.fingerprint
    assert json.loads(attributes["priors"])["langevin"] == {
        "gamma": "exponential:1",
        "k": "exponential:1",
    }
    assert json.loads(attributes["consistency"]) == result.consistency_json()
    assert json.loads(attributes["options"]) == {
        "n_tau": N_STEPS,
        "seed": 0,
        "windows": "first",
        "gaps": "split",
        "coords": "natural",
        "prior_probabilities": None,
    }
    assert "2 kappa tau" in attributes["convention"]
    assert "driftbayes_version" in attributes


@pytest.mark.parametrize("method", ["result", "laplace"])
def test_a_file_gives_back_the_dataset(method, request, tmp_path):
    dataset = request.getfixturevalue(method).to_dataset()
    write_scan(dataset, tmp_path / "scan.nc")
    back = read_scan(tmp_path / "scan.nc")
    xr.testing.assert_equal(back, dataset)
    assert {k: back.attrs[k] for k in dataset.attrs} == dataset.attrs
    assert back["consistent"].dtype == bool


def test_a_scan_names_itself(result):
    assert repr(result) == "<Scan: 5 values of tau from 0.1 h to 0.5 h, brownian, langevin>"


def test_two_taus_say_nothing_of_consistency(result):
    two = replace(result, comparisons=result.comparisons[:2])
    expected = "the scan has 2 sampling times, at least 3 are needed"
    assert two.sentences["langevin"].endswith(expected)


def test_units_change_numbers_and_not_the_verdict(tracks, result):
    faster = Trajectories.from_arrays(
        1000.0 * tracks.positions.reshape(100, 51, 2), dt=60 * 0.1, time_unit="min"
    )
    hypotheses = [
        h.rescaled({"kappa": 1e6 / 60, "k": 1e6 / 60, "gamma": 1 / 60}) for h in unit_hypotheses()
    ]
    moved = scan_hypotheses(faster, hypotheses, 60 * np.array(TAUS), cut=Cut(N_STEPS))
    assert_allclose(bayes_factors(moved), bayes_factors(result), atol=1e-6)
    there, here = moved.evidences("langevin")[2], result.evidences("langevin")[2]
    assert_allclose(60 * there.posterior_mean["gamma"], here.posterior_mean["gamma"], rtol=1e-7)
