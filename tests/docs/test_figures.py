"""Every figure of the documentation is made by a command that is named, and that exists."""

import re
import shlex

import pytest
from follower import refusal
from pages import PAGES, ROOT, read_page

FIGURES = ROOT / "docs/figures"
TABLE = (FIGURES / "README.md").read_text(encoding="utf-8")
ROWS = dict(re.findall(r"^\| `([^`]+)` \| `([^`]+)` \|", TABLE, flags=re.MULTILINE))
FILES = sorted(path.name for path in FIGURES.iterdir() if path.name != "README.md")


def page_commands(name):
    """Pages that show the figure, and whose code names it as something to write."""
    for path in PAGES:
        page = read_page(path)
        code = " ".join(block.text for block in page.code)
        if FIGURES / name in page.pictures and re.search(rf"(^|[\s\"'/]){re.escape(name)}\b", code):
            yield path


@pytest.mark.parametrize("name", FILES)
def test_the_command_that_makes_it_is_named(name):
    assert name in ROWS or any(page_commands(name)), (
        f"{name}: give the command that makes it on the page that shows it, or in "
        "docs/figures/README.md"
    )


@pytest.mark.parametrize("name", ROWS)
def test_the_table_speaks_of_files_and_commands_that_exist(name):
    assert name in FILES
    words = tuple(shlex.split(ROWS[name]))
    if words[0] == "driftbayes":
        assert refusal(words) == ""
    else:
        assert words[0] == "python"
        assert (ROOT / words[1]).exists()


@pytest.mark.parametrize("name", [name for name in FILES if name.endswith(".png")])
def test_every_figure_is_shown(name):
    assert any(FIGURES / name in read_page(path).pictures for path in PAGES)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_a_page_links_to_is_there(path):
    text = re.sub(r"```.*?```", "", read_page(path).text, flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
        if not re.match(r"[a-z]+:", target):
            assert (path.parent / target).exists(), target
