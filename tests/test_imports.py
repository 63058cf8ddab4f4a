"""The package is a house of floors: nothing imports from a floor above its own."""

import ast
from pathlib import Path

import pytest

import driftbayes

ROOT = Path(driftbayes.__file__).parent
FLOORS = [
    {"aliases", "errors", "typing", "jax_typing", "precision", "suggest", "representation"},
    {"magnitudes", "_version"},
    {"processes"},
    {"storage"},
    {"data", "quality"},
    {"sums", "kernels"},
    {"likelihood"},
    {"models"},
    {"priors"},
    {"inference"},
    {"comparison"},
    {"prediction"},
    {"checks"},
    {"io", "plots", "reproduce", "simulators"},
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


def imported(path):
    """First names below `driftbayes` that a file imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text())):
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


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_file_imports_from_a_floor_above(path):
    room = path.relative_to(ROOT).parts[0].removesuffix(".py")
    if room in DOORS:
        return
    seen = set(imported(path))
    if room == "testing":
        # What the package is checked against must not be the package.
        assert seen <= {"testing"} or path.stem in ("strategies", "targets", "models")
        return
    assert {other for other in seen if not may_see(room, other)} == set()


def test_every_room_has_a_floor():
    rooms = {path.relative_to(ROOT).parts[0].removesuffix(".py") for path in FILES}
    assert rooms - SIDE_ROOMS - DOORS - {"testing"} <= FLOOR.keys()
