"""Displacements of any number of runs of any length, of which only sums are left."""

__all__ = ["SummedDisplacements"]

from collections.abc import Mapping
from dataclasses import dataclass

from driftbayes.errors import DriftbayesError
from driftbayes.likelihood.channels import ChannelMoments
from driftbayes.likelihood.moments import SecondMoments


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
        msg = (
            f"moments of the kind {kind!r} with windows of {memory} steps were not summed; sum "
            "them again for the models that are to be compared"
        )
        raise DriftbayesError(msg)
