"""What can be added to a model: each option against a plain reference in NumPy or SciPy."""

import dataclasses
from itertools import product

import equinox as eqx
import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.linalg import block_diag, expm, toeplitz
from scipy.special import logsumexp
from scipy.stats import gamma as gamma_density
from scipy.stats import multivariate_normal, multivariate_t, norm
from statsmodels.tsa.statespace.kalman_filter import KalmanFilter

from driftbayes.data._sampling import Displacements, displacements
from driftbayes.data._trajectories import Trajectories
from driftbayes.errors import DriftbayesError
from driftbayes.inference import Hypothesis, evidence
from driftbayes.models import MODELS, Langevin, model_named
from driftbayes.models._gamma_ratio import log_gamma_ratio
from driftbayes.priors import Exponential, Fixed, Gamma, LogNormal, Normal
from driftbayes.testing import reference
from sums_of import mean_flow

TAU, RTOL = 0.7, 1e-9
LANGEVIN = {"gamma": 0.8, "k": 1.3}
# Parameters of every plain model, away from its limits.
PLAIN = {
    "brownian": {"kappa": 1.3},
    "langevin": LANGEVIN,
    "second_order": {"gamma": 0.8, "accel": 3.0, "k": 1.3},
    "confined": {"gamma": 0.8, "well": 0.3, "k": 1.3},
    "fractional": {"hurst": 0.3, "kappa": 1.3, "reference": 2.0},
}


def plain(*names):
    """These models by default, the others slowly."""
    return pytest.mark.parametrize(
        "name", [pytest.param(n, marks=() if n in names else pytest.mark.slow) for n in PLAIN]
    )


def named(text, n_dim=2, **theta):
    return model_named(text, MODELS, n_dim)(**theta)


def steps(n_particles=3, n_steps=6, n_dim=2, seed=0):
    rng = np.random.default_rng(seed)
    return reference.simulate_langevin(rng, n_particles, n_steps, n_dim, TAU, 1.0, 1.0)


def regular(**size):
    return Displacements.from_array(steps(**size), TAU)


def irregular(seed=0, n_dim=2):
    """Two runs of unequal steps."""
    rng = np.random.default_rng(seed)
    return Displacements(
        dx=rng.normal(size=(9, n_dim)),
        interval=rng.uniform(0.2, 2.0, size=9),
        row_sizes=np.array([5, 4]),
        trajectory=np.arange(2),
        tau=TAU,
    )


# Compiled as one program each: call by call, JAX would compile every operation.
compiled_spread = eqx.filter_jit(lambda model, t: model.mean_square_displacement(t))
autocovariance = eqx.filter_jit(
    lambda model, lags, tau: model.increment_autocovariance(lags, jnp.asarray(tau))
)
gamma_ratio = eqx.filter_jit(log_gamma_ratio)


def spread_of(model, t):
    """Mean square displacement: the same program for up to 64 times."""
    t = np.asarray(t)
    padded = np.pad(t.ravel(), (0, max(64 - t.size, 0)))
    return np.asarray(compiled_spread(model, padded))[: t.size].reshape(t.shape)


def step_covariance(model, data):
    """Covariance of the steps of one axis, by the mean square displacement; runs independent."""
    blocks, start = [], 0
    for n in data.row_sizes:
        times = np.concatenate([[0.0], np.cumsum(data.interval[start : start + n])])
        spread = spread_of(model, np.abs(times[:, None] - times))
        # Cov(X_i - X_0, X_j - X_0), then differences of both.
        positions = 0.5 * (spread[:, :1] + spread[:1] - spread)
        blocks.append(np.diff(np.diff(positions, axis=0), axis=1))
        start += n
    return block_diag(*blocks)


def gaussian(covariance, values):
    return multivariate_normal(cov=covariance).logpdf(values)


# --- Noise -------------------------------------------------------------------------------------


