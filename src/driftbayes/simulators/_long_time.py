"""Long-time diffusivity of a model with options: that of a random walk of equal spread."""

__all__ = ["DIFFUSIVITY", "Dispersion", "Estimate", "dispersion", "observation_notes", "parts_of"]

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from driftbayes._precision import in_double_precision
from driftbayes._representation import number, with_error
from driftbayes._typing import FloatArray
from driftbayes.errors import DriftbayesError
from driftbayes.models import MODELS, model_named

# The parameter that is the long-time diffusivity, for the models that have one.
DIFFUSIVITY = {
    "brownian": "kappa",
    **dict.fromkeys(("langevin", "second_order", "oscillating", "two_scale", "matern"), "k"),
}
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


class Parts(NamedTuple):
    """Parts of a model's name.

    Args:
        base: The model without options, or several joined by `&`.
        options: Its options.
        is_mixture: Whether trajectories belong to several classes.
    """

    base: str
    options: tuple[str, ...]
    is_mixture: bool

    @property
    def diffusivity(self) -> str | None:
        """Name of the parameter that is the long-time diffusivity; None if there is none."""
        # Diffusivities of independent motions add up, if none of them is confined.
        if not all(part in DIFFUSIVITY for part in self.base.split("&")):
            return None
        return "k" if "&" in self.base else DIFFUSIVITY[self.base]


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


def parts_of(model: str) -> Parts:
    """Split a model's name into its parts."""
    name, star, _ = model.partition("*")
    parts = [part.split("+") for part in name.split("&")]
    options = [option for _, *own in parts for option in own]
    return Parts("&".join(base for base, *_ in parts), tuple(options), bool(star))


def dispersion(model: str, parameters: Mapping[str, Estimate]) -> Dispersion:
    r"""Compute the long-time diffusivity along each axis, at the posterior means of the parameters.

    For a tensor $k\,e^H$ these are its elements. If particles differ it is the mean over them,
    which determines the mean square displacement: $k/(1 - s^2)$ with a scatter s, and
    $\sum_c w_c k_c$ for classes. Errors are propagated from the parameters, taken as independent.

    Args:
        model: Name of the model, with options.
        parameters: Its parameters, including known ones.
    """
    parts = parts_of(model)
    options, is_mixture, name = parts.options, parts.is_mixture, parts.diffusivity
    if name is None or name not in parameters:
        raise DriftbayesError(
            f"{model} has no single long-time diffusivity to export; "
            f"use a model that disperses ({', '.join(DIFFUSIVITY)}), or --for json"
        )
    unit = parameters[name].unit
    if not (is_mixture or {"scatter", "anisotropic"} & set(options)):
        return Dispersion((parameters[name],))
    if "scatter" in options:
        s = parameters["scatter"]
        if s.value + _MIN_SIGMAS * s.sd >= 1:
            raise DriftbayesError(
                f"the mean diffusivity of {model} is undetermined: the scatter is "
                f"s = {with_error(s.value, s.sd)}, and for s of 1 or more the mean is infinite; "
                "use a model without +scatter, or --for json"
            )
        mean = _propagate(lambda v: v[name] / (1 - v["scatter"] ** 2), parameters, unit)
        return Dispersion((mean,))
    if is_mixture:
        return Dispersion((_propagate(_mean_of_classes(model, name), parameters, unit),))
    tensor = _tensor(name, parameters)
    here = tensor({n: e.value for n, e in parameters.items()})
    axes = [
        _propagate(lambda values: tensor(values)[i, i], parameters, unit)  # noqa: B023
        for i in range(len(here))
    ]
    return Dispersion(tuple(axes), cross=float(here[0, 1]))


def observation_notes(model: str) -> tuple[str, ...]:
    """Return notes on options of the model that are not exported."""
    _, options, is_mixture = parts_of(model)
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
    chosen = [text for option, text in notes.items() if option in options]
    if is_mixture:
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


def _mean_of_classes(model: str, name: str) -> Callable[[Mapping[str, float]], float]:
    family: Any = model_named(model, MODELS)

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
