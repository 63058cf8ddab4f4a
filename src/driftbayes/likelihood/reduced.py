"""Displacements of which only sums are left."""

__all__ = [
    "ReducedDisplacements",
    "SummedDisplacements",
    "window_moments",
]

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from driftbayes.errors import DriftbayesError
from driftbayes.likelihood.channels import ChannelMoments
from driftbayes.likelihood.moments import SecondMoments
from driftbayes.sums import diagonal_sums
from driftbayes.typing import FloatArray


@dataclass(frozen=True, eq=False)
class ReducedDisplacements:
    r"""Many runs of equal length at one tau, as $M = \sum x x^\mathrm{T}$ over runs and axes.

    It takes the place of `Displacements` wherever these are compared or scanned, gives the same
    evidence to rounding, and takes a few kilobytes whatever the number of particles.

    Args:
        moment: M, n_steps by n_steps.
        n_runs: Number of runs that were summed; `thinned` may leave a fraction.
        n_dim: Number of spatial dimensions.
        n_particles: Number of particles they came from.
        tau: Sampling time.
        fingerprint: That of the displacements they stand for.
        length_unit: Name of the unit of length, empty if unknown.
        time_unit: Name of the unit of tau, empty if unknown.
    """

    moment: FloatArray
    n_runs: int | float
    n_dim: int
    n_particles: int
    tau: float
    fingerprint: str
    length_unit: str = ""
    time_unit: str = ""

    def __post_init__(self) -> None:
        """Refuse what cannot be second moments."""
        moment = self.moment
        square = moment.ndim == 2 and moment.shape[0] == moment.shape[1] > 0
        if not square or not np.isfinite(moment).all() or not (np.diagonal(moment) > 0).all():
            raise DriftbayesError(
                "moment must be a square matrix of finite numbers with a positive diagonal, got "
                f"shape {moment.shape}; sum x xᵀ over runs and axes"
            )
        if not (np.isfinite(self.tau) and self.tau > 0 and self.n_runs > 0 and self.n_dim > 0):
            raise DriftbayesError(
                f"tau, n_runs and n_dim must be positive, got {self.tau}, {self.n_runs} and "
                f"{self.n_dim}"
            )

    @property
    def n_steps(self) -> int:
        """Number of steps of a run."""
        return len(self.moment)

    @property
    def n_displacements(self) -> int:
        """Number of scalar displacements: runs times steps times axes."""
        return round(self.n_runs * self.n_steps * self.n_dim)

    def thinned(self, factor: float) -> "ReducedDisplacements":
        """The same statistics from `factor` times fewer runs.

        Runs that are not independent carry the information of fewer that are. With the number of
        those, the log-likelihood is divided by the factor, and evidence is no longer overstated.

        Args:
            factor: By how much, 1 or more.
        """
        if not (np.isfinite(factor) and factor >= 1):
            raise DriftbayesError(f"the factor to thin by must be 1 or more, got {factor}")
        return replace(
            self,
            moment=self.moment / factor,
            n_runs=self.n_runs / factor,
            fingerprint=f"{self.fingerprint}/{factor!r}",
        )

    def second_moments(self) -> SecondMoments:
        """What the statistics engine works with."""
        n = self.n_steps
        return SecondMoments(
            forms=diagonal_sums(self.moment)[None],
            orders=np.array([n - 1]),
            paired=np.array([1.0]),
            predicted=np.full(n, float(self.n_runs * self.n_dim)),
            tau=np.array(self.tau),
        )


def window_moments(dx: FloatArray) -> FloatArray:
    """M of each window: (window, step, step) from steps (particle, window, step, dim)."""
    n_particles, n_windows, n_steps, n_dim = dx.shape
    columns = dx.transpose(1, 2, 0, 3).reshape(n_windows, n_steps, n_particles * n_dim)
    return columns @ columns.transpose(0, 2, 1)


@dataclass(frozen=True, eq=False)
class SummedDisplacements:
    """Second moments of displacements at one tau, whatever the lengths of the runs.

    It takes the place of `Displacements` wherever these are compared or scanned.

    Args:
        summed: Moments summed over axes, by the memory they were summed with.
        channels: Moments with the axes apart, likewise; empty if no model asks for them.
        n_dim: Number of spatial dimensions.
        n_particles: Number of trajectories that gave at least one step.
        n_steps: Number of steps of the longest run.
        n_displacements: Number of scalar displacements: steps times axes.
        tau: Sampling time.
        fingerprint: Of the data, tau and units.
        n_unused: Trajectories that gave no run of the requested length.
        length_unit: Name of the unit of length, empty if unknown.
        time_unit: Name of the unit of tau, empty if unknown.
    """

    summed: Mapping[int, SecondMoments]
    channels: Mapping[int, ChannelMoments]
    n_dim: int
    n_particles: int
    n_steps: int
    n_displacements: int
    tau: float
    fingerprint: str
    n_unused: int = 0
    length_unit: str = ""
    time_unit: str = ""

    def moments(self, kind: str, memory: int) -> SecondMoments | ChannelMoments:
        """What the statistics engine works with.

        Args:
            kind: "summed" over axes, or "channels".
            memory: Longest window.
        """
        known: Mapping[int, SecondMoments | ChannelMoments]
        known = self.summed if kind == "summed" else self.channels
        # Windows longer than all runs make no difference.
        for other in sorted(known):
            if other == memory or min(other, memory) >= self.n_steps:
                return known[other]
        raise DriftbayesError(
            f"moments of the kind {kind!r} with windows of {memory} steps were not summed; sum "
            "them again for the models that are to be compared"
        )
