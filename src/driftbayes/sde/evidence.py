r"""Evidence of a stochastic differential equation, whose likelihood is only estimated.

Both ways integrate over the parameters and the random numbers of the filter together, in which the
estimate is unbiased, and so is the evidence:

$$Z = \int \hat L(\theta, \xi)\,\pi(\theta)\,p(\xi)\,\mathrm d\theta\,\mathrm d\xi$$

`laplace_is` (the default) samples θ from Student laws fitted to an extended Kalman filter's
posterior, then to the weighted points themselves (importance sampling squared); `smc` is SMC², a
tempered population of pairs (θ, ξ) that moves by pseudo-marginal Metropolis.
"""

__all__ = ["sde_evidences", "sde_variants"]

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import jax
import numpy as np
from scipy.special import logsumexp

from driftbayes.data.sampling import Displacements
from driftbayes.errors import DriftbayesError, Status
from driftbayes.inference._batch import Batch
from driftbayes.inference.density import Density
from driftbayes.inference.evidence import Evidence
from driftbayes.inference.exact import LogEvidence
from driftbayes.inference.formulas import points_at, prior_facts, prior_quantiles
from driftbayes.inference.hypothesis import Hypothesis
from driftbayes.inference.methods import SMC, Auto, Importance, Method, method_text
from driftbayes.inference.quasi_importance import Components, quasi_importance
from driftbayes.inference.sampled import Start, record_of, sampler_key, under_another_prior
from driftbayes.inference.samples import Estimate
from driftbayes.inference.search import Modes, find_modes
from driftbayes.inference.target import components_of, guide_of
from driftbayes.priors import Fixed
from driftbayes.sde.filter import Filter
from driftbayes.sde.likelihood import KalmanDensity, ParticleDensity
from driftbayes.sde.model import SDE
from driftbayes.sde.pilot import (
    MAX_VARIANCE,
    MIN_PARTICLES,
    SUBSTEP_TOLERANCE,
    Pilot,
    estimates_at,
    run_pilot,
)
from driftbayes.sde.validation import check_at
from driftbayes.typing import FloatArray

TOLERANCE = 0.05
_MAX_EVALUATIONS = 4096
# Fixes at which the user's functions are tried.
_N_TRIED = 64
# Substeps of the approximation that finds the modes.
_KALMAN_SUBSTEPS = 4
# Estimates of the likelihood at the mode.
_N_AT_MODE = 16


@dataclass(frozen=True)
class _Run:
    """An evidence as it was computed, and what a record needs beside it."""

    estimate: Estimate
    start: Start
    pilot: Pilot


def sde_evidences(
    hypotheses: Sequence[Hypothesis], batch: Batch, method: Method, seed: int
) -> list[Evidence]:
    """Evidences of an SDE under one or several priors.

    Args:
        hypotheses: The same family, with different priors.
        batch: One data set.
        method: "auto", "laplace_is" or "smc".
        seed: Random seed.

    Raises:
        DriftbayesError: The method needs a likelihood that is known exactly, or a function of the
            user fails where the data are.
    """
    found = []
    for hypothesis in hypotheses:
        run = _compute(hypothesis, _displacements(batch), method, seed)
        found.append(_record(hypothesis, batch, run, method, seed))
    return found


def sde_variants(
    hypothesis: Hypothesis,
    others: Sequence[Hypothesis],
    batch: Batch,
    method: Method,
    seed: int,
) -> tuple[Evidence, list[LogEvidence]]:
    """Evidence of an SDE, and ln Z alone under other priors, from the same points if they serve."""
    run = _compute(hypothesis, _displacements(batch), method, seed)
    record = _record(hypothesis, batch, run, method, seed)
    logs = []
    for other in others:
        again = under_another_prior(run.estimate, hypothesis, other, 2 * TOLERANCE)
        if again is None:
            again = _compute(other, _displacements(batch), method, seed).estimate
        logs.append(LogEvidence(again.log_evidence, again.log_evidence_err))
    return record, logs


