"""Random flight in fields: the Langevin limit, the density, and fields recovered."""

import numpy as np
import pytest
from known_flight import SIGMA, TIME, flights, wavy
from numpy.testing import assert_allclose

import driftbayes as db
from driftbayes import Displacements
from driftbayes.errors import DriftbayesError
from driftbayes.fields import FlightPriors, Splines, fit_flight
from driftbayes.fields.flight import FlightSteps, _coefficients
from driftbayes.precision import in_double_precision

PRIORS = FlightPriors(gamma=1 / TIME, k=2 * SIGMA**2 * TIME)


def random_problem(n_dim, seed=0):
    rng = np.random.default_rng(seed)
    dx = 0.01 * np.cumsum(rng.normal(size=(12, 15, n_dim)), axis=1)
    data = Displacements.from_array(dx, 0.3, start=rng.uniform(size=(12, n_dim)))
    x = data.origin
    splines = Splines(x.min(axis=0), x.max(axis=0), (5, 4)[:n_dim])
    return FlightSteps(data, x, splines, PRIORS), data, rng


@pytest.mark.parametrize("n_dim", [1, 2])
@pytest.mark.parametrize("gamma", [1e-3, 0.4, 1.7, 60.0])
def test_constants_give_the_langevin_model(n_dim, gamma):
    problem, data, _ = random_problem(n_dim)
    theta = np.log([0.02, gamma])
    model = db.Langevin(gamma=gamma, k=0.02)
    exact = in_double_precision(lambda: float(model.log_likelihood(data)))()
    assert_allclose(problem.value("homogeneous", theta)[0], exact, rtol=1e-9)
    # Coefficients of zero in every field say the same.
    full = np.zeros(problem.parts("both")[-1].stop)
    full[[part.start for part in problem.parts("both")]] = theta
    assert_allclose(problem.value("both", full)[0], exact, rtol=1e-9)


@pytest.mark.parametrize("n_dim", [1, 2])
def test_the_gradient_is_that_of_differences(n_dim):
    problem, _, rng = random_problem(n_dim)
    parts = problem.parts("both")
    theta = 0.3 * rng.normal(size=parts[-1].stop)
    theta[parts[0].start] += np.log(0.02)
    gradient = problem.value("both", theta)[1]
    for i in [part.start + k for part in parts for k in (0, 1, 3, 6)]:
        up, down = theta.copy(), theta.copy()
        up[i] += 1e-5
        down[i] -= 1e-5
        numeric = (problem.value("both", up)[0] - problem.value("both", down)[0]) / 2e-5
        assert_allclose(gradient[i], numeric, rtol=1e-5, atol=1e-5)


