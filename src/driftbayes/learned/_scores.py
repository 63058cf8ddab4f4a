"""Score learned transition densities and models on held-out trajectories and by code length."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from driftbayes._precision import in_double_precision
from driftbayes._typing import FloatArray
from driftbayes.data._sampling import Displacements, subset
from driftbayes.errors import DriftbayesError, Status
from driftbayes.inference import Hypothesis, evidence
from driftbayes.learned._densities import learn
from driftbayes.learned._places import cell_places, place_inputs
from driftbayes.learned._splits import (
    Split,
    blocks_of,
    folds_of,
    score_splits,
    successive_steps,
)
from driftbayes.learned._training import Training, require_optax
from driftbayes.learned._tree import grow
from driftbayes.prediction._scores import by_fold, check_folds
from driftbayes.prediction._tables import LearnedScores

# Fewer trajectories do not leave enough training data in folds and blocks.
_MIN_TRAJECTORIES = 8


@in_double_precision
def score_learned(
    data: Displacements,
    hypotheses: Sequence[Hypothesis],
    log_evidences: Mapping[str, float],
    *,
    n_folds: int = 5,
    training: Training | None = None,
    seed: int = 0,
    progress: Callable[[str, int, int], None] | None = None,
    **options: Any,
) -> LearnedScores:
    """Learn transition densities from parts of the trajectories, and score them on other parts.

    All rows are log densities of the same displacements in the units of the data. Models score a
    trajectory as a whole; learned densities score each displacement given its position, the
    previous displacement, both or neither. A displacement without a previous one counts in all
    rows.

    Args:
        data: Displacements of equal duration at one tau.
        hypotheses: Models to compare with the learned densities. The first also codes the first
            block, because a network needs data before it can predict.
        log_evidences: ln Z of each model, by name.
        n_folds: Number of folds.
        training: Sizes and limits of the networks.
        seed: Random seed of blocks, initial weights and batches.
        progress: Called with the stage, the number done, and the total.
        **options: `method` of the evidences.

    Raises:
        DriftbayesError: There are too few trajectories or successive displacements, or Optax is
            not installed.
    """
    require_optax()
    if data.n_particles < _MIN_TRAJECTORIES:
        raise DriftbayesError(
            f"a learned density needs {_MIN_TRAJECTORIES} trajectories or more, got "
            f"{data.n_particles}; score models alone, or use more trajectories"
        )
    check_folds(data, n_folds)
    training = training or Training()
    steps = successive_steps(data)
    folds, blocks = folds_of(steps, n_folds), blocks_of(steps, seed)
    models = by_fold(hypotheses, data, n_folds=n_folds, progress=progress, seed=seed, **options)
    place, cells = place_inputs(data), cell_places(data)

    def learner(splits: Sequence[Split]) -> dict[str, list[FloatArray]]:
        scores = learn(steps, place, splits, training=training, seed=seed, progress=progress)
        if cells is not None:
            scores |= grow(steps, cells[0], splits, is_lonlat=cells[1])
        return scores

    first = np.unique(steps.trajectory[blocks[0].test])
    start = evidence(
        hypotheses[0], subset(data, np.isin(data.trajectory, first)), seed=seed, **options
    )
    warnings = list(models.warnings)
    if start.status is not Status.OK:
        warnings.append(f"{start.name}, first block: {start.status.advice}")
    held_out, totals = dict(models.values), {h.name: log_evidences[h.name] for h in hypotheses}
    split_scores = score_splits(learner, steps, folds, blocks, start.log_evidence)
    for name, (by_trajectory, total) in split_scores.items():
        held_out[name], totals[name] = by_trajectory, total
    return LearnedScores(
        held_out=replace(models, values=held_out, warnings=tuple(warnings)),
        sequential=totals,
        blocks=tuple(len(np.unique(steps.trajectory[block.test])) for block in blocks),
        start=start.name,
        training={
            **asdict(training),
            "n_folds": n_folds,
            "n_without_previous": int(np.count_nonzero(~steps.has_previous)),
        },
        seed=seed,
    )
