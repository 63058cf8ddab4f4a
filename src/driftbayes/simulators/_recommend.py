"""Choose parameters of a scan for a simulator, with errors and their range of validity."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from driftbayes._representation import number
from driftbayes.data._units import TIME, length_factor, positive_in_units, readable, time_factor
from driftbayes.errors import DriftbayesError, did_you_mean
from driftbayes.models import MODELS, AbstractModel, Parameter, model_named
from driftbayes.priors import Fixed, parse_prior
from driftbayes.simulators._long_time import Dispersion, Estimate, dispersion, observation_notes

if TYPE_CHECKING:
    import xarray as xr

CONVENTION = "Var(dx) = 2 K t along each axis, for times t at which the motion is diffusive"


@dataclass(frozen=True)
class Recommendation:
    """Numbers for a simulator, in metres and seconds.

    Args:
        model: Name of the model.
        parameters: Its parameters.
        tau: Sampling time at which they were taken, in seconds.
        tau_min: Smallest sampling time over which they are consistent; NaN if they are not.
        tau_max: Largest such sampling time.
        probability: Probability of the model at `tau`, among those compared.
        notes: Notes for the user.
        origin: Version, data fingerprint, options and source.
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
    def template(self) -> AbstractModel:
        """Template of the model."""
        return model_named(self.model, MODELS)

    @property
    def dispersion(self) -> Dispersion:
        """Long-time diffusivity along each axis, the mean over all particles."""
        return dispersion(self.template, self.parameters)

    @property
    def has_memory(self) -> bool:
        """Whether velocities have a memory, which the long-time diffusivity does not describe."""
        return self.template.core.name != "brownian"

    @property
    def is_langevin(self) -> bool:
        """Whether all particles follow one Langevin model."""
        model = self.template
        is_langevin = model.core.name == "langevin" and not model.is_mixture
        return is_langevin and "gamma" in self.parameters

    @property
    def option_notes(self) -> tuple[str, ...]:
        """Notes on options of the model that are not exported."""
        return observation_notes(self.template)


def recommend(
    scan: "xr.Dataset",
    *,
    model: str | None = None,
    tau: float | str | None = None,
    length_unit: str | None = None,
    time_unit: str | None = None,
) -> Recommendation:
    """Choose the parameters for a simulation.

    Without `tau`, the model must be consistent over a range of sampling times; its parameters are
    taken where they are best determined, and of several such models the most probable one there is
    chosen. With `tau`, the parameters are those of the most probable model at the nearest sampling
    time of the scan.

    Args:
        scan: Dataset of a scan.
        model: Name of the model; None to choose one.
        tau: Sampling time, in the unit of the scan or with a unit ("6h").
        length_unit: Unit of length, if the scan has none; must agree with that of the scan.
        time_unit: Unit of time, in the same way.
    """
    names = [str(name) for name in scan["model"].values]
    if model is not None and model not in names:
        near = did_you_mean(model, names)
        raise DriftbayesError(f"the scan has no model {model!r}; it has {', '.join(names)}{near}")
    candidates = names if model is None else [model]
    taus = np.asarray(scan["tau"].values, dtype=np.float64)
    ranges = {
        name: np.asarray(_of_model(scan, "consistent", name).astype(bool).all(axis=0))
        for name in candidates
    }
    if tau is not None:
        unit = str(scan.attrs.get("time_unit", "")) or time_unit or ""
        tau = positive_in_units(tau, TIME, ("", unit), "tau")
        place = int(np.argmin(np.abs(np.log(taus / tau))))
        chosen = max(candidates, key=lambda name: _probability(scan, name, place))
    else:
        # Where the parameters are best determined.
        places = {
            name: int(np.argmin(np.where(inside, _of_model(scan, "log_sd", name).max(0), np.inf)))
            for name, inside in ranges.items()
            if inside.any()
        }
        if not places:
            raise DriftbayesError(
                f"no parameters of {' or '.join(candidates)} are consistent over a range of "
                "sampling times; give the time scale of your simulation (`driftbayes export "
                "--tau`, in Python tau), or compare more models"
            )
        chosen = max(places, key=lambda name: _probability(scan, name, places[name]))
        place = places[chosen]
    return _make_recommendation(scan, chosen, place, ranges[chosen], length_unit, time_unit)


