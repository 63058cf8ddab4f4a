"""Exact evidences of many data sets under one hypothesis, all of them side by side.

For second moments of regular data, where the scale is integrated out in closed form and at most one
parameter is left. Data sets for which this is not certain, because of several modes, tails that do
not end or numbers that are not finite, are left out, for the way that takes one at a time.
"""

__all__ = ["StackSolution", "solve_stack"]

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from driftbayes.inference._batch import Batch
from driftbayes.inference.hypothesis import Hypothesis
from driftbayes.inference.quadrature import CAUTION, MAX_TAIL
from driftbayes.inference.stacked_density import StackedDensity, StackedPoints, stacked_density
from driftbayes.inference.stacked_lattice import integrate_lines
from driftbayes.inference.stacked_search import find_stacked_modes
from driftbayes.inference.stacked_summary import StackedSummary, summarise_stack
from driftbayes.likelihood.terms import gaussian_log_density
from driftbayes.typing import FloatArray, IntArray

# Data sets at a time: the nodes of more would leave the cache of the processor.
_AT_ONCE = 256
# Widths of a lattice, as for one data set.
_NARROWEST, _WIDEST = 1e-10, 2.0


@dataclass(frozen=True)
class StackSolution:
    """Evidences of the data sets of a batch that were solved.

    Args:
        sets: Which data sets.
        log_evidence: ln Z.
        error: Its error.
        n_nodes: Nodes of the quadrature.
        described: Modes and posteriors, if they were asked for.
    """

    sets: IntArray
    log_evidence: FloatArray
    error: FloatArray
    n_nodes: IntArray
    described: "Described | None"


@dataclass(frozen=True)
class Described:
    """Modes and posteriors.

    Args:
        theta_map: Mode of the density of θ, (set, parameter).
        log_likelihood_at_map: ln L there.
        summary: Moments and quantiles.
    """

    theta_map: FloatArray
    log_likelihood_at_map: FloatArray
    summary: StackedSummary


def solve_stack(
    hypothesis: Hypothesis, data: Batch, tolerance: float, *, describe: bool
) -> Iterator[StackSolution]:
    """Integrate the evidences of the data sets of a batch, some hundreds at a time.

    Args:
        hypothesis: Model family and prior.
        data: Data sets; nothing comes of kinds that are solved one by one.
        tolerance: Accepted error of ln Z, in nats.
        describe: Whether modes and posteriors are wanted too.
    """
    density = stacked_density(hypothesis, data)
    if density is None:
        return
    solve = _closed_form if density.left is None else _integrated
    for low in range(0, len(density.stack), _AT_ONCE):
        sets = np.arange(low, min(low + _AT_ONCE, len(density.stack)))
        yield solve(density, sets, tolerance, describe=describe)


def _closed_form(
    density: StackedDensity, sets: IntArray, tolerance: float, *, describe: bool
) -> StackSolution:
    """No parameter is left: ln Z is a Bessel function, and the mode solves a quadratic equation."""
    taus, group = np.unique(density.stack.taus[sets], return_inverse=True)
    sets = sets[np.argsort(group, kind="stable")]
    offsets = np.concatenate([[0], np.cumsum(np.bincount(group))])
    points = density.shared(np.zeros(len(taus)), taus, offsets, sets)
    values = density.log_integrand(points)
    good = np.isfinite(values) & np.isfinite(points.log_det) & (points.quadratic > 0)
    points, sets, values = points[good], sets[good], values[good]
    described = None
    if describe and len(sets):
        fits = np.stack([points.theta, points.log_det, points.quadratic], axis=1)[:, None]
        summary = summarise_stack(density, points.n, np.zeros((len(sets), 1)), fits, None)
        described = _described(density, points, summary)
    n_nodes = np.ones(len(sets), dtype=np.int64)
    return StackSolution(sets, values, 1e-15 * np.abs(values), n_nodes, described)


def _integrated(
    density: StackedDensity, sets: IntArray, tolerance: float, *, describe: bool
) -> StackSolution:
    """One parameter is left: the trapezoid rule around the mode."""
    modes = find_stacked_modes(density, sets, with_natural=describe)
    sets = sets[modes.certain]

    def log_f(line: IntArray, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        points = density.at(sets[line], z)
        extras = np.stack([points.theta, points.log_det, points.quadratic], axis=1)
        return density.log_integrand(points), extras

    caution = CAUTION[1]
    lines = integrate_lines(
        log_f,
        modes.free.z[modes.certain],
        modes.free.width[modes.certain].clip(_NARROWEST, _WIDEST),
        tolerance=tolerance / caution,
        max_tail=MAX_TAIL,
    )
    # The rounding of a huge log-evidence is no error of the quadrature.
    accepted = np.maximum(tolerance, 2e-14 * np.abs(lines.log_integral))
    good = np.isfinite(lines.log_integral) & lines.contained & (caution * lines.error <= accepted)
    # Other local maxima must have nodes too.
    good &= np.all((lines.ends - modes.reach[modes.certain]) * (-1, 1) >= 0, axis=1)
    lines, owner = lines[good], sets[good]
    described = None
    if describe and len(owner):
        assert modes.natural is not None
        points = modes.natural.points[np.flatnonzero(modes.certain)[good]]
        summary = summarise_stack(
            density, density.stack.n[owner], lines.log_weights, lines.extras, lines
        )
        described = _described(density, points, summary)
    return StackSolution(owner, lines.log_integral, caution * lines.error, lines.n_nodes, described)


def _described(
    density: StackedDensity, points: StackedPoints, summary: StackedSummary
) -> Described:
    """Modes with their likelihoods, from what was found at the modes of the density of θ."""
    scale = density.most_likely_scale(points, natural=True)
    theta_map = np.empty((len(scale), len(density.hypothesis.names)))
    theta_map[:, density.place] = scale
    if density.left is not None:
        theta_map[:, density.left] = points.theta
    fit = gaussian_log_density(points.n, points.log_det, points.quadratic, scale, np)
    return Described(theta_map, fit, summary)
