"""Moments summed as whole numbers: those of the plain pass, and the same in every order."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from driftbayes.likelihood import ExactMoments, channel_moments, second_moments
from driftbayes.sampling import Displacements

SIZES = ([5] * 7, [40] * 6, [3, 10, 50, 33, 32, 31, 1, 200, 7, 7])
FIELDS = ("forms", "orders", "paired", "predicted")


def runs(sizes, n_dim=2):
    """Runs whose steps differ by orders of magnitude from one to the next."""
    rng = np.random.default_rng(3)
    row_sizes = np.array(sizes)
    scale = np.repeat(10.0 ** rng.integers(-4, 5, len(sizes)), row_sizes)[:, None]
    return rng.standard_normal((row_sizes.sum(), n_dim)) * scale, row_sizes


@pytest.mark.parametrize("memory", [1, 4, 32])
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("by_channel", [False, True])
def test_moments_are_those_of_the_plain_pass(sizes, memory, by_channel):
    dx, row_sizes = runs(sizes)
    data = Displacements(dx, np.full(len(dx), 0.5), row_sizes, np.arange(len(sizes)), 0.5)
    exact = ExactMoments(memory, 2, by_channel=by_channel)
    exact.add(dx, row_sizes)
    pairs = [(exact.second_moments(0.5), second_moments(data, memory))]
    if by_channel:
        pairs.append((exact.channel_moments(0.5), channel_moments(data, memory)))
    for found, expected in pairs:
        for name in FIELDS:
            wanted = np.asarray(getattr(expected, name))
            slack = 1e-11 * np.abs(wanted).max()
            assert_allclose(getattr(found, name), wanted, rtol=1e-9, atol=slack)


@pytest.mark.parametrize("by_channel", [False, True])
@pytest.mark.parametrize("sizes", SIZES)
def test_the_order_of_the_runs_does_not_matter_to_the_last_bit(sizes, by_channel):
    dx, row_sizes = runs(sizes)
    whole = ExactMoments(8, 2, by_channel=by_channel)
    whole.add(dx, row_sizes)
    pieces = ExactMoments(8, 2, by_channel=by_channel)
    starts = np.cumsum(row_sizes) - row_sizes
    for i in np.random.default_rng(0).permutation(len(sizes)):
        one = ExactMoments(8, 2, by_channel=by_channel)
        one.add(dx[starts[i] : starts[i] + row_sizes[i]], row_sizes[i : i + 1])
        pieces.merge(one)
    for name in FIELDS:
        assert_array_equal(
            getattr(whole.second_moments(0.5), name), getattr(pieces.second_moments(0.5), name)
        )


def test_sums_far_beyond_64_bits_are_exact():
    # Every step is the largest that its unit allows: the sum of squares needs 42 + 42 + 20 bits.
    exact = ExactMoments(1, 1)
    exact.add(np.full((1 << 14, 1), 1.0 - 2.0**-40), np.ones(1 << 14, dtype=np.int64))
    for _ in range(20):
        exact.merge(exact)
    found = exact.second_moments(1.0)
    assert float(found.forms[0, 0, 0]) == (1 << 34) * (1.0 - 2.0**-40) ** 2
    assert float(found.predicted[0]) == 1 << 34
