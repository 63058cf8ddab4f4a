"""Proposals around lattice nodes and draws by rejection, against known distributions."""

import numpy as np
import peaks
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from driftbayes.errors import DriftbayesError
from driftbayes.inference._lattice import log_stretch, to_points
from driftbayes.inference._lattice_draws import keep_by_ratio, propose
from driftbayes.inference._node_lattice import integrate

N = 8000
DENSITIES = {
    "gaussian": peaks.gaussian,
    "log_gamma_5": peaks.log_gamma(5.0),
    "may_vanish": peaks.may_vanish,
    "two_bumps": peaks.two_bumps,
    "banana": peaks.banana,
}


def lattice_of(log_density, n_dim, basis=None, center=None):
    center = 0.2 * np.random.default_rng(n_dim).standard_normal(n_dim) if center is None else center
    basis = np.eye(n_dim) if basis is None else basis
    return integrate(peaks.with_sum(log_density), center, basis, tolerance=1e-3, max_nodes=20_000)


@pytest.mark.parametrize("name", DENSITIES)
@pytest.mark.parametrize("n_dim", [1, 2])
def test_the_mean_ratio_is_the_integral(name, n_dim):
    z, log_q = propose([lattice_of(DENSITIES[name], n_dim)], N, np.random.default_rng(3))
    ratios = np.exp(DENSITIES[name](z) - log_q)
    # Three standard errors of a mean.
    assert abs(np.mean(ratios) - 1) < 3 * np.std(ratios) / np.sqrt(N)


@pytest.mark.parametrize("n_dim", [1, 2])
def test_the_density_of_proposals_integrates_to_one(n_dim):
    """By the lattice itself: the density of proposals is smooth, with tails like those of t."""
    from driftbayes.inference import _lattice_draws as lattice_draws

    lattice = lattice_of(peaks.may_vanish, n_dim)
    side = np.arange(-40.0, 40.0, 0.4)
    w = np.stack(np.meshgrid(*[side] * n_dim, indexing="ij"), axis=-1).reshape(-1, n_dim)
    z = to_points(w, lattice.center, lattice.basis)
    log_q = lattice_draws._log_density(lattice, z) + log_stretch(w)
    assert_allclose(np.sum(np.exp(log_q)) * 0.4**n_dim, 1.0, atol=1e-5)


@pytest.mark.parametrize(("n_dim", "least"), [(1, 0.8), (2, 0.6), (3, 0.5), (4, 0.45)])
def test_most_proposals_for_a_gaussian_are_kept(n_dim, least):
    rng = np.random.default_rng(n_dim)
    z, log_q = propose([lattice_of(peaks.gaussian, n_dim)], N, rng)
    kept = z[keep_by_ratio(peaks.gaussian(z) - log_q, rng.random(N))]
    assert len(kept) > least * N
    for axis in range(n_dim):
        assert stats.kstest(kept[:, axis], stats.norm.cdf).pvalue > 1e-3
    assert stats.kstest(np.sum(kept**2, axis=1), stats.chi2(n_dim).cdf).pvalue > 1e-3


def test_draws_of_a_skewed_density():
    rng = np.random.default_rng(11)
    basis = np.array([[1.0, 0.0], [-30.0, 10.0]])

    def log_density(z):
        return peaks.log_gamma(5.0)(np.linalg.solve(basis, z.T).T) - np.log(10.0)

    z, log_q = propose([lattice_of(log_density, 2, basis, np.zeros(2))], N, rng)
    kept = z[keep_by_ratio(log_density(z) - log_q, rng.random(N))]
    whitened = np.linalg.solve(basis, kept.T).T
    assert len(kept) > 0.5 * N
    for axis in (0, 1):
        gamma = 5.0 * np.exp(whitened[:, axis] / np.sqrt(5.0))
        assert stats.kstest(gamma, stats.gamma(5.0).cdf).pvalue > 1e-3
    assert abs(np.corrcoef(whitened.T)[0, 1]) < 4 / np.sqrt(len(kept))


def test_the_ratio_is_bounded_in_the_tails():
    """Far outside of the lattice, proposals are more frequent than the density needs."""
    for name in ("gaussian", "log_gamma_5", "may_vanish"):
        lattice = lattice_of(DENSITIES[name], 2)
        rng = np.random.default_rng(4)
        z, log_q = propose([lattice], 50_000, rng)
        log_ratios = DENSITIES[name](z) - log_q
        is_far = np.any(np.abs(z) > 5.0, axis=1)
        assert np.sum(is_far) > 50
        assert np.max(log_ratios[is_far]) < np.max(log_ratios[~is_far])


@pytest.mark.parametrize("share", [0.5, 0.25])
def test_parts_are_drawn_by_their_mass(share):
    def part(place, width, mass):
        constant = np.log(mass) - 5.0 - np.log(width)
        return lambda z: peaks.gaussian((z - place) / width) + constant

    first, second = part(0.0, 1.0, 1 - share), part(30.0, 0.1, share)
    lattices = [
        lattice_of(first, 1, np.eye(1), np.zeros(1)),
        lattice_of(second, 1, 0.1 * np.eye(1), np.full(1, 30.0)),
    ]
    rng = np.random.default_rng(9)
    z, log_q = propose(lattices, N, rng)
    kept = z[keep_by_ratio(np.logaddexp(first(z), second(z)) - log_q, rng.random(N)), 0]

    def below(x):
        return (1 - share) * stats.norm.cdf(x) + share * stats.norm.cdf(x, 30.0, 0.1)

    assert len(kept) > 0.7 * N
    assert stats.kstest(kept, below).pvalue > 1e-3


def test_draws_repeat_from_the_seed():
    lattice = lattice_of(peaks.gaussian, 2)
    first, second = (propose([lattice], 50, np.random.default_rng(1)) for _ in range(2))
    np.testing.assert_array_equal(first[0], second[0])
    np.testing.assert_array_equal(first[1], second[1])


def test_bad_input_is_refused():
    lattice = lattice_of(peaks.gaussian, 2)
    rng = np.random.default_rng(0)
    with pytest.raises(DriftbayesError, match="number of points must be at least 1, got 0"):
        propose([lattice], 0, rng)
    with pytest.raises(DriftbayesError, match="expected one or more lattices"):
        propose([], 10, rng)
