"""The turbulence commands, as a person sees them."""

import io
from contextlib import redirect_stderr, redirect_stdout

import jax
import numpy as np
import pytest
from numpy.testing import assert_allclose
from PIL import Image

import driftbayes as db
from driftbayes.cli import turbulence as command
from driftbayes.cli.main import build_parser
from driftbayes.turbulence.config import PRESETS, RunConfig
from driftbayes.turbulence.flow import Filter, Precision
from driftbayes.turbulence.forcing import SHAPES
from driftbayes.turbulence.noise import STARTS
from driftbayes.turbulence.particles import INTERPOLATIONS

SMALL = (
    *("--grid", "32", "--dt", "0.01", "--spin-up", "0.4", "--duration", "1.2", "--k-f", "6"),
    *("--particles", "50", "--record-every", "0.04", "--diagnose-every", "0.4"),
    *("--snapshot-every", "0.4"),
)


@pytest.fixture(autouse=True, scope="module")
def usual_promotion():
    """JAX's own rules of promotion, as in the tests of the simulator."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run's folder, and what it said."""
    from driftbayes.cli.main import main

    folder = tmp_path_factory.mktemp("runs") / "run"
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        assert main(["turbulence", "run", *SMALL, "-o", str(folder)]) == 0
    return folder, out.getvalue(), err.getvalue()


@pytest.fixture
def finished(run):
    return run[0]


def test_what_the_parser_knows_is_what_the_simulator_knows():
    run = build_parser().parse_args(["turbulence", "run", "-o", "x"]).parser
    choices = {action.dest: set(action.choices) for action in run._actions if action.choices}
    assert choices == {
        "preset": set(PRESETS),
        "precision": set(Precision.__args__),
        "interpolation": set(INTERPOLATIONS),
        "filter": set(Filter.__args__),
        "start": set(STARTS),
        "forcing_shape": set(SHAPES),
    }
    fields = set(RunConfig.preset("tiny").to_json())
    given = {name.replace("-", "_") for name in command._CONFIG_OPTIONS}
    assert {*given, "truncate"} == fields
    assert given < {action.dest for action in run._actions}


def test_a_run_says_what_came_of_it_and_what_to_do_next(run):
    _, out, err = run
    assert "160 steps to t = 1.6" in out
    assert "eddy_turnover_time" in out
    assert "driftbayes scan" in err


def test_scan_takes_the_directory_of_a_run(ask, finished):
    answer = ask("scan", finished, "--taus", "0.04,0.08", "--json")
    assert answer.code == 0
    assert [row["tau"] for row in answer.json] == pytest.approx([0.04, 0.08])


def test_the_film_has_a_frame_for_every_snapshot(ask, finished, tmp_path):
    answer = ask("turbulence", "movie", finished, "-o", tmp_path / "film.gif")
    assert answer.code == 0
    with Image.open(tmp_path / "film.gif") as film:
        assert film.n_frames == 5
        assert film.size == (720, 720)
    assert ask("turbulence", "movie", finished, "-o", tmp_path / "film.gif").code == 2
    (tmp_path / "film.gif").write_text("old")
    answer = ask("turbulence", "movie", finished, "-o", tmp_path / "film.gif", "--overwrite")
    assert answer.code == 0
    assert (tmp_path / "film.gif").read_bytes()[:3] == b"GIF"


def test_particles_start_where_a_table_says(ask, tmp_path):
    # As many as in the other run, whose programs serve again.
    places = np.random.default_rng(0).uniform(0, 6, (50, 2)).round(3)
    rows = [f"{x},{y}" for x, y in places.tolist()]
    (tmp_path / "where.csv").write_text("\n".join(["x,y", *rows]))
    numbers = [word for word in SMALL if word not in ("--particles", "50")]
    answer = ask(
        *("turbulence", "run", *numbers, "--positions", tmp_path / "where.csv"),
        *("-o", tmp_path / "r"),
    )
    assert answer.code == 0
    found = ask("info", tmp_path / "r", "--json").json
    assert found["n_trajectories"] == 50
    tracks = db.read(tmp_path / "r")
    # They are recorded after the spin-up, during which nothing moves them.
    assert_allclose(tracks.positions[tracks.starts[:-1]], places)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("run", "--grid", "33", "-o", "r"), "even number of points"),
        (("run", "--k-f", "90", "-o", "r"), "forcing ring reaches"),
        (
            ("run", *SMALL, "--dt", "0.1", "--record-every", "0.4", "-o", "r"),
            "is too large",
        ),
        (("run", "--positions", "nowhere.csv", "-o", "r"), "expected a table"),
        (("run", "--checkpoint-every", "0", "-o", "r"), "--checkpoint-every must be"),
        (("resume", "nowhere"), "holds no run"),
        (("movie", "nowhere"), "holds no run"),
        (("movie", "nowhere", "--fps", "0"), "--fps"),
    ],
)
def test_a_slip_gets_a_sentence(ask, tmp_path, monkeypatch, arguments, sentence):
    monkeypatch.chdir(tmp_path)
    answer = ask("turbulence", *arguments)
    assert answer.code == 2
    assert sentence in answer.err
    assert len(answer.err.strip().splitlines()) == 1
    assert list(tmp_path.iterdir()) == []
