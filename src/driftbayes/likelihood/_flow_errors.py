r"""Joint filter of positions and velocities of particles in one flow, with measurement errors.

The noise has the correlation of the flow between the fixes at which the step begins, since the true
positions are unknown. This approximation needs errors much smaller than the correlation length;
`decorrelation` computes the correlation lost over such a distance. Otherwise the density is exact.

Let E be the error variances, P the covariance of the positions at the end of a step, Π that of
positions and velocities, and $S = P + E = L L^T$ that of the fixes. The update is

$$P \to E - E S^{-1} E, \qquad Π \to E S^{-1} Π,$$

which keeps full precision as errors vanish and then becomes the filter of exact positions.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from driftbayes._typing import FloatArray, IntArray
from driftbayes.likelihood._flow_steps import FlowStep


def decorrelation(sd: float, length: float, smoothness: float) -> float:
    """Compute the relative loss of correlation of the flow over the error of a separation.

    Args:
        sd: Standard deviation of the error of each coordinate of a fix.
        length: Correlation length.
        smoothness: 1/2, 3/2 or 5/2.
    """
    s = np.sqrt(2 * smoothness) * np.sqrt(2.0) * sd / length
    kept = {0.5: 1.0, 1.5: 1 + s, 2.5: 1 + s + s**2 / 3}[smoothness] * np.exp(-s)
    return float(1 - kept)


def noisy_products(
    steps: Sequence[FlowStep],
    correlation: Callable[[int], FloatArray],
    matrices: FloatArray,
    velocity: float,
    extra: float,
    *,
    is_tensor: bool,
) -> tuple[float, FloatArray]:
    """Compute the log-determinant of one column and the whitened products of all.

    Args:
        steps: Steps of all particles, by time.
        correlation: Function that returns the correlation of the noise at a step.
        matrices: Propagator and noise covariance of position and velocity, or of position alone.
        velocity: Stationary variance of the velocity; 0 for a model without memory.
        extra: Error variance of every fix in addition to the known one.
        is_tensor: Whether the axes are correlated and are one column.
    """
    has_memory = matrices.shape[1] > 1
    (move, phi), (q_xx, q_xv, q_vv) = (0.0, 0.0), (matrices[1, 0, 0], 0.0, 0.0)
    if has_memory:
        move, phi = matrices[0, :, 1]
        q_xv, q_vv = matrices[1, 0, 1], matrices[1, 1, 1]
    n_columns = 1 if is_tensor else steps[0].dx.shape[1]
    log_det, total = 0.0, np.zeros((n_columns, n_columns))
    no_means = np.zeros((0, n_columns))
    state = _State(no_means, no_means, (np.zeros((0, 0)),) * 3)
    for k, step in enumerate(steps):
        corr, dx = correlation(k), step.columns(is_tensor=is_tensor)
        errors = (step.begin_error, step.end_error)
        begin, error = (np.tile(variance, 1 + is_tensor) + extra for variance in errors)
        try:
            state = state.update_particles(step, corr, begin, velocity)
            moved = state.covariances[1] * move
            ahead = phi * state.covariances[2]
            cross = phi * state.covariances[1] + move * ahead + q_xv * corr
            positions = state.covariances[0] + moved + moved.T
            positions += move**2 * state.covariances[2] + q_xx * corr
            factor = np.linalg.cholesky(positions + np.diag(error))
        except np.linalg.LinAlgError:
            return np.nan, total
        left = dx - state.position - move * state.velocity
        white = solve_triangular(factor, left, lower=True)
        log_det += 2 * float(np.sum(np.log(np.diag(factor))))
        total += white.T @ white
        of_error = solve_triangular(factor, np.diag(error), lower=True)
        velocity_mean, cov = np.zeros_like(white), np.zeros_like(corr)
        of_velocity = cov
        if has_memory:
            of_velocity = solve_triangular(factor, cross, lower=True)
            velocity_mean = phi * state.velocity + of_velocity.T @ white
            cov = phi * ahead + q_vv * corr - of_velocity.T @ of_velocity
        state = _State(
            # Relative to the latest fix.
            -of_error.T @ white,
            velocity_mean,
            (np.diag(error) - of_error.T @ of_error, of_error.T @ of_velocity, cov),
        )
    return log_det, total


def regression_on_old(
    corr: FloatArray, old: IntArray, new: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Regress velocities of new particles on those of old ones, in the stationary distribution.

    Returns the weights, (new, old), and the correlation that remains between the new particles.
    """
    cross = corr[np.ix_(old, new)]
    weights = np.zeros((len(new), len(old)))
    if len(old):
        weights = cho_solve(cho_factor(corr[np.ix_(old, old)], lower=True), cross).T
    return weights, corr[np.ix_(new, new)] - weights @ cross


@dataclass(frozen=True, eq=False)
class _State:
    """Means of positions and velocities; covariances (xx, xv, vv) of both."""

    position: FloatArray
    velocity: FloatArray
    covariances: tuple[FloatArray, FloatArray, FloatArray]

    def update_particles(
        self, step: FlowStep, corr: FloatArray, error: FloatArray, velocity: float
    ) -> "_State":
        """Remove the particles that left and add new ones."""
        n_columns, size = self.position.shape[1], len(corr)
        n_old = len(step.kept)
        per = size // (n_old + step.n_new)
        n_before = len(self.position) // per
        rows = (np.arange(per)[:, None] * n_before + step.kept).ravel()
        if n_before == n_old and not step.n_new:
            return self
        xx, xv, vv = (part[np.ix_(rows, rows)] for part in self.covariances)
        x, v = self.position[rows], self.velocity[rows]
        places = np.arange(size).reshape(per, -1)
        old, new = places[:, :n_old].ravel(), places[:, n_old:].ravel()
        whole = [np.zeros((size, size)) for _ in range(3)]
        mean = np.zeros((2, size, n_columns))
        for out, part in zip(whole, (xx, xv, vv), strict=True):
            out[np.ix_(old, old)] = part
        mean[0][old], mean[1][old] = x, v
        whole[0][new, new] = error[new]
        if velocity:
            weights, rest = regression_on_old(corr, old, new)
            mean[1][new] = weights @ v
            whole[1][np.ix_(old, new)] = xv @ weights.T
            whole[2][np.ix_(new, old)] = weights @ vv
            whole[2][np.ix_(old, new)] = (weights @ vv).T
            whole[2][np.ix_(new, new)] = weights @ vv @ weights.T + velocity * rest
        return _State(mean[0], mean[1], (whole[0], whole[1], whole[2]))
