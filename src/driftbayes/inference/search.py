"""Modes of a posterior: a grid of decades, lines through its best, then Newton's method."""

__all__ = ["Modes", "coarse_values", "find_modes"]

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from driftbayes.inference.density import Density, Points
from driftbayes.inference.formulas import PriorFacts, prior_facts, unconstrained
from driftbayes.inference.hypothesis import Hypothesis
from driftbayes.inference.newton import Maximum, maximise
from driftbayes.priors import Uniform
from driftbayes.typing import FloatArray

# Rates are tried from 1e-6 to 1e4 per sampling time, four to a decade; with three parameters or
# more the grid is coarser, so that it stays within a few thousand points.
_DECADES = (-6.0, 4.0)
_N_POINTS = {1: 41, 2: 41, 3: 15, 4: 8, 5: 5}
_FEWEST = 4
# Lines through the best point of the grid: decades about the natural unit, and even steps over
# means of the prior. A frequency has aliases, as little as a fraction of 2π/τ apart.
_LINE_DECADES = (-2.0, 2.0)
_N_LINE = 64
_N_MEANS = 16.0
# Local maxima that are taken from the grid and from the lines.
_N_FROM_GRID = 2
_N_FROM_LINES = 8
# The grid is judged by a part of very large data, of as many steps.
_MAX_STEPS = 4_000
# A mode whose mass is less by this, in nats, stays negligible under a similar prior.
_NEGLIGIBLE = 50.0
# Two modes closer than this, in widths of the wider, are one.
_SAME = 0.5
# A mode replaces another only if it is higher by more than rounding.
_HIGHER = 1e-6


@dataclass(frozen=True)
class Modes:
    """All in unconstrained coordinates.

    Args:
        natural: Of the density of the natural parameters: θ*, where the Occam factor is taken. It
            may lie at a bound, at infinity of z.
        free: Of the density of z, the highest found, around which to integrate and to sample.
        every: Every maximum of the density of z that was found, `free` first.
        log_mass: ln of the integral of a Gaussian of the same height and curvature at each of
            them; minus infinity for one that did not converge or that repeats another.
        left: Places of other local maxima: where a search did not converge, or was not made since
            there were too many.
        left_mass: ln of the integral at each, if the peak is as wide as that at `free`.
    """

    natural: Maximum
    free: Maximum
    every: tuple[Maximum, ...]
    log_mass: FloatArray
    left: FloatArray
    left_mass: FloatArray


def find_modes(density: Density, known: Modes | None = None) -> Modes:
    """Find the modes of the density of θ and of that of z.

    Args:
        density: Hypothesis and data.
        known: Modes under a similar prior: a search from each replaces that over a grid.
    """
    if known is not None:
        both = np.stack([known.natural.z, known.free.z])
        floor = known.log_mass[0] - _NEGLIGIBLE
        pairs = zip(known.every[1:], known.log_mass[1:], strict=True)
        places = [mode.z for mode, mass in pairs if mode.converged and mass > floor]
        others = np.array(places).reshape(-1, len(both[0]))
        return _modes(density, both, others, None, -np.inf)
    engine, factor = density.engine.thinned(_MAX_STEPS)
    is_part = factor > 1
    few = Density(density.hypothesis, engine, factor) if is_part else density
    starts = _starts(few)
    others, left, left_value = starts.others, starts.left, starts.left_value
    if is_part:
        # The modes of a part of the data are where those of all are sought.
        near = _maximise(few, np.concatenate([starts.both, others]))
        order = 1 + np.argsort([-m.value if m.converged else np.inf for m in near[1:]])
        best = [near[i].z for i in order if near[i].converged][:3] or [starts.both[1]]
        natural = near[0].z if near[0].converged else starts.both[0]
        both, others = np.stack([natural, best[0]]), np.array(best[1:]).reshape(-1, len(natural))
        left, left_value = None, -np.inf
    else:
        both = starts.both
    return _modes(density, both, others, left, left_value)


