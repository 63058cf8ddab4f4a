"""Trajectories from a model, as the sliders have it."""

__all__ = ["CHOICES", "START", "simulate", "sliders"]

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from driftbayes.data.trajectories import Trajectories
from driftbayes.errors import DriftbayesError
from driftbayes.explore.dataset import DataSet, Reading
from driftbayes.magnitudes import checked
from driftbayes.models import MODELS

# A few sizes only: a program is compiled for each.
CHOICES: dict[str, tuple[float, ...]] = {
    "particles": (3, 10, 30, 100),
    "steps": (50, 100, 200, 400),
    "interval": (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0),
}
# Where the sliders begin, and between which values they go. Rates are in units of 1/time, with a
# velocity that lasts for a time of one.
_AROUND: dict[str, tuple[float, float, float]] = {
    "gamma": (1.0, 0.05, 20.0),
    "k": (1.0, 0.05, 20.0),
    "kappa": (1.0, 0.05, 20.0),
    "hurst": (0.7, 0.05, 0.95),
    "reference": (1.0, 0.1, 10.0),
    "well": (0.5, 0.01, 10.0),
    "accel": (10.0, 0.5, 100.0),
    "smoothness": (1.5, 0.3, 6.0),
    "omega": (3.0, 0.1, 20.0),
    "ratio": (0.1, 0.01, 0.9),
    "share": (0.5, 0.05, 0.95),
}
START = {"model": "langevin", "particles": 10, "steps": 100, "interval": 1.0, "seed": 0}
NAME = "simulated.csv"


def sliders() -> dict[str, list[dict[str, Any]]]:
    """For each model its parameters, with where their sliders begin and end."""
    return {
        name: [
            {
                "name": parameter,
                "symbol": about.symbol,
                "meaning": about.meaning,
                "unit": about.unit(),
                # A share of a whole moves evenly, everything else by factors.
                "is_log": math.isinf(about.upper),
                **dict(zip(("value", "low", "high"), _AROUND[parameter], strict=True)),
            }
            for parameter, about in model.parameters.items()
        ]
        for name, model in MODELS.items()
    }


def simulate(wish: Mapping[str, Any]) -> DataSet:
    """A data set from a model.

    Args:
        wish: `model`, `theta` by name, `particles`, `steps`, `interval`, `seed`.
    """
    import jax

    name = str(wish.get("model"))
    if name not in MODELS:
        msg = f"unknown model {name!r}; known are {', '.join(MODELS)}"
        raise DriftbayesError(msg)
    model = MODELS[name]
    given = wish.get("theta")
    theta = {p: _number(given, p) for p in model.parameters} if isinstance(given, dict) else {}
    for parameter, about in model.parameters.items():
        if not 0 < theta.get(parameter, 0.0) < about.upper:
            msg = (
                f"{parameter} must be a positive number below {about.upper:g}, "
                f"got {theta.get(parameter)}"
            )
            raise DriftbayesError(msg)
    sizes = {}
    for what, choices in CHOICES.items():
        sizes[what] = _number(wish, what)
        if sizes[what] not in choices:
            known = ", ".join(f"{choice:g}" for choice in choices)
            msg = f"{what} must be one of {known}, got {sizes[what]:g}"
            raise DriftbayesError(msg)
    seed = _number(wish, "seed")
    if seed != int(seed) or not 0 <= seed < 2**31:
        msg = f"seed must be a whole number from 0 to 2^31 - 1, got {seed:g}"
        raise DriftbayesError(msg)
    n_particles, n_steps = int(sizes["particles"]), int(sizes["steps"])
    positions = model(**theta).simulate(
        jax.random.key(int(seed)),
        n_particles=n_particles,
        n_steps=n_steps,
        n_dim=2,
        tau=sizes["interval"],
    )
    numbers = {**theta, "tau": sizes["interval"], "particles": n_particles, "steps": n_steps}
    trajectories = Trajectories.from_arrays(
        np.asarray(positions),
        dt=sizes["interval"],
        provenance={
            **{"source": NAME, "simulated": name},
            **numbers,
            **{"dim": 2, "seed": int(seed)},
        },
    )
    words = ["driftbayes", "simulate", name]
    for option, value in {**numbers, "dim": 2, "seed": int(seed)}.items():
        words += [f"--{option}", f"{value:.10g}"]
    reading = Reading(trajectories, format=f"simulated from the model {name}")
    return DataSet(reading, NAME, made_by=[*words, "-o", NAME])


def _number(table: Any, name: str) -> float:
    return checked(table.get(name), name)
