"""Every method returns the same record, the exact answer within its error."""

import json

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose
from targets import TwoSpeeds

from driftbayes import Displacements, DriftbayesError, Hypothesis, evidence
from driftbayes.comparison import compare_hypotheses, make_hypotheses, scan_displacements
from driftbayes.data._sampling import displacements
from driftbayes.data._trajectories import Trajectories
from driftbayes.inference import (
    METHODS,
    Batch,
    evidence_batch,
    evidence_with_variants,
    posterior_draws,
)
from driftbayes.models import Brownian, Langevin
from driftbayes.priors import Exponential

UNIT = Exponential(mean=1.0)
BROWNIAN = Hypothesis(Brownian, kappa=UNIT)
LANGEVIN = Hypothesis(Langevin, gamma=UNIT, k=UNIT)
SIGMA = 4.5


def _data(tau, seed=0, n_particles=30):
    x = Langevin(gamma=1.0, k=1.0).simulate(
        jax.random.key(seed), n_particles=n_particles, n_steps=10, n_dim=2, tau=tau
    )
    return Displacements.from_array(np.diff(np.asarray(x), axis=1), tau)


@pytest.fixture(scope="module")
def data():
    return _data(1.0)


# Each sampler has tests of its own; here it is the way to the record that counts.
EVERY = [
    pytest.param(m, h, id=f"{m}-{h.name}", marks=() if m == "laplace_is" else pytest.mark.slow)
    for m in ("laplace_is", "bridge", "smc", "nested")
    for h in (BROWNIAN, LANGEVIN)
]


@pytest.mark.parametrize(("method", "hypothesis"), EVERY)
def test_samplers_meet_the_exact_answer(method, hypothesis, data):
    expected, found = evidence(hypothesis, data), evidence(hypothesis, data, method=method)
    assert found.method == method
    assert found.status.value == "ok"
    assert 0 < found.log_evidence_err < 0.3
    assert abs(found.log_evidence - expected.log_evidence) < SIGMA * found.log_evidence_err
    # The mode does not depend on the method, and the decomposition is that of all methods.
    assert_allclose(found.log_likelihood_at_map, expected.log_likelihood_at_map, rtol=1e-9)
    assert_allclose(found.information_gain, expected.information_gain, atol=0.3)
    for name in hypothesis.names:
        width = expected.posterior_sd[name]
        assert abs(found.posterior_mean[name] - expected.posterior_mean[name]) < 0.3 * width
        assert_allclose(found.posterior_sd[name], width, rtol=0.25)
        assert_allclose(found.map[name], expected.map[name], rtol=1e-5)
    assert found.draws.shape[1] == len(hypothesis.names)
    assert found.data_fingerprint == expected.data_fingerprint
    json.dumps(found.to_json(), allow_nan=False)


@pytest.mark.parametrize("method", ["laplace_is", "smc:particles=64,islands=4"])
def test_the_seed_repeats_the_result(method, data):
    one, two, other = (evidence(BROWNIAN, data, method=method, seed=s) for s in (5, 5, 6))
    assert one.log_evidence == two.log_evidence
    assert one.log_evidence != other.log_evidence
    assert one.seed == 5
    assert one.n_evaluations > 100


def test_quadrature_is_what_auto_does_for_few_parameters(data):
    one, two = (evidence(LANGEVIN, data, method=m) for m in ("auto", "quadrature"))
    assert one.log_evidence == two.log_evidence
    assert one.method == two.method == "exact"


def test_quadrature_refuses_many_parameters(data):
    many = Hypothesis(TwoSpeeds, **dict.fromkeys(TwoSpeeds.parameters, UNIT))
    with pytest.raises(DriftbayesError, match="use method='bridge'"):
        evidence(many, data, method="quadrature")


@pytest.mark.slow
def test_auto_samples_where_quadrature_cannot(data):
    many = Hypothesis(TwoSpeeds, **dict.fromkeys(TwoSpeeds.parameters, UNIT))
    found = evidence(many, data)
    assert found.method in ("laplace_is", "bridge")
    second = evidence(many, data, method="smc")
    error = np.hypot(found.log_evidence_err, second.log_evidence_err)
    assert abs(found.log_evidence - second.log_evidence) < SIGMA * error


@pytest.mark.parametrize("method", ["laplace_is", "smc:particles=64,islands=4"])
def test_a_batch_along_tau_is_the_same_as_one_by_one(method):
    many = [_data(tau) for tau in (0.3, 5.0)]
    stacked = Batch.stack([Batch.of(d) for d in many])
    together = evidence_batch([LANGEVIN], stacked, method=method, seed=3)
    for one, d in zip(together, many, strict=True):
        alone = evidence(LANGEVIN, d, method=method, seed=3)
        assert_allclose(one.log_evidence, alone.log_evidence, rtol=1e-9)
        assert one.tau == d.tau


@pytest.mark.slow
def test_comparisons_and_scans_take_every_method(data):
    result = compare_hypotheses([BROWNIAN, LANGEVIN], data, method="laplace_is", seed=2)
    exact = compare_hypotheses([BROWNIAN, LANGEVIN], data)
    pair = "langevin:brownian"
    off = result.log_bayes_factors[pair] - exact.log_bayes_factors[pair]
    assert abs(off) < SIGMA * result.log_bayes_factor_errs[pair]
    scan = scan_displacements([_data(0.5), _data(2.0)], [LANGEVIN], method="laplace_is")
    assert scan.to_dataset().attrs["method"] == "laplace_is"


