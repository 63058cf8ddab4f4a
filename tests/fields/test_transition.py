"""The Fokker–Planck density of long steps: known densities, symmetry, and fields recovered."""

import numpy as np
import pytest
from known_fields import KAPPA, constant, no_gradient, steps, wave
from numpy.testing import assert_allclose
from scipy.stats import norm

from driftbayes import Displacements
from driftbayes.errors import DriftbayesError
from driftbayes.fields import FieldPriors, Grid, Splines, fit_field
from driftbayes.fields._local import LocalSteps, StepSums
from driftbayes.fields._transition import TransitionSteps, choose_cells
from driftbayes.relative._density import log_separation_density

PRIORS = FieldPriors(kappa=2 * KAPPA, flow=0.3)


def problem_of(x, y, tau, grid, n_intervals=5):
    splines = Splines(x.min(axis=0), x.max(axis=0), (n_intervals,) * x.shape[1])
    local = LocalSteps(StepSums.of(x, y - x, tau, splines, None), splines, PRIORS)
    return TransitionSteps((x, y), grid, local)


def log_densities(problem, name="homogeneous", theta=None):
    """Ln p of each step, by the same stencils in NumPy."""
    theta = np.zeros(problem.parts(name)[-1].stop) if theta is None else theta
    p = problem.transitions(name, theta)[0]
    (starts, start_weights), (ends, end_weights) = problem._starts, problem._ends
    log_p = np.log(p[ends[:, :, None], starts[:, None, :]])
    found = np.einsum("nea,ne,na->n", log_p, end_weights, start_weights)
    return found - np.log(problem.grid.volumes.flat[0])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("n_dim", [1, 2])
