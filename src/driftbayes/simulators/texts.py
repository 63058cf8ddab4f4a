r"""Text for simulators: comments, lines for Parcels and OpenDrift, JSON for any program.

The kernel for Parcels draws the velocity and the displacement at the end of a step from their exact
joint distribution given the velocity at its beginning, so that the step may be of any length:

$$U' = U e^{-x} + \sigma\sqrt{1 - e^{-2x}}\,\xi, \qquad x = \gamma\,\Delta t, \quad
  \sigma^2 = \gamma k,$$
$$\mathrm{E}[\Delta X] = U \frac{1 - e^{-x}}{\gamma}, \qquad
  \mathrm{Cov}(\Delta X, U') = \frac{\sigma^2}{\gamma} (1 - e^{-x})^2, \qquad
  \mathrm{Var}(\Delta X) = \frac{\sigma^2}{\gamma^2} (2x - 3 + 4 e^{-x} - e^{-2x}).$$
"""

__all__ = ["json_text", "opendrift_text", "parcels3_text", "parcels_text"]

import json
import math
from dataclasses import asdict
from typing import Any

from driftbayes.data.units import readable_time
from driftbayes.errors import DriftbayesError
from driftbayes.simulators.long_time import parts_of
from driftbayes.simulators.recommend import CONVENTION, Recommendation

_BROWNIAN = """
# Add it to your fieldset, and the kernel DiffusionUniformKh of Parcels to your kernels.
fieldset.add_constant_field("Kh_zonal", {zonal:.6g}{mesh})  # m2/s
fieldset.add_constant_field("Kh_meridional", {meridional:.6g}{mesh})
"""

_LANGEVIN = '''
import numpy as np
from parcels import Particle, Variable

GAMMA = {gamma:.6g}  # 1/s, one over the velocity time
K_ZONAL, K_MERIDIONAL = {zonal:.6g}, {meridional:.6g}  # m2/s, long-time diffusivities
SIGMA_U, SIGMA_V = np.sqrt(GAMMA * K_ZONAL), np.sqrt(GAMMA * K_MERIDIONAL)  # m/s, of the velocity

LangevinParticle = Particle.add_variable(
    [Variable("u_eddy", initial=0.0), Variable("v_eddy", initial=0.0)]
)


def start_velocities(n_particles, seed=None):
    """Velocities for ParticleSet(..., pclass=LangevinParticle, **start_velocities(n))."""
    rng = np.random.default_rng(seed)
    sizes = (("u_eddy", SIGMA_U), ("v_eddy", SIGMA_V))
    return {{name: rng.normal(0.0, size, n_particles) for name, size in sizes}}


def LangevinVelocity(particles, fieldset):
    """Add it after your advection kernel, and a context on your fieldset:

    fieldset.add_context("langevin_deg2m", 1.0)  # flat mesh: positions are metres
    fieldset.add_context("langevin_deg2m", 1852 * 60)  # spherical mesh: degrees
    """
    x = GAMMA * np.fabs(particles.dt)
    decay = np.exp(-x)
    # For velocities of unit size.
    spread = np.sqrt(-np.expm1(-2 * x))
    # A particle that is released later has steps of no length.
    together = (1 - decay) ** 2 / GAMMA / np.where(spread > 0, spread, 1.0)
    total = (2 * x - 3 + 4 * decay - decay**2) / GAMMA**2
    alone = np.sqrt(np.maximum(total - together**2, 0.0))
    degree = fieldset.langevin_deg2m
    # On a sphere, a metre along a parallel is more degrees the nearer the pole.
    parallel = np.where(degree > 1, np.cos(np.radians(particles.y)), 1.0)
    shape = np.shape(particles.dt)
    first_u, first_v = np.random.normal(0, 1, shape), np.random.normal(0, 1, shape)
    second_u, second_v = np.random.normal(0, 1, shape), np.random.normal(0, 1, shape)
    kick_u = SIGMA_U * (together * first_u + alone * second_u)
    kick_v = SIGMA_V * (together * first_v + alone * second_v)
    particles.dx += (particles.u_eddy * (1 - decay) / GAMMA + kick_u) / degree / parallel
    particles.dy += (particles.v_eddy * (1 - decay) / GAMMA + kick_v) / degree
    particles.u_eddy = particles.u_eddy * decay + SIGMA_U * spread * first_u
    particles.v_eddy = particles.v_eddy * decay + SIGMA_V * spread * first_v
'''

