r"""Posterior draws by numpyro's no-U-turn sampler, several chains and data sets in one program."""

__all__ = ["Chains", "autocorrelation_time", "in_chunks", "nuts", "nuts_batch", "split_rhat"]

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.typing import NDArray

from driftbayes.errors import DriftbayesError
from driftbayes.inference.symmetric import cholesky
from driftbayes.inference.target import AbstractTarget, Guide
from driftbayes.jax_typing import Key, Scalar
from driftbayes.typing import FloatArray

# Higher than the usual 0.8: a rate that the data bound on one side only has a steep wall there,
# at which longer steps diverge.
_ACCEPTANCE = 0.9
# Chains start this many times further from the guide's centre than a draw would lie.
_SPREAD = 2.0
# A chain starts at the first of so many places at which the density is finite.
_TRIES = 4
# Draws that tell the width of the prior.
_PRIOR_DRAWS = 256
# All chains of a chunk wait for the longest trajectory of each step, and share the cache.
_CHUNK = 10


@dataclass(frozen=True, eq=False)
class Chains:
    """Draws from one posterior, by chain, after the warm-up.

    Args:
        z: Unconstrained coordinates, (chain, draw, parameter).
        log_joint: ln L(z) π(z), (chain, draw).
        log_likelihood: ln L(z), (chain, draw).
        diverging: Whether the trajectory that led to a draw diverged, (chain, draw).
        n_gradients: Evaluations of the gradient, those of the warm-up included.
    """

    z: FloatArray
    log_joint: FloatArray
    log_likelihood: FloatArray
    diverging: NDArray[np.bool_]
    n_gradients: int

    @property
    def n_draws(self) -> int:
        """Number of draws, all chains together."""
        return self.log_joint.size

    @property
    def n_divergences(self) -> int:
        """Number of draws reached by a trajectory that diverged."""
        return int(self.diverging.sum())

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
        return [*np.moveaxis(self.z, -1, 0), self.log_joint]


def nuts(target: AbstractTarget, guide: Guide | None, key: Key, **sizes: int) -> Chains:
    r"""Draws from a posterior by the no-U-turn sampler (Hoffman & Gelman 2014; numpyro).

    The chains move in coordinates w in which the guide is a standard normal distribution,

    $$z = c + F w ,$$

    with a step and a dense mass matrix that each chain adapts while it warms up.

    Several modes: a chain does not cross a valley of more than some ten nats. Chains that start
    about a guide all stay in its mode, and nothing in their draws tells of another. With
    `guide=None` they start from the prior and may end in different modes; R-hat then tells, but
    the number of chains in a mode does not tell its weight. Even so, four chains all end in one
    of two equal modes once in eight times.

    Args:
        target: Prior and likelihood.
        guide: Where the posterior roughly is; chains start about it, twice as far out as draws.
            If None, chains start at draws from the prior, and w is the prior's own scale.
        key: Source of randomness.
        **sizes: Of the chains, as for `nuts_batch`.
    """
    targets, guides = jax.tree.map(lambda leaf: np.asarray(leaf)[None], (target, guide))
    return nuts_batch(targets, guides, key, **sizes)[0]


def nuts_batch(
    targets: AbstractTarget,
    guides: Guide | None,
    key: Key,
    *,
    n_chains: int = 4,
    n_draws: int = 1000,
    n_warmup: int = 500,
) -> list[Chains]:
    """The same for several targets of one shape, stacked along the first axis of every leaf.

    Args:
        targets: Priors and likelihoods.
        guides: Where the posteriors roughly are, or None.
        key: Source of randomness.
        n_chains: Number of chains.
        n_draws: Draws kept of each chain.
        n_warmup: Draws of each chain that are spent on adaptation and not kept.
    """
    if n_chains < 2 or n_draws < 12 or n_warmup < 1:
        raise DriftbayesError(
            f"need at least 2 chains of 12 draws after a warm-up, got n_chains={n_chains}, "
            f"n_draws={n_draws}, n_warmup={n_warmup}"
        )
    keys = jax.random.split(key, len(jax.tree.leaves(targets)[0]))
    sizes = (n_chains, n_draws, n_warmup)

    def run(targets: AbstractTarget, guides: Guide | None, keys: Array) -> Any:
        return _over_targets(targets, guides, keys, sizes)

    z, log_joint, log_likelihood, diverging, n_gradients = in_chunks(run, targets, guides, keys)
    return [
        Chains(z[i], log_joint[i], log_likelihood[i], diverging[i], int(n_gradients[i]))
        for i in range(len(z))
    ]


