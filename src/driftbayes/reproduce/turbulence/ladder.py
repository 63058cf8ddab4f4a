"""The whole ladder of models on the paper's turbulence: which rung explains it, at which tau."""

__all__ = ["Ladder", "run_ladder", "write_ladder"]

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from driftbayes._version import __version__
from driftbayes.comparison import scan_displacements
from driftbayes.errors import DriftbayesError
from driftbayes.inference import Evidence, Hypothesis
from driftbayes.models import MODELS
from driftbayes.plots.style import GUIDE, journal_figure
from driftbayes.priors import scaling_priors
from driftbayes.reproduce.folder import write_result
from driftbayes.reproduce.turbulence.analysis import data_sets
from driftbayes.reproduce.turbulence.experiment import PUBLISHED
from driftbayes.reproduce.turbulence.results import Results
from driftbayes.suggest import did_you_mean
from driftbayes.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

N_TAUS = 12
# That against which the others are measured.
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
    return write_result(directory, "ladder", ladder.to_json(), ladder_figure(ladder))


def ladder_figure(ladder: Ladder) -> "Figure":
    """Draw ln K against Langevin, and the time scales of the models, along tau."""
    turnover = PUBLISHED.eddy_turnover_time
    x = ladder.taus / turnover
    log_k = ladder.against_reference()

    def draw(ax: "Axes", values: FloatArray, colour: str, line: str, label: str) -> None:
        low, high = values.min(axis=0), values.max(axis=0)
        ax.fill_between(x, low, high, color=colour, alpha=0.2, lw=0)
        ax.plot(x, values.mean(axis=0), line, color=colour, lw=1.2, label=label)

    with journal_figure(7.0, 3.8, 1, 2) as (figure, (left, right)):
        for i, model in enumerate(ladder.models):
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
            if model in ladder.models:
                rate = ladder.means[f"{model}.gamma"] * (ladder.means[slower] if slower else 1)
                draw(right, 1 / rate / turnover, _STYLES[model][0], line, label)
        right.plot(x, x, color=GUIDE, lw=0.8, label="τ")
        right.set(xscale="log", yscale="log", ylabel="time scale / eddy turnover time")
        for ax, ncols in ((left, 3), (right, 2)):
            ax.set_xlabel("τ / eddy turnover time")
            ax.legend(fontsize=6, ncols=ncols, loc="upper center", bbox_to_anchor=(0.5, -0.2))
    return figure


def _spread(taus: FloatArray, n: int) -> list[int]:
    """Places of n sampling times, as even as can be on a logarithmic scale."""
    wanted = np.geomspace(taus.min(), taus.max(), n)
    return sorted({int(np.argmin(np.abs(np.log(taus / tau)))) for tau in wanted})
