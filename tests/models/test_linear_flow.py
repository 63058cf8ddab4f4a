"""A flow that is linear in space: against a dense covariance, its limits, and known flows."""

import dataclasses

import equinox as eqx
import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import block_diag, expm
from scipy.stats import multivariate_normal

from driftbayes.comparison import compare_hypotheses
from driftbayes.data._sampling import Displacements, displacements, subset
from driftbayes.data._trajectories import Trajectories
from driftbayes.errors import DriftbayesError
from driftbayes.inference import Hypothesis, evidence
from driftbayes.models import MODELS, model_named
from driftbayes.priors import Exponential, scaling_priors
from sums_of import derived, mean_flow

TAU, RTOL = 0.7, 1e-9
FLOW = {"flow": 0.7, "gradient": 0.3}
BASES = {
    "brownian": {"kappa": 1.3},
    "langevin": {"gamma": 0.8, "k": 1.3},
    "confined": {"gamma": 0.8, "well": 0.3, "k": 1.3},
    "langevin+noise": {"gamma": 0.8, "k": 1.3, "sigma": 0.4},
}


def named(text, n_dim=2, **theta):
    return model_named(text, MODELS, n_dim)(**theta)


def regular(n_dim=2, n_particles=4, n_steps=6, seed=0):
    """Particles that start far apart, and far from the origin."""
    rng = np.random.default_rng(seed)
    dx = rng.normal(size=(n_particles, n_steps, n_dim))
    start = 50.0 + 3 * rng.normal(size=(n_particles, n_dim))
    return Displacements.from_array(dx, TAU, start=start)


def irregular(n_dim=2, seed=0):
    """Two runs of unequal steps, with errors of positions."""
    rng = np.random.default_rng(seed)
    return Displacements(
        dx=rng.normal(size=(9, n_dim)),
        interval=rng.uniform(0.2, 2.0, size=9),
        row_sizes=np.array([5, 4]),
        trajectory=np.arange(2),
        tau=TAU,
        position_sd=rng.uniform(0.1, 0.5, size=11),
        start=4 * rng.normal(size=(2, n_dim)),
    )


def ragged():
    """Regular runs of different lengths, one of them longer than the memory of the engine."""
    rng = np.random.default_rng(3)
    sizes = np.array([3, 45, 1])
    return Displacements(
        dx=rng.normal(size=(49, 2)),
        interval=np.full(49, TAU),
        row_sizes=sizes,
        trajectory=np.arange(3),
        tau=TAU,
        start=3 * rng.normal(size=(3, 2)),
    )


def positions(data):
    """Where each step begins, one after the other."""
    found, row = [], 0
    for start, n in zip(data.start, data.row_sizes, strict=True):
        x = start.copy()
        for _ in range(n):
            found.append(x.copy())
            x = x + data.dx[row]
            row += 1
    return np.array(found)


# Compiled as one program: call by call, JAX would compile every operation.
spread_of = eqx.filter_jit(lambda model, t: model.mean_square_displacement(t))