@plain("langevin", "fractional")
def test_engines_agree_on_noise(name):
    data, model = regular(), named(f"{name}+noise", sigma=0.6, **PLAIN[name])
    noise = np.eye(6) * 2 - np.eye(6, k=1) - np.eye(6, k=-1)
    one = data.as_array().transpose(0, 2, 1).reshape(-1, 6)
    base = step_covariance(MODELS[name](**PLAIN[name]), Displacements.from_array(steps(1), TAU))
    expected = np.sum(gaussian(base + 0.6**2 * noise, one))
    engines = ("auto", "moments", "dense", "kalman")[: 4 if model.has_state_space else 3]
    for engine in engines:
        assert_allclose(model.log_likelihood(data, engine=engine), expected, rtol=RTOL)


@plain("brownian", "fractional")
def test_noise_as_an_option_is_noise_as_an_argument(name):
    data, base = irregular(), MODELS[name](**PLAIN[name])
    model = named(f"{name}+noise", sigma=0.6, **PLAIN[name])
    assert_allclose(model.log_likelihood(data), base.log_likelihood(data, noise_sd=0.6), rtol=RTOL)


@pytest.mark.parametrize("own", [0.0, 0.5])
def test_statsmodels_agrees_on_langevin_with_noise_and_gaps(own):
    # Errors that the file gives are added in quadrature to the model's.
    gamma, k, sigma, n = 0.9, 1.1, 0.4, 30
    rng = np.random.default_rng(1)
    dx = reference.simulate_langevin(rng, 2, n - 1, 2, TAU, 1.0, 1.0)
    x = np.concatenate([np.zeros((2, 1, 2)), np.cumsum(dx, axis=1)], axis=1)
    x += np.hypot(sigma, own) * rng.normal(size=x.shape)
    x[0, 7:9] = x[1, 20] = np.nan
    transition, noise, _ = reference.var1_matrices(TAU, gamma, k)
    transition[0, 0] = 1.0
    error = sigma**2 + own**2
    expected = 0.0
    for axis in x.transpose(0, 2, 1).reshape(4, n):
        series = KalmanFilter(k_endog=1, k_states=2)
        series.bind(np.concatenate([[np.nan], axis[1:]])[:, None])
        series["transition"], series["state_cov"] = transition, noise
        series["selection"], series["design"] = np.eye(2), np.array([[1.0, 0.0]])
        series["obs_cov"] = np.array([[error]])
        series.initialize_known(np.array([axis[0], 0.0]), np.diag([error, k * gamma]))
        expected += series.loglike()
    sd = np.full((2, n), own) if own else None
    data = displacements(Trajectories.from_arrays(x, dt=TAU, position_sd=sd), TAU, gaps="keep")
    model = named("langevin+noise", gamma=gamma, k=k, sigma=sigma)
    assert_allclose(model.log_likelihood(data), expected, rtol=1e-8)


# --- Blur --------------------------------------------------------------------------------------


@pytest.mark.parametrize("exposure", [0.01, 0.3, TAU])
def test_blurred_brownian_motion_has_its_closed_form(exposure):
    model = named("brownian+blur", kappa=1.3, exposure=exposure)
    row = autocovariance(model, np.arange(4.0), TAU)
    expected = [2 * 1.3 * (TAU - exposure / 3), 1.3 * exposure / 3, 0.0, 0.0]
    assert_allclose(row, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    ("name", "exposure"),
    [
        pytest.param(*case, marks=() if case == ("langevin", 0.3) else pytest.mark.slow)
        for case in product(PLAIN, (0.3, TAU))
        if case[0] != "fractional"
    ],
)
def test_blur_is_the_mean_over_two_exposures(name, exposure):
    # A double sum over the moments of both exposures; its error falls as their number squared.
    base = MODELS[name](**PLAIN[name])
    model = named(f"{name}+blur", exposure=exposure, **PLAIN[name])
    n = 1000
    apart = np.arange(1 - n, n) * exposure / n
    index = np.subtract.outer(np.arange(n), np.arange(n)) + n - 1
    means = []
    for lag in (0.0, TAU, 2 * TAU):
        spread = spread_of(base, np.abs(lag + apart))
        means.append(spread[index].mean())
    expected = [means[1] - means[0], 0.5 * (means[2] - 2 * means[1] + means[0])]
    row = autocovariance(model, np.arange(2.0), TAU)
    assert_allclose(row, expected, rtol=1e-5)


