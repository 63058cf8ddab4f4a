"""Compiled sums over all segmentations of a track.

`_kernels.segments` describes the order of the table of segments.
"""

from typing import Any

import numpy as np

from driftbayes._kernels.compiled import compiled
from driftbayes._kernels.segments import row


@compiled()
def forward(table: Any, log_stay: Any, log_change: Any) -> Any:
    r"""Sum over all segmentations; find the distribution of the change before each candidate.

    With $\ln s_k$ = `log_stay[k]` and $\ln c_k$ = `log_change[k]` for no change and a change at
    candidate k, and E the evidences of the segments,

    $$W_0 = 1, \qquad W_j = \sum_{i<j} W_i\, c_i\, E_{ij} \prod_{i<k<j} s_k .$$

    The terms, divided by their sum $W_j$, are the probabilities that the change before j is at i,
    given one at j: backwards in time the posterior is a Markov chain. They replace the evidences in
    `table`.

    Returns:
        ln W at the end, the probability of a change at each candidate (1 at both ends), and the
        probability of any change.
    """
    m = len(log_stay) - 1
    top, total = np.full(m + 1, -np.inf), np.zeros(m + 1)
    log_w = np.zeros(m + 1)
    for i in range(m):
        if i:
            log_w[i] = top[i] + np.log(total[i]) + log_change[i]
        at, passed = row(i, m) - i - 1, 0.0
        for j in range(i + 1, m + 1):
            value = log_w[i] + table[at + j] + passed
            table[at + j] = value
            if value > top[j]:
                total[j] = total[j] * np.exp(top[j] - value) + 1.0
                top[j] = value
            else:
                total[j] += np.exp(value - top[j])
            passed += log_stay[j]
    for j in range(1, m + 1):
        top[j] += np.log(total[j])
    visited = np.zeros(m + 1)
    visited[m] = 1.0
    for i in range(m - 1, -1, -1):
        at = row(i, m) - i - 1
        for j in range(i + 1, m + 1):
            share = np.exp(table[at + j] - top[j])
            table[at + j] = share
            visited[i] += visited[j] * share
    changed = 0.0
    for i in range(1, m):
        changed += table[row(i, m) + m - i - 1]
    return top[m], visited, changed


@compiled()
def count_changes(table: Any, m: int, tail: float) -> Any:
    """Find the probability that the l-th change from the end is at each candidate, for every l.

    `table` comes from `forward`. Row 0 is the end of the track itself; the first number of
    row l is the probability of l - 1 changes. Rows end when all but `tail` is counted.
    """
    out = np.zeros((8, m + 1))
    out[0, m] = 1.0
    counted, n = 0.0, 1
    while counted < 1 - tail and n <= m:
        if n == len(out):
            longer = np.zeros((2 * n, m + 1))
            # `longer[:n] = out` takes Numba five seconds to compile, for its shape error message.
            for i in range(n):
                for j in range(m + 1):
                    longer[i, j] = out[i, j]
            out = longer
        for i in range(m - n, -1, -1):
            at, total = row(i, m) - i - 1, 0.0
            for j in range(i + 1, m - n + 2):
                total += out[n - 1, j] * table[at + j]
            out[n, i] = total
        counted += out[n, 0]
        n += 1
    return out[:n]


@compiled()
def counts_before(table: Any, m: int, n_changes: int) -> Any:
    """Find the probability that a change at each candidate is the k-th."""
    out = np.zeros((n_changes + 1, m + 1))
    out[0, 0] = 1.0
    for k in range(1, n_changes + 1):
        for i in range(k - 1, m):
            if out[k - 1, i] == 0.0:
                continue
            at = row(i, m) - i - 1
            for j in range(i + 1, m + 1):
                out[k, j] += out[k - 1, i] * table[at + j]
    return out


@compiled()
def likely_segments(table: Any, visited: Any, least: float) -> Any:
    """List the segments of at least the given probability, ordered by their first candidate."""
    m = len(visited) - 1
    count = 0
    for is_filling in (False, True):
        if is_filling:
            pairs, shares = np.empty((count, 2), dtype=np.int64), np.empty(count)
        count = 0
        for i in range(m):
            at = row(i, m) - i - 1
            for j in range(i + 1, m + 1):
                share = visited[j] * table[at + j]
                if share >= least:
                    if is_filling:
                        pairs[count, 0], pairs[count, 1] = i, j
                        shares[count] = share
                    count += 1
    return pairs, shares
