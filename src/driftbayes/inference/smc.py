"""Tempered sequential Monte Carlo: needs no mode to start from, and finds several if there are."""

__all__ = ["Size", "smc", "smc_batch", "smc_core", "smc_twice"]

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import numpy as np

from driftbayes.errors import DriftbayesError, Status
from driftbayes.inference.log_sums import logsumexp
from driftbayes.inference.samples import Estimate
from driftbayes.inference.schedule import fixed, new_schedule
from driftbayes.inference.target import AbstractTarget
from driftbayes.inference.tempering import MAX_TEMPERATURES, Run, smc_core
from driftbayes.jax_typing import Key
from driftbayes.typing import FloatArray

# Beyond these the chains, or the islands, have not done their work.
_MIN_ACCEPTANCE = 0.02
_MAX_MEMORY = 0.8
_MAX_SPREAD = 1.0
_MIN_ALIVE = 10
# By how much, in nats, two ways to the evidence may differ beyond three errors.
_TOLERANCE = 0.1


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
        """Refuse numbers of which no run can be made."""
        n_particles, n_moves = self.n_particles, self.n_moves
        if n_moves < 1 or n_particles < n_moves or n_particles % n_moves:
            msg = f"n_particles must be a multiple of n_moves, got {n_particles} and {n_moves}"
            raise DriftbayesError(msg)
        if self.n_islands < 4:
            raise DriftbayesError(
                "n_islands must be 4 or more, to have an error from their scatter, got "
                f"{self.n_islands}"
            )

    @property
    def numbers(self) -> tuple[int, int, int]:
        """Numbers of particles, islands and moves."""
        return self.n_particles, self.n_islands, self.n_moves


def smc(target: AbstractTarget, key: Key, **size: int) -> Estimate:
    r"""The evidence and its error from several islands.

    $$\hat Z = \frac1I \sum_i Z_i, \qquad
      \sigma_{\ln \hat Z}
      = \frac{\operatorname{sd}(Z_i)}{\sqrt{I}\, \hat Z} \sqrt{\frac{I-1}{I-3}}$$

    Each $Z_i$ is unbiased but for the adaptation, so that they are averaged, not their logarithms;
    of $\ln \hat Z$ a bias of $-\sigma^2/2$ remains. The last factor makes up for a standard
    deviation known from few islands: $(\ln \hat Z - \ln Z)/\sigma$ has variance one.

    Islands share their temperatures and proposals, and err together where there are many steps, as
    when the posterior lies far in the prior's tail: ln Z was measured to be low by one over the
    number of all chains at each temperature, for 3 to 51 temperatures. As much is added to the
    error in quadrature, and what the thermodynamic integral along the same path differs by beyond
    two errors. Beyond 0.1 nats and three errors the status says that the answer is not to be used.

    Args:
        target: Prior and likelihood.
        key: Random key; the same gives the same result. Errors of two targets are independent
            only if their keys differ.
        **size: Numbers of particles, islands and moves, as for `Size`.
    """
    return _run(target, key, Size(**size))


def smc_batch(targets: AbstractTarget, key: Key, **size: int) -> list[Estimate]:
    """The same for targets stacked along the first axis, on all cores; all with the same key."""
    chosen = Size(**size)
    n = len(jax.tree.leaves(targets)[0])

    def run(index: int) -> Estimate:
        one = jax.tree.map(lambda leaf: leaf[index], targets)
        return _run(one, key, chosen)

    # One target fills the machine's vectors already, and several at once would all take as many
    # temperatures as the hardest. The first alone, so that the program is compiled but once.
    found = [run(0)]
    if n > 1:
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            found += pool.map(run, range(1, n))
    return found


def smc_twice(target: AbstractTarget, key: Key, **size: int) -> Estimate:
    """The same by two runs: the first finds temperatures and proposals, the second the evidence.

    The evidence has no bias from adaptation, which counts where chains are few because a likelihood
    takes long. Both runs are by one program. The arguments are those of `smc`.
    """
    numbers = Size(**size).numbers
    with jax.enable_x64(True):  # noqa: FBT003
        target = jax.tree.map(np.asarray, target)
        key_first, key_second = jax.random.split(key)
        plan = new_schedule(MAX_TEMPERATURES, target.n_dim)
        first = _quickly_compiled(target, key_first, *numbers, plan)
        if first.schedule is None or first.beta < 1:
            return _estimate(first)
        second = _quickly_compiled(target, key_second, *numbers, fixed(first.schedule))
        # No chain was adapted to.
        found = _estimate(eqx.tree_at(lambda run: run.n_chains, second, 0))
    n_evaluations = found.n_evaluations + int(first.n_evaluations)
    return replace(found, n_evaluations=n_evaluations)


_compiled = eqx.filter_jit(smc_core)
# A particle filter takes long to compile, and full optimisation gains nothing in it.
_OPTIONS: dict[str, Any] = {"compiler_options": {"xla_backend_optimization_level": 1}}
_quickly_compiled = eqx.filter_jit(smc_core, **_OPTIONS)


