"""The verdict at one sampling time."""

__all__ = ["Question", "shown"]

import math
import shlex
from dataclasses import dataclass
from typing import Any

from driftbayes.comparison import Comparison, HypothesisSet, make_hypotheses
from driftbayes.comparison.dependence import quick_dependence
from driftbayes.data.trajectories import Trajectories
from driftbayes.errors import DriftbayesError
from driftbayes.explore.dataset import DataSet
from driftbayes.models import MODELS, model_named
from driftbayes.plots.style import INK, colours_of


@dataclass(frozen=True)
class Question:
    """What the page asks of a data set.

    Args:
        models: Their names, with options.
        u_rms: Root mean square speed for the priors; None takes it from the data.
        timescale: Time scale for the priors; None likewise.
    """

    models: tuple[str, ...]
    u_rms: float | None = None
    timescale: float | None = None

    def setup(self, trajectories: Trajectories) -> HypothesisSet:
        """The hypotheses for these trajectories."""
        return make_hypotheses(
            self.models, trajectories, u_rms=self.u_rms, timescale=self.timescale
        )

    @property
    def words(self) -> list[str]:
        """The same as options of a command."""
        words = ["--models", ",".join(self.models)]
        if self.u_rms is not None and self.timescale is not None:
            words += ["--u-rms", repr(self.u_rms), "--timescale", repr(self.timescale)]
        return words


def shown(
    data: DataSet, question: Question, setup: HypothesisSet, found: Comparison
) -> dict[str, Any]:
    """A comparison for the page: numbers, tables and sentences.

    Args:
        data: The trajectories.
        question: What was asked.
        setup: The hypotheses.
        found: The answer.
    """
    best = max(e.log_evidence for e in found.evidences.values())
    own = {hypothesis.name: hypothesis for hypothesis in setup.hypotheses}
    models, parameters, warnings = [], [], []
    for name, e in found.evidences.items():
        probability = found.probabilities[name]
        models.append(
            {
                "name": name,
                "log_evidence": _finite(e.log_evidence),
                "log_evidence_err": _finite(e.log_evidence_err),
                "behind": _finite(e.log_evidence - best),
                "probability": _finite(probability),
                "log_occam": _finite(e.log_occam_factor),
                "status": e.status.value,
            }
        )
        about_all = model_named(name, MODELS, found.n_dim).parameters
        for parameter in e.map:
            about = about_all[parameter]
            low, high = e.posterior_quantiles[parameter][[0, -1]]
            parameters.append(
                {
                    "model": name,
                    "name": parameter,
                    "symbol": about.symbol,
                    "meaning": about.meaning,
                    "unit": about.unit(found.length_unit, found.time_unit),
                    "mean": _finite(e.posterior_mean[parameter]),
                    "sd": _finite(e.posterior_sd[parameter]),
                    "low": _finite(low),
                    "high": _finite(high),
                    # To six digits, where the record has all of them.
                    "prior": own[name].priors[parameter].describe(6),
                }
            )
        warnings += [f"{name}: {warning}" for warning in e.warnings]
    return {
        "verdict": found.verdict,
        "n_displacements": found.n_displacements,
        "n_particles": found.n_particles,
        "method": found.method,
        "models": models,
        "parameters": parameters,
        "log_bayes_factors": {k: _finite(v) for k, v in found.log_bayes_factors.items()},
        "warnings": [*_together(data, found.tau), *warnings],
        "priors": setup.note,
        "colours": colours(list(found.evidences)),
        "commands": commands(data, question, found.tau),
    }


def colours(names: list[str]) -> dict[str, str]:
    """The colour of each model; that of the page's ink where it is ink."""
    return {n: "var(--ink)" if c == INK else c for n, c in colours_of(names).items()}


def commands(data: DataSet, question: Question, tau: float) -> list[str]:
    """What to type for the same comparison.

    Args:
        data: The trajectories.
        question: What was asked.
        tau: Sampling time.
    """
    at = "all" if not data.taus else f"{tau:.10g}"
    lines = [shlex.join(data.made_by)] if data.made_by else []
    return [*lines, shlex.join([*data.words("compare"), "--tau", at, *question.words])]


def _together(data: DataSet, tau: float) -> list[str]:
    """A sentence if particles move together, so that the evidence claims too much."""
    try:
        found = quick_dependence(data.trajectories, tau)
    except DriftbayesError:
        # One particle, or none at the same time: there is nothing to move together with.
        return []
    return [f"{found.sentence} (see `driftbayes dependence`)"] if found.is_serious else []


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
