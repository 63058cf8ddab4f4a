"""`driftbayes predict`: how far particles will go, as a table and as trajectories."""

import numpy as np
import pytest
from desk import PRIORS, langevin_tracks
from numpy.testing import assert_allclose, assert_array_equal

from driftbayes import Brownian, Flow, Trajectories
from driftbayes.io import read_dataset, read_trajectories, write_trajectories
from driftbayes.models._options.correlated import simulate_flow

LENGTHS = ("--horizon", "0.1,1")
# Ten steps of 0.1, as elsewhere; few draws, since they cost time and prove nothing here.
FEW = ("--draws", "200", *PRIORS)


@pytest.fixture(scope="module")
def question(tracks_csv):
    return ("predict", tracks_csv, "--tau", "0.1", *LENGTHS, *FEW)


def test_json_has_the_spread_of_each_model_and_of_the_average(ask, question):
    answer = ask(*question, "--json")
    assert answer.code == 0
    found = answer.json
    assert found["horizons"] == [0.1, 1.0]
    assert list(found["models"]) == ["brownian", "langevin", "average"]
    assert found["convention"] == "Var(dx_i) = 2 kappa T per axis"
    assert (found["tau"], found["n_dim"], found["n_draws"], found["seed"]) == (0.1, 2, 200, 0)
    assert_allclose(sum(found["probabilities"].values()), 1)
    assert found["probabilities"]["langevin"] > 0.999
    # The truth, γ = k = 1, is known to the posterior's width or so.
    truth = 2 * (np.array([0.1, 1.0]) + np.expm1([-0.1, -1.0]))
    langevin = found["models"]["langevin"]
    low, high = (np.array(langevin["sd_quantiles"][q]) for q in ("0.025", "0.975"))
    assert (low < high).all()
    assert (np.abs(langevin["sd"] - np.sqrt(truth)) < high - low).all()
    # A diffusivity from tau = 0.1 is a twentieth of what matters in the end.
    assert found["models"]["brownian"]["variance"][1] < 0.2 * langevin["variance"][1]
    assert_allclose(found["models"]["average"]["variance"], langevin["variance"], rtol=1e-9)
    assert ask(*question, "--json").out == answer.out


def test_people_get_a_table_with_units(ask, question):
    answer = ask(*question, "--length-unit", "km", "--time-unit", "h")
    title, *rest = answer.out.splitlines()
    assert title == (
        "Forecast: displacement in 2D after time T, fit at tau = 0.1 h; Var(Δx_i) = 2κT per axis"
    )
    text = "\n".join(rest)
    for word in ("T (h)", "sd (m)", "median |ΔX|", "Var/2T", "average", "probability"):
        assert word in text
    assert len([line for line in rest if "langevin" in line]) == 2


def test_model_priors_weigh_the_average(ask, question):
    plain = ask(*question, "--json").json
    found = ask(*question, "--model-prior", "1,1e-300", "--json").json
    for name in ("brownian", "langevin"):
        assert found["models"][name] == plain["models"][name]
    weights = found["probabilities"]
    mean = sum(p * found["models"][name]["variance"][1] for name, p in weights.items())
    assert_allclose(found["models"]["average"]["variance"][1], mean)
    assert weights["brownian"] > plain["probabilities"]["brownian"]


@pytest.mark.parametrize("name", ["future.nc", "future.csv"])
def test_futures_are_written_as_trajectories(ask, question, tmp_path, name):
    output = tmp_path / name
    answer = ask(*question, "--members", "3", "-o", output, "--time-unit", "h")
    assert answer.code == 0
    assert answer.err.splitlines()[-1].startswith(f"wrote {output}: 180 trajectories in 2D")
    future, past = read_trajectories(output), langevin_tracks()
    assert set(future.ids.astype(str)) == {f"{p}/{m}" for p in range(60) for m in range(3)}
    names = future.ids.astype(str).tolist()
    x = future.positions.reshape(180, 3, 2)
    t = future.times.reshape(180, 3)
    for particle in (0, 59):
        row = names.index(f"{particle}/2")
        last = past.positions.reshape(60, 11, 2)[particle, -1]
        assert_allclose(x[row, 0], last, rtol=1e-12)
        assert_allclose(t[row], [1.0, 1.1, 2.0])
    # The futures go on as the past did: at γτ = 0.1 the next step is nearly the last one.
    before = np.diff(past.positions.reshape(60, 11, 2)[:, -2:], axis=1)[:, 0]
    ahead = np.array([x[names.index(f"{p}/0"), 1] - x[names.index(f"{p}/0"), 0] for p in range(60)])
    assert np.corrcoef(before.ravel(), ahead.ravel())[0, 1] > 0.7
    # Readable by every other command.
    assert ask("info", output, "--json").json["n_trajectories"] == 180


