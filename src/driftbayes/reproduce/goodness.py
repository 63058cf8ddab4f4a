"""Calibration and power of the goodness-of-fit check, on simulated data sets."""

__all__ = ["CASES", "Case", "CaseResult", "Goodness", "goodness_table", "run_goodness"]

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import jax
import numpy as np
from scipy import stats

from driftbayes._typing import FloatArray
from driftbayes._version import __version__
from driftbayes.checks import check_fit
from driftbayes.checks._check import LEVEL
from driftbayes.comparison import make_hypotheses
from driftbayes.data._sampling import Displacements, displacements
from driftbayes.data._trajectories import Trajectories
from driftbayes.errors import DriftbayesError, Status, did_you_mean
from driftbayes.inference import Hypothesis
from driftbayes.models import MODELS, model_named
from driftbayes.plots.style import COLOURS, GUIDE, INK, journal_figure
from driftbayes.reproduce.study import DEFAULT_RUNNER, Job, Runner, StudyResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Velocity and time scale of the priors; all parameters below are in these units.
U_RMS, TIMESCALE, TAU, N_DIM = 1.0, 1.0, 0.5, 2
# The smaller of the two levels at which contradicted data sets are counted.
STRICT = 0.005
# Data sets of one job.
_CHUNK = 100
Sampling = Literal["regular", "gaps", "irregular", "errors"]


@dataclass(frozen=True)
class Case:
    """Simulated data, and the model that is checked on them.

    Args:
        name: Short name.
        words: Description of the data.
        made_by: Model that simulates the data.
        theta: Its parameters; empty to draw them from the prior.
        judged_by: Model to check; None for the same.
        n_particles: Number of trajectories.
        n_steps: Number of steps of each, before some positions are removed.
        sampling: "gaps" removes 15 % of the positions, "irregular" two thirds of them, "errors"
            adds known measurement errors.
        drift: Velocity added to every particle along the first axis.
        shared: Standard deviation of the displacement common to all particles in each step.
    """

    name: str
    words: str
    made_by: str
    theta: Mapping[str, float] = field(default_factory=dict)
    judged_by: str | None = None
    n_particles: int = 40
    n_steps: int = 30
    sampling: Sampling = "regular"
    drift: float = 0.0
    shared: float = 0.0

    @property
    def is_true(self) -> bool:
        """Whether the checked model made the data."""
        return self.judged_by is None

    def to_json(self) -> dict[str, Any]:
        """Return the case as plain numbers and text."""
        content = asdict(self)
        del content["name"]
        return {**content, "judged_by": self.judged_by or self.made_by, "is_true": self.is_true}

    def hypothesis(self) -> Hypothesis:
        """Return the checked model, with its priors."""
        return _hypothesis(self.judged_by or self.made_by)

    def data(self, seed: int, number: int) -> tuple[Displacements, FloatArray]:
        """Simulate a data set; return it with the start times of its runs.

        Args:
            seed: Random seed of all data sets.
            number: Number of the data set.
        """
        key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), number), len(self.name))
        rng = np.random.default_rng([seed, number, *self.name.encode()])
        theta = dict(self.theta)
        if not theta:
            prior = _hypothesis(self.made_by)
            keys = jax.random.split(jax.random.fold_in(key, 1), len(prior.names))
            theta = {
                name: float(prior.priors[name].sample(k))
                for name, k in zip(prior.names, keys, strict=True)
            }
        tau = TAU / 3 if self.sampling == "irregular" else TAU
        n_steps = 3 * self.n_steps if self.sampling == "irregular" else self.n_steps
        model = model_named(self.made_by, MODELS, N_DIM)(**theta)
        simulated = model.simulate(
            key, n_particles=self.n_particles, n_steps=n_steps, n_dim=N_DIM, tau=tau
        )
        x = np.array(simulated)
        x[..., 0] += self.drift * tau * np.arange(n_steps + 1)
        x += np.cumsum(self.shared * rng.standard_normal((n_steps + 1, N_DIM)), axis=0)
        data = self._sample(x, tau, rng)
        return data, np.zeros(len(data.row_sizes))

    def _sample(self, x: FloatArray, tau: float, rng: np.random.Generator) -> Displacements:
        if self.sampling == "regular":
            return Displacements.from_array(np.diff(x, axis=1), tau)
        # The same positions are missing in all data sets, so that one compiled program suffices.
        chance = np.random.default_rng(99).random(x.shape[:2])
        keep = chance > {"gaps": 0.15, "irregular": 2 / 3, "errors": 0.0}[self.sampling]
        keep[:, [0, -1]] = True
        times = np.broadcast_to(tau * np.arange(x.shape[1]), keep.shape)
        sd = None
        if self.sampling == "errors":
            sd = 0.1 + 0.4 * chance
            x = x + sd[..., None] * rng.standard_normal(x.shape)
        tracks = Trajectories(
            positions=x[keep],
            times=times[keep],
            row_sizes=keep.sum(axis=1),
            ids=np.arange(len(x)).astype(str),
            position_sd=None if sd is None else sd[keep],
        )
        return displacements(tracks, None if self.sampling == "irregular" else tau, gaps="keep")