def _make_recommendation(
    scan: "xr.Dataset",
    model: str,
    place: int,
    inside: np.ndarray,
    length_unit: str | None,
    time_unit: str | None,
) -> Recommendation:
    metres = unit_factor(scan.attrs, "length", length_unit)
    seconds = unit_factor(scan.attrs, "time", time_unit)
    taus = np.asarray(scan["tau"].values, dtype=np.float64) * seconds
    holds = bool(inside[place])
    where = inside if holds else np.arange(len(taus)) == place
    parameters = {}
    # In three dimensions, which include all components of two.
    for name, parameter in model_named(model, MODELS, 3).parameters.items():
        means, sd = _posterior(scan, model, name, parameter)
        if means is None:
            continue
        if not np.isfinite([means[place], sd[place], _probability(scan, model, place)]).all():
            raise DriftbayesError(
                f"{name} of {model} has no finite estimate at tau = {readable(taus[place], 's')}; "
                "choose another --tau or --model"
            )
        factor = metres**parameter.length_power * seconds**parameter.time_power
        kept = means[where] * factor
        parameters[name] = Estimate(
            value=float(means[place] * factor),
            sd=float(sd[place] * factor),
            low=float(np.nanmin(kept)),
            high=float(np.nanmax(kept)),
            unit=parameter.unit("m", "s"),
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


def unit_factor(
    attributes: Mapping[Any, Any], what: str, given: str | None, noun: str = "the scan"
) -> float:
    """Return the factor that converts stored lengths or times to metres or seconds.

    Args:
        attributes: Attributes of a result.
        what: "length" or "time".
        given: Unit of the result, if it has none; must agree with the stored one.
        noun: Name of the result, for messages.
    """
    convert = length_factor if what == "length" else time_factor
    stored = str(attributes.get(f"{what}_unit", ""))
    if not (stored or given):
        raise DriftbayesError(
            f"{noun} has no unit of {what}, which a simulator needs; pass --{what}-unit"
        )
    if stored and given and convert(given)[0] != convert(stored)[0]:
        raise DriftbayesError(
            f"--{what}-unit {given} contradicts {noun}, whose unit of {what} is {stored}; omit the "
            "option"
        )
    return convert(stored or str(given))[0]


def _posterior(
    scan: "xr.Dataset", model: str, name: str, parameter: Parameter
) -> tuple[np.ndarray | None, np.ndarray]:
    """Return posterior means and sd along tau; a known value has a standard deviation of zero."""
    label, zero = f"{model}.{name}", np.zeros(scan.sizes["tau"])
    if label in scan["parameter"].values:
        chosen = scan.sel(parameter=label)
        return chosen["posterior_mean"].values, chosen["posterior_sd"].values
    text = json.loads(scan.attrs.get("priors", "{}")).get(model, {}).get(name)
    prior = None if text is None else parse_prior(text)
    # The prior width of a flow is not a parameter of the motion.
    if isinstance(prior, Fixed) and not parameter.is_prior_scale:
        return zero + prior.value, zero
    return None, zero


def _notes(scan: "xr.Dataset", model: str, place: int, *, holds: bool) -> tuple[str, ...]:
    notes = []
    if not holds:
        notes.append(
            "the parameters depend on the sampling time around this one; a simulation is valid "
            "only at this sampling time"
        )
    probability = _probability(scan, model, place)
    if probability < 0.5:
        others = scan["probability"].isel(tau=place)
        best = str(scan["model"].values[int(np.argmax(others.values))])
        notes.append(
            f"the model has a probability of only {number(probability, 2)} at this sampling time, "
            f"where {best} is the best"
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


def _of_model(scan: "xr.Dataset", variable: str, model: str) -> np.ndarray:
    """Return a variable of all parameters of a model, (parameter, tau)."""
    labels = [str(p) for p in scan["parameter"].values if str(p).rpartition(".")[0] == model]
    return np.asarray(scan[variable].sel(parameter=labels).values)


def _probability(scan: "xr.Dataset", model: str, place: int) -> float:
    return float(scan["probability"].sel(model=model).values[place])
