r"""Particles share one flow: how many independent ones are a thousand of them worth?

The spread of an estimate is reached three ways. If particles were independent Langevin particles,
second moments at one tau would be Wishart, $M \sim W(S(\theta^*), 2 N_p)$, and draws of it give
the spread that the evidence believes in. Leaving out groups of particles (a jackknife) gives the
spread over particles of one flow. Data sets of the paper's size from other times and other
realisations give the spread that is there.
"""

__all__ = ["N_DRAWS", "QUANTITIES", "Spreads", "spreads", "wishart_moments"]

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from driftbayes.comparison import scan_displacements
from driftbayes.models import Langevin
from driftbayes.reproduce.folder import plain
from driftbayes.reproduce.turbulence.condense import (
    ESTIMATES,
    N_DIM,
    both_models,
    estimates_of,
    n_steps_of,
    pack,
    reduced,
)
from driftbayes.typing import FloatArray

if TYPE_CHECKING:
    import xarray as xr

QUANTITIES = ESTIMATES
N_DRAWS = 128
_N_TAUS = 24


@dataclass(frozen=True, eq=False)
class Spreads:
    r"""Standard deviations of ln κ, ln γ, ln k and ln K over data sets of the paper's size.

    Args:
        taus: Some of the sampling times.
        n_data_sets: How many disjoint data sets there are at each, over all realisations.
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
        """Independent particles that would give the spread found, (quantity, tau)."""
        return self.n_particles / self.design_effect

    @property
    def log_bayes_factor_of_flows(self) -> FloatArray:
        """Mean ln K, counting that particles share a flow, but not that they are unlike.

        The logarithm of an evidence ratio is a sum over particles: it shrinks with their number.
        What the spread between flows has beyond that over particles says by how much.
        """
        row = QUANTITIES.index("log_bayes_factor")
        factor = (self.over_flows[row] / self.over_particles[row]) ** 2
        return self.mean_log_bayes_factor / np.maximum(factor, 1.0)

    @property
    def log_bayes_factor_of_all(self) -> FloatArray:
        """Mean ln K of as many independent Langevin particles as its whole spread is worth.

        The most cautious number: at small tau most of the spread is that some particles sit in
        vortices and others do not, which more particles would not make more alike.
        """
        factor = self.design_effect[QUANTITIES.index("log_bayes_factor")]
        return self.mean_log_bayes_factor / np.maximum(factor, 1.0)

    def to_json(self) -> dict[str, Any]:
        """Plain numbers."""
        return {
            "quantities": list(QUANTITIES),
            **plain(self),
            "n_effective": self.n_effective.tolist(),
        }


def spreads(summaries: Sequence["xr.Dataset"], seed: int = 0) -> Spreads:
    """Spread of the estimates, from packaged results.

    Args:
        summaries: One per realisation, all with the same tau and number of particles.
        seed: Of the draws.
    """
    first = summaries[0]
    taus = first["tau"].values
    chosen = np.unique(np.linspace(0, len(taus) - 1, min(_N_TAUS, len(taus))).round().astype(int))
    n_particles = int(json.loads(first.attrs["config"])["particles"])
    found, over_particles = {}, {}
    counts = []
    for i in chosen:
        inside = [s["window_tau_index"].values == i for s in summaries]
        counts.append(sum(int(mask.sum()) for mask in inside))
        for name in QUANTITIES:
            values = [s[f"window_{name}"].values[m] for s, m in zip(summaries, inside, strict=True)]
            found[name, i] = np.concatenate(values)
            left_out = np.stack([s[f"jackknife_{name}"].values[i] for s in summaries])
            n = left_out.shape[1]
            squares = (left_out - left_out.mean(axis=1, keepdims=True)) ** 2
            # Jackknife variance of each realisation, averaged over them.
            over_particles[name, i] = np.sqrt(np.mean((n - 1) / n * squares.sum(axis=1)))
    centre = {
        name: np.array([found[name, i].mean() for i in chosen])
        for name in ("log_gamma", "log_k", "log_bayes_factor")
    }
    return Spreads(
        taus=taus[chosen],
        n_data_sets=np.array(counts),
        expected=_expected(
            taus[chosen],
            np.exp(centre["log_gamma"]),
            np.exp(centre["log_k"]),
            n_particles,
            n_steps_of(first.sizes["entry"]),
            seed,
        ),
        over_particles=np.array([[over_particles[q, i] for i in chosen] for q in QUANTITIES]),
        over_flows=np.array([[found[q, i].std(ddof=1) for i in chosen] for q in QUANTITIES]),
        mean_log_bayes_factor=centre["log_bayes_factor"],
        n_particles=n_particles,
    )


def _expected(
    taus: FloatArray, gamma: FloatArray, k: FloatArray, n_particles: int, n_tau: int, seed: int
) -> FloatArray:
    """Spread of the estimates from independent Langevin particles, (quantity, tau)."""
    rng = np.random.Generator(np.random.Philox(seed))
    moments, owners = [], np.repeat(taus, N_DRAWS)
    for tau, g, diffusivity in zip(taus, gamma, k, strict=True):
        model = Langevin(gamma=g, k=diffusivity)
        first_row = model.increment_autocovariance(jnp.arange(n_tau, dtype=float), jnp.asarray(tau))
        moments.append(wishart_moments(rng, np.asarray(first_row), N_DIM * n_particles, N_DRAWS))
    entries = pack(np.concatenate(moments))
    names = [f"draw {i}" for i in range(len(entries))]
    data = reduced(entries, np.full(len(entries), float(n_particles)), owners, names)
    found = estimates_of(scan_displacements(data, both_models()))
    return np.array([found[q].reshape(len(taus), N_DRAWS).std(axis=1, ddof=1) for q in QUANTITIES])


def wishart_moments(
    rng: np.random.Generator, autocovariance: FloatArray, n_rows: int, n_draws: int
) -> FloatArray:
    r"""Draws of $M = \sum x x^\mathrm{T}$ over independent rows x ~ N(0, S), S Toeplitz.

    By Bartlett's decomposition: $M = L A A^\mathrm{T} L^\mathrm{T}$ with $S = L L^\mathrm{T}$, A
    lower triangular, standard normal below the diagonal and on it the roots of chi-square with
    $n, n - 1, \dots$ degrees of freedom.

    Args:
        rng: Where the numbers come from.
        autocovariance: First row of S.
        n_rows: Number of rows, more than there are columns.
        n_draws: Number of draws.
    """
    from scipy.linalg import toeplitz

    size = len(autocovariance)
    root = np.linalg.cholesky(toeplitz(autocovariance))
    below = np.tril(rng.standard_normal((n_draws, size, size)), -1)
    diagonal = np.sqrt(rng.chisquare(n_rows - np.arange(size), size=(n_draws, size)))
    below[:, np.arange(size), np.arange(size)] = diagonal
    factors = root @ below
    return factors @ factors.swapaxes(1, 2)
