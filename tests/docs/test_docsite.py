"""The parts that the site is built with."""

import driftbayes
from docsite import _shorten
from docsite.docstrings import to_rst
from docsite.links import broken_links, loaded_from_elsewhere
from docsite.mathml import mathml
from docsite.names import Entry, Names, assignment_of


def rst(text):
    return "\n".join(to_rst(text.splitlines())).strip()


def test_code_and_formulas_of_markdown_become_those_of_rst():
    assert rst("Of `x` and $a_b$.") == r"Of ``x``\  and :math:`a_b`\ ."
    assert rst("Half of 2$x$ here") == r"Half of 2\ :math:`x`\  here"


def test_what_rst_would_take_for_markup_is_text():
    assert rst("θ* and |u| and name_") == r"θ\* and \|u\| and name\_"


def test_an_equation_id_becomes_code():
    assert rst("Paper: [eq:langevin].") == r"Paper: ``[eq:langevin]``\ ."


def test_a_displayed_formula_becomes_a_directive():
    assert rst("It is\n\n$$a\n  = b$$\n\nhere.").split() == [
        *("It", "is", "..", "math::", "a", "=", "b", "here.")
    ]


def test_defaults_of_signatures_are_valid_python():
    text = "(a: ~collections.abc.Mapping = <factory>, b: Any = <class 'float'>, "
    text += "c: Any = <function wave at 0x7f00>, d: Any = <function wave>)"
    shown, nothing = _shorten(None, "class", "name", None, None, text, None)
    assert (
        shown == "(a: ~collections.abc.Mapping = ..., b: Any = float, c: Any = wave, d: Any = wave)"
    )
    assert nothing is None


def test_arguments_become_fields_with_their_continuations():
    text = "What.\n\nArgs:\n    x: The first,\n        on two lines.\n    **more: The rest.\n"
    lines = [line for line in rst(text).splitlines() if line.strip()]
    assert lines == [
        "What.",
        ":param x: The first,",
        "    on two lines.",
        r":param \*\*more: The rest.",
    ]


def test_what_is_returned_may_hold_a_colon():
    lines = rst("What.\n\nReturns:\n    A set: of `x`.\n").splitlines()
    assert lines[-1] == r":returns: A set: of ``x``\ ."


def test_single_upright_letters_say_that_they_are_upright():
    assert "<mi mathvariant='normal'>&#x00064;</mi>" in mathml(r"\mathrm{d}X", "inline")
    assert "<mi>X</mi>" in mathml(r"\mathrm{d}X", "inline")


def test_formulas_are_spaced_as_tex_does():
    assert "<mi>cos</mi><mspace width='0.167em'/><mi" in mathml(r"\cos x", "inline")
    assert "<mspace" not in mathml(r"\cos(x)", "inline")


def test_a_name_is_found_by_where_it_is_written_and_by_where_it_is_listed():
    names = Names(
        [
            Entry("driftbayes.comparison.scan_hypotheses", "api", "a"),
            Entry("driftbayes.models.Langevin", "api", "b"),
            Entry("driftbayes.models.Langevin.lvaf", "api", "c"),
            Entry("driftbayes.models.MODELS", "api", "d"),
        ]
    )
    assert names.find("driftbayes.comparison._scan.scan_hypotheses").anchor == "a"
    assert names.find("driftbayes.scan_hypotheses").anchor == "a"
    assert names.find("Langevin", module="driftbayes.models").anchor == "b"
    assert names.find("driftbayes.models._langevin.Langevin.lvaf").anchor == "c"
    assert names.find("lvaf", module="driftbayes.models", owner="Langevin").anchor == "c"
    assert names.find("driftbayes.MODELS").anchor == "d"
    assert names.find("driftbayes.comparison._scan.gone") is None
    assert names.find("Gone") is None
    assert names.find("Langevin.lvaf").anchor == "c"
    assert names.find("lvaf") is None
    assert names.find("scan_hypotheses").anchor == "a"
    assert names.find("scan", anywhere=False) is None


def test_a_constant_is_described_by_the_comment_above_it():
    assert driftbayes.MODELS
    assert "from simple to complex" in assignment_of("driftbayes.models.MODELS").comment[0]
    assert assignment_of("driftbayes._jax_typing.Scalar").value == "Float[Array, '']"


def test_links_within_a_site_and_from_the_readme_are_followed(tmp_path):
    site, docs = tmp_path / "site", tmp_path / "docs"
    site.mkdir()
    docs.mkdir()
    (docs / "a.md").write_text("# A")
    (site / "index.html").write_text('<a href="a.html#here">')
    (site / "a.html").write_text('<p id="here"><a href="#there"><img src="b.png">')
    (tmp_path / "README.md").write_text("[a](docs/a.md#here), [b](docs/a.md#gone), [c](no.md)")
    assert sorted(broken_links(site, tmp_path)) == [
        "README.md: docs/a.md#gone: no such anchor",
        "README.md: no.md: no such file",
        "a.html: #there: no such anchor",
        "a.html: b.png: no such file",
    ]


def test_what_a_page_or_a_style_sheet_would_fetch_is_found(tmp_path):
    address = "https://example.org/x"
    (tmp_path / "a.html").write_text(
        f'<script src="{address}"></script><a href="{address}">said, not loaded</a>'
        f'<link rel="canonical" href="{address}"><img src="b.png">'
    )
    (tmp_path / "a.css").write_text(f"p {{ background: url('{address}') }} /* {address} */")
    assert loaded_from_elsewhere(tmp_path) == [f"a.html: {address}", f"a.css: {address}"]
