"""Every model with every chain of options on every kind of data: one dense Gaussian reference.

The reference knows of a model only its mean square displacement without options. Blur is an
integral by quadrature, noise a diagonal, a flow a covariance of low rank, a tensor a Kronecker
product, all in NumPy.
"""

from functools import cache
from itertools import pairwise, product

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import block_diag, expm, solve_triangular
from scipy.special import gammaln, logsumexp

from driftbayes.data._sampling import Displacements
from driftbayes.errors import DriftbayesError
from driftbayes.inference import Hypothesis
from driftbayes.inference._formulas import Rows, finish
from driftbayes.models import MODELS, model_named
from driftbayes.priors import Exponential, Fixed
from sums_of import density_of, derived

TAU, RTOL = 0.7, 1e-8
# Tolerance of Monte Carlo tests, in standard errors.
FIVE_SIGMA = 5.0
THETA = {
    "gamma": 0.8,
    "k": 1.3,
    "kappa": 1.1,
    "hurst": 0.35,
    "reference": 2.0,
    "accel": 3.0,
    "omega": 1.7,
    "well": 0.4,
    "smoothness": 0.9,
    "ratio": 0.2,
    "share": 0.3,
    "exposure": 0.45,
    "sigma": 0.3,
    "flow": 0.6,
    "gradient": 0.2,
    "scatter": 0.7,
    "tail": 0.2,
    "h1": 0.5,
    "h2": -0.8,
    # Of the second class of a mixture.
    "gamma_2": 2.0,
    "hurst_2": 0.6,
    "reference_2": 2.0,
    "accel_2": 5.0,
    "omega_2": 0.9,
    "well_2": 0.8,
    "smoothness_2": 1.4,
    "exposure_2": 0.45,
    "sigma_2": 0.5,
    "ratio_2": 0.35,
    "share_2": 0.4,
    "class_ratio_2": 0.45,
    "class_share_2": 0.25,
}
LAST = ("", "+anisotropic", "+mean", "+linear", "+anisotropic+mean", "+anisotropic+linear")
CHAINS = [
    f"{blur}{noise}{last}"
    for blur, noise, last in product(
        ("", "+blur"), ("", "+noise"), (*LAST, "+scatter", "+student", "*2")
    )
]
# One of each kind: closed forms, matrix exponentials, no state-space form.
QUICK = {
    ("brownian", "+blur+linear"),
    ("fractional", "+anisotropic"),
    ("langevin", "+noise+mean"),
}
CASES = [
    pytest.param(
        model, chain, id=model + chain, marks=() if (model, chain) in QUICK else pytest.mark.slow
    )
    for model in MODELS
    for chain in CHAINS
]


def data_of(kind):
    """Two trajectories, the first of two runs; in `gaps` and `irregular` steps differ."""
    rng = np.random.default_rng(5)
    row_sizes = np.array([4, 2, 3])
    n, m = row_sizes.sum(), row_sizes.sum() + 3
    interval = np.full(n, TAU)
    if kind == "gaps":
        interval = TAU * np.array([1, 1, 3, 1, 1, 2, 1, 1, 1.0])
    if kind == "irregular":
        interval = rng.uniform(0.5, 2.0, size=n)
    return Displacements(
        dx=rng.normal(size=(n, 2)),
        interval=interval,
        row_sizes=row_sizes,
        trajectory=np.array([0, 0, 1]),
        tau=TAU,
        position_sd=rng.uniform(0.1, 0.5, size=m) if kind == "errors" else None,
        start=rng.normal(size=(3, 2)),
    )


# --- The reference -----------------------------------------------------------------------------


# Compiled once per model and shape.
spread_of = eqx.filter_jit(lambda base, t: base.mean_square_displacement(t))
first_autocovariances = eqx.filter_jit(
    lambda model, n: model.first_autocovariances(n, jnp.asarray(TAU))
)
autocovariance = eqx.filter_jit(
    lambda model, lags: model.increment_autocovariance(lags, jnp.asarray(TAU))
)


