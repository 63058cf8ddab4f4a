"""Outliers: fixes with far larger measurement errors than the others."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp

from driftbayes._jax_typing import Key, Leaf, Positions, Scalar, ScalarLike
from driftbayes._precision import as_leaf
from driftbayes.likelihood import Collected
from driftbayes.likelihood._gaussian import LOG_2PI
from driftbayes.models._base import Kind, Parameter, fact
from driftbayes.models._options._base import AbstractOption


class Outliers(AbstractOption):
    r"""The model with measurement errors, of which a fraction is far larger than the others.

    Each fix is an outlier with probability p; the errors of all its coordinates then have the
    additional variance $s^2$. Given the earlier fixes of its run, and with m and V the mean and
    variance that a Kalman filter predicts, a fix has the density

    $$p(y) = (1 - p)\,N(y; m, V) + p\,N(y; m, V + s^2),$$

    and the filter continues from one Gaussian with the mean and covariance of the mixture of both
    posteriors; the part of the covariance due to the distance between their means is averaged over
    axes. The product of these densities is normalised and defines the model. The exact density of
    independent outliers, a sum over $2^n$ cases, differs more the more outliers there are: by 0.1
    nats for a typical track of eight fixes with p = 0.02, and by 0.3 nats with p = 0.2.

    Args:
        base: The wrapped model, with measurement error.
        fraction: Probability p that a fix is an outlier, below 1/2.
        spread: Standard deviation s of the additional error of each coordinate, in length.

    Example:
        >>> import driftbayes as db
        >>> noisy = db.Noise(db.Langevin(gamma=db.Exponential(1), k=db.Exponential(2)), sigma=0.1)
        >>> db.Outliers(noisy, fraction=db.Uniform(0, 0.5), spread=db.Exponential(1)).name
        'langevin+noise+outliers'
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

    def log_density(self, sums: Collected) -> Scalar:
        (terms,) = sums.parts
        value = sums.excess - 0.5 * terms.n * terms.n_dim * LOG_2PI
        return jnp.where(jnp.isnan(value), -jnp.inf, value)

    def apply(self, key: Key, positions: Positions, tau: ScalarLike) -> Positions:
        key_which, key_size = jax.random.split(key)
        is_outlier = jax.random.bernoulli(key_which, self.fraction, (*positions.shape[:-1], 1))
        error = self.spread * jax.random.normal(key_size, positions.shape)
        return positions + jnp.where(is_outlier, error, 0.0)
