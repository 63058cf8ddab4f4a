r"""Particles in one flow: kicks that are correlated in space.

At each step the kicks of all particles have the covariance of one particle times the correlation
of the flow between the positions at which the step begins,

$$R = (1 - a)\,C(|x_p - x_q|; \ell) + a\,\delta_{pq},$$

with a the share that is each particle's own. Given these positions the density of the steps is
Gaussian, one factorisation per step of a model without memory, one step of a Kalman filter of all
velocities for one with memory. The positions at which a step begins follow from earlier steps, so
that the product over steps is the density of all of them.

Velocities of particles that are seen first together have their stationary covariance times R. One
that is seen first later has its stationary distribution given the velocities of the others.
"""

__all__ = ["FlowEngine", "flow_correlation", "flow_engine"]

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from scipy.linalg import cho_factor, cho_solve, cholesky, solve_triangular

from driftbayes.data.sampling import Displacements
from driftbayes.data.trajectories import GRID_TOLERANCE
from driftbayes.errors import DriftbayesError
from driftbayes.kernels.compiled import run_in_threads
from driftbayes.likelihood.runs import Context
from driftbayes.likelihood.sums import Formulas, NumberedFormulas, Sums
from driftbayes.typing import FloatArray, IntArray

# Particles of which the covariance is factorised.
_MAX_PARTICLES = 2_000
# Smoothness of Matérn's correlations that have a closed form.
SMOOTHNESS = (0.5, 1.5, 2.5)
# Particles for which compiled loops are faster than a library's factorisations.
_FEW = 64
# Distances of all steps that are kept, in bytes.
_KEPT_BYTES = 400 << 20


def check_smoothness(smoothness: float) -> None:
    """Refuse a smoothness without a closed form."""
    if smoothness not in SMOOTHNESS:
        msg = f"nu of a flow must be fixed at 0.5, 1.5 or 2.5, got {smoothness:g}"
        raise DriftbayesError(msg)


def _kernel(r: FloatArray, length: float, smoothness: float) -> tuple[FloatArray, FloatArray]:
    """Matérn's correlation C(r) and r C'(r), of smoothness 1/2, 3/2 or 5/2."""
    check_smoothness(smoothness)
    s = r * (np.sqrt(2 * smoothness) / length)
    fall = np.exp(-s)
    if smoothness == 0.5:
        return fall, -s * fall
    if smoothness == 1.5:
        return (1 + s) * fall, -(s**2) * fall
    return (1 + s + s**2 / 3) * fall, -(s**2) * (1 + s) / 3 * fall


def flow_correlation(
    x: FloatArray, r: FloatArray, length: float, smoothness: float, divergence: float
) -> FloatArray:
    r"""Correlation of the flow between points: of each axis by itself, or of both in the plane.

    With C along the separation and $C + r C'$ across it the flow is free of divergence, the other
    way round free of rotation. The first has the share $1 - \delta$ of the variance, the second δ.

    Args:
        x: Positions, (particle, axis).
        r: Distances between them.
        length: Correlation length ℓ.
        smoothness: 1/2, 3/2 or 5/2.
        divergence: Share δ of the variance in motion free of rotation; NaN if axes are independent
            and each has the correlation C.

    Returns:
        (particle, particle) if axes are independent, else (axis, particle) by (axis, particle).
    """
    along, slope = _kernel(r, length, smoothness)
    if np.isnan(divergence):
        return along
    n = len(x)
    apart = x[:, None, :] - x[None, :, :]
    unit = np.divide(apart, r[..., None], out=np.zeros_like(apart), where=r[..., None] > 0)
    outer = np.einsum("pqi,pqj->ipjq", unit, unit)
    # Free of divergence: C e eᵀ + (C + rC')(1 - e eᵀ); free of rotation: the other way round.
    one = np.einsum("ij,pq->ipjq", np.eye(2), along + (1 - divergence) * slope)
    whole = one - (1 - 2 * divergence) * outer * slope[None, :, None, :]
    return whole.reshape(2 * n, 2 * n)


