"""Cost of estimated likelihoods and of an evidence of a stochastic differential equation.

    python benchmarks/sde.py cost            # per likelihood: particles, steps, inner particles
    python benchmarks/sde.py evidence        # of 100 particles and 25 steps
    python benchmarks/sde.py gpu             # both, on the default device of JAX
    python benchmarks/sde.py ranks random_flight 160 --workers 16 --seed 0   # calibration

The equation is Thomson's well-mixed random flight with σ(x) = s (1 + sin(x/4)/2), T = 1, τ = 1/2.
"""

import sys
import time
from typing import Any

import jax
import jax.monitoring
import jax.numpy as jnp
import numpy as np

from driftbayes import SDE, Displacements, Exponential, Hypothesis, evidence
from driftbayes.sde import Filter, ParticleDensity
from driftbayes.sde._simulate import simulate_paths
from sde_ranks import ranks

TAU = 0.5


def sigma(x: jax.Array, theta: Any) -> jax.Array:
    """Return the standard deviation of the velocity."""
    return theta.s * (1 + 0.5 * jnp.sin(x / 4))


def drift(x: jax.Array, u: jax.Array, t: jax.Array, theta: Any) -> jax.Array:
    """Return Thomson's drift of one axis, with a σ that depends on the position along it."""
    slope = theta.s * 0.125 * jnp.cos(x / 4)
    here = sigma(x, theta)
    return -u / theta.T + here * slope * (1 + (u / here) ** 2)


FLIGHT = SDE(
    drift,
    lambda x, u, t, theta: sigma(x, theta) * jnp.sqrt(2 / theta.T),
    {"s": Exponential(1.0), "T": Exponential(1.0)},
    name="flight",
    initial_velocity=lambda x, t, theta: sigma(x, theta),
)


def flight_data(n_particles: int, n_steps: int) -> Displacements:
    """Simulate displacements in a plane, from positions spread over one period of σ."""
    places = np.random.default_rng(0).uniform(0, 8 * np.pi, (n_particles, 2))
    start = jnp.asarray(places)
    law, theta = FLIGHT.law, FLIGHT(s=1.0, T=1.0).theta()
    x, _ = simulate_paths(law, theta, jax.random.key(0), start, n_steps=n_steps, tau=TAU)
    positions = np.asarray(x)
    return Displacements.from_array(np.diff(positions, axis=1), TAU, start=positions[:, 0])


def cost() -> None:
    """Print the time of one likelihood, and the variance of its logarithm."""
    print("particles steps inner substeps   s per ln L   Var ln L")
    cases = [(25, 25, 8, 4), (100, 25, 8, 4), (100, 100, 8, 4), (100, 25, 32, 4), (100, 25, 8, 8)]
    for n_particles, n_steps, inner, substeps in cases:
        density = ParticleDensity(flight_data(n_particles, n_steps), Filter(inner), substeps)
        values = {"s": np.ones(16), "T": np.ones(16)}
        density.by_run(FLIGHT.template(), values)
        began = time.perf_counter()
        found = density.by_run(FLIGHT.template(), values)
        each = (time.perf_counter() - began) / 16
        variance = found.var(axis=0, ddof=1).sum()
        print(
            f"{n_particles:9d} {n_steps:5d} {inner:5d} {substeps:8d} {each:12.4f} {variance:10.3f}"
        )


def whole_evidence() -> None:
    """Print the time of an evidence, and the time spent compiling."""
    data = flight_data(100, 25)
    compiled: list[float] = []

    def listen(event: str, duration_secs: float, **_: Any) -> None:
        if event.endswith("backend_compile_duration"):
            compiled.append(duration_secs)

    jax.monitoring.register_event_duration_secs_listener(listen)
    began, cpu = time.perf_counter(), time.process_time()
    found = evidence(Hypothesis(FLIGHT), data)
    wall, cpu = time.perf_counter() - began, time.process_time() - cpu
    print(f"ln Z = {found.log_evidence:.2f} ± {found.log_evidence_err:.2f}, {found.status.value}")
    print(f"{wall:.0f} s, {cpu:.0f} s of processor time, {found.n_evaluations} likelihoods")
    print(f"{sum(compiled):.0f} s of it compiled {len(compiled)} programs")
    print({name: round(value, 3) for name, value in found.diagnostics.items()})
    print(found.parameters, found.warnings)


def main() -> None:
    """Run one of the benchmarks."""
    jax.config.update("jax_enable_x64", True)
    which = sys.argv[1] if len(sys.argv) > 1 else "cost"
    if which == "ranks":
        ranks(sys.argv[2:])
    if which == "gpu":
        print(jax.devices()[0])
    if which in ("cost", "gpu"):
        cost()
    if which in ("evidence", "gpu"):
        whole_evidence()


if __name__ == "__main__":
    main()
