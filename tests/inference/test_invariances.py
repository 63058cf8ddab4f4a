"""What must not change the evidence, whatever the method: units, order, coordinates, portions."""

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import log_expit

from driftbayes import Displacements, Hypothesis, evidence
from driftbayes.inference import posterior_draws
from driftbayes.models import Langevin
from driftbayes.priors import AbstractPrior, Exponential
from sums_of import density_of

UNIT = Exponential(mean=1.0)
LANGEVIN = Hypothesis(Langevin, gamma=UNIT, k=UNIT)
SIGMA = 4.5
METHODS = pytest.mark.parametrize(
    "method",
    [
        pytest.param(m, marks=() if m in ("quadrature", "laplace_is") else pytest.mark.slow)
        for m in ("quadrature", "laplace_is", "bridge", "smc", "nested")
    ],
)


def EVERY(test):
    """Test every method; of the two fast ones, one by default."""
    return pytest.mark.sampled(2)(METHODS(test))


@pytest.fixture(scope="module")
def data():
    x = Langevin(gamma=1.0, k=1.0).simulate(
        jax.random.key(0), n_particles=30, n_steps=10, n_dim=2, tau=1.0
    )
    return Displacements.from_array(np.diff(np.asarray(x), axis=1), 1.0)


def _agree(one, two, shift=0.0):
    """Two evidences that differ by a known shift, within the errors that they quote."""
    error = np.hypot(one.log_evidence_err, two.log_evidence_err)
    # Rounding of values of about a thousand.
    return abs(one.log_evidence - two.log_evidence - shift) < SIGMA * error + 1e-9


@EVERY
def test_units_of_length_move_the_evidence_by_the_known_amount(method, data):
    scale = 1000.0
    other = Displacements.from_array(scale * data.as_array(), data.tau)
    wide = Hypothesis(Langevin, gamma=UNIT, k=Exponential(mean=scale**2))
    before, after = evidence(LANGEVIN, data, method=method), evidence(wide, other, method=method)
    assert _agree(before, after, shift=data.n_displacements * np.log(scale))
    for name, factor in (("gamma", 1.0), ("k", scale**2)):
        width = after.posterior_sd[name]
        assert abs(after.posterior_mean[name] - factor * before.posterior_mean[name]) < 0.3 * width


@EVERY
def test_units_of_time_do_not_move_it(method, data):
    scale = 86_400.0
    other = Displacements.from_array(data.as_array(), scale * data.tau)
    slow = Exponential(mean=1 / scale)
    hypothesis = Hypothesis(Langevin, gamma=slow, k=slow)
    assert _agree(
        evidence(LANGEVIN, data, method=method), evidence(hypothesis, other, method=method)
    )


@EVERY
def test_the_order_of_trajectories_and_axes_does_not_matter(method, data):
    turned = Displacements.from_array(data.as_array()[::-1, :, ::-1], data.tau)
    one, two = (evidence(LANGEVIN, d, method=method) for d in (data, turned))
    assert _agree(one, two)


class _InOtherCoordinates(AbstractPrior):
    """The exponential prior of mean 1, sampled in z = ln(exp θ - 1) and not in ln θ."""

    same = Exponential(mean=1.0)

    def log_density(self, theta):
        return self.same.log_density(theta)

    def quantile(self, probability):
        return self.same.quantile(probability)

    def mean(self):
        return self.same.mean()

    def log_sd(self):
        return self.same.log_sd()

    def rescaled(self, factor):
        raise NotImplementedError

    def describe(self):
        return "exponential, in other coordinates"

    def from_unconstrained(self, z):
        return np.logaddexp(0.0, z)

    def to_unconstrained(self, theta):
        return theta + np.log(-np.expm1(-theta))

    def log_jacobian(self, z):
        return log_expit(z)


@EVERY
def test_coordinates_do_not_matter(method, data):
    other = Hypothesis(Langevin, gamma=_InOtherCoordinates(), k=_InOtherCoordinates())
    found = evidence(other, data, method=method)
    assert found.status.value == "ok"
    assert _agree(found, evidence(LANGEVIN, data))


def test_laplace_does_depend_on_coordinates(data):
    """The control: the same change moves a method that is not invariant."""
    natural, log = (
        evidence(LANGEVIN, data, method="laplace", coords=c) for c in ("natural", "log")
    )
    exact = evidence(LANGEVIN, data)
    assert not _agree(natural, exact)
    assert natural.log_evidence != log.log_evidence


@EVERY
def test_the_evidence_of_all_is_that_of_some_and_of_the_others_given_them(method, data):
    """Ln Z(D1, D2) = ln Z(D1) + ln E[L(D2 | θ)], the mean over the posterior of θ given D1."""
    first, second = (
        Displacements.from_array(part, data.tau) for part in np.split(data.as_array(), [25])
    )
    whole = evidence(LANGEVIN, data, method=method, seed=1)
    draws = posterior_draws(LANGEVIN, first, n_draws=1000, method=method, seed=2)
    fits = density_of(LANGEVIN, second).terms(draws.theta)[0]
    weights = np.exp(fits - fits.max())
    prediction = fits.max() + np.log(weights.mean())
    # Draws of a chain or of a weighted sample are correlated: half as many count.
    error = weights.std() / weights.mean() / np.sqrt(len(weights) / 2)
    part = draws.evidence
    off = whole.log_evidence - part.log_evidence - prediction
    quoted = np.hypot(whole.log_evidence_err, part.log_evidence_err)
    assert error < 0.1
    assert abs(off) < SIGMA * np.hypot(error, quoted)
    # A later part that is forgotten would be noticed.
    assert_allclose(whole.log_evidence, part.log_evidence + prediction, atol=1.0)
    assert abs(whole.log_evidence - part.log_evidence) > 10