@dataclass(frozen=True, eq=False)
class _Step:
    """What happens at one sampling time.

    Args:
        kept: Of the particles of the step before, those that are still there.
        n_new: Number of particles that are seen first.
        x: Positions at which the step begins, those kept first.
        dx: Steps.
    """

    kept: IntArray
    n_new: int
    x: FloatArray
    dx: FloatArray


@dataclass(frozen=True, eq=False)
class FlowEngine:
    """All particles together, in a flow that is correlated in space.

    Args:
        steps: Steps of all particles, by time.
        tau: Sampling time.
        n_dim: Number of axes.
        n: Number of steps of all particles.
    """

    steps: Sequence[_Step]
    tau: float
    n_dim: int
    n: int
    noisy: ClassVar[bool] = False
    kind: ClassVar[str] = "flow"

    @property
    def context(self) -> Context:
        """Where the data are; the model asks for nothing."""
        return Context(np.zeros(self.n_dim))

    @property
    def shortest_step(self) -> float:
        """Duration of the shortest step."""
        return self.tau

    def thinned(self, n_steps: int) -> "tuple[FlowEngine, float]":
        """The first steps of all particles, about as many as asked for."""
        mean = self.n / len(self.steps)
        few = max(int(n_steps / mean), 8)
        if few >= len(self.steps):
            return self, 1.0
        part = self.steps[:few]
        n = sum(len(step.dx) for step in part)
        return FlowEngine(part, self.tau, self.n_dim, n), self.n / n

    @cached_property
    def _distances(self) -> list[FloatArray] | None:
        if sum(8 * len(step.x) ** 2 for step in self.steps) > _KEPT_BYTES:
            return None
        return [_distance(step.x) for step in self.steps]

    @cached_property
    def _few(self) -> tuple[FloatArray, FloatArray, FloatArray] | None:
        """Positions, distances and steps by time of few particles that are there all the time."""
        n = len(self.steps[0].x)
        same = all(not step.n_new and len(step.kept) == n for step in self.steps[1:])
        if not same or n > _FEW or self._distances is None:
            return None
        x, dx = (np.stack([getattr(step, name) for step in self.steps]) for name in ("x", "dx"))
        return x, np.stack(self._distances), dx

    def _quickly(
        self, matrices: FloatArray, start: FloatArray, shape: tuple[float, float, float, float]
    ) -> tuple[float, FloatArray]:
        """The same as `_one` of few particles."""
        from driftbayes.kernels.flow import flow_products

        assert self._few is not None
        check_smoothness(shape[-1])
        x, r, dx = self._few
        velocity = float(start[1, 1]) if len(start) > 1 else 0.0
        if np.isnan(shape[2]):
            return flow_products(x, r, dx, matrices, velocity, shape)
        dx = np.moveaxis(dx, 2, 1).reshape(len(dx), -1, 1)
        log_det, products = flow_products(x, r, dx, matrices, velocity, shape)
        size = self.n_dim
        return log_det / size, np.eye(size) * products[0, 0] / size

    def sums(self, formulas: Formulas) -> Sums:
        assert isinstance(formulas, NumberedFormulas)
        n_rows = formulas.n_rows
        numbers = formulas.numbers()
        lanes = np.moveaxis(formulas.lanes(np.array([self.tau]))[:, 0], -1, 1)
        both = lanes.reshape(-1, *lanes.shape[2:])[:n_rows]
        start, _, _ = formulas.starts()
        tasks = [(both[i], start[i], *(float(part[i]) for part in numbers)) for i in range(n_rows)]
        found = run_in_threads(self._one, tasks)
        log_det, products = (np.stack(part) for part in zip(*found, strict=True))
        n = np.array([float(self.n)])
        return Sums(n, log_det[:, None], products[:, None], np.zeros((n_rows, 1)))

    def _one(
        self,
        matrices: FloatArray,
        start: FloatArray,
        length: float,
        own: float,
        divergence: float,
        smoothness: float,
    ) -> tuple[float, FloatArray]:
        """Log-determinant of one axis, and products of all axes, at one parameter value."""
        if self.n_dim != 2 and not np.isnan(divergence):
            msg = f"eddies need two dimensions, got {self.n_dim}; use +flow"
            raise DriftbayesError(msg)
        m = start.shape[0] - 1
        if m < 2 and self._few is not None:
            return self._quickly(matrices, start, (length, own, divergence, smoothness))
        log_det, products = 0.0, np.zeros((self.n_dim, self.n_dim))
        # Of what is beside the position in the state, (state, particle), mean and covariance.
        mean, cov = np.zeros((0, 1)), np.zeros((0, 0))
        for k, step in enumerate(self.steps):
            r = _distance(step.x) if self._distances is None else self._distances[k]
            corr = (1 - own) * flow_correlation(step.x, r, length, smoothness, divergence)
            corr[np.diag_indices(len(corr))] += own
            is_tensor = len(corr) > len(step.x)
            dx = step.dx.T.reshape(-1, 1) if is_tensor else step.dx
            propagate, noise = matrices
            try:
                if m:
                    mean, cov = _entered(mean, cov, corr, step, start[1:, 1:], dx.shape[1])
                    reached = _times(propagate[:1, 1:], cov)
                    variance = _times(propagate[:1, 1:], reached.T) + noise[0, 0] * corr
                else:
                    variance = noise[0, 0] * corr
                factor = cholesky(variance, lower=True, check_finite=False)
            except np.linalg.LinAlgError:
                return np.nan, products
            left = dx - _times(propagate[:1, 1:], mean) if m else dx
            white = solve_triangular(factor, left, lower=True, check_finite=False)
            det = 2 * np.sum(np.log(np.diag(factor)))
            if is_tensor:
                log_det += det / self.n_dim
                products += np.eye(self.n_dim) * float(np.sum(white**2)) / self.n_dim
            else:
                log_det += det
                products += white.T @ white
            if m:
                moves = propagate[1:, 1:]
                cross = _times(moves, reached.T) + np.kron(noise[1:, :1], corr)
                white_cross = solve_triangular(factor, cross.T, lower=True, check_finite=False)
                mean = _times(moves, mean) + white_cross.T @ white
                cov = _times(moves, _times(moves, cov).T) + np.kron(noise[1:, 1:], corr)
                cov -= white_cross.T @ white_cross
                cov = 0.5 * (cov + cov.T)
        return float(log_det), products


