"""Outliers: fixes of which some are far off."""

__all__ = ["Outliers"]

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from driftbayes.errors import DriftbayesError
from driftbayes.jax_typing import Key, Leaf, Scalar, ScalarLike
from driftbayes.likelihood import Collected, PaddedSteps
from driftbayes.likelihood.kalman import LOG_2PI
from driftbayes.models._base import Parameter, fact
from driftbayes.models._prepare import Data, Kind
from driftbayes.models.options._base import AbstractOption
from driftbayes.precision import as_leaf


class Outliers(AbstractOption):
    r"""The model with measurement errors of which a fraction is far larger than the others.

    Each fix is an outlier with probability p; the error of all of its coordinates then has the
    additional variance $s^2$. Given the earlier fixes of its run, with m and V the mean and the
    variance that a Kalman filter predicts, a fix has the density

    $$p(y) = (1 - p)\,N(y; m, V) + p\,N(y; m, V + s^2),$$

    and the filter goes on from one Gaussian with the mean and the covariance of the two posteriors,
    the part of the covariance that comes from their distance averaged over the axes. The product
    of these densities is normalised: it defines the model. That of errors that are independent, a
    sum over $2^n$ cases, is near it where outliers are few, and farther where they are many: by
    0.1 nats for a typical track of eight fixes with p = 0.02, and by 0.3 with p = 0.2.

    Args:
        base: The other model, with measurement error.
        fraction: Probability p that a fix is an outlier, below 1/2.
        spread: Standard deviation s of the additional error of each coordinate, in length.
    """

    fraction: Leaf = eqx.field(converter=as_leaf)
    spread: Leaf = eqx.field(converter=as_leaf)

    option: ClassVar[str] = "outliers"
    summary: ClassVar[str] = fact(lambda self: f"{self.base.summary}, some of them far larger")
    own: ClassVar[dict[str, Parameter]] = {
        "fraction": Parameter("p", "probability that a fix is an outlier, below 1/2", 0, 0, 0.5),
        "spread": Parameter("s", "standard deviation of the additional error of outliers", 1, 0),
    }
    limit: ClassVar[str] = fact(lambda self: f"{self.base.name}, as fraction → 0")
    is_gaussian: ClassVar[bool] = False
    kind: ClassVar[Kind] = "steps"

    def outlier_law(self) -> tuple[ScalarLike, ScalarLike]:
        return self.fraction, self.spread**2

    def log_density(self, data: Data) -> Scalar:
        if isinstance(data, Collected):
            (terms,) = data.parts
            value = data.excess - 0.5 * terms.n * terms.n_dim * LOG_2PI
            return jnp.where(jnp.isnan(value), -jnp.inf, value)
        if not isinstance(data, PaddedSteps):
            raise DriftbayesError(f"{self.name} needs single steps; prepare the data for it")
        errors = data.noise_variance + self.fix_variance()
        total = jnp.sum(jax.vmap(self._of_run)(data.dx, data.interval, data.valid, errors))
        return jnp.where(jnp.isnan(total), -jnp.inf, total)

    def _of_run(
        self,
        dx: Float[Array, "step dim"],
        interval: Float[Array, " step"],
        valid: Float[Array, " step"],
        errors: Float[Array, " position"],
    ) -> Scalar:
        p, extra = self.outlier_law()
        stepper, n_dim = self.stepper(), dx.shape[-1]

        def step(carry: tuple[Array, Array], inputs: tuple[Array, ...]) -> tuple[Any, Array]:
            mean, cov = carry
            dx, interval, error = inputs
            propagate, diffuse = stepper(interval)
            mean, cov = mean @ propagate.T, propagate @ cov @ propagate.T + diffuse
            innovation = dx - mean[:, 0]
            variance = cov[0, 0] + error + jnp.stack([jnp.zeros(()), jnp.asarray(extra)])
            square = jnp.sum(innovation**2)
            prior = jnp.log(jnp.stack([1 - p, jnp.asarray(p)]))
            logs = prior - 0.5 * (n_dim * (LOG_2PI + jnp.log(variance)) + square / variance)
            weight = jax.nn.softmax(logs)
            gain = weight @ (1 / variance)
            apart = weight[0] * weight[1] * (1 / variance[0] - 1 / variance[1]) ** 2
            column = cov[:, 0]
            mean = (mean + gain * jnp.outer(innovation, column)).at[:, 0].add(-dx)
            cov = cov - (gain - apart * square / n_dim) * jnp.outer(column, column)
            return (mean, cov), jax.nn.logsumexp(logs)

        cov = self.initial_covariance().at[0, 0].add(errors[0] + p * extra)
        start = (jnp.zeros((n_dim, len(cov))), cov)
        _, logs = jax.lax.scan(step, start, (dx, interval, errors[1:]))
        return jnp.sum(jnp.where(valid > 0, logs, 0.0))

    def apply(
        self, key: Key, positions: Float[Array, "particle position dim"], tau: ScalarLike
    ) -> Float[Array, "particle position dim"]:
        key_which, key_size = jax.random.split(key)
        is_outlier = jax.random.bernoulli(key_which, self.fraction, (*positions.shape[:-1], 1))
        error = self.spread * jax.random.normal(key_size, positions.shape)
        return positions + jnp.where(is_outlier, error, 0.0)
