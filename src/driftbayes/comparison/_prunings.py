"""Average over all prunings of a tree, by recursion on the evidences of its nodes."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from driftbayes._typing import FloatArray, IntArray
from driftbayes.errors import DriftbayesError


@dataclass(frozen=True, eq=False)
class Prunings:
    r"""Posterior of all prunings of a tree; arrays by depth, the root first.

    A pruning divides the data among its leaves. A node with children is split with prior
    probability p, so that the evidence of the subtree below a node is

    $$W = (1-p)\,Z + p \prod_{\text{children}} W .$$

    Args:
        log_evidence: ln W of each node.
        split: Posterior probability that a node is split, given that it is reached.
        reached: Posterior probability that all nodes above a node are split.
    """

    log_evidence: tuple[FloatArray, ...]
    split: tuple[FloatArray, ...]
    reached: tuple[FloatArray, ...]

    @property
    def leaf(self) -> tuple[FloatArray, ...]:
        """Probability that a node is a leaf."""
        return tuple(r * (1 - s) for r, s in zip(self.reached, self.split, strict=True))


def average_prunings(
    log_evidence: Sequence[FloatArray], parents: Sequence[IntArray], split: float = 0.5
) -> Prunings:
    """Average exactly over all prunings, in time proportional to the number of nodes.

    Args:
        log_evidence: ln Z of each node as a leaf, by depth; at depth 0 only the root. Nodes without
            data have ln Z = 0 and may be omitted.
        parents: Index of the parent of each node in the depth above; ignored for the root. A node
            without children is never split.
        split: Prior probability p that a node with children is split.

    Raises:
        DriftbayesError: p is not between 0 and 1.

    Example:
        >>> import numpy as np
        >>> parents = [np.array([0]), np.array([0, 0])]
        >>> tree = average_prunings([np.zeros(1), np.array([1.0, 2.0])], parents)
        >>> round(float(tree.split[0][0]), 6), round(float(1 / (1 + np.exp(-3.0))), 6)
        (0.952574, 0.952574)
    """
    if not 0 < split < 1:
        msg = f"the prior probability of a split must lie between 0 and 1, got {split:g}"
        raise DriftbayesError(msg)
    leaves = [np.asarray(level, dtype=np.float64) for level in log_evidence]
    owners = [np.asarray(level, dtype=np.int64) for level in parents]
    total, chance = [leaves[-1]], [np.zeros(len(leaves[-1]))]
    for depth in range(len(leaves) - 2, -1, -1):
        own, owner = leaves[depth], owners[depth + 1]
        below = np.bincount(owner, total[0], minlength=len(own))
        has_children = np.bincount(owner, minlength=len(own)) > 0
        whole = np.log1p(-split) + own
        parts = np.log(split) + below
        both = np.logaddexp(whole, parts)
        total.insert(0, np.where(has_children, both, own))
        chance.insert(0, np.where(has_children, np.exp(parts - both), 0.0))
    reached = [np.ones(len(leaves[0]))]
    for depth in range(1, len(leaves)):
        owner = owners[depth]
        reached.append((reached[-1] * chance[depth - 1])[owner])
    return Prunings(tuple(total), tuple(chance), tuple(reached))
