"""Evidence by sampling: one way from a hypothesis through any sampler to the one record."""

__all__ = [
    "N_DRAWS",
    "Start",
    "auto_batch",
    "auto_variants",
    "importance_variants",
    "record_of",
    "sampled_batch",
    "sampler_key",
    "under_another_prior",
]

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import jax
import numpy as np

from driftbayes.data.sampling import Displacements
from driftbayes.errors import DriftbayesError, Status
from driftbayes.inference._batch import Batch
from driftbayes.inference.density import Density
from driftbayes.inference.evidence import Evidence
from driftbayes.inference.exact import LogEvidence
from driftbayes.inference.hypothesis import Hypothesis, points_at, prior_quantiles
from driftbayes.inference.lattice import whiten
from driftbayes.inference.log_sums import logsumexp
from driftbayes.inference.methods import (
    Auto,
    Bridge,
    Importance,
    Method,
    method_text,
    sampler_options,
)
from driftbayes.inference.posterior import summarise, weighted_quantiles
from driftbayes.inference.quadrature import Nodes, same_coordinates
from driftbayes.inference.quasi_importance import Components, quasi_importance, reweighted
from driftbayes.inference.records import make_record
from driftbayes.inference.ridges import find_ridges
from driftbayes.inference.samples import Estimate, resample
from driftbayes.inference.search import Modes, find_modes
from driftbayes.inference.target import Guide, PosteriorTarget, components_of, guide_of
from driftbayes.jax_typing import Key
from driftbayes.typing import FloatArray

# Equally likely draws that a record keeps.
N_DRAWS = 1000
# A mode with this share of the mass, by the curvature at its top, must be in the draws, with at
# least this part of what it should have: curvature alone may mislead by a factor of a few.
_MIN_MASS, _MIN_FOUND = 0.01, 0.1
# Error of an evidence under another prior that is accepted without computing it anew.
_REWEIGHTED = 0.02
# Number of trajectories, or steps, with a density each beyond which bridge sampling is slow.
_MANY = 2000
# Error of ln Z, in nats, that leaves a comparison by tenths of nats possible, and the shape of the
# tail of weights that have a mean.
_USABLE, _MAX_SHAPE = 0.1, 1.0


@dataclass(frozen=True)
class Start:
    """What all samplers share: where the posterior is, and its mode in natural parameters."""

    modes: Modes
    guide: Guide
    components: Components
    theta_map: FloatArray
    log_likelihood_at_map: float


@dataclass(frozen=True)
class _Task:
    """What a sampler runs on: one hypothesis and several data sets, or several priors and one.

    Args:
        hypotheses: As for `exact_batch`.
        data: As for `exact_batch`.
        starts: Where each posterior is.
        key: Key of the random numbers.
    """

    hypotheses: Sequence[Hypothesis]
    data: Batch
    starts: Sequence[Start]
    key: Key

    def target(self, i: int) -> PosteriorTarget:
        """The posterior of data set or prior i."""
        hypothesis = _of(self.hypotheses, i)
        return PosteriorTarget(Density(hypothesis, self.data.engine(i, hypothesis.model)))

    def rng(self) -> np.random.Generator:
        """Random numbers; every data set and prior starts with the same ones."""
        return np.random.default_rng(np.asarray(jax.random.key_data(self.key)).ravel())


def _of(hypotheses: Sequence[Hypothesis], i: int) -> Hypothesis:
    """The hypothesis of data set or prior i: its own, or the one of all."""
    return hypotheses[min(i, len(hypotheses) - 1)]


