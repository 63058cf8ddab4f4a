"""Diffusivities and flows that vary in space, and the probability of presence under them."""

from driftbayes.fields.fokker_planck import FokkerPlanck, Grid

__all__ = ["FokkerPlanck", "Grid"]
