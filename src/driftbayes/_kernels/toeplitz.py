r"""Compiled Durbin--Levinson recursions: stationary steps at regular times, for many parameters.

$\operatorname{Cov}(x_i, x_j) = c_{i-j}$ with $c_{-l} = c_l^*$. With $\phi_n$ the partial
correlation at lag n, the variance of a step given n earlier ones is
$v_n = v_{n-1}(1 - |\phi_n|^2)$.
"""

import numpy as np

from driftbayes._kernels.compiled import FAST_OPTIONS, KERNEL_OPTIONS, compiled


# Sums over a row may be taken in any order, so that they are vectorised.
@compiled(**FAST_OPTIONS)
def form_products(  # type: ignore[no-untyped-def]
    autocovariance, forms, orders, paired, log_variances, products
):
    """Whiten summed second moments; the notation is that of `SecondMoments`.

    Args:
        autocovariance: c at lags 0, 1, ..., one row per parameter value.
        forms: T of each group and kind of product, Hermitian if complex.
        orders: Order of the filters of each group.
        paired: 1 where the second filter counts.
        log_variances: Result, ln v of each order.
        products: Result, one row per parameter value, one column per kind.
    """
    n_rows, n_lags = autocovariance.shape
    n_groups, n_kinds = forms.shape[:2]
    forward = np.empty(n_lags, dtype=autocovariance.dtype)
    backward = np.empty(n_lags, dtype=autocovariance.dtype)
    shifted = np.empty(n_lags, dtype=autocovariance.dtype)
    own = np.empty(n_lags, dtype=autocovariance.dtype)
    for b in range(n_rows):
        forward[:] = 0.0
        backward[:] = 0.0
        forward[0] = 1.0
        backward[0] = 1.0
        variance = autocovariance[b, 0].real
        for n in range(n_lags):
            if n > 0:
                shifted[0] = 0.0
                for i in range(1, n + 1):
                    shifted[i] = forward[i - 1]
                total = 0 * shifted[0]
                for i in range(1, n + 1):
                    total += shifted[i] * autocovariance[b, i]
                reflection = total / variance
                for i in range(n + 1):
                    forward[i] = shifted[i] - reflection * backward[i]
                    backward[i] = backward[i] - np.conj(reflection) * shifted[i]
                size = abs(reflection)
                variance *= (1 - size) * (1 + size)
            log_variances[b, n] = np.log(variance)
            for g in range(n_groups):
                if orders[g] != n:
                    continue
                shifted[0] = 0.0
                for i in range(1, n + 1):
                    shifted[i] = forward[i - 1]
                for i in range(n + 1):
                    own[i] = backward[i] if paired[g] > 0 else np.conj(backward[i])
                for k in range(n_kinds):
                    whole = 0 * own[0]
                    for i in range(n + 1):
                        row = 0 * own[0]
                        other = 0 * own[0]
                        for j in range(n + 1):
                            row += forms[g, k, i, j] * np.conj(own[j])
                            other += forms[g, k, i, j] * np.conj(shifted[j])
                        whole += own[i] * row - paired[g] * shifted[i] * other
                    products[b, k] += whole / variance


@compiled(**KERNEL_OPTIONS)
def run_products(steps, autocovariance, weight, tolerance, sums, orders):  # type: ignore[no-untyped-def]
    """Whiten runs of regular steps themselves, as the filter kernel does, in O(steps x order).

    The recursion stops where the partial correlations have decayed: when, judging by the last
    ones, ln v can change by at most `tolerance` per step of the longest run.

    Args:
        steps: Steps of all runs (step, column), first step of each run and end of the last, and
            the slot of each run in the sums.
        autocovariance: c at lags 0, 1, ..., one row per parameter value; as long as the longest
            window.
        weight: w of ln(1 + w |innovation|² / variance), one per parameter value.
        tolerance: Largest change of ln v that may be neglected.
        sums: Results, with parameter values along the last axis: log-determinants of each slot,
            products of each slot and pair of columns, and excess of each slot.
        orders: Result, the order at which the recursion ended.
    """
    dx, offsets, slot = steps
    log_det, products, excess = sums
    n_rows, n_lags = autocovariance.shape
    n_columns = dx.shape[1]
    filters = np.zeros((n_lags, n_lags), dtype=autocovariance.dtype)
    variances = np.empty(n_lags)
    backward = np.empty(n_lags, dtype=autocovariance.dtype)
    shifted = np.empty(n_lags, dtype=autocovariance.dtype)
    innovation = np.empty(n_columns, dtype=dx.dtype)
    for b in range(n_rows):
        # Row n of the filters gives the part of x_n that x_0 ... x_{n-1} do not predict.
        filters[0, 0] = 1.0
        backward[:] = 0.0
        backward[0] = 1.0
        variances[0] = autocovariance[b, 0].real
        order = n_lags - 1
        recent = 0.0
        for n in range(1, n_lags):
            shifted[0] = 0.0
            for i in range(1, n + 1):
                shifted[i] = filters[n - 1, i - 1]
            total = 0 * shifted[0]
            for i in range(1, n + 1):
                total += shifted[i] * autocovariance[b, i]
            reflection = total / variances[n - 1]
            for i in range(n + 1):
                filters[n, i] = shifted[i] - reflection * backward[i]
                backward[i] = backward[i] - np.conj(reflection) * shifted[i]
            size = abs(reflection)
            variances[n] = variances[n - 1] * (1 - size) * (1 + size)
            # If correlations fall as 1/n, the rest sums to n times the last square, else to less.
            recent = max(size, 0.9 * recent)
            if n * recent**2 < tolerance:
                order = n
                break
        orders[b] = order
        logs = np.log(variances[: order + 1])
        for r in range(offsets.shape[0] - 1):
            first, last, out = offsets[r], offsets[r + 1], slot[r]
            for s in range(first, last):
                n = min(s - first, order)
                for c in range(n_columns):
                    innovation[c] = 0.0
                for i in range(n + 1):
                    factor = filters[n, i]
                    for c in range(n_columns):
                        innovation[c] += factor * dx[s - n + i, c]
                log_det[out, b] += logs[n]
                square = 0.0
                p = 0
                for c in range(n_columns):
                    square += innovation[c].real ** 2
                    for d in range(c + 1):
                        products[out, p, b] += innovation[c] * np.conj(innovation[d]) / variances[n]
                        p += 1
                if weight[b] > 0:
                    excess[out, b] += np.log1p(weight[b] * square / variances[n])