def spread(base, exposure):
    """Mean square displacement, blurred by quadrature over both exposures."""

    def m(t):
        # Always as many times: the same program for runs of all lengths.
        padded = np.pad(np.ravel(t), (0, 120 - np.size(t)))
        return np.asarray(spread_of(base, padded))[: np.size(t)].reshape(np.shape(t))

    if not exposure:
        return m
    nodes, weights = np.polynomial.legendre.leggauss(120)
    v = 0.5 * (1 + nodes)
    # Crowded at both ends of each panel, where a power of time is not smooth.
    place, weight = v**3 * (10 - 15 * v + 6 * v**2), 0.5 * weights * 30 * v**2 * (1 - v) ** 2

    def mean(t):
        edges = np.unique([-exposure, -min(t, exposure), 0.0, exposure])
        total = 0.0
        for low, high in pairwise(edges):
            s = low + (high - low) * place
            value = m(np.abs(t + s))
            total += (high - low) * np.sum(weight * (exposure - np.abs(s)) * value)
        return total / exposure**2

    rest = mean(0.0)

    def blurred(t):
        # Each time once: of regular steps most are alike.
        times, place = np.unique(t, return_inverse=True)
        return np.array([mean(s) - rest if s > 0 else 0.0 for s in times])[place].reshape(t.shape)

    return blurred


def covariances(base, theta, data):
    """Covariance of the steps of one axis, run by run."""
    m = spread(base, theta.get("exposure", 0.0))
    blocks, start = [], 0
    for run, n in enumerate(data.row_sizes):
        times = np.concatenate([[0.0], np.cumsum(data.interval[start : start + n])])
        apart = np.abs(times[:, None] - times)
        errors = np.full(n + 1, theta.get("sigma", 0.0) ** 2)
        if data.position_sd is not None:
            errors = errors + data.position_sd[start + run : start + run + n + 1] ** 2
        positions = -0.5 * m(apart) + np.diag(errors)
        blocks.append(np.diff(np.diff(positions, axis=0), axis=1))
        start += n
    return blocks


def gaussian(covariance, x):
    """Ln density of independent columns."""
    factor = np.linalg.cholesky(covariance)
    white = solve_triangular(factor, x, lower=True)
    n = len(x) * x.shape[1]
    log_det = 2 * x.shape[1] * np.sum(np.log(np.diag(factor)))
    return -0.5 * (n * np.log(2 * np.pi) + log_det + np.sum(white**2))


def by_trajectory(blocks, data):
    """Covariance and steps of each trajectory."""
    ends = np.cumsum(data.row_sizes)
    for who in np.unique(data.trajectory):
        runs = np.flatnonzero(data.trajectory == who)
        x = np.concatenate([data.dx[ends[r] - data.row_sizes[r] : ends[r]] for r in runs])
        yield block_diag(*(blocks[r] for r in runs)), x


def flow_covariance(theta, data):
    """What an unknown flow adds, for each axis."""
    if "flow" not in theta:
        return np.zeros((len(data.interval), len(data.interval)))
    added = theta["flow"] ** 2 * np.outer(data.interval, data.interval)
    if "gradient" in theta:
        begins = []
        for start, steps in zip(
            data.start, np.split(data.dx, np.cumsum(data.row_sizes)[:-1]), strict=True
        ):
            begins.append(start + np.cumsum(steps, axis=0) - steps)
        begin = np.concatenate(begins)
        for axis in (begin - begin.mean(axis=0)).T:
            column = axis * data.interval
            added = added + theta["gradient"] ** 2 * np.outer(column, column)
    return added