def in_chunks(function: Callable[..., Any], *stacked: Any) -> Any:
    """Apply a compiled function of stacked arguments to a few data sets at a time, on all cores.

    The chunks have one size, so that the function is compiled once; the last is filled up with
    copies. The result has NumPy leaves with a leading axis over data sets.
    """
    # Rows of NumPy arrays are taken without compiling anything.
    stacked = jax.tree.map(_in_numpy, stacked)
    n = len(jax.tree.leaves(stacked)[0])
    n_chunks = -(-n // _CHUNK)
    rows = np.minimum(np.arange(n_chunks * -(-n // n_chunks)), n - 1).reshape(n_chunks, -1)

    def run(members: NDArray[np.int64]) -> Any:
        # A thread does not see double precision that was switched on by a `with` block.
        with jax.enable_x64(True):  # noqa: FBT003
            part = jax.tree.map(lambda leaf: leaf[members], stacked)
            return jax.tree.map(np.asarray, function(*part))

    # The first alone, so that the program is compiled but once.
    results = [run(rows[0])]
    if n_chunks > 1:
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            results += pool.map(run, rows[1:])
    return jax.tree.map(lambda *leaves: np.concatenate(leaves)[:n], *results)


def _in_numpy(leaf: Any) -> Any:
    return leaf if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else np.asarray(leaf)


@eqx.filter_jit
def _over_targets(
    targets: AbstractTarget, guides: Guide | None, keys: Array, sizes: tuple[int, int, int]
) -> Any:
    # numpyro mixes types and ranks, which a user may have forbidden.
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        return _chains(targets, guides, keys, sizes)


def _chains(
    targets: AbstractTarget, guides: Guide | None, keys: Array, sizes: tuple[int, int, int]
) -> tuple[Array, Array, Array, Array, Array]:
    """Draws, log-joint, log-likelihood and divergences by chain, and the number of gradients.

    All have a leading axis over data sets.
    """
    # Not at the top: who does not sample need not wait for numpyro.
    from numpyro.infer.hmc import hmc
    from numpyro.infer.util import ParamInfo

    n_chains, n_draws, n_warmup = sizes
    guides, *starts = jax.vmap(partial(_starts, n_chains))(targets, guides, keys)
    # One axis for the chains of all data sets. With a map over chains inside another over data
    # sets, JAX would trace the sampler several times.
    each = jax.tree.map(lambda leaf: jnp.repeat(leaf, n_chains, axis=0), (targets, guides))
    starts = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), starts)
    # The target is an argument of the kernel, not part of it: one program serves all data sets.
    init, kernel = hmc(potential_fn_gen=_potential, algo="NUTS")

    def begin(start: tuple[Array, Scalar, Array, Key], model_args: Any) -> Any:
        *place, key = start
        return init(
            ParamInfo(*place),
            n_warmup,
            dense_mass=True,
            target_accept_prob=_ACCEPTANCE,
            model_args=model_args,
            rng_key=key,
        )

    state = jax.vmap(begin)(tuple(starts), each)
    # All chains have the same clock. Kept out of the map over chains, it leaves "is it time to
    # adapt?" a branch; in the map both sides of it would be computed at every step.
    axes = jax.tree.map(lambda _: 0, state)
    axes = axes._replace(i=None, adapt_state=axes.adapt_state._replace(window_idx=None))
    state = state._replace(
        i=state.i[0],
        adapt_state=state.adapt_state._replace(window_idx=state.adapt_state.window_idx[0]),
    )
    advance = jax.vmap(kernel, (axes, 0), axes)

    def step(state: Any, _: None) -> tuple[Any, tuple[Array, Array, Array, Array]]:
        state = advance(state, each)
        return state, (state.z, -state.potential_energy, state.diverging, state.num_steps)

    _, steps = jax.lax.scan(step, state, None, length=n_warmup + n_draws)
    # From (step, chain of any data set) to (data set, chain, step).
    w, log_joint, diverging, n_steps = (
        x.reshape(len(x), -1, n_chains, *x.shape[2:]).swapaxes(0, 1).swapaxes(1, 2) for x in steps
    )
    w, log_joint, diverging = (x[:, :, n_warmup:] for x in (w, log_joint, diverging))
    z = jax.vmap(lambda guide, w: guide.center + w @ guide.factor.T)(guides, w)
    # The likelihood is what the prior leaves of the joint density; it need not be run again.
    log_priors = jax.vmap(lambda target, z: jax.vmap(jax.vmap(target.log_prior))(z))(targets, z)
    n_gradients = jnp.sum(n_steps, axis=(1, 2)) + n_chains * _TRIES
    return z, log_joint, log_joint - log_priors, diverging, n_gradients


def _potential(target: AbstractTarget, guide: Guide) -> Callable[[Array], Scalar]:
    return lambda w: -target.log_joint(jnp.asarray(guide.center) + jnp.asarray(guide.factor) @ w)


def _starts(
    n_chains: int, target: AbstractTarget, guide: Guide | None, key: Key
) -> tuple[Guide, Array, Array, Array, Array]:
    """The guide, and for each chain where it starts, -ln p and its gradient there, and a key."""
    key_scale, key_starts, key_chains = jax.random.split(key, 3)
    shape = (n_chains, _TRIES, target.n_dim)
    if guide is None:
        sample = jax.vmap(target.sample_prior)
        prior = sample(jax.random.split(key_scale, _PRIOR_DRAWS))
        cov = jnp.cov(prior, rowvar=False).reshape(shape[-1], shape[-1])
        guide = Guide(jnp.mean(prior, axis=0), cholesky(cov), converged=jnp.isfinite(cov).all())
        z = sample(jax.random.split(key_starts, n_chains * _TRIES))
        w = jnp.linalg.solve(guide.factor, (z - guide.center).T).T.reshape(shape)
    else:
        w = _SPREAD * jax.random.normal(key_starts, shape)
    value, slope = jax.vmap(jax.vmap(jax.value_and_grad(_potential(target, guide))))(w)
    is_finite = jnp.isfinite(value) & jnp.isfinite(slope).all(axis=-1)
    first = jnp.arange(n_chains), jnp.argmax(is_finite, axis=1)
    return guide, w[first], value[first], slope[first], jax.random.split(key_chains, n_chains)


# --- How well the chains have mixed ------------------------------------------------------------


def split_rhat(series: FloatArray) -> float:
    r"""How much wider all chains are than one half of one: 1 if they have forgotten their starts.

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
    r"""How many draws are worth one independent draw; below 1 if successive draws alternate.

    $$\tau = 1 + 2 \sum_{t \ge 1} \rho_t , \qquad
      \rho_t = 1 - \frac{W - \overline{C_t}}{\frac{n-1}{n} W + B/n} ,$$

    with C the autocovariance of a half-chain. Sums of neighbouring ρ are positive and decrease
    (Geyer 1992): the series ends at the first that is not, and a sum larger than the last
    counts as that. A series that does not vary has τ = 1, one that is not finite NaN.

    Args:
        series: One quantity, (chain, draw).
    """
    if not np.isfinite(series).all():
        return float("nan")
    halves = _halves(series)
    n_chains, n = halves.shape
    deviations = halves - halves.mean(axis=1, keepdims=True)
    # Padded with zeros, lest the end of a chain be correlated with its beginning.
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
    # No more than a logarithm's gain from alternation is to be believed of an estimate.
    return float(max(time, 1 / np.log10(n_chains * n)))


def _halves(series: FloatArray) -> FloatArray:
    """Each chain as two: a chain that drifts differs from itself."""
    half = series.shape[1] // 2
    return np.concatenate([series[:, :half], series[:, -half:]])
