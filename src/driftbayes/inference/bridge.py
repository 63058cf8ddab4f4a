r"""Evidence by bridge sampling: posterior draws on one bank, a fitted Gaussian on the other."""

__all__ = ["bridge", "bridge_batch"]

from collections.abc import Iterator
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from driftbayes.errors import Status
from driftbayes.inference.log_sums import logsumexp
from driftbayes.inference.nuts import Chains, autocorrelation_time, in_chunks, nuts_batch
from driftbayes.inference.samples import Estimate
from driftbayes.inference.symmetric import cholesky
from driftbayes.inference.target import AbstractTarget, Guide
from driftbayes.jax_typing import Key, Scalar
from driftbayes.typing import FloatArray

# A draw meets a Gaussian fitted to another third of the draws.
_THIRDS = 3
# Gaussian draws for each posterior draw: they cost a fraction of it.
_PROPOSALS = 2
# Likelihoods evaluated at once.
_BLOCK = 512
_MAX_ITERATIONS = 1000
_TOLERANCE = 1e-10
# Beyond the first a warning is due: chains of 1000 draws that have mixed exceed it by chance once
# in a hundred. Beyond the second the answer is not to be used.
_RHAT_DOUBTFUL, _RHAT_BAD = 1.01, 1.05
_MIN_ESS_PER_CHAIN = 100
_MAX_DIVERGENT = 0.01
# Exceeded by chance once in ten thousand: χ² of two degrees of freedom.
_MAX_DISAGREEMENT = 18.4


def bridge(target: AbstractTarget, guide: Guide | None, key: Key, **sizes: int) -> Estimate:
    r"""Evidence from draws of the no-U-turn sampler and Meng & Wong's (1996) optimal bridge.

    With p(z) = L(z) π(z) and q a normalised density that overlaps with it, Z solves

    $$Z = \frac{\mathrm{E}_q[p / (s_1 p + s_2 Z q)]}{\mathrm{E}_{p/Z}[q / (s_1 p + s_2 Z q)]} ,
      \qquad s_1 = 1 - s_2 = \frac{N_1}{N_1 + N_2} ,$$

    where $N_1$ is the effective number of posterior draws and $N_2$ that of draws from q, a
    Gaussian with the mean μ and covariance of posterior draws. Where the posterior is skewed they
    would overlap little; therefore p is made symmetric first, which leaves Z as it is (warp III of
    Meng & Schilling 2002): $p(z) \to \tfrac12 [p(z) + p(2\mu - z)]$.

    q must not be fitted to the draws that it meets, or Z comes out too small. The draws are cut
    into thirds; a Gaussian fitted to the first meets the second, one fitted to the second the
    third, and one fitted to the third the first. The answer is the mean of the three. (With
    halves that change places, the two answers err together: if p is nearly Gaussian their errors
    are both proportional to the product of the halves' own, and the mean is no better than
    either.) The error is that of Frühwirth-Schnatter (2004),

    $$\mathrm{err}^2 = \frac{1}{N_2} \frac{\mathrm{V}_q[f_1]}{\mathrm{E}_q^2[f_1]}
      + \frac{\tau}{N} \frac{\mathrm{V}_p[f_2]}{\mathrm{E}_p^2[f_2]} ,$$

    with $f_1, f_2$ the fractions above, N posterior draws and τ the autocorrelation time of
    $f_2$ along the chains.

    It is the error of draws that represent the posterior. A mode that no chain has seen is not in
    the answer nor in the error: about a guide, chains see one mode. If there may be several, give
    `guide=None` and heed R-hat, or use tempering.

    Args:
        target: Prior and likelihood.
        guide: Where the posterior roughly is; None to start from the prior.
        key: Source of randomness.
        **sizes: Of the chains, as for `nuts_batch`.
    """
    targets, guides = jax.tree.map(lambda leaf: np.asarray(leaf)[None], (target, guide))
    return bridge_batch(targets, guides, key, **sizes)[0]


