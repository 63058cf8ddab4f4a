"""Wrong arguments at a prompt: one sentence that says what to pass."""

import os
import subprocess
import sys

import numpy as np
import pytest
import xarray as xr

import driftbayes as db
from driftbayes.errors import DriftbayesError

GIVEN = {"models": "brownian", "priors": {"kappa": "exponential:1"}}
SCALES = db.Scales(u_rms=1.0, time=1.0)
BROWNIAN = db.Hypothesis(db.Brownian, kappa=db.Exponential(1.0))
X = np.random.default_rng(0).normal(size=(4, 12, 2)).cumsum(axis=1)


@pytest.fixture(scope="module")
def tracks():
    return db.read(X, dt=0.5)


WALK = db.Brownian(kappa=db.Exponential(1.0))
LANGEVIN = db.Langevin(gamma=db.Exponential(1.0), k=db.Exponential(1.0))
HALF = db.Uniform(0, 1)
STEPS = db.Displacements.from_array(np.diff(X, axis=1), tau=0.5)


SEED = "seed must be a whole number, 0 or more, got "
PROGRESS = "progress must be a function of a stage, the number done and the total, got "
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
    "priors as nothing": (lambda t: t.compare(0.5, priors=""), "priors must be priors by param"),
    "a complex array": (lambda t: db.read(X + 1j, dt=1), "x must hold real numbers, got complex"),
    "text": (lambda t: db.read([[["a"]]], dt=1), "x must hold real numbers, got <U1 values"),
    "dates": (
        lambda t: db.read(X, times=np.arange(12).astype("datetime64[h]")),
        "times must hold real numbers, got datetime64[h] values; give numbers and their time_unit",
    ),
    "times of one": (lambda t: db.read(X, times=5), "times must be one time per position"),
    "errors of one": (
        lambda t: db.read(X, dt=1, position_sd=0.1),
        "position_sd must be one error per position, in one array per trajectory, got 0.1",
    ),
    "errors turned": (
        lambda t: db.read(X, dt=1, position_sd=np.ones((12, 4))),
        "position_sd has 12 arrays, but there are 4 trajectories",
    ),
    "a unit": (lambda t: db.read(X, dt=1, time_unit=None), "time_unit must be text"),
    "bytes": (lambda t: t.predict(0.5, b"1", **GIVEN), "horizons must be a number or a time"),
    "tau as array": (lambda t: db.displacements(t, np.ones(2)), "tau must be a number or a time"),
    "data": (lambda t: db.compare_hypotheses([BROWNIAN], t), "data must be displacements"),
    "data of a model": (lambda t: db.Brownian(kappa=1.0).log_likelihood(t), "data must be displ"),
    "tracks": (lambda t: db.scan_hypotheses(5, [BROWNIAN], [1.0]), f"{TRACKS}5"),
    "data_scales": (lambda t: db.data_scales(5), f"{TRACKS}5"),
    "factors": (lambda t: t.sensitivity(0.5, factors="x", scales=SCALES), "factors must hold real"),
    "min_windows": (
        lambda t: t.map(0.5, cell=9.0, min_windows="x", **GIVEN),
        "min_windows must be a whole number, 1 or more, got 'x'",
    ),
    "seed": (
        lambda t: t.compare(0.5, **GIVEN, method="bridge", seed="x"),
        "seed must be a whole number, 0 or more, got 'x'",
    ),
    "an option": (lambda t: db.Bridge(draws="x"), "draws must be a whole number, 0 or more"),
    "an option as text": (
        lambda t: t.compare(0.5, **GIVEN, method="bridge:draws=x"),
        "draws must be a whole number, 0 or more, got 'x'",
    ),
    "tolerance": (lambda t: db.Exact(tolerance="x"), "tolerance must be a number, got 'x'"),
    "a mean": (lambda t: db.Normal(float("nan"), 1), "the mean of a normal prior must be finite"),
    "scaling": (lambda t: db.scaling_priors("1", 1), "u_rms must be a positive number, got '1'"),
    "example": (lambda t: db.example(None), "unknown example None; expected one of parcels"),
    "plot": (lambda t: db.plot_segments(5), "result must be Segments"),
    "ensembles": (lambda t: db.score_ensembles(t, "a.nc"), "ensembles must be ensembles by name"),
    "table": (lambda t: db.Trajectories.from_dataframe(5), "frame must be a pandas DataFrame"),
    "scan as dataset": (lambda t: db.write_scan(5, "a.nc"), "dataset must be an xarray Dataset"),
    "path of a scan": (lambda t: db.read_scan(5), "path must be the name of a file, got 5"),
    "path": (lambda t: db.write_trajectories(t, 5), "path must be the name of a file, got 5"),
    "steps": (lambda t: db.Displacements.from_array(X, tau="6h"), "tau must be a positive number"),
    "an argument": (
        lambda t: t.compare(0.5, modls="brownian"),
        "compare has no argument 'modls'; did you mean 'models'?",
    ),
    "an argument of scan": (lambda t: t.scan([0.5], prior="x"), "scan has no argument 'prior'; di"),
    "an argument of check": (
        lambda t: t.check(0.5, **GIVEN, n_replica=100),
        "check has no argument 'n_replica'; did you mean 'n_replicas'?",
    ),
    "seed without effect": (lambda t: t.compare(0.5, **GIVEN, seed="x"), SEED),
    "seed of a scan": (lambda t: t.scan([0.5], **GIVEN, seed=1.5), SEED),
    "seed of draws": (lambda t: t.predict(0.5, [1.0], **GIVEN, seed="x"), SEED),
    "seed of an evidence": (lambda t: db.evidence(BROWNIAN, STEPS, seed="x"), SEED),
    "seed of hypotheses": (lambda t: db.compare_hypotheses([BROWNIAN], STEPS, seed="x"), SEED),
    "seed of pairs": (lambda t: t.pairs(0.5, seed="x"), SEED),
    "seed of scanned hypotheses": (
        lambda t: db.scan_hypotheses(t, [BROWNIAN], [0.5], seed="x"),
        SEED,
    ),
    "progress": (lambda t: t.compare(0.5, **GIVEN, progress=True), PROGRESS),
    "progress of a prediction": (lambda t: t.predict(0.5, [1.0], **GIVEN, progress=1), PROGRESS),
    "progress of hypotheses": (
        lambda t: db.compare_hypotheses([BROWNIAN], STEPS, progress=1),
        PROGRESS,
    ),
    "progress of scanned hypotheses": (
        lambda t: db.scan_hypotheses(t, [BROWNIAN], [0.5], progress=1),
        PROGRESS,
    ),
    "draws": (
        lambda t: t.predict(0.5, [1.0], **GIVEN, n_draws="x"),
        "n_draws must be a whole number, 1 or more, got 'x'",
    ),
    "particles of a dependence": (
        lambda t: t.dependence(0.5, max_particles="x"),
        "max_particles must be a whole number, 1 or more, got 'x'",
    ),
    "checks": (lambda t: t.qc(5), "checks must be text such as 'default' or 'spikes=3m/s', or a"),
    "checks in a list": (lambda t: t.qc([5]), "checks must be text such as 'default' or"),
    "workers": (lambda t: db.Blocks(workers="x"), "workers must be a whole number, 0 or more, got"),
    "negative tolerance": (lambda t: db.Exact(tolerance=-1), "tolerance must be positive, got -1"),
    "hypotheses as text": (
        lambda t: db.compare_hypotheses("brownian", STEPS),
        "hypotheses must be a list of hypotheses, got 'brownian'",
    ),
    "tracks of a report": (
        lambda t: t.scan([0.5], **GIVEN).report("a.html", tracks=5),
        f"{TRACKS}5",
    ),
    "an argument of a report": (
        lambda t: t.scan([0.5], **GIVEN).report("a.html", titel="x"),
        "write_report has no option 'titel'; did you mean 'title'?",
    ),
    "simulated tau": (
        lambda t: db.simulate("brownian", {"kappa": 1}, tau=0, n_particles=1, n_steps=1),
        "tau must be a positive number, got 0",
    ),
    "times of all": (
        lambda t: db.read(X, times=np.arange(11)),
        "times has 11 entries, but trajectories have 12 positions; give one array per trajectory",
    ),
    "a prior as text": (
        lambda t: t.compare(0.5, models=db.Brownian(kappa="exponential:1")),
        "kappa of brownian must be a prior, for example Exponential(mean=1.0), or a known number, "
        "got 'exponential:1'",
    ),
    "a prior of nothing": (
        lambda t: db.Hypothesis(db.Brownian(kappa=None)),
        "kappa of brownian must be a prior",
    ),
    "a sum of models": (lambda t: db.Sum(WALK, WALK), "Sum needs a tuple of templates of models"),
    # Priors of the parts would be ignored.
    "a sum of models with priors": (
        lambda t: db.Sum((WALK, LANGEVIN), (HALF, HALF, HALF)),
        "Sum needs a tuple of templates of models and a tuple of one value for each",
    ),
    "values of a sum": (
        lambda t: db.Sum((WALK.template(), LANGEVIN.template()), (HALF,)),
        "Sum needs a tuple of templates",
    ),
    "a class": (
        lambda t: db.Mixture(WALK, others=None, ratio=(HALF,), share=(HALF,)),
        "Mixture of brownian needs one prior or number for each parameter, in tuples as in",
    ),
    "a share": (
        lambda t: db.Mixture(WALK, others=((),), ratio=HALF, share=HALF),
        "Mixture of brownian needs one prior or number for each parameter, in tuples as in",
    ),
    "too many shares": (
        lambda t: db.Mixture(WALK, others=((),), ratio=(HALF,), share=(HALF, HALF)),
        "Mixture of brownian needs one prior",
    ),
    "common motion": (
        lambda t: db.Common(LANGEVIN, others=(), share=HALF),
        "Common of langevin needs one prior or number for each of gamma_common, common",
    ),
    "no common motion": (
        lambda t: db.Common(LANGEVIN, others=None, share=HALF),
        "Common of langevin needs one prior",
    ),
    "a tensor": (
        lambda t: db.Anisotropic(WALK, h=1.0),
        "h must be a tuple of two or five components, for example (Normal(0, 1), Normal(0, 1)), ",
    ),
    "rows": (lambda t: t.select([0, 1]), "rows must be an array of 48 truth values"),
    "rows as numbers": (lambda t: t.blanked(np.ones(48, int)), "rows must be an array of 48 truth"),
    "simulated seed": (
        lambda t: db.simulate("brownian", {}, tau=1, n_particles=1, n_steps=1, seed="x"),
        "seed must be a whole number, 0 or more, got 'x'",
    ),
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


