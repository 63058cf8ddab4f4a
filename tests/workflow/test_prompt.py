"""The same calls at the prompt and in the shell: read, compare, scan, and what comes back."""

import json
import warnings
from argparse import _SubParsersAction
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from matplotlib.figure import Figure
from numpy.testing import assert_allclose

import driftbayes as db
from driftbayes import workflow
from driftbayes._representation import card_text
from driftbayes.cli.main import build_parser, main
from driftbayes.data._describe import origin_facts
from driftbayes.diagnostics._describe import describe_diagnostics
from driftbayes.io import read_dataset
from driftbayes.quality import inspect

RNG = np.random.default_rng(3)
X = RNG.normal(size=(12, 81, 2)).cumsum(axis=1)
SCALES = db.Scales(u_rms=1.4, time=1.0)


@pytest.fixture(scope="module")
def tracks():
    return db.read(X, dt=0.5, length_unit="km", time_unit="d")


@pytest.fixture(scope="module")
def file(tracks, tmp_path_factory):
    path = tmp_path_factory.mktemp("tracks") / "tracks.nc"
    db.write_trajectories(tracks, path)
    return path


@pytest.fixture(scope="module")
def scanned(tracks):
    return tracks.scan([0.5, 1.0], scales=SCALES, models="brownian, langevin+noise")


def test_every_source_gives_the_same_trajectories(tracks, file):
    sources = {
        "file": db.read(file),
        "text": db.read(str(file)),
        "table": db.read(tracks.to_dataframe()),
        "dataset": db.read(tracks.to_dataset()),
        "trajectories": db.read(tracks),
        "arrays": db.read(list(X), dt=0.5, length_unit="km", time_unit="d"),
    }
    for name, found in sources.items():
        assert_allclose(found.positions, tracks.positions, rtol=1e-12, err_msg=name)
        assert (found.length_unit, found.time_unit) == ("km", "d"), name


def test_the_index_of_a_table_holds_ids_and_times(tracks):
    table = tracks.to_dataframe()
    units = {"length_unit": "km", "time_unit": "d"}
    for levels in (["id", "time"], ["time"], ["id"]):
        assert db.read(table.set_index(levels), **units).fingerprint == tracks.fingerprint
    # A column is used before a level of the same kind.
    other = table.rename(columns={"id": "drifter"}).rename_axis("track")
    assert db.read(other, **units).fingerprint == tracks.fingerprint


def test_a_dataset_on_a_grid_may_have_the_names_of_a_table(tracks, tmp_path):
    axes = ("id", "time")
    grid = xr.Dataset(
        {axis: (axes, X[..., i]) for i, axis in enumerate("xy")},
        coords={"id": np.arange(len(X)), "time": 0.5 * np.arange(X.shape[1])},
    )
    grid.to_netcdf(tmp_path / "grid.nc")
    for source in (grid, grid.transpose("time", "id"), tmp_path / "grid.nc", grid.to_dataframe()):
        found = db.read(source, length_unit="km", time_unit="d")
        assert found.fingerprint == tracks.fingerprint


def test_a_scan_is_not_read_as_trajectories(scanned, tmp_path):
    scanned.save(tmp_path / "scan.nc")
    with pytest.raises(db.DriftbayesError, match=r"is a scan file of driftbayes.*open_scan"):
        db.read(tmp_path / "scan.nc")


def test_a_comparison_is_iterated_by_the_names_of_its_models(tracks):
    result = tracks.compare(0.5, scales=SCALES)
    assert list(result) == ["brownian", "langevin"]
    assert "langevin" in result
    assert "langvin" not in result