@cache
def _hypothesis(name: str) -> Hypothesis:
    return make_hypotheses([name], u_rms=U_RMS, timescale=TIMESCALE).hypotheses[0]


_BROWNIAN = {"kappa": 1.0}
_LANGEVIN = {"gamma": 1.0, "k": 1.0}
_SUB = {"hurst": 0.25, "kappa": 1.0, "reference": TIMESCALE}
_SUPER = {**_SUB, "hurst": 0.75}
_NOISY = {"kappa": 1.0, "sigma": 0.5}
_NOISE_ONLY = {"kappa": 0.01, "sigma": 1.0}
_HIDDEN = {**_LANGEVIN, "sigma": 0.2}
_CAGED = {"well": 0.5, "kappa": 1.0}
_OSCILLATING = {"gamma": 0.5, "omega": 2.0, "k": 1.0}
_TWO_SCALE = {"gamma": 3.0, "ratio": 0.1, "share": 0.5, "k": 1.0}
_SECOND = {"gamma": 1.0, "accel": 4.0, "k": 1.0}
_TAILED = {"kappa": 1.0, "tail": 0.2}
_TWO = {"kappa": 1.0, "ratio_2": 0.2, "share_2": 0.5}
_SCATTER = {"kappa": 1.0, "scatter": 0.5}
_UNEVEN = {**_LANGEVIN, "h1": 0.3, "h2": 0.0}
_BLURRED = {**_BROWNIAN, "exposure": TAU}

