r"""Counter-based random numbers, and initial vorticity fields.

The generator is Threefry-2x32 with 20 rounds (Salmon et al. 2011): a keyed bijection of 64-bit
counters. The number for (seed, stream, step, mode) is the same on every machine and independent of
earlier draws, so that a run can be resumed, refined or moved without changing its noise.
"""

__all__ = ["STARTS", "STREAMS", "complex_normal", "key_words", "threefry", "uniform"]

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float, UInt32
from numpy.typing import NDArray

from driftbayes.errors import DriftbayesError
from driftbayes.turbulence.grid import Grid

# Purpose of each random stream; a new purpose gets a new number.
STREAMS = {"forcing": 1, "particles": 2, "start": 3}

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = np.uint32(0x1BD11BDA)
_TWO_32 = 2.0**-32


def key_words(seed: int, stream: str) -> np.ndarray:
    """Return the two 32-bit words of a stream's key: the seed and the number of the stream.

    Args:
        seed: Whole number from 0 to 2³² - 1.
        stream: One of `STREAMS`.
    """
    if not 0 <= seed < 2**32 or seed != int(seed):
        raise DriftbayesError(f"a seed must be a whole number from 0 to 4294967295, got {seed}")
    return np.array([seed, STREAMS[stream]], dtype=np.uint32)


def threefry(
    key: UInt32[Array, " 2"], high: UInt32[Array, "*shape"], low: UInt32[Array, "*shape"]
) -> tuple[UInt32[Array, "*shape"], UInt32[Array, "*shape"]]:
    """Return two random 32-bit words for each counter (high, low)."""
    words = (key[0], key[1], key[0] ^ key[1] ^ _PARITY)
    x, y = high + words[0], low + words[1]
    for group in range(5):
        for rotation in _ROTATIONS[group % 2]:
            x = x + y
            y = (y << np.uint32(rotation)) | (y >> np.uint32(32 - rotation))
            y = y ^ x
        x = x + words[(group + 1) % 3]
        y = y + words[(group + 2) % 3] + np.uint32(group + 1)
    return x, y


# Compiled, because outside a compiled function 20 rounds would be 100 separate operations.
@partial(jax.jit, inline=True)
def uniform(
    key: UInt32[Array, " 2"], high: UInt32[Array, "*shape"], low: UInt32[Array, "*shape"]
) -> tuple[Float[Array, "*shape"], Float[Array, "*shape"]]:
    """Return two numbers in (0, 1) for each counter, in double precision."""
    x, y = threefry(key, high, low)
    return (x.astype(jnp.float64) + 0.5) * _TWO_32, (y.astype(jnp.float64) + 0.5) * _TWO_32


@partial(jax.jit, inline=True)
def complex_normal(
    key: UInt32[Array, " 2"], high: UInt32[Array, "*shape"], low: UInt32[Array, "*shape"]
) -> Complex[Array, "*shape"]:
    r"""Return $\xi_1 + i\xi_2$ with independent standard normal parts for each counter.

    Box--Muller: $\sqrt{-2\ln a}\,e^{2\pi i b}$ with a and b uniform; the maximum is 6.8 sigma.
    """
    a, b = uniform(key, high, low)
    radius = jnp.sqrt(-2 * jnp.log(a))
    return radius * jnp.cos(2 * jnp.pi * b) + 1j * (radius * jnp.sin(2 * jnp.pi * b))


def paper_start(grid: Grid, seed: int = 1234, energy: float = 0.5) -> NDArray[np.complex128]:
    r"""Return the transform of the paper's random field.

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
    """Shape noise by the paper's spectrum, and scale it to an energy."""
    psi = noise * np.sqrt(grid.inverse_k2 / (1 + (grid.kmag / 6) ** 4))
    # Transforming to the points and back makes the column kx = 0 that of a real field.
    zeta = -grid.k2 * np.fft.rfft2(np.fft.irfft2(psi, s=(grid.n, grid.n)))
    now = 0.5 * np.sum(grid.weights * np.abs(zeta) ** 2 * grid.inverse_k2) / grid.n**4
    return zeta * np.sqrt(energy / now)
