"""Every slip of a user has its own sentence, on one line, and exit code 2; never a traceback."""

import numpy as np
import pytest
from desk import PRIORS

from driftbayes.models import MODELS

HEAD = "id,time,x,y\n"
GOOD = HEAD + "".join(
    f"{name},{0.5 * i:g},{np.cos(i + len(name)):.3f},{np.sin(2 * i):.3f}\n"
    for name in ("a", "bb")
    for i in range(4)
)

# File contents, more arguments, and the whole message after "driftbayes: ".
FILES = {
    "missing column": (
        "id,time,x0,x1\na,0,1,1\na,1,2,2\n",
        (),
        "'tracks.csv': which columns are x and y? It has 'id', 'time', 'x0', 'x1': "
        "pass columns={'x': 'x0', 'y': 'x1'} (--columns 'x=x0,y=x1')",
    ),
    "missing named column": (
        GOOD,
        ("--columns", "x=easting"),
        "'tracks.csv' has no column 'easting' (wanted as 'x'); it has only 'id', 'time', 'x', 'y': "
        "add the column",
    ),
    "non-numeric cell": (
        HEAD + "a,0,1,1\na,1,two,2\n",
        (),
        "'tracks.csv' line 3: column 'x' holds 'two', expected a number; "
        "correct the cell, or empty it if the value is missing",
    ),
    "missing time": (
        HEAD + "a,0,1,1\na,,2,2\n",
        (),
        "'tracks.csv' line 3: column 'time' is empty; every row needs a time",
    ),
    "duplicate times": (
        HEAD + "a,0,1,1\na,0.5,2,2\na,0.5,3,3\n",
        (),
        "'tracks.csv': duplicate times: trajectory 'a' has time 0.5 twice; "
        "times must increase strictly within a trajectory",
    ),
    "one-point trajectory": (
        GOOD + "lonely,0,1,1\n",
        (),
        "trajectory 'lonely' has only one position; a displacement needs two: remove it, "
        "or pass --drop-short (in Python: .drop_short())",
    ),
    "all-NaN particle": (
        GOOD + "lost,0,,\nlost,0.5,,\n",
        (),
        "trajectory 'lost' has no position at all (all NaN); a displacement needs two: remove it, "
        "or pass --drop-short (in Python: .drop_short())",
    ),
    "nothing left": (
        HEAD + "a,0,1,1\nb,0,1,1\n",
        ("--drop-short",),
        "no trajectory has 2 or more positions; nothing is left",
    ),
    "mixed dimensions": (
        GOOD + "flat,0,1,\nflat,0.5,2,\n",
        (),
        "'tracks.csv': trajectory 'flat' at time 0 has x but no y: all observations need the same "
        "2 coordinates; fill or remove the column, or blank the whole row for a missing position",
    ),
    "infinite coordinate": (
        HEAD + "a,0,1,1\na,0.5,inf,2\n",
        (),
        "'tracks.csv': trajectory 'a' at time 0.5 has an infinite coordinate; "
        "write NaN for a missing position",
    ),
    "zero displacements": (
        HEAD + "a,0,1,1\na,0.5,1,1\na,1,1,1\n",
        (),
        "all 2 displacements are zero: no diffusivity can be inferred; "
        "check the columns and the number of digits in the file",
    ),
    "tau off the grid": (
        GOOD,
        ("--tau", "0.7"),
        "tau must be a whole multiple of the recording interval 0.5, got 0.7; "
        "the nearest are 0.5 and 1",
    ),
    "tau below the grid": (
        GOOD,
        ("--tau", "0.2"),
        "tau must be a whole multiple of the recording interval 0.5, got 0.2; the smallest is 0.5",
    ),
    "tau off the grid with its unit": (
        GOOD,
        ("--tau", "0.7", "--time-unit", "s"),
        "tau must be a whole multiple of the recording interval 0.5 s, got 0.7 s; "
        "the nearest are 0.5 s and 1 s",
    ),
    "negative tau": (GOOD, ("--tau", "-1"), "tau must be a positive number, got -1"),
    "tau that is no number": (
        GOOD,
        ("--tau", "x"),
        "--tau must be a number or a time with its unit, for example 6h, got 'x'",
    ),
    "tau too long": (
        GOOD,
        ("--tau", "5"),
        "no trajectory has two positions that are 5 apart; use a smaller tau",
    ),
    "n-tau too long": (
        GOOD,
        ("--n-tau", "4"),
        "no trajectory has 4 successive steps at tau = 0.5, the longest has 3; "
        "use a smaller tau or n_tau",
    ),
    "n-tau zero": (
        GOOD,
        ("--n-tau", "0"),
        "n_tau must be a whole number, 1 or more, got 0",
    ),
    "negative prior mean": (
        GOOD,
        ("--prior", "k=exponential:-1"),
        "the mean of an exponential prior must be a positive, finite number, got -1.0",
    ),
    "improper prior": (
        GOOD,
        ("--prior", "k=uniform:0:inf"),
        "the bounds of a uniform prior must be finite with 0 <= low < high "
        "(an improper prior has no evidence), got [0.0, inf]",
    ),
    "unknown prior family": (
        GOOD,
        ("--prior", "k=cauchy:1"),
        "unknown prior 'cauchy' in 'cauchy:1'; known are exponential:MEAN; gamma:SHAPE:MEAN; "
        "lognormal:MEDIAN:SIGMA; uniform:LOW:HIGH; normal:MEAN:SD; fixed:VALUE",
    ),
    "prior without its numbers": (
        GOOD,
        ("--prior", "k=lognormal:1"),
        "prior 'lognormal:1' must be written lognormal:MEDIAN:SIGMA",
    ),
    "prior without a parameter": (
        GOOD,
        ("--prior", "exponential:1"),
        "--prior must be PARAM=FAMILY:NUMBERS, got 'exponential:1'; for example k=exponential:1",
    ),
    "prior of nothing": (
        GOOD,
        ("--prior", "sigma=exponential:1"),
        "there is no parameter 'sigma' in brownian, langevin; they have kappa, gamma, k",
    ),
    "prior given twice": (
        GOOD,
        ("--prior", "k=exponential:1", "--prior", "k=exponential:2"),
        "--prior was given twice for 'k'; give it once",
    ),
    "unknown model": (
        GOOD,
        ("--models", "brownian,levy"),
        f"unknown model 'levy'; known are {', '.join(MODELS)}",
    ),
    "model named twice": (
        GOOD,
        ("--models", "brownian,brownian"),
        "model 'brownian' is given twice; remove one",
    ),
    "no model": (
        GOOD,
        ("--models", ","),
        f"expected at least one model; known are {', '.join(MODELS)}",
    ),
    "half of the scales": (
        GOOD,
        ("--u-rms", "1"),
        "--u-rms and --timescale must be given together",
    ),
    "negative scale": (
        GOOD,
        ("--u-rms", "-1", "--timescale", "1"),
        "u_rms must be a positive number, got -1.0",
    ),
    "model prior of the wrong length": (
        GOOD,
        ("--model-prior", "1"),
        "--model-prior must be 2 positive numbers up to 1e100, one each for brownian, langevin, "
        "got '1'",
    ),
    "model prior of zero": (
        GOOD,
        ("--model-prior", "1,0"),
        "--model-prior must be 2 positive numbers up to 1e100, one each for brownian, langevin, "
        "got '1,0'",
    ),
    "model prior in words": (
        GOOD,
        ("--model-prior", "half,half"),
        "--model-prior must be numbers separated by commas, got 'half,half'",
    ),
    "noise of zero": (GOOD, ("--noise", "0"), "noise must be a positive number, got 0"),
    "period in words": (
        GOOD,
        ("--period", "2pi"),
        "period: 'pi' is not a known unit of length; use one of nm, µm, mm, cm, m, km",
    ),
    "period of the wrong length": (
        GOOD,
        ("--period", "1,1,1"),
        "period must have one entry per axis (2), got 3",
    ),
    "negative period": (GOOD, ("--period", "-1"), "period must be a positive number, got -1.0"),
    "columns without a name": (
        GOOD,
        ("--columns", "lon"),
        "columns (--columns) must be NAME=COLUMN,..., got 'lon'; for example x=lon,y=lat",
    ),
    "columns the wrong way round": (
        GOOD,
        ("--columns", "easting=x"),
        "columns has the key 'easting', expected one of id, time, x, y, z, sd mapped to a name in "
        "the file; did you mean {'x': 'easting'}?",
    ),
    "empty file": ("", (), "'tracks.csv' is empty; expected data in it"),
    "header only": (
        HEAD,
        (),
        "'tracks.csv' has a header but no rows; expected one row per observation",
    ),
    "ragged line": (
        HEAD + "a,0,1,1\na,1,2\n",
        (),
        "'tracks.csv' line 3 has 3 cells where the header has 4; complete or remove the line",
    ),
    "separators of thousands": (
        HEAD.replace(",", ";") + "a;0;1.234,5;1\na;1;2;1\n",
        (),
        "'tracks.csv' line 2: column 'x' holds '1.234,5', expected a number; correct the cell, or "
        "empty it if the value is missing",
    ),
}


