"""Data whose density is computed directly instead of from sums over steps."""

__all__ = ["AbstractDirect", "DirectDisplacements"]

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from driftbayes._typing import FloatArray
from driftbayes.data._sampling import Displacements
from driftbayes.errors import DriftbayesError
from driftbayes.likelihood._runs import Context


class AbstractDirect(ABC):
    """Data that act as their own engine, with the attributes of displacements declared here."""

    # Positions are treated as exact.
    noisy = False

    if TYPE_CHECKING:

        @property
        def n_dim(self) -> int: ...
        @property
        def tau(self) -> float: ...
        @property
        def shortest_step(self) -> float: ...
        @property
        def length_unit(self) -> str: ...
        @property
        def time_unit(self) -> str: ...
        @property
        def fingerprint(self) -> str: ...
        @property
        def n_particles(self) -> int: ...
        @property
        def n_steps(self) -> int: ...
        @property
        def n_displacements(self) -> int: ...

    @property
    def context(self) -> Context:
        """Location of the data, which these models do not use."""
        return Context(np.zeros(self.n_dim))

    def thinned(self, n_steps: int) -> tuple[Any, float]:
        """Return all data, unless a subset would be cheaper."""
        return self, 1.0

    def sums(self, formulas: Any) -> Any:
        """Raise an error: these densities are not functions of second moments."""
        msg = "the density of these data has no second moments; use `log_densities`"
        raise DriftbayesError(msg)

    @abstractmethod
    def log_densities(self, model: Any, values: Mapping[str, FloatArray]) -> FloatArray:
        """Compute ln p of the data under a model at each value of its parameters."""


@dataclass(frozen=True, eq=False)
class DirectDisplacements(AbstractDirect):
    """Displacements whose density is computed directly.

    Args:
        data: The displacements.
    """

    data: Displacements

    if not TYPE_CHECKING:
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
