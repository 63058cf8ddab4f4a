"""Motion in common: engines against one dense covariance of all particles."""

from dataclasses import replace
from itertools import product

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
from driftbayes.likelihood._unshared import unshared_times
from driftbayes.models import MODELS, model_named
from driftbayes.priors import Exponential, Uniform

TAU = 0.7
VALUES = {
    "gamma": 0.8,
    "k": 1.3,
    "kappa": 1.1,
    "hurst": 0.35,
    "reference": 2.0,
    "accel": 3.0,
    "omega": 1.7,
    "well": 0.4,
    "smoothness": 0.9,
    "ratio": 0.2,
    "share": 0.3,
    "exposure": 0.45,
    "sigma": 0.3,
}
# Where they differ from those of a particle's own motion.
COMMON = {"gamma": 0.3, "hurst": 0.6, "omega": 0.5, "accel": 2.0, "well": 0.9, "smoothness": 1.4}
SHARE = 0.6


def data_of(kind):
    """Four particles: all at the same times, or coming and going."""
    rng = np.random.default_rng(3)
    sizes, begins = np.full(4, 6), np.zeros(4)
    if kind == "gaps":
        # The third has a gap, the fourth comes later and leaves last; two meet long after.
        sizes = np.array([6, 6, 2, 3, 5, 2, 2])
        begins = np.array([0, 0, 0, 3, 2, 20, 20]) * TAU
    if kind == "apart":
        sizes = np.array([3, 3, 4, 4, 4, 2])
        begins = np.array([0, 0, 5, 5, 5, 30]) * TAU
    n = sizes.sum()
    interval = np.full(n, TAU)
    sd = None
    if kind == "uneven":
        interval = np.tile(TAU * np.array([1.0, 2.0, 0.8, 3.0, 1.0, 1.5]), 4)
    if kind == "errors":
        sd = np.tile(rng.uniform(0.1, 0.5, 7), 4)
    if kind == "unshared":
        # Every particle at its own times, each fix with its own error; two meet long after.
        sizes, begins = np.array([6, 5, 2, 3, 2, 2]), TAU * np.array([0, 0.4, 0.2, 3.1, 30, 31])
        n = sizes.sum()
        interval, sd = TAU * rng.uniform(0.1, 3.0, n), rng.uniform(0.0, 0.5, n + 6)
    if kind == "unlike":
        sizes, begins = np.array([6, 6, 4]), np.array([0.0, 0.0, TAU])
        n = sizes.sum()
        interval, sd = np.full(n, TAU), rng.uniform(0.1, 0.5, n + 3)
    if kind == "alike":
        sizes, begins = np.array([6, 6, 4]), np.array([0.0, 0.0, TAU])
        n = sizes.sum()
        interval, sd = np.full(n, TAU), np.full(n + 3, 0.4)
    return Displacements(
        dx=rng.normal(size=(n, 2)),
        interval=interval,
        row_sizes=sizes,
        trajectory=np.arange(len(sizes)),
        tau=TAU,
        position_sd=sd,
        start_time=begins,
    )


# Compiled as one program: call by call, JAX would compile every operation.
spread_of = eqx.filter_jit(lambda model, t: model.motion().mean_square_displacement(t))


def expected(name, values, data):
    """Ln density of all steps, from mean square displacements and one big covariance."""
    own, common = (model_named(name.replace("+noise", ""), MODELS)(**one) for one in values[:2])
    ends = np.cumsum(data.row_sizes)
    begin, end, run = [], [], np.repeat(np.arange(len(ends)), data.row_sizes)
    for r, last in enumerate(ends):
        times = data.start_time[r] + np.concatenate(
            [[0.0], np.cumsum(data.interval[last - data.row_sizes[r] : last])]
        )
        begin.append(times[:-1])
        end.append(times[1:])
    begin, end = np.concatenate(begin), np.concatenate(end)

    def steps(model):
        def m(t):
            # Each time once, and always as many: the same program for most data.
            times, place = np.unique(np.abs(t), return_inverse=True)
            padded = np.pad(times, (0, -len(times) % 256))
            return np.asarray(spread_of(model, padded))[place].reshape(t.shape)

        return 0.5 * (
            m(np.subtract.outer(begin, end))
            + m(np.subtract.outer(end, begin))
            - m(np.subtract.outer(begin, begin))
            - m(np.subtract.outer(end, end))
        )

    same = run[:, None] == run[None, :]
    covariance = same * steps(own)
    # Common motion is taken as independent between blocks of time that nothing connects.
    block = np.searchsorted(np.sort(block_starts(data)), begin + 1e-9)
    covariance += (block[:, None] == block[None, :]) * steps(common)
    size = values[2] ** 2 * np.ones(len(data.dx) + len(ends))
    if data.position_sd is not None:
        size = size + data.position_sd**2
    place = 0
    for r, last in enumerate(ends):
        n = data.row_sizes[r]
        rows = slice(last - n, last)
        errors = np.diag(size[place : place + n + 1])
        covariance[rows, rows] += np.diff(np.diff(errors, axis=0), axis=1)
        place += n + 1
    factor = np.linalg.cholesky(covariance)
    white = np.linalg.solve(factor, data.dx)
    n = data.dx.size
    log_det = 2 * data.n_dim * np.sum(np.log(np.diag(factor)))
    return -0.5 * (n * np.log(2 * np.pi) + log_det + np.sum(white**2))