def refused(answer):
    assert answer.code == 2
    assert answer.out == ""
    assert "Traceback" not in answer.err
    # Below it may be a command to copy.
    last = [line for line in answer.err.splitlines() if not line.startswith("next: ")][-1]
    assert last.startswith("driftbayes: ")
    return last.removeprefix("driftbayes: ")


@pytest.mark.parametrize("case", FILES)
def test_compare_says_what_is_wrong(case, ask, tmp_path):
    text, options, message = FILES[case]
    (tmp_path / "tracks.csv").write_text(text)
    tau = () if "--tau" in options else ("--tau", "0.5")
    answer = ask("compare", tmp_path / "tracks.csv", *tau, *options)
    assert refused(answer) == message
    assert answer.err.count("\n") == 1 + answer.err.count("\nnext: ")


@pytest.mark.parametrize("case", FILES)
def test_json_does_not_change_how_a_slip_is_answered(case, ask, tmp_path):
    text, options, message = FILES[case]
    (tmp_path / "tracks.csv").write_text(text)
    tau = () if "--tau" in options else ("--tau", "0.5")
    answer = ask("compare", tmp_path / "tracks.csv", *tau, *options, "--json")
    assert refused(answer) == message


# In these the scan finds the same fault in its own words, or has no such option.
OWN = {case for case in FILES if "tau" in case} | {"zero displacements"}


