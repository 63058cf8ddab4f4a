r"""Energy, enstrophy and spectra of the flow, and their budgets over a step.

A step applies linear terms, advection, filter and kick in sequence. The change of energy in each is
a difference of energies, so that the changes sum exactly to the change over the step.
"""

__all__ = ["Budget", "FlowStatistics", "Spectra", "flow_statistics", "spectra", "step_budget"]

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from driftbayes._jax_typing import Scalar
from driftbayes._typing import IntArray
from driftbayes.turbulence.flow import Flow, FlowState, ab3_increment
from driftbayes.turbulence.grid import Grid, Modes, Points


def energy_mean(grid: Grid, zeta: Modes) -> Scalar:
    r"""Compute the energy per unit area, $\tfrac12\langle|\mathbf u|^2\rangle$."""
    return 0.5 * grid.mean_square(zeta, grid.inverse_k2)


def enstrophy_mean(grid: Grid, zeta: Modes) -> Scalar:
    r"""Compute the enstrophy per unit area, $\tfrac12\langle\zeta^2\rangle$."""
    return 0.5 * grid.mean_square(zeta)


class FlowStatistics(NamedTuple):
    r"""Statistics of the flow at one instant.

    Args:
        energy_mean: $\tfrac12\langle|\mathbf u|^2\rangle$, per unit area.
        enstrophy_mean: $\tfrac12\langle\zeta^2\rangle$, per unit area.
        energy_total: Integral of energy over the domain, $4\pi^2$ times the mean.
        enstrophy_total: Integral of enstrophy over the domain.
        u_rms: $\sqrt{\langle|\mathbf u|^2\rangle}$.
        u_max: Maximum speed.
        eddy_turnover_time: $\tau_\zeta = 2\pi/\sqrt Z$ with Z the domain-integrated enstrophy.
        cfl: $|u|_{\max}\,\mathrm{d}t/\Delta x$.
        kurtosis_u: Kurtosis of the velocity components.
        kurtosis_zeta: Kurtosis of the vorticity.
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
    """Compute the statistics of the flow with this vorticity and velocity."""
    grid = flow.grid
    u, v = jnp.real(q).astype(jnp.float64), -jnp.imag(q).astype(jnp.float64)
    energy, enstrophy = energy_mean(grid, zeta), enstrophy_mean(grid, zeta)
    vorticity = grid.to_points(zeta.astype(flow.complex_dtype))
    u_max = jnp.sqrt(jnp.max(u**2 + v**2))
    mean_square = 0.5 * jnp.mean(u**2 + v**2)
    # At rest the kurtosis is set to 0, and the turnover time is infinite.
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


class Budget(NamedTuple):
    """Change over one step of energy or enstrophy per unit area, by cause.

    Args:
        linear: Friction, viscosity and the other linear terms.
        advection: The nonlinear term; zero except for aliasing and time-stepping error.
        filter: Filter and truncation.
        injection: The kick.
        total: Total change from the start to the end of the step.
    """

    linear: Scalar
    advection: Scalar
    filter: Scalar
    injection: Scalar
    total: Scalar

    @property
    def residual(self) -> Scalar:
        """Change not explained by the causes; rounding only."""
        return self.total - (self.linear + self.advection + self.filter + self.injection)


def step_budget(flow: Flow, state: FlowState, q: Points) -> tuple[Budget, Budget]:
    r"""Compute the budgets of energy and enstrophy over the AB3 step that begins at `state`.

    The work of the kick Δ is computed by a formula, not by a difference:
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


def shells(grid: Grid) -> IntArray:
    """Return the index of the ring, floor(|k| + 1/2), of each mode on the half-plane."""
    return np.floor(grid.kmag + 0.5).astype(np.int64)


class Spectra(NamedTuple):
    r"""Sums over rings $k - \tfrac12 \le |\mathbf k| < k + \tfrac12$, k = 0, 1, ...

    Args:
        energy: $E(k)$ per unit area; the rings sum to the energy.
        enstrophy: $Z(k)$ per unit area.
        transfer: $T(k)$, rate of energy transfer into the ring by advection.
        flux: $\Pi(k) = -\sum_{k' \le k} T(k')$: energy flux across k towards small scales;
            negative where the cascade is inverse.
    """

    energy: Float[Array, " shell"]
    enstrophy: Float[Array, " shell"]
    transfer: Float[Array, " shell"]
    flux: Float[Array, " shell"]


def spectra(flow: Flow, zeta: Modes, q: Points) -> Spectra:
    """Compute the spectra of the flow with this vorticity and velocity."""
    grid = flow.grid
    ring, inverse_k2 = shells(grid), jnp.asarray(grid.inverse_k2)
    n_rings = int(ring.max()) + 1

    def over_rings(values: Array) -> Array:
        weighted = (jnp.asarray(grid.weights / grid.n**4) * values).ravel()
        return jnp.zeros(n_rings).at[jnp.asarray(ring.ravel())].add(weighted)

    power = 0.5 * (jnp.real(zeta) ** 2 + jnp.imag(zeta) ** 2)
    gained = jnp.real(jnp.conj(zeta) * flow.tendency(q).astype(zeta.dtype)) * grid.resolved
    transfer = over_rings(inverse_k2 * gained)
    return Spectra(
        energy=over_rings(inverse_k2 * power),
        enstrophy=over_rings(power),
        transfer=transfer,
        flux=-jnp.cumsum(transfer),
    )


_CAUSES = ("linear", "advection", "filter", "injection", "residual")
# Columns of the diagnostics.
ROW = (
    "time",
    *FlowStatistics._fields,
    *(f"{what}_{cause}_rate" for what in ("energy", "enstrophy") for cause in _CAUSES),
)


@eqx.filter_jit
def diagnostics_row(flow: Flow, state: FlowState) -> Float[Array, " column"]:
    """Compute the columns `ROW`; budgets are those of the step that begins here."""
    q = flow.velocity(state.zeta)
    statistics = flow_statistics(flow, state.zeta, q)
    budgets = step_budget(flow, state, q)
    values = [state.step * flow.dt, *statistics]
    values += [getattr(budget, cause) / flow.dt for budget in budgets for cause in _CAUSES]
    return jnp.stack(values)
