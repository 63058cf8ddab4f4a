"""A person at the command line: arguments in; exit code, stdout, stderr and files out."""

import argparse
import json
import os
import re
import subprocess
import sys
import warnings
from dataclasses import dataclass

import pytest
from desk import langevin_tracks
from matplotlib.layout_engine import ConstrainedLayoutEngine

from driftbayes.cli.main import main
from driftbayes.io import write_trajectories

# Sentences are folded at 80 columns, which is tested once.
FOLD = re.compile(r"\n {4}(?=\S)")


@dataclass(frozen=True)
class Answer:
    """What a command left behind, with sentences unfolded."""

    code: int
    raw_out: str
    raw_err: str

    @property
    def out(self):
        return FOLD.sub(" ", self.raw_out)

    @property
    def err(self):
        return FOLD.sub(" ", self.raw_err)

    @property
    def json(self):
        def refuse(word):
            raise AssertionError(f"{word} is not JSON")

        return json.loads(self.raw_out, parse_constant=refuse)


@pytest.fixture(autouse=True)
def _own_process(monkeypatch):
    """What a command changes in its process is changed back, and nothing is cached."""
    monkeypatch.setenv("DRIFTBAYES_CACHE", "off")
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)


@pytest.fixture(autouse=True, scope="module")
def _plain_layout():
    """Figures are written as they come; to make room for labels takes longer than to draw."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ConstrainedLayoutEngine, "execute", lambda *_: None)
        yield


@pytest.fixture
def ask(capsys):
    """Run a command in this process, where programs are compiled already."""

    def run(*arguments) -> Answer:
        capsys.readouterr()
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as leaving:
            code = leaving.code
        seen = capsys.readouterr()
        return Answer(code, seen.out, seen.err)

    return run


@pytest.fixture(scope="session")
def parsers_of():
    """Walk through a parser and those of its subcommands."""

    def walk(parser):
        yield parser
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                for child in action.choices.values():
                    yield from walk(child)

    return walk


@pytest.fixture(scope="session")
def process(tmp_path_factory):
    """Run a command as a person does, in a process of its own.

    Compiled programs are those of the tests in this process; `process.cache` is a folder for
    tests that are about the cache itself.
    """

    def run(*arguments, cwd=None, python=("-m", "driftbayes"), **variables) -> Answer:
        environment = {**os.environ, "DRIFTBAYES_CACHE": "off", **variables}
        done = subprocess.run(
            [sys.executable, *python, *map(str, arguments)],
            capture_output=True,
            encoding="utf-8",
            cwd=cwd,
            env=environment,
            timeout=300,
            check=False,
        )
        return Answer(done.returncode, done.stdout, done.stderr)

    run.cache = tmp_path_factory.mktemp("cache")
    return run


@pytest.fixture(scope="session")
def tracks_csv(tmp_path_factory):
    """Langevin trajectories with gamma = k = 1, ten steps of 0.1."""
    path = tmp_path_factory.mktemp("tracks") / "tracks.csv"
    write_trajectories(langevin_tracks(), path)
    return path


@pytest.fixture(scope="session")
def few_csv(tmp_path_factory):
    """Few enough for the state-space engine to be compiled for one small shape."""
    path = tmp_path_factory.mktemp("few") / "few.csv"
    write_trajectories(langevin_tracks(n_particles=8), path)
    return path
