"""The experiment's files: figures, scans, numbers, claims."""

__all__ = ["all_figures", "to_json", "write_experiment"]

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from driftbayes._version import __version__
from driftbayes.io import write_scan
from driftbayes.reproduce.claims import Claim, along_tau, log_bayes_factors
from driftbayes.reproduce.folder import write_csv, write_figure, write_json
from driftbayes.reproduce.turbulence.analysis import Analysis, Realisation
from driftbayes.reproduce.turbulence.figures_beyond import branches_figure, effective_figure
from driftbayes.reproduce.turbulence.figures_flow import (
    flow_figure,
    spectrum_figure,
    trajectories_figure,
    vorticity_figure,
)
from driftbayes.reproduce.turbulence.figures_models import (
    diffusivity_figure,
    factors_figure,
    lvaf_figure,
    parameters_figure,
)
from driftbayes.reproduce.turbulence.measures import spectrum_slope
from driftbayes.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# By name; those numbered have the paper's number.
_FIGURES = {
    "figure3": vorticity_figure,
    "figure4": spectrum_figure,
    "figure5": trajectories_figure,
    "figure6": lvaf_figure,
    "figure7": diffusivity_figure,
    "figure8": parameters_figure,
    "figure9": factors_figure,
    "flow": flow_figure,
    "effective": effective_figure,
    "branches": branches_figure,
}


def all_figures(analysis: Analysis) -> "dict[str, Figure]":
    """Draw all figures of section 5 and those that go beyond it, by name.

    Args:
        analysis: From `analyse`.
    """
    made = {name: draw(analysis) for name, draw in _FIGURES.items()}
    return {name: figure for name, figure in made.items() if figure is not None}


def to_json(analysis: Analysis, claims: Sequence[Claim]) -> dict[str, Any]:
    """Realisations, scans and claims as plain numbers and text."""
    return {
        "driftbayes_version": __version__,
        "realisations": [_realisation_json(r) for r in analysis.realisations],
        "spread": analysis.spread.to_json(),
        "claims": [asdict(claim) for claim in claims],
    }


def write_experiment(analysis: Analysis, claims: Sequence[Claim], directory: Path) -> list[Path]:
    """Write figures 3 to 9 and more as PNG and PDF, scans as NetCDF, numbers as CSV and JSON.

    Args:
        analysis: What was found.
        claims: The paper's statements beside it.
        directory: A folder that exists.
    """
    written = [write_json(to_json(analysis, claims), directory / "turbulence.json")]
    for realisation in analysis.realisations:
        for kind in ("exact", "laplace", "all_windows"):
            path = directory / f"scan_seed{realisation.seed}_{kind}.nc"
            write_scan(getattr(realisation, kind).to_dataset(), path)
            written.append(path)
    tables = [_columns(r) for r in analysis.realisations]
    seeds = np.concatenate([np.full(len(r.exact.taus), r.seed) for r in analysis.realisations])
    columns = {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}
    written.append(write_csv({"seed": seeds, **columns}, directory / "turbulence.csv"))
    for name, figure in all_figures(analysis).items():
        written += write_figure(figure, directory / name)
    return written


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
    """What the flow of a realisation is like after the particles' release."""
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
    """Posterior modes, and ln K both ways, along tau."""
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
