"""Evidence for noisy, irregular and long tracks: the table of docs/performance.md.

`python benchmarks/engine.py` measures every row once and writes `bench-results/engine.json`; names
of rows restrict it to those. Whole commands run in child processes, first with empty caches
(cold) and then again (warm). CPU time counts all threads; on a busy machine it is the number
to compare.
"""

import json
import os
import platform
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax

jax.config.update("jax_enable_x64", True)

import numpy as np  # noqa: E402

from engine_data import write_data  # noqa: E402
from measured import run_command  # noqa: E402
from peers import per_step  # noqa: E402

_NOISE = "brownian+noise,langevin+noise,second_order+noise"
_GPS = ("--tau", "5", "--models", "langevin+noise")
_ANIMAL = ("--tau", "all", "--models", "confined,confined+noise")


@dataclass(frozen=True)
class Row:
    """One command of the table.

    Args:
        work: Description.
        data: Name of a file of `engine_data`.
        command: Command, with its options after the file.
        seconds: Maximum wall time when warm, on two free cores; None for a row without a
            target.
        megabytes: Maximum peak memory; None for a row without a target.
    """

    work: str
    data: str
    command: tuple[str, ...]
    seconds: float | None = None
    megabytes: float | None = None


ROWS: dict[str, Row] = {
    "gps": Row("GPS track, 17,280 fixes", "gps-17280", ("compare", *_GPS), 4, 700),
    "gps-three": Row(
        "the same, three `+noise` models",
        "gps-17280",
        ("compare", "--tau", "5", "--models", _NOISE),
        12,
    ),
    "animal": Row("animal, 3,526 fixes, few intervals", "animal", ("compare", *_ANIMAL), 5),
    "animal-jittered": Row("the same, jittered times", "animal-jittered", ("compare", *_ANIMAL)),
    "drifters": Row(
        "8 drifters × 40 days, satellite fixes",
        "drifters",
        ("compare", "--tau", "all", "--models", "langevin,langevin+noise"),
        5,
    ),
    "gps-10000": Row("10⁴ fixes", "gps-10000", ("compare", *_GPS)),
    "gps-100000": Row("10⁵ fixes", "gps-100000", ("compare", *_GPS)),
    "gps-1000000": Row("10⁶ fixes", "gps-1000000", ("compare", *_GPS), 60),
    "report": Row(
        "report, 400 single-particle tracks, four models",
        "colloids",
        ("report", "--models", "brownian,langevin,brownian+noise,langevin+noise"),
        45,
        1000,
    ),
    "molecules": Row(
        "10⁴ short tracks, classes",
        "molecules",
        ("compare", "--tau", "0.02", "--models", "brownian*2,brownian*3,brownian+noise*2"),
        30,
        1000,
    ),
    "all-models": Row(
        "`--models all`, 100 × 100 × 2",
        "square",
        ("compare", "--tau", "0.1", "--models", "all"),
        20,
    ),
    "scan": Row(
        "scan of 12 τ, 38 tracks of 1,000 days, four models",
        "floats",
        ("scan", "--taus", "1:40:12log", "--models", "brownian,langevin,second_order,two_scale"),
        30,
    ),
}


def engine_table(names: Sequence[str] = (), *, limit: float = 600.0) -> dict[str, Any]:
    """Measure rows of the table.

    Args:
        names: Keys of `ROWS`, or "likelihood"; all if empty.
        limit: Seconds after which a command is stopped.
    """
    chosen = list(names) or ["likelihood", *ROWS]
    result: dict[str, Any] = {
        "machine": {
            "cores": os.cpu_count(),
            "python": platform.python_version(),
            "jax": jax.__version__,
            "numpy": np.__version__,
            "load_before": os.getloadavg(),
        },
        "rows": {},
    }
    if "likelihood" in chosen:
        result["likelihood"] = per_step()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for key in chosen:
            if key in ROWS:
                result["rows"][key] = _measure(key, folder, limit)
                print(_line(key, result["rows"][key]), flush=True)
    result["growth"] = _growth(result["rows"])
    # `throughput.py` measures the rows of streamed files; `run.py` runs it too.
    result["machine"]["load_after"] = os.getloadavg()
    return result


def _measure(key: str, folder: Path, limit: float) -> dict[str, Any]:
    """Measure a command cold, then warm; do not repeat a command that was stopped."""
    row = ROWS[key]
    file = write_data(row.data, folder)
    command, *options = row.command
    arguments = [command, str(file), *options]
    if command == "report":
        arguments += ["-o", str(folder / "report.html"), "--overwrite"]
    cache = folder / f"cache-{key}"
    found: dict[str, Any] = {"work": row.work, "command": " ".join(row.command)}
    found |= {"target_seconds": row.seconds, "target_megabytes": row.megabytes}
    for state in ("cold", "warm"):
        measured = run_command(arguments, cache, limit=limit)
        found[state] = measured.to_json()
        if measured.code:
            break
    return found


def _growth(rows: dict[str, Any]) -> float | None:
    """Fit the power of the number of fixes with which the CPU time grows, from 10⁴ to 10⁶.

    The time for 10⁴ fixes, mostly imports, is subtracted.
    """
    seconds = [rows.get(f"gps-{n}", {}).get("warm", {}).get("cpu") for n in (10**4, 10**5, 10**6)]
    if any(value is None for value in seconds):
        return None
    small, middle, large = seconds
    if not large > middle > small:
        return None
    return float(np.log10((large - small) / (middle - small)))


def _line(key: str, row: dict[str, Any]) -> str:
    """Format one row."""
    parts = []
    for state in ("cold", "warm"):
        if state in row:
            one = row[state]
            stopped = ", stopped" if one["code"] else ""
            parts.append(
                f"{state} {one['wall']:.1f} s, CPU {one['cpu']:.1f} s, {one['peak_mb']:.0f} MB, "
                f"{one['compiled']} compiled{stopped}"
            )
    target = row["target_seconds"]
    return f"{key}: {'; '.join(parts)}" + (f"; must: {target:g} s" if target else "")


def main() -> None:
    """Measure, print and write the results."""
    result = engine_table(sys.argv[1:])
    folder = Path("bench-results")
    folder.mkdir(exist_ok=True)
    path = folder / "engine.json"
    path.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps({key: value for key, value in result.items() if key != "rows"}, indent=2))
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
