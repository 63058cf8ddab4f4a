"""Evidences and posteriors of many data sets at once."""

__all__ = ["StackSolution", "StackedSummary", "solve_stack", "stack_records", "summarise_stack"]

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from driftbayes.errors import Status
from driftbayes.inference._batch import Batch
from driftbayes.inference.density import derived_at
from driftbayes.inference.evidence import QUANTILES, Evidence, ParameterEstimate, parameter_warnings
from driftbayes.inference.hypothesis import Hypothesis
from driftbayes.inference.posterior import DEPTH, N_DENSITY, NEGLIGIBLE, described
from driftbayes.inference.quadrature import ERROR_FACTORS, MAX_TAIL
from driftbayes.inference.quantiles import line_quantiles, tabulated_quantiles
from driftbayes.inference.scale import scale_posterior
from driftbayes.inference.stacked_density import StackedDensity, StackedPoints, stacked_density
from driftbayes.inference.stacked_lattice import Lines, integrate_lines
from driftbayes.inference.stacked_search import find_stacked_modes
from driftbayes.likelihood.gaussian import LOG_2PI, gaussian_log_density
from driftbayes.typing import FloatArray, IntArray


def stack_records(
    hypothesis: Hypothesis, data: Batch, found: "StackSolution"
) -> Iterator[tuple[int, Evidence]]:
    """Yield index and evidence of each solved data set, if its posterior was described.

    Args:
        hypothesis: Model family and prior.
        data: All data sets.
        found: Solution of some data sets.
    """
    described = found.described
    if described is None:
        return
    summary, n_parameters = described.summary, len(hypothesis.names)
    about, priors = hypothesis.model.parameters, hypothesis.describe()
    prior_sd = hypothesis.prior_log_sd
    # (data set, parameter, field), in the order of the fields of an estimate.
    numbers = np.stack(
        [
            described.theta_map,
            summary.mean,
            np.sqrt(np.diagonal(summary.cov, axis1=1, axis2=2)),
            summary.log_mean,
            summary.log_sd,
            1 - summary.log_sd / prior_sd,
        ],
        axis=2,
    ).tolist()
    columns = zip(
        found.sets.tolist(),
        found.log_evidence.tolist(),
        found.error.tolist(),
        found.n_nodes.tolist(),
        described.log_likelihood_at_map.tolist(),
        summary.expected_log_likelihood.tolist(),
        strict=True,
    )
    for row, (i, log_z, error, n, fit, expected) in enumerate(columns):
        units = data.units(i)
        estimates = {}
        for j in range(n_parameters):
            name = hypothesis.names[j]
            mode, mean, sd, log_mean, log_sd, contraction = numbers[row][j]
            estimates[name] = ParameterEstimate(
                *(name, about[name].unit(*units), priors[name], mode, mean, sd),
                *(summary.quantiles[row, j], log_mean, log_sd, contraction),
            )
        yield (
            i,
            Evidence(
                hypothesis=hypothesis,
                method="exact",
                log_evidence=log_z,
                log_evidence_err=error,
                log_likelihood_at_map=fit,
                parameters=estimates,
                posterior_cov=summary.cov[row],
                expected_log_likelihood=expected,
                status=Status.OK,
                warnings=parameter_warnings(hypothesis, estimates, data.tau_text(i)),
                tau=data.tau(i),
                time_unit=units[1],
                data_fingerprint=data.fingerprint(i),
                n_evaluations=n,
                derived=derived_at(hypothesis, data, i, described.theta_map[row]),
            ),
        )


@dataclass(frozen=True)
class StackedSummary:
    """Moments and quantiles of the parameters by data set, as in `Posterior`.

    Args:
        mean: (set, parameter).
        cov: (set, parameter, parameter).
        quantiles: (set, parameter, probability).
        log_mean: Means of ln θ; of θ if it is signed.
        log_sd: Standard deviations of ln θ or θ.
        expected_log_likelihood: Mean of ln L.
    """

    mean: FloatArray
    cov: FloatArray
    quantiles: FloatArray
    log_mean: FloatArray
    log_sd: FloatArray
    expected_log_likelihood: FloatArray


