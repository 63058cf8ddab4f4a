"""The numbers as JSON, for any program."""

__all__ = ["json_text"]

import json
import math
from dataclasses import asdict
from typing import Any

from driftbayes.errors import DriftbayesError
from driftbayes.simulators.recommend import CONVENTION, Recommendation


def json_text(recommendation: Recommendation) -> str:
    """All of a recommendation."""
    content = asdict(recommendation)
    for name in ("tau", "tau_min", "tau_max"):
        value = content.pop(name)
        content[f"{name}_s"] = None if math.isnan(value) else value
    content["notes"] = [*recommendation.notes, *recommendation.option_notes]
    content["diffusivity"] = _diffusivity(recommendation)
    content["convention"] = CONVENTION
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _diffusivity(recommendation: Recommendation) -> dict[str, Any] | None:
    """Elements of the tensor, one for all axes if they are alike; None if there is none."""
    try:
        found = recommendation.dispersion
    except DriftbayesError:
        return None
    if found.is_isotropic:
        return {"K": asdict(found.zonal)}
    elements = {f"K_{i + 1}{i + 1}": asdict(e) for i, e in enumerate(found.axes)}
    return {**elements, "K_12": {"value": found.cross, "unit": found.zonal.unit}}
