"""Random flight in fields: the Langevin limit, the density, and fields recovered."""

import numpy as np
import pytest
from known_fields import SIGMA, TIME, flights, wavy
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.linalg import expm
from scipy.stats import norm

import driftbayes as db
from driftbayes import Displacements
from driftbayes._precision import in_double_precision
from driftbayes.data import _schema as schema
from driftbayes.errors import DriftbayesError
from driftbayes.fields import FlightPriors, Splines, fit_flight
from driftbayes.fields import _flight as flight
from driftbayes.fields import _flight_fit as flight_fit
from driftbayes.fields._flight import FlightSteps
from driftbayes.fields._flight_coefficients import step_coefficients
from driftbayes.models import model_named
from driftbayes.simulators._map_files import gridded

PRIORS = FlightPriors(gamma=1 / TIME, k=2 * SIGMA**2 * TIME, flow=SIGMA)


def random_problem(n_dim, seed=0):
    rng = np.random.default_rng(seed)
    dx = 0.01 * np.cumsum(rng.normal(size=(12, 15, n_dim)), axis=1)
    data = Displacements.from_array(dx, 0.3, start=rng.uniform(size=(12, n_dim)))
    x = data.origin
    splines = Splines(x.min(axis=0), x.max(axis=0), (5, 4)[:n_dim])
    return FlightSteps(data, x, splines, PRIORS), data, rng


MEAN = np.array([0.04, -0.07])


@pytest.mark.parametrize("n_dim", [1, 2])
@pytest.mark.parametrize("gamma", [1e-3, 0.4, 1.7, 60.0])
def test_constants_give_the_langevin_model_about_the_mean(n_dim, gamma):
    problem, data, _ = random_problem(n_dim)
    mean = MEAN[:n_dim]
    theta = np.r_[np.log([0.02, gamma]), mean]
    about = Displacements.from_array(data.as_array() - 0.3 * mean, 0.3, start=data.start)
    model = db.Langevin(gamma=gamma, k=0.02)
    exact = in_double_precision(lambda: float(model.log_likelihood(about)))()
    assert_allclose(problem.value("homogeneous", theta)[0], exact, rtol=1e-9)
    # Coefficients of zero in every field say the same.
    for name in ("sigma", "time", "both", "flow"):
        full = np.zeros(problem.parts(name)[-1].stop)
        full[[part.start for part in problem.parts(name)]] = theta
        assert_allclose(problem.value(name, full)[0], exact, rtol=1e-9)


@pytest.mark.parametrize("n_dim", [1, 2])
def test_integrated_over_the_mean_constants_give_langevin_mean(n_dim):
    """The integral over a mean with a normal prior is Gaussian: Laplace's is exact."""
    problem, data, _ = random_problem(n_dim)
    model = model_named("langevin+mean", db.MODELS)(gamma=0.8, k=0.02, flow=PRIORS.flow)
    exact = in_double_precision(lambda: float(model.log_likelihood(data)))()
    theta = np.r_[np.log([0.02, 0.8]), np.zeros(n_dim)]
    value, gradient = problem.value("homogeneous", theta)
    moved = np.eye(n_dim)[0] * 0.1
    other = problem.value("homogeneous", theta + np.r_[0, 0, moved])[1]
    information = (gradient[2] - other[2]) / 0.1 + PRIORS.flow**-2
    step = gradient[2:] / information
    top = value + 0.5 * float(gradient[2:] @ step)
    found = top - n_dim * (np.log(PRIORS.flow) + 0.5 * np.log(information))
    assert_allclose(found, exact, rtol=1e-9)


@pytest.mark.parametrize("n_dim", [1, 2])
def test_a_flow_that_varies_is_that_of_langevin_about_it(n_dim):
    """With constant σ and T, steps less uτ half way along them are Langevin's."""
    problem, data, rng = random_problem(n_dim)
    theta = 0.1 * rng.normal(size=problem.parts("flow")[-1].stop)
    theta[:2] = np.log([0.02, 0.8])

    def less(dx):
        design = problem.splines.design(data.origin + 0.5 * dx)
        parts = problem.parts("flow")[2:]
        return dx - 0.3 * np.stack(
            [p[0] + design @ p[1:] for p in map(theta.__getitem__, parts)], 1
        )

    about = Displacements.from_array(less(data.dx).reshape(12, 15, n_dim), 0.3, start=data.start)
    model = db.Langevin(gamma=0.8, k=0.02)
    exact = in_double_precision(lambda: float(model.log_likelihood(about)))()
    slopes = [(less(data.dx + 1e-5 * e) - less(data.dx - 1e-5 * e)) / 2e-5 for e in np.eye(n_dim)]
    exact += np.log(np.linalg.det(np.stack(slopes, axis=1))).sum()
    assert_allclose(problem.value("flow", theta)[0], exact, rtol=1e-8)


