r"""Scans of the turbulence results over tau, and the effective number of particles.

The spread of an estimate is computed in three ways. For independent Langevin particles, second
moments at one tau are Wishart, $M \sim W(S(\theta^*), 2 N_p)$, and draws of them give the spread
that the evidence assumes. A jackknife over groups of particles gives the spread over particles of
one flow. Data sets of the paper's size from other times and realisations give the actual spread.
"""

__all__ = ["Analysis", "Realisation", "Spreads", "analyse", "data_sets", "spreads"]

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from scipy.linalg import toeplitz

from driftbayes._representation import plain
from driftbayes._typing import FloatArray
from driftbayes.comparison import Scan, scan_displacements
from driftbayes.data._sampling import evenly_spaced
from driftbayes.errors import DriftbayesError
from driftbayes.likelihood import ReducedDisplacements
from driftbayes.models import Langevin
from driftbayes.reproduce.study import along_tau, jackknife_variance
from driftbayes.reproduce.turbulence.experiment import PUBLISHED, Scaling
from driftbayes.reproduce.turbulence.results import Results
from driftbayes.reproduce.turbulence.summary import (
    ESTIMATES,
    N_DIM,
    both_models,
    estimates_of,
    n_steps_of,
    pack,
    reduced,
)

if TYPE_CHECKING:
    import xarray as xr

QUANTITIES = ESTIMATES
N_DRAWS = 128
_N_TAUS = 24


