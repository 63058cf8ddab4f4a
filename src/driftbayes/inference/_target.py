"""Targets of samplers: prior and likelihood at many unconstrained points at once."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from driftbayes._typing import FloatArray, IntArray
from driftbayes.inference._density import Density
from driftbayes.inference._hypothesis import prior_quantiles
from driftbayes.inference._newton import Components, covariance
from driftbayes.inference._search import Modes

# The checks of annotations at run time know a class only as a whole.
if TYPE_CHECKING:
    from typing import Self
else:
    Self = Any

# Largest standard deviation of a Gaussian at a mode: flat directions would be wider.
_MAX_WIDTH = 3.0


class AbstractTarget(ABC):
    r"""A posterior, normalised by its evidence $Z = \int L(z)\,\pi(z)\,\mathrm dz$."""

    @property
    @abstractmethod
    def n_dim(self) -> int:
        """Number of coordinates."""

    @abstractmethod
    def log_densities(self, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Compute ln π(z), normalised, and ln L(z) at many points.

        Args:
            z: Points, (point, parameter).

        Returns:
            Two arrays (point,); minus infinity, never NaN, where the model is impossible.
        """

    @abstractmethod
    def sample_prior(self, rng: np.random.Generator, n: int) -> FloatArray:
        """Draw n points from π, (point, parameter)."""


@dataclass(frozen=True, eq=False)
class Points:
    """Points and their densities.

    Args:
        z: Points, (point, parameter).
        log_prior: ln π there.
        log_likelihood: ln L there.
    """

    z: FloatArray
    log_prior: FloatArray
    log_likelihood: FloatArray

    @classmethod
    def at(cls, target: AbstractTarget, z: FloatArray) -> Self:
        """Evaluate prior and likelihood."""
        return cls(z, *target.log_densities(z))

    def copy(self) -> Self:
        """Copy the points, to change them."""
        return self.take(np.arange(len(self.z)))

    def take(self, index: IntArray) -> Self:
        """Return copies of some of the points."""
        return replace(
            self,
            z=self.z[index],
            log_prior=self.log_prior[index],
            log_likelihood=self.log_likelihood[index],
        )

    def put(self, index: IntArray, new: "Points") -> None:
        """Replace some of the points."""
        self.z[index] = new.z
        self.log_prior[index] = new.log_prior
        self.log_likelihood[index] = new.log_likelihood


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
        """Draw n points from π by the quantiles of the priors."""
        return prior_quantiles(self.density.hypothesis, rng.random((n, self.n_dim)))


def finite(values: FloatArray) -> FloatArray:
    """Replace values that are not finite by minus infinity."""
    return np.where(np.isfinite(values), values, -np.inf)


def components_of(modes: Modes) -> Components:
    """Make Gaussians at all modes of the posterior."""
    centers = np.stack([mode.z for mode in modes.every])
    factors = np.linalg.cholesky(
        np.stack([covariance(mode.hessian, _MAX_WIDTH) for mode in modes.every])
    )
    return Components(centers, factors, modes.log_mass)
