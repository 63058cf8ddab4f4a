"""Equation ids: every one that is cited exists, and is cited where its code is said to be."""

import re
from pathlib import Path

import pytest

import driftbayes

PACKAGE = Path(driftbayes.__file__).parent
EQUATIONS = Path(__file__).parents[1] / "docs" / "equations.md"
CITATION = re.compile(r"\[eq:[\w-]+\]")


def rows():
    """Id and code column of each row of the tables."""
    for line in EQUATIONS.read_text().splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]
        if cells and CITATION.fullmatch(cells[0].strip("`")):
            yield cells[0].strip("`"), re.findall(r"`(driftbayes[\w.]*)`", cells[-1])


TABLE = dict(rows())


def source_of(name):
    """Text of the module or package in which an object lives; the object must exist there."""
    parts = name.split(".")[1:]
    for n in range(len(parts), 0, -1):
        place = PACKAGE.joinpath(*parts[:n])
        files = sorted(place.rglob("*.py")) if place.is_dir() else [place.with_suffix(".py")]
        if files and all(file.exists() for file in files):
            text = "\n".join(file.read_text() for file in files)
            for rest in parts[n:]:
                assert re.search(rf"\b(class|def) {rest}\b", text), f"{name}: no {rest} there"
            return text
    return None


@pytest.mark.parametrize(
    "path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE))
)
def test_every_citation_has_an_equation(path):
    assert set(CITATION.findall(path.read_text())) - TABLE.keys() == set()


@pytest.mark.parametrize("equation", TABLE, ids=lambda text: text.strip("[]"))
def test_every_equation_is_cited_where_its_code_is_said_to_be(equation):
    assert TABLE[equation], f"{equation} names no code"
    for name in TABLE[equation]:
        source = source_of(name)
        assert source is not None, f"{name} does not exist"
        assert equation in source, f"{name} does not cite {equation}"


def test_ids_are_unique():
    ids = [equation for equation, _ in rows()]
    assert len(ids) == len(set(ids)) >= 20
