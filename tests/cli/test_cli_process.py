"""The command in a process of its own: what it imports, what it caches, how it ends."""

import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from desk import PRIORS, check_comparison
from numpy.testing import assert_allclose

from driftbayes.cli import _jax

HEAVY = ("jax", "numpy", "pandas", "xarray", "matplotlib", "rich", "scipy", "pyarrow", "equinox")
COMPARE = ("--tau", "0.1", *PRIORS, "--json")


# As a person uses it


def test_simulate_then_compare(process, tmp_path):
    # The first without a place for compiled programs, which is no error.
    (tmp_path / "file").write_text("")
    made = process(
        *("simulate", "langevin", "--gamma", "1", "--k", "1", "--particles", "60"),
        *("--steps", "10", "--tau", "0.1", "--dim", "2", "--seed", "0", "-o", "tracks.csv"),
        cwd=tmp_path,
        DRIFTBAYES_CACHE=str(tmp_path / "file"),
    )
    assert (made.code, made.out) == (0, "")
    assert made.err == "wrote tracks.csv: 60 trajectories in 2D, 660 points, every 0.1\n"
    watched = ("-X", "importtime", "-m", "driftbayes")
    compared = process("compare", "tracks.csv", *COMPARE, cwd=tmp_path, python=watched)
    assert compared.code == 0
    check_comparison(compared.json)
    lines = compared.raw_err.splitlines()
    assert [line for line in lines if not line.startswith("import time:")] == []
    # A comparison loads what it needs.
    loaded = [line for line in lines if line.rpartition("|")[2].strip().startswith("driftbayes")]
    assert 40 < len(loaded) < 100, loaded
    model = compared.json["models"]["langevin"]
    for name in ("gamma", "k"):
        assert abs(model["posterior_mean"][name] - 1) < 4 * model["posterior_sd"][name]


def test_the_command_and_the_module_are_the_same(process):
    script = Path(sys.executable).with_name("driftbayes")
    if not script.exists():
        pytest.fail("the environment has no command 'driftbayes'; install the package")
    done = subprocess.run([script, "--version"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, process("--version").out)


def test_help_waits_for_no_library(process):
    code = (
        "import sys\n"
        "from driftbayes.cli.main import main\n"
        "try:\n    main(sys.argv[1:])\n"
        "except SystemExit as leaving:\n    assert leaving.code == 0\n"
        "print(sorted(m for m in sys.modules if '.' not in m), file=sys.stderr)\n"
    )
    for arguments in (("--help",), ("compare", "--help"), ("simulate", "langevin", "--help")):
        answer = process(*arguments, python=("-c", code))
        assert answer.code == 0
        assert answer.out.startswith("usage: ")
        assert not set(HEAVY) & set(json.loads(answer.err.replace("'", '"')))


def test_a_bad_option_is_told_before_any_library_is_loaded(process):
    code = (
        "import sys\n"
        "from driftbayes.cli.main import main\n"
        "code = main(sys.argv[1:])\n"
        "assert 'jax' not in sys.modules\n"
        "sys.exit(code)\n"
    )
    answer = process("compare", "no-such.csv", "--tau", "1", python=("-c", code))
    assert answer.code == 2
    assert answer.err.startswith("driftbayes: there is no file 'no-such.csv'")


def test_a_slip_leaves_one_line_and_exit_code_2(process):
    answer = process("info", "no-such.csv")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == (
        "driftbayes: there is no file 'no-such.csv'; check its name and its directory\n"
    )


def test_a_warning_is_one_line_without_our_source(process, tmp_path):
    (tmp_path / "wrapped.csv").write_text("id,time,x\na,0,0\na,1,0.45\na,2,0.5\n")
    answer = process("info", "wrapped.csv", "--period", "1", "--json", cwd=tmp_path)
    assert answer.code == 0
    assert answer.json["n_points"] == 3
    assert answer.err == (
        "warning: steps of up to 45% of the period along x: unwrapping is ambiguous "
        "near half a period; record more often\n"
    )


@pytest.mark.sampled(4)
@pytest.mark.parametrize("options", [(), ("--json",)])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_leaves_is_no_error(tracks_csv, options, unbuffered):
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "driftbayes", "info", tracks_csv, *options, "-q"],
            stdout=writer,
            stderr=subprocess.PIPE,
            env={**os.environ, "DRIFTBAYES_CACHE": "off", "PYTHONUNBUFFERED": unbuffered},
            check=False,
        )
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is full")
def test_a_full_disk_behind_stdout_is_told_in_one_line():
    command = [sys.executable, "-m", "driftbayes", "cite"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False
        )
    message = "driftbayes: cannot write the output: no space left on device; free some space\n"
    assert (done.returncode, done.stderr) == (2, message)


