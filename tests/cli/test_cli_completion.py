"""Completion scripts, in the shells that they are for."""

import json
import shutil
import subprocess

import pytest
from typist import type_keys

from driftbayes import io, models
from driftbayes.cli.about import FORMATS, MODELS, OPTIONS, SHELLS
from driftbayes.cli.main import build_parser

# What is typed, and the words that may follow; in the folder lies tracks.csv.
CASES = {
    "driftbayes compar": ["compare"],
    "driftbayes -v turbulence run --preset ": ["laptop", "paper", "tiny"],
    "driftbayes compare t.csv --method la": ["laplace", "laplace_is"],
    "driftbayes compare t.csv --models brownian,lan": ["brownian,langevin"],
    "driftbayes compare t.csv --models langevin+n": ["langevin+noise"],
    "driftbayes info t.csv --format trackmate-": [
        "trackmate-csv",
        "trackmate-tracks",
        "trackmate-xml",
    ],
    "driftbayes simulate lang": ["langevin"],
    "driftbayes simulate langevin --ga": ["--gamma"],
    "driftbayes export s.nc --for parcels": ["parcels", "parcels3"],
    "driftbayes reproduce l": ["ladder", "langevin"],
    "driftbayes compare --qui": ["--quiet"],
    "driftbayes completion ": ["bash", "fish", "zsh"],
    "driftbayes compare t.csv --tau ": [],
    "driftbayes cite ": [],
}
# Typed with the tabulator, and what then stands on the line.
TYPED = {
    "driftbayes compar\t": "driftbayes compare ",
    "driftbayes compare trac\t": "driftbayes compare tracks.csv ",
    "driftbayes compare tracks.csv --method quad\t": "--method quadrature ",
    "driftbayes compare t --models brownian,langevin+noi\t": "brownian,langevin+noise",
}


def shell(name):
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"there is no {name} on this machine: apt-get install {name}")
    return found


@pytest.fixture(scope="module")
def scripts(tmp_path_factory):
    """The script for each shell, in a folder with one file of trajectories."""
    from driftbayes.cli.main import main

    folder = tmp_path_factory.mktemp("shells")
    (folder / "tracks.csv").write_text("")
    paths = {name: folder / f"completion.{name}" for name in SHELLS}
    for name, path in paths.items():
        with path.open("w") as stream, pytest.MonkeyPatch.context() as patch:
            patch.setattr("sys.stdout", stream)
            assert main(["completion", name]) == 0
    return paths


@pytest.mark.parametrize("name", SHELLS)
def test_the_shell_takes_the_script(name, scripts):
    done = subprocess.run(
        [shell(name), "-n", scripts[name]], capture_output=True, encoding="utf-8", check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("line", CASES)
def test_bash_offers_what_the_parser_takes(line, scripts):
    ask = (
        'source "$1"; read -ra COMP_WORDS <<< "$2"; [[ $2 == *" " ]] && COMP_WORDS+=(""); '
        'COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _shtab_driftbayes; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        [shell("bash"), "--norc", "-c", ask, "bash", scripts["bash"], line],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.stderr == ""
    assert sorted(done.stdout.split()) == CASES[line]


@pytest.mark.parametrize("line", CASES)
def test_fish_offers_what_the_parser_takes(line, scripts):
    ask = "source $argv[1]; complete -C $argv[2]"
    done = subprocess.run(
        [shell("fish"), "--no-config", "-c", ask, scripts["fish"], line],
        capture_output=True,
        encoding="utf-8",
        check=False,
        cwd=scripts["fish"].parent,
    )
    assert done.stderr == ""
    assert sorted(row.partition("\t")[0] for row in done.stdout.splitlines()) == CASES[line]


@pytest.mark.parametrize("name", ["bash", "zsh"])
@pytest.mark.parametrize("keys", TYPED)
def test_the_tabulator_completes(name, keys, scripts):
    start = {"bash": ["--norc", "--noprofile", "-i"], "zsh": ["-f", "-i"]}
    load = {
        "bash": f"source {scripts[name].name}",
        "zsh": f'autoload -Uz compinit; compinit -u -D; eval "$(<{scripts[name].name})"',
    }
    seen = type_keys(
        [shell(name), *start[name]],
        load[name],
        keys,
        TYPED[keys],
        scripts[name].parent,
    )
    assert TYPED[keys] in seen


def test_names_are_those_of_the_package():
    assert set(MODELS) == set(models.MODELS)
    assert set(OPTIONS) == set(models.OPTIONS)
    assert set(FORMATS) == {format_.name for format_ in io.FORMATS}


@pytest.mark.parametrize("name", SHELLS)
def test_every_option_is_in_every_script(name, scripts, parsers_of):
    text = scripts[name].read_text()
    parsers = list(parsers_of(build_parser()))
    assert len(parsers) > 30
    for parser in parsers:
        assert parser.prog.split()[-1] in text
        for flag in parser._option_string_actions:
            assert (flag if name != "fish" else flag.lstrip("-")) in text


@pytest.mark.parametrize("name", SHELLS)
def test_a_script_waits_for_no_library(process, name):
    code = (
        "import sys\n"
        "from driftbayes.cli.main import main\n"
        "main(sys.argv[1:])\n"
        "print(sorted(m for m in sys.modules if '.' not in m), file=sys.stderr)\n"
    )
    answer = process("completion", name, python=("-c", code))
    assert answer.code == 0
    loaded = set(json.loads(answer.err.replace("'", '"')))
    assert not {"jax", "numpy", "pandas", "xarray", "pyarrow", "rich"} & loaded


def test_a_shell_that_is_not_known(ask):
    answer = ask("completion", "bsh")
    assert answer.code == 2
    assert answer.err.endswith("did you mean 'bash'?\n")
