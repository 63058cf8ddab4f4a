"""Parse command lines: commands, their outputs, examples in help, suggestions in errors."""

import argparse
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from driftbayes.cli import _console
from driftbayes.errors import DriftbayesError, did_you_mean, nearest

if TYPE_CHECKING:
    from driftbayes._storage import Outputs

_CHOICE = re.compile(r"argument (.+): invalid choice: '([^']*)'")
_OPTION = re.compile(r"((?:-\w )?--[\w-]+)(?: ([^\s<]+))?(?:<(\w+)?(?:=([^>!]+))?(!)?>)? {2,}(.+)")
_NUMBER = re.compile(r"argument (.+): invalid (int|float) value: (.+)")
_MISSING = "the following arguments are required:"
# Directories for temporary files, which are neither inputs nor outputs.
_TEMPORARY = {"scratch"}


@dataclass(frozen=True)
class Command:
    """A command of the program.

    Args:
        add_arguments: Adds its arguments to a parser.
        run: Runs it and returns the exit code; None if it has subcommands.
        examples: Example command lines.
        details: Text that follows the summary in its help.
    """

    add_arguments: Callable[["Parser"], None]
    run: Callable[[argparse.Namespace], int] | None = None
    examples: tuple[str, ...] = ()
    details: str = ""


@dataclass(frozen=True)
class Output:
    """Kind of an output.

    Args:
        kind: A file; trajectories, in a file or a Zarr store; a directory that the command fills;
            or the directory of a run that it resumes.
        suffixes: Allowed file suffixes in lower case; any if empty.
        what: Start of the message for a wrong suffix: "a report is an HTML file".
        companions: Files written in addition.
        is_ours: Whether an existing companion was written by driftbayes.
        default: Path if the option is not given.
        check: Raises `DriftbayesError` if the command must not write to a directory.
    """

    kind: Literal["file", "trajectories", "folder", "continued"] = "file"
    suffixes: tuple[str, ...] = ()
    what: str = ""
    companions: Callable[[Path], Iterable[Path]] | None = None
    is_ours: Callable[[Path], bool] | None = None
    default: Callable[[argparse.Namespace], Path | None] | None = None
    check: Callable[[Path, argparse.Namespace], None] | None = None


netcdf = Output(suffixes=(".nc",), what="results are NetCDF files")
figure = Output(suffixes=(".png", ".pdf", ".svg"), what="a figure is a PNG, PDF or SVG file")
regions = Output(suffixes=(".geojson", ".json", ".nc"), what="regions are GeoJSON or NetCDF files")


