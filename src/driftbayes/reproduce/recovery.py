"""Recovery of the true model: all models compared on data from each model."""

__all__ = ["GROUPS", "Group", "GroupResult", "Recovery", "run_recovery"]

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import jax
import numpy as np
from scipy.special import softmax

from driftbayes._typing import FloatArray
from driftbayes._version import __version__
from driftbayes.comparison import make_hypotheses
from driftbayes.data._sampling import Displacements
from driftbayes.errors import DriftbayesError, Status
from driftbayes.inference import Batch, Evidence, Hypothesis, evidence, evidence_batch
from driftbayes.plots.style import INK, journal_figure
from driftbayes.reproduce.study import DEFAULT_RUNNER, Job, Runner, StudyResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Velocity and time scale of the priors; all parameters below are in these units.
U_RMS, TIMESCALE, TAU, N_DIM = 1.0, 1.0, 0.5, 2
# Nominal probability of each interval, and the indices of its ends among the quantiles.
_INTERVALS = {"68%": (0.68, 1, 3), "95%": (0.95, 0, 4)}
# The saved part of an evidence: log_evidence and log_evidence_err (None if not finite), status,
# and the posterior quantiles of each parameter.
_Record: TypeAlias = dict[str, Any]
# Two models are distinguished if the true one has at least this mean pairwise probability.
_MIN_PROBABILITY = 0.95


@dataclass(frozen=True)
class Group:
    """Models that are compared with each other.

    Args:
        name: Name of the group.
        truths: Parameters of each model for simulating its data.
        n_particles: Number of trajectories in a data set.
        n_steps: Number of steps of each.
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
    """Result of one group.

    Args:
        group: The group.
        log_evidence: Log evidence by truth, seed and candidate.
        log_evidence_err: Its error.
        within: For each truth, number of times each parameter lay in its 68% and 95% intervals.
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
        """Number of data sets of each model."""
        return self.log_evidence.shape[1]

    @property
    def matrix(self) -> FloatArray:
        """Mean probability over seeds, with equal prior probabilities: (truth, candidate)."""
        return np.asarray(_normalise(self.log_evidence).mean(axis=1))

    def confusions(self) -> list[tuple[str, str, float]]:
        """Return pairs that are not distinguished: truth, other, and the truth's probability."""
        pairs = []
        for i, truth in enumerate(self.names):
            for j, other in enumerate(self.names):
                if i != j:
                    probability = _normalise(self.log_evidence[:, :, [i, j]])[i, :, 0].mean()
                    if probability < _MIN_PROBABILITY:
                        pairs.append((truth, other, float(probability)))
        return pairs

    def sentences(self) -> list[str]:
        """Return the result in words."""
        group = self.group
        doubts = Counter((truth, candidate) for truth, _, candidate in self.doubtful)
        return [
            f"{group.name}: {group.n_particles} particles, {group.n_steps} steps, {self.n_seeds} "
            "data sets per model; mean probability of the true model:",
            *(f"  {name:20s} {self.matrix[i, i]:.3f}" for i, name in enumerate(self.names)),
            *(
                f"  not distinguished: {truth} from {other}, pairwise {probability:.3f}"
                for truth, other, probability in self.confusions()
            ),
            *(
                f"  warnings: {candidate} on {count} of {self.n_seeds} data sets of {truth}"
                for (truth, candidate), count in doubts.items()
            ),
        ]

    def to_json(self) -> dict[str, Any]:
        """Return the result as plain numbers."""
        largest = self.log_evidence_err.max(axis=(0, 1)).tolist()
        return {
            "n_particles": self.group.n_particles,
            "n_steps": self.group.n_steps,
            "n_seeds": self.n_seeds,
            "truths": {name: dict(theta) for name, theta in self.group.truths.items()},
            "mean_probability": self.matrix.tolist(),
            "log_evidence": self.log_evidence.tolist(),
            "largest_log_evidence_err": dict(zip(self.names, largest, strict=True)),
            "not_told_apart": [
                {"truth": t, "other": o, "mean_probability_of_truth": p}
                for t, o, p in self.confusions()
            ],
            "within_intervals": {
                n: {p: dict(c) for p, c in w.items()} for n, w in self.within.items()
            },
            "doubtful": [list(row) for row in self.doubtful],
        }


@dataclass(frozen=True, eq=False)
class Recovery(StudyResult):
    """Results of all groups.

    Args:
        results: Result of each group.
        seed: Random seed of the data.
    """

    name: ClassVar[str] = "recovery"

    results: tuple[GroupResult, ...]
    seed: int

    def coverage(self) -> dict[str, tuple[int, int, float]]:
        """Return for each interval the number of true values inside, of all, and its error."""
        counts = [
            (counted, result.n_seeds)
            for result in self.results
            for parameters in result.within.values()
            for counted in parameters.values()
        ]
        n = sum(n_seeds for _, n_seeds in counts)
        return {
            interval: (
                sum(counted[interval] for counted, _ in counts),
                n,
                float(np.sqrt(nominal * (1 - nominal) / n)),
            )
            for interval, (nominal, _, _) in _INTERVALS.items()
        }

    def sentences(self) -> list[str]:
        coverage = [
            f"coverage of the {interval}: {inside} of {n} = {inside / n:.3f} ± {error:.3f}"
            for interval, (inside, n, error) in self.coverage().items()
        ]
        return [*(line for result in self.results for line in result.sentences()), *coverage]

    def to_json(self) -> dict[str, Any]:
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

    def figures(self) -> dict[str, "Figure"]:
        sizes = [len(result.names) for result in self.results]
        options = {"width_ratios": sizes, "squeeze": False}
        with journal_figure(7.2, 4.6, 1, len(sizes), **options) as (figure, (axes,)):
            for ax, result in zip(axes, self.results, strict=True):
                image = ax.imshow(result.matrix, vmin=0, vmax=1, cmap="Blues")
                for (i, j), value in np.ndenumerate(result.matrix):
                    if value >= 0.005:
                        style = {"ha": "center", "va": "center", "fontsize": 6}
                        colour = "white" if value > 0.6 else INK
                        ax.text(j, i, f"{value:.2f}", color=colour, **style)
                names, places = result.names, range(len(result.names))
                ax.set_xticks(places, names, rotation=60, ha="right", fontsize=7)
                ax.set_yticks(places, names, fontsize=7)
                ax.set_xlabel("candidate model")
                ax.tick_params(length=0)
                size = f"{result.group.n_particles} particles × {result.group.n_steps} steps"
                ax.set_title(f"{size},\n{result.n_seeds} data sets each", fontsize=7)
            axes[0].set_ylabel("true model")
            figure.colorbar(image, ax=list(axes), shrink=0.5, label="mean probability")
        return {"recovery": figure}