def _modes(
    density: Density,
    both: FloatArray,
    others: FloatArray,
    left: FloatArray | None,
    left_value: float,
) -> Modes:
    found = _maximise(density, np.concatenate([both, others]))
    natural_mode, first, rest = found[0], found[1], found[2:]
    every = [first, *rest]
    usable = [m for m in every if m.converged and m.value > first.value + _HIGHER]
    best_mode = max(usable, key=lambda m: m.value) if usable else first
    every = [best_mode, *(m for m in every if m is not best_mode)]
    # The search for the mode of θ may have ended on a lower peak, or at a bound.
    is_lower = density.at(best_mode.z[None]).natural[0] > natural_mode.value + _HIGHER
    if best_mode is not first or is_lower:
        (again,) = _maximise(density, best_mode.z[None], natural=1)
        if (again.converged or is_lower) and again.value > natural_mode.value + _HIGHER:
            natural_mode = again
    log_mass = _log_masses(every)
    lost = [(m.z, m.value) for m in every if not m.converged and np.isfinite(m.value)]
    lost += [] if left is None else [(left, left_value)]
    places = np.array([z for z, _ in lost]).reshape(-1, len(best_mode.z))
    masses = np.array([log_mass[0] + value - best_mode.value for _, value in lost])
    return Modes(natural_mode, best_mode, tuple(every), log_mass, places, masses)


def _maximise(density: Density, starts: FloatArray, natural: int = 1) -> list[Maximum]:
    """Maxima from each start: of the density of θ for the first `natural`, then of that of z."""

    def function(z: FloatArray, which: NDArray[np.int64]) -> FloatArray:
        points = density.at(z)
        return np.where(which < natural, points.natural, points.free)

    kinds = [0] * natural + [1] * (len(starts) - natural)
    return maximise(function, starts, kinds)


@dataclass(frozen=True)
class _Starts:
    both: FloatArray
    others: FloatArray
    left: FloatArray | None
    left_value: float


def coarse_values(hypothesis: Hypothesis, index: int, tau: float, facts: PriorFacts) -> FloatArray:
    """Values of one parameter beside the scale at which posteriors are looked for.

    Args:
        hypothesis: Model family and prior.
        index: Place in θ of the parameter.
        tau: Sampling time.
        facts: Of the priors.
    """
    unit = _unit(hypothesis, index, tau)
    line = _line(hypothesis, index, unit, float(facts.mean[index]), facts)
    if hypothesis.signed[index]:
        return line
    return np.concatenate([_axis(hypothesis, index, unit, _N_POINTS[1], facts), line])


def _unit(hypothesis: Hypothesis, index: int, tau: float) -> float:
    """Natural unit of a parameter, made of tau and of the length √(kτ)."""
    about = hypothesis.model.parameters[hypothesis.names[index]]
    return float(tau ** (about.time_power + 0.5 * about.length_power))


