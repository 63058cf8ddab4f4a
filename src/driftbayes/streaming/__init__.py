"""Scan files that do not fit in memory."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from driftbayes.streaming.scan import (
        StreamOptions,
        check_streamable,
        sample_file,
        scan_tally,
        tally_file,
    )
    from driftbayes.streaming.tally import Tally, TallySpec, tally_of
    from driftbayes.streaming.workers import Workers

__all__ = [
    "StreamOptions",
    "Tally",
    "TallySpec",
    "Workers",
    "check_streamable",
    "sample_file",
    "scan_tally",
    "tally_file",
    "tally_of",
]

# Imported when they are asked for: a worker process needs no models, and no JAX.
_HOMES = {
    "scan": ("StreamOptions", "check_streamable", "sample_file", "scan_tally", "tally_file"),
    "tally": ("Tally", "TallySpec", "tally_of"),
    "workers": ("Workers",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
