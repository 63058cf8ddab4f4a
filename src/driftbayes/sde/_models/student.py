"""Langevin motion driven by Student's noise: Gaussian noise of fluctuating intensity."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.polynomial import chebyshev
from scipy.special import gammainccinv, gammaincinv, ndtr

from driftbayes.errors import DriftbayesError, shown
from driftbayes.models import Parameter
from driftbayes.sde._law import Hidden
from driftbayes.sde._model import SDE
from driftbayes.sde._models._parameters import LANGEVIN, friction, white_noise
from driftbayes.sde._models.dissipation import relaxation, renewal_noise, steady

# Range of the interpolated intensity: a normal number exceeds it with probability 1e-15.
_RANGE = 8.0
_DEGREE = 40


def log_intensity(degrees: float) -> Callable[[Array], Array]:
    """Return the log intensity as a function of a standard normal number.

    Args:
        degrees: Degrees of freedom ν > 2; the intensity is (ν - 2) over a chi-square variable.
    """
    z = _RANGE * np.cos(np.pi * (np.arange(_DEGREE + 1) + 0.5) / (_DEGREE + 1))
    # The intensity increases with z; each tail is inverted separately.
    half = degrees / 2
    chi_square = 2 * np.where(
        z > 0, gammaincinv(half, ndtr(-np.abs(z))), gammainccinv(half, ndtr(-np.abs(z)))
    )
    values = np.log(degrees - 2) - np.log(chi_square)
    coefficients = chebyshev.chebfit(z / _RANGE, values, _DEGREE)

    def evaluate(z: Array) -> Array:
        x = jnp.clip(z / _RANGE, -1.0, 1.0)
        first = second = jnp.zeros_like(x)
        for coefficient in coefficients[:0:-1]:
            first, second = coefficient + 2 * x * first - second, first
        return coefficients[0] + x * first - second

    return evaluate


def student_langevin(degrees: float = 4.0) -> SDE:
    r"""Langevin motion driven by noise with Student's distribution.

    $$\mathrm{d}U = -\gamma U\,\mathrm{d}t + \gamma\sqrt{2k\,\varepsilon(t)}\,\mathrm{d}W, \qquad
      \varepsilon = (\nu - 2)/\chi^2_\nu$$

    The relative intensity ε has mean 1 and an inverse gamma distribution at any time, and is common
    to the axes of a particle. It is a function of an Ornstein--Uhlenbeck process Z of unit variance
    with decorrelation rate β. Given ε the noise is Gaussian. Noise over times much shorter than 1/β
    has Student's multivariate distribution with ν degrees of freedom; over much longer times it is
    Gaussian. Second moments are those of `Langevin(gamma, k)`. As β → 0 the model is
    `langevin+scatter` with $s^2 = 2/\nu$ and $k(\nu - 2)/\nu$; as β → ∞, or ν → ∞, it is
    `Langevin(gamma, k)`. It is not a Lévy process: its increments are dependent.

    Args:
        degrees: Fixed degrees of freedom ν > 2; for the default of 4, fourth moments of the
            velocity do not exist.

    Raises:
        DriftbayesError: ν is not above 2.

    Example:
        >>> from driftbayes.sde import student_langevin
        >>> list(student_langevin(degrees=5.0).parameters)
        ['gamma', 'k', 'renewal']
    """
    if not (np.isfinite(degrees) and degrees > 2):
        msg = f"degrees must be a number above 2, got {shown(degrees)}; the variance needs it"
        raise DriftbayesError(msg)
    log_epsilon = log_intensity(degrees)

    def diffusion(x: Array, u: Array, t: Array, theta: Any, v: Array) -> Array:
        return white_noise(x, u, t, theta) * jnp.exp(0.5 * log_epsilon(v[0]))

    return SDE(
        friction,
        diffusion,
        {**LANGEVIN, "renewal": Parameter("β", "decorrelation rate of the intensity", 0, -1)},
        name="student_langevin",
        summary=f"langevin driven by Student's noise of {degrees:g} degrees of freedom",
        hidden=Hidden(1, relaxation, renewal_noise, steady),
    )
