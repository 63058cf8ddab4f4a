"""Results are in double precision whatever JAX is set to, and JAX stays as it was set."""

import jax
import numpy as np
import pytest

from driftbayes import (
    Exponential,
    Hypothesis,
    Trajectories,
    check_fit,
    compare_hypotheses,
    displacements,
    scan_hypotheses,
)
from driftbayes.inference import evidence, posterior_draws
from driftbayes.models import Brownian, Langevin

STEPS = np.random.default_rng(0).normal(size=(6, 31, 2))
TRACKS = Trajectories.from_arrays(list(np.cumsum(STEPS, axis=1)), dt=0.1)


def _hypotheses():
    # 0.3 and 0.7 are other numbers in single precision.
    return [
        Hypothesis(Brownian, kappa=Exponential(0.3)),
        Hypothesis(Langevin, gamma=Exponential(0.7), k=Exponential(0.1)),
    ]


def _compare():
    return compare_hypotheses(_hypotheses(), displacements(TRACKS, 0.1), sensitivity=True).to_json()


def _scan():
    return (
        scan_hypotheses(TRACKS, _hypotheses(), [0.1, 0.3])
        .to_dataset()["log_evidence"]
        .values.tolist()
    )


def _evidence():
    return evidence(_hypotheses()[1], displacements(TRACKS, 0.2), method="laplace").to_json()


def _draws():
    found = posterior_draws(_hypotheses()[1], displacements(TRACKS, 0.2), n_draws=20, seed=1)
    return found.theta.tolist()


def _check():
    return check_fit(_hypotheses(), displacements(TRACKS, 0.1), n_replicas=100).to_json()


@pytest.mark.parametrize("compute", [_compare, _scan, _evidence, _draws, _check])
def test_results_do_not_depend_on_the_precision_that_is_set(compute):
    with jax.enable_x64(False):
        single = compute()
        assert not jax.config.read("jax_enable_x64")
    with jax.enable_x64(True):
        double = compute()
    assert single == double


def _many_draws():
    # Steps without memory: the posterior of gamma is wide, and its edges far from the mode.
    hypothesis = Hypothesis(Langevin, gamma=Exponential(5.0), k=Exponential(10.0))
    found = posterior_draws(hypothesis, displacements(TRACKS, 0.1), n_draws=1000)
    return found.theta.tolist()


@pytest.mark.parametrize("compute", [_compare, _many_draws])
def test_results_do_not_depend_on_what_numpy_raises(compute):
    with np.errstate(all="raise"):
        strict = compute()
        assert np.geterr()["under"] == "raise"
    assert compute() == strict