def dense(base, data, shape=None, sigma=0.0, *, flow, gradient):
    """Covariance of all steps of all particles and axes, and the covariance of flow with them."""
    blocks, row = [], 0
    n_fixes = len(data.dx) + len(data.row_sizes)
    sd, first = np.zeros(n_fixes) if data.position_sd is None else data.position_sd, 0
    for n in data.row_sizes:
        times = np.concatenate([[0.0], np.cumsum(data.interval[row : row + n])])
        apart = np.abs(times[:, None] - times)
        # Few sizes: the same program for most runs.
        padded = np.pad(apart.ravel(), (0, (64 if apart.size <= 64 else 4096) - apart.size))
        spread = np.asarray(spread_of(base, padded))[: apart.size].reshape(apart.shape)
        errors = np.diag(sd[first : first + n + 1] ** 2 + sigma**2)
        both = 0.5 * (spread[:, :1] + spread[:1] - spread) + errors
        blocks.append(np.diff(np.diff(both, axis=0), axis=1))
        row, first = row + n, first + n + 1
    d = data.dx.shape[1]
    x = positions(data)
    design = np.column_stack([np.ones(len(x)), x - x.mean(axis=0)]) * data.interval[:, None]
    prior = np.diag([flow**2] + [gradient**2] * d)
    own = np.kron(block_diag(*blocks), np.eye(d) if shape is None else shape)
    # Coefficients axis after axis, as in (U_1, A_11, A_12, U_2, ...).
    maps = np.stack([np.kron(np.eye(d)[i], row) for row in design for i in range(d)])
    wide = np.kron(np.eye(d), prior)
    return own + maps @ wide @ maps.T, wide @ maps.T, wide


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("name", "make"),
    [
        # Each kind of data with one model, each model with one kind; the others slowly.
        pytest.param(
            *(name, make),
            id=f"{name}-{make.__name__}",
            marks=() if name == "langevin" or make is irregular else pytest.mark.slow,
        )
        for name in BASES
        for make in (regular, irregular, ragged)
    ],
)
def test_linear_flow_integrates_out_to_a_covariance_over_all_particles(name, make):
    data, theta = make(), BASES[name]
    plain = {n: v for n, v in theta.items() if n != "sigma"}
    base = named(name.partition("+")[0], **plain)
    covariance, gain, prior = dense(base, data, sigma=theta.get("sigma", 0.0), **FLOW)
    model = named(f"{name}+linear", **theta, **FLOW)
    expected = multivariate_normal(cov=covariance).logpdf(data.dx.reshape(-1))
    assert_allclose(model.log_likelihood(data), expected, rtol=RTOL)
    # Conditioning the joint Gaussian of coefficients and steps gives their posterior.
    mean, cov = mean_flow(model, data)
    assert_allclose(mean, gain @ np.linalg.solve(covariance, data.dx.reshape(-1)), rtol=1e-7)
    assert_allclose(cov, prior - gain @ np.linalg.solve(covariance, gain.T), rtol=1e-7, atol=1e-12)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("n_dim", [1, 2, 3])
@pytest.mark.parametrize("engine", ["moments", "kalman"])
def test_engines_agree_with_the_dense_covariance_in_any_dimension(engine, n_dim):
    data, theta = regular(n_dim), BASES["langevin"]
    covariance, *_ = dense(named("langevin", **theta), data, **FLOW)
    expected = multivariate_normal(cov=covariance).logpdf(data.dx.reshape(-1))
    model = named("langevin+linear", n_dim, **theta, **FLOW)
    assert_allclose(model.log_likelihood(data, engine=engine), expected, rtol=RTOL)


def test_linear_flow_goes_with_a_tensor():
    data, theta = regular(), BASES["langevin"]
    shape = expm(np.array([[0.6, -0.4], [-0.4, -0.6]]) / np.sqrt(2))
    covariance, *_ = dense(named("langevin", **theta), data, shape, **FLOW)
    expected = multivariate_normal(cov=covariance).logpdf(data.dx.reshape(-1))
    model = named("langevin+anisotropic+linear", h1=0.6, h2=-0.4, **theta, **FLOW)
    assert_allclose(model.log_likelihood(data), expected, rtol=RTOL)


@pytest.mark.parametrize("make", [regular, pytest.param(irregular, marks=pytest.mark.slow)])
def test_without_gradient_the_flow_is_constant_and_without_flow_there_is_none(make):
    data, theta = make(), BASES["langevin"]
    limits = {"langevin+mean": (0.7, {"flow": 0.7}), "langevin": (1e-9, {})}
    for name, (flow, own) in limits.items():
        found = named("langevin+linear", **theta, flow=flow, gradient=1e-10).log_likelihood(data)
        assert_allclose(found, named(name, **theta, **own).log_likelihood(data), rtol=RTOL)


# --- Symmetries --------------------------------------------------------------------------------


def likelihood(data, **scales):
    return named("langevin+linear", **{**BASES["langevin"], **FLOW, **scales}).log_likelihood(data)


