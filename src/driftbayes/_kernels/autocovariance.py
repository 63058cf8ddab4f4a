"""Autocovariance of successive steps from a state-space form, compiled."""

import numpy as np

from driftbayes._kernels.compiled import KERNEL_OPTIONS, compiled


@compiled(**KERNEL_OPTIONS)
def fill_autocovariances(propagator, noise, start, error, out):  # type: ignore[no-untyped-def]
    r"""Fill in the covariances of a step with itself and with later steps.

    With $a$ the position row of the propagator A and P the covariance of the state, a step has the
    variance $a P a^\mathrm{T} + Q_{00}$. Its covariance with the state after it is
    $g = A P a^\mathrm{T} + Q_0$, and with the step l later $a A^{l-1} g$.

    Args:
        propagator: A over one step, (row, state, state), position first.
        noise: Q over one step, same axes.
        start: Covariance of the state, zero for the position.
        error: Error variance of every position, (row,).
        out: Result, (row, lag).
    """
    n_rows, n_lags = out.shape
    n = propagator.shape[1]
    reach, moved = np.zeros(n), np.zeros(n)
    for b in range(n_rows):
        a, q, p = propagator[b], noise[b], start[b]
        # P aᵀ; the position does not contribute.
        for i in range(1, n):
            total = 0.0
            for j in range(1, n):
                total += p[i, j] * a[0, j]
            moved[i] = total
        variance = q[0, 0] + 2 * error[b]
        for i in range(1, n):
            variance += a[0, i] * moved[i]
        out[b, 0] = variance
        for i in range(1, n):
            total = q[i, 0]
            for j in range(1, n):
                total += a[i, j] * moved[j]
            reach[i] = total
        for lag in range(1, n_lags):
            total = 0.0
            for i in range(1, n):
                total += a[0, i] * reach[i]
            out[b, lag] = total
            for i in range(1, n):
                total = 0.0
                for j in range(1, n):
                    total += a[i, j] * reach[j]
                moved[i] = total
            for i in range(1, n):
                reach[i] = moved[i]
        if n_lags > 1:
            out[b, 1] -= error[b]
