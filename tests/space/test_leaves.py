"""The evidence of a cell is that of its steps, each given those before it."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.stats import multivariate_normal

from driftbayes import Displacements, DriftbayesError, compare_hypotheses
from driftbayes._kernels.scales import N_MOMENTS, integrate_scales
from driftbayes.comparison import make_hypotheses
from driftbayes.data._sampling import ragged_arange
from driftbayes.inference import Hypothesis
from driftbayes.inference._scale import GammaForm, log_scale_evidence
from driftbayes.models import MODELS, model_named
from driftbayes.priors import Exponential, LogNormal
from driftbayes.space import _batched as batched
from driftbayes.space import _leaves as leaves
from driftbayes.space._grouped import leaf_window
from driftbayes.space._leaves import solve_leaves
from driftbayes.space._moments import prediction_filters, step_moments

TAU = 0.5


def hypothesis(name):
    return make_hypotheses([name], u_rms=1.0, timescale=1.0).hypotheses[0]


def steps(sizes=(12, 3, 1, 9), seed=0):
    """Correlated steps in runs of several lengths."""
    rng = np.random.default_rng(seed)
    parts = []
    for size in sizes:
        noise = rng.normal(size=(size + 1, 2))
        parts.append(0.4 * noise[1:] + 0.25 * noise[:-1] + 0.1)
    return np.concatenate(parts), np.array(sizes)


def moments(name, labels=None, **how):
    dx, sizes = steps(**how)
    labels = np.zeros(len(dx), int) if labels is None else labels
    window = leaf_window(hypothesis(name), int(sizes.max()))
    apart = "anisotropic" in name
    return step_moments(dx, ragged_arange(sizes), labels, window, TAU, apart=apart)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "name", ["brownian", "langevin", "brownian+mean", "langevin+mean", "brownian+anisotropic+mean"]
)
def test_all_steps_together_have_the_evidence_of_a_comparison(name):
    dx, sizes = steps(sizes=(30, 14, 2, 1))
    own = hypothesis(name)
    window = leaf_window(own, 30)
    sums = step_moments(
        dx, ragged_arange(sizes), np.zeros(len(dx), int), window, TAU, apart="aniso" in name
    )
    found = solve_leaves(own, sums)
    data = _displacements(dx, sizes)
    record = compare_hypotheses([own], data)[name]
    # Steps are predicted from nine earlier ones, where the comparison takes all.
    assert_allclose(found.log_evidence[0], record.log_evidence, atol=1e-4)
    for i, quantity in enumerate(found.quantities):
        if quantity.name in record.parameters:
            known = record.parameters[quantity.name]
            assert_allclose(found.mean[i, 0], known.mean, rtol=1e-4)
            assert_allclose(found.sd[i, 0], known.sd, rtol=1e-3)
        elif quantity.name == "memory_time":
            known = record.parameters["gamma"]
            assert_allclose(found.mean[i, 0], -known.log_mean, atol=1e-4)
            assert_allclose(found.sd[i, 0], known.log_sd, rtol=1e-3)


def _displacements(dx, sizes):
    return Displacements(
        dx=dx,
        interval=np.full(len(dx), TAU),
        row_sizes=sizes,
        trajectory=np.arange(len(sizes)),
        tau=TAU,
    )


def test_a_cell_by_brute_force():
    """Langevin with a mean flow in a cell of three steps: dense matrices, a grid in two parameters.

    Two of the steps follow each other, a third has nine before it that count.
    """
    dx, _ = steps()
    inside = [4, 5, 10]
    labels = np.ones(len(dx), int)
    labels[inside] = 0
    own = hypothesis("langevin+mean")
    found = solve_leaves(own, moments("langevin+mean", labels))
    flow = float(own.priors["flow"].value)
    scale = {name: float(own.priors[name].scale) for name in ("gamma", "k")}

    def log_density(gamma, k):
        # Steps of the run up to nine before each, as one Gaussian vector.
        lags = np.arange(12)
        e = np.exp(-gamma * TAU)
        cov = k / gamma * (1 - e) ** 2 * np.exp(-gamma * TAU * (lags - 1))
        cov[0] = 2 * k * (TAU - (1 - e) / gamma)
        whole = cov[np.abs(np.subtract.outer(lags, lags))]
        residual, regressor, variances = [], [], []
        for n in inside:
            before = np.arange(max(n - 9, 0), n)
            weights = np.linalg.solve(whole[np.ix_(before, before)], whole[before, n])
            residual.append(dx[n] - weights @ dx[before])
            regressor.append(TAU * (1 - weights.sum()))
            variances.append(whole[n, n] - weights @ whole[before, n])
        spread = np.diag(variances) + flow**2 * np.outer(regressor, regressor)
        law = multivariate_normal(np.zeros(3), spread)
        return sum(law.logpdf(np.array(residual)[:, axis]) for axis in (0, 1))

    z = np.linspace(-7, 4.5, 45), np.linspace(-6, 4, 45)
    values = np.empty((45, 45))
    for i, a in enumerate(z[0]):
        for j, b in enumerate(z[1]):
            gamma, k = np.exp(a) * scale["gamma"], np.exp(b) * scale["k"]
            # Exponential priors, in logarithms.
            values[i, j] = log_density(gamma, k) + a - np.exp(a) + b - np.exp(b)
    log_z = np.logaddexp.reduce(values.ravel()) + np.log((z[0][1] - z[0][0]) * (z[1][1] - z[1][0]))
    assert_allclose(found.log_evidence[0], log_z, atol=2e-3)
    weights = np.exp(values - values.max())
    weights /= weights.sum()
    names = [quantity.name for quantity in found.quantities]
    k_mean = np.sum(weights * np.exp(z[1])[None, :]) * scale["k"]
    assert_allclose(found.mean[names.index("k"), 0], k_mean, rtol=2e-3)


@pytest.mark.parametrize("name", ["brownian+mean", "langevin+mean", "langevin"])
def test_batched_and_separate_solutions_agree(name, monkeypatch):
    dx, sizes = steps(sizes=(20, 11, 2))
    labels = np.random.default_rng(3).integers(0, 3, len(dx))
    sums = moments(name, labels, sizes=(20, 11, 2))
    if "mean" in name:
        sums = step_moments(dx, ragged_arange(sizes), labels, sums.window, TAU, apart=True)
    fast = solve_leaves(hypothesis(name), sums)
    monkeypatch.setattr(leaves, "solve_batched", lambda *_: None)
    slow = solve_leaves(hypothesis(name), sums)
    assert_allclose(fast.log_evidence, slow.log_evidence, atol=1e-5)
    for i, quantity in enumerate(fast.quantities):
        # Of a flow the general methods give what holds at the mode of the other parameters.
        if not quantity.name.startswith("flow"):
            assert_allclose(fast.mean[i], slow.mean[i], rtol=1e-3, atol=1e-3)
            assert_allclose(fast.sd[i], slow.sd[i], rtol=1e-2)


def test_another_prior_takes_the_general_way():
    own = Hypothesis(model_named("brownian", MODELS), kappa=LogNormal(1.0, 1.0))
    assert not batched.is_fast(own)
    found = solve_leaves(own, moments("brownian"))
    record = compare_hypotheses([own], _displacements(*steps()))["brownian"]
    assert_allclose(found.log_evidence[0], record.log_evidence, atol=1e-6)


def test_sums_of_parts_are_those_of_the_whole():
    dx, sizes = steps(sizes=(40, 17))
    labels = np.sort(np.random.default_rng(1).integers(0, 5, len(dx)))
    earlier = ragged_arange(sizes)
    parts = step_moments(dx, earlier, labels, 8, TAU, apart=True)
    whole = step_moments(dx, earlier, np.zeros(len(dx), int), 8, TAU, apart=True)
    merged = parts.merged(np.array([0, 1]), np.array([5, 3]))
    assert_allclose(merged.squares[0], whole.squares[0], atol=1e-12)
    assert_allclose(merged.sums[0], whole.sums[0], atol=1e-12)
    assert_allclose(merged.counts[1], parts.counts[1] + parts.counts[2])
    for window in (1, 3):
        short = step_moments(dx, earlier, labels, window, TAU, apart=True)
        assert_allclose(parts.shortened(window).squares, short.squares, atol=1e-12)
        assert_allclose(parts.shortened(window).sums, short.sums, atol=1e-12)
        assert_allclose(parts.shortened(window).counts, short.counts)
    together = step_moments(dx, earlier, labels, 8, TAU, apart=False)
    assert_allclose(parts.total, together.total, atol=1e-12)


def test_filters_are_those_of_dense_matrices():
    lags = np.arange(6)
    covariance = np.exp(-0.3 * lags) + 0.2 * (lags == 0)
    filters, variances = prediction_filters(covariance[None])
    whole = covariance[np.abs(np.subtract.outer(lags, lags))]
    for n in range(1, 6):
        weights = np.linalg.solve(whole[:n, :n], whole[:n, n])[::-1]
        assert_allclose(filters[0, n, 1 : n + 1], -weights, atol=1e-13)
        assert_allclose(variances[0, n], whole[n, n] - weights[::-1] @ whole[:n, n], rtol=1e-13)


def scales(n, quadratic, seen, weight, prior):
    out = np.empty((1, N_MOMENTS))
    one = [np.array([float(v)]) for v in (n, quadratic, seen, weight)]
    integrate_scales(*one, np.array(prior, dtype=float), False, out)
    return out[0]


@pytest.mark.parametrize(("n", "quadratic"), [(2, 0.3), (40, 55.0), (2e6, 3e6), (2, 1e-6)])
def test_without_a_flow_the_scale_is_a_bessel_function(n, quadratic):
    found = scales(n, quadratic, 0.0, 0.0, (2, 0.0, 1.0, 0.5))
    form = GammaForm(1.0, 0.5, 0.0)
    known = log_scale_evidence(np.array(float(n)), np.array(0.0), np.array(quadratic), form)
    constant = 0.5 * n * np.log(2 * np.pi)
    assert_allclose(found[0], known + constant, rtol=1e-10, atol=1e-7)


@pytest.mark.parametrize(
    ("n", "quadratic", "seen", "weight", "variance"),
    [(2, 1.7, 1.7 * 0.4, 0.4, 3.0), (30, 25.0, 60.0, 6.0, 0.5), (300, 1e4, 9.99e5, 100.0, 200.0)],
)
def test_with_a_flow_the_integral_is_that_of_a_quadrature(n, quadratic, seen, weight, variance):
    d, shape, rate = 2, 1.0, 0.3

    def log_f(s):
        c = np.exp(s)
        y = variance * weight / c
        form = quadratic - seen / weight * y / (1 + y)
        return -0.5 * (n * s + form / c + d * np.log1p(y)) + shape * s - rate * c

    s = np.linspace(-30, 15, 200_001)
    peak = s[np.argmax(log_f(s))]
    top = log_f(peak)

    def integral(of):
        return quad(
            lambda t: np.exp(log_f(t) - top) * of(np.exp(t)),
            *(peak - 25, peak + 12),
            points=[peak],
            limit=1000,
            epsabs=1e-13,
        )[0]

    total = integral(lambda _: 1.0)
    found = scales(n, quadratic, seen, weight, (d, variance, shape, rate))
    assert_allclose(found[0], top + np.log(total), atol=1e-7)
    assert_allclose(found[1], integral(lambda c: c) / total, rtol=1e-6)

    def ratio(c):
        return (variance / c) / (1 + variance * weight / c)

    assert_allclose(found[5], integral(ratio) / total, rtol=1e-6)
    assert_allclose(found[7], integral(lambda c: c * ratio(c)) / total, rtol=1e-6)


def test_steps_that_are_all_equal_have_no_finite_evidence():
    dx = np.full((4, 2), 0.3)
    sums = step_moments(dx, np.arange(4), np.zeros(4, int), 1, TAU, apart=False)
    with pytest.raises(DriftbayesError, match=r"brownian\+mean fits the 4 steps of a cell exactly"):
        solve_leaves(hypothesis("brownian+mean"), sums)
    still = step_moments(0 * dx, np.arange(4), np.zeros(4, int), 1, TAU, apart=False)
    with pytest.raises(DriftbayesError, match="positions are equal or rounded"):
        solve_leaves(hypothesis("brownian"), still)
    one = step_moments(dx[:1], np.arange(1), np.zeros(1, int), 1, TAU, apart=False)
    assert np.isfinite(solve_leaves(hypothesis("brownian+mean"), one).log_evidence).all()


def test_models_that_need_more_are_refused():
    for name in ("brownian+linear", "langevin+scatter", "langevin+student"):
        with pytest.raises(DriftbayesError, match="cannot take"):
            leaf_window(hypothesis(name), 10)
    noisy = Hypothesis(
        model_named("brownian+noise", MODELS), kappa=Exponential(1.0), sigma=Exponential(1.0)
    )
    assert leaf_window(noisy, 20) == 20
    with pytest.raises(DriftbayesError, match="--n-tau 32"):
        leaf_window(noisy, 100)