def test_turning_mirroring_and_shifting_the_axes_changes_nothing():
    data, expected = regular(), likelihood(regular())
    turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    for matrix in (turn, turn @ np.diag([1.0, -1.0])):
        turned = dataclasses.replace(
            data, dx=data.dx @ matrix.T, start=data.start @ matrix.T + np.array([1e3, -20.0])
        )
        assert_allclose(likelihood(turned), expected, rtol=1e-9)


def test_changing_the_units_changes_the_density_by_their_jacobian():
    data, length, time = regular(), 3.7, 0.2
    scaled = dataclasses.replace(
        data,
        dx=length * data.dx,
        start=length * data.start,
        interval=time * data.interval,
        tau=time * data.tau,
    )
    theta = BASES["langevin"]
    found = likelihood(
        scaled,
        gamma=theta["gamma"] / time,
        k=theta["k"] * length**2 / time,
        flow=FLOW["flow"] * length / time,
        gradient=FLOW["gradient"] / time,
    )
    assert_allclose(found + data.dx.size * np.log(length), likelihood(data), rtol=RTOL)


def test_order_of_trajectories_does_not_matter():
    data = ragged()
    parts = np.split(np.arange(49), np.cumsum(data.row_sizes)[:-1])
    order = [2, 0, 1]
    rows = np.concatenate([parts[i] for i in order])
    shuffled = dataclasses.replace(
        data, dx=data.dx[rows], row_sizes=data.row_sizes[order], start=data.start[order]
    )
    assert_allclose(likelihood(shuffled), likelihood(data), rtol=RTOL)


# --- Where steps begin -------------------------------------------------------------------------


def test_displacements_know_where_steps_begin():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(3, 13, 2)).cumsum(axis=1)
    x[1, 4] = np.nan
    tracks = Trajectories.from_arrays(x, dt=TAU)
    for options in ({}, {"gaps": "keep"}, {"n_tau": 2, "windows": "all"}):
        data = displacements(tracks, 2 * TAU, **options)
        assert_allclose(data.origin, positions(data), rtol=1e-12)
        # Every place at which a step begins or ends is a fix.
        fixes = x[:, ::2].reshape(-1, 2)
        for ends in (data.origin, data.origin + data.dx):
            apart = np.linalg.norm(ends[:, None] - fixes[None], axis=-1)
            assert np.nanmin(apart, axis=1).max() < 1e-12
        assert_allclose(data.centre, data.origin.mean(axis=0))
    some = subset(data, data.trajectory != 0)
    kept = np.repeat(data.trajectory != 0, data.row_sizes)
    assert_allclose(some.origin, data.origin[kept])


def test_same_steps_have_the_same_fingerprint_wherever_they_begin():
    data = regular()
    assert dataclasses.replace(data, start=None).fingerprint == data.fingerprint


def test_steps_that_begin_nowhere_are_refused():
    data = dataclasses.replace(regular(), start=None)
    with pytest.raises(DriftbayesError, match=r"langevin\+linear must know where steps begin"):
        likelihood(data)
    with pytest.raises(DriftbayesError, match="the start positions of these steps are unknown"):
        _ = data.origin
    with pytest.raises(DriftbayesError, match="start holds 2 positions, expected 4, one per run"):
        dataclasses.replace(data, start=np.zeros((2, 2)))
    with pytest.raises(DriftbayesError, match=r"of shape \(3, 2\), one position per particle"):
        Displacements.from_array(np.ones((3, 4, 2)), TAU, start=np.zeros((3, 1)))


# --- Known flows -------------------------------------------------------------------------------

U, A = np.array([0.3, -0.2]), np.array([[0.05, -0.12], [0.20, -0.02]])
C = np.array([10.0, -5.0])
PRIORS = scaling_priors(1.0, 1.0)