def test_coefficients_join_where_series_end():
    x = np.array([0.7 - 1e-9, 0.7 + 1e-9, 1e-5, 5.0])
    values, slopes = _coefficients(1.3, x)
    assert_allclose(values[0], values[1], rtol=1e-8)
    assert_allclose(slopes[0], slopes[1], rtol=1e-7)
    step = 1e-5 * x
    numeric = (_coefficients(1.3, x + step)[0] - _coefficients(1.3, x - step)[0]) / (
        2 * step[:, None]
    )
    assert_allclose(slopes, numeric, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("n_dim", [1, 2])
def test_the_density_of_a_step_integrates_to_one(n_dim):
    rng = np.random.default_rng(3)
    axis = np.linspace(-0.65, 0.66, 80 if n_dim == 1 else 19)
    splines = Splines(np.full(n_dim, -0.3), np.full(n_dim, 1.3), (5,) * n_dim)
    start, total = np.full((1, n_dim), 0.47), 0.0
    theta = None
    for end in np.stack([a.ravel() for a in np.meshgrid(*[axis] * n_dim)], axis=-1):
        data = Displacements.from_array(end[None, None], 0.5, start=start)
        problem = FlightSteps(data, start, splines, PRIORS)
        if theta is None:
            theta = 0.4 * rng.normal(size=problem.parts("both")[-1].stop)
            theta[[part.start for part in problem.parts("both")]] = np.log([0.04, 1.0])
        total += np.exp(problem.value("both", theta)[0])
    assert_allclose(total * (axis[1] - axis[0]) ** n_dim, 1, atol=5e-3)


@pytest.mark.parametrize("n_dim", [1, 2])
def test_sparse_splines_are_the_dense_ones(n_dim):
    splines = Splines(np.zeros(n_dim), np.array([2.0, 1.0])[:n_dim], (6, 3)[:n_dim])
    x = np.random.default_rng(0).uniform(-0.2, 2.2, (60, n_dim))
    for axis in (None, *range(n_dim)):
        dense = splines.design(x, axis)
        assert_allclose(splines.sparse_design(x, axis).toarray(), dense, atol=1e-12)


def test_the_homogeneous_model_has_the_evidence_of_langevin_up_to_laplace():
    data = flights(np.random.default_rng(1), 30, 30, sizes=(0.0, 0.0))
    fit = fit_flight(data, PRIORS, n_intervals=4, hypotheses=[])
    priors = {"gamma": db.Exponential(PRIORS.gamma), "k": db.Exponential(PRIORS.k)}
    exact = db.evidence(db.Hypothesis(db.Langevin, **priors), data)
    assert_allclose(fit.log_evidences["homogeneous"], exact.log_evidence, atol=0.05)


def test_known_fields_are_found_and_homogeneous_data_give_none():
    x = np.linspace(0.1, 0.9, 17)[:, None]
    cases = {(0.6, 0.0): ("sigma", "sigma"), (0.0, 0.6): ("time", "memory_time")}
    for sizes, (name, key) in cases.items():
        data = flights(np.random.default_rng(2), 60, 30, sizes=sizes, n_sub=12)
        fit = fit_flight(data, PRIORS, n_intervals=6, hypotheses=["sigma", "time"])
        assert fit.best == name
        assert fit.log_bayes_factors[name] > 20
        assert fit.roughness < 0.15
        truth = (SIGMA, TIME)[name == "time"] * wavy(x, max(sizes))
        found = fit.at(x)
        off = (found[f"log_{key}"] - np.log(truth)) / found[f"log_{key}_sd"]
        assert np.sqrt(np.mean(off**2)) < 1.6
        assert_allclose(
            found["log_k"], 2 * found["log_sigma"] + found["log_memory_time"], atol=1e-9
        )
    data = flights(np.random.default_rng(2), 40, 30, sizes=(0.0, 0.0), n_sub=12)
    plain = fit_flight(data, PRIORS, n_intervals=4)
    assert plain.log_bayes_factor_inhomogeneous < 1
    drawn = plain.draw(x[:3], 3000, seed=1)
    for name, values in drawn.items():
        assert_allclose(values.mean(axis=0), plain.at(x[:3])[name], rtol=0.02)


def test_results_describe_themselves_and_have_a_dataset():
    data = flights(np.random.default_rng(3), 20, 20, 2, n_sub=10)
    fit = fit_flight(data, PRIORS, n_intervals=3, hypotheses=["sigma"])
    text = str(fit)
    assert "evidence that dispersion varies" in text
    assert "sd of ln σ" in text
    dataset = fit.to_dataset()
    assert_allclose(dataset["n_steps"].sum(), 400)
    point = np.array([[float(dataset[name][20]) for name in "xy"]])
    assert_allclose(dataset["sigma"].isel(x=20, y=20), fit.at(point)["sigma"][0])
    assert fit.to_json()["model"] == "langevin"


def test_long_steps_and_a_mean_velocity_are_told():
    data = flights(np.random.default_rng(4), 40, 12, tau=3.0, n_sub=100)
    fit = fit_flight(data, PRIORS, n_intervals=6, hypotheses=["sigma"])
    assert any("no longer accurate" in text for text in fit.warnings)
    moved = Displacements.from_array(data.as_array() + 0.1, data.tau, start=data.start)
    fit = fit_flight(moved, PRIORS, n_intervals=3, hypotheses=[])
    assert any("mean velocity" in text for text in fit.warnings)


@pytest.mark.parametrize(
    ("shape", "options", "message"),
    [
        ((30, 1, 1), {}, "no run has two steps"),
        ((30, 3, 3), {}, "one or two dimensions"),
        ((30, 3, 1), {"hypotheses": ["kappa"]}, "unknown hypothesis 'kappa'"),
    ],
)
def test_what_cannot_be_done_is_refused(shape, options, message):
    rng = np.random.default_rng(0)
    start = rng.uniform(size=(shape[0], shape[2]))
    data = Displacements.from_array(rng.normal(size=shape), 1.0, start=start)
    with pytest.raises(DriftbayesError, match=message):
        fit_flight(data, PRIORS, **options)


@pytest.mark.slow
@pytest.mark.parametrize("n_dim", [1, 2])
def test_errors_of_known_fields_are_calibrated(n_dim):
    """σ or T ± 60 %: 60 data sets each; scaled errors, coverage of 95 %, and evidence."""
    axis = np.linspace(0.1, 0.9, 9)
    x = np.stack([a.ravel() for a in np.meshgrid(*[axis] * n_dim)], axis=-1)
    cases = {(0.6, 0.0): ("sigma", "sigma"), (0.0, 0.6): ("time", "memory_time")}
    for sizes, (name, key) in cases.items():
        scaled, log_ks = [], []
        for seed in range(60):
            data = flights(np.random.default_rng(seed), 40, 40, n_dim, sizes=sizes)
            fit = fit_flight(data, PRIORS, hypotheses=["sigma", "time"])
            found = fit.at(x)
            truth = (SIGMA, TIME)[name == "time"] * wavy(x, max(sizes))
            scaled.append((found[f"log_{key}"] - np.log(truth)) / found[f"log_{key}_sd"])
            log_ks.append(fit.log_bayes_factors[name])
        z = np.array(scaled)
        print(n_dim, name, z.mean(), z.std(), np.mean(np.abs(z) < 1.96), min(log_ks))
        assert min(log_ks) > 3
        assert abs(z.mean()) < 0.25
        assert 0.8 < z.std() < 1.2
        assert 0.9 < np.mean(np.abs(z) < 1.96) < 0.99