def test_the_gradient_is_that_of_differences(n_dim):
    rng = np.random.default_rng(0)
    x = rng.uniform(0.1, 0.9, (40, n_dim))
    y = np.clip(x + 0.15 * rng.normal(size=x.shape), 0, 1)
    problem = problem_of(x, y, 0.7, Grid.regular([0] * n_dim, [1] * n_dim, 13), 3)
    parts = problem.parts("both")
    theta = 0.3 * rng.normal(size=parts[-1].stop)
    theta[0] = np.log(0.02)
    total, gradient = problem.value("both", theta)
    assert_allclose(total, log_densities(problem, "both", theta).sum(), rtol=1e-12)
    assert_allclose(total, problem.log_likelihood("both", theta), rtol=1e-12)
    for i in [part.start + k for part in parts for k in (0, 2, 4)]:
        up, down = theta.copy(), theta.copy()
        up[i] += 1e-5
        down[i] -= 1e-5
        numeric = (problem.value("both", up)[0] - problem.value("both", down)[0]) / 2e-5
        assert_allclose(gradient[i], numeric, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("n_dim", [1, 2])
def test_constants_give_the_gaussian(n_dim):
    """To second order in the size of cells; steps begin and end anywhere in them."""
    rng = np.random.default_rng(1)
    kappa, tau, u = 0.02, 1.0, 0.1
    x = rng.uniform(-0.2, 0.2, (300, n_dim))
    y = x + u * tau + np.sqrt(2 * kappa * tau) * rng.normal(size=x.shape)
    exact = norm.logpdf(y - x, u * tau, np.sqrt(2 * kappa * tau)).sum(axis=1)
    errors = []
    # In two dimensions walls are four standard deviations away from nearly all steps.
    wall, sizes = (1.2, (25, 49)) if n_dim == 2 else (1.5, (61, 121, 241))
    for n in sizes:
        problem = problem_of(x, y, tau, Grid.regular([-wall] * n_dim, [wall] * n_dim, n))
        theta = np.r_[np.log(kappa), np.full(n_dim, u)]
        errors.append(np.abs(log_densities(problem, "homogeneous", theta) - exact).mean())
    assert errors[-1] < (0.05 if n_dim == 2 else 2e-3)
    assert np.log2(errors[-2] / errors[-1]) > 1.8


class Power(TransitionSteps):
    """κ = x^ξ at the faces themselves, without splines."""

    xi = 1.0

    def fields(self, name, theta):
        x = self.grid.faces(0)[0]
        return [(self.xi * np.log(x), 0.0 * x)]


@pytest.mark.parametrize("xi", [1.0, 4 / 3])
def test_a_power_of_the_distance_against_the_exact_density(xi):
    """Where the local Gaussian loses what its error estimate says, the grid is of second order."""
    tau, x0 = (0.5 / xi) ** 2, np.array([0.83, 1.0, 1.21])
    y0 = np.arange(0.005, 9, 0.01)
    x, y = (values.ravel() for values in np.meshgrid(x0, y0, indexing="ij"))
    exact = log_separation_density(x, y, np.full(len(x), tau), xi, 1.0, 1)
    weight = np.exp(exact) * 0.01 / len(x0)
    # At y = 0 κ vanishes, and the density is not even about the wall; at y = 7 the grid ends.
    away = (y > 0.4) & (y < 3)
    losses = []
    for n in (47, 93, 185):
        grid = Grid.regular(0, 7, n)
        steps_ = x[away, None], y[away, None]
        problem = Power(steps_, grid, problem_of(*steps_, tau, grid).local)
        problem.xi = xi
        losses.append(np.sum(weight[away] * np.abs(exact[away] - log_densities(problem))))
    assert np.log2(losses[1] / losses[2]) > 1.8, losses
    local = norm.logpdf(y, x + xi * x ** (xi - 1) * tau, np.sqrt(2 * x**xi * tau))
    loss = np.sum(weight * (exact - local))
    roughness = xi * x0 ** (xi / 2 - 1) * np.sqrt(tau)
    assert_allclose(loss, 0.375 * np.mean(roughness**2), rtol=0.15)
    assert loss > 30 * losses[2]


@pytest.mark.parametrize("n_dim", [1, 2])
def test_without_a_flow_there_is_detailed_balance_and_all_probability_stays(n_dim):
    rng = np.random.default_rng(2)
    x = rng.uniform(0.1, 0.9, (30, n_dim))
    problem = problem_of(x, x[::-1], 0.9, Grid.regular([0] * n_dim, [1] * n_dim, 15), 3)
    theta = 0.5 * rng.normal(size=problem.parts("kappa")[-1].stop)
    theta[0] = np.log(0.02)
    theta[problem.parts("kappa")[1].start :] = 0.0
    p = problem.transitions("kappa", theta)[0]
    assert (p > 0).all()
    assert_allclose(p.sum(axis=0), 1, rtol=1e-12)
    between = p[problem._cells]
    assert_allclose(between, between.T, rtol=1e-9)


def test_interpolated_densities_integrate_to_one():
    """Near a wall to second order in the size of cells, and better away from it."""
    y = np.linspace(0, 1, 1001)
    errors = {}
    for x0 in (0.503, 0.003):
        for n in (41, 81):
            x = np.r_[np.full((len(y), 1), x0), [[0.0], [1.0]]]
            ends = np.r_[y[:, None], [[0.5], [0.5]]]
            problem = problem_of(x, ends, 0.5, Grid.regular(0, 1, n))
            theta = 0.3 * np.random.default_rng(0).normal(size=problem.parts("kappa")[-1].stop)
            theta[0] = np.log(KAPPA)
            density = np.exp(log_densities(problem, "kappa", theta))[: len(y)]
            errors[x0, n] = abs(np.trapezoid(density, y) - 1)
    assert errors[0.503, 41] < 1e-4
    assert errors[0.003, 81] < 2e-3
    assert errors[0.003, 41] / errors[0.003, 81] > 3


@pytest.mark.slow
def test_long_steps_are_recovered_where_the_local_gaussian_is_biased():
    data = steps(np.random.default_rng(4), 1200, tau=0.5, n_sub=100)
    x = np.linspace(0.05, 0.95, 19)[:, None]
    kinds = {"local": "local", "auto": "fokker-planck"}
    off = {}
    for density, chosen in kinds.items():
        walls = [[0.0], [1.0]] if density == "auto" else None
        fit = fit_field(data, PRIORS, hypotheses=["kappa"], density=density, walls=walls)
        assert fit.density == chosen
        assert fit.roughness > 0.3
        found = fit.at(x)
        off[density] = (found["log_kappa"] - np.log(wave(x))) / found["log_kappa_sd"]
        is_warned = any("no longer accurate" in text for text in fit.warnings)
        assert is_warned == (chosen == "local")
    assert np.sqrt(np.mean(off["auto"] ** 2)) < 1.5
    assert np.sqrt(np.mean(off["local"] ** 2)) > 2
    assert fit.density_error < 1
    assert "Fokker–Planck density of steps" in str(fit)


@pytest.mark.slow
def test_one_hessian_serves_all_members_of_weight(monkeypatch):
    """As where there are many splines: evidences are off by a fifth of a nat or less."""
    data = steps(np.random.default_rng(5), 600, tau=0.5, n_sub=100)
    options = {"hypotheses": ["kappa"], "density": "fokker-planck", "walls": [[0.0], [1.0]]}
    own = fit_field(data, PRIORS, n_intervals=6, **options)
    monkeypatch.setattr("driftbayes.fields._problem.MAX_OWN", 0)
    shared = fit_field(data, PRIORS, n_intervals=6, **options)
    used = [i for i, weight in enumerate(own.weights) if weight > 0.01]
    assert len(used) > 2
    changes = [own.members[i].log_evidence - shared.members[i].log_evidence for i in used]
    assert 1e-6 < np.abs(changes).max() < 0.2
    x = np.linspace(0.1, 0.9, 9)[:, None]
    one, other = own.at(x), shared.at(x)
    assert np.abs((one["log_kappa"] - other["log_kappa"]) / one["log_kappa_sd"]).max() < 0.1


def test_walls_leave_out_steps_that_begin_near_them():
    data = steps(np.random.default_rng(6), 900)
    fit = fit_field(data, PRIORS, hypotheses=["kappa"], walls=[[0.0], [1.0]])
    near = 4 * np.sqrt(np.mean(data.dx**2))
    assert fit.n_near_walls == np.sum(np.minimum(data.origin, 1 - data.origin) <= near)
    assert fit.n_steps == 900 - fit.n_near_walls > 700
    assert "near a wall" in str(fit)


@pytest.mark.parametrize(("n_dim", "hypotheses"), [(1, ["kappa", "both"]), (2, ["kappa"])])
def test_gradients_and_draws_belong_to_the_fields(n_dim, hypotheses):
    data = steps(np.random.default_rng(7), 500, n_dim)
    fit = fit_field(data, PRIORS, n_intervals=3, hypotheses=hypotheses)
    x = np.random.default_rng(0).uniform(0.2, 0.8, (6, n_dim))
    found, drawn = fit.at(x), fit.draw(x, 4000, seed=3)
    for axis in range(n_dim):
        away = 1e-4 * np.eye(n_dim)[axis]
        numeric = (fit.at(x + away)["kappa"] - fit.at(x - away)["kappa"]) / 2e-4
        assert_allclose(found["kappa_gradient"][:, axis], numeric, rtol=1e-4, atol=1e-6)
    for name in ("kappa", "kappa_gradient", "flow"):
        mean, sd = found[name], found[f"{name}_sd"]
        assert np.abs((drawn[name].mean(axis=0) - mean) / sd).max() < 4.5 / np.sqrt(4000)
        assert_allclose(drawn[name].std(axis=0), sd, rtol=0.15)
    again = fit.draw(x, 4000, seed=3)
    assert_allclose(again["kappa"], drawn["kappa"], rtol=0)
    # Outside, the field is that of the nearest place, and does not change along that axis.
    outside = fit.at([[-5.0, 0.5][:n_dim]])
    assert_allclose(outside["kappa_gradient"][0, 0], 0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"density": "exact"}, "unknown density 'exact'"),
        ({"hypotheses": ["kapa"]}, "unknown hypothesis 'kapa'"),
        ({"density": "fokker-planck"}, "cells, more than 801"),
        ({"walls": [[0.4], [1.0]]}, "beyond the walls"),
        ({"walls": [0.0, 1.0]}, "lower and a higher number"),
    ],
)
def test_what_cannot_be_done_is_refused(options, message):
    data = steps(np.random.default_rng(0), 60, tau=1e-3, n_sub=2)
    with pytest.raises(DriftbayesError, match=message):
        fit_field(data, PRIORS, **options)


