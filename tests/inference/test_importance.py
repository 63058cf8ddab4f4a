"""Importance weights: the shape of their tail, and draws by them."""

import numpy as np
import pytest

from driftbayes.inference._samples import pareto_shape, resample

SIGMA = 4.5


@pytest.mark.parametrize("k", [0.2, 0.5, 1.0])
def test_the_shape_of_a_pareto_tail(k):
    """The estimate is drawn towards 0.5 by ten of about 420 points; its error is (1 + k)/√420."""
    found = [
        pareto_shape(np.random.default_rng(seed).pareto(1 / k, 20_000) + 1) for seed in range(20)
    ]
    error = (1 + k) / np.sqrt(420)
    # The excess of a Pareto law over a threshold is a generalised Pareto law, exactly.
    shrunk = (420 * k + 5) / 430
    assert abs(np.mean(found) - shrunk) < 4 * error / np.sqrt(20) + 0.02


def test_weights_that_are_alike_have_no_tail():
    assert pareto_shape(np.ones(1000)) == -np.inf
    assert np.isnan(pareto_shape(np.ones(3)))


def test_resampling_follows_the_weights():
    rng = np.random.default_rng(0)
    log_weights = np.log(np.linspace(1, 3, 20_000))
    chosen = resample(log_weights, 500, rng)
    assert len(set(chosen.tolist())) == 500
    # Density proportional to 1 + 2x on (0, 1): mean 7/12, variance 11/144.
    place = chosen / 20_000
    assert abs(place.mean() - 7 / 12) < SIGMA * np.sqrt(11 / 144 / 500)
    few = resample(np.array([0.0, -np.inf, 0.0]), 10, rng)
    assert set(few.tolist()) <= {0, 2}
