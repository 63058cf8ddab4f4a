"""Kurtosis of displacements against lag: are they Gaussian, as every model here assumes?"""

__all__ = ["kurtosis"]

import numpy as np

from driftbayes.typing import FloatArray


def kurtosis(second: FloatArray, fourth: FloatArray, counts: FloatArray) -> FloatArray:
    r"""Kurtosis of displacements, 3 for a Gaussian, pooled over axes, times and particles.

    $$\mathrm{kurtosis}(\mathrm{lag}) =
      \frac{\langle \Delta X_i^4 \rangle}{\langle \Delta X_i^2 \rangle^2}$$

    Pooling mixes axes and particles, so unequal diffusivities raise it above 3 even if each
    displacement is Gaussian. No mean is subtracted. NaN where there is no pair or no motion.

    Args:
        second: Sum of dX².
        fourth: Sum of dX⁴.
        counts: Number of displacements that were summed.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        # Divided in turn: the square of a sum over millions of pairs could overflow.
        return (fourth / second) * (counts / second)
