"""What results say of themselves: in a line, in a terminal, in a notebook; whatever they hold."""

from dataclasses import replace
from html.parser import HTMLParser

import jax
import numpy as np
import pytest

import gallery
from driftbayes._representation import (
    Card,
    Described,
    Table,
    card_html,
    card_text,
    describe,
    matched,
    number,
    repeat_command,
    table_text,
    with_error,
)
from driftbayes.comparison import Comparison, Scan
from driftbayes.data._sampling import Displacements
from driftbayes.data._trajectories import Trajectories
from driftbayes.errors import Status
from driftbayes.models import Langevin
from driftbayes.priors import Exponential

KINDS = gallery.LINES


class Reader(HTMLParser):
    """The tags, attributes and words of a page; tags must close in the order they were opened."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.words, self.open = set(), set(), "", []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words += f"{data}\n"


# In one line


@pytest.mark.parametrize("kind", KINDS)
def test_one_line(kind):
    make, line = KINDS[kind]
    assert repr(make()) == line


# In a terminal


def test_trajectories_in_a_terminal():
    assert str(gallery.tracks(provenance={"source": "tracks.csv"})).splitlines() == [
        "Trajectories: 2 in 2D, 6 points",
        "  recorded     every 0.5 d",
        "  times        0 to 1 d",
        "  points each  3",
        "  x            -1 to 3 km",
        "  y            0 to 5 km",
        "  source       tracks.csv",
        "  suggested    tau = 0.5d",
    ]


def test_displacements_in_a_terminal():
    assert str(gallery.steps()).splitlines() == [
        "Displacements: tau = 0.5 d",
        "  particles         2",
        "  runs              2 of 2 steps",
        "  steps             4 in 2D, 8 displacements",
        "  root mean square  x 1.936, y 1.436 km",
    ]


def test_a_hypothesis_in_a_terminal():
    lines = str(gallery.hypothesis()).splitlines()
    assert lines[0].startswith("Hypothesis: langevin, ")
    assert lines[2].split() == ["parameter", "unit", "prior", "meaning"]
    assert lines[4].startswith("  gamma      γ  1/time        exponential:2  inverse")


def test_an_evidence_in_a_terminal():
    text = str(gallery.evidence(warnings=("the chain is short",), status=Status.NOT_FINITE))
    assert text.splitlines()[:2] == [
        "Evidence: langevin at tau = 0.5 d (exact)",
        "  ln Z              -10.0000",
    ]
    assert "  status            not_finite: the log-likelihood is not finite" in text
    assert "  gamma      1/d      1  1.00 ± 0.10      0.8 … 1.2  exponential:1" in text
    assert text.endswith("  warning: the chain is short")


def test_a_comparison_in_a_terminal():
    text = str(gallery.comparison())
    assert text.startswith("Comparison: langevin is strongly favoured over brownian at tau = 0.5 d")
    assert "  ln K(langevin:brownian)  4.0000\n" in text
    assert "  langevin  -10.0000     -7.000    -3.000  2.000     0.982  ok\n" in text
    assert "  langevin.k      km²/d    1  1.00 ± 0.10      0.8 … 1.2  exponential:1" in text


def test_a_scan_in_a_terminal():
    text = str(gallery.scan())
    assert "  skipped      1 value of tau\n" in text
    assert "  fingerprint  fedcba9876543210\n" in text
    # Wider than 80 columns, headings are folded, the table is split, and tau repeated.
    assert max(map(len, text.splitlines())) <= 80
    first, second = (line for line in text.splitlines() if line.split()[:1] == ["1"])
    assert first.split() == ["1", "8", *(3 * ["1.00", "±", "0.10", "·"]), "4.00"]
    assert second.split() == ["1", "0.982", "langevin"]
    assert "  langevin is sampling-time consistent" in text


def test_a_long_scan_shows_a_few_tau_with_both_ends():
    text = str(gallery.scan(200))
    assert 20 < len(text.splitlines()) < 50
    assert "      0.5     8  " in text
    assert "      100     8  " in text


def test_a_check_in_a_terminal():
    lines = str(gallery.fit_check()).splitlines()
    assert "  quantity                  brownian  langevin" in lines
    assert "  mean square displacement    < 0.01       0.5" in lines
    words = " ".join(" ".join(lines).split())
    assert (
        "brownian: it does not explain the mean square displacement (1, expected 1 to 1, " in words
    )


@pytest.mark.parametrize("kind", KINDS)
def test_columns_are_aligned(kind):
    lines = str(KINDS[kind][0]()).splitlines()
    assert all(line == line.rstrip() for line in lines)
    assert max(map(len, lines)) <= 80


# In a notebook


@pytest.mark.parametrize("kind", KINDS)
def test_a_notebook_gets_the_same_words_without_scripts_colours_or_links(kind):
    thing = KINDS[kind][0]()
    page = thing._repr_html_()
    read = Reader(page)
    # Sets of words: where lines break, also within a heading, is the only other difference.
    said = card_text(describe(thing), 200).replace("warning:", "").replace("─", "")
    title = describe(thing).kind
    words = set(read.words.replace("⚠", "").replace(f"{title}\n:", f"{title}:").split())
    assert words == set(said.split())
    assert read.tags <= {
        *("div", "strong", "table", "thead", "tbody", "tr", "th", "td", "p", "span"),
    }
    assert read.attributes <= {"class", "style", "scope", "aria-hidden"}
    assert "#" not in page
    assert "rgb" not in page
    assert "url(" not in page


def test_a_browser_shows_it_in_the_colours_of_the_page_and_runs_nothing(browser):
    things = [KINDS[kind][0]() for kind in KINDS]
    things.append(gallery.evidence(gallery.HOSTILE, ("k",), warnings=(gallery.HOSTILE,)))
    body = "".join(thing._repr_html_() for thing in things)
    seen = []
    page = browser.new_page()
    page.on("dialog", lambda dialog: (seen.append(dialog.message), dialog.dismiss()))
    page.on("request", lambda request: seen.append(request.url))
    page.on("pageerror", lambda error: seen.append(str(error)))
    for colour, ground in (("rgb(17, 17, 17)", "white"), ("rgb(238, 238, 238)", "black")):
        page.set_content(f"<body style='color:{colour};background:{ground}'>{body}</body>")
        colours = page.eval_on_selector_all(
            ".driftbayes, .driftbayes td, .driftbayes th",
            "all => [...new Set(all.map(one => getComputedStyle(one).color))]",
        )
        assert colours == [colour]
        assert page.locator("script").count() == 0
        assert page.locator(".driftbayes").count() == len(things)
    page.close()
    assert seen == []


# Whatever they hold


def hostile_things():
    name = gallery.HOSTILE
    rough = gallery.evidence(name, ("k",), warnings=(name,))
    yield gallery.tracks(provenance={"source": name}, length_unit=name, time_unit=name)
    yield gallery.steps(length_unit=name, time_unit=name)
    yield rough
    yield gallery.comparison([rough], probabilities={name: 1.0}, time_unit=name)
    yield Scan((gallery.comparison([rough], probabilities={name: 1.0}),))


@pytest.mark.parametrize("thing", list(hostile_things()), ids=lambda thing: type(thing).__name__)
def test_a_hostile_name_is_only_text(thing):
    for text in (repr(thing), str(thing)):
        assert "\x1b" not in text
        assert "cannot be shown" not in text
    assert "\n" not in repr(thing)
    page = thing._repr_html_()
    assert "<script" not in page
    assert "&lt;script&gt;alert(&#39;a&#39;)" in page
    assert "script" not in Reader(page).tags


def test_a_name_may_have_a_million_letters():
    found = gallery.evidence("x" * 1_000_000, ("y" * 1_000_000,))
    for text in (repr(found), str(found), found._repr_html_()):
        assert len(text) < 10_000


def test_numbers_that_are_not():
    nan = float("nan")
    lost = gallery.evidence(value=nan, log_evidence=nan, log_evidence_err=nan)
    assert "ln Z              nan" in str(lost)
    found = gallery.comparison([gallery.evidence("brownian"), lost])
    found = replace(found, probabilities={"brownian": nan, "langevin": nan})
    only = (
        "Comparison: brownian is the only model with an evidence at tau = 0.5 d;\n    langevin: no"
    )
    assert str(found).startswith(only)
    assert "width:0.00em" in found._repr_html_()
    infinite = gallery.evidence(value=float("inf"), log_evidence=-float("inf"))
    assert "-inf" in str(infinite)


def test_positions_that_are_all_missing():
    lost = Trajectories.from_arrays(np.full((1, 3, 2), np.nan), dt=1.0)
    assert repr(lost) == "<Trajectories: 1 in 2D, 3 points, every 1, 3 missing>"
    assert "  missing      3 (100 %)\n" in str(lost)
    assert "  x            all missing\n" in str(lost)


def test_a_single_position_has_no_interval():
    one = Trajectories.from_arrays(np.zeros((1, 1, 1)), dt=1.0)
    assert repr(one) == "<Trajectories: 1 in 1D, 1 points, irregular times>"


def test_times_that_were_dates_are_dates_again():
    made = gallery.tracks(provenance={"time_origin": "1970-01-01T00:00:00"}, time_unit="s")
    assert "  times        1970-01-01T00:00:00 to 1970-01-01T00:00:01\n" in str(made)


def test_what_is_empty_or_half_made_still_says_what_it_is():
    empty = gallery.comparison(evidences=None, probabilities={})
    nothing = Comparison({}, {}, 1.0, 0, 0, 2, 0)
    for thing in (empty, nothing):
        assert repr(thing).startswith("<Comparison: ")
        assert str(thing)
        Reader(thing._repr_html_())
    assert repr(Scan(())) == "<Scan: no sampling times>"
    assert str(Scan(())) == "Scan: no sampling times"
    half = object.__new__(Trajectories)
    assert repr(half) == "<Trajectories: cannot be shown (AttributeError)>"
    assert half._repr_html_() == "<pre>&lt;Trajectories: cannot be shown (AttributeError)&gt;</pre>"


# Quickly, and without the compiler


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_compiled(kind):
    thing = KINDS[kind][0]()
    heard = []

    def listen(event, duration_secs, **kwargs):
        heard.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        repr(thing), str(thing), thing._repr_html_()
        assert [event for event in heard if "compile" in event] == []
        jax.jit(lambda x: x + heard.__len__())(1.0)
        assert [event for event in heard if "compile" in event] != []
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)


def test_many_points_are_not_all_gone_through():
    n = 1_200_000
    x = np.zeros((n, 2))
    x[:, 0] = np.arange(n)
    times = np.concatenate([np.arange(200_000) * 0.5, np.arange(n - 200_000) ** 0.5])
    large = Trajectories(x, times, np.array([200_000, n - 200_000]), np.array(["a", "b"]))
    assert "every 0.5 (the first 100,000 points)" in repr(large)
    for name in ("recording_interval", "intervals", "fingerprint", "grid_index"):
        assert name not in large.__dict__
    # Once it is known it is told.
    assert large.recording_interval is None
    assert "irregular times" in repr(large)
    assert "first" not in repr(large)


def test_particles_are_counted_in_any_order():
    dx = np.ones((6, 1))
    numbers = np.array([3, 1, 3, 0, 0, 1])
    made = Displacements(dx, np.ones(6), np.ones(6, dtype=np.int64), numbers, 1.0)
    assert made.n_particles == 3
    assert replace(made, trajectory=np.sort(numbers)).n_particles == 3


# The parts


def test_a_card_as_text_and_html():
    table = Table(("a", "number"), (("κ", "1"), ("漢字", "-20")), "lr", (0.5, 2.0), "Title")
    card = Card("Kind", "first", (("one", "1"),), ("Said so.",), (table,), ("Beware.",))
    assert card_text(card).splitlines() == [
        "Kind: first",
        "  one  1",
        "",
        "  Title",
        "  a     number",
        "  ────────────",
        "  κ          1",
        "  漢字     -20",
        "",
        "  Said so.",
        "",
        "  warning: Beware.",
    ]
    page = card_html(card)
    assert "width:3.00em" in page
    assert "width:6.00em" in page


def test_a_wide_table_is_folded_and_split_but_no_number_is_cut():
    table = Table(
        ("name", "words", "first", "second"),
        (("a", "some words that can be folded", "1.2345678", "2.3456789"),),
        "llrr",
    )
    assert table_text(table, 30) == [
        "name  words",
        "──────────────────────────────",
        "a     some words that can be",
        "      folded",
        "",
        "name      first     second",
        "──────────────────────────",
        "a     1.2345678  2.3456789",
    ]
    wide = table_text(table, 80)
    assert len(wide) == 3
    assert all(cell in wide[2] for cell in table.rows[0])


def test_a_description_that_fails_is_no_error():
    class Broken(Described):
        pass

    @describe.register
    def _(record: Broken) -> Card:
        raise KeyError(record)

    assert str(Broken()) == repr(Broken()) == "<Broken: cannot be shown (KeyError)>"
    assert Broken()._repr_html_() == "<pre>&lt;Broken: cannot be shown (KeyError)&gt;</pre>"


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (1.44391, 0.0371, "1.444 ± 0.037"),
        (123456.7, 61.0, "123457 ± 61"),
        (123456.7, 7812.0, "123500 ± 7800"),
        (0.046818, 2.6e-6, "0.0468180 ± 0.0000026"),
        (0.9, 0.0996, "0.90 ± 0.10"),
        (1.5e-9, 2.34e-10, "(1.50 ± 0.23)e-9"),
        (2e9, 3.0e7, "(2.000 ± 0.030)e9"),
        (1e8, 2.3e9, "(0.1 ± 2.3)e9"),
        (0.5, 1e-300, "0.5"),
        (1.0, 0.0, "1"),
        (1.0, float("nan"), "1"),
        (float("inf"), 1.0, "inf"),
    ],
)
def test_an_error_is_shown_to_two_digits_and_sets_those_of_the_value(value, error, text):
    assert with_error(value, error) == text


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (-10.0, 1e-9, "-10.0000"),
        (-10.0, 4.2e-4, "-10.0000 ± 0.0004"),
        (-1234.5678, 3.21, "-1234.6 ± 3.2"),
        (-8464.70941, 61.0, "-8465 ± 61"),
        (12345678.9, 0.0123, "12345678.900 ± 0.012"),
        (1.0, float("nan"), "1.0000"),
    ],
)
def test_an_error_that_does_not_show_in_four_places_is_omitted(value, error, text):
    assert with_error(value, error, 4) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.9599999999999997, "1.96"),
        (61.0, "61"),
        (123456.0, "123500"),
        (1.5e-9, "1.5e-9"),
        (-2e12, "-2e12"),
        (0.0, "0"),
        (float("nan"), "nan"),
    ],
)
def test_a_number_has_an_exponent_only_if_it_is_far_from_one(value, text):
    assert number(value) == text


def test_a_command_is_quoted_and_leaves_out_what_is_not_given():
    command = repeat_command(
        "scan", "my file.csv", {"n_tau": 3, "gaps": None, "drop_short": "", "prior": ["a=1", "b=2"]}
    )
    assert command == "driftbayes scan 'my file.csv' --n-tau 3 --drop-short --prior a=1 --prior b=2"


# Many models with long names, in terminals of all widths


LONG = (
    "brownian",
    "confined_brownian+noise+mean",
    "langevin+noise+anisotropic+mean",
    "matern+noise",
)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_long_names_fit_the_terminal(width):
    pairs = [f"ln K({a}:{b})" for a in LONG for b in LONG if a != b]
    rows = tuple((name, *(f"{-1234.5:.3f}" for _ in pairs), name) for name in LONG)
    table = Table(("model", *pairs, "warnings"), rows, "l" + "r" * len(pairs) + "l")
    lines = table_text(table, width)
    assert max(map(len, lines)) <= width
    # No number is cut.
    assert sum(line.count("-1234.500") for line in lines) == len(LONG) * len(pairs)


def test_a_number_without_meaning_is_zero():
    assert number(7.986e-317) == "0"
    assert matched(9.2562e-12, 0.0023) == "0"
    assert matched(1506.5831, 50.0) == "1506.6"
    assert matched(5.5689e-6, 3.4e-7) == "5.569e-6"


def test_priors_and_models_are_written_as_in_python():
    assert repr(Exponential(mean=0.5)) == "Exponential(mean=0.5)"
    assert repr(Langevin(gamma=1.0, k=2.0)) == "Langevin(gamma=1, k=2)"
