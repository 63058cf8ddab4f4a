"""Integrals on lattices that grow from the mode, against integrals that are known."""

import numpy as np
import peaks
import pytest
from numpy.testing import assert_allclose

from driftbayes.errors import DriftbayesError
from driftbayes.inference._lattice import FloodFill, Region, estimate_aliasing, to_points, to_w
from driftbayes.inference._node_lattice import integrate

DENSITIES = {
    "gaussian": peaks.gaussian,
    "narrow": peaks.narrow,
    "correlated": peaks.correlated,
    "log_gamma_50": peaks.log_gamma(50.0),
    "log_gamma_5": peaks.log_gamma(5.0),
    "log_gamma_1": peaks.log_gamma(1.0),
    "student_10": peaks.student(10.0),
    "student_3": peaks.student(3.0),
    "may_vanish": peaks.may_vanish,
    "banana": peaks.banana,
    "logistic": peaks.logistic,
}
TOLERANCES = {1: (1e-3, 1e-8), 2: (1e-3, 1e-8), 3: (1e-3,), 4: (1e-3,)}
# Four heavy tails at once need more nodes than a test should. A ridge that bends three times is not
# resolved with 50,000 nodes, and its error may be ten times the stated one.
EXPENSIVE = {("student_3", 4), ("banana", 4), ("log_gamma_1", 4), ("logistic", 4)}
CASES = [
    (name, n_dim, tolerance)
    for n_dim, tolerances in TOLERANCES.items()
    for tolerance in tolerances
    for name in DENSITIES
    if (name, n_dim) not in EXPENSIVE
]


def integral_of(log_density, n_dim, tolerance=1e-3, **options):
    # Not quite at the mode, so that no symmetry helps.
    center = 0.2 * np.random.default_rng(n_dim).standard_normal(n_dim)
    options = {"max_nodes": 50_000, **options}
    return integrate(
        peaks.with_sum(log_density), center, np.eye(n_dim), tolerance=tolerance, **options
    )


@pytest.mark.parametrize(("name", "n_dim", "tolerance"), CASES)
def test_the_true_error_is_within_the_stated_one(name, n_dim, tolerance):
    lattice = integral_of(DENSITIES[name], n_dim, tolerance)
    assert lattice.contained
    assert lattice.error <= tolerance
    assert abs(lattice.log_integral) <= lattice.error


@pytest.mark.parametrize("n_dim", [2, 3])
def test_a_ridge_oblique_to_the_axes_is_resolved(n_dim):
    lattice = integral_of(peaks.oblique, n_dim)
    assert abs(lattice.log_integral) <= lattice.error <= 1e-3


@pytest.mark.parametrize(("n_dim", "most"), [(1, 20), (2, 100), (3, 400), (4, 2000), (5, 10_000)])
@pytest.mark.parametrize("name", ["gaussian", "log_gamma_50"])
def test_few_nodes_are_enough_for_a_nearly_gaussian_peak(name, n_dim, most):
    calls = []

    def log_f(z):
        calls.append(len(z))
        return DENSITIES[name](z), z[:, :0]

    lattice = integrate(log_f, np.zeros(n_dim), np.eye(n_dim), tolerance=1e-3, max_nodes=50_000)
    assert abs(lattice.log_integral) <= lattice.error <= 1e-3
    assert sum(calls) == lattice.n_evaluations <= most
    assert len(calls) <= 5


def test_the_estimate_holds_at_any_spacing_and_shift():
    """At fixed spacings, without refinement, where errors are between 1e-9 and 0.1."""
    rng = np.random.default_rng(2)
    ratios = []
    for n_dim, spacings in ((1, (2.0, 1.7, 1.4, 1.0, 0.8)), (2, (1.9, 1.6, 1.3, 1.0)), (3, (1.8,))):
        for log_density in DENSITIES.values():
            for spacing in spacings:
                center = 0.4 * rng.standard_normal(n_dim)
                region = Region(peaks.with_sum(log_density), center, np.eye(n_dim), 100_000)
                flood = FloodFill(region, np.full(n_dim, spacing))
                assert flood.fill(flood.nearest(np.zeros((1, n_dim))), 24.0)
                total = np.sum(np.exp(flood.values)) * spacing**n_dim / 2
                error = abs(np.log(total))
                if 1e-9 < error < 0.1 and flood.tail() < 0.1 * error:
                    estimate = estimate_aliasing(flood.index, flood.values).error
                    ratios.append(estimate / error)
    assert len(ratios) > 60
    assert np.mean(np.array(ratios) < 1) < 0.05
    assert np.min(ratios) > 0.1
    assert np.median(ratios) < 100


def test_center_and_basis_may_be_wrong():
    """The stated error holds in nearly all cases, and is never less than a tenth of the true one.

    A ridge that bends twice, with widths wrong by ten, is the exception.
    """
    ratios = []
    for name in ("gaussian", "log_gamma_5", "banana"):
        for scale in (0.1, 0.3, 3.0, 10.0):
            for n_dim in (1, 2, 3):
                lattice = integrate(
                    peaks.with_sum(DENSITIES[name]),
                    np.linspace(1.0, 2.0, n_dim),
                    scale * np.eye(n_dim),
                    tolerance=1e-3,
                    max_nodes=50_000,
                )
                assert lattice.error <= 1e-3
                ratios.append(lattice.error / abs(lattice.log_integral))
    assert np.min(ratios) > 0.1
    assert np.mean(np.array(ratios) < 1) < 0.05


