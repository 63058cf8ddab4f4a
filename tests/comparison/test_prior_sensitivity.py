"""Ln K against the scale of the priors."""

import json

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose

from driftbayes import Displacements, DriftbayesError, Hypothesis, compare_hypotheses
from driftbayes._representation import describe
from driftbayes.comparison import prior_sensitivity
from driftbayes.comparison._describe_sensitivity import sensitivity_table
from driftbayes.models import Brownian, Langevin
from driftbayes.plots.scan import plot_prior_sensitivity
from driftbayes.priors import Exponential

UNIT = Exponential(mean=1.0)
BOTH = [Hypothesis(Brownian, kappa=UNIT), Hypothesis(Langevin, gamma=UNIT, k=UNIT)]
PAIR = "langevin:brownian"


@pytest.fixture(scope="module")
def data():
    x = Langevin(gamma=1.0, k=1.0).simulate(
        jax.random.key(1), n_particles=40, n_steps=10, n_dim=2, tau=1.0
    )
    return Displacements.from_array(np.diff(np.asarray(x), axis=1), 1.0)


@pytest.fixture(scope="module")
def result(data):
    return prior_sensitivity(BOTH, data, factors=[0.25, 1.0, 4.0, 64.0])


def test_the_prior_as_given_is_the_comparison_s(result, data):
    exact = compare_hypotheses(BOTH, data).log_bayes_factors[PAIR]
    assert_allclose(result.log_bayes_factors[PAIR][:, 1], exact, rtol=1e-10)
    assert result.groups == (("kappa", "k", "gamma"), ("kappa", "k"), ("gamma",))


def test_each_row_is_the_comparison_under_those_priors(result, data):
    others = [BOTH[0], BOTH[1].rescaled({"gamma": 4.0})]
    expected = compare_hypotheses(others, data).log_bayes_factors[PAIR]
    assert_allclose(result.log_bayes_factors[PAIR][2, 2], expected, rtol=1e-10)


def test_a_parameter_that_is_known_costs_one_per_e_fold(result):
    """Widening the prior of γ sixteenfold: ln K falls by ln 16, but for exp(-γ/mean)."""
    values = result.log_bayes_factors[PAIR][2]
    assert_allclose(values[3] - values[2], -np.log(16), atol=0.3)
    # κ and k move together and cancel.
    assert np.ptp(result.log_bayes_factors[PAIR][1, 2:]) < 0.2


def test_numbers_are_plain(result):
    content = json.loads(json.dumps(result.to_json()))
    assert len(content["rows"]) == 12
    assert content["rows"][0]["scaled"] == ["kappa", "k", "gamma"]
    assert not result.verdict_changes(PAIR)


def test_it_is_described_once_for_terminal_notebook_and_report(result):
    assert repr(result) == f"<PriorSensitivity: {' '.join(result.sentences)}>"
    card = describe(result)
    assert len(card.tables) == len(result.groups)
    assert card.headline == "ln K for scaled priors at tau = 1"
    assert card.tables[1].title == "Prior scales of kappa, k"
    values = [float(row[1]) for row in card.tables[1].rows]
    assert_allclose(values, result.log_bayes_factors[PAIR][1], atol=6e-5)
    assert card.tables[1].title in result._repr_html_()
    (row,) = sensitivity_table([result], "h").rows
    assert row[:2] == ("1 h", f"ln K({PAIR})")
    assert row[-1] == "unchanged"


def test_the_figure_has_a_line_for_every_group(result):
    ax = plot_prior_sensitivity(result)
    drawn = [line for line in ax.lines if len(line.get_xdata()) == 4]
    assert len(drawn) == 3
    assert_allclose(drawn[1].get_ydata(), result.log_bayes_factors[PAIR][1])
    assert ax.get_xscale() == "log"
    assert "ln K" in ax.get_ylabel()


def test_slips(data):
    with pytest.raises(DriftbayesError, match="two or more models, got 1"):
        prior_sensitivity(BOTH[:1], data)
    with pytest.raises(DriftbayesError, match="factors must be positive"):
        prior_sensitivity(BOTH, data, factors=[0.0, 1.0])
