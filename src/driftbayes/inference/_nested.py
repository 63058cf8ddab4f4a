r"""Nested sampling: the evidence as an integral over the prior volume above a likelihood.

$$Z = \int_0^1 L(X)\,\mathrm dX, \qquad
  X(\lambda) = \int_{L(z) > \lambda} \pi(z)\,\mathrm dz$$

Live points drawn from the prior are deleted, the lowest likelihoods first, and replaced by draws
from the prior above the likelihood of those deleted (Skilling 2006). The lowest of n points leaves
a fraction t of the volume with density $n t^{n-1}$, so that the uncertainty of Z can be simulated.
"""

from dataclasses import dataclass, field

import numpy as np
from scipy.special import kolmogorov

from driftbayes._typing import FloatArray, IntArray
from driftbayes.errors import DriftbayesError, Status
from driftbayes.inference._log_sums import logsumexp
from driftbayes.inference._samples import Estimate
from driftbayes.inference._slices import move_in_slices
from driftbayes.inference._target import AbstractTarget, Points

# Points are replaced until the live points represent this share of the evidence.
_REST = 0.01
# Number of simulated sequences of volumes, and of those held at a time.
_N_VOLUMES = 400
_BLOCK = 50
# Smallest p-value of the ranks without a warning; a good run practically never has a smaller one.
_MIN_P = 1e-6
# Largest share of copies among the new points for which the error is meaningful.
_MAX_STUCK = 0.01