@pytest.mark.parametrize("n_dim", [1, 2])
def test_fields_and_a_mean_equal_a_filter_written_out(n_dim):
    """Matrix exponentials, an adaptive integral along the step, and a numerical Jacobian."""
    problem, data, rng = random_problem(n_dim)
    parts = problem.parts("both")
    theta = 0.3 * rng.normal(size=parts[-1].stop)
    theta[[part.start for part in parts]] = np.r_[np.log([0.02, 0.9]), MEAN[:n_dim]]
    known = written_out(problem.splines, theta, parts, data, 3)
    short = Displacements.from_array(data.as_array()[:1, :3], 0.3, start=data.start[:1])
    few = FlightSteps(short, short.origin, problem.splines, PRIORS)
    # Three nodes of Gauss and Legendre against an adaptive integral.
    assert_allclose(few.value("both", theta)[0], known, atol=2e-4)


def written_out(splines, theta, parts, data, n_steps):
    """Ln p of the first steps of the first run, from the equations of motion."""
    tau, d = data.tau, data.n_dim
    u = theta[[part.start for part in parts[2:]]]
    level, late = 0.5 * (theta[parts[0].start] + theta[parts[1].start]), -theta[parts[1].start]

    def log_sigma(x):
        return float(level + splines.design(x[None])[0] @ theta[parts[0]][1:])

    def integral(x, dx):
        r = dx - u * tau
        along = quad(lambda a: np.exp(-log_sigma(x + 0.5 * tau * u + a * r)), 0, 1, epsrel=1e-10)
        return r * along[0]

    total, mean, variance = 0.0, np.zeros(d), 1.0
    for i in range(n_steps):
        x, dx = data.origin[i], data.dx[i]
        time = np.exp(late + splines.design(x[None])[0] @ theta[parts[1]][1:])
        slope = [splines.design(x[None], axis)[0] @ theta[parts[0]][1:] for axis in range(d)]
        force = np.exp(log_sigma(x)) * np.array(slope)
        # State (w, ∫w): Van Loan's matrices, with the force as a constant third state.
        drift = np.array([[-1 / time, 0, 1], [1, 0, 0], [0, 0, 0]])
        noise = np.diag([2 / time, 0, 0])
        both = expm(tau * np.block([[-drift, noise], [np.zeros((3, 3)), drift.T]]))
        move = both[3:, 3:].T
        spread = move @ both[:3, 3:]
        cov = move[:2, :1] * variance @ move[:2, :1].T + spread[:2, :2]
        y = integral(x, dx)
        error = y - move[1, 0] * mean - move[1, 2] * force
        total += norm.logpdf(error, 0, np.sqrt(cov[1, 1])).sum()
        jacobian = [
            (integral(x, dx + 1e-5 * e) - integral(x, dx - 1e-5 * e)) / 2e-5 for e in np.eye(d)
        ]
        total += np.log(abs(np.linalg.det(jacobian)))
        mean = move[0, 0] * mean + move[0, 2] * force + cov[0, 1] / cov[1, 1] * error
        variance = cov[0, 0] - cov[0, 1] ** 2 / cov[1, 1]
    return total


