"""Programs that move particles by exported grids in real simulators.

Arguments: the exported lines, positions (2, particle) as .npy, where to write them, seconds, and
whether to leave the well-mixed drift out ("naive").
"""

PARCELS_4 = """
import importlib.util, sys
import numpy as np
from parcels import ParticleSet
from parcels.kernels import DiffusionUniformKh

spec = importlib.util.spec_from_file_location("exported", sys.argv[1])
exported = importlib.util.module_from_spec(spec)
spec.loader.exec_module(exported)
np.random.seed(1)
x, y = np.load(sys.argv[2])
start = np.full(len(x), np.timedelta64(0, "s"))
particles = ParticleSet(exported.make_fieldset(), x=x, y=y, z=np.zeros(len(x)), t=start)
kernels = list(exported.KERNELS)
if sys.argv[5] == "naive":
    kernels = [DiffusionUniformKh, kernels[-1]]
n = int(np.ceil(float(sys.argv[4]) / exported.TIME_STEP))
step = np.timedelta64(int(exported.TIME_STEP), "s")
particles.execute(kernels, dt=step, runtime=n * step, verbose_progress=False)
np.save(sys.argv[3], np.array([particles.x, particles.y]))
"""

PARCELS_3 = """
import importlib.util, sys
import numpy as np
import parcels

spec = importlib.util.spec_from_file_location("exported", sys.argv[1])
exported = importlib.util.module_from_spec(spec)
spec.loader.exec_module(exported)
parcels.ParcelsRandom.seed(1)
x, y = np.load(sys.argv[2])
particles = parcels.ParticleSet(
    exported.make_fieldset(), pclass=parcels.JITParticle, lon=x, lat=y, lonlatdepth_dtype=np.float64
)
kernels = list(exported.KERNELS)
if sys.argv[5] == "naive":
    kernels = [parcels.DiffusionUniformKh, kernels[-1]]
n = int(np.ceil(float(sys.argv[4]) / exported.TIME_STEP))
step = exported.TIME_STEP
particles.execute(kernels, dt=step, runtime=n * step, verbose_progress=False)
np.save(sys.argv[3], np.array([particles.lon, particles.lat]))
"""

OPENDRIFT = """
import re, sys
from datetime import datetime
import numpy as np
import xarray as xr
from opendrift.models.oceandrift import OceanDrift

text = open(sys.argv[1]).read()
x, y = np.load(sys.argv[2])
with xr.open_dataset("K.nc") as grid:
    step, has_data = grid.attrs["time_step_s"], grid["has_data"]
    # The nodes reach one cell, of four intervals, beyond the walls.
    (west, east), (south, north) = (grid[a].values[[4, -5]] for a in ("lon", "lat"))


def reflected(lon, lat):
    lon = lon + 2 * np.maximum(west - lon, 0) + 2 * np.minimum(east - lon, 0)
    return lon, lat + 2 * np.maximum(south - lat, 0) + 2 * np.minimum(north - lat, 0)


class Walled(OceanDrift):
    # OpenDrift takes the random step after update(); beyond the walls the grid is mirrored.
    def update(self):
        self.elements.lon[:], self.elements.lat[:] = reflected(self.elements.lon, self.elements.lat)
        super().update()


np.random.seed(1)
o = Walled(loglevel=50)
constants = {"x_wind": 0, "y_wind": 0, "land_binary_mask": 0}
if sys.argv[5] == "naive":
    constants |= {"x_sea_water_velocity": 0, "y_sea_water_velocity": 0}
for name, value in constants.items():
    o.set_config("environment:constant:" + name, value)
o.set_config("drift:vertical_mixing", False)
exec(compile(text, sys.argv[1], "exec"), {"o": o})
o.seed_elements(lon=x, lat=y, time=datetime(2020, 1, 1))
n = int(np.ceil(float(sys.argv[4]) / step))
o.run(steps=n, time_step=int(step), time_step_output=int(step) * n)
assert len(o.elements.lon) == len(x)
lon, lat = reflected(np.asarray(o.elements.lon, float), np.asarray(o.elements.lat, float))
np.save(sys.argv[3], np.array([lon, lat]))
"""
