r"""A mixture-density network: Gaussian mixtures whose parameters depend on the inputs."""

from dataclasses import dataclass
from math import lgamma, log, pi
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from driftbayes._typing import FloatArray

# Standard deviations of components are within factors exp(±6) of those of the residuals.
_MAX_LOG_SCALE = 6.0
# Size of the initial weights of the last layer: before training the mixture is nearly a standard
# Gaussian, with components that differ just enough to separate.
_FIRST_WEIGHTS, _FIRST_BIAS = 0.1, 0.1


class MixtureNetwork(eqx.Module):
    r"""Density of a vector y given inputs z: K Gaussians with full covariances.

    $$q(y \mid z) = \sum_k w_k(z)\, N\!\big(y;\, \mu_k(z), (U_k^{\mathsf T} U_k)^{-1}(z)\big)$$

    with triangular $U_k$, all from one network of two hidden layers.

    Args:
        weights: Matrices of the three layers.
        biases: Vectors of the three layers.
        n_dim: Length of y.
    """

    weights: tuple[Any, ...]
    biases: tuple[Any, ...]
    n_dim: int = eqx.field(static=True)

    @classmethod
    def first(
        cls, n_inputs: int, n_dim: int, n_components: int, width: int, rng: np.random.Generator
    ) -> "MixtureNetwork":
        """Draw the initial weights, in single precision.

        Args:
            n_inputs: Length of z.
            n_dim: Length of y.
            n_components: Number of components K.
            width: Units of each hidden layer.
            rng: Random number generator.
        """
        n_outputs = n_components * (1 + n_dim + n_dim * (n_dim + 1) // 2)
        sizes = [n_inputs, width, width, n_outputs]
        scales = [1.0, 1.0, _FIRST_WEIGHTS]
        weights = [
            scale * rng.standard_normal((n, m)) / np.sqrt(n)
            for n, m, scale in zip(sizes[:-1], sizes[1:], scales, strict=True)
        ]
        biases = [np.zeros(width), np.zeros(width), _FIRST_BIAS * rng.standard_normal(n_outputs)]
        single = [tuple(np.float32(leaf) for leaf in leaves) for leaves in (weights, biases)]
        return cls(single[0], single[1], n_dim)

    def log_density(self, y: Float[Array, " dim"], z: Float[Array, " input"]) -> Float[Array, ""]:
        """Compute the log density of y given z."""
        n = self.n_dim
        hidden = z
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            hidden = jnp.tanh(hidden @ weight + bias)
        outputs = hidden @ self.weights[-1] + self.biases[-1]
        outputs = outputs.reshape(-1, 1 + n + n * (n + 1) // 2)
        log_weights = jax.nn.log_softmax(outputs[:, 0])
        scale = _MAX_LOG_SCALE * jnp.tanh(outputs[:, 1 + n : 1 + 2 * n] / _MAX_LOG_SCALE)
        away = y[None, :] - outputs[:, 1 : 1 + n]
        # Loop over the rows of the triangular matrix: at most three.
        squares, index = jnp.zeros_like(log_weights), 1 + 2 * n
        for row in range(n):
            white = jnp.exp(scale[:, row]) * away[:, row]
            for column in range(row):
                white = white + outputs[:, index] * away[:, column]
                index += 1
            squares = squares + white**2
        logs = log_weights + scale.sum(axis=1) - 0.5 * squares - 0.5 * n * log(2 * pi)
        return jax.nn.logsumexp(logs)


@dataclass(frozen=True, eq=False)
class LinearFit:
    r"""Linear regression of displacements on inputs; networks learn the residuals.

    $$y = L^{-1} (\Delta x - b - A^{\mathsf T} z), \qquad L L^{\mathsf T} = \operatorname{Cov}$$

    Args:
        centre: Means of the inputs.
        scale: Standard deviations of the inputs.
        slope: Coefficients A (input, dim) of standardised inputs.
        mean: Intercept b.
        root: Cholesky factor L.
    """

    centre: FloatArray
    scale: FloatArray
    slope: FloatArray
    mean: FloatArray
    root: FloatArray

    def inputs(self, inputs: FloatArray) -> FloatArray:
        """Standardise inputs; constant inputs become zero."""
        return (inputs - self.centre) / self.scale

    def residuals(self, dx: FloatArray, inputs: FloatArray) -> FloatArray:
        """Compute the whitened residuals y of displacements."""
        away = dx - self.mean - self.inputs(inputs) @ self.slope
        return np.asarray(np.linalg.solve(self.root, away.T).T, dtype=np.float64)

    @property
    def log_det(self) -> float:
        """Log determinant of L: the log density of y minus that of Δx."""
        return float(np.sum(np.log(np.diag(self.root))))


def linear_fit(dx: FloatArray, inputs: FloatArray, n_linear: int) -> LinearFit:
    """Fit displacements by a linear function of inputs, by ridge regression.

    Args:
        dx: Displacements (step, dim).
        inputs: Inputs (step, input); a constant column has no effect.
        n_linear: Number of last columns with a linear effect.
    """
    n, n_dim = dx.shape
    centre, spread = inputs.mean(axis=0), inputs.std(axis=0)
    varies = spread > 1e-9 * (1 + np.abs(centre))
    scale = np.where(varies, spread, np.inf)
    z, mean = (inputs - centre) / scale, dx.mean(axis=0)
    # Shrink the coefficients by the weight of one step: there may be as many inputs as steps.
    last = z[:, z.shape[1] - n_linear :]
    slope = np.zeros((z.shape[1], n_dim))
    slope[z.shape[1] - n_linear :] = np.linalg.solve(
        last.T @ last + np.eye(n_linear), last.T @ (dx - mean)
    )
    residual = dx - mean - z @ slope
    cov, total = residual.T @ residual / n, float(np.mean((dx - mean) ** 2)) or 1.0
    # Shrink the covariance towards a sphere by the weight of one step: motion along a line has a
    # singular covariance.
    cov = (n * cov + total * np.eye(n_dim)) / (n + 1)
    return LinearFit(centre, scale, slope, mean, np.linalg.cholesky(cov))


def student_log_density(y: FloatArray, freedom: float) -> FloatArray:
    """Compute the log density of the standard multivariate Student distribution.

    Args:
        y: Vectors (step, dim).
        freedom: Degrees of freedom.
    """
    n = y.shape[1]
    constant = lgamma(0.5 * (freedom + n)) - lgamma(0.5 * freedom) - 0.5 * n * log(freedom * pi)
    return np.asarray(constant - 0.5 * (freedom + n) * np.log1p(np.sum(y**2, axis=1) / freedom))
