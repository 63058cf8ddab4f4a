"""Extended and ensemble Kalman filters: exact where linear, and by how much they are off."""

from dataclasses import replace

import numpy as np
import pytest
from equations import brownian, data_of, langevin, ornstein, ornstein_data
from numpy.testing import assert_allclose

from driftbayes import Brownian, Langevin
from driftbayes.sde import EnsembleDensity, KalmanDensity

THETA = {"gamma": 1.3, "k": 0.7}


def columns(values, n):
    return {name: np.full(n, value) for name, value in values.items()}


def bias_of(density, model, values, wanted, n=128):
    """Mean of ln L less the exact value, its standard error and the spread."""
    found = density.log_densities(model.template(), columns(values, n)) - wanted
    return found.mean(), found.std(ddof=1) / np.sqrt(n), found.std(ddof=1)


@pytest.fixture(scope="module")
def exact():
    return data_of(langevin(), THETA)


@pytest.fixture(scope="module")
def noisy(exact):
    rng = np.random.default_rng(5)
    return replace(exact, position_sd=rng.uniform(0.05, 0.3, int((exact.row_sizes + 1).sum())))


@pytest.mark.slow
def test_an_ensemble_is_biased_by_about_one_over_its_size_at_each_number(noisy):
    # 4 runs of 12 steps in a plane: 96 numbers.
    wanted = float(Langevin(**THETA).log_likelihood(noisy))
    mean, error, spread = bias_of(EnsembleDensity(noisy, 64, 1), langevin(), THETA, wanted)
    print(f"64 members: bias {mean:.2f} ± {error:.2f}, sd {spread:.2f}")
    assert -96 / 64 < mean < -4 * error
    assert 0.5 < spread < 2.0


@pytest.mark.slow
@pytest.mark.parametrize("errors", [False, True])
def test_the_bias_of_an_ensemble_falls_as_one_over_its_size(exact, noisy, errors):
    data = noisy if errors else exact
    wanted = float(Langevin(**THETA).log_likelihood(data))
    found = {}
    for members in (64, 256, 1024, 2048):
        found[members] = bias_of(EnsembleDensity(data, members, 1), langevin(), THETA, wanted)
        print(
            "errors" if errors else "exact",
            members,
            "bias {:.3f} ± {:.3f}, sd {:.3f}".format(*found[members]),
        )
    for members, (mean, error, _) in found.items():
        assert -2 * 96 / members - 4 * error < mean < 4 * error
    # The spread falls as the root of the size.
    assert 3 < found[64][2] / found[1024][2] < 6


@pytest.mark.slow
def test_an_ensemble_without_a_velocity(noisy):
    wanted = float(Brownian(0.7).log_likelihood(noisy))
    mean, error, _ = bias_of(EnsembleDensity(noisy, 1024, 1), brownian(), {"kappa": 0.7}, wanted)
    assert abs(mean) < 96 / 1024 + 4 * error


def test_the_extended_filter_is_exact_for_a_confined_position():
    values = {"w": 0.8, "kappa": 0.5}
    data = ornstein_data(**values)
    x0, x1 = data.origin, data.origin + data.dx
    decay = np.exp(-0.8 * 0.4)
    variance = 0.5 / 0.8 * (1 - decay**2)
    wanted = np.sum(-0.5 * (np.log(2 * np.pi * variance) + (x1 - decay * x0) ** 2 / variance))
    found = KalmanDensity(data, 3).log_densities(ornstein().template(), columns(values, 1))
    assert_allclose(found, wanted, rtol=1e-9)
