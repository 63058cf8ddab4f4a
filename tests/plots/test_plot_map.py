"""Figures of maps: units that are short to read, and panels as high as the region is."""

import numpy as np
import pytest
import xarray as xr

from driftbayes.plots.map import map_figure


def a_map(memory, flow, *, n_x=4, n_y=4, side=5e4, first=0.0, **axes):
    """A map on a plane in metres and seconds."""
    dims = ("tau", "y", "x")
    shape = (1, n_y, n_x)
    ramp = np.linspace(1.0, 2.0, n_x * n_y).reshape(shape)
    units = {"k": "m²/s", "memory_time": "s", "flow_1": "m/s", "flow_2": "m/s"}
    sizes = {"k": 3e3, "memory_time": memory, "flow_1": flow, "flow_2": -flow}
    variables = {}
    for name, unit in units.items():
        for ending, share in (("", 1.0), ("_sd", 0.01)):
            about = {"units": unit, "long_name": ending + name}
            variables[f"langevin_mean_{name}{ending}"] = dims, share * sizes[name] * ramp, about
    edges = [first + side * np.arange(n_x + 1), side * np.arange(n_y + 1)]
    for name, e in zip("xy", edges, strict=True):
        variables[f"{name}_bounds"] = (name, "bound"), np.stack([e[:-1], e[1:]], axis=1)
    coordinates = {
        name: (name, 0.5 * (e[1:] + e[:-1]), {"units": "m"} | axes)
        for name, e in zip("xy", edges, strict=True)
    }
    return xr.Dataset(variables, {**coordinates, "tau": ("tau", [3600.0])}).assign_attrs(
        time_unit="s"
    )


def labels(figure):
    return [ax.get_ylabel() for ax in figure.axes]


@pytest.mark.parametrize(
    ("memory", "flow", "time", "speed"),
    [(40.0, 0.5, "s", "m/s"), (2e4, 0.02, "h", "cm/s"), (4e5, 3e-6, "d", "µm/s")],
)
def test_units_suit_the_values_and_errors_have_the_same(memory, flow, time, speed):
    found = labels(map_figure(a_map(memory, flow), "langevin+mean"))
    for ending in ("", "_sd"):
        assert f"{ending}memory_time ({time})" in found
        assert f"{ending}flow_1 ({speed})" in found
        assert f"{ending}k (m²/s)" in found
    assert "y (km)" in found


def test_the_numbers_drawn_are_in_the_unit_that_is_named():
    figure = map_figure(a_map(4e5, 0.5), "langevin+mean")
    meshes = {ax.get_ylabel(): ax for ax in figure.axes}
    low, high = meshes["memory_time (d)"].get_ylim()
    assert low == pytest.approx(4e5 / 86400)
    assert high == pytest.approx(8e5 / 86400)
    x = figure.axes[0].get_xlim()
    assert x == pytest.approx((0.0, 200.0))


def test_a_wide_region_has_low_panels():
    wide, square = (map_figure(a_map(4e5, 0.5, n_x=n), "langevin+mean") for n in (12, 4))
    assert wide.get_figheight() < square.get_figheight()


def test_values_that_hardly_differ_are_drawn_alike():
    """Not from dark to bright over rounding."""
    same = a_map(4e5, 0.5)
    same["langevin_mean_k"].values[:] = 3e3 + 1e-6 * same["langevin_mean_k"].values
    figure = map_figure(same, "langevin+mean")
    low, high = next(ax for ax in figure.axes if ax.get_ylabel() == "k (m²/s)").get_ylim()
    assert high - low > 50


def test_longitudes_beyond_the_date_line_are_west():
    there = a_map(4e5, 0.5, side=1.0, first=178.0, standard_name="longitude")
    figure = map_figure(there, "langevin+mean")
    figure.canvas.draw()
    assert "−179" in [text.get_text() for text in figure.axes[0].get_xticklabels()]
