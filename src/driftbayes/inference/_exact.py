"""Evidence by a closed form for the scale and quadrature over at most three other parameters."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from driftbayes._precision import in_double_precision
from driftbayes._representation import with_error
from driftbayes._typing import FloatArray
from driftbayes.errors import DriftbayesError, Status
from driftbayes.inference._batch import Batch
from driftbayes.inference._density import Density
from driftbayes.inference._evidence import QUANTILES, Evidence
from driftbayes.inference._hypothesis import Hypothesis, points_at
from driftbayes.inference._log_sums import logsumexp
from driftbayes.inference._posterior import summarise, weighted_quantiles
from driftbayes.inference._quadrature import (
    MAX_MISSED,
    Nodes,
    Quadrature,
    integrate_posterior,
    reweight,
    scale_form,
)
from driftbayes.inference._quantiles import marginal_quantiles
from driftbayes.inference._records import make_record
from driftbayes.inference._scale import closed_modes, draw_scales
from driftbayes.inference._search import Modes, find_modes
from driftbayes.inference._stacked import solve_stack, stack_records
from driftbayes.likelihood._gaussian import LOG_2PI

# Accepted error of ln Z in nats, by the number of parameters left for quadrature, then for three.
_TOLERANCE = {0: 1e-10, 1: 1e-10, 2: 1e-8}
TOLERANCE = 1e-3
_MAX_LEFT = 3
# Accepted error of ln Z under other priors, which matter at tenths of nats.
_VARIANT_TOLERANCE = 0.01
# An integral with a larger error has failed.
_MAX_ERROR = 0.5
# With more nodes at the largest mode, quantiles are those of the weighted nodes.
_N_DENSE = 20_000
# Rounds of candidates for draws; only thin ridges need more than one.
_MAX_ROUNDS = 10
# Accepted deviation of Z from points between the nodes: in standard errors, and relative.
_MAX_SIGMAS, _MAX_DEVIATION = 5.0, 1e-3


@in_double_precision
def exact(hypothesis: Hypothesis, data: Batch, *, tolerance: float | None = None) -> Evidence:
    r"""Integrate the evidence, to 1e-8 nats, or 1e-3 with three parameters left. [eq:evidence].

    A scale parameter with an exponential or gamma prior is integrated out in closed form (a
    modified Bessel function), and up to three other parameters by the trapezoid rule on lattices
    that grow from the modes.

    Args:
        hypothesis: Model family and prior.
        data: One data set, from `Batch.of`.
        tolerance: Accepted error of ln Z, in nats.
    """
    return exact_batch([hypothesis], data, tolerance=tolerance)[0]


@in_double_precision
def exact_batch(
    hypotheses: Sequence[Hypothesis], data: Batch, *, tolerance: float | None = None
) -> list[Evidence]:
    """Apply `exact` to several data sets, or to one data set under several priors."""
    if data.is_stacked and len(hypotheses) > 1:
        raise DriftbayesError("give several data sets or several priors, not both")
    if len(hypotheses) > 1:
        return [exact(hypothesis, data, tolerance=tolerance) for hypothesis in hypotheses]
    # Solve data sets together if possible, else one by one.
    (hypothesis,) = hypotheses
    records = dict(_solve_together(hypothesis, data, tolerance))
    return [
        records[i] if i in records else _solve(hypothesis, data, i, tolerance).record
        for i in range(len(data))
    ]


def exact_log_evidences(
    hypothesis: Hypothesis, data: Batch, *, tolerance: float | None = None
) -> "LogEvidences":
    """Compute only ln Z of several data sets under one hypothesis.

    Args:
        hypothesis: Model family and prior.
        data: One data set or several.
        tolerance: Accepted error of ln Z, in nats.
    """
    n = len(data)
    logs, errors = np.full(n, np.nan), np.full(n, np.nan)
    statuses = [Status.OK] * n
    is_left = np.ones(n, dtype=bool)
    accepted = _TOLERANCE[1] if tolerance is None else tolerance
    for part in solve_stack(hypothesis, data, accepted, describe=False):
        logs[part.sets], errors[part.sets] = part.log_evidence, part.error
        is_left[part.sets] = False
    for i in np.flatnonzero(is_left).tolist():
        record = _solve(hypothesis, data, i, tolerance).record
        logs[i], errors[i] = record.log_evidence, record.log_evidence_err
        statuses[i] = record.status
    return LogEvidences(logs, errors, tuple(statuses))


def _solve_together(
    hypothesis: Hypothesis, data: Batch, tolerance: float | None
) -> Iterator[tuple[int, Evidence]]:
    """Yield index and evidence of each data set that can be solved together with others."""
    accepted = _TOLERANCE[1] if tolerance is None else tolerance
    for part in solve_stack(hypothesis, data, accepted, describe=True):
        yield from stack_records(hypothesis, data, part)


def exact_variants(
    hypothesis: Hypothesis,
    others: Sequence[Hypothesis],
    data: Batch,
    tolerance: float | None = None,
) -> tuple[Evidence, list["LogEvidence"]]:
    """Compute the evidence under one prior, and only ln Z under others, reusing nodes if possible.

    Args:
        hypothesis: Model family and prior.
        others: The same family with other priors.
        data: One data set, from `Batch.of`.
        tolerance: Accepted error of ln Z under the first prior, in nats.
    """
    record = dict(_solve_together(hypothesis, data, tolerance)).get(0)
    if record is not None and not others:
        return record, []
    first = _solve(hypothesis, data, 0, tolerance)
    known = [(first.modes, first.quadrature)]
    variants = [_log_evidence(other, data, known) for other in others]
    return first.record if record is None else record, variants


@dataclass(frozen=True)
class LogEvidence:
    """Ln Z under another prior.

    Args:
        log_evidence: ln Z; NaN if the integral failed.
        log_evidence_err: Its error in nats.
    """

    log_evidence: float
    log_evidence_err: float


@dataclass(frozen=True)
class LogEvidences:
    """Ln Z of several data sets.

    Args:
        log_evidence: ln Z of each.
        log_evidence_err: Their errors in nats.
        statuses: Outcome of each computation.
    """

    log_evidence: FloatArray
    log_evidence_err: FloatArray
    statuses: tuple[Status, ...]


def _log_evidence(
    hypothesis: Hypothesis, data: Batch, known: list[tuple[Modes, Quadrature]]
) -> LogEvidence:
    """Compute ln Z from the best of the known nodes, or from new ones, which are appended."""
    density = Density(hypothesis, data.engine(0, hypothesis.model))
    accepted = max(_TOLERANCE.get(_count_left(density), TOLERANCE), _VARIANT_TOLERANCE)
    reweighted = [(reweight(quadrature, density), modes) for modes, quadrature in known]
    usable = [(found, modes) for found, modes in reweighted if found is not None]
    found, modes = min(usable, key=lambda pair: pair[0].error, default=(None, known[0][0]))
    if found is None or found.error > accepted:
        if len(known[0][1].left):
            # Start from the modes under a similar prior; search a grid only if that fails.
            modes = find_modes(density, modes)
            modes = modes if modes.free.converged else find_modes(density)
        found = integrate_posterior(density, modes, accepted)
        if found.lattices:
            known.append((modes, found))
    error = found.error + found.missed
    if not (np.isfinite(found.log_evidence) and error <= _MAX_ERROR):
        return LogEvidence(np.nan, np.nan)
    return LogEvidence(found.log_evidence, error)


def is_integrable(hypothesis: Hypothesis, data: Batch) -> bool:
    """Tell whether few enough parameters are left for quadrature."""
    return _count_left(Density(hypothesis, data.engine(0, hypothesis.model))) <= _MAX_LEFT


def _count_left(density: Density) -> int:
    """Count the parameters left for quadrature: all but a scale that is integrated out."""
    return len(density.hypothesis.names) - (scale_form(density) is not None)


@dataclass(frozen=True, eq=False)
class _Solution:
    """One integrated evidence, whose record is made on demand."""

    data: Batch
    index: int
    modes: Modes
    quadrature: Quadrature
    tolerance: float

    @cached_property
    def record(self) -> Evidence:
        """The evidence with the posterior of the parameters."""
        modes, found = self.modes, self.quadrature
        hypothesis = found.density.hypothesis
        posterior = summarise(found.nodes, found.density.scale, found.form, hypothesis.signed)
        if found.lattices and np.isfinite(found.log_evidence):
            posterior.quantiles[found.left] = _marginal_quantiles(hypothesis, found)
        points = points_at(hypothesis, modes.natural.z[None])
        theta_map, log_priors, _ = (part[0] for part in points)
        # Rounding of a large log-evidence is not an error of the quadrature.
        accepted = max(self.tolerance, 2e-14 * abs(found.log_evidence))
        is_certain = found.error <= accepted and found.missed < MAX_MISSED
        status = Status.OK
        if not np.isfinite(found.log_evidence):
            status = Status.NOT_FINITE
        elif not (is_certain and found.contained):
            status = Status.QUADRATURE_NOT_CONVERGED
        elif not modes.free.converged:
            status = Status.MAP_NOT_CONVERGED
        return make_record(
            *(hypothesis, self.data, self.index, theta_map, posterior),
            warnings=() if status is Status.OK else (status.advice,),
            method="exact",
            log_evidence=found.log_evidence,
            log_evidence_err=found.error + found.missed,
            log_likelihood_at_map=modes.natural.value - float(log_priors.sum()),
            status=status,
            n_evaluations=found.n_evaluations,
        )


def _solve(hypothesis: Hypothesis, data: Batch, index: int, tolerance: float | None) -> _Solution:
    """Integrate one evidence."""
    density = Density(hypothesis, data.engine(index, hypothesis.model))
    n_left = _count_left(density)
    if n_left > _MAX_LEFT:
        raise DriftbayesError(
            f"exact integration handles up to three parameters beside the scale, "
            f"{hypothesis.name} has {len(hypothesis.names)} in all; use method='bridge'"
        )
    accepted = _TOLERANCE.get(n_left, TOLERANCE) if tolerance is None else tolerance
    form = scale_form(density)
    modes = closed_modes(density, form) if form and not n_left else find_modes(density)
    quadrature = integrate_posterior(density, modes, accepted)
    return _Solution(data, index, modes, quadrature, accepted)


def _marginal_quantiles(hypothesis: Hypothesis, found: Quadrature) -> FloatArray:
    """Compute quantiles of the coordinates left, (coordinate, probability), from the lattices."""
    largest = max(found.lattices, key=lambda lattice: lattice.log_integral)
    z = np.zeros((len(QUANTILES), len(hypothesis.names)))
    if len(largest.log_values) > _N_DENSE:
        places = np.concatenate([lattice.z for lattice in found.lattices])
        weights = np.exp(found.nodes.log_weights - found.log_evidence)
        z[:, found.left] = weighted_quantiles(places, weights).T
    else:
        z[:, found.left] = marginal_quantiles(found.lattices, np.array(QUANTILES)).T
    return hypothesis.from_unconstrained(z).T[found.left]


@in_double_precision
def exact_draws(
    hypothesis: Hypothesis, data: Batch, n: int, rng: np.random.Generator
) -> tuple[Evidence, FloatArray, FloatArray, Quadrature]:
    """Draw independent samples from an integrated posterior.

    Candidates come from a mixture around the nodes and are accepted by the ratio of the density to
    the mixture. A scale that was integrated out is drawn exactly at each of them. The mean of the
    ratios is 1 if the quadrature missed nothing between its nodes; the status reports a deviation.

    Args:
        hypothesis: Model family and prior.
        data: One data set, from `Batch.of`.
        n: Number of draws.
        rng: Random number generator.

    Returns:
        The evidence, the draws of θ, (draw, parameter), ln p(D | θ) of each, and the quadrature.

    Raises:
        DriftbayesError: The posterior is nowhere finite.
    """
    solution = _solve(hypothesis, data, 0, None)
    record, found = solution.record, solution.quadrature
    if record.status is Status.NOT_FINITE:
        raise DriftbayesError(
            f"no draws from the posterior of {record.name}: {record.status.advice}"
        )
    if not found.lattices:
        single = (found.nodes.theta[:1], found.nodes.fits[:1])
        nodes = Nodes(np.zeros(n), *(np.repeat(x, n, axis=0) for x in single))
    else:
        nodes, warning = _draw_nodes(found, n, rng)
        if warning and record.status is Status.OK:
            status = Status.QUADRATURE_NOT_CONVERGED
            record = replace(record, status=status, warnings=(warning, *record.warnings))
    theta = np.array(nodes.theta)
    place, form = found.density.scale, found.form
    if form is None or place is None:
        return record, theta, nodes.fits[:, 0], found
    count, log_det, quadratic = nodes.fits.T
    scale = draw_scales(count, quadratic, form, rng)
    theta[:, place] = scale
    fits = -0.5 * (count * (LOG_2PI + np.log(scale)) + log_det + quadratic / scale)
    return record, theta, fits, found


def _draw_nodes(found: Quadrature, n: int, rng: np.random.Generator) -> tuple[Nodes, str]:
    """Draw the coordinates left; also return a warning, empty if all is well."""
    from driftbayes.inference._lattice_draws import keep_by_ratio, propose
    from driftbayes.inference._samples import resample

    size = 2 * n + 64
    ratios, uniforms = np.zeros(0), np.zeros(0)
    thetas, fits = [], []
    for _ in range(_MAX_ROUNDS):
        z, log_q = propose(found.lattices, size, rng)
        values, nodes = found.log_values(z)
        thetas.append(nodes.theta)
        fits.append(nodes.fits)
        ratio = np.nan_to_num(values - log_q - found.log_evidence, nan=-np.inf)
        ratios = np.append(ratios, ratio)
        uniforms = np.append(uniforms, rng.random(size))
        kept = keep_by_ratio(ratios, uniforms)
        if len(kept) >= n:
            break
    else:
        kept = resample(ratios, n, rng)
    relative = np.exp(ratios)
    error = relative.std(ddof=1) / np.sqrt(len(relative))
    warning = ""
    if not abs(relative.mean() - 1) <= _MAX_SIGMAS * error + _MAX_DEVIATION:
        warning = (
            f"points between the nodes of the quadrature give ln Z higher by "
            f"{with_error(float(logsumexp(ratios) - np.log(len(ratios))), error)}; use "
            "method='smc', or a narrower prior"
        )
    kept = kept[:n]
    theta, fit = np.concatenate(thetas)[kept], np.concatenate(fits)[kept]
    return Nodes(np.zeros(n), theta, fit), warning
