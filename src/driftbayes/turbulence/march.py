"""Many steps as one compiled program: the flow, the particles in it, and what is recorded."""

__all__ = ["Records", "begin", "look", "march"]

from typing import TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Complex, Float, Int

from driftbayes.turbulence.flow import Flow
from driftbayes.turbulence.interpolation import Field, Interpolation
from driftbayes.turbulence.particles import advect
from driftbayes.turbulence.state import FlowState
from driftbayes.turbulence.steppers import Stepper, ab3_step, rk4_step

# Pairs of steps whose kicks are drawn at once.
_MOST_PAIRS = 64
# Pairs in one pass of the loop: with two, buffers change places without being copied.
_UNROLL = 2
# From this number on it pays to bring particles into the order of their cells.
_MANY = 2**14

# State, what the particles look up, and where they are, as x + iy.
_Carry: TypeAlias = tuple[FlowState, Field, Complex[Array, " particle"]]


class Records(eqx.Module):
    """Where the particles were and how fast they went, at regular times.

    Args:
        x: Positions, unwrapped.
        u: Velocities, as the particles see them.
    """

    x: Float[Array, "record particle 2"]
    u: Float[Array, "record particle 2"]


@eqx.filter_jit
def begin(
    flow: Flow, state: FlowState, x: Float[Array, "particle 2"], interpolation: Interpolation
) -> tuple[FlowState, Float[Array, "particle 2"]]:
    """The first two steps, by Runge--Kutta: AB3 needs two tendencies to look back on."""
    carry = _load(flow, state, x, interpolation)
    state, _, z = _pair(flow, interpolation, rk4_step, carry, flow.kicks(state, 2))
    return state, _as_pairs(z)


@eqx.filter_jit
def march(
    flow: Flow,
    state: FlowState,
    x: Float[Array, "particle 2"],
    interpolation: Interpolation,
    n_records: int,
    n_pairs: int,
) -> tuple[FlowState, Float[Array, "particle 2"], Records]:
    """`n_records` times: `n_pairs` pairs of steps, then a record.

    The velocity is made anew from the vorticity at the beginning, so that nothing but the state
    has to be kept between two calls for their results to be those of one run.

    Args:
        flow: The equation.
        state: The flow, with two tendencies to look back on.
        x: Positions of the particles; there may be none.
        interpolation: How they see the flow.
        n_records: Number of records.
        n_pairs: Pairs of steps before each.
    """
    at_once = next(size for size in range(min(n_pairs, _MOST_PAIRS), 0, -1) if n_pairs % size == 0)

    def several(carry: _Carry) -> _Carry:
        kicks = flow.kicks(carry[0], 2 * at_once).reshape(at_once, 2, -1)

        def pair(carry: _Carry, kicks: Array) -> tuple[_Carry, None]:
            return _pair(flow, interpolation, ab3_step, carry, kicks), None

        return jax.lax.scan(pair, carry, kicks, unroll=_UNROLL)[0]

    order, places = _by_place(flow, x)

    def record(carry: _Carry, _: None) -> tuple[_Carry, Records]:
        carry = jax.lax.fori_loop(0, n_pairs // at_once, lambda _, c: several(c), carry)
        field, z = carry[1:]
        u = interpolation.velocity(flow, field, z) if z.size else z
        return carry, Records(_as_pairs(z)[places], _as_pairs(u)[places])

    carry = _load(flow, state, x[order], interpolation)
    (state, _, z), records = jax.lax.scan(record, carry, None, length=n_records)
    return state, _as_pairs(z)[places], records


def _by_place(
    flow: Flow, x: Float[Array, "particle 2"]
) -> tuple[Int[Array, " particle"] | slice, Int[Array, " particle"] | slice]:
    """An order in which many particles follow each other as their cells do in memory, and back.

    Neighbours then look up the same lines of the cache. Every particle's path is the same in any
    order.
    """
    if len(x) < _MANY:
        return slice(None), slice(None)
    cell = jnp.floor(x / flow.grid.spacing) % flow.grid.n
    order = jnp.argsort(cell[:, 1] * flow.grid.n + cell[:, 0])
    return order, jnp.argsort(order)


@eqx.filter_jit
def look(
    flow: Flow, state: FlowState, x: Float[Array, "particle 2"], interpolation: Interpolation
) -> Float[Array, "particle 2"]:
    """Velocities at positions."""
    _, field, z = _load(flow, state, x, interpolation)
    return _as_pairs(interpolation.velocity(flow, field, z))


def _load(flow: Flow, state: FlowState, x: Array, interpolation: Interpolation) -> _Carry:
    now = None
    if len(x):
        now, _ = interpolation.coefficients(flow, state.zeta, state.zeta)
    return state, (flow.velocity(state.zeta), now), jax.lax.complex(x[:, 0], x[:, 1])


def _as_pairs(z: Complex[Array, " particle"]) -> Float[Array, "particle 2"]:
    return jnp.stack([jnp.real(z), jnp.imag(z)], axis=-1).astype(jnp.float64)


def _pair(
    flow: Flow, interpolation: Interpolation, step: Stepper, carry: _Carry, kicks: Array
) -> _Carry:
    """Two steps of the flow and one of the particles."""
    state, start, x = carry
    middle_state, middle = step(flow, state, start[0], kicks[0])
    end_state, end = step(flow, middle_state, middle, kicks[1])
    if x.size == 0:
        return end_state, (end, None), x
    c_middle, c_end = interpolation.coefficients(flow, middle_state.zeta, end_state.zeta)
    fields = (start, (middle, c_middle), (end, c_end))
    return end_state, fields[2], advect(flow, interpolation, fields, x)