def bridge_batch(
    targets: AbstractTarget, guides: Guide | None, key: Key, **sizes: int
) -> list[Estimate]:
    """The same for several targets of one shape, stacked along the first axis of every leaf.

    Args:
        targets: Priors and likelihoods.
        guides: Where the posteriors roughly are, or None.
        key: Source of randomness.
        **sizes: Of the chains, as for `nuts_batch`.
    """
    key_chains, key_bridge = jax.random.split(key)
    many = nuts_batch(targets, guides, key_chains, **sizes)
    at_draws, at_proposals = in_chunks(
        _over_targets,
        targets,
        np.stack([chains.z for chains in many]),
        np.stack([chains.log_joint for chains in many]),
        jax.random.split(key_bridge, len(many)),
    )
    return [
        _estimate(chains, *ratios)
        for chains, *ratios in zip(many, at_draws, at_proposals, strict=True)
    ]


# --- The two densities at the draws of both ----------------------------------------------------


@eqx.filter_jit
def _over_targets(
    targets: AbstractTarget, z: Array, log_joint: Array, keys: Array
) -> tuple[Array, Array]:
    # One after the other, since a block of points already fills the vector units.
    return jax.lax.map(lambda one: _log_ratios(*one), (targets, z, log_joint, keys))


def _log_ratios(
    target: AbstractTarget,
    z: Float[Array, "chain draw parameter"],
    log_joint: Float[Array, "chain draw"],
    key: Key,
) -> tuple[Float[Array, "third chain part"], Float[Array, "third proposal"]]:
    """Ln p/q at the draws of each third and at those of the Gaussian that it meets."""
    n_chains, n_draws, n_dim = z.shape
    size = n_draws // _THIRDS
    # What is left over is taken from the beginning, where the starts may yet be felt.
    parts = z[:, -_THIRDS * size :].reshape(n_chains, _THIRDS, size, n_dim).swapaxes(0, 1)
    values = log_joint[:, -_THIRDS * size :].reshape(n_chains, _THIRDS, size).swapaxes(0, 1)

    def meet(third: tuple[Array, Array, Array, Key]) -> tuple[Array, Array]:
        fitted, draws, value, key = third
        fitted, draws = fitted.reshape(-1, n_dim), draws.reshape(-1, n_dim)
        mean = jnp.mean(fitted, axis=0)
        factor = cholesky(jnp.cov(fitted, rowvar=False).reshape(n_dim, n_dim))
        log_volume = jnp.sum(jnp.log(jnp.diag(factor))) + 0.5 * n_dim * np.log(2 * np.pi)

        def log_q(w: Float[Array, " parameter"]) -> Scalar:
            return -0.5 * jnp.sum(w**2) - log_volume

        step = draws - mean[None, :]
        w = jnp.linalg.solve(factor, step.T).T
        proposed = jax.random.normal(key, (_PROPOSALS * len(draws), n_dim))
        steps = jnp.concatenate([-step, proposed @ factor.T, -proposed @ factor.T])
        values = _log_joints(target, mean[None, :] + steps)
        mirrored, ahead, behind = jnp.split(values, [len(w), len(w) + len(proposed)])
        at_draws = jnp.logaddexp(value.reshape(-1), mirrored) - np.log(2) - jax.vmap(log_q)(w)
        at_proposals = jnp.logaddexp(ahead, behind) - np.log(2) - jax.vmap(log_q)(proposed)
        return at_draws.reshape(value.shape), at_proposals

    others = [jnp.roll(x, -1, axis=0) for x in (parts, values)]
    return jax.lax.map(meet, (parts, *others, jax.random.split(key, _THIRDS)))


