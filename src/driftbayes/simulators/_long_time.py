"""Long-time diffusivity of a model with options: that of a random walk of equal spread."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from driftbayes._precision import in_double_precision
from driftbayes._representation import number, with_error
from driftbayes._typing import FloatArray
from driftbayes.errors import DriftbayesError
from driftbayes.models import MODELS, AbstractModel, model_named

# Minimum distance of the scatter from 1, where the mean is infinite, in standard deviations.
_MIN_SIGMAS = 3.0
# Minimum relative size of off-diagonal elements that are noted.
_MIN_CROSS = 0.01


@dataclass(frozen=True)
class Estimate:
    """One parameter.

    Args:
        value: Posterior mean.
        sd: Posterior standard deviation.
        low: Smallest posterior mean over the sampling times at which the model is consistent.
        high: Largest posterior mean over these times.
        unit: Its unit.
    """

    value: float
    sd: float
    low: float
    high: float
    unit: str


@dataclass(frozen=True)
class Dispersion:
    """Mean long-time diffusivity over all particles.

    Args:
        axes: Diffusivity along each axis; a single one is for all.
        cross: $K_{12}$, zero if isotropic.
    """

    axes: tuple[Estimate, ...]
    cross: float = 0.0

    @property
    def is_isotropic(self) -> bool:
        """Whether all axes have the same diffusivity."""
        return len(self.axes) == 1

    @property
    def zonal(self) -> Estimate:
        """Along the first axis."""
        return self.axes[0]

    @property
    def meridional(self) -> Estimate:
        """Along the second axis."""
        return self.axes[min(1, len(self.axes) - 1)]

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on components of the tensor that are not exported."""
        notes = []
        if abs(self.cross) > _MIN_CROSS * np.sqrt(self.zonal.value * self.meridional.value):
            notes.append(
                f"the tensor has an off-diagonal element K_12 = {number(self.cross)} m²/s, which "
                "is not exported"
            )
        if len(self.axes) > 2:
            notes.append(f"K_33 = {number(self.axes[2].value, 6)} m²/s is not exported")
        return tuple(notes)


def dispersing_models() -> str:
    """Return the names of the models that have a long-time diffusivity, for messages."""
    return ", ".join(name for name in MODELS if model_named(name, MODELS).diffusivity)


def dispersion(model: AbstractModel, parameters: Mapping[str, Estimate]) -> Dispersion:
    r"""Compute the long-time diffusivity along each axis, at the posterior means of the parameters.

    For a tensor $k\,e^H$ these are its elements. If particles differ it is the mean over them,
    which determines the mean square displacement: $k/(1 - s^2)$ with a scatter s, and
    $\sum_c w_c k_c$ for classes. Errors are propagated from the parameters, taken as independent.

    Args:
        model: Template of the model.
        parameters: Its parameters, including known ones.
    """
    name = model.diffusivity
    if name is None or name not in parameters:
        raise DriftbayesError(
            f"{model.name} has no single long-time diffusivity to export; "
            f"use a model that disperses ({dispersing_models()}), or --for json"
        )
    unit = parameters[name].unit
    if not (model.is_mixture or {"scatter", "anisotropic"} & set(model.options)):
        return Dispersion((parameters[name],))
    if "scatter" in model.options:
        s = parameters["scatter"]
        if s.value + _MIN_SIGMAS * s.sd >= 1:
            raise DriftbayesError(
                f"the mean diffusivity of {model.name} is undetermined: the scatter is "
                f"s = {with_error(s.value, s.sd)}, and for s of 1 or more the mean is infinite; "
                "use a model without +scatter, or --for json"
            )
        mean = _propagate(lambda v: v[name] / (1 - v["scatter"] ** 2), parameters, unit)
        return Dispersion((mean,))
    if model.is_mixture:
        return Dispersion((_propagate(_mean_of_classes(model, name), parameters, unit),))
    tensor = _tensor(name, parameters)
    here = tensor({n: e.value for n, e in parameters.items()})
    axes = [
        _propagate(lambda values: tensor(values)[i, i], parameters, unit)  # noqa: B023
        for i in range(len(here))
    ]
    return Dispersion(tuple(axes), cross=float(here[0, 1]))


def observation_notes(model: AbstractModel) -> tuple[str, ...]:
    """Return notes on options of the model that are not exported."""
    notes = {
        "noise": "position errors are not part of the motion and are not exported",
        "outliers": "position errors are not part of the motion and are not exported",
        "blur": "motion blur is not part of the motion and is not exported",
        "mean": "the mean flow is not exported: the simulator's currents carry the particles",
        "linear": "the mean flow is not exported: the simulator's currents carry the particles",
        "rotating": "the sense of rotation is not exported",
        "scatter": "particles differ in diffusivity; their mean is exported",
        "student": "heavy tails of displacements are not exported, only their variance",
    }
    chosen = [text for option, text in notes.items() if option in model.options]
    if model.is_mixture:
        chosen.append("there are several classes of particles; their mean is exported")
    return tuple(dict.fromkeys(chosen))


def _tensor(
    name: str, parameters: Mapping[str, Estimate]
) -> Callable[[Mapping[str, float]], FloatArray]:
    """Return K as a function of the parameters."""
    components = sorted(n for n in parameters if n[:1] == "h" and n[1:].isdigit())
    family: Any = model_named("brownian+anisotropic", MODELS, 2 if len(components) == 2 else 3)

    @in_double_precision
    def tensor(values: Mapping[str, float]) -> FloatArray:
        own = {n: values[n] for n in components}
        return values[name] * np.asarray(family(kappa=1.0, **own).shape_tensor())

    return tensor


def _mean_of_classes(family: Any, name: str) -> Callable[[Mapping[str, float]], float]:
    """Return the mean diffusivity over the classes of a mixture as a function of its parameters."""

    @in_double_precision
    def mean(values: Mapping[str, float]) -> float:
        whole = family(**values)
        sizes = [float(model.value_of(name)) for model in whole.classes]
        return float(np.exp(np.asarray(whole.log_weights)) @ np.array(sizes))

    return mean


def _propagate(
    function: Callable[[Mapping[str, float]], float], parameters: Mapping[str, Estimate], unit: str
) -> Estimate:
    """Evaluate a function of the parameters, with its propagated error."""
    values = {name: e.value for name, e in parameters.items()}
    here = float(function(values))
    variance = 0.0
    for name, e in parameters.items():
        if e.sd > 0:
            # A small step, so that a share or a scatter stays within its bounds.
            step = 1e-4 * e.sd
            slope = float(function({**values, name: e.value + step})) - here
            variance += (slope / step * e.sd) ** 2
    return Estimate(here, float(np.sqrt(variance)), here, here, unit)
