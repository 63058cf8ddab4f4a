"""The report: what it says is what the scan says, and it needs nothing but itself."""

import csv
import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from numpy.testing import assert_allclose

from driftbayes import DriftbayesError, Trajectories
from driftbayes._representation import Curve, Panel, with_error
from driftbayes.comparison import Scan, make_hypotheses, scan_hypotheses
from driftbayes.comparison._describe_scan import scan_command, scan_panels, scan_verdict
from driftbayes.report import build_report, write_report
from driftbayes.report._page import _bound
from driftbayes.report._svg import Axis, panel_svg

HOSTILE = '</script><script>alert(1)</script>"&<b>.csv'


@pytest.fixture(scope="module")
def result():
    rng = np.random.default_rng(0)
    x = np.cumsum(rng.normal(0, np.sqrt(2 * 0.5), (50, 81, 2)), axis=1)
    tracks = Trajectories.from_arrays(
        x, dt=1.0, length_unit="km", time_unit="h", provenance={"source": HOSTILE}
    )
    hypotheses = make_hypotheses(["brownian", "langevin"], u_rms=1.0, timescale=1.0).hypotheses
    return scan_hypotheses(tracks, hypotheses, [1, 2, 4, 8])


@pytest.fixture(scope="module")
def dataset(result):
    return result.to_dataset()


