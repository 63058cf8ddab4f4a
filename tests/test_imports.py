"""The packages form layers: nothing imports from a layer above its own."""

import ast
import textwrap
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import driftbayes

ROOT = Path(driftbayes.__file__).parent
LAYERS = [
    {"_aliases", "errors", "_typing", "_jax_typing", "_precision", "_representation"},
    {"_magnitudes", "_version"},
    {"_processes"},
    {"_storage"},
    {"data", "quality"},
    {"_sums", "_kernels"},
    {"likelihood"},
    {"models"},
    {"priors"},
    {"inference", "sde"},
    {"comparison"},
    {"prediction"},
    {"checks"},
    {
        *("changes", "fields", "io", "plots", "relative", "reproduce", "simulators", "space"),
        *("learned", "verification"),
    },
    {"report", "streaming"},
    {"workflow"},
    {"explore"},
    {"cli"},
]
LAYER = {name: layer for layer, names in enumerate(LAYERS) for name in names}
# They import only up to the layer of the trajectories, and are imported only from the comparison
# on.
SIDE_PACKAGES = {"diagnostics", "turbulence"}
# `__init__` names all; `__main__` runs the command line.
ENTRY_POINTS = {"__init__", "__main__"}
FILES = sorted(ROOT.rglob("*.py"))


@cache
def nodes_of(path):
    """Imports and functions of a file, anywhere in it; every test looks at them."""
    kinds = (ast.Import, ast.ImportFrom, ast.FunctionDef)
    return [node for node in statements(ast.parse(path.read_text())) if isinstance(node, kinds)]


def statements(block):
    """The statements of a block and of all blocks in it: expressions hold none."""
    for name in ("body", "handlers", "orelse", "finalbody", "cases"):
        for node in getattr(block, name, ()):
            yield node
            yield from statements(node)


def imported(path):
    """First names below `driftbayes` that a file imports, anywhere in it."""
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for parts in (name.split(".") for name in names):
            if parts[0] == "driftbayes":
                yield "_version" if parts[1:2] == ["__version__"] else parts[1]


def may_see(package, other):
    if other == package:
        return True
    if package in SIDE_PACKAGES:
        return LAYER.get(other, 99) <= LAYER["data"]
    if other in SIDE_PACKAGES:
        return LAYER[package] >= LAYER["comparison"]
    return other in LAYER and LAYER[other] <= LAYER[package]


# Of `testing`, those that build on the package; what it is checked against must not.
BUILT_ON_THE_PACKAGE = {"strategies"}


def forbidden_imports(path):
    """Packages that a file imports and must not."""
    package = path.relative_to(ROOT).parts[0].removesuffix(".py")
    seen = set(imported(path))
    if package in ENTRY_POINTS or (package == "testing" and path.stem in BUILT_ON_THE_PACKAGE):
        return set()
    if package == "testing":
        return seen - {"testing"}
    return {other for other in seen if not may_see(package, other)}


def test_no_file_imports_from_a_layer_above():
    found = {str(path.relative_to(ROOT)): forbidden_imports(path) for path in FILES}
    assert {name: names for name, names in found.items() if names} == {}


def test_every_package_has_a_layer():
    packages = {path.relative_to(ROOT).parts[0].removesuffix(".py") for path in FILES}
    assert packages - SIDE_PACKAGES - ENTRY_POINTS - {"testing"} <= LAYER.keys()


def module_of(path):
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in FILES}


def modules_imported(path):
    """Modules of the package that a file imports: in functions and for types too."""
    for node in nodes_of(path):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("driftbayes"):
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield whole if whole in MODULES else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in MODULES)


def test_no_module_imports_itself_through_others():
    graph = {name: set(modules_imported(path)) - {name} for name, path in MODULES.items()}
    # `__init__` names all.
    graph.pop("driftbayes")
    tuple(TopologicalSorter(graph).static_order())


def test_imports_and_functions_are_found_in_every_block():
    source = """
        def a(): import b
        with c:
            try: import d
            except e: import f
            else: import g
            finally: import h
        while i:
            match j:
                case k: import l
        else:
            class m:
                def n(self): pass
    """
    tree = ast.parse(textwrap.dedent(source))
    kinds = (ast.stmt, ast.excepthandler, ast.match_case)
    assert set(statements(tree)) == {node for node in ast.walk(tree) if isinstance(node, kinds)}


def long_functions(path):
    """Functions of a file with more than eight parameters."""
    for node in nodes_of(path):
        if isinstance(node, ast.FunctionDef):
            names = [arg.arg for arg in (*node.args.args, *node.args.kwonlyargs)]
            if len([name for name in names if name not in ("self", "cls")]) > 8:
                yield f"{path.relative_to(ROOT)}: {node.name}"


def test_no_function_has_more_than_eight_parameters():
    files = [path for path in FILES if path.relative_to(ROOT).parts[0] != "cli"]
    assert [name for path in files for name in long_functions(path)] == []
