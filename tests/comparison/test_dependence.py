"""Particles that move together are worth fewer; those that do not are worth their number."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import driftbayes as db
from driftbayes._representation import describe
from driftbayes.comparison import (
    bootstrap,
    compare_hypotheses,
    dependence,
    thinned_log_bayes_factor,
)
from driftbayes.comparison._bootstrap import thinned_by_rule, unit_moments
from driftbayes.data._sampling import displacements
from driftbayes.data._trajectories import Trajectories
from driftbayes.data.sphere import on_plane
from driftbayes.errors import DriftbayesError
from driftbayes.inference import Hypothesis
from driftbayes.likelihood import ReducedDisplacements, second_moments
from driftbayes.likelihood._reduced import window_moments
from driftbayes.models import Brownian, Flow, Langevin
from driftbayes.models._options.correlated import simulate_flow
from driftbayes.priors import Exponential
from driftbayes.testing import reference

UNIT = Exponential(mean=1.0)
BOTH = [Hypothesis(Brownian, kappa=UNIT), Hypothesis(Langevin, gamma=UNIT, k=UNIT)]


def steps(n_particles, n_steps, n_dim=2, gamma=1.0, seed=0):
    rng = np.random.default_rng(seed)
    return reference.simulate_langevin(rng, n_particles, n_steps, n_dim, 1.0, gamma, 1.0)


def tracks(dx, **attributes):
    x = np.concatenate([np.zeros_like(dx[:, :1]), np.cumsum(dx, axis=1)], axis=1)
    return Trajectories.from_arrays(x, **{"dt": 1.0, **attributes})


def common_motion(rho, n_particles=40, n_steps=500, gamma=1.0, seed=0):
    shared = steps(1, n_steps, gamma=gamma, seed=seed)
    own = steps(n_particles, n_steps, gamma=gamma, seed=seed + 10_000)
    return np.sqrt(rho) * shared + np.sqrt(1 - rho) * own


# Which model fits


def test_it_is_described_once_for_terminal_and_notebook():
    found = dependence(tracks(steps(6, 50)), 1.0)
    assert repr(found) == f"<Dependence: at tau = 1 {found.sentence}>"
    card = describe(found)
    assert card.headline == f"at tau = 1 {found.sentence}"
    assert dict(card.facts)["data"] == "6 particles, 50 steps"
    assert dict(card.facts)["clusters of particles"] == str(found.n_clusters)
    assert card.headline in found._repr_html_()


def test_of_a_single_particle_no_dependence_is_claimed():
    sentence = dependence(tracks(steps(1, 50)), 1.0).sentence
    assert sentence == "there is only one particle, so no dependence between particles"


def in_one_flow(length, side=10.0, n_particles=60, n_steps=60):
    """Brownian particles in a flow of a correlation length, spread over a square."""
    rng = np.random.default_rng(5)
    start = rng.uniform(0.0, side, (n_particles, 2))
    model = Flow(Brownian(kappa=0.002), length, 0.05, 1.5)
    return simulate_flow(model, rng, start, n_steps, 1.0)


def test_common_motion_and_a_flow_are_told_apart_by_separation():
    scattered = np.random.default_rng(0).uniform(0.0, 100.0, (40, 1, 2))
    shared = np.cumsum(common_motion(0.9, n_steps=100), axis=1) + scattered
    found = dependence(Trajectories.from_arrays(shared, dt=1.0), 1.0)
    assert found.options == ("common",)
    near, far = found.correlations
    # The known correlation, near and far.
    assert abs(near - 0.9) < 0.05
    assert abs(far - 0.9) < 0.05
    assert "+common" in found.advice

    x = in_one_flow(1.0)
    found = dependence(Trajectories.from_arrays(x, dt=1.0, length_unit="km"), 1.0)
    assert found.options == ("flow",)
    # (1 - a) C(r) at the median separations, with Matérn's C of order 3/2.
    s = np.sqrt(3) * np.array(found.separations)
    expected = 0.95 * (1 + s) * np.exp(-s)
    assert_allclose(found.correlations, expected, atol=0.12)
    assert "falls off with separation" in found.advice
    assert " km)" in found.advice
    assert "+flow" in found.advice
    assert found.to_json()["options"] == ["flow"]

    alone = dependence(tracks(steps(30, 50)), 1.0)
    assert (alone.options, alone.advice) == ((), "")


def test_separations_in_a_periodic_domain_are_to_the_nearest_image():
    x = in_one_flow(1.0)
    whole = Trajectories.from_arrays(x, dt=1.0)
    # The same flow, of which half the particles are counted one period further on.
    moved = x.copy()
    moved[::2] += 1000.0
    known = {"unwrapped": [1000.0, 1000.0]}
    apart = Trajectories.from_arrays(moved, dt=1.0)
    folded = replace(apart, provenance={**apart.provenance, **known})
    assert dependence(apart, 1.0).separations[1] > 900
    assert_allclose(
        dependence(folded, 1.0).separations, dependence(whole, 1.0).separations, rtol=1e-9
    )


def test_separations_on_the_earth_are_in_the_unit_of_the_data():
    lon = np.linspace(179.0, 181.0, 12)[:, None] + 0.01 * np.arange(30)
    lonlat = np.stack([(lon + 180) % 360 - 180, np.full_like(lon, 60.0)], axis=-1)
    wave = 0.02 * np.sin(np.arange(30.0))
    lonlat[..., 1] += wave
    rows = [[str(p), t, *lonlat[p, t]] for p in range(len(lonlat)) for t in range(lonlat.shape[1])]
    frame = pd.DataFrame(rows, columns=["id", "time", "lon", "lat"])
    found = dependence(db.read(frame), 1.0)
    # Pairs are up to two degrees of longitude apart at 60° north, 55.8 km each.
    assert 0.5 * 2 * 55_800 < found.separations[1] < 2 * 55_800


@pytest.mark.parametrize("n_particles", [1, 3])
def test_too_few_pairs_leave_the_model_open(n_particles):
    found = dependence(tracks(common_motion(0.9, n_particles, 3)), 1.0)
    assert np.isnan(found.correlations).all()
    assert found.to_json()["near"] == {"separation": None, "correlation": None}


# Effective numbers


@pytest.mark.parametrize(
    ("n_particles", "n_steps", "n_dim", "gamma"),
    [
        (60, 10, 2, 0.1),
        pytest.param(60, 10, 2, 0.01, marks=pytest.mark.slow),
        pytest.param(40, 200, 2, 10.0, marks=pytest.mark.slow),
        pytest.param(40, 200, 1, 0.1, marks=pytest.mark.slow),
        (40, 50, 3, 0.3),
        pytest.param(100, 50, 3, 0.3, marks=pytest.mark.slow),
    ],
)
def test_independent_particles_are_worth_their_number(n_particles, n_steps, n_dim, gamma):
    shape = (n_particles, n_steps, n_dim, gamma)
    many = [dependence(tracks(steps(*shape, seed=s)), 1.0) for s in range(24)]
    excess = np.array([found.inflation - 1 for found in many])
    assert abs(excess.mean()) < 4 * excess.std(ddof=1) / np.sqrt(len(many))
    # The error that is quoted is no smaller than the scatter, but for the scatter of 24.
    assert excess.std(ddof=1) < 1.4 * np.mean([found.inflation_err for found in many])
    assert not any(found.is_serious for found in many)
    assert "no dependence" in many[0].sentence
    assert many[0].n_clusters == n_particles


@pytest.mark.parametrize(
    ("rho", "gamma"),
    [
        (0.05, 100.0),
        (0.8, 0.3),
        *(pytest.param(r, 0.3, marks=pytest.mark.slow) for r in (0.05, 0.3)),
        *(pytest.param(r, 100.0, marks=pytest.mark.slow) for r in (0.3, 0.8)),
    ],
)
def test_planted_common_motion_is_recovered(rho, gamma):
    n = 40
    found = [dependence(tracks(common_motion(rho, n, gamma=gamma, seed=s)), 1.0) for s in range(12)]
    for name, truth in (("mean_correlation", rho), ("mean_square", rho**2)):
        values = np.array([getattr(one, name) for one in found])
        error = values.std(ddof=1) / np.sqrt(len(values))
        # The second term: the bias that is left, some in a hundred.
        assert abs(values.mean() - truth) < 4 * error + 0.02 * truth
    expected = n / (1 + (n - 1) * rho**2)
    assert_allclose(np.mean([one.n_effective for one in found]), expected, rtol=0.15)
    assert_allclose(
        np.mean([one.n_effective_mean for one in found]), n / (1 + (n - 1) * rho), rtol=0.15
    )


def test_copies_are_worth_one_whenever_they_start_and_stop():
    dx = np.repeat(steps(1, 60), 12, axis=0)
    whole = dependence(tracks(dx), 1.0)
    assert_allclose([whole.n_effective, whole.n_effective_mean], 1.0, rtol=1e-9)
    assert whole.n_clusters == 1
    x = np.cumsum(dx[0], axis=0)
    pieces = [slice(i, 48 + i) for i in range(12)]
    ragged = Trajectories.from_arrays(
        [x[p] for p in pieces], times=[np.arange(60.0)[p] for p in pieces]
    )
    found = dependence(ragged, 1.0)
    assert found.is_serious
    assert_allclose(found.mean_square, 1.0, rtol=1e-9)
    assert found.n_effective < 1.35


def test_what_moved_alike_at_other_times_is_independent():
    x = np.cumsum(steps(1, 60)[0], axis=0)
    apart = Trajectories.from_arrays([x] * 5, times=[100.0 * i + np.arange(60) for i in range(5)])
    found = dependence(apart, 1.0)
    assert found.n_effective == 5
    assert not found.is_serious


def test_deployments_are_clusters():
    dx = np.repeat(steps(10, 300), 4, axis=0)
    order = np.random.default_rng(0).permutation(40)
    found = dependence(tracks(dx[order]), 1.0)
    assert_allclose(found.n_effective, 10, rtol=0.05)
    assert found.n_clusters == 10
    for i in range(10):
        assert len(np.unique(found.clusters[order // 4 == i])) == 1


def test_units_and_order_change_nothing():
    data = tracks(common_motion(0.5))
    found = dependence(data, 2.0).to_json()
    other = dependence(data.in_units(length=(1e3, "m"), time=(3600.0, "s")), 7200.0).to_json()
    x = data.positions.reshape(40, -1, 2)[::-1]
    turned = dependence(Trajectories.from_arrays(x, dt=1.0), 2.0).to_json()
    for key in ("mean_correlation", "mean_square", "inflation", "inflation_err", "n_effective"):
        assert_allclose([other[key], turned[key]], found[key], rtol=1e-8)


def test_a_steady_flow_is_no_dependence_and_gaps_leave_fewer_common_steps():
    dx = steps(40, 300, gamma=5.0) + np.array([10.0, 0.0])
    assert not dependence(tracks(dx), 1.0).is_serious
    data = tracks(common_motion(0.7))
    missing = np.random.default_rng(0).random(len(data.times)) < 0.2
    whole, holey = dependence(data, 1.0), dependence(data.blanked(missing), 1.0)
    assert_allclose(holey.mean_square, whole.mean_square, rtol=0.05)
    # Of the steps of one particle, the other has 0.8² at the same time.
    assert_allclose(holey.inflation - 1, 0.64 * (whole.inflation - 1), rtol=0.05)


def test_fixes_at_other_times_are_read_between_them():
    # Common motion sampled finely, each particle at random times of its own.
    rng = np.random.default_rng(1)
    x = np.concatenate([[[0.0, 0.0]], np.cumsum(steps(1, 2000, gamma=0.02)[0], axis=0)])
    times = [np.sort(rng.choice(2001, 900, replace=False)).astype(float) for _ in range(8)]
    data = Trajectories.from_arrays([x[t.astype(int)] for t in times], times=times)
    found = dependence(data, 20.0)
    assert found.n_effective < 1.05


def test_axes_carried_from_different_meridians_are_made_common():
    # A floe around the pole, rigid: buoys on all meridians move alike on a polar map.
    rng = np.random.default_rng(2)
    start = 20e3 * np.exp(2j * np.pi * np.arange(12) / 12)
    path = np.cumsum(1e3 * (rng.standard_normal(200) + 1j * rng.standard_normal(200)))
    z = start[:, None] + path
    lonlat = np.stack([np.degrees(np.angle(z)), 90 - np.degrees(np.abs(z) / 6.371e6)], axis=-1)
    data = on_plane(Trajectories.from_arrays(lonlat, dt=1.0), frame="transported")
    assert dependence(data, 1.0).n_effective < 1.02
    assert dependence(replace(data, lonlat=None), 1.0).n_effective > 1.5


def test_of_many_particles_some_are_looked_at():
    data = tracks(common_motion(0.5, n_particles=300, n_steps=200))
    every = dependence(data, 1.0)
    some = dependence(data, 1.0, max_particles=60, max_steps=150)
    assert (some.n_particles, some.n_sampled, some.n_steps) == (300, 60, 150)
    assert_allclose(some.n_effective, every.n_effective, rtol=0.15)


def test_one_particle_or_none_at_the_same_time_is_no_matter():
    assert dependence(tracks(steps(1, 20)), 1.0).n_effective == 1
    apart = Trajectories.from_arrays(
        steps(2, 2), times=[np.array([0.0, 1.0]), np.array([50.0, 51.0])]
    )
    # No step fits between two fixes.
    found = dependence(apart, 7.0)
    assert (found.n_effective, found.is_serious) == (2, False)


def test_a_sampling_time_longer_than_the_record_is_refused():
    with pytest.raises(DriftbayesError, match="longer than the record"):
        dependence(tracks(steps(2, 5)), 7.0)


# Second moments of units


def ragged_tracks():
    dx = steps(5, 90)
    x = np.cumsum(dx, axis=1)
    x[1, 20] = np.nan
    return Trajectories.from_arrays(
        [x[0], x[1], x[2, :7], x[3, :50], x[4]],
        times=[
            *(np.arange(90.0), np.arange(90.0), np.arange(7.0) + 3),
            *(np.arange(50.0) + 5, np.arange(90.0) + 40),
        ],
    )


def test_runs_begin_when_the_clock_says():
    data = ragged_tracks()
    rows = displacements(data, 1.0).start_row
    assert_array_equal(data.times[rows], [0.0, 0.0, 21.0, 3.0, 5.0, 40.0])


@pytest.mark.parametrize("kind", ["particle", "time", "random"])
def test_units_add_up_to_the_whole(kind):
    data = displacements(ragged_tracks(), 1.0)
    owner = np.repeat(data.trajectory, data.row_sizes)
    labels = {
        "particle": owner,
        "time": np.arange(len(owner)) // 11 % 7,
        "random": np.random.default_rng(0).integers(0, 4, len(owner)),
    }[kind]
    whole, parts = second_moments(data), unit_moments(data, labels, 32)
    assert_allclose(parts.forms.sum(axis=0), whole.forms, rtol=1e-9, atol=1e-9)
    assert_array_equal(parts.predicted.sum(axis=0), whole.predicted)


# ln K


@pytest.mark.slow
def test_the_bootstrap_starts_from_the_comparison_and_draws_blocks_of_time_if_all_move_together():
    data = tracks(common_motion(0.9, n_particles=10, n_steps=200))
    found = bootstrap(data, BOTH, 1.0, n_replicates=24)
    exact = compare_hypotheses(BOTH, displacements(data, 1.0))
    assert_allclose(found.log_bayes_factor, exact.log_bayes_factors["langevin:brownian"], rtol=1e-6)
    assert (found.units, found.dependence.n_clusters) == ("time", 1)
    low, high = found.interval
    assert low < found.log_bayes_factor < high
    again = bootstrap(data, BOTH, 1.0, n_replicates=24)
    assert_array_equal(again.replicates, found.replicates)
    scaled = thinned_log_bayes_factor(
        exact, BOTH, displacements(data, 1.0), 10 / found.dependence.n_effective
    )
    assert_allclose(found.scaled, scaled["langevin:brownian"], rtol=1e-6)


def test_independent_particles_are_drawn_one_by_one_and_deployments_as_such():
    single = bootstrap(tracks(steps(30, 200)), BOTH, 1.0, n_replicates=24)
    assert (single.units, single.n_units) == ("particles", 30)
    copies = tracks(np.repeat(steps(30, 200), 3, axis=0))
    several = bootstrap(copies, BOTH, 1.0, n_replicates=24)
    assert (several.units, several.n_units) == ("clusters", 30)
    # The same draws of three times the same data: ln K is about three times as large.
    assert_allclose(several.replicates.std() / single.replicates.std(), 3, rtol=0.05)
    assert_allclose(several.scaled, single.scaled, rtol=0.1)


def test_thinning_is_that_of_reduced_displacements():
    data = displacements(tracks(steps(20, 12)), 1.0)
    moment = window_moments(data.as_array()[:, None])[0]
    reduced = ReducedDisplacements(moment, 20, 2, 20, 1.0, "x").thinned(4.0)
    expected = compare_hypotheses(BOTH, reduced).log_bayes_factors
    found = thinned_log_bayes_factor(compare_hypotheses(BOTH, data), BOTH, data, 4.0)
    assert_allclose(found["langevin:brownian"], expected["langevin:brownian"], rtol=1e-7)


def test_laplaces_rule_is_near_what_thinned_moments_give():
    # For data that second moments do not tell all of.
    data = displacements(tracks(steps(20, 12)), 1.0)
    found = compare_hypotheses(BOTH, data)
    exact = thinned_log_bayes_factor(found, BOTH, data, 4.0)["langevin:brownian"]
    rule = {name: thinned_by_rule(record, 4.0) for name, record in found.evidences.items()}
    assert_allclose(rule["langevin"] - rule["brownian"], exact, atol=0.3)


def test_the_bootstrap_refuses_what_it_cannot_draw_from():
    short = tracks(np.repeat(steps(1, 12), 4, axis=0))
    with pytest.raises(DriftbayesError, match="needs at least 8 units"):
        bootstrap(short, BOTH, 1.0)
    noisy = replace(tracks(steps(9, 12)), position_sd=np.full(9 * 13, 0.1))
    with pytest.raises(DriftbayesError, match="needs exact positions"):
        bootstrap(noisy, BOTH, 1.0)
    with pytest.raises(DriftbayesError, match="expected two hypotheses"):
        bootstrap(tracks(steps(9, 12)), BOTH[:1], 1.0)
    with pytest.raises(DriftbayesError, match="replicates must be a whole number, 2 or more"):
        bootstrap(tracks(steps(9, 12)), BOTH, 1.0, n_replicates=1)


@pytest.mark.slow
@pytest.mark.parametrize("rho", [0.0, 0.9])
def test_the_bootstrap_spreads_as_data_sets_do(rho):
    """Forty data sets: the mean spread of replicates is that between the data sets."""
    n_sets = 40
    found = [
        bootstrap(
            tracks(common_motion(rho, n_particles=20, n_steps=300, seed=s)),
            *(BOTH, 1.0),
            n_replicates=60,
            seed=s,
        )
        for s in range(n_sets)
    ]
    assert {one.units for one in found} == ({"particles"} if rho == 0 else {"time"})
    log_k = np.array([one.log_bayes_factor for one in found])
    spread = np.mean([one.replicates.std(ddof=1) for one in found])
    # The spread of forty is known to 1 / sqrt(80): three of these, and a tenth for short blocks.
    assert abs(spread / log_k.std(ddof=1) - 1) < 3 / np.sqrt(2 * n_sets) + 0.1
    inside = np.mean([one.interval[0] < log_k.mean() < one.interval[1] for one in found])
    assert inside > 0.8
