"""The compiled sum over classes: ln of the sum of densities, added up over trajectories."""

__all__ = ["sum_over_classes"]

import numpy as np

from driftbayes.kernels.compiled import compiled
from driftbayes.kernels.filter import KERNEL_OPTIONS

# A class this much less likely, in nats, adds nothing in double precision.
_NOTHING = 40.0
# Sums lie between 1 and the number of classes: so many are multiplied before a logarithm is taken.
_TOGETHER = 64


@compiled(**KERNEL_OPTIONS)
def sum_over_classes(constants, quadratic, pattern, out):  # type: ignore[no-untyped-def]
    r"""Add up $\ln\sum_c \exp(a_{cp} - \tfrac12 Q_{ct})$ over trajectories t of patterns p.

    Args:
        constants: a, (point, class, pattern); no number counts as minus infinity.
        quadratic: Q, (point, class, trajectory).
        pattern: Pattern of each trajectory.
        out: Result, one number per point.
    """
    n_points, n_classes, n_tracks = quadratic.shape
    value = np.empty(n_classes)
    for point in range(n_points):
        total, product, waiting = 0.0, 1.0, 0
        for t in range(n_tracks):
            best = -np.inf
            for c in range(n_classes):
                one = constants[point, c, pattern[t]] - 0.5 * quadratic[point, c, t]
                value[c] = one
                if one > best:
                    best = one
            total += best
            each = 0.0
            for c in range(n_classes):
                below = best - value[c]
                if below < _NOTHING:
                    each += np.exp(-below) if below > 0.0 else 1.0
            product *= each
            waiting += 1
            if waiting == _TOGETHER:
                total += np.log(product)
                product, waiting = 1.0, 0
        out[point] = total + np.log(product)
