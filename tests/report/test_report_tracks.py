"""The drawing of trajectories: to scale, over the coast."""

import re

import numpy as np
import pytest
from numpy.testing import assert_allclose

from driftbayes import Trajectories
from driftbayes.data.sphere import on_plane
from driftbayes.plots._coast import coast_points
from driftbayes.report._tracks import trajectories_svg


def drawing(lon, lat):
    lonlat = np.stack([np.linspace(*lon, 5), np.linspace(*lat, 5)], axis=-1)[None]
    return trajectories_svg(on_plane(Trajectories.from_arrays(lonlat, dt=1.0)))


def coast_of(svg):
    path = re.search(r'class="coast" d="([^"]*)"', svg)
    return "" if path is None else path[1]


def places(path):
    return np.array(
        [list(map(float, pair.split())) for pair in re.findall(r"[-\d.]+ [-\d.]+", path)]
    )


def test_the_coast_is_drawn_where_it_is():
    # Gibraltar: Africa and Europe, 14 km apart at 5.6° W.
    points, _ = coast_points()
    near = points[np.hypot(points[:, 0] + 5.6, points[:, 1] - 36.0) < 0.3]
    assert near[:, 1].min() < 35.95 < near[:, 1].max()
    assert coast_of(drawing((-7.0, -4.0), (35.5, 36.5)))
    assert coast_of(drawing((-31.0, -29.0), (-1.0, 1.0))) == ""


def test_the_coast_is_cut_at_the_frame_and_shared_by_both_sides_of_the_date_line():
    here = coast_of(drawing((178.0, 179.9), (-18.5, -16.5)))
    across = coast_of(drawing((178.0, 182.0), (-18.5, -16.5)))
    assert here
    assert len(across) > len(here) / 2
    for path in (here, across):
        found = places(path)
        # A segment may leave the frame, by no more than half of it.
        assert found[:, 0].min() > -200
        assert found[:, 0].max() < 660


def test_the_scale_bar_is_as_long_as_it_says():
    svg = drawing((10.0, 12.0), (54.3, 54.9))
    (bar,) = re.findall(r'class="bar" d="M\d+ \d+v4h([\d.]+)v-4"/>', svg)
    (text,) = re.findall(r">(\d+) km</text>", svg)
    ticks = [
        (float(x), float(value))
        for x, value in re.findall(
            r'x="([\d.]+)" y="334" text-anchor="middle">([\d.]+)</text>', svg
        )
    ]
    (x0, lon0), (x1, lon1) = ticks[0], ticks[-1]
    km_per_pixel = (lon1 - lon0) * 111.195 * np.cos(np.radians(54.6)) / (x1 - x0)
    assert_allclose(float(bar) * km_per_pixel, float(text), rtol=0.01)


@pytest.mark.parametrize("n_dim", [1, 2])
def test_a_plane_has_neither(n_dim):
    x = np.arange(12.0).reshape(1, 12, 1).repeat(n_dim, axis=2)
    svg = trajectories_svg(Trajectories.from_arrays(x, dt=1.0))
    assert "coast" not in svg
    assert 'class="bar"' not in svg


def test_axes_have_the_units_of_the_text():
    x = np.linspace(0, 40_000, 50)[None, :, None] * [1.0, 0.5]
    svg = trajectories_svg(Trajectories.from_arrays(x, dt=3600.0, length_unit="m", time_unit="s"))
    assert "x (km) from 0 to 40, y (km) from 0 to 20" in svg
    assert ">20<" in svg
    assert "20000" not in svg
    line = Trajectories.from_arrays(x[:, :, :1], dt=3600.0, length_unit="m", time_unit="s")
    assert "time (h) from 0 to 49, x (km) from 0 to 40" in trajectories_svg(line)
