"""What stands above exported numbers: what they are, how sure, where they hold, where from."""

__all__ = ["header"]

import math

from driftbayes.simulators.recommend import CONVENTION, Recommendation
from driftbayes.units import readable_time


def header(recommendation: Recommendation) -> str:
    """The numbers in words, as lines of comment."""
    one = recommendation
    version = one.origin.get("driftbayes_version", "")
    lines = [f"{one.model} motion, by driftbayes {version}".strip()]
    for name, e in one.parameters.items():
        text = f"{name} = {e.value:.6g} +- {e.sd:.2g} {e.unit}"
        if e.low < e.high:
            text += f", {e.low:.4g} to {e.high:.4g} over the range of validity"
        lines.append(text)
    lines.append(f"convention: {CONVENTION}")
    low, high, here = (readable_time(t, "s") for t in (one.tau_min, one.tau_max, one.tau))
    if math.isnan(one.tau_min):
        lines.append(f"taken at a sampling time of {here}, and at no other")
    else:
        lines.append(f"holds at sampling times from {low} to {high}; taken at {here}")
    lines.append(f"probability of the model there, among those compared: {one.probability:.4g}")
    lines += [f"note: {note}" for note in (*one.notes, *one.option_notes)]
    lines.append(
        f"data: {one.origin.get('source') or 'unknown'}, "
        f"fingerprint {one.origin.get('data_fingerprint', 'unknown')}"
    )
    return "".join(f"# {line}\n" for line in lines)
