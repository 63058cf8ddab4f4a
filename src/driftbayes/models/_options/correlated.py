"""Particles in one flow: noise that is correlated in space."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from driftbayes._jax_typing import Key, Leaf, Positions, ScalarLike
from driftbayes._precision import as_leaf
from driftbayes.likelihood._flow import distances, flow_correlation
from driftbayes.models._base import Kind, Parameter, fact
from driftbayes.models._options._base import AbstractOption

_SHARED = {
    "length": Parameter("ℓ", "correlation length of the flow", 1, 0, is_distance=True),
    "own_share": Parameter(
        "a", "share of the increments that is each particle's own, below 1", 0, 0, upper=1.0
    ),
    "nu": Parameter("ν", "order of Matérn's correlation: 1/2, 3/2 or 5/2, known", 0, 0),
}


class _AbstractFlow(AbstractOption):
    """A model with noise that is correlated in space."""

    length: Leaf = eqx.field(converter=as_leaf)
    own_share: Leaf = eqx.field(converter=as_leaf)
    nu: Leaf = eqx.field(converter=as_leaf)

    limit: ClassVar[str] = fact(lambda self: f"{self.base.name}, as length → 0")
    kind: ClassVar[Kind] = "flow"
    needs_positions: ClassVar[bool] = True
    memory: ClassVar[int | None] = None

    @property
    @abstractmethod
    def divergent_share(self) -> ScalarLike:
        """Share of the variance in irrotational motion; NaN if axes are independent."""

    def trajectory_numbers(self) -> tuple[Array, ...]:
        values = (self.length, self.own_share, self.divergent_share, self.nu)
        return tuple(jnp.asarray(value) for value in values)

    def simulate(
        self, key: Key, *, n_particles: int, n_steps: int, n_dim: int, tau: ScalarLike
    ) -> Positions:
        """Simulate particles that start uniformly in a square of ten correlation lengths.

        Steps are sequential, since each depends on the positions after the last one.
        """
        rng = np.random.Generator(np.random.Philox(np.asarray(jax.random.key_data(key))))
        x = float(self.length) * 10 * (rng.random((n_particles, n_dim)) - 0.5)
        return jnp.asarray(simulate_flow(self, rng, x, n_steps, float(tau)))


class Flow(_AbstractFlow):
    r"""The model with noise that is correlated in space, as for particles in one flow.

    $$\operatorname{Cov}(\xi_p, \xi_q) = (1 - a)\,C(|x_p - x_q|; \ell) + a\,\delta_{pq}$$

    $\xi$ is the random part of a step. C is Matérn's correlation between the positions at which
    the step begins. Axes are independent. As $\ell \to 0$ or $a \to 1$ the particles become
    independent. The option applies to Brownian and Langevin motion.

    With measurement errors, known or inferred (`Noise`), C is evaluated between the fixes: an
    approximation for errors much smaller than ℓ.

    In a periodic domain distances are to the nearest images. On the earth they are chords, for
    which Matérn's correlation of any order is positive definite.

    Args:
        base: Model of one particle.
        length: Correlation length ℓ.
        own_share: Share a of the noise that is independent between particles.
        nu: Order ν of the correlation: 1/2, 3/2 or 5/2.

    Example:
        >>> import driftbayes as db
        >>> langevin = db.Langevin(gamma=db.Exponential(1), k=db.Exponential(2))
        >>> db.Flow(langevin, length=db.Exponential(10), own_share=db.Uniform(0, 1), nu=1.5).name
        'langevin+flow'
    """

    needs_plane: ClassVar[bool] = False
    option: ClassVar[str] = "flow"
    summary: ClassVar[str] = fact(lambda self: f"{self.base.summary}, in one flow")
    own: ClassVar[dict[str, Parameter]] = _SHARED

    @property
    def divergent_share(self) -> ScalarLike:
        return np.nan


class Eddies(_AbstractFlow):
    r"""The model in a two-dimensional flow of which only a share δ of the variance is divergent.

    Otherwise as `Flow`.

    Args:
        base: Model of one particle.
        length: Correlation length ℓ of the velocity along the separation.
        own_share: Share a of the noise that is independent between particles.
        nu: Order ν of the correlation: 1/2, 3/2 or 5/2.
        divergence: Share δ of the variance in irrotational motion.

    Example:
        >>> import driftbayes as db
        >>> langevin = db.Langevin(gamma=db.Exponential(1), k=db.Exponential(2))
        >>> model = db.Eddies(
        ...     langevin, length=10.0, own_share=db.Uniform(0, 1), nu=1.5, divergence=0.0
        ... )
        >>> model.name
        'langevin+eddies'
    """

    divergence: Leaf = eqx.field(converter=as_leaf)

    option: ClassVar[str] = "eddies"
    summary: ClassVar[str] = fact(lambda self: f"{self.base.summary}, in one flow of eddies")
    own: ClassVar[dict[str, Parameter]] = {
        **_SHARED,
        "divergence": Parameter("δ", "share of divergent motion, below 1", 0, 0, upper=1.0),
    }

    @property
    def divergent_share(self) -> ScalarLike:
        return self.divergence


def simulate_flow(
    model: _AbstractFlow,
    rng: np.random.Generator,
    x: Float[np.ndarray, "particle dim"],
    n_steps: int,
    tau: float,
    period: Sequence[float | None] | None = None,
) -> Float[np.ndarray, "particle position dim"]:
    """Simulate positions of particles that start at x, with the measurement error of the model.

    Positions are not wrapped in a periodic domain.

    Args:
        model: The model.
        rng: Random number generator.
        x: Initial positions.
        n_steps: Number of steps.
        tau: Sampling time.
        period: Length of the domain along each axis, None where it is not periodic.
    """
    length, own, divergence, nu = (
        float(v) for v in (model.length, model.own_share, model.divergent_share, model.nu)
    )
    propagate, noise = (np.asarray(part) for part in model.base.transition(jnp.asarray(tau)))
    start = np.asarray(model.base.initial_covariance())[1:, 1:]
    n, n_dim = x.shape
    m = len(start)
    state = np.zeros((m, n * n_dim))
    path = [x]
    for k in range(n_steps):
        r = distances(x, period)
        corr = (1 - own) * flow_correlation(x, r, length, nu, divergence, period)
        corr[np.diag_indices(len(corr))] += own
        if len(corr) == n:
            corr = np.asarray(np.kron(np.eye(n_dim), corr), dtype=np.float64)
        root = np.linalg.cholesky(corr + 1e-12 * np.eye(len(corr)))
        if k == 0 and m:
            state = np.linalg.cholesky(start) @ rng.standard_normal((m, n * n_dim)) @ root.T
        kick = _root(noise) @ rng.standard_normal((m + 1, n * n_dim)) @ root.T
        step = propagate[0, 1:] @ state + kick[0]
        state = propagate[1:, 1:] @ state + kick[1:]
        x = x + step.reshape(n_dim, n).T
        path.append(x)
    found = np.stack(path, axis=1)
    sd = np.sqrt(float(model.base.fix_variance()))
    return found + sd * rng.standard_normal(found.shape) if sd > 0 else found


def _root(matrix: np.ndarray) -> np.ndarray:
    """Return a square root of a covariance that may be singular."""
    values, vectors = np.linalg.eigh(matrix)
    return vectors * np.sqrt(np.maximum(values, 0.0))
