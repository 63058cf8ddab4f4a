"""Predictive scores of models on held-out trajectories."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice
from typing import Any

import numpy as np

from driftbayes._precision import in_double_precision
from driftbayes._representation import Described, number
from driftbayes._typing import FloatArray, Progress
from driftbayes.comparison._bayes import model_probabilities
from driftbayes.comparison._hypotheses import check_names
from driftbayes.data._sampling import WHOLE, Cut, Displacements, displacements, subset
from driftbayes.data._trajectories import Trajectories
from driftbayes.errors import DriftbayesError, Status
from driftbayes.inference import Batch, Hypothesis, LogEvidences, log_evidences
from driftbayes.inference._hypothesis import check_plain
from driftbayes.likelihood import SecondMoments
from driftbayes.models import Preparation, preparation
from driftbayes.prediction._predict import (
    AVERAGE,
    ScaleMixture,
    average_weights,
    predictive_mixtures,
)
from driftbayes.prediction._subsets import Part, growing, with_each_of_fold, without_each
from driftbayes.prediction._tables import LearnedScores, TrajectoryScores
from driftbayes.prediction.rules import crps, energy_score, log_score

# Largest number of data sets per batch of evidences, and their memory in bytes.
_MAX_SETS = 260
_MAX_BYTES = 128 << 20
# Errors of evidences below this, in nats, do not affect the printed scores.
_MIN_REPORTED_ERROR = 1e-3


@dataclass(frozen=True, eq=False, repr=False)
class Scores(Described):
    """Scores of all kinds at one sampling time.

    Args:
        prequential: Log density of each trajectory given the earlier ones.
        leave_one_out: Log density of each trajectory given all others.
        held_out: Scores of single displacements, by time and rule.
        tau: Sampling time of the fits.
        length_unit: Name of the unit of length.
        time_unit: Name of the unit of time.
        data_fingerprint: Hash of the data.
        priors_from_data: Whether scales of the priors were estimated from the same data.
        learned: Scores of learned transition densities, if requested.
    """

    prequential: TrajectoryScores
    leave_one_out: TrajectoryScores
    held_out: Sequence[TrajectoryScores]
    tau: float
    length_unit: str
    time_unit: str
    data_fingerprint: str
    priors_from_data: bool
    learned: LearnedScores | None = None

    remark = "Scores measure the prediction of held-out trajectories; they are not probabilities."

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about the scores."""
        all_scores = (self.prequential, self.leave_one_out, *self.held_out)
        return tuple(dict.fromkeys(text for scores in all_scores for text in scores.warnings))

    def to_json(self) -> dict[str, Any]:
        """Return the scores as plain numbers and text."""
        names = ("tau", "length_unit", "time_unit", "data_fingerprint", "priors_from_data")
        return {
            **{name: getattr(self, name) for name in names},
            "remark": self.remark,
            "prequential": self.prequential.to_json(),
            "leave_one_out": self.leave_one_out.to_json(),
            "held_out": [scores.to_json() for scores in self.held_out],
            **({} if self.learned is None else {"learned": self.learned.to_json()}),
        }


def prequential(
    hypotheses: Sequence[Hypothesis],
    data: Displacements,
    *,
    progress: Progress | None = None,
    **options: Any,
) -> TrajectoryScores:
    r"""Compute the log density of each trajectory given the earlier ones, in data order.

    $$\ln p(D_n \mid D_1 \dots D_{n-1}) = \ln Z(D_1 \dots D_n) - \ln Z(D_1 \dots D_{n-1}),
      \qquad \sum_n = \ln Z$$

    The sum does not depend on the order; the increments do.

    Args:
        hypotheses: Model families with their priors.
        data: Displacements at one tau.
        progress: Called with the stage, the number done, and the total.
        **options: `method` of the evidence and its `seed`.
    """
    numbers = np.unique(data.trajectory)
    logs, warnings = _log_evidences(
        hypotheses,
        data,
        partial(growing, data, numbers),
        len(numbers),
        "prequential",
        progress,
        **options,
    )
    values = {name: np.diff(log_z, prepend=0.0) for name, log_z in logs.items()}
    return _whole("prequential log density", data, values, warnings)


