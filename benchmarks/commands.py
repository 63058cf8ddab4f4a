"""Wall time of each command, started from the shell: `python benchmarks/commands.py [NAME ...]`.

Every command runs on one file of 100 trajectories of 100 steps in a plane (10⁴ displacements), with
default options where possible: first with an empty cache (cold), then again (warm).

`python benchmarks/commands.py --against SRC [NAME ...]` also runs each command from another version
in turn, whose package lies in the folder SRC (`src` of a `git worktree`), and prints ratios of the
fastest of five warm runs.
"""

import argparse
import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from measured import Measured, run_command

# FILE is the file of trajectories, SCAN a scan of it, OUT an empty folder for results.
COMMANDS: dict[str, str] = {
    "--help": "--help",
    "info": "info FILE",
    "qc": "qc FILE",
    "diagnose": "diagnose FILE",
    "dependence": "dependence FILE --tau 0.5",
    "convert": "convert FILE OUT/tracks.parquet",
    "formats": "formats",
    "compare": "compare FILE --tau 0.5",
    "scan": "scan FILE --taus 0.5:10:12log -o OUT/scan.nc",
    "check": "check FILE --tau 0.5",
    "sensitivity": "sensitivity FILE --tau 0.5",
    "score": "score FILE --tau 0.5",
    "map": "map FILE --tau 0.5 --cell 5 --n-tau 20 -o OUT/map.nc",
    "models": "models",
    "report --brief": "report FILE -o OUT/report.html --brief",
    "report": "report FILE -o OUT/report.html",
    "predict": "predict FILE --tau 0.5 --horizon 10",
    "export": "export SCAN --for json --length-unit km --time-unit d",
    "simulate": "simulate langevin --gamma 1 --k 1 --particles 100 --steps 100 --tau 0.5"
    " -o OUT/simulated.csv",
    "turbulence run": "turbulence run --preset tiny -o OUT/flow",
    "reproduce langevin": "reproduce langevin -o OUT/paper",
    "cite": "cite",
    "completion": "completion bash",
}


# Commands that make FILE and SCAN, and number of warm runs against another version.
_SIMULATE = "simulate langevin --gamma 1 --k 1 --particles 100 --steps 100 --tau 0.5 -o FILE"
_SCAN = "scan FILE --taus 0.5:10:12log -o SCAN"
_N_WARM = 5


def commands(names: Sequence[str] = ()) -> dict[str, Any]:
    """Measure wall time, CPU time and peak memory of commands, cold and warm.

    Args:
        names: Keys of `COMMANDS`; all if empty.
    """
    result: dict[str, Any] = {"load_before": os.getloadavg(), "rows": {}}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for text in (_SIMULATE, _SCAN):
            run_command(_filled(text, folder), folder / "cache")
        for key in names or COMMANDS:
            cache = folder / f"cache-{key}".replace(" ", "-")
            row = {
                state: run_command(_filled(COMMANDS[key], folder), cache).to_json()
                for state in ("cold", "warm")
            }
            result["rows"][key] = {"command": COMMANDS[key], **row}
            print(_line(key, row), flush=True)
    result["load_after"] = os.getloadavg()
    return result


def against(source: Path, names: Sequence[str]) -> dict[str, Any]:
    """Measure warm commands of this version and of another in turn.

    Args:
        source: Folder that holds the package of the other version.
        names: Keys of `COMMANDS`.
    """
    result: dict[str, Any] = {"load_before": os.getloadavg(), "rows": {}}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for text in (_SIMULATE, _SCAN):
            run_command(_filled(text, folder), folder / "this")
        for key in names:
            runs: dict[str, list[Measured]] = {"this": [], "other": []}
            # The first run of each fills its cache.
            for _ in range(1 + _N_WARM):
                for version, place in (("this", None), ("other", source)):
                    arguments = _filled(COMMANDS[key], folder)
                    runs[version].append(run_command(arguments, folder / version, source=place))
            row = {
                version: {
                    "wall": min(run.wall for run in warm),
                    "cpu": min(run.cpu for run in warm),
                }
                for version, (_, *warm) in runs.items()
            }
            result["rows"][key] = row
            this, other = row["this"], row["other"]
            print(
                f"{key}: wall {this['wall']:.2f} s, other {other['wall']:.2f} s, "
                f"ratio {this['wall'] / other['wall']:.2f}; "
                f"CPU {this['cpu']:.2f} s, other {other['cpu']:.2f} s",
                flush=True,
            )
    result["load_after"] = os.getloadavg()
    return result


def _filled(text: str, folder: Path) -> list[str]:
    """Put file names into a command, with a new folder for its results."""
    results = tempfile.mkdtemp(dir=folder)
    places = {"FILE": folder / "tracks.csv", "SCAN": folder / "tracks.nc", "OUT": Path(results)}
    words = text.split()
    for name, place in places.items():
        words = [str(place) + w[len(name) :] if w.startswith(name) else w for w in words]
    return words


def _line(key: str, row: dict[str, Any]) -> str:
    parts = [
        f"{state} {one['wall']:.2f} s, CPU {one['cpu']:.2f} s, {one['peak_mb']:.0f} MB"
        for state, one in row.items()
    ]
    return f"{key}: {'; '.join(parts)}; {row['warm']['compiled']} compiled when warm"


def main() -> None:
    """Measure, print and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="commands; all by default")
    parser.add_argument("--against", type=Path, metavar="SRC", help="source folder of a version")
    options = parser.parse_args()
    names = options.names or list(COMMANDS)
    result = against(options.against, names) if options.against else commands(names)
    folder = Path("bench-results")
    folder.mkdir(exist_ok=True)
    path = folder / "commands.json"
    path.write_text(json.dumps(result, indent=2) + "\n")
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
