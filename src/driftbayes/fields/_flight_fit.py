"""Fields of the velocity scale, the memory time and the mean flow of random flight."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from driftbayes._typing import FloatArray
from driftbayes.data._sampling import Displacements
from driftbayes.errors import DriftbayesError
from driftbayes.fields._averages import AveragedFit, Fields
from driftbayes.fields._flight import FLIGHT_HYPOTHESES, FlightPriors, FlightSteps
from driftbayes.fields._prepare import (
    check_data,
    chosen_hypotheses,
    make_splines,
    wrapped_origin,
)
from driftbayes.fields._problem import Progress, best_member, fit_members, n_evaluations

# Largest relative change of a field over a step at which the filter is accurate.
_MAX_ROUGHNESS = 0.3
# Largest number of steps times evaluations of a fit, by dimension: about 20 min on one core.
_MAX_WORK = {1: 1.2e9, 2: 6e8}
_NAMES = ("sigma", "memory_time", "k")


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class FlightFit(AveragedFit):
    """Evidence for fields of the velocity scale σ, the memory time T and the mean flow.

    Args:
        priors: Priors of the homogeneous part.
    """

    priors: FlightPriors

    def _moments(self, mean: FloatArray, cov: FloatArray) -> list[tuple[FloatArray, FloatArray]]:
        normal = [(mean[i], mean[i] ** 2 + cov[i, i]) for i in range(len(mean))]
        sizes = [np.exp(mean[i] + 0.5 * cov[i, i]) for i in range(len(_NAMES))]
        return normal + [(s, s**2 * np.exp(cov[i, i])) for i, s in enumerate(sizes)]

    def _named(self, values: FloatArray, suffix: str) -> dict[str, FloatArray]:
        n = len(_NAMES)
        out = {f"flow{suffix}": values[n:-n].T}
        for name, mean, size in zip(_NAMES, values[:n], values[-n:], strict=True):
            out[f"{name}{suffix}"], out[f"log_{name}{suffix}"] = size, mean
        return out

    def draw(self, x: ArrayLike, n_draws: int = 100, *, seed: int = 0) -> dict[str, FloatArray]:
        draws = self._drawn(self._fields(self._checked(x)), n_draws, seed)
        n = len(_NAMES)
        out = {name: np.exp(values) for name, values in zip(_NAMES, draws[:n], strict=True)}
        return out | {"flow": np.stack(draws[n:], axis=-1)}

    def _fields(self, x: FloatArray) -> Fields:
        # ln σ, ln T, ln k and flow from ln k_0, ln γ_0 and variations of ln σ and ln T.
        full, _ = self._designs(x)
        inner = full.copy()
        inner[:, 0] = 0.0
        constant = full - inner
        sigma = [(0, 0.5 * constant + inner), (1, 0.5 * constant)]
        time = [(1, inner - constant)]
        k = [(0, constant + 2 * inner), (1, inner)]
        return [sigma, time, k, *([(2 + i, full)] for i in range(self.splines.n_dim))]

    @cached_property
    def roughness(self) -> float:
        """95 % quantile over steps of the relative change of σ, T or flow/σ, at the mode."""
        best = best_member(self.members)
        return float(np.quantile(self._problem.roughness(best.name, best.mode), 0.95))

    @property
    def warnings(self) -> tuple[str, ...]:
        out = []
        if self.roughness > _MAX_ROUGHNESS:
            out.append(
                f"sigma, the memory time or the flow changes by {self.roughness:.0%} over one step "
                "of tau: the filter is no longer accurate; use a smaller tau"
            )
        return tuple(out + self._resolution_warnings())

    def to_json(self) -> dict[str, Any]:
        flow = self.priors.flow
        amplitudes = {"sd_log_sigma": 1.0, "sd_log_memory_time": 1.0, "sd_flow": flow}
        return self._evidence_json(amplitudes) | {
            "model": "langevin",
            "priors": asdict(self.priors),
        }


def fit_flight(
    data: Displacements,
    priors: FlightPriors,
    *,
    n_intervals: int | None = None,
    hypotheses: Sequence[str] = tuple(FLIGHT_HYPOTHESES),
    progress: Progress = None,
) -> FlightFit:
    """Fit smooth fields of the velocity scale, the memory time and the mean flow, with evidence.

    Particles move by Thomson's well-mixed model: dX = (u + σw) dt,
    dw = (-w/T + ∇σ) dt + √(2/T) dW.

    Args:
        data: Displacements at one sampling time, in one or two dimensions.
        priors: Priors of the homogeneous part.
        n_intervals: Knot intervals along the longer side (default: 16 in one dimension, 8 in two).
        hypotheses: Some of "sigma", "time", "both" (sigma and time) and "flow"; the homogeneous
            model is always included.
        progress: Called with the stage, the number done, and the total.

    Raises:
        DriftbayesError: The data do not allow a field, or the splines are too many.

    Example:
        >>> import numpy as np
        >>> from driftbayes import Displacements
        >>> rng = np.random.default_rng(0)
        >>> dx = 0.01 * rng.normal(size=(20, 10, 1)).cumsum(axis=1)
        >>> data = Displacements.from_array(dx, 0.1, start=rng.uniform(size=(20, 1)))
        >>> priors = FlightPriors(gamma=1.0, k=0.01, flow=0.1)
        >>> fit = fit_flight(data, priors, n_intervals=2, hypotheses=["sigma"])
        >>> sorted(fit.at([[0.5]]))[:2]
        ['flow', 'flow_sd']
    """
    check_data(data)
    names = chosen_hypotheses(FLIGHT_HYPOTHESES, hypotheses)
    if data.row_sizes.max() < 2:
        msg = "no run has two steps: a memory time needs successive steps; use a smaller tau"
        raise DriftbayesError(msg)
    x = wrapped_origin(data)
    problem = FlightSteps(data, x, make_splines(x, n_intervals), priors)
    _check_work(problem, names)
    members = fit_members(problem, names, progress)
    return FlightFit._of(data, problem, members, priors=priors)


def _check_work(problem: FlightSteps, names: Sequence[str]) -> None:
    """Raise an error if the fit would take too long."""
    n_per_step = sum(n_evaluations(problem, name) for name in names)
    limit = int(_MAX_WORK[problem.n_dim] / n_per_step)
    if problem.n_steps > limit:
        raise DriftbayesError(
            f"random flight with {problem.n_steps:,} steps and the hypotheses {', '.join(names)} "
            f"would take more than 20 min on one core; use at most {limit:,} steps, "
            "fewer --hypotheses or --intervals, a longer tau, or part of the trajectories"
        )