def leave_one_out(
    hypotheses: Sequence[Hypothesis],
    data: Displacements,
    *,
    progress: Progress | None = None,
    **options: Any,
) -> TrajectoryScores:
    r"""Compute the log density of each whole trajectory given all others, exactly.

    $$\ln p(D_n \mid D_{-n}) = \ln Z(D) - \ln Z(D_{-n})$$

    Unlike the evidence it hardly depends on the prior. Arguments are those of `prequential`.
    """
    numbers = np.unique(data.trajectory)
    if len(numbers) < 2:
        raise DriftbayesError("the leave-one-out score needs two or more trajectories, got 1")
    sets = partial(without_each, data, numbers)
    n_sets = len(numbers) + 1
    logs, warnings = _log_evidences(
        hypotheses, data, sets, n_sets, "leave one out", progress, **options
    )
    values = {name: log_z[0] - log_z[1:] for name, log_z in logs.items()}
    return _whole("leave-one-out log density", data, values, warnings)


def by_fold(
    hypotheses: Sequence[Hypothesis],
    data: Displacements,
    *,
    n_folds: int = 5,
    progress: Progress | None = None,
    **options: Any,
) -> TrajectoryScores:
    r"""Compute the log density of each trajectory given the other folds, per displacement.

    Trajectory number n belongs to fold n modulo `n_folds`. With $D_{-f}$ the data outside its fold,

    $$\ln p(D_n \mid D_{-f}) = \ln Z(D_{-f}, D_n) - \ln Z(D_{-f}).$$

    Args:
        hypotheses: Model families with their priors.
        data: Displacements at one tau.
        n_folds: Number of folds, 2 or more; at least two must contain trajectories.
        progress: Called with the stage, the number done, and the total.
        **options: `method` of the evidence and its `seed`.

    Raises:
        DriftbayesError: All trajectories are in one fold, or a model cannot be scored.
    """
    numbers = np.unique(data.trajectory)
    fold = numbers % check_folds(data, n_folds)
    # Indices of the data sets without the fold of each trajectory, and with the trajectory added.
    without, beside, index = np.zeros_like(numbers), np.zeros_like(numbers), 0
    for group in np.unique(fold):
        inside = np.flatnonzero(fold == group)
        without[inside], beside[inside] = index, index + 1 + np.arange(len(inside))
        index += 1 + len(inside)
    sets = partial(with_each_of_fold, data, numbers, n_folds)
    logs, warnings = _log_evidences(hypotheses, data, sets, index, "folds", progress, **options)
    values = {name: log_z[beside] - log_z[without] for name, log_z in logs.items()}
    sizes = np.bincount(data.trajectory, weights=data.row_sizes)[numbers].astype(np.float64)
    return replace(_whole("held-out log density", data, values, warnings), counts=sizes)


def check_folds(data: Displacements, n_folds: int) -> int:
    """Check that folds divide the trajectories.

    Args:
        data: Displacements at one tau.
        n_folds: Trajectory number n belongs to fold n modulo this number.

    Raises:
        DriftbayesError: The number is not an integer of 2 or more, or one fold has all
            trajectories.
    """
    n_parts = len(np.unique(data.trajectory % n_folds)) if n_folds == int(n_folds) >= 2 else 0
    if n_parts < 2:
        raise DriftbayesError(
            f"n_folds must be a whole number, 2 or more, that divides the {data.n_particles} "
            f"trajectories into two parts or more, got {n_folds}"
        )
    return int(n_folds)


def _whole(
    rule: str, data: Displacements, values: Mapping[str, FloatArray], warnings: tuple[str, ...]
) -> TrajectoryScores:
    """Make scores of whole trajectories."""
    numbers = np.unique(data.trajectory)
    return TrajectoryScores(
        rule=rule,
        tau=data.tau,
        values=values,
        counts=np.ones(len(numbers)),
        trajectory=numbers,
        larger_is_better=True,
        warnings=warnings,
    )


