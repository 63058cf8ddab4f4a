"""Cellular flow at long times: the homogenised diffusivity, by the problem of one cell."""

import numpy as np
import pytest

from driftbayes import Trajectories
from driftbayes.comparison import make_hypotheses
from driftbayes.fields import FokkerPlanck, Grid
from driftbayes.space import map_tree


def stream(x, y):
    return np.sin(x) * np.sin(y)


def by_modes(peclet, n):
    """κ_eff/κ: χ solves u·∇χ - κ∇²χ = -u_x in Fourier modes; κ_eff/κ = 1 + ⟨|∇χ|²⟩."""
    k = np.arange(-n, n + 1)
    kx, ky = (values.ravel() for values in np.meshgrid(k, k, indexing="ij"))
    size = len(kx)
    side = 2 * n + 1
    matrix = np.diag((kx**2 + ky**2) / peclet + 0j)
    force = np.zeros(size, dtype=complex)
    for a in (1, -1):
        for b in (1, -1):
            # u = -sin x cos y, v = cos x sin y.
            u, v = 0.25j * a, -0.25j * b
            inside = (np.abs(kx - a) <= n) & (np.abs(ky - b) <= n)
            rows = np.flatnonzero(inside)
            columns = (kx[rows] - a + n) * side + (ky[rows] - b + n)
            matrix[rows, columns] += 1j * (u * kx[columns] + v * ky[columns])
            force[(a + n) * side + (b + n)] -= u
    mean = n * side + n
    matrix[mean, mean] = 1.0
    chi = np.linalg.solve(matrix, force)
    return 1 + np.sum((kx**2 + ky**2) * np.abs(chi) ** 2)


def by_finite_volumes(peclet, n):
    """The same by the rates between cells: growth of ⟨x²⟩ of the chain on an endless lattice."""
    grid = Grid.regular([0, 0], [2 * np.pi] * 2, n, periodic=True)
    matrix = FokkerPlanck(grid, 1 / peclet, stream=stream).matrix.tocoo()
    x = grid.points()[0].ravel()
    jump = x[matrix.row] - x[matrix.col]
    jump -= 2 * np.pi * np.round(jump / (2 * np.pi))
    drift = np.bincount(matrix.col, matrix.data * jump, minlength=n * n)
    # Steady jumps, and their memory: Aᵀχ = -drift.
    transposed = matrix.toarray().T
    transposed[0] = 1.0
    drift_force = -(drift - drift.mean())
    drift_force[0] = 0.0
    chi = np.linalg.solve(transposed, drift_force)
    rates = matrix.data * (0.5 * jump**2 + jump * (chi[matrix.row] - chi[matrix.col]))
    own = 0.5 * matrix.data * (chi[matrix.row] - chi[matrix.col]) ** 2
    return peclet * np.sum(rates + own) / (n * n)


def test_two_ways_to_the_homogenised_diffusivity():
    # 1 + Pe²/8 for small Péclet numbers.
    assert np.isclose(by_modes(0.1, 4), 1 + 0.01 / 8, rtol=1e-5)
    exact = by_modes(10.0, 10)
    errors = [by_finite_volumes(10.0, n) - exact for n in (16, 32)]
    assert abs(errors[1]) < 0.05 * exact
    assert errors[0] / errors[1] > 3


@pytest.mark.slow
@pytest.mark.parametrize("peclet", [2.0, 10.0])
def test_a_map_at_long_times_has_it_and_is_constant(peclet):
    rng = np.random.default_rng(1)
    tau, n_sub, n = 8 * peclet, int(160 * peclet), 300
    dt = tau / n_sub
    x = rng.uniform(0, 2 * np.pi, (n, 2))

    def flow(p):
        s, c = np.sin(p), np.cos(p)
        return np.stack([-s[:, 0] * c[:, 1], c[:, 0] * s[:, 1]], axis=-1)

    fixes = [x]
    for _ in range(8):
        for _ in range(n_sub):
            kick = np.sqrt(2 * dt / peclet) * rng.standard_normal(x.shape)
            half = x + 0.5 * (flow(x) * dt + kick)
            x = x + flow(half) * dt + kick
        fixes.append(x)
    tracks = Trajectories.from_arrays(np.stack(fixes, axis=1), dt=tau)
    models = make_hypotheses(["brownian"], u_rms=0.5, timescale=3.0).hypotheses
    found = map_tree(tracks, models, tau, depth=3, scatter=False)
    leaves = found["brownian"].leaves
    mean, sd = leaves.mean[0, 0], leaves.sd[0, 0]
    assert found.probability_homogeneous > 0.9
    assert abs(mean - by_modes(peclet, 12) / peclet) < 3 * sd
    assert sd < 0.03 * mean
