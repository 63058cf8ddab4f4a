"""Recommend a diffusivity or random flight for a horizon, with the loss of other choices."""

__all__ = ["Choice", "Recommendations", "recommend_for"]

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gamma

from driftbayes._representation import (
    Card,
    Described,
    Table,
    describe,
    number,
    summarise,
    with_error,
    with_unit,
)
from driftbayes.data._units import DIFFUSIVITY, readable, readable_unit, unit_of
from driftbayes.models import Langevin
from driftbayes.prediction._arrival import Arrivals, arrivals
from driftbayes.prediction._first_passage import Shape
from driftbayes.prediction._forecast import Forecast
from driftbayes.prediction._predict import AVERAGE, ScaleMixture
from driftbayes.prediction.rules import log_score

_LEVEL = 0.95
# Nodes of the integral over distances.
_N_NODES = 400


@dataclass(frozen=True)
class Choice:
    """One simulation model of the spread at a horizon.

    Args:
        horizon: Time ahead.
        name: Name of the choice.
        kappa: Diffusivity of a random walk with this spread, Var/2T.
        size: Length, area or volume of the region with 95 % probability.
        ratio: Ratio of this region to that of the model average.
        loss: Loss of logarithmic score per particle relative to the model average, in nats.
        held: Probability under the model average of the region of this choice.
    """

    horizon: float
    name: str
    kappa: float
    size: float
    ratio: float
    loss: float
    held: float


