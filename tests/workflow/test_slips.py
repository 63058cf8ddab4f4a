"""Wrong arguments at a prompt: one sentence that says what to pass."""

import os
import subprocess
import sys

import numpy as np
import pytest

import driftbayes as db
from driftbayes.errors import DriftbayesError

GIVEN = {"models": "brownian", "priors": {"kappa": "exponential:1"}}
X = np.random.default_rng(0).normal(size=(4, 12, 2)).cumsum(axis=1)


@pytest.fixture(scope="module")
def tracks():
    return db.read(X, dt=0.5)


SOURCES = "source must be a file name, a pandas DataFrame, an xarray Dataset, an array"
TRACKS = "tracks must be trajectories, as driftbayes.read(...) returns them, got "
MODELS = "models must be names such as 'brownian, langevin', a list of them, or hypotheses, got 3"
SLIPS = {
    "read a number": (lambda t: db.read(5), SOURCES),
    "read nothing": (lambda t: db.read(None), SOURCES),
    "read a dict": (lambda t: db.read({"x": 1}), SOURCES),
    "dt": (lambda t: db.read(X, dt="often"), "dt must be a number or a time with its unit"),
    "noise": (
        lambda t: db.read(X, dt=1, noise="a lot"),
        "noise must be a number or a length with its unit, for example 50km, got 'a lot'",
    ),
    "units": (lambda t: db.read(X, dt=1, units=3), "units must be text, for example 'km,d', got 3"),
    "qc": (lambda t: db.read(X, dt=1, qc=5), "qc must be text"),
    "blocks": (lambda t: db.read("a.csv", blocks=5), "blocks must be Blocks"),
    "columns": (lambda t: db.read("a.csv", columns=["x"]), "columns must be names by role"),
    "columns as text": (
        lambda t: db.read("a.csv", columns="x"),
        "columns (--columns) must be NAME=COLUMN,..., got 'x'; for example x=lon,y=lat",
    ),
    "format": (lambda t: db.read("a.csv", format=3), "format must be the name of a format"),
    "option": (
        lambda t: db.read("a.csv", colums={}),
        "read has no option 'colums' for this source; did you mean 'columns'?",
    ),
    "option of arrays": (lambda t: db.read(X, dt=1, unit="m"), "read has no option 'unit'"),
    "several tau": (
        lambda t: t.compare(tau=[1, 2]),
        "tau must be one sampling time, for example 0.5 or '6h', or 'all', got 2; use scan",
    ),
    "tau None": (lambda t: t.compare(None), "tau must be a number or a time with its unit"),
    "tau in words": (lambda t: t.compare("soon"), "tau must be a number or a time with its unit"),
    "models": (lambda t: t.compare(0.5, models=3), MODELS),
    "models in a list": (lambda t: t.compare(0.5, models=[3]), MODELS),
    "models as a class": (lambda t: t.compare(0.5, models=db.Brownian), "models must be names"),
    "priors": (lambda t: t.compare(0.5, priors="x"), "priors must be priors by parameter"),
    "a prior": (lambda t: t.compare(0.5, priors={"k": 3}), "the prior of k must be a prior"),
    "scales": (lambda t: t.compare(0.5, scales=(1, 2)), "scales must be Scales, for example"),
    "cut": (lambda t: t.compare(0.5, cut=5), "cut must be a Cut, for example Cut(n_tau=10), got 5"),
    "n_tau": (lambda t: t.compare(0.5, cut=db.Cut(n_tau="a")), "n_tau must be a whole number"),
    "method": (lambda t: t.compare(0.5, **GIVEN, method=5), "method must be a name or a method"),
    "probabilities": (
        lambda t: t.compare(0.5, **GIVEN, prior_probabilities="a"),
        "prior_probabilities must be 1 positive numbers, one per model, got 'a'",
    ),
    "taus": (lambda t: t.scan([[1, 2]]), "taus must be a number or a time with its unit"),
    "replicas": (
        lambda t: t.check(0.5, **GIVEN, n_replicas="many"),
        "n_replicas must be a whole number, 0 or more, got 'many'",
    ),
    "horizons": (lambda t: t.predict(0.5, "soon"), "horizons must be a number or a time"),
    "cell": (lambda t: t.map([1], cell=[]), "cell must be a number or a length with its unit"),
    "info": (lambda t: db.info(5), f"{TRACKS}5"),
    "an array": (lambda t: db.compare(X, 0.5), f"{TRACKS}ndarray of shape (4, 12, 2)"),
    "scan": (lambda t: db.scan(5), f"{TRACKS}5"),
    "diagnose": (lambda t: db.diagnose(5), f"{TRACKS}5"),
    "displacements": (lambda t: db.displacements(5, 1), f"{TRACKS}5"),
    "write": (lambda t: db.write_trajectories(5, "a.csv"), f"{TRACKS}5"),
    "report": (lambda t: db.write_report(5, "a.html"), "scan must be a Scan, as tracks.scan()"),
    "open": (lambda t: db.open_scan(5), "path must be the name of a file"),
    "read_trajectories": (lambda t: db.read_trajectories(5), "path must be one or more file names"),
    "simulate": (
        lambda t: db.simulate("brownian", {"kappa": 1}, tau="6h", n_particles=1, n_steps=1),
        "tau must be a number: simulated data have no units, got '6h'",
    ),
    "a value": (
        lambda t: db.simulate("brownian", {"kappa": "a"}, tau=1.0, n_particles=1, n_steps=1),
        "kappa must be a positive, finite number, got 'a'",
    ),
    "hypotheses": (lambda t: db.compare_hypotheses(3, t), "hypotheses must be a list"),
}