def block_starts(data):
    order = np.argsort(data.start_time)
    ends = np.cumsum(data.row_sizes)
    duration = np.array(
        [data.interval[e - n : e].sum() for e, n in zip(ends, data.row_sizes, strict=True)]
    )
    starts, reached = [], -np.inf
    for r in order:
        if data.start_time[r] > reached - 1e-6:
            starts.append(data.start_time[r])
        reached = max(reached, data.start_time[r] + duration[r])
    return np.array(starts)


def parameters(name):
    """Values of the model, of its own part and of the common one, and the error of positions."""
    plain = name.removesuffix("+common")
    core = MODELS[plain.partition("+")[0]]
    scale = core.scale_parameter
    values = {n: VALUES[n] for n in model_named(plain, MODELS).parameters}
    common = {n: COMMON.get(n, VALUES[n]) for n in core.parameters if n != scale}
    theta = {**values, **{f"{n}_common": v for n, v in common.items()}, "common": SHARE}
    own = {n: v for n, v in values.items() if n != "sigma"}
    own[scale] = VALUES[scale] * (1 - SHARE)
    common[scale] = VALUES[scale] * SHARE
    return theta, (own, common, values.get("sigma", 0.0))


def log_likelihood(name, theta, data):
    model = model_named(name, MODELS)
    bounded = {n for n, about in model.parameters.items() if about.upper == 1.0}
    priors = {n: Uniform(0.0, 1.0) if n in bounded else Exponential(1.0) for n in model.parameters}
    hypothesis = Hypothesis(model, **priors)
    density = Density(hypothesis, Batch.of(data, model=model).engine(0, model))
    return density.terms(np.array([[theta[n] for n in hypothesis.names]]))[0][0]


KINDS = ("regular", "apart", "gaps", "uneven", "errors", "alike")
# Each kind of data once, with models whose filters other tests compile too.
QUICK = {
    ("brownian", "alike", ""),
    ("fractional", "errors", ""),
    ("langevin", "uneven", ""),
    ("oscillating", "gaps", ""),
    ("two_scale", "apart", ""),
    ("langevin", "regular", "+noise"),
}


@pytest.mark.parametrize(
    ("base", "kind", "noise"),
    [
        pytest.param(*case, id="-".join(case), marks=() if case in QUICK else pytest.mark.slow)
        for case in product(MODELS, KINDS, ("", "+noise"))
    ],
)
def test_density_is_that_of_all_particles_together(base, kind, noise):
    name, data = f"{base}{noise}+common", data_of(kind)
    theta, values = parameters(name)
    known = expected(f"{base}{noise}", values, data)
    assert_allclose(log_likelihood(name, theta, data), known, rtol=1e-9)
    assert_allclose(model_named(name, MODELS)(**theta).log_likelihood(data), known, rtol=1e-9)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", ["unshared", "unlike"])
@pytest.mark.parametrize("base", list(MODELS))
def test_density_at_times_that_particles_do_not_share(base, kind):
    name, data = f"{base}+noise+common", data_of(kind)
    theta, values = parameters(name)
    if not MODELS[base].has_state_space:
        with pytest.raises(DriftbayesError, match="needs particles that are seen at common times"):
            log_likelihood(name, theta, data)
        return
    known = expected(f"{base}+noise", values, data)
    assert_allclose(log_likelihood(name, theta, data), known, rtol=1e-10)


@pytest.mark.parametrize("base", ["brownian", "langevin"])
def test_exact_fixes_at_times_that_particles_do_not_share(base):
    name, data = f"{base}+common", replace(data_of("unshared"), position_sd=None)
    theta, values = parameters(name)
    assert_allclose(log_likelihood(name, theta, data), expected(base, values, data), rtol=1e-10)


