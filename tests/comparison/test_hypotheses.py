"""Hypotheses by name: where their priors come from, and what is said about it."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from driftbayes.comparison import make_hypotheses
from driftbayes.data._trajectories import Trajectories
from driftbayes.diagnostics import data_scales
from driftbayes.errors import DriftbayesError
from driftbayes.models import MODELS, as_template
from driftbayes.priors import Exponential, LogNormal
from verdicts import langevin_tracks

BOTH = ("brownian", "langevin")


def means(setup):
    return {n: float(p.mean()) for h in setup.hypotheses for n, p in h.priors.items()}


def test_given_priors_are_used_as_they_are():
    priors = {name: Exponential(mean=2.0) for name in ("kappa", "gamma")}
    setup = make_hypotheses(BOTH, priors={**priors, "k": LogNormal(median=1.0, sigma=0.5)})
    assert [h.name for h in setup.hypotheses] == ["brownian", "langevin"]
    assert not setup.from_data
    assert setup.note == (
        "priors as given: kappa ~ exponential:2, gamma ~ exponential:2, k ~ lognormal:1:0.5"
    )


def test_scales_give_the_priors_of_the_paper():
    setup = make_hypotheses(BOTH, u_rms=0.6805, timescale=0.07347)
    found = means(setup)
    assert_allclose([found["kappa"], found["k"]], 0.03402, rtol=1e-3)
    assert_allclose(found["gamma"], 13.61, rtol=1e-3)
    assert not setup.from_data
    assert setup.note.startswith(
        "priors from the given scales (u_rms = 0.6805, T = 0.07347): kappa ~"
    )


def test_the_last_resort_are_the_scales_of_the_data():
    tracks = langevin_tracks(20)
    scales = data_scales(tracks)
    setup = make_hypotheses(BOTH, tracks)
    found = means(setup)
    assert_allclose(found["kappa"], scales.u_rms**2 * scales.timescale)
    assert_allclose(found["gamma"], 1 / scales.timescale)
    assert setup.from_data
    assert setup.note.startswith(
        f"default priors set from the data (u_rms = {scales.u_rms:.4g}, T = "
    )
    assert setup.note.endswith("; pass --u-rms and --timescale (scales=) for an independent prior")


def test_rates_keep_the_memory_that_a_shorter_interval_resolves():
    tracks = langevin_tracks(100)
    scales = data_scales(tracks, 1.0)
    setup = make_hypotheses([*BOTH, "brownian+noise"], tracks, tau=1.0)
    found = means(setup)
    assert scales.memory == data_scales(tracks).timescale
    assert_allclose(found["kappa"], scales.u_rms**2 * scales.timescale)
    assert_allclose(found["gamma"], 1 / scales.memory)
    assert_allclose(found["sigma"], 0.1 * scales.u_rms * scales.timescale)
    assert f"T = {scales.timescale:.4g} at tau = 1; rates from T = {scales.memory:.4g})" in (
        setup.note
    )


def test_noise_that_shows_in_the_steps_sets_its_prior():
    x = np.random.default_rng(0).normal(0, 3.0, size=(10, 200, 2))
    found = means(make_hypotheses(["brownian+noise"], Trajectories.from_arrays(x, dt=1.0)))
    assert_allclose(found["sigma"], 3.0, rtol=0.1)


def test_given_priors_win_over_scales():
    setup = make_hypotheses(BOTH, priors={"gamma": Exponential(mean=5.0)}, u_rms=2.0, timescale=3.0)
    assert means(setup) == {"kappa": 12.0, "gamma": 5.0, "k": 12.0}
    assert setup.note == (
        "priors for gamma as given, for kappa, k from the given scales (u_rms = 2, T = 3): "
        "kappa ~ exponential:12, gamma ~ exponential:5, k ~ exponential:12"
    )


def test_one_missing_prior_is_enough_to_use_the_data():
    priors = {"kappa": Exponential(mean=1.0), "gamma": Exponential(mean=1.0)}
    assert make_hypotheses(BOTH, langevin_tracks(20), priors=priors).from_data
    # Not for a model that does not need it.
    assert not make_hypotheses(["brownian"], priors={"kappa": Exponential(mean=1.0)}).from_data


def test_every_known_model_can_be_asked_for():
    setup = make_hypotheses(list(MODELS), u_rms=1.0, timescale=1.0)
    assert [h.model for h in setup.hypotheses] == [as_template(model) for model in MODELS.values()]


@pytest.mark.parametrize(
    ("names", "options", "message"),
    [
        (["ballistic"], {}, f"unknown model 'ballistic'; known are {', '.join(MODELS)}"),
        ([], {}, f"expected at least one model; known are {', '.join(MODELS)}"),
        (["brownian", "brownian"], {}, "model 'brownian' is given twice; remove one"),
        (BOTH, {"u_rms": 1.0}, "give both u_rms and timescale, or neither"),
        (BOTH, {"timescale": 1.0}, "give both u_rms and timescale, or neither"),
        (
            BOTH,
            {"u_rms": -1.0, "timescale": 1.0},
            "u_rms must be a positive number, got -1.0",
        ),
        (
            BOTH,
            {"u_rms": 1.0, "timescale": math.inf},
            "timescale must be a positive number, got inf",
        ),
        (
            ["brownian"],
            {"priors": {"gamma": Exponential(mean=1.0)}},
            "there is no parameter 'gamma' in brownian; they have kappa",
        ),
        (
            BOTH,
            {"priors": {"k": Exponential(mean=1.0)}},
            "no prior for kappa, gamma: give priors, or u_rms and timescale",
        ),
    ],
)
def test_a_slip_is_answered_in_one_sentence(names, options, message):
    with pytest.raises(DriftbayesError) as error:
        make_hypotheses(names, **options)
    assert str(error.value) == message


def test_data_that_do_not_move_give_no_scales():
    still = Trajectories.from_arrays(np.ones((3, 5, 2)), dt=1.0)
    with pytest.raises(DriftbayesError, match="all 12 displacements are zero"):
        make_hypotheses(BOTH, still)


def test_the_length_of_a_flow_is_thought_to_be_the_extent_of_the_particles():
    start = np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 8.0], [6.0, 8.0]])
    x = start[:, None] + 0.01 * np.random.default_rng(1).normal(size=(4, 30, 2)).cumsum(axis=1)
    tracks = Trajectories.from_arrays(x, dt=1.0)
    made = make_hypotheses(["brownian+flow"], tracks)
    mean = means(made)["length"]
    # Four corners, each 5 from the centre.
    assert abs(mean - 5.0) < 0.05
    at_one_place = Trajectories.from_arrays(x - x[:, :1], dt=1.0)
    with pytest.raises(DriftbayesError, match="all particles begin at one position"):
        make_hypotheses(["brownian+flow"], at_one_place)
