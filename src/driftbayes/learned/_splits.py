"""Score learned densities on held-out trajectories: folds and sequential blocks."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from driftbayes._magnitudes import whole
from driftbayes._typing import FloatArray, IntArray
from driftbayes.data._sampling import Displacements
from driftbayes.data._units import readable
from driftbayes.errors import DriftbayesError

BoolArray = NDArray[np.bool_]
# Smallest number of trajectories in the first block, and its fraction of all.
_MIN_FIRST, _FIRST_SHARE = 4, 1 / 16


@dataclass(frozen=True, eq=False)
class Steps:
    """Displacements with the previous displacements, in the order of the data.

    Args:
        dx: Displacement vectors (step, dim).
        previous: Previous displacement of each step, zero where there is none.
        has_previous: Whether there is a previous displacement: not at the start of a run.
        trajectory: Number of the trajectory of each step.
    """

    dx: FloatArray
    previous: FloatArray
    has_previous: BoolArray
    trajectory: IntArray

    def __len__(self) -> int:
        return len(self.dx)


def successive_steps(data: Displacements) -> Steps:
    """Pair each displacement with the previous one in its run.

    Args:
        data: Successive displacements at one tau, without overlap.

    Raises:
        DriftbayesError: Steps differ in duration, or no step has a previous one.

    Example:
        >>> from driftbayes import Displacements
        >>> steps = successive_steps(Displacements.from_array([[[1.0], [2.0]], [[3.0], [4.0]]], 1))
        >>> steps.has_previous.tolist(), steps.previous.ravel().tolist()
        ([False, True, False, True], [0.0, 1.0, 0.0, 3.0])
    """
    if not np.allclose(data.interval, data.tau, rtol=1e-3, atol=0):
        raise DriftbayesError(
            "a learned density needs steps of equal duration, got "
            f"{readable(float(data.interval.min()), data.time_unit)} to "
            f"{readable(float(data.interval.max()), data.time_unit)}; give --tau as a time, and "
            "split trajectories at gaps"
        )
    first = np.zeros(len(data.dx), dtype=bool)
    first[data.first_steps] = True
    if first.all():
        raise DriftbayesError(
            f"no two successive displacements at tau = {readable(data.tau, data.time_unit)}, as a "
            "density given the previous displacement needs; use a smaller tau"
        )
    previous = np.where(first[:, None], 0.0, np.roll(data.dx, 1, axis=0))
    return Steps(data.dx, previous, ~first, np.repeat(data.trajectory, data.row_sizes))


@dataclass(frozen=True, eq=False)
class Split:
    """Training and test steps.

    Args:
        train: Whether each step is a training step.
        test: Whether each step is a test step.
    """

    train: BoolArray
    test: BoolArray


# Maps splits to log densities of their test steps, for each density by name.
Learner = Callable[[Sequence[Split]], Mapping[str, Sequence[FloatArray]]]


def folds_of(steps: Steps, n_folds: int) -> list[Split]:
    """Divide trajectories into folds for cross-validation.

    Args:
        steps: Steps of all trajectories.
        n_folds: Trajectory number n belongs to fold n modulo this number; empty folds are omitted.
    """
    fold = steps.trajectory % n_folds
    return [Split(fold != number, fold == number) for number in np.unique(fold)]


def blocks_of(steps: Steps, seed: int) -> list[Split]:
    """Divide trajectories, in random order, into blocks that each about double the data.

    The test steps of a split are one block, its training steps all earlier blocks; the first split
    has no training steps. The first block holds 4 trajectories, or a sixteenth of all.

    Args:
        steps: Steps of all trajectories.
        seed: Random seed of the order.
    """
    numbers = np.unique(steps.trajectory)
    n = len(numbers)
    first = min(max(_MIN_FIRST, int(np.ceil(n * _FIRST_SHARE))), n)
    key = np.random.Philox(key=np.array([whole(seed, "seed"), 0x626C6B], dtype=np.uint64))
    order = np.random.Generator(key).permutation(numbers)
    n_doublings = max(round(np.log2(n / first)), 1) if n > first else 0
    edges = [0, *np.rint(np.geomspace(first, n, n_doublings + 1)).astype(int).tolist()]
    order_of = np.empty(int(numbers.max()) + 1, dtype=np.int64)
    order_of[order] = np.arange(n)
    order_of_step = order_of[steps.trajectory]
    return [
        Split(order_of_step < begin, (order_of_step >= begin) & (order_of_step < end))
        for begin, end in pairwise(edges)
    ]


def score_splits(
    learner: Learner,
    steps: Steps,
    folds: Sequence[Split],
    blocks: Sequence[Split],
    first: float | None = None,
) -> dict[str, tuple[FloatArray, float]]:
    r"""Score densities on held-out folds, and on blocks given the earlier blocks.

    The sum $\sum_i \ln p(B_i \mid B_1 \dots B_{i-1})$ over blocks is minus the prequential code
    length of the data, for any density learned from earlier blocks only. It equals ln Z for the
    posterior predictive density of a model with a prior.

    Args:
        learner: Learns from the training steps of each split and scores its test steps.
        steps: Steps of all trajectories.
        folds: Splits from `folds_of`.
        blocks: Splits from `blocks_of`.
        first: Log density of the first block, for densities that need training data.

    Returns:
        For each density, the sum of held-out log densities of each trajectory, and the sum over
        blocks.
    """
    later = blocks if first is None else blocks[1:]
    scores, numbers = {}, np.unique(steps.trajectory)
    for name, logs in learner([*folds, *later]).items():
        held_out = np.empty(len(steps))
        for split, values in zip(folds, logs[: len(folds)], strict=True):
            held_out[split.test] = values
        sums = np.bincount(steps.trajectory, weights=held_out)[numbers].astype(np.float64)
        scores[name] = (sums, (first or 0.0) + sum(float(np.sum(v)) for v in logs[len(folds) :]))
    return scores
