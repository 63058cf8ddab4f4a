"""How much a command says: --quiet, --verbose, the overview, the examples, the suggestions."""

import shlex

import pytest
from desk import PRIORS

from driftbayes.cli.main import build_parser, main

# One model, which compiles fast: what is tested here is what is said.
ONE = ("--models", "brownian")
COMPARE = ("--tau", "0.1", *ONE, *PRIORS[:2])


# Quiet


def test_quiet_leaves_the_result_alone(ask, tracks_csv):
    plain = ask("compare", tracks_csv, *COMPARE)
    quiet = ask("compare", tracks_csv, *COMPARE, "--quiet")
    assert (quiet.code, quiet.out, quiet.err) == (0, plain.out, "")


@pytest.mark.parametrize("place", ["before", "after"])
@pytest.mark.parametrize("flag", ["-q", "--quiet"])
def test_quiet_before_or_after_the_command(place, flag, ask, tmp_path):
    line = ["simulate", "brownian", "--kappa", "1", "--particles", "2", "--steps", "2"]
    line += ["--tau", "1", "-o", str(tmp_path / "a.csv")]
    answer = ask(flag, *line) if place == "before" else ask(*line, flag)
    assert (answer.code, answer.out, answer.err) == (0, "", "")
    assert "wrote" in ask(*line, "--overwrite").err


def test_quiet_does_not_hide_that_the_data_are_used_twice(ask, tracks_csv):
    answer = ask("compare", tracks_csv, "--tau", "0.1", *ONE, "-q")
    assert answer.err.count("\n") == 1
    assert "default priors set from the data" in answer.err


def test_quiet_does_not_hide_a_warning(ask, tmp_path):
    (tmp_path / "wrapped.csv").write_text("id,time,x\na,0,0\na,1,0.45\na,2,0.5\n")
    answer = ask("-q", "info", tmp_path / "wrapped.csv", "--period", "1")
    assert answer.code == 0
    assert "warning: steps of up to 45% of the period" in answer.err


def test_quiet_does_not_hide_what_is_wrong_in_the_data(ask, tmp_path):
    rows = [f"a,{i},{0.1 * (-1) ** i}\n" for i in range(40)]
    rows[20] = "a,20,900\n"
    (tmp_path / "spiked.csv").write_text("id,time,x\n" + "".join(rows))
    answer = ask("info", tmp_path / "spiked.csv", "--quiet")
    assert answer.err.startswith("warning: ")
    assert "spike" in answer.err


def test_quiet_still_says_what_is_wrong(ask):
    answer = ask("info", "no-such.csv", "-q")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("driftbayes: there is no file 'no-such.csv'")


# Verbose


def test_verbose_says_what_is_done_and_how_long_it_takes(ask, tracks_csv):
    plain = ask("compare", tracks_csv, *COMPARE, "--json")
    told = ask("-v", "compare", tracks_csv, *COMPARE, "--json")
    assert told.out == plain.out
    lines = told.err.splitlines()
    assert "driftbayes" in lines[0]
    assert "jax" in lines[0]
    for words in (
        f"reading {tracks_csv}: done in",
        "computing on",
        "evidence of brownian: done in",
    ):
        assert any(words in line for line in lines)
    assert lines[-1].endswith("done")
    stamped = [line for line in lines if line.startswith("[")]
    times = [float(line[1:].split()[0]) for line in stamped]
    assert times == sorted(times)
    assert stamped == lines


def test_verbose_counts_the_steps_of_a_scan(ask, tracks_csv):
    answer = ask("scan", tracks_csv, "--taus", "0.1,0.2", *ONE, *PRIORS[:2], "--verbose")
    assert answer.code == 0
    assert "displacements: 2 of 2" in answer.err
    assert "evidence: 2 of 2" in answer.err


def test_verbose_shows_where_an_error_comes_from(ask):
    answer = ask("info", "no-such.csv", "--verbose")
    assert answer.code == 2
    assert "Traceback (most recent call last)" in answer.err
    assert answer.err.splitlines()[-1].startswith("driftbayes: there is no file 'no-such.csv'")


def test_the_voice_is_not_kept_for_the_next_command(ask):
    ask("info", "no-such.csv", "--verbose")
    assert ask("info", "no-such.csv").err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("compare", "--tau", "0.1"),
        ("scan", "--taus", "0.1,0.2,0.3", *ONE),
        ("check", "--tau", "0.1", "--replicas", "100"),
        ("compare", "--tau", "0.13"),
        ("compare", "--tau", "0.1", "--models", "brownian,langevn"),
    ],
)
def test_sentences_fit_eighty_columns(arguments, ask, tracks_csv):
    command, *options = arguments
    answer = ask(command, tracks_csv, *options)
    spoken = answer.raw_err.splitlines()
    spoken += [line for line in answer.raw_out.splitlines() if not line.startswith(" ")]
    assert spoken
    assert [line for line in spoken if len(line) > 80 and " " in line.strip()] == []
    assert max(map(len, [*answer.err.splitlines(), *answer.out.splitlines()])) > 80


# Overview and examples


def test_without_arguments_the_commands_are_shown_in_groups(ask, parsers_of):
    answer = ask()
    assert (answer.code, answer.err) == (0, "")
    assert answer.out == ask("--help").out
    headings = ("inspect data:", "compare models:", "use results:", "simulate data:")
    places = [answer.out.index(heading) for heading in headings]
    assert places == sorted(places)
    commands = {
        parser.prog.split()[1] for parser in parsers_of(build_parser()) if " " in parser.prog
    }
    assert len(commands) > 20
    for command in commands:
        assert sum(line.startswith(f"  {command} ") for line in answer.out.splitlines()) == 1


