r"""Particles in one flow, seen with errors: one filter of all positions and velocities.

Kicks have the correlation of the flow between the fixes at which the step begins, not between the
particles, which are not known. That is an approximation for errors much smaller than the
correlation length; `decorrelation` says how much correlation is lost over such a distance. With
this the density is exact.

With E the variances of the errors, P the covariance of the positions as a step ends, Π that with
the velocities and $S = P + E = L L^T$ that of the fixes, what is left is

$$P \to E - E S^{-1} E, \qquad Π \to E S^{-1} Π,$$

which loses no digits as errors vanish, and then is the filter of exact positions.
"""

__all__ = ["decorrelation", "noisy_products"]

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from driftbayes.typing import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class NoisyStep:
    """What happens at one sampling time.

    Args:
        kept: Of the particles of the step before, those that are still there; they come first.
        n_new: Number of particles that are seen first.
        dx: Steps from fix to fix, (particle, axis), or (axis and particle, 1) if axes correlate.
        begin: Variance of the error of the fix at which each row begins.
        end: Of that at which it ends.
    """

    kept: IntArray
    n_new: int
    dx: FloatArray
    begin: FloatArray
    end: FloatArray


def decorrelation(sd: float, length: float, smoothness: float) -> float:
    """Correlation that the flow loses over the error of a separation, as a share.

    Args:
        sd: Standard deviation of the error of each coordinate of a fix.
        length: Correlation length.
        smoothness: 1/2, 3/2 or 5/2.
    """
    s = np.sqrt(2 * smoothness) * np.sqrt(2.0) * sd / length
    lost = {0.5: 1.0, 1.5: 1 + s, 2.5: 1 + s + s**2 / 3}[smoothness] * np.exp(-s)
    return float(1 - lost)


def noisy_products(
    steps: Sequence[NoisyStep],
    correlation: Callable[[int], FloatArray],
    matrices: FloatArray,
    velocity: float,
    extra: float,
) -> tuple[float, FloatArray]:
    """Log-determinant of one column, and whitened products of all.

    Args:
        steps: Steps of all particles, by time.
        correlation: Correlation of the kicks of a step.
        matrices: Propagator and noise covariance of position and velocity, or of position alone.
        velocity: Stationary variance of the velocity; 0 of a model without memory.
        extra: Variance of every fix beside its error.
    """
    has_memory = matrices.shape[1] > 1
    (move, phi), (q_xx, q_xv, q_vv) = (0.0, 0.0), (matrices[1, 0, 0], 0.0, 0.0)
    if has_memory:
        move, phi = matrices[0, :, 1]
        q_xv, q_vv = matrices[1, 0, 1], matrices[1, 1, 1]
    n_columns = steps[0].dx.shape[1]
    log_det, total = 0.0, np.zeros((n_columns, n_columns))
    state = _State.empty(n_columns)
    for k, step in enumerate(steps):
        corr = correlation(k)
        try:
            state = state.entered(step, corr, step.begin + extra, velocity)
            moved = state.covariances[1] * move
            ahead = phi * state.covariances[2]
            cross = phi * state.covariances[1] + move * ahead + q_xv * corr
            positions = state.covariances[0] + moved + moved.T
            positions += move**2 * state.covariances[2] + q_xx * corr
            error = step.end + extra
            factor = np.linalg.cholesky(positions + np.diag(error))
        except np.linalg.LinAlgError:
            return np.nan, total
        white = solve_triangular(
            factor, step.dx - state.position - move * state.velocity, lower=True
        )
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
            # Counted from the latest fix.
            -of_error.T @ white,
            velocity_mean,
            (np.diag(error) - of_error.T @ of_error, of_error.T @ of_velocity, cov),
        )
    return log_det, total


@dataclass(frozen=True, eq=False)
class _State:
    """Mean positions and velocities, and covariances: of positions, with velocities, of these."""

    position: FloatArray
    velocity: FloatArray
    covariances: tuple[FloatArray, FloatArray, FloatArray]

    @classmethod
    def empty(cls, n_columns: int) -> "_State":
        none = np.zeros((0, n_columns))
        return cls(none, none, (np.zeros((0, 0)),) * 3)

    def entered(
        self, step: NoisyStep, corr: FloatArray, error: FloatArray, velocity: float
    ) -> "_State":
        """Without the particles that left, and with those that are new."""
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
            # Regression on the old under the stationary distribution at these positions.
            weights = np.zeros((len(new), len(old)))
            if len(old):
                known = cho_factor(corr[np.ix_(old, old)], lower=True)
                weights = cho_solve(known, corr[np.ix_(old, new)]).T
            rest = corr[np.ix_(new, new)] - weights @ corr[np.ix_(old, new)]
            mean[1][new] = weights @ v
            whole[1][np.ix_(old, new)] = xv @ weights.T
            whole[2][np.ix_(new, old)] = weights @ vv
            whole[2][np.ix_(old, new)] = (weights @ vv).T
            whole[2][np.ix_(new, new)] = weights @ vv @ weights.T + velocity * rest
        return _State(mean[0], mean[1], (whole[0], whole[1], whole[2]))
