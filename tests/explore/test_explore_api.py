"""What the page can ask for, without a browser: formats, comparisons, simulations, scans."""

import importlib.util
import time
from html import escape
from pathlib import Path

import numpy as np
import pytest
from desk_explore import CHOSEN, folder_files, stuck_at_the_second_tau
from numpy.testing import assert_allclose

import driftbayes as db
from driftbayes.comparison import make_hypotheses
from driftbayes.data.sphere import on_plane
from driftbayes.explore import dataset
from driftbayes.io import FORMATS, write_trajectories
from driftbayes.models import MODELS
from driftbayes.report._tracks import trajectories_svg

IO = Path(__file__).parents[1] / "io"
FOLDERS = {
    **{"v3_brownian_flat.zarr": "parcels", "v4_eddies_as_v3.zarr": "parcels"},
    "ragged_langevin.zarr": "clouddrift",
}
FILES = {
    **{"ragged_langevin.nc": "clouddrift", "oceandrift_eddy.nc": "opendrift"},
    **{"ragged_langevin.parquet": "clouddrift-parquet"},
    "v4_brownian_flat.parquet": "parcels-parquet",
}


def samples():
    spec = importlib.util.spec_from_file_location("samples_of_formats", IO / "samples.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# Reading


@pytest.mark.parametrize("name", [*samples().TEXTS, "numpy", "parcels-parquet", "netcdf"])
def test_every_format_of_one_file_can_be_dropped(client, tmp_path, name):
    data = samples().samples(tmp_path)[name]
    options = f"--format {name}" if name in samples().BY_NAME else ""
    status, card = client.upload({"sample": data}, options)
    assert status == 200
    assert dict(card["rows"])["format"].startswith(f"{name}: ")
    assert card["drawing"].startswith("<svg ")


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_can_be_dropped(client, name):
    _, card = client.upload(folder_files(IO / "data" / name))
    assert dict(card["rows"])["format"].startswith(FOLDERS[name])
    assert card["name"] == name


@pytest.mark.parametrize("name", FILES)
def test_files_of_the_tools_themselves_can_be_dropped(client, name):
    _, card = client.upload({name: (IO / "data" / name).read_bytes()})
    assert dict(card["rows"])["format"].startswith(FILES[name])


def test_our_own_store_can_be_dropped(client, tmp_path, tracks_csv):
    tracks = db.read_trajectories(tracks_csv)
    write_trajectories(tracks, tmp_path / "own.zarr")
    _, card = client.upload(folder_files(tmp_path / "own.zarr"))
    assert dict(card["rows"])["fingerprint"] == tracks.fingerprint


def test_the_page_lists_the_formats_and_models_that_there_are(client):
    page = client.raw("/")[1].decode()
    for one in FORMATS:
        assert f"<li>{escape(one.name)}: " in page
    for name in MODELS:
        assert f'<input type="checkbox" value="{name}"' in page
    _, start = client.ask("start")
    assert set(start["sliders"]) == set(MODELS)
    assert start["first"] is None


def test_options_of_reading_are_those_of_the_command_line(client):
    table = b"n,hour,east,north\na,0,0,0\na,1,1,1\na,2,3,2\nb,0,5,5\n"
    _, refused = client.upload({"t.csv": table})
    assert refused["error"].startswith("'t.csv'")
    options = "--columns id=n,time=hour,x=east,y=north --length-unit km --time-unit h --drop-short"
    _, card = client.upload({"t.csv": table}, options)
    assert dict(card["rows"])["trajectories"] == "1 in 2D, 3 points"
    _, again = client.ask("reread", {"data": card["data"], "options": options + " --units m,min"})
    assert dict(again["rows"])["units"] == "length m, time min"
    _, wrong = client.ask("reread", {"data": card["data"], "options": "--colums x=y"})
    told = "reading options: unknown option '--colums'; did you mean '--columns'?"
    assert wrong["error"].startswith(told)
    _, open_quote = client.ask("reread", {"data": card["data"], "options": '--columns "x'})
    assert open_quote["error"].startswith("reading options: no closing quotation")


def test_an_option_cannot_name_another_file(client, tracks_csv):
    _, card = client.upload({"t.csv": b"id,time,x\na,0,0\na,1,1\n"})
    for sneaky in (str(tracks_csv), f"-- {tracks_csv}"):
        _, answer = client.ask("reread", {"data": card["data"], "options": sneaky})
        assert answer["error"].startswith(f"reading options: unexpected argument '{tracks_csv}'")


def test_what_looks_wrong_is_said(client):
    rows = [f"a,{i},{i % 7},{0 if i != 50 else 1e6}" for i in range(100)]
    _, card = client.upload({"t.csv": "\n".join(["id,time,x,y", *rows]).encode()})
    assert any("speed" in text or "spike" in text for text in card["quality"])


def test_names_from_a_file_do_not_become_markup():
    tracks = db.Trajectories.from_arrays(
        np.arange(12.0).reshape(2, 3, 2), dt=1.0, length_unit="<script>", time_unit="s"
    )
    assert "<script>" not in trajectories_svg(tracks)
    assert "&lt;script&gt;" in trajectories_svg(tracks)


@pytest.mark.parametrize("n_dim", [1, 2, 3])
def test_trajectories_are_drawn_where_they_are(n_dim):
    x = np.zeros((1, 4, n_dim))
    x[0, :, -1 if n_dim < 3 else 1] = [0.0, 1.0, np.nan, 3.0]
    x[0, 2] = np.nan
    svg = trajectories_svg(db.Trajectories.from_arrays(x, dt=2.0, length_unit="km"))
    # A missing fix lifts the pen.
    path = svg.partition('<path d="')[2].partition('"')[0]
    assert path.count("M") == 2
    assert path.count("L") == 1
    assert ("time from 0 to 6" in svg) == (n_dim == 1)
    assert "the trajectory" in svg


def test_trajectories_are_drawn_across_the_date_line():
    lonlat = np.array([[[179.0, 10.0], [-179.0, 11.0]], [[178.0, 9.0], [177.0, 10.0]]])
    svg = trajectories_svg(on_plane(db.Trajectories.from_arrays(lonlat, dt=1.0)))
    assert "longitude (°) from 177 to 181" in svg


# Comparing


@pytest.fixture(scope="module")
def regular(tracks_csv):
    return db.read_trajectories(tracks_csv)


def test_the_command_that_is_shown_finds_the_same(client, tracks_csv, capsys, monkeypatch):
    import json
    import shlex

    from driftbayes.cli.main import main

    monkeypatch.setenv("DRIFTBAYES_CACHE", "off")
    _, card = client.upload({"tracks.csv": tracks_csv.read_bytes()})
    _, found = client.ask("compare", {"data": card["data"], "tau": 0, **CHOSEN})
    (line,) = found["commands"]
    monkeypatch.chdir(tracks_csv.parent)
    assert main([*shlex.split(line)[1:], "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    for model in found["models"]:
        expected = printed["models"][model["name"]]["log_evidence"]
        assert_allclose(model["log_evidence"], expected, rtol=1e-10)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"models": []}, "expected at least one model"),
        ({"models": ["langevn"]}, "unknown model 'langevn'"),
        ({"models": ["brownian", "brownian"]}, "model 'brownian' is given twice"),
        ({"models": "all"}, "models must be a list of names, got 'all'"),
        ({"timescale": None}, "give both the root mean square speed and the velocity time scale"),
        ({"u_rms": -1}, "u_rms must be a positive number, got -1.0"),
        ({"u_rms": "fast"}, "u_rms must be a number, got 'fast'"),
        ({"tau": 99}, "tau must be the index of a sampling time, 0 to "),
        ({"data": "none"}, "these data have expired"),
    ],
)
def test_a_wrong_question_is_answered_in_a_sentence(client, tracks_csv, change, message):
    _, card = client.upload({"tracks.csv": tracks_csv.read_bytes()})
    request = {"data": card["data"], "tau": 0, **CHOSEN, **change}
    status, answer = client.ask("compare", request)
    assert status == 200
    assert answer["error"].startswith(message)


