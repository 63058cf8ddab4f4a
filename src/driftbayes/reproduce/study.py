"""Shared parts of all studies: claims, resumable jobs, worker processes, folders and files.

A study is a function `run_NAME(..., runner=Runner())` that returns a `StudyResult`.
"""

__all__ = ["Claim", "Job", "Runner", "StudyResult", "along_tau", "log_bayes_factors"]

import json
import multiprocessing
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from driftbayes._processes import environment
from driftbayes._storage import atomic_path
from driftbayes._typing import FloatArray, Progress
from driftbayes._version import __version__
from driftbayes.comparison import Scan
from driftbayes.errors import DriftbayesError
from driftbayes.io import write_scan

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAIR = "langevin:brownian"
# File that marks a folder as ours, with the name of its study and whether it is complete.
_MARKER = ".driftbayes-reproduce.json"
# Each worker uses one CPU thread, so that workers do not compete for cores or for the GPU.
_ONE_THREAD = {
    "JAX_PLATFORMS": "cpu",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}


@dataclass(frozen=True)
class Claim:
    """A statement of the paper and our result.

    Args:
        claim: The statement.
        paper: The paper's value, or its place in the paper.
        ours: Our result.
        agrees: "yes", "no", "in part", or "-" where the paper gives no value.
    """

    claim: str
    paper: str
    ours: str
    agrees: str


def yes(condition: object) -> str:
    """Return "yes" or "no"."""
    return "yes" if bool(condition) else "no"


def along_tau(scan: Scan, model: str, field: str, parameter: str = "") -> FloatArray:
    """Return one number of a model's evidence at every tau.

    Args:
        scan: The scan.
        model: Name of the model.
        field: Attribute of the evidence.
        parameter: Name of the parameter, if the attribute holds one number for each.
    """
    values = [getattr(evidence, field) for evidence in scan.evidences(model)]
    return np.array([value[parameter] for value in values] if parameter else values)


def log_bayes_factors(scan: Scan) -> FloatArray:
    """Return ln K of Langevin against Brownian at every tau."""
    return np.array([comparison.log_bayes_factors[PAIR] for comparison in scan.comparisons])


def jackknife_variance(left_out: FloatArray, axis: int = -1) -> FloatArray:
    """Return the variance of an estimate, from its values without each group along an axis."""
    n = left_out.shape[axis]
    squares = (left_out - left_out.mean(axis=axis, keepdims=True)) ** 2
    return np.asarray((n - 1) / n * squares.sum(axis=axis))


class StudyResult(ABC):
    """Result of a study: numbers, text, claims, figures and files."""

    name: ClassVar[str]
    # Title of the table of claims, and section of the paper.
    title: ClassVar[str] = ""
    section: ClassVar[int] = 0

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return the result as plain numbers and text."""

    @abstractmethod
    def figures(self) -> "Mapping[str, Figure]":
        """Draw the figures, by name."""

    def claims(self) -> list[Claim]:
        """Return the paper's claims with our results."""
        return []

    def sentences(self) -> list[str]:
        """Return the result in words."""
        return []

    def files(self) -> Mapping[str, Any]:
        """Return the content of the files other than figures, by file name."""
        return {f"{self.name}.json": self.to_json()}

    def write(self, directory: Path) -> list[Path]:
        """Write the files, and each figure as PNG and PDF; return their paths.

        Args:
            directory: Output directory, created if missing.
        """
        _make_folder(directory)
        written = [_write_file(content, directory / name) for name, content in self.files().items()]
        for name, figure in self.figures().items():
            for suffix in (".png", ".pdf"):
                written.append(directory / f"{name}{suffix}")
                with atomic_path(written[-1]) as temporary:
                    figure.savefig(temporary)
                # The layout is the same for both formats and takes half of the time.
                figure.set_layout_engine("none")
        return written


@dataclass(frozen=True)
class Job:
    """A part of a study whose rows are saved on disk once computed.

    Args:
        name: Name of the file, without the suffix.
        header: Content that a saved file must match: version, seed, priors, ...
        arguments: Arguments of the function that computes the rows.
    """

    name: str
    header: Mapping[str, Any] = field(hash=False)
    arguments: tuple[Any, ...] = field(hash=False)


