"""Evidences by the compiled engines: those frozen before them, and data that are hard to take."""

import json
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from driftbayes.data._sampling import Displacements, displacements
from driftbayes.data._trajectories import Trajectories
from driftbayes.errors import Status
from driftbayes.inference import Batch, Hypothesis, evidence
from driftbayes.inference._density import Density
from driftbayes.models import MODELS, Langevin, model_named
from driftbayes.priors import Exponential

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from support_matrix import hypothesis_of, tracks_of  # noqa: E402

CASES = json.loads((ROOT / "tests/golden/evidence_cases.json").read_text(encoding="utf-8"))
QUICK = {
    *(("R", name) for name in ("fractional", "brownian+noise", "brownian+scatter")),
    *(("R", name) for name in ("brownian+student", "oscillating+rotating", "langevin+mean")),
    *(("I", name) for name in ("langevin+noise", "confined")),
    *(("E", name) for name in ("langevin", "brownian+mean")),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            case,
            id=f"{case['data']}-{case['model']}",
            marks=() if (case["data"], case["model"]) in QUICK else pytest.mark.slow,
        )
        for case in CASES
    ],
)
def test_evidence_is_that_of_before_within_the_stated_errors(case):
    kind = case["data"]
    data = displacements(tracks_of(kind), None if kind == "I" else 0.5, gaps="keep")
    found = evidence(hypothesis_of(case["model"]), data, method="quadrature")
    assert found.status is Status.OK
    # Errors of 1e-8 and less are rounding and the tolerance of either.
    allowed = found.log_evidence_err + case["log_evidence_err"] + 2e-8
    assert abs(found.log_evidence - case["log_evidence"]) <= allowed
    for name, sd in case["posterior_sd"].items():
        # A heavy tail beyond the last nodes: its mass is within the tolerance, its moments less so.
        assert_allclose(found.posterior_mean[name], case["posterior_mean"][name], atol=0.01 * sd)
        assert_allclose(found.posterior_sd[name], sd, rtol=0.05)


def noisy_track(times, seed=0, sd=0.0, position_sd=None):
    """One track of a Langevin particle at any times, by its exact transition."""
    rng = np.random.default_rng(seed)
    model = Langevin(gamma=1.0, k=1.0)
    state = np.zeros((2, 2))
    state[:, 1] = rng.normal(size=2)
    x = [state[:, 0].copy()]
    intervals, which = np.unique(np.diff(times).round(9), return_inverse=True)
    moves = jax.jit(jax.vmap(model.transition))(jnp.asarray(intervals))
    propagators, noises = (np.asarray(part) for part in moves)
    roots = np.linalg.cholesky(noises)
    for i in which:
        state = state @ propagators[i].T + rng.normal(size=(2, 2)) @ roots[i].T
        x.append(state[:, 0].copy())
    x = np.array(x) + sd * rng.normal(size=(len(times), 2))
    return Trajectories.from_arrays(x[None], times=times, position_sd=position_sd)


NOISY = Hypothesis(
    model_named("langevin+noise", MODELS),
    gamma=Exponential(1.0),
    k=Exponential(1.0),
    sigma=Exponential(0.1),
)
PLAIN = Hypothesis(Langevin, gamma=Exponential(1.0), k=Exponential(1.0))


def test_intervals_over_nine_decades_have_a_finite_evidence():
    times = np.concatenate([[0.0], np.cumsum(np.tile(10.0 ** np.arange(-6.0, 4.0), 12))])
    data = displacements(noisy_track(times), None, gaps="keep")
    found = evidence(PLAIN, data)
    assert found.status is Status.OK
    assert abs(found.posterior_mean["gamma"] - 1.0) < 5 * found.posterior_sd["gamma"]


def test_one_enormous_gap_tells_nothing_and_harms_nothing():
    before = np.arange(200) * 0.5
    times = np.concatenate([before, before + 1e9])
    whole = evidence(PLAIN, displacements(noisy_track(times), None, gaps="keep"))
    assert whole.status is Status.OK
    assert abs(whole.posterior_mean["gamma"] - 1.0) < 5 * whole.posterior_sd["gamma"]


def test_errors_of_zero_on_some_fixes_only_are_those_of_the_dense_reference():
    times = np.cumsum(np.random.default_rng(1).uniform(0.2, 1.0, size=30))
    sd = np.where(np.arange(30) % 3 == 0, 0.0, 0.2)
    data = displacements(noisy_track(times, position_sd=sd[None]), None, gaps="keep")
    found = Density(PLAIN, Batch.of(data, model=Langevin).engine(0, PLAIN.model))
    dense = Density(PLAIN, Batch.of(data, "dense", Langevin).engine(0, PLAIN.model))
    theta = np.array([[0.7, 1.3], [3.0, 0.2], [0.01, 5.0]])
    assert_allclose(found.terms(theta)[0], dense.terms(theta)[0], rtol=1e-9)


def test_more_parameter_values_than_a_block_give_what_each_gives_alone():
    data = Displacements.from_array(np.random.default_rng(3).normal(size=(3, 40, 2)), 0.5)
    density = Density(NOISY, Batch.of(data, "kalman", NOISY.model).engine(0, NOISY.model))
    theta = np.exp(np.random.default_rng(4).normal(size=(150, 3)))
    together = density.terms(theta)[0]
    alone = [density.terms(theta[i : i + 1])[0][0] for i in (0, 7, 8, 149)]
    assert_allclose(together[[0, 7, 8, 149]], alone, rtol=1e-13)


def test_parts_of_the_data_add_up():
    rng = np.random.default_rng(5)
    sizes = rng.integers(1, 3000, size=40)
    data = Displacements(
        dx=rng.normal(size=(sizes.sum(), 2)),
        interval=np.full(sizes.sum(), 0.5),
        row_sizes=sizes,
        trajectory=np.arange(40),
        tau=0.5,
        position_sd=rng.uniform(0.1, 0.3, size=sizes.sum() + 40),
    )
    engine = Batch.of(data, model=Langevin).engine(0, PLAIN.model)
    assert len(engine._parts) > 1
    theta = np.array([[1.0, 1.0]])
    whole = Density(PLAIN, engine).terms(theta)[0][0]
    parts = [Density(PLAIN, type(engine)(part)).terms(theta)[0][0] for part in engine._parts]
    assert_allclose(whole, sum(parts), rtol=1e-12)


def test_ten_times_the_steps_have_the_same_kind_of_peak_for_ten_times_the_work():
    """The number of evaluations follows from the peak, not from the data."""
    counts = []
    for n in (500, 5000):
        track = noisy_track(np.arange(n + 1) * 0.5, sd=0.1)
        counts.append(evidence(NOISY, displacements(track, 0.5)).n_evaluations)
    assert max(counts) < 2000
