"""What the trajectories themselves add to their scan: quality, fit, posteriors, priors."""

__all__ = ["Examination", "examine", "main_place"]

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from driftbayes.checks import FitCheck, check_fit
from driftbayes.comparison import Dependence, PriorSensitivity, dependence, prior_sensitivity
from driftbayes.comparison.dataset import hypotheses_of
from driftbayes.data.sampling import Displacements, displacements
from driftbayes.data.trajectories import Trajectories
from driftbayes.diagnostics.survey import Survey, survey
from driftbayes.errors import DriftbayesError
from driftbayes.inference import Hypothesis, PosteriorDraws, posterior_draws
from driftbayes.quality import QualityReport, inspect
from driftbayes.typing import FloatArray

if TYPE_CHECKING:
    import xarray as xr

Progress = Callable[[str, int, int], None]
_Found = TypeVar("_Found")

# Draws of each posterior: enough to see its shape.
_DRAWS = 1000
# Particles whose dependence is looked at.
_PARTICLES = 500
# The scales of the priors are multiplied by these.
_FACTORS = np.geomspace(1 / 16, 16, 9)
# Replicas of more displacements than this would take longer than the scan.
_MOST_DISPLACEMENTS = 400_000


@dataclass(frozen=True, eq=False)
class Examination:
    """What was found beyond the scan.

    Args:
        trajectories: That the scan was made of.
        survey: How they are sampled.
        quality: What looks wrong in them.
        main: Place in the scan of the sampling time of posteriors and figures.
        dependence: Whether particles move together, by place.
        check: Whether the models explain the data, at `main`.
        draws: From the posterior of each model, at `main`.
        sensitivity: What the priors do to ln K, by place.
        left_out: What could not be done, with the reason.
    """

    trajectories: Trajectories
    survey: Survey
    quality: QualityReport
    main: int
    dependence: dict[int, Dependence] = field(default_factory=dict)
    check: FitCheck | None = None
    draws: tuple[PosteriorDraws, ...] = ()
    sensitivity: dict[int, PriorSensitivity] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)


def examine(
    trajectories: Trajectories,
    scan: "xr.Dataset",
    *,
    n_replicas: int = 200,
    progress: Progress | None = None,
) -> Examination:
    """Look at the trajectories of a scan beyond it.

    Dependence and prior sensitivity are asked for at three sampling times, the shortest, the
    longest and the main one or one between; goodness of fit and posteriors, which take longer, at
    the main one.

    Args:
        trajectories: The same that the scan was made of.
        scan: Dataset of the scan.
        n_replicas: Data sets drawn from each model, 100 or more; 0 leaves the check out.
        progress: Called with a stage, how many are done, and of how many.
    """
    stored = str(scan.attrs.get("data_fingerprint", ""))
    if stored != trajectories.fingerprint:
        msg = (
            f"these trajectories are not those of the scan: expected fingerprint {stored!r}, got "
            f"{trajectories.fingerprint!r}; read the same file with the same options, or scan it"
        )
        raise DriftbayesError(msg)
    hypotheses = tuple(hypotheses_of(scan, trajectories.n_dim).values())
    options = _options(scan)
    main = main_place(scan)
    last = scan.sizes["tau"] - 1
    places = sorted({0, last // 2 if main in (0, last) else main, last, main})
    left_out: dict[str, str] = {}
    found: dict[str, dict[int, Any]] = {"dependence": {}, "sensitivity": {}, "check": {}}
    draws: list[PosteriorDraws] = []
    for i, place in enumerate(places):
        tau = float(scan["tau"].values[place])
        data = displacements(trajectories, tau, **options["cut"])
        jobs: dict[str, Callable[[], Any]] = {
            "dependence": partial(dependence, trajectories, tau, max_particles=_PARTICLES),
            "sensitivity": partial(
                prior_sensitivity, hypotheses, data, factors=_FACTORS, **options["how"]
            ),
        }
        if place == main and n_replicas != 0:
            times = trajectories.times[data.start_row]
            jobs["check"] = partial(_checked, hypotheses, data, times, n_replicas, options)
        for name, job in jobs.items():
            _attempt(name, job, place, found[name], left_out)
        if place == main:
            draws = _draws(hypotheses, data, options, left_out)
        if progress is not None:
            progress("examining", i + 1, len(places))
    return Examination(
        trajectories,
        survey(trajectories),
        inspect(trajectories),
        main,
        dependence=found["dependence"],
        check=found["check"].get(main),
        draws=tuple(draws),
        sensitivity=found["sensitivity"],
        left_out=left_out,
    )


def main_place(scan: "xr.Dataset") -> int:
    """The shortest sampling time at which the best model is consistent in all its parameters.

    The middle one if there is none.
    """
    names = [str(name) for name in scan["model"].values]
    owners = np.array([str(p).rpartition(".")[0] for p in scan["parameter"].values])
    consistent = np.asarray(scan["consistent"].values, dtype=bool)
    best = scan["probability"].values.argmax(axis=0)
    for place, model in enumerate(best):
        if consistent[owners == names[model], place].all():
            return place
    return scan.sizes["tau"] // 2


def _options(scan: "xr.Dataset") -> dict[str, Any]:
    """How the scan cut its data, and how it integrated."""
    stored = json.loads(str(scan.attrs.get("options", "{}")))
    method = str(scan.attrs.get("method", "exact"))
    cut = {"n_tau": stored.get("n_tau"), "gaps": stored.get("gaps", "split")}
    return {
        "cut": {**cut, "windows": stored.get("windows", "first")},
        "how": {
            "method": "auto" if method == "exact" else method,
            "coords": stored.get("coords", "natural"),
            "seed": int(stored.get("seed", 0)),
        },
        "prior_probabilities": stored.get("prior_probabilities"),
    }


def _checked(
    hypotheses: tuple[Hypothesis, ...],
    data: Displacements,
    start_times: FloatArray,
    n: int,
    options: dict[str, Any],
) -> FitCheck:
    if len(data.dx) > _MOST_DISPLACEMENTS:
        msg = (
            f"{len(data.dx):,} displacements are many to draw replicas of; "
            f"`driftbayes check FILE --tau {data.tau:g}` does, with patience"
        )
        raise DriftbayesError(msg)
    prior = options["prior_probabilities"]
    return check_fit(
        hypotheses,
        data,
        start_times=start_times,
        n_replicas=n,
        prior_probabilities=prior,
        **options["how"],
    )


def _draws(
    hypotheses: tuple[Hypothesis, ...],
    data: Displacements,
    options: dict[str, Any],
    left_out: dict[str, str],
) -> list[PosteriorDraws]:
    found: dict[int, PosteriorDraws] = {}
    for i, hypothesis in enumerate(hypotheses):
        _attempt(
            f"the posterior of {hypothesis.name}",
            partial(posterior_draws, hypothesis, data, n_draws=_DRAWS, **options["how"]),
            i,
            found,
            left_out,
        )
    return list(found.values())


def _attempt(
    name: str,
    job: Callable[[], _Found],
    place: int,
    into: dict[int, _Found],
    left_out: dict[str, str],
) -> None:
    """Do a job; what cannot be done is told and costs nothing else."""
    try:
        into[place] = job()
    except DriftbayesError as error:
        left_out.setdefault(name, str(error))
