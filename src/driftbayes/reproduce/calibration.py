"""Calibration of model probabilities and posteriors, on data from the prior predictive."""

__all__ = ["Calibration", "run_calibration"]

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from scipy.special import chdtrc, expit
from scipy.stats import chisquare

from driftbayes._representation import plain
from driftbayes._typing import FloatArray
from driftbayes._version import __version__
from driftbayes.data._sampling import Displacements
from driftbayes.errors import Status
from driftbayes.inference import QUANTILES, Batch, Hypothesis, evidence_batch
from driftbayes.plots.style import COLOURS, GUIDE, journal_figure
from driftbayes.reproduce.langevin import hypotheses as unit_hypotheses
from driftbayes.reproduce.study import DEFAULT_RUNNER, Runner, StudyResult

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Small data sets, for which the verdict is often uncertain.
N_PARTICLES, N_STEPS, N_DIM, TAU = 2, 4, 1, 1.0
# Data sets per call. Some samplers share random numbers among the data sets of one call, so small
# chunks keep their errors independent and use less memory.
_CHUNKS: dict[str, int] = {"laplace_is": 100, "bridge": 100, "smc": 20, "nested": 1}
_CHUNK = 2000
# Posterior probability of each interval between quantiles.
SHARES = np.diff([0.0, *QUANTILES, 1.0])


@dataclass(frozen=True, eq=False)
class Calibration(StudyResult):
    """Model probabilities and posterior ranks of the true parameters.

    If data come from each model equally often, with parameters from their priors, then the mean of
    p(Langevin | D) must be ½, and a fraction p of the data sets with probability p must come from
    Langevin. The true parameter must lie below its posterior's q-quantile in a fraction q of the
    data sets.

    Args:
        probability: p(Langevin | D) of each data set.
        is_langevin: Whether the data set came from the Langevin model.
        method: Evidence method.
        seed: Random seed of the data and of sampling methods.
        ranks: For each parameter of the true model, "model.parameter", the number of data sets with
            the truth in each of the six intervals between the posterior's quantiles.
        n_doubtful: Number of data sets with a status other than ok.
        n_failed: Number of data sets without a result; they are excluded.
    """

    name: ClassVar[str] = "calibration"

    probability: FloatArray
    is_langevin: np.ndarray
    method: str
    seed: int
    ranks: Mapping[str, np.ndarray] = field(default_factory=dict)
    n_doubtful: int = 0
    n_failed: int = 0

    @property
    def mean(self) -> tuple[float, float]:
        """Mean probability, expected to be ½, and its standard error."""
        n = len(self.probability)
        return float(self.probability.mean()), float(self.probability.std() / np.sqrt(n))

    def reliability(self) -> dict[str, FloatArray]:
        """Return mean probability and true share in ten bins, with the error of the share."""
        n_bins = 10
        which = np.minimum((self.probability * n_bins).astype(int), n_bins - 1)
        count = np.bincount(which, minlength=n_bins)
        filled = count > 0
        predicted = np.bincount(which, self.probability, n_bins)[filled] / count[filled]
        observed = np.bincount(which, self.is_langevin, n_bins)[filled] / count[filled]
        # From the predicted share (the null hypothesis), because the observed one may be 0 or 1.
        error = np.sqrt(predicted * (1 - predicted) / count[filled])
        counts = count[filled].astype(float)
        return {"predicted": predicted, "observed": observed, "error": error, "count": counts}

    def chi_square(self) -> tuple[float, int]:
        """Return χ² of the reliability, and the number of bins."""
        bins = self.reliability()
        deviation = (bins["observed"] - bins["predicted"]) / bins["error"]
        return float(np.sum(deviation**2)), len(deviation)

    def rank_chi_square(self, name: str) -> tuple[float, float]:
        """Return χ² of a parameter's counts, with five degrees of freedom, and its p-value."""
        counts = self.ranks[name]
        test = chisquare(counts, SHARES * counts.sum())
        return float(test.statistic), float(test.pvalue)

    def sentences(self) -> list[str]:
        mean, error = self.mean
        chi_square, n_bins = self.chi_square()
        lines = [
            f"mean probability of Langevin {mean:.4f} ± {error:.4f}, expected 0.5",
            f"reliability: chi-square {chi_square:.1f} in {n_bins} bins, p-value "
            f"{chdtrc(n_bins, chi_square):.2g}",
        ]
        for name in self.ranks:
            value, p_value = self.rank_chi_square(name)
            lines.append(
                f"true {name} among its posterior's quantiles: chi-square {value:.1f} for 5 "
                f"degrees of freedom, p-value {p_value:.2g}"
            )
        if self.n_doubtful or self.n_failed:
            lines.append(
                f"the method gave warnings on {self.n_doubtful} data sets and failed on "
                f"{self.n_failed}, which are left out"
            )
        return lines

    def to_json(self) -> dict[str, Any]:
        mean, error = self.mean
        chi_square, n_bins = self.chi_square()
        ranks = {}
        for name, counts in self.ranks.items():
            value, p_value = self.rank_chi_square(name)
            ranks[name] = {"counts": counts.tolist(), "chi_square": value, "p_value": p_value}
        return {
            "driftbayes_version": __version__,
            "method": self.method,
            "seed": self.seed,
            "n_data_sets": len(self.probability),
            "mean_probability": mean,
            "mean_probability_err": error,
            "chi_square": chi_square,
            "n_bins": n_bins,
            "p_value": float(chdtrc(n_bins, chi_square)),
            "n_doubtful": self.n_doubtful,
            "n_failed": self.n_failed,
            "rank_shares": SHARES.tolist(),
            "ranks": ranks,
            "reliability": plain(self.reliability()),
        }

    def figures(self) -> dict[str, "Figure"]:
        bins = self.reliability()
        mean, error = self.mean
        with journal_figure(6.8, 3.2, 1, 2) as (figure, (ax, right)):
            ax.plot([0, 1], [0, 1], color=GUIDE, lw=0.8, label="calibrated")
            points = {"fmt": "o", "ms": 3.5, "color": COLOURS["langevin"]}
            label, errors = "observed, ± 2 standard errors", 2 * bins["error"]
            ax.errorbar(bins["predicted"], bins["observed"], yerr=errors, label=label, **points)
            ax.set(xlabel="probability of Langevin", ylabel="share of Langevin data sets")
            ax.set_aspect("equal")
            ax.legend(loc="upper left")
            words = f"{len(self.probability)} data sets\nmean {mean:.4f} ± {error:.4f}"
            ax.text(0.97, 0.05, words, ha="right", transform=ax.transAxes)
            self._draw_ranks(right)
        return {"calibration": figure}

    def _draw_ranks(self, ax: "Axes") -> None:
        places, widest = np.arange(len(SHARES)), 0.0
        ax.axhline(1, color=GUIDE, lw=0.8)
        for i, (name, counts) in enumerate(self.ranks.items()):
            model, parameter = name.split(".")
            expected = SHARES * counts.sum()
            ratio, error = counts / expected, 2 * np.sqrt((1 - SHARES) / expected)
            widest = max(widest, float(np.max(np.abs(ratio - 1) + error)))
            points: dict[str, Any] = {"fmt": "os^"[i], "ms": 3.5, "color": COLOURS[model]}
            label = f"{parameter} of {model.capitalize()} data"
            ax.errorbar(places + 0.15 * (i - 1), ratio, yerr=error, label=label, **points)
        percent = [f"{100 * q:g}" for q in (0, *QUANTILES, 1)]
        ax.set_xticks(places, [f"{a}–{b}" for a, b in pairwise(percent)], rotation=30)
        ax.set(xlabel="posterior quantile of the truth, %", ylabel="data sets / expected")
        if self.ranks:
            # Room above the points for the legend.
            ax.set_ylim(1 - 1.1 * widest, 1 + 2 * widest)
            ax.legend(loc="upper center")


