"""What the trajectories add to a report: the numbers of the functions that make them."""

import json
import re
from dataclasses import replace
from html import escape

import numpy as np
import pytest
from numpy.testing import assert_allclose

from driftbayes import DriftbayesError, Trajectories, check_fit, displacements
from driftbayes._representation import number
from driftbayes.comparison import (
    ConsistentRange,
    Scan,
    make_hypotheses,
    prior_sensitivity,
    scan_hypotheses,
)
from driftbayes.comparison._dataset import hypotheses_of
from driftbayes.data._sampling import Cut
from driftbayes.report import build_report, examine, write_report
from driftbayes.report._examination import reference_tau_index
from driftbayes.report._page import verdict

REPLICAS = 100


@pytest.fixture(scope="module")
def tracks():
    rng = np.random.default_rng(3)
    x = np.cumsum(rng.normal(0, 1.0, (25, 41, 2)), axis=1)
    return Trajectories.from_arrays(
        x, dt=1.0, length_unit="km", time_unit="h", provenance={"source": "tracks.csv"}
    )


@pytest.fixture(scope="module")
def hypotheses():
    # Scales that six digits do not hold.
    return make_hypotheses(["brownian", "langevin"], u_rms=np.sqrt(2), timescale=1 / 3).hypotheses


@pytest.fixture(scope="module")
def scan(tracks, hypotheses):
    # Windows of one size: what is compiled for one sampling time serves the others.
    return scan_hypotheses(tracks, hypotheses, [1, 2, 4], cut=Cut(10))


@pytest.fixture(scope="module")
def dataset(scan):
    return scan.to_dataset()


@pytest.fixture(scope="module")
def found(tracks, scan):
    return examine(tracks, scan, n_replicas=REPLICAS)


@pytest.fixture(scope="module")
def report(scan, found):
    return build_report(scan, examination=found)


def test_a_scan_gives_its_hypotheses_back_to_the_last_bit(dataset, hypotheses):
    again = tuple(hypotheses_of(dataset).values())
    assert [one.name for one in again] == ["brownian", "langevin"]
    for one, other in zip(again, hypotheses, strict=True):
        for name, prior in one.priors.items():
            assert float(prior.scale) == float(other.priors[name].scale)


def test_the_page_shows_the_p_values_of_the_check(report, tracks, hypotheses):
    data = displacements(tracks, 1.0, n_tau=10)
    times = tracks.times[data.start_row]
    expected = check_fit(hypotheses, data, start_times=times, n_replicas=REPLICAS)
    table = re.search(r'<table id="p-values">.*?</table>', report.html, re.DOTALL).group()
    rows = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in re.findall(r"<tr>(.*?)</tr>", table)]
    shown = {row[0]: row[1:3] for row in rows if row}
    for quantity in expected.models["brownian"].quantities:
        values = [escape(model.p_cell(quantity.name)) for model in expected.models.values()]
        assert shown[quantity.words.removeprefix("the ")] == values


def test_the_page_shows_how_the_priors_move_the_verdict(report, found, tracks, hypotheses):
    expected = prior_sensitivity(
        hypotheses, displacements(tracks, 4.0, n_tau=10), factors=np.geomspace(1 / 16, 16, 9)
    )
    values = expected.log_bayes_factors["langevin:brownian"]
    assert_allclose(found.sensitivity[2].log_bayes_factors["langevin:brownian"], values)
    assert f"{number(values.min())} … {number(values.max())}" in report.html
    drawn = [r for r in report.records if r["field"].startswith("prior_sensitivity_2")]
    assert_allclose([r["value"] for r in drawn], values[0] - values[0, 4])
    assert_allclose([r["at"] for r in drawn], np.geomspace(1 / 16, 16, 9))
    # Each at its own sampling time, not all at that of the posteriors.
    assert {r["tau"] for r in drawn} == {4.0}


def test_posteriors_are_those_of_the_scan(found, dataset):
    for draws in found.draws:
        for i, name in enumerate(draws.names):
            known = dataset.sel(parameter=f"{draws.hypothesis.name}.{name}").isel(
                tau=found.reference
            )
            sd = float(known["posterior_sd"])
            # Resampled with replacement from 20 times as many: five of their standard errors.
            assert abs(draws.theta[:, i].mean() - float(known["posterior_mean"])) < 5 * sd / 31


def with_plain_spaces(html):
    return html.replace("\u00a0", " ")


def test_the_verdict_says_whether_the_best_model_explains_the_data(report):
    words = re.search(r'<div class="verdict">.*?</div>', report.html, re.DOTALL).group()
    # No line ends between a number and its unit.
    assert "1\u00a0h" in words
    words = with_plain_spaces(words)
    assert "Goodness of fit of brownian at τ = 1 h: nothing checked contradicts" in words
    assert "driftbayes check" not in words


def test_the_headline_says_that_no_model_explains_the_data(found, dataset):
    failed = {name: 0.004 for name in found.check.models}
    comparison = replace(found.check.comparison, fit_p_values=failed)
    bad = replace(found, check=replace(found.check, comparison=comparison))
    html = build_report(dataset, examination=bad).html
    words = re.search(r'<div class="verdict">\s*<p>.*?</p>', html, re.DOTALL).group()
    assert "Among the models compared, brownian is the most probable model at " in words
    told = "but none explains the data (goodness of fit p = 0.004) at τ = "
    assert told in with_plain_spaces(words)


