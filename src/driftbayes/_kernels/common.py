r"""Kalman filter for particles with a common motion, each observed at its own times.

The state holds the velocity $V_c$ of the common motion (its state without the position), the
velocities of all particles' own motions, and for each particle $Z_p$: its position at its latest
fix plus the common displacement since, measured from that fix. The position of the common motion,
which grows without bound and is never observed, is therefore not needed. A particle's own motion
is advanced only when a fix of it arrives, because it is independent of everything else until then.
A fix costs one pass over the lower triangle of the covariance.

Eight parameter values are computed together, along the last axis of all arrays.
"""

from typing import Any

import numpy as np

from driftbayes._kernels.compiled import FAST_OPTIONS, compiled
from driftbayes._kernels.filter import LANES


@compiled(**FAST_OPTIONS)
def _read_column(cov: Any, place: int, out: Any) -> None:
    """Read the covariances of one component with all others from the lower triangle."""
    for j in range(len(cov)):
        row, column = max(place, j), min(place, j)
        for lane in range(LANES):
            out[j, lane] = cov[row, column, lane]


@compiled(**FAST_OPTIONS)
def _write_column(cov: Any, place: int, values: Any) -> None:
    """Write the covariances of one component with all others into the lower triangle."""
    for j in range(len(cov)):
        row, column = max(place, j), min(place, j)
        for lane in range(LANES):
            cov[row, column, lane] = values[j, lane]


@compiled(**FAST_OPTIONS)
def _add_weighted(total: Any, weight: Any, values: Any) -> None:
    """Add values times a weight per lane."""
    for j in range(len(values)):
        for lane in range(LANES):
            total[j, lane] += weight[lane] * values[j, lane]


@compiled(**FAST_OPTIONS)
def _advance_common(cov: Any, mean: Any, matrices: Any, n_slots: int, work: Any) -> None:
    """Advance the common motion, which changes all positions and its own velocity."""
    n_state, size, n_columns = matrices.shape[1], len(cov), mean.shape[1]
    m = n_state - 1
    first = size - n_slots
    ahead, added = work[n_state], work[n_state + 1, 0]
    ahead[:] = 0.0
    for c in range(m):
        _read_column(cov, c, work[c])
        _add_weighted(ahead, matrices[0, 0, c + 1], work[c])
    for lane in range(LANES):
        added[lane] = matrices[1, 0, 0, lane]
    for c in range(m):
        for lane in range(LANES):
            added[lane] += matrices[0, 0, c + 1, lane] * ahead[c, lane]
    for i in range(first, size):
        for j in range(m, first):
            for lane in range(LANES):
                cov[i, j, lane] += ahead[j, lane]
        for j in range(first, i + 1):
            for lane in range(LANES):
                cov[i, j, lane] += ahead[i, lane] + added[lane] + ahead[j, lane]
    for c in range(m):
        for j in range(m, size):
            moves = 1.0 if j >= first else 0.0
            for lane in range(LANES):
                cov[j, c, lane] = moves * matrices[1, c + 1, 0, lane]
            for d in range(m):
                for lane in range(LANES):
                    before = work[d, j, lane] + moves * ahead[d, lane]
                    cov[j, c, lane] += matrices[0, c + 1, d + 1, lane] * before
        for e in range(c + 1):
            for lane in range(LANES):
                cov[c, e, lane] = matrices[1, c + 1, e + 1, lane]
            for d in range(m):
                for f in range(m):
                    for lane in range(LANES):
                        cov[c, e, lane] += (
                            matrices[0, c + 1, d + 1, lane]
                            * work[d, f, lane]
                            * matrices[0, e + 1, f + 1, lane]
                        )
    for a in range(n_columns):
        for lane in range(LANES):
            added[lane] = 0.0
        for c in range(m):
            for lane in range(LANES):
                work[c, 0, lane] = mean[c, a, lane]
                added[lane] += matrices[0, 0, c + 1, lane] * mean[c, a, lane]
        for c in range(m):
            for lane in range(LANES):
                mean[c, a, lane] = 0.0
            for d in range(m):
                for lane in range(LANES):
                    mean[c, a, lane] += matrices[0, c + 1, d + 1, lane] * work[d, 0, lane]
        for i in range(first, size):
            for lane in range(LANES):
                mean[i, a, lane] += added[lane]


@compiled(**FAST_OPTIONS)
def _find_indices(slot: int, n_state: int, n_slots: int, size: int, out: Any) -> None:
    """Find the indices of a particle's position and velocities in the state."""
    out[0] = size - n_slots + slot
    for c in range(n_state - 1):
        out[c + 1] = n_state - 1 + c * n_slots + slot


@compiled(**FAST_OPTIONS)
def _initialise(cov: Any, mean: Any, places: Any, start: Any, error: Any, work: Any) -> None:
    """Set a particle's state at its first fix: position error and stationary velocity."""
    work[0, :] = 0.0
    for c in range(len(places)):
        _write_column(cov, places[c], work[0])
        mean[places[c], :] = 0.0
    for c in range(len(places)):
        for d in range(c + 1):
            row, column = max(places[c], places[d]), min(places[c], places[d])
            for lane in range(LANES):
                cov[row, column, lane] = start[c, d, lane]
    for lane in range(LANES):
        cov[places[0], places[0], lane] += error[lane]