def carried(base, n_particles, n_steps, tau, substeps=1, seed=0, **theta):
    """Particles of a model in a known flow: its steps and, in between, the flow's own map.

    The flow is followed exactly, by the exponential of its gradient over a part of a step.
    """
    rng = np.random.default_rng(seed)
    x = MODELS[base](**theta).simulate(
        jax.random.key(seed),
        n_particles=n_particles,
        n_steps=n_steps * substeps,
        n_dim=2,
        tau=tau / substeps,
    )
    dx = np.diff(np.asarray(x), axis=1)
    whole = np.zeros((3, 3))
    whole[:2, :2], whole[:2, 2] = A, U
    step = expm(whole * tau / substeps)
    here = 4 * rng.normal(size=(n_particles, 2))
    found = [here]
    for n in range(dx.shape[1]):
        here = here @ step[:2, :2].T + step[:2, 2] + dx[:, n]
        found.append(here)
    return Trajectories.from_arrays(np.stack(found, axis=1)[:, ::substeps] + C, dt=tau)


@pytest.mark.parametrize("name", ["brownian", pytest.param("langevin", marks=pytest.mark.slow)])
@pytest.mark.slow
def test_strain_rotation_and_flow_are_recovered_within_their_errors(name):
    theta = {"brownian": {"kappa": 0.05}, "langevin": {"gamma": 1.0, "k": 0.05}}[name]
    data = displacements(carried(name, 100, 20, 0.1, substeps=4, **theta), 0.1)
    names = [name, f"{name}+mean", f"{name}+linear"]
    families = [model_named(one, MODELS) for one in names]
    result = compare_hypotheses(
        [Hypothesis.from_table(family, PRIORS) for family in families], data
    )
    record = result.evidences[names[2]]
    assert record.log_evidence > max(result.evidences[n].log_evidence for n in names[:2]) + 10
    found = record.derived
    at_centre = U + A @ (data.centre - C)
    truth = {
        "flow_1": at_centre[0],
        "flow_2": at_centre[1],
        "divergence": A[0, 0] + A[1, 1],
        "vorticity": A[1, 0] - A[0, 1],
        "strain_normal": A[0, 0] - A[1, 1],
        "strain_shear": A[0, 1] + A[1, 0],
    }
    for quantity, value in truth.items():
        assert abs(found[quantity] - value) < 4 * found[f"{quantity}_sd"], quantity
    assert found["vorticity_sd"] < 0.2 * truth["vorticity"]
    assert_allclose([found["centre_1"], found["centre_2"]], data.centre)


def test_posterior_of_rotation_is_as_wide_as_it_errs():
    # Many data sets: deviations over their standard deviations have variance one.
    family = model_named("brownian+linear", MODELS)
    model = family(kappa=0.05, flow=10.0, gradient=10.0)
    scores = []
    for seed in range(60):
        data = displacements(carried("brownian", 20, 5, 0.01, seed=seed, kappa=0.05), 0.01)
        found = derived(model, data)
        truth = {"vorticity": A[1, 0] - A[0, 1], "divergence": A[0, 0] + A[1, 1]}
        scores.append([(found[n] - v) / found[f"{n}_sd"] for n, v in truth.items()])
    square = np.mean(np.square(scores), axis=0)
    assert (np.abs(square - 1) < 4 * np.sqrt(2 / 60)).all()


@pytest.mark.parametrize(("n_dim", "names"), [(1, ["divergence"]), (3, ["gradient_31"])])
def test_gradients_are_told_in_one_and_three_dimensions(n_dim, names):
    data = regular(n_dim)
    model = named("brownian+linear", n_dim, kappa=1.3, **FLOW)
    (mean, covariance), found = mean_flow(model, data), derived(model, data)
    place = {"divergence": 1, "gradient_31": 2 * 4 + 1}
    for name in names:
        assert_allclose(found[name], mean[place[name]])
        assert_allclose(found[f"{name}_sd"] ** 2, covariance[place[name], place[name]])
    assert "vorticity" not in found


def test_evidence_of_a_plain_model_does_not_see_where_steps_begin():
    data = regular(n_particles=10)
    hypothesis = Hypothesis(MODELS["brownian"], kappa=Exponential(1.0))
    one, other = (evidence(hypothesis, d) for d in (data, dataclasses.replace(data, start=None)))
    assert one.log_evidence == other.log_evidence
