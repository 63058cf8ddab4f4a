"""Answers of the server: the card of a data set, and a comparison at one sampling time."""

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from driftbayes import quality
from driftbayes._representation import Curve, Panel, describe, number, repeat_command, with_unit
from driftbayes._typing import FloatArray
from driftbayes.comparison import Comparison, HypothesisSet, make_hypotheses
from driftbayes.comparison._hypotheses import ADVICE
from driftbayes.data._trajectories import Trajectories
from driftbayes.data._units import readable_time, readable_unit
from driftbayes.diagnostics import data_scales
from driftbayes.errors import DriftbayesError
from driftbayes.explore.dataset import DataSet
from driftbayes.inference import Evidence, Hypothesis
from driftbayes.inference._describe import model_table, parameter_table
from driftbayes.report._examination import data_facts, quality_findings
from driftbayes.report._svg import page_colours, panel_svg, x_places
from driftbayes.report._tracks import trajectories_svg

# Models are evaluated at the maximum number of sampling times, so that each operation is compiled
# once.
_N_LAGS = 12

# In place of the options of the command line.
_ADVICE = "enter both scales under Priors for an independent prior"


@dataclass(frozen=True)
class CompareRequest:
    """Models and priors to compare.

    Args:
        models: Names of models, with options.
        u_rms: Root mean square speed for the priors; None estimates it from the data.
        timescale: Time scale for the priors; None estimates it from the data.
    """

    models: tuple[str, ...]
    u_rms: float | None = None
    timescale: float | None = None

    def hypotheses(self, trajectories: Trajectories, tau: float | None) -> HypothesisSet:
        """Make the hypotheses for trajectories, at the shortest sampling time of a scan."""
        if (self.u_rms is None) != (self.timescale is None):
            msg = "give both the root mean square speed and the velocity time scale, or neither"
            raise DriftbayesError(msg)
        return make_hypotheses(
            self.models, trajectories, u_rms=self.u_rms, timescale=self.timescale, tau=tau
        )


def data_card(number_of_data: str, data: DataSet) -> dict[str, Any]:
    """Describe a data set.

    Args:
        number_of_data: Number by which the page identifies it.
        data: The data set.
    """
    trajectories, found = data.trajectories, data.survey
    unit = trajectories.time_unit
    facts = [("format", data.reading.format)] if data.reading.format else []
    why = (
        "the times are irregular: every position is used at its own interval, as with --tau all, "
        "and sampling times cannot be scanned"
    )
    if found.interval is None:
        why = "no trajectory has two positions, so nothing can be inferred"
    return {
        "data": number_of_data,
        "name": data.name,
        "is_simulated": bool(data.made_by),
        "reading": shlex.join(data.reading.options),
        "rows": [*facts, *data_facts(trajectories, found)],
        "quality": quality_findings(found, quality.inspect(trajectories)),
        "notes": [*map(str, trajectories.provenance.get("notes", [])), *data.reading.notes],
        "taus": data.taus,
        "tau_texts": [readable_time(tau, unit) for tau in data.taus],
        "irregular": "" if data.taus else why,
        "scales": _scales(trajectories),
        "units": {"length": trajectories.length_unit, "time": unit},
        "drawing": trajectories_svg(trajectories),
    }


def _scales(trajectories: Trajectories) -> dict[str, str] | None:
    """Estimate the scales of default priors from the data."""
    try:
        found = data_scales(trajectories)
    except DriftbayesError:
        return None
    return {"u_rms": number(found.u_rms), "timescale": number(found.timescale)}


def comparison_answer(
    data: DataSet, request: CompareRequest, hypotheses: HypothesisSet, found: Comparison
) -> dict[str, Any]:
    """Describe a comparison for the page: numbers, tables, sentences and a panel.

    Args:
        data: The data set.
        request: Models and priors.
        hypotheses: Hypotheses of the request.
        found: Their comparison.
    """
    evidences = list(found.evidences.values())
    best = max(e.log_evidence for e in evidences)
    fits = fits_panel(data, hypotheses.hypotheses, found)
    # Dependence between particles overstates the evidence.
    shared = found.dependence
    doubts = [] if shared is None else [f"{shared['sentence']} (see `driftbayes dependence`)"]
    tables = {
        "models": model_table(evidences, found.probabilities),
        "parameters": parameter_table(evidences),
    }
    return {
        "tau": found.tau,
        "verdict": found.verdict,
        "summary": f"{found.n_displacements:,} displacements of {found.n_particles:,} particles, "
        f"{found.method}",
        "models": [
            {
                "name": e.name,
                "log_evidence": _finite(e.log_evidence),
                "behind": _finite(e.log_evidence - best),
                "probability": _finite(found.probabilities[e.name]),
                "label": f"{number(found.probabilities[e.name], 3)} · "
                + ("best" if e.log_evidence == best else f"ln K {_difference(e, best)}"),
            }
            for e in evidences
        ],
        "tables": {name: asdict(table) for name, table in tables.items()},
        "warnings": [*doubts, *describe(found).warnings],
        "priors": hypotheses.note.replace(ADVICE, _ADVICE),
        "colours": page_colours(list(found.evidences)),
        "commands": _commands(data, request, found.tau),
        "fits": None if fits is None else panel_answer(fits),
    }


