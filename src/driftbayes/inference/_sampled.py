"""Evidence by any sampler."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import jax
import numpy as np

from driftbayes._jax_typing import Key
from driftbayes._magnitudes import whole
from driftbayes._typing import FloatArray
from driftbayes.data._sampling import Displacements
from driftbayes.errors import Status
from driftbayes.inference._batch import Batch
from driftbayes.inference._density import Density
from driftbayes.inference._evidence import Evidence
from driftbayes.inference._exact import LogEvidence
from driftbayes.inference._hypothesis import Hypothesis, points_at, prior_quantiles
from driftbayes.inference._lattice import whiten
from driftbayes.inference._log_sums import logsumexp
from driftbayes.inference._methods import (
    SMC,
    Auto,
    Bridge,
    Importance,
    Method,
    method_text,
    sampler_options,
)
from driftbayes.inference._metropolis import Cloud
from driftbayes.inference._newton import Components
from driftbayes.inference._posterior import summarise, weighted_quantiles
from driftbayes.inference._quadrature import Nodes, same_coordinates
from driftbayes.inference._quasi_importance import quasi_importance, reweighted
from driftbayes.inference._records import make_record
from driftbayes.inference._ridges import find_ridges
from driftbayes.inference._samples import Estimate, resample
from driftbayes.inference._search import Modes, find_modes
from driftbayes.inference._target import PosteriorTarget, components_of

# Number of equally likely draws that a record keeps.
N_DRAWS = 1000
# A mode with more than the first share of the mass, by its curvature, must have at least the second
# share of this mass in the draws; a mass from the curvature may be wrong by a factor of a few.
_MIN_MASS, _MIN_FOUND = 0.01, 0.1
# Accepted error of ln Z, in nats, and the error accepted from points under another prior.
_TOLERANCE, _REWEIGHTED = 0.01, 0.02
# Number of trajectories, or steps, with a density each beyond which bridge sampling is slow.
_MANY = 2000
# Error of ln Z, in nats, that is still useful in a comparison, and largest Pareto shape of weights
# that have a mean.
_USABLE, _MAX_SHAPE = 0.1, 1.0


@dataclass(frozen=True)
class Start:
    """Location of a posterior, from which samplers start.

    Args:
        modes: Modes in unconstrained coordinates.
        components: Gaussians at the modes, the highest first.
        theta_map: Mode in natural parameters.
        log_likelihood_at_map: ln L there.
    """

    modes: Modes
    components: Components
    theta_map: FloatArray
    log_likelihood_at_map: float


def _of(hypotheses: Sequence[Hypothesis], i: int) -> Hypothesis:
    """Return the hypothesis of data set or prior i."""
    return hypotheses[min(i, len(hypotheses) - 1)]


def sampled_batch(
    hypotheses: Sequence[Hypothesis], data: Batch, method: Method, seed: int = 0
) -> list[Evidence]:
    """Compute evidences of several data sets, or of one data set under several priors.

    The random numbers of a model do not depend on those of another. The data sets of a scan share
    theirs, which makes the curve along tau smooth and changes nothing else.

    Args:
        hypotheses: As for `exact_batch`.
        data: As for `exact_batch`.
        method: The sampler with its options.
        seed: Random seed, stored with the result.
    """
    starts: list[Start] = []
    estimates: list[Estimate] = []
    for i in range(max(len(hypotheses), len(data))):
        # The modes under other priors of the same data are near those under the first.
        known = starts[0].modes if len(hypotheses) > 1 and starts else None
        hypothesis = _of(hypotheses, i)
        start, again = _start(hypothesis, data, i, known), None
        if known is not None and isinstance(method, Importance):
            tolerance = method.tolerance or _TOLERANCE
            again = under_another_prior(estimates[0], hypotheses[0], hypothesis, tolerance)
        starts.append(start)
        estimates.append(again or _sample(hypothesis, data, i, start, method, seed))
    rng = _draw_rng(hypotheses[0], seed)
    return [
        record_of(_of(hypotheses, i), data, i, start, estimate, method_text(method), seed, rng)
        for i, (start, estimate) in enumerate(zip(starts, estimates, strict=True))
    ]


def _sample(
    hypothesis: Hypothesis, data: Batch, index: int, start: Start, method: Method, seed: int
) -> Estimate:
    """Sample one posterior.

    All data sets and priors of a model get the same random numbers.
    """
    density = Density(hypothesis, data.engine(index, hypothesis.model))
    key = sampler_key(hypothesis, seed, method.name)
    # The key as two numbers.
    words = np.asarray(jax.random.key_data(key)).ravel()
    options = sampler_options(method)
    if isinstance(method, Importance):
        return _importance(density, start, int(words[0]), **options)
    target, rng = PosteriorTarget(density), np.random.default_rng(words)
    if isinstance(method, Bridge):
        from driftbayes.inference._bridge import bridge

        guide = Cloud(start.components.centers[0], start.components.factors[0])
        return bridge(target, guide, rng, **options)
    if isinstance(method, SMC):
        from driftbayes.inference._smc import smc

        return smc(target, rng, **options)
    from driftbayes.inference._nested import nested

    return nested(target, rng, **options)


def _draw_rng(hypothesis: Hypothesis, seed: int) -> np.random.Generator:
    """Make the generator for the draws that records keep."""
    return np.random.default_rng([seed, zlib.crc32(hypothesis.name.encode())])


def _importance_variants(
    hypothesis: Hypothesis, others: Sequence[Hypothesis], data: Batch, method: Importance, seed: int
) -> tuple[Evidence, list[Estimate]]:
    """Compute an evidence by importance sampling, and ln Z alone under other priors.

    The points under the first prior are reused for the others if enough of them have weight there:
    no modes and no evaluations are then needed.

    Args:
        hypothesis: Model family and prior.
        others: The same family with other priors.
        data: One data set, from `Batch.of`.
        method: Importance sampling with its options; ln Z under other priors has its own tolerance.
        seed: Random seed.
    """
    start = _start(hypothesis, data, 0, None)
    first = _sample(hypothesis, data, 0, start, method, seed)
    rng = _draw_rng(hypothesis, seed)
    record = record_of(hypothesis, data, 0, start, first, method_text(method), seed, rng)
    found: dict[str, Estimate] = {str(hypothesis.describe()): first}
    for other in others:
        text = str(other.describe())
        if text in found:
            continue
        again = under_another_prior(first, hypothesis, other, _REWEIGHTED)
        if again is None:
            near = _start(other, data, 0, start.modes)
            again = _sample(other, data, 0, near, replace(method, tolerance=_REWEIGHTED), seed)
        found[text] = again
    return record, [found[str(other.describe())] for other in others]


def auto_batch(
    hypotheses: Sequence[Hypothesis], batch: Batch, method: Auto, seed: int
) -> list[Evidence]:
    """Compute evidences by importance sampling, or by the bridge if its weights are unreliable."""
    records = sampled_batch(hypotheses, batch, Importance(tolerance=method.tolerance), seed)
    return [
        _bridged(record, _of(hypotheses, i), batch[i], seed) for i, record in enumerate(records)
    ]


def auto_variants(
    hypothesis: Hypothesis,
    others: Sequence[Hypothesis],
    batch: Batch,
    method: Auto | Importance,
    seed: int,
) -> tuple[Evidence, list[LogEvidence]]:
    """Compute an evidence and ln Z under other priors, in the same way as `auto_batch`."""
    sampler = Importance(tolerance=method.tolerance) if isinstance(method, Auto) else method
    record, estimates = _importance_variants(hypothesis, others, batch, sampler, seed)
    found = [LogEvidence(e.log_evidence, e.log_evidence_err) for e in estimates]
    if isinstance(method, Auto):
        record = _bridged(record, hypothesis, batch, seed)
        for i, (other, estimate) in enumerate(zip(others, estimates, strict=True)):
            if _needs_bridge(estimate.status, estimate.log_evidence_err, batch):
                (again,) = sampled_batch([other], batch, Bridge(), seed)
                if again.status is Status.OK:
                    found[i] = LogEvidence(again.log_evidence, again.log_evidence_err)
    return record, found


def _bridged(record: Evidence, hypothesis: Hypothesis, batch: Batch, seed: int) -> Evidence:
    """Return the record of the bridge if importance sampling failed and the bridge did not."""
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
        n_units = len(data.dx) if batch.source[1].kind == "steps" else data.n_particles
        is_large = n_units > _MANY
    return status is Status.SAMPLER_NOT_CONVERGED and not (is_large and error <= _USABLE)


def sampler_key(hypothesis: Hypothesis, seed: int, method: str) -> Key:
    """Make a random key that depends only on the seed, the model and the method."""
    seed = whole(seed, "seed")
    words = zlib.crc32(f"{method} {hypothesis.name}".encode())
    return jax.random.fold_in(jax.random.key(seed), words)


def _start(hypothesis: Hypothesis, data: Batch, index: int, known: Modes | None) -> Start:
    """Find the modes of one posterior, from those under a similar prior if known."""
    modes = find_modes(Density(hypothesis, data.engine(index, hypothesis.model)), known)
    theta, log_priors, _ = (part[0] for part in points_at(hypothesis, modes.natural.z[None]))
    return Start(
        modes=modes,
        components=components_of(modes),
        theta_map=theta,
        log_likelihood_at_map=float(modes.natural.value - log_priors.sum()),
    )


def _importance(
    density: Density,
    start: Start,
    seed: int,
    tolerance: float = _TOLERANCE,
    max_evaluations: int = 65536,
) -> Estimate:
    """Sample one posterior by importance sampling with quasi-random points."""
    hypothesis = density.hypothesis

    def log_f(z: FloatArray) -> tuple[FloatArray, FloatArray]:
        points = density.at(z)
        return points.integrand, points.log_likelihood

    return quasi_importance(
        log_f,
        start.components,
        seed=seed,
        tolerance=tolerance,
        max_evaluations=max_evaluations,
        sample_prior=partial(prior_quantiles, hypothesis),
        log_prior=hypothesis.unconstrained_log_prior,
        ridges=find_ridges(lambda z: density.at(z).free, start.modes),
    )


def under_another_prior(
    estimate: Estimate, old: Hypothesis, new: Hypothesis, tolerance: float
) -> Estimate | None:
    """Estimate the evidence under another prior from the same points; None if they are too few.

    Args:
        estimate: Estimate under the old prior.
        old: Hypothesis with the old prior.
        new: Hypothesis with the new prior.
        tolerance: Accepted error of ln Z, in nats.
    """
    if not same_coordinates(old, new) or not np.isfinite(estimate.log_evidence):
        return None
    before, after = (points_at(prior, estimate.z)[1].sum(axis=1) for prior in (old, new))
    if estimate.status is Status.OK:
        again = reweighted(estimate, after - before)
        return again if again.log_evidence_err <= max(tolerance, _REWEIGHTED) else None
    # New points would be no better: accept a larger error, which is stated.
    again = reweighted(estimate, after - before, max_shape=_MAX_SHAPE)
    return again if again.log_evidence_err <= _USABLE else None


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
        start: Location of the posterior.
        estimate: Result of the sampler.
        method: Method as text.
        seed: Random seed.
        rng: Random number generator for the draws that are kept.
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
    # Keep at most a quarter of the effective sample size, since draws are without replacement.
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
    """Warn of modes with a relevant mass that the weighted draws hardly contain."""
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
