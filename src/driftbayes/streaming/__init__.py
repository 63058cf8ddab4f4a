"""Scan files that do not fit in memory."""

from typing import TYPE_CHECKING

from driftbayes._aliases import lazy

if TYPE_CHECKING:
    from driftbayes.streaming._scan import (
        StreamOptions,
        check_streamable,
        sample_file,
        scan_tally,
        tally_file,
    )
    from driftbayes.streaming._tally import Tally, TallySpec, tally_of
    from driftbayes.streaming._workers import Workers

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
        "_scan": "StreamOptions check_streamable sample_file scan_tally tally_file",
        "_tally": "Tally TallySpec tally_of",
        "_workers": "Workers",
    },
)


def __dir__() -> list[str]:
    return sorted(__all__)