@pytest.mark.parametrize("n_dim", [2, 3])
def test_seeds_find_a_peak_that_is_not_connected(n_dim):
    def far(z):
        return np.logaddexp(peaks.gaussian(z) + np.log(0.7), peaks.gaussian(z - 8.0) + np.log(0.3))

    alone = integral_of(far, n_dim)
    both = integral_of(far, n_dim, seeds=np.full((1, n_dim), 8.0))
    assert abs(alone.log_integral - np.log(0.7)) <= 1e-3
    assert abs(both.log_integral) <= both.error <= 1e-3


@pytest.mark.parametrize("n_dim", [1, 2, 3])
def test_connected_peaks_are_found_without_seeds(n_dim):
    lattice = integral_of(peaks.two_bumps, n_dim)
    assert abs(lattice.log_integral) <= lattice.error <= 1e-3


def test_units_and_correlation_enter_through_center_and_basis():
    basis = np.array([[2e3, 0.0, 0.0], [-40.0, 1e-3, 0.0], [1.0, 2.0, 5.0]])
    center = np.array([1e5, -3.0, 0.2])

    def log_f(z):
        return peaks.gaussian(np.linalg.solve(basis, (z - center).T).T), z[:, :0]

    lattice = integrate(log_f, center, basis, tolerance=1e-3, max_nodes=10_000)
    assert_allclose(lattice.log_integral, np.log(2e3 * 1e-3 * 5.0), atol=lattice.error)


def test_nodes_repeat_the_integral_and_moments():
    lattice = integral_of(peaks.log_gamma(5.0), 2, 1e-8)
    weights = np.exp(lattice.log_values + lattice.log_cell)
    assert_allclose(np.log(np.sum(weights)), lattice.log_integral, atol=1e-13)
    assert_allclose(lattice.w, 0.5 * lattice.spacing * lattice.index, rtol=1e-15)
    assert_allclose(to_points(lattice.w, lattice.center, lattice.basis), lattice.z, rtol=1e-14)
    assert_allclose(to_w(lattice.z, lattice.center, lattice.basis), lattice.w, atol=1e-12)
    assert_allclose(lattice.extras[:, 0], np.sum(lattice.z, axis=1), rtol=1e-14)
    # E ln x of a gamma variable of shape 5 and rate 5 is digamma(5) - ln 5.
    expected = np.sqrt(5.0) * (1.506117668431800 - np.log(5.0))
    assert_allclose(weights @ lattice.z, [expected, expected], atol=1e-7)


def test_nodes_of_no_value_count_as_nothing():
    def log_f(z):
        values = peaks.gaussian(z)
        values[np.abs(z[:, 1]) > 6] = np.nan
        values[z[:, 0] > 6] = -np.inf
        return values, z

    lattice = integrate(log_f, np.zeros(2), np.eye(2), tolerance=1e-6, max_nodes=5000)
    assert abs(lattice.log_integral) <= lattice.error <= 1e-6


def test_too_few_evaluations_are_reported():
    enough = integral_of(peaks.log_gamma(1.0), 3, 1e-3)
    for max_nodes in (50, 600, enough.n_evaluations - 100):
        lattice = integral_of(peaks.log_gamma(1.0), 3, 1e-3, max_nodes=max_nodes)
        assert lattice.n_evaluations <= max_nodes
        assert lattice.error > 1e-3
        assert abs(lattice.log_integral) <= lattice.error


@pytest.mark.parametrize("n_dim", [1, 2])
def test_an_integral_that_does_not_exist_is_not_contained(n_dim):
    def log_f(z):
        return np.zeros(len(z)), z

    lattice = integrate(log_f, np.zeros(n_dim), np.eye(n_dim), tolerance=1e-3, max_nodes=20_000)
    assert not lattice.contained
    assert lattice.error > 1e-3


def test_an_integrand_of_zero_is_reported():
    def log_f(z):
        return np.full(len(z), np.nan), z

    lattice = integrate(log_f, np.zeros(2), np.eye(2), tolerance=1e-3, max_nodes=1000)
    assert lattice.log_integral == -np.inf
    assert lattice.error == np.inf
    assert not lattice.contained


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"basis": np.eye(3)}, r"basis must have shape \(2, 2\)"),
        ({"basis": np.array([[1.0, 0.5], [0.0, 1.0]])}, "lower-triangular"),
        ({"center": np.array([np.nan, 0.0])}, "must be finite"),
        ({"tolerance": 0.0}, "tolerance must be positive, got 0.0"),
        ({"seeds": np.zeros((1, 3))}, r"seeds must have shape \(seed, 2\)"),
        ({"max_nodes": 0}, "max_nodes must be at least 1"),
        ({"log_f": lambda z: (np.zeros(3), z)}, "log_f returned shapes"),
        ({"log_f": lambda z: (np.full(len(z), np.inf), z)}, r"log_f is \+inf"),
    ],
)
def test_bad_input_is_refused(changes, message):
    arguments = {
        "log_f": peaks.with_sum(peaks.gaussian),
        "center": np.zeros(2),
        "basis": np.eye(2),
        "tolerance": 1e-3,
        "max_nodes": 1000,
        **changes,
    }
    log_f, center, basis = (arguments.pop(name) for name in ("log_f", "center", "basis"))
    with pytest.raises(DriftbayesError, match=message):
        integrate(log_f, center, basis, **arguments)