def expected(name, chain, theta, data):
    base = MODELS[name](**{n: theta[n] for n in MODELS[name].parameters})
    blocks = covariances(base, theta, data)
    if "*2" in chain:
        return mixture(name, theta, data)
    if "scatter" in chain:
        return sum(student_t(*one, theta["scatter"] ** -2) for one in by_trajectory(blocks, data))
    whole = block_diag(*blocks)
    if "student" in chain:
        return heavy_tails(blocks, data, 1 / theta["tail"])
    shape = np.eye(2)
    if "anisotropic" in chain:
        a, b = theta["h1"], theta["h2"]
        shape = expm(np.array([[a, b], [b, -a]]) / np.sqrt(2))
    covariance = np.kron(whole, shape) + np.kron(flow_covariance(theta, data), np.eye(2))
    return gaussian(covariance, data.dx.reshape(-1, 1))


def mixture(name, theta, data):
    scale = MODELS[name].scale_parameter
    own = "class_" if "ratio" in MODELS[name].parameters else ""
    second = {n.removesuffix("_2"): v for n, v in theta.items() if n.endswith("_2")}
    second[scale] = theta[scale] * theta[f"{own}ratio_2"]
    if own:
        second |= {"ratio": theta["ratio_2"], "share": theta["share_2"]}
    weight = theta[f"{own}share_2"]
    logs = []
    for log_weight, values in ((np.log1p(-weight), theta), (np.log(weight), second)):
        base = MODELS[name](**{n: values[n] for n in MODELS[name].parameters})
        # Noise and blur are in a class if they are in the model.
        extra = {n: values[n] for n in ("sigma", "exposure") if n in theta}
        blocks = covariances(base, extra, data)
        logs.append([log_weight + gaussian(*one) for one in by_trajectory(blocks, data)])
    return np.sum(logsumexp(logs, axis=0))


def student_t(covariance, x, a):
    """A scale k/g for all steps of a trajectory, g ~ Gamma(a, a), integrated out."""
    white = np.linalg.solve(np.linalg.cholesky(covariance), x)
    n, log_det = x.size, x.shape[1] * np.linalg.slogdet(covariance)[1]
    return (
        gammaln(a + n / 2)
        - gammaln(a)
        - 0.5 * (n * np.log(2 * np.pi * a) + log_det)
        - (a + n / 2) * np.log1p(np.sum(white**2) / (2 * a))
    )


def heavy_tails(blocks, data, nu):
    total, start, d = 0.0, 0, data.n_dim
    for block in blocks:
        factor = np.linalg.cholesky(block)
        white = np.linalg.solve(factor, data.dx[start : start + len(block)])
        total += np.sum(
            gammaln((nu + d) / 2)
            - gammaln(nu / 2)
            - 0.5 * d * np.log(np.pi * (nu - 2))
            - d * np.log(np.diag(factor))
            - 0.5 * (nu + d) * np.log1p(np.sum(white**2, axis=1) / (nu - 2))
        )
        start += len(block)
    return total


# --- The contract ------------------------------------------------------------------------------


@cache
def family(text):
    try:
        return model_named(text, MODELS, 2)
    except DriftbayesError:
        return None


@pytest.mark.parametrize(("name", "chain"), CASES)
def test_every_chain_of_options_has_the_density_of_the_dense_reference(name, chain):
    model = family(name + chain)
    if model is None:
        pytest.skip("refused by name")
    theta = {n: THETA[n] for n in model.parameters}
    for kind in ("regular", "gaps", "irregular", "errors"):
        data = data_of(kind)
        if kind == "errors" and model.exact_positions:
            with pytest.raises(DriftbayesError, match="cannot take errors of positions"):
                model(**theta).log_likelihood(data)
            continue
        reference = expected(name, chain, theta, data)
        found = model(**theta).log_likelihood(data)
        assert_allclose(found, reference, rtol=RTOL, err_msg=kind)
        for value in with_the_scale_free(model, theta, data):
            assert_allclose(value, reference, rtol=RTOL, err_msg=kind)


