"""Python code that uses exported grids."""

SPHERE = '''
def DriftOnSphere(particles, fieldset):
    """Add the drift to the equator that keeps a density uniform per area of a sphere."""
    per_degree = fieldset.Kh_meridional.grid.deg2m
    diffusivity = fieldset.Kh_meridional[particles] / per_degree**2
    slope = np.radians(np.tan(np.radians(particles.y)))
    particles.dy -= diffusivity * slope * particles.dt

'''

PARCELS = '''
import numpy as np
import xarray as xr
from parcels import FieldSet
from parcels.kernels import AdvectionDiffusionM1

TIME_STEP = {time_step}  # s, maximum for dt


def make_fieldset(names=("U", "V", "Kh_zonal", "Kh_meridional")):
    """Read the grid.

    With your own currents: own + make_fieldset(["Kh_zonal", "Kh_meridional"]).
    """
    grid = xr.open_dataset(GRID_FILE)[[*names, "grid"]]
    made = FieldSet.from_sgrid_conventions(grid, mesh="{mesh}")
    made.add_context("dres", {dres:.6g})
    walls = dict(west={west!r}, east={east!r}, south={south!r}, north={north!r})
    for name, place in walls.items():
        made.add_context("map_" + name, place)
    return made

{sphere}
def ReflectAtEdges(particles, fieldset):
    """Reflect particles at the edges of the map, outside of which there is no diffusivity."""
    x, y = particles.x + particles.dx, particles.y + particles.dy
    particles.dx += 2 * np.maximum(fieldset.map_west - x, 0)
    particles.dx += 2 * np.minimum(fieldset.map_east - x, 0)
    particles.dy += 2 * np.maximum(fieldset.map_south - y, 0)
    particles.dy += 2 * np.minimum(fieldset.map_north - y, 0)


# A random walk needs the drift along the gradient of the diffusivity. AdvectionDiffusionM1 and
# AdvectionDiffusionEM include it; DiffusionUniformKh does not.
KERNELS = [AdvectionDiffusionM1, {sphere_name}ReflectAtEdges]
'''

SPHERE_3 = '''
def DriftOnSphere(particle, fieldset, time):
    """Add the drift to the equator that keeps a density uniform per area of a sphere."""
    diffusivity = fieldset.Kh_meridional[time, particle.depth, particle.lat, particle.lon]
    slope = math.tan(particle.lat * math.pi / 180) * math.pi / 180
    particle_dlat -= diffusivity * slope * particle.dt  # noqa: F821

'''

PARCELS_3 = '''
import math

import parcels
import xarray as xr

TIME_STEP = {time_step}  # s, maximum for dt


def make_fieldset(names=("U", "V", "Kh_zonal", "Kh_meridional")):
    """Read the grid.

    With your own currents, add the fields Kh_zonal and Kh_meridional and the constants to them.
    """
    grid = xr.open_dataset(GRID_FILE).isel(time=0, depth=0, drop=True)
    dims = dict(lon="lon", lat="lat")
    variables = dict((name, name) for name in names)
    made = parcels.FieldSet.from_xarray_dataset(grid, variables, dims, mesh="{mesh}")
    made.add_constant("dres", {dres:.6g})
    walls = dict(west={west!r}, east={east!r}, south={south!r}, north={north!r})
    for name, place in walls.items():
        made.add_constant("map_" + name, place)
    return made

{sphere}
def ReflectAtEdges(particle, fieldset, time):
    """Reflect particles at the edges of the map, outside of which there is no diffusivity."""
    x = particle.lon + particle_dlon  # noqa: F821
    y = particle.lat + particle_dlat  # noqa: F821
    if x < fieldset.map_west:
        particle_dlon += 2 * (fieldset.map_west - x)  # noqa: F821
    if x > fieldset.map_east:
        particle_dlon += 2 * (fieldset.map_east - x)  # noqa: F821
    if y < fieldset.map_south:
        particle_dlat += 2 * (fieldset.map_south - y)  # noqa: F821
    if y > fieldset.map_north:
        particle_dlat += 2 * (fieldset.map_north - y)  # noqa: F821


# A random walk needs the drift along the gradient of the diffusivity. AdvectionDiffusionM1 and
# AdvectionDiffusionEM include it; DiffusionUniformKh does not.
KERNELS = [parcels.AdvectionDiffusionM1, {sphere_name}ReflectAtEdges]
'''

OPENDRIFT = """
# For a simulation `o`. OpenDrift adds no drift along the gradient of a diffusivity; the currents
# in the file include it. With your own currents, add both: o.add_reader([own + grid, grid]).
# Run with advection scheme euler and a time step of at most {time_step} s.
from opendrift.readers import reader_netCDF_CF_generic

grid = reader_netCDF_CF_generic.Reader(GRID_FILE)
o.add_reader(grid)
"""