def test_names_of_models_that_are_not_there_are_told(tracks):
    scan = tracks.scan([0.5], **GIVEN)
    with pytest.raises(DriftbayesError, match=r"no model 'brownain' .*; did you mean 'brownian'"):
        scan.evidences("brownain")
    with pytest.raises(DriftbayesError, match="no model 3 in this comparison of brownian"):
        scan.comparisons[0][3]


def test_numbers_of_numpy_are_numbers(tracks):
    count, half = np.int64(3), np.float32(0.5)
    made = db.simulate(
        "brownian", {"kappa": half}, tau=count, n_particles=count, n_steps=count, n_dim=count
    )
    same = db.simulate("brownian", {"kappa": 0.5}, tau=3, n_particles=3, n_steps=3, n_dim=3)
    assert made.fingerprint == same.fingerprint
    found = db.displacements(tracks, half, n_tau=count)
    assert found.fingerprint == db.displacements(tracks, 0.5, n_tau=3).fingerprint
    assert db.Bridge(draws=count) == db.Bridge(draws=3)
    times = xr.DataArray(np.array([0.5, 1.0], dtype=np.float32), dims="tau")
    assert tracks.scan(times, **GIVEN).taus.tolist() == [0.5, 1.0]


def test_masked_positions_are_missing():
    mask = np.zeros(X.shape, dtype=bool)
    mask[0, 5] = True
    holes = np.where(mask, np.nan, X)
    # Under a mask there may be anything.
    for source in (
        np.ma.masked_array(np.where(mask, 1e9, X), mask),
        [np.ma.masked_invalid(holes[0])],
    ):
        found = db.read(source, dt=0.5)
        assert found.fingerprint == db.read(holes[: len(source)], dt=0.5).fingerprint


def test_errors_of_arrays_are_read():
    sd = np.full(X.shape[:2], 0.1)
    found = db.read(X, dt=0.5, position_sd=sd)
    assert found.fingerprint == db.read(X, dt=0.5, noise=0.1).fingerprint
    assert found.provenance["reading"] == {"dt": "0.5"}
    folded = db.read(X, dt=0.5, period=np.array([100.0, 50.0]))
    assert folded.period == (100.0, 50.0)
