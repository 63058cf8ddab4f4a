"""Modes of a posterior: of the density of θ, and of that of its coordinates z."""

__all__ = ["Modes", "find_modes"]

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from driftbayes.inference.hypothesis import Hypothesis
from driftbayes.inference.joint import LogJoint
from driftbayes.inference.newton import Mode, climb
from driftbayes.inference.start import start_points
from driftbayes.inference.symmetric import eigh
from driftbayes.jax_typing import Scalar
from driftbayes.models import Data
from driftbayes.typing import IntArray

# Two modes closer than this, in widths of the wider, are one.
_SAME = 0.5
# A mode replaces another only if it is higher by more than rounding.
_HIGHER = 1e-6
# What a search is for: the density of θ, that of z, another maximum of that, θ once more.
_NATURAL, _FREE, _OTHER, _AGAIN = range(4)


class Modes(NamedTuple):
    """All in unconstrained coordinates.

    Args:
        natural: Of the density of the natural parameters: θ*, where the Occam factor is taken. It
            may lie at a bound, at infinity of z.
        free: Of the density of z, the highest found, around which to integrate and to sample.
        every: Every maximum of the density of z that was found, `free` first.
        log_mass: ln of the integral of a Gaussian of the same height and curvature at each of
            them; minus infinity for one that did not converge or that repeats another.
        left: A place from which no search was made, since there were too many.
        left_mass: ln of the integral there, if the peak is as wide as that at `free`.
    """

    natural: Mode
    free: Mode
    every: Mode
    log_mass: Float[Array, " mode"]
    left: Float[Array, " parameter"]
    left_mass: Scalar


def find_modes(hypothesis: Hypothesis, data: Data) -> Modes:
    """The modes, one after the other by one program."""
    starts = start_points(hypothesis, data)
    n_others = len(starts.others)
    again = 1 if n_others else 0
    kinds = jnp.asarray([_NATURAL, _FREE] + [_OTHER] * n_others + [_AGAIN] * again)
    given = jnp.concatenate(
        [starts.natural[None], starts.free[None], starts.others, starts.free[None][:again]]
    )
    exists = jnp.concatenate([jnp.ones(2, bool), starts.exists, jnp.zeros(again, bool)])

    def search(
        carry: tuple[Array, Array, Array], task: tuple[Array, Array, Array]
    ) -> tuple[tuple[Array, Array, Array], Mode]:
        first, best, height = carry
        kind, start, is_there = task
        # Without a start of its own a search begins at a mode that is known.
        known = jnp.where(kind == _AGAIN, best, first)
        weight = jnp.where((kind == _FREE) | (kind == _OTHER), 1.0, 0.0)

        def slope(z: Array) -> Scalar:
            return weight * hypothesis.log_jacobian(z)

        mode = climb(LogJoint(hypothesis, data, slope).sweep, jnp.where(is_there, start, known))
        is_higher = (kind == _OTHER) & mode.converged & (mode.value > height + _HIGHER)
        takes = (kind == _FREE) | is_higher
        carry = (
            jnp.where(kind == _FREE, mode.z, first),
            jnp.where(takes, mode.z, best),
            jnp.where(takes, mode.value, height),
        )
        return carry, mode

    blank = jnp.zeros_like(starts.free)
    _, found = jax.lax.scan(search, (blank, blank, blank[0]), (kinds, given, exists))

    def take(index: Array | IntArray | int) -> Mode:
        return jax.tree.map(lambda leaf: leaf[index], found)

    if not n_others:
        every = take(np.array([1]))
        return Modes(take(0), take(1), every, _log_masses(every), starts.left, starts.left_value)
    values = found.value[1:-1]
    usable = found.converged[1:-1] & (values > values[0] + _HIGHER)
    # The first stands, converged or not, if none that converged is higher.
    best = jnp.argmax(jnp.where(usable.at[0].set(True), values, -jnp.inf))
    order = jnp.arange(n_others + 1)
    order = 1 + jnp.where(order == 0, best, jnp.where(order == best, 0, order))
    every = take(order)
    is_better = found.converged[-1] & (found.value[-1] > found.value[0] + _HIGHER)
    natural = take(jnp.where(is_better, n_others + 2, 0))
    log_mass = _log_masses(every)
    left_mass = log_mass[0] + starts.left_value - every.value[0]
    return Modes(natural, take(order[0]), every, log_mass, starts.left, left_mass)


def _log_masses(modes: Mode) -> Float[Array, " mode"]:
    n, n_dim = modes.z.shape
    precision = -0.5 * (modes.hessian + modes.hessian.swapaxes(1, 2))
    curvatures = jax.vmap(lambda p: eigh(p)[0])(precision)
    log_det = jnp.sum(jnp.log(jnp.where(curvatures > 0, curvatures, 1.0)), axis=1)
    log_mass = modes.value + 0.5 * n_dim * np.log(2 * np.pi) - 0.5 * log_det
    step = modes.z[:, None] - modes.z[None]
    distance = jnp.einsum("abi,aij,abj->ab", step, precision, step)
    near = jnp.minimum(distance, distance.T) < _SAME**2
    repeats = jnp.any(near & (np.arange(n)[:, None] > np.arange(n)[None]), axis=1)
    counts = modes.converged & ~repeats & jnp.isfinite(log_mass)
    return jnp.where(counts, log_mass, -jnp.inf)
