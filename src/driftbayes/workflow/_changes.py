"""Change points of tracks."""

from typing import TYPE_CHECKING, Any

from driftbayes._precision import in_double_precision
from driftbayes.data._sampling import Cut, Displacements
from driftbayes.data._trajectories import Trajectories, check_tracks
from driftbayes.data._units import Dimension, in_units, readable
from driftbayes.diagnostics._scales import lag_one_doubts
from driftbayes.errors import DataWarning, warn
from driftbayes.inference import Hypothesis
from driftbayes.models import AbstractModel
from driftbayes.workflow._analyses import Priors, Scales, data_and_hypotheses

if TYPE_CHECKING:
    from driftbayes.changes import Segments

_RATE = Dimension("rate", 0, -1, "0.5/s")


@in_double_precision
def segments(
    tracks: Trajectories,
    tau: float | str,
    *,
    model: str | Hypothesis | AbstractModel = "brownian",
    rate: float | str | None = None,
    priors: Priors | None = None,
    scales: Scales | None = None,
    **options: Any,
) -> "Segments":
    """Find where each track changes its parameters, exactly over all segmentations.

    Args:
        tracks: Trajectories, as returned by `read`; gaps become longer steps.
        tau: Sampling time, as for `compare`; "all" uses every fix at its own interval.
        model: brownian (κ changes; also with a known measurement error), brownian+mean (κ and the
            mean velocity) or langevin (γ and k).
        rate: Expected changes per time, in the unit of the data or with its own ("0.5/s"); by
            default such that a track of mean duration changes with probability 1/2.
        priors: Priors of the parameters of each segment, by name.
        scales: Scales of the motion for default priors; by default estimated from the data.
        **options: `progress`, called with the stage, the number done and the total.

    Returns:
        Probabilities of changes, and the segments of each track.

    Raises:
        DriftbayesError: No track has two steps, or an option does not fit.

    Example:
        >>> import numpy as np
        >>> import driftbayes as db
        >>> steps = np.random.default_rng(1).normal(size=(1, 200, 2))
        >>> steps[:, 120:] *= 5
        >>> tracks = db.read(np.cumsum(steps, axis=1), dt=1.0)
        >>> found = db.segments(tracks, 1.0, scales=db.Scales(u_rms=3, time=1))
        >>> [int(t) for t in found[0].change_times], found[0].any_change > 0.999
        ([120], True)
    """
    from driftbayes.changes import find_segments

    check_tracks(tracks)
    per_time = None if rate is None else in_units(rate, _RATE, tracks.units, "rate")
    cut = Cut(gaps="keep")
    data, setup = data_and_hypotheses(tracks, tau, cut, [model], priors, scales)
    hypothesis = setup.hypotheses[0]
    result = find_segments(data, hypothesis, tracks, rate=per_time, **options)
    n_alone = result.n_short - data.n_unused
    if n_alone:
        what, verb = ("1 track has", "is") if n_alone == 1 else (f"{n_alone} tracks have", "are")
        text = f"{what} only one step at this tau, cannot change, and {verb} not used"
        warn(text, DataWarning)
    _warn_of_noise(data, hypothesis.name)
    return result


def _warn_of_noise(data: Displacements, model: str) -> None:
    """Warn of negative correlations of steps, as from measurement errors."""
    if data.position_sd is not None:
        return
    for clause, _ in lag_one_doubts(data, ("mean", "blur"), is_every_fix=False):
        if clause.startswith("measurement"):
            warn(
                f"successive steps anticorrelate at tau = {readable(data.tau, data.time_unit)}, as "
                f"expected from measurement errors or confinement, but {model} has neither; give a "
                "known error (--noise SD), or use a longer sampling time",
                DataWarning,
            )
