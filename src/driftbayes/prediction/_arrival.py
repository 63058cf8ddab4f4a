"""Compare simulation models by the first-passage time to a distance."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast, get_args

import numpy as np
from scipy.optimize import brentq
from scipy.special import rel_entr

from driftbayes._representation import Table, number, plain, with_error, with_unit
from driftbayes.data._units import LENGTH, in_units, readable, readable_unit
from driftbayes.errors import DriftbayesError
from driftbayes.inference import PosteriorDraws
from driftbayes.models import Brownian
from driftbayes.prediction._first_passage import (
    Law,
    Shape,
    average_law,
    brownian_law,
    simulated_law,
)
from driftbayes.prediction._forecast import Forecast

# Key of the random stream of paths; each model has its own.
_STREAM = 2**62
# Smaller probabilities are below rounding.
_NEGLIGIBLE = 1e-12
# Fraction of particles that defines an early arrival.
_EARLY = 0.1


def parse_target(text: str, units: tuple[str, str]) -> tuple[Shape, float]:
    """Read a target of first arrival: "line:30km" or "circle:30km".

    Args:
        text: Shape and distance; a distance alone means a line.
        units: Units of length and time of the data.
    """
    shape, colon, distance = str(text).partition(":")
    if not colon:
        shape, distance = "line", str(text)
    if shape not in get_args(Shape):
        msg = f"a target of arrival must be line:DISTANCE or circle:RADIUS, got {text!r}"
        raise DriftbayesError(msg)
    value = in_units(distance, LENGTH, units, "arrival")
    if not (np.isfinite(value) and value > 0):
        raise DriftbayesError(f"the distance of arrival must be positive, got {distance!r}")
    return cast(Shape, shape), value


@dataclass(frozen=True)
class Arrival:
    """Probability of arrival under one simulation model.

    Args:
        horizon: Time ahead.
        name: Name of the choice.
        probability: Probability that a particle has arrived by the horizon.
        error: Standard error of the probability by simulation; 0 where it is exact.
        early: Time by which the first tenth has arrived; NaN if after the horizon.
        ratio: Ratio of the probability to that of the model average.
        loss: Loss of logarithmic score per particle for the event of arrival, in nats.
    """

    horizon: float
    name: str
    probability: float
    error: float
    early: float
    ratio: float
    loss: float


@dataclass(frozen=True)
class Arrivals:
    """First arrival at a distance, for each horizon and simulation model.

    Args:
        shape: A straight line, or a circle about the start.
        distance: Distance of the line, or radius of the circle.
        choices: Simulation models, for each horizon in turn; the model average first.
        notes: Limitations of the numbers.
    """

    shape: Shape
    distance: float
    choices: tuple[Arrival, ...]
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return plain numbers."""
        return dict(plain(self))

    def table(self, length_unit: str, time_unit: str) -> Table:
        """Tabulate the arrival under each choice."""
        per_time, shown = readable_unit([choice.horizon for choice in self.choices], time_unit)
        rows = []
        for choice in self.choices:
            time, probability = number(choice.horizon * per_time, 4), _percent(choice.probability)
            if choice.error > 0:
                probability = with_error(100 * choice.probability, 100 * choice.error)
            early = number(choice.early * per_time, 3) if np.isfinite(choice.early) else "-"
            small = "0" if choice.ratio >= 0 else "-"
            ratio = number(choice.ratio, 3) if choice.ratio > 1e-9 else small
            loss = number(choice.loss, 2) if choice.loss > 1e-9 else "0"
            rows.append((time, choice.name, probability, early, ratio, loss))
        target = {"line": "a straight line", "circle": "a distance from the start,"}[self.shape]
        title = f"First arrival at {target} {readable(self.distance, length_unit)} away"
        heads = (
            *(with_unit("T", shown), "choice", "arrived (%)", with_unit("first 10 %", shown)),
            *("ratio", "loss (nats)"),
        )
        return Table(heads, tuple(rows), "rlrrrr", title=title, keys=2)


def _percent(probability: float) -> str:
    return number(100 * probability, 3) if probability > _NEGLIGIBLE else "0"


def arrivals(
    forecast: Forecast, walks: Mapping[float, Mapping[str, float]], shape: Shape, distance: float
) -> Arrivals:
    """Compare simulation models by the probability of first arrival.

    Args:
        forecast: Fitted models.
        walks: Diffusivities of random walks to compare, by horizon and name.
        shape: A straight line, or a circle about the start.
        distance: Distance of the line, or radius of the circle, in the units of the data.

    Raises:
        DriftbayesError: A model has neither a closed form nor a state-space form.
    """
    prediction = forecast.prediction
    times, n_dim = prediction.horizons, prediction.n_dim
    laws: dict[str, Law] = {}
    notes = []
    for i, draws in enumerate(forecast.draws):
        name = draws.evidence.name
        if _is_brownian(draws):
            kappa = prediction.spreads[name].mixtures[0].variances / (2 * times[0])
            laws[name] = brownian_law(kappa, distance, shape, n_dim)
            continue
        seed = (forecast.seed, _STREAM + i)
        laws[name], moved = simulated_law(draws, times, (distance, shape), n_dim, seed)
        if moved:
            notes.append(
                f"{name}: the steps of its paths are too long for the stated error; halving them "
                f"changes the probability of arrival by up to {number(moved, 2)}"
            )
    weights = [prediction.probabilities[name] for name in laws]
    average = average_law(list(laws.values()), weights)
    choices = []
    for time in map(float, times):
        every = {"model average": average, **laws}
        for name, k in walks[time].items():
            every[name] = brownian_law(np.array([k]), distance, shape, n_dim)
        p = average(time)[0]
        for name, law in every.items():
            q, error = law(time)
            ratio = q / p if p > _NEGLIGIBLE else float("nan")
            early = _early(law, time)
            choices.append(Arrival(time, name, q, error, early, ratio, _loss(p, q)))
    return Arrivals(shape, distance, tuple(choices), tuple(notes))


def _early(law: Law, end: float) -> float:
    """Return the time by which the first tenth has arrived; NaN if after the end."""
    if law(end)[0] < _EARLY:
        return float("nan")
    low = 1e-9 * end
    return float(brentq(lambda time: law(time)[0] - _EARLY, low, end, rtol=1e-6))


def _loss(p: float, q: float) -> float:
    """Return the loss of logarithmic score of a forecast q of an event of probability p."""
    return float(rel_entr(p, q) + rel_entr(1 - p, 1 - q))


def _is_brownian(draws: PosteriorDraws) -> bool:
    return isinstance(draws.hypothesis.model.motion(), Brownian)
