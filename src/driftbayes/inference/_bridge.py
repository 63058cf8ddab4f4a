r"""Evidence by bridge sampling between posterior draws and a Gaussian fitted to them."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from driftbayes._typing import FloatArray
from driftbayes.errors import Status
from driftbayes.inference._chains import ChainDraws, autocorrelation_time, sample_chains
from driftbayes.inference._log_sums import logsumexp
from driftbayes.inference._metropolis import Cloud
from driftbayes.inference._samples import Estimate
from driftbayes.inference._target import AbstractTarget

# A third of the draws is used with a Gaussian fitted to another third.
_THIRDS = 3
# Gaussian draws for each posterior draw.
_PROPOSALS = 1
_MAX_ITERATIONS = 1000
_TOLERANCE = 1e-10
# R-hat above which to warn, exceeded by chance by one in a hundred mixed chains of 1000 draws, and
# R-hat above which the result is unusable.
_RHAT_DOUBTFUL, _RHAT_BAD = 1.01, 1.05
_MIN_ESS = 400
# Exceeded by chance once in ten thousand: χ² with two degrees of freedom.
_MAX_DISAGREEMENT = 18.4


def bridge(
    target: AbstractTarget, guide: Cloud | None, rng: np.random.Generator, **sizes: int
) -> Estimate:
    r"""Estimate the evidence from Markov chains by Meng & Wong's (1996) optimal bridge.

    With p(z) = L(z) π(z) and q a normalised density that overlaps with it, Z solves

    $$Z = \frac{\mathrm{E}_q[p / (s_1 p + s_2 Z q)]}{\mathrm{E}_{p/Z}[q / (s_1 p + s_2 Z q)]} ,
      \qquad s_1 = 1 - s_2 = \frac{N_1}{N_1 + N_2} ,$$

    where $N_1$ is the effective number of posterior draws and $N_2$ that of draws from q, a
    Gaussian with the mean μ and covariance of posterior draws. The two overlap little if the
    posterior is skewed; therefore p is made symmetric first, which leaves Z unchanged (warp III of
    Meng & Schilling 2002): $p(z) \to \tfrac12 [p(z) + p(2\mu - z)]$.

    If q were fitted to the same draws that it is compared with, Z would be too small. The draws are
    therefore divided into thirds: the Gaussian fitted to the first is used with the second, that of
    the second with the third, and that of the third with the first. The result is the mean of the
    three. (Two exchanged halves would have nearly the same error: if p is nearly Gaussian, both
    errors are proportional to the product of the errors of the halves.) The error is that of
    Frühwirth-Schnatter (2004),

    $$\mathrm{err}^2 = \frac{1}{N_2} \frac{\mathrm{V}_q[f_1]}{\mathrm{E}_q^2[f_1]}
      + \frac{\tau}{N} \frac{\mathrm{V}_p[f_2]}{\mathrm{E}_p^2[f_2]} ,$$

    with $f_1, f_2$ the fractions above, N posterior draws and τ the autocorrelation time of
    $f_2$ along the chains.

    This assumes that the draws represent the posterior. A mode that no chain has visited is missing
    from the result and from the error; chains around a guide visit one mode. If there may be
    several, use `guide=None` and check R-hat, or use tempering.

    Args:
        target: Prior and likelihood.
        guide: Approximate position of the posterior; None to start from the prior.
        rng: Random number generator.
        **sizes: Sizes of the chains, as for `sample_chains`.
    """
    draws = sample_chains(target, guide, rng, **sizes)
    return _estimate(draws, *_log_ratios(target, draws, rng))


def _log_ratios(
    target: AbstractTarget, draws: ChainDraws, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Compute ln p/q at the draws of each third, (third, chain, draw), and of its Gaussian."""
    n_chains, n_draws, n_dim = draws.z.shape
    size = n_draws // _THIRDS
    # Drop a remainder at the beginning, where draws may still depend on the start.
    parts = draws.z[:, -_THIRDS * size :].reshape(n_chains, _THIRDS, size, n_dim).swapaxes(0, 1)
    values = draws.log_joint[:, -_THIRDS * size :].reshape(n_chains, _THIRDS, size).swapaxes(0, 1)
    at_draws, at_proposals = [], []
    for i in range(_THIRDS):
        fitted = parts[i].reshape(-1, n_dim)
        tested, value = parts[(i + 1) % _THIRDS].reshape(-1, n_dim), values[(i + 1) % _THIRDS]
        mean = fitted.mean(axis=0)
        try:
            factor = np.linalg.cholesky(np.cov(fitted, rowvar=False).reshape(n_dim, n_dim))
        except np.linalg.LinAlgError:
            # No Gaussian can be fitted to chains that never moved.
            return np.full((_THIRDS, n_chains, size), np.nan), np.full((_THIRDS, 1), np.nan)
        log_volume = np.sum(np.log(np.diag(factor))) + 0.5 * n_dim * np.log(2 * np.pi)
        away = tested - mean
        whitened = solve_triangular(factor, away.T, lower=True)
        proposed = rng.normal(size=(_PROPOSALS * len(tested), n_dim))
        steps = proposed @ factor.T
        points = mean + np.concatenate([-away, steps, -steps])
        log_p = np.add(*target.log_densities(points))
        mirrored, ahead, behind = np.split(log_p, [len(tested), len(tested) + len(steps)])
        log_q = [-0.5 * np.sum(w**2, axis=0) - log_volume for w in (whitened, proposed.T)]
        symmetric = np.logaddexp(value.reshape(-1), mirrored) - np.log(2)
        at_draws.append((symmetric - log_q[0]).reshape(value.shape))
        at_proposals.append(np.logaddexp(ahead, behind) - np.log(2) - log_q[1])
    return np.stack(at_draws), np.stack(at_proposals)