@pytest.mark.parametrize("kind", ["regular", "gaps", "alike", "errors"])
@pytest.mark.parametrize("base", ["brownian", "langevin", "second_order", "two_scale"])
def test_one_filter_of_all_particles_agrees_with_contrasts_and_grids(base, kind, monkeypatch):
    name, data = f"{base}+noise+common", data_of(kind)
    theta, _ = parameters(name)
    known = log_likelihood(name, theta, data)
    together = "driftbayes.likelihood._together"
    monkeypatch.setattr(f"{together}._is_simultaneous", lambda block: False)
    monkeypatch.setattr(f"{together}._MAX_GRID", 0)
    # Engines are kept by their data: new data have a new one.
    assert_allclose(log_likelihood(name, theta, data_of(kind)), known, rtol=1e-11)


def test_too_many_particles_at_their_own_times_are_refused_with_a_figure():
    rng = np.random.default_rng(1)
    n = 3000
    data = Displacements(
        dx=rng.normal(size=(n, 2)),
        interval=np.ones(n),
        row_sizes=np.ones(n, dtype=np.int64),
        trajectory=np.arange(n),
        tau=1.0,
        start_time=rng.uniform(0, 0.5, n),
    )
    message = r"5e\+10 multiplications for one likelihood of these 6,000 fixes of up to 3,000"
    with pytest.raises(DriftbayesError, match=message):
        log_likelihood("brownian+common", {"kappa": 1.0, "common": 0.5}, data)


@pytest.mark.parametrize("option", ["blur", "blur+noise"])
def test_blur_needs_common_times(option):
    name = f"langevin+{option}+common"
    theta, _ = parameters(name)
    with pytest.raises(DriftbayesError, match="needs particles that are seen at common times"):
        log_likelihood(name, theta, data_of("unshared"))


def test_blur_needs_common_times_also_after_a_model_without_blur():
    data = data_of("unshared")
    theta, _ = parameters("langevin+common")
    assert np.isfinite(log_likelihood("langevin+common", theta, data))
    theta, _ = parameters("langevin+blur+common")
    with pytest.raises(DriftbayesError, match=r"langevin\+blur\+common needs particles that are"):
        log_likelihood("langevin+blur+common", theta, data)


@pytest.mark.parametrize("kind", ["regular", "gaps", "unshared"])
def test_without_a_share_particles_are_independent(kind):
    data = data_of(kind)
    theta, _ = parameters("langevin+noise+common")
    alone = db.Noise(db.Langevin(gamma=theta["gamma"], k=theta["k"]), sigma=theta["sigma"])
    together = log_likelihood("langevin+noise+common", theta | {"common": 1e-14}, data)
    assert_allclose(together, alone.log_likelihood(data), rtol=1e-10)


def test_simulated_particles_have_its_covariances():
    model = db.Common(db.Langevin(gamma=0.8, k=1.3), (0.3,), 0.6)
    keys = jax.random.split(jax.random.key(1), 4000)
    draw = jax.jit(
        jax.vmap(lambda key: model.simulate(key, n_particles=2, n_steps=2, n_dim=1, tau=TAU))
    )
    steps = np.diff(np.asarray(draw(keys))[..., 0], axis=2)
    row = eqx.filter_jit(lambda one: one.first_autocovariances(2, jnp.asarray(TAU)))
    own, common = (np.asarray(row(one)) for one in model.components())
    for lag in (0, 1):
        between = np.mean(steps[:, 0, 0] * steps[:, 1, lag])
        error = np.std(steps[:, 0, 0] * steps[:, 1, lag]) / np.sqrt(4000)
        assert abs(between - common[lag]) < 5 * error
        same = steps[:, 0, 0] * steps[:, 0, lag]
        assert abs(same.mean() - own[lag] - common[lag]) < 5 * same.std() / np.sqrt(4000)


@pytest.mark.parametrize(
    ("begins", "message"),
    [
        (np.arange(4) * 100.0, "needs particles observed at the same time"),
        (None, "must know when steps begin"),
    ],
)
def test_bad_data_are_refused_in_one_sentence(begins, message):
    data = replace(data_of("regular"), start_time=begins)
    with pytest.raises(DriftbayesError, match=message):
        log_likelihood("brownian+common", {"kappa": 1.0, "common": 0.5}, data)


