"""The numbers as JSON, for any program."""

__all__ = ["json_text"]

import json
import math
from dataclasses import asdict

from driftbayes.simulators.recommend import CONVENTION, Recommendation


def json_text(recommendation: Recommendation) -> str:
    """All of a recommendation."""
    content = asdict(recommendation)
    for name in ("tau", "tau_min", "tau_max"):
        value = content.pop(name)
        content[f"{name}_s"] = None if math.isnan(value) else value
    content["convention"] = CONVENTION
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
