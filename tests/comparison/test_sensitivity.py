"""How ln K moves with the scales of the priors."""

import pytest
from numpy.testing import assert_allclose
from verdicts import langevin_data, unit_hypotheses

from driftbayes.comparison import compare
from driftbayes.comparison.sensitivity import Variant, variants
from driftbayes.inference import Hypothesis
from driftbayes.models import Brownian
from driftbayes.priors import Exponential


def test_parameters_of_one_dimension_move_together():
    assert variants(unit_hypotheses()) == [
        Variant(("kappa", "k", "gamma"), 0.25),
        Variant(("kappa", "k", "gamma"), 4.0),
        Variant(("kappa", "k"), 0.25),
        Variant(("kappa", "k"), 4.0),
        Variant(("gamma",), 0.25),
        Variant(("gamma",), 4.0),
    ]


def test_one_dimension_alone_is_not_listed_twice():
    brownian = Hypothesis(Brownian, kappa=Exponential(mean=1.0))
    assert variants([brownian]) == [Variant(("kappa",), 0.25), Variant(("kappa",), 4.0)]


def test_a_variant_touches_only_what_a_hypothesis_has():
    brownian, langevin = unit_hypotheses()
    diffusivities = Variant(("kappa", "k"), 4.0)
    assert diffusivities.factors_for(brownian) == {"kappa": 4.0}
    assert diffusivities.factors_for(langevin) == {"k": 4.0}
    assert Variant(("gamma",), 4.0).factors_for(brownian) == {}


@pytest.fixture(scope="module")
def with_rows():
    return compare(unit_hypotheses(), langevin_data(0.5), sensitivity=True)


def test_the_comparison_itself_does_not_change(with_rows):
    plain = compare(unit_hypotheses(), langevin_data(0.5))
    assert plain.sensitivity == ()
    assert len(with_rows.sensitivity) == 6
    for name, record in plain.evidences.items():
        assert_allclose(with_rows.evidences[name].log_evidence, record.log_evidence, rtol=1e-12)


@pytest.mark.parametrize("index", range(6))
def test_a_row_is_the_comparison_with_rescaled_priors(with_rows, index):
    hypotheses = unit_hypotheses()
    case, row = variants(hypotheses)[index], with_rows.sensitivity[index]
    assert (row["scaled"], row["factor"]) == (list(case.parameters), case.factor)
    moved = [h.rescaled(case.factors_for(h)) for h in hypotheses]
    assert moved[1].priors["k"].mean() == (case.factor if "k" in case.parameters else 1.0)
    expected = compare(moved, langevin_data(0.5)).log_bayes_factors
    assert row["log_bayes_factors"].keys() == expected.keys()
    for pair, log_k in expected.items():
        assert_allclose(row["log_bayes_factors"][pair], log_k, atol=1e-7)


def test_a_wider_prior_of_gamma_costs_langevin_what_it_wastes(with_rows):
    # Far above the posterior, an exponential prior's density there falls as 1/mean.
    before = with_rows.log_bayes_factors["langevin:brownian"]
    wide = with_rows.sensitivity[5]
    assert (wide["scaled"], wide["factor"]) == (["gamma"], 4.0)
    loss = before - wide["log_bayes_factors"]["langevin:brownian"]
    # ln 4 for the density, less the growth of e^(-gamma/mean): about ln 4 - 3/4.
    assert_allclose(loss, 1.386 - 0.75, atol=0.15)