@pytest.mark.parametrize("case", sorted(set(FILES) - OWN))
def test_scan_says_the_same(case, ask, tmp_path):
    text, options, message = FILES[case]
    (tmp_path / "tracks.csv").write_text(text)
    answer = ask("scan", tmp_path / "tracks.csv", "--taus", "0.5,1", *options)
    assert refused(answer) == message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--taus", "1:2"), "--taus must be a,b,c or low:high:count or low:high:countlog"),
        (
            ("--taus", "1;2"),
            "--taus must be a number or a time with its unit, for example 6h, got '1;2'",
        ),
        (("--taus", "2:1:5log"), "--taus needs 0 < low <= high and a count from 1 to 10,000"),
        (("--taus", "0.5,-1"), "--taus must be positive times separated by commas, got '0.5,-1'"),
        (("--taus", "0.5", "--n-tau", "9"), "no trajectory has 9 successive steps at tau = 0.5"),
        (("--taus", "50"), "no trajectory has two positions that are 50 apart"),
        (("--taus", "0.5", "-o", "scan.csv"), "results are NetCDF files: expected a name ending"),
        (
            ("--taus", "0.5", "-o", "no/such/scan.nc"),
            "cannot write 'no/such/scan.nc': its directory does not exist; create it first",
        ),
    ],
)
def test_scan_says_what_is_wrong(options, message, ask, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tracks.csv").write_text(GOOD)
    assert refused(ask("scan", "tracks.csv", *PRIORS, *options)).startswith(message)
    assert [path.name for path in tmp_path.iterdir()] == ["tracks.csv"]


def test_zero_displacements_are_found_by_the_scan(ask, tmp_path):
    (tmp_path / "still.csv").write_text(HEAD + "a,0,1,1\na,0.5,1,1\na,1,1,1\n")
    given = ask("scan", tmp_path / "still.csv", "--taus", "0.5", *PRIORS)
    default = ask("scan", tmp_path / "still.csv", "--taus", "0.5")
    assert refused(given).startswith("all 2 displacements are zero: no diffusivity can be inferred")
    assert refused(default).startswith("all 2 displacements are zero, so the data have no scale")


COMMANDS = {
    "compare": ("--tau", "1"),
    "scan": ("--taus", "1"),
    "diagnose": (),
    "info": (),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_knows_a_missing_file(command, ask):
    found = refused(ask(command, "no/such/tracks.csv", *COMMANDS[command]))
    assert found == "there is no file 'no/such/tracks.csv'; check its name and its directory"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_knows_its_formats(command, ask, tmp_path):
    (tmp_path / "tracks.xlsx").write_bytes(b"PK\x03\x04 a workbook")
    found = refused(ask(command, tmp_path / "tracks.xlsx", *COMMANDS[command]))
    assert "unrecognised file format: 'tracks.xlsx';" in found


@pytest.mark.parametrize("command", COMMANDS)
def test_a_directory_is_not_a_file(command, ask, tmp_path):
    (tmp_path / "tracks.csv").mkdir()
    found = refused(ask(command, tmp_path / "tracks.csv", *COMMANDS[command]))
    assert "'tracks.csv' is a directory, expected a file, a folder of trajectory files" in found


@pytest.mark.parametrize("suffix", [".parquet", ".nc"])
def test_a_damaged_file_is_called_damaged(suffix, ask, tmp_path):
    (tmp_path / f"tracks{suffix}").write_bytes(b"\x89HDF and then nothing of the kind")
    found = refused(ask("info", tmp_path / f"tracks{suffix}"))
    assert f"tracks{suffix}" in found


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("tracks.txt", "unknown format: expected a name ending in .csv"),
        ("no/such/tracks.csv", "cannot write 'no/such/tracks.csv': its directory does not exist"),
    ],
)
def test_simulate_knows_where_it_cannot_write(name, message, ask, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sizes = ("--particles", "2", "--steps", "2", "--tau", "1", "--dim", "1")
    answer = ask("simulate", "brownian", "--kappa", "1", *sizes, "-o", name)
    assert refused(answer).startswith(message)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("guess",),
        ("compare",),
        ("compare", "tracks.csv"),
        ("compare", "tracks.csv", "--tau", "1", "--method", "guess"),
        ("compare", "tracks.csv", "--tau", "1", "--n-tau", "1.5"),
        ("simulate", "levy"),
        ("simulate", "langevin", "--gamma", "1"),
        ("reproduce", "turbulence"),
    ],
)
def test_a_command_that_cannot_be_understood_shows_how_it_is_used(arguments, ask):
    answer = ask(*arguments)
    assert answer.code == 2
    assert answer.out == ""
    assert answer.err.startswith("usage: driftbayes")
    assert "error: " in answer.err.splitlines()[-1]
    # The usage names only what is required, so that the message is not lost below it.
    assert len(answer.err.splitlines()) == 2
    assert max(map(len, answer.raw_err.splitlines())) <= 80


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("compare", "t.csv", "--tau", "1", "--seed", "x"), "--seed must be a whole number, got"),
        (("map", "t.csv", "--taus", "1", "--split", "x"), "--split must be a number, got 'x'"),
        (("compare", "t.csv", "--tau", "1", "--gaps", "x"), "--gaps must be split or keep, got"),
        (
            ("predict", "t.csv", "--tau", "1", "--horizon", "1", "--given", "x"),
            "--given must be others, got 'x'",
        ),
        (("compare", "t.csv", "--tua", "1"), "error: unknown option '--tua'; did you mean '--ta"),
        (("guess",), "unknown command 'guess'; `driftbayes` alone lists the commands"),
    ],
)
def test_a_wrong_word_is_named_in_plain_english(arguments, message, ask):
    assert message in ask(*arguments).err.splitlines()[-1]


