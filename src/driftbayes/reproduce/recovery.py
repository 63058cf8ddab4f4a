"""Is the model found that made the data? Every model's data judged by every model."""

__all__ = ["GROUPS", "Group", "GroupResult", "Recovery", "run_recovery", "write_recovery"]

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import jax
import numpy as np
from scipy.special import softmax

from driftbayes._version import __version__
from driftbayes.comparison import make_hypotheses
from driftbayes.data.sampling import Displacements
from driftbayes.errors import DriftbayesError, Status
from driftbayes.inference import Batch, Evidence, Hypothesis, evidence, evidence_batch
from driftbayes.plots.style import INK, journal_figure
from driftbayes.reproduce.folder import make_folder, read_kept, write_json, write_result
from driftbayes.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Progress = Callable[[str, int, int], None]

# Velocity and time scale of the priors; all parameters below are in these units.
U_RMS, TIMESCALE, TAU, N_DIM = 1.0, 1.0, 0.5, 2
# Nominal probabilities of the intervals, and the places of their ends among the quantiles.
_INTERVALS = {"68%": (1, 3), "95%": (0, 4)}
_NOMINAL = {"68%": 0.68, "95%": 0.95}
# What is kept of one evidence: log_evidence and log_evidence_err (None if they are not finite),
# status, and the quantiles of the posterior of each parameter.
_Judgement: TypeAlias = dict[str, Any]
# A pair is told apart if the truth has at least this mean probability against the other alone.
_TOLD_APART = 0.95


@dataclass(frozen=True)
class Group:
    """Models that are judged against each other.

    Args:
        name: Of the group.
        truths: Parameters of each model, from which its data are simulated.
        n_particles: Trajectories in a data set.
        n_steps: Steps of each.
    """

    name: str
    truths: Mapping[str, Mapping[str, float]]
    n_particles: int
    n_steps: int


GROUPS = (
    Group(
        "motion",
        {
            "brownian": {"kappa": 1.0},
            "langevin": {"gamma": 1.0, "k": 1.0},
            "fractional": {"hurst": 0.35, "kappa": 1.0, "reference": TIMESCALE},
            "confined_brownian": {"well": 0.5, "kappa": 1.0},
            "second_order": {"gamma": 1.0, "accel": 4.0, "k": 1.0},
            "matern": {"gamma": 1.0, "smoothness": 1.0, "k": 1.0},
            "oscillating": {"gamma": 0.5, "omega": 2.0, "k": 1.0},
            "confined": {"gamma": 1.0, "well": 0.5, "k": 1.0},
            "two_scale": {"gamma": 3.0, "ratio": 0.1, "share": 0.5, "k": 1.0},
            "brownian+noise": {"kappa": 1.0, "sigma": 0.5},
            "langevin+noise": {"gamma": 1.0, "k": 1.0, "sigma": 0.2},
            "langevin+mean": {"gamma": 1.0, "k": 1.0, "flow": U_RMS},
        },
        n_particles=400,
        n_steps=10,
    ),
    Group(
        "population",
        {
            "brownian": {"kappa": 1.0},
            "brownian*2": {"kappa": 1.0, "ratio_2": 0.2, "share_2": 0.4},
            "brownian+scatter": {"kappa": 1.0, "scatter": 0.5},
            "brownian+student": {"kappa": 1.0, "tail": 0.2},
        },
        n_particles=60,
        n_steps=10,
    ),
)