def run_calibration(
    n_per_model: int = 20_000,
    seed: int = 0,
    *,
    method: str = "auto",
    runner: Runner = DEFAULT_RUNNER,
) -> Calibration:
    """Simulate data from both models with parameters from Exp(1) priors, and compare the models.

    Args:
        n_per_model: Number of data sets of each model.
        seed: Random seed of the data and of sampling methods.
        method: Method for evidences and posteriors.
        runner: Options of the computation.
    """
    hypotheses = unit_hypotheses()
    key = jax.random.key(seed)
    simulated = [
        _prior_predictive(h, jax.random.fold_in(key, i), n_per_model)
        for i, h in enumerate(hypotheses)
    ]
    data = [d for data_sets, _ in simulated for d in data_sets]
    log_z, is_ok = np.empty((2, len(data))), np.empty((2, len(data)), dtype=bool)
    quantiles = [np.empty((len(data), len(h.names), len(QUANTILES))) for h in hypotheses]
    size = _CHUNKS.get(method, _CHUNK)
    for low in range(0, len(data), size):
        rows = slice(low, min(low + size, len(data)))
        batch = Batch.stack([Batch.of(d) for d in data[rows]])
        # Each chunk has its own random numbers.
        chunk_seed = int(np.random.SeedSequence([seed, low]).generate_state(1)[0])
        for i, h in enumerate(hypotheses):
            evidences = evidence_batch([h], batch, method=method, seed=chunk_seed)
            log_z[i, rows] = [e.log_evidence for e in evidences]
            is_ok[i, rows] = [e.status is Status.OK for e in evidences]
            quantiles[i][rows] = [[e.posterior_quantiles[p] for p in h.names] for e in evidences]
        runner.report("data sets", rows.stop, len(data))
    log_k = log_z[1] - log_z[0]
    use = np.isfinite(log_k)
    ranks = {}
    for i, h in enumerate(hypotheses):
        own = slice(i * n_per_model, (i + 1) * n_per_model)
        # A failed evidence may have no quantiles.
        rank = np.sum(simulated[i][1][..., None] > quantiles[i][own], axis=2)[use[own]]
        for j, name in enumerate(h.names):
            ranks[f"{h.name}.{name}"] = np.bincount(rank[:, j], minlength=len(SHARES))
    return Calibration(
        probability=expit(log_k[use]),
        is_langevin=np.repeat([False, True], n_per_model)[use],
        method=method,
        seed=seed,
        ranks=ranks,
        n_doubtful=int(np.sum(~is_ok.all(axis=0))),
        n_failed=int(np.sum(~use)),
    )


def _prior_predictive(
    hypothesis: Hypothesis, key: Array, n: int
) -> tuple[list[Displacements], FloatArray]:
    """Draw data sets and their parameters, (data set, parameter)."""

    def split(key: Array) -> tuple[Array, Array]:
        key_data, *keys = jax.random.split(key, 1 + len(hypothesis.names))
        return key_data, jnp.stack([jax.random.uniform(key) for key in keys])

    def simulate(key: Array, theta: Array) -> Array:
        return hypothesis.at(theta).simulate(
            key, n_particles=N_PARTICLES, n_steps=N_STEPS, n_dim=N_DIM, tau=TAU
        )

    keys, uniforms = jax.jit(jax.vmap(split))(jax.random.split(key, n))
    theta = hypothesis.quantiles(np.asarray(uniforms))
    positions = jax.jit(jax.vmap(simulate))(keys, theta)
    steps = np.diff(np.asarray(positions), axis=2)
    return [Displacements.from_array(dx, TAU) for dx in steps], theta