def _log_joints(
    target: AbstractTarget, z: Float[Array, "point parameter"]
) -> Float[Array, " point"]:
    """Ln p at many points, block by block: all at once they would not fit in the cache."""
    n_blocks = -(-len(z) // _BLOCK)
    size = -(-len(z) // n_blocks)
    padded = jnp.pad(z, ((0, n_blocks * size - len(z)), (0, 0)), mode="edge")
    blocks = padded.reshape(n_blocks, size, -1)
    values = jax.lax.map(jax.vmap(target.log_joint), blocks).reshape(-1)[: len(z)]
    return jnp.where(jnp.isnan(values), -jnp.inf, values)


# --- The evidence that makes them meet ---------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Crossing:
    """What one third of the draws and the Gaussian fitted to another say together.

    Args:
        log_evidence: ln Z.
        at_draws: f2 over its mean, (chain, draw).
        at_proposals: f1 over its mean.
        overlap: E_p[f2], 1 if the densities are the same and 0 if they do not overlap.
        n_iterations: Iterations taken.
        converged: Whether they were enough.
    """

    log_evidence: float
    at_draws: FloatArray
    at_proposals: FloatArray
    overlap: float
    n_iterations: int
    converged: bool


def _cross(at_draws: FloatArray, at_proposals: FloatArray, effective: float) -> _Crossing:
    """Meng & Wong's iteration.

    Args:
        at_draws: ln p/q at the posterior draws, (chain, draw).
        at_proposals: ln p/q at the draws from q.
        effective: Effective number of posterior draws.
    """
    log_s1 = -np.log1p(at_proposals.size / effective)
    log_s2 = -np.log1p(effective / at_proposals.size)
    log_z, change, n_iterations = float(np.median(at_draws)), np.inf, 0
    while change > _TOLERANCE and n_iterations < _MAX_ITERATIONS:
        # With the answer taken out, numbers of any size remain numbers.
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


def _estimate(chains: Chains, at_draws: FloatArray, at_proposals: FloatArray) -> Estimate:
    rhat, ess = float(np.max(chains.rhat)), float(np.min(chains.ess))
    diagnostics = {
        "rhat": rhat,
        "ess": ess,
        "divergences": float(chains.n_divergences),
        "n_gradients": float(chains.n_gradients),
    }
    log_evidence = error = float("nan")
    status, doubts = Status.OK, [*_doubts_of_chains(chains, rhat, ess)]
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
        doubts += _doubts_of_thirds(thirds, values, diagnostics["disagreement"])
        status = Status.SAMPLER_NOT_CONVERGED if any(bad for bad, _ in doubts) else Status.OK
    else:
        status, doubts = Status.NOT_FINITE, [(True, Status.NOT_FINITE.advice)]
    return Estimate(
        log_evidence=log_evidence,
        log_evidence_err=error,
        z=chains.z.reshape(chains.n_draws, -1),
        log_weights=np.zeros(chains.n_draws),
        log_likelihoods=chains.log_likelihood.reshape(-1),
        n_evaluations=chains.n_gradients + at_draws.size + 2 * at_proposals.size,
        status=status,
        diagnostics=diagnostics,
        warnings=tuple(words for _, words in doubts),
    )


def _variances(thirds: list[_Crossing]) -> FloatArray:
    """Squared error of each ln Z, after Frühwirth-Schnatter."""
    # Times of correlation need long series: one time for all thirds, each a set of chains.
    time = autocorrelation_time(np.concatenate([third.at_draws for third in thirds]))
    variances = [
        time * third.at_draws.var(ddof=1) / third.at_draws.size
        + third.at_proposals.var(ddof=1) / third.at_proposals.size
        for third in thirds
    ]
    # Rounding remains where the two densities are the same.
    return np.maximum(variances, np.finfo(float).eps ** 2)


def _doubts_of_chains(chains: Chains, rhat: float, ess: float) -> Iterator[tuple[bool, str]]:
    """Whether it makes the answer useless, and what it is, for each doubt."""
    if not rhat <= _RHAT_DOUBTFUL:
        yield (
            not rhat <= _RHAT_BAD,
            f"the chains disagree: R-hat is {rhat:.3f}, above {_RHAT_DOUBTFUL}; if more draws "
            "(n_warmup, n_draws) do not help, there are several modes: use method='smc'",
        )
    elif ess < _MIN_ESS_PER_CHAIN * len(chains.z):
        yield (
            False,
            f"the chains are worth only {ess:.0f} independent draws, so that the error is "
            "uncertain; increase n_draws",
        )
    if chains.n_divergences > _MAX_DIVERGENT * chains.n_draws:
        yield (
            False,
            f"{chains.n_divergences} of {chains.n_draws} trajectories diverged: the posterior may "
            "have a narrow part that was not reached; increase n_warmup, or use method='smc'",
        )


def _doubts_of_thirds(
    thirds: list[_Crossing], values: FloatArray, disagreement: float
) -> Iterator[tuple[bool, str]]:
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
            "apart than their errors allow; increase n_draws, or use method='smc'",
        )
