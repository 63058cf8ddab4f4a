r"""First-passage time of a fresh particle to a distance.

The distance is that of a straight line, such as a coast, or the radius of a circle (a sphere, an
interval) about the start. For Brownian motion the probabilities have closed forms: with
$s = \kappa T / R^2$,

$$P_\mathrm{line} = \operatorname{erfc}\frac{1}{2\sqrt s}, \qquad
  P_\mathrm{circle} = 1 - \frac{2^{1-\nu}}{\Gamma(\nu + 1)} \sum_{n \ge 1}
  \frac{j_n^{\nu - 1}}{J_{\nu + 1}(j_n)}\, e^{-j_n^2 s}, \qquad \nu = \frac d2 - 1,$$

the first by the reflection principle (the time has a Lévy distribution), the second from the zeros
$j_n$ of $J_\nu$. A particle with memory is simulated along exact paths in small steps, which are
halved until the probability changes by less than its sampling error.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erfc, gamma, jn_zeros, jv

from driftbayes._typing import FloatArray
from driftbayes.inference import PosteriorDraws
from driftbayes.inference._formulas import Rows
from driftbayes.inference._hypothesis import check_plain
from driftbayes.likelihood._engines import rows_first
from driftbayes.prediction._forecast import covariance_root, philox

Shape = Literal["line", "circle"]
# Probability of arrival by a time, and its error.
Law = Callable[[float], tuple[float, float]]

# Number of terms of the series; at times for which they do not suffice, no particle has arrived.
_N_ZEROS = 400
_MIN_TIME = 1e-4
_N_PATHS = 10_000
_MIN_STEPS, _MAX_STEPS = 256, 8192
# Largest change by halving the steps, as a fraction of the sampling error.
_STEP_ERROR = 0.5


def brownian_arrival(
    kappa: ArrayLike, time: ArrayLike, distance: float, shape: Shape = "line", n_dim: int = 2
) -> FloatArray:
    """Compute the probability that Brownian motion has arrived at a distance by a time.

    Args:
        kappa: Diffusivity.
        time: Time since the start.
        distance: Distance of the line, or radius of the circle.
        shape: A straight line, or a circle about the start.
        n_dim: Number of axes.

    Returns:
        Probabilities, for each diffusivity and time.

    Example:
        >>> float(brownian_arrival(1.0, 100.0, 10.0).round(4))
        0.4795
    """
    s = np.asarray(kappa, dtype=np.float64) * np.asarray(time, dtype=np.float64) / distance**2
    if shape == "line":
        with np.errstate(divide="ignore"):
            return np.asarray(erfc(0.5 / np.sqrt(s)))
    nu = 0.5 * n_dim - 1
    n = np.arange(1, _N_ZEROS + 1)
    # The Bessel functions of orders -1/2 and 1/2 have the zeros of the cosine and the sine.
    zeros = {1: np.pi * (n - 0.5), 2: _bessel_zeros(), 3: np.pi * n}[n_dim]
    terms = zeros ** (nu - 1) / jv(nu + 1, zeros)
    inside = 2 ** (1 - nu) / gamma(nu + 1) * np.exp(-np.multiply.outer(s, zeros**2)) @ terms
    return np.asarray(np.where(s < _MIN_TIME, 0.0, np.clip(1 - inside, 0.0, 1.0)))


@cache
def _bessel_zeros() -> FloatArray:
    return np.asarray(jn_zeros(0, _N_ZEROS))


def brownian_law(kappa: FloatArray, distance: float, shape: Shape, n_dim: int) -> Law:
    """Return the exact first-passage distribution of Brownian motion, averaged over kappa."""

    def law(time: float) -> tuple[float, float]:
        return float(np.mean(brownian_arrival(kappa, time, distance, shape, n_dim))), 0.0

    return law


def average_law(laws: Sequence[Law], weights: Sequence[float]) -> Law:
    """Average distributions, weighted by the probabilities of their models."""

    def law(time: float) -> tuple[float, float]:
        values = np.array([component(time) for component in laws])
        return float(weights @ values[:, 0]), float(np.sqrt(np.square(weights) @ values[:, 1] ** 2))

    return law


def simulated_law(
    draws: PosteriorDraws,
    times: FloatArray,
    target: tuple[float, Shape],
    n_dim: int,
    seed: tuple[int, int],
) -> tuple[Law, float]:
    """Return the first-passage distribution along exact paths, and its change by halved steps."""
    check_plain([draws.hypothesis], "first arrival", state_space=True)
    n_steps = _MIN_STEPS
    while True:
        hits = _first_hits(draws, (float(times[-1]), n_steps), target, n_dim, seed)
        fine, coarse = (_empirical_law(hit_times) for hit_times in hits)
        moved = [abs(fine(time)[0] - coarse(time)[0]) for time in times]
        enough = all(m <= _STEP_ERROR * fine(t)[1] for m, t in zip(moved, times, strict=True))
        if enough or n_steps == _MAX_STEPS:
            return fine, 0.0 if enough else max(moved)
        n_steps *= 2


def _empirical_law(hits: FloatArray) -> Law:
    ordered = np.sort(hits)

    def law(time: float) -> tuple[float, float]:
        p = np.searchsorted(ordered, time, side="right") / len(ordered)
        # The error is not zero even if none of the paths has arrived.
        return float(p), float(np.sqrt((p * (1 - p) + 1 / len(hits)) / len(hits)))

    return law


def _first_hits(
    draws: PosteriorDraws,
    grid: tuple[float, int],
    target: tuple[float, Shape],
    n_dim: int,
    seed: tuple[int, int],
) -> tuple[FloatArray, FloatArray]:
    """Return first-passage times along exact paths, at all steps and at every other step."""
    (end, n_steps), (distance, shape) = grid, target
    step = end / n_steps
    of = np.arange(_N_PATHS) % len(draws)
    rows = Rows(draws.hypothesis, draws.theta)
    motion = rows_first(rows.lanes(np.array([step]))[:, 0], rows.n_rows)
    a = motion[of, 0]
    root, start = (covariance_root(part)[of] for part in (motion[:, 1], rows.starts()[0]))
    rng = np.random.Generator(philox(*seed))
    size = (_N_PATHS, 1 if shape == "line" else n_dim, a.shape[-1])
    state = np.einsum("pij,paj->pai", start, rng.standard_normal(size))
    hits = [np.full(_N_PATHS, np.inf) for _ in range(2)]
    before = [np.zeros(_N_PATHS) for _ in range(2)]
    for i in range(1, n_steps + 1):
        state = np.einsum("pij,paj->pai", a, state)
        state += np.einsum("pij,paj->pai", root, rng.standard_normal(size))
        x = state[..., 0]
        away = x[:, 0] if shape == "line" else np.linalg.norm(x, axis=1)
        for k, stride in enumerate((1, 2)):
            if i % stride == 0:
                new = (away >= distance) & np.isinf(hits[k])
                part = (distance - before[k][new]) / (away[new] - before[k][new])
                hits[k][new] = step * (i - stride + stride * part)
                before[k] = away
    return hits[0], hits[1]
