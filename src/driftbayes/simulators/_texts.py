r"""Text for simulators: code for Parcels and OpenDrift, and JSON.

The kernel for Parcels draws the velocity and the displacement at the end of a step from their exact
joint distribution given the velocity at its start, so that the step may have any length:

$$U' = U e^{-x} + \sigma\sqrt{1 - e^{-2x}}\,\xi, \qquad x = \gamma\,\Delta t, \quad
  \sigma^2 = \gamma k,$$
$$\mathrm{E}[\Delta X] = U \frac{1 - e^{-x}}{\gamma}, \qquad
  \mathrm{Cov}(\Delta X, U') = \frac{\sigma^2}{\gamma} (1 - e^{-x})^2, \qquad
  \mathrm{Var}(\Delta X) = \frac{\sigma^2}{\gamma^2} (2x - 3 + 4 e^{-x} - e^{-2x}).$$
"""

import json
import math
from dataclasses import asdict
from typing import Any

from driftbayes.data._units import readable_time
from driftbayes.errors import DriftbayesError
from driftbayes.simulators._recommend import CONVENTION, Recommendation

_BROWNIAN = """
# Add these lines to your fieldset, and the kernel DiffusionUniformKh of Parcels to your kernels.
fieldset.add_constant_field("Kh_zonal", {zonal:.6g}{mesh})  # m2/s
fieldset.add_constant_field("Kh_meridional", {meridional:.6g}{mesh})
"""

