"""Fields of the velocity scale and the memory time of random flight, with evidence for them."""

__all__ = ["FlightFit", "fit_flight"]

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from driftbayes.data.sampling import Displacements
from driftbayes.data.tangent import Ground
from driftbayes.errors import DriftbayesError
from driftbayes.fields.averages import AveragedFit, Fields
from driftbayes.fields.fit import check_data, make_splines, summed_evidences, wrapped_origin
from driftbayes.fields.flight import FLIGHT_HYPOTHESES, FlightPriors, FlightSteps
from driftbayes.fields.problem import Member, Progress, fit_members
from driftbayes.fields.splines import Splines
from driftbayes.typing import FloatArray

# Relative change of a field over a step beyond which the filter is no longer good.
_MAX_ROUGHNESS = 0.3
# A mean velocity of more standard errors than this is not due to chance.
_MAX_MEAN = 4.0
_MAX_STEPS = 1_000_000


@dataclass(frozen=True, eq=False, repr=False)
class FlightFit(AveragedFit):
    """Evidence for fields of the velocity scale σ and the memory time T, and the fields.

    Args:
        log_evidences: ln Z of each hypothesis, by Laplace's approximation.
        members: Fits by amplitude and length.
        splines: The splines of the fields.
        priors: Priors of the homogeneous part.
        tau: Sampling time.
        n_steps: Number of steps.
        units: Of length and time.
        ground: Where on the earth the origin of coordinates is, if positions come from degrees.
        fingerprint: Of the displacements.
    """

    log_evidences: dict[str, float]
    members: tuple[Member, ...]
    splines: Splines
    priors: FlightPriors
    tau: float
    n_steps: int
    units: tuple[str, str]
    ground: Ground | None
    fingerprint: str
    _problem: Any = field(repr=False)

    def _at(self, x: FloatArray) -> dict[str, FloatArray]:
        fields = self._fields(x)
        names = ("sigma", "memory_time", "k")
        totals = np.zeros((3, 4, len(fields[0][0][1])))
        for weight, mean, cov in self._normal(fields):
            for i, total in enumerate(totals):
                size = np.exp(mean[i] + 0.5 * cov[i, i])
                square = size**2 * np.exp(cov[i, i])
                total += weight * np.array([mean[i], mean[i] ** 2 + cov[i, i], size, square])
        out = {}
        for name, (mean, square, size, size_square) in zip(names, totals, strict=True):
            out[name], out[f"log_{name}"] = size, mean
            out[f"{name}_sd"] = np.sqrt(np.maximum(size_square - size**2, 0.0))
            out[f"log_{name}_sd"] = np.sqrt(np.maximum(square - mean**2, 0.0))
        return out

    def draw(self, x: ArrayLike, n_draws: int = 100, *, seed: int = 0) -> dict[str, FloatArray]:
        """Draw fields from their posterior, over all hypotheses and members.

        Args:
            x: Points (point, dim), as for `at`.
            n_draws: How many.
            seed: Random seed.

        Returns:
            `sigma`, `memory_time` and `k`, each (draw, point).
        """
        found = self._drawn(self._fields(self._checked(x)), n_draws, seed)
        names = ("sigma", "memory_time", "k")
        return {name: np.exp(values) for name, values in zip(names, found, strict=True)}

    def _fields(self, x: FloatArray) -> Fields:
        """Ln σ, ln T and ln k from ln k_0, ln γ_0 and the variations of ln σ and ln T."""
        full, _ = self._designs(x)
        inner = full.copy()
        inner[:, 0] = 0.0
        constant = full - inner
        sigma = [(0, 0.5 * constant + inner), (1, 0.5 * constant)]
        time = [(1, inner - constant)]
        k = [(0, constant + 2 * inner), (1, inner)]
        return [sigma, time, k]

    @cached_property
    def roughness(self) -> float:
        """Relative change of σ or T over a step, στ|∇ln σ| or στ|∇ln T|, whichever is larger.

        95 % of the steps have less, at the mode.
        """
        best = max(self.members, key=lambda member: member.log_evidence)
        return float(np.quantile(self._problem.roughness(best.name, best.mode), 0.95))

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader should know."""
        out = []
        if self.roughness > _MAX_ROUGHNESS:
            out.append(
                f"sigma or the memory time changes by {self.roughness:.0%} over one step of tau: "
                "the filter is no longer accurate; use a smaller tau"
            )
        speed, error = self._problem.mean_velocity(self.members)
        if np.any(np.abs(speed) > _MAX_MEAN * error):
            out.append(
                "the mean velocity differs from zero; the model has none, and puts it down to the "
                "velocity scale and the memory time: remove it, or compare langevin+mean"
            )
        if self._shortest_is_best:
            out.append(
                "the shortest length is the most probable: the field may vary on scales that the "
                "splines do not resolve; use more intervals (--intervals)"
            )
        return tuple(out)

    def to_json(self) -> dict[str, Any]:
        """Evidence and smoothness as plain numbers and text."""
        return self._evidence_json() | {
            "model": "langevin",
            "roughness": self.roughness,
            "priors": {"gamma": self.priors.gamma, "k": self.priors.k},
            "smoothness": [
                {
                    "model": member.name,
                    "sd_log_sigma": member.amplitudes[0],
                    "sd_log_memory_time": member.amplitudes[1],
                    "length": member.length if np.isfinite(member.length) else None,
                    "log_evidence": member.log_evidence,
                    "probability": float(weight),
                }
                for weight, member in zip(self.weights, self.members, strict=True)
            ],
            "warnings": list(self.warnings),
        }


def fit_flight(
    data: Displacements,
    priors: FlightPriors,
    *,
    n_intervals: int | None = None,
    hypotheses: Sequence[str] = tuple(FLIGHT_HYPOTHESES),
    progress: Progress = None,
) -> FlightFit:
    """Fit smooth fields of the velocity scale and the memory time, with evidence.

    Particles move by Thomson's well-mixed model: dX = σw dt, dw = (-w/T + ∇σ) dt + √(2/T) dW.

    Args:
        data: Displacements at one sampling time, in one or two dimensions.
        priors: Priors of the homogeneous part.
        n_intervals: Knot intervals along the longer side (default: 16 in one dimension, 8 in two).
        hypotheses: Which of "sigma", "time" and "both"; the homogeneous one is always among them.
        progress: Called with a stage, how many are done, and of how many.

    Raises:
        DriftbayesError: The data do not allow a field, or the splines are too many.

    Example:
        >>> import numpy as np
        >>> from driftbayes import Displacements
        >>> rng = np.random.default_rng(0)
        >>> dx = 0.01 * rng.normal(size=(20, 10, 1)).cumsum(axis=1)
        >>> data = Displacements.from_array(dx, 0.1, start=rng.uniform(size=(20, 1)))
        >>> priors = FlightPriors(gamma=1.0, k=0.01)
        >>> fit = fit_flight(data, priors, n_intervals=2, hypotheses=["sigma"])
        >>> sorted(fit.at([[0.5]]))[:2]
        ['k', 'k_sd']
    """
    check_data(data)
    unknown = sorted(set(hypotheses) - set(FLIGHT_HYPOTHESES))
    if unknown:
        expected = ", ".join(FLIGHT_HYPOTHESES)
        msg = f"unknown hypothesis {unknown[0]!r}; expected some of {expected}"
        raise DriftbayesError(msg)
    if data.row_sizes.max() < 2:
        msg = "no run has two steps: a memory time needs successive steps; use a smaller tau"
        raise DriftbayesError(msg)
    if len(data.dx) > _MAX_STEPS:
        msg = (
            f"{len(data.dx):,} steps would take hours, at most {_MAX_STEPS:,}; use a longer tau or "
            "part of the trajectories"
        )
        raise DriftbayesError(msg)
    x = wrapped_origin(data)
    splines = make_splines(x, n_intervals)
    problem = FlightSteps(data, x, splines, priors)
    names = ["homogeneous", *(h for h in list(FLIGHT_HYPOTHESES)[1:] if h in hypotheses)]
    members = fit_members(problem, names, progress)
    return FlightFit(
        log_evidences=summed_evidences(members),
        members=tuple(members),
        splines=splines,
        priors=priors,
        tau=data.tau,
        n_steps=len(x),
        units=(data.length_unit, data.time_unit),
        ground=data.ground,
        fingerprint=data.fingerprint,
        _problem=problem,
    )
