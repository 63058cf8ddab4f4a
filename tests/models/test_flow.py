"""Kicks correlated in space: the filter against one dense covariance, limits, and refusals."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import driftbayes as db
from driftbayes.data._sampling import Displacements
from driftbayes.errors import DriftbayesError
from driftbayes.inference import Batch, Hypothesis
from driftbayes.inference._density import Density
from driftbayes.likelihood._flow import flow_correlation
from driftbayes.models import MODELS, model_named
from driftbayes.models._options.correlated import simulate_flow
from driftbayes.priors import Exponential, Fixed, Uniform

TAU = 0.7
VALUES = {"kappa": 1.1, "gamma": 0.8, "k": 1.3, "length": 1.7, "own_share": 0.25}


# Compiled as one program: call by call, JAX would compile every operation.
state_space_of = eqx.filter_jit(
    lambda model: (*model.transition(jnp.asarray(TAU)), model.initial_covariance())
)


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


def nearest(e, period):
    """The shortest of all images of a separation, found by trying them."""
    images = [
        e + np.array([i * period[0], j * (period[1] or 0.0)])
        for i in range(-9, 10)
        for j in range(-9, 10)
    ]
    return min(images, key=lambda image: np.hypot(*image))


def kernel(x, values, nu, divergence, period=None):
    """Correlation of particles and axes, (particle, axis) by (particle, axis), entry by entry."""
    n = len(x)
    out = np.zeros((n, 2, n, 2))
    for p in range(n):
        for q in range(n):
            e = x[p] - x[q] if period is None else nearest(x[p] - x[q], period)
            r = np.linalg.norm(e)
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


def expected(name, data, nu, divergence, kernels=None):
    """Ln density of the steps of simultaneous particles from the covariance of all of them.

    With the kicks of each step drawn where it begins, all are linear in independent kicks.
    """
    base = MODELS[name](**{n: VALUES[n] for n in MODELS[name].parameters})
    propagate, noise, start = (np.asarray(part) for part in state_space_of(base))
    n, steps = len(data.row_sizes), int(data.row_sizes[0])
    dx = data.dx.reshape(n, steps, 2)
    x = data.start[:, None] + np.concatenate([np.zeros((n, 1, 2)), np.cumsum(dx, axis=1)], axis=1)
    size = 2 * n
    if kernels is None:
        kernels = [kernel(x[:, k], VALUES, nu, divergence, data.period) for k in range(steps)]
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


@pytest.mark.sampled(5)
@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5])
@pytest.mark.parametrize("option", ["flow", "eddies"])
@pytest.mark.parametrize("base", ["brownian", "langevin"])
@pytest.mark.parametrize("few", [True, False])
def test_density_is_that_of_all_kicks_together(base, option, nu, few, monkeypatch):
    # By compiled loops, and by a library's factorisations.
    monkeypatch.setattr("driftbayes.likelihood._flow._FEW", 64 if few else 0)
    data = data_of()
    found = log_likelihood(f"{base}+{option}", data, nu=nu)
    divergence = None if option == "flow" else 0.3
    known = expected(base, data, nu, divergence)
    assert_allclose(found, known, rtol=1e-8)
    family = model_named(f"{base}+{option}", MODELS)
    values = {**VALUES, "nu": nu, "divergence": divergence}
    model = family(**{n: values[n] for n in family.parameters})
    assert_allclose(model.log_likelihood(data), known, rtol=1e-8)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("period", [None, (9.0, 8.0)])
@pytest.mark.parametrize(
    ("base", "option", "nu"),
    [
        *(("brownian", "flow", nu) for nu in (0.5, 1.5, 2.5)),
        *(("langevin", "flow", 1.5), ("brownian", "eddies", 2.5), ("langevin", "eddies", 1.5)),
    ],
)
def test_the_program_of_a_gpu_agrees(base, option, nu, period, monkeypatch):
    # The same program on the processor that JAX has here.
    data, values = replace(data_of(n=12), period=period), VALUES | {"length": 0.7}
    name = f"{base}+{option}"
    known = log_likelihood(name, data, values, nu=nu)
    accelerator = "driftbayes.likelihood._flow_accelerator"
    monkeypatch.setattr(f"{accelerator}.accelerator", lambda: jax.devices("cpu")[0])
    assert log_likelihood(name, data, values, nu=nu) == known
    monkeypatch.setattr("driftbayes.likelihood._flow._MIN_ACCELERATED", 2)
    monkeypatch.setattr("driftbayes.likelihood._flow.FlowEngine._row", None)
    assert_allclose(log_likelihood(name, data, values, nu=nu), known, rtol=1e-12)


def test_many_parameter_values_on_a_gpu_keep_their_order(monkeypatch):
    accelerator = "driftbayes.likelihood._flow_accelerator"
    one = hypothesis("langevin+flow")
    theta = np.tile([[VALUES[n] for n in one.names]], (21, 1))
    theta[:, one.names.index("length")] = np.linspace(0.1, 3.0, 21)
    density = Density(one, Batch.of(data_of(), model=one.model).engine(0, one.model))
    known = density.terms(theta)[0]
    monkeypatch.setattr(f"{accelerator}.accelerator", lambda: jax.devices("cpu")[0])
    monkeypatch.setattr("driftbayes.likelihood._flow._MIN_ACCELERATED", 2)
    assert_allclose(density.terms(theta)[0], known, rtol=1e-12)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("option", ["flow", "eddies"])
@pytest.mark.parametrize("base", ["brownian", "langevin"])
@pytest.mark.parametrize("begins", [None, [0, 0, 0, 3, 2]])
def test_without_correlation_particles_are_independent(base, option, begins):
    # By compiled loops, and by a library's factorisations as particles come and go.
    data = data_of() if begins is None else data_of(sizes=[6, 6, 2, 3, 5], begins=begins)
    model = MODELS[base](**{n: VALUES[n] for n in MODELS[base].parameters})
    alone = float(model.log_likelihood(data))
    for change in ({"length": 1e-6}, {"own_share": 1.0}):
        found = log_likelihood(f"{base}+{option}", data, VALUES | change)
        assert_allclose(found, alone, rtol=1e-13)


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
    propagate, noise, start = (np.asarray(part) for part in state_space_of(base))
    start = float(start[1, 1])
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
        ({"start_time": np.arange(5) * 70.0}, "needs particles observed at the same time"),
    ],
)
def test_bad_data_are_refused_in_one_sentence(change, message):
    with pytest.raises(DriftbayesError, match=message):
        log_likelihood("brownian+flow", replace(data_of(), **change))


def test_one_particle_is_refused():
    with pytest.raises(
        DriftbayesError, match="needs two particles or more to estimate a shared flow"
    ):
        log_likelihood("langevin+flow", data_of(n=1))


@pytest.mark.parametrize("base", ["brownian", "langevin"])
def test_particles_at_the_same_place_must_move_apart(base):
    plain = data_of()
    together = replace(plain, start=plain.start[[0, 0, 2, 3, 4]])
    # They share all of the flow: without a share of their own they cannot move apart.
    assert np.isfinite(log_likelihood(f"{base}+flow", together))
    found = [log_likelihood(f"{base}+flow", together, VALUES | {"own_share": a}) for a in (1e-9, 0)]
    assert max(found) < -1e6
    # For some steps, and for all of them.
    dx = plain.dx.copy()
    dx[4:6] = dx[:2]
    assert np.isfinite(log_likelihood(f"{base}+flow", replace(together, dx=dx)))
    dx[4:8] = dx[:4]
    with pytest.raises(DriftbayesError, match=r"same place and move exactly alike.*keep one"):
        log_likelihood(f"{base}+flow", replace(together, dx=dx))


def test_what_no_closed_form_has_is_refused():
    with pytest.raises(DriftbayesError, match=r"nu of a flow must be fixed at 0\.5, 1\.5 or 2\.5"):
        log_likelihood("brownian+flow", data_of(), nu=1.0)
    with pytest.raises(DriftbayesError, match="is for the models 'brownian' and 'langevin'"):
        model_named("oscillating+flow", MODELS)
    with pytest.raises(DriftbayesError, match="is for the models 'brownian' and 'langevin'"):
        model_named("langevin+blur+flow", MODELS)


def test_eddies_outside_the_plane_are_refused():
    x = np.cumsum(np.random.default_rng(1).normal(size=(4, 6, 3)), axis=1)
    data = Displacements.from_array(np.diff(x, axis=1), TAU, start=x[:, 0])
    with pytest.raises(DriftbayesError, match="eddies need two dimensions, got 3"):
        log_likelihood("brownian+eddies", data)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("period", [(9.0, 8.0), (8.0, None)])
@pytest.mark.parametrize("option", ["flow", "eddies"])
@pytest.mark.parametrize("base", ["brownian", "langevin"])
@pytest.mark.parametrize("few", [True, False])
def test_in_a_periodic_domain_the_nearest_images_count(base, option, period, few, monkeypatch):
    monkeypatch.setattr("driftbayes.likelihood._flow._FEW", 64 if few else 0)
    plain = data_of()
    # All over the domain, so that many nearest images are others.
    spread = plain.start + np.array([[0, 0], [4, 3], [-4, 3], [3, -4], [-3, -3]])
    data = replace(plain, start=spread, period=period)
    found = log_likelihood(f"{base}+{option}", data)
    divergence = None if option == "flow" else 0.3
    assert_allclose(found, expected(base, data, 1.5, divergence), rtol=1e-8)
    assert abs(found - log_likelihood(f"{base}+{option}", replace(data, period=None))) > 1e-3
    # A particle that starts a period further on is the same.
    moved = spread.copy()
    moved[1, 0] -= 3 * period[0]
    moved[3, 0] += period[0]
    again = log_likelihood(f"{base}+{option}", replace(data, start=moved))
    assert_allclose(again, found, rtol=1e-12)


def test_the_period_comes_from_the_trajectories():
    rng = np.random.default_rng(4)
    x = np.cumsum(rng.normal(size=(3, 6, 2)), axis=1)
    tracks = db.Trajectories.from_arrays(x % 10.0, dt=1.0, length_unit="km").unwrap([10.0, None])
    assert db.displacements(tracks, 1.0).period == (10.0, None)
    metres = tracks.in_units(length=(1000.0, "m"))
    assert db.displacements(metres, 1.0).period == (10_000.0, None)
    assert db.displacements(replace(tracks, provenance={}), 1.0).period is None
    with pytest.raises(DriftbayesError, match="period must be a positive number, got -1"):
        Displacements.from_array(np.diff(x, axis=1), 1.0, start=x[:, 0], period=(-1, None))


@pytest.mark.parametrize("few", [True, False])
def test_a_length_too_long_for_the_period_has_no_density_and_is_named(few, monkeypatch):
    monkeypatch.setattr("driftbayes.likelihood._flow._FEW", 64 if few else 0)
    # A ring of particles: the nearest images make a triangular wave with negative waves in it.
    angle = np.arange(12) / 12
    start = np.stack([angle, angle], axis=-1)
    flow = db.Flow(db.Brownian(kappa=1e-6), length=0.25, own_share=0.02, nu=1.5)
    x = simulate_flow(flow, np.random.default_rng(3), start, 4, TAU, (1.0, 1.0))
    data = Displacements.from_array(np.diff(x, axis=1), TAU, start=start, period=(1.0, 1.0))
    assert np.isfinite(log_likelihood("brownian+flow", data, VALUES | {"length": 0.05}))
    long = VALUES | {"length": 1.0, "own_share": 0.05}
    assert log_likelihood("brownian+flow", data, long) == -np.inf
    if few:
        # The evidence does not see which of the kernels it was.
        record = db.evidence(hypothesis("brownian+flow"), data, method="laplace")
        assert any("too long for a domain of period 1," in text for text in record.warnings)


def on_earth(lat, side, n=5, steps=4, frame="auto"):
    """Particles in a square at a latitude, its side in metres; in units of the side."""
    rng = np.random.default_rng(6)
    radius = 6378137.0
    plane = side * (rng.random((n, 1, 2)) + 0.05 * np.cumsum(rng.normal(size=(n, steps + 1, 2)), 1))
    lonlat = np.degrees(plane / radius) / [np.cos(np.radians(lat)), 1] + [20.0, lat]
    tracks = db.Trajectories.from_arrays(lonlat, dt=TAU, length_unit="deg", time_unit="s")
    from driftbayes.data.sphere import on_plane

    data = db.displacements(on_plane(tracks, frame=frame, radius=radius), TAU)
    ground = replace(data.ground, per_metre=1 / side)
    scaled = replace(data, dx=data.dx / side, start=data.start / side, ground=ground)
    return scaled, lonlat, radius


@pytest.mark.parametrize("base", ["brownian", "langevin"])
@pytest.mark.parametrize("few", [True, False])
def test_on_the_earth_distances_are_chords(base, few, monkeypatch):
    monkeypatch.setattr("driftbayes.likelihood._flow._FEW", 64 if few else 0)
    side = 2e6
    data, lonlat, radius = on_earth(50.0, side)
    lon, lat = np.radians(lonlat[..., 0]), np.radians(lonlat[..., 1])
    up = np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], axis=-1)
    kernels = []
    for k in range(4):
        cosine = np.clip(up[:, k] @ up[:, k].T, -1, 1)
        chord = 2 * radius / side * np.sin(np.arccos(cosine) / 2)
        s = np.sqrt(3) * chord / VALUES["length"]
        own = VALUES["own_share"]
        corr = (1 - own) * (1 + s) * np.exp(-s) + own * np.eye(len(s))
        kernels.append(np.kron(corr, np.eye(2)))
    known = expected(base, data, 1.5, None, kernels)
    assert_allclose(log_likelihood(f"{base}+flow", data), known, rtol=1e-7)


@pytest.mark.parametrize("lat", [0.0, 55.0])
@pytest.mark.parametrize("option", ["flow", "eddies"])
def test_a_small_patch_of_the_earth_is_plane(option, lat):
    for side, rtol in ((3e5, 3e-2), (3e3, 3e-4)):
        data, _, _ = on_earth(lat, side)
        flat = replace(data, ground=None, lonlat=None)
        for base in ("brownian", "langevin"):
            name = f"{base}+{option}"
            known, alone = (log_likelihood(name, one) for one in (flat, data))
            assert_allclose(alone, known, rtol=rtol)
            assert alone != known


def test_eddies_need_a_region_that_is_nearly_plane():
    data, _, _ = on_earth(50.0, 2e6)
    with pytest.raises(DriftbayesError, match=r"nearly plane.*smaller region, or \+flow"):
        log_likelihood("brownian+eddies", data)


def many(n, option="flow", steps=2, **more):
    """Particles drawn from a flow, close to each other."""
    rng = np.random.default_rng(8)
    model = db.Flow(db.Brownian(kappa=1e-3), length=1.0, own_share=0.2, nu=1.5)
    if option == "eddies":
        model = db.Eddies(db.Brownian(kappa=1e-3), 1.0, 0.2, 1.5, 0.3)
    x = simulate_flow(model, rng, rng.uniform(0, 4, size=(n, 2)), steps, TAU, more.get("period"))
    return Displacements.from_array(np.diff(x, axis=1), TAU, start=x[:, 0], **more)


@pytest.mark.parametrize("period", [None, (4.0, 4.0)])
@pytest.mark.parametrize("option", ["flow", "eddies"])
def test_groups_given_all_particles_before_are_exact(option, period, monkeypatch):
    monkeypatch.setattr("driftbayes.likelihood._flow._GROUP", 20)
    data = many(90, option, steps=1, period=period)
    values = VALUES | {"kappa": 1e-3, "length": 0.5}
    exact = log_likelihood(f"brownian+{option}", data, values)
    one = hypothesis(f"brownian+{option}")
    engine = Batch.of(data, model=one.model).engine(0, one.model)
    theta = np.array([[values[n] for n in one.names]])
    monkeypatch.setattr("driftbayes.likelihood._flow._MAX_EXACT", 70)
    errors = {
        n: abs(Density(one, replace(engine, n_neighbours=n)).terms(theta)[0][0] - exact)
        for n in (5, 40, 89)
    }
    assert errors[89] < 1e-10 * abs(exact)
    # Fewer leave something out, which shows that they are what is used.
    assert 1e-6 < errors[40] < 0.5 * errors[5]


@pytest.mark.slow
def test_the_evidence_says_that_particles_were_conditioned_on_neighbours(monkeypatch):
    monkeypatch.setattr("driftbayes.likelihood._flow._FEW", 0)
    monkeypatch.setattr("driftbayes.likelihood._flow._GROUP", 10)
    one = hypothesis("brownian+flow")
    data = many(40, steps=1)
    exact = db.evidence(one, data)
    assert not any("neighbours" in text for text in exact.warnings)
    monkeypatch.setattr("driftbayes.likelihood._flow._MAX_EXACT", 20)
    batch = Batch.of(many(40, steps=1), model=one.model)
    key = (0, one.model.is_turning, one.model.has_state_space)
    batch._engines[key] = replace(batch.engine(0, one.model), n_neighbours=12)
    record = db.evidence(one, batch)
    said = "at more than 20 particles groups are conditioned on their 12 nearest neighbours"
    assert any(text.startswith(said) for text in record.warnings)
    off = abs(record.log_evidence - exact.log_evidence)
    assert 2e-3 < off < 4 * record.log_evidence_err


def test_too_many_particles_with_memory_are_refused(monkeypatch):
    monkeypatch.setattr("driftbayes.likelihood._flow._MAX_PARTICLES", 60)
    with pytest.raises(DriftbayesError, match=r"up to 60 particles .* got 70; .*brownian\+flow"):
        log_likelihood("langevin+flow", many(70, steps=1))