def test_a_value_may_begin_with_a_minus(ask, tmp_path):
    rows = "".join(f"a,{i},{i % 3 - 2},{i * i % 5}\n" for i in range(30))
    (tmp_path / "t.csv").write_text(HEAD + rows + "a,30,-99,-99\na,31,-9.5,-9.5\n")
    answer = ask("info", tmp_path / "t.csv", "--missing", "-99,-9.5", "--json")
    assert answer.json["n_missing"] == 2
    walls = ask("field", tmp_path / "t.csv", "--tau", "1", "--walls", "-10,10")
    assert "walls must be a lower and a higher number for each of 2 axes" in walls.err


def test_version_and_help_are_no_errors(ask):
    from driftbayes import __version__

    version = ask("--version")
    assert (version.code, version.out) == (0, f"driftbayes {__version__}\n")
    for command in ("compare", "scan", "simulate", "diagnose", "info", "models", "reproduce"):
        assert command in ask("--help").out
        assert ask(command, "--help").code == 0


def test_our_own_mistakes_keep_their_traceback(ask, tracks_csv, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("ours")

    monkeypatch.setattr("driftbayes.workflow._reading.read_trajectories", broken)
    with pytest.raises(RuntimeError, match="ours"):
        ask("info", tracks_csv)


def test_a_person_may_change_their_mind(ask, tracks_csv, monkeypatch):
    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("driftbayes.workflow._reading.read_trajectories", stopped)
    answer = ask("info", tracks_csv)
    assert (answer.code, answer.out, answer.err) == (130, "", "driftbayes: interrupted\n")
