r"""Compiled Kalman filter for fixes that may be outliers.

Given the earlier fixes, a fix is good with variance V or an outlier with variance V + R, and the
two posteriors of the state are replaced by one Gaussian of the same mean and covariance. Unlike in
`filter`, the covariance depends on the data and never becomes constant.
"""

from collections.abc import Callable
from functools import cache

import numpy as np

from driftbayes._kernels.compiled import KERNEL_OPTIONS, compiled
from driftbayes._kernels.filter import (
    LANES,
    predict_covariance,
    predict_mean,
    update_covariance,
    update_mean,
)

# Number of densities multiplied before taking a logarithm, if they are within these bounds.
_PER_LOG = 8
_MIN_FACTOR, _MAX_FACTOR = 1e-35, 1e35


@cache
def outlier_kernel(n: int, n_columns: int) -> Callable[..., None]:
    r"""Make the kernel for a state of `n` components and data of `n_columns` axes.

    With e the innovation, $t = \tfrac12 |e|^2 (1/V - 1/(V+R))$ and
    $a = \frac{p}{1-p} (V/(V+R))^{d/2}$, the density of a step is
    $(1-p) (2\pi V)^{-d/2}\, e^{-|e|^2 / 2(V+R)}\, (e^{-t} + a)$, which neither overflows nor
    cancels, and the fix is good with the probability $e^{-t} / (e^{-t} + a)$.

    Args:
        n: Size of the state, position included.
        n_columns: Number of axes.

    Returns:
        A function of the steps (dx, which, offsets, slot, error), the parameter values (matrices,
        start, extra, law) with law = (fraction p, variance R), and the sums (log_det, products,
        excess), to which it adds. The Gaussian terms of each step are weighted by the probabilities
        of both cases; `excess` is the log-density without its $-\tfrac d2 \ln 2\pi$ per step.
    """
    # Rows of the working array, each of LANES numbers.
    size = n * n
    mean, moved = 2 * size, 2 * size + n_columns * n
    residual = moved + n_columns * n
    first_column = residual + n_columns
    scaled = first_column + n
    n_rows = scaled + n
    is_odd, half = n_columns % 2 == 1, n_columns // 2

    @compiled(**KERNEL_OPTIONS)
    def run(steps, lanes, sums):  # type: ignore[no-untyped-def]
        dx, which, offsets, slot, error = steps
        matrices, start, extra, law = lanes
        log_det, products, excess = sums
        rows = np.zeros(n_rows * LANES)
        volume, variances = np.ones(LANES), np.ones(LANES)
        squares, gaps, nears = np.empty(LANES), np.empty(LANES), np.empty(LANES)
        densities, goods = np.empty(LANES), np.empty(LANES)
        gains, shrink, left = np.empty(LANES), np.empty(LANES), np.empty(LANES)
        for r in range(offsets.shape[0] - 1):
            first, last, out = offsets[r], offsets[r + 1], slot[r]
            rows[:] = 0.0
            for i in range(size * LANES):
                rows[i] = start[i]
            for lane in range(LANES):
                # The first fix may be an outlier too.
                rows[lane] += error[first + r] + extra[lane] + law[0, lane] * law[1, lane]
                volume[lane] = 1.0
                variances[lane] = 1.0
            waiting = 0
            for s in range(first, last):
                matrix, own = matrices[which[s]], error[s + r + 1]
                for lane in range(LANES):
                    predict_covariance(rows, matrix, n, lane)
                    for i in range(n):
                        rows[(first_column + i) * LANES + lane] = rows[i * n * LANES + lane]
                for lane in range(LANES):
                    square = 0.0
                    for c in range(n_columns):
                        predict_mean(rows, matrix, mean + c * n, moved + c * n, n, lane)
                        innovation = dx[s, c] - rows[(moved + c * n) * LANES + lane]
                        rows[(residual + c) * LANES + lane] = innovation
                        square += innovation * innovation
                    good = rows[first_column * LANES + lane] + own + extra[lane]
                    squares[lane] = square
                    gaps[lane] = law[1, lane] / (good * (good + law[1, lane]))
                # A separate loop, because calls of exp are not vectorised.
                for lane in range(LANES):
                    nears[lane] = np.exp(-0.5 * squares[lane] * gaps[lane])
                for lane in range(LANES):
                    prior = rows[first_column * LANES + lane]
                    fix, square, gap = own + extra[lane], squares[lane], gaps[lane]
                    good = prior + fix
                    bad = good + law[1, lane]
                    one_over, less = 1.0 / good, 1.0 / bad
                    odds, power = law[0, lane] / (1.0 - law[0, lane]), 1.0
                    for _ in range(half):
                        odds *= good * less
                        power *= one_over
                    if is_odd:
                        odds *= np.sqrt(good * less)
                        power *= np.sqrt(one_over)
                    both = nears[lane] + odds
                    weight, rest = nears[lane] / both, odds / both
                    densities[lane] = (1.0 - law[0, lane]) * power * both
                    goods[lane] = good
                    squares[lane] = 0.5 * square * less
                    gain = weight * one_over + rest * less
                    # Spread of the two means, averaged over the axes to stay isotropic.
                    apart = weight * rest * gap * gap * square / n_columns
                    gains[lane] = gain
                    shrink[lane] = gain - apart
                    left[lane] = (
                        weight * fix * one_over + rest * (fix + law[1, lane]) * less + apart * prior
                    )
                for lane in range(LANES):
                    for i in range(n):
                        rows[(scaled + i) * LANES + lane] = (
                            shrink[lane] * rows[(first_column + i) * LANES + lane]
                        )
                    update_covariance(rows, scaled, left[lane], n, lane)
                    for i in range(n):
                        rows[(scaled + i) * LANES + lane] = (
                            gains[lane] * rows[(first_column + i) * LANES + lane]
                        )
                for c in range(n_columns):
                    for lane in range(LANES):
                        innovation = rows[(residual + c) * LANES + lane]
                        moved_c, mean_c = moved + c * n, mean + c * n
                        update_mean(rows, moved_c, scaled, innovation, dx[s, c], mean_c, n, lane)
                        products[out, c * (c + 3) // 2, lane] += (
                            gains[lane] * innovation * innovation
                        )
                for lane in range(LANES):
                    excess[out, lane] -= squares[lane]
                    if _MIN_FACTOR < densities[lane] < _MAX_FACTOR:
                        volume[lane] *= densities[lane]
                    else:
                        excess[out, lane] += np.log(densities[lane])
                    if _MIN_FACTOR < goods[lane] < _MAX_FACTOR:
                        variances[lane] *= goods[lane]
                    else:
                        log_det[out, lane] += np.log(goods[lane])
                waiting += 1
                if waiting == _PER_LOG or s == last - 1:
                    waiting = 0
                    for lane in range(LANES):
                        excess[out, lane] += np.log(volume[lane])
                        log_det[out, lane] += np.log(variances[lane])
                        volume[lane] = 1.0
                        variances[lane] = 1.0

    return run
