"""Displacements reduced to sums."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from driftbayes._sums import diagonal_sums
from driftbayes._typing import FloatArray
from driftbayes.errors import DriftbayesError
from driftbayes.likelihood._channels import ChannelMoments
from driftbayes.likelihood._moments import SecondMoments


@dataclass(frozen=True, eq=False)
class ReducedDisplacements:
    r"""Many runs of equal length at one tau, as $M = \sum x x^\mathrm{T}$ over runs and axes.

    It can replace `Displacements` in comparisons and scans, gives the same evidence up to rounding,
    and takes a few kilobytes for any number of particles.

    Args:
        moment: M, n_steps by n_steps.
        n_runs: Number of runs in the sum; not an integer after `thinned`.
        n_dim: Number of spatial dimensions.
        n_particles: Number of particles.
        tau: Sampling time.
        fingerprint: Hash of the displacements.
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
        """Raise an error for invalid moments."""
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
        """Return the same statistics as from `factor` times fewer runs.

        Dependent runs contain the information of fewer independent ones. Dividing by the factor
        corrects the log-likelihood, so that the evidence is not overstated.

        Args:
            factor: Number of runs per independent run, 1 or more.
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
        """Return the moments for the moments engine."""
        n = self.n_steps
        return SecondMoments(
            forms=diagonal_sums(self.moment)[None],
            orders=np.array([n - 1]),
            paired=np.array([1.0]),
            predicted=np.full(n, float(self.n_runs * self.n_dim)),
            tau=np.array(self.tau),
        )


def window_moments(dx: FloatArray) -> FloatArray:
    """Compute M of each window, (window, step, step), from (particle, window, step, dim)."""
    n_particles, n_windows, n_steps, n_dim = dx.shape
    columns = dx.transpose(1, 2, 0, 3).reshape(n_windows, n_steps, n_particles * n_dim)
    return columns @ columns.transpose(0, 2, 1)


@dataclass(frozen=True, eq=False)
class SummedDisplacements:
    """Second moments of displacements at one tau, for runs of any lengths.

    It can replace `Displacements` in comparisons and scans.

    Args:
        summed: Moments summed over axes, by length of the longest window.
        channels: Moments with separate axes, by the same; empty if no model needs them.
        n_dim: Number of spatial dimensions.
        n_particles: Number of trajectories that gave at least one step.
        n_steps: Number of steps of the longest run.
        n_displacements: Number of scalar displacements: steps times axes.
        tau: Sampling time.
        fingerprint: Hash of the data, tau and units.
        n_unused: Number of trajectories without a run of the requested length.
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
        """Return the moments for the moments engine.

        Args:
            kind: "summed" over axes, or "channels" for separate axes.
            memory: Longest window.
        """
        known: Mapping[int, SecondMoments | ChannelMoments]
        known = self.summed if kind == "summed" else self.channels
        # All windows at least as long as the longest run are equivalent.
        for other in sorted(known):
            if other == memory or min(other, memory) >= self.n_steps:
                return known[other]
        raise DriftbayesError(
            f"moments of the kind {kind!r} with windows of {memory} steps were not summed; sum "
            "them again for the models that are to be compared"
        )
