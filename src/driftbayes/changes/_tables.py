"""Evidence of every segment of a track, for each supported model.

A segment has the likelihood of a run in `compare`. Its parameters have independent priors, and so
have its initial velocity (Langevin) and the error of its first position (measurement error). Given
the change points of a track, its segments are independent.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import factorial

import numpy as np

from driftbayes._kernels import segments as kernels
from driftbayes._typing import FloatArray, IntArray
from driftbayes.errors import DriftbayesError
from driftbayes.inference import Hypothesis
from driftbayes.inference._scale import gamma_form
from driftbayes.models import Parameter
from driftbayes.priors import AbstractPrior, Exponential, Fixed, Gamma, LogNormal

MODELS_THAT_CHANGE = ("brownian", "brownian+mean", "langevin")
# Largest number of candidates per track: a table of their segments takes 64 MiB.
_MAX_CANDIDATES = 4096
# Largest number of candidates and steps where every segment is filtered at many nodes.
_MAX_FILTERED = 1024
_MAX_FILTERED_STEPS = 20_000
# Segments of smaller probability are left out of averages over all segmentations.
_MIN_WEIGHT = 1e-9
# Node spacing in posterior standard deviations of the longest segment, and largest spacing.
_NODE_SPACING = 0.8
_MAX_SPACING = 0.3
# Prior probability below and above the nodes; log-normal priors have a heavier upper tail.
_LOWER_TAIL, _UPPER_TAIL, _UPPER_LOGNORMAL = 1e-10, 1e-13, 1.1e-14


@dataclass(frozen=True, eq=False)
class Run:
    """Steps of one track.

    Args:
        dx: Steps, (step, axis).
        interval: Duration of each step.
        sd: Standard deviation of the measurement error of each position; None if exact.
        candidates: Numbers of steps after which the track may change, including 0 and the last.
    """

    dx: FloatArray
    interval: FloatArray
    sd: FloatArray | None
    candidates: IntArray

    @cached_property
    def sums(self) -> FloatArray:
        """Cumulative sums at the candidates of 1, ln 2h, |Δx|²/2h, h and each component of Δx."""
        terms = np.column_stack(
            [
                np.ones(len(self.dx)),
                np.log(2 * self.interval),
                np.sum(self.dx**2, axis=1) / (2 * self.interval),
                self.interval,
                self.dx,
            ]
        )
        cumulative = np.vstack([np.zeros(terms.shape[1]), np.cumsum(terms, axis=0)])
        return np.ascontiguousarray(cumulative[self.candidates])


@dataclass(frozen=True, eq=False)
class SegmentModel(ABC):
    """A hypothesis with an exact evidence for every segment of a track.

    Args:
        hypothesis: Model and priors of each segment.
        n_dim: Number of axes.
    """

    hypothesis: Hypothesis
    n_dim: int
    min_weight = _MIN_WEIGHT
    max_candidates = _MAX_CANDIDATES

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters of a segment."""
        return ("kappa",)

    @property
    def form(self) -> FloatArray:
        """Shape, rate and log normalisation of the prior of the scale; zeros if it has nodes."""
        form = gamma_form(self.hypothesis.priors[self.hypothesis.model.scale_parameter])
        assert form is not None
        return np.array([form.shape, form.rate, form.log_norm])

    @property
    def parameters(self) -> list[Parameter]:
        """Description of the parameters of a segment."""
        known = self.hypothesis.model.parameters
        return [known.get(name, _VELOCITY) for name in self.names]

    @abstractmethod
    def table(self, run: Run) -> FloatArray:
        """Compute the log-evidence of each segment between two candidates."""

    @abstractmethod
    def moments(self, run: Run, pairs: IntArray) -> FloatArray:
        """Compute first and second moments of the parameters, (segment, parameter, moment)."""

    def check(self, run: Run, name: str) -> None:
        """Raise an error for a track whose evidence is infinite."""
        n_still = int(np.sum(~np.any(run.dx, axis=1)))
        if n_still and run.sd is None:
            steps = "a step" if n_still == 1 else f"{n_still} steps"
            raise DriftbayesError(
                f"trajectory {name!r} has {steps} of exactly zero length, which have infinite "
                "evidence if positions are exact; give their measurement error, at least that of "
                "rounding (--noise SD)"
            )


_VELOCITY = Parameter("U", "mean velocity of a segment", 1, -1)


class BrownianSegments(SegmentModel):
    """Independent steps; κ is integrated analytically."""

    def table(self, run: Run) -> FloatArray:
        return np.asarray(kernels.brownian_table(run.sums, self.n_dim, self.form))

    def moments(self, run: Run, pairs: IntArray) -> FloatArray:
        return np.asarray(kernels.brownian_moments(run.sums, self.n_dim, self.form, pairs))


