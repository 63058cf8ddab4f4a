"""Fit fields of diffusivity and flow to trajectories."""

__all__ = ["field"]

from typing import TYPE_CHECKING, Any

from driftbayes.data.sampling import displacements
from driftbayes.data.trajectories import Trajectories, check_tracks
from driftbayes.errors import DriftbayesError
from driftbayes.precision import in_double_precision
from driftbayes.priors import Exponential, Fixed
from driftbayes.workflow.analyses import Priors, Scales, hypotheses_for

if TYPE_CHECKING:
    from driftbayes.fields import FieldFit


@in_double_precision
def field(
    tracks: Trajectories,
    tau: float | str,
    *,
    priors: Priors | None = None,
    scales: Scales | None = None,
    **options: Any,
) -> "FieldFit":
    """Fit smooth fields of diffusivity and flow, with evidence that they vary in space.

    Particles move by dX = (u + ∇κ) dt + √(2κ) dW without memory: tau must be several times the
    integral time scale of the velocity.

    Args:
        tracks: Trajectories in one or two dimensions, as `read` gives them.
        tau: Sampling time.
        priors: Of `kappa`, exponential, and `flow`, fixed, as for brownian+mean.
        scales: As for `compare`.
        **options: `n_intervals`, `hypotheses` and `progress`, as for
            `driftbayes.fields.fit_field`.

    Returns:
        Evidence of four hypotheses, and the fields.

    Raises:
        DriftbayesError: The data do not allow a field, or a prior does not fit.
    """
    from driftbayes.fields import FieldPriors, fit_field

    check_tracks(tracks)
    data = displacements(tracks, tau)
    setup = hypotheses_for("brownian+mean", tracks, priors=priors, scales=scales, tau=data.tau)
    known = setup.hypotheses[0].priors
    kappa, flow = known["kappa"], known["flow"]
    if not isinstance(kappa, Exponential) or not isinstance(flow, Fixed):
        msg = (
            "a field needs an exponential prior of kappa and a fixed prior of flow, got "
            f"kappa ~ {kappa.describe()}, flow ~ {flow.describe()}"
        )
        raise DriftbayesError(msg)
    return fit_field(data, FieldPriors(float(kappa.scale), float(flow.value)), **options)
