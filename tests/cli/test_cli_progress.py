"""Progress on a terminal, and silence elsewhere."""

import sys

import pytest
from desk import PRIORS

from driftbayes.cli import _console

WORK = ("--tau", "0.1", "--models", "brownian", *PRIORS[:2])


@pytest.fixture
def terminal(monkeypatch, capsys):
    # Of the class, after `capsys`, which replaces the stream, maybe more than once.
    assert capsys is not None
    monkeypatch.setattr(type(sys.stderr), "isatty", lambda _: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")


@pytest.mark.usefixtures("terminal")
def test_reading_and_models_are_shown_with_the_time_left(ask, tracks_csv):
    answer = ask("compare", tracks_csv, *WORK)
    assert answer.code == 0
    assert f"reading {tracks_csv.name}" in answer.err
    assert "models" in answer.err
    assert "1/1" in answer.err
    # Elapsed and left.
    assert answer.err.count("0:00:00") >= 2


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize("words", [("--json",), ("--quiet",)])
def test_it_is_silent_if_told(ask, tracks_csv, words):
    answer = ask("compare", tracks_csv, *WORK, *words)
    assert answer.code == 0
    assert answer.err == ""


def test_it_is_silent_in_a_pipe(ask, tracks_csv):
    answer = ask("compare", tracks_csv, *WORK)
    assert answer.code == 0
    assert answer.err == ""


@pytest.mark.usefixtures("terminal")
@pytest.mark.parametrize(
    ("words", "stage"),
    [
        (("sensitivity", *WORK[:2], "--factors", "1:1:1", *PRIORS), "models"),
        (("predict", *WORK, "--horizon", "1", "--draws", "20"), "models"),
        (("diagnose", "--lags", "3"), "bootstrap"),
        (("qc",), "reading"),
    ],
    ids=lambda one: one[0] if isinstance(one, tuple) else "",
)
def test_other_commands_show_it(ask, tracks_csv, words, stage):
    answer = ask(words[0], tracks_csv, *words[1:])
    assert answer.code == 0, answer.err
    assert stage in answer.err


@pytest.mark.usefixtures("terminal")
def test_a_bar_inside_another_is_that_one(capsys):
    with _console.progress_bar() as outer, _console.progress_bar() as inner:
        assert outer is inner
        inner("one", 1, 2)
    capsys.readouterr()


def test_tables_of_text_tell_how_far_they_are_read(tracks_csv):
    from driftbayes.io import read_trajectories
    from driftbayes.io._limits import watched

    told = []
    with watched(lambda done, total: told.append((done, total))):
        read_trajectories(tracks_csv)
    size = tracks_csv.stat().st_size
    assert told[-1] == (size, size)
    assert [done for done, _ in told] == sorted(done for done, _ in told)
