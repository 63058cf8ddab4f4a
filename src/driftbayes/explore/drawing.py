"""How the fits spread: the panel beside a comparison."""

__all__ = ["fits_panel"]

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from driftbayes.comparison import Comparison
from driftbayes.data.trajectories import Trajectories
from driftbayes.explore.dataset import DataSet
from driftbayes.inference import Evidence, Hypothesis
from driftbayes.report.svg import Curve, Panel
from driftbayes.typing import FloatArray

# Models are evaluated at as many lags as there can be sampling times, so that each operation is
# compiled once.
_LAGS = 12


def fits_panel(
    data: DataSet, hypotheses: Sequence[Hypothesis], found: Comparison
) -> tuple[str, dict[str, Any]] | None:
    """Mean square displacement over 2τ: of the data, and of each model as fitted at one τ.

    Args:
        data: The trajectories.
        hypotheses: That were compared.
        found: Their comparison at one sampling time.
    """
    if len(data.taus) < 2:
        return None
    taus = np.array(data.taus)
    curves = [Curve("data", "data", data.spread, kind="points")]
    for hypothesis in hypotheses:
        record = found.evidences[hypothesis.name]
        spread = _of_model(hypothesis, record, taus, data.trajectories)
        curves.append(Curve(hypothesis.name, hypothesis.name, spread, kind="plain"))
    unit = data.trajectories.time_unit
    length = data.trajectories.length_unit or "length"
    panel = Panel(
        *("fits", "How far they spread", taus),
        f"time τ ({unit})" if unit else "time τ",
        f"⟨Δx²⟩ / 2τ ({length}²/{unit or 'time'})",
        curves,
        ("log", "linear"),
        (),
        "Mean square displacement over 2τ against τ: of the data, and of each model with the "
        "parameters found at the chosen sampling time",
    )
    return panel.svg(), {"x": panel.x_places(), "title": panel.title}


def _of_model(
    hypothesis: Hypothesis, record: Evidence, taus: FloatArray, trajectories: Trajectories
) -> FloatArray:
    """What a model expects of observed displacements: with their errors and its mean flow.

    NaN, and so not drawn, where it expects no finite number or depends on where particles are.
    """
    import jax.numpy as jnp

    theta = jnp.asarray([record.map[name] for name in hypothesis.names])
    model: Any = hypothesis.at(theta)
    values = {name: float(value) for name, value in hypothesis.values(theta).items()}
    lags = np.resize(taus, max(_LAGS, len(taus)))
    errors = trajectories.position_sd
    known = 0.0 if errors is None else float(np.mean(errors[trajectories.observed] ** 2))
    classes = getattr(model, "classes", (model,))
    weights = np.exp(np.asarray(getattr(model, "log_weights", np.zeros(1))))
    spread = np.zeros(len(lags))
    for weight, one in zip(weights, classes, strict=True):
        own = np.asarray(one.mean_square_displacement(jnp.asarray(lags)))
        spread += weight * (own + 2 * (float(one.fix_variance()) + known))
    spread = spread[: len(taus)] * _of_unlike(hypothesis, values, record.derived)
    flow = [record.derived.get(f"flow_{i + 1}", 0.0) for i in range(trajectories.n_dim)]
    return np.asarray((spread + np.mean(np.square(flow)) * taus**2) / (2 * taus))


def _of_unlike(
    hypothesis: Hypothesis, values: Mapping[str, float], derived: Mapping[str, float]
) -> float:
    """Mean over axes and particles of the diffusivity, over the model's scale."""
    if "gradient" in values:
        return float("nan")
    if "scatter" in values:
        return 1 / (1 - values["scatter"] ** 2) if values["scatter"] < 1 else float("nan")
    own = [value for name, value in derived.items() if name in ("K_11", "K_22", "K_33")]
    return float(np.mean(own) / values[hypothesis.model.scale_parameter]) if own else 1.0
