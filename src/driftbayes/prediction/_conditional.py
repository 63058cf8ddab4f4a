r"""Paths of lost particles conditional on observed ones, at one parameter value.

The noise covariance of the observed particles does not depend on the position of an unobserved one.
The joint density is therefore that of the observed particles, with their velocities w, times the
conditional density of the lost one,

$$p(x_o, w_o)\; \prod_k p(x_{l,k+1}, w_{l,k+1} \mid x_{l,k}, w_{l,k}, \text{noise of the others}).$$

A path is drawn exactly and without weights in two parts. First the velocities of the observed
particles are drawn given all their steps, by forward filtering and backward sampling; they
determine the noise of every step. Then the path of the lost particle is drawn: at each step its
noise is Gaussian given that of the others, at the position it has reached.

Distances are those of nearest images in a periodic domain, and those on the tangent plane on the
earth, where the evidence uses chords: over 1,000 km these differ by 0.1 %.

A particle first observed after another was lost informs on the lost one's noise from then on.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import block_diag, cho_factor, cho_solve, cholesky, solve_triangular

from driftbayes._typing import FloatArray, IntArray
from driftbayes.likelihood._engines import rows_first
from driftbayes.likelihood._flow import check_smoothness
from driftbayes.models import AbstractModel
from driftbayes.prediction._forecast import rows_of
from driftbayes.prediction._simultaneous import SimultaneousSteps

# Propagator and noise covariance over one step, and stationary covariance.
_Matrices = tuple[FloatArray, FloatArray, FloatArray]
# Added to the diagonal of correlation matrices, which are nearly singular for close particles.
_JITTER = 1e-12


@dataclass(frozen=True, eq=False)
class SharedMotion:
    """Matrices of a model with shared motion, at one sampling time.

    Args:
        own: Matrices of one particle, or of its independent part.
        common: Matrices of the common motion; None for a flow.
        shape: Correlation length, independent fraction, divergent fraction (NaN if axes are
            independent) and smoothness of a flow; None for a common motion.
        period: Period of the domain along each axis, None where it is not periodic.
    """

    own: _Matrices
    common: _Matrices | None
    shape: tuple[float, ...] | None
    period: Sequence[float | None] | None = None


def shared_motion(
    model: AbstractModel, tau: float, period: Sequence[float | None] | None = None
) -> SharedMotion:
    """Evaluate a model, with parameters, at a sampling time.

    Args:
        model: The model.
        tau: Sampling time.
        period: Period of the domain along each axis, None where it is not periodic.
    """
    rows = rows_of([model])
    motions = rows_first(rows.lanes(np.array([tau]))[:, 0], rows.n_rows)
    starts, *_ = rows.starts()
    own, *common = ((a, q, start) for (a, q), start in zip(motions, starts, strict=True))
    if common:
        return SharedMotion(own, common[0], None)
    shape = tuple(float(part[0]) for part in rows.numbers())
    return SharedMotion(own, None, shape, period)


# States before and after a step, (state, column, path), by number of the step.
_Drawn = dict[int, tuple[FloatArray, FloatArray]]


class _Law(ABC):
    """Motion of all particles at one parameter value."""

    def __init__(self, steps: Sequence[SimultaneousSteps]) -> None:
        self.steps = steps
        self.by_time = {step.time: k for k, step in enumerate(steps)}

    def columns(self, k: int) -> FloatArray:
        """Return the steps as a matrix (row, column)."""
        return self.steps[k].dx

    @abstractmethod
    def enter(self, k: int, mean: FloatArray, cov: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the state at the start of step k, from that after step k - 1."""

    @abstractmethod
    def linear(self, k: int) -> tuple[FloatArray, FloatArray]:
        """Return the matrix from the state to step k and the next state, and their noise."""

    @abstractmethod
    def kept(self, k: int) -> tuple[IntArray, IntArray]:
        """Return the state indices, after step k - 1 and before step k, of continuing particles."""

    @abstractmethod
    def follow(
        self, run: int, x: FloatArray, n_steps: int, drawn: _Drawn, rng: np.random.Generator
    ) -> FloatArray:
        """Draw positions (time, path, axis) of a run after its last step, starting at x."""