@dataclass(frozen=True, eq=False)
class GroupResult:
    """What was found for one group.

    Args:
        group: The group.
        log_evidence: Of each truth, seed and candidate.
        log_evidence_err: Its error.
        within: Of each truth, how often each parameter lay in its 68% and 95% intervals.
        doubtful: Truth, seed and candidate of evidences whose status is not OK.
    """

    group: Group
    log_evidence: FloatArray
    log_evidence_err: FloatArray
    within: Mapping[str, Mapping[str, Mapping[str, int]]]
    doubtful: tuple[tuple[str, int, str], ...] = field(default=())

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the models."""
        return tuple(self.group.truths)

    @property
    def n_seeds(self) -> int:
        """Data sets of each model."""
        return self.log_evidence.shape[1]

    @property
    def probability(self) -> FloatArray:
        """Probability of each candidate, equal before the data; by truth, seed and candidate."""
        return _normalised(self.log_evidence)

    @property
    def matrix(self) -> FloatArray:
        """Mean probability over seeds: row the truth, column the candidate."""
        return np.asarray(self.probability.mean(axis=1))

    def confusions(self) -> list[tuple[str, str, float]]:
        """Truth, other and the truth's mean probability against it alone, where that is small."""
        found = []
        for i, truth in enumerate(self.names):
            for j, other in enumerate(self.names):
                if i != j:
                    pair = _normalised(self.log_evidence[:, :, [i, j]])[i, :, 0]
                    if pair.mean() < _TOLD_APART:
                        found.append((truth, other, float(pair.mean())))
        return found

    def doubts(self) -> dict[tuple[str, str], int]:
        """How many data sets of a truth a candidate judged with a status that is not OK."""
        return dict(Counter((truth, candidate) for truth, _, candidate in self.doubtful))

    def to_json(self) -> dict[str, Any]:
        """The result as plain numbers."""
        return {
            "n_particles": self.group.n_particles,
            "n_steps": self.group.n_steps,
            "n_seeds": self.n_seeds,
            "truths": {name: dict(theta) for name, theta in self.group.truths.items()},
            "mean_probability": self.matrix.tolist(),
            "log_evidence": self.log_evidence.tolist(),
            "largest_log_evidence_err": dict(
                zip(self.names, self.log_evidence_err.max(axis=(0, 1)).tolist(), strict=True)
            ),
            "not_told_apart": [
                {"truth": t, "other": o, "mean_probability_of_truth": p}
                for t, o, p in self.confusions()
            ],
            "within_intervals": {
                n: {p: dict(c) for p, c in w.items()} for n, w in self.within.items()
            },
            "doubtful": [list(one) for one in self.doubtful],
        }


@dataclass(frozen=True, eq=False)
class Recovery:
    """The results of all groups.

    Args:
        results: One for each group.
        seed: Seed of the data.
    """

    results: tuple[GroupResult, ...]
    seed: int

    def coverage(self) -> dict[str, tuple[int, int, float]]:
        """Of each interval how many true values it held, of how many, and the binomial error."""
        table = {}
        counts = [
            (counted, result.n_seeds)
            for result in self.results
            for parameters in result.within.values()
            for counted in parameters.values()
        ]
        n = sum(n_seeds for _, n_seeds in counts)
        for interval, nominal in _NOMINAL.items():
            error = float(np.sqrt(nominal * (1 - nominal) / n))
            table[interval] = (sum(counted[interval] for counted, _ in counts), n, error)
        return table

    def to_json(self) -> dict[str, Any]:
        """The result as plain numbers."""
        return {
            "driftbayes_version": __version__,
            "seed": self.seed,
            "tau": TAU,
            "u_rms": U_RMS,
            "timescale": TIMESCALE,
            "n_dim": N_DIM,
            "groups": {result.group.name: result.to_json() for result in self.results},
            "coverage": {
                interval: {"inside": inside, "of": n, "share": inside / n, "binomial_err": error}
                for interval, (inside, n, error) in self.coverage().items()
            },
        }


def run_recovery(
    n_seeds: int = 3,
    seed: int = 0,
    *,
    groups: Sequence[Group] = GROUPS,
    directory: Path | None = None,
    progress: Progress | None = None,
) -> Recovery:
    """Simulate from every model, and judge each data set by every model of its group.

    Args:
        n_seeds: Data sets of each model.
        seed: Of the data.
        groups: Models, and the size of their data.
        directory: Where to keep the evidences of each model as soon as they are known; what is
            there of a run with the same data is not computed again.
        progress: Called with a stage, how many are done, and of how many.
    """
    if n_seeds < 1:
        msg = f"expected one data set of each model or more, got {n_seeds}"
        raise DriftbayesError(msg)
    if directory is not None:
        make_folder(directory)
    found = [_run_group(group, n_seeds, seed, directory, progress) for group in groups]
    return Recovery(tuple(found), seed)


def write_recovery(result: Recovery, directory: Path) -> list[Path]:
    """Write the matrices as PNG and PDF, and their numbers as JSON."""
    return write_result(directory, "recovery", result.to_json(), _figure(result))


