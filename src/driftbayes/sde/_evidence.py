r"""Evidence of a stochastic differential equation from unbiased estimates of its likelihood.

Both methods integrate jointly over the parameters and the random numbers of the filter, so that the
evidence is unbiased:

$$Z = \int \hat L(\theta, \xi)\,\pi(\theta)\,p(\xi)\,\mathrm d\theta\,\mathrm d\xi$$

`laplace_is` (the default) is importance sampling squared (IS²): it samples θ from Student
distributions, fitted first to the posterior of an extended Kalman filter, then to the weighted
points. `smc` is SMC²: a tempered population of pairs (θ, ξ) with pseudo-marginal Metropolis moves.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import jax
import numpy as np

from driftbayes._typing import FloatArray
from driftbayes.data._sampling import Displacements
from driftbayes.errors import DriftbayesError, Status
from driftbayes.inference._batch import Batch
from driftbayes.inference._density import Density
from driftbayes.inference._evidence import Evidence
from driftbayes.inference._exact import LogEvidence
from driftbayes.inference._hypothesis import Hypothesis, prior_quantiles
from driftbayes.inference._log_sums import logsumexp
from driftbayes.inference._methods import (
    SMC,
    Auto,
    Importance,
    Method,
    method_text,
    sampler_options,
)
from driftbayes.inference._newton import Components
from driftbayes.inference._quasi_importance import quasi_importance
from driftbayes.inference._sampled import Start, record_of, sampler_key, under_another_prior
from driftbayes.inference._samples import Estimate
from driftbayes.inference._search import Modes, find_modes
from driftbayes.inference._target import components_of
from driftbayes.sde._filter import Filter
from driftbayes.sde._likelihood import KalmanDensity, ParticleDensity
from driftbayes.sde._mode import mode_of
from driftbayes.sde._model import SDE
from driftbayes.sde._pilot import MAX_VARIANCE, MIN_PARTICLES, Pilot, run_pilot
from driftbayes.sde._substeps import Correction, find_correction
from driftbayes.sde._validation import check_at

TOLERANCE = 0.05
_MAX_EVALUATIONS = 4096
# Number of fixes at which the user's functions are checked.
_N_CHECKED = 64
# Substeps of the extended Kalman filter that finds the modes.
_KALMAN_SUBSTEPS = 4
# Number of likelihood estimates at the mode.
_N_AT_MODE = 16
# Error of ln Z by finite substeps, in nats, above which to warn, and above which to fail.
_WARN_ABOVE, _FAIL_ABOVE = 0.5, 1.0


@dataclass(frozen=True)
class _Run:
    """An estimate of the evidence, with the settings and corrections that its record states."""

    estimate: Estimate
    start: Start
    pilot: Pilot
    correction: Correction | None

    @property
    def substep_error(self) -> float:
        """Error of ln Z by finite substeps."""
        return 0.0 if self.correction is None else self.correction.log_evidence_err


def sde_evidences(
    hypotheses: Sequence[Hypothesis], batch: Batch, method: Method, seed: int
) -> list[Evidence]:
    """Compute evidences of an SDE under one or several priors.

    Args:
        hypotheses: One model family with different priors.
        batch: One data set.
        method: "auto", "laplace_is" or "smc".
        seed: Random seed.

    Raises:
        DriftbayesError: The method needs an exact likelihood, or a function of the user fails at
            the data.
    """
    data = _displacements(batch)
    runs = [_compute(hypothesis, data, method, seed) for hypothesis in hypotheses]
    return [_record(h, batch, run, method, seed) for h, run in zip(hypotheses, runs, strict=True)]


def sde_variants(
    hypothesis: Hypothesis,
    others: Sequence[Hypothesis],
    batch: Batch,
    method: Method,
    seed: int,
) -> tuple[Evidence, list[LogEvidence]]:
    """Compute the evidence of an SDE, and ln Z under other priors from the same points."""
    run = _compute(hypothesis, _displacements(batch), method, seed)
    record = _record(hypothesis, batch, run, method, seed)
    logs = []
    for other in others:
        estimate = under_another_prior(run.estimate, hypothesis, other, 2 * TOLERANCE)
        error = run.substep_error
        if estimate is None:
            recomputed = _compute(other, _displacements(batch), method, seed)
            estimate, error = recomputed.estimate, recomputed.substep_error
        error = float(np.hypot(estimate.log_evidence_err, error))
        logs.append(LogEvidence(estimate.log_evidence, error))
    return record, logs


def _displacements(batch: Batch) -> Displacements:
    """Return the displacements of a data set; raise an error if only sums are left."""
    data = None if batch.source is None else batch.source[0]
    if not isinstance(data, Displacements):
        msg = "an SDE needs displacements, got sums over displacements; pass displacements"
        raise DriftbayesError(msg)
    return data


def _compute(hypothesis: Hypothesis, data: Displacements, method: Method, seed: int) -> _Run:
    """Estimate the evidence of one hypothesis, and correct it for finite substeps."""
    if not isinstance(method, Auto | Importance | SMC):
        raise DriftbayesError(
            f"method {method.name!r} needs an exact likelihood, but that of {hypothesis.name} is "
            "estimated by a particle filter; use 'auto', 'laplace_is' or 'smc'"
        )
    key = sampler_key(hypothesis, seed, method.name)
    filter_seed = int(np.asarray(jax.random.key_data(key)).reshape(-1)[-1])
    check_functions(hypothesis, data)
    modes = find_modes(Density(hypothesis, KalmanDensity(data, _KALMAN_SUBSTEPS)))
    trial = ParticleDensity(data, Filter(MIN_PARTICLES), 1, filter_seed)
    mode = hypothesis.from_unconstrained(modes.free.z)
    at_mode = {name: float(value) for name, value in hypothesis.values(mode).items()}
    pilot = run_pilot(trial, hypothesis.model, at_mode)
    density = pilot.density
    if isinstance(method, SMC):
        from driftbayes.sde._smc import sde_smc

        estimate = sde_smc(hypothesis, density, key, method)
    else:
        estimate = _importance(hypothesis, density, modes, method, filter_seed)
    correction = None
    if not pilot.is_linear and np.isfinite(estimate.log_evidence):
        correction = find_correction(hypothesis, density, estimate, filter_seed)
        estimate = correction.applied(estimate)
    start = _start(hypothesis, density, modes, estimate, correction)
    return _Run(estimate, start, pilot, correction)


def check_functions(hypothesis: Hypothesis, data: Displacements) -> None:
    """Check the user's functions at fixes of the data, with the prior medians."""
    values = hypothesis.values(hypothesis.quantiles(np.full(len(hypothesis.names), 0.5)))
    sde = hypothesis.model(**values).motion()
    assert isinstance(sde, SDE)
    starts = data.first_steps
    runs = np.linspace(0, len(starts) - 1, min(len(starts), _N_CHECKED)).astype(int)
    if data.start is None or data.start_time is None:
        return
    steps = starts[runs]
    speed = data.dx[steps] / data.interval[steps][:, None]
    check_at(sde.law, sde.theta(), (data.start[runs], speed, data.start_time[runs]))


