"""Initial fields of vorticity."""

__all__ = ["STARTS", "paper_start", "random_start", "rest"]

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from driftbayes.turbulence.grid import Grid
from driftbayes.turbulence.threefry import complex_normal, key_words


def paper_start(grid: Grid, seed: int = 1234, energy: float = 0.5) -> NDArray[np.complex128]:
    r"""The paper's random field, in transform.

    $$\hat\psi \propto [k^2 (1 + (k/6)^4)]^{-1/2}\,(\xi_1 + i\xi_2)$$
    scaled to a mean energy per unit area. NumPy draws all real parts of the half-plane first, then
    all imaginary parts. As in the paper, the energy includes the Nyquist modes, which a flow drops.

    Args:
        grid: The grid.
        seed: Seed of NumPy's default generator.
        energy: Mean energy per unit area.
    """
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal(grid.shape) + 1j * rng.standard_normal(grid.shape)
    return _scaled(grid, noise, energy)


def random_start(grid: Grid, seed: int = 0, energy: float = 0.5) -> NDArray[np.complex128]:
    """Return a random field whose large scales are the same at every resolution."""
    # Random numbers are indexed by wavenumber, not by array index.
    half = grid.n // 2
    kx, ky = np.broadcast_arrays(grid.kx, grid.ky)
    row, column = (ky.astype(np.int64) % 2**16).astype(np.uint32), kx.astype(np.uint32)
    words = jnp.asarray(key_words(seed, "start"))
    noise = np.array(complex_normal(words, jnp.asarray(row), jnp.asarray(column)))
    # On the column kx = 0 one half is the conjugate of the other.
    noise[half + 1 :, 0] = np.conj(noise[1:half, 0][::-1])
    return _scaled(grid, noise * grid.resolved, energy)


def rest(grid: Grid, seed: int = 0, energy: float = 0.0) -> NDArray[np.complex128]:
    """Return a field without motion."""
    return np.zeros(grid.shape, dtype=np.complex128)


STARTS: dict[str, Callable[..., NDArray[np.complex128]]] = {
    "paper": paper_start,
    "random": random_start,
    "rest": rest,
}


def _scaled(grid: Grid, noise: NDArray[Any], energy: float) -> NDArray[np.complex128]:
    psi = noise * np.sqrt(grid.inverse_k2 / (1 + (grid.kmag / 6) ** 4))
    # Through the points and back: the column kx = 0 becomes that of a real field.
    zeta = -grid.k2 * np.fft.rfft2(np.fft.irfft2(psi, s=(grid.n, grid.n)))
    now = 0.5 * np.sum(grid.weights * np.abs(zeta) ** 2 * grid.inverse_k2) / grid.n**4
    return zeta * np.sqrt(energy / now)
