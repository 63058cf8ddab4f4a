"""What the paper's turbulence experiment gets wrong, and what each error changes."""

from driftbayes.reproduce.discrepancies.figure import discrepancies_figure
from driftbayes.reproduce.discrepancies.forcing import ForcingReadings, forcing_readings
from driftbayes.reproduce.discrepancies.halfplane import SpuriousMode, spurious_mode
from driftbayes.reproduce.discrepancies.labels import MislabelledTau, mislabelled_tau
from driftbayes.reproduce.discrepancies.record import (
    Discrepancies,
    run_discrepancies,
    write_discrepancies,
)
from driftbayes.reproduce.discrepancies.schemes import ParticleScheme, particle_scheme

__all__ = [
    "Discrepancies",
    "ForcingReadings",
    "MislabelledTau",
    "ParticleScheme",
    "SpuriousMode",
    "discrepancies_figure",
    "forcing_readings",
    "mislabelled_tau",
    "particle_scheme",
    "run_discrepancies",
    "spurious_mode",
    "write_discrepancies",
]