@pytest.mark.parametrize("hurst", [0.1, 0.3, 0.7])
def test_blurred_fractional_motion_is_that_of_mpmath(hurst):
    # A power of time is not smooth at 0, where an ordinary rule would lose its digits.
    theta = {"hurst": hurst, "kappa": 0.5, "reference": 1.0}
    model = named("fractional+blur", exposure=TAU, **theta)

    def averaged(lag):
        def f(s):
            return (TAU - abs(s)) / TAU**2 * abs(lag + s) ** (2 * hurst)

        return mpmath.quad(f, sorted({-TAU, -min(lag, TAU), 0.0, TAU}))

    for lag in (0.3, TAU, 2 * TAU):
        expected = float(averaged(lag) - averaged(0.0))
        assert_allclose(spread_of(model, lag), expected, rtol=1e-8)


def test_engines_agree_on_blur_and_noise():
    data, theta = regular(), {"exposure": 0.4, "sigma": 0.2, **LANGEVIN}
    model = named("langevin+noise+blur", **theta)
    dense = model.log_likelihood(data, engine="dense")
    assert_allclose(model.log_likelihood(data, engine="moments"), dense, rtol=RTOL)
    assert model.name == "langevin+blur+noise"


# --- Mean flow ---------------------------------------------------------------------------------


@pytest.mark.sampled(3)
@pytest.mark.parametrize("make", [regular, irregular])
@pytest.mark.parametrize("name", ["brownian", "langevin", "langevin+noise"])
def test_mean_flow_integrates_out_to_a_covariance_of_rank_one(name, make):
    # S + V² Δt Δtᵀ: all particles share the flow.
    data, flow = make(), 0.7
    theta = {**PLAIN[name.partition("+")[0]], **({"sigma": 0.4} if "noise" in name else {})}
    base = named(name, **theta)
    covariance = step_covariance(base, data)
    if "noise" in name:
        blocks = [2 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1) for n in data.row_sizes]
        covariance = covariance + 0.4**2 * block_diag(*blocks)
    whole = covariance + flow**2 * np.outer(data.interval, data.interval)
    model = named(f"{name}+mean", flow=flow, **theta)
    assert_allclose(model.log_likelihood(data), np.sum(gaussian(whole, data.dx.T)), rtol=RTOL)
    # Conditioning the joint Gaussian of flow and steps gives the posterior of the flow.
    gain = flow**2 * np.linalg.solve(whole, data.interval)
    mean, cov = mean_flow(model, data)
    assert_allclose(mean, gain @ data.dx, rtol=1e-8)
    assert_allclose(cov, np.eye(2) * flow**2 * (1 - gain @ data.interval), rtol=1e-8, atol=1e-14)


def test_without_flow_the_mean_is_zero():
    data = regular()
    found = named("langevin+mean", flow=1e-9, **LANGEVIN).log_likelihood(data)
    assert_allclose(found, Langevin(**LANGEVIN).log_likelihood(data), rtol=RTOL)


# --- Anisotropy --------------------------------------------------------------------------------


def components(n_dim, seed=2):
    n = {2: 2, 3: 5}[n_dim]
    values = np.random.default_rng(seed).normal(size=n)
    return {f"h{i + 1}": value for i, value in enumerate(values)}


def matrix(h):
    """H from its components, written out."""
    if len(h) == 2:
        a, b = h.values()
        return np.array([[a, b], [b, -a]]) / np.sqrt(2)
    a, b, c, d, e = h.values()
    diagonal = a * np.array([1, -1, 0]) / np.sqrt(2) + b * np.array([1, 1, -2]) / np.sqrt(6)
    others = np.array([[0, c, d], [c, 0, e], [d, e, 0]]) / np.sqrt(2)
    return np.diag(diagonal) + others


def rotation(n_dim):
    turned, _ = np.linalg.qr(np.random.default_rng(3).normal(size=(n_dim, n_dim)))
    return turned * np.sign(np.linalg.det(turned))


