"""Transition densities learned by networks: {place} x {memory}, for any split of the data."""

__all__ = ["VARIANTS", "learn"]

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from driftbayes.errors import DriftbayesError
from driftbayes.learned.mixture import LinearFit, linear_fit, student_log_density
from driftbayes.learned.splits import BoolArray, Split, Steps
from driftbayes.learned.training import Rows, Task, Training, train
from driftbayes.magnitudes import whole
from driftbayes.precision import in_double_precision
from driftbayes.typing import FloatArray, IntArray

# Whether a density depends on place, and on the displacement before.
VARIANTS = {
    "learned": (False, False),
    "learned:place": (True, False),
    "learned:memory": (False, True),
    "learned:place+memory": (True, True),
}
# Training trajectories are divided into so many parts, of which one says when to stop.
_PARTS = 5
# Rows from which a network may be trained, and degrees of freedom of the broad component.
_MIN_ROWS, _FREEDOM = 20, 3.0


@dataclass(frozen=True, eq=False)
class _Job:
    """One density of one split.

    Args:
        rows: Rows that it is learned from.
        fit: Their linear fit.
        tasks: Numbers of its networks.
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
    how: Training | None = None,
    seed: int = 0,
    progress: Callable[[str, int, int], None] | None = None,
) -> dict[str, list[FloatArray]]:
    r"""Learn the density of a displacement from the training steps of each split.

    It is a mixture of networks and of a broad component that no displacement escapes,

    $$p(\Delta x \mid z) = (1 - \epsilon) \frac{1}{M} \sum_m q_m(y \mid z)\, |L|^{-1}
      + \epsilon\, t_3(y)\, |L|^{-1}, \qquad \epsilon = \frac{1}{n + 2},$$

    with y the whitened residual of the n training steps after a linear regression on the
    displacement before, if that is used. The networks of a split
    see only its training steps, each with another part of its trajectories left out, whole, to say
    when to stop. A step without one before it has, in all variants with memory, the density that
    the same variant without memory gives.

    Args:
        steps: Steps of all trajectories.
        place: Inputs that tell where each begins.
        splits: What to learn from and what to judge.
        how: Sizes and limits of the training.
        seed: Key of first weights, batches and validation parts.
        progress: Called with a stage, how many are done, and of how many.

    Returns:
        For each of `VARIANTS` and each split the log densities of its test steps, in the units of
        the data.

    Raises:
        DriftbayesError: Optax is not installed, or a split has too few steps or trajectories.
    """
    how = how or Training()
    size = float(np.sqrt(np.mean(steps.dx**2)))
    dx, inputs = steps.dx / size, np.concatenate([place, steps.previous / size], axis=1)
    seen = {
        name: np.repeat([at_place, memory], [place.shape[1], steps.dx.shape[1]])
        for name, (at_place, memory) in VARIANTS.items()
    }
    jobs: dict[tuple[str, int], _Job] = {}
    tasks: list[Task] = []
    for number, split in enumerate(splits):
        for name, (_, memory) in VARIANTS.items():
            rows = np.flatnonzero(split.train & steps.has_previous if memory else split.train)
            parts = _validation_parts(steps.trajectory[rows], seed, number)
            # Places are left to the network: a linear effect would grow where nothing was seen.
            fit = linear_fit(dx[rows], np.where(seen[name], inputs, 0.0)[rows], dx.shape[1])
            first = len(tasks)
            for part in parts[: how.n_members]:
                tasks.append(Task(fit, rows[~part], rows[part]))
            jobs[name, number] = _Job(rows, fit, range(first, len(tasks)))
    stage = None if progress is None else (lambda done, n: progress("networks", done, n))
    # A column that a network does not see has an infinite scale in its fit.
    table = Rows(dx, inputs)
    ensemble = train(table, tasks, how, seed, stage)
    unit = steps.dx.shape[1] * np.log(size)
    found: dict[str, list[FloatArray]] = {name: [] for name in VARIANTS}
    for number, split in enumerate(splits):
        for name, (_, memory) in VARIANTS.items():
            test = np.flatnonzero(split.test)
            own = test[steps.has_previous[test]] if memory else test
            job = jobs[name, number]
            logs = [ensemble.log_density(table, task, own) for task in job.tasks]
            broad = student_log_density(job.fit.residuals(dx[own], inputs[own]), _FREEDOM)
            epsilon = 1 / (len(job.rows) + 2)
            mixed = np.logaddexp(
                np.log1p(-epsilon) + logsumexp(logs, axis=0) - np.log(len(logs)),
                np.log(epsilon) + broad,
            )
            values = np.empty(len(test))
            if memory:
                # Densities without memory stand before those with it.
                values[:] = found[_without_memory(name)][-1]
            values[np.isin(test, own)] = mixed - job.fit.log_det - unit
            found[name].append(values)
    return found


def _without_memory(name: str) -> str:
    """The variant whose density holds where there is no displacement before."""
    return next(other for other, uses in VARIANTS.items() if uses == (VARIANTS[name][0], False))


def _validation_parts(trajectory: IntArray, seed: int, split: int) -> list[BoolArray]:
    """Masks of whole trajectories, each of which may say when training ends."""
    numbers = np.unique(trajectory)
    if len(numbers) < 2 or len(trajectory) < _MIN_ROWS:
        msg = (
            f"a density cannot be learned from {len(trajectory)} displacements of {len(numbers)} "
            f"trajectories, expected {_MIN_ROWS} of 2 trajectories or more in every part of the "
            "data; use a smaller tau, or more trajectories"
        )
        raise DriftbayesError(msg)
    key = np.array([whole(seed, "seed"), split + 1], dtype=np.uint64)
    order = np.random.Generator(np.random.Philox(key=key)).permutation(numbers)
    n_parts = min(_PARTS, len(numbers))
    return [np.isin(trajectory, order[i::n_parts]) for i in range(n_parts)]
