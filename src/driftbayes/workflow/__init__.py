"""Analysis of trajectories: one function for each command."""

from typing import TYPE_CHECKING

from driftbayes.aliases import lazy

if TYPE_CHECKING:
    from driftbayes.data.sampling import Cut
    from driftbayes.workflow.analyses import Scales, compare, scan, suggested_taus
    from driftbayes.workflow.backtests import backtest, recommend
    from driftbayes.workflow.changes import segments
    from driftbayes.workflow.examples import example, write_example
    from driftbayes.workflow.fields import field
    from driftbayes.workflow.fits import (
        bootstrap,
        check,
        map,
        predict,
        score,
        sensitivity,
        simulate,
    )
    from driftbayes.workflow.overview import Overview, info
    from driftbayes.workflow.presence import presence
    from driftbayes.workflow.reading import Blocks, FileInBlocks, open_scan, read
    from driftbayes.workflow.verification import score_ensembles

__all__ = [
    "Blocks",
    "Cut",
    "FileInBlocks",
    "Overview",
    "Scales",
    "backtest",
    "bootstrap",
    "check",
    "compare",
    "example",
    "field",
    "info",
    "map",
    "open_scan",
    "predict",
    "presence",
    "read",
    "recommend",
    "scan",
    "score",
    "score_ensembles",
    "segments",
    "sensitivity",
    "simulate",
    "suggested_taus",
    "write_example",
]

__getattr__ = lazy(
    __name__,
    {
        "backtests": "backtest recommend",
        "analyses": "Cut Scales compare scan suggested_taus",
        "changes": "segments",
        "examples": "example write_example",
        "fields": "field",
        "fits": "bootstrap check map predict score sensitivity simulate",
        "overview": "Overview info trajectories_card",
        "presence": "presence",
        "reading": "Blocks FileInBlocks open_scan read",
        "verification": "score_ensembles",
    },
)