class DriftingSegments(SegmentModel):
    """Independent steps with a mean velocity per segment."""

    @property
    def names(self) -> tuple[str, ...]:
        return ("kappa", *(f"flow_{i + 1}" for i in range(self.n_dim)))

    @property
    def _spread(self) -> float:
        """Prior standard deviation of each component of the velocity."""
        return self.hypothesis.fixed["flow"]

    def table(self, run: Run) -> FloatArray:
        return np.asarray(kernels.drifting_table(run.sums, self.form, self._spread))

    def moments(self, run: Run, pairs: IntArray) -> FloatArray:
        return np.asarray(kernels.drifting_moments(run.sums, self.form, self._spread, pairs))

    def check(self, run: Run, name: str) -> None:
        SegmentModel.check(self, run, name)
        velocity = run.dx / run.interval[:, None]
        if np.any(np.all(np.diff(velocity, axis=0) == 0, axis=1)):
            raise DriftbayesError(
                f"trajectory {name!r} has successive steps of exactly the same velocity, for which "
                "brownian+mean has infinite evidence; use brownian, or positions with more digits"
            )


class FilteredSegments(SegmentModel):
    """A model with a Kalman filter at quadrature nodes of its first parameter, in ln θ."""

    max_candidates = _MAX_FILTERED
    min_weight = 1e-7

    @abstractmethod
    def range(self, run: Run) -> tuple[float, float]:
        """Return the range of the parameter that contains the posterior of any segment."""

    @abstractmethod
    def filters(self, nodes: FloatArray, run: Run) -> tuple[FloatArray, FloatArray]:
        """Return filter matrices at the nodes, and initial variances of the state."""

    def check(self, run: Run, name: str) -> None:
        SegmentModel.check(self, run, name)
        if len(run.dx) > _MAX_FILTERED_STEPS:
            model = "known measurement error" if run.sd is not None else self.hypothesis.name
            raise DriftbayesError(
                f"trajectory {name!r} has {len(run.dx):,} steps; segments with {model} take at "
                f"most {_MAX_FILTERED_STEPS:,}: use a larger tau, or brownian with exact positions"
            )

    def table(self, run: Run) -> FloatArray:
        _, arguments = self._filtered(run)
        return np.asarray(kernels.filtered_table(*arguments))

    def moments(self, run: Run, pairs: IntArray) -> FloatArray:
        nodes, arguments = self._filtered(run)
        return np.asarray(kernels.filtered_moments(*arguments, nodes, pairs))

    def _filtered(self, run: Run) -> tuple[FloatArray, tuple[np.ndarray, ...]]:
        """Return the nodes, and the arguments of the kernels."""
        nodes, log_weights = self._nodes(run)
        matrices = self.filters(nodes, run)
        return nodes, (run.dx, *matrices, log_weights, self.form, run.candidates)

    def _nodes(self, run: Run) -> tuple[FloatArray, FloatArray]:
        """Return nodes and log-weights, with a spacing that resolves the longest segment."""
        prior = self.hypothesis.priors[self.names[0]]
        if isinstance(prior, Fixed):
            return np.array([prior.value]), np.zeros(1)
        spacing = min(_MAX_SPACING, _NODE_SPACING * float(np.sqrt(2 / run.dx.size)))
        low, high = np.log(self.range(run))
        z = np.linspace(low, high, int(np.ceil((high - low) / spacing)) + 2)
        nodes = np.exp(z)
        return nodes, prior.log_density(nodes) + z + np.log(z[1] - z[0])


class NoisySegments(FilteredSegments):
    """Independent steps with known measurement error, or with any smooth prior of κ."""

    @property
    def form(self) -> FloatArray:
        return np.zeros(3)

    def range(self, run: Run) -> tuple[float, float]:
        low, high = _prior_range(self.hypothesis.priors["kappa"])
        size = np.sum(run.dx**2, axis=1) / (2 * run.interval)
        # Below this κ a step is too improbable, or κ is negligible beside the measurement error.
        lower_bounds = size / 200
        if run.sd is not None:
            errors = (run.sd[1:] ** 2 + run.sd[:-1] ** 2) / run.interval
            lower_bounds = np.where(errors > 0, 1e-7 * errors / np.sqrt(run.dx.size), lower_bounds)
        return max(low, float(lower_bounds.min())), max(high, float(size.max()))

    def filters(self, nodes: FloatArray, run: Run) -> tuple[FloatArray, FloatArray]:
        sd = np.zeros(len(run.dx) + 1) if run.sd is None else run.sd
        start, variance, interval = sd**2, sd[1:] ** 2, run.interval
        if np.ptp(start) == 0 and np.ptp(interval) <= 1e-9 * interval[0]:
            # One matrix for all steps.
            start, variance, interval = start[:1], variance[:1], interval[:1]
        steps = np.empty((len(nodes), len(interval), 5))
        # The state is the error of the position at which a step begins.
        steps[..., 0], steps[..., 1] = -1.0, 0.0
        steps[..., 2] = 2 * nodes[:, None] * interval + variance
        steps[..., 3] = steps[..., 4] = variance
        return steps, np.tile(start, (len(nodes), 1))


