"""The Fokker–Planck solver: conservation, sign, and five problems with known answers."""

import numpy as np
import pytest
from scipy.linalg import expm
from scipy.special import ndtr

from driftbayes.errors import DriftbayesError
from driftbayes.fields import FokkerPlanck, Grid
from driftbayes.relative._density import log_separation_density


def wavy(*xs):
    return 1 + 0.7 * np.prod([np.sin(2 * np.pi * x + 0.3) for x in xs], axis=0)


def cells(*xs):
    """Stream function of cellular flow on the unit square, zero along its walls."""
    return 2.0 * np.sin(2 * np.pi * xs[0]) * np.sin(np.pi * xs[1])


UNEVEN = np.array([0.0, 0.1, 0.15, 0.3, 0.6, 0.7, 1.0])
GRIDS = [
    Grid.regular(0, 1, 40),
    Grid.regular(0, 1, 40, periodic=True),
    Grid((UNEVEN,), (False,)),
    Grid.regular([0, 0], [1, 1], [12, 10], periodic=[True, False]),
    Grid((UNEVEN, np.linspace(0, 1, 9)), (False, False)),
]


@pytest.mark.parametrize("grid", GRIDS, ids=lambda grid: f"{grid.shape}{grid.periodic}")
@pytest.mark.parametrize("time", [1e-4, 0.01, 3.0])
def test_probability_is_conserved_and_positive(grid, time):
    velocity = [lambda *xs: 30 * np.cos(5 * xs[0])] * grid.n_dim
    solver = FokkerPlanck(grid, wavy, velocity)
    start = np.zeros(grid.shape)
    start.flat[3] = 1.0
    p = solver.evolve(start, time)
    assert (p >= 0).all()
    np.testing.assert_allclose(p.sum(), 1, rtol=1e-12)
    # Not by the final scaling alone: the rates out of each cell are those into the others.
    columns = np.asarray(solver.matrix.sum(axis=0))
    assert np.abs(columns).max() <= 1e-12 * solver.fastest
    off = solver.matrix.toarray() - np.diag(solver.matrix.diagonal())
    assert (off >= 0).all()
    np.testing.assert_allclose(
        p.ravel(), expm(solver.matrix.toarray() * time) @ start.ravel(), atol=1e-11
    )


@pytest.mark.parametrize("grid", GRIDS, ids=lambda grid: f"{grid.shape}{grid.periodic}")
def test_a_uniform_density_stays_uniform(grid):
    flows = [{}]
    if grid.n_dim == 2:
        flows.append({"stream": cells})
    elif grid.periodic[0]:
        flows.append({"velocity": [3.0]})
    for flow in flows:
        solver = FokkerPlanck(grid, wavy, **flow)
        p = solver.evolve(grid.volumes, 0.7)
        np.testing.assert_allclose(solver.density(p), 1, rtol=1e-12)


def test_a_compressing_flow_does_not_leave_it_uniform():
    """The test above can fail: the solver sees divergence."""
    grid = Grid.regular(0, 1, 40, periodic=True)
    p = FokkerPlanck(grid, 1.0, [lambda x: np.sin(2 * np.pi * x)]).evolve(grid.volumes, 0.7)
    # Steady state: p ∝ exp(∫u/κ).
    exact = np.exp(-np.cos(2 * np.pi * grid.centres[0]) / (2 * np.pi))
    density = p / grid.volumes
    np.testing.assert_allclose(density / density.mean(), exact / exact.mean(), rtol=2e-3)


def test_a_gaussian_of_constant_diffusivity_and_flow():
    kappa, u, time, errors = 0.8, 0.5, 0.5, []
    for n in (45, 135, 405):
        grid = Grid.regular(-9, 9, n)
        p = FokkerPlanck(grid, kappa, [u]).evolve(FokkerPlanck(grid, kappa).at(0.0), time)
        exact = np.diff(ndtr((grid.edges[0] - u * time) / np.sqrt(2 * kappa * time)))
        errors.append(np.abs(p - exact).sum())
        np.testing.assert_allclose(p @ grid.centres[0], u * time, rtol=1e-9)
    orders = np.log(np.array(errors[:-1]) / errors[1:]) / np.log(3)
    assert errors[-1] < 2e-3
    assert orders[-1] > 1.9


@pytest.mark.parametrize("xi", [0.5, 1.0, 4 / 3])
def test_a_power_of_the_distance_against_the_squared_bessel_process(xi):
    """κ = a x^ξ in one dimension, from a point; the order of convergence is two."""
    a, x0, time, errors = 0.4, 1.05, 0.25, []
    for n in (75, 225, 675):
        grid = Grid.regular(0, 7.5, n)
        solver = FokkerPlanck(grid, lambda x: a * x**xi)
        x = grid.centres[0]
        # x0 is the centre of a cell of each grid.
        assert np.abs(x - x0).min() < 1e-12
        density = solver.density(solver.evolve(solver.at(x0), time))
        exact = np.exp(log_separation_density(np.full(n, x0), x, np.full(n, time), xi, a, 1))
        errors.append(np.sum(np.abs(density - exact) * grid.volumes))
    orders = np.log(np.array(errors[:-1]) / errors[1:]) / np.log(3)
    assert errors[-1] < 1e-3
    assert orders[-1] > 1.85, (errors, orders)