def _draw(mean: FloatArray, cov: FloatArray, rng: np.random.Generator, n_paths: int) -> FloatArray:
    """Draw states (state, column, path) with one mean for all paths, or one per path."""
    means = mean[:, :, None] if mean.ndim == 2 else mean
    kick = rng.standard_normal((len(cov), mean.shape[1] * n_paths))
    return means + (_root(cov) @ kick).reshape(len(cov), mean.shape[1], n_paths)


def _root(cov: FloatArray) -> FloatArray:
    try:
        return np.asarray(cholesky(cov, lower=True, check_finite=False))
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(0.5 * (cov + cov.T))
        return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


def _draw_states(
    law: _Law, n_steps: int, first: int, rng: np.random.Generator, n_paths: int
) -> _Drawn:
    """Draw states of the observed particles from step `first` on, given all their steps."""
    mean, cov = np.zeros((0, 1)), np.zeros((0, 0))
    filtered = {}
    for k in range(n_steps):
        mean, cov = law.enter(k, mean, cov)
        (both, noise), dx = law.linear(k), law.columns(k)
        before = (mean, cov)
        n = len(dx)
        joint = both @ cov @ both.T + noise
        gain = cho_solve(cho_factor(joint[:n, :n], lower=True), joint[:n, n:]).T
        mean = both[n:] @ mean + gain @ (dx - both[:n] @ mean)
        cov = joint[n:, n:] - gain @ joint[:n, n:]
        cov = 0.5 * (cov + cov.T)
        if k >= first:
            filtered[k] = (*before, mean, cov)
    drawn: _Drawn = {}
    for k in reversed(range(first, n_steps)):
        mean, cov, after_mean, after_cov = filtered.pop(k)
        old, now = law.kept(k + 1) if k + 1 < n_steps else (np.zeros(0, dtype=np.int64),) * 2
        left = np.setdiff1d(np.arange(len(after_cov)), old)
        after = np.empty((len(after_cov), after_mean.shape[1], n_paths))
        if len(old):
            after[old] = drawn[k + 1][0][now]
        if len(left):
            own_mean: FloatArray = after_mean[left]
            own_cov = after_cov[np.ix_(left, left)]
            if len(old):
                cross = after_cov[np.ix_(left, old)]
                gain = cross @ np.linalg.pinv(after_cov[np.ix_(old, old)], hermitian=True)
                excess = after[old] - after_mean[old][:, :, None]
                own_mean = own_mean[:, :, None] + np.tensordot(gain, excess, axes=1)
                own_cov = own_cov - gain @ cross.T
            after[left] = _draw(own_mean, own_cov, rng, n_paths)
        (both, noise), dx = law.linear(k), law.columns(k)
        spread = both @ cov
        joint = spread @ both.T + noise
        gain = cho_solve(cho_factor(joint, lower=True), spread).T
        steps = np.broadcast_to(dx[:, :, None], (*dx.shape, n_paths))
        excess = np.concatenate([steps, after]) - (both @ mean)[:, :, None]
        begin = mean[:, :, None] + np.tensordot(gain, excess, axes=1)
        drawn[k] = _draw(begin, cov - gain @ spread, rng, n_paths), after
    return drawn


def _matern(r: FloatArray, length: float, nu: float) -> tuple[FloatArray, FloatArray]:
    """Compute Matérn's correlation C(r) and r C'(r), of order 1/2, 3/2 or 5/2."""
    check_smoothness(nu)
    s = r * (np.sqrt(2 * nu) / length)
    fall = np.exp(-s)
    if nu == 0.5:
        return fall, -s * fall
    if nu == 1.5:
        return (1 + s) * fall, -(s**2) * fall
    return (1 + s + s**2 / 3) * fall, -(s**2) * (1 + s) / 3 * fall