def with_the_scale_free(model, theta, data):
    """Ln L with every other parameter fixed, as inference computes it, and from sums."""
    scale = model.scale_parameter
    priors = {name: Fixed(value) for name, value in theta.items()}
    hypothesis = Hypothesis(model, **{**priors, scale: Exponential(mean=1.0)})
    density, point = density_of(hypothesis, data), np.array([[theta[scale]]])
    engine = density.engine
    sums = engine.sums(Rows(hypothesis, point))
    # Of models that judge trajectories by themselves, this is another formula.
    found = finish(hypothesis, point, sums, engine)
    return density.terms(point)[0][0], found[0][0]


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("name", MODELS)
def test_no_two_parameters_of_a_chain_share_a_name(name, chain):
    model = family(name + chain)
    if model is None:
        pytest.skip("refused by name")
    n_base = len(MODELS[name].parameters)
    n_common = n_base + chain.count("+blur") + chain.count("+noise")
    n_own = {"anisotropic": 2, "mean": 1, "linear": 2, "scatter": 1, "student": 1}
    n_last = sum(n for option, n in n_own.items() if f"+{option}" in chain)
    n_classes = n_common + 1 if "*2" in chain else 0
    assert len(model.parameters) == n_common + n_last + n_classes


def simulated_covariance(chain, theta, shape):
    """Covariance of steps (step x axis, step x axis) that a simulation must have."""
    name = chain.split("+")[0].split("*")[0]
    base = MODELS[name](**{n: theta[n] for n in MODELS[name].parameters})
    data = Displacements.from_array(np.ones(shape), TAU)
    tensor, factor = np.eye(2), 1.0
    if "anisotropic" in chain:
        a, b = theta["h1"], theta["h2"]
        tensor = expm(np.array([[a, b], [b, -a]]) / np.sqrt(2))
    if "scatter" in chain:
        # The mean of 1/g.
        factor = 1 / (1 - theta["scatter"] ** 2)
    if "*2" in chain:
        factor = 1 + theta["share_2"] * (theta["ratio_2"] - 1)
    return factor * np.kron(covariances(base, theta, data)[0], tensor)


@pytest.mark.parametrize(
    "chain",
    [
        "brownian+blur+noise",
        pytest.param("oscillating+blur", marks=pytest.mark.slow),
        pytest.param("langevin+blur+anisotropic", marks=pytest.mark.slow),
        pytest.param("brownian+blur+scatter", marks=pytest.mark.slow),
        pytest.param("brownian+noise+student", marks=pytest.mark.slow),
        pytest.param("fractional+blur+noise", marks=pytest.mark.slow),
        pytest.param("matern+blur", marks=pytest.mark.slow),
        pytest.param("confined+blur", marks=pytest.mark.slow),
        pytest.param("confined_brownian+blur", marks=pytest.mark.slow),
        pytest.param("two_scale+blur", marks=pytest.mark.slow),
        pytest.param("second_order+blur", marks=pytest.mark.slow),
        pytest.param("brownian*2", marks=pytest.mark.slow),
    ],
)
def test_simulated_steps_have_the_covariance_of_the_density(chain):
    model = family(chain)
    # A scatter of which the fourth moment exists.
    theta = {n: THETA[n] for n in model.parameters} | (
        {"scatter": 0.4} if "scatter" in chain else {}
    )
    n_particles, n_steps = 20_000, 4
    x = model(**theta).simulate(
        jax.random.key(3), n_particles=n_particles, n_steps=n_steps, n_dim=2, tau=TAU
    )
    dx = np.diff(np.asarray(x), axis=1).reshape(n_particles, -1)
    products = dx[:, :, None] * dx[:, None, :]
    error = products.std(axis=0) / np.sqrt(n_particles)
    wanted = simulated_covariance(chain, theta, (1, n_steps, 2))
    assert (np.abs(products.mean(axis=0) - wanted) < FIVE_SIGMA * error).all()


def test_classes_with_noise_tell_their_scales():
    model = family("brownian+noise*2")(
        **{n: THETA[n] for n in family("brownian+noise*2").parameters}
    )
    found = derived(model, data_of("regular"))
    assert_allclose(found["kappa_1"], THETA["kappa"])
    assert_allclose(found["kappa_2"], THETA["kappa"] * THETA["ratio_2"])
    assert_allclose(found["weight_2"], THETA["share_2"])