_LANGEVIN_3 = '''
import math

import numpy as np
import parcels
from parcels import ParcelsRandom, Variable

GAMMA = {gamma:.6g}  # 1/s, one over the velocity time
K_ZONAL, K_MERIDIONAL = {zonal:.6g}, {meridional:.6g}  # m2/s, long-time diffusivities
SIGMA_U, SIGMA_V = math.sqrt(GAMMA * K_ZONAL), math.sqrt(GAMMA * K_MERIDIONAL)  # m/s

LangevinParticle = parcels.JITParticle.add_variables(
    [Variable("u_eddy", dtype=np.float32), Variable("v_eddy", dtype=np.float32)]
)


def start_velocities(n_particles, seed=None):
    """Velocities for ParticleSet(..., pclass=LangevinParticle, **start_velocities(n))."""
    rng = np.random.default_rng(seed)
    sizes = (("u_eddy", SIGMA_U), ("v_eddy", SIGMA_V))
    return {{name: rng.normal(0.0, size, n_particles) for name, size in sizes}}


def prepare(fieldset, spherical):
    """Constants that the kernel needs; call it once."""
    fieldset.add_constant("langevin_gamma", GAMMA)
    fieldset.add_constant("langevin_sigma_u", SIGMA_U)
    fieldset.add_constant("langevin_sigma_v", SIGMA_V)
    fieldset.add_constant("langevin_deg2m", 1852 * 60.0 if spherical else 1.0)
    fieldset.add_constant("langevin_curved", 1.0 if spherical else 0.0)


def LangevinVelocity(particle, fieldset, time):
    """Add it after your advection kernel."""
    x = fieldset.langevin_gamma * math.fabs(particle.dt)
    decay = math.exp(-x)
    spread = math.sqrt(1 - decay * decay)
    together = 0.0
    if spread > 0:
        together = (1 - decay) * (1 - decay) / fieldset.langevin_gamma / spread
    total = (2 * x - 3 + 4 * decay - decay * decay) / fieldset.langevin_gamma**2
    alone = math.sqrt(math.fabs(total - together * together))
    parallel = 1.0
    if fieldset.langevin_curved > 0.5:
        parallel = math.cos(particle.lat * math.pi / 180)
    first_u = ParcelsRandom.normalvariate(0, 1)
    second_u = ParcelsRandom.normalvariate(0, 1)
    first_v = ParcelsRandom.normalvariate(0, 1)
    second_v = ParcelsRandom.normalvariate(0, 1)
    kick_u = fieldset.langevin_sigma_u * (together * first_u + alone * second_u)
    kick_v = fieldset.langevin_sigma_v * (together * first_v + alone * second_v)
    step_u = particle.u_eddy * (1 - decay) / fieldset.langevin_gamma + kick_u
    step_v = particle.v_eddy * (1 - decay) / fieldset.langevin_gamma + kick_v
    particle_dlon += step_u / fieldset.langevin_deg2m / parallel  # noqa: F821
    particle_dlat += step_v / fieldset.langevin_deg2m  # noqa: F821
    particle.u_eddy = particle.u_eddy * decay + fieldset.langevin_sigma_u * spread * first_u
    particle.v_eddy = particle.v_eddy * decay + fieldset.langevin_sigma_v * spread * first_v
'''


def parcels_text(recommendation: Recommendation) -> str:
    """Lines for Parcels 4: fields for a diffusivity, or a kernel with memory."""
    return _text(recommendation, _LANGEVIN, "")


def parcels3_text(recommendation: Recommendation) -> str:
    """Lines for Parcels 3, likewise."""
    return _text(recommendation, _LANGEVIN_3, ', mesh="flat"')


