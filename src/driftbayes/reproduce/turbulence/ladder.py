"""Comparison of all models on the paper's turbulence."""

__all__ = ["Ladder", "run_ladder"]

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from driftbayes._representation import plain
from driftbayes._typing import FloatArray
from driftbayes._version import __version__
from driftbayes.comparison._scan import evidences_of_many
from driftbayes.errors import DriftbayesError, did_you_mean
from driftbayes.inference import Hypothesis
from driftbayes.models import MODELS
from driftbayes.plots.style import GUIDE, journal_figure
from driftbayes.priors import scaling_priors
from driftbayes.reproduce.study import DEFAULT_RUNNER, Runner, StudyResult
from driftbayes.reproduce.turbulence.analysis import data_sets
from driftbayes.reproduce.turbulence.experiment import PUBLISHED
from driftbayes.reproduce.turbulence.results import Results, load_results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

N_TAUS = 12
# Model with which the others are compared.
REFERENCE = "langevin"
# Colour and line of each model.
_STYLES = {
    "brownian": ("#D55E00", "-"),
    "langevin": ("#0072B2", "-"),
    "fractional": ("#D55E00", "--"),
    "confined_brownian": ("#D55E00", ":"),
    "second_order": ("#009E73", "-"),
    "matern": ("#CC79A7", "-"),
    "oscillating": ("#E69F00", "-"),
    "confined": ("#56B4E9", "-"),
    "two_scale": ("black", "-"),
}


@dataclass(frozen=True, eq=False)
class Ladder(StudyResult):
    """Evidence of every model at several sampling times, in each realisation.

    Args:
        taus: Sampling times.
        models: Names of the models.
        log_evidence: (realisation, model, tau).
        means: Posterior mean of each parameter, "model.parameter", (realisation, tau).
        sds: Its posterior standard deviation.
        n_displacements: Scalar displacements at each tau.
        realisations: Names of the realisations.
        doubts: Evidences whose status is not "ok", in words.
    """

    name: ClassVar[str] = "ladder"

    taus: FloatArray
    models: tuple[str, ...]
    log_evidence: FloatArray
    means: dict[str, FloatArray]
    sds: dict[str, FloatArray]
    n_displacements: int
    realisations: tuple[str, ...]
    doubts: tuple[str, ...]

    def against_reference(self) -> FloatArray:
        """Return ln K of every model against Langevin, (realisation, model, tau)."""
        place = self.models.index(REFERENCE)
        return self.log_evidence - self.log_evidence[:, place : place + 1]

    def ranking(self) -> list[list[str]]:
        """Return the models at each tau from best to worst, by the mean over realisations."""
        order = np.argsort(-self.against_reference().mean(axis=0), axis=0)
        return [[self.models[i] for i in column] for column in order.T]

    def best(self) -> list[list[str]]:
        """Return the best model of each realisation at each tau, (tau, realisation)."""
        winners = np.argmax(self.log_evidence, axis=1)
        return [[self.models[i] for i in column] for column in winners.T]

    def sentences(self) -> list[str]:
        log_k = self.against_reference().mean(axis=0)
        lines = []
        for i, (tau, order) in enumerate(zip(self.taus, self.ranking(), strict=True)):
            shown = ", ".join(f"{m} {log_k[self.models.index(m), i]:+.1f}" for m in order)
            turnovers = tau / PUBLISHED.eddy_turnover_time
            lines.append(f"tau = {tau:g} ({turnovers:.1f} turnover times), ln K: {shown}")
        return [*lines, *self.doubts]

    def to_json(self) -> dict[str, Any]:
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
            "posterior_mean": plain(self.means),
            "posterior_sd": plain(self.sds),
            "doubts": list(self.doubts),
        }

    def figures(self) -> dict[str, "Figure"]:
        turnover = PUBLISHED.eddy_turnover_time
        x = self.taus / turnover
        log_k = self.against_reference()

        def draw(ax: "Axes", values: FloatArray, colour: str, line: str, label: str) -> None:
            low, high = values.min(axis=0), values.max(axis=0)
            ax.fill_between(x, low, high, color=colour, alpha=0.2, lw=0)
            ax.plot(x, values.mean(axis=0), line, color=colour, lw=1.2, label=label)

        with journal_figure(7.0, 3.8, 1, 2) as (figure, (left, right)):
            for i, model in enumerate(self.models):
                colour, line = _STYLES.get(model, (GUIDE, "-"))
                draw(left, log_k[:, i], colour, line, model)
            left.set_xscale("log")
            left.set_yscale("symlog", linthresh=3.0)
            left.set_ylabel("ln K against Langevin")
            for label, model, line, slower in (
                ("Langevin: 1/γ", "langevin", "-", None),
                ("two-scale: fast 1/γ", "two_scale", "-", None),
                ("two-scale: slow 1/(ργ)", "two_scale", "--", "two_scale.ratio"),
                ("second-order: 1/γ", "second_order", "-", None),
            ):
                if model in self.models:
                    rate = self.means[f"{model}.gamma"] * (self.means[slower] if slower else 1)
                    draw(right, 1 / rate / turnover, _STYLES[model][0], line, label)
            right.plot(x, x, color=GUIDE, lw=0.8, label="τ")
            right.set(xscale="log", yscale="log", ylabel="time scale / eddy turnover time")
            for ax, ncols in ((left, 3), (right, 2)):
                ax.set_xlabel("τ / eddy turnover time")
                ax.legend(fontsize=6, ncols=ncols, loc="upper center", bbox_to_anchor=(0.5, -0.2))
        return {"ladder": figure}


