r"""Exponentials of small matrices and their integrals, accurate from short times to long.

A Taylor series covers a step over which the matrix has norm 1/2 or less; the step is then doubled.
The doubling acts on $e^{Bh} - I$ and not on $e^{Bh}$, since slow motion next to fast motion would
lose a digit per decade of their ratio. The number of doublings is fixed and unneeded ones are
masked, so that derivatives of any order exist in both modes.
"""

from functools import partial
from math import factorial
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from driftbayes._jax_typing import Scalar

Matrix = Float[Array, "row column"]
T = TypeVar("T")

# Enough for a norm of 1e18: a rate of 1e6 per interval at 1e12 intervals.
_N_DOUBLINGS = 61
_N_TERMS = 17
# More terms, since the noise of a position starts with the fifth.
_N_NOISE_TERMS = 23


class Integrals(NamedTuple):
    r"""Integrals of $e^{Bs}$ over $0 \le s \le 1$.

    Args:
        change: $e^B - I$.
        once: $\int_0^1 e^{Bs}\,\mathrm{d}s$.
        twice: $\int_0^1 (1 - s)\,e^{Bs}\,\mathrm{d}s$.
    """

    change: Matrix
    once: Matrix
    twice: Matrix


# Compiled once per shape; otherwise JAX would compile the loop at every call.
@jax.jit
def exponential_integrals(matrix: Matrix) -> Integrals:
    """Compute the exponential of a matrix without growing modes, and its integrals."""
    step, n_doublings = _short_step(matrix)
    change, once, twice = _series(matrix * step)
    start = (Integrals(change, once * step, twice * step**2), step)

    def double(
        carry: tuple[Integrals, Scalar], index: Scalar
    ) -> tuple[tuple[Integrals, Scalar], None]:
        (change, once, twice), step = carry
        doubled = Integrals(
            change=2 * change + _multiply(change, change),
            once=2 * once + _multiply(change, once),
            twice=2 * twice + step * once + _multiply(change, twice),
        )
        return _choose(index < n_doublings, (doubled, 2 * step), carry), None

    (integrals, _), _ = jax.lax.scan(double, start, jnp.arange(float(_N_DOUBLINGS)))
    return integrals


@partial(jax.jit, static_argnames="n_integrals")
def noise_covariance(
    matrix: Matrix, intensity: Matrix, n_integrals: int = 1
) -> tuple[Matrix, Matrix]:
    r"""$e^F$ and $Q = \int_0^1 e^{Fs} D\,e^{F^\mathrm{T}s}\,\mathrm{d}s$.

    The first components may be integrals that affect no other component, such as a position or its
    integral. The norm ignores them.

    Args:
        matrix: F.
        intensity: D, symmetric.
        n_integrals: Number of leading components that are integrals: the column of each in F is
            zero except in the rows before it.
    """
    step, n_doublings = _short_step(matrix[n_integrals:, n_integrals:])
    change, _, _ = _series(matrix * step)
    start = (change, _noise_series(matrix * step, intensity * step))

    def double(carry: tuple[Array, Array], index: Scalar) -> tuple[tuple[Array, Array], None]:
        change, noise = carry
        moved = _multiply(change, noise)
        both = moved + moved.T + _multiply(moved, change.T)
        # Exactly symmetric: an antisymmetric part would grow threefold with each doubling.
        doubled = (2 * change + _multiply(change, change), 2 * noise + 0.5 * (both + both.T))
        return _choose(index < n_doublings, doubled, carry), None

    (change, noise), _ = jax.lax.scan(double, start, jnp.arange(float(_N_DOUBLINGS)))
    return jnp.eye(len(matrix)) + change, noise


def _short_step(matrix: Matrix) -> tuple[Scalar, Scalar]:
    """Choose a step over which the norm is 1/2 or less, and the number of doublings."""
    norm = jax.lax.stop_gradient(jnp.max(jnp.sum(jnp.abs(matrix), axis=1), initial=0.0))
    n_doublings = jnp.ceil(jnp.log2(jnp.maximum(2 * norm, 1.0)))
    n_doublings = jnp.minimum(n_doublings, float(_N_DOUBLINGS))
    return jnp.exp2(-n_doublings), n_doublings


def _series(matrix: Matrix) -> Integrals:
    """Sum the series of the three integrals for a matrix of norm 1/2 or less."""
    # Coefficients of the powers from 0; e^B - I has no constant term.
    coefficients = np.array(
        [
            [float(n > 0) / factorial(n), 1 / factorial(n + 1), 1 / factorial(n + 2)]
            for n in range(_N_TERMS)
        ]
    )
    identity = jnp.eye(len(matrix))
    sums = tuple(row * identity for row in jnp.asarray(coefficients[0]))

    def add(
        carry: tuple[Array, tuple[Array, ...]], coefficient: Array
    ) -> tuple[tuple[Array, tuple[Array, ...]], None]:
        power, sums = carry
        power = _multiply(matrix, power)
        return (power, tuple(s + c * power for s, c in zip(sums, coefficient, strict=True))), None

    (_, sums), _ = jax.lax.scan(add, (identity, sums), jnp.asarray(coefficients[1:]))
    return Integrals(*sums)


def _noise_series(matrix: Matrix, intensity: Matrix) -> Matrix:
    """Q over a step, the sum of D_n / (n + 1)! with D_{n+1} = F D_n + D_n Fᵀ."""
    divisors = jnp.asarray([1.0 / n for n in range(2, _N_NOISE_TERMS)])

    def add(carry: tuple[Array, Array], factor: Scalar) -> tuple[tuple[Array, Array], None]:
        term, total = carry
        moved = _multiply(matrix, term)
        term = factor * (moved + moved.T)
        return (term, total + term), None

    (_, total), _ = jax.lax.scan(add, (intensity, intensity), divisors)
    return total


def _choose(condition: Array, yes: T, no: T) -> T:
    """Select between two trees of arrays."""
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)


def _multiply(left: Matrix, right: Matrix) -> Matrix:
    """Multiply matrices of two or three rows, elementwise so that a batch of them fuses."""
    return jnp.sum(left[:, :, None] * right[None, :, :], axis=1)