def _displacements(batch: Batch) -> Displacements:
    data = None if batch.source is None else batch.source[0]
    if not isinstance(data, Displacements):
        msg = "an SDE needs displacements themselves, not sums of them; give it displacements"
        raise DriftbayesError(msg)
    return data


def _compute(hypothesis: Hypothesis, data: Displacements, method: Method, seed: int) -> _Run:
    if not isinstance(method, Auto | Importance | SMC):
        msg = (
            f"the likelihood of {hypothesis.name} is estimated by a particle filter, which method "
            f"{method.name!r} cannot take; use 'auto', 'laplace_is' or 'smc'"
        )
        raise DriftbayesError(msg)
    key = sampler_key(hypothesis, seed, method.name)
    number = int(np.asarray(jax.random.key_data(key)).reshape(-1)[-1])
    check_functions(hypothesis, data)
    modes = find_modes(Density(hypothesis, KalmanDensity(data, _KALMAN_SUBSTEPS)))
    theta = points_at(hypothesis, modes.free.z[None])[0][0]
    trial = ParticleDensity(data, Filter(MIN_PARTICLES), 1, number)
    pilot = run_pilot(trial, hypothesis.model, _values(hypothesis, theta))
    density = replace(trial, how=pilot.how, substeps=pilot.substeps)
    if isinstance(method, SMC):
        from driftbayes.sde.smc import sde_smc

        estimate = sde_smc(hypothesis, density, key, method)
    else:
        estimate = _importance(hypothesis, density, modes, method, number)
    return _Run(estimate, _start(hypothesis, density, modes, estimate), pilot)


def check_functions(hypothesis: Hypothesis, data: Displacements) -> None:
    """Try the user's functions at fixes of the data, with the medians of the priors."""
    medians = prior_quantiles(hypothesis, np.full((1, len(hypothesis.names)), 0.5))
    theta = points_at(hypothesis, medians)[0][0]
    sde = hypothesis.model(**_values(hypothesis, theta)).motion()
    assert isinstance(sde, SDE)
    starts = np.cumsum(data.row_sizes) - data.row_sizes
    runs = np.linspace(0, len(starts) - 1, min(len(starts), _N_TRIED)).astype(int)
    if data.start is None or data.start_time is None:
        return
    steps = starts[runs]
    speed = data.dx[steps] / data.interval[steps][:, None]
    check_at(sde.law, sde.theta(), (data.start[runs], speed, data.start_time[runs]))


def _values(hypothesis: Hypothesis, theta: FloatArray) -> dict[str, float]:
    free = dict(zip(hypothesis.names, theta, strict=True))
    return {
        name: float(prior.value if isinstance(prior, Fixed) else free[name])
        for name, prior in hypothesis.priors.items()
    }


def _importance(
    hypothesis: Hypothesis, density: ParticleDensity, modes: Modes, method: Method, seed: int
) -> Estimate:
    """Importance sampling squared: every point has random numbers of its own."""
    tolerance = getattr(method, "tolerance", None) or TOLERANCE
    limit = getattr(method, "max_evaluations", None) or _MAX_EVALUATIONS
    calls = iter(range(1 << 30))

    def log_f(z: FloatArray) -> tuple[FloatArray, FloatArray]:
        fresh = replace(density, seed=zlib.crc32(f"{seed} {next(calls)}".encode()))
        points = Density(hypothesis, fresh).at(z)
        return np.where(points.free < np.inf, points.free, -np.inf), points.log_likelihood

    def log_prior(z: FloatArray) -> FloatArray:
        _, log_priors, log_jacobians = points_at(hypothesis, z)
        return np.asarray((log_priors + log_jacobians).sum(axis=1))

    return quasi_importance(
        log_f,
        components_of(modes),
        seed=seed,
        tolerance=tolerance,
        max_evaluations=limit,
        sample_prior=partial(prior_quantiles, hypothesis),
        log_prior=log_prior,
    )


