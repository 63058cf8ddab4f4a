"""Targets with a known evidence, and a model with many parameters, for tests of samplers."""

from typing import ClassVar

import equinox as eqx
import numpy as np

from driftbayes._jax_typing import Leaf
from driftbayes._precision import as_leaf
from driftbayes._typing import FloatArray
from driftbayes.inference._target import AbstractTarget
from driftbayes.models import Brownian, Langevin
from driftbayes.models._base import AbstractModel, Parameter
from driftbayes.models._sums import AbstractSum


def _log_normal(z: FloatArray, mean: FloatArray | float, sd: FloatArray) -> FloatArray:
    """Ln of a product of normal densities over the last axis."""
    constant = np.sum(np.log(sd)) + 0.5 * len(sd) * np.log(2 * np.pi)
    return np.asarray(-0.5 * np.sum(((z - mean) / sd) ** 2, axis=-1) - constant)


class GaussianTarget(AbstractTarget):
    r"""Prior N(0, 1) and likelihood N(m, s²) in each of n dimensions.

    $$Z = \prod_i N(m_i; 0, 1 + s_i^2)$$

    Args:
        mean: m.
        sd: s.
    """

    def __init__(self, mean: FloatArray, sd: FloatArray) -> None:
        self.mean, self.sd = np.asarray(mean), np.asarray(sd)

    @classmethod
    def make(cls, n_dim: int) -> "GaussianTarget":
        """Make a target with means from 1 to -1 and widths from 0.1 to 0.5."""
        return cls(np.linspace(1.0, -1.0, n_dim), np.linspace(0.1, 0.5, n_dim))

    @property
    def n_dim(self) -> int:
        return len(self.mean)

    def log_densities(self, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        return _log_normal(z, 0.0, np.ones(self.n_dim)), _log_normal(z, self.mean, self.sd)

    def sample_prior(self, rng: np.random.Generator, n: int) -> FloatArray:
        return rng.normal(size=(n, self.n_dim))

    @property
    def log_evidence(self) -> float:
        """Exact log evidence."""
        return float(_log_normal(self.mean, 0.0, np.sqrt(1 + self.sd**2)))

    @property
    def expected_log_likelihood(self) -> float:
        """Posterior mean of ln L."""
        variance = self.sd**2 / (1 + self.sd**2)
        shift = self.mean * self.sd**2 / (1 + self.sd**2)
        inner = (variance + shift**2) / self.sd**2
        return float(np.sum(-0.5 * inner - np.log(self.sd) - 0.5 * np.log(2 * np.pi)))


class PeaksTarget(AbstractTarget):
    r"""Prior N(0, w²) and a likelihood of two equal peaks of width s, which may coincide.

    Args:
        prior_sd: w, of each coordinate.
        first: Place of one peak.
        second: Place of the other.
        sd: s, of each coordinate.
    """

    def __init__(
        self, prior_sd: FloatArray, first: FloatArray, second: FloatArray, sd: FloatArray
    ) -> None:
        self.prior_sd, self.first, self.second, self.sd = map(
            np.asarray, (prior_sd, first, second, sd)
        )

    @classmethod
    def make(cls, n_dim: int) -> "PeaksTarget":
        """Make a target with prior N(0, 3²) and peaks of width 0.5 at +3 and -3."""
        ones = np.ones(n_dim)
        return cls(3 * ones, 3 * ones, -3 * ones, 0.5 * ones)

    @property
    def n_dim(self) -> int:
        return len(self.first)

    def log_densities(self, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        both = [_log_normal(z, at, self.sd) for at in (self.first, self.second)]
        return _log_normal(z, 0.0, self.prior_sd), np.logaddexp(*both) - np.log(2)

    def sample_prior(self, rng: np.random.Generator, n: int) -> FloatArray:
        return self.prior_sd * rng.normal(size=(n, self.n_dim))

    @property
    def log_evidence(self) -> float:
        """Exact log evidence."""
        width = np.hypot(self.prior_sd, self.sd)
        parts = [_log_normal(at, 0.0, width) for at in (self.first, self.second)]
        return float(np.logaddexp(*parts) - np.log(2))


class ConstantTarget(AbstractTarget):
    """Prior N(0, 1), likelihood 1: the evidence is 1.

    Args:
        n_dim: Number of dimensions.
    """

    def __init__(self, n_dim: int) -> None:
        self._n_dim = n_dim

    @property
    def n_dim(self) -> int:
        return self._n_dim

    def log_densities(self, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        return _log_normal(z, 0.0, np.ones(self.n_dim)), np.zeros(len(z))

    def sample_prior(self, rng: np.random.Generator, n: int) -> FloatArray:
        return rng.normal(size=(n, self.n_dim))

    @property
    def log_evidence(self) -> float:
        """Exact log evidence."""
        return 0.0


class TwoSpeeds(AbstractSum):
    r"""A fast and a slow Langevin velocity and a Brownian part, all independent.

    $$r(t) = k\,\bigl[\gamma_1 e^{-\gamma_1 |t|} + s\,\gamma_2 e^{-\gamma_2 |t|} + 2 b\,\delta(t)
      \bigr]$$

    Args:
        gamma: Inverse decorrelation time of the first velocity.
        slow: Inverse decorrelation time of the second velocity.
        share: Diffusivity of the second relative to the first, s.
        rest: Diffusivity of the Brownian part relative to the first, b.
        k: Diffusivity of the first.
    """

    gamma: Leaf = eqx.field(converter=as_leaf)
    slow: Leaf = eqx.field(converter=as_leaf)
    share: Leaf = eqx.field(converter=as_leaf)
    rest: Leaf = eqx.field(converter=as_leaf)
    k: Leaf = eqx.field(converter=as_leaf)

    name: ClassVar[str] = "two_speeds"
    summary: ClassVar[str] = "two Langevin velocities and a Brownian part"
    parameters: ClassVar[dict[str, Parameter]] = {
        "gamma": Parameter("γ", "inverse decorrelation time of the first velocity", 0, -1),
        "slow": Parameter("γ₂", "that of the second", 0, -1),
        "share": Parameter("s", "relative diffusivity of the second", 0, 0),
        "rest": Parameter("b", "relative diffusivity of the Brownian part", 0, 0),
        "k": Parameter("k", "diffusivity of the first", 2, -1),
    }
    scale_parameter: ClassVar[str] = "k"
    limit: ClassVar[str] = "langevin, as share and rest → 0"

    @property
    def parts(self) -> tuple[AbstractModel, ...]:
        return (
            Langevin(gamma=self.gamma, k=self.k),
            Langevin(gamma=self.slow, k=self.k * self.share),
            Brownian(kappa=self.k * self.rest),
        )