def sampled_batch(
    hypotheses: Sequence[Hypothesis], data: Batch, method: Method, seed: int = 0
) -> list[Evidence]:
    """Evidences by a sampler: one hypothesis for several data sets, or several priors for one.

    The random numbers of a model do not depend on those of another; data sets of one scan share
    theirs, which makes the curve along tau smooth and changes nothing else.

    Args:
        hypotheses: As for `exact_batch`.
        data: As for `exact_batch`.
        method: The sampler with its options.
        seed: Key of the random numbers, stored with the result.
    """
    key = sampler_key(hypotheses[0], seed, method.name)
    n = max(len(hypotheses), len(data))
    starts: list[Start] = []
    for i in range(n):
        # Other priors of the same data have their modes near those of the first.
        known = starts[0].modes if len(hypotheses) > 1 and starts else None
        starts.append(_start(_of(hypotheses, i), data, i, known))
    task = _Task(hypotheses, data, starts, key)
    estimates = _RUN[method.name](task, **sampler_options(method))
    rng = np.random.default_rng([seed, zlib.crc32(hypotheses[0].name.encode())])
    return [
        record_of(_of(hypotheses, i), data, i, start, estimate, method_text(method), seed, rng)
        for i, (start, estimate) in enumerate(zip(starts, estimates, strict=True))
    ]


def importance_variants(
    hypothesis: Hypothesis, others: Sequence[Hypothesis], data: Batch, *, seed: int = 0
) -> tuple[Evidence, list[Estimate]]:
    """Compute an evidence by importance sampling, and ln Z alone under other priors.

    The points under the first prior serve the others where they are worth enough there: these need
    no modes and no evaluations of their own.

    Args:
        hypothesis: Model family and prior.
        others: The same family with other priors.
        data: One data set, from `Batch.of`.
        seed: Random seed.
    """
    key = sampler_key(hypothesis, seed, "laplace_is")
    start = _start(hypothesis, data, 0, None)
    (first,) = _run_importance(_Task([hypothesis], data, [start], key))
    rng = np.random.default_rng([seed, zlib.crc32(hypothesis.name.encode())])
    record = record_of(hypothesis, data, 0, start, first, "laplace_is", seed, rng)
    found: dict[str, Estimate] = {str(hypothesis.describe()): first}
    for other in others:
        text = str(other.describe())
        if text in found:
            continue
        again = under_another_prior(first, hypothesis, other, _REWEIGHTED)
        if again is None:
            near = _start(other, data, 0, start.modes)
            task = _Task([other], data, [near], key)
            (again,) = _run_importance(task, tolerance=_REWEIGHTED)
        found[text] = again
    return record, [found[str(other.describe())] for other in others]


def auto_batch(
    hypotheses: Sequence[Hypothesis], batch: Batch, method: Auto, seed: int
) -> list[Evidence]:
    """Importance sampling, and where its weights are not to be trusted, the bridge."""
    records = sampled_batch(hypotheses, batch, Importance(tolerance=method.tolerance), seed)
    return [
        _bridged(record, _of(hypotheses, i), batch[i], seed) for i, record in enumerate(records)
    ]


def auto_variants(
    hypothesis: Hypothesis, others: Sequence[Hypothesis], batch: Batch, method: Method, seed: int
) -> tuple[Evidence, list[LogEvidence]]:
    """Evidence and ln Z under other priors; by the bridge where weights are not to be trusted."""
    record, estimates = importance_variants(hypothesis, others, batch, seed=seed)
    found = [LogEvidence(one.log_evidence, one.log_evidence_err) for one in estimates]
    if isinstance(method, Auto):
        record = _bridged(record, hypothesis, batch, seed)
        for i, (other, one) in enumerate(zip(others, estimates, strict=True)):
            if _needs_bridge(one.status, one.log_evidence_err, batch):
                (again,) = sampled_batch([other], batch, Bridge(), seed)
                if again.status is Status.OK:
                    found[i] = LogEvidence(again.log_evidence, again.log_evidence_err)
    return record, found


def _bridged(record: Evidence, hypothesis: Hypothesis, batch: Batch, seed: int) -> Evidence:
    """The record, or that of the bridge where importance sampling failed and it does not."""
    if not _needs_bridge(record.status, record.log_evidence_err, batch):
        return record
    (other,) = sampled_batch([hypothesis], batch, Bridge(), seed)
    return other if other.status is Status.OK else record