class LangevinSegments(FilteredSegments):
    """An Ornstein-Uhlenbeck velocity; k is integrated analytically."""

    @property
    def names(self) -> tuple[str, ...]:
        return ("gamma", "k")

    def range(self, run: Run) -> tuple[float, float]:
        low, high = _prior_range(self.hypothesis.priors["gamma"])
        return max(low, 1e-8 / float(run.interval.sum())), high

    def filters(self, nodes: FloatArray, run: Run) -> tuple[FloatArray, FloatArray]:
        interval = run.interval
        if np.ptp(interval) <= 1e-9 * interval[0]:
            interval = interval[:1]
        x = nodes[:, None] * interval
        steps = np.empty((*x.shape, 5))
        # The state is the velocity; k = 1.
        steps[..., 0] = -np.expm1(-x) / nodes[:, None]
        steps[..., 1] = np.exp(-x)
        steps[..., 2] = 2 / nodes[:, None] * _conditional_variance(x)
        steps[..., 3] = np.expm1(-x) ** 2
        steps[..., 4] = -nodes[:, None] * np.expm1(-2 * x)
        return steps, nodes[:, None].copy()


def _conditional_variance(x: FloatArray) -> FloatArray:
    r"""Compute $x - 2(1 - e^{-x}) + (1 - e^{-2x})/2$, which is $x^3/3$ for small x."""
    small = np.minimum(x, 1.0)
    terms = [(2 - 2.0 ** (k - 1)) / factorial(k) * (-small) ** k for k in range(3, 28)]
    closed_form = x + 2 * np.expm1(-x) - 0.5 * np.expm1(-2 * x)
    return np.where(x < 1.0, np.sum(terms[::-1], axis=0), closed_form)


def _prior_range(prior: AbstractPrior) -> tuple[float, float]:
    """Return extreme quantiles of a prior."""
    upper = _UPPER_LOGNORMAL if isinstance(prior, LogNormal) else _UPPER_TAIL
    low, high = prior.quantile(np.array([_LOWER_TAIL, 1 - upper]))
    return float(low), float(high)


def segment_model(hypothesis: Hypothesis, n_dim: int, *, has_error: bool) -> SegmentModel:
    """Choose the segment model of a hypothesis.

    Args:
        hypothesis: Model and priors.
        n_dim: Number of axes.
        has_error: Whether positions have a known measurement error.

    Raises:
        DriftbayesError: The model or a prior is not supported.
    """
    name, priors = hypothesis.name, hypothesis.priors
    if name not in MODELS_THAT_CHANGE:
        known, advice = ", ".join(MODELS_THAT_CHANGE), "use brownian and --noise (noise= of read)"
        is_noisy = "noise" in hypothesis.model.options
        extra = f"; for a known measurement error {advice}" if is_noisy else ""
        raise DriftbayesError(f"unsupported model {name!r} for segments; use one of {known}{extra}")
    if name != "brownian" and has_error:
        raise DriftbayesError(
            f"segments of {name} need exact positions, but these have a known error; use brownian, "
            "or a tau at which the error is small and positions without it"
        )
    if name == "brownian" and (has_error or isinstance(priors["kappa"], LogNormal)):
        smooth = (Exponential, Gamma, LogNormal)
        _require(priors, "kappa", smooth, "exponential, gamma or lognormal")
        return NoisySegments(hypothesis, n_dim)
    model: type[SegmentModel] = BrownianSegments
    if name == "brownian+mean":
        _require(priors, "flow", (Fixed,), "fixed, for example flow=fixed:0.2")
        model = DriftingSegments
    if name == "langevin":
        kinds = (Fixed, Exponential, Gamma, LogNormal)
        _require(priors, "gamma", kinds, "fixed, exponential, gamma or lognormal")
        model = LangevinSegments
    scale = hypothesis.model.scale_parameter
    _require(priors, scale, (Exponential, Gamma), "exponential or gamma")
    return model(hypothesis, n_dim)


def _require(
    priors: Mapping[str, AbstractPrior], name: str, kinds: tuple[type, ...], expected: str
) -> None:
    """Raise an error unless a prior is of one of the given kinds."""
    if not isinstance(priors[name], kinds):
        got = priors[name].describe(4)
        raise DriftbayesError(f"for segments the prior of {name} must be {expected}, got {got}")
