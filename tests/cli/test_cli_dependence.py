"""`driftbayes dependence`, and what compare and scan say of particles that move together."""

import numpy as np
import pytest
from desk import PRIORS, TAUS, langevin_positions

from driftbayes.data.trajectories import Trajectories
from driftbayes.io import write_trajectories


@pytest.fixture(scope="module")
def together_csv(tmp_path_factory):
    """Twenty particles that all but go the same way, 100 steps."""
    x = np.sqrt(0.95) * langevin_positions(1, 101) + np.sqrt(0.05) * langevin_positions(
        20, 101, seed=1
    )
    path = tmp_path_factory.mktemp("together") / "together.csv"
    write_trajectories(Trajectories.from_arrays(x, dt=0.1), path)
    return path


def test_people_get_the_effective_number(ask, together_csv):
    answer = ask("dependence", together_csv, "--tau", "0.1")
    assert (answer.code, answer.err) == (0, "")
    assert "particles move together: effective number of independent particles 1" in answer.out


def test_json_with_replicates(ask, together_csv):
    answer = ask(
        *("dependence", together_csv, "--tau", "0.5", *PRIORS),
        *("--bootstrap", "12", "--draw", "particles", "--seed", "3", "--json"),
    )
    assert answer.code == 0
    found = answer.json
    assert found["n_effective"] < 2
    drawn = found["bootstrap"]
    assert (drawn["n_replicates"], drawn["units"], drawn["seed"]) == (12, "particles", 3)
    assert drawn["interval"][0] <= drawn["interval"][1]


def test_compare_warns_and_scales(ask, together_csv):
    answer = ask("compare", together_csv, "--tau", "0.1", *PRIORS, "--json")
    line = next(text for text in answer.err.split("warning: ") if "effective number" in text)
    line = " ".join(line.split())
    assert "effective number of independent particles 1.1 of 20" in line
    assert "compare models with +common" in line
    assert "corrected ln K(langevin:brownian) about " in line
    found = answer.json
    scaled = found["dependence"]["scaled_log_bayes_factors"]["langevin:brownian"]
    assert f"as if particles were independent, about {scaled:.3g} corrected for" in found["verdict"]
    assert 0 < scaled < found["log_bayes_factors"]["langevin:brownian"] / 8


def test_scan_warns_once(ask, together_csv):
    answer = ask("scan", together_csv, "--taus", TAUS, *PRIORS)
    assert answer.code == 0
    assert answer.err.count("particles move together") == 1


def test_three_models_have_no_one_bayes_factor(ask, together_csv):
    answer = ask(
        *("dependence", together_csv, "--tau", "0.1", "--bootstrap", "9"),
        *("--models", "brownian,langevin,oscillating"),
    )
    assert answer.code == 2
    assert "--bootstrap needs two models" in answer.err