@np.errstate(all="ignore")
def summarise_stack(
    density: StackedDensity,
    n: FloatArray,
    log_weights: FloatArray,
    fits: FloatArray,
    lines: Lines | None,
) -> StackedSummary:
    """Summarise posteriors given by weighted nodes.

    Args:
        density: Hypothesis and data.
        n: Number of scalar displacements of each data set.
        log_weights: ln of the weight of each node, (set, node); -inf if there is none.
        fits: θ of the parameter left, log-determinant and quadratic form, (set, node, 3).
        lines: Lattices of the parameter left; None if there is none.
    """
    hypothesis, place, left, form = density.hypothesis, density.place, density.left, density.form
    n_sets, n_parameters = len(n), len(hypothesis.names)
    peak = log_weights.max(axis=1, keepdims=True)
    # Relevant nodes, data set after data set.
    owner, node = np.nonzero(log_weights > peak - DEPTH)
    begins = np.searchsorted(owner, np.arange(n_sets))
    weights = np.exp(log_weights[owner, node] - peak[owner, 0])
    weights = weights / np.add.reduceat(weights, begins)[owner]
    theta, log_det, quadratic = fits[owner, node].T
    count = n[owner]
    scales, log_inner = scale_posterior(count, quadratic, form)
    inner = np.exp(log_inner)
    inner /= inner.sum(axis=1, keepdims=True)
    log_scales = np.log(scales)

    def moments(values: FloatArray) -> tuple[FloatArray, FloatArray]:
        mean = np.sum(inner * values, axis=1)
        return mean, np.sum(inner * (values - mean[:, None]) ** 2, axis=1)

    def over_nodes(values: FloatArray) -> FloatArray:
        return np.asarray(np.add.reduceat(weights * values, begins))

    natural, logs = np.empty((len(owner), n_parameters)), np.empty((len(owner), n_parameters))
    natural[:, place], variances = moments(scales)
    logs[:, place], log_variances = moments(log_scales)
    if left is not None:
        natural[:, left] = theta
        logs[:, left] = described(theta, np.array(hypothesis.signed[left]))
    inverse = np.sum(inner / scales, axis=1)
    fit = -0.5 * (count * (LOG_2PI + logs[:, place]) + log_det + quadratic * inverse)

    def mean_and_cov(values: FloatArray, within: FloatArray) -> tuple[FloatArray, FloatArray]:
        mean = np.stack([over_nodes(values[:, i]) for i in range(n_parameters)], axis=1)
        centred = values - mean[owner]
        cov = np.empty((n_sets, n_parameters, n_parameters))
        for i in range(n_parameters):
            for j in range(n_parameters):
                cov[:, i, j] = over_nodes(centred[:, i] * centred[:, j])
        cov[:, place, place] += over_nodes(within)
        return mean, cov

    mean, cov = mean_and_cov(natural, variances)
    log_mean, log_cov = mean_and_cov(logs, log_variances)
    quantiles = np.empty((n_sets, n_parameters, len(QUANTILES)))
    quantiles[:, place] = np.exp(
        _log_scale_quantiles(density, owner, weights, count, quadratic, log_scales, inner)
    )
    if left is not None and lines is not None:
        z = np.zeros((n_sets * len(QUANTILES), n_parameters))
        z[:, left] = line_quantiles(lines, np.array(QUANTILES)).reshape(-1)
        quantiles[:, left] = hypothesis.from_unconstrained(z)[:, left].reshape(n_sets, -1)
    return StackedSummary(
        mean=mean,
        cov=cov,
        quantiles=quantiles,
        log_mean=log_mean,
        log_sd=np.sqrt(np.diagonal(log_cov, axis1=1, axis2=2)),
        expected_log_likelihood=over_nodes(fit),
    )


def _log_scale_quantiles(
    density: StackedDensity,
    owner: IntArray,
    weights: FloatArray,
    count: FloatArray,
    quadratic: FloatArray,
    log_scales: FloatArray,
    inner: FloatArray,
) -> FloatArray:
    """Compute quantiles of ln c from its marginal density, a mixture over the nodes."""
    n_sets = int(owner[-1]) + 1
    highest = np.maximum.reduceat(weights, np.searchsorted(owner, np.arange(n_sets)))
    kept = np.flatnonzero(weights > NEGLIGIBLE * highest[owner])
    owner, weights = owner[kept], weights[kept]
    count, quadratic = count[kept], quadratic[kept]
    begins = np.searchsorted(owner, np.arange(n_sets))
    log_scales = log_scales[kept]
    is_relevant = weights[:, None] * inner[kept] > np.exp(-DEPTH) * highest[owner, None]
    low = np.where(is_relevant, log_scales, np.inf).min(axis=1)
    high = np.where(is_relevant, log_scales, -np.inf).max(axis=1)
    low, high = np.minimum.reduceat(low, begins), np.maximum.reduceat(high, begins)
    v = low[:, None] + (high - low)[:, None] * np.linspace(0.0, 1.0, N_DENSITY)
    rise, fall = np.exp(v), np.exp(-v)
    exponent = (density.form.shape - 0.5 * count)[:, None] * v[owner]
    exponent -= (0.5 * quadratic)[:, None] * fall[owner]
    exponent -= density.form.rate * rise[owner]
    exponent -= exponent.max(axis=1, keepdims=True)
    conditional = np.exp(exponent, out=exponent)
    conditional *= (weights / conditional.sum(axis=1))[:, None]
    table = np.add.reduceat(conditional, begins, axis=0)
    places = tabulated_quantiles(table, np.array(QUANTILES))
    return np.asarray(low[:, None] + (high - low)[:, None] * places / (N_DENSITY - 1))


# Data sets per batch, whose nodes fit into the processor cache.
_BATCH_SIZE = 256
# Limits of the width of a lattice, as for one data set.
_MIN_WIDTH, _MAX_WIDTH = 1e-10, 2.0


