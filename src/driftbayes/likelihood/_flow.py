r"""Joint likelihood of particles in one flow, with noise that is correlated in space.

At each step the noise of all particles has the covariance of one particle times the correlation of
the flow between the positions at which the step begins,

$$R = (1 - a)\,C(|x_p - x_q|; \ell) + a\,\delta_{pq},$$

with a the share that is independent between particles. Given these positions the density of the
steps is Gaussian: a model without memory takes one factorisation per step, a model with memory one
step of a Kalman filter of all velocities. The positions at which a step begins depend on earlier
steps only, so that the product over steps is the joint density.

Velocities of particles that appear together have their stationary covariance times R. A particle
that appears later has its stationary distribution given the velocities of the others.

**Distances.** In a periodic domain, distances are to the nearest images. Matérn's correlation is
then positive definite only for lengths well below the period; if a factorisation fails, the density
is zero. On the earth, distances are chords, for which Matérn's correlation of any order is positive
definite; for arcs it is so only up to order 1/2. At 1,000 km a chord is 0.1 % shorter than the arc.
Components are east and north at each place, or along transported axes of the centre
(`data/tangent.py`). Eddies also need the direction between particles, which is taken on the tangent
plane at the centre.

**Many particles.** In a model without memory, compact groups of particles are sorted by their first
coordinate, and each group is conditioned on its nearest particles in earlier groups (Vecchia's
approximation in groups, Guinness 2018). With all earlier particles as neighbours it is exact.
Single particles instead of groups would need hundreds of neighbours because of the share a. The
filter of a model with memory covers all velocities exactly, up to a limit on their number.

**Measurement errors.** One filter covers all positions and velocities (`_flow_errors.py`), with
correlations between fixes: an approximation for errors much smaller than the correlation length.

**GPU.** If JAX has a GPU, it is used for particles that are present at all times and observed
without errors (`_flow_accelerator.py`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from scipy.linalg.blas import dsyrk, dtrsm
from scipy.linalg.lapack import dpotrf

from driftbayes._kernels.compiled import run_in_threads
from driftbayes._typing import FloatArray, IntArray
from driftbayes.data._sampling import Displacements, steps_by_time
from driftbayes.data._trajectories import GRID_TOLERANCE
from driftbayes.errors import DriftbayesError
from driftbayes.likelihood._engines import rows_first
from driftbayes.likelihood._flow_errors import noisy_products, regression_on_old
from driftbayes.likelihood._flow_steps import FlowStep
from driftbayes.likelihood._runs import Context, error_variances
from driftbayes.likelihood._sums import Formulas, NumberedFormulas, Sums

if TYPE_CHECKING:
    from driftbayes.likelihood._flow_accelerator import Crowd

# Largest number of particles for one factorisation: without memory, where more are conditioned on
# neighbours, and with memory, where more raise an error.
_MAX_EXACT, _MAX_PARTICLES = 1_000, 2_000
# Particles of a group, and its neighbours in earlier groups. Above about `_MAX_EXACT` particles
# this is faster than one factorisation of all.
_GROUP, _N_NEIGHBOURS = 128, 256
# Length, individual share, divergent share (NaN if axes are independent), smoothness.
_Shape: TypeAlias = tuple[float, float, float, float]
# Largest number of particles for which compiled loops are faster than LAPACK.
_FEW = 64
# Number of particles used to search for posterior modes.
_N_SEARCHED = 48
# Smallest number of particles for which a GPU is used.
_MIN_ACCELERATED = 128
# Memory of the stored distances of all steps, in bytes.
_MAX_DISTANCE_BYTES = 400 << 20


def check_smoothness(smoothness: float) -> None:
    """Raise an error for a smoothness without a closed form."""
    if smoothness not in (0.5, 1.5, 2.5):
        raise DriftbayesError(f"nu of a flow must be fixed at 0.5, 1.5 or 2.5, got {smoothness:g}")


def _nearest(apart: FloatArray, period: Sequence[float | None] | None) -> FloatArray:
    """Reduce separations to the nearest images, in place."""
    for axis, length in enumerate(period or ()):
        if length is not None:
            apart[..., axis] -= length * np.round(apart[..., axis] / length)
    return apart


def distances(x: FloatArray, period: Sequence[float | None] | None = None) -> FloatArray:
    """Compute distances between all pairs, to the nearest images in a periodic domain.

    Args:
        x: Positions, (particle, axis).
        period: Length of the domain along each axis, None where it is not periodic.
    """
    from driftbayes._kernels.flow import separate

    out = np.empty((len(x), len(x)))
    separate(np.ascontiguousarray(x), _periods(period, x.shape[1]), out)
    return out


def flow_correlation(
    x: FloatArray,
    r: FloatArray,
    length: float,
    smoothness: float,
    divergence: float,
    period: Sequence[float | None] | None = None,
) -> FloatArray:
    r"""Compute the correlation of the flow between points, for one axis or both in the plane.

    With C along the separation and $C + r C'$ across it the flow is nondivergent; with both
    exchanged it is irrotational. Their shares of the variance are $1 - \delta$ and δ.

    Args:
        x: Positions, (particle, axis).
        r: Distances between them.
        length: Correlation length ℓ.
        smoothness: 1/2, 3/2 or 5/2.
        divergence: Share δ of the variance in irrotational motion; NaN if axes are independent and
            each has the correlation C.
        period: Length of the domain along each axis, None where it is not periodic.

    Returns:
        (particle, particle) if axes are independent, else (axis, particle) by (axis, particle).
    """
    check_smoothness(smoothness)
    return _correlation(x, r, (length, 0.0, divergence, smoothness), period)


def _correlation(
    x: FloatArray, r: FloatArray, shape: _Shape, period: Sequence[float | None] | None
) -> FloatArray:
    """Correlation of the noise, with a share that is independent between particles."""
    from driftbayes._kernels.flow import correlate

    size = 2 * len(x) if _is_tensor(shape) else len(x)
    out = np.empty((size, size))
    numbers = tuple(float(value) for value in shape)
    correlate(np.ascontiguousarray(x), r, _periods(period, x.shape[1]), numbers, out)
    return out


def _is_tensor(shape: _Shape) -> bool:
    """Whether the axes are correlated."""
    return not np.isnan(shape[2])


def _periods(period: Sequence[float | None] | None, n_dim: int) -> FloatArray:
    """Replace None by 0 for axes that are not periodic, as kernels expect."""
    return np.array([length or 0.0 for length in period or (None,) * n_dim])


@dataclass(frozen=True, eq=False)
class FlowEngine:
    """Engine of all particles together, in a flow that is correlated in space.

    Args:
        steps: Steps of all particles, by time.
        tau: Sampling time.
        n_dim: Number of axes.
        n: Number of steps of all particles.
        period: Length of the domain along each axis, None where it is not periodic.
        n_neighbours: Number of neighbours on which a group of particles is conditioned if there are
            more than `_MAX_EXACT`, in models without memory.
    """

    steps: Sequence[FlowStep]
    tau: float
    n_dim: int
    n: int
    period: tuple[float | None, ...] | None = None
    n_neighbours: int = _N_NEIGHBOURS

    @property
    def context(self) -> Context:
        """Location of the data, which the model does not use."""
        return Context(np.zeros(self.n_dim))

    @property
    def shortest_step(self) -> float:
        """Duration of the shortest step."""
        return self.tau

    @cached_property
    def noisy(self) -> bool:
        """Whether some fix has a known error."""
        return self.largest_error > 0

    @cached_property
    def largest_error(self) -> float:
        """Largest known error variance of a fix."""
        errors = (max(step.begin_error.max(), step.end_error.max()) for step in self.steps)
        return float(max(errors))

    @cached_property
    def max_particles(self) -> int:
        """Largest number of particles at a step."""
        return max(len(step.dx) for step in self.steps)

    def thinned(self, n_steps: int) -> "tuple[FlowEngine, float]":
        """Reduce to the first steps of fewer particles, about `n_steps` in all."""
        engine = self._with_few_particles()
        few = max(int(n_steps / engine.n * len(engine.steps)), 8)
        steps = engine.steps[:few]
        n = sum(len(step.dx) for step in steps)
        return (self, 1.0) if n == self.n else (replace(self, steps=steps, n=n), self.n / n)

    def _with_few_particles(self) -> "FlowEngine":
        """Select some particles close to each other and some far apart."""
        if self.max_particles <= _N_SEARCHED:
            return self
        fullest = max(self.steps, key=lambda step: len(step.dx))
        chosen = fullest.particles[_close_and_far(fullest.x, self.period)]
        steps, before = [], np.zeros(0, dtype=np.int64)
        previous: FlowStep | None = None
        for step in self.steps:
            rows = np.flatnonzero(np.isin(step.particles, chosen))
            remaining = before[:0] if previous is None else previous.particles[step.kept]
            particles, previous = step.particles[rows], step
            if len(rows):
                kept = np.flatnonzero(np.isin(before, remaining) & np.isin(before, particles))
                steps.append(step.part(rows, kept))
            before = particles
        n = sum(len(step.dx) for step in steps)
        # If particles come and go, those of one time may not represent the rest.
        return replace(self, steps=steps, n=n) if n >= len(chosen) * len(self.steps) / 2 else self

    @property
    def max_exact(self) -> int:
        """Number of particles above which models without memory are approximated."""
        return _MAX_EXACT

    def finer(self) -> "FlowEngine | None":
        """Return the engine with twice as many neighbours; None if it is already exact."""
        if self.max_particles <= _MAX_EXACT:
            return None
        return replace(self, n_neighbours=2 * self.n_neighbours)

    @cached_property
    def _stores_distances(self) -> bool:
        """Whether distances are stored between parameter values."""
        return sum(8 * len(step.x) ** 2 for step in self.steps) <= _MAX_DISTANCE_BYTES

    @cached_property
    def _distances(self) -> list[FloatArray]:
        """Distances between particles at each step."""
        return [distances(step.x, self.period) for step in self.steps]

    @cached_property
    def _plane_distances(self) -> list[FloatArray]:
        """Distances on the plane at each step."""
        if all(step.plane is step.x for step in self.steps):
            return self._distances
        return [distances(step.plane, self.period) for step in self.steps]

    def _at_step(self, k: int, *, is_tensor: bool) -> tuple[FloatArray, FloatArray]:
        """Return positions and distances at a step."""
        x = self.steps[k].plane if is_tensor else self.steps[k].x
        if not self._stores_distances:
            return x, distances(x, self.period)
        return x, (self._plane_distances if is_tensor else self._distances)[k]

    def _correlation_at(self, k: int, shape: _Shape) -> FloatArray:
        """Return the correlation of the noise at a step."""
        return _correlation(*self._at_step(k, is_tensor=_is_tensor(shape)), shape, self.period)

    @cached_property
    def _always_present(self) -> bool:
        """Whether no particle comes or goes."""
        n = len(self.steps[0].x)
        return all(not step.n_new and len(step.kept) == n for step in self.steps[1:])

    @cached_property
    def _is_few(self) -> bool:
        """Whether there are few particles, all present at all times."""
        return self._always_present and self.max_particles <= _FEW and self._stores_distances

    def _crowd(self, *, is_tensor: bool) -> "Crowd | None":
        """Return the data for a GPU, if there is one and enough particles for it."""
        from driftbayes.likelihood._flow_accelerator import Crowd, accelerator

        if not self._always_present or self.max_particles < _MIN_ACCELERATED:
            return None
        device = accelerator()
        if device is None:
            return None
        x = np.stack([step.plane if is_tensor else step.x for step in self.steps])
        dx = np.stack([step.columns(is_tensor=is_tensor) for step in self.steps])
        return Crowd(x, dx, _periods(self.period, x.shape[2]), device)

    @cached_property
    def _few(self) -> dict[bool, tuple[FloatArray, FloatArray, FloatArray, FloatArray]]:
        """Arguments of the kernel, for independent and for correlated axes.

        They are positions and distances by time, the period, and steps by time.
        """
        found = {}
        for is_tensor in (False, True):
            each = [
                (*self._at_step(k, is_tensor=is_tensor), step.columns(is_tensor=is_tensor))
                for k, step in enumerate(self.steps)
            ]
            x, r, dx = (np.stack(part) for part in zip(*each, strict=True))
            found[is_tensor] = x, r, _periods(self.period, self.n_dim), dx
        return found

    @cached_property
    def _groups(self) -> dict[tuple[int, bool], list[tuple[IntArray, int]]]:
        """Cache of groups, by step and whether on the plane."""
        return {}

    def _no_products(self, *, is_tensor: bool) -> FloatArray:
        """Return zeros for the products of all axes, or of one column that holds them."""
        size = 1 if is_tensor else self.n_dim
        return np.zeros((size, size))

    def _conditioned(self, k: int, shape: _Shape) -> tuple[float, FloatArray]:
        """Compute log-determinant and products at a step, each group given its neighbours."""
        step, is_tensor = self.steps[k], _is_tensor(shape)
        x = step.plane if is_tensor else step.x
        if (k, is_tensor) not in self._groups:
            self._groups[k, is_tensor] = _groups(x, self.n_neighbours, self.period)
        log_det, total = 0.0, self._no_products(is_tensor=is_tensor)
        for members, n_own in self._groups[k, is_tensor]:
            near = x[members]
            corr = _correlation(near, distances(near, self.period), shape, self.period)
            n, dx = len(members), step.dx[members]
            if is_tensor:
                # Both components of the particles of the group come last.
                rows = np.arange(2 * n).reshape(2, n)
                rows = np.concatenate([rows[:, :-n_own].ravel(), rows[:, -n_own:].ravel()])
                corr, dx = corr[np.ix_(rows, rows)], dx.T.reshape(-1, 1)[rows]
            n_last = len(corr) // n * n_own
            _, white, factor = _whitened(corr, dx)
            log_det += 2 * np.sum(np.log(np.diag(factor)[-n_last:]))
            total += white[-n_last:].T @ white[-n_last:]
        return float(log_det), total

    def sums(self, formulas: Formulas) -> Sums:
        assert isinstance(formulas, NumberedFormulas)
        n_rows = formulas.n_rows
        numbers = formulas.numbers()
        both = rows_first(formulas.lanes(np.array([self.tau]))[:, 0], n_rows)
        start, extra, _ = formulas.starts()
        shapes = zip(*(part.tolist() for part in numbers), strict=True)
        has_errors = self.noisy or bool(np.any(extra > 0))
        extras = extra.tolist() if has_errors else [None] * n_rows
        tasks = list(zip(both, start, shapes, extras, strict=True))
        has_memory = start.shape[1] > 1 or has_errors
        self._check(numbers, has_memory=has_memory)
        is_tensor = not np.isnan(numbers[2][0])
        crowd = None
        if not has_errors and (has_memory or self.max_particles <= _MAX_EXACT):
            crowd = self._crowd(is_tensor=is_tensor)
        if crowd is not None:
            found = crowd.products(both, start, np.stack(numbers, axis=1))
        elif self._is_few:
            found = run_in_threads(self._row, tasks)
        else:
            # LAPACK has its own threads, which would compete with these.
            found = [self._row(*task) for task in tasks]
        log_det, products = (np.stack(part) for part in zip(*found, strict=True))
        if is_tensor:
            # Both axes were one column.
            log_det, products = log_det / 2, np.eye(2) * products / 2
        n = np.array([float(self.n)])
        return Sums(n, log_det[:, None], products[:, None], np.zeros((n_rows, 1)))

    def _row(
        self, matrices: FloatArray, start: FloatArray, shape: _Shape, extra: float | None
    ) -> tuple[float, FloatArray]:
        """Compute log-determinant and products for one row; correlated axes are one column.

        Args:
            matrices: Propagator and noise covariance.
            start: Initial covariance.
            shape: Numbers of the correlation.
            extra: Error variance of every fix in addition to the known one; None if all are exact.
        """
        is_tensor = _is_tensor(shape)
        velocity = float(start[1, 1]) if len(start) > 1 else 0.0
        if self._is_few:
            from driftbayes._kernels.flow import flow_products

            errors = None
            if extra is not None:
                fixes = [self.steps[0].begin_error, *(step.end_error for step in self.steps)]
                errors = np.tile(np.stack(fixes), (1, 1 + is_tensor)) + extra
            return flow_products(self._few[is_tensor], matrices, velocity, shape, errors)
        if extra is not None:
            return noisy_products(
                self.steps,
                lambda k: self._correlation_at(k, shape),
                matrices,
                velocity,
                extra,
                is_tensor=is_tensor,
            )
        if len(start) == 1:
            return self._without_memory(float(matrices[1, 0, 0]), shape)
        return self._with_memory(matrices, velocity, shape)

    def _check(self, numbers: tuple[FloatArray, ...], *, has_memory: bool) -> None:
        """Raise an error for parameters or data without a likelihood."""
        if self.n_dim != 2 and not np.isnan(numbers[2]).all():
            raise DriftbayesError(f"eddies need two dimensions, got {self.n_dim}; use +flow")
        for smoothness in np.unique(numbers[3]):
            check_smoothness(float(smoothness))
        if has_memory and self.max_particles > _MAX_PARTICLES:
            raise DriftbayesError(
                f"a flow with memory or errors of positions takes up to {_MAX_PARTICLES:,} "
                f"particles at a time, got {self.max_particles:,}; take a part of the particles, "
                "or brownian+flow of exact positions"
            )

    def _without_memory(self, variance: float, shape: _Shape) -> tuple[float, FloatArray]:
        """Factorise each step separately, since steps are independent."""
        is_tensor = _is_tensor(shape)
        log_det, total = 0.0, self._no_products(is_tensor=is_tensor)
        for k, step in enumerate(self.steps):
            if len(step.dx) > _MAX_EXACT:
                det, products = self._conditioned(k, shape)
            else:
                dx = step.columns(is_tensor=is_tensor)
                det, white, _ = _whitened(self._correlation_at(k, shape), dx)
                products = white.T @ white
            log_det += det + step.dx.size // products.shape[0] * np.log(variance)
            total += products / variance
        return float(log_det), total

    def _with_memory(
        self, matrices: FloatArray, velocity: float, shape: _Shape
    ) -> tuple[float, FloatArray]:
        r"""Run the Kalman filter of all velocities.

        With P the covariance of the velocities, $F = s^2 P + q_{xx} R$ that of the steps and
        $s\varphi P + q_{xv} R = \alpha F + \beta R$ that between both, the next P is
        $(q_{vv} - \alpha^2 q_{xx} - 2\alpha\beta) R - \beta^2 R F^{-1} R$.
        """
        is_tensor = _is_tensor(shape)
        (s, phi), (q_xx, q_xv, q_vv) = matrices[0, :, 1], matrices[1][[0, 0, 1], [0, 1, 1]]
        alpha = phi / s
        beta = q_xv - alpha * q_xx
        rest = q_vv - alpha**2 * q_xx - 2 * alpha * beta
        log_det, total = 0.0, self._no_products(is_tensor=is_tensor)
        mean, cov = np.zeros((0, 1)), np.zeros((0, 0))
        for k, step in enumerate(self.steps):
            corr, dx = self._correlation_at(k, shape), step.columns(is_tensor=is_tensor)
            try:
                mean, cov = _update_particles(mean, cov, corr, step, velocity, dx.shape[1])
            except np.linalg.LinAlgError:
                return np.nan, total
            left = dx - s * mean
            cov *= s**2
            cov += q_xx * corr
            det, white, factor = _whitened(cov, left)
            log_det += det
            total += white.T @ white
            if np.isnan(det):
                break
            # L⁻¹R; R is symmetric, so that its transpose only changes the memory order.
            whole = dtrsm(1.0, factor, corr.T, trans_a=1)
            mean = phi * mean + alpha * left + beta * (whole.T @ white)
            corr *= rest
            # Only the lower triangle of the covariance is used.
            cov = dsyrk(-(beta**2), whole, c=corr.T, beta=1.0, trans=1, overwrite_c=1).T
        return float(log_det), total


def _close_and_far(x: FloatArray, period: Sequence[float | None] | None) -> IntArray:
    """Choose `_N_SEARCHED` particles: half next to one of them, half evenly from the rest."""
    away = np.sum(_nearest(x - x[len(x) // 2], period) ** 2, axis=1)
    order = np.argsort(away, kind="stable")
    near, rest = np.split(order, [_N_SEARCHED // 2])
    places = np.linspace(0, len(rest) - 1, _N_SEARCHED - len(near))
    return np.sort(np.concatenate([near, rest[places.astype(np.int64)]]))


def _groups(
    x: FloatArray, n_neighbours: int, period: Sequence[float | None] | None
) -> list[tuple[IntArray, int]]:
    """Divide particles into compact groups along the first axis, and find their neighbours.

    Returns:
        For each group its neighbours followed by its own particles, and the number of the latter.
    """
    parts = [np.arange(len(x))]
    while len(parts[0]) > _GROUP:
        halves = []
        for part in parts:
            axis = int(np.argmax(np.ptp(x[part], axis=0)))
            order = part[np.argsort(x[part, axis], kind="stable")]
            halves += np.array_split(order, 2)
        parts = halves
    parts.sort(key=lambda part: float(x[part, 0].mean()))
    found, before = [], np.zeros(0, dtype=np.int64)
    for part in parts:
        low, high = x[part].min(axis=0), x[part].max(axis=0)
        apart = _nearest(x[before] - (low + high) / 2, period)
        # Distance from the bounding box of the group.
        away = np.sum(np.maximum(np.abs(apart) - (high - low) / 2, 0.0) ** 2, axis=1)
        nearest = before[np.argsort(away, kind="stable")[:n_neighbours]]
        found.append((np.concatenate([nearest, part]), len(part)))
        before = np.concatenate([before, part])
    return found


def _whitened(covariance: FloatArray, dx: FloatArray) -> tuple[float, FloatArray, FloatArray]:
    """Return log-determinant, whitened steps and upper Cholesky factor; NaN if it fails.

    The covariance is overwritten.
    """
    # The transpose has the memory order of LAPACK.
    factor, info = dpotrf(covariance.T, lower=0, clean=1, overwrite_a=1)
    if info:
        return np.nan, dx, np.full_like(factor, np.nan)
    white = dtrsm(1.0, factor, dx, trans_a=1)
    return float(2 * np.sum(np.log(np.diag(factor)))), white, factor


def _update_particles(
    mean: FloatArray,
    cov: FloatArray,
    corr: FloatArray,
    step: FlowStep,
    velocity: float,
    n_columns: int,
) -> tuple[FloatArray, FloatArray]:
    """Remove the particles that left from mean and covariance, and add new ones.

    Only the lower triangle of the covariance is used.
    """
    size, n_new = len(corr), step.n_new
    per = size // len(step.x)
    n_old = len(step.x) - n_new
    if not n_old:
        return np.zeros((size, n_columns)), velocity * corr
    n_before = len(mean) // per
    if n_before != n_old:
        rows = (np.arange(per)[:, None] * n_before + step.kept).ravel()
        mean, cov = mean[rows], cov[np.ix_(rows, rows)]
    if not n_new:
        return mean, cov
    places = np.arange(size).reshape(per, len(step.x))
    old, new = places[:, :n_old].ravel(), places[:, n_old:].ravel()
    weights, rest = regression_on_old(corr, old, new)
    cov = np.tril(cov) + np.tril(cov, -1).T
    cross = weights @ cov
    whole_mean, whole = np.empty((size, n_columns)), np.empty((size, size))
    whole_mean[old], whole_mean[new] = mean, weights @ mean
    whole[np.ix_(old, old)] = cov
    whole[np.ix_(new, old)] = cross
    whole[np.ix_(old, new)] = cross.T
    whole[np.ix_(new, new)] = cross @ weights.T + velocity * rest
    return whole_mean, whole


def flow_engine(data: Displacements, model: str) -> FlowEngine:
    """Make the engine from the steps of all particles, sorted by time.

    Args:
        data: Displacements at one tau, with the positions at which they begin.
        model: Name of the model, for messages.
    """
    if data.start_time is None:
        msg = f"{model} must know when steps begin; make displacements from trajectories"
        raise DriftbayesError(msg)
    if data.n_particles < 2:
        msg = f"{model} needs two particles or more to estimate a shared flow, got 1; omit +flow"
        raise DriftbayesError(msg)
    sizes, tau = data.row_sizes, data.tau
    begin = np.repeat(np.asarray(data.start_time), sizes)
    total = np.concatenate([[0.0], np.cumsum(data.interval)])[:-1]
    begin = begin + total - np.repeat(total[data.first_steps], sizes)
    place = (begin - begin.min()) / tau
    index = np.round(place).astype(np.int64)
    ok = np.all(np.abs(place - index) <= GRID_TOLERANCE)
    if not (ok and np.all(np.abs(data.interval - tau) <= GRID_TOLERANCE * tau)):
        raise DriftbayesError(
            f"{model} needs particles that are seen at common regular times; choose a tau that all "
            "share, or leave +flow out"
        )
    x, plane = _origins(data)
    run = np.repeat(np.arange(len(sizes)), sizes)
    errors = error_variances(data)
    steps = []
    for _, rows, kept in steps_by_time(index, run):
        here_x = np.ascontiguousarray(x[rows])
        here_plane = here_x if plane is None else np.ascontiguousarray(plane[rows])
        fixes = rows + run[rows]
        steps.append(
            FlowStep(
                *(run[rows], kept, len(rows) - len(kept), here_x, here_plane, data.dx[rows]),
                *(errors[fixes], errors[fixes + 1]),
            )
        )
    if all(len(step.dx) < 2 for step in steps):
        msg = f"{model} needs particles observed at the same time, and there are none; omit +flow"
        raise DriftbayesError(msg)
    if _move_alike(steps):
        raise DriftbayesError(
            f"some particles are at the same place and move exactly alike, so {model} has nothing "
            "that is their own; keep one of them"
        )
    return FlowEngine(tuple(steps), tau, data.n_dim, len(data.dx), data.period)


def _move_alike(steps: Sequence[FlowStep]) -> bool:
    """Return whether two particles coincide to the end, so that the density is unbounded."""
    for k, step in enumerate(steps):
        rows = np.concatenate([step.x, step.dx], axis=1)
        _, place, counts = np.unique(rows, axis=0, return_inverse=True, return_counts=True)
        alike = counts[place.ravel()] > 1
        if not alike.any():
            continue
        # Particles that continue are checked at the next step.
        continues = np.zeros(len(rows), dtype=bool)
        if k + 1 < len(steps):
            continues[steps[k + 1].kept] = True
        if np.any(alike & ~continues):
            return True
    return False


def _origins(data: Displacements) -> tuple[FloatArray, FloatArray | None]:
    """Return where steps begin: in the plane, or in 3D and on the tangent plane on the earth."""
    if data.ground is None or data.lonlat is None:
        return data.origin, None
    space = np.ascontiguousarray(data.ground.in_space(data.lonlat))
    return space, data.ground.positions(data.lonlat)
