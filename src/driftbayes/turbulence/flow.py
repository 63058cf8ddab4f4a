r"""The vorticity equation: state, terms and time stepping.

$$\partial_t\zeta + \mathbf u\cdot\nabla\zeta = F + L\zeta, \qquad \zeta = \nabla^2\psi,
  \qquad \mathbf u = (-\psi_y, \psi_x)$$

Both velocity components are stored in one complex field $q = u - iv$, a *forward* transform
$q = F[\hat q]$ with
$$\hat q(\mathbf k) = \frac{k_x - ik_y}{k^2 N^2}\,\hat\zeta^*(\mathbf k)$$
on the whole plane. The transform $Q$ of $q^2 = (u^2 - v^2) - 2iuv$ gives advection:
$$\hat N(\mathbf k) = \frac{(k_x - ik_y)^2\, Q^*(-\mathbf k) - (k_x + ik_y)^2\, Q(\mathbf k)}{4i}$$
This costs as much as two real transforms each way, in half the calls, and q is the velocity that
advects the particles.

The linear terms are integrated exactly. With $e = \exp(L\,\mathrm{d}t)$ a step of AB3 is
$$\zeta_{n+1} = e\,\zeta_n
  + \tfrac{\mathrm{d}t}{12}\,(23\,e N_n - 16\,e^2 N_{n-1} + 5\,e^3 N_{n-2})$$
A plain AB3 step multiplied by e would be of first order in $L\,\mathrm{d}t$.
"""

__all__ = ["Dissipation", "Filter", "Flow", "FlowState", "Precision", "ab3_step", "rk4_step"]

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float, Int, UInt32
from numpy.typing import NDArray

from driftbayes._typing import FloatArray
from driftbayes.errors import DriftbayesError
from driftbayes.turbulence.forcing import Forcing
from driftbayes.turbulence.grid import (
    Grid,
    Modes,
    Points,
    conjugate_whole,
    mirrored_half,
    scaled,
)
from driftbayes.turbulence.noise import key_words

Filter = Literal["per-step", "rate", "none"]
Precision = Literal["double", "single"]

# Smaller damping factors are set to zero: on some processors their products underflow.
_MIN_DAMPING = 1e-100


class FlowState(eqx.Module):
    r"""The flow at one instant; its time is `step * dt`.

    Args:
        zeta: Transform of the vorticity on the half-plane, always in double precision.
        older: The tendencies $N_{n-1}$ and $N_{n-2}$ that AB3 needs.
        step: Number of steps taken.
        key: Key of the forcing's random stream.
    """

    zeta: Complex[Array, "ky kx"]
    older: tuple[Complex[Array, "ky kx"], Complex[Array, "ky kx"]]
    step: Int[Array, ""]
    key: UInt32[Array, " 2"]


# (flow, state, velocity, kick) → state and velocity one step later.
Stepper: TypeAlias = Callable[["Flow", FlowState, Array, Array], tuple[FlowState, Array]]


@dataclass(frozen=True)
class Dissipation:
    r"""Linear terms $\partial_t\hat\zeta = \dots + L(k)\,\hat\zeta$, and the filter.

    $$L = -A\,k^{-2} - \mu - \nu k^2 - \nu_h k^{2p} + i\beta k_x/k^2$$

    Args:
        hypofriction: A of the term $A\psi$, the paper's large-scale friction (A_lsf).
        drag: Linear drag $\mu$.
        viscosity: $\nu$.
        hyperviscosity: $\nu_h$.
        hyperviscosity_power: p.
        beta: Gradient of the Coriolis parameter; makes L complex.
        filter: "per-step" as in the paper, with more filtering at smaller time steps; "rate", the
            same per unit time for any time step; or "none".
        filter_dt: Time step at which "rate" equals "per-step".
        truncate: Keep only |kx|, |ky| < n/3, which removes aliasing.
    """

    hypofriction: float = 0.0
    drag: float = 0.0
    viscosity: float = 0.0
    hyperviscosity: float = 0.0
    hyperviscosity_power: int = 4
    beta: float = 0.0
    filter: Filter = "per-step"
    filter_dt: float = 2.5e-4
    truncate: bool = False

    def rate(self, grid: Grid) -> NDArray[np.float64] | NDArray[np.complex128]:
        """Return L(k) on the half-plane; 0 at k = 0."""
        k2, inverse = grid.k2, grid.inverse_k2
        rate = -(
            self.hypofriction * inverse
            + self.drag
            + self.viscosity * k2
            + self.hyperviscosity * k2**self.hyperviscosity_power
        ) * (k2 > 0)
        if self.beta:
            return rate + 1j * self.beta * grid.kx * inverse
        return np.asarray(rate)

    def damping(self, grid: Grid, dt: float) -> FloatArray:
        """Return the factor of each mode in one step: filter, truncation and mask."""
        damping = grid.resolved
        if self.filter != "none":
            power = dt / self.filter_dt if self.filter == "rate" else 1.0
            damping = damping * exponential_filter(grid) ** power
        if self.truncate:
            damping = damping * ((np.abs(grid.ky) < grid.n / 3) & (grid.kx < grid.n / 3))
        return np.where(damping < _MIN_DAMPING, 0.0, damping)