@in_double_precision
def held_out(
    trajectories: Trajectories,
    hypotheses: Sequence[Hypothesis],
    tau: float | None,
    held_out_taus: Iterable[float],
    *,
    n_folds: int = 5,
    cut: Cut = WHOLE,
    prior_probabilities: Sequence[float] | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> list[TrajectoryScores]:
    """Score displacements over other times, of trajectories not used in the fit.

    Trajectory number n belongs to fold n modulo `n_folds`. Each fold is predicted from a fit, at
    tau, of the others, under each model and under their average, weighted by the probabilities
    from that fit. The rules at each time are ln p(ΔX), CRPS of components and energy score of
    vectors, in closed form given the posterior draws. The predicted quantity is the observed
    displacement, with the measurement errors of both ends, from the file and from the model's
    `+noise`, and with its `+blur`.

    Args:
        trajectories: Trajectories.
        hypotheses: Model families with their priors.
        tau: Sampling time of the fits; None for irregular times.
        held_out_taus: Times over which displacements are predicted, multiples of the recording
            interval.
        n_folds: Number of folds, 2 or more.
        cut: Options for cutting trajectories into runs for the fits.
        prior_probabilities: Prior probabilities of the models.
        progress: Called with the stage, the number done, and the total.
        **options: `n_draws` (500) of each fit, `method` and `seed`, as for `posterior_draws`.
    """
    from driftbayes.inference import posterior_draws

    check_names(hypotheses)
    _check_scorable(hypotheses)
    data = cut(trajectories, tau)
    targets = [displacements(trajectories, time) for time in held_out_taus]
    check_folds(data, n_folds)
    noise = _noise_variance(trajectories)
    names = [*(hypothesis.name for hypothesis in hypotheses), AVERAGE]
    numbers = [np.unique(target.trajectory) for target in targets]
    counts = [np.bincount(t.trajectory, weights=t.row_sizes).astype(np.float64) for t in targets]
    sums = np.zeros((len(_RULES), len(names), len(targets), trajectories.n_trajectories))
    warnings: list[str] = []
    for fold in range(n_folds):
        inside = [target.trajectory % n_folds == fold for target in targets]
        if any(runs.any() for runs in inside):
            rest = subset(data, data.trajectory % n_folds != fold)
            draws = [posterior_draws(h, rest, **{"n_draws": 500, **options}) for h in hypotheses]
            for e in (d.evidence for d in draws):
                if e.status is not Status.OK:
                    warnings.append(f"{e.name}, without fold {fold}: {e.status.advice}")
            weights = model_probabilities([d.evidence for d in draws], prior_probabilities)
            # Observed displacements are scored, with the errors of both ends.
            future = predictive_mixtures(
                draws,
                np.array([target.tau for target in targets]),
                average_weights(draws, weights.tolist()),
                n_dim=data.n_dim,
                observed=True,
                error_variance=noise,
            )
            for j, target in enumerate(targets):
                steps = np.repeat(inside[j], target.row_sizes)
                owner = np.repeat(target.trajectory, target.row_sizes)[steps]
                for i, name in enumerate(names):
                    for k, rule in enumerate(_RULES.values()):
                        np.add.at(sums[k, i, j], owner, rule(future[name][j], target.dx[steps]))
        if progress is not None:
            progress("folds", fold + 1, n_folds)
    return [
        TrajectoryScores(
            rule=rule,
            tau=target.tau,
            values={name: sums[k, i, j, numbers[j]] for i, name in enumerate(names)},
            counts=counts[j][numbers[j]] * (target.n_dim if rule == "CRPS" else 1.0),
            trajectory=numbers[j],
            larger_is_better=rule == "log density",
            warnings=tuple(warnings),
        )
        for j, target in enumerate(targets)
        for k, rule in enumerate(_RULES)
    ]


# Scores of displacement vectors (step, dim), one number per step.
_RULES: dict[str, Callable[[ScaleMixture, FloatArray], FloatArray]] = {
    "log density": lambda mixture, dx: log_score(mixture, np.linalg.norm(dx, axis=1)),
    "CRPS": lambda mixture, dx: crps(mixture, dx).sum(axis=1),
    "energy score": lambda mixture, dx: energy_score(mixture, np.linalg.norm(dx, axis=1)),
}


def _noise_variance(trajectories: Trajectories) -> float:
    if trajectories.position_sd is None:
        return 0.0
    errors = np.unique(trajectories.position_sd[trajectories.observed])
    if len(errors) > 1:
        raise DriftbayesError(
            f"held-out displacements are scored with one measurement error for all positions, got "
            f"{number(errors[0], 6)} to {number(errors[-1], 6)}; omit --held-out-taus"
        )
    return float(errors[0] ** 2)


def _check_scorable(hypotheses: Sequence[Hypothesis]) -> None:
    """Check that models can be scored correctly and within memory."""
    check_plain(hypotheses, "a score")
    for hypothesis in hypotheses:
        model = hypothesis.model
        if model.has_many_nodes and not model.observes_position:
            raise DriftbayesError(
                f"a score cannot take {model.name}: blur without a state-space form takes more "
                "memory than there is for many sets of trajectories; omit it"
            )


@in_double_precision
def _log_evidences(
    hypotheses: Sequence[Hypothesis],
    data: Displacements,
    sets: Callable[[Preparation], Iterator[Part]],
    n_sets: int,
    stage: str,
    progress: Progress | None,
    **options: Any,
) -> tuple[dict[str, FloatArray], tuple[str, ...]]:
    """Compute ln Z of every model for every data set, with warnings."""
    check_names(hypotheses)
    _check_scorable(hypotheses)
    logs_by_model: dict[str, list[LogEvidences]] = {h.name: [] for h in hypotheses}
    # Models that need the same preparation share the data.
    ways: dict[Preparation, list[Hypothesis]] = {}
    for hypothesis in hypotheses:
        ways.setdefault(preparation(data, hypothesis.model), []).append(hypothesis)
    done = 0
    for way, members in ways.items():
        for part in _parts(sets(way), n_sets):
            # Models share second moments.
            batch = _batch(part, members[0], data)
            for hypothesis in members:
                batch = batch if batch.is_stacked else _batch(part, hypothesis, data)
                logs_by_model[hypothesis.name].append(log_evidences(hypothesis, batch, **options))
            done += len(part)
            if progress is not None:
                progress(stage, done, n_sets * len(ways))
    warnings = []
    logs = {}
    for name, parts in logs_by_model.items():
        logs[name] = np.concatenate([part.log_evidence for part in parts])
        statuses = [status for part in parts for status in part.statuses]
        bad = [status for status in statuses if status is not Status.OK]
        if bad:
            warnings.append(f"{name}: {len(bad)} of {n_sets} evidences: {bad[0].advice}")
        errors = np.concatenate([part.log_evidence_err for part in parts])
        worst = float(np.max(errors[np.isfinite(errors)], initial=0.0))
        if worst > _MIN_REPORTED_ERROR:
            warnings.append(
                f"{name}: each log density is the difference of two evidences known to "
                f"± {number(worst, 1)} nats"
            )
    return logs, tuple(warnings)


def _parts(sets: Iterator[Part], n_sets: int) -> Iterator[list[Part]]:
    """Yield data sets one by one, or stacked if they are second moments."""
    first = next(sets)
    largest = 1
    if not isinstance(first, Displacements):
        largest = min(_MAX_SETS, max(_MAX_BYTES // first.forms.nbytes, 1))
    n_parts = -(-n_sets // largest)
    rest = chain([first], sets)
    for i in range(n_parts):
        yield list(islice(rest, (i + 1) * n_sets // n_parts - i * n_sets // n_parts))


def _batch(part: list[Part], hypothesis: Hypothesis, data: Displacements) -> Batch:
    first = part[0]
    if isinstance(first, Displacements):
        return Batch.of(first, model=hypothesis.model)
    own = (data.tau,), (data.fingerprint,)
    return Batch.stack([Batch(one, *own) for one in part if isinstance(one, SecondMoments)])
