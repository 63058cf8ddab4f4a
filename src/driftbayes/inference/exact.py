"""Exact evidence: closed form for the scale, quadrature for at most three other parameters."""

__all__ = [
    "LogEvidence",
    "LogEvidences",
    "exact",
    "exact_batch",
    "exact_draws",
    "exact_log_evidences",
    "exact_variants",
    "is_integrable",
]

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from driftbayes.errors import DriftbayesError, Status
from driftbayes.inference._batch import Batch
from driftbayes.inference.density import Density, derived_at
from driftbayes.inference.evidence import QUANTILES, Evidence, make_estimates, parameter_warnings
from driftbayes.inference.formulas import points_at, prior_facts
from driftbayes.inference.hypothesis import Hypothesis
from driftbayes.inference.log_sums import logsumexp
from driftbayes.inference.posterior import summarise
from driftbayes.inference.quadrature import (
    MAX_MISSED,
    Nodes,
    Quadrature,
    integrate_posterior,
    reweight,
    scale_form,
)
from driftbayes.inference.quantiles import marginal_quantiles
from driftbayes.inference.scale import closed_modes, draw_scales
from driftbayes.inference.search import Modes, find_modes
from driftbayes.inference.stacked import solve_stack, stack_records
from driftbayes.likelihood.kalman import LOG_2PI
from driftbayes.precision import in_double_precision
from driftbayes.representation import with_error
from driftbayes.typing import FloatArray

# Nodes are added until the evidence is this certain, in nats: by the number of parameters that are
# left for quadrature, three of which are dear.
_TOLERANCE = {0: 1e-10, 1: 1e-10, 2: 1e-8}
TOLERANCE = 1e-3
_MOST = 3
# Error that is accepted of their evidences, which are compared by tenths of nats.
_OTHER_PRIORS = 0.01
# An integral with a larger error is none.
_MAX_ERROR = 0.5
# If the largest mode has more nodes than this, a cloud of weighted points is good enough for
# quantiles; many nodes of a small mode say nothing about those that carry the mass.
_DENSE = 20_000
# Rounds of candidates for draws; the first is enough but for thin ridges.
_MAX_ROUNDS = 10
# By how many errors, and how much, ln Z from points between the nodes may differ.
_AGREEMENT, _MAX_OFF = 5.0, 1e-3


@in_double_precision
def exact(hypothesis: Hypothesis, data: Batch, *, tolerance: float | None = None) -> Evidence:
    r"""Integrate the evidence, good to 1e-8 nats, with three left over 1e-3. [eq:evidence].

    A scale parameter with an exponential or gamma prior is integrated out in closed form (a
    modified Bessel function); what is left, up to three parameters, by the trapezoid rule on
    lattices that grow from the modes.

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
    """The same for several data sets under one hypothesis, or one data set under several priors."""
    if data.is_stacked and len(hypotheses) > 1:
        raise DriftbayesError("give several data sets or several priors, not both")
    if len(hypotheses) == 1:
        return _of_stack(hypotheses[0], data, tolerance)
    return [_of_stack(hypothesis, data, tolerance)[0] for hypothesis in hypotheses]


def exact_log_evidences(
    hypothesis: Hypothesis, data: Batch, *, tolerance: float | None = None
) -> "LogEvidences":
    """Ln Z alone of several data sets under one hypothesis.

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
    for some in solve_stack(hypothesis, data, accepted, describe=False):
        logs[some.sets], errors[some.sets] = some.log_evidence, some.error
        is_left[some.sets] = False
    for i in np.flatnonzero(is_left).tolist():
        record = _solved(hypothesis, data, i, tolerance).record
        logs[i], errors[i] = record.log_evidence, record.log_evidence_err
        statuses[i] = record.status
    return LogEvidences(logs, errors, tuple(statuses))


def _of_stack(hypothesis: Hypothesis, data: Batch, tolerance: float | None) -> list[Evidence]:
    """Evidences of all data sets, side by side where they can be, else one by one."""
    records = dict(_solved_together(hypothesis, data, tolerance))
    return [
        records[i] if i in records else _solved(hypothesis, data, i, tolerance).record
        for i in range(len(data))
    ]


def _solved_together(
    hypothesis: Hypothesis, data: Batch, tolerance: float | None
) -> Iterator[tuple[int, Evidence]]:
    """Number and evidence of each data set that could be solved side by side with others."""
    accepted = _TOLERANCE[1] if tolerance is None else tolerance
    for some in solve_stack(hypothesis, data, accepted, describe=True):
        yield from stack_records(hypothesis, data, some)


