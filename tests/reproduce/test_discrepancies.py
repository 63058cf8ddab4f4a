"""What the paper's turbulence experiment gets wrong: every closed form against a simulation."""

import json

import equinox as eqx
import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from driftbayes.data._sampling import Displacements
from driftbayes.errors import DriftbayesError
from driftbayes.inference import Hypothesis, evidence
from driftbayes.models import Brownian, Langevin
from driftbayes.priors import scaling_priors
from driftbayes.reproduce.discrepancies import (
    Discrepancies,
    forcing_readings,
    mislabelled_tau,
    particle_scheme,
    spurious_mode,
)
from driftbayes.reproduce.discrepancies._forcing import _SMALL as SMALL_FORCED
from driftbayes.reproduce.discrepancies._halfplane import (
    ForcedFlow,
    hermitian_part,
    mode_energy,
    mode_mean_energy,
    mode_rates,
    naive_flow,
    variance_of_time_mean,
)
from driftbayes.reproduce.discrepancies._labels import GAMMA, RECORDING_INTERVAL, K
from driftbayes.reproduce.discrepancies._published import (
    DT,
    EPSILON,
    GRID,
    K_F,
    TAU_ZETA,
    U_RMS,
    WIDTH,
    measured_flow,
    ring_sum,
)
from driftbayes.reproduce.discrepancies._schemes import papers_advect
from driftbayes.testing import reference
from driftbayes.turbulence.flow import Flow, velocity
from driftbayes.turbulence.forcing import Forcing
from driftbayes.turbulence.grid import Grid
from driftbayes.turbulence.particles import Interpolation, advect

# Of a standard error: one chance in 150,000 for a normal deviate.
SIGMA = 4.5