@dataclass(frozen=True)
class Runner:
    """Options of the computation.

    Args:
        directory: Folder of the study, where jobs are saved and resumed; None saves nothing.
        progress: Called with the stage, the number of parts done, and their total.
        n_workers: Number of single-threaded processes; 1 computes in this process.
        prepare: Called once in each worker before it computes, to set up JAX.
    """

    directory: Path | None = None
    progress: Progress | None = None
    n_workers: int = 1
    prepare: Callable[[], None] | None = None

    def report(self, stage: str, done: int, total: int) -> None:
        """Report progress."""
        if self.progress is not None:
            self.progress(stage, done, total)

    def compute(
        self, jobs: Sequence[Job], function: Callable[..., list[Any]], stage: str, kept: str
    ) -> dict[str, list[Any]]:
        """Compute or read the rows of every job, and return them by name.

        Args:
            jobs: The jobs, the slowest first.
            function: Computes the rows from the arguments of a job.
            stage: Name of the stage, for progress.
            kept: Folder of the saved rows, and their key in each file, as "folder/key".
        """
        folder, key = kept.split("/")
        directory = None if self.directory is None else self.directory / folder
        done: dict[str, list[Any]] = {}
        if directory is not None:
            _make_folder(directory)
            stored = {job.name: _read_rows(directory, job, key) for job in jobs}
            done = {name: rows for name, rows in stored.items() if rows is not None}
        todo = [job for job in jobs if job.name not in done]
        for job, rows in self._run(todo, function):
            if directory is not None:
                _write_file({**job.header, key: rows}, directory / f"{job.name}.json")
            done[job.name] = rows
            self.report(stage, len(done), len(jobs))
        return done

    def _run(
        self, jobs: Sequence[Job], function: Callable[..., list[Any]]
    ) -> Iterator[tuple[Job, list[Any]]]:
        if self.n_workers == 1:
            for job in jobs:
                yield job, function(*job.arguments)
            return
        with (
            environment(_ONE_THREAD),
            ProcessPoolExecutor(
                min(self.n_workers, max(len(jobs), 1)),
                mp_context=multiprocessing.get_context("spawn"),
                initializer=self.prepare,
            ) as pool,
        ):
            futures = {pool.submit(function, *job.arguments): job for job in jobs}
            for future in as_completed(futures):
                yield futures[future], future.result()


DEFAULT_RUNNER = Runner()


def _read_rows(directory: Path, job: Job, key: str) -> list[Any] | None:
    """Read the rows of an interrupted run; None if missing, damaged or from another run."""
    try:
        content = json.loads((directory / f"{job.name}.json").read_text(encoding="utf-8"))
        is_same = all(content[name] == value for name, value in job.header.items())
        return content[key] if is_same else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def check_folder(directory: Path, study: str, *, overwrite: bool) -> None:
    """Raise an error unless a folder is missing, empty or an unfinished run of the same study.

    Args:
        directory: The folder, which may be missing.
        study: Name of the study.
        overwrite: Whether to allow results of `driftbayes reproduce` to be replaced.
    """
    _refuse_file(directory)
    if not directory.exists() or not any(directory.iterdir()):
        return
    try:
        marker = json.loads((directory / _MARKER).read_text(encoding="utf-8"))
        held, complete = str(marker["experiment"]), bool(marker["complete"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DriftbayesError(
            f"'{directory}' is not empty and was not made by `driftbayes reproduce`; choose "
            "another directory with -o"
        ) from error
    if not overwrite and (complete or held != study):
        raise DriftbayesError(
            f"'{directory}' already holds results of `driftbayes reproduce {held}`; pass "
            "--overwrite to replace them, or choose another directory with -o"
        )


@contextmanager
def working_folder(directory: Path, study: str) -> Iterator[None]:
    """Create the folder and mark it as unfinished until the block ends without an error.

    If the block is refused before it writes anything, the folder is as it was.

    Args:
        directory: The folder, created if missing.
        study: Name of the study.
    """
    existed = directory.is_dir()
    was_empty = not existed or not any(directory.iterdir())
    _make_folder(directory)
    marker = {"experiment": study, "version": __version__}
    _write_file({**marker, "complete": False}, directory / _MARKER)
    try:
        yield
    except DriftbayesError:
        if was_empty and [path.name for path in directory.iterdir()] == [_MARKER]:
            (directory / _MARKER).unlink()
            if not existed:
                directory.rmdir()
        raise
    _write_file({**marker, "complete": True}, directory / _MARKER)


def _write_file(content: Any, path: Path) -> Path:
    """Write JSON, columns of numbers (CSV), a scan's dataset (NetCDF) or text; return the path."""
    if path.suffix == ".nc":
        write_scan(content, path)
        return path
    if path.suffix == ".json":
        text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
    elif path.suffix == ".csv":
        rows = zip(*(np.asarray(column).tolist() for column in content.values()), strict=True)
        text = "\n".join([",".join(content), *(",".join(map(repr, row)) for row in rows)]) + "\n"
    else:
        text = content + "\n"
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    return path


def _make_folder(directory: Path) -> None:
    _refuse_file(directory)
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        msg = f"cannot create the directory '{directory}': {error.strerror}; choose another with -o"
        raise DriftbayesError(msg) from error


def _refuse_file(directory: Path) -> None:
    if directory.exists() and not directory.is_dir():
        msg = f"'{directory}' is a file, expected a directory to write to; choose another with -o"
        raise DriftbayesError(msg)
