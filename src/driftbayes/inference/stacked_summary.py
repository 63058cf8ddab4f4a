"""Numbers that describe many posteriors of one parameter and a scale, or of a scale alone."""

__all__ = ["StackedSummary", "summarise_stack"]

from dataclasses import dataclass

import numpy as np

from driftbayes.inference.evidence import QUANTILES
from driftbayes.inference.formulas import points_at
from driftbayes.inference.marginals import line_quantiles
from driftbayes.inference.posterior import DEPTH, N_DENSITY, NEGLIGIBLE, described
from driftbayes.inference.scale import scale_posterior
from driftbayes.inference.stacked_density import StackedDensity
from driftbayes.inference.stacked_lattice import Lines
from driftbayes.inference.tabulated import tabulated_quantiles
from driftbayes.likelihood.terms import LOG_2PI
from driftbayes.typing import FloatArray, IntArray


@dataclass(frozen=True)
class StackedSummary:
    """Moments and quantiles of the parameters by data set, as in `Posterior`.

    Args:
        mean: (set, parameter).
        cov: (set, parameter, parameter).
        quantiles: (set, parameter, probability).
        log_mean: Means of ln θ; of θ itself where it is signed.
        log_sd: Standard deviations of the same.
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
    """Summarise posteriors that are known by weighted nodes.

    Args:
        density: Hypothesis and data.
        n: Count of the Gaussian terms of each data set.
        log_weights: ln of the weight of each node, (set, node); -inf where there is none.
        fits: θ of the parameter left, log-determinant and quadratic form, (set, node, 3).
        lines: Lattices of the parameter left; None if there is none.
    """
    hypothesis, place, left, form = density.hypothesis, density.place, density.left, density.form
    n_sets, n_parameters = len(n), len(hypothesis.names)
    peak = log_weights.max(axis=1, keepdims=True)
    # Only nodes that matter, one after another.
    owner, node = np.nonzero(log_weights > peak - DEPTH)
    begins = np.searchsorted(owner, np.arange(n_sets))
    weights = np.exp(log_weights[owner, node] - peak[owner, 0])
    weights = weights / np.add.reduceat(weights, begins)[owner]
    theta, log_det, quadratic = fits[owner, node].T
    count = n[owner]
    shape, rate = (np.full(len(owner), value) for value in (form.shape, form.rate))
    scales, log_inner = scale_posterior(count, quadratic, shape, rate)
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
        quantiles[:, left] = points_at(hypothesis, z)[0][:, left].reshape(n_sets, -1)
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
    """Quantiles of ln c from its marginal density, a mixture over the nodes."""
    n_sets = int(owner[-1]) + 1
    highest = np.maximum.reduceat(weights, np.searchsorted(owner, np.arange(n_sets)))
    kept = np.flatnonzero(weights > NEGLIGIBLE * highest[owner])
    owner, weights = owner[kept], weights[kept]
    count, quadratic = count[kept], quadratic[kept]
    begins = np.searchsorted(owner, np.arange(n_sets))
    log_scales = log_scales[kept]
    matter = weights[:, None] * inner[kept] > np.exp(-DEPTH) * highest[owner, None]
    low = np.where(matter, log_scales, np.inf).min(axis=1)
    high = np.where(matter, log_scales, -np.inf).max(axis=1)
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