def exact_variants(
    hypothesis: Hypothesis, others: Sequence[Hypothesis], data: Batch
) -> tuple[Evidence, list["LogEvidence"]]:
    """The evidence under one prior, and ln Z alone under others, from the same nodes if they do.

    Args:
        hypothesis: Model family and prior.
        others: The same family with other priors.
        data: One data set, from `Batch.of`.
    """
    record = dict(_solved_together(hypothesis, data, None)).get(0)
    if record is not None and not others:
        return record, []
    first = _solved(hypothesis, data, 0, None)
    known = [(first.modes, first.quadrature)]
    variants = [_log_evidence(other, data, known) for other in others]
    return first.record if record is None else record, variants


@dataclass(frozen=True)
class LogEvidence:
    """Ln Z under another prior.

    Args:
        log_evidence: ln Z, NaN where the integral failed.
        log_evidence_err: Its error.
    """

    log_evidence: float
    log_evidence_err: float


@dataclass(frozen=True)
class LogEvidences:
    """Ln Z of several data sets.

    Args:
        log_evidence: ln Z of each.
        log_evidence_err: Their errors.
        statuses: How each computation ended.
    """

    log_evidence: FloatArray
    log_evidence_err: FloatArray
    statuses: tuple[Status, ...]


def _log_evidence(
    hypothesis: Hypothesis, data: Batch, known: list[tuple[Modes, Quadrature]]
) -> LogEvidence:
    """Ln Z from the nodes of what is known that suit it best, else by new ones, then known too."""
    density = Density(hypothesis, data.engine(0, hypothesis.model))
    accepted = max(_TOLERANCE.get(_n_left(density), TOLERANCE), _OTHER_PRIORS)
    again = [(reweight(quadrature, density), modes) for modes, quadrature in known]
    usable = [(found, modes) for found, modes in again if found is not None]
    found, modes = min(usable, key=lambda pair: pair[0].error, default=(None, known[0][0]))
    if found is None or found.error > accepted:
        if len(known[0][1].left):
            # No grid is searched where the modes under a similar prior lead to the new ones.
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
    """Whether few enough parameters are left for quadrature."""
    return _n_left(Density(hypothesis, data.engine(0, hypothesis.model))) <= _MOST


def _n_left(density: Density) -> int:
    return len(density.hypothesis.names) - (scale_form(density) is not None)


@dataclass(frozen=True, eq=False)
class _Solution:
    """One evidence; its record is made when it is asked for."""

    data: Batch
    index: int
    modes: Modes
    quadrature: Quadrature
    tolerance: float

    @cached_property
    def record(self) -> Evidence:
        return _record(self.data, self.index, self.modes, self.quadrature, self.tolerance)


def _solved(
    hypothesis: Hypothesis,
    data: Batch,
    index: int,
    tolerance: float | None,
) -> _Solution:
    """Integrate one evidence."""
    density = Density(hypothesis, data.engine(index, hypothesis.model))
    n_left = _n_left(density)
    if n_left > _MOST:
        raise DriftbayesError(
            f"exact integration handles up to three parameters beside the scale, "
            f"{hypothesis.name} has {len(hypothesis.names)} in all; use method='bridge'"
        )
    accepted = _TOLERANCE.get(n_left, TOLERANCE) if tolerance is None else tolerance
    form = scale_form(density)
    modes = closed_modes(density, form) if form and not n_left else find_modes(density)
    quadrature = integrate_posterior(density, modes, accepted)
    return _Solution(data, index, modes, quadrature, accepted)


def _record(data: Batch, index: int, modes: Modes, found: Quadrature, tolerance: float) -> Evidence:
    """Summarise a posterior."""
    hypothesis = found.density.hypothesis
    facts = prior_facts(hypothesis)
    posterior = summarise(found.nodes, found.density.scale, found.form, hypothesis.signed)
    quantiles = posterior.quantiles
    if found.lattices:
        quantiles = _with_marginals(hypothesis, found, quantiles)
    theta_map, log_priors, _ = (part[0] for part in points_at(hypothesis, modes.natural.z[None]))
    # The rounding of a huge log-evidence is no error of the quadrature.
    accepted = max(tolerance, 2e-14 * abs(found.log_evidence))
    is_certain = found.error <= accepted and found.missed < MAX_MISSED
    status = Status.OK
    if not np.isfinite(found.log_evidence):
        status = Status.NOT_FINITE
    elif not (is_certain and found.contained):
        status = Status.QUADRATURE_NOT_CONVERGED
    elif not modes.free.converged:
        status = Status.MAP_NOT_CONVERGED
    estimates = make_estimates(
        hypothesis,
        data.units(index),
        quantiles,
        mode=theta_map,
        mean=posterior.mean,
        sd=np.sqrt(np.diag(posterior.cov)),
        log_mean=posterior.log_mean,
        log_sd=posterior.log_sd,
        contraction=1 - posterior.log_sd / facts.log_sd,
    )
    warnings = () if status is Status.OK else (status.advice,)
    return Evidence(
        hypothesis=hypothesis,
        method="exact",
        log_evidence=found.log_evidence,
        log_evidence_err=found.error + found.missed,
        log_likelihood_at_map=modes.natural.value - float(log_priors.sum()),
        parameters=estimates,
        posterior_cov=posterior.cov,
        expected_log_likelihood=posterior.expected_log_likelihood,
        status=status,
        warnings=(*warnings, *parameter_warnings(hypothesis, estimates, data.tau_text(index))),
        tau=data.tau(index),
        time_unit=data.units(index)[1],
        data_fingerprint=data.fingerprint(index),
        n_evaluations=found.n_evaluations,
        derived=derived_at(hypothesis, data, index, theta_map),
    )


