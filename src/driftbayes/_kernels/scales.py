"""Compiled integrals over the scale of a Gaussian density with a mean flow, for many data sets."""

import numpy as np

from driftbayes._kernels.compiled import KERNEL_OPTIONS, compiled

# The range ends where the integrand is exp(-_DEPTH) of its peak.
_DEPTH = 32.0
# Minimum number of nodes, nodes per width of the peak, and maximum number.
_MIN_NODES, _PER_WIDTH, _MAX_NODES = 96, 2.0, 4096
# An integrand that extends farther than this in ln c counts as not integrable.
_MAX_REACH = 300.0
_ROUNDING = 1e-13
# Log-integral; means of c, c², ln c, (ln c)², r, r² and of the variance of the flow.
N_MOMENTS = 8


@compiled(**KERNEL_OPTIONS)
def _value(s, n, rest, ratio, spread, n_dim, shape, rate):  # type: ignore[no-untyped-def]
    """Compute ln of the integrand at c = exp(s), up to a constant."""
    fall = np.exp(-s)
    y = spread * fall
    form = rest + ratio / (1 + y)
    return -0.5 * (n * s + fall * form + n_dim * np.log1p(y)) + shape * s - rate / fall


@compiled(**KERNEL_OPTIONS)
def integrate_scales(n, quadratic, seen, weight, prior, rough, out):  # type: ignore[no-untyped-def]
    r"""Integrate over the scale c, with each component of a mean flow U ~ N(0, V²) integrated out.

    $$\int c^{-n/2}\, (1+y)^{-d/2} \exp\left\{-\frac{1}{2c}\left[Q - \frac{B}{G}
      \frac{y}{1+y}\right]\right\} c^{\alpha-1} e^{-\lambda c}\,\mathrm{d}c, \qquad y = V^2 G/c$$

    Given c the flow has mean r q, r = (V²/c)/(1+y), and variance V²/(1+y) in each component.

    Args:
        n: Number of scalar displacements of each data set.
        quadratic: Q, their quadratic form at c = 1.
        seen: B, the sum over axes of q², q the whitened product of displacements and durations.
        weight: G, the whitened product of durations with themselves.
        prior: d, V², α, λ.
        rough: Whether to estimate the integral from the height and width of its peak alone,
            without moments.
        out: Result, (data set, `N_MOMENTS`); NaN where the integral is infinite.
    """
    n_dim, variance, shape, rate = prior
    for i in range(len(n)):
        spread = variance * weight[i]
        ratio = seen[i] / weight[i] if spread > 0 else 0.0
        # The part that no flow explains; zero if it is only rounding.
        rest = quadratic[i] - ratio
        if rest < _ROUNDING * quadratic[i]:
            rest = 0.0
        own = (n[i], rest, ratio, spread, n_dim, shape, rate)
        out[i] = np.nan
        if not quadratic[i] > 0:
            continue
        # Scales if the flow explains as much as it can, and if it explains nothing.
        left = np.log(max(rest, _ROUNDING * quadratic[i]) / n[i])
        right = np.log(quadratic[i] / n[i])
        s = left if _value(left, *own) > _value(right, *own) else right
        curvature = 1.0
        for _ in range(200):
            fall = np.exp(-s)
            y = spread * fall
            w = y / (1 + y)
            form = fall * (rest + ratio / (1 + y))
            slope = -0.5 * (n[i] - form + fall * ratio * w * (1 - w) - n_dim * w)
            slope += shape - rate / fall
            curvature = 0.5 * max(form, 1e-3) + rate / fall
            step = min(max(slope / curvature, -2.0), 2.0)
            s += step
            if abs(step) * np.sqrt(curvature) < 1e-3 or abs(s - right) > _MAX_REACH:
                break
        peak = _value(s, *own)
        width = 1 / np.sqrt(curvature)
        if rough:
            out[i, 0] = peak + np.log(width)
            continue
        low, high = min(left, s), max(right, s)
        step = width
        while _value(low, *own) > peak - _DEPTH and low > right - _MAX_REACH:
            low -= step
            step *= 1.3
        step = width
        while _value(high, *own) > peak - _DEPTH and high < right + _MAX_REACH:
            high += step
            step *= 1.3
        if low <= right - _MAX_REACH or high >= right + _MAX_REACH:
            continue
        n_nodes = int(min(max(_PER_WIDTH * (high - low) / width, _MIN_NODES), _MAX_NODES))
        h = (high - low) / n_nodes
        total = 0.0
        sums = np.zeros(N_MOMENTS)
        for k in range(n_nodes + 1):
            s = low + k * h
            f = np.exp(_value(s, *own) - peak)
            c = np.exp(s)
            y = spread / c
            r = (variance / c) / (1 + y)
            total += f
            sums[1] += f * c
            sums[2] += f * c * c
            sums[3] += f * s
            sums[4] += f * s * s
            sums[5] += f * r
            sums[6] += f * r * r
            sums[7] += f * variance / (1 + y)
        out[i] = sums / total
        out[i, 0] = peak + np.log(total * h)
