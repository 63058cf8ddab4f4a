"""Probabilities and posteriors are honest: data from the prior predictive of both models."""

import json
from dataclasses import replace

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import chi2, chisquare

from driftbayes.cli.main import main
from driftbayes.inference import Batch, Hypothesis, evidence_batch
from driftbayes.models import Brownian
from driftbayes.priors import Exponential
from driftbayes.reproduce.calibration import (
    SHARES,
    Calibration,
    _prior_predictive,
    run_calibration,
)

PARAMETERS = ["brownian.kappa", "langevin.gamma", "langevin.k"]


def _is_calibrated(result):
    """Nothing that honest probabilities would do by chance less than once in 100,000 times."""
    mean, error = result.mean
    value, n_bins = result.chi_square()
    ranks = all(result.rank_chi_square(name)[1] > 1e-5 for name in result.ranks)
    return abs(mean - 0.5) < 4.5 * error and value < chi2.ppf(1 - 1e-5, n_bins) and ranks


@pytest.mark.slow
def test_probabilities_are_calibrated_over_the_prior_predictive():
    result = run_calibration(n_per_model=20_000, seed=1)
    assert _is_calibrated(result)
    # The same check sees a bias of 0.2 nats in one evidence, in either direction.
    odds = result.probability / (1 - result.probability)
    for factor in (np.exp(0.2), np.exp(-0.2)):
        biased = replace(result, probability=factor * odds / (1 + factor * odds))
        assert not _is_calibrated(biased)
    # And it sees posteriors that are too narrow by a tenth: the middle loses what the ends gain.
    assert list(result.ranks) == PARAMETERS
    for name, counts in result.ranks.items():
        moved = 0.1 * counts[2]
        narrow = counts + np.array([moved, 0, -moved, -moved, 0, moved])
        assert not _is_calibrated(replace(result, ranks={name: narrow}))


# As many as take a minute or two; the numbers of docs/evidence.md are from more.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "n"), [("laplace_is", 1000), ("bridge", 200), ("smc", 100), ("nested", 50)]
)
def test_samplers_are_calibrated(method, n):
    result = run_calibration(n, seed=2, method=method)
    assert result.method == method
    assert result.n_failed == 0
    assert _is_calibrated(result)


@pytest.mark.slow
def test_exact_posteriors_are_calibrated_and_no_data_set_counts_twice():
    result = run_calibration(30, seed=3)
    assert len(result.probability) == 60
    assert [result.ranks[name].sum() for name in PARAMETERS] == [30, 30, 30]
    assert _is_calibrated(result)
    # The truth is ranked among the quantiles of its own data set.
    hypothesis = Hypothesis(Brownian, kappa=Exponential(mean=1.0))
    data, theta = _prior_predictive(hypothesis, jax.random.fold_in(jax.random.key(3), 0), 30)
    found = evidence_batch([hypothesis], Batch.stack([Batch.of(d) for d in data]))
    places = [
        np.searchsorted(e.posterior_quantiles["kappa"], kappa)
        for e, (kappa,) in zip(found, theta, strict=True)
    ]
    assert result.ranks["brownian.kappa"].tolist() == np.bincount(places, minlength=6).tolist()


def test_chi_square_of_ranks_is_the_textbook_one():
    counts = np.array([5, 20, 60, 80, 30, 5])
    result = Calibration(np.array([0.5]), np.array([True]), "auto", 0, ranks={"a.b": counts})
    assert_allclose(
        result.rank_chi_square("a.b"), tuple(chisquare(counts, SHARES * 200)), rtol=1e-12
    )
    assert_allclose(SHARES, [0.025, 0.135, 0.34, 0.34, 0.135, 0.025], rtol=1e-12)


@pytest.mark.slow
def test_the_command_judges_a_method(tmp_path, capsys):
    arguments = ["--data-sets", "10", "--method", "quadrature", "-o", str(tmp_path)]
    assert main(["reproduce", "calibration", *arguments]) == 0
    printed = capsys.readouterr().out
    assert "mean probability of Langevin" in printed
    assert all(f"true {name} among" in printed for name in PARAMETERS)
    stored = json.loads((tmp_path / "calibration.json").read_text())
    assert stored["method"] == "quadrature"
    assert stored["n_data_sets"] == 20
    assert abs(stored["mean_probability"] - 0.5) < 4.5 * stored["mean_probability_err"]
    for name in PARAMETERS:
        assert sum(stored["ranks"][name]["counts"]) == 10
        assert stored["ranks"][name]["p_value"] > 1e-5


def test_reliability_of_made_up_probabilities_is_counted_right(tmp_path):
    probability = np.array([0.05, 0.05, 0.05, 0.05, 0.95, 0.95])
    truth = np.array([False, False, False, True, True, True])
    result = Calibration(probability, truth, "auto", 0)
    bins = result.reliability()
    assert bins["count"].tolist() == [4, 2]
    np.testing.assert_allclose(bins["observed"], [0.25, 1.0])
    np.testing.assert_allclose(bins["predicted"], [0.05, 0.95])
    np.testing.assert_allclose(bins["error"], np.sqrt([0.05 * 0.95 / 4, 0.05 * 0.95 / 2]))
    numbers, picture, document = result.write(tmp_path)
    assert numbers.stat().st_size > 100
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert document.read_bytes().startswith(b"%PDF")
