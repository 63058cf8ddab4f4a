"""How much memory a likelihood takes, how much there is, and what fits into it."""

__all__ = ["available_bytes", "check_bytes", "check_memory", "evaluation_bytes"]

import os
from pathlib import Path
from typing import Any

from driftbayes.data.sampling import Displacements
from driftbayes.errors import DriftbayesError
from driftbayes.likelihood.channels import ChannelMoments, ChannelSteps
from driftbayes.likelihood.kalman import PaddedSteps
from driftbayes.likelihood.moments import SecondMoments
from driftbayes.likelihood.per_trajectory import TrajectoryPieces

# Arrays of the size of the result that a compiled program holds beside it.
_COPIES = 3
# Matrices of a dense factorisation: spread, two differences, factor, and what they are made from.
_DENSE_COPIES = 6
_BYTES = 8


def evaluation_bytes(data: Any, *, dense: bool = False) -> int:
    """Memory that one evaluation of the likelihood takes, about.

    Args:
        data: What an engine made of the displacements; arrays or tracers.
        dense: Whether steps take a dense factorisation, for want of a state-space form.
    """
    if isinstance(data, TrajectoryPieces):
        data = data.pieces
    if isinstance(data, ChannelSteps):
        data = data.steps
    if isinstance(data, PaddedSteps):
        n_runs, n_steps, n_columns = data.dx.shape[-3:]
        steps = _COPIES * n_runs * n_steps * (n_columns + 1)
        return _BYTES * (steps + (_DENSE_COPIES * (n_steps + 1) ** 2 if dense else 0))
    if isinstance(data, SecondMoments | ChannelMoments):
        # Filters of all orders, and for each piece of a trajectory those that it needs.
        n_lags = data.forms.shape[-1]
        n_pieces = data.forms.shape[0] if data.predicted.ndim > 1 else 1
        return _BYTES * _COPIES * n_lags * (n_lags + n_pieces)
    if isinstance(data, Displacements):
        return _BYTES * _DENSE_COPIES * (data.n_steps + 1) ** 2
    return 0


def check_memory(name: str, data: Any, n_parameters: int, *, dense: bool = False) -> None:
    """Refuse, before it starts, a computation that does not fit in memory.

    The most that is needed at a time are the second derivatives of one evaluation.

    Args:
        name: Name of the model.
        data: What an engine made of the displacements.
        n_parameters: Number of parameters that are inferred.
        dense: As for `evaluation_bytes`.
    """
    check_bytes(name, (1 + n_parameters) ** 2 * evaluation_bytes(data, dense=dense))


def check_bytes(name: str, needed: int) -> None:
    """Refuse a model that needs more memory than there is.

    Args:
        name: Name of the model.
        needed: Bytes that it needs.
    """
    available = available_bytes()
    if available is None or needed <= available:
        return
    raise DriftbayesError(
        f"{name} needs about {_text(needed)} of memory for these data, and {_text(available)} are "
        "available; use shorter runs (--n-tau), a longer tau, or fewer trajectories"
    )


def available_bytes() -> int | None:
    """Memory that this process can still take; None where the system does not tell."""
    known = [value for value in (_system_bytes(), _group_bytes()) if value is not None]
    return min(known) if known else None


def _system_bytes() -> int | None:
    text = _read("/proc/meminfo")
    for line in (text or "").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def _group_bytes() -> int | None:
    """What a container may still take, by the limits of its control group."""
    for limit, used in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        (
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/memory.usage_in_bytes",
        ),
    ):
        numbers = [_read(path) for path in (limit, used)]
        if all(number is not None and number.strip().isdigit() for number in numbers):
            most, now = (int(number or 0) for number in numbers)
            return max(most - now, 0)
    return None


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return None


def _text(n_bytes: int) -> str:
    size = float(n_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"
