"""Ensembles in files against observed tracks: matching, verdicts, refusals."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import driftbayes as db
from driftbayes.cli.main import main
from driftbayes.data._trajectories import Trajectories
from driftbayes.errors import DriftbayesError
from driftbayes.verification import match_cases, score_cases

N, LEADS, MEMBERS = 60, 5, 20


def walks(rng, scale, shape):
    steps = scale * rng.normal(size=(*shape, LEADS, 2))
    start = np.zeros((*shape, 1, 2))
    return np.concatenate([start, np.cumsum(steps, axis=-2)], axis=-2)


@pytest.fixture(scope="module")
def observed():
    rng = np.random.default_rng(1)
    places = rng.uniform(0, 1000, (N, 1, 2))
    x = places + walks(rng, 1.0, (N,))
    return Trajectories.from_arrays(
        x, dt=1.0, ids=[f"d{i}" for i in range(N)], length_unit="km", time_unit="d"
    )


def ensemble(observed, scale, seed=2, **changes):
    rng = np.random.default_rng(seed)
    start = observed.positions.reshape(N, LEADS + 1, 2)[:, :1]
    x = start + walks(rng, scale, (MEMBERS, N))
    how = {"ids": [f"d{i}/{m}" for m in range(MEMBERS) for i in range(N)]}
    how |= {"length_unit": "km", "time_unit": "d", **changes}
    return Trajectories.from_arrays(x.reshape(-1, LEADS + 1, 2), dt=1.0, **how)


def test_the_true_model_wins_and_the_others_are_told_why(observed):
    scales = {"true": 1.0, "narrow": 0.6, "wide": 1.7}
    result = db.score_ensembles(observed, {n: ensemble(observed, s) for n, s in scales.items()})
    assert result.best == "true"
    assert result.verdict.startswith("true predicts best")
    words = {name: own.dispersion for name, own in result.ensembles.items()}
    assert words == {
        "true": "spread as observed",
        "narrow": "spread too small",
        "wide": "spread too large",
    }
    right = result.ensembles["true"].means
    for score, level in (("coverage_50", 0.5), ("coverage_95", 0.95), ("spread_ratio", 1.0)):
        assert abs(right[score][0] - level) < 4 * right[score][1]
    logs = {name: own.means["log_score"][0] for name, own in result.ensembles.items()}
    assert max(logs, key=logs.get) == "true"
    assert_allclose(result.ensembles["narrow"].ranks.sum(), 1.0)
    assert (result.n_drifters, result.n_forecasts, len(result.leads)) == (N, N, LEADS)


def test_members_without_names_belong_to_the_drifter_where_they_begin(observed):
    named = ensemble(observed, 1.0)
    unnamed = ensemble(observed, 1.0, ids=None)
    both = [match_cases(members, observed, "e") for members in (named, unnamed)]
    results = [score_cases([cases]).to_json() for cases in both]
    assert_allclose(
        results[0]["ensembles"]["e"]["energy_score"],
        results[1]["ensembles"]["e"]["energy_score"],
        rtol=1e-12,
    )


def test_other_units_are_converted(observed):
    metres = ensemble(observed, 1.0).in_units(length=(1000.0, "m"), time=(24.0, "h"))
    one, other = (
        db.score_ensembles(observed, {"e": members}).ensembles["e"].means["energy_score"][0]
        for members in (ensemble(observed, 1.0), metres)
    )
    assert_allclose(one, other, rtol=1e-9)


def test_dates_may_count_from_different_days(observed):
    """Simulators count seconds from the first day of their currents."""
    members = ensemble(observed, 1.0)
    dated = replace(observed, provenance={"time_origin": "1970-01-01T00:00:00"})
    seconds = members.in_units(time=(86400.0, "s"))
    moved = replace(
        seconds,
        times=seconds.times - 36 * 3600,
        provenance={"time_origin": "1970-01-02T12:00:00"},
    )
    one, other = (
        db.score_ensembles(dated, {"e": e}).ensembles["e"].means["energy_score"][0]
        for e in (members, moved)
    )
    assert_allclose(one, other, rtol=1e-9)


def test_across_the_date_line_distances_are_along_the_sphere():
    rng = np.random.default_rng(3)
    drift = np.array([0.02, 0.0])
    path = np.array([179.95, 10.0]) + drift * np.arange(6)[:, None]
    members = path[None] + np.cumsum(0.005 * rng.normal(size=(10, 6, 2)), axis=1)
    members[:, 0] = path[0]

    def frame(x, **columns):
        lon = (x[..., 0].ravel() + 180) % 360 - 180
        return pd.DataFrame({**columns, "lon": lon, "lat": x[..., 1].ravel()})

    hours = np.arange(6) * 3600.0
    tracks = db.read(frame(path, id=["a"] * 6, time=hours))
    table = frame(
        members,
        id=["a"] * 60,
        member=np.repeat(np.arange(10), 6),
        time=np.tile(hours, 10),
    )
    found = db.score_ensembles(tracks, {"e": table})
    error = found.ensembles["e"].by_lead["error"][0]
    assert (error < 5e3).all()
    assert found.length_unit == "m"


def test_the_command_takes_tables_of_members_and_prints_json(observed, tmp_path, capsys):
    tracks = observed.to_dataframe()
    tracks.to_csv(tmp_path / "seen.csv", index=False)
    members = ensemble(observed, 0.5).to_dataframe()
    split = members["id"].str.split("/", expand=True)
    members["id"], members["member"] = split[0], split[1]
    members.to_csv(tmp_path / "model.csv", index=False)
    figure = tmp_path / "scores.png"
    words = ["score", "--ensemble", f"narrow={tmp_path / 'model.csv'}"]
    words += ["--observed", str(tmp_path / "seen.csv"), "--units", "km,d"]
    assert main([*words, "--json", "--figure", str(figure)]) == 0
    content = json.loads(capsys.readouterr().out)
    own = content["ensembles"]["narrow"]
    assert {"energy_score", "log_score", "coverage_50", "coverage_95"} <= own.keys()
    assert own["dispersion"] == "spread too small"
    direct = db.score_ensembles(observed, {"narrow": ensemble(observed, 0.5)})
    assert_allclose(own["energy_score"], direct.ensembles["narrow"].means["energy_score"][0])
    assert figure.stat().st_size > 10_000
    assert main(words) == 0
    assert "spread too small" in capsys.readouterr().out


@pytest.mark.slow
def test_what_predict_writes_can_be_scored(observed, tmp_path):
    early = observed.select(observed.elapsed < 3)
    scales = db.Scales(u_rms=1.4, time=0.5)
    futures = db.predict(early, 1.0, [1.0, 2.0, 3.0], scales=scales).particles(30).trajectories()
    result = db.score_ensembles(observed, {"brownian": futures})
    own = result.ensembles["brownian"].means
    assert abs(own["coverage_95"][0] - 0.95) < 4 * own["coverage_95"][1] + 0.02


# Drifters that move together


def swarm(seed, n_starts=40, n_drifters=6, noise=0.05, every=4):
    """Drifters that share their motion but for some noise, and forecasts of the right spread."""
    rng = np.random.default_rng(seed)
    n_times = every * n_starts + 1
    shared = np.cumsum(rng.normal(size=(1, n_times, 2)), axis=1)
    x = shared + np.cumsum(noise * rng.normal(size=(n_drifters, n_times, 2)), axis=1)
    x += 1000 * rng.normal(size=(n_drifters, 1, 2))
    tracks = Trajectories.from_arrays(x, dt=1.0, ids=[f"d{i}" for i in range(n_drifters)])
    starts = every * np.arange(n_starts)
    steps = np.hypot(1.0, noise) * rng.normal(size=(MEMBERS, n_drifters, n_starts, 2, 2))
    steps[..., 0, :] = 0.0
    paths = x[:, starts][None, :, :, None] + np.cumsum(steps, axis=3)
    ids = [
        f"d{i}@{s}/{m}" for m in range(MEMBERS) for i in range(n_drifters) for s in range(n_starts)
    ]
    times = np.broadcast_to(starts[:, None] + [0.0, 1.0], (MEMBERS, n_drifters, n_starts, 2))
    members = Trajectories.from_arrays(
        paths.reshape(-1, 2, 2), times=list(times.reshape(-1, 2)), ids=ids
    )
    return tracks, members


@pytest.mark.slow
def test_errors_over_starts_are_right_where_drifters_move_together():
    """The spread of the mean score over 60 data sets, against the errors that are stated."""
    means, errors = [], {"drifters": [], "starts": []}
    for seed in range(60):
        tracks, members = swarm(seed)
        cases = [match_cases(members, tracks, "e")]
        for what, found in errors.items():
            own = score_cases(cases, errors=what).ensembles["e"].means["energy_score"]
            found.append(own[1])
        means.append(own[0])
    spread = np.std(means, ddof=1)
    # The spread of 60 is known to 9 per cent.
    assert 0.7 < np.sqrt(np.mean(np.square(errors["starts"]))) / spread < 1.35
    assert np.sqrt(np.mean(np.square(errors["drifters"]))) < 0.5 * spread


def test_shared_motion_is_noted_unless_starts_are_resampled(tmp_path, capsys, observed):
    tracks, members = swarm(1)
    noted = db.score_ensembles(tracks, {"e": members})
    assert any("move together" in note and "--errors starts" in note for note in noted.notes)
    by_start = db.score_ensembles(tracks, {"e": members}, errors="starts")
    assert not any("move together" in note for note in by_start.notes)
    assert (by_start.n_units, noted.n_units) == (40, 6)
    # Over drifters, which share their motion, errors are too small; by how much is slow to show.
    own, other = (r.ensembles["e"].means["energy_score"][1] for r in (by_start, noted))
    assert own > 1.5 * other
    assert not db.score_ensembles(observed, {"e": ensemble(observed, 1.0)}).notes
    tracks.to_dataframe().to_csv(tmp_path / "seen.csv", index=False)
    members.to_dataframe().to_csv(tmp_path / "model.csv", index=False)
    words = ["score", "--ensemble", str(tmp_path / "model.csv")]
    words += ["--observed", str(tmp_path / "seen.csv")]
    assert main(words) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "errors by bootstrap over drifters are too small" in out
    assert main([*words, "--errors", "starts", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert (content["errors"], content["n_units"]) == ("starts", 40)


def test_starts_within_the_shortest_lead_are_one_unit(observed):
    cases = match_cases(ensemble(observed, 1.0), observed, "e")
    moved = replace(cases, start=cases.drifter // 20 * 10.0 + 0.01 * cases.drifter)
    assert score_cases([moved], errors="starts").n_units == 3


def test_unknown_errors_are_refused(observed):
    with pytest.raises(DriftbayesError, match="errors must be one of drifters, starts"):
        db.score_ensembles(observed, {"e": ensemble(observed, 1.0)}, errors="days")


# What cannot be scored


def test_units_of_another_size_are_refused(observed):
    wrong = ensemble(observed, 1.0).in_units(length=(1000.0, ""))
    with pytest.raises(DriftbayesError, match="check the units and coordinates"):
        match_cases(wrong, observed, "e")


def test_degrees_against_a_plane_are_refused(observed):
    degrees = db.read(
        pd.DataFrame({"id": "d0/0", "time": [0.0, 1.0], "lon": [1.0, 2.0], "lat": [1.0, 2.0]})
    )
    with pytest.raises(DriftbayesError, match="are in longitude and latitude"):
        match_cases(degrees, observed, "e")


def test_periods_and_errors_of_observations_are_refused(observed):
    members = ensemble(observed, 1.0)
    with pytest.raises(DriftbayesError, match="in a periodic domain"):
        db.score_ensembles(observed.unwrap(5000.0), {"e": members})
    noisy = replace(observed, position_sd=np.full(len(observed.times), 0.1))
    with pytest.raises(
        DriftbayesError, match="observations have measurement errors but members do not"
    ):
        db.score_ensembles(noisy, {"e": members})


def test_a_time_without_some_members_is_refused(observed):
    members = ensemble(observed, 1.0)
    fewer = members.select(np.arange(len(members.times)) != 17)
    with pytest.raises(DriftbayesError, match="another number of members"):
        match_cases(fewer, observed, "e")


def test_missing_positions_of_members_are_refused(observed):
    members = ensemble(observed, 1.0)
    lost = members.blanked(np.arange(len(members.times)) == 17)
    with pytest.raises(DriftbayesError, match="are missing"):
        match_cases(lost, observed, "e")


def test_times_that_do_not_meet_are_refused(observed):
    members = ensemble(observed, 1.0)
    shifted = replace(members, times=members.times + 0.4)
    with pytest.raises(DriftbayesError, match="no position was observed at the times"):
        match_cases(shifted, observed, "e")


def test_an_ensemble_that_meets_observations_only_at_its_start_is_refused(observed):
    members = ensemble(observed, 1.0)
    first = np.r_[0, np.cumsum(members.row_sizes)[:-1]]
    later = members.times + 0.4
    later[first] -= 0.4
    with pytest.raises(DriftbayesError, match="no position was observed at the times"):
        match_cases(replace(members, times=later), observed, "e")


def test_drifters_that_were_not_observed_are_refused(observed):
    others = [f"x{i}/{m}" for m in range(MEMBERS) for i in range(N)]
    with pytest.raises(DriftbayesError, match="none of its drifters was observed"):
        match_cases(ensemble(observed, 1.0, ids=others), observed, "e")


def test_too_few_members_are_refused(observed):
    members = ensemble(observed, 1.0)
    two = members[: 2 * N]
    with pytest.raises(DriftbayesError, match="scores need 3 or more"):
        match_cases(two, observed, "e")


def test_members_of_drifters_without_names_are_refused(observed):
    table = pd.DataFrame({"buoy": ["a"], "member": [1], "time": [0.0], "x": [0.0], "y": [0.0]})
    with pytest.raises(DriftbayesError, match=r"needs a column 'id' .* it has buoy, member"):
        db.score_ensembles(observed, {"e": table})


def test_ensembles_of_other_forecasts_are_not_compared(observed):
    one, other = ensemble(observed, 1.0), ensemble(observed, 0.5)
    first, second = (match_cases(e, observed, n) for e, n in ((one, "a"), (other, "b")))
    with pytest.raises(DriftbayesError, match="in all of a, b"):
        score_cases([first.take(first.lead < 2), second.take(second.lead > 2)])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--ensemble", "a.csv"], "give the observed trajectories"),
        (["--observed", "a.csv"], "is for simulated trajectories"),
        (["a.csv", "--tau", "1", "--errors", "starts"], "is for simulated trajectories"),
        ([], "score needs a file of trajectories"),
        *(
            (["--ensemble", "a.csv", "--observed", "b.csv", *more], f"omit {more[0]} ")
            for more in (
                *(["--tau", "1"], ["--models", "brownian,langevin"], ["--prior", "k=uniform:0:1"]),
                *(["--gaps", "split"], ["--n-tau", "3"], ["--folds", "5"], ["--u-rms", "1"]),
                ["--method", "auto"],
            )
        ),
    ],
)
def test_the_command_says_what_it_needs(words, message, capsys):
    assert main(["score", *words]) == 2
    assert message in " ".join(capsys.readouterr().err.split())
