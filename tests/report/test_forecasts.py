"""Forecasts in a report: search areas on the map, and scores of earlier forecasts."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

import driftbayes as db
from driftbayes.cli.main import main
from driftbayes.prediction.regions import search_regions
from driftbayes.report import build_report, examine
from driftbayes.report._forecasts import forecast_tables, region_table
from driftbayes.report._page import verdict
from driftbayes.report._svg import page_colours
from driftbayes.report._tracks import trajectories_svg
from driftbayes.workflow import _forecasts as forecasts
from driftbayes.workflow._forecasts import with_forecasts

SCALES = db.Scales(u_rms=0.7, time=2.0)
MEMBERS = 60


@pytest.fixture(autouse=True, scope="module")
def _few_members():
    """And few origins: regions and scores are tested in tests/prediction and verification."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forecasts, "REGION_MEMBERS", MEMBERS)
        patch.setattr(forecasts, "_N_ORIGINS", 2)
        yield


def simulated(n_dim, n_particles=6):
    return db.simulate(
        *("langevin", {"gamma": 0.5, "k": 1.0}),
        **{"tau": 0.5, "n_particles": n_particles, "n_steps": 60, "n_dim": n_dim, "seed": 1},
    )


@pytest.fixture(scope="module")
def made(_few_members):
    tracks = simulated(2)
    scan = db.scan(tracks, [0.5], scales=SCALES)
    found = examine(tracks, scan, n_replicas=0)
    more = with_forecasts(found, scan, "1,2", scales=SCALES, members=20, n_draws=50)
    return tracks, scan, found, more


@pytest.mark.slow
def test_the_page_shows_areas_and_scores(made):
    _, scan, found, more = made
    page = build_report(scan, examination=more)
    assert 'id="forecasts"' in page.html
    assert 'id="search-areas"' in page.html
    assert "persistence" in page.html
    assert 'id="forecasts"' not in build_report(scan, examination=found).html
    assert any(text.startswith("Forecasts from earlier times: ") for text in verdict(scan, more))


def test_all_numbers_are_in_the_files(made):
    _, scan, _, more = made
    records = build_report(scan, examination=more).records
    areas = {
        (r["parameter"], r["at"], r["field"]): r["value"]
        for r in records
        if r["field"].startswith("search_area")
    }
    assert len(areas) == 6 * 2 * 2
    assert_allclose(areas["3", 2.0, "search_area_95"], more.regions.areas[3, 1, 1])
    for name, own in more.backtest.ensembles.items():
        scores = [
            r["value"]
            for r in records
            if r["model"] == name and r["field"] == f"forecast_energy_score: {name}"
        ]
        assert_allclose(scores, own.by_lead["energy_score"][0])


def test_a_model_has_one_colour_on_the_page_and_shares_it_with_no_ensemble(made):
    *_, more = made
    models = ["brownian", "langevin", "second_order", "matern"]
    own = page_colours(models)
    shown = forecast_tables(more, models)["forecast_colours"]
    assert list(shown) == list(more.backtest.ensembles)
    assert {name: shown[name] for name in ("brownian", "langevin")}.items() <= own.items()
    assert {shown[name] for name in shown if name not in own}.isdisjoint(own.values())


def test_areas_are_those_of_predict(made):
    """The same draws from the posteriors and the same seed: the same members, to rounding."""
    tracks, _, _, more = made
    n_draws = len(more.draws[0])
    forecast = db.predict(tracks, 0.5, [1.0, 2.0], scales=SCALES, n_draws=n_draws, seed=0)
    for own, theirs in zip(more.draws, forecast.draws, strict=True):
        assert_allclose(own.theta, theirs.theta, rtol=1e-12)
    known = search_regions(forecast.particles(MEMBERS))
    assert_allclose(more.regions.areas, known.areas, rtol=1e-9)
    assert_allclose(more.regions.polygons, known.polygons, rtol=1e-9, atol=1e-9)
    # The seed is that of the members: others give other areas.
    other = search_regions(replace(forecast, seed=1).particles(MEMBERS)).areas
    assert np.abs(np.log(other / known.areas)).max() > 0.01


def test_the_map_holds_the_regions(made):
    tracks, _, _, more = made
    bare, drawn = trajectories_svg(tracks), trajectories_svg(tracks, more.regions)
    assert bare.count("region") == 0
    assert drawn.count('class="track-') - bare.count('class="track-') == 6 * 2 * 2
    frame = {"x": (62, 446), "y": (12, 318)}
    for outline in re.findall(r'region \w+" d="M([^"]+)Z"', drawn):
        points = np.array([pair.split() for pair in outline.split("L")], float)
        for values, (low, high) in zip(points.T, frame.values(), strict=True):
            assert low <= values.min() <= values.max() <= high


def test_of_many_trajectories_only_the_last_regions_are_drawn():
    tracks = simulated(2, 10)
    how = {"scales": SCALES, "models": "brownian", "n_draws": 50}
    regions = search_regions(db.predict(tracks, 0.5, [1.0, 2.0], **how).particles(50))
    assert trajectories_svg(tracks, regions).count(" inner") == 10


def test_what_cannot_be_drawn_is_told_and_the_scores_stay():
    tracks = simulated(1)
    scan = db.scan(tracks, [0.5], models="brownian", scales=SCALES)
    found = examine(tracks, scan, n_replicas=0)
    more = with_forecasts(found, scan, "1", scales=SCALES, members=10, n_draws=50)
    assert more.regions is None
    assert more.backtest is not None
    assert "two dimensions" in more.skipped["forecasts"]
    assert "two dimensions" in build_report(scan, examination=more).html
    # In the terminal too, for a reader who asked for forecasts.
    (told,) = (text for text in verdict(scan, more) if text.startswith("Search areas were not"))
    assert "two dimensions" in told
    alone = replace(more, backtest=None)
    assert any(text.startswith("Forecasts were not computed: ") for text in verdict(scan, alone))


def test_areas_are_in_the_unit_of_the_largest(made):
    *_, more = made
    small, large = (np.full((6, 1, 2), area) for area in (1e5, 6e7))
    regions = replace(
        more.regions, areas=np.concatenate([small, large], 1), length_unit="m", time_unit="h"
    )
    table = region_table(regions)
    assert table.columns[1] == "50 % area (km²)"
    assert [row[1] for row in table.rows] == ["0.1", "60"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--forecast", "1", "--brief"], "--brief and --forecast exclude each other"),
        (["--forecast", "soon"], "--forecast"),
    ],
)
def test_the_command_says_what_it_needs(tmp_path, capsys, words, message):
    simulated(2).to_dataframe().to_csv(tmp_path / "t.csv", index=False)
    assert main(["report", str(tmp_path / "t.csv"), *words]) == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_the_command_writes_them(tmp_path, capsys):
    simulated(2).to_dataframe().to_csv(tmp_path / "t.csv", index=False)
    out = tmp_path / "r.html"
    words = ["report", str(tmp_path / "t.csv"), "--taus", "0.5", "--replicas", "0", "-o", str(out)]
    words += ["--models", "brownian", "--forecast", "1"]
    assert main(words) == 0
    assert "Forecasts from earlier times" in capsys.readouterr().out
    assert 'id="forecasts"' in out.read_text()
    numbers = json.loads((tmp_path / "r.report.json").read_text())
    assert any(record["field"] == "search_area_50" for record in numbers)