def _needs_bridge(status: Status, error: float, batch: Batch) -> bool:
    """Decide whether to compute an evidence by bridge sampling.

    With many trajectories or steps that have a density each, bridge sampling is slow: an error of
    importance sampling that is above the tolerance but small is then stated instead.
    """
    is_large = False
    if batch.source is not None and isinstance(data := batch.source[0], Displacements):
        n_judged = len(data.dx) if batch.source[1].kind == "steps" else data.n_particles
        is_large = n_judged > _MANY
    return status is Status.SAMPLER_NOT_CONVERGED and not (is_large and error <= _USABLE)


def sampler_key(hypothesis: Hypothesis, seed: int, method: str) -> Key:
    """Make a random key that depends only on the seed, the model and the method."""
    if seed != int(seed) or seed < 0:
        raise DriftbayesError(f"seed must be a whole number, 0 or more, got {seed}")
    words = zlib.crc32(f"{method} {hypothesis.name}".encode())
    return jax.random.fold_in(jax.random.key(seed), words)


def _start(hypothesis: Hypothesis, data: Batch, index: int, known: Modes | None) -> Start:
    modes = find_modes(Density(hypothesis, data.engine(index, hypothesis.model)), known)
    theta, log_priors, _ = (part[0] for part in points_at(hypothesis, modes.natural.z[None]))
    return Start(
        modes=modes,
        guide=guide_of(modes),
        components=components_of(modes),
        theta_map=theta,
        log_likelihood_at_map=float(modes.natural.value - log_priors.sum()),
    )


def _run_importance(
    task: _Task, tolerance: float = 0.01, max_evaluations: int = 65536
) -> list[Estimate]:
    seeds = np.asarray(jax.random.key_data(task.key)).reshape(-1)
    found: list[Estimate] = []
    for i, start in enumerate(task.starts):
        hypothesis = _of(task.hypotheses, i)
        density = Density(hypothesis, task.data.engine(i, hypothesis.model))
        if i > 0 and len(task.hypotheses) > 1:
            again = under_another_prior(found[0], task.hypotheses[0], hypothesis, tolerance)
            if again is not None:
                found.append(again)
                continue

        def log_f(z: FloatArray, density: Density = density) -> tuple[FloatArray, FloatArray]:
            points = density.at(z)
            return np.where(points.free < np.inf, points.free, -np.inf), points.log_likelihood

        def log_density(z: FloatArray, density: Density = density) -> FloatArray:
            return density.at(z).free

        found.append(
            quasi_importance(
                log_f,
                start.components,
                seed=int(seeds[0]),
                tolerance=tolerance,
                max_evaluations=max_evaluations,
                sample_prior=partial(prior_quantiles, hypothesis),
                log_prior=hypothesis.unconstrained_log_prior,
                ridges=find_ridges(log_density, start.modes),
            )
        )
    return found


def under_another_prior(
    estimate: Estimate, old: Hypothesis, new: Hypothesis, tolerance: float
) -> Estimate | None:
    """The estimate of the same data under another prior, if its points are worth enough there."""
    if not same_coordinates(old, new) or not np.isfinite(estimate.log_evidence):
        return None
    before, after = (points_at(one, estimate.z)[1].sum(axis=1) for one in (old, new))
    if estimate.status is Status.OK:
        again = reweighted(estimate, after - before)
        return again if again.log_evidence_err <= max(tolerance, _REWEIGHTED) else None
    # Points of its own would be no better under the other prior: its error is stated, not reduced.
    again = reweighted(estimate, after - before, max_shape=_MAX_SHAPE)
    return again if again.log_evidence_err <= _USABLE else None


def _run_bridge(task: _Task, **options: int) -> list[Estimate]:
    from driftbayes.inference.bridge import bridge

    return [
        bridge(task.target(i), start.guide, task.rng(), **options)
        for i, start in enumerate(task.starts)
    ]


def _run_smc(task: _Task, **options: int) -> list[Estimate]:
    from driftbayes.inference.smc import smc

    return [smc(task.target(i), task.rng(), **options) for i in range(len(task.starts))]


