"""Evidences of many sets of steps at once: Brownian and Langevin motion, with a mean flow."""

__all__ = ["StepSums", "is_fast", "option_of", "solve_side_by_side"]

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from itertools import pairwise

import numpy as np

from driftbayes.errors import DriftbayesError
from driftbayes.inference import Hypothesis
from driftbayes.inference.formulas import points_at, prior_quantiles
from driftbayes.inference.scale import GammaForm, gamma_form
from driftbayes.kernels.compiled import count_threads, run_in_threads
from driftbayes.likelihood.kalman import LOG_2PI
from driftbayes.models import AbstractModel, MeanFlow
from driftbayes.priors import Fixed
from driftbayes.space.filtered import FilteredSteps
from driftbayes.space.moments import StepMoments
from driftbayes.typing import FloatArray, IntArray

# Lattice of the parameter beside the scale: intervals of a round, depth below the peak that counts,
# agreement of the sums over all points and over every other one, and rounds.
_N_INTERVALS, _DEPTH, _TOLERANCE, _MAX_ROUNDS = 64, 32.0, 1e-5, 24
# Intervals are doubled where a lattice closes in no further.
_MIN_SHRINK, _MAX_INTERVALS = 0.7, 2048
# An integrand that is not as far below its peak at the ends of a lattice goes on beyond them.
_MIN_FALL = 24.0
# Sets at a time.
_AT_ONCE = 128
# How far the prior is followed to either side, as probability.
_TAIL = 1e-12

StepSums = StepMoments | FilteredSteps
Result = tuple[FloatArray, FloatArray, FloatArray]


def option_of(model: AbstractModel, kind: type[AbstractModel]) -> AbstractModel | None:
    """The option of a kind that a model has."""
    while not isinstance(model, kind):
        if not hasattr(model, "base"):
            return None
        model = model.base
    return model


def solve_side_by_side(
    hypothesis: Hypothesis, moments: StepSums, report: Callable[[int], None]
) -> Result | None:
    """Ln Z of each set, and means and standard deviations of what is mapped, (quantity, set).

    The scale and the flow are integrated out, the parameter beside them by the trapezoid rule on a
    lattice that closes in on the posterior. None where the model has more parameters, or options
    other than a mean flow.

    Args:
        hypothesis: Model family and prior.
        moments: Sums over the steps of each set.
        report: Called with the number of sets that are done.
    """
    form = _form(hypothesis)
    if form is None:
        return None
    parts = []
    for low in range(0, len(moments), _AT_ONCE):
        sets = np.arange(low, min(low + _AT_ONCE, len(moments)))
        parts.append(_Solver(hypothesis, moments, *form).solve(sets))
        report(int(sets[-1]) + 1)
    log_evidence, mean, sd = (np.concatenate(part, axis=-1) for part in zip(*parts, strict=True))
    return log_evidence, mean, sd


def is_fast(hypothesis: Hypothesis) -> bool:
    """Whether sets can be solved side by side."""
    return _form(hypothesis) is not None


def _form(hypothesis: Hypothesis) -> tuple[GammaForm, float] | None:
    """Prior of the scale and prior variance of the flow, where sets can be solved so."""
    model = hypothesis.model
    flow = option_of(model, MeanFlow)
    plain = flow.base if isinstance(flow, MeanFlow) else model
    if plain.kind != "summed" or plain.memory is None or hasattr(plain, "base"):
        return None
    known = hypothesis.priors.get("flow", Fixed(0.0) if flow is None else None)
    scale = model.scale_parameter
    if not isinstance(known, Fixed) or scale not in hypothesis.names:
        return None
    form = gamma_form(hypothesis.priors[scale])
    if form is None or len(hypothesis.names) > 2:
        return None
    return form, float(known.value) ** 2 if flow is not None else 0.0


@dataclass(frozen=True)
class _Found:
    """What was found at points, (set, point) or (set, point, ...).

    Args:
        values: Ln of the integrand over the lattice.
        theta: Parameter of the lattice.
        scale: As `integrate_scales` returns it.
        seen: Whitened products of displacements and durations, by axis.
    """

    values: FloatArray
    theta: FloatArray
    scale: FloatArray
    seen: FloatArray

    def __getitem__(self, which: np.ndarray) -> "_Found":
        return _Found(*(getattr(self, one.name)[which] for one in fields(self)))