def _times(small: FloatArray, whole: FloatArray) -> FloatArray:
    """(small ⊗ 1) whole: a small matrix acts on the state of every particle alike."""
    n_out, n_in = small.shape
    blocks = whole.reshape(n_in, -1, whole.shape[1])
    return np.tensordot(small, blocks, axes=1).reshape(n_out * blocks.shape[1], -1)


def _distance(x: FloatArray) -> FloatArray:
    return np.asarray(np.linalg.norm(x[:, None] - x[None], axis=-1))


def _entered(
    mean: FloatArray,
    cov: FloatArray,
    corr: FloatArray,
    step: _Step,
    start: FloatArray,
    n_columns: int,
) -> tuple[FloatArray, FloatArray]:
    """Mean and covariance without the particles that left, and with those that are new."""
    m, size, n_new = len(start), len(corr), step.n_new
    per = size // len(step.x)
    n_old = len(step.x) - n_new
    if not n_old:
        whole: FloatArray = np.asarray(np.kron(start, corr), dtype=np.float64)
        return np.zeros((m * size, n_columns)), whole
    n_before = len(mean) // (m * per)
    if n_before != n_old or n_new:
        rows = (np.arange(m * per)[:, None] * n_before + step.kept).ravel()
        mean, cov = mean[rows], cov[np.ix_(rows, rows)]
    if not n_new:
        return mean, cov
    # Regression of the new on the old under the stationary distribution at these positions.
    old = (np.arange(per)[:, None] * len(step.x) + np.arange(n_old)).ravel()
    new = (np.arange(per)[:, None] * len(step.x) + np.arange(n_old, len(step.x))).ravel()
    weights = cho_solve(cho_factor(corr[np.ix_(old, old)], lower=True), corr[np.ix_(old, new)]).T
    rest = corr[np.ix_(new, new)] - weights @ corr[np.ix_(old, new)]
    regress = np.kron(np.eye(m), weights)
    cross = regress @ cov
    whole_mean, whole = np.zeros((m * size, n_columns)), np.zeros((m * size, m * size))
    place_old = (np.arange(m)[:, None] * size + old).ravel()
    place_new = (np.arange(m)[:, None] * size + new).ravel()
    whole_mean[place_old], whole_mean[place_new] = mean, regress @ mean
    whole[np.ix_(place_old, place_old)] = cov
    whole[np.ix_(place_new, place_old)] = cross
    whole[np.ix_(place_old, place_new)] = cross.T
    whole[np.ix_(place_new, place_new)] = cross @ regress.T + np.kron(start, rest)
    return whole_mean, whole


