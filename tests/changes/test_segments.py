"""Changes along tracks: sums over all segmentations, known limits, and what is refused."""

import csv
import json
from itertools import combinations, pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import xarray as xr
from numpy.testing import assert_allclose
from scipy.special import kve, logsumexp

import driftbayes as db
from driftbayes._kernels.segments import log_bessel_k
from driftbayes._representation import card_text, describe
from driftbayes.changes import _tables as tables
from driftbayes.changes._posterior import most_likely_to_change, segment_track
from driftbayes.changes._tables import Run, segment_model
from driftbayes.cli.main import main
from driftbayes.data import Displacements, Trajectories
from driftbayes.errors import DriftbayesError
from driftbayes.inference import Hypothesis, evidence
from driftbayes.inference._scale import log_bessel_k as slow_log_bessel_k
from driftbayes.models import MODELS, model_named
from driftbayes.priors import Exponential, Fixed, Gamma, LogNormal

RATE = 0.3
HYPOTHESES = {
    "brownian": ("brownian", {"kappa": Exponential(1.3)}, False),
    "gamma prior": ("brownian", {"kappa": Gamma(2.5, 1.0)}, False),
    "lognormal prior": ("brownian", {"kappa": LogNormal(1.0, 1.5)}, False),
    "known error": ("brownian", {"kappa": Exponential(1.3)}, True),
    "drift": ("brownian+mean", {"kappa": Exponential(1.3), "flow": Fixed(0.8)}, False),
    "langevin": ("langevin", {"gamma": Exponential(1.1), "k": Gamma(2.0, 0.9)}, False),
}


def hypothesis_of(kind, n_dim=2):
    name, priors, has_error = HYPOTHESES[kind]
    return Hypothesis(model_named(name, MODELS, n_dim), **priors), has_error


