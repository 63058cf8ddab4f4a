"""The counter-based generator: known answers, a second implementation, moments."""

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import stats
from workshop import FIVE_SIGMA

from driftbayes.errors import DriftbayesError
from driftbayes.turbulence import noise as module
from driftbayes.turbulence.noise import STREAMS, key_words

threefry = jax.jit(module.threefry)
uniform = jax.jit(module.uniform)
complex_normal = jax.jit(module.complex_normal)

_N = 2**17


def _words(*values):
    return jnp.asarray(values, dtype=jnp.uint32)


def _normals(seed=0, stream="forcing", high=0):
    key = jnp.asarray(key_words(seed, stream))
    low = jnp.arange(_N, dtype=jnp.uint32)
    return np.asarray(complex_normal(key, jnp.full_like(low, high), low))


def _correlation_in_sigmas(a, b):
    return np.abs(np.mean(a * np.conj(b))) * np.sqrt(_N) / 2


# From the Random123 distribution of Salmon et al., file kat_vectors, threefry2x32 with 20 rounds.
@pytest.mark.parametrize(
    ("key", "counter", "expected"),
    [
        ((0x0, 0x0), (0x0, 0x0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF,) * 2, (0xFFFFFFFF,) * 2, (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_known_answers_of_the_inventors(key, counter, expected):
    high, low = threefry(_words(*key), _words(counter[0]), _words(counter[1]))
    assert (int(high[0]), int(low[0])) == expected


def test_jax_has_the_same_generator():
    rng = np.random.default_rng(0)
    key, high, low = (rng.integers(0, 2**32, n, dtype=np.uint32) for n in (2, 50, 50))
    theirs = jax.extend.random.threefry_2x32(jnp.asarray(key), np.concatenate([high, low]))
    ours = threefry(jnp.asarray(key), jnp.asarray(high), jnp.asarray(low))
    assert_array_equal(np.concatenate(ours), theirs)


def test_uniform_numbers_are_the_middles_of_equal_cells():
    key, count = _words(7, 1), jnp.arange(1000, dtype=jnp.uint32)
    for word, number in zip(threefry(key, count, count), uniform(key, count, count), strict=True):
        assert_array_equal(number, (np.asarray(word, np.float64) + 0.5) / 2**32)


def test_uniform_numbers_are_uniform():
    key, count = _words(7, 1), jnp.arange(_N, dtype=jnp.uint32)
    for numbers in uniform(key, jnp.zeros_like(count), count):
        assert stats.kstest(np.asarray(numbers), "uniform").pvalue > 1e-4


def test_both_parts_are_standard_normal():
    z = _normals()
    for part in (z.real, z.imag):
        assert abs(part.mean()) < FIVE_SIGMA / np.sqrt(_N)
        assert abs(np.mean(part**2) - 1) < FIVE_SIGMA * np.sqrt(2 / _N)
        assert abs(np.mean(part**4) - 3) < FIVE_SIGMA * np.sqrt(96 / _N)
        assert stats.kstest(part, "norm").pvalue > 1e-4


def test_the_two_parts_are_independent():
    z = _normals()
    assert abs(np.mean(z.real * z.imag)) < FIVE_SIGMA / np.sqrt(_N)
    # Of the squares too: Box and Muller with one uniform number for both would fail here.
    assert abs(np.mean((z.real**2 - 1) * (z.imag**2 - 1))) < FIVE_SIGMA * 2 / np.sqrt(_N)


@pytest.mark.parametrize(
    "other",
    [{"seed": 1}, {"stream": "particles"}, {"high": 1}, {"high": 2**31}],
    ids=["seed", "stream", "step", "distant step"],
)
def test_another_seed_stream_or_step_gives_independent_numbers(other):
    assert _correlation_in_sigmas(_normals(), _normals(**other)) < FIVE_SIGMA


def test_neighbouring_counters_give_independent_numbers():
    z = _normals()
    assert _correlation_in_sigmas(z, np.roll(z, 1)) < FIVE_SIGMA


def test_a_number_depends_on_its_counter_alone():
    key = _words(3, 1)
    many = complex_normal(key, _words(5, 5, 5, 5), _words(0, 1, 2, 3))
    one = complex_normal(key, _words(5), _words(2))
    assert np.asarray(one)[0] == np.asarray(many)[2]


def test_streams_have_numbers_of_their_own():
    assert len(set(STREAMS.values())) == len(STREAMS)
    assert_array_equal(key_words(4294967295, "forcing"), [2**32 - 1, STREAMS["forcing"]])


@pytest.mark.parametrize("seed", [-1, 2**32, 1.5])
def test_a_seed_that_does_not_fit_a_word_is_refused(seed):
    with pytest.raises(DriftbayesError, match=f"whole number from 0 to 4294967295, got {seed}"):
        key_words(seed, "forcing")
