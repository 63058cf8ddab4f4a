"""Stacks of data sets: evidences and posteriors are those of each data set by itself."""

import dataclasses

import numpy as np
import peaks
import pytest
from court import BROWNIAN, HYPOTHESES, LANGEVIN, langevin_fit, steps
from numpy.testing import assert_allclose
from scipy import stats
from scipy.optimize import minimize

from driftbayes.data._sampling import Displacements
from driftbayes.errors import DriftbayesError, Status
from driftbayes.inference import (
    QUANTILES,
    Batch,
    Hypothesis,
    _exact,
    _stacked,
    evidence_batch,
    exact_batch,
    log_evidences,
)
from driftbayes.inference._density import Density
from driftbayes.inference._formulas import Rows
from driftbayes.inference._lattice import stretch
from driftbayes.inference._quadrature import scale_form
from driftbayes.inference._quantiles import tabulated_quantiles
from driftbayes.inference._scale import closed_modes
from driftbayes.inference._search import find_modes
from driftbayes.inference._stacked import solve_stack
from driftbayes.inference._stacked_density import stacked_density
from driftbayes.inference._stacked_lattice import integrate_lines
from driftbayes.inference._stacked_search import find_stacked_modes
from driftbayes.likelihood._moments import MomentStack
from driftbayes.models import Langevin
from driftbayes.priors import Exponential, Gamma, LogNormal, Uniform

WIDE = Hypothesis(Langevin, gamma=LogNormal(1.0, 1.5), k=Gamma(3.0, 2.0))
BOUNDED = Hypothesis(Langevin, gamma=Uniform(0.0, 30.0), k=Exponential(1.0))
# Shape and sampling time of data sets: from 3 displacements to 1e5, γτ from 1e-3 to 1e2.
FEW = [((1, 3, 1), 1.0), ((2, 4, 1), 1.0), ((3, 5, 1), 30.0), ((1, 4, 2), 0.05)]
SHORT = [((20, 10, 2), 1e-3), ((20, 10, 2), 0.1), ((5, 40, 1), 0.3)]
LONG = [((20, 10, 2), 100.0), ((20, 50, 1), 5.0), ((3, 9, 2), 10.0)]
MANY = [((500, 100, 2), 0.3), ((400, 25, 2), 2.0)]
STACKS = {"few": FEW, "short": SHORT, "long": LONG, "many": MANY}


def data_sets(cases, n=1):
    return [
        Displacements.from_array(steps(tau, shape, seed=10 * i + j), tau)
        for i, (shape, tau) in enumerate(cases)
        for j in range(n)
    ]


def stack_of(data):
    return Batch.stack([Batch.of(one) for one in data])


@pytest.fixture(scope="module")
def one_by_one():
    """Solve a stack without the solver of stacks."""

    def solve(hypothesis, stack, tolerance=None):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_exact, "solve_stack", lambda *_, **__: iter(()))
            return exact_batch([hypothesis], stack, tolerance=tolerance)

    return solve


def n_solved(hypothesis, stack):
    return sum(len(some.sets) for some in solve_stack(hypothesis, stack, 1e-10, describe=True))


# --- Against one data set at a time ------------------------------------------------------------


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("cases", "prior"),
    [
        *(pytest.param(cases, LANGEVIN, id=f"{cases}-exponential") for cases in STACKS),
        *(pytest.param(cases, WIDE, id=f"{cases}-wide") for cases in ("few", "many")),
        *(
            pytest.param(cases, WIDE, id=f"{cases}-wide", marks=pytest.mark.slow)
            for cases in ("short", "long")
        ),
    ],
)
def test_records_are_those_of_each_data_set(cases, prior, one_by_one):
    stack = stack_of(data_sets(STACKS[cases], n=3 if cases != "many" else 1))
    assert n_solved(prior, stack) >= len(stack) - 2
    together, alone = exact_batch([prior], stack), one_by_one(prior, stack)
    # Second moments of heavy tails need more nodes than ln Z does.
    finer = one_by_one(prior, stack, tolerance=1e-13)
    for found, expected, fine in zip(together, alone, finer, strict=True):
        assert found.status is expected.status is Status.OK
        assert_allclose(found.log_evidence, expected.log_evidence, rtol=1e-14, atol=1e-9)
        assert found.log_evidence_err < 1e-10 + 2e-14 * abs(found.log_evidence)
        same = ("tau", "data_fingerprint", "priors", "warnings", "method", "hypothesis", "derived")
        for name in same:
            assert getattr(found, name) == getattr(expected, name)
        assert_allclose(found.posterior_cov, fine.posterior_cov, rtol=2e-6)
        gain = found.expected_log_likelihood
        assert_allclose(gain, expected.expected_log_likelihood, rtol=1e-12, atol=1e-9)
        for name in prior.names:
            for moment in ("posterior_mean", "posterior_sd", "log_sd", "map"):
                values = (getattr(one, moment)[name] for one in (found, fine))
                assert_allclose(*values, rtol=1e-6)
            centre = expected.log_mean[name]
            assert_allclose(found.log_mean[name], centre, atol=1e-9 * expected.log_sd[name])
            quantiles = expected.posterior_quantiles[name]
            assert_allclose(found.posterior_quantiles[name], quantiles, rtol=1e-6)
            assert_allclose(found.contraction[name], expected.contraction[name], atol=1e-9)


