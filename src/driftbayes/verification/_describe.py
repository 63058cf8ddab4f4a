"""Describe scores of ensembles."""

import numpy as np

from driftbayes._representation import (
    Card,
    Curve,
    Panel,
    Table,
    describe,
    estimate_cell,
    number,
    summarise,
    with_unit,
)
from driftbayes._typing import FloatArray
from driftbayes.data._sampling import evenly_spaced
from driftbayes.data._units import readable_unit
from driftbayes.verification._scores import N_BINS, EnsembleScores

_MAX_LEADS = 6
# Coverages are shown in per cent.
_COVERAGES = {"coverage_50": 100.0, "coverage_95": 100.0}


@summarise.register
def _(result: EnsembleScores) -> str:
    return result.verdict


@describe.register
def describe_scores(result: EnsembleScores) -> Card:
    """Describe which ensemble predicts best, and whether its spread is calibrated."""
    per_time, time = readable_unit(result.leads, result.time_unit)
    first, last = (number(result.leads[i] * per_time, 4) for i in (0, -1))
    units = {"drifters": "drifters", "starts": "times of start"}[result.errors]
    facts = (
        ("drifters", f"{result.n_drifters:,}; {result.n_forecasts:,} forecasts"),
        ("lead times", f"{len(result.leads)}, from {first} to {last} {time}".rstrip()),
        ("errors", f"bootstrap over {result.n_units:,} {units}"),
    )
    warnings = list(result.notes)
    if result.n_units <= 5:
        warnings.append(f"{result.n_units} {units}: standard errors by bootstrap are too small")
    tables = (_overall(result), _by_lead(result))
    return Card("Ensemble scores", result.verdict, facts, (), tables, tuple(warnings))


def _length_unit(result: EnsembleScores) -> tuple[float, str]:
    """Return a readable unit of energy scores, and the factor that converts to it."""
    sizes = [ensemble.means["energy_score"][0] for ensemble in result.ensembles.values()]
    return readable_unit(sizes, result.length_unit)


def _overall(result: EnsembleScores) -> Table:
    per, unit = _length_unit(result)
    heads = (
        *("ensemble", with_unit("energy score", unit), "above best", "log score", "50 %", "95 %"),
        *("spread/error", "variogram", "Liu–Weisberg", "dispersion"),
    )
    factors = {"log_score": 1.0, **_COVERAGES, "spread_ratio": 1.0, "variogram_score": 1.0}
    factors["liu_weisberg_skill"] = 1.0
    rows = []
    for score in result.ensembles.values():
        energy = estimate_cell(*score.means["energy_score"], per)
        behind = "best" if score.name == result.best else estimate_cell(*score.behind, per)
        cells = [estimate_cell(*score.means[name], factor) for name, factor in factors.items()]
        rows.append((score.name, energy, behind, *cells, score.dispersion))
    title = "Over all lead times; energy and variogram scores: smaller is better"
    return Table(heads, tuple(rows), "l" + "r" * 8 + "l", title=title)


def _by_lead(result: EnsembleScores) -> Table:
    per_time, time = readable_unit(result.leads, result.time_unit)
    per, unit = _length_unit(result)
    factors = {"energy_score": per, "log_score": 1.0, **_COVERAGES}
    rows = []
    for i in evenly_spaced(len(result.leads), _MAX_LEADS):
        for ensemble in result.ensembles.values():
            cells = [
                estimate_cell(ensemble.by_lead[score][0][i], ensemble.by_lead[score][1][i], factor)
                for score, factor in factors.items()
            ]
            rows.append((number(result.leads[i] * per_time, 4), ensemble.name, *cells))
    heads = (
        *(with_unit("lead", time), "ensemble", with_unit("energy score", unit), "log score"),
        *("50 %", "95 %"),
    )
    title = "By lead time; 50 % and 95 %: observations within the regions, in per cent"
    return Table(heads, tuple(rows), "rl" + "r" * 4, title=title, keys=2)


def score_panels(result: EnsembleScores) -> list[Panel]:
    """Describe energy score and coverage against lead time, and the rank histogram."""
    per_time, time = readable_unit(result.leads, result.time_unit)
    x_label = with_unit("lead time", time)
    per, length = _length_unit(result)

    def curve(name: str, y: FloatArray, error: FloatArray, top: float = np.inf) -> Curve:
        low, high = y - 1.96 * error, y + 1.96 * error
        if np.isfinite(top):
            low, high = np.clip(low, 0.0, top), np.clip(high, 0.0, top)
        return Curve(name, name, y, low, high)

    def by_lead(score: str, title: str, label: str, factor: float, *reference: float) -> Panel:
        top = factor if score in _COVERAGES else np.inf
        curves = []
        for name, ensemble in result.ensembles.items():
            y, error = ensemble.by_lead[score]
            curves.append(curve(name, factor * y, factor * error, top))
        axes = result.leads * per_time, x_label, label
        return Panel(score, title, *axes, curves, reference=reference, x_scale="linear")

    middle = (np.arange(N_BINS) + 0.5) / N_BINS
    ranks = Panel(
        name="ranks",
        title="Rank: rising, spread too small; falling, too large",
        x=middle,
        x_label="rank, from the centre outwards",
        y_label="share of observations",
        curves=[curve(n, e.ranks, e.rank_errors) for n, e in result.ensembles.items()],
        reference=(1 / N_BINS,),
        x_scale="linear",
    )
    energy = "Energy score: smaller is better", with_unit("energy score", length)
    return [
        by_lead("energy_score", *energy, per),
        by_lead("coverage_50", "Within the 50 % region", "per cent", 100.0, 50.0),
        by_lead("coverage_95", "Within the 95 % region", "per cent", 100.0, 95.0),
        ranks,
    ]