class _FlowLaw(_Law):
    """Brownian and Langevin motion with spatially correlated noise."""

    def __init__(self, motion: SharedMotion, steps: Sequence[SimultaneousSteps]) -> None:
        super().__init__(steps)
        assert motion.shape is not None
        self.length, self.own, self.divergence, self.nu = motion.shape
        self.propagate, self.noise, start = motion.own
        self.start = start[1:, 1:]
        self.period = motion.period
        self.is_tensor = not np.isnan(self.divergence)

    def _correlation(self, k: int) -> FloatArray:
        """Return the noise correlation of the observed particles."""
        corr = self._correlation_with(k, self.steps[k].x)
        corr = corr.reshape(len(corr), len(corr))
        corr[np.diag_indices(len(corr))] += self.own + _JITTER
        return corr

    def _correlation_with(self, k: int, points: FloatArray) -> FloatArray:
        """Return the noise correlation with other points, (row, row of a point, point)."""
        x = self.steps[k].x
        apart = x[:, None] - points[None]
        for axis, length in enumerate(self.period or ()):
            if length is not None:
                apart[..., axis] -= length * np.round(apart[..., axis] / length)
        r = np.asarray(np.linalg.norm(apart, axis=-1))
        along, slope = _matern(r, self.length, self.nu)
        if not self.is_tensor:
            return (1 - self.own) * along[:, None, :]
        unit = np.divide(apart, r[..., None], out=np.zeros_like(apart), where=r[..., None] > 0)
        outer = np.einsum("pqi,pqj->ipjq", unit, unit)
        # Nondivergent: C e eᵀ + (C + rC')(1 - e eᵀ); irrotational: with both factors exchanged.
        correlation = np.einsum("ij,pq->ipjq", np.eye(2), along + (1 - self.divergence) * slope)
        correlation -= (1 - 2 * self.divergence) * outer * slope[None, :, None, :]
        return (1 - self.own) * correlation.reshape(2 * len(x), 2, len(points))

    def columns(self, k: int) -> FloatArray:
        dx = self.steps[k].dx
        return dx.T.reshape(-1, 1) if self.is_tensor else dx

    def enter(self, k: int, mean: FloatArray, cov: FloatArray) -> tuple[FloatArray, FloatArray]:
        corr, n_columns = self._correlation(k), self.columns(k).shape[1]
        whole_mean, whole = np.zeros((len(corr), n_columns)), self.start[0, 0] * corr
        before, old = self.kept(k)
        if not len(old):
            return whole_mean, whole
        # Regress new particles on old ones under the stationary distribution at these positions.
        new = np.setdiff1d(np.arange(len(corr)), old)
        factor = cho_factor(corr[np.ix_(old, old)], lower=True)
        weights = np.zeros((len(corr), len(old)))
        weights[old] = np.eye(len(old))
        weights[new] = cho_solve(factor, corr[np.ix_(old, new)]).T
        whole[np.ix_(new, new)] -= self.start[0, 0] * weights[new] @ corr[np.ix_(old, new)]
        whole[old], whole[:, old] = 0.0, 0.0
        return weights @ mean[before], whole + weights @ cov[np.ix_(before, before)] @ weights.T

    def linear(self, k: int) -> tuple[FloatArray, FloatArray]:
        corr = self._correlation(k)
        both = np.kron(self.propagate[:, 1:], np.eye(len(corr)))
        return np.asarray(both), np.asarray(np.kron(self.noise, corr))

    def kept(self, k: int) -> tuple[IntArray, IntArray]:
        step, n_before = self.steps[k], len(self.steps[max(k - 1, 0)].runs)
        axes = np.arange(2 if self.is_tensor else 1)[:, None]
        n_old = len(step.kept)
        now = axes * len(step.runs) + np.arange(n_old)
        return (axes * n_before + step.kept).ravel(), now.ravel()

    def follow(
        self, run: int, x: FloatArray, n_steps: int, drawn: _Drawn, rng: np.random.Generator
    ) -> FloatArray:
        k = _last_step(self.steps, run)
        place = np.flatnonzero(self.steps[k].runs == run)
        rows, columns = (2, 1) if self.is_tensor else (1, x.shape[1])
        own = (np.arange(rows)[:, None] * len(self.steps[k].runs) + place).ravel()
        m = len(self.start)
        state = drawn[k][1][own] if m else np.zeros((rows, columns, len(x)))
        step_by, keep_by = (self.propagate[0, 1], self.propagate[1, 1]) if m else (0.0, 0.0)
        root = _root(self.noise)
        time, path = self.steps[k].time, [x]
        for i in range(1, n_steps + 1):
            kick = np.tensordot(root, rng.standard_normal((m + 1, rows, columns, len(x))), axes=1)
            other = self.by_time.get(time + i)
            if other is not None:
                kick = self._conditional_noise(other, drawn, path[-1], kick)
            move = step_by * state + kick[0]
            state = keep_by * state + kick[-1] if m else state
            path.append(path[-1] + move.reshape(-1, len(x)).T)
        return np.stack(path)

    def _conditional_noise(
        self, k: int, drawn: _Drawn, x: FloatArray, noise: FloatArray
    ) -> FloatArray:
        """Draw the noise at x conditional on that of the observed particles at step k.

        Args:
            k: Number of the step.
            drawn: States of the observed particles.
            x: Position of each path, (path, axis).
            noise: Unconditional noise, (state, row, column, path).
        """
        factor = cholesky(self._correlation(k), lower=True, check_finite=False)
        with_x = self._correlation_with(k, x)
        size, rows, n_paths = with_x.shape
        white = solve_triangular(factor, with_x.reshape(size, -1), lower=True, check_finite=False)
        white = white.reshape(size, rows, n_paths)
        left = np.eye(rows) - np.einsum("srp,sqp->prq", white, white)
        values, vectors = np.linalg.eigh(left)
        roots = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
        out = np.einsum("prq,aqcp->arcp", roots, noise)
        for i, observed_noise in enumerate(self._observed_noise(k, drawn)):
            flat = observed_noise.reshape(size, -1)
            whitened = solve_triangular(factor, flat, lower=True, check_finite=False)
            whitened = whitened.reshape(size, -1, 1 if observed_noise.ndim == 2 else n_paths)
            whitened = np.broadcast_to(whitened, (*whitened.shape[:2], n_paths))
            out[i] += np.einsum("srp,scp->rcp", white, whitened)
        return out

    def _observed_noise(self, k: int, drawn: _Drawn) -> list[FloatArray]:
        """Return the noise of the observed particles' positions and velocities."""
        dx = self.columns(k)
        if not len(self.start):
            return [dx]
        before, after = drawn[k]
        return [
            dx[:, :, None] - self.propagate[0, 1] * before,
            after - self.propagate[1, 1] * before,
        ]