def flow_engine(data: Displacements, model: str) -> FlowEngine:
    """Put the steps of all particles in the order of time.

    Args:
        data: Displacements at one tau, with the positions at which they begin.
        model: Name of the model, for messages.
    """
    if data.start_time is None:
        msg = f"{model} must know when steps begin; make displacements from trajectories"
        raise DriftbayesError(msg)
    if data.n_particles < 2:
        msg = f"one particle cannot tell what particles share; leave +flow out of {model}"
        raise DriftbayesError(msg)
    if data.position_sd is not None and np.any(data.position_sd > 0):
        msg = f"{model} takes exact positions, not measurement errors; leave --noise out"
        raise DriftbayesError(msg)
    sizes, tau = data.row_sizes, data.tau
    begin = np.repeat(np.asarray(data.start_time), sizes)
    total = np.concatenate([[0.0], np.cumsum(data.interval)])[:-1]
    firsts = np.cumsum(sizes) - sizes
    begin = begin + total - np.repeat(total[firsts], sizes)
    place = (begin - begin.min()) / tau
    index = np.round(place).astype(np.int64)
    ok = np.all(np.abs(place - index) <= GRID_TOLERANCE)
    if not (ok and np.all(np.abs(data.interval - tau) <= GRID_TOLERANCE * tau)):
        msg = (
            f"{model} needs particles that are seen at common regular times; choose a tau that all "
            "share, or leave +flow out"
        )
        raise DriftbayesError(msg)
    run = np.repeat(np.arange(len(sizes)), sizes)
    steps, before = [], np.zeros(0, dtype=np.int64)
    last = -2
    for time in np.unique(index):
        rows = np.flatnonzero(index == time)
        if len(rows) > _MAX_PARTICLES:
            msg = (
                f"{model} can take {_MAX_PARTICLES} particles at a time, and these are "
                f"{len(rows)}; take a part of them"
            )
            raise DriftbayesError(msg)
        here = run[rows]
        if time != last + 1:
            before = np.zeros(0, dtype=np.int64)
        still = np.isin(before, here)
        kept = np.flatnonzero(still)
        order = np.concatenate([before[still], here[~np.isin(here, before)]])
        rows = rows[np.argsort(here)][np.searchsorted(np.sort(here), order)]
        steps.append(_Step(kept, len(order) - len(kept), data.origin[rows], data.dx[rows]))
        before, last = order, int(time)
    if all(len(step.dx) < 2 for step in steps):
        msg = f"no two particles are seen at the same time; leave +flow out of {model}"
        raise DriftbayesError(msg)
    return FlowEngine(tuple(steps), tau, data.n_dim, len(data.dx))
