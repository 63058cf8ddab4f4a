"""Which stochastic model of dispersion explains particle trajectories, and how sure we are.

Names are imported when first used, so that `import driftbayes` costs nothing.
"""

from typing import TYPE_CHECKING

from driftbayes._aliases import lazy
from driftbayes._version import __version__

if TYPE_CHECKING:
    from driftbayes.changes import Segments
    from driftbayes.checks import FitCheck, check_fit
    from driftbayes.comparison import Comparison, Scan, compare_hypotheses, scan_hypotheses
    from driftbayes.comparison._dependence import dependence
    from driftbayes.data import Displacements, Trajectories, displacements
    from driftbayes.diagnostics import data_scales, diagnose
    from driftbayes.errors import (
        DataWarning,
        DependenceWarning,
        DriftbayesError,
        DriftbayesWarning,
        PriorWarning,
        Status,
    )
    from driftbayes.inference import (
        SMC,
        Auto,
        Bridge,
        Evidence,
        Exact,
        Hypothesis,
        Importance,
        Laplace,
        Nested,
        evidence,
    )
    from driftbayes.io import read_scan, read_trajectories, write_scan, write_trajectories
    from driftbayes.models import (
        MODELS,
        Anisotropic,
        Blur,
        Brownian,
        Common,
        ConfinedBrownian,
        ConfinedLangevin,
        Eddies,
        Flow,
        FractionalBrownian,
        Langevin,
        LinearFlow,
        MaternVelocity,
        MeanFlow,
        Mixture,
        Noise,
        OscillatingLangevin,
        Outliers,
        Rotating,
        Scatter,
        SecondOrderLangevin,
        Student,
        Sum,
        TwoScaleLangevin,
    )
    from driftbayes.plots.scan import plot_scan
    from driftbayes.plots.segments import plot_segments
    from driftbayes.priors import (
        Exponential,
        Fixed,
        Gamma,
        LogNormal,
        Normal,
        Uniform,
        scaling_priors,
    )
    from driftbayes.relative import PairComparison, pairs
    from driftbayes.sde import SDE
    from driftbayes.workflow import (
        Blocks,
        Cut,
        Scales,
        backtest,
        check,
        compare,
        example,
        export,
        field,
        info,
        map,
        open_scan,
        predict,
        presence,
        qc,
        read,
        recommend,
        scan,
        score,
        score_ensembles,
        segments,
        sensitivity,
        simulate,
        write_report,
    )

__getattr__ = lazy(
    __name__,
    {
        "changes": "Segments",
        "checks": "FitCheck check_fit",
        "comparison": "Comparison Scan compare_hypotheses dependence scan_hypotheses",
        "diagnostics": "data_scales diagnose",
        "data": "Displacements Trajectories displacements",
        "errors": (
            "DataWarning DependenceWarning DriftbayesError DriftbayesWarning PriorWarning Status"
        ),
        "inference": "SMC Auto Bridge Evidence Exact Hypothesis Importance Laplace Nested evidence",
        "io": "read_scan read_trajectories write_scan write_trajectories",
        "models": (
            "MODELS Anisotropic Blur Brownian Common ConfinedBrownian ConfinedLangevin "
            "Eddies Flow FractionalBrownian Langevin LinearFlow MaternVelocity MeanFlow Mixture "
            "Noise OscillatingLangevin Outliers Rotating Scatter SecondOrderLangevin Student Sum "
            "TwoScaleLangevin"
        ),
        "plots.scan": "plot_scan",
        "plots.segments": "plot_segments",
        "plots.pairs": "plot_pairs",
        "relative": "PairComparison pairs",
        "sde": "SDE",
        "priors": "Exponential Fixed Gamma LogNormal Normal Uniform scaling_priors",
        "workflow": (
            "Blocks Cut Scales backtest check compare example export field info map open_scan "
            "predict presence qc read recommend scan score score_ensembles segments sensitivity "
            "simulate trajectories_card write_report"
        ),
    },
)

__all__ = [
    "MODELS",
    "SDE",
    "SMC",
    "Anisotropic",
    "Auto",
    "Blocks",
    "Blur",
    "Bridge",
    "Brownian",
    "Common",
    "Comparison",
    "ConfinedBrownian",
    "ConfinedLangevin",
    "Cut",
    "DataWarning",
    "DependenceWarning",
    "Displacements",
    "DriftbayesError",
    "DriftbayesWarning",
    "Eddies",
    "Evidence",
    "Exact",
    "Exponential",
    "FitCheck",
    "Fixed",
    "Flow",
    "FractionalBrownian",
    "Gamma",
    "Hypothesis",
    "Importance",
    "Langevin",
    "Laplace",
    "LinearFlow",
    "LogNormal",
    "MaternVelocity",
    "MeanFlow",
    "Mixture",
    "Nested",
    "Noise",
    "Normal",
    "OscillatingLangevin",
    "Outliers",
    "PairComparison",
    "PriorWarning",
    "Rotating",
    "Scales",
    "Scan",
    "Scatter",
    "SecondOrderLangevin",
    "Segments",
    "Status",
    "Student",
    "Sum",
    "Trajectories",
    "TwoScaleLangevin",
    "Uniform",
    "__version__",
    "backtest",
    "check",
    "check_fit",
    "compare",
    "compare_hypotheses",
    "data_scales",
    "dependence",
    "diagnose",
    "displacements",
    "evidence",
    "example",
    "export",
    "field",
    "info",
    "map",
    "open_scan",
    "pairs",
    "plot_scan",
    "plot_segments",
    "predict",
    "presence",
    "qc",
    "read",
    "read_scan",
    "read_trajectories",
    "recommend",
    "scaling_priors",
    "scan",
    "scan_hypotheses",
    "score",
    "score_ensembles",
    "segments",
    "sensitivity",
    "simulate",
    "write_report",
    "write_scan",
    "write_trajectories",
]


def __dir__() -> list[str]:
    return sorted(__all__)