def test_columns_are_taken_as_text_too(tmp_path, capsys):
    file = tmp_path / "odd.csv"
    file.write_text("fish,zeit,east,north,up\n1,0,1,2,3\n1,1,2,3,4\n1,2,4,4,4\n")
    text = "id=fish,time=zeit, x=east,y=north,z="
    names = {"id": "fish", "time": "zeit", "x": "east", "y": "north", "z": None}
    found = db.read(file, columns=text)
    assert found.fingerprint == db.read(file, columns=names).fingerprint
    assert (found.n_dim, found.ids.tolist()) == (2, [1])
    assert main(["info", str(file), "--columns", text, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["data_fingerprint"] == found.fingerprint
    # The text is kept for the command that repeats the reading.
    assert db.read(file, columns=found.provenance["reading"]["columns"]).n_dim == 2


def test_units_noise_and_period_are_those_of_the_command(file, capsys):
    given = ["--units", "m,h", "--noise", "20", "--json"]
    assert main(["info", str(file), *given]) == 0
    said = json.loads(capsys.readouterr().out)
    found = db.read(file, units="m,h", noise=20)
    assert found.fingerprint == said["data_fingerprint"]
    assert found.provenance["reading"] == {"units": "m,h", "noise": "20"}
    assert_allclose(found.positions, 1000 * X.reshape(-1, 2), rtol=1e-12)
    with pytest.raises(db.DriftbayesError, match="noise must be a positive number, got -1"):
        db.read(file, noise=-1)
    with pytest.raises(db.DriftbayesError, match="units must be one of length and one of time"):
        db.read(file, units="km")
    with pytest.raises(db.DriftbayesError, match="trajectories are already read"):
        db.read(found, dt=1.0)


def test_a_comparison_at_the_prompt_is_that_of_the_command(tracks, file, capsys):
    arguments = ["compare", str(file), "--tau", "0.5", "--u-rms", "1.4", "--timescale", "1"]
    assert main([*arguments, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    result = tracks.compare(0.5, scales=SCALES)
    assert result.verdict == said["verdict"]
    # Positions on disk have 17 digits, and the same hash.
    assert result.data_fingerprint == said["data_fingerprint"]
    k = result["langevin"].parameters["k"]
    model = said["models"]["langevin"]
    assert k.mean == model["posterior_mean"]["k"]
    assert (k.mode, k.sd) == (model["map"]["k"], model["posterior_sd"]["k"])
    assert k.interval == tuple(model["posterior_quantiles"]["k"][q] for q in ("0.025", "0.975"))
    assert (k.unit, k.prior) == ("km²/d", model["priors"]["k"])
    assert "km²/d" in str(result["langevin"])
    with pytest.raises(db.DriftbayesError, match=r"no model .langvin.*did you mean .langevin"):
        result["langvin"]


ASKED = ("--u-rms", "1.4", "--timescale", "1")


@pytest.fixture
def told(file, capsys):
    """What a command says of the file, as JSON."""

    def tell(command, *options):
        assert main([command, str(file), *options, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    return tell


def test_a_description_at_the_prompt_is_that_of_the_command(file, told):
    tracks = db.read(file)
    said = told("info")
    found = db.info(tracks, file).to_json()
    assert found == {name: said[name] for name in found}
    assert set(said) - set(found) == {"file", "format", "format_summary", "recognised_by"}
    assert found["suggested_command"].startswith("driftbayes scan")
    assert f"suggested    tau = {found['suggested_taus']}" in str(tracks)
    assert repr(tracks).count("\n") == 0


def test_a_card_of_trajectories_warns_as_the_command_does():
    coarse = db.Trajectories.from_arrays(np.round(X), dt=0.5, length_unit="km")
    (warning,) = db.info(coarse).warnings
    assert warning.startswith("positions are rounded: the rounding error of 0.289 km")
    assert warning.partition(";")[0] in " ".join(str(coarse).split())


def test_a_check_at_the_prompt_is_that_of_the_command(tracks, told):
    said = told("check", "--tau", "0.5", "--replicas", "100", *ASKED)
    assert tracks.check(0.5, scales=SCALES, n_replicas=100).to_json() == said
    assert said["priors_from_data"] is False


def test_scores_at_the_prompt_are_those_of_the_command(tracks, told):
    said = told("score", "--tau", "0.5", "--held-out-taus", "1", "--folds", "3", *ASKED)
    assert tracks.score(0.5, times=[1.0], n_folds=3, scales=SCALES).to_json() == said


def test_a_prediction_at_the_prompt_is_that_of_the_command(tracks, told):
    said = told("predict", "--tau", "0.5", "--horizon", "1,2", "--draws", "200", *ASKED)
    found = tracks.predict(0.5, [1.0, 2.0], n_draws=200, scales=SCALES)
    assert found.to_json() == said
    paths = found.particles(n_members=3)
    assert paths.positions.shape == (3, 12, 3, 2)


def test_a_sensitivity_at_the_prompt_is_that_of_the_command(tracks, told):
    said = told("sensitivity", "--tau", "0.5", "--factors", "1/2:2:3", *ASKED)
    assert tracks.sensitivity(0.5, factors=[0.5, 1, 2], scales=SCALES).to_json() == said


def test_a_dependence_at_the_prompt_is_that_of_the_command(tracks, told):
    assert tracks.dependence(0.5).to_json() == told("dependence", "--tau", "0.5")
    said = told("dependence", "--tau", "0.5", "--bootstrap", "20", *ASKED)
    found = workflow.bootstrap(tracks, 0.5, n_replicates=20, scales=SCALES)
    assert said["bootstrap"] == found.to_json()


@pytest.mark.parametrize(
    ("command", "result"),
    [
        (
            ("sensitivity", "--tau=0.5", "--factors=1/2:2:3", *ASKED),
            lambda t: t.sensitivity(0.5, factors=[0.5, 1, 2], scales=SCALES),
        ),
        (("score", "--tau=0.5", *ASKED), lambda t: t.score(0.5, scales=SCALES)),
        (
            ("predict", "--tau=0.5", "--horizon=1", "--draws=50", *ASKED),
            lambda t: t.predict(0.5, [1.0], n_draws=50, scales=SCALES),
        ),
        (("dependence", "--tau=0.5"), lambda t: t.dependence(0.5)),
        (("qc",), inspect),
        (("diagnose",), lambda t: card_text(describe_diagnostics(db.diagnose(t)))),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_a_result_prints_as_its_command(command, result, tracks, file, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert main([command[0], str(file), *command[1:]]) == 0
    printed = capsys.readouterr().out
    found = result(tracks)
    assert printed.strip() == str(found).strip()
    if not isinstance(found, str):
        assert repr(found).startswith(f"<{type(found).__name__}: ")
        assert "<table" in found._repr_html_()


def test_an_export_at_the_prompt_is_that_of_the_command(scanned, tmp_path, capsys):
    scanned.save(tmp_path / "scan.nc")
    for simulator in ("parcels", "opendrift", "json"):
        where = ["--for", simulator, "--model", "langevin+noise", "--tau", "12h"]
        assert main(["export", str(tmp_path / "scan.nc"), *where]) == 0
        said = capsys.readouterr().out
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", db.DataWarning)
            found = scanned.export(simulator, model="langevin+noise", tau="12h")
        assert found == said
        assert "2 K t" in found
    with pytest.raises(db.DriftbayesError, match="a scan is exported as text"):
        scanned.export("json", tmp_path / "scan.nc")
    with pytest.raises(db.DriftbayesError, match="or a file of one, not Trajectories"):
        db.export(db.read(X, dt=0.5), "parcels")


def test_results_are_drawn_saved_and_exported(tracks, tmp_path):
    mapped = tracks.map(0.5, models="brownian", scales=SCALES, depth=1)
    mapped.save(tmp_path / "map.nc")
    code = mapped.export("parcels", tmp_path / "K.nc")
    assert code == db.export(tmp_path / "map.nc", "parcels", tmp_path / "again.nc").replace(
        "again.nc", "K.nc"
    )
    with pytest.raises(db.DriftbayesError, match=r"exported as a grid; give -o FILE\.nc"):
        mapped.export("parcels", tmp_path / "K.py")
    forecast = tracks.predict(0.5, [1.0], models="brownian", scales=SCALES, n_draws=50)
    presence = forecast.presence(cell=2.0)
    presence.save(tmp_path / "presence.nc")
    for kind in ("map", "presence"):
        assert read_dataset(tmp_path / f"{kind}.nc", kind=kind).sizes
    sensitivity = tracks.sensitivity(0.5, factors=[0.5, 2.0], scales=SCALES)
    for result in (mapped, presence, sensitivity):
        assert isinstance(result.plot(), Figure)


@pytest.mark.slow
def test_a_map_at_the_prompt_is_that_of_the_command(tracks, file, tmp_path):
    out = tmp_path / "map.nc"
    options = ["--cell", "5km", "--tau", "0.5", "--min-windows", "5", *ASKED]
    assert main(["map", str(file), *options, "-o", str(out)]) == 0
    found = tracks.map([0.5], cell="5km", min_windows=5, scales=SCALES)
    with xr.open_dataset(out) as written:
        for name, values in found.data_vars.items():
            assert_allclose(written[name].values, values, rtol=1e-12, err_msg=name)


def test_a_simulation_at_the_prompt_is_that_of_the_command(tmp_path):
    out = tmp_path / "made.nc"
    line = "simulate langevin --gamma 1 --k 2 --particles 3 --steps 4 --tau 0.5 --seed 7 -o"
    assert main([*line.split(), str(out)]) == 0
    numbers = {"n_particles": 3, "n_steps": 4, "seed": 7}
    found = db.simulate("langevin", {"gamma": 1.0, "k": 2.0}, tau=0.5, **numbers)
    assert_allclose(db.read_trajectories(out).positions, found.positions, rtol=0)
    with pytest.raises(db.DriftbayesError, match="langevin has parameters gamma, k; missing k"):
        db.simulate("langevin", {"gamma": 1.0}, tau=0.5, **numbers)


def test_a_file_in_blocks_is_a_source_of_the_same_numbers(tracks, file):
    blocks = db.read(file, blocks=db.Blocks(points=100))
    found = db.compare(blocks, 0.5, scales=SCALES)
    whole = tracks.compare(0.5, scales=SCALES)
    for name, e in whole.evidences.items():
        assert_allclose(found[name].log_evidence, e.log_evidence, rtol=1e-9)
    scanned = db.scan(blocks, [0.5, 1.0], scales=SCALES)
    assert scanned.comparisons[0].log_bayes_factors == found.log_bayes_factors
    assert blocks.provenance["source"] == file.name


def test_models_may_be_names_hypotheses_or_both(tracks):
    mine = db.Hypothesis(db.Brownian, kappa=db.Exponential(2.0))
    alone = tracks.compare(0.5, models=[mine])
    assert list(alone.evidences) == ["brownian"]
    assert alone["brownian"].hypothesis is mine
    both = tracks.compare(0.5, models=[mine, "langevin"], scales=SCALES)
    assert both["brownian"].log_evidence == alone["brownian"].log_evidence
    texts = tracks.compare(0.5, models="brownian", priors={"kappa": "exponential:2"})
    assert texts["brownian"].log_evidence == alone["brownian"].log_evidence
    with pytest.raises(db.DriftbayesError, match="hypotheses already have priors"):
        tracks.compare(0.5, models=[mine], scales=SCALES)


def test_default_priors_warn_and_show_their_sensitivity(tracks):
    with pytest.warns(db.PriorWarning, match="default priors set from the data") as seen:
        result = db.compare(tracks, 0.5)
    assert seen[0].filename == __file__
    assert result.priors_from_data is True
    assert result.sensitivity


def doubts(x, tau=1.0, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", db.DataWarning)
        found = db.read(x, dt=1.0).compare(tau, scales=SCALES, **options)
    assert all(doubt in found.verdict for doubt in found.doubts)
    return found.doubts


def walk(seed, n=400, drift=0.0):
    steps = np.random.default_rng(seed).normal(drift, 1.0, size=(20, n, 2))
    return np.concatenate([np.zeros((20, 1, 2)), steps], axis=1).cumsum(axis=1)


def test_what_else_could_explain_the_correlation_of_steps_is_in_the_verdict():
    rng = np.random.default_rng(5)
    x = walk(0)
    assert doubts(x) == ()
    noisy = x + rng.normal(0, 1.0, x.shape)
    (noise,) = doubts(noisy)
    assert noise.startswith("measurement error could explain the correlation -0.3")
    assert noise.endswith(" of successive steps: compare with brownian+noise")
    assert doubts(noisy, models="brownian, brownian+noise") == ()
    fine = walk(1, 4000)
    blurred = fine[:, :-1].reshape(20, 400, 10, 2).mean(axis=2)
    (blur,) = doubts(blurred)
    assert blur.startswith("motion blur or smoothing could explain the correlation +0.2")
    # Over two intervals its correlation is a third as large; blur is not the first thought there.
    assert doubts(blurred, 4.0) == ()
    (flow,) = doubts(walk(2, drift=0.7), 2.0)
    assert flow.startswith("a mean flow could explain the correlation +0.")
    assert doubts(walk(2, drift=0.7), 2.0, models="brownian, langevin+mean") == ()


def test_default_priors_take_their_scales_from_the_sampling_time():
    """A motionless receiver: its noise at the recording interval is no diffusivity at 600."""
    x = np.random.default_rng(1).normal(0, 12.0, size=(1, 6 * 3600, 2))
    with pytest.warns(db.PriorWarning, match="T = 300 at tau = 600"):
        found = db.read(x, dt=1.0).compare(600.0, models="brownian+noise, confined")
    log_k = found.log_bayes_factors["confined:brownian+noise"]
    # With scales of the motion at 600: L = 12, T = 300, and a noise of 12.
    diffusivity, rate = db.Exponential(mean=0.5), db.Exponential(mean=1 / 300)
    sensible = {"kappa": diffusivity, "k": diffusivity, "gamma": rate, "well": rate}
    priors = {**sensible, "sigma": db.Exponential(mean=12.0)}
    known = db.read(x, dt=1.0).compare(600.0, models="brownian+noise, confined", priors=priors)
    assert abs(log_k - known.log_bayes_factors["confined:brownian+noise"]) < 1.0
    assert "conflict" not in found.verdict


def test_a_known_error_that_the_data_already_have_is_warned_of(tmp_path, capsys):
    tracks = db.read(X, dt=0.5, length_unit="km", time_unit="d", noise=0.2)
    kappa = db.Exponential(mean=1.0)
    double = db.Noise(db.Brownian(kappa=kappa), sigma=db.Fixed(0.2))
    says = r"brownian\+noise adds a fixed sigma of 0.2 km to the position errors of the data"
    with pytest.warns(db.DataWarning, match=says) as told:
        found = tracks.compare(0.5, models=double)
    assert len(told) == 1
    # It is added, as documented: two errors of 0.2 are one of 0.2 √2.
    single = db.Hypothesis(db.Noise(db.Brownian(kappa=kappa), sigma=db.Fixed(0.2 * 2**0.5)))
    exact = db.evidence(single, db.displacements(db.read(X, dt=0.5), tau=0.5))
    assert_allclose(found["brownian+noise"].log_evidence, exact.log_evidence, rtol=1e-10)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for sigma in (db.Fixed(0), db.Exponential(0.2)):
            tracks.compare(0.5, models=db.Noise(db.Brownian(kappa=kappa), sigma=sigma))
        db.read(X, dt=0.5).compare(0.5, models=double)
    db.write_trajectories(tracks, tmp_path / "tracks.nc")
    options = ["--models", "brownian+noise", "--prior", "sigma=fixed:0.2km", *ASKED]
    assert main(["compare", str(tmp_path / "tracks.nc"), "--tau", "0.5", *options]) == 0
    assert "brownian+noise adds a fixed sigma of 0.2 km" in capsys.readouterr().err


def test_a_prior_that_the_data_contradict_is_in_the_verdict():
    x = np.random.default_rng(1).normal(0, 12.0, size=(1, 300, 2))
    priors = {"kappa": "exponential:29", "sigma": "exponential:0.38"}
    found = db.read(x, dt=600.0).compare(600.0, models="brownian+noise", priors=priors)
    # Two parameters that ordinary priors would cost about 13.
    assert found["brownian+noise"].log_occam_factor < -37
    assert "; prior and data are in conflict for brownian+noise" in found.verdict


def test_a_scan_has_one_set_of_priors_from_its_shortest_sampling_time():
    x = walk(3)
    with pytest.warns(db.PriorWarning, match="at tau = 4") as told:
        found = db.read(x, dt=1.0).scan([4.0, 8.0])
    with pytest.warns(db.PriorWarning):
        alone = db.read(x, dt=1.0).compare(4.0)
    assert len([one for one in told if one.category is db.PriorWarning]) == 1
    first, last = found.comparisons
    assert first["langevin"].priors == last["langevin"].priors == alone["langevin"].priors


def test_trajectories_that_are_too_short_are_named():
    short = [*X[:, :, :], X[0, :2]]
    tracks = db.read(short, dt=0.5)
    with pytest.warns(db.DataWarning, match="1 trajectory is too short for this tau"):
        tracks.compare(2.0, scales=SCALES)


def test_a_scan_chooses_sampling_times_that_suit(tracks):
    found = tracks.scan(scales=SCALES)
    assert found.taus[0] == 0.5
    assert 5 <= len(found.taus) <= 12
    uneven = db.read([x[::2] for x in X], times=[np.cumsum(RNG.random(41)) for _ in X])
    with pytest.raises(db.DriftbayesError, match="a scan over tau needs regular times"):
        uneven.scan(scales=SCALES)
    assert uneven.compare("all", scales=SCALES)["langevin"].status.value == "ok"


def test_a_scan_comes_back_from_disk_as_it_was(scanned, tmp_path):
    scanned.save(tmp_path / "scan.nc")
    again = db.open_scan(tmp_path / "scan.nc")
    assert again.to_json() == scanned.to_json()
    one, other = again.evidences("langevin+noise")[1], scanned.evidences("langevin+noise")[1]
    assert one.hypothesis.describe() == other.hypothesis.describe()
    assert_allclose(one.posterior_cov, other.posterior_cov, rtol=0)
    assert again.to_dataset().identical(scanned.to_dataset())


def test_every_evidence_of_a_scan_keeps_its_own_method(scanned, tmp_path):
    first = scanned.comparisons[0]
    sampled = replace(first["langevin+noise"], method="laplace_is", seed=7)
    mixed = replace(first, evidences={**first.evidences, "langevin+noise": sampled})
    replace(scanned, comparisons=(mixed, *scanned.comparisons[1:])).save(tmp_path / "mixed.nc")
    again = db.open_scan(tmp_path / "mixed.nc").comparisons[0]
    assert {name: e.method for name, e in again.evidences.items()} == {
        "brownian": "exact",
        "langevin+noise": "laplace_is",
    }


@pytest.mark.sampled(2)
@pytest.mark.parametrize("details", ["{", "[]", "{}", '{"brownian": [], "langevin+noise": 3}'])
def test_a_damaged_scan_is_refused_in_a_sentence(scanned, tmp_path, details):
    damaged = scanned.to_dataset().assign_attrs(details=details)
    db.write_scan(damaged, tmp_path / "damaged.nc")
    with pytest.raises(db.DriftbayesError, match=r"the scan is damaged .*; scan the data again"):
        db.open_scan(tmp_path / "damaged.nc")


def test_a_scan_of_another_version_is_refused_with_advice(scanned, tmp_path):
    old = scanned.to_dataset()
    del old.attrs["details"]
    db.write_scan(old, tmp_path / "old.nc")
    with pytest.raises(db.DriftbayesError, match="stored only a part of it; read it with"):
        db.open_scan(tmp_path / "old.nc")


def test_a_scan_is_drawn_and_reported(scanned, tmp_path):
    scanned.plot().savefig(tmp_path / "scan.png")
    made = scanned.report(tmp_path / "report.html")
    assert [path.name for path in made.paths] == [
        *("report.html", "report.report.csv", "report.report.json")
    ]
    assert made.sentences[-1] in " ".join(str(made).split())
    assert (tmp_path / "scan.png").stat().st_size > 10_000
    assert "langevin+noise" in (tmp_path / "report.html").read_text()


def test_tables_have_the_units_of_the_data(scanned):
    frame = scanned.to_dataframe()
    units = frame.drop_duplicates("parameter").set_index("parameter")["unit"]
    assert isinstance(frame, pd.DataFrame)
    assert dict(units) == {"kappa": "km²/d", "gamma": "1/d", "k": "km²/d", "sigma": "km"}


def test_a_warning_names_the_line_of_the_user(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import driftbayes as db\n\ntracks = db.read(X, dt=0.5, units='km,d')\n")
    with pytest.warns(db.DataWarning, match="no unit of (length|time)") as seen:
        exec(compile(script.read_text(), str(script), "exec"), {"X": X, "__name__": "script"})
    assert {(warning.filename, warning.lineno) for warning in seen} == {(str(script), 3)}


def test_the_origin_of_data_is_told_in_words():
    with pytest.warns(db.DataWarning, match="no unit of time"):
        tracks = db.read(X, dt=0.5, length_unit="m", units="km,d", noise="20m", drop_short=True)
    assert dict(origin_facts(tracks.provenance)) == {
        "units": "length from m to km, time assumed in d",
        "noise": "0.02",
        "dropped short": "0",
    }
    found = origin_facts(
        {"quality": [{"check": "stuck", "n_observations": 12}], "unwrapped": [9, None]}
    )
    assert found == [("quality", "stuck (12 positions)"), ("unwrapped", "9, -")]
    found = origin_facts({"columns": {"x": "X", "sd": None}, "units": {"length": ["m", "m"]}})
    assert found == [("columns", "x = X, sd = none"), ("units", "length m")]


def test_every_command_on_trajectories_is_a_function_and_a_method_of_them():
    commands = next(a for a in build_parser()._actions if isinstance(a, _SubParsersAction)).choices
    reading = {name for name, parser in commands.items() if "--columns" in parser.format_help()}
    # `tracks.save` converts; the page of `explore` is for the shell.
    reading -= {"convert", "explore"}
    assert reading > {"compare", "diagnose", "qc"}
    for name in reading:
        assert callable(getattr(db.Trajectories, name)), name
        assert callable(getattr(db, {"report": "write_report"}.get(name, name))), name


def test_a_forecast_is_printed_with_its_numbers_and_units(tracks):
    future = tracks.predict(0.5, "1d,2d", models="brownian", scales=SCALES, n_draws=50)
    assert repr(future) == "<Forecast: brownian after 1 d, 2 d, fit at tau = 0.5 d>"
    words = " ".join(str(future).split())
    kappa = future.prediction.spreads["brownian"].diffusivity[0]
    assert f"{kappa:.4g}" in words
    assert "(km²/d)" in words
    assert f"{kappa:.4g}" in future._repr_html_()


def test_an_overview_is_printed_as_rows(tracks):
    found = db.info(tracks)
    for name, text in found.rows():
        assert f"{name} {text}" in " ".join(str(found).split())
    assert repr(found).endswith(f"suggested tau = {found.suggested_taus}>")
