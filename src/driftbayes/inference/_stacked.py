"""Evidences and posteriors of many data sets at once."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from driftbayes._typing import FloatArray, IntArray
from driftbayes.errors import Status
from driftbayes.inference._batch import Batch
from driftbayes.inference._evidence import QUANTILES, Evidence
from driftbayes.inference._hypothesis import Hypothesis
from driftbayes.inference._posterior import summarise_stack
from driftbayes.inference._quadrature import ERROR_FACTORS, MAX_TAIL, Nodes
from driftbayes.inference._quantiles import line_quantiles
from driftbayes.inference._records import Posterior, make_record
from driftbayes.inference._stacked_density import StackedDensity, StackedPoints, stacked_density
from driftbayes.inference._stacked_lattice import Lines, integrate_lines
from driftbayes.inference._stacked_search import find_stacked_modes
from driftbayes.likelihood._gaussian import gaussian_log_density


def stack_records(
    hypothesis: Hypothesis, data: Batch, found: "StackSolution"
) -> Iterator[tuple[int, Evidence]]:
    """Yield index and evidence of each solved data set, if its posterior was described.

    Args:
        hypothesis: Model family and prior.
        data: All data sets.
        found: Solution of some data sets.
    """
    if found.described is None:
        return
    theta_map, log_likelihood_at_map, posteriors = found.described
    columns = zip(*vars(posteriors).values(), strict=True)
    for row, (i, posterior) in enumerate(zip(found.sets.tolist(), columns, strict=True)):
        yield (
            i,
            make_record(
                *(hypothesis, data, i, theta_map[row], Posterior(*posterior)),
                method="exact",
                log_evidence=float(found.log_evidence[row]),
                log_evidence_err=float(found.error[row]),
                log_likelihood_at_map=float(log_likelihood_at_map[row]),
                status=Status.OK,
                n_evaluations=int(found.n_nodes[row]),
            ),
        )


# Limits of the width of a lattice, as for one data set.
_MIN_WIDTH, _MAX_WIDTH = 1e-10, 2.0


@dataclass(frozen=True)
class StackSolution:
    """Evidences of the solved data sets of a batch.

    Args:
        sets: Indices of the data sets.
        log_evidence: ln Z.
        error: Error of ln Z.
        n_nodes: Number of nodes of the quadrature.
        described: If requested, the modes of the density of θ, (set, parameter), ln L there, and
            the posteriors, with a leading axis over data sets.
    """

    sets: IntArray
    log_evidence: FloatArray
    error: FloatArray
    n_nodes: IntArray
    described: tuple[FloatArray, FloatArray, Posterior] | None


def solve_stack(
    hypothesis: Hypothesis, data: Batch, tolerance: float, *, describe: bool
) -> Iterator[StackSolution]:
    """Integrate the evidences of the data sets of a batch, hundreds at a time.

    Args:
        hypothesis: Model family and prior.
        data: Data sets; nothing is yielded if they cannot be solved together.
        tolerance: Accepted error of ln Z, in nats.
        describe: Whether to compute modes and posteriors too.
    """
    density = stacked_density(hypothesis, data)
    if density is None:
        return
    solve = _solve_closed if density.left is None else _solve_quadrature
    for sets in density.batches():
        yield solve(density, sets, tolerance, describe=describe)


def _solve_closed(
    density: StackedDensity, sets: IntArray, tolerance: float, *, describe: bool
) -> StackSolution:
    """Solve without other parameters: ln Z is a Bessel function, the mode a quadratic root."""
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
        described = _describe(density, points, np.zeros((len(sets), 1)), fits, None)
    n_nodes = np.ones(len(sets), dtype=np.int64)
    return StackSolution(sets, values, 1e-15 * np.abs(values), n_nodes, described)


def _solve_quadrature(
    density: StackedDensity, sets: IntArray, tolerance: float, *, describe: bool
) -> StackSolution:
    """Integrate over one other parameter by the trapezoid rule around the mode."""
    modes = find_stacked_modes(density, sets, with_natural=describe)
    sets = sets[modes.certain]

    def log_f(line: IntArray, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        points = density.at(sets[line], z)
        extras = np.stack([points.theta, points.log_det, points.quadratic], axis=1)
        return density.log_integrand(points), extras

    error_factor = ERROR_FACTORS[1]
    lines = integrate_lines(
        log_f,
        modes.free.z[modes.certain],
        modes.free.width[modes.certain].clip(_MIN_WIDTH, _MAX_WIDTH),
        tolerance=tolerance / error_factor,
        max_tail=MAX_TAIL,
    )
    # Rounding of a large log-evidence is not an error of the quadrature.
    accepted = np.maximum(tolerance, 2e-14 * np.abs(lines.log_integral))
    good = (
        np.isfinite(lines.log_integral) & lines.contained & (error_factor * lines.error <= accepted)
    )
    # The nodes must cover other local maxima too.
    good &= np.all((lines.ends - modes.reach[modes.certain]) * (-1, 1) >= 0, axis=1)
    lines, sets = lines[good], sets[good]
    described = None
    if describe and len(sets):
        assert modes.natural is not None
        points = modes.natural.points[np.flatnonzero(modes.certain)[good]]
        described = _describe(density, points, lines.log_weights, lines.extras, lines)
    return StackSolution(
        sets, lines.log_integral, error_factor * lines.error, lines.n_nodes, described
    )


def _describe(
    density: StackedDensity,
    points: StackedPoints,
    log_weights: FloatArray,
    fits: FloatArray,
    lines: Lines | None,
) -> tuple[FloatArray, FloatArray, Posterior]:
    """Describe posteriors by the modes of the density of θ, ln L there, moments and quantiles.

    Args:
        density: Hypothesis and data.
        points: Modes.
        log_weights: ln of the weight of each node, (set, node); -inf if there is none.
        fits: θ of the parameter left, log-determinant and quadratic form, (set, node, 3).
        lines: Lattices of the parameter left; None if there is none.
    """
    place, left, hypothesis = density.place, density.left, density.hypothesis
    owner, node = np.nonzero(log_weights > -np.inf)
    other, log_det, quadratic = fits[owner, node].T
    theta = np.ones((len(owner), len(hypothesis.names)))
    terms = np.stack([points.n[owner], log_det, quadratic], axis=1)
    if left is not None:
        theta[:, left] = other
    nodes = Nodes(log_weights[owner, node], theta, terms)
    posteriors = summarise_stack(nodes, owner, place, density.form, hypothesis.signed)
    if left is not None and lines is not None:
        z = np.zeros((len(points.n) * len(QUANTILES), len(hypothesis.names)))
        z[:, left] = line_quantiles(lines, np.array(QUANTILES)).reshape(-1)
        of_left = hypothesis.from_unconstrained(z)[:, left]
        posteriors.quantiles[:, left] = of_left.reshape(len(points.n), -1)
    scale = density.most_likely_scale(points, natural=True)
    theta_map = np.empty((len(scale), len(hypothesis.names)))
    theta_map[:, place] = scale
    if left is not None:
        theta_map[:, left] = points.theta
    fit = gaussian_log_density(points.n, points.log_det, points.quadratic, scale, np)
    return theta_map, fit, posteriors
