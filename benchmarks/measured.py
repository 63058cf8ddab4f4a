"""Measure commands in child processes: wall time, CPU time, peak memory, compilations."""

import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import driftbayes

_COMPILED = re.compile(r"compiled (\d+) programs in [\d.]+ s, (\d+) of them")
_PEAK = re.compile(r"VmHWM:\s*(\d+) kB")


@dataclass(frozen=True)
class Measured:
    """Resources used by one command.

    Args:
        wall: Seconds from start to end.
        cpu: Seconds of CPU time of all threads, user and system.
        peak_mb: Peak resident memory, in 10⁶ bytes.
        compiled: Number of programs that XLA compiled, without those from the cache.
        code: Exit code; -9 if stopped.
    """

    wall: float
    cpu: float
    peak_mb: float
    compiled: int
    code: int

    def to_json(self) -> dict[str, Any]:
        """Return plain numbers."""
        return {key: round(value, 3) for key, value in asdict(self).items()}


def run_command(
    arguments: list[str], cache: Path, *, limit: float = 600.0, source: Path | None = None
) -> Measured:
    """Run `driftbayes ARGUMENTS` and measure it.

    Args:
        arguments: Command and options.
        cache: Folder of compiled programs and kernels; a new one makes the run cold.
        limit: Seconds after which the command is stopped.
        source: Folder that holds the package; by default, that of this package.
    """
    environment = {
        **os.environ,
        "PYTHONPATH": str(source or Path(driftbayes.__file__).parents[1]),
        "DRIFTBAYES_CACHE": str(cache / "programs"),
        "NUMBA_CACHE_DIR": str(cache / "kernels"),
    }
    with tempfile.TemporaryFile() as errors:
        start = time.perf_counter()
        child = subprocess.Popen(
            [sys.executable, "-m", "driftbayes", *arguments, "-v"],
            stdout=subprocess.DEVNULL,
            stderr=errors,
            env=environment,
        )
        code, usage, peak = _wait(child, start + limit)
        wall = time.perf_counter() - start
        errors.seek(0)
        text = errors.read().decode(errors="replace")
    if code not in (0, -9):
        raise RuntimeError(f"driftbayes {' '.join(arguments)} ended with {code}:\n{text[-2000:]}")
    found = _COMPILED.search(text)
    compiled = int(found[1]) - int(found[2]) if found else 0
    cpu = usage.ru_utime + usage.ru_stime
    return Measured(wall, cpu, peak / 1e6, compiled, code)


def _wait(child: "subprocess.Popen[bytes]", deadline: float) -> tuple[int, Any, float]:
    """Return exit code, resource usage and peak memory of a child; stop it at the deadline."""
    peak = 0.0
    while True:
        peak = _peak_bytes(child.pid) or peak
        pid, status, usage = os.wait4(child.pid, os.WNOHANG)
        if not pid and time.perf_counter() > deadline:
            child.kill()
            pid, status, usage = os.wait4(child.pid, 0)
        if pid:
            child.returncode = os.waitstatus_to_exitcode(status)
            return child.returncode, usage, peak or float(usage.ru_maxrss)
        time.sleep(0.01)


def _peak_bytes(pid: int) -> float | None:
    """Return the peak resident memory of a running process; None if unknown.

    The peak that `wait4` reports includes that of the parent, because a child starts as its copy.
    """
    try:
        found = _PEAK.search(Path(f"/proc/{pid}/status").read_text())
    except OSError:
        return None
    return 1024.0 * int(found[1]) if found else None
