"""Stochastic models of dispersion, one per file, and the options that wrap them."""

from typing import TYPE_CHECKING

from driftbayes._aliases import lazy
from driftbayes.models._base import AbstractModel, Parameter, as_template
from driftbayes.models._named import MODELS, model_named
from driftbayes.models._prepare import Preparation, check_summable, preparation
from driftbayes.models._rules import OPTIONS

if TYPE_CHECKING:
    from driftbayes.models._brownian import Brownian
    from driftbayes.models._confined import ConfinedLangevin
    from driftbayes.models._fractional import FractionalBrownian
    from driftbayes.models._langevin import Langevin
    from driftbayes.models._matern import MaternVelocity
    from driftbayes.models._options.anisotropy import Anisotropic
    from driftbayes.models._options.common import Common
    from driftbayes.models._options.correlated import Eddies, Flow
    from driftbayes.models._options.flows import LinearFlow, MeanFlow
    from driftbayes.models._options.measurement import Blur, Noise
    from driftbayes.models._options.outliers import Outliers
    from driftbayes.models._options.populations import Mixture, Scatter
    from driftbayes.models._options.rotating import Rotating
    from driftbayes.models._options.student import Student
    from driftbayes.models._ornstein import ConfinedBrownian
    from driftbayes.models._oscillating import OscillatingLangevin
    from driftbayes.models._random_walk import RandomWalk
    from driftbayes.models._second_order import SecondOrderLangevin
    from driftbayes.models._sums import Sum
    from driftbayes.models._two_scale import TwoScaleLangevin

__getattr__ = lazy(
    __name__,
    {
        "_brownian": "Brownian",
        "_confined": "ConfinedLangevin",
        "_fractional": "FractionalBrownian",
        "_langevin": "Langevin",
        "_matern": "MaternVelocity",
        "_options.anisotropy": "Anisotropic",
        "_options.common": "Common",
        "_options.correlated": "Eddies Flow",
        "_options.flows": "LinearFlow MeanFlow",
        "_options.measurement": "Blur Noise",
        "_options.outliers": "Outliers",
        "_options.populations": "Mixture Scatter",
        "_options.rotating": "Rotating",
        "_options.student": "Student",
        "_ornstein": "ConfinedBrownian",
        "_oscillating": "OscillatingLangevin",
        "_random_walk": "RandomWalk",
        "_second_order": "SecondOrderLangevin",
        "_sums": "Sum",
        "_two_scale": "TwoScaleLangevin",
    },
)

__all__ = [
    "MODELS",
    "OPTIONS",
    "AbstractModel",
    "Anisotropic",
    "Blur",
    "Brownian",
    "Common",
    "ConfinedBrownian",
    "ConfinedLangevin",
    "Eddies",
    "Flow",
    "FractionalBrownian",
    "Langevin",
    "LinearFlow",
    "MaternVelocity",
    "MeanFlow",
    "Mixture",
    "Noise",
    "OscillatingLangevin",
    "Outliers",
    "Parameter",
    "Preparation",
    "RandomWalk",
    "Rotating",
    "Scatter",
    "SecondOrderLangevin",
    "Student",
    "Sum",
    "TwoScaleLangevin",
    "as_template",
    "check_summable",
    "model_named",
    "preparation",
]