@pytest.mark.skipif(os.name != "posix", reason="needs a POSIX shell")
@pytest.mark.parametrize(("stream", "code"), [(1, 0), (2, 2)])
def test_a_closed_stream_is_no_error(stream, code, tracks_csv):
    file = str(tracks_csv) if code == 0 else "no/such/file"
    words = ["sh", "-c", f'exec "$0" "$@" {stream}>&-', sys.executable, "-m", "driftbayes"]
    done = subprocess.run(
        [*words, "info", file], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (code, "", "")


def test_a_terminal_without_greek_gets_question_marks(process, tracks_csv):
    answer = process("info", tracks_csv, "--units", "μm,s", PYTHONIOENCODING="ascii")
    assert answer.code == 0
    assert "length ?m, time s" in answer.out


# The cache of compiled programs


@pytest.fixture
def cache_for(monkeypatch):
    """The directory that would be used for a value of the variable."""

    def directory(value, **variables):
        monkeypatch.setenv("DRIFTBAYES_CACHE", str(value))
        for name, text in variables.items():
            monkeypatch.setenv(name, str(text))
        return _jax._cache_directory()

    return directory


def test_the_cache_belongs_to_the_user_alone(cache_for, tmp_path):
    made = cache_for(tmp_path / "new" / "place")
    assert made.parent == tmp_path / "new" / "place"
    assert stat.S_IMODE(made.stat().st_mode) == 0o700
    assert cache_for(tmp_path / "new" / "place") == made


def test_without_a_choice_the_users_cache_directory_is_used(cache_for, tmp_path):
    made = cache_for("", XDG_CACHE_HOME=tmp_path)
    assert made.parent == tmp_path / "driftbayes"
    home = cache_for("", XDG_CACHE_HOME="", HOME=tmp_path)
    assert home.parent == tmp_path / ".cache" / "driftbayes"


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777, 0o720, 0o702])
def test_a_cache_that_others_can_write_to_is_not_used(cache_for, tmp_path, mode):
    cache_for(tmp_path).chmod(mode)
    assert cache_for(tmp_path) is None


def test_a_cache_of_another_user_is_not_used(cache_for, tmp_path, monkeypatch):
    assert cache_for(tmp_path) is not None
    monkeypatch.setattr(os, "getuid", lambda: os.geteuid() + 1)
    assert cache_for(tmp_path) is None


def test_the_cache_can_be_switched_off(cache_for, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cache_for("off") is None
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_to_is_no_cache_and_no_error(
    cache_for, tmp_path, monkeypatch
):
    (tmp_path / "file").write_text("")
    assert cache_for(tmp_path / "file") is None
    assert cache_for(tmp_path) is not None
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert cache_for(tmp_path) is None


def test_a_user_without_a_home_gets_no_cache(cache_for, monkeypatch):
    def homeless():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    assert cache_for("", XDG_CACHE_HOME="") is None


def test_each_kind_of_processor_has_its_own_folder(cache_for, tmp_path, monkeypatch):
    here = cache_for(tmp_path)
    monkeypatch.setattr(_jax.platform, "machine", lambda: "another")
    assert cache_for(tmp_path) != here


@pytest.mark.slow
def test_a_full_cache_changes_no_digit_and_a_damaged_one_neither(process, tracks_csv, tmp_path):
    cache = {"DRIFTBAYES_CACHE": str(process.cache)}
    first = process("compare", tracks_csv, *COMPARE, **cache)
    again = process("compare", tracks_csv, *COMPARE, **cache)
    assert first.code == again.code == 0
    assert again.out == first.out
    entries = [path for path in process.cache.rglob("*-cache") if path.is_file()]
    assert entries
    damaged = tmp_path / "cache"
    shutil.copytree(process.cache, damaged)
    for i, path in enumerate(sorted(damaged.rglob("*-cache"))):
        data = bytearray(path.read_bytes())
        middle = len(data) // 2
        # Cut short, emptied, or with a hole: what a full disk or a power cut leaves behind.
        path.write_bytes(
            (data[:middle], b"", data[:middle] + bytes(64) + data[middle + 64 :])[i % 3]
        )
    answer = process("compare", tracks_csv, *COMPARE, DRIFTBAYES_CACHE=str(damaged))
    assert answer.code == 0
    for name, model in first.json["models"].items():
        assert_allclose(
            answer.json["models"][name]["log_evidence"], model["log_evidence"], rtol=1e-12
        )
    assert answer.json["verdict"] == first.json["verdict"]
