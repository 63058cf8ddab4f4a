"""Posterior draws by several Markov chains, and diagnostics of their mixing."""

from dataclasses import dataclass, replace

import numpy as np

from driftbayes._typing import FloatArray
from driftbayes.errors import DriftbayesError
from driftbayes.inference._metropolis import Chains, Cloud, fit_cloud, move
from driftbayes.inference._target import AbstractTarget

# Distance of the starts from the centre of the guide, relative to that of draws.
_START_SPREAD = 2.0
# A chain starts at the first of these candidates with a finite density.
_N_CANDIDATES = 4
# Number of prior draws for estimating the width of the prior.
_N_PRIOR_DRAWS = 256
# Shares of the warm-up after which the proposals are fitted again.
_REFITS = (0.1, 0.25, 0.5, 1.0)
# Moves are repeated between draws if the autocorrelation time exceeds the first number of moves, at
# most up to the second number.
_AUTOCORRELATION_TIME, _MAX_MOVES = 3.0, 16


@dataclass(frozen=True, eq=False)
class ChainDraws:
    """Draws from one posterior, by chain, after the warm-up.

    Args:
        z: Unconstrained coordinates, (chain, draw, parameter).
        log_joint: ln L(z) π(z), (chain, draw).
        log_likelihood: ln L(z), (chain, draw).
        acceptance: Share of accepted proposals.
        n_evaluations: Evaluations of the likelihood, warm-up included.
    """

    z: FloatArray
    log_joint: FloatArray
    log_likelihood: FloatArray
    acceptance: float
    n_evaluations: int

    @property
    def n_draws(self) -> int:
        """Number of draws of all chains."""
        return self.log_joint.size

    @property
    def rhat(self) -> FloatArray:
        """Split R-hat of each parameter and, last, of the log-joint."""
        return np.array([split_rhat(series) for series in self._series()])

    @property
    def ess(self) -> FloatArray:
        """Effective sample size of each parameter and, last, of the log-joint."""
        times = [autocorrelation_time(series) for series in self._series()]
        return self.n_draws / np.array(times)

    def _series(self) -> list[FloatArray]:
        """Return the chains of each parameter and, last, of the log-joint."""
        return [*np.moveaxis(self.z, -1, 0), self.log_joint]


