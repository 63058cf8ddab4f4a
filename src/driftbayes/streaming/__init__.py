"""Scan files that do not fit in memory."""

from typing import TYPE_CHECKING

from driftbayes.aliases import lazy

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

# Imported on demand: a worker process needs neither models nor JAX.
__getattr__ = lazy(
    __name__,
    {
        "scan": "StreamOptions check_streamable sample_file scan_tally tally_file",
        "tally": "Tally TallySpec tally_of",
        "workers": "Workers",
    },
)


def __dir__() -> list[str]:
    return sorted(__all__)
