"""Model probabilities are honest: data from the prior predictive, both models equally often."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chi2

from driftbayes.reproduce.calibration import Calibration, run_calibration, write_calibration


def _is_calibrated(result):
    mean, error = result.mean
    value, n_bins = result.chi_square()
    return abs(mean - 0.5) < 5 * error and value < chi2.ppf(1 - 1e-5, n_bins)


@pytest.mark.slow
def test_probabilities_are_calibrated_over_the_prior_predictive():
    result = run_calibration(n_per_model=20_000, seed=1)
    assert _is_calibrated(result)
    # The same check sees a bias of 0.2 nats in one evidence, in either direction.
    odds = result.probability / (1 - result.probability)
    for factor in (np.exp(0.2), np.exp(-0.2)):
        biased = replace(result, probability=factor * odds / (1 + factor * odds))
        assert not _is_calibrated(biased)


def test_reliability_of_made_up_probabilities_is_counted_right(tmp_path):
    probability = np.array([0.05, 0.05, 0.05, 0.05, 0.95, 0.95])
    truth = np.array([False, False, False, True, True, True])
    result = Calibration(probability, truth, "auto", 0)
    bins = result.reliability()
    assert bins["count"].tolist() == [4, 2]
    np.testing.assert_allclose(bins["observed"], [0.25, 1.0])
    np.testing.assert_allclose(bins["predicted"], [0.05, 0.95])
    np.testing.assert_allclose(bins["error"], np.sqrt([0.05 * 0.95 / 4, 0.05 * 0.95 / 2]))
    numbers, picture, document = write_calibration(result, tmp_path)
    assert numbers.stat().st_size > 100
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert document.read_bytes().startswith(b"%PDF")
