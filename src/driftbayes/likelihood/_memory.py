"""Check that a model does not need more memory than is available."""

import os
from pathlib import Path

from driftbayes.errors import DriftbayesError


def check_bytes(name: str, needed: int) -> None:
    """Raise an error for a model that needs more memory than is available.

    Args:
        name: Name of the model.
        needed: Memory that it needs, in bytes.
    """
    available = available_bytes()
    if available is None or needed <= available:
        return
    raise DriftbayesError(
        f"{name} needs about {_text(needed)} of memory for these data, and {_text(available)} are "
        "available; use shorter runs (--n-tau), a longer tau, or fewer trajectories"
    )


def available_bytes() -> int | None:
    """Return the memory available to this process in bytes; None if unknown."""
    known = [value for value in (_system_bytes(), _group_bytes()) if value is not None]
    return min(known) if known else None


def _system_bytes() -> int | None:
    """Return the available memory of the machine; None if unknown."""
    text = _read("/proc/meminfo")
    for line in (text or "").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def _group_bytes() -> int | None:
    """Memory that the control group of a container still allows."""
    for limit, used in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        (
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/memory.usage_in_bytes",
        ),
    ):
        numbers = [_read(path) for path in (limit, used)]
        if all(number is not None and number.strip().isdigit() for number in numbers):
            maximum, current = (int(number or 0) for number in numbers)
            return max(maximum - current, 0)
    return None


def _read(path: str) -> str | None:
    """Return the content of a text file; None if it cannot be read."""
    try:
        return Path(path).read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return None


def _text(n_bytes: int) -> str:
    """Format a number of bytes."""
    size = float(n_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"