@pytest.mark.slow
def test_irregular_times_are_compared_but_not_scanned(client):
    rng = np.random.default_rng(0)
    lines = ["id,time,x"]
    for name in "ab":
        times = np.cumsum(rng.uniform(0.5, 1.5, 12))
        lines += [
            f"{name},{float(t)!r},{float(x)!r}"
            for t, x in zip(times, rng.normal(size=12), strict=True)
        ]
    _, card = client.upload({"t.csv": "\n".join(lines).encode()})
    assert card["taus"] == []
    assert "--tau all" in card["irregular"]
    request = {"data": card["data"], "models": ["brownian"], "u_rms": 1.0, "timescale": 1.0}
    _, found = client.ask("compare", request)
    assert "brownian is the only model considered" in found["verdict"]
    assert "--tau all" in found["commands"][0]
    assert client.ask("scan", request)[1]["error"].startswith("a scan needs")


def together_csv(n_fixes=60):
    """Twelve particles that all but go the same way."""
    rng = np.random.default_rng(0)
    common = rng.normal(size=(n_fixes, 2)).cumsum(axis=0)
    lines = ["id,time,x,y"]
    for name in range(12):
        own = common + 0.1 * rng.normal(size=(n_fixes, 2)).cumsum(axis=0)
        lines += [f"{name},{t},{x!r},{y!r}" for t, (x, y) in enumerate(own.tolist())]
    return "\n".join(lines).encode()


