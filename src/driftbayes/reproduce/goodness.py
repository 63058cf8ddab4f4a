"""Calibration and power of the goodness-of-fit check, over many simulated data sets."""

__all__ = ["CaseResult", "Goodness", "goodness_table", "run_goodness", "write_goodness"]

import multiprocessing
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from driftbayes._version import __version__
from driftbayes.checks import check_fit
from driftbayes.checks.check import LEVEL
from driftbayes.errors import DriftbayesError, Status
from driftbayes.plots.style import COLOURS, GUIDE, INK, journal_figure
from driftbayes.processes import environment
from driftbayes.reproduce.folder import make_folder, read_kept, write_json, write_result
from driftbayes.reproduce.goodness_cases import CASES, Case
from driftbayes.typing import FloatArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Progress = Callable[[str, int, int], None]
Prepare = Callable[[], None]

# The smaller of the two levels at which contradicted data sets are counted.
STRICT = 0.005
# Data sets that one process judges before it writes them down.
_CHUNK = 100
# Each process computes on one thread of the processor: as many processes as cores would otherwise
# compete, or share a graphics card.
_ONE_THREAD = {
    "JAX_PLATFORMS": "cpu",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}


@dataclass(frozen=True, eq=False)
class CaseResult:
    """Checks of many data sets of one kind by one model.

    Args:
        case: How the data are made and which model judges them.
        p_values: P-value of each data set; NaN where it could not be checked.
        blamed: For each data set the quantity that deviates most; empty if none is unexplained.
        n_unequal: Data sets whose fit lay outside those of the replicas.
        reasons: Why data sets could not be checked.
    """

    case: Case
    p_values: FloatArray
    blamed: tuple[str, ...]
    n_unequal: int
    reasons: tuple[str, ...]

    def share_below(self, level: float) -> tuple[float, float]:
        """Share of data sets with a p-value below a level, and its standard error.

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
        """The quantity that deviates most in most of the contradicted data sets."""
        counts = Counter(name for name in self.blamed if name)
        return counts.most_common(1)[0][0] if counts else ""

    def to_json(self) -> dict[str, Any]:
        """The result as plain numbers and text."""
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
class Goodness:
    """All cases: true models, which should rarely be contradicted, and wrong ones.

    Args:
        results: One for each case.
        n_replicas: Replicas of each data set.
        seed: Seed of data and replicas.
    """

    results: tuple[CaseResult, ...]
    n_replicas: int
    seed: int

    def to_json(self) -> dict[str, Any]:
        """The result as plain numbers and text."""
        return {
            "driftbayes_version": __version__,
            "seed": self.seed,
            "n_replicas": self.n_replicas,
            "level": LEVEL,
            "strict_level": STRICT,
            "cases": {result.case.name: result.to_json() for result in self.results},
        }


def run_goodness(
    n_true: int = 300,
    n_wrong: int = 200,
    seed: int = 0,
    *,
    n_replicas: int = 200,
    cases: Sequence[Case] = tuple(CASES.values()),
    n_workers: int = 1,
    directory: Path | None = None,
    prepare: Prepare | None = None,
    progress: Progress | None = None,
) -> Goodness:
    """Check many data sets by true and by wrong models.

    Args:
        n_true: Data sets of each case in which the model is true.
        n_wrong: Data sets of each case in which it is wrong.
        seed: Seed of data and replicas.
        n_replicas: Replicas of each data set, 200 or more for p-values below 0.005.
        cases: The cases.
        n_workers: Processes, with one thread each; 1 computes in this process.
        directory: Where to keep the checks as they are made; those of an interrupted run with the
            same settings are not made again.
        prepare: Called once in each worker before it computes, to set up JAX.
        progress: Called with a stage, how many are done, and of how many.
    """
    for name, value, least in (
        ("n_true", n_true, 1),
        ("n_wrong", n_wrong, 1),
        ("n_replicas", n_replicas, 200),
        ("n_workers", n_workers, 1),
    ):
        if value < least:
            msg = f"{name} must be {least} or more, got {value}"
            raise DriftbayesError(msg)
    if directory is not None:
        make_folder(directory)
    jobs = [
        _Job(case.name, low, min(low + _CHUNK, n), n_replicas, seed)
        for case in cases
        for n in (n_true if case.is_true else n_wrong,)
        for low in range(0, n, _CHUNK)
    ]
    found = {job: rows for job in jobs if (rows := job.kept(directory)) is not None}
    # The slowest first, so that no process is left with one of them at the end.
    todo = sorted((job for job in jobs if job not in found), key=lambda job: job.order)
    for job, rows in _judged(todo, n_workers, prepare):
        job.keep(directory, rows)
        found[job] = rows
        if progress is not None:
            progress("checks", len(found), len(jobs))
    results = [
        _gathered(case, [r for job in jobs if job.case == case.name for r in found[job]])
        for case in cases
    ]
    return Goodness(tuple(results), n_replicas, seed)


@dataclass(frozen=True)
class _Job:
    """Some data sets of one case."""

    case: str
    first: int
    end: int
    n_replicas: int
    seed: int

    @property
    def order(self) -> tuple[bool, str]:
        """Slow cases first, then by the model that judges, whose programs are compiled once."""
        case = CASES[self.case]
        model = case.judged_by or case.made_by
        is_quick = case.sampling == "regular" and model in ("brownian", "langevin")
        return is_quick, model

    def header(self) -> dict[str, Any]:
        about = {"driftbayes_version": __version__, "seed": self.seed}
        return {**about, "n_replicas": self.n_replicas, **CASES[self.case].to_json()}

    def path(self, directory: Path) -> Path:
        return directory / f"{self.case}-{self.first}-{self.end}.json"

    def kept(self, directory: Path | None) -> list[dict[str, Any]] | None:
        """Read what an interrupted run with the same settings left."""
        if directory is None:
            return None
        rows = read_kept(self.path(directory), self.header(), "rows")
        return rows if rows is not None and len(rows) == self.end - self.first else None

    def keep(self, directory: Path | None, rows: list[dict[str, Any]]) -> None:
        if directory is not None:
            write_json({**self.header(), "rows": rows}, self.path(directory))


def _judged(
    jobs: Sequence[_Job], n_workers: int, prepare: Prepare | None
) -> Iterator[tuple[_Job, list[dict[str, Any]]]]:
    if n_workers == 1:
        for job in jobs:
            yield job, _rows(job)
        return
    with (
        environment(_ONE_THREAD),
        ProcessPoolExecutor(
            min(n_workers, max(len(jobs), 1)),
            mp_context=multiprocessing.get_context("spawn"),
            initializer=prepare,
        ) as pool,
    ):
        futures = {pool.submit(_rows, job): job for job in jobs}
        for future in as_completed(futures):
            yield futures[future], future.result()


def _rows(job: _Job) -> list[dict[str, Any]]:
    """Check some data sets of one case; runs in a worker."""
    case = CASES[job.case]
    hypothesis = case.hypothesis()
    rows = []
    for number in range(job.first, job.end):
        data, start_times = case.data(job.seed, number)
        row: dict[str, Any] = {"p_value": None, "blamed": "", "equal": True, "reason": ""}
        try:
            result = check_fit(
                [hypothesis],
                data,
                start_times=start_times,
                n_replicas=job.n_replicas,
                seed=job.seed + number,
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


def _gathered(case: Case, rows: Sequence[Mapping[str, Any]]) -> CaseResult:
    return CaseResult(
        case,
        np.array([row["p_value"] for row in rows], dtype=np.float64),
        tuple(str(row["blamed"]) for row in rows),
        sum(not row["equal"] for row in rows),
        tuple(str(row["reason"]) for row in rows if row["reason"]),
    )


def goodness_table(content: Mapping[str, Any]) -> str:
    """The result as two Markdown tables.

    Args:
        content: What `Goodness.to_json` gives.
    """
    cases = content["cases"].values()
    shares = "data sets | p < 0.01 | p < 0.005"
    tables = []
    for is_true, first, last in (
        (True, "true model | data", "uniform? (KS p-value)"),
        (False, "data | judged by", "most often blamed"),
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


def write_goodness(result: Goodness, directory: Path) -> list[Path]:
    """Write the numbers as JSON, the tables as Markdown and the figure as PNG and PDF."""
    content = result.to_json()
    return write_result(directory, "goodness", content, _figure(result), goodness_table(content))


def _figure(result: Goodness) -> "Figure":
    true = [one for one in result.results if one.case.is_true]
    wrong = [one for one in result.results if not one.case.is_true]
    with journal_figure(7.2, 4.4, 1, 2, width_ratios=(1, 1.1)) as (figure, (left, right)):
        left.plot([0, 1], [0, 1], color=GUIDE, lw=0.8)
        for one in true:
            p = np.sort(one.p_values[np.isfinite(one.p_values)])
            left.step(p, np.arange(1, len(p) + 1) / len(p), color=INK, lw=0.5, alpha=0.5)
        left.set(xlabel="p-value", ylabel="share of data sets below")
        left.set_title(f"{len(true)} true models")
        places = np.arange(len(wrong))[::-1]
        shares = [one.share_below(LEVEL)[0] for one in wrong]
        right.barh(places, shares, color=COLOURS["langevin"], height=0.7)
        labels = [f"{one.case.words} → {one.case.judged_by}" for one in wrong]
        right.set_yticks(places, labels, fontsize=6)
        right.set(xlim=(0, 1), xlabel=f"share of data sets with p < {LEVEL:g}")
        right.set_title(f"{len(wrong)} wrong models")
    return figure
