"""`driftbayes dependence`, and what compare and scan say of particles that move together."""

import shlex

import numpy as np
import pytest
from desk import PRIORS, TAUS, langevin_positions

from driftbayes.data._trajectories import Trajectories
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
    assert "brownian+common, langevin+common model the shared motion" in line
    assert "corrected ln K(langevin:brownian) about " in line
    found = answer.json
    scaled = found["dependence"]["scaled_log_bayes_factors"]["langevin:brownian"]
    assert f"as if particles were independent, about {scaled:.3g} corrected for" in found["verdict"]
    assert 0 < scaled < found["log_bayes_factors"]["langevin:brownian"] / 8


def shared_line(answer):
    """The command that is offered, on one line however long it is."""
    lines = [line for line in answer.raw_out.splitlines() if line.startswith("next: ")]
    assert len(lines) == 1
    assert lines[0].endswith(" --models brownian+common,langevin+common")
    return lines[0].removeprefix("next: ").split()


@pytest.mark.parametrize("command", ["compare", "dependence"])
def test_the_model_of_the_shared_motion_is_offered_as_a_command(ask, together_csv, command):
    answer = ask(command, together_csv, "--tau", "0.1", *PRIORS)
    program, *words = shared_line(answer)
    assert program == "driftbayes"
    assert words[:4] == ["compare", str(together_csv), "--tau", "0.1"]
    found = ask(*words, "--json").json
    assert set(found["models"]) == {"brownian+common", "langevin+common"}
    assert "next" not in found


def test_json_offers_the_same_command(ask, together_csv):
    for command in ("compare", "dependence"):
        found = ask(command, together_csv, "--tau", "0.1", *PRIORS, "--json").json
        assert found["next"].startswith(f"driftbayes compare {together_csv} --tau 0.1 ")
        assert "--json" not in found["next"]
        known = found if command == "dependence" else found["dependence"]
        assert known["models"] == ["brownian+common", "langevin+common"]
        assert known["options"] == ["common"]


def test_both_ways_are_compared_in_one_sentence(ask, together_csv):
    models = "brownian,langevin,brownian+common,langevin+common"
    answer = ask("compare", together_csv, "--tau", "0.1", *PRIORS, "--models", models)
    text = " ".join(answer.out.split())
    assert "langevin over brownian: treated as independent ln K = " in text
    assert "; with shared motion (+common) ln K = " in text
    assert "next:" not in answer.out


def test_scan_and_report_offer_the_models_too(ask, together_csv, tmp_path):
    words = shared_line(ask("scan", together_csv, "--taus", TAUS, *PRIORS))
    assert words[1:5] == ["scan", str(together_csv), "--taus", TAUS]
    page = tmp_path / "report.html"
    answer = ask("report", together_csv, "--taus", TAUS, *PRIORS, "--brief", "-o", page)
    words = shlex.split(
        next(x for x in answer.raw_out.splitlines() if x.startswith("next: "))[len("next: ") :]
    )
    assert words[:3] == ["driftbayes", "scan", str(together_csv)]
    assert words[words.index("--models") + 1] == "brownian+common,langevin+common"
    html = page.read_text(encoding="utf-8")
    assert "To model the shared motion:" in html
    assert "--models brownian+common,langevin+common" in html


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


def test_a_report_of_models_with_shared_motion_does_not_call_them_overstated(
    ask, together_csv, tmp_path
):
    answer = ask(
        *("report", together_csv, "--taus", "0.1,0.5", "--models", "brownian+common"),
        *("--replicas", "0", "-o", tmp_path / "report.html"),
    )
    assert answer.code == 0
    assert "overstated" not in answer.out
    assert "next:" not in answer.out


def test_a_law_of_pairs_is_no_model_of_particles(ask, together_csv):
    answer = ask("scan", together_csv, "--taus", "0.1,0.2", "--models", "richardson")
    assert answer.code == 2
    assert "'richardson' is a law of pairs of particles" in answer.err
