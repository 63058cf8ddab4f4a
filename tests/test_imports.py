"""The package is a house of floors: nothing imports from a floor above its own."""

import ast
import textwrap
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import driftbayes

ROOT = Path(driftbayes.__file__).parent
FLOORS = [
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
FLOOR = {name: floor for floor, names in enumerate(FLOORS) for name in names}
# Side rooms: they stand on the floor of the trajectories, and open only to the comparison and
# to those above it.
SIDE_ROOMS = {"diagnostics", "turbulence"}
# The front door (__init__) names all; `__main__` is the way in from the command line.
DOORS = {"__init__", "__main__"}
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


def may_see(room, other):
    if other == room:
        return True
    if room in SIDE_ROOMS:
        return FLOOR.get(other, 99) <= FLOOR["data"]
    if other in SIDE_ROOMS:
        return FLOOR[room] >= FLOOR["comparison"]
    return other in FLOOR and FLOOR[other] <= FLOOR[room]


# Of `testing`, those that build on the package; what it is checked against must not.
BUILT_ON_THE_PACKAGE = {"strategies"}


def forbidden_imports(path):
    """Packages that a file imports and must not."""
    room = path.relative_to(ROOT).parts[0].removesuffix(".py")
    seen = set(imported(path))
    if room in DOORS or (room == "testing" and path.stem in BUILT_ON_THE_PACKAGE):
        return set()
    if room == "testing":
        return seen - {"testing"}
    return {other for other in seen if not may_see(room, other)}


def test_no_file_imports_from_a_floor_above():
    found = {str(path.relative_to(ROOT)): forbidden_imports(path) for path in FILES}
    assert {name: names for name, names in found.items() if names} == {}


def test_every_room_has_a_floor():
    rooms = {path.relative_to(ROOT).parts[0].removesuffix(".py") for path in FILES}
    assert rooms - SIDE_ROOMS - DOORS - {"testing"} <= FLOOR.keys()


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
    # The front door names all.
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
