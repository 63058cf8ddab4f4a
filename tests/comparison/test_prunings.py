"""The average over prunings is that over prunings listed by hand."""

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose

from driftbayes import DriftbayesError
from driftbayes.comparison._prunings import average_prunings

# A quadtree of depth 2: a root, 4 children, 16 grandchildren.
PARENTS = [np.zeros(1, int), np.zeros(4, int), np.repeat(np.arange(4), 4)]


def listed(split):
    """All prunings of depth 2: the leaves as (depth, place), and the prior probability."""
    yield [(0, 0)], 1 - split
    for choice in product([False, True], repeat=4):
        leaves = []
        for child, is_split in enumerate(choice):
            below = [(2, 4 * child + n) for n in range(4)]
            leaves += below if is_split else [(1, child)]
        n_split = sum(choice)
        yield leaves, split * split**n_split * (1 - split) ** (4 - n_split)


@pytest.mark.parametrize("split", [0.5, 0.1, 0.83])
def test_seventeen_prunings_by_hand(split):
    rng = np.random.default_rng(1)
    log_z = [rng.normal(0, 1.5, size) for size in (1, 4, 16)]
    tree = average_prunings(log_z, PARENTS, split)
    prunings = list(listed(split))
    assert len(prunings) == 17
    assert_allclose(sum(prior for _, prior in prunings), 1, rtol=1e-14)
    weights = [np.log(prior) + sum(log_z[d][n] for d, n in leaves) for leaves, prior in prunings]
    total = np.logaddexp.reduce(weights)
    assert_allclose(tree.log_evidence[0][0], total, rtol=1e-12)
    posterior = np.exp(np.array(weights) - total)
    for depth in range(3):
        for node in range(len(log_z[depth])):
            is_leaf = [(depth, node) in leaves for leaves, _ in prunings]
            assert_allclose(tree.leaf[depth][node], posterior[is_leaf].sum(), atol=1e-12)
    # Homogeneous is the first of them.
    assert_allclose(1 - tree.split[0][0], posterior[0], rtol=1e-12)


def test_without_data_the_prior_comes_back():
    tree = average_prunings([np.zeros(1), np.zeros(4), np.zeros(16)], PARENTS, 0.3)
    assert_allclose(tree.log_evidence[0], 0, atol=1e-15)
    assert_allclose(tree.split[0], 0.3, rtol=1e-14)
    assert_allclose(tree.reached[2], 0.09, rtol=1e-14)
    assert_allclose(tree.leaf[2], 0.09, rtol=1e-14)


def test_empty_nodes_may_be_left_out():
    rng = np.random.default_rng(2)
    log_z = [rng.normal(0, 2, size) for size in (1, 4, 16)]
    kept = [np.array([0]), np.array([1, 3]), np.array([5, 7, 12])]
    full = [np.zeros(size) for size in (1, 4, 16)]
    for depth in range(3):
        full[depth][kept[depth]] = log_z[depth][kept[depth]]
    some = [level[places] for level, places in zip(log_z, kept, strict=True)]
    short = average_prunings(some, [np.zeros(1, int), np.zeros(2, int), np.array([0, 0, 1])])
    whole = average_prunings(full, PARENTS)
    assert_allclose(short.log_evidence[0], whole.log_evidence[0], rtol=1e-13)
    assert_allclose(short.leaf[2], whole.leaf[2][kept[2]], rtol=1e-12)


def test_a_node_without_children_is_never_split():
    tree = average_prunings([np.zeros(1), np.array([50.0, 1.0])], [[0], [0, 0]])
    assert (tree.split[1] == 0).all()
    # One node is all there is.
    alone = average_prunings([np.array([3.0])], [[0]])
    assert alone.log_evidence[0][0] == 3.0
    assert alone.split[0][0] == 0


def test_evidences_of_millions_of_nats_do_not_overflow():
    tree = average_prunings([np.array([-3e6]), np.full(4, -7e5)], PARENTS[:2])
    assert_allclose(tree.log_evidence[0], -2.8e6 + np.log(0.5), rtol=1e-15)
    assert tree.split[0][0] == 1
    other = average_prunings([np.array([-3e6]), np.full(4, -8e5)], PARENTS[:2])
    assert other.split[0][0] == 0


@pytest.mark.parametrize("split", [0.0, 1.0, -1.0, float("nan")])
def test_a_certain_split_is_refused(split):
    with pytest.raises(DriftbayesError, match="between 0 and 1"):
        average_prunings([np.zeros(1)], [[0]], split)
