"""The experiment's files: figures, scans, numbers, claims."""

__all__ = ["to_json", "write_experiment"]

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from driftbayes._version import __version__
from driftbayes.io import write_scan
from driftbayes.reproduce.claims import Claim
from driftbayes.reproduce.folder import write_figure, write_json
from driftbayes.reproduce.turbulence.analysis import Analysis, Realisation
from driftbayes.reproduce.turbulence.figures import all_figures
from driftbayes.reproduce.turbulence.measures import spectrum_slope
from driftbayes.storage import atomic_path


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
    written.append(directory / "turbulence.csv")
    _write_csv(analysis, written[-1])
    for name, figure in all_figures(analysis).items():
        written += write_figure(figure, directory / name)
    return written


def _realisation_json(realisation: Realisation) -> dict[str, Any]:
    scaling = realisation.scaling
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
        "scan": _rows(realisation),
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


def _rows(realisation: Realisation) -> list[dict[str, float]]:
    """One row per tau: posterior modes, and ln K both ways."""
    exact = realisation.exact
    langevin = exact.evidences("langevin")
    columns = {
        "tau": exact.taus,
        "kappa": realisation.modes(exact, "brownian", "kappa"),
        "kappa_sd": np.array([e.posterior_sd["kappa"] for e in exact.evidences("brownian")]),
        "gamma": realisation.modes(exact, "langevin", "gamma"),
        "gamma_sd": np.array([e.posterior_sd["gamma"] for e in langevin]),
        "k": realisation.modes(exact, "langevin", "k"),
        "k_sd": np.array([e.posterior_sd["k"] for e in langevin]),
        "log_bayes_factor_laplace": realisation.log_bayes_factors(realisation.laplace),
        "log_bayes_factor": realisation.log_bayes_factors(exact),
        "log_bayes_factor_all_windows": realisation.log_bayes_factors(realisation.all_windows),
    }
    return [
        {name: float(values[i]) for name, values in columns.items()} for i in range(len(exact.taus))
    ]


def _write_csv(analysis: Analysis, path: Path) -> None:
    """Every number of the scans, one row per realisation and tau."""
    with atomic_path(path) as temporary, temporary.open("w") as file:
        for number, realisation in enumerate(analysis.realisations):
            rows = _rows(realisation)
            if number == 0:
                file.write(",".join(["seed", *rows[0]]) + "\n")
            for row in rows:
                values = ",".join(repr(value) for value in row.values())
                file.write(f"{realisation.seed},{values}\n")
