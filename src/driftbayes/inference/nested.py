r"""Nested sampling: the evidence as an integral over the prior volume above a likelihood.

$$Z = \int_0^1 L(X)\,\mathrm dX, \qquad
  X(\lambda) = \int_{L(z) > \lambda} \pi(z)\,\mathrm dz$$

Points drawn from the prior are thrown away from the worst on, and replaced by draws from the
prior above the likelihood of those thrown away (Skilling 2006). Of n points the worst leaves a
fraction t of the volume with density $n t^{n-1}$: what is random in Z can be simulated.
"""

__all__ = ["live_counts", "nested", "simulated_log_shares"]

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from scipy.stats import kstest

from driftbayes.errors import DriftbayesError, Status
from driftbayes.inference.log_sums import logsumexp
from driftbayes.inference.samples import Estimate
from driftbayes.inference.target import AbstractTarget
from driftbayes.jax_typing import Key, Scalar
from driftbayes.typing import FloatArray, IntArray

# Points are replaced until the share of the evidence that is still to come is this small; the last
# points then stand for it.
_REST = 0.01
# Simulated sequences of volumes, and how many of them are held at a time.
_N_VOLUMES = 400
_BLOCK = 50
# The least p of 800 runs without fault was 1e-4, less than chance alone would give: new points are
# compared with the same old ones over and over. Low enough, then, to blame no good run.
_WORST_P = 1e-6
# With more copies than this among the new points the error says nothing.
_WORST_STUCK = 0.01


