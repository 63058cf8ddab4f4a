"""Every block of code in the README and the documentation does what it says.

Blocks ```sh and ```python are run in the order of the page, in one folder and one Python. Those
marked `slow` are run by `make test-slow`, and so are long pages; by default their commands are
given to the parser, and their names are looked up. Blocks marked `parse` are given to the parser
only. A ```text block right after one is what it prints. To write what is printed into the pages,
and the pictures into docs/figures:

    DRIFTBAYES_WRITE_PAGES=1 python -m pytest tests/docs -k NAME [-m ""]
"""

import ast
import os
import shutil
import warnings
from importlib.util import find_spec

import pytest
from follower import Follower
from outputs import difference
from pages import CODE, MARKS, OTHER, PAGES, ROOT, Block, Page, exists, page_of, read_page

WRITE = os.environ.get("DRIFTBAYES_WRITE_PAGES") == "1"
FIGURES = ROOT / "docs/figures"
# What the README calls tracks.csv is the reader's.
READERS_OWN = {
    "README.md": "driftbayes simulate langevin --gamma 1 --k 1 --particles 20 --steps 200 "
    "--tau 0.1 --dim 2 --seed 1 -o tracks.csv\n"
}

# Simulators that slow blocks of a page run.
SIMULATORS = {
    "docs/tutorials/forecast-parcels.md": "parcels",
    "docs/tutorials/forecast-opendrift.md": "opendrift",
}

# Pages with draws from a posterior, which another processor keeps or rejects at the last digit:
# their numbers may differ by this share.
CHANCE = {"docs/commands/backtest.md": 0.35, "docs/forecasts.md": 0.35}

# Pages that take seconds, and whose commands have tests of their own: followed by the slow tests.
LONG = {
    *("docs/forecasts.md", "docs/prompt.md", "docs/segments.md", "docs/turbulence-experiment.md"),
    *(f"docs/commands/{name}.md" for name in ("backtest", "check", "pairs", "recommend", "report")),
    *(f"docs/commands/{name}.md" for name in ("predict", "segments")),
    *(
        f"docs/tutorials/{name}.md"
        for name in ("animal", "dask-cluster", "forecast-opendrift", "new-model", "particles")
    ),
    *(f"docs/tutorials/{name}.md" for name in ("forecast-parcels", "own-sde", "turbulence")),
}

WITH_CODE = [path for path in PAGES if read_page(path).code]
WITH_SLOW = [path for path in WITH_CODE if "slow" in {b.mark for b in read_page(path).code}]


def name_of(path):
    return str(path.relative_to(ROOT))


@pytest.fixture
def follow(tmp_path, tmp_path_factory, monkeypatch):
    monkeypatch.setenv("DRIFTBAYES_CACHE", "off")
    monkeypatch.setenv("COLUMNS", "120")
    cache = tmp_path_factory.getbasetemp() / "docs-cache"
    cache.mkdir(exist_ok=True)

    def all_of(page: Page, *, slow: bool) -> dict[Block, str]:
        """Follow a page; what each of its blocks printed."""
        follower = Follower(page, tmp_path, cache)
        if page.name in READERS_OWN:
            follower.follow(Block("sh", "", READERS_OWN[page.name], 0, 0))
        printed = {}
        for block in page.code:
            if block.mark == "slow" and not slow:
                continue
            printed[block] = follower.follow(block)
            claimed = page.output_of(block)
            if claimed is not None and not (WRITE and page.path in PAGES):
                share = CHANCE.get(page.name, 0.0)
                line = difference(claimed.text, printed[block], share=share)
                if line is not None:
                    what = f"shown and not printed: {line}"
                    follower.fail(claimed.line, what, f"--- printed ---\n{printed[block]}")
        return printed

    return all_of


def pictures_made(page, folder):
    """Pictures that the page shows and its commands name, and the files that they wrote."""
    code = " ".join(block.text for block in page.code)
    shown = [picture for picture in page.pictures if picture.parent == FIGURES]
    return {picture: folder / picture.name for picture in shown if picture.name in code}


