"""The figure of a whole scan can be read."""

from itertools import pairwise

import matplotlib as mpl

mpl.use("Agg")

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

import gallery
from driftbayes.comparison import Scan
from driftbayes.plots.scan import plot_scan


def made(taus: np.ndarray) -> Scan:
    """A scan that is made by hand."""
    return Scan(tuple(gallery.comparison(tau=float(tau)) for tau in taus))


@pytest.mark.sampled(5)
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