def _run_group(
    group: Group, n_seeds: int, seed: int, directory: Path | None, progress: Progress | None
) -> GroupResult:
    names = list(group.truths)
    hypotheses = make_hypotheses(names, u_rms=U_RMS, timescale=TIMESCALE).hypotheses
    data = [
        _simulated(hypothesis, group, i, seed * n_seeds + s)
        for i, hypothesis in enumerate(hypotheses)
        for s in range(n_seeds)
    ]
    table: list[list[_Judgement]] = []
    for i, hypothesis in enumerate(hypotheses):
        path = None if directory is None else directory / f"{group.name}-{hypothesis.name}.json"
        table.append(_kept_or_judged(path, hypothesis, data))
        if progress is not None:
            progress(f"evidence, {group.name}", i + 1, len(hypotheses))

    def by_truth(values: list[list[float | None]]) -> FloatArray:
        numbers = np.array(values, dtype=np.float64)
        return np.moveaxis(np.reshape(numbers, (len(names), len(names), n_seeds)), 0, 2)

    doubtful = [
        (names[i // n_seeds], i % n_seeds, name)
        for name, records in zip(names, table, strict=True)
        for i in range(len(data))
        if records[i]["status"] != Status.OK.value
    ]
    own = {
        name: _within(table[i][i * n_seeds : (i + 1) * n_seeds], group.truths[name])
        for i, name in enumerate(names)
    }
    logs = by_truth([[record["log_evidence"] for record in records] for records in table])
    errors = by_truth([[record["log_evidence_err"] for record in records] for records in table])
    return GroupResult(group, logs, errors, own, tuple(doubtful))


def _simulated(hypothesis: Hypothesis, group: Group, number: int, seed: int) -> Displacements:
    model = hypothesis.model(**group.truths[hypothesis.name])
    key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), number), len(group.name))
    positions = model.simulate(
        key, n_particles=group.n_particles, n_steps=group.n_steps, n_dim=N_DIM, tau=TAU
    )
    return Displacements.from_array(np.diff(np.asarray(positions), axis=1), TAU)


def _judged(hypothesis: Hypothesis, data: Sequence[Displacements]) -> list[Evidence]:
    """Evidences of one hypothesis for all data sets, compiled once."""
    batches = [Batch.of(one, model=hypothesis.model) for one in data]
    if batches[0].is_summed:
        return evidence_batch([hypothesis], Batch.stack(batches))
    return [evidence(hypothesis, batch) for batch in batches]


def _judgement(record: Evidence) -> _Judgement:
    content = record.to_json()
    return {
        **{name: content[name] for name in ("log_evidence", "log_evidence_err")},
        "status": record.status.value,
        "quantiles": {
            name: np.asarray(q).tolist() for name, q in record.posterior_quantiles.items()
        },
    }


def _kept_or_judged(
    path: Path | None, hypothesis: Hypothesis, data: Sequence[Displacements]
) -> list[_Judgement]:
    """Read the evidences that an earlier run left, or compute and write them."""
    header = {
        "driftbayes_version": __version__,
        "priors": hypothesis.describe(),
        "data_fingerprints": [one.fingerprint for one in data],
    }
    kept = None if path is None else read_kept(path, header, "judgements")
    if kept is not None:
        return kept
    judgements = [_judgement(record) for record in _judged(hypothesis, data)]
    if path is not None:
        write_json({**header, "judgements": judgements}, path)
    return judgements


def _within(records: Sequence[_Judgement], truth: Mapping[str, float]) -> dict[str, dict[str, int]]:
    """Count how often each inferred parameter's true value lay within its intervals."""
    quantiles = [record["quantiles"] for record in records]
    return {
        name: {
            interval: sum(q[name][low] < truth[name] < q[name][high] for q in quantiles)
            for interval, (low, high) in _INTERVALS.items()
        }
        for name in quantiles[0]
    }


def _normalised(log_evidence: FloatArray) -> FloatArray:
    finite = np.where(np.isfinite(log_evidence), log_evidence, -np.inf)
    return np.asarray(softmax(finite, axis=-1))


def _figure(result: Recovery) -> "Figure":
    sizes = [len(r.names) for r in result.results]
    options = {"width_ratios": sizes, "squeeze": False}
    with journal_figure(7.2, 4.6, 1, len(sizes), **options) as (figure, (axes,)):
        for ax, one in zip(axes, result.results, strict=True):
            image = ax.imshow(one.matrix, vmin=0, vmax=1, cmap="Blues")
            for (i, j), value in np.ndenumerate(one.matrix):
                if value >= 0.005:
                    style = {"ha": "center", "va": "center", "fontsize": 6}
                    ax.text(j, i, f"{value:.2f}", color="white" if value > 0.6 else INK, **style)
            ax.set_xticks(range(len(one.names)), one.names, rotation=60, ha="right", fontsize=7)
            ax.set_yticks(range(len(one.names)), one.names, fontsize=7)
            ax.set_xlabel("judged by")
            ax.tick_params(length=0)
            size = f"{one.group.n_particles} particles × {one.group.n_steps} steps"
            ax.set_title(f"{size},\n{one.n_seeds} data sets each", fontsize=7)
        axes[0].set_ylabel("data from")
        figure.colorbar(image, ax=list(axes), shrink=0.5, label="mean probability")
    return figure