class _CommonLaw(_Law):
    """A common motion of all particles plus an independent motion of each.

    The state is the last step of the common motion, the rest of its state without the position, and
    the state of each particle without the position, (state, particle).
    """

    def __init__(self, motion: SharedMotion, steps: Sequence[SimultaneousSteps]) -> None:
        super().__init__(steps)
        assert motion.common is not None
        self.own, self.common = motion.own, motion.common
        self.n_shared, self.n_own = len(self.common[0]), len(self.own[0]) - 1

    def enter(self, k: int, mean: FloatArray, cov: FloatArray) -> tuple[FloatArray, FloatArray]:
        n, shared = len(self.steps[k].runs), self.n_shared
        size = shared + self.n_own * n
        whole_mean, whole = np.zeros((size, self.columns(k).shape[1])), np.zeros((size, size))
        new = np.ones(n)
        if len(self.steps[k].kept):
            old, now = self.kept(k)
            whole_mean[now], whole[np.ix_(now, now)] = mean[old], cov[np.ix_(old, old)]
            new[: len(self.steps[k].kept)] = 0
        else:
            whole[1:shared, 1:shared] = self.common[2][1:, 1:]
        whole[shared:, shared:] += np.kron(self.own[2][1:, 1:], np.diag(new))
        return whole_mean, whole

    def linear(self, k: int) -> tuple[FloatArray, FloatArray]:
        n, shared = len(self.steps[k].runs), self.n_shared
        identity = np.eye(n)
        (own, own_noise, _), (common, common_noise, _) = self.own, self.common
        n_states = shared + self.n_own * n
        both = np.zeros((n + n_states, n_states))
        both[:n, 1:shared] = common[:1, 1:]
        both[n : n + shared, 1:shared] = common[:, 1:]
        both[:n, shared:] = np.kron(own[:1, 1:], identity)
        both[n + shared :, shared:] = np.kron(own[1:, 1:], identity)
        # Map the noise of the common motion, then of each particle, to steps and states.
        spread = np.zeros((n + n_states, n + n_states))
        spread[:n, 0] = 1.0
        spread[n : n + shared, :shared] = np.eye(shared)
        spread[:n, shared : shared + n] = identity
        spread[n + shared :, shared + n :] = np.eye(self.n_own * n)
        noise = block_diag(common_noise, np.kron(own_noise, identity))
        return both, spread @ noise @ spread.T

    def kept(self, k: int) -> tuple[IntArray, IntArray]:
        step, n_before = self.steps[k], len(self.steps[k - 1].runs)
        if not len(step.kept):
            return (np.zeros(0, dtype=np.int64),) * 2
        shared, each = np.arange(self.n_shared), np.arange(self.n_own)[:, None]
        old = (each * n_before + step.kept).ravel() + self.n_shared
        now = (each * len(step.runs) + np.arange(len(step.kept))).ravel() + self.n_shared
        return np.concatenate([shared, old]), np.concatenate([shared, now])

    def follow(
        self, run: int, x: FloatArray, n_steps: int, drawn: _Drawn, rng: np.random.Generator
    ) -> FloatArray:
        k = _last_step(self.steps, run)
        n, place = len(self.steps[k].runs), np.flatnonzero(self.steps[k].runs == run)
        after = drawn[k][1]
        own = after[self.n_shared + (np.arange(self.n_own)[:, None] * n + place).ravel()]
        common = after[1 : self.n_shared]
        roots = _root(self.own[1]), _root(self.common[1])
        time, path = self.steps[k].time, [x]
        for i in range(1, n_steps + 1):
            kick, free = (
                np.tensordot(root, rng.standard_normal((len(root), x.shape[1], len(x))), axes=1)
                for root in roots
            )
            ahead = np.tensordot(self.own[0][:, 1:], own, axes=1) + kick
            other = self.by_time.get(time + i)
            shared = np.tensordot(self.common[0][:, 1:], common, axes=1) + free
            if other is not None:
                shared = drawn[other][1][: self.n_shared]
            own, common = ahead[1:], shared[1:]
            path.append(path[-1] + (ahead[0] + shared[0]).T)
        return np.stack(path)


