r"""What a sampler samples: prior density and likelihood at many unconstrained points z at once."""

__all__ = ["AbstractTarget", "Guide", "PosteriorTarget", "components_of", "finite", "guide_of"]

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from driftbayes.inference.density import Density
from driftbayes.inference.hypothesis import prior_quantiles
from driftbayes.inference.proposals import Components
from driftbayes.inference.search import Modes
from driftbayes.typing import FloatArray


class AbstractTarget(ABC):
    r"""A posterior known up to its constant, the evidence $Z = \int L(z)\,\pi(z)\,\mathrm dz$."""

    @property
    @abstractmethod
    def n_dim(self) -> int:
        """Number of coordinates."""

    @abstractmethod
    def log_densities(self, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Ln π(z), normalised, and ln L(z) at each of many points.

        Args:
            z: Points, (point, parameter).

        Returns:
            Two arrays (point,); minus infinity, never NaN, where the model is impossible.
        """

    @abstractmethod
    def sample_prior(self, rng: np.random.Generator, n: int) -> FloatArray:
        """Draw n points from π, (point, parameter)."""


@dataclass(frozen=True, eq=False)
class PosteriorTarget(AbstractTarget):
    """A hypothesis and its data, in the unconstrained coordinates of the priors.

    Args:
        density: Joint density of data and parameters.
    """

    density: Density

    @property
    def n_dim(self) -> int:
        return len(self.density.hypothesis.names)

    def log_densities(self, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        points = self.density.at(z)
        log_prior = (points.log_priors + points.log_jacobians).sum(axis=1)
        return finite(log_prior), finite(points.log_likelihood)

    def sample_prior(self, rng: np.random.Generator, n: int) -> FloatArray:
        return prior_quantiles(self.density.hypothesis, rng.random((n, self.n_dim)))


def finite(values: FloatArray) -> FloatArray:
    """The values; minus infinity where a parameter overflows or a density is not defined."""
    return np.where(np.isfinite(values), values, -np.inf)


@dataclass(frozen=True, eq=False)
class Guide:
    """A Gaussian that is roughly where the posterior is.

    Args:
        center: The mode of the density of z.
        factor: Lower-triangular factor of the covariance of a Gaussian of the same curvature.
        converged: Whether the mode was found.
    """

    center: FloatArray
    factor: FloatArray
    converged: bool = True


def guide_of(modes: Modes) -> Guide:
    """Make the guide of a sampler from the modes of the posterior."""
    return Guide(modes.free.z, _factor(modes.free.hessian), bool(modes.free.converged))


def components_of(modes: Modes) -> Components:
    """Gaussians at all modes of the posterior."""
    centers = np.stack([mode.z for mode in modes.every])
    factors = np.stack([_factor(mode.hessian) for mode in modes.every])
    return Components(centers, factors, modes.log_mass)


def _factor(hessian: FloatArray) -> FloatArray:
    curvature, axes = np.linalg.eigh(-np.nan_to_num(hessian))
    # Widths within reason: a flat direction is as wide as a factor of twenty.
    variance = np.clip(1 / np.maximum(np.abs(curvature), 1e-30), 1e-20, 9.0)
    return np.asarray(np.linalg.cholesky((axes * variance) @ axes.T))
