"""OpenDrift: a constant horizontal diffusivity."""

__all__ = ["opendrift_text"]

from driftbayes.simulators.header import header
from driftbayes.simulators.recommend import Recommendation


def opendrift_text(recommendation: Recommendation) -> str:
    """Lines that configure a simulation `o`.

    OpenDrift knows no memory of velocities: of a Langevin model it gets the long-time diffusivity,
    which overstates the spread over times shorter than a few velocity times.
    """
    diffusivity = recommendation.diffusivity
    text = header(recommendation)
    if recommendation.is_langevin:
        gamma = recommendation.parameters["gamma"].value
        text += (
            "# note: OpenDrift has no memory of velocities; a cloud spreads too fast before about "
            f"{5 / gamma:.3g} s\n"
        )
    return text + (
        f'o.set_config("environment:constant:horizontal_diffusivity", {diffusivity.value:.6g})'
        "  # m2/s, per axis\n"
    )