class Parser(argparse.ArgumentParser):
    """Argument parser with --verbose and --quiet before or after every command.

    Args:
        *args: As for argparse.
        examples: Example command lines.
        **options: As for argparse; abbreviated options are off.
    """

    def __init__(self, *args: Any, examples: Sequence[str] = (), **options: Any) -> None:
        super().__init__(*args, **{"allow_abbrev": False, **options})
        # Values that begin with a minus, as in `--walls -10,10`; no option begins with a digit.
        self._negative_number_matcher = re.compile(r"-\.?\d")
        self.examples = tuple(examples)
        self._given: list[str] = []
        # Outputs of the command, by the name of the option.
        self.written: dict[str, Output] = {}
        # The innermost command takes precedence, so that its options are suggested.
        self.set_defaults(parser=self)
        # No defaults, because that of a subcommand would override a value given before it.
        words = {
            "verbose": (1, "report each step with timings, and show tracebacks of errors"),
            "quiet": (-1, "hide notes and progress; results, warnings and errors are always shown"),
        }
        for name, (level, text) in words.items():
            self.add_argument(
                f"-{name[0]}",
                f"--{name}",
                dest="verbosity",
                action="store_const",
                const=level,
                default=argparse.SUPPRESS,
                help=text,
            )

    def add_options(
        self, text: str, group: str = "", about: str | None = None
    ) -> list[argparse.Action]:
        """Add options from a table, one line each: flags and value, two spaces, help.

        A value is a metavar or {choices}, then `<type=default>`, with `!` if it is required.
        Without a value the option is a switch. Indented lines continue the help. The default is
        added to the help unless it is there.
        """
        where = self.add_argument_group(group, about) if group else self
        added = []
        for line in re.sub(r"\n\s+", " ", text.strip()).splitlines():
            flags, value, kind, default, needed, words = _OPTION.fullmatch(line).groups()  # type: ignore[union-attr]
            options: dict[str, Any] = {"help": words}
            if value is None:
                options["action"] = "store_true"
            elif value.startswith("{"):
                options["choices"] = tuple(value.strip("{}").split(","))
            else:
                options["metavar"] = value
            if kind == "list":
                options |= {"action": "append", "default": []}
            elif kind:
                options["type"] = {"int": int, "float": float, "path": Path, "str": str}[kind]
            if default is not None:
                options["default"] = options.get("type", str)(default)
                if "(default: " not in words:
                    options["help"] = f"{words} (default: %(default)s)"
            if needed:
                options["required"] = True
            added.append(where.add_argument(*flags.split(), **options))
        return added

    def add_output(self, text: str, output: Output, *, overwrite: bool = True) -> None:
        """Add an option that names an output, from a line as in `add_options`."""
        (action,) = self.add_options(text)
        action.type = Path
        self.written[action.dest] = output
        if overwrite and "--overwrite" not in self._option_string_actions:
            text = "replace existing output files (never an input file)"
            self.add_argument("--overwrite", action="store_true", help=text)

    def add_old_names(self, name: str, *old: str) -> None:
        """Accept earlier names of an option without showing them in the help."""
        self._option_string_actions |= dict.fromkeys(old, self._option_string_actions[name])

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse arguments, and keep the words for error messages."""
        self._given = [] if args is None else list(args)
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        """Exit with the required arguments, the message and a suggestion."""
        if number := _NUMBER.fullmatch(message):
            what = "a whole number" if number[2] == "int" else "a number"
            message = f"{number[1]} must be {what}, got {number[3]}"
        elif choice := _CHOICE.match(message):
            message = self._wrong_choice(choice[1], choice[2])
        elif message.startswith(_MISSING):
            message = self._mistyped() or message
        _console.complain(f"{self._short_usage()}{self.prog}: error: {message}")
        self.exit(2)

    def error_unknown(self, words: Sequence[str]) -> NoReturn:
        """Exit with a message about unknown options or arguments."""
        options = [word for word in words if word.startswith("-")]
        if not options:
            self.error(f"unexpected argument {words[0]!r}")
        self.error(self._unknown_option(options[0].partition("=")[0]))

    def format_help(self) -> str:
        """Format the help, followed by examples."""
        text = super().format_help()
        if not self.examples:
            return text
        return f"{text}\nexamples:\n" + "".join(f"{folded(line)}\n" for line in self.examples)

    def _short_usage(self) -> str:
        """Format the usage without options that may be omitted."""
        if self.usage is not None:
            return self.format_usage()
        needed = [a for a in self._actions if a.required or not a.option_strings]
        formatter = self._get_formatter()
        formatter.add_usage(None, needed, [])
        usage = " ".join(formatter.format_help().split())
        return usage.replace(self.prog, f"{self.prog} [options]", 1) + "\n"

    def _wrong_choice(self, name: str, value: str) -> str:
        """Explain that an argument must be one of its choices."""
        known = [str(x) for a in self._actions if _name(a) == name for x in a.choices or ()]
        suggestion = did_you_mean(value, known)
        if name == "COMMAND":
            suggestion = suggestion or "; `driftbayes` alone lists the commands"
            return f"unknown command {value!r}{suggestion}"
        return f"{name} must be {_alternatives(known)}, got {value!r}{suggestion}"

    def _mistyped(self) -> str:
        """Return a message about a mistyped option, because of which a required one is missing."""
        options = self._option_string_actions
        for word in self._given:
            option = word.partition("=")[0]
            if option.startswith("--") and option not in options and nearest(option, options):
                return self._unknown_option(option)
        return ""

    def _unknown_option(self, option: str) -> str:
        return f"unknown option {option!r}" + did_you_mean(option, self._option_string_actions)


def _name(action: argparse.Action) -> str:
    """Return the name of an argument in argparse's messages."""
    if action.option_strings:
        return "/".join(action.option_strings)
    return str(action.metavar or action.dest)