def panel_answer(panel: Panel) -> dict[str, Any]:
    """Draw a panel for the page."""
    return {
        "name": panel.name,
        "title": panel.title,
        "scales": panel.drawn_scales,
        "svg": panel_svg(panel),
        "x": x_places(panel),
    }


def _commands(data: DataSet, request: CompareRequest, tau: float) -> list[str]:
    """Return the commands that repeat a comparison."""
    given = request.u_rms is not None and request.timescale is not None
    options = {
        "tau": f"{tau:.10g}" if data.taus else "all",
        "models": ",".join(request.models),
        "u_rms": repr(request.u_rms) if given else None,
        "timescale": repr(request.timescale) if given else None,
    }
    line = repeat_command("compare", [data.name, *data.reading.options], options)
    return [*([data.made_by] if data.made_by else []), line]


def _difference(evidence: Evidence, best: float) -> str:
    """Format ln K against the best model; one digit would round a small one to zero."""
    value = evidence.log_evidence - best
    return f"{value:.1f}" if abs(value) >= 0.95 else number(value, 2)


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


# Spread of the fitted models


def fits_panel(data: DataSet, hypotheses: Sequence[Hypothesis], found: Comparison) -> Panel | None:
    """Describe the mean square displacement over 2τ of the data and of each fitted model.

    Args:
        data: The data set.
        hypotheses: Hypotheses of the comparison.
        found: Their comparison at one sampling time.
    """
    if len(data.taus) < 2:
        return None
    taus = np.array(data.taus)
    curves = [Curve("data", "data", data.spread, kind="points")]
    for hypothesis in hypotheses:
        record = found.evidences[hypothesis.name]
        spread = model_spread(hypothesis, record, taus, data.trajectories)
        curves.append(Curve(hypothesis.name, hypothesis.name, spread, kind="plain"))
    length, time = data.trajectories.length_unit, data.trajectories.time_unit
    # In the unit of the slider and of the scan.
    per_time, shown_time = readable_unit(taus, time)
    return Panel(
        "fits",
        "Mean square displacement over 2τ",
        taus * per_time,
        with_unit("time τ", shown_time),
        f"⟨Δx²⟩ / 2τ ({length or 'length'}²/{time or 'time'})",
        curves,
        ("log", "linear"),
        (),
        "Mean square displacement over 2τ against τ, for the data and for each model with the "
        "parameters inferred at the chosen sampling time",
    )


def model_spread(
    hypothesis: Hypothesis, record: Evidence, taus: FloatArray, trajectories: Trajectories
) -> FloatArray:
    """Compute the expected mean square over 2τ of a model, with measurement errors and mean flow.

    NaN if it is not finite or depends on position.

    Args:
        hypothesis: Model and priors.
        record: Its evidence.
        taus: Sampling times.
        trajectories: Trajectories, for their measurement errors.
    """
    values = {**hypothesis.fixed, **record.map}
    model: Any = hypothesis.model(**values)
    lags = np.resize(taus, max(_N_LAGS, len(taus)))
    errors = trajectories.position_sd
    known = 0.0 if errors is None else float(np.mean(errors[trajectories.observed] ** 2))
    classes = getattr(model, "classes", (model,))
    weights = np.exp(np.asarray(getattr(model, "log_weights", np.zeros(1))))
    spread = np.zeros(len(lags))
    for weight, member in zip(weights, classes, strict=True):
        own = np.asarray(member.mean_square_displacement(lags))
        spread += weight * (own + 2 * (float(member.fix_variance()) + known))
    spread = spread[: len(taus)] * _mean_scale(hypothesis, values, record.derived)
    flow = [record.derived.get(f"flow_{i + 1}", 0.0) for i in range(trajectories.n_dim)]
    return np.asarray((spread + np.mean(np.square(flow)) * taus**2) / (2 * taus))


def _mean_scale(
    hypothesis: Hypothesis, values: Mapping[str, float], derived: Mapping[str, float]
) -> float:
    """Return the mean diffusivity over axes and particles, relative to the scale parameter."""
    if "gradient" in values:
        return float("nan")
    if "scatter" in values:
        return 1 / (1 - values["scatter"] ** 2) if values["scatter"] < 1 else float("nan")
    own = [value for name, value in derived.items() if name in ("K_11", "K_22", "K_33")]
    return float(np.mean(own) / values[hypothesis.model.scale_parameter]) if own else 1.0
