"""Langevin's equation as an SDE."""

from driftbayes.sde._model import SDE
from driftbayes.sde._models._parameters import LANGEVIN, friction, white_noise


def langevin() -> SDE:
    """Return Langevin's equation written as an SDE, as an example and to check the filters."""
    return SDE(
        friction,
        white_noise,
        LANGEVIN,
        name="sde_langevin",
        summary="langevin, written as an SDE and computed by particle filters",
    )
