"""Read damaged and hostile files and count failures.

Every case is one file or store: a mutation of a small sample of each format that `driftbayes
formats` lists and of a scan, or one of the hand-made hostile files. It is read in a child process
with limits of memory and time. A reader may return trajectories or raise `DriftbayesError`; all
else is a failure. Run as

    python tools/fuzz.py                  # 10,000 mutations and all hostile files
    python tools/fuzz.py --cases 200      # fewer
    python tools/fuzz.py --only scan      # only samples whose name begins with "scan"
    python tools/fuzz.py --seed 7 --keep failures

A case depends only on seed and number, not on other cases.
"""

import argparse
import multiprocessing as mp
import os
import resource
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from multiprocessing.connection import Connection, wait
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests" / "io")]

import fuzz_hostile  # noqa: E402
import fuzz_mutations  # noqa: E402
import fuzz_samples  # noqa: E402

# Time limit: these files have kilobytes, so more is a hang, not a slow machine.
SECONDS = 60.0
# Memory limit of a file, in addition to that of the process that reads it.
MEMORY = 2**30
_PRELOADED = (
    *("h5netcdf", "pyarrow.csv", "pyarrow.compute", "pyarrow.parquet", "xarray", "zarr", "pandas"),
    *("driftbayes.io._blocks", "driftbayes.report", "driftbayes.simulators"),
)
_RESTART_AFTER = 400
_OUT_OF_MEMORY = ("Unable to allocate", "malloc of size", "bad_alloc", "realloc of size")


@dataclass(frozen=True)
class Case:
    """One file to read.

    Args:
        name: Description, for messages.
        path: The file or store.
        format: Name of the format, if it cannot be detected.
        is_scan: Whether it is read as a scan.
        in_blocks: Whether it is also read in blocks, like files larger than memory.
    """

    name: str
    path: Path
    format: str | None = None
    is_scan: bool = False
    in_blocks: bool = False


@dataclass
class Tally:
    """Outcomes of the cases."""

    outcomes: Counter[str] = field(default_factory=Counter)
    by_kind: dict[str, Counter[str]] = field(default_factory=dict)
    failures: list[tuple[Case, str, str]] = field(default_factory=list)
    slowest: tuple[float, str] = (0.0, "")
    largest: tuple[int, str] = (0, "")

    def add(self, case: Case, outcome: str, detail: str, seconds: float, n_bytes: int) -> None:
        """Count one case."""
        self.outcomes[outcome] += 1
        kind = case.name.partition(":")[0]
        self.by_kind.setdefault(kind, Counter())[outcome] += 1
        if outcome not in ("read", "refused"):
            self.failures.append((case, outcome, detail))
        self.slowest = max(self.slowest, (seconds, case.name))
        self.largest = max(self.largest, (n_bytes, case.name))

    @property
    def n_cases(self) -> int:
        """Number of cases so far."""
        return sum(self.outcomes.values())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the cases and print a table; return 1 if there are failures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--cases", type=int, default=10_000, help="mutated files")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="only samples whose name begins with this")
    parser.add_argument("--no-hostile", action="store_true", help="omit the hand-made files")
    parser.add_argument("--workers", type=int, default=min(os.cpu_count() or 1, 8))
    parser.add_argument("--keep", type=Path, help="copy failed files to this directory")
    args = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="driftbayes-fuzz-") as folder:
        tally = run(
            Path(folder),
            n_cases=args.cases,
            seed=args.seed,
            only=args.only,
            hostile=() if args.no_hostile else fuzz_hostile.KINDS,
            n_workers=args.workers,
            keep=args.keep,
        )
    print(table(tally))
    return 1 if tally.failures else 0