def test_too_costly_grids_leave_the_local_density_with_a_warning():
    rng = np.random.default_rng(9)
    x = rng.uniform(size=(200, 1))
    size = np.where(x[:, 0] > 0.5, 0.2, 1e-3)
    data = Displacements.from_array((size * rng.normal(size=200))[:, None, None], 1.0, start=x)
    fit = fit_field(data, PRIORS, hypotheses=["kappa"])
    assert fit.density == "local"
    assert any("use a smaller tau (the Fokker–Planck density" in text for text in fit.warnings)


def test_too_costly_grids_are_refused_and_named(monkeypatch):
    monkeypatch.setattr("driftbayes.fields._transition._MAX_WORK", 1e6)
    data = steps(np.random.default_rng(0), 60, 2, tau=0.1, n_sub=2)
    options = {"n_intervals": 3, "hypotheses": ["kappa"], "density": "fokker-planck"}
    with pytest.raises(DriftbayesError, match="multiplications"):
        fit_field(data, PRIORS, walls=[[0, 0], [1, 1]], **options)
    with pytest.raises(DriftbayesError, match="n_draws must be 1"):
        fit_field(data, PRIORS, n_intervals=3, hypotheses=[]).draw(data.origin, 0)
    with pytest.raises(DriftbayesError, match="points must be finite"):
        fit_field(data, PRIORS, n_intervals=3, hypotheses=[]).at([0.5, 0.5])


