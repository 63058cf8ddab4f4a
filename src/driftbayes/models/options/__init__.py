"""What can be added to a model: noise, blur, flows, rotation, anisotropy, populations, tails."""

from driftbayes.models.options.anisotropy import Anisotropic
from driftbayes.models.options.blur import Blur
from driftbayes.models.options.linear_flow import LinearFlow
from driftbayes.models.options.mean_flow import MeanFlow
from driftbayes.models.options.mixture import Mixture
from driftbayes.models.options.noise import Noise
from driftbayes.models.options.rotating import Rotating
from driftbayes.models.options.scatter import Scatter
from driftbayes.models.options.student import Student

__all__ = [
    "Anisotropic",
    "Blur",
    "LinearFlow",
    "MeanFlow",
    "Mixture",
    "Noise",
    "Rotating",
    "Scatter",
    "Student",
]