@pytest.mark.parametrize("arguments", [(), ("cite",), ("-q", "cite"), ("compare", "--help")])
def test_overview_and_cite_wait_for_no_library(arguments, process):
    code = (
        "import sys\n"
        "from driftbayes.cli.main import main\n"
        "try:\n    main(sys.argv[1:])\n"
        "except SystemExit:\n    pass\n"
        "heavy = ('jax', 'numpy', 'pandas', 'xarray', 'rich', 'pyarrow', 'importlib.metadata')\n"
        "print(*(name for name in heavy if name in sys.modules), file=sys.stderr)\n"
    )
    answer = process(*arguments, python=("-c", code))
    assert (answer.code, answer.err.strip()) == (0, "")
    assert answer.out


def test_main_commands_have_examples(parsers_of):
    with_examples = {parser.prog for parser in parsers_of(build_parser()) if parser.examples}
    main_ones = ("compare", "scan", "check", "report", "info", "map", "export", "simulate")
    assert {f"driftbayes {name}" for name in main_ones} <= with_examples


def test_every_example_is_a_command_that_can_be_understood(parsers_of):
    lines = {line for parser in parsers_of(build_parser()) for line in parser.examples}
    assert len(lines) > 20
    for line in lines:
        words = shlex.split(line, comments=True)
        if words[0] != "driftbayes" or "|" in words or "--help" in words:
            continue
        args, unknown = build_parser().parse_known_args(words[1:])
        assert (args.command, unknown) == (words[1], [])


def test_examples_stand_at_the_end_of_the_help(ask):
    answer = ask("compare", "--help")
    assert "examples:\n  driftbayes compare tracks.csv --tau 0.5\n" in answer.out


def test_a_broken_pipe_does_not_spoil_the_overview(capsys):
    assert main([]) == 0
    assert capsys.readouterr().out.startswith("usage: driftbayes COMMAND")


def test_the_overview_fits_a_narrow_terminal(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    assert main([]) == 0
    overview = capsys.readouterr().out.partition("\nexamples:")[0]
    assert max(map(len, overview.splitlines())) <= 60


def test_every_option_is_explained(parsers_of):
    for parser in parsers_of(build_parser()):
        options = [action for action in parser._actions if action.option_strings]
        assert [option.dest for option in options if not option.help] == [], parser.prog


# Suggestions


@pytest.mark.parametrize(
    ("arguments", "ending"),
    [
        (("compar", "a.csv"), "did you mean 'compare'?"),
        (("reproduce", "langevn", "-o", "x"), "did you mean 'langevin'?"),
        (("simulate", "brownan"), "did you mean 'brownian'?"),
        (("compare", "a.csv", "--tau", "1", "--method", "quadratur"), "did you mean 'quadrature'?"),
        (("export", "a.nc", "--for", "parcel"), "did you mean 'parcels'?"),
        (("turbulence", "run", "-o", "x", "--preset", "tinny"), "did you mean 'tiny'?"),
        (
            ("compare", "a.csv", "--tau", "1", "--modles", "x"),
            "unknown option '--modles'; did you mean '--models'?",
        ),
        (("compare", "a.csv", "--taus", "1"), "unknown option '--taus'; did you mean '--tau'?"),
    ],
)
def test_a_mistyped_word_of_the_command_line(arguments, ending, ask):
    answer = ask(*arguments)
    assert answer.code == 2
    assert answer.err.splitlines()[-1].endswith(ending)


@pytest.mark.parametrize(
    ("options", "ending"),
    [
        (("--models", "brownian,langevn"), "did you mean 'langevin'?"),
        (("--models", "langevin+nois"), "did you mean 'noise'?"),
        (("--prior", "gama=exponential:1"), "did you mean 'gamma'?"),
        (("--prior", "k=lognormla:1:2"), "did you mean 'lognormal'?"),
        (("--format", "trackpi"), "did you mean 'trackpy'?"),
        (("--columns", "tme=time"), "did you mean {'time': 'tme'}?"),
        (("--columns", "tiem=x"), "did you mean {'x': 'tiem'}?"),
        (("--qc", "spike"), "did you mean 'spikes'?"),
        (("--length-unit", "m", "--units", "kilometr,"), "did you mean 'kilometre'?"),
    ],
)
def test_a_mistyped_name(options, ending, ask, tracks_csv):
    answer = ask("compare", tracks_csv, "--tau", "0.1", *options)
    assert answer.code == 2
    assert answer.err.count("\n") == 1
    assert answer.err.strip().endswith(ending)


def test_a_mistyped_column(ask, tmp_path):
    (tmp_path / "a.csv").write_text("id,time,Easting,Northing\na,0,1,1\na,1,2,2\n")
    answer = ask("info", tmp_path / "a.csv", "--columns", "x=easting,y=northing")
    assert answer.err.strip().endswith("(--columns x=Easting)")


def test_a_missing_file_and_one_of_nearly_its_name(ask, tmp_path):
    (tmp_path / "tracks.csv").write_text("id,time,x\n")
    answer = ask("info", tmp_path / "track.csv")
    assert answer.err == (
        f"driftbayes: there is no file {str(tmp_path / 'track.csv')!r}; "
        f"did you mean {str(tmp_path / 'tracks.csv')!r}?\n"
    )
