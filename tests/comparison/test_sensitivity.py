"""How ln K moves with the scales of the priors."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from driftbayes.comparison import compare_hypotheses, make_hypotheses, prior_sensitivity
from driftbayes.comparison._sensitivity import (
    FACTORS,
    parameter_groups,
    scaled_evidence,
    unmoved_parameters,
)
from driftbayes.data._sampling import Displacements
from driftbayes.errors import DriftbayesError
from driftbayes.inference import Batch, Hypothesis
from driftbayes.models import MODELS, OPTIONS, Brownian, FractionalBrownian
from driftbayes.priors import Exponential, Fixed, Uniform
from verdicts import langevin_data, unit_hypotheses


def test_parameters_of_one_dimension_move_together():
    groups = parameter_groups(unit_hypotheses())
    assert groups == [["kappa", "k", "gamma"], ["kappa", "k"], ["gamma"]]


def test_one_dimension_alone_is_not_listed_twice():
    brownian = Hypothesis(Brownian, kappa=Exponential(mean=1.0))
    assert parameter_groups([brownian]) == [["kappa"]]


def by_scaling(*names):
    known = {"exposure": Fixed(0.1)} if "blur" in str(names) else {}
    return make_hypotheses(names, priors=known, u_rms=1.0, timescale=1.0).hypotheses


@pytest.mark.parametrize(
    ("name", "moved", "unmoved"),
    [
        ("brownian+mean", [["kappa"], ["flow"]], ()),
        ("langevin+linear", [["k"], ["gamma"], ["flow"], ["gradient"]], ()),
        ("brownian+noise", [["kappa"], ["sigma"]], ()),
        ("brownian+anisotropic", [["kappa"], ["h1", "h2"]], ()),
        ("brownian+scatter", [["kappa"], ["scatter"]], ()),
        ("brownian+blur+noise", [["kappa"], ["sigma"]], ()),
        ("brownian+student", [["kappa"]], ("tail",)),
        ("fractional", [["kappa"]], ("hurst",)),
        ("matern", [["k"], ["gamma"], ["smoothness"]], ()),
        ("oscillating+rotating", [["k"], ["gamma"], ["omega"]], ()),
        ("two_scale", [["k"], ["gamma"]], ("ratio", "share")),
    ],
)
def test_every_prior_that_has_a_scale_is_moved_by_itself(name, moved, unmoved):
    given = by_scaling(name)
    first, *each = parameter_groups(given) if len(moved) > 1 else parameter_groups(given) * 2
    assert sorted(map(sorted, each)) == sorted(map(sorted, moved))
    assert sorted(first) == sorted(n for names in moved for n in names)
    assert unmoved_parameters(given) == unmoved
    # What is moved is moved, given or inferred.
    for names in each:
        changed = given[0].rescaled(dict.fromkeys(names, 4.0))
        differ = {n for n, p in changed.priors.items() if p.describe() != given[0].describe()[n]}
        assert differ == set(names)


def test_no_option_adds_a_prior_that_the_table_forgets():
    for base in MODELS:
        for option in ("", *OPTIONS):
            try:
                given = by_scaling(f"{base}+{option}" if option else base)
            except DriftbayesError:
                continue
            told = {n for names in parameter_groups(given) for n in names}
            told |= set(unmoved_parameters(given))
            known = {"exposure", "reference", "reference_common", "nu", "divergence"}
            assert told | known == set(given[0].model.parameters) | known


def test_classes_of_a_mixture_move_together():
    groups = parameter_groups(by_scaling("langevin*2"))
    assert groups[1:] == [["gamma", "gamma_2"], ["k"]]


def test_where_no_prior_has_a_scale_it_is_said():
    unit = Uniform(low=0.0, high=1.0)
    fixed = {"kappa": Fixed(1.0), "reference": Fixed(1.0)}
    one = Hypothesis(FractionalBrownian, hurst=unit, **fixed)
    other = Hypothesis(Brownian, kappa=Exponential(mean=1.0))
    assert parameter_groups([one]) == []
    with pytest.raises(DriftbayesError, match="no prior of fractional, other has a scale"):
        prior_sensitivity([one, type(one)(_Other, hurst=unit, **fixed)], langevin_data(0.5))
    assert parameter_groups([one, other])


class _Other(FractionalBrownian):
    name = "other"


def evidence_with_flow(dx, tau, width):
    """Ln Z of Brownian motion in a mean flow, κ ~ exponential(1), by a sum over ln κ."""
    log_kappa = np.linspace(-8, 4, 4001)
    kappa, n = np.exp(log_kappa), dx.shape[0] * dx.shape[1]
    total = -kappa + log_kappa
    for axis in dx.reshape(n, -1).T:
        # Of 2κτ I + V²τ² 11ᵀ, by the matrix determinant lemma.
        noise, shared = 2 * kappa * tau, width**2 * tau**2
        log_det = (n - 1) * np.log(noise) + np.log(noise + n * shared)
        square = axis @ axis / noise - shared * axis.sum() ** 2 / (noise * (noise + n * shared))
        total = total - 0.5 * (n * np.log(2 * np.pi) + log_det + square)
    top = total.max()
    return top + np.log(np.exp(total - top).sum() * (log_kappa[1] - log_kappa[0]))


def test_the_width_of_the_prior_of_a_mean_flow_is_moved():
    dx = np.random.default_rng(4).normal(size=(100, 10, 3))
    data = Displacements.from_array(dx, 0.5)
    factors = [1 / 16, 1.0, 16.0]
    result = prior_sensitivity(by_scaling("brownian", "brownian+mean"), data, factors=factors)
    assert result.groups == (("kappa", "flow"), ("kappa",), ("flow",))
    plain = evidence_with_flow(dx, 0.5, 0.0)
    expected = [evidence_with_flow(dx, 0.5, f) - plain for f in factors]
    found = result.log_bayes_factors["brownian+mean:brownian"]
    assert_allclose(found[2], expected, atol=1e-6)
    # Three components that the data do not need: one nat each for every e-fold.
    assert_allclose(found[2, 2] - found[2, 1], -3 * np.log(16), atol=0.1)
    # The diffusivity's prior says next to nothing of a flow.
    assert np.ptp(found[1]) < 0.2


def test_a_scale_that_a_hypothesis_has_not_leaves_its_evidence():
    brownian, _ = unit_hypotheses()
    batch = Batch.of(langevin_data(0.5), model=brownian.model)
    found = scaled_evidence(brownian, batch, [["kappa", "k"], ["gamma"]], [0.25, 1.0, 4.0])
    assert_allclose(found.logs[1], found.evidence.log_evidence, rtol=0)
    assert found.logs[0, 1] == found.evidence.log_evidence
    assert abs(found.logs[0, 0] - found.logs[0, 2]) > 0.1


@pytest.fixture(scope="module")
def with_rows():
    return compare_hypotheses(unit_hypotheses(), langevin_data(0.5), sensitivity=True)


def test_the_comparison_itself_does_not_change(with_rows):
    plain = compare_hypotheses(unit_hypotheses(), langevin_data(0.5))
    assert plain.sensitivity == ()
    assert len(with_rows.sensitivity) == 6
    for name, record in plain.evidences.items():
        assert_allclose(with_rows.evidences[name].log_evidence, record.log_evidence, rtol=1e-12)


@pytest.mark.parametrize("index", range(6))
def test_a_row_is_the_comparison_with_rescaled_priors(with_rows, index):
    hypotheses = unit_hypotheses()
    names, factor = parameter_groups(hypotheses)[index // 2], FACTORS[index % 2]
    row = with_rows.sensitivity[index]
    assert (row["scaled"], row["factor"]) == (names, factor)
    moved = [h.rescaled({n: factor for n in names if n in h.names}) for h in hypotheses]
    assert moved[1].priors["k"].mean() == (factor if "k" in names else 1.0)
    expected = compare_hypotheses(moved, langevin_data(0.5)).log_bayes_factors
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