@pytest.mark.parametrize(
    ("option", "make", "n_dim"),
    [
        # Each choice once; the others slowly.
        pytest.param(
            *(option, make, n_dim),
            id=f"{option}-{make.__name__}-{n_dim}",
            marks=() if chosen else pytest.mark.slow,
        )
        for option in ("", "+mean")
        for make in (regular, irregular)
        for n_dim in (2, 3)
        for chosen in [(option, make, n_dim) in (("", irregular, 3), ("+mean", regular, 2))]
    ],
)
def test_anisotropy_is_a_kronecker_product(option, make, n_dim):
    data, h = make(n_dim=n_dim), components(n_dim)
    shape = expm(matrix(h))
    covariance = np.kron(step_covariance(Langevin(**LANGEVIN), data), shape)
    flow = {"flow": 0.7} if option else {}
    if option:
        covariance += 0.7**2 * np.kron(np.outer(data.interval, data.interval), np.eye(n_dim))
    model = named(f"langevin+anisotropic{option}", n_dim, **LANGEVIN, **h, **flow)
    expected = gaussian(covariance, data.dx.reshape(-1))
    assert_allclose(model.log_likelihood(data), expected, rtol=RTOL)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("n_dim", [2, 3])
def test_density_does_not_see_a_rotation_of_data_and_tensor(n_dim):
    data, h, turn = irregular(n_dim=n_dim), components(n_dim), rotation(n_dim)
    turned = dataclasses.replace(data, dx=data.dx @ turn.T)
    # Components of the rotated tensor, from the basis that unit components give.
    units = [matrix(dict.fromkeys(h, 0.0) | {name: 1.0}) for name in h]
    rotated = {
        name: np.sum(unit * (turn @ matrix(h) @ turn.T))
        for name, unit in zip(h, units, strict=True)
    }
    # Equal normal priors are as probable in every direction.
    assert_allclose(sum(v**2 for v in rotated.values()), sum(v**2 for v in h.values()))
    one, other = (
        named("langevin+anisotropic", n_dim, **LANGEVIN, **c).log_likelihood(d)
        for c, d in ((h, data), (rotated, turned))
    )
    assert_allclose(one, other, rtol=1e-10)


@pytest.mark.slow
def test_evidence_of_anisotropy_does_not_depend_on_the_axes():
    model = model_named("brownian+anisotropic", MODELS, 2)
    wide = Normal(0.0, 1.0)
    hypothesis = Hypothesis(model, kappa=Exponential(1.0), h1=wide, h2=wide)
    stretched = steps(10) * np.array([1.0, 2.0])
    turn = rotation(2)
    one, other = (
        evidence(hypothesis, Displacements.from_array(dx, TAU)).log_evidence
        for dx in (stretched, stretched @ turn.T)
    )
    assert_allclose(one, other, atol=1e-7)


def test_anisotropy_refuses_data_of_another_dimension():
    model = named("brownian+anisotropic", 3, kappa=1.0, **components(3))
    with pytest.raises(DriftbayesError, match="is for 3 dimensions, the data have 2"):
        model.log_likelihood(regular())
    with pytest.raises(DriftbayesError, match="needs two or three dimensions, got 1"):
        model_named("brownian+anisotropic", MODELS, 1)


# --- Scatter -----------------------------------------------------------------------------------


@pytest.mark.sampled(2)
@pytest.mark.parametrize("scatter", [0.2, 0.7, 1.5])
@pytest.mark.parametrize("make", [regular, irregular])
def test_scatter_integrates_the_scale_of_each_trajectory(scatter, make):
    data, a = make(), scatter**-2
    expected, start = 0.0, 0
    for n in data.row_sizes:
        dx, interval = data.dx[start : start + n], data.interval[start : start + n]
        one = dataclasses.replace(
            data, dx=dx, interval=interval, row_sizes=np.array([n]), trajectory=np.zeros(1, int)
        )
        covariance = step_covariance(Langevin(**LANGEVIN), one)
        at_one = np.sum(gaussian(covariance, dx.T))
        square = np.sum(dx * np.linalg.solve(covariance, dx))
        law = gamma_density(a, scale=1 / a)

        def integrand(g, n=dx.size, square=square, law=law):
            # Of a covariance over g, relative to that at g = 1.
            return g ** (0.5 * n) * np.exp(-0.5 * square * (g - 1)) * law.pdf(g)

        points = np.quantile(law.rvs(1000, random_state=0), [0.1, 0.9])
        value, _ = quad(integrand, 0.0, 60.0, points=points, epsrel=1e-11, limit=400)
        expected += at_one + np.log(value)
        start += n
    model = named("langevin+scatter", scatter=scatter, **LANGEVIN)
    assert_allclose(model.log_likelihood(data), expected, rtol=1e-8)


