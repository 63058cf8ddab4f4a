"""Planted faults are found, nothing else is touched, and nothing is done unasked."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from driftbayes import quality
from driftbayes.data._trajectories import Trajectories
from driftbayes.data.sphere import on_plane
from driftbayes.errors import DriftbayesError
from driftbayes.testing import reference

UNITS = {"length_unit": "km", "time_unit": "h"}


def clean(n_particles=8, n_positions=200, n_dim=2, gamma_tau=0.3, seed=0, **attributes):
    rng = np.random.default_rng(seed)
    dx = reference.simulate_langevin(rng, n_particles, n_positions - 1, n_dim, 1.0, gamma_tau, 1.0)
    x = np.concatenate([np.zeros((n_particles, 1, n_dim)), np.cumsum(dx, axis=1)], axis=1)
    return Trajectories.from_arrays(x, dt=1.0, **{**UNITS, **attributes})


def planted(tracks, rows, shift):
    """The tracks with some fixes moved."""
    positions = tracks.positions.copy()
    positions[rows] += shift
    return replace(tracks, positions=positions)


def mask(tracks, rows):
    found = np.zeros(len(tracks.times), dtype=bool)
    found[rows] = True
    return found


# Clean data


@pytest.mark.sampled(9)
@pytest.mark.parametrize("n_dim", [1, 2, 3])
@pytest.mark.parametrize("gamma_tau", [0.01, 1.0, 1e3])
def test_clean_data_give_less_than_one_alarm_in_a_million_fixes(n_dim, gamma_tau):
    # None among 5e5 fixes of each of nine kinds: the rate is below 1e-6 in all (95 %: 3 / 4.5e6).
    tracks = clean(250, 2000, n_dim, gamma_tau, seed=n_dim)
    assert quality.inspect(tracks).is_clean


@given(seed=st.integers(0, 2**32), n_dim=st.integers(1, 3), n=st.sampled_from([2, 3, 11, 60]))
def test_clean_data_have_nothing_to_repair(seed, n_dim, n):
    tracks = clean(5, n, n_dim, seed=seed)
    report = quality.inspect(tracks)
    assert report.is_clean
    assert report.notes == []
    assert report.apply(tracks, ["default"]).fingerprint == tracks.fingerprint


def test_gaussian_diffusion_at_uneven_intervals_has_no_spikes():
    rng = np.random.default_rng(1)
    steps = rng.lognormal(0, 2, size=(20, 500))
    dx = rng.standard_normal((20, 500, 2)) * np.sqrt(steps)[..., None]
    tracks = Trajectories.from_arrays(np.cumsum(dx, axis=1), times=list(np.cumsum(steps, axis=1)))
    assert quality.inspect(tracks)["spikes"].n_observations == 0


# Spikes


@given(
    seed=st.integers(0, 2**32),
    places=st.sets(st.integers(1, 198), min_size=1, max_size=5),
    size=st.floats(100, 1e6),
)
def test_planted_spikes_are_found_exactly(seed, places, size):
    # Not side by side: two wrong fixes in the same place are no spike.
    places = sorted(places)
    places = [p for i, p in enumerate(places) if i == 0 or p - places[i - 1] > 1]
    tracks = clean(seed=seed)
    rows = np.array(places) + 200 * 3
    bad = planted(tracks, rows, [size, -0.3 * size])
    for checks in ((), "spikes=20km/h"):
        finding = quality.inspect(bad, checks)["spikes"]
        assert_array_equal(finding.rows, mask(tracks, rows))
        assert (finding.n_observations, finding.n_trajectories) == (len(rows), 1)
    repaired = quality.apply(bad, "spikes")
    assert_array_equal(repaired.times, tracks.times)
    expected = tracks.positions.copy()
    expected[rows] = np.nan
    assert_array_equal(repaired.positions, expected)


def test_a_few_fast_particles_among_slow_ones_are_no_spikes():
    tracks = clean(40, gamma_tau=100.0)
    factor = np.where(tracks.trajectory_index < 4, 100.0, 1.0)[:, None]
    mixed = replace(tracks, positions=tracks.positions * factor)
    assert quality.inspect(mixed).is_clean
    bad = planted(mixed, [350, 1050], [1e4, 0.0])
    assert_array_equal(quality.inspect(bad)["spikes"].rows, mask(tracks, [350, 1050]))


def test_two_spikes_around_a_good_fix_leave_it():
    tracks = clean()
    bad = planted(tracks, [50, 52, 54], [500.0, 0.0])
    assert_array_equal(quality.inspect(bad)["spikes"].rows, mask(tracks, [50, 52, 54]))


def test_fast_motion_that_goes_on_is_no_spike():
    tracks = clean()
    positions = tracks.positions.copy()
    positions[100:200] += [1e4, 0.0]
    assert quality.inspect(replace(tracks, positions=positions))["spikes"].n_observations == 0


def test_an_instrument_that_sends_one_wrong_position_for_long_is_repaired_whole():
    tracks = clean()
    positions = tracks.positions.copy()
    positions[60:80] = [1e5, 1e5]
    bad = replace(tracks, positions=positions)
    repaired = quality.apply(bad, "spikes,stuck")
    assert_array_equal(np.isnan(repaired.positions[:, 0]), mask(tracks, np.arange(60, 80)))
    counts = {d["check"]: d["n_observations"] for d in repaired.provenance["quality"]}
    assert counts == {"stuck": 19, "spikes": 1}


@pytest.mark.parametrize("frame", ["local", "transported"])
def test_a_detour_over_null_island_leaves_no_trace_in_the_plane(frame):
    rng = np.random.default_rng(0)
    lonlat = np.cumsum(rng.normal(size=(1, 100, 2)) * 0.01, axis=1) + np.array([20.0, 75.0])
    truth = on_plane(Trajectories.from_arrays(lonlat, dt=1.0), frame=frame)
    wrong = lonlat.copy()
    wrong[0, 40] = 0.0
    missing = lonlat.copy()
    missing[0, 40] = np.nan
    expected = on_plane(Trajectories.from_arrays(missing, dt=1.0), frame=frame)
    with pytest.warns(UserWarning, match="is not local"):
        bad = on_plane(Trajectories.from_arrays(wrong, dt=1.0), frame=frame)
    for check in ("spikes", "outliers"):
        assert_allclose(quality.apply(bad, check).positions, expected.positions, atol=1e-6)
    assert_allclose(truth.positions[:40], expected.positions[:40], atol=1e-9)
    # Without it, what comes after would lie hundreds of metres off in the local frame.
    if frame == "local":
        assert np.abs(bad.positions[50] - expected.positions[50]).max() > 100


# The other checks


def test_stuck_instruments_are_found_from_the_first_repeated_fix_to_the_last():
    tracks = clean()
    positions = tracks.positions.copy()
    positions[250:280] = positions[250]
    bad = replace(tracks, positions=positions)
    report = quality.inspect(bad)
    assert_array_equal(report["stuck"].rows, mask(tracks, np.arange(251, 280)))
    assert quality.inspect(bad, "stuck=29h")["stuck"].n_observations == 29
    assert quality.inspect(bad, "stuck=30h")["stuck"].n_observations == 0


def test_noise_does_not_hide_a_stuck_instrument():
    tracks = clean()
    rng = np.random.default_rng(3)
    positions = tracks.positions.copy()
    positions[250:300] = positions[250] + 0.001 * rng.standard_normal((50, 2))
    bad = replace(tracks, positions=positions)
    assert quality.inspect(bad)["stuck"].n_observations == 0
    assert_array_equal(
        quality.inspect(bad, "stuck=12h:10m")["stuck"].rows, mask(tracks, np.arange(251, 300))
    )
    known = replace(bad, position_sd=np.full(len(bad.times), 0.001))
    assert quality.inspect(known, "stuck=12h")["stuck"].n_observations >= 45


def test_repeated_positions_are_a_share_of_the_steps():
    tracks = clean(2, 101)
    positions = tracks.positions.copy()
    positions[[10, 20, 150]] = positions[[9, 19, 149]]
    finding = quality.inspect(replace(tracks, positions=positions))["repeated"]
    assert_array_equal(finding.rows, mask(tracks, [10, 20, 150]))
    assert finding.limits["share"] == 3 / 200
    assert "1.5% of all steps" in finding.sentence


def test_trajectories_end_where_the_drogue_is_lost():
    tracks = clean(4, 20)
    flag = np.ones((4, 20))
    flag[1, 12:] = 0
    flag[2] = np.nan
    flag[3] = 0
    tracks = replace(tracks, flags={"drogued": flag.ravel()})
    report = quality.inspect(tracks)
    assert (report["drogued"].n_observations, report["drogued"].n_trajectories) == (28, 2)
    repaired = report.apply(tracks, ["drogued"])
    assert_array_equal(repaired.row_sizes, [20, 12, 20])
    assert_array_equal(repaired.ids, [0, 1, 2])


def test_a_flag_that_is_not_there_cannot_be_asked_for():
    with pytest.raises(DriftbayesError, match="no flag 'drogued'"):
        quality.apply(clean(), "drogued")
    quality.apply(clean(), "default")


def test_short_trajectories_and_long_gaps():
    x = clean(1, 100).positions
    times = np.concatenate([np.arange(30.0), np.arange(100.0, 170.0)])
    tracks = Trajectories.from_arrays(
        [x, x[:5] + 1], times=[times, np.arange(5.0)], ids=["a", "b"], **UNITS
    )
    report = quality.inspect(tracks, "min-points=20")
    assert_array_equal(report["gaps"].rows, mask(tracks, [30]))
    assert report["min-points"].n_trajectories == 1
    repaired = report.apply(tracks, "gaps=2d,min-points=20")
    assert (list(repaired.ids), list(repaired.row_sizes)) == (["a", "a/2"], [30, 70])
    assert_array_equal(repaired.positions, x)
    # A gap of 71 hours is not longer than 71 hours.
    assert quality.inspect(tracks, "gaps=71h")["gaps"].n_observations == 0


# All of them


def faulty(seed=0):
    tracks = clean(6, 120, seed=seed)
    positions = tracks.positions.copy()
    positions[30] += 1e3
    positions[200:215] = positions[200]
    positions[400] = positions[399]
    flag = np.ones(len(positions))
    flag[700:] = 0
    return replace(tracks, positions=positions, flags={"drogued": flag})


EVERYTHING = "spikes,stuck,drogued,repeated,gaps,min-points=15"


@given(seed=st.integers(0, 2**32))
def test_repairing_twice_is_repairing_once(seed):
    once = quality.apply(faulty(seed), EVERYTHING)
    twice = quality.apply(once, EVERYTHING)
    assert twice.fingerprint == once.fingerprint
    assert quality.inspect(once, EVERYTHING).is_clean


@given(seed=st.integers(0, 1000), c=st.sampled_from([1e-3, 0.25, 3600.0]))
def test_units_change_nothing(seed, c):
    tracks = faulty(seed)
    other = tracks.in_units(length=(1000.0, "m"), time=(3600.0, "s"))
    checks = "spikes=30km/h,stuck=11h:1m"
    for a, b in zip(
        quality.inspect(tracks, checks).findings,
        quality.inspect(other, checks).findings,
        strict=True,
    ):
        assert_array_equal(a.rows, b.rows)
    scaled = replace(tracks, positions=tracks.positions * c, times=tracks.times * c)
    for a, b in zip(
        quality.inspect(tracks).findings, quality.inspect(scaled).findings, strict=True
    ):
        assert_array_equal(a.rows, b.rows)


@given(order=st.permutations(range(6)))
def test_the_order_of_trajectories_changes_nothing(order):
    tracks = faulty()
    rows = np.concatenate([np.arange(120 * i, 120 * (i + 1)) for i in order])
    other = replace(
        tracks,
        positions=tracks.positions[rows],
        times=tracks.times[rows],
        ids=tracks.ids[list(order)],
        flags={"drogued": tracks.flags["drogued"][rows]},
    )
    pairs = zip(quality.inspect(tracks).findings, quality.inspect(other).findings, strict=True)
    for a, b in pairs:
        assert_array_equal(a.rows[rows], b.rows)


def test_what_was_done_is_in_the_provenance():
    tracks = replace(faulty(), provenance={"source": "a.csv"})
    repaired = quality.apply(tracks, "spikes=30km/h,min-points=3")
    assert repaired.provenance == {
        "source": "a.csv",
        "quality": [
            {
                **{"check": "spikes", "n_observations": 1, "n_trajectories": 1},
                **{"speed": 30.0, "unit": "km/h"},
            },
            {"check": "min-points", "n_observations": 0, "n_trajectories": 0, "min_points": 3},
        ],
    }
    assert quality.applied(repaired)[0] == "spikes: 1 position in 1 trajectory set to missing"


@pytest.mark.parametrize(
    ("checks", "message"),
    [
        ("spike", "unknown check 'spike'; known are default, drogued, stuck, spikes"),
        ("spikes=3m", "spikes must be a speed, for example 3m/s, got the unit 'm'"),
        ("stuck=6parsec", "'parsec' is not a known unit of time"),
        ("stuck=-6", "stuck must be a positive number"),
        ("min-points=2.5", "min-points must be a whole number, got '2.5'"),
        ("drogued=1", "drogued takes no value"),
    ],
)
def test_slips_are_told(checks, message):
    with pytest.raises(DriftbayesError) as error:
        quality.inspect(clean(2, 10), checks)
    assert message in str(error.value)


def test_a_unit_needs_one_in_the_data():
    tracks = clean(2, 10, length_unit="")
    with pytest.raises(DriftbayesError, match="the data have no unit of length"):
        quality.inspect(tracks, "spikes=3m/s")
    assert quality.inspect(tracks, "spikes=1e-9")["spikes"].limits["speed"] == 1e-9