@pytest.mark.parametrize("case", SLIPS)
def test_slips_are_told_in_one_sentence(tracks, case):
    make, message = SLIPS[case]
    with pytest.raises(DriftbayesError) as error:
        make(tracks)
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)


# The slow tests check annotations of models, priors and inference at run time; users do not.
PLAIN = """
import driftbayes as db
import numpy as np
tracks = db.read(np.zeros((2, 5, 1)), dt=1.0)
brownian = db.Hypothesis(db.Brownian, kappa=db.Exponential(mean=1.0))
slips = [
    lambda: db.Exponential(mean="a"),
    lambda: db.Hypothesis(3),
    lambda: db.Hypothesis("brownian"),
    lambda: db.Hypothesis(db.Brownian, kappa="a"),
    lambda: db.evidence(3, 3),
    lambda: db.evidence(brownian, tracks),
]
for slip in slips:
    try:
        slip()
    except db.DriftbayesError as error:
        print(error)
"""


def test_models_and_priors_say_the_same_without_checked_annotations(capsys):
    if os.environ.get("DRIFTBAYES_CHECK_ALL"):
        done = subprocess.run(
            [sys.executable, "-c", PLAIN], capture_output=True, text=True, timeout=120, check=True
        )
        lines = done.stdout.splitlines()
    else:
        exec(PLAIN, {})
        lines = capsys.readouterr().out.splitlines()
    assert [line.partition(", ")[0] for line in lines] == [
        "a number of a prior or model must be a number",
        "model must be a model",
        "model must be a model",
        "the prior of kappa must be a prior",
        "model must be a model",
        "data must be displacements",
    ]


def test_text_with_units_is_taken_at_the_prompt():
    tracks = db.read(1000.0 * X, dt="1h", length_unit="m", time_unit="s", noise="0.01km")
    assert tracks.recording_interval == 3600.0
    assert tracks.position_sd[0] == 10.0
    assert db.displacements(tracks, "2h").tau == 7200.0
    assert db.displacements(tracks, "all").tau == 3600.0
    assert tracks.dependence("1h").tau == 3600.0
    scales = db.Scales(u_rms="1km/h", time="1h")
    exact = db.read(1000.0 * X, dt=3600.0, length_unit="m", time_unit="s")
    usual = {"models": "brownian"}
    found = exact.compare("1h", scales=scales, **usual)
    plain = exact.compare(3600.0, scales=db.Scales(1 / 3.6, 3600.0), **usual)
    one, other = found.evidences["brownian"], plain.evidences["brownian"]
    np.testing.assert_allclose(one.log_evidence, other.log_evidence, rtol=1e-12)
    assert str(one).startswith("Evidence: brownian at tau = 1 h (exact)")
    assert repr(one.parameters["kappa"]).endswith("m²/s")
    scan = exact.scan("1h,2h", scales=scales, **usual)
    assert scan.taus.tolist() == [3600.0, 7200.0]
    assert exact.scan(["1h", 7200], scales=scales, **usual).taus.tolist() == [3600.0, 7200.0]