@pytest.mark.parametrize("cases", STACKS)
def test_records_of_a_lone_scale_are_those_of_each_data_set(cases, one_by_one):
    stack = stack_of(data_sets(STACKS[cases]))
    assert n_solved(BROWNIAN, stack) == len(stack)
    alone = one_by_one(BROWNIAN, stack)
    for found, expected in zip(exact_batch([BROWNIAN], stack), alone, strict=True):
        assert_allclose(found.log_evidence, expected.log_evidence, rtol=1e-14, atol=1e-9)
        for moment in ("posterior_mean", "posterior_sd", "log_sd", "map", "posterior_quantiles"):
            values = (getattr(one, moment)["kappa"] for one in (found, expected))
            assert_allclose(*values, rtol=1e-9)
        fits = (found.log_likelihood_at_map, expected.log_likelihood_at_map)
        assert_allclose(*fits, rtol=1e-14, atol=1e-9)
        assert found.tau == expected.tau


def test_another_engine_gives_the_same(one_by_one):
    data = data_sets([((6, 8, 2), tau) for tau in (0.1, 1.0, 10.0)])
    for found, one in zip(exact_batch([LANGEVIN], stack_of(data)), data, strict=True):
        (expected,) = exact_batch([LANGEVIN], Batch.of(one, "kalman"))
        assert_allclose(found.log_evidence, expected.log_evidence, atol=1e-9)
        for name in LANGEVIN.names:
            quantiles = expected.posterior_quantiles[name]
            assert_allclose(found.posterior_quantiles[name], quantiles, rtol=1e-6)


def test_the_mode_is_that_of_the_slow_likelihood():
    shape, tau = (3, 6, 1), 2.0
    (found,) = exact_batch([LANGEVIN], stack_of(data_sets([(shape, tau)])))
    dx = steps(tau, shape, seed=0)

    def loss(u):
        return -(langevin_fit(dx, tau, np.exp(u[0]))(u[1]) - np.exp(u[0]) - np.exp(u[1]))

    start = np.log([1.2 * found.map["gamma"], 0.9 * found.map["k"]])
    best = minimize(loss, start, method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-15})
    # Where the density is flat to rounding, half of the digits are left.
    assert_allclose([found.map["gamma"], found.map["k"]], np.exp(best.x), rtol=1e-6)
    fit = langevin_fit(dx, tau, found.map["gamma"])(np.log(found.map["k"]))
    assert_allclose(found.log_likelihood_at_map, fit, atol=1e-8)


# --- What is left to the other way -------------------------------------------------------------


@pytest.fixture(scope="module")
def bounded(one_by_one):
    """Small data sets, and what is found of each with a uniform prior."""
    stack = stack_of(data_sets([((2, 4, 1), 1.0)], n=30))
    return stack, one_by_one(BOUNDED, stack)


def test_data_sets_that_are_not_certain_are_solved_one_by_one(bounded):
    """A uniform prior at whose upper bound the density of θ is highest, in some data sets."""
    stack, alone = bounded
    solved = n_solved(BOUNDED, stack)
    assert 0 < solved < len(stack)
    together = exact_batch([BOUNDED], stack)
    for found, expected in zip(together, alone, strict=True):
        assert found.status is expected.status
        assert_allclose(found.log_evidence, expected.log_evidence, atol=1e-9)
        for name in BOUNDED.names:
            quantiles = expected.posterior_quantiles[name]
            assert_allclose(found.posterior_quantiles[name], quantiles, rtol=1e-6)