def check_choice(name: str, value: str, known: Collection[str]) -> None:
    """Raise an error unless a value is known."""
    if value not in known:
        raise DriftbayesError(f"{name} must be one of {', '.join(known)}, got {value!r}")


def exponential_filter(grid: Grid) -> FloatArray:
    r"""Return the factor of each mode in one step of the paper's filter.

    $$F(k) = \exp(-23.6\,(k\Delta x - 0.65\pi)^4) \quad\text{for}\quad k\Delta x > 0.65\pi$$
    """
    beyond = np.maximum(grid.kmag * grid.spacing - 0.65 * np.pi, 0.0)
    return np.exp(-23.6 * beyond**4)


def velocity(grid: Grid, zeta: Modes) -> Points:
    """Compute the velocity q = u - iv at the points, in the precision of the vorticity."""
    # On the other half-plane zeta(k) is the conjugate of zeta(-k).
    whole = conjugate_whole(grid, zeta)
    kx, ky = _wavenumbers(grid, grid.kx_whole, zeta)
    inverse = jnp.asarray(1 / grid.n**2, kx.dtype) / jnp.maximum(kx**2 + ky**2, 1)
    return jnp.fft.fft2(jax.lax.complex(kx * inverse, -ky * inverse) * whole)


def advection(grid: Grid, q: Points) -> Modes:
    r"""Compute $-\mathbf{u}\cdot\nabla\zeta$ on the half-plane from the velocity u - iv."""
    square = jnp.fft.fft2(q * q)
    here, there = square[:, : grid.n // 2 + 1], mirrored_half(grid, square)
    kx, ky = _wavenumbers(grid, grid.kx, q)
    # (kx ± i ky)² = a ± ib, both divided by 4.
    a, b = 0.25 * (kx**2 - ky**2), 0.5 * kx * ky
    difference, total = jnp.conj(there) - here, jnp.conj(there) + here
    # -i a difference - b total, in real parts.
    return jax.lax.complex(
        a * jnp.imag(difference) - b * jnp.real(total),
        -a * jnp.real(difference) - b * jnp.imag(total),
    )


def _wavenumbers(grid: Grid, kx: FloatArray, like: Array) -> tuple[Array, Array]:
    """Return kx and ky in the precision of an array."""
    real = jnp.real(like).dtype
    return jnp.asarray(kx, real), jnp.asarray(grid.ky, real)


class Flow(eqx.Module):
    r"""Forced and dissipated two-dimensional flow on a grid, with a time step.

    In single precision, transforms and tendencies are single. Vorticity, linear terms and forcing
    stay double, because in one step friction changes a mode by less than the resolution of single
    precision.

    Args:
        grid: The grid.
        dt: Time step.
        decay: $e = \exp(L\,\mathrm{d}t)$ of the linear terms over one step.
        damping: Factor of each mode in one step: filter, truncation and mask.
        forcing: The forcing, or None.
        precision: Precision of transforms and tendencies.
        advects: Whether there is advection; tests switch it off.
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
        precision: Precision = "double",
        advects: bool = True,
    ) -> "Flow":
        """Make a flow from its terms.

        Args:
            grid: The grid.
            dt: Time step.
            dissipation: Linear terms and filter; by default the paper's filter alone.
            forcing: The forcing.
            precision: Precision of transforms and tendencies.
            advects: Whether there is advection.
        """
        if not jax.config.read("jax_enable_x64"):
            raise DriftbayesError(
                "the turbulence simulator needs JAX in double precision; call "
                "jax.config.update('jax_enable_x64', True) first"
            )
        if not (np.isfinite(dt) and dt > 0):
            raise DriftbayesError(f"the time step must be a positive number, got {dt}")
        terms = dissipation or Dissipation()
        check_choice("filter", terms.filter, get_args(Filter))
        check_choice("precision", precision, get_args(Precision))
        damping = terms.damping(grid, dt)
        if forcing is not None and np.any(damping[forcing.rows, forcing.columns] == 0):
            raise DriftbayesError(
                "the forcing ring reaches modes that filter or truncation remove; use a larger "
                "grid or a smaller k_f"
            )
        return cls(
            grid=grid,
            dt=jnp.asarray(dt),
            decay=jnp.asarray(np.exp(terms.rate(grid) * dt)),
            damping=jnp.asarray(damping),
            forcing=forcing,
            precision=precision,
            advects=advects,
        )

    @property
    def complex_dtype(self) -> type:
        """Data type of transforms and tendencies."""
        return jnp.complex128 if self.precision == "double" else jnp.complex64

    def start(self, zeta: Modes, seed: int = 0) -> FlowState:
        """Return the state at step 0.

        Args:
            zeta: Transform of the vorticity; unresolved modes are removed.
            seed: Random seed of the forcing.
        """
        older = jnp.asarray(np.zeros(self.grid.shape, self.complex_dtype))
        return FlowState(
            zeta=_masked(self.damping, zeta),
            older=(older, older),
            step=jnp.asarray(np.zeros((), np.int64)),
            key=jnp.asarray(key_words(seed, "forcing")),
        )

    def velocity(self, zeta: Modes) -> Points:
        """Return the velocity q = u - iv at the points."""
        return velocity(self.grid, zeta.astype(self.complex_dtype))

    def tendency(self, q: Points) -> Modes:
        """Return the nonlinear term, from the velocity at the points."""
        if not self.advects:
            return jnp.zeros(self.grid.shape, self.complex_dtype)
        return advection(self.grid, q)

    def kicks(self, state: FlowState, n_steps: int) -> Complex[Array, "step mode"]:
        """Return the forcing's kicks at the end of the next `n_steps` steps."""
        if self.forcing is None:
            return jnp.zeros((n_steps, 0), jnp.complex128)
        return self.forcing.kicks(state.key, state.step, self.dt, n_steps)

    def finish(self, zeta: Modes, kick: Complex[Array, " mode"]) -> Modes:
        """End a step of any stepper: filter, then add the kick."""
        zeta = scaled(self.damping, zeta)
        return zeta if self.forcing is None else self.forcing.add(zeta, kick)


def ab3_step(
    flow: Flow, state: FlowState, q: Points, kick: Complex[Array, " mode"]
) -> tuple[FlowState, Points]:
    """Take a third-order Adams--Bashforth step; needs two RK4 steps before the first.

    Args:
        flow: The equation.
        state: The state at step n.
        q: Its velocity at the points.
        kick: The forcing's kick at the end of the step.

    Returns:
        The state and velocity at step n + 1.
    """
    tendency = flow.tendency(q)
    advected = scaled(flow.decay, state.zeta) + ab3_increment(flow, state, tendency)
    return _next(flow, state, flow.finish(advected, kick), tendency)


def ab3_increment(flow: Flow, state: FlowState, tendency: Modes) -> Modes:
    """Compute the change of the vorticity by advection in a step."""
    before, long_before = state.older
    e, dt = _rounded(flow.decay, tendency), _rounded(flow.dt / 12, tendency)
    older = scaled(5 * e, long_before) - scaled(jnp.asarray(16, dt.dtype), before)
    return scaled(23 * dt * e, tendency) + scaled(dt * e * e, older)


def rk4_step(
    flow: Flow, state: FlowState, q: Points, kick: Complex[Array, " mode"]
) -> tuple[FlowState, Points]:
    """Take a fourth-order Runge--Kutta step, to start AB3; arguments as for `ab3_step`."""
    half, dt = jnp.sqrt(flow.decay), flow.dt

    def tendency(zeta: Modes) -> Modes:
        # The stages, too, must hold only resolved modes.
        return flow.tendency(flow.velocity(jnp.where(flow.damping > 0, zeta, 0.0)))

    zeta = state.zeta
    first = flow.tendency(q)
    second = tendency(half * (zeta + 0.5 * dt * first))
    third = tendency(half * zeta + 0.5 * dt * second)
    fourth = tendency(flow.decay * zeta + dt * (half * third))
    mean = (flow.decay * first + 2 * half * (second + third) + fourth) / 6
    return _next(flow, state, flow.finish(flow.decay * zeta + dt * mean, kick), first)


@jax.jit
def _masked(damping: Float[Array, "ky kx"], zeta: Modes) -> Modes:
    """Remove unresolved modes."""
    return jnp.where(damping > 0, zeta.astype(jnp.complex128), 0.0)


def _next(flow: Flow, state: FlowState, zeta: Array, tendency: Array) -> tuple[FlowState, Points]:
    """Return the state after a step, and its velocity."""
    older = (tendency, state.older[0])
    new = FlowState(zeta=zeta, older=older, step=state.step + 1, key=state.key)
    return new, flow.velocity(zeta)


def _rounded(factor: Array, like: Array) -> Array:
    """Round a double-precision factor to the precision of a tendency."""
    if jnp.iscomplexobj(factor):
        return factor.astype(like.dtype)
    return factor.astype(jnp.real(like).dtype)