@pytest.fixture(autouse=True, scope="module")
def usual_promotion():
    """The simulator mixes real factors with complex modes."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


@pytest.fixture(scope="module")
def forcing():
    return forcing_readings(seed=0, n_draws=6, duration=60.0)


@pytest.fixture(scope="module")
def spurious():
    return spurious_mode(seed=0, n_steps=500)


@pytest.fixture(scope="module")
def scheme():
    return particle_scheme(seed=0, duration=1.5, n_particles=200, lags=(0.5, 1.0, 2.0))


@pytest.fixture(scope="module")
def labels():
    return mislabelled_tau(seed=0)


@pytest.fixture(scope="module")
def result(forcing, spurious, scheme, labels):
    return Discrepancies(forcing=forcing, spurious=spurious, scheme=scheme, labels=labels)


# The forcing


def _modes(grid, forcing):
    return np.hypot(grid.kx[0, forcing.columns], grid.ky[forcing.rows, 0])


@pytest.mark.slow
def test_the_rate_of_a_reading_makes_the_simulator_draw_kicks_of_its_variance(forcing):
    grid = Grid(GRID)
    for i, variance in ((0, 8.9e8 / (2 * np.pi)), (1, 8.93e8 / np.pi)):
        ring = Forcing.on_ring(grid, epsilon=forcing.epsilon[i], k_f=K_F, width=WIDTH)
        assert_allclose(DT * np.asarray(ring.amplitude) ** 2, variance / _modes(grid, ring))


@pytest.mark.slow
def test_drawn_kicks_inject_what_the_closed_form_says(forcing):
    # The energy of a mode and its conjugate is exponential, those of different ones independent.
    pairs = ring_sum(K_F, WIDTH, -6) / 2
    relative_sd = np.sqrt(pairs) / (ring_sum(K_F, WIDTH, -3) / 2) / np.sqrt(6)
    for i in (0, 1):
        deviation = forcing.epsilon_drawn[i] / forcing.epsilon[i] - 1
        assert abs(deviation) < SIGMA * relative_sd
    assert relative_sd < 0.015
    assert np.isnan(forcing.epsilon_drawn[2:]).all()


def test_readings_differ_by_the_factors_they_should(forcing):
    a, b, c, d, e, f, g, h, i = forcing.epsilon
    assert_allclose(b / a, 2 * 8.93 / 8.9)
    assert_allclose([c / a, d / a], [DT**2, DT])
    assert_allclose([e / a, f / e, g / e], [GRID**4, DT**2, DT])
    assert_allclose([h / c, i / f], [GRID**2, (2 * np.pi) ** -4])


def test_the_notes_rate_is_that_of_the_ring_without_its_edges(forcing):
    assert f"{forcing.epsilon_open[1]:.3g}" == "0.00636"
    assert f"{forcing.epsilon[1]:.3g}" == "0.00639"


def test_energy_balance_leaves_four_readings(forcing):
    names = np.array(forcing.names)
    assert names[forcing.is_possible].tolist() == ["a", "b", "h", "i"]
    assert np.isfinite(forcing.energy_scaled[forcing.is_possible]).all()
    assert np.isnan(forcing.energy_scaled[~forcing.is_possible]).all()


def test_a_real_flow_keeps_within_the_bounds(forcing):
    ring = {"k_f": SMALL_FORCED["k_f"], "width": 2.0}
    cut = 0.65 * SMALL_FORCED["grid"] / 2
    for energy, epsilon in zip(forcing.small_energies, (EPSILON, EPSILON / 2), strict=True):
        eta = epsilon * ring_sum(**ring, power=-1) / ring_sum(**ring, power=-3)
        assert (epsilon - eta / cut**2) / 2 < energy < eta / 2


def test_half_the_rate_gives_somewhat_more_than_half_the_energy(forcing):
    # The block average over this short a time is good to a few per cent.
    assert forcing.energy_ratio_error < 0.03
    assert forcing.energy_ratio - 2 * forcing.energy_ratio_error > 0.5
    assert abs(forcing.energy_ratio - forcing.energy_ratio_scaling) < 0.1
    energy = measured_flow().energy[0]
    assert_allclose(forcing.energy_scaled[0], energy * (8.9 / 17.86) ** forcing.exponent)


# The half-plane


def _random_modes(grid):
    rng = np.random.default_rng(5)
    parts = rng.standard_normal((2, *grid.shape))
    return (parts[0] + 1j * parts[1]) * grid.resolved


def test_numpy_keeps_the_hermitian_part_and_drops_the_other():
    grid = Grid(16)
    modes = _random_modes(grid)
    kept = hermitian_part(modes)
    points = np.fft.irfft2(modes)
    assert_allclose(points, np.fft.irfft2(kept), atol=1e-15)
    assert_allclose(np.fft.rfft2(points), kept, atol=1e-13)
    assert_allclose(np.fft.irfft2(modes - kept), 0, atol=1e-16)
    assert np.abs(modes - kept).max() > 0.5
    assert_array_equal((modes - kept)[:, 1:], 0)


def test_the_mean_of_two_values_is_what_is_kept():
    modes = _random_modes(Grid(16))
    again = np.fft.rfft2(np.fft.irfft2(modes))
    assert_allclose(again[3, 0], (modes[3, 0] + np.conj(modes[-3, 0])) / 2)
    assert_allclose(again[-3, 0], np.conj(again[3, 0]))


def test_this_package_would_not_drop_it():
    grid = Grid(16)
    modes = _random_modes(grid)
    lost = modes - hermitian_part(modes)
    q = np.asarray(eqx.filter_jit(velocity)(grid, lost))
    assert np.abs(q).max() > 1e-3


def test_the_time_mean_of_a_modes_energy_and_its_variance_are_the_integrals():
    rate, k = mode_rates(EPSILON, K_F, WIDTH)
    a, b = 500.0, 1000.0
    # Gauss--Legendre in both times; the kink on the diagonal is avoided by symmetry.
    x, w = np.polynomial.legendre.leggauss(40)
    s, ws = (a + b) / 2 + (b - a) / 2 * x, (b - a) / 2 * w
    energy = mode_energy(rate, k, s)
    assert_allclose(energy @ ws / (b - a), mode_mean_energy(rate, k, a, b), rtol=1e-12)
    double = np.zeros(len(k))
    for i, start in enumerate(s):
        t, wt = (start + b) / 2 + (b - start) / 2 * x, (b - start) / 2 * w
        decay = np.exp(-2 / k[:, None] ** 2 * (t - start))
        double += 2 * ws[i] * energy[:, i] ** 2 * (decay @ wt)
    assert_allclose(double / (b - a) ** 2, variance_of_time_mean(rate, k, a, b), rtol=1e-9)


@pytest.mark.slow
def test_drawn_modes_have_the_mean_and_spread_of_the_closed_form(spurious):
    n = 4000
    for name in ("energy_mean", "enstrophy_mean"):
        mean, sd = getattr(spurious, name)
        drawn, drawn_sd = getattr(spurious, f"{name}_drawn")
        assert abs(drawn - mean) < SIGMA * sd / np.sqrt(n)
        # Kurtosis of a sum of five exponentials: 3 + 6/5; that of means over time is smaller.
        assert abs(drawn_sd / sd - 1) < SIGMA * np.sqrt((4.2 - 1) / (4 * n))


def test_the_paper_has_five_spurious_modes_and_three_without_the_edges(spurious):
    assert_array_equal(spurious.k, [62, 63, 64, 65, 66])
    rate, _ = mode_rates(EPSILON, K_F, WIDTH)
    # Early growth: half of what goes into the column, which is 10 modes of the whole ring.
    share = np.sum(2 * spurious.k**-3.0) / ring_sum(K_F, WIDTH, -3)
    assert_allclose(rate.sum(), EPSILON * share / 2)
    assert_allclose(spurious.ring_energy.sum(), np.interp(500, spurious.t, spurious.energy))
    assert_allclose(spurious.energy_final, mode_energy(*mode_rates(EPSILON, K_F, WIDTH), 1e6).sum())
    assert 0.5 < spurious.energy_mean_open[0] / spurious.energy_mean[0] < 0.7


def test_the_published_excess_is_one_of_the_likely_ones(spurious):
    for name in ("energy", "enstrophy"):
        published, error = getattr(spurious, f"{name}_published")
        for kind in ("mean", "mean_open"):
            mean, sd = getattr(spurious, f"{name}_{kind}")
            assert abs(published - mean) < 2 * np.hypot(sd, error)
            # And none is not: without a spurious mode the excess would be zero.
            assert mean > 1.5 * sd


def test_in_a_flow_the_lost_part_is_noise_damped_by_friction_to_the_last_digits(spurious):
    assert spurious.flow_path_error < 1e-13


def test_kicks_lose_what_the_closed_form_says(spurious):
    drawn, expected, error = spurious.flow_rate
    assert abs(drawn - expected) < SIGMA * error
    assert error < 0.01 * expected


def test_what_flows_does_not_know_of_the_lost_part(spurious):
    assert spurious.flow_difference < 1e-12


def test_in_small_flows_the_excess_grows_as_the_closed_form_says(spurious):
    excess = spurious.flow_counted - spurious.flow_energy
    assert excess.min() > 0
    error = spurious.flow_expected_sd / np.sqrt(len(excess))
    for i in (9, 24, 49):
        assert abs(excess[:, i].mean() - spurious.flow_expected[i]) < SIGMA * error[i]


def test_a_hermitian_kick_leaves_no_excess():
    small = ForcedFlow(n=32, k_f=6.0, width=1.0, epsilon=0.01, dt=0.02)
    found = naive_flow(small, n_flows=2, n_steps=100, seed=3, hermitian=True)
    assert_allclose(found.counted, found.energy, rtol=1e-13)
    naive = naive_flow(small, n_flows=2, n_steps=100, seed=3)
    assert np.all(naive.counted[:, -1] > 1.0001 * naive.energy[:, -1])


# The scheme of the particles


class _Uniform(Interpolation):
    """A velocity that is the field itself, the same everywhere or one for each particle."""

    def coefficients(self, flow, middle, end):
        return None, None

    def velocity(self, flow, field, x):
        return field + 0 * x


def _moved(scheme, h, velocities):
    """Displacements after an even number of steps; the velocities at their ends are given."""
    flow = Flow.make(Grid(8), h)
    x = np.zeros(velocities.shape[1:], np.complex128)
    advance = eqx.filter_jit(scheme)
    for i in range(0, len(velocities) - 2, 2):
        x = advance(flow, _Uniform(), tuple(velocities[i : i + 3]), x)
    return np.asarray(x)


def test_the_scheme_sees_a_velocity_that_grows_a_third_of_a_step_early():
    h = 0.1
    growing = h * np.arange(11.0)[:, None]
    # ∫ (t + h/3) dt and ∫ t dt from 0 to 1, exactly.
    assert_allclose(_moved(papers_advect, h, growing), 0.5 + h / 3, rtol=1e-14)
    assert_allclose(_moved(advect, h, growing), 0.5, rtol=1e-14)


@pytest.mark.parametrize("n", [32, 64])
def test_its_error_is_a_third_of_a_step_times_the_change_of_velocity(n):
    h = 1 / n
    t = h * np.arange(n + 1)[:, None]
    error = _moved(papers_advect, h, np.cos(3 * t)) - np.sin(3.0) / 3
    # In a uniform flow the rest is the error of the trapezoid rule, by Euler and Maclaurin.
    rest = h**2 / 12 * -3 * np.sin(3.0)
    assert_allclose(error, h / 3 * (np.cos(3.0) - 1) + rest, rtol=1e-4)


def test_white_noise_in_the_velocity_makes_both_schemes_of_first_order():
    n_steps, fine, n_walks = 12, 24, 4000
    later, end = fine // 3, n_steps * fine
    increments = np.random.default_rng(8).standard_normal((end + later, n_walks)) / np.sqrt(fine)
    walk = np.concatenate([np.zeros((1, n_walks)), np.cumsum(increments, axis=0)])
    middle = (walk[1:] + walk[:-1]) / 2
    seen = walk[: end + 1 : fine]
    # The step is 1 and the walk has variance 1 per unit time. An increment at r within a step has
    # the weight r - 1/3 or r - 5/3 in the error over two steps, r - 1/2 in the other; where the
    # later release has no step before it, it is -1/6, and after the end it is 1/3 - r.
    edges = (1 / 216 - 1 / 8) / 3 + 1 / 108 + 1 / 81
    for scheme, truth, variance in (
        (advect, middle[:end].sum(axis=0) / fine, n_steps / 9),
        (papers_advect, middle[later:].sum(axis=0) / fine, n_steps / 12 + edges),
    ):
        error = _moved(scheme, 1.0, seen).real - truth
        assert abs(np.var(error) / variance - 1) < SIGMA * np.sqrt(2 / n_walks)


@pytest.mark.slow
def test_in_a_smooth_flow_the_orders_are_one_and_four(scheme):
    _, free = scheme.papers_order
    assert_allclose(free, 1.0, atol=0.05)
    assert_allclose(scheme.ours_order[1], 4.0, atol=0.15)


@pytest.mark.slow
def test_particles_released_a_third_of_a_step_later_go_the_same_way(scheme):
    assert_allclose(scheme.residual_order[1], 2.0, atol=0.1)
    assert_allclose(scheme.slope[1], 1.0, atol=0.005)
    assert np.all(scheme.residual[1] < 0.02 * scheme.papers[1])
    assert_allclose(scheme.shifted[1], scheme.papers[1], rtol=0.01)


@pytest.mark.slow
def test_in_a_forced_flow_both_schemes_are_of_first_order(scheme):
    assert_allclose(scheme.papers_order[0].mean(), 1.0, atol=0.1)
    assert_allclose(scheme.ours_order[0].mean(), 1.0, atol=0.3)
    assert np.all(scheme.ours[0] < 0.5 * scheme.papers[0])
    assert_allclose(scheme.slope[0], 1.0, atol=0.1)
    # Shear only adds to what noise alone would do; over a turnover time or two not tenfold.
    assert np.all(scheme.ours[0] > 0.7 * scheme.ours_noise)
    assert np.all(scheme.ours[0] < 5 * scheme.ours_noise)


@pytest.mark.slow
def test_the_step_is_the_papers_in_units_of_the_turnover_time(scheme):
    assert_allclose(1 / scheme.h_over_turnover[0], measured_flow().turnover_time / 2.5e-4)
    assert_allclose(scheme.h, scheme.h[0] * np.array([1, 2, 4, 8]))


@pytest.mark.slow
def test_the_mean_square_displacement_is_not_changed(scheme):
    change, error = scheme.msd_change, scheme.msd_change_error
    assert np.all(np.abs(change) < SIGMA * error)
    assert np.all(error < 1e-3)
    assert np.all(np.abs(change - scheme.msd_shift) < SIGMA * error)


# The labels


def test_wrong_labels_reach_the_notes_17_per_cent_and_vanish_where_the_paper_concludes(labels):
    wrong = 1 - labels.ratio
    assert_array_equal(labels.stride, np.floor(labels.tau / RECORDING_INTERVAL))
    assert round(100 * wrong.max()) == 17
    assert np.all(wrong >= 0)
    assert wrong[labels.tau > 50 * TAU_ZETA].max() < 0.004


def test_a_wrong_label_is_a_change_of_the_unit_of_time_for_any_data():
    dx = np.random.default_rng(2).standard_normal((7, 5, 2)).cumsum(axis=1)
    right, wrong = (Displacements.from_array(dx, tau) for tau in (0.5, 0.6))
    r = 0.5 / 0.6
    for one, other in (
        (Brownian(kappa=0.7), Brownian(kappa=0.7 * r)),
        (Langevin(gamma=1.3, k=0.4), Langevin(gamma=1.3 * r, k=0.4 * r)),
    ):
        assert_allclose(other.log_likelihood(wrong), one.log_likelihood(right), rtol=1e-13)


def test_infinitely_many_data_give_the_ratio(labels):
    ratio = labels.ratio[labels.chosen]
    assert_allclose(labels.gamma_limit, ratio, rtol=1e-5)
    assert_allclose(labels.k_limit, ratio, rtol=1e-5)


def test_drawn_langevin_data_give_the_ratio(labels):
    ratio = labels.ratio[labels.chosen]
    assert np.all(np.abs(labels.gamma - ratio) < SIGMA * labels.gamma_sd)
    assert np.all(np.abs(labels.k - ratio) < SIGMA * labels.k_sd)
    kappa = labels.kappa_ratio[labels.chosen]
    assert np.all(np.abs(labels.kappa - kappa) < SIGMA * labels.kappa_sd)
    # The worst label is seen in every parameter.
    for values, sd in ((labels.gamma, labels.gamma_sd), (labels.k, labels.k_sd)):
        assert 1 - values[0] > SIGMA * sd[0]


def test_drawn_brownian_data_give_the_ratio():
    r, tau, kappa = 5 / 6, 0.075, 0.05
    n = 4000
    dx = np.sqrt(2 * kappa * r * tau) * np.random.default_rng(1).standard_normal((n, 25, 2))
    prior = scaling_priors(u_rms=U_RMS, timescale=TAU_ZETA)
    found = evidence(Hypothesis(Brownian, kappa=prior["kappa"]), Displacements.from_array(dx, tau))
    error = r * kappa * np.sqrt(2 / dx.size)
    assert abs(found.posterior_mean["kappa"] - r * kappa) < SIGMA * error
    assert abs(found.posterior_mean["kappa"] - kappa) > 10 * error


def test_the_evidence_is_that_with_prior_means_divided_by_the_ratio():
    r, tau = 5 / 6, 0.075
    dx = reference.simulate_langevin(np.random.default_rng(4), 50, 25, 2, r * tau, GAMMA, K)
    wrong, right = (Displacements.from_array(dx, t) for t in (tau, r * tau))
    prior = scaling_priors(u_rms=U_RMS, timescale=TAU_ZETA)
    for model in (Brownian, Langevin):
        plain = Hypothesis.from_table(model, prior)
        stretched = Hypothesis.from_table(
            model, {name: p.rescaled(1 / r) for name, p in prior.items()}
        )
        assert_allclose(
            evidence(plain, wrong).log_evidence, evidence(stretched, right).log_evidence, atol=1e-6
        )


def test_the_bayes_factor_hardly_changes(labels):
    assert_allclose(labels.log_k_change, labels.log_k_change_expected, atol=0.005)
    assert np.abs(labels.log_k_change).max() < 0.1
    assert np.abs(labels.log_k_change[0]) > 10 * 0.005
    assert labels.log_k[0] > 1e4


# Files


@pytest.mark.slow
def test_numbers_and_figure_are_written(result, tmp_path):
    directory = tmp_path / "new" / "place"
    paths = result.write(directory)
    assert [path.name for path in paths] == [
        *("discrepancies.json", "discrepancies.png", "discrepancies.pdf")
    ]
    assert {path.name for path in directory.iterdir()} == {path.name for path in paths}
    found = json.loads(paths[0].read_text(encoding="utf-8"))
    assert found == json.loads(json.dumps(result.to_json()))
    for name, part in (("forcing_readings", result.forcing), ("mislabelled_tau", result.labels)):
        assert found[name].keys() == vars(part).keys()
    assert found["forcing_readings"]["epsilon_drawn"][2] is None
    assert_allclose(found["spurious_mode"]["energy"], result.spurious.energy)
    assert paths[1].read_bytes().startswith(b"\x89PNG")
    assert paths[2].read_bytes().startswith(b"%PDF-1.")


@pytest.mark.slow
def test_the_figure_shows_what_was_found(result):
    above, middle, below = result.figures()["discrepancies"].axes
    line = next(line for line in above.lines if "closed form" in str(line.get_label()))
    assert_array_equal(line.get_ydata(), result.spurious.energy)
    assert any(
        np.array_equal(line.get_ydata(), result.scheme.papers[0] / result.scheme.displacement[0])
        for line in middle.lines
    )
    assert any(np.array_equal(line.get_ydata(), result.labels.ratio - 1) for line in below.lines)


@pytest.mark.slow
def test_a_file_in_the_way_is_named(result, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DriftbayesError, match="is a file, expected a directory to write to"):
        result.write(tmp_path / "file")
    with pytest.raises(DriftbayesError, match=r"cannot create the directory '.*file/under'"):
        result.write(tmp_path / "file" / "under")


def test_the_seed_makes_the_numbers():
    small = ForcedFlow(n=32, k_f=6.0, width=1.0, epsilon=0.01, dt=0.02)
    first, again, other = (
        naive_flow(small, n_flows=1, n_steps=20, seed=seed).vorticity for seed in (1, 1, 2)
    )
    assert_array_equal(first, again)
    assert np.all(first != other)
