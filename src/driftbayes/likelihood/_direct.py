"""Displacements whose density is computed directly instead of from sums over steps."""

__all__ = ["AbstractDirect"]

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np

from driftbayes._typing import FloatArray
from driftbayes.data._sampling import Displacements
from driftbayes.errors import DriftbayesError
from driftbayes.likelihood._runs import Context


@dataclass(frozen=True, eq=False)
class AbstractDirect(ABC):
    """An engine that evaluates the density of displacements at many parameter values."""

    data: Displacements

    noisy = False

    # The same as those of the displacements.
    n_dim = property(attrgetter("data.n_dim"))
    tau = property(attrgetter("data.tau"))
    length_unit = property(attrgetter("data.length_unit"))
    time_unit = property(attrgetter("data.time_unit"))
    fingerprint = property(attrgetter("data.fingerprint"))
    n_particles = property(attrgetter("data.n_particles"))
    n_steps = property(attrgetter("data.n_steps"))
    n_displacements = property(attrgetter("data.n_displacements"))

    @property
    def shortest_step(self) -> float:
        """Duration of the shortest step."""
        return float(self.data.interval.min())

    @property
    def context(self) -> Context:
        """Location of the data, which these models do not use."""
        return Context(np.zeros(self.n_dim))

    def thinned(self, n_steps: int) -> tuple[Any, float]:
        """Return all data, since a subset would not be cheaper."""
        return self, 1.0

    def sums(self, formulas: Any) -> Any:
        """Raise an error: these densities are not functions of second moments."""
        msg = "the density of these data has no second moments; use `log_densities`"
        raise DriftbayesError(msg)

    @abstractmethod
    def log_densities(self, model: Any, values: Mapping[str, FloatArray]) -> FloatArray:
        """Compute ln p of the data at each parameter value."""
