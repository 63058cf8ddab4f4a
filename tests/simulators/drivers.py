"""Programs that run real simulators with exported text; they go to the interpreter that has one."""

# Each reads the exported text from its first argument and writes to its second.
PARCELS_4 = """
import importlib.util
import sys
import numpy as np
import xarray as xr
from parcels import FieldSet, ParticleFile, ParticleSet
from parcels._core.mesh import FlatMesh
from parcels._core.model import create_empty_constant_field_model
from parcels.kernels import DiffusionUniformKh

np.random.seed(1)
text, output = sys.argv[1], sys.argv[2]
fieldset = FieldSet([create_empty_constant_field_model(FlatMesh())])
fieldset.add_constant_field("still", 0.0)
# Parcels reads the source of a kernel from its file.
spec = importlib.util.spec_from_file_location("exported", text)
exported = importlib.util.module_from_spec(spec)
exported.fieldset = fieldset
spec.loader.exec_module(exported)
n = 400
place = dict(x=np.zeros(n), y=np.zeros(n), z=np.zeros(n), t=np.full(n, np.timedelta64(0, "s")))
if hasattr(exported, "LangevinVelocity"):
    fieldset.add_context("langevin_deg2m", 1.0)
    particles = ParticleSet(
        fieldset, pclass=exported.LangevinParticle, **place, **exported.start_velocities(n, seed=2)
    )
    kernels = [exported.LangevinVelocity]
else:
    particles = ParticleSet(fieldset, **place)
    kernels = [DiffusionUniformKh]
file = ParticleFile(output, outputdt=np.timedelta64(1800, "s"))
particles.execute(
    kernels, dt=np.timedelta64(600, "s"), runtime=np.timedelta64(2, "D"), output_file=file,
    verbose_progress=False,
)
"""

PARCELS_3 = """
import importlib.util
import sys
from datetime import timedelta
import numpy as np
import parcels

text, output = sys.argv[1], sys.argv[2]
parcels.ParcelsRandom.seed(1)
fieldset = parcels.FieldSet.from_data(
    {"U": np.zeros((2, 2)), "V": np.zeros((2, 2))},
    {"lon": np.array([-1e9, 1e9]), "lat": np.array([-1e9, 1e9])},
    mesh="flat",
)
spec = importlib.util.spec_from_file_location("exported", text)
exported = importlib.util.module_from_spec(spec)
exported.fieldset = fieldset
spec.loader.exec_module(exported)
if hasattr(exported, "LangevinVelocity"):
    exported.prepare(fieldset, spherical=False)
    pclass, kernel = exported.LangevinParticle, exported.LangevinVelocity
    more = exported.start_velocities(400, seed=2)
else:
    pclass, kernel, more = parcels.JITParticle, parcels.DiffusionUniformKh, {}
particles = parcels.ParticleSet(
    fieldset, pclass=pclass, lon=np.zeros(400), lat=np.zeros(400), lonlatdepth_dtype=np.float64,
    **more
)
file = particles.ParticleFile(output, outputdt=timedelta(minutes=30))
particles.execute(kernel, dt=timedelta(minutes=10), runtime=timedelta(days=2), output_file=file)
"""

OPENDRIFT = """
import sys
from datetime import datetime, timedelta
import numpy as np
from opendrift.models.oceandrift import OceanDrift

text, output = sys.argv[1], sys.argv[2]
np.random.seed(1)
o = OceanDrift(loglevel=50)
o.set_config("environment:constant:x_sea_water_velocity", 0)
o.set_config("environment:constant:y_sea_water_velocity", 0)
o.set_config("environment:constant:x_wind", 0)
o.set_config("environment:constant:y_wind", 0)
o.set_config("environment:constant:land_binary_mask", 0)
o.set_config("drift:vertical_mixing", False)
exec(compile(open(text).read(), text, "exec"), {"o": o})
o.seed_elements(lon=3.0, lat=60.0, radius=0, number=400, time=datetime(2020, 1, 1))
o.run(duration=timedelta(days=2), time_step=600, time_step_output=1800, outfile=output)
"""
