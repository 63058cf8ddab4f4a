r"""Slice moves of many chains at once, on the prior above a likelihood threshold.

A move draws a level below the prior density of the present point $z_0$ and a random line through
it. The next point is drawn from the part of the line within the slice (Neal 2003),

$$\{z : \pi(z) > u\,\pi(z_0),\ L(z) > L^*\}, \qquad u \sim U(0, 1).$$
"""

import numpy as np
from numpy.typing import NDArray

from driftbayes._typing import FloatArray, IntArray
from driftbayes.inference._target import AbstractTarget, Points

# Width of the first bracket, in standard deviations along the line. From 2 to 4 a move takes 4.4 to
# 4.6 evaluations, in any number of dimensions; the number of calls grows slowly with the width.
_WIDTH = 2.5
# Widths that a bracket has at most.
_MAX_WIDTHS = 10
# Candidates after which a move is given up: the bracket is then shorter than rounding errors.
_MAX_CANDIDATES = 100


def move_in_slices(
    target: AbstractTarget,
    start: Points,
    threshold: float,
    factor: FloatArray,
    n_moves: int,
    rng: np.random.Generator,
) -> tuple[Points, int]:
    """Move every chain several times, leaving the prior above the threshold invariant.

    A bracket is laid at random around the present point and widened until both ends are outside the
    slice, or until it is ten widths long. Candidates are drawn from it; one outside the slice
    becomes an end of the bracket, and one inside is the next point.

    All chains evaluate their next points in one call. None waits for another to begin a move: the
    number of calls is that of the slowest chain, not the sum over moves of the slowest.

    Args:
        target: Prior and likelihood.
        start: Points where the chains start, above the threshold.
        threshold: ln L*.
        factor: F of the directions, F times a random unit vector; F Fᵀ is a covariance.
        n_moves: Moves of each chain.
        rng: Random numbers.

    Returns:
        Points that the chains reached, and the number of evaluations.
    """
    n = len(start.z)
    points, lines = start.copy(), _Lines(n_moves * n, factor, rng)
    n_evaluations = 0
    move = np.zeros(n, dtype=int)
    while (active := np.flatnonzero(move < n_moves)).size:
        # The line of a chain's present move.
        line = n * move + np.arange(n)
        widening, side, drawing = lines.needed(line[active])
        candidates = lines.draw(drawing, rng)
        every = np.concatenate([widening, drawing])
        distances = np.concatenate([lines.bracket[widening, side], candidates])
        chain = every % n
        new = Points.at(target, points.z[chain] + distances[:, None] * lines.direction[every])
        n_evaluations += len(chain)
        is_inside = new.log_prior > points.log_prior[chain] - lines.log_drop[every]
        is_inside &= new.log_likelihood > threshold
        n_ends = len(widening)
        lines.widen(widening, side, is_inside[:n_ends])
        accepted = is_inside[n_ends:]
        points.put(drawing[accepted] % n, new.take(n_ends + np.flatnonzero(accepted)))
        given_up = lines.shrink(drawing[~accepted], candidates[~accepted])
        move[drawing[accepted] % n] += 1
        move[given_up % n] += 1
    return points, n_evaluations


class _Lines:
    """Lines through points, and the brackets on them, in which slices are looked for.

    Args:
        n: Number of lines.
        factor: As for `move_in_slices`.
        rng: Random numbers.
    """

    def __init__(self, n: int, factor: FloatArray, rng: np.random.Generator) -> None:
        unit = rng.normal(size=(n, factor.shape[1]))
        unit /= np.linalg.norm(unit, axis=1, keepdims=True)
        self.direction = unit @ factor.T
        # -ln u of the level.
        self.log_drop = rng.standard_exponential(n)
        # Ends of the bracket as distances from the point.
        left = -_WIDTH * rng.random(n)
        self.bracket = np.stack([left, left + _WIDTH], axis=1)
        # How often each end may be moved outwards. The limit is shared at random between both, so
        # that a bracket is equally likely from every point within it.
        n_left = rng.integers(_MAX_WIDTHS, size=n)
        self.n_widenings = np.stack([n_left, _MAX_WIDTHS - 1 - n_left], axis=1)
        self.n_candidates = np.zeros(n, dtype=int)

    def needed(self, lines: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """Return lines and sides of ends to evaluate, and lines that need a candidate."""
        is_widening = self.n_widenings[lines] > 0
        row, side = np.nonzero(is_widening)
        return lines[row], side, lines[~is_widening.any(axis=1)]

    def draw(self, lines: IntArray, rng: np.random.Generator) -> FloatArray:
        """Draw candidates from the brackets."""
        low, high = self.bracket[lines].T
        return low + (high - low) * rng.random(len(lines))

    def widen(self, lines: IntArray, side: IntArray, is_inside: NDArray[np.bool_]) -> None:
        """Move ends that are inside the slice outwards; keep the others."""
        self.bracket[lines, side] += np.where(is_inside, _WIDTH * (2 * side - 1), 0.0)
        remaining = self.n_widenings[lines, side] - 1
        self.n_widenings[lines, side] = np.where(is_inside, remaining, 0)

    def shrink(self, lines: IntArray, candidates: FloatArray) -> IntArray:
        """Make candidates outside the slice ends of the brackets; return lines to give up."""
        self.bracket[lines, (candidates > 0).astype(int)] = candidates
        self.n_candidates[lines] += 1
        return lines[self.n_candidates[lines] >= _MAX_CANDIDATES]
