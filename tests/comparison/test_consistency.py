"""The stated rule of sampling-time consistency, and the sentences made from it."""

from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.stats import chi2

from driftbayes.comparison import Comparison, ConsistentRange, Scan, consistent_range
from driftbayes.comparison._consistency import MIN_TAUS, TOLERANCE, describe_consistency
from driftbayes.comparison._describe_scan import panel_title, scan_panels, scan_tables
from driftbayes.models import MODELS, model_named
from made import made_evidence

TAUS = np.geomspace(0.1, 10.0, 12)


def found(log_mean, log_sd=0.02, taus=TAUS, identified=None, **options):
    log_mean = np.asarray(log_mean, dtype=float) + np.zeros(len(taus))
    log_sd = np.asarray(log_sd, dtype=float) + np.zeros(len(taus))
    usable = np.ones(len(taus), bool) if identified is None else np.asarray(identified)
    return consistent_range(taus, log_mean, log_sd, usable, **options)


def span(result):
    return None if result is None else (result.tau_min, result.tau_max, result.n_taus)


def obeys(taus, mean, sd, tolerance=TOLERANCE):
    """The rule as the docstring states it, for one run, from sums written out."""
    weight = 1 / (sd**2 + tolerance**2)
    common = np.sum(weight * mean) / np.sum(weight)
    scatter = np.sum(weight * (mean - common) ** 2)
    strict, place = 1 / sd**2, np.log(taus)
    centre = np.sum(strict * place) / np.sum(strict)
    spread = np.sum(strict * (place - centre) ** 2)
    slope = np.sum(strict * (place - centre) * mean) / spread
    length = place[-1] - place[0]
    allowed = max(tolerance, 2 * length / np.sqrt(spread))
    return scatter <= chi2.ppf(0.95, len(taus) - 1) and abs(slope) * length <= allowed


def every_consistent_run(taus, mean, sd, identified):
    """All runs that obey the rule, by trying each: O(n³)."""
    n = len(taus)
    return [
        (i, j)
        for i in range(n)
        for j in range(i + MIN_TAUS, n + 1)
        if identified[i:j].all() and obeys(taus[i:j], mean[i:j], sd[i:j])
    ]


# The rule


@pytest.mark.parametrize("value", [1.01, -0.4, 0.0])
def test_the_value_of_a_signed_parameter_is_its_own(value):
    result = found(value, 0.02, signed=True)
    assert span(result) == (TAUS[0], TAUS[-1], 12)
    assert_allclose(result.value, value, atol=1e-14)
    assert_allclose(result.sd, 0.02 / np.sqrt(12))


def signed_scan(name, prior, values, sd):
    """A scan of evidences made by hand, of one parameter of an anisotropic model."""
    comparisons = []
    for tau, value in zip(TAUS, values, strict=True):
        record = made_evidence(
            "brownian+anisotropic",
            names={name: (0, 0) if name == "h1" else (0, -1)},
            tau=float(tau),
            priors={name: prior},
            **{field: {name: float(value)} for field in ("map", "posterior_mean", "log_mean")},
            **{field: {name: sd} for field in ("posterior_sd", "log_sd")},
            posterior_quantiles={name: value + sd * np.array([-2.0, -1.0, 0.0, 1.0, 2.0])},
        )
        one = Comparison({record.name: record}, {record.name: 1.0}, float(tau), 10, 10, 2, 200)
        comparisons.append(one)
    return Scan(tuple(comparisons))


def test_a_scan_does_not_exponentiate_what_is_no_logarithm():
    result = signed_scan("h1", "normal:0:1", np.full(12, 1.01), 0.02)
    h1 = result.consistency["brownian+anisotropic"]["h1"]
    assert_allclose(h1.value, 1.01)
    assert "(h1 = 1.01)" in result.sentences["brownian+anisotropic"]
    assert result.consistency_json()["brownian+anisotropic"]["h1"]["value"] == h1.value


