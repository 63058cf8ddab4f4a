"""Second moments take the place of displacements and give the same evidence."""

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose

from driftbayes import Displacements, DriftbayesError, Hypothesis, compare_hypotheses
from driftbayes.comparison import scan_displacements
from driftbayes.likelihood import ReducedDisplacements, second_moments
from driftbayes.likelihood._reduced import window_moments
from driftbayes.models import Brownian, Langevin, as_template
from driftbayes.models._prepare import sum_moments
from driftbayes.priors import scaling_priors

TAU = 0.7
PRIORS = scaling_priors(1.3, 0.5)
HYPOTHESES = [Hypothesis.from_table(model, PRIORS) for model in (Brownian, Langevin)]


def _data(n_particles=40, n_windows=3, n_steps=8):
    model = Langevin(gamma=1.5, k=0.8)
    x = model.simulate(
        jax.random.key(4), n_particles=n_particles, n_steps=n_windows * n_steps, n_dim=2, tau=TAU
    )
    return np.diff(np.asarray(x), axis=1).reshape(n_particles, n_windows, n_steps, 2)


def _reduced(dx, data):
    return ReducedDisplacements(
        moment=window_moments(dx).sum(axis=0),
        n_runs=dx.shape[0] * dx.shape[1],
        n_dim=2,
        n_particles=dx.shape[0],
        tau=TAU,
        fingerprint=data.fingerprint,
    )


@pytest.fixture(scope="module")
def both():
    dx = _data()
    whole = Displacements.from_array(dx.reshape(-1, *dx.shape[2:]), TAU)
    return whole, _reduced(dx, whole)


def test_windows_are_summed_as_by_hand():
    dx = _data(n_particles=5)
    by_hand = np.einsum("pwia,pwja->wij", dx, dx)
    assert_allclose(window_moments(dx), by_hand, rtol=1e-13)


def test_the_engine_sees_the_same(both):
    whole, reduced = both
    expected, found = second_moments(whole), sum_moments(reduced, as_template(Brownian))
    assert_allclose(found.forms, expected.forms, rtol=1e-12, atol=1e-12 * expected.forms.max())
    assert_allclose(found.predicted, expected.predicted)
    assert reduced.n_displacements == whole.n_displacements


@pytest.mark.parametrize("method", ["auto", "laplace"])
def test_evidence_is_that_of_the_displacements(both, method):
    expected, found = (compare_hypotheses(HYPOTHESES, data, method=method) for data in both)
    # Second differences over 0.03 widths: the rounding of ln L, 1e-12, counts a thousandfold.
    atol = 1e-8 if method == "laplace" else 0.0
    for name in ("brownian", "langevin"):
        assert_allclose(
            found.evidences[name].log_evidence,
            expected.evidences[name].log_evidence,
            rtol=1e-12,
            atol=atol,
        )
    assert found.data_fingerprint == expected.data_fingerprint
    assert found.verdict == expected.verdict


def test_scans_take_both_kinds_side_by_side(both):
    whole, reduced = both
    scan = scan_displacements([whole, reduced], HYPOTHESES)
    first, second = scan.evidences("langevin")
    assert_allclose(first.log_evidence, second.log_evidence, rtol=1e-12)


def test_thinning_divides_the_log_likelihood(both):
    _, reduced = both
    theta = Langevin(gamma=1.1, k=0.7)
    whole, third = (theta.log_likelihood(d) for d in (reduced, reduced.thinned(3.0)))
    assert_allclose(third, whole / 3, rtol=1e-12)
    assert reduced.thinned(3.0).fingerprint != reduced.fingerprint
    with pytest.raises(DriftbayesError, match=r"1 or more, got 0\.5"):
        reduced.thinned(0.5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"moment": np.ones((2, 3))}, "square matrix"),
        ({"moment": np.array([[np.nan]])}, "finite numbers"),
        ({"moment": np.zeros((2, 2))}, "positive diagonal"),
        ({"tau": 0.0}, "must be positive"),
        ({"n_runs": 0}, "must be positive"),
    ],
)
def test_what_cannot_be_second_moments_is_refused(change, message):
    good = {"moment": np.eye(2), "n_runs": 1, "n_dim": 2, "n_particles": 1, "tau": 1.0}
    with pytest.raises(DriftbayesError, match=message):
        ReducedDisplacements(**{**good, "fingerprint": "x", **change})


def test_engines_that_need_the_steps_refuse(both):
    with pytest.raises(DriftbayesError, match="only the second moments are left"):
        Langevin(gamma=1.0, k=1.0).log_likelihood(both[1], engine="kalman")