def run(
    folder: Path,
    *,
    n_cases: int,
    seed: int = 1,
    only: str = "",
    hostile: Collection[str] = fuzz_hostile.KINDS,
    n_workers: int = 1,
    keep: Path | None = None,
) -> Tally:
    """Run the cases.

    Args:
        folder: Empty directory for their files.
        n_cases: Number of mutated files.
        seed: Random seed of the mutations.
        only: Start of the names of the samples to mutate; empty for all.
        hostile: Kinds of hand-made files to include.
        n_workers: Number of reading processes.
        keep: Directory for failed files.
    """
    tally = Tally()
    cases = _cases(folder, n_cases, seed, only, hostile=hostile)
    for case, outcome, detail, seconds, n_bytes in _pooled(cases, n_workers):
        tally.add(case, outcome, detail, seconds, n_bytes)
        if keep is not None and outcome not in ("read", "refused"):
            keep.mkdir(parents=True, exist_ok=True)
            target = keep / f"{tally.n_cases:05d}-{case.path.name}"
            copy = shutil.copytree if case.path.is_dir() else shutil.copy
            # Hand-made files are identified by their names, and may be endless.
            if not case.name.startswith("hostile:"):
                copy(case.path, target)
        # Hand-made files may share a directory; each mutation has its own.
        if case.path.parent.name.startswith("case-"):
            shutil.rmtree(case.path.parent, ignore_errors=True)
        if sys.stderr.isatty() or tally.n_cases % 1000 == 0:
            print(f"\r{tally.n_cases} cases, {len(tally.failures)} failures", file=sys.stderr)
    return tally


def table(tally: Tally) -> str:
    """Describe the outcome."""
    head = ("files", "cases", "read", "refused", "foreign errors", "hangs", "over memory")
    keys = ("read", "refused", "foreign", "hang", "memory")
    rows = [
        (kind, str(sum(counts.values())), *(str(counts[key]) for key in keys))
        for kind, counts in sorted(tally.by_kind.items())
    ]
    rows.append(("all", str(tally.n_cases), *(str(tally.outcomes[key]) for key in keys)))
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    lines = [
        "  ".join(cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(pairs))
        for pairs in (list(zip(row, widths, strict=True)) for row in (head, *rows))
    ]
    seconds, slow = tally.slowest
    n_bytes, large = tally.largest
    lines.append(f"slowest {seconds:.1f} s of CPU time ({slow})")
    lines.append(f"most memory {n_bytes / 2**20:.0f} MiB beyond the reader's own ({large})")
    for case, outcome, detail in tally.failures[:40]:
        lines.append(f"{outcome}: {case.name}: {detail}")
    return "\n".join(lines)


def _cases(
    folder: Path, n_cases: int, seed: int, only: str, *, hostile: Collection[str]
) -> Iterator[Case]:
    if hostile:
        place = folder / "hostile"
        place.mkdir()
        for name, path, chosen, is_scan in fuzz_hostile.make(place, hostile):
            yield Case(f"hostile:{name}", path, chosen, is_scan, in_blocks=not is_scan)
    samples = [
        sample for sample in fuzz_samples.make(folder / "samples") if sample.name.startswith(only)
    ]
    for number in range(n_cases if samples else 0):
        sample = samples[number % len(samples)]
        inside = folder / f"case-{number}"
        inside.mkdir()
        path, how = fuzz_mutations.mutate(sample.path, inside, samples, [seed, number])
        name = f"{sample.name}: case {number}, {how}"
        blocks = not sample.is_scan and number % 4 == 0
        yield Case(name, path, sample.format, sample.is_scan, in_blocks=blocks)


def _pooled(cases: Iterator[Case], n_workers: int) -> Iterator[tuple[Case, str, str, float, int]]:
    """Read cases in parallel processes; yield each with its outcome."""
    busy: dict[Connection, tuple[_Worker, Case, float]] = {}
    idle = [_Worker() for _ in range(n_workers)]
    more = True
    try:
        while more or busy:
            while more and idle:
                case = next(cases, None)
                if case is None:
                    more = False
                    break
                worker = idle.pop()
                worker.send(case)
                busy[worker.pipe] = (worker, case, time.monotonic())
            ready = wait(list(busy), timeout=1.0)
            for pipe, (worker, case, start) in list(busy.items()):
                if pipe in ready:
                    answer = worker.receive()
                elif time.monotonic() - start > SECONDS:
                    answer = ("hang", f"no answer in {SECONDS:.0f} s", SECONDS, 0)
                else:
                    continue
                del busy[pipe]
                if answer[0] == "hang" or worker.n_read >= _RESTART_AFTER or not worker.is_alive():
                    worker.stop()
                    worker = _Worker()
                idle.append(worker)
                yield (case, *answer)
    finally:
        for worker in (*idle, *(found for found, _, _ in busy.values())):
            worker.stop()


