r"""The filter of particles that share motion and are seen each at its own times.

The state holds the velocity $V_c$ of the common motion (all of its state but the position), the
velocities of all particles' own motions, and for each particle $Z_p$: its position when it was last
seen, moved on by the common motion since, and counted from its latest fix. So the position of the
common motion, which grows without bound and is never seen, is not needed. A particle's own motion
is taken up to a fix when it comes: until then it is independent of everything, and nothing of it
has to be computed. A fix then costs a pass over the lower triangle of the covariance.
"""

__all__ = ["filter_together"]

from typing import Any

import numpy as np

from driftbayes.kernels.compiled import compiled

_OPTIONS: dict[str, Any] = {
    "fastmath": {"contract", "reassoc", "nsz"},
    "error_model": "numpy",
    "boundscheck": False,
}


@compiled(**_OPTIONS)
def _column(cov: Any, place: int, out: Any) -> None:
    """Covariances of one component with all, from the lower triangle."""
    for j in range(place):
        out[j] = cov[place, j]
    for j in range(place, len(cov)):
        out[j] = cov[j, place]


@compiled(**_OPTIONS)
def _put(cov: Any, place: int, values: Any) -> None:
    """Put the covariances of one component with all into the lower triangle."""
    for j in range(place):
        cov[place, j] = values[j]
    for j in range(place, len(cov)):
        cov[j, place] = values[j]


@compiled(**_OPTIONS)
def _move_all(cov: Any, mean: Any, matrices: Any, n_slots: int, work: Any) -> None:
    """Let the common motion go on: it moves all positions, and nothing else but itself."""
    n_state, size, n_columns = len(matrices[0]), len(cov), mean.shape[1]
    m = n_state - 1
    first = size - n_slots
    ahead = work[n_state]
    ahead[:] = 0.0
    for c in range(m):
        _column(cov, c, work[c])
        weight = matrices[0, 0, c + 1]
        for j in range(size):
            ahead[j] += weight * work[c, j]
    added = matrices[1, 0, 0]
    for c in range(m):
        added += matrices[0, 0, c + 1] * ahead[c]
    for i in range(first, size):
        for j in range(m, first):
            cov[i, j] += ahead[j]
        own = ahead[i] + added
        for j in range(first, i + 1):
            cov[i, j] += own + ahead[j]
    for c in range(m):
        for j in range(m, size):
            total = 0.0
            for d in range(m):
                moved = work[d, j] + (ahead[d] if j >= first else 0.0)
                total += matrices[0, c + 1, d + 1] * moved
            cov[j, c] = total + (matrices[1, c + 1, 0] if j >= first else 0.0)
        for e in range(c + 1):
            total = matrices[1, c + 1, e + 1]
            for d in range(m):
                for f in range(m):
                    total += matrices[0, c + 1, d + 1] * work[d, f] * matrices[0, e + 1, f + 1]
            cov[c, e] = total
    for a in range(n_columns):
        shift = 0.0
        for c in range(m):
            shift += matrices[0, 0, c + 1] * mean[c, a]
            work[c, 0] = mean[c, a]
        for i in range(first, size):
            mean[i, a] += shift
        for c in range(m):
            total = 0.0
            for d in range(m):
                total += matrices[0, c + 1, d + 1] * work[d, 0]
            mean[c, a] = total


@compiled(**_OPTIONS)
def _places(slot: int, n_state: int, n_slots: int, size: int, out: Any) -> None:
    """Where position and velocities of a particle are in the state."""
    out[0] = size - n_slots + slot
    for c in range(n_state - 1):
        out[c + 1] = n_state - 1 + c * n_slots + slot


@compiled(**_OPTIONS)
def _enter(cov: Any, mean: Any, places: Any, start: Any, error: float, work: Any) -> None:
    """A particle is seen first: its position to its error, its velocity as ever."""
    work[0, :] = 0.0
    for c in range(len(places)):
        _put(cov, places[c], work[0])
        mean[places[c], :] = 0.0
    for c in range(len(places)):
        for d in range(c + 1):
            cov[max(places[c], places[d]), min(places[c], places[d])] = start[c, d]
    cov[places[0], places[0]] += error


