"""Fractional Brownian motion: its closed forms, and what the reference time does not do."""

import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal

from driftbayes.data._sampling import Displacements
from driftbayes.models import FractionalBrownian


@pytest.mark.parametrize("hurst", [0.1, 0.4, 0.5, 0.8])
def test_likelihood_is_that_of_the_covariance_of_positions(hurst):
    # Cov(X_s, X_t) = κ T^(1-2H) (s^2H + t^2H - |s - t|^2H), the definition of the process.
    rng = np.random.default_rng(0)
    times = np.cumsum(rng.uniform(0.5, 1.5, 6))
    s, t = times[:, None], times[None, :]
    power = s ** (2 * hurst) + t ** (2 * hurst) - np.abs(s - t) ** (2 * hurst)
    cov = 1.3 * 2.0 ** (1 - 2 * hurst) * power
    x = rng.normal(size=6)
    data = Displacements.from_array(np.diff(x, prepend=0.0)[None, :, None], 1.0)
    data = Displacements(
        dx=data.dx,
        interval=np.diff(times, prepend=0.0),
        row_sizes=data.row_sizes,
        trajectory=data.trajectory,
        tau=1.0,
    )
    model = FractionalBrownian(hurst=hurst, kappa=1.3, reference=2.0)
    expected = multivariate_normal.logpdf(x, np.zeros(6), cov)
    assert_allclose(model.log_likelihood(data), expected, rtol=1e-10)


def test_spread_at_the_reference_time_is_that_of_the_diffusivity():
    model = FractionalBrownian(hurst=0.3, kappa=1.3, reference=2.0)
    assert_allclose(model.absolute_diffusivity(jnp.asarray(2.0)), 1.3, rtol=1e-14)


def test_steps_are_against_each_other_below_one_half_and_along_above():
    for hurst, sign in ((0.3, -1.0), (0.7, 1.0)):
        model = FractionalBrownian(hurst=hurst, kappa=1.3, reference=2.0)
        row = np.asarray(model.increment_autocovariance(jnp.arange(6.0), jnp.asarray(0.7)))
        assert (np.sign(row[1:]) == sign).all()
