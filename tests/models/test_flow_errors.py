"""Kicks correlated in space, positions with errors: a dense covariance, and limits."""

from dataclasses import replace

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import driftbayes as db
from driftbayes.data._sampling import Displacements
from driftbayes.inference import Batch, Hypothesis
from driftbayes.inference._density import Density
from driftbayes.likelihood._flow import flow_correlation
from driftbayes.likelihood._flow_errors import decorrelation
from driftbayes.models import MODELS, model_named
from driftbayes.models._options.correlated import simulate_flow
from driftbayes.priors import Exponential, Fixed, Uniform

TAU = 0.7
VALUES = {
    "kappa": 1.1,
    "gamma": 0.8,
    "k": 1.3,
    "length": 1.7,
    "own_share": 0.25,
    "sigma": 0.3,
}
KINDS = [("brownian", "flow"), ("langevin", "flow"), ("langevin", "eddies")]
# Particles that come and go, and those that are there all the time.
COMING = {"sizes": [6, 6, 2, 3, 5], "begins": [0, 0, 0, 3, 2]}
STAYING = {"sizes": [4] * 5, "begins": [0] * 5}


UNIT = Exponential(1.0)
# Compiled as one program: call by call, JAX would compile every operation.
state_space_of = eqx.filter_jit(
    lambda model: (*model.transition(jnp.asarray(TAU)), model.initial_covariance())
)


def hypothesis(name, length=UNIT):
    model = model_named(name, MODELS)
    priors = {
        "nu": Fixed(1.5),
        "divergence": Fixed(0.3),
        "own_share": Uniform(0.0, 1.0),
        "length": length,
    }
    return Hypothesis(model, **{n: priors.get(n, Exponential(1.0)) for n in model.parameters})


def log_likelihood(name, data, values=VALUES):
    one = hypothesis(name)
    density = Density(one, Batch.of(data, model=one.model).engine(0, one.model))
    return density.terms(np.array([[values[n] for n in one.names]]))[0][0]


def data_of(sizes, begins, *, errors=False):
    rng = np.random.default_rng(2)
    sizes = np.array(sizes)
    n = sizes.sum()
    return Displacements(
        dx=rng.normal(size=(n, 2)),
        interval=np.full(n, TAU),
        row_sizes=sizes,
        trajectory=np.arange(len(sizes)),
        tau=TAU,
        position_sd=rng.uniform(0.1, 0.6, n + len(sizes)) if errors else None,
        start=rng.normal(size=(len(sizes), 2)) * 2,
        start_time=TAU * np.array(begins),
    )


def correlation(x, option):
    """Of the kicks at some places, (axis, particle) by (axis, particle)."""
    n, own = len(x), VALUES["own_share"]
    e = x[:, None] - x[None]
    r = np.linalg.norm(e, axis=-1)
    s = np.sqrt(3) * r / VALUES["length"]
    c, slope = (1 + s) * np.exp(-s), -(s**2) * np.exp(-s)
    out = np.zeros((2, n, 2, n))
    for i in range(2):
        for j in range(2):
            block = c * (i == j)
            if option == "eddies":
                along = e[..., i] * e[..., j] / np.where(r > 0, r, 1.0) ** 2
                across = (i == j) - along
                turning = c * along + (c + slope) * across
                diverging = (c + slope) * along + c * across
                block = np.where(r > 0, 0.7 * turning + 0.3 * diverging, 1.0 * (i == j))
            out[i, :, j] = (1 - own) * block + own * (i == j) * np.eye(n)
    return out.reshape(2 * n, 2 * n)