@pytest.mark.slow
def test_models_with_shared_motion_are_compared_and_laws_of_pairs_refused(client):
    # Few fixes, and so few sampling times: each takes a second with shared motion.
    _, card = client.upload({"t.csv": together_csv(22)})
    request = {"data": card["data"], "tau": 0, "u_rms": 1.0, "timescale": 1.0}
    models = ["brownian", "langevin", "brownian+common", "langevin+common"]
    _, found = client.ask("compare", {**request, "models": models})
    assert [model["name"] for model in found["models"]] == models
    assert "brownian over langevin: treated as independent ln K = " in found["verdict"]
    assert "with shared motion (+common) ln K = " in found["verdict"]
    _, found = client.ask("compare", {**request, "models": ["power"]})
    assert found["error"] == (
        "'power' is a law of pairs of particles; compare it with `driftbayes pairs`"
    )


@pytest.mark.parametrize(
    "models",
    [
        ["brownian+common"],
        pytest.param(["brownian+common", "brownian+flow"], marks=pytest.mark.slow),
    ],
)
def test_models_with_shared_motion_are_scanned(client, models):
    _, card = client.upload({"t.csv": together_csv(22)})
    request = {"data": card["data"], "u_rms": 1.0, "timescale": 1.0, "models": models}
    _, begun = client.ask("scan", request)
    state = finished(client, begun["scan"])
    assert (state["state"], state["error"]) == ("done", "")
    assert "brownian+common" in state["verdict"][0].lower()


def test_the_verdict_corrects_for_particles_that_move_together(client):
    _, card = client.upload({"t.csv": together_csv()})
    request = {"data": card["data"], "models": ["brownian", "langevin"], "tau": 0}
    _, found = client.ask("compare", {**request, "u_rms": 1.0, "timescale": 1.0})
    assert " as if particles were independent, about " in found["verdict"]
    assert any("particles move together" in text for text in found["warnings"])


def test_the_spread_is_drawn_in_the_unit_of_the_slider(client):
    table = "id,time,x\n" + "".join(f"a,{3600 * i},{i % 3}\n" for i in range(60))
    _, card = client.upload({"t.csv": table.encode()}, "--units m,s")
    assert card["tau_texts"][0] == "1 h"
    _, found = client.ask("compare", {"data": card["data"], "tau": 0, **CHOSEN})
    assert "time τ (h)" in found["fits"]["svg"]


# Simulating


def request_of(true_model, **change):
    theta = {one["name"]: one["value"] for one in dataset.sliders()[true_model]}
    return {**dataset.START, "model": true_model, "theta": theta, **change}


@pytest.mark.parametrize("model", MODELS)
def test_every_model_has_sliders_that_begin_inside_their_range(model):
    for one in dataset.sliders()[model]:
        assert (
            0
            < one["low"]
            < one["value"]
            < one["high"]
            < MODELS[model].parameters[one["name"]].upper
        )


def test_the_command_that_is_shown_makes_the_same_file(tmp_path, monkeypatch, capsys):
    import shlex

    from driftbayes.cli.main import main

    monkeypatch.setenv("DRIFTBAYES_CACHE", "off")
    made = dataset.simulate(request_of("langevin", seed=3, theta={"gamma": 1.23, "k": 0.456}))
    monkeypatch.chdir(tmp_path)
    assert main(shlex.split(made.made_by)[1:]) == 0
    capsys.readouterr()
    again = db.read_trajectories(tmp_path / "simulated.csv")
    assert again.fingerprint == made.trajectories.fingerprint


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": "magic"}, "unknown model 'magic'"),
        ({"theta": {"gamma": 1.0}}, "k must be a number, got 'None'"),
        ({"theta": {"gamma": -1.0, "k": 1.0}}, "gamma must be a positive number below inf, got -1"),
        ({"particles": 10**9}, "particles must be one of 3, 10, 30, 100, got 1e\\+09"),
        ({"seed": -1}, "seed must be a whole number"),
        ({"seed": 0.5}, "seed must be a whole number"),
    ],
)
def test_impossible_requestes_are_refused(change, message):
    with pytest.raises(db.DriftbayesError, match=message):
        dataset.simulate(request_of("langevin", **change))


