"""Kicks correlated in space: the filter against one dense covariance, limits, and refusals."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import driftbayes as db
from driftbayes.data.sampling import Displacements
from driftbayes.errors import DriftbayesError
from driftbayes.inference import Batch, Hypothesis
from driftbayes.inference.density import Density
from driftbayes.likelihood.flow import flow_correlation
from driftbayes.models import MODELS, model_named
from driftbayes.models.options.correlated import simulate_flow
from driftbayes.priors import Exponential, Fixed, Uniform

TAU = 0.7
VALUES = {"kappa": 1.1, "gamma": 0.8, "k": 1.3, "length": 1.7, "own_share": 0.25}


def hypothesis(name, nu=1.5, divergence=0.3):
    model = model_named(name, MODELS)
    priors = {
        "nu": Fixed(nu),
        "divergence": Fixed(divergence),
        "own_share": Uniform(0.0, 1.0),
    }
    return Hypothesis(model, **{n: priors.get(n, Exponential(1.0)) for n in model.parameters})


def log_likelihood(name, data, values=VALUES, **options):
    one = hypothesis(name, **options)
    density = Density(one, Batch.of(data, model=one.model).engine(0, one.model))
    return density.terms(np.array([[values[n] for n in one.names]]))[0][0]


def data_of(n=5, steps=4, sizes=None, begins=None):
    rng = np.random.default_rng(2)
    sizes = np.full(n, steps) if sizes is None else np.array(sizes)
    begins = np.zeros(len(sizes)) if begins is None else TAU * np.array(begins)
    return Displacements(
        dx=rng.normal(size=(sizes.sum(), 2)),
        interval=np.full(sizes.sum(), TAU),
        row_sizes=sizes,
        trajectory=np.arange(len(sizes)),
        tau=TAU,
        start=rng.normal(size=(len(sizes), 2)) * 2,
        start_time=begins,
    )


def kernel(x, values, nu, divergence):
    """Correlation of particles and axes, (particle, axis) by (particle, axis), entry by entry."""
    n = len(x)
    out = np.zeros((n, 2, n, 2))
    for p in range(n):
        for q in range(n):
            e = x[p] - x[q]
            r = np.hypot(*e)
            s = np.sqrt(2 * nu) * r / values["length"]
            c = {0.5: 1.0, 1.5: 1 + s, 2.5: 1 + s + s**2 / 3}[nu] * np.exp(-s)
            # r C'(r), by a difference.
            h = 1e-6
            s2, s1 = (np.sqrt(2 * nu) * (r + d) / values["length"] for d in (h, -h))
            up, down = (
                {0.5: 1.0, 1.5: 1 + t, 2.5: 1 + t + t**2 / 3}[nu] * np.exp(-t) for t in (s2, s1)
            )
            slope = r * (up - down) / (2 * h)
            if divergence is None:
                block = c * np.eye(2)
            else:
                along = np.outer(e, e) / r**2 if r > 0 else np.zeros((2, 2))
                across = np.eye(2) - along
                rotating = c * along + (c + slope) * across
                divergent = (c + slope) * along + c * across
                block = (1 - divergence) * rotating + divergence * divergent
            own = values["own_share"]
            out[p, :, q, :] = (1 - own) * block + own * np.eye(2) * (p == q)
    return out.reshape(2 * n, 2 * n)


def expected(name, data, nu, divergence):
    """Ln density of the steps of simultaneous particles from the covariance of all of them.

    With the kicks of each step drawn where it begins, all are linear in independent kicks.
    """
    base = MODELS[name](**{n: VALUES[n] for n in MODELS[name].parameters})
    propagate, noise = (np.asarray(part) for part in base.transition(jnp.asarray(TAU)))
    start = np.asarray(base.initial_covariance())
    n, steps = len(data.row_sizes), int(data.row_sizes[0])
    dx = data.dx.reshape(n, steps, 2)
    x = data.start[:, None] + np.concatenate([np.zeros((n, 1, 2)), np.cumsum(dx, axis=1)], axis=1)
    size = 2 * n
    kernels = [kernel(x[:, k], VALUES, nu, divergence) for k in range(steps)]
    m = len(start) - 1
    # State: velocities of all; steps as linear functions of the first velocities and all kicks.
    covariance = np.zeros((steps * size, steps * size))
    sources = [np.kron(start[1:, 1:], kernels[0])] if m else []
    parts = []
    if m:
        carry = np.eye(m * size)
        rows = []
        for _ in range(steps):
            rows.append(np.kron(propagate[:1, 1:], np.eye(size)) @ carry)
            carry = np.kron(propagate[1:, 1:], np.eye(size)) @ carry
        parts.append((np.concatenate(rows), sources[0]))
    for k in range(steps):
        rows = [np.zeros((size, (m + 1) * size)) for _ in range(k)]
        rows.append(np.kron(np.eye(m + 1)[:1], np.eye(size)))
        carry = np.kron(np.eye(m + 1)[1:], np.eye(size))
        for _ in range(k + 1, steps):
            rows.append(np.kron(propagate[:1, 1:], np.eye(size)) @ carry)
            carry = np.kron(propagate[1:, 1:], np.eye(size)) @ carry
        parts.append((np.concatenate(rows), np.kron(noise, kernels[k])))
    for rows, source in parts:
        covariance += rows @ source @ rows.T
    values = np.moveaxis(dx, 0, 1).reshape(-1)
    factor = np.linalg.cholesky(covariance)
    white = np.linalg.solve(factor, values)
    log_det = 2 * np.sum(np.log(np.diag(factor)))
    return -0.5 * (len(values) * np.log(2 * np.pi) + log_det + white @ white)


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5])
@pytest.mark.parametrize("option", ["flow", "eddies"])
@pytest.mark.parametrize("base", ["brownian", "langevin"])
@pytest.mark.parametrize("few", [True, False])
def test_density_is_that_of_all_kicks_together(base, option, nu, few, monkeypatch):
    # By compiled loops, and by a library's factorisations.
    monkeypatch.setattr("driftbayes.likelihood.flow._FEW", 64 if few else 0)
    data = data_of()
    found = log_likelihood(f"{base}+{option}", data, nu=nu)
    divergence = None if option == "flow" else 0.3
    assert_allclose(found, expected(base, data, nu, divergence), rtol=1e-8)


@pytest.mark.parametrize("option", ["flow", "eddies"])
@pytest.mark.parametrize("base", ["brownian", "langevin"])
def test_without_correlation_particles_are_independent(base, option):
    data = data_of(sizes=[6, 6, 2, 3, 5], begins=[0, 0, 0, 3, 2])
    model = MODELS[base](**{n: VALUES[n] for n in MODELS[base].parameters})
    alone = float(model.log_likelihood(data))
    for change in ({"length": 1e-6}, {"own_share": 1.0}):
        found = log_likelihood(f"{base}+{option}", data, VALUES | change)
        assert_allclose(found, alone, rtol=1e-10)


@pytest.mark.parametrize("base", ["brownian", "langevin"])
def test_a_particle_that_leaves_does_not_stop_the_others(base):
    # The others move by themselves: without correlation to it, the rest is as if it were not there.
    data = data_of(sizes=[4, 4, 2], begins=[0, 0, 0])
    name = f"{base}+flow"
    far = replace(data, start=data.start + np.array([[0, 0], [0, 0], [1e6, 0]]))
    alone = data_of(sizes=[4, 4, 2])
    pair = replace(
        alone,
        dx=alone.dx[:8],
        interval=alone.interval[:8],
        row_sizes=alone.row_sizes[:2],
        trajectory=alone.trajectory[:2],
        start=alone.start[:2],
        start_time=np.zeros(2),
    )
    model = MODELS[base](**{n: VALUES[n] for n in MODELS[base].parameters})
    third = replace(
        pair,
        dx=alone.dx[8:],
        interval=alone.interval[8:],
        row_sizes=np.array([2]),
        trajectory=np.array([0]),
        start=alone.start[2:],
        start_time=np.zeros(1),
    )
    expected = log_likelihood(name, pair) + float(model.log_likelihood(third))
    assert_allclose(log_likelihood(name, far), expected, rtol=1e-10)


def test_a_particle_that_comes_later_knows_the_others():
    # Two of three particles alone, then all: the third by regression, as one Gaussian has it.
    data = data_of(sizes=[2, 2, 1], begins=[0, 0, 1])
    base = MODELS["langevin"](gamma=VALUES["gamma"], k=VALUES["k"])
    propagate, noise = (np.asarray(part) for part in base.transition(jnp.asarray(TAU)))
    start = float(base.initial_covariance()[1, 1])
    ends = np.cumsum(data.row_sizes)
    begin = data.start
    second = begin[:2] + data.dx[ends[:2] - 2]
    places = np.concatenate([second, begin[2:]])

    def scalar(x):
        r = np.linalg.norm(x[:, None] - x[None], axis=-1)
        own = VALUES["own_share"]
        return (1 - own) * flow_correlation(x, r, VALUES["length"], 1.5, np.nan) + own * np.eye(
            len(x)
        )

    first, then = scalar(begin[:2]), scalar(places)
    a, phi = propagate[0, 1], propagate[1, 1]
    # Velocities before the first step v, after it v', and of the third w given v'.
    weights = np.linalg.solve(then[:2, :2], then[:2, 2]).T
    v0 = start * first
    after = phi**2 * v0 + noise[1, 1] * first
    step_after = a * phi * v0 + noise[0, 1] * first
    third = weights @ after @ weights + start * (then[2, 2] - weights @ then[:2, 2])
    velocities = np.block([[after, (after @ weights)[:, None]], [(weights @ after)[None], third]])
    steps1 = a**2 * v0 + noise[0, 0] * first
    with_third = np.concatenate([step_after, (step_after @ weights)[:, None]], axis=1)
    covariance = np.block(
        [[steps1, a * with_third], [a * with_third.T, a**2 * velocities + noise[0, 0] * then]]
    )
    dx = np.concatenate([data.dx[[0, 2]], data.dx[[1, 3, 4]]])
    factor = np.linalg.cholesky(covariance)
    white = np.linalg.solve(factor, dx)
    known = -0.5 * (dx.size * np.log(2 * np.pi) + 4 * np.sum(np.log(np.diag(factor))))
    known -= 0.5 * np.sum(white**2)
    assert_allclose(log_likelihood("langevin+flow", data), known, rtol=1e-9)


def test_eddies_have_no_divergence():
    # Correlation of the divergence with the velocity elsewhere vanishes: by differences.
    h, x0 = 1e-4, np.array([0.3, 0.8])
    total = np.zeros(2)
    for axis in range(2):
        for sign in (1, -1):
            x = np.stack([x0 + sign * h * np.eye(2)[axis], np.zeros(2)])
            r = np.linalg.norm(x[:, None] - x[None], axis=-1)
            corr = flow_correlation(x, r, 1.0, 1.5, 0.0).reshape(2, 2, 2, 2)
            total += sign * corr[axis, 0, :, 1] / (2 * h)
    assert_allclose(total, 0.0, atol=1e-7)


def test_evidence_finds_a_simulated_flow():
    rng = np.random.default_rng(5)
    model = db.Flow(db.Brownian(kappa=0.5), length=2.0, own_share=0.2, nu=1.5)
    x = simulate_flow(model, rng, rng.uniform(0, 6, size=(20, 2)), 15, 1.0)
    data = Displacements.from_array(np.diff(x, axis=1), 1.0, start=x[:, 0])
    one = hypothesis("brownian+flow")
    record = db.evidence(one, data)
    alone = db.evidence(Hypothesis(MODELS["brownian"], kappa=Exponential(1.0)), data)
    assert record.status.name == "OK"
    assert record.log_evidence > alone.log_evidence + 50
    for name, truth in (("length", 2.0), ("own_share", 0.2), ("kappa", 0.5)):
        estimate = record.parameters[name]
        assert abs(estimate.mean - truth) < 4 * estimate.sd


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"start": None}, "must know where steps begin"),
        ({"start_time": None}, "must know when steps begin"),
        ({"start_time": np.array([0.0, 0.3, 0.0, 0.0, 0.0])}, "common regular times"),
        ({"start_time": np.arange(5) * 70.0}, "no two particles are seen at the same time"),
        ({"position_sd": np.full(25, 0.1)}, "takes exact positions"),
    ],
)
def test_bad_data_are_refused_in_one_sentence(change, message):
    with pytest.raises(DriftbayesError, match=message):
        log_likelihood("brownian+flow", replace(data_of(), **change))


def test_what_no_closed_form_has_is_refused():
    with pytest.raises(DriftbayesError, match=r"nu of a flow must be fixed at 0\.5, 1\.5 or 2\.5"):
        log_likelihood("brownian+flow", data_of(), nu=1.0)
    with pytest.raises(DriftbayesError, match="is for the models 'brownian' and 'langevin'"):
        model_named("oscillating+flow", MODELS)
    with pytest.raises(DriftbayesError, match="is for the models 'brownian' and 'langevin'"):
        model_named("langevin+noise+flow", MODELS)


def test_eddies_outside_the_plane_are_refused():
    x = np.cumsum(np.random.default_rng(1).normal(size=(4, 6, 3)), axis=1)
    data = Displacements.from_array(np.diff(x, axis=1), TAU, start=x[:, 0])
    with pytest.raises(DriftbayesError, match="eddies need two dimensions, got 3"):
        log_likelihood("brownian+eddies", data)