# A quadrature over ln s goes as far as the numbers do, where s² underflows and Q s² is lost.
@pytest.mark.parametrize("scatter", [1e-5, 1e-10, 1e-154, 1e-200, 1e-308])
def test_without_scatter_all_particles_are_alike(scatter):
    data = regular()
    found = named("langevin+scatter", scatter=scatter, **LANGEVIN).log_likelihood(data)
    assert_allclose(found, Langevin(**LANGEVIN).log_likelihood(data), rtol=1e-7)


def test_runs_of_one_trajectory_share_its_scale():
    data = regular()
    together = dataclasses.replace(data, trajectory=np.zeros(3, int))
    model = named("brownian+scatter", scatter=0.8, kappa=1.3)
    square = np.sum(data.dx**2) / (2 * 1.3 * TAU)
    n, a = data.dx.size, 0.8**-2
    expected = float(
        mpmath.loggamma(a + n / 2)
        - mpmath.loggamma(a)
        - (a + n / 2) * mpmath.log(1 + square / (2 * a))
        - n / 2 * mpmath.log(2 * mpmath.pi * a * 2 * 1.3 * TAU)
    )
    assert_allclose(model.log_likelihood(together), expected, rtol=1e-10)
    assert abs(model.log_likelihood(data) - expected) > 0.1


# --- Student -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tail", "n_dim"),
    [
        *((0.05, 3), (0.3, 3), (0.45, 3)),
        *(
            pytest.param(*pair, marks=pytest.mark.slow)
            for pair in ((0.05, 1), (0.05, 2), (0.3, 1), (0.3, 2), (0.45, 1), (0.45, 2))
        ),
    ],
)
def test_one_step_is_a_student_variable_of_scipy(tail, n_dim):
    data, nu = regular(n_particles=5, n_steps=1, n_dim=n_dim), 1 / tail
    variance = float(spread_of(Langevin(**LANGEVIN), TAU))
    density = multivariate_t(shape=np.eye(n_dim) * variance * (nu - 2) / nu, df=nu)
    model = named("langevin+student", n_dim, tail=tail, **LANGEVIN)
    assert_allclose(model.log_likelihood(data), np.sum(density.logpdf(data.dx)), rtol=RTOL)


def test_student_innovations_are_those_of_the_cholesky_factor():
    data, tail = regular(), 0.3
    nu = 1 / tail
    covariance = step_covariance(Langevin(**LANGEVIN), Displacements.from_array(steps(1), TAU))
    factor = np.linalg.cholesky(covariance)
    density = multivariate_t(shape=np.eye(2) * (nu - 2) / nu, df=nu)
    white = np.linalg.solve(factor, data.as_array())
    expected = np.sum(density.logpdf(white)) - 3 * 2 * np.sum(np.log(np.diag(factor)))
    model = named("langevin+student", tail=tail, **LANGEVIN)
    assert_allclose(model.log_likelihood(data), expected, rtol=RTOL)


def test_without_tails_student_is_gaussian():
    for data in (regular(), irregular()):
        base = Langevin(**LANGEVIN).log_likelihood(data)
        for tail, rtol in ((1e-4, 1e-2), (1e-12, 1e-9), (1e-200, 1e-9), (1e-308, 1e-9)):
            model = named("langevin+student", tail=tail, **LANGEVIN)
            assert_allclose(model.log_likelihood(data), base, rtol=rtol)