def run_of(n, n_dim=2, *, has_error=False, is_regular=False, seed=0):
    rng = np.random.default_rng(seed)
    dx = rng.normal(size=(n, n_dim))
    dx[n // 2 :] *= 3
    interval = np.full(n, 0.5) if is_regular else rng.choice([0.5, 0.5, 1.5], n)
    sd = None
    if has_error:
        sd = np.full(n + 1, 0.2) if is_regular else rng.uniform(0.1, 0.3, n + 1)
    return Run(dx, interval, sd, np.arange(n + 1))


def times_of(run):
    return np.concatenate([[0.0], np.cumsum(run.interval)])[run.candidates]


def part(run, i, j):
    """Steps between two candidates as data of their own."""
    begin, end = run.candidates[[i, j]]
    interval = run.interval[begin:end]
    sd = None if run.sd is None else run.sd[begin : end + 1]
    size, first = np.array([end - begin]), np.zeros(1, dtype=int)
    mean = float(interval.mean())
    return Displacements(run.dx[begin:end], interval, size, first, mean, position_sd=sd)


def enumerated(log_evidences, times, rate):
    """Log-joint of every segmentation with its changes, one by one."""
    m = len(times) - 1
    p = -np.expm1(-rate * np.diff(times))[:-1]
    found = []
    for number in range(m):
        for changes in combinations(range(1, m), number):
            prior = sum(
                np.log(p[k - 1]) if k in changes else np.log1p(-p[k - 1]) for k in range(1, m)
            )
            total = sum(log_evidences[i, j] for i, j in pairwise((0, *changes, m)))
            found.append((changes, prior + total))
    return found


def check_against_enumeration(result, segmentations, rtol):
    logs = np.array([log for _, log in segmentations])
    total = logsumexp(logs)
    chances = np.exp(logs - total)
    assert_allclose(result.log_evidence, total, rtol=rtol, atol=rtol)
    m = len(result.times) - 1
    each = np.zeros(m + 1)
    counts = np.zeros(m)
    for (changes, _), chance in zip(segmentations, chances, strict=True):
        each[list(changes)] += chance
        counts[len(changes)] += chance
    assert_allclose(result.probability, each, rtol=rtol, atol=rtol)
    assert_allclose(result.n_changes, counts[: len(result.n_changes)], rtol=rtol, atol=rtol)
    assert_allclose(result.any_change, 1 - counts[0], rtol=rtol, atol=rtol)
    number = int(counts.argmax())
    assert len(result.changes) == number
    for k in range(number):
        law = np.zeros(m + 1)
        for (changes, _), chance in zip(segmentations, chances, strict=True):
            if len(changes) == number:
                law[changes[k]] += chance
        law = np.cumsum(law) / law.sum()
        assert law[result.changes[k]] >= 0.5 > law[result.changes[k] - 1]
        low, high = np.searchsorted(result.times, result.intervals[k])
        assert law[low] >= 0.025 > law[low - 1]
        assert law[high] >= 0.975 > law[high - 1]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", HYPOTHESES)
@pytest.mark.parametrize("n_dim", [1, 2])
def test_all_segmentations_one_by_one_give_the_same(kind, n_dim):
    hypothesis, has_error = hypothesis_of(kind, n_dim)
    model = segment_model(hypothesis, n_dim, has_error=has_error)
    run = run_of(8, n_dim, has_error=has_error)
    table = model.table(run)
    known = {pair: table[k] for k, pair in enumerate(combinations(range(9), 2))}
    result = segment_track(model, run, times_of(run), RATE, "a")
    check_against_enumeration(result, enumerated(known, times_of(run), RATE), 1e-12)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("kind", HYPOTHESES)
@pytest.mark.parametrize("is_regular", [True, False])
def test_a_segment_is_judged_as_a_run_is_compared(kind, is_regular):
    hypothesis, has_error = hypothesis_of(kind)
    model = segment_model(hypothesis, 2, has_error=has_error)
    run = run_of(12, has_error=has_error, is_regular=is_regular)
    table = dict(zip(combinations(range(13), 2), model.table(run), strict=True))
    pairs = np.array([(0, 1), (0, 12), (2, 7), (5, 12), (11, 12)])
    moments = model.moments(run, pairs)
    for (i, j), own in zip(pairs.tolist(), moments, strict=True):
        known = evidence(hypothesis, part(run, i, j))
        assert_allclose(table[i, j], known.log_evidence, rtol=1e-8, atol=1e-8)
        for name, (first, second) in zip(model.names, own, strict=True):
            if name in known.parameters:
                found = known.parameters[name]
                assert_allclose(first, found.mean, rtol=1e-6)
                assert_allclose(np.sqrt(second - first**2), found.sd, rtol=1e-6)


def test_evidences_of_all_segments_and_their_sum_from_the_package_alone():
    hypothesis, _ = hypothesis_of("brownian")
    run = run_of(7, seed=4)
    known = {
        (i, j): evidence(hypothesis, part(run, i, j)).log_evidence
        for i, j in combinations(range(8), 2)
    }
    result = segment_track(
        segment_model(hypothesis, 2, has_error=False), run, times_of(run), RATE, "a"
    )
    check_against_enumeration(result, enumerated(known, times_of(run), RATE), 1e-11)


def test_velocity_of_a_segment_is_that_of_least_squares_if_the_prior_is_wide():
    hypothesis = Hypothesis(
        model_named("brownian+mean", MODELS, 2), kappa=Exponential(1.0), flow=Fixed(1e4)
    )
    run = run_of(50)
    found = segment_model(hypothesis, 2, has_error=False).moments(run, np.array([[0, 50]]))
    assert_allclose(found[0, 1:, 0], run.dx.sum(axis=0) / run.interval.sum(), rtol=1e-4)


def test_without_changes_the_evidence_is_that_of_compare():
    x = np.cumsum(np.random.default_rng(1).normal(size=(40, 2)), axis=0)
    tracks = Trajectories.from_arrays(x[None], dt=0.5)
    for name in ("brownian", "langevin"):
        scales = db.Scales(u_rms=1.0, time=1.0)
        known = db.compare(tracks, 0.5, models=name, scales=scales)[name].log_evidence
        found = tracks.segments(0.5, model=name, scales=scales, rate=1e-13)
        assert_allclose(found.log_evidence, known, rtol=1e-9)
        assert_allclose(found.log_evidence_no_change, known, rtol=1e-9)


@pytest.mark.parametrize("order", [0.0, 0.142, 0.5, 1.0, 5.0, 8.0, 15.9, 16.1, 40.0, -3.5])
def test_bessel_function_against_scipy(order):
    for x in (1.5e-6, 1e-3, 0.1, 1.0, 3.7, 5.0, 9.0, 15.9, 16.1, 80.0, 600.0):
        assert_allclose(log_bessel_k(order, x), np.log(kve(order, x)) - x, rtol=1e-12, atol=1e-12)


def test_bessel_function_of_large_order_against_its_integral():
    for order, x in ((500.0, 3.0), (5e4, 10.0), (5e6, 2e6)):
        known = slow_log_bessel_k(np.array(order), np.array(x))
        assert_allclose(log_bessel_k(order, x), known, rtol=1e-12)


def test_time_reversed_tracks_have_mirrored_probabilities():
    run = run_of(200, is_regular=True)
    back = Run(run.dx[::-1].copy(), run.interval, None, run.candidates)
    model = segment_model(hypothesis_of("brownian")[0], 2, has_error=False)
    one, other = (segment_track(model, r, times_of(r), 0.02, "a") for r in (run, back))
    assert_allclose(other.log_evidence, one.log_evidence, rtol=1e-12)
    assert_allclose(other.probability[::-1], one.probability, rtol=1e-8, atol=1e-12)
    assert_allclose(other.average[::-1], one.average, rtol=1e-7)


def test_averages_over_all_segmentations_are_those_of_enumeration():
    hypothesis, has_error = hypothesis_of("langevin")
    model = segment_model(hypothesis, 2, has_error=has_error)
    run = run_of(6)
    pairs = np.array(list(combinations(range(7), 2)))
    table = dict(zip(map(tuple, pairs.tolist()), model.table(run), strict=True))
    means = dict(zip(map(tuple, pairs.tolist()), model.moments(run, pairs), strict=True))
    found = enumerated(table, times_of(run), RATE)
    logs = np.array([log for _, log in found])
    chances = np.exp(logs - logsumexp(logs))
    known = np.zeros((6, 2, 2))
    for (changes, _), chance in zip(found, chances, strict=True):
        for i, j in pairwise((0, *changes, 6)):
            known[i:j] += chance * means[i, j]
    result = segment_track(model, run, times_of(run), RATE, "a")
    assert_allclose(result.average, known[..., 0], rtol=1e-6)
    assert_allclose(result.average_sd, np.sqrt(known[..., 1] - known[..., 0] ** 2), rtol=1e-5)


def simulated(rng, n_steps, rate, scale=1.0, sd=0.0):
    """A track of the prior itself: number of changes, places and diffusivities are drawn."""
    changes = 1 + np.flatnonzero(rng.random(n_steps - 1) < -np.expm1(-rate))
    edges = np.concatenate([[0], changes, [n_steps]])
    kappa = np.repeat(rng.exponential(scale, len(edges) - 1), np.diff(edges))
    x = np.vstack([np.zeros(2), np.cumsum(rng.normal(size=(n_steps, 2)), axis=0)])
    x[1:] = np.cumsum(np.diff(x, axis=0) * np.sqrt(2 * kappa)[:, None], axis=0)
    return x + sd * rng.normal(size=x.shape), changes, kappa


def calibration(n_sets, n_steps, rate, sd=0.0, seed=5):
    """P(change) less the truth of each set, and how it lies among the segments."""
    rng = np.random.default_rng(seed)
    hypothesis = Hypothesis(model_named("brownian", MODELS, 2), kappa=Exponential(1.0))
    model = segment_model(hypothesis, 2, has_error=sd > 0)
    errors = np.full(n_steps + 1, sd) if sd else None
    chances, truth, scores, inside = [], [], [], []
    for _ in range(n_sets):
        x, changes, kappa = simulated(rng, n_steps, rate, sd=sd)
        run = Run(np.diff(x, axis=0), np.ones(n_steps), errors, np.arange(n_steps + 1))
        found = segment_track(model, run, times_of(run), rate, "a")
        chances.append(found.any_change)
        truth.append(len(changes) > 0)
        scores.append((kappa.mean() - found.average[:, 0].mean()) / found.average_sd.mean())
        if len(found.changes) == len(changes):
            low, high = found.intervals.T
            inside += ((low <= changes) & (changes <= high)).tolist()
    return np.array(chances), np.array(truth), np.array(scores), np.array(inside)


@pytest.mark.parametrize("sd", [0.0, pytest.param(0.7, marks=pytest.mark.slow)])
def test_probabilities_hold_where_the_truth_is_drawn_from_the_prior(sd):
    n_sets = 300 if sd == 0 else 150
    chances, truth, scores, inside = calibration(n_sets, 40, 1 / 40, sd)
    excess = chances - truth
    assert abs(excess.mean()) < 4 * excess.std() / np.sqrt(n_sets)
    # Within each fifth of the probabilities, too.
    order = np.argsort(chances)
    for some in np.array_split(order, 5):
        p = chances[some]
        assert abs(p.mean() - truth[some].mean()) < 4.5 * np.sqrt(
            max(np.mean(p * (1 - p)), 1e-3) / len(some)
        )
    # Intervals hold 95 % or more: they end at whole steps.
    assert inside.mean() > 0.95 - 4 * np.sqrt(0.95 * 0.05 / len(inside))
    assert abs(np.median(scores)) < 0.3


def test_tracks_without_change_raise_few_false_alarms():
    rng = np.random.default_rng(8)
    hypothesis = Hypothesis(model_named("brownian", MODELS, 2), kappa=Exponential(1.0))
    model = segment_model(hypothesis, 2, has_error=False)
    log_k, n_sets = [], 100
    for _ in range(n_sets):
        dx = rng.normal(size=(60, 2)) * np.sqrt(2 * rng.exponential())
        run = Run(dx, np.ones(60), None, np.arange(61))
        log_k.append(segment_track(model, run, times_of(run), 1 / 60, "a").log_bayes_factor)
    # Under the hypothesis of no change a Bayes factor exceeds B in at most 1/B of all data sets.
    for limit in (3.0, 20.0, 150.0):
        share = np.mean(np.array(log_k) > np.log(limit))
        assert share < 1 / limit + 4 * np.sqrt(1 / limit / n_sets)


def test_only_a_model_with_velocities_sees_a_turn():
    rng = np.random.default_rng(2)
    velocity = np.repeat([[1.0, 0.0], [0.0, 1.0]], 100, axis=0)
    x = np.cumsum(velocity + rng.normal(size=(200, 2)), axis=0)
    tracks = Trajectories.from_arrays(x[None], dt=1.0)
    scales = db.Scales(u_rms=1.5, time=0.5)
    plain = tracks.segments(1.0, scales=scales)
    turning = tracks.segments(1.0, model="brownian+mean", scales=scales)
    assert plain[0].any_change < 0.5
    assert turning[0].any_change > 0.999
    assert repr(turning[0]).startswith("<TrackSegments: 0, changes with probability 1, most prob")
    (low, high) = turning[0].intervals[0]
    assert low <= 99 <= high <= low + 8
    assert_allclose(turning[0].mean[:, 1:], np.eye(2), atol=0.4)


def test_gaps_are_longer_steps_and_irregular_times_are_taken_as_they_are():
    rng = np.random.default_rng(3)
    x = np.cumsum(rng.normal(size=(60, 2)), axis=0)
    kept = np.delete(np.arange(60), [20, 21, 40])
    gappy = Trajectories.from_arrays([x[kept]], times=[kept.astype(float)])
    options = {"scales": db.Scales(u_rms=1.0, time=0.5), "rate": 0.02}
    one, other = gappy.segments(1.0, **options), gappy.segments("all", **options)
    assert len(one) == 1
    assert one[0].n_steps == 56
    assert one[0].times.tolist() == kept.tolist()
    assert_allclose(one.log_evidence, other.log_evidence, rtol=1e-12)
    odd = Trajectories.from_arrays([x[kept]], times=[kept**1.1])
    assert odd.segments("all", **options)[0].n_steps == 56


def test_long_tracks_have_coarser_candidates_and_say_so(monkeypatch):
    monkeypatch.setattr(tables.BrownianSegments, "max_candidates", 8)
    run = run_of(30, is_regular=True)
    tracks = Trajectories.from_arrays(
        np.vstack([np.zeros(2), np.cumsum(run.dx, axis=0)])[None], dt=0.5
    )
    result = tracks.segments(0.5, priors={"kappa": "exponential:1.3"}, rate=RATE)
    track = result[0]
    assert track.spacing == 4
    assert track.candidates.tolist() == [0, 4, 8, 12, 16, 20, 24, 28, 30]
    assert "only every 4th step" in " ".join(card_text(describe(result)).split())
    coarse = Run(run.dx, run.interval, None, track.candidates)
    hypothesis = hypothesis_of("brownian")[0]
    known = {
        (i, j): evidence(hypothesis, part(coarse, i, j)).log_evidence
        for i, j in combinations(range(9), 2)
    }
    check_against_enumeration(track, enumerated(known, track.times, RATE), 1e-10)


def test_units_change_nothing_but_the_constant():
    x = np.vstack([np.zeros(2), np.cumsum(run_of(50).dx, axis=0)])
    scales = db.Scales(u_rms=1.0, time=0.5)
    one = Trajectories.from_arrays(x[None], dt=0.5).segments(0.5, scales=scales)
    scales = db.Scales(u_rms=1000.0, time=0.5)
    other = Trajectories.from_arrays(1000 * x[None], dt=0.5).segments(0.5, scales=scales)
    assert_allclose(other.log_evidence, one.log_evidence - 100 * np.log(1000), rtol=1e-10)
    assert_allclose(other.log_bayes_factor_change, one.log_bayes_factor_change, rtol=1e-8)
    assert_allclose(other[0].mean, 1e6 * one[0].mean, rtol=1e-8)


def test_all_tracks_together_are_the_product_of_each():
    rng = np.random.default_rng(6)
    x = np.cumsum(rng.normal(size=(5, 30, 2)), axis=1)
    result = Trajectories.from_arrays(x, dt=1.0).segments(
        1.0, priors={"kappa": "exponential:0.5"}, rate=0.02
    )
    none = np.prod([1 - t.any_change for t in result.tracks])
    assert_allclose(result.probability_change, 1 - none, rtol=1e-10)
    prior = np.exp(-5 * 0.02 * 28)
    known = np.log((1 - none) / none) - np.log((1 - prior) / prior)
    assert_allclose(result.log_bayes_factor_change, known, rtol=1e-9)


def tracks_of(*x, **options):
    return Trajectories.from_arrays([np.asarray(one, dtype=float) for one in x], dt=1.0, **options)


STEPS = np.cumsum(np.random.default_rng(0).normal(size=(20, 2)), axis=0)


@pytest.mark.parametrize(
    ("tracks", "options", "message"),
    [
        (tracks_of(STEPS[:2]), {}, "no track has 2 steps at this tau, the longest has 1"),
        (tracks_of(np.ones((9, 2))), {}, "all 8 displacements are zero"),
        (tracks_of(STEPS, np.ones((9, 2))), {}, "trajectory '1' has 8 steps of exactly zero"),
        (tracks_of(STEPS), {"rate": 0.0}, "the rate of changes must be positive, got 0"),
        (tracks_of(STEPS), {"rate": "often"}, "rate must be a number"),
        (tracks_of(STEPS), {"model": "matern"}, "use one of brownian, brownian"),
        (tracks_of(STEPS), {"model": "brownian+noise"}, "known measurement error use brownian"),
        (
            tracks_of(STEPS),
            {"priors": {"kappa": "uniform:0:3"}},
            "the prior of kappa must be exponential or gamma, got uniform:0:3",
        ),
        (
            tracks_of(np.arange(20.0)[:, None] * np.ones(2)),
            {"model": "brownian+mean"},
            "steps of exactly the same velocity",
        ),
        (
            tracks_of(STEPS),
            {"model": "brownian+mean", "priors": {"flow": "exponential:1"}},
            "the prior of flow must be fixed",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore::driftbayes.errors.DriftbayesWarning")
def test_bad_input_gets_one_sentence(tracks, options, message):
    options = {"scales": db.Scales(u_rms=1.0, time=1.0), **options}
    with pytest.raises(DriftbayesError, match=message):
        tracks.segments(1.0, **options)


def test_a_known_error_is_refused_where_the_model_has_none():
    tracks = db.read(STEPS[None], dt=1.0, noise=0.1)
    with pytest.raises(DriftbayesError, match="segments of langevin need exact positions"):
        tracks.segments(1.0, model="langevin", scales=db.Scales(u_rms=1.0, time=1.0))


@pytest.mark.filterwarnings("ignore::driftbayes.errors.DataWarning")
def test_rests_are_no_problem_with_a_known_error():
    x = np.vstack([STEPS, np.repeat(STEPS[-1:], 20, axis=0)])
    tracks = db.read(x[None], dt=1.0, noise=0.05)
    track = tracks.segments(1.0, priors={"kappa": "exponential:0.5"})[0]
    assert track.any_change > 0.99
    assert track.change_times.tolist() == [19.0]


def test_too_long_tracks_of_a_filtered_model_are_refused(monkeypatch):
    monkeypatch.setattr(tables, "_MAX_FILTERED_STEPS", 10)
    with pytest.raises(DriftbayesError, match="has 19 steps; segments with langevin take at most"):
        tracks_of(STEPS).segments(1.0, model="langevin", scales=db.Scales(u_rms=1.0, time=1.0))


def test_short_tracks_are_left_out_with_a_warning():
    tracks = tracks_of(STEPS, STEPS[:2])
    with pytest.warns(db.DataWarning, match="1 track has only one step"):
        result = tracks.segments(1.0, scales=db.Scales(u_rms=1.0, time=1.0))
    assert len(result) == 1
    assert result.n_short == 1


def test_steps_that_look_noisy_are_reported():
    rng = np.random.default_rng(1)
    x = np.cumsum(rng.normal(size=(20, 50, 2)), axis=1) + 2 * rng.normal(size=(20, 50, 2))
    tracks = Trajectories.from_arrays(x, dt=1.0)
    with pytest.warns(db.DataWarning, match="successive steps anticorrelate"):
        tracks.segments(1.0, scales=db.Scales(u_rms=1.0, time=1.0))


@pytest.fixture
def file(tmp_path):
    rng = np.random.default_rng(3)
    rows = ["id,time,x,y"]
    for p in range(3):
        size = np.where(np.arange(120) < 60, 1.0, 0.1 if p else 1.0)
        x = np.cumsum(size[:, None] * rng.normal(size=(120, 2)), axis=0)
        rows += [f"p{p},{0.5 * i},{u:.9g},{v:.9g}" for i, (u, v) in enumerate(x)]
    path = tmp_path / "tracks.csv"
    path.write_text("\n".join(rows))
    return path


SCALES = ["--u-rms", "1", "--timescale", "1"]


def test_the_command_prints_a_card_and_writes_tables_and_a_figure(
    file, tmp_path, capsys, monkeypatch
):
    monkeypatch.setenv("COLUMNS", "80")
    csv_file, figure = tmp_path / "out.csv", tmp_path / "out.png"
    common = ["segments", str(file), "--tau", "0.5", *SCALES]
    assert main([*common, "-o", str(csv_file), "--figure", str(figure)]) == 0
    text = capsys.readouterr().out
    assert "2 of 3 tracks change" in text
    assert max(map(len, text.splitlines())) <= 80
    assert figure.stat().st_size > 10_000
    with csv_file.open() as opened:
        rows = list(csv.DictReader(opened))
    assert [row["track"] for row in rows] == ["p0", "p1", "p1", "p2", "p2"]
    assert float(rows[1]["end"]) == float(rows[2]["start"]) == pytest.approx(29.5, abs=1.0)
    assert float(rows[2]["kappa"]) == pytest.approx(0.01, rel=0.5)
    output = tmp_path / "out.nc"
    assert main([*common, "-o", str(output), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["log_bayes_factor_change"] > 50
    assert found["rate"] == pytest.approx(np.log(2) / 59.5)
    assert [len(t["segments"]) for t in found["tracks"]] == [1, 2, 2]
    with xr.open_dataset(output) as dataset:
        assert dataset.attrs["log_bayes_factor_change"] == found["log_bayes_factor_change"]
        assert dataset["segment_count"].values.tolist() == [1, 2, 2]
        assert dataset.sizes["candidate"] == 3 * 120
        chances = dataset["change_probability"].values.reshape(3, 120)
        assert_allclose(chances, [t["change_probability"] for t in found["tracks"]])
        assert_allclose(dataset["kappa"].values, [float(row["kappa"]) for row in rows])


def test_the_command_takes_a_rate_with_its_unit(file, capsys):
    words = ["segments", str(file), "--tau", "0.5", "--time-unit", "s", "--rate", "6/min", *SCALES]
    assert main([*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rate"] == pytest.approx(0.1)


def test_a_result_is_found_by_id_and_shows_itself(file):
    result = db.read(file).segments(0.5, scales=db.Scales(u_rms=1.0, time=1.0))
    assert result["p1"] is result[1]
    assert "2 of 3 tracks change" in repr(result)
    with pytest.raises(DriftbayesError, match="no track 'p9'"):
        result["p9"]
    frame = result.to_dataframe()
    assert list(frame["track"]) == ["p0", "p1", "p1", "p2", "p2"]
    assert len(result.plot(tracks=["p1"]).axes) == 3


def test_rounding_does_not_choose_the_tracks_most_likely_to_change():
    def track(any_change, log_no_change):
        return SimpleNamespace(any_change=any_change, log_no_change=log_no_change)

    # The second and third probabilities of no change are e^-80 and e^-40.
    tracks = [track(0.3, np.log(0.7)), track(1 - 2e-16, -80.0), track(1.0, -40.0), track(0.6, -0.9)]
    assert most_likely_to_change(tracks, 1) == [1]
    assert most_likely_to_change(tracks, 3) == [1, 2, 3]