@dataclass(frozen=True)
class _Terms:
    """What is needed to integrate over the scale at points, (set, point) or (set, point, axis).

    Args:
        known: All of the integrand that does not depend on the scale.
        theta: Parameter of the lattice.
        n: Number of scalar displacements.
        quadratic: Their quadratic form at unit scale.
        seen: Whitened products of displacements and durations, by axis.
        weight: Whitened product of durations.
    """

    known: FloatArray
    theta: FloatArray
    n: FloatArray
    quadratic: FloatArray
    seen: FloatArray
    weight: FloatArray

    def __getitem__(self, which: np.ndarray) -> "_Terms":
        return _Terms(*(getattr(self, one.name)[which] for one in fields(self)))


def _change(values: FloatArray) -> FloatArray:
    """By how much ln of a sum over a lattice changes if every other point is left out."""
    with np.errstate(all="ignore"):
        weights = np.exp(values - values.max(axis=1, keepdims=True))
        return np.abs(np.log(weights.sum(axis=1) / (2 * weights[:, ::2].sum(axis=1))))


@dataclass(frozen=True, eq=False)
class _Solver:
    """A hypothesis and the sums of all sets.

    Args:
        hypothesis: Model family and prior.
        moments: Sums over the steps of each set.
        form: Prior of the scale.
        flow_variance: V² of a mean flow; zero without one.
    """

    hypothesis: Hypothesis
    moments: StepSums
    form: GammaForm
    flow_variance: float

    @property
    def _place(self) -> int:
        """Place of the scale among the parameters."""
        return self.hypothesis.names.index(self.hypothesis.model.scale_parameter)

    @property
    def _left(self) -> int | None:
        """Place of the other parameter, if there is one."""
        return next((i for i in range(len(self.hypothesis.names)) if i != self._place), None)

    def solve(self, sets: IntArray) -> Result:
        """Evidences and posteriors of some sets."""
        if self._left is None:
            terms = self._at(sets, np.zeros((1, 1)))
            return self._described(self._found(terms, np.ones((len(sets), 1), dtype=bool)))
        chances = np.full((2, len(self.hypothesis.names)), 0.5)
        chances[:, self._left] = _TAIL, 1 - _TAIL
        low, high = prior_quantiles(self.hypothesis, chances)[:, self._left]
        begin, end = np.full(len(sets), low), np.full(len(sets), high)
        pending = np.arange(len(sets))
        results: list[tuple[IntArray, Result]] = []
        n_intervals = _N_INTERVALS
        for number in range(_MAX_ROUNDS):
            fractions = np.linspace(0.0, 1.0, n_intervals + 1)
            width = (end - begin)[pending]
            z = begin[pending, None] + width[:, None] * fractions
            # All have the same lattice at first.
            terms = self._at(sets[pending], z if number else z[:1])
            values = self._rough(terms)
            peak = values.max(axis=1)
            with np.errstate(all="ignore"):
                falls = peak[:, None] - values[:, [0, -1]]
            open_ends = falls < _MIN_FALL
            counts = values > (peak - _DEPTH)[:, None]
            done = ~open_ends.any(axis=1) & (_change(values) < _TOLERANCE)
            done |= ~np.isfinite(peak)
            if done.any():
                some = np.flatnonzero(done)
                found = self._found(terms[some], counts[some])
                found = replace(
                    found, values=found.values + np.log(width / n_intervals)[some, None]
                )
                is_good = _change(found.values) < _TOLERANCE
                is_good |= ~np.isfinite(peak[some])
                done[some[~is_good]] = False
                if is_good.any():
                    results.append((pending[some[is_good]], self._described(found[is_good])))
            first = np.argmax(counts, axis=1)
            last = n_intervals - np.argmax(counts[:, ::-1], axis=1)
            step = width / n_intervals
            # Half a width beyond an open end.
            grow = 0.5 * n_intervals * open_ends
            start = begin[pending] + step * (first - 1 - grow[:, 0])
            stop = begin[pending] + step * (last + 1 + grow[:, 1])
            begin[pending], end[pending] = start, stop
            pending = pending[~done]
            if not len(pending):
                break
            closed = ~open_ends[~done].any(axis=1)
            if np.any(closed & ((stop - start) > _MIN_SHRINK * width)[~done]):
                n_intervals = min(2 * n_intervals, _MAX_INTERVALS)
        else:
            msg = (
                f"the evidence of {self.hypothesis.name} did not converge in "
                f"{len(pending)} cells; use a smaller --depth"
            )
            raise DriftbayesError(msg)
        order = np.argsort(np.concatenate([which for which, _ in results]))
        log_evidence, mean, sd = (
            np.concatenate(part, axis=-1)[..., order]
            for part in zip(*(result for _, result in results), strict=True)
        )
        return log_evidence, mean, sd

    def _at(self, sets: IntArray, z: FloatArray) -> _Terms:
        """Evaluate sets at points of the coordinate left; one row of `z` is for all of them."""
        n_points, left = z.shape[1], self._left
        every = np.zeros((z.size, len(self.hypothesis.names)))
        log_prior = np.zeros(z.size)
        theta = np.ones_like(every)
        if left is not None:
            every[:, left] = z.ravel()
            theta, log_priors, log_jacobians = (
                np.array(part) for part in points_at(self.hypothesis, every)
            )
            log_prior = log_priors[:, left] + log_jacobians[:, left]
        theta[:, self._place] = 1.0
        moments = self.moments
        found = moments.whitened(self.hypothesis, theta, sets, len(z))
        n = moments.n_steps[sets, None] * moments.n_dim
        shape = (len(sets), n_points)
        known = self.form.log_norm + log_prior.reshape(len(z), -1)
        known = known - 0.5 * (n * LOG_2PI + moments.n_dim * found.log_det)
        own = theta[:, 0 if left is None else left].reshape(len(z), -1)
        whole, own = np.broadcast_to(n, shape), np.broadcast_to(own, shape)
        return _Terms(known, own, whole, found.quadratic, found.seen, found.weight)

    def _rough(self, terms: _Terms) -> FloatArray:
        """Ln of the integrand over the lattice, roughly."""
        every = np.ones(terms.known.shape, dtype=bool)
        values = terms.known + self._integrated(terms, every, rough=True)[..., 0]
        return np.where(np.isnan(values), -np.inf, values)

    def _found(self, terms: _Terms, counts: np.ndarray) -> _Found:
        """The integrand, where it counts, with moments."""
        scale = self._integrated(terms, counts, rough=False)
        values = np.where(counts, terms.known + scale[..., 0], -np.inf)
        values = np.where(np.isnan(values), np.inf if self._left is None else -np.inf, values)
        scale = np.where(np.isfinite(scale), scale, 0.0)
        return _Found(values, terms.theta, scale, terms.seen)

    def _integrated(self, terms: _Terms, counts: np.ndarray, *, rough: bool) -> FloatArray:
        """Integrals over the scale at points that count; NaN elsewhere."""
        from driftbayes.kernels.scales import N_MOMENTS, integrate_scales

        squared = np.sum(terms.seen**2, axis=2)
        parts = (terms.n, terms.quadratic, squared, terms.weight)
        flat = [np.ascontiguousarray(part[counts]) for part in parts]
        out = np.empty((len(flat[0]), N_MOMENTS))
        form = self.form
        prior = np.array([self.moments.n_dim, self.flow_variance, form.shape, form.rate])
        edges = np.linspace(0, len(out), 4 * count_threads() + 1).astype(np.int64)
        run_in_threads(
            lambda a, b: integrate_scales(*(part[a:b] for part in flat), prior, rough, out[a:b]),
            list(pairwise(edges.tolist())),
        )
        whole = np.full((*counts.shape, N_MOMENTS), np.nan)
        whole[counts] = out
        return whole

    def _described(self, found: _Found) -> Result:
        """Ln Z, means and standard deviations."""
        values = found.values
        peak = values.max(axis=1)
        with np.errstate(all="ignore"):
            weights = np.exp(values - peak[:, None])
            total = weights.sum(axis=1)
            weights = weights / total[:, None]
            log_evidence = peak + np.log(total)
        moments: list[tuple[FloatArray, FloatArray]] = []

        def add(first: FloatArray, second: FloatArray) -> None:
            mean = np.sum(weights * first, axis=1)
            moments.append((mean, np.sum(weights * second, axis=1) - mean**2))

        for i in range(len(self.hypothesis.names)):
            if i == self._place:
                add(found.scale[..., 1], found.scale[..., 2])
            else:
                centre = np.sum(weights * found.theta, axis=1)
                mean, variance = centre, (found.theta - centre[:, None]) ** 2
                moments.append((mean, np.sum(weights * variance, axis=1)))
        if self._left is not None:
            logs = -np.log(found.theta)
            centre = np.sum(weights * logs, axis=1)
            moments.append((centre, np.sum(weights * (logs - centre[:, None]) ** 2, axis=1)))
        if self.flow_variance > 0:
            r, r2, spread = (found.scale[..., i] for i in (5, 6, 7))
            for axis in range(self.moments.n_dim):
                q = found.seen[..., axis]
                add(q * r, q**2 * r2 + spread)
        mean, variance = (np.array(part) for part in zip(*moments, strict=True))
        return log_evidence, mean, np.sqrt(np.maximum(variance, 0.0))
