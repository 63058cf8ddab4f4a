"""Export parameters of a scan, or grids of a map, to Parcels, OpenDrift and other programs."""

__all__ = [
    "SIMULATORS",
    "Dispersion",
    "Estimate",
    "GridExport",
    "GriddedDispersion",
    "Recommendation",
    "export",
    "export_grid",
    "gridded",
    "recommend",
]

from collections.abc import Callable

from driftbayes.errors import DriftbayesError, did_you_mean
from driftbayes.simulators._grid_files import GridExport, export_grid
from driftbayes.simulators._gridded import GriddedDispersion
from driftbayes.simulators._long_time import Dispersion, Estimate
from driftbayes.simulators._map_files import gridded
from driftbayes.simulators._recommend import Recommendation, recommend
from driftbayes.simulators._texts import json_text, opendrift_text, parcels3_text, parcels_text

SIMULATORS: dict[str, Callable[[Recommendation], str]] = {
    "parcels": parcels_text,
    "parcels3": parcels3_text,
    "opendrift": opendrift_text,
    "json": json_text,
}


def export(recommendation: Recommendation, simulator: str) -> str:
    """Return the recommendation as text for a simulator.

    Args:
        recommendation: The numbers.
        simulator: A name of `SIMULATORS`.
    """
    if simulator not in SIMULATORS:
        near = did_you_mean(simulator, SIMULATORS)
        msg = f"unknown simulator {simulator!r}; choose from {', '.join(SIMULATORS)}{near}"
        raise DriftbayesError(msg)
    return SIMULATORS[simulator](recommendation)
