r"""Islands of particles taken from the prior to the posterior by raising the likelihood's power.

$$\ln Z = \sum_t \ln \big\langle L^{\beta_{t+1} - \beta_t} \big\rangle_{\beta_t},
  \qquad p_\beta(z) \propto L(z)^\beta\, \pi(z), \qquad 0 = \beta_0 < \dots < \beta_T = 1$$
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from driftbayes._typing import FloatArray, IntArray
from driftbayes.errors import DriftbayesError
from driftbayes.inference._log_sums import logsumexp
from driftbayes.inference._metropolis import Chains, Cloud, fit_cloud, move
from driftbayes.inference._target import AbstractTarget

# A step in temperature leaves this share of the live particles effective.
_EFFECTIVE = 0.5
_MAX_TEMPERATURES = 200


@dataclass(frozen=True)
class Size:
    """Size of a run.

    Args:
        n_particles: Particles in each island, a multiple of n_moves.
        n_islands: Number of islands, four or more.
        n_moves: Moves of each chain at each temperature.
    """

    n_particles: int = 1024
    n_islands: int = 16
    n_moves: int = 16

    def __post_init__(self) -> None:
        """Refuse sizes that cannot be divided into chains, or give no error."""
        n_particles, n_moves = self.n_particles, self.n_moves
        if n_moves < 1 or n_particles < n_moves or n_particles % n_moves:
            msg = f"particles must be a multiple of moves, got {n_particles} and {n_moves}"
            raise DriftbayesError(msg)
        if self.n_islands < 4:
            raise DriftbayesError(
                "islands must be 4 or more, to have an error from their scatter, got "
                f"{self.n_islands}"
            )

    @property
    def n_chains(self) -> int:
        """Chains in each island."""
        return self.n_particles // self.n_moves


@dataclass(frozen=True, eq=False)
class Tuning:
    """Temperature and proposals of one step.

    Args:
        beta: β after the step.
        cloud: Mean and covariance of the proposals.
        log_scale: Logarithm of the relative length of random-walk steps.
        fit: Share of independent proposals that are accepted.
    """

    beta: float
    cloud: Cloud
    log_scale: float
    fit: float


@dataclass(frozen=True, eq=False)
class Run:
    """Islands at the end of a run, and how they got there.

    Args:
        log_evidence: ln Z of each island.
        thermodynamic: The same by the integral of the mean of ln L over β.
        z: Particles, (island, particle, parameter), equally weighted within an island.
        log_likelihoods: ln L of each particle.
        beta: β that was reached; 1 unless there were too many temperatures.
        n_temperatures: Number of steps from the prior to there.
        n_alive: Draws from the prior, in all islands, where the likelihood is above zero.
        acceptance: Acceptance rate at the temperature where it was lowest.
        memory: Correlation of a coordinate before and after the moves at one temperature, for
            the coordinate and the temperature where it was largest.
        n_adapted: Number of chains, in all islands, to which temperatures and proposals were
            adapted; 0 if they come from another run.
        schedule: Tuning of every step.
    """

    log_evidence: FloatArray
    thermodynamic: FloatArray
    z: FloatArray
    log_likelihoods: FloatArray
    beta: float
    n_temperatures: int
    n_alive: int
    acceptance: float
    memory: float
    n_adapted: int = 0
    schedule: Sequence[Tuning] = ()

    @property
    def n_evaluations(self) -> int:
        """Evaluations of the likelihood in all islands."""
        return self.log_likelihoods.size * (1 + self.n_temperatures)


def temper(
    target: AbstractTarget,
    rng: np.random.Generator,
    size: Size,
    schedule: Sequence[Tuning] | None = None,
) -> Run:
    r"""Take all islands from the prior to the posterior.

    At each temperature n_particles / n_moves particles of an island are resampled. Each makes
    n_moves moves, and every position along its path is a particle of the next cloud, so that every
    evaluation is used (Dau and Chopin, 2022).

    Islands resample and move independently. Temperatures and proposals are adapted to the particles
    of all islands, so that the bias from adaptation falls with the number of all particles instead
    of with that of one island. A run that follows the schedule of another run is not adapted to its
    own particles, and has no such bias.

    The thermodynamic integral is taken over the first half of a step with the particles before it,
    over the second half with those after it:

    $$\int_{\beta}^{\beta+\delta} \langle \ln L \rangle\, \mathrm d\beta
      = \ln \big\langle L^{\delta/2} \big\rangle_\beta
      - \ln \big\langle L^{-\delta/2} \big\rangle_{\beta+\delta}$$

    The trapezoidal rule would fail: under an exponential prior of a diffusivity, and wherever L may
    be zero, the mean of ln L at β = 0 is minus infinity. Both means here have finite variance
    whatever the likelihood.

    Args:
        target: Prior and likelihood.
        rng: Random numbers.
        size: Numbers of particles, islands and moves.
        schedule: Tuning of every step, from a run that reached β = 1; adapted if None.
    """
    shape = (size.n_islands, size.n_particles)
    particles = _draw_prior(target, rng, size.n_islands * size.n_particles)
    n_alive = int(np.isfinite(particles.log_likelihood).sum())
    # Without a particle of positive likelihood Z is zero.
    log_z = thermodynamic = np.full(size.n_islands, 0.0 if n_alive else -np.inf)
    beta, acceptance, memory = 0.0, 1.0, 0.0
    used: list[Tuning] = []
    while beta < 1 and len(used) < _MAX_TEMPERATURES and np.isfinite(log_z).any():
        tuning = _adapt(particles, beta) if schedule is None else schedule[len(used)]
        step, beta = tuning.beta - beta, tuning.beta
        log_w = step * particles.log_likelihood.reshape(shape)
        chosen = _resample(rng.random(size.n_islands), log_w, size.n_chains)
        chains = replace(particles.take(chosen), log_scale=tuning.log_scale, fit=tuning.fit)
        paths, accepted = [chains], 0.0
        for _ in range(size.n_moves):
            moved, is_accepted = move(target, paths[-1], tuning.cloud, beta, rng)
            if schedule is not None:
                moved = replace(moved, log_scale=tuning.log_scale, fit=tuning.fit)
            paths.append(moved)
            accepted += float(is_accepted.mean()) / size.n_moves
        particles = _pool(paths[1:])
        log_l = particles.log_likelihood.reshape(shape)
        log_z = log_z + _log_mean(log_w)
        halves = _log_mean(0.5 * log_w) - _log_mean(-0.5 * step * log_l)
        thermodynamic = thermodynamic + halves
        acceptance = min(acceptance, accepted)
        memory = max(memory, _correlation(chains.z, paths[-1].z))
        used.append(Tuning(beta, tuning.cloud, particles.log_scale, particles.fit))
    return Run(
        log_evidence=log_z,
        thermodynamic=thermodynamic,
        z=particles.z.reshape(*shape, -1),
        log_likelihoods=particles.log_likelihood.reshape(shape),
        beta=beta,
        n_temperatures=len(used),
        n_alive=n_alive,
        acceptance=acceptance,
        memory=memory,
        n_adapted=size.n_islands * size.n_chains if schedule is None else 0,
        schedule=used,
    )


def _draw_prior(target: AbstractTarget, rng: np.random.Generator, n: int) -> Chains:
    """Draw particles from the prior."""
    z = target.sample_prior(rng, n)
    # A draw at the very edge of the prior has no finite unconstrained coordinates.
    inside = np.asarray(np.isfinite(z).all(axis=1))
    chains = Chains.at(target, np.where(inside[:, None], z, 0.0))
    return replace(chains, log_likelihood=np.where(inside, chains.log_likelihood, -np.inf))


def _adapt(particles: Chains, beta: float) -> Tuning:
    """Choose the next temperature, and fit proposals to the particles there."""
    log_l = particles.log_likelihood
    step = _next_step(log_l, beta)
    weights = np.exp(step * (log_l - log_l.max()))
    cloud = fit_cloud(particles.z, weights / weights.sum())
    # By adding, the last might stop short of 1 by a rounding.
    beta = beta + step if step < 1 - beta else 1.0
    return Tuning(beta, cloud, particles.log_scale, particles.fit)


def _next_step(log_l: FloatArray, beta: float) -> float:
    r"""Find the largest step that leaves a given share of the live particles effective.

    The effective number is $(\sum w)^2 / \sum w^2$. Bisection is in the logarithm of the step: from
    a vague prior the first may be 1e-9.
    """
    relative = log_l - log_l.max()
    goal = _EFFECTIVE * np.isfinite(log_l).sum()

    def is_small_enough(step: float) -> bool:
        w = np.exp(step * relative)
        # A product w @ w would start the threads of BLAS, which takes longer than the sum.
        return bool(w.sum() ** 2 >= goal * np.sum(w * w))

    whole = 1 - beta
    if is_small_enough(whole):
        return whole
    low, high = -70.0, 0.0
    for _ in range(24):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if is_small_enough(whole * np.exp(middle)) else (low, middle)
    return float(whole * np.exp(low))


def _resample(offsets: FloatArray, log_w: FloatArray, n: int) -> IntArray:
    """Resample every island systematically: n equal strides along its cumulative weights.

    Args:
        offsets: Random start of each island, from 0 to 1.
        log_w: Log weights, (island, particle).
        n: Number of particles to take from each island.

    Returns:
        Indices of the particles in all islands together, one island after another.
    """
    n_islands, n_particles = log_w.shape
    peak = log_w.max(axis=1, keepdims=True)
    # In an island without a live particle all count the same; its evidence remains zero.
    weights = np.exp(log_w - np.where(np.isfinite(peak), peak, 0.0)) + np.isinf(peak)
    chosen = np.empty((n_islands, n), dtype=np.int64)
    for i, total in enumerate(np.cumsum(weights, axis=1)):
        positions = (np.arange(n) + offsets[i]) / n * total[-1]
        chosen[i] = np.searchsorted(total, positions, side="right")
        # A position may be rounded up to the total.
        chosen[i] = i * n_particles + np.minimum(chosen[i], n_particles - 1)
    return chosen.ravel()


def _pool(paths: Sequence[Chains]) -> Chains:
    """Make particles of all positions along the paths.

    All positions of one chain come first, then those of the next: systematic resampling then takes
    from each chain in proportion to its weight.
    """
    z = np.stack([chains.z for chains in paths], axis=1)
    return Chains(
        z=z.reshape(-1, z.shape[-1]),
        log_prior=np.stack([chains.log_prior for chains in paths], axis=1).ravel(),
        log_likelihood=np.stack([chains.log_likelihood for chains in paths], axis=1).ravel(),
        log_scale=paths[-1].log_scale,
        fit=paths[-1].fit,
    )


def _correlation(a: FloatArray, b: FloatArray) -> float:
    """Return the largest correlation of a coordinate of a with the same coordinate of b."""
    a, b = a - a.mean(axis=0), b - b.mean(axis=0)
    scale = np.sqrt(np.mean(a**2, axis=0) * np.mean(b**2, axis=0))
    return float(np.max(np.mean(a * b, axis=0) / np.where(scale > 0, scale, 1.0)))


def _log_mean(log_w: FloatArray) -> FloatArray:
    """Return ln of the mean weight of each island."""
    return np.asarray(logsumexp(log_w, axis=1) - np.log(log_w.shape[1]))