def _text(recommendation: Recommendation, langevin: str, mesh: str) -> str:
    text = _header(recommendation)
    found = recommendation.dispersion
    text += "".join(f"# note: {note}\n" for note in found.notes)
    numbers = {"zonal": found.zonal.value, "meridional": found.meridional.value}
    if recommendation.is_langevin:
        return text + langevin.format(gamma=recommendation.parameters["gamma"].value, **numbers)
    if parts_of(recommendation.model).base != "brownian":
        text += (
            f"# note: only the long-time diffusivity of {recommendation.model} is exported, and "
            "not its memory\n"
        )
    if mesh:
        text += '# note: on a spherical mesh write mesh="spherical" below\n'
    return text + _BROWNIAN.format(mesh=mesh, **numbers)


def opendrift_text(recommendation: Recommendation) -> str:
    """Lines that configure a simulation `o`.

    OpenDrift knows no memory of velocities: of a Langevin model it gets the long-time diffusivity,
    which overstates the spread over times shorter than a few velocity times. It takes one
    diffusivity for both axes.
    """
    found = recommendation.dispersion
    if not found.is_isotropic:
        raise DriftbayesError(
            "OpenDrift takes one diffusivity for both axes, and those of "
            f"{recommendation.model} differ: {found.zonal.value:.4g} and "
            f"{found.meridional.value:.4g} m²/s; use --for parcels, or a model without +anisotropic"
        )
    text = _header(recommendation)
    if recommendation.is_langevin:
        gamma = recommendation.parameters["gamma"].value
        text += (
            "# note: OpenDrift has no memory of velocities; a cloud spreads too fast before about "
            f"{5 / gamma:.3g} s\n"
        )
    elif parts_of(recommendation.model).base != "brownian":
        text += "# note: OpenDrift has no memory of velocities; only the long-time diffusivity\n"
    return text + (
        f'o.set_config("environment:constant:horizontal_diffusivity", {found.zonal.value:.6g})'
        "  # m2/s, per axis\n"
    )


def json_text(recommendation: Recommendation) -> str:
    """Return all of a recommendation as JSON."""
    content = asdict(recommendation)
    for name in ("tau", "tau_min", "tau_max"):
        value = content.pop(name)
        content[f"{name}_s"] = None if math.isnan(value) else value
    content["notes"] = [*recommendation.notes, *recommendation.option_notes]
    content["diffusivity"] = _diffusivity(recommendation)
    content["convention"] = CONVENTION
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _diffusivity(recommendation: Recommendation) -> dict[str, Any] | None:
    """Elements of the tensor, one for all axes if they are alike; None if there is none."""
    try:
        found = recommendation.dispersion
    except DriftbayesError:
        return None
    if found.is_isotropic:
        return {"K": asdict(found.zonal)}
    elements = {f"K_{i + 1}{i + 1}": asdict(e) for i, e in enumerate(found.axes)}
    return {**elements, "K_12": {"value": found.cross, "unit": found.zonal.unit}}


def _header(recommendation: Recommendation) -> str:
    """The numbers in words, as lines of comment."""
    about, origin = recommendation, recommendation.origin
    lines = [f"{about.model} motion, by driftbayes {origin.get('driftbayes_version', '')}".strip()]
    for name, e in about.parameters.items():
        text = f"{name} = {e.value:.6g} +- {e.sd:.2g} {e.unit}"
        if e.low < e.high:
            text += f", {e.low:.4g} to {e.high:.4g} over the range of validity"
        lines.append(text)
    lines.append(f"convention: {CONVENTION}")
    low, high, here = (readable_time(t, "s") for t in (about.tau_min, about.tau_max, about.tau))
    if math.isnan(about.tau_min):
        lines.append(f"taken at a sampling time of {here}, and at no other")
    else:
        lines.append(f"holds at sampling times from {low} to {high}; taken at {here}")
    lines.append(f"probability of the model there, among those compared: {about.probability:.4g}")
    lines += [f"note: {note}" for note in (*about.notes, *about.option_notes)]
    source, fingerprint = origin.get("source"), origin.get("data_fingerprint", "unknown")
    lines.append(f"data: {source or 'unknown'}, fingerprint {fingerprint}")
    return "".join(f"# {line}\n" for line in lines)