def run_ladder(
    models: Sequence[str] = tuple(MODELS),
    *,
    n_taus: int = N_TAUS,
    results: Results | None = None,
    runner: Runner = DEFAULT_RUNNER,
) -> Ladder:
    """Compute the exact evidence of every model on the paper's data.

    Args:
        models: Names of models, including the reference.
        n_taus: Number of sampling times, evenly spaced on a logarithmic scale.
        results: Second moments of the data; by default the packaged ones.
        runner: Options of the computation.
    """
    results = results or load_results()
    unknown = [name for name in models if name not in MODELS]
    if unknown or REFERENCE not in models:
        wrong = f"{REFERENCE} is missing"
        if unknown:
            wrong = f"got {unknown[0]!r}{did_you_mean(unknown[0], MODELS)}"
        msg = f"models must be from {', '.join(MODELS)} and include {REFERENCE}; {wrong}"
        raise DriftbayesError(msg)
    priors = scaling_priors(PUBLISHED.u_rms, PUBLISHED.eddy_turnover_time)
    names = list(results.realisations)
    first = {}
    for name in names:
        sets, _ = data_sets(results.realisations[name], results.config(name)["particles"])
        first[name] = [sets[i] for i in _choose_taus(np.array([d.tau for d in sets]), n_taus)]
    taus = np.array([d.tau for d in first[names[0]]])
    # All realisations at once, so that each model is compiled once.
    many = [data for name in names for data in first[name]]
    shape = (len(names), len(taus))
    log_evidence = np.empty((len(names), len(models), len(taus)))
    means, sds, doubts = {}, {}, []
    for m, model in enumerate(models):
        hypothesis = Hypothesis.from_table(MODELS[model], priors)
        records = evidences_of_many(hypothesis, many)
        log_evidence[:, m] = np.reshape([e.log_evidence for e in records], shape)
        for p in hypothesis.names:
            means[f"{model}.{p}"] = np.reshape([e.posterior_mean[p] for e in records], shape)
            sds[f"{model}.{p}"] = np.reshape([e.posterior_sd[p] for e in records], shape)
        doubts += [
            f"{model} at tau = {e.tau:g}: {e.status.value}, error {e.log_evidence_err:.1e}"
            for e in sorted(records, key=lambda e: e.tau)
            if e.status.value != "ok"
        ]
        runner.report("models", m + 1, len(models))
    return Ladder(
        taus=taus,
        models=tuple(models),
        log_evidence=log_evidence,
        means=means,
        sds=sds,
        n_displacements=many[0].n_displacements,
        realisations=tuple(names),
        doubts=tuple(doubts),
    )


def _choose_taus(taus: FloatArray, n: int) -> list[int]:
    """Return the indices of n sampling times, evenly spaced on a logarithmic scale."""
    wanted = np.geomspace(taus.min(), taus.max(), n)
    return sorted({int(np.argmin(np.abs(np.log(taus / tau)))) for tau in wanted})