@pytest.mark.parametrize("name", ["h1", "h4"])
def test_a_signed_parameter_is_reported_without_logarithms(name):
    """Also where it happens to be positive, and for the components of three dimensions."""
    result = signed_scan(name, "normal:0:1", np.full(12, 1.01), 0.02)
    assert scan_tables(result, 0)[1].rows[0][0] == name
    panel = next(p for p in scan_panels(result) if p.name == f"parameter_{name}")
    assert panel.drawn_scales == ["linear"]


def test_the_panels_of_a_parameter_and_of_its_common_motion_have_different_titles():
    parameters = model_named("langevin+common", MODELS).parameters
    titles = {name: panel_title(about) for name, about in parameters.items()}
    assert titles["gamma"] == "Inverse decorrelation time of the velocity"
    assert titles["gamma_common"] == f"{titles['gamma']}, of the common motion"
    # Remarks on the convention or the range are left out.
    assert titles["k"] == "Long-time diffusivity"
    assert titles["common"] == "Share of the common motion in the diffusivity"


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_consistency_of_a_signed_parameter_does_not_depend_on_its_unit(unit):
    values = unit * (5.0 + 0.1 * np.sin(np.arange(12)))
    result = signed_scan("kappa", f"normal:0:{10 * unit}", values, 1e-3 * unit)
    kappa = result.consistency["brownian+anisotropic"]["kappa"]
    assert span(kappa) == (TAUS[0], TAUS[-1], 12)
    assert_allclose(kappa.value, unit * 5.0, rtol=0.02)


def test_a_constant_is_consistent_over_the_whole_range():
    result = found(np.log(2.5))
    assert span(result) == (TAUS[0], TAUS[-1], 12)
    assert_allclose(result.value, 2.5)


def test_a_step_ends_the_range():
    result = found(np.where(np.arange(12) < 4, 0.0, 1.0))
    assert span(result) == (TAUS[4], TAUS[-1], 8)
    assert_allclose(result.value, np.e)


def test_of_two_equal_levels_the_wider_in_ratio_is_taken():
    taus = np.array([1.0, 1.1, 1.2, 1.3, 1.4, 2.0, 8.0, 32.0])
    result = found(np.where(taus < 1.5, 0.0, 1.0), taus=taus)
    assert span(result) == (2.0, 32.0, 3)


def test_a_slow_drift_beyond_the_tolerance_is_not_constant():
    # Neighbours agree, and with narrow error bars the ends do not.
    drift = np.log(TAUS / TAUS[0]) / np.log(TAUS[-1] / TAUS[0])
    result = found(0.2 * drift, 1e-3)
    assert result is not None
    inside = 0.2 * np.log(result.tau_max / result.tau_min) / np.log(TAUS[-1] / TAUS[0])
    assert inside <= TOLERANCE
    assert result.n_taus < 12


def test_a_drift_within_five_per_cent_is_none():
    drift = np.log(TAUS / TAUS[0]) / np.log(TAUS[-1] / TAUS[0])
    assert span(found(0.049 * drift, 1e-3)) == (TAUS[0], TAUS[-1], 12)
    assert found(0.051 * drift, 1e-3).n_taus == 11
    assert found(0.0 * drift + 0.049 * drift, 1e-3, tolerance=0.02).n_taus < 12


def test_wide_error_bars_forgive():
    zigzag = 0.3 * (-1.0) ** np.arange(12)
    assert found(zigzag, 0.01) is None
    assert span(found(zigzag, 0.4)) == (TAUS[0], TAUS[-1], 12)


def test_a_drift_within_its_error_is_none():
    drift = np.log(TAUS / TAUS[0]) / np.log(TAUS[-1] / TAUS[0])
    assert found(0.3 * drift, 0.5).n_taus == 12


def test_what_is_not_identified_is_left_out_and_never_bridged():
    identified = np.arange(12) != 4
    result = found(0.0, identified=identified)
    assert span(result) == (TAUS[5], TAUS[-1], 7)
    for bad in (np.nan, np.inf, -1.0, 0.0):
        assert span(found(0.0, np.where(identified, 0.02, bad))) == span(result)
    assert span(found(np.where(identified, 0.0, np.nan))) == span(result)


