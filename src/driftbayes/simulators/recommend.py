"""Which numbers of a scan to use, with which error, and over which times they hold."""

__all__ = ["DIFFUSIVITY", "Estimate", "Recommendation", "recommend"]

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from driftbayes.errors import DriftbayesError
from driftbayes.models import MODELS, model_named
from driftbayes.suggest import did_you_mean
from driftbayes.units import length_factor, time_factor

if TYPE_CHECKING:
    import xarray as xr

CONVENTION = "Var(dx) = 2 K t along each axis, for times t at which the motion is diffusive"

# The parameter that is the long-time diffusivity, for the models that have one.
DIFFUSIVITY = {
    "brownian": "kappa",
    **dict.fromkeys(("langevin", "second_order", "oscillating", "two_scale", "matern"), "k"),
}


@dataclass(frozen=True)
class Estimate:
    """One parameter.

    Args:
        value: Posterior mean.
        sd: Posterior standard deviation.
        low: Smallest posterior mean over the times at which the model holds.
        high: Largest of them.
        unit: Its unit.
    """

    value: float
    sd: float
    low: float
    high: float
    unit: str


@dataclass(frozen=True)
class Recommendation:
    """Numbers for a simulator, in metres and seconds.

    Args:
        model: Name of the model.
        parameters: Its parameters.
        tau: Sampling time at which they were taken, in seconds.
        tau_min: Smallest sampling time over which they are consistent; NaN if they are not.
        tau_max: Largest of them.
        probability: Of the model at `tau`, among those compared.
        notes: What a user should know, in words.
        origin: What is needed to repeat it: version, fingerprint, options, source.
    """

    model: str
    parameters: dict[str, Estimate]
    tau: float
    tau_min: float
    tau_max: float
    probability: float
    notes: tuple[str, ...]
    origin: dict[str, Any]

    @property
    def diffusivity(self) -> Estimate:
        """Long-time diffusivity per axis."""
        name = DIFFUSIVITY.get(self.model.partition("+")[0].partition("*")[0])
        if name is None or name not in self.parameters:
            msg = (
                f"{self.model} has no one long-time diffusivity to give to a simulator; "
                f"use a model that disperses ({', '.join(DIFFUSIVITY)}), or --for json"
            )
            raise DriftbayesError(msg)
        return self.parameters[name]

    @property
    def is_langevin(self) -> bool:
        """Whether the velocity is that of the Langevin model, whatever its options."""
        return self.model.partition("+")[0] == "langevin" and "gamma" in self.parameters


def recommend(
    scan: "xr.Dataset",
    *,
    model: str | None = None,
    tau: float | None = None,
    length_unit: str | None = None,
    time_unit: str | None = None,
) -> Recommendation:
    """The numbers to use.

    Without `tau`, those of a model that is consistent over a range of sampling times, taken where
    they are known best; of several such models, the most probable there. With `tau`, those at the
    nearest sampling time of the scan, of the model that is most probable there.

    Args:
        scan: Dataset of a scan.
        model: Name of the model, to use no other.
        tau: Sampling time, in the unit of the scan.
        length_unit: Unit of length, if the scan has none.
        time_unit: Unit of time, if the scan has none.
    """
    names = [str(name) for name in scan["model"].values]
    if model is not None and model not in names:
        near = did_you_mean(model, names)
        msg = f"the scan has no model {model!r}; it has {', '.join(names)}{near}"
        raise DriftbayesError(msg)
    candidates = names if model is None else [model]
    taus = np.asarray(scan["tau"].values, dtype=np.float64)
    ranges = {name: _common(scan, name) for name in candidates}
    if tau is not None:
        if not (np.isfinite(tau) and tau > 0):
            msg = f"tau must be a positive number, got {tau}"
            raise DriftbayesError(msg)
        place = int(np.argmin(np.abs(np.log(taus / tau))))
        chosen = max(candidates, key=lambda name: _probability(scan, name, place))
    else:
        places = {
            name: _best_known(scan, name, inside) for name, inside in ranges.items() if inside.any()
        }
        if not places:
            msg = (
                f"no parameters of {' or '.join(candidates)} are consistent over a range of "
                "sampling times, so that no one number holds; give the time scale of your "
                "simulation with --tau, or compare more models"
            )
            raise DriftbayesError(msg)
        chosen = max(places, key=lambda name: _probability(scan, name, places[name]))
        place = places[chosen]
    found = _made(scan, chosen, place, ranges[chosen], length_unit, time_unit)
    for name, estimate in found.parameters.items():
        needed = (estimate.value, estimate.sd, estimate.low, estimate.high, found.probability)
        if not np.isfinite(needed).all():
            msg = (
                f"{name} of {chosen} has no finite estimate at this sampling time: nothing can be "
                "exported; choose another with --tau, or another --model"
            )
            raise DriftbayesError(msg)
    return found


