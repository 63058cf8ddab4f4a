"""No command writes over what it reads, nor over any file without --overwrite."""

import argparse
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from desk import PRIORS, langevin_tracks

from driftbayes.cli import _jax
from driftbayes.cli.main import build_parser
from driftbayes.io import write_trajectories

# Options with the path of something that is read, and of a folder for temporary files.
READ = {"file", "observed", "data", "scan", "directory", "positions", "start_from", "space"}
NEITHER = {"scratch"}

# Arguments of every command that writes, without its output; IN stands for what it reads. A command
# that is missing here fails `test_every_command_that_writes_is_tested`.
IN = object()
TAU = ("--tau", "0.1")
MODEL = ("--models", "brownian", "--prior", "kappa=exponential:1")
COMMANDS = {
    "convert": (IN,),
    "diagnose": (IN, "--lags", "3"),
    "scan": (IN, "--taus", "0.1,0.2", *MODEL),
    "check": (IN, *TAU, "--replicas", "100", *MODEL),
    "sensitivity": (IN, *TAU, "--factors", "1/2:2:3", *PRIORS),
    "pairs": (IN, *TAU, "--models", "rayleigh"),
    "backtest": (IN, *TAU, "--horizons", "0.1", "--origins", "1", "--members", "3", *MODEL),
    "score": ("--ensemble", IN, "--observed", IN),
    "map": (IN, *TAU, "--cell", "50", "--n-tau", "2", "--min-windows", "2", *MODEL),
    "segments": (IN, *TAU, "--prior", "kappa=exponential:1"),
    "report": (IN, "--brief", "--taus", "0.1,0.2", *MODEL),
    "predict": (IN, *TAU, "--horizon", "0.1", "--members", "2", "--draws", "20", *MODEL),
    "export": (IN, "--for", "json", *TAU, "--length-unit", "m", "--time-unit", "s"),
    "field": (IN, "--tau", "0.1", "--intervals", "2", "--u-rms", "1", "--timescale", "1"),
    "example": ("particles",),
    "simulate brownian": ("--kappa", "1", "--particles", "2", "--steps", "3", "--tau", "1"),
    "turbulence run": ("--positions", IN),
    "turbulence movie": (IN,),
    "turbulence resume": (),
    "reproduce langevin": (),
    "reproduce turbulence": (),
    "reproduce ladder": (),
    "reproduce discrepancies": (),
    "reproduce calibration": ("--data-sets", "1"),
    "reproduce recovery": ("--data-sets", "1"),
    "reproduce goodness": ("--data-sets", "1"),
}
# Outputs that are folders, which have tests of their own.
FOLDERS = {name for name in COMMANDS if name.startswith("reproduce")} | {"turbulence run"}
CONTINUED = "turbulence resume"


def parsers(parser=None, words=()):
    """Every command that has no subcommands, by its words."""
    parser = parser or build_parser()
    below = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    if not below:
        yield " ".join(words), parser
    for action in below:
        for name, child in action.choices.items():
            yield from parsers(child, (*words, name))


PARSERS = dict(parsers())
# Every file that a command writes: the command, the option, and how its name ends.
FILES = [
    pytest.param(name, dest, (output.suffixes or (".csv",))[0], id=f"{name} {dest}")
    for name, parser in PARSERS.items()
    if name in COMMANDS and name not in FOLDERS and name != CONTINUED
    for dest, output in parser.written.items()
]
FROM_FILES = [
    case
    for case in FILES
    if IN in COMMANDS[case.values[0]] and case.values[0] != "turbulence movie"
]


def option_of(parser, dest):
    """How an output is named on the command line."""
    (action,) = (a for a in parser._actions if a.dest == dest)
    return action.option_strings[:1]


