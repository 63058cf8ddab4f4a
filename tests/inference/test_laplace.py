"""Laplace's method: the paper's procedure, its two coordinates, and its own doubts."""

import inspect

import numpy as np
import pytest
from court import BROWNIAN, HYPOTHESES, LANGEVIN, exponential, langevin_data, steps
from numpy.testing import assert_allclose
from scipy.stats import norm

from driftbayes.data._sampling import Displacements
from driftbayes.errors import DriftbayesError, Status
from driftbayes.inference import (
    METHODS,
    QUANTILES,
    Batch,
    Hypothesis,
    evidence,
    evidence_batch,
    laplace,
    laplace_batch,
)
from driftbayes.models import Brownian, Langevin
from driftbayes.priors import Exponential, LogNormal, Uniform
from driftbayes.testing import reference

PAPER = (100, 10, 3)
both = pytest.mark.parametrize("name", HYPOTHESES)
either = pytest.mark.parametrize("coords", ["natural", "log"])


# --- The paper's procedure ---------------------------------------------------------------------


paper_sized = pytest.param(PAPER, marks=pytest.mark.slow)


@pytest.mark.parametrize(
    "tau",
    [pytest.param(0.1, marks=pytest.mark.slow), 1.0, pytest.param(10.0, marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("shape", [(10, 10, 3), paper_sized], ids=["small", "paper"])
def test_data_give_what_the_papers_procedure_gives(tau, shape):
    # Nelder-Mead and finite differences reach some 1e-6 in θ*; the agreement is theirs.
    slow = reference.laplace_evidence(steps(tau, shape), tau, "langevin", {"gamma": 1.0, "k": 1.0})
    found = evidence(LANGEVIN, langevin_data(tau, shape), method="laplace")
    assert_allclose(found.log_evidence, slow.log_evidence, atol=1e-4)
    assert_allclose(found.log_likelihood_at_map, slow.log_likelihood_map, atol=1e-4)
    assert_allclose(found.log_occam_factor, slow.log_occam, atol=1e-4)
    for name, value in slow.theta_map.items():
        assert_allclose(found.map[name], value, rtol=1e-4)
        assert_allclose(found.posterior_sd[name], slow.posterior_sd[name], rtol=1e-3)
    assert_allclose(found.posterior_cov, slow.posterior_cov, rtol=3e-3)


@pytest.mark.slow  # By hand it is done below.
def test_paper_sized_brownian_data_too():
    slow = reference.laplace_evidence(steps(1.0, PAPER), 1.0, "brownian", {"kappa": 1.0})
    found = evidence(BROWNIAN, langevin_data(1.0, PAPER), method="laplace")
    assert_allclose(found.log_evidence, slow.log_evidence, atol=1e-6)
    assert_allclose(found.map["kappa"], slow.theta_map["kappa"], rtol=1e-8)
    assert_allclose(found.posterior_sd["kappa"], slow.posterior_sd["kappa"], rtol=1e-6)


@pytest.mark.parametrize(("tau", "natural", "log"), [(0.1, -0.006, -0.001), (1.0, -0.003, -0.001)])
def test_error_at_small_tau_is_that_of_the_notes(tau, natural, log):
    batch = Batch.of(langevin_data(tau, PAPER))
    exact = evidence(LANGEVIN, batch).log_evidence
    for coords, expected in (("natural", natural), ("log", log)):
        found = laplace(LANGEVIN, batch, coords=coords)
        assert found.status is Status.OK
        assert_allclose(found.log_evidence - exact, expected, atol=0.0015)


@pytest.mark.parametrize("tau", [10.0, 50.0])
def test_large_tau_is_called_unreliable_and_is(tau):
    batch = Batch.of(langevin_data(tau, PAPER))
    exact = evidence(LANGEVIN, batch).log_evidence
    found = laplace(LANGEVIN, batch)
    assert found.status is Status.LAPLACE_UNRELIABLE
    assert found.warnings[0].startswith(
        "Laplace's method in natural and in log parameters disagrees by "
    )
    assert f"at tau = {tau:g}: trust neither, use method='auto'" in found.warnings[0]
    assert found.log_evidence < exact - 0.1


# --- By hand -----------------------------------------------------------------------------------


def brownian_by_hand(dx, tau, mean, coords):
    """Mode and curvature of -(n/2) ln κ - a/κ - κ/mean, in κ or with ln κ added and in ln κ."""
    n, a = dx.size, np.sum(dx**2) / (4 * tau)
    p = 0.5 * n - (coords == "log")
    kappa = 2 * a / (p + np.sqrt(p**2 + 4 * a / mean))
    peak = -0.5 * n * np.log(4 * np.pi * tau * kappa) - a / kappa - kappa / mean - np.log(mean)
    if coords == "log":
        curvature = a / kappa + kappa / mean
        return kappa, peak + np.log(kappa) + 0.5 * np.log(2 * np.pi / curvature), curvature**-0.5
    curvature = 2 * a / kappa**3 - 0.5 * n / kappa**2
    return kappa, peak + 0.5 * np.log(2 * np.pi / curvature), curvature**-0.5


@either
def test_brownian_case_done_by_hand(coords):
    kappa, log_evidence, sd = brownian_by_hand(steps(1.0), 1.0, 0.7, coords)
    hypothesis = exponential("brownian", kappa=0.7)
    found = evidence(hypothesis, langevin_data(1.0), method="laplace", coords=coords)
    assert_allclose(found.map["kappa"], kappa, rtol=1e-7)
    assert_allclose(found.log_evidence, log_evidence, atol=1e-8)
    quantiles = found.posterior_quantiles["kappa"]
    if coords == "natural":
        assert_allclose(found.posterior_sd["kappa"], sd, rtol=1e-6)
        assert_allclose(quantiles, norm(kappa, sd).ppf(QUANTILES), rtol=1e-6)
    else:
        assert_allclose(found.log_sd["kappa"], sd, rtol=1e-6)
        assert_allclose(quantiles, kappa * np.exp(sd * norm.ppf(QUANTILES)), rtol=1e-6)
        assert_allclose(found.posterior_mean["kappa"], kappa * np.exp(sd**2 / 2), rtol=1e-6)


@either
def test_langevin_expansion_is_that_of_finite_differences(coords):
    data = langevin_data(1.0)
    found = laplace(LANGEVIN, Batch.of(data), coords=coords)
    theta = np.array([found.map["gamma"], found.map["k"]])

    def log_density(y):
        at = y if coords == "natural" else np.exp(y)
        extra = 0.0 if coords == "natural" else np.sum(y)
        fit = LANGEVIN.at(at).log_likelihood(data)
        return float(fit + LANGEVIN.log_prior(at)) + extra

    y = theta if coords == "natural" else np.log(theta)
    peak, slope, hessian = differences(log_density, y)
    precision = -hessian
    # The gradient at the mode, in units of the posterior's width.
    assert_allclose(slope / np.sqrt(np.diag(precision)), 0.0, atol=1e-6)
    log_volume = -0.5 * np.linalg.slogdet(precision / (2 * np.pi))[1]
    assert_allclose(found.log_evidence, peak + log_volume, atol=1e-6)
    if coords == "natural":
        assert_allclose(found.posterior_cov, np.linalg.inv(precision), rtol=1e-5)
    sd = np.sqrt(np.diag(np.linalg.inv(precision)))
    log_sd = sd / theta if coords == "natural" else sd
    assert_allclose(list(found.log_sd.values()), log_sd, rtol=1e-5)


def differences(f, y, step=1e-2):
    """Value, gradient and Hessian by Richardson's extrapolation of central differences."""

    def central(h):
        e = np.diag(np.full(len(y), h))
        slope = np.array([f(y + a) - f(y - a) for a in e]) / (2 * h)
        bend = [[f(y + a + b) - f(y + a - b) - f(y - a + b) + f(y - a - b) for a in e] for b in e]
        return slope, np.array(bend) / (4 * h**2)

    coarse, fine, finest = (central(step / 2**i) for i in range(3))
    once = [
        [(4 * b - a) / 3 for a, b in zip(*pair, strict=True)]
        for pair in ((coarse, fine), (fine, finest))
    ]
    slope, bend = ((16 * b - a) / 15 for a, b in zip(*once, strict=True))
    return f(y), slope, bend


def test_lognormal_posterior_is_exact_in_log_coordinates():
    # So much data that the posterior of ln κ is Gaussian but for a skewness of a few per mille.
    data = langevin_data(1.0, (2000, 5, 1))
    hypothesis = Hypothesis(Brownian, kappa=LogNormal(median=1.0, sigma=0.5))
    one = evidence(hypothesis, data, method="laplace", coords="log")
    other = evidence(hypothesis, data)
    assert_allclose(one.log_evidence, other.log_evidence, atol=1e-4)
    assert_allclose(one.posterior_mean["kappa"], other.posterior_mean["kappa"], rtol=1e-4)


# --- Identities --------------------------------------------------------------------------------


@both
@either
def test_change_of_units_shifts_the_evidence_by_its_jacobian(name, coords):
    hypothesis, data = HYPOTHESES[name], langevin_data(1.0)
    length, time = 1e-6, 3e5
    powers = {
        parameter: length**p.length_power * time**p.time_power
        for parameter, p in hypothesis.model.parameters.items()
    }
    other = Displacements.from_array(length * data.as_array(), time)
    here = evidence(hypothesis, data, method="laplace", coords=coords)
    there = evidence(hypothesis.rescaled(powers), other, method="laplace", coords=coords)
    shift = -data.n_displacements * np.log(length)
    assert_allclose(there.log_evidence, here.log_evidence + shift, rtol=1e-10)
    assert there.status is here.status
    for parameter, power in powers.items():
        assert_allclose(there.map[parameter], power * here.map[parameter], rtol=1e-6)
        assert_allclose(
            there.posterior_sd[parameter], power * here.posterior_sd[parameter], rtol=1e-5
        )


@either
def test_batches_give_the_evidences_of_single_calls(coords):
    many = [Batch.of(langevin_data(tau)) for tau in (0.1, 1.0, 10.0)]
    together = laplace_batch([LANGEVIN], Batch.stack(many), coords=coords)
    alone = [laplace(LANGEVIN, one, coords=coords) for one in many]
    for found, expected in zip(together, alone, strict=True):
        assert_allclose(found.log_evidence, expected.log_evidence, rtol=1e-10)
        assert found.status is expected.status
        assert found.data_fingerprint == expected.data_fingerprint
    priors = [BROWNIAN.rescaled({"kappa": factor}) for factor in (0.25, 1.0, 4.0)]
    for hypothesis, found in zip(
        priors, evidence_batch(priors, many[1], method="laplace", coords=coords), strict=True
    ):
        expected = laplace(hypothesis, many[1], coords=coords)
        assert_allclose(found.log_evidence, expected.log_evidence, rtol=1e-10)


def test_mode_in_natural_coordinates_is_that_of_the_exact_record():
    batch = Batch.of(langevin_data(1.0))
    one, other = laplace(LANGEVIN, batch), evidence(LANGEVIN, batch)
    for name in one.map:
        assert_allclose(one.map[name], other.map[name], rtol=1e-7)
    assert_allclose(one.log_likelihood_at_map, other.log_likelihood_at_map, rtol=1e-12)


def test_state_space_engine_gives_the_same_expansion():
    data = langevin_data(1.0)
    one, other = (laplace(LANGEVIN, Batch.of(data, engine)) for engine in ("moments", "kalman"))
    assert_allclose(one.log_evidence, other.log_evidence, rtol=1e-10)
    assert_allclose(one.posterior_cov, other.posterior_cov, rtol=1e-5)


# --- Doubts and refusals -----------------------------------------------------------------------


@either
def test_mode_at_the_end_of_an_interval_is_refused(coords):
    hypothesis = Hypothesis(Brownian, kappa=Uniform(low=2.0, high=3.0))
    found = evidence(hypothesis, langevin_data(1.0), method="laplace", coords=coords)
    assert found.status is Status.MODE_AT_BOUND
    assert found.warnings[0] == Status.MODE_AT_BOUND.advice
    assert np.isnan(found.posterior_sd["kappa"])


def test_mode_within_an_interval_is_not():
    hypothesis = Hypothesis(Brownian, kappa=Uniform(low=0.0, high=3.0))
    found = evidence(hypothesis, langevin_data(1.0), method="laplace", coords="log")
    assert found.status is Status.OK
    assert_allclose(
        found.log_evidence, evidence(hypothesis, langevin_data(1.0)).log_evidence, atol=0.01
    )


@both
def test_data_too_small_for_floating_point_give_a_status(name):
    data = Displacements.from_array(1e-170 * steps(1.0), 1.0)
    found = evidence(HYPOTHESES[name], data, method="laplace")
    # Nothing of such data is left in floating point: where a mode is found, it is none.
    assert found.status in (Status.NOT_FINITE, Status.MAP_NOT_CONVERGED)
    assert found.warnings


def test_record_has_no_error_bar_and_says_in_which_coordinates():
    found = evidence(LANGEVIN, langevin_data(1.0), method="laplace", coords="log")
    assert (found.method, found.coords) == ("laplace", "log")
    assert np.isnan(found.log_evidence_err)
    assert found.to_json()["log_evidence_err"] is None
    assert "±" not in repr(found).split("gamma")[0]


def test_unknown_method_or_coordinates_are_refused():
    # Called without the run-time check of annotations, as a user would.
    batch = Batch.of(langevin_data(1.0))
    with pytest.raises(DriftbayesError, match="coords must be 'natural' or 'log', got 'sqrt'"):
        inspect.unwrap(laplace_batch)([LANGEVIN], batch, coords="sqrt")
    with pytest.raises(DriftbayesError, match=r"method must be one of auto, .*, got 'magic'"):
        inspect.unwrap(evidence_batch)([LANGEVIN], batch, method="magic")
    assert {"auto", "quadrature", "laplace"} <= set(METHODS)


def test_wide_prior_on_a_rate_the_data_cannot_tell_is_unreliable_in_both_coordinates():
    hypothesis = Hypothesis(
        Langevin, gamma=LogNormal(median=1.0, sigma=5.0), k=Exponential(mean=1.0)
    )
    batch = Batch.of(langevin_data(50.0))
    for coords in ("natural", "log"):
        assert laplace(hypothesis, batch, coords=coords).status is not Status.OK
