"""Forecasts in a report: search areas, and scores of forecasts from earlier times."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from driftbayes._representation import Panel, Table, describe, number, with_unit
from driftbayes.data._units import readable_unit
from driftbayes.prediction.regions import SearchRegions
from driftbayes.report._examination import Examination
from driftbayes.report._svg import page_colours
from driftbayes.verification._describe import score_panels


def forecast_panels(examination: Examination, tau: float) -> list[Panel]:
    """Return panels of the scores of forecasts, at the sampling time of the fits."""
    found = examination.backtest
    if found is None:
        return []
    return [
        replace(panel, name=f"forecast_{panel.name}", at_tau=tau) for panel in score_panels(found)
    ]


def forecast_tables(examination: Examination, models: Sequence[str]) -> dict[str, Any]:
    """Return cards, tables and colours of forecasts for the page.

    Args:
        examination: The examination.
        models: Models of the page, which keep their colours.
    """
    scores, regions = examination.backtest, examination.regions
    names = [] if scores is None else list(scores.ensembles)
    colours = page_colours(list(dict.fromkeys([*models, *names])))
    return {
        "forecasts": None if scores is None else describe(scores),
        "forecast_colours": {name: colours[name] for name in names},
        "search_areas": None if regions is None else region_table(regions),
    }


def region_table(regions: SearchRegions) -> Table:
    """Tabulate the areas of search regions: median and range over particles."""
    per_time, time = readable_unit(regions.horizons, regions.time_unit)
    per_length, length = readable_unit([float(np.sqrt(regions.areas.max()))], regions.length_unit)
    rows = []
    for h, horizon in enumerate(regions.horizons):
        cells = []
        for level in range(len(regions.levels)):
            areas = regions.areas[:, h, level] * per_length**2
            edges = " … ".join(number(edge, 3) for edge in (areas.min(), areas.max()))
            cells += [number(float(np.median(areas)), 3), edges]
        rows.append((number(horizon * per_time, 4), *cells))
    unit = f"{length}²" if length else ""
    heads = [with_unit("T", time)]
    for share in regions.levels:
        heads += [with_unit(f"{share:.0%} area".replace("%", " %"), unit), "range"]
    return Table(tuple(heads), tuple(rows), "r" * len(heads))


def region_records(regions: SearchRegions | None) -> list[tuple[str, str, float, float]]:
    """Return particle, quantity, time since the last position and area of every region."""
    if regions is None:
        return []
    return [
        (str(name), f"search_area_{100 * level:g}", float(horizon), float(regions.areas[p, h, i]))
        for p, name in enumerate(regions.ids)
        for h, horizon in enumerate(regions.horizons)
        for i, level in enumerate(regions.levels)
    ]
