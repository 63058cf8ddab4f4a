"""Warn if particles move together."""

__all__ = ["warn_if_dependent"]

import warnings
from collections.abc import Sequence
from typing import Any

from driftbayes.comparison import Comparison, thinned_log_bayes_factor
from driftbayes.comparison.dependence import glance
from driftbayes.data.sampling import Displacements
from driftbayes.data.trajectories import Trajectories
from driftbayes.errors import DependenceWarning
from driftbayes.inference import Hypothesis


def warn_if_dependent(
    tracks: Trajectories,
    pairs: Sequence[tuple[Comparison, Displacements]],
    hypotheses: Sequence[Hypothesis],
) -> dict[str, Any] | None:
    """Warn if particles move together.

    Args:
        tracks: Trajectories.
        pairs: Comparisons at one or a few tau, with the displacements they were made of.
        hypotheses: The hypotheses compared.

    Returns:
        What is known of the dependence, or None if there is none to speak of.
    """
    worst = None
    for comparison, data in pairs:
        found = glance(tracks, data.tau)
        if found.is_serious and (worst is None or found.inflation > worst[0].inflation):
            worst = found, comparison, data
    if worst is None:
        return None
    found, comparison, data = worst
    factor = found.n_particles / found.n_effective
    scaled = thinned_log_bayes_factor(comparison, hypotheses, data, factor)
    text = ""
    if scaled:
        pair = next(iter(scaled))
        text = (
            f"; corrected ln K({pair}) about {scaled[pair]:.3g}, not "
            f"{comparison.log_bayes_factors[pair]:.4g}"
        )
    at = f"at tau = {found.tau:g} {found.time_unit}".rstrip()
    warnings.warn(
        f"{at} {found.sentence}{text} (see `driftbayes dependence`)",
        DependenceWarning,
        stacklevel=4,
    )
    return {**found.to_json(), "scaled_log_bayes_factors": scaled}