def _start(
    hypothesis: Hypothesis, density: ParticleDensity, modes: Modes, estimate: Estimate
) -> Start:
    """The mode in natural parameters, from the weighted points, and ln L there."""
    theta = _mode(hypothesis, estimate)
    at_mode = estimates_at(density, hypothesis.model, _values(hypothesis, theta), _N_AT_MODE)
    log_l = float(np.sum(logsumexp(at_mode, axis=0) - np.log(len(at_mode))))
    first = components_of(modes)
    only = Components(first.centers[:1], first.factors[:1], first.log_masses[:1])
    return Start(
        modes=modes,
        guide=guide_of(modes),
        components=only,
        theta_map=theta,
        log_likelihood_at_map=log_l,
        prior_log_sd=prior_facts(hypothesis).log_sd,
    )


def _mode(hypothesis: Hypothesis, estimate: Estimate) -> FloatArray:
    """Mode of the density of the natural parameters: top of a parabola through weighted points."""
    usable = np.isfinite(estimate.log_weights) & np.isfinite(estimate.log_likelihoods)
    if not usable.any():
        return np.full(len(hypothesis.names), np.nan)
    z, weights = (
        estimate.z[usable],
        np.exp(estimate.log_weights[usable] - logsumexp(estimate.log_weights[usable])),
    )
    _, log_priors, _ = points_at(hypothesis, z)
    height = estimate.log_likelihoods[usable] + log_priors.sum(axis=1)
    best = z[np.argmax(np.where(weights > 0, height, -np.inf))]
    mean = weights @ z
    centred = z - mean
    d = z.shape[1]
    pairs = [(i, j) for i in range(d) for j in range(i, d)]
    design = np.column_stack(
        [np.ones(len(z)), centred, *(centred[:, i] * centred[:, j] for i, j in pairs)]
    )
    root = np.sqrt(weights)[:, None]
    found, _, rank, _ = np.linalg.lstsq(root * design, root[:, 0] * height)
    curvature = np.zeros((d, d))
    for value, (i, j) in zip(found[1 + d :], pairs, strict=True):
        curvature[i, j] += value
        curvature[j, i] += value
    spread = np.sqrt(weights @ centred**2)
    is_peak = rank == design.shape[1] and np.all(np.linalg.eigvalsh(curvature) < 0)
    top = mean - np.linalg.solve(curvature, found[1 : 1 + d]) if is_peak else best
    if not np.all(np.abs(top - mean) < 4 * spread):
        top = best
    return points_at(hypothesis, top[None])[0][0]


def _record(hypothesis: Hypothesis, batch: Batch, run: _Run, method: Method, seed: int) -> Evidence:
    """The record, with what the filter leaves uncertain."""
    rng = np.random.default_rng([seed, zlib.crc32(hypothesis.name.encode())])
    name = method_text(Importance() if isinstance(method, Auto) else method)
    record = record_of(hypothesis, batch, 0, run.start, run.estimate, name, seed, rng)
    pilot = run.pilot
    status, doubts = record.status, list(record.warnings)
    if pilot.substep_change > max(SUBSTEP_TOLERANCE, 2 * pilot.substep_noise):
        doubts.append(
            f"doubling the {pilot.substeps} substeps between fixes changes ln L by "
            f"{pilot.substep_change:.2g} nats; choose a shorter tau"
        )
        if pilot.substep_change > 1 and status is Status.OK:
            status = Status.SAMPLER_NOT_CONVERGED
    if not pilot.variance < MAX_VARIANCE:
        doubts.append(
            f"the estimate of ln L scatters with variance {pilot.variance:.2g} at the most "
            f"particles tried ({pilot.how.particles}); use fewer trajectories or a shorter tau"
        )
        status = Status.SAMPLER_NOT_CONVERGED if status is Status.OK else status
    error = float(np.hypot(record.log_evidence_err, pilot.substep_error))
    return replace(
        record,
        log_evidence_err=error,
        status=status,
        warnings=tuple(doubts),
        diagnostics={
            **record.diagnostics,
            "inner_particles": float(pilot.how.particles),
            "substeps": float(pilot.substeps),
            "inner_variance": pilot.variance,
            "substep_error": pilot.substep_error,
        },
    )
