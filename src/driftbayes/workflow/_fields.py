"""Fields of dispersion."""

from typing import TYPE_CHECKING, Any

from driftbayes._precision import in_double_precision
from driftbayes.data._sampling import Displacements, displacements
from driftbayes.data._trajectories import Trajectories, check_tracks
from driftbayes.data._units import readable
from driftbayes.diagnostics._scales import memory_of_steps
from driftbayes.errors import DataWarning, DriftbayesError, warn
from driftbayes.priors import AbstractPrior, Exponential, Fixed
from driftbayes.workflow._analyses import Priors, Scales, hypotheses_for

if TYPE_CHECKING:
    from driftbayes.fields import FieldFit, FlightFit

_MODELS = ("brownian", "langevin")


@in_double_precision
def field(
    tracks: Trajectories,
    tau: float | str,
    *,
    model: str = "brownian",
    priors: Priors | None = None,
    scales: Scales | None = None,
    **options: Any,
) -> "FieldFit | FlightFit":
    """Fit smooth fields of dispersion, with evidence for variation in space.

    With `model="brownian"` the fields are a diffusivity and a flow: particles move by
    dX = (u + ∇κ) dt + √(2κ) dW without memory, so that tau must be several times the integral time
    scale of the velocity. With `model="langevin"` they are the standard deviation, memory time and
    mean of the velocity, in Thomson's well-mixed random flight.

    Args:
        tracks: Trajectories in one or two dimensions, as returned by `read`.
        tau: Sampling time.
        model: "brownian" or "langevin".
        priors: Exponential prior of `kappa` and fixed `flow`, as for brownian+mean; or exponential
            priors of `gamma` and `k` and fixed `flow`, as for langevin+mean.
        scales: Scales of the motion, as for `compare`.
        **options: `n_intervals`, `hypotheses` and `progress`, and for Brownian motion `density` and
            `walls`, as for `driftbayes.fields.fit_field`.

    Returns:
        Evidence of all hypotheses, and the fields: a `FieldFit` or a `FlightFit`.

    Raises:
        DriftbayesError: The data do not allow a field, or a prior does not fit.

    Example:
        >>> import driftbayes as db
        >>> tracks = db.read("floats.nc")  # doctest: +SKIP
        >>> found = db.field(tracks, "1d")  # doctest: +SKIP
    """
    from driftbayes.fields import FieldPriors, FlightPriors, fit_field, fit_flight

    check_tracks(tracks)
    if model not in _MODELS:
        msg = f"unknown model of a field {model!r}; expected {' or '.join(_MODELS)}"
        raise DriftbayesError(msg)
    if tracks.recording_interval is None and len(tracks.intervals):
        advice = "a field needs regular times, but a map (`map --taus all`) takes irregular ones"
        raise DriftbayesError(tracks.irregular_message(advice))
    data = displacements(tracks, tau)
    setup = hypotheses_for(f"{model}+mean", tracks, priors=priors, scales=scales, tau=data.tau)
    known = setup.hypotheses[0].priors
    flow = _scale(known, "flow", Fixed)
    if model == "langevin":
        for option in ("density", "walls"):
            if options.pop(option, None) not in (None, "auto"):
                raise DriftbayesError(f"{option} is an option of model brownian; omit it")
        gamma, k = (_scale(known, parameter, Exponential) for parameter in ("gamma", "k"))
        return fit_flight(data, FlightPriors(gamma, k, flow), **options)
    kappa = _scale(known, "kappa", Exponential)
    _warn_of_memory(data)
    return fit_field(data, FieldPriors(kappa, flow), **options)


def _warn_of_memory(data: Displacements) -> None:
    """Warn if successive steps correlate, as from a velocity with memory."""
    memory = memory_of_steps(data)
    if memory is not None:
        warn(
            f"successive steps correlate at {memory[0]:.2f} ± {memory[1]:.1g} at tau = "
            f"{readable(data.tau, data.time_unit)}, as expected from a velocity with memory or a "
            "strong flow; fields without memory fit memory as a flow, so compare with --model "
            "langevin (model=), or use a tau of several integral time scales",
            DataWarning,
        )


def _scale(known: dict[str, AbstractPrior], name: str, kind: type) -> float:
    """Return the scale of a prior, which must be of a given kind."""
    prior = known[name]
    if kind is Exponential and isinstance(prior, Exponential):
        return prior.scale
    if kind is Fixed and isinstance(prior, Fixed):
        return prior.value
    word = "an exponential" if kind is Exponential else "a fixed"
    raise DriftbayesError(f"a field needs {word} prior of {name}, got {name} ~ {prior.describe()}")
