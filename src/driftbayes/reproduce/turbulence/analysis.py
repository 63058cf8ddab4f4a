"""What section 5 asks of the results: scans over tau, and their spread over realisations."""

__all__ = ["Analysis", "Realisation", "analyse"]

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from driftbayes.comparison import Scan, scan_displacements
from driftbayes.errors import DriftbayesError
from driftbayes.likelihood import ReducedDisplacements
from driftbayes.reproduce.turbulence.condense import both_models, reduced
from driftbayes.reproduce.turbulence.effective import Spreads, spreads
from driftbayes.reproduce.turbulence.experiment import PUBLISHED, Scaling
from driftbayes.reproduce.turbulence.results import Results
from driftbayes.typing import FloatArray

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True, eq=False)
class Realisation:
    """One realisation with its scans.

    Args:
        name: Its name.
        seed: Of its forcing and particles.
        precision: Of its transforms.
        scaling: Its mean energy and enstrophy.
        summary: What is kept of the run.
        exact: The paper's data (the first 25 steps of every particle at each tau), exactly.
        laplace: The same by the paper's method.
        all_windows: Exactly, from all windows of 25 steps.
    """

    name: str
    seed: int
    precision: str
    scaling: Scaling
    summary: "xr.Dataset"
    exact: Scan
    laplace: Scan
    all_windows: Scan


@dataclass(frozen=True, eq=False)
class Analysis:
    """All realisations side by side.

    Args:
        results: What they were made from.
        realisations: In order of their seeds.
        spread: How much estimates differ between data sets, and how much they should.
    """

    results: Results
    realisations: tuple[Realisation, ...]
    spread: Spreads

    @property
    def taus(self) -> FloatArray:
        """Sampling times."""
        return self.realisations[0].exact.taus

    @cached_property
    def scaling(self) -> Scaling:
        """Mean energy and enstrophy over realisations: the physical scales of the flow."""
        parts = [r.scaling for r in self.realisations]
        return Scaling(
            energy_mean=float(np.mean([p.energy_mean for p in parts])),
            enstrophy_mean=float(np.mean([p.enstrophy_mean for p in parts])),
        )

    def stack(self, of: Callable[[Realisation], FloatArray]) -> FloatArray:
        """A quantity of every realisation, (realisation, ...)."""
        return np.stack([np.asarray(of(r)) for r in self.realisations])

    def band(self, of: Callable[[Realisation], FloatArray]) -> tuple[FloatArray, FloatArray]:
        """Mean of a quantity over realisations, and its standard deviation from one to another."""
        values = self.stack(of)
        return values.mean(axis=0), values.std(axis=0, ddof=1)

    def index(self, turnover_times: float) -> int:
        """Number of the tau nearest to so many published eddy turnover times."""
        target = turnover_times * PUBLISHED.eddy_turnover_time
        return int(np.argmin(np.abs(np.log(self.taus / target))))


def analyse(results: Results) -> Analysis:
    """Scan all realisations.

    Args:
        results: From `load_results`.
    """
    if len(results.realisations) < 2:
        msg = (
            "the spread over realisations needs two of them or more, got "
            f"{len(results.realisations)}; run another with another seed"
        )
        raise DriftbayesError(msg)
    realisations = []
    for name in results.realisations:
        config = results.config(name)
        summary = results.realisations[name]
        first, whole = data_sets(summary, config["particles"])
        realisations.append(
            Realisation(
                name=name,
                seed=config["seed"],
                precision=config["precision"],
                scaling=results.scaling(name),
                summary=summary,
                exact=scan_displacements(first, both_models()),
                laplace=scan_displacements(first, both_models(), method="laplace"),
                all_windows=scan_displacements(whole, both_models()),
            )
        )
    realisations.sort(key=lambda r: r.seed)
    return Analysis(results, tuple(realisations), spreads([r.summary for r in realisations]))


def data_sets(
    summary: "xr.Dataset", n_particles: int
) -> tuple[list[ReducedDisplacements], list[ReducedDisplacements]]:
    """The displacements of a realisation at every tau: of the first windows, and of all.

    Args:
        summary: What is kept of the run.
        n_particles: How many were followed.
    """
    counts: Mapping[str, FloatArray] = {
        "first": np.full(summary.sizes["tau"], float(n_particles)),
        "all": n_particles * summary["n_windows"].values.astype(float),
    }
    first, whole = (
        reduced(
            summary[f"moment_{which}"].values,
            n_runs,
            summary["tau"].values,
            list(summary[f"fingerprint_{which}"].values),
        )
        for which, n_runs in counts.items()
    )
    return first, whole
