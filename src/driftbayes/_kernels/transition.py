"""Compiled transition probabilities of a Markov chain on cells, and their derivatives.

All terms of the uniformisation series e^{At} = sum_k w_k M^k, M = I + A/q, are non-negative.
"""

from typing import Any

import numpy as np

from driftbayes._kernels.compiled import FAST_OPTIONS, compiled


@compiled(**FAST_OPTIONS)
def _apply(stay: Any, rates: Any, neighbours: Any, term: Any, out: Any) -> None:
    """Multiply columns by M: the probability that stays, plus that from the neighbours."""
    n, width = term.shape
    for c in range(n):
        for b in range(width):
            out[c, b] = stay[c] * term[c, b]
        for m in range(neighbours.shape[1]):
            rate, other = rates[c, m], neighbours[c, m]
            if rate != 0.0:
                for b in range(width):
                    out[c, b] += rate * term[other, b]


@compiled(**FAST_OPTIONS)
def evolve_columns(
    stay: Any, incoming: Any, neighbours: Any, weights: Any, cells: Any, out: Any
) -> None:
    """Compute the probabilities of all cells for particles from given cells.

    Args:
        stay: Diagonal of M, by cell.
        incoming: Entries of M from each neighbour into a cell; zero where there is none.
        neighbours: Number of the neighbour.
        weights: Weights of the powers of M.
        cells: Cells where particles start.
        out: (cell, start), overwritten.
    """
    n, width = out.shape
    term, next_term = np.zeros((n, width)), np.empty((n, width))
    for b in range(width):
        term[cells[b], b] = 1.0
    for c in range(n):
        for b in range(width):
            out[c, b] = weights[0] * term[c, b]
    for k in range(1, len(weights)):
        _apply(stay, incoming, neighbours, term, next_term)
        term, next_term = next_term, term
        weight = weights[k]
        for c in range(n):
            for b in range(width):
                out[c, b] += weight * term[c, b]


@compiled(**FAST_OPTIONS)
def rate_gradient(
    stay: Any, incoming: Any, outgoing: Any, neighbours: Any, weights: Any, cells: Any, slope: Any
) -> Any:
    """Compute derivatives by the entries of M out of each cell, with column sums held at one.

    Args:
        stay: Diagonal of M, by cell.
        incoming: Entries of M from each neighbour into a cell; zero where there is none.
        outgoing: Entries of M from a cell to each neighbour.
        neighbours: Number of the neighbour.
        weights: Weights of the powers of M.
        cells: Cells where particles start.
        slope: Derivatives by the probabilities (cell, start).

    Returns:
        Derivatives (cell, neighbour).
    """
    n, width = slope.shape
    n_terms = len(weights)
    terms = np.zeros((n_terms, n, width))
    for b in range(width):
        terms[0, cells[b], b] = 1.0
    for k in range(1, n_terms):
        _apply(stay, incoming, neighbours, terms[k - 1], terms[k])
    back, next_back = weights[-1] * slope, np.empty((n, width))
    total = np.zeros(neighbours.shape)
    for k in range(n_terms - 2, -1, -1):
        term = terms[k]
        for c in range(n):
            for m in range(neighbours.shape[1]):
                if outgoing[c, m] != 0.0:
                    other, product = neighbours[c, m], 0.0
                    for b in range(width):
                        product += term[c, b] * (back[other, b] - back[c, b])
                    total[c, m] += product
        _apply(stay, outgoing, neighbours, back, next_back)
        back, next_back = next_back, back
        weight = weights[k]
        for c in range(n):
            for b in range(width):
                back[c, b] += weight * slope[c, b]
    return total


@compiled(**FAST_OPTIONS)
def stencil_sums(
    log_p: Any, starts: Any, start_weights: Any, ends: Any, end_weights: Any, slope: Any
) -> Any:
    """Sum ln p of steps, interpolated between starts and between ends, and its derivatives.

    Args:
        log_p: ln of the transition probability (cell, start).
        starts: Columns around the beginning of each step (step, node).
        start_weights: Their weights.
        ends: Cells around the end of each step (step, node).
        end_weights: Their weights.
        slope: Derivatives by `log_p`, to which those of all steps are added.
    """
    total = 0.0
    for i in range(len(starts)):
        for a in range(starts.shape[1]):
            column, weight = starts[i, a], start_weights[i, a]
            for b in range(ends.shape[1]):
                both = weight * end_weights[i, b]
                total += both * log_p[ends[i, b], column]
                slope[ends[i, b], column] += both
    return total