def test_copies_of_a_particle_are_refused():
    data = data_of("regular")
    data = replace(data, dx=np.tile(data.dx[:6], (4, 1)))
    with pytest.raises(DriftbayesError, match="4 particles move exactly alike"):
        log_likelihood("brownian+common", {"kappa": 1.0, "common": 0.5}, data)


@pytest.mark.parametrize("option", ["common", "flow"])
def test_uses_that_are_not_known_are_refused_in_one_sentence(option):
    x = np.cumsum(np.random.default_rng(0).normal(size=(5, 12, 2)), axis=1)
    tracks = db.read(x, dt=1.0)
    how = {"models": f"brownian+{option}", "scales": db.Scales(u_rms=1.0, time=1.0)}
    with pytest.raises(DriftbayesError, match=f"brownian\\+{option}"):
        tracks.score(1.0, **how)
    with pytest.raises(DriftbayesError, match="cannot be replicated"):
        tracks.check(1.0, n_replicas=100, **how)


@pytest.mark.parametrize("option", ["common", pytest.param("flow", marks=pytest.mark.slow)])
def test_one_particle_spreads_by_its_whole_diffusivity(option):
    x = np.cumsum(np.random.default_rng(0).normal(size=(5, 12, 2)), axis=1)
    tracks = db.read(x, dt=1.0)
    how = {"models": f"brownian+{option}", "scales": db.Scales(u_rms=1.0, time=1.0)}
    found = tracks.predict(1.0, [2.0], n_draws=100, **how)
    kappa = np.asarray(found.draws[0].theta)[:, found.draws[0].names.index("kappa")]
    spread = found.prediction.spreads[f"brownian+{option}"]
    assert_allclose(spread.variance, [2 * kappa.mean() * 2.0], rtol=1e-12)


def test_the_search_sees_some_of_many_particles():
    rng = np.random.default_rng(4)
    sizes = rng.integers(1, 6, 90)
    n = int(sizes.sum())
    data = Displacements(
        dx=rng.normal(size=(n, 2)),
        interval=rng.uniform(0.5, 1.5, n),
        row_sizes=sizes,
        trajectory=np.arange(90),
        tau=1.0,
        start_time=rng.uniform(0, 9, 90),
    )
    whole = unshared_times(data)
    few = whole.thinned(10_000)
    assert few.n_slots == 16 < whole.n_slots
    # Runs as a whole: every particle is seen first, and steps are those of its run.
    firsts = np.isnan(few.after)
    assert all(np.isnan(few.after[few.slot == slot][0]) for slot in range(16))
    own = {tuple(step) for step in few.dx[~firsts]}
    ends = np.cumsum(sizes)
    runs = [{tuple(s) for s in data.dx[e - k : e]} for e, k in zip(ends, sizes, strict=True)]
    chosen = [run for run in runs if run & own]
    assert set.union(*chosen) == own
    assert len(chosen) == firsts.sum()


def test_the_search_sees_the_first_of_many_fixes():
    rng = np.random.default_rng(4)
    n = 900
    data = Displacements(
        dx=rng.normal(size=(n, 2)),
        interval=rng.uniform(0.5, 1.5, n),
        row_sizes=np.array([400, 500]),
        trajectory=np.arange(2),
        tau=1.0,
        start_time=np.array([0.0, 0.3]),
    )
    model = model_named("langevin+common", MODELS)
    few, factor = Batch.of(data, model=model).engine(0, model).thinned(600)
    (part,) = few.unshared
    assert part.n_steps == 500
    assert factor == n / 500
    # The fixes of both particles up to a time.
    last = part.time[-1]
    ends = [np.searchsorted(np.cumsum(data.interval[:400]), last + 1e-9)]
    ends.append(np.searchsorted(0.3 + np.cumsum(data.interval[400:]), last + 1e-9))
    steps = np.concatenate([np.arange(ends[0]), 400 + np.arange(ends[1])])
    known = replace(
        data, dx=data.dx[steps], interval=data.interval[steps], row_sizes=np.array(ends)
    )
    theta, _ = parameters("langevin+common")
    hypothesis = Hypothesis(
        model, gamma=Exponential(1.0), k=Exponential(1.0), gamma_common=Exponential(1.0),
        common=Uniform(0.0, 1.0),
    )  # fmt: skip
    found = Density(hypothesis, few).terms(np.array([[theta[n] for n in hypothesis.names]]))[0][0]
    assert_allclose(found, log_likelihood("langevin+common", theta, known), rtol=1e-11)