def test_the_seed_decides_the_futures(ask, question, tmp_path):
    positions = []
    for name, seed in (("a.nc", 1), ("b.nc", 1), ("c.nc", 2)):
        assert ask(*question, "--members", "2", "--seed", seed, "-o", tmp_path / name).code == 0
        positions.append(read_trajectories(tmp_path / name).positions)
    assert_array_equal(positions[0], positions[1])
    assert not np.array_equal(positions[0], positions[2])


def test_laplace_draws_serve_too(ask, tracks_csv):
    laplace = ("predict", tracks_csv, "--tau", "0.1", *LENGTHS, *FEW, "--method", "laplace")
    found = ask(*laplace, "--json").json
    assert found["probabilities"]["langevin"] > 0.999


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            ("--horizon", "soon"),
            "--horizon must be a number or a time with its unit, for example 6h, got 'soon'",
        ),
        (("--horizon", "1,-2"), "--horizon must be positive times separated by commas, got '1,-2'"),
        (
            ("--tau", "often"),
            "--tau must be a number or a time with its unit, for example 6h, got 'often'",
        ),
        (("--members", "0"), "--members must be 1 or more, got 0"),
        (("--draws", "0"), "--draws must be 1 or more, got 0"),
        (("--seed", "-1"), "--seed must be a whole number from 0 to 2^63 - 1, got -1"),
        (
            ("-o", "future.txt"),
            "unknown format: expected a name ending in .csv, .csv.gz, .parquet, .pq, .nc or "
            ".zarr, got 'future.txt'",
        ),
    ],
)
def test_slips_are_told_in_one_sentence(ask, tracks_csv, change, message):
    answer = ask("predict", tracks_csv, "--tau", "0.1", *LENGTHS, *FEW, *change)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == f"driftbayes: {message}\n"


def test_a_folder_that_is_not_there_is_told_before_the_work(ask, tracks_csv, tmp_path):
    output = tmp_path / "nowhere" / "future.nc"
    answer = ask("predict", tracks_csv, "--tau", "0.1", *LENGTHS, *FEW, "-o", output)
    assert answer.code == 2
    assert answer.err.count("\n") == 1
    assert "priors" not in answer.err


def test_irregular_times_are_predicted_from_all_fixes(ask, tmp_path):
    from driftbayes.data._trajectories import Trajectories
    from driftbayes.io import write_trajectories

    x = langevin_tracks(n_particles=8).positions.reshape(8, 11, 2)
    times = np.arange(11) * 0.1 + np.random.default_rng(0).uniform(0, 0.03, size=11)
    write_trajectories(Trajectories.from_arrays(x, times=times), tmp_path / "irregular.csv")
    answer = ask(
        *("predict", tmp_path / "irregular.csv", "--tau", "all", "--horizon", "1", "--json"),
        *("--models", "brownian", *PRIORS[:2], "--draws", "50"),
        *("--members", "2", "-o", tmp_path / "future.csv"),
    )
    assert answer.code == 0
    assert list(answer.json["models"]) == ["brownian", "average"]
    assert read_trajectories(tmp_path / "future.csv").n_trajectories == 16


@pytest.mark.parametrize(("lon", "lat"), [(179.99, 45.0), (30.0, 89.9)])
def test_futures_of_drifters_have_longitudes_and_latitudes(ask, tmp_path, lon, lat):
    # On a sphere of the earth's size, to a part in 300: where they are matters here.
    start, radius = np.array([lon, lat]), 6.371e6
    x = 1e3 * langevin_tracks().positions.reshape(60, 11, 2)
    per_degree = np.radians(1) * radius * np.array([np.cos(np.radians(lat)), 1.0])
    past = start + np.column_stack([x[:, :, 0].ravel(), x[:, :, 1].ravel()]) / per_degree
    past[:, 1] = np.minimum(past[:, 1], 90.0)
    past[:, 0] = (past[:, 0] + 180) % 360 - 180
    rows = [
        f"{i // 11},{0.1 * (i % 11):.1f},{lon:.12f},{lat:.12f}" for i, (lon, lat) in enumerate(past)
    ]
    source, output = tmp_path / "drifters.csv", tmp_path / "futures.csv"
    source.write_text("\n".join(["id,time,lon,lat", *rows]) + "\n")
    answer = ask(
        *("predict", source, "--tau", "0.1", "--horizon", "0.1,1", "--models", "brownian"),
        *("--prior", "kappa=exponential:1e6", "--draws", "50", "--members", "4", "-o", output),
    )
    assert answer.code == 0
    header, *lines = output.read_text().splitlines()
    names = header.split(",")
    assert names[-2:] == ["lon", "lat"]
    table = {n: [line.split(",")[i] for line in lines] for i, n in enumerate(names)}
    x, y, lon, lat = (np.array(table[n], float).reshape(-1, 3) for n in ("x", "y", "lon", "lat"))
    particle = [int(name.strip('"').partition("/")[0]) for name in table["id"][::3]]
    last = past.reshape(60, 11, 2)[particle, -1]
    assert_allclose(np.stack([lon[:, 0], lat[:, 0]], axis=-1), last, atol=1e-9)
    # The haversine of what was written is the length of what was drawn.
    a, b = np.radians(lat[:, :1]), np.radians(lat[:, 1:])
    half = np.sin((b - a) / 2) ** 2
    half += np.cos(a) * np.cos(b) * np.sin(np.radians(lon[:, 1:] - lon[:, :1]) / 2) ** 2
    distance = 2 * radius * np.arcsin(np.sqrt(half))
    drawn = np.hypot(x[:, 1:] - x[:, :1], y[:, 1:] - y[:, :1])
    assert_allclose(distance, drawn, rtol=5e-3)
    # Each particle goes its own way, and members differ.
    assert len(np.unique(lon[:, 1])) == 240


