"""The figure of a whole scan can be read."""

from itertools import pairwise

import matplotlib as mpl

mpl.use("Agg")

import numpy as np
import pytest
import xarray as xr
from matplotlib.backends.backend_agg import FigureCanvasAgg

from driftbayes.inference import QUANTILES
from driftbayes.plots.overview import plot_scan


def made(tau: np.ndarray) -> xr.Dataset:
    """A data set with what the figure shows of a scan."""
    n = len(tau)
    labels = ["brownian.kappa", "langevin.gamma", "langevin.k"]
    value = np.ones((3, n, 5)) + 0.1 * np.arange(5)
    return xr.Dataset(
        {
            "posterior_quantile": (("parameter", "tau", "quantile"), value),
            "consistent": (("parameter", "tau"), np.zeros((3, n))),
            "log_evidence": (("model", "tau"), np.stack([np.zeros(n), np.linspace(90, -2, n)])),
            "probability": (("model", "tau"), np.full((2, n), 0.5)),
        },
        coords={
            "tau": tau,
            "parameter": labels,
            "quantile": list(QUANTILES),
            "model": ["brownian", "langevin"],
        },
    )


@pytest.mark.parametrize("longest", [0.08, 0.5, 1.2, 5.0, 500.0])
def test_labels_of_the_sampling_time_do_not_run_into_each_other(longest):
    figure = plot_scan(made(np.geomspace(0.05, longest, 6)))
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    for ax in figure.axes:
        low, high = ax.get_xlim()
        labels = [label for label in ax.get_xticklabels(which="both") if label.get_text()]
        labels = [label for label in labels if low <= label.get_position()[0] <= high]
        labels.sort(key=lambda label: label.get_position()[0])
        boxes = [label.get_window_extent(canvas.get_renderer()) for label in labels]
        assert boxes
        assert all(a.x1 < b.x0 for a, b in pairwise(boxes))