@compiled(**FAST_OPTIONS)
def _advance_particle(cov: Any, mean: Any, places: Any, matrices: Any, work: Any) -> None:
    """Advance one particle's own motion to its next fix."""
    n_state = len(places)
    moved, block = work[n_state], work[n_state + 1]
    for c in range(n_state):
        _read_column(cov, places[c], work[c])
    for c in range(n_state):
        for d in range(c + 1):
            place = c * (c + 1) // 2 + d
            for lane in range(LANES):
                block[place, lane] = matrices[1, c, d, lane]
            for e in range(n_state):
                for f in range(n_state):
                    for lane in range(LANES):
                        block[place, lane] += (
                            matrices[0, c, e, lane]
                            * work[e, places[f], lane]
                            * matrices[0, d, f, lane]
                        )
    for c in range(n_state):
        moved[:] = 0.0
        for d in range(n_state):
            _add_weighted(moved, matrices[0, c, d], work[d])
        _write_column(cov, places[c], moved)
    for c in range(n_state):
        for d in range(c + 1):
            row, column = max(places[c], places[d]), min(places[c], places[d])
            for lane in range(LANES):
                cov[row, column, lane] = block[c * (c + 1) // 2 + d, lane]
    for a in range(mean.shape[1]):
        for c in range(n_state):
            for lane in range(LANES):
                work[c, 0, lane] = mean[places[c], a, lane]
                mean[places[c], a, lane] = 0.0
        for c in range(n_state):
            for d in range(n_state):
                for lane in range(LANES):
                    mean[places[c], a, lane] += matrices[0, c, d, lane] * work[d, 0, lane]


@compiled(**FAST_OPTIONS)
def _update(cov: Any, mean: Any, place: int, dx: Any, error: Any, work: Any, products: Any) -> None:
    """Condition on a fix; the third row of `work` then begins with its predicted variance."""
    size, n_columns = mean.shape[:2]
    column, gain, scratch = work[0], work[1], work[2]
    _read_column(cov, place, column)
    for lane in range(LANES):
        scratch[0, lane] = column[place, lane] + error[lane]
        scratch[1, lane] = 1.0 / scratch[0, lane]
    for j in range(size):
        for lane in range(LANES):
            gain[j, lane] = column[j, lane] * scratch[1, lane]
    for i in range(size):
        for j in range(i + 1):
            for lane in range(LANES):
                cov[i, j, lane] -= gain[i, lane] * column[j, lane]
    # Posterior variance of the position: prior · error / (prior + error).
    for j in range(size):
        for lane in range(LANES):
            column[j, lane] = gain[j, lane] * error[lane]
    _write_column(cov, place, column)
    for a in range(n_columns):
        for b in range(n_columns):
            for lane in range(LANES):
                products[a, b, lane] += (
                    (dx[a] - mean[place, a, lane])
                    * (dx[b] - mean[place, b, lane])
                    * scratch[1, lane]
                )
    for a in range(n_columns):
        for lane in range(LANES):
            column[0, lane] = dx[a] - mean[place, a, lane]
        for i in range(size):
            for lane in range(LANES):
                mean[i, a, lane] += gain[i, lane] * column[0, lane]
        # Positions are measured from the latest fix, so that no digits are lost.
        for lane in range(LANES):
            mean[place, a, lane] -= dx[a]


@compiled(**FAST_OPTIONS)
def filter_together(fixes: Any, own: Any, common: Any, extra: Any, sums: Any) -> None:
    """Add up log-determinants and products of innovations for eight parameter values.

    Args:
        fixes: In order of time: slot of the particle, index of the interval since the previous
            time (-1: none), index of the interval since its previous fix (-1: first fix),
            displacement since then, error variances, and the number of slots.
        own: Matrices of the intervals of a particle's own motion, and the initial covariance.
        common: The same for the common motion.
        extra: Variance added to the error variance of every fix.
        sums: Log-determinant of one axis, (lane,), and products of the innovations of all axes,
            (axis, axis, lane); the kernel adds to both.
    """
    slot, since, after, dx, error, n_slots = fixes
    own_matrices, own_start = own
    common_matrices, common_start = common
    log_det, products = sums
    n_state = len(own_start)
    m = n_state - 1
    size = m + n_state * n_slots
    cov, mean = np.zeros((size, size, LANES)), np.zeros((size, dx.shape[1], LANES))
    work = np.zeros((n_state + 2, max(size, n_state * (n_state + 1) // 2), LANES))
    places, variance = np.empty(n_state, dtype=np.int64), np.empty(LANES)
    for c in range(m):
        for d in range(c + 1):
            cov[c, d] = common_start[c + 1, d + 1]
    for k in range(len(slot)):
        if since[k] >= 0:
            _advance_common(cov, mean, common_matrices[since[k]], n_slots, work)
        _find_indices(slot[k], n_state, n_slots, size, places)
        for lane in range(LANES):
            variance[lane] = error[k] + extra[lane]
        if after[k] < 0:
            _initialise(cov, mean, places, own_start, variance, work)
            continue
        _advance_particle(cov, mean, places, own_matrices[after[k]], work)
        _update(cov, mean, places[0], dx[k], variance, work, products)
        for lane in range(LANES):
            log_det[lane] += np.log(work[2, 0, lane])
