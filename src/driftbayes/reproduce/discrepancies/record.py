"""All four discrepancies together, and their files."""

__all__ = ["Discrepancies", "run_discrepancies", "write_discrepancies"]

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from driftbayes._version import __version__
from driftbayes.reproduce.discrepancies.figure import discrepancies_figure
from driftbayes.reproduce.discrepancies.forcing import ForcingReadings, forcing_readings
from driftbayes.reproduce.discrepancies.halfplane import SpuriousMode, spurious_mode
from driftbayes.reproduce.discrepancies.labels import MislabelledTau, mislabelled_tau
from driftbayes.reproduce.discrepancies.schemes import ParticleScheme, particle_scheme
from driftbayes.reproduce.folder import plain, write_result


@dataclass(frozen=True, eq=False)
class Discrepancies:
    """What the paper's turbulence experiment gets wrong.

    Args:
        forcing: What the printed amplitude of the forcing can mean.
        spurious: A mode that is counted but does not flow.
        scheme: A scheme for the particles of first order.
        labels: Data at one sampling time judged at another.
    """

    forcing: ForcingReadings
    spurious: SpuriousMode
    scheme: ParticleScheme
    labels: MislabelledTau

    def sentences(self) -> list[str]:
        """The findings in a few words."""
        forcing, spurious, scheme, labels = self.forcing, self.spurious, self.scheme, self.labels
        printed, meant = (forcing.epsilon[forcing.names.index(name)] for name in "ab")
        energy, enstrophy = spurious.energy_mean, spurious.enstrophy_mean
        order = scheme.papers_order[1, 0]
        change, error = scheme.msd_change[0], scheme.msd_change_error[0]
        return [
            f"forcing: as printed it injects {printed:.5f}, read with twice the variance "
            f"{meant:.5f} per unit area",
            f"half-plane noise: counts {energy[0]:.4f} ± {energy[1]:.4f} of energy and "
            f"{enstrophy[0]:.0f} ± {enstrophy[1]:.0f} of enstrophy that do not flow; the published "
            f"excess is {spurious.energy_published[0]:.4f} and "
            f"{spurious.enstrophy_published[0]:.0f}",
            f"particles: the paper's scheme is of order {order:.2f}; mean square displacement "
            f"changes by {change:.0e} ± {error:.0e} at a lag of {scheme.lags[0]:g} turnover times",
            f"labels of τ: wrong by up to {100 * (1 - labels.ratio.min()):.1f} %, which multiplies "
            "κ, γ and k by as much",
        ]

    def to_json(self) -> dict[str, Any]:
        """Return all numbers as plain numbers and text."""
        return {
            "driftbayes_version": __version__,
            "forcing_readings": plain(self.forcing),
            "spurious_mode": plain(self.spurious),
            "particle_scheme": plain(self.scheme),
            "mislabelled_tau": plain(self.labels),
        }


def run_discrepancies(
    seed: int = 0, *, progress: Callable[[str, int, int], None] | None = None
) -> Discrepancies:
    """Compute all four; a minute on two cores.

    Args:
        seed: Of every simulation.
        progress: Told what was done, how many parts that makes and of how many.
    """
    parts: dict[str, Callable[[int], Any]] = {
        "forcing": forcing_readings,
        "spurious": spurious_mode,
        "scheme": particle_scheme,
        "labels": mislabelled_tau,
    }
    found: dict[str, Any] = {}
    for name, compute in parts.items():
        found[name] = compute(seed)
        if progress is not None:
            progress("discrepancies", len(found), len(parts))
    return Discrepancies(**found)


def write_discrepancies(result: Discrepancies, directory: Path) -> list[Path]:
    """Write the numbers as JSON and the figure as PNG and PDF, each whole or not at all.

    Args:
        result: What was computed.
        directory: Made if it is not there.
    """
    figure = discrepancies_figure(result)
    return write_result(directory, "discrepancies", result.to_json(), figure)
