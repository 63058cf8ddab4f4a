"""Modes of a posterior of which nothing but the scale is left: roots of a quadratic equation."""

__all__ = ["closed_modes"]

import numpy as np

from driftbayes.inference.density import Density
from driftbayes.inference.formulas import points_at, unconstrained
from driftbayes.inference.newton import Maximum
from driftbayes.inference.scale import GammaForm, most_likely_scale
from driftbayes.inference.search import Modes
from driftbayes.likelihood.terms import gaussian_log_density


# Where nothing is finite the result says so in its status, not NumPy in a warning.
@np.errstate(all="ignore")
def closed_modes(density: Density, form: GammaForm) -> Modes:
    """Modes of the density of θ and of that of z, where the scale is the only parameter.

    Args:
        density: Hypothesis and data.
        form: Prior of the scale.
    """
    _, n, log_det, quadratic = density.terms(np.ones((1, 1)))
    both = []
    for natural in (True, False):
        scale = most_likely_scale(n, quadratic, form, natural=natural)
        z = unconstrained(density.hypothesis, scale[:, None])
        _, log_prior, log_jacobian = points_at(density.hypothesis, z)
        fit = gaussian_log_density(n, log_det, quadratic, scale, np)
        value = float((fit + log_prior[:, 0] + (0.0 if natural else log_jacobian[:, 0]))[0])
        # Of - β ln c - Q/2c - λc with respect to ln c.
        curvature = float((0.5 * quadratic / scale + form.rate * scale)[0])
        converged = bool(np.isfinite(value) and curvature > 0)
        both.append(Maximum(z[0], value, np.array([[-curvature]]), converged))
    natural_mode, free = both
    log_mass = free.value + 0.5 * np.log(2 * np.pi) - 0.5 * np.log(-free.hessian[0, 0])
    mass = np.array([log_mass if free.converged else -np.inf])
    return Modes(natural_mode, free, (free,), mass, np.zeros((0, 1)), np.zeros(0))