def _importance(
    hypothesis: Hypothesis, density: ParticleDensity, modes: Modes, method: Method, seed: int
) -> Estimate:
    """Estimate the evidence by importance sampling squared: each point has its own random seed."""
    defaults = {"tolerance": TOLERANCE, "max_evaluations": _MAX_EVALUATIONS}
    calls = iter(range(1 << 30))

    def log_f(z: FloatArray) -> tuple[FloatArray, FloatArray]:
        fresh = replace(density, seed=zlib.crc32(f"{seed} {next(calls)}".encode()))
        points = Density(hypothesis, fresh).at(z)
        return points.integrand, points.log_likelihood

    return quasi_importance(
        log_f,
        components_of(modes),
        seed=seed,
        sample_prior=partial(prior_quantiles, hypothesis),
        log_prior=hypothesis.unconstrained_log_prior,
        **{**defaults, **sampler_options(method)},
    )


def _start(
    hypothesis: Hypothesis,
    density: ParticleDensity,
    modes: Modes,
    estimate: Estimate,
    correction: Correction | None,
) -> Start:
    """Find the mode in natural parameters from the weighted points, and ln L at the mode."""
    z = mode_of(hypothesis, estimate)
    theta = hypothesis.from_unconstrained(z)
    repeated = np.repeat(theta[None], _N_AT_MODE, axis=0)
    at_mode = density.by_run(hypothesis.model, hypothesis.columns(repeated))
    log_l = float(np.sum(logsumexp(at_mode, axis=0) - np.log(len(at_mode))))
    if correction is not None:
        log_l += float(correction.at(z[None])[0])
    components = components_of(modes)
    component = Components(
        components.centers[:1], components.factors[:1], components.log_masses[:1]
    )
    return Start(
        modes=modes,
        components=component,
        theta_map=theta,
        log_likelihood_at_map=log_l,
    )


def _record(hypothesis: Hypothesis, batch: Batch, run: _Run, method: Method, seed: int) -> Evidence:
    """Make the record, with warnings and diagnostics of the filter."""
    rng = np.random.default_rng([seed, zlib.crc32(hypothesis.name.encode())])
    name = method_text(Importance() if isinstance(method, Auto) else method)
    record = record_of(hypothesis, batch, 0, run.start, run.estimate, name, seed, rng)
    status, warnings = record.status, list(record.warnings)
    pilot, density = run.pilot, run.pilot.density
    if run.substep_error > _WARN_ABOVE and run.correction is not None:
        warnings.append(
            f"finite substeps between fixes (at most {run.correction.substeps}) leave ln Z "
            f"uncertain by {run.substep_error:.2g} nats; choose a shorter tau"
        )
        if not run.substep_error <= _FAIL_ABOVE and status is Status.OK:
            status = Status.SAMPLER_NOT_CONVERGED
    n_particles = density.particle_filter.particles * density.repeats
    if not pilot.variance < MAX_VARIANCE:
        warnings.append(
            f"the variance of the estimated ln L is {pilot.variance:.2g} with the largest number "
            f"of particles ({n_particles}); use fewer trajectories or a shorter tau"
        )
        status = Status.SAMPLER_NOT_CONVERGED if status is Status.OK else status
    diagnostics = {
        **record.diagnostics,
        "inner_particles": float(n_particles),
        "inner_variance": pilot.variance,
        "substeps": float(density.substeps),
        "substep_error": run.substep_error,
    }
    if run.correction is not None:
        diagnostics["substeps_finest"] = float(run.correction.substeps)
        diagnostics["substep_remainder"] = run.correction.remainder
    return replace(
        record,
        log_evidence_err=float(np.hypot(record.log_evidence_err, run.substep_error)),
        status=status,
        warnings=tuple(warnings),
        diagnostics=diagnostics,
    )