@dataclass(frozen=True, eq=False, repr=False)
class Recommendations(Described):
    """Recommended simulation model for each horizon.

    Args:
        choices: Simulation models, for each horizon in turn; the model average first.
        memory: Posterior mean and standard deviation of 2k/γ, the reduction of variance by memory
            at long times, if Langevin dynamics were fitted.
        best: Most probable model, and its probability.
        n_dim: Number of axes.
        length_unit: Unit of length.
        time_unit: Unit of time.
        arrivals: First arrival at a distance, if requested.
    """

    choices: tuple[Choice, ...]
    memory: tuple[float, float] | None
    best: tuple[str, float]
    n_dim: int
    length_unit: str
    time_unit: str
    arrivals: Arrivals | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain numbers."""
        return {
            "choices": [vars(choice) for choice in self.choices],
            "variance_saved_by_memory": None if self.memory is None else self.memory[0],
            "variance_saved_by_memory_sd": None if self.memory is None else self.memory[1],
            "model": self.best[0],
            "probability": self.best[1],
            "n_dim": self.n_dim,
            "length_unit": self.length_unit,
            "time_unit": self.time_unit,
            **({} if self.arrivals is None else {"arrivals": self.arrivals.to_json()}),
        }


def recommend_for(
    forecast: Forecast, kappa: float | None = None, arrival: tuple[Shape, float] | None = None
) -> Recommendations:
    """Compare models for simulating the spread of fresh particles.

    The choices are each fitted model, random walks with the effective diffusivity at this and at
    other horizons, and a diffusivity of the user.

    Args:
        forecast: Fitted models and their spread at the horizons.
        kappa: A diffusivity to compare, in the units of the data.
        arrival: Also compare the probability of first arrival at this shape and distance.
    """
    prediction = forecast.prediction
    average = prediction.spreads[AVERAGE]
    times, n_dim = prediction.horizons, prediction.n_dim
    unit = forecast.data.time_unit
    choices = []
    walks: dict[float, dict[str, float]] = {}
    for i, horizon in enumerate(times):
        reference = average.mixtures[i]
        mixtures = {"model average": reference}
        mixtures |= {
            name: spread.mixtures[i]
            for name, spread in prediction.spreads.items()
            if name != AVERAGE
        }
        diffusivities = walks[float(horizon)] = {}
        for j, other in enumerate(times):
            where = "this time" if i == j else readable(float(other), unit, 3)
            diffusivities[f"random walk, K right at {where}"] = float(average.diffusivity[j])
        if kappa is not None:
            diffusivities["random walk, K as given"] = kappa
        mixtures |= {name: _gaussian(2 * k * horizon, n_dim) for name, k in diffusivities.items()}
        choices += [
            _evaluate_choice(name, float(horizon), mixture, reference)
            for name, mixture in mixtures.items()
        ]
    best = max(prediction.probabilities, key=lambda name: prediction.probabilities[name])
    return Recommendations(
        choices=tuple(choices),
        memory=_memory(forecast),
        best=(best, float(prediction.probabilities[best])),
        n_dim=n_dim,
        length_unit=forecast.data.length_unit,
        time_unit=unit,
        arrivals=None if arrival is None else arrivals(forecast, walks, *arrival),
    )


def _gaussian(variance: float, n_dim: int) -> ScaleMixture:
    return ScaleMixture(np.array([variance]), np.ones(1), n_dim)


def _evaluate_choice(
    name: str, horizon: float, choice: ScaleMixture, reference: ScaleMixture
) -> Choice:
    radius, expected = (float(m.distance_quantiles([_LEVEL])[0]) for m in (choice, reference))
    return Choice(
        horizon=horizon,
        name=name,
        kappa=choice.variance / (2 * horizon),
        size=_ball(radius, choice.n_dim),
        ratio=(radius / expected) ** choice.n_dim,
        loss=_loss(choice, reference) if choice is not reference else 0.0,
        held=float(reference.distance_cdf(radius)),
    )


def _ball(radius: float, n_dim: int) -> float:
    """Return the length, area or volume of a ball."""
    return float(np.pi ** (n_dim / 2) / gamma(n_dim / 2 + 1) * radius**n_dim)


def _loss(choice: ScaleMixture, reference: ScaleMixture) -> float:
    """Compute the Kullback–Leibler divergence of a choice from the reference, over the distance."""
    nodes, weights = np.polynomial.legendre.leggauss(_N_NODES)
    # Gaussians are negligible beyond twelve of the largest standard deviations.
    used = reference.weights > 0
    end = 12 * float(np.sqrt(reference.variances[used].max()))
    r, weights = 0.5 * end * (nodes + 1), 0.5 * end * weights
    log_p = log_score(reference, r)
    surface = reference.n_dim * _ball(1.0, reference.n_dim) * r ** (reference.n_dim - 1)
    return float(np.sum(weights * surface * np.exp(log_p) * (log_p - log_score(choice, r))))


def _memory(forecast: Forecast) -> tuple[float, float] | None:
    """Return the posterior moments of 2k/γ of plain Langevin dynamics; None if not fitted."""
    for draws in forecast.draws:
        if isinstance(draws.hypothesis.model, Langevin):
            values = dict(zip(draws.names, np.asarray(draws.theta).T, strict=True))
            saved = 2 * values["k"] / values["gamma"]
            return float(saved.mean()), float(saved.std())
    return None


@summarise.register
def _(result: Recommendations) -> str:
    name, probability = result.best
    return f"use {name} (probability {number(probability, 3)})"


@describe.register
def describe_recommendations(result: Recommendations) -> Card:
    """Describe the loss of each choice, and the effect of memory."""
    length, time = result.length_unit, result.time_unit
    quantity = {1: "half-width", 2: "area", 3: "volume"}[result.n_dim]
    power = {1: "", 2: "²", 3: "³"}[result.n_dim]
    per_time, shown = readable_unit([c.horizon for c in result.choices], time)
    per_length, length_name = readable_unit(
        [c.size ** (1 / result.n_dim) for c in result.choices], length
    )
    rows = []
    for choice in result.choices:
        rows.append(
            (
                number(choice.horizon * per_time, 4),
                choice.name,
                number(choice.kappa, 3),
                number(choice.size * per_length**result.n_dim, 3),
                number(choice.ratio, 3),
                f"{100 * choice.held:.1f}",
                number(choice.loss, 2) if choice.loss > 1e-9 else "0",
            )
        )
    heads = (
        *(with_unit("T", shown), "choice"),
        with_unit("K", unit_of(DIFFUSIVITY, (length, time))),
        with_unit(f"95 % {quantity}", f"{length_name}{power}" if length_name else ""),
        *("ratio", "holds (%)", "loss (nats)"),
    )
    table = Table(heads, tuple(rows), "rlrrrrr", title="Fresh particle, velocity unknown", keys=2)
    facts: list[tuple[str, str]] = []
    if result.memory is not None:
        mean, sd = result.memory
        saved = with_error(per_length**2 * mean, per_length**2 * sd)
        unit = f" {length_name}²" if length_name else ""
        facts.append(("variance saved by memory, 2k/γ", f"{saved}{unit} per axis"))
    sentences = (
        "Loss: logarithmic score lost per particle relative to the model average. A region that "
        "holds less than 95 % is too small; one with a ratio above 1 is unnecessarily large.",
    )
    headline, tables = summarise(result), [table]
    warnings: tuple[str, ...] = ()
    if result.arrivals is not None:
        tables.append(result.arrivals.table(length, time))
        warnings = result.arrivals.notes
    return Card("Recommendations", headline, tuple(facts), sentences, tuple(tables), warnings)
