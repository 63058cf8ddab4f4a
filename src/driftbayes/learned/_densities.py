"""Transition densities learned by networks, with and without position and memory."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from driftbayes._magnitudes import whole
from driftbayes._precision import in_double_precision
from driftbayes._typing import FloatArray, IntArray
from driftbayes.errors import DriftbayesError
from driftbayes.learned._mixture import LinearFit, linear_fit, student_log_density
from driftbayes.learned._splits import BoolArray, Split, Steps
from driftbayes.learned._training import Rows, Task, Training, train

# Whether a density depends on position, and on the previous displacement.
VARIANTS = {
    "learned": (False, False),
    "learned:place": (True, False),
    "learned:memory": (False, True),
    "learned:place+memory": (True, True),
}
# Training trajectories are divided into this many parts, one of which is for early stopping.
_PARTS = 5
# Smallest number of training rows, and degrees of freedom of the broad component.
_MIN_ROWS, _FREEDOM = 20, 3.0


@dataclass(frozen=True, eq=False)
class _Job:
    """One density of one split.

    Args:
        rows: Training rows.
        fit: Linear fit of the training rows.
        tasks: Indices of its networks.
    """

    rows: IntArray
    fit: LinearFit
    tasks: range


@in_double_precision
def learn(
    steps: Steps,
    place: FloatArray,
    splits: Sequence[Split],
    *,
    training: Training | None = None,
    seed: int = 0,
    progress: Callable[[str, int, int], None] | None = None,
) -> dict[str, list[FloatArray]]:
    r"""Learn the density of a displacement from the training steps of each split.

    The density is a mixture of networks and of a broad component with heavy tails,

    $$p(\Delta x \mid z) = (1 - \epsilon) \frac{1}{M} \sum_m q_m(y \mid z)\, |L|^{-1}
      + \epsilon\, t_3(y)\, |L|^{-1}, \qquad \epsilon = \frac{1}{n + 2},$$

    where y is the whitened residual of the n training steps after a linear regression on the
    previous displacement, if that is used. The networks of a split see only its training steps.
    Each network holds out another part of the trajectories for early stopping. A step without a
    previous one has, in variants with memory, the density of the variant without memory.

    Args:
        steps: Steps of all trajectories.
        place: Inputs that encode the start position of each step.
        splits: Training and test steps.
        training: Sizes and limits of the training.
        seed: Random seed of initial weights, batches and validation parts.
        progress: Called with the stage, the number done, and the total.

    Returns:
        Log densities of the test steps of each split, for each of `VARIANTS`, in the units of the
        data.

    Raises:
        DriftbayesError: Optax is not installed, or a split has too few steps or trajectories.
    """
    training = training or Training()
    size = float(np.sqrt(np.mean(steps.dx**2)))
    dx, inputs = steps.dx / size, np.concatenate([place, steps.previous / size], axis=1)
    columns = {
        name: np.repeat([at_place, memory], [place.shape[1], steps.dx.shape[1]])
        for name, (at_place, memory) in VARIANTS.items()
    }
    jobs: dict[tuple[str, int], _Job] = {}
    tasks: list[Task] = []
    for number, split in enumerate(splits):
        for name, (_, memory) in VARIANTS.items():
            rows = np.flatnonzero(split.train & steps.has_previous if memory else split.train)
            parts = _validation_parts(steps.trajectory[rows], seed, number)
            # Only the network uses positions: a linear effect would grow outside the data.
            fit = linear_fit(dx[rows], np.where(columns[name], inputs, 0.0)[rows], dx.shape[1])
            first = len(tasks)
            for part in parts[: training.n_members]:
                tasks.append(Task(fit, rows[~part], rows[part]))
            jobs[name, number] = _Job(rows, fit, range(first, len(tasks)))
    stage = None if progress is None else (lambda done, n: progress("networks", done, n))
    # A column that a network does not use has an infinite scale in its fit.
    table = Rows(dx, inputs)
    ensemble = train(table, tasks, training, seed, stage)
    unit = steps.dx.shape[1] * np.log(size)
    log_densities: dict[str, list[FloatArray]] = {name: [] for name in VARIANTS}
    for number, split in enumerate(splits):
        for name, (_, memory) in VARIANTS.items():
            test = np.flatnonzero(split.test)
            with_previous = test[steps.has_previous[test]] if memory else test
            job = jobs[name, number]
            logs = [ensemble.log_density(table, task, with_previous) for task in job.tasks]
            broad = student_log_density(
                job.fit.residuals(dx[with_previous], inputs[with_previous]), _FREEDOM
            )
            epsilon = 1 / (len(job.rows) + 2)
            mixed = np.logaddexp(
                np.log1p(-epsilon) + logsumexp(logs, axis=0) - np.log(len(logs)),
                np.log(epsilon) + broad,
            )
            values = np.empty(len(test))
            if memory:
                # Densities without memory are computed before those with memory.
                values[:] = log_densities[_without_memory(name)][-1]
            values[np.isin(test, with_previous)] = mixed - job.fit.log_det - unit
            log_densities[name].append(values)
    return log_densities


def _without_memory(name: str) -> str:
    """Return the variant for steps without a previous displacement."""
    return next(variant for variant, uses in VARIANTS.items() if uses == (VARIANTS[name][0], False))


def _validation_parts(trajectory: IntArray, seed: int, split: int) -> list[BoolArray]:
    """Return masks of whole trajectories for early stopping."""
    numbers = np.unique(trajectory)
    if len(numbers) < 2 or len(trajectory) < _MIN_ROWS:
        raise DriftbayesError(
            f"a density cannot be learned from {len(trajectory)} displacements of {len(numbers)} "
            f"trajectories, expected {_MIN_ROWS} of 2 trajectories or more in every part of the "
            "data; use a smaller tau, or more trajectories"
        )
    key = np.array([whole(seed, "seed"), split + 1], dtype=np.uint64)
    order = np.random.Generator(np.random.Philox(key=key)).permutation(numbers)
    n_parts = min(_PARTS, len(numbers))
    return [np.isin(trajectory, order[i::n_parts]) for i in range(n_parts)]
