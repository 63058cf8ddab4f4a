"""Calibration of fits of known fields."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from known_fields import (
    KAPPA,
    SIGMA,
    TIME,
    constant,
    flights,
    no_gradient,
    steps,
    wave,
    wavy,
)

from driftbayes._typing import FloatArray
from driftbayes.data._sampling import Displacements
from driftbayes.fields import (
    AveragedFit,
    FieldPriors,
    FlightPriors,
    fit_field,
    fit_flight,
)

_WALLS_1D = {"walls": [[0.0], [1.0]]}
_WALLS_2D = {"walls": [[0.0, 0.0], [1.0, 1.0]]}
_LONG = {"tau": 0.5, "n_sub": 200}
_PLAIN = {"fields": (constant, no_gradient), "n_sub": 1}


@dataclass(frozen=True)
class Case:
    """Simulated data and options of their fit.

    Args:
        words: Description.
        truth: The field that is tested: "log_kappa", "log_sigma", "log_memory_time" or "flow"; ""
            if nothing varies.
        n_dim: Number of axes.
        simulate: Options of `known_fields.steps` or `known_fields.flights`.
        fit: Options of `fit_field` or `fit_flight`.
        memory: Whether particles have memory.
    """

    words: str
    truth: str
    n_dim: int
    simulate: dict[str, Any] = field(default_factory=dict)
    fit: dict[str, Any] = field(default_factory=dict)
    memory: bool = False

    def data(self, seed: int) -> Displacements:
        """Simulate a data set.

        Args:
            seed: Random seed.
        """
        rng = np.random.default_rng(seed)
        if self.memory:
            return flights(rng, (40, 40), self.n_dim, **self.simulate)
        n = 1500 if self.truth else 600
        return steps(rng, n, self.n_dim, **self.simulate)

    def fitted(self, seed: int) -> AveragedFit:
        """Fit a data set.

        Args:
            seed: Random seed.
        """
        if self.memory:
            priors = FlightPriors(gamma=1 / TIME, k=2 * SIGMA**2 * TIME, flow=SIGMA)
            return fit_flight(self.data(seed), priors, **self.fit)
        return fit_field(self.data(seed), FieldPriors(kappa=2 * KAPPA, flow=0.3), **self.fit)

    def known(self, x: FloatArray) -> FloatArray:
        """Evaluate the field that is tested.

        Args:
            x: Points (point, dim).
        """
        if self.truth == "log_kappa":
            return np.log(wave(x))
        if self.truth == "flow":
            return _wavy_flow(x)
        if self.truth == "log_sigma":
            return np.log(SIGMA * wavy(x, 0.6))
        return np.log(TIME * wavy(x, 0.6))


def _wavy_flow(x: FloatArray) -> FloatArray:
    """Evaluate a flow along each axis that varies with the other axis, or with x in 1-D."""
    out: FloatArray = SIGMA * np.sin(2 * np.pi * x[:, ::-1])
    return out


_KAPPA = {"hypotheses": ["kappa"]}
_SIGMA_TIME = {"hypotheses": ["sigma", "time"]}
CASES = {
    "1d": Case("1-D, ε = 0.05, local", "log_kappa", 1, {}, _KAPPA),
    "1d-walls": Case("1-D, ε = 0.05, local, walls named", "log_kappa", 1, {}, _KAPPA | _WALLS_1D),
    "1d-long-local": Case(
        "1-D, ε = 0.4, local", "log_kappa", 1, _LONG, _KAPPA | {"density": "local"}
    ),
    "1d-long": Case(
        "1-D, ε = 0.4, Fokker–Planck, walls named",
        "log_kappa",
        1,
        _LONG,
        _KAPPA | _WALLS_1D | {"density": "fokker-planck"},
    ),
    "2d": Case("2-D, ε = 0.05, local", "log_kappa", 2, {}, _KAPPA),
    "2d-walls": Case("2-D, ε = 0.05, local, walls named", "log_kappa", 2, {}, _KAPPA | _WALLS_2D),
    "2d-long": Case(
        "2-D, ε = 0.4, Fokker–Planck, walls named",
        "log_kappa",
        2,
        _LONG,
        _KAPPA | _WALLS_2D | {"density": "fokker-planck", "n_intervals": 6},
    ),
    "sigma-1d": Case("random flight, 1-D, σ ± 60 %", "log_sigma", 1, {}, _SIGMA_TIME, memory=True),
    "sigma": Case("random flight, 2-D, σ ± 60 %", "log_sigma", 2, {}, _SIGMA_TIME, memory=True),
    "time-1d": Case(
        *("random flight, 1-D, T ± 60 %", "log_memory_time", 1),
        {"sizes": (0.0, 0.6)},
        _SIGMA_TIME,
        memory=True,
    ),
    "time": Case(
        *("random flight, 2-D, T ± 60 %", "log_memory_time", 2),
        {"sizes": (0.0, 0.6)},
        _SIGMA_TIME,
        memory=True,
    ),
    "flow": Case(
        *("random flight, 2-D, u = ± σ", "flow", 2),
        {"sizes": (0.0, 0.0), "flow": _wavy_flow},
        {"hypotheses": ["sigma", "flow"]},
        memory=True,
    ),
    "plain-1d": Case("1-D, nothing varies", "", 1, _PLAIN, {"hypotheses": ["kappa", "flow"]}),
    "plain-2d": Case("2-D, nothing varies", "", 2, _PLAIN, {"hypotheses": ["kappa", "flow"]}),
    "plain-flight": Case(
        *("random flight, 1-D, nothing varies", "", 1),
        {"sizes": (0.0, 0.0)},
        {"hypotheses": ["sigma", "time", "flow"]},
        memory=True,
    ),
}


def judge(name: str, seed: int) -> tuple[FloatArray, float]:
    """Fit a data set; return its scaled errors on a grid, and ln K of the varying field.

    Args:
        name: The case.
        seed: Random seed.

    Returns:
        (field - truth)/error, empty if nothing varies; ln K of the true hypothesis against the
        homogeneous model, or of any field if nothing varies.
    """
    case = CASES[name]
    fit = case.fitted(seed)
    if not case.truth:
        return np.empty(0), fit.log_bayes_factor_inhomogeneous
    axis = np.linspace(0.1, 0.9, 9) if case.memory else np.linspace(0.05, 0.95, 10)
    x = np.stack([a.ravel() for a in np.meshgrid(*[axis] * case.n_dim)], axis=-1)
    fitted = fit.at(x)
    z = (fitted[case.truth] - case.known(x)) / fitted[f"{case.truth}_sd"]
    varies = {"log_kappa": "kappa", "log_sigma": "sigma", "log_memory_time": "time"}
    return z.ravel(), fit.log_bayes_factors[varies.get(case.truth, "flow")]


def summary(judged: Sequence[tuple[FloatArray, float]]) -> dict[str, float]:
    """Summarise z (mean with error, sd, coverage of 95 %) and ln K over data sets.

    Args:
        judged: From `judge`, for each data set.
    """
    log_ks = np.array([log_k for _, log_k in judged])
    out = {
        "n": float(len(judged)),
        "smallest ln K": float(log_ks.min()),
        "median ln K": float(np.median(log_ks)),
        "largest ln K": float(log_ks.max()),
    }
    z = np.array([own for own, _ in judged])
    if z.size:
        error = float(z.mean(axis=1).std(ddof=1)) if len(z) > 1 else float("nan")
        out |= {
            "mean of z": float(z.mean()),
            "error of the mean": error / np.sqrt(len(z)),
            "sd of z": float(z.std()),
            "within 95 %": float(np.mean(np.abs(z) < 1.96)),
        }
    return out
