"""Tempered sequential Monte Carlo: needs no mode to start from, and finds several if there are."""

from dataclasses import replace

import numpy as np

from driftbayes._typing import FloatArray
from driftbayes.errors import Status
from driftbayes.inference._log_sums import logsumexp
from driftbayes.inference._samples import Estimate
from driftbayes.inference._target import AbstractTarget
from driftbayes.inference._tempering import Run, Size, temper

# Beyond these limits the chains, or the islands, are too few or too slow.
_MIN_ACCEPTANCE = 0.02
_MAX_MEMORY = 0.8
_MAX_SPREAD = 1.0
_MIN_ALIVE = 10
# Accepted difference, in nats, of two estimates of the evidence beyond three errors.
_TOLERANCE = 0.1


def smc(target: AbstractTarget, rng: np.random.Generator, **size: int) -> Estimate:
    r"""Estimate the evidence and its error from several islands.

    $$\hat Z = \frac1I \sum_i Z_i, \qquad
      \sigma_{\ln \hat Z}
      = \frac{\operatorname{sd}(Z_i)}{\sqrt{I}\, \hat Z} \sqrt{\frac{I-1}{I-3}}$$

    Each $Z_i$ is unbiased but for the adaptation, so that they are averaged, not their logarithms;
    a bias of $-\sigma^2/2$ of $\ln \hat Z$ remains. The last factor accounts for a standard
    deviation known from few islands: $(\ln \hat Z - \ln Z)/\sigma$ has variance one.

    Islands share their temperatures and proposals, and err together where there are many steps, as
    when the posterior lies far in the prior's tail: ln Z was measured to be low by one over the
    number of all chains at each temperature, for 3 to 51 temperatures. As much is added to the
    error in quadrature, and the difference from the thermodynamic integral along the same path
    beyond two errors. Beyond 0.1 nats and three errors the status says not to use the result.

    Args:
        target: Prior and likelihood.
        rng: Random numbers. Errors of two targets are independent only if theirs are.
        **size: Numbers of particles, islands and moves, as for `Size`.
    """
    return _estimate(temper(target, rng, Size(**size)))


def smc_twice(target: AbstractTarget, rng: np.random.Generator, **size: int) -> Estimate:
    """Estimate the evidence by a second run that follows the schedule of the first.

    The evidence has no bias from adaptation, which matters where chains are few because a
    likelihood takes long. The arguments are those of `smc`.
    """
    first = temper(target, rng, Size(**size))
    if first.beta < 1:
        return _estimate(first)
    estimate = _estimate(temper(target, rng, Size(**size), first.schedule))
    return replace(estimate, n_evaluations=estimate.n_evaluations + first.n_evaluations)


def _estimate(run: Run) -> Estimate:
    """Average the islands, and check the run."""
    log_z = run.log_evidence
    log_evidence, error = _average(log_z)
    thermodynamic, _ = _average(run.thermodynamic)
    off = abs(thermodynamic - log_evidence)
    is_off = off > _TOLERANCE + 3 * error
    # If the estimates differ by more than twice the scatter of islands, all islands have the same
    # error: both take the same path from prior to posterior, and the thermodynamic one has no
    # weights.
    beyond = max(0.0, off - 2 * error) if np.isfinite(off) else 0.0
    # The last step goes to the end, and is not adapted.
    adaptation = (run.n_temperatures - 1) / run.n_adapted if run.n_adapted else 0.0
    bias = float(np.hypot(adaptation, beyond))
    error = float(np.hypot(error, bias))
    diagnostics = {
        "bias": bias,
        "thermodynamic_log_evidence": thermodynamic,
        "island_sd": float(np.std(log_z, ddof=1)) if np.isfinite(log_z).all() else float("inf"),
        "n_temperatures": float(run.n_temperatures),
        "acceptance": run.acceptance,
        "memory": run.memory,
        "live_draws": run.n_alive / len(log_z),
    }
    status, warnings = Status.OK, _warnings(diagnostics, off, is_off=is_off)
    if not np.isfinite(log_evidence):
        status, warnings = Status.NOT_FINITE, (Status.NOT_FINITE.advice,)
    elif run.beta < 1:
        # The sum so far is the evidence of a likelihood to a lower power.
        log_evidence = error = float("nan")
        status = Status.SAMPLER_NOT_CONVERGED
        warnings = (
            f"after {run.n_temperatures} temperatures the likelihood counts only to the power "
            f"{run.beta:.2g}; use a narrower prior, or check its unit",
        )
    elif run.acceptance < _MIN_ACCEPTANCE or diagnostics["island_sd"] > _MAX_SPREAD or is_off:
        status = Status.SAMPLER_NOT_CONVERGED
    return Estimate(
        log_evidence=log_evidence,
        log_evidence_err=error,
        z=run.z.reshape(-1, run.z.shape[-1]),
        # Within an island all count the same; an island counts by its evidence.
        log_weights=np.repeat(log_z, run.z.shape[1]),
        log_likelihoods=run.log_likelihoods.ravel(),
        n_evaluations=run.n_evaluations,
        status=status,
        diagnostics=diagnostics,
        warnings=warnings,
    )


def _average(log_z: FloatArray) -> tuple[float, float]:
    """Return ln of the mean of Z and its error; NaN if Z is zero in all islands."""
    if not np.isfinite(log_z).any():
        return float("nan"), float("nan")
    n = len(log_z)
    log_mean = float(logsumexp(log_z) - np.log(n))
    scatter = np.std(np.exp(log_z - log_mean), ddof=1)
    return log_mean, float(scatter / np.sqrt(n) * np.sqrt((n - 1) / (n - 3)))


def _warnings(found: dict[str, float], off: float, *, is_off: bool) -> tuple[str, ...]:
    """Return warnings about a run."""
    problems = {
        f"of the draws from the prior only {found['live_draws']:.2g} in each island have a "
        "likelihood above zero; use a narrower prior, or more particles": (
            found["live_draws"] < _MIN_ALIVE
        ),
        f"at some temperature only {found['acceptance']:.1%} of the moves were accepted; use "
        "method='bridge', or a narrower prior": found["acceptance"] < _MIN_ACCEPTANCE,
        f"after the moves at some temperature a coordinate is still correlated by "
        f"{found['memory']:.2f} with what it was before; use more moves": (
            found["memory"] > _MAX_MEMORY
        ),
        f"ln Z of single islands scatters by {found['island_sd']:.2g} nats, so that a few of them "
        "decide; use more particles": found["island_sd"] > _MAX_SPREAD,
        f"the thermodynamic integral differs from ln Z by {off:.2g} nats; use more particles and "
        "moves, or method='auto'": is_off,
    }
    return tuple(text for text, is_so in problems.items() if is_so)