def test_taylor_dispersion_in_a_shear_flow():
    """d⟨x²⟩/2dt = κ + U²(1 - exp(-κk²t))/(2κk²) from a line uniform in y, exactly at any t."""
    kappa, big_u, k = 1.0, 2.0, 1.0
    rates = {}
    for n in (1, 2):
        grid = Grid.regular([-45, 0], [45, 2 * np.pi], [180 * n, 12 * n], periodic=[False, True])
        solver = FokkerPlanck(grid, kappa, [lambda x, y: big_u * np.sin(k * y), 0.0])
        p = np.zeros(grid.shape)
        p[90 * n - 1 : 90 * n + 1] = 1 / (2 * grid.shape[1])
        x2 = grid.centres[0] ** 2
        rates[n] = []
        for wait in (0.5, 7.5):
            p = solver.evolve(p, wait)
            growth = (solver.matrix @ p.ravel()).reshape(grid.shape)
            rates[n].append(0.5 * x2 @ growth.sum(axis=1))
    times = np.array([0.5, 8.0])
    taylor = big_u**2 / (2 * kappa * k**2)
    exact = kappa + taylor * (1 - np.exp(-kappa * k**2 * times))
    errors = {n: np.array(rate) - exact for n, rate in rates.items()}
    np.testing.assert_allclose(rates[2], exact, rtol=0.01)
    np.testing.assert_allclose(errors[1] / errors[2], 4, rtol=0.1)
    # Long after 1/κk² it is Taylor's constant.
    np.testing.assert_allclose(exact[1], kappa + taylor, rtol=1e-3)
    # The scheme's own moments: its excess diffusivity along x, its wavenumber along y.
    for n, rate in rates.items():
        y = (np.arange(12 * n) + 0.5) * 2 * np.pi / (12 * n)
        half = 0.5 * big_u * np.sin(k * y) * 0.5 / n / kappa
        k_h = 12 * n / np.pi * np.sin(0.5 * k * 2 * np.pi / (12 * n))
        own = np.mean(kappa * half / np.tanh(half))
        own = own + big_u**2 / (2 * kappa * k_h**2) * (1 - np.exp(-kappa * k_h**2 * times))
        np.testing.assert_allclose(rate, own, rtol=1e-8)


def test_long_times_go_by_squares_and_agree():
    grid = Grid.regular(0, 1, 200)
    solver = FokkerPlanck(grid, wavy)
    start = solver.at(0.2)
    time = 0.5
    assert solver.fastest * time > 2e4
    np.testing.assert_allclose(solver.evolve(start, time), solver._series(start, time), atol=1e-12)
    np.testing.assert_allclose(solver.evolve(start, 20.0), 1 / 200, rtol=1e-10)


def test_a_point_is_shared_between_centres():
    grid = Grid.regular([0, 0], [1, 2], [10, 8], periodic=[True, False])
    p = FokkerPlanck(grid, 1.0).at([0.513, 1.2])
    x, y = grid.points()
    np.testing.assert_allclose([p.sum(), (p * x).sum(), (p * y).sum()], [1, 0.513, 1.2])
    around = FokkerPlanck(Grid.regular(0, 1, 10, periodic=True), 1.0).at(0.01)
    np.testing.assert_allclose(around[[0, -1]], [0.6, 0.4])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda g: FokkerPlanck(g, 0.0), "kappa must be positive"),
        (lambda g: FokkerPlanck(g, np.ones(3)), r"shape \(3,\), expected \(10,\)"),
        (lambda g: FokkerPlanck(g, 1.0, [1.0, 2.0]), "2 components, expected 1"),
        (lambda g: FokkerPlanck(g, 1.0, stream=cells), "two dimensions"),
        (lambda g: FokkerPlanck(g, 1.0).at(2.0), "outside the grid"),
        (lambda g: FokkerPlanck(g, 1.0).evolve(-np.ones(10), 1.0), "non-negative"),
        (lambda g: FokkerPlanck(g, 1.0).evolve(np.ones(10), -1.0), "zero or more"),
        (lambda g: Grid((np.zeros(4),), (False,)), "increasing"),
        (lambda g: FokkerPlanck(Grid.regular(0, 1, 5000), 1.0).transition(1.0), "too large"),
    ],
)
def test_bad_input_gets_one_sentence(make, message):
    with pytest.raises(DriftbayesError, match=message):
        make(Grid.regular(0, 1, 10))