def _with_marginals(hypothesis: Hypothesis, found: Quadrature, quantiles: FloatArray) -> FloatArray:
    """Quantiles of the coordinates left, from the lattices."""
    logs = np.array([lattice.log_integral for lattice in found.lattices])
    if not np.isfinite(found.log_evidence):
        return quantiles
    z = np.zeros((len(QUANTILES), len(hypothesis.names)))
    if len(found.lattices[int(np.argmax(logs))].log_values) > _DENSE:
        z[:, found.left] = _of_cloud(found)
    else:
        z[:, found.left] = marginal_quantiles(found.lattices, logs, np.array(QUANTILES)).T
    out = np.array(quantiles)
    out[found.left] = points_at(hypothesis, z)[0].T[found.left]
    return out


def _of_cloud(found: Quadrature) -> FloatArray:
    """Quantiles of each coordinate from nodes that lie closely: (probability, coordinate)."""
    z = np.concatenate([lattice.z for lattice in found.lattices])
    weights = np.exp(found.nodes.log_weights - found.log_evidence)
    out = np.empty((len(QUANTILES), z.shape[1]))
    for i, values in enumerate(z.T):
        order = np.argsort(values)
        rise = np.cumsum(weights[order])
        out[:, i] = np.interp(QUANTILES, (rise - 0.5 * weights[order]) / rise[-1], values[order])
    return out


@in_double_precision
def exact_draws(
    hypothesis: Hypothesis, data: Batch, n: int, rng: np.random.Generator
) -> tuple[Evidence, FloatArray, FloatArray, Quadrature]:
    """Independent draws from the posterior that the quadrature found, exact between its nodes too.

    Candidates come from a mixture around the nodes and are kept or not by the ratio of the density
    to it. The scale, integrated out, has its own exact draw at each of them. The mean of the ratios
    is 1 if the quadrature saw all that there is between its nodes; if it is not, the status says
    so.

    Args:
        hypothesis: Model family and prior.
        data: One data set, from `Batch.of`.
        n: How many.
        rng: Random numbers.

    Returns:
        The evidence, the draws of θ, (draw, parameter), ln p(D | θ) of each, and the quadrature.

    Raises:
        DriftbayesError: The posterior has no finite value to draw from.
    """
    solution = _solved(hypothesis, data, 0, None)
    record, found = solution.record, solution.quadrature
    if record.status is Status.NOT_FINITE:
        msg = f"no draws from the posterior of {record.name}: {record.status.advice}"
        raise DriftbayesError(msg)
    if not found.lattices:
        only = (found.nodes.theta[:1], found.nodes.fits[:1])
        nodes = Nodes(np.zeros(n), *(np.repeat(x, n, axis=0) for x in only))
    else:
        nodes, doubt = _draw_nodes(found, n, rng)
        if doubt and record.status is Status.OK:
            status = Status.QUADRATURE_NOT_CONVERGED
            record = replace(record, status=status, warnings=(doubt, *record.warnings))
    theta = np.array(nodes.theta)
    place, form = found.density.scale, found.form
    if form is None or place is None:
        return record, theta, nodes.fits[:, 0], found
    count, log_det, quadratic = nodes.fits.T
    shape, rate = np.full(n, form.shape), np.full(n, form.rate)
    scale = draw_scales(count, quadratic, shape, rate, rng)
    theta[:, place] = scale
    fits = -0.5 * (count * (LOG_2PI + np.log(scale)) + log_det + quadratic / scale)
    return record, theta, fits, found


def _draw_nodes(found: Quadrature, n: int, rng: np.random.Generator) -> tuple[Nodes, str]:
    """Draws of the coordinates left, and a doubt in words if there is one."""
    from driftbayes.inference.lattice_draws import keep_by_ratio, propose
    from driftbayes.inference.samples import resample

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
    doubt = ""
    if not abs(relative.mean() - 1) <= _AGREEMENT * error + _MAX_OFF:
        doubt = (
            f"points between the nodes of the quadrature give ln Z higher by "
            f"{with_error(float(logsumexp(ratios) - np.log(len(ratios))), error)}; use "
            "method='smc', or a narrower prior"
        )
    kept = kept[:n]
    theta, fit = np.concatenate(thetas)[kept], np.concatenate(fits)[kept]
    return Nodes(np.zeros(n), theta, fit), doubt