def sample_chains(
    target: AbstractTarget,
    guide: Cloud | None,
    rng: np.random.Generator,
    *,
    n_chains: int = 32,
    n_draws: int = 500,
    n_warmup: int = 250,
) -> ChainDraws:
    """Draw from a posterior by parallel Metropolis chains (`_metropolis.move`).

    Proposals are fitted to the draws of all chains during the warm-up, and fixed after it. Chains
    that mix slowly make several moves between two draws.

    A chain does not cross a valley deeper than about ten nats. Chains that start near a guide stay
    in its mode, and no diagnostic shows other modes. With `guide=None` they start from the prior
    and may end in different modes, which R-hat shows; the number of chains in a mode is not its
    weight.

    Args:
        target: Prior and likelihood.
        guide: Approximate mean and covariance of the posterior; chains start around it, twice as
            far out as draws. If None, chains start at draws from the prior.
        rng: Random number generator.
        n_chains: Number of chains.
        n_draws: Draws kept of each chain.
        n_warmup: Draws of each chain that are spent on adaptation and not kept.
    """
    if n_chains < 2 or n_draws < 12 or n_warmup < 1:
        raise DriftbayesError(
            f"need at least 2 chains of 12 draws after a warm-up, got chains={n_chains}, "
            f"draws={n_draws}, warmup={n_warmup}"
        )
    cloud, start = _start(target, guide, n_chains, rng)
    chains = Chains.at(target, start)
    begin = 0
    for end in sorted({max(1, round(share * n_warmup)) for share in _REFITS}):
        positions = []
        for _ in range(begin, end):
            chains, _ = move(target, chains, cloud, 1.0, rng)
            positions.append(chains.z)
        # Use the second half of the window: the first may still depend on the start.
        recent = np.stack(positions[len(positions) // 2 :], axis=1)
        points = recent.reshape(-1, target.n_dim)
        if (np.ptp(points, axis=0) > 0).all():
            cloud = fit_cloud(points, np.full(len(points), 1 / len(points)))
        begin = end
    scale, fit, n_moves = chains.log_scale, chains.fit, _moves_per_draw(recent)
    z = np.empty((n_draws, *chains.z.shape))
    log_prior, log_likelihood = np.empty((2, n_draws, n_chains))
    n_accepted = 0
    for i in range(n_draws):
        for _ in range(n_moves):
            chains = replace(chains, log_scale=scale, fit=fit)
            chains, accepted = move(target, chains, cloud, 1.0, rng)
            n_accepted += int(accepted.sum())
        z[i], log_prior[i], log_likelihood[i] = chains.z, chains.log_prior, chains.log_likelihood
    return ChainDraws(
        z=np.moveaxis(z, 0, 1),
        log_joint=(log_prior + log_likelihood).T,
        log_likelihood=log_likelihood.T,
        acceptance=n_accepted / (n_draws * n_moves * n_chains),
        n_evaluations=(n_draws * n_moves + n_warmup + 1 + _N_CANDIDATES) * n_chains,
    )


def _moves_per_draw(recent: FloatArray) -> int:
    """Choose the number of moves between draws from the mixing at the end of the warm-up."""
    if recent.shape[1] < 12:
        return 1
    times = [autocorrelation_time(series) for series in np.moveaxis(recent, -1, 0)]
    return int(np.clip(np.max(times) / _AUTOCORRELATION_TIME, 1, _MAX_MOVES))


def _start(
    target: AbstractTarget, guide: Cloud | None, n_chains: int, rng: np.random.Generator
) -> tuple[Cloud, FloatArray]:
    """Choose the first proposals, and the position at which each chain starts."""
    n_candidates = n_chains * _N_CANDIDATES
    if guide is None:
        prior = target.sample_prior(rng, _N_PRIOR_DRAWS + n_candidates)
        prior = prior[np.isfinite(prior).all(axis=1)]
        cloud = fit_cloud(prior, np.full(len(prior), 1 / len(prior)))
        z = prior[-n_candidates:]
    else:
        cloud = guide
        kicks = rng.normal(size=(n_candidates, target.n_dim))
        z = guide.center + _START_SPREAD * kicks @ guide.factor.T
    candidates = z.reshape(n_chains, _N_CANDIDATES, -1)
    is_finite = np.isfinite(sum(target.log_densities(z))).reshape(n_chains, _N_CANDIDATES)
    return cloud, candidates[np.arange(n_chains), np.argmax(is_finite, axis=1)]


def split_rhat(series: FloatArray) -> float:
    r"""Compute the width of all chains relative to half a chain, 1 if the chains have mixed.

    With W the mean variance within half-chains of n draws and B/n the variance of their means,

    $$\hat R^2 = \frac{n-1}{n} + \frac{B}{n W} .$$

    Args:
        series: One quantity, (chain, draw).
    """
    if not np.isfinite(series).all() or np.ptp(series) == 0:
        return float("nan")
    halves = _halves(series)
    n = halves.shape[1]
    within = halves.var(axis=1, ddof=1).mean()
    return float(np.sqrt((n - 1) / n + halves.mean(axis=1).var(ddof=1) / within))


def autocorrelation_time(series: FloatArray) -> float:
    r"""Compute the number of draws per independent draw; below 1 if successive draws alternate.

    $$\tau = 1 + 2 \sum_{t \ge 1} \rho_t , \qquad
      \rho_t = 1 - \frac{W - \overline{C_t}}{\frac{n-1}{n} W + B/n} ,$$

    with C the autocovariance of a half-chain. Sums of neighbouring ρ are positive and decrease
    (Geyer 1992): the series ends at the first sum that is not positive, and a sum larger than the
    previous one is replaced by it. A constant series has τ = 1, one that is not finite NaN.

    Args:
        series: One quantity, (chain, draw).
    """
    if not np.isfinite(series).all():
        return float("nan")
    halves = _halves(series)
    n_chains, n = halves.shape
    deviations = halves - halves.mean(axis=1, keepdims=True)
    # Padded with zeros, so that the end of a chain is not correlated with its beginning.
    spectrum = np.abs(np.fft.rfft(deviations, 2 * n, axis=1)) ** 2
    covariance = np.fft.irfft(spectrum, axis=1)[:, :n].mean(axis=0) / (n - 1)
    within = covariance[0]
    total = within * (n - 1) / n + halves.mean(axis=1).var(ddof=1)
    if not total > 0:
        return 1.0
    rho = 1 - (within - covariance) / total
    rho[0] = 1.0
    pairs = rho[: n - n % 2].reshape(-1, 2).sum(axis=1)
    n_positive = int(np.argmin(np.append(pairs, -1.0) > 0))
    time = 2 * np.minimum.accumulate(pairs[:n_positive]).sum() - 1
    # Limit the gain from alternating draws, which an estimate may exaggerate.
    return float(max(time, 1 / np.log10(n_chains * n)))


def _halves(series: FloatArray) -> FloatArray:
    """Split each chain in two, so that a drift shows as a difference between halves."""
    half = series.shape[1] // 2
    return np.concatenate([series[:, :half], series[:, -half:]])
