"""The public names of the package, and where the reference describes them."""

__all__ = [
    "Assignment",
    "Entry",
    "Names",
    "assignment_of",
    "constants",
    "is_type_variable",
    "public_modules",
]

import ast
import importlib
import pkgutil
from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from types import FunctionType, ModuleType
from typing import Any, NamedTuple, TypeVar

import driftbayes

# Rooms that are run, by a command, and not imported.
_PROGRAMS = {"cli", "explore"}


class Entry(NamedTuple):
    """Where something is described: its name there, the page and the anchor."""

    name: str
    page: str
    anchor: str


def public_modules() -> list[str]:
    """Modules whose `__all__` is for users.

    A room that lists names in its own `__init__` is public through these alone; in a room whose
    `__init__` is empty, every module is.
    """
    found = ["driftbayes"]
    for module in pkgutil.walk_packages(driftbayes.__path__, "driftbayes."):
        *parents, last = module.name.split(".")
        if last.startswith("_") or _PROGRAMS & {*parents, last}:
            continue
        parent = ".".join(parents)
        is_listed = parent in found and (parent == "driftbayes" or not _listed(parent))
        if is_listed or module.name == "driftbayes.models.options":
            found.append(module.name)
    return found


def constants(module: str) -> list[str]:
    """Names that a module lists and that are neither classes nor functions."""
    home = importlib.import_module(module)
    values = {name: getattr(home, name) for name in _listed(module)}
    return [name for name, value in values.items() if not isinstance(value, type | FunctionType)]


def _listed(module: str) -> list[str]:
    return list(getattr(importlib.import_module(module), "__all__", []))


class Names:
    """All that the reference describes, found by any name under which the code knows it.

    Args:
        entries: What is described.
    """

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._by_name = {entry.name: entry for entry in entries}
        self._by_home: dict[Any, Entry] = {}
        self._by_end: dict[str, list[Entry]] = defaultdict(list)
        for entry in self._by_name.values():
            if home := _home(entry.name):
                self._by_home.setdefault(home, entry)
            parts = entry.name.split(".")
            # A member of a class needs the name of the class: `u_rms` is many things.
            for n in (2,) if _is_member(entry.name) else (1, 2):
                self._by_end[".".join(parts[-n:])].append(entry)

    def find(
        self, target: str, *, module: str = "", owner: str = "", anywhere: bool = True
    ) -> Entry | None:
        """The entry of a name as it stands in a text, or None.

        Args:
            target: A full name, or the end of one.
            module: Where it is said: names of this module come first.
            owner: The class within that module whose members come before them.
            anywhere: Whether a name that ends so will do, if there is only one.
        """
        for name in (f"{module}.{owner}.{target}", f"{module}.{target}", target):
            if entry := self._by_name.get(name) or self._by_home.get(_home(name)):
                return entry
        ends = self._by_end.get(target, []) if anywhere else []
        return ends[0] if len(ends) == 1 else None


@cache
def _home(name: str) -> Any:
    """What two names of one object have in common: module and name where it was made."""
    if not name.startswith("driftbayes"):
        return None
    found = resolve(name)
    if found is None:
        return None
    owner, value = found
    end = name.rpartition(".")[2]
    if isinstance(value, ModuleType):
        return value.__name__
    if isinstance(owner, type):
        # A method that a class inherits is described where it is written.
        for base in owner.__mro__:
            if end in vars(base) or end in getattr(base, "__annotations__", {}):
                return (base.__module__, base.__qualname__, end)
    if isinstance(value, type | FunctionType):
        return (value.__module__, value.__qualname__)
    return (end, id(value))


@cache
def resolve(name: str) -> tuple[Any, Any] | None:
    """The object of a full name, with what holds it."""
    first, *rest = name.split(".")
    return _follow(importlib.import_module(first), tuple(rest))


def _is_member(name: str) -> bool:
    found = resolve(name)
    return found is not None and isinstance(found[0], type)


def is_type_variable(name: str) -> bool:
    """Whether a full name is that of a type variable, of which there is nothing to describe."""
    found = resolve(name) if name.startswith("driftbayes.") else None
    return found is not None and isinstance(found[1], TypeVar)


def _follow(holder: Any, path: tuple[str, ...]) -> tuple[Any, Any] | None:
    """The object at the end of a path of names, with the last but one."""
    if not path:
        return holder, holder
    first, *rest = path
    # A name may be both, as `scan` is a function and the module in which it is written.
    steps = []
    if hasattr(holder, first):
        steps.append(getattr(holder, first))
    elif first in getattr(holder, "__annotations__", {}):
        steps.append(None)  # a field without a default
    if isinstance(holder, ModuleType) and (module := _module(f"{holder.__name__}.{first}")):
        steps.append(module)
    for step in steps:
        if not rest:
            return holder, step
        if found := _follow(step, tuple(rest)):
            return found
    return None


@cache
def _module(name: str) -> ModuleType | None:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


class Assignment(NamedTuple):
    """How a name gets its value in the source: the comment above, and the expression."""

    comment: tuple[str, ...]
    value: str


@cache
def assignment_of(name: str) -> Assignment:
    """Where a constant or an alias is made; such comments are all the description that it has.

    Args:
        name: Full name, such as `driftbayes.models.MODELS`.
    """
    module, _, end = name.rpartition(".")
    for source in (module, *_below(module)):
        if found := _assignments(source).get(end):
            return found
    return Assignment((), "")


@cache
def _assignments(module: str) -> dict[str, Assignment]:
    """The first assignment of each name of a module."""
    place = importlib.import_module(module).__file__
    if place is None:
        return {}
    with open(place, encoding="utf-8") as stream:
        text = stream.read()
    found: dict[str, Assignment] = {}
    for node in ast.parse(text).body:
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        made = Assignment(_above(text.splitlines(), node.lineno - 1), ast.unparse(node.value))
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            if isinstance(target, ast.Name):
                found.setdefault(target.id, made)
    return found


def _below(module: str) -> list[str]:
    paths = getattr(importlib.import_module(module), "__path__", [])
    return [found.name for found in pkgutil.iter_modules(paths, f"{module}.")]


def _above(lines: list[str], at: int) -> tuple[str, ...]:
    first = at
    while first and lines[first - 1].startswith("# "):
        first -= 1
    return tuple(line.removeprefix("# ") for line in lines[first:at])
