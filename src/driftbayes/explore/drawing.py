"""How the fits spread: the panel beside a comparison."""

__all__ = ["fits_panel"]

from collections.abc import Sequence
from typing import Any

import numpy as np

from driftbayes.comparison import Comparison
from driftbayes.explore.dataset import DataSet
from driftbayes.inference import Hypothesis
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
        theta = found.evidences[hypothesis.name].map
        spread = _of_model(hypothesis, theta, taus)
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


def _of_model(hypothesis: Hypothesis, theta: Any, taus: FloatArray) -> FloatArray:
    import jax.numpy as jnp

    values = jnp.asarray([theta[name] for name in hypothesis.names])
    lags = np.resize(taus, max(_LAGS, len(taus)))
    spread = np.asarray(hypothesis.at(values).mean_square_displacement(jnp.asarray(lags)))
    return np.asarray(spread[: len(taus)] / (2 * taus))
