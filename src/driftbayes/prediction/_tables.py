"""Scores by trajectory."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from driftbayes._representation import Described, plain, with_error
from driftbayes._typing import FloatArray, IntArray
from driftbayes.comparison._hypotheses import model_pairs


@dataclass(frozen=True, eq=False)
class TrajectoryScores:
    r"""One score per model and trajectory; trajectories are independent.

    With $s_p$ the sum over the $c_p$ predictions of trajectory p, N trajectories in all,

    $$\bar s = \frac{\sum_p s_p}{\sum_p c_p}, \qquad
      \mathrm{se}^2 = \frac{N}{N - 1} \frac{\sum_p (s_p - c_p \bar s)^2}{(\sum_p c_p)^2}.$$

    Trajectories scored from the same fit share its error, which the standard error neglects.

    Args:
        rule: Name of the score.
        tau: Duration of the predicted displacements.
        values: Sum $s_p$ of each trajectory, for each model.
        counts: Number $c_p$ of predictions; 1 where a trajectory is predicted as a whole.
        trajectory: Number of each trajectory.
        larger_is_better: Whether a good prediction has a large score (log densities) or a
            small one (CRPS, energy score).
        warnings: Warnings about the scores.
    """

    rule: str
    tau: float
    values: Mapping[str, FloatArray]
    counts: FloatArray
    trajectory: IntArray
    larger_is_better: bool
    warnings: tuple[str, ...] = field(default=())

    def __repr__(self) -> str:
        """Return the mean over trajectories of each model."""
        means = ", ".join(f"{name} {with_error(*self.mean(name))}" for name in self.values)
        return f"<TrajectoryScores: {self.rule} of {len(self.counts)} trajectories: {means}>"

    def total(self, model: str) -> float:
        """Return the sum over all trajectories."""
        return float(np.sum(self.values[model]))

    def mean(self, model: str) -> tuple[float, float]:
        """Return the mean per prediction, and its standard error."""
        return self._mean(self.values[model])

    def difference(self, m1: str, m0: str) -> tuple[float, float]:
        """Return the mean paired difference of the scores of `m1` and `m0`, and its error."""
        return self._mean(self.values[m1] - self.values[m0])

    def _mean(self, sums: FloatArray) -> tuple[float, float]:
        n, n_predictions = len(sums), float(np.sum(self.counts))
        mean = float(np.sum(sums)) / n_predictions
        if n < 2:
            return mean, float("nan")
        return mean, float(
            np.sqrt(n / (n - 1) * np.sum((sums - mean * self.counts) ** 2)) / n_predictions
        )

    def to_json(self) -> dict[str, Any]:
        """Return totals, means and paired differences, later models against earlier ones."""

        def numbers(mean: float, error: float) -> dict[str, float]:
            whole = float(np.sum(self.counts))
            return {"total": mean * whole, "total_se": error * whole, "mean": mean, "se": error}

        content: dict[str, Any] = {
            "rule": self.rule,
            "tau": self.tau,
            "larger_is_better": self.larger_is_better,
            "n_trajectories": len(self.counts),
            "n_predictions": int(np.sum(self.counts)),
            "models": {name: numbers(*self.mean(name)) for name in self.values},
            "differences": {
                pair: numbers(*self._mean(b - a))
                for pair, (b, a) in model_pairs(self.values).items()
            },
            "warnings": self.warnings,
        }
        return dict(plain(content))


@dataclass(frozen=True, eq=False, repr=False)
class LearnedScores(Described):
    """Scores of learned densities and of models.

    Args:
        held_out: Log density of each trajectory given the other folds, per displacement.
        sequential: ln Z of each model, and minus the prequential code length of each learned
            density in nats: the sum of log densities of blocks given the earlier blocks.
        blocks: Number of trajectories in each block.
        start: Model whose evidence codes the first block for learned densities.
        training: Facts about the training, for example the number of weights of a network.
        seed: Random seed of the order of the blocks and of the training.
    """

    held_out: TrajectoryScores
    sequential: Mapping[str, float]
    blocks: tuple[int, ...]
    start: str
    training: Mapping[str, Any]
    seed: int

    remark = (
        "The sequential score of a learned density is minus a code length; it is not an evidence, "
        "and its difference from ln Z is not a Bayes factor."
    )

    def to_json(self) -> dict[str, Any]:
        """Return the scores as plain numbers and text."""
        return {"remark": self.remark, **plain(self), "held_out": self.held_out.to_json()}
