"""What the README shows is what happens."""

import re
import warnings
from pathlib import Path

import jax
import numpy as np
import pytest

from driftbayes.cli.main import main

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


@pytest.fixture(autouse=True)
def own_process(monkeypatch):
    """Leave the user's cache and this process's warnings as they were."""
    monkeypatch.setenv("DRIFTBAYES_CACHE", "off")
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def make_tracks(folder: Path) -> None:
    arguments = "--gamma 1 --k 1 --particles 20 --steps 200 --tau 0.1 --dim 2"
    file = str(folder / "tracks.csv")
    assert main(["simulate", "langevin", *arguments.split(), "-o", file]) == 0


def test_the_python_example_runs_and_prefers_the_true_model(tmp_path, monkeypatch, capsys):
    make_tracks(tmp_path)
    monkeypatch.chdir(tmp_path)
    (example,) = blocks("python")
    capsys.readouterr()
    names: dict = {}
    exec(compile(example, "README.md", "exec"), names)
    assert "langevin is very strongly favoured" in capsys.readouterr().out
    mean = names["result"].evidences["langevin"].posterior_mean
    assert np.abs(mean["gamma"] - 1) < 0.3


def test_the_commands_run(tmp_path, monkeypatch):
    make_tracks(tmp_path)
    monkeypatch.chdir(tmp_path)
    lines = [line for block in blocks("sh") for line in block.splitlines()]
    commands = [
        line.split("#")[0].split()[1:] for line in lines if line.startswith(".venv/bin/driftbayes")
    ]
    # The paper's turbulence experiment has tests of its own, and takes most of a minute.
    commands.remove(["reproduce", "turbulence", "-o", "turbulence"])
    assert len(commands) == 8
    # The simulator mixes real and complex numbers, which the tests forbid elsewhere.
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        for command in commands:
            # The flow is as shown, for a shorter time.
            is_run = command[:2] == ["turbulence", "run"]
            shorter = ["--spin-up", "1", "--duration", "12"] if is_run else []
            assert main([*command, *shorter]) == 0


def test_links_and_pictures_exist():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