def nested(
    target: AbstractTarget,
    rng: np.random.Generator,
    *,
    n_live: int = 500,
    n_delete: int | None = None,
    n_inner: int | None = None,
    max_evaluations: int = 20_000_000,
) -> Estimate:
    r"""Estimate the evidence by nested slice sampling, with weighted posterior draws.

    The lowest points are deleted several at a time. Each is replaced by a chain of slice moves from
    a random point above them, along directions from the covariance of the live points (Handley,
    Hobson and Lasenby 2015); all chains move together.

    The error is that of the unknown volumes, close to $\sqrt{H/n}$ with H the information gain; it
    assumes that new points are independent draws. It falls with the square root of the number of
    points, so that other methods are better for small Bayes factors.

    If many points have the same likelihood, all of them are deleted before any is replaced (Fowlie,
    Handley and Su 2021). If all have the same, the run ends, and they represent the rest of the
    volume.

    Diagnostics: "information" H in nats; "ess", the effective sample size; "insertion_p", the
    p-value of a Kolmogorov-Smirnov test of the ranks of new points among the others; "stuck", the
    share of new points that never moved; "rest", the share of the evidence at the last points;
    "n_points".

    Args:
        target: Prior and likelihood.
        rng: Random number generator; the same state gives the same result.
        n_live: Number of points n.
        n_delete: Points replaced at a time; None for a quarter of them.
        n_inner: Slice moves of each chain; None for two per dimension, and at least ten.
        max_evaluations: Number of likelihood evaluations after which to stop early, with a warning.
    """
    n_delete = max(n_live // 4, 1) if n_delete is None else n_delete
    n_inner = max(10, 2 * target.n_dim) if n_inner is None else n_inner
    _check(target.n_dim, n_live, n_delete, n_inner)
    state = _State.start(target, rng, n_live)
    while not (finished := state.is_finished(n_delete)) and state.n_evaluations < max_evaluations:
        state.replace_lowest(target, rng, n_delete, n_inner)
    return _estimate(state, rng, finished=finished)


@dataclass(eq=False)
class _State:
    """Live points, deleted points and counts.

    Args:
        live: Live points.
        births: ln L above which each was drawn, NaN if from the whole prior.
        n_evaluations: Evaluations of the likelihood.
        dead: Deleted points, their ln L and births, of each step.
        ranks: Ranks of the new points, of each step.
        n_ranks: Effective number of independent ranks.
        n_stuck: New points that never moved.
        log_volume: Expected ln X at the last deleted point.
        log_evidence: ln Z of the deleted points, at expected volumes.
    """

    live: Points
    births: FloatArray
    n_evaluations: int
    dead: list[tuple[FloatArray, FloatArray, FloatArray]] = field(default_factory=list)
    ranks: list[FloatArray] = field(default_factory=list)
    n_ranks: float = 0.0
    n_stuck: int = 0
    log_volume: float = 0.0
    log_evidence: float = -np.inf

    @classmethod
    def start(cls, target: AbstractTarget, rng: np.random.Generator, n_live: int) -> "_State":
        """Draw the first points from the prior."""
        live = Points.at(target, target.sample_prior(rng, n_live)).copy()
        return cls(live, np.full(n_live, np.nan), n_live)

    def replace_lowest(
        self, target: AbstractTarget, rng: np.random.Generator, n_delete: int, n_inner: int
    ) -> None:
        """Delete the lowest points, and move chains from others to replace them."""
        fits = self.live.log_likelihood
        lowest = np.argsort(fits, kind="stable")[:n_delete]
        threshold = fits[lowest[-1]]
        above = np.flatnonzero(fits > threshold)
        starts = rng.choice(above, n_delete, replace=len(above) < n_delete)
        factor = _covariance_factor(self.live.z)
        start = self.live.take(starts)
        new, n_evaluations = move_in_slices(target, start, threshold, factor, n_inner, rng)
        self.ranks.append(_ranks(new.log_likelihood, fits[above], rng))
        # The other points are a sample too, which adds to the error of the ranks.
        self.n_ranks += 1 / (1 / n_delete + 1 / len(above))
        self.n_stuck += int(np.sum(np.all(new.z == start.z, axis=1)))
        self.n_evaluations += n_evaluations
        self._count(fits[lowest])
        self.dead.append((self.live.z[lowest], fits[lowest], self.births[lowest]))
        self.live.put(lowest, new)
        self.births[lowest] = threshold

    def _count(self, deaths: FloatArray) -> None:
        """Add deleted points, in ascending order of ln L, to the evidence."""
        log_x = self.log_volume - np.cumsum(1 / live_counts(self.births, deaths))
        outer = np.concatenate([[self.log_volume], log_x[:-1]])
        log_terms = deaths + outer + np.log(-np.expm1(log_x - outer))
        self.log_evidence = np.logaddexp(self.log_evidence, logsumexp(log_terms))
        self.log_volume = log_x[-1]

    def is_finished(self, n_delete: int) -> bool:
        """Tell whether nearly all of the evidence is counted, or no point exceeds the lowest."""
        fits = self.live.log_likelihood
        if np.partition(fits, n_delete - 1)[n_delete - 1] >= fits.max():
            return True
        to_come = self.log_volume + logsumexp(fits) - np.log(len(fits))
        return bool(to_come - np.logaddexp(to_come, self.log_evidence) < np.log(_REST))


def _check(n_dim: int, n_live: int, n_delete: int, n_inner: int) -> None:
    """Raise an error for numbers of points or moves that cannot work."""
    if n_live < max(20, 2 * n_dim):
        msg = f"live must be at least 20 and twice the number of parameters, got {n_live}"
        raise DriftbayesError(msg)
    if not 1 <= n_delete <= n_live // 2:
        msg = f"delete must be between 1 and half of live = {n_live}, got {n_delete}"
        raise DriftbayesError(msg)
    if n_inner < 1:
        raise DriftbayesError(f"inner must be 1 or more, got {n_inner}")


def _covariance_factor(z: FloatArray) -> FloatArray:
    """Compute F with F Fᵀ the covariance of points, which may be singular."""
    # Draws of a parameter from the prior may be 0, with an infinite logarithm.
    finite = z[np.isfinite(z).all(axis=1)]
    variances, axes = np.linalg.eigh(np.atleast_2d(np.cov(finite, rowvar=False)))
    return axes * np.sqrt(np.maximum(variances, 0.0))


def _ranks(new: FloatArray, others: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Compute ranks of new likelihoods among the others above the threshold, between 0 and 1.

    Ranks are random between those of the neighbours, and among equal likelihoods.
    """
    others = np.sort(others)
    below = np.searchsorted(others, new, side="left")
    n_equal = np.searchsorted(others, new, side="right") - below
    return (below + (n_equal + 1) * rng.random(len(new))) / (len(others) + 1)


def _uniformity(ranks: FloatArray, n: float) -> float:
    """Compute the p-value of a Kolmogorov-Smirnov test of ranks for uniformity.

    Args:
        ranks: Ranks between 0 and 1.
        n: Effective number of independent ranks.
    """
    if len(ranks) == 0:
        return 1.0
    ranks, steps = np.sort(ranks), np.linspace(0, 1, len(ranks) + 1)
    distance = max(np.max(steps[1:] - ranks), np.max(ranks - steps[:-1]))
    # Stephens (1970), accurate for n of 5 or more.
    return float(kolmogorov((np.sqrt(n) + 0.12 + 0.11 / np.sqrt(n)) * distance))


def live_counts(births: FloatArray, deaths: FloatArray) -> IntArray:
    """Count the live points just before each deletion, including the deleted one.

    Points drawn above the likelihood at which others are deleted are counted after all of these, so
    that a plateau is counted down before it is refilled.

    Args:
        births: Likelihood above which each point was drawn, NaN if from the whole prior.
        deaths: Likelihood of each point, in ascending order.
    """
    late = np.sort(births[~np.isnan(births)])
    n_first = len(births) - len(late)
    return n_first + np.searchsorted(late, deaths, side="left") - np.arange(len(deaths))


def simulated_log_shares(counts: IntArray, n: int, rng: np.random.Generator) -> FloatArray:
    r"""Simulate ln of the volume of each point, (point, simulation), by the trapezoid rule.

    $$\ln X_i = \sum_{j \le i} \frac{\ln u_j}{n_j}, \quad u_j \sim U(0, 1), \qquad
      w_i = \tfrac12 (X_{i-1} - X_{i+1})$$

    The first and the last point include the volume beyond them, so that the volumes sum to one.

    Args:
        counts: Live points before each deletion.
        n: Number of simulations.
        rng: Random number generator.
    """
    log_x = np.cumsum(-rng.standard_exponential((len(counts), n)) / counts[:, None], axis=0)
    middles = np.logaddexp(log_x[:-1], log_x[1:]) - np.log(2)
    outer = np.concatenate([np.zeros((1, n)), middles])
    inner = np.concatenate([middles, np.full((1, n), -np.inf)])
    return outer + np.log(-np.expm1(inner - outer))


def _estimate(state: _State, rng: np.random.Generator, *, finished: bool) -> Estimate:
    """Estimate evidence and error from all points, the last live ones included."""
    n_live = len(state.births)
    last_points = (state.live.z, state.live.log_likelihood, state.births)
    z, fits, births = map(np.concatenate, zip(*state.dead, last_points, strict=True))
    ranks = np.concatenate([np.zeros(0), *state.ranks])
    order = np.argsort(fits, kind="stable")
    z, fits = z[order], fits[order]
    if not np.isfinite(fits[-1]):
        return Estimate(
            log_evidence=float("-inf"),
            log_evidence_err=float("nan"),
            z=z,
            log_weights=np.full(len(z), -np.inf),
            log_likelihoods=fits,
            n_evaluations=state.n_evaluations,
            status=Status.NOT_FINITE,
            warnings=(f"not one of {n_live} draws from the prior has a likelihood",),
        )
    counts = live_counts(births, fits)
    log_z, weights = np.zeros((0,)), np.zeros(len(fits))
    for _ in range(_N_VOLUMES // _BLOCK):
        log_terms = simulated_log_shares(counts, _BLOCK, rng) + fits[:, None]
        totals = logsumexp(log_terms, axis=0)
        weights += np.exp(log_terms - totals).sum(axis=1) / _N_VOLUMES
        log_z = np.append(log_z, totals)
    last = order >= len(order) - n_live
    counted = weights > 0
    diagnostics = {
        "information": float(weights[counted] @ (fits[counted] - log_z.mean())),
        "ess": float(1 / np.sum(weights**2)),
        "insertion_p": _uniformity(ranks, state.n_ranks),
        "stuck": state.n_stuck / max(len(ranks), 1),
        "rest": float(weights[last].sum()),
        "n_points": float(len(z)),
    }
    warnings = _warnings(state.n_evaluations, diagnostics, finished=finished)
    with np.errstate(divide="ignore"):
        log_weights = np.log(weights)
    return Estimate(
        log_evidence=float(log_z.mean()),
        log_evidence_err=float(log_z.std(ddof=1)),
        z=z,
        log_weights=log_weights,
        log_likelihoods=fits,
        n_evaluations=state.n_evaluations,
        status=Status.SAMPLER_NOT_CONVERGED if warnings else Status.OK,
        diagnostics=diagnostics,
        warnings=warnings,
    )


def _warnings(
    n_evaluations: int, diagnostics: dict[str, float], *, finished: bool
) -> tuple[str, ...]:
    """Warn of a run that ended early, or whose new points are no independent draws."""
    warnings = []
    if not finished:
        warnings.append(
            f"stopped after {n_evaluations} evaluations, when {diagnostics['rest']:.0%} of the "
            "evidence rested on the last points; raise max_evaluations"
        )
    if diagnostics["stuck"] > _MAX_STUCK:
        warnings.append(
            f"{diagnostics['stuck']:.0%} of the new points are copies of others: the slice sampler "
            "does not move; use another method"
        )
    if diagnostics["insertion_p"] < _MIN_P:
        warnings.append(
            "new points are not spread as draws from the prior above the threshold would be "
            f"(p = {diagnostics['insertion_p']:.1g}); raise inner or live"
        )
    return tuple(warnings)
