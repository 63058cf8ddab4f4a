"""Search for posterior modes: a coarse grid, lines through its best point, Newton's method."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from driftbayes._typing import FloatArray
from driftbayes.inference._density import Density, Points
from driftbayes.inference._hypothesis import Hypothesis
from driftbayes.inference._newton import Maximum, maximise
from driftbayes.priors import Uniform

# The grid covers rates from 1e-6 to 1e4 per sampling time, with four points per decade. It is
# coarser with three or more parameters, to stay within a few thousand points.
_DECADES = (-6.0, 4.0)
_N_POINTS = {1: 41, 2: 41, 3: 15, 4: 8, 5: 5}
_MIN_POINTS = 4
# Lines through the best point of the grid: decades around the natural unit, and even steps up to
# a multiple of the prior mean. Aliases of a frequency may be a fraction of 2π/τ apart.
_LINE_DECADES = (-2.0, 2.0)
_N_LINE = 64
_N_MEANS = 16.0
# Numbers of local maxima taken from the grid and from the lines.
_N_FROM_GRID = 2
_N_FROM_LINES = 8
# Largest number of steps for evaluating the grid; larger data are thinned.
_MAX_STEPS = 4_000
# A mode with a log-mass lower by this, in nats, stays negligible under a similar prior.
_NEGLIGIBLE = 50.0
# Two modes closer than this, in widths of the wider one, are the same.
_MIN_DISTANCE = 0.5
# A mode replaces another only if it is higher by more than this, the rounding.
_MIN_GAIN = 1e-6


@dataclass(frozen=True)
class Modes:
    """Modes in unconstrained coordinates z.

    Args:
        natural: Mode θ* of the density of the natural parameters, which defines the Occam factor.
            It may lie at a bound, at infinite z.
        free: Highest mode of the density of z, around which to integrate and to sample.
        every: All maxima found of the density of z, `free` first.
        log_mass: ln of the integral of a Gaussian of the same height and curvature at each of
            them; minus infinity if it did not converge or repeats another.
        left: Other local maxima, whose search did not converge or was omitted.
        left_mass: ln of the integral at each, if the peak is as wide as that at `free`.
    """

    natural: Maximum
    free: Maximum
    every: tuple[Maximum, ...]
    log_mass: FloatArray
    left: FloatArray
    left_mass: FloatArray


def find_modes(density: Density, known: Modes | None = None) -> Modes:
    """Find the modes of the densities of θ and of z.

    Args:
        density: Hypothesis and data.
        known: Modes under a similar prior, which replace the grid as starts.
    """
    if known is not None:
        both = np.stack([known.natural.z, known.free.z])
        floor = known.log_mass[0] - _NEGLIGIBLE
        pairs = zip(known.every[1:], known.log_mass[1:], strict=True)
        places = [mode.z for mode, mass in pairs if mode.converged and mass > floor]
        others = np.array(places).reshape(-1, len(both[0]))
        return _modes(density, both, others, [])
    engine, factor = density.engine.thinned(_MAX_STEPS)
    if factor == 1:
        return _modes(density, *_starts(density))
    # Search from the modes of the thinned data.
    thinned = Density(density.hypothesis, engine, factor)
    both, others, _ = _starts(thinned)
    near = _maximise(thinned, np.concatenate([both, others]))
    order = 1 + np.argsort([-m.value if m.converged else np.inf for m in near[1:]])
    best = [near[i].z for i in order if near[i].converged][:3] or [both[1]]
    natural = near[0].z if near[0].converged else both[0]
    both, others = np.stack([natural, best[0]]), np.array(best[1:]).reshape(-1, len(natural))
    return _modes(density, both, others, [])


def _modes(
    density: Density,
    both: FloatArray,
    others: FloatArray,
    left: list[tuple[float, FloatArray]],
) -> Modes:
    """Search for the modes of both densities.

    Args:
        density: Hypothesis and data.
        both: Starts for the mode of the density of θ and for that of z.
        others: Further starts for the density of z.
        left: Value and place of maxima from which no search starts.
    """
    found = _maximise(density, np.concatenate([both, others]))
    natural_mode, first, rest = found[0], found[1], found[2:]
    every = [first, *rest]
    usable = [m for m in every if m.converged and m.value > first.value + _MIN_GAIN]
    best_mode = max(usable, key=lambda m: m.value) if usable else first
    every = [best_mode, *(m for m in every if m is not best_mode)]
    # The search for the mode of θ may have ended at a lower peak, or at a bound.
    is_lower = density.at(best_mode.z[None]).natural[0] > natural_mode.value + _MIN_GAIN
    if best_mode is not first or is_lower:
        (again,) = _maximise(density, best_mode.z[None])
        if (again.converged or is_lower) and again.value > natural_mode.value + _MIN_GAIN:
            natural_mode = again
    log_mass = _log_masses(every)
    lost = [(m.value, m.z) for m in every if not m.converged and np.isfinite(m.value)] + left
    places = np.array([z for _, z in lost]).reshape(-1, len(best_mode.z))
    masses = np.array([log_mass[0] + value - best_mode.value for value, _ in lost])
    return Modes(natural_mode, best_mode, tuple(every), log_mass, places, masses)


def _maximise(density: Density, starts: FloatArray) -> list[Maximum]:
    """Maximise the density of θ from the first start, and that of z from the others."""

    def function(z: FloatArray, start: NDArray[np.int64]) -> FloatArray:
        points = density.at(z)
        return np.where(start == 0, points.natural, points.free)

    return maximise(function, starts, [0] + [1] * (len(starts) - 1))


def coarse_values(hypothesis: Hypothesis, index: int, tau: float) -> FloatArray:
    """Choose values of one parameter beside the scale for a coarse search.

    Args:
        hypothesis: Model family and prior.
        index: Index of the parameter in θ.
        tau: Sampling time.
    """
    unit = _unit(hypothesis, index, tau)
    line = _line_values(hypothesis, index, unit, float(hypothesis.prior_means[index]))
    if hypothesis.signed[index]:
        return line
    return np.concatenate([_grid_values(hypothesis, index, unit, _N_POINTS[1]), line])


def _unit(hypothesis: Hypothesis, index: int, tau: float) -> float:
    """Return the natural unit of a parameter, from tau and the length √(kτ)."""
    about = hypothesis.model.parameters[hypothesis.names[index]]
    return float(tau ** (about.time_power + 0.5 * about.length_power))


def _starts(
    density: Density,
) -> tuple[FloatArray, FloatArray, list[tuple[float, FloatArray]]]:
    """Find the best points of a grid for the densities of θ and z, and other maxima of the latter.

    The grid covers decades of each parameter in its natural unit, from tau and the length √(kτ). A
    dimensionless parameter with a uniform prior covers its interval, and a signed parameter stays
    at its prior mean. The unit of length, and with it the scale, is the most likely at each point.
    Then each parameter except the scale varies along a finer line through the best point.

    Returns:
        The best points, the other maxima, and value and place of the highest one beyond those.
    """
    hypothesis = density.hypothesis
    model, names = hypothesis.model, hypothesis.names
    place = names.index(model.scale_parameter) if model.scale_parameter in names else None
    units = [_unit(hypothesis, i, density.engine.tau) for i in range(len(names))]
    signed = hypothesis.signed
    on_grid = [i for i in range(len(names)) if i != place and not signed[i]]
    n_points = _N_POINTS.get(max(len(on_grid), 1), _MIN_POINTS)
    axes = [_grid_values(hypothesis, i, units[i], n_points) for i in on_grid]
    grid = np.meshgrid(*axes, indexing="ij") if axes else []
    theta = np.tile(hypothesis.prior_means, (grid[0].size if axes else 1, 1))
    for i, values in zip(on_grid, grid, strict=True):
        theta[:, i] = values.reshape(-1)
    if place is not None:
        theta[:, place] = 1.0
    points = _evaluate(density, theta, place)
    natural, free = (int(np.argmax(values)) for values in (points.natural, points.free))
    both = points.z[[natural, free]]
    along = [i for i in range(len(names)) if i != place]
    if not along:
        return both, both[:0], []
    others: list[FloatArray] = []
    if len(on_grid) > 1:
        table = points.free.reshape((n_points,) * len(on_grid))
        peaks = np.where(_is_local_maximum(table), table, -np.inf).reshape(-1)
        peaks[free] = -np.inf
        order = np.argsort(-peaks)[:_N_FROM_GRID]
        others += [points.z[i] for i in order if np.isfinite(peaks[i])]
    best = points.theta[free].copy()
    if place is not None:
        best[place] = 1.0
    lines = [_line_values(hypothesis, i, units[i], best[i]) for i in along]
    rows = []
    for i, line in zip(along, lines, strict=True):
        row = np.tile(best, (len(line), 1))
        row[:, i] = line
        rows.append(row)
    on_lines = _evaluate(density, np.concatenate(rows), place)
    tops: list[tuple[float, FloatArray]] = []
    low = 0
    for i, line in zip(along, lines, strict=True):
        values, z = on_lines.free[low : low + len(line)], on_lines.z[low : low + len(line)]
        low += len(line)
        padded = np.concatenate([[-np.inf], values, [-np.inf]])
        is_top = (values > padded[:-2]) & (values >= padded[2:]) & np.isfinite(values)
        known = line == best[i]
        known |= np.concatenate([known[1:], [False]]) | np.concatenate([[False], known[:-1]])
        tops += [(values[j], z[j]) for j in np.flatnonzero(is_top & ~known)]
    tops.sort(key=lambda top: -top[0])
    others = [z for _, z in tops[:_N_FROM_LINES]] + others
    left = [(float(value), z) for value, z in tops[_N_FROM_LINES : _N_FROM_LINES + 1]]
    return both, np.array(others).reshape(-1, len(names)), left


def _evaluate(density: Density, theta: FloatArray, place: int | None) -> Points:
    """Evaluate the density, with the unit of length at which whitened displacements have size one.

    Fixed lengths are not rescaled, which makes the starts slightly worse.
    """
    hypothesis = density.hypothesis
    scaled = theta
    if place is not None:
        _, n, _, quadratic = density.terms(theta)
        about = hypothesis.model.parameters
        powers = np.array([about[name].length_power for name in hypothesis.names])
        with np.errstate(all="ignore"):
            scaled = theta * (quadratic / n)[:, None] ** (0.5 * powers)
    with np.errstate(all="ignore"):
        z = hypothesis.to_unconstrained(scaled)
        z = np.where(np.isfinite(z), z, 0.0)
    return density.at(z)


def _is_local_maximum(table: FloatArray) -> NDArray[np.bool_]:
    """Find values that no neighbour exceeds."""
    from scipy.ndimage import maximum_filter

    highest = maximum_filter(table, size=3, mode="constant", cval=-np.inf)
    return np.asarray((table == highest) & np.isfinite(table))


def _grid_values(hypothesis: Hypothesis, i: int, unit: float, n_points: int) -> FloatArray:
    """Return the values of one parameter on the grid."""
    name = hypothesis.names[i]
    parameter, prior = hypothesis.model.parameters[name], hypothesis.priors[name]
    is_pure = not (parameter.length_power or parameter.time_power)
    if isinstance(prior, Uniform) and is_pure:
        return np.linspace(prior.low, prior.high, n_points + 2)[1:-1]
    return unit * 10 ** np.linspace(*_DECADES, n_points)


def _line_values(hypothesis: Hypothesis, i: int, unit: float, best: float) -> FloatArray:
    """Return the values of one parameter on a line, in ascending order and including the best."""
    prior = hypothesis.priors[hypothesis.names[i]]
    decades = unit * 10 ** np.linspace(*_LINE_DECADES, _N_LINE)
    if prior.is_signed:
        width = hypothesis.prior_log_sd[i]
        spread = hypothesis.prior_means[i] + width * np.linspace(-4.0, 4.0, _N_LINE)
        decades = np.zeros(0)
    elif isinstance(prior, Uniform):
        spread = np.linspace(prior.low, prior.high, _N_LINE + 2)[1:-1]
        decades = np.clip(decades, spread[0], spread[-1])
    else:
        spread = hypothesis.prior_means[i] * np.linspace(0.0, _N_MEANS, _N_LINE + 1)[1:]
    return np.unique(np.concatenate([spread, decades, [best]]))


def _log_masses(modes: list[Maximum]) -> FloatArray:
    """Compute ln of the mass of each mode; minus infinity for failed searches and repeats."""
    n, n_dim = len(modes), len(modes[0].z)
    log_mass = np.full(n, -np.inf)
    for a, mode in enumerate(modes):
        if not mode.converged:
            continue
        curvature = np.linalg.eigvalsh(-mode.hessian)
        value = mode.value + 0.5 * n_dim * np.log(2 * np.pi) - 0.5 * np.sum(np.log(curvature))
        repeats = False
        for other in modes[:a]:
            step = mode.z - other.z
            pair = [m.hessian for m in (mode, other) if np.isfinite(m.hessian).all()]
            repeats = repeats or min(float(-step @ h @ step) for h in pair) < _MIN_DISTANCE**2
        if np.isfinite(value) and not repeats:
            log_mass[a] = value
    return log_mass