def test_a_sampling_time_that_is_left_out_is_in_the_report_and_its_numbers(dataset):
    scan = replace(Scan.from_dataset(dataset), skipped={900.0: "no two positions; use a smaller"})
    report = build_report(scan)
    assert "Left out tau = 900" in with_plain_spaces(report.html)
    (record,) = [r for r in report.records if r["tau"] == 900.0]
    assert record["field"] == "left out: no two positions; use a smaller"
    assert record["value"] is None


def test_every_curve_is_in_the_numbers(report):
    embedded = re.search(r'id="numbers">(.*?)</script>', report.html, re.DOTALL).group(1)
    panels = json.loads(embedded)["panels"]
    fields = {record["field"].partition(":")[0] for record in report.records if record["at"]}
    drawn = {name for name, about in panels.items() if "at" in about}
    assert drawn == fields
    assert {"posterior_langevin.k", "joint_langevin", "fit_msd", "prior_sensitivity_0"} <= drawn


def test_quality_and_dependence_are_told(report):
    for text in (
        "25 in 2D, 1,025 points",
        "effective number of particles (τ = 1 h, 2 h, 4 h)",
        "no dependence between the",
        "no problems found",
    ):
        assert text in with_plain_spaces(report.html)


def test_the_signs_that_depend_on_the_priors_are_one_sentence(scan, found, monkeypatch):
    def sentences(pairs):
        changed = replace(found.sensitivity[0], log_bayes_factors=dict.fromkeys(pairs))
        monkeypatch.setattr(type(changed), "verdict_changes", lambda *_: True)
        return verdict(scan, replace(found, sensitivity={0: changed}))[-1]

    told = "The sign of ln K(a:b) at τ = 1 h depends on the priors."
    assert sentences(["a:b"]) == told
    told = "The signs of ln K(a:b), ln K(c:b) and ln K(c:a) at τ = 1 h depend on the priors."
    assert sentences(["a:b", "c:b", "c:a"]) == told


def test_other_trajectories_are_refused(dataset, tracks):
    other = Trajectories.from_arrays(np.zeros((3, 5, 2)).cumsum(axis=1) + 1.0, dt=1.0)
    with pytest.raises(DriftbayesError, match="these trajectories are not those of the scan"):
        examine(other, dataset)


def test_what_cannot_be_done_is_told_and_costs_nothing_else(tracks, dataset, monkeypatch):
    monkeypatch.setattr("driftbayes.report._examination._MAX_DISPLACEMENTS", 10)
    monkeypatch.setattr("driftbayes.report._examination._N_DRAWS", 0)
    found = examine(tracks, dataset)
    html = build_report(dataset, examination=found).html
    assert "Not computed: 250 displacements exceed the limit of 10 for replicas" in html
    assert "n_draws must be a whole number, 1 or more, got 0" in html
    assert "Sensitivity to the priors" in html
    assert "run <code>driftbayes check</code> to test" in html


def test_the_reference_is_the_shortest_tau_at_which_the_best_model_is_consistent(scan):
    assert reference_tau_index(scan) == 0

    def known(*low):
        again = replace(scan)
        span = {"tau_max": 4.0, "n_taus": 2, "value": 1.0, "sd": 0.1}
        ranges = None if not low else ConsistentRange(tau_min=low[0], **span)
        again.__dict__["consistency"] = {"brownian": {"kappa": ranges}, "langevin": {}}
        return again

    best = {c.best for c in scan.comparisons}
    assert best == {"brownian"}
    assert reference_tau_index(known(2.0)) == 1
    assert reference_tau_index(known()) == 1


def test_a_browser_reads_panels_that_are_not_along_tau_by_themselves(
    browser, dataset, found, tmp_path
):
    write_report(dataset, tmp_path / "r.html", examination=found)
    page = browser.new_page(viewport={"width": 1000, "height": 900})
    seen = []
    page.on("console", lambda message: seen.append(message.text))
    page.on("pageerror", lambda error: seen.append(str(error)))
    page.goto((tmp_path / "r.html").as_uri())
    panel = page.locator('svg[data-panel="fit_msd"]')
    panel.scroll_into_view_if_needed()
    box = panel.bounding_box()
    page.mouse.move(box["x"] + 0.95 * box["width"], box["y"] + 0.5 * box["height"])
    readout = panel.locator("xpath=..").locator(".readout").inner_text()
    one = found.check.models["brownian"].deviations["msd"]
    shown = float(readout.partition("data: ")[2])
    assert_allclose(shown, one.observed[-1] / one.band[1][-1], rtol=1e-3)
    # The slider and what belongs to it stay.
    assert page.locator("#tau").input_value() == "0"
    page.locator("#tau").fill("2")
    assert panel.locator("xpath=..").locator(".readout").inner_text() == readout
    assert page.locator("svg.tracks").count() == 1
    assert page.evaluate("document.documentElement.scrollWidth") <= 1000
    page.close()
    assert seen == []