@pytest.mark.parametrize("n", [1, 2])
def test_fewer_than_three_say_nothing(n):
    assert found(0.0, taus=TAUS[:n]) is None
    assert found(0.0, identified=np.arange(12) < n) is None


def test_nothing_identified_says_nothing():
    assert found(0.0, identified=np.zeros(12, bool)) is None
    assert found(np.nan) is None


def test_three_are_enough():
    assert span(found(0.0, taus=TAUS[:3])) == (TAUS[0], TAUS[2], 3)


# The common value


def test_the_value_is_the_weighted_mean_and_its_error_follows():
    rng = np.random.default_rng(5)
    sd = rng.uniform(0.01, 0.2, 12)
    mean = np.log(3.0) + sd * rng.normal(size=12)
    result = found(mean, sd)
    assert result.n_taus == 12
    weight = 1 / (sd**2 + 0.05**2)
    weight /= weight.sum()
    assert_allclose(result.value, np.exp(weight @ mean), rtol=1e-12)
    assert_allclose(result.sd, result.value * np.sqrt(weight**2 @ sd**2), rtol=1e-12)


def test_the_error_of_the_value_is_its_scatter():
    rng = np.random.default_rng(6)
    sd = np.geomspace(0.01, 0.1, 12)
    results = [found(0.7 + sd * rng.normal(size=12), sd) for _ in range(400)]
    whole = [r for r in results if r is not None and r.n_taus == 12]
    scatter = np.std([np.log(r.value) for r in whole])
    # 1/sqrt(2 n) of itself is the standard error of a standard deviation; four of these.
    claimed = np.mean([r.sd / r.value for r in whole])
    assert_allclose(scatter, claimed, rtol=4 / np.sqrt(2 * len(whole)))


@given(scale=st.floats(1e-6, 1e6), clock=st.floats(1e-6, 1e6), seed=st.integers(0, 2**32 - 1))
def test_units_change_the_value_and_not_the_range(scale, clock, seed):
    rng = np.random.default_rng(seed)
    mean, sd = rng.normal(0, 0.1, 12), rng.uniform(0.02, 0.1, 12)
    here, there = found(mean, sd), found(mean + np.log(scale), sd, taus=clock * TAUS)
    if here is None:
        assert there is None
        return
    # Runs of equal length tie up to rounding; any of them is right.
    assert_allclose(there.tau_max / there.tau_min, here.tau_max / here.tau_min, rtol=1e-9)
    if np.isclose(there.tau_min, clock * here.tau_min):
        assert_allclose(there.value, scale * here.value, rtol=1e-9)
        assert_allclose(there.sd, scale * here.sd, rtol=1e-9)


# Against the rule written out


@st.composite
def series(draw):
    n = draw(st.integers(1, 9))
    gaps = draw(st.lists(st.floats(0.05, 2.0), min_size=n, max_size=n))
    levels = st.sampled_from([0.0, 0.03, 0.06, 0.2, 1.0])
    mean = draw(st.lists(st.one_of(levels, st.floats(-3, 3)), min_size=n, max_size=n))
    sd = draw(st.lists(st.floats(1e-3, 1.0), min_size=n, max_size=n))
    identified = draw(st.lists(st.sampled_from([True] * 9 + [False]), min_size=n, max_size=n))
    return (
        np.exp(np.cumsum(gaps)),
        np.array(mean),
        np.array(sd),
        np.array(identified),
    )


@given(data=series())
def test_the_fast_search_agrees_with_trying_every_run(data):
    taus, mean, sd, identified = data
    runs = every_consistent_run(taus, mean, sd, identified)
    result = consistent_range(taus, mean, sd, identified)
    if not runs:
        assert result is None
        return
    longest = max(np.log(taus[j - 1] / taus[i]) for i, j in runs)
    assert_allclose(np.log(result.tau_max / result.tau_min), longest, rtol=1e-9)
    ends = (
        int(np.flatnonzero(taus == result.tau_min)[0]),
        int(np.flatnonzero(taus == result.tau_max)[0]),
    )
    assert (ends[0], ends[1] + 1) in runs
    assert result.n_taus == ends[1] + 1 - ends[0]


