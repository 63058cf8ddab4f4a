r"""Random numbers that are a function of a key and a counter, and of nothing else.

The generator is Threefry-2x32 with 20 rounds (Salmon et al. 2011): a keyed bijection of 64-bit
counters. A number drawn for (seed, stream, step, mode) is the same on every machine, whatever was
drawn before it, so a run can be restarted, refined or moved without a change in its noise.
"""

__all__ = ["STREAMS", "complex_normal", "key_words", "threefry", "uniform"]

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex, Float, UInt32

from driftbayes.errors import DriftbayesError

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
        msg = f"a seed must be a whole number from 0 to 4294967295, got {seed}"
        raise DriftbayesError(msg)
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


def uniform(
    key: UInt32[Array, " 2"], high: UInt32[Array, "*shape"], low: UInt32[Array, "*shape"]
) -> tuple[Float[Array, "*shape"], Float[Array, "*shape"]]:
    """Return two numbers in (0, 1) for each counter, in double precision."""
    x, y = threefry(key, high, low)
    return (x.astype(jnp.float64) + 0.5) * _TWO_32, (y.astype(jnp.float64) + 0.5) * _TWO_32


def complex_normal(
    key: UInt32[Array, " 2"], high: UInt32[Array, "*shape"], low: UInt32[Array, "*shape"]
) -> Complex[Array, "*shape"]:
    r"""$\xi_1 + i\xi_2$ with independent standard normal parts, one for each counter.

    Box and Muller: $\sqrt{-2\ln a}\,e^{2\pi i b}$ with a and b uniform; the largest is 6.8 sigma.
    """
    a, b = uniform(key, high, low)
    radius = jnp.sqrt(-2 * jnp.log(a))
    return radius * jnp.cos(2 * jnp.pi * b) + 1j * (radius * jnp.sin(2 * jnp.pi * b))