def printed_lines(text):
    """Without the empty lines around tables."""
    return [line.rstrip() for line in text.splitlines() if line.strip()]


def write_page(page, printed, folder):
    """Put what was printed, where the page does not already say it, into the page."""
    lines = page.text.splitlines()
    for block in reversed(list(printed)):
        claimed = page.output_of(block)
        if claimed is not None and difference(claimed.text, printed[block]) is not None:
            came = [" " * claimed.indent + line for line in printed_lines(printed[block])]
            lines[claimed.line - 1 : claimed.after - 1] = came
    page.path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    for picture, made in pictures_made(page, folder).items():
        if made.exists():
            shutil.copyfile(made, picture)


def check_page(path, follow, folder, *, slow):
    page = read_page(path)
    printed = follow(page, slow=slow)
    if WRITE:
        write_page(page, printed, folder)
    for picture, made in pictures_made(page, folder).items():
        named = [block for block in page.code if picture.name in block.text]
        if any(block in printed and block.mark != "parse" for block in named):
            assert made.exists(), f"no command of {page.name} wrote {picture.name}"


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=[pytest.mark.slow] if name_of(path) in LONG else [])
        for path in WITH_CODE
    ],
    ids=name_of,
)
def test_the_page_can_be_followed(path, follow, tmp_path):
    check_page(path, follow, tmp_path, slow=False)


@pytest.mark.slow
@pytest.mark.parametrize("path", WITH_SLOW, ids=name_of)
def test_the_page_can_be_followed_with_its_slow_blocks(path, follow, tmp_path):
    simulator = SIMULATORS.get(name_of(path))
    if simulator is not None and find_spec(simulator) is None:
        pytest.skip(f"{simulator} is not installed: pip install --group simulators")
    with warnings.catch_warnings():
        if simulator is not None:
            # Of the packages that it needs; ours are printed all the same.
            warnings.simplefilter("ignore")
        check_page(path, follow, tmp_path, slow=True)


