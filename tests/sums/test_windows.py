"""Sums over windows: compiled loops, NumPy and the definition agree."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from driftbayes._sums import WindowSums, windows
from driftbayes.errors import DriftbayesError
from driftbayes.likelihood import channel_moments_of

SIZES = ([5] * 7, [40] * 6, [3, 10, 50, 33, 32, 31, 1, 200, 7, 7], [9000, 31])


def steps_of(sizes, n_dim=2):
    """Runs whose steps differ by orders of magnitude from one to the next."""
    rng = np.random.default_rng(3)
    n_steps = np.array(sizes)
    scale = np.repeat(10.0 ** rng.integers(-4, 5, len(sizes)), n_steps)[:, None]
    return rng.standard_normal((n_steps.sum(), n_dim)) * scale, n_steps


def by_definition(dx, n_steps, memory, columns):
    """Groups of windows (length, is first) with the sums of their products, window by window."""
    found = {}
    for first, n in zip(np.cumsum(n_steps) - n_steps, n_steps, strict=True):
        run = columns(dx[first : first + n])
        for end in range(min(n, memory), n + 1):
            window = run[max(end - memory, 0) : end]
            key = (len(window), end <= memory)
            found[key] = found.get(key, 0.0) + np.einsum("pa,qb->abpq", window, window)
    return found


@pytest.fixture(params=[True, False], ids=["compiled", "NumPy"])
def _chosen(request, monkeypatch):
    monkeypatch.setattr(windows, "_is_large", lambda *_: request.param)


@pytest.mark.usefixtures("_chosen")
@pytest.mark.parametrize("memory", [1, 4, 32])
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("apart", [False, True])
def test_sums_are_those_of_the_definition(sizes, memory, apart):
    dx, n_steps = steps_of(sizes)
    sums = WindowSums(memory, 2, apart=apart, duration=apart)
    sums.add(dx, np.cumsum(n_steps) - n_steps, n_steps)
    columns = (lambda run: np.column_stack([run, np.ones(len(run))])) if apart else lambda run: run
    expected = by_definition(dx, n_steps, memory, columns)
    forms, orders, paired, predicted = sums.groups()
    assert [(n + 1, p == 1.0) for n, p in zip(orders, paired, strict=True)] == sorted(
        expected, key=lambda key: (not key[1], key[0])
    )
    for form, order, is_first in zip(forms, orders, paired, strict=True):
        n = order + 1
        moment = expected[(n, bool(is_first))]
        if not apart:
            moment = np.einsum("aapq->pq", moment)[None, None]
        for a, b in np.ndindex(moment.shape[:2]):
            wanted = moment[a, b][::-1, ::-1]
            if is_first:
                wanted = np.array(
                    [[np.trace(moment[a, b][p:, q:]) for q in range(n)] for p in range(n)]
                )
            scale = np.sqrt(np.abs(moment[a, a]).max() * np.abs(moment[b, b]).max())
            assert_allclose(form[a, b, :n, :n], wanted, rtol=1e-12, atol=4e-15 * n * scale)
    n_predicted = np.zeros(len(predicted))
    for n in n_steps:
        n_predicted[: min(n, memory)] += 1
        n_predicted[-1] += max(n - memory, 0)
    assert_array_equal(predicted, n_predicted)


@pytest.mark.usefixtures("_chosen")
@pytest.mark.parametrize("stride", [1, 3])
def test_positions_at_a_stride_are_their_differences(stride):
    dx, _ = steps_of([400])
    x = 1e3 + np.cumsum(dx, axis=0)
    firsts, n_steps = np.array([0, 7, 150]), np.array([2, 40, 70])
    found, expected = WindowSums(8, 2), WindowSums(8, 2)
    found.add(x, firsts, n_steps, stride)
    runs = [
        np.diff(x[first : first + n * stride + 1 : stride], axis=0)
        for first, n in zip(firsts, n_steps, strict=True)
    ]
    expected.add(np.concatenate(runs), np.cumsum(n_steps) - n_steps, n_steps)
    for a, b in zip(found.groups(), expected.groups(), strict=True):
        assert_array_equal(a, b)


def test_merged_sums_are_those_of_all_runs():
    dx, n_steps = steps_of(SIZES[2])
    starts = np.cumsum(n_steps) - n_steps
    whole, merged = WindowSums(8, 2), WindowSums(8, 2)
    whole.add(dx, starts, n_steps)
    for i in range(len(n_steps)):
        part = WindowSums(8, 2)
        part.add(dx, starts[i : i + 1], n_steps[i : i + 1])
        merged.merge(part)
    for a, b in zip(merged.groups(), whole.groups(), strict=True):
        assert_allclose(a, b, rtol=1e-13, atol=1e-14 * np.abs(b).max())
    assert merged.moves
    assert merged.longest == whole.longest == 200


def test_long_sums_keep_their_digits():
    # A sum term by term of two million equal numbers would be off by 1e-11.
    n = 2_000_000
    sums = WindowSums(1, 1)
    sums.add(np.full((n, 1), 0.1), np.array([0]), np.array([n]))
    forms = sums.groups().forms
    assert_allclose(forms[:, 0, 0, 0, 0].sum(), n * 0.1**2, rtol=2e-13)


def test_steps_of_zero_do_not_move():
    sums = WindowSums(4, 2, apart=True, duration=True)
    sums.add(np.zeros((20, 2)), np.array([0, 3]), np.array([3, 17]))
    assert not sums.moves


def test_sums_of_different_kinds_are_not_mixed():
    with pytest.raises(DriftbayesError, match="same memory and columns"):
        WindowSums(4, 2).merge(WindowSums(8, 2))
    with pytest.raises(DriftbayesError, match="sum them again with the axes apart"):
        channel_moments_of(WindowSums(4, 2), 1.0)