@dataclass(frozen=True)
class StackSolution:
    """Evidences of the solved data sets of a batch.

    Args:
        sets: Indices of the data sets.
        log_evidence: ln Z.
        error: Error of ln Z.
        n_nodes: Number of nodes of the quadrature.
        described: Modes and posteriors, if requested.
    """

    sets: IntArray
    log_evidence: FloatArray
    error: FloatArray
    n_nodes: IntArray
    described: "Described | None"


@dataclass(frozen=True)
class Described:
    """Modes and posteriors.

    Args:
        theta_map: Mode of the density of θ, (set, parameter).
        log_likelihood_at_map: ln L at this mode.
        summary: Moments and quantiles.
    """

    theta_map: FloatArray
    log_likelihood_at_map: FloatArray
    summary: StackedSummary


def solve_stack(
    hypothesis: Hypothesis, data: Batch, tolerance: float, *, describe: bool
) -> Iterator[StackSolution]:
    """Integrate the evidences of the data sets of a batch, hundreds at a time.

    Args:
        hypothesis: Model family and prior.
        data: Data sets; nothing is yielded if they cannot be solved together.
        tolerance: Accepted error of ln Z, in nats.
        describe: Whether to compute modes and posteriors too.
    """
    density = stacked_density(hypothesis, data)
    if density is None:
        return
    solve = _solve_closed if density.left is None else _solve_quadrature
    for low in range(0, len(density.stack), _BATCH_SIZE):
        sets = np.arange(low, min(low + _BATCH_SIZE, len(density.stack)))
        yield solve(density, sets, tolerance, describe=describe)


def _solve_closed(
    density: StackedDensity, sets: IntArray, tolerance: float, *, describe: bool
) -> StackSolution:
    """Solve without other parameters: ln Z is a Bessel function, the mode a quadratic root."""
    taus, group = np.unique(density.stack.taus[sets], return_inverse=True)
    sets = sets[np.argsort(group, kind="stable")]
    offsets = np.concatenate([[0], np.cumsum(np.bincount(group))])
    points = density.shared(np.zeros(len(taus)), taus, offsets, sets)
    values = density.log_integrand(points)
    good = np.isfinite(values) & np.isfinite(points.log_det) & (points.quadratic > 0)
    points, sets, values = points[good], sets[good], values[good]
    described = None
    if describe and len(sets):
        fits = np.stack([points.theta, points.log_det, points.quadratic], axis=1)[:, None]
        summary = summarise_stack(density, points.n, np.zeros((len(sets), 1)), fits, None)
        described = _describe(density, points, summary)
    n_nodes = np.ones(len(sets), dtype=np.int64)
    return StackSolution(sets, values, 1e-15 * np.abs(values), n_nodes, described)


def _solve_quadrature(
    density: StackedDensity, sets: IntArray, tolerance: float, *, describe: bool
) -> StackSolution:
    """Integrate over one other parameter by the trapezoid rule around the mode."""
    modes = find_stacked_modes(density, sets, with_natural=describe)
    sets = sets[modes.certain]

    def log_f(line: IntArray, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        points = density.at(sets[line], z)
        extras = np.stack([points.theta, points.log_det, points.quadratic], axis=1)
        return density.log_integrand(points), extras

    error_factor = ERROR_FACTORS[1]
    lines = integrate_lines(
        log_f,
        modes.free.z[modes.certain],
        modes.free.width[modes.certain].clip(_MIN_WIDTH, _MAX_WIDTH),
        tolerance=tolerance / error_factor,
        max_tail=MAX_TAIL,
    )
    # Rounding of a large log-evidence is not an error of the quadrature.
    accepted = np.maximum(tolerance, 2e-14 * np.abs(lines.log_integral))
    good = (
        np.isfinite(lines.log_integral) & lines.contained & (error_factor * lines.error <= accepted)
    )
    # The nodes must cover other local maxima too.
    good &= np.all((lines.ends - modes.reach[modes.certain]) * (-1, 1) >= 0, axis=1)
    lines, sets = lines[good], sets[good]
    described = None
    if describe and len(sets):
        assert modes.natural is not None
        points = modes.natural.points[np.flatnonzero(modes.certain)[good]]
        summary = summarise_stack(
            density, density.stack.n[sets], lines.log_weights, lines.extras, lines
        )
        described = _describe(density, points, summary)
    return StackSolution(
        sets, lines.log_integral, error_factor * lines.error, lines.n_nodes, described
    )


def _describe(density: StackedDensity, points: StackedPoints, summary: StackedSummary) -> Described:
    """Describe posteriors by their summary and the modes of the density of θ."""
    scale = density.most_likely_scale(points, natural=True)
    theta_map = np.empty((len(scale), len(density.hypothesis.names)))
    theta_map[:, density.place] = scale
    if density.left is not None:
        theta_map[:, density.left] = points.theta
    fit = gaussian_log_density(points.n, points.log_det, points.quadratic, scale, np)
    return Described(theta_map, fit, summary)