def _run(target: AbstractTarget, key: Key, size: Size) -> Estimate:
    # A thread does not see double precision that was switched on by a `with` block.
    with jax.enable_x64(True):  # noqa: FBT003
        # All in NumPy, so that a target alone and one out of a stack share a program.
        target = jax.tree.map(np.asarray, target)
        return _estimate(_compiled(target, key, *size.numbers))


def _estimate(run: Run) -> Estimate:
    """Islands put together, and judged."""
    log_z = np.asarray(run.log_evidence)
    log_evidence, error = _average(log_z)
    thermodynamic, _ = _average(np.asarray(run.thermodynamic))
    # The last step goes to the end, and is not adapted.
    adaptation = float(run.n_temperatures - 1) / run.n_chains if run.n_chains else 0.0
    bias = float(np.hypot(adaptation, _bias(thermodynamic - log_evidence, error)))
    status, off = Status.OK, abs(thermodynamic - log_evidence)
    is_off = off > _TOLERANCE + 3 * error
    error = float(np.hypot(error, bias))
    diagnostics = {
        "bias": bias,
        "thermodynamic_log_evidence": thermodynamic,
        "island_sd": float(np.std(log_z, ddof=1)) if np.isfinite(log_z).all() else float("inf"),
        "n_temperatures": float(run.n_temperatures),
        "acceptance": float(run.acceptance),
        "memory": float(run.memory),
        "live_draws": float(run.n_alive) / len(log_z),
    }
    warnings = _doubts(diagnostics, log_evidence, is_off=is_off)
    if not np.isfinite(log_evidence):
        status, warnings = Status.NOT_FINITE, (Status.NOT_FINITE.advice,)
    elif run.beta < 1:
        # What was summed so far is the evidence of data that count less than they should.
        log_evidence = error = float("nan")
        status = Status.SAMPLER_NOT_CONVERGED
        warnings = (
            f"after {int(run.n_temperatures)} temperatures the likelihood counts only to the power "
            f"{float(run.beta):.2g}; use a narrower prior, or check its unit",
        )
    elif (
        diagnostics["acceptance"] < _MIN_ACCEPTANCE
        or diagnostics["island_sd"] > _MAX_SPREAD
        or is_off
    ):
        status = Status.SAMPLER_NOT_CONVERGED
    return Estimate(
        log_evidence=log_evidence,
        log_evidence_err=error,
        z=np.asarray(run.z).reshape(-1, run.z.shape[-1]),
        # Within an island all count the same; an island counts by its evidence.
        log_weights=np.repeat(log_z, run.z.shape[1]),
        log_likelihoods=np.asarray(run.log_likelihoods).ravel(),
        n_evaluations=int(run.n_evaluations),
        status=status,
        diagnostics=diagnostics,
        warnings=warnings,
    )


def _average(log_z: FloatArray) -> tuple[float, float]:
    """Logarithm of the mean of Z, and its error; NaN if no island has any."""
    if not np.isfinite(log_z).any():
        return float("nan"), float("nan")
    n = len(log_z)
    log_mean = float(logsumexp(log_z) - np.log(n))
    scatter = np.std(np.exp(log_z - log_mean), ddof=1)
    return log_mean, float(scatter / np.sqrt(n) * np.sqrt((n - 1) / (n - 3)))


def _bias(difference: float, error: float) -> float:
    """What two ways to the evidence differ by, beyond what their errors explain.

    Both go the same way from prior to posterior; the thermodynamic one has no weights to lose.
    Where they part by more than twice the scatter of islands, all islands err alike.
    """
    return max(0.0, abs(difference) - 2 * error) if np.isfinite(difference) else 0.0


def _doubts(found: dict[str, float], log_evidence: float, *, is_off: bool) -> tuple[str, ...]:
    """What a reader should know, in words."""
    off = abs(found["thermodynamic_log_evidence"] - log_evidence)
    doubts = {
        f"of the draws from the prior only {found['live_draws']:.2g} in each island have a "
        "likelihood above zero; use a narrower prior, or more n_particles": (
            found["live_draws"] < _MIN_ALIVE
        ),
        f"at some temperature only {found['acceptance']:.1%} of the moves were accepted; use "
        "method='bridge', or a prior that is not so wide": found["acceptance"] < _MIN_ACCEPTANCE,
        f"after the moves at some temperature a coordinate is still correlated by "
        f"{found['memory']:.2f} with what it was before; use more n_moves": (
            found["memory"] > _MAX_MEMORY
        ),
        f"ln Z of single islands scatters by {found['island_sd']:.2g} nats, so that a few of them "
        "decide; use more n_particles": found["island_sd"] > _MAX_SPREAD,
        f"the thermodynamic integral differs from ln Z by {off:.2g} nats; use more n_particles and "
        "n_moves, or method='auto'": is_off,
    }
    return tuple(text for text, is_so in doubts.items() if is_so)
