"""Are the model probabilities honest? Data from the prior predictive, judged by exact evidence."""

__all__ = ["Calibration", "run_calibration", "write_calibration"]

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from driftbayes._version import __version__
from driftbayes.inference import Batch, Hypothesis, Method, evidence_batch
from driftbayes.models import Brownian, Langevin
from driftbayes.priors import Exponential
from driftbayes.reproduce.folder import make_folder, write_figure, write_json
from driftbayes.sampling import Displacements
from driftbayes.typing import FloatArray

# Small data, so that the verdict is often uncertain: certain ones would calibrate nothing.
N_PARTICLES, N_STEPS, N_DIM, TAU = 2, 4, 1, 1.0
_CHUNK = 2000


@dataclass(frozen=True, eq=False)
class Calibration:
    """Probabilities that the method gave, beside the truth.

    If data come from each model equally often, with parameters from their priors, then the mean of
    p(Langevin | D) must be ½, and among data sets given probability p a share p must be Langevin's.

    Args:
        probability: p(Langevin | D) of each data set.
        is_langevin: Whether the data set came from the Langevin model.
        method: Method of the evidences.
        seed: Seed of the data.
    """

    probability: FloatArray
    is_langevin: np.ndarray
    method: str
    seed: int

    @property
    def mean(self) -> tuple[float, float]:
        """Mean probability and its standard error; ½ is right."""
        n = len(self.probability)
        return float(self.probability.mean()), float(self.probability.std() / np.sqrt(n))

    def reliability(self, n_bins: int = 10) -> dict[str, FloatArray]:
        """Mean probability and true share in bins, with the standard error of the share."""
        which = np.minimum((self.probability * n_bins).astype(int), n_bins - 1)
        count = np.bincount(which, minlength=n_bins)
        filled = count > 0
        predicted = np.bincount(which, self.probability, n_bins)[filled] / count[filled]
        observed = np.bincount(which, self.is_langevin, n_bins)[filled] / count[filled]
        # From the predicted share, which is the null hypothesis; the observed one may be 0 or 1.
        error = np.sqrt(predicted * (1 - predicted) / count[filled])
        return {
            "predicted": predicted,
            "observed": observed,
            "error": error,
            "count": count[filled].astype(float),
        }

    def chi_square(self) -> tuple[float, int]:
        """Sum over bins of the squared deviation in standard errors, and the number of bins."""
        bins = self.reliability()
        deviation = (bins["observed"] - bins["predicted"]) / bins["error"]
        return float(np.sum(deviation**2)), len(deviation)

    def to_json(self) -> dict[str, Any]:
        """The result as plain numbers."""
        mean, error = self.mean
        chi_square, n_bins = self.chi_square()
        return {
            "driftbayes_version": __version__,
            "method": self.method,
            "seed": self.seed,
            "n_data_sets": len(self.probability),
            "mean_probability": mean,
            "mean_probability_err": error,
            "chi_square": chi_square,
            "n_bins": n_bins,
            "reliability": {name: v.tolist() for name, v in self.reliability().items()},
        }


def run_calibration(
    n_per_model: int = 20_000,
    seed: int = 0,
    *,
    method: Method = "auto",
    progress: Callable[[str, int, int], None] | None = None,
) -> Calibration:
    """Simulate from both models, parameters from Exp(1) priors, and compare on each data set."""
    unit = Exponential(mean=1.0)
    brownian = Hypothesis(Brownian, kappa=unit)
    langevin = Hypothesis(Langevin, gamma=unit, k=unit)
    data = [
        *_prior_predictive(brownian, jax.random.fold_in(jax.random.key(seed), 0), n_per_model),
        *_prior_predictive(langevin, jax.random.fold_in(jax.random.key(seed), 1), n_per_model),
    ]
    log_k = np.empty(len(data))
    for low in range(0, len(data), _CHUNK):
        # The last chunk is padded, so that one program serves all.
        chunk = [data[min(i, len(data) - 1)] for i in range(low, low + _CHUNK)]
        batch = Batch.stack([Batch.of(d) for d in chunk])
        b, m = (evidence_batch([h], batch, method=method) for h in (brownian, langevin))
        values = [x.log_evidence - y.log_evidence for x, y in zip(m, b, strict=True)]
        log_k[low : low + _CHUNK] = values[: len(data) - low]
        if progress is not None:
            progress("data sets", min(low + _CHUNK, len(data)), len(data))
    return Calibration(
        probability=1 / (1 + np.exp(-log_k)),
        is_langevin=np.repeat([False, True], n_per_model),
        method=method,
        seed=seed,
    )


def write_calibration(result: Calibration, directory: Path) -> list[Path]:
    """Write the reliability curve as PNG and PDF, and its numbers as JSON."""
    make_folder(directory)
    numbers = write_json(result.to_json(), directory / "calibration.json")
    return [numbers, *write_figure(_figure(result), directory / "calibration")]


def _prior_predictive(hypothesis: Hypothesis, key: Array, n: int) -> list[Displacements]:
    def one(key: Array) -> Array:
        key_data, *keys = jax.random.split(key, 1 + len(hypothesis.names))
        draws = [
            hypothesis.priors[p].sample(k) for p, k in zip(hypothesis.names, keys, strict=True)
        ]
        return hypothesis.at(jnp.stack(draws)).simulate(
            key_data, n_particles=N_PARTICLES, n_steps=N_STEPS, n_dim=N_DIM, tau=TAU
        )

    positions = np.asarray(jax.jit(jax.vmap(one))(jax.random.split(key, n)))
    return [Displacements.from_array(dx, TAU) for dx in np.diff(positions, axis=2)]


def _figure(result: Calibration) -> Any:
    from matplotlib.figure import Figure

    from driftbayes.plots.style import COLOURS, GUIDE, journal_style

    bins = result.reliability()
    mean, error = result.mean
    with journal_style():
        figure = Figure(figsize=(3.4, 3.2), layout="constrained")
        ax = figure.subplots()
        ax.plot([0, 1], [0, 1], color=GUIDE, lw=0.8, label="honest")
        ax.errorbar(
            bins["predicted"],
            bins["observed"],
            yerr=2 * bins["error"],
            fmt="o",
            ms=3.5,
            color=COLOURS["langevin"],
            label="found, ± 2 standard errors",
        )
        ax.set_xlabel("probability given to Langevin")
        ax.set_ylabel("share that was Langevin")
        ax.set_aspect("equal")
        ax.legend(loc="upper left")
        ax.text(
            0.97,
            0.05,
            f"{len(result.probability)} data sets\nmean {mean:.4f} ± {error:.4f}",
            ha="right",
            transform=ax.transAxes,
        )
    return figure
