"""Methods as objects: the same numbers as by name, and options that are checked."""

import numpy as np
import pytest

import driftbayes as db
from driftbayes.inference import as_method
from driftbayes.inference._methods import METHODS, method_text

DATA = db.Displacements.from_array(np.random.default_rng(5).normal(size=(5, 20, 2)), 1.0)
LANGEVIN = db.Hypothesis(db.Langevin, gamma=db.Exponential(1.0), k=db.Exponential(1.0))


@pytest.mark.parametrize(
    ("text", "method"),
    [
        ("auto", db.Auto()),
        ("quadrature:tolerance=0.01", db.Exact(tolerance=0.01)),
        ("laplace:coords=log", db.Laplace(coords="log")),
        ("laplace_is", db.Importance()),
        ("bridge:draws=150,chains=2", db.Bridge(draws=150, chains=2)),
        ("smc:particles=200", db.SMC(particles=200)),
        ("nested:live=100", db.Nested(live=100)),
    ],
)
def test_texts_and_methods_turn_into_each_other(text, method):
    assert as_method(text) == method
    assert method_text(method) == text
    assert as_method(method) is method


def test_every_method_has_a_name():
    assert METHODS == ("auto", "quadrature", "laplace", "laplace_is", "bridge", "smc", "nested")


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("text", "method"),
    [
        ("laplace:coords=log", db.Laplace(coords="log")),
        ("smc:particles=128,islands=4", db.SMC(particles=128, islands=4)),
    ],
)
def test_a_method_and_its_text_give_the_same_evidence(text, method):
    one = db.evidence(LANGEVIN, DATA, method=method, seed=3)
    other = db.evidence(LANGEVIN, DATA, method=text, seed=3)
    assert one.log_evidence == other.log_evidence
    assert one.method == other.method
    # What is recorded repeats it.
    again = db.evidence(LANGEVIN, DATA, method=as_method(one.method, coords=one.coords), seed=3)
    assert again.log_evidence == one.log_evidence
    if text.startswith("smc"):
        assert one.seed == 3
        assert db.evidence(LANGEVIN, DATA, method=text, seed=4).log_evidence != one.log_evidence


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("brige", "method must be one of auto, .*got 'brige'; did you mean 'bridge'"),
        ("bridge:n_draws=3", "'bridge' has no option 'n_draws'; it has draws, warmup, chains"),
        ("bridge:draws", "expected an option of the method as name=value, got 'draws'"),
        (3, "method must be a name or a method such as"),
        ("laplace:coords=polar", "coords must be 'natural' or 'log', got 'polar'"),
    ],
)
def test_unknown_methods_and_options_are_refused(method, message):
    with pytest.raises(db.DriftbayesError, match=message):
        as_method(method)
