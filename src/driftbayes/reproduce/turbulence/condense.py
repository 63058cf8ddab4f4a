"""From a summary to what is packaged: matrices become the estimates that were wanted from them."""

__all__ = ["both_models", "condense", "n_steps_of", "pack", "reduced", "unpack"]

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from driftbayes.comparison import Scan, scan_displacements
from driftbayes.inference import Hypothesis
from driftbayes.likelihood import ReducedDisplacements
from driftbayes.models import Brownian, Langevin
from driftbayes.priors import scaling_priors
from driftbayes.reproduce.claims import along_tau, log_bayes_factors
from driftbayes.reproduce.turbulence.experiment import PUBLISHED, Scaling
from driftbayes.typing import FloatArray

if TYPE_CHECKING:
    import xarray as xr

N_DIM = 2
# What is kept of each inference.
ESTIMATES = ("log_kappa", "log_gamma", "log_k", "log_bayes_factor")
_VORTICITY_LEVELS = 1000


def both_models(scaling: Scaling = PUBLISHED) -> list[Hypothesis]:
    """Brownian and Langevin with the paper's priors, by default with its published scales."""
    priors = scaling_priors(scaling.u_rms, scaling.eddy_turnover_time)
    return [Hypothesis.from_table(model, priors) for model in (Brownian, Langevin)]


def reduced(
    entries: FloatArray, n_runs: FloatArray, taus: FloatArray, names: Sequence[str]
) -> list[ReducedDisplacements]:
    """Data sets from packed second moments.

    Args:
        entries: Upper triangles, (data set, entry).
        n_runs: Runs in each.
        taus: Sampling time of each.
        names: Fingerprint of each.
    """
    moments = unpack(entries)
    return [
        ReducedDisplacements(
            moment=moment,
            n_runs=float(n),
            n_dim=N_DIM,
            n_particles=round(float(n)),
            tau=float(tau),
            fingerprint=str(name),
        )
        for moment, n, tau, name in zip(moments, n_runs, taus, names, strict=True)
    ]


def condense(summary: "xr.Dataset", n_particles: int) -> "xr.Dataset":
    """A summary a tenth the size: estimates from windows and groups in place of their moments.

    For every window the posterior means of ln κ, ln γ, ln k and the exact ln K; for every group of
    particles the same without that group (a jackknife). The vorticity becomes 16-bit.

    Args:
        summary: From `summarise_run`.
        n_particles: How many were followed.
    """
    n_entries = summary.sizes["entry"]
    taus = summary["tau"].values
    owner = summary["window_tau_index"].values
    windows = reduced(
        summary["window_moment"].values,
        np.full(len(owner), n_particles),
        taus[owner],
        [f"window {i}" for i in range(len(owner))],
    )
    groups = summary["group_moment"].values
    n_groups = groups.shape[1]
    without = groups.sum(axis=1, keepdims=True) - groups
    shape = without.shape[:2]
    kept = reduced(
        without.reshape(-1, n_entries),
        np.full(without.shape[0] * n_groups, n_particles * (1 - 1 / n_groups)),
        np.repeat(taus, n_groups),
        [f"group {i}" for i in range(without.shape[0] * n_groups)],
    )
    made: dict[str, Any] = {}
    for name, values in _estimates(windows).items():
        made[f"window_{name}"] = ("window", values)
    for name, values in _estimates(kept).items():
        made[f"jackknife_{name}"] = (("tau", "group"), values.reshape(shape))
    field = summary["vorticity"].values
    scale = float(np.abs(field).max()) / _VORTICITY_LEVELS
    made["vorticity"] = (("y", "x"), np.round(field / scale).astype(np.int16), {"scale": scale})
    dropped = ["window_moment", "group_moment", "vorticity"]
    return summary.drop_vars(dropped).assign(made)


def _estimates(data: Sequence[ReducedDisplacements]) -> dict[str, FloatArray]:
    # In the order given: a scan would sort them by tau.
    order = np.argsort([d.tau for d in data], kind="stable")
    found = scan_displacements(data, both_models())
    out = {name: np.empty(len(data)) for name in ESTIMATES}
    for name, values in estimates_of(found).items():
        out[name][order] = values
    return out


def estimates_of(scan: Scan) -> dict[str, FloatArray]:
    """Posterior means of the logarithms of all parameters, and ln K, along a scan."""
    return {
        "log_kappa": along_tau(scan, "brownian", "log_mean", "kappa"),
        "log_gamma": along_tau(scan, "langevin", "log_mean", "gamma"),
        "log_k": along_tau(scan, "langevin", "log_mean", "k"),
        "log_bayes_factor": log_bayes_factors(scan),
    }


def pack(matrices: FloatArray) -> FloatArray:
    """Take the upper triangles of symmetric matrices, (..., step, step) to (..., entry)."""
    return matrices[(..., *np.triu_indices(matrices.shape[-1]))]


def unpack(entries: FloatArray) -> FloatArray:
    """Make symmetric matrices of their upper triangles, (..., entry) to (..., step, step)."""
    n_steps = n_steps_of(entries.shape[-1])
    rows, columns = np.triu_indices(n_steps)
    out = np.empty((*entries.shape[:-1], n_steps, n_steps))
    out[..., rows, columns] = entries
    out[..., columns, rows] = entries
    return out


def n_steps_of(n_entries: int) -> int:
    """Return the size of the matrix whose upper triangle has so many entries."""
    return (math.isqrt(8 * n_entries + 1) - 1) // 2