def run_recovery(
    n_seeds: int = 3,
    seed: int = 0,
    *,
    groups: Sequence[Group] = GROUPS,
    runner: Runner = DEFAULT_RUNNER,
) -> Recovery:
    """Simulate data from every model and compare all models of its group on them.

    Args:
        n_seeds: Number of data sets of each model.
        seed: Random seed of the data.
        groups: Models, and the size of their data.
        runner: Options of the computation; the evidences of each model are saved in "evidence".
    """
    if n_seeds < 1:
        raise DriftbayesError(f"n_seeds must be 1 or more, got {n_seeds}")
    return Recovery(tuple(_run_group(group, n_seeds, seed, runner) for group in groups), seed)


def _run_group(group: Group, n_seeds: int, seed: int, runner: Runner) -> GroupResult:
    names = list(group.truths)
    hypotheses = make_hypotheses(names, u_rms=U_RMS, timescale=TIMESCALE).hypotheses
    data = [
        _simulate(hypothesis, group, i, seed * n_seeds + s)
        for i, hypothesis in enumerate(hypotheses)
        for s in range(n_seeds)
    ]
    fingerprints = [displacements.fingerprint for displacements in data]
    jobs = [
        Job(
            f"{group.name}-{hypothesis.name}",
            {
                "driftbayes_version": __version__,
                "priors": hypothesis.describe(),
                "data_fingerprints": fingerprints,
            },
            (hypothesis, data),
        )
        for hypothesis in hypotheses
    ]
    by_job = runner.compute(jobs, _make_records, f"evidence, {group.name}", "evidence/judgements")
    table = [by_job[job.name] for job in jobs]

    def by_truth(key: str) -> FloatArray:
        numbers = np.array([[record[key] for record in records] for records in table], float)
        return np.moveaxis(np.reshape(numbers, (len(names), len(names), n_seeds)), 0, 2)

    doubtful = [
        (names[i // n_seeds], i % n_seeds, name)
        for name, records in zip(names, table, strict=True)
        for i in range(len(data))
        if records[i]["status"] != Status.OK.value
    ]
    within = {
        name: _count_within(table[i][i * n_seeds : (i + 1) * n_seeds], group.truths[name])
        for i, name in enumerate(names)
    }
    errors = by_truth("log_evidence_err")
    return GroupResult(group, by_truth("log_evidence"), errors, within, tuple(doubtful))


def _simulate(hypothesis: Hypothesis, group: Group, number: int, seed: int) -> Displacements:
    model = hypothesis.model(**group.truths[hypothesis.name])
    key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), number), len(group.name))
    positions = model.simulate(
        key, n_particles=group.n_particles, n_steps=group.n_steps, n_dim=N_DIM, tau=TAU
    )
    return Displacements.from_array(np.diff(np.asarray(positions), axis=1), TAU)


def _compute_evidences(hypothesis: Hypothesis, data: Sequence[Displacements]) -> list[Evidence]:
    """Compute the evidence of a hypothesis for all data sets, compiled once."""
    batches = [Batch.of(displacements, model=hypothesis.model) for displacements in data]
    if batches[0].is_summed:
        return evidence_batch([hypothesis], Batch.stack(batches))
    return [evidence(hypothesis, batch) for batch in batches]


def _make_records(hypothesis: Hypothesis, data: Sequence[Displacements]) -> list[_Record]:
    """Compute the evidences and return the part that is saved."""
    records = []
    for result in _compute_evidences(hypothesis, data):
        content = result.to_json()
        quantiles = {n: np.asarray(q).tolist() for n, q in result.posterior_quantiles.items()}
        record = {name: content[name] for name in ("log_evidence", "log_evidence_err")}
        records.append({**record, "status": result.status.value, "quantiles": quantiles})
    return records


def _count_within(
    records: Sequence[_Record], truth: Mapping[str, float]
) -> dict[str, dict[str, int]]:
    """Count the true values of each inferred parameter that lie within its intervals."""
    quantiles = [record["quantiles"] for record in records]
    return {
        name: {
            interval: sum(q[name][low] < truth[name] < q[name][high] for q in quantiles)
            for interval, (_, low, high) in _INTERVALS.items()
        }
        for name in quantiles[0]
    }


def _normalise(log_evidence: FloatArray) -> FloatArray:
    finite = np.where(np.isfinite(log_evidence), log_evidence, -np.inf)
    return np.asarray(softmax(finite, axis=-1))
