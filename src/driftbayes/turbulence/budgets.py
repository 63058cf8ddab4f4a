r"""Energy and enstrophy: how much there is, where it comes from and where it goes.

A step is a chain of changes, linear terms, advection, filter, kick, and the change of energy in
each is a difference of energies: they sum to the change over the step, exactly.
"""

__all__ = [
    "Budget",
    "FlowStatistics",
    "energy_mean",
    "enstrophy_mean",
    "flow_statistics",
    "step_budget",
]

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from driftbayes.jax_typing import Scalar
from driftbayes.turbulence.flow import Flow
from driftbayes.turbulence.grid import Grid, Modes, Points
from driftbayes.turbulence.state import FlowState
from driftbayes.turbulence.steppers import ab3_increment


def energy_mean(grid: Grid, zeta: Modes) -> Scalar:
    r"""$\tfrac12\langle|\mathbf u|^2\rangle$, energy per unit area."""
    return 0.5 * grid.mean_square(zeta, grid.inverse_k2)


def enstrophy_mean(grid: Grid, zeta: Modes) -> Scalar:
    r"""$\tfrac12\langle\zeta^2\rangle$, enstrophy per unit area."""
    return 0.5 * grid.mean_square(zeta)


class FlowStatistics(eqx.Module):
    r"""Numbers that describe the flow at one instant.

    Args:
        energy_mean: $\tfrac12\langle|\mathbf u|^2\rangle$, per unit area.
        enstrophy_mean: $\tfrac12\langle\zeta^2\rangle$, per unit area.
        energy_total: Its integral over the domain, $4\pi^2$ times the mean.
        enstrophy_total: Likewise.
        u_rms: $\sqrt{\langle|\mathbf u|^2\rangle}$.
        u_max: Greatest speed.
        eddy_turnover_time: $\tau_\zeta = 2\pi/\sqrt Z$ with Z the domain-integrated enstrophy.
        cfl: $|u|_{\max}\,\mathrm{d}t/\Delta x$.
        kurtosis_u: Of the velocity components.
        kurtosis_zeta: Of the vorticity.
    """

    energy_mean: Scalar
    enstrophy_mean: Scalar
    energy_total: Scalar
    enstrophy_total: Scalar
    u_rms: Scalar
    u_max: Scalar
    eddy_turnover_time: Scalar
    cfl: Scalar
    kurtosis_u: Scalar
    kurtosis_zeta: Scalar


def flow_statistics(flow: Flow, zeta: Modes, q: Points) -> FlowStatistics:
    """Statistics of the flow with this vorticity and velocity."""
    grid = flow.grid
    u, v = jnp.real(q).astype(jnp.float64), -jnp.imag(q).astype(jnp.float64)
    energy, enstrophy = energy_mean(grid, zeta), enstrophy_mean(grid, zeta)
    vorticity = jnp.fft.irfft2(zeta.astype(flow.complex_dtype), s=(grid.n, grid.n))
    u_max = jnp.sqrt(jnp.max(u**2 + v**2))
    mean_square = 0.5 * jnp.mean(u**2 + v**2)
    # A flow at rest has no shape; its kurtosis is given as 0, and its turnover time is infinite.
    fourth = 0.5 * jnp.mean(u**4 + v**4) / jnp.where(mean_square > 0, mean_square**2, 1.0)
    fourth_zeta = jnp.mean(vorticity.astype(jnp.float64) ** 4)
    return FlowStatistics(
        energy_mean=energy,
        enstrophy_mean=enstrophy,
        energy_total=grid.area * energy,
        enstrophy_total=grid.area * enstrophy,
        u_rms=jnp.sqrt(2 * energy),
        u_max=u_max,
        eddy_turnover_time=2 * np.pi / jnp.sqrt(grid.area * enstrophy),
        cfl=u_max * flow.dt / grid.spacing,
        kurtosis_u=fourth,
        kurtosis_zeta=fourth_zeta / jnp.where(enstrophy > 0, (2 * enstrophy) ** 2, 1.0),
    )


class Budget(eqx.Module):
    """Change over one step of energy or enstrophy per unit area, by cause.

    Args:
        linear: Friction, viscosity and the other linear terms.
        advection: The nonlinear term: zero but for aliasing and the error of the time step.
        filter: Filter and truncation.
        injection: The kick.
        total: What it adds up to, the change found by looking at the two ends.
    """

    linear: Scalar
    advection: Scalar
    filter: Scalar
    injection: Scalar
    total: Scalar

    @property
    def residual(self) -> Scalar:
        """What the causes do not explain; rounding only."""
        return self.total - (self.linear + self.advection + self.filter + self.injection)


def step_budget(flow: Flow, state: FlowState, q: Points) -> tuple[Budget, Budget]:
    r"""Budgets of energy and enstrophy over the step of AB3 that begins at `state`.

    The work of the kick Δ is taken from its own formula, not as a difference:
    $$\sum_k \frac{w_k}{k^2 N^4}\,
      \big[\mathrm{Re}(\hat\zeta^*\Delta) + \tfrac12|\Delta|^2\big]$$
    """
    grid = flow.grid
    decayed = flow.decay * state.zeta
    advected = decayed + ab3_increment(flow, state, flow.tendency(q))
    filtered = flow.damping * advected
    kick = flow.kicks(state, 1)[0]
    end = flow.finish(advected, kick)

    def budget(factor: np.ndarray | float) -> Budget:
        def amount(zeta: Array) -> Scalar:
            return 0.5 * grid.mean_square(zeta, factor)

        injection = jnp.zeros(())
        if flow.forcing is not None:
            rows, columns = flow.forcing.rows, flow.forcing.columns
            weight = jnp.asarray(np.broadcast_to(grid.weights * factor, grid.shape))[rows, columns]
            before = filtered[rows, columns]
            work = jnp.real(jnp.conj(before) * kick) + 0.5 * jnp.abs(kick) ** 2
            injection = jnp.sum(weight * work) / grid.n**4
        return Budget(
            linear=amount(decayed) - amount(state.zeta),
            advection=amount(advected) - amount(decayed),
            filter=amount(filtered) - amount(advected),
            injection=injection,
            total=amount(end) - amount(state.zeta),
        )

    return budget(grid.inverse_k2), budget(1.0)