def test_a_map_of_presence_is_written_drawn_and_told(ask, question, tmp_path):
    files = tmp_path / "where.nc", tmp_path / "where.png"
    answer = ask(*question, "--map", files[0], "--figure", files[1], "--cell", "0.2")
    assert answer.code == 0
    assert "area of 95 %" in answer.out
    found = read_dataset(files[0], kind="presence")
    total = found["probability"].sum(("x", "y")) + found["outside"]
    assert_allclose(total, 1, rtol=1e-12)
    assert found.attrs["Conventions"].startswith("CF")
    assert_allclose(np.diff(found["x"]), 0.2)
    assert files[1].stat().st_size > 10_000
    parsed = ask(*question, "--figure", tmp_path / "other.svg", "--json").json["presence"]
    assert parsed["region_areas"]["0.95"][1] > parsed["region_areas"]["0.5"][1] > 0
    refused = ask(*question, "--cell", "1")
    assert refused.code != 0
    assert "--cell is for a map" in refused.err


KNOWN = ("--prior", "length=fixed:4", "--prior", "own_share=fixed:0.1", *PRIORS[:2])


@pytest.fixture(scope="module")
def lost_csv(tmp_path_factory):
    """Five particles in one flow, of which the last is lost halfway."""
    model = Flow(Brownian(kappa=0.5), length=4.0, own_share=0.1, nu=1.5)
    rng = np.random.default_rng(4)
    x = simulate_flow(model, rng, rng.uniform(0, 4, size=(5, 2)), 12, 1.0)
    path = tmp_path_factory.mktemp("lost") / "lost.csv"
    tracks = Trajectories.from_arrays([*x[:4], x[4, :7]], dt=1.0, ids=list("abcde"))
    write_trajectories(tracks, path)
    return path


@pytest.mark.slow
def test_others_tell_where_a_lost_particle_is(ask, lost_csv, tmp_path):
    question = ("predict", lost_csv, "--tau", "1", "--horizon", "1,6,8", "--given", "others")
    question += ("--models", "brownian+flow", "--draws", "400", *KNOWN)
    output = tmp_path / "paths.csv"
    found = ask(*question, "--json", "--members", "20", "-o", output).json
    assert found["given"] == "others"
    (lost,) = found["lost"]
    assert (lost["id"], lost["last_time"]) == ("e", 6.0)
    rows = lost["horizons"]
    assert [(row["time"], row["n_seen"]) for row in rows] == [(7.0, 4), (12.0, 4), (14.0, 0)]
    assert rows[0]["radius_ratio"] < rows[1]["radius_ratio"] < rows[2]["radius_ratio"] < 1
    for row in rows:
        region = row["given_others"]
        assert 0 < region["radius_50"] < region["radius_95"] < row["alone"]["radius_95"]
        assert_allclose(
            region["radius_95"],
            region["scales"]["0.95"] * np.linalg.det(region["covariance"]) ** 0.25,
        )
    # Alone a particle of known diffusivity spreads by sqrt(2 κ T ln 20).
    kappa = found["models"]["brownian+flow"]["diffusivity"][0]
    expected = np.sqrt(2 * kappa * np.array([1, 6, 8]) * 2 * np.log(20))
    assert_allclose([row["alone"]["radius_95"] for row in rows], expected, rtol=0.15)
    paths = read_trajectories(output)
    assert set(paths.ids.astype(str)) == {f"e/{member}" for member in range(20)}
    text = ask(*question).out
    for word in ("lost particles", "still observed", "95 % alone", "ratio"):
        assert word in text
    assert len([line for line in text.splitlines() if line.split()[:1] == ["e"]]) == 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("--models", "brownian+flow,brownian"), "particles are independent under brownian"),
        (("--horizon", "1.5"), "horizons must be multiples of tau = 1, got 1.5"),
        (("--noise", "0.1"), "needs exact positions"),
        (("--given", "some"), "'some'"),
        (("--map", "unwritten.nc"), "--map and --figure do not support --given"),
    ],
)
def test_bad_questions_of_lost_particles_are_refused(ask, lost_csv, change, message):
    question = ("predict", lost_csv, "--tau", "1", "--horizon", "1", "--given", "others")
    answer = ask(*question, "--models", "brownian+flow", *KNOWN, *change)
    assert answer.code == 2
    assert message in answer.err
