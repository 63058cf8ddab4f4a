"""Section 5 of the paper: particles in two-dimensional turbulence."""

__all__ = ["TurbulenceExperiment", "run_turbulence"]

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from driftbayes._typing import FloatArray
from driftbayes._version import __version__
from driftbayes.errors import DriftbayesError
from driftbayes.reproduce.study import (
    DEFAULT_RUNNER,
    Claim,
    Runner,
    StudyResult,
    along_tau,
    log_bayes_factors,
)
from driftbayes.reproduce.turbulence.analysis import Analysis, Realisation, analyse
from driftbayes.reproduce.turbulence.claims import claims, spectrum_slope
from driftbayes.reproduce.turbulence.figures import all_figures
from driftbayes.reproduce.turbulence.results import load_results, simulate, write_results

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class TurbulenceExperiment(StudyResult):
    """Scans of all realisations, and the claims of section 5.

    Args:
        analysis: From `analyse`.
    """

    name: ClassVar[str] = "turbulence"
    title: ClassVar[str] = "Particles in two-dimensional turbulence"
    section: ClassVar[int] = 5

    analysis: Analysis

    @cached_property
    def _claims(self) -> list[Claim]:
        return claims(self.analysis)

    def claims(self) -> list[Claim]:
        return self._claims

    def sentences(self) -> list[str]:
        return [
            f"seed {realisation.seed}: {sentence}"
            for realisation in self.analysis.realisations
            for sentence in realisation.exact.sentences.values()
        ]

    def to_json(self) -> dict[str, Any]:
        return {
            "driftbayes_version": __version__,
            "realisations": [_realisation_json(r) for r in self.analysis.realisations],
            "spread": self.analysis.spread.to_json(),
            "claims": [asdict(claim) for claim in self.claims()],
        }

    def files(self) -> dict[str, Any]:
        realisations = self.analysis.realisations
        tables = [_columns(r) for r in realisations]
        seeds = np.concatenate([np.full(len(r.exact.taus), r.seed) for r in realisations])
        columns = {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}
        return {
            "turbulence.json": self.to_json(),
            **{
                f"scan_seed{realisation.seed}_{kind}.nc": getattr(realisation, kind).to_dataset()
                for realisation in realisations
                for kind in ("exact", "laplace", "all_windows")
            },
            "turbulence.csv": {"seed": seeds, **columns},
        }

    def figures(self) -> dict[str, "Figure"]:
        return all_figures(self.analysis)


def run_turbulence(
    *, simulate_again: bool = False, runner: Runner = DEFAULT_RUNNER
) -> TurbulenceExperiment:
    """Analyse the packaged results, or new simulations.

    Args:
        simulate_again: Whether to repeat the simulations; interrupted ones are resumed.
        runner: Options of the computation; needs a directory to simulate.
    """
    if not simulate_again:
        return TurbulenceExperiment(analyse(load_results()))
    if runner.directory is None:
        raise DriftbayesError("simulating needs a directory; pass runner=Runner(directory)")
    summaries = simulate(runner.directory, runner=runner)
    return TurbulenceExperiment(analyse(write_results(summaries, runner.directory / "results")))


def _realisation_json(realisation: Realisation) -> dict[str, Any]:
    scaling, columns = realisation.scaling, _columns(realisation)
    return {
        "name": realisation.name,
        "seed": realisation.seed,
        "precision": realisation.precision,
        "data_fingerprint": realisation.summary.attrs["data_fingerprint"],
        "energy_mean": scaling.energy_mean,
        "enstrophy_mean": scaling.enstrophy_mean,
        "u_rms": scaling.u_rms,
        "eddy_turnover_time": scaling.eddy_turnover_time,
        "flow": _flow_json(realisation),
        "consistency": realisation.exact.consistency_json(),
        "scan": [
            dict(zip(columns, map(float, row), strict=True))
            for row in zip(*columns.values(), strict=True)
        ],
    }


def _flow_json(realisation: Realisation) -> dict[str, float]:
    """Return flow statistics of a realisation after release."""
    summary = realisation.summary
    mean = dict(zip(summary["column"].values, summary["column_mean"].values, strict=True))
    return {
        "cfl_mean": float(mean["cfl"]),
        "kurtosis_u_mean": float(mean["kurtosis_u"]),
        "kurtosis_zeta_mean": float(mean["kurtosis_zeta"]),
        "energy_lost": -float(mean["energy_linear_rate"] + mean["energy_filter_rate"]),
        "slope_10_60": spectrum_slope(realisation, 10, 60),
        "slope_70_250": spectrum_slope(realisation, 70, 250),
    }


def _columns(realisation: Realisation) -> dict[str, FloatArray]:
    """Return posterior modes and ln K along tau."""
    exact = realisation.exact
    columns = {"tau": exact.taus}
    for model, name in (("brownian", "kappa"), ("langevin", "gamma"), ("langevin", "k")):
        columns[name] = along_tau(exact, model, "map", name)
        columns[f"{name}_sd"] = along_tau(exact, model, "posterior_sd", name)
    return columns | {
        "log_bayes_factor_laplace": log_bayes_factors(realisation.laplace),
        "log_bayes_factor": log_bayes_factors(exact),
        "log_bayes_factor_all_windows": log_bayes_factors(realisation.all_windows),
    }
