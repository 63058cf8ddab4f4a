"""The report in a real browser: slider, panels, switches; nothing fetched, nothing complained."""

import json

import numpy as np
import pytest

from driftbayes import Trajectories
from driftbayes.comparison import make_hypotheses, scan_hypotheses
from driftbayes.report import write_report


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    rng = np.random.default_rng(0)
    x = np.cumsum(rng.normal(0, 1.0, (40, 81, 2)), axis=1)
    tracks = Trajectories.from_arrays(
        x, dt=1.0, length_unit="km", time_unit="h", provenance={"source": "tracks.csv"}
    )
    hypotheses = make_hypotheses(["brownian", "langevin"], u_rms=1.0, timescale=1.0).hypotheses
    dataset = scan_hypotheses(tracks, hypotheses, [1, 2, 4, 8]).to_dataset()
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(dataset, path)
    return path, dataset


@pytest.fixture
def page(browser, report):
    """The report, open; whatever it complained of or asked for is in `page.seen`."""
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    opened = context.new_page()
    opened.seen = []
    opened.on("console", lambda message: opened.seen.append(message.text))
    opened.on("pageerror", lambda error: opened.seen.append(str(error)))
    opened.on("request", lambda request: opened.seen.append(request.url))
    opened.goto(report[0].as_uri())
    yield opened
    context.close()


def test_nothing_is_fetched_and_nothing_complained_of(page, report):
    assert page.seen == [report[0].as_uri()]
    assert page.title() == "Dispersion in tracks.csv"


def test_the_slider_moves_every_panel_and_the_tables(page, report):
    dataset = report[1]
    for place in (0, 3):
        page.locator("#tau").fill(str(place))
        assert page.locator("#tau-text").inner_text() == f"{dataset['tau'].values[place]:g} h"
        cells = page.locator("#models-at tbody tr").nth(1).locator("td").all_inner_texts()
        assert cells[0] == "langevin"
        shown = float(cells[1].split(" ")[0])
        assert abs(shown - dataset["log_evidence"].values[1, place]) < 6e-5
        readout = page.locator("figure .readout").nth(0).inner_text()
        kappa = dataset["posterior_quantile"].sel(parameter="brownian.kappa", quantile=0.5)
        assert f"brownian.kappa: {float(f'{kappa.values[place]:.4g}'):g}" in readout
    cursors = page.eval_on_selector_all(".cursor", "all => all.map(c => c.getAttribute('x1'))")
    assert len(set(cursors)) == 1
    assert page.seen == [report[0].as_uri()]


def test_pointing_at_a_panel_chooses_the_nearest_sampling_time(page):
    panel = page.locator("svg.panel").nth(1)
    panel.scroll_into_view_if_needed()
    box = panel.bounding_box()
    page.mouse.move(box["x"] + 0.97 * box["width"], box["y"] + 0.5 * box["height"])
    assert page.locator("#tau").input_value() == "3"


def test_models_are_hidden_and_shown(page):
    curve = page.locator('g.curve[data-model="langevin"]').first
    assert curve.is_visible()
    page.locator('.controls input[value="langevin"]').uncheck()
    assert not curve.is_visible()
    assert "langevin" not in page.locator("figure .readout").nth(0).inner_text()
    page.locator('.controls input[value="langevin"]').check()
    assert curve.is_visible()


def test_the_scale_is_changed_by_its_button(page):
    figure = page.locator("figure").nth(0)
    button = figure.locator("button")
    assert button.inner_text() == "log"
    button.click()
    assert button.inner_text() == "linear"
    assert figure.locator('g[data-scale="linear"]').is_visible()
    assert not figure.locator('g[data-scale="log"]').is_visible()


def test_without_scripts_it_is_all_there(browser, report):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(report[0].as_uri())
    assert page.locator(".verdict p").first.is_visible()
    assert page.locator("g.curve").first.is_visible()
    assert not page.locator(".controls").is_visible()
    assert page.locator("#models-at tbody tr").count() == 2
    page.locator("summary", has_text="All 4 sampling times").click()
    assert page.locator("details h3", has_text="τ = 8 h").is_visible()
    context.close()


def test_it_fits_every_width_in_light_and_dark(page):
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (paper == "rgb(255, 255, 255)") == (scheme == "light")
        for width in (360, 800, 1400):
            page.set_viewport_size({"width": width, "height": 800})
            assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_numbers_on_the_page_are_those_beside_it(page, report):
    beside = json.loads(report[0].with_suffix(".report.json").read_text())
    embedded = page.evaluate("JSON.parse(document.getElementById('numbers').textContent)")
    chances = {
        (record["model"], record["tau"]): record["value"]
        for record in beside
        if record["field"] == "probability"
    }
    for curve in embedded["panels"]["probabilities"]["curves"]:
        for tau, value in zip([1.0, 2.0, 4.0, 8.0], curve["y"], strict=True):
            assert chances[curve["label"], tau] == value
