"""What can be added to a model: noise, blur, flows, rotation, anisotropy, populations, tails."""

from driftbayes.models.options.anisotropy import with_anisotropy
from driftbayes.models.options.blur import with_blur
from driftbayes.models.options.linear_flow import with_linear_flow
from driftbayes.models.options.mean_flow import with_mean_flow
from driftbayes.models.options.mixture import mixture_of
from driftbayes.models.options.noise import with_noise
from driftbayes.models.options.rotating import with_rotation
from driftbayes.models.options.scatter import with_scatter
from driftbayes.models.options.student import with_student

__all__ = [
    "mixture_of",
    "with_anisotropy",
    "with_blur",
    "with_linear_flow",
    "with_mean_flow",
    "with_noise",
    "with_rotation",
    "with_scatter",
    "with_student",
]
