"""Models by composition: options wrap models, and a hypothesis is a model of priors."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose

import driftbayes as db
from driftbayes.models import MODELS, as_template, model_named

CHAINS = {
    "langevin+noise": lambda m: db.Noise(db.Langevin(m.gamma, m.k), m.sigma),
    "brownian+blur+noise": lambda m: db.Noise(db.Blur(db.Brownian(m.kappa), m.exposure), m.sigma),
    "langevin+mean": lambda m: db.MeanFlow(db.Langevin(m.gamma, m.k), m.flow),
    "brownian+linear": lambda m: db.LinearFlow(db.Brownian(m.kappa), m.flow, m.gradient),
    "brownian+anisotropic": lambda m: db.Anisotropic(db.Brownian(m.kappa), (m.h1, m.h2)),
    "oscillating+rotating": lambda m: db.Rotating(db.OscillatingLangevin(m.gamma, m.omega, m.k)),
    "langevin+scatter": lambda m: db.Scatter(db.Langevin(m.gamma, m.k), m.scatter),
    "brownian+student": lambda m: db.Student(db.Brownian(m.kappa), m.tail),
    "langevin*2": lambda m: db.Mixture(
        db.Langevin(m.gamma, m.k), ((m.gamma_2,),), (m.ratio_2,), (m.share_2,)
    ),
    "brownian&langevin": lambda m: db.Sum(
        (as_template(db.Brownian), as_template(db.Langevin)), tuple(vars(m).values())
    ),
}


TURNING = db.OscillatingLangevin(gamma=1.0, omega=1.0, k=1.0)


class Values:
    def __init__(self, names):
        for i, name in enumerate(names):
            setattr(self, name, 0.1 + 0.05 * i)


def test_a_model_knows_its_core_and_its_options():
    for name in (*CHAINS, "langevin+blur+noise+mean", "brownian+noise*3"):
        model = model_named(name, MODELS)
        core, *options = name.partition("*")[0].split("+")
        assert (model.core.name, list(model.options)) == (core, options)
        assert model.is_mixture == ("*" in name)
        assert model.diffusivity == ("kappa" if core == "brownian" else "k")
    assert model_named("langevin&confined", MODELS).diffusivity is None
    assert model_named("confined+noise", MODELS).diffusivity is None


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", CHAINS)
def test_a_name_and_a_composition_are_the_same_model(name):
    template = model_named(name, MODELS, 2)
    values = Values(template.parameters)
    by_name = template(**vars(values))
    composed = CHAINS[name](values)
    assert composed.name == by_name.name
    assert composed.template() == template
    assert hash(composed.template()) == hash(template)
    assert {k: float(v) for k, v in composed.leaves().items()} == vars(values)
    dx = np.random.default_rng(1).normal(size=(4, 9, 2))
    data = db.Displacements.from_array(dx, 1.0, start=np.zeros((4, 2)))
    one, other = (db.models.AbstractModel.log_likelihood(m, data) for m in (by_name, composed))
    assert_allclose(one, other, rtol=0, atol=0)


def test_a_hypothesis_is_a_model_whose_leaves_are_priors():
    mine = db.Noise(db.Langevin(gamma=db.Exponential(1), k=db.Exponential(2)), sigma=0.02)
    hypothesis = db.Hypothesis(mine)
    assert hypothesis.names == ("gamma", "k")
    assert hypothesis.describe() == {
        "gamma": "exponential:1",
        "k": "exponential:2",
        "sigma": "fixed:0.02",
    }
    by_name = db.Hypothesis(
        model_named("langevin+noise", MODELS),
        gamma=db.Exponential(1),
        k=db.Exponential(2),
        sigma=db.Fixed(0.02),
    )
    assert hypothesis == by_name
    assert pickle.loads(pickle.dumps(hypothesis)) == hypothesis


def test_compare_takes_a_model_of_priors():
    x = np.random.default_rng(2).normal(size=(6, 40, 2)).cumsum(axis=1)
    tracks = db.read(x, dt=1.0, length_unit="km", time_unit="d")
    priors = {"gamma": db.Exponential(1), "k": db.Exponential(2)}
    mine = db.Noise(db.Langevin(**priors), sigma=db.Fixed(0.02))
    found = tracks.compare(tau=1.0, models=[mine, db.Brownian(kappa=db.Exponential(2))])
    by_name = tracks.compare(
        tau=1.0,
        models="langevin+noise, brownian",
        priors={**priors, "sigma": db.Fixed(0.02), "kappa": db.Exponential(2)},
    )
    for name in ("langevin+noise", "brownian"):
        assert found[name].log_evidence == by_name[name].log_evidence


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda m: db.Noise(db.MeanFlow(m, flow=1.0), sigma=1.0), "before the option 'mean'"),
        (lambda m: db.Anisotropic(db.Noise(m, 0.1), (0.0, 0.0)), "the same on all axes"),
        (lambda m: db.Scatter(db.Noise(m, 0.1), 0.1), "'scatter' scales all of the covariance"),
        (lambda m: db.Student(db.Blur(m, 0.1), 0.1), "'student' needs a model with a state-space"),
        (lambda m: db.Student(db.FractionalBrownian(0.3, 1.0, 1.0), 0.1), "'student' needs"),
        (lambda m: db.Rotating(m), "'rotating' is for the model 'oscillating'"),
        (lambda m: db.Rotating(db.Blur(TURNING, 0.1)), "'rotating' is for"),
        (lambda m: db.Rotating(db.Rotating(TURNING)), "option 'rotating' is repeated"),
        (lambda m: db.Rotating(db.Anisotropic(TURNING, (0.0, 0.0))), "cannot be combined"),
        (lambda m: db.Rotating(db.LinearFlow(TURNING, 0.1, 0.1)), "cannot be combined"),
        (lambda m: db.MeanFlow(db.Rotating(TURNING), 0.1), "before the option 'rotating'"),
        (lambda m: db.LinearFlow(db.Rotating(TURNING), 0.1, 0.1), "cannot be combined"),
        (lambda m: db.Noise(db.Mixture(m, ((),), (0.5,), (0.5,)), 0.1), "wrap the model of its"),
        (lambda m: db.Mixture(db.MeanFlow(m, 0.1), ((),), (0.5,), (0.5,)), "noise or blur at most"),
        (lambda m: db.Noise("brownian", sigma=1.0), "Noise wraps a model, got 'brownian'"),
        (lambda m: db.Noise(db.Noise(m, sigma=1.0), sigma=2.0), "already has a parameter 'sigma'"),
        (lambda m: db.Blur(db.Noise(m, sigma=1.0), exposure=1.0), "before the option 'noise'"),
        (lambda m: db.Anisotropic(m, (1.0, 2.0, 3.0)), "2 components in two dimensions"),
        (lambda m: db.Hypothesis(db.Noise, sigma=db.Fixed(1.0)), "Noise wraps a model; give"),
        (lambda m: db.Hypothesis(m), "all parameters of brownian are fixed"),
    ],
)
def test_a_composition_that_means_nothing_is_refused(make, message):
    with pytest.raises(db.DriftbayesError, match=message):
        make(db.Brownian(kappa=1.0))