def nested(
    target: AbstractTarget,
    key: Key,
    *,
    n_live: int = 500,
    n_delete: int | None = None,
    n_inner: int | None = None,
    max_evaluations: int = 20_000_000,
) -> Estimate:
    r"""Evidence and weighted posterior draws by nested slice sampling (`blackjax.nss`).

    The error is that of the unknown volumes, close to $\sqrt{H/n}$ with H the information that the
    data gave, and takes each new point for an independent draw. It falls with the square root of
    the number of points: to tell small Bayes factors apart, other methods are better.

    Where many points have the same likelihood, all of them die before any is replaced (Fowlie,
    Handley and Su 2021); where all have the same, nothing is left to compress, and they stand for
    the rest of the volume.

    Diagnostics: "information" H in nats; "ess", how many equal draws the weighted ones are worth;
    "insertion_p", by which new points are told from draws above the threshold (a Kolmogorov-Smirnov
    test of their ranks among the others); "stuck", the share of new points that never moved;
    "rest", the share of the evidence carried by the last points; "n_points".

    Args:
        target: What is sampled.
        key: Of the random numbers; the same key gives the same result.
        n_live: Number of points n.
        n_delete: Points replaced at a time; None for a tenth of them.
        n_inner: Moves of the slice sampler from one of the points that stay to a new one; None
            for two per dimension, and at least ten.
        max_evaluations: Stop early, and say so, after so many evaluations of the likelihood.
    """
    try:
        import blackjax  # noqa: F401
    except ImportError as error:
        msg = "nested sampling needs blackjax: pip install 'driftbayes[nested]'"
        raise DriftbayesError(msg) from error
    n_delete = max(n_live // 10, 1) if n_delete is None else n_delete
    n_inner = max(10, 2 * target.n_dim) if n_inner is None else n_inner
    _check(target.n_dim, n_live, n_delete, n_inner)
    key_start, key_steps = jax.random.split(key)
    dead: list[_Batch] = []
    n_evaluations = n_live
    # Blackjax mixes types and ranks, which the caller may have forbidden.
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        z = _prior_draws(target, jax.random.split(key_start, n_live))
        state = _start(target, z, n_delete, n_inner)
        while not (finished := _is_finished(state, n_delete)) and n_evaluations < max_evaluations:
            step_key = jax.random.fold_in(key_steps, len(dead))
            state, batch = _step(target, step_key, state, n_delete, n_inner)
            dead.append(jax.tree.map(np.asarray, batch))
            n_evaluations += int(dead[-1].n_evaluations)
    run = _Run(
        points=jax.tree.map(
            lambda *leaves: np.concatenate(leaves),
            *(batch.points for batch in dead),
            _points(state.particles),
        ),
        ranks=np.concatenate([np.zeros(0), *(batch.ranks for batch in dead)]),
        n_live=n_live,
        n_evaluations=n_evaluations,
        stuck=sum(int(batch.n_stuck) for batch in dead) / max(len(dead) * n_delete, 1),
        finished=finished,
    )
    return _estimate(run, np.random.default_rng(np.asarray(jax.random.key_data(key)).ravel()))


class _Points(eqx.Module):
    """Points with their log-likelihoods, and that above which each was drawn, NaN for none."""

    z: Float[Any, "point parameter"]
    fits: Float[Any, " point"]
    births: Float[Any, " point"]


class _Batch(eqx.Module):
    """What one step leaves behind: the dead, and how the new ones were made."""

    points: _Points
    ranks: Float[Any, " point"]
    n_stuck: Int[Any, ""]
    n_evaluations: Int[Any, ""]


class _Run(eqx.Module):
    """All points, the last ones at the end, and how they came about."""

    points: _Points
    ranks: FloatArray
    n_live: int
    n_evaluations: int
    stuck: float
    finished: bool


def _check(n_dim: int, n_live: int, n_delete: int, n_inner: int) -> None:
    if n_live < max(20, 2 * n_dim):
        msg = f"n_live must be at least 20 and twice the number of parameters, got {n_live}"
        raise DriftbayesError(msg)
    if not 1 <= n_delete <= n_live // 2:
        msg = f"n_delete must be between 1 and half of n_live = {n_live}, got {n_delete}"
        raise DriftbayesError(msg)
    if n_inner < 1:
        raise DriftbayesError(f"n_inner must be 1 or more, got {n_inner}")


def _algorithm(target: AbstractTarget, n_delete: int, n_inner: int) -> Any:
    import blackjax

    return blackjax.nss(
        logprior_fn=target.log_prior,
        loglikelihood_fn=target.log_likelihood,
        num_inner_steps=n_inner,
        num_delete=n_delete,
    )


# The target is an argument here and below: one program serves all targets of one shape.
@eqx.filter_jit
def _start(
    target: AbstractTarget, z: Float[Array, "point parameter"], n_delete: int, n_inner: int
) -> Any:
    return _algorithm(target, n_delete, n_inner).init(z)


def _prior_draws(target: AbstractTarget, keys: Array) -> Float[Array, "point parameter"]:
    try:
        return _compiled_prior_draws(target, keys)
    except jax.errors.TracerArrayConversionError:
        # A prior that draws with SciPy cannot be compiled.
        return jnp.stack([target.sample_prior(key) for key in keys])


@eqx.filter_jit
def _compiled_prior_draws(target: AbstractTarget, keys: Array) -> Float[Array, "point parameter"]:
    return jax.vmap(target.sample_prior)(keys)


@eqx.filter_jit
def _step(
    target: AbstractTarget, key: Key, state: Any, n_delete: int, n_inner: int
) -> tuple[Any, _Batch]:
    key_step, key_ranks = jax.random.split(key)
    new, info = _algorithm(target, n_delete, n_inner).step(key_step, state)
    _, gone = jax.lax.top_k(-state.particles.loglikelihood, n_delete)
    fresh, threshold = new.particles.loglikelihood[gone], info.particles.loglikelihood.max()
    moves = info.update_info
    return new, _Batch(
        points=_points(info.particles),
        ranks=_ranks(key_ranks, fresh, state.particles.loglikelihood, threshold),
        n_stuck=jnp.sum(~jnp.any(moves.is_accepted, axis=1)),
        # Both ends of the first bracket, each step outwards, each step inwards.
        n_evaluations=jnp.sum(2 + moves.num_expansions + moves.num_shrink),
    )


def _ranks(
    key: Key, fresh: Float[Array, " fresh"], before: Float[Array, " live"], threshold: Scalar
) -> Float[Array, " fresh"]:
    """Place of new points among the old ones above the threshold, between 0 and 1.

    Anywhere within its rung of the ladder, or within all the rungs that a plateau takes.
    """
    above = before > threshold
    below = jnp.sum((before[None, :] < fresh[:, None]) & above[None, :], axis=1)
    level = jnp.sum((before[None, :] == fresh[:, None]) & above[None, :], axis=1)
    within = (level + 1) * jax.random.uniform(key, fresh.shape)
    return (below + within) / (jnp.sum(above) + 1)


def _points(particles: Any) -> _Points:
    return _Points(particles.position, particles.loglikelihood, particles.loglikelihood_birth)


def _is_finished(state: Any, n_delete: int) -> bool:
    """Whether nearly all of the evidence is counted, or no point is better than the next to go."""
    fits = np.asarray(state.particles.loglikelihood)
    if np.partition(fits, n_delete - 1)[n_delete - 1] >= fits.max():
        return True
    to_come, so_far = float(state.integrator.logZ_live), float(state.integrator.logZ)
    return bool(to_come - np.logaddexp(to_come, so_far) < np.log(_REST))


def live_counts(births: FloatArray, deaths: FloatArray) -> IntArray:
    """How many points were alive just before each death, itself included.

    Those born at the likelihood at which others die come after all of these, so that a plateau is
    counted out before it is refilled.

    Args:
        births: Likelihood above which each point was drawn, NaN if from the whole prior.
        deaths: Likelihood of each point, in rising order.
    """
    late = np.sort(births[~np.isnan(births)])
    n_first = len(births) - len(late)
    return n_first + np.searchsorted(late, deaths, side="left") - np.arange(len(deaths))


def simulated_log_shares(counts: IntArray, n: int, rng: np.random.Generator) -> FloatArray:
    r"""Ln of the volume that each point stands for, (point, simulation), by the trapezoid rule.

    $$\ln X_i = \sum_{j \le i} \frac{\ln u_j}{n_j}, \quad u_j \sim U(0, 1), \qquad
      w_i = \tfrac12 (X_{i-1} - X_{i+1})$$

    The first and the last point take what lies beyond them, so that the volumes sum to one.

    Args:
        counts: Points alive before each death.
        n: Number of simulations.
        rng: Of the simulations.
    """
    log_x = np.cumsum(-rng.standard_exponential((len(counts), n)) / counts[:, None], axis=0)
    middles = np.logaddexp(log_x[:-1], log_x[1:]) - np.log(2)
    outer = np.concatenate([np.zeros((1, n)), middles])
    inner = np.concatenate([middles, np.full((1, n), -np.inf)])
    return outer + np.log(-np.expm1(inner - outer))


def _estimate(run: _Run, rng: np.random.Generator) -> Estimate:
    order = np.argsort(run.points.fits, kind="stable")
    z, fits = run.points.z[order], run.points.fits[order]
    if not np.isfinite(fits[-1]):
        return Estimate(
            log_evidence=float("-inf"),
            log_evidence_err=float("nan"),
            z=z,
            log_weights=np.full(len(z), -np.inf),
            log_likelihoods=fits,
            n_evaluations=run.n_evaluations,
            status=Status.NOT_FINITE,
            warnings=(f"not one of {run.n_live} draws from the prior has a likelihood",),
        )
    counts = live_counts(run.points.births, fits)
    log_z, weights = np.zeros((0,)), np.zeros(len(fits))
    for _ in range(_N_VOLUMES // _BLOCK):
        log_terms = simulated_log_shares(counts, _BLOCK, rng) + fits[:, None]
        totals = logsumexp(log_terms, axis=0)
        weights += np.exp(log_terms - totals).sum(axis=1) / _N_VOLUMES
        log_z = np.append(log_z, totals)
    last = order >= len(order) - run.n_live
    counted = weights > 0
    diagnostics = {
        "information": float(weights[counted] @ (fits[counted] - log_z.mean())),
        "ess": float(1 / np.sum(weights**2)),
        "insertion_p": float(kstest(run.ranks, "uniform").pvalue) if len(run.ranks) else 1.0,
        "stuck": run.stuck,
        "rest": float(weights[last].sum()),
        "n_points": float(len(z)),
    }
    warnings = _doubts(run, diagnostics)
    with np.errstate(divide="ignore"):
        log_weights = np.log(weights)
    return Estimate(
        log_evidence=float(log_z.mean()),
        log_evidence_err=float(log_z.std(ddof=1)),
        z=z,
        log_weights=log_weights,
        log_likelihoods=fits,
        n_evaluations=run.n_evaluations,
        status=Status.SAMPLER_NOT_CONVERGED if warnings else Status.OK,
        diagnostics=diagnostics,
        warnings=warnings,
    )


def _doubts(run: _Run, diagnostics: dict[str, float]) -> tuple[str, ...]:
    doubts = []
    if not run.finished:
        doubts.append(
            f"stopped after {run.n_evaluations} evaluations, when {diagnostics['rest']:.0%} of the "
            "evidence rested on the last points; raise max_evaluations"
        )
    if diagnostics["stuck"] > _WORST_STUCK:
        doubts.append(
            f"{diagnostics['stuck']:.0%} of the new points are copies of others: the slice sampler "
            "finds nowhere to go; use another method"
        )
    if diagnostics["insertion_p"] < _WORST_P:
        doubts.append(
            "new points are not spread as draws from the prior above the threshold would be "
            f"(p = {diagnostics['insertion_p']:.1g}); raise n_inner or n_live"
        )
    return tuple(doubts)
