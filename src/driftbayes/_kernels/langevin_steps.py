"""Compiled filter of Langevin steps of any durations at many rates, summed by set of steps."""

import numpy as np

from driftbayes._kernels.compiled import KERNEL_OPTIONS, compiled

# Log-variances, whitened durations squared, steps squared; then products with durations by axis.
N_SUMS = 3
# Below this γh the residual variance of a step would lose digits and is computed by a series.
_SERIES_END = 0.1


@compiled(**KERNEL_OPTIONS)
def sum_langevin_steps(dx, interval, stretches, labels, rates, out):  # type: ignore[no-untyped-def]
    r"""Add up whitened products of steps, each given the steps before it in its stretch.

    The state is the velocity, of variance γ at unit diffusivity k. With $E = e^{-\gamma h} - 1$ a
    step of duration h is $\Delta x = -E v/\gamma$ plus noise of variance
    $(2/\gamma)(\gamma h + E - E^2/2)$; the velocity becomes $(1+E)\,v$ plus noise of variance
    $-\gamma E (2+E)$; the two noises have the covariance $E^2$.

    Args:
        dx: Steps, (step, axis).
        interval: Duration of each step.
        stretches: First step, first step that counts, and end of each stretch.
        labels: Set of each step: its row in the result.
        rates: γ.
        out: Sums to add to, (rate, set, `N_SUMS` + axis).
    """
    n_dim = dx.shape[1]
    mean = np.zeros(n_dim + 1)
    left = np.zeros(n_dim + 1)
    for i in range(len(rates)):
        rate = rates[i]
        for j in range(len(stretches)):
            mean[:] = 0.0
            variance = rate
            last = -1.0
            reach = keep = own = inner = cross = 0.0
            for n in range(stretches[j, 0], stretches[j, 2]):
                h = interval[n]
                if h != last:
                    last = h
                    x = rate * h
                    e = np.expm1(-x)
                    reach, keep, cross = -e / rate, 1 + e, e * e
                    inner = -rate * e * (2 + e)
                    if x < _SERIES_END:
                        # Terms (2 - 2^(k-1)) (-x)^k / k!.
                        term, power, rest = -x * x * x / 6, 4.0, 0.0
                        for k in range(3, 13):
                            rest += (2 - power) * term
                            term *= -x / (k + 1)
                            power *= 2
                    else:
                        rest = x + e - 0.5 * e * e
                    own = 2 / rate * rest
                spread = reach * reach * variance + own
                gain = (keep * reach * variance + cross) / spread
                for a in range(n_dim):
                    left[a] = dx[n, a] - reach * mean[a]
                left[n_dim] = h - reach * mean[n_dim]
                if n >= stretches[j, 1]:
                    row = out[i, labels[n]]
                    row[0] += np.log(spread)
                    row[1] += left[n_dim] * left[n_dim] / spread
                    for a in range(n_dim):
                        row[2] += left[a] * left[a] / spread
                        row[3 + a] += left[a] * left[n_dim] / spread
                for a in range(n_dim + 1):
                    mean[a] = keep * mean[a] + gain * left[a]
                variance = max(keep * keep * variance + inner - gain * gain * spread, 0.0)
