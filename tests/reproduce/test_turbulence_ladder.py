"""The ladder on packaged statistics: small, against what is known of Brownian and Langevin."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from driftbayes.comparison import compare_hypotheses
from driftbayes.errors import DriftbayesError
from driftbayes.reproduce.turbulence.analysis import data_sets
from driftbayes.reproduce.turbulence.ladder import run_ladder
from driftbayes.reproduce.turbulence.results import Results
from driftbayes.reproduce.turbulence.summary import both_models


@pytest.fixture(scope="module")
def results(packaged):
    """Two of the four realisations."""
    names = list(packaged.realisations)[::3]
    return Results({name: packaged.realisations[name] for name in names})


@pytest.fixture(scope="module")
def ladder(results):
    return run_ladder(("brownian", "langevin"), n_taus=2, results=results)


def test_first_two_rungs_are_those_of_the_reproduction(ladder, results):
    log_k = ladder.against_reference()[:, ladder.models.index("brownian")]
    for name, row in zip(ladder.realisations, log_k, strict=True):
        sets, _ = data_sets(results.realisations[name], results.config(name)["particles"])
        taus = np.array([data.tau for data in sets])
        for tau, found in zip(ladder.taus, row, strict=True):
            one = sets[int(np.argmin(np.abs(taus - tau)))]
            known = compare_hypotheses(both_models(), one).log_bayes_factors["langevin:brownian"]
            assert_allclose(found, -known, atol=1e-6)


def test_ranking_and_best_follow_the_evidence(ladder):
    mean = ladder.log_evidence.mean(axis=0)
    for i, order in enumerate(ladder.ranking()):
        values = [mean[ladder.models.index(model), i] for model in order]
        assert values == sorted(values, reverse=True)
    assert set(ladder.best()[0]) <= set(ladder.models)


def test_files_are_written(ladder, tmp_path):
    written = ladder.write(tmp_path)
    assert {path.name for path in written} == {"ladder.json", "ladder.png", "ladder.pdf"}


def test_models_without_the_reference_are_refused(results):
    with pytest.raises(DriftbayesError, match="langevin is missing"):
        run_ladder(("brownian",), results=results)
