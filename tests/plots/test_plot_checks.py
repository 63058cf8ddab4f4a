"""Figures of goodness of fit are drawn on the axes of the report."""

from dataclasses import replace

import numpy as np

from driftbayes.checks._describe import fit_panels
from driftbayes.checks._statistics import Quantity
from driftbayes.plots.checks import plot_quantity
from gallery import fit_check


def test_lags_are_on_a_logarithmic_axis_and_other_numbers_are_not():
    check = fit_check()
    at = np.array([1.0, 40.0])
    chosen = (
        Quantity("msd", "the mean square displacement", "lag in steps", at),
        Quantity("kurtosis", "the kurtosis", "quantile of particles", at),
    )
    models = {name: replace(model, quantities=chosen) for name, model in check.models.items()}
    panels = {panel.name: panel for panel in fit_panels(replace(check, models=models))}
    for quantity, scale in zip(chosen, ("log", "linear"), strict=True):
        ax = plot_quantity(models["langevin"], quantity.name)
        assert ax.get_xscale() == panels[f"fit_{quantity.name}"].x_scale == scale
    ax = plot_quantity(models["langevin"], "msd")
    ax.figure.canvas.draw()
    texts = [label.get_text() for label in ax.get_xticklabels()]
    assert {"1", "2", "5", "10", "20"} <= set(texts)
