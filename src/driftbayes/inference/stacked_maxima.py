"""Modes of many data sets as one search gives them: places, values and second derivatives."""

__all__ = ["stacked_maxima"]

import numpy as np

from driftbayes.inference._batch import Batch
from driftbayes.inference.hypothesis import Hypothesis
from driftbayes.inference.newton import Maximum
from driftbayes.inference.stacked_density import StackedDensity, stacked_density
from driftbayes.inference.stacked_search import StackedPeaks, find_stacked_modes
from driftbayes.priors import Exponential, Gamma, LogNormal
from driftbayes.typing import FloatArray, IntArray

_AT_ONCE = 256


def stacked_maxima(hypothesis: Hypothesis, data: Batch) -> dict[int, tuple[Maximum, Maximum]]:
    """Modes of the density of θ and of that of ln θ, by data set.

    Data sets are left out for which the search is not certain, or that have several modes.

    Args:
        hypothesis: Model family and prior.
        data: One data set or several.
    """
    density = stacked_density(hypothesis, data)
    left = None if density is None else density.left
    # Only there ln θ is the unconstrained coordinate.
    positive = (Exponential, Gamma, LogNormal)
    if density is None or (
        left is not None and not isinstance(hypothesis.priors[hypothesis.names[left]], positive)
    ):
        return {}
    found: dict[int, tuple[Maximum, Maximum]] = {}
    for low in range(0, len(density.stack), _AT_ONCE):
        sets = np.arange(low, min(low + _AT_ONCE, len(density.stack)))
        if left is None:
            free = natural = _without_search(density, sets)
            certain = np.ones(len(sets), dtype=bool)
        else:
            modes = find_stacked_modes(density, sets, with_natural=True)
            assert modes.natural is not None
            free, natural = modes.free, modes.natural
            certain = modes.certain & (modes.reach[:, 0] == modes.reach[:, 1])
        both = (_maxima(density, natural, natural=True), _maxima(density, free, natural=False))
        for i, is_one, *pair in zip(sets.tolist(), certain, *both, strict=True):
            if is_one and all(one.converged for one in pair):
                found[i] = (pair[0], pair[1])
    return found


def _without_search(density: StackedDensity, sets: IntArray) -> StackedPeaks:
    """No parameter is left."""
    nothing = np.zeros(len(sets))
    return StackedPeaks(nothing, nothing, nothing, density.at(sets, nothing))


@np.errstate(all="ignore")
def _maxima(density: StackedDensity, peaks: StackedPeaks, *, natural: bool) -> list[Maximum]:
    r"""Maxima in all coordinates from those of the profile $\max_c$.

    Of $f(z, \ln c) = \dots - \beta\ln c - Q(z)/2c - \lambda c$ the second derivatives with the
    scale are known, and that along z alone follows from the curvature of the profile.
    """
    points, place, left = peaks.points, density.place, density.left
    scale = density.most_likely_scale(points, natural=natural)
    values = density.log_profile(points, natural=natural)
    n, n_parameters = len(scale), len(density.hypothesis.names)
    z, hessian = np.empty((n, n_parameters)), np.empty((n, n_parameters, n_parameters))
    z[:, place] = np.log(scale)
    own = -(0.5 * points.quadratic / scale + density.form.rate * scale)
    hessian[:, place, place] = own
    if left is not None:
        cross: FloatArray = 0.5 * peaks.slope / scale
        z[:, left] = peaks.z
        hessian[:, left, place] = hessian[:, place, left] = cross
        hessian[:, left, left] = -1 / peaks.width**2 + cross**2 / own
    good = np.isfinite(values) & np.isfinite(z).all(axis=1) & np.isfinite(hessian).all(axis=(1, 2))
    good &= own < 0
    return [
        Maximum(where, value, second, bool(is_good))
        for where, value, second, is_good in zip(z, values.tolist(), hessian, good, strict=True)
    ]
