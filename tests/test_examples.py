"""Examples in docstrings: every public name has one, and each prints what it shows."""

import doctest
import inspect
import warnings
from importlib import import_module
from pathlib import Path

import pytest

import driftbayes as db
from driftbayes import workflow

SOURCE = Path(db.__file__).parent
MODULES = [
    ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted(SOURCE.rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]
OPTIONS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
# They need a file, and take a minute to make one.
SKIPPED = {
    "driftbayes.workflow._fields.field",
    "driftbayes.workflow._presence.presence",
}
# Neither a function nor a class.
PLAIN = ("__version__",)


@pytest.mark.parametrize("module", MODULES)
def test_examples_print_what_they_show(module, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    finder = doctest.DocTestFinder(exclude_empty=True)
    runner = doctest.DocTestRunner(optionflags=OPTIONS)
    tests = [test for test in finder.find(import_module(module)) if test.examples]
    assert tests
    skipped = {t.name for t in tests for e in t.examples if doctest.SKIP in e.options}
    assert skipped <= SKIPPED
    report = []
    for test in tests:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", db.DriftbayesWarning)
            runner.run(test, out=report.append)
    assert runner.failures == 0, "".join(report)


@pytest.mark.parametrize("name", [name for name in db.__all__ if name not in PLAIN])
def test_every_public_name_has_an_example(name):
    assert ">>> " in inspect.getdoc(getattr(db, name))


@pytest.mark.parametrize("name", workflow.__all__)
def test_every_function_of_a_command_has_an_example(name):
    assert ">>> " in inspect.getdoc(getattr(workflow, name))