# Scans


def finished(client, number, seconds=300):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        _, state = client.ask("scan-state", {"scan": number})
        if state["state"] != "running":
            return state
        time.sleep(0.05)
    raise AssertionError("the scan did not end")


def test_a_scan_can_be_taken_home(client, tracks_csv, tmp_path, regular):
    _, card = client.upload({"tracks.csv": tracks_csv.read_bytes()})
    _, begun = client.ask("scan", {"data": card["data"], **CHOSEN})
    state = finished(client, begun["scan"])
    assert (state["state"], state["done"]) == ("done", len(card["taus"]))
    token = {"X-Driftbayes-Token": client.server.guard.token}
    body = f'{{"scan": "{begun["scan"]}", "file": "scan.nc"}}'.encode()
    status, data, _ = client.raw("/api/download", body, **token)
    assert status == 200
    (tmp_path / "scan.nc").write_bytes(data)
    ours = db.read_scan(tmp_path / "scan.nc")
    assert_allclose(ours["tau"], card["taus"])
    assert ours.attrs["data_fingerprint"] == regular.fingerprint
    # At the ends; that all of it is the library's is tested where a browser looks at it.
    hypotheses = make_hypotheses(CHOSEN["models"], u_rms=1.5, timescale=1.0).hypotheses
    for place in (0, -1):
        expected = db.compare_hypotheses(hypotheses, db.displacements(regular, card["taus"][place]))
        for name, e in expected.evidences.items():
            found = ours["log_evidence"].sel(model=name).values[place]
            assert_allclose(found, e.log_evidence, rtol=1e-10)
    report = client.raw("/api/download", body.replace(b"scan.nc", b"report.html"), **token)[1]
    assert b"<h1>Dispersion in tracks.csv</h1>" in report
    assert state["commands"] == [
        "driftbayes scan tracks.csv --taus "
        + ",".join(f"{tau:.10g}" for tau in card["taus"])
        + " --models brownian,langevin --prior kappa=exponential:2.25 --prior gamma=exponential:1"
        " --prior k=exponential:2.25 -o scan.nc"
    ]


def test_the_command_of_a_scan_reads_the_file_as_it_was_read(client, tracks_csv):
    options = "--length-unit km --qc default"
    _, card = client.upload({"tracks.csv": tracks_csv.read_bytes()}, options)
    _, begun = client.ask("scan", {"data": card["data"], **CHOSEN})
    (line,) = finished(client, begun["scan"])["commands"]
    assert line.startswith("driftbayes scan tracks.csv --taus 0.5,1,")
    for option in ("--length-unit km", "--qc default"):
        assert line.count(option) == 1


@pytest.mark.slow
def test_a_cancelled_scan_keeps_what_is_done_and_ends_the_rest(client, tracks_csv, monkeypatch):
    from driftbayes.explore import scans

    monkeypatch.setattr(scans.compute, "compare_tau", stuck_at_the_second_tau)
    _, card = client.upload({"tracks.csv": tracks_csv.read_bytes()})
    _, begun = client.ask("scan", {"data": card["data"], **CHOSEN})
    while client.ask("scan-state", {"scan": begun["scan"]})[1]["done"] < 1:
        time.sleep(0.05)
    _, meanwhile = client.ask("scan-state", {"scan": begun["scan"]})
    assert (meanwhile["state"], meanwhile["done"]) == ("running", 1)
    assert meanwhile["taus"] == [0.5]
    client.ask("cancel", {"scan": begun["scan"]})
    state = finished(client, begun["scan"])
    assert state["state"] == "cancelled"
    assert state["done"] == 1 < state["total"]
    # The sampling time that it was at, which would never have ended, holds nobody up.
    request = {"data": card["data"], "tau": 0, **CHOSEN}
    assert "verdict" in client.ask("compare", request)[1]