# --- Mixture -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_mixture_of_three_classes_is_the_sum_over_all_classes():
    data = regular(n_particles=4)
    theta = {"kappa": 2.0, "ratio_2": 0.4, "share_2": 0.7, "ratio_3": 0.5, "share_3": 0.2}
    weights, kappas = [0.3, 0.7 * 0.8, 0.7 * 0.2], [2.0, 0.8, 0.4]
    paths = data.as_array().reshape(4, -1)
    logs = np.array(
        [
            np.log(w) + np.sum(gaussian(2 * k * TAU, paths[..., None]).reshape(4, -1), axis=1)
            for w, k in zip(weights, kappas, strict=True)
        ]
    )
    joint = np.exp(logs)
    model = named("brownian*3", **theta)
    assert_allclose(model.log_likelihood(data), np.sum(np.log(joint.sum(axis=0))), rtol=RTOL)
    found = model.responsibilities(data)
    assert_allclose(found, joint / joint.sum(axis=0), rtol=1e-8)


@pytest.mark.parametrize("spacing", ["regular", "irregular"])
def test_class_probabilities_are_in_the_order_of_the_trajectories(spacing):
    # Of different lengths, and one of them of two runs that are not next to each other.
    rng, sizes, trajectory = np.random.default_rng(4), [6, 1, 4, 6, 2], np.array([7, 2, 3, 5, 2])
    data = Displacements(
        dx=rng.normal(size=(19, 2)),
        interval=np.full(19, TAU) if spacing == "regular" else rng.uniform(0.3, 2.0, size=19),
        row_sizes=np.array(sizes),
        trajectory=trajectory,
        tau=TAU,
    )
    logs = np.zeros((2, 4))
    for run, steps in enumerate(np.split(np.arange(19), np.cumsum(sizes)[:-1])):
        who = list(np.unique(trajectory)).index(trajectory[run])
        for c, kappa in enumerate((2.0, 0.6)):
            sd = np.sqrt(2 * kappa * data.interval[steps])[:, None]
            logs[c, who] += np.sum(norm.logpdf(data.dx[steps], scale=sd))
    joint = np.exp(logs) * np.array([[0.6], [0.4]])
    model = named("brownian*2", kappa=2.0, ratio_2=0.3, share_2=0.4)
    assert_allclose(model.responsibilities(data), joint / joint.sum(axis=0), rtol=1e-10)


@pytest.mark.parametrize("make", [pytest.param(regular, marks=pytest.mark.slow), irregular])
def test_classes_have_parameters_of_their_own(make):
    data = make()
    theta = {"gamma": 0.8, "k": 1.3, "gamma_2": 3.0, "ratio_2": 0.2, "share_2": 0.3}
    classes = [(0.7, Langevin(gamma=0.8, k=1.3)), (0.3, Langevin(gamma=3.0, k=0.26))]
    expected, start = 0.0, 0
    for n in data.row_sizes:
        one = dataclasses.replace(
            data,
            dx=data.dx[start : start + n],
            interval=data.interval[start : start + n],
            row_sizes=np.array([n]),
            trajectory=np.zeros(1, int),
        )
        logs = [np.sum(gaussian(step_covariance(m, one), one.dx.T)) for _, m in classes]
        weights = [weight for weight, _ in classes]
        expected += logsumexp(logs, b=weights)
        start += n
    assert_allclose(named("langevin*2", **theta).log_likelihood(data), expected, rtol=RTOL)


@pytest.mark.parametrize("theta", [{"ratio_2": 1.0, "share_2": 0.4}, {"share_2": 1e-14}])
def test_mixture_of_equal_classes_or_of_one_is_plain(theta):
    data = regular()
    model = named("brownian*2", **({"kappa": 1.3, "ratio_2": 0.5} | theta))
    assert_allclose(
        model.log_likelihood(data), MODELS["brownian"](kappa=1.3).log_likelihood(data), rtol=RTOL
    )


