"""The clock of the steps: a period in frames is found, and none where there is none."""

import json

import numpy as np
import pytest

import driftbayes as db
from driftbayes.diagnostics._modulation import _excess, modulation, step_correlations
from driftbayes.diagnostics._scales import lag_one_doubts


def walk(n_particles=20, n_steps=240, *, seed=0, sizes=None, start=0):
    """Brownian steps, each multiplied by the size of its frame."""
    rng = np.random.default_rng(seed)
    steps = rng.normal(size=(n_particles, n_steps, 2))
    if sizes is not None:
        frames = np.arange(1, n_steps + 1) + start
        steps *= np.asarray(sizes)[frames % len(sizes)][:, None]
    x = np.concatenate([np.zeros((n_particles, 1, 2)), np.cumsum(steps, axis=1)], axis=1)
    times = 0.5 * (start + np.arange(n_steps + 1))
    return db.Trajectories.from_arrays(x, times=times, length_unit="um", time_unit="s")


def test_a_period_is_named_with_its_phase():
    sizes = np.ones(12)
    sizes[5] = 1.35
    found = modulation(walk(sizes=sizes, start=100))
    assert (found.period, found.is_significant) == (12, True)
    assert int(np.argmax(found.profile)) == 5
    # Variance over 2 tau, with tau = 1/2.
    assert found.profile[5] == pytest.approx(1.35**2, abs=5 * found.errors[5])
    others = np.delete(found.profile, 5)
    assert np.all(np.abs(others - 1) < 5 * np.delete(found.errors, 5))
    assert "modulo 12 (p = 0.002)" in found.sentence
    assert "phase 5" in found.sentence
    assert "um²/s" in found.sentence


def test_an_alternation_is_a_period_of_two():
    assert modulation(walk(n_particles=8, sizes=[1.0, 1.2])).period == 2


def heavy_tailed(rng):
    scale = rng.gamma(0.5, 2.0, (15, 1, 1)) ** -0.5
    return np.cumsum(scale * rng.standard_t(2.5, size=(15, 200, 2)), axis=1)


def remembering(rng):
    velocity = np.zeros((15, 200, 2))
    for i in range(1, 200):
        velocity[:, i] = 0.9 * velocity[:, i - 1] + rng.normal(size=(15, 2))
    return np.cumsum(velocity, axis=1)


def oscillating(rng):
    phase = rng.uniform(0, 2 * np.pi, (15, 1, 1))
    turn = np.arange(200)[None, :, None] * 0.52 + phase + np.array([0.0, 1.0])
    return 3 * np.sin(turn) + np.cumsum(rng.normal(size=(15, 200, 2)), axis=1)


@pytest.mark.parametrize("motion", [heavy_tailed, remembering, oscillating])
def test_motion_without_a_clock_has_no_period(motion):
    p_values = [
        modulation(db.Trajectories.from_arrays(motion(np.random.default_rng(seed)), dt=1.0)).p_value
        for seed in range(12)
    ]
    # Of twelve, four below 0.05 happen by chance in two of a thousand.
    assert np.sum(np.array(p_values) < 0.05) < 4
    assert min(p_values) >= 0.005


def test_too_few_steps_say_nothing():
    assert modulation(walk(n_particles=3, n_steps=50)) is None


def test_correlations_of_a_moving_average():
    rng = np.random.default_rng(2)
    kicks = rng.normal(size=(40, 303, 2))
    steps = kicks[:, 2:] + 0.5 * kicks[:, 1:-1]
    tracks = db.Trajectories.from_arrays(np.cumsum(steps, axis=1), dt=1.0)
    found, errors = step_correlations(tracks, 3)
    expected = np.array([0.5 / 1.25, 0.0, 0.0])
    assert np.all(np.abs(found - expected) < 4 * errors)
    assert np.all(errors < 0.02)


def test_diagnose_tells_the_period():
    sizes = np.ones(6)
    sizes[1] = 1.4
    result = db.diagnose(walk(sizes=sizes), n_lags=5, n_resamples=20)
    assert result.attrs["modulation_period"] == 6
    assert "modulo 6" in result.attrs["modulation"]
    assert len(json.loads(result.attrs["modulation_profile"])) == 6
    assert abs(json.loads(result.attrs["step_correlations"])[0]) < 0.05