@pytest.mark.parametrize("n_dim", [1, 2])
@pytest.mark.parametrize("name", ["both", "flow"])
def test_the_gradient_is_that_of_differences(n_dim, name):
    problem, _, rng = random_problem(n_dim)
    parts = problem.parts(name)
    theta = 0.1 * rng.normal(size=parts[-1].stop)
    theta[parts[0].start] += np.log(0.02)
    gradient = problem.value(name, theta)[1]
    for i in [k for part in parts for k in {part.start, (part.start + part.stop) // 2}]:
        up, down = theta.copy(), theta.copy()
        up[i] += 1e-5
        down[i] -= 1e-5
        numeric = (problem.value(name, up)[0] - problem.value(name, down)[0]) / 2e-5
        assert_allclose(gradient[i], numeric, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["both", "flow"])
def test_blocks_of_runs_and_leaving_out_those_far_away_change_nothing(name, monkeypatch):
    whole, data, rng = random_problem(2)
    monkeypatch.setattr(flight, "_BLOCK", 20)
    parted = FlightSteps(data, data.origin, whole.splines, PRIORS)
    assert (len(whole.runs), len(parted.runs)) == (1, 9)
    theta = 0.1 * rng.normal(size=whole.parts(name)[-1].stop)
    theta[0] += np.log(0.02)
    assert_allclose(parted.value(name, theta)[0], whole.value(name, theta)[0], rtol=1e-12)
    near = np.array(
        [parted._affecting_coefficients(runs, parted._fields(name, theta)) for runs in parted.runs]
    )
    assert near.mean() < 0.9
    plain = []
    base = whole.value(name, theta)[1]
    for i, size in whole.difference_steps(name):
        moved = theta.copy()
        moved[i] += size
        plain.append((base - whole.value(name, moved)[1]) / size)
    known = 0.5 * (np.array(plain) + np.array(plain).T)
    scale = np.abs(known).max()
    assert_allclose(parted.differences(name, theta), known, atol=1e-8 * scale)


def test_coefficients_join_where_series_end():
    x = np.array([0.7 - 1e-9, 0.7 + 1e-9, 1e-5, 5.0])
    values, slopes = step_coefficients(1.3, x)
    assert_allclose(values[0], values[1], rtol=1e-8)
    assert_allclose(slopes[0], slopes[1], rtol=1e-7)
    step = 1e-5 * x
    numeric = (step_coefficients(1.3, x + step)[0] - step_coefficients(1.3, x - step)[0]) / (
        2 * step[:, None]
    )
    assert_allclose(slopes, numeric, rtol=1e-6, atol=1e-9)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["both", "flow"])
@pytest.mark.parametrize("n_dim", [1, 2])
def test_the_density_of_a_step_integrates_to_one(n_dim, name):
    rng = np.random.default_rng(3)
    axis = np.linspace(-0.65, 0.66, 80 if n_dim == 1 else 19)
    splines = Splines(np.full(n_dim, -0.3), np.full(n_dim, 1.3), (5,) * n_dim)
    start, total = np.full((1, n_dim), 0.47), 0.0
    theta = None
    for end in np.stack([a.ravel() for a in np.meshgrid(*[axis] * n_dim)], axis=-1):
        data = Displacements.from_array(end[None, None], 0.5, start=start)
        problem = FlightSteps(data, start, splines, PRIORS)
        if theta is None:
            theta = (0.4 if name == "both" else 0.1) * rng.normal(size=problem.parts(name)[-1].stop)
            constants = np.r_[np.log([0.04, 1.0]), 0.1 * MEAN[:n_dim]]
            theta[[part.start for part in problem.parts(name)]] = constants
        total += np.exp(problem.value(name, theta)[0])
    assert_allclose(total * (axis[1] - axis[0]) ** n_dim, 1, atol=5e-3)


def test_the_homogeneous_model_has_the_evidence_of_langevin_up_to_laplace():
    data = flights(np.random.default_rng(1), (30, 30), sizes=(0.0, 0.0))
    fit = fit_flight(data, PRIORS, n_intervals=4, hypotheses=[])
    family = model_named("langevin+mean", db.MODELS)
    priors = {"gamma": db.Exponential(PRIORS.gamma), "k": db.Exponential(PRIORS.k)}
    exact = db.evidence(db.Hypothesis(family, flow=db.Fixed(PRIORS.flow), **priors), data)
    assert_allclose(fit.log_evidences["homogeneous"], exact.log_evidence, atol=0.05)


def test_known_fields_are_found_and_homogeneous_data_give_none():
    x = np.linspace(0.1, 0.9, 17)[:, None]
    cases = {(0.6, 0.0): ("sigma", "sigma"), (0.0, 0.6): ("time", "memory_time")}
    for sizes, (name, key) in cases.items():
        data = flights(np.random.default_rng(2), (40, 30), sizes=sizes, n_sub=12)
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
    data = flights(np.random.default_rng(2), (40, 30), sizes=(0.0, 0.0), n_sub=12)
    # That there is no flow either, is below.
    plain = fit_flight(data, PRIORS, n_intervals=4, hypotheses=["sigma", "time"])
    assert plain.log_bayes_factor_inhomogeneous < 1
    drawn = plain.draw(x[:3], 3000, seed=1)
    for name in ("sigma", "memory_time", "k"):
        assert_allclose(drawn[name].mean(axis=0), plain.at(x[:3])[name], rtol=0.02)
    found = plain.at(x[:3])
    off = drawn["flow"].mean(axis=0) - found["flow"]
    assert np.all(np.abs(off) < 5 * found["flow_sd"] / np.sqrt(3000))


def test_results_describe_themselves_and_have_a_dataset():
    data = flights(np.random.default_rng(3), (20, 20), 2, n_sub=10)
    fit = fit_flight(data, PRIORS, n_intervals=3, hypotheses=["sigma"])
    text = str(fit)
    assert "evidence that dispersion varies" in text
    assert "ln σ" in text
    assert "flow_y" in text
    dataset = fit.to_dataset()
    assert_allclose(dataset["n_steps"].sum(), 400)
    point = np.array([[float(dataset[name][20]) for name in "xy"]])
    assert_allclose(dataset["sigma"].isel(x=20, y=20), fit.at(point)["sigma"][0])
    assert fit.to_json()["model"] == "langevin"
    # As `predict --space` and `export` read it: at long times k and the flow.
    read = gridded(dataset.assign_attrs({schema.KIND_ATTRIBUTE: "field"}), to=("", ""))
    for i, values in enumerate(read.diffusivity):
        assert_allclose(values, dataset["k"].values, err_msg=f"axis {i}")
    assert_allclose(read.flow[1], dataset["flow_y"].values)
    assert any("long-time diffusivity" in note for note in read.notes)


def test_long_steps_are_told():
    data = flights(np.random.default_rng(4), (40, 12), tau=3.0, n_sub=100)
    fit = fit_flight(data, PRIORS, n_intervals=6, hypotheses=["sigma"])
    assert any("no longer accurate" in text for text in fit.warnings)


def test_a_mean_flow_and_one_that_varies_are_found():
    x = np.linspace(0.1, 0.9, 17)[:, None]
    mean = 2 * SIGMA
    for size, name in ((0.0, "homogeneous"), (1.5, "flow")):

        def flow(at, size=size):
            return mean + size * SIGMA * np.sin(2 * np.pi * at)

        rng = np.random.default_rng(5)
        data = flights(rng, (60, 20), sizes=(0.0, 0.0), n_sub=12, flow=flow)
        fit = fit_flight(data, PRIORS, n_intervals=6, hypotheses=["sigma", "flow"])
        log_k = fit.log_bayes_factors["flow"]
        assert log_k > 20 if name == "flow" else log_k < 1
        found = fit.at(x)
        off = (found["flow"] - flow(x)) / found["flow_sd"]
        assert np.sqrt(np.mean(off**2)) < 1.6
        off = (found["log_sigma"] - np.log(SIGMA)) / found["log_sigma_sd"]
        assert np.abs(off).max() < 3


def test_a_mean_flow_does_not_shift_the_velocity_scale():
    """Particles cross half a wave of σ in a track; the field is found where it is."""
    x = np.linspace(0.1, 0.9, 17)[:, None]
    rng = np.random.default_rng(6)
    data = flights(rng, (90, 20), tau=0.15, n_sub=10, flow=lambda at: 0 * at + 3 * SIGMA)
    fit = fit_flight(data, PRIORS, n_intervals=6, hypotheses=["sigma"])
    found = fit.at(x)
    off = (found["log_sigma"] - np.log(SIGMA * wavy(x, 0.6))) / found["log_sigma_sd"]
    assert np.sqrt(np.mean(off**2)) < 1.6
    off = (found["flow"] - 3 * SIGMA) / found["flow_sd"]
    assert np.abs(off).max() < 3


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


def test_too_many_steps_are_refused_before_computing(monkeypatch):
    data = flights(np.random.default_rng(0), (30, 4), n_sub=2)
    monkeypatch.setattr(flight_fit, "_MAX_WORK", {1: 1e4})
    monkeypatch.setattr(flight_fit, "fit_members", None)
    with pytest.raises(DriftbayesError, match=r"120 steps .* homogeneous, sigma .* at most"):
        fit_flight(data, PRIORS, hypotheses=["sigma"])