_LANGEVIN = '''
import numpy as np
from parcels import Particle, Variable

GAMMA = {gamma:.6g}  # 1/s, inverse decorrelation time of the velocity
K_ZONAL, K_MERIDIONAL = {zonal:.6g}, {meridional:.6g}  # m2/s, long-time diffusivities
SIGMA_U, SIGMA_V = np.sqrt(GAMMA * K_ZONAL), np.sqrt(GAMMA * K_MERIDIONAL)  # m/s, rms velocity

LangevinParticle = Particle.add_variable(
    [Variable("u_eddy", initial=0.0), Variable("v_eddy", initial=0.0)]
)


def start_velocities(n_particles, seed=None):
    """Draw velocities for ParticleSet(..., pclass=LangevinParticle, **start_velocities(n))."""
    rng = np.random.default_rng(seed)
    sizes = (("u_eddy", SIGMA_U), ("v_eddy", SIGMA_V))
    return {{name: rng.normal(0.0, size, n_particles) for name, size in sizes}}


def LangevinVelocity(particles, fieldset):
    """Add this kernel after your advection kernel, and a context to your fieldset:

    fieldset.add_context("langevin_deg2m", 1.0)  # flat mesh: positions are metres
    fieldset.add_context("langevin_deg2m", 1852 * 60)  # spherical mesh: degrees
    """
    x = GAMMA * np.fabs(particles.dt)
    decay = np.exp(-x)
    # For velocities of unit variance.
    spread = np.sqrt(-np.expm1(-2 * x))
    # A particle that is not yet released has steps of zero length.
    together = (1 - decay) ** 2 / GAMMA / np.where(spread > 0, spread, 1.0)
    total = (2 * x - 3 + 4 * decay - decay**2) / GAMMA**2
    alone = np.sqrt(np.maximum(total - together**2, 0.0))
    degree = fieldset.langevin_deg2m
    # On a sphere, a metre along a parallel is more degrees nearer to a pole.
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

GAMMA = {gamma:.6g}  # 1/s, inverse decorrelation time of the velocity
K_ZONAL, K_MERIDIONAL = {zonal:.6g}, {meridional:.6g}  # m2/s, long-time diffusivities
SIGMA_U, SIGMA_V = math.sqrt(GAMMA * K_ZONAL), math.sqrt(GAMMA * K_MERIDIONAL)  # m/s

LangevinParticle = parcels.JITParticle.add_variables(
    [Variable("u_eddy", dtype=np.float32), Variable("v_eddy", dtype=np.float32)]
)


def start_velocities(n_particles, seed=None):
    """Draw velocities for ParticleSet(..., pclass=LangevinParticle, **start_velocities(n))."""
    rng = np.random.default_rng(seed)
    sizes = (("u_eddy", SIGMA_U), ("v_eddy", SIGMA_V))
    return {{name: rng.normal(0.0, size, n_particles) for name, size in sizes}}


def prepare(fieldset, spherical):
    """Set the constants of the kernel; call it once."""
    fieldset.add_constant("langevin_gamma", GAMMA)
    fieldset.add_constant("langevin_sigma_u", SIGMA_U)
    fieldset.add_constant("langevin_sigma_v", SIGMA_V)
    fieldset.add_constant("langevin_deg2m", 1852 * 60.0 if spherical else 1.0)
    fieldset.add_constant("langevin_curved", 1.0 if spherical else 0.0)


def LangevinVelocity(particle, fieldset, time):
    """Add this kernel after your advection kernel."""
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
    """Return code for Parcels 4: fields for a diffusivity, or a kernel with memory."""
    return _text(recommendation, _LANGEVIN, "")


def parcels3_text(recommendation: Recommendation) -> str:
    """Return code for Parcels 3: fields for a diffusivity, or a kernel with memory."""
    return _text(recommendation, _LANGEVIN_3, ', mesh="flat"')


def _text(recommendation: Recommendation, langevin: str, mesh: str) -> str:
    text = _header(recommendation)
    dispersion = recommendation.dispersion
    text += "".join(f"# note: {note}\n" for note in dispersion.notes)
    numbers = {"zonal": dispersion.zonal.value, "meridional": dispersion.meridional.value}
    if recommendation.is_langevin:
        return text + langevin.format(gamma=recommendation.parameters["gamma"].value, **numbers)
    if recommendation.has_memory:
        text += (
            f"# note: only the long-time diffusivity of {recommendation.model} is exported, not "
            "its memory\n"
        )
    if mesh:
        text += '# note: on a spherical mesh write mesh="spherical" below\n'
    return text + _BROWNIAN.format(mesh=mesh, **numbers)


def opendrift_text(recommendation: Recommendation) -> str:
    """Return code that configures a simulation `o`.

    OpenDrift has no velocity memory. For a Langevin model the long-time diffusivity is exported,
    which overestimates the spread before a few decorrelation times. OpenDrift uses one diffusivity
    for both axes.
    """
    dispersion = recommendation.dispersion
    if not dispersion.is_isotropic:
        raise DriftbayesError(
            "OpenDrift uses one diffusivity for both axes, but those of "
            f"{recommendation.model} differ: {dispersion.zonal.value:.4g} and "
            f"{dispersion.meridional.value:.4g} m²/s; use --for parcels, or a model without "
            "+anisotropic"
        )
    text = _header(recommendation)
    if recommendation.is_langevin:
        gamma = recommendation.parameters["gamma"].value
        text += (
            "# note: OpenDrift has no velocity memory; particles spread too fast before about "
            f"{5 / gamma:.3g} s\n"
        )
    elif recommendation.has_memory:
        text += "# note: OpenDrift has no velocity memory; only the long-time diffusivity is used\n"
    return text + (
        f'o.set_config("environment:constant:horizontal_diffusivity", {dispersion.zonal.value:.6g})'
        "  # m2/s, per axis\n"
    )


def json_text(recommendation: Recommendation) -> str:
    """Return a recommendation as JSON."""
    content = asdict(recommendation)
    for name in ("tau", "tau_min", "tau_max"):
        value = content.pop(name)
        content[f"{name}_s"] = None if math.isnan(value) else value
    content["notes"] = [*recommendation.notes, *recommendation.option_notes]
    content["diffusivity"] = _diffusivity(recommendation)
    content["convention"] = CONVENTION
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _diffusivity(recommendation: Recommendation) -> dict[str, Any] | None:
    """Return the elements of the tensor, one if isotropic; None if there is no diffusivity."""
    try:
        dispersion = recommendation.dispersion
    except DriftbayesError:
        return None
    if dispersion.is_isotropic:
        return {"K": asdict(dispersion.zonal)}
    elements = {f"K_{i + 1}{i + 1}": asdict(e) for i, e in enumerate(dispersion.axes)}
    return {**elements, "K_12": {"value": dispersion.cross, "unit": dispersion.zonal.unit}}


def _header(recommendation: Recommendation) -> str:
    """Return the parameters and their origin as lines of comment."""
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
        lines.append(f"valid only at the sampling time {here}")
    else:
        lines.append(f"valid at sampling times from {low} to {high}; estimated at {here}")
    lines.append(f"probability of the model there, among those compared: {about.probability:.4g}")
    lines += [f"note: {note}" for note in (*about.notes, *about.option_notes)]
    source, fingerprint = origin.get("source"), origin.get("data_fingerprint", "unknown")
    lines.append(f"data: {source or 'unknown'}, fingerprint {fingerprint}")
    return "".join(f"# {line}\n" for line in lines)