def _made(
    scan: "xr.Dataset",
    model: str,
    place: int,
    inside: np.ndarray,
    length_unit: str | None,
    time_unit: str | None,
) -> Recommendation:
    length = length_unit or str(scan.attrs.get("length_unit", ""))
    time = time_unit or str(scan.attrs.get("time_unit", ""))
    for unit, what in ((length, "length"), (time, "time")):
        if not unit:
            msg = (
                f"the scan does not say its unit of {what}, and a simulator needs one; pass "
                f"--{what}-unit"
            )
            raise DriftbayesError(msg)
    metres, seconds = length_factor(length)[0], time_factor(time)[0]
    taus = np.asarray(scan["tau"].values, dtype=np.float64) * seconds
    holds = bool(inside[place])
    where = inside if holds else np.arange(len(taus)) == place
    about = model_named(model, MODELS).parameters
    parameters = {}
    for name, parameter in about.items():
        label = f"{model}.{name}"
        if label not in scan["parameter"].values:
            continue
        factor = metres**parameter.length_power * seconds**parameter.time_power
        means = scan["posterior_mean"].sel(parameter=label).values * factor
        sd = float(scan["posterior_sd"].sel(parameter=label).values[place]) * factor
        unit = parameter.unit("m", "s")
        kept = means[where]
        parameters[name] = Estimate(
            float(means[place]), sd, float(kept.min()), float(kept.max()), unit
        )
    origin = {
        key: scan.attrs[key]
        for key in ("driftbayes_version", "data_fingerprint", "method", "priors", "options")
        if key in scan.attrs
    }
    origin["source"] = _source(scan)
    return Recommendation(
        model=model,
        parameters=parameters,
        tau=float(taus[place]),
        tau_min=float(taus[inside].min()) if holds else float("nan"),
        tau_max=float(taus[inside].max()) if holds else float("nan"),
        probability=_probability(scan, model, place),
        notes=_notes(scan, model, place, holds=holds),
        origin=origin,
    )


def _notes(scan: "xr.Dataset", model: str, place: int, *, holds: bool) -> tuple[str, ...]:
    notes = []
    if not holds:
        notes.append(
            "the parameters are not consistent around this sampling time: at another one they are "
            "others, and a simulation is right only at this one"
        )
    probability = _probability(scan, model, place)
    if probability < 0.5:
        others = scan["probability"].isel(tau=place)
        best = str(scan["model"].values[int(np.argmax(others.values))])
        notes.append(
            f"the model has a probability of only {probability:.2g} here, where {best} is the best"
        )
    status = str(scan["status"].sel(model=model).isel(tau=place).values)
    if status != "ok":
        notes.append(f"the evidence ended with the status {status}")
    return tuple(notes)


def _source(scan: "xr.Dataset") -> str:
    try:
        return str(json.loads(scan.attrs.get("provenance", "{}")).get("source", ""))
    except (ValueError, AttributeError):
        return ""


def _common(scan: "xr.Dataset", model: str) -> np.ndarray:
    """Sampling times at which all parameters of a model are in their consistent ranges."""
    labels = [str(p) for p in scan["parameter"].values if str(p).rpartition(".")[0] == model]
    inside = np.asarray(scan["consistent"].sel(parameter=labels).values, dtype=bool)
    return np.asarray(inside.all(axis=0))


def _best_known(scan: "xr.Dataset", model: str, inside: np.ndarray) -> int:
    labels = [str(p) for p in scan["parameter"].values if str(p).rpartition(".")[0] == model]
    worst = scan["log_sd"].sel(parameter=labels).values.max(axis=0)
    return int(np.argmin(np.where(inside, worst, np.inf)))


def _probability(scan: "xr.Dataset", model: str, place: int) -> float:
    return float(scan["probability"].sel(model=model).values[place])
