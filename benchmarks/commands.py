"""How long a person waits for a command, from the shell."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any


def _seconds(arguments: list[str], cache: str) -> float:
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "driftbayes", *arguments],
        check=True,
        capture_output=True,
        env={**os.environ, "DRIFTBAYES_CACHE": cache},
    )
    return time.perf_counter() - start


def commands() -> dict[str, Any]:
    """Wall-clock seconds of --help, and of compare on a small file, before and after caching."""
    with tempfile.TemporaryDirectory() as folder:
        file, cache = str(Path(folder) / "tracks.csv"), str(Path(folder) / "cache")
        simulate = ["simulate", "langevin", "--gamma", "1", "--k", "1", "--particles", "100"]
        simulate += ["--steps", "10", "--tau", "0.1", "--dim", "3", "-o", file]
        _seconds(simulate, cache)
        prior = ["--u-rms", "1.7", "--timescale", "1"]
        compare = ["compare", file, "--tau", "0.1", "--json"]
        return {
            "help": min(_seconds(["--help"], cache) for _ in range(5)),
            "compare_first": _seconds([*compare, *prior], cache),
            "compare_again": min(_seconds([*compare, *prior], cache) for _ in range(3)),
            "compare_default_priors_first": _seconds(compare, cache),
            "compare_default_priors_again": min(_seconds(compare, cache) for _ in range(3)),
            "compare_without_cache": min(_seconds([*compare, *prior], "off") for _ in range(2)),
        }
