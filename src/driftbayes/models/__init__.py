"""Stochastic models of dispersion, one per file, and the options that wrap them."""

from typing import TYPE_CHECKING

from driftbayes.aliases import lazy
from driftbayes.models._base import AbstractModel, Parameter, as_template
from driftbayes.models._named import MODELS, model_named
from driftbayes.models._prepare import Needs, Preparation, check_summable, preparation
from driftbayes.models._rules import OPTIONS

if TYPE_CHECKING:
    from driftbayes.models.brownian import Brownian
    from driftbayes.models.confined import ConfinedLangevin
    from driftbayes.models.fractional import FractionalBrownian
    from driftbayes.models.langevin import Langevin
    from driftbayes.models.matern import MaternVelocity
    from driftbayes.models.options.anisotropy import Anisotropic
    from driftbayes.models.options.common import Common
    from driftbayes.models.options.correlated import Eddies, Flow
    from driftbayes.models.options.flows import LinearFlow, MeanFlow
    from driftbayes.models.options.measurement import Blur, Noise
    from driftbayes.models.options.outliers import Outliers
    from driftbayes.models.options.populations import Mixture, Scatter
    from driftbayes.models.options.rotating import Rotating
    from driftbayes.models.options.student import Student
    from driftbayes.models.ornstein import ConfinedBrownian
    from driftbayes.models.oscillating import OscillatingLangevin
    from driftbayes.models.random_walk import RandomWalk
    from driftbayes.models.second_order import SecondOrderLangevin
    from driftbayes.models.sums import Sum
    from driftbayes.models.two_scale import TwoScaleLangevin

__getattr__ = lazy(
    __name__,
    {
        "brownian": "Brownian",
        "confined": "ConfinedLangevin",
        "fractional": "FractionalBrownian",
        "langevin": "Langevin",
        "matern": "MaternVelocity",
        "options.anisotropy": "Anisotropic",
        "options.common": "Common",
        "options.correlated": "Eddies Flow",
        "options.flows": "LinearFlow MeanFlow",
        "options.measurement": "Blur Noise",
        "options.outliers": "Outliers",
        "options.populations": "Mixture Scatter",
        "options.rotating": "Rotating",
        "options.student": "Student",
        "ornstein": "ConfinedBrownian",
        "oscillating": "OscillatingLangevin",
        "random_walk": "RandomWalk",
        "second_order": "SecondOrderLangevin",
        "sums": "Sum",
        "two_scale": "TwoScaleLangevin",
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
    "Needs",
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
