"""Analysis of trajectories: one function for each command."""

from typing import TYPE_CHECKING

from driftbayes._aliases import lazy

if TYPE_CHECKING:
    from driftbayes.data._sampling import Cut
    from driftbayes.workflow._analyses import Scales, compare, scan, suggested_taus
    from driftbayes.workflow._backtests import backtest, recommend
    from driftbayes.workflow._changes import segments
    from driftbayes.workflow._examples import example, write_example
    from driftbayes.workflow._exports import export
    from driftbayes.workflow._fields import field
    from driftbayes.workflow._fits import (
        bootstrap,
        check,
        map,
        predict,
        score,
        sensitivity,
        simulate,
    )
    from driftbayes.workflow._overview import Overview, info, qc
    from driftbayes.workflow._presence import presence
    from driftbayes.workflow._reading import Blocks, FileInBlocks, open_scan, read
    from driftbayes.workflow._reports import WrittenReport, write_report
    from driftbayes.workflow._verification import score_ensembles

__all__ = [
    "Blocks",
    "Cut",
    "FileInBlocks",
    "Overview",
    "Scales",
    "WrittenReport",
    "backtest",
    "bootstrap",
    "check",
    "compare",
    "example",
    "export",
    "field",
    "info",
    "map",
    "open_scan",
    "predict",
    "presence",
    "qc",
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
    "write_report",
]

__getattr__ = lazy(
    __name__,
    {
        "_backtests": "backtest recommend",
        "_analyses": "Cut Scales compare scan suggested_taus",
        "_changes": "segments",
        "_examples": "example write_example",
        "_exports": "export",
        "_fields": "field",
        "_fits": "bootstrap check map predict score sensitivity simulate",
        "_overview": "Overview info qc trajectories_card",
        "_presence": "presence",
        "_reports": "WrittenReport write_report",
        "_reading": "Blocks FileInBlocks open_scan read",
        "_verification": "score_ensembles",
    },
)