_TRUE = (
    Case("brownian", "40 particles, 30 steps", "brownian", _BROWNIAN),
    Case("langevin", "40 particles, 30 steps", "langevin", _LANGEVIN),
    Case("langevin-prior", "parameters drawn from the prior", "langevin"),
    Case("langevin-short", "200 particles, 4 steps", "langevin", _LANGEVIN, None, 200, 4),
    Case("langevin-long", "4 particles, 300 steps", "langevin", _LANGEVIN, None, 4, 300),
    Case("langevin-gaps", "gaps kept", "langevin", _LANGEVIN, None, 20, 20, "gaps"),
    Case("langevin-irregular", "irregular times", "langevin", _LANGEVIN, None, 20, 20, "irregular"),
    Case("langevin-errors", "known errors", "langevin", _LANGEVIN, None, 20, 20, "errors"),
    Case("noise", "unknown measurement error", "langevin+noise", _HIDDEN, None, 20, 20),
    Case("mean", "mean flow", "brownian+mean", {**_BROWNIAN, "flow": 1.0}),
    Case("anisotropic", "unlike axes", "langevin+anisotropic", _UNEVEN),
    Case("fractional", "H = 0.25", "fractional", _SUB),
    Case("confined", "40 particles, 30 steps", "confined_brownian", _CAGED),
    Case("oscillating", "40 particles, 30 steps", "oscillating", _OSCILLATING),
    Case("two-classes", "two diffusivities", "brownian*2", _TWO, None, 40, 10),
    Case("tails", "heavy tails", "brownian+student", _TAILED),
    Case("scatter", "unlike particles", "brownian+scatter", _SCATTER, None, 40, 10),
)
_WRONG = (
    Case("sub-brownian", "fractional, H = 0.25", "fractional", _SUB, "brownian"),
    Case("sub-langevin", "fractional, H = 0.25", "fractional", _SUB, "langevin"),
    Case("super-brownian", "fractional, H = 0.75", "fractional", _SUPER, "brownian"),
    Case("super-langevin", "fractional, H = 0.75", "fractional", _SUPER, "langevin"),
    Case("noisy-brownian", "noise, σ = 0.5", "brownian+noise", _NOISY, "brownian"),
    Case("noisy-langevin", "noise, σ = 0.5", "brownian+noise", _NOISY, "langevin"),
    Case("noise-only", "little but noise, σ = 1", "brownian+noise", _NOISE_ONLY, "langevin"),
    Case("noise-hidden", "Langevin with noise, σ = 0.2", "langevin+noise", _HIDDEN, "langevin"),
    Case("two-brownian", "two diffusivities, 1 : 5", "brownian*2", _TWO, "brownian"),
    Case("scatter-brownian", "unlike particles, 50 %", "brownian+scatter", _SCATTER, "brownian"),
    Case("drift-brownian", "drift, U = 0.3", "brownian", _BROWNIAN, "brownian", drift=0.3),
    Case("drift-langevin", "drift, U = 0.3", "langevin", _LANGEVIN, "langevin", drift=0.3),
    Case("caged-brownian", "confined", "confined_brownian", _CAGED, "brownian"),
    Case("caged-langevin", "confined", "confined_brownian", _CAGED, "langevin"),
    Case("oscillating-langevin", "oscillating", "oscillating", _OSCILLATING, "langevin"),
    Case("two-scale-langevin", "two time scales, 1 : 10", "two_scale", _TWO_SCALE, "langevin"),
    Case("second-langevin", "memory of acceleration", "second_order", _SECOND, "langevin"),
    Case("langevin-brownian", "Langevin", "langevin", _LANGEVIN, "brownian"),
    Case("brownian-langevin", "Brownian", "brownian", _BROWNIAN, "langevin"),
    Case("tails-brownian", "Student's t, 5 degrees", "brownian+student", _TAILED, "brownian"),
    Case("uneven-langevin", "axes unlike by 1.8", "langevin+anisotropic", _UNEVEN, "langevin"),
    Case("blur-brownian", "blur over the whole step", "brownian+blur", _BLURRED, "brownian"),
    Case("blur-langevin", "blur over the whole step", "brownian+blur", _BLURRED, "langevin"),
    Case("shared-brownian", "shared motion", "brownian", _BROWNIAN, "brownian", shared=0.2),
)
CASES = {case.name: case for case in (*_TRUE, *_WRONG)}


def cases_named(names: str) -> tuple[Case, ...]:
    """Return the cases of these names.

    Args:
        names: Comma-separated names, or "all".
    """
    if names == "all":
        return tuple(CASES.values())
    wanted = [name.strip() for name in names.split(",")]
    for name in wanted:
        if name not in CASES:
            near = did_you_mean(name, CASES)
            raise DriftbayesError(f"unknown case {name!r}; choose from {', '.join(CASES)}{near}")
    return tuple(CASES[name] for name in dict.fromkeys(wanted))