def test_units_move_the_evidence_by_the_known_amount():
    """Lengths in other units: ln Z shifts by minus the number of displacements times ln scale."""
    data = _data(1.0)
    scale = 1000.0
    other = Displacements.from_array(scale * data.as_array(), 1.0)
    wide = Hypothesis(Langevin, gamma=UNIT, k=Exponential(mean=scale**2))
    for method in ("quadrature", "laplace_is"):
        before = evidence(LANGEVIN, data, method=method).log_evidence
        after = evidence(wide, other, method=method).log_evidence
        assert_allclose(after, before - data.n_displacements * np.log(scale), rtol=1e-9)


def test_the_order_of_trajectories_does_not_matter(data):
    turned = Displacements.from_array(data.as_array()[::-1], data.tau)
    for method in ("quadrature", "laplace_is"):
        one, two = (evidence(LANGEVIN, d, method=method) for d in (data, turned))
        assert_allclose(one.log_evidence, two.log_evidence, rtol=1e-9)


# Draws


@pytest.mark.sampled(3)
@pytest.mark.parametrize("method", ["auto", "laplace", "laplace_is"])
def test_draws_have_the_posterior_s_moments(method, data):
    draws = posterior_draws(LANGEVIN, data, n_draws=800, method=method, seed=1)
    assert draws.theta.shape == (800, 2)
    record = draws.evidence
    for i, name in enumerate(LANGEVIN.names):
        sd = record.posterior_sd[name]
        # The draws may be correlated in some methods: half as many count.
        assert abs(draws.theta[:, i].mean() - record.posterior_mean[name]) < SIGMA * sd / 20
        assert_allclose(draws.theta[:, i].std(), sd, rtol=0.2)
    fits = [LANGEVIN.at(theta).log_likelihood(data) for theta in draws.theta[:3]]
    assert_allclose(draws.log_likelihood[:3], fits, rtol=1e-12)


def test_draws_of_a_wide_posterior_follow_its_quantiles():
    """γ at large τ, where Laplace's Gaussian would be wrong."""
    data = _data(30.0, n_particles=60)
    draws = posterior_draws(LANGEVIN, data, n_draws=1000, seed=2)
    quantiles = draws.evidence.posterior_quantiles["gamma"]
    below = (draws.theta[:, 0][:, None] < quantiles).mean(axis=0)
    expected = np.array([0.025, 0.16, 0.5, 0.84, 0.975])
    assert (np.abs(below - expected) < 4 * np.sqrt(expected * (1 - expected) / 1000)).all()


def test_draws_repeat_with_the_seed(data):
    one, two = (posterior_draws(LANGEVIN, data, n_draws=50, seed=4) for _ in range(2))
    assert (one.theta == two.theta).all()


# Slips


def test_an_unknown_option_is_refused(data):
    with pytest.raises(DriftbayesError, match="has no option 'n_proposals'"):
        evidence(BROWNIAN, data, method="laplace", n_proposals=3)
    with pytest.raises(DriftbayesError, match="seed must be a whole number"):
        evidence(BROWNIAN, data, method="smc", seed=-1)
    with pytest.raises(DriftbayesError, match="n_draws must be a whole number"):
        posterior_draws(BROWNIAN, data, n_draws=0)


def test_the_command_line_knows_all_methods():
    from driftbayes.cli import _options

    assert _options.METHODS == METHODS


# Particles that move together


@pytest.mark.parametrize(
    ("name", "method"), [("brownian+common", "bridge"), ("brownian+flow", "smc")]
)
def test_samplers_take_models_of_shared_motion(name, method):
    steps = np.random.default_rng(3).normal(size=(4, 6, 2)) + np.arange(6.0)[:, None] % 2
    tracks = Trajectories.from_arrays(steps.cumsum(axis=1), dt=1.0)
    hypothesis, *_ = make_hypotheses([name], tracks).hypotheses
    data = displacements(tracks, 1.0)
    exact = evidence(hypothesis, data)
    found = evidence(hypothesis, data, method=method, seed=1)
    assert found.status.value == "ok"
    error = np.hypot(found.log_evidence_err, exact.log_evidence_err)
    assert abs(found.log_evidence - exact.log_evidence) < SIGMA * error


@pytest.mark.parametrize("method", ["laplace_is:tolerance=0.1", "quadrature:tolerance=0.1"])
def test_options_of_a_method_count_with_other_priors_too(data, method):
    other = LANGEVIN.rescaled({"k": 2.0})
    alone = evidence(LANGEVIN, data, method=method)
    record, (variant,) = evidence_with_variants(LANGEVIN, [other], data, method=method)
    for name in ("method", "log_evidence", "log_evidence_err", "n_evaluations"):
        assert getattr(record, name) == getattr(alone, name)
    assert (
        record.n_evaluations < evidence(LANGEVIN, data, method=method.split(":")[0]).n_evaluations
    )
    exact = evidence(other, data).log_evidence
    assert abs(variant.log_evidence - exact) < 5 * variant.log_evidence_err + 1e-9
