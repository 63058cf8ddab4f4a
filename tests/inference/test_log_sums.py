"""Logarithms of sums of exponentials are those of SciPy, to the last digit."""

import numpy as np
import pytest
import scipy.special

from driftbayes.inference._log_sums import logsumexp

SPOILT = {"none": 0.0, "nowhere": -np.inf, "infinite": np.inf, "nan": np.nan}


@pytest.mark.parametrize("spoilt", SPOILT)
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((1000,), None), ((1,), None), ((7, 300), 0), ((7, 300), 1), ((3, 4, 5), None), ((0,), None)],
)
@pytest.mark.parametrize("scale", [1.0, 300.0, 1e5])
def test_sums_are_those_of_scipy(shape, axis, scale, spoilt):
    a = scale * np.random.default_rng(0).normal(size=shape)
    # Some are equal, so that the largest may be there several times; some are lost.
    a[a > scale] = np.max(a, initial=0.0)
    a[..., : len(a) // 3] = -np.inf
    if spoilt != "none":
        a.flat[len(a) // 2 :] = SPOILT[spoilt]
    found, wanted = logsumexp(a, axis=axis), scipy.special.logsumexp(a, axis=axis)
    assert type(found) is type(wanted)
    np.testing.assert_array_equal(found, wanted)
