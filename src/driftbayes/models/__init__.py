"""The library: one stochastic model per file, and the register of them."""

from driftbayes.models._base import AbstractModel, Parameter, as_template
from driftbayes.models._named import OPTIONS, model_named
from driftbayes.models._prepare import (
    Data,
    Needs,
    Preparation,
    check_summable,
    preparation,
    prepare,
)
from driftbayes.models.brownian import Brownian
from driftbayes.models.confined import ConfinedLangevin
from driftbayes.models.fractional import FractionalBrownian
from driftbayes.models.langevin import Langevin
from driftbayes.models.matern import MaternVelocity
from driftbayes.models.options import (
    Anisotropic,
    Blur,
    LinearFlow,
    MeanFlow,
    Mixture,
    Noise,
    Rotating,
    Scatter,
    Student,
)
from driftbayes.models.ornstein import ConfinedBrownian
from driftbayes.models.oscillating import OscillatingLangevin
from driftbayes.models.second_order import SecondOrderLangevin
from driftbayes.models.sums import Sum
from driftbayes.models.two_scale import TwoScaleLangevin

__all__ = [
    "MODELS",
    "OPTIONS",
    "AbstractModel",
    "Anisotropic",
    "Blur",
    "Brownian",
    "ConfinedBrownian",
    "ConfinedLangevin",
    "Data",
    "FractionalBrownian",
    "Langevin",
    "LinearFlow",
    "MaternVelocity",
    "MeanFlow",
    "Mixture",
    "Needs",
    "Noise",
    "OscillatingLangevin",
    "Parameter",
    "Preparation",
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
    "prepare",
]

# Every model by its name, from simple to complex.
MODELS: dict[str, type[AbstractModel]] = {
    model.name: model
    for model in (
        Brownian,
        Langevin,
        FractionalBrownian,
        ConfinedBrownian,
        SecondOrderLangevin,
        MaternVelocity,
        OscillatingLangevin,
        ConfinedLangevin,
        TwoScaleLangevin,
    )
}