@compiled(**KERNEL_OPTIONS)
def stack_products(  # type: ignore[no-untyped-def]
    autocovariance, offsets, members, groups, predicted, log_det, quadratic
):
    """Whiten second moments of many data sets; data sets of equal covariance share filters.

    Args:
        autocovariance: c at lags 0, 1, ..., one row per covariance.
        offsets: First member of each row, and the end of the last row's members.
        members: Data sets evaluated with each row, one row after another.
        groups: For each group, (set, group): the order of its filters; 1 where the second filter
            counts; and T, lower triangle by rows, both halves added, (set, group, pair).
        predicted: Number of displacements predicted from 0, 1, ... others, (set, order).
        log_det: Result, of each member; zero at first.
        quadratic: Result, of each member; zero at first.
    """
    orders, paired, packed = groups
    n_rows, n_lags = autocovariance.shape
    n_groups = orders.shape[1]
    # Row n: filters for the first of n + 1 steps, and, shifted by one, for the last of n steps.
    backward = np.zeros((n_lags, n_lags))
    shifted = np.zeros((n_lags, n_lags))
    forward = np.empty(n_lags)
    variances = np.empty(n_lags)
    logs = np.empty(n_lags)
    weights = np.empty((2, packed.shape[2]))
    made = np.empty(2, dtype=np.int64)
    for b in range(n_rows):
        forward[:] = 0.0
        forward[0] = 1.0
        backward[0, 0] = 1.0
        variances[0] = autocovariance[b, 0]
        for n in range(1, n_lags):
            total = 0.0
            for i in range(1, n + 1):
                total += forward[i - 1] * autocovariance[b, i]
            reflection = total / variances[n - 1]
            backward[n, 0] = backward[n - 1, 0]
            for i in range(1, n + 1):
                backward[n, i] = backward[n - 1, i] - reflection * forward[i - 1]
            for i in range(n, 0, -1):
                forward[i] = forward[i - 1] - reflection * backward[n - 1, i]
            forward[0] = -reflection * backward[n - 1, 0]
            for i in range(1, n + 1):
                shifted[n, i] = forward[i - 1]
            size = abs(reflection)
            variances[n] = variances[n - 1] * (1 - size) * (1 + size)
        for n in range(n_lags):
            logs[n] = np.log(variances[n])
        made[:] = -1
        for m in range(offsets[b], offsets[b + 1]):
            s = members[m]
            for n in range(n_lags):
                if predicted[s, n] > 0:
                    log_det[m] += predicted[s, n] * logs[n]
            for g in range(n_groups):
                order = orders[s, g]
                if order < 0:
                    continue
                kind = 1 if paired[s, g] > 0 else 0
                if made[kind] != order:
                    # Weights of all pairs of steps, the same for every member with this group.
                    place = 0
                    for i in range(order + 1):
                        own = backward[order, i] / variances[order]
                        other = kind * shifted[order, i] / variances[order]
                        for j in range(i + 1):
                            weights[kind, place + j] = (
                                own * backward[order, j] - other * shifted[order, j]
                            )
                        place += i + 1
                    made[kind] = order
                n_pairs = (order + 1) * (order + 2) // 2
                quadratic[m] += np.dot(weights[kind, :n_pairs], packed[s, g, :n_pairs])
