"""Error bars by resampling particles, the only units of the data that are independent."""

__all__ = ["bootstrap_sd", "describe_error_bars"]

from collections.abc import Callable, Iterator

import numpy as np

from driftbayes.errors import DriftbayesError
from driftbayes.typing import FloatArray

# Weights held at once (replicates times particles): 32 MB, so a million particles fit as well.
BLOCK_SIZE = 2**22


def bootstrap_sd(
    statistic: Callable[..., FloatArray],
    *sums: FloatArray,
    counts: FloatArray,
    seed: int = 0,
    n_resamples: int = 200,
) -> FloatArray:
    r"""Standard error of a statistic that depends on the data through sums over particles.

    A replicate draws as many particles as there are, with replacement; particle $p$ is then
    drawn $W_p$ times and every sum becomes $\sum_p W_p s_p$: one matrix product for all
    replicates, lags and sums. Positions of one particle at successive times are
    correlated, so they are never resampled one by one.

    The spread of the replicates understates a variance by $(n - 1)/n$, with $n$ the number of
    particles that have data at a lag; the factor is put back. With $n < 2$ nothing can be resampled
    and the error is NaN.

    Args:
        statistic: Called with the resampled `sums` and `counts`, each (replicate, lag).
        *sums: Sums over the pairs of each particle, (particle, lag).
        counts: Number of pairs of each particle, (particle, lag).
        seed: Key of the counter-based generator (Philox); the same seed draws the same particles.
        n_resamples: Number of replicates, 2 or more.
    """
    if n_resamples != int(n_resamples) or n_resamples < 2:
        msg = f"n_resamples must be a whole number, 2 or more, got {n_resamples}"
        raise DriftbayesError(msg)
    if seed != int(seed) or seed < 0:
        msg = f"seed must be a whole number, 0 or more, got {seed}"
        raise DriftbayesError(msg)
    n_particles, n_lags = counts.shape
    contributing = (counts > 0).sum(axis=0)
    resampleable = contributing >= 2
    error = np.full(n_lags, np.nan)
    if not resampleable.any():
        return error
    columns = np.concatenate([s[:, resampleable] for s in (*sums, counts)], axis=1)
    replicates = []
    with np.errstate(divide="ignore", invalid="ignore"):
        for weights in _weights(n_particles, int(seed), int(n_resamples)):
            replicates.append(statistic(*np.split(weights @ columns, len(sums) + 1, axis=1)))
    spread = _finite_sd(np.concatenate(replicates))
    n = contributing[resampleable]
    error[resampleable] = spread * np.sqrt(n / (n - 1))
    return error


def describe_error_bars(n_trajectories: int, n_resamples: int) -> str:
    """One sentence for a data set's attributes: what the error bars are, or why there are none."""
    if n_trajectories == 1:
        return "none: there is only one trajectory, and nothing to resample"
    return (
        f"one standard deviation over {n_resamples} resamples of the {n_trajectories} "
        "trajectories, NaN at lags that fewer than two of them reach"
    )


def _weights(n_particles: int, seed: int, n_resamples: int) -> Iterator[FloatArray]:
    """Multinomial weights (replicate, particle), a block of replicates at a time."""
    rng = np.random.Generator(np.random.Philox(seed))
    block = max(BLOCK_SIZE // n_particles, 1)
    for start in range(0, n_resamples, block):
        n = min(block, n_resamples - start)
        # Counting uniform draws is the multinomial, and ten times faster than drawing binomials.
        drawn = rng.integers(n_particles, size=(n, n_particles))
        drawn += n_particles * np.arange(n)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=n * n_particles)
        yield counts.reshape(n, n_particles).astype(np.float64)


def _finite_sd(replicates: FloatArray) -> FloatArray:
    """Standard deviation along replicates, without those that drew no pair at a lag."""
    finite = np.isfinite(replicates)
    n = finite.sum(axis=0)
    enough = n >= 2
    values = np.where(finite, replicates, 0.0)
    mean = values.sum(axis=0) / np.maximum(n, 1)
    squares = np.where(finite, (values - mean) ** 2, 0.0).sum(axis=0)
    return np.where(enough, np.sqrt(squares / np.maximum(n - 1, 1)), np.nan)