def mean_sd(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the mean over the first axis, and the standard deviation."""
    return values.mean(axis=0), values.std(axis=0, ddof=1)


@dataclass(frozen=True, eq=False)
class Realisation:
    """One realisation with its scans.

    Args:
        name: Name.
        seed: Random seed of its forcing and particles.
        precision: Precision of its transforms.
        scaling: Mean energy and enstrophy.
        summary: Packaged results of the run.
        exact: Exact scan of the paper's data: the first 25 steps of every particle at each tau.
        laplace: Scan of the same data by the paper's method.
        all_windows: Exact scan of all windows of 25 steps.
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
class Spreads:
    r"""Standard deviations of ln κ, ln γ, ln k and ln K over data sets of the paper's size.

    Args:
        taus: Some of the sampling times.
        n_data_sets: Number of disjoint data sets at each, over all realisations.
        expected: Spread between independent Langevin particles' data sets, (quantity, tau).
        over_particles: Spread from resampling the particles of one flow.
        over_flows: Spread between data sets.
        mean_log_bayes_factor: Mean of ln K over the data sets.
        n_particles: Particles in a data set.
    """

    taus: FloatArray
    n_data_sets: FloatArray
    expected: FloatArray
    over_particles: FloatArray
    over_flows: FloatArray
    mean_log_bayes_factor: FloatArray
    n_particles: int

    @property
    def design_effect(self) -> FloatArray:
        """Variance between data sets over the variance that independent particles would give."""
        return (self.over_flows / self.expected) ** 2

    @property
    def n_effective(self) -> FloatArray:
        """Effective number of independent particles, (quantity, tau)."""
        return self.n_particles / self.design_effect

    @property
    def log_bayes_factor_of_flows(self) -> FloatArray:
        """Mean ln K corrected for particles that share a flow.

        ln K is a sum over particles and shrinks with their effective number, which follows from the
        ratio of the spread between flows to that over particles.
        """
        row = QUANTITIES.index("log_bayes_factor")
        factor = (self.over_flows[row] / self.over_particles[row]) ** 2
        return self.mean_log_bayes_factor / np.maximum(factor, 1.0)

    @property
    def log_bayes_factor_of_all(self) -> FloatArray:
        """Mean ln K corrected for the whole spread between data sets.

        This is the most conservative value: at small tau most of the spread comes from particles
        inside and outside vortices.
        """
        factor = self.design_effect[QUANTITIES.index("log_bayes_factor")]
        return self.mean_log_bayes_factor / np.maximum(factor, 1.0)

    def to_json(self) -> dict[str, Any]:
        """Return plain numbers."""
        effective = self.n_effective.tolist()
        return {"quantities": list(QUANTITIES), **plain(self), "n_effective": effective}


def spreads(summaries: Sequence["xr.Dataset"]) -> Spreads:
    """Compute the spread of the estimates from packaged results.

    Args:
        summaries: Summary of each realisation, all with the same tau and number of particles.
    """
    first = summaries[0]
    taus = first["tau"].values
    chosen = evenly_spaced(len(taus), _N_TAUS)
    n_particles = int(json.loads(first.attrs["config"])["particles"])
    owners = np.concatenate([s["window_tau_index"].values for s in summaries])
    over_particles, over_flows, means = [], [], {}
    for name in QUANTITIES:
        values = np.concatenate([s[f"window_{name}"].values for s in summaries])
        parts = [values[owners == i] for i in chosen]
        means[name] = np.array([part.mean() for part in parts])
        over_flows.append([part.std(ddof=1) for part in parts])
        left_out = np.stack([s[f"jackknife_{name}"].values[chosen] for s in summaries])
        # The variance of each realisation, averaged over them.
        over_particles.append(np.sqrt(jackknife_variance(left_out).mean(axis=0)))
    gamma, k = np.exp(means["log_gamma"]), np.exp(means["log_k"])
    n_tau = n_steps_of(first.sizes["entry"])
    return Spreads(
        taus=taus[chosen],
        n_data_sets=np.array([np.sum(owners == i) for i in chosen]),
        expected=_expected(taus[chosen], gamma, k, n_particles, n_tau),
        over_particles=np.array(over_particles),
        over_flows=np.array(over_flows),
        mean_log_bayes_factor=means["log_bayes_factor"],
        n_particles=n_particles,
    )


def _expected(
    taus: FloatArray, gamma: FloatArray, k: FloatArray, n_particles: int, n_tau: int
) -> FloatArray:
    """Compute the spread of estimates from independent Langevin particles, (quantity, tau)."""
    rng = np.random.Generator(np.random.Philox(0))
    moments, owners = [], np.repeat(taus, N_DRAWS)
    for tau, g, diffusivity in zip(taus, gamma, k, strict=True):
        model = Langevin(gamma=g, k=diffusivity)
        first_row = model.increment_autocovariance(jnp.arange(n_tau, dtype=float), jnp.asarray(tau))
        moments.append(wishart_moments(rng, np.asarray(first_row), N_DIM * n_particles, N_DRAWS))
    entries = pack(np.concatenate(moments))
    names = [f"draw {i}" for i in range(len(entries))]
    data = reduced(entries, np.full(len(entries), float(n_particles)), owners, names)
    drawn = estimates_of(data)
    return np.array([drawn[q].reshape(len(taus), N_DRAWS).std(axis=1, ddof=1) for q in QUANTITIES])


def wishart_moments(
    rng: np.random.Generator, autocovariance: FloatArray, n_rows: int, n_draws: int
) -> FloatArray:
    r"""Draw $M = \sum x x^\mathrm{T}$ over independent rows x ~ N(0, S), S Toeplitz.

    By Bartlett's decomposition: $M = L A A^\mathrm{T} L^\mathrm{T}$ with $S = L L^\mathrm{T}$, A
    lower triangular, standard normal below the diagonal and on it the roots of chi-square with
    $n, n - 1, \dots$ degrees of freedom.

    Args:
        rng: Source of random numbers.
        autocovariance: First row of S.
        n_rows: Number of rows, more than the number of columns.
        n_draws: Number of draws.
    """
    size = len(autocovariance)
    root = np.linalg.cholesky(toeplitz(autocovariance))
    below = np.tril(rng.standard_normal((n_draws, size, size)), -1)
    diagonal = np.sqrt(rng.chisquare(n_rows - np.arange(size), size=(n_draws, size)))
    below[:, np.arange(size), np.arange(size)] = diagonal
    factors = root @ below
    return factors @ factors.swapaxes(1, 2)


@dataclass(frozen=True, eq=False)
class Analysis:
    """Scans of all realisations.

    Args:
        results: The results they are computed from.
        realisations: Realisations in order of their seeds.
        spread: Spread of the estimates between data sets, and its expectation.
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
        """Mean energy and enstrophy over realisations."""
        parts = [(r.scaling.energy_mean, r.scaling.enstrophy_mean) for r in self.realisations]
        return Scaling(*np.mean(parts, axis=0).tolist())

    def stack(self, of: Callable[[Realisation], FloatArray | float]) -> FloatArray:
        """Return a quantity of every realisation, (realisation, ...)."""
        return np.stack([np.asarray(of(r)) for r in self.realisations])

    def along(self, scan: str, model: str, field: str, parameter: str = "") -> FloatArray:
        """Return one number of a model's evidences, (realisation, tau).

        Args:
            scan: "exact", "laplace" or "all_windows".
            model: Name of the model.
            field: Attribute of the evidence.
            parameter: Name of the parameter, if the attribute holds one number for each.
        """
        return self.stack(lambda r: along_tau(getattr(r, scan), model, field, parameter))

    def band(self, of: Callable[[Realisation], FloatArray]) -> tuple[FloatArray, FloatArray]:
        """Return the mean of a quantity over realisations, and its standard deviation."""
        return mean_sd(self.stack(of))

    def index(self, turnover_times: float) -> int:
        """Return the index of the tau nearest to a number of published eddy turnover times."""
        target = turnover_times * PUBLISHED.eddy_turnover_time
        return int(np.argmin(np.abs(np.log(self.taus / target))))


def analyse(results: Results) -> Analysis:
    """Scan all realisations.

    Args:
        results: From `load_results`.
    """
    if len(results.realisations) < 2:
        raise DriftbayesError(
            "the spread over realisations needs at least two of them, got "
            f"{len(results.realisations)}; run another with a different seed"
        )
    realisations = []
    for name, summary in results.realisations.items():
        config = results.config(name)
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
    """Return the displacements of a realisation at every tau: of the first windows, and of all.

    Args:
        summary: Packaged results of the run.
        n_particles: Number of particles.
    """
    n_windows = summary["n_windows"].values.astype(float)
    first, whole = (
        reduced(
            summary[f"moment_{which}"].values,
            n_runs,
            summary["tau"].values,
            list(summary[f"fingerprint_{which}"].values),
        )
        for which, n_runs in (
            ("first", np.full(summary.sizes["tau"], float(n_particles))),
            ("all", n_particles * n_windows),
        )
    )
    return first, whole
