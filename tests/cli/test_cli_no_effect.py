"""An option without effect is refused, never ignored."""

import pytest
from desk import PRIORS

from driftbayes import Trajectories
from driftbayes.io import write_trajectories

TAU = ("--tau", "0.1")
CASES = {
    "coordinates without Laplace": (
        ("compare", *TAU, "--coords", "log"),
        "--coords is an option of --method laplace; omit --coords",
    ),
    "windows of whole trajectories": (
        ("compare", *TAU, "--windows=all"),
        "--windows chooses windows of --n-tau N steps; omit --windows",
    ),
    "weights of models in their sensitivity": (
        ("sensitivity", *TAU, "--model-prior", "1,2"),
        "no number of this command depends on prior probabilities of models; omit --model-prior",
    ),
    "weights of models in a map": (
        ("map", "--taus", "0.1", "--model-prior", "1,2"),
        "no number of this command depends on prior probabilities of models; omit --model-prior",
    ),
    "method of a map by evidence": (
        ("map", "--taus", "0.1", "--method", "nested", "--seed", "3"),
        "a map by evidence is integrated exactly; omit --method, --seed",
    ),
    "depth of a fixed grid": (
        ("map", "--taus", "0.1", "--cell", "1", "--depth", "3"),
        "a fixed grid (--cell) is not divided; omit --depth",
    ),
    "weights of models without independence": (
        ("dependence", *TAU, "--model-prior", "1,2"),
        "no number of this command depends on prior probabilities of models; omit --model-prior",
    ),
    "draws without a bootstrap": (
        ("dependence", *TAU, "--draw", "time"),
        "--draw is for --bootstrap N; omit --draw",
    ),
    "folds of nothing": (
        ("score", *TAU, "--folds", "3"),
        "--folds is for --held-out-taus and --learned; omit --folds",
    ),
    "weights of models without an average": (
        ("score", *TAU, "--model-prior", "1,2"),
        "prior probabilities of models weigh the average of --held-out-taus; omit --model-prior",
    ),
    "members of a table": (
        ("predict", *TAU, "--horizon", "1", "--members", "5"),
        "--members is for -o FILE and --regions FILE; omit --members",
    ),
    "fit options of a map": (
        ("predict", "--horizon", "1", "--space", "map.nc", "--draws", "5", *PRIORS, "--seed", "1"),
        "--space FILE.nc replaces a fit of models; omit --draws, --prior, --seed",
    ),
    "replicas of a brief report": (
        ("report", "--brief", "--replicas", "200"),
        "--brief omits the goodness of fit; omit --replicas",
    ),
    "axes of longitudes on a plane": (
        ("info", "--frame", "transported"),
        "frame 'transported' (--frame) is for longitudes and latitudes, but positions are on a "
        "plane already; omit it",
    ),
    "pixels of longitudes": (
        ("info", "--coordinates", "degrees", "--pixel-size", "1um"),
        "positions are longitudes and latitudes, not those of a camera; leave out --pixel-size",
    ),
    "frames of longitudes": (
        ("info", "--coordinates", "degrees", "--frame-interval", "1ms"),
        "positions are longitudes and latitudes, not those of a camera; leave out --frame-interval",
    ),
    "an example without a name": (
        ("example", "-o", "a.csv"),
        "-o needs the name of an example: one of parcels, drifters, buoys, particles, animal",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_an_option_without_effect_is_refused(case, ask, tracks_csv, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (command, *options), message = CASES[case]
    file = () if command == "example" else (tracks_csv,)
    answer = ask(command, *file, *options)
    assert (answer.code, answer.out, answer.err) == (2, "", f"driftbayes: {message}\n")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--taus", "0.1"), "the file is a scan, whose models and sampling times are in the"),
        (("--models", "matern", "--method", "nested"), "in the report; omit --models, --method"),
        (("--noise", "0.1"), "without --data TRAJECTORIES the report has only the scan; omit"),
        (("--replicas", "200"), "the report has only the scan; omit --replicas"),
    ],
)
def test_the_report_of_a_scan_refuses_options_of_trajectories(
    options, message, ask, scan_nc, tmp_path
):
    answer = ask("report", scan_nc, "-o", tmp_path / "r.html", *options)
    assert (answer.code, answer.out) == (2, "")
    assert message in answer.err
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def scan_nc(tmp_path_factory):
    from driftbayes.cli.main import main

    folder = tmp_path_factory.mktemp("scan")
    steps = [[[0.0], [1.0], [1.5], [0.5], [0.7]], [[0.0], [-1.0], [0.5], [1.5], [2.7]]]
    write_trajectories(Trajectories.from_arrays(steps, dt=0.1), folder / "t.csv")
    words = ("scan", "t.csv", "--taus", "0.1", "--models", "brownian", *PRIORS[:2])
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main([*words, "-o", "scan.nc", "--quiet"]) == 0
    return folder / "scan.nc"


def test_prior_probabilities_are_not_offered_where_they_have_no_effect(ask):
    for command in ("sensitivity", "map", "dependence"):
        assert "--model-prior" not in ask(command, "--help").out
    assert "--model-prior" in ask("compare", "--help").out