def line(name, dest, output, folder, source):
    """A whole command that writes one output where we say, and others to fresh names."""
    parser = PARSERS[name]
    words = [source if word is IN else word for word in COMMANDS[name]]
    for other, about in parser.written.items():
        action = next(a for a in parser._actions if a.dest == other)
        if other == dest:
            words += [*option_of(parser, other), output]
        elif action.required or not action.option_strings:
            words += [*option_of(parser, other), folder / f"other{about.suffixes[0]}"]
    return [*name.split(), *words]


def contents(folder):
    """Every file below a folder, with what is in it."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture
def no_computation(monkeypatch):
    """What must be refused is refused before anything is computed."""

    def refuse():
        raise AssertionError("computed before the output was checked")

    monkeypatch.setattr(_jax, "prepare_jax", refuse)


@pytest.fixture(scope="session")
def scan_nc(tmp_path_factory):
    from driftbayes.cli.main import main

    folder = tmp_path_factory.mktemp("scanned")
    write_trajectories(langevin_tracks(), folder / "tracks.csv")
    arguments = [*map(str, ("scan", folder / "tracks.csv", "--taus", "0.1,0.2", *MODEL))]
    assert main([*arguments, "-o", str(folder / "scan.nc")]) == 0
    return folder / "scan.nc"


@pytest.fixture
def source_of(tracks_csv, scan_nc):
    """What a command reads, as bytes."""

    def read(name):
        return (scan_nc if name == "export" else tracks_csv).read_bytes()

    return read


def test_every_path_is_known_to_be_read_or_written():
    for name, parser in PARSERS.items():
        for action in parser._actions:
            if action.type is Path:
                known = action.dest in parser.written or action.dest in READ | NEITHER
                assert known, f"{name}: {action.dest}"
            names_a_file = {"-o", "--output", "--out", "--figure"} & set(action.option_strings)
            if names_a_file or str(action.metavar).startswith(("FILE", "FIGURE", "DIR", "OUT")):
                assert action.type is Path, f"{name}: {action.dest}"
            if names_a_file:
                assert action.dest in parser.written, f"{name}: {action.dest}"


def test_every_command_that_writes_is_tested():
    models = {name for name in PARSERS if name.startswith("simulate ")}
    writing = {name for name, parser in PARSERS.items() if parser.written}
    assert models <= writing
    assert writing - models | {"simulate brownian"} == set(COMMANDS)


def test_every_command_that_replaces_a_file_says_how():
    for name, parser in PARSERS.items():
        if parser.written and name not in ("turbulence run", CONTINUED):
            assert "--overwrite" in parser._option_string_actions, name


@pytest.mark.parametrize("overwrite", [(), ("--overwrite",)], ids=["", "overwrite"])
@pytest.mark.parametrize("way", ["itself", "spelling", "relative", "symlink", "hard link", "chain"])
@pytest.mark.parametrize(("name", "dest", "suffix"), FROM_FILES)
@pytest.mark.usefixtures("no_computation")
def test_what_is_read_survives(
    ask, source_of, tmp_path, monkeypatch, name, dest, suffix, way, overwrite
):
    # A file is recognised by its content: it may be called as the output must be.
    source = tmp_path / f"data{suffix}"
    source.write_bytes(source_of(name))
    (tmp_path / "sub").mkdir()
    output = tmp_path / "sub" / f"out{suffix}"
    if way == "itself":
        output = source
    elif way == "spelling":
        output = tmp_path / "sub" / ".." / "." / source.name
    elif way == "relative":
        monkeypatch.chdir(tmp_path / "sub")
        output = Path("..") / source.name
    elif way == "symlink":
        output.symlink_to(source)
    elif way == "chain":
        (tmp_path / "link").symlink_to(tmp_path)
        output.symlink_to(tmp_path / "link" / source.name)
    else:
        os.link(source, output)
    before = contents(tmp_path)
    answer = ask(*line(name, dest, output, tmp_path, source), *overwrite)
    assert answer.code == 2
    assert "is an input of this command and is not replaced" in answer.err
    assert contents(tmp_path) == before


@pytest.mark.parametrize("overwrite", [(), ("--overwrite",)], ids=["", "overwrite"])
def test_what_a_movie_is_made_of_survives(ask, tmp_path, overwrite):
    run = tmp_path / "run"
    (run / "snapshots.zarr").mkdir(parents=True)
    (run / "config.json").write_text("{}")
    (run / "snapshots.zarr" / "zarr.json").write_text("{}")
    (tmp_path / "film.gif").symlink_to(run / "config.json")
    (tmp_path / "chunk.gif").symlink_to(run / "snapshots.zarr" / "zarr.json")
    (run / "movie.gif").write_text("an older one")
    (run / "movie.mp4").write_text("an older one")
    before = contents(tmp_path)
    movie = ("turbulence", "movie", run)
    for output in ("film.gif", "chunk.gif"):
        answer = ask(*movie, "-o", tmp_path / output, *overwrite)
        assert answer.code == 2
        assert "which this command reads" in answer.err or "an input of this comm" in answer.err
    if not overwrite:
        answer = ask(*movie)
        assert answer.code == 2
        assert "already exists; pass --overwrite" in answer.err
    assert contents(tmp_path) == before


@pytest.mark.parametrize(("name", "dest", "suffix"), FILES)
@pytest.mark.usefixtures("no_computation")
def test_a_file_that_exists_survives(ask, source_of, tmp_path, name, dest, suffix):
    source = tmp_path / "source"
    if name == "turbulence movie":
        source.mkdir()
    else:
        source.write_bytes(source_of(name))
    output = tmp_path / f"thesis{suffix}"
    output.write_text("three years of work")
    before = contents(tmp_path)
    answer = ask(*line(name, dest, output, tmp_path, source))
    assert answer.code == 2
    assert "already exists; pass --overwrite to replace it, or choose another" in answer.err
    assert contents(tmp_path) == before


@pytest.mark.parametrize(("name", "dest", "suffix"), FILES)
@pytest.mark.usefixtures("no_computation")
def test_what_cannot_be_written_is_refused_first(ask, source_of, tmp_path, name, dest, suffix):
    source = tmp_path / "source"
    source.write_bytes(source_of(name))
    wrong = {
        tmp_path / "no" / f"out{suffix}": "its directory does not exist; create it first",
        tmp_path / f"taken{suffix}": "is a directory, expected a file",
        tmp_path / "store" / f"out{suffix}": "is inside the Zarr store 'store'",
    }
    if name != "export":
        wrong[tmp_path / "out.docx"] = "end"
    (tmp_path / f"taken{suffix}").mkdir()
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / ".zgroup").write_text("{}")
    before = contents(tmp_path)
    for output, message in wrong.items():
        answer = ask(*line(name, dest, output, tmp_path, source), "--overwrite")
        assert answer.code == 2, output
        assert message in answer.err
    assert contents(tmp_path) == before


# These take seconds; the tests of these commands write their outputs by default.
LONG = {"check", "pairs", "segments", "field", "sensitivity"}


@pytest.mark.parametrize(
    # Ensembles to score are written, and figures of them, in tests/verification.
    ("name", "dest", "suffix"),
    [
        pytest.param(*c.values, id=c.id, marks=pytest.mark.slow) if c.values[0] in LONG else c
        for c in FILES
        if c.values[0] not in ("turbulence movie", "score")
    ],
)
def test_it_is_written_and_replaced_when_told(ask, source_of, tmp_path, name, dest, suffix):
    source = tmp_path / ("source.nc" if name == "export" else "source.csv")
    source.write_bytes(source_of(name))
    output = tmp_path / f"out{suffix}"
    (tmp_path / "fresh").mkdir()
    arguments = line(name, dest, output, tmp_path / "fresh", source)
    output.write_text("old")
    answer = ask(*arguments, "--overwrite")
    assert answer.code == 0, answer.err
    assert len(output.read_bytes()) > 30
    assert source.read_bytes() == source_of(name)
    assert not [path for path in tmp_path.rglob(".*")]


def test_a_report_has_companions_that_cannot_be_data(ask, tracks_csv, tmp_path):
    data = tmp_path / "tracks.csv"
    data.write_bytes(tracks_csv.read_bytes())
    arguments = ("report", data, "--brief", "--taus", "0.1,0.2", *MODEL, "-o")
    assert ask(*arguments, tmp_path / "tracks.html").code == 0
    assert data.read_bytes() == tracks_csv.read_bytes()
    names = {"tracks.csv", "tracks.html", "tracks.report.csv", "tracks.report.json"}
    assert {path.name for path in tmp_path.iterdir()} == names
    # Ours are replaced, when told.
    assert ask(*arguments, tmp_path / "tracks.html").code == 2
    assert ask(*arguments, tmp_path / "tracks.html", "--overwrite").code == 0
    # Somebody's is not, told or not: its name was not asked for.
    (tmp_path / "tracks.report.csv").write_text("report,of,mine\n")
    before = contents(tmp_path)
    answer = ask(*arguments, tmp_path / "tracks.html", "--overwrite")
    assert answer.code == 2
    assert "was not written by driftbayes" in answer.err
    assert contents(tmp_path) == before


def test_the_companions_of_a_report_are_not_its_data(ask, tracks_csv, tmp_path):
    data = tmp_path / "tracks.report.csv"
    data.write_bytes(tracks_csv.read_bytes())
    answer = ask("report", data, "-o", tmp_path / "tracks.html", "--overwrite")
    assert answer.code == 2
    assert "is an input of this command" in answer.err
    assert data.read_bytes() == tracks_csv.read_bytes()


@pytest.mark.parametrize("name", sorted(FOLDERS - {"turbulence run"}))
@pytest.mark.parametrize("overwrite", [(), ("--overwrite",)], ids=["", "overwrite"])
@pytest.mark.usefixtures("no_computation")
def test_a_folder_of_somebody_is_not_filled(ask, tmp_path, name, overwrite):
    (tmp_path / "figure1.png").write_text("mine")
    before = contents(tmp_path)
    answer = ask(*name.split(), *COMMANDS[name], "-o", tmp_path, *overwrite)
    assert answer.code == 2
    assert "is not empty and was not made by `driftbayes reproduce`" in answer.err
    assert contents(tmp_path) == before


@pytest.mark.slow
def test_results_in_a_folder_of_ours_are_replaced_when_told(ask, tmp_path, monkeypatch):
    from driftbayes.reproduce import calibration

    folder = tmp_path / "new"
    arguments = ("reproduce", "calibration", "--data-sets", "1", "-o", folder)
    # A run that is stopped halfway can be called again.
    with monkeypatch.context() as patch:
        patch.setattr(calibration.Calibration, "write", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            ask(*arguments)
    assert ask(*arguments).code == 0
    (folder / "notes.txt").write_text("mine")
    before = contents(folder)
    answer = ask(*arguments)
    assert answer.code == 2
    assert "already holds results of `driftbayes reproduce calibration`; pass --over" in answer.err
    answer = ask("reproduce", "recovery", "-o", folder)
    assert answer.code == 2
    assert contents(folder) == before
    assert ask(*arguments, "--overwrite").code == 0
    assert (folder / "notes.txt").read_text() == "mine"


@pytest.mark.usefixtures("no_computation")
def test_a_run_does_not_go_where_its_positions_are(ask, tmp_path):
    (tmp_path / "where.csv").write_text("x,y\n1,2\n")
    answer = ask("turbulence", "run", "--positions", tmp_path / "where.csv", "-o", tmp_path)
    assert answer.code == 2
    assert "contains" in answer.err
    assert "which this command reads" in answer.err
    assert contents(tmp_path).keys() == {"where.csv"}


@pytest.mark.parametrize("overwrite", [(), ("--overwrite",)], ids=["", "overwrite"])
def test_a_store_is_not_written_into_nor_over_itself(ask, tracks_csv, tmp_path, overwrite):
    store = tmp_path / "tracks.zarr"
    assert ask("convert", tracks_csv, store).code == 0
    (tmp_path / "link.zarr").symlink_to(store)
    before = contents(tmp_path)
    wrong = {
        store: "is an input of this command",
        tmp_path / "link.zarr": "is an input of this command",
        store / "x" / "out.csv": "inside the Zarr store",
        store / "out.nc": "inside the Zarr store",
    }
    for output, message in wrong.items():
        answer = ask("convert", store, output, *overwrite)
        assert answer.code == 2
        assert message in answer.err
    # And no store takes the place of the folder that holds the data.
    inside = store / "data.csv"
    inside.write_bytes(tracks_csv.read_bytes())
    answer = ask("convert", inside, store, *overwrite)
    assert answer.code == 2
    assert "contains" in answer.err
    inside.unlink()
    assert contents(tmp_path) == before


def test_a_store_is_replaced_when_told_and_if_it_is_ours(ask, tracks_csv, tmp_path):
    store = tmp_path / "tracks.zarr"
    assert ask("convert", tracks_csv, store).code == 0
    assert ask("convert", tracks_csv, store).code == 2
    assert ask("convert", tracks_csv, store, "--overwrite").code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["tracks.zarr"]
    other = tmp_path / "other.zarr"
    other.mkdir()
    (other / "notes").write_text("mine")
    answer = ask("convert", tracks_csv, other, "--overwrite")
    assert answer.code == 2
    assert "is a directory that driftbayes did not write" in answer.err
    assert (other / "notes").read_text() == "mine"


def test_a_file_that_appears_in_the_meantime_survives(ask, tracks_csv, tmp_path, monkeypatch):
    from driftbayes import io

    output = tmp_path / "out.csv"

    def slowly(trajectories, path):
        output.write_text("appeared")
        write_trajectories(trajectories, path)

    monkeypatch.setattr(io, "write_trajectories", slowly)
    answer = ask("convert", tracks_csv, output)
    assert answer.code == 2
    assert "was created by another process after the start" in answer.err
    assert output.read_text() == "appeared"
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]


def test_what_was_not_announced_is_not_replaced(ask, tracks_csv, tmp_path, monkeypatch):
    """A command that forgets to announce a file may make it, and cannot replace it."""
    from driftbayes import io

    other = tmp_path / "other.csv"
    monkeypatch.setattr(io, "write_trajectories", lambda t, _: write_trajectories(t, other))
    assert ask("convert", tracks_csv, tmp_path / "out.csv").code == 0
    other.write_text("mine")
    assert ask("convert", tracks_csv, tmp_path / "out.csv", "--overwrite").code == 2
    assert other.read_text() == "mine"


_SLOW = """
import sys, time
import pyarrow.csv as pacsv
from driftbayes.cli.main import main

write = pacsv.write_csv

def half(table, stream, options):
    write(table.slice(0, 5), stream, options)
    stream.flush()
    print("writing", flush=True)
    time.sleep(600)

pacsv.write_csv = half
main(sys.argv[1:])
"""


@pytest.mark.parametrize("old", [True, False])
def test_a_kill_while_writing_leaves_old_or_nothing_and_is_swept(ask, tracks_csv, tmp_path, old):
    output = tmp_path / "out.csv"
    if old:
        output.write_text("old")
    arguments = ["convert", str(tracks_csv), str(output), "--overwrite"]
    process = subprocess.Popen(
        [sys.executable, "-c", _SLOW, *arguments], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout.readline() == "writing\n"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    (left,) = (path for path in tmp_path.iterdir() if path != output)
    assert left.name.startswith(".driftbayes-")
    assert left.stat().st_size > 20
    assert output.read_text() == "old" if old else not output.exists()
    assert ask(*arguments).code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]
    assert len(output.read_text().splitlines()) == len(tracks_csv.read_text().splitlines())
