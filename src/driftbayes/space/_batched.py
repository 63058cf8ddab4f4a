"""Batched evidences of many sets of steps: Brownian and Langevin motion, with a mean flow."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Self

import numpy as np

from driftbayes._kernels.compiled import count_threads, run_in_ranges
from driftbayes._typing import FloatArray, IntArray
from driftbayes.errors import DriftbayesError
from driftbayes.inference import Hypothesis
from driftbayes.inference._hypothesis import points_at, prior_quantiles
from driftbayes.inference._scale import GammaForm, gamma_form
from driftbayes.likelihood._gaussian import LOG_2PI
from driftbayes.models import AbstractModel, MeanFlow
from driftbayes.priors import Fixed
from driftbayes.space._filtered import FilteredSteps
from driftbayes.space._moments import StepMoments

# Lattice of the parameter besides the scale: intervals per round, nats below the peak that are
# included, agreement of the sums over all points and over every other point, and rounds.
_N_INTERVALS, _DEPTH, _TOLERANCE, _MAX_ROUNDS = 64, 32.0, 1e-5, 24
# The number of intervals is doubled when a round shrinks a lattice by less than this factor.
_MIN_SHRINK, _MAX_INTERVALS = 0.7, 2048
# A lattice is extended at an end where the integrand is less than this many nats below its peak.
_MIN_FALL = 24.0
# Number of sets per batch.
_BATCH_SIZE = 128
# Prior probability beyond either end of the first lattice.
_TAIL = 1e-12

StepSums = StepMoments | FilteredSteps
Result = tuple[FloatArray, FloatArray, FloatArray]


def option_of(model: AbstractModel, kind: type[AbstractModel]) -> AbstractModel | None:
    """Return the option of a given type in a model, or None."""
    while not isinstance(model, kind):
        if not hasattr(model, "base"):
            return None
        model = model.base
    return model


def solve_batched(
    hypothesis: Hypothesis, moments: StepSums, report: Callable[[int], None]
) -> Result | None:
    """Compute ln Z of each set, and means and standard deviations of quantities, (quantity, set).

    Scale and flow are integrated analytically and by quadrature, the remaining parameter by the
    trapezoid rule on a lattice that adapts to the posterior.

    Args:
        hypothesis: Model family and prior.
        moments: Sums over the steps of each set.
        report: Called with the number of sets done.

    Returns:
        The result; None if the model has more parameters, or options other than a mean flow.
    """
    form = _form(hypothesis)
    if form is None:
        return None
    solver, parts = _Solver(hypothesis, moments, *form), []
    for low in range(0, len(moments), _BATCH_SIZE):
        sets = np.arange(low, min(low + _BATCH_SIZE, len(moments)))
        parts.append(solver.solve(sets))
        report(int(sets[-1]) + 1)
    log_evidence, mean, sd = (np.concatenate(part, axis=-1) for part in zip(*parts, strict=True))
    return log_evidence, mean, sd


def is_fast(hypothesis: Hypothesis) -> bool:
    """Return whether sets of this hypothesis can be solved in batches."""
    return _form(hypothesis) is not None


def _form(hypothesis: Hypothesis) -> tuple[GammaForm, float] | None:
    """Return the prior of the scale and the prior variance of the flow; None if unsupported."""
    model = hypothesis.model
    flow = option_of(model, MeanFlow)
    plain = flow.base if isinstance(flow, MeanFlow) else model
    if plain.kind != "summed" or plain.memory is None or hasattr(plain, "base"):
        return None
    flow_prior = hypothesis.priors.get("flow", Fixed(0.0) if flow is None else None)
    scale = model.scale_parameter
    if not isinstance(flow_prior, Fixed) or scale not in hypothesis.names:
        return None
    form = gamma_form(hypothesis.priors[scale])
    if form is None or len(hypothesis.names) > 2:
        return None
    return form, flow_prior.value**2 if flow is not None else 0.0


@dataclass(frozen=True)
class _Points:
    """Arrays of one shape, indexed together."""

    def __getitem__(self, which: np.ndarray) -> Self:
        return type(self)(*(getattr(self, field.name)[which] for field in fields(self)))


@dataclass(frozen=True)
class _Integrand(_Points):
    """Integrand and moments at points, (set, point) or (set, point, ...).

    Args:
        values: Ln of the integrand over the lattice.
        theta: Parameter of the lattice.
        scale: As `integrate_scales` returns it.
        cross_products: Whitened products of displacements and durations, by axis.
    """

    values: FloatArray
    theta: FloatArray
    scale: FloatArray
    cross_products: FloatArray


@dataclass(frozen=True)
class _Terms(_Points):
    """Terms of the integral over the scale at points, (set, point) or (set, point, axis).

    Args:
        known: Log of the factor of the integrand that is independent of the scale.
        theta: Parameter of the lattice.
        n: Number of scalar displacements.
        quadratic: Their quadratic form at unit scale.
        cross_products: Whitened products of displacements and durations, by axis.
        weight: Whitened product of durations.
    """

    known: FloatArray
    theta: FloatArray
    n: FloatArray
    quadratic: FloatArray
    cross_products: FloatArray
    weight: FloatArray


def _change(values: FloatArray) -> FloatArray:
    """Return the change of the log of a lattice sum when every other point is omitted."""
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
    def _scale_index(self) -> int:
        """Index of the scale parameter."""
        return self.hypothesis.names.index(self.hypothesis.model.scale_parameter)

    @property
    def _other_index(self) -> int | None:
        """Index of the other parameter, if there is one."""
        return next((i for i in range(len(self.hypothesis.names)) if i != self._scale_index), None)

    def solve(self, sets: IntArray) -> Result:
        """Compute evidences and posteriors of sets."""
        if self._other_index is None:
            terms = self._at(sets, np.zeros((1, 1)))
            return self._summarise(self._integrand(terms, np.ones((len(sets), 1), dtype=bool)))
        uniforms = np.full((2, len(self.hypothesis.names)), 0.5)
        uniforms[:, self._other_index] = _TAIL, 1 - _TAIL
        low, high = prior_quantiles(self.hypothesis, uniforms)[:, self._other_index]
        begin, end = np.full(len(sets), low), np.full(len(sets), high)
        pending = np.arange(len(sets))
        results: list[tuple[IntArray, Result]] = []
        n_intervals = _N_INTERVALS
        for number in range(_MAX_ROUNDS):
            fractions = np.linspace(0.0, 1.0, n_intervals + 1)
            width = (end - begin)[pending]
            z = begin[pending, None] + width[:, None] * fractions
            # All sets share the first lattice.
            terms = self._at(sets[pending], z if number else z[:1])
            values = self._approximate(terms)
            peak = values.max(axis=1)
            with np.errstate(all="ignore"):
                falls = peak[:, None] - values[:, [0, -1]]
            open_ends = falls < _MIN_FALL
            selected = values > (peak - _DEPTH)[:, None]
            done = ~open_ends.any(axis=1) & (_change(values) < _TOLERANCE)
            done |= ~np.isfinite(peak)
            if done.any():
                finished = np.flatnonzero(done)
                integrand = self._integrand(terms[finished], selected[finished])
                integrand = replace(
                    integrand, values=integrand.values + np.log(width / n_intervals)[finished, None]
                )
                is_good = _change(integrand.values) < _TOLERANCE
                is_good |= ~np.isfinite(peak[finished])
                done[finished[~is_good]] = False
                if is_good.any():
                    results.append(
                        (pending[finished[is_good]], self._summarise(integrand[is_good]))
                    )
            first = np.argmax(selected, axis=1)
            last = n_intervals - np.argmax(selected[:, ::-1], axis=1)
            step = width / n_intervals
            # Extend an open end by half the width.
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
            raise DriftbayesError(
                f"the evidence of {self.hypothesis.name} did not converge in "
                f"{len(pending)} cells; use a smaller --depth"
            )
        order = np.argsort(np.concatenate([which for which, _ in results]))
        log_evidence, mean, sd = (
            np.concatenate(part, axis=-1)[..., order]
            for part in zip(*(result for _, result in results), strict=True)
        )
        return log_evidence, mean, sd

    def _at(self, sets: IntArray, z: FloatArray) -> _Terms:
        """Evaluate sets at values of the other coordinate; one row of `z` is common to all sets."""
        n_points, other = z.shape[1], self._other_index
        z_all = np.zeros((z.size, len(self.hypothesis.names)))
        log_prior = np.zeros(z.size)
        theta = np.ones_like(z_all)
        if other is not None:
            z_all[:, other] = z.ravel()
            theta, log_priors, log_jacobians = points_at(self.hypothesis, z_all)
            log_prior = log_priors[:, other] + log_jacobians[:, other]
        theta[:, self._scale_index] = 1.0
        moments = self.moments
        whitened = moments.whitened(self.hypothesis, theta, sets, len(z))
        n = moments.n_steps[sets, None] * moments.n_dim
        shape = (len(sets), n_points)
        known = self.form.log_norm + log_prior.reshape(len(z), -1)
        known = known - 0.5 * (n * LOG_2PI + moments.n_dim * whitened.log_det)
        theta_other = theta[:, 0 if other is None else other].reshape(len(z), -1)
        n_all, theta_other = np.broadcast_to(n, shape), np.broadcast_to(theta_other, shape)
        return _Terms(
            known, theta_other, n_all, whitened.quadratic, whitened.cross_products, whitened.weight
        )

    def _approximate(self, terms: _Terms) -> FloatArray:
        """Approximate the log integrand on the lattice."""
        all_points = np.ones(terms.known.shape, dtype=bool)
        values = terms.known + self._integrate_scale(terms, all_points, rough=True)[..., 0]
        return np.where(np.isnan(values), -np.inf, values)

    def _integrand(self, terms: _Terms, selected: np.ndarray) -> _Integrand:
        """Evaluate integrand and moments at the selected points."""
        scale = self._integrate_scale(terms, selected, rough=False)
        values = np.where(selected, terms.known + scale[..., 0], -np.inf)
        values = np.where(
            np.isnan(values), np.inf if self._other_index is None else -np.inf, values
        )
        scale = np.where(np.isfinite(scale), scale, 0.0)
        return _Integrand(values, terms.theta, scale, terms.cross_products)

    def _integrate_scale(self, terms: _Terms, selected: np.ndarray, *, rough: bool) -> FloatArray:
        """Integrate over the scale at the selected points; NaN elsewhere."""
        from driftbayes._kernels.scales import N_MOMENTS, integrate_scales

        squared = np.sum(terms.cross_products**2, axis=2)
        parts = (terms.n, terms.quadratic, squared, terms.weight)
        flat = [np.ascontiguousarray(part[selected]) for part in parts]
        out = np.empty((len(flat[0]), N_MOMENTS))
        form = self.form
        prior = np.array([self.moments.n_dim, self.flow_variance, form.shape, form.rate])
        run_in_ranges(
            lambda a, b: integrate_scales(*(part[a:b] for part in flat), prior, rough, out[a:b]),
            len(out),
            4 * count_threads(),
        )
        whole = np.full((*selected.shape, N_MOMENTS), np.nan)
        whole[selected] = out
        return whole

    def _summarise(self, integrand: _Integrand) -> Result:
        """Return ln Z, means and standard deviations."""
        values = integrand.values
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

        def add_known(values: FloatArray) -> None:
            mean = np.sum(weights * values, axis=1)
            moments.append((mean, np.sum(weights * (values - mean[:, None]) ** 2, axis=1)))

        for i in range(len(self.hypothesis.names)):
            if i == self._scale_index:
                add(integrand.scale[..., 1], integrand.scale[..., 2])
            else:
                add_known(integrand.theta)
        if self._other_index is not None:
            add_known(-np.log(integrand.theta))
        if self.flow_variance > 0:
            r, r2, spread = (integrand.scale[..., i] for i in (5, 6, 7))
            for axis in range(self.moments.n_dim):
                q = integrand.cross_products[..., axis]
                add(q * r, q**2 * r2 + spread)
        mean, variance = (np.array(part) for part in zip(*moments, strict=True))
        return log_evidence, mean, np.sqrt(np.maximum(variance, 0.0))