def test_info_tells_the_period_as_diagnose_does():
    sizes = np.ones(12)
    sizes[5] = 1.35
    tracks = walk(sizes=sizes, start=100)
    assert modulation(tracks).sentence in db.info(tracks).warnings
    assert not any("frame number" in text for text in db.info(walk()).warnings)


@pytest.mark.parametrize(("period", "extra"), [(2, 0.08), (12, 0.2), (25, 0.3)])
def test_the_quick_look_misses_no_period(period, extra):
    """At this size a period is barely significant."""
    sizes = np.ones(period)
    sizes[0] += extra
    tracks = walk(seed=1, sizes=sizes, n_particles=10)
    found = modulation(tracks)
    assert (found.is_significant, found.period) == (True, period)
    assert modulation(tracks, only_likely=True).p_value == found.p_value


def test_the_quick_look_knows_chance():
    """The excess of random shifts has the mean 0 and the standard deviation 1."""
    rng = np.random.default_rng(8)
    for period in (2, 3, 12):
        total = rng.normal(size=(60, period)) + 2
        place = np.arange(period)
        shifted = [
            total[np.arange(60)[:, None], (place + rng.integers(0, period, (60, 1))) % period]
            for _ in range(2000)
        ]
        found = np.array([_excess(one) for one in shifted])
        assert abs(found.mean()) < 0.15
        assert abs(found.std() - 1) < 0.2


def seen(x, tau=1.0, **options):
    data = db.displacements(db.Trajectories.from_arrays(x, dt=1.0), tau)
    return "; ".join(s for _, s in lag_one_doubts(data, **options)) or None


def brownian(rng, n_fine=1):
    return np.cumsum(rng.normal(size=(30, 200 * n_fine, 2)), axis=1)


def test_noise_that_dominates_is_named_unless_a_model_has_it():
    rng = np.random.default_rng(3)
    x = 0.05 * brownian(rng) + rng.normal(size=(30, 200, 2))
    assert seen(x).startswith("measurement noise dominates: successive displacements correlate at")
    assert seen(x, options=["noise"]) is None
    assert db.displacements(db.Trajectories.from_arrays(x, dt=1.0), 1.0).position_sd is None


def test_some_noise_is_likely_where_steps_correlate_negatively():
    rng = np.random.default_rng(4)
    x = brownian(rng) + 0.5 * rng.normal(size=(30, 200, 2))
    assert "as expected from measurement noise or confinement" in seen(x)


def test_an_exposure_is_recognised_at_one_frame_only():
    rng = np.random.default_rng(5)
    fine = brownian(rng, 20).reshape(30, 200, 20, 2)
    assert "an exposure of" in seen(fine.mean(axis=2))
    assert seen(fine.mean(axis=2), is_every_fix=False) is None
    assert seen(fine.mean(axis=2), options=["blur"]) is None
    assert seen(fine[:, :, 0]) is None


def test_a_common_drift_is_named():
    x = brownian(np.random.default_rng(6)) + 0.3 * np.arange(200)[None, :, None]
    assert "drift together" in seen(x)
    assert seen(x, options=["mean"]) is None


@pytest.mark.parametrize("motion", [heavy_tailed, lambda rng: brownian(rng)])
def test_honest_motion_gets_no_doubt(motion):
    assert [seen(motion(np.random.default_rng(seed))) for seed in range(10)] == [None] * 10


def test_compare_scan_and_info_say_that_noise_dominates():
    rng = np.random.default_rng(7)
    x = 0.05 * brownian(rng) + rng.normal(size=(30, 200, 2))
    tracks = db.Trajectories.from_arrays(x, dt=1.0)
    assert any("noise dominates" in text for text in db.info(tracks).warnings)
    scales = db.Scales(u_rms=1.0, time=1.0)
    with pytest.warns(db.DataWarning, match="noise dominates"):
        db.compare(tracks, 1.0, scales=scales)
    with pytest.warns(db.DataWarning, match="noise dominates"):
        db.scan(tracks, [1.0, 2.0], scales=scales)