def test_several_modes_are_integrated_where_nodes_cover_them(bounded):
    """A uniform prior makes a second mode in the log-odds, beside that of the data."""
    stack, alone = bounded
    density = stacked_density(BOUNDED, stack)
    reach = find_stacked_modes(density, np.arange(30), with_natural=False).reach
    several = np.flatnonzero(reach[:, 1] > reach[:, 0])
    assert len(several) > 3
    found = log_evidences(BOUNDED, stack)
    expected = [one.log_evidence for one in alone]
    assert_allclose(found.log_evidence, expected, atol=1e-9)
    (some,) = solve_stack(BOUNDED, stack, 1e-10, describe=False)
    assert set(several) <= set(some.sets)


def test_modes_out_of_reach_are_left_to_the_other_way():
    """Two peaks of which the lattice of one has no node at the other."""
    stack = stack_of(data_sets([((20, 10, 2), 0.1)], n=2))
    density = stacked_density(LANGEVIN, stack)
    modes = find_stacked_modes(density, np.arange(2), with_natural=True)
    (every,) = solve_stack(LANGEVIN, stack, 1e-10, describe=True)
    assert list(every.sets) == [0, 1]
    far = modes.reach + np.array([[0.0, 0.0], [0.0, 30.0]])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            _stacked, "find_stacked_modes", lambda *_, **__: dataclasses.replace(modes, reach=far)
        )
        (some,) = solve_stack(LANGEVIN, stack, 1e-10, describe=True)
    assert list(some.sets) == [0]


@pytest.mark.parametrize("name", HYPOTHESES)
def test_numbers_that_are_not_finite_spoil_no_other_data_set(name):
    good, other = data_sets([((5, 6, 1), 1.0)], n=2)
    bad = Displacements.from_array(1e-170 * steps(1.0, (5, 6, 1)), 1.0)
    hypothesis = HYPOTHESES[name]
    found = evidence_batch([hypothesis], stack_of([good, bad, other]))
    assert [one.status for one in found] == [Status.OK, Status.NOT_FINITE, Status.OK]
    expected = evidence_batch([hypothesis], stack_of([good, other]))
    for one, same in zip((found[0], found[2]), expected, strict=True):
        assert one.log_evidence == same.log_evidence
    logs = log_evidences(hypothesis, stack_of([good, bad, other]))
    assert logs.statuses == (Status.OK, Status.NOT_FINITE, Status.OK)
    assert list(np.isfinite(logs.log_evidence)) == [True, False, True]


# --- ln Z alone --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", HYPOTHESES)
@pytest.mark.parametrize("method", ["auto", "laplace"])
def test_log_evidences_are_those_of_the_records(name, method):
    stack = stack_of(data_sets(SHORT, n=2))
    records = evidence_batch([HYPOTHESES[name]], stack, method=method)
    found = log_evidences(HYPOTHESES[name], stack, method=method)
    assert_allclose(found.log_evidence, [one.log_evidence for one in records], atol=1e-10)
    assert_allclose(found.log_evidence_err, [one.log_evidence_err for one in records], atol=1e-10)
    assert found.statuses == tuple(one.status for one in records)


# --- Parts -------------------------------------------------------------------------------------


def test_terms_of_a_stack_are_those_of_each_engine():
    """Runs of several lengths, so that groups differ from one data set to another."""
    data = data_sets([((4, 7, 2), 1.0), ((2, 3, 1), 1.0), ((3, 60, 1), 1.0), ((2, 33, 2), 1.0)])
    stack = stack_of(data)
    theta = np.array([[1e-3, 1.0], [0.7, 1.0], [20.0, 1.0]])
    rows = Rows(LANGEVIN, theta)
    moments = MomentStack(stack.moments)
    covariance = rows.autocovariances(1.0, moments.n_lags)
    members = np.tile(np.arange(len(data)), len(theta))
    log_det, quadratic = moments.terms(covariance, len(data) * np.arange(4), members)
    for i in range(len(data)):
        sums = stack.engine(i, LANGEVIN.model).sums(rows)
        assert_allclose(log_det[i :: len(data)], sums.log_det[:, 0], rtol=1e-13)
        assert_allclose(quadratic[i :: len(data)], sums.products[:, 0, 0, 0], rtol=1e-11)
        assert moments.n[i] == sums.n[0] == data[i].dx.size