class _Worker:
    """Process that reads one file after another."""

    def __init__(self) -> None:
        # Forked from a process that has imported everything and read no file.
        context = mp.get_context("forkserver")
        context.set_forkserver_preload(list(_PRELOADED))
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=_serve, args=(other,), daemon=True)
        self.process.start()
        other.close()
        self.n_read = 0

    def send(self, case: Case) -> None:
        self.pipe.send(case)
        self.n_read += 1

    def receive(self) -> tuple[str, str, float, int]:
        try:
            answer: tuple[str, str, float, int] = self.pipe.recv()
        except (EOFError, OSError):
            self.process.join(10)
            return "foreign", f"the process ended with {self.process.exitcode}", 0.0, 0
        return answer

    def is_alive(self) -> bool:
        return self.process.is_alive()

    def stop(self) -> None:
        self.process.kill()
        self.process.join(10)
        self.pipe.close()


def _serve(pipe: Connection) -> None:
    """Read requested files until the pipe is closed."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    warnings.simplefilter("ignore")
    # Libraries print errors to stderr before they raise them.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    read = _Reader()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    limit = _status("VmSize:") + 2 * MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
    while True:
        try:
            case = pipe.recv()
        except (EOFError, OSError):
            return
        before = _reset_peak()
        start = time.process_time()
        outcome, detail = read(case)
        n_bytes = max(_status("VmHWM:") - before, 0)
        if n_bytes > MEMORY and outcome in ("read", "refused"):
            outcome, detail = "memory", f"{n_bytes / 2**20:.0f} MiB"
        pipe.send((outcome, detail, time.process_time() - start, n_bytes))


class _Reader:
    """Reader of cases, with libraries imported once."""

    def __init__(self) -> None:
        # Import here, so that imports do not count towards the first file that needs them.
        for name in _PRELOADED:
            import_module(name)
        from driftbayes import io
        from driftbayes.errors import DriftbayesError

        self._io, self._error = io, DriftbayesError

    def __call__(self, case: Case) -> tuple[str, str]:
        """Read a case; return the outcome and a detail."""
        if case.in_blocks:
            outcome, detail = self._try(lambda: _read_in_blocks(case))
            if outcome not in ("read", "refused"):
                return outcome, f"in blocks: {detail}"
        if case.is_scan:
            return self._try(lambda: _use_scan(case.path))
        return self._try(lambda: self._io.read_trajectories(case.path, format=case.format))

    def _try(self, read: Callable[[], object]) -> tuple[str, str]:
        try:
            read()
        except self._error as error:
            return _refused(error)
        except MemoryError as error:
            return "memory", repr(error)[:200]
        except BaseException as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            return "foreign", f"{error!r:.200} at {Path(where.filename).name}:{where.lineno}"
        return "read", ""


def _refused(error: BaseException) -> tuple[str, str]:
    """Classify an error: a proper message, a bad one, or a hidden lack of memory."""
    message = str(error)
    if not message.strip() or "\n" in message or len(message) > 600:
        return "foreign", f"not one sentence: {message[:200]!r}"
    cause: BaseException | None = error
    while cause is not None:
        text = str(cause)
        if isinstance(cause, MemoryError) or any(word in text for word in _OUT_OF_MEMORY):
            return "memory", f"{cause!r:.200}"
        cause = cause.__cause__
    return "refused", message


def _read_in_blocks(case: Case) -> None:
    """Read a file in blocks, like one larger than memory."""
    from driftbayes.io._blocks import plan_blocks, read_block
    from driftbayes.io._reading import ReadOptions

    with plan_blocks(case.path, ReadOptions(format=case.format), block_points=4) as plan:
        for block in plan.blocks[:50]:
            read_block(block)


def _use_scan(path: Path) -> None:
    """Use a scan in every way: tables, report, exports."""
    from driftbayes.errors import DriftbayesError
    from driftbayes.io import read_scan
    from driftbayes.report import write_report
    from driftbayes.simulators import export, recommend

    scan = read_scan(path)
    with tempfile.TemporaryDirectory() as folder:
        write_report(scan, Path(folder) / "report.html")
    for tau in (None, 2.0):
        try:
            recommendation = recommend(scan, tau=tau, length_unit="m", time_unit="s")
            for simulator in ("json", "parcels", "parcels3", "opendrift"):
                export(recommendation, simulator)
        except DriftbayesError:
            continue


def _status(key: str) -> int:
    """Read a number of bytes from the status of this process."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(key):
            return int(line.split()[1]) * 1024
    return 0


def _reset_peak() -> int:
    """Reset the peak memory, and return the memory in use."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return _status("VmHWM:")
    return _status("VmRSS:")


if __name__ == "__main__":
    sys.exit(main())