def _run_nested(task: _Task, **options: int) -> list[Estimate]:
    from driftbayes.inference.nested import nested

    return [nested(task.target(i), task.rng(), **options) for i in range(len(task.starts))]


_RUN: dict[str, Callable[..., list[Estimate]]] = {
    "laplace_is": _run_importance,
    "bridge": _run_bridge,
    "smc": _run_smc,
    "nested": _run_nested,
}


def record_of(
    hypothesis: Hypothesis,
    data: Batch,
    index: int,
    start: Start,
    estimate: Estimate,
    method: str,
    seed: int,
    rng: np.random.Generator,
) -> Evidence:
    """Make the record of an estimate.

    Args:
        hypothesis: Model family and prior.
        data: The data sets.
        index: Number of the data set.
        start: Where the posterior is.
        estimate: What the sampler found.
        method: Method as text.
        seed: Random seed.
        rng: Random numbers for the draws that are kept.
    """
    names = hypothesis.names
    usable = np.isfinite(estimate.log_weights) & np.isfinite(estimate.log_likelihoods)
    z, fits = estimate.z[usable], estimate.log_likelihoods[usable]
    log_weights = estimate.log_weights[usable]
    status, warnings = estimate.status, estimate.warnings
    missed = _missed_modes(z, log_weights, start.components)
    if missed and status is Status.OK:
        status = Status.SAMPLER_NOT_CONVERGED
    warnings = (*warnings, *missed)
    if len(z) == 0 or not np.isfinite(estimate.log_evidence):
        status = Status.NOT_FINITE
        warnings = warnings or (status.advice,)
        z, fits, log_weights = np.full((1, len(names)), np.nan), np.full(1, np.nan), np.zeros(1)
    theta = hypothesis.from_unconstrained(z)
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    posterior = replace(
        summarise(Nodes(log_weights, theta, fits[:, None]), None, None, hypothesis.signed),
        quantiles=weighted_quantiles(theta, weights),
    )
    # Drawn without replacement: no more than a quarter of what the weighted points are worth.
    is_weighted = np.ptp(log_weights) > 0
    worth = 0.25 / np.sum(weights**2) if is_weighted else float(len(theta))
    n_kept = int(np.clip(worth, 1, max(N_DRAWS, len(theta) // 20)))
    places = resample(log_weights, n_kept, rng)
    return make_record(
        *(hypothesis, data, index, start.theta_map, posterior, warnings),
        method=method,
        log_evidence=estimate.log_evidence,
        log_evidence_err=estimate.log_evidence_err,
        log_likelihood_at_map=start.log_likelihood_at_map,
        status=status,
        seed=seed,
        n_evaluations=estimate.n_evaluations,
        diagnostics=dict(estimate.diagnostics),
        draws=theta[places],
    )


def _missed_modes(z: FloatArray, log_weights: FloatArray, modes: Components) -> tuple[str, ...]:
    """A doubt for a mode that counts and that the weighted draws do not have in them."""
    log_masses = np.asarray(modes.log_masses)
    there = np.flatnonzero(np.isfinite(log_masses))
    if len(there) < 2 or len(z) == 0:
        return ()
    masses = np.exp(log_masses[there] - logsumexp(log_masses[there]))
    distances = [
        np.sum(whiten(z, center, factor) ** 2, axis=1)
        for center, factor in zip(modes.centers[there], modes.factors[there], strict=True)
    ]
    weights = np.exp(log_weights - logsumexp(log_weights))
    found = np.bincount(np.argmin(distances, axis=0), weights=weights, minlength=len(there))
    short = (masses > _MIN_MASS) & (found < _MIN_FOUND * masses)
    return tuple(
        f"the posterior has a mode with about {mass:.0%} of its mass that the draws hardly "
        f"visited ({share:.1%}); use method='auto' where it integrates exactly, or 'smc'"
        for mass, share in zip(masses[short], found[short], strict=True)
    )