@pytest.mark.parametrize(
    "seed", [11, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (12, 13))]
)
def test_the_fast_search_agrees_on_many_smooth_series(seed):
    rng = np.random.default_rng(seed)
    for _ in range(100):
        sd = rng.uniform(0.005, 0.2, 12)
        mean = np.cumsum(rng.normal(0, 0.05, 12)) + sd * rng.normal(size=12)
        identified = rng.random(12) > 0.05
        runs = every_consistent_run(TAUS, mean, sd, identified)
        result = consistent_range(TAUS, mean, sd, identified)
        assert (result is None) == (not runs)
        if runs:
            longest = max(j - i for i, j in runs)
            assert result.n_taus == longest


# How often it is right


@pytest.mark.parametrize(("sd", "expected"), [(0.02, 0.995), (0.1, 0.93), (0.3, 0.91)])
def test_a_true_constant_is_found_whole_in_most_of_200_seeds(sd, expected):
    # The tests of scatter and of drift each err in 5 %; narrow errors are forgiven altogether.
    results = [
        found(np.log(2.0) + sd * np.random.default_rng(seed).normal(size=12), sd)
        for seed in range(200)
    ]
    fraction = np.mean([r is not None and r.n_taus == 12 for r in results])
    assert fraction >= 0.9 - 4 * np.sqrt(0.9 * 0.1 / 200)
    assert_allclose(fraction, expected, atol=1e-9)


def test_a_change_of_ten_error_bars_is_missed_in_none_of_200_seeds():
    steps = np.where(np.arange(12) < 6, 0.0, 1.0)
    for seed in range(200):
        rng = np.random.default_rng(seed)
        result = found(steps + 0.1 * rng.normal(size=12), 0.1)
        assert result is None or result.n_taus <= 7


# In words


def interval(low, high, value=1.0):
    return ConsistentRange(tau_min=low, tau_max=high, n_taus=5, value=value, sd=0.1)


def test_a_consistent_model_is_described_with_its_values():
    ranges = {"gamma": interval(0.1, 10.0, 0.97), "k": interval(0.5, 20.0, 1.0849)}
    assert describe_consistency("langevin", ranges, "s") == (
        "langevin is sampling-time consistent for tau from 0.5 s to 10 s (gamma = 0.97, "
        "k = 1.085): the parameters do not depend on the sampling time in this range"
    )


def test_a_model_consistent_in_part_is_described_in_parts():
    assert describe_consistency("langevin", {"gamma": None, "k": interval(1.0, 9.0)}) == (
        "langevin is partly sampling-time consistent: k from 1 to 9; not gamma"
    )
    apart = {"gamma": interval(0.1, 1.0), "k": interval(2.0, 9.0)}
    assert describe_consistency("langevin", apart, "h") == (
        "langevin is partly sampling-time consistent: gamma from 0.1 h to 1 h, k from 2 h to 9 h"
    )


def test_an_inconsistent_model_is_called_so():
    assert describe_consistency("brownian", {"kappa": None}) == (
        "brownian is not sampling-time consistent in the scanned range: its parameters depend "
        "on the sampling time"
    )


@pytest.mark.parametrize("n_taus", [1, 2])
def test_too_short_a_scan_is_not_held_against_the_model(n_taus):
    assert describe_consistency("brownian", {"kappa": None}, n_taus=n_taus) == (
        f"sampling-time consistency of brownian cannot be assessed: the scan has {n_taus} sampling "
        f"time{'s' if n_taus == 2 else ''}, at least 3 are needed"
    )


def test_a_range_is_a_plain_record():
    assert set(asdict(interval(1.0, 2.0))) == {"tau_min", "tau_max", "n_taus", "value", "sd"}