@dataclass(frozen=True, eq=False)
class CaseResult:
    """Checks of many data sets of one case.

    Args:
        case: The case.
        p_values: P-value of each data set; NaN where it could not be checked.
        blamed: The quantity that deviates most in each data set; empty if none is unexplained.
        n_unequal: Number of data sets whose fit lay outside the fits of the replicas.
        reasons: Reasons why data sets could not be checked.
    """

    case: Case
    p_values: FloatArray
    blamed: tuple[str, ...]
    n_unequal: int
    reasons: tuple[str, ...]

    def share_below(self, level: float) -> tuple[float, float]:
        """Return the share of data sets with a p-value below a level, and its standard error.

        The error is that of Laplace's estimate (k + 1)/(n + 2), which does not vanish at 0 and 1.
        """
        n, k = len(self.p_values), int(np.sum(self.p_values < level))
        estimate = (k + 1) / (n + 2)
        return k / n, float(np.sqrt(estimate * (1 - estimate) / n))

    @property
    def uniformity(self) -> float:
        """P-value of the Kolmogorov-Smirnov test that the p-values are uniform."""
        checked = self.p_values[np.isfinite(self.p_values)]
        return float(stats.kstest(checked, "uniform").pvalue) if len(checked) else np.nan

    @property
    def most_blamed(self) -> str:
        """Quantity that deviates most in most of the contradicted data sets."""
        counts = Counter(name for name in self.blamed if name)
        return counts.most_common(1)[0][0] if counts else ""

    def to_json(self) -> dict[str, Any]:
        """Return the result as plain numbers and text."""
        below, strict = self.share_below(LEVEL), self.share_below(STRICT)
        return {
            **self.case.to_json(),
            "n_data_sets": len(self.p_values),
            "n_not_checked": len(self.reasons),
            "reasons": sorted(set(self.reasons)),
            "n_not_at_equal_fit": self.n_unequal,
            "share_below_level": below[0],
            "share_below_level_err": below[1],
            "share_below_strict": strict[0],
            "share_below_strict_err": strict[1],
            "uniformity_p_value": self.uniformity if np.isfinite(self.uniformity) else None,
            "most_blamed": self.most_blamed,
            "blamed": dict(Counter(name for name in self.blamed if name)),
            "p_values": [round(float(p), 6) if np.isfinite(p) else None for p in self.p_values],
        }


@dataclass(frozen=True, eq=False)
class Goodness(StudyResult):
    """Results of all cases: true models, which should rarely be rejected, and wrong ones.

    Args:
        results: Result of each case.
        n_replicas: Number of replicas of each data set.
        seed: Random seed of data and replicas.
    """

    name: ClassVar[str] = "goodness"

    results: tuple[CaseResult, ...]
    n_replicas: int
    seed: int

    def to_json(self) -> dict[str, Any]:
        return {
            "driftbayes_version": __version__,
            "seed": self.seed,
            "n_replicas": self.n_replicas,
            "level": LEVEL,
            "strict_level": STRICT,
            "cases": {result.case.name: result.to_json() for result in self.results},
        }

    def sentences(self) -> list[str]:
        return [goodness_table(self.to_json())]

    def files(self) -> dict[str, Any]:
        content = self.to_json()
        return {"goodness.json": content, "goodness.md": goodness_table(content)}

    def figures(self) -> dict[str, "Figure"]:
        true = [result for result in self.results if result.case.is_true]
        wrong = [result for result in self.results if not result.case.is_true]
        with journal_figure(7.2, 4.4, 1, 2, width_ratios=(1, 1.1)) as (figure, (left, right)):
            left.plot([0, 1], [0, 1], color=GUIDE, lw=0.8)
            for result in true:
                p = np.sort(result.p_values[np.isfinite(result.p_values)])
                left.step(p, np.arange(1, len(p) + 1) / len(p), color=INK, lw=0.5, alpha=0.5)
            left.set(xlabel="p-value", ylabel="share of data sets below")
            left.set_title(f"{len(true)} true models")
            places = np.arange(len(wrong))[::-1]
            shares = [result.share_below(LEVEL)[0] for result in wrong]
            right.barh(places, shares, color=COLOURS["langevin"], height=0.7)
            labels = [f"{result.case.words} → {result.case.judged_by}" for result in wrong]
            right.set_yticks(places, labels, fontsize=6)
            right.set(xlim=(0, 1), xlabel=f"share of data sets with p < {LEVEL:g}")
            right.set_title(f"{len(wrong)} wrong models")
        return {"goodness": figure}


def goodness_table(content: Mapping[str, Any]) -> str:
    """Return the result as two Markdown tables.

    Args:
        content: From `Goodness.to_json`.
    """
    cases = content["cases"].values()
    shares = "data sets | p < 0.01 | p < 0.005"
    tables = []
    for is_true, first, last in (
        (True, "true model | data", "uniform? (KS p-value)"),
        (False, "data | fitted model", "most frequent failure"),
    ):
        lines = [f"| {first} | {shares} | {last} |", "|---|---|---|---|---|---|"]
        for c in (c for c in cases if c["is_true"] is is_true):
            names = [f"`{c['judged_by']}`", c["words"]]
            end = f"{c['uniformity_p_value']:.2g}" if is_true else c["most_blamed"]
            cells = [*(names if is_true else names[::-1]), str(c["n_data_sets"])]
            cells += [_percent(c, "level"), _percent(c, "strict"), end.replace("_", " ")]
            lines.append(f"| {' | '.join(cells)} |")
        tables.append("\n".join(lines))
    return "\n\n".join(tables)