@pytest.mark.parametrize("m", [0.5, 1.0, 7.5, 400.0])
def test_ratio_of_gamma_functions_is_that_of_mpmath(m):
    with mpmath.workdps(40):
        for a in (1e-3, 0.3, 4.0, 49.9, 50.1, 1e3, 1e8, 1e14):
            big = mpmath.mpf(a)
            expected = mpmath.loggamma(big + m) - mpmath.loggamma(big) - m * mpmath.log(big)
            found = gamma_ratio(jnp.asarray(a), jnp.asarray(m))
            assert_allclose(found, float(expected), rtol=1e-11, atol=1e-13)


# --- Simulation against likelihood -------------------------------------------------------------

OPTIONS_AT_WORK = {
    "langevin+noise": {"sigma": 0.5},
    "langevin+blur": {"exposure": 0.5 * TAU},
    "fractional+noise": {"sigma": 0.5},
    "langevin+anisotropic": {"h1": 0.6, "h2": -0.4},
    "langevin+mean": {"flow": 0.5},
    "langevin+anisotropic+mean": {"h1": 0.6, "h2": -0.4, "flow": 0.5},
    "langevin+linear": {"flow": 0.5, "gradient": 0.1},
    "langevin+noise+linear": {"sigma": 0.5, "flow": 0.5, "gradient": 0.1},
    "oscillating+rotating": {"gamma": 0.8, "omega": 1.5, "k": 1.3},
    "oscillating+noise+rotating": {"gamma": 0.8, "omega": 1.5, "k": 1.3, "sigma": 0.5},
    "langevin+scatter": {"scatter": 0.6},
    "langevin+student": {"tail": 0.15},
    "langevin+noise+student": {"tail": 0.15, "sigma": 0.5},
    "langevin*2": {"gamma_2": 2.0, "ratio_2": 0.2, "share_2": 0.4},
}


def slope(family, theta, name, data):
    """Derivative of the log-likelihood by the logarithm of one parameter, by a difference."""
    step = 1e-4
    up, down = (
        family(**{**theta, name: theta[name] * (1 + sign * step)}).log_likelihood(data)
        for sign in (1, -1)
    )
    return (up - down) / (2 * step)


@pytest.mark.parametrize("name", list(OPTIONS_AT_WORK))
@pytest.mark.slow
def test_score_of_simulated_steps_has_mean_zero(name):
    family = model_named(name, MODELS)
    base = PLAIN.get(name.replace("*", "+").partition("+")[0], {})
    theta = {**base, **OPTIONS_AT_WORK[name]}
    # A mean flow is drawn once for each data set: many small ones.
    n_sets, n_particles = (200, 20) if "flow" in theta else (30, 400)
    size = {"n_particles": n_particles, "n_steps": 4, "n_dim": 2, "tau": TAU}
    simulate = eqx.filter_jit(lambda key: family(**theta).simulate(key, **size))
    scores = []
    for seed in range(n_sets):
        x = np.asarray(simulate(jax.random.key(seed)))
        data = Displacements.from_array(np.diff(x, axis=1), TAU, start=x[:, 0])
        scores.append([slope(family, theta, name, data) for name in theta])
    scores = np.array(scores)
    error = scores.std(axis=0, ddof=1) / np.sqrt(n_sets)
    assert (error > 0).all()
    assert (np.abs(scores.mean(axis=0)) < 5 * error).all()


# --- Names and refusals ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("levy", "unknown model 'levy'; known are brownian, langevin"),
        ("langevin+fog", r"unknown option 'fog' in 'langevin\+fog'; known are blur, noise"),
        ("langevin+noise+noise", "'noise' is repeated in"),
        ("langevin+scatter+student", "'scatter' and 'student' cannot be combined"),
        ("langevin+mean+scatter", "'mean' and 'scatter' cannot be combined"),
        ("langevin+linear+mean", "'mean' and 'linear' cannot be combined"),
        ("langevin+linear+student", "'linear' and 'student' cannot be combined"),
        ("brownian+linear*2", "with noise or blur at most"),
        ("langevin+anisotropic+student", "'anisotropic' and 'student' cannot be combined"),
        ("langevin+anisotropic+noise", "the same on all axes cannot be combined with a tensor"),
        ("langevin+student+blur", "'student' needs a model with a state-space form"),
        ("fractional+student", "'student' needs a model with a state-space form"),
        ("langevin+scatter+noise", "'scatter' scales all of the covariance, noise included"),
        ("brownian*", "a whole number of classes after the star"),
        ("brownian*two", "a whole number of classes after the star"),
        ("brownian+mean*2", "with noise or blur at most"),
        ("brownian*1", "a mixture needs two classes or more, got 1"),
    ],
)
def test_names_that_stand_for_no_model_are_refused(text, message):
    with pytest.raises(DriftbayesError, match=message):
        model_named(text, MODELS)