def _last_step(steps: Sequence[SimultaneousSteps], run: int) -> int:
    return max(k for k, step in enumerate(steps) if run in step.runs)


def paths_of_lost(
    motion: SharedMotion,
    steps: Sequence[SimultaneousSteps],
    runs: Sequence[int],
    n_steps: int,
    rng: np.random.Generator,
    n_paths: int,
) -> FloatArray:
    """Draw paths (path, run, time, axis) of lost particles from their last position.

    Args:
        motion: Model with parameters.
        steps: Steps of all particles, by time.
        runs: Numbers of the runs that ended.
        n_steps: Number of steps to draw.
        rng: Random number generator.
        n_paths: Number of paths.
    """
    is_flow = motion.common is None
    law = _FlowLaw(motion, steps) if is_flow else _CommonLaw(motion, steps)
    ends = [_last_step(steps, run) for run in runs]
    drawn: _Drawn = {}
    # The noise of a flow without memory is the steps themselves.
    if not is_flow or len(motion.own[0]) > 1:
        drawn = _draw_states(law, len(steps), min(ends), rng, n_paths)
    paths = []
    for run, k in zip(runs, ends, strict=True):
        index = int(np.flatnonzero(steps[k].runs == run)[0])
        last = steps[k].x[index] + steps[k].dx[index]
        start = np.tile(last, (n_paths, 1))
        paths.append(law.follow(run, start, n_steps, drawn, rng))
    return np.stack([np.moveaxis(path, 0, 1) for path in paths], axis=1)