def _percent(case: Mapping[str, Any], level: str) -> str:
    share, error = case[f"share_below_{level}"], case[f"share_below_{level}_err"]
    return f"{100 * share:.1f} ± {100 * error:.1f} %"


def run_goodness(
    n_true: int = 300,
    n_wrong: int = 200,
    seed: int = 0,
    *,
    n_replicas: int = 200,
    cases: str = "all",
    runner: Runner = DEFAULT_RUNNER,
) -> Goodness:
    """Check many data sets under true and wrong models.

    Args:
        n_true: Number of data sets of each case in which the model is true.
        n_wrong: Number of data sets of each case in which it is wrong.
        seed: Random seed of data and replicas.
        n_replicas: Number of replicas of each data set, 200 or more for p-values below 0.005.
        cases: Comma-separated names of cases, or "all".
        runner: Options of the computation; checks are saved in "checks".
    """
    for name, value, least in (
        ("n_true", n_true, 1),
        ("n_wrong", n_wrong, 1),
        ("n_replicas", n_replicas, 200),
        ("n_workers", runner.n_workers, 1),
    ):
        if value < least:
            raise DriftbayesError(f"{name} must be {least} or more, got {value}")
    chosen = cases_named(cases)
    about = {"driftbayes_version": __version__, "seed": seed, "n_replicas": n_replicas}
    jobs = {
        case.name: [
            Job(
                f"{case.name}-{low}-{min(low + _CHUNK, n)}",
                {**about, **case.to_json()},
                (case.name, range(low, min(low + _CHUNK, n)), n_replicas, seed),
            )
            for n in (n_true if case.is_true else n_wrong,)
            for low in range(0, n, _CHUNK)
        ]
        for case in chosen
    }
    # The slowest first, so that no worker is left with one of them at the end; then by model, so
    # that its programs are compiled once.
    slowest_first = sorted((job for part in jobs.values() for job in part), key=_order)
    rows_by_job = runner.compute(slowest_first, _check_data_sets, "checks", "checks/rows")
    results = []
    for case in chosen:
        rows = [row for job in jobs[case.name] for row in rows_by_job[job.name]]
        p_values = np.array([row["p_value"] for row in rows], dtype=np.float64)
        blamed = tuple(str(row["blamed"]) for row in rows)
        reasons = tuple(str(row["reason"]) for row in rows if row["reason"])
        n_unequal = sum(not row["equal"] for row in rows)
        results.append(CaseResult(case, p_values, blamed, n_unequal, reasons))
    return Goodness(tuple(results), n_replicas, seed)


def _order(job: Job) -> tuple[bool, str]:
    case = CASES[job.arguments[0]]
    model = case.judged_by or case.made_by
    return case.sampling == "regular" and model in ("brownian", "langevin"), model


def _check_data_sets(
    name: str, numbers: Sequence[int], n_replicas: int, seed: int
) -> list[dict[str, Any]]:
    """Check data sets of one case; runs in a worker."""
    case = CASES[name]
    hypothesis = case.hypothesis()
    rows = []
    for number in numbers:
        data, start_times = case.data(seed, number)
        row: dict[str, Any] = {"p_value": None, "blamed": "", "equal": True, "reason": ""}
        try:
            result = check_fit(
                [hypothesis],
                data,
                start_times=start_times,
                n_replicas=n_replicas,
                seed=seed + number,
            ).models[hypothesis.name]
        except DriftbayesError as error:
            row["reason"] = str(error)
        else:
            failed = result.unexplained
            row["p_value"] = result.p_value
            row["equal"] = result.is_at_equal_fit
            row["blamed"] = failed[0].name if failed else ""
            if result.status is not Status.OK:
                row["reason"] = result.reason
        rows.append(row)
    return rows
