"""The documentation site, as `make docs` builds it: whole, and without a network.

To build it whole takes a minute. By default a small one is built, and the sources of the whole one
are read: what a page names, and what names a page.
"""

import argparse
import contextlib
import importlib
import io
import os
import re
import subprocess
import sys
import warnings
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import pytest
from pages import exists, read_page
from sphinx.util.inventory import InventoryFile

import driftbayes
from docsite.links import loaded_from_elsewhere
from docsite.names import public_modules
from driftbayes.cli.main import build_parser

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
TOOL = ROOT / "tools" / "build_docs.py"


def build(*arguments):
    """Run the tool in a process of its own, as a person does."""
    command = [sys.executable, str(TOOL), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("docs") / "site"
    done = build("--out", folder)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return folder


FAULTS = {
    "[gone](gone.md)": "gone.md",
    "[gone](#nowhere)": "nowhere",
    "`driftbayes.gone`": "driftbayes.gone is not in the reference",
    "`[eq:gone]`": "no equation [eq:gone]",
    r"$\nosuchcommand{x}$": r"\nosuchcommand is not known",
}


def build_here(folder):
    """Run the tool in this process, which has the package; its exit code and what it said."""
    said = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        # What the tool asks of JAX is for a process of its own.
        patch.setenv("JAX_PLATFORMS", os.environ.get("JAX_PLATFORMS", ""))
        warnings.simplefilter("ignore")
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
            import build_docs

            code = build_docs.main(["--source", f"{folder}/docs", "--out", f"{folder}/site"])
    return code, said.getvalue()


@pytest.fixture(scope="module")
def small_sites(tmp_path_factory):
    """Folders of a small site and of one with faults, and what their builds said."""
    sound, faulty = tmp_path_factory.mktemp("sound"), tmp_path_factory.mktemp("faulty")
    for folder in (sound, faulty):
        (folder / "docs").mkdir()
    (sound / "docs" / "index.md").write_text(
        "# Start\n\n```{toctree}\nerrors\n```\n\n$\\frac{a}{b}$ and `driftbayes.errors`\n"
    )
    (sound / "docs" / "errors.md").write_text(
        "# Errors\n\n```{eval-rst}\n.. automodule:: driftbayes.errors\n```\n"
    )
    (faulty / "docs" / "index.md").write_text("# Start\n\n" + "\n\n".join(FAULTS))
    (faulty / "docs" / "alone.md").write_text("# In no contents")
    (faulty / "site").mkdir()
    (faulty / "site" / "objects.inv").write_text("old")
    return {"sound": (sound, *build_here(sound)), "faulty": (faulty, *build_here(faulty))}


@pytest.fixture(scope="module")
def inventory(site):
    """Every name that the reference describes."""
    groups = InventoryFile.loads((site / "objects.inv").read_bytes(), uri="").data
    return {name for group, names in groups.items() if group.startswith("py:") for name in names}


class Links(HTMLParser):
    """The links of a page with their text, and its anchors."""

    def __init__(self, path):
        super().__init__()
        self.open, self.links, self.anchors = [], [], set()
        self.feed(path.read_text())

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.anchors |= {values["id"]} if "id" in values else set()
        if tag == "a":
            self.open.append([values.get("href", ""), ""])

    def handle_data(self, data):
        for link in self.open:
            link[1] += data

    def handle_endtag(self, tag):
        if tag == "a":
            self.links.append(tuple(self.open.pop()))


@cache
def links(path):
    return Links(path)


def pages():
    """The pages of docs/; the README of a folder is none, and a signpost says that it is one."""
    for path in sorted(DOCS.rglob("*.md")):
        if path.name != "README.md" and not path.read_text().startswith("---\norphan: true\n"):
            yield path.relative_to(DOCS).with_suffix(".html").as_posix()


@pytest.mark.slow
def test_every_page_is_in_the_contents(site):
    linked = {href for href, _ in links(site / "index.html").links}
    assert set(pages()) - linked - {"index.html"} == set()


@pytest.mark.slow
def test_every_name_of_the_package_leads_to_its_description(site):
    index = links(site / "api" / "index.html")
    targets = {text: href for href, text in index.links}
    for name in driftbayes.__all__:
        file, anchor = targets[f"driftbayes.{name}"].split("#")
        target = index if not file else links(site / "api" / file)
        assert anchor in target.anchors, name


@pytest.mark.slow
def test_every_public_name_of_every_public_module_is_described(inventory):
    missing = [
        f"{module}.{name}"
        for module in public_modules()
        if module != "driftbayes"
        for name in getattr(importlib.import_module(module), "__all__", [])
        if f"{module}.{name}" not in inventory
    ]
    assert missing == []


# --- The sources, without a build --------------------------------------------------------------


def in_contents():
    """Pages that a table of contents lists, as they are named from docs/."""
    found = set()
    for path in DOCS.rglob("*.md"):
        for block in re.findall(r"^```\{toctree\}\n(.*?)^```", path.read_text(), re.M | re.S):
            for line in block.splitlines():
                entry = re.sub(r".*<(.+)>", r"\1", line).strip()
                if entry and not entry.startswith(":"):
                    found |= {p.relative_to(DOCS) for p in path.parent.glob(f"{entry}.md")}
    return {path.with_suffix(".html").as_posix() for path in found}


def test_every_page_is_listed_in_a_table_of_contents():
    assert set(pages()) - in_contents() == {"index.html"}


def test_every_public_module_is_described_once():
    text = "".join(path.read_text() for path in (DOCS / "api").glob("*.md"))
    described = re.findall(r"^\.\. automodule:: ([\w.]+)$", text, re.MULTILINE)
    # The page of the package itself lists its names.
    modules = {name: importlib.import_module(name) for name in public_modules()[1:]}
    named = [name for name, module in modules.items() if getattr(module, "__all__", [])]
    assert sorted(described) == sorted(named)


def test_every_command_has_a_page_that_begins_with_it():
    commands = build_parser()._subparsers._group_actions[0].choices
    assert {path.stem for path in (DOCS / "commands").glob("*.md")} == set(commands)
    for name in commands:
        block, *_ = [b for b in read_page(DOCS / "commands" / f"{name}.md").code if not b.hidden]
        assert f"driftbayes {name}" in block.text


@pytest.mark.parametrize("path", sorted(DOCS.rglob("*.md")), ids=lambda p: str(p.relative_to(DOCS)))
def test_pages_and_names_that_a_page_names_exist(path):
    text = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", text):
        assert (path.parent / target).exists(), target
    for name in set(re.findall(r"`(driftbayes\.\w[\w.]*\w)`", text)):
        assert exists(name), name


def test_what_does_not_exist_is_told():
    assert exists("driftbayes.models.Langevin.gamma")
    assert not exists("driftbayes.gone")
    assert not exists("driftbayes.models.Langevin.gone")


def test_a_small_site_is_built_without_a_network(small_sites):
    folder, code, said = small_sites["sound"]
    assert (code, said) == (0, "")
    index = links(folder / "site" / "index.html")
    assert ("errors.html#module-driftbayes.errors", "driftbayes.errors") in index.links
    assert "driftbayes.errors.DriftbayesError" in links(folder / "site" / "errors.html").anchors
    page = (folder / "site" / "index.html").read_text()
    assert "<mfrac>" in page
    assert "$" not in re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    assert loaded_from_elsewhere(folder / "site") == []


def test_every_room_is_public_but_those_that_are_run_by_a_command():
    folders = {path.parent.name for path in (ROOT / "src/driftbayes").glob("[!_]*/__init__.py")}
    assert folders - {name.split(".")[1] for name in public_modules()[1:]} == {"cli", "explore"}


@pytest.mark.slow
def test_every_equation_leads_to_its_code_and_is_led_to_from_there(site):
    page = links(site / "equations.html")
    text = (DOCS / "equations.md").read_text()
    ids = {f"eq-{name}" for name in re.findall(r"^\| `\[eq:([\w-]+)\]` \|", text, re.MULTILINE)}
    assert len(ids) >= 20
    assert ids <= page.anchors
    linked = {text for href, text in page.links if re.match(r"api/.*#driftbayes\.", href)}
    assert set(re.findall(r"`(driftbayes\.[\w.]+)`", text)) == linked
    cited = {
        href.partition("#")[2]
        for path in (site / "api").glob("*.html")
        for href, _ in links(path).links
        if href.startswith("../equations.html#")
    }
    assert cited == ids


@pytest.mark.slow
def test_every_command_has_a_page_with_an_example_and_every_option(site):
    listed = {href for href, _ in links(site / "command-line.html").links}

    def check(parser, page, anchors):
        assert parser.prog.replace(" ", "-") in anchors
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                for below in action.choices.values():
                    check(below, page, anchors)
            hidden = action.help == argparse.SUPPRESS
            for option in () if hidden else action.option_strings:
                assert option in ("-h", "--help", "--version") or option in page

    commands = build_parser()._subparsers._group_actions[0].choices
    for name, parser in commands.items():
        path = site / "commands" / f"{name}.html"
        assert f"commands/{name}.html#driftbayes-{name}" in listed
        check(parser, path.read_text(), Links(path).anchors)
        block, *_ = [b for b in read_page(DOCS / "commands" / f"{name}.md").code if not b.hidden]
        assert f"driftbayes {name}" in block.text
    assert {path.stem for path in (DOCS / "commands").glob("*.md")} == set(commands)


@pytest.mark.slow
def test_nothing_is_loaded_from_elsewhere(site):
    assert loaded_from_elsewhere(site) == []


@pytest.mark.slow
def test_formulas_are_mathml_and_none_is_left_as_tex(site):
    page = (site / "equations.html").read_text()
    assert page.count("<math ") > 30
    main = re.sub(r"<code.*?</code>|<script.*?</script>", "", page, flags=re.DOTALL)
    assert not re.search(r"\$|\\(?:mathrm|frac|gamma)", main)


def test_a_fault_stops_the_build_and_leaves_the_old_site(small_sites):
    folder, code, said = small_sites["faulty"]
    assert code == 2
    assert "the site was not written" in said
    for complaint in [*FAULTS.values(), "isn't included in any toctree"]:
        assert complaint in said
    assert "already registered" not in said
    assert [path.name for path in (folder / "site").iterdir()] == ["objects.inv"]


@pytest.mark.slow
def test_pages_fit_three_widths_in_a_browser_that_fetches_nothing(site, browser):
    seen = []
    for scheme in ("light", "dark"):
        context = browser.new_context(color_scheme=scheme)
        page = context.new_page()
        page.on("console", lambda message: seen.append(message.text))
        page.on("pageerror", lambda error: seen.append(str(error)))
        page.on("request", lambda request: seen.append(request.url))
        backgrounds = set()
        for name in ("index", "equations", "api/models", "command-line", "commands/report"):
            page.goto((site / f"{name}.html").as_uri())
            for width in (390, 800, 1280):
                page.set_viewport_size({"width": width, "height": 900})
                wide = "document.documentElement.scrollWidth"
                assert page.evaluate(wide) <= width, (name, width)
                colour = "getComputedStyle(document.body).backgroundColor"
                backgrounds.add(page.evaluate(colour))
        page.goto(f"{(site / 'search.html').as_uri()}?q=Langevin")
        page.get_by_role("link", name="driftbayes.models.Langevin").first.wait_for()
        (background,) = backgrounds
        brightness = sum(map(int, re.findall(r"\d+", background)[:3]))
        assert brightness < 150 if scheme == "dark" else brightness > 600
        context.close()
    assert [text for text in seen if not text.startswith("file:")] == []