def _starts(density: Density) -> _Starts:
    """The best of a grid for the density of θ and for that of z, and other maxima of the latter.

    Every parameter runs over decades of its natural unit, made of tau and of the length √(kτ); a
    pure number in an interval runs over that, and what may be negative stays at its prior's mean.
    The unit of length, and with it the scale parameter, is the most likely at each grid point.
    Through the best point each parameter but the scale then runs along a finer line of its own.
    """
    hypothesis = density.hypothesis
    model, names = hypothesis.model, hypothesis.names
    facts = prior_facts(hypothesis)
    place = names.index(model.scale_parameter) if model.scale_parameter in names else None
    units = [_unit(hypothesis, i, density.engine.tau) for i in range(len(names))]
    signed = hypothesis.signed
    on_grid = [i for i in range(len(names)) if i != place and not signed[i]]
    n_points = _N_POINTS.get(max(len(on_grid), 1), _FEWEST)
    axes = [_axis(hypothesis, i, units[i], n_points, facts) for i in on_grid]
    grid = np.meshgrid(*axes, indexing="ij") if axes else []
    theta = np.tile(facts.mean, (grid[0].size if axes else 1, 1))
    for i, values in zip(on_grid, grid, strict=True):
        theta[:, i] = values.reshape(-1)
    if place is not None:
        theta[:, place] = 1.0
    points = _judge(density, theta, place)
    natural, free = (int(np.argmax(values)) for values in (points.natural, points.free))
    both = points.z[[natural, free]]
    along = [i for i in range(len(names)) if i != place]
    if not along:
        return _Starts(both, both[:0], None, -np.inf)
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
    lines = [_line(hypothesis, i, units[i], best[i], facts) for i in along]
    rows = []
    for i, line in zip(along, lines, strict=True):
        row = np.tile(best, (len(line), 1))
        row[:, i] = line
        rows.append(row)
    seen = _judge(density, np.concatenate(rows), place)
    tops: list[tuple[float, FloatArray]] = []
    low = 0
    for i, line in zip(along, lines, strict=True):
        values, z = seen.free[low : low + len(line)], seen.z[low : low + len(line)]
        low += len(line)
        padded = np.concatenate([[-np.inf], values, [-np.inf]])
        is_top = (values > padded[:-2]) & (values >= padded[2:]) & np.isfinite(values)
        known = line == best[i]
        known |= np.concatenate([known[1:], [False]]) | np.concatenate([[False], known[:-1]])
        tops += [(values[j], z[j]) for j in np.flatnonzero(is_top & ~known)]
    tops.sort(key=lambda top: -top[0])
    others = [z for _, z in tops[:_N_FROM_LINES]] + others
    left_value, left = tops[_N_FROM_LINES] if len(tops) > _N_FROM_LINES else (-np.inf, None)
    stacked = np.array(others).reshape(-1, len(names))
    return _Starts(both, stacked, left, float(left_value))


def _judge(density: Density, theta: FloatArray, place: int | None) -> Points:
    """Evaluate at parameters, with lengths in units that make whitened displacements of size one.

    A length that is known is left as it is, and the start is a little worse.
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
        z = unconstrained(hypothesis, scaled)
        z = np.where(np.isfinite(z), z, 0.0)
    return density.at(z)


def _is_local_maximum(table: FloatArray) -> NDArray[np.bool_]:
    """Which values none of their neighbours exceeds."""
    from scipy.ndimage import maximum_filter

    highest = maximum_filter(table, size=3, mode="constant", cval=-np.inf)
    return np.asarray((table == highest) & np.isfinite(table))


def _axis(
    hypothesis: Hypothesis, i: int, unit: float, n_points: int, facts: PriorFacts
) -> FloatArray:
    name = hypothesis.names[i]
    parameter = hypothesis.model.parameters[name]
    is_pure = not (parameter.length_power or parameter.time_power)
    if isinstance(hypothesis.priors[name], Uniform) and is_pure:
        low, high = _ends(facts, i)
        return low + (high - low) * np.linspace(0.0, 1.0, n_points + 2)[1:-1]
    return unit * 10 ** np.linspace(*_DECADES, n_points)


def _ends(facts: PriorFacts, i: int) -> tuple[float, float]:
    """Ends of a uniform prior, from two of its quantiles."""
    first, last = facts.quantiles[i, 0], facts.quantiles[i, -1]
    margin = (last - first) / (len(facts.quantiles[i]) - 1)
    return first - margin, last + margin


def _line(
    hypothesis: Hypothesis, i: int, unit: float, best: float, facts: PriorFacts
) -> FloatArray:
    """Values of one parameter in rising order, that of the best point among them."""
    prior = hypothesis.priors[hypothesis.names[i]]
    decades = unit * 10 ** np.linspace(*_LINE_DECADES, _N_LINE)
    if prior.is_signed:
        spread = facts.mean[i] + facts.log_sd[i] * np.linspace(-4.0, 4.0, _N_LINE)
        decades = np.zeros(0)
    elif isinstance(prior, Uniform):
        spread = facts.quantiles[i]
        decades = np.clip(decades, spread[0], spread[-1])
    else:
        spread = facts.mean[i] * np.linspace(0.0, _N_MEANS, _N_LINE + 1)[1:]
    return np.unique(np.concatenate([spread, decades, [best]]))


def _log_masses(modes: list[Maximum]) -> FloatArray:
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
            repeats = repeats or min(float(-step @ h @ step) for h in pair) < _SAME**2
        if np.isfinite(value) and not repeats:
            log_mass[a] = value
    return log_mass