@dataclass(frozen=True, eq=False)
class _Crossing:
    """Result of one third of the draws and the Gaussian fitted to another.

    Args:
        log_evidence: ln Z.
        at_draws: f2 over its mean, (chain, draw).
        at_proposals: f1 over its mean.
        overlap: E_p[f2], 1 if the densities are the same and 0 if they do not overlap.
        n_iterations: Iterations taken.
        converged: Whether the iteration converged.
    """

    log_evidence: float
    at_draws: FloatArray
    at_proposals: FloatArray
    overlap: float
    n_iterations: int
    converged: bool


def _cross(at_draws: FloatArray, at_proposals: FloatArray, effective: float) -> _Crossing:
    """Find the evidence by Meng & Wong's iteration.

    Args:
        at_draws: ln p/q at the posterior draws, (chain, draw).
        at_proposals: ln p/q at the draws from q.
        effective: Effective number of posterior draws.
    """
    log_s1 = -np.log1p(at_proposals.size / effective)
    log_s2 = -np.log1p(effective / at_proposals.size)
    log_z, change, n_iterations = float(np.median(at_draws)), np.inf, 0
    while change > _TOLERANCE and n_iterations < _MAX_ITERATIONS:
        # Relative to the current result, so that nothing overflows.
        draws, proposals = at_draws - log_z, at_proposals - log_z
        log_f1 = proposals - np.logaddexp(log_s1 + proposals, log_s2)
        log_f2 = -np.logaddexp(log_s1 + draws, log_s2)
        log_mean1, log_mean2 = (logsumexp(f) - np.log(f.size) for f in (log_f1, log_f2))
        log_z += log_mean1 - log_mean2
        change = abs(log_mean1 - log_mean2)
        n_iterations += 1
    return _Crossing(
        log_evidence=float(log_z),
        at_draws=np.exp(log_f2 - log_mean2),
        at_proposals=np.exp(log_f1 - log_mean1),
        overlap=float(np.exp(log_mean2)),
        n_iterations=n_iterations,
        converged=bool(change <= _TOLERANCE),
    )


