"""Particles in Parcels and OpenDrift move with the flow that was exported to them."""

from dataclasses import replace

import numpy as np
import pytest
from grid_cases import SIDE, a_map, moved, uniform, uniformity, waves

from driftbayes.data.sphere import metres_per_degree
from driftbayes.simulators import export_grid, gridded

DEGREES = [(10.0, 11.5), (50.0, 51.0)]
SIMULATORS = [("parcels", False), ("parcels", True), ("opendrift", True)]
N = 16


def lengths(simulator, found, y):
    """Metres per unit of x and y, as the simulator counts them."""
    if not found.is_lonlat:
        return 1.0, 1.0
    if simulator == "parcels":
        mile = 1852 * 60.0
        return mile * np.cos(np.radians(y)), mile
    east, north = metres_per_degree(np.asarray(y))
    return float(east), float(north)


@pytest.mark.slow
@pytest.mark.parametrize(("simulator", "is_lonlat"), SIMULATORS)
def test_particles_move_with_the_flow_of_the_map(simulator, is_lonlat, tmp_path):
    """A jet to the east in the southern half, and a slower flow to the west in the northern one."""
    kappa, seconds, n = 5.0, 1e5, 2000
    flow = np.zeros((2, N, N))
    flow[0, : N // 2], flow[0, N // 2 :] = 0.3, -0.1
    flow[1, : N // 2] = -0.05
    made = a_map(kappa=np.full((N, N), kappa), flow=flow, degrees=DEGREES if is_lonlat else None)
    found = gridded(made)
    places = [
        [e[0] + part * (e[-1] - e[0]) for e, part in zip(found.edges, parts, strict=True)]
        for parts in ((0.2, 0.25), (0.8, 0.75))
    ]
    start = np.repeat(np.array(places).T, n, axis=1)
    x, y = moved(simulator, found, seconds, tmp_path, start=start)
    # The driver takes whole steps.
    step = export_grid(found, simulator).dataset.attrs["time_step_s"]
    seconds = step * np.ceil(seconds / step)
    for number, (u, v) in enumerate([(0.3, -0.05), (-0.1, 0.0)]):
        own = slice(number * n, (number + 1) * n)
        middle = 0.5 * (np.mean(y[own]) + places[number][1])
        per = lengths(simulator, found, middle)
        error = np.sqrt(2 * kappa * seconds / n)
        for values, first, scale, speed in zip((x, y), places[number], per, (u, v), strict=True):
            went = (values[own] - first) * scale
            assert abs(went.mean() - speed * seconds) < 4 * error + 1e-3 * abs(speed) * seconds
            assert 0.85 < went.std() / np.sqrt(2 * kappa * seconds) < 1.15


def field_with(flow, *, is_lonlat):
    """A diffusivity that varies by 80 %, and a flow besides its well-mixed drift."""
    kappa = 1000 * (1 + 0.8 * waves(N))
    found = gridded(a_map(kappa=kappa, degrees=DEGREES if is_lonlat else None), with_flow=False)
    return replace(found, flow=flow, cell_side=None)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["divergence-free", "convergent"])
@pytest.mark.parametrize(("simulator", "is_lonlat"), SIMULATORS)
def test_a_uniform_density_stays_so_only_without_divergence(simulator, is_lonlat, kind, tmp_path):
    """Four gyres, ψ = sin² sin², fill the region; a convergent flow is the control."""
    place = (np.arange(N) + 0.5) / N
    x, y = np.meshgrid(place, place)
    speed = 0.15
    u = -speed * np.sin(np.pi * x) ** 2 * np.sin(2 * np.pi * y)
    v = speed * np.sin(2 * np.pi * x) * np.sin(np.pi * y) ** 2
    if kind == "convergent":
        u, v = speed * np.sin(2 * np.pi * x), 0 * y
    if is_lonlat:
        # On the earth ψ gives u = -∂ψ/∂y, v = ∂ψ/∂x with lengths that differ along x and y.
        (west, east), (south, north) = DEGREES
        per_x, per_y = metres_per_degree(south + y * (north - south))
        u, v = u / (per_y * (north - south) / SIDE), v / (per_x * (east - west) / SIDE)
    found = field_with(np.stack([u, v]), is_lonlat=is_lonlat)
    start = uniform(found.edges, 20_000, on_earth=is_lonlat)
    x, y = moved(simulator, found, 3e5, tmp_path, start=start)
    p = uniformity(x, y, found.edges, on_earth=is_lonlat)
    assert p > 1e-3 if kind == "divergence-free" else p < 1e-30