def dense(base, option, data, sigma):
    """Ln density of the steps of particles that come and go, from all independent sources.

    Positions and velocities of all are linear in first velocities, kicks and errors; a particle
    that is seen first has a velocity that follows from those of the others and a rest of its own.
    """
    model = MODELS[base](**{n: VALUES[n] for n in MODELS[base].parameters})
    move, noise, start = (np.asarray(part) for part in state_space_of(model))
    m = len(start) - 1
    ends = np.cumsum(data.row_sizes)
    firsts = np.round(data.start_time / TAU).astype(int)
    x, offsets = {}, ends - data.row_sizes
    for r, last in enumerate(ends):
        steps = data.dx[offsets[r] : last]
        path = data.start[r] + np.concatenate([np.zeros((1, 2)), np.cumsum(steps, axis=0)])
        x |= {(r, firsts[r] + k): path[k] for k in range(len(path))}
    rows, covariance = [], np.zeros((0, 0))

    def part(corr, a, b):
        return corr[:, a][:, :, :, b].reshape(2 * len(a), 2 * len(b))

    def grown(total, block):
        out = np.zeros((len(total) + len(block),) * 2)
        out[: len(total), : len(total)], out[len(total) :, len(total) :] = total, block
        return out

    velocity = {}
    values = []
    for k in range(int((firsts + data.row_sizes).max())):
        here = [r for r in range(len(ends)) if firsts[r] <= k < firsts[r] + data.row_sizes[r]]
        corr = correlation(np.stack([x[r, k] for r in here]), option).reshape(
            (2, len(here), 2, len(here))
        )
        old = [i for i, r in enumerate(here) if r in velocity]
        new = [i for i, r in enumerate(here) if r not in velocity]
        if m and new:
            weights = part(corr, new, old) @ np.linalg.inv(part(corr, old, old)) if old else None
            rest = part(corr, new, new) - (weights @ part(corr, old, new) if old else 0.0)
            known = (
                np.concatenate([velocity[here[i]][axis][None] for axis in range(2) for i in old])
                if old
                else None
            )
            covariance = grown(covariance, start[1, 1] * rest)
            for place, i in enumerate(new):
                velocity[here[i]] = []
                for axis in range(2):
                    row = np.zeros(len(covariance))
                    if old:
                        padded = np.zeros((len(known), len(covariance)))
                        padded[:, : known.shape[1]] = known
                        row += weights[axis * len(new) + place] @ padded
                    row[len(covariance) - 2 * len(new) + axis * len(new) + place] = 1.0
                    velocity[here[i]].append(row)
        flat = corr.reshape(2 * len(here), -1)
        n_before = len(covariance)
        covariance = grown(covariance, np.kron(noise, flat))
        moved = {}
        for i, r in enumerate(here):
            moved[r] = []
            for axis in range(2):
                row = np.zeros(len(covariance))
                kick = n_before + axis * len(here) + i
                row[kick] = 1.0
                if m:
                    before = velocity[r][axis]
                    row[: len(before)] += move[0, 1] * before
                    after = np.zeros(len(covariance))
                    after[: len(before)] += move[1, 1] * before
                    after[kick + 2 * len(here)] = 1.0
                    moved[r].append(after)
                rows.append((r, k, axis, row))
                values.append(data.dx[offsets[r] + k - firsts[r], axis])
        velocity = {r: [np.pad(v, (0, len(covariance) - len(v))) for v in moved[r]] for r in here}
        if not m:
            velocity = {}
    size = len(covariance)
    whole = np.stack([np.pad(row, (0, size - len(row))) for *_, row in rows])
    total = whole @ covariance @ whole.T
    sd = np.zeros(len(data.dx) + len(ends)) if data.position_sd is None else data.position_sd
    for a, (r, k, axis, _) in enumerate(rows):
        fix = offsets[r] + r + k - firsts[r]
        total[a, a] += 2 * sigma**2 + sd[fix] ** 2 + sd[fix + 1] ** 2
        for b, (q, j, other, _) in enumerate(rows):
            if (q, other) == (r, axis) and j == k + 1:
                total[a, b] -= sigma**2 + sd[fix + 1] ** 2
                total[b, a] -= sigma**2 + sd[fix + 1] ** 2
    _, log_det = np.linalg.slogdet(total)
    quadratic = values @ np.linalg.solve(total, values)
    return -0.5 * (len(values) * np.log(2 * np.pi) + log_det + quadratic)


@pytest.mark.sampled(10)
@pytest.mark.parametrize("few", [True, False])
@pytest.mark.parametrize("errors", [False, True])
@pytest.mark.parametrize("who", [COMING, STAYING])
@pytest.mark.parametrize(("base", "option"), KINDS)
def test_density_is_that_of_all_kicks_and_errors(base, option, who, errors, few, monkeypatch):
    # By compiled loops, and by a library's factorisations.
    monkeypatch.setattr("driftbayes.likelihood._flow._FEW", 64 if few else 0)
    data = data_of(**who, errors=errors)
    found = log_likelihood(f"{base}+noise+{option}", data)
    assert_allclose(found, dense(base, option, data, VALUES["sigma"]), rtol=1e-10)
    if errors:
        # Known errors alone.
        found = log_likelihood(f"{base}+{option}", data)
        assert_allclose(found, dense(base, option, data, 0.0), rtol=1e-10)


@pytest.mark.parametrize("who", [COMING, STAYING])
@pytest.mark.parametrize(("base", "option"), KINDS)
def test_without_errors_positions_are_exact(base, option, who):
    data = data_of(**who)
    known = log_likelihood(f"{base}+{option}", data)
    assert_allclose(
        log_likelihood(f"{base}+noise+{option}", data, VALUES | {"sigma": 1e-9}), known, rtol=1e-13
    )
    tiny = replace(data, position_sd=np.full(len(data.dx) + 5, 1e-9))
    assert_allclose(log_likelihood(f"{base}+{option}", tiny), known, rtol=1e-13)


