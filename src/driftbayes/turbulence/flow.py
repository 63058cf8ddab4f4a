"""The vorticity equation with its numbers: what the steppers step."""

__all__ = ["Flow", "Precision"]

from typing import Literal, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float

from driftbayes.errors import DriftbayesError
from driftbayes.turbulence.dissipation import Dissipation, Filter, exponential_filter
from driftbayes.turbulence.forcing import Forcing
from driftbayes.turbulence.grid import Grid, Modes, Points, scaled
from driftbayes.turbulence.state import FlowState
from driftbayes.turbulence.threefry import key_words
from driftbayes.turbulence.vorticity import advection, velocity

Precision = Literal["double", "single"]

# A filter below this leaves nothing of a mode.
_NOTHING = 1e-100


class Flow(eqx.Module):
    r"""Forced and dissipated two-dimensional flow on a grid, at a time step.

    $$\partial_t\zeta + \mathbf u\cdot\nabla\zeta = F + L\zeta, \qquad \zeta = \nabla^2\psi,
      \qquad \mathbf u = (-\psi_y, \psi_x)$$

    In single precision the transforms and the tendencies are single; vorticity, linear terms and
    forcing stay double, because friction changes a mode by less than the last digit of a
    single-precision number in a step.

    Args:
        grid: The grid.
        dt: Time step.
        decay: $e = \exp(L\,\mathrm{d}t)$ of the linear terms over one step.
        damping: By what a mode is multiplied once per step: filter, truncation and mask.
        forcing: The forcing, or None.
        precision: Of transforms and tendencies.
        advects: Whether there is advection; without it the terms can be tested one by one.
    """

    grid: Grid
    dt: Float[Array, ""]
    decay: Float[Array, "ky kx"] | Modes
    damping: Float[Array, "ky kx"]
    forcing: Forcing | None
    precision: Precision = eqx.field(static=True, default="double")
    advects: bool = eqx.field(static=True, default=True)

    @classmethod
    def make(
        cls,
        grid: Grid,
        dt: float,
        *,
        dissipation: Dissipation | None = None,
        forcing: Forcing | None = None,
        filter: Filter = "per-step",
        filter_dt: float = 2.5e-4,
        truncate: bool = False,
        precision: Precision = "double",
        advects: bool = True,
    ) -> "Flow":
        """A flow from its terms.

        Args:
            grid: The grid.
            dt: Time step.
            dissipation: Linear terms.
            forcing: The forcing.
            filter: "per-step" as in the paper, where a smaller time step filters more; "rate",
                the same per unit time whatever the time step; or "none".
            filter_dt: With "rate", the time step at which the two are the same.
            truncate: Whether to keep only |kx|, |ky| < n/3, which removes aliasing.
            precision: Of transforms and tendencies.
            advects: Whether there is advection.
        """
        if not jax.config.read("jax_enable_x64"):
            msg = (
                "the turbulence simulator needs JAX in double precision; call "
                "jax.config.update('jax_enable_x64', True) first"
            )
            raise DriftbayesError(msg)
        if not (np.isfinite(dt) and dt > 0):
            msg = f"the time step must be a positive number, got {dt}"
            raise DriftbayesError(msg)
        for name, value, known in (
            ("filter", filter, get_args(Filter)),
            ("precision", precision, get_args(Precision)),
        ):
            if value not in known:
                msg = f"{name} must be one of {', '.join(known)}, got {value!r}"
                raise DriftbayesError(msg)
        damping = grid.resolved
        if filter != "none":
            power = dt / filter_dt if filter == "rate" else 1.0
            damping = damping * exponential_filter(grid) ** power
        if truncate:
            kept = (np.abs(grid.ky) < grid.n / 3) & (grid.kx < grid.n / 3)
            damping = damping * kept
        # Numbers too small for some processors: zero on all.
        damping = np.where(damping < _NOTHING, 0.0, damping)
        if forcing is not None and np.any(damping[forcing.rows, forcing.columns] == 0):
            msg = (
                "the forcing ring reaches modes that filter or truncation remove; use a larger "
                "grid or a smaller k_f"
            )
            raise DriftbayesError(msg)
        rate = (dissipation or Dissipation()).rate(grid)
        return cls(
            grid=grid,
            dt=jnp.asarray(dt),
            decay=jnp.asarray(np.exp(rate * dt)),
            damping=jnp.asarray(damping),
            forcing=forcing,
            precision=precision,
            advects=advects,
        )

    @property
    def complex_dtype(self) -> type:
        """Of transforms and tendencies."""
        return jnp.complex128 if self.precision == "double" else jnp.complex64

    def start(self, zeta: Modes, seed: int = 0) -> FlowState:
        """The state at step 0.

        Args:
            zeta: Transform of the vorticity; what the grid cannot hold is removed.
            seed: Of the forcing.
        """
        mask = jnp.asarray(self.damping > 0)
        older = jnp.zeros(self.grid.shape, self.complex_dtype)
        return FlowState(
            zeta=jnp.where(mask, jnp.asarray(zeta, jnp.complex128), 0.0),
            older=(older, older),
            step=jnp.zeros((), jnp.int64),
            key=jnp.asarray(key_words(seed, "forcing")),
        )

    def velocity(self, zeta: Modes) -> Points:
        """Velocity at the points, packed as q = u - iv."""
        return velocity(self.grid, zeta.astype(self.complex_dtype))

    def tendency(self, q: Points) -> Modes:
        """The nonlinear term, from the velocity at the points."""
        if not self.advects:
            return jnp.zeros(self.grid.shape, self.complex_dtype)
        return advection(self.grid, q)

    def kicks(self, state: FlowState, n_steps: int) -> Complex[Array, "step mode"]:
        """The forcing's kicks at the end of the next `n_steps` steps."""
        if self.forcing is None:
            return jnp.zeros((n_steps, 0), jnp.complex128)
        return self.forcing.kicks(state.key, state.step, self.dt, n_steps)

    def finish(self, zeta: Modes, kick: Complex[Array, " mode"]) -> Modes:
        """What ends every step whatever the stepper: the filter, then the kick."""
        zeta = scaled(self.damping, zeta)
        return zeta if self.forcing is None else self.forcing.add(zeta, kick)
