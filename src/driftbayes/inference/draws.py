"""Draws from the posterior, equally likely, whatever method they come from."""

__all__ = ["PosteriorDraws", "posterior_draws"]

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from driftbayes.data.sampling import Displacements
from driftbayes.errors import DriftbayesError
from driftbayes.inference._batch import Batch
from driftbayes.inference.density import Density
from driftbayes.inference.evidence import Evidence
from driftbayes.inference.exact import exact_draws, is_integrable
from driftbayes.inference.hypothesis import Hypothesis
from driftbayes.inference.methods import Auto, Exact, Laplace, Method, as_method
from driftbayes.inference.sampled import N_DRAWS
from driftbayes.models import AbstractModel
from driftbayes.precision import in_double_precision
from driftbayes.typing import FloatArray

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True, eq=False)
class PosteriorDraws:
    """Parameters drawn from the posterior of one hypothesis, all equally likely.

    Args:
        hypothesis: Model family and prior.
        theta: Parameters, (draw, parameter), in the order of the hypothesis's names.
        log_likelihood: ln p(D | θ) of each draw.
        evidence: What the same computation says of the evidence.
        seed: Of the draws.
    """

    hypothesis: Hypothesis
    theta: FloatArray
    log_likelihood: FloatArray
    evidence: Evidence
    seed: int

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters."""
        return self.hypothesis.names

    def __len__(self) -> int:
        return len(self.theta)

    def models(self) -> AbstractModel:
        """The model at every draw, as one model whose fields are arrays, for `jax.vmap`."""
        return jax.vmap(self.hypothesis.at)(jnp.asarray(self.theta))

    def log_prior(self) -> FloatArray:
        """Ln p(θ) of each draw."""
        return np.asarray(jax.vmap(self.hypothesis.log_prior)(jnp.asarray(self.theta)))

    def to_datatree(self, data: Displacements | None = None, **options: Any) -> "xr.DataTree":
        """A tree as ArviZ takes it; see `driftbayes.inference.datatree.to_datatree`."""
        from driftbayes.inference.datatree import to_datatree

        return to_datatree(self, data, **options)


@in_double_precision
def posterior_draws(
    hypothesis: Hypothesis,
    data: Any,
    *,
    n_draws: int = N_DRAWS,
    seed: int = 0,
    method: Method | str = "auto",
    **options: Any,
) -> PosteriorDraws:
    """Draw from the posterior; all draws are equally likely.

    Where the evidence is integrated exactly, the draws are independent and come from the nodes of
    that integral, corrected between them: they have its modes, bounds and tails. Laplace's method
    draws from its Gaussian. Samplers give their own draws.

    Args:
        hypothesis: Model family and prior.
        data: Displacements at one tau, whole or reduced.
        n_draws: Number of draws.
        seed: Random seed; the same seed gives the same draws.
        method: Method of the evidence, as for `evidence`.
        **options: Options of the method.

    Returns:
        The draws, with the evidence that belongs to them.

    Raises:
        DriftbayesError: There is nothing to draw from, or an option is unknown.
    """
    from driftbayes.inference import evidence

    if n_draws != int(n_draws) or n_draws < 1:
        msg = f"n_draws must be a whole number, 1 or more, got {n_draws}"
        raise DriftbayesError(msg)
    batch = data if isinstance(data, Batch) else Batch.of(data, model=hypothesis.model)
    rng = np.random.default_rng([seed, zlib.crc32(hypothesis.name.encode()), 1])
    chosen = as_method(method, **options)
    if isinstance(chosen, Exact) or (isinstance(chosen, Auto) and is_integrable(hypothesis, batch)):
        record, theta, fits = exact_draws(hypothesis, batch, int(n_draws), rng)
        return PosteriorDraws(hypothesis, theta, fits, record, seed)
    record = evidence(hypothesis, batch, method=chosen, seed=seed)
    if isinstance(chosen, Laplace):
        theta = _gaussian_draws(record, hypothesis, n_draws, rng)
    else:
        theta = _keep(record, int(n_draws), rng)
    fits, *_ = Density(hypothesis, batch.engine(0, hypothesis.model)).terms(theta)
    return PosteriorDraws(hypothesis, theta, fits, record, seed)


def _keep(record: Evidence, n: int, rng: np.random.Generator) -> FloatArray:
    if record.draws is None or not np.isfinite(record.draws).all() or len(record.draws) == 0:
        msg = f"no draws from the posterior of {record.name}: {record.status.advice}"
        raise DriftbayesError(msg)
    if n <= len(record.draws):
        return record.draws[:n]
    return record.draws[rng.integers(len(record.draws), size=n)]


def _gaussian_draws(
    record: Evidence, hypothesis: Hypothesis, n: int, rng: np.random.Generator
) -> FloatArray:
    """Draws from Laplace's Gaussian; in natural parameters those outside the prior are redrawn."""
    names = hypothesis.names
    mode = np.array([record.map[name] for name in names])
    if not (np.isfinite(mode).all() and np.isfinite(record.posterior_cov).all()):
        msg = f"no draws from Laplace's Gaussian of {record.name}: {record.status.advice}"
        raise DriftbayesError(msg)
    signed = np.array(hypothesis.signed)
    if record.coords == "log":
        sd = np.array([record.log_sd[name] for name in names])
        centre = np.array([record.log_mean[name] for name in names])
        # Of the lognormal, exp(cov) - 1 scales with the product of the means.
        mean = np.array([record.posterior_mean[name] for name in names])
        slope = np.where(signed, 1.0, mean)
        relative = record.posterior_cov / np.outer(slope, slope)
        cov = np.where(signed[:, None] | signed, relative, np.log1p(np.maximum(relative, -0.999)))
        cov[np.diag_indices(len(names))] = sd**2
        fresh = rng.multivariate_normal(centre, cov, size=n)
        return np.where(signed, fresh, np.exp(np.where(signed, 0.0, fresh)))
    kept = np.empty((0, len(names)))
    for _ in range(1000):
        fresh = rng.multivariate_normal(mode, record.posterior_cov, size=2 * n)
        inside = np.array(
            [
                np.isfinite(hypothesis.log_prior(jnp.asarray(t))) and (signed | (t > 0)).all()
                for t in fresh
            ]
        )
        kept = np.concatenate([kept, fresh[inside]])
        if len(kept) >= n:
            return kept[:n]
    msg = f"Laplace's Gaussian lies outside the prior of {hypothesis.name}; use method='auto'"
    raise DriftbayesError(msg)