@pytest.mark.parametrize("change", [{"length": 1e-6}, {"own_share": 1.0}])
@pytest.mark.parametrize("base", ["brownian", "langevin"])
def test_without_correlation_particles_are_independent(base, change):
    data = data_of(**COMING, errors=True)
    plain = MODELS[base](**{n: VALUES[n] for n in MODELS[base].parameters})
    alone = float(db.Noise(plain, sigma=VALUES["sigma"]).log_likelihood(data))
    for option in (option for name, option in KINDS if name == base):
        found = log_likelihood(f"{base}+noise+{option}", data, VALUES | change)
        assert_allclose(found, alone, rtol=1e-12)


def test_decorrelation_is_that_of_the_kernel():
    assert decorrelation(0.0, 1.0, 1.5) == 0.0
    for nu in (0.5, 1.5, 2.5):
        x = np.array([[0.0, 0.0], [0.2 * np.sqrt(2), 0.0]])
        r = np.linalg.norm(x[:, None] - x[None], axis=-1)
        known = flow_correlation(x, r, 1.5, nu, np.nan)[0, 1]
        assert_allclose(1 - decorrelation(0.2, 1.5, nu), known, rtol=1e-12)


def simulated(sigma, n=12, steps=8, length=2.0):
    rng = np.random.default_rng(5)
    model = db.Flow(
        db.Noise(db.Brownian(kappa=0.05), sigma=sigma), length=length, own_share=0.2, nu=1.5
    )
    x = simulate_flow(model, rng, rng.uniform(0, 6, size=(n, 2)), steps, 1.0)
    return Displacements.from_array(np.diff(x, axis=1), 1.0, start=x[:, 0])


def test_errors_too_large_for_the_flow_are_named():
    data = simulated(0.02, n=6, steps=4)
    data = replace(data, position_sd=np.full(30, 0.02))
    one = hypothesis("brownian+flow", length=Fixed(2.0))
    record = db.evidence(one, data, method="laplace")
    assert not any("of its correlation" in text for text in record.warnings)
    coarse = replace(data, position_sd=np.full(30, 0.4))
    record = db.evidence(one, coarse, method="laplace")
    said = "errors of 0.4, over which the flow of length 2 loses 9% of its correlation"
    assert any(said in text for text in record.warnings)


@pytest.mark.slow
def test_evidence_finds_flow_and_errors():
    record = db.evidence(hypothesis("brownian+noise+flow"), simulated(0.1, n=25, steps=20))
    assert record.status.name == "OK"
    for name, truth in (("length", 2.0), ("own_share", 0.2), ("kappa", 0.05), ("sigma", 0.1)):
        estimate = record.parameters[name]
        assert abs(estimate.mean - truth) < 3 * estimate.sd


@pytest.mark.parametrize("name", ["langevin+flow", "langevin+noise+eddies"])
@pytest.mark.parametrize("late", [False, True])
def test_the_search_sees_some_of_many_particles(name, late):
    # Of 60 particles 48 are looked at first, their steps as if there were no others.
    begins, sizes = [0] * 60, [4] * 60
    if late:
        begins[10:20], sizes[10:20], sizes[30:35] = [1] * 10, [3] * 10, [2] * 5
    data = data_of(sizes, begins, errors=True)
    one = hypothesis(name)
    engine = Batch.of(data, model=one.model).engine(0, one.model)
    few, factor = engine.thinned(10_000)
    who = np.unique(np.concatenate([step.particles for step in few.steps]))
    assert len(who) == 48
    assert factor == len(data.dx) / few.n
    ends = np.cumsum(data.row_sizes)
    steps = np.concatenate([np.arange(ends[r] - sizes[r], ends[r]) for r in who])
    fixes = np.concatenate([r + np.arange(ends[r] - sizes[r], ends[r] + 1) for r in who])
    part = replace(
        data,
        dx=data.dx[steps],
        interval=data.interval[steps],
        row_sizes=data.row_sizes[who],
        trajectory=np.arange(48),
        position_sd=data.position_sd[fixes],
        start=data.start[who],
        start_time=data.start_time[who],
    )
    theta = np.array([[VALUES[n] for n in one.names]])
    assert_allclose(Density(one, few).terms(theta)[0][0], log_likelihood(name, part), rtol=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize(("length", "own"), [(0.15, 0.2), (0.5, 0.6), (20.0, 0.02), (1.0, 0.97)])
def test_a_search_by_few_particles_finds_the_same_evidence(length, own, monkeypatch):
    rng = np.random.default_rng(4)
    model = db.Flow(db.Brownian(kappa=1e-3), length, own, 1.5)
    x = simulate_flow(model, rng, rng.uniform(0, 6, (70, 2)), 8, 1.0)
    data = Displacements.from_array(np.diff(x, axis=1), 1.0, start=x[:, 0])
    few = db.evidence(hypothesis("brownian+flow"), data)
    monkeypatch.setattr("driftbayes.likelihood._flow._N_SEARCHED", 1000)
    known = db.evidence(hypothesis("brownian+flow"), data)
    assert_allclose(few.log_evidence, known.log_evidence, atol=1e-4)
