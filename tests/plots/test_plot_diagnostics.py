"""Figures of the diagnostics: what is drawn is what the data set holds."""

from functools import cache

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray as xr
from numpy.testing import assert_allclose, assert_array_equal

from driftbayes.data._trajectories import Trajectories
from driftbayes.diagnostics import diagnose
from driftbayes.plots import diagnostics as figures
from driftbayes.plots.style import COLOURS, RC, axis_label, journal_style

FIGURES = {
    figures.plot_lvaf: "lvaf",
    figures.plot_absolute_diffusivity: "absolute_diffusivity",
    figures.plot_msd: "msd",
    figures.plot_kurtosis: "kurtosis",
}


@cache
def _dataset(n_particles, n_times, **units):
    steps = np.random.default_rng(0).normal(size=(n_particles, n_times, 2))
    return diagnose(Trajectories.from_arrays(np.cumsum(steps, axis=1), dt=0.5, **units))


@pytest.fixture(scope="module")
def dataset():
    return _dataset(12, 80, length_unit="m", time_unit="s")


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def _line(ax, name):
    return next(line for line in ax.lines if line.get_label() in ("data", "absolute"))


@pytest.mark.parametrize(("plot", "name"), FIGURES.items())
def test_the_line_is_the_variable(plot, name, dataset):
    ax = plot(dataset)
    ax.figure.canvas.draw()
    line = _line(ax, name)
    drawn = dataset if name == "lvaf" else dataset.isel(lag=slice(1, None))
    assert_array_equal(line.get_xdata(), drawn.lag)
    assert_array_equal(line.get_ydata(), drawn[name])
    assert len(ax.collections) >= 1  # the band of errors
    assert ax.get_xlabel() == "lag (s)"
    assert ax.get_ylabel()


@pytest.mark.parametrize(("plot", "name"), FIGURES.items())
def test_lags_have_the_unit_of_the_text(plot, name, dataset):
    """The same data with an interval of half an hour instead of half a second."""
    slow = dataset.assign_coords(lag=("lag", 3600 * dataset.lag.values, dataset.lag.attrs))
    slow.attrs["timescale"] = 3600 * dataset.attrs["timescale"]
    per_time = {"lvaf": 2, "absolute_diffusivity": 1, "taylor_diffusivity": 1}
    for variable, power in per_time.items():
        for part in (variable, f"{variable}_sd"):
            slow[part] = slow[part] / 3600**power
    first, second = plot(dataset), plot(slow)
    assert second.get_xlabel() == "lag (h)"
    factor = 3600.0 ** -per_time.get(name, 0)
    for here, there in zip(first.lines, second.lines, strict=True):
        assert_allclose(there.get_xdata(), here.get_xdata())
        if len(here.get_xdata()) > 2:
            assert_allclose(there.get_ydata(), factor * here.get_ydata())


@pytest.mark.parametrize("plot", FIGURES)
def test_given_axes_are_used_and_returned(plot, dataset):
    _, ax = plt.subplots()
    assert plot(dataset, ax) is ax
    assert len(plt.get_fignums()) == 1


@pytest.mark.sampled(3)
@pytest.mark.parametrize("plot", FIGURES)
@pytest.mark.parametrize("shape", [(1, 80), (3, 2), (2, 3)])
def test_one_trajectory_and_one_step_can_be_drawn(plot, shape):
    ax = plot(_dataset(*shape))
    ax.figure.canvas.draw()
    if shape[0] == 1:
        assert not ax.collections  # nothing to resample, no band


@pytest.mark.parametrize("plot", FIGURES)
def test_the_data_set_and_the_global_style_are_left_alone(plot, dataset):
    before, style = dataset.copy(deep=True), dict(mpl.rcParams)
    plot(dataset)
    xr.testing.assert_identical(dataset, before)
    assert dict(mpl.rcParams) == style


def test_the_figure_fits_a_column_and_is_legible(dataset):
    ax = figures.plot_lvaf(dataset)
    ax.figure.canvas.draw()
    assert ax.figure.get_size_inches()[0] == 3.4
    texts = [ax.xaxis.label, ax.yaxis.label, *ax.get_xticklabels(), *ax.get_legend().get_texts()]
    assert all(8 <= text.get_fontsize() <= 9 for text in texts)
    assert ax.xaxis.get_tick_params()["direction"] == "in"


def test_the_ballistic_line_is_half_of_r0_times_the_lag(dataset):
    ax = figures.plot_absolute_diffusivity(dataset)
    ballistic = next(line for line in ax.lines if "ballistic" in line.get_label())
    # At one interval the finite difference makes it meet the data exactly.
    assert_allclose(ballistic.get_ydata()[0], dataset.absolute_diffusivity[1], rtol=0.05)
    assert_allclose(ballistic.get_ydata(), dataset.lvaf.values[0] * ballistic.get_xdata() / 2)
    taylor = next(line for line in ax.lines if "Taylor" in line.get_label())
    assert_array_equal(taylor.get_ydata(), dataset.taylor_diffusivity[1:])


def test_flat_data_are_shown_on_a_decade_at_least(dataset):
    low, high = figures.plot_absolute_diffusivity(dataset).get_ylim()
    assert high / low > 9.999


def test_units_are_typeset_and_long_labels_broken():
    def label(words, units):
        return axis_label(words, xr.DataArray(0.0, attrs={"units": units}))

    assert label("lag", "s") == "lag (s)"
    assert label("diffusivity", "m2 s-1") == "diffusivity (m$^{2}$ s$^{-1}$)"
    assert label("msd", "(cell width)2") == "msd ((cell width)$^{2}$)"
    assert label("kurtosis", "1") == "kurtosis"
    assert label("lag", "") == "lag"
    assert "\n" in label("velocity autocovariance", "km2 day-2")


def test_the_style_holds_inside_its_block_only():
    with journal_style():
        assert mpl.rcParams["axes.labelsize"] == RC["axes.labelsize"]
    assert mpl.rcParams["axes.labelsize"] != RC["axes.labelsize"]
    assert set(COLOURS) >= {"brownian", "langevin"}
