"""OpenDrift: a constant horizontal diffusivity."""

__all__ = ["opendrift_text"]

from driftbayes.errors import DriftbayesError
from driftbayes.simulators.header import header
from driftbayes.simulators.long_time import parts_of
from driftbayes.simulators.recommend import Recommendation


def opendrift_text(recommendation: Recommendation) -> str:
    """Lines that configure a simulation `o`.

    OpenDrift knows no memory of velocities: of a Langevin model it gets the long-time diffusivity,
    which overstates the spread over times shorter than a few velocity times. It takes one
    diffusivity for both axes.
    """
    found = recommendation.dispersion
    if not found.is_isotropic:
        msg = (
            "OpenDrift takes one diffusivity for both axes, and those of "
            f"{recommendation.model} differ: {found.zonal.value:.4g} and "
            f"{found.meridional.value:.4g} m²/s; use --for parcels, or a model without +anisotropic"
        )
        raise DriftbayesError(msg)
    text = header(recommendation)
    if recommendation.is_langevin:
        gamma = recommendation.parameters["gamma"].value
        text += (
            "# note: OpenDrift has no memory of velocities; a cloud spreads too fast before about "
            f"{5 / gamma:.3g} s\n"
        )
    elif parts_of(recommendation.model).base != "brownian":
        text += "# note: OpenDrift has no memory of velocities; only the long-time diffusivity\n"
    return text + (
        f'o.set_config("environment:constant:horizontal_diffusivity", {found.zonal.value:.6g})'
        "  # m2/s, per axis\n"
    )