def test_a_blurred_tensor_tells_its_components():
    model = family("brownian+blur+anisotropic")
    found = derived(model(**{n: THETA[n] for n in model.parameters}), data_of("regular"))
    a, b = THETA["h1"], THETA["h2"]
    tensor = THETA["kappa"] * expm(np.array([[a, b], [b, -a]]) / np.sqrt(2))
    assert_allclose([found["K_11"], found["K_12"], found["K_22"]], tensor[[0, 0, 1], [0, 1, 1]])


def test_autocovariance_of_blurred_steps_is_that_at_the_lags_asked_for():
    model = family("langevin+blur")(gamma=0.8, k=1.3, exposure=0.45)
    row = np.asarray(first_autocovariances(model, 6))
    found = autocovariance(model, np.array([5.0, 0.0, 2.0]))
    assert_allclose(found, row[[5, 0, 2]], rtol=1e-12)


def test_a_fast_oscillation_is_blurred_exactly():
    # ∫∫ over both exposures of r(t) = u² e^{-γt} cos Ωt, by its complex rate.
    gamma, omega, k, exposure = 0.01, 30.0, 1.3, 0.7
    rate = complex(gamma, -omega)
    scale = k * (gamma**2 + omega**2) / gamma
    blur, step = (-np.expm1(-rate * t) / (rate * t) for t in (exposure, TAU))
    lags = np.arange(2, 6)
    # From the end of one exposure to the start of the other, both steps and both exposures.
    between = np.exp(-rate * (lags * TAU - TAU - exposure))
    wanted = (scale * TAU**2 * blur**2 * step**2 * between).real
    model = family("oscillating+blur")(gamma=gamma, omega=omega, k=k, exposure=exposure)
    found = np.asarray(first_autocovariances(model, 6))
    assert_allclose(found[2:], wanted, rtol=1e-9, atol=1e-12 * found[0])


@pytest.mark.parametrize("kind", ["regular", "gaps", "errors"])
def test_an_exposure_longer_than_a_step_is_refused(kind):
    model = family("brownian+blur")(kappa=1.0, exposure=2 * TAU)
    with pytest.raises(DriftbayesError, match="longer than the shortest step"):
        model.log_likelihood(data_of(kind))
    with pytest.raises(DriftbayesError, match="longer than the shortest step"):
        model.simulate(jax.random.key(0), n_particles=1, n_steps=2, n_dim=1, tau=TAU)


@pytest.mark.parametrize("n_steps", [100, 300])
@pytest.mark.parametrize("half_periods", [0.99, 1.97])
def test_a_weakly_damped_acceleration_is_remembered_for_as_long_as_it_lasts(half_periods, n_steps):
    # Sampled near its half period or period, with γa = ω²: 31 steps would lose up to 5 nats.
    accel, tau, k, omega = 0.01, 1.0, 1.0, half_periods * np.pi
    gamma = omega**2 / accel
    rate = 0.5 * accel - 1j * np.sqrt(omega**2 - 0.25 * accel**2)
    # r = Re c e^{-rate t}, with r(0) = kγ and r'(0) = 0.
    c = k * gamma * (1 + 1j * rate.real / rate.imag)
    jump = -np.expm1(-rate * tau)
    row = (c * (jump / rate) ** 2 * np.exp(-rate * tau * (np.arange(n_steps) - 1.0))).real
    row[0] = (2 * c * (tau / rate - jump / rate**2)).real
    covariance = row[np.abs(np.subtract.outer(np.arange(n_steps), np.arange(n_steps)))]
    rng = np.random.default_rng(0)
    x = np.linalg.cholesky(covariance) @ rng.normal(size=(n_steps, 2))
    model = MODELS["second_order"](gamma=gamma, accel=accel, k=k)
    found = model.log_likelihood(Displacements.from_array(x[None], tau))
    assert_allclose(found, gaussian(covariance, x), rtol=1e-8)