class Page(HTMLParser):
    """Tags, addresses and the text of elements with an id."""

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.addresses, self.scripts = [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.addresses += [value for name, value in attrs if name in ("src", "href", "action")]
        if tag not in ("meta", "input", "line", "rect", "path", "circle", "br", "link"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts.append(data)


@pytest.fixture(scope="module")
def page(result):
    found = Page()
    found.feed(build_report(result, numbers="a").html)
    assert found.open == []
    return found


def test_it_is_one_file_that_asks_for_nothing(page, result):
    assert set(page.addresses) == {"a.csv", "a.json"}
    html = build_report(result).html
    # Names of namespaces and fetches alike: there is none.
    assert "http://" not in html
    assert "https://" not in html
    assert "url(" not in html
    assert "default-src 'none'" in html


def test_what_a_file_is_called_cannot_run(page, result):
    assert len([tag for tag, _ in page.tags if tag == "script"]) == 2
    # What is embedded as JSON holds no tag at all; what is shown is escaped.
    assert "<" not in page.scripts[0]
    html = build_report(result, title=HOSTILE).html
    assert "<script>alert" not in html
    assert html.count("&lt;/script&gt;") >= 3


def test_every_curve_holds_the_numbers_of_the_scan(page, result, dataset):
    numbers = json.loads(page.scripts[0])
    chosen = dataset["posterior_quantile"].sel(quantile=0.5)
    for name, about in numbers["panels"].items():
        for curve in about["curves"]:
            if name.startswith("parameter_"):
                assert_allclose(curve["y"], chosen.sel(parameter=curve["label"]))
    ln_k = numbers["panels"]["bayes_factors"]["curves"][0]
    assert ln_k["label"] == "langevin over brownian"
    assert_allclose(ln_k["y"], dataset["log_bayes_factor"].sel(pair="langevin:brownian"))
    assert numbers["tau_text"] == ["1 h", "2 h", "4 h", "8 h"]
    for i, table in enumerate(numbers["tables"]):
        first = result.comparisons[i].evidences["brownian"]
        shown = with_error(first.log_evidence, first.log_evidence_err, 4)
        assert table["models"][0][:2] == ["brownian", shown]


def test_the_numbers_beside_it_are_all_of_them(result, dataset, tmp_path):
    html, table, numbers = write_report(result, tmp_path / "r.html", title="A <title>")
    assert "<h1>A &lt;title&gt;</h1>" in html.read_text()
    records = json.loads(numbers.read_text())
    with table.open() as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == len(records)
    assert (table.name, numbers.name) == ("r.report.csv", "r.report.json")
    # The three belong together, and say so; another report has another id.
    (identity,) = {record["report"] for record in records} | {row["report"] for row in rows}
    assert f"report id {identity}." in html.read_text()
    _, _, other = write_report(
        replace(result, comparisons=result.comparisons[1:]), tmp_path / "other.html"
    )
    assert json.loads(other.read_text())[0]["report"] != identity
    for record in records:
        if record["field"] == "posterior_mean":
            label = f"{record['model']}.{record['parameter']}"
            expected = dataset["posterior_mean"].sel(parameter=label, tau=record["tau"])
            assert record["value"] == float(expected)
    with pytest.raises(DriftbayesError, match=r"must end in \.html, got 'r\.pdf'"):
        write_report(result, tmp_path / "r.pdf")


def test_a_scan_and_its_dataset_give_the_same_page(result, dataset):
    assert build_report(dataset).html == build_report(result).html


def test_the_verdict_comes_first_and_in_words(result):
    first, *rest = scan_verdict(result)
    assert first.startswith("Brownian is the most probable model at sampling times from 1 h to 8 h")
    assert any("consistent for tau from 1 h to 8 h" in sentence for sentence in rest)
    assert "run <code>driftbayes check</code> to test" in build_report(result).html


def test_a_change_of_the_best_model_along_tau_is_reported(result):
    first, *others = result.comparisons
    turned = replace(first, probabilities={"brownian": 1e-9, "langevin": 1 - 1e-9})
    first, second, *_ = scan_verdict(Scan((turned, *others)))
    assert first == (
        "Langevin is the most probable model at a sampling time of 1 h: its probability among "
        "these models is above 0.99."
    )
    assert second.startswith(
        "Brownian is the most probable model at sampling times from 2 h to 8 h"
    )


def test_the_command_that_repeats_it_is_whole(result):
    command = scan_command(result)
    assert command.startswith("driftbayes scan '</script>")
    assert "--taus 1,2,4,8 --models brownian,langevin" in command
    assert "--prior kappa=exponential:1" in command


def test_every_panel_is_described_and_drawn_inside_its_frame(result):
    for panel in scan_panels(result):
        svg = panel_svg(panel)
        assert 'role="img"' in svg
        assert f"<title>{panel.description}" in svg
        y = [float(v) for v in re.findall(r'cy="([-\d.]+)"', svg)]
        assert y
        assert min(y) >= 11
        assert max(y) <= 219


def test_logarithmic_scales_need_positive_values():
    x = np.array([1.0, 2.0, 4.0])
    panel = Panel(
        "a", "A", x, "x", "y", [Curve("c", "c", np.array([-1.0, np.nan, 3.0]))], ("log", "linear")
    )
    assert panel.drawn_scales == ["linear"]
    assert panel_svg(panel).count("<circle") == 2
    assert "nan" not in panel_svg(panel)
    single = Panel("a", "A", x[:1], "x", "y", [Curve("c", "c", np.array([2.0]))], ("log", "linear"))
    assert single.drawn_scales == ["log", "linear"]
    assert "nan" not in panel_svg(single)


UPRIGHT = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹−", "-0123456789-")


def number_of(text):
    found = re.fullmatch(r"(?:(.*?)·?)10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)", text)
    if found is None:
        return float(text.translate(UPRIGHT))
    front = found[1].translate(UPRIGHT)
    return float({"": "1", "-": "-1"}.get(front, front)) * 10.0 ** int(found[2].translate(UPRIGHT))


@pytest.mark.parametrize(
    ("low", "high", "scale"),
    [
        (0.1, 0.112, "linear"),
        (2.695e-4, 3.02e-4, "linear"),
        (4.6e-6, 5.4e-6, "log"),
        (0.0951, 0.1049, "log"),
        (1.2e5, 1.3e5, "linear"),
        (-3e-7, 5e-7, "linear"),
        (0.6, 2.2, "log"),
    ],
)
def test_ticks_differ_and_say_where_they_are(low, high, scale):
    axis = Axis(low, high, scale, 0.0, 100.0)
    places, texts = zip(*axis.ticks, strict=True)
    assert len(set(texts)) == len(texts) >= 2
    # What is written, with the power of ten of the label, lies where the tick is.
    power = re.search(r"10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)", axis.label("x"))
    factor = 10.0 ** int(power[1].translate(UPRIGHT)) if power else 1.0
    values = [number_of(text) for text in texts]
    assert_allclose(axis(np.array(values) * factor), places, atol=1e-3)


def test_texts_of_crowded_ticks_stand_apart():
    wide = Axis(60.0, 65_000.0, "log", 62.0, 346.0)
    assert [text for _, text in wide.ticks] == ["100", "1000", "10000"]
    short = Axis(1.0, 48.0, "log", 62.0, 346.0)
    assert [text for _, text in short.ticks] == ["1", "2", "5", "10", "20"]


def test_the_first_and_the_last_dot_lie_beside_the_frame():
    x, y = np.array([1.0, 2.0, 4.0]), np.array([1.0, 3.0, 2.0])
    dots = panel_svg(Panel("a", "A", x, "x", "y", [Curve("c", "c", y)]))
    places = [float(place) for place in re.findall(r'cx="([\d.]+)"', dots)]
    left, width = re.search(r'class="frame" x="(\d+)" y="\d+" width="(\d+)"', dots).groups()
    assert int(left) + 4 < min(places) < max(places) < int(left) + int(width) - 4
    line = panel_svg(Panel("a", "A", x, "x", "y", [Curve("c", "c", y, kind="plain")]))
    assert f'd="M{left}.0 ' in line


def test_no_line_ends_within_a_number_or_a_date():
    shown = _bound("k = 2.4e-5 m/s <b>, p < 0.005, 2024-05-01T00:11:04 to 2024-05-04").replace(
        "\u00a0", "_"
    )
    whole = '<span class="whole">{}</span>'
    dates = [whole.format(date) for date in ("2024-05-01T00:11:04", "2024-05-04")]
    number = whole.format("2.4e-5")
    assert shown == f"k_=_{number}_m/s_&lt;b&gt;, p_&lt;_0.005, {' to '.join(dates)}"
    # A number of many digits may be wider than a column.
    assert "<span" not in _bound("exponential:1.5461709453114139e-06")


def test_the_power_of_ten_stands_in_the_label():
    axis = Axis(2.6e-4, 3.1e-4, "linear", 0.0, 100.0)
    assert axis.label("γ (1/s)") == "γ (10⁻⁴ 1/s)"
    assert axis.label("density") == "density (10⁻⁴)"
    assert [text for _, text in axis.ticks] == ["2.6", "2.8", "3"]


def test_axes_have_the_units_of_the_text(result):
    in_seconds = replace(
        result,
        comparisons=tuple(
            replace(c, tau=3600.0 * c.tau, time_unit="s") for c in result.comparisons
        ),
    )
    panel = scan_panels(in_seconds)[0]
    assert panel.x_label == "sampling time τ (h)"
    assert_allclose(panel.x, [1, 2, 4, 8])
    assert "to 8 h" in scan_verdict(in_seconds)[0]


def test_every_section_with_curves_has_a_legend_that_is_printed(result):
    html = build_report(result).html
    section = html.partition('<section id="panels">')[2].partition("</section>")[0]
    legend = section.partition('<ul class="legend">')[2].partition("</ul>")[0]
    for name in ("brownian", "langevin"):
        assert f"</svg> {name}</li>" in legend
    # Backgrounds are not printed, lines are.
    assert legend.count("<line") == 2
    assert "background" not in legend