def test_order_of_options_does_not_matter():
    one, other = (model_named(f"langevin+{o}", MODELS) for o in ("mean+noise", "noise+mean"))
    assert one is other


@pytest.mark.parametrize("name", ["langevin+anisotropic", "langevin+anisotropic+mean"])
def test_errors_of_positions_are_refused_by_a_tensor(name):
    data = dataclasses.replace(regular(), position_sd=np.full(21, 0.1))
    model = named(name, **LANGEVIN, **OPTIONS_AT_WORK[name])
    with pytest.raises(DriftbayesError, match="cannot take errors of positions"):
        model.log_likelihood(data)


def test_errors_of_positions_are_refused_by_scatter():
    data = dataclasses.replace(regular(), position_sd=np.full(21, 0.1))
    with pytest.raises(DriftbayesError, match="cannot take errors of positions"):
        named("langevin+scatter", scatter=0.5, **LANGEVIN).log_likelihood(data)


@pytest.mark.parametrize(
    "name", ["langevin+scatter", "langevin*2", "langevin+mean", "langevin+linear"]
)
def test_what_the_dense_engine_does_not_know_is_refused(name):
    model = named(name, **LANGEVIN, **OPTIONS_AT_WORK[name])
    with pytest.raises(DriftbayesError, match="the dense engine does not know"):
        model.log_likelihood(regular(), engine="dense")
    with pytest.raises(DriftbayesError, match="takes no noise_sd with these data; add the option"):
        model.log_likelihood(regular(), noise_sd=0.1)


# --- Fixed parameters --------------------------------------------------------------------------


@pytest.mark.sampled(3)
@pytest.mark.parametrize("prior", [Exponential(2.0), Gamma(2.0, 1.5), LogNormal(1.0, 1.0)])
def test_evidence_with_gamma_fixed_is_an_integral_over_k(prior):
    data = regular(n_particles=10)
    hypothesis = Hypothesis(Langevin, gamma=Fixed(0.8), k=prior)
    found = evidence(hypothesis, data)

    def log_f(k):
        log_prior = float(prior.log_density(np.asarray(k)))
        return Langevin(gamma=0.8, k=k).log_likelihood(data) + log_prior

    peak = log_f(found.map["k"])
    value, _ = quad(lambda k: np.exp(log_f(k) - peak), 0.2, 5.0, epsrel=1e-11, limit=200)
    assert_allclose(found.log_evidence, peak + np.log(value), atol=1e-7)
    assert hypothesis.names == ("k",)
    assert found.priors["gamma"] == "fixed:0.8"


def test_order_of_parameters_is_the_models():
    data = regular()
    priors = {"sigma": Exponential(0.2), "kappa": Exponential(1.0)}
    family = model_named("brownian+noise", MODELS)
    one = Hypothesis(family, **priors)
    other = Hypothesis(family, **dict(reversed(priors.items())))
    assert one.names == other.names == ("kappa", "sigma")
    # Passing through JAX sorts the keys of a dict; the order of θ must survive.
    through = jax.tree.map(lambda leaf: leaf, one)
    assert through.names == one.names
    found = [evidence(h, data) for h in (one, other, through)]
    assert found[0].log_evidence == found[1].log_evidence == found[2].log_evidence
    assert found[0].map == found[1].map


def test_toeplitz_row_of_noise_is_that_of_the_formula():
    model = named("brownian+noise", kappa=1.3, sigma=0.5)
    row = autocovariance(model, np.arange(3.0), TAU)
    assert_allclose(toeplitz(row)[0], [2 * 1.3 * TAU + 0.5, -0.25, 0.0])