def folded(line: str) -> str:
    """Fold a long command line before an option, so that it can still be copied to a shell."""
    if len(line) <= 78:
        return f"  {line}"
    whole = re.sub(" (?!-)", "\0", line)
    lines = wrap(whole, 76, subsequent_indent="    ", break_on_hyphens=False)
    return " \\\n".join(f"  {part}" for part in lines).replace("\0", " ")


class Commands(dict[str, Parser]):
    """Parsers of the commands, each built from its module on first use.

    Args:
        table: Module and summary of each command.
    """

    def __init__(self, table: Mapping[str, tuple[str, str]]) -> None:
        super().__init__(dict.fromkeys(table))  # type: ignore[arg-type]
        self._table = table
        self._built: dict[str, Parser] = {}

    def __getitem__(self, name: str) -> Parser:
        if name not in self._built:
            module, summary = self._table[name]
            command: Command = import_module(f"driftbayes.cli.{module}").COMMANDS[name]
            parser = Parser(
                prog=f"driftbayes {name}",
                description=f"{summary} {command.details}".strip(),
                examples=command.examples,
            )
            parser.set_defaults(run=command.run)
            command.add_arguments(parser)
            self._built[name] = parser
        return self._built[name]

    def values(self) -> Iterator[Parser]:  # type: ignore[override]
        """Return all parsers."""
        return (self[name] for name in self)

    def items(self) -> Iterator[tuple[str, Parser]]:  # type: ignore[override]
        """Return all names and parsers."""
        return ((name, self[name]) for name in self)


def announce(args: argparse.Namespace) -> "Outputs":
    """Check the outputs of a command against its inputs.

    Raises:
        DriftbayesError: If an output may not or cannot be written.
    """
    from driftbayes._storage import Outputs

    reads = getattr(args, "reads", _reads)
    outputs = Outputs(reads=reads(args), overwrite=getattr(args, "overwrite", False))
    for dest, output in args.parser.written.items():
        path = getattr(args, dest)
        if path is None and output.default is not None:
            path = output.default(args)
        if path is not None:
            _add(outputs, path, output, args)
    return outputs


def _alternatives(words: Sequence[str]) -> str:
    """List words as "a, b or c"."""
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def _add(outputs: "Outputs", path: Path, output: Output, args: argparse.Namespace) -> None:
    if output.suffixes and not path.name.lower().endswith(output.suffixes):
        ends = _alternatives(output.suffixes)
        raise DriftbayesError(f"{output.what}: expected a name ending in {ends}, got {path.name!r}")
    if output.kind == "folder":
        check = output.check
        outputs.add_folder(path, check=None if check is None else lambda path: check(path, args))
    elif output.kind == "continued":
        outputs.add_folder(path, continues=True)
    elif output.kind == "trajectories":
        _add_trajectories(outputs, path)
    else:
        outputs.add_file(path)
    if output.companions is not None:
        for companion in output.companions(path):
            outputs.add_file(companion, is_ours=output.is_ours)


def _add_trajectories(outputs: "Outputs", path: Path) -> None:
    from driftbayes.io import _zarr_store as zarr_store
    from driftbayes.io import written_suffix
    from driftbayes.io._reading import require

    if written_suffix(path) == ".zarr":
        require("Zarr stores", "zarr", "xarray")
        outputs.add_store(path, is_ours=zarr_store.is_own_store)
    else:
        outputs.add_file(path)


def _reads(args: argparse.Namespace) -> list[Path]:
    """Return all paths among the arguments that are not outputs."""
    return [
        path
        for action in args.parser._actions
        if action.dest not in args.parser.written and action.dest not in _TEMPORARY
        for value in [getattr(args, action.dest, None)]
        for path in (value if isinstance(value, list | tuple) else [value])
        if isinstance(path, Path)
    ]
