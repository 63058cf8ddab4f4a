"""Kernels are compiled where nothing can be kept on disk, too."""

import numpy as np
import pytest

from driftbayes._kernels import compiled as module


def test_without_a_place_for_a_cache_a_kernel_is_compiled_all_the_same(monkeypatch):
    asked = []

    def njit(function, **options):
        asked.append("cache" in options)
        if "cache" in options:
            raise RuntimeError("cannot cache function 'f': no locator available")
        return function

    monkeypatch.setattr("numba.njit", njit)
    double = module.compiled()(lambda x: 2 * x)
    assert double(3) == 6
    assert asked == [True, False]


@pytest.mark.parametrize("n", [1, 2])
def test_kernels_of_one_size_are_made_once(n):
    from driftbayes._kernels.filter import filter_kernel

    assert filter_kernel(n, 2) is filter_kernel(n, 2)
    assert filter_kernel(n, 2) is not filter_kernel(n, 3)


def test_a_filter_of_one_state_is_a_random_walk():
    """Independent steps of variance q: ln det and products by hand."""
    from driftbayes._kernels.filter import LANES, filter_kernel

    dx = np.array([[1.0], [-2.0], [0.5]])
    q = np.linspace(0.5, 4.0, LANES)
    matrices = np.stack([np.ones(LANES), q]).reshape(1, -1)
    log_det, products = np.zeros((1, LANES)), np.zeros((1, 1, LANES))
    filter_kernel(1, 1)(
        (dx, np.zeros(3, np.int32), np.array([0, 3]), np.array([0]), np.zeros(4)),
        (matrices, np.zeros(LANES), np.zeros(LANES), np.zeros(LANES)),
        (log_det, products, np.zeros((1, LANES))),
    )
    np.testing.assert_allclose(log_det[0], 3 * np.log(q), rtol=1e-14)
    np.testing.assert_allclose(products[0, 0], np.sum(dx**2) / q, rtol=1e-14)
