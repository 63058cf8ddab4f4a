"""Compiled evidence of every segment of a track, from running sums or by filters.

Segments lie between candidates c_0 = 0 < c_1 < … < c_M, in numbers of steps. A table holds the
segment from i to j > i at `row(i, M) + j - i - 1`.
"""

from typing import Any

import numpy as np

from driftbayes._kernels.compiled import compiled
from driftbayes._kernels.debye import debye_polynomials
from driftbayes._typing import FloatArray

_LOG_2PI = float(np.log(2 * np.pi))
# Debye's expansion of K in 1/R, R = sqrt(ν² + x²), is tried from this R on, and accepted if two
# successive terms are below rounding; a single one may vanish by chance.
_MIN_DEBYE = 4.0
_N_TERMS = 14
_ROUNDING = 1e-15
# Ranges of integration end where integrands are exp(-_DEPTH) of their peaks.
_DEPTH = 45.0


def _debye_coefficients() -> FloatArray:
    """Compute the coefficients of $(-1)^k u_k(t)/t^k$ in powers of t²."""
    out = np.zeros((_N_TERMS, _N_TERMS))
    for k, u in enumerate(debye_polynomials(_N_TERMS)):
        for power, value in u.items():
            out[k, (power - k) // 2] = float(value) * (-1) ** k
    return out


_DEBYE = _debye_coefficients()


@compiled()
def log_bessel_k(order: float, x: float) -> float:
    """Compute the logarithm of the modified Bessel function K of any real order, x > 0."""
    nu = abs(order)
    root = np.sqrt(nu * nu + x * x)
    if x == 0.0:
        return np.inf
    peak = np.log((nu + root) / x)
    if root >= _MIN_DEBYE:
        t2 = (nu / root) ** 2
        total, scale, last = 0.0, 1.0, 1.0
        for k in range(_N_TERMS):
            value = 0.0
            for i in range(k, -1, -1):
                value = value * t2 + _DEBYE[k, i]
            total += value * scale
            if max(last, abs(value * scale)) < _ROUNDING:
                return 0.5 * np.log(0.5 * np.pi / root) - root + nu * peak + np.log(total)
            last = abs(value * scale)
            scale /= root
    # The trapezoid rule around the peak, as in `inference._scale._bessel_integral`.
    right = _DEPTH / root
    right = np.log1p(right + np.sqrt(right * (right + 2)))
    excess = x * x / (root + nu)
    slow = _DEPTH / max(nu, 1e-300)
    left = _DEPTH / excess
    left = min(slow + np.sqrt(2 * slow), np.log1p(left + np.sqrt(left * (left + 2))))
    # The relative error, |Γ(ν + 2πi/h)|/Γ(ν), is below rounding.
    n_steps = int(np.ceil((left + right) / min(0.15, 0.55 / np.sqrt(root))))
    step = (left + right) / n_steps
    total = 0.0
    for i in range(n_steps + 1):
        s = -left + i * step
        growth = np.expm1(s)
        total += np.exp(-nu * (growth - s) - 0.5 * excess * growth * growth * np.exp(-s))
    return nu * peak - root + np.log(0.5 * total * step)


@compiled()
def _scale_evidence(n: float, log_det: float, quadratic: float, form: Any) -> float:
    """Integrate over a scale with a gamma prior (shape, rate, log-normalisation `form`)."""
    order, b = 0.5 * n - form[0], 0.5 * quadratic
    return (
        -0.5 * (n * _LOG_2PI + log_det)
        + form[2]
        - 0.5 * order * (np.log(b) - np.log(form[1]))
        + log_bessel_k(order, 2 * np.sqrt(form[1] * b))
        + np.log(2.0)
    )


@compiled()
def _scale_moments(n: float, quadratic: float, form: Any) -> Any:
    """Compute the first and second moment of that scale."""
    order, b = 0.5 * n - form[0], 0.5 * quadratic
    x = 2 * np.sqrt(form[1] * b)
    per, below = np.sqrt(b / form[1]), log_bessel_k(order - 1, x)
    lower = np.exp(log_bessel_k(order - 2, x) - below)
    # K of the next order by recurrence, except at small orders, where a term is negative.
    upper = lower + 2 * (order - 1) / x if order >= 1 else np.exp(log_bessel_k(order, x) - below)
    return per / upper, per * per * lower / upper


@compiled()
def row(i: int, m: int) -> int:
    """Index in the table of the first segment that begins at candidate i of 0 … m."""
    return i * m - i * (i - 1) // 2


@compiled()
def brownian_table(sums: Any, n_dim: int, form: Any) -> Any:
    """Compute the log-evidence of each segment of independent steps with unknown diffusivity.

    Args:
        sums: At each candidate: the number of steps before it, and the sums of ln 2h and of
            |Δx|²/2h over them.
        n_dim: Number of axes.
        form: Shape, rate and log-normalisation of the prior of κ.
    """
    m = len(sums) - 1
    out = np.empty(m * (m + 1) // 2)
    at = 0
    for i in range(m):
        for j in range(i + 1, m + 1):
            n = n_dim * (sums[j, 0] - sums[i, 0])
            log_det = n_dim * (sums[j, 1] - sums[i, 1])
            out[at] = _scale_evidence(n, log_det, sums[j, 2] - sums[i, 2], form)
            at += 1
    return out


@compiled()
def brownian_moments(sums: Any, n_dim: int, form: Any, pairs: Any) -> Any:
    """Compute the first and second moment of κ for given segments, (segment, parameter, moment)."""
    out = np.empty((len(pairs), 1, 2))
    for s in range(len(pairs)):
        i, j = pairs[s, 0], pairs[s, 1]
        n = n_dim * (sums[j, 0] - sums[i, 0])
        first, second = _scale_moments(n, sums[j, 2] - sums[i, 2], form)
        out[s, 0, 0], out[s, 0, 1] = first, second
    return out


@compiled()
def _span(order: float, b: float, rate: float) -> Any:
    """Find the ln κ between which κ^(-order) exp(-b/κ - rate κ) is within `_DEPTH` of its peak."""
    x = 2 * np.sqrt(rate * b)
    nu = abs(order)
    root = np.sqrt(nu * nu + x * x)
    peak = np.log((nu + root) / x)
    fast = _DEPTH / root
    fast = np.log1p(fast + np.sqrt(fast * (fast + 2)))
    slow, wide = _DEPTH / max(nu, 1e-300), _DEPTH * (root + nu) / (x * x)
    slow = min(slow + np.sqrt(2 * slow), np.log1p(wide + np.sqrt(wide * (wide + 2))))
    middle = 0.5 * np.log(b / rate)
    if order >= 0:
        return middle - peak - fast, middle - peak + slow
    return middle + peak - slow, middle + peak + fast


@compiled()
def _drifting(sums: Any, i: int, j: int, form: Any, spread: float, out: Any) -> float:
    """Integrate a segment with its own diffusivity and mean velocity; return the log-evidence.

    Uses the trapezoid rule in ln κ. `out` receives the means of κ, κ², of the factor s that turns
    the displacement into the mean velocity, of s², and of the variance of a component.
    """
    n_dim = sums.shape[1] - 4
    n = n_dim * (sums[j, 0] - sums[i, 0])
    log_det = n_dim * (sums[j, 1] - sums[i, 1])
    quadratic, time = sums[j, 2] - sums[i, 2], sums[j, 3] - sums[i, 3]
    moved = 0.0
    for a in range(n_dim):
        moved += (sums[j, 4 + a] - sums[i, 4 + a]) ** 2
    along = moved / (2 * time)
    residual = quadratic - along
    order = 0.5 * (n - n_dim) - form[0]
    # The residual of a single step is only rounding.
    is_straight = n == n_dim or residual <= 1e-12 * quadratic
    residual = 0.0 if is_straight else residual
    if not quadratic > 0 or (is_straight and order >= 0):
        return np.inf
    high = _span(0.5 * n - form[0], 0.5 * quadratic, form[1])[1]
    # For a straight segment only the prior of κ bounds the range from below.
    low = high - _DEPTH / max(-order, 0.1) if is_straight else 0.0
    if not is_straight:
        low = _span(order, 0.5 * residual, form[1])[0]
    step = min(0.25, 0.7 * np.sqrt(2 / n))
    n_nodes = max(int(np.ceil((high - low) / step)), 8) + 1
    step = (high - low) / (n_nodes - 1)
    top, total = -np.inf, 0.0
    out[:] = 0.0
    for node in range(n_nodes):
        z = low + node * step
        kappa = np.exp(z)
        seen = 0.5 * spread * spread / kappa
        gain = 1 + seen * time
        share = seen / gain
        value = -0.5 * (n * (_LOG_2PI + z) + log_det + (residual + along / gain) / kappa)
        value -= 0.5 * n_dim * np.log(gain)
        value += form[2] + form[0] * z - form[1] * kappa
        if value > top:
            shrink = np.exp(top - value)
            total *= shrink
            out *= shrink
            top = value
        weight = np.exp(value - top)
        total += weight
        out[0] += weight * kappa
        out[1] += weight * kappa * kappa
        out[2] += weight * share
        out[3] += weight * share * share
        out[4] += weight * spread * spread / gain
    out /= total
    return top + np.log(total * step)


@compiled()
def drifting_table(sums: Any, form: Any, spread: float) -> Any:
    """Compute the same as `brownian_table` for segments that each have a mean velocity.

    Args:
        sums: As for `brownian_table`, then the sums of h and of the steps along each axis.
        form: Shape, rate and log-normalisation of the prior of κ.
        spread: Prior standard deviation of each component of the velocity.
    """
    m = len(sums) - 1
    out, spare = np.empty(m * (m + 1) // 2), np.empty(5)
    at = 0
    for i in range(m):
        for j in range(i + 1, m + 1):
            out[at] = _drifting(sums, i, j, form, spread, spare)
            at += 1
    return out


@compiled()
def drifting_moments(sums: Any, form: Any, spread: float, pairs: Any) -> Any:
    """Compute moments of κ and each velocity component, (segment, parameter, moment)."""
    n_dim = sums.shape[1] - 4
    out, means = np.empty((len(pairs), 1 + n_dim, 2)), np.empty(5)
    for s in range(len(pairs)):
        i, j = pairs[s, 0], pairs[s, 1]
        _drifting(sums, i, j, form, spread, means)
        out[s, 0, 0], out[s, 0, 1] = means[0], means[1]
        for a in range(n_dim):
            moved = sums[j, 4 + a] - sums[i, 4 + a]
            out[s, 1 + a, 0] = moved * means[2]
            out[s, 1 + a, 1] = moved * moved * means[3] + means[4]
    return out


@compiled()
def _filter(dx: Any, steps: Any, start: Any, candidates: Any, first: int, out: Any) -> None:
    """Fill in log-determinant and quadratic form from one candidate to each later one, by node.

    Along each axis a state s is observed through steps a s + noise. `steps` holds a, the propagator
    of s, the noise variance of the step, the noise covariance of step and state, and the noise
    variance of the state; (node, step or one for all, 5). `start` is the variance of s at each
    position, or one for all.
    """
    n_dim = dx.shape[1]
    mean = np.empty(n_dim)
    begin = candidates[first]
    for node in range(len(steps)):
        mean[:] = 0.0
        variance = start[node, begin if start.shape[1] > 1 else 0]
        log_det, quadratic = 0.0, 0.0
        at = begin
        for j in range(first + 1, len(candidates)):
            product = 1.0
            while at < candidates[j]:
                k = at if steps.shape[1] > 1 else 0
                a, keep = steps[node, k, 0], steps[node, k, 1]
                seen = a * a * variance + steps[node, k, 2]
                cross = keep * a * variance + steps[node, k, 3]
                gain = cross / seen
                for axis in range(n_dim):
                    miss = dx[at, axis] - a * mean[axis]
                    quadratic += miss * miss / seen
                    mean[axis] = keep * mean[axis] + gain * miss
                variance = max(keep * keep * variance + steps[node, k, 4] - gain * cross, 0.0)
                product *= seen
                if product > 1e100 or product < 1e-100:
                    log_det += np.log(product)
                    product = 1.0
                at += 1
            log_det += np.log(product)
            out[node, j, 0], out[node, j, 1] = n_dim * log_det, quadratic


@compiled()
def _node_evidence(n: float, sums: Any, form: Any) -> float:
    """Compute the log-evidence at a node; integrate over the scale if its prior has a rate > 0."""
    if form[1] > 0:
        return _scale_evidence(n, sums[0], sums[1], form)
    return -0.5 * (n * _LOG_2PI + sums[0] + sums[1])


@compiled()
def filtered_table(
    dx: Any, steps: Any, start: Any, log_weights: Any, form: Any, candidates: Any
) -> Any:
    """Compute the log-evidence of each segment of a model filtered at nodes of one parameter.

    Args:
        dx: Steps, one row each.
        steps: Matrices of the filter, see `_filter`.
        start: Variance of the state at each position.
        log_weights: Logarithms of the weights of the nodes: prior density times spacing.
        form: Shape, rate and log-normalisation of the prior of the scale; zeros if it has none.
        candidates: Possible change points, in numbers of steps.
    """
    m, n_nodes, n_dim = len(candidates) - 1, len(steps), dx.shape[1]
    out, sums = np.empty(m * (m + 1) // 2), np.empty((n_nodes, m + 1, 2))
    at = 0
    for i in range(m):
        _filter(dx, steps, start, candidates, i, sums)
        for j in range(i + 1, m + 1):
            n = n_dim * float(candidates[j] - candidates[i])
            top, total = -np.inf, 0.0
            for node in range(n_nodes):
                value = log_weights[node] + _node_evidence(n, sums[node, j], form)
                if value > top:
                    total = total * np.exp(top - value) + 1.0
                    top = value
                elif value > top - 50.0:
                    total += np.exp(value - top)
            out[at] = top + np.log(total)
            at += 1
    return out


@compiled()
def filtered_moments(
    dx: Any,
    steps: Any,
    start: Any,
    log_weights: Any,
    form: Any,
    candidates: Any,
    nodes: Any,
    pairs: Any,
) -> Any:
    """Compute moments of the node parameter, and of the scale if it has a prior; sorted pairs."""
    m, n_nodes, n_dim = len(candidates) - 1, len(steps), dx.shape[1]
    n_parameters = 2 if form[1] > 0 else 1
    out, sums = np.zeros((len(pairs), n_parameters, 2)), np.empty((n_nodes, m + 1, 2))
    values = np.empty(n_nodes)
    last = -1
    for s in range(len(pairs)):
        first, j = pairs[s, 0], pairs[s, 1]
        if first != last:
            _filter(dx, steps, start, candidates, first, sums)
            last = first
        n = n_dim * float(candidates[j] - candidates[first])
        for node in range(n_nodes):
            values[node] = log_weights[node] + _node_evidence(n, sums[node, j], form)
        top, total = values.max(), 0.0
        for node in range(n_nodes):
            if values[node] < top - 40.0:
                continue
            weight = np.exp(values[node] - top)
            total += weight
            out[s, 0, 0] += weight * nodes[node]
            out[s, 0, 1] += weight * nodes[node] ** 2
            if form[1] > 0:
                mean, square = _scale_moments(n, sums[node, j, 1], form)
                out[s, 1, 0] += weight * mean
                out[s, 1, 1] += weight * square
        for i in range(n_parameters):
            out[s, i, 0] /= total
            out[s, i, 1] /= total
    return out
