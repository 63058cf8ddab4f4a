"""Formulas have double precision in every thread, whatever JAX is set to there."""

from concurrent.futures import ThreadPoolExecutor

import jax
import numpy as np
import pytest
from numpy.testing import assert_array_equal

from driftbayes.comparison import make_hypotheses
from driftbayes.inference._formulas import autocovariances_at
from driftbayes.inference._hypothesis import points_at, prior_quantiles


@pytest.mark.parametrize("name", ["brownian+scatter", "langevin"])
def test_a_thread_without_double_precision_gets_the_same_numbers(name):
    (own,) = make_hypotheses([name], u_rms=0.3, timescale=1.7).hypotheses
    z = np.random.default_rng(0).normal(size=(5, len(own.names)))

    def evaluated(*, is_double):
        with jax.enable_x64(is_double):
            theta, *priors = points_at(own, z)
            quantiles = prior_quantiles(own, np.full_like(z, 1 - 1e-12))
            return [
                *(theta, *priors, quantiles),
                autocovariances_at(own, theta, np.full(5, 0.5), 4),
            ]

    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(evaluated, is_double=False).result()
    for part, known in zip(found, evaluated(is_double=True), strict=True):
        assert part.dtype == np.float64
        assert_array_equal(part, known)
        assert np.isfinite(part).all()
