"""The page on what works with what is what happens."""

import json
from pathlib import Path

import pytest

from support_matrix import FAMILIES, USES, jobs, page, tried, uses_of

DOCS = Path(__file__).parents[1] / "docs"
RESULTS = json.loads((DOCS / "figures" / "support.json").read_text(encoding="utf-8"))
FOUND = {(row["model"], row["kind"]): row["uses"] for row in RESULTS}
# Uses that compile little: the others are for the slow tests.
QUICK = ("likelihood", "simulate", "export", "datatree")


def test_every_combination_has_been_tried():
    assert set(FOUND) == set(jobs())
    assert all(set(uses) == set(uses_of(name)) for (name, _), uses in FOUND.items())
    assert set(USES) == set().union(*FOUND.values())


def test_nothing_neither_works_nor_is_refused():
    texts = [text for uses in FOUND.values() for text in uses.values() if text]
    assert not [text for text in texts if text.startswith("BROKEN")]


def test_the_page_is_made_from_the_results():
    assert (DOCS / "support.md").read_text(encoding="utf-8") == page(RESULTS)


@pytest.mark.parametrize(
    ("name", "kind"), [("langevin+blur+noise+mean", "R"), ("langevin+scatter", "E")]
)
def test_combinations_are_as_the_page_says(name, kind):
    assert tried(name, kind, QUICK) == {use: FOUND[name, kind][use] for use in QUICK}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind"), jobs())
def test_all_combinations_are_as_the_page_says(name, kind):
    assert kind in FAMILIES[next(f for f in sorted(FAMILIES, key=len)[::-1] if name.startswith(f))]
    assert tried(name, kind) == FOUND[name, kind]
