"""Many steps as one compiled program: the flow, its particles and their records."""

__all__ = ["begin", "evolve", "look", "march"]

from typing import TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from driftbayes.turbulence.flow import Flow, FlowState, Stepper, ab3_step, rk4_step
from driftbayes.turbulence.particles import (
    INTERPOLATIONS,
    Field,
    Interpolation,
    Positions,
    advect,
)

# Maximum number of pairs of steps whose kicks are drawn at once.
_MAX_PAIRS = 64
# Minimum grid size for two pairs per pass of the loop. Buffers are then swapped, not copied; for
# small buffers compiling a second pair takes longer than the copies.
_MIN_UNROLLED = 128
# Minimum number of particles for which sorting by cell pays off.
_MIN_SORTED = 2**14

# State, field at the particles, and their positions x + iy.
_Carry: TypeAlias = tuple[FlowState, Field, Positions]


@eqx.filter_jit
def begin(
    flow: Flow, state: FlowState, x: Float[Array, "particle 2"], interpolation: Interpolation
) -> tuple[FlowState, Float[Array, "particle 2"]]:
    """Take the first two steps by Runge--Kutta, because AB3 needs two earlier tendencies."""
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
) -> tuple[FlowState, Float[Array, "particle 2"], Float[Array, "record particle 4"]]:
    """Take `n_pairs` pairs of steps, then a record, `n_records` times.

    The velocity is computed from the vorticity at the start, so that two successive calls give the
    same result as one longer call.

    Args:
        flow: The equation.
        state: The flow, with two earlier tendencies.
        x: Positions of the particles; may be empty.
        interpolation: Interpolation of the velocity.
        n_records: Number of records.
        n_pairs: Pairs of steps per record.

    Returns:
        The state, the positions, and the records: unwrapped positions and velocities.
    """
    unroll = 2 if flow.grid.n >= _MIN_UNROLLED else 1
    at_once = next(size for size in range(min(n_pairs, _MAX_PAIRS), 0, -1) if n_pairs % size == 0)

    def several(carry: _Carry) -> _Carry:
        kicks = flow.kicks(carry[0], 2 * at_once).reshape(at_once, 2, -1)

        def pair(carry: _Carry, kicks: Array) -> tuple[_Carry, None]:
            return _pair(flow, interpolation, ab3_step, carry, kicks), None

        return jax.lax.scan(pair, carry, kicks, unroll=unroll)[0]

    order, places = _sort_by_cell(flow, x)

    def record(carry: _Carry, _: None) -> tuple[_Carry, Array]:
        carry = jax.lax.fori_loop(0, n_pairs // at_once, lambda _, c: several(c), carry)
        field, z = carry[1:]
        u = interpolation.velocity(flow, field, z) if z.size else z
        return carry, jnp.concatenate([_as_pairs(z)[places], _as_pairs(u)[places]], axis=-1)

    carry = _load(flow, state, x[order], interpolation)
    (state, _, z), records = jax.lax.scan(record, carry, None, length=n_records)
    return state, _as_pairs(z)[places], records


def evolve(flow: Flow, state: FlowState, n_steps: int) -> FlowState:
    """Take an even number of steps, at least 4, from step 0 without particles."""
    no_particles, interpolation = jnp.zeros((0, 2)), INTERPOLATIONS["bilinear"]
    state, _ = begin(flow, state, no_particles, interpolation)
    return march(flow, state, no_particles, interpolation, 1, n_steps // 2 - 1)[0]


def _sort_by_cell(
    flow: Flow, x: Float[Array, "particle 2"]
) -> tuple[Int[Array, " particle"] | slice, Int[Array, " particle"] | slice]:
    """Return the order of many particles by cell, and its inverse.

    Neighbours then share cache lines. The order does not change any path.
    """
    if len(x) < _MIN_SORTED:
        return slice(None), slice(None)
    cell = jnp.floor(x / flow.grid.spacing) % flow.grid.n
    order = jnp.argsort(cell[:, 1] * flow.grid.n + cell[:, 0])
    return order, jnp.argsort(order)


@eqx.filter_jit
def look(
    flow: Flow, state: FlowState, x: Float[Array, "particle 2"], interpolation: Interpolation
) -> Float[Array, "particle 2"]:
    """Return the velocities at positions."""
    _, field, z = _load(flow, state, x, interpolation)
    return _as_pairs(interpolation.velocity(flow, field, z))


def _load(flow: Flow, state: FlowState, x: Array, interpolation: Interpolation) -> _Carry:
    """Compute the velocity, and the coefficients if there are particles."""
    now = None
    if len(x):
        now, _ = interpolation.coefficients(flow, state.zeta, state.zeta)
    return state, (flow.velocity(state.zeta), now), jax.lax.complex(x[:, 0], x[:, 1])


def _as_pairs(z: Positions) -> Float[Array, "particle 2"]:
    """Convert complex numbers to pairs."""
    return jnp.stack([jnp.real(z), jnp.imag(z)], axis=-1).astype(jnp.float64)


def _pair(
    flow: Flow, interpolation: Interpolation, step: Stepper, carry: _Carry, kicks: Array
) -> _Carry:
    """Take two steps of the flow and one of the particles."""
    state, start, x = carry
    middle_state, middle = step(flow, state, start[0], kicks[0])
    end_state, end = step(flow, middle_state, middle, kicks[1])
    if x.size == 0:
        return end_state, (end, None), x
    c_middle, c_end = interpolation.coefficients(flow, middle_state.zeta, end_state.zeta)
    fields = (start, (middle, c_middle), (end, c_end))
    return end_state, fields[2], advect(flow, interpolation, fields, x)
