"""The likelihood by two other packages, each with a formulation of its own."""

import celerite2
import celerite2.terms
import equinox as eqx
import numpy as np
import pytest
from hypothesis import given
from numpy.testing import assert_allclose
from statsmodels.tsa.arima.model import ARIMA
from statsmodels.tsa.statespace.kalman_filter import KalmanFilter

from driftbayes.data._sampling import displacements
from driftbayes.data._trajectories import Trajectories
from driftbayes.models import Brownian, Langevin
from driftbayes.testing import reference
from driftbayes.testing import strategies as some

RTOL = 1e-8
TAU = 0.7


def paths(x, n_times=30, seed=0):
    rng = np.random.default_rng(seed)
    steps = reference.simulate_langevin(rng, 2, n_times - 1, 2, TAU, x / TAU, 1.3)
    return np.concatenate([np.zeros((2, 1, 2)), np.cumsum(steps, axis=1)], axis=1)


# --- celerite2: an exponential kernel with a nugget --------------------------------------------


spread_of = eqx.filter_jit(lambda model, t: model.mean_square_displacement(t))


def by_celerite(model, data):
    r"""Steps in units of $2\sinh(\gamma\Delta t/2)$ have an exponential covariance.

    It is $(k/\gamma) e^{-\gamma|t_i - t_j|}$ with t the middles of the steps. What is left of the
    variance is a nugget on the diagonal; it is negative. As $\gamma\Delta t$ grows the nugget all
    but cancels the kernel, at a cost of $2\gamma\Delta t / \ln 10$ digits: up to 3 is tested.
    """
    gamma, k = float(model.gamma), float(model.k)
    total, start = 0.0, 0
    for n in data.row_sizes:
        interval = data.interval[start : start + n]
        unit = 2 * np.sinh(0.5 * gamma * interval)
        middle = np.cumsum(interval) - 0.5 * interval
        # Always as many times: one program for runs of any length.
        times = np.pad(interval, (0, 32 - n), constant_values=1.0)
        variance = np.asarray(spread_of(model, times))[:n]
        nugget = variance / unit**2 - k / gamma
        assert (nugget < 0).all()
        gp = celerite2.GaussianProcess(celerite2.terms.RealTerm(a=k / gamma, c=gamma))
        gp.compute(middle, diag=nugget)
        for axis in data.dx[start : start + n].T:
            total += gp.log_likelihood(axis / unit) - np.log(unit).sum()
        start += n
    return total


@given(model=some.models(Langevin, 0.01, 0.3), data=some.ragged())
def test_celerite_agrees_on_regular_steps(model, data):
    found = model.log_likelihood(data)
    assert_allclose(found, by_celerite(model, data), rtol=RTOL, atol=1e-7)


@given(model=some.models(Langevin, 0.01, 0.3), data=some.irregular())
def test_celerite_agrees_on_irregular_steps(model, data):
    found = model.log_likelihood(data)
    assert_allclose(found, by_celerite(model, data), rtol=RTOL, atol=1e-7)


@pytest.mark.parametrize("x", [0.01, 0.1, 1.0])
def test_celerite_agrees_on_long_tracks_and_kept_gaps(x):
    positions = paths(x)
    positions[0, 7:9] = positions[1, 20] = np.nan
    track = Trajectories.from_arrays(positions, dt=TAU)
    model = Langevin(gamma=1.2 * x / TAU, k=1.0)
    for gaps in ("split", "keep"):
        data = displacements(track, TAU, gaps=gaps)
        assert_allclose(model.log_likelihood(data), by_celerite(model, data), rtol=RTOL)


# --- statsmodels: ARMA(1, 1), and a state space with gaps and noise ----------------------------


