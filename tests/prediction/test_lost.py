"""Lost particles given those still seen: against dense Gaussians, weighted paths, and the truth."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from dense_motion import state_at_the_end
from numpy.testing import assert_allclose

import driftbayes as db
from driftbayes import Trajectories
from driftbayes.data._sampling import displacements
from driftbayes.errors import DriftbayesError
from driftbayes.inference import Batch, Hypothesis
from driftbayes.inference._density import Density
from driftbayes.likelihood._flow import flow_correlation
from driftbayes.models import MODELS, model_named
from driftbayes.models._options.correlated import simulate_flow
from driftbayes.prediction._conditional import _CommonLaw, _FlowLaw, paths_of_lost, shared_motion
from driftbayes.prediction._lost import Region, find_lost
from driftbayes.prediction._simultaneous import simultaneous_steps
from driftbayes.priors import Exponential, Fixed, Uniform

TAU = 0.7
VALUES = {
    **{"kappa": 1.1, "gamma": 0.8, "k": 1.3, "length": 1.7, "own_share": 0.15, "nu": 1.5},
    **{"divergence": 0.3, "common": 0.6, "gamma_common": 0.3},
}
N_PATHS = 20_000


def model_of(name, **change):
    family = model_named(name, MODELS, 2)
    values = {**VALUES, **change}
    return family(**{n: values[n] for n in family.parameters})


def tracks_of(sizes, begins, scale=1.0, seed=3):
    rng = np.random.default_rng(seed)
    paths = [rng.normal(size=2) + scale * rng.normal(size=(n, 2)).cumsum(axis=0) for n in sizes]
    times = [TAU * (begin + np.arange(n)) for n, begin in zip(sizes, begins, strict=True)]
    return Trajectories.from_arrays(paths, times=times)


def drawn(name, tracks, run, n_steps, n_paths=N_PATHS, **change):
    steps = simultaneous_steps(displacements(tracks, TAU))
    motion = shared_motion(model_of(name, **change), TAU)
    rng = np.random.default_rng(11)
    return paths_of_lost(motion, steps, [run], n_steps, rng, n_paths)[:, 0]


def correlation(x, model):
    """Of all axes and particles, (axis, particle) by (axis, particle)."""
    r = np.linalg.norm(x[:, None] - x[None], axis=-1)
    length, own, divergence, nu = (float(v) for v in model.trajectory_numbers())
    corr = flow_correlation(x, r, length, nu, divergence)
    if len(corr) == len(x):
        corr = np.kron(np.eye(2), corr)
    return (1 - own) * corr + own * np.eye(len(corr))


def assert_same_gaussian(points, mean, covariance):
    """Mean and covariance of draws, within five of their standard errors."""
    n, sd = len(points), np.sqrt(np.diag(covariance))
    assert np.all(np.abs(points.mean(axis=0) - mean) < 5 * sd / np.sqrt(n))
    error = np.sqrt((covariance**2 + np.outer(sd, sd) ** 2) / n)
    assert np.all(np.abs(np.cov(points.T) - covariance) < 5 * error)


@pytest.mark.parametrize("option", ["flow", "eddies"])
@pytest.mark.parametrize("base", ["brownian", "langevin"])
def test_the_next_position_is_that_of_one_gaussian(base, option):
    # Three particles, of which the last is lost after two of five steps. Its place is known as the
    # third step begins; later steps of the others tell of their velocities, so of its own.
    tracks = tracks_of([6, 6, 3], [0, 0, 0])
    model = model_of(f"{base}+{option}")
    x = np.stack([tracks.positions[:6], tracks.positions[6:12]])
    own = tracks.positions[12:]
    propagate, noise = (np.asarray(part) for part in model.transition(jnp.asarray(TAU)))
    start = np.asarray(model.initial_covariance())[1:, 1:]
    m = len(start)
    size = 6
    # Steps and velocities as linear functions of independent sources.
    sources, velocity = [], np.zeros((size, 0))
    rows, observed = [], []
    for k in range(5):
        here = np.stack([x[0, k], x[1, k], own[k] if k < 3 else [50.0, 50.0]])
        corr = correlation(here, model)
        if k == 0 and m:
            sources.append(start[0, 0] * corr)
            velocity = np.eye(size)
        sources.append(np.kron(noise, corr))
        width = (m + 1) * size
        kicks = np.eye(width)
        old = velocity
        step = np.concatenate([propagate[0, 1] * old if m else old, kicks[:size]], axis=1)
        if m:
            velocity = np.concatenate([propagate[1, 1] * old, kicks[size:]], axis=1)
        else:
            velocity = np.zeros((size, step.shape[1]))
        # (axis, particle)
        keep = [0, 1, 3, 4] if k >= 2 else [0, 1, 2, 3, 4, 5]
        rows.append((step, keep))
        dx = [x[0, k + 1] - x[0, k], x[1, k + 1] - x[1, k]]
        dx += [own[k + 1] - own[k]] if k < 2 else []
        observed.append(np.array(dx).T.ravel())
        if k == 2:
            target = step[[2, 5]]
    total = sum(len(source) for source in sources)
    cov = np.zeros((total, total))
    place = 0
    for source in sources:
        cov[place : place + len(source), place : place + len(source)] = source
        place += len(source)

    def padded(part):
        return np.concatenate([part, np.zeros((len(part), total - part.shape[1]))], axis=1)

    seen = np.concatenate([padded(step)[keep] for step, keep in rows])
    target = padded(target)
    gain = np.linalg.solve(seen @ cov @ seen.T, seen @ cov @ target.T).T
    mean = own[2] + gain @ np.concatenate(observed)
    covariance = target @ cov @ target.T - gain @ seen @ cov @ target.T
    points = drawn(f"{base}+{option}", tracks, 2, 1)[:, 1]
    assert_same_gaussian(points, mean, covariance)


@pytest.mark.parametrize("base", ["brownian", "langevin"])
def test_a_common_motion_makes_one_gaussian(base):
    # Particle 2 is lost after two steps, 1 ends later, 3 comes later.
    tracks = tracks_of([7, 5, 3, 4], [0, 0, 0, 3])
    model = model_of(f"{base}+common")
    n_later = 5
    own, common = (
        np.asarray(part.first_autocovariances(9, jnp.asarray(TAU))) for part in model.components()
    )
    spans = [(0, 6), (0, 4), (0, 2), (3, 6)]
    steps = [(p, k) for p, span in enumerate(spans) for k in range(*span)]
    target = [(2, k) for k in range(2, 2 + n_later)]
    every = [*steps, *target]
    covariance = np.array(
        [[common[abs(i - j)] + own[abs(i - j)] * (p == q) for q, j in every] for p, i in every]
    )
    n = len(steps)
    dx = np.concatenate([np.diff(track.positions, axis=0) for track in tracks])
    gain = np.linalg.solve(covariance[:n, :n], covariance[:n, n:]).T
    sums = np.tril(np.ones((n_later, n_later)))
    left = sums @ (covariance[n:, n:] - gain @ covariance[:n, n:]) @ sums.T
    mean = tracks[2].positions[-1] + sums @ gain @ dx
    paths = drawn(f"{base}+common", tracks, 2, n_later)
    for axis in range(2):
        assert_same_gaussian(paths[:, 1:, axis], mean[:, axis], left)


def test_paths_are_those_of_weighted_draws():
    # Another derivation: paths drawn from the joint filter of all velocities, one step after the
    # other, weighted by the density of the others' steps given them.
    tracks = tracks_of([8, 8, 2], [0, 0, 0])
    name, n = "langevin+flow", 60_000
    change = {"own_share": 0.1, "length": 4.0, "gamma": 0.2}
    model = model_of(name, **change)
    propagate, noise = (np.asarray(part) for part in model.transition(jnp.asarray(TAU)))
    a, phi = propagate[0, 1], propagate[1, 1]
    start = float(model.initial_covariance()[1, 1])
    x = np.stack([tracks.positions[:8], tracks.positions[8:16]])
    own = tracks.positions[16:]
    rng = np.random.default_rng(5)
    mean, cov = np.zeros((n, 3, 2)), np.zeros((n, 3, 3))
    log_weight, path = np.zeros(n), [np.tile(own[1], (n, 1))]
    for k in range(7):
        lost = np.tile(own[k], (n, 1)) if k < 2 else path[-1]
        here = np.concatenate([np.tile(x[:, k], (n, 1, 1)), lost[:, None]], axis=1)
        s = np.sqrt(3) * np.linalg.norm(here[:, :, None] - here[:, None], axis=-1) / 4.0
        corr = 0.9 * (1 + s) * np.exp(-s) + 0.1 * np.eye(3)
        if k == 0:
            cov = start * corr
        variance = a**2 * cov + noise[0, 0] * corr
        expected = a * mean
        others = np.broadcast_to(x[:, k + 1] - x[:, k], (n, 2, 2))
        if k >= 1:
            block, left = variance[:, :2, :2], others - expected[:, :2]
            solved = np.linalg.solve(block, left)
            log_weight -= 0.5 * np.sum(left * solved, axis=(1, 2)) + np.log(np.linalg.det(block))
            gain = np.linalg.solve(block, variance[:, :2, 2:])
            middle = expected[:, 2] + np.einsum("pij,pia->pa", gain, left)
            rest = variance[:, 2, 2] - np.sum(gain * variance[:, :2, 2:], axis=(1, 2))
            step = middle + np.sqrt(rest)[:, None] * rng.standard_normal((n, 2))
            path.append(path[-1] + step)
        else:
            step = np.broadcast_to(own[k + 1] - own[k], (n, 2))
        dx = np.concatenate([others, step[:, None]], axis=1)
        cross = a * phi * cov + noise[0, 1] * corr
        gain = np.linalg.solve(variance, np.swapaxes(cross, 1, 2))
        mean = phi * mean + np.einsum("pij,pia->pja", gain, dx - expected)
        told = np.swapaxes(gain, 1, 2) @ np.swapaxes(cross, 1, 2)
        cov = phi**2 * cov + noise[1, 1] * corr - told
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    effective = 1 / np.sum(weight**2)
    # The weights matter: draws that know only the past of the others would fail below.
    assert 0.1 * n < effective < 0.7 * n
    found = drawn(name, tracks, 2, 6, n_paths=n, **change)
    for i in range(1, 7):
        expected = weight @ path[i]
        sd = np.sqrt(weight @ (path[i] - expected) ** 2)
        error = sd * np.sqrt(1 / effective + 1 / n)
        assert np.all(np.abs(found[:, i].mean(axis=0) - expected) < 5 * error)
        assert_allclose(found[:, i].std(axis=0), sd, rtol=5 * np.sqrt(1 / effective + 1 / n))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["brownian+flow", "langevin+flow", "langevin+common"])
def test_alone_a_lost_particle_continues_as_in_other_forecasts(name):
    tracks = tracks_of([5], [0])
    paths = drawn(name, tracks, 0, 4)
    model = model_of(name)
    if name == "langevin+common":
        values = {"gamma": 0.8, "ratio": 0.3 / 0.8, "share": 0.6, "k": 1.3}
        model = model_named("two_scale", MODELS)(**values)
    else:
        model = model.base
    mean, variance = state_at_the_end(model, tracks, TAU, TAU * np.arange(1, 5)).moments()
    for i in range(4):
        expected = tracks.positions[-1] + mean[0, i]
        assert_same_gaussian(paths[:, i + 1], expected, variance[0, i] * np.eye(2))


@pytest.mark.parametrize("name", ["langevin+flow", "langevin+eddies", "langevin+common"])
def test_the_filter_of_the_others_is_that_of_the_evidence(name):
    # Particles come and go, so that states enter and leave.
    data = displacements(tracks_of([6, 3, 4, 5], [0, 0, 2, 1]), TAU)
    steps = simultaneous_steps(data)
    model = model_of(name)
    law = _FlowLaw if "common" not in name else _CommonLaw
    law = law(shared_motion(model, TAU), steps)
    mean, cov, total = np.zeros((0, 1)), np.zeros((0, 0)), 0.0
    for k in range(len(steps)):
        mean, cov = law.enter(k, mean, cov)
        (both, noise), dx = law.linear(k), law.columns(k)
        n = len(dx)
        joint = both @ cov @ both.T + noise
        left = dx - both[:n] @ mean
        solved = np.linalg.solve(joint[:n, :n], left)
        log_det = np.linalg.slogdet(2 * np.pi * joint[:n, :n])[1]
        total -= 0.5 * (np.sum(left * solved) + left.shape[1] * log_det)
        gain = np.linalg.solve(joint[:n, :n], joint[:n, n:]).T
        mean, cov = both[n:] @ mean + gain @ left, joint[n:, n:] - gain @ joint[:n, n:]
    known = {n: Fixed(v) for n, v in VALUES.items() if n in ("nu", "divergence")}
    family = model_named(name, MODELS, 2)
    priors = {n: known.get(n, Uniform(0.0, 10.0)) for n in family.parameters}
    priors |= {n: Uniform(0.0, 1.0) for n in ("own_share", "common") if n in priors}
    one = Hypothesis(family, **priors)
    density = Density(one, Batch.of(data, model=one.model).engine(0, one.model))
    expected = density.terms(np.array([[VALUES[n] for n in one.names]]))[0][0]
    assert_allclose(total, expected, rtol=1e-9)


def cluster(radius):
    """Six particles on a circle and one in its middle."""
    angle = np.pi / 3 * np.arange(6)
    ring = radius * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return np.concatenate([ring, np.zeros((1, 2))])


def regions_of_middle(ratio, n_sets, n_steps=10, n_paths=400):
    """Regions of the middle particle, seen at five steps of the others' fifteen, and its truth.

    The correlation length is `ratio` times the radius of the cluster, which is one.
    """
    model = db.Flow(db.Langevin(gamma=0.5, k=0.02), length=ratio, own_share=1e-4, nu=2.5)
    motion = shared_motion(model, 1.0)
    found = []
    for number in range(n_sets):
        rng = np.random.default_rng(number)
        x = simulate_flow(model, rng, cluster(1.0), 5 + n_steps, 1.0)
        tracks = Trajectories.from_arrays([*x[:6], x[6, :6]], dt=1.0)
        steps = simultaneous_steps(displacements(tracks, 1.0))
        given = paths_of_lost(motion, steps, [6], n_steps, rng, n_paths)[:, 0, -1]
        own = [step.only(6) for step in steps[:5]]
        alone = paths_of_lost(motion, own, [6], n_steps, rng, n_paths)[:, 0, -1]
        found.append((Region.of(given), Region.of(alone), x[6, -1], x[6, 5]))
    return found


def relative_error(found):
    """Root-mean-square error of the mean position over the distance travelled."""
    error = np.mean([np.sum((given.mean - truth) ** 2) for given, _, truth, _ in found])
    return np.sqrt(error / np.mean([np.sum((truth - last) ** 2) for *_, truth, last in found]))


def test_others_help_as_far_as_the_flow_reaches():
    # Six predictors around one: relative error below 0.1 where the correlation reaches five times
    # the radius of the cluster, near 1 where it does not reach the next particle (Piterbarg 2001).
    far, near, nothing = (regions_of_middle(ratio, 10) for ratio in (5.0, 1.0, 0.05))
    assert relative_error(far) < 0.1
    assert 0.2 < relative_error(near) < 0.95
    # Without correlation the others tell nothing: the regions are those of the particle alone.
    ratio = [given.radii[1] / alone.radii[1] for given, alone, *_ in nothing]
    assert_allclose(np.mean(ratio), 1.0, atol=0.04)
    assert np.mean([g.radii[1] / a.radii[1] for g, a, *_ in far]) < 0.15


@pytest.mark.slow
@pytest.mark.parametrize("ratio", [3.0, 0.7])
def test_regions_hold_the_truth_as_often_as_they_say(ratio):
    found = regions_of_middle(ratio, 300, n_paths=400)
    for which in (0, 1):
        inside = np.array([one[which].contains(one[2]) for one in found])
        share, error = inside.mean(axis=0), np.sqrt(np.array([0.25, 0.95 * 0.05]) / 300)
        # Quantiles of 400 paths err a little themselves.
        assert np.all(np.abs(share - [0.5, 0.95]) < 3 * error + 0.005)


@pytest.mark.slow
@pytest.mark.parametrize("base", ["brownian", "langevin"])
def test_regions_hold_the_truth_with_inferred_parameters(base):
    # Parameters are drawn from the priors by which they are inferred: regions are then calibrated.
    priors = {
        **{"kappa": Exponential(0.02), "gamma": Exponential(0.5), "k": Exponential(0.02)},
        **{"length": Exponential(1.5), "own_share": Uniform(0.0, 1.0), "nu": Fixed(1.5)},
    }
    rng, n_sets, inside = np.random.default_rng(8), 120, []
    for seed in range(n_sets):
        names = MODELS[base].parameters
        means = {name: float(priors[name].mean()) for name in (*names, "length")}
        values = {name: rng.exponential(mean) for name, mean in means.items()}
        length, own = values.pop("length"), rng.uniform()
        model = db.Flow(MODELS[base](**values), length, own, 1.5)
        x = simulate_flow(model, rng, rng.uniform(0.0, 2.0, (8, 2)), 16, 1.0)
        tracks = Trajectories.from_arrays([x[0, :12], *x[1:]], dt=1.0)
        used = {name: priors[name] for name in (*names, "length", "own_share", "nu")}
        found = tracks.predict(
            *(1.0, [5.0]),
            **{"given": "others", "models": f"{base}+flow", "priors": used},
            **{"n_draws": 400, "seed": seed},
        )
        inside.append(
            [
                Region.of(paths.positions[:, 0, -1]).contains(x[0, -1])
                for paths in (found.lost.given, found.lost.alone)
            ]
        )
    share = np.mean(inside, axis=0)
    print(f"{base}: given others {share[0]}, alone {share[1]}")
    error = np.sqrt(np.array([0.25, 0.95 * 0.05]) / n_sets)
    assert np.all(np.abs(share - [0.5, 0.95]) < 3 * error + 0.005)


def test_particles_may_come_and_go_while_one_is_lost():
    # Particle 1 is lost at step 2; 2 comes at 3, all leave at 5, and 3 and 4 come at 7.
    tracks = tracks_of([6, 3, 3, 4, 4], [0, 0, 3, 7, 7])
    for name in ("brownian+flow", "langevin+flow", "langevin+eddies", "langevin+common"):
        paths = drawn(name, tracks, 1, 12, n_paths=200)
        assert paths.shape == (200, 13, 2)
        assert np.isfinite(paths).all()
        # It spreads on and on, at most as fast as alone.
        spread = paths.std(axis=0).mean(axis=1)
        assert spread[0] < 1e-12
        assert np.all(np.diff(spread) > -0.2 * spread[-1])
    # A particle that comes later tells from then on.
    model = [model_named("langevin+flow", MODELS, 2)]
    found = find_lost(model, tracks, [TAU, 9 * TAU], TAU)
    assert [int(run) for run in found.runs] == [0, 1, 2]
    assert found.counts.tolist() == [0, 1, 9]


def test_in_a_periodic_domain_the_nearest_images_count():
    # Moved by whole periods, the others tell the same.
    tracks = tracks_of([6, 6, 3], [0, 0, 0])
    steps = simultaneous_steps(displacements(tracks, TAU))
    away = [replace(step, x=step.x + 10.0 * np.array([1, -2])[: step.x.shape[1]]) for step in steps]
    for step in away:
        step.x[step.runs == 2] -= 10.0 * np.array([1, -2])
    motion = shared_motion(model_of("langevin+eddies"), TAU, (10.0, 10.0))
    plain = replace(motion, period=None)
    here, there, none = (
        paths_of_lost(which, some, [2], 3, np.random.default_rng(1), 50)
        for which, some in ((motion, steps), (motion, away), (plain, away))
    )
    assert_allclose(there, here, rtol=1e-9)
    assert np.abs(none - here).max() > 0.01


@pytest.mark.parametrize(
    ("tracks", "name", "horizon", "message"),
    [
        (tracks_of([6, 6], [0, 0]), "brownian+flow", TAU, "no particle is lost"),
        (tracks_of([6, 3], [0, 0]), "brownian", TAU, "particles are independent under brownian"),
        (tracks_of([6, 3], [0, 0]), "brownian+noise+common", TAU, "positions must be exact"),
        (tracks_of([6, 3], [0, 0]), "brownian+flow", 1.0, "multiples of tau = 0.7, got 1"),
        (tracks_of([6, 3], [0, 0.5]), "brownian+flow", TAU, "common regular times"),
    ],
)
def test_bad_questions_are_refused_in_one_sentence(tracks, name, horizon, message):
    with pytest.raises(DriftbayesError, match=message):
        find_lost([model_named(name, MODELS, 2)], tracks, [horizon], TAU)