def test_many_rows_are_shared_out_among_threads():
    data = data_sets([((4, 7, 2), 1.0)], n=2)
    moments = MomentStack(stack_of(data).moments)
    theta = np.column_stack([np.geomspace(1e-2, 10.0, 1100), np.ones(1100)])
    covariance = Rows(LANGEVIN, theta).autocovariances(1.0, moments.n_lags)
    members = np.tile([0, 1], 1100)
    whole = moments.terms(covariance, 2 * np.arange(1101), members)
    for i in (0, 500, 1099):
        alone = moments.terms(covariance[i : i + 1], np.array([0, 2]), np.array([0, 1]))
        for part, expected in zip(whole, alone, strict=True):
            assert_allclose(part[2 * i : 2 * i + 2], expected, rtol=1e-14)


def test_lines_are_integrated_to_the_tolerance():
    """Peaks that integrate to one: Gaussian, skewed, and with a tail that falls as a power."""
    densities = [peaks.gaussian, peaks.log_gamma(5.0), peaks.log_gamma(0.5), peaks.student(3.0)]

    def log_f(line, z):
        values = np.empty(len(z))
        for i, density in enumerate(densities):
            values[line == i] = density(z[line == i, None])
        return values, z[:, None]

    center, width = np.array([0.1, -0.2, 0.0, 0.3]), np.array([1.0, 0.8, 1.2, 1.0])
    found = integrate_lines(log_f, center, width, tolerance=1e-9, max_tail=1e-5)
    assert found.contained.all()
    assert (found.error < 1e-9).all()
    assert (np.abs(found.log_integral) < found.error).all()
    nodes = np.isfinite(found.log_values)
    z = found.center[:, None] + found.width[:, None] * stretch(found.w)
    assert_allclose(z[nodes], found.extras[nodes][:, 0], rtol=1e-12)
    assert_allclose(nodes.sum(axis=1), found.n_nodes)
    assert len(found[np.array([2])].center) == 1


def test_a_line_without_end_is_not_contained():
    def log_f(line, z):
        return np.where(line == 0, -0.5 * z**2, -0.02 * np.log1p(z**2)), z[:, None]

    found = integrate_lines(log_f, np.zeros(2), np.ones(2), tolerance=1e-9, max_tail=1e-5)
    assert list(found.contained) == [True, False]


def test_quantiles_of_tabulated_densities():
    x = np.linspace(-9.0, 9.0, 513)
    laws = [stats.norm(), stats.norm(1.0, 0.5), stats.gumbel_l(4.0, 0.5)]
    places = tabulated_quantiles(np.stack([7 * law.pdf(x) for law in laws]), np.array(QUANTILES))
    found = x[0] + (x[1] - x[0]) * places
    assert_allclose(found, [law.ppf(QUANTILES) for law in laws], rtol=0, atol=2e-7)


def test_modes_of_a_lone_scale_are_those_of_the_search():
    for prior in (Exponential(2.0), Gamma(3.0, 0.1), Gamma(40.0, 5.0)):
        hypothesis = Hypothesis(BROWNIAN.model, kappa=prior)
        batch = Batch.of(data_sets([((4, 5, 1), 1.0)])[0])
        density = Density(hypothesis, batch.engine(0, hypothesis.model))
        found, expected = closed_modes(density, scale_form(density)), find_modes(density)
        for name in ("natural", "free"):
            one, other = getattr(found, name), getattr(expected, name)
            assert one.converged
            assert_allclose(one.z, other.z, atol=1e-6)
            assert_allclose(one.value, other.value, atol=1e-11)
            assert_allclose(one.hessian, other.hessian, rtol=1e-5)
        assert_allclose(found.log_mass, expected.log_mass[:1], atol=1e-5)


def test_a_tolerance_must_be_positive():
    with pytest.raises(DriftbayesError, match="tolerance must be positive"):
        exact_batch([LANGEVIN], stack_of(data_sets(SHORT)), tolerance=0.0)