def unknown_names(source):
    """Names of the package that a block of Python uses and that do not exist."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] == "driftbayes":
            yield from (
                name
                for name in (f"{node.module}.{alias.name}" for alias in node.names)
                if not exists(name)
            )
        is_attribute = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        if is_attribute and node.value.id == "db" and not exists(f"driftbayes.{node.attr}"):
            yield f"db.{node.attr}"


@pytest.mark.parametrize(
    "path", [p for p in WITH_CODE if p in WITH_SLOW or name_of(p) in LONG], ids=name_of
)
def test_commands_and_names_of_what_is_run_by_the_slow_tests_exist(path, tmp_path):
    page = read_page(path)
    follower = Follower(page, tmp_path, tmp_path)
    for block in page.code:
        if block.language == "sh":
            follower.parse(block)
        else:
            unknown = list(unknown_names(block.text))
            assert unknown == [], f"{page.name}:{block.line}"


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_every_block_has_a_language_and_a_known_mark(path):
    for block in read_page(path).blocks:
        place = f"{name_of(path)}:{block.line}"
        if block.language in CODE:
            assert block.mark in MARKS[block.language], f"{place}: unknown mark {block.mark!r}"
        else:
            directive = block.language.startswith("{") and block.language.endswith("}")
            known = block.language in OTHER or directive
            assert known, f"{place}: {block.language!r} is not among {(*CODE, *OTHER)}"
            assert directive or not block.mark, f"{place}: {block.mark!r} after {block.language}"


# The reader of pages, read itself


def follow_text(follow, text, *, slow=False):
    return follow(page_of(ROOT / "page.md", text), slow=slow)


def test_a_command_that_fails_is_told_with_page_and_line(follow):
    text = "# A page\n\n```sh\ndriftbayes info nothing.csv\n```\n"
    with pytest.raises(pytest.fail.Exception, match=r"page.md:4: exit code 2, expected 0\n.*noth"):
        follow_text(follow, text)


def test_an_announced_exit_code_is_expected(follow):
    follow_text(follow, "```sh\ndriftbayes info nothing.csv  # exit code 2\n```\n")


def test_python_that_fails_is_told_with_its_line_of_the_page(follow):
    text = "# A page\n\n```python\na = 1\na / 0\n```\n"
    with pytest.raises(pytest.fail.Exception, match=r'File "page.md", line 5'):
        follow_text(follow, text)


def test_names_and_files_last_from_block_to_block(follow, tmp_path):
    text = (
        "```python\nfrom pathlib import Path\n\nnew = Path('x')\n```\n\n"
        "<!-- run: sh\necho one > file\n-->\n\n"
        "```python\nnew.write_text(Path('file').read_text() + 'two')\n```\n"
    )
    follow_text(follow, text)
    assert (tmp_path / "x").read_text() == "one\ntwo"


def test_python_begins_in_single_precision_as_it_does_for_a_reader(follow):
    text = "```python\nimport jax\nprint(jax.config.jax_enable_x64)\n```\n\n```text\nFalse\n```\n"
    follow_text(follow, text)


def test_slow_blocks_wait_for_the_slow_tests(follow):
    text = "```python slow\nprint(1)\n```\n\n```text\n1\n```\n"
    assert follow_text(follow, text) == {}
    assert list(follow_text(follow, text, slow=True).values()) == ["1\n"]


def test_what_only_parses_is_not_run_and_what_does_not_parse_is_refused(follow):
    follow_text(
        follow, "```sh parse\ndriftbayes scan far.zarr --taus 1,2 --cluster tcp://A:1\n```\n"
    )
    with pytest.raises(pytest.fail.Exception, match=r"page.md:2: the command line is refused"):
        follow_text(follow, "```sh parse\ndriftbayes scan far.zarr --tows 1,2\n```\n")


def test_names_that_do_not_exist_are_found():
    source = "import driftbayes as db\nfrom driftbayes.models import Langevin, Gone\n"
    found = list(unknown_names(source + "db.read('a'), db.gone('b')"))
    assert found == ["driftbayes.models.Gone", "db.gone"]


def test_a_target_that_make_does_not_have_is_refused(follow):
    with pytest.raises(pytest.fail.Exception, match=r"page.md:2: make does not know this"):
        follow_text(follow, "```sh\nmake coffee\n```\n")


def test_output_that_was_not_printed_is_refused(follow):
    with pytest.raises(pytest.fail.Exception, match=r"page.md:6: shown and not printed: two"):
        follow_text(follow, "```sh\necho one\n```\n\n```text\ntwo\n```\n")


@pytest.mark.parametrize(
    ("shown", "printed", "is_alike"),
    [
        ("k = 0.352 m²/s", "k = 0.353  m²/s", True),
        ("k = 0.352 m²/s", "k = 0.354 m²/s", False),
        ("k = 0.352 m²/s", "k = 0.352 m/s", False),
        ("3 particles", "4 particles", False),
        ("a  b\n────\n1  2", " a b\n ──\n 1 2", True),
        ("took … s", "took 3.1 s", True),
        ("one\n…\nfour", "one\ntwo\nthree\nfour", True),
        ("one\nfour", "one\ntwo\nfour", False),
        ("one", "one\ntwo", False),
        ("one\n…", "one\ntwo", True),
        ("1.2e-05", "1.3e-05", True),
        ("1.2e-05", "1.2e-04", False),
        ("−3.1", "−3.2", True),
        ("2.35 ± 2e-12", "2.35 ± 7e-11", True),
        ("2.35 ± 2e-12", "2.35 ± 0.1", False),
        ("+19,440", "+19,441", False),
        ("data  536c0cd9d27b0b96", "data  e32ad8e381c3e763", True),
        ("data  536c0cd9d27b0b96", "data  536c0cd9", False),
    ],
)
def test_numbers_may_differ_in_the_last_digit_and_words_may_not(shown, printed, is_alike):
    assert (difference(shown, printed) is None) is is_alike
