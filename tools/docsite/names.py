"""Public names of the package, and their places in the reference."""

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

# Packages that are run by a command, not imported.
_PROGRAMS = {"cli", "explore"}


class Entry(NamedTuple):
    """Place of a description: name, page and anchor."""

    name: str
    page: str
    anchor: str


def public_modules() -> list[str]:
    """Return the modules whose `__all__` is public: those whose names have no underscore."""
    found = ["driftbayes"]
    for module in pkgutil.walk_packages(driftbayes.__path__, "driftbayes."):
        path = module.name.split(".")
        if not _PROGRAMS & set(path) and not any(part.startswith("_") for part in path):
            found.append(module.name)
    return found


def constants(module: str) -> list[str]:
    """Return names listed by a module that are neither classes nor functions."""
    home = importlib.import_module(module)
    values = {name: getattr(home, name) for name in _listed(module)}
    return [name for name, value in values.items() if not isinstance(value, type | FunctionType)]


def _listed(module: str) -> list[str]:
    return list(getattr(importlib.import_module(module), "__all__", []))


class Names:
    """Index of all descriptions by every name of the object in the code.

    Args:
        entries: The descriptions.
    """

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._by_name = {entry.name: entry for entry in entries}
        self._by_home: dict[Any, Entry] = {}
        self._by_end: dict[str, list[Entry]] = defaultdict(list)
        for entry in self._by_name.values():
            if home := _home(entry.name):
                self._by_home.setdefault(home, entry)
            parts = entry.name.split(".")
            # A member needs the name of its class, because names like `u_rms` are ambiguous.
            for n in (2,) if _is_member(entry.name) else (1, 2):
                self._by_end[".".join(parts[-n:])].append(entry)

    def find(
        self, target: str, *, module: str = "", owner: str = "", anywhere: bool = True
    ) -> Entry | None:
        """Find the entry of a name in a text, or None.

        Args:
            target: A full name, or the end of one.
            module: Module of the text, whose names take precedence.
            owner: Class within that module whose members take precedence over these.
            anywhere: Whether to accept the only name that ends with the target.
        """
        for name in (f"{module}.{owner}.{target}", f"{module}.{target}", target):
            if entry := self._by_name.get(name) or self._by_home.get(_home(name)):
                return entry
        ends = self._by_end.get(target, []) if anywhere else []
        return ends[0] if len(ends) == 1 else None


@cache
def _home(name: str) -> Any:
    """Return a key that all names of an object share: module and name of its definition."""
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
        # An inherited method is described at its definition.
        for base in owner.__mro__:
            if end in vars(base) or end in getattr(base, "__annotations__", {}):
                return (base.__module__, base.__qualname__, end)
    if isinstance(value, type | FunctionType):
        return (value.__module__, value.__qualname__)
    return (end, id(value))


@cache
def resolve(name: str) -> tuple[Any, Any] | None:
    """Return the object of a full name, after its owner."""
    first, *rest = name.split(".")
    return _follow(importlib.import_module(first), tuple(rest))


def _is_member(name: str) -> bool:
    found = resolve(name)
    return found is not None and isinstance(found[0], type)


def is_type_variable(name: str) -> bool:
    """Whether a full name is a type variable, which has no description."""
    found = resolve(name) if name.startswith("driftbayes.") else None
    return found is not None and isinstance(found[1], TypeVar)


def _follow(holder: Any, path: tuple[str, ...]) -> tuple[Any, Any] | None:
    """Follow a path of names; return the last object, after its owner."""
    if not path:
        return holder, holder
    first, *rest = path
    # A name may be an attribute and a module, like `scan`.
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
    """Assignment of a name in the source: the comment above, and the expression."""

    comment: tuple[str, ...]
    value: str


@cache
def assignment_of(name: str) -> Assignment:
    """Find the assignment of a constant or alias, whose comment is its description.

    Args:
        name: Full name, for example `driftbayes.models.MODELS`.
    """
    module, _, end = name.rpartition(".")
    for source in (module, *_below(module)):
        if found := _assignments(source).get(end):
            return found
    return Assignment((), "")


@cache
def _assignments(module: str) -> dict[str, Assignment]:
    """Return the first assignment of each name of a module."""
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
