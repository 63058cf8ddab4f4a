"""Every method on posteriors that are hard: where its status is ok its evidence is right."""

import jax
import numpy as np
import pytest
from court import LANGEVIN, langevin_data, langevin_fit, log_density, log_integral_1d, steps
from scipy.special import logsumexp
from test_draws import UNIFORM, _reference, aliased_data

from driftbayes.data._sampling import Displacements
from driftbayes.errors import Status
from driftbayes.inference import METHODS, Hypothesis, evidence
from driftbayes.models import Brownian
from driftbayes.priors import Exponential, Uniform

# Laplace's method has no error; its two forms agree to this where it is ok.
LAPLACE = 0.1


def _brownian(prior, low, high):
    """ln Z by the midpoint rule in κ itself, which does not count the ends."""
    x = langevin_data(1.0).as_array().ravel()

    def log_f(kappa):
        fit = -0.5 * (len(x) * np.log(4 * np.pi * kappa) + (x @ x) / (2 * kappa))
        return fit + log_density(prior, kappa)

    half = 0.5 * (high - low) / 400_000
    return log_integral_1d(log_f, low + half, high - half, 400_000)


def _langevin(dx, tau):
    """ln Z by the trapezoid rule in ln γ and ln k."""
    u, v = np.linspace(-14, 5, 381), np.linspace(-9, 4, 521)
    joint = np.array([langevin_fit(dx, tau, np.exp(a))(v) for a in u])
    joint += (u - np.exp(u))[:, None] + (v - np.exp(v))
    return logsumexp(joint) + np.log((u[1] - u[0]) * (v[1] - v[0]))


def _two_modes():
    data = aliased_data(300)
    return UNIFORM, data, _reference(data, "uniform").log_evidence


def _at_bound():
    prior = Uniform(0.0, 0.05)
    hypothesis = Hypothesis(Brownian, kappa=prior)
    return hypothesis, langevin_data(1.0), _brownian(prior, 1e-4, 0.05)


def _conflict():
    prior = Exponential(mean=1e-3)
    hypothesis = Hypothesis(Brownian, kappa=prior)
    return hypothesis, langevin_data(1.0), _brownian(prior, 1e-3, 1.0)


def _flat():
    dx = np.array([[[0.3]]])
    return LANGEVIN, Displacements.from_array(dx, 1.0), _langevin(dx, 1.0)


def _slow_tail():
    return LANGEVIN, langevin_data(50.0), _langevin(steps(50.0), 50.0)


TARGETS = {
    "two-modes": _two_modes,
    "at-bound": _at_bound,
    "conflict": _conflict,
    "flat": _flat,
    "slow-tail": _slow_tail,
}


def _check(method, name):
    hypothesis, data, expected = TARGETS[name]()
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        found = evidence(
            hypothesis, data, method=method, **({} if method == "laplace" else {"seed": 1})
        )
    if found.status is Status.OK:
        error = LAPLACE if method == "laplace" else max(5 * found.log_evidence_err, 0.01)
        assert abs(found.log_evidence - expected) < error
        assert np.isfinite(found.log_evidence)
    else:
        assert found.warnings
        assert "use" in found.warnings[0] or "check" in found.warnings[0]


@pytest.mark.parametrize("name", TARGETS)
def test_quadrature_is_right_on_all_of_them(name):
    hypothesis, data, expected = TARGETS[name]()
    found = evidence(hypothesis, data, method="quadrature")
    assert found.status is Status.OK
    assert abs(found.log_evidence - expected) < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("method", [m for m in METHODS if m not in ("auto", "quadrature")])
def test_a_status_of_ok_means_a_right_evidence(method, name):
    _check(method, name)


@pytest.mark.parametrize("mean", [1e-300, 1e300])
@pytest.mark.parametrize("method", ["quadrature", "laplace", "laplace_is"])
def test_priors_beyond_all_bounds_never_give_a_number_that_is_not_one(method, mean):
    hypothesis = Hypothesis(Brownian, kappa=Exponential(mean=mean))
    found = evidence(hypothesis, langevin_data(1.0), method=method)
    if found.status is Status.OK:
        assert np.isfinite(found.log_evidence)
        assert np.isfinite(found.posterior_mean["kappa"])
        assert np.isfinite(found.posterior_quantiles["kappa"]).all()
