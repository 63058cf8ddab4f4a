"""A hypothesis is a model family and a prior for each of its parameters, no more and no less."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from driftbayes.data._sampling import Displacements
from driftbayes.errors import DriftbayesError
from driftbayes.inference import Hypothesis
from driftbayes.models import MODELS, Brownian, Langevin, model_named
from driftbayes.priors import Exponential, Fixed, LogNormal, Uniform, scaling_priors
from sums_of import density_of

MIXED = Hypothesis(Langevin, gamma=LogNormal(median=2.0, sigma=0.5), k=Uniform(low=0.5, high=4.0))
# The sum does not depend on the model: one of each kind here, the others in the slow tests.
QUICK = {"brownian", "langevin", "confined"}
families = pytest.mark.parametrize(
    "family",
    [
        pytest.param(family, id=name, marks=() if name in QUICK else pytest.mark.slow)
        for name, family in MODELS.items()
    ],
)
places = st.lists(st.floats(-3, 3), min_size=2, max_size=2).map(np.array)


@pytest.mark.parametrize(
    ("priors", "message"),
    [
        ({}, "langevin has parameters gamma, k; got no prior for gamma, k"),
        ({"k": 1.0}, "langevin has parameters gamma, k; got no prior for gamma"),
        (
            {"gamma": 1.0, "k": 1.0, "kappa": 1.0},
            "langevin has parameters gamma, k; got a prior for kappa, which it does not have",
        ),
        (
            {"gamma": 1.0, "kappa": 1.0},
            "got no prior for k, and a prior for kappa, which it does not have",
        ),
    ],
)
def test_missing_and_superfluous_priors_are_named(priors, message):
    with pytest.raises(DriftbayesError, match=message):
        Hypothesis(Langevin, **{name: Exponential(mean=mean) for name, mean in priors.items()})


def test_parameters_come_in_the_order_of_the_model():
    swapped = Hypothesis(Langevin, k=Exponential(mean=3.0), gamma=Exponential(mean=2.0))
    assert swapped.names == ("gamma", "k")
    model = swapped.at(np.array([0.5, 0.7]))
    assert (float(model.gamma), float(model.k)) == (0.5, 0.7)
    assert swapped.describe() == {"gamma": "exponential:2", "k": "exponential:3"}
    assert swapped.name == "langevin"


def test_table_of_priors_serves_every_model_it_has_priors_for():
    table = scaling_priors(u_rms=0.7, timescale=0.1)
    assert Hypothesis.from_table(Brownian, table).names == ("kappa",)
    assert Hypothesis.from_table(Langevin, table).names == ("gamma", "k")
    with pytest.raises(DriftbayesError, match="got no prior for gamma"):
        Hypothesis.from_table(Langevin, {"k": table["k"]})


@given(z=places)
def test_unconstrained_coordinates_and_back(z):
    assert_allclose(MIXED.to_unconstrained(MIXED.from_unconstrained(z)), z, atol=1e-9)


@given(z=places)
def test_log_jacobians_are_those_of_the_map(z):
    step = 1e-5
    slopes = (MIXED.from_unconstrained(z + step) - MIXED.from_unconstrained(z - step)) / (2 * step)
    assert_allclose(MIXED.log_jacobians(z), np.log(slopes), atol=1e-8)


@given(z=places)
def test_log_prior_is_the_sum_over_parameters(z):
    theta = MIXED.from_unconstrained(z)
    each = [MIXED.priors[name].log_density(theta[i]) for i, name in enumerate(MIXED.names)]
    assert_allclose(MIXED.log_prior(theta), sum(map(float, each)), rtol=1e-13)
    slopes = MIXED.log_jacobians(z).sum()
    assert_allclose(MIXED.unconstrained_log_prior(z), MIXED.log_prior(theta) + slopes, rtol=1e-13)


@pytest.mark.sampled(3)
@families
def test_log_joint_is_likelihood_and_prior(family):
    data = Displacements.from_array(np.random.default_rng(0).normal(size=(3, 6, 2)), 0.7)
    bounded = [np.isfinite(parameter.upper) for parameter in family.parameters.values()]
    priors = [Uniform(0.0, 1.0) if one else Exponential(mean=2.0) for one in bounded]
    hypothesis = Hypothesis(family, **dict(zip(family.parameters, priors, strict=True)))
    theta = np.where(bounded, 0.4, 1.3)
    fit = hypothesis.at(theta).log_likelihood(data)
    density = density_of(hypothesis, data)
    points = density.at(hypothesis.to_unconstrained(theta[None]))
    assert_allclose(points.log_likelihood, fit, rtol=1e-13)
    assert_allclose(points.natural, fit + hypothesis.log_prior(theta), rtol=1e-13)


def test_rescaling_touches_only_the_named_priors():
    rescaled = MIXED.rescaled({"gamma": 60.0})
    assert_allclose(rescaled.priors["gamma"].median, 120.0)
    assert rescaled.describe()["k"] == MIXED.describe()["k"]


def test_functions_of_a_hypothesis_take_points_in_any_number_of_axes():
    z = np.random.default_rng(0).normal(size=(3, 4, 2))
    for function in (MIXED.from_unconstrained, MIXED.log_jacobians, MIXED.unconstrained_log_prior):
        found = function(z)
        assert found.shape[:2] == (3, 4)
        assert_array_equal(found[1, 2], function(z[1, 2]))


def test_points_far_out_have_no_density():
    z = np.array([[1e4, 0.0], [-1e4, 0.0]])
    assert_array_equal(MIXED.unconstrained_log_prior(z), -np.inf)


def test_equal_hypotheses_have_the_same_hash_and_share_compiled_programs():
    again = Hypothesis(Langevin, **MIXED.priors)
    other = Hypothesis(Langevin, **{**MIXED.priors, "gamma": Exponential(2.0)})
    assert again == MIXED
    assert hash(again) == hash(MIXED)
    assert other != MIXED
    assert other.family is MIXED.family
    assert pickle.loads(pickle.dumps(MIXED)).family is MIXED.family
    assert Hypothesis(Langevin, gamma=Fixed(1.0), k=Exponential(1.0)).family is not MIXED.family


# --- Bounds of parameters ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "prior"),
    [
        ("hurst", Exponential(0.5)),
        ("hurst", Uniform(0.0, 1.5)),
        ("hurst", Fixed(1.2)),
        ("hurst", LogNormal(0.5, 0.1)),
    ],
)
def test_a_prior_beyond_the_bound_of_its_parameter_is_refused(name, prior):
    others = {"kappa": Exponential(1.0), "reference": Fixed(1.0)}
    with pytest.raises(DriftbayesError, match="hurst of fractional cannot exceed 1"):
        Hypothesis(MODELS["fractional"], **{**others, name: prior})


def test_a_rescaled_prior_stays_within_the_bound_of_its_parameter():
    priors = {"kappa": Exponential(1.0), "reference": Fixed(1.0), "hurst": Uniform(0.2, 0.8)}
    hypothesis = Hypothesis(MODELS["fractional"], **priors)
    assert hypothesis.rescaled({"hurst": 2.0}).describe()["hurst"] == "uniform:0.4:1"
    assert hypothesis.rescaled({"hurst": 8.0}).describe()["hurst"] == "uniform:0.2:0.8"


@pytest.mark.parametrize("name", ["brownian+student", "brownian*2", "two_scale*2"])
def test_parameters_of_options_have_their_bounds(name):
    model = model_named(name, MODELS)
    bounded = {n: p.upper for n, p in model.parameters.items() if np.isfinite(p.upper)}
    expected = {
        "brownian+student": {"tail": 0.5},
        "brownian*2": {"ratio_2": 1.0, "share_2": 1.0},
        "two_scale*2": dict.fromkeys(
            ("ratio", "share", "ratio_2", "share_2", "class_ratio_2", "class_share_2"), 1.0
        ),
    }
    assert bounded == expected[name]
