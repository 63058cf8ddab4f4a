r"""One step in time: state and velocity in, state and velocity out.

The linear terms are integrated exactly. With $e = \exp(L\,\mathrm{d}t)$ a step of AB3 is
$$\zeta_{n+1} = e\,\zeta_n
  + \tfrac{\mathrm{d}t}{12}\,(23\,e N_n - 16\,e^2 N_{n-1} + 5\,e^3 N_{n-2})$$
Multiplying by e after a plain AB3 step instead would be of first order in $L\,\mathrm{d}t$.
"""

__all__ = ["Stepper", "ab3_increment", "ab3_step", "rk4_step"]

from collections.abc import Callable
from typing import TypeAlias

import jax.numpy as jnp
from jaxtyping import Array, Complex

from driftbayes.turbulence.flow import Flow
from driftbayes.turbulence.grid import Modes, Points, scaled
from driftbayes.turbulence.state import FlowState

# (flow, state, velocity, kick) → state and velocity one step later.
Stepper: TypeAlias = Callable[[Flow, FlowState, Array, Array], tuple[FlowState, Array]]


def ab3_step(
    flow: Flow, state: FlowState, q: Points, kick: Complex[Array, " mode"]
) -> tuple[FlowState, Points]:
    """Third-order Adams--Bashforth; two RK4 steps must have come before.

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
    """What advection adds to the vorticity in a step."""
    before, long_before = state.older
    e, dt = _rounded(flow.decay, tendency), _rounded(flow.dt / 12, tendency)
    older = scaled(5 * e, long_before) - scaled(jnp.asarray(16, dt.dtype), before)
    return scaled(23 * dt * e, tendency) + scaled(dt * e * e, older)


def rk4_step(
    flow: Flow, state: FlowState, q: Points, kick: Complex[Array, " mode"]
) -> tuple[FlowState, Points]:
    """Fourth-order Runge--Kutta: starts AB3 without losing its order, at four times the cost.

    Arguments and result as for `ab3_step`.
    """
    half, dt = jnp.sqrt(flow.decay), flow.dt

    def tendency(zeta: Modes) -> Modes:
        # The stages, too, may hold only modes that the flow can.
        return flow.tendency(flow.velocity(jnp.where(flow.damping > 0, zeta, 0.0)))

    zeta = state.zeta
    first = flow.tendency(q)
    second = tendency(half * (zeta + 0.5 * dt * first))
    third = tendency(half * zeta + 0.5 * dt * second)
    fourth = tendency(flow.decay * zeta + dt * (half * third))
    mean = (flow.decay * first + 2 * half * (second + third) + fourth) / 6
    return _next(flow, state, flow.finish(flow.decay * zeta + dt * mean, kick), first)


def _next(flow: Flow, state: FlowState, zeta: Array, tendency: Array) -> tuple[FlowState, Points]:
    older = (tendency, state.older[0])
    new = FlowState(zeta=zeta, older=older, step=state.step + 1, key=state.key)
    return new, flow.velocity(zeta)


def _rounded(factor: Array, like: Array) -> Array:
    """A double-precision factor in the precision of a tendency."""
    if jnp.iscomplexobj(factor):
        return factor.astype(like.dtype)
    return factor.astype(jnp.real(like).dtype)
