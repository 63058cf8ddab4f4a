"""The top of a smooth function, by damped Newton steps with exact derivatives."""

__all__ = ["Mode", "Sweep", "climb", "derivatives"]

from collections.abc import Callable
from typing import TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from driftbayes.inference.symmetric import eigh
from driftbayes.jax_typing import Scalar

# Value, gradient and Hessian at a point.
Sweep: TypeAlias = tuple[Array, Array, Array]

_MAX_STEPS = 60
# Coordinates are logarithms: a step of 2 changes a parameter by a factor of 7.
_LONGEST_STEP = 2.0
# Newton decrement gᵀ(-H)⁻¹g at which to stop: the mode is then good to 1e-7 posterior widths.
_TOLERANCE = 1e-14
# Where rounding hides a further gain, a decrement this small, 1e-4 widths, is still a mode.
_GOOD_ENOUGH = 1e-8


class Mode(eqx.Module):
    """Where the search ended.

    Args:
        z: The mode.
        value: The function there.
        hessian: Its second derivatives there.
        converged: Whether the top was reached and is a peak in all directions.
        n_steps: Steps taken.
    """

    z: Float[Array, " parameter"]
    value: Scalar
    hessian: Float[Array, "parameter parameter"]
    converged: Bool[Array, ""]
    n_steps: Int[Array, ""]


class _State(eqx.Module):
    z: Array
    trial: Array
    value: Array
    gradient: Array
    hessian: Array
    decrement: Array
    lowest: Array
    damping: Array
    count: Array
    done: Array


def derivatives(f: Callable[[Array], Array], z: Float[Array, " parameter"]) -> Sweep:
    """Value, gradient and Hessian of a scalar or an array in one sweep.

    Forward mode twice: for a few parameters it is as fast as reverse mode, stores nothing
    along a long state-space recursion, and compiles in less time.
    """
    if z.shape[0] == 1:
        # Along a single direction, without the batch over directions: a smaller program.
        one = jnp.ones_like(z)
        (value, first), (_, second) = jax.jvp(lambda y: jax.jvp(f, (y,), (one,)), (z,), (one,))
        return value, first[..., None], second[..., None, None]

    def value_twice(z: Array) -> tuple[Array, Array]:
        value = f(z)
        return value, value

    def gradient_and_both(z: Array) -> tuple[Array, tuple[Array, Array]]:
        gradient, value = jax.jacfwd(value_twice, has_aux=True)(z)
        return gradient, (value, gradient)

    hessian, (value, gradient) = jax.jacfwd(gradient_and_both, has_aux=True)(z)
    return value, gradient, hessian


def climb(sweep: Callable[[Array], Sweep], start: Float[Array, " parameter"]) -> Mode:
    """The local maximum uphill of `start` of a function given by its value and derivatives.

    Newton steps on the absolute value of the Hessian's eigenvalues, so that every step goes
    uphill, damped until the value grows and never longer than a factor of 7 in a parameter.
    """

    def newton(gradient: Array, hessian: Array, damping: Array) -> tuple[Array, Array, Array]:
        curvature, axes = eigh(-0.5 * (hessian + hessian.T))
        along = axes.T @ gradient
        strength = jnp.maximum(jnp.abs(curvature), 1e-10)
        step = axes @ (along / (strength * (1 + damping)))
        length = jnp.sqrt(jnp.sum(step**2))
        step = step * jnp.minimum(1.0, _LONGEST_STEP / jnp.maximum(length, 1e-300))
        return step, jnp.sum(along**2 / strength), jnp.min(curvature)

    # The body evaluates the trial that the previous pass proposed, so that the derivatives, by far
    # the largest part of the program, are compiled once.
    def unfinished(state: _State) -> Array:
        return ~state.done & (state.count < _MAX_STEPS) & (state.damping < 1e12)

    def body(state: _State) -> _State:
        value, gradient, hessian = sweep(state.trial)
        # Rounding makes the value uncertain at the top by a few units in the last place.
        better = value >= state.value - 4e-15 * jnp.abs(value)
        first = state.count == 0
        accept = first | (better & jnp.all(jnp.isfinite(hessian)))
        damping = jnp.where(accept, 0.1 * state.damping, 10 * state.damping + 1.0)
        damping = jnp.where(accept & (damping < 0.5), 0.0, damping)
        z = jnp.where(accept, state.trial, state.z)
        value = jnp.where(accept, value, state.value)
        gradient = jnp.where(accept, gradient, state.gradient)
        hessian = jnp.where(accept, hessian, state.hessian)
        step, decrement, lowest = newton(gradient, hessian, damping)
        return _State(
            z=z,
            trial=z + step,
            value=value,
            gradient=gradient,
            hessian=hessian,
            decrement=decrement,
            lowest=lowest,
            damping=damping,
            count=state.count + 1,
            done=(decrement < jnp.where(accept, _TOLERANCE, _GOOD_ENOUGH)) & (lowest > 0),
        )

    n, zero = start.shape[0], jnp.zeros((), dtype=start.dtype)
    state = _State(
        z=start,
        trial=start,
        value=zero,
        gradient=jnp.zeros(n),
        hessian=jnp.zeros((n, n)),
        decrement=zero,
        lowest=zero,
        damping=zero,
        count=jnp.zeros((), int),
        done=jnp.zeros((), bool),
    )
    end = jax.lax.while_loop(unfinished, body, state)
    return Mode(
        z=end.z,
        value=end.value,
        hessian=end.hessian,
        converged=jnp.isfinite(end.value) & (end.decrement < _GOOD_ENOUGH) & (end.lowest > 0),
        n_steps=end.count,
    )
