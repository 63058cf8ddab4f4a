"""Do what a user does with trajectories: one function for each command."""

from typing import TYPE_CHECKING

from driftbayes.aliases import lazy

if TYPE_CHECKING:
    from driftbayes.data.sampling import Cut
    from driftbayes.workflow.analyses import compare, scan, suggested_taus
    from driftbayes.workflow.description import Description, describe
    from driftbayes.workflow.fits import (
        bootstrap,
        check,
        dependence,
        map,
        predict,
        score,
        sensitivity,
    )
    from driftbayes.workflow.reading import Blocks, FileInBlocks, open_scan, read
    from driftbayes.workflow.setup import Scales

__all__ = [
    "Blocks",
    "Cut",
    "Description",
    "FileInBlocks",
    "Scales",
    "bootstrap",
    "check",
    "compare",
    "dependence",
    "describe",
    "map",
    "open_scan",
    "predict",
    "read",
    "scan",
    "score",
    "sensitivity",
    "suggested_taus",
]

__getattr__ = lazy(
    __name__,
    {
        "analyses": ("compare", "scan", "suggested_taus"),
        "description": ("Description", "describe", "trajectories_card"),
        "fits": ("bootstrap", "check", "dependence", "map", "predict", "score", "sensitivity"),
        "reading": ("Blocks", "FileInBlocks", "open_scan", "read"),
        "setup": ("Cut", "Scales"),
    },
)
