"""Likelihood of particles in one flow on a GPU, by JAX; see `_flow.py`."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular

from driftbayes._precision import in_double_precision
from driftbayes._typing import FloatArray

# Parameter values per call of the program, for few and for many.
_FEW_ROWS, _N_ROWS = 4, 16
# Elements of all covariance matrices that are factorised in one batch.
_BATCH_ELEMENTS = 1 << 22


def accelerator() -> Any:
    """Return the GPU that JAX computes on; None if there is none."""
    return jax.devices()[0] if jax.default_backend() == "gpu" else None


@dataclass(frozen=True, eq=False)
class Crowd:
    """Particles that are present at all times.

    Args:
        x: Positions at which steps begin, (time, particle, axis).
        dx: Steps, (time, particle, axis), or (time, axis and particle, 1) for correlated axes.
        period: Length of the domain along each axis; 0 where it is not periodic.
        device: JAX device.
    """

    x: FloatArray
    dx: FloatArray
    period: FloatArray
    device: Any

    @in_double_precision
    def products(
        self, matrices: FloatArray, start: FloatArray, shapes: FloatArray
    ) -> list[tuple[float, FloatArray]]:
        """Compute the log-determinant and whitened products of the columns for each row.

        Args:
            matrices: Propagator and noise covariance, (row, 2, state, state).
            start: Initial covariance, (row, state, state).
            shapes: Length, individual share, divergent share (NaN if axes are independent) and
                smoothness, (row, 4).
        """
        n_rows = len(shapes)
        # Each smoothness needs a separate program; there is rarely more than one.
        found: list[Any] = [None] * n_rows
        for smoothness in np.unique(shapes[:, 3]):
            rows = np.flatnonzero(shapes[:, 3] == smoothness)
            for low in range(0, len(rows), _N_ROWS):
                chosen = rows[low : low + _N_ROWS]
                padded = np.resize(chosen, _FEW_ROWS if len(chosen) <= _FEW_ROWS else _N_ROWS)
                given = (matrices[padded], start[padded], shapes[padded, :3])
                with jax.default_device(self.device):
                    log_det, products = _evaluate_rows(
                        *(self.x, self.dx, self.period, given),
                        smoothness=float(smoothness),
                        is_tensor=self.dx.shape[1] > self.x.shape[1],
                    )
                    log_det, products = np.asarray(log_det), np.asarray(products)
                for place, row in enumerate(chosen):
                    found[row] = (float(log_det[place]), products[place])
        return found


@partial(jax.jit, static_argnames=("smoothness", "is_tensor"))
def _evaluate_rows(
    x: Any, dx: Any, period: Any, rows: Any, *, smoothness: float, is_tensor: bool
) -> tuple[Any, Any]:
    """Compute log-determinant and products of several rows."""

    def evaluate(given: tuple[Any, Any, Any]) -> tuple[Any, Any]:
        matrices, start, shape = given

        def correlation(x: Any) -> Any:
            return _correlation(x, period, shape, smoothness, is_tensor=is_tensor)

        if matrices.shape[-1] == 1:
            return _without_memory(x, dx, correlation, matrices[1, 0, 0])
        return _with_memory(x, dx, correlation, matrices, start[1, 1])

    at_once = int(np.clip(_BATCH_ELEMENTS // dx.shape[1] ** 2, 1, _N_ROWS))
    return jax.lax.map(evaluate, rows, batch_size=at_once)


def _correlation(x: Any, period: Any, shape: Any, smoothness: float, *, is_tensor: bool) -> Any:
    """Correlation of the noise, by axis and particle for correlated axes."""
    length, own, divergence = shape
    apart = x[:, None] - x[None]
    whole = period[None, None]
    images = jnp.round(apart / jnp.where(whole > 0, whole, 1.0))
    apart = apart - jnp.where(whole > 0, whole, 0.0) * images
    squared = jnp.sum(apart**2, axis=-1)
    r = jnp.sqrt(squared)
    s = np.sqrt(2 * smoothness) / length * r
    fall = jnp.exp(-s)
    if smoothness == 0.5:
        along, slope = fall, -s * fall
    elif smoothness == 1.5:
        along, slope = (1 + s) * fall, -s * s * fall
    else:
        along, slope = (1 + s + s * s / 3) * fall, -s * s * (1 + s) / 3 * fall
    along, slope = (1 - own) * along, (1 - own) * slope
    same = jnp.eye(len(x)) * own + along
    if not is_tensor:
        return same
    same = same + (1 - divergence) * slope
    turn = (1 - 2 * divergence) * slope / jnp.where(squared > 0, squared, 1.0)
    e, f = apart[..., 0], apart[..., 1]
    return jnp.block([[same - turn * e * e, -turn * e * f], [-turn * e * f, same - turn * f * f]])


def _whitened(covariance: Any, dx: Any) -> tuple[Any, Any, Any]:
    """Return log-determinant, whitened steps and lower Cholesky factor."""
    factor = jnp.linalg.cholesky(covariance, symmetrize_input=False)
    white = solve_triangular(factor, dx, lower=True)
    return 2 * jnp.sum(jnp.log(jnp.diag(factor))), white, factor


def _without_memory(x: Any, dx: Any, correlation: Any, variance: Any) -> tuple[Any, Any]:
    """Factorise each step separately, since steps are independent."""

    def step(given: tuple[Any, Any]) -> tuple[Any, Any]:
        x, dx = given
        log_det, white, _ = _whitened(correlation(x), dx)
        return log_det + len(dx) * jnp.log(variance), white.T @ white / variance

    log_det, products = jax.lax.map(step, (x, dx))
    return jnp.sum(log_det), jnp.sum(products, axis=0)


def _with_memory(
    x: Any, dx: Any, correlation: Any, matrices: Any, velocity: Any
) -> tuple[Any, Any]:
    """Kalman filter of all velocities; see `FlowEngine`."""
    s, phi = matrices[0, 0, 1], matrices[0, 1, 1]
    q_xx, q_xv, q_vv = matrices[1, 0, 0], matrices[1, 0, 1], matrices[1, 1, 1]
    alpha = phi / s
    beta = q_xv - alpha * q_xx
    rest = q_vv - alpha**2 * q_xx - 2 * alpha * beta

    def step(carry: tuple[Any, Any], given: tuple[Any, Any]) -> tuple[Any, Any]:
        mean, cov = carry
        x, dx = given
        corr = correlation(x)
        left = dx - s * mean
        log_det, white, factor = _whitened(s**2 * cov + q_xx * corr, left)
        whole = solve_triangular(factor, corr, lower=True)
        mean = phi * mean + alpha * left + beta * (whole.T @ white)
        return (mean, rest * corr - beta**2 * (whole.T @ whole)), (log_det, white.T @ white)

    begin = jnp.zeros_like(dx[0]), velocity * correlation(x[0])
    _, (log_det, products) = jax.lax.scan(step, begin, (x, dx))
    return jnp.sum(log_det), jnp.sum(products, axis=0)
