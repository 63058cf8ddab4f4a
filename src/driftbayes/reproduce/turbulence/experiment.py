"""The runs of section 5: flows, particles and sampling times."""

__all__ = ["PAPER", "PUBLISHED", "Experiment", "Scaling", "strides"]

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from driftbayes._typing import IntArray
from driftbayes.turbulence.config import RunConfig


@dataclass(frozen=True)
class Scaling:
    r"""Scales of the flow.

    $$u_\mathrm{RMS} = \sqrt{2E}, \qquad
      \tau_\zeta = 2\pi \Big/ \sqrt{(2\pi)^2\,\tfrac12\langle\zeta^2\rangle}$$

    Args:
        energy_mean: E, per unit area.
        enstrophy_mean: ½⟨ζ²⟩, per unit area; Z in the paper's τ_ζ is its integral.
    """

    energy_mean: float
    enstrophy_mean: float

    @property
    def u_rms(self) -> float:
        """Root mean square speed."""
        return math.sqrt(2 * self.energy_mean)

    @property
    def eddy_turnover_time(self) -> float:
        """τ_ζ."""
        return 1 / math.sqrt(self.enstrophy_mean)


# Means over t = 500 to 1000. They include a spurious mode, and are used for the paper's axes and
# priors.
PUBLISHED = Scaling(energy_mean=0.2315, enstrophy_mean=185.2)


@dataclass(frozen=True)
class Experiment:
    """Runs, and the numbers computed from them.

    Args:
        realisations: Configuration of each independent realisation, by name.
        branches: Short runs from the last state of one realisation that differ in one option each;
            the others are compared with the first.
        branch_from: Name of that realisation.
        tau_range: Smallest and largest sampling time.
        n_taus: Number of sampling times.
        n_tau: Steps per window.
        n_groups: Number of groups of particles for error bars.
        max_windows: Maximum number of windows per tau with separate moments.
        n_shown: Number of trajectories kept for a figure.
        shown_time: Duration of each.
    """

    realisations: Mapping[str, RunConfig]
    branches: Mapping[str, RunConfig] = field(default_factory=dict)
    branch_from: str = ""
    tau_range: tuple[float, float] = (
        PUBLISHED.eddy_turnover_time,
        250 * PUBLISHED.eddy_turnover_time,
    )
    n_taus: int = 100
    n_tau: int = 25
    n_groups: int = 25
    max_windows: int = 64
    n_shown: int = 100
    shown_time: float = 8.4


def strides(interval: float, tau_range: tuple[float, float], n_taus: int) -> IntArray:
    """Return distinct numbers of recording intervals, evenly spaced in log tau where possible.

    Args:
        interval: Recording interval.
        tau_range: Smallest and largest sampling time.
        n_taus: Number of sampling times.
    """
    first, last = math.ceil(tau_range[0] / interval), math.floor(tau_range[1] / interval)
    n_taus = min(n_taus, last - first + 1)
    chosen = [first]
    for left in range(n_taus - 1, 0, -1):
        now = chosen[-1]
        chosen.append(max(now + 1, round(now * (last / now) ** (1 / left))))
    return np.array(chosen)


def _branch(**changes: object) -> RunConfig:
    return RunConfig.preset(
        "paper",
        **{"spin_up": 0.0, "duration": 50.0, "particles": 10_000, "snapshot_every": 1.0},
        **{"start": "given", "seed": 11, **changes},
    )


PAPER = Experiment(
    realisations={
        "single-2": RunConfig.preset("paper", seed=2, precision="single"),
        "double-1": RunConfig.preset("paper", seed=1),
        "single-3": RunConfig.preset("paper", seed=3, precision="single"),
        "single-4": RunConfig.preset("paper", seed=4, precision="single"),
    },
    branches={
        "bilinear": _branch(),
        "quintic": _branch(interpolation="quintic"),
        "single": _branch(precision="single"),
    },
    branch_from="double-1",
)
