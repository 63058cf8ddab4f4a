"""The forcing: what it injects, where, and that its noise belongs to step and mode alone."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from workshop import FIVE_SIGMA, energy_mean

from driftbayes.errors import DriftbayesError
from driftbayes.turbulence.flow import Dissipation, Flow
from driftbayes.turbulence.forcing import SHAPES, Forcing, ring_modes
from driftbayes.turbulence.grid import Grid
from driftbayes.turbulence.noise import key_words

EPSILON = 0.3
RING = {"epsilon": EPSILON, "k_f": 8.0, "width": 1.0}
MEMBERS = 400


def _kicks(forcing, *, seed=0, step=0, dt=0.01, n_steps=4):
    key = jnp.asarray(key_words(seed, "forcing"))
    return _compiled(forcing, key, jnp.asarray(step), jnp.asarray(dt), n_steps)


_compiled = eqx.filter_jit(Forcing.kicks)


def _wavenumbers(forcing, grid):
    return grid.kx[0, forcing.columns], grid.ky[forcing.rows, 0]


@eqx.filter_jit
def _ends_of_an_ensemble(flow, n_steps):
    """Vorticity of many flows from rest, each with a seed of its own."""

    def end(seed):
        state = flow.start(jnp.zeros(flow.grid.shape, jnp.complex128))
        key = jnp.stack([seed, state.key[1]])
        state = eqx.tree_at(lambda s: s.key, state, key)
        kicks = flow.kicks(state, n_steps)

        def step(zeta, kick):
            # Advection is off: the linear terms, the filter and the kick are the whole step.
            return flow.finish(flow.decay * zeta, kick), None

        return jax.lax.scan(step, state.zeta, kicks)[0]

    return jax.vmap(end)(jnp.arange(MEMBERS, dtype=jnp.uint32))


@pytest.mark.parametrize(("k_f", "width"), [(8.0, 1.0), (5.5, 0.75), (3.0, 0.0)])
def test_the_ring_holds_one_of_each_pair(k_f, width):
    modes = {tuple(mode) for mode in ring_modes(k_f, width).tolist()}
    line = range(-12, 13)
    whole = {(p, q) for p in line for q in line if abs(np.hypot(p, q) - k_f) <= width}
    assert modes | {(-p, -q) for p, q in modes} == whole
    assert 2 * len(modes) == len(whole)


@pytest.mark.parametrize("n", [32, 64])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_mean_rate_of_injection_is_epsilon(shape, n):
    grid = Grid(n)
    forcing = Forcing.on_ring(grid, shape=shape, **RING)
    kx, ky = _wavenumbers(forcing, grid)
    weight = grid.weights[0, forcing.columns]
    # Half of w |kick|² / (k² N⁴), where |kick|² is twice the square of the amplitude on average.
    rate = np.sum(weight * np.asarray(forcing.amplitude) ** 2 / (kx**2 + ky**2)) / n**4
    assert_allclose(rate, EPSILON, rtol=1e-13)


@pytest.mark.parametrize(
    ("shape", "power"), [("paper", -1), ("equal-energy", 2), ("equal-enstrophy", 0)]
)
def test_the_shape_is_the_variance_of_the_kicks_against_wavenumber(shape, power):
    grid = Grid(32)
    forcing = Forcing.on_ring(grid, shape=shape, **RING)
    relative = np.asarray(forcing.amplitude) ** 2 / np.hypot(*_wavenumbers(forcing, grid)) ** power
    assert_allclose(relative, relative[0], rtol=1e-13)


def test_kicks_have_the_variance_of_their_amplitude():
    forcing = Forcing.on_ring(Grid(32), **RING)
    n_steps, dt = 4000, 0.01
    kicks = np.asarray(_kicks(forcing, dt=dt, n_steps=n_steps))
    expected = dt * np.asarray(forcing.amplitude) ** 2
    for part in (kicks.real, kicks.imag):
        error = expected * np.sqrt(2 / n_steps)
        assert np.max(np.abs(np.mean(part**2, axis=0) - expected) / error) < FIVE_SIGMA


_add = eqx.filter_jit(Forcing.add)


def _kicked_from_rest(grid, forcing):
    kick = np.asarray(_kicks(forcing))[0]
    return np.asarray(_add(forcing, np.zeros(grid.shape, np.complex128), kick))


def test_a_kicked_field_is_real():
    grid = Grid(32)
    forcing = Forcing.on_ring(grid, **RING)
    kicked = _kicked_from_rest(grid, forcing)
    # A transform of a real field comes back from the points unchanged, whatever its column kx = 0.
    again = np.fft.rfft2(np.fft.irfft2(kicked, s=(32, 32)))
    assert_allclose(again, kicked, atol=1e-14 * np.abs(kicked).max())
    assert_array_equal(kicked[-8, 0], np.conj(kicked[8, 0]))
    assert kicked[8, 0].imag != 0


def test_only_the_ring_is_kicked():
    grid = Grid(32)
    forcing = Forcing.on_ring(grid, **RING)
    kicked = _kicked_from_rest(grid, forcing)
    on_ring = np.abs(grid.kmag - RING["k_f"]) <= RING["width"]
    assert_array_equal(kicked != 0, on_ring)


def test_the_noise_does_not_depend_on_the_time_step():
    forcing = Forcing.on_ring(Grid(32), **RING)
    coarse, fine = _kicks(forcing, dt=0.04), _kicks(forcing, dt=0.01)
    assert_allclose(coarse, 2 * np.asarray(fine), rtol=1e-14)


def test_the_noise_does_not_depend_on_the_resolution():
    coarse, fine = (Forcing.on_ring(Grid(n), **RING) for n in (32, 64))
    for small, large in zip(
        _wavenumbers(coarse, Grid(32)), _wavenumbers(fine, Grid(64)), strict=True
    ):
        assert_array_equal(small, large)
    # Transforms grow with the number of points, by 4.
    assert_allclose(_kicks(fine), 4 * np.asarray(_kicks(coarse)), rtol=1e-14)


def test_the_noise_does_not_depend_on_how_the_steps_are_cut():
    forcing = Forcing.on_ring(Grid(32), **RING)
    pieces = [_kicks(forcing, step=start, n_steps=n) for start, n in ((5, 4), (9, 1), (10, 3))]
    assert_array_equal(np.concatenate(pieces), _kicks(forcing, step=5, n_steps=8))


def test_another_seed_or_step_gives_other_kicks():
    forcing = Forcing.on_ring(Grid(32), **RING)
    first = np.asarray(_kicks(forcing, n_steps=1))
    for other in (_kicks(forcing, seed=1, n_steps=1), _kicks(forcing, step=1, n_steps=1)):
        assert np.all(np.asarray(other) != first)


def test_energy_from_rest_grows_as_epsilon_t_whatever_the_time_step():
    t, grid = 2.0, Grid(32)
    for n_steps in (10, 20):
        flow = Flow.make(grid, t / n_steps, forcing=Forcing.on_ring(grid, **RING), advects=False)
        energies = np.asarray(energy_mean(grid, _ends_of_an_ensemble(flow, n_steps)))
        error = np.std(energies, ddof=1) / np.sqrt(MEMBERS)
        assert error < 0.01 * EPSILON * t
        assert abs(np.mean(energies) - EPSILON * t) < FIVE_SIGMA * error


def test_energy_from_rest_is_the_same_at_twice_the_resolution():
    energies = []
    for grid in (Grid(32), Grid(64)):
        flow = Flow.make(grid, 0.1, forcing=Forcing.on_ring(grid, **RING), advects=False)
        energies.append(energy_mean(grid, _ends_of_an_ensemble(flow, 10)))
    assert_allclose(energies[1], energies[0], rtol=1e-13)


def test_forcing_and_hypofriction_balance_mode_by_mode():
    # In steps so short the sum over kicks is 0.4 per cent above the integral below.
    a, t, n_steps, grid = 50.0, 0.5, 100, Grid(32)
    forcing = Forcing.on_ring(grid, **RING)
    flow = Flow.make(
        grid, t / n_steps, dissipation=Dissipation(hypofriction=a), forcing=forcing, advects=False
    )
    rows, columns = np.asarray(forcing.rows), np.asarray(forcing.columns)
    ends = np.asarray(_ends_of_an_ensemble(flow, n_steps))[:, rows, columns]
    kx, ky = _wavenumbers(forcing, grid)
    k2 = kx**2 + ky**2
    # Of one mode of the half-plane and its mirror image, each of which has half.
    epsilon_k = 2 * np.asarray(forcing.amplitude) ** 2 / (k2 * grid.n**4)
    energy = np.mean(np.abs(ends) ** 2, axis=0) / (k2 * grid.n**4)
    expected = epsilon_k * k2 / (2 * a) * (1 - np.exp(-2 * a * t / k2))
    # The energy of a mode is exponentially distributed: as wide as its mean.
    ratio, error = energy / expected, 1 / np.sqrt(MEMBERS)
    assert np.max(np.abs(ratio - 1)) < FIVE_SIGMA * error
    pairs = np.asarray(forcing.conjugated) > 0
    assert abs(np.mean(ratio[pairs]) - 1) < FIVE_SIGMA * error / np.sqrt(pairs.sum())


def test_the_gpu_branch_adds_identical_numbers(request):
    grid = Grid(32)
    forcing = Forcing.on_ring(grid, **RING)
    noise = np.random.default_rng(0).normal(size=(2, *grid.shape))
    zeta, kick = noise[0] + 1j * noise[1], np.asarray(_kicks(forcing))[0]
    scattered = _add(forcing, zeta, kick)
    request.getfixturevalue("gpu_branches")
    # Compiled anew: a program from before would not ask for the platform again.
    gathered = eqx.filter_jit(lambda *args: Forcing.add(*args))(forcing, zeta, kick)
    assert_array_equal(gathered, scattered)
    assert np.any(np.asarray(scattered) != zeta)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"shape": "square"}, "one of paper, equal-energy, equal-enstrophy, got 'square'"),
        ({"epsilon": -0.1}, "energy injection must be 0 or more, got -0.1"),
        ({"epsilon": np.nan}, "energy injection must be 0 or more, got nan"),
        ({"k_f": -3.0}, "positive radius and a smaller half-width, got k_f = -3.0 and 1.0"),
        ({"width": 9.0}, "positive radius and a smaller half-width, got k_f = 8.0 and 9.0"),
        ({"k_f": 15.0}, r"reaches to k = 16, but a grid of 32 points resolves \|k\| < 16; use"),
        ({"k_f": 1.2, "width": 0.1}, "no wavenumber lies within 0.1 of k_f = 1.2; widen"),
    ],
)
def test_a_forcing_that_cannot_be_is_refused_with_advice(change, message):
    with pytest.raises(DriftbayesError, match=message):
        Forcing.on_ring(Grid(32), **(RING | change))