def arma(gamma, k):
    """AR and MA coefficients and innovation variance with the autocovariance of the steps."""
    c0, c1 = reference.langevin_covariance(2, TAU, gamma, k)[0]
    rho = np.exp(-gamma * TAU)
    # x_n - rho x_{n-1} is a moving average of autocovariance (m0, m1).
    m0, m1 = c0 * (1 + rho**2) - 2 * rho * c1, c1 * (1 + rho**2) - rho * (c0 + rho * c1)
    ratio = m0 / (2 * m1)
    theta = ratio - np.sign(ratio) * np.sqrt(ratio**2 - 1)  # the invertible root
    return rho, theta, m1 / theta


@pytest.mark.parametrize("x", [0.1, 1.0, 10.0])
def test_steps_are_an_arma_process_of_statsmodels(x):
    positions = paths(x)
    model = Langevin(gamma=1.2 * x / TAU, k=1.0)
    coefficients = arma(1.2 * x / TAU, 1.0)
    series = np.diff(positions, axis=1).transpose(0, 2, 1).reshape(4, -1)
    expected = sum(ARIMA(one, order=(1, 0, 1), trend="n").loglike(coefficients) for one in series)
    data = displacements(Trajectories.from_arrays(positions, dt=TAU), TAU)
    assert_allclose(model.log_likelihood(data), expected, rtol=RTOL)


def by_statsmodels(positions, gamma, k, sd):
    """State (X, U) of the appendix, positions observed with an error; NaN is not observed."""
    transition, noise, _ = reference.var1_matrices(TAU, gamma, k)
    transition[0, 0] = 1.0
    total = 0.0
    for particle, error in zip(positions, sd, strict=True):
        for axis in particle.T:
            series = KalmanFilter(k_endog=1, k_states=2)
            # Where it began is known from the first fix, which by itself adds no information.
            series.bind(np.concatenate([[np.nan], axis[1:]])[:, None])
            series["transition"], series["state_cov"] = transition, noise
            series["selection"], series["design"] = np.eye(2), np.array([[1.0, 0.0]])
            series["obs_cov"] = np.square(error)[None, None, :]
            series.initialize_known(np.array([axis[0], 0.0]), np.diag([error[0] ** 2, k * gamma]))
            total += series.loglike()
    return total


@pytest.mark.sampled(2)
@pytest.mark.parametrize("x", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("kind", ["exact", "gaps", "noise", "gaps and noise"])
def test_statsmodels_agrees_with_gaps_and_measurement_noise(x, kind):
    positions, rng = paths(x), np.random.default_rng(1)
    if "gaps" in kind:
        positions[0, 7:9] = positions[1, 20] = np.nan
    sd = rng.uniform(0.1, 1.0, size=(2, 30)) if "noise" in kind else np.zeros((2, 30))
    positions = positions + sd[..., None] * rng.normal(size=positions.shape)
    track = Trajectories.from_arrays(positions, dt=TAU, position_sd=sd)
    gamma, k = 1.2 * x / TAU, 1.0
    expected = by_statsmodels(positions, gamma, k, sd)
    data = displacements(track, TAU, gaps="keep")
    assert_allclose(Langevin(gamma=gamma, k=k).log_likelihood(data), expected, rtol=RTOL)


def test_statsmodels_agrees_on_brownian_motion_with_measurement_noise():
    # A local level model: MA(1) steps.
    positions, rng = paths(1.0), np.random.default_rng(2)
    sd = 0.4
    positions = positions + sd * rng.normal(size=positions.shape)
    total = 0.0
    for series in positions.transpose(0, 2, 1).reshape(4, -1):
        level = KalmanFilter(
            k_endog=1,
            k_states=1,
            transition=np.eye(1),
            selection=np.eye(1),
            state_cov=np.array([[2 * 1.3 * TAU]]),
            design=np.eye(1),
            obs_cov=np.array([[sd**2]]),
        )
        level.bind(series[1:, None])
        level.initialize_known(series[:1], np.array([[sd**2 + 2 * 1.3 * TAU]]))
        total += level.loglike()
    data = displacements(Trajectories.from_arrays(positions, dt=TAU), TAU)
    found = Brownian(kappa=1.3).log_likelihood(data, noise_sd=sd)
    assert_allclose(found, total, rtol=RTOL)
