"""The whole ladder of models on the paper's turbulence: which rung explains it, at which tau."""

__all__ = ["Ladder", "run_ladder", "write_ladder"]

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from driftbayes._version import __version__
from driftbayes.comparison import scan_displacements
from driftbayes.errors import DriftbayesError
from driftbayes.inference import Evidence, Hypothesis
from driftbayes.models import MODELS
from driftbayes.priors import scaling_priors
from driftbayes.reproduce.folder import make_folder, write_figure, write_json
from driftbayes.reproduce.turbulence.analysis import data_sets
from driftbayes.reproduce.turbulence.experiment import PUBLISHED
from driftbayes.reproduce.turbulence.results import Results
from driftbayes.suggest import did_you_mean
from driftbayes.typing import FloatArray

N_TAUS = 12
# That against which the others are measured.
REFERENCE = "langevin"


@dataclass(frozen=True, eq=False)
class Ladder:
    """Evidence of every model at several sampling times, in each realisation.

    Args:
        taus: Sampling times.
        models: Names of the models.
        log_evidence: (realisation, model, tau).
        log_evidence_err: Its error.
        means: Posterior mean of each parameter, "model.parameter", (realisation, tau).
        sds: Its posterior standard deviation.
        n_displacements: Scalar displacements at each tau.
        realisations: Their names.
        doubts: What the statuses of the evidences say that is not "ok".
    """

    taus: FloatArray
    models: tuple[str, ...]
    log_evidence: FloatArray
    log_evidence_err: FloatArray
    means: dict[str, FloatArray]
    sds: dict[str, FloatArray]
    n_displacements: int
    realisations: tuple[str, ...]
    doubts: tuple[str, ...]

    def against_reference(self) -> FloatArray:
        """Ln K of every model against Langevin, (realisation, model, tau)."""
        place = self.models.index(REFERENCE)
        return self.log_evidence - self.log_evidence[:, place : place + 1]

    def ranking(self) -> list[list[str]]:
        """Models at each tau from best to worst, by the mean over realisations."""
        order = np.argsort(-self.against_reference().mean(axis=0), axis=0)
        return [[self.models[i] for i in column] for column in order.T]

    def best(self) -> list[list[str]]:
        """The best model of each realisation at each tau, (tau, realisation)."""
        winners = np.argmax(self.log_evidence, axis=1)
        return [[self.models[i] for i in column] for column in winners.T]

    def sentences(self) -> list[str]:
        """The ranking at each tau in words, and what was doubtful."""
        log_k = self.against_reference().mean(axis=0)
        lines = []
        for i, (tau, order) in enumerate(zip(self.taus, self.ranking(), strict=True)):
            shown = ", ".join(f"{m} {log_k[self.models.index(m), i]:+.1f}" for m in order)
            turnovers = tau / PUBLISHED.eddy_turnover_time
            lines.append(f"tau = {tau:g} ({turnovers:.1f} turnover times), ln K: {shown}")
        return [*lines, *self.doubts]

    def to_json(self) -> dict[str, Any]:
        """All numbers."""
        log_k = self.against_reference()
        return {
            "driftbayes_version": __version__,
            "taus": self.taus.tolist(),
            "taus_in_turnover_times": (self.taus / PUBLISHED.eddy_turnover_time).tolist(),
            "realisations": list(self.realisations),
            "models": list(self.models),
            "n_displacements": self.n_displacements,
            "log_bayes_factor_against_langevin": {
                model: log_k[:, i].tolist() for i, model in enumerate(self.models)
            },
            "ranking": self.ranking(),
            "best": self.best(),
            "posterior_mean": {name: v.tolist() for name, v in self.means.items()},
            "posterior_sd": {name: v.tolist() for name, v in self.sds.items()},
            "doubts": list(self.doubts),
        }


def run_ladder(
    results: Results,
    models: Sequence[str] = tuple(MODELS),
    n_taus: int = N_TAUS,
    progress: Callable[[str, int, int], None] | None = None,
) -> Ladder:
    """Exact evidence of every model on the paper's data, from the packaged second moments.

    Args:
        results: From `load_results`.
        models: Names of models, the reference among them.
        n_taus: How many of the sampling times, evenly spaced on a logarithmic scale.
        progress: Called with a stage, how many are done, and of how many.
    """
    unknown = [name for name in models if name not in MODELS]
    if unknown or REFERENCE not in models:
        wrong = f"{REFERENCE} is not among them"
        if unknown:
            wrong = f"got {unknown[0]!r}{did_you_mean(unknown[0], MODELS)}"
        msg = f"models must be from {', '.join(MODELS)}, with {REFERENCE} among them; {wrong}"
        raise DriftbayesError(msg)
    priors = scaling_priors(PUBLISHED.u_rms, PUBLISHED.eddy_turnover_time)
    names = list(results.realisations)
    first = {}
    for name in names:
        sets, _ = data_sets(results.realisations[name], results.config(name)["particles"])
        first[name] = [sets[i] for i in _spread(np.array([d.tau for d in sets]), n_taus)]
    taus = np.array([d.tau for d in first[names[0]]])
    # All realisations in one scan: one program for each model serves them all.
    many = [data for name in names for data in first[name]]
    order = np.argsort([data.tau for data in many], kind="stable")
    shape = (len(names), len(taus))
    log_evidence = np.empty((len(names), len(models), len(taus)))
    errors = np.empty_like(log_evidence)
    means, sds, doubts = {}, {}, []
    for m, model in enumerate(models):
        hypothesis = Hypothesis.from_table(MODELS[model], priors)
        found: list[Evidence] = scan_displacements(many, [hypothesis]).evidences(model)

        def table(values: Sequence[float]) -> FloatArray:
            out = np.empty(len(many))
            out[order] = values
            return out.reshape(shape)

        log_evidence[:, m] = table([e.log_evidence for e in found])
        errors[:, m] = table([e.log_evidence_err for e in found])
        for parameter in hypothesis.names:
            means[f"{model}.{parameter}"] = table([e.posterior_mean[parameter] for e in found])
            sds[f"{model}.{parameter}"] = table([e.posterior_sd[parameter] for e in found])
        doubts += [
            f"{model} at tau = {e.tau:g}: {e.status.value}, error {e.log_evidence_err:.1e}"
            for e in found
            if e.status.value != "ok"
        ]
        if progress is not None:
            progress("models", m + 1, len(models))
    return Ladder(
        taus=taus,
        models=tuple(models),
        log_evidence=log_evidence,
        log_evidence_err=errors,
        means=means,
        sds=sds,
        n_displacements=many[0].n_displacements,
        realisations=tuple(names),
        doubts=tuple(doubts),
    )


def write_ladder(ladder: Ladder, directory: Path) -> list[Path]:
    """Write the figure as PNG and PDF, and all numbers as JSON."""
    from driftbayes.reproduce.turbulence.figures_ladder import ladder_figure

    make_folder(directory)
    numbers = write_json(ladder.to_json(), directory / "ladder.json")
    return [numbers, *write_figure(ladder_figure(ladder), directory / "ladder")]


def _spread(taus: FloatArray, n: int) -> list[int]:
    """Places of n sampling times, as even as can be on a logarithmic scale."""
    wanted = np.geomspace(taus.min(), taus.max(), n)
    return sorted({int(np.argmin(np.abs(np.log(taus / tau)))) for tau in wanted})
