r"""Stochastic forcing on a ring of wavenumbers, set by the energy that it injects.

After each step every mode of the ring receives a kick
$$\hat\zeta(\mathbf k) \mathrel{+}= \sqrt{\mathrm{d}t\,c\,S(k)/2}\;(\xi_1 + i\xi_2), \qquad
  c = 2\varepsilon N^4 \Big/ \sum_{\mathbf k} S(k)/k^2$$
so that the mean energy grows at exactly the rate ε per unit area for any time step, resolution and
stepper. On the column $k_x = 0$ the mode at $-k_y$ is the conjugate of the mode at $k_y$;
otherwise part of the kick would never reach the flow.
"""

__all__ = ["SHAPES", "Forcing", "checked_ring", "ring_modes"]

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float, Int, UInt32

from driftbayes._typing import FloatArray, IntArray
from driftbayes.errors import DriftbayesError
from driftbayes.turbulence.grid import Grid, Modes
from driftbayes.turbulence.noise import complex_normal

# Relative variance of the vorticity kick as a function of |k|.
SHAPES: dict[str, Callable[[FloatArray], FloatArray]] = {
    "paper": lambda kmag: 1 / kmag,
    "equal-energy": lambda kmag: kmag**2,
    "equal-enstrophy": np.ones_like,
}


def ring_modes(k_f: float, width: float) -> IntArray:
    """Return (kx, ky) of one mode of each pair ±k with ||k| - k_f| <= width.

    The order does not depend on the grid, so that the i-th random number goes to the same mode at
    every resolution.
    """
    reach = int(np.floor(k_f + width))
    kx, ky = np.meshgrid(np.arange(reach + 1), np.arange(-reach, reach + 1), indexing="ij")
    kmag = np.hypot(kx, ky)
    chosen = (np.abs(kmag - k_f) <= width) & (kmag > 0) & ((kx > 0) | (ky > 0))
    return np.stack([kx[chosen], ky[chosen]], axis=-1).astype(np.int64)


def checked_ring(
    grid: Grid, *, epsilon: float, k_f: float, width: float, shape: str = "paper"
) -> IntArray:
    """Return the modes of a valid ring; the arguments are those of `Forcing.on_ring`."""
    if shape not in SHAPES:
        msg = f"the forcing's shape must be one of {', '.join(SHAPES)}, got {shape!r}"
        raise DriftbayesError(msg)
    if not (np.isfinite(epsilon) and epsilon >= 0):
        raise DriftbayesError(f"the rate of energy injection must be 0 or more, got {epsilon}")
    if not (np.isfinite(k_f) and k_f > 0 and np.isfinite(width) and 0 <= width < k_f):
        raise DriftbayesError(
            f"the forcing ring needs a positive radius and a smaller half-width, got k_f = "
            f"{k_f} and {width}"
        )
    if k_f + width >= grid.n // 2:
        raise DriftbayesError(
            f"the forcing ring reaches to k = {k_f + width:g}, but a grid of {grid.n} points "
            f"resolves |k| < {grid.n // 2}; use a larger grid or a smaller k_f"
        )
    modes = ring_modes(k_f, width)
    if len(modes) == 0:
        raise DriftbayesError(
            f"no wavenumber lies within {width:g} of k_f = {k_f:g}; widen the ring or choose "
            "a whole number"
        )
    return modes


class Forcing(eqx.Module):
    """Kicks on a ring of wavenumbers.

    Args:
        rows: Row of each forced mode on the half-plane, including conjugates on column kx = 0.
        columns: Its column.
        draw: Index of its random number.
        conjugated: -1 where the conjugate is taken, 1 elsewhere.
        amplitude: Standard deviation of the real and imaginary parts of its kick per unit time.
        place: Index of the kick of each mode of the half-plane; one past the last if none.
    """

    rows: Int[Array, " mode"]
    columns: Int[Array, " mode"]
    draw: UInt32[Array, " mode"]
    conjugated: Float[Array, " mode"]
    amplitude: Float[Array, " mode"]
    place: Int[Array, "ky kx"]

    @classmethod
    def on_ring(
        cls, grid: Grid, *, epsilon: float, k_f: float, width: float, shape: str = "paper"
    ) -> "Forcing":
        """Force the wavenumbers ||k| - k_f| <= width.

        Args:
            grid: The grid.
            epsilon: Mean rate of energy injection per unit area.
            k_f: Radius of the ring.
            width: Half width of the ring.
            shape: One of `SHAPES`.
        """
        modes = checked_ring(grid, epsilon=epsilon, k_f=k_f, width=width, shape=shape)
        kx, ky = modes.T
        power = SHAPES[shape](np.hypot(kx, ky))
        # Every pair ±k counts twice in a sum over the whole plane.
        c = 2 * epsilon * grid.n**4 / np.sum(2 * power / (kx**2 + ky**2))
        twin = np.flatnonzero(kx == 0)
        order = np.concatenate([np.arange(len(modes)), twin])
        sign = np.concatenate([np.ones(len(modes)), -np.ones(len(twin))])
        rows = np.where(sign > 0, ky[order], -ky[order]) % grid.n
        columns = kx[order]
        place = np.full(grid.shape, len(order), dtype=np.int32)
        place[rows, columns] = np.arange(len(order))
        return cls(
            rows=jnp.asarray(rows),
            columns=jnp.asarray(columns),
            draw=jnp.asarray(order, dtype=jnp.uint32),
            conjugated=jnp.asarray(sign),
            amplitude=jnp.asarray(np.sqrt(c * power / 2)[order]),
            place=jnp.asarray(place),
        )

    def kicks(
        self, key: UInt32[Array, " 2"], step: Int[Array, ""], dt: Float[Array, ""], n_steps: int
    ) -> Complex[Array, "step mode"]:
        """Return the kicks at the ends of `n_steps` steps, starting with number `step`."""
        steps = step.astype(jnp.uint32) + jnp.arange(n_steps, dtype=jnp.uint32)[:, None]
        steps, draws = jnp.broadcast_arrays(steps, self.draw)
        noise = complex_normal(key, steps, draws)
        noise = jnp.real(noise) + 1j * (self.conjugated * jnp.imag(noise))
        return (jnp.sqrt(dt) * self.amplitude) * noise

    def add(self, zeta: Modes, kick: Complex[Array, " mode"]) -> Modes:
        """Add the kick to the vorticity."""

        def scatter(zeta: Array, kick: Array) -> Array:
            return zeta.at[self.rows, self.columns].add(
                kick, unique_indices=True, mode="promise_in_bounds"
            )

        def gather(zeta: Array, kick: Array) -> Array:
            table = jnp.concatenate([kick, jnp.zeros(1, kick.dtype)])
            return zeta + table.at[self.place].get(mode="promise_in_bounds")

        # On a GPU a gather is fused into the step's pass over memory, and a scatter is not. On a
        # CPU a few hundred additions are faster than half a million look-ups. The sums are equal.
        return jax.lax.platform_dependent(zeta, kick, cpu=scatter, default=gather)