def _estimate(chains: ChainDraws, at_draws: FloatArray, at_proposals: FloatArray) -> Estimate:
    """Estimate ln Z and its error from the ratios of all thirds, and check the chains."""
    rhat, ess = float(np.max(chains.rhat)), float(np.min(chains.ess))
    diagnostics = {"rhat": rhat, "ess": ess, "acceptance": chains.acceptance}
    log_evidence = error = float("nan")
    status, problems = Status.OK, [*_chain_problems(rhat, ess)]
    if np.isfinite(at_draws).all() and np.isfinite(at_proposals).any():
        effective = at_draws[0].size * min(1.0, ess / chains.n_draws)
        thirds = [_cross(*ratios, effective) for ratios in zip(at_draws, at_proposals, strict=True)]
        values, variances = np.array([third.log_evidence for third in thirds]), _variances(thirds)
        log_evidence = float(logsumexp(values) - np.log(_THIRDS))
        shares = np.exp(values - logsumexp(values))
        error = float(np.sqrt(np.sum(shares**2 * variances)))
        common = np.average(values, weights=1 / variances)
        diagnostics |= {
            "n_iterations": float(max(third.n_iterations for third in thirds)),
            "overlap": min(third.overlap for third in thirds),
            "disagreement": float(np.sum((values - common) ** 2 / variances)),
        }
        problems += _third_problems(thirds, values, diagnostics["disagreement"])
        status = Status.SAMPLER_NOT_CONVERGED if any(bad for bad, _ in problems) else Status.OK
    else:
        status, problems = Status.NOT_FINITE, [(True, Status.NOT_FINITE.advice)]
    return Estimate(
        log_evidence=log_evidence,
        log_evidence_err=error,
        z=chains.z.reshape(chains.n_draws, -1),
        log_weights=np.zeros(chains.n_draws),
        log_likelihoods=chains.log_likelihood.reshape(-1),
        n_evaluations=chains.n_evaluations + at_draws.size + 2 * at_proposals.size,
        status=status,
        diagnostics=diagnostics,
        warnings=tuple(text for _, text in problems),
    )


def _variances(thirds: list[_Crossing]) -> FloatArray:
    """Compute the squared error of each ln Z, after Frühwirth-Schnatter."""
    # Autocorrelation times need long series: use one for all thirds, each a set of chains.
    time = autocorrelation_time(np.concatenate([third.at_draws for third in thirds]))
    variances = [
        time * third.at_draws.var(ddof=1) / third.at_draws.size
        + third.at_proposals.var(ddof=1) / third.at_proposals.size
        for third in thirds
    ]
    # Only rounding is left if the two densities are the same.
    return np.maximum(variances, np.finfo(float).eps ** 2)


def _chain_problems(rhat: float, ess: float) -> Iterator[tuple[bool, str]]:
    """Yield, for each problem of the chains, whether the result is unusable, and a warning."""
    if not rhat <= _RHAT_DOUBTFUL:
        yield (
            not rhat <= _RHAT_BAD,
            f"the chains disagree: R-hat is {rhat:.3f}, above {_RHAT_DOUBTFUL}; if more draws "
            "(warmup, draws) do not help, there are several modes: use method='smc'",
        )
    elif ess < _MIN_ESS:
        yield (
            False,
            f"the effective sample size is only {ess:.0f}, so that the error is uncertain; "
            "increase draws",
        )


def _third_problems(
    thirds: list[_Crossing], values: FloatArray, disagreement: float
) -> Iterator[tuple[bool, str]]:
    """Yield the same for each problem of the thirds."""
    if not all(third.converged for third in thirds):
        yield (
            True,
            f"the bridge did not converge in {_MAX_ITERATIONS} iterations: the posterior is far "
            "from any Gaussian; use method='smc'",
        )
    if disagreement > _MAX_DISAGREEMENT:
        yield (
            True,
            f"thirds of the draws give ln Z from {values.min():.4f} to {values.max():.4f}, further "
            "apart than their errors allow; increase draws, or use method='smc'",
        )