@compiled(**_OPTIONS)
def _move_one(cov: Any, mean: Any, places: Any, matrices: Any, work: Any) -> None:
    """Let one particle's own motion go on, up to its next fix."""
    n_state, size = len(places), len(cov)
    for c in range(n_state):
        _column(cov, places[c], work[c])
    block = np.empty((n_state, n_state))
    for c in range(n_state):
        for d in range(n_state):
            total = matrices[1, c, d]
            for e in range(n_state):
                for f in range(n_state):
                    total += matrices[0, c, e] * work[e, places[f]] * matrices[0, d, f]
            block[c, d] = total
    for c in range(n_state):
        moved = work[n_state]
        moved[:] = 0.0
        for d in range(n_state):
            weight = matrices[0, c, d]
            for j in range(size):
                moved[j] += weight * work[d, j]
        _put(cov, places[c], moved)
    for c in range(n_state):
        for d in range(n_state):
            cov[max(places[c], places[d]), min(places[c], places[d])] = block[c, d]
    for a in range(mean.shape[1]):
        for c in range(n_state):
            work[c, 0] = mean[places[c], a]
        for c in range(n_state):
            total = 0.0
            for d in range(n_state):
                total += matrices[0, c, d] * work[d, 0]
            mean[places[c], a] = total


@compiled(**_OPTIONS)
def _see(cov: Any, mean: Any, place: int, dx: Any, error: float, work: Any, products: Any) -> float:
    """Take a fix into account, and give the variance that it had."""
    size, n_columns = mean.shape
    column, gain = work[0], work[1]
    _column(cov, place, column)
    variance = column[place] + error
    for j in range(size):
        gain[j] = column[j] / variance
    for i in range(size):
        weight = gain[i]
        for j in range(i + 1):
            cov[i, j] -= weight * column[j]
    # What is left of the position's variance: prior · error / (prior + error).
    left = error / variance
    for j in range(size):
        column[j] *= left
    _put(cov, place, column)
    for a in range(n_columns):
        for b in range(a + 1):
            product = (dx[a] - mean[place, a]) * (dx[b] - mean[place, b]) / variance
            products[a, b] += product
            if b < a:
                products[b, a] += product
    for a in range(n_columns):
        innovation = dx[a] - mean[place, a]
        for i in range(size):
            mean[i, a] += gain[i] * innovation
        # Positions are counted from the latest fix: no digits are lost.
        mean[place, a] -= dx[a]
    return variance


@compiled(**_OPTIONS)
def filter_together(fixes: Any, own: Any, common: Any, extra: float, products: Any) -> float:
    """Log-determinant of one axis; `products` takes those of the innovations of all axes.

    Args:
        fixes: In the order of time: slot of the particle, which interval since the last time
            (-1: none), which interval since its last fix (-1: it is seen first), steps since then,
            error variances, and the number of slots.
        own: Matrices of the intervals of a particle's own motion, and the initial covariance.
        common: The same of the common motion.
        extra: Variance of every fix beside its error.
        products: (axis, axis).
    """
    slot, since, after, dx, error, n_slots = fixes
    own_matrices, own_start = own
    common_matrices, common_start = common
    n_state = len(own_start)
    m = n_state - 1
    size = m + n_state * n_slots
    cov, mean = np.zeros((size, size)), np.zeros((size, dx.shape[1]))
    work = np.zeros((n_state + 2, size))
    places = np.empty(n_state, dtype=np.int64)
    for c in range(m):
        for d in range(c + 1):
            cov[c, d] = common_start[c + 1, d + 1]
    log_det = 0.0
    for k in range(len(slot)):
        if since[k] >= 0:
            _move_all(cov, mean, common_matrices[since[k]], n_slots, work)
        _places(slot[k], n_state, n_slots, size, places)
        if after[k] < 0:
            _enter(cov, mean, places, own_start, error[k] + extra, work)
            continue
        _move_one(cov, mean, places, own_matrices[after[k]], work)
        variance = _see(cov, mean, places[0], dx[k], error[k] + extra, work, products)
        if not variance > 0:
            return np.nan
        log_det += np.log(variance)
    return log_det
