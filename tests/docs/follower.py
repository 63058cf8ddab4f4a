"""Somebody who types what a page says, in the order in which it says it."""

import contextlib
import io
import os
import subprocess
import sys
import traceback
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import jax
import pytest
from pages import ROOT, Block, Command, Page, commands

from driftbayes.cli.main import build_parser, main
from driftbayes.errors import DriftbayesWarning

_SWITCHES = ("jax_enable_x64", "jax_numpy_dtype_promotion", "jax_numpy_rank_promotion")
# As JAX is when a reader imports it; the tests have it stricter.
_FRESH = (False, "standard", "allow")
_LONGEST = 600


@dataclass
class Follower:
    """One reader of one page: a folder, a Python and a shell.

    Args:
        page: What is read.
        folder: Where it is followed, an empty folder.
        cache: For compiled programs of commands in processes of their own.
    """

    page: Page
    folder: Path
    cache: Path
    names: dict[str, Any] = field(default_factory=lambda: {"__name__": "page"})
    switches: tuple[Any, ...] = _FRESH

    def __post_init__(self) -> None:
        # The samples that pages speak of lie there in the repository.
        samples = self.folder / "tests"
        if not samples.exists():
            samples.symlink_to(ROOT / "tests")

    def follow(self, block: Block) -> str:
        """Do what a block says; what is printed, notes included."""
        if block.mark == "parse":
            self.parse(block)
            return ""
        with contextlib.chdir(self.folder), self._terminal() as printed:
            if block.language == "python":
                self._python(block)
            else:
                self._sh(block, printed)
        return printed.getvalue()

    def fail(self, line: int, what: str, printed: str = "") -> None:
        """Say where it went wrong, and what was seen there."""
        pytest.fail(f"{self.page.name}:{line}: {what}\n{printed}", pytrace=False)

    def _python(self, block: Block) -> None:
        # Lines before it are left empty, so that a traceback names the line of the page.
        source = "\n" * (block.line - 1) + block.text
        # A script or a notebook imports modules of its folder.
        with self._jax(), mock.patch.object(sys, "path", [str(self.folder), *sys.path]):
            try:
                exec(compile(source, self.page.name, "exec"), self.names)
            except Exception:
                self.fail(block.line, "the block failed", traceback.format_exc())

    def _sh(self, block: Block, printed: io.StringIO) -> None:
        lines = commands(block)
        if not all(line.program in ("driftbayes", "make") for line in lines):
            self._shell(block, printed)
            return
        for line in lines:
            if line.program == "make":
                self._make(line)
                continue
            # A command has a process of its own: what it switches on does not last.
            with self._jax(keep=False):
                code = _run(line)
            if code != line.code:
                said = printed.getvalue()
                self.fail(line.line, f"exit code {code}, expected {line.code}", said)

    def _shell(self, block: Block, printed: io.StringIO) -> None:
        bin_folder = self.cache / "bin"
        bin_folder.mkdir(exist_ok=True)
        script = bin_folder / "driftbayes"
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m driftbayes "$@"\n')
        script.chmod(0o755)
        path = [str(bin_folder), str(Path(sys.executable).parent), os.environ["PATH"]]
        environment = {
            **os.environ,
            "PATH": os.pathsep.join(path),
            # What a page writes to its reader's home is not to be written to ours.
            "HOME": str(self.folder),
            "PYTHONPATH": str(ROOT / "src"),
            "DRIFTBAYES_CACHE": str(self.cache / "programs"),
        }
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block.text.replace(".venv/bin/", "")],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            env=environment,
            timeout=_LONGEST,
            check=False,
        )
        printed.write(done.stdout)
        if done.returncode != 0:
            self.fail(block.line, f"exit code {done.returncode}, expected 0", done.stdout)

    def _make(self, line: Command) -> None:
        """What make would do is asked for, and its commands are tried on the parser.

        It would set up an environment, or run the tests that this is one of.
        """
        asked = ["make", "--dry-run", "--directory", str(ROOT), *line.words[1:]]
        done = subprocess.run(asked, capture_output=True, encoding="utf-8", check=False)
        if done.returncode != 0:
            self.fail(line.line, "make does not know this", done.stderr)
        self.parse(Block("sh", "parse", done.stdout, line.line, line.line))

    def parse(self, block: Block) -> None:
        """Give the commands of a block to the parser, and the block to a shell that only reads."""
        done = subprocess.run(
            ["bash", "-n"], input=block.text, capture_output=True, encoding="utf-8", check=False
        )
        if done.returncode != 0:
            self.fail(block.line, "not a shell's syntax", done.stderr)
        for line in commands(block):
            if line.program == "driftbayes" and line.code == 0:
                refused = refusal(line.words)
                if refused:
                    self.fail(line.line, "the command line is refused", refused)

    @contextlib.contextmanager
    def _terminal(self):
        seen = io.StringIO()
        with (
            contextlib.redirect_stdout(seen),
            contextlib.redirect_stderr(seen),
            warnings.catch_warnings(),
        ):
            # What the package warns of is printed; any other warning is a fault, as elsewhere.
            warnings.simplefilter("always", DriftbayesWarning)
            yield seen

    @contextlib.contextmanager
    def _jax(self, *, keep: bool = True):
        before = _switches()
        _switch(self.switches)
        try:
            yield
        finally:
            if keep:
                self.switches = _switches()
            _switch(before)


def refusal(words: tuple[str, ...]) -> str:
    """What the parser has to say against a command, if anything."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            build_parser().parse_args(words[1:])
    except SystemExit as leaving:
        # Asking for help is no mistake.
        return said.getvalue() if leaving.code else ""
    return ""


def _run(line: Command) -> int:
    try:
        return main(line.words[1:])
    except SystemExit as leaving:
        return int(leaving.code or 0)


def _switches() -> tuple[Any, ...]:
    return tuple(getattr(jax.config, name) for name in _SWITCHES)


def _switch(values: tuple[Any, ...]) -> None:
    for name, value in zip(_SWITCHES, values, strict=True):
        jax.config.update(name, value)