def test_what_can_be_known_is_refused_before_the_local_fit(monkeypatch):
    monkeypatch.setattr("driftbayes.fields._fit.fit_members", None)
    options = {"hypotheses": ["kappa"], "density": "fokker-planck"}
    data = steps(np.random.default_rng(0), 60, tau=1e-5, n_sub=2)
    with pytest.raises(DriftbayesError, match="cells, more than 801"):
        fit_field(data, PRIORS, **options)
    monkeypatch.setattr("driftbayes.fields._transition._MAX_WORK", 1e6)
    data = steps(np.random.default_rng(0), 60, 2, tau=0.1, n_sub=2)
    with pytest.raises(DriftbayesError, match="multiplications"):
        fit_field(data, PRIORS, walls=[[0, 0], [1, 1]], **options)


def test_a_grid_that_fails_on_the_way_leaves_the_local_fit_with_a_warning(monkeypatch):
    monkeypatch.setattr("driftbayes.fields._transition._MAX_TERMS", 5)
    data = steps(np.random.default_rng(4), 600, tau=0.5, n_sub=50)
    options = {"n_intervals": 6, "hypotheses": ["kappa"]}
    fit = fit_field(data, PRIORS, **options)
    assert fit.density == "local"
    assert "terms would be needed" in fit.refusal
    assert any("terms would be needed" in text for text in fit.warnings)
    with pytest.raises(DriftbayesError, match="terms would be needed"):
        fit_field(data, PRIORS, density="fokker-planck", **options)


def test_periodic_domains_fold_positions_and_have_no_grid():
    rng = np.random.default_rng(8)
    data = steps(rng, 300, fields=(constant, no_gradient))
    moved = Displacements.from_array(data.dx[:, None], data.tau, start=data.origin + 3.0)
    moved = type(moved)(**{**moved.__dict__, "period": (1.0,)})
    same = fit_field(moved, PRIORS, n_intervals=4, hypotheses=["kappa"])
    plain = fit_field(data, PRIORS, n_intervals=4, hypotheses=["kappa"])
    assert_allclose(same.log_evidences["kappa"], plain.log_evidences["kappa"], rtol=1e-6)
    with pytest.raises(DriftbayesError, match="periodic"):
        fit_field(moved, PRIORS, density="fokker-planck")


def test_cells_resolve_the_steps_and_go_beyond_the_data():
    kappa = np.array([0.5, 1.0, 2.0])
    inside = choose_cells(np.zeros(1), np.ones(1), 0.01, kappa, walls=True)
    beyond = choose_cells(np.zeros(1), np.ones(1), 0.01, kappa, walls=False)
    assert inside.edges[0][[0, -1]].tolist() == [0, 1]
    assert beyond.edges[0][0] < -0.4
    assert beyond.edges[0][-1] > 1.4
    assert inside.shape[0] % 2 == 1
